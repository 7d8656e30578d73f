"""Time of each collective on a group of ranks.

Message sizes follow the nccl-tests convention: all_reduce, broadcast and send_recv the buffer of one rank;
all_gather the gathered output; reduce_scatter the whole input; all_to_all the send buffer of one rank.
"""

from typing import Literal

import numpy as np

from advisor.simulator.collectives.alpha_beta import (
    FloatArray,
    checked_bytes,
    curve_of,
    group_s,
    network_all_to_all_s,
    network_ring_s,
    network_tree_s,
    streaming_curve,
)
from advisor.simulator.collectives.fabric_forms import (
    custom_all_reduce_s,
    in_switch_all_reduce_s,
    is_torus,
    torus_all_to_all_s,
    torus_ring_s,
)
from advisor.simulator.collectives.topology import Topology, pair_of

Algorithm = Literal["engine", "vllm", "sglang", "sglang-0.5.14", "tensorrt-llm", "nccl"]
"""`engine` is the level over all engines; `sglang-0.5.14` SGLang from that version on, with a faster small sum."""


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
        return _nothing_for_nothing(torus_ring_s(sizes, topology, passes=2), sizes)
    candidates = list(all_reduce_candidates(sizes, topology).values())
    if algorithm != "nccl" and topology.num_nodes == 1:
        engine = "any" if algorithm == "engine" else algorithm
        candidates.extend(custom_all_reduce_s(sizes, topology, engine))
    return _nothing_for_nothing(np.minimum.reduce(candidates), sizes)


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
        return _nothing_for_nothing(torus_all_to_all_s(sizes, topology), sizes)
    if topology.num_nodes > 1:
        return _nothing_for_nothing(network_all_to_all_s(sizes, topology), sizes)
    n = topology.num_ranks
    curve = curve_of(topology.fit_fabric, "all_to_all", "nccl")
    return _nothing_for_nothing(
        group_s(sizes * ((n - 1) / n), n - 1, topology.intra_bytes_per_s, curve, n), sizes
    )


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
    return _nothing_for_nothing(group_s(sizes, n - 1, topology.intra_bytes_per_s, curve, n), sizes)


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


def _nothing_for_nothing(times: FloatArray, sizes: FloatArray) -> FloatArray:
    """An empty message is not sent."""
    return np.where(sizes > 0, times, 0.0)


def _one_pass_s(operation: str, num_bytes: FloatArray | float, topology: Topology) -> FloatArray:
    sizes = checked_bytes(num_bytes)
    if topology.num_ranks == 1:
        return np.zeros_like(sizes)
    if is_torus(topology.intra_fabric):
        return _nothing_for_nothing(torus_ring_s(sizes, topology, passes=1), sizes)
    return _nothing_for_nothing(_ring_s(operation, sizes, topology), sizes)


def _ring_s(operation: str, sizes: FloatArray, topology: Topology) -> FloatArray:
    if topology.num_nodes > 1:
        return network_ring_s(operation, sizes, topology)
    n = topology.num_ranks
    passes = 2 if operation == "all_reduce" else 1
    curve = curve_of(topology.fit_fabric, operation, "nccl")
    wire_bytes = sizes * (passes * (n - 1) / n)
    return group_s(wire_bytes, passes * (n - 1), topology.intra_bytes_per_s, curve, n)
