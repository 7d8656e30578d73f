"""Options of `advisor calibrate`: a probe, or a benchmark of a server, turned into figures of one machine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument

from advisor.ask.options import StatedServer
from advisor.cli.command import command


@command("calibrate", has_table=False)
@dataclass(frozen=True, slots=True)
class CalibrateInput:
    """Turn a probe, or a benchmark of your own server, into figures that every command takes with --calibration."""

    file: Annotated[
        Path,
        Argument(
            metavar="FILE",
            help="What `advisor probe -o` wrote, a recording of the catalog (h200-sxm-x8), or what a benchmark client "
            "wrote: see `advisor validate file`.",
        ),
    ]
    server: StatedServer = StatedServer()
