"""Speed that more expensive machines give for their price."""

import dataclasses
from types import SimpleNamespace
from typing import cast

import pytest

from advisor.workstation.knee import knee, knee_words, steps
from advisor.workstation.plan import Build


def machine(name: str, usd: float, speed: float | None) -> Build:
    run = None if speed is None else performance(speed)
    return cast(Build, SimpleNamespace(name=name, total_usd=usd, performance=run, is_used=False))


def performance(speed: float, num: int = 1, elsewhere: float | None = None) -> SimpleNamespace:
    def rate(value: float) -> SimpleNamespace:
        return SimpleNamespace(value=value, basis="assumed")

    others = () if elsewhere is None else (SimpleNamespace(request_tokens_per_s=elsewhere),)
    run = SimpleNamespace(tensor_parallel=num, request_tokens_per_s=speed, engine="vllm")
    return SimpleNamespace(decode_tokens_per_s=rate(speed), run=run, other_runs=others)


@pytest.mark.parametrize(("accelerator", "best_name"), [("arc-b580", "single"), ("rtx-3060-12gb", "pair")])
def test_unmeasured_tensor_parallelism_makes_the_knee_on_nvidia_cards_alone(
    accelerator: str, best_name: str
) -> None:
    cards = SimpleNamespace(cards=SimpleNamespace(accelerators=(accelerator,)))
    pair = SimpleNamespace(
        name="pair", total_usd=720, is_used=False, machine=cards, performance=performance(29, 2, 18)
    )
    best = knee(steps([machine("small", 570, 21), cast(Build, pair), machine("single", 940, 32)]))
    assert best is not None
    assert best.name == best_name


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
    assert found[-1].words_beyond(found[1]) == "+11 % speed for +$19,000 (dear)"


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
    assert knee_words(found) == "No machine here that costs more than two is faster."
    assert knee_words(found, [machine("of second-hand parts", 1_500, 30)]) == ""
    assert dataclasses.asdict(found[1])["more_speed_fraction"] == 1.0


def test_the_gain_beyond_the_knee_is_that_of_the_speeds_by_which_rows_are_ranked() -> None:
    cards = SimpleNamespace(cards=SimpleNamespace(accelerators=("arc-b580",)))
    pairs = [
        SimpleNamespace(
            name=name, total_usd=usd, is_used=False, machine=cards, performance=performance(speed, 2, other)
        )
        for name, usd, speed, other in (("slow", 1_000, 10, 8), ("fast", 1_300, 16, 8.01))
    ]
    words = knee_words(steps(cast(list[Build], pairs)))
    assert words.endswith("beyond it +60 % speed, if what is not measured holds, for +$300 (fast).")
