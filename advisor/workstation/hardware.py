"""Accelerators in one machine, and one way to run a model on them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from advisor.catalog import accelerators, parts
from advisor.catalog.engines import METAL_FRACTION
from advisor.catalog.schema import Accelerator, Calibration
from advisor.simulator.calibrated_device import calibrated_accelerator
from advisor.simulator.device import with_power_cap
from advisor.simulator.quantity import Quantity

POWER_POINTS: Final = (1.0, 0.8, 0.7, 0.6)
"""Power limits to consider, over rated power."""
NEAR: Final = 0.02
"""Difference below which two power limits count as one, over rated power."""


def power_points_of(accelerator: str, points: Sequence[float] = POWER_POINTS) -> tuple[float, ...]:
    """Return the power limits that a card's driver accepts, highest first: those below its floor are replaced by the
    floor.

    Source: power_floors of the catalog.
    """
    floor = parts.power_floors().get(accelerator)
    lowest = floor.fraction if floor is not None else 0.0
    found: list[float] = []
    for point in sorted((max(point, lowest) for point in points), reverse=True):
        if not found or found[-1] - point > NEAR:
            found.append(point)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class HardwareRun:
    """One way to run the model on the cards, and its speed."""

    engine: str
    split: str
    """Division of the model in words: one card, layers in turn, tensor parallel, or the number of layers on the CPU."""
    weight_dtype: str
    output_tokens_per_s: Quantity
    """Output rate of all streams together while they decode [tokens/s]."""
    ttft_s: float | None
    """Time to first token of one prompt on an idle machine [s]; None if the run does not serve."""
    weight_bytes_per_card: float
    kv_tokens: int
    """Capacity of the KV cache [tokens]."""
    tensor_parallel: int = 1
    """Number of cards among which every layer is divided."""
    host_fraction: float = 0.0
    """Fraction of a decode step in which the CPU reads layers, or experts of layers, from main memory."""
    prompt_s_per_token: float = 0.0
    """Time in which a prompt is computed, for each token of its output [s]; 0 if decoding alone counts."""
    unit: str = "tokens/s"
    """Unit of the output rate; images/s where the model makes images."""
    num_waiting: int = 0
    """Number of streams that wait because the cache does not hold all contexts at once."""

    @property
    def request_tokens_per_s(self) -> float:
        """Output rate over whole requests, whose prompts take their turn [tokens/s]: by it machines are compared."""
        return 1.0 / (1.0 / self.output_tokens_per_s.value + self.prompt_s_per_token)

    @property
    def on_cpu(self) -> bool:
        """Whether the CPU runs layers, or experts of layers."""
        return self.host_fraction > 0.0


@dataclass(frozen=True, slots=True)
class Hardware:
    """Equal accelerators in one machine, with their links and power limit."""

    accelerator: str
    """Id of the accelerator; empty if there is none, and the CPU runs everything."""
    num: int
    power_fraction: float = 1.0
    pcie_generation: int | None = None
    pcie_lanes: int | None = None
    memory_bytes: float | None = None
    """Memory per accelerator if it is not the record's (unified memory) [bytes]; None means the record's."""
    bridged: bool = False
    host_bytes_per_s: float = 0.0
    """Bandwidth of the main memory [bytes/s], if layers may run on the CPU; 0 if they may not."""
    host_capacity_bytes: float = math.inf
    """Size of the main memory [bytes]; infinite where another rule sees to it."""
    host_wait_s: float = 0.0
    """Time for which the threads of two CPUs wait for each other after each operation on them [s]; 0 of one CPU."""

    def record(self, calibration: Calibration | None = None) -> Accelerator:
        """Return the accelerator's record under these conditions, with measured figures if `calibration` has them."""
        found = calibrated_accelerator(accelerators.by_id(self.accelerator), calibration)
        changes: dict[str, object] = {}
        if self.pcie_generation is not None:
            changes["pcie_generation"] = min(
                self.pcie_generation, found.pcie_generation or self.pcie_generation
            )
        if self.pcie_lanes is not None:
            changes["pcie_lanes"] = min(self.pcie_lanes, found.pcie_lanes or self.pcie_lanes)
        if self.memory_bytes is not None:
            # Engines take off a Mac's memory what macOS keeps from the GPU, which is not in this figure.
            kept = METAL_FRACTION if found.architecture.startswith("apple") else 1.0
            changes["memory_bytes"] = self.memory_bytes / kept
        # A module on an adapter for a PCIe slot has none of the links that a carrier board has.
        bridge = found.scale_up is not None and (
            found.scale_up.is_bridge or found.form_factor.startswith("SXM")
        )
        if bridge and not self.bridged:
            changes["scale_up"] = None
        record = found.model_copy(update=changes)
        if self.power_fraction < 1.0 and record.tdp_w is not None:
            return with_power_cap(record, record.tdp_w * self.power_fraction)
        return record
