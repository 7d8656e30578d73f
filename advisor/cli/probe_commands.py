"""`advisor probe`, `advisor calibrate`, `advisor compare`: is this the machine that was sold?"""

from pathlib import Path
from typing import Annotated

import typer

from advisor.cli.command import command
from advisor.cli.options import Shared
from advisor.render.answer import Answer


def add_probe(app: typer.Typer) -> None:
    """Register the commands at the top of the tree."""
    command(app, "probe")(probe)
    command(app, "calibrate")(calibrate)
    command(app, "compare")(compare)


def probe(
    shared: Shared,
    quick: Annotated[
        bool, typer.Option("--quick/--full", help="A minute, or all of it in up to six.")
    ] = True,
    expect: Annotated[
        str | None, typer.Option(metavar="[Nx]ID", help="What was ordered, e.g. h100-sxm or 8xh100-sxm.")
    ] = None,
    gpus: Annotated[str, typer.Option(metavar="all|N,...", help="Which GPUs.")] = "all",
    resume: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Go on with an interrupted probe.")
    ] = None,
    power_sweep: Annotated[
        bool,
        typer.Option("--power-sweep", help="Work per joule by power limit; needs root, limits come back."),
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 5 for WARN.")] = False,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A report to send to the provider: .md or .html.")
    ] = None,
) -> Answer:
    """Measure this machine and judge it: identity, memory, matrix rate, links, collectives, launches."""
    from advisor.cli.probe_run import ProbeRequest, run_probe

    return run_probe(ProbeRequest(quick, expect, gpus, resume, power_sweep, strict, report), shared)


def calibrate(
    shared: Shared,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="PROBE",
            help="What `advisor probe -o` wrote, or a recording of the catalog, e.g. h200-sxm-x8.",
        ),
    ],
) -> Answer:
    """Turn a probe into figures that every command takes with --calibration."""
    from advisor.cli.probe_run import run_calibrate

    return run_calibrate(file)


def compare(
    shared: Shared,
    first: Annotated[
        Path, typer.Argument(metavar="A", help="A plan, a report or a probe, or a recording's name.")
    ],
    second: Annotated[Path, typer.Argument(metavar="B", help="Another one of the same kind.")],
) -> Answer:
    """Show what changed between two plans, two reports or two probes, and why."""
    from advisor.cli.compare_run import run_compare

    return run_compare(first, second)
