"""Verdict on pasted reports of a machine on which nothing can be installed: several texts make one machine."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from advisor.catalog import accelerators
from advisor.catalog.errors import InputFileError, UnknownNameError
from advisor.catalog.formats.link_report import HealthCheck
from advisor.catalog.formats.nccl_tests import NcclTestsRun
from advisor.catalog.formats.registry import FORMATS
from advisor.catalog.schema import Accelerator
from advisor.catalog.units import GIB, GIGA, MIB
from advisor.probes.assess import JUDGED, claimed_board
from advisor.probes.error_counts import check_errors
from advisor.probes.identity_rules import check_conditions, check_machine
from advisor.probes.link_judgement import STATUSES, excuse_sockets, measurement_of
from advisor.probes.network import check_network, judge_between_hosts, judge_port
from advisor.probes.pasted_consistency import check_consistency
from advisor.probes.pasted_csv import is_smi_csv, read_smi_csv
from advisor.probes.pasted_machine import PastedProof, count_gpus_seen, machine_of
from advisor.probes.pasted_network import is_pci_list, is_port_list, read_pci_list, read_port_list
from advisor.probes.pasted_smi import (
    is_smi_list,
    is_smi_query,
    is_smi_table,
    read_smi_list,
    read_smi_query,
    read_smi_table,
)
from advisor.probes.process import ANY, algorithm_of
from advisor.probes.record import (
    Conditions,
    Measurement,
    ProbedMachine,
    Status,
)
from advisor.probes.topology import read_matrix
from advisor.probes.verdict import judge, with_text

_JUDGED_FROM_BYTES: Final = 128 * MIB
"""Size of a message from which on its bus bandwidth is judged as that of 1 GiB: H200s reach 94 % of it at 128 MiB."""
_SAME_MEAN: Final = 0.01
_ROUNDING_BYTES_PER_S: Final = 0.005 * GIGA
"""Difference of a stated mean from that of rows with two decimals that rounding explains, on top of 1 %."""
_LOAD_TESTS: Final = ("bandwidth", "stress", "power", "diagnostic", "memtest", "pulse")
"""Words in the names of dcgmi's tests that load a GPU (levels 2 to 4)."""
_GROUPS: Final = {"dcgmi": "dcgm", "nvidia-smi": "topology", "nvbandwidth": "truth"}
"""Beginning of the ids of a program's checks."""
CERTAINTY: Final = (
    "Pasted text is less certain than a probe: whoever sends it can edit it, it shows what programs printed and not "
    "what was checked here, and no product was checked for right values."
)


def read_proof(texts: Iterable[tuple[str, str]]) -> PastedProof:
    """Return what texts of given names say about one machine; one text may hold several outputs.

    Raises: InputFileError: a text holds nothing that is read, or was cut.
    """
    proof = PastedProof()
    for name, text in texts:
        try:
            found = [reader.title for reader in _READERS if reader.take(proof, text)]
        except InputFileError as error:
            raise InputFileError(f"{name}: {error.what}", why=error.why, fix=error.fix) from None
        if not found:
            raise InputFileError(
                f"{name}: no report about a machine" if text.strip() else f"{name}: is empty",
                why=f"it begins with {' '.join(text.split())[:60]!r}" if text.strip() else "",
                fix=f"paste the output of {', '.join(reader.title for reader in _READERS)}",
            )
        proof.sources.append({"file": name, "formats": ", ".join(found)})
    return proof


def _take_query(proof: PastedProof, text: str) -> bool:
    if not is_smi_query(text):
        return False
    logs = [log for log in re.split(r"=+NVSMI LOG=+", text) if "Attached GPUs" in log or "Device Id" in log]
    proof.queries += [read_smi_query(log) for log in logs]
    return True


def _take_table(proof: PastedProof, text: str) -> bool:
    if is_smi_table(text):
        proof.table = read_smi_table(text)
    return is_smi_table(text)


def _take_csv(proof: PastedProof, text: str) -> bool:
    if not is_smi_csv(text):
        return False
    report = read_smi_csv(text)
    if report.gpus:
        proof.tables.append(report)
    if report.processes is not None:
        proof.processes = [*(proof.processes or ()), *report.processes]
    return True


def _take_list(proof: PastedProof, text: str) -> bool:
    if is_smi_list(text):
        proof.listed = read_smi_list(text)
    return is_smi_list(text)


def _take_ports(proof: PastedProof, text: str) -> bool:
    if is_port_list(text):
        proof.ports = read_port_list(text)
    return is_port_list(text)


def _take_pci(proof: PastedProof, text: str) -> bool:
    if not is_pci_list(text):
        return False
    proof.is_pci_listed = True
    proof.pci_gpus, ports = read_pci_list(text)
    if proof.ports is None and ports:
        proof.ports = ports
    return True


def _take_format(identifier: str) -> Callable[[PastedProof, str], bool]:
    """Return the function that takes one of the formats of the catalog's registry."""
    found = next(one for one in FORMATS if one.id == identifier)

    def take(proof: PastedProof, text: str) -> bool:
        if not found.is_it(text):
            return False
        content = found.read(text)
        if isinstance(content, NcclTestsRun):
            proof.runs.append(content)
        else:
            proof.links.append(content)
            proof.topology = read_matrix(content.matrix) if content.matrix else proof.topology
        return True

    return take


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reader of the output of one program."""

    title: str
    take: Callable[[PastedProof, str], bool]
    judged_by: tuple[str, ...] = ("identity.",)
    """Beginnings of the checks that judge what the program shows."""
    reason: str = "the board is not known; --expect names the one that was ordered"
    """Why none of these checks may judge it."""


_READERS: Final = (
    _Reader("nvidia-smi -q", _take_query),
    _Reader("nvidia-smi", _take_table),
    _Reader("nvidia-smi -L", _take_list),
    _Reader(
        "nvidia-smi --query-gpu",
        _take_csv,
        ("identity.", "health."),
        "its columns are judged where the board is known; --expect names the one that was ordered",
    ),
    _Reader("ibstat", _take_ports, ("identity.network",), "--network names the network that was ordered"),
    _Reader("lspci -nn", _take_pci),
    _Reader(
        "nvidia-smi topo -m",
        _take_format("gpu-topology"),
        ("identity.nvlink", "topology."),
        "links are judged of several GPUs whose board is known and is sold with NVLink to all others",
    ),
    _Reader(
        "nvbandwidth",
        _take_format("nvbandwidth"),
        ("host_link.", "peer.", "health.peers.", "truth."),
        "copies between host and GPU, and between GPUs, are judged where the board is known",
    ),
    _Reader("dcgmi diag", _take_format("dcgm-diag"), ("dcgm.",), "it states no result of a test"),
    _Reader(
        "nccl-tests",
        _take_format("nccl-tests"),
        ("collective.all_reduce", "network.rate"),
        "an all-reduce of 128 MiB or more is judged, on one host by the board, between hosts by the rate that "
        "--network names; advisor validate file judges the others",
    ),
    _Reader(
        "ib_write_bw",
        _take_format("network-rates"),
        ("network.rate",),
        "--network names the rate of the port that was ordered",
    ),
)


def assess_proof(
    proof: PastedProof, ordered: Accelerator | None, num_ordered: int | None, network: str
) -> tuple[ProbedMachine, Accelerator | None, list[Measurement]]:
    """Return the machine, the board that it is judged as, and all checks of the pasted texts against the order."""
    machine = machine_of(proof)
    named = any(gpu.accelerator or gpu.name for gpu in machine.gpus)
    board = ordered or _board_by_name(machine) or (claimed_board(machine) if named else None)
    # Where no text shows a GPU, none says that there is none: their number is not judged.
    counted = num_ordered if machine.gpus or _shows_devices(proof) else None
    checks = check_machine(machine, board, counted, is_ordered=ordered is not None)
    if not _shows_devices(proof) and proof.topology is None and not proof.links:
        checks = [_as_least_count(check) for check in checks]
    checks += check_conditions([*_states(machine), *_samples(proof)], machine.gpus)
    checks += check_errors(machine.gpus)
    number = max(len(machine.gpus), count_gpus_seen(proof))
    found = [rate for report in proof.links for rate in report.rates]
    rates = [measurement_of(rate, number) for rate in found if rate.check != "network.port"]
    ports = [
        judge_port(rate.bytes_per_s, rate.test, network) for rate in found if rate.check == "network.port"
    ]
    for run in proof.runs:
        hosts = _num_hosts(run, num_ordered or number)
        if hosts > 1:
            size = max(row.num_bytes for row in run.rows)
            each = run.num_ranks // hosts
            ports += [judge_between_hosts(m, size, each, network, board) for m in _largest(run, hosts)]
        else:
            rates += _largest(run, 1)
    checks += check_network(machine, network, ports)
    checks += excuse_sockets(judge(rates, board, machine), board)
    health = [_health(check) for report in proof.links for check in report.checks]
    checks += [with_text(check) for check in (*health, *_sums(proof), *_means(proof))]
    checks += [with_text(check) for check in (check_consistency(proof, machine), _coverage(proof, machine))]
    checks += list(_list_tell_unjudged(proof, checks))
    return machine, board, checks


def _as_least_count(check: Measurement) -> Measurement:
    """Return a failed check of the number of GPUs as a warning: a run may use fewer GPUs than there are."""
    if (
        check.id != "identity.count"
        or check.status != "fail"
        or float(check.value or 0) > float(check.expected or 0)
    ):
        return check
    note = "ranks of a run, which may be fewer than the GPUs"
    remediation = "Paste nvidia-smi -L, which lists all GPUs."
    return check.model_copy(update={"status": "warn", "note": note, "remediation": remediation})


def _shows_devices(proof: PastedProof) -> bool:
    """Whether a text lists the devices of the machine, so that a GPU which it lacks is not there."""
    return bool(proof.queries or proof.tables or proof.table or proof.listed) or proof.is_pci_listed


def _board_by_name(machine: ProbedMachine) -> Accelerator | None:
    """Return the board that the driver's name of the first GPU means where no text states a PCI id; None if unknown."""
    if not machine.gpus or any(gpu.accelerator for gpu in machine.gpus):
        return None
    try:
        return accelerators.get(machine.gpus[0].name).record
    except UnknownNameError:
        return None


def _states(machine: ProbedMachine) -> list[Measurement]:
    """Return each GPU's temperature and throttling at the moment of its report, as a measurement's conditions."""
    found = []
    for gpu in machine.gpus:
        hot = (gpu.temperature_c, gpu.temperature_c) if gpu.temperature_c is not None else None
        state = Conditions(temperature_c=hot, throttle_reasons=gpu.throttle_reasons, num_samples=1)
        if hot is not None or gpu.throttle_reasons:
            found.append(Measurement(id="pasted.state", gpu=gpu.index, conditions=state))
    return found


def _samples(proof: PastedProof) -> Iterator[Measurement]:
    """Yield the state of each GPU that a CSV of nvidia-smi shows, at one moment or in a loop."""
    for report in proof.tables:
        for index, state in report.conditions:
            yield Measurement(id="pasted.state", gpu=index, conditions=state)


def _num_hosts(run: NcclTestsRun, num_gpus: int) -> int:
    """Number of hosts of a run [count]: as its header lists them, else the ranks over the GPUs of one host, rounded
    as ranks read from a ratio of bandwidths are not exact."""
    return run.num_nodes or max(1, round(run.num_ranks / num_gpus) if num_gpus else 1)


def _largest(run: NcclTestsRun, num_hosts: int) -> list[Measurement]:
    """Return the fastest large message of a run; none if no message is large."""
    large = [row for row in run.rows if row.num_bytes >= _JUDGED_FROM_BYTES]
    if not large:
        return []
    best = max(large, key=lambda row: row.bus_bytes_per_s)
    where = f"{num_hosts} hosts" if num_hosts > 1 else algorithm_of(run.num_ranks, dict(run.variables), ANY)
    pattern = f"{run.num_ranks} ranks, {where}, {best.num_bytes / GIB:.3g} GiB"
    return [
        Measurement(
            id=f"collective.{run.operation}",
            instrument="pasted",
            pattern=pattern,
            value=best.bus_bytes_per_s,
            unit="bytes/s",
        )
    ]


def _sums(proof: PastedProof) -> Iterator[Measurement]:
    """Yield the check of each run's sums: its rows count wrong values, whatever its last line states, if it has one."""
    for run in proof.runs:
        if run.stated_wrong is None and not run.is_checked:
            continue
        notes = [f"{run.num_wrong:,} values are wrong in the rows (#wrong)"] if run.num_wrong else []
        if run.stated_wrong:
            notes.append(f"{run.stated_wrong:,} values are out of bounds by the last line")
        elif run.num_wrong and run.stated_wrong == 0:
            notes.append("the last line says that none is out of bounds: figures were edited")
        how: dict[str, Any] = {"instrument": "pasted", "pattern": run.operation, "note": "; ".join(notes)}
        words = "wrong" if notes else "right"
        yield Measurement.ruled("collective.sum_is_right", words, "right", not notes, **how)


def _means(proof: PastedProof) -> Iterator[Measurement]:
    """Yield the mean that each nccl-tests states, held against its rows: a text whose rows are all there was edited."""
    for run in proof.runs:
        stated = run.stated_mean_bytes_per_s
        if stated is None:
            continue
        mean = run.mean_bytes_per_s
        is_right = abs(stated - mean) <= _SAME_MEAN * max(stated, mean) + _ROUNDING_BYTES_PER_S
        status: Status = "pass" if is_right else "fail" if run.is_whole else "warn"
        note = (
            ""
            if is_right
            else "figures were edited"
            if run.is_whole
            else "rows were left out, or figures were edited"
        )
        words = {"value": stated, "expected": mean, "required": mean, "operator": "==", "unit": "bytes/s"}
        yield Measurement(
            id="pasted.mean",
            instrument="pasted",
            pattern=run.operation,
            status=status,
            note=note,
            source="rule",
            **words,
        )


def _health(check: HealthCheck) -> Measurement:
    name = re.sub(r"[^a-z0-9]+", "_", check.name.lower()).strip("_")
    how: dict[str, Any] = {"instrument": check.program, "note": check.detail}
    return Measurement.ruled(
        f"{_GROUPS[check.program]}.{name}", check.status, "pass", STATUSES[check.status], **how
    )


def _coverage(proof: PastedProof, machine: ProbedMachine) -> Measurement:
    """Check whether the texts show enough; what is missing is named by the command that shows it."""
    rates = {rate.check for report in proof.links for rate in report.rates}
    ran = (check for report in proof.links for check in report.checks if check.status != "skip")
    tests = [check.name.lower() for check in ran]
    read = {name for source in proof.sources for name in source["formats"].split(", ")}
    within = [run for run in proof.runs if _num_hosts(run, len(machine.gpus)) == 1]
    # A program of which the needed part alone is missing is named by that part.
    needed = [
        ("nvidia-smi -q", "", bool(proof.queries)),
        ("nvbandwidth", "host_to_device_memcpy_ce", bool(rates & {"host_link.h2d", "host_link.d2h"})),
        ("dcgmi diag", "-r 3", any(word in test for test in tests for word in _LOAD_TESTS)),
    ]
    if len(machine.gpus) > 1:
        needed.append(("nvidia-smi topo -m", "", proof.topology is not None))
        sums = any(run.operation == "all_reduce" for run in within)
        needed.append(("nccl-tests", "all_reduce_perf on one host", sums))
    missing = [
        f"{part} by {title}" if title in read else f"{title} ({part})" if part else title
        for title, part, is_shown in needed
        if not is_shown
    ]
    words = "incomplete" if missing else "complete"
    status: Status = "warn" if missing else "pass"
    how: dict[str, Any] = {"instrument": "pasted", "note": f"without {', '.join(missing)}" if missing else ""}
    return Measurement.ruled("pasted.coverage", words, "complete", status, **how)


def _list_tell_unjudged(proof: PastedProof, checks: Sequence[Measurement]) -> Iterator[Measurement]:
    """Yield what was read and judged by no check, with the reason."""
    unused = dict.fromkeys(name for table in proof.tables for name in table.unused)
    at_rest = dict.fromkeys(name for table in proof.tables for name in table.at_rest)
    for columns, reason in (
        (unused, "no check rests on such a column"),
        (at_rest, "judged under load, where utilization.gpu of the same row shows one"),
    ):
        if columns:
            yield _tell_unjudged(f"{', '.join(columns)} of nvidia-smi --query-gpu", reason)
    judged = [check.id for check in checks if check.status in JUDGED]
    for source in proof.sources:
        for reader in _READERS:
            if reader.title in source["formats"].split(", ") and not any(
                name.startswith(reader.judged_by) for name in judged
            ):
                yield _tell_unjudged(f"{reader.title} ({source['file']})", reader.reason)


def _tell_unjudged(words: str, reason: str) -> Measurement:
    """Return what was read, in words, and why no check rests on it."""
    how: dict[str, Any] = {"instrument": "pasted", "status": "not_measured", "note": reason}
    return Measurement(id="pasted.unjudged", value=words, **how)
