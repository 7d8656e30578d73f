"""Accelerators of a machine in the text of any program that lists hardware: drivers' tools, lspci, Kubernetes, Slurm.

One law reads them all: a listing names each accelerator once in each kind of line that it has. A kind is what stands
before the name, numbers apart; the kind with the most lines counts the accelerators.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Final

from advisor.catalog import accelerators
from advisor.catalog.errors import InputFileError, UnknownNameError
from advisor.catalog.files import DATA_DIR, parsed_json, read_csv
from advisor.catalog.formats.benchmark_result import whole_of
from advisor.catalog.formats.graphics_rows import graphics_in
from advisor.catalog.formats.launcher_lines import ESCAPE
from advisor.catalog.formats.meanings import meaning_of
from advisor.catalog.formats.records import read_records
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
_TOTALS: Final = re.compile(
    r"(?:(?:nvidia|amd|habana|intel)\.(?:com|ai)/(?:gpu|gaudi)(?:\.count)?[\"']?\s*[:=]|\bAttached GPUs\s*:"
    r"|\b(?:acceleratorCount|n_?gpus?|num_?gpus|gpu_?count)\W+|[\"'](?:Count|GPU)[\"']\s*:"
    r"|\b(?:guest_)?(?:gpus?|accelerators?)[\"']?\s*[:=]?\s*\{[^{}]*?\bcount[\"']?\s*[:=])\s*[\"']?(\d+)\b"
)
"""Numbers of accelerators of one machine."""
_LABEL: Final = re.compile(
    r"gpu[./_-](?:product|model|type)|accelerator_type|gke-accelerator|product-name|instance-type|acceleratorType",
    re.IGNORECASE,
)
"""Kinds of lines that stand once for each machine, whatever it holds."""
_GRES: Final = re.compile(r"\bgpu:([A-Za-z][\w.-]*):(\d+)")
_GRES_FILE: Final = re.compile(
    r"\bName=gpu\s.*?Type=([A-Za-z][\w.-]*).*?(?:File=\S*\[(\d+)-(\d+)\]|Count=(\d+)|File=\S+)"
)
"""Line of Slurm's gres.conf: files of the accelerators, or their number."""
_INSTANCE: Final = re.compile(
    r"^(.*(?:instance|machine)[-_ ]?type[\"']?\s*[:=]\s*\[?\s*[\"']?)([\w./:-]+)",
    re.IGNORECASE | re.MULTILINE,
)
"""Type of a rented machine, and what stands before it."""
_REPLICAS: Final = re.compile(
    r"^\s+(?:count|(?:node|instance)_?count|num_?nodes|replicas|desired_?(?:size|count|capacity))\s*[:=]\s*(\d+)\s*$",
    re.IGNORECASE | re.MULTILINE,
)
"""Number of machines of one type in Terraform and eksctl."""
_BLOCK: Final = re.compile(r"^(?=\S)|^(?=\s*- )", re.MULTILINE)
"""Start of a block of indented lines, or of an item of a list."""
_COUNTED: Final = re.compile(
    r"\b(?:gpus?|accelerators?)\b.*\b(?:count|qty|quantity|number)\b|gpus?[\W_]?(?:count|num)|(?:num|count|n)\w*?[\W_]?(?:of[\W_])?gpus?\b|\bgpus\b",
    re.IGNORECASE,
)
"""Title of a column with the number of accelerators."""
_COUNT: Final = re.compile(r"count|qty|quantity|number|#", re.IGNORECASE)
_HOSTS: Final = re.compile(r"([\w-]+)\[([\d,-]+)\]")
_DEVICE_ID: Final = re.compile(r"\[(10de|1002|8086):([0-9a-f]{4})\]", re.IGNORECASE)
_AMD_ID: Final = re.compile(r"\b0x(7[0-9a-f]{3})\b", re.IGNORECASE)
_PROCESSOR: Final = re.compile(r"^\s*(?:Model name|CPU|Version|Brand)\s*:\s*(.*\S)", re.MULTILINE)
_NODE_WORDS: Final = (
    r"(?:nodes?|servers?|machines?|hosts?|boxes|knoten|rechnern?|servern|maschinen|serveurs?|n[œo]uds?|nodos?"
    r"|servidores|nodi)"
)
_EACH: Final = (
    rf"(?:each|apiece|(?:per|in each|pro|par|por|per ogni) {_NODE_WORDS}|jeweils|je|chacun|chaque|cada uno|cada"
    r"|ciascuno)"
)
_JOINED: Final = rf"(?:\s*[,:;(]*\s*(?:{_EACH}|with|of|having|mit|avec|con|de)\b)*\s*:?"
_NODES: Final = re.compile(
    rf"\b(?P<nodes>\d{{1,5}})\s*[x×]?\s*{_NODE_WORDS}\b(?P<joined>{_JOINED})", re.IGNORECASE
)
"""Number of nodes, with the words that join it to what each node holds."""
_COUNT_BEHIND: Final = re.compile(r"[\s,;:(–-]*\b(?P<number>\d{1,3})\s*[x×]?\s*(?=[a-z])", re.IGNORECASE)
"""Number of accelerators that stands directly behind that of the nodes."""
_ACROSS: Final = re.compile(
    r"(?<=\w)\s*,?\s+(?:\(|\(?(?:spread |split )?(?:across|over|on|in|auf|sur)\s+)$", re.IGNORECASE
)
"""Word that joins accelerators to the nodes that hold them in all."""
_SIGNS: Final = " ,;:()–-"
_MOST_OF_A_NODE: Final = 8
"""Highest number that is taken as that of each node; own assumption, as a node of HGX or DGX holds 8."""
_IN_ALL: Final = re.compile(
    r"\b(?:in all|in total|total|altogether|overall|combined|insgesamt|au total|en total|in totale)\b",
    re.IGNORECASE,
)
_EACH_NODE: Final = re.compile(rf"\s*\b{_EACH}\b", re.IGNORECASE)
_PROSE_LINES: Final = 4
"""Most lines of a text that a person wrote; listings of programs are longer."""
_LONGEST_NAME: Final = 60
_MOST_NODES: Final = 100_000
"""Nodes of one range of names that are counted: no cluster has more."""
_LONGEST_LINE: Final = 400
_CUT: Final = re.compile(r"\s*(?:\.\.\.?|…)$")
"""Sign with which nvidia-smi cuts off a long name."""
_CUT_MAKER: Final = re.compile(r"^\W*(?:nvidia|amd)\b|\b(?:geforce|tesla|radeon|instinct)\b")
_MEMORY_TOLERANCE: Final = 0.08
"""Largest difference between a board's memory and what a program shows of it, which may leave out that of error
correction; the next memories of boards with one name differ by 10 % and more."""
_SHORT: Final = 3
"""Letters and figures up to which a name is an accelerator's only if its maker's is there too: T4, P40, M3."""
_MAKER: Final = re.compile(
    r"nvidia|tesla|geforce|\bamd\b|instinct|apple|intel|\bgpu|accelerator", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class ListedMachine:
    """Accelerators that a listing shows, and what must be said about how it was read."""

    counts: tuple[tuple[int, str], ...]
    """Number and id of each kind of accelerator, in the order of the listing."""
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Seen:
    """Lines that name one accelerator, by their kind."""

    kinds: dict[str, list[tuple[str, int]]] = field(default_factory=lambda: defaultdict(list))
    """Numbers that stand before the name, and how many accelerators the line states, by kind of line."""

    def count(self, totals: list[int]) -> int:
        """Return the number of accelerators, given those that the listing states for one machine."""
        found = 0
        stated = max(totals, default=0)
        for kind, lines in self.kinds.items():
            by_place = dict(lines) if all(place for place, _ in lines) else None
            several = sum(by_place.values()) if by_place else sum(number for _, number in lines)
            if stated:
                several = several * stated if _LABEL.search(kind) else max(several, stated)
            found = max(found, several)
        return found


def read_machine(
    text: str, name: str, rented: Mapping[str, tuple[int, str]] = MappingProxyType({})
) -> ListedMachine:
    """Return the accelerators of the machine, or of the machines, that a text lists; `name` names it in messages.

    `rented` has number and accelerator of machines that providers rent out, by name in lower case.

    Raises: InputFileError: the text names no accelerator of the catalog, or one name that stands for several.
    """
    nodes, plain, assumed = nodes_in(_one_field_a_line(ESCAPE.sub("", text)))
    if stated := _of_scheduler(plain) or _of_rows(text):
        return ListedMachine(tuple((count, id_) for id_, count in stated.items()))
    seen: dict[str, _Seen] = defaultdict(_Seen)
    left_out: dict[str, None] = {}
    is_amd = bool(re.search(r"\brocm|\bamd-?smi", plain, re.IGNORECASE))
    for line in (each[:_LONGEST_LINE] for each in plain.splitlines()):
        found = _accelerator_in(line, plain, is_amd=is_amd)
        if found is not None:
            kind, place, number, id_ = found
            seen[id_].kinds[kind].append((place, number))
        elif (other := graphics_in(line)) and re.search(r"nvidia|radeon|geforce|\barc\b", line, re.I):
            left_out[" ".join(other.split())[:_LONGEST_NAME]] = None
    machines = _of_instances(plain, rented)
    families = {id_.partition("-")[0] for id_ in machines}
    if machines and {id_.partition("-")[0] for id_ in seen} <= families:
        # A type of machine says which board of a family it has, and how many.
        return ListedMachine(tuple((count, id_) for id_, count in machines.items()))
    totals = [int(number) for number in _TOTALS.findall(plain)]
    if not seen:
        raise _no_accelerator(plain, name, max(totals, default=0), tuple(left_out))
    if "MIG" in plain and re.search(r"^\s*MIG \d", plain, re.MULTILINE):
        raise InputFileError(
            f"{name}: its GPUs are divided into MIG instances",
            why="an instance has a part of a board's memory and rate, and only whole boards are planned",
            fix="name the whole boards, e.g. --own 1xa100-80gb",
        )
    totals = totals if len(seen) == 1 else []
    others = (f"left out, as the catalog does not have it: {each}" for each in left_out if len(seen) == 1)
    return ListedMachine(
        tuple((nodes * one.count(totals), id_) for id_, one in seen.items()),
        (*assumed, *(() if totals else others)),
    )


def nodes_in(text: str) -> tuple[int, str, tuple[str, ...]]:
    """Return how many nodes hold what a text lists of one of them, the text without that, and what was assumed.

    A number behind that of the nodes, `2 nodes, 8x H100`, is taken as that of each node unless it is too large for a
    node or a word says that it is in all; one in front, `16x H100 across 2 nodes`, is in all. A text that says no such
    number is returned as it is, with 1 node.
    """
    found = _NODES.search(text)
    if found is None or len(text.splitlines()) > _PROSE_LINES:
        return 1, text, ()
    rest = f"{text[: found.start()]} {text[found.end() :]}"
    notes: tuple[str, ...] = ()
    if not found["joined"].strip() and _EACH_NODE.search(rest) is None:
        counted = _COUNT_BEHIND.match(text[found.end() :])
        if counted is None and (ahead := _ACROSS.search(text[: found.start()])) is None:
            return 1, text, ()
        if counted is None or int(counted["number"]) > _MOST_OF_A_NODE or _IN_ALL.search(text):
            before = text[: found.start()] if counted else text[: ahead.start()]
            return 1, _IN_ALL.sub(" ", f"{before} {text[found.end() :]}").strip(_SIGNS), ()
        notes = (f"{counted['number']} accelerators are taken to be in each of the {found['nodes']} nodes",)
    one = " ".join(_EACH_NODE.sub(" ", rest).split()).strip(_SIGNS)
    return int(found["nodes"]), re.sub(r"^(\d{1,3})\s+(?=[^\dx×])", r"\1x ", one), notes


def _one_field_a_line(text: str) -> str:
    """Return JSON with each field on a line of its own; any other text as it is."""
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        return json.dumps(parsed_json(text), indent=0)
    except (ValueError, RecursionError):
        return text


def accelerator_named(line: str) -> tuple[int, str] | None:
    """Return number and id of the accelerator that a line names; None if it names none, or one of several boards."""
    try:
        found = _accelerator_in(line, line, is_amd=False)
    except InputFileError:
        return None
    return found and found[2:]


def _accelerator_in(line: str, text: str, *, is_amd: bool) -> tuple[str, str, int, str] | None:
    """Return kind, place, number and id of the accelerator that a line names; None for any other line."""
    if known := _by_device_id(line, is_amd=is_amd):
        start = line.lower().find("[" if not is_amd else "0x")
        return (*_kind_of(line[:start]), 1, known)
    quoted = [inner.strip() for inner in _QUOTED.findall(line)]
    for span in _spans(line):
        if len(span) > _LONGEST_NAME or not _may_name(span, line):
            continue
        number = max(1, quoted.count(span))
        if times := _TIMES_AHEAD.search(span) or _TIMES_BEHIND.search(span):
            number = int(times[1])
            bare = span[: times.start()] + span[times.end() :]
        else:
            bare = span
        if (id_ := _resolve(bare, line, text)) is not None:
            kind, place = _kind_of(line[: line.find(span)])
            return kind, own[1] if (own := _UUID.search(line)) else place, number, id_
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


def _resolve(span: str, line: str, text: str) -> str | None:
    """Return the id of the accelerator that a span means, with the memory that its line states; None if unknown.

    Raises: InputFileError: the name stands for several boards, as those of lspci do.
    """
    bare = " ".join(_BESIDE.sub(" ", span.replace("_", " ")).split())
    cores = _CORES.search(span)
    memory = _gib_in(line, span)
    if cut := _CUT.search(span):
        below = text.partition(line)[2].splitlines()[
            1:2
        ]  # nvidia-smi shows the memory in the line below the name
        memory = memory or (_gib_in(below[0], "") if below else None)
        return _one_of_several(span, _names_from(span[: cut.start()]), memory)
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
        try:
            return accelerators.get(each).record.id
        except UnknownNameError:
            continue
    if "/" in bare:
        return _one_of_several(bare, [part.strip() for part in bare.split("/")], memory)
    return None


def _names_from(beginning: str) -> list[str]:
    """Return the ids of the accelerators whose longer names begin as a program shows them before it cuts them off."""
    start = re.sub(r"[^a-z0-9]", "", _CUT_MAKER.sub("", beginning.lower()))
    spelt = {name: name for name in accelerators.all_ids()} | dict(accelerators.aliases())
    names = ((re.sub(r"[^a-z0-9]", "", name.lower()), id_) for name, id_ in spelt.items())
    return sorted({id_ for name, id_ in names if name.startswith(start) and name != start})


def _one_of_several(name: str, parts: Sequence[str], memory_gib: int | None) -> str | None:
    """Return the one board of a name of several, `Radeon RX 7900 XT/7900 XTX/7900M`, that has a memory.

    Raises: InputFileError: several have it, or none is stated.
    """
    family = re.match(r"\D*", parts[0]) if parts else None
    found: dict[str, None] = {}
    for part in parts:
        for spelt in (part, f"{family[0] if family else ''}{part}"):
            try:
                record = accelerators.get(spelt).record
            except UnknownNameError:
                continue
            if memory_gib is None or abs(record.memory_bytes / (memory_gib * GIB) - 1.0) <= _MEMORY_TOLERANCE:
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


def _of_scheduler(text: str) -> dict[str, int]:
    """Return the accelerators of Slurm's nodes by id: `gpu:h100:8` on each node of its line."""
    found: dict[str, int] = defaultdict(int)
    hosts: set[str] = set()
    titles: list[str] = []
    for line in text.splitlines():
        if "NODES" in line.split():
            titles = line.split()
        granted = _GRES.findall(line)
        if configured := _GRES_FILE.search(line):
            board, first, last, count = configured.groups()
            granted = [(board, count or (int(last) - int(first) + 1 if last else 1))]
            line = line[: configured.start()]  # ranges behind it are those of files
        if not granted:
            continue
        named = {host for base, ranges in _HOSTS.findall(line) for host in _hosts_of(base, ranges)}
        cells = line.split()
        number = cells[titles.index("NODES")] if "NODES" in titles and len(cells) == len(titles) else ""
        if named and named <= hosts:
            continue
        hosts |= named
        for board, count in granted:
            id_ = _resolve(board, line, text)
            if id_ is not None:
                nodes = int(number) if number.isdigit() else max(1, len(named))
                found[id_] += int(count) * nodes
    return dict(found)


def _hosts_of(base: str, ranges: str) -> Iterator[str]:
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            end = min(int(last or first), int(first) + _MOST_NODES)
            yield from (f"{base}{number}" for number in range(int(first), end + 1))


def _of_rows(text: str) -> dict[str, int]:
    """Return the accelerators by id of a table of machines, whose rows state their name and their number."""
    found: dict[str, int] = defaultdict(int)
    for record in read_records(text) if _COUNTED.search(text) else ():
        fields = {
            meaning.quantity: name for name in record if (meaning := meaning_of(name.replace(".", " ")))
        }
        counted = fields.get("num_gpus") or next(filter(_COUNT.fullmatch, record), None)
        if "gpu" not in fields or counted is None:
            continue
        named = str(record[fields["gpu"]])
        number = whole_of(record[counted])
        if number and (id_ := _resolve(named, named, "")) is not None:
            found[id_] += number
    return dict(found)


def _of_instances(text: str, known: Mapping[str, tuple[int, str]]) -> dict[str, int]:
    """Return the accelerators by id of the rented machines whose types a text names, with how many of each it states.
    A type that several labels of one machine repeat counts once."""
    kinds: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for block in _BLOCK.split(text):
        replicas = _REPLICAS.search(block)
        for before, typed in _INSTANCE.findall(block):
            if machine := known.get(typed.rpartition("/")[2].lower()):
                kinds[before.strip()][machine[1]] += machine[0] * (int(replicas[1]) if replicas else 1)
    found: dict[str, int] = {}
    for counts in kinds.values():
        found |= {id_: max(count, found.get(id_, 0)) for id_, count in counts.items()}
    return found


def _no_accelerator(text: str, name: str, total: int, others: tuple[str, ...]) -> InputFileError:
    """Return the error for a text that names no accelerator of the catalog."""
    if total:
        return InputFileError(
            f"{name}: states {total} accelerators without their name",
            why="memory and rates depend on the board",
            fix=f"--own {total}xID, e.g. --own {total}xh100-sxm",
        )
    if others:
        return InputFileError(
            f"{name}: names no accelerator that the catalog has",
            why=f"it shows {'; '.join(others[:3])}",
            fix="--own 1xID of one that advisor catalog gpus lists",
        )
    if processor := _PROCESSOR.search(text):
        return InputFileError(
            f"{name}: names no accelerator, only the processor {processor[1]}",
            why="speeds are those of accelerators; a machine that computes with its processors alone is not modelled",
            fix="add what lists the cards: nvidia-smi -L, rocm-smi --showproductname or lspci",
        )
    start = " ".join(text.split())[:_LONGEST_NAME]
    return InputFileError(
        f"{name}: names no accelerator" if start else f"{name}: is empty",
        why=f"it begins with {start!r}" if start else "",
        fix="give what nvidia-smi, rocm-smi, lspci, system_profiler, kubectl describe node or sinfo prints",
    )
