"""Charts as characters for terminals, and as tables that replace the drawing elsewhere."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from advisor.render import plot
from advisor.render.answer import CATEGORICAL, Chart, Column, Datum, Figure, Series, Table
from advisor.render.numbers import MISSING, digits, range_words

BAR_WIDTH: Final = 40
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_FILLS: Final = "█▓▒░▚▞▤▥"
_SEGMENTS: Final = 60
"""Number of characters with which a joined line is drawn between two points."""
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


def chart_figure(chart: Chart) -> Figure:
    """Return the chart as text of at most 100 columns."""
    if chart.kind in CATEGORICAL:
        draw = {"waterfall": _waterfall, "range": _ranges}.get(chart.kind, _bars)
        return Figure("\n".join(draw(chart)), chart.title)
    points = [
        point for series in zip(chart.series, _marks(chart), strict=True) for point in _points(chart, *series)
    ]
    text = plot.scatter(points, _axis(chart, "x"), _axis(chart, "y"))
    return Figure("\n".join([text, *_legend(chart)]), chart.title)


def chart_table(chart: Chart) -> Table:
    """Return a table with every number of the chart, a row each."""
    points = [(series, point) for series in chart.series for point in series.points]
    has_series = len(chart.series) > 1
    has_labels = any(point.label for _, point in points)
    has_intervals = any(point.low is not None for _, point in points)
    columns = (
        *([Column("series")] if has_series else []),
        *([Column("point", fold=True)] if has_labels else []),
        Column(chart.x.label, "left" if chart.kind in CATEGORICAL else "right"),
        Column(chart.y.label, "right"),
        *([Column("range", "right")] if has_intervals else []),
    )
    rows = tuple(
        (
            *([series.name] if has_series else []),
            *([point.label] if has_labels else []),
            point.x if isinstance(point.x, str) else digits(point.x),
            digits(point.y),
            *([interval_words(point)] if has_intervals else []),
        )
        for series, point in points
    )
    return Table(columns, rows, title=chart.title)


def interval_words(point: Datum) -> str:
    """Return an interval such as `0.37-0.49`, or a dash if there is none."""
    return MISSING if point.low is None or point.high is None else range_words(point.low, point.high)


def _axis(chart: Chart, name: str) -> plot.PlotAxis:
    axis = chart.x if name == "x" else chart.y
    return plot.PlotAxis(axis.label, is_log=axis.is_log)


def _marks(chart: Chart) -> list[str]:
    return [_LETTERS[i % len(_LETTERS)] for i in range(len(chart.series))]


def _points(chart: Chart, series: Series, letter: str) -> Iterator[plot.PlotPoint]:
    """Yield the points of a series, then dots of the lines between them; any point covers a dot."""
    for point in series.points:
        yield plot.PlotPoint(float(point.x), point.y, point.mark or letter)
    if chart.kind == "line" or series.is_joined:
        for one, other in zip(series.points, series.points[1:], strict=False):
            for step in range(1, _SEGMENTS):
                part = step / _SEGMENTS
                x = _between(float(one.x), float(other.x), part, chart.x.is_log)
                yield plot.PlotPoint(x, _between(one.y, other.y, part, chart.y.is_log), letter)


def _between(one: float, other: float, part: float, is_log: bool) -> float:
    return one * (other / one) ** part if is_log else one + (other - one) * part


def _legend(chart: Chart) -> list[str]:
    """Return lines that explain letters and reference lines, if there is more than one thing to see."""
    lettered = zip(_marks(chart), chart.series, strict=True)
    named = [
        f"{letter} {s.name}" for letter, s in lettered if s.name and not all(point.mark for point in s.points)
    ]
    lines = ["  ".join(named)] if len(chart.series) > 1 and named else []
    return lines + [_reference_words(chart, i) for i in range(len(chart.references))]


def _reference_words(chart: Chart, i: int) -> str:
    reference = chart.references[i]
    unit = (chart.x if reference.axis == "x" else chart.y).unit
    return f"{reference.label}: {with_unit(digits(reference.value), unit)}"


def _bars(chart: Chart) -> Iterator[str]:
    """Yield rows of bars; the series of a stacked chart follow each other in one row."""
    categories = list(dict.fromkeys(str(point.x) for series in chart.series for point in series.points))
    values = {(s.name, str(p.x)): p.y for s in chart.series for p in s.points}
    names = [series.name for series in chart.series]
    is_stacked = chart.kind == "stacked"
    sums = [sum(abs(values.get((name, c), 0.0)) for name in names) for c in categories]
    top = max(sums) if is_stacked else max(map(abs, values.values()), default=0.0)
    margin = max(map(len, categories), default=0)
    for category in categories:
        present = [(i, values[name, category]) for i, name in enumerate(names) if (name, category) in values]
        if is_stacked:
            drawn = "".join(_FILLS[i % len(_FILLS)] * round(_length(y, top)) for i, y in present)
            yield f"{category:<{margin}}  {drawn} {_value(sum(y for _, y in present), chart)}"
            continue
        for row, (i, y) in enumerate(present):
            name = f" {names[i]}" if len(names) > 1 else ""
            yield f"{'' if row else category:<{margin}}  {_bar(y, top)} {_value(y, chart)}{name}"
    if is_stacked and len(names) > 1:
        yield "  ".join(f"{_FILLS[i % len(_FILLS)]} {name}" for i, name in enumerate(names))
    yield from (_reference_words(chart, i) for i in range(len(chart.references)))


def _waterfall(chart: Chart) -> Iterator[str]:
    """Yield bars that start where the previous one ends; the sum comes last."""
    points = chart.series[0].points
    ends = [0.0]
    for point in points:
        ends.append(ends[-1] + point.y)
    top = max(map(abs, ends))
    rows = [(str(p.x), min(a, b), p.y) for p, a, b in zip(points, ends, ends[1:], strict=False)]
    margin = max(len(name) for name, _, _ in [*rows, ("total", 0, 0)])
    for name, start, y in [*rows, ("total", 0.0, ends[-1])]:
        yield f"{name:<{margin}}  {' ' * int(_length(start, top))}{_bar(y, top)} {_value(y, chart)}"


def _ranges(chart: Chart) -> Iterator[str]:
    """Yield bars from low to high on one scale, with the base marked."""
    points: Sequence[Datum] = [point for series in chart.series for point in series.points]
    ends = [y for p in points for y in (p.low, p.high, p.y) if y is not None]
    low = min(ends)
    high = max(ends)
    margin = max(len(str(point.x)) for point in points)
    span = high - low or 1.0
    for point in points:
        if (
            point.low is None or point.high is None
        ):  # never in a range chart, as Chart checks that both are there
            continue
        first, base, last = (
            round((y - low) / span * (BAR_WIDTH - 1)) for y in (point.low, point.y, point.high)
        )
        cells = ["█" if first <= i <= last else " " for i in range(BAR_WIDTH)]
        cells[base] = "|"
        words = with_unit(range_words(point.low, point.high), chart.y.unit)
        yield f"{point.x!s:<{margin}}  {''.join(cells)} {words}"


def _length(value: float, top: float) -> float:
    return abs(value) / top * BAR_WIDTH if top else 0.0


def _bar(value: float, top: float) -> str:
    length = _length(value, top)
    whole = math.floor(length)
    return ("█" * whole + _EIGHTHS[int((length - whole) * 8)].strip()) or "▏"


def _value(value: float, chart: Chart) -> str:
    return with_unit(digits(value), chart.y.unit)


def with_unit(number: str, unit: str) -> str:
    """Return a number with its unit: `4.95 ms`, but `$4.95/h`, as a currency comes first."""
    return f"${number}{unit[1:]}" if unit.startswith("$") else f"{number} {unit}".rstrip()
