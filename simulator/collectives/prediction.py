"""Predictions of single collectives: time with its interval, the fastest algorithm, and the sizes at which it
changes."""

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, get_args

import numpy as np

from advisor.catalog.collectives import collective
from advisor.catalog.files import DATA_DIR, read_toml
from advisor.catalog.schema import Residual
from advisor.catalog.units import GIB, KIB, MIB
from advisor.simulator.collectives.alpha_beta import FloatArray
from advisor.simulator.collectives.operations import (
    Algorithm,
    all_gather_s,
    all_reduce_candidates,
    all_reduce_s,
    all_to_all_s,
    broadcast_s,
    bus_factor,
    custom_all_reduce_s,
    is_torus,
    reduce_scatter_s,
    send_recv_s,
)
from advisor.simulator.collectives.topology import Topology
from advisor.simulator.quantity import Z80, Basis, Quantity

LARGE_BYTES: Final = 16 * MIB
"""Least size of a message whose time is that of its bytes [bytes]; the two kinds have intervals of their own."""
Operation = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv"]
OPERATIONS: Final[tuple[Operation, ...]] = get_args(Operation)
SWEEP_BYTES: Final = tuple((KIB * 4.0 ** np.arange(12)).tolist())
"""Message sizes of a sweep, from 1 KiB to 4 GiB."""
Z80_FROM_MEDIAN: Final = 0.626
"""Position of the 80th percentile of a half-normal error between its median and its 90th percentile: (1.282 - 0.674) /
(1.645 - 0.674)."""


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
    sigma = float(own["large" if num_bytes >= LARGE_BYTES else "small"])
    if is_transferred(topology):
        sigma += float(_deviations()["transferred"]["added"])
    return math.exp(Z80 * sigma)


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
    """Return a value with the interval [value / factor, value · factor].

    Source: definition.
    """
    return Quantity(middle, middle / factor, middle * factor, basis)


_SINGLE: Final[dict[str, Callable[[FloatArray, Topology], FloatArray]]] = {
    "all_gather": all_gather_s,
    "reduce_scatter": reduce_scatter_s,
    "all_to_all": all_to_all_s,
    "broadcast": broadcast_s,
    "send_recv": send_recv_s,
}


@dataclass(frozen=True, slots=True)
class Crossover:
    """Message size from which another algorithm is faster."""

    num_bytes: float
    slower: str
    faster: str


@dataclass(frozen=True, slots=True)
class CollectivePrediction:
    """Prediction for one collective of one message size."""

    num_bytes: float
    algorithm: str
    time_s: Quantity
    bus_bytes_per_s: Quantity


def predict(
    operation: Operation, num_bytes: float, topology: Topology, *, algorithm: Algorithm = "engine"
) -> CollectivePrediction:
    """Return time [s], fastest algorithm and nccl-tests bus bandwidth [bytes/s] of one collective, with 80 % intervals.

    The range is that of published measurements of the fabric and size; engines' own kernels, of which none are
    published, take the residual of their fit.

    Assumes: a residual is half-normal between its median and its 90th percentile; a fabric that was not measured
    takes the 90th percentile of its nearest relative.
    Raises: ValueError: num_bytes is not positive and finite.
    Source: advisor.simulator.collectives.operations; residuals of catalog/data/efficiency/collectives.toml.
    """
    if not num_bytes > 0:
        raise ValueError(f"num_bytes must be positive, not {num_bytes}")
    times = candidates_s(operation, np.asarray([num_bytes]), topology, algorithm)
    winner = min(times, key=lambda name: float(times[name][0]))
    seconds = float(times[winner][0])
    factor, basis = _range_of(operation, winner, num_bytes, topology)
    time = Quantity(seconds, seconds / factor, seconds * factor, basis)
    wire = num_bytes * bus_factor(operation, topology.num_ranks)
    rate, slowest, fastest = (wire / t if t else 0.0 for t in (time.value, time.high, time.low))
    bus = Quantity(rate, slowest, fastest, basis)
    return CollectivePrediction(num_bytes, winner, time, bus)


def candidates_s(
    operation: Operation, sizes: FloatArray, topology: Topology, algorithm: Algorithm = "engine"
) -> dict[str, FloatArray]:
    """Times of the algorithms that could run, by name [s].

    Raises: ValueError: a size is negative or not finite.
    Source: as all_reduce_s.
    """
    if operation != "all_reduce":
        return {_only_name(operation, topology): _SINGLE[operation](sizes, topology)}
    if topology.num_ranks == 1 or is_torus(topology.intra_fabric):
        return {_only_name(operation, topology): all_reduce_s(sizes, topology)}
    times = dict(all_reduce_candidates(sizes, topology))
    if algorithm != "nccl" and topology.num_nodes == 1:
        engine = "any" if algorithm == "engine" else algorithm
        custom = custom_all_reduce_s(sizes, topology, engine)
        if custom:
            times[f"custom-{engine}"] = np.minimum.reduce(custom)
    return times


def crossovers(
    operation: Operation, topology: Topology, *, algorithm: Algorithm = "engine"
) -> tuple[Crossover, ...]:
    """Message sizes at which the fastest algorithm changes, between 1 KiB and 4 GiB [bytes].

    Source: own definition: a grid of 4096 sizes on a logarithmic scale, 0.4 % apart.
    """
    sizes = np.geomspace(KIB, 4.0 * GIB, 4096)
    times = candidates_s(operation, sizes, topology, algorithm)
    names = list(times)
    winners = np.argmin(np.stack([times[name] for name in names]), axis=0)
    changes = [(i, names[a], names[b]) for i, (a, b) in enumerate(itertools.pairwise(winners), 1) if a != b]
    return tuple(Crossover(float(sizes[i]), slower, faster) for i, slower, faster in changes)


def _only_name(operation: str, topology: Topology) -> str:
    if topology.num_ranks == 1:
        return "none"
    if is_torus(topology.intra_fabric):
        return "torus"
    return "pairwise" if operation in ("all_to_all", "send_recv") else "ring"


def _range_of(operation: Operation, winner: str, num_bytes: float, topology: Topology) -> tuple[float, Basis]:
    """Factor of the 80 % interval, and basis, of the fit that an algorithm depends on."""
    if winner == "none":
        return 1.0, "modelled"
    found = collective(*_record_key(operation, winner, topology))
    residual = found.record.residual
    transferred = bool(found.transferred_from)
    basis: Basis = "calibrated" if residual.num_points and not transferred else "modelled"
    if winner.startswith("custom"):
        return 1.0 + (residual.p90_abs_error if transferred else _p80(residual)), basis
    return interval_factor(operation, num_bytes, topology), basis


def _p80(residual: Residual) -> float:
    return residual.median_abs_error + Z80_FROM_MEDIAN * (residual.p90_abs_error - residual.median_abs_error)


def _record_key(operation: Operation, winner: str, topology: Topology) -> tuple[str, str, str]:
    if winner.startswith("custom"):
        return topology.fit_fabric, "all_reduce", winner
    if winner == "nvls":
        return topology.intra_fabric, "all_reduce", "nvls"
    if winner == "torus":
        return topology.intra_fabric, "all_reduce", "torus"
    if topology.num_nodes > 1:
        return "network", {"pairwise": "all_to_all", "ring": "ring"}.get(winner, "tree"), "nccl"
    measured = {"broadcast": "all_gather", "send_recv": "all_to_all"}.get(operation, operation)
    return topology.fit_fabric, measured, "nccl"
