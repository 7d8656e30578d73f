"""Options of `advisor compare`: two answers or probes of one kind."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument

from advisor.cli.command import command


@command("compare")
@dataclass(frozen=True, slots=True)
class CompareInput:
    """Show what changed between two plans, two reports or two probes, and why."""

    first: Annotated[Path, Argument(metavar="A", help="A plan, a report or a probe, or a recording's name.")]
    second: Annotated[Path, Argument(metavar="B", help="Another one of the same kind.")]
