"""Options of `advisor simulate checkpoints`: failures of a cluster, and a checkpoint of a known duration."""

from dataclasses import dataclass
from typing import Annotated

from typer import Option

from advisor.cli.command import Studied, command


@command("simulate checkpoints", has_table=False, studied=Studied())
@dataclass(frozen=True, slots=True)
class CheckpointsInput:
    """Simulate failures of a training run: time between them, best checkpoint interval, goodput."""

    gpus: Annotated[int, Option(metavar="N", min=1, max=10_000_000, help="Accelerators of the run.")]
    checkpoint: Annotated[
        str, Option(metavar="TIME", help="How long a checkpoint stops training, e.g. 120s.")
    ] = "120s"
    mtbf_hours: Annotated[
        float, Option(metavar="H", min=1, max=1_000_000_000, help="Between failures of one accelerator.")
    ] = 50_000.0
    restart: Annotated[str, Option(metavar="TIME", help="From a failure to the next step.")] = "10min"
    interval: Annotated[
        str | None,
        Option(metavar="TIME", help="Time between checkpoints.", show_default="the best one"),
    ] = None
