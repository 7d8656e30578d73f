"""Rows of other price catalogues (SkyPilot's `vms.csv`, gpuhunt, Vantage, own sheets) as rows of a price file."""

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from advisor.catalog import accelerators
from advisor.catalog.errors import InputFileError, UnknownNameError
from advisor.catalog.files import read_csv, read_lines, with_commas
from advisor.catalog.schema import Accelerator
from advisor.catalog.units import GIB

PriceCatalogue = Literal["skypilot", "gpuhunt", "sheet"]
TITLES: Final[Mapping[PriceCatalogue, str]] = {
    "skypilot": "SkyPilot's vms.csv",
    "gpuhunt": "rows of gpuhunt",
    "sheet": "a sheet of prices by the hour",
}
_MARKS: Final[Mapping[PriceCatalogue, tuple[str, ...]]] = {
    "skypilot": ("InstanceType", "AcceleratorName", "AcceleratorCount", "Price"),
    "gpuhunt": ("instance_name", "gpu_name", "gpu_count", "price"),
}
_OTHERS: Final[Mapping[PriceCatalogue, tuple[str, ...]]] = {
    "skypilot": (
        "vCPUs",
        "MemoryGiB",
        "Region",
        "SpotPrice",
        "AvailabilityZone",
        "GpuInfo",
        "Generation",
        "AcceleratorMemoryGiB",
        "LocalDisk",
        "Arch",
    ),
    "gpuhunt": (
        "location",
        "cpu",
        "memory",
        "gpu_memory",
        "spot",
        "disk_size",
        "gpu_vendor",
        "provider",
        "cpu_arch",
        "flags",
        "provider_data",
    ),
}
_TITLES_OF_SHEET: Final[Mapping[str, str]] = {
    "gpu": r"gpu|gpu (?:name|model|type)|accelerator(?: name)?|(?:graphics )?card",
    "count": r"gpus|(?:num(?:ber of)?|no of) gpus|gpu count|gpus per \w+|"
    r"(?:num )?accelerators?(?: count)?|count|quantity",
    "spot": r"spot(?: price)?|linux spot (?:minimum|average) cost",
    "provider": r"provider|vendor|cloud|company|seller",
    "sku": r"api name|instance(?: (?:name|type))?|sku|machine|name",
    "region": r"region|location|zone",
    "currency": r"currency",
}
"""Titles of the columns of a sheet in lower case, letters and figures alone, by what they hold; the first that fits."""
_PRICE_WORDS: Final = frozenset(
    ["on", "demand", "price", "cost", "rate", "hourly", "usd", "per", "a", "hour", "hr", "h"]
)
"""Words of the title of a price by the hour; with one of an accelerator it is that of one of them."""
_MEANS_A_PRICE: Final = frozenset(["demand", "price", "cost", "rate", "hourly", "usd", "hour", "hr", "h"])
_ONE: Final = frozenset(("gpu", "card", "accelerator"))
_HOURLY: Final = re.compile(
    r"(?:usd|us\$|\$)?\s*([\d.,]+)\s*(?:usd|\$)?\s*(?:hourly|(?:/|per )\s*h(?:ou)?r?s?)?", re.IGNORECASE
)
"""A price by the hour in dollars, with or without its unit."""
_NO_PRICE: Final = ("", "-", "n/a", "na", "none", "unavailable", "on request", "contact us")
_MEMORY_TOLERANCE: Final = 0.15
"""Tolerance between two statements of an accelerator's memory, as for refreshed lists."""


@dataclass(frozen=True, slots=True)
class CataloguePrice:
    """One priced machine of another catalogue."""

    row: int
    provider: str
    """Provider that the row states; empty for most catalogues."""
    sku: str
    region: str
    term: Literal["on_demand", "spot"]
    usd_per_hour: str
    num_accelerators: str
    gpu: str
    """Name of the accelerator in the catalogue."""
    memory_bytes: float | None
    """Memory of one accelerator [bytes]; None if the row does not state it."""
    currency: str = ""
    """Currency that the row states."""


def catalogue_of(path: Path) -> PriceCatalogue | None:
    """Return the catalogue whose columns a file's header has; None for any other file.

    Raises: InputFileError: the file cannot be read.
    """
    titles = _header(path)
    known = next((name for name, marks in _MARKS.items() if set(titles).issuperset(marks)), None)
    if known is not None or "usd_per_hour" in titles:
        return known
    columns = _sheet_columns(titles)
    return "sheet" if "gpu" in columns and columns.keys() & {"price", "price of one", "spot"} else None


def _header(path: Path) -> list[str]:
    lines = (line for line in with_commas(read_lines(path)) if line.strip() and not line.startswith("#"))
    return [title.strip() for title in next(csv.reader(lines), [])]


def _sheet_columns(titles: list[str]) -> dict[str, str]:
    """Return the titles of a sheet's columns by what they hold."""
    plain = {
        title: " ".join(re.findall(r"[a-z0-9]+", title.lower().replace("$", " usd "))) for title in titles
    }
    found = {
        what: title
        for what, pattern in _TITLES_OF_SHEET.items()
        if (title := next((title for title in titles if re.fullmatch(pattern, plain[title])), None))
    }
    for title, text in plain.items():
        words = set(text.split())
        if words & _MEANS_A_PRICE and words <= _PRICE_WORDS | _ONE:
            found.setdefault("price of one" if words & _ONE else "price", title)
    return found


def catalogue_prices(path: Path, catalogue: PriceCatalogue) -> Iterator[CataloguePrice]:
    """Yield the priced machines with accelerators, on demand and spot.

    Raises: InputFileError: the file cannot be read or is not CSV.
    Source: skypilot-org/skypilot-catalog catalogs/v8/*/vms.csv; dstackai/gpuhunt src/gpuhunt (columns of its CSV);
        instances.vantage.sh (columns of its CSV).
    """
    if catalogue == "sheet":
        titles = _header(path)
        columns = _sheet_columns(titles)
        for number, cells in read_csv(path, tuple(columns.values()), tuple(titles)):
            yield from _of_sheet(
                number, {what: cells[title].strip() for what, title in columns.items()}, str(path)
            )
        return
    marks = _MARKS[catalogue]
    for number, cells in read_csv(path, marks, _OTHERS[catalogue]):
        yield from (_skypilot if catalogue == "skypilot" else _gpuhunt)(number, cells)


def _of_sheet(number: int, cells: Mapping[str, str], path: str) -> Iterator[CataloguePrice]:
    """Yield the prices of one row of a sheet, which is one accelerator's where it states no number."""
    if cells["gpu"].lower() in _NO_PRICE:
        return
    count = cells.get("count") or "1"
    for term, what in (("on_demand", "price"), ("on_demand", "price of one"), ("spot", "spot")):
        cell = cells.get(what, "")
        if what == "price of one" and cells.get("price"):
            continue
        if cell.lower() in _NO_PRICE:
            continue
        found = _HOURLY.fullmatch(cell)
        if found is None:
            raise InputFileError(
                f"{path}: row {number}: price {cell!r}",
                why="prices are dollars per hour; other currencies and months are not converted",
                fix="write the number of dollars per hour",
            )
        yield CataloguePrice(
            number,
            cells.get("provider", "").lower(),
            cells.get("sku", ""),
            cells.get("region", ""),
            "spot" if term == "spot" else "on_demand",
            repr(_dollars(found[1]) * whole_count(count, path))
            if what == "price of one"
            else str(_dollars(found[1])),
            count,
            cells["gpu"],
            None,
            cells.get("currency", ""),
        )


def _dollars(text: str) -> float:
    """Return a number whose comma divides thousands if three digits follow it, and else decimals."""
    return _number(re.sub(r",(?=\d{3}(?:\D|$))", "", text).replace(",", ".")) or 0.0


def _skypilot(number: int, cells: Mapping[str, str]) -> Iterator[CataloguePrice]:
    if not cells["AcceleratorName"].strip():
        return
    memory = _number(cells.get("AcceleratorMemoryGiB", "")) or _memory_gib(
        cells.get("GpuInfo", ""), cells["AcceleratorName"]
    )
    for term, column in (("on_demand", "Price"), ("spot", "SpotPrice")):
        if cells.get(column, "").strip():
            yield CataloguePrice(
                number,
                "",
                cells["InstanceType"],
                cells.get("Region", ""),
                "spot" if term == "spot" else "on_demand",
                cells[column],
                cells["AcceleratorCount"],
                cells["AcceleratorName"],
                memory * GIB if memory else None,
            )


_SIZE_OF_ONE: Final = re.compile(r"['\"]SizeInMiB['\"]\s*:\s*(\d+)")
_SKYPILOT_GIB: Final = {"A100": 40.0, "V100": 16.0}
"""Memory of boards whose larger siblings have it in their names: A100-80GB, V100-32GB [GiB]. Source: names of
skypilot-org/skypilot-catalog, catalogs/v8/common/metadata.csv."""


def _memory_gib(stated: str, name: str) -> float | None:
    """Return the memory of one accelerator from the machine's description, or as SkyPilot means its name [GiB]."""
    found = _SIZE_OF_ONE.search(stated)
    return float(found[1]) / 1024 if found else _SKYPILOT_GIB.get(name.strip())


def _gpuhunt(number: int, cells: Mapping[str, str]) -> Iterator[CataloguePrice]:
    if not _number(cells["gpu_count"]) or not cells["gpu_name"].strip():
        return
    memory = _number(cells.get("gpu_memory", ""))
    yield CataloguePrice(
        number,
        cells.get("provider", "").strip(),
        cells["instance_name"],
        cells.get("location", ""),
        "spot" if cells.get("spot", "").strip().lower() == "true" else "on_demand",
        cells["price"],
        cells["gpu_count"],
        cells["gpu_name"],
        memory * GIB if memory else None,
    )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def whole_count(text: str, where: str) -> int:
    """Return a number of accelerators. Raises: InputFileError: it is no whole number of at least 1."""
    found = _number(text)
    if found is None or found < 1 or found != round(found):
        raise InputFileError(
            f"{where}: {text!r} accelerators",
            why="not a whole number of at least 1",
            fix="correct it or leave the row out",
        )
    return round(found)


def accelerator_of(price: CataloguePrice) -> tuple[Accelerator | None, bool]:
    """Return the accelerator that a row names, and whether the name says it alone.

    A name that stands for several boards (H100, A100-80GB) gives the one that the catalog takes for it, unless the
    row's memory belongs to another; None for a name that the catalog does not have.
    """
    words = re.sub(r"\b(?:nvidia|amd|intel|geforce|tesla|instinct)\b", "", price.gpu.lower())
    spelt = re.sub(r"[\s_]+", "-", words.strip())
    for name in (spelt, spelt.replace("rtx", "rtx-", 1), spelt.replace("-", "")):
        try:
            chosen = accelerators.get(name)
        except UnknownNameError:
            continue
        record = chosen.record
        known = record.memory_bytes
        if price.memory_bytes and known and abs(price.memory_bytes - known) > _MEMORY_TOLERANCE * known:
            continue
        letters = record.id.replace("-", "")
        return record, spelt.replace("-", "") == letters
    return _board_with_memory(spelt, price.memory_bytes), False


def _board_with_memory(name: str, memory_bytes: float | None) -> Accelerator | None:
    """Return the board with this memory of those that share a name, in its own socket first; None if none has."""
    boards = (accelerators.by_id(each) for each in accelerators.all_ids() if each.startswith(f"{name}-"))
    able = [
        board
        for board in boards
        if memory_bytes
        and board.memory_bytes
        and abs(memory_bytes - board.memory_bytes) <= _MEMORY_TOLERANCE * board.memory_bytes
    ]
    return max(able, key=lambda board: "sxm" in board.id, default=None)
