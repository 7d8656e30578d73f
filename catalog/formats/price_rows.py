"""Rows of other price catalogues, SkyPilot's `vms.csv` and gpuhunt's, as rows of a price file."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from advisor.catalog import accelerators
from advisor.catalog.errors import InputFileError, UnknownNameError
from advisor.catalog.files import read_csv, read_lines
from advisor.catalog.schema import Accelerator
from advisor.catalog.units import GIB

PriceCatalogue = Literal["skypilot", "gpuhunt"]
TITLES: Final[Mapping[PriceCatalogue, str]] = {"skypilot": "SkyPilot's vms.csv", "gpuhunt": "rows of gpuhunt"}
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


def catalogue_of(path: Path) -> PriceCatalogue | None:
    """Return the catalogue whose columns a file's header has; None for any other file.

    Raises: InputFileError: the file cannot be read.
    """
    header = next((line for line in read_lines(path) if line.strip() and not line.startswith("#")), "")
    names = {name.strip().strip('"') for name in header.split(",")}
    return next((name for name, marks in _MARKS.items() if names.issuperset(marks)), None)


def catalogue_prices(path: Path, catalogue: PriceCatalogue) -> Iterator[CataloguePrice]:
    """Yield the priced machines with accelerators, on demand and spot.

    Raises: InputFileError: the file cannot be read or is not CSV.
    Source: skypilot-org/skypilot-catalog catalogs/v8/*/vms.csv; dstackai/gpuhunt src/gpuhunt (columns of its CSV).
    """
    marks = _MARKS[catalogue]
    for number, cells in read_csv(path, marks, _OTHERS[catalogue]):
        yield from (_skypilot if catalogue == "skypilot" else _gpuhunt)(number, cells)


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
    spelt = re.sub(r"[\s_]+", "-", price.gpu.strip().lower())
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
