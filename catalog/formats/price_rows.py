"""Prices by the hour in any container, whoever wrote it: sheets, pasted tables, catalogues, answers of providers' APIs.

A field means what its name says: accelerator, number, price, spot price, region. A name of a rented machine that the
catalog knows says which accelerators it has.
"""

import csv
import datetime
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from advisor.catalog.errors import InputFileError
from advisor.catalog.files import MOST_PRICES_BYTES, read_csv, read_text, with_commas
from advisor.catalog.formats.accelerator_names import LONGEST_NAME, boards_in, one_accelerator
from advisor.catalog.formats.catalogue_price import CataloguePrice, dollars_of, is_accelerator, number_of
from advisor.catalog.formats.meanings import plain_words
from advisor.catalog.formats.price_columns import (
    MEANS_A_PRICE,
    PriceColumns,
    PriceKind,
    columns_of,
    own_name,
    unknown_words,
)
from advisor.catalog.formats.price_lines import priced_lines
from advisor.catalog.formats.records import Record, read_records
from advisor.catalog.formats.rental_terms import (
    ONE_ACCELERATOR,
    UNIT_WORDS,
    conditions_of,
    period_hours,
    term_in,
    term_of,
    with_minutes,
)
from advisor.catalog.schema.price import Term
from advisor.catalog.units import GIB, MIB, with_decimal_point

PriceCatalogue = Literal["skypilot", "gpuhunt", "sheet", "lines"]
TITLES: Final[Mapping[PriceCatalogue, str]] = {
    "skypilot": "SkyPilot's vms.csv",
    "gpuhunt": "rows of gpuhunt",
    "sheet": "a sheet of prices by the hour",
    "lines": "lines with an accelerator and a price by the hour",
}
_MARKS: Final[Mapping[PriceCatalogue, tuple[str, ...]]] = {
    "skypilot": ("InstanceType", "AcceleratorName", "AcceleratorCount", "Price"),
    "gpuhunt": ("instance_name", "gpu_name", "gpu_count", "price"),
}
"""Columns of lists whose program is known: only the title in an answer depends on them."""
_UNTITLED: Final[Mapping[str, str]] = {
    "SPOTPRICEHISTORY\t": "list\tAvailabilityZone\tInstanceType\tProductDescription\tSpotPrice\tTimestamp"
}
"""Titles of lists without them, by how these begin. Source: AWS CLI, describe-spot-price-history, text output."""
_OWN_COLUMNS: Final = ({"usd_per_hour"}, {"accelerator", "num_accelerators"})
_PRICE: Final = re.compile(
    r"(?:usd|us\$|\$)?\s*([\d.,'’\s]*\d)\s*(¢|cents?)?\s*(?:usd|\$)?\s*((?:(?:/|-|per )?\s*(?:1 )?[a-z]+\b\s*)*)",
    re.IGNORECASE,
)
_HOURS_PER_YEAR: Final = 8760.0
_OTHER_MONEY: Final = re.compile(
    r"[€£¥₹₩₽]|(?<![A-Za-z])(?!US)[A-Z]{1,2}\$(?= ?\d)"
    r"|\b(?:EUR|GBP|CHF|JPY|CNY|RMB|INR|KRW|SEK|NOK|DKK|PLN|CZK|BRL|CAD|AUD|NZD|SGD|HKD|TWD|AED|SAR|ILS|ZAR)\b"
)
"""Signs and codes of other currencies; of the dollars only the American ones are read."""
_SUM_OF_DOLLARS: Final = re.compile(r"(?:US)?\$\s?\d")
_OTHER_GOODS: Final = frozenset(("storage", "egress", "month", "monthly", "year", "setup", "deposit", "disk"))
"""Words of titles of columns whose sums are not those of an hour of an accelerator."""
_NO_NAME: Final = frozenset(("", "-", "–", "—", "n/a", "na", "none", "null"))
"""Cells that name no accelerator."""
_IS_QUANTITY: Final = re.compile(r"quantity|qty|n|count")
_QUANTITY_OF: Final = re.compile(r"([\d.,]*\d)\s*((?!x\b)[A-Za-z]+)\.?")
"""Cell of a number and its unit: `312.5 hrs`, but not `2x`."""
_PER_OTHER: Final = re.compile(r"\s*(?:usd|us\$|\$)\s*[\d.,]*\d\s*(?:/|per )\s*[a-z][a-z /-]*", re.IGNORECASE)
"""Amount of dollars for a unit."""
_IS_WINDOWS: Final = re.compile(r"windows|rhel|suse", re.IGNORECASE)
_DESCRIBED: Final = re.compile(
    r"^(?:(?:spot|preemptible)\s+)*(?:(\d+)\s*[x×]\s*)?(.*?)"
    r"(?:\s+(?:gpu|running in|attached to|dedicated|bare ?metal|servers?|instances?|nodes?|vms?|rental)\b.*)?$",
    re.IGNORECASE,
)
_INSTANCE: Final = re.compile(
    r"(?<!\S)(?=\S*\d)[A-Za-z][A-Za-z\d]*(?:[._][A-Za-z\d]+)+(?!\S)|\b[a-z]\d-[a-z]+-\d+g\b"
)
"""Name of an instance among the words of an invoice's line: p5.48xlarge, gpu_8x_h100_sxm5, a3-highgpu-8g."""
_SIZE_OF_ONE: Final = re.compile(r"['\"]SizeInMiB['\"]\s*:\s*(\d+)")
_SKYPILOT_GIB: Final = {"A100": 40.0, "V100": 16.0}
"""Memory of boards whose larger siblings have it in their names: A100-80GB, V100-32GB [GiB]. Source: names of
skypilot-org/skypilot-catalog, catalogs/v8/common/metadata.csv."""
_MOST_GIB: Final = 2000.0
"""Largest memory of one accelerator that is stated in GiB; Vast.ai's fields of the same name count MiB."""


def catalogue_of(path: Path) -> PriceCatalogue | None:
    """Return the kind of list that a file is, by the names of its fields; None for a file of own columns.

    Raises: InputFileError: the file cannot be read.
    """
    text = _text_in(path)
    titles = _header(text)
    if any(own <= set(titles) for own in _OWN_COLUMNS):
        return None
    known = next((name for name, marks in _MARKS.items() if set(titles).issuperset(marks)), None)
    if known is not None:
        return known
    records = [record for record in _first_records(titles, text) if _is_priced(record)]
    boards = {name for record in records for name in columns_of(tuple(record)).accelerators}
    in_lines = {price.gpu for price in priced_lines(text)} if boards or not records else set()
    if len(in_lines) > len(boards):
        return "lines"  # two lines of a list may look like the pairs of one record
    if records:
        return "sheet"
    _check_dollars(titles, text, path)
    return None


def _text_in(path: Path) -> str:
    """Return the text of a list, with titles where its program writes none.

    Raises: InputFileError: the file cannot be read.
    """
    text = read_text(path, MOST_PRICES_BYTES)
    return next((f"{titles}\n{text}" for mark, titles in _UNTITLED.items() if text.startswith(mark)), text)


def _check_dollars(titles: list[str], text: str, path: Path) -> None:
    """Refuse a sheet of accelerators whose prices are in another currency or unit.

    Raises: InputFileError: a title says so.
    """
    if foreign := _OTHER_MONEY.search(text):
        raise _foreign_money(str(path), foreign[0])
    other = [title for title in titles if set(plain_words(title).split()) & MEANS_A_PRICE]
    if other and "gpu" in columns_of(tuple(titles)).fields:
        raise InputFileError(
            f"{path}: column {other[0]!r} is no price in dollars per hour",
            why=f"prices are known by their names, and this one has other words: {', '.join(words)}"
            if (words := unknown_words(other[0]))
            else "no row has a price in it",
            fix="name the column price, with dollars per hour",
        )


def _foreign_money(where: str, money: str) -> InputFileError:
    return InputFileError(
        f"{where}: prices in {money.strip()}",
        why="prices are US dollars per hour; other currencies are not converted",
        fix="write the number of dollars per hour",
    )


def _is_priced(record: Record) -> bool:
    columns = columns_of(tuple(record))
    return columns.is_priced or bool(_sellers(record, columns))


def _sellers(record: Record, columns: PriceColumns) -> list[str]:
    """Return the columns whose titles are sellers or tiers of them: nothing else has a price, and their cells are sums
    of dollars."""
    if columns.prices or columns.accelerators or "gpu" not in columns.fields:
        return []
    others = {name for names in columns.fields.values() for name in names}
    return [
        title
        for title, cell in record.items()
        if title not in others
        and _SUM_OF_DOLLARS.match(_text_of(cell))
        and not set(plain_words(title).split()) & _OTHER_GOODS
    ]


def _first_records(titles: list[str], text: str) -> list[Record]:
    """Return records that show the fields: the header of CSV, else the first of the text."""
    if columns_of(tuple(titles)).is_priced:
        return [dict.fromkeys(titles)]
    return read_records(text)[:50]


def _header(text: str) -> list[str]:
    if text.lstrip()[:1] in ("{", "["):
        return []
    lines = (line for line in with_commas(text.splitlines()) if line.strip() and not line.startswith("#"))
    return [title.strip() for title in next(csv.reader(lines), [])]


def catalogue_prices(path: Path, catalogue: PriceCatalogue) -> Iterator[CataloguePrice]:
    """Yield the priced machines with accelerators, for each term that their rows price.

    Raises: InputFileError: the file cannot be read, or a price is no number of dollars.
    Source: skypilot-org/skypilot-catalog catalogs/v8/*/vms.csv; dstackai/gpuhunt src/gpuhunt (columns of its CSV);
        instances.vantage.sh (columns of its CSV); AWS Price List, Azure Retail Prices, Google Cloud Billing Catalog,
        RunPod, Vast.ai and Lambda API references (fields of their answers).
    """
    text = _text_in(path)
    if catalogue == "lines":
        yield from priced_lines(text)
        return
    is_csv, rows = _rows_of(path, text)
    known: dict[tuple[str, ...], PriceColumns] = {}
    found = list[CataloguePrice]()
    for number, record in rows:
        names = tuple(record)
        if names not in known:
            known[names] = columns_of(names)
        found += _of_record(record, known[names], number, f"{path}: row {number}")
    named = "" if is_csv or any(one.gpu or one.sku for one in found) else one_accelerator(text)
    yield from (replace(one, gpu=named, num_accelerators="1") for one in found) if named else found


def _rows_of(path: Path, text: str) -> tuple[bool, Iterator[tuple[int, Record]]]:
    """Return whether a list is CSV with its titles in the first row, and its records with their numbers.

    Raises: InputFileError: a row is no CSV.
    """
    titles = _header(text)
    is_csv = (
        columns_of(tuple(titles)).is_priced and len(titles) > 1 and text == read_text(path, MOST_PRICES_BYTES)
    )
    return is_csv, iter(read_csv(path, (), tuple(titles))) if is_csv else enumerate(read_records(text), 1)


def unread_columns(path: Path) -> tuple[tuple[str, ...], bool]:
    """Return the names of columns that hold numbers and are not read, and whether the number of accelerators is stated.

    Raises: InputFileError: the file cannot be read.
    """
    records = [record for _, record in _rows_of(path, _text_in(path))[1]]
    columns = columns_of(tuple(records[0])) if records else PriceColumns()
    prices = [sorted(names, key=_rank_of_price) for names in columns.prices.values()]
    read = {_first_named(record, names) for record in records for names in prices}
    others = [name for names in prices for name in names if name not in read]
    unread = tuple(
        title
        for title in (*columns.unread, *others)
        if (cells := [cell for record in records if _has_digit(cell := _text_of(record.get(title)))])
        and all(number_of(with_decimal_point(cell)) is not None for cell in cells)
    )
    return unread, "count" in columns.fields


def _of_record(record: Record, columns: PriceColumns, number: int, where: str) -> Iterator[CataloguePrice]:
    """Yield the prices of one record, the row of a number; `where` names it in messages."""
    for name in columns.accelerators:
        rest = {title: cell for title, cell in record.items() if title not in columns.accelerators}
        named = {**rest, "gpu": own_name(name), "price": record[name]}
        yield from _of_record(named, columns_of(tuple(named)), number, where)
    if sellers := _sellers(record, columns):
        rest = {title: cell for title, cell in record.items() if title not in sellers}
        for title in sellers:
            named = {**rest, "provider": title, "price": record[title]}
            for one in _of_record(named, columns_of(tuple(named)), number, where):
                yield replace(one, is_seller_titled=True)
        return
    cells = _cells_of(record, columns)
    plain = None if columns.accelerators or cells is None else _machine_of(cells, record)
    if cells is None or plain is None:
        return
    term, hours = _stated_term(cells)
    if term is None:
        return
    plain = replace(
        plain,
        row=number,
        region=cells.get("region", "").split(",")[0].strip(),
        currency=cells.get("currency", ""),
        memory_bytes=_memory_bytes(cells, record, columns),
        is_each="running in" in cells.get("description", "").lower(),
        lacks_host=_lacks_host(record),
        day=_day_in(cells.get("day", "")),
    )
    found: dict[Term, CataloguePrice] = {}
    unpriced = ""
    for kind in sorted(columns.prices, key=lambda kind: kind.hours != 1.0):
        names = sorted(columns.prices[kind], key=_rank_of_price)
        cell = _first_text(record, names)
        if _is_of_other_goods(cell, plain):
            yield replace(plain, gpu="", sku="", described=plain.described or plain.gpu or plain.sku)
            return
        amount = _amount_in(cell, kind, where) if _has_digit(cell) else None
        if amount is None or amount.usd == 0.0:
            unpriced = unpriced or cell
            continue
        if found and amount.hours != 1.0:
            continue  # the price of a month beside that of an hour is a sum or a bound of it
        divisor = (100.0 if kind.is_cents else 1.0) * hours * amount.hours
        if _is_sum(names[0]):
            divisor *= number_of(cells.get("used", "").replace(",", "")) or 1.0
        one = replace(
            plain,
            term=amount.term or kind.term or term_in(amount.hours, term),
            usd_per_hour=repr(amount.usd / divisor)
            if divisor != 1 or amount.usd != number_of(cell)
            else cell,
            is_each=plain.is_each or amount.is_each or _is_of_one(names[0], cells, columns),
            period_hours=hours * amount.hours,
            smallest_order=amount.smallest_order,
            is_lower_bound=amount.is_lower_bound,
        )
        rival = found.get(one.term)
        if rival is None or (rival.is_each and not one.is_each):
            found[one.term] = one
    if unpriced and not found:
        yield replace(plain, unpriced=unpriced)
    yield from found.values()


def _has_digit(cell: str) -> bool:
    """Whether a cell may state a price: `TBD`, `on request` and `-` state none."""
    return re.search(r"\d", cell) is not None


def _lacks_host(record: Record) -> bool:
    """Whether a row of SkyPilot's prices accelerators alone, which are attached to a machine of another row. The price
    of a TPU contains its host.

    Source: skypilot-org/skypilot, sky/catalog/gcp_catalog.py (accelerators of N1 machines have no InstanceType).
    """
    is_skypilot = set(_MARKS["skypilot"]) <= set(record)
    name = _text_of(record.get("AcceleratorName"))
    return is_skypilot and not _text_of(record["InstanceType"]) and not name.lower().startswith("tpu")


def _cells_of(record: Record, columns: PriceColumns) -> dict[str, str] | None:
    """Return the cells of a record by what they hold, all names of its machine as `names`; None for a record without
    an accelerator, or with the price of a licence too."""
    cells = {what: _first_text(record, names) for what, names in columns.fields.items()}
    if "term" in cells:  # a model and a commitment may both be columns of that name
        cells["term"] = " ".join(filter(None, (_text_of(record[name]) for name in columns.names_of("term"))))
    if ("gpu" in cells and cells["gpu"].lower() in _NO_NAME) or _IS_WINDOWS.search(
        f"{cells.get('system', '')} {cells.get('description', '')}"
    ):
        return None
    counts = [plain_words(own_name(name)) for name in columns.names_of("count")]
    is_of_a_period = period_hours(plain_words(cells.get("unit", "")).split()) is not None
    if is_of_a_period and all(map(_IS_QUANTITY.fullmatch, counts)):
        cells.pop("count", None)  # an invoice counts the hours that were rented
    counted = _QUANTITY_OF.fullmatch(cells.get("count", ""))
    if counted is not None and counted[2].lower() in ONE_ACCELERATOR:
        cells["count"] = counted[1]
    elif counted is not None and not is_accelerator(counted[2]):
        cells["used"] = counted[1]  # an invoice counts hours, or gigabytes of a volume
        del cells["count"]
    cells["unit"] = cells.get("unit", "") or cells.get("period", "")
    machines = [_text_of(record[name]) for name in sorted(columns.names_of("sku"), key=_is_vague)]
    in_words = _INSTANCE.search(cells.get("description", ""))
    cells["sku"] = next(filter(None, machines), in_words[0] if in_words else "")
    cells["names"] = " ".join(filter(None, machines))
    if re.fullmatch(r"\d+", cells.get("gpu", "")):  # AWS names the number of accelerators so
        cells["count"] = cells.pop("gpu")
    count = cells.get("count", "").strip("x×")
    if re.search("[A-Za-z]", count) and "gpu" not in cells:  # a column of GPUs that names them: 8x B200
        cells["gpu"] = cells.pop("count")
    elif (number := number_of(count)) is not None and number != round(number):
        cells["used"] = cells.pop("count")  # hours of an invoice: no part of an accelerator is rented
    return cells


def _day_in(cell: str) -> datetime.date | None:
    """Return the day that a cell begins with; None if it is not written with the year first."""
    try:
        return datetime.date.fromisoformat(cell[:10])
    except ValueError:
        return None


def _first_text(record: Record, names: Iterable[str]) -> str:
    return _text_of(record.get(_first_named(record, names)))


def _first_named(record: Record, names: Iterable[str]) -> str:
    """Return the first of these columns that has a text in a record; empty if none has."""
    return next((name for name in names if _text_of(record.get(name))), "")


def _text_of(cell: Any) -> str:
    return "" if cell is None else str(cell).strip()


def _machine_of(cells: Mapping[str, str], record: Record) -> CataloguePrice | None:
    """Return the machine of a row without its price; None for one without accelerators."""
    count = cells.get("count", "").strip("x×")
    gpu = cells.get("gpu", "")
    sku = cells.get("sku", "")
    if "count" in cells and number_of(count) == 0.0:
        return None
    if gpu and "count" in cells and not count:
        return None
    others = (cells.get("description", ""), sku, *(cell for cell in record.values() if isinstance(cell, str)))
    for text in (gpu,) if gpu else others:
        described = _DESCRIBED.match(text)
        name = described[2] if described else text
        if (gpu and text == gpu) or is_accelerator(name):
            if described and described[1] and number_of(count or "1") == 1.0:
                count = described[1]
            gpu = re.sub(r"\s*[()]\s*", " ", name).strip()
            break
    boards = set() if gpu or sku else set(boards_in(cells.get("description", "")))
    if len(boards) == 1:
        (gpu, behind) = boards.pop()
        count = count or behind
    provider = cells.get("provider", "").lower()
    number = count or ("1" if gpu else "")
    words = "" if gpu or sku else cells.get("description", "")[:LONGEST_NAME]
    return CataloguePrice(0, provider, sku, "", "on_demand", "", number, gpu, None, described=words)


def _is_of_one(title: str, cells: Mapping[str, str], columns: PriceColumns) -> bool:
    """Whether a price is that of one of the accelerators which the row's quantity counts: a unit price in its row."""
    counts = [plain_words(own_name(name)) for name in columns.names_of("count")]
    is_quantity = bool(cells.get("count")) and any(_IS_QUANTITY.fullmatch(count) for count in counts)
    return is_quantity and "unit" in plain_words(own_name(title)).split()


def _is_sum(title: str) -> bool:
    """Whether the name of a price may be that of a whole invoice's line: a unit's price says so."""
    words = set(plain_words(title).split())
    of_a_unit = {"unit", "per", "rate", "hourly", "hour", "dph"}
    return bool(words & {"amount", "total", "cost", "sum"}) and not words & of_a_unit


_WHOLE_RENT: Final = frozenset(("total", "effective", "net", "final", "discounted"))
_PART_OF_RENT: Final = frozenset(("base", "list", "min", "minimum", "from"))


def _rank_of_price(title: str) -> tuple[bool, int]:
    """Return a key that sorts prices of one machine: what its rent comes to, the plain price, a part or a bound of it,
    then what may be the sum of an invoice's line.

    Source: Vast's interface, whose dph_total has the disk in addition to dph_base.
    """
    words = set(plain_words(own_name(title)).split())
    return _is_sum(title), len(words & _PART_OF_RENT) - len(words & _WHOLE_RENT)


def _is_vague(title: str) -> bool:
    """Whether a name of a machine's name is that of anything's: the type of an instance says which machine it is."""
    return not re.search(r"arm|instance|api|machine|type", title, re.IGNORECASE)


def _stated_term(cells: Mapping[str, str]) -> tuple[Term | None, float]:
    """Return the term that a row states, None for a unit of price that is no period, and the hours that its price pays
    for: a reservation of Azure's states the price of its whole term."""
    stated = (cells.get(what, "") for what in ("years", "term", "names", "description"))
    words = plain_words(" ".join(stated))
    if cells.get("term", "").lower() in ("true", "yes"):
        words = "spot"
    term: Term = term_of(words) or "on_demand"
    unit = plain_words(cells.get("unit", ""))
    if unit and not re.search(r"\bh(?:ou)?r?s?\b", unit):
        period = period_hours(unit.split()) if set(unit.split()) <= UNIT_WORDS | {"1"} else None
        return (None, 1.0) if period is None else (term_in(period, term), period)
    years = {"reserved_1y": 1.0, "reserved_3y": 3.0}.get(term, 0.0) if "reservation" in words else 0.0
    return term, years * _HOURS_PER_YEAR or 1.0


def _is_of_other_goods(cell: str, machine: CataloguePrice) -> bool:
    """Whether a row without an accelerator has a price for a unit that is no period: `$0.07/GB` of a volume."""
    if is_accelerator(machine.gpu) or _PER_OTHER.fullmatch(cell) is None:
        return False
    found = _PRICE.fullmatch(with_minutes(cell))
    return found is not None and not set(re.findall(r"[a-z]+", found[3].lower())) <= UNIT_WORDS


class _Amount(NamedTuple):
    usd: float
    is_each: bool
    """Whether it is the price of one accelerator."""
    hours: float
    """Hours that it pays for."""
    term: Term | None
    smallest_order: int | None
    is_lower_bound: bool


def _amount_in(cell: str, kind: PriceKind, where: str) -> _Amount:
    """Return the amount of a cell of a column of prices.

    Raises: InputFileError: it is no number of dollars for a period.
    """
    stated = conditions_of(cell)
    found = _PRICE.fullmatch(stated.rest)
    unit = set(re.findall(r"[a-z]+", found[3].lower())) if found else {""}
    hours = period_hours(unit) or kind.hours
    usd = dollars_of(found[1], hours) if found else None
    if foreign := _OTHER_MONEY.search(cell):
        raise _foreign_money(where, foreign[0])
    if found is None or usd is None or not unit <= UNIT_WORDS:
        raise InputFileError(
            f"{where}: price {cell!r}",
            why="a price is an amount of US dollars and its period; a number of accelerators has a column of its own",
            fix="write the number of dollars per hour",
        )
    is_each = kind.is_each or bool(unit & ONE_ACCELERATOR)
    usd /= 100.0 if found[2] else 1.0
    return _Amount(usd, is_each, hours, stated.term, stated.smallest_order, stated.is_lower_bound)


def _memory_bytes(cells: Mapping[str, str], record: Record, columns: PriceColumns) -> float | None:
    """Return the memory of one accelerator that a row states [bytes]; None if it states none."""
    if found := _SIZE_OF_ONE.search(_text_of(record.get("GpuInfo"))):
        return float(found[1]) * MIB
    if "AcceleratorName" in record:
        stated = number_of(_text_of(record.get("AcceleratorMemoryGiB"))) or _SKYPILOT_GIB.get(cells["gpu"])
        return stated * GIB if stated else None
    names = (name for name in columns.names_of("memory") if re.search("gpu|vram|accel|memoryIn", name, re.I))
    size = re.match(r"[\d.]+", next((_text_of(record[name]) for name in names), ""))
    number = number_of(size[0]) if size else None
    if not number:
        return None
    return number * (MIB if number > _MOST_GIB else GIB)
