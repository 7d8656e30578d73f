"""How far measured collectives scatter around the prediction."""

import math
from typing import Final

from advisor.catalog.collectives import collective
from advisor.catalog.units import MIB
from advisor.simulator.collectives.topology import Topology
from advisor.simulator.quantity import Basis, Quantity
from advisor.simulator.terms import Case, value

_LARGE_BYTES: Final = 16 * MIB
_STANDARD_DEVIATIONS_OF_80_PERCENT: Final = 1.2816


def interval_factor(operation: str, num_bytes: float, topology: Topology) -> float:
    """Factor f such that 80 % of measurements lie in [t / f, t · f].

    Assumes: log-normal errors, one width per class of fabric and size; more where the fabric was not measured.
    Below 16 MiB the width holds what differs between ways to launch.
    Error: coverage in docs/collectives.md.
    Source: catalog/data/terms.csv: errors on published measurements, whole sources left out.
    """
    within = "pcie" if topology.intra_fabric.startswith("pcie") else "node"
    case = Case("network" if topology.num_nodes > 1 else within, operator=operation)
    sigma = value("fabric", "spread_large" if num_bytes >= _LARGE_BYTES else "spread_small", case)
    if is_transferred(topology):
        sigma += value("fabric", "spread_transferred", case)
    return math.exp(_STANDARD_DEVIATIONS_OF_80_PERCENT * sigma)


def is_transferred(topology: Topology) -> bool:
    """Whether the group's fabric borrows the fits of a relative.

    Source: catalog/data/efficiency/collectives.toml.
    """
    if topology.intra_fabric.startswith(("ici", "neuronlink")):
        return True
    return bool(collective(topology.fit_fabric, "all_reduce", "nccl").transferred_from)


def spread(middle: float, factor: float, basis: Basis) -> Quantity:
    """A value with the interval [value / factor, value · factor].

    Source: definition.
    """
    return Quantity(middle, middle / factor, middle * factor, basis)
