"""Dated prices of rented accelerators: three layers, half-open validity, the same answer for the same day.

A row says the price of one provider for one SKU from `valid_from` until, not including, `valid_to`, and on which
day that was read. Rows are appended, never edited: a newer row of the same offer takes over from its
`valid_from` on. A price that was read after the requested day is not known on that day.
"""

import dataclasses
import datetime
import heapq
import itertools
import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from pydantic import ConfigDict, Field

from advisor.catalog import accelerators as accelerator_catalog
from advisor.catalog.errors import InputFileError, UnknownNameError
from advisor.catalog.files import (
    DATA_DIR,
    check_currency,
    check_day,
    check_record,
    check_repeat,
    data_files,
    named_records,
    read_csv,
    read_toml,
)
from advisor.catalog.formats.catalogue_price import CataloguePrice, accelerator_of, whole_count
from advisor.catalog.formats.price_rows import (
    TITLES,
    PriceCatalogue,
    catalogue_of,
    catalogue_prices,
    unread_columns,
)
from advisor.catalog.formats.rental_terms import period_name
from advisor.catalog.listing import make_callable
from advisor.catalog.products import product_by_rule
from advisor.catalog.resolve import resolve
from advisor.catalog.schema import Accelerator
from advisor.catalog.schema.price import Price, PriceKind
from advisor.catalog.schema.record import Record
from advisor.catalog.units import DAY_S, GIB, HOUR_S

STALE_AFTER_DAYS: Final = 30
KEPT: Final = "prices"
"""Folder of refreshed prices in the program's cache."""
REQUIRED_COLUMNS: Final = (
    "provider",
    "accelerator",
    "num_accelerators",
    "term",
    "usd_per_hour",
    "observed_on",
)
OPTIONAL_COLUMNS: Final = (
    "sku",
    "region",
    "valid_from",
    "valid_to",
    "vcpus",
    "ram_gb",
    "url",
    "source",
    "is_dated",
    "is_confirmed",
    "tenancy",
    "price_kind",
    "country",
    "min_quantity",
    "max_quantity",
    "storage_usd_per_gb_hour",
    "egress_usd_per_gb",
    "currency",
)
COMPARED_KINDS: Final[tuple[PriceKind, ...]] = ("list", "quote", "tracker", "marketplace_median")
"""Kinds of prices that a customer can expect to pay; the other kinds are the lowest prices of a provider or market."""
LEAST_USD = 0.005
MOST_USD = 250.0
"""Limits of the price of one accelerator [USD/h]; a price outside them was written in other units."""
_YEAR_H: Final = 365 * DAY_S / HOUR_S
_COMMITTED_H: Final[Mapping[str, float]] = {
    "reserved_1m": _YEAR_H / 12,
    "reserved_3m": _YEAR_H / 4,
    "reserved_1y": _YEAR_H,
    "reserved_3y": 3 * _YEAR_H,
}
Offer = tuple[str, str, str, str, int, str]


class Provider(Record):
    """Provider of rented accelerators."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    id: str
    name: str
    aliases: tuple[str, ...] = ()
    """Other names that people give it, in lower case."""
    kind: Literal["hyperscaler", "neocloud", "marketplace"] = Field(alias="class")
    per_accelerator: tuple[str, ...] = ()
    """Accelerators ("*": all) whose one-accelerator price also holds for several of one node."""
    node_of: int = Field(default=1, ge=1)
    """Smallest number of accelerators that can be rented, where prices are quoted per accelerator."""
    largest_cluster: int | None = Field(default=None, ge=1)
    """Largest number of accelerators that the provider joins with a network; None if it states none."""

    sold_at_once: int | None = Field(default=None, ge=1)
    """Most accelerators that anyone rents as one cluster at the list price, without a contract; None if not stated."""
    serves_only: bool = False
    """Whether the provider starts inference servers only, so that nothing else, such as training, can run there."""
    skypilot: str = ""
    """Name in SkyPilot, if it runs services in containers there; empty if it does not."""
    skypilot_joins: bool = True
    """Whether SkyPilot joins several machines of the provider into one cluster."""

    def sells_singly(self, accelerator: str) -> bool:
        return "*" in self.per_accelerator or accelerator in self.per_accelerator


@cache
def all_providers() -> dict[str, Provider]:
    """Return every known provider by id.

    Raises: InputFileError: the bundled file is damaged.
    """
    return named_records(Provider, "providers.toml")


@cache
def provider_names() -> Mapping[str, str]:
    """Return the id of each provider by every name that people give it, in lower case and with spaces or hyphens."""
    names: dict[str, str] = {}
    for id_, provider in all_providers().items():
        for name in (id_, provider.name.lower(), *provider.aliases):
            names |= {name: id_, name.replace(" ", "-"): id_, name.replace("-", " "): id_}
    return names


@cache
def bundled_prices() -> tuple[Price, ...]:
    """Return every bundled price row of any date and term.

    Raises: InputFileError: a bundled file is damaged.
    """
    return tuple(price for path in data_files("prices/*.csv") for price in read_file(path))


def read_prices(
    path: Path, as_of: datetime.date = datetime.date.min, providers: Collection[str] | None = None
) -> tuple[Price, ...]:
    """Return the rows of the user's own price file; accelerators may be written by alias.

    SkyPilot's `vms.csv`, rows of gpuhunt and sheets of prices by the hour are read too: `providers` then says whose
    list it is, and its rows are undated.

    Needs provider, accelerator, num_accelerators, term, usd_per_hour (of the whole SKU) and observed_on; may
    have any of OPTIONAL_COLUMNS: without valid_from a price holds from observed_on on, without price_kind it is a
    quote. A currency other than USD is refused, as is a day after today and `as_of`.

    Raises: InputFileError: the file is unreadable or a row is wrong; the message has row, field, value and rule.
    """
    latest = max(as_of, datetime.date.today(), newest_reading())
    catalogue = catalogue_of(path)
    if catalogue is None:
        found = read_file(path, latest=latest)
    else:
        found = _catalogue_rows(
            path, catalogue, providers, as_of if as_of > datetime.date.min else latest
        ).prices
    _check_grows(path, found)
    return found


class CatalogueRows(NamedTuple):
    """Prices of another catalogue's file, and what was not certain about its rows."""

    prices: tuple[Price, ...]
    taken: Mapping[str, str]
    """Accelerator by name in the file, for names that stand for several boards."""
    unknown: tuple[str, ...]
    """Names of accelerators that the catalog does not have; their rows are left out."""
    periods_hours: tuple[float, ...]
    """Hours by which prices of other periods than the hour were divided."""
    num_lower_bounds: int
    """Number of prices that their rows state as the lowest of several."""
    unpriced: tuple[str, ...]
    """Names of machines without a price, with what their rows state in its place."""
    without_host: tuple[str, ...]
    """Names of accelerators whose price is without the machine that they are rented with; their rows are left out."""


def catalogue_notes(path: Path, as_of: datetime.date, providers: Collection[str] | None) -> tuple[str, ...]:
    """Return what must be said about a price file of another catalogue; nothing for a file of own columns.

    Raises: InputFileError: the file is wrong.
    """
    catalogue = catalogue_of(path)
    if catalogue is None:
        return _doubted_counts(read_file(path, latest=max(as_of, datetime.date.today(), newest_reading())))
    found = _catalogue_rows(path, catalogue, providers, as_of)
    num_undated = sum(not price.is_dated for price in found.prices)
    undated = f", {num_undated:,} without a date" if num_undated else ""
    notes = [f"{path.name} is read as {TITLES[catalogue]}: {len(found.prices):,} prices{undated}"]
    notes += [f"its {name} is taken as {accelerator}" for name, accelerator in found.taken.items()]
    if found.periods_hours:
        names = ", ".join(map(period_name, found.periods_hours))
        notes.append(f"prices of other periods are turned into those of an hour: {names}")
    if found.num_lower_bounds:
        notes.append(
            f"of {found.num_lower_bounds} of {len(found.prices):,} prices only the lowest is stated (from, a range): "
            "ask for yours"
        )
    unread, is_counted = unread_columns(path) if catalogue == "sheet" else ((), True)
    if unread:
        one = "" if is_counted else "; a row without a number of accelerators is the price of one"
        notes.append(f"columns of numbers that are not read: {', '.join(unread)}{one}")
    if found.unpriced:
        notes.append(f"rows without a price are left out: {', '.join(found.unpriced)}")
    if found.without_host:
        names = ", ".join(found.without_host)
        notes.append(
            f"rows that price accelerators without the machine they are attached to are left out: {names}"
        )
    if found.unknown:
        notes.append(f"rows without an accelerator of the catalog are left out: {', '.join(found.unknown)}")
    return (*notes, *_doubted_counts(found.prices))


_MOST_DOUBTED: Final = 3
"""Number of doubted prices that a note lists."""
_FAR_FROM_OTHERS: Final = 2.0
"""Ratio to all bundled prices of an accelerator from which a price is doubted. Own choice: half of the lowest that is
known, or twice the highest."""


def _doubted_counts(own: Sequence[Price]) -> tuple[str, ...]:
    """Return sentences on prices that look like those of one accelerator on rows of several, or the reverse: each is
    far from all that are known of the accelerator."""
    known: dict[str, list[float]] = {}
    for one in bundled_prices():
        known.setdefault(one.accelerator, []).append(one.usd_per_accelerator_hour)
    doubted: dict[str, list[str]] = {"of one accelerator": [], "of several": []}
    for one in own:
        others = known.get(one.accelerator)
        if not others:
            continue
        low = min(others) / _FAR_FROM_OTHERS
        high = max(others) * _FAR_FROM_OTHERS
        each = one.usd_per_accelerator_hour
        whole = one.usd_per_hour
        said = f"{one.num_accelerators} x {one.accelerator} at ${whole:g} (${each:.3g} each)"
        if each < low <= whole <= high:
            doubted["of one accelerator"].append(said)
        elif each > high:
            doubted["of several"].append(said)
    return tuple(
        f"prices that look like those {what}: {', '.join(said[:_MOST_DOUBTED])}; correct the number or the price if so"
        for what, said in doubted.items()
        if said
    )


def _catalogue_rows(
    path: Path, catalogue: PriceCatalogue, providers: Collection[str] | None, day: datetime.date
) -> CatalogueRows:
    """Return the rows of another catalogue's file as prices of the one provider that is named."""
    named = [provider_names().get(name.lower(), name) for name in providers or ()]
    prices: dict[Offer, Price] = {}
    taken: dict[str, str] = {}
    unknown: dict[str, None] = {}
    periods = {1.0: None}
    lowest: set[Offer] = set()
    rows, unpriced, without_host = _rentable(list(catalogue_prices(path, catalogue)))
    titled = [row for row in rows if row.is_seller_titled]
    are_tiers = len(named) == 1 and not any(_seller_of(row.provider) in all_providers() for row in titled)
    for row in rows:
        if row.is_seller_titled and are_tiers:
            row = dataclasses.replace(row, sku=row.provider, provider="")
        provider = _seller_of(row.provider) or (named[0] if len(named) == 1 else "")
        provider = provider or ("" if row.gpu else _provider_of(row.sku))
        if not (row.gpu or row.sku):
            unknown |= {row.described: None} if row.described else {}
            continue
        if not provider and not row.gpu:
            unknown[row.sku] = None
            continue
        if not provider:
            raise InputFileError(
                f"{path}: does not say whose prices it holds",
                why=f"{TITLES[catalogue]} lists one provider's machines without its name",
                fix="--provider NAME with that provider alone, or a column provider",
            )
        record, is_certain = accelerator_of(row) if row.gpu else (None, False)
        if row.day is not None and row.day > day:
            continue
        listed = _product_of(provider, row.sku) or (
            None if is_certain else _product_elsewhere(row.sku, record)
        )
        name = listed[0] if listed else (record.id if record else "")
        count = row.num_accelerators or (str(listed[1]) if listed and listed[1] else "")
        if not name or not count:
            unknown[row.gpu or row.sku] = None
            continue
        if row.is_each and row.gpu:
            each = float(row.usd_per_hour) * whole_count(count, f"{path}: row {row.row}")
            row = dataclasses.replace(row, usd_per_hour=repr(each))
        row = dataclasses.replace(row, num_accelerators=count)
        periods[row.period_hours] = None
        if row.gpu and not (listed or is_certain):
            taken[row.gpu] = name
        price = _catalogue_price(row, provider, name, f"{path}: row {row.row}", day)
        rival = prices.get(offer_of(price))
        age = (row.day or day).toordinal()
        if rival is None or (age, -price.usd_per_hour) > (rival.observed_on.toordinal(), -rival.usd_per_hour):
            prices[offer_of(price)] = price
            (lowest.add if row.is_lower_bound else lowest.discard)(offer_of(price))
    if not prices:
        names = (*unknown, *unpriced, *(f"{name} without a machine" for name in without_host))
        raise InputFileError(
            f"{path}: no price of an accelerator that the catalog has",
            why=f"it names {', '.join(names)}"
            if names
            else "no row has a number of accelerators and a price",
            fix=f"the header of an own file is {','.join(REQUIRED_COLUMNS)}",
        )
    return CatalogueRows(
        tuple(prices.values()),
        taken,
        tuple(unknown),
        tuple(periods)[1:],
        len(lowest),
        unpriced,
        without_host,
    )


def _rentable(
    rows: Sequence[CataloguePrice],
) -> tuple[list[CataloguePrice], tuple[str, ...], tuple[str, ...]]:
    """Return the rows that price a machine, the names of those without a price, unless another row has it, and names
    of accelerators that are priced without a machine."""

    def machine_of(row: CataloguePrice) -> tuple[str, str, str]:
        return row.provider, row.gpu or row.sku or row.described, row.num_accelerators

    kept = [row for row in rows if not (row.lacks_host or row.unpriced)]
    priced = set(map(machine_of, kept))
    unpriced = (
        f"{machine_of(row)[1]} ({row.unpriced})"
        for row in rows
        if row.unpriced and not row.lacks_host and machine_of(row) not in priced
    )
    alone = (row.gpu for row in rows if row.lacks_host)
    return kept, tuple(dict.fromkeys(unpriced)), tuple(dict.fromkeys(alone))


def _seller_of(name: str) -> str:
    """Return the id of a provider by the name that a list of prices has for it."""
    return provider_names().get(name, name.replace(" ", "-"))


@cache
def rented_machines() -> Mapping[tuple[str, str], tuple[str, int]]:
    """Return accelerator and number by provider and SKU, for the SKUs of the bundled rows."""
    return {
        (price.provider, price.sku): (price.accelerator, price.num_accelerators) for price in bundled_prices()
    }


def _product_of(provider: str, sku: str) -> tuple[str, int | None] | None:
    """Return accelerator and number of a provider's product; None if the catalog does not describe it."""
    for name in (sku, f"Standard_{sku.replace(' ', '_')}"):  # Azure's meters name its machines with blanks
        known = rented_machines().get((provider, name))
        if known is not None or not sku:
            return known
        if (found := product_by_rule(provider, name)) is not None:
            return found.accelerator, found.num_accelerators
    return None


def _product_elsewhere(sku: str, board: Accelerator | None) -> tuple[str, int | None] | None:
    """Return accelerator and number of the product that the one provider which has this name sells; None where the row
    names an accelerator of another family."""
    found = _product_of(_provider_of(sku), sku)
    if found is None or board is None:
        return found
    return found if found[0].partition("-")[0] == board.id.partition("-")[0] else None


def _provider_of(sku: str) -> str:
    """Return the one provider that has a product of this name; empty if none has, or several do."""
    known = {price.provider for price in bundled_prices()}
    found = [provider for provider in sorted(known) if _product_of(provider, sku)] if sku else []
    return found[0] if len(found) == 1 else ""


def _catalogue_price(
    row: CataloguePrice, provider: str, accelerator: str, where: str, day: datetime.date
) -> Price:
    values: dict[str, object] = {
        "provider": provider,
        "sku": row.sku,
        "region": row.region or "any",
        "accelerator": accelerator,
        "num_accelerators": whole_count(row.num_accelerators, where),
        "term": row.term,
        "usd_per_hour": row.usd_per_hour,
        "observed_on": row.day or day,
        "valid_from": row.day or day,
        "is_dated": row.day is not None,
        "price_kind": "list",
        "currency": row.currency,
        "min_quantity": row.smallest_order,
    }
    return _own_price(values, where, day)


_AS_OFTEN: Final = 0.9
"""Part of the ratio of two numbers of accelerators by which the price of each may not grow: larger orders cost less."""


def _check_grows(path: Path, own: Sequence[Price]) -> None:
    """Refuse a row that asks no more for several accelerators than another row for fewer, the price of one on a row of
    several; and one whose price of each grows as their number does, the price of all multiplied by it once more.

    Raises: InputFileError: there is one, with the number of accelerators.
    """
    groups: dict[Hashable, list[Price]] = {}
    for price in own:
        key = (
            price.provider,
            price.region,
            price.accelerator,
            price.term,
            price.price_kind,
            price.valid_from,
        )
        groups.setdefault(key, []).append(price)
    for group in groups.values():
        group.sort(key=lambda price: price.num_accelerators)
        for fewer, more in itertools.pairwise(group):
            if more.num_accelerators > fewer.num_accelerators and more.usd_per_hour <= fewer.usd_per_hour:
                count = more.num_accelerators
                raise InputFileError(
                    f"{path}: {more.sku or 'a row'} asks ${more.usd_per_hour:g} for {count} x {more.accelerator}, "
                    f"no more than for {fewer.num_accelerators}",
                    why="usd_per_hour is the price of the whole SKU; this looks like the price of one",
                    fix=f"${count * fewer.usd_per_accelerator_hour:g} for the {count}, or leave the row out",
                )
            ratio = more.num_accelerators / fewer.num_accelerators
            if (
                ratio > 1
                and more.usd_per_accelerator_hour >= _AS_OFTEN * ratio * fewer.usd_per_accelerator_hour
            ):
                raise InputFileError(
                    f"{path}: {more.sku or 'a row'} asks ${more.usd_per_accelerator_hour:g} for each of "
                    f"{more.num_accelerators} x {more.accelerator}, {ratio:g} times that of {fewer.num_accelerators}",
                    why="this looks like the price of the whole row, multiplied by its number once more",
                    fix="write the price of one accelerator in a column price_per_gpu, or of all in a column price",
                )


@cache
def newest_reading() -> datetime.date:
    """Return the last day on which a bundled price was read."""
    return max(price.observed_on for price in bundled_prices())


def prices_as_of(
    as_of: datetime.date,
    *,
    providers: Collection[str] | None = None,
    terms: Collection[str] = ("on_demand",),
    accelerators: Collection[str] | None = None,
    kinds: Collection[str] | None = None,
    tenancies: Collection[str] | None = None,
    user_file: Path | None = None,
    cache_dir: Path | None = None,
) -> tuple[Price, ...]:
    """Return the offers that were valid and known on `as_of`, one row for each, cheapest per accelerator first.

    An offer is a provider's SKU in a region at a term. If several layers have it, the user's file wins over
    the refreshed cache, and the cache over bundled rows that were not read later; within a layer the latest
    `valid_from` wins.

    Assumes: `accelerators` are ids. None means all; COMPARED_KINDS are the kinds that a customer can expect to pay.
    Raises: UnknownNameError: a provider is in no layer; `hint` lists near misses.
        InputFileError: the user's file or the cache is wrong.
    """
    cached = read_folder(cache_dir) if cache_dir is not None else ()
    own = read_prices(user_file, as_of, providers) if user_file is not None else ()
    if user_file is not None:
        _check_plausible(user_file, own)
    wanted_providers = _resolve_providers(providers, [bundled_prices(), cached, own])
    current = dict(_current_bundled(as_of))
    for offer, price in _current_of_layer(cached, as_of).items():
        # A newer version of this program may bundle prices that an old refresh did not see.
        if offer not in current or current[offer].observed_on <= price.observed_on:
            current[offer] = price
    current |= _current_of_layer(own, as_of)
    chosen = (
        price
        for price in current.values()
        if price.term in terms
        and (wanted_providers is None or price.provider in wanted_providers)
        and (accelerators is None or price.accelerator in accelerators)
        and (kinds is None or price.price_kind in kinds)
        and (tenancies is None or price.tenancy in tenancies)
    )
    return tuple(
        sorted(chosen, key=lambda price: (price.accelerator, price.usd_per_accelerator_hour, offer_of(price)))
    )


_LEAST_FRACTION: Final = 1 / 2
"""Price of one accelerator over the lowest on-demand price that others ask for it, below which a row of a person's own
file is taken for a mistake, such as the price of two cards for a count of eight. Own choice: no bundled price that a
customer can expect to pay is below it, and a larger fraction refuses discounts that contracts give."""
_LEAST_FRACTION_COMMITTED: Final = 1 / 3
"""Lowest fraction of others' price for a term that commits, or that shares hosts of others. The lowest bundled one is
0.40 of the lowest on-demand price (three years of a T4)."""
_LEAST_FRACTION_LOWEST: Final = 1 / 8
"""Lowest fraction of others' price for spot prices and the lowest prices of a provider or market. One of 532 bundled
ones is below it: that of a V100 at 0.07."""


def _least_fraction(price: Price) -> float:
    """Price of one accelerator over the lowest on-demand price of others, below which a row is taken for a mistake."""
    if price.term == "spot" or price.price_kind not in COMPARED_KINDS:
        return _LEAST_FRACTION_LOWEST
    return _LEAST_FRACTION if price.term == "on_demand" else _LEAST_FRACTION_COMMITTED


def _is_compared(price: Price) -> bool:
    """Whether a row is an on-demand price that a customer can expect to pay; spot rows and the lowest of a market may
    be far below."""
    return price.term == "on_demand" and price.price_kind in COMPARED_KINDS


def _lowest_two(own: Iterable[Price]) -> dict[str, list[tuple[float, str]]]:
    """Return by accelerator the two lowest prices of one, each with its provider.

    A provider of the own rows counts once, so that its rows do not vouch for each other. All bundled rows are one
    source, whose provider is written as nothing.
    """
    lowest: dict[str, dict[str, float]] = {}
    rows = [("", price) for price in bundled_prices()] + [(price.provider, price) for price in own]
    for provider, price in rows:
        if _is_compared(price):
            found = lowest.setdefault(price.accelerator, {})
            found[provider] = min(found.get(provider, math.inf), price.usd_per_accelerator_hour)
    return {
        accelerator: heapq.nsmallest(2, ((usd, provider) for provider, usd in found.items()))
        for accelerator, found in lowest.items()
    }


_MOST_TIMES_CHEAPEST: Final = 60.0
"""Refuse a price of one accelerator above 60 times the cheapest other offer of it. Own choice: bundled rows reach 49
times; a price in cents is 100 times, one of a month 730 times too high."""


def _check_plausible(path: Path, own: Sequence[Price]) -> None:
    """Refuse rows whose price of one accelerator is a small part, or many times, of what other providers of it ask.

    Raises: InputFileError: there is one, with its row.
    """
    lowest = _lowest_two(own)
    for row, price in enumerate(own, start=2):
        known = lowest.get(price.accelerator, ())
        others = [usd for usd, provider in known if provider != price.provider]
        each = price.usd_per_accelerator_hour
        if others and not price.is_confirmed and each > _MOST_TIMES_CHEAPEST * others[0]:
            raise InputFileError(
                f"{path}: row {row}: ${each:g} an hour for one {price.accelerator}",
                why=f"the cheapest other offer of it asks ${others[0]:.2f}; this looks like cents, or a month's price",
                fix="write dollars per hour; if you do pay this, a column is_confirmed with yes in this row",
            )
        if price.is_confirmed or not others or each >= _least_fraction(price) * others[0]:
            continue
        raise InputFileError(
            f"{path}: row {row}: usd_per_hour {price.usd_per_hour:g} for {price.num_accelerators} x "
            f"{price.accelerator} is ${each:.2f} for one",
            why=f"the cheapest other offer of it asks ${others[0]:.2f}; usd_per_hour is the price of the whole SKU",
            fix=(
                f"usd_per_hour {price.usd_per_hour * price.num_accelerators:g}, or num_accelerators 1"
                if price.num_accelerators > 1
                else "correct it, or leave the row out"
            )
            + "; if you do pay this, a column is_confirmed with yes in this row",
        )


@cache
def _countries() -> Mapping[tuple[str, str], str]:
    return {(price.provider, price.region): price.country for price in bundled_prices() if price.country}


def country_of(provider: str, region: str) -> str:
    """Return the country of a provider's region as bundled rows state it; empty if none does."""
    return _countries().get((provider, region), "")


def age_days(price: Price, as_of: datetime.date) -> int:
    """Days between the reading of the price and `as_of` [days]; 0 for a row that was read later."""
    return max(0, (as_of - price.observed_on).days)


def price_age_days(price: Price, as_of: datetime.date) -> int | None:
    """Age of a price as `age_days`; None where its source bears no date."""
    return age_days(price, as_of) if price.is_dated else None


def commitment_usd(price: Price) -> float | None:
    """Commitment of renting one SKU at this price, used or not [USD]: usd_per_hour · hours of the term; 0 if the term
    commits to nothing, None if its length is not stated."""
    if price.term == "reserved_unspecified":
        return None
    return price.usd_per_hour * committed_hours(price.term)


def committed_hours(term: str) -> float:
    """Hours that a term is paid for, used or not [h]; 0 if it commits to nothing or its length is not stated."""
    return _COMMITTED_H.get(term, 0.0)


def is_stale(price: Price, as_of: datetime.date) -> bool:
    """Whether the price was read more than STALE_AFTER_DAYS before a day, or on a day that no source states."""
    return not price.is_dated or age_days(price, as_of) > STALE_AFTER_DAYS


@lru_cache(maxsize=16)
def _current_bundled(as_of: datetime.date) -> Mapping[Offer, Price]:
    """Return the bundled offers of a day, of which one answer asks about five times."""
    return _current_of_layer(bundled_prices(), as_of)


def _current_of_layer(layer: Iterable[Price], as_of: datetime.date) -> dict[Offer, Price]:
    current: dict[Offer, Price] = {}
    for price in layer:
        ended = price.valid_to is not None and as_of >= price.valid_to
        if price.valid_from > as_of or price.observed_on > as_of or ended:
            continue
        rival = current.get(offer_of(price))
        if rival is None or (price.valid_from, price.observed_on) >= (rival.valid_from, rival.observed_on):
            current[offer_of(price)] = price
    return current


def offer_of(price: Price) -> Offer:
    return (price.provider, price.sku, price.region, price.accelerator, price.num_accelerators, price.term)


def _resolve_providers(providers: Collection[str] | None, layers: list[tuple[Price, ...]]) -> set[str] | None:
    if providers is None:
        return None
    known = sorted({price.provider for layer in layers for price in layer})
    aliases = {name: id_ for name, id_ in provider_names().items() if id_ in known}
    return {resolve(name, known, aliases, "provider").id for name in providers}


def find_cached_prices(cache: Path) -> Path | None:
    """Return the folder of refreshed prices in the program's cache; None if there was no refresh."""
    folder = cache / KEPT
    return folder if any(folder.glob("*.csv")) else None


def read_folder(folder: Path) -> tuple[Price, ...]:
    """Return every price row of a folder, of any date and term.

    Raises: InputFileError: there is no such folder, or a file of it is damaged.
    """
    if not folder.is_dir():
        raise InputFileError(f"{folder}: no such folder", fix="name a folder with price files (*.csv)")
    return tuple(price for path in sorted(folder.glob("*.csv")) for price in read_file(path))


def read_file(path: Path, latest: datetime.date | None = None) -> tuple[Price, ...]:
    """Return the rows of a price file. `latest` is the last day that the rows of a user's file may bear; None for a
    bundled file.

    Raises: InputFileError: the file is damaged.
    """
    if latest is None:
        return _rows_of(path, None, 0)
    try:
        changed_at_ns = path.stat().st_mtime_ns
    except OSError:
        changed_at_ns = 0
    return _remembered_rows(path, latest, changed_at_ns)


def _rows_of(path: Path, latest: datetime.date | None, changed_at_ns: int) -> tuple[Price, ...]:
    found: list[Price] = []
    seen: dict[Hashable, int] = {}
    for number, cells in read_csv(path, REQUIRED_COLUMNS, OPTIONAL_COLUMNS):
        price = _price(cells, f"{path}: row {number}", latest)
        key = (*offer_of(price), price.valid_from, price.observed_on)
        check_repeat(
            seen, key, number, str(path), fix="keep one of them, or tell them apart by sku or region"
        )
        found.append(price)
    return tuple(found)


_remembered_rows = lru_cache(maxsize=2)(_rows_of)
"""Rows of the user's own files, which prices and notes on them ask for; another time of change is another file."""


def _price(cells: dict[str, str], where: str, latest: datetime.date | None) -> Price:
    values: dict[str, object] = {"sku": "", "region": ""}
    values |= {column: cell.strip() for column, cell in cells.items() if cell.strip()}
    values.setdefault("valid_from", values.get("observed_on"))
    if "ram_gb" in values:
        values["ram_bytes"] = _ram_bytes(str(values.pop("ram_gb")), where)
    if latest is None:
        title, url = price_sources().get(str(values.get("source", "")), ("", ""))
        values |= {"source": title, "url": url} if title else {}
        return check_record(Price, values, where)
    return _own_price(values, where, latest)


def _own_price(values: dict[str, object], where: str, latest: datetime.date) -> Price:
    """Return the price of a row of the user's file, whose units and names are checked."""
    check_currency(values, where)
    price = check_record(Price, {"price_kind": "quote"} | values, where)
    if not LEAST_USD <= price.usd_per_accelerator_hour <= MOST_USD:
        raise InputFileError(
            f"{where}: field usd_per_hour: {price.usd_per_hour:g}",
            why=f"${price.usd_per_accelerator_hour:g} per accelerator and hour is no price: cents, or a month's?",
            fix="write dollars per hour of the whole SKU",
        )
    check_day(price.observed_on, latest, where)
    try:
        chosen = accelerator_catalog.get(price.accelerator).record.id
    except UnknownNameError as error:
        raise InputFileError(
            f"{where}: field accelerator: {price.accelerator!r}",
            why=error.what,
            fix=error.fix,
            hint=error.hint,
        ) from None
    return price.model_copy(update={"accelerator": chosen})


@cache
def price_sources() -> Mapping[str, tuple[str, str]]:
    """Return title and address of the sources of bundled rows, by their short names."""
    rows = read_csv(DATA_DIR / "price_sources.csv", ("source", "title", "url"))
    return {cells["source"]: (cells["title"], cells["url"]) for _, cells in rows}


def _ram_bytes(cell: str, where: str) -> float:
    """Return a RAM size in bytes; clouds write GB and mean 2**30 bytes."""
    try:
        return float(cell) * GIB
    except ValueError:
        raise InputFileError(
            f"{where}: field ram_gb: {cell!r}", why="not a number", fix="correct ram_gb, or leave it empty"
        ) from None


_CLASS_OF_KIND: Final = {
    "list": "list",
    "quote": "list",
    "from": "tracker",
    "tracker": "tracker",
    "marketplace_median": "marketplace",
    "marketplace_min": "marketplace",
    "spot": "spot",
}


class PriceSpread(NamedTuple):
    """Mean and standard deviation of ln(price today / price read)."""

    drift: float
    sigma: float

    @property
    def mean_factor(self) -> float:
        """Mean price today over the price that was read: the mean of a lognormal lies above its median."""
        return math.exp(self.drift + self.sigma**2 / 2.0)


@lru_cache(maxsize=4096)
def price_spread(age_days: float | None, kind: str) -> PriceSpread:
    """Return mean and standard deviation of the change of a price's logarithm since it was read.

    drift · days, √(start² + spread² · days); an unknown age counts as the oldest that was fitted, and none as older.

    Assumes: `kind` is a price's kind, or spot for prices at that term; a quote ages as a list does, a price "from" as
        a tracker's.
    Raises: KeyError: there is no such kind.
    Source: data/price_age.toml, fitted by tools/fit_price_age.py on pairs of readings of the same offer.
    """
    table = _table()
    entry = table[_CLASS_OF_KIND[kind]]
    oldest = float(table["oldest_days"])
    days = oldest if age_days is None else min(max(age_days, 0.0), oldest)
    sigma = math.hypot(entry["start"], entry["spread_per_root_day"] * math.sqrt(days))
    return PriceSpread(float(table["drift_per_day"]) * days, sigma)


def spread_of(price: Price, as_of: datetime.date) -> PriceSpread:
    """Return the spread of one price on a day, by its kind or as spot; a price without a date counts as the oldest."""
    kind = "spot" if price.term == "spot" else price.price_kind
    return price_spread(price_age_days(price, as_of), kind)


@cache
def _table() -> dict[str, Any]:
    return read_toml(DATA_DIR / "price_age.toml")


make_callable(__name__)
