"""Terms of rented machines and periods of their prices, by the words that name them."""

import re
from collections.abc import Collection, Mapping
from typing import Final

from advisor.catalog.schema.price import Term
from advisor.catalog.units import HOUR_S, HOURS_PER_DAY, HOURS_PER_MONTH, MINUTE_S

ONE_ACCELERATOR: Final = frozenset(("gpu", "gpus", "card", "accelerator", "chip"))
PERIOD_HOURS: Final[Mapping[str, float]] = {
    **dict.fromkeys(("second", "seconds", "sec", "secs", "s"), 1.0 / HOUR_S),
    **dict.fromkeys(("minute", "minutes"), MINUTE_S / HOUR_S),
    **dict.fromkeys(("hour", "hours", "hourly", "hr", "hrs", "h"), 1.0),
    **dict.fromkeys(("day", "days", "daily"), HOURS_PER_DAY),
    **dict.fromkeys(("week", "weeks", "weekly"), 7.0 * HOURS_PER_DAY),
    **dict.fromkeys(("month", "months", "monthly", "mo"), HOURS_PER_MONTH),
    **dict.fromkeys(("year", "years", "yearly", "yr", "annual", "annually"), 12.0 * HOURS_PER_MONTH),
}
"""Hours that a price pays for, by the word of its period."""
_PERIOD_TERMS: Final[tuple[tuple[float, Term], ...]] = (
    (12.0 * HOURS_PER_MONTH, "reserved_1y"),
    (HOURS_PER_MONTH, "reserved_1m"),
)
"""Terms of machines whose only price is that of a long period: they are rented for all of it."""
TERMS: Final[tuple[tuple[Term, str], ...]] = (
    ("reserved_3y", r"\b(?:(?:3|three) ?(?:yr?s?|years?)|36 ?(?:months?|mo))\b|\b3y"),
    ("reserved_1y", r"\b(?:(?:1|one) ?(?:yr?s?|years?)|12 ?(?:months|mo))\b|\b1y|\bannual commit\w*"),
    ("reserved_3m", r"\b(?:3|three) ?(?:m|mo|months?)\b"),
    ("reserved_1m", r"\b(?:1|one) ?(?:m|mo|month)\b commit\w*"),
    (
        "reserved_unspecified",
        r"\b(?:6|six) ?months?\b|\b(?:2|two) ?years?\b|\breserv\w*|\bcommit\w*|\bcud\b|savings plan",
    ),
    ("spot", r"\bspot\b|preempt\w*|\bdynamic\b|(?<!un)interruptible|\bbid\b|low priority"),
    ("community", r"\bcommunity\b"),
    ("on_demand", r"on ?demand|pay ?g\b|pay as you go|\bsecure\b|consumption|uninterruptible|\bflex\b"),
)
"""Words of terms, the most specific first."""
UNIT_WORDS: Final = frozenset(("per", "a", "an")) | ONE_ACCELERATOR | frozenset(PERIOD_HOURS)


def period_hours(words: Collection[str]) -> float | None:
    """Return the hours of the period that words state; None if they state none."""
    return next((PERIOD_HOURS[word] for word in words if word in PERIOD_HOURS), None)


def term_of(words: str) -> Term | None:
    return next((each for each, form in TERMS if re.search(form, words)), None)


def term_in(period_hours: float, term: Term) -> Term:
    """Return the term of a price that pays for a period, given the one that is stated otherwise."""
    stated = (each for hours, each in _PERIOD_TERMS if period_hours >= hours)
    return next(stated, term) if term == "on_demand" else term
