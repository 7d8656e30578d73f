"""Text as forums, shops and programs print it, put into plain rows with a part in each, for the reader of lists."""

import functools
import html
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Final

from advisor.catalog.files import read_toml
from advisor.catalog.formats.graphics_rows import graphics_in
from advisor.catalog.parts import FOLDER
from advisor.workstation.foreign_words import regex, word_table
from advisor.workstation.typed_line import LABELS

_ROUND_SIZES_GIB: Final = (4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)
"""Usual sizes of main memory [GiB]: a kernel reports a few per cent less than the modules have."""


def split_sections(text: str) -> list[tuple[str, str]]:
    """Return the lists of a text that a heading begins each (`Option A: ...`, `Build 2: ...`), with their names and the
    rows ahead of the first one; a text without such headings as one list without a name."""
    found = list(regex("report.section").finditer(text))
    names = [" ".join(one["name"].split()) for one in found]
    if len({name.lower() for name in names}) < max(2, len(names)):
        return [("", text)]
    ends = [*(one.start() for one in found[1:]), len(text)]
    bodies = [text[one.end() : end].strip(" \t;/|\n") for one, end in zip(found, ends, strict=True)]
    if not all(bodies):
        return [("", text)]
    ahead = text[: found[0].start()].strip()
    return [(name, f"{ahead}\n{body}".strip()) for name, body in zip(names, bodies, strict=True)]


def plain_rows(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield number and text of each row that may name a part, and whether a program printed it; memory of a card in a
    row of its own joins the row of the card."""
    held: tuple[int, str, bool] | None = None
    for row in _rows_of_parts(text):
        size = regex("report.card_memory").match(row[1])
        if size is None:
            if held is not None:
                yield held
            held = row
        elif (
            held is not None
            and regex("report.is_card").search(held[1])
            and not re.search(r"\d\s?Gi?B\b", held[1])
        ):
            amount = float(size[1].replace(",", "")) / (1024 if size[2] in "Mm" else 1)
            held = (held[0], f"{held[1].rstrip()} {round(amount)}GB", held[2])
    if held is not None:
        yield held


def _rows_of_parts(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield the rows of a text that may name a part.

    Marks of forums are left out; of what lspci, lshw, inxi, nvidia-smi, lscpu and neofetch print, only the rows that
    name parts are kept, as a list would name them.
    """
    if len(regex("report.lshw_long").findall(text)) >= _LEAST_ROWS_OF_LSHW:
        text = regex("report.lshw_long").sub(_write_lshw, text)
    if len(regex("report.dots").findall(text)) > 1 and "\n" not in text.strip():
        text = regex("report.dots").sub("\n", text)
    rows = rows_without_marks(text)
    plain = "\n".join(rows)
    if regex("report.inxi_mark").search(plain):
        yield from _report_parts(list(enumerate(_with_sections(rows), 1)), "inxi")
        return
    records = list(_records_of_dmi(rows))
    yield from _report_parts(records, "dmidecode")
    rows = [row for row in rows if not records or not regex("report.of_dmi").match(row)]
    is_smi = regex("report.smi_mark").search(plain) is not None
    is_fetch = regex("report.fetch_mark").search(plain) is not None
    of_lshw = [(number, row) for number, row in enumerate(rows, 1) if regex("report.lshw").match(row)]
    yield from _report_parts(of_lshw, "lshw")
    for number, row in enumerate(rows, 1):
        if not row.strip() or regex("report.heading").match(row) or regex("report.of_free").match(row):
            continue
        found: str | None = row
        memory = regex("report.free").match(row)
        if memory is not None:
            found = f"RAM: {_round_gib(_gib_of_free(memory))}GB"
        elif (
            regex("report.pci").match(row)
            or regex("report.smi_list").match(row)
            or (is_smi and regex("report.smi_other").match(row))
        ):
            found = _card(row)
        elif regex("report.lshw").match(row):
            continue
        elif is_fetch:
            found = _fetch_part(row, plain)
        if found:
            yield number, found, found is not row


def _records_of_dmi(rows: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the place and the text in one row of each record of dmidecode."""
    for place, row in enumerate(rows):
        if row.startswith("Handle 0x"):
            inside = itertools.takewhile(lambda one: one[:1].isspace(), rows[place + 2 :])
            yield place + 1, "; ".join(map(str.strip, (*rows[place + 1 : place + 2], *inside)))


_LEAST_ROWS_OF_LSHW: Final = 3


def _write_lshw(row: re.Match[str]) -> str:
    """Return the part that a row of the long report of lshw names; nothing for what names none."""
    if row[1] == "product":
        return str(row[2])
    size = re.fullmatch(r"(\d+)\s?GiB(?:\s.*)?", row[2]) if row[1] == "size" else None
    return f"RAM: {size[1]}GB" if size is not None else ""


def rows_without_marks(text: str) -> list[str]:
    """Return the rows of a text without the marks of forums and of HTML, whose cells then stand between bars."""
    if "<tr" in text.lower():
        text = re.sub(r"</tr>(?!\s*\n)", "\n", text, flags=re.IGNORECASE)
    return [_without_marks(row) for row in text.splitlines()]


def _without_marks(row: str) -> str:
    """Return a row without marks of BBCode, HTML and emphasis; cells between bars keep theirs, which name a kind."""
    row = (
        html.unescape(
            regex("report.markup").sub(" ", re.sub(r"</t[dh]>\s*(?=<t[dh])", " | ", row, flags=re.IGNORECASE))
        )
        .replace("\u00a0", " ")
        .replace("\u3000", " ")
    )
    row = regex("row.link").sub(r"\1", regex("report.leaders_of_label").sub(r"\1: ", row))
    return row if "|" in row else regex("report.emphasis").sub(" ", row)


def _card(row: str) -> str | None:
    """Return the graphics card of a row that a program printed; None for any other row."""
    name = graphics_in(row)
    return f"GPU: {name}" if name else None


_TOLD_BY: Final = {"board": "machine", "memory": "module"}
"""Kind of row that tells nothing more where a report has rows of another kind."""


@functools.cache
def _rows_of_report(program: str) -> tuple[tuple[str, re.Pattern[str], str], ...]:
    """Return kind, pattern and form of the rows of a program."""
    kinds = read_toml(FOLDER / "reports.toml")[program]
    return tuple(
        (kind, re.compile(pattern, re.IGNORECASE), form)
        for kind, rows in kinds.items()
        for pattern, form, *_ in rows
    )


def _report_parts(rows: Sequence[tuple[int, str]], program: str) -> Iterator[tuple[int, str, bool]]:
    """Yield the parts that rows of a program name, as a list would name them.

    Source: reports.toml of the catalog.
    """
    found = []
    for number, row in rows:
        told = ((kind, pattern.match(row), form) for kind, pattern, form in _rows_of_report(program))
        kind, match, form = next((one for one in told if one[1] is not None), ("", None, ""))
        text = _card(row if match is None else match.expand(form)) if kind in ("", "gpu") else None
        if match is not None and kind != "gpu":
            text = regex("report.memory_size").sub(
                lambda size: f"RAM: {_round_gib(float(size[1]))}GB", match.expand(form)
            )
        if text:
            found.append((number, kind, text))
    kinds = {kind for _, kind, _ in found}
    return ((number, text, True) for number, kind, text in found if _TOLD_BY.get(kind) not in kinds)


def _with_sections(rows: Sequence[str]) -> Iterator[str]:
    """Yield the rows of a report of inxi with the heading of their section."""
    section = ""
    for row in rows:
        head = re.match(r"^([A-Z]\w+):\s*(.*)$", row)
        section = head.group(1).lower() if head is not None else section
        yield f"{section}: {(head.group(2) if head is not None else row).strip()}"


_REPORT_LABELS: Final = {
    label: kind for kind, labels in word_table("report_labels").items() for label in labels
}
"""Kind of part by the label of a report; `cpu` is one where no number follows, which counts threads."""


def _fetch_part(row: str, whole: str) -> str | None:
    """Return the part of a row of lscpu, neofetch or the report of a system; None for what names none."""
    label, colon, what = row.partition(":")
    name = re.sub(r"^\W*|\s*\d*\s*(?:\(.*\))?\s*$", "", label).strip().lower()
    what = what.strip()
    if not colon or not what:
        return row if not colon and re.search(r"\d", row) and "@" not in row else None
    labelled = _REPORT_LABELS.get(name) or _REPORT_LABELS.get(name.removesuffix("s"))
    kind = labelled if "Installed." not in what else None
    if kind == "cpu" or (name == "cpu" and not what.isdigit()):
        sockets = re.search(r"^\s*Socket\(s\):\s*(\d+)", whole, re.MULTILINE)
        count = f"{sockets.group(1)}x " if sockets and sockets.group(1) != "1" else ""
        what = regex("report.threads").sub("", re.sub(r" *(?:[(][0-9]+[)])? *@.*$", "", what))
        return f"CPU: {count}{what}"
    if kind == "gpu" and regex("line.trailing").search(what):
        return f"GPU: {what}"  # a person counts the cards, no program does
    if kind == "gpu":
        return _card(f"GPU: {re.split('/PCIe|/SSE2', what)[0]}")
    if kind == "ram":
        what = re.sub(r"(?<=\d),(?=\d{3})", "", what)
        total = regex("report.used_of").search(what) or re.match(r"([\d.]+)\s*([MG])i?B?\b", what)
        return (
            f"RAM: {_round_gib(float(total.group(1)) / (1024 if total.group(2) in 'Mm' else 1))}GB"
            if total
            else None
        )
    if kind in ("board", "storage"):
        return f"{kind}: {what}"
    if regex("report.card_memory").match(row):
        return row
    return row if LABELS.get(name, "other") != "other" else None


def _gib_of_free(row: re.Match[str]) -> float:
    """Return the memory of a row of `free` [GiB]. Its number has a unit (-h) or none: its size tells GiB (-g), MiB (-m)
    and KiB apart."""
    size = float(row["size"].replace(",", "."))
    unit = (row["unit"] or ("G" if size < _LEAST_MIB else "M" if size < _LEAST_KIB else "K")).upper()
    return size * 1024.0 ** ("KMGT".index(unit) - 2)


_LEAST_MIB: Final = 3000.0
"""Size without a unit from which it is one in MiB: machines of a list have at least 4 GB and less than 3 TB."""
_LEAST_KIB: Final = 3e6


def _round_gib(gib: float) -> int:
    """Return the size of the modules behind a size that a kernel reports [GiB]."""
    return next((size for size in _ROUND_SIZES_GIB if size >= 0.999 * gib), round(gib))
