"""Columns of nvidia-smi's CSV (`--query-gpu` and alike), and the fields of a GPU's record that they fill."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from advisor.catalog.units import MIB
from advisor.probes.nvml import IDLE, MEGAHERTZ, THROTTLE_BITS
from advisor.probes.pci_ids import accelerator_of, pci_pair
from advisor.probes.record import Gpu

_NOT_STATED: Final = ("", "n/a", "unknown error", "not supported", "insufficient permissions", "not found")
_PERCENT: Final = 0.01
_HEX: Final = 16


def _number(unit: float = 1.0) -> Callable[[str], float | None]:
    def read(cell: str) -> float | None:
        found = re.match(r"-?\d+(?:\.\d+)?", cell)
        return float(found[0]) * unit if found else None

    return read


def _whole(cell: str) -> int | None:
    found = _number()(cell)
    return None if found is None else int(found)


def _switch(cell: str) -> bool | None:
    return {"enabled": True, "disabled": False, "yes": True, "no": False, "1": True, "0": False}.get(
        cell.lower()
    )


def _pci(cell: str) -> str | None:
    return pci_pair(int(cell, _HEX)) if re.fullmatch(r"0x[0-9a-fA-F]{8}", cell) else None


def _text(cell: str) -> str:
    return cell


COLUMNS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "index": ("index", _whole),
    "name": ("name", _text),
    "gpu_name": ("name", _text),
    "uuid": ("uuid", _text),
    "gpu_uuid": ("uuid", _text),
    "serial": ("serial", _text),
    "gpu_serial": ("serial", _text),
    "pci.device_id": ("pci_device_id", _pci),
    "pci.sub_device_id": ("pci_subsystem_id", _pci),
    "vbios_version": ("vbios", _text),
    "compute_cap": ("compute_capability", _text),
    "memory.total": ("memory_bytes", _number(MIB)),
    "memory.used": ("memory_used_bytes", _number(MIB)),
    "power.limit": ("power_limit_w", _number()),
    "enforced.power.limit": ("power_limit_w", _number()),
    "power.default_limit": ("power_default_w", _number()),
    "power.min_limit": ("power_min_w", _number()),
    "power.max_limit": ("power_max_w", _number()),
    "ecc.mode.current": ("ecc_enabled", _switch),
    "ecc.errors.uncorrected.volatile.total": ("ecc_uncorrected", _whole),
    "ecc.errors.uncorrected.aggregate.total": ("ecc_uncorrected_lifetime", _whole),
    "retired_pages.double_bit.count": ("num_retired_pages", _whole),
    "retired_pages.dbe": ("num_retired_pages", _whole),
    "retired_pages.pending": ("rows_remap_pending", _switch),
    "remapped_rows.pending": ("rows_remap_pending", _switch),
    "remapped_rows.failure": ("rows_remap_failed", _switch),
    "mig.mode.current": ("mig_enabled", _switch),
    "pcie.link.gen.max": ("pcie_max_generation", _whole),
    "pcie.link.width.max": ("pcie_max_width", _whole),
    "pcie.link.width.current": ("pcie_width", _whole),
    "clocks.max.sm": ("max_sm_clock_hz", _number(MEGAHERTZ)),
    "clocks.max.memory": ("max_memory_clock_hz", _number(MEGAHERTZ)),
    "clocks.max.mem": ("max_memory_clock_hz", _number(MEGAHERTZ)),
    "temperature.gpu": ("temperature_c", _number()),
    "utilization.gpu": ("utilization_fraction", _number(_PERCENT)),
}
"""Field of a GPU's record, and how a cell is read, by the name of a column.

Source: nvidia-smi --help-query-gpu, --help-query-remapped-rows and --help-query-retired-pages (drivers 470 to 580).
"""
SAMPLED: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "clocks.sm": ("sm_clock_hz", _number(MEGAHERTZ)),
    "clocks.current.sm": ("sm_clock_hz", _number(MEGAHERTZ)),
    "clocks.mem": ("memory_clock_hz", _number(MEGAHERTZ)),
    "clocks.current.memory": ("memory_clock_hz", _number(MEGAHERTZ)),
    "temperature.memory": ("memory_temperature_c", _number()),
    "power.draw": ("power_w", _number()),
    "power.draw.instant": ("power_w", _number()),
    "pcie.link.gen.current": ("pcie_generation", _whole),
    "pcie.link.gen.gpucurrent": ("pcie_generation", _whole),
}
"""Field of a measurement's conditions by the name of a column that a load changes."""
UNDER_LOAD: Final = tuple(name for name, (field, _) in SAMPLED.items() if "temperature" not in field)
"""Columns that say something only of a GPU under load: clocks, power and link generation fall at rest."""
_PARTS: Final = {
    "ecc.errors.uncorrected.volatile.": "ecc_uncorrected",
    "ecc.errors.uncorrected.aggregate.": "ecc_uncorrected_lifetime",
}
"""Fields of which columns of this beginning count a part: dram, sram, l2_cache."""
_REASONS: Final = re.compile(r"clocks_(?:event|throttle)_reasons\.(\w+)")
_REASON_NAMES: Final = {
    "sw_power_cap": "sw_power_cap",
    "hw_slowdown": "hw_slowdown",
    "hw_thermal_slowdown": "hw_thermal",
    "hw_power_brake_slowdown": "hw_power_brake",
    "sw_thermal_slowdown": "sw_thermal",
    "sync_boost": "sync_boost",
    "applications_clocks_setting": "applications_clocks",
}
_KEYS: Final = ("timestamp", "count", "pci.bus_id", "gpu_bus_id", "driver_version")
"""Columns that tell GPUs and moments apart, so that each of them is used."""


def name_of(title: str) -> str:
    """Return the name of a column without its unit: power.limit of `power.limit [W]`."""
    return title.partition("[")[0].strip().lower()


def is_column(name: str) -> bool:
    """Whether a column of this name is read."""
    return name in COLUMNS or name in SAMPLED or name in _KEYS or _is_count_or_reason(name)


def _is_count_or_reason(name: str) -> bool:
    reason = _REASONS.fullmatch(name)
    if reason:
        return reason[1] in ("active", "gpu_idle", "supported") or reason[1] in _REASON_NAMES
    return name.startswith(tuple(_PARTS))


def stated_cells(row: Mapping[str, str]) -> dict[str, str]:
    """Return the cells that hold a value: drivers write [N/A] or [Not Supported] for what they do not know."""
    return {
        name: cell.strip()
        for name, cell in row.items()
        if cell.strip().strip("[]").strip().lower() not in _NOT_STATED
    }


def gpu_of_cells(row: Mapping[str, str], index: int) -> Gpu:
    """Return a GPU from its cells by column; `index` is its number where no column states one."""
    cells = stated_cells(row)
    found: dict[str, Any] = {"index": index, "vendor": "nvidia"}
    for name, cell in cells.items():
        field, read = COLUMNS.get(name, ("", _text))
        value = read(cell) if field else None
        if value is not None:
            found[field] = value
    for beginning, field in _PARTS.items():
        # Parts overlap (dram is the device memory of newer boards): the largest is at least there.
        counts = [_whole(cell) for name, cell in cells.items() if name.startswith(beginning)]
        if field not in found and (known := [count for count in counts if count is not None]):
            found[field] = max(known)
    found["accelerator"] = accelerator_of(found.get("pci_device_id", ""))
    found["throttle_reasons"] = reasons_of(cells)
    return Gpu(**found)


def reasons_of(cells: Mapping[str, str]) -> tuple[str, ...]:
    """Return the reasons for lower clocks that are active by the cells, idle excepted."""
    found: set[str] = set()
    for name, cell in cells.items():
        reason = _REASONS.fullmatch(name)
        if reason is None:
            continue
        if reason[1] == "active" and re.fullmatch(r"0x[0-9a-fA-F]+", cell):
            bits = int(cell, _HEX)
            found |= {text for bit, text in THROTTLE_BITS.items() if bits & bit and text != IDLE}
        elif cell.lower() == "active" and reason[1] in _REASON_NAMES:
            found.add(_REASON_NAMES[reason[1]])
    return tuple(sorted(found))


def has_reasons(cells: Mapping[str, str]) -> bool:
    """Whether the cells say which reasons for lower clocks are active."""
    return any(_REASONS.fullmatch(name) for name in cells)
