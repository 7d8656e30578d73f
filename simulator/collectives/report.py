"""One collective on one group, explained: time, algorithm, bandwidth, the wire's floor, where tree and ring cross."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from advisor.catalog import accelerators
from advisor.catalog.collectives import collective
from advisor.catalog.errors import AdvisorError
from advisor.catalog.units import GIB
from advisor.simulator.collectives.operations import Algorithm, all_reduce_candidates, bus_factor
from advisor.simulator.collectives.placement import placed
from advisor.simulator.collectives.prediction import (
    OPERATIONS,
    CollectivePrediction,
    Crossover,
    Operation,
    crossovers,
    predict,
)
from advisor.simulator.collectives.topology import Topology
from advisor.simulator.collectives.torus import is_torus
from advisor.simulator.collectives.tree import single_node_tree_s

_SCAN_BYTES: Final = np.geomspace(256.0, 64.0 * GIB, 2000)


@dataclass(frozen=True, slots=True)
class CollectiveReport:
    """What a question about one collective gets as its answer."""

    operation: Operation
    accelerator: str
    topology: Topology
    prediction: CollectivePrediction
    """Time, winning algorithm and bus bandwidth, with ranges."""
    crossovers: tuple[Crossover, ...]
    """Sizes at which the fastest algorithm changes."""
    tree_ring_crossover_bytes: float | None
    """From this size on a ring all-reduce beats a tree; None where one of them always wins."""
    wire_floor_s: float
    """What perfect links would take in a ring."""
    transferred_from: str
    """Fabric whose measurements stand in for this one; empty where it was measured itself."""


def simulate_collective(
    op: Operation,
    num_bytes: float,
    accelerator_id: str,
    num_gpus: int,
    num_nodes: int | None = None,
    *,
    algorithm: Algorithm = "nccl",
) -> CollectiveReport:
    """Time [s], algorithm and bandwidth of a collective of num_bytes (nccl-tests convention).

    Assumes: as simulator.collectives.operations; the accelerator's usual node and network.
    Raises: AdvisorError: unknown operation or accelerator, a size or count that is not positive, more
        accelerators in a node than its fabric joins.
    Error: docs/collectives.md.
    Source: simulator.collectives.
    """
    if op not in OPERATIONS:
        raise AdvisorError(f"unknown collective {op!r}", fix="use one of " + ", ".join(OPERATIONS))
    if not (np.isfinite(num_bytes) and num_bytes > 0):
        raise AdvisorError(
            f"a message of {num_bytes} bytes", why="its size must be positive", fix="give a size"
        )
    accelerator = accelerators.get(accelerator_id).record
    topology = placed(accelerator, num_gpus, num_nodes)
    return CollectiveReport(
        operation=op,
        accelerator=accelerator.id,
        topology=topology,
        prediction=predict(op, float(num_bytes), topology, algorithm=algorithm),
        crossovers=crossovers(op, topology, algorithm=algorithm),
        tree_ring_crossover_bytes=tree_ring_crossover_bytes(topology) if op == "all_reduce" else None,
        wire_floor_s=wire_floor_s(op, num_bytes, topology),
        transferred_from=_transferred_from(topology),
    )


def wire_floor_s(op: str, num_bytes: float, topology: Topology) -> float:
    """Time of a ring, or of pairwise messages, on perfect links [s].

    num_bytes · bus factor / the slower of a rank's scale-up link and its node's whole network (one rank's share
    where ports cannot be pooled)

    Source: definition of bus bandwidth, NVIDIA/nccl-tests doc/PERFORMANCE.md.
    """
    if topology.num_ranks == 1:
        return 0.0
    rate = topology.intra_bytes_per_s
    if topology.num_nodes > 1:
        ports = 1 if op in ("all_to_all", "send_recv") else topology.ranks_in_node
        network = topology.inter_bytes_per_s * ports
        rate = network if topology.ranks_in_node == 1 else min(rate, network)
    return num_bytes * bus_factor(op, topology.num_ranks) / rate


def tree_ring_crossover_bytes(topology: Topology) -> float | None:
    """Message from which a ring all-reduce beats a tree [bytes]; None where one of them always wins.

    Inside one node the tree is binary over its ranks; over nodes it is NCCL's double binary tree.

    Source: simulator.collectives.
    """
    if topology.num_ranks < 3 or is_torus(topology.intra_fabric):
        return None
    candidates = all_reduce_candidates(_SCAN_BYTES, topology)
    tree = candidates.get("tree")
    if tree is None:
        tree = single_node_tree_s(_SCAN_BYTES, topology)
    ring_wins = candidates["ring"] <= tree
    if ring_wins.all() or not ring_wins[-1]:
        return None
    return float(_SCAN_BYTES[int(np.flatnonzero(~ring_wins)[-1]) + 1])


def _transferred_from(topology: Topology) -> str:
    algorithm = "torus" if is_torus(topology.intra_fabric) else "nccl"
    return collective(topology.fit_fabric, "all_reduce", algorithm).transferred_from
