"""Amounts of money that add up: lines are whole cents, and a total is their sum."""

import datetime
from collections.abc import Iterable
from dataclasses import dataclass

from advisor.catalog.units import CENTS_PER_USD

MONTHS_PER_YEAR = 12


@dataclass(frozen=True, slots=True)
class Line:
    """One part of a bill, with what it rests on."""

    name: str
    usd: float
    """Whole cents."""
    basis: str
    """datasheet, measured, derived or estimate, as the catalog's records say."""
    observed_on: datetime.date
    source: str


def whole_cents(usd: float) -> int:
    """An amount in cents, rounded to the nearest; a tie goes to the even cent [cents]."""
    return round(usd * CENTS_PER_USD)


def rounded(usd: float) -> float:
    """An amount in whole cents [USD]."""
    return whole_cents(usd) / CENTS_PER_USD


def total(lines: Iterable[Line]) -> float:
    """The sum of the lines, exact to the cent [USD].

    Source: definition; cents are added as integers.
    """
    return sum(whole_cents(line.usd) for line in lines) / CENTS_PER_USD
