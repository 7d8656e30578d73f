"""Identification of a provider's product: its accelerator in the catalog and their number, by exact name, never by
guess."""

from collections.abc import Mapping
from functools import cache
from typing import Final

from advisor.catalog import accelerators
from advisor.catalog.prices import bundled_prices
from advisor.catalog.products import Product, product_by_rule
from advisor.catalog.refresh.quote import Quote

MEMORY_TOLERANCE_FRACTION: Final = 0.15
"""Tolerance between two statements of an accelerator's memory: drivers, providers and datasheets differ by up to this
fraction; other memory sizes differ by more."""


def product_of(quote: Quote) -> Product | None:
    """Return the product of a quote; None if the catalog does not describe this SKU."""
    known = _bundled_products().get((quote.provider, quote.sku))
    if known is not None:
        return known
    return product_by_rule(quote.provider, quote.sku)


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
