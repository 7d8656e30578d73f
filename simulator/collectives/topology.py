"""Where the ranks of one communicator sit, and how fast the links between them are."""

import math
from dataclasses import dataclass, replace
from typing import Final

from advisor.catalog.schema import Accelerator
from advisor.catalog.units import GB, GIGA, MICROSECOND_S

PCIE_LANE_BYTES_PER_S: Final[dict[int, float]] = {
    generation: giga_transfers * GIGA * coding / 8.0
    for generation, giga_transfers, coding in (
        (3, 8.0, 128 / 130),
        (4, 16.0, 128 / 130),
        (5, 32.0, 128 / 130),
        (6, 64.0, 242 / 256),
    )
}
"""Payload rate of one lane and direction after line coding (PCI-SIG); generation 6 after FLIT framing."""

INFINIBAND_HOP_S: Final = 5.0 * MICROSECOND_S
"""Small-message step between two nodes over InfiniBand or RoCE: NCCL's own tuning constant (tuning.cc, NET,
tree)."""
ETHERNET_BYTES_PER_S: Final = 3.125 * GB
"""25 Gb/s: what a node without a sourced network figure is taken to have."""
_PCIE_RANKS_PER_NODE: Final = 8
_MESH_KINDS: Final = ("xgmi", "gaudi")
_SWITCHED_REDUCTION: Final = ("nvlink4", "nvlink5", "nvlink6")


@dataclass(frozen=True, slots=True)
class Topology:
    """Where the ranks of one group sit; rates are one direction per rank, SI."""

    num_ranks: int
    ranks_per_node: int
    """Consecutive ranks that share one scale-up domain (a node, or a rack with multi-node NVLink)."""
    intra_fabric: str
    """Interconnect id: nvlink4, pcie4-x16, xgmi-mi300x, ici-v5p, ..."""
    intra_bytes_per_s: float
    """What one rank can send to this group inside the domain; on a full mesh only the links to its
    members."""
    inter_bytes_per_s: float = 0.0
    """Network per rank; 0 where the group stays in one domain."""
    inter_latency_s: float = INFINIBAND_HOP_S
    """One small-message step between nodes."""
    in_network_reduction: bool = False
    """The scale-up switch reduces (NVLink SHARP)."""
    peer_to_peer: bool = True
    """Devices read each other over PCIe; False stages every message in host memory."""
    network_reduction: bool = False
    """The network's switches reduce (InfiniBand SHARP)."""

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
        """Scale-up domains that the group touches."""
        return -(-self.num_ranks // self.ranks_per_node)

    @property
    def fit_fabric(self) -> str:
        """Fabric under which the fits are stored: PCIe staged through host memory is a fabric of its own."""
        staged = not self.peer_to_peer and self.intra_fabric.startswith("pcie")
        return f"{self.intra_fabric}-host" if staged else self.intra_fabric

    @property
    def ranks_in_node(self) -> int:
        """Ranks of the group in one full domain."""
        return min(self.num_ranks, self.ranks_per_node)


def topology_of(accelerator: Accelerator, num_ranks: int, *, ranks_per_node: int | None = None) -> Topology:
    """Topology of a group of equal accelerators in their usual node.

    Assumes: consecutive ranks fill a scale-up domain before the next begins; on a full mesh of pairwise
    links a group of n uses n − 1 of the domain's links; without a scale-up fabric eight accelerators share a
    node over PCIe; without a sourced network figure the node has 25 Gb/s per accelerator.
    Raises: ValueError: fewer than one rank.
    Source: catalog record of the accelerator.
    """
    if num_ranks < 1:
        raise ValueError(f"a group needs at least one rank, not {num_ranks}")
    domain = accelerator.scale_up.max_domain if accelerator.scale_up else 1
    if accelerator.scale_up is not None and domain > 1 and (num_ranks <= domain or domain > 2):
        kind, rate = accelerator.scale_up.kind, accelerator.scale_up.bytes_per_s
        in_node = min(num_ranks, ranks_per_node or domain)
        if kind.startswith(_MESH_KINDS) and in_node > 1:
            rate *= (in_node - 1) / (domain - 1)
    else:
        kind, rate = _pcie(accelerator)
        in_node = min(num_ranks, ranks_per_node or _PCIE_RANKS_PER_NODE)
    return Topology(
        num_ranks=num_ranks,
        ranks_per_node=in_node,
        intra_fabric=kind,
        intra_bytes_per_s=rate,
        inter_bytes_per_s=accelerator.scale_out_bytes_per_s or ETHERNET_BYTES_PER_S,
        in_network_reduction=kind in _SWITCHED_REDUCTION,
        peer_to_peer=accelerator.pcie_peer_to_peer,
    )


def pair_of(topology: Topology) -> Topology:
    """Two ranks of the group: in different nodes where it spans nodes, else neighbours.

    Assumes: on a full mesh a pair has one of the links that the group's rate counts.
    Source: own definition.
    """
    rate = topology.intra_bytes_per_s
    if topology.intra_fabric.startswith(_MESH_KINDS) and topology.ranks_in_node > 1:
        rate /= topology.ranks_in_node - 1
    in_node = 1 if topology.num_nodes > 1 else 2
    return replace(topology, num_ranks=2, ranks_per_node=in_node, intra_bytes_per_s=rate)


def _pcie(accelerator: Accelerator) -> tuple[str, float]:
    generation = min(max(accelerator.pcie_generation or 4, 3), 6)
    lanes = accelerator.pcie_lanes or 16
    return f"pcie{generation}-x{lanes}", PCIE_LANE_BYTES_PER_S[generation] * lanes
