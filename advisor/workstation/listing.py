"""User's parts list, as free text or fields, turned into a machine with its bill."""

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from advisor.catalog import parts
from advisor.catalog.errors import InputFileError
from advisor.catalog.files import read_toml
from advisor.catalog.part_prices import PriceBook, price_of
from advisor.catalog.schema.part import (
    Board,
    Bridge,
    Case,
    Cooler,
    Cpu,
    GpuCard,
    Nic,
    Part,
    Psu,
    PsuLink,
    RamKit,
    Riser,
    Storage,
)
from advisor.catalog.units import GB
from advisor.workstation.assembly import Assembly, Cards, Memory, Risers, Supplies
from advisor.workstation.part_names import (
    GIGABYTES,
    WATTS,
    WORDS,
    UnknownPartError,
    accelerator_in,
    all_by_words,
    ambiguous_part,
    board_by_chipset,
    by_words,
    category_of,
    cpu_in,
    gpu_names,
    is_bare,
    kit_of,
    named_supply,
    names_a_model,
    plain_words,
    psu_of,
    typical_card,
    unknown_part,
    without_words,
)
from advisor.workstation.picker_text import read_picker_text
from advisor.workstation.plan import PartLine, part_line, total_of
from advisor.workstation.typed_line import TypedLine, price_number, read_line

_DISK: Final = re.compile(r"\brpm\b|hard drive|\bhdd\b|\bsata\b|2\.5\"", re.IGNORECASE)
MOST_PARTS: Final = 256
"""Largest number of parts in one list. A tower of eight cards has about 40."""
FIELDS: Final = ("category", "name", "quantity", "price_usd", "claims")


@dataclass(frozen=True, slots=True)
class Listing:
    """Parts list as understood."""

    machine: Assembly
    bill: tuple[PartLine, ...]
    lines: tuple[TypedLine, ...]
    """Lines in the order of the bill."""
    catalog_usd: tuple[float | None, ...]
    """Price from the catalog for each line [USD]; None if it has none."""
    notes: tuple[str, ...]
    unjudged: tuple[str, ...]
    """Lines that name a kind of part but no model: priced, not judged."""
    unknown: tuple[UnknownPartError, ...]
    """Lines whose part is in no record, or in several: named, priced, judged unknown."""
    claims: dict[str, int]
    """Numbers that the list states about its CPU: channels, lanes."""

    @property
    def total_usd(self) -> float:
        return total_of(self.bill)


def read_listing(path: Path | None, book: PriceBook, texts: Sequence[str] = ()) -> Listing:
    """Return the machine of a TOML file (`parts = ["2x RTX 5090 $4500", ...]`, or tables [[part]] with category, name,
    quantity, price_usd), of a text file with a part in each row, as PCPartPicker writes it, and of further lines as
    typed.

    Raises: InputFileError: the file cannot be read, lists nothing, or nothing that the catalog holds.
    """
    lines = [read_line(text, f"--part {i}") for i, text in enumerate(texts, 1)]
    if path is not None and path.suffix.lower() in (".txt", ".md"):
        lines += read_picker_text(path)
    elif path is not None:
        content = read_toml(path)
        lines += _free_lines(path, content.get("parts", []))
        lines += _table_lines(path, content.get("part", []))
    if not lines:
        raise InputFileError(
            f"{path or 'nothing'}: lists no parts",
            why="neither parts = [...] nor [[part]]",
            fix='e.g. parts = ["2x RTX 5090 $4500", "Ryzen 9 9950X", "128 GB DDR5"]',
        )
    num_parts = sum(line.quantity for line in lines)
    if num_parts > MOST_PARTS:
        raise InputFileError(
            f"{path or '--part'}: lists {num_parts:,} parts",
            why=f"a list is of one machine, of at most {MOST_PARTS} parts",
            fix="list one machine",
        )
    return _ListingReader(book).read(lines)


def _free_lines(path: Path, entries: Any) -> list[TypedLine]:
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise InputFileError(f"{path}: parts is no list of texts", fix='e.g. parts = ["2x RTX 5090 $4500"]')
    return [read_line(entry, f"{path}: part {i}") for i, entry in enumerate(entries, 1)]


def _table_lines(path: Path, entries: Any) -> list[TypedLine]:
    if not isinstance(entries, list):
        raise InputFileError(f"{path}: part is no array of tables", fix="write each part under [[part]]")
    return [_table_line(entry, f"{path}: [[part]] {i}") for i, entry in enumerate(entries, 1)]


def _table_line(entry: dict[str, Any], where: str) -> TypedLine:
    unknown = [key for key in entry if key not in FIELDS]
    if unknown:
        near = difflib.get_close_matches(unknown[0], FIELDS, n=1)
        raise InputFileError(
            f"{where}: field {unknown[0]}",
            why=f"fields are {', '.join(FIELDS)}",
            fix="correct it",
            hint=f"did you mean: {near[0]}" if near else "",
        )
    if not isinstance(entry.get("name"), str) or not entry["name"].strip():
        raise InputFileError(
            f"{where}: field name: missing", why="a part needs a name", fix='name = "RTX 5090"'
        )
    category = entry.get("category")
    if category is not None and category not in ("gpu", "cpu", *WORDS):
        near = difflib.get_close_matches(str(category), ("gpu", "cpu", *WORDS), n=1)
        raise InputFileError(
            f"{where}: field category: {category!r}",
            why=f"categories are gpu, cpu, {', '.join(WORDS)}",
            fix="correct it, or leave it out",
            hint=f"did you mean: {near[0]}" if near else "",
        )
    quantity = entry.get("quantity", 1)
    if not isinstance(quantity, int) or isinstance(quantity, bool) or not 1 <= quantity <= 16:
        raise InputFileError(
            f"{where}: field quantity: {quantity!r}", why="a number from 1 to 16", fix="correct it"
        )
    line = replace(read_line(entry["name"], where), quantity=quantity, category=category)
    if "price_usd" in entry:
        line = replace(line, usd=price_number(str(entry["price_usd"]), where))
    return line


class _ListingReader:
    """Reader that resolves lines one by one; it reads the board first, as memory depends on it."""

    def __init__(self, book: PriceBook) -> None:
        self._book = book
        self._notes: list[str] = []
        self._unknown: list[UnknownPartError] = []
        self._unjudged: list[str] = []
        self._machine: dict[str, Any] = {}
        self._found: list[tuple[TypedLine, str, Part | None, int]] = []

    def read(self, lines: Sequence[TypedLine]) -> Listing:
        named = [(line, self._category_of(line)) for line in lines]
        order = {"board": 0, "cpu": 1}
        for line, category in sorted(named, key=lambda pair: order.get(pair[1], 2)):
            part, count = self._resolve_part(line, category)
            self._found.append((line, category, part, count))
            if part is not None:
                self._place(category, part, count)
        if len(self._unknown) == len(lines):
            raise self._unknown[0]
        self._found.sort(key=lambda entry: lines.index(entry[0]))
        claims: dict[str, int] = {}
        for line in lines:
            claims |= line.claims
        return Listing(
            machine=self._assembly(),
            bill=tuple(self._bill_line(*entry) for entry in self._found),
            lines=tuple(entry[0] for entry in self._found),
            catalog_usd=tuple(self._catalog_usd(part, count) for _, _, part, count in self._found),
            notes=tuple(self._notes),
            unjudged=tuple(self._unjudged),
            unknown=tuple(self._unknown),
            claims=claims,
        )

    def _category_of(self, line: TypedLine) -> str:
        """Return the kind of part that a line names; `unknown` if nothing in it is known."""
        try:
            return line.category or category_of(line)
        except UnknownPartError as error:
            self._unknown.append(error)
            return "unknown"

    def _resolve_part(self, line: TypedLine, category: str) -> tuple[Part | None, int]:
        """Return the part that a line means and its number; None if no model is named, or none that is known."""
        if category not in _RESOLVERS:
            if category != "unknown":
                self._unjudged.append(line.what)
            return None, line.quantity
        try:
            part, count = _RESOLVERS[category](self, line)
        except UnknownPartError as error:
            self._unknown.append(error)
            return None, line.quantity
        if part is None:
            self._unjudged.append(line.what)
        return part, count

    def note(self, line: TypedLine, part: Part) -> None:
        self._notes.append(f"{line.what!r} is taken as {part.name}")

    @property
    def board(self) -> Board | None:
        return self._machine.get("board")

    @property
    def cpu(self) -> Cpu | None:
        return self._machine.get("cpu")

    def _place(self, category: str, part: Part, count: int) -> None:
        places = {"gpu": "cards", "psu": "psus", "ram": "memory", "bridge": "bridges", "riser": "risers"}
        place = places.get(category, category)
        if place in ("cards", "psus", "bridges", "nics", "nic", "link"):
            self._machine.setdefault(place, [])
            self._machine[place] += [part] * count
        elif place == "memory":
            old = self._machine.get("memory")
            more = old.num_kits if old is not None and old.kit == part else 0
            self._machine["memory"] = Memory(part, count + more)  # type: ignore[arg-type]
        elif place == "storage":
            old = self._machine.get("storage")
            if old is None or old.capacity_bytes < part.capacity_bytes:  # type: ignore[attr-defined]
                self._machine["storage"] = part
        elif place == "risers":
            self._machine["risers"] = Risers(part, count)  # type: ignore[arg-type]
        else:
            self._machine[place] = part

    def _assembly(self) -> Assembly:
        held = self._machine
        psus = tuple(held.pop("psus", ()))
        links = held.pop("link", [])
        return Assembly(
            cards=Cards(tuple(held.pop("cards"))) if "cards" in held else None,
            supplies=Supplies(psus, links[0] if links else None) if psus else None,
            bridges=tuple(held.pop("bridges", ())),
            nics=tuple(held.pop("nic", ())),
            **held,
        )

    def _catalog_usd(self, part: Part | None, count: int) -> float | None:
        price = price_of(part, self._book) if part is not None else None
        return None if price is None else price.usd * count

    def _bill_line(self, line: TypedLine, category: str, part: Part | None, count: int) -> PartLine:
        price = price_of(part, self._book) if part is not None and line.usd is None else None
        found = PartLine(category, line.what, count, flags=("not judged",))
        if part is not None:
            found = part_line(category, part, count, price)
        if line.usd is None:
            return found
        usd, low, high = (None if v is None else v / count for v in (line.usd, line.usd_low, line.usd_high))
        stated = replace(found, unit_price_usd=usd, price_low_usd=low, price_high_usd=high)
        return replace(stated, price_basis="user", source="your list")

    # Each category has a resolver, which returns the part that a line means and its number.

    def gpu(self, line: TypedLine) -> tuple[Part | None, int]:
        accelerator = accelerator_in(line.what)
        if accelerator is None:
            raise unknown_part(line, "card", gpu_names())
        cards = [card for card in parts.planner_parts(GpuCard) if card.accelerator == accelerator]
        if not cards:
            raise UnknownPartError(
                f"{line.where}: {line.what!r}",
                why=f"the catalog has no card with {accelerator}",
                fix="advisor catalog parts --category gpu lists them",
            )
        maker = [card for card in cards if card.manufacturer.lower() in plain_words(line.what).split()]
        card = by_words(line.what, cards) or typical_card(maker or cards)
        self.note(line, card)
        return card, line.quantity

    def cpu_(self, line: TypedLine) -> tuple[Part | None, int]:
        cpu = cpu_in(line.what)
        if cpu is None:
            raise unknown_part(line, "CPU", [cpu.name for cpu in parts.planner_parts(Cpu)])
        if not set(plain_words(line.what).split()) <= set(plain_words(cpu.name).split()):
            self.note(line, cpu)
        return cpu, line.quantity

    def board_(self, line: TypedLine) -> tuple[Part | None, int]:
        words = without_words(line.what, WORDS["board"])
        board = board_by_chipset(line.what)
        if board is None or names_a_model(words, board.chipset.lower(), board.socket.lower()):
            board = self._named_board(line, words)
        if board is None:
            if is_bare(line.what, "board"):
                return None, 1
            raise unknown_part(line, "board", [board.name for board in parts.planner_parts(Board)])
        self.note(line, board)
        return board, 1

    def _named_board(self, line: TypedLine, words: str) -> Board | None:
        """Return the board of that name; another maker's board with the same chipset does not count."""
        found = all_by_words(words, parts.planner_parts(Board), strict=True) or all_by_words(
            words, parts.parts_for_lists(Board), strict=True
        )
        if len({(board.socket, board.chipset, board.ram_type) for board in found}) > 1:
            raise ambiguous_part(line, "board", found)
        return min(found, key=lambda board: (len(board.name), board.name), default=None)

    def psu(self, line: TypedLine) -> tuple[Part | None, int]:
        match = WATTS.search(line.what)
        found = all_by_words(line.what, parts.planner_parts(Psu)) or all_by_words(
            line.what, parts.parts_for_lists(Psu)
        )
        if len({psu.power_w for psu in found}) > 1:
            raise ambiguous_part(line, "supply", found)
        named = min(found, key=lambda psu: (len(psu.name), psu.name), default=None)
        if named is None and match is None:
            if is_bare(line.what, "psu"):
                return None, line.quantity
            raise unknown_part(line, "supply", [psu.name for psu in parts.planner_parts(Psu)])
        watts = float(match.group(1)) if match else 0.0
        psu = named or (named_supply(watts, line) if names_a_model(line.what) else psu_of(watts, line))
        self.note(line, psu)
        return psu, line.quantity

    def ram(self, line: TypedLine) -> tuple[Part | None, int]:
        named = by_words(line.what, parts.planner_parts(RamKit)) if names_a_model(line.what) else None
        kit = named or kit_of(line, self.board, self.cpu)
        if kit is None:
            return None, line.quantity
        self.note(line, kit)
        return kit, line.quantity

    def storage(self, line: TypedLine) -> tuple[Part | None, int]:
        match = GIGABYTES.search(line.what)
        if _DISK.search(line.what):
            return None, line.quantity  # no rule reads disks
        found = all_by_words(line.what, (*parts.planner_parts(Storage), *parts.parts_for_lists(Storage)))
        if match is None and len({drive.capacity_bytes for drive in found}) > 1:
            raise ambiguous_part(line, "drive", found)
        named = min(found, key=lambda drive: (len(drive.name), drive.name), default=None)
        if named is None and match is None:
            return None, line.quantity
        drive = named
        if drive is None and match is not None:
            size = float(match.group(2)) * (1000 if match.group(3).lower() == "tb" else 1) * GB
            drive = Storage(
                id="typed-drive", name=line.what, capacity_bytes=size, pcie_generation=4, source="your list"
            )
        return drive, line.quantity

    def by_name(self, kind: type[Part], category: str, line: TypedLine) -> tuple[Part | None, int]:
        pool = [*parts.planner_parts(kind), *parts.parts_for_lists(kind)]
        part = by_words(line.what, pool)
        if part is None and not is_bare(line.what, category):
            raise unknown_part(line, category, [each.name for each in pool])
        if part is not None:
            self.note(line, part)
        return part, line.quantity


_RESOLVERS: Final[dict[str, Callable[[_ListingReader, TypedLine], tuple[Part | None, int]]]] = {
    "gpu": _ListingReader.gpu,
    "cpu": _ListingReader.cpu_,
    "board": _ListingReader.board_,
    "psu": _ListingReader.psu,
    "ram": _ListingReader.ram,
    "storage": _ListingReader.storage,
    "case": lambda reader, line: reader.by_name(Case, "case", line),
    "cooler": lambda reader, line: reader.by_name(Cooler, "cooler", line),
    "riser": lambda reader, line: reader.by_name(Riser, "riser", line),
    "bridge": lambda reader, line: (parts.planner_parts(Bridge)[0], line.quantity),
    "nic": lambda reader, line: reader.by_name(Nic, "nic", line),
    "link": lambda reader, line: (parts.planner_parts(PsuLink)[0], line.quantity),
}
