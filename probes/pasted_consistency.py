"""Check that pasted texts can be of one machine."""

from collections.abc import Iterable, Sequence
from typing import Any

from advisor.probes.pasted_machine import PastedProof, count_gpus_seen, join_reports
from advisor.probes.record import Gpu, Measurement, ProbedMachine


def check_consistency(proof: PastedProof, machine: ProbedMachine) -> Measurement:
    """Check that the texts can be of one machine."""
    faults = [*_repeats(machine.gpus), *_other_counts(proof, machine), *_other_names(proof, machine)]
    faults += [*_other_settings(proof), *_other_uuids(proof, machine)]
    words = "not of one machine" if faults else "of one machine"
    how: dict[str, Any] = {"instrument": "pasted", "note": "; ".join(faults)}
    return Measurement.ruled("pasted.consistent", words, "of one machine", not faults, **how)


def _repeats(gpus: Sequence[Gpu]) -> list[str]:
    found = []
    for noun, values in (
        ("UUID", [gpu.uuid for gpu in gpus]),
        ("serial number", [gpu.serial for gpu in gpus]),
    ):
        known = [value for value in values if value]
        if len(set(known)) < len(known):
            found.append(f"two GPUs have one {noun}")
    return found


def _other_counts(proof: PastedProof, machine: ProbedMachine) -> list[str]:
    number = len(machine.gpus)
    counts: list[tuple[str, int | None]] = []
    for report in proof.queries:
        counts.append(("the head of nvidia-smi -q", report.num_attached))
        counts.append(("nvidia-smi -q at another time", len(report.gpus)))
    for table in proof.tables:
        # `nvidia-smi -i 3` lists one GPU of several: a list that begins with GPU 0 and goes on is meant as whole.
        last = max(gpu.index for gpu in table.gpus)
        is_list = len(table.gpus) == last + 1 > 1
        counts.append(("a CSV of nvidia-smi", last + 1 if is_list or last >= number else None))
    counts.append(("nvidia-smi -L", len(proof.listed.gpus) if proof.listed else None))
    counts.append(("the table of nvidia-smi", len(proof.table.gpus) if proof.table else None))
    counts.append(("lspci", len(proof.pci_gpus) or None))
    counts.append(("the link matrix", proof.topology.num_gpus if proof.topology else None))
    seen = count_gpus_seen(proof)
    counts.append(("a report of rates", seen if seen > number else None))
    return [
        f"{name} has {count} GPUs, not {number}"
        for name, count in counts
        if count is not None and count != number
    ]


def _other_settings(proof: PastedProof) -> list[str]:
    """Return the settings of which the texts state two values for one GPU."""
    numbers: dict[str, list[int]] = {}
    for gpu, others in join_reports(proof):
        for noun in others:
            numbers.setdefault(noun, []).append(gpu.index)
    return [
        f"texts state two values of {noun} for GPU {', '.join(map(str, gpus))}"
        for noun, gpus in numbers.items()
    ]


def _other_uuids(proof: PastedProof, machine: ProbedMachine) -> list[str]:
    """Return what tells GPUs of another machine by their UUIDs, where every GPU's is known."""
    known = {gpu.uuid for gpu in machine.gpus}
    lists = (*proof.queries, *proof.tables, proof.listed)
    told = {gpu.uuid for report in lists if report for gpu in report.gpus}
    told |= {one for one in proof.processes or () if one.startswith("GPU-")}
    others = told - known - {""}
    return [f"{len(others)} UUIDs are of other GPUs"] if others and known and "" not in known else []


def _other_names(proof: PastedProof, machine: ProbedMachine) -> list[str]:
    names = {gpu.name for gpu in machine.gpus if gpu.name}
    told = {report.device for report in proof.links} | {run.device for run in proof.runs}
    for report in (proof.table, proof.listed, *proof.tables):
        told |= {gpu.name for gpu in report.gpus} if report else set()
    found = [f"a report is of {name}" for name in sorted(told - {""}) if names and not _is_among(name, names)]
    ids = {gpu.pci_device_id for gpu in machine.gpus if gpu.pci_device_id}
    seen = {one for report in proof.links for one in report.pci_device_ids} | set(proof.pci_gpus)
    return found + [f"a report is of PCI device {one}" for one in sorted(seen) if ids and one not in ids]


def _is_among(name: str, names: Iterable[str]) -> bool:
    """Whether a name is one of the names; the table of nvidia-smi ends long names with dots."""
    ends = name.rstrip(".")
    return any(name == other or (ends != name and other.startswith(ends)) for other in names)
