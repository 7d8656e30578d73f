"""Fleets of two unlike parts on what plain deployments run on: sized by runs, held like those, bought from one provider
in one place.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Protocol

from advisor.catalog.schema import Accelerator, Price
from advisor.decide.candidates import Candidate
from advisor.decide.effort import is_spent
from advisor.decide.load_runs import Served, run_at, strain
from advisor.decide.measure import GRID, SHORT_REQUESTS, Capacity, Measurements
from advisor.decide.offers import Placement, placements, price_spread_of
from advisor.decide.option import Share
from advisor.decide.purchase import Demand, cheapest_purchase
from advisor.decide.race import run_planning_point
from advisor.decide.ranking import Planned, is_firm, judge_purchase
from advisor.decide.scenario import Scenario, Traffic
from advisor.decide.trial import FleetPart, Found, UnlikeFleet
from advisor.simulator.replica_model import ReplicaModel
from advisor.simulator.serving import ServingResult

_MOST_SIZED: Final = 4
"""Pairs whose parts are sized for each plain deployment: those that are likely to cost least. Every accelerator of an
answer gets as many, so that it costs in a list what it costs alone."""
LARGEST_WORKER: Final = 8
"""Accelerators of one worker: those of a usual machine."""
_MOST_STEPS: Final = 12
_MAX_REGROWTH: Final = 3
"""Maximum number of times that parts are enlarged after other seeds reject them."""
_GROWTH: Final = 0.1
_PER_WORKER: Final = 40
"""Requests of a run that sizes parts, for each of their workers."""
_MOST_WITHIN_BUDGET: Final = 6
"""Pairs of counts of which a capacity is measured where a budget is given, those of the highest bounds."""

_MOST_RISE: Final = 1.35 / GRID
"""Confirmed capacity over the screened one, at most, as `advisor.decide.measure` has it, with a step of the grid."""

Offers = Mapping[str, tuple[Price, ...]]


@dataclass(frozen=True, slots=True)
class Asked:
    """The demand that both parts must carry, and the offers for them."""

    scenario: Scenario
    demand: Demand
    offers: Offers
    gain: float = 1.0
    """Cost of a pair's bound over that of the plain deployment, below which the pair is sized."""
    measured: dict[tuple[object, ...], Measurements] = field(default_factory=dict, compare=False)
    """Runs of parts that were made, by their replicas and counts: offers do not change them."""

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

    def least(self, load: float) -> tuple[int, int]:
        """Workers of each kind without which a load [requests/s] cannot be carried."""

    def bound(self, counts: Sequence[int]) -> float:
        """Load that these counts of workers cannot exceed [requests/s]."""

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
    expected_usd_per_hour: float = 0.0
    """Bill at what its price is expected to be today [USD/h]."""

    @property
    def usd_per_hour(self) -> float:
        return self.whole.usd_per_unit_hour


@dataclass(frozen=True, slots=True)
class Base:
    """A plain deployment that unlike parts must beat, and the offers from which they may be bought."""

    plain: Planned
    allows: Callable[[Price], bool]
    """Whether parts may be bought from an offer."""


def fleets(
    scenario: Scenario,
    demand: Demand,
    bases: Sequence[Base],
    offers: Offers,
    pairs_of: Callable[[Asked, Base], Iterable[WorkerPair]],
    *,
    gain: float = 1.0,
    at_any_cost: bool = False,
) -> list[Planned]:
    """Return the fleets of two unlike parts that are expected to cost less than the plain deployments, or cost
    anything.

    Parts are begun with what is likely to do, grown until runs with headroom hold, held with several seeds, and shown
    with others.
    """
    found = list[Planned]()
    measured: dict[tuple[object, ...], Measurements] = {}
    for base in bases:
        allowed = {name: tuple(filter(base.allows, rows)) for name, rows in offers.items()}
        asked = Asked(scenario, demand, allowed, gain, measured)
        pairs = list(pairs_of(asked, base))
        if at_any_cost:
            best = _best(asked, math.inf, pairs)
        elif demand.kind == "budget":
            best = _most_within(asked, base.plain, pairs)
        else:
            bought = base.plain.found.purchase
            best = _best(asked, expected_usd_per_hour(asked, bought.placement, bought.usd_per_hour), pairs)
        if best is None or (not at_any_cost and best.expected_cost >= base.plain.expected_cost):
            continue
        if not any(_is_same(best, other) for other in found):
            found.append(best)
    return found


def bases_of(scenario: Scenario, plans: Sequence[Sequence[Planned]], *, of_one_seller: bool) -> list[Base]:
    """Return what unlike parts must beat on each accelerator, given its plain deployments: the cheapest one with parts
    from any offer, and the cheapest safe one with parts at firm prices.

    `of_one_seller` allows only the offers of the plain deployment's seller.
    """
    found = list[Base]()
    for of_chip in plans:
        safe = [plan for plan in of_chip if plan.is_safe]
        for able, is_firm_only in ((of_chip, False), (safe, True)):
            if not able:
                continue
            plan = min(able, key=lambda each: each.expected_cost)
            allows = partial(
                _is_allowed,
                scenario=scenario,
                is_firm_only=is_firm_only,
                seller=seller_of(plan.found.purchase.placement.price) if of_one_seller else None,
            )
            found.append(Base(plan, allows))
    return found


def _is_allowed(
    price: Price, *, scenario: Scenario, is_firm_only: bool, seller: tuple[str, ...] | None
) -> bool:
    """Whether an offer is firm, where only firm ones are looked for, and of the seller, where there is one."""
    if is_firm_only and not is_firm(price, price_spread_of(price, scenario.as_of)):
        return False
    return seller is None or seller_of(price) == seller


def _is_same(first: Planned, other: Planned) -> bool:
    """Whether two fleets are of the same parts from the same seller: both accelerators may lead to one. Parts at a firm
    price are kept along with equal ones that cost less at a price which is not."""
    made = [
        (
            [(part.candidate.deployment, part.num_replicas) for part in plan.found.fleet.parts],
            seller_of(plan.found.purchase.placement.price),
        )
        for plan in (first, other)
        if plan.found.fleet
    ]
    return len(made) == 2 and made[0] == made[1]


def seller_of(price: Price) -> tuple[str, ...]:
    """Return the provider, region, term, kind of price and tenancy, in which both parts of a fleet must agree."""
    return price.provider, price.region, price.term, price.price_kind, price.tenancy


def _best(asked: Asked, limit: float, pairs: Sequence[WorkerPair]) -> Planned | None:
    """The cheapest parts that hold, of the pairs that may cost least, below `limit` [USD/h]; None without any."""
    waiting = list[tuple[float, int, tuple[int, ...]]]()
    for place, pair in enumerate(pairs):
        least = cheapest_cell(asked, pair, pair.least(asked.load))
        if least is None or least.expected_usd_per_hour >= asked.gain * limit:
            continue
        likely = cheapest_cell(asked, pair, pair.likely(asked.load))
        if likely is not None and likely.expected_usd_per_hour < limit:
            waiting.append((likely.expected_usd_per_hour, place, pair.begin(asked.load)))
    waiting = sorted(waiting)[:_MOST_SIZED]
    sized = list[tuple[float, int, Found]]()
    for _ in range(_MOST_SIZED + _MAX_REGROWTH):
        for usd, place, counts in waiting:
            least_usd = sized[-1][0] if sized else limit
            is_open = usd < least_usd and not is_spent()
            found = _size_parts(asked, pairs[place], least_usd, counts) if is_open else None
            if found is not None:
                bought = found.purchase
                sized.append(
                    (expected_usd_per_hour(asked, bought.placement, bought.usd_per_hour), place, found)
                )
        if not sized:
            return None
        _, place, found = sized.pop()  # the cheapest
        held = _show_parts(asked, found)
        if held is not None:
            return held
        waiting = [
            each for each in waiting if each[1] != place and all(each[1] != one for _, one, _ in sized)
        ]
        counts = _grow_counts(asked, pairs[place], found)
        cell = cheapest_cell(asked, pairs[place], counts)
        waiting = sorted([*waiting, (cell.expected_usd_per_hour, place, counts)]) if cell else waiting
    return None


def _show_parts(asked: Asked, found: Found) -> Planned | None:
    """Parts at their planning point; None where they miss an objective there."""
    return run_planning_point(
        asked.scenario,
        judge_purchase(asked.scenario, asked.demand, found),
        is_held=not asked.scenario.screened_only,
    )


def _most_within(asked: Asked, plan: Planned, pairs: Sequence[WorkerPair]) -> Planned | None:
    """The parts that carry most within a budget: those of the highest bounds are measured, until no bound is above what
    was measured; None where none carries more than the plain deployment.
    """
    budget = asked.demand.size
    headroom = 1.0 - asked.scenario.headroom_fraction
    able = list[tuple[float, int, tuple[int, int]]]()
    for place, pair in enumerate(pairs):
        for counts in _affordable(asked, pair, budget):
            bound = headroom * pair.bound(counts)
            if asked.gain * bound > plan.found.purchase.requests_per_s:
                able.append((-bound, place, counts))
    best: Planned | None = None
    for bound, place, counts in sorted(able)[: _MOST_WITHIN_BUDGET * _MOST_SIZED]:
        carried = plan if best is None else best
        if is_spent() or -bound <= carried.found.purchase.requests_per_s:
            break
        pair = pairs[place]
        cell = cheapest_cell(asked, pair, counts)
        capacity = _capacity(_measurements(asked, pair, counts))
        found = None if cell is None or capacity is None else _buy_parts(asked, pair, counts, cell, capacity)
        if found is None or found.purchase.requests_per_s <= carried.found.purchase.requests_per_s:
            continue
        best = _show_parts(asked, found) or best
    return best


def _affordable(asked: Asked, pair: WorkerPair, budget: float) -> Iterator[tuple[int, int]]:
    """Yield the counts of which a budget [USD/h] pays no worker more of either kind."""

    def is_paid(counts: tuple[int, int]) -> bool:
        cell = cheapest_cell(asked, pair, counts)
        return cell is not None and cell.usd_per_hour <= budget

    second = 1
    while is_paid((1, second)):
        second += 1
    second -= 1
    first = 1
    while second > 0:
        while is_paid((first + 1, second)):
            first += 1
        if is_paid((first, second)):
            yield first, second
        second -= 1


def _measurements(asked: Asked, pair: WorkerPair, counts: Sequence[int]) -> Measurements:
    """Runs of the parts, on a grid of loads that depends on the parts alone."""
    key = (*(id(side.replica) for side in pair.sides), *counts)
    if key not in asked.measured:
        asked.measured[key] = Measurements(pair.build_served(counts), asked.scenario, pair.bound(counts))
    return asked.measured[key]


def _grow_counts(asked: Asked, pair: WorkerPair, found: Found) -> tuple[int, ...]:
    """The counts of parts that other seeds did not show to hold, with one more of what is short."""
    assert found.fleet is not None
    counts = [part.num_replicas - asked.num_spare for part in found.fleet.parts]
    counts[pair.short(found.capacity.result, found.capacity.binding, counts, asked)] += 1
    return tuple(counts)


def _size_parts(asked: Asked, pair: WorkerPair, limit: float, begin: Sequence[int]) -> Found | None:
    """The smallest parts below an expected bill [USD/h] that hold the load, grown from what may: in short runs first,
    then between what a long run missed and the most that the bill allows."""
    scenario = asked.scenario
    counts = list(begin)
    for _ in range(_MOST_STEPS):
        if not _is_below(asked, pair, counts, limit):
            return None
        length = max(SHORT_REQUESTS, _PER_WORKER * sum(counts))
        served = pair.build_served(counts)
        result = run_at(
            served, scenario.traffic, asked.load, length, scenario.seed, objectives=scenario.objectives
        )
        tightest, name = strain(result, scenario.objectives)
        if tightest <= 1.0:
            break
        short = pair.short(result, name, counts, asked)
        counts[short] += max(1, math.floor(_GROWTH * counts[short]))
    else:
        return None
    held, missed = _hold_parts(asked, pair, counts)
    if held is not None:
        return held
    return _grow_until_held(asked, pair, counts, limit, pair.short(result, missed or name, counts, asked))


def _grow_until_held(
    asked: Asked, pair: WorkerPair, counts: Sequence[int], limit: float, short: int
) -> Found | None:
    """The parts with the fewest more workers of the kind that is short which hold the load, below the bill `limit`: the
    most that it pays is tried first where that is near, else steps that double; then halves."""

    def with_count(count: int) -> list[int]:
        return [count if place == short else each for place, each in enumerate(counts)]

    low = counts[short]
    most = low
    while most < low + _MOST_STEPS and _is_below(asked, pair, with_count(most + 1), limit):
        most += 1
    is_near = most < low + _MOST_STEPS
    step = 1
    best: Found | None = None
    while best is None:
        high = most if is_near else low + step
        if high == low or is_spent() or not _is_below(asked, pair, with_count(high), limit):
            return None
        best, _ = _hold_parts(asked, pair, with_count(high))
        if best is None:
            if is_near:
                return None
            low = high
            step *= 2
    while high - low > 1 and not is_spent():
        middle = (low + high) // 2
        held, _ = _hold_parts(asked, pair, with_count(middle))
        if held is None:
            low = middle
        else:
            best = held
            high = middle
    return best


def _is_below(asked: Asked, pair: WorkerPair, counts: Sequence[int], limit: float) -> bool:
    """Whether these counts can be bought for less than an expected bill [USD/h]."""
    cell = cheapest_cell(asked, pair, counts)
    return cell is not None and cell.expected_usd_per_hour < limit


def _hold_parts(asked: Asked, pair: WorkerPair, counts: Sequence[int]) -> tuple[Found | None, str]:
    """The parts bought, if they hold the load in long runs; else None, with the objective that they missed.

    What a budget of their bill would be found to carry decides, so that budget and load are inverse.
    """
    measurements = _measurements(asked, pair, counts)
    cell = cheapest_cell(asked, pair, counts)
    screened = measurements.capacity("screened")
    if cell is None or screened is None or _MOST_RISE * screened.load < asked.load:
        return None, measurements.binding
    if measurements.holds(GRID**2 * asked.load) is None:
        return None, measurements.binding  # two steps below the load: the capacity is below it
    capacity = _capacity(measurements)
    if capacity is None or capacity.load < asked.load:
        return None, measurements.binding
    return _buy_parts(asked, pair, counts, cell, capacity), ""


def _capacity(measurements: Measurements) -> Capacity | None:
    """The capacity of parts, up to the step of the grid of loads by which it may be higher than it was found; what
    parts show at their planning point decides."""
    found = measurements.capacity("confirmed")
    return None if found is None else found.scale(1.0 / GRID)


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
    as_of = asked.scenario.as_of
    priced = [
        replace(
            cell,
            expected_usd_per_hour=cell.usd_per_hour * price_spread_of(cell.whole.price, as_of).mean_factor,
        )
        for cell in found
    ]
    return min(priced, key=lambda cell: cell.expected_usd_per_hour, default=None)


def expected_usd_per_hour(asked: Asked, way: Placement, usd_per_hour: float) -> float:
    """A bill at what its price is expected to be today [USD/h]."""
    return usd_per_hour * price_spread_of(way.price, asked.scenario.as_of).mean_factor


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
    of_seller = dict[tuple[str, ...], list[Placement]]()
    for way in second.ways:
        of_seller.setdefault(seller_of(way.price), []).append(way)
    for ways in ((one, other) for one in first.ways for other in of_seller.get(seller_of(one.price), ())):
        one, two = (way.price for way in ways)
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
