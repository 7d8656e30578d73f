"""Terms of rented machines and periods of their prices, by the words that name them."""

import re
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

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
_MINUTE: Final = re.compile(r"((?:/|\bper[ _])\s*)mins?\b", re.IGNORECASE)
"""Short word for a minute, which elsewhere is that for the least."""
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


def with_minutes(text: str) -> str:
    """Return a text whose prices per "min" are per minute."""
    return _MINUTE.sub(r"\1minute", text)


def period_name(hours: float) -> str:
    """Return the word of a period, or its hours where it has none."""
    named = (
        word for word, known in PERIOD_HOURS.items() if len(word) > 2 and abs(known / hours - 1.0) < 1e-9
    )
    return next(named, f"{hours:,.6g} hours")


def term_of(words: str) -> Term | None:
    return next((each for each, form in TERMS if re.search(form, words)), None)


def term_in(period_hours: float, term: Term) -> Term:
    """Return the term of a price that pays for a period, given the one that is stated otherwise."""
    stated = (each for hours, each in _PERIOD_TERMS if period_hours >= hours)
    return next(stated, term) if term == "on_demand" else term


_BOARDS: Final = r"(?:gpus?|cards?|accelerators?|units?|boards?)"
_SMALLEST_ORDER: Final = re.compile(
    r"\b(?:min(?:imum|\.)?|at least)(?: (?:of|order(?: of)?|quantity(?: of)?|rental(?: of)?))?[\s:=]*"
    rf"(\d{{1,5}})\b(?:\s*[x×])?(?:\s*{_BOARDS}\b)?"
    rf"|\b(\d{{1,5}})\s*(?:\+|or more)\s*{_BOARDS}\b"
    rf"|\b(\d{{1,5}})\s*{_BOARDS}\s*(?:min(?:imum|\.)?(?!\w)|or more|and up|\+)",
    re.IGNORECASE,
)
_LOWER_BOUND: Final = re.compile(
    r"\b(?:from|starting(?: at| from)?|starts (?:at|from)|as low as|ab|à partir de)\b|(?<=\d)\+(?=\s*(?:/|$))",
    re.IGNORECASE,
)
_RANGE: Final = re.compile(r"(?<=\d)\s*(?:-|–|—|\bto\b)\s*(?:US)?\$?\s*\d[\d.,]*", re.IGNORECASE)
MACHINE: Final = re.compile(
    r"\b(\d{1,3})[ -]?(?:x |× )?gpus? (?:node|server|instance|cluster|pod|system|vm)s?\b", re.IGNORECASE
)
"""Number of accelerators of the machine that is priced, where it stands behind their name."""
_LEFT: Final = re.compile(
    r"[()\[\]*;·]+|\.{2,}|\bnvlink\b|,(?!\d)|(?<!\S)[-–—](?!\S)|\b(?:price|pricing|only|billed|with|term|contract|orders?)\b",
    re.IGNORECASE,
)
"""Signs and words around a price that say nothing more."""


class RentalConditions(NamedTuple):
    """Conditions that a text states of a price."""

    term: Term | None
    smallest_order: int | None
    """Number of accelerators of the smallest order; None if the text states none."""
    is_lower_bound: bool
    """Whether the price is the lowest of several: "from", or the first of a range."""
    rest: str
    """The text without them."""


def conditions_of(text: str) -> RentalConditions:
    """Return the conditions that a text states of a price: term, smallest order, and whether it is the lowest."""
    text = with_minutes(text)
    rest = _RANGE.sub("", text)
    is_lower_bound = rest != text or _LOWER_BOUND.search(rest) is not None
    rest = _LOWER_BOUND.sub(" ", rest)
    order = _SMALLEST_ORDER.search(rest)
    rest = _SMALLEST_ORDER.sub(" ", rest)
    plain = re.sub(r"(?<=[A-Za-z\d])-(?=[A-Za-z])", " ", rest)
    term = term_of(plain.lower())
    for _, form in TERMS if term else ():
        plain = re.sub(form, " ", plain, flags=re.IGNORECASE)
    return RentalConditions(
        term,
        int(next(filter(None, order.groups()))) if order else None,
        is_lower_bound,
        " ".join(_LEFT.sub(" ", plain if term else rest).split()),
    )
