"""JSON document of a probe's result: writer and reader."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.files import check_record, data_files, parsed_json, read_text
from advisor.catalog.schema import Accelerator
from advisor.probes.assess import UNKNOWN
from advisor.probes.record import Measurement, ProbedMachine, Status, redact
from advisor.probes.verdict import verdict

KIND: Final = "probe"
PROOF_KIND: Final = "pasted_proof"
"""Kind of a saved verdict on pasted texts, which has neither seal nor version of the measurements."""
BENCHMARK_VERSION: Final = 1
"""Version of the measurements, raised when a change makes figures incomparable with earlier ones."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Result of one probe of one machine."""

    machine: ProbedMachine
    measurements: tuple[Measurement, ...]
    accelerator: str = ""
    """Board that the probe was judged as: the ordered one or, without an order, the claimed one."""
    mode: str = "quick"
    measured_on: str = ""
    tool_version: str = ""
    is_complete: bool = True
    sources: tuple[dict[str, str], ...] = ()
    """Files of pasted texts and their formats, where nothing was measured here; none for a probe."""
    is_sealed: bool = True
    """Whether the file has a seal that fits its content; files of versions before the seal have none."""

    @property
    def verdict(self) -> Status:
        return verdict(self.measurements)

    def remediation(self) -> list[dict[str, object]]:
        """Return the remedy for every check that failed or warned, worst first."""
        wrong = [m for m in self.measurements if m.status in ("fail", "warn")]
        wrong.sort(key=lambda m: m.status != "fail")
        return [{"id": m.id, "gpu": m.gpu, "status": m.status, "action": m.remediation} for m in wrong]


def seal_of(probe: Probe) -> str:
    """Return a digest of the results, which a file edited by hand no longer fits. The digest is not a signature and
    proves no origin."""
    head = (probe.accelerator, probe.mode, probe.measured_on, str(probe.is_complete))
    digest = hashlib.sha256("\n".join(head).encode())
    # The seal covers the values as a file gives them back: numbers that torch delivered whole are floats in some
    # fields.
    machine = ProbedMachine.model_validate(redact(probe.machine).model_dump())
    for record in (machine, *probe.measurements):
        values = record.model_dump(mode="json", exclude_defaults=True)
        digest.update(json.dumps(values, sort_keys=True).encode())
    return digest.hexdigest()


def content_of(probe: Probe) -> dict[str, object]:
    """Return the fields of the JSON document; host name, serial numbers and UUIDs are redacted."""
    return {
        "kind": KIND,
        "benchmark_version": BENCHMARK_VERSION,
        "mode": probe.mode,
        "measured_on": probe.measured_on,
        "accelerator": probe.accelerator,
        "is_complete": probe.is_complete,
        "verdict": probe.verdict,
        "machine": redact(probe.machine),
        "measurements": probe.measurements,
        "seal": seal_of(probe),
        "remediation": probe.remediation(),
    }


def probe_of(
    machine: ProbedMachine,
    measurements: Sequence[Measurement],
    accelerator: Accelerator | None,
    *,
    quick: bool,
    measured_on: str,
    is_complete: bool = True,
) -> Probe:
    """Return a probe made of measurements of one machine."""
    return Probe(
        machine=machine,
        measurements=tuple(measurements),
        accelerator=accelerator.id if accelerator and accelerator.id != UNKNOWN else "",
        mode="quick" if quick else "full",
        measured_on=measured_on,
        is_complete=is_complete,
    )


def find_recording(path: Path) -> Path:
    """Return the newest recording of the catalog with this name, e.g. h200-sxm-x8, if no file has the name."""
    if path.exists() or path.suffix or len(path.parts) > 1:
        return path
    named = [file for file in _list_recordings() if _recording_name(file) == path.name]
    return named[-1] if named else path


def recordings() -> list[str]:
    """Return the names of the catalog's recordings of whole machines, e.g. h200-sxm-x8."""
    return sorted({_recording_name(file) for file in _list_recordings()})


def _list_recordings() -> tuple[Path, ...]:
    return data_files("measured/*-x[0-9]*-[0-9]*.json")


def _recording_name(file: Path) -> str:
    """Return the name of a recording without the day at its end, e.g. h200-sxm-x8."""
    return file.stem.rsplit("-", 3)[0]


def read_probe(path: Path) -> Probe:
    """Return the probe in a JSON file, or the bundled recording of that name.

    Raises: InputFileError: the file cannot be read, is not JSON, or does not hold a probe that this version
      understands.
    """
    found = read_verdict(path)
    if found.sources:
        raise InputFileError(
            f"{path}: is no probe",
            why="it is a verdict on pasted texts, for which nothing was measured here",
            fix=f"show it again with advisor probe show {path}, or measure with advisor probe -o FILE",
        )
    return found


def read_verdict(path: Path) -> Probe:
    """Return what `advisor probe` or `advisor probe read` wrote, or the bundled recording of that name.

    Raises: InputFileError: the file cannot be read, is not JSON, or holds neither.
    """
    found = find_recording(path)
    if not found.exists() and not path.suffix and len(path.parts) == 1:
        raise InputFileError(
            f"{path}: no such file, and no recording has that name",
            fix=f"name a file that `advisor probe -o FILE` wrote, or one of {', '.join(recordings())}",
        )
    path = found
    try:
        values = parsed_json(read_text(path))
    except (ValueError, RecursionError) as error:
        raise InputFileError(
            f"{path}: not valid JSON",
            why=f"{error}; a copy that was cut off ends like this",
            fix="name the whole file that `advisor probe -o FILE` wrote",
        ) from None
    if not isinstance(values, dict) or values.get("kind") not in (KIND, PROOF_KIND):
        raise InputFileError(
            f"{path}: is no probe",
            why=f'its field kind is not "{KIND}"',
            fix="name a file that `advisor probe -o FILE` wrote",
        )
    is_proof = values["kind"] == PROOF_KIND
    if not is_proof and values.get("benchmark_version") != BENCHMARK_VERSION:
        raise InputFileError(
            f"{path}: written by another version of the benchmark",
            why=f"benchmark_version is {values.get('benchmark_version')!r}, this is {BENCHMARK_VERSION}",
            fix="measure again with this version: advisor probe -o FILE",
        )
    rows = _list_of(values, "measurements", path)
    machine = check_record(
        ProbedMachine, _mapping(values.get("machine"), "machine", path), f"{path}: machine"
    )
    measurements = tuple(
        check_record(Measurement, _mapping(row, f"measurements[{i}]", path), f"{path}: measurements[{i}]")
        for i, row in enumerate(rows)
    )
    seal = values.get("seal")
    probe = Probe(
        machine=machine,
        measurements=measurements,
        accelerator=str(values.get("accelerator", "")),
        mode=str(values.get("mode", "quick")),
        measured_on=str(values.get("measured_on", "")),
        tool_version=str(values.get("tool_version", "")),
        is_complete=bool(values.get("is_complete", True)),
        sources=_sources_of(values, path) if is_proof else (),
        is_sealed=seal is not None,
    )
    if seal is not None and seal != seal_of(probe):
        raise InputFileError(
            f"{path}: does not hold what was measured",
            why="its seal does not fit: it was edited after the probe wrote it",
            fix="measure again, or name the file as it was written",
        )
    return probe


def _sources_of(values: dict[str, Any], path: Path) -> tuple[dict[str, str], ...]:
    rows = [_mapping(row, "sources", path) for row in _list_of(values, "sources", path)]
    if not rows:
        raise InputFileError(f"{path}: sources is empty", fix="name a file that advisor wrote")
    return tuple({"file": str(row.get("file", "")), "formats": str(row.get("formats", ""))} for row in rows)


def _list_of(values: dict[str, Any], name: str, path: Path) -> list[Any]:
    found = values.get(name)
    if not isinstance(found, list):
        raise InputFileError(f"{path}: {name} is missing or no list", fix="name a file that advisor wrote")
    return found


def _mapping(value: object, name: str, path: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputFileError(f"{path}: {name} is missing or no object", fix="name a file that advisor wrote")
    return value
