"""Validate predictions against a table of measurements: the same steps for serving and collectives."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.catalog.schema import Calibration
from advisor.cli.case_files import write_predictions
from advisor.evidence.prediction import Prediction
from advisor.evidence.scores import JudgedRow, MetricScore, comparisons, score_metrics
from advisor.evidence.serving.case import VIEWS, View
from advisor.evidence.table import CaseRow, read_cases
from advisor.render.answer import Answer
from advisor.render.atomic import check_writable
from advisor.render.calibration_view import with_calibration
from advisor.render.validation_view import validation_answer

PredictRow = Callable[[CaseRow, int], Prediction]
"""From a row that holds nothing but inputs, and a seed, to its prediction."""


@dataclass(frozen=True, slots=True)
class Suite:
    """A kind of table: which columns a prediction may see, what it predicts, by what it is grouped."""

    name: str
    needed: tuple[str, ...]
    inputs: tuple[str, ...]
    metrics: tuple[str, ...]
    groups: tuple[str, ...]
    predict: PredictRow


@dataclass(frozen=True, slots=True)
class Validation:
    """What came out of a table."""

    judged: list[JudgedRow]
    """The table, measured columns and all, with what was predicted."""
    rows: list[Prediction]
    problems: list[str]
    """Reasons of rows with status error, with their row number."""
    scores: Mapping[str, MetricScore]
    gpus: frozenset[str] = frozenset()
    """Accelerators that the rows name."""

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
    results = [_predicted(suite, row, seed) for row in rows]
    if predictions is not None:
        write_predictions(predictions, results, suite.metrics)
    judged = [JudgedRow(row.cells, result.metrics) for row, result in zip(rows, results, strict=True)]
    compared = (one for metric in suite.metrics for one in comparisons(judged, metric))
    problems = [result.reason for result in results if result.status == "error"]
    gpus = frozenset(row.cells["gpu"] for row in rows if row.cells.get("gpu"))
    return Validation(judged, results, problems, score_metrics(compared, suite.groups), gpus)


def _predicted(suite: Suite, row: CaseRow, seed: int) -> Prediction:
    """The prediction of one row; whatever is wrong with it does not stop the others."""
    case_id = row.cells.get("case_id") or f"row-{row.number}"
    if row.problem:
        return Prediction(case_id, "error", row.problem)
    try:
        return suite.predict(CaseRow(row.number, _only(row.cells, suite.inputs)), seed)
    except Exception as error:
        reason = f"row {row.number}: internal error {type(error).__name__}: {error}"
        return Prediction(case_id, "error", reason)


def _only(cells: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    return {name: cells[name] for name in names if name in cells}


def collectives_suite(calibration: Calibration | None = None) -> Suite:
    """Collectives: the columns of nccl-tests results; a calibration counts for rows of its accelerator.

    Raises: AdvisorError: a figure of the calibration is implausible.
    """
    from advisor.evidence.collectives.case import INPUT_COLUMNS, METRICS
    from advisor.evidence.collectives.prediction import predict_row

    _check_figures(calibration)

    def predict(row: CaseRow, seed: int) -> Prediction:
        return predict_row(row.cells, row.number, calibration)

    groups = ("gpu", "collective", "fabric", "source")
    return Suite("collectives", ("collective", "gpu"), INPUT_COLUMNS, METRICS, groups, predict)


def serving_suite(calibration: Calibration | None = None, view: View = "replay") -> Suite:
    """Serving: the columns of published serving measurements; a calibration counts for rows of its accelerator.

    The view says whether engines and clients are started as published scripts do, or as a stranger's server is.

    Raises: AdvisorError: a figure of the calibration is implausible.
    """
    from advisor.evidence.serving.case import INPUT_COLUMNS, METRICS
    from advisor.evidence.serving.prediction import predict_row

    _check_figures(calibration)

    def predict(row: CaseRow, seed: int) -> Prediction:
        return predict_row(row.cells, row.number, seed=seed, calibration=calibration, view=view)

    groups = ("gpu", "engine", "model", "source", "tier", "group")
    return Suite("serving", ("engine", "model", "gpu", "load"), INPUT_COLUMNS, METRICS, groups, predict)


def scored_serving(
    cases: Path, predictions: Path | None, view: View, calibration: Calibration | None, seed: int
) -> Answer:
    """Serving scored in both views; the predictions file holds the one that was asked for.

    Raises: AdvisorError: a figure of the calibration is implausible. InputFileError: the table cannot be read.
        UnwritableError: the predictions cannot be written.
    """
    from advisor.evidence.serving.accuracy import serving_accuracy

    found = {
        one: validate(serving_suite(calibration, one), cases, predictions if one == view else None, seed)
        for one in sorted(VIEWS, key=view.__ne__)
    }
    replay, stranger = found["replay"], found["stranger"]
    answer = validation_answer(
        "serving",
        cases,
        predictions,
        replay,
        serving_accuracy(replay.judged),
        stranger=stranger,
        stranger_accuracy=serving_accuracy(stranger.judged),
    )
    return with_calibration(answer, calibration, replay.gpus)


def _check_figures(calibration: Calibration | None) -> None:
    """Refuse implausible figures at once: here they are one mistake, in a row they would be one of that row."""
    from advisor.catalog import accelerators
    from advisor.simulator.calibrated_device import accelerator_figures

    if calibration is not None:
        accelerator_figures(accelerators.by_id(calibration.accelerator), calibration)


def training_suite() -> Suite:
    """Training: the columns of published training runs."""
    from advisor.evidence.training.case import INPUT_COLUMNS, METRICS
    from advisor.evidence.training.prediction import predict_row

    def predict(row: CaseRow, seed: int) -> Prediction:
        return predict_row(row.cells, row.number)

    groups = ("gpu", "framework", "model", "precision", "finetune", "source", "tier", "group")
    return Suite("training", ("model", "gpu"), INPUT_COLUMNS, METRICS, groups, predict)
