"""Plausibility checks of quotes: each row by itself, against known prices of its accelerator, and
the list as a whole.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.files import check_record
from advisor.catalog.prices import country_of
from advisor.catalog.products import Product
from advisor.catalog.refresh.identify import has_memory_of, product_of
from advisor.catalog.refresh.quote import MOST_QUOTES, FeedError, Quote
from advisor.catalog.schema import Price

MOST_CHANGE: Final = 3.0
"""Factor between two prices of the same offer beyond which a person must look: the largest cuts that providers
announced (44 % for AWS's H100 in June 2025) stay far below."""
MOST_SPREAD: Final = 10.0
"""Factor to the median of an accelerator's known prices at the same term: an H100 costs from 2 to 12 dollars, and a
marketplace host asks a fifth of the price of a large cloud for an A100."""
LEAST_DISCOUNTED_FRACTION: Final = 0.05
"""Lowest plausible fraction of the typical on-demand price, if no price at a reserved or spot term is known."""
LEAST_USD_PER_HOUR = 0.01
MOST_USD_PER_HOUR = 200.0
"""Plausible price of one accelerator without a known price [USD/h]."""
LEAST_KEPT_FRACTION: Final = 0.5
"""Minimum fraction of the offers of the previous list; a list that lost more than half has changed its format."""
MOST_REFUSED_FRACTION: Final = 0.5
MAX_NAMES: Final = 5
_COPIED: Final = (
    "provider",
    "region",
    "term",
    "usd_per_hour",
    "observed_on",
    "url",
    "tenancy",
    "price_kind",
    "vcpus",
)
LONGEST_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class Refused:
    """Quote that must not be used, and the reason."""

    quote: Quote
    reason: str
    sku: str
    """Name of the product in the catalog."""


@dataclass(slots=True)
class Checked:
    """Outcome of the quotes of one list."""

    prices: list[Price] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)
    """SKUs that the catalog cannot name: other products, or new ones."""


def check_quotes(quotes: Iterable[Quote], known: Sequence[Price], *, accept_changes: bool = False) -> Checked:
    """Sort quotes into prices, refused rows with reasons, and products that the catalog does not describe.

    `known` are the current prices from any source; `accept_changes` accepts prices that are implausible against them.

    Raises: FeedError: there are too many quotes.
    """
    history = _History(known)
    found = Checked()
    for number, quote in enumerate(quotes):
        if number >= MOST_QUOTES:
            raise FeedError(f"more than {MOST_QUOTES} prices")
        product = product_of(quote)
        if product is None:
            found.unknown.add(_legible(quote.sku))
            continue
        reason = _fault(quote, product)
        if not reason and not accept_changes:
            reason = history.fault(quote, product)
        if reason:
            found.refused.append(Refused(quote, reason, product.sku))
            continue
        try:
            found.prices.append(_price(quote, product))
        except InputFileError as error:
            found.refused.append(Refused(quote, f"{error.what}: {error.why}", product.sku))
    _refuse_dear_spot(found)
    return found


def check_list(found: Checked, num_before: int) -> None:
    """Refuse a whole list that looks broken: empty, mostly refused, or half of it gone.

    Raises: FeedError: the list looks broken; the message has numbers.
    """
    num_prices = len(found.prices)
    num_refused = len(found.refused)
    if not num_prices and not num_refused and not found.unknown:
        raise FeedError("it lists no machine with an accelerator: is the region right?")
    if not num_prices:
        names = ", ".join(sorted(found.unknown)[:MAX_NAMES])
        raise FeedError(f"no usable price among {num_refused + len(found.unknown)} products ({names})")
    if num_refused > MOST_REFUSED_FRACTION * (num_prices + num_refused):
        raise FeedError(
            f"{num_refused} of {num_prices + num_refused} prices are refused: {found.refused[0].reason}"
        )
    if num_prices < LEAST_KEPT_FRACTION * num_before:
        raise FeedError(f"only {num_prices} prices where there were {num_before}")


def _legible(name: str) -> str:
    """Return a name as a message may show it."""
    return "".join(letter if letter.isprintable() else "?" for letter in name[:LONGEST_SHOWN])


class _History:
    """Known prices of accelerators and offers."""

    def __init__(self, known: Sequence[Price]) -> None:
        self.of_offer: dict[tuple[str, str, str, str], float] = {}
        by_accelerator: dict[tuple[str, str], list[float]] = defaultdict(list)
        for price in sorted(known, key=lambda price: price.observed_on):
            self.of_offer[price.offer] = price.usd_per_hour
            by_accelerator[price.accelerator, price.term].append(price.usd_per_accelerator_hour)
        self.typical = {key: median(prices) for key, prices in by_accelerator.items()}

    def fault(self, quote: Quote, product: Product) -> str:
        """Return the reason why a price is not plausible; empty if it is."""
        before = self.of_offer.get((quote.provider, product.sku, quote.region, quote.term))
        if before is not None:
            if not before / MOST_CHANGE <= quote.usd_per_hour <= before * MOST_CHANGE:
                now = f"${quote.usd_per_hour:g}/h"
                return f"{now} where the same offer was ${before:g}/h: a factor above {MOST_CHANGE:g}"
            return ""
        each = quote.usd_per_hour / _count(quote, product)
        low = LEAST_USD_PER_HOUR
        high = MOST_USD_PER_HOUR
        typical = self.typical.get((product.accelerator, quote.term))
        least = 1.0 / MOST_SPREAD
        if typical is None and quote.term != "on_demand":
            typical = self.typical.get((product.accelerator, "on_demand"))
            least = LEAST_DISCOUNTED_FRACTION
        if typical is not None:
            low = typical * least
            high = typical * MOST_SPREAD
        if not low <= each <= high:
            return f"${each:g} per {product.accelerator} and hour is outside ${low:.2g} to ${high:.2g}"
        return ""


def _fault(quote: Quote, product: Product) -> str:
    """Return the fault of a quote by itself; empty if there is none."""
    if not quote.is_legible:
        return "its names are too long or hold control characters"
    if quote.currency != "USD":
        return f"is in {quote.currency}, not in USD"
    if not math.isfinite(quote.usd_per_hour) or quote.usd_per_hour <= 0:
        return f"price {quote.usd_per_hour:g} is not positive and finite"
    stated = quote.num_accelerators
    expected = product.num_accelerators
    if stated is None and expected is None:
        return "the list does not say how many accelerators it has"
    if stated is not None and (not math.isfinite(stated) or stated < 1 or stated != int(stated)):
        return f"{stated:g} accelerators are no whole number"
    if stated is not None and expected is not None and stated != expected:
        return f"states {stated:g} accelerators, the product has {expected}"
    if not has_memory_of(product.accelerator, quote.memory_bytes):
        return (
            f"states {quote.memory_bytes or 0:g} bytes of memory, which {product.accelerator} does not have"
        )
    return ""


def _count(quote: Quote, product: Product) -> int:
    return product.num_accelerators or int(quote.num_accelerators or 1)


def _price(quote: Quote, product: Product) -> Price:
    """Return the catalog row of a quote.

    Raises: InputFileError: a field is out of bounds.
    """
    since = quote.valid_from or quote.observed_on
    values: Mapping[str, object] = {name: getattr(quote, name) for name in _COPIED} | {
        "sku": product.sku,
        "accelerator": product.accelerator,
        "num_accelerators": _count(quote, product),
        "valid_from": min(since, quote.observed_on),
        "country": country_of(quote.provider, quote.region),
        "ram_bytes": quote.ram_bytes if quote.ram_bytes and math.isfinite(quote.ram_bytes) else None,
    }
    return check_record(Price, values, f"{quote.provider} {quote.sku}")


def _refuse_dear_spot(found: Checked) -> None:
    """Refuse spot prices above the same product's on-demand price. Spot sells spare capacity, so such a price is a
    mistake."""
    on_demand = {(p.provider, p.sku, p.region): p.usd_per_hour for p in found.prices if p.term == "on_demand"}
    kept = []
    for price in found.prices:
        limit = on_demand.get((price.provider, price.sku, price.region), math.inf)
        if price.term == "spot" and price.usd_per_hour > limit:
            reason = f"spot for ${price.usd_per_hour:g}/h, on demand for ${limit:g}/h"
            found.refused.append(Refused(_quote_of(price), reason, price.sku))
        else:
            kept.append(price)
    found.prices = kept


def _quote_of(price: Price) -> Quote:
    return Quote(
        price.provider, price.sku, price.region, price.term, price.usd_per_hour, price.url, price.observed_on
    )
