"""Identity of this machine without torch: GPUs by driver or sysfs, CPU, memory, operating system, packages."""

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from advisor.catalog.units import KIB
from advisor.probes import amd, nvml
from advisor.probes.network import read_ports
from advisor.probes.pci_ids import accelerator_of, pci_pair
from advisor.probes.record import Gpu, ProbedMachine
from advisor.probes.smi_columns import gpu_of_cells
from advisor.probes.topology import read_topology

_SMI_FIELDS: Final = (
    "index,name,pci.device_id,pci.sub_device_id,uuid,serial,memory.total,memory.used,power.limit,"
    "power.default_limit,ecc.mode.current,mig.mode.current,pcie.link.gen.max,pcie.link.width.max,"
    "clocks.max.sm,clocks.max.memory,temperature.gpu,driver_version"
)
_DOUBLE_BIT: Final = 1
UNCORRECTED = 1
VOLATILE = 0
"""Arguments NVML_MEMORY_ERROR_TYPE_UNCORRECTED and NVML_VOLATILE_ECC: errors since the driver was loaded, not over the
lifetime."""
_TIMEOUT_S: Final = 20.0


def identify(gpus: Sequence[int] | None = None) -> ProbedMachine:
    """Return the machine and the GPUs with these indices (default: all), as the drivers report them.

    Assumes: no package is installed; a value that cannot be read stays empty and is listed under `missing`.
    """
    found, missing = _find_gpus()
    if gpus is not None:
        found = tuple(gpu for gpu in found if gpu.index in gpus)
    missing += [
        f"{name} is not installed: {consequence}"
        for name, consequence in (
            ("torch", "GPU rates are not measured"),
            ("triton", "only the vendor's libraries are measured"),
        )
        if not _version(name)
    ]
    return ProbedMachine(
        host_name=platform.node(),
        system=f"{platform.system()} {platform.release()}",
        cpu=_cpu_name(),
        num_cpus=os.cpu_count() or 0,
        memory_bytes=_memory_bytes(),
        num_numa_nodes=len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or None,
        hypervisor=_hypervisor(),
        driver=nvml.text(nvml.field("nvmlSystemGetDriverVersion")) or _smi_driver(),
        cuda_driver=_cuda_version(),
        torch=_version("torch"),
        triton=_version("triton"),
        gpus=found,
        topology=read_topology() if len(found) > 1 else None,
        network_ports=read_ports(),
        missing=tuple(missing),
    )


def _find_gpus() -> tuple[tuple[Gpu, ...], list[str]]:
    if number := nvml.count():
        return tuple(_nvml_gpu(index) for index in range(number)), []
    if gpus := _smi_gpus():
        return gpus, ["nvidia-ml-py is not installed: clocks, power and throttling are not recorded"]
    if gpus := _amd_gpus():
        return gpus, ["advisor was never verified on an AMD GPU; its state is read from sysfs"]
    if platform.system() == "Darwin" and platform.machine() == "arm64":
        return (), ["Apple GPUs are measured by torch and MLX alone; advisor was never verified on one"]
    return (), ["no GPU driver answers: only the CPU, memory and storage are measured"]


def _scale_value(value: Any, unit: float) -> float | None:
    return None if value is None else float(value) * unit


def _flag(value: Any) -> bool | None:
    return None if value is None else bool(value)


def _nvml_gpu(index: int) -> Gpu:
    device = nvml.handle(index)
    pci = nvml.field("nvmlDeviceGetPciInfo", device)
    pci_id = pci_pair(pci.pciDeviceId) if pci else ""
    memory = nvml.field("nvmlDeviceGetMemoryInfo", device)
    limits = nvml.field("nvmlDeviceGetPowerManagementLimitConstraints", device)
    ecc = nvml.field("nvmlDeviceGetEccMode", device)
    mig = nvml.field("nvmlDeviceGetMigMode", device)
    retired = nvml.field("nvmlDeviceGetRetiredPages", device, _DOUBLE_BIT)
    remapped = nvml.field("nvmlDeviceGetRemappedRows", device)
    capability = nvml.field("nvmlDeviceGetCudaComputeCapability", device)
    load = nvml.field("nvmlDeviceGetUtilizationRates", device)
    processes = nvml.field("nvmlDeviceGetComputeRunningProcesses", device)
    mode = nvml.field("nvmlDeviceGetVirtualizationMode", device)
    return Gpu(
        index=index,
        name=nvml.text(nvml.field("nvmlDeviceGetName", device)),
        vendor="nvidia",
        accelerator=accelerator_of(pci_id),
        pci_device_id=pci_id,
        pci_subsystem_id=pci_pair(pci.pciSubSystemId) if pci else "",
        uuid=nvml.text(nvml.field("nvmlDeviceGetUUID", device)),
        serial=nvml.text(nvml.field("nvmlDeviceGetSerial", device)),
        compute_capability=f"{capability[0]}.{capability[1]}" if capability else "",
        memory_bytes=float(memory.total) if memory else None,
        memory_used_bytes=float(memory.used) if memory else None,
        bus_width_bits=nvml.field("nvmlDeviceGetMemoryBusWidth", device),
        max_sm_clock_hz=_scale_value(nvml.field("nvmlDeviceGetMaxClockInfo", device, 1), nvml.MEGAHERTZ),
        max_memory_clock_hz=_scale_value(nvml.field("nvmlDeviceGetMaxClockInfo", device, 2), nvml.MEGAHERTZ),
        power_limit_w=_scale_value(nvml.field("nvmlDeviceGetEnforcedPowerLimit", device), nvml.MILLIWATT),
        power_default_w=_scale_value(
            nvml.field("nvmlDeviceGetPowerManagementDefaultLimit", device), nvml.MILLIWATT
        ),
        power_min_w=_scale_value(limits[0], nvml.MILLIWATT) if limits else None,
        power_max_w=_scale_value(limits[1], nvml.MILLIWATT) if limits else None,
        ecc_enabled=_flag(ecc[0]) if ecc else None,
        ecc_uncorrected=nvml.field("nvmlDeviceGetTotalEccErrors", device, UNCORRECTED, VOLATILE),
        rows_remap_pending=_flag(remapped[2]) if remapped else None,
        rows_remap_failed=_flag(remapped[3]) if remapped else None,
        num_retired_pages=None if retired is None else len(retired),
        mig_enabled=_flag(mig[0]) if mig else None,
        virtualization=nvml.VIRTUALIZATION.get(mode, "") if mode is not None else "",
        pcie_max_generation=nvml.field("nvmlDeviceGetMaxPcieLinkGeneration", device),
        pcie_max_width=nvml.field("nvmlDeviceGetMaxPcieLinkWidth", device),
        num_nvlinks=nvml.num_nvlinks(device),
        utilization_fraction=load.gpu / 100 if load else None,
        num_other_processes=None if processes is None else len(processes),
        temperature_c=_scale_value(nvml.field("nvmlDeviceGetTemperature", device, 0), 1.0),
        throttle_reasons=nvml.throttle_reasons(device),
        vbios=nvml.text(nvml.field("nvmlDeviceGetVbiosVersion", device)),
    )


def _smi(fields: str) -> list[list[str]]:
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    if done.returncode != 0:
        return []
    return [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines() if line.strip()]


def _smi_driver() -> str:
    rows = _smi("driver_version")
    return rows[0][0] if rows else ""


def _smi_gpus() -> tuple[Gpu, ...]:
    return tuple(smi_gpu(row) for row in _smi(_SMI_FIELDS))


def smi_gpu(cells: Sequence[str]) -> Gpu:
    """Return a GPU from one line of `nvidia-smi --query-gpu` with this module's fields."""
    names = _SMI_FIELDS.split(",")
    return gpu_of_cells(dict(zip(names, cells, strict=True)), 0)


def _amd_gpus() -> tuple[Gpu, ...]:
    found = [amd.identity(index, device) for index, device in enumerate(amd.devices())]
    boards = [accelerator_of(gpu.pci_device_id) for gpu in found]
    return tuple(
        gpu.model_copy(update={"accelerator": board, "name": board or gpu.name})
        for gpu, board in zip(found, boards, strict=True)
    )


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _cuda_version() -> str:
    number = nvml.field("nvmlSystemGetCudaDriverVersion")
    return f"{number // 1000}.{number % 1000 // 10}" if number else ""


def _cpu_name() -> str:
    for line in amd.read(Path("/proc/cpuinfo")).splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory_bytes() -> float | None:
    for line in amd.read(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemTotal"):
            return float(line.split()[1]) * KIB
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (ValueError, OSError):
        return None


def _hypervisor() -> str:
    if kind := amd.read(Path("/sys/hypervisor/type")):
        return kind
    product = amd.read(Path("/sys/class/dmi/id/sys_vendor"))
    flags = next(
        (line for line in amd.read(Path("/proc/cpuinfo")).splitlines() if line.startswith("flags")), ""
    )
    return (product or "yes") if " hypervisor" in flags else ""
