"""Validate predictions against a table of measurements: the same steps for serving and collectives."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.cli.case_files import CaseRow, PredictedRow, measured_value, read_cases, write_predictions
from advisor.render.atomic import check_writable
from advisor.simulator.validation.scores import Comparison, MetricScore, score_metrics

PredictRows = Callable[[Sequence[CaseRow], int], list[PredictedRow]]
"""From rows that hold nothing but inputs, and a seed, to one prediction each."""


@dataclass(frozen=True, slots=True)
class Suite:
    """A kind of table: which columns a prediction may see, what it predicts, by what it is grouped."""

    name: str
    needed: tuple[str, ...]
    inputs: tuple[str, ...]
    metrics: tuple[str, ...]
    groups: tuple[str, ...]
    predict: PredictRows


@dataclass(frozen=True, slots=True)
class Validation:
    """What came out of a table."""

    rows: list[PredictedRow]
    problems: list[str]
    """Reasons of rows with status error, with their row number."""
    scores: Mapping[str, MetricScore]

    @property
    def statuses(self) -> dict[str, int]:
        return dict(Counter(row.status for row in self.rows))

    @property
    def coverage(self) -> float:
        """Share of rows with a prediction."""
        return self.statuses.get("ok", 0) / len(self.rows)


def validate(suite: Suite, cases: Path, predictions: Path | None, seed: int) -> Validation:
    """Predict every row, write the predictions if asked, and score them where something was measured.

    Raises: InputFileError: the table cannot be read. UnwritableError: the predictions cannot be written.
    """
    if predictions is not None:
        check_writable(predictions)
    rows = read_cases(cases, suite.needed)
    whole = [row for row in rows if not row.problem]
    visible = [CaseRow(row.number, _only(row.cells, suite.inputs)) for row in whole]
    predicted = dict(zip((row.number for row in whole), suite.predict(visible, seed), strict=True))
    results = [predicted.get(row.number) or _unreadable(row) for row in rows]
    if predictions is not None:
        write_predictions(predictions, results, suite.metrics)
    comparisons = [
        Comparison(metric, measured, result.metrics.get(metric), _only(row.cells, suite.groups))
        for metric in suite.metrics
        for row, result in zip(rows, results, strict=True)
        if (measured := measured_value(row, metric)) is not None
    ]
    problems = [result.reason for result in results if result.status == "error"]
    return Validation(results, problems, score_metrics(comparisons, suite.groups))


def _only(cells: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    return {name: cells[name] for name in names if name in cells}


def _unreadable(row: CaseRow) -> PredictedRow:
    return PredictedRow(row.cells.get("case_id") or f"row-{row.number}", "error", row.problem, "", {})


def collectives_suite() -> Suite:
    """Collectives: the columns of nccl-tests results."""
    from advisor.simulator.validation.collective_case import INPUT_COLUMNS, METRICS
    from advisor.simulator.validation.collectives import predict_row

    def predict(rows: Sequence[CaseRow], seed: int) -> list[PredictedRow]:
        found = [predict_row(row.cells, row.number) for row in rows]
        return [PredictedRow(p.case_id, p.status, p.reason, p.basis, p.metrics) for p in found]

    groups = ("gpu", "collective", "fabric", "source")
    return Suite("collectives", ("collective", "gpu"), INPUT_COLUMNS, METRICS, groups, predict)
