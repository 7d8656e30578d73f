"""What a command found, before it takes a shape: the only thing that renderers see."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table for people."""

    header: str
    align: Literal["left", "right"] = "left"
    fold: bool = False
    """May break over lines; the other columns do so only where the terminal is narrower than a table."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table for people: cells are finished text."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{self.title or 'table'}: {len(row)} cells for {len(self.columns)} columns")


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A sentence or a few; `emphasis` marks the one line that answers the question."""

    text: str
    emphasis: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """Text with a fixed layout: a plot, a command to copy, a sum that is written out."""

    text: str
    title: str = ""


Block = Table | Paragraph | Figure


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one command in SI units, and how a person reads it."""

    result: Mapping[str, object]
    """Top-level fields of the JSON document, after the envelope."""
    inputs: Mapping[str, object]
    """Everything the answer rests on, resolved, defaults included."""
    blocks: tuple[Block, ...]
    """The same for people, in order."""
    records: str = ""
    """The list in `result` that a CSV file holds; empty where the answer has no natural table."""
    warnings: tuple[str, ...] = ()
    """What may make the answer wrong: on stderr, and in the JSON document."""
    notes: tuple[str, ...] = ()
    """What was understood or chosen on the way: on stderr."""
    svg: str = ""
    """A drawing of it, for files that can hold one; empty where there is none."""
    exit_code: int = 0
    """Beyond 0 only for an answer that is a verdict (4, 5): failures are raised, not answered."""

    def rows(self) -> Sequence[object]:
        """The records of the CSV file.

        Raises: KeyError: the answer has no list of that name.
        """
        rows = self.result[self.records]
        if not isinstance(rows, list | tuple):
            raise KeyError(self.records)
        return rows
