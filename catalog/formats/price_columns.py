"""Columns of lists of prices, by what their names hold."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from advisor.catalog.formats.catalogue_price import is_accelerator
from advisor.catalog.formats.meanings import plain_words
from advisor.catalog.formats.rental_terms import (
    ONE_ACCELERATOR,
    PERIOD_HOURS,
    TERMS,
    period_hours,
    with_minutes,
)
from advisor.catalog.schema.price import Term

_PATH: Final = re.compile(
    r"[a-z]+[A-Za-z]*/[a-z]+[A-Z]\w*|[a-z]+[A-Z][A-Za-z]*/[A-Z]\w*|[a-z]+/(?:term|unit|region|location)"
)
_GPU: Final = r"(?:gpu|accelerator|card|chip)"
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "gpu": (
        rf"{_GPU}(?: (?:name|model|type|display name|config(?:uration)?))?",
        "(?:graphics|video) card",
        "display name",
        "gpu description",
    ),
    "count": (
        "(?:num(?:ber)?(?: of)?|no of|n|max|min(?:imum)?)? ?(?:gpus|accelerators|cards)",
        rf"{_GPU}s? (?:count|num(?:ber)?|quantity)",
        rf"(?:num(?:ber)?|quantity|count) (?:(?:of|de|di|d|von|der|van|av) )?(?:{_GPU}|board|device)s?|boards|devices",
        r"gpus per \w+",
        "count|quantity|qty|n|number|max gpu count",
    ),
    "used": ("(?:usage|used|consumed|billed) (?:amount|quantity|hours)|hours(?: used| billed)?|gpu hours",),
    "provider": ("(?:provider|vendor|cloud|company|seller|host)(?: (?:name|id))?",),
    "sku": (
        "api name|arm sku name|sku(?: name)?",
        "instance(?: (?:name|type|size))?|machine(?: type)?|vm(?: size)?|meter name",
        "shape|flavou?r|plan|name|key|id",
    ),
    "description": (
        r"(?:\w+ ){0,2}description|specs?|configuration|product|(?:line )?items?|service|details|articles?",
    ),
    "region": (
        "(?:arm |service )?regions?(?: with capacity)?(?: available)?(?: name| id)?",
        "(?:geo)?locations?|(?:availability )?zone|data ?cent(?:er|re)",
    ),
    "day": (
        "date|day|timestamp|as of|(?:observed|fetched|retrieved|checked|collected|updated)(?: on| at| date)?",
        "(?:last|price) (?:updated?|seen|checked)(?: on| at)?|(?:observation|price|snapshot) date",
    ),
    "currency": ("(?:billing |pricing )?currency(?: code)?",),
    "memory": (
        "(?:gpu )?(?:ram|memory|vram)(?: (?:in )?(?:gb|gib|mb|mib))?",
        "gpu (?:mem|memory size)|accelerator memory gi ?b",
    ),
    "term": (
        "(?:pricing |price |purchase |billing |usage |rental |lease |consumption )?"
        "(?:term|type|model|option|plan|kind|commitment|category)(?: type)?",
        "availability|interruptible|spot",
    ),
    "years": ("reservation term|lease contract length|commitment(?: length| period)?",),
    "unit": ("(?:pricing |usage |consumed )?unit(?: of measure)?|billing unit|per",),
    "period": (
        "billing(?: (?:period|interval|cycle|frequency))?|(?:price |payment )?(?:period|interval|frequency)",
    ),
    "system": ("operating system|os|product name|platform",),
}
"""Names of fields in plain words by what they hold; the first name that fits counts."""
MEANS_A_PRICE: Final = frozenset(
    ("price", "cost", "rate", "hourly", "usd", "dph", "bid", "hour", "hr", "hrs", "amount", "demand", "spot")
)
"""Words of which the name of a price has at least one."""
_PRICE_WORDS: Final = MEANS_A_PRICE | {
    *("retail", "unit", "list", "per", "a", "h", "linux", "instance", "total", "base", "min", "minimum"),
    *(
        "current",
        "the",
        "in",
        "dollar",
        "dollars",
        "from",
        "public",
        "net",
        "effective",
        "discounted",
        "final",
        "unblended",
        "blended",
    ),
}
"""Words that the name of a price of machines may have; one of storage or of a month has another."""
_OF_THE_HOST: Final = re.compile(
    r"\b(?:v?cpus?|v?cores?|threads?|rams?|memory|mem|disks?|storage|ssd|hdd|nvme|local|network|bandwidth|traffic|egress"
    r"|ingress|ports?|ids?|index|urls?|links?|uuid|version|scores?|reliability|latitude|longitude|uptime|tflops|gbps)\b"
)
"""Words of columns that say nothing of the price of the accelerators."""
_DURATIONS: Final = frozenset(("seconds", "minutes", "milliseconds"))
"""Units of measured times: a price is for one second or one minute."""


class PriceKind(NamedTuple):
    """Term, unit and count that the name of a column of prices states for its cells."""

    term: Term | None
    """Term of the prices; None if another column states it."""
    is_each: bool
    """Whether a price is that of one accelerator."""
    is_cents: bool
    hours: float
    """Hours that a price pays for."""


@dataclass(frozen=True, slots=True)
class PriceColumns:
    """Names of the columns of a list of prices, by what they hold."""

    fields: dict[str, list[str]] = field(default_factory=dict)
    """Names by what their cells say of a machine: keys of the table of forms."""
    prices: dict[PriceKind, list[str]] = field(default_factory=dict)
    accelerators: list[str] = field(default_factory=list)
    """Names that are those of accelerators, whose cells are prices."""
    unread: list[str] = field(default_factory=list)
    """Names that are not known and may bear on a price: no part of the machine but its accelerators is priced."""

    @property
    def is_priced(self) -> bool:
        """Whether rows have a price, and a machine that it is the price of."""
        return bool(self.accelerators) or (bool(self.prices) and len(self.prices) + len(self.fields) > 1)

    def names_of(self, what: str) -> list[str]:
        """Return the names of the columns that hold something; none if the list has none."""
        return self.fields.get(what, [])


def columns_of(titles: tuple[str, ...]) -> PriceColumns:
    """Return the columns that have these titles."""
    found = PriceColumns()
    for title in titles:
        last = with_minutes(own_name(title))
        own = plain_words(last.replace("$", " usd ")).removeprefix(
            "x "
        )  # FOCUS marks columns of one vendor so
        above = plain_words(title.removesuffix(own_name(title)))
        nested = f"{above.rpartition(' ')[2]} {own}" if above else own
        outer = plain_words(own_name(title.removesuffix(own_name(title)).rstrip("./")))
        # Of a nested record a name of one word says less than the record's; one of several words says it alone.
        tried = (f"{outer} {own}", own) if " " in own else (f"{outer} {own}", nested, own)
        if what := next(filter(None, map(_field_of, tried)), ""):
            found.fields.setdefault(what, []).append(title)
        if kind := _price_kind(own, above) or _price_kind(nested, above):
            found.prices.setdefault(kind, []).append(title)
        elif not what and own and (not _OF_THE_HOST.search(own) or MEANS_A_PRICE & set(own.split())):
            found.unread.append(title)
    named = [] if found.is_priced else [title for title in titles if is_accelerator(own_name(title))]
    return replace(found, accelerators=named) if len(named) > 1 else found


def unknown_words(title: str) -> list[str]:
    """Return the words of a title that no name of a price has."""
    known = _PRICE_WORDS | ONE_ACCELERATOR | PERIOD_HOURS.keys()
    return [word for word in plain_words(title.replace("$", " usd ")).split() if word not in known]


def own_name(title: str) -> str:
    """Return the last of the names that a title joins with dots, or with slashes: `product/instanceType`."""
    title = title.rstrip(". ")
    return title.rpartition("/" if _PATH.fullmatch(title) else ".")[2]


def _field_of(words: str) -> str:
    """Return what a name in plain words holds; empty if it is unknown."""
    return next(
        (what for what, forms in _FIELDS.items() if any(re.fullmatch(form, words) for form in forms)), ""
    )


def _price_kind(own: str, above: str) -> PriceKind | None:
    """Return the kind of prices that a column holds by its own name and those above it; None for any other column: a
    price of storage has a word that no price of machines has."""
    words = own
    term = next((each for each, form in TERMS if re.search(form, own) or re.search(form, above)), None)
    for _, form in TERMS:
        words = re.sub(form, " ", words)
    if own and not words.split() and own != "commitment":
        words = "price"
    if own == "usd" and "price" in above:
        return None if term and term.startswith("reserved") else PriceKind(term, False, False, 1.0)
    left = set(re.sub(r"\bcents?\b", " ", words).split())
    if left & _DURATIONS:
        return None
    hours = period_hours(left) or 1.0
    if hours != 1.0:
        left = left - PERIOD_HOURS.keys() | {"hour"}
    means = (left | set(own.split())) & MEANS_A_PRICE
    if own == "usd" or not means or not left <= _PRICE_WORDS | ONE_ACCELERATOR:
        return None
    return PriceKind(term, bool(left & ONE_ACCELERATOR), bool(re.search(r"\bcents?\b", words)), hours)
