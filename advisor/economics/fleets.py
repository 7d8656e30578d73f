"""Fleets for a day's load on the cheapest accelerators: which policy costs what, with the prices that there are."""

from advisor.catalog.ownership import Ownership
from advisor.catalog.prices import COMPARED_KINDS, prices_as_of
from advisor.catalog.schema import Price
from advisor.catalog.units import HOURS_PER_DAY
from advisor.decide.offers import Placement, placements
from advisor.decide.purchase import bill_of, left_out
from advisor.decide.standing import standing_of
from advisor.decide.trial import Found
from advisor.economics.fleet import (
    Day,
    FleetCost,
    PricedFleet,
    UnitPrice,
    always_on,
    autoscaled,
    day_of,
    reserved_base,
)
from advisor.economics.market import Market
from advisor.economics.question import CostQuestion

_NUM_ACCELERATORS = 2
_RESERVED = ("reserved_1y", "reserved_3y")


def fleet_costs(question: CostQuestion, market: Market, known: Ownership) -> tuple[PricedFleet, ...]:
    """Each policy on the cheapest accelerators; none without a load of its own.

    Reserved and spot prices are listed ones where there are any; else reserved is a fraction of on-demand.

    Source: cost.fleet; capacity per replica from the simulator.
    """
    if market.served is None:
        return ()
    found: list[PricedFleet] = []
    for candidate in market.best[:_NUM_ACCELERATORS]:
        found += _policies(question, market, known, candidate)
    return tuple(found)


def _policies(question: CostQuestion, market: Market, known: Ownership, found: Found) -> list[PricedFleet]:
    mean, startup = question.mean_rate_per_s, known.value("startup_minutes")
    assert mean is not None
    deployment = found.candidate.deployment
    offers = market.offers[found.accelerator_id]
    best = placements(deployment.accelerators_per_replica, offers, deployment.accelerator)[0]
    day = day_of(mean, question.shape.relative, found.capacity.requests_per_s, best.replicas_per_unit)
    priced = [
        (best, autoscaled(day, _unit(best), startup), False),
        _reserved(question, known, found, day, best),
    ]
    spot = _cheapest(question, found, ("spot",))
    if spot is not None and spot.replicas_per_unit == best.replicas_per_unit:
        policy = f"on-demand base, spot peak from {spot.price.provider}"
        overhead, base = known.value("spot_overhead_fraction"), max(1, min(day.needed))
        cost = reserved_base(
            day, _unit(best), _unit(spot), startup, overhead_fraction=overhead, least_base=base, policy=policy
        )
        priced.append((spot, cost, False))
    fixed, scenario = always_on(day, _unit(best)), question.scenario
    bill = bill_of(best.price, best.price.usd_per_hour, scenario.beside)
    beside_usd = HOURS_PER_DAY * (bill.usd_per_hour - best.price.usd_per_hour)
    standing = standing_of(found.replica.basis, best.price, scenario.as_of)
    return [
        PricedFleet(
            _what(cost, best),
            way.price.observed_on.isoformat(),
            cost,
            cost.usd_per_day + beside_usd,
            f"{cost.policy}{left_out(bill)}",
            standing,
            is_assumed,
        )
        for way, cost, is_assumed in priced
        if cost.usd_per_day < fixed.usd_per_day
    ]


def _reserved(
    question: CostQuestion, known: Ownership, found: Found, day: Day, best: Placement
) -> tuple[Placement, FleetCost, bool]:
    """A base under a commitment below an on-demand peak, and whether its price is assumed, as no provider lists one."""
    startup = known.value("startup_minutes")
    listed = _cheapest(question, found, _RESERVED)
    if listed is not None and listed.replicas_per_unit == best.replicas_per_unit:
        term = listed.price.term.replace("_", "-")
        policy = f"base on {term} from {listed.price.provider}, on-demand peak"
        return listed, reserved_base(day, _unit(listed), _unit(best), startup, policy=policy), False
    fraction = known.value("reserved_1y_fraction")
    reserved = UnitPrice(best.usd_per_unit_hour * fraction, best.replicas_per_unit)
    policy = f"base reserved at {100 * fraction:.0f} % (assumed), on-demand peak"
    return best, reserved_base(day, reserved, _unit(best), startup, policy=policy), True


def _what(cost: FleetCost, way: Placement) -> str:
    count = cost.peak_units * way.accelerators_per_unit
    return f"{count} x {way.price.accelerator} from {way.price.provider}"


def _unit(way: Placement) -> UnitPrice:
    return UnitPrice(way.usd_per_unit_hour, way.replicas_per_unit)


def _cheapest(question: CostQuestion, found: Found, terms: tuple[str, ...]) -> Placement | None:
    """The cheapest way to buy a replica of the deployment under other terms."""
    limits, deployment = question.scenario.constraints, found.candidate.deployment
    offers: tuple[Price, ...] = prices_as_of(
        question.scenario.as_of,
        providers=limits.providers or None,
        terms=terms,
        accelerators=[found.accelerator_id],
        kinds=COMPARED_KINDS,
        user_file=limits.price_file,
        cache_dir=limits.price_cache,
    )
    ways = placements(deployment.accelerators_per_replica, offers, deployment.accelerator)
    return ways[0] if ways else None
