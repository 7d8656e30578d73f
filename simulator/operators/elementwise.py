"""Memory-bound operators: norms, activations, rotary embedding, residual sums, quantisation; a plain read."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.efficiencies import Fitted
from advisor.simulator.device import Device

FloatArray = NDArray[np.float64]

_SHARPNESS: Final = 4.0
"""Exponent that tells how suddenly a tensor that outgrows the L2 falls back to main memory (a cliff in
measurements)."""
_INPUT_BYTES: Final = 2.0


@dataclass(frozen=True, slots=True)
class ElementwiseEfficiency(Fitted):
    """Fitted parameters of one (architecture, format, engine)."""

    dtype: str
    launch_s: float
    """Launch time of one kernel inside a captured graph [s]; of quantisation: all its kernels."""
    memory_fraction: float
    """Fraction of the bandwidth, reached by tensors larger than the L2."""
    l2_bytes_per_cycle: float
    """L2 rate per SM, reached by tensors that stay in the L2 [bytes per cycle]."""
    l2_share: float
    """Fraction of the L2 that one operator's input and output can use."""


def elementwise_s(
    num_bytes: FloatArray | float, device: Device, efficiency: ElementwiseEfficiency
) -> FloatArray:
    """Time of one memory-bound kernel that reads and writes `num_bytes` in total [s].

    t = launch + bytes · (h / L2 rate + (1 - h) / (bandwidth · fraction)), h = 1 / (1 + (bytes / L2 share)^4)

    Assumes: the input was just written by the kernel before, so what fits in the L2 is still there.
    Error: `residual` of the catalog record, measured by evidence/fit/elementwise.py.
    Source: own model, fitted to quantisation kernels of ai-dynamo/aiconfigurator (Apache-2.0).
    """
    moved = np.atleast_1d(np.asarray(num_bytes, dtype=np.float64))
    memory_bytes_per_s = device.bandwidth_bytes_per_s * efficiency.memory_fraction
    l2_bytes_per_s = efficiency.l2_bytes_per_cycle * device.num_sms * device.clock_hz
    hit = 1.0 / (1.0 + (moved / (efficiency.l2_share * device.l2_bytes)) ** _SHARPNESS)
    slowest = np.maximum(l2_bytes_per_s, memory_bytes_per_s)
    return np.asarray(efficiency.launch_s + moved * (hit / slowest + (1.0 - hit) / memory_bytes_per_s))


def quantize_s(
    num_rows: FloatArray | float,
    num_columns: int,
    dtype: str,
    device: Device,
    efficiency: ElementwiseEfficiency,
) -> FloatArray:
    """Time of quantising activations from 16 bits to `dtype`, scales included [s].

    The formula is that of `elementwise_s` with rows · columns · (2 + bytes of the target) bytes.

    Assumes: the efficiency is the record of the target format, which counts every kernel that is started.
    Raises: KeyError: the format is not known.
    Source: as `elementwise_s`.
    """
    moved = np.asarray(num_rows, dtype=np.float64) * num_columns * (_INPUT_BYTES + bytes_per_element(dtype))
    return elementwise_s(moved, device, efficiency)


@dataclass(frozen=True, slots=True)
class MemoryReadEfficiency(Fitted):
    """Read rate that healthy boards of one architecture reach."""

    bandwidth_fraction: float
    """Fraction of the datasheet's bandwidth."""


def memory_read_s(num_bytes: float, device: Device, efficiency: MemoryReadEfficiency) -> float:
    """Time of one pass over `num_bytes` that only reads [s].

    t = bytes / (bandwidth · fraction)

    Assumes: far more bytes than the caches hold; the better of the usual kernels.
    Error: `residual` of the catalog record: a few percent between boards of one architecture.
    Source: published reads of device memory, catalog/data/efficiency/memory_read.
    """
    return num_bytes / (device.bandwidth_bytes_per_s * efficiency.bandwidth_fraction)
