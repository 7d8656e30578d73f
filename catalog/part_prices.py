"""What parts cost: a dated quote where one may be shipped, else an estimate for the class; the user's own file wins."""

import datetime
import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from advisor.catalog.accelerators import all_accelerators
from advisor.catalog.errors import InputFileError
from advisor.catalog.files import checked, read_csv
from advisor.catalog.parts import FOLDER, all_parts
from advisor.catalog.resolve import near_misses
from advisor.catalog.schema.part import GpuCard, Part, PartPrice

STALE_AFTER_DAYS: Final = 90
"""Parts move slower than rented hours, memory does not."""
_LISTINGS: Final = "docyx/pc-part-dataset@c52a04c, listings of new parts in the US"
USER_COLUMNS: Final = ("part", "usd", "observed_on")

PriceBook = Mapping[str, PartPrice]
"""Prices by class, by id and by name of a part."""


@functools.cache
def bundled_part_prices() -> PriceBook:
    """Prices that are shipped, by class; a quote wins over an estimate of the same class.

    Raises: InputFileError: a bundled file is damaged.
    """
    return {key: price for layer in _layers() for key, price in layer.items()}


@functools.cache
def _layers() -> tuple[PriceBook, ...]:
    """What is shipped; a later layer wins."""
    return _list_prices(), _estimates(), _quotes()


def price_book(user_file: Path | None = None, as_of: datetime.date = datetime.date.max) -> PriceBook:
    """Every price that was known on a day, the user's above those that are shipped.

    Raises: InputFileError: the user's file is unreadable or a row is wrong; near misses are in the hint.
    """
    layers = _layers() if user_file is None else (*_layers(), read_part_prices(user_file))
    return {key: price for layer in layers for key, price in layer.items() if price.observed_on <= as_of}


def price_of(part: Part, book: PriceBook) -> PartPrice | None:
    """The price of a part: the user's for it or any of its classes, else its own by id or name, else that of its
    closest class; None where nobody states one."""
    found = [book[key] for key in (part.id, part.name, *part.price_classes) if key in book]
    return next((price for price in found if price.basis == "user"), found[0] if found else None)


def read_part_prices(path: Path) -> dict[str, PartPrice]:
    """The rows of a person's own file: part (a name, an id or a class), usd, observed_on; usd_low, usd_high,
    condition and source may follow.

    Raises: InputFileError: a row is wrong, or names a part that the catalog does not hold.
    """
    known = _known_keys()
    book: dict[str, PartPrice] = {}
    optional = ("usd_low", "usd_high", "condition", "source")
    for number, cells in read_csv(path, USER_COLUMNS, optional):
        where = f"{path}: row {number}"
        key = _resolved(cells["part"].strip(), known, where)
        values = {name: cell.strip() for name, cell in cells.items() if name != "part" and cell.strip()}
        title = values.pop("source", str(path))
        book[key] = checked(PartPrice, {**values, **_entry(key, "user", title)}, where)
    return book


def _entry(key: str, basis: str, title: str) -> dict[str, object]:
    kind = "datasheet" if basis == "quote" else "estimate"
    return {"key": key, "basis": basis, "source": {"kind": kind, "title": title}}


def _quotes() -> dict[str, PartPrice]:
    file = FOLDER / "price_quotes.csv"
    columns = ("key", "usd", "usd_low", "usd_high", "basis", "condition", "observed_on", "source")
    found = {}
    for number, cells in read_csv(file, columns):
        values = {name: cell for name, cell in cells.items() if cell and name != "source"}
        values |= _entry(cells["key"], cells["basis"], cells["source"])  # type: ignore[arg-type]
        found[cells["key"]] = checked(PartPrice, values, f"{file.name}: row {number}")
    return found


def _estimates() -> dict[str, PartPrice]:
    file = FOLDER / "price_estimates.csv"
    columns = ("class", "usd", "usd_low", "usd_high", "num_listings", "observed_on")
    found = {}
    for number, cells in read_csv(file, columns):
        key = cells.pop("class")
        found[key] = checked(
            PartPrice, {**cells, **_entry(key, "estimate", _LISTINGS)}, f"{file.name}: row {number}"
        )
    return found


def _list_prices() -> dict[str, PartPrice]:
    """Launch prices of accelerators, for cards that nobody quotes."""
    found = {}
    for record in all_accelerators():
        source = record.field_sources.get("msrp_usd")
        if record.msrp_usd is None or source is None or not record.released:
            continue
        day = f"{record.released}-01-01"[:10] if len(record.released) == 4 else f"{record.released}-01"[:10]
        key = f"gpu/{record.id}"
        values = {"usd": record.msrp_usd, "observed_on": day}
        found[key] = checked(
            PartPrice, {**values, **_entry(key, "estimate", f"launch price: {source.title}")}, key
        )
    return found


@functools.cache
def _known_keys() -> dict[str, str]:
    """Keys of prices by what a person may type for them, in lower case."""
    keys = {key.lower(): key for key in bundled_part_prices()}
    for parts in all_parts().values():
        for part in parts:
            keys.setdefault(part.name.lower(), part.name)
            keys.setdefault(part.id.lower(), part.id)
            for name in part.price_classes:
                keys.setdefault(name.lower(), name)
    for record in all_accelerators():
        if f"gpu/{record.id}" in keys or any(_is_card_of(record.id, part) for part in all_parts()["gpu"]):
            for name in (record.id, record.name, *record.aliases):
                keys.setdefault(name.lower(), f"gpu/{record.id}")
    return keys


def _is_card_of(accelerator: str, part: Part) -> bool:
    return isinstance(part, GpuCard) and part.accelerator == accelerator


def _resolved(name: str, known: Mapping[str, str], where: str) -> str:
    key = known.get(name.lower()) or known.get(name.lower().replace(" ", "-"))
    if key is None:
        near = near_misses(name.lower(), _short(known), {})
        raise InputFileError(
            f"{where}: field part: {name!r}",
            why="no part, id or price class of the catalog is called so",
            fix="advisor catalog parts lists them",
            hint=f"did you mean: {', '.join(near)}" if near else "",
        )
    return key


def _short(known: Iterable[str]) -> list[str]:
    """Names that are worth suggesting: no identifiers of OpenDB."""
    return [name for name in known if len(name) < 60 and name.count("-") < 8]
