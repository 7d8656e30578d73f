"""Training clusters: the machines of a run, and the collectives of groups of their ranks, for many plans at once."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.errors import InfeasibleError
from advisor.catalog.host_memory import usual_host_bytes
from advisor.catalog.schema import Accelerator
from advisor.catalog.units import BF16_BYTES
from advisor.simulator.collectives import (
    Topology,
    all_gather_s,
    all_reduce_s,
    all_to_all_s,
    broadcast_s,
    moe_combine_s,
    moe_dispatch_s,
    reduce_scatter_s,
    send_recv_s,
    topology_of,
)
from advisor.simulator.collectives.expert_parallel import GroupLimit, Mode
from advisor.simulator.collectives.topology import INFINIBAND_HOP_S
from advisor.simulator.graph.operator import Experts
from advisor.simulator.host_link import host_link_bytes_per_s
from advisor.simulator.training.plan import FloatArray, IntArray, distinct

Collective = Callable[[FloatArray, Topology], FloatArray]

_ANY_SIZE: Final = 1_000_000
_USUAL_LINK: Final = {"pcie_generation": 4, "pcie_lanes": 16}


@dataclass(frozen=True, slots=True)
class Link:
    """Link between equal accelerators and the unlike ones of the same job."""

    bytes_per_s: float
    """Rate between both parts, all accelerators together, one direction [bytes/s]."""
    num_ranks: int
    """Number of accelerators of the whole job."""
    part_ranks: int
    """Number of accelerators of this part."""


@dataclass(frozen=True, slots=True)
class NodeNetwork:
    """Stated network between nodes, as one accelerator sees it."""

    bytes_per_s: float
    """Rate per accelerator, one direction [bytes/s]."""
    latency_s: float = INFINIBAND_HOP_S
    """Time of one small-message step between nodes [s]."""
    reduces: bool = False
    """Whether its switches reduce (InfiniBand SHARP)."""
    is_ethernet: bool = False
    """Whether it is Ethernet of which nothing says whether it carries RDMA or sockets: priced as RDMA."""


@dataclass(frozen=True, slots=True)
class TrainingCluster:
    """Equal accelerators in equal nodes."""

    accelerator: Accelerator
    ranks_per_node: int = 0
    """Number of accelerators that share one scale-up domain (a node, or a rack with one fabric); 0 is the usual
    node."""
    network: NodeNetwork | None = None
    """Network between nodes; None takes the catalog's rate."""
    stated_host_bytes: float | None = None
    """Host memory for each accelerator [bytes]; None is what rented machines usually have."""
    host_operator_s: float | None = None
    """Host time of one plain PyTorch operator [s]; None is that of the hosts of published runs."""
    link: Link | None = None
    """Link to the other part of the job, which data-parallel groups cross; None without another part."""

    @property
    def host_bytes(self) -> float:
        """Host memory for each accelerator [bytes]."""
        return self.stated_host_bytes or usual_host_bytes(self.accelerator)

    @property
    def node_size(self) -> int:
        """Number of accelerators of a node as stated, or as it is sold."""
        return self.ranks_per_node or self.accelerator.node_size

    @property
    def domain(self) -> int:
        """Number of accelerators of one scale-up domain."""
        return self.ranks_per_node or topology_of(self.accelerator, _ANY_SIZE).ranks_per_node

    def group(self, num_ranks: int, stride: int = 1) -> Topology:
        """Return the topology of a group whose neighbouring ranks are `stride` accelerators apart.

        A domain holds domain / stride of them. All groups of a layout communicate at the same time, so each
        accelerator keeps its own share of the network.

        Assumes: ranks are numbered through a domain before the next begins, as launchers do.
        Raises: ValueError: fewer than one rank.
        """
        return self.group_in_nodes(num_ranks, self.domain // max(1, stride))

    def group_in_nodes(self, num_ranks: int, ranks_in_node: int) -> Topology:
        """Return the topology of a group of which each domain holds `ranks_in_node` ranks.

        Raises: ValueError: fewer than one rank.
        """
        in_node = max(1, min(num_ranks, ranks_in_node))
        found = topology_of(self.accelerator, num_ranks, ranks_per_node=in_node)
        if self.network is None or found.num_nodes == 1:
            return found
        return replace(
            found,
            inter_bytes_per_s=self.network.bytes_per_s,
            inter_latency_s=self.network.latency_s,
            network_reduction=self.network.reduces,
        )

    def group_across(self, num_ranks: int, ranks_in_node: int) -> Topology:
        """Return the topology of a group that crosses the link to the other part, if there is one.

        Assumes: all groups of its kind cross at the same time, each as one ring through both parts (NCCL), so that it
            has its share of the link.
        Raises: ValueError: fewer than one rank.
        """
        if self.link is None:
            return self.group_in_nodes(num_ranks, ranks_in_node)
        here = num_ranks * self.link.part_ranks // self.link.num_ranks
        found = self.group_in_nodes(num_ranks, min(ranks_in_node, max(1, here)))
        share = self.link.bytes_per_s * num_ranks / self.link.num_ranks / found.ranks_per_node
        return replace(found, inter_bytes_per_s=min(found.inter_bytes_per_s, share))


def on_bus(cluster: TrainingCluster, num_ranks: int) -> bool:
    """Whether `num_ranks` neighbours share PCIe alone. Source: own definition."""
    return cluster.group(num_ranks).intra_fabric.startswith("pcie")


def host_copy_bytes_per_s(accelerator: Accelerator) -> float:
    """Rate at which one accelerator exchanges data with host memory [bytes/s].

    Assumes: PCIe 4.0 with 16 lanes if the record does not say how it is attached.
    Source: `host_link_bytes_per_s`.
    """
    try:
        return host_link_bytes_per_s(accelerator)
    except InfeasibleError:
        return host_link_bytes_per_s(accelerator.model_copy(update=_USUAL_LINK))


class Groups:
    """Groups of one kind (tensor, data, expert parallel, ...), one per plan; `across` marks those that cross the link
    of a cluster in two parts."""

    def __init__(
        self,
        cluster: TrainingCluster,
        num_ranks: IntArray,
        stride: IntArray,
        across: NDArray[np.bool_] | None = None,
    ) -> None:
        in_node = np.clip(cluster.domain // np.maximum(stride, 1), 1, num_ranks)
        crosses = np.zeros_like(in_node) if across is None else across.astype(in_node.dtype)
        first, self._of = distinct((num_ranks, in_node, crosses))
        self._topologies = [
            (cluster.group_across if crossing else cluster.group_in_nodes)(ranks, in_one)
            for ranks, in_one, crossing in zip(
                *(c[first].tolist() for c in (num_ranks, in_node, crosses)), strict=True
            )
        ]
        self.num_ranks = num_ranks
        fabrics = [topology.intra_fabric for topology in self._topologies]
        nodes = [topology.num_nodes for topology in self._topologies]
        self._on_bus = np.array([fabric.startswith("pcie") for fabric in fabrics])
        self._inside = np.array([number == 1 for number in nodes])

    @property
    def shares_memory(self) -> NDArray[np.bool_]:
        """Whether ranks write into each other's memory while they multiply: one domain with a fabric of its own."""
        return np.asarray((self._inside & ~self._on_bus)[self._of])

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Whether all traffic stays on the fabric inside a domain, or shares the host's bus with it."""
        return np.asarray((self._inside | self._on_bus)[self._of])

    def all_reduce_s(self, num_bytes: FloatArray) -> FloatArray:
        """Time of an all-reduce of num_bytes over each plan's group [s]. Source: simulator.collectives."""
        return self._run(lambda sizes, group: all_reduce_s(sizes, group, algorithm="nccl"), num_bytes)

    def all_gather_s(self, num_bytes: FloatArray) -> FloatArray:
        """Time of an all-gather of num_bytes in total [s]. Source: simulator.collectives."""
        return self._run(all_gather_s, num_bytes)

    def broadcasts_s(self, num_bytes: FloatArray) -> FloatArray:
        """Time of one broadcast after another from each rank, of num_bytes in total [s]. Source:
        simulator.collectives."""

        def one_by_one(sizes: FloatArray, group: Topology) -> FloatArray:
            return group.num_ranks * broadcast_s(sizes / group.num_ranks, group)

        return self._run(one_by_one, num_bytes)

    def reduce_scatter_s(self, num_bytes: FloatArray) -> FloatArray:
        """Time of a reduce-scatter of num_bytes, a share to each rank [s]. Source: simulator.collectives."""
        return self._run(reduce_scatter_s, num_bytes)

    def all_to_all_s(self, num_bytes: FloatArray) -> FloatArray:
        """Time of an all-to-all of num_bytes of each rank [s]. Source: simulator.collectives."""
        return self._run(all_to_all_s, num_bytes)

    def send_recv_s(self, num_bytes: FloatArray) -> FloatArray:
        """Time to send one rank's buffer to its neighbour [s]. Source: simulator.collectives."""
        return self._run(send_recv_s, num_bytes)

    def expert_exchange_s(
        self,
        tokens: FloatArray,
        experts: Experts,
        *,
        mode: Mode = "normal",
        neighbours: bool = False,
    ) -> FloatArray:
        """Time to send tokens of each rank to their experts and back [s], one copy per rank that holds a chosen expert.

        Source: simulator.collectives.expert_parallel, bf16 both ways.
        """

        def both_ways(sizes: FloatArray, group: Topology) -> FloatArray:
            ways = [
                exchange_s(
                    sizes,
                    experts.hidden_size,
                    experts.per_token,
                    group,
                    bytes_per_element=BF16_BYTES,
                    num_experts=experts.num_experts,
                    mode=mode,
                    neighbours=neighbours,
                    groups=GroupLimit(experts.num_groups, experts.groups_per_token),
                )
                for exchange_s in (moe_dispatch_s, moe_combine_s)
            ]
            return ways[0] + ways[1]

        return self._run(both_ways, tokens)

    def _run(self, collective: Collective, sizes: FloatArray) -> FloatArray:
        seconds = np.zeros(np.broadcast_shapes(sizes.shape, self._of.shape))
        for index, topology in enumerate(self._topologies):
            if topology.num_ranks > 1:
                plans = np.flatnonzero(self._of == index)
                seconds[..., plans] = collective(np.take(sizes, plans, axis=-1), topology)
        return seconds
