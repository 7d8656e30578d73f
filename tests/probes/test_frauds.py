"""Machines that are not what was sold: small edits of honest recordings, and what the rules say of each."""

import csv
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog.accelerators import by_id
from advisor.probes.assess import assess
from advisor.probes.document import read_probe
from advisor.probes.record import Conditions, Gpu, Machine, Measurement
from advisor.probes.verdict import verdict

ROWS = [
    row
    for row in csv.DictReader(
        line
        for line in (Path(__file__).parent / "honest_boards.csv").read_text().splitlines()
        if not line.startswith("#")
    )
]
HONEST = {f"{row['n']}x{row['board']}": row for row in ROWS}
RECORDED = [f"{n}xh200-sxm" for n in (1, 2, 4, 8)]


def honest(name: str) -> tuple[Machine, list[Measurement]]:
    """A machine and what was measured on it: a recording of the catalog, or one composed of published facts."""
    if name not in HONEST:
        probe = read_probe(Path(f"h200-sxm-x{name[0]}"))
        return probe.machine, [m for m in probe.measurements if m.step]
    row = HONEST[name]
    board, number = by_id(row["board"]), int(row["n"])

    def figure(column: str, unit: float) -> float | None:
        return float(row[column]) * unit if row[column] else None

    gpu = Gpu(
        index=0,
        name=row["name"],
        vendor=board.vendor,
        accelerator=board.id,
        pci_device_id=row["pci_id"],
        compute_capability=row["cc"],
        num_sms=board.num_sms,
        memory_bytes=board.memory_bytes,
        memory_used_bytes=5e8,
        bus_width_bits=int(row["bus_bits"]) if row["bus_bits"] else None,
        max_sm_clock_hz=figure("sm_mhz", 1e6),
        max_memory_clock_hz=figure("memory_mhz", 1e6),
        power_limit_w=310.0 if board.id == "h100-nvl" else board.tdp_w,
        power_default_w=310.0 if board.id == "h100-nvl" else board.tdp_w,
        ecc_enabled=bool(int(row["ecc"])) if row["ecc"] else None,
        ecc_uncorrected=0,
        mig_enabled=False,
        virtualization="passthrough",
        pcie_max_generation=board.pcie_generation,
        pcie_max_width=board.pcie_lanes,
        num_nvlinks=int(row["links"]) if row["links"] else None,
        num_other_processes=0,
    )
    machine = Machine(
        cpu="AMD EPYC 9654",
        torch="2.11.0",
        triton="3.6.0",
        driver="580.159.04",
        gpus=tuple(gpu.model_copy(update={"index": i}) for i in range(number)),
    )
    clocks = {
        "sm_clock_hz": (0.6 * (gpu.max_sm_clock_hz or 0), 0.99 * (gpu.max_sm_clock_hz or 0)),
        "memory_clock_hz": (0.97 * (gpu.max_memory_clock_hz or 0), 0.975 * (gpu.max_memory_clock_hz or 0)),
    }
    seen = Conditions(
        **(clocks if gpu.max_sm_clock_hz else {}),
        temperature_c=(40.0, 66.0),
        throttle_reasons=("sw_power_cap",),
        pcie_generation=board.pcie_generation,
        pcie_width=board.pcie_lanes,
        num_samples=50,
    )
    rates = {
        "memory.read": ("read", 1e9),
        "memory.copy": ("copy", 1e9),
        "memory.triad": ("triad", 1e9),
        f"compute.matmul.{row['format']}": ("matmul", 1e12),
        f"compute.sustained.{row['format']}": ("sustained", 1e12),
        "host_link.h2d": ("h2d", 1e9),
        "host_link.d2h": ("h2d", 1e9),
    }
    found = [
        Measurement(
            id="memory.touch", gpu=i, value=0.985, unit="fraction of the memory", source="rule",
            required=0.95, operator=">=", step=f"gpu{i}/touch",
        )
        for i in range(number)
    ]  # fmt: skip
    found += [
        Measurement(
            id=check, gpu=i, instrument=instrument, pattern="honest", value=figure(column, unit),
            unit="bytes/s" if unit == 1e9 else "flop/s", conditions=seen, step=f"gpu{i}/rates",
        )
        for i in range(number)
        for check, (column, unit) in rates.items()
        for instrument in ("torch", "triton")
        if instrument == "torch" or check.startswith("memory")
    ]  # fmt: skip
    found += [
        Measurement(
            id="peer.copy", instrument="torch", value=figure("pair", 1e9), unit="bytes/s", step="group/peer",
            pattern=f"2 GPUs, {i} to {j} of {number}, {row['path']}",
        )
        for i in range(number)
        for j in range(number)
        if i != j
    ]  # fmt: skip
    if number > 1:
        pattern = f"{number} ranks, {row['algorithm']}, 1 GiB"
        value = figure("all_reduce", 1e9)
        found.append(
            Measurement(
                id="collective.all_reduce", instrument="nccl", pattern=pattern, value=value, unit="bytes/s",
                step="group/collective",
            )
        )  # fmt: skip
    return machine, found


def judged(name: str, is_ordered: bool = True) -> list[Measurement]:
    machine, found = honest(name)
    board = by_id(name.partition("x")[2]) if is_ordered else None
    return assess(machine, found, board, len(machine.gpus) if is_ordered else None)


@pytest.mark.parametrize("name", [*RECORDED, *HONEST])
@pytest.mark.parametrize("is_ordered", [True, False])
def test_honest_machines_pass(name, is_ordered):
    checks = judged(name, is_ordered)
    assert [(m.id, m.gpu, m.value, m.expected, m.note) for m in checks if m.status in ("warn", "fail")] == []
    assert verdict(checks) == "pass"


@dataclass(frozen=True)
class Fraud:
    """One edit of an honest machine, what the verdict must be, and the check that must say it."""

    name: str
    base: str
    status: str
    check: str
    gpu: dict[str, Any] = field(default_factory=dict)
    """Fields of every GPU."""
    one: dict[str, Any] = field(default_factory=dict)
    """Fields of GPU 0 alone."""
    rates: dict[str, float] = field(default_factory=dict)
    """Factor of all measurements whose id matches the expression."""
    gpu0_rates: dict[str, float] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    seen: dict[str, Any] = field(default_factory=dict)
    """Fields of every measurement's conditions."""
    path: str = ""
    drop: str = ""
    order: str | None = "as sold"
    num: int | None = None
    lost: str = ""
    """A step that did not come back, with its reason."""


F = Fraud
FRAUDS = [
    # links and groups
    F("2 of 12 NVLinks", "4xa100-sxm-80gb", "fail", "identity.nvlink", gpu={"num_nvlinks": 2}),
    F("one link down on one GPU", "8xa100-sxm-80gb", "fail", "identity.nvlink", one={"num_nvlinks": 11}),
    F("20 GB/s between peers", "4xa100-sxm-80gb", "fail", "peer.copy", values={"peer.copy": 20e9}),
    F("all-reduce at 10 GB/s", "4xa100-sxm-80gb", "fail", "collective.all_reduce", values={"collective.all_reduce": 10e9}),
    F("all three on A100", "4xa100-sxm-80gb", "fail", "peer.copy", gpu={"num_nvlinks": 2}, values={"peer.copy": 20e9, "collective.all_reduce": 10e9}),
    F("links hidden and peers slow", "8xh100-sxm", "fail", "peer.copy", gpu={"num_nvlinks": None}, values={"peer.copy": 37e9}),
    F("no NVLS and a slow ring", "8xh100-sxm", "fail", "collective.all_reduce", values={"collective.all_reduce": 210e9}),
    F("half of the links' speed", "8xb200-sxm", "fail", "peer.copy", rates={"peer.copy": 0.5}),
    F("B200 with 9 of 18 links", "8xb200-sxm", "fail", "identity.nvlink", gpu={"num_nvlinks": 9}),
    F("peers through the host", "2xh200-sxm", "fail", "peer.copy", values={"peer.copy": 37e9}, path="through the host"),
    F("H200 sums at half", "8xh200-sxm", "fail", "collective.all_reduce", rates={"collective.all_reduce$": 0.5}),
    F("H100 NVL sold without its bridge", "2xh100-nvl", "warn", "identity.nvlink", gpu={"num_nvlinks": 0}, values={"peer.copy": 50e9, "collective.all_reduce": 25e9}),
    F("V100 with 2 of 6 links", "8xv100-sxm2-16gb", "fail", "identity.nvlink", gpu={"num_nvlinks": 2}),
    F("V100 sums over PCIe", "8xv100-sxm2-16gb", "fail", "collective.all_reduce", values={"collective.all_reduce": 9e9}),
    F("3090 pair at 3 GB/s", "2xrtx-3090", "fail", "peer.copy", values={"peer.copy": 3e9}),
    F("half a bridge on A6000", "2xrtx-a6000", "fail", "identity.nvlink", gpu={"num_nvlinks": 2}),
    F("bad 4090 host", "4xrtx-4090", "fail", "peer.copy", values={"peer.copy": 4e9}),
    F("5090s on x4 risers", "4xrtx-5090", "fail", "identity.pcie", gpu={"pcie_max_width": 4}, rates={"host_link": 0.25}),
    F("RTX PRO 6000 with peers through the host", "8xrtx-pro-6000-server", "warn", "peer.copy", path="through the host"),
    F("MI300X with a dead xGMI link", "8xmi300x", "fail", "peer.copy", values={"peer.copy": 12e9}),
    F("MI300X sums at a third", "8xmi300x", "fail", "collective.all_reduce", rates={"collective": 0.33}),
    # another board, a part of one, a shared one
    F("A100 40 GB sold as 80 GB", "8xa100-sxm-80gb", "fail", "identity.sku", gpu={"accelerator": "a100-sxm-40gb", "pci_device_id": "10de:20b0"}),
    F("H100 PCIe sold as SXM", "1xh100-pcie", "fail", "identity.sku", order="h100-sxm"),
    F("H20 sold as H100", "1xh100-sxm", "fail", "identity.sku", gpu={"accelerator": "h20", "pci_device_id": "10de:2329", "num_sms": 78}, rates={"compute": 0.18}),
    F("one of eight is another board", "8xh200-sxm", "fail", "identity.sku", one={"accelerator": "h100-sxm", "pci_device_id": "10de:2330"}),
    F("3090 renamed to 4090", "2xrtx-3090", "warn", "identity.sku", gpu={"name": "NVIDIA GeForce RTX 4090"}, order=None),
    F("3090 sold as 4090", "2xrtx-3090", "fail", "identity.sku", gpu={"name": "NVIDIA GeForce RTX 4090"}, order="rtx-4090"),
    F("4090 D sold as 4090", "4xrtx-4090", "fail", "identity.sms", gpu={"num_sms": 114}),
    F("4090 modified to 48 GB", "4xrtx-4090", "warn", "identity.memory", gpu={"memory_bytes": 48 * 2**30}),
    F("PCI id that nobody lists", "1xh100-sxm", "warn", "identity.sku", gpu={"accelerator": "", "pci_device_id": "10de:23ff"}),
    F("unknown board, nothing ordered", "1xl40s", "warn", "identity.sku", gpu={"accelerator": "", "pci_device_id": "10de:26ff"}, order=None),
    F("unknown board with half its memory rate", "1xh100-sxm", "fail", "memory.read", gpu={"accelerator": ""}, rates={"memory.(read|copy|triad)": 0.5}, order=None),
    F("MIG slice", "1xh100-sxm", "fail", "identity.mig", gpu={"mig_enabled": True, "num_sms": 60}),
    F("MIG slice by its name alone", "8xa100-sxm-80gb", "fail", "identity.virtualization", gpu={"name": "NVIDIA A100-SXM4-80GB MIG 3g.40gb", "mig_enabled": None}),
    F("vGPU by its name alone", "1xl40s", "fail", "identity.virtualization", gpu={"name": "NVIDIA L40S-24Q", "virtualization": ""}),
    F("vGPU", "1xt4", "fail", "identity.virtualization", gpu={"virtualization": "vgpu"}),
    F("shared with a neighbour", "1xl4", "warn", "identity.shared", gpu={"num_other_processes": 2, "memory_used_bytes": 6e9}),
    F("seven of eight", "8xh200-sxm", "fail", "identity.count", num=9),
    # memory
    F("memory below the claim", "1xh100-sxm", "fail", "memory.touch", values={"memory.touch": 0.90}),
    F("vGPU manager that patches the total", "1xl40s", "fail", "memory.touch", values={"memory.touch": 0.5}),
    F("half the memory", "1xb300-sxm", "fail", "identity.memory", gpu={"memory_bytes": 144e9}),
    F("memory that is 38 % slow", "1xh200-sxm", "fail", "memory.read", rates={"memory.(read|copy|triad)": 0.62}),
    F("B200 with Hopper's memory", "8xb200-sxm", "fail", "identity.bandwidth_peak", gpu={"bus_width_bits": 6144, "max_memory_clock_hz": 3201e6}),
    F("GDDR at half clock", "1xl40s", "fail", "health.memory_clock", seen={"memory_clock_hz": (405e6, 4500e6)}),
    F("ECC off on HBM", "8xa100-sxm-80gb", "fail", "identity.ecc", gpu={"ecc_enabled": False}),
    F("uncorrectable errors", "1xh100-pcie", "fail", "identity.ecc_errors", gpu={"ecc_uncorrected": 2}),
    F("worn V100", "8xv100-sxm2-16gb", "fail", "identity.ecc_errors", one={"num_retired_pages": 64}),
    F("a few retired pages on T4", "1xt4", "warn", "identity.ecc_errors", gpu={"num_retired_pages": 3}),
    # power, clocks, heat, rates
    F("450 W on a 700 W board, default lowered too", "1xh100-sxm", "fail", "identity.power_limit", gpu={"power_limit_w": 450.0, "power_default_w": 450.0}),
    F("4090 limited to 300 W", "4xrtx-4090", "fail", "identity.power_limit", gpu={"power_limit_w": 300.0}),
    F("RTX PRO 6000 at its lowest limit", "8xrtx-pro-6000-server", "fail", "identity.power_limit", gpu={"power_limit_w": 300.0, "power_default_w": 300.0}),
    F("A100 of 500 W held at 400", "8xa100-sxm-80gb", "warn", "identity.power_limit", gpu={"power_default_w": 500.0}),
    F("MI300X capped at 550 W", "8xmi300x", "fail", "identity.power_limit", gpu={"power_limit_w": 550.0}),
    F("clocks locked at 1.2 GHz", "1xh100-sxm", "fail", "health.sm_clock", seen={"sm_clock_hz": (1200e6, 1200e6)}),
    F("clock locked on a T4", "1xt4", "fail", "health.sm_clock", seen={"sm_clock_hz": (585e6, 585e6)}),
    F("sustained rate a third down", "1xh100-sxm", "fail", "compute.sustained", rates={"compute.sustained": 0.66}),
    F("sustained rate down, nothing ordered", "8xb200-sxm", "fail", "compute.sustained", rates={"compute.sustained": 0.6}, order=None),
    F("34 % slower H100 PCIe", "1xh100-pcie", "fail", "compute.matmul", rates={"compute": 0.655}),
    F("one slow GPU of eight", "8xa100-sxm-80gb", "fail", "health.peers", gpu0_rates={"compute": 0.85}),
    F("hot board", "4xrtx-5090", "fail", "health.throttle", seen={"throttle_reasons": ("hw_thermal",), "temperature_c": (60.0, 92.0)}),
    F("slot of four lanes", "1xl4", "fail", "identity.pcie", gpu={"pcie_max_width": 4}),
    F("link that stays at generation 1", "1xh100-pcie", "fail", "identity.pcie_under_load", seen={"pcie_generation": 1}),
    F("slow host link alone", "1xh100-pcie", "fail", "host_link", rates={"host_link": 0.5}),
    # nothing said, nothing passed
    F("no rate measured", "1xh100-sxm", "warn", "health.coverage", drop="memory|compute|host_link"),
    F("sustained rate left out", "8xh100-sxm", "warn", "health.coverage", drop="compute.sustained"),
    F("copies between GPUs left out", "4xa100-sxm-80gb", "warn", "health.coverage", drop="peer"),
    F("a GPU that hung", "2xh200-sxm", "fail", "health.coverage", drop="compute.matmul", lost="took longer than 60 s: stopped"),
]  # fmt: skip


def tampered(fraud: Fraud) -> list[Measurement]:
    """The rules' answer to the edited recording."""
    machine, found = honest(fraud.base)
    gpus = [
        gpu.model_copy(update={**fraud.gpu, **(fraud.one if gpu.index == 0 else {})}) for gpu in machine.gpus
    ]
    edited = []
    for m in found:
        if fraud.drop and re.match(fraud.drop, m.id):
            continue
        changes: dict[str, Any] = {}
        if isinstance(m.value, float):
            value = m.value
            for expression, factor in fraud.rates.items():
                value *= factor if re.match(expression, m.id) else 1.0
            for expression, factor in fraud.gpu0_rates.items():
                value *= factor if m.gpu == 0 and re.match(expression, m.id) else 1.0
            changes["value"] = fraud.values.get(m.id, value)
        if fraud.path and m.id == "peer.copy":
            changes["pattern"] = m.pattern.replace("peer access", fraud.path)
        if fraud.seen and m.conditions is not None:
            changes["conditions"] = m.conditions.model_copy(update=fraud.seen)
        edited.append(m.model_copy(update=changes))
    if fraud.lost:
        edited.append(
            Measurement(id="step.matmul", gpu=0, status="not_measured", note=fraud.lost, step="gpu0/matmul")
        )
    name = fraud.base.partition("x")[2] if fraud.order == "as sold" else fraud.order
    ordered = by_id(name) if name else None
    number = fraud.num or (len(gpus) if ordered else None)
    return assess(machine.model_copy(update={"gpus": tuple(gpus)}), edited, ordered, number)


@pytest.mark.parametrize("fraud", FRAUDS, ids=[fraud.name for fraud in FRAUDS])
def test_no_fraud_passes(fraud):
    checks = tampered(fraud)
    assert verdict(checks) == fraud.status, [(m.id, m.status, m.note) for m in checks if m.status == "fail"]
    telling = [m for m in checks if m.id.startswith(fraud.check) and m.status == fraud.status]
    assert telling, f"{fraud.check} does not say it"
    assert all(m.title and m.purpose and m.remediation for m in telling)


def test_frauds_are_many_and_of_every_class():
    assert len(FRAUDS) >= 40
    assert len({fraud.name for fraud in FRAUDS}) == len(FRAUDS)
    assert {fraud.base for fraud in FRAUDS} >= set(HONEST) - {"1xh200-sxm"}
