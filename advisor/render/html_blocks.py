"""Blocks of an answer as HTML: sortable tables, text with links, figures, charts."""

import html
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from advisor.render.answer import Block, Chart, Column, Figure, Paragraph, Table
from advisor.render.chart_text import chart_table
from advisor.render.html_chart import chart_html
from advisor.render.numbers import BINARY_SIZE, COMPUTE, COUNT, GLYPHS, MISSING, POWER, RATE, SIZE, TIME

LEAST_ROWS_TO_FILTER: Final = 9
LEAST_ROWS_TO_SCROLL: Final = 25
"""Number of rows above which a table scrolls in a window of its own; on paper it is complete."""
LEAST_COLUMNS_TO_STACK: Final = 4
"""Number of columns from which a table shows each row as a card on a telephone."""
_ADDRESS: Final = re.compile(r"https?://[^\s<>\"']+[^\s<>\"'.,;)]")
_RANGE: Final = re.compile(r"(.*\d\S*(?: \S+)?) (\([^()]*\)(?: [✓≈·?])?)")
"""Pattern of a number, its interval and the glyph of its basis: a page sets the interval in small type on its own
line."""
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_ITEM: Final = re.compile(r"[-*] ")

PERCENT: Final = 0.01
_FACTORS: Final[dict[str, float]] = {
    unit: factor
    for ladder in (SIZE, BINARY_SIZE, RATE, COMPUTE, POWER, COUNT, TIME)
    for factor, unit in ladder
} | {"%": PERCENT}
_NUMBER: Final = re.compile(r"[<>≤≥≈~]? ?(-?)\$?(\d[\d,]*\.?\d*|\.\d+)")
_INTERVAL: Final = re.compile(r"\([^)]*\)")
_PLAIN_WORDS: Final = re.compile(r"[a-zA-Z$][\w$/. ]*")


def blocks_html(blocks: Sequence[Block], new_id: Callable[[], str]) -> str:
    """Return blocks in order; `new_id` returns names that occur once on the page."""
    return "\n".join(block_html(block, new_id) for block in blocks)


def block_html(block: Block, new_id: Callable[[], str]) -> str:
    """Return one block as HTML."""
    match block:
        case Paragraph(text=text, emphasis=emphasis):
            return _paragraph(text, "lead" if emphasis else "")
        case Figure(text=text, title=title):
            return heading(title) + _figure(text)
        case Table():
            return heading(block.title) + table_html(block, new_id)
        case Chart():
            return (
                ""
                if block.is_empty
                else chart_html(block, table_html(chart_table(block), new_id, is_plain=True))
            )


def heading(title: str) -> str:
    return f"<h3>{html.escape(title)}</h3>\n" if title else ""


def link_addresses(text: str) -> str:
    """Return escaped text whose web addresses are links; text between backticks is code."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        return _with_links(text)
    return "".join(
        f"<code>{html.escape(piece)}</code>" if i % 2 else _with_links(piece)
        for i, piece in enumerate(pieces)
    )


def _with_links(text: str) -> str:
    parts = []
    position = 0
    for found in _ADDRESS.finditer(text):
        parts.append(html.escape(text[position : found.start()]))
        address = html.escape(found.group(), quote=True)
        parts.append(f'<a href="{address}" rel="noreferrer">{address}</a>')
        position = found.end()
    return "".join([*parts, html.escape(text[position:])])


def _paragraph(text: str, kind: str) -> str:
    """Return lines of text as HTML; lines that begin with a dash form a list."""
    mark = f' class="{kind}"' if kind else ""
    out: list[str] = []
    lines: list[str] = []
    items: list[str] = []

    def flush() -> None:
        if lines:
            out.append(f"<p{mark}>{'<br>'.join(lines)}</p>")
        if items:
            out.append('<ul class="points">' + "".join(f"<li>{item}</li>" for item in items) + "</ul>")
        lines.clear()
        items.clear()

    for line in text.split("\n"):
        is_item = _ITEM.match(line) is not None
        if bool(items) and not is_item:
            flush()
        if is_item and lines:
            flush()
        (items if is_item else lines).append(link_addresses(line[2:] if is_item else line))
    flush()
    return "\n".join(out)


def _figure(text: str) -> str:
    """Return text with a fixed layout; a single line is a command, which may wrap."""
    kind = "" if "\n" in text else ' class="command"'
    return f'<div class="figure"><pre{kind} tabindex="0">{html.escape(text)}</pre></div>'


def table_html(table: Table, new_id: Callable[[], str], *, is_plain: bool = False) -> str:
    """Return a table as HTML. Unless it is plain, the page's script makes it sortable, and from nine rows on
    filterable."""
    num_rows = len(table.rows)
    sortable = " data-sortable" if num_rows > 1 and not is_plain else ""
    marks = sortable + (" data-filter" if num_rows >= LEAST_ROWS_TO_FILTER and not is_plain else "")
    window = "scroll tall" if num_rows >= LEAST_ROWS_TO_SCROLL else "scroll"
    name = table.title or "Table of " + ", ".join(filter(None, (column.header for column in table.columns)))
    stacks = ' class="stacks"' if len(table.columns) >= LEAST_COLUMNS_TO_STACK else ""
    label = f'aria-label="{html.escape(name, quote=True)}"'
    head = "".join(map(_head_cell, table.columns))
    rows = "\n".join(_rows(table, new_id))
    return (
        f'<div class="{window}" role="region" tabindex="0" {label}><table{stacks} {label}{marks}>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def _rows(table: Table, new_id: Callable[[], str]) -> Iterator[str]:
    named = len(table.columns) >= LEAST_COLUMNS_TO_STACK
    for i, row in enumerate(table.rows):
        details = table.details[i] if table.details else ()
        cells = [_cell(cell, column, is_named=named) for cell, column in zip(row, table.columns, strict=True)]
        if not details:
            yield f'<tr class="row">{"".join(cells)}</tr>'
            continue
        name = new_id()
        words = html.escape(f"Details of {' '.join(row[:2])}", quote=True)
        button = (
            f'<button type="button" class="more" aria-expanded="false" aria-controls="{name}" aria-label="{words}">'
            "</button>"
        )
        cells[0] = cells[0].replace(">", f">{button}", 1)
        yield f'<tr class="row">{"".join(cells)}</tr>'
        inner = "\n".join(f"<div{_width(block)}>{_detail(block, new_id)}</div>" for block in details)
        yield (
            f'<tr class="detail" id="{name}"><td colspan="{len(table.columns)}"><div class="parts">{inner}</div>'
            "</td></tr>"
        )


def _detail(block: Block, new_id: Callable[[], str]) -> str:
    """Return a part of a row's details; its tables are short lists of facts, so they are not sortable."""
    if isinstance(block, Table):
        return heading(block.title) + table_html(block, new_id, is_plain=True)
    return block_html(block, new_id)


def _width(block: Block) -> str:
    return "" if isinstance(block, Chart | Table) else ' class="wide"'


def _cell(cell: str, column: Column, *, is_named: bool) -> str:
    key = sort_key(cell)
    mark = " data-missing" if is_missing(cell) else "" if key is None else f' data-key="{key:.12g}"'
    found = _RANGE.fullmatch(cell)
    inner = (
        f'{link_addresses(found[1])} <span class="range">{html.escape(found[2])}</span>'
        if found
        else link_addresses(cell)
    )
    kind = ' class="date"' if _DATE.fullmatch(cell) and column.align == "left" else _align(column)
    label = f' data-label="{html.escape(column.header, quote=True)}"' if is_named else ""
    return f"<td{kind}{mark}{label}>{inner}</td>"


def _head_cell(column: Column) -> str:
    """Return the head of a column; one without words is no head to a screen reader."""
    tag, scope = ("th", ' scope="col"') if column.header else ("td", "")
    return f"<{tag}{scope}{_align(column)}>{html.escape(column.header)}</{tag}>"


def _align(column: Column) -> str:
    return ' class="r"' if column.align == "right" else ""


def sort_key(cell: str) -> float | None:
    """Return the number that a cell shows, in SI if the unit is one that answers use; None for text.

    `$1,234.50`, `4.95 ms (4.4-5.5) ≈`, `12 %` and `80.9 requests/s` are numbers; `8 x mi355x`, a date and a dash
    are not.
    """
    text = cell.strip()
    found = _NUMBER.match(text)
    if found is None:
        return None
    rest = _INTERVAL.sub("", text[found.end() :]).strip(" " + "".join(GLYPHS.values()))
    if rest and rest not in _FACTORS and not (text[found.end()] in " /" and _is_unit(rest)):
        return None
    number = float(found[2].replace(",", ""))
    return (-number if found[1] else number) * _FACTORS.get(rest, 1.0)


def is_missing(cell: str) -> bool:
    return cell.strip() in ("", MISSING)


def _is_unit(words: str) -> bool:
    """Whether the words are a unit without a ladder, e.g. `tokens/s` or `/h`: one word, perhaps per another."""
    return " " not in words and _PLAIN_WORDS.fullmatch(words.lstrip("/")) is not None
