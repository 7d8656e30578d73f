"""Fleets for a day's load on the first accelerators of an answer: which policy costs what at the prices there are."""

from collections.abc import Sequence
from dataclasses import dataclass

from advisor.catalog.ownership import Ownership
from advisor.catalog.units import HOURS_PER_DAY
from advisor.decide.offers import ROUNDING, Placement, offers_by_accelerator, placements
from advisor.decide.option import with_terms
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
        found += _policies(question, priced, known, place=place)
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


@dataclass(frozen=True, slots=True)
class PolicyTerms:
    """A policy on one deployment: which units are paid all day, and which follow the load."""

    policy: str
    base_usd_per_unit_hour: float | None
    """Price of the units that are paid all day; None where there are none."""
    peak_usd_per_unit_hour: float
    overhead_fraction: float
    """Hours of the peak that are paid for nothing."""
    keeps_least: bool
    """Whether the base is at least what the quietest part of the day needs, and one unit."""
    may_lead: bool
    priced_on: str

    def cost(self, day: Day, replicas_per_unit: int, startup_minutes: float) -> FleetCost:
        """Return the cost of a day under the policy."""
        peak = UnitPrice(self.peak_usd_per_unit_hour, replicas_per_unit)
        if self.base_usd_per_unit_hour is None:
            return autoscaled_cost(day, peak, startup_minutes)
        return reserved_base(
            day,
            UnitPrice(self.base_usd_per_unit_hour, replicas_per_unit),
            peak,
            startup_minutes,
            overhead_fraction=self.overhead_fraction,
            least_base=max(1, min(day.needed)) if self.keeps_least else 0,
            policy=self.policy,
        )


def policy_terms(
    question: CostQuestion, priced: Priced, known: Ownership, *, place: int
) -> tuple[PolicyTerms, ...]:
    """Return the policies that are compared on the option at a place of the answer; none where its offer is a
    commitment, its workers differ, or its place is too low."""
    found = priced.plan.found
    best = found.purchase.placement
    if place >= _NUM_ACCELERATORS or best.price.term in _RESERVED or found.fleet is not None:
        return ()
    is_first = place == 0
    usd = best.usd_per_unit_hour
    read_on = best.price.read_words
    if best.price.term == "spot":
        return (PolicyTerms("autoscaled on spot", None, usd, 0.0, False, is_first, read_on),)
    autoscaled = PolicyTerms("autoscaled on demand", None, usd, 0.0, False, is_first, read_on)
    policies = [autoscaled, *_reserved_base_terms(question, priced.plan, known, is_first=is_first)]
    spot = _cheapest(question, priced.plan, ("spot",))
    if spot is not None and spot.replicas_per_unit == best.replicas_per_unit:
        policies.append(
            PolicyTerms(
                f"on-demand base, spot peak from {spot.price.provider}",
                usd,
                spot.usd_per_unit_hour,
                known.value("spot_overhead_fraction"),
                keeps_least=True,
                may_lead=is_first and "spot" in question.scenario.constraints.terms,
                priced_on=spot.price.read_words,
            )
        )
    return tuple(policies)


def _reserved_base_terms(
    question: CostQuestion, plan: Planned, known: Ownership, *, is_first: bool
) -> tuple[PolicyTerms, ...]:
    """Return a base under a commitment below an on-demand peak; a discount that no provider lists is assumed on a
    provider's own list price, and none on a price of a marketplace or a tracker."""
    best = plan.found.purchase.placement
    usd = best.usd_per_unit_hour
    listed = _cheapest(question, plan, _RESERVED)
    if listed is not None and listed.replicas_per_unit == best.replicas_per_unit:
        term = listed.price.term.replace("_", "-")
        policy = f"base on {term} from {listed.price.provider}, on-demand peak"
        may_lead = is_first and listed.price.term in question.scenario.constraints.terms
        read_on = listed.price.read_words
        return (PolicyTerms(policy, listed.usd_per_unit_hour, usd, 0.0, False, may_lead, read_on),)
    if best.price.price_kind not in ("list", "quote"):
        return ()
    fraction = known.value("reserved_1y_fraction")
    policy = f"base reserved at {100 * fraction:.0f} % (assumed), on-demand peak"
    read_on = best.price.read_words
    return (PolicyTerms(policy, usd * fraction, usd, 0.0, False, False, read_on),)


def _policies(question: CostQuestion, priced: Priced, known: Ownership, *, place: int) -> list[PricedFleet]:
    """Return the policies that cost less than paying for the busiest part's units all day."""
    mean = question.mean_rate_per_s
    assert mean is not None
    scenario = question.scenario
    best = priced.plan.found.purchase.placement
    day = day_of(
        mean,
        question.shape.relative,
        replica_rate(priced.plan, question),
        best.replicas_per_unit,
        num_spare(scenario, best),
    )
    fixed = always_on(day, UnitPrice(best.usd_per_unit_hour, best.replicas_per_unit))
    beside_usd = HOURS_PER_DAY * extra_usd_per_hour(best.price, scenario.beside)
    startup = known.value("startup_minutes")
    found = [
        (terms, terms.cost(day, best.replicas_per_unit, startup))
        for terms in policy_terms(question, priced, known, place=place)
    ]
    return [
        PricedFleet(
            _what(cost, best),
            terms.priced_on,
            cost,
            cost.usd_per_day + beside_usd,
            f"{cost.policy}{left_out(priced.row.option.bill)}",
            terms.may_lead,
        )
        for terms, cost in found
        if cost.usd_per_day < fixed.usd_per_day * (1.0 - ROUNDING)
    ]


def _what(cost: FleetCost, way: Placement) -> str:
    count = cost.peak_units * way.accelerators_per_unit
    seller = with_terms(way.price.provider, way.price.region, way.price.term)
    return f"{count} x {way.price.accelerator} from {seller}"


def _cheapest(question: CostQuestion, plan: Planned, terms: tuple[str, ...]) -> Placement | None:
    """Return the cheapest way to buy a replica of the deployment under other terms, within all other limits."""
    limits = question.scenario.constraints
    deployment = plan.found.candidate.deployment
    other = limits.model_copy(update={"terms": terms, "accelerators": (plan.found.accelerator_id,)})
    offers = offers_by_accelerator(other, question.scenario.as_of, limits.regions)
    sold = offers.get(plan.found.accelerator_id, ())
    ways = placements(deployment.accelerators_per_replica, sold, deployment.accelerator)
    return ways[0] if ways else None
