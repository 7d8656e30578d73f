"""Options that every command shares, accepted after the subcommand."""

import datetime
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

from typer import Option

from advisor.catalog.errors import AdvisorError

PANEL: Final = "Output and reproducibility"


def today() -> datetime.date:
    """The day on which the question is asked; documented examples are run on a fixed one."""
    return datetime.date.today()


def parse_day(text: str, option: str) -> datetime.date:
    """A calendar day written as YYYY-MM-DD.

    Raises: AdvisorError: it is written otherwise or does not exist.
    """
    try:
        return datetime.datetime.strptime(text, "%Y-%m-%d").date()
    except ValueError:
        raise AdvisorError(
            f"{option} {text} is not a date",
            why="a date is written YYYY-MM-DD and must exist",
            fix=f"e.g. {option} 2026-11-20",
        ) from None


def _as_of(text: str) -> datetime.date:
    return parse_day(text, "--as-of")


JsonFlag = Annotated[
    bool, Option("--json", help="Print one JSON document and nothing else.", rich_help_panel=PANEL)
]
OutputFile = Annotated[
    Path | None,
    Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write the answer to a file too; the suffix says how: .json .csv .md .html.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]
QuietFlag = Annotated[
    bool,
    Option(
        "--quiet", "-q", help="No progress, notes or warnings; with -o only the file.", rich_help_panel=PANEL
    ),
]
VerboseFlag = Annotated[
    bool,
    Option("--verbose", "-v", help="More notes; the traceback of an internal error.", rich_help_panel=PANEL),
]
NoInputFlag = Annotated[bool, Option("--no-input", help="Never ask a question.", rich_help_panel=PANEL)]
OfflineFlag = Annotated[bool, Option("--offline", help="Never use the network.", rich_help_panel=PANEL)]
Seed = Annotated[
    int,
    Option(
        metavar="N", min=0, help="Seed of everything random: same seed, same answer.", rich_help_panel=PANEL
    ),
]
AsOf = Annotated[
    datetime.date,
    Option(
        parser=_as_of,
        metavar="YYYY-MM-DD",
        help="Prices and availability as known on that day.",
        rich_help_panel=PANEL,
        show_default="today",
    ),
]
CalibrationFile = Annotated[
    Path | None,
    Option(
        metavar="FILE",
        help="Measured figures of one machine, from `advisor calibrate`.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class Shared:
    """The options that every command has, accepted after the subcommand."""

    json: JsonFlag = False
    output: OutputFile = None
    quiet: QuietFlag = False
    verbose: VerboseFlag = False
    no_input: NoInputFlag = False
    offline: OfflineFlag = False
    seed: Seed = 0
    as_of: AsOf = field(default_factory=lambda: today())  # noqa: PLW0108  # looked up by each call
    calibration: CalibrationFile = None

    def as_inputs(self) -> dict[str, object]:
        """What of it decides the answer, for the JSON document's `inputs`."""
        return {"as_of": self.as_of, "offline": self.offline, "calibration": self.calibration}


def check_shared(shared: Shared) -> Shared:
    """The options themselves, if the work can begin with them.

    Raises: AdvisorError: an unknown output format, an output path that cannot be written, or a file that is no
        calibration.
    """
    from advisor.render.atomic import check_writable
    from advisor.render.files import writer_for

    if shared.output is not None:
        writer_for(shared.output)
        check_writable(shared.output)
    if shared.calibration is not None:
        from advisor.cli.calibration_file import read_calibration

        read_calibration(shared.calibration)
    return shared
