"""Options that every command shares, accepted after the subcommand."""

import datetime
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

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


def _option(*names: str, text: str, default: str | bool = True, **more: Any) -> Any:
    return Option(*names, help=text, rich_help_panel=PANEL, show_default=default, **more)


@dataclass(frozen=True, slots=True)
class Shared:
    """The options that every command has, accepted after the subcommand."""

    json: Annotated[bool, _option("--json", text="Print one JSON document and nothing else.")] = False
    output: Annotated[
        Path | None,
        _option(
            "--output",
            "-o",
            text="Write the answer to a file too; the suffix says how: .json .csv .md .html.",
            default=False,
            metavar="FILE",
        ),
    ] = None
    quiet: Annotated[
        bool, _option("--quiet", "-q", text="No progress, notes or warnings; with -o only the file.")
    ] = False
    verbose: Annotated[
        bool, _option("--verbose", "-v", text="More notes; the traceback of an internal error.")
    ] = False
    no_input: Annotated[bool, _option("--no-input", text="Never ask a question.")] = False
    offline: Annotated[bool, _option("--offline", text="Never use the network.")] = False
    seed: Annotated[
        int,
        _option(text="Seed of everything random: same seed, same answer.", metavar="N", min=0, max=2**63 - 1),
    ] = 0
    as_of: Annotated[
        datetime.date,
        _option(
            text="Prices and availability as known on that day.",
            default="today",
            metavar="YYYY-MM-DD",
            parser=_as_of,
        ),
    ] = field(default_factory=lambda: today())  # noqa: PLW0108  # looked up by each call
    calibration: Annotated[
        Path | None,
        _option(
            text="Measured figures of one machine, from `advisor calibrate`.", default=False, metavar="FILE"
        ),
    ] = None
    trust_config: Annotated[
        bool, _option("--trust-config", text="Let advisor.toml name output files, records or a cluster.")
    ] = False

    def as_inputs(self) -> dict[str, object]:
        """What of it decides the answer, for the JSON document's `inputs`."""
        return {"as_of": self.as_of, "offline": self.offline, "calibration": self.calibration}


def check_shared(shared: Shared) -> Shared:
    """The options themselves, if the work can begin with them.

    Raises: AdvisorError: an unknown output format, an output path that cannot be written, or a file that is no
        calibration.
    """
    if shared.output is not None:
        from advisor.render.atomic import check_writable
        from advisor.render.files import writer_for

        writer_for(shared.output)
        check_writable(shared.output)
    if shared.calibration is not None:
        from advisor.cli.calibration_file import read_calibration

        read_calibration(shared.calibration)
    return shared
