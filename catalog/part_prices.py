"""Prices of parts: a dated quote where one may be shipped, else an estimate for the class; the user's own file wins."""

import datetime
import functools
import re
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Final

from advisor.catalog.accelerators import all_accelerators
from advisor.catalog.errors import InputFileError
from advisor.catalog.files import check_currency, check_day, check_record, check_repeat, read_csv
from advisor.catalog.parts import FOLDER, all_parts, systems
from advisor.catalog.prices import newest_reading
from advisor.catalog.resolve import near_misses
from advisor.catalog.schema import Accelerator
from advisor.catalog.schema.part import GpuCard, Part, PartPrice, PriceBasis

STALE_AFTER_DAYS: Final = 90
"""Age from which a part's price counts as stale [days]. Prices of parts change more slowly than rents, except those of
memory."""
_LISTINGS: Final = "docyx/pc-part-dataset@c52a04c, listings of new parts in the US"
USED: Final = "used/"
"""Prefix of the key of a second-hand price, for parts that are also sold new."""
_WHOLE_ID: Final = re.compile(r"([0-9a-f]{8})(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Id as OpenDB writes it; the catalog keeps its first digits."""
USER_COLUMNS: Final = ("part", "usd", "observed_on")

PriceBook = Mapping[str, PartPrice]
"""Prices by class, by id and by name of a part."""

_WORDS: Final = {"quote": "quote", "estimate": "typical", "user": "yours"}


def price_words(
    basis: PriceBasis, observed_on: datetime.date | None, num_listings: int, condition: str
) -> str:
    """Return what an answer calls a price: that of the part at a shop, of parts of its class, or the person's own; the
    day on which it was read, of how many listings it is the median, and whether the part is used."""
    words = [_WORDS[basis]]
    if observed_on is not None:
        words.append(str(observed_on))
    if num_listings:
        words.append(f"median of {num_listings}")
    if condition == "used":
        words.append("used")
    return ", ".join(words)


@functools.cache
def bundled_part_prices() -> PriceBook:
    """Return the bundled prices by class; a quote wins over an estimate of the same class.

    Raises: InputFileError: a bundled file is damaged.
    """
    return {key: price for layer in _layers() for key, price in layer.items()}


@functools.cache
def _layers() -> tuple[PriceBook, ...]:
    """Return the bundled prices in layers; a later layer wins."""
    return _list_prices(), _estimates(), _quotes()


def price_book(
    user_file: Path | None = None, as_of: datetime.date = datetime.date.max, *, used: bool = False
) -> PriceBook:
    """Return every price that was known on a day, with the user's above the bundled ones; `used` takes second-hand
    prices where they are known.

    Raises: InputFileError: the user's file is unreadable or a row is wrong; near misses are in the hint.
    """
    bundled = {
        key: price for layer in _layers() for key, price in layer.items() if price.observed_on <= as_of
    }
    if used:
        bundled |= second_hand_prices(bundled)
    own = {} if user_file is None else read_part_prices(user_file)
    return bundled | {key: price for key, price in own.items() if price.observed_on <= as_of}


def second_hand_prices(book: PriceBook) -> dict[str, PartPrice]:
    """Return the second-hand prices of parts that are also sold new, by class."""
    return {key.removeprefix(USED): price for key, price in book.items() if key.startswith(USED)}


def accelerator_price(accelerator: Accelerator, book: PriceBook) -> tuple[PartPrice, float, bool] | None:
    """Return the price of an accelerator, the number of accelerators that it pays for, and whether it includes the
    machine around them. A card's or module's price comes first, then a machine's price per accelerator, then a whole
    machine's; None if no source states one. An accelerator with unified memory is sold as a machine only.

    Source: data/parts: price_quotes.csv, price_estimates.csv, systems.toml; data/accelerators, msrp_usd.
    """
    keys = [(f"gpu/{accelerator.id}", 1, accelerator.unified_memory), (f"machine/{accelerator.id}", 1, True)]
    keys += [
        (f"system/{system.id}", system.num_accelerators, True)
        for system in systems()
        if system.accelerator == accelerator.id
    ]
    if accelerator.unified_memory:
        keys.reverse()
    return next(((book[key], num, whole) for key, num, whole in keys if key in book), None)


def price_of(part: Part, book: PriceBook) -> PartPrice | None:
    """Return the price of a part: the user's for the part or any of its classes, else its own by id or name, else the
    price of its closest class; None if no source states one."""
    found = [
        book[key]
        for key in (part.id, part.name, *part.price_classes)
        if key in book and (key != part.too_wide or book[key].basis == "user")
    ]
    return next((price for price in found if price.basis == "user"), found[0] if found else None)


_LATER_USED: Final = datetime.timedelta(days=180)
"""Time by which a second-hand price is younger than the median of shops from which a card counts as sold second-hand
alone. Own choice: shops keep old prices of what is no longer made."""


def listed_price_of(part: Part, book: PriceBook) -> PartPrice | None:
    """Return the price of a part that a list names without one: `price_of`, or the second-hand price of a part for
    which shops have had no price for `_LATER_USED`."""
    found = price_of(part, book)
    used = next((book[key] for name in part.price_classes if (key := f"{USED}{name}") in book), None)
    if found is None or used is None or found.basis != "estimate":
        return found
    return used if used.observed_on - found.observed_on > _LATER_USED else found


def read_part_prices(path: Path) -> dict[str, PartPrice]:
    """Return the rows of the user's own file: part (a name, an id or a class), usd, observed_on; usd_low, usd_high,
    condition, source and currency (USD) may follow.

    Raises: InputFileError: a row is wrong, or names a part that the catalog does not hold.
    """
    known = _known_keys()
    book: dict[str, PartPrice] = {}
    optional = ("usd_low", "usd_high", "condition", "source", "currency")
    seen: dict[Hashable, int] = {}
    latest = max(datetime.date.today(), newest_reading())
    for number, cells in read_csv(path, USER_COLUMNS, optional):
        where = f"{path}: row {number}"
        key = _resolve_key(cells["part"].strip(), known, where)
        values: dict[str, object] = {
            name: cell.strip() for name, cell in cells.items() if name != "part" and cell.strip()
        }
        check_currency(values, where)
        title = str(values.pop("source", path))
        price = check_record(PartPrice, {**values, **_entry(key, "user", title)}, where)
        check_day(price.observed_on, latest, where)
        check_repeat(seen, (key, price.condition), number, str(path), fix="keep one of them")
        book[key] = price
    return book


def _entry(key: str, basis: str, title: str, url: str = "") -> dict[str, object]:
    kind = "datasheet" if basis == "quote" else "estimate"
    return {"key": key, "basis": basis, "source": {"kind": kind, "title": title, "where": url}}


def _quotes() -> dict[str, PartPrice]:
    file = FOLDER / "price_quotes.csv"
    columns = (
        "key",
        "usd",
        "usd_low",
        "usd_high",
        "basis",
        "condition",
        "observed_on",
        "is_dated",
        "source",
        "url",
    )
    found = {}
    for number, cells in read_csv(file, columns):
        values = {name: cell for name, cell in cells.items() if cell and name not in ("source", "url")}
        values |= _entry(cells["key"], cells["basis"], cells["source"], cells["url"])  # type: ignore[arg-type]
        found[cells["key"]] = check_record(PartPrice, values, f"{file.name}: row {number}")
    return found


def _estimates() -> dict[str, PartPrice]:
    file = FOLDER / "price_estimates.csv"
    columns = ("class", "usd", "usd_low", "usd_high", "num_listings", "observed_on")
    found = {}
    for number, cells in read_csv(file, columns):
        key = cells.pop("class")
        found[key] = check_record(
            PartPrice, {**cells, **_entry(key, "estimate", _LISTINGS)}, f"{file.name}: row {number}"
        )
    return found


def _list_prices() -> dict[str, PartPrice]:
    """Return launch prices of accelerators, for cards without a quote."""
    found = {}
    for record in all_accelerators():
        if record.msrp_usd is None or not record.released:
            continue
        source = record.field_sources.get("msrp_usd", record.sources[0])
        day = f"{record.released}-01-01"[:10] if len(record.released) == 4 else f"{record.released}-01"[:10]
        key = f"gpu/{record.id}"
        title = f"list price at launch; shops may ask up to twice as much ({source.title})"
        values = {"usd": record.msrp_usd, "usd_low": record.msrp_usd, "usd_high": 2.0 * record.msrp_usd}
        entry = {**values, "observed_on": day, **_entry(key, "estimate", title, source.where)}
        found[key] = check_record(PartPrice, entry, key)
    return found


@functools.cache
def _known_keys() -> dict[str, str]:
    """Return the keys of prices by the names that a user may type, in lower case."""
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


def _resolve_key(name: str, known: Mapping[str, str], where: str) -> str:
    typed = _WHOLE_ID.sub(r"\1", name.lower())
    key = known.get(typed) or known.get(typed.replace(" ", "-"))
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
    """Return the names that are worth suggesting, without identifiers of OpenDB."""
    return [name for name in known if len(name) < 60 and name.count("-") < 8]
