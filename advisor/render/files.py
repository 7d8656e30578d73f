"""Answers as files: the suffix of the name decides the format."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Final

from advisor.catalog.errors import AdvisorError
from advisor.catalog.legible import legible, markdown
from advisor.render.answer import Answer, Block, Chart, Figure, Paragraph, Table
from advisor.render.chart_text import chart_table
from advisor.render.document import Json, dump
from advisor.render.frame import check_parquet, csv_text, parquet_bytes
from advisor.render.html_page import as_html, origin

Writer = Callable[[Answer, Mapping[str, Json]], str | bytes]


def as_json(answer: Answer, content: Mapping[str, Json]) -> str:
    """Return the document that --json prints."""
    return dump(dict(content))


def as_csv(answer: Answer, content: Mapping[str, Json]) -> str:
    """Return the answer's list of records as CSV, one flat row each, SI units in the column names.

    Raises: AdvisorError: the answer is not a list.
    """
    return csv_text(_records(answer, "CSV"))


def as_parquet(answer: Answer, content: Mapping[str, Json]) -> bytes:
    """Return the answer's list of records as Parquet.

    Raises: AdvisorError: the answer is not a list. MissingHardwareError: pyarrow is not installed.
    """
    return parquet_bytes(_records(answer, "Parquet"))


def _records(answer: Answer, form: str) -> Sequence[object]:
    if not answer.records:
        raise _no_table(form)
    return answer.rows()


def _no_table(form: str) -> AdvisorError:
    return AdvisorError(
        f"this answer has no table to write as {form}",
        why="it is one record with nested parts",
        fix="use a file name that ends in .json, .md or .html",
    )


def _no_drawing() -> AdvisorError:
    return AdvisorError(
        "this answer has no drawing to write as SVG",
        why="advisor roofline draws, other commands do not",
        fix="use a file name that ends in .json, .md or .html",
    )


def check_form(path: Path, *, has_table: bool, has_drawing: bool) -> None:
    """Refuse a format that a command's answers do not have, before the work.

    Raises: AdvisorError: a table or a drawing is asked of answers without.
    """
    suffix = path.suffix.lower()
    if suffix in (".csv", ".parquet") and not has_table:
        raise _no_table(suffix[1:].upper() if suffix == ".csv" else "Parquet")
    if suffix == ".svg" and not has_drawing:
        raise _no_drawing()


def as_markdown(answer: Answer, content: Mapping[str, Json]) -> str:
    """Return the terminal's blocks as Markdown, with a line on their origin."""
    parts = [_markdown(block) for block in answer.blocks if not (isinstance(block, Chart) and block.is_empty)]
    return "\n\n".join([*parts, f"*{origin(content)}*"]) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Paragraph(text=text, emphasis=emphasis):
            return f"**{markdown(text)}**" if emphasis else markdown(text)
        case Figure(text=text, title=title):
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
            return (f"**{markdown(title)}**\n\n" if title else "") + f"{fence}\n{legible(text)}\n{fence}"
        case Table():
            marks = ("---:" if column.align == "right" else "---" for column in block.columns)
            lines = [_markdown_row(markdown(c.header) for c in block.columns), _markdown_row(marks)]
            lines += [_markdown_row(map(_cell, row)) for row in block.rows]
            return (f"**{markdown(block.title)}**\n\n" if block.title else "") + "\n".join(lines)
        case Chart():
            return _markdown(chart_table(block))


def _cell(text: str) -> str:
    return markdown(text).replace("|", "\\|").replace("\n", " ")


def _markdown_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def as_svg(answer: Answer, content: Mapping[str, Json]) -> str:
    """Return the answer's drawing as SVG.

    Raises: AdvisorError: it has none.
    """
    if not answer.svg:
        raise _no_drawing()
    return legible(answer.svg)


WRITERS: Final[dict[str, Writer]] = {
    ".json": as_json,
    ".csv": as_csv,
    ".md": as_markdown,
    ".html": as_html,
    ".parquet": as_parquet,
    ".svg": as_svg,
}
_FOR_ALL: Final = (".json", ".csv", ".md", ".html")


def writer_for(path: Path) -> Writer:
    """Return the writer for the suffix of a file name.

    Raises: AdvisorError: the suffix is of no known format. MissingHardwareError: nothing here can write it.
    """
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        check_parquet()
    if suffix not in WRITERS:
        raise AdvisorError(
            f"no output format for {path.name}",
            why=f"the suffix {path.suffix!r} is not known" if path.suffix else "the file name has no suffix",
            fix=f"let it end in {', '.join(_FOR_ALL)}, e.g. -o {quote(str(path.with_suffix('.json')))}",
        )
    return WRITERS[suffix]
