"""The terms of a report on cost: what a page needs to compute its ways and break-evens at other volumes and prices.

The formulas are those of `decisions`, `fleet`, `break_even` and `decide.ownership`. The script of the page has them
again, and a test holds it against new reports. Held fixed are the deployments, their offers, what a replica carries,
and the energy of a request.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from advisor.catalog.ownership import Ownership, purchase_price
from advisor.catalog.units import DAY_S, DAYS_PER_MONTH, HOURS_PER_DAY, KILO, MILLION
from advisor.decide.offers import OWN
from advisor.decide.ownership import WORK_HOURS_PER_YEAR, accelerators_per_machine, is_sold_by_the_node
from advisor.decide.purchase import extra_usd_per_hour, left_out, num_spare
from advisor.economics.api_bill import ApiCost
from advisor.economics.decisions import paid_always_on
from advisor.economics.fleet import day_of
from advisor.economics.fleets import PolicyTerms, policy_terms, replica_rate
from advisor.economics.owned import system_size
from advisor.economics.question import CostQuestion
from advisor.economics.row import Priced
from advisor.simulator.power import board_power_w


@dataclass(frozen=True, slots=True)
class SizeTerms:
    """How many replicas on how many units carry a rate."""

    accelerator: str
    planned_requests_per_s: float
    """Rate that one replica is planned for, headroom kept."""
    capacity_requests_per_s: float
    """Highest rate of one replica within the objectives."""
    num_spare: int
    replicas_per_unit: int
    accelerators_per_unit: int
    min_units: int
    max_units: int | None
    """None where the provider does not state it."""
    extra_usd_per_hour: float
    """Storage and egress, as far as their prices are known."""
    left_out: str
    """Items without a price, as the end of a note."""
    priced_on: str
    may_lead: bool


@dataclass(frozen=True, slots=True)
class RentTerms:
    """A rented deployment, with the policies that follow the day's load."""

    size: SizeTerms
    provider: str
    usd_per_unit_hour: float
    note: str
    """How it is paid if it is always on."""
    policies: tuple[PolicyTerms, ...]


@dataclass(frozen=True, slots=True)
class OwnTerms:
    """An owned deployment."""

    size: SizeTerms
    accelerators_per_replica: int
    powered_per_unit: int
    """Accelerators of a unit that are switched on: fewer than it has under a power budget."""
    waiting_w: float
    """Power of an accelerator whose replica waits for requests."""
    idle_w: float
    """Power of an accelerator without a replica."""
    joules_per_request: float
    """Energy of a request above that of waiting accelerators, at the planning point."""
    purchase_usd: float
    """Price of one accelerator."""
    machines_usd: float
    """Machines around one accelerator; 0 where the price is that of a whole system."""
    network_usd: float
    """Network between machines per accelerator; 0 where no replica spans machines."""
    colocation_usd_per_month: float
    """Colocation per unit; 0 for cards in an own room."""
    staff_usd_per_month: float
    """Staff per machine."""
    accelerators_per_machine: int
    interest_per_year: float
    system_power_factor: float
    pue: float


@dataclass(frozen=True, slots=True)
class CostTerms:
    """Everything that a page computes ways and break-evens from."""

    tokens_per_request: int
    relative: tuple[float, ...]
    """Levels of the day's load; their mean is 1."""
    shape: str
    startup_minutes: float
    million_tokens_per_day: float
    electricity_usd_per_kwh: float
    life_years: float
    resale_decay_per_year: float
    rented: tuple[RentTerms, ...]
    owned: tuple[OwnTerms, ...]
    api: tuple[ApiCost, ...]


def terms_of(
    question: CostQuestion,
    rented: Sequence[Priced],
    owned: Sequence[Priced],
    apis: Sequence[ApiCost],
    known: Ownership,
) -> CostTerms:
    """Return the terms of a report whose question has a volume; pools of unlike workers are left out."""
    assert question.volume is not None
    is_safe = not rented[0].row.option.reasons
    return CostTerms(
        tokens_per_request=question.tokens_per_request,
        relative=question.shape.relative,
        shape=question.shape.id,
        startup_minutes=known.value("startup_minutes"),
        million_tokens_per_day=question.volume / MILLION,
        electricity_usd_per_kwh=known.value("electricity_usd_per_kwh"),
        life_years=known.value("life_years"),
        resale_decay_per_year=known.value("resale_decay_per_year"),
        rented=tuple(
            _rent_terms(place, each, question, known)
            for place, each in enumerate(rented[: question.scenario.top])
            if each.plan.found.fleet is None
        ),
        owned=tuple(
            _own_terms(each, question, known, may_lead=not (is_safe and each.row.option.reasons))
            for each in owned
            if each.plan.found.fleet is None
        ),
        api=tuple(apis),
    )


def _size_terms(priced: Priced, question: CostQuestion, *, may_lead: bool) -> SizeTerms:
    """Return how many replicas on how many units of the deployment's offer carry a rate."""
    way = priced.plan.found.purchase.placement
    return SizeTerms(
        accelerator=priced.row.option.machine.accelerator,
        planned_requests_per_s=replica_rate(priced.plan, question),
        capacity_requests_per_s=priced.plan.found.capacity.load,
        num_spare=num_spare(question.scenario, way),
        replicas_per_unit=way.replicas_per_unit,
        accelerators_per_unit=way.accelerators_per_unit,
        min_units=way.min_units,
        max_units=way.max_units,
        extra_usd_per_hour=extra_usd_per_hour(way.price, question.scenario.beside),
        left_out=left_out(priced.row.option.bill),
        priced_on=priced.row.priced_on,
        may_lead=may_lead,
    )


def _rent_terms(place: int, priced: Priced, question: CostQuestion, known: Ownership) -> RentTerms:
    way = priced.plan.found.purchase.placement
    offer = priced.row.option.offer
    assert offer is not None
    size = _size_terms(priced, question, may_lead=place == 0)
    policies = policy_terms(question, priced, known, place=place)
    return RentTerms(size, offer.source_words, way.usd_per_unit_hour, paid_always_on(priced.row), policies)


def _own_terms(priced: Priced, question: CostQuestion, known: Ownership, *, may_lead: bool) -> OwnTerms:
    plan = priced.plan
    row = priced.row
    purchase = plan.found.purchase
    price = purchase.placement.price
    deployment = plan.found.candidate.deployment
    chip = deployment.accelerator
    bought = purchase_price(known, chip)
    waiting = board_power_w(chip, "waiting")
    idle = board_power_w(chip, "unloaded")
    peak = row.option.served.power_w
    assert row.tco is not None
    assert bought is not None
    assert waiting is not None
    assert idle is not None
    assert peak is not None
    is_named = question.own is not None
    num_units = 1 if is_named else purchase.num_units
    count = row.tco.num_accelerators // num_units
    powered = row.option.machine.num_accelerators // num_units
    if is_named:
        powered = (
            min(price.max_quantity, price.num_accelerators) if price.max_quantity else price.num_accelerators
        )
    is_limited = price.provider == OWN and price.num_accelerators < (price.max_quantity or 0)
    fed = price.num_accelerators if is_limited else count
    per_replica = deployment.accelerators_per_replica
    busy = min(powered * num_units, purchase.num_replicas * per_replica)
    # Of hardware that is there, boards on which nothing runs are switched off.
    idle_w = 0.0 if is_named else idle.value
    least_w = busy * waiting.value + (powered * num_units - busy) * idle_w
    is_server = is_sold_by_the_node(chip)
    spans = is_server and per_replica > system_size(chip)
    machines = "server_usd_per_accelerator" if is_server else "workstation_usd_per_accelerator"
    hours = known.value("staff_hours_per_node_month" if is_server else "staff_hours_per_workstation_month")
    reserved_kw = fed * (chip.tdp_w or 0.0) / KILO * known.value("provisioned_power_factor")
    size = _size_terms(priced, question, may_lead=may_lead)
    return OwnTerms(
        size=replace(
            size,
            replicas_per_unit=powered // per_replica,
            accelerators_per_unit=count,
            min_units=1,
            max_units=1 if is_named else size.max_units,
        ),
        accelerators_per_replica=per_replica,
        powered_per_unit=powered,
        waiting_w=waiting.value,
        idle_w=idle_w,
        joules_per_request=(peak.value - least_w) / purchase.requests_per_s,
        purchase_usd=bought.usd,
        machines_usd=0.0 if bought.is_system else known.value(machines),
        network_usd=known.value("network_usd_per_accelerator") if spans else 0.0,
        colocation_usd_per_month=reserved_kw * known.value("colocation_usd_per_kw_month")
        if is_server
        else 0.0,
        staff_usd_per_month=hours / WORK_HOURS_PER_YEAR * known.value("staff_usd_per_year"),
        accelerators_per_machine=accelerators_per_machine(chip),
        interest_per_year=known.value("interest_per_year"),
        system_power_factor=known.value("system_power_factor"),
        pue=known.value("pue"),
    )


def cheapest_rent_usd_per_month(terms: CostTerms, million_tokens_per_day: float) -> float | None:
    """Return the bill of the cheapest rented way at another volume; None where none carries it."""
    mean_per_s = million_tokens_per_day * MILLION / DAY_S / terms.tokens_per_request
    found = [usd for each in terms.rented for usd in _rents_usd_per_day(each, terms, mean_per_s)]
    return min(found) * DAYS_PER_MONTH if found else None


def _rents_usd_per_day(rent: RentTerms, terms: CostTerms, mean_per_s: float) -> Iterator[float]:
    size = rent.size
    day = day_of(
        mean_per_s, terms.relative, size.planned_requests_per_s, size.replicas_per_unit, size.num_spare
    )
    beside_usd = HOURS_PER_DAY * size.extra_usd_per_hour
    units = max(size.min_units, *day.needed)
    if size.max_units is None or units <= size.max_units:
        yield units * HOURS_PER_DAY * rent.usd_per_unit_hour + beside_usd
    for policy in rent.policies:
        yield policy.cost(day, size.replicas_per_unit, terms.startup_minutes).usd_per_day + beside_usd
