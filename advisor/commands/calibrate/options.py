"""Options of `advisor calibrate`: a probe turned into figures of one machine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument

from advisor.cli.command import command


@command("calibrate", has_table=False)
@dataclass(frozen=True, slots=True)
class CalibrateInput:
    """Turn a probe into figures that every command takes with --calibration."""

    file: Annotated[
        Path,
        Argument(
            metavar="PROBE",
            help="What `advisor probe -o` wrote, or a recording of the catalog, e.g. h200-sxm-x8.",
        ),
    ]
