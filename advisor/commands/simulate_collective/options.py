"""Options of `advisor simulate collective`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from typer import Option

from advisor.ask.options import GpuName
from advisor.cli.command import Studied, command

Operation = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv"]
Library = Literal["engine", "vllm", "sglang", "tensorrt-llm", "nccl"]


@command("simulate collective", uses_calibration=True, studied=Studied())
@dataclass(frozen=True, slots=True)
class CollectiveInput:
    """Predict a collective: time, algorithm, bus bandwidth, and where another algorithm takes over."""

    op: Annotated[Operation, Option(help="Which collective.")] = "all_reduce"
    size: Annotated[
        str, Option("--bytes", metavar="SIZE", help="Message size as nccl-tests counts it, e.g. 1GiB.")
    ] = "1GiB"
    gpu: GpuName = "h100-sxm"
    gpus: Annotated[
        int, Option(metavar="N", min=2, max=1_000_000, help="Ranks in all, one per accelerator.")
    ] = 8
    nodes: Annotated[
        int | None,
        Option(
            metavar="N",
            min=1,
            max=1_000_000,
            help="Nodes they stand in.",
            show_default="as few as the fabric allows",
        ),
    ] = None
    algorithm: Annotated[
        Library, Option(help="Whose algorithms may be chosen: any engine's, one engine's, or NCCL's alone.")
    ] = "engine"
    network: Annotated[
        str | None,
        Option(
            metavar="TEXT",
            help="Links in words: 'EFA 32x100Gb', 'RoCE 8x400Gb', 'NDR 8x400 SHARP', 'PCIe4 no P2P'.",
            show_default="the accelerator's usual",
        ),
    ] = None
    oversubscription: Annotated[
        float,
        Option(metavar="F", max=1000, help="Of a fat tree, above leaves of 32 nodes: 2 for half uplinks."),
    ] = 1.0
