"""Collectives on a torus of chip-to-chip links (TPU ICI): rings on every axis at once, no switch."""

import math

import numpy as np

from advisor.catalog.collectives import collective
from advisor.simulator.collectives.alpha_beta import FloatArray
from advisor.simulator.collectives.topology import Topology

_DIMENSIONS = {"ici-v4": 3, "ici-v5p": 3, "ici-tpu7x": 3}
_DEFAULT_DIMENSIONS = 2


def is_torus(fabric: str) -> bool:
    """Whether the fabric joins neighbours only."""
    return fabric.startswith(("ici", "neuronlink"))


def torus_ring_s(sizes: FloatArray, topology: Topology, passes: int) -> FloatArray:
    """Time of an all-gather or reduce-scatter (one pass) or an all-reduce (two) on a torus [s].

    base + passes · (hops · step + size · (n − 1) / n / rate): the buffer is split over the axes, each with a
    ring in both directions; hops is half the side of the torus per axis.

    Assumes: a cubic (or square) slice with wrap-around links; rate counts all links of a chip, one direction.
    Source: Austin et al. 2025, How to Scale Your Model, "Sharded Matrices" (1 µs per hop, bidirectional
    rings).
    """
    parameters = _parameters(topology)
    n = topology.num_ranks
    dimensions = _dimensions(topology)
    side = n ** (1.0 / dimensions)
    hops = dimensions * max(math.ceil(side / 2.0), 1)
    wire_s = (n - 1) / n / (topology.intra_bytes_per_s * parameters["efficiency"])
    start_s = parameters["base_s"] + passes * hops * parameters["step_s"]
    return np.asarray(start_s + passes * sizes * wire_s, dtype=np.float64)


def torus_all_to_all_s(sizes: FloatArray, topology: Topology) -> FloatArray:
    """Time of an all-to-all on a torus [s]: each byte travels a quarter of the side along every axis.

    base + hops · step + size · (n − 1) / n · max(1, side / 4) / rate

    Assumes: as torus_ring_s; dimension-ordered routing keeps all links busy.
    Source: Austin et al. 2025, How to Scale Your Model (an all-to-all on a ring costs a quarter of an
    all-gather
        of the same array, which is n times the per-rank buffer).
    """
    parameters = _parameters(topology)
    n = topology.num_ranks
    dimensions = _dimensions(topology)
    side = n ** (1.0 / dimensions)
    hops = dimensions * max(math.ceil(side / 2.0), 1)
    travel = max(dimensions * side / 4.0, 1.0)
    wire_s = (n - 1) / n * travel / (topology.intra_bytes_per_s * parameters["efficiency"])
    start_s = parameters["base_s"] + hops * parameters["step_s"]
    return np.asarray(start_s + sizes * wire_s, dtype=np.float64)


def _dimensions(topology: Topology) -> int:
    full = _DIMENSIONS.get(topology.intra_fabric, _DEFAULT_DIMENSIONS)
    return min(full, max(1, int(math.log2(topology.num_ranks))))


def _parameters(topology: Topology) -> dict[str, float]:
    return collective(topology.intra_fabric, "all_reduce", "torus").record.parameters
