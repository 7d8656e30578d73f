"""Speed that more expensive machines give for their price."""

import dataclasses
from types import SimpleNamespace
from typing import cast

from advisor.workstation.knee import knee, knee_words, steps
from advisor.workstation.plan import Build


def machine(name: str, usd: float, speed: float | None) -> Build:
    run = None if speed is None else SimpleNamespace(decode_tokens_per_s=SimpleNamespace(value=speed))
    return cast(Build, SimpleNamespace(name=name, total_usd=usd, performance=run, is_used=False))


BUILDS = [
    machine("dear", 30_000, 111),
    machine("good", 11_000, 100),
    machine("small", 4_000, 40),
    machine("beaten", 12_000, 90),
    machine("too small", 1_000, None),
]


def test_steps_leave_out_what_another_machine_beats() -> None:
    found = steps(BUILDS)
    assert [step.name for step in found] == ["small", "good", "dear"]
    assert found[0].more_usd == 0
    assert found[-1].words == "+11 % speed for +$19,000 (dear)"


def test_the_knee_is_where_money_stops_buying_speed() -> None:
    best = knee(steps(BUILDS))
    assert best is not None
    assert best.name == "good"
    assert (
        knee_words(steps(BUILDS)) == "The knee: good for $11,000; beyond it +11 % speed for +$19,000 (dear)."
    )
    assert knee(()) is None
    assert knee_words(steps(BUILDS[1:2])) == ""


def test_where_speed_follows_money_nothing_is_beyond_the_knee() -> None:
    found = steps([machine("one", 1_000, 10), machine("two", 2_000, 20)])
    assert "up to two" in knee_words(found)
    assert dataclasses.asdict(found[1])["more_speed_fraction"] == 1.0
