"""Verdicts on pasted nccl-tests output: whether each message size has the expected bus bandwidth."""

import re
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from advisor.catalog import accelerators
from advisor.catalog.errors import AdvisorError, InputFileError, UnknownNameError
from advisor.catalog.schema import Accelerator
from advisor.catalog.units import GB, MIB, MICROSECOND_S
from advisor.simulator.collectives.prediction import Operation, candidates_s, predict
from advisor.simulator.collectives.topology import Topology, place_accelerators
from advisor.simulator.quantity import Quantity

Verdict = Literal["as expected", "slow", "fast"]
_PROGRAMS: Final[dict[str, Operation]] = {
    "all_reduce_perf": "all_reduce",
    "all_gather_perf": "all_gather",
    "reduce_scatter_perf": "reduce_scatter",
    "alltoall_perf": "all_to_all",
    "broadcast_perf": "broadcast",
    "sendrecv_perf": "send_recv",
}
_LARGE_BYTES: Final = 16 * MIB
_NUMBER: Final = re.compile(r"^[+-]?\d+(\.\d+)?([eE][+-]?\d+)?$")
_TIMED: Final = 4
"""Number of columns of one timing: time, algbw, busbw, errors."""


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

    operation: Operation
    num_ranks: int
    num_nodes: int
    device: str
    """Device name as the driver states it; empty if the header was not pasted."""
    rows: tuple[NcclTestsRow, ...]


@dataclass(frozen=True, slots=True)
class SizeVerdict:
    """One message size compared with its band."""

    num_bytes: int
    measured_bus_bytes_per_s: float
    expected_bus_bytes_per_s: Quantity
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """Verdict on a whole run: that of its large messages, and the known faults that slow ones resemble."""

    run: NcclTestsRun
    accelerator: str
    topology: Topology
    sizes: tuple[SizeVerdict, ...]
    verdict: Verdict
    explanations: tuple[str, ...] = ()


def parse_nccl_tests(text: str) -> NcclTestsRun:
    """Return operation, group, device and rows of nccl-tests output (or rccl-tests, which prints the same).

    The operation comes from the program's name, else from the ratio of busbw to algbw; ranks and hosts from the
    header, else from that ratio.

    Raises: InputFileError: no line of results, or neither header nor ratio tells how many ranks took part.
    Source: NVIDIA/nccl-tests src/common.cu (output format).
    """
    rows = tuple(row for line in text.splitlines() if (row := _row(line)) is not None)
    if not rows:
        raise InputFileError(
            "no nccl-tests results in the text",
            why="no line has a size, a count, a type and a timing",
            fix="paste the output of all_reduce_perf and the like, the table included",
        )
    ranks = re.findall(r"#\s+Rank\s+(\d+).*?\bon\s+(\S+)\s+device\s+\d+\s+\[[^\]]*\]\s*(.*)", text)
    num_ranks = len({int(rank) for rank, _, _ in ranks})
    operation = _operation(text, rows, num_ranks)
    return NcclTestsRun(
        operation=operation,
        num_ranks=num_ranks or _ranks_from_ratio(operation, rows),
        num_nodes=max(len({host for _, host, _ in ranks}), 1),
        device=ranks[0][2].strip() if ranks else "",
        rows=rows,
    )


def judge_nccl_tests(text: str, accelerator_id: str = "", *, topology: Topology | None = None) -> RunVerdict:
    """Return whether the bus bandwidth of a pasted run is normal for its machine.

    Each size is compared with the predicted 80 % band; the verdict is that of most messages of 16 MiB and more (of
    all, if none is that large). A slow run is compared with known faults: switch sums off, peer access off, half
    of the network.

    Assumes: the accelerator's usual network, unless a topology is given.
    Raises: InputFileError: as parse_nccl_tests. AdvisorError: the accelerator is not known or the group does not
        fit its nodes.
    Source: bands as in advisor.simulator.collectives.spread.
    """
    run = parse_nccl_tests(text)
    accelerator = accelerators.get(accelerator_id).record if accelerator_id else _accelerator(run.device)
    place = topology or place_accelerators(accelerator, run.num_ranks, run.num_nodes)
    sizes = tuple(_verdict(run.operation, row, place) for row in run.rows if row.bus_bytes_per_s > 0)
    large = [size for size in sizes if size.num_bytes >= _LARGE_BYTES] or list(sizes)
    verdicts = [size.verdict for size in large]
    overall: Verdict = max(("as expected", "slow", "fast"), key=verdicts.count)
    explanations = _explanations(run, place) if overall == "slow" else ()
    return RunVerdict(run, accelerator.id, place, sizes, overall, explanations)


def _row(line: str) -> NcclTestsRow | None:
    """Return a line of results: size, count, type, possibly redop and root, then one or two timings; None for other
    lines."""
    tokens = line.split()
    if len(tokens) < 3 + _TIMED or not (tokens[0].isdigit() and tokens[1].isdigit()):
        return None
    if tokens[2][0].isdigit():
        return None
    tail = tokens[3:]
    timings = tail[-2 * _TIMED :] if len(tail) >= 2 * _TIMED else tail[-_TIMED:]
    if not all(_NUMBER.match(token) for token in timings[:3]):
        return None
    time_us, algorithm, bus = (float(token) for token in timings[:3])
    return (
        NcclTestsRow(int(tokens[0]), time_us * MICROSECOND_S, algorithm * GB, bus * GB)
        if time_us > 0
        else None
    )


def _ratio(rows: tuple[NcclTestsRow, ...]) -> float | None:
    """Ratio of bus to algorithm bandwidth, from the fastest row, where rounding matters least."""
    best = max(rows, key=lambda row: row.algorithm_bytes_per_s)
    if best.algorithm_bytes_per_s < GB:
        return None
    return best.bus_bytes_per_s / best.algorithm_bytes_per_s


def _operation(text: str, rows: tuple[NcclTestsRow, ...], num_ranks: int) -> Operation:
    for program, operation in _PROGRAMS.items():
        if program in text:
            return operation
    ratio = _ratio(rows)
    if ratio is None or (ratio <= 1.0 and num_ranks != 2):
        return "all_reduce" if ratio is None else "all_gather"
    return "all_reduce"


def _ranks_from_ratio(operation: Operation, rows: tuple[NcclTestsRow, ...]) -> int:
    ratio = _ratio(rows)
    passes = 2.0 if operation == "all_reduce" else 1.0
    if ratio is None or not 0.0 < ratio < passes:
        raise InputFileError(
            "the text does not say how many ranks took part",
            why="the header with one line per rank is missing",
            fix="paste the lines that begin with '#  Rank' too",
        )
    return max(2, round(passes / (passes - ratio)))


def _accelerator(device: str) -> Accelerator:
    """Return the catalog's record of a driver's device name, with or without the vendor's name in front."""
    if not device:
        raise AdvisorError(
            "the text does not name the device",
            why="the header with one line per rank is missing",
            fix="say which accelerator it was",
        )
    spelt = re.sub(r"\s+", "-", device.lower())
    short = re.sub(r"^(nvidia|amd|tesla)-(geforce-|instinct-)?", "", spelt)
    for name in (short, spelt):
        try:
            return accelerators.get(name).record
        except UnknownNameError as error:
            unknown = error
    raise UnknownNameError(
        f"unknown device {device!r}", why=unknown.why, fix="say which accelerator it is", hint=unknown.hint
    )


def _verdict(operation: Operation, row: NcclTestsRow, topology: Topology) -> SizeVerdict:
    expected = predict(operation, float(row.num_bytes), topology, algorithm="nccl").bus_bytes_per_s
    verdict: Verdict = "as expected"
    if row.bus_bytes_per_s < expected.low:
        verdict = "slow"
    elif row.bus_bytes_per_s > expected.high:
        verdict = "fast"
    return SizeVerdict(row.num_bytes, row.bus_bytes_per_s, expected, verdict)


def _explanations(run: NcclTestsRun, topology: Topology) -> tuple[str, ...]:
    """Return the known faults whose prediction is within 15 % of the largest message."""
    suspects: list[tuple[str, Topology]] = []
    if topology.in_network_reduction and run.operation == "all_reduce":
        without = replace(topology, in_network_reduction=False)
        suspects.append(("sums in the switch are off (NCCL_NVLS_ENABLE, fabric manager, IMEX)", without))
    if topology.intra_fabric.startswith("pcie") and topology.peer_to_peer:
        host = replace(topology, peer_to_peer=False)
        suspects.append(("peer access over PCIe is off (driver, ACS, IOMMU, NCCL_P2P_LEVEL)", host))
    if topology.num_nodes > 1:
        for share, words in (
            (0.5, "half of the network's ports"),
            (1.0 / topology.ranks_in_node, "one port"),
        ):
            narrow = replace(topology, inter_bytes_per_s=topology.inter_bytes_per_s * share)
            suspects.append(
                (f"only {words} carried the messages (NCCL_IB_HCA, GPUDirect RDMA, cabling)", narrow)
            )
    largest = max(run.rows, key=lambda row: row.num_bytes)
    found = []
    for words, place in suspects:
        times = candidates_s(run.operation, np.asarray([float(largest.num_bytes)]), place, "nccl")
        ratio = float(min(time[0] for time in times.values())) / largest.time_s
        if 0.85 < ratio < 1.15:
            found.append(f"as if {words}")
    return tuple(found)
