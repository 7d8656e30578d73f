"""What would change the answer is said in figures that follow from it."""

import datetime

import pytest

from advisor.recommend.recommend import recommend
from advisor.recommend.scenario import Constraints, Scenario, Traffic


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
        line for line in found.what_would_change if line.startswith(f"{second.accelerator} wins below")
    )
    break_even = float(sentence.split("$")[1].split()[0])
    cost = second.usd_per_million_tokens.value * break_even / (second.usd_per_hour / second.num_accelerators)
    assert cost == pytest.approx(first.usd_per_million_tokens.value, rel=0.02)


def test_names_the_cheapest_option_with_kernels_of_its_own() -> None:
    found = recommend(_scenario("mi300x", "h100-sxm"))
    if found.options[0].usd_per_million_tokens.basis == "assumed":
        assert "h100-sxm" in found.what_would_change[0]
    else:
        assert "related hardware" not in " ".join(found.what_would_change)
