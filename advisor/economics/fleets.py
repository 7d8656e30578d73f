"""Fleets for a day's load on the first accelerators of an answer: which policy costs what at the prices there are."""

from collections.abc import Sequence

from advisor.catalog.ownership import Ownership
from advisor.catalog.units import HOURS_PER_DAY
from advisor.decide.offers import Placement, offers_by_accelerator, placements
from advisor.decide.purchase import extra_usd_per_hour, left_out, num_spare, planned_load, replicas_for
from advisor.decide.ranking import Planned
from advisor.economics.fleet import (
    Day,
    FleetCost,
    PricedFleet,
    UnitPrice,
    always_on,
    autoscaled_cost,
    day_of,
    reserved_base,
)
from advisor.economics.question import CostQuestion
from advisor.economics.row import Priced

_NUM_ACCELERATORS = 2
_RESERVED = ("reserved_1y", "reserved_3y")
_ROUNDING = 1e-9


def fleet_costs(
    question: CostQuestion, rented: Sequence[Priced], known: Ownership
) -> tuple[PricedFleet, ...]:
    """Return each policy on the first accelerators; none without a rate of its own, or where the offer is a commitment.

    Reserved and spot prices are listed ones where there are any; else reserved is a fraction of on-demand.

    Source: economics.fleet; capacity per replica from the simulator.
    """
    if question.mean_rate_per_s is None:
        return ()
    found: list[PricedFleet] = []
    for place, priced in enumerate(rented[:_NUM_ACCELERATORS]):
        found_here = priced.plan.found
        if found_here.purchase.placement.price.term not in _RESERVED and found_here.fleet is None:
            found += _policies(question, priced, known, is_first=place == 0)
    return tuple(found)


def replica_rate(plan: Planned, question: CostQuestion) -> float:
    """Return what one replica is planned for [requests/s]: less where the planning point asked for more replicas."""
    scenario = question.scenario
    found = plan.found
    capacity = found.capacity
    purchase = found.purchase
    rate = planned_load(scenario, capacity.load) / capacity.load * capacity.requests_per_s
    serving = purchase.num_replicas - num_spare(scenario, purchase.placement)
    return (
        min(rate, purchase.requests_per_s / serving)
        if replicas_for(purchase.requests_per_s, rate) < serving
        else rate
    )


def _policies(
    question: CostQuestion, priced: Priced, known: Ownership, *, is_first: bool
) -> list[PricedFleet]:
    mean = question.mean_rate_per_s
    startup = known.value("startup_minutes")
    assert mean is not None
    plan = priced.plan
    scenario = question.scenario
    best = plan.found.purchase.placement
    day = day_of(
        mean,
        question.shape.relative,
        replica_rate(plan, question),
        best.replicas_per_unit,
        num_spare(scenario, best),
    )
    terms = scenario.constraints.terms
    fleets = [(best, autoscaled_cost(day, _unit(best), startup), is_first)]
    way, cost, may_lead = _plan_reserved_base(question, known, plan, day, best)
    fleets.append((way, cost, may_lead and is_first))
    spot = _cheapest(question, plan, ("spot",))
    if spot is not None and spot.replicas_per_unit == best.replicas_per_unit:
        policy = f"on-demand base, spot peak from {spot.price.provider}"
        overhead = known.value("spot_overhead_fraction")
        base = max(1, min(day.needed))
        cost = reserved_base(
            day, _unit(best), _unit(spot), startup, overhead_fraction=overhead, least_base=base, policy=policy
        )
        fleets.append((spot, cost, is_first and "spot" in terms))
    fixed = always_on(day, _unit(best))
    bill = priced.row.option.bill
    beside_usd = HOURS_PER_DAY * extra_usd_per_hour(best.price, scenario.beside)
    return [
        PricedFleet(
            _what(cost, best),
            way.price.observed_on.isoformat(),
            cost,
            cost.usd_per_day + beside_usd,
            f"{cost.policy}{left_out(bill)}",
            may_lead,
        )
        for way, cost, may_lead in fleets
        if cost.usd_per_day < fixed.usd_per_day * (1.0 - _ROUNDING)
    ]


def _plan_reserved_base(
    question: CostQuestion, known: Ownership, plan: Planned, day: Day, best: Placement
) -> tuple[Placement, FleetCost, bool]:
    """Return a base under a commitment below an on-demand peak, and whether such an offer is among the terms that the
    question allows; a price that no provider lists is assumed."""
    startup = known.value("startup_minutes")
    listed = _cheapest(question, plan, _RESERVED)
    if listed is not None and listed.replicas_per_unit == best.replicas_per_unit:
        term = listed.price.term.replace("_", "-")
        policy = f"base on {term} from {listed.price.provider}, on-demand peak"
        is_allowed = listed.price.term in question.scenario.constraints.terms
        return listed, reserved_base(day, _unit(listed), _unit(best), startup, policy=policy), is_allowed
    fraction = known.value("reserved_1y_fraction")
    reserved = UnitPrice(best.usd_per_unit_hour * fraction, best.replicas_per_unit)
    policy = f"base reserved at {100 * fraction:.0f} % (assumed), on-demand peak"
    return best, reserved_base(day, reserved, _unit(best), startup, policy=policy), False


def _what(cost: FleetCost, way: Placement) -> str:
    count = cost.peak_units * way.accelerators_per_unit
    return f"{count} x {way.price.accelerator} from {way.price.provider}"


def _unit(way: Placement) -> UnitPrice:
    return UnitPrice(way.usd_per_unit_hour, way.replicas_per_unit)


def _cheapest(question: CostQuestion, plan: Planned, terms: tuple[str, ...]) -> Placement | None:
    """Return the cheapest way to buy a replica of the deployment under other terms, within all other limits."""
    limits = question.scenario.constraints
    deployment = plan.found.candidate.deployment
    other = limits.model_copy(update={"terms": terms, "accelerators": (plan.found.accelerator_id,)})
    offers = offers_by_accelerator(other, question.scenario.as_of, limits.regions)
    sold = offers.get(plan.found.accelerator_id, ())
    ways = placements(deployment.accelerators_per_replica, sold, deployment.accelerator)
    return ways[0] if ways else None
