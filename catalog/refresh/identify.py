"""Identification of a provider's product: its accelerator in the catalog and their number, by exact name, never by
guess."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from advisor.catalog import accelerators
from advisor.catalog.errors import InputFileError
from advisor.catalog.files import DATA_DIR, read_toml
from advisor.catalog.prices import bundled_prices
from advisor.catalog.refresh.quote import Quote

MEMORY_TOLERANCE_FRACTION: Final = 0.15
"""Tolerance between two statements of an accelerator's memory: drivers, providers and datasheets differ by up to this
fraction; other memory sizes differ by more."""


@dataclass(frozen=True, slots=True)
class Product:
    """Product behind a provider's SKU."""

    accelerator: str
    num_accelerators: int | None
    """Number of accelerators; None if only the provider's document states it."""
    sku: str


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    accelerator: str
    sku: str


def product_of(quote: Quote) -> Product | None:
    """Return the product of a quote; None if the catalog does not describe this SKU."""
    known = _bundled_products().get((quote.provider, quote.sku))
    if known is not None:
        return known
    for rule in _rules().get(quote.provider, ()):
        found = rule.pattern.fullmatch(quote.sku)
        if found:
            groups = found.groupdict()
            count = groups.get("n")
            return Product(
                accelerator=rule.accelerator or groups["id"],
                num_accelerators=int(count) if count else None,
                sku=rule.sku.format(**groups) if rule.sku else quote.sku,
            )
    return None


def has_memory_of(accelerator: str, memory_bytes: float | None) -> bool:
    """Whether a stated memory fits the accelerator; True if either is unknown."""
    expected = accelerators.by_id(accelerator).memory_bytes
    if memory_bytes is None or expected is None:
        return True
    return abs(memory_bytes - expected) <= MEMORY_TOLERANCE_FRACTION * expected


@cache
def _bundled_products() -> Mapping[tuple[str, str], Product]:
    return {
        (price.provider, price.sku): Product(price.accelerator, price.num_accelerators, price.sku)
        for price in bundled_prices()
    }


@cache
def _rules() -> Mapping[str, Sequence[_Rule]]:
    """Return the patterns by provider.

    Raises: InputFileError: the bundled file names an accelerator that the catalog lacks.
    """
    path = DATA_DIR / "price_skus.toml"
    return {
        provider: tuple(
            _rule(entry, f"{path.name}: {provider} {number}") for number, entry in enumerate(entries, 1)
        )
        for provider, entries in read_toml(path).items()
    }


def _rule(entry: Mapping[str, Any], where: str) -> _Rule:
    known = {record.id for record in accelerators.all_accelerators()}
    named = entry.get("accelerator", "")
    if named and named not in known:
        raise InputFileError(
            f"{where}: field accelerator: {named!r}", why="no such accelerator", fix="use its id"
        )
    return _Rule(re.compile(entry["pattern"]), named, entry.get("sku", ""))
