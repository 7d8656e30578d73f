"""Options of `advisor compare`: two answers or probes of one kind."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument

from advisor.cli.command import command


@command("compare")
@dataclass(frozen=True, slots=True)
class CompareInput:
    """Show what changed between two plans, reports or probes, and why; or two accelerators or models."""

    first: Annotated[
        Path,
        Argument(metavar="A", help="A plan, report or probe, a recording's name, an accelerator or a model."),
    ]
    second: Annotated[Path, Argument(metavar="B", help="Another one of the same kind.")]
