"""Coverage of the catalog: known and missing prices, engines, measurements and dates, by accelerator and provider."""

import datetime
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args

from advisor.catalog.accelerators import all_accelerators
from advisor.catalog.efficiencies import measured_operators
from advisor.catalog.engines import engines_on
from advisor.catalog.ownership import ownership, purchase_price
from advisor.catalog.prices import COMPARED_KINDS, all_providers, is_stale, prices_as_of
from advisor.catalog.schema import Accelerator
from advisor.catalog.schema.price import Price, Term

TERMS: Final[tuple[Term, ...]] = get_args(Term)


@dataclass(frozen=True, slots=True)
class AcceleratorCoverage:
    """Coverage of one accelerator."""

    accelerator: str
    num_offers: int
    """Number of current offers of every kind and term."""
    sellers: tuple[str, ...]
    num_dedicated: int
    """Number of offers that are plannable: dedicated, dated, and of a kind that a customer can expect to pay."""
    newest: datetime.date | None
    """Day on which the newest plannable offer was read; None without one."""
    num_fresh: int
    """Number of dedicated, dated offers that are not stale."""
    engines: tuple[str, ...]
    """Engines that the accelerator's record lists."""
    engines_stated: tuple[str, ...]
    """Engines that the support matrix names for the accelerator's architecture."""
    measured_operators: tuple[str, ...]
    """Operators measured on the accelerator's architecture."""
    has_purchase_price: bool
    unpriced_reason: str
    """Reason why no price is plannable; empty if there is one."""

    @property
    def is_single_source(self) -> bool:
        """Whether only one provider's price is known."""
        return len(self.sellers) == 1


@dataclass(frozen=True, slots=True)
class ProviderCoverage:
    """Coverage of one provider."""

    provider: str
    num_offers: int
    accelerators: tuple[str, ...]
    regions: tuple[str, ...]
    terms: tuple[str, ...]
    kinds: tuple[str, ...]
    newest: datetime.date | None
    num_stale: int
    num_undated: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """Coverage of the whole catalog on a day."""

    as_of: datetime.date
    accelerators: tuple[AcceleratorCoverage, ...]
    providers: tuple[ProviderCoverage, ...]
    stale: tuple[Price, ...]
    """Offers that were read too long ago or bear no date; oldest first."""
    single_source: tuple[str, ...]
    """Accelerators whose only known prices are one provider's."""
    unpriced: tuple[tuple[str, str], ...]
    """Accelerators with engine support but without a plannable price, each with the reason."""


def coverage(
    as_of: datetime.date,
    *,
    accelerators: Sequence[str] | None = None,
    providers: Sequence[str] | None = None,
    user_file: Path | None = None,
    cache_dir: Path | None = None,
) -> Coverage:
    """Return what is priced, supported, measured and dated on a day, what of it is stale, and what rests on one
    provider. `accelerators` and `providers` restrict it to those.

    Raises: UnknownNameError: no such provider. InputFileError: the user's file or the cache is wrong.
    """
    offers = prices_as_of(
        as_of,
        terms=TERMS,
        accelerators=accelerators,
        providers=providers,
        user_file=user_file,
        cache_dir=cache_dir,
    )
    by_accelerator: dict[str, list[Price]] = defaultdict(list)
    by_provider: dict[str, list[Price]] = defaultdict(list)
    for price in offers:
        by_accelerator[price.accelerator].append(price)
        by_provider[price.provider].append(price)
    rows = tuple(
        _of_accelerator(record, by_accelerator[record.id], as_of)
        for record in all_accelerators()
        if (accelerators is None or record.id in accelerators)
        and (providers is None or by_accelerator[record.id])
    )
    stale = [price for price in offers if is_stale(price, as_of)]
    sellers = {*all_providers(), *by_provider} if providers is None else set(by_provider)
    return Coverage(
        as_of=as_of,
        accelerators=rows,
        providers=tuple(_of_provider(name, by_provider[name], as_of) for name in sorted(sellers)),
        stale=tuple(sorted(stale, key=lambda price: (price.is_dated, price.observed_on))),
        single_source=tuple(row.accelerator for row in rows if row.is_single_source and providers is None),
        unpriced=tuple(
            (row.accelerator, row.unpriced_reason) for row in rows if row.engines and row.unpriced_reason
        ),
    )


def _of_accelerator(
    record: Accelerator, offers: Sequence[Price], as_of: datetime.date
) -> AcceleratorCoverage:
    usable = [price for price in offers if is_plannable(price)]
    is_sold = purchase_price(ownership(as_of), record) is not None
    return AcceleratorCoverage(
        accelerator=record.id,
        num_offers=len(offers),
        sellers=tuple(sorted({price.provider for price in offers})),
        num_dedicated=len(usable),
        newest=max((price.observed_on for price in usable), default=None),
        num_fresh=sum(not is_stale(price, as_of) for price in usable),
        engines=record.engines,
        engines_stated=engines_on(record.architecture),
        measured_operators=measured_operators(record.architecture),
        has_purchase_price=is_sold,
        unpriced_reason="" if usable else _unpriced_reason(offers, is_sold),
    )


def is_plannable(price: Price) -> bool:
    """Whether a price can be planned with: the renter has the accelerator alone, the price is of a kind that a customer
    can expect to pay, and its day is known."""
    return price.tenancy == "dedicated" and price.price_kind in COMPARED_KINDS and price.is_dated


def _unpriced_reason(offers: Sequence[Price], is_sold: bool) -> str:
    """Return the reason why none of the offers is plannable, with their providers."""
    if not offers:
        return "no provider is known to rent it out" + ("; a purchase price is known" if is_sold else "")
    sellers: dict[str, set[str]] = defaultdict(set)
    for price in offers:
        faults = [
            "" if price.tenancy == "dedicated" else f"{price.tenancy} tenancy",
            "" if price.price_kind in COMPARED_KINDS else f"{price.price_kind.replace('_', ' ')} price",
            "" if price.is_dated else "undated",
        ]
        sellers[", ".join(filter(None, faults))].add(price.provider)
    return "; ".join(f"{fault} ({', '.join(sorted(names))})" for fault, names in sorted(sellers.items()))


def _of_provider(name: str, offers: Sequence[Price], as_of: datetime.date) -> ProviderCoverage:
    return ProviderCoverage(
        provider=name,
        num_offers=len(offers),
        accelerators=tuple(sorted({price.accelerator for price in offers})),
        regions=tuple(sorted({price.region for price in offers})),
        terms=tuple(term for term in TERMS if any(price.term == term for price in offers)),
        kinds=tuple(sorted({price.price_kind for price in offers})),
        newest=max((price.observed_on for price in offers if price.is_dated), default=None),
        num_stale=sum(is_stale(price, as_of) for price in offers),
        num_undated=sum(not price.is_dated for price in offers),
    )
