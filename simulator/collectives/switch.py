"""All-reduce by the scale-up switch (NVLink SHARP): the fabric adds, ranks send their buffer once."""

import math

import numpy as np

from advisor.catalog.collectives import collective
from advisor.simulator.collectives.alpha_beta import FloatArray
from advisor.simulator.collectives.hierarchical import (
    NODE_RANKS,
    network_parameters,
    node_bytes_per_s,
    protocol_hops,
    tree_egress,
)
from advisor.simulator.collectives.topology import Topology


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
