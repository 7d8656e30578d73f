"""Output of `dcgmi diag`, as table or JSON: which checks of a node's GPUs passed."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from advisor.catalog.errors import InputFileError
from advisor.catalog.formats.file_format import FileFormat, read_object
from advisor.catalog.formats.launcher_lines import without_prefixes
from advisor.catalog.formats.link_report import HealthCheck, LinkRate, LinkReport
from advisor.catalog.units import GB

Status = Literal["pass", "fail", "warn", "skip"]
_STATUSES: Final[Mapping[str, Status]] = {
    "pass": "pass",
    "fail": "fail",
    "warn": "warn",
    "skip": "skip",
    "not run": "skip",
    "error": "fail",
}
_ROW: Final = re.compile(r"^\|\s*(.*?)\s*\| ?(.*?)(\s*)\|\s*$")
_MOST_PADDING: Final = 2
"""Spaces behind a cell that its table cut in the middle of a word."""
_WORST_FIRST: Final[tuple[Status, ...]] = ("fail", "warn", "skip", "pass")
"""A test that was skipped on one GPU did not pass on all of them."""
_OF_A_GPU: Final = re.compile(
    r"(?:[A-Z]\w*?\d+: )?(pass|fail|warn|skip|not run|error)\w*(?: - .*)?", re.IGNORECASE
)
"""Status of single GPUs, in a row without a name: `Fail - GPU: 1` (DCGM 2, 3) or `GPU1: Fail` (DCGM 4)."""
_RATE: Final = re.compile(r"(?:GPU (\d+)\D*?)?(GPU to Host|Host to GPU) bandwidth:\s*([\d.]+) GB/s")
_NVIDIA: Final = "10de"
"""PCI id of the vendor of all GPUs that the program checks."""
_DEVICE_IDS: Final = re.compile(r"GPU Device IDs Detected[\s|:\[\"]*((?:\b[0-9a-fA-F]{4}\b[\s|,\"]*)+)")
"""PCI device id of each GPU, in a row of the table or a list of the JSON."""
_REMARK: Final = re.compile(r"(Info|Warning|Error)(?:: (.+))?")
"""Name of a row that says more about the test above it, in DCGM 4 with the GPU: `Warning: GPU1`."""


def read_dcgm_diagnostic(text: str) -> LinkReport:
    """Return the checks of a `dcgmi diag` run, and the host link rates that its PCIe check printed.

    Raises: InputFileError: no check in the text.
    Source: NVIDIA DCGM user guide, section "DCGM Diagnostics" (output of -r 1 to 4 and of -j).
    """
    is_json = "test_categories" in text
    if is_json:
        text = text[text.find("{") : text.rfind("}") + 1]  # without the command around it
    checks = list(_of_json(text) if is_json else _of_table(text))
    if not checks:
        raise InputFileError(
            "no check of dcgmi diag in the text",
            why="no row names a check and Pass, Fail, Warn or Skip",
            fix="paste all that dcgmi diag -r 2 printed, or give its JSON (-j)",
        )
    rates = tuple(_rates(text if is_json else " ".join(one.detail for one in checks)))
    found = _DEVICE_IDS.search(text)
    ids = tuple(f"{_NVIDIA}:{one}" for one in re.findall(r"\w+", found[1].lower())) if found else ()
    return LinkReport("", ids, rates, tuple(checks))


def _of_table(text: str) -> Iterator[HealthCheck]:
    """Yield the checks of the table, each with the worst status of its GPUs; rows without a name of their own belong to
    the test above them. A test that passed with a warning is a warning."""
    last: HealthCheck | None = None
    joint = ""
    for line in without_prefixes(text):
        row = _ROW.match(line)
        if row is None:
            continue
        name, words, padding = row.groups()
        remark = _REMARK.fullmatch(name)
        if name and remark is None:
            if last is not None:
                yield last
            own = _status(words)
            last = None if own is None else HealthCheck(name, own, words if " - " in words else "")
        elif last is not None:
            of_a_gpu = None if name else _OF_A_GPU.fullmatch(words)
            if remark is not None:
                status = "warn" if last.status == "pass" and remark[1] != "Info" else last.status
                said = f"{remark[2]}: {words}" if remark[2] and remark[2] not in words else words
                between = f"{'.'[last.detail.endswith('.') :]} "
            elif of_a_gpu is not None:
                status = min(last.status, _STATUSES[of_a_gpu[1].lower()], key=_WORST_FIRST.index)
                said = words
                between = ", "
            else:
                status = last.status
                said = words
                between = joint
            last = HealthCheck(last.name, status, f"{last.detail}{between if last.detail else ''}{said}")
        joint = "" if len(padding) <= _MOST_PADDING else " "
    if last is not None:
        yield last


def _status(words: str) -> Status | None:
    lowered = words.lower()
    return next((status for start, status in _STATUSES.items() if lowered.startswith(start)), None)


def _of_json(text: str) -> Iterator[HealthCheck]:
    document = read_object(text, "JSON of dcgmi diag")
    whole: Any = next((part for name, part in document.items() if "Diagnostic" in name), document)
    for category in _objects(whole.get("test_categories") if isinstance(whole, Mapping) else None):
        for test in _objects(category.get("tests")):
            name = str(test.get("name", ""))
            results = [*_objects(test.get("results")), *_objects([test.get("test_summary")])]
            found = [(status, one) for one in results if (status := _status_of(one))]
            if found:
                remarks = (_remark(status, one) for status, one in found)
                worst = min((status for status, _ in found), key=_WORST_FIRST.index)
                yield HealthCheck(name, worst, ". ".join(dict.fromkeys(filter(None, remarks))))


def _status_of(result: Mapping[str, Any]) -> Status | None:
    """Return the status of one result; a pass with warnings is a warning."""
    status = _status(str(result.get("status", "")))
    return "warn" if status == "pass" and result.get("warnings") else status


def _objects(found: object) -> list[Mapping[str, Any]]:
    """Return the objects in a list of JSON; none if it is no list."""
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _remark(status: Status, result: Mapping[str, Any]) -> str:
    """Return what a result says about which GPU, in words; empty for a GPU that passed without a word."""
    gpu = next((result[key] for key in ("gpu_id", "gpu_ids", "entity_id") if key in result), None)
    found = result.get("warnings") or result.get("info") or []
    said = " ".join(
        str(part.get("warning", part)) if isinstance(part, Mapping) else str(part)
        for part in (found if isinstance(found, list) else [found])
    )
    where = "" if gpu is None or (status == "pass" and not said) else f"{status} on GPU {gpu}"
    return ": ".join(filter(None, (where, said)))


def _rates(text: str) -> Iterator[LinkRate]:
    gpu = 0
    for number, way, rate in _RATE.findall(text):
        gpu = int(number or gpu)
        if way == "Host to GPU":
            yield LinkRate("host_link.h2d", None, gpu, float(rate) * GB, "PCIe")
        else:
            yield LinkRate("host_link.d2h", gpu, None, float(rate) * GB, "PCIe")


def _is_dcgm_diagnostic(text: str) -> bool:
    return bool(
        re.search(r"\|\s*Diagnostic\s*\|\s*Result", text)
        or ("DCGM" in text and "Diagnostic" in text and "test_categories" in text)
        or "Successfully ran diagnostic for group" in text
    )


FORMAT: Final = FileFormat(
    "dcgm-diag", "output of dcgmi diag", "links", _is_dcgm_diagnostic, read_dcgm_diagnostic
)
