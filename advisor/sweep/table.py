"""Results of a sweep, read from its file."""

import csv
import math
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from advisor.catalog.errors import InputFileError, MissingHardwareError, install_command
from advisor.catalog.files import read_lines, too_large, too_many
from advisor.catalog.legible import of_cell

MOST_CELLS: Final = 5_000_000
"""Largest table of results that is kept in memory [cells]: about 500 MB."""

MOST_PARQUET_BYTES: Final = 200_000_000
"""Largest Parquet file that is read, unpacked [bytes]."""
MOST_TEXT_BYTES: Final = 10_000
"""Longest text of a Parquet file [bytes]; a reason why a point has no answer takes at most a thousand."""


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
        raise MissingHardwareError("Parquet needs pyarrow", fix=install_command("sweep", "pyarrow"))
    import pyarrow
    import pyarrow.parquet

    try:
        schema = pyarrow.parquet.read_schema(path)
        texts = [field.name for field in schema if not pyarrow.types.is_primitive(field.type)]
        # Texts stay in dictionaries, since a small file can hold a long one many times.
        with pyarrow.parquet.ParquetFile(path, read_dictionary=texts) as file:
            groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
            if sum(group.total_byte_size for group in groups) > MOST_PARQUET_BYTES:
                raise too_large(f"{path}, unpacked,", MOST_PARQUET_BYTES)
            if file.metadata.num_rows * file.metadata.num_columns > MOST_CELLS:
                raise too_many(path, MOST_CELLS, "cells")
            return [
                {name: _finite(value) for name, value in row.items()}
                for batch in file.iter_batches()
                for row in _short(batch, path).to_pylist()
            ]
    except (pyarrow.ArrowException, OSError) as error:
        raise InputFileError(f"{path}: not a Parquet file", why=str(error), fix="check the path") from None


def _short(batch: Any, path: Path) -> Any:
    """Return a batch of rows unchanged.

    Raises: InputFileError: it holds a text that is longer than any of a sweep's, or a list.
    """
    import pyarrow
    import pyarrow.compute

    for column in batch.columns:
        values = column.dictionary if pyarrow.types.is_dictionary(column.type) else column
        if pyarrow.types.is_nested(values.type):
            raise InputFileError(f"{path}: a column holds lists", fix="name what advisor sweep -o wrote")
        if not pyarrow.types.is_primitive(values.type) and not pyarrow.types.is_null(values.type):
            longest = pyarrow.compute.max(pyarrow.compute.binary_length(values)).as_py() or 0
            if longest > MOST_TEXT_BYTES:
                raise too_large(f"{path}: a text of it", MOST_TEXT_BYTES)
    return batch


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
