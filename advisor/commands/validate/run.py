"""Validate predictions against a table of measurements: the same steps for serving and collectives."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Final

from advisor.ask.options import SharedOptions
from advisor.ask.own_data import given_calibration
from advisor.ask.texts import text_of
from advisor.catalog import accelerators
from advisor.catalog.schema import Calibration
from advisor.commands.validate.cases import PredictRow, Suite, Validation, write_predictions
from advisor.commands.validate.collectives_file import judged_collectives
from advisor.commands.validate.options import (
    CaseTable,
    CollectivesInput,
    FileInput,
    NcclTestsInput,
    ServingInput,
    ValidateImagesInput,
    ValidateOffloadInput,
    ValidateTrainingInput,
)
from advisor.commands.validate.view import validation_answer
from advisor.evidence.prediction import Prediction
from advisor.evidence.scores import JudgedRow, comparisons, score_metrics
from advisor.evidence.serving.case import VIEWS, View
from advisor.evidence.table import CaseRow, read_cases
from advisor.render.answer import Answer
from advisor.render.atomic import check_writable
from advisor.render.calibration_view import with_calibration

_CLOSE: Final = 0.8
"""Ratio of equal letters (difflib) from which a column's name is taken for another one's misspelling."""


def serving(asked: ServingInput, shared: SharedOptions) -> Answer:
    """Return the validation of serving runs against published measurements, in both views; the predictions file holds
    the view that was asked for; raises as `validate`."""
    from advisor.evidence.serving.accuracy import serving_accuracy

    calibration = given_calibration(shared.calibration)
    found = {}
    for view in sorted(VIEWS, key=asked.view.__ne__):
        table = asked if view == asked.view else replace(asked, predictions=None)
        found[view] = validate(serving_suite(calibration, view), table, shared.seed)
    replay = found["replay"]
    stranger = found["stranger"]
    answer = validation_answer(
        "serving",
        asked,
        replay,
        serving_accuracy(replay.judged),
        stranger=stranger,
        stranger_accuracy=serving_accuracy(stranger.judged),
    )
    return with_calibration(answer, calibration, replay.gpus)


def collectives(asked: CollectivesInput, shared: SharedOptions) -> Answer:
    """Return the validation of collectives against nccl-tests results; raises as `validate`."""
    calibration = given_calibration(shared.calibration)
    found = validate(collectives_suite(calibration), asked, shared.seed)
    return with_calibration(validation_answer("collectives", asked, found), calibration, found.gpus)


def training(asked: ValidateTrainingInput, shared: SharedOptions) -> Answer:
    """Return the validation of training runs against published measurements; raises as `validate`."""
    return validation_answer("training", asked, validate(training_suite(), asked, shared.seed))


def images(asked: ValidateImagesInput, shared: SharedOptions) -> Answer:
    """Return the validation of images and videos against published timings; raises as `validate`."""
    return validation_answer("images", asked, validate(images_suite(), asked, shared.seed))


def offload(asked: ValidateOffloadInput, shared: SharedOptions) -> Answer:
    """Return the validation of runs with weights in the host's memory; raises as `validate`."""
    return validation_answer("offload", asked, validate(offload_suite(), asked, shared.seed))


def nccl_tests(asked: NcclTestsInput, shared: SharedOptions) -> Answer:
    """Return the verdict on a run.

    Raises: InputFileError: the file cannot be read or holds no results. AdvisorError: the accelerator is unknown or
        not said, or the group does not fit its nodes.
    """
    return judged_collectives(text_of(asked.file), asked.file, asked.gpu, asked.network, asked.op)


def file(asked: FileInput, shared: SharedOptions) -> Answer:
    """Return the verdict on a file of any format that is read.

    Raises: InputFileError: the file cannot be read, is in no known format, or lacks what a prediction needs.
        AdvisorError: something typed is unknown.
    """
    from advisor.commands.validate.measured_files import judged_file

    return judged_file(asked, text_of(asked.file), shared.seed, given_calibration(shared.calibration))


def validate(suite: Suite, asked: CaseTable, seed: int) -> Validation:
    """Predict every row, write the predictions if asked, and score them where something was measured.

    Raises: InputFileError: the table cannot be read. UnwritableError: the predictions cannot be written.
    """
    if asked.predictions is not None:
        check_writable(asked.predictions)
    rows = read_cases(asked.cases, suite.needed)
    results = [_predict_row(suite, row, seed) for row in rows]
    if asked.predictions is not None:
        write_predictions(asked.predictions, results, suite.metrics)
    judged = [JudgedRow(row.cells, result.metrics) for row, result in zip(rows, results, strict=True)]
    compared = (one for metric in suite.metrics for one in comparisons(judged, metric))
    problems = [result.reason for result in results if result.status == "error"]
    gpus = frozenset(row.cells["gpu"] for row in rows if row.cells.get("gpu"))
    misspelt = tuple(_misspelt(rows[0].cells if rows else (), (*suite.inputs, *suite.metrics, *suite.groups)))
    return Validation(judged, results, problems, score_metrics(compared, suite.groups), gpus, misspelt)


def _misspelt(columns: Iterable[str], known: Sequence[str]) -> Iterator[str]:
    """Yield a remark on each column that is not read and whose name is close to one that is read and missing."""
    typed = list(columns)
    for name in typed:
        near = get_close_matches(name, [each for each in known if each not in typed], 1, cutoff=_CLOSE)
        if name not in known and near:
            yield f"column {name} is not read: did you mean {near[0]}?"


def _predict_row(suite: Suite, row: CaseRow, seed: int) -> Prediction:
    """Return the prediction of one row; whatever is wrong with it does not stop the others."""
    case_id = row.cells.get("case_id") or f"row-{row.number}"
    if row.problem:
        return Prediction(case_id, "error", row.problem)
    try:
        inputs = {name: row.cells[name] for name in suite.inputs if name in row.cells}
        return suite.predict(CaseRow(row.number, inputs), seed)
    except Exception as error:
        reason = f"row {row.number}: internal error {type(error).__name__}: {error}"
        return Prediction(case_id, "error", reason)


def collectives_suite(calibration: Calibration | None = None) -> Suite:
    """Return the suite of collectives: columns of nccl-tests results; a calibration counts for its accelerator's rows.

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
    """Return the suite of serving: columns of published measurements; a calibration counts for rows of its accelerator.

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


def _check_figures(calibration: Calibration | None) -> None:
    """Refuse implausible figures at once: here they are one mistake, in a row they would be one of that row."""
    from advisor.simulator.calibrated_device import accelerator_figures

    if calibration is not None:
        accelerator_figures(accelerators.by_id(calibration.accelerator), calibration)


def _without_seed(predict_row: Callable[[Mapping[str, str], int], Prediction]) -> PredictRow:
    """Return the prediction of rows in which nothing is random."""
    return lambda row, _: predict_row(row.cells, row.number)


def images_suite() -> Suite:
    """Return the suite of images and videos: columns of published timings."""
    from advisor.evidence.images.prediction import INPUT_COLUMNS, METRICS, predict_row

    groups = ("model", "gpu", "source")
    return Suite("images", ("model", "gpu"), INPUT_COLUMNS, METRICS, groups, _without_seed(predict_row))


def offload_suite() -> Suite:
    """Return the suite of runs with weights in the host's memory: columns of published runs."""
    from advisor.evidence.hosted.prediction import INPUT_COLUMNS, METRICS, predict_row

    groups = ("gpu", "engine", "model", "cpu", "source")
    return Suite("offload", ("model", "cpu"), INPUT_COLUMNS, METRICS, groups, _without_seed(predict_row))


def training_suite() -> Suite:
    """Return the suite of training: the columns of published training runs."""
    from advisor.evidence.training.case import INPUT_COLUMNS, METRICS
    from advisor.evidence.training.prediction import predict_row

    groups = ("gpu", "framework", "model", "precision", "finetune", "source", "tier", "group")
    return Suite("training", ("model", "gpu"), INPUT_COLUMNS, METRICS, groups, _without_seed(predict_row))
