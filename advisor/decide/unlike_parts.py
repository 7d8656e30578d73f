"""Fleets of two unlike parts on what plain deployments run on: sized by runs, held like those, bought of one seller."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from advisor.catalog.schema import Accelerator, Price
from advisor.decide.candidates import Candidate
from advisor.decide.effort import is_spent
from advisor.decide.load_runs import Served, run_at, strain
from advisor.decide.measure import SHORT_REQUESTS, Capacity, Measurements
from advisor.decide.offers import Placement, placements
from advisor.decide.option import Share
from advisor.decide.purchase import Demand, cheapest_purchase
from advisor.decide.race import run_planning_point
from advisor.decide.ranking import Planned, judge_purchase
from advisor.decide.scenario import Scenario, Traffic
from advisor.decide.trial import FleetPart, Found, UnlikeFleet
from advisor.simulator.replica_model import ReplicaModel
from advisor.simulator.serving import ServingResult

_MOST_SIZED: Final = (4, 1)
"""Pairs whose parts are sized, those that are likely to cost least: of the best plain deployment, and of the next."""
BASES: Final = len(_MOST_SIZED)
"""Plain deployments for which unlike parts are tried."""
LARGEST_WORKER: Final = 8
"""Accelerators of one worker: those of a usual machine."""
_MOST_STEPS: Final = 12
_MAX_REGROWTH: Final = 3
"""Maximum number of times that parts are enlarged after other seeds reject them."""
_GROWTH: Final = 0.1
_PER_WORKER: Final = 40
"""Requests of a run that sizes parts, for each of their workers."""

Offers = Mapping[str, tuple[Price, ...]]


@dataclass(frozen=True, slots=True)
class Asked:
    """The load that both parts must carry, and the offers for them."""

    scenario: Scenario
    demand: Demand
    offers: Offers

    @property
    def load(self) -> float:
        """Return the load that must be shown to hold, so that the demand leaves its headroom free [requests/s]."""
        return self.demand.size / (1.0 - self.scenario.headroom_fraction)

    @property
    def num_spare(self) -> int:
        """Workers of each kind more than the load needs."""
        return 1 if self.scenario.redundancy == "n+1" else 0


@dataclass(frozen=True, slots=True)
class Side:
    """One kind of worker, and how it can be bought."""

    candidate: Candidate
    replica: ReplicaModel
    ways: tuple[Placement, ...]

    @property
    def accelerator(self) -> Accelerator:
        return self.candidate.deployment.accelerator


class WorkerPair(Protocol):
    """Two kinds of workers that serve together."""

    @property
    def lever(self) -> str:
        """Return the name of the lever that creates the two kinds."""

    @property
    def roles(self) -> tuple[Share, Share]:
        """Return the part of the work that each kind does."""

    @property
    def sides(self) -> tuple[Side, Side]:
        """The kinds; the second stands for the whole."""

    @property
    def traffics(self) -> tuple[Traffic | None, Traffic | None]:
        """Return the traffic of each kind; None for a kind that sees all requests."""

    @property
    def moves_caches(self) -> bool:
        """Whether one kind sends caches to the other, inside one machine where they fit into one."""

    def likely(self, load: float) -> tuple[int, int]:
        """Workers of each kind that a load [requests/s] may need, by which pairs are compared."""

    def begin(self, load: float) -> tuple[int, int]:
        """Workers of each kind from which on they are grown."""

    def build_served(self, counts: Sequence[int]) -> Served:
        """Return the system that is simulated for these counts of workers."""

    def short(self, result: ServingResult, missed: str, counts: Sequence[int], asked: Asked) -> int:
        """Place of the kind of which there are too few where a run missed an objective."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A purchase of both parts: one machine for all, or units for each part."""

    whole: Placement
    ways: tuple[Placement, Placement]
    units: tuple[int, int]
    is_shared: bool = False

    @property
    def usd_per_hour(self) -> float:
        return self.whole.usd_per_unit_hour


def with_parts(
    scenario: Scenario,
    demand: Demand,
    plain: Sequence[Planned],
    offers: Offers,
    pairs_of: Callable[[Asked, Planned], Iterable[WorkerPair]],
) -> list[Planned]:
    """The plain deployments of a ranking, with two unlike parts in place of those that they beat.

    Parts are sought on the accelerators of the best, at the seller of the plain deployment, so that what is compared is
    as firm and as near: begun with what is likely to do, grown until runs with headroom hold, held with several seeds,
    shown with others.
    """
    kept = list(plain)
    for place, plan in enumerate(plain[:BASES]):
        seller = seller_of(plan.found.purchase.placement.price)
        own = {name: tuple(row for row in rows if seller_of(row) == seller) for name, rows in offers.items()}
        asked = Asked(scenario, demand, own)
        best = _best(asked, plan, list(pairs_of(asked, plan)), _MOST_SIZED[place])
        is_known = best is not None and any(_is_same(best, other) for other in kept[:place])
        if best is not None and best.expected_cost < plan.expected_cost and not is_known:
            kept[place] = best
    return kept


def _is_same(first: Planned, other: Planned) -> bool:
    """Whether two fleets are of the same parts: both accelerators may lead to one."""
    made = [
        [(part.candidate.deployment, part.num_replicas) for part in plan.found.fleet.parts]
        for plan in (first, other)
        if plan.found.fleet
    ]
    return len(made) == 2 and made[0] == made[1]


def seller_of(price: Price) -> tuple[str, ...]:
    """Return the provider, region, term, kind of price and tenancy, in which both parts of a fleet must agree."""
    return price.provider, price.region, price.term, price.price_kind, price.tenancy


def _best(asked: Asked, plan: Planned, pairs: Sequence[WorkerPair], most: int) -> Planned | None:
    """The cheapest parts that hold, of the `most` pairs that may cost least; None where none beats the plain ones."""
    limit = plan.found.purchase.usd_per_hour
    waiting = list[tuple[float, int, tuple[int, ...]]]()
    for place, pair in enumerate(pairs):
        likely = cheapest_cell(asked, pair, pair.likely(asked.load))
        if likely is not None and likely.usd_per_hour < limit:
            waiting.append((likely.usd_per_hour, place, pair.begin(asked.load)))
    waiting = sorted(waiting)[:most]
    sized = list[tuple[float, int, Found]]()
    for _ in range(most + _MAX_REGROWTH):
        for usd, place, counts in waiting:
            least = sized[-1][0] if sized else limit
            found = (
                _size_parts(asked, pairs[place], least, counts) if usd < least and not is_spent() else None
            )
            if found is not None:
                sized.append((found.purchase.usd_per_hour, place, found))
        if not sized:
            return None
        _, place, found = sized.pop()  # the cheapest
        plan_of_parts = judge_purchase(asked.scenario, asked.demand, found)
        held = run_planning_point(asked.scenario, plan_of_parts, is_held=not asked.scenario.screened_only)
        if held is not None:
            return held
        waiting = [
            each for each in waiting if each[1] != place and all(each[1] != one for _, one, _ in sized)
        ]
        counts = _grow_counts(asked, pairs[place], found)
        cell = cheapest_cell(asked, pairs[place], counts)
        waiting = sorted([*waiting, (cell.usd_per_hour, place, counts)]) if cell else waiting
    return None


def _grow_counts(asked: Asked, pair: WorkerPair, found: Found) -> tuple[int, ...]:
    """The counts of parts that other seeds did not show to hold, with one more of what is short."""
    assert found.fleet is not None
    counts = [part.num_replicas - asked.num_spare for part in found.fleet.parts]
    counts[pair.short(found.capacity.result, found.capacity.binding, counts, asked)] += 1
    return tuple(counts)


def _size_parts(asked: Asked, pair: WorkerPair, limit: float, begin: Sequence[int]) -> Found | None:
    """The smallest parts below a bill [USD/h] that hold the load, grown from what may."""
    scenario = asked.scenario
    load = asked.load
    spent = 0
    traffic = scenario.traffic
    objectives = scenario.objectives
    counts = list(begin)
    for _ in range(_MOST_STEPS):
        cell = cheapest_cell(asked, pair, counts)
        if cell is None or cell.usd_per_hour >= limit:
            return None
        served = pair.build_served(counts)
        length = max(SHORT_REQUESTS, _PER_WORKER * sum(counts))
        result = run_at(served, traffic, load, length, scenario.seed, objectives=objectives)
        spent += result.num_requests
        tightest, name = strain(result, objectives)
        if tightest <= 1.0:
            measurements = Measurements(served, traffic, objectives, load, scenario.seed)
            held = measurements.holds(load)
            if held is not None:
                capacity = Capacity(load, load, held, spent + measurements.num_requests, name, "confirmed")
                return _buy_parts(asked, pair, counts, cell, capacity)
        short = pair.short(result, name, counts, asked)
        counts[short] += max(1, math.floor(_GROWTH * counts[short]))
    return None


def _buy_parts(
    asked: Asked, pair: WorkerPair, counts: Sequence[int], cell: Cell, held: Capacity
) -> Found | None:
    """Parts that hold, bought."""
    numbers = [count + asked.num_spare for count in counts]
    whole = replace(cell.whole, num_workers=sum(numbers), has_spare=bool(asked.num_spare), max_units=1)
    bought = cheapest_purchase(asked.scenario, asked.demand, (whole,), held.load, held.requests_per_s)
    if bought is None:
        return None
    columns = (pair.roles, pair.sides, pair.traffics, numbers, cell.ways, cell.units)
    parts = tuple(
        FleetPart(role, side.candidate, side.replica, number, way, units, cell.is_shared, traffic)
        for role, side, traffic, number, way, units in zip(*columns, strict=True)
    )
    fleet = UnlikeFleet(pair.lever, parts, pair.build_served(numbers))
    last = pair.sides[1]
    return Found(last.candidate, last.replica, held, bought, (whole,), fleet)


def cheapest_cell(asked: Asked, pair: WorkerPair, counts: Sequence[int]) -> Cell | None:
    """Return the cheapest way to buy `counts` workers, and spare ones; None if no provider sells them together."""
    numbers = [count + asked.num_spare for count in counts]
    budget = asked.scenario.objectives.budget_usd_per_hour or math.inf
    cells = (*_together(asked, pair, numbers), *_apart(pair, numbers))
    found = [cell for cell in cells if cell.usd_per_hour <= budget]
    return min(found, key=lambda cell: cell.usd_per_hour, default=None)


def _is_one_kind(pair: WorkerPair) -> bool:
    first, second = pair.sides
    return first.accelerator.id == second.accelerator.id


def num_accelerators(pair: WorkerPair, counts: Sequence[int]) -> int:
    """Return the number of accelerators of `counts` workers of each kind."""
    sizes = (side.candidate.deployment.accelerators_per_replica for side in pair.sides)
    return sum(count * size for count, size in zip(counts, sizes, strict=True))


def _together(asked: Asked, pair: WorkerPair, numbers: Sequence[int]) -> Iterator[Cell]:
    """Ways to buy one machine for both parts on one kind of accelerator."""
    chip = pair.sides[1].accelerator
    total = num_accelerators(pair, numbers)
    if not _is_one_kind(pair) or total > _largest_machine(chip):
        return
    for way in placements(total, asked.offers[chip.id], chip):
        if way.min_units == 1 and way.accelerators_per_unit <= _largest_machine(chip):
            yield Cell(replace(way, replicas_per_unit=1), (way, way), (1, 1), is_shared=True)


def _apart(pair: WorkerPair, numbers: Sequence[int]) -> Iterator[Cell]:
    """Ways to buy machines of their own for each part, from one seller in one place."""
    first, second = pair.sides
    fabric = second.accelerator.scale_up
    is_one = _is_one_kind(pair)
    if pair.moves_caches and is_one and fabric and num_accelerators(pair, numbers) <= fabric.max_domain:
        return  # what is priced moves caches inside one machine
    for ways in ((one, other) for one in first.ways for other in second.ways):
        one, two = (way.price for way in ways)
        if seller_of(one) != seller_of(two):
            continue
        units = tuple(
            math.ceil(number / way.replicas_per_unit) for number, way in zip(numbers, ways, strict=True)
        )
        if (is_one and one.sku != two.sku) or not _is_sold(ways, units, is_one=is_one):
            continue
        bills = [count * way.usd_per_unit_hour for count, way in zip(units, ways, strict=True)]
        total = sum(count * way.accelerators_per_unit for count, way in zip(units, ways, strict=True))
        dearer = ways[bills.index(max(bills))]
        yield Cell(Placement(dearer.price, 1, total, sum(bills)), ways, (units[0], units[1]))


def _is_sold(ways: tuple[Placement, Placement], units: Sequence[int], *, is_one: bool) -> bool:
    """Whether a provider sells the units of both parts: no fewer than its least order, and no more than it has."""
    counts = [count * way.accelerators_per_unit for count, way in zip(units, ways, strict=True)]
    if is_one:
        counts = [sum(counts)] * 2
    return all(
        way.min_units * way.accelerators_per_unit <= count
        and (way.max_units is None or count <= way.max_units * way.accelerators_per_unit)
        for way, count in zip(ways, counts, strict=True)
    )


def _largest_machine(chip: Accelerator) -> int:
    return max(LARGEST_WORKER, chip.scale_up.max_domain if chip.scale_up else 0)
