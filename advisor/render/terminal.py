"""Answers on the terminal: rich tables that fit 100 columns."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import IO, Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from advisor.catalog.legible import legible, on_one_line
from advisor.render.answer import Block, Chart, Column, Figure, Paragraph, Table
from advisor.render.numbers import GLYPHS

PIPE_WIDTH: Final = 100
"""Width of the output if no terminal states one (a pipe, a file, a test) [columns]."""

GAP: Final = 2
"""Blanks between two columns."""


_WORD: Final = re.compile(r"\S+")
_PART_OF_WORD: Final = re.compile(r"[^\s-]{1,20}-?")
"""Pieces that stay on one line: numbers and names up to a hyphen; only addresses and file names are longer than 20."""

MOST_ROWS: Final = 2_000
"""Rows of a table that a terminal shows: all bundled prices of a day, and no reader scrolls through more."""


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the program how a reader that stops early ends the run."""
        raise BrokenPipeError


def console_for(stream: IO[str]) -> Console:
    """Return a console that honours NO_COLOR and COLUMNS and recognises whether the output is a terminal."""
    fixed = None if stream.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return _Console(file=stream, width=fixed, highlight=False, markup=False, emoji=False)


def print_blocks(blocks: Sequence[Block], stream: IO[str]) -> None:
    """Print an answer, a blank line between its parts."""
    console = console_for(stream)
    shown = [b for b in blocks if not isinstance(b, Chart) or (b.is_in_terminal and not b.is_empty)]
    for i, block in enumerate(shown):
        if i:
            console.print()
        _print_block(block, console)


def _print_block(block: Block, console: Console) -> None:
    match block:
        case Paragraph(text=text, emphasis=emphasis):
            console.print(Text(legible(text), style="bold" if emphasis else ""))
        case Figure(text=text, title=title):
            if title:
                console.print(Text(on_one_line(title), style="bold"))
            # Copied commands and plots keep their lines; the terminal may scroll or wrap them.
            console.print(Text(legible(text)), soft_wrap=True)
        case Chart():
            from advisor.render.chart_text import chart_figure

            _print_block(chart_figure(block), console)
        case Table():
            _print_table(block, console)


def _print_table(block: Table, console: Console) -> None:
    if block.title:
        console.print(Text(on_one_line(block.title), style="bold"))
    num_left_out = max(0, len(block.rows) - MOST_ROWS)
    whole = _on_one_line(replace(block, rows=block.rows[:MOST_ROWS], details=()))
    fitting = _that_fits(whole, console.width)
    widths = column_widths(fitting, console.width)
    if sum(widths) + GAP * (len(widths) - 1) > console.width:
        _print_records(whole, console)
    else:
        _print_columns(fitting, widths, console)
        dropped = [on_one_line(column.header) for column in whole.columns if column not in fitting.columns]
        if marks := _marks_for(whole, fitting):
            console.print(Text(f"Basis, behind the first column: {marks}."))
            dropped = [name for name in dropped if name not in _marked_headers(whole)]
        if dropped and console.width < PIPE_WIDTH:
            console.print(Text(f"No room for {', '.join(dropped)}: a wider window or --json shows them."))
    if num_left_out:
        console.print(Text(f"… and {num_left_out:,} more rows: -o FILE.csv writes all of them."))


def _print_columns(block: Table, widths: Sequence[int], console: Console) -> None:
    """Print a head, a line and the rows. A table of rich would look the same, and take 1 ms for each row."""
    header = tuple(on_one_line(column.header) for column in block.columns)
    for line in _lines_of(header, block.columns, widths, console, at_bottom=True):
        console.print(Text(line, style="bold"), soft_wrap=True)
    lines = ["─" * (sum(widths) + GAP * (len(widths) - 1))]
    for row in block.rows:
        lines += _lines_of(row, block.columns, widths, console)
    console.out("\n".join(lines), highlight=False)


def _lines_of(
    row: Sequence[str],
    columns: Sequence[Column],
    widths: Sequence[int],
    console: Console,
    *,
    at_bottom: bool = False,
) -> Iterator[str]:
    """Yield the lines of one row, in which cells that are wider than their columns are folded; those with fewer lines
    stand at its top, or `at_bottom`."""
    cells = [_fold(_at_hyphens(cell, width), width, console) for cell, width in zip(row, widths, strict=True)]
    if at_bottom:
        height = max(map(len, cells), default=0)
        cells = [[""] * (height - len(lines)) + lines for lines in cells]
    for parts in zip_longest(*cells, fillvalue=""):
        padded = [
            f"{' ' * blank}{part}" if column.align == "right" else f"{part}{' ' * blank}"
            for part, column, blank in zip(
                parts,
                columns,
                (width - cell_len(part) for part, width in zip(parts, widths, strict=True)),
                strict=True,
            )
        ]
        yield (" " * GAP).join(padded)


def _fold(text: str, width: int, console: Console) -> list[str]:
    if cell_len(text) <= width:
        return [text.rstrip()]
    return [line.plain.rstrip() for line in Text(text).wrap(console, width, overflow="fold")]


def _print_records(block: Table, console: Console) -> None:
    """Print each row as lines of a header and its cell: what a narrow terminal shows of a wide table."""
    width = max(cell_len(column.header) for column in block.columns)
    for i, row in enumerate(block.rows):
        if i:
            console.print()
        for column, cell in zip(block.columns, row, strict=True):
            if cell:
                console.print(Text(f"{on_one_line(column.header):{width}}  {cell}"))


def _at_hyphens(text: str, width: int) -> str:
    """Return the text with words wider than their column split after hyphens: `rtx-pro-6000- server`. A comma at the
    end of a word is dropped if only the comma has no room."""
    parts = []
    for word in text.split(" "):
        rest = word
        while cell_len(rest) > width and (end := rest.rfind("-", 1, width) + 1):
            parts.append(rest[:end])
            rest = rest[end:]
        if cell_len(rest) == width + 1 and rest.endswith(","):
            rest = rest[:-1]  # the end of the line separates as well as the comma
        parts.append(rest)
    return " ".join(parts)


def _on_one_line(block: Table) -> Table:
    """Return the table with control characters made visible, which keeps each cell on one line."""
    return Table(block.columns, tuple(tuple(map(on_one_line, row)) for row in block.rows))


def _that_fits(block: Table, available: int) -> Table:
    """Return the table without the optional columns for which there is no room."""
    while sum(_least_widths(block)) + GAP * (len(block.columns) - 1) > available:
        optional = [i for i, column in enumerate(block.columns) if column.optional]
        if not optional:
            break
        last = optional[-1]
        kept = (*block.columns[:last], *block.columns[last + 1 :])
        marked = block.columns[last].is_marked
        rows = ((_with_mark(row, last) if marked else row) for row in block.rows)
        block = Table(kept, tuple((*row[:last], *row[last + 1 :]) for row in rows))
    return block


def _with_mark(row: tuple[str, ...], place: int) -> tuple[str, ...]:
    """Return a row with the mark of the basis in one of its cells behind its first cell."""
    mark = next((glyph for basis, glyph in GLYPHS.items() if basis == row[place]), "")
    return (f"{row[0]} {mark}".rstrip(), *row[1:])


def _marked_headers(block: Table) -> list[str]:
    return [on_one_line(column.header) for column in block.columns if column.is_marked]


def _marks_for(whole: Table, fitting: Table) -> str:
    """Return what the marks of bases mean that stand in place of a column; empty if no column gave way to marks."""
    places = [
        place
        for place, column in enumerate(whole.columns)
        if column.is_marked and column not in fitting.columns
    ]
    found = {row[place] for place in places for row in whole.rows}
    return ", ".join(f"{glyph} {basis}" for basis, glyph in GLYPHS.items() if basis in found)


def _least_widths(block: Table) -> list[int]:
    """Width of each column below which a cell would break inside a word, or at all if the column does not fold
    [characters]."""
    texts = [[column.header, *cells] for column, cells in zip(block.columns, _transpose(block), strict=True)]
    return [
        max(
            (cell_len(part) for text in cells for part in (text.split() if column.fold else [text])),
            default=1,
        )
        for column, cells in zip(block.columns, texts, strict=True)
    ]


def column_widths(block: Table, available: int) -> list[int]:
    """Width of each column [characters] so that the table fits.

    Columns that may fold give way, the widest first, down to their longest word; then all, down to the longest part of
    a word between hyphens or to the longest figure. Rich's own rule can squeeze a column out of sight, or cut a number.
    """
    texts = [[column.header, *cells] for column, cells in zip(block.columns, _transpose(block), strict=True)]
    widths = [max(map(cell_len, column)) for column in texts]
    figures = [max(map(cell_len, cells), default=1) for cells in _transpose(block)]
    excess = sum(widths) + GAP * (len(widths) - 1) - available
    for pattern, gives_way in ((_WORD, "fold"), (_PART_OF_WORD, "left")):
        floors = []
        for i, column in enumerate(block.columns):
            is_narrowed = column.fold or column.align == gives_way
            parts = pattern.findall(" ".join(texts[i] if is_narrowed else texts[i][:1]))
            whole = 1 if is_narrowed else figures[i] if gives_way == "left" else widths[i]
            floors.append(max([whole, *map(cell_len, parts)]))
        while excess > 0 and (wide := [i for i, width in enumerate(widths) if width > floors[i]]):
            widths[max(wide, key=widths.__getitem__)] -= 1
            excess -= 1
    return widths


def _transpose(block: Table) -> list[tuple[str, ...]]:
    return list(zip(*block.rows, strict=True)) or [() for _ in block.columns]
