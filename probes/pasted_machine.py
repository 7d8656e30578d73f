"""Content of pasted texts about one machine, and the machine that they describe together."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from advisor.catalog.formats.link_report import LinkReport
from advisor.catalog.formats.nccl_tests import NcclTestsRun
from advisor.probes.joined_gpus import join_gpus
from advisor.probes.pasted_csv import CsvReport
from advisor.probes.pasted_smi import SmiReport, with_changes
from advisor.probes.pci_ids import accelerator_of
from advisor.probes.record import Gpu, LinkTopology, NetworkPort, ProbedMachine


@dataclass(slots=True)
class PastedProof:
    """Content of several pasted texts about one machine."""

    queries: list[SmiReport] = field(default_factory=list)
    table: SmiReport | None = None
    listed: SmiReport | None = None
    tables: list[CsvReport] = field(default_factory=list)
    """CSV of nvidia-smi that lists GPUs."""
    processes: list[str] | None = None
    """UUID of the GPU of each process in a CSV of nvidia-smi; None if no text lists processes."""
    topology: LinkTopology | None = None
    ports: tuple[NetworkPort, ...] | None = None
    pci_gpus: tuple[str, ...] = ()
    """PCI ids of GPUs in `lspci -nn`."""
    is_pci_listed: bool = False
    """Whether a text is `lspci`, with GPUs or without."""
    links: list[LinkReport] = field(default_factory=list)
    runs: list[NcclTestsRun] = field(default_factory=list)
    sources: list[dict[str, str]] = field(default_factory=list)
    """Name of each file and the formats that were found in it."""


def machine_of(proof: PastedProof) -> ProbedMachine:
    """Return the machine that the texts describe; of a GPU that no text describes only its number is known."""
    gpus = tuple(joined for joined, _ in join_reports(proof))
    if not gpus:
        gpus = _gpus_of_ids(max((report.pci_device_ids for report in proof.links), key=len, default=()))
    if not gpus:
        told = {run.device for run in proof.runs} | {report.device for report in proof.links}
        names = sorted(told - {""})
        name = names[0] if len(names) == 1 else ""
        number = max(count_gpus_seen(proof), len(set(proof.processes or ())))
        gpus = tuple(Gpu(index=i, name=name, vendor="nvidia") for i in range(number))
    drivers = [report.driver for report in (*proof.queries, proof.table, *proof.tables) if report]
    return ProbedMachine(
        driver=next(filter(None, drivers), ""),
        gpus=_with_processes(gpus, proof.processes),
        topology=proof.topology,
        network_ports=proof.ports,
        runtime="pasted",
    )


def join_reports(proof: PastedProof) -> list[tuple[Gpu, tuple[str, ...]]]:
    """Return each GPU by all texts that list GPUs, and the settings that they contradict.

    The first text that lists the machine says how many there are, the others what it leaves open.
    """
    whole = [report for report in proof.queries if report.is_whole]
    lists: list[Sequence[Gpu]] = [with_changes(whole).gpus] if whole else []
    lists += [report.gpus for report in proof.tables]
    lists += [proof.table.gpus] if proof.table else []
    lists += [report.gpus for report in proof.queries if not report.is_whole]
    lists += [_gpus_of_ids(proof.pci_gpus)] if proof.pci_gpus else []
    lists += [proof.listed.gpus] if proof.listed else []
    first = next((gpus for gpus in lists if gpus), ())
    found = []
    for gpu in first:
        same = (other for gpus in lists for other in gpus if other is not gpu and _is_same_gpu(gpu, other))
        found.append(join_gpus([gpu, *same]))
    return found


def _is_same_gpu(gpu: Gpu, other: Gpu) -> bool:
    """Whether two reports mean one GPU: by UUID where both state it, else by number."""
    return gpu.uuid == other.uuid if gpu.uuid and other.uuid else gpu.index == other.index


def _with_processes(gpus: tuple[Gpu, ...], processes: Sequence[str] | None) -> tuple[Gpu, ...]:
    """Return the GPUs with the number of processes that a list of processes shows on each."""
    if processes is None or not gpus:
        return gpus
    uuids = [gpu.uuid for gpu in gpus]
    places = dict(zip(uuids if all(uuids) else dict.fromkeys(processes), range(len(gpus)), strict=False))
    numbers = [sum(places.get(one) == place for one in processes) for place in range(len(gpus))]
    return tuple(
        gpu.model_copy(update={"num_other_processes": max(number, gpu.num_other_processes or 0)})
        for gpu, number in zip(gpus, numbers, strict=True)
    )


def _gpus_of_ids(pci_ids: Sequence[str]) -> tuple[Gpu, ...]:
    return tuple(
        Gpu(index=i, vendor="nvidia", pci_device_id=pci_id, accelerator=accelerator_of(pci_id))
        for i, pci_id in enumerate(pci_ids)
    )


def count_gpus_seen(proof: PastedProof) -> int:
    """Number of GPUs that matrices, rates and diagnostics show [count]."""
    numbers = [
        number + 1
        for report in proof.links
        for rate in report.rates
        for number in (rate.source, rate.target)
        if number is not None
    ]
    numbers += [len(report.pci_device_ids) for report in proof.links]
    numbers += [
        run.num_ranks // run.num_nodes
        for run in proof.runs
        if run.num_nodes and run.num_ranks % run.num_nodes == 0
    ]
    return max([*numbers, proof.topology.num_gpus if proof.topology else 0])
