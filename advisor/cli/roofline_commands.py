"""`advisor roofline`: operators under the roof of a device, and how a kernel fills an SM."""

from typing import Annotated

import typer

from advisor.cli.command import command
from advisor.cli.options import Shared
from advisor.render.answer import Answer

KERNEL = "A kernel's block, with --occupancy"


def add_roofline(app: typer.Typer) -> None:
    """Register the command at the top of the tree."""
    command(app, "roofline", uses_calibration=True)(roofline)


def roofline(
    shared: Shared,
    gpu: Annotated[str, typer.Option(metavar="ID", help="Accelerator; h100 and the like will do.")],
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Id, size (70b), Hugging Face id or config.json.", show_default=False
        ),
    ] = None,
    batch: Annotated[
        int, typer.Option(metavar="N", min=1, max=100_000, help="Sequences of the decode step.")
    ] = 1,
    context: Annotated[
        int,
        typer.Option(metavar="N", min=1, max=10_000_000, help="Tokens of each sequence and of the prompt."),
    ] = 4096,
    weight_dtype: Annotated[
        str | None, typer.Option(metavar="FORMAT", help="Weights.", show_default="the checkpoint's")
    ] = None,
    occupancy: Annotated[
        bool, typer.Option("--occupancy", help="Blocks of a kernel per SM instead.")
    ] = False,
    threads: Annotated[
        int, typer.Option(metavar="N", help="Threads per block.", rich_help_panel=KERNEL)
    ] = 256,
    registers: Annotated[
        int, typer.Option(metavar="N", help="Registers per thread.", rich_help_panel=KERNEL)
    ] = 64,
    shared_memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Shared memory per block, e.g. 48KiB.",
            rich_help_panel=KERNEL,
            show_default="none",
        ),
    ] = None,
) -> Answer:
    """Operators of a decode step and a prompt on the roofline: intensity, bound, time, distance from the roof."""
    from advisor.cli.roofline_run import RooflineInput, run_occupancy, run_roofline

    if occupancy:
        return run_occupancy(gpu, threads, registers, shared_memory)
    return run_roofline(RooflineInput(gpu, model, batch, context, weight_dtype), shared)
