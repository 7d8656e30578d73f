"""Text as forums, shops and programs print it, put into plain rows with a part in each, for the reader of lists."""

import html
import re
from collections.abc import Iterator
from typing import Final

from advisor.catalog.formats.graphics_rows import graphics_in
from advisor.workstation.foreign_words import one_of, word_table

_MARKUP: Final = re.compile(
    r"~~[^~]+~~|\[/?(?:b|i|u|s|url|size|color|font|quote|list|code|center|img|spoiler|hr|\*)(?:=[^\]]*)?\]"
    r"|</?(?:b|i|u|s|em|strong|a|p|br|li|ul|ol|td|tr|th|table|tbody|div|span|h\d)(?:\s[^>]*)?/?>",
    re.IGNORECASE,
)
"""Marks of BBCode and HTML, and what is struck out."""
_EMPHASIS: Final = re.compile(r"\*\*|__|~~|`|[■●◆★☆▪►▶✅✔➡→]")
_DOTS: Final = re.compile(r"(?<=\S)\s[·•]\s(?=\S)")
"""Signs between the parts of a list that stands in one line."""
_LEADERS_OF_LABEL: Final = re.compile(r"^(\s*(?:[-*•]\s*)?[A-Za-z]{2,12})\s*\.{3,}\s*(?=\S)")
"""Dots that lead from a label to its part."""
_HEADING: Final = re.compile(
    r"^\s*(?:\$\s+[a-z]|[\w.-]+@[\w.-]+\S*\s*(?:[#$]\s.*)?$|#{1,6}\s|【[^】]*】\s*$|-{3,}|={3,}|>+\s*$|\[[^\]]*\]\s*$)"
)
"""Row that is a heading, a rule or a command that was typed, and names no part."""

_PCI: Final = re.compile(r"^\s*(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]\s", re.IGNORECASE)
_LSHW: Final = re.compile(
    r"^(?:/\S*|H/W path)?\s+(?:\S+\s+)?(Class|bus|processor|memory|display|disk|storage|system|bridge|network|"
    r"volume|generic|input|"
    r"multimedia|communication|power)\s+(.*)$"
)
_SMI_LIST: Final = re.compile(r"^\s*GPU \d+:.*\(UUID")
_SMI_OTHER: Final = re.compile(r"^\s*(?:[|+]|NVIDIA-SMI)")
_SMI_MARK: Final = re.compile(r"\bNVIDIA-SMI\b")
_INXI_MARK: Final = re.compile(r"\bMobo: \S+.*\bmodel: |\bDevice-1: ", re.MULTILINE)
_FETCH_MARK: Final = re.compile(
    rf"^\s*{one_of('report')}\s*:|^\s*Memory:\s*[\d.]+\s*[MG]iB\s*/", re.MULTILINE
)
"""Labels of reports of a machine: neofetch, lscpu, the settings of KDE, GNOME and macOS, msinfo32 and dxdiag."""
_CARD_MEMORY: Final = re.compile(
    r"^\W*(?:VRAM|GPU (?:memory|VRAM)|video (?:memory|RAM)|(?:dedicated|display) (?:video |GPU )?memory(?: \(VRAM\))?)"
    r"\s*(?:\([^)]*\))?\s*[:=]\s*([\d.,]+)\s*([MG])i?B",
    re.IGNORECASE,
)
"""Memory of the card that the row above names."""
_WHOLE_MAKERS: Final = re.compile(
    r"\b(?:dell|hp|hewlett|hpe|lenovo|alienware|supermicro|fujitsu|apple)\b", re.IGNORECASE
)
"""Makers of whole machines, whose product tells more than the number of its board."""
_IS_CARD: Final = re.compile(
    r"\b(?:GPU|graphics|RTX|GTX|Radeon|GeForce|Tesla|Quadro|Arc|RX)\b", re.IGNORECASE
)

_INXI_CPU: Final = re.compile(
    r"(?:\bmodel: |\bInfo: (?:\dx )?[\w-]+-core )(?!model)(.*?)"
    r"(?: bits: .*| type: .*| arch: .*| \[M.*| speed.*| cache: .*)?$"
)
"""CPU in a row of inxi, in the forms of its releases."""
_ROUND_SIZES_GIB: Final = (4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)
"""Usual sizes of main memory [GiB]: a kernel reports a few per cent less than the modules have."""
_TOTAL: Final = re.compile(r"\btotal:\s*([\d.]+)\s*Gi?B?", re.IGNORECASE)
_USED_OF: Final = re.compile(r"([\d.]+)\s*([MG])i?B\s*(?:\(\d+%\))?\s*$", re.IGNORECASE)


def plain_rows(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield number and text of each row that may name a part, and whether a program printed it; memory of a card in a
    row of its own joins the row of the card."""
    held: tuple[int, str, bool] | None = None
    for row in _rows_of_parts(text):
        size = _CARD_MEMORY.match(row[1])
        if size is None:
            if held is not None:
                yield held
            held = row
        elif held is not None and _IS_CARD.search(held[1]) and not re.search(r"\d\s?Gi?B\b", held[1]):
            amount = float(size[1].replace(",", "")) / (1024 if size[2] in "Mm" else 1)
            held = (held[0], f"{held[1].rstrip()} {round(amount)}GB", held[2])
    if held is not None:
        yield held


def _rows_of_parts(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield the rows of a text that may name a part.

    Marks of forums are left out; of what lspci, lshw, inxi, nvidia-smi, lscpu and neofetch print, only the rows that
    name parts are kept, as a list would name them.
    """
    if len(_LSHW_LONG.findall(text)) >= _LEAST_ROWS_OF_LSHW:
        text = _LSHW_LONG.sub(_write_lshw, text)
    if "<tr" in text.lower():
        text = re.sub(r"</tr>(?!\s*\n)", "\n", text, flags=re.IGNORECASE)
    if len(_DOTS.findall(text)) > 1 and "\n" not in text.strip():
        text = _DOTS.sub("\n", text)
    rows = [_without_marks(row) for row in text.splitlines()]
    plain = "\n".join(rows)
    if _INXI_MARK.search(plain):
        yield from ((number, found, True) for number, found in _inxi_rows(rows))
        return
    is_smi = _SMI_MARK.search(plain) is not None
    is_fetch = _FETCH_MARK.search(plain) is not None
    has_modules = any("DIMM" in row for row in rows if _LSHW.match(row))
    is_sold_whole = any(_lshw_machine(row) for row in rows)
    for number, row in enumerate(rows, 1):
        if not row.strip() or _HEADING.match(row):
            continue
        found: str | None = row
        if _PCI.match(row) or _SMI_LIST.match(row) or (is_smi and _SMI_OTHER.match(row)):
            found = _card(row)
        elif (lshw := _LSHW.match(row)) is not None:
            found = _lshw_machine(row) or _lshw_part(
                row, lshw.group(1), lshw.group(2), has_modules=has_modules, is_sold_whole=is_sold_whole
            )
        elif is_fetch:
            found = _fetch_part(row, plain)
        if found:
            yield number, found, found is not row


_LSHW_LONG: Final = re.compile(
    r"^[ \t*-]*(product|vendor|size|description|capacity|clock|width|slot|serial|version|physical id|bus info)"
    r"\s*:[ \t]*(.*)$",
    re.MULTILINE,
)
"""Row of the long report of lshw, or of a summary in its form."""
_LEAST_ROWS_OF_LSHW: Final = 3


def _write_lshw(row: re.Match[str]) -> str:
    """Return the part that a row of the long report of lshw names; nothing for what names none."""
    if row[1] == "product":
        return str(row[2])
    size = re.fullmatch(r"(\d+)\s?GiB(?:\s.*)?", row[2]) if row[1] == "size" else None
    return f"RAM: {size[1]}GB" if size is not None else ""


def _without_marks(row: str) -> str:
    """Return a row without marks of BBCode, HTML and emphasis; cells between bars keep theirs, which name a kind."""
    row = (
        html.unescape(_MARKUP.sub(" ", re.sub(r"</t[dh]>\s*(?=<t[dh])", " | ", row, flags=re.IGNORECASE)))
        .replace("\u00a0", " ")
        .replace("\u3000", " ")
    )
    row = _LEADERS_OF_LABEL.sub(r"\1: ", row)
    return row if "|" in row else _EMPHASIS.sub(" ", row)


def _card(row: str) -> str | None:
    """Return the graphics card of a row that a program printed; None for any other row."""
    name = graphics_in(row)
    return f"GPU: {name}" if name else None


def _lshw_machine(row: str) -> str | None:
    """Return the machine that a row of `lshw -short` names by a maker who sells it whole; None for any other row."""
    found = _LSHW.match(row)
    if found is None or found.group(1) != "system" or not _WHOLE_MAKERS.search(found.group(2)):
        return None
    return f"Motherboard: {re.sub(r' *[(][^)]*[)] *$', '', found.group(2).strip())}"


def _lshw_part(row: str, kind: str, what: str, *, has_modules: bool, is_sold_whole: bool) -> str | None:
    """Return the part of a row of `lshw -short`; None for what no list names."""
    what = what.strip()
    if kind == "display":
        return _card(row)
    if kind == "processor":
        return f"CPU: {what}"
    if kind == "bus" and re.match(r"/0\s", row) and not is_sold_whole:
        return f"Motherboard: {what}"
    if kind == "memory" and ("DIMM" in what or ("System Memory" in what and not has_modules)):
        return None if "empty" in what.lower() else f"RAM: {what}"
    if kind in ("disk", "storage") and re.search(r"\d[TG]B\b", what):
        return f"Storage: {what}"
    return None


_REPORT_LABELS: Final = {
    label: kind for kind, labels in word_table("report_labels").items() for label in labels
}
"""Kind of part by the label of a report; `cpu` is one where no number follows, which counts threads."""
_THREADS: Final = re.compile(r"^\d+\s*[x×]\s*|\s*(?:[x×]\s*\d+|\(\d+ CPUs?\).*)$|,?\s*~?[\d.]+\s*[GM]Hz.*$")
"""Number of threads beside the name of a CPU: `16 × 13th Gen`, `i7-7700 × 8`, `(8 CPUs), ~3.6GHz`."""


def _fetch_part(row: str, whole: str) -> str | None:
    """Return the part of a row of lscpu, neofetch or the report of a system; None for what names none."""
    label, colon, what = row.partition(":")
    name = re.sub(r"^\W*|\s*\d*\s*(?:\(.*\))?\s*$", "", label).strip().lower()
    what = what.strip()
    if not colon or not what:
        return row if not colon and re.search(r"\d", row) and "@" not in row else None
    kind = _REPORT_LABELS.get(name) if "Installed." not in what else None
    if kind == "cpu" or (name == "cpu" and not what.isdigit()):
        sockets = re.search(r"^\s*Socket\(s\):\s*(\d+)", whole, re.MULTILINE)
        count = f"{sockets.group(1)}x " if sockets and sockets.group(1) != "1" else ""
        return f"CPU: {count}{_THREADS.sub('', re.sub(r' *(?:[(][0-9]+[)])? *@.*$', '', what))}"
    if kind == "gpu":
        return _card(f"GPU: {re.split('/PCIe|/SSE2', what)[0]}")
    if kind == "ram":
        what = re.sub(r"(?<=\d),(?=\d{3})", "", what)
        total = _USED_OF.search(what) or re.match(r"([\d.]+)\s*([MG])i?B?\b", what)
        return (
            f"RAM: {_round_gib(float(total.group(1)) / (1024 if total.group(2) in 'Mm' else 1))}GB"
            if total
            else None
        )
    if kind == "board":
        return f"Motherboard: {what}"
    if kind == "storage":
        return f"Storage: {what}"
    if _CARD_MEMORY.match(row):
        return row
    return row if name in ("psu", "power supply", "case", "cooler", "storage", "ram") else None


def _inxi_rows(rows: list[str]) -> Iterator[tuple[int, str]]:
    """Yield the parts of a report of inxi: pairs of key and value under headings of sections."""
    section = ""
    is_whole = False
    has_modules = any(re.search(r"\bDevice-\d+:.*\btype: DDR", row) for row in rows)
    for number, row in enumerate(rows, 1):
        head = re.match(r"^([A-Z]\w+):\s*(.*)$", row)
        if head is not None:
            section = head.group(1).lower()
            row = head.group(2)
        row = row.strip()
        sold = re.search(
            r"\bSystem: (\S+)(?: \S+)? product: (.*?)(?: v(?:er)?: (.*?))?(?: serial: .*)?$", row
        )
        if sold is not None and _WHOLE_MAKERS.search(sold[1]):
            is_number = re.match(r"[A-Z0-9]{8,}$", sold[2]) is not None  # Lenovo writes the name behind it
            yield number, f"Motherboard: {sold[1]} {sold[3] if is_number and sold[3] else sold[2]}"
            is_whole = True
            continue
        board = re.search(
            r"\bMobo: (\S+(?: \S+)*?) model: (.*?)(?: v(?:er)?: .*| serial: .*| BIOS: .*)?$", row
        )
        if board is not None:
            if not is_whole:
                yield number, f"Motherboard: {board.group(1)} {board.group(2)}"
        elif section == "cpu" and (cpu := _INXI_CPU.search(row)):
            times = re.search(r"\b(\d)x\b", row)
            yield number, f"CPU: {times.group(1) + 'x ' if times else ''}{cpu.group(1)}"
        elif section == "graphics" and (card := _card(row)) is not None:
            yield number, card
        elif section in ("memory", "info") and not has_modules and (total := _TOTAL.search(row)):
            yield number, f"RAM: {_round_gib(float(total.group(1)))}GB"
        elif section == "memory" and (
            module := re.search(r"\btype: (DDR\d).*?size: (\d+) GiB(?:.*?speed: (\d+))?", row)
        ):
            yield number, f"RAM: {module.group(2)}GB {module.group(1)}-{module.group(3) or ''}".rstrip("-")
        elif section == "drives" and (
            drive := re.search(r"vendor: (.*?) model: (.*?) size: ([\d.]+ [TG]i?B)", row)
        ):
            yield number, f"Storage: {drive.group(1)} {drive.group(2)} {drive.group(3)}"


def _round_gib(gib: float) -> int:
    """Return the size of the modules behind a size that a kernel reports [GiB]."""
    return next((size for size in _ROUND_SIZES_GIB if size >= 0.999 * gib), round(gib))
