"""Options of `advisor roofline`: a card, one operator or a model under its roof, and how a kernel fills an SM."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from typer import Argument, Option

from advisor.ask.options import AnyModel, Effect, GpuName, Panel
from advisor.cli.command import command

MODEL: Final = Panel("A model's operators, with --model")
OPERATOR: Final = Panel("One operator, with --op")
KERNEL: Final = Panel("A kernel's block, with --occupancy")


@command("roofline", has_drawing=True, uses_calibration=True)
@dataclass(frozen=True, slots=True)
class RooflineInput:
    """Operators on the roofline, of a model or one alone: intensity, bound, time; without either, a card's ridges."""

    gpu: GpuName
    shape: Annotated[
        str | None,
        Argument(
            metavar="SHAPE",
            help="Shape of --op in this order, or by name (heads=32,batch=8,...): gemm rows x columns x depth; "
            "attention batch x heads x tokens x head_dim, decode-attention with context for tokens; mlp tokens x "
            "hidden x inner; embedding tokens x hidden; all-reduce a size, e.g. 1GiB; others rows x columns.",
        ),
    ] = None
    model: AnyModel = None
    op: Annotated[
        str | None,
        OPERATOR(
            "NAME",
            "gemm, attention, decode-attention, mlp, layernorm, rmsnorm, softmax, gelu, silu, swiglu, transpose, "
            "embedding or all-reduce.",
        ),
    ] = None
    dtype: Annotated[str, OPERATOR("FORMAT", "Number format of the operator.", True)] = "bf16"
    kv_heads: Annotated[
        int | None, OPERATOR("N", "Heads of keys and values.", "as many as of queries", min=1, max=65_536)
    ] = None
    causal: Annotated[
        bool, OPERATOR(None, "Whether a token attends to earlier ones only.", True, "--causal/--no-causal")
    ] = True
    tile: Annotated[str | None, OPERATOR("RxC", "Tile of a gemm, e.g. 128x128.", "the library's sizes")] = (
        None
    )
    gpus: Annotated[int, OPERATOR("N", "Ranks of an all-reduce.", True, min=2, max=1_000_000)] = 8
    trace: Annotated[
        Path | None,
        Option(metavar="FILE", help="A profile: torch.profiler's Chrome JSON, or an SQLite export of nsys."),
        Effect.READS,
    ] = None
    batch: Annotated[int, MODEL("N", "Sequences of the decode step.", True, min=1, max=100_000)] = 1
    context: Annotated[
        int, MODEL("N", "Tokens of each sequence and of the prompt.", True, min=1, max=10_000_000)
    ] = 4096
    weight_dtype: Annotated[str | None, MODEL("FORMAT", "Weights.", "the checkpoint's")] = None
    occupancy: Annotated[bool, Option("--occupancy", help="Blocks of a kernel per SM instead.")] = False
    threads: Annotated[int, KERNEL("N", "Threads per block.", True, max=65_536)] = 256
    registers: Annotated[int, KERNEL("N", "Registers per thread.", True, max=65_536)] = 64
    shared_memory: Annotated[str | None, KERNEL("SIZE", "Shared memory per block, e.g. 48KiB.", "none")] = (
        None
    )
