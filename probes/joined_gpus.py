"""GPUs of several reports of one machine, joined field by field, and what the reports contradict."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from advisor.probes.record import Gpu

_WORST: Final = (
    "memory_used_bytes",
    "ecc_uncorrected",
    "ecc_uncorrected_lifetime",
    "rows_remap_pending",
    "rows_remap_failed",
    "num_retired_pages",
    "num_pcie_replays",
    "utilization_fraction",
    "num_other_processes",
    "temperature_c",
    "pcie_width",
)
"""Fields that differ between moments, of which the highest counts: faults stay, and the link is the best seen."""
_SETTINGS: Final[Mapping[str, str]] = {
    "pci_device_id": "PCI device",
    "memory_bytes": "memory",
    "power_limit_w": "power limit",
    "power_default_w": "default power limit",
    "power_max_w": "highest power limit",
    "ecc_enabled": "ECC mode",
    "mig_enabled": "MIG mode",
    "virtualization": "virtualisation",
    "pcie_max_generation": "highest PCIe generation",
    "pcie_max_width": "PCIe lanes",
    "num_nvlinks": "number of NVLinks",
}
"""Fields that no moment changes, so that two values are of two machines, of two settings or of an edit."""
_SAME: Final = 0.01
"""Relative difference of two figures that rounding explains: tables print whole watts."""


def join_gpus(reports: Sequence[Gpu]) -> tuple[Gpu, tuple[str, ...]]:
    """Return one GPU of several reports about it, and the settings that they contradict.

    The first report that states a field counts, but for what changes between moments, of which the highest does.
    """
    joined = reports[0]
    others: dict[str, None] = {}
    for report in reports[1:]:
        changes: dict[str, Any] = {}
        for field in Gpu.model_fields:
            before = getattr(joined, field)
            value = getattr(report, field)
            if field == "index" or value in (None, "", ()):
                continue
            if before in (None, "", ()):
                changes[field] = value
            elif field == "throttle_reasons":
                changes[field] = tuple(sorted({*before, *value}))
            elif field in _WORST:
                changes[field] = max(before, value)
            elif field in _SETTINGS and not _is_same(before, value):
                others[_SETTINGS[field]] = None
        joined = joined.model_copy(update=changes)
    return joined, tuple(others)


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= _SAME * max(one, other)
    return bool(one == other)
