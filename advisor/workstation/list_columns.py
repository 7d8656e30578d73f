"""Columns of a list: rows of cells that stand together, and what each column holds, told by its title and its cells."""

import csv
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from advisor.workstation.foreign_words import regex, word_table, write_in_english
from advisor.workstation.part_names import is_known
from advisor.workstation.typed_line import LABELS

OF_CELLS: Final = frozenset((*LABELS, "nvlink", "bridge", "custom"))
"""Cells that name a kind of part."""
_TITLES: Final = word_table("columns")
"""Titles of columns by what they hold; the first one that a table has counts."""
_NAME_WORDS: Final = frozenset(
    ("part", "item", "product", "component", "description", "name", "model", "artikel")
)
_MOST: Final = 2.0 / 3.0
"""Fraction of the cells of a column from which their form tells what the column holds. Own choice."""
_LEAST_NUMBERED: Final = 5
"""Number of rows from which numbers that count 1, 2, 3, ... are those of the rows, if no other column holds numbers.
Own choice: shorter lists can have one, two and three pieces in that order."""
_LEAST_ROWS: Final = 3
"""Number of rows from which cells between blanks are a table without titles. Own choice."""
_SAME_PRICE: Final = 0.01
"""Largest difference of a price and the sum of its pieces' prices, over the first: invoices round."""


@dataclass(frozen=True, slots=True)
class PartTable:
    """Rows of cells with the place of each column that is known."""

    begin: int
    """Place of the first row in the text, that of the titles included."""
    end: int
    places: dict[str, int]
    rows: tuple[tuple[int, list[str]], ...]
    """Place in the text and cells of each row that names a part."""


def tables_in(rows: Sequence[str], signs: str = "|\t; ,") -> list[PartTable]:
    """Return the tables of a text: rows that stand together and have cells between one of the signs, of which a blank
    stands for several."""
    found: list[PartTable] = []
    for sign in signs:
        held: list[tuple[int, list[str]]] = []
        for place, row in enumerate((*rows, "end")):
            is_taken = any(one.begin <= place < one.end for one in found)
            cells = [] if is_taken else cells_of(row, sign)
            if len(cells) > 1:
                held.append((place, cells))
            elif row.strip() or sign == " ":
                found += filter(None, [_table_of(held, sign)])
                held = []
    return sorted(found, key=lambda one: one.begin)


def cells_of(row: str, sign: str) -> list[str]:
    """Return the cells of a row between signs; the whole row as one cell if it has none."""
    if sign == " ":
        return regex("row.blanks").split(row.strip())
    if sign == "|":
        row = row.strip().removeprefix("|").removesuffix("|")
        return [cell.strip(" *") for cell in row.split("|")]
    return [cell.strip() for cell in next(csv.reader([row], delimiter=sign, skipinitialspace=True), [])]


def _table_of(rows: Sequence[tuple[int, list[str]]], sign: str) -> PartTable | None:
    """Return rows of cells as a table; None if no column names parts, or none tells their number or kind."""
    first = next((n for n, (_, cells) in enumerate(rows) if _are_titles(cells)), -1)
    has_titles = first >= 0
    rows = rows[max(first, 0) :]
    body = [(place, cells) for place, cells in rows[has_titles:] if not _is_no_part(cells)]
    if len(body) < (1 if has_titles else _LEAST_ROWS if sign == " " else 2):
        return None
    width = len(rows[0][1]) if has_titles else max(len(cells) for _, cells in body)
    even = [(place, _of_width(cells, width)) for place, cells in body]
    if (sign == " " or not (has_titles or sign == "|")) and any(len(cells) != width for _, cells in even):
        return None
    places = columns_of(rows[0][1] if has_titles else [], [cells for _, cells in even])
    told = {"category"} if sign == "," else {"category", "quantity"}
    told |= {"quantity", "price"} if has_titles else set()
    if "name" not in places or not told & set(places):
        return None
    named = [places[column] for column in ("name", "category") if column in places]
    aligned = [(place, _align_row(cells, places)) for place, cells in even]
    parts = tuple((place, cells) for place, cells in aligned if _names_a_part([cells[n] for n in named]))
    return PartTable(rows[0][0], rows[-1][0] + 1, places, parts)


def _names_a_part(cells: Sequence[str]) -> bool:
    """Whether one of the cells for name and kind is filled, and none is a sum or a charge."""
    return any(cells) and not any(cell and regex("row.skipped").match(cell) for cell in cells)


def _are_titles(cells: Sequence[str]) -> bool:
    """Whether a row names columns: two that are known, or one and no kind of part."""
    num_known = len(_places_of_titles(cells))
    is_bare = not re.search(r"\d", "".join(cells)) and not any(map(is_known, cells))
    return num_known > 1 or (num_known == 1 and is_bare)


def _of_width(cells: Sequence[str], width: int) -> list[str]:
    """Return the cells of a row with the number of pieces behind a name as a cell of its own, if it lacks one."""
    found = list(cells)
    names = [n for n, cell in enumerate(cells) if re.search(r"[^\W\d]{2}.*\s\d{1,2}$", cell)]
    if len(cells) == width - 1 and len(names) == 1 and names[0] < len(cells) - 1:
        name, _, number = cells[names[0]].rpartition(" ")
        found[names[0] : names[0] + 1] = [name, number]
    return found + [""] * (width - len(found))


def _align_row(cells: list[str], places: dict[str, int]) -> list[str]:
    """Return a row that lacks the cell of its kind with an empty one in its place."""
    if (
        places.get("category") != 0
        or places["name"] != 1
        or _is_kind(cells[0])
        or cells[-1]
        or not is_known(cells[0])
    ):
        return cells
    return cells if re.search(r"[^\W\d]", cells[1]) or not cells[1] else ["", *cells[:-1]]


def _is_no_part(cells: Sequence[str]) -> bool:
    """Whether a row holds a sum, a charge or a rule, by its first cell."""
    first = next(filter(None, cells), "")
    is_empty = re.search(r"\w", "".join(cells)) is None
    return is_empty or regex("row.skipped").match(first) is not None


def _places_of_titles(titles: Sequence[str]) -> dict[str, int]:
    """Return the place of each column that a row of titles names."""
    # A currency in brackets or behind a comma belongs to no title: `Unit price (USD)`.
    names = [regex("row.currency_of_column").sub("", cell.strip(" *").lower()) for cell in titles]
    if not set(names) & set(_TITLES["name"]):
        spoken = next((n for n, name in enumerate(names) if _NAME_WORDS & set(name.split())), None)
        names = ["name" if n == spoken else name for n, name in enumerate(names)]
    return {
        column: names.index(found)
        for column, aliases in _TITLES.items()
        if (found := next((alias for alias in aliases if alias in names), None)) is not None
    }


def columns_of(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> dict[str, int]:
    """Return the place of each column that is known: by the titles, and where their cells contradict or there are
    none, by the cells."""
    places = _places_of_titles(titles)
    width = max(map(len, (titles, *rows)), default=0)
    columns = [[row[n] for row in rows if n < len(row) and row[n]] for n in range(width)]
    kinds = [n for n, cells in enumerate(columns) if sum(map(_is_kind, cells)) >= _MOST * len(rows)]
    numbers = [n for n, cells in enumerate(columns) if cells and all(map(_is_number, cells))]
    running = [n for n in numbers if [_number(one) for one in columns[n]] == [*range(1, len(columns[n]) + 1)]]
    if running and (len(numbers) > 1 or len(rows) >= _LEAST_NUMBERED):
        numbers.remove(running[0])
        places = {column: place for column, place in places.items() if place != running[0]}
    if kinds and places.get("name", kinds[0]) in kinds:
        places["category"] = places.pop("name", kinds[0])
    if numbers and places.get("quantity") not in numbers:
        places["quantity"] = next((n for n in numbers if n not in places.values()), numbers[0])
    free = [n for n in range(width) if n not in {*places.values(), *numbers, *running}]
    if "name" not in places:
        known = {n: sum(map(is_known, columns[n])) for n in free}
        best = max(known, key=lambda n: (known[n], -n), default=-1)
        places |= {"name": best} if known.get(best) else {}
    amounts = [n for n in free if n != places.get("name") and _are(columns[n], len(rows), is_amount)]
    if amounts and not {"whole", "each", "price"} & set(places):
        places |= {"each": amounts[-2], "whole": amounts[-1]} if len(amounts) > 1 else {"price": amounts[0]}
    return places


def _are(cells: Sequence[str], num_rows: int, is_one: Callable[[str], bool]) -> bool:
    return len(cells) >= _MOST * num_rows and all(map(is_one, cells))


def _is_kind(cell: str) -> bool:
    return regex("row.number_of_label").sub("", write_in_english(cell).strip().lower()) in OF_CELLS


def _is_number(cell: str) -> bool:
    return re.fullmatch(r"[x×]?\s?\d{1,2}\s?[x×.]?", cell, re.IGNORECASE) is not None


def _number(cell: str) -> int:
    return int(cell.strip("xX×. "))


def is_amount(cell: str) -> bool:
    """Whether a cell is an amount of money, or a number with cents."""
    plain = regex("row.each_ahead").sub("", cell.strip(" *()"))
    return any(regex(f"row.{name}").fullmatch(plain) for name in ("amount_of_row", "amount_alone", "nothing"))
