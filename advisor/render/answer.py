"""Answer of a command before it is rendered: the only input of renderers."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a table for people."""

    header: str
    align: Literal["left", "right"] = "left"
    fold: bool = False
    """Whether cells may break over lines; other columns break only if the terminal is narrower than the table."""
    optional: bool = False
    """Whether the column is dropped if the table does not fit; the last optional column goes first."""
    is_marked: bool = False
    """Whether its basis stays as a mark on the first column if it is dropped."""


def columns(*headers: str) -> tuple[Column, ...]:
    """Return columns by their headers, written `name | $/h> | reason~`: `>` aligns right, `~` lets cells break, a
    final `?` makes the column optional, and a final `!` a column of bases too, which stay as marks."""
    return tuple(
        Column(
            header.rstrip(">~?!"),
            "right" if header.rstrip("?!").endswith(">") else "left",
            fold=header.rstrip("?!").endswith("~"),
            optional=header.endswith(("?", "!")),
            is_marked=header.endswith("!"),
        )
        for text in headers
        for header in text.split(" | ")
    )


@dataclass(frozen=True, slots=True)
class Table:
    """Table for people: cells are finished text."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    details: tuple[tuple["Block", ...], ...] = ()
    """Blocks that a page unfolds below each row; terminals and Markdown omit them. Empty, or one entry per row."""

    def __post_init__(self) -> None:
        name = self.title or "table"
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{name}: {len(row)} cells for {len(self.columns)} columns")
        if self.details and len(self.details) != len(self.rows):
            raise ValueError(f"{name}: details of {len(self.details)} rows for {len(self.rows)}")


@dataclass(frozen=True, slots=True)
class Paragraph:
    """One sentence or a few; `emphasis` marks the one line that answers the question."""

    text: str
    emphasis: bool = False


def bullet_list(title: str, lines: Iterable[str]) -> Paragraph:
    """Return a list of lines under a title that ends without a colon."""
    return Paragraph("\n".join([f"{title}:", *(f"- {line}" for line in lines)]))


@dataclass(frozen=True, slots=True)
class Figure:
    """Text with a fixed layout: a plot, a command to copy, a sum that is written out."""

    text: str
    title: str = ""


ChartKind = Literal["line", "scatter", "bar", "stacked", "waterfall", "range"]
"""Kinds of chart. line: y over numbers x, intervals as a band. scatter: points, intervals as whiskers. bar: one bar
per category (x is its name) and series. stacked: the series of a category on each other. waterfall: one series whose
points add up; the renderer appends their sum. range: a bar from low to high per category around a base y (a tornado:
put the longest first)."""
CATEGORICAL: Final = ("bar", "stacked", "waterfall", "range")


@dataclass(frozen=True, slots=True)
class Axis:
    """Axis of a chart: the meaning and unit of its numbers; the data have that unit."""

    title: str
    unit: str = ""
    hint: str = ""
    """Direction that is good, e.g. `left is faster`."""
    is_log: bool = False

    @property
    def label(self) -> str:
        """Label such as `TPOT p99, ms (left is faster)`."""
        return ", ".join(filter(None, (self.title, self.unit))) + (f" ({self.hint})" if self.hint else "")


@dataclass(frozen=True, slots=True)
class Datum:
    """One point of a series: a number or a category's name as x, a value y, and its interval."""

    x: float | str
    y: float
    low: float | None = None
    """Lower end of the interval of y; None without an interval. `high` is set if and only if `low` is."""
    high: float | None = None
    label: str = ""
    """Description of the point, shown on hovering and in the table of the chart."""
    mark: str = ""
    """Character that marks the point in a text plot."""


@dataclass(frozen=True, slots=True)
class Series:
    """Points that belong together; the legend shows their name."""

    name: str
    points: tuple[Datum, ...]
    is_joined: bool = False
    """Whether a line joins the points of a scatter, e.g. a Pareto front; a line chart joins all of its series."""
    is_muted: bool = False
    """Whether the series is drawn in grey, as a rest or as context."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Line across a chart at one value of an axis: a limit, a break-even."""

    axis: Literal["x", "y"]
    value: float
    label: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Chart of numbers: interactive on a page, characters in a terminal, a small table in Markdown."""

    kind: ChartKind
    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    description: str = ""
    """One sentence that says what the chart shows, for people who cannot see it."""
    references: tuple[Reference, ...] = ()
    is_in_terminal: bool = True
    """Whether a terminal shows the chart too; a page always does."""

    def __post_init__(self) -> None:
        if self.kind == "waterfall" and len(self.series) != 1:
            raise ValueError(f"{self.title}: a waterfall is one series, not {len(self.series)}")
        for point in self._points():
            fault = self._fault(point)
            if fault:
                raise ValueError(f"{self.title}: {fault}: {point}")

    def _fault(self, point: Datum) -> str:
        """Return why a point cannot be drawn; empty if it can."""
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
        """Whether there is nothing to draw, so that renderers skip the chart."""
        return not any(series.points for series in self.series)


Block = Table | Paragraph | Figure | Chart


@dataclass(frozen=True, slots=True)
class Tile:
    """Key figure at the head of a page: `$0.42`, `per million tokens`, `0.37 to 0.49, calibrated`."""

    value: str
    label: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """Part of a page under its own heading, which the page's contents list."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of one command in SI units, and the blocks that people read."""

    result: Mapping[str, object]
    """Top-level fields of the JSON document, after the envelope."""
    inputs: Mapping[str, object]
    """Resolved inputs on which the answer rests, defaults included."""
    blocks: tuple[Block, ...]
    """Blocks that present the result to people, in order."""
    question: str = ""
    """Question as understood, in a sentence: a page shows it under the headline."""
    tiles: tuple[Tile, ...] = ()
    """Key figures that a page shows at its head."""
    sections: tuple[Section, ...] = ()
    """Sections of a page, if they are more than `blocks` in order; inputs, warnings and origin are added."""
    records: str = ""
    """Name of the list in `result` that a CSV file holds; empty if the answer has no natural table."""
    warnings: tuple[str, ...] = ()
    """Warnings of what may make the answer wrong: on stderr, and in the JSON document."""
    notes: tuple[str, ...] = ()
    """Notes on how the input was understood and what was chosen: on stderr."""
    svg: str = ""
    """Drawing of the answer, for files that can hold one; empty if there is none."""
    exit_code: int = 0
    """Exit code; above 0 only for a verdict (4, 5) or a study whose rows are all reasons (3). Failures are raised
    instead."""

    seed: int | None = None
    """Seed of the question that is asked again; None where it is the one that was typed."""

    def rows(self) -> Sequence[object]:
        """Return the records of the CSV file.

        Raises: KeyError: the answer has no list of that name.
        """
        rows = self.result[self.records]
        if not isinstance(rows, list | tuple):
            raise KeyError(self.records)
        return rows
