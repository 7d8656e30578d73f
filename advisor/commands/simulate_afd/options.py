"""Options of `advisor simulate afd`: attention and feed-forward parts on accelerators of their own."""

from dataclasses import dataclass
from typing import Annotated

from typer import Option

from advisor.ask.inputs import only
from advisor.ask.options import GpuName, LayoutOptions, OtherModelName
from advisor.cli.command import command


@command("simulate afd", has_table=False)
@dataclass(frozen=True, slots=True)
class AfdInput:
    """Attention/FFN disaggregation: decode with attention and experts apart, and together on every accelerator."""

    model: OtherModelName
    gpu: GpuName
    attention_gpus: Annotated[
        int, Option(metavar="N", min=1, max=4096, help="Accelerators that attend and hold the cache.")
    ] = 8
    expert_gpus: Annotated[
        int, Option(metavar="N", min=1, max=4096, help="Accelerators that hold the experts.")
    ] = 8
    expert_gpu: Annotated[
        str | None, Option(metavar="ID", help="Accelerator of the experts.", show_default="as --gpu")
    ] = None
    context: Annotated[int, Option(metavar="N", min=1, max=10_000_000, help="Tokens of each sequence.")] = (
        4096
    )
    tpot: Annotated[str, Option(metavar="TIME", help="Longest time per output token.")] = "50ms"
    micro_batches: Annotated[
        int | None,
        Option(metavar="N", min=1, max=16, help="Micro-batches in turns.", show_default="best of 1 to 4"),
    ] = None
    balanced: Annotated[
        bool,
        Option(
            "--balanced",
            help="Experts equally loaded, by copies or a balancer; else as popularity usually varies.",
        ),
    ] = False
    layout: Annotated[LayoutOptions, only("precision", "kv_precision", "engine")] = LayoutOptions()
