"""Question in words for a machine of which it names no part: the model, the money, the noise and the speed that it
wants."""

from dataclasses import dataclass
from typing import Final

from advisor.catalog.errors import AdvisorError
from advisor.workstation.asked import models_in
from advisor.workstation.foreign_words import regex
from advisor.workstation.mentions import mentions_in
from advisor.workstation.sums import sums_in

QUIET_DB: Final = 40.0
"""Noise of a machine that a question calls quiet, at one metre [dB(A)]: that of a quiet room in use. Own choice."""


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
    # Of `$2000 to $2500`, the larger one is the limit.
    limit = max(sums_in(text), key=lambda one: (one.amount, one.currency), default=None)
    if limit is not None and not limit.counts_as_usd:
        raise AdvisorError(
            f"a budget of {limit.amount:,.0f} {limit.currency}",
            why="prices of the catalog are in US dollars",
            fix="write the sum in dollars, e.g. $2500",
        )
    speed = regex("question.speed").search(text)
    return WantedMachine(
        model=named[0],
        budget_usd=None if limit is None else limit.amount,
        currency="USD" if limit is None else limit.currency,
        is_quiet=regex("question.quiet").search(text) is not None,
        tokens_per_s=None if speed is None else float(speed["num"]),
        is_used=regex("question.second_hand").search(text) is not None,
    )
