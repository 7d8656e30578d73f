"""Changes that would alter the answer are stated in figures that follow from it."""

import datetime
import math

import pytest

from advisor.decide import changes
from advisor.decide.measure import SIGMA, Stage
from advisor.decide.race import RIVAL_SIGMAS
from advisor.decide.recommend import recommend
from advisor.decide.scenario import Constraints, Objectives, Scenario, Traffic


def _scenario(*accelerators: str) -> Scenario:
    return Scenario(
        model="llama-3.1-8b",
        traffic=Traffic(mean_input_tokens=512, mean_output_tokens=64),
        constraints=Constraints(accelerators=accelerators, engines=("vllm",)),
        as_of=datetime.date(2026, 11, 20),
    )


def test_the_break_even_price_makes_both_options_cost_the_same() -> None:
    found = recommend(_scenario("h100-sxm", "l40s"))
    first, second = found.options
    sentence = next(
        line
        for line in found.what_would_change
        if line.startswith(f"{second.machine.accelerator} wins below")
    )
    break_even = float(sentence.split("$")[1].split()[0])
    cost = (
        second.served.usd_per_million_tokens.value
        * break_even
        / (second.bill.usd_per_hour / second.machine.num_accelerators)
    )
    assert cost == pytest.approx(first.served.usd_per_million_tokens.value, rel=0.02)


def test_names_the_cheapest_option_with_kernels_of_its_own() -> None:
    found = recommend(_scenario("mi300x", "h100-sxm"))
    if found.options[0].served.usd_per_million_tokens.basis == "assumed":
        assert "h100-sxm" in found.what_would_change[0]
    else:
        assert "related hardware" not in " ".join(found.what_would_change)


@pytest.mark.parametrize("words", ["p99", "four-bit"])
def test_a_hint_costs_what_it_says_when_it_is_followed(words: str) -> None:
    asked = _scenario("b200-sxm").model_copy(update={"model": "llama-3.1-70b"})
    if words == "p99":
        asked = asked.model_copy(update={"objectives": Objectives(tpot_p99_s=0.014)})
    found = recommend(asked)
    sentence = next(line for line in found.what_would_change if line.startswith(words))
    before, after = (float(part.split()[0]) for part in sentence.split("option 1 $")[1].split(" to $"))
    assert before == pytest.approx(found.options[0].served.usd_per_million_tokens.value, rel=0.01)
    assert after <= 0.97 * before
    first = found.options[0]
    if words == "p99":
        limit = float(sentence.split("within ")[1].split()[0])
        field = "tpot_p99_s" if "TPOT" in sentence else "ttft_p99_s"
        changed = {"objectives": asked.objectives.model_copy(update={field: limit})}
    else:
        dtype = sentence.split("--precision ")[1].split(",")[0]
        changed = {"constraints": asked.constraints.model_copy(update={"precisions": (dtype,)})}
    again = recommend(asked.model_copy(update=changed)).options[0]
    assert again.served.usd_per_million_tokens.value <= after * 1.06
    assert first.layout.weight_dtype != again.layout.weight_dtype or words == "p99"


def test_no_hint_where_nothing_is_gained() -> None:
    """One replica carries the load: a looser limit or lighter weights save no replica."""
    asked = _scenario("h100-sxm")
    traffic = asked.traffic.model_copy(update={"rate_per_s": 0.5})
    found = recommend(asked.model_copy(update={"traffic": traffic}))
    assert found.options[0].layout.num_replicas == 1
    assert not any("option 1 $" in line for line in found.what_would_change)


def test_a_lever_is_held_to_the_loads_at_which_replicas_are_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two replicas carry a load: whether one is enough is tried at what it would carry, with headroom, and whether two
    are at theirs; where neither holds, the highest load is looked for."""
    asked = _scenario("l4")
    traffic = asked.traffic.model_copy(update={"rate_per_s": 16.0})
    found = recommend(asked.model_copy(update={"traffic": traffic, "levers": ("none",)})).options[0]
    count = found.layout.num_replicas
    assert count > 1
    tried = list[tuple[str, float]]()

    class Refusing:
        """Measurements of a replica that holds no load."""

        bound_per_s = 1e9

        def load_from(self, load: float) -> float:
            return load

        def holds(self, load: float, stage: Stage = "confirmed") -> None:
            tried.append((stage, load))

        def capacity(self, stage: Stage) -> None:
            tried.append((stage, 0.0))

    monkeypatch.setattr(changes, "measurements_of", lambda *_: Refusing())
    recommend(asked.model_copy(update={"traffic": traffic}))
    needed = 16.0 / 0.8
    possible = math.exp(
        -RIVAL_SIGMAS * SIGMA["screened"]
    )  # short runs do not exclude one replica before that
    assert tried[:3] == [
        ("screened", pytest.approx(possible * needed / (count - 1))),
        ("confirmed", pytest.approx(needed / count)),
        ("confirmed", 0.0),
    ]
