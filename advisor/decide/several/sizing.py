"""Several models on one fleet: each sized alone, then all bought together, so that models share machines."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from advisor.catalog.errors import InfeasibleError
from advisor.catalog.schema import Accelerator, Price
from advisor.decide.effort import SEARCH_WORK, SHOW_WORK, limit_effort
from advisor.decide.offers import Placement, placements
from advisor.decide.race import Report, settle
from advisor.decide.ranking import Planned, cheapest_by_expectation
from advisor.decide.recommend import Search, search_scenario
from advisor.decide.safe_picks import BLOCK
from advisor.decide.scenario import Scenario
from advisor.decide.several.blocks import Fleet, apart_usd_per_hour, cheapest_fleets, compared_rows
from advisor.decide.unlike_parts import Offers

MOST_MODELS: Final = 6
_WIDTH: Final = 2
"""Accelerators that are ranked for each model alone; those that may suit all models are searched again."""
_KINDS: Final = 4
"""Accelerators that are compared for all models together."""
_SIZES: Final = tuple(2**power for power in range(7))
"""Sizes of replicas that are compared [accelerators]."""


@dataclass(slots=True)
class Sized:
    """One of the models, and what may serve it on each accelerator: the best of every size of replica."""

    done: Search
    plans: dict[str, list[Planned]]
    settled: set[int] = field(default_factory=set)
    """Candidates whose capacity is settled, by identity."""

    @property
    def scenario(self) -> Scenario:
        return self.done.scenario


def slice_offers(offers: Offers, chips: Mapping[str, Accelerator]) -> dict[str, tuple[Price, ...]]:
    """Offers as if any part of a machine could be had, at the least that one accelerator costs: what is left of it is
    for other models, and who has room for which size is decided as all are bought.
    """
    found: dict[str, tuple[Price, ...]] = {}
    for name, rows in offers.items():
        sizes = {size: placements(size, rows, chips[name]) for size in _SIZES}
        sold = [way for ways in sizes.values() for way in ways]
        cheapest = min(sold, key=_usd_per_accelerator, default=None)
        if cheapest is None:
            continue
        changes = {"provider": f"part of {cheapest.price.provider}", "min_quantity": None}
        found[name] = tuple(
            cheapest.price.model_copy(
                update={
                    **changes,
                    "num_accelerators": size,
                    "usd_per_hour": _usd_per_accelerator(cheapest) * size,
                    "max_quantity": _most(ways),
                }
            )
            for size, ways in sizes.items()
            if ways
        )
    return found


def _usd_per_accelerator(way: Placement) -> float:
    return way.usd_per_unit_hour / way.accelerators_per_unit


def _most(ways: Sequence[Placement]) -> int | None:
    """Return the accelerators of the largest order on one of the placements; None if a provider states no limit."""
    limits = [way.max_units * way.accelerators_per_unit for way in ways if way.max_units is not None]
    return max(limits) if len(limits) == len(ways) else None


def size_models(scenarios: Sequence[Scenario], progress: Report) -> list[Sized]:
    """Every model searched alone at the price of the accelerators that it uses, then on those that suit the others.

    Raises: InfeasibleError: nothing serves one of them.
    """
    work = 3 * SEARCH_WORK // (2 * len(scenarios))
    # The best few accelerators of each model; those that may suit all of them are searched again below.
    found = [
        _size_search(search_scenario(each, progress=progress, offered=slice_offers, work=work, width=_WIDTH))
        for each in scenarios
    ]
    kinds = _kinds(found)
    missing = [(place, name) for place, one in enumerate(found) for name in kinds if name not in one.plans]
    for place, name in missing:
        scenario = scenarios[place]
        if scenario.constraints.own:
            continue  # all that is there was searched
        asked = scenario.with_limits(accelerators=(name,))
        work = SEARCH_WORK // (2 * len(missing))
        try:
            more = search_scenario(asked, progress=progress, offered=slice_offers, work=work, width=1)
        except InfeasibleError:
            continue
        found[place].plans |= _size_search(more).plans
    return found


def _size_search(done: Search) -> Sized:
    plans: dict[str, list[Planned]] = {}
    for name in done.accelerators:
        by_size: dict[int, list[Planned]] = {}
        for plan in done.race.others(0, name):
            size = plan.found.candidate.deployment.accelerators_per_replica
            by_size.setdefault(size, []).append(plan)
        if by_size:
            plans[name] = [cheapest_by_expectation(able) for able in by_size.values()]
    return Sized(done, plans)


def _kinds(found: Sequence[Sized]) -> list[str]:
    """Accelerators that may serve all models for least, by what each model costs on them at least."""
    names = {name for one in found for name in one.plans}

    def least(name: str) -> float:
        total = 0.0
        for one in found:
            traffic = one.scenario.traffic
            usd = min((plan.found.purchase.cost for plan in one.plans.get(name, ())), default=math.inf)
            usd = min(usd, one.done.race.floor(0, name))
            total += usd * traffic.tokens_per_request * (traffic.rate_per_s or 0.0)
        return total

    return sorted((name for name in names if least(name) < math.inf), key=least)[:_KINDS]


def fleets(found: Sequence[Sized], top: int, budget: float = math.inf) -> tuple[list[Fleet], float]:
    """The best fleets, with what their parts show at their planning points; and what the models cost apart [USD/h].

    The first block is found alone, so that it does not depend on `top`; further fleets are put behind it.
    """
    names = {name for one in found for name in one.plans}
    done = found[0].done
    scenarios = [one.scenario for one in found]
    offers = {name: done.offers[name] for name in sorted(names)}
    rows = list(compared_rows(scenarios[0], offers, done.accelerators, _SIZES))
    first = list[Fleet]()
    apart = math.inf
    with limit_effort(SHOW_WORK):
        while True:
            plans = [one.plans for one in found]
            best = cheapest_fleets(scenarios, plans, rows, budget)
            known = {_key(fleet) for fleet in first}
            best = [*first, *(fleet for fleet in best if _key(fleet) not in known)][: top if first else BLOCK]
            unsettled = {
                (place, id(plan.found.candidate)): None
                for fleet in best
                for block in fleet
                for place, plan in zip(block.places, block.plans, strict=True)
                if id(plan.found.candidate) not in found[place].settled
            }
            if not unsettled:
                apart = apart if first else apart_usd_per_hour(scenarios, plans, rows)
                if first or len(best) < BLOCK or top <= BLOCK:
                    return best, apart
                first = best
            for place, candidate in unsettled:
                _settle(found[place], candidate)


def _key(fleet: Fleet) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
    """The machines of a fleet: of whom, which, and for which models."""
    return tuple(
        (block.order.unit.price.provider, block.order.unit.price.sku, block.places) for block in fleet
    )


def _settle(one: Sized, candidate: int) -> None:
    """Put what longer runs show in place of a plan, or nothing where they show that it does not hold."""
    one.settled.add(candidate)
    for name, plans in one.plans.items():
        one.plans[name] = [
            found
            for plan in plans
            if (found := plan if id(plan.found.candidate) != candidate else settle(one.scenario, plan))
        ]
