"""Errors and interval coverage of predictions against measurements, overall and by group."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from advisor.simulator.quantity import Quantity

MISSING_ERROR = 1.0
"""Relative error of a measured value without prediction, in scores that count missing predictions."""


def measured_value(cells: Mapping[str, str], metric: str) -> float | None:
    """Return the measured value of a metric, in the column's unit; None if the row has no positive number."""
    try:
        value = float(cells.get(metric) or "nan")
    except ValueError:
        return None
    return value if 0.0 < value < float("inf") else None


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """Row of a table of cases with its prediction by column; empty without a prediction."""

    cells: Mapping[str, str]
    predicted: Mapping[str, Quantity]


@dataclass(frozen=True, slots=True)
class MeasuredPrediction:
    """One measured value with its prediction, if there is one."""

    metric: str
    measured: float
    predicted: Quantity | None
    groups: Mapping[str, str] = field(default_factory=dict)
    """Groups of the row, by name of the column: gpu, engine, model, source, tier."""


@dataclass(frozen=True, slots=True)
class Score:
    """Errors of the predictions of one metric; fractions, e.g. 0.08 is 8 %."""

    n: int
    """Number of measured values with a prediction."""
    num_missing: int
    """Number of measured values without a prediction."""
    mape: float | None
    median_ape: float | None
    p90_ape: float | None
    bias: float | None
    """Median of predicted / measured - 1; None without predictions."""
    interval_coverage: float | None
    """Fraction of measured values inside the 80 % interval; None without intervals."""
    median_ape_missing_as_1: float
    """Median error if a missing prediction counts as 100 %."""


@dataclass(frozen=True, slots=True)
class MetricScore:
    """Scores of a metric over all rows, by group, and averaged over groups so that small groups count as much as large
    ones."""

    overall: Score
    macro: Mapping[str, Mapping[str, float]]
    """Mean over the groups of a column of mape, median_ape and interval_coverage, by column."""
    by: Mapping[str, Mapping[str, Score]]
    """Scores by column, then by the column's value."""


def comparisons(rows: Iterable[JudgedRow], metric: str) -> list[MeasuredPrediction]:
    """Return measured values of a metric with their predictions, in the order of the rows."""
    return [
        MeasuredPrediction(metric, measured, row.predicted.get(metric), row.cells)
        for row in rows
        if (measured := measured_value(row.cells, metric)) is not None
    ]


def score_metrics(
    comparisons: Iterable[MeasuredPrediction], columns: Sequence[str]
) -> dict[str, MetricScore]:
    """Return the scores of every metric that any row measured, in the order in which metrics first appear."""
    by_metric: dict[str, list[MeasuredPrediction]] = {}
    for comparison in comparisons:
        by_metric.setdefault(comparison.metric, []).append(comparison)
    return {metric: _metric_score(rows, columns) for metric, rows in by_metric.items()}


def score(rows: Sequence[MeasuredPrediction]) -> Score:
    """Errors over measured values: |predicted / measured - 1|, its mean, median and 90th percentile.

    Raises: ValueError: there are no rows.
    Source: MAPE as usual in forecasting.
    """
    if not rows:
        raise ValueError("a score needs at least one measured value")
    pairs = [(row.predicted, row.measured) for row in rows if row.predicted is not None]
    ratios = np.array([predicted.value / measured - 1.0 for predicted, measured in pairs])
    errors = np.abs(ratios)
    num_missing = len(rows) - len(pairs)
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


def _metric_score(rows: Sequence[MeasuredPrediction], columns: Sequence[str]) -> MetricScore:
    by = {column: _by_value(rows, column) for column in columns}
    by = {column: scores for column, scores in by.items() if scores}
    return MetricScore(
        score(rows), {column: _macro(list(scores.values())) for column, scores in by.items()}, by
    )


def _by_value(rows: Sequence[MeasuredPrediction], column: str) -> dict[str, Score]:
    values: dict[str, list[MeasuredPrediction]] = {}
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
