"""Options of `advisor simulate long-context|offload`: a long prompt, and weights that stay in the host's memory."""

from dataclasses import dataclass
from typing import Annotated

from typer import Option

from advisor.ask.inputs import only
from advisor.ask.options import LAYOUT, GpuName, LayoutOptions, OtherModelName, Precision, degree
from advisor.cli.command import command


@command("simulate long-context", uses_calibration=True)
@dataclass(frozen=True, slots=True)
class LongContextInput:
    """Simulate one long prompt: prefill by context parallelism, cache by format and eviction, memory tiers."""

    model: OtherModelName
    gpu: GpuName
    context: Annotated[str, Option(metavar="N", help="Tokens of the prompt: 131072, 128k, 1M.")] = "128k"
    layout: Annotated[LayoutOptions, only("tp", "precision", "engine")] = LayoutOptions()
    keep: Annotated[
        str | None,
        Option(
            metavar="LIST",
            help="Cache budgets as fractions of the tokens, by H2O: 0.5,0.2.",
            show_default="published ones",
        ),
    ] = None
    window: Annotated[
        str | None,
        Option(metavar="LIST", help="Cache windows in tokens: 2048,16k.", show_default="published ones"),
    ] = None
    hit_rate: Annotated[
        float | None,
        Option(
            metavar="F",
            min=0.0,
            max=1.0,
            help="Fraction of prompts that find their cache in a tier.",
            show_default="no mean",
        ),
    ] = None
    usd_per_gpu_hour: Annotated[
        float, Option(metavar="USD", min=0.0, max=1000.0, help="What saved accelerator time is worth.")
    ] = 2.5


@command("simulate offload", uses_calibration=True)
@dataclass(frozen=True, slots=True)
class OffloadInput:
    """Decode a mixture of experts whose experts stay in host memory: read over the link, or multiplied by the host."""

    model: OtherModelName
    gpu: Annotated[
        str, Option(metavar="ID", help="Accelerator id or short name: h100; none: the host runs all.")
    ]
    tp: Annotated[int, degree("Accelerators that share what does not stay with the host.")] = 1
    precision: Precision = None
    engine: Annotated[str, LAYOUT("NAME", "Engine.", True)] = "llama.cpp"
    batch: Annotated[int, Option(metavar="N", min=1, max=4096, help="Sequences that decode together.")] = 1
    host_memory: Annotated[str, Option(metavar="SIZE", help="Of the host, e.g. 512GB.")] = "512GB"
    host_bandwidth: Annotated[
        str | None,
        Option(
            metavar="SIZE/s",
            help="Of the host's memory, e.g. 300GB/s.",
            show_default="of --host, else 300GB/s",
        ),
    ] = None
    host: Annotated[
        str | None,
        Option(
            metavar="TEXT",
            help="Its processors: '2x Xeon Gold 6454S'.",
            show_default="of which nothing is known",
        ),
    ] = None
    context: Annotated[str, Option(metavar="N", help="Tokens of each sequence: 4096, 32k.")] = "1024"
