"""Parts of the catalog: cards, CPUs, boards, memory, supplies, cases and the other parts of a workstation."""

import functools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

from advisor.catalog import accelerators
from advisor.catalog.files import DATA_DIR, check_record, named_records, read_csv, read_lines, read_toml
from advisor.catalog.listing import make_callable
from advisor.catalog.schema.part import (
    GRADE_UNKNOWN,
    LANES_USUAL,
    PLUGS_OF_LINE,
    PLUGS_UNKNOWN,
    Board,
    Bridge,
    CardRoom,
    Case,
    Cooler,
    Cpu,
    CpuSeries,
    DisplayCard,
    GpuCard,
    Nic,
    Part,
    PowerFloor,
    Psu,
    PsuLink,
    RamKit,
    Riser,
    Storage,
    SupplyAdvice,
    System,
    UsedMachine,
)
from advisor.catalog.units import GB, GIB, GIGA, KILO

FOLDER: Final = DATA_DIR / "parts"
_USED_MACHINES: Final = FOLDER / "used_machines.toml"
PartT = TypeVar("PartT", bound=Part)
_SLOT_LIST: Final = re.compile(r"(\d+)x PCIe(\d)\.0 x(\d+)")
_SIZE_WORD: Final = re.compile(r"\d+gb")
"""Size of a card's memory, which some names state twice."""
_LOW_PROFILE: Final = re.compile(r"\bLP\b|\blow[ -]profile\b", re.IGNORECASE)
"""Words of makers for a card of half height."""
_REGISTERED_SOCKETS: Final = (
    "sTR5",
    "SP3",
    "SP5",
    "SP6",
    "sWRX8",
    "LGA2011-3",
    "LGA3647",
    "LGA4189",
    "LGA4677",
)


_KINDS: Final[Mapping[str, type[Part]]] = {
    "gpu": GpuCard,
    "display": DisplayCard,
    "cpu": Cpu,
    "board": Board,
    "ram": RamKit,
    "psu": Psu,
    "case": Case,
    "cooler": Cooler,
    "storage": Storage,
    "riser": Riser,
    "bridge": Bridge,
    "link": PsuLink,
    "nic": Nic,
    "system": System,
}
"""Record type by category, which is also the table of `more_parts.toml` with the parts that the lists lack."""
_FILES: Final[Mapping[type[Part], str]] = {
    GpuCard: "gpu_cards",
    DisplayCard: "display_cards",
    Cpu: "cpus",
    Board: "boards",
    RamKit: "ram",
    Psu: "psus",
    Case: "cases",
    Cooler: "coolers",
    Storage: "storage",
}
_NAMED_KINDS: Final = (Board, Cpu, Psu, Case, Cooler, Storage)
"""Kinds that have a list of parts known by name alone, in `parts/named`."""


def all_parts() -> dict[str, tuple[Part, ...]]:
    """Return every part by category."""
    return {category: _read_planner_parts(kind) for category, kind in _KINDS.items()}


def planner_parts(kind: type[PartT]) -> tuple[PartT, ...]:
    """Return the parts of a kind among which the planner chooses, by name. Boards that a source describes have the
    lanes of several cards, the others the lanes of one.

    Raises: InputFileError: a bundled file is damaged.
    """
    return cast(tuple[PartT, ...], _read_planner_parts(kind))


def parts_for_lists(kind: type[PartT]) -> tuple[PartT, ...]:
    """Return the parts of a kind that the lists name and the planner does not choose among, by name alone. For many of
    them the number of plugs is unknown.

    Raises: InputFileError: a bundled file is damaged.
    """
    return cast(tuple[PartT, ...], _read_named_parts(kind))


def named_parts(category: str) -> tuple[Part, ...]:
    """Return the parts of a category that the lists name and the planner does not choose among."""
    return _read_named_parts(_KINDS[category])


@functools.cache
def _read_planner_parts(kind: type[Part]) -> tuple[Part, ...]:
    if kind is System:
        return systems()
    if kind is Board:
        found: list[Part] = [*_boards()]
    else:
        file = f"{_FILES[kind]}.csv" if kind in _FILES else ""
        found = [check_record(kind, _si(cells), where) for cells, where in (_rows(file) if file else ())]
    table = next(category for category, each in _KINDS.items() if each is kind)
    found += [
        check_record(kind, _si(entry), f"more_parts.toml: {entry.get('id')}")
        for entry in _more_tables().get(table, ())
    ]
    if kind is GpuCard:
        found = [_with_rated_power(card) for card in found if isinstance(card, GpuCard)]
    if kind in (GpuCard, Cpu, Psu, Case, Cooler):
        found = _merge_spellings(found)
    found = [_with_places(part) if isinstance(part, Case) else part for part in found]
    found = [_with_rating(part) if isinstance(part, Cooler) else part for part in found]
    return tuple(sorted(found, key=lambda part: (part.name, part.id))) if kind in _FILES else tuple(found)


def _merge_spellings(found: Sequence[Part]) -> list[Part]:
    """Return the parts with those of one name in several spellings as one: of several rows the one with the fewest
    doubtful figures, and of cards the largest power, length and width."""
    groups: dict[tuple[str, ...], list[Part]] = {}
    for part in found:
        words = re.findall(r"[a-z0-9.+]+", part.name.lower())
        sizes = {word for word in words if _SIZE_WORD.fullmatch(word)}
        others = [word for word in words if word not in sizes]
        groups.setdefault((*sorted(others), *sorted(sizes)), []).append(part)
    merged: list[Part] = []
    for group in groups.values():
        best = min(group, key=lambda part: (len(part.flags), part.name, part.id))
        cards = [part for part in group if isinstance(part, GpuCard)]
        if len(cards) > 1:
            widest = {
                "power_w": max(card.power_w for card in cards),
                "length_m": max(card.length_m for card in cards),
                "slots": max(card.slots for card in cards),
            }
            best = best.model_copy(update=widest)
        merged.append(best)
    return merged


def _with_rated_power(card: GpuCard) -> GpuCard:
    """Return the card with the power of its accelerator's record if its own row states less: limits of editions with
    less power are accelerators of their own, so a lower figure is a mistake of the list. A card without the 16-pin plug
    that every board of its accelerator has gets it, and one whose name says so is of half height."""
    plugs = _read_card_plugs().get(card.accelerator, 0)
    if plugs and not card.num_16_pin:
        card = card.model_copy(update={"num_16_pin": plugs, "num_8_pin": 0, "num_6_pin": 0})
    if _LOW_PROFILE.search(card.name):
        card = card.model_copy(update={"is_low_profile": True})
    rated_w = accelerators.by_id(card.accelerator).tdp_w or 0.0
    return card if card.power_w >= rated_w else card.model_copy(update={"power_w": rated_w})


@functools.cache
def _read_card_plugs() -> dict[str, int]:
    """Return the number of 16-pin plugs by accelerator whose boards all have them."""
    rows = read_csv(FOLDER / "card_plugs.csv", ("accelerator", "num_16_pin", "source"))
    return {cells["accelerator"]: int(cells["num_16_pin"]) for _, cells in rows}


@functools.cache
def _read_named_parts(kind: type[Part]) -> tuple[Part, ...]:
    if kind not in _NAMED_KINDS:
        return ()
    file = f"named/{_FILES[kind]}.csv"
    if kind is Board:
        return tuple(_listed_board(cells, where) for cells, where in _rows(file))
    found = tuple(check_record(kind, _si(cells), where) for cells, where in _rows(file))
    found = tuple(_with_places(part) if isinstance(part, Case) else part for part in found)
    found = tuple(_with_rating(part) if isinstance(part, Cooler) else part for part in found)
    return tuple(with_line_figures(part) if isinstance(part, Psu) else part for part in found)


def _with_rating(cooler: Cooler) -> Cooler:
    """Return a cooler with the power up to which its maker rates its product line, where a source states it."""
    words = set(cooler.name.lower().split())
    rated_w = next((watts for line, watts in _read_cooler_ratings() if line <= words), cooler.rated_w)
    return cooler.model_copy(update={"rated_w": rated_w})


@functools.cache
def _read_cooler_ratings() -> tuple[tuple[frozenset[str], float], ...]:
    """Return the ratings of product lines of coolers by the words of each [W]."""
    rows = read_csv(FOLDER / "cooler_ratings.csv", ("line", "rated_w", "source"))
    return tuple((frozenset(cells["line"].split()), float(cells["rated_w"])) for _, cells in rows)


def _with_places(case: Case) -> Case:
    """Return a case with the places for supplies and radiators that its product line has."""
    words = set(_NAME_WORD.findall(f"{case.manufacturer} {case.name}".lower()))
    changes = next((figures for line, figures in _read_case_lines() if line <= words), {})
    changes = {name: value for name, value in changes.items() if name != "num_psus" or value > case.num_psus}
    return case.model_copy(update=changes) if changes else case


@functools.cache
def _read_case_lines() -> tuple[tuple[frozenset[str], dict[str, float]], ...]:
    """Return the product lines of cases: the words of each, and its places for supplies and radiators; most words
    first."""
    rows = read_csv(
        FOLDER / "case_lines.csv", ("words", "num_psus", "radiator_clear_mm", "radiator_front_mm")
    )
    found = [
        (frozenset(cells["words"].split()), _si({key: cell for key, cell in cells.items() if key != "words"}))
        for _, cells in rows
    ]
    lines = [
        (words, {key: int(value) if key == "num_psus" else value for key, value in figures.items()})
        for words, figures in found
    ]
    return tuple(sorted(lines, key=lambda line: -len(line[0])))


def _boards() -> Iterator[Board]:
    reviewed = read_toml(FOLDER / "boards_reviewed.toml")["board"]
    completed = {entry["opendb"]: entry for entry in reviewed if "opendb" in entry}
    for cells, where in _rows("boards.csv"):
        yield _listed_board(cells, where, completed.get(cells["id"]))
    yield from (_own_board(entry) for entry in reviewed if "opendb" not in entry)
    yield from (_own_board(entry) for entry in _machine_boards())


_TWO_SOCKETS: Final = re.compile(
    r"Supermicro [XH]\d{1,2}D|\b(?:Z\d{2}P[AE]|KNPP|K1\dPA)-D|\bM[DZ]7\d-|2D\d{2}|\bS2600"
)
"""Names of boards with two sockets, by the numbering of Supermicro, ASUS, Gigabyte, ASRock Rack and Intel."""
_RACK: Final = re.compile(r"\b(?:PowerEdge R|ProLiant DL|ThinkSystem SR|System x|SYS-|AS-|G\d{3}-|XL\d{3})")
"""Names of machines for a rack, whose fans cool cards without any."""


def _machine_boards() -> Iterator[dict[str, Any]]:
    """Yield the boards of the servers and workstations of `machines.csv`, in the form of reviewed boards."""
    of_case = ("psu_w", "plugs", "max_gpu_mm", "expansion_slots", "cpu")
    for cells, _ in _rows("machines.csv"):
        yield {
            **{key: cell for key, cell in cells.items() if key not in of_case},
            "id": re.sub(r"[^a-z0-9]+", "-", cells["name"].lower()),
            "form_factor": "server",
            "sockets": int(cells["sockets"]),
            "slots": cells["slots"].split(),
            "lane_modes": cells["lane_modes"].split("; "),
            "num_eps": 0,
            "ecc": cells["registered"],
            "flags": (
                "server",
                *(() if _RACK.search(cells["name"]) else ("tower",)),
                "layout_assumed",
                "unverified",
            ),
            "source": f"{cells['name']}: the maker's specifications (unverified)",
        }


@functools.cache
def cpu_series() -> dict[str, CpuSeries]:
    """Return the lanes and memory that CPUs of one series share, by id of the series."""
    return named_records(CpuSeries, "parts/cpu_series.toml")


@functools.cache
def _read_wired_boards() -> dict[str, dict[str, Any]]:
    """Return the boards whose slots a table describes, by name, in the form of reviewed boards."""
    columns = ("name", "slots", "lane_modes", "flags", "basis", "source", "url")
    return {
        cells["name"]: {
            "slots": cells["slots"].split(),
            "lane_modes": cells["lane_modes"].split("; "),
            "flags": [flag for flag in (cells["flags"],) if flag],
            "source": f"{cells['basis']}: {cells['source']}",
        }
        for _, cells in read_csv(FOLDER / "board_slots.csv", columns)
    }


@functools.cache
def _read_psu_lines() -> tuple[tuple[frozenset[str], dict[str, Any]], ...]:
    """Return the product lines of supplies: the words of each, and its rating, grade and plugs; most words first."""
    figures = ("power_w", "grade", "num_eps", "num_16_pin", "num_8_pin")
    rows = read_csv(FOLDER / "psu_lines.csv", ("words", *figures))
    found = [
        (
            frozenset(cells["words"].split()),
            {key: cells[key] if key == "grade" else int(cells[key]) for key in figures},
        )
        for _, cells in rows
    ]
    return tuple(sorted(found, key=lambda line: -len(line[0])))


@functools.cache
def _read_board_lines() -> tuple[tuple[frozenset[str], frozenset[str], dict[str, Any]], ...]:
    """Return the product lines of boards: the words and chipsets of each, and its slots; most words first."""
    rows = read_csv(FOLDER / "board_lines.csv", ("words", "chipsets", "slots", "lane_modes"))
    found = [
        (
            frozenset(cells["words"].split()),
            frozenset(cells["chipsets"].split("|")),
            _layout({"slots": cells["slots"].split(), "lane_modes": cells["lane_modes"].split("; ")}),
        )
        for _, cells in rows
    ]
    return tuple(sorted(found, key=lambda line: -len(line[0])))


def with_line_lanes(board: Board) -> Board:
    """Return a board whose slots no source describes with the lanes that boards of its line usually have, for as many
    slots as its record lists; the board itself if its slots are known or its line is not."""
    if board.slots_known or board.max_cards > 1:
        return board
    # Records of full-size boards list fewer long slots than they have; small boards may have one.
    has_two = board.num_long_slots > 1 or "ATX" in board.form_factor.replace("Micro ATX", "").split()
    words = set(_BOARD_WORD.findall(board.name.lower()))
    words |= {piece for word in words for piece in word.split("-")}
    named = (
        layout
        for line, chipsets, layout in _read_board_lines()
        if line <= words and board.chipset in chipsets and (line or has_two)
    )
    layout = next(named, None)
    if layout is None:
        return board
    num = len(layout["slots"]) if board.registered else max(board.num_long_slots, 2)
    values = board.model_dump() | layout | {"slots_known": False}
    values["lane_modes"] = layout["lane_modes"][:num]
    # The slots of the CPU are of the record's generation, narrow ones of the chipset's.
    own = board.slots[0].pcie_generation
    first = layout["slots"][0]["pcie_generation"]
    of_chipset = _read_chipset_slots().get(board.chipset)
    generations = []
    for slot, lanes in zip(layout["slots"][:num], values["lane_modes"], strict=True):
        usual = own if slot["pcie_generation"] == first else slot["pcie_generation"]
        is_narrow = of_chipset is not None and lanes[-1] <= _LANES_OF_CHIPSET
        generations.append(of_chipset[1] if of_chipset is not None and is_narrow else usual)
    values["slots"] = [
        slot | {"pcie_generation": generation}
        for slot, generation in zip(layout["slots"][:num], generations, strict=True)
    ]
    values["flags"] = (*board.flags, LANES_USUAL, "layout_assumed")
    return check_record(Board, values, board.name)


_LANES_OF_CHIPSET: Final = 4
"""Most lanes of a slot that hangs on a desktop chipset: those of the CPU have eight or sixteen."""


@functools.cache
def _read_chipset_slots() -> dict[str, tuple[int, int]]:
    """Return the highest generations of slots by chipset: of those with the CPU's lanes, and of those on the
    chipset."""
    columns = ("chipset", "cpu_generation", "chipset_generation", "source")
    rows = read_csv(FOLDER / "chipset_slots.csv", columns)
    return {
        cells["chipset"]: (int(cells["cpu_generation"]), int(cells["chipset_generation"]))
        for _, cells in rows
    }


_BOARD_WORD: Final = re.compile(r"[a-z0-9+-]+")
_NAME_WORD: Final = re.compile(r"[a-z0-9.+]+")


def with_line_figures(psu: Psu) -> Psu:
    """Return a supply whose plugs or grade no record states with those of its product line, if the line is known."""
    lacks = {PLUGS_UNKNOWN, GRADE_UNKNOWN} & set(psu.flags)
    if not lacks:
        return psu
    words = set(_NAME_WORD.findall(psu.name.lower()))
    named = (
        figures for line, figures in _read_psu_lines() if line <= words and figures["power_w"] == psu.power_w
    )
    line = next(named, None) or (_usual_figures(psu) if _ATX3.search(psu.name) else None)
    if line is None:
        return psu
    plugs = {key: line[key] for key in ("num_eps", "num_16_pin", "num_8_pin")}
    grade = {"grade": line["grade"]}
    lacks = lacks if line["grade"] != psu.grade else lacks - {GRADE_UNKNOWN}
    flags = tuple(flag for flag in psu.flags if flag not in lacks)
    flags += (PLUGS_OF_LINE,) if PLUGS_UNKNOWN in lacks else ()
    changes = (plugs if PLUGS_UNKNOWN in lacks else {}) | (grade if GRADE_UNKNOWN in lacks else {})
    return psu.model_copy(update={**changes, "flags": flags})


_ATX3: Final = re.compile(
    r"\bATX\s?3(?:\.\d)?\b|\bPCI-?E\s?5(?:\.\d)?\b|\b12V-?2X6\b|\b12VHPWR\b", re.IGNORECASE
)
"""Words by which makers name supplies with a 16-pin plug of their own (ATX 3.0, section 3.2)."""


def _usual_figures(psu: Psu) -> dict[str, Any]:
    """Return the plugs of a supply whose name says that it has a 16-pin plug: the fewest that are usual for its size.

    Source: own choice, after the counted supplies of the catalog; the grade stays that of the record.
    """
    num = max(2, int(psu.power_w // 300))
    return {"num_eps": 1 + (psu.power_w >= 750), "num_16_pin": 1, "num_8_pin": num, "grade": psu.grade}


@functools.cache
def systems() -> tuple[System, ...]:
    """Return the complete machines."""
    path = FOLDER / "systems.toml"
    entries = read_toml(path)["system"]
    return tuple(check_record(System, _si(entry), f"{path.name}: {entry.get('id')}") for entry in entries)


@functools.cache
def used_machines() -> tuple[UsedMachine, ...]:
    """Return the machines that are sold second-hand as hosts of cards, each part with the machine's name.

    Raises: InputFileError: the bundled file is damaged.
    """
    boards = {board.name: board for board in planner_parts(Board)}
    cpus = {cpu.name: cpu for kind in (planner_parts(Cpu), parts_for_lists(Cpu)) for cpu in kind}
    found = []
    for entry in read_toml(_USED_MACHINES)["machine"]:
        pieces = _pieces_sold_with(entry, entry["name"])
        sold = {"sold_with": entry["name"], "source": entry["source"]}
        pieces["board"] = boards[entry["board"]].model_copy(update=sold)
        pieces["cpu"] = cpus[entry["cpu"]].model_copy(update=sold)
        values = {"id": entry["id"], "name": entry["name"], **pieces}
        found.append(UsedMachine.model_validate(values))
    return tuple(found)


def supply_and_case_of(board: Board) -> tuple[Psu, Case] | None:
    """Return the supply and the case with which a board is sold as a machine; None if no record states them.

    Raises: InputFileError: the bundled file is damaged.
    """
    return _read_towers().get(board.name)


def own_supply(board: Board, psu: Psu) -> Psu:
    """Return a supply that a list names with the board of a whole machine as that machine's, with the plugs that a
    record states for its size; with any other board the supply as it is."""
    if board.form_factor != "server":
        return psu
    sold = supply_and_case_of(board)
    if sold is not None and PLUGS_UNKNOWN in psu.flags and sold[0].power_w == psu.power_w:
        return sold[0].model_copy(update={"name": psu.name})
    return psu.model_copy(update={"sold_with": board.name})


def cpu_of(board: Board) -> Cpu | None:
    """Return the CPU with which every machine of a board's name is sold; None if the board is sold with several.

    Raises: InputFileError: the bundled file is damaged.
    """
    names = {cells["name"]: cells["cpu"] for cells, _ in _rows("machines.csv")}
    pool = (*planner_parts(Cpu), *parts_for_lists(Cpu))
    return next((cpu for cpu in pool if cpu.name == names.get(board.name)), None)


@functools.cache
def _read_towers() -> dict[str, tuple[Psu, Case]]:
    tables = read_toml(_USED_MACHINES)
    found = {}
    for entry in (*tables["machine"], *tables["tower"]):
        pieces = _pieces_sold_with(entry, entry["board"])
        found[entry["board"]] = (pieces["psu"], pieces["case"])
    for cells, _ in _rows("machines.csv"):
        if cells["psu_w"]:
            pieces = _pieces_sold_with(_sold_pieces(cells), cells["name"])
            found[cells["name"]] = (pieces["psu"], pieces["case"])
    return found


def _sold_pieces(cells: Mapping[str, str]) -> dict[str, Any]:
    """Return the supply and the case with which a machine of `machines.csv` is usually sold."""
    maker = cells["manufacturer"]
    is_small = float(cells["max_gpu_mm"]) < _LEAST_FULL_HEIGHT_MM
    psu = {
        "name": f"{maker} {cells['psu_w']} W supply",
        "power_w": cells["psu_w"],
        "grade": "gold" if cells["registered"] == "true" else "bronze",
        "num_eps": 1,
        "num_8_pin": cells["plugs"],
    }
    case = {
        "name": f"{cells['name']} case",
        "form_factor": "Mini-ITX" if is_small else "ATX Mid Tower",
        "boards": ["server"],
        "max_gpu_mm": cells["max_gpu_mm"],
        "expansion_slots": cells["expansion_slots"],
    }
    return {"psu": psu, "case": case, "source": f"{cells['name']}: the maker's specifications (unverified)"}


_LEAST_FULL_HEIGHT_MM: Final = 200.0
"""Room for cards below which a case takes half-height cards only [mm]: their boards are up to 168 mm long (PCIe card
electromechanical specification)."""


def _pieces_sold_with(entry: Mapping[str, Any], machine: str) -> dict[str, Any]:
    """Return the records of the parts that an entry of a machine describes, each with the machine's name."""
    sold = {"sold_with": machine, "source": entry["source"]}
    kinds = {"memory": "ram", "psu": "psu", "case": "case", "cooler": "cooler"}
    return {
        name: check_record(_KINDS[kind], {**_si(entry[name]), **sold}, f"{_USED_MACHINES.name}: {machine}")
        for name, kind in kinds.items()
        if name in entry
    }


def boards_for(case: Case | None) -> tuple[Board, ...]:
    """Return the boards that plans consider; for a case that takes none of them also those that it takes of the boards
    that only lists name, such as Mini-ITX."""
    every = planner_parts(Board)
    if case is None or any(board.form_factor in case.boards for board in every):
        return every
    named = (one for one in named_parts("board") if isinstance(one, Board))
    return (*every, *(one for one in named if one.form_factor in case.boards and one.slots_known))


@functools.cache
def power_floors() -> Mapping[str, PowerFloor]:
    """Return the lowest power limits that drivers accept, by accelerator; an unlisted accelerator has no known limit.

    Raises: InputFileError: the bundled file is damaged.
    """
    path = FOLDER / "power_floors.csv"
    rows = read_csv(path, ("accelerator", "fraction", "basis", "observed_on", "source"))
    floors = [check_record(PowerFloor, cells, f"{path.name}: row {number}") for number, cells in rows]
    return {floor.accelerator: floor for floor in floors}


@functools.cache
def card_rooms() -> Mapping[str, CardRoom]:
    """Return what rack servers take as a card, by the name of the machine; of an unlisted one nothing is known.

    Raises: InputFileError: the bundled file is damaged.
    """
    path = FOLDER / "card_rooms.csv"
    rows = read_csv(path, ("machine", "slots", "watts", "basis", "observed_on", "source"))
    found = [check_record(CardRoom, cells, f"{path.name}: row {number}") for number, cells in rows]
    return {one.machine: one for one in found}


USUAL_SUPPLIES_W: Final = (450, 550, 650, 750, 850, 1000, 1200, 1300, 1500, 1600, 1800, 2000, 2200)
"""Ratings that supplies are usually sold with [W]: 72 % of the 2,360 supplies known by name from 450 W on have one of
them, and 99 % lie within 50 W of one."""


@functools.cache
def supply_advice() -> Mapping[str, SupplyAdvice]:
    """Return the supplies that makers advise, by accelerator; an unlisted accelerator has no advice that was read.

    Raises: InputFileError: the bundled file is damaged.
    """
    path = FOLDER / "supply_advice.csv"
    rows = read_csv(path, ("accelerator", "watts", "observed_on", "source"))
    found = [check_record(SupplyAdvice, cells, f"{path.name}: row {number}") for number, cells in rows]
    return {one.accelerator: one for one in found}


def advised_supply(names: Iterable[str]) -> SupplyAdvice | None:
    """Return the largest supply that makers advise for one of some accelerators; None if no advice was read."""
    known = (supply_advice().get(name) for name in names)
    return max(filter(None, known), key=lambda one: one.watts, default=None)


def usual_supply_w(least_w: float) -> float:
    """Return the smallest usual rating of a supply that is not below a power [W]."""
    return next((size for size in USUAL_SUPPLIES_W if size >= least_w), math.ceil(least_w / 50.0) * 50.0)


def _rows(file: str) -> Iterator[tuple[dict[str, str], str]]:
    path = FOLDER / file
    columns = _header(file)
    for number, cells in read_csv(path, columns):
        yield cells, f"{file}: row {number}"


@functools.cache
def _header(file: str) -> tuple[str, ...]:
    """Return the columns of a bundled file from its own header; the records check the content."""
    header = next(line for line in read_lines(FOLDER / file) if not line.startswith("#"))
    return tuple(header.strip().split(","))


@functools.cache
def _more_tables() -> dict[str, Any]:
    return read_toml(FOLDER / "more_parts.toml")


_UNITS: Final[dict[str, tuple[str, float]]] = {
    "length_mm": ("length_m", 1.0 / KILO),
    "max_gpu_mm": ("max_gpu_m", 1.0 / KILO),
    "max_cooler_mm": ("max_cooler_m", 1.0 / KILO),
    "max_psu_mm": ("max_psu_m", 1.0 / KILO),
    "height_mm": ("height_m", 1.0 / KILO),
    "radiator_mm": ("radiator_m", 1.0 / KILO),
    "radiator_clear_mm": ("radiator_clear_m", 1.0 / KILO),
    "radiator_front_mm": ("radiator_front_m", 1.0 / KILO),
    # Modules and board capacities are sold in binary gigabytes, drives and accelerators in decimal ones.
    "max_ram_gb": ("max_ram_bytes", GIB),
    "ram_max_gb": ("ram_max_bytes", GIB),
    "module_gb": ("module_bytes", GIB),
    "capacity_gb": ("capacity_bytes", GB),
    "memory_gb": ("memory_bytes", GB),
    "gbit_per_s": ("bits_per_s", GIGA),
}


def _si(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells of one part in SI units: lists split, empty ones left out, a CPU's series looked up."""
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
        # The class is that of the middle model; 64 cores cost far more than its median.
        price_class = "cpu/threadripper-zen2" if int(values["cores"]) <= 32 else ""
    elif series.id.startswith(("threadripper", "epyc")):
        price_class = f"cpu/{series.id}-{values['name'].split()[-1].lower()}"
    return {
        **{key: value for key, value in values.items() if key not in unused},
        "series": series,
        "price_class": price_class,
    }


def _lets_correct(socket: str, chipset: str) -> bool:
    """Whether a chipset lets the CPUs of its socket correct errors of memory, as far as their series say."""
    able = [series.ecc_chipsets for series in cpu_series().values() if series.socket == socket]
    return not any(able) or any(chipset in chipsets for chipsets in able)


def _listed_board(cells: dict[str, str], where: str, reviewed: Mapping[str, Any] | None = None) -> Board:
    """Return the board of an OpenDB row. Its first x16 slot has the CPU's lanes; further slots are known only from a
    review of the board or the table of slots."""
    cells = dict(cells)
    listed = [
        (int(generation), int(lanes))
        for count, generation, lanes in _SLOT_LIST.findall(cells.pop("slots"))
        for _ in range(int(count))
    ]
    slots = [generation for generation, lanes in listed if lanes == 16]
    # A list of slots may state what the slot's length or a newer CPU would allow: the chipset's boards give less.
    most, _ = _read_chipset_slots().get(cells["chipset"], (max(slots), 0))
    values = _si({key: value for key, value in cells.items() if key != "eps_8_pin"})
    values |= {
        "num_eps": int(cells["eps_8_pin"] or 1),
        "sockets": 2 if _TWO_SOCKETS.search(cells["name"]) else 1,
        "registered": cells["socket"] in _REGISTERED_SOCKETS
        or any(series.registered for series in cpu_series().values() if cells["chipset"] in series.chipsets),
        "slots": [{"position": 1, "pcie_generation": min(max(slots), most)}],
        "slots_known": cells["form_factor"] == "Mini-ITX",  # a Mini-ITX board has room for one
        "lane_modes": [[16]],
        "num_long_slots": min(sum(lanes >= 4 for _, lanes in listed), 19),
    }
    if not _lets_correct(cells["socket"], cells["chipset"]):
        values["ecc"] = False
    reviewed = reviewed or _read_wired_boards().get(cells["name"])
    if reviewed is not None:
        flags = tuple(flag for flag in values.get("flags", ()) if flag != "unverified")
        values |= _layout(reviewed) | {
            "flags": (*flags, *reviewed.get("flags", ())),
            "source": f"OpenDB; {reviewed['source']}",
        }
    return check_record(Board, values, where)


def _own_board(entry: Mapping[str, Any]) -> Board:
    return check_record(Board, _si(entry) | _layout(entry), f"boards_reviewed.toml: {entry.get('id')}")


def _layout(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the board's slots from entries position.generation, and its lanes by number of cards."""
    pairs = (text.split(".") for text in entry["slots"])
    return {
        "slots_known": entry.get("slots_known", True),
        "slots": [{"position": int(position), "pcie_generation": int(gen)} for position, gen in pairs],
        "lane_modes": [[int(lanes) for lanes in mode.split()] for mode in entry["lane_modes"]],
    }


make_callable(__name__)
