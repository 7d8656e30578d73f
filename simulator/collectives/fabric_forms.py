"""Collectives that a fabric or an engine does its own way: in the switch, around a torus, by reading peers' buffers."""

import math

import numpy as np

from advisor.catalog.collectives import collective
from advisor.simulator.collectives.alpha_beta import (
    FloatArray,
    network_parameters,
    node_bytes_per_s,
    protocol_hops,
    tree_egress,
)
from advisor.simulator.collectives.topology import NODE_RANKS, Topology


def in_switch_all_reduce_s(sizes: FloatArray, topology: Topology) -> dict[str, FloatArray]:
    """Time of NVLS, or of its tree over several nodes [s]; empty where the switch cannot reduce.

    The switch reads each rank's buffer once and writes the sum once, of which a rank itself stores 1/n:
    size · (1 + 1/n) over the link. Domains wider than one board lose `loss_per_doubling` with each doubling.
    Between nodes a tree carries the sums, hidden behind the slower of the two; feeding the network leaves
    `switch_share` of the switch's rate.

    Assumes: NCCL uses it from `min_ranks` on (5 on nvlink4, 6 on nvlink5), not between racks.
    Error: docs/collectives.md.
    Source: NVLink SHARP; parameters from catalog/data/efficiency/collectives.toml.
    """
    if not topology.in_network_reduction:
        return {}
    parameters = collective(topology.intra_fabric, "all_reduce", "nvls").record.parameters
    k = topology.ranks_in_node
    racks = k > NODE_RANKS and topology.num_nodes > 1
    if k < parameters["min_ranks"] or racks:
        return {}
    widening = max(math.log2(k / NODE_RANKS), 0.0)
    rate = topology.intra_bytes_per_s * (1.0 - parameters["loss_per_doubling"]) ** widening / (1.0 + 1.0 / k)
    name, levels, network = "nvls", 0, math.inf
    if topology.num_nodes > 1:
        name, levels = "nvls_tree", math.ceil(math.log2(topology.num_nodes))
        network = node_bytes_per_s(topology) / tree_egress(topology)
        rate *= network_parameters("tree")["switch_share"]
    hops = protocol_hops("tree")[-1]
    times = [
        parameters[f"base_{kind}_s"]
        + 2 * levels * hops * topology.inter_latency_s
        + sizes / min(rate * parameters[f"efficiency_{kind}"], network)
        for kind in ("simple", "bulk")
    ]
    return {name: np.asarray(np.minimum.reduce(times), dtype=np.float64)}


_DIMENSIONS = {"ici-v4": 3, "ici-v5p": 3, "ici-tpu7x": 3}
_DEFAULT_DIMENSIONS = 2


def is_torus(fabric: str) -> bool:
    """Whether the fabric joins neighbours only."""
    return fabric.startswith(("ici", "neuronlink"))


def torus_ring_s(sizes: FloatArray, topology: Topology, passes: int) -> FloatArray:
    """Time of an all-gather or reduce-scatter (one pass) or an all-reduce (two) on a torus [s].

    base + passes · (hops · step + size · (n − 1) / n / rate): the buffer is split over the axes, each with a
    ring in both directions; hops is half the side of the torus per axis.

    Assumes: a cubic (or square) slice with wrap-around links; rate counts all links of a chip, one direction.
    Source: Austin et al. 2025, How to Scale Your Model, "Sharded Matrices" (1 µs per hop, bidirectional
    rings).
    """
    parameters = _parameters(topology)
    n = topology.num_ranks
    dimensions = _dimensions(topology)
    side = n ** (1.0 / dimensions)
    hops = dimensions * max(math.ceil(side / 2.0), 1)
    wire_s = (n - 1) / n / (topology.intra_bytes_per_s * parameters["efficiency"])
    start_s = parameters["base_s"] + passes * hops * parameters["step_s"]
    return np.asarray(start_s + passes * sizes * wire_s, dtype=np.float64)


def torus_all_to_all_s(sizes: FloatArray, topology: Topology) -> FloatArray:
    """Time of an all-to-all on a torus [s]: each byte travels a quarter of the side along every axis.

    base + hops · step + size · (n − 1) / n · max(1, side / 4) / rate

    Assumes: as torus_ring_s; dimension-ordered routing keeps all links busy.
    Source: Austin et al. 2025, How to Scale Your Model (an all-to-all on a ring costs a quarter of an
    all-gather
        of the same array, which is n times the per-rank buffer).
    """
    parameters = _parameters(topology)
    n = topology.num_ranks
    dimensions = _dimensions(topology)
    side = n ** (1.0 / dimensions)
    hops = dimensions * max(math.ceil(side / 2.0), 1)
    travel = max(dimensions * side / 4.0, 1.0)
    wire_s = (n - 1) / n * travel / (topology.intra_bytes_per_s * parameters["efficiency"])
    start_s = parameters["base_s"] + hops * parameters["step_s"]
    return np.asarray(start_s + sizes * wire_s, dtype=np.float64)


def _dimensions(topology: Topology) -> int:
    full = _DIMENSIONS.get(topology.intra_fabric, _DEFAULT_DIMENSIONS)
    return min(full, max(1, int(math.log2(topology.num_ranks))))


def _parameters(topology: Topology) -> dict[str, float]:
    return collective(topology.intra_fabric, "all_reduce", "torus").record.parameters


def custom_all_reduce_s(sizes: FloatArray, topology: Topology, engine: str = "any") -> list[FloatArray]:
    """Times of an engine's one-shot, two-shot and multicast kernels [s]; empty where the engine has none.

    one-shot: every rank reads all peers' buffers, size · (n − 1) over the link; two-shot: reduce-scatter and
    all-gather, 2 · size · (n − 1) / n; multicast: through the switch, size · (1 + 1/n). Each starts after
    base + (n − 1) · step.

    Assumes: captured in a CUDA graph; not used over PCIe by more than two ranks, nor without peer access.
    Error: docs/collectives.md.
    Source: vLLM csrc/custom_all_reduce.cuh; parameters from catalog/data/efficiency/collectives.toml.
    """
    n = topology.num_ranks
    if topology.intra_fabric.startswith("pcie") and (n > 2 or not topology.peer_to_peer):
        return []
    parameters = collective(topology.fit_fabric, "all_reduce", f"custom-{engine}").record.parameters
    wires = custom_wire_factors(n)
    return [
        np.asarray(
            parameters[f"base_{kind}_s"]
            + (n - 1) * parameters[f"step_{kind}_s"]
            + sizes * (wire / (topology.intra_bytes_per_s * parameters[f"efficiency_{kind}"])),
            dtype=np.float64,
        )
        for kind, wire in wires.items()
        if f"efficiency_{kind}" in parameters and (kind != "multicast" or topology.in_network_reduction)
    ]


def custom_wire_factors(num_ranks: int) -> dict[str, float]:
    """Bytes over a rank's link per byte of the buffer, by kind of kernel.

    Source: counts of what each kernel reads and writes.
    """
    n = num_ranks
    return {"one_shot": float(n - 1), "two_shot": 2.0 * (n - 1) / n, "multicast": 1.0 + 1.0 / n}
