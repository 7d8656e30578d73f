"""AMD GPUs as the kernel driver shows them in sysfs: identity, and state while work runs.

Never verified on hardware; the files and units are those of the amdgpu driver's documentation, which amd-smi reads too.
"""

import re
from pathlib import Path
from typing import Final

from advisor.catalog.units import MEGA
from advisor.probes.record import Gpu

PCI_DEVICES: Final = Path("/sys/bus/pci/devices")
_VENDOR: Final = "0x1002"
_DISPLAY_CLASSES: Final = ("0x0300", "0x0302", "0x0380", "0x1200")
_MICRO: Final = 1e-6
_MILLI: Final = 1e-3
_TRANSFERS_OF_GENERATION: Final = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}
"""Generation of the PCIe link by its transfer rate [GT/s]."""
_READINGS: Final = {
    "power": (("power1_average", "power1_input"), _MICRO),
    "temperature": (("temp2_input", "temp1_input"), _MILLI),
    "memory_temperature": (("temp3_input",), _MILLI),
    "sm_clock": (("freq1_input",), 1.0),
    "memory_clock": (("freq2_input",), 1.0),
}


def devices() -> list[Path]:
    """Return the folders of the AMD GPUs, in the order of their PCI addresses."""
    found = sorted(PCI_DEVICES.glob("*")) if PCI_DEVICES.is_dir() else []
    return [
        device
        for device in found
        if read(device / "vendor") == _VENDOR and read(device / "class").startswith(_DISPLAY_CLASSES)
    ]


def read(path: Path) -> str:
    """Return the text of a file without surrounding blanks; empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def identity(index: int, device: Path) -> Gpu:
    """Return the identity of one GPU from its driver, with the board not yet named."""
    pci_id = f"1002:{read(device / 'device')[2:]}"
    errors = re.search(r"ue: (\d+)", read(device / "ras" / "umc_err_count"))
    return Gpu(
        index=index,
        name=pci_id,
        vendor="amd",
        pci_device_id=pci_id,
        memory_bytes=_number(device / "mem_info_vram_total"),
        memory_used_bytes=_number(device / "mem_info_vram_used"),
        max_sm_clock_hz=_highest_clock(device / "pp_dpm_sclk"),
        max_memory_clock_hz=_highest_clock(device / "pp_dpm_mclk"),
        power_limit_w=_first(device, ("power1_cap",), _MICRO),
        power_default_w=_first(device, ("power1_cap_default",), _MICRO),
        power_max_w=_first(device, ("power1_cap_max",), _MICRO),
        ecc_uncorrected=int(errors[1]) if errors else None,
        pcie_max_generation=_generation(device / "max_link_speed"),
        pcie_max_width=_width(device / "max_link_width"),
        vbios=read(device / "vbios_version"),
    )


def readings(device: Path) -> dict[str, float]:
    """Return power [W], temperatures [°C], clocks [Hz] and the PCIe link right now; missing readings are left out."""
    found = {name: _first(device, files, unit) for name, (files, unit) in _READINGS.items()}
    found["pcie_generation"] = _generation(device / "current_link_speed")
    found["pcie_width"] = _width(device / "current_link_width")
    return {name: float(value) for name, value in found.items() if value is not None}


def _number(path: Path) -> float | None:
    text = read(path)
    return float(text) if text.isdigit() else None


def _first(device: Path, names: tuple[str, ...], unit: float) -> float | None:
    """Value of the first of these files in the GPU's hwmon folder, in SI units; None if none has a number."""
    for name in names:
        for path in device.glob(f"hwmon/hwmon*/{name}"):
            if (value := _number(path)) is not None:
                return value * unit
    return None


def _generation(path: Path) -> int | None:
    return _TRANSFERS_OF_GENERATION.get(read(path).partition(" ")[0])


def _width(path: Path) -> int | None:
    value = _number(path)
    return int(value) if value else None


def _highest_clock(path: Path) -> float | None:
    """Highest clock of a table such as `1: 2100Mhz *` [Hz]."""
    clocks = [int(clock) for clock in re.findall(r"(\d+)\s*Mhz", read(path), re.IGNORECASE)]
    return max(clocks) * MEGA if clocks else None
