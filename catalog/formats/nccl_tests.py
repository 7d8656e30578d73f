"""Output of nccl-tests and rccl-tests: operation, group, device and one timing per message size."""

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final, Literal

from advisor.catalog.errors import InputFileError
from advisor.catalog.formats.accelerator_names import one_accelerator
from advisor.catalog.formats.file_format import FileFormat, has_keys, read_object
from advisor.catalog.formats.launcher_lines import without_prefixes
from advisor.catalog.units import GB, MICROSECOND_S

CollectiveName = Literal[
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv", "reduce"
]
_PROGRAMS: Final[dict[str, CollectiveName]] = {
    "all_reduce_perf": "all_reduce",
    "all_gather_perf": "all_gather",
    "reduce_scatter_perf": "reduce_scatter",
    "alltoall_perf": "all_to_all",
    "broadcast_perf": "broadcast",
    "sendrecv_perf": "send_recv",
    "reduce_perf": "reduce",
}
_NUMBER: Final = re.compile(r"^[+-]?\d+(\.\d+)?([eE][+-]?\d+)?$")
_UNCHECKED: Final = "N/A"
"""Count of wrong values where results were not checked."""
_NO_NUMBERS: Final = ("nan", "inf")
"""Largest differences, as old releases print them, of results that are no numbers."""
_ROOT: Final = re.compile(r"^-?\d+$")
_RANK: Final = re.compile(r"#\s+Rank\s+(\d+).*?\bon\s+(\S+)\s+device\s+\d+\s+\[[^\]]*\]\s*(.*)")
_UNITS: Final = re.compile(r"#\s+\(B\)\s+\(elements\)(.*)")
_VARIABLE: Final = re.compile(r"\b(NCCL_[A-Z0-9_]+)=[\"']?([\w.,:^-]+)")
_MEAN: Final = re.compile(r"#\s*Avg bus bandwidth\s*:\s*(\d+(?:\.\d+)?)")
_OUT_OF_BOUNDS: Final = re.compile(r"Out of bounds values\s*:\s*(\d+)")
_SIZES: Final = re.compile(r"minBytes (\d+) maxBytes (\d+) step: (\d+)\(factor\)")
_KEYS: Final = ("results", "alg_bw", "bus_bw")
"""Keys of the file that `-J` writes."""
_TIMED: Final = 4
"""Number of columns of one timing: time, algbw, busbw, errors."""
_SAME_RATIO: Final = 0.03
"""Largest difference of two ratios of bus to algorithm bandwidth that are taken for equal."""


_PASSES: Final[Mapping[CollectiveName, float]] = {
    "all_reduce": 2.0,
    "all_gather": 1.0,
    "reduce_scatter": 1.0,
    "all_to_all": 1.0,
}
"""Ratio of bus to algorithm bandwidth of very many ranks, for collectives whose ratio depends on the ranks."""


@dataclass(frozen=True, slots=True)
class NcclTestsRow:
    """One line of results, out of place (SI)."""

    num_bytes: int
    time_s: float
    algorithm_bytes_per_s: float
    bus_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class NcclTestsRun:
    """Content of a pasted output: operation, group, device and rows."""

    operation: CollectiveName
    num_ranks: int
    num_nodes: int | None
    """Hosts in the header; None if it was not pasted."""
    device: str
    """Device name as the driver states it; empty if the header was not pasted."""
    rows: tuple[NcclTestsRow, ...]
    assumed: tuple[str, ...] = ()
    """Sentences about what the text leaves open and how it was taken."""
    variables: tuple[tuple[str, str], ...] = ()
    """Variables of NCCL that the text around the table sets, with their values."""
    num_wrong: int = 0
    """Values of all results that differ from what they should be (#wrong); 0 where results were not checked."""
    is_checked: bool = False
    """Whether a line states how many of its values are wrong; it states N/A where results were not checked (-c 0)."""
    stated_wrong: int | None = None
    """Number that the last lines state (Out of bounds values); None without such a line."""
    stated_mean_bytes_per_s: float | None = None
    """Mean bus bandwidth that the last line states (Avg bus bandwidth); None without that line."""
    mean_bytes_per_s: float = 0.0
    """Mean bus bandwidth of the lines of results, out of place and in place."""
    is_whole: bool = False
    """Whether the lines of results are as many as the header's sizes and step make."""


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of results with its columns, of which an old release lacks some."""

    row: NcclTestsRow
    redop: str | None
    root: int | None
    timings: tuple[str, ...]
    """Words of one or two timings; fewer than those of other lines if the line was cut."""

    @property
    def is_in_place_unchecked(self) -> bool:
        """Whether results were checked out of place, but not in place, as for collectives without in-place form."""
        return len(self.timings) == 2 * _TIMED and self.timings[-1] == _UNCHECKED != self.timings[_TIMED - 1]

    @property
    def errors(self) -> list[float]:
        """Wrong values of each form that was checked, or the largest difference of old releases (1e-07)."""
        words = [word.lower() for word in self.timings[_TIMED - 1 :: _TIMED]]
        return [float(word) for word in words if _NUMBER.match(word) or word.lstrip("+-") in _NO_NUMBERS]

    @property
    def num_wrong(self) -> int:
        """Number of wrong values of both forms; 1 for a form whose difference is 1 or more, or is no number."""
        return sum(int(error) if math.isfinite(error) else 1 for error in self.errors if not error < 1.0)

    @property
    def bus_bytes_per_s(self) -> list[float]:
        """Bus bandwidths of both forms."""
        return [float(word) * GB for word in self.timings[2::_TIMED] if _NUMBER.match(word)]

    @property
    def is_checked(self) -> bool:
        """Whether results were checked in both forms."""
        return len(self.timings) == 2 * _TIMED and _UNCHECKED not in self.timings


def parse_nccl_tests(text: str, operation: CollectiveName | None = None) -> NcclTestsRun:
    """Return operation, group, device and rows of nccl-tests output (or rccl-tests, which prints the same).

    Whatever a launcher writes before a line is skipped (`mpirun --tag-output`, `srun --label`, `kubectl logs`). The
    operation is the one given, else the program's name, else what the columns redop and root and the ratio of busbw to
    algbw leave possible; ranks and hosts come from the header, else from that ratio.

    Raises: InputFileError: no line of results, times in other units, or neither header nor ratio tells how many ranks
        took part.
    Source: NVIDIA/nccl-tests src/common.cu, src/*.cu (output format; which collectives print an operator and a root).
    """
    text = "\n".join(_lines_of_json(text)) if has_keys(text, *_KEYS) else text
    text, others = _one_operation(text, operation)
    _check_units(text)
    with_root = bool(re.search(r"\btype\b.*\broot\b.*\btime\b", text))
    lines = [found for line in without_prefixes(text) if (found := _line(line, with_root)) is not None]
    if not lines:
        raise InputFileError(
            "no nccl-tests results in the text",
            why="no line has a size, a count, a type and a timing",
            fix="paste the output of all_reduce_perf and the like, the table included",
        )
    lines = [line for line in lines if len(line.timings) >= len(lines[0].timings)]
    rows = tuple(line.row for line in lines)
    ranks = _RANK.findall(text)
    num_ranks = len({int(rank) for rank, _, _ in ranks})
    _check_exchanges(rows, num_ranks, len(ranks))
    assumed: tuple[str, ...] = (
        (f"the text also has runs of {', '.join(others)}: --op names the one that is judged",)
        if others
        else ()
    )
    named = operation or _named_operation(text)
    if named is None:
        named, taken = _operation_of_columns(lines, num_ranks)
        assumed += taken
    device = ranks[0][2].strip() if ranks else one_accelerator(text)
    num_nodes = len({host for _, host, _ in ranks}) or None
    if device and not ranks:
        assumed += (f"the text around the table names {device}",)
    if not ranks:
        num_ranks = _ranks_in_command(text, named, _ratio(rows)) or _ranks_from_ratio(named, rows)
        num_nodes = _nodes_in(text, num_ranks)
        assumed += (f"the text around the table says that {num_nodes} nodes took part",) if num_nodes else ()
    return NcclTestsRun(
        operation=named,
        num_ranks=num_ranks,
        num_nodes=num_nodes,
        device=device,
        rows=rows,
        assumed=assumed,
        variables=tuple(dict(_VARIABLE.findall(text)).items()),
        num_wrong=sum(line.num_wrong for line in lines),
        is_checked=any(line.errors for line in lines),
        stated_wrong=sum(map(int, stated)) if (stated := _OUT_OF_BOUNDS.findall(text)) else None,
        stated_mean_bytes_per_s=float(mean[1]) * GB if (mean := _MEAN.search(text)) else None,
        mean_bytes_per_s=fmean(rate for line in lines for rate in line.bus_bytes_per_s),
        is_whole=len(lines) == _num_sizes(text),
    )


def _one_operation(text: str, operation: CollectiveName | None) -> tuple[str, tuple[CollectiveName, ...]]:
    """Return the part of a text with the runs of one collective, the given one or else the first, and the other
    collectives that it has runs of. A run is behind the name of its program."""
    named = "|".join(sorted(_PROGRAMS, key=len, reverse=True))
    places = list(re.finditer(rf"(?<![a-z_])({named})", text))
    bounds = [0, *(text.rfind("\n", 0, place.start()) + 1 for place in places[1:]), len(text)]
    runs: dict[CollectiveName, str] = {}
    for place, (start, end) in zip(places, itertools.pairwise(bounds), strict=False):
        part = text[start:end]
        if any(_line(line, with_root=False) for line in without_prefixes(part)):
            name = _PROGRAMS[place[1]]
            runs[name] = f"{runs.get(name, '')}{part}"
    if len(runs) < 2:
        return text, ()
    chosen = operation if operation in runs else next(iter(runs))
    return runs[chosen], tuple(name for name in runs if name != chosen)


def _num_sizes(text: str) -> int | None:
    """Number of message sizes that the header's smallest, largest and factor make; None without such a header."""
    found = _SIZES.search(text)
    if found is None or int(found[3]) < 2 or not 0 < int(found[1]) <= int(found[2]):
        return None
    number = 1
    size = int(found[1])
    while (size := size * int(found[3])) <= int(found[2]):
        number += 1
    return number


_COMMAND: Final = re.compile(
    r"\b(?:mpirun|mpiexec|orterun|prun|srun)\b[^\n]*?\s-{1,2}(?:np|n|ntasks)[ =](\d{1,6})\s[^\n]*?_perf\b([^\n]*)"
)
"""Number of processes that a launcher starts, and the options of the program that it starts."""
_OF_A_PROCESS: Final = re.compile(r"\s(?:-g|-t|--ngpus|--nthreads)[ =](\d{1,3})\b")
"""Threads of a process, and accelerators of a thread."""


def _ranks_in_command(text: str, operation: CollectiveName, ratio: float | None) -> int | None:
    """Return the ranks that the command above a table starts; None without a command, and where the ratio of bandwidths
    says another number, as that of a build without MPI does.

    Source: NVIDIA/nccl-tests README (ranks are processes x threads x accelerators of a thread).
    """
    commands = _COMMAND.findall(text.replace("\\\n", " "))
    counts = {int(number) * math.prod(map(int, _OF_A_PROCESS.findall(rest))) for number, rest in commands}
    if len(counts) != 1 or (num_ranks := counts.pop()) < 2:
        return None
    passes = _PASSES.get(operation)
    is_same = ratio is None or passes is None or abs(passes * (1.0 - 1.0 / num_ranks) - ratio) < _SAME_RATIO
    return num_ranks if is_same else None


_NODES: Final = re.compile(
    r"\b(\d{1,4})[ -](?:nodes?|hosts?|machines?|servers?)\b|(?:--nodes|\s-N)[ =](\d{1,4})\b", re.IGNORECASE
)
_EACH_NODE: Final = re.compile(
    r"(?:--ntasks-per-node|-{1,2}npernode|-{1,2}ppn)[ =](\d{1,3})\b|\bppr:(\d{1,3}):node\b"
    r"|\b(\d{1,3})\s?x?\s?[\w ]{2,24}?(?:per|each|/|on each|in each)\s?(?:node|host|machine|server)\b",
    re.IGNORECASE,
)


def _nodes_in(text: str, num_ranks: int) -> int | None:
    """Return the number of nodes that the words or the command around a table state; None if they state none that the
    ranks fill evenly."""
    stated = {int(next(filter(None, found.groups()))) for found in _NODES.finditer(text)}
    each = {int(next(filter(None, found.groups()))) for found in _EACH_NODE.finditer(text)}
    counts = stated or {num_ranks // one for one in each if one and num_ranks % one == 0}
    counts = {one for one in counts if 1 < one <= num_ranks and num_ranks % one == 0}
    return counts.pop() if len(counts) == 1 else None


def _check_exchanges(rows: tuple[NcclTestsRow, ...], num_ranks: int, num_processes: int) -> None:
    """Refuse the output of ranks that exchange nothing.

    Raises: InputFileError: one rank is a group by itself, whose bus bandwidth nccl-tests prints as 0.
    """
    if num_ranks > 1 or any(row.bus_bytes_per_s for row in rows):
        return
    apart = num_processes > 1
    raise InputFileError(
        f"each of {num_processes} processes was a group of one rank" if apart else "one rank ran alone",
        why="one rank exchanges nothing, so that its bus bandwidth is 0"
        + ("; without MPI in nccl-tests, mpirun starts as many runs as processes" if apart else ""),
        fix="build nccl-tests with MPI=1 and run it again" if apart else "run it with -g N, or N processes",
    )


def _lines_of_json(text: str) -> Iterator[str]:
    """Yield the lines that nccl-tests prints beside the JSON of `-J`, which lists the first device of each process.

    Raises: InputFileError: the text is not whole.
    Source: NVIDIA/nccl-tests src/util.cu (writeDeviceReport, writeBenchmarkLineBody).
    """
    found = read_object(text, "JSON of nccl-tests")
    config = found.get("config")
    settings: Mapping[str, Any] = config if isinstance(config, Mapping) else {}
    yield f"# {found.get('args', '')}"
    each = int(settings.get("nthreads", 1)) * int(settings.get("ngpus", 1))
    devices = settings.get("devices") or found.get("devices") or ()
    ranks = sorted(one["rank"] for one in devices)
    gaps = {later - rank for rank, later in itertools.pairwise(ranks)}
    of_process = each if gaps <= {each} else 1
    for one in devices:
        for rank in range(one["rank"], one["rank"] + of_process):
            name = one.get("device_info", "")
            yield f"#  Rank {rank} on {one.get('hostname', '-')} device {one.get('device', 0)} [-] {name}"
    yield "#  size  count  type  redop  root  time  algbw  busbw  #wrong"
    for row in found["results"]:
        timings = (row.get(place) for place in ("out_of_place", "in_place"))
        cells = [
            str(_UNCHECKED if one.get(name) is None else one[name])
            for one in timings
            if isinstance(one, Mapping)
            for name in ("time" if "time" in one else "cpu_time", "alg_bw", "bus_bw", "nwrong")
        ]
        yield " ".join(map(str, (row["size"], row["count"], row["type"], row["redop"], row["root"], *cells)))


def _check_units(text: str) -> None:
    """Refuse a table whose second header line has other units than bytes, microseconds and GB/s."""
    found = _UNITS.search(text)
    units = set(re.findall(r"\(([^)]*)\)", found[1])) if found else set()
    if other := sorted(units - {"us", "GB/s"}):
        raise InputFileError(
            f"the table has columns in {', '.join(other)}",
            why="nccl-tests prints times in us and bandwidths in GB/s; other units are not guessed",
            fix="paste the output as nccl-tests prints it",
        )


def _line(text: str, with_root: bool) -> _Line | None:
    """Return a line of results: size, count, type, possibly redop and root, then one or two timings; None for other
    lines. Words before the size come from a launcher."""
    words = text.split()
    for place in range(len(words) - 2 - _TIMED):
        if words[place].isdigit() and words[place + 1].isdigit() and words[place + 2][0].isalpha():
            return _columns(words[place:], with_root)
    return None


def _columns(words: list[str], with_root: bool) -> _Line | None:
    tail = words[3:]
    redop = tail.pop(0) if tail[0][0].isalpha() and tail[0] != _UNCHECKED else None
    has_root = with_root or len(tail) in (1 + _TIMED, 1 + 2 * _TIMED)
    root = int(tail.pop(0)) if has_root and _ROOT.match(tail[0]) else None
    if len(tail) < _TIMED or not all(_NUMBER.match(word) for word in tail[:3]):
        return None
    time_us, algorithm, bus = (float(word) for word in tail[:3])
    size = int(words[0])
    if time_us <= 0:
        return None
    row = NcclTestsRow(size, time_us * MICROSECOND_S, algorithm * GB, bus * GB)
    return _Line(row, redop, root, tuple(tail[: 2 * _TIMED]))


def _ratio(rows: tuple[NcclTestsRow, ...]) -> float | None:
    """Ratio of bus to algorithm bandwidth, from the fastest row, where rounding matters least."""
    best = max(rows, key=lambda row: row.algorithm_bytes_per_s)
    if best.algorithm_bytes_per_s < GB:
        return None
    return best.bus_bytes_per_s / best.algorithm_bytes_per_s


def _named_operation(text: str) -> CollectiveName | None:
    for program, operation in _PROGRAMS.items():
        if re.search(rf"(?<![a-z_]){program}", text):
            return operation
    return None


def _operation_of_columns(lines: list[_Line], num_ranks: int) -> tuple[CollectiveName, tuple[str, ...]]:
    """Return the collective that prints such columns with such a ratio, and what was assumed about it."""
    line = lines[-1]
    ratio = _ratio(tuple(one.row for one in lines))
    has_operator = line.redop not in (None, "none")
    if line.root is not None and line.root >= 0:
        return ("reduce" if has_operator else "broadcast"), ()
    if ratio is not None and ratio > 1.0 + _SAME_RATIO:
        return "all_reduce", ()
    if has_operator:
        if ratio is None:
            return "all_reduce", (
                "the text does not name the collective: taken for all_reduce; --op says it",
            )
        if ratio < 1.0 - _SAME_RATIO and (num_ranks < 2 or abs(ratio - 1.0 + 1.0 / num_ranks) < _SAME_RATIO):
            return "reduce_scatter", ()
        return ("send_recv" if line.is_in_place_unchecked else "all_reduce"), ()
    if line.is_in_place_unchecked:
        return "all_to_all", ()
    if line.is_checked:
        return "all_gather", ()
    return "all_gather", (
        "all_gather and all_to_all print these columns: taken for all_gather; --op says it",
    )


def _ranks_from_ratio(operation: CollectiveName, rows: tuple[NcclTestsRow, ...]) -> int:
    ratio = _ratio(rows)
    passes = _PASSES.get(operation, 1.0)
    if ratio is None or not 0.0 < ratio < passes - _SAME_RATIO / 4:
        raise InputFileError(
            "the text does not say how many ranks took part",
            why="the header with one line per rank is missing",
            fix="paste the lines that begin with '#  Rank' too",
        )
    return max(2, round(passes / (passes - ratio)))


def _is_nccl_tests(text: str) -> bool:
    return has_keys(text, *_KEYS) or bool(
        re.search(r"#\s+size\s+count(?:\s*\(elements\))?\s+type", text)
        or _RANK.search(text)
        or re.search(r"nThread \d+ nGpus \d+ minBytes", text)
        or any(_line(line, with_root=False) for line in without_prefixes(text))
    )


FORMAT: Final = FileFormat(
    "nccl-tests", "output of nccl-tests or rccl-tests", "collectives", _is_nccl_tests, parse_nccl_tests
)
