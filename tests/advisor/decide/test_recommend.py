"""The whole answer on a few accelerators: ranks, reasons, replay, notes; and what it never imports."""

import dataclasses
import datetime
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog.errors import InfeasibleError, UnknownNameError
from advisor.catalog.ownership import ownership
from advisor.decide.decision import Decision
from advisor.decide.option import Option
from advisor.decide.reason import DoesNotFit, LongPrompts, NotForSale, OverBudget, most_common
from advisor.decide.recommend import recommend
from advisor.decide.scenario import Constraints, Objectives, Scenario, Traffic

DAY = datetime.date(2026, 11, 20)
ROOT = Path(__file__).resolve().parents[3]
GPUS = ("l4", "l40s", "h100-sxm", "sohu")
TRAFFIC = Traffic(mean_input_tokens=300, mean_output_tokens=50, input_sigma=0.4, output_sigma=0.4)


def scenario(**changes: Any) -> Scenario:
    constraints = Constraints(
        **({"accelerators": GPUS, "engines": ("vllm",)} | changes.pop("constraints", {}))
    )
    traffic = TRAFFIC.model_copy(update=changes.pop("traffic", {}))
    return Scenario(model="llama-3.1-8b", traffic=traffic, constraints=constraints, as_of=DAY, **changes)


@pytest.fixture(scope="module")
def answer() -> Decision:
    return recommend(scenario(top=2))


def test_options_are_ranked_and_the_rest_has_reasons(answer: Decision) -> None:
    costs = [option.served.usd_per_million_tokens.value for option in answer.options]
    assert costs == sorted(costs)
    assert [option.rank for option in answer.options] == [1, 2]
    shown = {option.machine.accelerator for option in answer.options}
    rejected = {entry.accelerator: entry.reason for entry in answer.rejected}
    assert shown | set(rejected) == set(GPUS)
    assert not shown & set(rejected)
    assert all(rejected.values())
    # What is listed without figures is rejected with the reason of its record.
    assert "sohu" in rejected
    assert answer.counts.num_simulated <= answer.counts.num_modelled <= answer.counts.num_candidates


def test_figures_of_an_option_agree_with_each_other(answer: Decision) -> None:
    for option in answer.options:
        tokens_per_h = option.served.total_tokens_per_s.value * 3600.0
        assert option.served.usd_per_million_tokens.value == pytest.approx(
            option.bill.usd_per_hour / tokens_per_h * 1e6
        )
        assert option.served.usd_per_million_output_tokens.value == pytest.approx(
            option.served.usd_per_million_tokens.value * 350 / 50
        )
        assert option.served.output_tokens_per_s.value == pytest.approx(
            50 * option.served.requests_per_s.value
        )
        assert option.served.ttft_s["p99"].value <= 2.0
        assert option.served.tpot_s["p99"].value <= 0.1
        assert 0 < option.served.utilization_fraction <= 1
        assert option.served.energy_j_per_token is not None
        assert option.served.power_w is not None
        assert option.served.energy_j_per_token.value == pytest.approx(
            option.served.power_w.value / option.served.total_tokens_per_s.value
        )
        per_replica = (
            option.layout.tensor_parallel * option.layout.pipeline_parallel * option.layout.data_parallel
        )
        assert option.machine.num_accelerators >= option.layout.num_replicas * per_replica
        used = sum(value for name, value in option.explained.memory_bytes.items() if name != "total_bytes")
        assert used <= option.explained.memory_bytes["total_bytes"]
        assert option.started.command.startswith("vllm serve ")
        assert option.explained.quality_note
        for quantity in (
            option.served.usd_per_million_tokens,
            option.served.requests_per_s,
            *option.served.ttft_s.values(),
        ):
            assert quantity.low < quantity.value < quantity.high


def test_variants_are_of_the_same_accelerator_and_dearer_unless_the_entry_is_safer(answer: Decision) -> None:
    for option in answer.options:
        for variant in option.variants:
            assert variant.machine.accelerator == option.machine.accelerator
            costs = [each.served.expected_usd_per_million_tokens for each in (option, variant)]
            is_cheaper = variant.role == "cheapest_if_it_holds"
            assert (costs[1] < costs[0]) is is_cheaper
            assert not is_cheaper or option.served.holds == "likely"


def without_clocks(found: Decision) -> Decision:
    return dataclasses.replace(found, counts=dataclasses.replace(found.counts, wall_s=0.0))


def test_the_same_question_has_the_same_answer(answer: Decision) -> None:
    assert without_clocks(recommend(scenario(top=2))) == without_clocks(answer)


def test_another_seed_moves_figures_a_little(answer: Decision) -> None:
    other = recommend(scenario(top=2, seed=5))
    for mine, theirs in zip(answer.options, other.options, strict=True):
        assert mine.machine.accelerator == theirs.machine.accelerator
        assert theirs.served.usd_per_million_tokens.value == pytest.approx(
            mine.served.usd_per_million_tokens.value, rel=0.2
        )


def test_a_given_rate_is_carried_and_idle_time_is_paid() -> None:
    found = recommend(scenario(top=1, traffic={"rate_per_s": 0.25}))
    (option,) = found.options
    assert option.served.requests_per_s.value == 0.25
    assert option.served.utilization_fraction < 0.6
    assert "0.25 requests/s" in found.headline
    busier = recommend(scenario(top=1, traffic={"rate_per_s": 2.0})).options[0]
    assert busier.served.usd_per_million_tokens.value < option.served.usd_per_million_tokens.value
    assert busier.bill.usd_per_hour >= option.bill.usd_per_hour


def test_spot_terms_are_other_prices() -> None:
    found = recommend(scenario(top=1, constraints={"terms": ("spot",), "accelerators": ("h100-sxm",)}))
    assert found.options[0].offer.term == "spot"


def test_own_hardware_costs_its_electricity() -> None:
    found = recommend(scenario(constraints={"own": ((2, "l4"),), "accelerators": ()}))
    (option,) = found.options
    assert (option.machine.accelerator, option.offer, option.machine.num_accelerators) == ("l4", None, 2)
    known = ownership(DAY)
    assert option.served.power_w is not None
    assert option.bill.usd_per_hour == pytest.approx(known.energy_usd_per_hour(option.served.power_w.value))
    assert option.bill.usd_per_hour < known.energy_usd_per_hour(2 * 72.0)
    assert [line.what for line in option.bill.lines] == ["electricity"]
    assert any("electricity" in note for note in found.notes)
    assert "run your own 2 × NVIDIA L4" in found.headline
    with pytest.raises(InfeasibleError) as caught:
        recommend(
            scenario(constraints={"own": ((2, "l4"),), "accelerators": ()}, traffic={"rate_per_s": 1000.0})
        )
    assert "hardware that is there" in caught.value.why


def test_what_nothing_satisfies_is_refused_with_reasons() -> None:
    with pytest.raises(InfeasibleError, match=r"p99 TPOT 0\.1 ms") as caught:
        recommend(scenario(objectives=Objectives(tpot_p99_s=1e-4)))
    assert caught.value.exit_code == 3
    assert "datasheet limits allow no p99 TPOT below" in caught.value.why
    assert "--tpot-p99" in caught.value.fix
    with pytest.raises(InfeasibleError) as caught:
        recommend(scenario(objectives=Objectives(budget_usd_per_hour=0.01)))
    assert "costs more than the budget" in caught.value.why


@pytest.mark.parametrize(
    "changes",
    [
        {"constraints": {"providers": ("no-such-cloud",)}},
        {"constraints": {"accelerators": ("h1000",)}},
    ],
)
def test_unknown_names_are_errors(changes: dict[str, Any]) -> None:
    with pytest.raises(UnknownNameError):
        recommend(scenario(**changes))


def test_old_prices_are_a_warning() -> None:
    late = scenario(top=1).model_copy(update={"as_of": datetime.date(2027, 6, 1)})
    found = recommend(late)
    assert any("older than 30 days" in warning for warning in found.warnings)
    assert found.options[0].offer.age_days > 30


def test_progress_is_told(answer: Decision) -> None:
    told: list[str] = []
    recommend(scenario(top=1), progress=told.append)
    assert told
    assert all("llama-3.1-8b" in line for line in told)


def test_sentences_on_what_would_change(answer: Decision) -> None:
    first, second = answer.options
    ratio = first.served.usd_per_million_tokens.value / second.served.usd_per_million_tokens.value
    break_even = second.bill.usd_per_hour / second.machine.num_accelerators * ratio
    assert f"{second.machine.accelerator} wins below ${break_even:.2f}" in answer.what_would_change[0]
    assert not any("were not considered" in sentence for sentence in answer.what_would_change)
    asked: Option = recommend(scenario(top=1, constraints={"precisions": ("fp8",)})).options[0]
    assert asked.layout.weight_dtype == "fp8"


def test_how_sure_the_first_option_is_cheaper(answer: Decision) -> None:
    """Surer than two intervals laid side by side, and the surer the dearer the other."""
    first, second = answer.options
    (found,) = answer.comparisons
    assert (found.rank, found.accelerator) == (2, second.machine.accelerator)
    costs = [option.served.usd_per_million_tokens for option in (first, second)]
    expected = second.served.expected_usd_per_million_tokens / first.served.expected_usd_per_million_tokens
    assert found.usd_ratio.value == pytest.approx(expected)
    assert 0.5 <= found.chance_first_is_cheaper < 1.0
    if found.pair_class == "accelerator":
        apart = (costs[1].high / costs[0].low) / (costs[1].low / costs[0].high)
        assert found.usd_ratio.high / found.usd_ratio.low < apart
    assert recommend(scenario(top=1)).comparisons == ()


def test_a_refusal_tells_first_what_stopped_the_candidates_that_came_furthest() -> None:
    small = {f"small-{n}": DoesNotFit("weights exceed the memory") for n in range(3)}
    reasons = {
        **small,
        "a": OverBudget(),
        "b": LongPrompts("p99 TTFT", 3.0, 2.0, 100.0, 7000.0),
        "c": NotForSale(),
    }
    told = [reason for reason, _ in most_common(reasons, is_sold=True)]
    assert told == [OverBudget(), reasons["b"], reasons["small-0"]]
    told = [reason for reason, _ in most_common({**small, "c": NotForSale()}, is_sold=False)]
    assert told == [NotForSale(), reasons["small-0"]]
