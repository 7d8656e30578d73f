"""Verdicts on pasted nccl-tests output: whether each message size has the expected bus bandwidth."""

import re
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from advisor.catalog import accelerators
from advisor.catalog.errors import AdvisorError, InputFileError, UnknownNameError
from advisor.catalog.formats.nccl_tests import CollectiveName, NcclTestsRow, NcclTestsRun, parse_nccl_tests
from advisor.catalog.schema import Accelerator
from advisor.catalog.units import GB
from advisor.simulator.collectives.prediction import LARGE_BYTES, OPERATIONS, Operation, candidates_s, predict
from advisor.simulator.collectives.topology import Topology, place_accelerators
from advisor.simulator.quantity import Quantity

Verdict = Literal["as expected", "slow", "fast"]
_SOCKETS_BELOW: Final = 0.3
"""Suspect sockets instead of RDMA if a group over several nodes reaches less than this fraction of its expected
bandwidth. Own choice: half of the ports, the next slower known fault, leaves half."""
_MOST_BY_SOCKETS_BYTES_PER_S: Final = 12.5 * GB
"""Bus bandwidth above which no sockets are suspected: 100 Gb/s, the fastest network for which NCCL's documentation
tunes them (NCCL_SOCKET_NTHREADS)."""


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


def judge_nccl_tests(
    text: str,
    accelerator_id: str = "",
    *,
    topology: Topology | None = None,
    operation: CollectiveName | None = None,
) -> RunVerdict:
    """Return whether the bus bandwidth of a pasted run is normal for its machine.

    Each size is compared with the predicted 80 % band; the verdict is that of most messages of 16 MiB and more (of
    all, if none is that large). A slow run is compared with known faults: switch sums off, peer access off, half
    of the network, sockets instead of RDMA.

    Assumes: the accelerator's usual network, unless a topology is given.
    Raises: InputFileError: as parse_nccl_tests. AdvisorError: the accelerator is not known or the group does not
        fit its nodes.
    Source: bands as in advisor.simulator.collectives.spread.
    """
    run = parse_nccl_tests(text, operation)
    accelerator = accelerators.get(accelerator_id).record if accelerator_id else _accelerator(run.device)
    place = topology or place_accelerators(accelerator, run.num_ranks, run.num_nodes)
    if run.num_nodes is None and place.num_nodes > 1:
        words = (
            f"the text names no hosts: {place.num_nodes} nodes are taken, as few as {accelerator.id} allows"
        )
        run = replace(run, assumed=(*run.assumed, words))
    place, run = _as_set(place, run)
    predicted = _predicted_operation(run.operation)
    sizes = tuple(_verdict(predicted, row, place) for row in run.rows if row.bus_bytes_per_s > 0)
    large = [size for size in sizes if size.num_bytes >= LARGE_BYTES] or list(sizes)
    verdicts = [size.verdict for size in large]
    overall: Verdict = max(("as expected", "slow", "fast"), key=verdicts.count)
    explanations = _explanations(run, place) if overall == "slow" else ()
    return RunVerdict(run, accelerator.id, place, sizes, overall, explanations)


def _as_set(topology: Topology, run: NcclTestsRun) -> tuple[Topology, NcclTestsRun]:
    """Return the group as the variables of NCCL in the text leave it, and the run with a note on each that counts.

    Source: NCCL documentation, environment variables.
    """
    told = dict(run.variables)
    notes: list[str] = []
    algorithms = told.get("NCCL_ALGO", "")
    excludes = "NVLS" not in algorithms.upper() if algorithms[:1] != "^" else "NVLS" in algorithms.upper()
    by_algorithm = bool(algorithms) and excludes
    if topology.in_network_reduction and (by_algorithm or told.get("NCCL_NVLS_ENABLE") == "0"):
        name = f"NCCL_ALGO={algorithms}" if by_algorithm else "NCCL_NVLS_ENABLE=0"
        notes.append(f"the text sets {name}: no sums in the switch are expected")
        topology = replace(topology, in_network_reduction=False)
    if topology.peer_to_peer and told.get("NCCL_P2P_DISABLE") == "1":
        notes.append("the text sets NCCL_P2P_DISABLE=1: messages pass through the host's memory")
        topology = replace(topology, peer_to_peer=False)
    if topology.num_nodes > 1 and told.get("NCCL_IB_DISABLE") == "1":
        notes.append("the text sets NCCL_IB_DISABLE=1: sockets carry the messages, which RDMA is expected to")
    return topology, replace(run, assumed=(*run.assumed, *notes))


def _accelerator(device: str) -> Accelerator:
    """Return the catalog's record of a driver's device name, with or without the vendor's name in front."""
    if not device:
        raise AdvisorError(
            "the text does not name the device",
            why="the header with one line per rank is missing",
            fix="--gpu ID",
        )
    spelt = re.sub(r"\s+", "-", device.lower())
    short = re.sub(r"^(nvidia|amd|tesla)-(geforce-|instinct-)?", "", spelt)
    for name in (short, spelt):
        try:
            return accelerators.get(name).record
        except UnknownNameError as error:
            unknown = error
    raise UnknownNameError(f"unknown device {device!r}", why=unknown.why, fix="--gpu ID", hint=unknown.hint)


def _predicted_operation(name: CollectiveName) -> Operation:
    """Return the operation of a run as one that is predicted. Raises: InputFileError: it is not predicted."""
    for operation in OPERATIONS:
        if operation == name:
            return operation
    raise InputFileError(
        f"{name} is read but not predicted",
        why=f"predicted are {', '.join(OPERATIONS)}",
        fix="run one of these; --op says which it was if the text does not",
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
    predicted = _predicted_operation(run.operation)
    for words, place in suspects:
        times = candidates_s(predicted, np.asarray([float(largest.num_bytes)]), place, "nccl")
        ratio = float(min(time[0] for time in times.values())) / largest.time_s
        if 0.85 < ratio < 1.15:
            found.append(f"as if {words}")
    if not found and topology.num_nodes > 1:
        expected = predict(predicted, float(largest.num_bytes), topology, algorithm="nccl").bus_bytes_per_s
        if largest.bus_bytes_per_s < min(_SOCKETS_BELOW * expected.value, _MOST_BY_SOCKETS_BYTES_PER_S):
            found.append(
                "as if sockets carried the messages instead of RDMA (NCCL_IB_DISABLE, NCCL_SOCKET_IFNAME)"
            )
    return tuple(found)
