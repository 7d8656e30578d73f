"""`advisor validate ...`: predictions beside measurements."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from advisor.cli.command import command, show_help_without_subcommand
from advisor.cli.options import Shared
from advisor.render.answer import Answer

app = typer.Typer(help="Predict a table of cases and score it against what was measured.")
app.callback(invoke_without_command=True)(show_help_without_subcommand)

Cases = Annotated[
    Path, typer.Argument(metavar="CASES.csv", help="Table of cases; measured columns are only compared.")
]
Predictions = Annotated[
    Path | None,
    typer.Option(
        metavar="OUT.csv", help="Write one prediction per row, with its 80 % interval.", show_default=False
    ),
]


class PredictedView(StrEnum):
    """How published runs are predicted."""

    REPLAY = "replay"
    STRANGER = "stranger"


@command(app, "serving", uses_calibration=True)
def serving(
    shared: Shared,
    cases: Cases,
    predictions: Predictions = None,
    view: Annotated[
        PredictedView,
        typer.Option(
            help="What the predictions file holds: runs replayed as their scripts say, or as a stranger's."
        ),
    ] = PredictedView.REPLAY,
) -> Answer:
    """Predict serving runs and compare them with published measurements."""
    from advisor.cli.calibration_file import given_calibration
    from advisor.cli.validation import scored_serving

    return scored_serving(cases, predictions, view.value, given_calibration(shared.calibration), shared.seed)


@command(app, "collectives", uses_calibration=True)
def collectives(shared: Shared, cases: Cases, predictions: Predictions = None) -> Answer:
    """Predict collectives and compare them with nccl-tests results."""
    from advisor.cli.calibration_file import given_calibration
    from advisor.cli.validation import collectives_suite, validate
    from advisor.render.calibration_view import with_calibration
    from advisor.render.validation_view import validation_answer

    calibration = given_calibration(shared.calibration)
    suite = collectives_suite(calibration)
    found = validate(suite, cases, predictions, shared.seed)
    answer = validation_answer(suite.name, cases, predictions, found)
    return with_calibration(answer, calibration, found.gpus)


@command(app, "training")
def training(shared: Shared, cases: Cases, predictions: Predictions = None) -> Answer:
    """Predict training runs and compare them with published measurements."""
    from advisor.cli.validation import training_suite, validate
    from advisor.render.validation_view import validation_answer

    suite = training_suite()
    return validation_answer(suite.name, cases, predictions, validate(suite, cases, predictions, shared.seed))


@command(app, "nccl-tests")
def nccl_tests(
    shared: Shared,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="What all_reduce_perf and the like printed; - is stdin."),
    ],
    gpu: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Accelerator.", show_default="as the output's header says"),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Links in words: 'EFA 32x100Gb', 'RoCE 8x400Gb', 'PCIe4 no P2P'.",
            show_default="the accelerator's usual",
        ),
    ] = None,
) -> Answer:
    """Is my bus bandwidth normal? Hold nccl-tests output against what its machine should reach."""
    from advisor.cli.nccl_tests_run import judged

    return judged(file, gpu, network)
