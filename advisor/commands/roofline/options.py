"""Options of `advisor roofline`: operators under the roof of a device, and how a kernel fills an SM."""

from dataclasses import dataclass
from typing import Annotated, Final

from typer import Option

from advisor.ask.options import AnyModel, GpuName, Panel
from advisor.cli.command import command

KERNEL: Final = Panel("A kernel's block, with --occupancy")


@command("roofline", has_drawing=True, uses_calibration=True)
@dataclass(frozen=True, slots=True)
class RooflineInput:
    """Operators of a decode step and a prompt on the roofline: intensity, bound, time, distance from the roof."""

    gpu: GpuName
    model: AnyModel = None
    batch: Annotated[int, Option(metavar="N", min=1, max=100_000, help="Sequences of the decode step.")] = 1
    context: Annotated[
        int, Option(metavar="N", min=1, max=10_000_000, help="Tokens of each sequence and of the prompt.")
    ] = 4096
    weight_dtype: Annotated[
        str | None, Option(metavar="FORMAT", help="Weights.", show_default="the checkpoint's")
    ] = None
    occupancy: Annotated[bool, Option("--occupancy", help="Blocks of a kernel per SM instead.")] = False
    threads: Annotated[int, KERNEL("N", "Threads per block.", True, max=65_536)] = 256
    registers: Annotated[int, KERNEL("N", "Registers per thread.", True, max=65_536)] = 64
    shared_memory: Annotated[str | None, KERNEL("SIZE", "Shared memory per block, e.g. 48KiB.", "none")] = (
        None
    )
