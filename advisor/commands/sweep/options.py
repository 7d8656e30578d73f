"""Options of `advisor sweep`: one command asked at many points."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from advisor.ask.options import Effect
from advisor.cli.command import command


@command("sweep", is_local=True)
@dataclass(frozen=True, slots=True)
class SweepInput:
    """Ask a command at every point of a study: a grid, cases or random draws of its options."""

    file: Annotated[
        Path,
        Argument(metavar="STUDY.toml", help="A study; or its results (.csv, .parquet), to summarise them."),
    ]
    workers: Annotated[
        int | None,
        Option(metavar="N", min=1, max=4096, help="Processes of this machine.", show_default="one per core"),
    ] = None
    cluster: Annotated[
        str | None,
        Option(
            metavar="ADDRESS",
            help="A Dask (tcp://HOST:8786) or Ray (ray://HOST:10001) cluster that runs already.",
            show_default=False,
        ),
        Effect.SENDS,
    ] = None
    resume: Annotated[
        bool, Option("--resume", help="Go on where an interrupted sweep stopped."), Effect.CHANGES
    ] = False
    pareto: Annotated[
        str | None,
        Option(
            metavar="OBJECTIVES",
            help="Which points are best: 'min COLUMN, max COLUMN'.",
            show_default="the study's, or the command's own",
        ),
    ] = None
