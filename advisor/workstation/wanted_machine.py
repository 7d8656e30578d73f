"""Question in words for a machine of which it names no part: the model, the money, the noise and the speed that it
wants."""

import re
from dataclasses import dataclass
from typing import Final

from advisor.catalog.errors import AdvisorError
from advisor.catalog.units import KILO
from advisor.workstation.asked import models_in
from advisor.workstation.foreign_words import regex
from advisor.workstation.list_currency import code_of
from advisor.workstation.mentions import mentions_in

QUIET_DB: Final = 40.0
"""Noise of a machine that a question calls quiet, at one metre [dB(A)]: that of a quiet room in use. Own choice."""
_AT_PAR: Final = frozenset(("EUR", "GBP"))
"""Currencies in which shops ask about the number that those of the United States ask in dollars: their prices have a
tax of a fifth inside, which offsets the rate (rates of 1.1 to 1.35 dollars; from memory, unverified)."""


@dataclass(frozen=True, slots=True)
class WantedMachine:
    """Wishes of a question in words for a machine."""

    model: str
    budget_usd: float | None
    """Most that the machine may cost [USD]; None if the question names no sum."""
    currency: str
    """Currency of the sum as typed."""
    is_quiet: bool
    tokens_per_s: float | None
    """Least speed [tokens/s]; None if the question names none."""
    is_used: bool
    """Whether second-hand parts are welcome."""


def wanted_machine(text: str) -> WantedMachine | None:
    """Return what a text wants of a machine to buy for a model; None if it names a part, no model, or wants none.

    Raises: AdvisorError: its sum is in a currency whose prices are not near those in dollars.
    """
    if regex("question.wants_machine").search(text) is None or mentions_in(text):
        return None
    named = models_in(text)
    if not named:
        return None
    sums = [(_amount(found), _currency(found)) for found in regex("question.sum").finditer(text)]
    # Of `$2000 to $2500`, the larger one is the limit.
    budget, currency = max(sums, default=(None, "USD"))
    if currency != "USD" and currency not in _AT_PAR:
        raise AdvisorError(
            f"a budget of {budget:,.0f} {currency}",
            why="prices of the catalog are in US dollars",
            fix="write the sum in dollars, e.g. $2500",
        )
    speed = regex("question.speed").search(text)
    return WantedMachine(
        model=named[0],
        budget_usd=budget,
        currency=currency,
        is_quiet=regex("question.quiet").search(text) is not None,
        tokens_per_s=None if speed is None else float(speed["num"]),
        is_used=regex("question.second_hand").search(text) is not None,
    )


def _amount(found: re.Match[str]) -> float:
    """Return the number of a sum, whose dots, commas and spaces ahead of three digits divide thousands."""
    digits = re.sub(r"[., ](?=\d{3}(?!\d))", "", found["one"] or found["two"] or found["three"])
    return float(digits.replace(",", ".")) * (KILO if found["k1"] or found["k2"] or found["k3"] else 1.0)


def _currency(found: re.Match[str]) -> str:
    """Return the currency of a sum; US dollars where it names none."""
    sign = (found["ahead"] or found["behind"] or "$").strip().lower()
    is_dollars = re.fullmatch(r"(?:us)?\$|(?:us[- ]?)?dollars?|bucks|usd", sign) is not None
    return "USD" if is_dollars else code_of(sign)
