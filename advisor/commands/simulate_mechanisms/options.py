"""Options of `advisor simulate vision|adapters`: serving with images in prompts, or with adapters on the weights."""

from dataclasses import dataclass
from typing import Annotated, Final

from typer import Option

from advisor.ask.inputs import only
from advisor.ask.options import GpuName, ItemInput, LayoutOptions, LoadOptions, OtherModelName
from advisor.cli.command import Studied, command

_STUDIED: Final = Studied(
    pareto=("min metrics_ttft_s_p99", "min metrics_tpot_s_p99", "max metrics_output_tokens_per_s")
)
_Layout = Annotated[LayoutOptions, only("tp", "replicas", "precision", "engine")]
_Load = Annotated[
    LoadOptions,
    only("rate", "concurrency", "input_tokens", "output_tokens", "profile", "length_dist", "requests"),
]


@command("simulate vision", has_table=False, uses_calibration=True, studied=_STUDIED)
@dataclass(frozen=True, slots=True)
class VisionInput:
    """Simulate a vision-language model: tokens of an image, its encoder, and serving under a load."""

    model: OtherModelName
    gpu: GpuName
    item: Annotated[ItemInput, only("images", "image_size", "image_scheme")] = ItemInput()
    encoder_gpus: Annotated[
        int | None,
        Option(
            metavar="N",
            min=1,
            max=4096,
            help="Accelerators that only encode images.",
            show_default="each replica encodes its own",
        ),
    ] = None
    layout: _Layout = LayoutOptions()
    load: _Load = LoadOptions(input_tokens=64)


@command("simulate adapters", has_table=False, uses_calibration=True, studied=_STUDIED)
@dataclass(frozen=True, slots=True)
class AdaptersInput:
    """Simulate many LoRA adapters on one model: memory, slower steps, cold loads, beside the same run without."""

    model: OtherModelName
    gpu: GpuName
    count: Annotated[
        int, Option("--adapters", metavar="N", min=1, max=1_000_000, help="How many there are.")
    ] = 100
    rank: Annotated[int, Option(metavar="N", min=1, max=4096, help="Rank of each.")] = 16
    slots: Annotated[
        int, Option(metavar="N", min=1, max=100_000, help="In the accelerators' memory at once.")
    ] = 32
    popularity: Annotated[
        float, Option(metavar="S", min=0.0, max=5.0, help="Zipf's exponent; 0 is uniform.")
    ] = 1.0
    layout: _Layout = LayoutOptions()
    load: _Load = LoadOptions()
