"""Merging of new prices with old ones: rows are appended, unchanged ones get a new date, vanished ones end."""

import datetime
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from advisor.catalog.prices import bundled_prices
from advisor.catalog.schema import Price

Offer = tuple[str, str, str, str]
COARSE_REGIONS: Final = frozenset({"any", "us", "eu"})
"""Regions of bundled rows that stand for several regions of a provider."""


Product = tuple[str, str, str]
"""Provider, SKU and term."""


def merge(
    old: Sequence[Price], new: Sequence[Price], day: datetime.date, doubtful: Collection[Product] = ()
) -> list[Price]:
    """Return the history of a list after another reading on `day`.

    A price that did not change keeps the first and the last day on which it was read. An offer that is no longer
    listed ends on `day`, unless its product is doubtful: listed, but with a refused new price. A second reading
    on one day replaces the first.
    """
    histories: dict[Offer, list[Price]] = defaultdict(list)
    for price in sorted((*old, *new), key=lambda price: price.observed_on):
        _append(histories[price.offer], price)
    listed = {price.offer for price in new}
    for offer, history in histories.items():
        last = history[-1]
        is_gone = offer not in listed and (last.provider, last.sku, last.term) not in doubtful
        if is_gone and last.valid_to is None and last.valid_from < day:
            history[-1] = last.model_copy(update={"valid_to": day})
    return [price for offer in sorted(histories) for price in histories[offer]]


def _append(history: list[Price], price: Price) -> None:
    if history and history[-1].observed_on == price.observed_on:
        history.pop()
    is_repeated = len(history) > 1 and _same(history[-1], price) and _same(history[-2], price)
    if is_repeated:
        history.pop()
    history.append(price)


def _same(one: Price, other: Price) -> bool:
    return one.usd_per_hour == other.usd_per_hour and one.valid_to is None and other.valid_to is None


def to_known_regions(prices: Iterable[Price]) -> list[Price]:
    """Return the prices under the regions that the bundled rows use for the same product.

    Where a bundled row has a coarse region (`us`, `any`), the cheapest region of the list takes its place;
    otherwise the old row would remain next to the new ones for ever.
    """
    bundled: dict[Offer, set[str]] = defaultdict(set)
    for price in bundled_prices():
        bundled[price.provider, price.sku, price.accelerator, price.term].add(price.region)
    groups: dict[Offer, list[Price]] = defaultdict(list)
    for price in prices:
        groups[price.provider, price.sku, price.accelerator, price.term].append(price)
    found: list[Price] = []
    for key, group in groups.items():
        coarse = sorted(bundled[key] & COARSE_REGIONS)
        if coarse:
            cheapest = min(group, key=lambda price: price.usd_per_hour)
            found += [cheapest.model_copy(update={"region": region}) for region in coarse]
        else:
            found += group
    return found
