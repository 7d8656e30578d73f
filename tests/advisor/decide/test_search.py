"""The best-first search against simulating everything: same winners, fewer simulations; limits that are set."""

import datetime
from typing import Any

import pytest

from advisor.catalog import accelerators, engines, models
from advisor.catalog.schema import Price
from advisor.decide import capacity
from advisor.decide import search as searching
from advisor.decide.purchase import Demand, cheapest_purchase
from advisor.decide.reason import NotForSale, OverBudget, OwnedTooSlow
from advisor.decide.scenario import Constraints, Objectives, Scenario, Traffic
from advisor.decide.screening import Found, SearchOutcome, screen
from advisor.decide.search import search, search_again

DAY = datetime.date(2026, 11, 20)
TRAFFIC = Traffic(mean_input_tokens=200, mean_output_tokens=40, input_sigma=0.4, output_sigma=0.4)
SAME_COST = 0.05
"""Of costs that two searches find for one accelerator: the load is bracketed to four per cent."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "ESTIMATE_REQUESTS", 150)
    monkeypatch.setattr(capacity, "CONFIRM_REQUESTS", 500)


def price(accelerator: str, count: int, usd: float, provider: str = "aws") -> Price:
    return Price(
        provider=provider, sku=f"{count}x", region="", accelerator=accelerator, num_accelerators=count,
        term="on_demand", usd_per_hour=usd, observed_on=DAY, valid_from=DAY,
    )  # fmt: skip


MARKET = {
    "l4": (price("l4", 1, 0.7),),
    "l40s": (price("l40s", 1, 1.5), price("l40s", 8, 11.0)),
    "a100-sxm-80gb": (price("a100-sxm-80gb", 8, 14.0),),
    "h100-sxm": (price("h100-sxm", 1, 3.0), price("h100-sxm", 8, 22.0)),
}


def run(
    market: dict[str, tuple[Price, ...]] = MARKET,
    *,
    exhaustive: bool = False,
    top: int = 2,
    objectives: Objectives | None = None,
    constraints: Constraints | None = None,
    engine_ids: tuple[str, ...] = ("vllm",),
    model: str = "llama-3.1-8b",
    layouts: bool = True,
    **traffic: Any,
) -> SearchOutcome:
    scenario = Scenario(
        model=model,
        traffic=TRAFFIC.model_copy(update=traffic),
        objectives=objectives or Objectives(),
        constraints=constraints or Constraints(max_accelerators=2),
        as_of=DAY,
        top=top,
    )
    outcome = SearchOutcome()
    question, entries = screen(
        scenario,
        models.by_id(scenario.model),
        {name: accelerators.by_id(name) for name in market},
        tuple(engines.by_id(name) for name in engine_ids),
        market,
        outcome,
    )
    return search(
        question,
        entries,
        outcome,
        exhaustive=exhaustive,
        layouts=layouts,
    )


def ranking(outcome: SearchOutcome) -> list[Found]:
    return sorted(
        (found[0] for found in outcome.found.values() if found), key=lambda f: f.usd_per_million_tokens
    )


@pytest.mark.parametrize(
    ("engine_ids", "objectives", "traffic"),
    [
        (("vllm", "sglang"), Objectives(), {}),
        (("vllm",), Objectives(ttft_p99_s=0.5, tpot_p99_s=0.03), {}),
        (("vllm",), Objectives(), {"rate_per_s": 30.0}),
        (("vllm",), Objectives(), {"concurrency": 64}),
        (("vllm",), Objectives(), {"mean_input_tokens": 2000, "mean_output_tokens": 20}),
    ],
)
def test_best_first_finds_what_exhaustion_finds(
    engine_ids: tuple[str, ...], objectives: Objectives, traffic: dict[str, Any]
) -> None:
    quick_one = run(engine_ids=engine_ids, objectives=objectives, **traffic)
    whole = run(engine_ids=engine_ids, objectives=objectives, exhaustive=True, **traffic)
    best, expected = ranking(quick_one)[:2], ranking(whole)[:2]
    assert [f.accelerator_id for f in best] == [f.accelerator_id for f in expected]
    for mine, theirs in zip(best, expected, strict=True):
        assert mine.usd_per_million_tokens == pytest.approx(theirs.usd_per_million_tokens, rel=SAME_COST)
    assert quick_one.num_simulated <= whole.num_simulated
    assert quick_one.num_candidates == whole.num_candidates


def test_an_old_price_for_single_cards_does_not_hide_the_layout_that_is_cheapest_at_a_firm_one() -> None:
    """A 70B takes many single H100s, or one pair: the singles cost less at a price that heads no answer, the pair
    at the one that may. What the firm seller alone would be asked for is found beside it."""
    firm = (price("h100-sxm", 1, 3.2, "lambda"), price("h100-sxm", 2, 6.4, "lambda"))
    old = price("h100-sxm", 1, 0.5).model_copy(
        update={"observed_on": DAY - datetime.timedelta(days=300), "price_kind": "tracker"}
    )
    chat = {"mean_input_tokens": 1155, "mean_output_tokens": 211, "rate_per_s": 2.0}

    def cheapest_firm_usd(*offers: Price) -> float:
        asked = Scenario(model="llama-3.1-70b", traffic=TRAFFIC.model_copy(update=chat), as_of=DAY)
        outcome = run({"h100-sxm": offers}, model=asked.model, constraints=asked.constraints, top=1, **chat)
        purchases = (
            cheapest_purchase(
                asked, Demand("rate", 2.0), ways, found.capacity.load, found.capacity.requests_per_s
            )
            for found in outcome.found["h100-sxm"]
            if (ways := [way for way in found.ways if way.price.provider == "lambda"])
        )
        return min(bought.usd_per_hour for bought in purchases if bought)

    assert cheapest_firm_usd(*firm, old) == cheapest_firm_usd(*firm) < 3 * 3.2


def test_a_search_goes_on_where_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its best candidate an accelerator has the same answer as when all of it is simulated, and nothing that
    was simulated before is simulated again."""
    asked = Scenario(
        model="llama-3.1-8b",
        traffic=TRAFFIC.model_copy(update={"rate_per_s": 30.0}),
        constraints=Constraints(max_accelerators=2),
        as_of=DAY,
        top=2,
    )
    whole, stopped = (run(exhaustive=every, rate_per_s=30.0) for every in (True, False))
    known = {id(entry.candidate) for entry in stopped.entries.values() if entry.capacity or entry.held}
    estimated = list[int]()
    estimate = searching.estimate

    def noted(question: Any, entry: Any, *rest: Any, **more: Any) -> None:
        estimated.append(id(entry.candidate))
        estimate(question, entry, *rest, **more)

    monkeypatch.setattr(searching, "estimate", noted)
    for name in ("l4", "h100-sxm"):
        first = whole.found[name][0].candidate
        mine = [entry.candidate for entry in stopped.entries.values() if entry.candidate == first]
        again = search_again(asked, stopped, name, mine, None)
        others = [found for found in whole.found[name] if found.candidate != first]
        assert again.found[name][0].cost(0) == pytest.approx(others[0].cost(0), rel=SAME_COST)
        assert all(found.candidate != first for found in again.found[name])
    assert not known & set(estimated)


def test_the_search_leaves_out_what_cannot_win() -> None:
    dear = {name: tuple(p.model_copy(update={"usd_per_hour": 50 * p.usd_per_hour}) for p in prices)
            for name, prices in MARKET.items() if name not in ("l4", "l40s")}  # fmt: skip
    outcome = run({"l4": MARKET["l4"], "l40s": MARKET["l40s"], **dear}, top=1)
    assert set(outcome.found) == {"l4", "l40s"}, "two compete for the first place"
    assert set(outcome.bounds) == set(dear)
    dearest = max(found[0].usd_per_million_tokens for found in outcome.found.values())
    assert all(bound > dearest for bound in outcome.bounds.values())
    assert outcome.num_simulated <= 6
    assert outcome.num_simulated <= outcome.num_modelled < outcome.num_candidates


def test_layouts_that_are_not_shown_cost_no_runs_and_change_no_price() -> None:
    def prices(outcome: SearchOutcome) -> dict[tuple[str, str], float]:
        """The least of each accelerator and weight format."""
        found = [each for options in outcome.found.values() for each in options]
        found.sort(key=lambda each: -each.usd_per_million_tokens)
        return {
            (each.accelerator_id, each.candidate.deployment.weight_dtype): each.usd_per_million_tokens
            for each in found
        }

    market = {name: MARKET[name] for name in ("h100-sxm", "l40s")}
    traffic = {"mean_input_tokens": 1000, "mean_output_tokens": 150}
    many, few = (
        run(market, engine_ids=("vllm", "sglang", "tensorrt-llm"), layouts=layouts, **traffic)
        for layouts in (True, False)
    )
    assert prices(few) == prices(many)
    assert few.num_requests < many.num_requests
    assert sum(map(len, few.found.values())) < sum(map(len, many.found.values()))


def test_bounds_estimates_and_confirmed_costs_only_rise() -> None:
    outcome = run(exhaustive=True)
    for name, options in outcome.found.items():
        costs = [option.usd_per_million_tokens for option in options]
        assert costs == sorted(costs), name
        for option in options:
            assert option.capacity.result.ttft.p99_s <= 2.0
            assert option.capacity.result.tpot.p99_s <= 0.1
    # What a long run judged is no estimate any more.
    judged = {id(option.candidate) for options in outcome.found.values() for option in options}
    assert not judged & {id(option.candidate) for options in outcome.estimated.values() for option in options}


def test_cost_is_linear_in_the_price() -> None:
    doubled = {
        name: tuple(p.model_copy(update={"usd_per_hour": 2 * p.usd_per_hour}) for p in prices)
        for name, prices in MARKET.items()
    }
    once, twice = ranking(run()), ranking(run(doubled))
    assert [f.accelerator_id for f in once] == [f.accelerator_id for f in twice]
    for one, two in zip(once, twice, strict=True):
        assert two.usd_per_million_tokens == pytest.approx(2 * one.usd_per_million_tokens)


def test_two_searches_are_equal() -> None:
    def shape(outcome: SearchOutcome) -> list[tuple[object, ...]]:
        return [
            (f.accelerator_id, f.candidate.deployment.weight_dtype, f.capacity.load, f.usd_per_million_tokens)
            for options in outcome.found.values()
            for f in options
        ]

    first, second = run(), run()
    assert shape(first) == shape(second)
    assert (first.num_simulated, first.num_requests) == (second.num_simulated, second.num_requests)


def test_a_given_rate_buys_whole_units_and_shares_the_load() -> None:
    (found,) = ranking(run({"l4": MARKET["l4"]}, rate_per_s=30.0))
    purchase = found.purchase
    assert purchase.num_replicas == purchase.num_units > 1
    assert purchase.requests_per_s == 30.0
    assert purchase.usd_per_hour == pytest.approx(0.7 * purchase.num_units)
    # A replica is held to its share of the load with headroom, or just below what it carries; one less would not do.
    assert 0.8 * found.capacity.load <= 30.0 / (purchase.num_replicas - 1)
    assert 0.8 * found.capacity.load * purchase.num_replicas >= 30.0 * (1 - 1e-9)


def test_a_small_rate_takes_a_single_accelerator_although_the_node_is_cheaper_each() -> None:
    market = {"h100-sxm": (price("h100-sxm", 8, 16.0), price("h100-sxm", 1, 3.0))}
    (small,), (open_ended,) = ranking(run(market, rate_per_s=1.0)), ranking(run(market))
    assert small.purchase.placement.price.num_accelerators == 1
    assert open_ended.purchase.placement.price.num_accelerators == 8


def test_the_budget_is_a_limit() -> None:
    outcome = run(objectives=Objectives(budget_usd_per_hour=1.0))
    assert set(outcome.found) == {"l4"}
    assert outcome.reasons["a100-sxm-80gb"] == OverBudget()
    assert all(f.purchase.usd_per_hour <= 1.0 for f in ranking(outcome))


def test_own_hardware_is_not_multiplied() -> None:
    own = Constraints(own=((2, "l4"),))
    market = {"l4": (price("l4", 2, 0.03, provider="own"),)}
    within, beyond = (
        run(market, constraints=own, rate_per_s=2.0),
        run(market, constraints=own, rate_per_s=500.0),
    )
    assert ranking(within)[0].purchase.num_units == 1
    assert not any(beyond.found.values())
    assert beyond.reasons["l4"] == OwnedTooSlow()


@pytest.mark.parametrize(
    ("market", "objectives", "words"),
    [
        ({"h100-sxm": ()}, Objectives(), "no provider offers enough"),
        ({"l4": MARKET["l4"]}, Objectives(tpot_p99_s=1e-4), "datasheet limits"),
        (
            {"l4": MARKET["l4"]},
            Objectives(ttft_p99_s=0.03),
            "longer than 468 tokens, which alone miss p99 TTFT",
        ),
        ({"l4": MARKET["l4"]}, Objectives(ttft_p99_s=0.1), "misses the latency objectives"),
    ],
)
def test_reasons(market: dict[str, tuple[Price, ...]], objectives: Objectives, words: str) -> None:
    outcome = run(market, objectives=objectives)
    assert not any(outcome.found.values())
    (reason,) = outcome.reasons.values()
    assert words in reason.text


def test_an_accelerator_without_an_offer_has_that_reason() -> None:
    scenario, outcome = Scenario(model="llama-3.1-8b", traffic=TRAFFIC, as_of=DAY), SearchOutcome()
    model, chips = models.by_id("llama-3.1-8b"), {"l4": accelerators.by_id("l4")}
    search(*screen(scenario, model, chips, (engines.by_id("vllm"),), {}, outcome), outcome)
    assert outcome.reasons == {"l4": NotForSale()}
