"""Token list prices: what an API charges for a model that the user could serve instead."""

import datetime
import functools
from collections.abc import Collection, Hashable
from pathlib import Path
from typing import Final

from advisor.catalog import models as model_catalog
from advisor.catalog.errors import InputFileError
from advisor.catalog.files import DATA_DIR, check_currency, check_day, check_record, check_repeat, read_csv
from advisor.catalog.prices import newest_reading, price_sources
from advisor.catalog.resolve import resolve
from advisor.catalog.schema.economics import ApiEnding, ApiPrice

REQUIRED_COLUMNS: Final = (
    "provider",
    "model",
    "usd_per_million_input",
    "usd_per_million_output",
    "observed_on",
)
OPTIONAL_COLUMNS: Final = ("usd_per_million_cached_input", "url", "note", "source", "currency")
LEAST_USD: Final = 2e-5
"""Lowest price that is accepted for a million tokens [USD]; a lower value is the price of one token."""


@functools.cache
def bundled_api_prices() -> tuple[ApiPrice, ...]:
    """Return every bundled list price.

    Raises: InputFileError: the bundled file is damaged.
    """
    return _read_file(DATA_DIR / "api_prices.csv", names_are_ids=True)


@functools.cache
def api_endings() -> tuple[ApiEnding, ...]:
    """Return the services of providers that are known to have ended.

    Raises: InputFileError: the bundled file is damaged.
    Source: data/api_endings.csv, each row with its own source.
    """
    path = DATA_DIR / "api_endings.csv"
    rows = read_csv(path, ("provider", "model", "ended_on", "url", "read_on"))
    return tuple(
        check_record(ApiEnding, {name: cell.strip() for name, cell in cells.items()}, f"{path}: row {number}")
        for number, cells in rows
    )


def endings_of(
    as_of: datetime.date, models: Collection[str], *, providers: Collection[str] | None = None
) -> tuple[ApiEnding, ...]:
    """Return the endings that rule out a listed price of these models on a day, one a provider, ordered by provider:
    those of `providers`, or of all.

    Raises: UnknownNameError: no such provider has any price.
    """
    wanted = _resolve_providers(providers, bundled_api_prices()) if providers is not None else None
    found: dict[str, ApiEnding] = {}
    for price in bundled_api_prices():
        is_asked = price.model in models and (wanted is None or price.provider in wanted)
        ending = _ending_of(price, as_of) if is_asked and price.observed_on <= as_of else None
        if ending is not None:
            found.setdefault(price.provider, ending)
    return tuple(found[name] for name in sorted(found))


def _resolve_providers(names: Collection[str], prices: Collection[ApiPrice]) -> set[str]:
    """Return the providers that names stand for, among those of the prices.

    Raises: UnknownNameError: no such provider has any price.
    """
    known = sorted({price.provider for price in prices})
    return {resolve(name, known, {}, "API provider").id for name in names}


def _ending_of(price: ApiPrice, as_of: datetime.date) -> ApiEnding | None:
    return next((ending for ending in api_endings() if ending.rules_out(price, as_of)), None)


def read_api_prices(path: Path) -> tuple[ApiPrice, ...]:
    """Return the rows of the user's own list; a model may be written by alias, and an unknown name is a closed model.

    Raises: InputFileError: the file is unreadable or a row is wrong; the message has row, field, value and rule.
    """
    return _read_file(path, names_are_ids=False)


def priced_models(user_file: Path | None = None) -> set[str]:
    """Return the models that have a list price of any day.

    Raises: InputFileError: the user's file is wrong.
    """
    own = read_api_prices(user_file) if user_file is not None else ()
    return {price.model for price in (*bundled_api_prices(), *own)}


def api_prices_as_of(
    as_of: datetime.date,
    models: Collection[str],
    *,
    providers: Collection[str] | None = None,
    user_file: Path | None = None,
) -> tuple[ApiPrice, ...]:
    """Return the newest list price of each provider and model that was known on a day, ordered by provider.

    A user's row wins over a bundled one of the same provider and model, regardless of its date. A bundled row of a
    service that has ended by that day is left out (`endings_of` names it), however lately its list was read.

    Raises: UnknownNameError: no such provider has any price. InputFileError: the user's file is wrong.
    """
    own = read_api_prices(user_file) if user_file is not None else ()
    wanted = _resolve_providers(providers, (*bundled_api_prices(), *own)) if providers is not None else None
    current: dict[tuple[str, str], ApiPrice] = {}
    alive = (price for price in bundled_api_prices() if _ending_of(price, as_of) is None)
    for layer in (alive, own):
        newest: dict[tuple[str, str], ApiPrice] = {}
        for price in layer:
            key = (price.provider, price.model)
            rival = newest.get(key)
            if price.observed_on <= as_of and (rival is None or price.observed_on >= rival.observed_on):
                newest[key] = price
        current |= newest
    found = (price for price in current.values() if price.model in models)
    return tuple(
        sorted(
            (price for price in found if wanted is None or price.provider in wanted),
            key=lambda price: (price.provider, price.model),
        )
    )


def _read_file(path: Path, *, names_are_ids: bool) -> tuple[ApiPrice, ...]:
    """Return the rows of the bundled file or of the user's own, whose units, days and names are checked."""
    found: list[ApiPrice] = []
    seen: dict[Hashable, int] = {}
    latest = max(datetime.date.today(), newest_reading())
    for number, cells in read_csv(path, REQUIRED_COLUMNS, OPTIONAL_COLUMNS):
        price = _price(cells, f"{path}: row {number}", names_are_ids)
        if not names_are_ids:
            check_day(price.observed_on, latest, f"{path}: row {number}")
            key = (price.provider, price.model, price.observed_on)
            check_repeat(seen, key, number, str(path), fix="keep one of them")
        found.append(price)
    return tuple(found)


def _price(cells: dict[str, str], where: str, names_are_ids: bool) -> ApiPrice:
    values: dict[str, object] = {column: cell.strip() for column, cell in cells.items() if cell.strip()}
    check_currency(values, where)
    if names_are_ids and "source" in values:
        values["source"], values["url"] = price_sources()[str(values["source"])]
    price = check_record(ApiPrice, values, where)
    if price.usd_per_million_input == price.usd_per_million_output == 0:
        raise InputFileError(
            f"{where}: input and output cost nothing",
            why="a free tier is no price to plan with",
            fix="write the price of the paid tier, or drop the row",
        )
    if max(price.usd_per_million_input, price.usd_per_million_output) < LEAST_USD:
        raise InputFileError(
            f"{where}: field usd_per_million_output: {price.usd_per_million_output:g}",
            why="that is what one token costs, not a million",
            fix="multiply by 1,000,000",
        )
    if names_are_ids:
        return price
    known = model_catalog.find(price.model)
    return price if known is None else price.model_copy(update={"model": known.id})
