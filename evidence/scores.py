"""How far predictions are from measurements: errors and interval coverage, overall and by group."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from advisor.simulator.quantity import Quantity

MISSING_ERROR = 1.0
"""Relative error that a measured value without prediction counts as, where the missing ones count."""


def measured_value(cells: Mapping[str, str], metric: str) -> float | None:
    """What was measured of a metric, where a row gives it as a positive number; in the column's unit."""
    try:
        value = float(cells.get(metric) or "nan")
    except ValueError:
        return None
    return value if 0.0 < value < float("inf") else None


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """A row of a table of cases, and what was predicted for it by column; empty without a prediction."""

    cells: Mapping[str, str]
    predicted: Mapping[str, Quantity]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One measured value, and what was predicted for it, if anything."""

    metric: str
    measured: float
    predicted: Quantity | None
    groups: Mapping[str, str] = field(default_factory=dict)
    """By the name of a column: gpu, engine, model, source, tier."""


@dataclass(frozen=True, slots=True)
class Score:
    """Errors of the predictions of one metric; fractions, e.g. 0.08 is 8 %."""

    n: int
    """Measured values with a prediction."""
    num_missing: int
    """Measured values without one."""
    mape: float | None
    median_ape: float | None
    p90_ape: float | None
    bias: float | None
    """Median of predicted / measured - 1."""
    interval_coverage: float | None
    """Share of measured values inside the 80 % interval."""
    median_ape_missing_as_1: float
    """Median error when a missing prediction counts as 100 %."""


@dataclass(frozen=True, slots=True)
class MetricScore:
    """A metric over all rows, by group, and averaged over groups so that large ones do not drown small ones."""

    overall: Score
    macro: Mapping[str, Mapping[str, float]]
    """By column: mean over its groups of mape, median_ape and interval_coverage."""
    by: Mapping[str, Mapping[str, Score]]
    """By column, then by its value."""


def comparisons(rows: Iterable[JudgedRow], metric: str) -> list[Comparison]:
    """What was measured of a metric and what was predicted, in the order of the rows that give it."""
    return [
        Comparison(metric, measured, row.predicted.get(metric), row.cells)
        for row in rows
        if (measured := measured_value(row.cells, metric)) is not None
    ]


def score_metrics(comparisons: Iterable[Comparison], columns: Sequence[str]) -> dict[str, MetricScore]:
    """Scores of every metric that was measured at all, in the order in which metrics first appear."""
    by_metric: dict[str, list[Comparison]] = {}
    for comparison in comparisons:
        by_metric.setdefault(comparison.metric, []).append(comparison)
    return {metric: _metric_score(rows, columns) for metric, rows in by_metric.items()}


def score(rows: Sequence[Comparison]) -> Score:
    """Errors over measured values: |predicted / measured - 1|, its mean, median and 90th percentile.

    Raises: ValueError: there are no rows.
    Source: own definition; MAPE as usual in forecasting.
    """
    if not rows:
        raise ValueError("a score needs at least one measured value")
    pairs = [(row.predicted, row.measured) for row in rows if row.predicted is not None]
    ratios = np.array([predicted.value / measured - 1.0 for predicted, measured in pairs])
    errors, num_missing = np.abs(ratios), len(rows) - len(pairs)
    counted = np.concatenate([errors, np.full(num_missing, MISSING_ERROR)])
    inside = [predicted.low <= measured <= predicted.high for predicted, measured in pairs]
    return Score(
        n=len(pairs),
        num_missing=num_missing,
        mape=float(errors.mean()) if pairs else None,
        median_ape=float(np.median(errors)) if pairs else None,
        p90_ape=float(np.quantile(errors, 0.9)) if pairs else None,
        bias=float(np.median(ratios)) if pairs else None,
        interval_coverage=sum(inside) / len(inside) if pairs else None,
        median_ape_missing_as_1=float(np.median(counted)),
    )


def _metric_score(rows: Sequence[Comparison], columns: Sequence[str]) -> MetricScore:
    by = {column: _by_value(rows, column) for column in columns}
    by = {column: scores for column, scores in by.items() if scores}
    return MetricScore(
        score(rows), {column: _macro(list(scores.values())) for column, scores in by.items()}, by
    )


def _by_value(rows: Sequence[Comparison], column: str) -> dict[str, Score]:
    values: dict[str, list[Comparison]] = {}
    for row in rows:
        if row.groups.get(column):
            values.setdefault(row.groups[column], []).append(row)
    return {value: score(values[value]) for value in sorted(values)}


def _macro(scores: Sequence[Score]) -> dict[str, float]:
    averages = {}
    for name in ("mape", "median_ape", "interval_coverage", "median_ape_missing_as_1"):
        known = [value for value in (getattr(one, name) for one in scores) if value is not None]
        if known:
            averages[name] = statistics.fmean(known)
    return averages
