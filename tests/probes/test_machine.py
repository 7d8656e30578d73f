import subprocess
import sys

from advisor.catalog.accelerators import all_accelerators
from advisor.catalog.files import read_csv
from advisor.probes import machine, nvml, pci_ids
from advisor.probes.machine import identify, smi_gpu
from advisor.probes.pci_ids import accelerator_of


def test_identity_needs_neither_torch_nor_a_gpu():
    code = (
        "import sys; from advisor.probes.machine import identify; m = identify(); "
        "print('torch' in sys.modules, bool(m.cpu), m.num_cpus > 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "True"]


def test_boards_are_known_by_pci_id():
    assert accelerator_of("10de:2335") == "h200-sxm"
    assert accelerator_of("10DE:2335") == "h200-sxm"
    assert accelerator_of("10de:0000") == ""


def test_every_pci_id_names_a_board_of_the_catalog():
    known = {accelerator.id for accelerator in all_accelerators()}
    rows = [row for _, row in read_csv(pci_ids._PCI_IDS, ("pci_id", "accelerator"))]
    assert {row["accelerator"] for row in rows} <= known
    assert len({row["pci_id"] for row in rows}) == len(rows)


def test_errors_of_a_lifetime_are_not_those_since_the_driver_was_loaded(monkeypatch):
    class Nvml:
        @staticmethod
        def nvmlDeviceGetTotalEccErrors(device, kind, counter):
            return {0: 0, 1: 2}[counter]

    monkeypatch.setattr(nvml, "library", lambda: Nvml)
    monkeypatch.setattr(nvml, "handle", lambda index: index)
    assert machine._nvml_gpu(0).ecc_uncorrected == 0


def test_nvidia_smi_lines_are_read_where_nvml_is_missing():
    line = (
        "0, NVIDIA H200, 0x233510DE, 0x18BF10DE, GPU-1, 165, 143771, 0, 700.00, 700.00, Enabled, Disabled, 5, 16, "
        "1980, 3201, 43, 580.159.04"
    )
    gpu = smi_gpu([cell.strip() for cell in line.split(",")])
    assert gpu.accelerator == "h200-sxm"
    assert gpu.memory_bytes == 143771 * 2**20
    assert (gpu.power_limit_w, gpu.ecc_enabled, gpu.mig_enabled, gpu.pcie_max_width) == (
        700.0,
        True,
        False,
        16,
    )


def test_what_nvidia_smi_does_not_know_stays_empty():
    gpu = smi_gpu(["0", "RTX", "0x268410DE", *["[N/A]"] * 15])
    assert gpu.accelerator == "rtx-4090"
    assert gpu.memory_bytes is None
    assert gpu.ecc_enabled is None


def test_gpus_that_do_not_exist_are_left_out(monkeypatch):
    monkeypatch.setattr(machine, "_find_gpus", lambda: (tuple(machine.Gpu(index=i) for i in range(4)), []))
    assert [gpu.index for gpu in identify([1, 3, 9]).gpus] == [1, 3]


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setattr(machine, "_version", lambda name: "")
    assert any("torch" in text for text in identify().missing)


def test_an_nvml_that_refuses_is_no_error(monkeypatch):
    class Nvml:
        class NVMLError(Exception):
            pass

        @staticmethod
        def nvmlDeviceGetSerial(device):
            raise Nvml.NVMLError

    monkeypatch.setattr(nvml, "library", lambda: Nvml)
    assert nvml.field("nvmlDeviceGetSerial", 0) is None
    assert nvml.field("nvmlNoSuchFunction", 0) is None
