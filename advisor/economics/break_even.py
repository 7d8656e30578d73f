"""Break-even points: values at which two ways to get tokens cost the same."""

import math
from dataclasses import dataclass

from advisor.catalog.units import HOURS_PER_DAY, MILLION


@dataclass(frozen=True, slots=True)
class BreakEven:
    """The value of a quantity beyond which the first way is cheaper; None where it never is."""

    first: str
    second: str
    quantity: str
    """Quantity that is varied, with its unit in the name: utilisation_fraction, tokens_per_day, months,
    hours_per_day."""
    value: float | None
    sentence: str


def utilisation(
    usd_per_hour: float, full_tokens_per_hour: float, other_usd_per_million: float
) -> float | None:
    """Return the fraction of its capacity at which a rented or owned deployment costs as much per token as the other
    way.

    Dollars per hour over (share × tokens per hour at full load) = price; None if it costs more even when full.
    """
    share = usd_per_hour * MILLION / (full_tokens_per_hour * other_usd_per_million)
    return share if share <= 1.0 else None


def tokens_per_day(usd_per_hour: float, other_usd_per_million: float) -> float:
    """Tokens a day at which a deployment that is paid all day costs as much as buying them singly [tokens/day].

    Assumes: the deployment can serve that many; see `utilisation`.
    """
    return usd_per_hour * HOURS_PER_DAY * MILLION / other_usd_per_million


def payback_months(purchase_usd: float, rent_per_month: float, running_per_month: float) -> float | None:
    """Months after which a purchase has saved its price against renting the same machines all the time.

    None where running costs as much as the rent. Resale and interest are left out: they belong to the whole life.
    """
    saved = rent_per_month - running_per_month
    return purchase_usd / saved if saved > 0.0 else None


def hours_per_day_worth_owning(
    fixed_usd_per_day: float, rent_usd_per_hour: float, energy_usd_per_hour: float
) -> float | None:
    """Hours of use a day from which owning is cheaper than renting by the hour [h]; None where 24 do not suffice.

    Source: definition; fixed is what owning costs whether the machine runs or not.
    """
    saved = rent_usd_per_hour - energy_usd_per_hour
    if saved <= 0.0:
        return None
    hours = fixed_usd_per_day / saved
    return hours if hours <= HOURS_PER_DAY and math.isfinite(hours) else None
