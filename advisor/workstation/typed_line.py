"""One line of a user's parts list: number, name, price, and claims about the part."""

import re
from dataclasses import dataclass, field
from typing import Final

from advisor.catalog.errors import InputFileError

_COUNT: Final = r"[-+−]?\d[\d,.]*"
_QUANTITY: Final = re.compile(
    rf"^\s*({_COUNT})\s*[x×*]\s+|^\s*({_COUNT})\s*[x×*](?=[A-Za-z]{{3}})|^\s*(\d{{1,2}})\s*[x×*](?=[A-Za-z])",
    re.IGNORECASE,
)
_QUANTITY_LAST: Final = re.compile(
    rf"\s(?:x\s+|[×*]\s*)({_COUNT})\s*$|\sx(\d{{1,2}}|[-+−]\d+|\d{{5,}})\s*$", re.IGNORECASE
)
"""Number at the end of a line. Three or four digits directly after an X are a chipset: X870."""
_CPU_NUMBER: Final = re.compile(
    r"^\s*[1-9][6-9]\d[05]x(?!\s+(?:rtx|gtx|rx|geforce|radeon|arc|instinct)\b)", re.IGNORECASE
)
"""Desktop CPU that is named by its number alone, such as 9950X, and no count of cards."""
MOST_OF_ONE: Final = 99
MOST_USD: Final = 1_000_000
"""Price that no part reaches [USD]: the most expensive accelerators cost a twentieth of it."""
_NEGATIVE_PRICE: Final = re.compile(r"(?:^|[\s(])[-−](?:\$|USD)\s*\d", re.IGNORECASE)
_AMOUNT: Final = r"-?\d[\d  ,.]*\d|-?\d"
_PRICE: Final = re.compile(
    rf"(?:for|at|@|:|=|,)?\s*(?:\$|USD)\s*({_AMOUNT})(?:\s*(?:-|–|—|to)\s*\$?\s*({_AMOUNT}))?\s*(each|ea\.?|apiece)?",
    re.IGNORECASE,
)
_DOLLAR: Final = re.compile(r"(?:\$|USD)\s*(\S+)", re.IGNORECASE)
_CHANNELS: Final = re.compile(r"(\d{1,2})[- ]?channels?", re.IGNORECASE)
_LANES: Final = re.compile(r"(\d{1,3})\s*(?:PCIe\s*)?lanes?", re.IGNORECASE)
_NOISE: Final = re.compile(r"[\"“”'()\[\],;]+")


@dataclass(frozen=True, slots=True)
class TypedLine:
    """Parsed line of a parts list."""

    text: str
    what: str
    """Name without quantity, price and claims."""
    where: str
    """File and line, for messages."""
    quantity: int = 1
    usd: float | None = None
    """Price of the whole line [USD], the middle of a range; None if the line states none."""
    usd_low: float | None = None
    usd_high: float | None = None
    claims: dict[str, int] = field(default_factory=dict)
    """Numbers that the line states about a CPU: channels, lanes."""
    category: str | None = None
    """Category if the file states it; None otherwise."""


def read_line(text: str, where: str) -> TypedLine:
    """Parse a line such as `2x RTX 5090 $4500`, `Threadripper 7960X (8-channel, 88 lanes) $1 400` or `case $300`.

    A price is of the whole line unless it says `each`.

    Raises: InputFileError: nothing is named, the price is no positive number, or the count is not from 1 to 99.
    """
    rest, usd, low, high, each = _without_price(text, where)
    quantity, rest = _without_quantity(rest, where)
    claims: dict[str, int] = {}
    for name, pattern in (("channels", _CHANNELS), ("lanes", _LANES)):
        match = pattern.search(rest)
        if match:
            claims[name] = int(match.group(1))
            rest = pattern.sub(" ", rest)
    what = " ".join(_NOISE.sub(" ", rest).split())
    if not what:
        raise InputFileError(f"{where}: {text!r} names no part", fix="e.g. 2x RTX 5090 $4500")
    factor = quantity if each else 1
    return TypedLine(
        text=text,
        what=what,
        where=where,
        quantity=quantity,
        usd=None if usd is None else usd * factor,
        usd_low=None if low is None else low * factor,
        usd_high=None if high is None else high * factor,
        claims=claims,
    )


def _without_quantity(text: str, where: str) -> tuple[int, str]:
    for pattern in (_QUANTITY, _QUANTITY_LAST):
        match = pattern.search(text)
        if match and not (pattern is _QUANTITY and _CPU_NUMBER.match(text)):
            typed = next(group for group in match.groups() if group)
            number = int(typed) if typed.isdecimal() and len(typed) <= len(str(MOST_OF_ONE)) else 0
            if not 1 <= number <= MOST_OF_ONE:
                raise InputFileError(
                    f"{where}: {typed} of one part",
                    why=f"a count is a whole number from 1 to {MOST_OF_ONE}",
                    fix="correct it, e.g. 2x RTX 5090",
                )
            return number, text[: match.start()] + " " + text[match.end() :]
    return 1, text


def _without_price(text: str, where: str) -> tuple[str, float | None, float | None, float | None, bool]:
    """Return the text without its price, then the price with its range, and whether it is the price of one piece."""
    negative = _NEGATIVE_PRICE.search(text)
    if negative is not None:
        raise _not_positive(negative.group().strip(" ("), where)
    found = _DOLLAR.search(text)
    if found is None:
        return text, None, None, None, False
    match = _PRICE.search(text)
    if match is None or re.match(r"[A-Za-z]", text[match.end() :][:1]):
        raise _bad_price(found.group(1), where)
    low = price_number(match.group(1), where)
    high = price_number(match.group(2), where) if match.group(2) else None
    rest = text[: match.start()] + " " + text[match.end() :]
    if high is None:
        return rest, low, None, None, bool(match.group(3))
    if high < low:
        raise InputFileError(
            f"{where}: price ${low:g} to ${high:g}", why="the range ends below its begin", fix="low first"
        )
    return rest, (low + high) / 2.0, low, high, bool(match.group(3))


def price_number(text: str, where: str) -> float:
    """Return an amount as users write it: 4500, 4,500, 4 500, 1,399.99 [USD].

    Raises: InputFileError: it is none, not positive, or more than any part costs.
    """
    cleaned = re.sub(r"[  ,](?=\d{3}(?!\d))", "", text.strip())
    try:
        value = float(cleaned)
    except ValueError:
        raise _bad_price(text, where) from None
    if not 0 < value < MOST_USD:
        raise _not_positive(text, where)
    return value


def _not_positive(text: str, where: str) -> InputFileError:
    return InputFileError(
        f"{where}: price {text!r}",
        why=f"a price is a positive number of dollars below {MOST_USD:,}",
        fix="correct it, or leave it out",
    )


def _bad_price(text: str, where: str) -> InputFileError:
    return InputFileError(
        f"{where}: price {text!r}",
        why="it is not a number of dollars",
        fix="write it as $4500, $4,500 or $1,399.99; leave it out to take the catalog's",
    )
