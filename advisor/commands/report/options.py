"""Options of `advisor report`: saved answers on one page."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument

from advisor.cli.command import command


@command("report", is_local=True)
@dataclass(frozen=True, slots=True)
class CollectInput:
    """Put saved answers side by side: best options, all options, what differs; -o page.html writes one page."""

    files: Annotated[
        list[Path], Argument(metavar="ANSWER.json...", help="Files that -o FILE.json or --plan wrote.")
    ]
