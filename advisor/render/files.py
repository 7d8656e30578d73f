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
    return csv_text(_records(answer, ".csv"))


def as_parquet(answer: Answer, content: Mapping[str, Json]) -> bytes:
    """Return the answer's list of records as Parquet.

    Raises: AdvisorError: the answer is not a list. MissingHardwareError: pyarrow is not installed.
    """
    return parquet_bytes(_records(answer, ".parquet"))


def _records(answer: Answer, form: str) -> Sequence[object]:
    if not answer.records:
        raise _missing_form(form, "it is one record with nested parts", forms_of(answer))
    return answer.rows()


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
        raise _missing_form(".svg", "only some answers of this command have one", forms_of(answer))
    return legible(answer.svg)


WRITERS: Final[dict[str, Writer]] = {
    ".json": as_json,
    ".csv": as_csv,
    ".md": as_markdown,
    ".html": as_html,
    ".parquet": as_parquet,
    ".svg": as_svg,
}
_HOLDS: Final = {".csv": "table", ".parquet": "table", ".svg": "drawing"}
"""Part without which an answer has no such form; the other forms hold any answer."""


def forms_for(*, has_table: bool, has_drawing: bool) -> tuple[str, ...]:
    """Return the suffixes of the files that answers with or without tables and drawings can be written to."""
    lacks = {"table": not has_table, "drawing": not has_drawing}
    return tuple(suffix for suffix in WRITERS if not lacks.get(_HOLDS.get(suffix, ""), False))


def forms_of(answer: Answer) -> tuple[str, ...]:
    """Return the suffixes of the files that an answer can be written to."""
    return forms_for(has_table=bool(answer.records), has_drawing=bool(answer.svg))


def check_form(path: Path, forms: Sequence[str], drawn_by: Callable[[], Sequence[str]]) -> None:
    """Refuse a file that the answers of a command cannot be written to, before the work.

    `forms` are the suffixes that can; `drawn_by` returns the commands that draw.

    Raises: AdvisorError: the suffix is of no format of the command. MissingHardwareError: nothing here can write it.
    """
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        check_parquet()
    if suffix in forms:
        return
    if suffix == ".svg":
        names = ", ".join(f"advisor {name}" for name in drawn_by())
        raise _missing_form(
            suffix, f"{names} draw; charts of other answers are on their pages (.html)", forms
        )
    if suffix in WRITERS:
        raise _missing_form(suffix, "it is one record with nested parts", forms)
    stem = path.name.partition(".")[0] if Path(path.stem).suffix.lower() in WRITERS else path.stem
    raise AdvisorError(
        f"no output format for {path.name}",
        why=f"the suffix {path.suffix!r} is not known" if path.suffix else "the file name has no suffix",
        fix=f"let it end in {_list_words(forms)}, e.g. -o {quote(str(path.with_name(f'{stem}.json')))}",
    )


def _missing_form(suffix: str, why: str, forms: Sequence[str]) -> AdvisorError:
    return AdvisorError(
        f"this answer has no {_HOLDS[suffix]} to write as {suffix[1:].upper()}",
        why=why,
        fix=f"use a file name that ends in {_list_words(forms)}",
    )


def _list_words(forms: Sequence[str]) -> str:
    return f"{', '.join(forms[:-1])} or {forms[-1]}"


def writer_for(path: Path) -> Writer:
    """Return the writer for the suffix of a file name.

    Raises: AdvisorError: the suffix is of no known format. MissingHardwareError: nothing here can write it.
    """
    check_form(path, tuple(WRITERS), tuple)
    return WRITERS[path.suffix.lower()]
