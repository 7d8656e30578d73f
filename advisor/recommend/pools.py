"""Two pools, prompts apart from answers, on what plain deployments run on: bounded, sized by runs, held like those."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from advisor.catalog.schema import Accelerator, Price
from advisor.recommend.capacity import ESTIMATE_REQUESTS, Capacity, confirm
from advisor.recommend.levers import APART
from advisor.recommend.load_runs import is_spent, run_at, strain
from advisor.recommend.offers import Placement, placements
from advisor.recommend.pool_workers import LARGEST_WORKER, Pair, Side, agree, sides_of
from advisor.recommend.purchase import Demand, cheapest_purchase
from advisor.recommend.ranking import Planned, planned
from advisor.recommend.result import Share
from advisor.recommend.scenario import Scenario
from advisor.recommend.screening import Fleet, Found, Part
from advisor.recommend.settling import Settled, confirmed
from advisor.simulator.disaggregation import DisaggregatedModel, PoolPlan, joined

_BASES: Final = 2
"""Accelerators of the best plain deployments on which pools are tried."""
_MOST_STEPS: Final = 12
_MOST_SIZED: Final = 4
"""Pairs of an accelerator whose pools are sized, those that are likely to cost least."""
_GROWTH: Final = 0.1
_NEARLY_FULL: Final = 0.95
"""Of what decode workers carry at most: above it first tokens wait for them, below it for prompts."""
_PER_WORKER: Final = 40
"""Requests of a run that sizes pools, for each of their workers."""

Offers = Mapping[str, tuple[Price, ...]]


@dataclass(frozen=True, slots=True)
class Asked:
    """What pools must carry, and where they can be bought."""

    scenario: Scenario
    demand: Demand
    offers: Offers

    @property
    def load(self) -> float:
        """What must be shown to hold, so that the demand leaves its headroom free [requests/s]."""
        return self.demand.size / (1.0 - self.scenario.headroom_fraction)

    @property
    def num_spare(self) -> int:
        """Workers of each kind more than the load needs."""
        return 1 if self.scenario.redundancy == "n+1" else 0


@dataclass(frozen=True, slots=True)
class Cell:
    """Both pools as they are bought: one machine for all, or units for each."""

    whole: Placement
    ways: tuple[Placement, Placement]
    units: tuple[int, int]
    is_shared: bool = False

    @property
    def usd_per_hour(self) -> float:
        return self.whole.usd_per_unit_hour


def with_pools(
    scenario: Scenario,
    demand: Demand,
    plain: Sequence[Planned],
    accelerators: Mapping[str, Accelerator],
    offers: Offers,
) -> list[Planned]:
    """The plain deployments of a ranking, with two pools in place of those that they beat.

    Pools are sought on the accelerators of the best: begun with what a worker's surface allows, grown until runs with
    headroom hold, held with several seeds, shown with others.
    """
    kept = list(plain)
    sides = [sides_of(scenario, plan, accelerators, offers) for plan in plain[:_BASES]]
    prefill = [side for prompts, _ in sides for side in prompts]
    for place, (plan, (_, decode)) in enumerate(zip(plain[:_BASES], sides, strict=True)):
        # At the seller of the plain deployment, so that what is compared is as firm and as near.
        seller = _seller(plan.found.purchase.placement.price)
        own = {name: tuple(row for row in rows if _seller(row) == seller) for name, rows in offers.items()}
        pairs = [
            Pair(_sold_by(seller, first), _sold_by(seller, second))
            for first in prefill
            for second in decode
            if agree(first, second)
        ]
        best = _best(Asked(scenario, demand, own), plan, pairs)
        if best is not None and best.expected_cost < plan.expected_cost:
            kept[place] = best
    return kept


def _seller(price: Price) -> tuple[str, ...]:
    return price.provider, price.region, price.term, price.price_kind, price.tenancy


def _sold_by(seller: tuple[str, ...], side: Side) -> Side:
    return replace(side, ways=tuple(way for way in side.ways if _seller(way.price) == seller))


def _best(asked: Asked, plan: Planned, pairs: Sequence[Pair]) -> Planned | None:
    """The cheapest pools that hold, of the pairs that may cost least; None where none beats the plain deployment."""
    limit, begin = plan.found.purchase.usd_per_hour, list[tuple[float, int]]()
    for place, pair in enumerate(pairs):
        likely = _cell(asked, pair, pair.likely(asked.load))
        if likely is not None and likely.usd_per_hour < limit:
            begin.append((likely.usd_per_hour, place))
    best = None
    for usd, place in sorted(begin)[:_MOST_SIZED]:
        sized = _sized(asked, pairs[place], limit) if usd < limit and not is_spent() else None
        if sized is None:
            continue
        held = confirmed(asked.scenario, planned(asked.scenario, asked.demand, sized), Settled())
        if held is not None:
            best, limit = held, held.found.purchase.usd_per_hour
    return best


def _sized(asked: Asked, pair: Pair, limit: float) -> Found | None:
    """The smallest pools below a bill [USD/h] that hold the load, grown from what is likely to."""
    scenario, load, spent = asked.scenario, asked.load, 0
    traffic, objectives = scenario.traffic, scenario.objectives
    counts = [(low + high) // 2 for low, high in zip(pair.least(load), pair.likely(load), strict=True)]
    for _ in range(_MOST_STEPS):
        cell = _cell(asked, pair, counts)
        if cell is None or cell.usd_per_hour >= limit:
            return None
        served = _served(pair, counts)
        length = max(ESTIMATE_REQUESTS, _PER_WORKER * sum(counts))
        result = run_at(served, traffic, load, length, scenario.seed, objectives=objectives)
        spent += result.num_requests
        tightest, name = strain(result, objectives)
        if tightest <= 1.0:
            aim = Capacity(load, load, result, spent, name)
            held = confirm(served, traffic, objectives, aim, scenario.seed, least=load)
            if held is not None:
                return _found(asked, pair, counts, cell, held)
        busy = load / (counts[1] * pair.decode.rate_bound)
        short = 1 if name in ("tpot", "itl") or busy > _NEARLY_FULL else 0
        counts[short] += max(1, math.floor(_GROWTH * counts[short]))
    return None


def _served(pair: Pair, counts: Sequence[int]) -> DisaggregatedModel:
    first, second = (
        PoolPlan(side.candidate.deployment, count) for side, count in zip(pair.sides, counts, strict=True)
    )
    return joined(first, second, pair.prefill.replica, pair.decode.replica)


def _found(asked: Asked, pair: Pair, counts: Sequence[int], cell: Cell, held: Capacity) -> Found | None:
    """Pools that hold, bought."""
    numbers = [count + asked.num_spare for count in counts]
    whole = replace(cell.whole, num_workers=sum(numbers), has_spare=bool(asked.num_spare), max_units=1)
    bought = cheapest_purchase(asked.scenario, asked.demand, (whole,), held.load, held.requests_per_s)
    if bought is None:
        return None
    roles: tuple[Share, Share] = ("prefill", "decode")
    parts = tuple(
        Part(role, side.candidate, side.replica, number, way, units, cell.is_shared)
        for role, side, number, way, units in zip(
            roles, pair.sides, numbers, cell.ways, cell.units, strict=True
        )
    )
    fleet = Fleet(APART.name, parts, _served(pair, numbers))
    return Found(pair.decode.candidate, pair.decode.replica, held, (bought,), (whole,), fleet)


def _cell(asked: Asked, pair: Pair, counts: Sequence[int]) -> Cell | None:
    """The cheapest way to buy so many workers, and spare ones; None where nobody sells them side by side."""
    numbers = [count + asked.num_spare for count in counts]
    budget = asked.scenario.objectives.budget_usd_per_hour or math.inf
    cells = (*_together(asked, pair, numbers), *_apart(pair, numbers))
    found = [cell for cell in cells if cell.usd_per_hour <= budget]
    return min(found, key=lambda cell: cell.usd_per_hour, default=None)


def _together(asked: Asked, pair: Pair, numbers: Sequence[int]) -> Iterator[Cell]:
    """Ways to buy one machine for both pools of one kind of accelerator."""
    chip, total = pair.decode.accelerator, pair.num_accelerators(numbers)
    if not pair.is_one_kind or total > _largest_machine(chip):
        return
    for way in placements(total, asked.offers[chip.id], chip):
        if way.min_units == 1 and way.accelerators_per_unit <= _largest_machine(chip):
            yield Cell(replace(way, replicas_per_unit=1), (way, way), (1, 1), is_shared=True)


def _apart(pair: Pair, numbers: Sequence[int]) -> Iterator[Cell]:
    """Ways to buy machines of their own for each pool, from one seller in one place."""
    fabric = pair.decode.accelerator.scale_up
    if pair.is_one_kind and fabric and pair.num_accelerators(numbers) <= fabric.max_domain:
        return  # what is priced moves caches inside one machine
    for first in pair.prefill.ways:
        for second in pair.decode.ways:
            one, two = first.price, second.price
            if _seller(one) != _seller(two):
                continue
            ways = (first, second)
            units = tuple(
                math.ceil(number / way.replicas_per_unit) for number, way in zip(numbers, ways, strict=True)
            )
            if (pair.is_one_kind and one.sku != two.sku) or not _is_sold(ways, units, pair):
                continue
            bills = [count * way.usd_per_unit_hour for count, way in zip(units, ways, strict=True)]
            num_accelerators = sum(
                count * way.accelerators_per_unit for count, way in zip(units, ways, strict=True)
            )
            dearer = ways[bills.index(max(bills))]
            yield Cell(Placement(dearer.price, 1, num_accelerators, sum(bills)), ways, (units[0], units[1]))


def _is_sold(ways: tuple[Placement, Placement], units: Sequence[int], pair: Pair) -> bool:
    """Whether a seller has so many units of both, and sells so few."""
    counts = [count * way.accelerators_per_unit for count, way in zip(units, ways, strict=True)]
    if pair.is_one_kind:
        counts = [sum(counts)] * 2
    return all(
        way.min_units * way.accelerators_per_unit <= count
        and (way.max_units is None or count <= way.max_units * way.accelerators_per_unit)
        for way, count in zip(ways, counts, strict=True)
    )


def _largest_machine(chip: Accelerator) -> int:
    return max(LARGEST_WORKER, chip.scale_up.max_domain if chip.scale_up else 0)
