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
_MOST_PADDING: Final = 1
"""Spaces behind a cell that its text fills, so that a word may go on in the next row."""
_WORST_FIRST: Final[tuple[Status, ...]] = ("fail", "warn", "pass", "skip")
_OF_A_GPU: Final = re.compile(
    r"GPU ?\d+: (?=(?:pass|fail|warn|skip|not run|error))|(?=(?:pass|fail|warn|skip|not run|error)\w* - )",
    re.IGNORECASE,
)
"""Beginning of the status of one GPU, or of further GPUs, in a row of its own below that of all."""
_RATE: Final = re.compile(r"(?:GPU (\d+)\D*?)?(GPU to Host|Host to GPU) bandwidth:\s*([\d.]+) GB/s")
_FACTS: Final = {
    "DCGM Version",
    "Driver Version Detected",
    "GPU Device IDs Detected",
    "EUD Test Version",
}
_NVIDIA: Final = "10de"
"""PCI id of the vendor of all GPUs that the program checks."""
_DEVICE_IDS: Final = re.compile(r"GPU Device IDs Detected[\s|:\[\"]*((?:\b[0-9a-fA-F]{4}\b[\s|,\"]*)+)")
"""PCI device id of each GPU, in a row of the table or a list of the JSON."""
_REMARK: Final = re.compile(r"(?:Info|Warning|Error)(?:: (?P<whose>GPU ?\d+))?")
"""Name of a row about the check above it, and the GPU that it is about."""


def read_dcgm_diagnostic(text: str) -> LinkReport:
    """Return the checks of a `dcgmi diag` run, and the host link rates that its PCIe check printed.

    Raises: InputFileError: no check in the text.
    Source: NVIDIA DCGM user guide, section "DCGM Diagnostics" (output of -r 1 to 4 and of -j).
    """
    checks = list(_of_json(text) if text.lstrip().startswith("{") else _of_table(text))
    if not checks:
        raise InputFileError(
            "no check of dcgmi diag in the text",
            why="no row names a check and Pass, Fail, Warn or Skip",
            fix="paste all that dcgmi diag -r 2 printed, or give its JSON (-j)",
        )
    rates = tuple(_rates(text if text.lstrip().startswith("{") else " ".join(one.detail for one in checks)))
    found = _DEVICE_IDS.search(text)
    ids = tuple(f"{_NVIDIA}:{one}" for one in re.findall(r"\w+", found[1].lower())) if found else ()
    return LinkReport("", ids, rates, tuple(checks))


def _of_table(text: str) -> Iterator[HealthCheck]:
    """Yield the checks of the table, each with the worst status of its GPUs; an Info, Warning or Error row belongs to
    the check above it."""
    last: HealthCheck | None = None
    joint = ""
    for line in without_prefixes(text):
        row = _ROW.match(line)
        if row is None or row[1] in _FACTS:
            continue
        name, words, padding = row.groups()
        status = _status(words)
        remark = _REMARK.fullmatch(name)
        of_a_gpu = None if name else _OF_A_GPU.match(words)
        if last is not None and of_a_gpu and (own := _status(words[of_a_gpu.end() :])) is not None:
            worst = min(last.status, own, key=_WORST_FIRST.index)
            last = HealthCheck(last.name, worst, ", ".join(filter(None, (last.detail, words))))
        elif remark or not name:
            if last is not None:
                between = (
                    joint if not name else "" if not last.detail else f"{'.'[last.detail.endswith('.') :]} "
                )
                whose = remark["whose"] if remark and remark["whose"] else ""
                words = f"{whose}: {words}" if whose not in words else words
                last = HealthCheck(last.name, last.status, f"{last.detail}{between}{words}")
        elif status is not None:
            if last is not None:
                yield last
            last = HealthCheck(name, status, words if " - " in words else "")
        joint = "" if len(padding) <= _MOST_PADDING else " "
    if last is not None:
        yield last


def _status(words: str) -> Status | None:
    lowered = words.lower()
    return next((status for start, status in _STATUSES.items() if lowered.startswith(start)), None)


def _of_json(text: str) -> Iterator[HealthCheck]:
    document = read_object(text, "JSON of dcgmi diag")
    whole: Any = next((part for name, part in document.items() if "Diagnostic" in name), document)
    categories: Any = whole.get("test_categories", []) if isinstance(whole, Mapping) else []
    for category in categories if isinstance(categories, list) else []:
        for test in category.get("tests", []) if isinstance(category, Mapping) else []:
            results = test.get("results", []) if isinstance(test, Mapping) else []
            for result in results:
                if isinstance(result, Mapping) and (status := _status(str(result.get("status", "")))):
                    gpu = result.get("gpu_id", result.get("entity_id"))
                    detail = "" if gpu is None else f"GPU: {gpu}"
                    yield HealthCheck(
                        str(test.get("name", "")), status, f"{detail} {_remark(result)}".strip()
                    )


def _remark(result: Mapping[str, Any]) -> str:
    found = result.get("warnings") or result.get("info") or ""
    parts = found if isinstance(found, list) else [found]
    return " ".join(
        str(part.get("warning", part)) if isinstance(part, Mapping) else str(part) for part in parts
    )


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
