"""Records of a probe: the machine, and measurements with their verdicts, without anything that names the owner."""

import re
import socket
from typing import Any, Literal

from pydantic import Field

from advisor.catalog.home import expand_home
from advisor.catalog.schema import Record

Status = Literal["pass", "warn", "fail", "info", "not_measured"]
Basis = Literal["", "measured", "similar", "floor", "estimate", "host"]
"""Basis of a rate's expectation: an equal measurement elsewhere, a similar one, a published pass mark, a share of the
datasheet's peak, or a share of a link on which the host decides."""


class Conditions(Record):
    """State of the GPU during a measurement: lowest and highest of the samples."""

    sm_clock_hz: tuple[float, float] | None = None
    memory_clock_hz: tuple[float, float] | None = None
    power_w: tuple[float, float] | None = None
    temperature_c: tuple[float, float] | None = None
    memory_temperature_c: tuple[float, float] | None = None
    throttle_reasons: tuple[str, ...] = ()
    """Every reason that was active in at least one sample, idle excepted."""
    pcie_generation: int | None = None
    pcie_width: int | None = None
    num_samples: int = 0


class Measurement(Record):
    """Measured quantity, how it was measured, and its expected value."""

    id: str
    """Check id, e.g. memory.read, compute.matmul.bf16, identity.ecc."""
    gpu: int | None = None
    """Index of the GPU; None for the host or the whole machine."""
    title: str = ""
    instrument: str = ""
    """Program that measured: triton, torch (vendor library), nccl, nvml, numpy, ..."""
    pattern: str = ""
    """Access pattern, shape or algorithm, without which a rate means little."""
    value: float | str | None = None
    p5: float | None = None
    p95: float | None = None
    num_samples: int = 0
    variation: float | None = None
    """Standard deviation ÷ mean of the samples."""
    unit: str = ""
    expected: float | str | None = None
    required: float | str | None = None
    operator: Literal["", ">=", "<=", "=="] = ""
    """Comparison of `value` with `required`."""
    source: str = ""
    """Source of `expected`."""
    basis: Basis = ""
    status: Status = "info"
    purpose: str = ""
    remediation: str = ""
    note: str = ""
    conditions: Conditions | None = None
    step: str = ""
    """Place and step of the measurement, e.g. gpu0/matmul; empty if it follows from other measurements."""

    @classmethod
    def ruled(cls, id: str, value: str, wanted: str, status: Status | bool, **more: Any) -> "Measurement":
        """Return a yes-or-no check by a rule."""
        if isinstance(status, bool):
            status = "pass" if status else "fail"
        against: dict[str, Any] = {"expected": wanted, "required": wanted, "operator": "=="}
        return cls(id=id, value=value, source="rule", status=status, **against, **more)


class Gpu(Record):
    """Identity of one GPU as its driver reports it; None if the driver does not report the value."""

    index: int
    name: str = ""
    vendor: str = ""
    accelerator: str = ""
    """Catalog id by PCI id; empty if unknown."""
    pci_device_id: str = ""
    """PCI vendor and device id, e.g. 10de:2335."""
    pci_subsystem_id: str = ""
    uuid: str = ""
    serial: str = ""
    compute_capability: str = ""
    num_sms: int | None = None
    memory_bytes: float | None = None
    memory_used_bytes: float | None = None
    visible_memory_bytes: float | None = None
    """Memory that programs see [bytes]; a driver's tool can be made to show more."""
    bus_width_bits: int | None = None
    max_sm_clock_hz: float | None = None
    max_memory_clock_hz: float | None = None
    l2_bytes: float | None = None
    power_limit_w: float | None = None
    power_default_w: float | None = None
    power_min_w: float | None = None
    power_max_w: float | None = None
    ecc_enabled: bool | None = None
    ecc_uncorrected: int | None = None
    """Uncorrectable memory errors since the driver was loaded [count]."""
    ecc_uncorrected_lifetime: int | None = None
    """Uncorrectable memory errors since the board was made [count]; a repaired board keeps them."""
    rows_remap_pending: bool | None = None
    rows_remap_failed: bool | None = None
    num_retired_pages: int | None = None
    """Number of pages taken out of use for uncorrectable errors (boards before Ampere)."""
    num_pcie_replays: int | None = None
    """Packets that the PCIe link has repeated since its last reset, as one pasted report states them [count]."""
    pcie_replays: tuple[int, int] | None = None
    """Packets that the PCIe link repeated, counted before and after the measurements."""
    nvlink_errors: tuple[int, int] | None = None
    """Errors of all NVLinks (CRC, replay, recovery), counted before and after the measurements."""
    remapped_rows: tuple[int, int] | None = None
    """Rows of memory that were replaced, counted before and after the measurements."""
    uncorrected_errors: tuple[int, int] | None = None
    """Uncorrectable memory errors since the driver was loaded, counted before and after the measurements."""
    xids: tuple[int, ...] | None = None
    """Errors of this GPU that the driver logged during the measurements; None if it reports none to programs."""
    mig_enabled: bool | None = None
    virtualization: str = ""
    """Virtualization mode: none, passthrough, vgpu, host_vgpu, host_vsga, or empty if unknown."""
    pcie_max_generation: int | None = None
    pcie_max_width: int | None = None
    pcie_width: int | None = None
    """Lanes of the link at the time of a pasted report; a probe records them under load, in its conditions."""
    num_nvlinks: int | None = None
    """Number of NVLinks that are up; None if the driver does not report it (virtual machines)."""
    utilization_fraction: float | None = None
    num_other_processes: int | None = None
    temperature_c: float | None = None
    throttle_reasons: tuple[str, ...] = ()
    vbios: str = ""
    max_threads_per_sm: int | None = None
    registers_per_sm: int | None = None
    shared_memory_per_sm_bytes: float | None = None
    shared_memory_per_block_bytes: float | None = None


class LinkTopology(Record):
    """Links between GPUs and network cards, as `nvidia-smi topo -m` or `rocm-smi --showtopo` shows them."""

    names: tuple[str, ...]
    """Names of devices: GPU0, GPU1, ..., then NIC0, ..."""
    links: tuple[tuple[str, ...], ...]
    """Links row by row: NV# and XGMI are direct links, PIX and PXB PCIe switches, PHB a processor,
    NODE and SYS beyond. GPUs come first; rows of network cards may be missing.
    """
    numa_nodes: tuple[str, ...] = ()
    """NUMA node of each GPU; empty if it is not reported."""
    cpus: tuple[str, ...] = ()
    """Processors near each GPU."""
    nics: dict[str, str] = Field(default_factory=dict)
    """Names of network cards, e.g. NIC0: mlx5_0."""

    @property
    def num_gpus(self) -> int:
        return sum(name.startswith("GPU") for name in self.names)

    def links_of(self, gpu: int) -> list[int]:
        """Number of NVLinks from a GPU to each other GPU [count]; none for a GPU that is not shown."""
        others = range(self.num_gpus) if gpu < self.num_gpus else ()
        return [self.links_between(gpu, other) for other in others if other != gpu]

    def links_between(self, gpu: int, other: int) -> int:
        """Number of NVLinks from one GPU to another [count]; 0 where PCIe alone joins them."""
        found = re.fullmatch(r"NV(\d+)", self.links[gpu][other])
        return int(found[1]) if found else 0

    def nvlinked_pairs(self) -> set[tuple[int, int]]:
        """Return the pairs of GPUs with a direct link."""
        gpus = range(self.num_gpus)
        return {(i, j) for i in gpus for j in gpus if self.links[i][j].startswith(("NV", "XGMI"))}


class NetworkPort(Record):
    """One port of a network card."""

    name: str
    """Name of the device, e.g. mlx5_0 or eth0."""
    link_layer: str = ""
    """InfiniBand or Ethernet, as the driver states it; Unspecified for EFA; empty if unknown."""
    bytes_per_s: float | None = None
    is_active: bool | None = None


class ProbedMachine(Record):
    """Host and its GPUs."""

    host_name: str = ""
    system: str = ""
    cpu: str = ""
    num_cpus: int = 0
    memory_bytes: float | None = None
    num_numa_nodes: int | None = None
    hypervisor: str = ""
    driver: str = ""
    cuda_driver: str = ""
    torch: str = ""
    triton: str = ""
    nccl: str = ""
    runtime: str = ""
    """Runtime: cuda, rocm, mps or cpu."""
    gpus: tuple[Gpu, ...] = ()
    topology: LinkTopology | None = None
    network_ports: tuple[NetworkPort, ...] | None = None
    """Ports of network cards; None if they were not read."""
    missing: tuple[str, ...] = ()
    """Missing packages and drivers, each with what was therefore not measured."""


REDACTED = "redacted"
_TRACES = re.compile(
    r"\b(?:GPU|MIG)-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    r"|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
    r"|(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])"
    r"|(?<![\w:])(?:[0-9a-fA-F]{0,4}:){3,7}[0-9a-fA-F]{1,4}(?![\w:])"
    r"|(?<=/home/)[^/\s:'\"]+|(?<=/Users/)[^/\s:'\"]+"
)
"""Pattern of UUIDs, addresses of IPv4 and IPv6, and names of people in paths."""


def without_traces(text: str, machine: ProbedMachine) -> str:
    """Return the output of a crashed worker without host name, addresses, home, UUIDs and serial numbers."""
    known = {socket.gethostname(), machine.host_name, str(expand_home("~"))}
    known |= {name for gpu in machine.gpus for name in (gpu.uuid, gpu.serial)}
    for name in sorted(known, key=len, reverse=True):
        if len(name) > 2:
            text = text.replace(name, REDACTED)
    return _TRACES.sub(REDACTED, text)


def redact(machine: ProbedMachine) -> ProbedMachine:
    """Return the machine without what identifies its owner: host name, serial numbers, UUIDs.

    Equal serials stay recognisable as equal only inside one file: they become redacted-0, redacted-1, ...
    """
    serials = sorted({gpu.serial for gpu in machine.gpus if gpu.serial}, key=lambda s: (len(s), s))
    gpus = tuple(
        gpu.model_copy(
            update={
                "serial": f"{REDACTED}-{serials.index(gpu.serial)}" if gpu.serial else "",
                "uuid": f"{REDACTED}-{gpu.index}" if gpu.uuid else "",
            }
        )
        for gpu in machine.gpus
    )
    host_name = REDACTED if machine.host_name else ""
    return machine.model_copy(update={"gpus": gpus, "host_name": host_name})
