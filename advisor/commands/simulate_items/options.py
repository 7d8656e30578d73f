"""Options of `advisor simulate diffusion|embed|speech`: images, texts, audio, one replica at a time."""

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from typer import Option

from advisor.ask.inputs import only
from advisor.ask.options import LAYOUT, GpuName, ItemInput, OtherModelName, Precision, Rate, degree
from advisor.cli.command import Studied, command

_STUDIED: Final = Studied(pareto=("min single_latency_s", "max best_items_per_s"))


@command("simulate diffusion", uses_calibration=True, studied=_STUDIED)
@dataclass(frozen=True, slots=True)
class DiffusionInput:
    """Images or videos from a diffusion model: time by batch size, and how many accelerators a load takes."""

    model: OtherModelName
    gpu: GpuName
    item: Annotated[
        ItemInput, only("steps", "image_size", "guidance", "runtime", "max_batch", "latency_p99")
    ] = ItemInput()
    parallel: Annotated[int, degree("Accelerators that share the tokens of one batch.")] = 1
    split: Annotated[
        Literal["ulysses", "ring", "patch", "pipefusion"], LAYOUT("WAY", "How they share it.", True)
    ] = "ulysses"
    tp: Annotated[int, degree("Tensor parallelism of the transformer.", 64)] = 1
    decoder_parallel: Annotated[int, degree("Accelerators that share the tiles of the decoder.", 64)] = 1
    frames: Annotated[
        int | None,
        Option(metavar="N", min=1, max=10_000, help="Frames of a video.", show_default="of the model"),
    ] = None
    guidance_parallel: Annotated[
        bool, Option("--guidance-parallel", help="The two halves of guidance on accelerators of their own.")
    ] = False
    skip_steps: Annotated[
        float,
        Option(
            metavar="F",
            min=0.0,
            max=0.99,
            help="Fraction of the steps that a step cache (TeaCache and its kind) skips: 0.4.",
        ),
    ] = 0.0
    offload: Annotated[
        Literal["none", "components", "layers"],
        Option(
            metavar="WHAT",
            help="Weights in host memory: components come once a batch, layers in each step.",
        ),
    ] = "none"
    precision: Precision = None
    rate: Rate = None


@command("simulate embed", uses_calibration=True, studied=_STUDIED)
@dataclass(frozen=True, slots=True)
class EmbedInput:
    """Embeddings, or pairs of query and text to rerank: time by batch size, and how many a load takes."""

    model: OtherModelName
    gpu: GpuName
    item: Annotated[ItemInput, only("tokens", "query_tokens", "runtime", "max_batch", "latency_p99")] = (
        ItemInput()
    )
    precision: Precision = None
    rate: Rate = None


@command("simulate speech", uses_calibration=True, studied=_STUDIED)
@dataclass(frozen=True, slots=True)
class SpeechInput:
    """Speech to text in segments of 30 s: time by batch size, and how many accelerators a load takes."""

    gpu: GpuName
    model: OtherModelName = "whisper-large-v3"
    item: Annotated[ItemInput, only("tokens", "runtime", "max_batch", "latency_p99")] = ItemInput()
    precision: Precision = None
    rate: Rate = None
