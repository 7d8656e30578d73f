"""Time of each collective on a group of ranks.

Message sizes follow the nccl-tests convention: all_reduce, broadcast and send_recv the buffer of one rank;
all_gather the gathered output; reduce_scatter the whole input; all_to_all the send buffer of one rank.
"""

import math
from typing import Literal

import numpy as np

from advisor.catalog.collectives import collective
from advisor.simulator.collectives.alpha_beta import (
    FloatArray,
    checked_bytes,
    curve_of,
    group_s,
    network_all_to_all_s,
    network_parameters,
    network_ring_s,
    network_tree_s,
    node_bytes_per_s,
    protocol_hops,
    streaming_curve,
    tree_egress,
)
from advisor.simulator.collectives.topology import FITTED_RANKS, Topology, pair_of

_DIMENSIONS = {"ici-v4": 3, "ici-v5p": 3, "ici-tpu7x": 3}
_DEFAULT_DIMENSIONS = 2
Algorithm = Literal["engine", "vllm", "sglang", "sglang-0.5.14", "tensorrt-llm", "nccl"]
"""Algorithm choice. `engine` is the level over all engines; `sglang-0.5.14` is SGLang from that version on, with a
faster small sum."""


def in_switch_all_reduce_s(sizes: FloatArray, topology: Topology) -> dict[str, FloatArray]:
    """Time of NVLS, or of its tree over several nodes, by name [s]; empty if the switch cannot reduce.

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
    racks = k > FITTED_RANKS and topology.num_nodes > 1
    if k < parameters["min_ranks"] or racks:
        return {}
    widening = max(math.log2(k / FITTED_RANKS), 0.0)
    rate = topology.intra_bytes_per_s * (1.0 - parameters["loss_per_doubling"]) ** widening / (1.0 + 1.0 / k)
    name = "nvls"
    levels = 0
    network = math.inf
    if topology.num_nodes > 1:
        name = "nvls_tree"
        levels = math.ceil(math.log2(topology.num_nodes))
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
    return _torus_s(sizes, topology, passes, travel=0.0)


def torus_all_to_all_s(sizes: FloatArray, topology: Topology) -> FloatArray:
    """Time of an all-to-all on a torus [s]: each byte travels a quarter of the side along every axis.

    base + hops · step + size · (n − 1) / n · max(1, side / 4) / rate

    Assumes: as torus_ring_s; dimension-ordered routing keeps all links busy.
    Source: Austin et al. 2025, How to Scale Your Model (an all-to-all on a ring costs a quarter of an all-gather
        of the same array, which is n times the per-rank buffer).
    """
    return _torus_s(sizes, topology, passes=1, travel=0.25)


def _torus_s(sizes: FloatArray, topology: Topology, passes: int, travel: float) -> FloatArray:
    """Time of a collective on a torus [s]; each byte travels the fraction `travel` of the side along every axis, at
    least one link.

    Data that leaves a torus smaller than the group also goes through the networks of its nodes.
    """
    parameters = _parameters(topology)
    n = topology.num_ranks
    dimensions = _dimensions(topology)
    side = n ** (1.0 / dimensions)
    hops = dimensions * max(math.ceil(side / 2.0), 1)
    links = max(dimensions * side * travel, 1.0)
    wire_s = (n - 1) / n * links / (topology.intra_bytes_per_s * parameters["efficiency"])
    start_s = parameters["base_s"] + passes * hops * parameters["step_s"]
    nodes = topology.num_nodes
    if nodes > 1:
        wire_s += (nodes - 1) / nodes / (topology.inter_bytes_per_s * topology.ranks_in_node)
        start_s += passes * (nodes - 1) * topology.inter_latency_s
    return np.asarray(start_s + passes * sizes * wire_s, dtype=np.float64)


def _dimensions(topology: Topology) -> int:
    full = _DIMENSIONS.get(topology.intra_fabric, _DEFAULT_DIMENSIONS)
    return min(full, max(1, int(math.log2(topology.num_ranks))))


def _parameters(topology: Topology) -> dict[str, float]:
    return collective(topology.intra_fabric, "all_reduce", "torus").record.parameters


def custom_all_reduce_s(sizes: FloatArray, topology: Topology, engine: str = "any") -> list[FloatArray]:
    """Times of an engine's one-shot, two-shot and multicast kernels [s]; empty if the engine has none.

    one-shot: every rank reads all peers' buffers, size · (n − 1) over the link; two-shot: reduce-scatter and
    all-gather, 2 · size · (n − 1) / n; multicast: through the switch, size · (1 + 1/n). Each starts after
    base + (n − 1) · step.

    Assumes: captured in a CUDA graph; not used over PCIe by more than two ranks, nor without peer access, nor on
    accelerators for which engines have no such kernels.
    Error: docs/collectives.md.
    Source: vLLM csrc/custom_all_reduce.cuh; parameters from catalog/data/efficiency/collectives.toml.
    """
    n = topology.num_ranks
    over_pcie = topology.intra_fabric.startswith("pcie")
    if not topology.engine_sums or (over_pcie and (n > 2 or not topology.peer_to_peer)):
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


def all_reduce_s(
    num_bytes: FloatArray | float, topology: Topology, *, algorithm: Algorithm = "engine"
) -> FloatArray:
    """Time to sum a buffer of num_bytes over the group, result on every rank [s].

    The minimum over what the library may choose: ring, in-switch reduction (NVLS), tree over the network;
    under an engine also its one-shot, two-shot and multicast kernels. Torus fabrics run rings on every axis
    at once.

    Assumes: captured in a graph or launched back to back, so no host time; ranks arrive together.
    Raises: ValueError: num_bytes is negative or not finite.
    Error: docs/collectives.md; measured by evidence/fit/collectives.py.
    Source: NCCL src/graph/tuning.cc (form), vLLM csrc/custom_all_reduce.cuh (one- and two-shot).
    """
    sizes = checked_bytes(num_bytes)
    if topology.num_ranks == 1:
        return np.zeros_like(sizes)
    if is_torus(topology.intra_fabric):
        return _zero_if_empty(torus_ring_s(sizes, topology, passes=2), sizes)
    candidates = list(all_reduce_candidates(sizes, topology).values())
    if algorithm != "nccl" and topology.num_nodes == 1:
        engine = "any" if algorithm == "engine" else algorithm
        candidates.extend(custom_all_reduce_s(sizes, topology, engine))
    return _zero_if_empty(np.minimum.reduce(candidates), sizes)


def all_reduce_candidates(num_bytes: FloatArray | float, topology: Topology) -> dict[str, FloatArray]:
    """Time of every algorithm that NCCL could choose for an all-reduce [s], by name.

    Raises: ValueError: num_bytes is negative or not finite.
    Source: as all_reduce_s.
    """
    sizes = checked_bytes(num_bytes)
    times = {"ring": _ring_s("all_reduce", sizes, topology)}
    if topology.num_nodes > 1:
        times["tree"] = network_tree_s(sizes, topology)
    times.update(in_switch_all_reduce_s(sizes, topology))
    return times


def all_gather_s(num_bytes: FloatArray | float, topology: Topology) -> FloatArray:
    """Time to gather num_bytes in total on every rank, each contributing its share [s].

    Ring: n − 1 steps, num_bytes · (n − 1) / n over every link.

    Assumes: as all_reduce_s.
    Raises: ValueError: num_bytes is negative or not finite.
    Source: as all_reduce_s.
    """
    return _one_pass_s("all_gather", num_bytes, topology)


def reduce_scatter_s(num_bytes: FloatArray | float, topology: Topology) -> FloatArray:
    """Time to sum buffers of num_bytes and leave each rank its share [s].

    Ring: n − 1 steps, num_bytes · (n − 1) / n over every link.

    Assumes: as all_reduce_s.
    Raises: ValueError: num_bytes is negative or not finite.
    Source: as all_reduce_s.
    """
    return _one_pass_s("reduce_scatter", num_bytes, topology)


def all_to_all_s(num_bytes: FloatArray | float, topology: Topology) -> FloatArray:
    """Time for every rank to send num_bytes / n to each rank [s].

    Assumes: pairwise messages; across nodes each rank has its own network share, which rings can pool and
    this cannot.
    Raises: ValueError: num_bytes is negative or not finite.
    Source: as all_reduce_s; NCCL maintainers on NIC use: NVIDIA/nccl-tests issue 267.
    """
    sizes = checked_bytes(num_bytes)
    if topology.num_ranks == 1:
        return np.zeros_like(sizes)
    if is_torus(topology.intra_fabric):
        return _zero_if_empty(torus_all_to_all_s(sizes, topology), sizes)
    if topology.num_nodes > 1:
        return _zero_if_empty(network_all_to_all_s(sizes, topology), sizes)
    n = topology.num_ranks
    curve = curve_of(topology.fit_fabric, "all_to_all", "nccl")
    return _zero_if_empty(group_s(sizes * ((n - 1) / n), n - 1, topology.intra_bytes_per_s, curve, n), sizes)


def send_recv_s(num_bytes: FloatArray | float, topology: Topology) -> FloatArray:
    """Time to move num_bytes from one rank to another [s]: inside a node, or across when the group spans nodes.

    Inside a node a broadcast to one; across nodes half of an exchange between two.

    Assumes: one pair talks.
    Raises: ValueError: num_bytes is negative or not finite.
    Source: as all_reduce_s.
    """
    sizes = checked_bytes(num_bytes)
    if topology.num_ranks == 1:
        return np.zeros_like(sizes)
    pair = pair_of(topology)
    if pair.num_nodes > 1 and not is_torus(pair.intra_fabric):
        return all_to_all_s(sizes * 2.0, pair)
    return broadcast_s(sizes, pair)


def broadcast_s(num_bytes: FloatArray | float, topology: Topology) -> FloatArray:
    """Time to copy num_bytes from one rank to all others [s].

    A pipelined ring: n − 1 steps, all bytes over every link.

    Assumes: as all_reduce_s; over nodes as an all-gather that sends as many bytes.
    Raises: ValueError: num_bytes is negative or not finite.
    Source: as all_reduce_s.
    """
    n = topology.num_ranks
    sizes = checked_bytes(num_bytes)
    if n == 1:
        return np.zeros_like(sizes)
    if topology.num_nodes > 1 or is_torus(topology.intra_fabric):
        return all_gather_s(sizes * (n / (n - 1)), topology)
    curve = streaming_curve(topology.fit_fabric)
    return _zero_if_empty(group_s(sizes, n - 1, topology.intra_bytes_per_s, curve, n), sizes)


def bus_bytes_per_s(op: str, num_bytes: float, time_s: float, num_ranks: int) -> float:
    """nccl-tests' bus bandwidth [bytes/s]: num_bytes / time · factor.

    The factor makes it comparable with a link: 2(n − 1)/n for all_reduce, (n − 1)/n for all_gather,
    reduce_scatter and all_to_all, 1 for broadcast and send_recv.

    Raises: ValueError: time is not positive, a rank is missing, or the operation is unknown.
    Source: NVIDIA/nccl-tests doc/PERFORMANCE.md.
    """
    if not time_s > 0 or num_ranks < 1:
        raise ValueError("time_s must be positive and num_ranks at least 1")
    return num_bytes / time_s * bus_factor(op, num_ranks)


def bus_factor(op: str, num_ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth, as nccl-tests defines it.

    Raises: ValueError: the operation is unknown.
    Source: NVIDIA/nccl-tests doc/PERFORMANCE.md.
    """
    share = (num_ranks - 1) / num_ranks
    factors = {"all_reduce": 2.0 * share, "broadcast": 1.0, "send_recv": 1.0}
    factors |= dict.fromkeys(("all_gather", "reduce_scatter", "all_to_all"), share)
    if op not in factors:
        raise ValueError(f"unknown collective {op!r}: one of {', '.join(factors)}")
    return factors[op]


def _zero_if_empty(times: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return the times with 0 for empty messages, which are not sent."""
    return np.where(sizes > 0, times, 0.0)


def _one_pass_s(operation: str, num_bytes: FloatArray | float, topology: Topology) -> FloatArray:
    sizes = checked_bytes(num_bytes)
    if topology.num_ranks == 1:
        return np.zeros_like(sizes)
    if is_torus(topology.intra_fabric):
        return _zero_if_empty(torus_ring_s(sizes, topology, passes=1), sizes)
    return _zero_if_empty(_ring_s(operation, sizes, topology), sizes)


def _ring_s(operation: str, sizes: FloatArray, topology: Topology) -> FloatArray:
    if topology.num_nodes > 1:
        return network_ring_s(operation, sizes, topology)
    n = topology.num_ranks
    passes = 2 if operation == "all_reduce" else 1
    curve = curve_of(topology.fit_fabric, operation, "nccl")
    wire_bytes = sizes * (passes * (n - 1) / n)
    return group_s(wire_bytes, passes * (n - 1), topology.intra_bytes_per_s, curve, n)
