"""Verdict on a recording: every rule over the machine and its measurements, without hardware."""

from collections.abc import Iterable, Sequence
from typing import Final

from advisor.catalog.accelerators import all_accelerators, by_id
from advisor.catalog.schema import Accelerator
from advisor.probes.error_counts import check_errors
from advisor.probes.identity_rules import DATA_RATE, check_conditions, check_machine
from advisor.probes.network import check_network
from advisor.probes.record import Gpu, Measurement, ProbedMachine, Status
from advisor.probes.verdict import judge, remove_verdict, with_text

_MUST_BE_JUDGED: Final = ("memory.touch", "memory", "compute.matmul", "compute.sustained")
_MUST_BE_RIGHT: Final = ("truth.product", "truth.sum", "truth.copy")
_MUST_BE_MEASURED: Final = ("host_link",)
_GROUP_MUST_BE_MEASURED: Final = ("peer.copy", "collective.all_reduce")
JUDGED: Final = ("pass", "warn", "fail")
HUNG: Final = "took longer than"
"""Words in the note of a step that was stopped because it hung."""


def assess(
    machine: ProbedMachine,
    measured: Iterable[Measurement],
    ordered: Accelerator | None = None,
    num_ordered: int | None = None,
    network: str = "",
) -> list[Measurement]:
    """Return all checks of a machine: identity, health, every rate, and whether enough was measured for a verdict.

    `measured`: measurements of the steps, judged or not. `network`: the network that was ordered, in words. A machine
    passes only if every GPU's memory, matmuls, sustained rate and host link were measured, and so were the copies and
    sums between GPUs.
    """
    found = [remove_verdict(m) for m in measured]
    board = ordered or claimed_board(machine)
    checks = check_machine(machine, board, num_ordered, is_ordered=ordered is not None)
    checks += check_conditions(found, machine.gpus)
    checks += check_errors(machine.gpus)
    checks += check_network(machine, network)
    judged = judge(found, board, machine)
    return checks + judged + [with_text(m) for m in coverage(machine, judged)]


def claimed_board(machine: ProbedMachine) -> Accelerator | None:
    """Return the claimed board of the machine: the first GPU's board by its PCI id, else one derived from its driver's
    figures.

    None without a GPU.
    """
    names = [gpu.accelerator for gpu in machine.gpus if gpu.accelerator]
    if names:
        return by_id(names[0])
    return derived_board(machine.gpus[0]) if machine.gpus else None


UNKNOWN: Final = "unknown"


def derived_board(gpu: Gpu) -> Accelerator:
    """Return a board that the catalog does not have, from its driver's figures.

    Bandwidth is bus × clock; matrix peaks are those of the slowest relative (the same compute capability) per
    multiprocessor and clock. Figures that cannot be derived stay empty and are not judged.
    """
    relatives = [a for a in all_accelerators() if gpu.compute_capability == a.compute_capability != ""]
    peaks: dict[str, float] = {}
    for relative in relatives:
        if relative.num_sms and relative.clock_hz and gpu.num_sms and gpu.max_sm_clock_hz:
            scale = gpu.num_sms * gpu.max_sm_clock_hz / (relative.num_sms * relative.clock_hz)
            for name, peak in relative.peak_flop_per_s.items():
                peaks[name] = min(peaks.get(name, scale * peak), scale * peak)
    known = gpu.bus_width_bits and gpu.max_memory_clock_hz
    return Accelerator(
        id=UNKNOWN,
        vendor="amd" if gpu.vendor == "amd" else "nvidia",
        name=f"an unknown board ({gpu.name or gpu.pci_device_id})",
        architecture=relatives[0].architecture if relatives else "",
        compute_capability=gpu.compute_capability,
        bandwidth_bytes_per_s=(gpu.bus_width_bits or 0) / 8 * (gpu.max_memory_clock_hz or 0.0) * DATA_RATE
        if known
        else None,
        peak_flop_per_s=peaks,
        pcie_generation=gpu.pcie_max_generation,
        pcie_lanes=gpu.pcie_max_width,
    )


def coverage(machine: ProbedMachine, judged: Sequence[Measurement]) -> list[Measurement]:
    """Check whether each GPU, and the group, was measured in everything that a verdict needs; a GPU that hung fails."""
    checks = []
    for gpu in machine.gpus:
        own = [m for m in judged if m.gpu == gpu.index]
        missing = [name for name in _MUST_BE_JUDGED if not _has(own, name, must_be_judged=True)]
        missing += [name for name in _MUST_BE_MEASURED if not _has(own, name)]
        if any(
            m.id.startswith(("truth.", "step.truth")) for m in own
        ):  # recordings before 2026-11-27 lack it
            missing += [name for name in _MUST_BE_RIGHT if not _has(own, name, must_be_judged=True)]
        checks.append(_judge_coverage(gpu.index, missing, [m for m in own if m.id.startswith("step.")]))
    if len(machine.gpus) > 1:
        missing = [name for name in _GROUP_MUST_BE_MEASURED if not _has(judged, name)]
        lost = [
            m for m in judged if m.gpu is None and m.step.startswith("group/") and m.id.startswith("step.")
        ]
        checks.append(_judge_coverage(None, missing, lost))
    return checks


def _has(judged: Iterable[Measurement], name: str, *, must_be_judged: bool = False) -> bool:
    return any(
        (m.id == name or m.id.startswith(f"{name}."))
        and m.value is not None
        and (not must_be_judged or m.status in JUDGED)
        and (name != "memory" or m.id != "memory.touch")
        for m in judged
    )


def _judge_coverage(gpu: int | None, missing: Sequence[str], lost: Sequence[Measurement]) -> Measurement:
    hung = any(HUNG in m.note for m in lost)
    reasons = dict.fromkeys(f"{m.id.removeprefix('step.')}: {m.note}" for m in lost)
    status: Status = "fail" if hung else "warn" if missing else "pass"
    words = f"without {', '.join(missing)}" if missing else "complete"
    return Measurement.ruled("health.coverage", words, "complete", status, gpu=gpu, note="; ".join(reasons))
