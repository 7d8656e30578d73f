"""The parts of the catalog: cards, CPUs, boards, memory, supplies, cases and what else a workstation needs."""

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from advisor.catalog.files import DATA_DIR, checked, named_records, read_csv, read_toml
from advisor.catalog.schema.part import (
    Board,
    Bridge,
    Case,
    Cooler,
    Cpu,
    CpuSeries,
    GpuCard,
    Nic,
    Part,
    PowerFloor,
    Psu,
    PsuLink,
    RamKit,
    Riser,
    Storage,
    System,
)
from advisor.catalog.units import GB, GIB, GIGA, KILO

FOLDER: Final = DATA_DIR / "parts"
PartT = TypeVar("PartT", bound=Part)
_SLOT_LIST: Final = re.compile(r"(\d+)x PCIe(\d)\.0 x(\d+)")
_REGISTERED_SOCKETS: Final = ("sTR5", "SP3", "SP5", "SP6")


@functools.cache
def gpu_cards() -> tuple[GpuCard, ...]:
    """Cards with an accelerator of the catalog, by name.

    Raises: InputFileError: a bundled file is damaged.
    """
    return _all(GpuCard, "gpu_cards.csv", "gpu")


@functools.cache
def cpu_series() -> dict[str, CpuSeries]:
    """What CPUs of one series share, by id."""
    path = FOLDER / "cpu_series.toml"
    return named_records(CpuSeries, read_toml(path), path.name)


@functools.cache
def cpus() -> tuple[Cpu, ...]:
    """CPUs whose memory channels are known."""
    return _all(Cpu, "cpus.csv", "cpu")


@functools.cache
def boards() -> tuple[Board, ...]:
    """Boards; those that a source describes know the lanes of several cards, the others those of one."""
    reviewed = read_toml(FOLDER / "boards_reviewed.toml")["board"]
    completed = {entry["opendb"]: entry for entry in reviewed if "opendb" in entry}
    completed = {**_wired(), **completed}
    listed = tuple(_listed_board(cells, where, completed) for cells, where in _rows("boards.csv"))
    own = tuple(_own_board(entry) for entry in reviewed if "opendb" not in entry)
    return _by_name(listed + own)


@functools.cache
def named_boards() -> tuple[Board, ...]:
    """Boards that lists name and the planner does not choose among.

    Raises: InputFileError: a bundled file is damaged.
    """
    wired = _wired()
    return tuple(_listed_board(cells, where, wired) for cells, where in _rows("named/boards.csv"))


@functools.cache
def named_psus() -> tuple[Psu, ...]:
    """Supplies that lists name and the planner does not choose among; of many nobody counted the plugs."""
    return _named(Psu, "psus")


@functools.cache
def named_storages() -> tuple[Storage, ...]:
    """Drives that lists name and the planner does not choose among."""
    return _named(Storage, "storage")


@functools.cache
def named_cases() -> tuple[Case, ...]:
    """Cases that lists name and the planner does not choose among."""
    return _named(Case, "cases")


@functools.cache
def named_coolers() -> tuple[Cooler, ...]:
    """Coolers that lists name and the planner does not choose among."""
    return _named(Cooler, "coolers")


def named_parts(category: str) -> tuple[Part, ...]:
    """Parts of a category that lists name and the planner does not choose among."""
    readers: dict[str, Callable[[], tuple[Part, ...]]] = {
        "board": named_boards, "psu": named_psus, "storage": named_storages, "case": named_cases,
        "cooler": named_coolers,
    }  # fmt: skip
    return readers[category]() if category in readers else ()


def _named(kind: type[PartT], name: str) -> tuple[PartT, ...]:
    return tuple(checked(kind, _si(cells), where) for cells, where in _rows(f"named/{name}.csv"))


@functools.cache
def _wired() -> dict[str, dict[str, Any]]:
    """Boards whose slots a table describes, by id, as reviewed ones are written."""
    columns = ("id", "name", "slots", "lane_modes", "flags", "basis", "source", "url")
    path = FOLDER / "board_slots.csv"
    return {
        cells["id"]: {
            "slots": cells["slots"].split(),
            "lane_modes": cells["lane_modes"].split("; "),
            "flags": [flag for flag in (cells["flags"],) if flag],
            "source": f"{cells['basis']}: {cells['source']}",
        }
        for _, cells in (read_csv(path, columns) if path.exists() else ())
    }


@functools.cache
def ram_kits() -> tuple[RamKit, ...]:
    """Kits of memory modules."""
    return _all(RamKit, "ram.csv", "ram")


@functools.cache
def psus() -> tuple[Psu, ...]:
    """Power supplies with their plugs."""
    return _all(Psu, "psus.csv", "psu")


@functools.cache
def cases() -> tuple[Case, ...]:
    """Cases and open frames."""
    return _all(Case, "cases.csv", "case")


@functools.cache
def coolers() -> tuple[Cooler, ...]:
    """CPU coolers."""
    return _all(Cooler, "coolers.csv", "cooler")


@functools.cache
def storages() -> tuple[Storage, ...]:
    """NVMe drives."""
    return _all(Storage, "storage.csv", "storage")


@functools.cache
def risers() -> tuple[Riser, ...]:
    """Riser cables."""
    return tuple(_more(Riser, "riser"))


@functools.cache
def bridges() -> tuple[Bridge, ...]:
    """NVLink bridges."""
    return tuple(_more(Bridge, "bridge"))


@functools.cache
def psu_links() -> tuple[PsuLink, ...]:
    """Leads that start a second supply."""
    return tuple(_more(PsuLink, "link"))


@functools.cache
def nics() -> tuple[Nic, ...]:
    """Network cards."""
    return tuple(_more(Nic, "nic"))


@functools.cache
def systems() -> tuple[System, ...]:
    """Complete machines."""
    path = FOLDER / "systems.toml"
    entries = read_toml(path)["system"]
    return tuple(checked(System, _si(entry), f"{path.name}: {entry.get('id')}") for entry in entries)


@functools.cache
def power_floors() -> Mapping[str, PowerFloor]:
    """Lowest power limits that drivers accept, by accelerator; of what is not listed none is known.

    Raises: InputFileError: the bundled file is damaged.
    """
    path = FOLDER / "power_floors.csv"
    rows = read_csv(path, ("accelerator", "fraction", "basis", "observed_on", "source"))
    floors = [checked(PowerFloor, cells, f"{path.name}: row {number}") for number, cells in rows]
    return {floor.accelerator: floor for floor in floors}


def all_parts() -> dict[str, tuple[Part, ...]]:
    """Every part by category."""
    return {
        "gpu": gpu_cards(),
        "cpu": cpus(),
        "board": boards(),
        "ram": ram_kits(),
        "psu": psus(),
        "case": cases(),
        "cooler": coolers(),
        "storage": storages(),
        "riser": risers(),
        "bridge": bridges(),
        "link": psu_links(),
        "nic": nics(),
        "system": systems(),
    }


def _all(kind: type[PartT], file: str, table: str) -> tuple[PartT, ...]:
    listed = [checked(kind, _si(cells), where) for cells, where in _rows(file)]
    return _by_name((*listed, *_more(kind, table)))


def _by_name(parts: tuple[PartT, ...]) -> tuple[PartT, ...]:
    return tuple(sorted(parts, key=lambda part: (part.name, part.id)))


def _rows(file: str) -> Iterator[tuple[dict[str, str], str]]:
    path = FOLDER / file
    columns = _header(file)
    for number, cells in read_csv(path, columns):
        yield cells, f"{file}: row {number}"


@functools.cache
def _header(file: str) -> tuple[str, ...]:
    """The columns of a bundled file: its own header, as the records check what they hold."""
    with (FOLDER / file).open(encoding="utf-8") as lines:
        return tuple(next(line for line in lines if not line.startswith("#")).strip().split(","))


@functools.cache
def _more_tables() -> dict[str, Any]:
    return read_toml(FOLDER / "more_parts.toml")


def _more(kind: type[PartT], table: str) -> Iterator[PartT]:
    for entry in _more_tables().get(table, ()):
        yield checked(kind, _si(entry), f"more_parts.toml: {entry.get('id')}")


_UNITS: Final[dict[str, tuple[str, float]]] = {
    "length_mm": ("length_m", 1.0 / KILO),
    "max_gpu_mm": ("max_gpu_m", 1.0 / KILO),
    "max_cooler_mm": ("max_cooler_m", 1.0 / KILO),
    "max_psu_mm": ("max_psu_m", 1.0 / KILO),
    "height_mm": ("height_m", 1.0 / KILO),
    "radiator_mm": ("radiator_m", 1.0 / KILO),
    # Modules and what a board takes are sold in binary gigabytes, drives and accelerators in decimal ones.
    "max_ram_gb": ("max_ram_bytes", GIB),
    "ram_max_gb": ("ram_max_bytes", GIB),
    "module_gb": ("module_bytes", GIB),
    "capacity_gb": ("capacity_bytes", GB),
    "memory_gb": ("memory_bytes", GB),
    "gbit_per_s": ("bits_per_s", GIGA),
}


def _si(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Cells of one part in SI units: lists split, empty ones left out, a CPU's series looked up."""
    values: dict[str, Any] = {}
    for key, cell in cells.items():
        if cell == "":
            continue
        if key in _UNITS:
            name, factor = _UNITS[key]
            values[name] = float(cell) * factor
        elif key in ("boards", "sockets", "flags") and isinstance(cell, str):
            values[key] = tuple(cell.split("|"))
        else:
            values[key] = cell
    if "series" in values:
        return _cpu(values)
    if "modules" in values:
        values.setdefault("registered", True)
        values.setdefault("ecc", True)
    return values


def _cpu(values: dict[str, Any]) -> dict[str, Any]:
    series = cpu_series()[values["series"]]
    unused = ("socket", "channels", "ram_types", "family")
    price_class = f"cpu/{series.id}/{values['cores']}-core"
    if series.id == "strx4":
        # The class is that of the middle one; 64 cores cost far more than its median.
        price_class = "cpu/threadripper-zen2" if int(values["cores"]) <= 32 else ""
    elif series.id.startswith(("threadripper", "epyc")):
        price_class = f"cpu/{series.id}-{values['name'].split()[-1].lower()}"
    return {
        **{key: value for key, value in values.items() if key not in unused},
        "series": series,
        "price_class": price_class,
    }


def _listed_board(cells: dict[str, str], where: str, completed: Mapping[str, dict[str, Any]]) -> Board:
    """A row of OpenDB: its first x16 slot has the CPU's lanes; of further ones only a source knows."""
    cells = dict(cells)
    slots = [
        int(generation)
        for count, generation, lanes in _SLOT_LIST.findall(cells.pop("slots"))
        for _ in range(int(count))
        if lanes == "16"
    ]
    values = _si({key: value for key, value in cells.items() if key != "eps_8_pin"})
    values |= {
        "num_eps": int(cells["eps_8_pin"] or 1),
        "registered": cells["socket"] in _REGISTERED_SOCKETS,
        "slots": [{"position": 1, "pcie_generation": max(slots)}],
        "slots_known": cells["form_factor"] == "Mini-ITX",  # which has room for one
        "lane_modes": [[16]],
    }
    reviewed = completed.get(cells["id"])
    if reviewed is not None:
        flags = tuple(flag for flag in values.get("flags", ()) if flag != "unverified")
        values |= _layout(reviewed) | {
            "flags": (*flags, *reviewed.get("flags", ())), "source": f"OpenDB; {reviewed['source']}",
        }  # fmt: skip
    return checked(Board, values, where)


def _own_board(entry: Mapping[str, Any]) -> Board:
    return checked(Board, _si(entry) | _layout(entry), f"boards_reviewed.toml: {entry.get('id')}")


def _layout(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Slots written position.generation and lanes by number of cards."""
    pairs = (text.split(".") for text in entry["slots"])
    return {
        "slots_known": True,
        "slots": [{"position": int(position), "pcie_generation": int(gen)} for position, gen in pairs],
        "lane_modes": [[int(lanes) for lanes in mode.split()] for mode in entry["lane_modes"]],
    }
