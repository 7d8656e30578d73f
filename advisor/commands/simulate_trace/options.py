"""Options of `advisor simulate trace`: a recorded trace in a few numbers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from advisor.cli.command import command


@command("simulate trace", has_table=False)
@dataclass(frozen=True, slots=True)
class TraceInput:
    """Describe a trace: rate, burstiness, lengths, common beginnings; and traffic like it for a fleet file."""

    file: Annotated[Path, Argument(metavar="FILE", help="Recorded requests, as for --trace.")]
    speed: Annotated[float, Option(metavar="K", max=1_000_000, help="As if replayed K times as fast.")] = 1.0
