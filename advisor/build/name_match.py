"""Which parts a few typed words may mean: the words that tell one from another, and the parts that bear them all."""

import re
from collections.abc import Iterable
from typing import Final, TypeVar

from advisor.catalog.schema.part import Part

PartT = TypeVar("PartT", bound=Part)
FILLER: Final = frozenset(
    ("new", "used", "the", "a", "with", "and", "gpu", "cpu", "card", "cards", "processor")
)
_GENERIC: Final = re.compile(
    "motherboard|mainboard|board|power|supply|psu|certified|fully|full|semi|modular|80|80[+]|plus|bronze|silver|gold|"
    "platinum|titanium|solid|state|drive|ssd|nvme|m[.]2|2280|pcie|pci|express|x4|[3-5][.]0|internal|gen[3-5]|cooler|"
    "cooling|liquid|air|water|case|tower|mid|mini|e?atx|micro|computer|chassis|tempered|glass|am[45]|lga\\d{4}|"
    "eeb|ceb|ssi|sp[356]|swrx8|str[45]|strx4|memory|kit|video|ecc|registered|[ru]?dimm"
)
"""Words that say what a part is, not which."""
_MEASURE: Final = re.compile(r"\b\d+(?:\.\d+)?\s*(?:cfm|mm|ghz|mhz|dba?|rpm)\b", re.IGNORECASE)
_SIZE: Final = re.compile(r"\d+(?:\.\d+)?(?:x\d+)?(?:gb|tb|w)?|ddr[45]|cl\d\d")
_JOINED_UNIT: Final = re.compile(r"(\d)\s+(gb|tb|w)\b", re.IGNORECASE)


def by_words(text: str, found: Iterable[PartT], *, strict: bool = False) -> PartT | None:
    """The part whose name holds every telling word of the text; the shortest name of several, None where one lacks.

    Words that no part of the pool bears are overlooked unless `strict`: shops add what a maker's name does not have.
    """
    return min(
        all_by_words(text, found, strict=strict), key=lambda part: (len(part.name), part.name), default=None
    )


def all_by_words(text: str, found: Iterable[PartT], *, strict: bool = False) -> list[PartT]:
    """Every part that the words of a text may mean."""
    pool = [(part, set(_telling(part.name))) for part in found]
    words = _telling(text)
    if not strict:
        known = set().union(*(names for _, names in pool)) if pool else set()
        words = [word for word in words if word in known or len(word) < 3 or any(c.isdigit() for c in word)]
    models = [word for word in words if _is_model_number(word)]
    if (len(words) < 2 and not any(len(word) >= 5 for word in models)) or not any(
        any(c.isalpha() for c in word) for word in words
    ):
        return []
    return [part for part, names in pool if set(words) <= names]


def _telling(text: str) -> list[str]:
    """The words that tell one part from another of its kind; a size is one word with its unit."""
    joined = _JOINED_UNIT.sub(r"\1\2", _MEASURE.sub(" ", text))
    return [
        word.strip(".")
        for word in plain_words(joined).split()
        if word not in FILLER and not _GENERIC.fullmatch(word)
    ]


def _is_model_number(word: str) -> bool:
    """Whether a word is letters and digits, and no size."""
    mixed = any(c.isdigit() for c in word) and any(c.isalpha() for c in word)
    return mixed and not _SIZE.fullmatch(word)


def names_a_model(text: str, *allowed: str) -> bool:
    """Whether a line names a product, not only a kind and its size."""
    return any(not _SIZE.fullmatch(word) and word not in allowed for word in _telling(text))


def plain_words(text: str) -> str:
    """Words as they are compared: small letters, without makers that nobody types."""
    return " ".join(re.findall(r"[a-z0-9.+]+", text.lower().replace("geforce", " ").replace("nvidia", " ")))
