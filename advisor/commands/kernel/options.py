"""Options of `advisor kernel`: one operator against others where there is a GPU, and its model anywhere."""

from dataclasses import dataclass
from typing import Annotated, Literal

from typer import Argument, Option

from advisor.cli.command import command

KernelName = Literal[
    "gemm",
    "attention",
    "rms_norm",
    "layer_norm",
    "softmax",
    "gelu",
    "swiglu",
    "transpose",
    "attention_backward",
    "attention_packed",
    "decode_attention",
    "decode_attention_fp8",
    "mla_decode",
    "rms_norm_backward",
    "layer_norm_backward",
    "softmax_backward",
    "gelu_backward",
    "swiglu_backward",
    "rope",
    "linear_gelu_backward",
    "linear_cross_entropy",
    "linear_cross_entropy_backward",
    "gemm_layouts",
    "fp8_block_gemm",
    "w8a8",
    "w4a16",
    "grouped_gemm",
    "grouped_gemm_fp8",
    "mxfp4",
    "nvfp4",
    "ssd",
    "gated_delta",
    "selective_scan",
    "causal_conv1d",
]
"""Operators that this project has a kernel of: the simulator models the first eight, the others are counted."""


@command("kernel")
@dataclass(frozen=True, slots=True)
class KernelInput:
    """One operator: its rate, its roof and its error against fp64 beside the vendor's; without a GPU, its model.

    The model shows the roof, the tiles, their waves and how many programs an SM holds, for any GPU.
    """

    name: Annotated[KernelName, Argument(metavar="NAME", help="Operator; attention is causal.")]
    shape: Annotated[
        str | None,
        Option(metavar="AxBxC", help="Sizes, as 8192x8192; a wrong number of them names the operator's."),
    ] = None
    dtype: Annotated[
        Literal["bf16", "fp16", "fp8"] | None,
        Option(help="Number format; fp8 of gemm only.", show_default="the GPU's 16 bits"),
    ] = None
    gpu: Annotated[
        str | None, Option(metavar="ID", help="Accelerator to model.", show_default="this machine's")
    ] = None
    against: Annotated[
        str,
        Option(
            metavar="NAME,...",
            help="Peers: torch (cuBLAS, FlashAttention 2), cudnn, fa3, marlin, deep-gemm, liger, fla, mamba-ssm.",
        ),
    ] = "torch"
    sweep: Annotated[Literal["tiles"] | None, Option(help="Every tile shape of gemm.")] = None
