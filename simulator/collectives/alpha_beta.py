"""The one formula behind every collective: a start, steps of fixed latency, and bytes over a link."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.collectives import collective

FloatArray = NDArray[np.float64]

PROTOCOLS = ("ll", "ll128", "simple", "bulk")
"""How NCCL hands data over: flags in every word, in every line, or behind a fence, the last also in its largest
chunks. Each needs more time to start than the one before and moves more payload per byte on the wire."""


_FULL_GROUP = 8
_DIRECT_LINKS = ("bridge", "nvlink1", "nvlink2", "xgmi", "gaudi")


@dataclass(frozen=True, slots=True)
class AlphaBeta:
    """Fitted branches of one algorithm on one fabric; branch i takes base + steps · step + bytes / (rate ·
    e)."""

    base_s: tuple[float, ...]
    step_s: tuple[float, ...]
    efficiency: tuple[float, ...]
    small_group_loss: float = 0.0
    """Small groups keep fewer links busy: the rate is multiplied by 1 − loss / group."""

    def fitting(self, by_protocol: tuple[float, ...]) -> tuple[float, ...]:
        """The last values of a tuple over all protocols: a curve with fewer branches lacks the first ones."""
        return by_protocol[len(by_protocol) - len(self.base_s) :]

    def rate_fraction(self, group: int) -> float:
        """Share of the link rate that the best branch reaches in a group of this size."""
        return self.efficiency[-1] * (1.0 - self.small_group_loss / group)


def branches_s(
    wire_bytes: FloatArray,
    latencies_s: tuple[float, ...],
    rates_bytes_per_s: tuple[float, ...],
) -> FloatArray:
    """Time of the fastest branch [s]: min over i of latency_i + wire_bytes / rate_i.

    Assumes: the library picks the best branch for the size, as its tuner means to.
    Source: Hockney's α–β model; NCCL src/graph/tuning.cc has this form per algorithm and protocol.
    """
    times = [
        latency + wire_bytes / rate for latency, rate in zip(latencies_s, rates_bytes_per_s, strict=True)
    ]
    return np.asarray(np.minimum.reduce(times), dtype=np.float64)


def group_s(
    wire_bytes: FloatArray, num_steps: int, bytes_per_s: float, curve: AlphaBeta, group: int
) -> FloatArray:
    """Time of a collective whose ranks all share one fabric [s].

    min over i of base_i + num_steps · step_i + wire_bytes / (bytes_per_s · efficiency_i · (1 − loss / group))

    Assumes: every rank sends wire_bytes over its own link.
    Source: Hockney's α–β model per protocol; parameters from catalog/data/efficiency/collectives.toml.
    """
    scale = bytes_per_s * (1.0 - curve.small_group_loss / group)
    return branches_s(
        wire_bytes,
        tuple(b + num_steps * s for b, s in zip(curve.base_s, curve.step_s, strict=True)),
        tuple(scale * e for e in curve.efficiency),
    )


@functools.cache
def curve_of(fabric: str, operation: str, algorithm: str) -> AlphaBeta:
    """Fitted branches of an algorithm on a fabric, or on its nearest measured relative.

    Assumes: where links join chips directly, a small group has fewer of them but uses each fully, so the loss
    that a switched relative shows in small groups does not carry over.
    Raises: UnknownNameError: no relative was measured either.
    Source: catalog/data/efficiency/collectives.toml.
    """
    found = collective(fabric, operation, algorithm)
    curve = alpha_beta(found.record.parameters)
    if found.transferred_from not in ("", fabric) and any(word in fabric for word in _DIRECT_LINKS):
        return replace(curve, small_group_loss=0.0)
    return curve


@functools.cache
def streaming_curve(fabric: str) -> AlphaBeta:
    """Fitted branches of a stream in one direction (broadcast, send): the fabric's own, or from its all-gather.

    Assumes: a stream keeps its links as busy as an all-gather of eight does, in groups of any size.
    Raises: UnknownNameError: no relative was measured either.
    Source: catalog/data/efficiency/collectives.toml.
    """
    found = collective(fabric, "broadcast", "nccl")
    if not found.transferred_from:
        return alpha_beta(found.record.parameters)
    curve = curve_of(fabric, "all_gather", "nccl")
    full = 1.0 - max(curve.small_group_loss, 0.0) / _FULL_GROUP
    loss = min(curve.small_group_loss, 0.0)
    return replace(curve, efficiency=tuple(full * e for e in curve.efficiency), small_group_loss=loss)


def alpha_beta(parameters: Mapping[str, float], names: tuple[str, ...] = PROTOCOLS) -> AlphaBeta:
    """Branches from the parameters of a record; a branch that was not fitted is left out.

    Source: own definition of the records' parameters.
    """
    kept = [name for name in names if f"efficiency_{name}" in parameters]
    return AlphaBeta(
        tuple(parameters[f"base_{name}_s"] for name in kept),
        tuple(parameters[f"step_{name}_s"] for name in kept),
        tuple(parameters[f"efficiency_{name}"] for name in kept),
        parameters.get("small_group_loss", 0.0),
    )


def checked_bytes(num_bytes: Any) -> FloatArray:
    """Message sizes as a float array [bytes].

    Raises: ValueError: a size is negative or not finite.
    Source: own definition.
    """
    sizes = np.asarray(num_bytes, dtype=np.float64)
    if not np.all(np.isfinite(sizes)) or np.any(sizes < 0):
        raise ValueError("num_bytes must be finite and not negative")
    return sizes
