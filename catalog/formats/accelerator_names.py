"""Accelerators by the names that drivers' tools, lspci and people write in a line, with the memory behind a name."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final, NamedTuple

from advisor.catalog import accelerators
from advisor.catalog.errors import InputFileError
from advisor.catalog.files import DATA_DIR, read_csv
from advisor.catalog.formats.graphics_rows import graphics_in
from advisor.catalog.units import GIB, MIB

_DIVIDERS: Final = re.compile(r"\s{2,}|\t|[|│┃,;<>]|(?<=[:=])\s*|\s->\s")
_BRACKETS: Final = re.compile(r"\[([^\[\]]{3,60})\]")
_QUOTED: Final = re.compile(r"[\"']([^\"']{2,60})[\"']")
_UUID: Final = re.compile(r"(?:\b(?:uuid|id)\W+|\[)(GPU-[\w-]+)", re.IGNORECASE)
"""Name of one board: lines of several machines have the same numbers."""
_BESIDE: Final = re.compile(
    r"\((?!r\)|tm\)|[^)]*\bgi?b\b)[^)]*\)?"
    r"|\s@\s.*|\[[^\]]*\]|/pcie/sse2|^\W+|[^\w)]+$|\bOAM\b.*|\bdeveloper kit\b.*|\s(?:on|off|n/a)$",
    re.IGNORECASE,
)
"""Text that programs write around the name of a board within its cell: revisions, clocks, renderers."""
_TIMES_AHEAD: Final = re.compile(r"^\W*(\d{1,4})\s*[x×]\s*(?=\D)", re.IGNORECASE)
_TIMES_BEHIND: Final = re.compile(r"(?:\s[x×]\s?|[\s(]+[x×])(\d{1,4})\)?$", re.IGNORECASE)
_CORES: Final = re.compile(r"\((\d{1,2})\)|\b(\d{1,2})[- ]?core GPU", re.IGNORECASE)
_GPU_CORES: Final = re.compile(
    r"(?:Total Number of Cores:|\"sppci_cores\": \")\s*(\d{1,2})(?:\",?)?\s*$", re.MULTILINE
)
"""Cores of the GPU as system_profiler prints them under displays, as text or as JSON; those of the processor have their
kinds behind."""
_APPLE: Final = re.compile(r"\bapple m\d", re.IGNORECASE)
_HOST_MEMORY: Final = re.compile(
    r"^[^\n|]*\bMemory\s*:\s*(?:[\d.]+\s*[MG]i?B\s*/\s*)?([\d.]+)\s*(GB|GiB|MiB)", re.MULTILINE
)
_MEMORY: Final = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?) ?(MiB|MB|GiB)\b(?!\s*/)")
_CLOCK: Final = re.compile(r"\d{4}[-/]\d\d[-/]\d\d|(?<![\w:])\d\d:\d\d:\d\d(?:\.\d+)?\b(?!\.\d)")
_WIDE: Final = re.compile(r"\s{3,}")
"""Blanks between a picture, as neofetch draws it, and the words behind it."""
_NUMBERED: Final = re.compile(r"(?<!\S)(?!(?:AD|G[ABHKMPV]|TU|NV)\d)\S*\d\S*")
"""Word that may number a line; the name of a chip, AD102, is that of every board with it."""
_DEVICE_ID: Final = re.compile(r"\[(10de|1002|8086):([0-9a-f]{4})\]", re.IGNORECASE)
_AMD_ID: Final = re.compile(r"\b0x(7[0-9a-f]{3})\b", re.IGNORECASE)
LONGEST_NAME: Final = 60
_LONGEST_ROW: Final = 400
"""Longest row in which an accelerator is looked for [characters]; people write shorter ones."""
_POWER_LIMIT: Final = re.compile(r"\d+W\s*/\s*(\d+)W\b")
"""Power and its limit in a row of nvidia-smi."""
_CUT: Final = re.compile(r"\s*(?:\.\.\.?|…)$")
"""Sign with which nvidia-smi cuts off a long name."""
_CUT_MAKER: Final = re.compile(r"^\W*(?:nvidia|amd)\b|\b(?:geforce|tesla|radeon|instinct)\b")
_GEFORCE_SIZE: Final = re.compile(r"(?<=[gr]tx.\d{4})\D?\d+ ?gb$")
"""Memory at the end of a GeForce's id in the catalog, which no program writes into the name."""
_MEMORY_TOLERANCE: Final = 0.08
"""Largest difference between a board's memory and what a program shows of it, which may leave out that of error
correction; the next memories of boards with one name differ by 10 % and more."""
_SHORT: Final = 3
"""Letters and figures up to which a name is an accelerator's only if its maker's is there too: T4, P40, M3."""
_MAKER: Final = re.compile(
    r"nvidia|tesla|geforce|\bamd\b|instinct|apple|intel|\bgpu|accelerator|\bmac\b|\bcards?\b", re.IGNORECASE
)

_OF_A_FAMILY: Final = (
    r"(?:(?:(?:rtx|gtx|rx|radeon|geforce|quadro|tesla|instinct|ascend|arc)[ -]?|mi|cmp |g[bh]|[abhv])\d{3,4}"
    r"|(?:gaudi|trainium|inferentia|tpu)[ -]?v?\d|l\d\d)"
)
_UNKNOWN_NAMES: Final = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"(?<![\w./-])(?P<name>{_OF_A_FAMILY}[a-z]{{0,2}}(?: (?:ti|super|xtx?|pro|max|[dsx]))*)(?![\w./-])",
        r"(?<![\w.])\d{1,4} ?[x×] ?(?P<name>[a-z][a-z-]*[ -]?\d[\w-]*)(?![\w./])",
        r"(?<![\w./-])(?P<name>[a-z][a-z-]*[ -]?\d[\w-]*) (?:gpu|graphics card|accelerator)s?\b",
        r"\b(?:on|using) (?:an?|one|my|our|\d+) (?P<name>(?:[a-z]+ )?[a-z]+-?\d{3,4}[ac-ln-z]?)(?![\w./-])",
    )
)
"""Names that are those of accelerators, known or not: by their families, behind a number or before the word."""

_ASIDE: Final = re.compile(r"[()\[\],;`]|\*(?!\s?\d)|:(?=\s|$)|(?<=\D)\.(?=\s|$)|(?<=\d)[x×](?=[A-Za-z])")
_NUMBER_AHEAD: Final = re.compile(r"(?<!\S)(\d{1,3}) ?[x×]?$")
_NUMBER_BEHIND: Final = re.compile(r"[x×*] ?(\d{1,3})\b")
_MEMORY_BEHIND: Final = re.compile(r"\d{1,3} ?(?:GB?|GiB)\b", re.IGNORECASE)
SIGN_OF_A_CHIP: Final = re.compile(r"\d|spark", re.IGNORECASE)
_LONGEST_NAME_WORDS: Final = 5


class NamedAccelerator(NamedTuple):
    """Accelerator that one line names."""

    kind: str
    """Words before the name, numbers apart: lines of one kind name an accelerator each."""
    place: str
    """Numbers before the name, or the name of the one board."""
    number: int
    id: str


def accelerator_named(line: str) -> tuple[int, str] | None:
    """Return number and id of the accelerator that a line names; None if it names none, or one of several boards."""
    try:
        found = accelerator_in(line, line, is_amd=False)
    except InputFileError:
        return None
    return (found.number, found.id) if found else None


def boards_in(line: str, *, counts_short_names: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the accelerators that a line of prose names, each with the number before or behind its name, or an empty
    text.

    A name of up to three signs (L4, P40) may be anything: it counts if the line has a maker, memory follows it, or the
    line is known to be of accelerators.
    """
    words = _ASIDE.sub(" ", line).split()
    place = 0
    while place < len(words):
        found = next(
            (
                (count, record.id)
                for count in range(min(_LONGEST_NAME_WORDS, len(words) - place), 0, -1)
                if (name := " ".join(words[place : place + count]))
                if SIGN_OF_A_CHIP.search(name)
                and (
                    counts_short_names
                    or len(name) > _SHORT
                    or _MAKER.search(line)
                    or _MEMORY_BEHIND.match(" ".join(words[place + count :]))
                )
                if (record := accelerators.find(name)) is not None
            ),
            None,
        )
        if found is None:
            place += 1
            continue
        ahead = _NUMBER_AHEAD.search(" ".join(words[max(0, place - 2) : place]))
        place += found[0]
        number = _NUMBER_BEHIND.match(" ".join(words[place : place + 2])) or ahead
        yield found[1], number[1] if number else ""


def unknown_accelerator(text: str) -> str:
    """Return the first name in a text that is an accelerator's by its family or the words around it, and that the
    catalog does not have; empty if there is none."""
    named = (found["name"] for form in _UNKNOWN_NAMES for found in form.finditer(text))
    return next((name for name in named if not any(map(accelerators.find, (name, name[:-1])))), "")


def one_accelerator(text: str) -> str:
    """Return the accelerator that the lines of a text name; empty if none does, or they name several."""
    lines = [line for line in text.splitlines() if len(line) <= _LONGEST_ROW]
    named = {found[1] for line in lines if (found := accelerator_named(line)) is not None}
    named = named or {id_ for line in lines for id_, _ in boards_in(line)}
    return named.pop() if len(named) == 1 else ""


def accelerator_in(line: str, text: str, *, is_amd: bool) -> NamedAccelerator | None:
    """Return the accelerator that a line of a text names; None for any other line.

    Raises: InputFileError: the name stands for several boards.
    """
    if known := _by_device_id(line, is_amd=is_amd):
        start = line.lower().find("[" if not is_amd else "0x")
        return NamedAccelerator(*_kind_of(line[:start]), 1, known)
    quoted = [inner.strip() for inner in _QUOTED.findall(line)]
    for span in _spans(line):
        if len(span) > LONGEST_NAME or not _may_name(span, line):
            continue
        number = max(1, quoted.count(span))
        if times := _TIMES_AHEAD.search(span) or _TIMES_BEHIND.search(span):
            number = int(times[1])
            bare = span[: times.start()] + span[times.end() :]
        else:
            bare = span
        if (id_ := resolve_name(bare, line, text)) is not None:
            kind, place = _kind_of(line[: line.find(span)])
            own = _UUID.search(line)
            return NamedAccelerator(kind, own[1] if own else place, number, id_)
    return None


def _spans(line: str) -> Iterator[str]:
    """Yield the parts of a line that may be a name alone: names in brackets first, then cells and values."""
    if card := graphics_in(line):
        yield card
    yield from (inner.strip() for inner in (*_BRACKETS.findall(line), *_QUOTED.findall(line)))
    for part in _DIVIDERS.split(line):
        cell = (part or "").strip()
        yield cell
        if "/" in cell and " " not in cell:  # an address of an interface, whose last part is the name
            yield cell.rpartition("/")[2]
        elif path := re.match(r"(?:[a-z][a-z.]*/)+(?=\w)", cell):  # a device of Nomad: vendor, type, name
            yield cell[path.end() :]
        numbered = re.sub(r"^(?:\[?\d+\]?:?|GPU\s*\d+:?|-)\s+", "", cell)
        if numbered != cell:
            yield numbered
        if (key := re.match(r"[\w .()\[\]-]+?[:=]\s*(?=\S)", cell)) is not None:
            yield cell[key.end() :]


@cache
def _name_words() -> frozenset[str]:
    """Return the words with figures of all ids and aliases: 4090, h100, mi300x, 225."""
    names = (*accelerators.all_ids(), *accelerators.aliases())
    joined = {re.sub(r"[^a-z0-9]", "", name.lower()) for name in names}
    words = {word for name in names for word in re.findall(r"[a-z0-9]+", name.lower())}
    return frozenset(word for word in joined | words if re.search(r"\d", word))


def _may_name(span: str, line: str) -> bool:
    words = re.findall(r"[a-z0-9]+", span.lower())
    known = [word for word in words if word in _name_words()]
    return bool(known) and (max(map(len, known)) > _SHORT or len(words) > 1 or bool(_MAKER.search(line)))


def resolve_name(span: str, line: str, text: str) -> str | None:
    """Return the id of the accelerator that a span means, with the memory that its line states; None if unknown.

    Raises: InputFileError: the name stands for several boards, as those of lspci do.
    """
    bare = " ".join(_BESIDE.sub(" ", span.replace("_", " ")).split())
    cores = _CORES.search(span)
    memory = _gib_in(line, span)
    if cut := _CUT.search(span):
        # nvidia-smi shows the memory in the line below the name.
        below = "".join(text.partition(line)[2].splitlines()[1:2])
        limit = _POWER_LIMIT.search(below)
        names = _names_from(span[: cut.start()])
        return _one_of_several(span, _with_power(names, limit), memory or _gib_in(below, ""))
    if _APPLE.search(bare):
        bare = re.sub(r"\s*\(.*", "", bare)
        count = cores[1] or cores[2] if cores else next(iter(_GPU_CORES.findall(text)), "")
        bare = f"{bare} {count}-core" if count else bare
        memory = _host_gib(text)
        names = [f"{bare} {memory}GB", f"{bare.rpartition(' ')[0]} {memory}GB", bare]
        names += [bare.rpartition(" ")[0]] if count else []
    else:
        names = [f"{bare} {memory}GB", bare] if memory and not re.search(r"\d\s?GB?\b", bare) else [bare]
    for each in names:
        if (record := accelerators.find(each)) is not None:
            return record.id
    if "/" in bare:
        return _one_of_several(bare, [part.strip() for part in bare.split("/")], memory)
    return None


def _names_from(beginning: str) -> list[str]:
    """Return the ids of the accelerators whose longer names begin as a program shows them before it cuts them off."""
    start = re.sub(r"[^a-z0-9]", "", _CUT_MAKER.sub("", beginning.lower()))
    spelt = {name: name for name in accelerators.all_ids()} | dict(accelerators.aliases())
    named = ((_GEFORCE_SIZE.sub("", name.lower()), id_) for name, id_ in spelt.items())
    names = ((re.sub(r"[^a-z0-9]", "", name), id_) for name, id_ in named)
    return sorted({id_ for name, id_ in names if name.startswith(start) and name != start})


def _with_power(names: list[str], limit: re.Match[str] | None) -> list[str]:
    """Return those accelerators that are rated at the power limit which nvidia-smi prints, or all of them."""
    rated = [name for name in names if limit and accelerators.by_id(name).tdp_w == float(limit[1])]
    return rated or names


def _one_of_several(name: str, parts: Sequence[str], memory_gib: int | None) -> str | None:
    """Return the one board of a name of several, `Radeon RX 7900 XT/7900 XTX/7900M`, that has a memory.

    Raises: InputFileError: several have it, or none is stated.
    """
    family = re.match(r"\D*", parts[0]) if parts else None
    found: dict[str, None] = {}
    for part in parts:
        for spelt in (part, f"{family[0] if family else ''}{part}"):
            record = accelerators.find(spelt)
            if record is None:
                continue
            stored = record.memory_bytes or 0.0
            if memory_gib is None or abs(stored / (memory_gib * GIB) - 1.0) <= _MEMORY_TOLERANCE:
                found[record.id] = None
            break
    if len(found) > 1:
        raise InputFileError(
            f"{name!r} can mean {' or '.join(found)}",
            why="the listing has one name for boards of one chip, and no memory that would tell them apart",
            fix=f"name the board, e.g. --own 1x{next(iter(found))}",
        )
    return next(iter(found), None)


def _gib_in(line: str, span: str) -> int | None:
    """Return the largest memory that a line states behind a name, rounded up to whole even GiB; None if none."""
    rest = line[line.find(span) + len(span) :]
    sizes = [float(size) * (GIB if unit == "GiB" else MIB) / GIB for size, unit in _MEMORY.findall(rest)]
    largest = max(sizes, default=0.0)
    return round(largest) if largest >= 1.5 else None


def _host_gib(text: str) -> int | None:
    sizes = [float(size) / (1024.0 if unit == "MiB" else 1.0) for size, unit in _HOST_MEMORY.findall(text)]
    return round(sizes[0]) if sizes else None


def _kind_of(before: str) -> tuple[str, str]:
    """Return the kind of a line and its place among those of the kind: the words before a name, and their numbers."""
    plain = _CLOCK.sub("", _WIDE.split(before.rstrip())[-1])
    plain = plain.rpartition(": ")[0] or plain
    return " ".join(_NUMBERED.sub("#", plain).split()), " ".join(_NUMBERED.findall(plain))


@cache
def _boards_by_id() -> dict[str, str]:
    rows = read_csv(DATA_DIR / "boards" / "pci_ids.csv", ("pci_id", "accelerator"))
    return {row["pci_id"]: row["accelerator"] for _, row in rows}


def _by_device_id(line: str, *, is_amd: bool) -> str:
    """Return the accelerator of a PCI id in a line, of a vendor's tool without the vendor's id; empty if none."""
    if found := _DEVICE_ID.search(line):
        return _boards_by_id().get(f"{found[1]}:{found[2]}".lower(), "")
    if is_amd and (found := _AMD_ID.search(line)):
        return _boards_by_id().get(f"1002:{found[1].lower()}", "")
    return ""
