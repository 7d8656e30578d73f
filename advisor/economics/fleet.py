"""Machines for a load that changes over the day: all the time, on demand, or a reserved base below a peak."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.catalog.units import HOUR_S, HOURS_PER_DAY, MINUTE_S
from advisor.decide.offers import ROUNDING


@dataclass(frozen=True, slots=True)
class UnitPrice:
    """The price of one purchasable unit under a term, and the number of replicas that run on it."""

    usd_per_hour: float
    replicas: int = 1


@dataclass(frozen=True, slots=True)
class FleetCost:
    """One way to carry a day's load."""

    policy: str
    base_units: int
    """Paid all day."""
    peak_units: int
    """Number of units in the busiest part of the day, including those that are paid all day."""
    unit_hours_per_day: float
    """Paid, starts and losses of spot machines included."""
    usd_per_day: float
    utilisation_fraction: float
    """Load as a fraction of the paid capacity."""


@dataclass(frozen=True, slots=True)
class PricedFleet:
    """One policy on one accelerator, with storage and egress as far as they are known."""

    what: str
    priced_on: str
    cost: FleetCost
    usd_per_day: float
    note: str
    may_lead: bool
    """Whether a headline may name it: each of its prices is an offer of a term that the question allows."""


def units_needed(
    mean_rate_per_s: float,
    relative: Sequence[float],
    capacity_per_s: float,
    replicas_per_unit: int = 1,
    num_spare: int = 0,
) -> tuple[int, ...]:
    """Return the units that each part of the day needs, from the requests per second that one replica serves within the
    objectives. `num_spare` replicas are added while the load needs any.

    Source: ceiling of load over capacity; the capacity is the simulator's.
    """
    needed = []
    for level in relative:
        replicas = math.ceil(mean_rate_per_s * level / capacity_per_s - ROUNDING)
        running = max(replicas, 1) + num_spare if level > 0 else 0
        needed.append(-(-running // replicas_per_unit))
    return tuple(needed)


@dataclass(frozen=True, slots=True)
class Day:
    """A day's needs: units per part of the day, and what share of them the load really uses."""

    needed: tuple[int, ...]
    used_unit_hours: float
    """Load over one unit's capacity, times hours."""

    @property
    def part_hours(self) -> float:
        return HOURS_PER_DAY / len(self.needed)


def day_of(
    mean_rate_per_s: float,
    relative: Sequence[float],
    capacity_per_s: float,
    replicas_per_unit: int = 1,
    num_spare: int = 0,
) -> Day:
    """A day under a load of a shape."""
    needed = units_needed(mean_rate_per_s, relative, capacity_per_s, replicas_per_unit, num_spare)
    used = HOURS_PER_DAY * mean_rate_per_s / (capacity_per_s * replicas_per_unit)
    return Day(needed, used)


def always_on(day: Day, price: UnitPrice) -> FleetCost:
    """The busiest part's units all day."""
    units = max(day.needed)
    hours = units * HOURS_PER_DAY
    return _cost("always on", day, units, units, hours, hours * price.usd_per_hour)


def autoscaled_cost(day: Day, price: UnitPrice, startup_minutes: float) -> FleetCost:
    """Units follow the load; each start is paid from its order until it serves."""
    hours = _hours_above(day, 0, startup_minutes)
    return _cost("autoscaled on demand", day, 0, max(day.needed), hours, hours * price.usd_per_hour)


def reserved_base(
    day: Day,
    reserved: UnitPrice,
    peak: UnitPrice,
    startup_minutes: float,
    *,
    overhead_fraction: float = 0.0,
    least_base: int = 0,
    policy: str = "reserved base, on-demand peak",
) -> FleetCost:
    """The cheapest split into units that are paid all day and units that follow the load above them.

    `overhead_fraction`: hours of the peak paid for nothing, because spot machines are taken away. `least_base`: units
    that must not be taken away.

    Source: every base from the least to the busiest part is tried.
    """
    best: FleetCost | None = None
    for base in range(min(least_base, max(day.needed)), max(day.needed) + 1):
        peak_hours = _hours_above(day, base, startup_minutes) * (1.0 + overhead_fraction)
        base_hours = base * HOURS_PER_DAY
        usd = base_hours * reserved.usd_per_hour + peak_hours * peak.usd_per_hour
        found = _cost(policy, day, base, max(day.needed), base_hours + peak_hours, usd)
        if best is None or found.usd_per_day < best.usd_per_day:
            best = found
    assert best is not None
    return best


def _hours_above(day: Day, base: int, startup_minutes: float) -> float:
    """Unit-hours above a base, with the time of the starts, the day following on itself."""
    above = [max(0, units - base) for units in day.needed]
    starts = sum(max(0, later - earlier) for earlier, later in zip(above[-1:] + above, above, strict=False))
    return sum(above) * day.part_hours + starts * startup_minutes * MINUTE_S / HOUR_S


def _cost(policy: str, day: Day, base: int, peak: int, unit_hours: float, usd: float) -> FleetCost:
    return FleetCost(
        policy=policy,
        base_units=base,
        peak_units=peak,
        unit_hours_per_day=unit_hours,
        usd_per_day=usd,
        utilisation_fraction=min(1.0, day.used_unit_hours / unit_hours) if unit_hours else 0.0,
    )
