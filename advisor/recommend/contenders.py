"""Who competes for an answer: the best of each accelerator, what else it offers, and what a closer look brings up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from advisor.catalog import engines as engine_catalog
from advisor.catalog.schema import Accelerator, Engine, Model, Price
from advisor.recommend.purchase import Demand, cheapest_purchase
from advisor.recommend.ranking import SAMPLING_SIGMA, Planned, plans_of, preferred, ranked
from advisor.recommend.scenario import Scenario
from advisor.recommend.screening import Found, SearchOutcome
from advisor.recommend.search import search
from advisor.recommend.settling import Settled, leading

_AS_SAFE: Final = 1.0 + 2.0 * SAMPLING_SIGMA
"""Times what the cheapest deployment that is safe to take is expected to cost, which another may: capacities err so."""


@dataclass(frozen=True, slots=True)
class Searched:
    """A scenario's search before it becomes an answer: what other questions than the ranking build on."""

    scenario: Scenario
    """As it was searched: with requests within the model's window."""
    model: Model
    notes: tuple[str, ...]
    accelerators: Mapping[str, Accelerator]
    offers: Mapping[str, tuple[Price, ...]]
    outcome: SearchOutcome
    settled: Settled = field(default_factory=Settled)

    def ranked(self, top: int, demand: int = -1) -> list[list[Found]]:
        """Confirmed deployments of the cheapest accelerators for a demand, each cheapest first."""
        confirmed = [
            sorted(able, key=lambda found: found.cost(demand))
            for options in self.outcome.found.values()
            if (able := [found for found in options if found.purchases[demand]])
        ]
        return sorted(confirmed, key=lambda options: options[0].cost(demand))[:top]


def engines_for(scenario: Scenario) -> tuple[Engine, ...]:
    """Those that a scenario allows."""
    wanted = scenario.constraints.engines
    return tuple(engine for engine in engine_catalog.all_engines() if not wanted or engine.id in wanted)


def leaders(done: Searched, demands: Sequence[Demand], place: int, competing: int, top: int) -> list[Planned]:
    """The best deployments for one of the demands, one per accelerator, settled, of so many that compete."""
    order = _order(done, demands, place, competing)
    return leading(done.scenario, order, done.settled, top, partial(_anew, done, demands[place]))


def _order(done: Searched, demands: Sequence[Demand], place: int, top: int) -> list[Planned]:
    """The best accelerators for one demand, each with the deployment that is expected to cost least, best first; among
    the first `top` one that is as safe to take, and costs as little, as any; last what else each of them carries it
    with, by what a load costs.
    """
    scenario, demand = done.scenario, demands[place]
    order, safe, others = list[Planned](), list[Planned](), list[Planned]()

    def usd_per_load(plan: Planned) -> float:
        return plan.found.purchase.placement.usd_per_replica_hour / plan.found.capacity.load

    for options in done.ranked(len(done.outcome.found), place):
        able = [plan for found in options for plan in plans_of(scenario, demand, found, place)]
        best = preferred(able)
        order.append(best)
        apart = {
            id(each.candidate): each.candidate
            for each in options
            if each.candidate is not best.found.candidate
        }
        others += [
            preferred([plan for plan in able if plan.found.candidate is one]) for one in apart.values()
        ]
        safe += [plan for plan in able if plan.is_founded]
    order = ranked(order)
    safest = min(safe, key=lambda plan: plan.expected_cost, default=None)
    if safest is not None and not any(
        plan.is_founded and plan.expected_cost <= _AS_SAFE * safest.expected_cost for plan in order[:top]
    ):
        rest = [plan for plan in order if plan.found.accelerator_id != safest.found.accelerator_id]
        order = ranked([*rest, safest])
        if safest not in order[:top]:
            order.remove(safest)
            order.insert(top - 1, safest)
    return [*order, *sorted(others, key=usd_per_load)]


def _anew(done: Searched, demand: Demand, without: Sequence[Found], best: Found | None) -> list[Planned]:
    """What else carries a demand on an accelerator for less than the best of what was settled there: the search had
    left out what promised no less than it then found.
    """
    scenario, name = _asking(done.scenario, demand), without[0].accelerator_id
    if best is not None:  # wherever it is cheapest
        able = best.capacity
        bought = cheapest_purchase(scenario, demand, best.ways, able.load, able.requests_per_s)
        best = replace(best, purchases=(bought,))
    outcome = search(
        scenario,
        done.model,
        {name: done.accelerators[name]},
        engines_for(scenario),
        done.offers,
        without=tuple(found.candidate for found in without),
        best=best,
    )
    return [
        plan
        for found in outcome.found[name]
        if best is None or found.candidate is not best.candidate
        for plan in plans_of(scenario, demand, found, 0)
    ]


def _asking(scenario: Scenario, demand: Demand) -> Scenario:
    """The question about that demand alone."""
    if demand.kind != "rate":
        return scenario
    traffic = scenario.traffic.model_copy(update={"rate_per_s": demand.size})
    return scenario.model_copy(update={"traffic": traffic, "ladder_per_s": ()})
