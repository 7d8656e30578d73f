"""What a command found, before it takes a shape: the only thing that renderers see."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table for people."""

    header: str
    align: Literal["left", "right"] = "left"
    fold: bool = False
    """May break over lines; the other columns do so only where the terminal is narrower than a table."""
    optional: bool = False
    """Left out where the table does not fit otherwise; the last one first."""


def columns(*headers: str) -> tuple[Column, ...]:
    """Columns by their headers, written `name | $/h> | reason~`: `>` aligns right, `~` lets cells break, a
    `?` behind them lets the column go where there is no room."""
    return tuple(
        Column(
            header.rstrip(">~?"),
            "right" if header.rstrip("?").endswith(">") else "left",
            fold=header.rstrip("?").endswith("~"),
            optional=header.endswith("?"),
        )
        for text in headers
        for header in text.split(" | ")
    )


@dataclass(frozen=True, slots=True)
class Table:
    """A table for people: cells are finished text."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    details: tuple[tuple["Block", ...], ...] = ()
    """What a page unfolds below each row; terminals and Markdown leave it out. Empty, or one entry per row."""

    def __post_init__(self) -> None:
        name = self.title or "table"
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{name}: {len(row)} cells for {len(self.columns)} columns")
        if self.details and len(self.details) != len(self.rows):
            raise ValueError(f"{name}: details of {len(self.details)} rows for {len(self.rows)}")


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A sentence or a few; `emphasis` marks the one line that answers the question."""

    text: str
    emphasis: bool = False


def bulleted(title: str, lines: Iterable[str]) -> Paragraph:
    """Lines as a list under a title that ends without a colon."""
    return Paragraph("\n".join([f"{title}:", *(f"- {line}" for line in lines)]))


@dataclass(frozen=True, slots=True)
class Figure:
    """Text with a fixed layout: a plot, a command to copy, a sum that is written out."""

    text: str
    title: str = ""


ChartKind = Literal["line", "scatter", "bar", "stacked", "waterfall", "range"]
"""line: y over numbers x, intervals as a band. scatter: points, intervals as whiskers.
bar: one bar per category (x is its name) and series. stacked: the series of a category on each other.
waterfall: one series whose points add up; the renderer appends their sum. range: a bar from low to high per
category around a base y (a tornado: put the longest first)."""
CATEGORICAL: Final = ("bar", "stacked", "waterfall", "range")


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis means and the unit of its numbers; the data come in that unit."""

    title: str
    unit: str = ""
    hint: str = ""
    """Which way is good, e.g. `left is faster`."""
    is_log: bool = False

    @property
    def label(self) -> str:
        """`TPOT p99, ms (left is faster)`."""
        return ", ".join(filter(None, (self.title, self.unit))) + (f" ({self.hint})" if self.hint else "")


@dataclass(frozen=True, slots=True)
class Datum:
    """One point of a series: a number or a category's name, a value, and what is known about both."""

    x: float | str
    y: float
    low: float | None = None
    """Ends of the interval of y, both or none."""
    high: float | None = None
    label: str = ""
    """What the point is: shown on hovering and in the table of the chart."""
    mark: str = ""
    """One character that stands for it in a plot of characters."""


@dataclass(frozen=True, slots=True)
class Series:
    """Points that belong together, under the name that the legend shows."""

    name: str
    points: tuple[Datum, ...]
    is_joined: bool = False
    """Points of a scatter are joined by a line, e.g. a Pareto front; a line chart joins all of its series."""
    is_muted: bool = False
    """Drawn in grey: what is left over, context."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A line across a chart at one value of an axis: a limit, a break-even."""

    axis: Literal["x", "y"]
    value: float
    label: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Numbers as a drawing: interactive on a page, characters in a terminal, a small table in Markdown."""

    kind: ChartKind
    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    description: str = ""
    """One sentence that says what the drawing shows, for people who cannot see it."""
    references: tuple[Reference, ...] = ()
    is_in_terminal: bool = True
    """Whether a terminal shows it too; a page always does."""

    def __post_init__(self) -> None:
        if self.kind == "waterfall" and len(self.series) != 1:
            raise ValueError(f"{self.title}: a waterfall is one series, not {len(self.series)}")
        for point in self._points():
            fault = self._fault(point)
            if fault:
                raise ValueError(f"{self.title}: {fault}: {point}")

    def _fault(self, point: Datum) -> str:
        """Why a point cannot be drawn; empty where it can."""
        ys = [y for y in (point.y, point.low, point.high) if y is not None]
        if len(ys) == 2 or (self.kind == "range" and len(ys) < 3):
            return "an interval needs two ends"
        if isinstance(point.x, str) != (self.kind in CATEGORICAL):
            return f"x must be {'a name' if self.kind in CATEGORICAL else 'a number'}"
        xs = [] if isinstance(point.x, str) else [point.x]
        if not all(map(math.isfinite, xs + ys)):
            return "a coordinate is not finite"
        if (self.x.is_log and min(xs, default=1.0) <= 0) or (self.y.is_log and min(ys) <= 0):
            return "a logarithmic axis shows positive values only"
        return ""

    def _points(self) -> Iterator[Datum]:
        for series in self.series:
            yield from series.points

    @property
    def is_empty(self) -> bool:
        """Nothing to draw: renderers skip it."""
        return not any(series.points for series in self.series)


Block = Table | Paragraph | Figure | Chart


@dataclass(frozen=True, slots=True)
class Tile:
    """A key figure at the head of a page: `$0.42`, `per million tokens`, `0.37 to 0.49, calibrated`."""

    value: str
    label: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page under its own heading, which the page's contents list."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one command in SI units, and how a person reads it."""

    result: Mapping[str, object]
    """Top-level fields of the JSON document, after the envelope."""
    inputs: Mapping[str, object]
    """Everything the answer rests on, resolved, defaults included."""
    blocks: tuple[Block, ...]
    """The same for people, in order."""
    question: str = ""
    """What was asked, in a sentence: a page shows it under the headline."""
    tiles: tuple[Tile, ...] = ()
    """Key figures that a page shows at its head."""
    sections: tuple[Section, ...] = ()
    """How a page tells it, where that is more than `blocks` in order; inputs, warnings and origin are added."""
    records: str = ""
    """The list in `result` that a CSV file holds; empty where the answer has no natural table."""
    warnings: tuple[str, ...] = ()
    """What may make the answer wrong: on stderr, and in the JSON document."""
    notes: tuple[str, ...] = ()
    """What was understood or chosen on the way: on stderr."""
    svg: str = ""
    """A drawing of it, for files that can hold one; empty where there is none."""
    exit_code: int = 0
    """Beyond 0 only for a verdict (4, 5) or a study whose rows are all reasons (3): failures are raised otherwise."""

    def rows(self) -> Sequence[object]:
        """The records of the CSV file.

        Raises: KeyError: the answer has no list of that name.
        """
        rows = self.result[self.records]
        if not isinstance(rows, list | tuple):
            raise KeyError(self.records)
        return rows
