"""Tables of cases, read row by row so that a bad row does not stop the others, and the cells of a row."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.files import read_text


@dataclass(frozen=True, slots=True)
class CaseRow:
    """One data row of a table."""

    number: int
    """Line in the file; the header is line 1."""
    cells: Mapping[str, str]
    problem: str = ""
    """Reason why the row cannot be read; empty if it can."""


@dataclass(frozen=True, slots=True)
class Cells:
    """Cells of a row; a blank cell means unknown."""

    row: Mapping[str, str]
    row_number: int

    def text(self, name: str) -> str:
        return (self.row.get(name) or "").strip()

    def number(self, name: str) -> float | None:
        """Return a finite number of at least 0, or None if the cell is blank.

        Raises: InputFileError: it is none; names row and field.
        """
        raw = self.text(name)
        if not raw:
            return None
        try:
            value = float(raw)
        except ValueError:
            raise InputFileError(f"row {self.row_number}: {name} is {raw!r}, not a number") from None
        if not math.isfinite(value) or value < 0:
            raise InputFileError(f"row {self.row_number}: {name} is {raw}, not a finite number of at least 0")
        return value

    def whole(self, name: str) -> int | None:
        """Return a whole number of at least 0, or None if the cell is blank.

        Raises: InputFileError: it is none; names row and field.
        """
        value = self.number(name)
        if value is not None and value != round(value):
            raise InputFileError(f"row {self.row_number}: {name} is {self.text(name)}, not a whole number")
        return None if value is None else round(value)

    def positive(self, name: str) -> float | None:
        """Return a number above 0, or None if the cell is blank.

        Raises: InputFileError: it is none; names row and field.
        """
        value = self.number(name)
        if value is not None and value <= 0:
            raise InputFileError(f"row {self.row_number}: {name} is {self.text(name)}, not positive")
        return value

    def degree(self, name: str) -> int | None:
        """Return a whole number of at least 1, or None if the cell is blank.

        Raises: InputFileError: it is none; names row and field.
        """
        value = self.whole(name)
        if value is not None and value < 1:
            raise InputFileError(f"row {self.row_number}: {name} is {value}, not at least 1")
        return value

    def flag(self, name: str) -> bool | None:
        """Return 1 or 0 as a boolean, or None if the cell is blank.

        Raises: InputFileError: it is none; names row and field.
        """
        value = self.number(name)
        if value is not None and value not in (0.0, 1.0):
            raise InputFileError(f"row {self.row_number}: {name} is {self.text(name)}, not 0 or 1")
        return None if value is None else value == 1.0


MOST_CASES: Final = 20_000
"""Largest number of rows of a table of cases: each takes from a millisecond to a second to predict."""


def read_cases(path: Path, needed: Sequence[str]) -> list[CaseRow]:
    """Return the data rows of a CSV file with a header; a ragged row is kept with its problem.

    Raises: InputFileError: the file is missing, no text or no CSV, lacks a needed column, or has no rows or
        too many.
    """
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    try:
        header = next(reader, [])
        missing = [name for name in needed if name not in header]
        if missing:
            raise InputFileError(
                f"{path}: row 1 lacks column {', '.join(missing)}",
                fix=f"the header needs {', '.join(needed)}",
            )
        filled = (cells for cells in reader if any(cells))
        rows = [_case_row(reader.line_num, header, cells) for cells in islice(filled, MOST_CASES + 1)]
    except csv.Error as error:
        raise InputFileError(
            f"{path}: row {reader.line_num} is not CSV", why=str(error), fix="correct its quotes"
        ) from None
    if len(rows) > MOST_CASES:
        raise InputFileError(
            f"{path}: holds more than {MOST_CASES:,} cases",
            why="each of them is predicted",
            fix="split the file",
        )
    if not rows:
        raise InputFileError(
            f"{path}: holds no cases", why="only a header, or nothing", fix="add rows below it"
        )
    return rows


def _case_row(number: int, header: Sequence[str], cells: Sequence[str]) -> CaseRow:
    named = dict(zip(header, cells, strict=False))
    if len(cells) == len(header):
        return CaseRow(number, named)
    return CaseRow(number, named, f"row {number}: {len(cells)} cells under {len(header)} columns")
