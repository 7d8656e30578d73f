"""Options of `advisor kernel`: one operator against others where there is a GPU, and its model anywhere."""

from dataclasses import dataclass
from typing import Annotated, Literal

from typer import Argument, Option

from advisor.cli.command import command

KernelName = Literal["gemm", "attention", "rms_norm", "layer_norm", "softmax", "gelu", "swiglu", "transpose"]
"""Operators that this project has a kernel of and the simulator a model."""


@command("kernel")
@dataclass(frozen=True, slots=True)
class KernelInput:
    """One operator: its rate, its roof and its error against fp64 beside the vendor's; without a GPU, its model.

    The model shows the roof, the tiles, their waves and how many programs an SM holds, for any GPU.
    """

    name: Annotated[KernelName, Argument(metavar="NAME", help="Operator.")]
    shape: Annotated[
        str | None,
        Option(metavar="AxBxC", help="Rows x columns (x depth); of attention batch x heads x tokens x size."),
    ] = None
    dtype: Annotated[Literal["bf16", "fp16", "fp8"], Option(help="Number format; fp8 of gemm only.")] = "bf16"
    gpu: Annotated[
        str | None, Option(metavar="ID", help="Accelerator to model.", show_default="this machine's")
    ] = None
    against: Annotated[
        str,
        Option(metavar="NAME,...", help="Peers: torch (cuBLAS, FlashAttention), cudnn (attention)."),
    ] = "torch"
    sweep: Annotated[Literal["tiles"] | None, Option(help="Every tile shape of gemm.")] = None
