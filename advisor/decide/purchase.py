"""The cost of carrying a load: how many replicas on how many units of which offer, and the bill, computed alike for
every command from machines, storage, egress and commitments. A price that no source states is unknown, never 0.
"""

import datetime
import math
import operator
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Literal

from advisor.catalog.extra_prices import ExtraItem, extra_tiers, usd_of_tiers
from advisor.catalog.prices import commitment_usd, committed_hours
from advisor.catalog.schema import Price
from advisor.catalog.units import CENTS_PER_USD, GB, HOUR_S, HOURS_PER_MONTH, MEGA, usd_words
from advisor.decide.effort import is_spent
from advisor.decide.load_runs import most_clients
from advisor.decide.offers import OWN, ROUNDING, Placement, price_spread_of
from advisor.decide.option import Bill, BillLine, UnknownCost
from advisor.decide.ownership import Tco
from advisor.decide.reason import AmountNotStated, PriceNotStated
from advisor.decide.scenario import ExtraItems, Scenario
from advisor.simulator.quantity import Quantity

_MOST_UNITS = 1_000_000
"""More than anybody sells."""
"""A share of the load that is a replica's very capacity, after division and multiplication."""
ELECTRICITY = "electricity"


@dataclass(frozen=True, slots=True)
class Demand:
    """A load that is to be carried: a rate [requests/s], a number of clients, the most that a budget [USD/h] buys, or
    what one full unit carries; of one's own boards what all of them carry."""

    kind: Literal["rate", "clients", "budget", "unit"]
    size: float = 0.0


def demands_of(scenario: Scenario) -> tuple[Demand, ...]:
    """Return the loads that a scenario asks about: the one that it names, its ladder, its budget, or what one unit
    carries, or as many units as are owned or asked for by their number."""
    traffic = scenario.traffic
    budget = scenario.objectives.budget_usd_per_hour
    if traffic.rate_per_s is not None:
        return (Demand("rate", traffic.rate_per_s),)
    if traffic.concurrency is not None:
        return (Demand("clients", traffic.concurrency),)
    if scenario.ladder_per_s:
        return tuple(Demand("rate", rate) for rate in scenario.ladder_per_s)
    return (Demand("unit") if budget is None else Demand("budget", budget),)


@dataclass(frozen=True, slots=True)
class Purchase:
    """Replicas on whole units of one offer."""

    placement: Placement
    num_replicas: int
    num_units: int
    requests_per_s: float
    """Served by all replicas together, at the planning point."""
    usd_per_million_tokens: float
    cost: float
    """Cost that a search minimises: of a load dollars per million tokens; of a budget the whole budget over the tokens
    served, spent or not; of clients dollars per hour, since a faster deployment gives them no more work to bring."""
    drawn_fraction: float = 1.0
    """Power that own boards draw over their rated power, by which their electricity is paid; 1 before that is known,
    and for what is rented."""

    @property
    def usd_per_hour(self) -> float:
        """Price of the units [USD/h]."""
        return self.num_units * self.placement.usd_per_unit_hour * self.drawn_fraction

    @property
    def used_fraction(self) -> float:
        """Replicas over those for which the units have room; 1 for a fleet of unlike workers."""
        room = self.num_units * self.placement.replicas_per_unit
        return 1.0 if self.placement.num_workers > 1 else min(1.0, self.num_replicas / room)


def cheapest_purchase(
    scenario: Scenario, demand: Demand, ways: Sequence[Placement], load: float, requests_per_s: float
) -> Purchase | None:
    """Return the purchase of a demand that is expected to cost least, at what its price may be today; None where no way
    stays within the budget and the units that can be had.

    `load` and `requests_per_s` are what one replica carries and serves at most; it is planned with the scenario's
    headroom.
    """
    best = None
    least = math.inf
    for way in ways:
        bought = purchase_on(scenario, demand, way, load, requests_per_s)
        if bought is None:
            continue
        expected = bought.cost * price_spread_of(way.price, scenario.as_of).mean_factor
        if expected < least:
            best = bought
            least = expected
    return best


def pareto_placements(
    ways: Sequence[Placement],
    as_of: datetime.date,
    beside: ExtraItems,
    kind_of: Callable[[Placement], Hashable] = attrgetter("replicas_per_unit", "price.term"),
) -> tuple[Placement, ...]:
    """Return the ways to buy that some demand may take, in their order: a way is left out where another of its kind is
    no worse in any of the `_coordinates`. Units of one kind have as much room for replicas, at one term."""
    known = [(kind_of(way), _coordinates(way, as_of, beside), place) for place, way in enumerate(ways)]
    kept = defaultdict[Hashable, list[tuple[float, ...]]](list)
    places = list[int]()
    # What is no worse in any coordinate sorts before what it beats.
    for kind, own, place in sorted(known, key=lambda each: each[1:]):
        if not any(all(map(operator.le, other, own)) for other in kept[kind]):
            kept[kind].append(own)
            places.append(place)
    return tuple(ways[place] for place in sorted(places))


def _coordinates(way: Placement, as_of: datetime.date, beside: ExtraItems) -> tuple[float, ...]:
    """All that a purchase reads of a way besides its room, each better where it is smaller: by the expected price of a
    unit ways are compared, by the price that was read, storage and egress budgets are kept, and orders have limits."""
    read_usd = way.usd_per_unit_hour
    expected_usd = read_usd * price_spread_of(way.price, as_of).mean_factor
    most = math.inf if way.max_units is None else way.max_units
    return expected_usd, read_usd, extra_usd_per_hour(way.price, beside), way.min_units, -most


def purchase_on(
    scenario: Scenario, demand: Demand, way: Placement, load: float, requests_per_s: float
) -> Purchase | None:
    """Return the purchase of a demand on one offer; None beyond the budget and the units that can be had."""
    planned = planned_load(scenario, load)
    tokens = scenario.traffic.tokens_per_request
    counts = _units(scenario, demand, way, planned)
    if counts is None:
        return None
    num_replicas, num_units = counts
    if demand.kind == "rate":
        served_per_s = demand.size
    elif demand.kind == "clients":
        served_per_s = demand.size / load * requests_per_s
    else:
        served_per_s = (num_replicas - num_spare(scenario, way)) * planned * requests_per_s / load
    spent = num_units * way.usd_per_unit_hour
    usd = usd_per_million_tokens(spent, served_per_s, tokens)
    cost = usd
    if demand.kind == "budget":
        cost = usd_per_million_tokens(demand.size, served_per_s, tokens)
    elif demand.kind == "clients":
        cost = spent
    return Purchase(way, num_replicas, num_units, served_per_s, usd, cost)


def with_replicas(
    scenario: Scenario,
    demand: Demand,
    way: Placement,
    capacity_load: float,
    requests_per_s: float,
    count: int,
) -> Purchase | None:
    """Return the purchase of `count` replicas for a given load; None where they cannot be had."""
    planned = demand.size / max(1, count - num_spare(scenario, way))
    load = planned / (1.0 - scenario.headroom_fraction)
    served = requests_per_s / capacity_load * load
    return purchase_on(scenario, demand, way, load * (1.0 + ROUNDING), served * (1.0 + ROUNDING))


def least_costs(
    scenario: Scenario, demands: Sequence[Demand], ways: Sequence[Placement], requests_per_s: float
) -> tuple[float, ...]:
    """Return the least expected cost of each demand if one replica serves at most `requests_per_s`, as in
    Purchase.cost; infinite where no way stays within the budget and the units that can be had.
    """
    return tuple(
        expected_cost(_least_of_clients(scenario, demand, ways, requests_per_s), scenario)
        if demand.kind == "clients"
        else expected_cost(
            cheapest_purchase(scenario, demand, ways, requests_per_s, requests_per_s), scenario
        )
        for demand in demands
    )


def expected_cost(purchase: Purchase | None, scenario: Scenario) -> float:
    """Cost of a purchase, as in Purchase.cost, at what its price is expected to be today; infinite of none."""
    if purchase is None:
        return math.inf
    return purchase.cost * price_spread_of(purchase.placement.price, scenario.as_of).mean_factor


def replicas_for(asked: float, load_per_replica: float) -> int:
    """Return how many replicas carry a load together, evenly shared."""
    return max(1, math.ceil(asked / load_per_replica - ROUNDING))


def usd_per_million_tokens(usd_per_hour: float, requests_per_s: float, tokens_per_request: float) -> float:
    """Dollars per million input and output tokens of a deployment at a steady load [USD]."""
    return usd_per_hour / (requests_per_s * tokens_per_request * HOUR_S) * MEGA


def planned_load(scenario: Scenario, capacity: float) -> float:
    """Load that a replica of a given capacity is planned for [requests/s, or whole clients of a closed loop]."""
    load = capacity * (1.0 - scenario.headroom_fraction)
    return load if scenario.traffic.concurrency is None else max(1.0, math.floor(load + ROUNDING))


def num_spare(scenario: Scenario, way: Placement) -> int:
    """Replicas more than the load needs."""
    return 1 if scenario.redundancy == "n+1" and not way.has_spare else 0


def _units(scenario: Scenario, demand: Demand, way: Placement, planned: float) -> tuple[int, int] | None:
    """Replicas and units that carry a demand at a planned load per replica; None where they cannot be had."""
    budget = scenario.objectives.budget_usd_per_hour
    spare = num_spare(scenario, way)
    most = math.inf if way.max_units is None else way.max_units
    if budget is not None:
        machines = budget - extra_usd_per_hour(way.price, scenario.beside)
        most = min(most, math.floor(machines / way.usd_per_unit_hour + ROUNDING))
    if demand.kind in ("rate", "clients"):
        num_replicas = replicas_for(demand.size, planned) + spare
        num_units = max(way.min_units, math.ceil(num_replicas / way.replicas_per_unit))
    else:
        least = max(way.min_units, math.ceil((1 + spare) / way.replicas_per_unit))
        is_all = (
            demand.kind == "budget"
            or way.price.provider == OWN
            or way.price.accelerator in {name for _, name in scenario.constraints.most_rented}
        )
        num_units = int(min(most, _MOST_UNITS)) if is_all else least
        num_replicas = num_units * way.replicas_per_unit
        if num_replicas <= spare:
            return None
    return (num_replicas, num_units) if way.min_units <= num_units <= most else None


def _least_of_clients(
    scenario: Scenario, demand: Demand, ways: Sequence[Placement], requests_per_s: float
) -> Purchase | None:
    """Return the cheapest purchase if a replica answers `requests_per_s` and keeps as many clients waiting for as long
    as the objectives allow; a measurement tries no more of them."""
    most = most_clients(scenario.traffic, scenario.objectives, scenario.headroom_fraction, requests_per_s)
    return cheapest_purchase(scenario, demand, ways, most, requests_per_s)


def bill_of(
    price: Price, usd_per_hour: float, beside: ExtraItems, *, duration_s: Quantity | None = None
) -> Bill:
    """Return the bill of machines at `usd_per_hour` on an offer; for a job, also over its duration.

    Source: definition; storage and egress at the provider's price, own machines at that of their electricity.
    """
    machines = machines_bill(price, usd_per_hour)
    extra, unknown = _extra_usd_per_month(price, beside)
    name = machines.lines[0].what
    bill = _bill({name: usd_per_hour}, extra, unknown, machines.commitment_usd)
    if duration_s is None:
        return bill

    def of_machines(seconds: float) -> float:
        return job_usd(price.term, usd_per_hour, seconds)

    kept_usd_per_s = sum(extra.values()) / HOURS_PER_MONTH / HOUR_S
    low, value, high = (
        of_machines(seconds) + kept_usd_per_s * seconds
        for seconds in (duration_s.low, duration_s.value, duration_s.high)
    )
    lines = {name: of_machines(duration_s.value)} | {
        what: usd / HOURS_PER_MONTH / HOUR_S * duration_s.value for what, usd in extra.items()
    }
    return replace(
        bill,
        lines=tuple(replace(line, usd=lines[line.what]) for line in bill.lines),
        usd=Quantity(value, low, high, duration_s.basis),
    )


def machines_bill(price: Price, usd_per_hour: float) -> Bill:
    """The bill of a part of the machines of a deployment; the whole pays for storage and egress."""
    owed = commitment_usd(price)
    share = usd_per_hour / price.usd_per_hour
    name = ELECTRICITY if price.provider == OWN else "rent"
    return _bill({name: usd_per_hour}, {}, (), None if owed is None else owed * share)


def sum_of_bills(bills: Sequence[Bill]) -> Bill:
    """One bill for several purchases; an item that one of them leaves open is unknown."""
    lines = dict[str, float]()
    owed = [bill.commitment_usd for bill in bills]
    for bill in bills:
        for line in bill.lines:
            lines[line.what] = lines.get(line.what, 0.0) + line.usd_per_month
    return Bill(
        usd_per_hour=sum(bill.usd_per_hour for bill in bills),
        usd_per_month=sum(bill.usd_per_month for bill in bills),
        lines=tuple(BillLine(what, usd) for what, usd in lines.items()),
        unknown=tuple(dict.fromkeys(each for bill in bills for each in bill.unknown)),
        commitment_usd=None if None in owed else sum(filter(None, owed)),
    )


def owned_bill(cost: Tco, price: Price, beside: ExtraItems) -> Bill:
    """The bill of machines that are bought: what they lose in value and interest, their energy, and the rest of it."""
    machines = {
        "capital": cost.usd_per_month - cost.running_usd_per_month,
        ELECTRICITY: cost.energy_usd_per_month,
        "upkeep": cost.running_usd_per_month - cost.energy_usd_per_month,
    }
    extra, unknown = _extra_usd_per_month(price, beside)
    hourly = {name: usd / HOURS_PER_MONTH for name, usd in machines.items()}
    return _bill(hourly, extra, unknown, 0.0)


def job_usd(term: str, usd_per_hour: float, duration_s: float) -> float:
    """Return the cost of the machines of a job [USD]: the hours of use, or a whole commitment."""
    return usd_per_hour * max(duration_s / HOUR_S, committed_hours(term))


def extra_usd_per_hour(price: Price, beside: ExtraItems) -> float:
    """Storage and egress, as far as their prices are known [USD/h]."""
    return sum(_extra_usd_per_month(price, beside)[0].values()) / HOURS_PER_MONTH


def least_budget(usd: float, ask: Callable[[float], float | None]) -> float:
    """Return the least budget in whole cents that has an answer, given one that has [USD].

    `ask` returns the bill of the answer within a budget, None where there is none. Where the work of a question ends
    before, what is known to be enough is returned.

    Assumes: what is within a budget is within a larger one.
    """
    enough = _round_up_to_cents(usd)
    refused = 0
    while enough - refused > 1 and not is_spent():
        tried = min(_round_up_to_cents(usd), enough - 1)
        tried = tried if tried > refused else (enough + refused) // 2
        bill = ask(tried / CENTS_PER_USD)
        if bill is None:
            refused = tried
        else:
            enough = tried
            usd = bill
    return enough / CENTS_PER_USD


def _round_up_to_cents(usd: float) -> int:
    return math.ceil(CENTS_PER_USD * usd - 1e-6)


def smallest_budget(usd_per_hour: float, count: int, accelerator: str, provider: str) -> str:
    """The budget that buys the cheapest deployment, as it is typed, up to the next cent, and what it buys."""
    where = "of your own" if provider == OWN else f"from {provider}"
    return f"{budget_option(usd_per_hour)}: {count} x {accelerator} {where} is enough"


def budget_option(usd: float, per: str = "/h") -> str:
    """A budget as it is typed, up to the next cent; of a job `per` is empty."""
    return f"--budget {_round_up_to_cents(usd) / CENTS_PER_USD:.2f}{per}"


def bill_words(bill: Bill, which: str = "Option 1") -> str:
    """A month's bill in a sentence.

    >>> line, why = BillLine("rent", 1460.0), UnknownCost("egress", PriceNotStated("aws"))
    >>> bill_words(Bill(2.0, 1460.0, (line,), (why,), 0.0))
    'Option 1 costs $1,460 a month for rent; egress is unknown (no price of aws is known).'
    """
    parts = f" for {bill.lines[0].what}"
    if len(bill.lines) > 1:
        parts = ": " + ", ".join(f"{usd_words(line.usd_per_month)} {line.what}" for line in bill.lines)
    return _sentence(bill, f"{which} costs {usd_words(bill.usd_per_month)} a month{parts}")


def left_out(bill: Bill) -> str:
    """Return the requested items without a price, which the sum leaves out, as the end of a sentence."""
    reasons = [(each.what, each.reason) for each in bill.unknown]
    names = [what for what, why in reasons if isinstance(why, PriceNotStated) and why.is_amount_stated]
    return f", {' and '.join(names)} unknown" if names else ""


def job_words(bill: Bill) -> str:
    """The bill of a whole job in a sentence."""
    known = " and ".join(line.what for line in bill.lines)
    return _sentence(
        bill, f"Option 1 costs {usd_words(bill.usd.value if bill.usd else 0.0)} in all for {known}"
    )


def _sentence(bill: Bill, first: str) -> str:
    """The first part of a sentence, with the commitment and with the items that are unknown, each reason once."""
    groups: dict[str, list[UnknownCost]] = {}
    for each in bill.unknown:
        groups.setdefault("" if isinstance(each.reason, AmountNotStated) else str(each.reason), []).append(
            each
        )
    unknown = []
    for why, group in groups.items():
        typed = ", ".join(each.reason.option for each in group if isinstance(each.reason, AmountNotStated))
        names = " and ".join(each.what for each in group)
        unknown.append(f"{names} {'are' if len(group) > 1 else 'is'} unknown ({why or typed})")
    owed = [f"{usd_words(bill.commitment_usd)} are owed whole, used or not"] if bill.commitment_usd else []
    return "; ".join((first, *owed, *unknown)) + "."


def _bill(
    hourly: Mapping[str, float],
    extra_usd_per_month: Mapping[str, float],
    unknown: tuple[UnknownCost, ...],
    commitment_usd: float | None,
) -> Bill:
    """Return a bill of hourly items, which are machines and energy [USD/h], and of monthly ones [USD/month]."""
    monthly = {name: each * HOURS_PER_MONTH for name, each in hourly.items()} | dict(extra_usd_per_month)
    return Bill(
        usd_per_hour=sum(hourly.values()) + sum(extra_usd_per_month.values()) / HOURS_PER_MONTH,
        usd_per_month=sum(monthly.values()),
        lines=tuple(BillLine(name, each) for name, each in monthly.items()),
        unknown=unknown,
        commitment_usd=commitment_usd,
    )


def _extra_usd_per_month(
    price: Price, beside: ExtraItems
) -> tuple[dict[str, float], tuple[UnknownCost, ...]]:
    """Storage and egress of a month where amount and price are known, and why one is not."""
    seller = "your own site" if price.provider == OWN else price.provider
    amounts: dict[ExtraItem, float | None] = {
        "storage": beside.storage_bytes,
        "egress": beside.egress_bytes_per_month,
    }
    known = dict[str, float]()
    unknown = list[UnknownCost]()
    for name, size in amounts.items():
        tiers = extra_tiers(price, name)
        if size == 0.0:
            known[name] = 0.0
        elif not tiers:
            unknown.append(UnknownCost(name, PriceNotStated(seller, is_amount_stated=size is not None)))
        elif size is None:
            unknown.append(UnknownCost(name, AmountNotStated(f"--{name}-tb")))
        else:
            known[name] = usd_of_tiers(tiers, size / GB)
    return known, tuple(unknown)
