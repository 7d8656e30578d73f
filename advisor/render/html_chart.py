"""Charts on a page: data for the drawing, and a description for people who cannot see it."""

import html
import json
from collections.abc import Mapping
from typing import Any

from advisor.render.answer import CATEGORICAL, Axis, Chart, Datum, Series
from advisor.render.chart_text import interval_words, with_unit
from advisor.render.numbers import MISSING, digits

TOTAL = "total"
_SHORT_UNIT = 8


def chart_html(chart: Chart, table: str) -> str:
    """Return the figure: caption, description, place of the drawing, its data, and `table` with the same numbers."""
    name = html.escape(chart.title)
    about = html.escape(chart.description)
    description = f'<p class="description">{about}</p>' if about else ""
    label = html.escape(f"{chart.title}. {describe(chart)}", quote=True)
    return (
        f'<figure class="chart" data-kind="{chart.kind}">\n'
        f'<figcaption><span class="name">{name}</span></figcaption>{description}\n'
        f'<div class="plot" role="img" aria-label="{label}"></div>\n'
        f'<script type="application/json">{embed_json(chart_data(chart))}</script>\n'
        f'<details class="numbers"><summary>Numbers<span class="visually-hidden"> of: {name}</span></summary>{table}'
        "</details>\n</figure>"
    )


def describe(chart: Chart) -> str:
    """Return a description of the drawing: its own text, then axes, series and extremes."""
    points = [point for series in chart.series for point in series.points]
    names = ", ".join(series.name for series in chart.series if series.name)
    low = min(points, key=lambda p: p.y)
    high = max(points, key=lambda p: p.y)
    parts = [
        chart.description,
        f"{chart.kind} chart of {chart.y.label} over {chart.x.label}",
        f"series: {names}" if len(chart.series) > 1 else "",
        f"from {_label_point(low, chart.y)} to {_label_point(high, chart.y)}" if len(points) > 1 else "",
    ]
    return ". ".join(part.rstrip(".") for part in parts if part) + "."


def _label_point(point: Datum, axis: Axis) -> str:
    name = point.label or (point.x if isinstance(point.x, str) else "")
    return (
        f"{with_unit(digits(point.y), axis.unit)} ({name})" if name else with_unit(digits(point.y), axis.unit)
    )


def chart_data(chart: Chart) -> dict[str, Any]:
    """Return the data for the page's script; every number that it prints is included as text too."""
    data: dict[str, Any] = {
        "kind": chart.kind,
        "title": chart.title,
        "x": _axis(chart.x),
        "y": _axis(chart.y),
        "series": [_series(series, chart) for series in chart.series],
        "references": [
            {"axis": line.axis, "value": line.value, "label": line.label} for line in chart.references
        ],
    }
    if chart.kind == "waterfall":
        total = sum(point.y for point in chart.series[0].points)
        data["total"] = _point(Datum(TOTAL, total), chart)
    if chart.kind == "stacked":
        data["sums"] = _sums(chart)
    return data


def _axis(axis: Axis) -> dict[str, Any]:
    return {"label": axis.label, "unit": axis.unit, "log": axis.is_log}


def _series(series: Series, chart: Chart) -> dict[str, Any]:
    return {
        "name": series.name,
        "joined": series.is_joined,
        "muted": series.is_muted,
        "points": [_point(point, chart) for point in series.points],
    }


def _point(point: Datum, chart: Chart) -> dict[str, Any]:
    words = with_unit(digits(point.y), chart.y.unit)
    facts = [(chart.y.title, words)]
    if chart.kind not in CATEGORICAL:
        facts.insert(0, (chart.x.title, with_unit(digits(float(point.x)), chart.x.unit)))
    interval = interval_words(point)
    if interval != MISSING:
        facts.append(
            ("from, to" if chart.kind == "range" else "80 % interval", with_unit(interval, chart.y.unit))
        )
    return {
        "x": None if isinstance(point.x, str) else point.x,
        "name": point.x if isinstance(point.x, str) else "",
        "y": point.y,
        "low": point.low,
        "high": point.high,
        "label": point.label,
        "mark": point.mark,
        "words": words,
        "ends": [with_unit(digits(y), chart.y.unit) for y in (point.low, point.high) if y is not None],
        "facts": facts,
    }


def _sums(chart: Chart) -> Mapping[str, str]:
    sums: dict[str, float] = {}
    for series in chart.series:
        for point in series.points:
            sums[str(point.x)] = sums.get(str(point.x), 0.0) + point.y
    # A label that does not fit beside the bar is set at the axis.
    unit = chart.y.unit if len(chart.y.unit) <= _SHORT_UNIT else ""
    return {name: with_unit(digits(value), unit) for name, value in sums.items()}


def embed_json(data: object) -> str:
    """Return JSON that cannot end the script element that holds it."""
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace(
        "<", "\\u003c"
    )
