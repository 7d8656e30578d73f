"""Reading an array far larger than any cache, and nothing else: what a probe of the memory measures."""

from dataclasses import dataclass

from advisor.catalog.schema.efficiency import EfficiencyRecord
from advisor.simulator.device import Device


@dataclass(frozen=True, slots=True)
class MemoryReadEfficiency:
    """What healthy boards of one architecture reach."""

    bandwidth_fraction: float
    """Of the datasheet's bandwidth."""

    @classmethod
    def from_record(cls, record: EfficiencyRecord) -> "MemoryReadEfficiency":
        """The parameters of a catalog record. Source: own definition."""
        return cls(record.parameters["bandwidth_fraction"])


def memory_read_s(num_bytes: float, device: Device, efficiency: MemoryReadEfficiency) -> float:
    """Time of one pass over `num_bytes` that only reads [s].

    t = bytes / (bandwidth · fraction)

    Assumes: far more bytes than the caches hold; the better of the usual kernels.
    Error: `residual` of the catalog record: a few percent between boards of one architecture.
    Source: published reads of device memory, catalog/data/efficiency/memory_read.
    """
    return num_bytes / (device.bandwidth_bytes_per_s * efficiency.bandwidth_fraction)
