"""The race against measuring everything: same winners, fewer runs; figures that no other candidate changes; limits."""

import datetime
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import exp, inf
from typing import Any, Final

import pytest

from advisor.catalog import accelerators, engines, models
from advisor.catalog.schema import Price
from advisor.catalog.units import time_words
from advisor.decide.measure import SIGMA, STAGES, Capacity, PlanningPoint, Stage
from advisor.decide.purchase import Demand, demands_of, planned_load
from advisor.decide.race import RIVAL_MARGIN, RIVAL_SIGMAS, WIDTH, Race
from advisor.decide.ranking import (
    Planned,
    chance_cheaper,
    cheapest_by_expectation,
    cost_range,
    is_tie,
    overlap,
)
from advisor.decide.reason import (
    MissesObjectives,
    NotForSale,
    OverBudget,
    OwnedTooSlow,
    SlowByDatasheet,
    TooLate,
)
from advisor.decide.scenario import Constraints, Objectives, Scenario, Traffic
from advisor.decide.screening import screen
from advisor.decide.trial import Trial
from advisor.simulator.serving import FixedLengths, Poisson, ServingResult, Workload, simulate

DAY: Final = datetime.date(2026, 11, 20)
TRAFFIC: Final = Traffic(mean_input_tokens=200, mean_output_tokens=40, input_sigma=0.4, output_sigma=0.4)


def price(accelerator: str, count: int, usd: float, provider: str = "aws", **more: Any) -> Price:
    return Price(
        provider=provider,
        sku=f"{count}x",
        region="",
        accelerator=accelerator,
        num_accelerators=count,
        term="on_demand",
        usd_per_hour=usd,
        observed_on=DAY,
        valid_from=DAY,
        **more,
    )


Market = dict[str, tuple[Price, ...]]
MARKET: Final[Market] = {
    "l4": (price("l4", 1, 0.7),),
    "l40s": (price("l40s", 1, 1.5), price("l40s", 8, 11.0)),
    "a100-sxm-80gb": (price("a100-sxm-80gb", 8, 14.0),),
    "h100-sxm": (price("h100-sxm", 1, 3.0), price("h100-sxm", 8, 22.0)),
}


def scenario_of(
    *,
    model: str = "llama-3.1-8b",
    objectives: Objectives | None = None,
    constraints: Constraints | None = None,
    screened_only: bool = False,
    **traffic: Any,
) -> Scenario:
    return Scenario(
        model=model,
        traffic=TRAFFIC.model_copy(update=traffic),
        objectives=objectives or Objectives(),
        constraints=constraints or Constraints(max_accelerators=2),
        as_of=DAY,
        screened_only=screened_only,
    )


def trials_of(scenario: Scenario, market: Market, engine_ids: Sequence[str]) -> list[Trial]:
    trials, _ = screen(
        scenario,
        models.by_id(scenario.model),
        {name: accelerators.by_id(name) for name in market},
        tuple(engines.by_id(name) for name in engine_ids),
        market,
    )
    return trials


def dearer(market: Market, factor: float) -> Market:
    return {
        name: tuple(row.model_copy(update={"usd_per_hour": factor * row.usd_per_hour}) for row in rows)
        for name, rows in market.items()
    }


# --- races on known capacities --------------------------------------------------------------------------------------


def _light_run() -> ServingResult:
    """A run that misses no objective."""
    from advisor.simulator.deployment import named_deployment
    from advisor.simulator.replica_model import model_replica

    replica = model_replica(
        named_deployment("llama-3.1-8b", "h100-sxm"), mean_input_tokens=200, mean_output_tokens=40
    )
    return simulate(replica.surface, replica.policy, Workload(Poisson(1.0), FixedLengths(200, 40), 50))


LIGHT: Final = _light_run()


class Points(dict[tuple[float, int], PlanningPoint]):
    """A planning point that holds, at every load."""

    def get(self, key: tuple[float, int], default: Any = None) -> PlanningPoint:
        return PlanningPoint(LIGHT, key[0], (8, 9, 10), 600, 0.0)


@dataclass
class KnownCapacity:
    """Measurements of a candidate whose capacity is known, with errors of up to two standard errors by stage."""

    load: float
    errors: dict[Stage, float]
    asked: list[tuple[str, float]] = field(default_factory=list)
    points: Points = field(default_factory=Points)
    num_requests: int = 0
    binding: str = "tpot"
    screened_load: float = 0.0

    def capacity(self, stage: Stage) -> Capacity:
        self.asked.append((stage, 0.0))
        load = self.load * exp(SIGMA[stage] * self.errors[stage])
        self.screened_load = load if stage == "screened" else self.screened_load
        return Capacity(load, load, LIGHT, 600, self.binding, stage)

    def holds(self, load: float, stage: Stage = "confirmed") -> ServingResult | None:
        self.asked.append((stage, load))
        return LIGHT if load <= self.load * exp(SIGMA[stage] * self.errors[stage]) else None

    def load_from(self, load: float, places_below: int = 0) -> float:
        return load * 0.97**places_below


class KnownRace(Race):
    """A race whose candidates carry a known part of their bound, drawn by what they are and not by their place."""

    def __init__(self, *args: Any, draw: int = 0, noise: float = 1.0, **more: Any) -> None:
        self.draw = draw
        self.noise = noise
        super().__init__(*args, **more)

    def _measurements_of(self, trial: Trial) -> Any:
        if trial.measurements is None:
            run = trial.candidate.deployment
            candidate = trial.candidate
            name = (
                run.accelerator.id,
                run.engine.id,
                run.weight_dtype,
                run.tensor_parallel,
                run.pipeline_parallel,
                run.data_parallel,
                candidate.max_num_seqs,
                candidate.max_num_batched_tokens,
                candidate.speculation,
            )
            own = random.Random(f"{self.draw} {name}")
            part = own.uniform(0.5, 0.95)
            errors = {stage: self.noise * own.uniform(-2.0, 2.0) for stage in STAGES}
            trial.measurements = KnownCapacity(part * trial.rate_bound, errors)  # type: ignore[assignment]
        return trial.measurements

    def measured_points(self) -> list[list[tuple[str, float]]]:
        """Measured loads by candidate."""
        known: list[Any] = [trial.measurements for trial in self.trials.values()]
        return [runs.asked for runs in known if runs is not None]


def known_race(
    scenario: Scenario,
    market: Market = MARKET,
    engine_ids: Sequence[str] = ("vllm", "sglang", "tensorrt-llm"),
    *,
    shuffle: int | None = None,
    demands: Sequence[Demand] | None = None,
    **more: Any,
) -> KnownRace:
    trials = trials_of(scenario, market, engine_ids)
    if shuffle is not None:
        random.Random(shuffle).shuffle(trials)
        trials = [replace(trial, order=order) for order, trial in enumerate(trials)]
    model = models.by_id(scenario.model)
    race = KnownRace(scenario, model, demands or demands_of(scenario), trials, **more)
    race.run()
    return race


def measure_all(race: Race) -> None:
    """Settle every candidate, as an exhaustive search does."""
    done = set[int]()
    while waiting := [trial for trial in race.trials.values() if trial.order not in done]:
        for trial in waiting:
            done.add(trial.order)
            if trial.progress == "bound":
                race._model(trial)
            for stage in STAGES:
                if trial.progress != "closed" and (
                    trial.capacity is None or trial.capacity.stage != "settled"
                ):
                    race._measure(trial, stage)
    race.run()


def figures(plan: Planned) -> tuple[object, ...]:
    """All that a plan says of a candidate."""
    bought = plan.found.purchase
    run = plan.found.candidate.deployment
    return (
        plan.found.accelerator_id,
        run.engine.id,
        run.weight_dtype,
        run.tensor_parallel,
        bought.num_replicas,
        bought.num_units,
        bought.placement.price,
        plan.found.capacity.load,
        plan.expected_cost,
        plan.chance,
        plan.load,
    )


LOADS: Final = (
    {"rate_per_s": 1.0},
    {"rate_per_s": 400.0},
    {"objectives": Objectives(budget_usd_per_hour=40.0)},
    {},
)


@pytest.mark.parametrize("draw", range(2))
@pytest.mark.parametrize("load", LOADS)
def test_the_race_finds_what_exhaustion_finds(load: dict[str, Any], draw: int) -> None:
    scenario = scenario_of(**load)
    quick, whole = (known_race(scenario, draw=draw, noise=0.0) for _ in range(2))
    measure_all(whole)
    best = quick.entries(-1, 2)
    expected = whole.entries(-1, 2)
    assert [plan.found.accelerator_id for plan in best] == [plan.found.accelerator_id for plan in expected]
    for mine, theirs in zip(best, expected, strict=True):
        # What is not settled pays for the larger error of its capacity.
        assert theirs.expected_cost * (1 - 1e-9) <= mine.expected_cost <= 1.03 * theirs.expected_cost
    assert quick.num_simulated < 0.6 * whole.num_simulated


@pytest.mark.parametrize("draw", range(3))
def test_errors_of_two_standard_errors_lose_no_more_than_the_margin_of_rivals(draw: int) -> None:
    scenario = scenario_of(rate_per_s=400.0)
    quick, whole = (known_race(scenario, draw=draw) for _ in range(2))
    measure_all(whole)
    least, known = (race.entries(-1)[0].expected_cost for race in (quick, whole))
    assert least <= known / RIVAL_MARGIN * 1.03


@pytest.mark.parametrize("load", LOADS[1:])
def test_shuffled_candidates_change_no_figure(load: dict[str, Any]) -> None:
    """Where bills are equal, as for a trickle, the simplest is tried first; here costs decide."""
    scenario = scenario_of(**load)
    first = [figures(plan) for plan in known_race(scenario).entries(-1, WIDTH)]
    for shuffle in (1, 2, 3):
        assert [figures(plan) for plan in known_race(scenario, shuffle=shuffle).entries(-1, WIDTH)] == first
    backwards = known_race(scenario, dict(reversed(MARKET.items())), ("tensorrt-llm", "sglang", "vllm"))
    assert [figures(plan) for plan in backwards.entries(-1, WIDTH)] == first


@pytest.mark.parametrize(("load", "draw"), list(zip(LOADS[1:], range(3), strict=True)))
def test_rivals_change_no_figure_of_what_is_shown(load: dict[str, Any], draw: int) -> None:
    """However near they come, and however precisely they have others measured."""
    scenario = scenario_of(**load)
    few = {name: MARKET[name] for name in list(MARKET)[:2]}
    alone, crowded = (known_race(scenario, market, draw=draw).entries(-1, 2) for market in (few, MARKET))
    known = {_what(plan): figures(plan) for plan in alone}
    for plan in crowded:
        assert known.get(_what(plan), figures(plan)) == figures(plan)


def _what(plan: Planned) -> tuple[object, ...]:
    """The candidate that a plan buys, whatever it is found to carry."""
    candidate = plan.found.candidate
    return (*figures(plan)[:4], candidate.max_num_seqs, candidate.max_num_batched_tokens)


@pytest.mark.parametrize("load", LOADS)
def test_losers_change_no_figure(load: dict[str, Any]) -> None:
    scenario = scenario_of(**load)
    cheap = {name: MARKET[name] for name in ("l4", "l40s")}
    rest = {name: rows for name, rows in MARKET.items() if name not in cheap}
    alone = known_race(scenario, cheap, width=2)
    crowded = known_race(scenario, cheap | dearer(rest, 50.0), width=2)
    assert [figures(plan) for plan in crowded.entries(-1, 2)] == [
        figures(plan) for plan in alone.entries(-1, 2)
    ]
    assert crowded.num_simulated == alone.num_simulated
    assert crowded.num_candidates > crowded.num_modelled


def test_more_accelerators_are_put_behind_those_that_are_shown() -> None:
    scenario = scenario_of(rate_per_s=400.0)
    race = known_race(scenario, width=2)
    first = [figures(plan) for plan in race.entries(-1, 2)]
    assert [figures(plan) for plan in race.entries(-1, 1)] == first[:1]
    race.run(len(MARKET))
    assert [figures(plan) for plan in race.entries(-1, 2)] == first
    assert len(race.entries(-1)) == len(MARKET)


@pytest.mark.parametrize("rate_per_s", [5.0, 20.0, 30.0, 40.0, 50.0, 60.0, 100.0])
def test_a_race_for_one_accelerator_has_an_answer_where_a_race_for_more_has_one(rate_per_s: float) -> None:
    """The owned boards carry the smaller of these loads; errors of short runs may hide an answer from either race."""
    market = {
        "l4": (price("l4", 2, 0.03, provider="own"),),
        "l40s": (price("l40s", 1, 0.03, provider="own"),),
    }
    own = Constraints(own=((2, "l4"), (1, "l40s")))
    scenario = scenario_of(constraints=own, rate_per_s=rate_per_s)
    one, more = (
        known_race(scenario, market, ("vllm", "sglang"), draw=3, width=width) for width in (1, WIDTH)
    )
    assert bool(one.entries(-1, 1)) == bool(more.entries(-1, 1))


def test_batch_limits_that_carry_more_are_found_however_near_its_bound_a_replica_is() -> None:
    """Children are tried towards the objective that binds, as long as each carries more."""
    race = known_race(scenario_of(), {"h100-sxm": MARKET["h100-sxm"]}, ("vllm",), noise=0.0)
    tried = [trial for trial in race.trials.values() if trial.measurements is not None]
    parents = {id(trial.parent) for trial in race.trials.values() if trial.parent is not None}
    assert any(id(trial) in parents for trial in tried if trial.parent is None)


def test_of_candidates_with_one_bill_those_that_cannot_cost_less_are_not_measured() -> None:
    """A trickle takes one card whatever the engine: once one of them surely holds, no other can cost less."""
    race = known_race(scenario_of(rate_per_s=0.01), {"l4": MARKET["l4"]})
    assert race.num_candidates > 5
    assert race.num_simulated == 1


def test_nothing_is_measured_twice() -> None:
    for load in LOADS:
        for asked in known_race(scenario_of(**load)).measured_points():
            stages = [stage for stage, held in asked if not held]
            assert len(stages) == len(set(stages))
            assert stages == [stage for stage in STAGES if stage in stages]


def test_what_every_lane_shows_is_as_precise_as_its_count_needs() -> None:
    scenario = scenario_of()
    demands = [Demand("rate", rate) for rate in (1.0, 20.0, 400.0)]
    race = known_race(scenario, demands=demands)
    for place, demand in enumerate(demands):
        for plan in race.entries(place, 1):
            assert plan.demand == demand
            assert plan.point is not None
            assert plan.found.capacity.stage != "screened"
    costs = [race.entries(place, 1)[0].found.purchase.usd_per_hour for place in range(3)]
    assert costs == sorted(costs)


def test_a_screened_race_confirms_nothing() -> None:
    race = known_race(scenario_of(rate_per_s=20.0, screened_only=True))
    assert {stage for asked in race.measured_points() for stage, _ in asked} == {"screened"}


def test_what_a_bound_excludes_could_not_have_won() -> None:
    for load in LOADS[:2]:
        race = known_race(scenario_of(**load))
        whole = known_race(scenario_of(**load))
        measure_all(whole)
        for trial in race.trials.values():
            if trial.progress in ("bound", "surface"):
                same = next(each for each in whole.trials.values() if each.order == trial.order)
                plans = [state.plans[same.accelerator_id].get(same.order) for state in whole.states]
                for floor, plan in zip(trial.floors, plans, strict=True):
                    assert plan is None or plan.expected_cost >= floor * exp(
                        -RIVAL_SIGMAS * SIGMA["screened"]
                    )


# --- safe and not safe ----------------------------------------------------------------------------------------------

OLD: Final = {"price_kind": "tracker"}


def old(usd: float) -> Price:
    """A tracker's price of long ago, which heads no answer by itself."""
    row = price("h100-sxm", 1, usd, "vast", **OLD)
    return row.model_copy(update={"observed_on": DAY - datetime.timedelta(days=300)})


@pytest.mark.parametrize(("usd", "is_near"), [(0.5, False), (1.6, True)])
def test_a_safe_alternative_becomes_the_entry_only_where_ranges_overlap(usd: float, is_near: bool) -> None:
    firm = price("h100-sxm", 1, 3.2, "lambda")
    race = known_race(scenario_of(rate_per_s=200.0), {"h100-sxm": (firm, old(usd))}, noise=0.0)
    (entry,) = race.entries(-1, 1)
    safe = race.safe_pick(-1)
    assert safe is not None
    assert safe.found.purchase.placement.price == firm
    cheapest = race.others(-1, "h100-sxm")[0]
    assert cheapest.found.purchase.placement.price.provider == "vast"
    assert overlap(cheapest, safe) == is_near
    assert entry.is_safe == is_near
    # Neither hides the other: both are known, and the safe one costs the same as where the old price is absent.
    alone = known_race(scenario_of(rate_per_s=200.0), {"h100-sxm": (firm,)}, noise=0.0)
    assert safe.expected_cost == alone.entries(-1, 1)[0].expected_cost


def test_the_cheapest_firm_offer_is_found_whatever_an_old_price_says() -> None:
    """A 70B takes many single H100s, or one pair: the singles cost less at a price that heads no answer, the pair
    at the one that may."""
    firm = (price("h100-sxm", 1, 3.2, "lambda"), price("h100-sxm", 2, 6.4, "lambda"))
    asked = scenario_of(model="llama-3.1-70b", mean_input_tokens=1155, mean_output_tokens=211, rate_per_s=2.0)

    def safe_cost(*offers: Price) -> float:
        safe = known_race(asked, {"h100-sxm": offers}, ("vllm",), width=1).safe_pick(-1)
        return inf if safe is None else safe.expected_cost

    assert safe_cost(*firm, old(0.5)) == safe_cost(*firm) < inf


def test_of_engines_with_one_bill_the_seed_does_not_choose() -> None:
    plan = known_race(scenario_of(rate_per_s=1.0), {"l4": MARKET["l4"]}).entries(-1, 1)[0]

    def with_engine(engine: str, expected_cost: float) -> Planned:
        candidate = plan.found.candidate
        other = candidate.deployment.engine.model_copy(update={"id": engine})
        deployment = replace(candidate.deployment, engine=other)
        found = replace(plan.found, candidate=replace(candidate, deployment=deployment))
        return replace(plan, found=found, expected_cost=expected_cost)

    ours = with_engine("sglang", 1.0)
    others = with_engine("vllm", 1.01)
    chosen = cheapest_by_expectation([ours, others]).found.candidate.deployment.engine.id
    swapped = [replace(ours, expected_cost=1.01), replace(others, expected_cost=1.0)]
    assert cheapest_by_expectation(swapped).found.candidate.deployment.engine.id == chosen
    assert is_tie(chance_cheaper(ours, others))
    # A smaller bill is no matter of the seed.
    bill = replace(plan.found.purchase, cost=0.5 * plan.found.purchase.cost)
    cheap = replace(ours, found=ours.found.with_purchase(bill), expected_cost=0.5)
    assert cheapest_by_expectation([others, cheap]) is cheap


# --- races on simulated capacities ----------------------------------------------------------------------------------


def run(
    market: Market = MARKET, *, engine_ids: Sequence[str] = ("vllm",), width: int = 2, **asked: Any
) -> Race:
    scenario = scenario_of(**asked)
    race = Race(
        scenario,
        models.by_id(scenario.model),
        demands_of(scenario),
        trials_of(scenario, market, engine_ids),
        width=width,
    )
    race.run()
    return race


@pytest.mark.parametrize(
    "asked",
    [
        {"engine_ids": ("vllm", "sglang")},
        {"objectives": Objectives(ttft_p99_s=0.5, tpot_p99_s=0.03), "rate_per_s": 30.0},
        {"concurrency": 64},
        {"mean_input_tokens": 2000, "mean_output_tokens": 20},
    ],
)
def test_simulated_winners_are_those_of_exhaustion(asked: dict[str, Any]) -> None:
    quick = run(**asked)
    whole = run(**asked)
    measure_all(whole)
    best = quick.entries(-1, 2)
    expected = whole.entries(-1, 2)
    assert [plan.found.accelerator_id for plan in best] == [plan.found.accelerator_id for plan in expected]
    for mine, theirs in zip(best, expected, strict=True):
        assert mine.expected_cost == pytest.approx(theirs.expected_cost, rel=0.05)
        assert mine.result.ttft.p99_s <= quick.scenario.objectives.largest_ttft_s
        assert mine.result.tpot.p99_s <= quick.scenario.objectives.largest_tpot_s
    assert quick.num_simulated <= whole.num_simulated
    assert quick.num_requests <= whole.num_requests


def test_cost_is_linear_in_the_price_and_a_race_is_repeatable() -> None:
    once = run()
    again = run()
    twice = run(dearer(MARKET, 2.0))
    assert [figures(plan) for plan in once.entries(-1, 2)] == [figures(plan) for plan in again.entries(-1, 2)]
    assert (once.num_simulated, once.num_requests) == (again.num_simulated, again.num_requests)
    for one, two in zip(once.entries(-1, 2), twice.entries(-1, 2), strict=True):
        assert two.found.accelerator_id == one.found.accelerator_id
        assert two.expected_cost == pytest.approx(2 * one.expected_cost)


def test_a_given_rate_buys_whole_units_and_shares_the_load() -> None:
    race = run({"l4": MARKET["l4"]}, rate_per_s=30.0)
    (plan,) = race.entries(-1, 1)
    purchase = plan.found.purchase
    planned = planned_load(race.scenario, plan.found.capacity.load)
    assert purchase.num_replicas == purchase.num_units > 1
    assert purchase.requests_per_s == 30.0
    assert purchase.usd_per_hour == pytest.approx(0.7 * purchase.num_units)
    assert planned * purchase.num_replicas >= 30.0 * (1 - 1e-9)
    assert plan.load == pytest.approx(30.0 / purchase.num_replicas)


def test_a_small_rate_takes_a_single_accelerator_although_the_node_is_cheaper_each() -> None:
    market = {"h100-sxm": (price("h100-sxm", 8, 16.0), price("h100-sxm", 1, 3.0))}
    counts = [
        known_race(scenario_of(**load), market)
        .entries(-1, 1)[0]
        .found.purchase.placement.price.num_accelerators
        for load in ({"rate_per_s": 1.0}, {})
    ]
    assert counts == [1, 8]


def test_the_budget_is_a_limit() -> None:
    race = known_race(scenario_of(objectives=Objectives(budget_usd_per_hour=1.0)))
    (plan,) = race.entries(-1)
    assert plan.found.accelerator_id == "l4"
    assert plan.found.purchase.usd_per_hour <= 1.0
    assert race.reasons.get("a100-sxm-80gb", OverBudget()) == OverBudget()


def test_own_hardware_is_not_multiplied() -> None:
    own = Constraints(own=((2, "l4"),))
    market = {"l4": (price("l4", 2, 0.03, provider="own"),)}
    within, beyond = (
        known_race(scenario_of(constraints=own, rate_per_s=rate), market) for rate in (2.0, 500.0)
    )
    assert within.entries(-1)[0].found.purchase.num_units == 1
    assert not beyond.entries(-1)
    assert beyond.reasons["l4"] == OwnedTooSlow()


def screened_race(scenario: Scenario, market: Market) -> Race:
    """A race over what the screen leaves, with its reasons."""
    model = models.by_id(scenario.model)
    chips = {name: accelerators.by_id(name) for name in market}
    trials, reasons = screen(scenario, model, chips, (engines.by_id("vllm"),), market)
    race = Race(scenario, model, demands_of(scenario), trials)
    race.reasons.update(reasons)
    race.run()
    return race


@pytest.mark.parametrize(
    ("market", "objectives", "words"),
    [
        ({"h100-sxm": ()}, Objectives(), "no provider offers enough"),
        ({"l4": MARKET["l4"]}, Objectives(tpot_p99_s=1e-4), "datasheet limits"),
        (
            {"l4": MARKET["l4"]},
            Objectives(ttft_p99_s=0.03),
            "alone: p99 TTFT 30 ms is asked",
        ),
        ({"l4": MARKET["l4"]}, Objectives(ttft_p99_s=0.0977), "misses p99 TTFT 97.7 ms at any load"),
    ],
)
def test_reasons(market: Market, objectives: Objectives, words: str) -> None:
    race = screened_race(scenario_of(objectives=objectives), market)
    assert not race.entries(-1)
    (reason,) = race.reasons.values()
    assert words in reason.text


@pytest.mark.parametrize("tpot_s", [1e-4, 2e-3, 3e-3, 4e-3, 6e-3, 9e-3, 0.012])
@pytest.mark.parametrize("name", ["l4", "h100-sxm"])
def test_a_refusal_for_speed_tells_what_was_computed(name: str, tpot_s: float) -> None:
    """The time that is told as the datasheet's limit exceeds no read of all weights at full bandwidth."""
    race = screened_race(scenario_of(objectives=Objectives(tpot_p99_s=tpot_s)), {name: MARKET[name]})
    if race.entries(-1):
        return
    why = race.reasons[name]
    if not isinstance(why, TooLate):
        assert isinstance(why, MissesObjectives)
        assert why.reached_s is not None
        assert why.limit_s == tpot_s < why.reached_s
        assert time_words(why.reached_s) in why.text
        return
    assert why.limit_s == tpot_s < why.least_s
    assert time_words(why.least_s) in why.text
    if isinstance(why, SlowByDatasheet):
        weights = 8.1e9  # llama-3.1-8b in fp8
        assert why.least_s <= weights / (accelerators.by_id(name).bandwidth_bytes_per_s or 0.0)


def test_an_accelerator_without_an_offer_has_that_reason() -> None:
    chips = {"l4": accelerators.by_id("l4")}
    found = screen(scenario_of(), models.by_id("llama-3.1-8b"), chips, (engines.by_id("vllm"),), {})
    assert found == ([], {"l4": NotForSale()})


def test_a_range_holds_its_cost() -> None:
    for plan in known_race(scenario_of(rate_per_s=400.0)).entries(-1):
        low, high = cost_range(plan)
        assert low <= plan.found.usd_per_million_tokens <= high
