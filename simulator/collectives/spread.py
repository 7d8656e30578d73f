"""How far measured collectives scatter around the prediction."""

import math
from typing import Final

from advisor.catalog.collectives import collective
from advisor.catalog.units import MIB
from advisor.simulator.collectives.topology import Topology
from advisor.simulator.quantity import Basis, Quantity

_LARGE_BYTES: Final = 16 * MIB
_STANDARD_DEVIATIONS_OF_80_PERCENT: Final = 1.2816
_TRANSFERRED: Final = 0.1


def interval_factor(operation: str, num_bytes: float, topology: Topology) -> float:
    """Factor f such that 80 % of measurements lie in [t / f, t · f].

    Assumes: log-normal errors, one width per class of fabric and size; more where the fabric was not measured.
    Below 16 MiB the width holds what differs between ways to launch.
    Error: coverage in docs/collectives.md.
    Source: errors on published measurements, whole sources left out, evidence/fit/judge_collectives.py.
    """
    large = num_bytes >= _LARGE_BYTES
    if topology.num_nodes > 1:
        sigma = 0.14 if large else 0.25
        sigma += 0.1 if operation == "all_to_all" else 0.0
    elif topology.intra_fabric.startswith("pcie"):
        sigma = 0.25
    else:
        sigma = 0.07 if large else 0.4
    if is_transferred(topology):
        sigma += _TRANSFERRED
    return math.exp(_STANDARD_DEVIATIONS_OF_80_PERCENT * sigma)


def is_transferred(topology: Topology) -> bool:
    """Whether the group's fabric borrows the fits of a relative.

    Source: catalog/data/efficiency/collectives.toml.
    """
    if topology.intra_fabric.startswith(("ici", "neuronlink")):
        return True
    return bool(collective(topology.fit_fabric, "all_reduce", "nccl").transferred_from)


def spread(value: float, factor: float, basis: Basis) -> Quantity:
    """A value with the interval [value / factor, value · factor].

    Source: definition.
    """
    return Quantity(value, value / factor, value * factor, basis)
