"""Topology: the nodes in which the ranks of one communicator are, and the rates of the links between them."""

import math
from dataclasses import dataclass, replace
from typing import Final, Literal

from advisor.catalog.errors import AdvisorError
from advisor.catalog.schema import Accelerator
from advisor.catalog.units import BITS_PER_BYTE, GB, GIGA, MICROSECOND_S

PCIE_LANE_BYTES_PER_S: Final[dict[int, float]] = {
    generation: giga_transfers * GIGA * coding / 8.0
    for generation, giga_transfers, coding in (
        (1, 2.5, 8 / 10),
        (2, 5.0, 8 / 10),
        (3, 8.0, 128 / 130),
        (4, 16.0, 128 / 130),
        (5, 32.0, 128 / 130),
        (6, 64.0, 242 / 256),
    )
}
"""Payload rate of one lane and direction after line coding, by PCIe generation [bytes/s] (PCI-SIG); generation 6 after
FLIT framing."""

PCIE_COPY_FRACTION: Final = 0.83
"""Fraction of the PCIe rate that large copies reach: copies from pinned memory, measured by the probes on PCIe 5 x16.
Copies to network cards are taken to reach the same."""
INFINIBAND_HOP_S: Final = 5.0 * MICROSECOND_S
"""Small-message step between two nodes over InfiniBand or RoCE [s]: NCCL's own tuning constant (tuning.cc, NET,
tree)."""
ETHERNET_BYTES_PER_S: Final = 3.125 * GB
"""Network rate of a node without a sourced figure [bytes/s]: 25 Gb/s."""
FITTED_RANKS: Final = 8
"""Number of ranks of the widest group inside one domain on which NVLink times were fitted; wider groups extrapolate."""
_SOCKET_RANKS: Final = 4
_MEASURED_ACROSS_SOCKETS: Final = ("pcie5",)
"""PCIe fabrics whose records are of eight cards in one server: they contain the traffic that crosses sockets."""
_MEASURED_IN_A_SOCKET: Final = ("pcie5-x16",)
"""PCIe fabrics with records of their own of cards that share a socket or a switch."""
Slots = Literal["root", "switch"]
"""Place where PCIe cards of one group meet: in the processor's root complex, or in a switch below it."""
_MESH_KINDS: Final = ("xgmi", "gaudi")
_CUBE_MESH_RINGS: Final = {2: 1.0, 3: 2.0, 4: 4.0, 5: 1.6, 6: 2.0, 7: 4.0, 8: 6.0}
"""Number of rings over the first n GPUs of a DGX-1; among five, one GPU is attached to a single peer, so part goes over
PCIe."""
_SWITCHED_REDUCTION: Final = ("nvlink4", "nvlink5", "nvlink6")


_AMD_WITH_ENGINE_SUMS: Final = ("cdna3", "cdna4", "cdna5")
"""Architectures of AMD on which engines sum themselves (vLLM, platforms/rocm.py use_custom_allreduce: gfx94 and gfx95,
and their successor is taken to follow them); RCCL sums on others."""


@dataclass(frozen=True, slots=True)
class Topology:
    """Placement of the ranks of one group; rates are one direction per rank (SI)."""

    num_ranks: int
    ranks_per_node: int
    """Number of consecutive ranks that share one scale-up domain (a node, or a rack with multi-node NVLink)."""
    intra_fabric: str
    """Interconnect id: nvlink4, pcie4-x16, xgmi-mi300x, ici-v5p, ..."""
    intra_bytes_per_s: float
    """Rate at which one rank can send to this group inside the domain [bytes/s]; on a full mesh only the links to its
    members count."""
    inter_bytes_per_s: float = 0.0
    """Network rate per rank [bytes/s]; 0 if the group stays in one domain."""
    inter_latency_s: float = INFINIBAND_HOP_S
    """Time of one small-message step between nodes [s]."""
    in_network_reduction: bool = False
    """Whether the scale-up switch reduces (NVLink SHARP)."""
    peer_to_peer: bool = True
    """Whether devices read each other over PCIe; False stages every message in host memory."""
    slots: Slots = "root"
    network_reduction: bool = False
    """Whether the network's switches reduce (InfiniBand SHARP)."""
    engine_sums: bool = True
    """Whether engines have kernels of their own for sums over these accelerators; elsewhere a library of the vendor
    sums."""

    def __post_init__(self) -> None:
        if self.num_ranks < 1 or self.ranks_per_node < 1:
            raise ValueError(f"a group needs at least one rank and one rank per node, not {self.num_ranks}")
        if not (math.isfinite(self.intra_bytes_per_s) and self.intra_bytes_per_s > 0):
            raise ValueError(f"intra_bytes_per_s must be positive, not {self.intra_bytes_per_s}")
        if self.num_ranks > self.ranks_per_node and not self.inter_bytes_per_s > 0:
            raise ValueError("a group over several nodes needs inter_bytes_per_s > 0")
        if self.inter_latency_s < 0:
            raise ValueError(f"inter_latency_s must not be negative, not {self.inter_latency_s}")

    @property
    def num_nodes(self) -> int:
        """Number of scale-up domains that the group touches."""
        return -(-self.num_ranks // self.ranks_per_node)

    @property
    def fit_fabric(self) -> str:
        """Fabric under which the fits are stored. PCIe staged through host memory is a fabric of its own, and so is
        PCIe within one socket."""
        staged = not self.peer_to_peer and self.intra_fabric.startswith("pcie")
        if self.peer_to_peer and self.intra_fabric in _MEASURED_IN_A_SOCKET and self._in_a_socket:
            return f"{self.intra_fabric.partition('-')[0]}-{self.slots}"
        return f"{self.intra_fabric}-host" if staged else self.intra_fabric

    @property
    def _in_a_socket(self) -> bool:
        return 1 < self.ranks_in_node <= _SOCKET_RANKS

    @property
    def ranks_in_node(self) -> int:
        """Number of ranks of the group in one full domain."""
        return min(self.num_ranks, self.ranks_per_node)


def topology_of(accelerator: Accelerator, num_ranks: int, *, ranks_per_node: int | None = None) -> Topology:
    """Return the topology of a group of equal accelerators in their usual node.

    Assumes: consecutive ranks fill a scale-up domain before the next begins; cards joined by bridges, and cards
    without a scale-up fabric, stand on PCIe, as many as a node has; without a sourced network figure a node has its
    assumed one or 25 Gb/s per accelerator; on a machine whose pairs were measured, a group has its best place; more
    than four cards on PCIe span two sockets, between which NCCL stages messages in host memory (src/graph/paths.cc:
    peers up to PATH_PXB).
    Raises: ValueError: fewer than one rank.
    Source: catalog record of the accelerator.
    """
    if num_ranks < 1:
        raise ValueError(f"a group needs at least one rank, not {num_ranks}")
    kind, rate, domain = _fabric(accelerator, num_ranks)
    in_node = min(num_ranks, ranks_per_node or domain)
    return Topology(
        num_ranks=num_ranks,
        ranks_per_node=in_node,
        intra_fabric=kind,
        intra_bytes_per_s=rate
        * usable_link_fraction(kind, in_node, domain)
        * accelerator.group_fraction.get(in_node, 1.0),
        inter_bytes_per_s=accelerator.scale_out_bytes_per_s
        or accelerator.assumed_network_bytes_per_s
        or ETHERNET_BYTES_PER_S,
        in_network_reduction=kind.startswith(_SWITCHED_REDUCTION) and "bridge" not in kind,
        engine_sums=accelerator.vendor == "nvidia" or accelerator.architecture in _AMD_WITH_ENGINE_SUMS,
        peer_to_peer=accelerator.pcie_peer_to_peer
        and (in_node <= _SOCKET_RANKS or kind.startswith(_MEASURED_ACROSS_SOCKETS)),
    )


def full_domain(accelerator: Accelerator) -> int:
    """Number of accelerators in the largest domain that a group of them can lie in. Source: as topology_of."""
    return _fabric(accelerator, MAX_RANKS)[2]


def _fabric(accelerator: Accelerator, num_ranks: int) -> tuple[str, float, int]:
    """Return the fabric of a group inside a domain: its kind, the rate of a rank [bytes/s], and ranks of a domain."""
    scale_up = accelerator.scale_up
    domain = accelerator.scale_up_domain
    if scale_up is None or domain == 1 or (scale_up.is_bridge and num_ranks > domain):
        return *_pcie(accelerator), accelerator.node_size
    return scale_up.kind, scale_up.bytes_per_s, domain


@dataclass(frozen=True, slots=True)
class UsualNetwork:
    """Network between the nodes of a group, and why it is taken."""

    bytes_per_s: float
    """Rate of one rank, one direction [bytes/s]."""
    is_stated: bool
    """Whether it is that of the accelerator's usual node, or was described by the user."""
    source: str

    @property
    def words(self) -> str:
        """Return the network in a sentence without its end."""
        rate = self.bytes_per_s * BITS_PER_BYTE / GIGA
        return f"network between nodes: {rate:g} Gb/s for each accelerator, {self.source}"


def usual_network(accelerator: Accelerator, topology: Topology) -> UsualNetwork | None:
    """Return the network that a group over several nodes is predicted with where none was described; None for a group
    in one node.

    Source: catalog record of the accelerator.
    """
    if topology.num_nodes < 2:
        return None
    sources = accelerator.field_sources
    if accelerator.scale_out_bytes_per_s:
        found = sources.get("scale_out_bytes_per_s")
        where = f" ({found.title}, {found.where})" if found else ""
        return UsualNetwork(topology.inter_bytes_per_s, True, f"that of its usual node{where}")
    if accelerator.assumed_network_bytes_per_s:
        found = sources["assumed_network_bytes_per_s"]
        words = f"assumed: {found.note} ({found.title}, {found.where})"
        return UsualNetwork(topology.inter_bytes_per_s, False, words)
    words = "assumed because no source states one: the slowest that data centres have"
    return UsualNetwork(topology.inter_bytes_per_s, False, words)


def usable_link_fraction(fabric: str, num_ranks: int, domain: int) -> float:
    """Fraction of a rank's scale-up links that lead to members of its group.

    All links on a switch; (n − 1) of (domain − 1) on a full mesh; on the hybrid cube mesh of eight V100s the rings that
    fit among the first n GPUs, of the six that fit among all.

    Source: AMD CDNA 3 white paper (mesh); NVIDIA DGX-1 with V100 white paper, figure 4 (cube mesh).
    """
    if num_ranks > 1 and fabric.startswith(_MESH_KINDS):
        return (num_ranks - 1) / max(domain - 1, 1)
    if fabric == "nvlink2" and num_ranks > 1:
        return _CUBE_MESH_RINGS[min(num_ranks, 8)] / _CUBE_MESH_RINGS[8]
    return 1.0


def pair_of(topology: Topology) -> Topology:
    """Return the topology of two ranks of the group: in different nodes if it spans nodes, else neighbours.

    Assumes: on a full mesh a pair has one of the links that the group's rate counts.
    Source: own definition.
    """
    rate = topology.intra_bytes_per_s
    if topology.intra_fabric.startswith(_MESH_KINDS) and topology.ranks_in_node > 1:
        rate /= topology.ranks_in_node - 1
    in_node = 1 if topology.num_nodes > 1 else 2
    return replace(topology, num_ranks=2, ranks_per_node=in_node, intra_bytes_per_s=rate)


def pcie_bytes_per_s(accelerator: Accelerator) -> float | None:
    """Rate at which an accelerator copies over its own PCIe link, one direction [bytes/s]; None if no link is recorded.

    0.83 · lanes · rate of the PCIe generation

    Source: PCI-SIG rates; copies measured by the probes.
    """
    if accelerator.pcie_generation is None or accelerator.pcie_lanes is None:
        return None
    return accelerator.pcie_lanes * PCIE_LANE_BYTES_PER_S[accelerator.pcie_generation] * PCIE_COPY_FRACTION


def _pcie(accelerator: Accelerator) -> tuple[str, float]:
    generation = min(max(accelerator.pcie_generation or 4, 3), 6)
    lanes = accelerator.pcie_lanes or 16
    return f"pcie{generation}-x{lanes}", PCIE_LANE_BYTES_PER_S[generation] * lanes


NODES_PER_LEAF: Final = 32
"""Number of nodes of one scalable unit in a rail-optimised fabric: one leaf switch per rail joins them (NVIDIA DGX
SuperPOD reference architecture)."""


def oversubscribe(
    topology: Topology, operation: str, oversubscription: float, nodes_per_leaf: int = NODES_PER_LEAF
) -> Topology:
    """Return the group behind leaves whose uplinks carry 1/oversubscription of the rate that their nodes can send.

    Within one leaf nothing changes. A ring passes from leaf to leaf once per rail: it slows only if a leaf has
    fewer nodes than the oversubscription. Of an all-to-all the share (N − L)/(N − 1) of every rank's traffic goes up,
    with L of N nodes in its leaf, and shares the uplinks: the rate falls by share · oversubscription.

    Assumes: nodes fill a leaf before the next; adaptive routing spreads flows evenly over the uplinks; no other job
    uses
        them.
    Raises: AdvisorError: an oversubscription below 1.
    Source: own derivation; Leiserson 1985, Fat-trees: universal networks for hardware-efficient supercomputing.
    """
    if not oversubscription >= 1.0:
        raise AdvisorError(
            f"an oversubscription of {oversubscription:g}",
            why="it is what leaves take in over what they pass up: at least 1",
            fix="e.g. 2 for a tree with half of its uplinks",
        )
    nodes = topology.num_nodes
    if nodes <= nodes_per_leaf:
        return topology
    if operation in ("all_to_all", "send_recv"):
        climbing = (nodes - nodes_per_leaf) / (nodes - 1) if operation == "all_to_all" else 1.0
        slower = max(1.0, climbing * oversubscription)
    else:
        slower = max(1.0, oversubscription / nodes_per_leaf)
    return replace(topology, inter_bytes_per_s=topology.inter_bytes_per_s / slower)


MAX_RANKS: Final = 1_000_000


def place_accelerators(accelerator: Accelerator, num_gpus: int, num_nodes: int | None = None) -> Topology:
    """Return the topology of num_gpus accelerators over num_nodes nodes.

    Assumes: the trays of a rack with one fabric (NVL72) form one domain however many they are; without a number
    of nodes as few as the fabric allows.
    Raises: AdvisorError: a count is out of range, does not divide, or a node would exceed its fabric.
    Source: catalog record of the accelerator.
    """
    if not 1 <= num_gpus <= MAX_RANKS:
        raise AdvisorError(
            f"{num_gpus} accelerators cannot form a group",
            why=f"a group has from 1 to {MAX_RANKS}",
            fix="correct the number of accelerators",
        )
    if num_nodes is None:
        return topology_of(accelerator, num_gpus)
    if num_nodes < 1 or num_gpus % num_nodes:
        raise AdvisorError(
            f"{num_gpus} accelerators cannot stand in {num_nodes} equal nodes",
            why=f"{num_gpus} is not a multiple of {num_nodes}"
            if num_nodes > 0
            else "a node count is at least 1",
            fix=f"use {max(1, num_gpus // max(num_nodes, 1)) * max(num_nodes, 1)} accelerators or another number",
        )
    in_node = num_gpus // num_nodes
    widest = full_domain(accelerator)
    if in_node > widest:
        raise AdvisorError(
            f"{in_node} accelerators of kind {accelerator.id} in one node",
            why=f"its fabric joins at most {widest}",
            fix=f"use at least {-(-num_gpus // widest)} nodes",
        )
    if widest > accelerator.node_size:
        return topology_of(accelerator, num_gpus)
    return topology_of(accelerator, num_gpus, ranks_per_node=in_node)
