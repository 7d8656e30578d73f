"""Stated conditions of machines: the accelerator, network and host memory that plans are priced with."""

import math
from typing import Final

from advisor.catalog.errors import AdvisorError
from advisor.catalog.parts import power_floors
from advisor.catalog.schema import Accelerator
from advisor.catalog.units import BITS_PER_BYTE, GB, GIGA
from advisor.decide.training.scenario import MachineConditions
from advisor.simulator.collectives.fabric_text import describe, leaves_transport_open
from advisor.simulator.collectives.topology import usual_network
from advisor.simulator.training.cluster import NodeNetwork, TrainingCluster

LOWEST_POWER_FRACTION: Final = 0.2
"""Lowest power limit of a board whose driver's limit is not in the catalog, as a fraction of its rated power. Own
assumption: the known limits are a quarter and more; half of it would let typing mistakes through."""
MOST_HOST_BYTES: Final = 1024.0 * GB
"""Host memory of an accelerator that servers are sold with [bytes]: 8 TB for eight, in 32 modules of 256 GB."""


def network_of(accelerator: Accelerator, text: str, ranks_per_node: int = 0) -> NodeNetwork:
    """Return the network between nodes of an accelerator that a line of text states; its ports are those of a node of
    `ranks_per_node`, or of the accelerator's own.

    Source: advisor.simulator.collectives.fabric_text; two of the nodes.
    """
    node = ranks_per_node or accelerator.node_size
    topology, _ = describe(accelerator, text, 2 * node, 2)
    return NodeNetwork(
        topology.inter_bytes_per_s,
        topology.inter_latency_s,
        topology.network_reduction,
        leaves_transport_open(text),
    )


def lowest_power_w(accelerator: Accelerator) -> float:
    """Return the lowest power limit that an accelerator takes [W]; 0 if its rated power has no source.

    Source: power_floors of the catalog; of other boards see LOWEST_POWER_FRACTION.
    """
    floor = power_floors().get(accelerator.id)
    return (accelerator.tdp_w or 0.0) * (floor.fraction if floor else LOWEST_POWER_FRACTION)


def check_power_cap(accelerator: Accelerator, power_cap_w: float | None) -> None:
    """Refuse a power limit above an accelerator's rated power, or below the lowest that its driver accepts.

    Raises: AdvisorError: it is outside; with the nearest limit inside.
    """
    rated_w = accelerator.tdp_w
    lowest_w = lowest_power_w(accelerator)
    # Users round what the driver says to whole watts.
    if power_cap_w is None or not rated_w or lowest_w - 1.0 <= power_cap_w <= rated_w:
        return
    raise AdvisorError(
        f"--power-cap-w {power_cap_w:g} is no power limit for {accelerator.id}",
        why=f"it is rated for {rated_w:g} W and is limited to {lowest_w:.0f} W or more",
        fix=f"--power-cap-w {rated_w if power_cap_w > rated_w else math.ceil(lowest_w):g}",
    )


def cluster_of(
    accelerator: Accelerator, conditions: MachineConditions, ranks_per_node: int = 0
) -> TrainingCluster:
    """Return the cluster of an accelerator under stated conditions, with nodes of `ranks_per_node` or as it has them;
    its power limit is the accelerator's own.

    Source: own composition.
    """
    network = network_of(accelerator, conditions.network, ranks_per_node) if conditions.network else None
    return TrainingCluster(
        accelerator,
        network=network,
        ranks_per_node=ranks_per_node,
        stated_host_bytes=conditions.host_bytes,
    )


def checked_host_bytes(host_bytes: float, typed: str) -> float:
    """Return host memory for each accelerator [bytes], if a node is sold with as much.

    Raises: AdvisorError: no node is.
    """
    if host_bytes > MOST_HOST_BYTES:
        raise AdvisorError(
            f"--host-memory {typed} is more than nodes are sold with",
            why=f"servers hold at most {MOST_HOST_BYTES / GB:g} GB for each of eight accelerators",
            fix=f"--host-memory {MOST_HOST_BYTES / GB:g}GB",
        )
    return host_bytes


def network_words(cluster: TrainingCluster, num_accelerators: int) -> str:
    """Return the network between nodes that a job is priced with, with its source; empty inside one node."""
    if num_accelerators <= cluster.domain:
        return ""
    if cluster.network is None:
        usual = usual_network(cluster.accelerator, cluster.group(num_accelerators))
        return usual.words if usual is not None else ""
    rate = cluster.group(num_accelerators).inter_bytes_per_s * BITS_PER_BYTE / GIGA
    words = f"network between nodes: {rate:g} Gb/s for each accelerator"
    if cluster.network.is_ethernet:
        words += ", priced as RDMA (RoCE); over TCP sockets NCCL reaches less of it: state the rate that you measure"
    return words
