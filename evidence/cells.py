"""Typed access to the cells of one row of a table, with errors that name row and field."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from advisor.catalog.errors import InputFileError


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of a row; blank means unknown."""

    row: Mapping[str, str]
    row_number: int

    def text(self, name: str) -> str:
        return (self.row.get(name) or "").strip()

    def number(self, name: str) -> float | None:
        """A finite number of at least 0, or None where blank.

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
        """A whole number of at least 0, or None where blank.

        Raises: InputFileError: it is none; names row and field.
        """
        value = self.number(name)
        if value is not None and value != round(value):
            raise InputFileError(f"row {self.row_number}: {name} is {self.text(name)}, not a whole number")
        return None if value is None else round(value)

    def positive(self, name: str) -> float | None:
        """A number above 0, or None where blank.

        Raises: InputFileError: it is none; names row and field.
        """
        value = self.number(name)
        if value is not None and value <= 0:
            raise InputFileError(f"row {self.row_number}: {name} is {self.text(name)}, not positive")
        return value

    def degree(self, name: str) -> int | None:
        """A whole number of at least 1, or None where blank.

        Raises: InputFileError: it is none; names row and field.
        """
        value = self.whole(name)
        if value is not None and value < 1:
            raise InputFileError(f"row {self.row_number}: {name} is {value}, not at least 1")
        return value

    def flag(self, name: str) -> bool | None:
        """1 or 0 as truth, or None where blank.

        Raises: InputFileError: it is none; names row and field.
        """
        value = self.number(name)
        if value is not None and value not in (0.0, 1.0):
            raise InputFileError(f"row {self.row_number}: {name} is {self.text(name)}, not 0 or 1")
        return None if value is None else value == 1.0
