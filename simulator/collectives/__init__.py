"""Collective communication: cost of each operation on a group of ranks, in one node and over many."""

from advisor.simulator.collectives.expert_parallel import moe_combine_s, moe_dispatch_s
from advisor.simulator.collectives.operations import (
    all_gather_s,
    all_reduce_s,
    all_to_all_s,
    broadcast_s,
    bus_bytes_per_s,
    bus_factor,
    reduce_scatter_s,
    send_recv_s,
)
from advisor.simulator.collectives.topology import Topology, topology_of

__all__ = [
    "Topology",
    "all_gather_s",
    "all_reduce_s",
    "all_to_all_s",
    "broadcast_s",
    "bus_bytes_per_s",
    "bus_factor",
    "moe_combine_s",
    "moe_dispatch_s",
    "reduce_scatter_s",
    "send_recv_s",
    "topology_of",
]
