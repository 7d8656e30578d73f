"""GPUs and processes in the CSV that `nvidia-smi --query-gpu=...` and `--query-compute-apps=...` print."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.formats.launcher_lines import without_prefixes
from advisor.probes.joined_gpus import join_gpus
from advisor.probes.record import Conditions, Gpu
from advisor.probes.smi_columns import (
    SAMPLED,
    UNDER_LOAD,
    gpu_of_cells,
    has_reasons,
    is_column,
    name_of,
    reasons_of,
    stated_cells,
)

_TITLE: Final = re.compile(r"[a-z][\w.]*(?: \[[\w%/]+\])?", re.IGNORECASE)
_COMMAND: Final = re.compile(r"--query-[a-z-]+[= ]([\w.,]+)")
_PROMPT: Final = re.compile(r"^\S*[#$>%]\s|\bnvidia-smi\s+-")
_LONE: Final = {
    "name": re.compile(r"(?:NVIDIA|Tesla|GeForce|Quadro) "),
    "uuid": re.compile(r"GPU-[0-9a-fA-F]"),
}
"""Beginning of the first row below a title that stands alone and that other programs' tables have too."""
_PROCESS: Final = ("pid", "used_memory", "used_gpu_memory", "process_name")
_GENERAL: Final = ("index", "name", "uuid", "serial", "count", "timestamp", "pid", "process_name")
"""Titles that other programs' tables have too: two of them, or one of nvidia-smi's own, mark its table."""
_BUSY: Final = 0.5
"""Busy fraction of a GPU from which on a sample shows its clocks and its link under load."""


@dataclass(frozen=True, slots=True)
class CsvReport:
    """Content of the tables in one text."""

    gpus: tuple[Gpu, ...] = ()
    driver: str = ""
    conditions: tuple[tuple[int, Conditions], ...] = ()
    """State of each GPU by its number, over the samples of a loop (`-l 1`)."""
    processes: tuple[str, ...] | None = None
    """UUID of the GPU of each process that computes; None if the text lists no processes."""
    unused: tuple[str, ...] = ()
    """Names of columns that no check rests on."""
    at_rest: tuple[str, ...] = ()
    """Names of columns that are judged under load, where the text shows none."""


@dataclass(frozen=True, slots=True)
class _CsvTable:
    """One table: names of its columns, and its rows."""

    names: tuple[str, ...]
    rows: list[list[str]]

    def cells(self) -> Iterator[dict[str, str]]:
        """Yield each row's stated cells by column."""
        for row in self.rows:
            yield stated_cells(dict(zip(self.names, row, strict=True)))


def is_smi_csv(text: str) -> bool:
    """Whether a text holds what nvidia-smi prints with `--format=csv`, with a header or below its command."""
    return any(True for _ in _find_tables(text))


def read_smi_csv(text: str) -> CsvReport:
    """Return the GPUs, their state and their processes.

    Raises: InputFileError: no table has a row, but for a list of processes, which may be empty.
    Source: nvidia-smi --help-query-gpu, --help-query-compute-apps (drivers 470 to 580).
    """
    tables = list(_find_tables(text))
    of_processes = [table for table in tables if set(table.names) & set(_PROCESS)]
    of_gpus = [table for table in tables if table not in of_processes]
    if not any(table.rows for table in of_gpus) and not of_processes:
        raise InputFileError(
            "the CSV of nvidia-smi has no GPU",
            why="no row follows its header",
            fix="paste all that it printed",
        )
    found: list[Gpu] = []
    samples: dict[int, list[dict[str, str]]] = {}
    driver = ""
    for table in of_gpus:
        numbers: dict[str, int] = {}
        for place, cells in enumerate(table.cells()):
            key = cells.get("index") or cells.get("uuid") or cells.get("gpu_uuid") or cells.get("pci.bus_id")
            number = numbers.setdefault(key or str(place), len(numbers))
            gpu = gpu_of_cells(cells, number)
            found.append(gpu)
            samples.setdefault(gpu.index, []).append(cells)
            driver = cells.get("driver_version", driver)
    # Rows of one index are samples of one GPU in a loop, or answers to several commands about it.
    gpus = [[gpu for gpu in found if gpu.index == index] for index in sorted(samples)]
    processes = [
        cells.get("gpu_uuid", cells.get("gpu_bus_id", ""))
        for table in of_processes
        for cells in table.cells()
    ]
    conditions = ((index, state) for index, rows in samples.items() if (state := _conditions(rows)))
    names = [name for table in of_gpus for name in table.names]
    is_loaded = any(_is_loaded(cells) for rows in samples.values() for cells in rows)
    return CsvReport(
        gpus=tuple(join_gpus(same)[0] for same in gpus),
        driver=driver,
        conditions=tuple(conditions),
        processes=tuple(processes) if of_processes else None,
        unused=tuple(dict.fromkeys(name for name in names if not is_column(name))),
        at_rest=tuple(dict.fromkeys(name for name in names if name in UNDER_LOAD and not is_loaded)),
    )


def _is_loaded(cells: Mapping[str, str]) -> bool:
    """Whether a row shows its GPU busy."""
    return (gpu_of_cells(cells, 0).utilization_fraction or 0.0) >= _BUSY


def _conditions(rows: Sequence[Mapping[str, str]]) -> Conditions | None:
    """Return a GPU's state over its samples; clocks and the link's generation, which fall at rest, only under load."""
    spans: dict[str, list[float]] = {}
    reasons: set[str] = set()
    knows_reasons = False
    for cells in rows:
        gpu = gpu_of_cells(cells, 0)
        is_loaded = _is_loaded(cells)
        reasons.update(reasons_of(cells))
        knows_reasons = knows_reasons or has_reasons(cells)
        if gpu.temperature_c is not None:
            spans.setdefault("temperature_c", []).append(gpu.temperature_c)
        for name, cell in cells.items():
            field, read = SAMPLED.get(name, ("", None))
            value = read(cell) if read else None
            if value is not None and (is_loaded or name not in UNDER_LOAD):
                spans.setdefault(field, []).append(float(value))
        if is_loaded and gpu.pcie_width:
            spans.setdefault("pcie_width", []).append(float(gpu.pcie_width))
    if not spans and not knows_reasons:
        return None
    values: dict[str, Any] = {
        field: int(max(seen)) if field.startswith("pcie") else (min(seen), max(seen))
        for field, seen in spans.items()
    }
    num_samples = len(rows) if knows_reasons else 0
    return Conditions(throttle_reasons=tuple(sorted(reasons)), num_samples=num_samples, **values)


def _find_tables(text: str) -> Iterator[_CsvTable]:
    """Yield the tables of a text: a header or a command names the columns, and lines with as many cells follow it."""
    lines = [line.strip() for line in without_prefixes(text)]
    table: _CsvTable | None = None
    asked: tuple[str, ...] = ()
    for line, below in zip(lines, [*lines[1:], ""], strict=False):
        cells = [cell.strip() for cell in line.split(",")]
        if command := _COMMAND.search(line):
            asked = tuple(name_of(title) for title in command[1].split(","))
        if _is_header(cells, below):
            if table is not None:
                yield table
            table = _CsvTable(tuple(map(name_of, cells)), [])
            asked = ()
        elif not line or _PROMPT.search(line) or (not asked and table and len(cells) != len(table.names)):
            if table is not None:
                yield table
            table = None
        elif asked and len(cells) == len(asked):
            if table is not None:
                yield table
            table = _CsvTable(asked, [cells])
            asked = ()
        elif table is not None:
            table.rows.append(cells)
    if table is not None:
        yield table


def _is_header(cells: Sequence[str], below: str) -> bool:
    """Whether cells are the titles of a table of nvidia-smi; `below` is the next line."""
    if not all(_TITLE.fullmatch(cell) for cell in cells):
        return False
    known = [name for name in map(name_of, cells) if is_column(name) or name in _PROCESS]
    own = [name for name in known if name not in _GENERAL]
    lone = _LONE.get(cells[0]) if len(cells) == 1 else None
    return bool(own) or len(known) > 1 or (lone is not None and lone.match(below) is not None)
