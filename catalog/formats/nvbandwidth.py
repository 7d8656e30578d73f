"""Output of nvbandwidth, as text or JSON: matrices of copy rates between GPUs and between host and GPUs."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.formats.file_format import FileFormat, has_keys, read_object
from advisor.catalog.formats.launcher_lines import without_prefixes
from advisor.catalog.formats.link_report import HealthCheck, LinkCheck, LinkRate, LinkReport
from advisor.catalog.units import GB

_CHECKS: Final[tuple[tuple[str, LinkCheck], ...]] = (
    ("host_to_device_memcpy", "host_link.h2d"),
    ("device_to_host_memcpy", "host_link.d2h"),
    ("device_to_device_memcpy_read", "peer.copy"),
    ("device_to_device_memcpy_write", "peer.copy"),
)
"""Tests that are judged, by the beginning of their name: one direction at a time, one pair or GPU at a time."""
_TITLE: Final = re.compile(r"(?:memcpy (?:CE|SM) (.*?) (?:Total )?)?bandwidth \(([^)]*)\)")
_TITLED: Final[Mapping[str, str]] = {
    "CPU(row) -> GPU(column)": "host_to_device_memcpy",
    "CPU(row) <- GPU(column)": "device_to_host_memcpy",
    "GPU(row) -> GPU(column)": "device_to_device_memcpy_read",
    "GPU(row) <- GPU(column)": "device_to_device_memcpy_write",
}
"""Tests of one direction by the title of their matrix, for pastes without the line that names the test."""
_OF_ANOTHER: Final = re.compile(r"\bmatrix\b|D[\\/]D", re.IGNORECASE)
"""Sign of a matrix of another program."""
_RUNNING: Final = re.compile(r"^Running (\w+)")
_DEVICE: Final = re.compile(r"(?:Device )?\d+: (.+?)(?: \([0-9a-fA-F:.]+\))?$")
_UNIT: Final = "GB/s"

_WRONG: Final = re.compile(r"Running (\w+)\.\s+(Invalid value when checking the pattern at \w+)")
"""Test that stopped because a copy delivered other values than it was given. Source: NVIDIA/nvbandwidth memcpy.cpp."""


def read_nvbandwidth(text: str) -> LinkReport:
    """Return the copy rates of nvbandwidth output.

    Tests of both directions at once and of latency are named as unread: nothing is expected of them.

    Raises: InputFileError: no matrix of a test that is judged, or a matrix in another unit than GB/s.
    Source: NVIDIA/nvbandwidth README (text and `--format json`).
    """
    tests = list(_of_json(text) if text.lstrip().startswith("{") else _of_text(text))
    rates: list[LinkRate] = []
    unread: dict[str, None] = {}
    for name, unit, rows in tests:
        check = _check_of(name)
        if check is None:
            unread[name] = None
            continue
        if unit != _UNIT:
            raise InputFileError(
                f"{name} is in {unit or 'no stated unit'}",
                why=f"only {_UNIT} is read",
                fix="give the output as nvbandwidth prints it",
            )
        rates += _rates(name, check, rows)
    checks = tuple(
        HealthCheck("copy", "fail", " ".join(found), "nvbandwidth") for found in _WRONG.findall(text)
    )
    if not (rates or checks):
        named = f"it has {', '.join(unread)}" if unread else "no matrix was found; was the output cut?"
        raise InputFileError(
            "no bandwidth matrix of one direction in the text",
            why=named,
            fix="run nvbandwidth -t device_to_device_memcpy_read_ce host_to_device_memcpy_ce",
        )
    return LinkReport(_device(text), rates=tuple(rates), checks=checks, unread=tuple(unread))


def _check_of(name: str) -> LinkCheck | None:
    if "bidirectional" in name or "latency" in name or name.startswith(("all_to", "one_to")):
        return None
    return next((check for start, check in _CHECKS if name.startswith(start)), None)


def _rates(name: str, check: LinkCheck, rows: Sequence[tuple[int, Sequence[str]]]) -> Iterator[LinkRate]:
    """Yield the cells of one matrix. The row is the source of a write and the target of a read; in a matrix of GPUs the
    row's GPU runs the copy."""
    reads = "memcpy_read" in name
    for row, cells in rows:
        for column, cell in enumerate(cells):
            try:
                value = float(cell)
            except ValueError:
                continue  # N/A: the GPU itself, or no peer access
            if value <= 0:
                continue
            if check == "peer.copy":
                source, target = (column, row) if reads else (row, column)
                yield LinkRate(check, source, target, value * GB, name)
            elif check == "host_link.h2d":
                yield LinkRate(check, None, column, value * GB, name)
            else:
                yield LinkRate(check, column, None, value * GB, name)


def _of_text(text: str) -> Iterator[tuple[str, str, list[tuple[int, list[str]]]]]:
    """Yield name, unit and rows of each matrix; a row that is shorter than the header was cut and is left out."""
    name = ""
    unit = ""
    width = 0
    rows: list[tuple[int, list[str]]] = []
    for line in without_prefixes(text):
        started = _RUNNING.match(line.strip())
        titled = _TITLE.search(line)
        if started or titled or _OF_ANOTHER.search(line):
            if rows:
                yield name, unit, rows
                rows = []
            if started:
                name = started[1]
            elif width or not name:
                name = _TITLED.get(titled[1] or "", titled[0]) if titled else ""
            unit = titled[2] if titled else ""
            width = 0
            continue
        words = line.split()
        if words and all(word.isdigit() for word in words) and not width and unit:
            width = len(words)
        elif width and len(words) == width + 1 and words[0].isdigit():
            rows.append((int(words[0]), words[1:]))
    if rows:
        yield name, unit, rows


def _of_json(text: str) -> Iterator[tuple[str, str, list[tuple[int, list[str]]]]]:
    found = read_object(text, "output of nvbandwidth").get("nvbandwidth")
    cases: Any = found.get("testcases", []) if isinstance(found, Mapping) else []
    for case in cases if isinstance(cases, list) else []:
        if not isinstance(case, Mapping):
            continue
        title = _TITLE.search(str(case.get("bandwidth_description", "")))
        matrix = case.get("bandwidth_matrix")
        rows = [
            (number, [str(cell) for cell in row])
            for number, row in enumerate(matrix if isinstance(matrix, list) else [])
            if isinstance(row, list)
        ]
        if rows:
            yield str(case.get("name", "")), title[2] if title else "", rows


def _device(text: str) -> str:
    """Return the name of the GPU from the list of devices; empty if there is none."""
    listed = re.search(r'"GPU Device list"\s*:\s*\[\s*"([^"]*)"', text) or re.search(
        r"^.*?(Device 0: .*)$", text, re.MULTILINE
    )
    named = _DEVICE.match(listed[1].strip()) if listed else None
    return named[1] if named else ""


def _is_nvbandwidth(text: str) -> bool:
    return (
        has_keys(text, "nvbandwidth")
        or "nvbandwidth Version" in text
        or bool(re.search(r"memcpy (?:CE|SM) .*bandwidth \(", text))
    )


FORMAT: Final = FileFormat("nvbandwidth", "output of nvbandwidth", "links", _is_nvbandwidth, read_nvbandwidth)
