"""A binary tree over the ranks of one node: slower than a ring for large messages, quicker to start."""

import math

from advisor.catalog.collectives import collective
from advisor.simulator.collectives.alpha_beta import FloatArray, branches_s, checked_bytes, curve_of
from advisor.simulator.collectives.topology import Topology


def single_node_tree_s(num_bytes: FloatArray | float, topology: Topology) -> FloatArray:
    """Time of an all-reduce up and down a binary tree over the ranks of one node [s].

    base + 2 · ceil(log2 n) · step + 2 · size / rate: fewer steps than the 2(n − 1) of a ring, more bytes over the
    busiest link.

    Assumes: the ring's cost of a step; two complementary trees, so no link carries more than twice the buffer.
    NCCL itself runs a chain inside a node, so this is a comparison, not one of its choices.
    Raises: ValueError: num_bytes is negative or not finite.
    Source: Sanders, Speck, Träff 2009 (two-tree).
    """
    sizes = checked_bytes(num_bytes)
    curve = curve_of(topology.fit_fabric, "all_reduce", "nccl")
    levels = math.ceil(math.log2(topology.num_ranks))
    fraction = collective(topology.intra_fabric, "all_reduce", "tree").record.parameters["scale_up_fraction"]
    scale = topology.intra_bytes_per_s * (1.0 - curve.small_group_loss / topology.num_ranks) * fraction
    return branches_s(
        2.0 * sizes,
        tuple(base + 2 * levels * step for base, step in zip(curve.base_s, curve.step_s, strict=True)),
        tuple(scale * e for e in curve.efficiency),
    )
