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
from advisor.catalog.units import BF16_BYTES, GB
from advisor.simulator.collectives import all_gather_s, send_recv_s, topology_of
from advisor.simulator.deployment import Deployment
from advisor.simulator.graph.convolution import decoder_convolutions, deep_decoder_convolutions
from advisor.simulator.graph.model import layers_of, parameter_count
from advisor.simulator.host_link import host_link_bytes_per_s
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.workloads.encoder_pass import RUNTIMES, PassCost, Runtime, as_run, encoder_pass
from advisor.simulator.workloads.unet import convolutions_s, unet_step

FloatArray = NDArray[np.float64]
Split = Literal["ulysses", "ring", "patch", "pipefusion"]
Offload = Literal["none", "components", "layers"]
SPLITS: tuple[Split, ...] = get_args(Split)
TORCH = RUNTIMES["torch-compile"]
STEP_S = 0.2e-3
"""Host time between two steps [s]: the scheduler's update of the latents and the next call."""
_MODULATION_WIDTHS = 4.0
"""Values per token and width that a block's scales, gates, query-key norms and rotations read and write in addition to
a language model's layer."""
_ROUND_S = 6.0e-6
"""Time of starting a transfer and the attention of a round [s]."""
_MEMORY_FRACTION = 0.92
"""Part of an accelerator's memory for weights and images. Own assumption; libraries take the rest."""
_UNET_BLOCKS = range(20)
"""Blocks of a U-Net that are offloaded one by one: residual and transformer blocks of its levels."""
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
    skipped_fraction: float = 0.0
    """Fraction of the steps whose pass a step cache (TeaCache and its kind) skips; 0 without one."""
    offload: Offload = "none"
    """Weights in host memory: components (encoders, denoiser, decoder) come once for each batch, layers in each step.
    """

    def __post_init__(self) -> None:
        if not 0.0 <= self.skipped_fraction < 1.0:
            raise AdvisorError(
                f"{self.skipped_fraction:g} of the steps cannot be skipped",
                why="a step cache skips a fraction from 0 to below 1",
                fix="e.g. 0.4",
            )
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
    decoder: int = 1
    """Number of accelerators that share the decoder's tiles."""
    weight_shards: int = 1
    """Number of accelerators that keep a share of the weights each and gather a layer before its use (FSDP)."""

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
    check_parallel(deployment, job, how, has_unet=pipeline.unet is not None)
    images = np.atleast_1d(np.asarray(num_images, dtype=np.float64))
    sequences = images * ((2.0 if job.guided else 1.0) / how.guidance)
    step = denoiser_step(deployment, library, pipeline, job, sequences, how, runtime)
    step_s = step.total_s + STEP_S
    passes = job.steps * (1.0 - job.skipped_fraction)
    seconds = {name: passes * part for name, part in step.seconds.items()}
    if how.split == "pipefusion" and how.sequence > 1:
        # Patches have no stale keys to attend to before a first step over the whole image, stage after stage.
        seconds["pipeline_start"] = (how.sequence - 1.0) * step.total_s
    seconds["host"] = np.full_like(images, job.steps * STEP_S)
    seconds |= as_run(_once_s(library, pipeline, job, images, how, runtime), runtime, 0)
    seconds |= _moving_s(deployment, pipeline, job, how, images, step.total_s, passes)
    return ImageCost(images, seconds, step_s)


def _once_s(
    library: OperatorLibrary,
    pipeline: DiffusionPipeline,
    job: ImageJob,
    images: FloatArray,
    parallel: Parallel,
    runtime: Runtime,
) -> dict[str, FloatArray]:
    """Time of what runs once for a batch: text encoders and decoder [s]."""
    if pipeline.makes_videos:
        decoding_s = video_decoder_s(library, pipeline, images * job.frames, job.width, job.height, runtime)
    else:
        decoding_s = decoder_s(library, pipeline, images, job.width, job.height)
    return {
        "text_encoders": _text_encoders_s(library, pipeline, images),
        "decoder": decoding_s / parallel.decoder,
    }


def _moving_s(
    deployment: Deployment,
    pipeline: DiffusionPipeline,
    job: ImageJob,
    parallel: Parallel,
    images: FloatArray,
    step_s: FloatArray,
    passes: float,
) -> dict[str, FloatArray]:
    """Time that weights on their way to the accelerator add to a batch, by part [s].

    components come once for each batch; layers come in each pass, of which what lasts longer than computing shows;
    shares of other accelerators (FSDP) come in each pass, before the layer that needs them
    """
    found = dict[str, FloatArray]()
    if parallel.weight_shards > 1:
        denoiser = weight_bytes(deployment)
        topology = topology_of(deployment.accelerator, parallel.weight_shards)
        found["weight_gathering"] = passes * all_gather_s(np.full_like(images, denoiser), topology)
    if job.offload != "none":
        link = host_link_bytes_per_s(deployment.accelerator)
        copy_s = weight_bytes(deployment) / link
        if job.offload == "components":
            copied_s = np.full_like(images, pipeline_weight_bytes(deployment, pipeline) / link)
        else:
            copied_s = passes * np.maximum(0.0, copy_s - step_s)
        found["weight_copies"] = copied_s
    return found


def denoiser_step(
    deployment: Deployment,
    library: OperatorLibrary,
    pipeline: DiffusionPipeline,
    job: ImageJob,
    sequences: FloatArray,
    parallel: Parallel,
    runtime: Runtime,
) -> PassCost:
    """Time of one pass of the transformer or U-Net over batches of latents, by category [s].

    Source: transformer_step, unet.unet_step.
    """
    if pipeline.unet is not None:
        size = (job.width, job.height)
        return unet_step(
            deployment, library, pipeline, size, sequences, patches=parallel.sequence, runtime=runtime
        )
    return transformer_step(
        deployment, library, sequences, image_tokens(pipeline, job), parallel, runtime, pipeline.mixing_widths
    )


def transformer_step(
    deployment: Deployment,
    library: OperatorLibrary,
    sequences: FloatArray,
    tokens: int,
    parallel: Parallel,
    runtime: Runtime = TORCH,
    mixing_widths: float = 0.0,
) -> PassCost:
    """Time of one pass of the transformer over batches of latents, split over accelerators, by category [s].

    Ulysses exchanges tokens for heads; ring passes keys and values around while attention computes; patch
    (DistriFusion) uses the neighbours' last step, so that only communication longer than the whole pass is exposed;
    pipefusion puts stages of layers on the accelerators, through which patches follow each other with the keys of the
    last step: only their activations move, twice a pass for each patch.

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
    modulation = layers * library.elementwise_s(
        rows * hidden * (_MODULATION_WIDTHS * 2.0 + mixing_widths) * BF16_BYTES
    )
    return replace(cost, seconds={**cost.seconds, "modulation": modulation * runtime.kernel_scale})


def check_parallel(
    deployment: Deployment, job: ImageJob, parallel: Parallel, *, has_unet: bool = False
) -> None:
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
    if has_unet and parallel.sequence > 1 and parallel.split != "patch":
        raise AdvisorError(
            f"{deployment.model.id} cannot be split by {parallel.split}",
            why="a U-Net's convolutions work on neighbouring pixels, its stages on several resolutions",
            fix="--split patch (DistriFusion), or --guidance-parallel",
        )
    heads = {layer.attention.num_heads for layer in layers_of(deployment.model) if layer.attention}
    if any(number % deployment.tensor_parallel for number in heads) or (
        has_unet and deployment.tensor_parallel > 1
    ):
        raise AdvisorError(
            f"{deployment.model.id} does not divide among {deployment.tensor_parallel} tensor-parallel ranks",
            why=f"it has {min(heads)} heads" if heads else "a U-Net is not divided by heads",
            fix="another --tp, or --parallel",
        )
    if parallel.split == "ulysses" and any(number % parallel.sequence for number in heads):
        raise AdvisorError(
            f"{min(heads)} heads do not divide among {parallel.sequence} accelerators",
            fix="a split by ring or patch",
        )


def largest_batch(
    deployment: Deployment,
    pipeline: DiffusionPipeline,
    job: ImageJob,
    parallel: Parallel | None = None,
) -> int:
    """Number of images that one accelerator can hold at once in addition to the weights.

    (memory − weights of transformer, text encoders and decoder) / (widest feature map of the decoder + activations)

    Raises: InfeasibleError: the weights, or one image in addition to them, do not fit.
    Source: own derivation.
    """
    memory = (deployment.accelerator.memory_bytes or 0.0) * _MEMORY_FRACTION
    weights = resident_weight_bytes(deployment, pipeline, job, parallel or Parallel())
    # Videos are decoded in tiles of space and time, an image at most at once.
    pixels = job.width * job.height
    decoding = _LATENT_SHARE * pixels * 256 * BF16_BYTES
    tokens = image_tokens(pipeline, job) * (2 if job.guided else 1)
    activations = tokens * deployment.model.hidden_size * 12.0 * BF16_BYTES
    fits = int((memory - weights) / (decoding + activations))
    if fits < 1:
        raise InfeasibleError(
            f"{deployment.model.id} does not fit {deployment.accelerator.id}",
            why=f"weights {weights / GB:.1f} GB and one image {(decoding + activations) / GB:.1f} GB exceed "
            f"{memory / GB:.1f} GB",
            fix="a smaller format, --offload components, or --offload layers",
        )
    return fits


def pipeline_weight_bytes(deployment: Deployment, pipeline: DiffusionPipeline) -> float:
    """Size of the weights of transformer, text encoders and decoder [bytes]. Source: parameter counts of the
    records."""
    rest = sum(encoder.parameters for encoder in pipeline.text_encoders) + pipeline.decoder_parameters
    return weight_bytes(deployment) + rest * bytes_per_element("bf16")


def weight_bytes(deployment: Deployment) -> float:
    """Size of the weights of the denoiser [bytes]. Source: parameter counts of the records."""
    return parameter_count(deployment.model).total * bytes_per_element(deployment.weight_dtype)


def resident_weight_bytes(
    deployment: Deployment, pipeline: DiffusionPipeline, job: ImageJob, parallel: Parallel
) -> float:
    """Size of the weights that one accelerator holds at once [bytes].

    all of the pipeline; the largest component, or two layers of the denoiser beside the decoder, if weights are
    offloaded; a share of the denoiser if its layers or weights are divided

    Assumes: encoders are moved like the denoiser.
    Source: own derivation.
    """
    stages = parallel.sequence if parallel.split == "pipefusion" else 1
    denoiser = weight_bytes(deployment) / (stages * parallel.weight_shards * deployment.tensor_parallel)
    decoder = pipeline.decoder_parameters * bytes_per_element("bf16")
    encoders = pipeline_weight_bytes(deployment, pipeline) - weight_bytes(deployment) - decoder
    if job.offload == "components":
        return max(denoiser, encoders, decoder)
    if job.offload == "layers":
        layers = sum(group.count for group in deployment.model.layers) or len(_UNET_BLOCKS)
        return max(2.0 * denoiser / layers, decoder)
    return denoiser + encoders + decoder


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
    chunk = sequences * tokens / ranks * 2.0 * model.hidden_size * BF16_BYTES
    if parallel.split == "pipefusion":
        hop_s = send_recv_s(chunk / 2.0, topology)
        return np.asarray(np.maximum(0.0, ranks * hop_s - computed_s))
    if parallel.split == "patch":
        moved = layers * all_gather_s(chunk * ranks, topology)
        return np.asarray(np.maximum(0.0, moved - computed_s))
    round_s = attention_s / layers / ranks
    exposed = np.maximum(0.0, send_recv_s(chunk, topology) - round_s)
    return np.asarray(layers * (ranks - 1) * (exposed + _ROUND_S))


_DEPTH = 3
"""Planes of a convolution over time: 3 × 3 × 3 instead of 3 × 3."""
_FRAMES_OF_A_LEVEL = (0.25, 0.5, 1.0, 1.0)
"""Fraction of the frames at each level of a decoder that doubles time twice, lowest resolution first."""
_EAGER_DEPTH_FLOP_PER_CYCLE = 280.0
"""Rate of PyTorch's convolutions over space and time per SM [flop per cycle]: what does not shrink with the number of
accelerators takes 90 to 120 s of HunyuanVideo on H100 and H20, 4.6 s of CogVideoX 5B on H100 (xDiT docs)."""


def decoder_s(
    library: OperatorLibrary, pipeline: DiffusionPipeline, num_images: FloatArray, width: int, height: int
) -> FloatArray:
    """Time to decode batches of images [s].

    each convolution as a multiplication of (pixels) × (9 · inputs) by (9 · inputs) × (outputs), and three passes over
    its output

    Assumes: implicit-GEMM convolutions reach the rate of matmuls of that shape.
    Source: operators.matmul, operators.elementwise.
    """
    images = np.atleast_1d(np.asarray(num_images, dtype=np.float64))
    count = deep_decoder_convolutions if pipeline.decoder == "deep" else decoder_convolutions
    convolutions = count(width, height, pipeline.latent_channels)
    whole = convolutions_s(library, convolutions, images, pipeline.decoder_bytes_per_value)
    return pipeline.decoder_rework * whole


def video_decoder_s(
    library: OperatorLibrary,
    pipeline: DiffusionPipeline,
    num_frames: FloatArray,
    width: int,
    height: int,
    runtime: Runtime,
) -> FloatArray:
    """Time to decode frames of videos by a causal autoencoder of 4 × 8 × 8 [s].

    the image decoder's convolutions over three planes each, on a quarter, half or all of the frames by level, again
    where tiles overlap; without compilation no faster than PyTorch's convolutions

    Assumes: autoencoders with other factors decode as many pixels with as many channels.
    Source: HunyuanVideo, arXiv:2412.03603, section 4.1; own derivation.
    """
    total = np.zeros_like(num_frames)
    flop = np.zeros_like(num_frames)
    full = width * height
    for convolution in decoder_convolutions(width, height, pipeline.latent_channels):
        level = round(math.log(convolution.pixels * 64 / full, 4)) if full else 0
        frames = num_frames * _FRAMES_OF_A_LEVEL[min(level, 3)]
        deep = replace(convolution, area=convolution.area * _DEPTH)
        total += convolutions_s(library, (deep,), frames)
        flop += frames * deep.flop
    if runtime.launch_s:
        device = library.device
        rate = _EAGER_DEPTH_FLOP_PER_CYCLE * device.num_sms * device.clock_hz
        total = np.maximum(total, flop / rate / runtime.kernel_scale)
    return pipeline.decoder_rework * total
