"""Lists as PCPartPicker exports them, as text or Markdown: `CPU: AMD Ryzen 9 9950X 4.3 GHz ... ($498.99 @ Shop)`."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from advisor.catalog.errors import InputFileError
from advisor.workstation.foreign_words import regex, write_in_english, write_in_one_form
from advisor.workstation.line_pieces import is_prose
from advisor.workstation.list_columns import OF_CELLS, PartTable, cells_of, tables_in
from advisor.workstation.mentions import mentions_in
from advisor.workstation.part_names import is_known, kind_in, server_in
from advisor.workstation.pasted_text import plain_rows, rows_without_marks
from advisor.workstation.system_names import find_systems
from advisor.workstation.typed_line import (
    LABELS,
    TypedLine,
    check_length,
    read_line,
    split_off_label,
    with_factor,
)

ANY_SIGNS: Final = "|\t; ,"
"""Signs that may divide the cells of a table in a text."""
TABLE_SIGNS: Final = {".csv": ";,\t", ".tsv": "\t"}
"""Signs that divide the cells of a file of values, by its ending."""


def read_pasted_text(text: str, path: Path | str, signs: str = ANY_SIGNS) -> list[TypedLine]:
    """Return the parts of a text with a part in each line, or of tables with cells between signs; messages call it
    `path`.

    Raises: InputFileError: a row is longer than any part's, its price is wrong, or a table names several machines.
    """
    _check_rows(text, path)
    rows = rows_without_marks(write_in_one_form(text, "pasted"))
    lines: list[TypedLine] = []
    for table in tables_in(rows, signs):
        _check_machines(table, path)
        lines += [
            replace(_table_line(cells, table.places, f"{path}: row {place + 1}"), block=_TABLE)
            for place, cells in table.rows
        ]
        rows[table.begin : table.end] = [""] * (table.end - table.begin)
    if "|" not in signs:  # a file of values has cells, whether they are a table or not
        sign = max(signs, key=rows[0].count) if rows else ","
        rows = [" | ".join(cells_of(row, sign)) for row in rows]
    sums_usd = _take_sums(rows)
    text = "\n".join(rows)
    rest = list(_lines(text, path)) if re.search(r"\w", text) else []
    return _merge_lines(_with_sum([*rest, *lines], sums_usd))


_TABLE: Final = 2
"""Block of the rows of a table; 0 is that of other rows, 1 that of sentences."""


def _check_rows(text: str, path: Path | str) -> None:
    """Refuse a text with a row that is longer than any part's: patterns take the square of a row's time.

    Raises: InputFileError: it has one.
    """
    for number, row in enumerate(text.splitlines(), 1):
        check_length(row, f"{path}: row {number}")


def _check_machines(table: PartTable, path: Path | str) -> None:
    """Refuse a table of several machines.

    Raises: InputFileError: it is one.
    """
    machines = {_cell(cells, table.places, "build") for _, cells in table.rows}
    if len(machines) > 1:
        raise InputFileError(
            f"{path}: lists {len(machines)} machines",
            why="a list is of one machine; column build names several",
            fix="keep the rows of one",
        )


_OWN_KINDS: Final = frozenset((*LABELS.values(), "bridge", "link", "system"))
"""Categories as `build -o bill.csv` writes them."""


def _cell(row: list[str], places: dict[str, int], column: str) -> str:
    place = places.get(column)
    # Between blanks, the colon of a label begins the next cell: `GPU   : RTX 3090`.
    return row[place].strip(" \t:") if place is not None and place < len(row) else ""


def _table_line(row: list[str], places: dict[str, int], where: str) -> TypedLine:
    """Return a row of a table as a line; a price is of all pieces unless its column says that it is of each."""
    kind = regex("row.number_of_label").sub(
        "", write_in_english(_cell(row, places, "category")).strip().lower()
    )
    priced = (
        name for name in ("paid", "whole", "price", "each") if re.search(r"\w", _cell(row, places, name))
    )
    column = next(priced, "")
    price = regex("row.beside_price").sub("", _cell(row, places, column)).strip(" *()")
    is_included = regex("row.nothing").fullmatch(price) is not None
    quantity = _cell(row, places, "quantity").strip("xX× .")
    name = _cell(row, places, "name") or _cell(row, places, "category")
    text = " ".join(filter(None, (f"{quantity}x" if quantity else "", name)))
    each = " each" if column == "each" else ""
    line = read_line(f"{text} {_price_text(price)}{each}" if price and not is_included else text, where)
    known = kind if kind in _OWN_KINDS else line.category
    category = LABELS.get(kind, known)
    return replace(
        line,
        text=text,
        category=category,
        is_included=is_included,
        is_of_column=column == "price",
        says_whole_or_each=line.says_whole_or_each or column == "whole",
    )


@dataclass(slots=True)
class _ListRow:
    """Row that may name a part, with what the rows below tell of it."""

    number: int
    text: str
    is_printed: bool
    beside: tuple[str, ...] = ()
    """Rows between the part and its number or price, which name nothing that is known."""


_LEAST_DETAILS: Final = 2
"""Number of rows that hold only a number of pieces, a price or a condition from which a text is a shop's cart."""


def _join_rows(rows: Iterable[tuple[int, str, bool]]) -> Iterator[_ListRow]:
    """Yield rows with a kind of part that stands in the row above, and with number and price that stand below.

    In a cart, what stands between a part and its price and names no kind of part is a shop's remark on the part.
    """
    found = [_ListRow(*row) for row in rows if not regex("row.terms").fullmatch(row[1].strip())]
    is_cart = sum(map(_is_detail, found)) >= _LEAST_DETAILS
    label = ""
    held: _ListRow | None = None
    between: list[_ListRow] = []
    for row in found:
        text = row.text.strip()
        if (head := text.strip("-*•: ")).lower() in OF_CELLS and len(head) > 2:
            label = head
        elif _is_detail(row):
            if held is not None:
                held.text = _with_detail(held.text, text)
                held.beside += tuple(one.text.strip() for one in between)
                between = []
        elif is_cart and held is not None and not _has_price(held.text) and not is_known(text):
            between.append(row)
        else:
            yield from filter(None, (held, *between))
            between = []
            row.text = f"{label}: {text.lstrip('-*• ')}" if label and ":" not in text else row.text
            held = row
            label = ""
    yield from filter(None, (held, *between))


def _is_detail(row: _ListRow) -> bool:
    """Whether a row holds a number of pieces, a price or a condition and nothing else."""
    text = row.text.strip()
    is_amount = "$" in text and regex("row.amount_alone").fullmatch(text) is not None
    return is_amount or _is_told_below(text)


def _in_one_form(text: str) -> str:
    return write_in_one_form(text, "foreign")


def _has_price(text: str) -> bool:
    return regex("row.price_alone").search(text) is not None


def _with_detail(part: str, detail: str) -> str:
    """Return the text of a part with number and price that stand in a row below it."""
    plain = _in_one_form(detail)
    count = regex("row.count").search(plain)
    price = regex("row.price_alone").search(plain)
    sign = " -" if "|" in part else ""  # behind a dash it is that of the whole row
    amount = f"{sign} {_price_text(price.group())}" if price is not None and not _has_price(part) else ""
    if count is None:
        return f"{part}{amount}"
    each = " each" if amount and price is not None and count.start() < price.start() else ""
    return f"{next(filter(None, count.groups()))}x {part.strip()}{amount}{each}"


_LEAST_WRAPPED: Final = 60
"""Length from which a row may be one that a program broke [characters]: editors break behind 72 to 120."""
_MOST_WRAPPED: Final = 1_500
"""Length up to which broken rows are joined [characters]."""


def _join_wrapped(rows: Iterable[tuple[int, str, bool]]) -> Iterator[tuple[int, str, bool]]:
    """Yield rows with those that a program broke within a sentence as one."""
    held: tuple[int, str, bool] | None = None
    last = ""
    for row in rows:
        is_next = held is not None and held[0] + held[1].count("\n") + 1 == row[0]
        is_broken = is_next and len(last) >= _LEAST_WRAPPED and len(held[1] if held else "") < _MOST_WRAPPED
        goes_on = (
            is_broken
            and not regex("row.begins_labelled").match(row[1])
            and regex("row.ends_in_price").search(last) is None
            and regex("row.owned").search(last) is None
            and (
                regex("row.goes_on").match(f"{last}\n{row[1]}")
                or last.count("(") > last.count(")")
                or (is_prose(last) and regex("row.ends_within").search(last) and row[1][:1].isalpha())
            )
        )
        if held is not None and goes_on:
            held = (held[0], f"{held[1].rstrip()}\n{row[1].strip()}", held[2])
        else:
            if held is not None:
                yield (held[0], held[1].replace("\n", " "), held[2])
            held = row
        last = row[1].rstrip()
    if held is not None:
        yield (held[0], held[1].replace("\n", " "), held[2])


_SAME_SUM: Final = 0.01
"""Largest difference of two sums that count as equal, over the stated one: lists round their prices."""


def _is_told_below(row: str) -> bool:
    """Whether a row can be that of a cart which tells number and price of the part above it."""
    return regex("row.detail").fullmatch(_in_one_form(row.strip())) is not None


def _take_sums(rows: list[str]) -> list[float]:
    """Return the prices of the whole list that rows state [USD], without shipping and taxes, then with them, and empty
    those rows.

    A row with an amount that names no part states the price of the list by its words (`Total`, `takes it all`), or if
    it has the only amount.
    """
    num_priced = sum(regex("row.dollars").search(row) is not None for row in rows)
    told: dict[int, list[float]] = {}
    alone: dict[int, list[float]] = {}
    for place, row in enumerate(rows):
        amounts = [float(one.replace(",", "")) for one in regex("row.dollars").findall(row)]
        rest = regex("row.dollars").sub(" ", row).strip(" |*•–-_:")
        if not any(amounts) or regex("row.no_sum").search(row) is not None or rest.endswith("?"):
            continue
        is_detail = num_priced > 1 and _is_told_below(row)
        is_named = regex("row.sum_words").match(rest) is not None and not is_detail
        if not is_named and (mentions_in(rest) or server_in(rest) is not None or find_systems(rest)):
            continue
        if is_named or regex("row.of_a_sale").search(row) is not None:
            told[place] = amounts
        elif regex("row.dollars_first").match(row) is not None and kind_in(rest) is None:
            alone[place] = amounts
    found = told or (alone if num_priced == 1 else {})
    for place in found:
        has_circuit = regex("remark.circuit").search(rows[place]) or regex("remark.wall_limit").search(
            rows[place]
        )
        rows[place] = regex("row.dollars").sub(" ", rows[place]) if has_circuit else ""
    return [usd for amounts in found.values() for usd in amounts if usd]


def _with_sum(lines: Iterable[TypedLine], sums_usd: Sequence[float]) -> list[TypedLine]:
    """Return lines with the price of the list: it tells whether prices of several pieces are of all or of each, and is
    that of all parts if none has a price of its own."""
    found = list(lines)
    if not sums_usd or not found:
        return found
    usd = sums_usd[0]
    if all(line.usd is None for line in found):
        # The first line may be a title, which names no part.
        bearer = next((line for line in found if is_known(line.what)), found[-1])
        return [
            replace(line, usd=usd, says_whole_or_each=True)
            if line is bearer
            else replace(line, is_included=True)
            for line in found
        ]
    each = [line if line.usd is None or line.says_whole_or_each else with_factor(line) for line in found]
    sums = [sum(line.usd or 0.0 for line in reading) for reading in (found, each)]
    for usd in sums_usd:
        if abs(sums[0] - usd) <= _SAME_SUM * usd:
            return [replace(line, says_whole_or_each=True) for line in found]
        if abs(sums[1] - usd) <= _SAME_SUM * usd:
            return each
    if any(line.usd == sums_usd[0] for line in found):
        return found  # the price of one part, in a row of its own
    return [replace(found[0], unread_sum=f"${sums_usd[0]:,.0f}"), *found[1:]]


_LEAST_NUMBERED: Final = 3
"""Number of rows in their order from which the first number of each is that of the row, if a number of pieces stands in
another place of each."""
_LEAST_COUNTED: Final = 5
"""Number of rows from which numbers ahead that count 1, 2, 3, ... are those of the rows, if no other number of pieces
stands there. Own choice: shorter lists can have one, two and three pieces in that order."""


def _without_row_numbers(rows: list[tuple[int, str, bool]]) -> list[tuple[int, str, bool]]:
    """Return rows without the numbers that count them, and with the number of pieces ahead of each name: it stands
    behind that of the row, `3 2 Kingston`, or between the name and the prices."""
    found = {place: one for place, (_, row, _) in enumerate(rows) if (one := regex("row.running").match(row))}
    if [int(one[1]) for one in found.values()] != list(range(1, len(found) + 1)):
        return rows
    named = {place: rows[place][1][one.end() :] for place, one in found.items()}
    ahead = [regex("row.pieces_ahead").match(text) for text in named.values()]
    behind = [regex("row.pieces_behind").fullmatch(text) for text in named.values()]
    counted = next((each for each in (ahead, behind) if all(each)), [])
    if len(found) < (_LEAST_NUMBERED if counted else _LEAST_COUNTED):
        return rows
    for place, one in zip(found, counted, strict=False):
        if one is not None:
            named[place] = f"{one['num']}x {one['name']}{one['amounts']}"
    return [(number, named.get(place, row), is_told) for place, (number, row, is_told) in enumerate(rows)]


_LEAST_DASHES: Final = 2
"""Number of rows with a dash directly before their text from which dashes are bullets, and no signs of numbers."""


def _lines(text: str, path: Path | str) -> Iterator[TypedLine]:
    if sum(regex("row.dash").match(row) is not None for row in text.splitlines()) >= _LEAST_DASHES:
        text = "\n".join(regex("row.dash").sub(r"\1- ", row) for row in text.splitlines())
    owned = _owned_rows(text)
    rows = _without_row_numbers(list(plain_rows(text)))
    read = list(_join_rows(_join_wrapped(rows)))
    for joined in read:
        number = joined.number
        row = joined.text
        plain = " ".join(row.split())
        told = regex("remark.circuit").search(row) or regex("remark.wall_limit").search(row)
        if told is not None and regex("row.skipped").match(row.strip()):
            row = told.group()  # a heading names no part, but what it says of the circuit holds
            plain = row
        if not any(
            one.match(text)
            for one in (
                regex("row.skipped"),
                regex("row.free"),
                regex("row.owned_heading"),
            )
            for text in (row.strip(), plain)
        ) and not _is_discount(row):
            line = _line_or_unread(row.strip(), f"{path}: row {number}")
            remark = regex("row.owned").search(row)
            is_owned = number in owned or (remark is not None and not is_prose(row[: remark.start()]))
            is_title = (
                joined is read[0] and len(read) > _LEAST_BELOW_A_TITLE and _speaks_of_a_build(line, row)
            )
            is_sentence = line.category is None and (is_prose(row) or row.rstrip().endswith("?"))
            yield replace(
                line,
                usd=0.0 if is_owned and line.usd is None else line.usd,
                is_owned=is_owned,
                is_printed=joined.is_printed,
                beside=joined.beside,
                block=int(is_sentence or is_title),
            )


_LEAST_BELOW_A_TITLE: Final = 3
"""Number of rows below the first one from which that may be their title."""


def _speaks_of_a_build(line: TypedLine, row: str) -> bool:
    """Whether the first row of a list is a title that names a part, which its rows may name again: `Dual 3090 rig`."""
    is_priced = line.usd is not None
    has_mark = regex("line.bullet").match(row) is not None or line.category is not None
    return not (is_priced or has_mark) and regex("name.title").search(line.what) is not None


def _is_discount(row: str) -> bool:
    """Whether a row takes an amount off the price of the list: its amount is negative or off, and it names no part."""
    return any(
        one.search(row) is not None and not is_known(one.sub(" ", row))
        for one in (regex("line.negative_price"), regex("row.amount_off"))
    )


def _owned_rows(text: str) -> set[int]:
    """Return the numbers of the rows below a heading that says that their parts are owned, up to the next heading."""
    found = set()
    is_owned = False
    for number, row in enumerate(text.splitlines(), 1):
        is_heading = regex("row.owned_heading").fullmatch(row) is not None
        found |= {number} if regex("row.owned_ahead").match(row) else set()
        is_asked = row.rstrip().endswith("?") or regex("row.bought_ahead").match(row) is not None
        is_owned = is_heading or (is_owned and not is_asked and regex("row.heading").match(row) is None)
        found |= {number} if is_owned else set()
    return found


def _line_or_unread(row: str, where: str) -> TypedLine:
    """Return one row as a line; one that cannot be read as an unknown part, so that the other rows are judged."""
    try:
        return _line(row, where)
    except InputFileError as error:
        return TypedLine(row, row, where, category="unknown", unread=error)


def _line(row: str, where: str) -> TypedLine:
    """Return one row as a line: its cells, or a part behind its label with its price in brackets."""
    text, price = _cells_of(write_in_english(row).replace("**", ""))
    bracket = regex("row.price").search(text) if split_off_label(text)[0] is not None else None
    if bracket is not None and _is_price(bracket["usd"]):
        text = text[: bracket.start()].rstrip()
        text = "" if text.endswith(":") else text  # an export without the name of the part
        price = bracket["usd"]
    return replace(read_line(f"{text} {_price_text(price)}" if _is_price(price) else text, where), text=text)


def _price_text(price: str) -> str:
    """Return the price of a cell as a line states it."""
    return price if "$" in price else f"${price}"


def _cells_of(row: str) -> tuple[str, str]:
    """Return the part of a row whose cells stand between bars, behind its label, and its price; the whole row as the
    part if it has no cells."""
    cells = [cell.strip() for cell in row.strip("| ").split("|")]
    if len(cells) < 2:
        return row, ""
    label = regex("row.number_of_label").sub("", cells[0])  # `gpu 2` is a kind with the number of the card
    kind = label if label.lower() in LABELS else ""
    named = cells[1:] if label.lower() in OF_CELLS else cells
    count = next((cell for cell in named if re.fullmatch(r"[x×]?\s?\d{1,2}\s?[x×]?", cell)), "")
    if kind and len(named) > 1 and count == named[0]:  # the number stands before the name
        named = [named[1], count, *named[2:]]
    if count and len(named) < len(cells):
        named = [f"{count.strip('x× ')}x {named[0]}", *(cell for cell in named[1:] if cell != count)]
    sums = [cell for cell in named[1:] if regex("row.sum_cell").fullmatch(cell)]
    priced = next(
        (cell for cell in named[1:] if regex("row.amount").match(cell)), f"${sums[-1]}" if sums else ""
    )
    named = [cell for cell in named if cell not in sums]
    words = [cell for cell in named if cell != priced]
    text = words[0] if words and len(named) < len(cells) else " | ".join(words)
    return f"{kind}: {text}" if kind else text, regex("row.beside_price").sub("", priced)


def _is_price(text: str) -> bool:
    plain = " ".join(text.split())
    return regex("row.amount_alone").fullmatch(plain) is not None


def _with_counts(lines: list[TypedLine]) -> list[TypedLine]:
    """Return lines without those that state only the number of a kind, `GPUs: 3`, which is that of its other line."""
    found = [
        regex("row.count_of_kind").fullmatch(line.what) if line.category is not None else None
        for line in lines
    ]
    counts = {line.category: int(one[1]) for line, one in zip(lines, found, strict=True) if one is not None}
    rest = [line for line, one in zip(lines, found, strict=True) if one is None]
    kinds = [line.category or (kind_in(line.what) if counts else None) for line in rest]
    if not counts or any(kinds.count(kind) != 1 for kind in counts):
        return lines
    return [
        replace(line, quantity=counts.get(kind, 1)) if line.quantity == 1 else line
        for line, kind in zip(rest, kinds, strict=True)
    ]


def _merge_lines(lines: Iterable[TypedLine]) -> list[TypedLine]:
    """Return the lines with repetitions of a part counted as one line of several; exports repeat a part instead of
    counting it."""
    found: dict[tuple[str, str | None], TypedLine] = {}
    for line in _with_counts(list(lines)):
        key = (line.what.lower(), line.category)
        old = found.get(key)
        if old is None:
            found[key] = line
            continue
        usd = None if old.usd is None or line.usd is None else old.usd + line.usd
        found[key] = replace(old, quantity=old.quantity + line.quantity, usd=usd)
    return list(found.values())
