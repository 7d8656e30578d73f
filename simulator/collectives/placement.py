"""Accelerators spread over nodes as a person orders them."""

from typing import Final

from advisor.catalog.errors import AdvisorError
from advisor.catalog.schema import Accelerator
from advisor.simulator.collectives.hierarchical import NODE_RANKS
from advisor.simulator.collectives.topology import Topology, topology_of

MAX_RANKS: Final = 1_000_000


def placed(accelerator: Accelerator, num_gpus: int, num_nodes: int | None = None) -> Topology:
    """Topology of num_gpus accelerators over num_nodes nodes.

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
    widest = topology_of(accelerator, MAX_RANKS).ranks_per_node
    if in_node > widest:
        raise AdvisorError(
            f"{in_node} accelerators of kind {accelerator.id} in one node",
            why=f"its fabric joins at most {widest}",
            fix=f"use at least {-(-num_gpus // widest)} nodes",
        )
    if widest > NODE_RANKS:
        return topology_of(accelerator, num_gpus)
    return topology_of(accelerator, num_gpus, ranks_per_node=in_node)
