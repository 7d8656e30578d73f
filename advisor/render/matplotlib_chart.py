"""Charts as figures of matplotlib, for notebooks and papers; the extra `notebook` brings the library."""

import io
from collections.abc import Sequence
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure as MatplotlibFigure
from matplotlib.ticker import LogFormatter

from advisor.render.answer import CATEGORICAL, Chart, Datum, Series
from advisor.render.numbers import digits

SIZE_INCHES: Final = (8.0, 4.5)
_MUTED: Final = "0.6"
_BAND_OPACITY: Final = 0.2
_MARKERS: Final = "osD^v<>P"
_BAR_WIDTH: Final = 0.8
_COLUMNS_OF_LEGEND: Final = 4
_FREE_FRACTION: Final = 0.12
"""Free part of a horizontal axis at each end, where the label of the last point stands."""


class PlainLogFormatter(LogFormatter):
    """Labels of a logarithmic axis that write small numbers out."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Return the label of a tick; empty where the axis has no room for it."""
        return digits(x) if super().__call__(x, pos) else ""


class ChartFigure(MatplotlibFigure):
    """A figure that a notebook shows as a picture, whichever backend matplotlib has."""

    def _repr_png_(self) -> bytes:
        """Return the picture."""
        buffer = io.BytesIO()
        self.savefig(buffer, format="png")
        return buffer.getvalue()


def draw_chart(chart: Chart) -> ChartFigure:
    """Return a figure with the chart: axes with units, intervals, reference lines and a legend."""
    figure = ChartFigure(figsize=SIZE_INCHES, layout="constrained")
    axes = figure.subplots()
    axes.set_title(chart.title, loc="left")
    is_categorical = chart.kind in CATEGORICAL
    draw = _draw_categories if is_categorical else _draw_points
    draw(axes, chart)
    for reference in chart.references:
        # Bars lie across, so the values of y are on the horizontal axis.
        is_upright = (reference.axis == "x") != is_categorical
        line = axes.axvline if is_upright else axes.axhline
        line(reference.value, color=_MUTED, linestyle="--", label=reference.label)
    if len(axes.get_legend_handles_labels()[1]) > 1:
        figure.legend(loc="outside lower center", ncols=_COLUMNS_OF_LEGEND, frameon=False)
    return figure


def _set_scale(axes: Axes, name: str, *, is_log: bool) -> None:
    """Set the scale of one axis; numbers of a logarithmic axis are written out."""
    if not is_log:
        return
    axis = axes.xaxis if name == "x" else axes.yaxis
    axes.set(**{f"{name}scale": "log"})
    axis.set_major_formatter(PlainLogFormatter())
    axis.set_minor_formatter(PlainLogFormatter(minor_thresholds=(1.5, 0.5)))


def _draw_points(axes: Axes, chart: Chart) -> None:
    axes.set_xlabel(chart.x.label)
    axes.set_ylabel(chart.y.label)
    _set_scale(axes, "x", is_log=chart.x.is_log)
    _set_scale(axes, "y", is_log=chart.y.is_log)
    axes.margins(x=_FREE_FRACTION)
    for series, marker in zip(chart.series, _cycle(_MARKERS, len(chart.series)), strict=True):
        if not series.points:
            continue
        style: dict[str, Any] = {"color": _MUTED} if series.is_muted else {}
        xs = [float(point.x) for point in series.points]
        ys = [point.y for point in series.points]
        is_joined = chart.kind == "line" or series.is_joined
        (drawn,) = axes.plot(
            xs, ys, marker=marker, linestyle="-" if is_joined else "", label=series.name, **style
        )
        _draw_intervals(axes, chart, series, xs, drawn.get_color())
        if chart.kind == "scatter" and not series.is_joined:
            for point in series.points:
                axes.annotate(
                    point.label, (float(point.x), point.y), (6, 4), textcoords="offset points", size=8
                )


def _draw_intervals(axes: Axes, chart: Chart, series: Series, xs: Sequence[float], colour: Any) -> None:
    """Draw intervals as a band of a line, and as whiskers of points."""
    if any(point.low is None or point.high is None for point in series.points):
        return
    lows = [point.low if point.low is not None else point.y for point in series.points]
    highs = [point.high if point.high is not None else point.y for point in series.points]
    if chart.kind == "line":
        axes.fill_between(xs, lows, highs, color=colour, alpha=_BAND_OPACITY, linewidth=0)
    else:
        axes.vlines(xs, lows, highs, color=colour, linewidth=1)


def _draw_categories(axes: Axes, chart: Chart) -> None:
    """Draw bars across the page, the first category on top."""
    axes.set_xlabel(chart.y.label)
    _set_scale(axes, "x", is_log=chart.y.is_log)
    names = list(dict.fromkeys(str(point.x) for series in chart.series for point in series.points))
    places = {name: place for place, name in enumerate(names)}
    starts = dict.fromkeys(names, 0.0)
    thickness = _BAR_WIDTH / (len(chart.series) if chart.kind == "bar" else 1)
    for number, series in enumerate(chart.series):
        shift = (number - (len(chart.series) - 1) / 2.0) * thickness if chart.kind == "bar" else 0.0
        lefts = [_start(chart, point, starts) for point in series.points]
        widths = [_width(chart, point) for point in series.points]
        rows = [places[str(point.x)] + shift for point in series.points]
        style: dict[str, Any] = {"color": _MUTED} if series.is_muted else {}
        axes.barh(rows, widths, height=thickness, left=lefts, label=series.name, **style)
        if chart.kind == "range":
            half = thickness / 2.0
            bases = [point.y for point in series.points]
            axes.vlines(bases, [row - half for row in rows], [row + half for row in rows], color="black")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()


def _start(chart: Chart, point: Datum, starts: dict[str, float]) -> float:
    """Return where the bar of a point starts, and move on what follows it."""
    if chart.kind == "range":
        return point.y if point.low is None else point.low
    name = str(point.x)
    if chart.kind == "waterfall":
        start = sum(starts.values())
        starts[name] = point.y
        return start
    start = starts[name]
    if chart.kind == "stacked":
        starts[name] = start + point.y
    return start


def _width(chart: Chart, point: Datum) -> float:
    if chart.kind == "range" and point.low is not None and point.high is not None:
        return point.high - point.low
    return point.y


def _cycle(signs: str, count: int) -> list[str]:
    return [signs[place % len(signs)] for place in range(count)]
