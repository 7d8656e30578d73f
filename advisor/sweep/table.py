"""Results of a sweep, read from its file."""

import csv
import math
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from advisor.catalog.errors import InputFileError, MissingHardwareError
from advisor.catalog.files import read_lines, too_many
from advisor.catalog.legible import of_cell

MOST_CELLS: Final = 5_000_000
"""Largest table of results that is kept in memory [cells]: about 500 MB."""


def read_table(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a .csv or .parquet file: numbers as numbers, empty cells as None.

    Raises: InputFileError: the file is missing, is no table, or holds no point. MissingHardwareError: pyarrow is not
        installed.
    """
    rows = _parquet(path) if path.suffix.lower() == ".parquet" else _csv(path)
    if not rows or "status" not in rows[0]:
        raise InputFileError(
            f"{path}: not the results of a sweep",
            why="no row, or no column status",
            fix="name what advisor sweep -o wrote",
        )
    return rows


def with_numbers(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows in which a column of inputs holds numbers if every value reads as one: a rate written 10/s stays
    text."""
    columns = {name for row in rows for name in row if name.startswith("in_")}
    numeric = {
        name
        for name in columns
        if all(isinstance(_parse_cell(str(row.get(name, ""))), float | None) for row in rows)
    }
    flags = {name for name in columns if any(isinstance(row.get(name), bool) for row in rows)}
    return [
        {
            name: _parse_cell(value) if name in numeric - flags and isinstance(value, str) else value
            for name, value in row.items()
        }
        for row in rows
    ]


def _parquet(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        raise InputFileError(f"{path}: no such file", fix="check the path")
    if find_spec("pyarrow") is None:
        raise MissingHardwareError("Parquet needs pyarrow", fix="pip install pyarrow")
    import pyarrow
    import pyarrow.parquet

    try:
        rows: list[dict[str, Any]] = pyarrow.parquet.read_table(path).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise InputFileError(f"{path}: not a Parquet file", why=str(error), fix="check the path") from None
    return [{name: _finite(value) for name, value in row.items()} for row in rows]


def _finite(value: Any) -> Any:
    """Return a value as a document can hold it: None for NaN, text for infinity."""
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if math.isnan(value) else str(value)


def _csv(path: Path) -> list[dict[str, Any]]:
    reader = csv.DictReader(read_lines(path), restkey="", restval="")
    rows: list[dict[str, Any]] = []
    try:
        for row in reader:
            rows.append({name: _parse_cell(cell) for name, cell in row.items() if name})
            if len(rows) * len(rows[0]) > MOST_CELLS:
                raise too_many(path, MOST_CELLS, "cells")
    except csv.Error as error:
        raise InputFileError(
            f"{path}: row {reader.line_num} is not CSV", why=str(error), fix="correct it"
        ) from None
    return rows


def _parse_cell(cell: str | None) -> Any:
    if not cell:
        return None
    try:
        number = float(cell)
    except ValueError:
        return of_cell(cell)
    return number if math.isfinite(number) else cell  # no document holds such numbers
