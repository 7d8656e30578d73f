"""Sums of money in sentences, in the currencies that questions name."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from advisor.catalog.units import KILO
from advisor.workstation.foreign_words import regex
from advisor.workstation.list_currency import code_of
from advisor.workstation.mentions import Mention

_AT_PAR: Final = frozenset(("EUR", "GBP"))
"""Currencies in which shops ask about the number that those of the United States ask in dollars: their prices have a
tax of a fifth inside, which offsets the rate (rates of 1.1 to 1.35 dollars; from memory, unverified)."""


@dataclass(frozen=True, slots=True)
class Sum:
    """Sum of money in a text."""

    start: int
    end: int
    amount: float
    currency: str

    @property
    def counts_as_usd(self) -> bool:
        """Whether the amount is taken as one of US dollars."""
        return self.currency == "USD" or self.currency in _AT_PAR


def sums_in(text: str, mentions: tuple[Mention, ...] = ()) -> Iterator[Sum]:
    """Yield the sums of a text in their order; numbers of the parts that it names are none."""
    for one in mentions:
        text = f"{text[: one.start]}{'_' * (one.end - one.start)}{text[one.end :]}"
    for found in regex("question.sum").finditer(text):
        yield Sum(found.start(), found.end(), _amount(found), _currency(found))


def is_price_of(one: Sum, text: str, mentions: tuple[Mention, ...]) -> bool:
    """Whether a sum stands directly behind or ahead of a part, whose price it then is: `RTX 3090 ($700)`, `$700 for the
    3090`; what a sentence says of a sum otherwise is no price of a part."""
    ahead = max((mention.end for mention in mentions if mention.end <= one.start), default=None)
    behind = min((mention.start for mention in mentions if mention.start >= one.end), default=None)
    is_behind = (
        ahead is not None and regex("question.price_behind").fullmatch(text, ahead, one.start) is not None
    )
    is_ahead = (
        behind is not None and regex("question.price_ahead").fullmatch(text, one.end, behind) is not None
    )
    return is_behind or is_ahead


def _amount(found: re.Match[str]) -> float:
    """Return the number of a sum, whose dots, commas and spaces ahead of three digits divide thousands."""
    digits = re.sub(r"[., ](?=\d{3}(?!\d))", "", found["one"] or found["two"] or found["three"])
    return float(digits.replace(",", ".")) * (KILO if found["k1"] or found["k2"] or found["k3"] else 1.0)


def _currency(found: re.Match[str]) -> str:
    """Return the currency of a sum; US dollars where it names none."""
    sign = (found["ahead"] or found["behind"] or "$").strip().lower()
    is_dollars = re.fullmatch(r"(?:us)?\$|(?:us[- ]?)?dollars?|bucks|usd", sign) is not None
    return "USD" if is_dollars else code_of(sign)
