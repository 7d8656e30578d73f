"""Alpha-beta model, the formula behind every collective: a start, steps of fixed latency, and bytes over a link; rings
and trees."""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.collectives import collective
from advisor.simulator.collectives.topology import FITTED_RANKS, Topology

FloatArray = NDArray[np.float64]

PROTOCOLS = ("ll", "ll128", "simple", "bulk")
"""Protocols by which NCCL hands data over: flags in every word, in every line, or behind a fence, the last also in its
largest chunks. Each needs more time to start than the one before and moves more payload per byte on the wire."""


_FULL_GROUP = 8
_DIRECT_LINKS = ("bridge", "nvlink1", "nvlink2", "xgmi", "gaudi")


@dataclass(frozen=True, slots=True)
class AlphaBeta:
    """Fitted branches of one algorithm on one fabric; branch i takes base + steps · step + bytes / (rate ·
    e)."""

    base_s: tuple[float, ...]
    step_s: tuple[float, ...]
    efficiency: tuple[float, ...]
    small_group_loss: float = 0.0
    """Loss of small groups, which keep fewer links busy: the rate is multiplied by 1 − loss / group."""

    def fitting(self, by_protocol: tuple[float, ...]) -> tuple[float, ...]:
        """Return the last values of a tuple over all protocols: a curve with fewer branches lacks the first ones."""
        return by_protocol[len(by_protocol) - len(self.base_s) :]

    def rate_fraction(self, group: int) -> float:
        """Fraction of the link rate that the best branch reaches in a group of this size."""
        return self.efficiency[-1] * (1.0 - self.small_group_loss / group)


def branches_s(
    wire_bytes: FloatArray, latencies_s: tuple[float, ...], rates_bytes_per_s: tuple[float, ...]
) -> FloatArray:
    """Time of the fastest branch [s]: min over i of latency_i + wire_bytes / rate_i.

    Assumes: the library picks the best branch for the size, as its tuner means to.
    Source: Hockney's α–β model; NCCL src/graph/tuning.cc has this form per algorithm and protocol.
    """
    times = [
        latency + wire_bytes / rate for latency, rate in zip(latencies_s, rates_bytes_per_s, strict=True)
    ]
    return np.asarray(np.minimum.reduce(times), dtype=np.float64)


def group_s(
    wire_bytes: FloatArray, num_steps: int, bytes_per_s: float, curve: AlphaBeta, group: int
) -> FloatArray:
    """Time of a collective whose ranks all share one fabric [s].

    min over i of base_i + num_steps · step_i + wire_bytes / (bytes_per_s · efficiency_i · (1 − loss / group))

    Assumes: every rank sends wire_bytes over its own link.
    Source: Hockney's α–β model per protocol; parameters from catalog/data/efficiency/collectives.toml.
    """
    scale = bytes_per_s * (1.0 - curve.small_group_loss / group)
    return branches_s(
        wire_bytes,
        tuple(b + num_steps * s for b, s in zip(curve.base_s, curve.step_s, strict=True)),
        tuple(scale * e for e in curve.efficiency),
    )


@functools.cache
def curve_of(fabric: str, operation: str, algorithm: str) -> AlphaBeta:
    """Return the fitted branches of an algorithm on a fabric, or on its nearest measured relative.

    Assumes: where links join chips directly, a small group has fewer of them but uses each fully, so the loss
    that a switched relative shows in small groups does not carry over.
    Raises: UnknownNameError: no relative was measured either.
    Source: catalog/data/efficiency/collectives.toml.
    """
    found = collective(fabric, operation, algorithm)
    curve = alpha_beta(found.record.parameters)
    if found.transferred_from not in ("", fabric) and any(word in fabric for word in _DIRECT_LINKS):
        return replace(curve, small_group_loss=0.0)
    return curve


@functools.cache
def streaming_curve(fabric: str) -> AlphaBeta:
    """Return the fitted branches of a stream in one direction (broadcast, send): the fabric's own, or from its
    all-gather.

    Assumes: a stream keeps its links as busy as an all-gather of eight does, in groups of any size.
    Raises: UnknownNameError: no relative was measured either.
    Source: catalog/data/efficiency/collectives.toml.
    """
    found = collective(fabric, "broadcast", "nccl")
    if not found.transferred_from:
        return alpha_beta(found.record.parameters)
    curve = curve_of(fabric, "all_gather", "nccl")
    full = 1.0 - max(curve.small_group_loss, 0.0) / _FULL_GROUP
    loss = min(curve.small_group_loss, 0.0)
    return replace(curve, efficiency=tuple(full * e for e in curve.efficiency), small_group_loss=loss)


def alpha_beta(parameters: Mapping[str, float]) -> AlphaBeta:
    """Return the branches of a record's parameters; a branch that was not fitted is left out.

    Source: own definition of the records' parameters.
    """
    kept = [name for name in PROTOCOLS if f"efficiency_{name}" in parameters]
    return AlphaBeta(
        tuple(parameters[f"base_{name}_s"] for name in kept),
        tuple(parameters[f"step_{name}_s"] for name in kept),
        tuple(parameters[f"efficiency_{name}"] for name in kept),
        parameters.get("small_group_loss", 0.0),
    )


def checked_bytes(num_bytes: Any) -> FloatArray:
    """Return message sizes as a float array [bytes].

    Raises: ValueError: a size is negative or not finite.
    Source: own definition.
    """
    sizes = np.asarray(num_bytes, dtype=np.float64)
    if not np.all(np.isfinite(sizes)) or np.any(sizes < 0):
        raise ValueError("num_bytes must be finite and not negative")
    return sizes


def network_ring_s(operation: str, sizes: FloatArray, topology: Topology) -> FloatArray:
    """Time of a ring through all nodes [s].

    Each of `passes` rounds takes n − 1 steps, of which nodes − 1 cross the network, and sends size · (n − 1)
    / n over every link; a node's rings together leave through all of its network ports, so the slower of the
    scale-up link and the node's whole network sets the rate.

    Assumes: as many rings as ports, one after the other through every rank (NCCL's channels); equal nodes.
    Error: docs/collectives.md, whole sources left out.
    Source: NCCL src/graph/tuning.cc (steps and inter-node steps); parameters: catalog/data/efficiency.
    """
    n = topology.num_ranks
    nodes = topology.num_nodes
    passes = 2 if operation == "all_reduce" else 1
    curve = curve_of(topology.fit_fabric, operation, "nccl")
    inter_steps = passes * (nodes - 1)
    intra_steps = passes * (n - 1) - inter_steps
    wire_bytes = sizes * (passes * (n - 1) / n)
    return branches_s(
        wire_bytes,
        _latencies_s(curve, intra_steps, inter_steps, passes, topology, "ring"),
        _rates(curve, topology, node_bytes_per_s(topology)),
    )


def network_tree_s(sizes: FloatArray, topology: Topology) -> FloatArray:
    """Time of an all-reduce up and down two complementary binary trees over the nodes [s].

    A chain inside each node and log2(nodes) levels between nodes, twice. A node of the two trees sends its
    buffer up once and, from three nodes on, down once more: `egress` · size over its network; each scale-up
    link carries the buffer twice.

    Assumes: double binary tree, every node inner in one tree and leaf in the other; over racks only for small
    messages (published 1440-rank sums take the latency of a ring at every size).
    Error: docs/collectives.md, whole sources left out.
    Source: Sanders, Speck, Träff 2009 (two-tree); NCCL src/graph/tuning.cc (levels).
    """
    curve = curve_of(topology.fit_fabric, "all_reduce", "nccl")
    n = topology.num_ranks
    k = topology.ranks_in_node
    levels = math.ceil(math.log2(topology.num_nodes))
    egress = tree_egress(topology)
    network = node_bytes_per_s(topology) * (2.0 * (n - 1) / n) / egress
    latencies = _latencies_s(curve, 2 * (k - 1), 2 * levels, 2, topology, "tree")
    fraction = collective(topology.intra_fabric, "all_reduce", "tree").record.parameters["scale_up_fraction"]
    rates = _rates(curve, topology, network, fraction)
    if k > FITTED_RANKS:
        latencies = latencies[:-2]
        rates = rates[:-2]
    return branches_s(sizes * (2.0 * (n - 1) / n), latencies, rates)


def network_all_to_all_s(sizes: FloatArray, topology: Topology) -> FloatArray:
    """Time of an all-to-all across nodes [s]: pairwise messages, each rank through its own network share.

    base + messages · step + the slower of size · (n − k) / n over the rank's network and size · (k − 1) / n
    over its scale-up link, k ranks a node.

    Assumes: ports cannot be pooled for one rank's messages; over PCIe a port is no faster than the slot.
    Error: docs/collectives.md, whole sources left out.
    Source: NCCL maintainers on NIC use: NVIDIA/nccl-tests issue 267; parameters: catalog/data/efficiency.
    """
    n = topology.num_ranks
    k = topology.ranks_in_node
    parameters = network_parameters("all_to_all")
    curve = curve_of(topology.fit_fabric, "all_to_all", "nccl")
    port = topology.inter_bytes_per_s
    if topology.intra_fabric.startswith("pcie"):
        port = min(port, topology.intra_bytes_per_s)
    network_s = (n - k) / n / (port * parameters["efficiency"])
    scale_up_s = (k - 1) / n / (topology.intra_bytes_per_s * curve.rate_fraction(k))
    hops = 1.0 + (n - k) * parameters["hops_per_message"]
    start_s = curve.base_s[0] + hops * topology.inter_latency_s
    return np.asarray(start_s + sizes * max(network_s, scale_up_s), dtype=np.float64)


def tree_egress(topology: Topology) -> float:
    """Number of buffers that a node sends over the network in a tree all-reduce: one between two nodes, else two.

    Source: a node of a double binary tree sends up once and, where it has children, down once.
    """
    return 1.0 if topology.num_nodes == 2 or topology.network_reduction else 2.0


def node_bytes_per_s(topology: Topology) -> float:
    """Network rate of a whole domain that one communicator reaches [bytes/s], one direction.

    ports · rate · efficiency; domains wider than a node are held to the rings that leave them.

    Source: parameters from catalog/data/efficiency/collectives.toml (network).
    """
    parameters = network_parameters("ring")
    ports = min(topology.ranks_in_node, parameters["max_ports"])
    return topology.inter_bytes_per_s * ports * parameters["efficiency"]


def network_parameters(operation: str) -> dict[str, float]:
    """Return the fitted parameters of an operation between nodes."""
    return collective("network", operation, "nccl").record.parameters


def protocol_hops(algorithm: str) -> tuple[float, ...]:
    """Length of one step between nodes under each protocol, in small-message tree steps.

    Source: ratios of NCCL's tuning constants (src/graph/tuning.cc, NET).
    """
    parameters = network_parameters(algorithm)
    return tuple(parameters[f"hops_{protocol}"] for protocol in PROTOCOLS)


def _latencies_s(
    curve: AlphaBeta, intra_steps: int, inter_steps: int, passes: int, topology: Topology, algorithm: str
) -> tuple[float, ...]:
    """Start of every protocol [s].

    The fitted step of the protocols for large messages holds the filling of their chunks, which a longer ring does
    not repeat: steps beyond one domain's cost no more than those of the light protocols.
    """
    near = min(intra_steps, passes * (topology.ranks_in_node - 1))
    light = curve.step_s[min(1, len(curve.step_s) - 1)]
    return tuple(
        base
        + near * step
        + (intra_steps - near) * min(step, light)
        + inter_steps * hops * topology.inter_latency_s
        for base, step, hops in zip(
            curve.base_s, curve.step_s, curve.fitting(protocol_hops(algorithm)), strict=True
        )
    )


def _rates(
    curve: AlphaBeta, topology: Topology, network: float, scale_up_fraction: float = 1.0
) -> tuple[float, ...]:
    """Rate of every protocol [bytes/s]: the slower of scale-up link and network, each at its efficiency."""
    if topology.ranks_in_node == 1:
        scale_up = math.inf
    else:
        loss = curve.small_group_loss / topology.num_ranks
        scale_up = topology.intra_bytes_per_s * scale_up_fraction * (1.0 - loss)
    best = curve.efficiency[-1]
    shares = curve.fitting((network_parameters("tree")["ll_share"], 1.0, 1.0, 1.0))
    return tuple(
        min(scale_up * e, network * e / best) * share
        for e, share in zip(curve.efficiency, shares, strict=True)
    )
