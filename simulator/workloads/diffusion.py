"""Diffusion transformers: time of a step, time of an image with its decoder, and the gain from splitting an image."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.diffusion import DiffusionPipeline
from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.units import GB
from advisor.simulator.collectives import all_gather_s, send_recv_s, topology_of
from advisor.simulator.deployment import Deployment
from advisor.simulator.graph.model import layers_of, parameter_count
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.workloads.encoder_pass import RUNTIMES, PassCost, Runtime, as_run, encoder_pass

FloatArray = NDArray[np.float64]
Split = Literal["ulysses", "ring", "patch"]
SPLITS: tuple[Split, ...] = get_args(Split)
TORCH = RUNTIMES["torch-compile"]
STEP_S = 0.2e-3
"""Host time between two steps [s]: the scheduler's update of the latents and the next call."""
_MODULATION_WIDTHS = 4.0
"""Values per token and width that a block's scales, gates, query-key norms and rotations read and write in addition to
a language model's layer."""
_ROUND_S = 6.0e-6
"""Time of starting a transfer and the attention of a round [s]."""
_BYTES = 2.0
_MEMORY_FRACTION = 0.92
_LATENT_SHARE = 3.0
"""Number of live copies of the widest feature map while an image is decoded."""


@dataclass(frozen=True, slots=True)
class ImageJob:
    """Request for one image: size, steps and guidance."""

    width: int
    height: int
    steps: int
    guided: bool
    """Whether each step also runs without the prompt: twice the sequences (classifier-free guidance)."""
    frames: int = 1
    """Number of frames of a video; 1 for an image."""

    def __post_init__(self) -> None:
        if self.frames < 1:
            raise AdvisorError(f"{self.frames} frames are too few", fix="at least 1")
        if self.steps < 1:
            raise AdvisorError(f"{self.steps} denoising steps are too few", fix="at least 1")
        if min(self.width, self.height) < 16 or self.width % 16 or self.height % 16:
            raise AdvisorError(
                f"an image of {self.width} × {self.height} pixels does not divide into patches",
                fix="multiples of 16",
            )


@dataclass(frozen=True, slots=True)
class Parallel:
    """Split of one batch over accelerators: its tokens, and the two halves of guidance."""

    split: Split = "ulysses"
    sequence: int = 1
    guidance: int = 1
    """Degree of guidance parallelism; 2 puts the guided and the unguided half on accelerators of their own."""

    @property
    def num_accelerators(self) -> int:
        return self.sequence * self.guidance


@dataclass(frozen=True, slots=True)
class ImageCost:
    """Time of whole batches of images [s], by part."""

    num_images: FloatArray
    seconds: Mapping[str, FloatArray]
    step_s: FloatArray

    @property
    def total_s(self) -> FloatArray:
        """Sum over the parts [s]. Source: definition."""
        return np.asarray(sum(self.seconds.values()), dtype=np.float64)


def image_tokens(pipeline: DiffusionPipeline, job: ImageJob) -> int:
    """Number of tokens of one image or video inside the transformer: latent patches and text.

    Source: the pipeline's record.
    """
    side = pipeline.pixels_per_token
    depth = -(-pipeline.latent_frames(job.frames) // pipeline.latent_frames_per_token)
    return depth * (job.width // side) * (job.height // side) + pipeline.text_tokens


def images_s(
    deployment: Deployment,
    library: OperatorLibrary,
    pipeline: DiffusionPipeline,
    job: ImageJob,
    num_images: FloatArray,
    *,
    parallel: Parallel | None = None,
    runtime: Runtime = TORCH,
) -> ImageCost:
    """Time of batches of images on one replica, by part [s].

    text encoders + steps · (pass over images · (2 if guided) sequences + host) + decoder

    Assumes: every image takes all steps; modulation by the time step is computed per batch, not per token; the decoder
    runs on one accelerator; blocks with two streams cost as much as blocks with one.
    Raises: AdvisorError: the split does not divide the heads. InfeasibleError: it does not fit.
    Error: FLUX.1 dev on H100s, tests/simulator/workloads/test_published_diffusion.py.
    Source: Peebles and Xie 2022, arXiv:2212.09748; Fang et al. 2024 (xDiT), arXiv:2411.01738.
    """
    how = parallel or Parallel()
    check_parallel(deployment, job, how)
    images = np.atleast_1d(np.asarray(num_images, dtype=np.float64))
    sequences = images * ((2.0 if job.guided else 1.0) / how.guidance)
    step = transformer_step(deployment, library, sequences, image_tokens(pipeline, job), how, runtime)
    step_s = step.total_s + STEP_S
    seconds = {name: job.steps * part for name, part in step.seconds.items()}
    seconds["host"] = np.full_like(images, job.steps * STEP_S)
    once = {
        "text_encoders": _text_encoders_s(library, pipeline, images),
        "decoder": decoder_s(library, images, job.width, job.height, pipeline.latent_channels)
        if not pipeline.makes_videos
        else video_decoder_s(library, images * job.frames, job.width, job.height, pipeline.latent_channels),
    }
    seconds |= as_run(once, runtime, 0)
    return ImageCost(images, seconds, step_s)


def transformer_step(
    deployment: Deployment,
    library: OperatorLibrary,
    sequences: FloatArray,
    tokens: int,
    parallel: Parallel,
    runtime: Runtime = TORCH,
) -> PassCost:
    """Time of one pass of the transformer over batches of latents, split over accelerators, by category [s].

    Ulysses exchanges tokens for heads; ring passes keys and values around while attention computes; patch
    (DistriFusion, PipeFusion) uses the neighbours' last step, so that only communication longer than the whole pass is
    exposed.

    Source: Ulysses, arXiv:2309.14509; ring, arXiv:2310.01889; DistriFusion, arXiv:2402.19481.
    """
    ranks = parallel.sequence
    if parallel.split == "ulysses" or ranks == 1:
        cost = encoder_pass(deployment, library, sequences, tokens, sequence_parallel=ranks, runtime=runtime)
    else:
        # Each rank attends with its own tokens to all keys: the same share of the scores as with its own heads.
        cost = encoder_pass(deployment, library, sequences, tokens / ranks, runtime=runtime)
        whole = encoder_pass(deployment, library, sequences, tokens, runtime=runtime).seconds["attention"]
        attention = np.maximum(cost.seconds["attention"], whole / ranks)
        seconds = {**cost.seconds, "attention": attention}
        computed = np.asarray(sum(seconds.values()), dtype=np.float64)
        seconds["collectives"] = _travelling_s(deployment, sequences, tokens, parallel, attention, computed)
        cost = replace(cost, seconds=seconds)
    hidden = deployment.model.hidden_size
    layers = sum(group.count for group in deployment.model.layers if group.mixer is not None)
    rows = sequences * tokens / ranks
    modulation = layers * library.elementwise_s(rows * hidden * _MODULATION_WIDTHS * 2.0 * _BYTES)
    return replace(cost, seconds={**cost.seconds, "modulation": modulation * runtime.kernel_scale})


def check_parallel(deployment: Deployment, job: ImageJob, parallel: Parallel) -> None:
    """Refuse splits that cannot run.

    Raises: AdvisorError: a degree is below 1, guidance is split without guidance, or heads do not divide.
    Source: xDiT's own checks.
    """
    if parallel.split not in SPLITS:
        raise AdvisorError(f"split {parallel.split!r} is not known", fix=f"one of {', '.join(SPLITS)}")
    if parallel.sequence < 1 or parallel.guidance not in (1, 2):
        raise AdvisorError("a split has at least one part, guidance at most two")
    if parallel.guidance == 2 and not job.guided:
        raise AdvisorError(
            "guidance cannot be split: the model runs once per step", fix="split the sequence instead"
        )
    heads = {layer.attention.num_heads for layer in layers_of(deployment.model) if layer.attention}
    if parallel.split == "ulysses" and any(number % parallel.sequence for number in heads):
        raise AdvisorError(
            f"{min(heads)} heads do not divide among {parallel.sequence} accelerators",
            fix="a split by ring or patch",
        )


def largest_batch(deployment: Deployment, pipeline: DiffusionPipeline, job: ImageJob) -> int:
    """Number of images that one accelerator can hold at once in addition to the weights.

    (memory − weights of transformer, text encoders and decoder) / (widest feature map of the decoder + activations)

    Raises: InfeasibleError: the weights, or one image in addition to them, do not fit.
    Source: own derivation.
    """
    memory = (deployment.accelerator.memory_bytes or 0.0) * _MEMORY_FRACTION
    weights = pipeline_weight_bytes(deployment, pipeline)
    # Videos are decoded in tiles of space and time, an image at most at once.
    pixels = job.width * job.height
    decoding = _LATENT_SHARE * pixels * 256 * _BYTES
    tokens = image_tokens(pipeline, job) * (2 if job.guided else 1)
    activations = tokens * deployment.model.hidden_size * 12.0 * _BYTES
    fits = int((memory - weights) / (decoding + activations))
    if fits < 1:
        raise InfeasibleError(
            f"{deployment.model.id} does not fit {deployment.accelerator.id}",
            why=f"weights {weights / GB:.1f} GB and one image {(decoding + activations) / GB:.1f} GB exceed "
            f"{memory / GB:.1f} GB",
            fix="a smaller format, or offload the text encoders",
        )
    return fits


def pipeline_weight_bytes(deployment: Deployment, pipeline: DiffusionPipeline) -> float:
    """Size of the weights of transformer, text encoders and decoder [bytes]. Source: parameter counts of the
    records."""
    rest = sum(encoder.parameters for encoder in pipeline.text_encoders) + pipeline.decoder_parameters
    transformer = parameter_count(deployment.model).total * bytes_per_element(deployment.weight_dtype)
    return transformer + rest * bytes_per_element("bf16")


def _text_encoders_s(library: OperatorLibrary, pipeline: DiffusionPipeline, images: FloatArray) -> FloatArray:
    """Time of prompts through the text encoders, priced as one multiplication of their parameters per layer [s]."""
    total = np.zeros_like(images)
    for encoder in pipeline.text_encoders:
        matrix = encoder.parameters / encoder.layers
        width = encoder.hidden_size
        rows = images * encoder.tokens
        total += encoder.layers * library.matmul_s(rows, max(1, round(matrix / width)), width, "bf16")
    return total


def _travelling_s(
    deployment: Deployment,
    sequences: FloatArray,
    tokens: int,
    parallel: Parallel,
    attention_s: FloatArray,
    computed_s: FloatArray,
) -> FloatArray:
    """Time that moving keys and values adds to a pass [s]."""
    model = deployment.model
    ranks = parallel.sequence
    topology = topology_of(deployment.accelerator, ranks)
    layers = sum(group.count for group in model.layers if group.mixer is not None)
    chunk = sequences * tokens / ranks * 2.0 * model.hidden_size * _BYTES
    if parallel.split == "patch":
        moved = layers * all_gather_s(chunk * ranks, topology)
        return np.asarray(np.maximum(0.0, moved - computed_s))
    round_s = attention_s / layers / ranks
    exposed = np.maximum(0.0, send_recv_s(chunk, topology) - round_s)
    return np.asarray(layers * (ranks - 1) * (exposed + _ROUND_S))


_KERNEL_AREA = 9
_PASSES = 3.0
"""Reads and writes of a convolution's output by group norm, activation and residual around it."""


@dataclass(frozen=True, slots=True)
class Convolution:
    """`count` convolutions 3 × 3 over `pixels` positions."""

    count: int
    pixels: int
    inputs: int
    outputs: int

    @property
    def flop(self) -> float:
        """FLOP of all convolutions [flop]. Source: definition."""
        return 2.0 * self.count * self.pixels * _KERNEL_AREA * self.inputs * self.outputs


def decoder_convolutions(width: int, height: int, latent_channels: int) -> tuple[Convolution, ...]:
    """Return the convolutions of the KL decoder of Stable Diffusion and FLUX for one image.

    Latents have 1/8 of the width and height; four levels of 512, 512, 256 and 128 channels with three residual blocks
    each, of which the first changes the channels; two more blocks in the middle.

    Assumes: 1 × 1 shortcuts and the attention in the middle are small.
    Source: CompVis/latent-diffusion, ldm/modules/diffusionmodules/model.py (Decoder); ch 128, ch_mult 1, 2, 4, 4.
    """
    latent = (width // 8) * (height // 8)
    found = [Convolution(1, latent, latent_channels, 512), Convolution(4, latent, 512, 512)]
    inputs = 512
    pixels = latent
    for level, channels in enumerate((512, 512, 256, 128)):
        found += [Convolution(1, pixels, inputs, channels), Convolution(5, pixels, channels, channels)]
        if level < 3:
            pixels *= 4
            found.append(Convolution(1, pixels, channels, channels))
        inputs = channels
    return (*found, Convolution(1, pixels, 128, 3))


def decoder_s(
    library: OperatorLibrary, num_images: FloatArray, width: int, height: int, latent_channels: int
) -> FloatArray:
    """Time to decode batches of images [s].

    each convolution as a multiplication of (pixels) × (9 · inputs) by (9 · inputs) × (outputs), and three passes over
    its output

    Assumes: implicit-GEMM convolutions reach the rate of matmuls of that shape.
    Source: operators.matmul, operators.elementwise.
    """
    images = np.atleast_1d(np.asarray(num_images, dtype=np.float64))
    total = np.zeros_like(images)
    for convolution in decoder_convolutions(width, height, latent_channels):
        rows = images * convolution.pixels
        total += convolution.count * (
            library.matmul_s(rows, convolution.outputs, _KERNEL_AREA * convolution.inputs, "bf16")
            + library.elementwise_s(rows * convolution.outputs * 2.0 * _PASSES * _BYTES)
        )
    return total


_DEPTH = 3.0
"""Planes of a convolution over time: 3 × 3 × 3 instead of 3 × 3."""
_FRAMES_OF_A_LEVEL = (0.25, 0.5, 1.0, 1.0)
"""Fraction of the frames at each level of a decoder that doubles time twice, lowest resolution first."""


def video_decoder_s(
    library: OperatorLibrary, num_frames: FloatArray, width: int, height: int, latent_channels: int
) -> FloatArray:
    """Time to decode frames of videos by a causal autoencoder of 4 × 8 × 8 [s].

    the image decoder's convolutions over three planes each, on a quarter, half or all of the frames by level

    Assumes: tiles overlap by nothing; autoencoders with other factors decode as many pixels with as many channels.
    Source: HunyuanVideo, arXiv:2412.03603, section 4.1; own derivation.
    """
    total = np.zeros_like(num_frames)
    full = width * height
    for convolution in decoder_convolutions(width, height, latent_channels):
        level = round(math.log(convolution.pixels * 64 / full, 4)) if full else 0
        frames = num_frames * _FRAMES_OF_A_LEVEL[min(level, 3)]
        rows = frames * convolution.pixels
        depth = _KERNEL_AREA * _DEPTH * convolution.inputs
        total += convolution.count * (
            library.matmul_s(rows, convolution.outputs, round(depth), "bf16")
            + library.elementwise_s(rows * convolution.outputs * 2.0 * _PASSES * _BYTES)
        )
    return total
