"""User's parts list, as free text or fields, turned into a machine with its bill."""

import difflib
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from advisor.catalog import parts
from advisor.catalog.errors import InputFileError
from advisor.catalog.files import MOST_TOML_BYTES, read_json, read_text, read_toml
from advisor.catalog.part_prices import PriceBook, listed_price_of
from advisor.catalog.schema.part import Part, RamKit, System
from advisor.workstation.assembly import (
    HOT_PLUG,
    SERVER,
    Assembly,
    Cards,
    Circuit,
    Memory,
    Risers,
    Supplies,
    is_server,
)
from advisor.workstation.card_names import find_card_name
from advisor.workstation.foreign_words import regex, word_table
from advisor.workstation.line_pieces import (
    kind_of,
    names_a_purpose,
    names_no_part,
    split_line,
    with_price_of_title,
)
from advisor.workstation.list_currency import US_DOLLARS, Money, assumption, write_amounts
from advisor.workstation.list_remarks import (
    Remarks,
    as_owned,
    read_remarks,
    split_alternatives,
    with_additions,
    with_swaps,
    without_repetitions,
)
from advisor.workstation.part_names import (
    WORDS,
    UnknownPartError,
    category_of,
    display_card_in,
    is_known,
    is_title,
    module_kind,
    names_no_product,
    server_in,
    with_fans,
)
from advisor.workstation.part_reader import RESOLVERS, PartReader
from advisor.workstation.pasted_text import split_sections
from advisor.workstation.picker_text import ANY_SIGNS, TABLE_SIGNS, read_pasted_text
from advisor.workstation.plan import IN_ANOTHER, WITH_OTHERS, PartLine, part_line, total_of
from advisor.workstation.system_names import can_join, with_laptop_cards
from advisor.workstation.typed_line import (
    LABELS,
    QUESTION,
    TypedLine,
    check_length,
    num_pieces,
    plain_text,
    price_number,
    read_line,
    with_factor,
    without_price,
)
from advisor.workstation.weighing import machines_apart, weigh

MOST_PARTS: Final = 256
"""Largest number of parts in one list. A tower of eight cards has about 40."""
MOST_CARDS: Final = 20
"""Largest number of cards in one list. Boards with the most slots, for mining, have 19."""
MOST_SOCKETS: Final = 8
"""Largest number of CPUs of one machine (eight Xeons of the 8800 series); a larger number counts threads."""
_LABELS_OF_A_LIST: Final = 3
"""Number of labelled rows from which a row without a label that speaks of a build is the title, whatever it names."""
WHOLE_PRICE_IS_DOUBTFUL_BELOW: Final = 0.4
"""Take the price of several parts as that of each if, divided by their number, it is below 40 % of the catalog's, and
undivided it is within a factor of two. Used cards cost 50 to 100 % of the catalog's price; own choice."""
PRICE_OF_EACH_IS_LIKELY_BELOW: Final = 0.55
"""Take the price of several parts as that of each also below this fraction, if undivided it is within a quarter of the
catalog's; own choice."""
_LEAST_OF_A_PAGE: Final = 3
"""Number of known parts from which rows without the mark of a part are no parts. Own choice: a shorter list may be in
words that no record has."""
LEAST_SHARE_OF_MEMORY: Final = 0.15
"""Fraction of the catalog's price below which the price of several modules is that of each: used registered modules
cost a quarter of new ones. Own choice."""
USUAL_SHARE_OF_MEMORY: Final = 0.5
"""Usual price of listed memory over the catalog's price of new modules, as many lists have used ones. Own choice."""
LEAST_DIFFERENCE_OF_COLUMNS: Final = 0.5
"""Difference of the logarithmic errors of two readings of a column of prices from which it is of each piece: prices of
used parts, read as of all pieces, are up to 40 % below the catalog's. Own choice."""
FIELDS: Final = ("category", "name", "quantity", "price_usd", "claims")


@dataclass(frozen=True, slots=True)
class Listing:
    """Parts list as understood."""

    machine: Assembly
    bill: tuple[PartLine, ...]
    lines: tuple[TypedLine, ...]
    """Lines in the order of the bill."""
    catalog_usd: tuple[float | None, ...]
    """Price from the catalog for each line [USD]; None if it has none, or the part is owned."""
    notes: tuple[str, ...]
    unjudged: tuple[str, ...]
    """Lines that name a kind of part but no model: priced, not judged."""
    unknown: tuple[UnknownPartError, ...]
    """Lines whose part is in no record, or in several: named, priced, judged unknown."""
    claims: dict[str, int]
    """Numbers that the list states: channels and lanes of its CPU, and the memory that it calls one [GB]."""
    num_cpus: int = 0
    """Number of CPUs in the list, known or not."""
    system: System | None = None
    """Complete machine, if the list is one."""
    num_systems: int = 0
    """Number of such machines in the list."""
    circuit: Circuit | None = None
    """Wall circuit that the list states; None if it states none."""
    upgrade_usd: float | None = None
    """Sum for which the list asks for the next parts [USD], 0 if it names none; None if it asks for no parts."""
    is_running: bool = False
    """Whether the list speaks of a machine that its owner uses, a program printed it, or its sentences ask about parts
    or describe a machine: what they leave out is not missing."""
    wall_limit_w: float | None = None
    """Most power at the wall that the list allows [W]; None if it states none."""
    has_unnamed_cards: bool = False
    """Whether a line names a card by its accelerator alone."""

    num_added: int = 0
    """Number of cards that a question adds to those of the list."""

    foreign_total: str = ""
    """Price of the list in another currency than US dollars; one of its prices with dots if the list leaves open
    whether those of several pieces are of each; empty if it has none."""

    @property
    def total_usd(self) -> float:
        return total_of(self.bill)


def read_listing(path: Path | None, book: PriceBook, texts: Sequence[str] = ()) -> Listing:
    """Return the machine of a list in a file, and of further lines as typed; of a list that names machines to choose
    between, the first one.

    Raises: InputFileError: as `read_listings`.
    """
    return next(iter(read_listings(path, book, texts)))[1]


def read_listings(
    path: Path | None, book: PriceBook, texts: Sequence[str] = (), pasted: str = ""
) -> tuple[tuple[str, Listing], ...]:
    """Return the machines of a list in a file, of a text and of further lines as typed, with their names: one without a
    name, or each of those that a question names to choose between (`DGX Spark vs. 2x RTX 3090`).

    A TOML or JSON file has `parts = ["2x RTX 5090 $4500", ...]`, or tables [[part]] with category, name, quantity and
    price_usd; a text file has a part in each row, as PCPartPicker writes it; CSV is a table of any columns that name
    parts.

    Raises: InputFileError: the file cannot be read, lists nothing, or nothing that the catalog holds.
    """
    where: Path | str = "your text"
    if path is not None and path.suffix.lower() in _TEXT_FILES:
        pasted = read_text(path, MOST_TOML_BYTES)
        where = path
    given = pasted
    is_pasted = path is None or where is path
    entries = [] if is_pasted or path is None else _texts_of_file(path)
    tables = [] if is_pasted or path is None else _tables_of_file(path)
    places = [f"--part {i}" for i in range(1, len(texts) + 1)]
    places += [f"{path}: part {i}" for i in range(1, len(entries) + 1)]
    for text, place in zip((*texts, *entries), places, strict=True):
        check_length(text, place)
    typed = [" ".join(one.split()) for one in (*texts, *entries)]
    written, money, left_out = write_amounts("\n".join((*typed, pasted)))
    rows = written.split("\n")
    pasted = "\n".join(rows[len(typed) :])
    of_parts = [*map(read_line, rows[: len(typed)], places), *tables]
    unwritten = "\n".join((*texts, *entries, given))
    signs = TABLE_SIGNS.get(path.suffix.lower(), ANY_SIGNS) if path is not None else ANY_SIGNS
    sections = split_sections(pasted)
    found: list[tuple[str, Listing]] = []
    for heading, text in sections:
        lines = of_parts + (read_pasted_text(text, where, signs) if text else [])
        _check_length_of_list(lines, path)
        choices = (
            [("", lines)] if heading else weigh(lines) or machines_apart(lines) or split_alternatives(lines)
        )
        read, unread = _read_choices(choices, book, money)
        # A question that compares machines lists no whole one.
        found += [
            (
                heading or name,
                replace(
                    one,
                    is_running=one.is_running or bool(name),
                    notes=(*left_out, *one.notes, *unread, *_currency_notes(unwritten, one)),
                ),
            )
            for name, one in read
        ]
    return tuple(found)


def _read_choices(
    choices: Sequence[tuple[str, Sequence[TypedLine]]], book: PriceBook, money: Money
) -> tuple[list[tuple[str, Listing]], list[str]]:
    """Return the machines of a question that no record leaves unknown, and a note on each other one.

    Raises: InputFileError: no machine of the question is known.
    """
    read: list[tuple[str, Listing]] = []
    notes = []
    for place, (name, chosen) in enumerate(choices, 1):
        try:
            read.append((name, _ListingReader(book, money).read(chosen)))
        except UnknownPartError as error:
            if place == len(choices) and not read:
                raise
            notes.append(f"not compared, as no record has it: {name} ({error.what})")
    return read, notes


def _currency_notes(text: str, listing: Listing) -> list[str]:
    """Return a note on the currency that is assumed for the prices of a list; none if it has none."""
    is_priced = bool(listing.foreign_total) or any(line.usd for line in listing.lines)
    return list(filter(None, [assumption(text)])) if text and is_priced else []


_TEXT_FILES: Final = (".txt", ".md", *TABLE_SIGNS)


def _content_of_file(path: Path) -> dict[str, Any]:
    """Return the content of a TOML or JSON file; a JSON list is one of parts."""
    is_json = path.suffix.lower() == ".json"
    content = read_json(path, 'e.g. {"parts": ["2x RTX 5090 $4500"]}') if is_json else read_toml(path)
    return content if isinstance(content, dict) else {"parts": content}


def _are_tables(entries: Any) -> bool:
    return isinstance(entries, list) and bool(entries) and all(isinstance(one, dict) for one in entries)


def _texts_of_file(path: Path) -> list[str]:
    """Return the parts of a TOML or JSON file that are texts."""
    content = _content_of_file(path)
    entries = content.get("parts", []) or _by_kind(content)
    if _are_tables(entries):
        return []
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise InputFileError(f"{path}: parts is no list of texts", fix='e.g. parts = ["2x RTX 5090 $4500"]')
    return entries


def _tables_of_file(path: Path) -> list[TypedLine]:
    """Return the lines of the parts of a TOML or JSON file that are tables."""
    content = _content_of_file(path)
    entries = content.get("parts", [])
    tables = _table_lines(path, entries) if _are_tables(entries) else []
    return tables + _table_lines(path, content.get("part", []))


def _check_length_of_list(lines: Sequence[TypedLine], path: Path | None) -> None:
    """Refuse a list without parts, or with more than a machine has.

    Raises: InputFileError: it is one.
    """
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


def _by_kind(content: dict[str, Any]) -> list[str]:
    """Return the parts of a table whose keys are kinds of part: `{"cpu": "Ryzen 9 9950X", "gpu": ["RTX 4090"]}`."""
    found = []
    for key, value in content.items():
        words = key.lower().split("_")
        label = next((name for n in (2, 1) if (name := " ".join(words[:n])) in LABELS), "")
        values = value if isinstance(value, list) else [value]
        found += [f"{label}: {text}" for one in values if label and (text := _words_of(key, one))]
    return found


_UNITS: Final = {"gb": "GB", "tb": "TB", "watts": "W", "w": "W"}
_COUNTS: Final = ("count", "quantity", "qty", "modules", "number")


def _words_of(key: str, value: Any) -> str:
    """Return a field as people write it: a number with the unit of its key, a table as its fields."""
    if isinstance(value, dict):
        counts = [str(value[name]) for name in _COUNTS if isinstance(value.get(name), int)]
        words = [_words_of(name, one) for name, one in value.items() if name not in _COUNTS]
        size = value.get("capacity_gb", value.get("size_gb"))
        if counts and value.get("modules") and isinstance(size, int) and size % value["modules"] == 0:
            return " ".join((*words, f"({counts[0]}x{size // value['modules']}GB)"))
        return " ".join((*(f"{count}x" for count in counts), *filter(None, words)))
    if isinstance(value, str):
        return value
    unit = _UNITS.get(key.lower().rpartition("_")[2], "")
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return f"{value:g} {unit}" if is_number and unit else ""


def _table_lines(path: Path, entries: Any) -> list[TypedLine]:
    if not isinstance(entries, list):
        raise InputFileError(f"{path}: part is no array of tables", fix="write each part under [[part]]")
    return [_table_line(entry, f"{path}: [[part]] {i}") for i, entry in enumerate(entries, 1)]


def _with_names_of_fields(entry: dict[str, Any]) -> dict[str, Any]:
    """Return a table with the names of `FIELDS` for those that shops and programs write: qty, type, price."""
    columns = word_table("columns")
    fields = {"category": "category", "name": "name", "quantity": "quantity", "price": "price_usd"}
    alike = {
        alias: field for column, field in fields.items() for alias in columns[column] if field not in entry
    }
    return {key if key in FIELDS else alike.get(key.lower(), key): value for key, value in entry.items()}


def _table_line(entry: dict[str, Any], where: str) -> TypedLine:
    entry = _with_names_of_fields(entry)
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
    check_length(entry["name"], where)
    category = entry.get("category")
    category = LABELS.get(str(category).lower(), category)
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


_READ_FIRST: Final = {"board": 0, "cpu": 1, "riser": 3, "bridge": 3}
"""Order of reading by category, where it matters: the kind of memory follows from board and CPU, the number of risers
and the kind of bridge from the cards."""


_SINGLE: Final = frozenset(("board", "cpu", "case", "psu", "cooler"))
"""Kinds of part of which a machine usually has one."""
_INSIDE: Final = ("cpu", "ram", "storage", "psu", "cooler", "case")
"""Parts whose price a complete machine includes."""


@dataclass(frozen=True, slots=True)
class _ReadLine:
    """Line with the part that it means."""

    line: TypedLine
    category: str
    part: Part | None
    """Part of the catalog; None if the line names no model, or none that is known."""
    count: int


class _ListingReader(PartReader):
    """Reader that resolves lines one by one; it reads the board first, as memory depends on it."""

    def __init__(self, book: PriceBook, money: Money = US_DOLLARS) -> None:
        super().__init__(book)
        self._money = money

    def read(self, typed: Sequence[TypedLine]) -> Listing:
        unread = [line for line in typed if line.unread is not None]
        typed = [line for line in typed if line.unread is None]
        if not typed and unread and unread[0].unread is not None:
            raise unread[0].unread
        remarks = read_remarks(typed)
        is_running = remarks.is_running or _is_told(typed) or any(line.is_printed for line in typed)
        typed = remarks.lines
        self._notes += [*map(str, remarks.swaps), *remarks.notes]
        present = self._without_title(typed)
        split = [part for line in present for part in split_line(line)]
        lines, added = self._with_remarks(split or present, remarks)
        self._ram_type = next(filter(None, map(module_kind, lines)), "")
        self._note_counts_and_prices(lines, typed)
        lines = [self._with_bare_memory(self._without_threads(line), lines) for line in lines]
        lines = [*_with_board_of_server(lines), *unread]
        categories = [self._category_of(line) for line in lines]
        found = self._read_parts(lines, categories)
        _check_number_of_cards(found.values(), lines[0].where)
        if "cards" in self._machine and any(regex("name.has_fans").search(line.text) for line in present):
            self._machine["cards"] = [with_fans(card) for card in self._machine["cards"]]
        if (joined := self._joined_cpu()) is not None:
            self._machine["cpu"] = joined
        if not {"gpu", "unknown", "system"} & set(categories):
            self._machine.setdefault("cards", [])  # a machine without cards, whose CPU runs everything
        if len(self._unknown) == len(lines):
            raise self._unknown[0]
        read = [self._with_price_of_machine(found[place]) for place in range(len(lines))]
        foreign_total = self._foreign_total([one.line for one in read])
        if foreign_total:  # the bill has the prices of the catalog
            read = [replace(one, line=_with_catalog_price(one.line)) for one in read]
        claims: dict[str, int] = {}
        for line in lines:
            claims |= line.claims
        claims |= {"pooled_gb": remarks.pooled_gb} if remarks.pooled_gb else {}
        system = self._machine.pop("system", None)
        num_systems = sum(one.count for one in read if one.category == "system")
        self._note_systems(system, num_systems)
        is_sold_whole = system is not None or (self.board is not None and SERVER in self.board.flags)
        return Listing(
            machine=self._assembly(),
            bill=_with_bearer([self._bill_line(one) for one in read]),
            lines=tuple(one.line for one in read),
            catalog_usd=tuple(
                # What is inside a complete machine is not sold apart from it; what is owned is not bought.
                None
                if one.line.usd == 0.0 or (is_sold_whole and one.line.is_included and one.category in _INSIDE)
                else self._catalog_usd(one.part, one.count)
                for one in read
            ),
            notes=tuple(map(self._money.write_back, self._notes)),
            unjudged=tuple(self._unjudged),
            unknown=tuple(self._unknown),
            claims=claims,
            num_cpus=self._num_cpus,
            system=system,
            num_systems=num_systems,
            circuit=remarks.circuit,
            upgrade_usd=remarks.upgrade_usd,
            is_running=is_running,
            wall_limit_w=remarks.wall_limit_w,
            has_unnamed_cards=self._has_unnamed_cards,
            foreign_total=foreign_total,
            num_added=sum(one.new.quantity for one in remarks.additions) if added else 0,
        )

    def _read_parts(self, lines: list[TypedLine], categories: Sequence[str]) -> dict[int, _ReadLine]:
        """Return the lines with the parts that they mean, by place, and put the parts into the machine."""
        places = sorted(range(len(lines)), key=lambda place: _READ_FIRST.get(categories[place], 2))
        found: dict[int, _ReadLine] = {}
        self._num_cpus = sum(
            line.quantity for line, kind in zip(lines, categories, strict=True) if kind == "cpu"
        )
        for place in places:
            part, count = self._resolve(lines[place], categories[place])
            line = lines[place]
            # Prices of other used parts are far below the catalog's.
            is_doubtful = categories[place] in ("gpu", "system", "ram") and not line.is_of_column
            if is_doubtful and self._money.code is None:
                line = self._with_plausible_price(line, part, count)
            found[place] = _ReadLine(line, categories[place], part, count)
            if part is not None:
                self._place(categories[place], part, count)
        if self._money.code is None:
            self._price_each_alike(dict(enumerate(lines)), found)
        return found

    def _foreign_total(self, lines: Sequence[TypedLine]) -> str:
        """Return the price of a list in another currency than US dollars; empty if it has none."""
        prices = [line.usd for line in lines if line.usd]
        if self._money.code is None or not prices:
            return ""
        is_open = any(line.usd and line.quantity > 1 and not line.says_whole_or_each for line in lines)
        return f"{self._money.words(prices[0])} ..." if is_open else self._money.words(sum(prices))

    def _with_remarks(
        self, split: Sequence[TypedLine], remarks: Remarks
    ) -> tuple[list[TypedLine], tuple[str, ...]]:
        """Return the parts of a list once each, after the swaps and the additions of its sentences, and notes on the
        additions."""
        lines, repeated = without_repetitions(split)
        self._notes += repeated
        is_changed = bool(remarks.swaps or remarks.additions) or any(line.is_wanted for line in lines)
        tells_owned = any(line.is_owned for line in lines)
        asks_next = remarks.upgrade_usd is not None
        if not tells_owned and (asks_next or remarks.is_present or (remarks.is_running and is_changed)):
            # What joins a machine that is there is bought, the rest is not; a list may tell itself what is whose.
            lines = [line if line.is_wanted else as_owned(line) for line in lines]
        lines, added = with_additions(with_laptop_cards(with_swaps(lines, remarks.swaps)), remarks.additions)
        self._notes += added
        lines = self._without_replaced(self._without_remarks_on_cards(lines))
        return self._without_asides(lines), added

    def _without_replaced(self, lines: Sequence[TypedLine]) -> list[TypedLine]:
        """Return lines without the owned parts of a kind of which a machine has one, and the list buys another, and
        without those in whose place its question considers another."""
        kinds = [line.category or kind_of(line) for line in lines]
        bought = {kind for kind, line in zip(kinds, lines, strict=True) if not line.is_owned} & _SINGLE
        bought -= {"psu"} if "link" in kinds else set()
        gone = [line for kind, line in zip(kinds, lines, strict=True) if line.is_owned and kind in bought]
        asked = {
            kind: line
            for kind, line in zip(kinds, lines, strict=True)
            if kind in _SINGLE and line.block == QUESTION and not regex("remark.one_more").search(line.text)
        }
        for kind, line in zip(kinds, lines, strict=True):
            if kind in asked and line.block != QUESTION and "link" not in kinds:
                gone.append(line)
                self._notes.append(f"the list is judged with {asked[kind].what} in place of {line.what}")
        self._notes += [
            f"{line.what!r} is left out: the list buys another in its place" for line in gone if line.is_owned
        ]
        return [line for line in lines if line not in gone]

    def _without_asides(self, lines: Sequence[TypedLine]) -> list[TypedLine]:
        """Return the lines of a list with several parts without rows of a shop's page that name none: links, orders,
        dates, delivery."""
        known = [line for line in lines if line.category is not None or kind_of(line) is not None]
        asides = [
            line for line in lines if line not in known and line.usd is None and names_no_product(line.what)
        ]
        if len(known) < _LEAST_OF_A_PAGE or not asides:
            return list(lines)
        self._notes.append(f"not read as parts: {'; '.join(line.text.strip() for line in asides)}")
        return [line for line in lines if line not in asides]

    def _without_remarks_on_cards(self, lines: Sequence[TypedLine]) -> list[TypedLine]:
        """Return the lines without those that speak of the cards of others: `All 4 cards water cooled`."""
        have_cards = any(find_card_name(line.what) is not None for line in lines)
        spoken = [
            line
            for line in lines
            if have_cards
            and regex("list.of_the_cards").match(line.what)
            and find_card_name(line.what) is None
        ]
        # `Would the two cards run it` speaks of cards that other lines name.
        spoken += [
            line
            for line in lines
            if have_cards
            and line.usd is None
            and regex("list.cards_alone").fullmatch(line.what)
            and line not in spoken
        ]
        self._notes += [f"{line.text.strip()!r} names no card" for line in spoken]
        return [line for line in lines if line not in spoken]

    def _with_price_of_machine(self, read: _ReadLine) -> _ReadLine:
        """Return a line of a part that is in the price of the complete machine, unless it has its own."""
        is_inside = "system" in self._machine and read.category in _INSIDE
        is_priced = read.line.usd is not None or not is_inside
        return read if is_priced else replace(read, line=replace(read.line, is_included=True))

    def _without_title(self, typed: Sequence[TypedLine]) -> list[TypedLine]:
        """Return the lines that name parts; a title above them is noted, and its price is that of all."""
        # Software that a row labels and prices is no part, but what it costs counts.
        present = [
            line
            for line in typed
            if (line.category is not None and line.usd is not None)
            or not (
                names_a_purpose(plain_text(line))
                or all(map(names_no_part, regex("list.clause").split(plain_text(line))))
            )
        ] or list(typed)
        title = present[0]
        present = with_price_of_title(present)
        bare = without_price(title)
        if present[0] is title and title.usd and len(present) > _LEAST_OF_A_PAGE and is_title(bare):
            present = [bare, *present[1:]]
            parts_usd = sum(line.usd or 0.0 for line in present)
            self._notes.append(
                f"{title.text.strip()!r}: the price of the list, ${title.usd:,.0f}, is left out: the prices of its "
                f"parts sum to ${parts_usd:,.0f}"
            )
        if title.text not in [line.text for line in present]:
            self._notes.append(f"{title.text.strip()!r} is read as the title of the list")
        are_labelled = sum(line.category is not None for line in present) >= _LABELS_OF_A_LIST
        heading = present[0].text
        is_heading = are_labelled and not re.search(r"\d", heading) and not is_known(heading)
        if len(present) > 1 and (
            is_title(present[0], is_labelled=are_labelled) or (present[0].category is None and is_heading)
        ):
            self._notes.append(f"{present[0].text.strip()!r} is read as the title of the list")
            present = present[1:]
        return present

    def _note_counts_and_prices(self, lines: Sequence[TypedLine], typed: Sequence[TypedLine]) -> None:
        """Note the counts that words state, and the prices that do not count."""
        self._notes += [
            f"{line.text.strip()!r} counts as {line.quantity}"
            for line in lines
            if line.is_worded and line.quantity > 1
        ]
        self._notes += [
            f"{text!r} stands between a part and its price, and is read as no part"
            for line in typed
            for text in line.beside
        ]
        self._notes += [
            f"{line.where.partition(': row')[0]}: the price of the list, {line.unread_sum!r}, is left out: "
            f"the prices of its parts sum to ${sum(one.usd or 0.0 for one in lines):,.0f}"
            for line in typed
            if line.unread_sum
        ]

    def _price_each_alike(self, typed: dict[int, TypedLine], found: dict[int, _ReadLine]) -> None:
        """Take the prices of all rows of several pieces as those of each, if this reading of the rows of a column, or
        of a list of which some rows can mean nothing else, is nearer to the catalog."""
        rows = {
            place: replace(one, line=typed[place])
            for place, one in found.items()
            if typed[place].quantity > 1 and typed[place].usd and not typed[place].says_whole_or_each
        }
        are_some_each = any(found[place].line.says_whole_or_each for place in rows)
        if not are_some_each:
            rows = {place: one for place, one in rows.items() if one.line.is_of_column}
        ratios: dict[int, tuple[float, float]] = {}
        for place, one in rows.items():
            price = listed_price_of(one.part, self._book) if one.part is not None else None
            if price is not None and one.line.usd:
                usual = USUAL_SHARE_OF_MEMORY if isinstance(one.part, RamKit) else 1.0
                ratios[place] = (one.line.usd / (price.usd * one.count), usual)
        whole = sum(abs(math.log(ratio / usual)) for ratio, usual in ratios.values())
        each = sum(
            abs(math.log(rows[n].line.quantity * ratio / usual)) for n, (ratio, usual) in ratios.items()
        )
        if whole <= each + (0.0 if are_some_each else LEAST_DIFFERENCE_OF_COLUMNS):
            return
        for place, one in rows.items():
            if found[place].line.says_whole_or_each:
                continue
            share = ratios[place][0] if place in ratios else 0.0
            num = one.line.quantity
            catalog = (one.line.usd or 0.0) / share / num if share else 0.0
            line = self._as_of_each(one.line, num, share, catalog) if share else with_factor(one.line)
            found[place] = replace(one, line=line)

    def _note_systems(self, system: System | None, num: int) -> None:
        """Say what several machines, or a machine with further cards, are judged as."""
        if system is not None and num > 1 and not can_join(system):
            self._notes.append(f"{num} machines are listed: a model that one of them holds runs on one")
        if system is not None and "cards" in self._machine:
            self._notes.append(
                f"the speed is that of {system.name} or of the cards beside it, whichever is faster: no engine here "
                "divides a model between both"
            )

    def _with_bare_memory(self, line: TypedLine, lines: Sequence[TypedLine]) -> TypedLine:
        """Return a line that is only a size as memory, if the list names a CPU or a board and no other memory."""
        if line.category is not None or not regex("piece.bare_size").fullmatch(line.what):
            return line
        kinds = {one.category or kind_of(one) for one in lines if one is not line}
        return replace(line, category="ram") if kinds & {"cpu", "board"} and "ram" not in kinds else line

    def _without_threads(self, line: TypedLine) -> TypedLine:
        """Return a line of a CPU whose number is that of its threads as one CPU: `16 × Core i7-13700K`."""
        if line.quantity <= MOST_SOCKETS or (line.category or kind_of(line)) != "cpu":
            return line
        self._notes.append(f"{line.text.strip()!r}: {line.quantity} is read as the number of threads")
        return replace(line, quantity=1)

    def _category_of(self, line: TypedLine) -> str:
        """Return the kind of part that a line names; `unknown` if nothing in it is known."""
        if line.unread is not None:
            part = f"row {self._money.write_back(line.text.strip())!r} is not read"
            why = line.unread.why or line.unread.what
            self._unknown.append(UnknownPartError(line.where, part, why=why, fix=line.unread.fix))
            return "unknown"
        if line.category in (None, "gpu") and display_card_in(line) is not None:
            return "display"
        try:
            return line.category or category_of(line)
        except UnknownPartError as error:
            self._unknown.append(error)
            return "unknown"

    def _resolve(self, line: TypedLine, category: str) -> tuple[Part | None, int]:
        """Return the part that a line means and its number; None if no model is named, or none that is known."""
        if category not in RESOLVERS:
            if category != "unknown":
                self._unjudged.append(line.what)
            return None, line.quantity
        try:
            part, count = RESOLVERS[category](self, line)
        except UnknownPartError as error:
            self._unknown.append(error)
            return None, line.quantity
        if part is None:
            self._unjudged.append(line.what)
        return part, count

    def _place(self, category: str, part: Part, count: int) -> None:
        places = {
            "gpu": "cards",
            "psu": "psus",
            "ram": "memory",
            "bridge": "bridges",
            "riser": "risers",
            "display": "displays",
        }
        place = places.get(category, category)
        if place in ("cards", "displays", "psus", "bridges", "nics", "nic", "link"):
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
        board = self.board
        risers = held.get("risers")
        # A card in an external dock stands outside the case.
        is_docked = risers is not None and risers.riser is not None and risers.riser.id == "typed-dock"
        if board is not None:
            psus = tuple(parts.own_supply(board, psu) for psu in psus)
        if board is not None and (sold := parts.supply_and_case_of(board)) is not None:
            supply, case = sold
            if not psus:
                psus = (supply,)
                self._notes.append(
                    f"no supply is listed: {supply.name}, with which {board.name} is usually sold"
                )
            if not is_docked:
                held.setdefault("case", case)
        if board is not None and is_server(board):
            psus = tuple(psu.model_copy(update={"flags": (*psu.flags, HOT_PLUG)}) for psu in psus)
        if board is not None and "cpu" not in held and (cpu := parts.cpu_of(board)) is not None:
            held["cpu"] = cpu
            self._notes.append(f"no CPU is listed: {cpu.name}, with which {board.name} is sold")
        links = held.pop("link", [])
        return Assembly(
            cards=Cards(tuple(held.pop("cards")), self._power_fraction) if "cards" in held else None,
            supplies=Supplies(psus, links[0] if links else None) if psus else None,
            bridges=tuple(held.pop("bridges", ())),
            nics=tuple(held.pop("nic", ())),
            displays=tuple(held.pop("displays", ())),
            **held,
        )

    def _with_plausible_price(self, line: TypedLine, part: Part | None, count: int) -> TypedLine:
        """Return the line with its price taken as that of each part, if no other reading is near the catalog's."""
        price = listed_price_of(part, self._book) if part is not None else None
        num = num_pieces(line)
        if price is None or not line.usd or num < 2 or line.says_whole_or_each:
            return line
        each = price.usd * count / num
        share = line.usd / num / each
        if isinstance(part, RamKit):  # used modules cost a fraction of new ones
            is_each = share < LEAST_SHARE_OF_MEMORY and line.usd / each <= 2.0
        else:
            is_near = share < PRICE_OF_EACH_IS_LIKELY_BELOW and 0.75 <= line.usd / each <= 1.25
            is_each = is_near or (share < WHOLE_PRICE_IS_DOUBTFUL_BELOW and 0.5 <= line.usd / each <= 2.0)
        return self._as_of_each(line, num, share, each) if is_each else line

    def _as_of_each(self, line: TypedLine, num: int, share: float, catalog_usd: float) -> TypedLine:
        """Return the line with its price as that of each of its pieces, and say so."""
        usd = line.usd or 0.0
        self._notes.append(
            f"{line.text.strip()!r} is read as ${usd:,.0f} each: ${usd / num:,.0f} apiece would be "
            f"{share:.0%} of the catalog's ${catalog_usd:,.0f}; write 'total' after the price if it is the sum"
        )
        return with_factor(line)

    def _catalog_usd(self, part: Part | None, count: int) -> float | None:
        price = listed_price_of(part, self._book) if part is not None else None
        return None if price is None else price.usd * count

    def _bill_line(self, read: "_ReadLine") -> PartLine:
        line = read.line
        part = read.part
        count = read.count
        price = listed_price_of(part, self._book) if part is not None and line.usd is None else None
        found = PartLine(read.category, line.what, count, flags=("not judged",))
        if part is not None:
            found = part_line(read.category, part, count, price)
        if line.is_included:
            bare = PartLine(read.category, found.name, count, flags=found.flags)
            source = "your list" if line.is_owned else IN_ANOTHER
            return replace(bare, unit_price_usd=0.0, price_basis="user", source=source)
        if line.usd is None:
            return found
        usd, low, high = (None if v is None else v / count for v in (line.usd, line.usd_low, line.usd_high))
        stated = replace(found, unit_price_usd=usd, price_low_usd=low, price_high_usd=high)
        return replace(stated, price_basis="user", source="your list")


def _with_catalog_price(line: TypedLine) -> TypedLine:
    """Return a line of a list in another currency without its price; what is owned costs nothing in any."""
    is_bought = bool(line.usd) or (line.is_included and not line.is_owned)
    return replace(without_price(line), is_included=False) if is_bought else line


def _with_bearer(bill: Sequence[PartLine]) -> tuple[PartLine, ...]:
    """Return a bill whose only price, if others are in it, is told to be that of several lines."""
    priced = [line for line in bill if line.usd]
    is_shared = len(priced) == 1 and any(line.source == IN_ANOTHER for line in bill)
    return tuple(replace(one, source=WITH_OTHERS) if is_shared and one is priced[0] else one for one in bill)


def _is_told(lines: Sequence[TypedLine]) -> bool:
    """Whether all lines are sentences, or a question: `Does an RM850e carry two 4070 with a 7800X3D?`."""
    return all(line.block == 1 or line.text.rstrip().endswith("?") for line in lines)


def _with_board_of_server(lines: Sequence[TypedLine]) -> list[TypedLine]:
    """Return lines with a server that the list names as its chassis as the machine; the number of the board in it tells
    no more."""
    cases = [
        line for line in lines if line.category in ("case", "other") and server_in(line.what) is not None
    ]
    if not cases:
        return list(lines)
    boards = [line for line in lines if line.category == "board" and server_in(line.what) is None]
    return [
        replace(line, category="board") if line is cases[0] else line
        for line in lines
        if line not in boards or line.usd is not None
    ]


def _check_number_of_cards(found: Iterable[_ReadLine], where: str) -> None:
    """Refuse a list with more cards than any machine has.

    Raises: InputFileError: it has.
    """
    num_cards = sum(one.count for one in found if one.category == "gpu")
    if num_cards > MOST_CARDS:
        raise InputFileError(
            f"{where.partition(':')[0]}: lists {num_cards:,} cards",
            why=f"a list is of one machine, of at most {MOST_CARDS} cards",
            fix="list one machine",
        )
