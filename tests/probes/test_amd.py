"""AMD GPUs as sysfs shows them, on a made-up tree: the contract, never the hardware."""

import pytest

from advisor.probes import amd, machine, nvml
from advisor.probes.telemetry import Sampler

FILES = {
    "vendor": "0x1002",
    "class": "0x120000",
    "device": "0x74a1",
    "mem_info_vram_total": "206141652992",
    "mem_info_vram_used": "297000000",
    "max_link_speed": "32.0 GT/s PCIe",
    "max_link_width": "16",
    "current_link_speed": "32.0 GT/s PCIe",
    "current_link_width": "16",
    "pp_dpm_sclk": "0: 132Mhz\n1: 2100Mhz *",
    "ras/umc_err_count": "ue: 0\nce: 3",
    "hwmon/hwmon3/power1_average": "553000000",
    "hwmon/hwmon3/power1_cap": "750000000",
    "hwmon/hwmon3/power1_cap_max": "750000000",
    "hwmon/hwmon3/temp2_input": "71000",
    "hwmon/hwmon3/temp3_input": "62000",
    "hwmon/hwmon3/freq1_input": "2093000000",
}


@pytest.fixture
def mi300x(tmp_path, monkeypatch):
    for name, text in FILES.items():
        path = tmp_path / "0000:05:00.0" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    (tmp_path / "0000:00:1f.0").mkdir()
    (tmp_path / "0000:00:1f.0" / "vendor").write_text("0x8086\n")
    monkeypatch.setattr(amd, "PCI_DEVICES", tmp_path)
    monkeypatch.setattr(nvml, "library", lambda: None)
    monkeypatch.setattr(machine, "_smi", lambda fields: [])


def test_the_board_is_known_by_its_id(mi300x):
    (gpu,) = machine.identify().gpus
    assert (gpu.vendor, gpu.accelerator, gpu.power_limit_w) == ("amd", "mi300x", 750.0)
    assert (gpu.pcie_max_generation, gpu.pcie_max_width, gpu.ecc_uncorrected) == (5, 16, 0)
    assert gpu.max_sm_clock_hz == 2100e6
    assert gpu.memory_bytes == 206141652992


def test_its_state_is_sampled(mi300x):
    with Sampler(0) as sampler:
        pass
    seen = sampler.conditions()
    assert seen.power_w == (553.0, 553.0)
    assert (seen.temperature_c[1], seen.memory_temperature_c[1]) == (71.0, 62.0)
    assert (seen.pcie_generation, seen.pcie_width, seen.num_samples) == (5, 16, 1)
    assert seen.sm_clock_hz == (2093e6, 2093e6)


def test_without_such_a_gpu_nothing_is_sampled(monkeypatch, tmp_path):
    monkeypatch.setattr(amd, "PCI_DEVICES", tmp_path / "none")
    monkeypatch.setattr(nvml, "library", lambda: None)
    with Sampler(0) as sampler:
        pass
    assert sampler.conditions().num_samples == 0
