"""How far measured collectives scatter around the prediction."""

import math
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from advisor.catalog.collectives import collective
from advisor.catalog.files import DATA_DIR, read_toml
from advisor.catalog.units import MIB
from advisor.simulator.collectives.topology import Topology
from advisor.simulator.quantity import Basis, Quantity

_LARGE_BYTES: Final = 16 * MIB
_STANDARD_DEVIATIONS_OF_80_PERCENT: Final = 1.2816


def interval_factor(operation: str, num_bytes: float, topology: Topology) -> float:
    """Factor f such that 80 % of measurements lie in [t / f, t · f].

    Assumes: log-normal errors, one width per class of fabric and size; more where the fabric was not measured.
    Below 16 MiB the width holds what differs between ways to launch.
    Error: coverage in docs/collectives.md.
    Source: catalog/data/collective_intervals.toml: errors on published measurements, whole sources left out.
    """
    within = "pcie" if topology.intra_fabric.startswith("pcie") else "node"
    known = _deviations()["network" if topology.num_nodes > 1 else within]
    own = known.get(operation, known)
    sigma = float(own["large" if num_bytes >= _LARGE_BYTES else "small"])
    if is_transferred(topology):
        sigma += float(_deviations()["transferred"]["added"])
    return math.exp(_STANDARD_DEVIATIONS_OF_80_PERCENT * sigma)


@cache
def _deviations() -> Mapping[str, Mapping[str, Any]]:
    return dict(read_toml(DATA_DIR / "collective_intervals.toml"))


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
