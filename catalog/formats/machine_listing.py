"""Accelerators of a machine in the text of any program that lists hardware: drivers' tools, lspci, Kubernetes, Slurm.

One law reads them all: a listing names each accelerator once in each kind of line that it has. A kind is what stands
before the name, numbers apart; the kind with the most lines counts the accelerators.
"""

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.files import parsed_json
from advisor.catalog.formats.accelerator_names import LONGEST_NAME, accelerator_in
from advisor.catalog.formats.graphics_rows import graphics_in
from advisor.catalog.formats.launcher_lines import ESCAPE
from advisor.catalog.formats.machine_tables import table_accelerators
from advisor.catalog.formats.rented_machines import rented_accelerators
from advisor.catalog.formats.slurm_nodes import slurm_accelerators
from advisor.catalog.schema.accelerator import ASSUMED_ACCELERATORS_PER_NODE

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
_IN_ALL: Final = re.compile(
    r"\b(?:in all|in total|total|altogether|overall|combined|insgesamt|au total|en total|in totale)\b",
    re.IGNORECASE,
)
_EACH_NODE: Final = re.compile(rf"\s*\b{_EACH}\b", re.IGNORECASE)
_PRICED: Final = re.compile(
    r"\$\s?\d[\d.,]*\s*(?:/|per )\s*(?:gpu\W{0,3})?h|\bprice\W{0,3}(?:per |/)?\s?h(?:ou)?r?\b|\$/h",
    re.IGNORECASE,
)
"""Prices by the hour, which no listing of a machine has."""
_PROSE_LINES: Final = 4
"""Most lines of a text that a person wrote; listings of programs are longer."""
_LONGEST_LINE: Final = 400


_MIG_ON: Final = re.compile(
    r"^\|(?:\s*\|){2}\s*Enabled\s*\|$|^\s*MIG Mode\n\s*Current\s*:\s*Enabled\b", re.MULTILINE
)
"""Sign of a board that is divided, in the table of nvidia-smi and in its query."""


@dataclass(frozen=True, slots=True)
class ListedMachine:
    """Accelerators that a listing shows, and what must be said about how it was read."""

    counts: tuple[tuple[int, str], ...]
    """Number and id of each kind of accelerator, in the order of the listing."""
    notes: tuple[str, ...] = ()
    are_alternatives: bool = False
    """Whether one kind of these is taken, not all."""


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
    if stated := slurm_accelerators(plain) or table_accelerators(text):
        return ListedMachine(tuple((count, id_) for id_, count in stated.items()))
    seen: dict[str, _Seen] = defaultdict(_Seen)
    left_out: dict[str, None] = {}
    is_amd = bool(re.search(r"\brocm|\bamd-?smi", plain, re.IGNORECASE))
    for line in (each[:_LONGEST_LINE] for each in plain.splitlines()):
        found = accelerator_in(line, plain, is_amd=is_amd)
        if found is not None:
            seen[found.id].kinds[found.kind].append((found.place, found.number))
        elif (other := graphics_in(line)) and re.search(r"nvidia|radeon|geforce|\barc\b", line, re.I):
            left_out[" ".join(other.split())[:LONGEST_NAME]] = None
    machines = rented_accelerators(plain, rented)
    families = {id_.partition("-")[0] for id_ in machines}
    if machines and {id_.partition("-")[0] for id_ in seen} <= families:
        # A type of machine says which board of a family it has, and how many.
        return ListedMachine(tuple((count, id_) for id_, count in machines.items()))
    totals = [int(number) for number in _TOTALS.findall(plain)]
    if _PRICED.search(plain):
        raise InputFileError(
            f"{name}: a list of prices, not of a machine",
            why="it has prices by the hour",
            fix=f"advisor catalog prices --price-file {name} --provider NAME",
        )
    if not seen:
        raise _no_accelerator(plain, name, max(totals, default=0), tuple(left_out))
    counts = {id_: nodes * one.count(totals if len(seen) == 1 else []) for id_, one in seen.items()}
    divided = nodes * len(_MIG_ON.findall(plain)) if len(seen) == 1 else 0
    if divided or re.search(r"^\s*MIG \d", plain, re.MULTILINE):
        id_, whole = next(iter(counts.items()))
        if 0 < divided < whole:
            note = f"left out, as MIG divides them: {divided} of {whole} x {id_}"
            return ListedMachine(((whole - divided, id_),), (*assumed, note))
        raise InputFileError(
            f"{name}: its GPUs are divided into MIG instances",
            why="an instance has a part of a board's memory and rate, and only whole boards are planned",
            fix="name the whole boards, e.g. --own 1xa100-80gb",
        )
    totals = totals if len(seen) == 1 else []
    others = (f"left out, as the catalog does not have it: {each}" for each in left_out if len(seen) == 1)
    return ListedMachine(
        tuple((count, id_) for id_, count in counts.items()), (*assumed, *(() if totals else others))
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
        ahead = None if counted else _ACROSS.search(text[: found.start()])
        if counted is None and ahead is None:
            return 1, text, ()
        if counted is None or int(counted["number"]) > ASSUMED_ACCELERATORS_PER_NODE or _IN_ALL.search(text):
            before = text[: ahead.start() if ahead else found.start()]
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
    start = " ".join(text.split())[:LONGEST_NAME]
    return InputFileError(
        f"{name}: names no accelerator" if start else f"{name}: is empty",
        why=f"it begins with {start!r}" if start else "",
        fix="give what nvidia-smi, rocm-smi, lspci, system_profiler, kubectl describe node or sinfo prints",
    )
