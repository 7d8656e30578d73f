"""Services for images, texts or audio in batches: the time of every batch size on one replica, and its basis."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from advisor.catalog import diffusion, engines
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.schema import Accelerator, Model
from advisor.simulator.deployment import Deployment, activation_dtype_of
from advisor.simulator.device import device_of
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.quantity import Basis, Quantity
from advisor.simulator.workloads.batch_queue import batch_within
from advisor.simulator.workloads.diffusion import ImageJob, Parallel, images_s, largest_batch
from advisor.simulator.workloads.embedding import MAX_BATCH, Texts, embedding_s, largest_text_batch
from advisor.simulator.workloads.encoder_pass import Runtime, runtime_of
from advisor.simulator.workloads.speech import RANGE as SPEECH_RANGE
from advisor.simulator.workloads.speech import SEGMENT_S, TOKENS_PER_S, largest_segment_batch, transcription_s

FloatArray = NDArray[np.float64]
ItemWorkload = Literal["diffusion", "embed", "rerank", "speech"]
UNITS: Mapping[ItemWorkload, str] = {
    "diffusion": "image",
    "embed": "text",
    "rerank": "pair",
    "speech": "segment",
}
DEFAULT_RUNTIME: Mapping[ItemWorkload, str] = {
    "diffusion": "torch-compile",
    "embed": "tensorrt",
    "rerank": "tensorrt",
    "speech": "torch-compile",
}
_VENDORS: Mapping[str, tuple[str, ...]] = {"tensorrt": ("nvidia",)}
_TORCH_VENDORS = ("nvidia", "amd")
_KERNELS_OF = "vllm"
"""Engine whose level of operator efficiencies counts: PyTorch's libraries, as it uses them."""


@dataclass(frozen=True, slots=True)
class ItemJob:
    """Kind and size of one item, and how it is served."""

    workload: ItemWorkload
    runtime: str
    image: ImageJob | None = None
    texts: Texts | None = None
    tokens_per_segment: float | None = None
    max_batch: int = MAX_BATCH

    @property
    def unit(self) -> str:
        """Unit in which items are counted. Source: UNITS."""
        if self.image is not None and self.image.frames > 1:
            return "video"
        return UNITS[self.workload]

    @property
    def size_words(self) -> str:
        """Size of one item in words: that of a text, an image or a segment decides what it costs."""
        if self.image is not None:
            image = self.image
            frames = f"{image.frames} frames of " if image.frames > 1 else ""
            guided = " with guidance" if image.guided else ""
            return f"{frames}{image.width} x {image.height} pixels, {image.steps} step{'s' * (image.steps > 1)}{guided}"
        if self.texts is not None:
            query = f" and a query of {self.texts.query_tokens:,}" if self.texts.query_tokens else ""
            return f"{self.texts.tokens:,} tokens{query}"
        tokens = f", {self.tokens_per_segment:,.0f} tokens out" if self.tokens_per_segment else ""
        return f"{SEGMENT_S:.0f} s{tokens}"


@dataclass(frozen=True, slots=True)
class ItemService:
    """One replica: batch_s[n] is the time of a batch of n, batch_s[0] is unused."""

    deployment: Deployment
    parallel: Parallel
    runtime: Runtime
    batch_s: tuple[float, ...]
    parts: Mapping[str, float]
    """Time of a batch of one, by part [s]."""
    transferred_operators: tuple[str, ...]
    time_range: tuple[float, float]
    """Range that contains 80 % of the ratios of real to predicted time."""

    @property
    def accelerators_per_replica(self) -> int:
        """Number of accelerators that work on one batch. Source: definition."""
        return self.deployment.accelerators_per_replica * self.parallel.num_accelerators

    @property
    def basis(self) -> Basis:
        """Basis of the times: assumed if they use parameters of related hardware. Source: definition."""
        return "assumed" if self.transferred_operators else "modelled"

    @property
    def headroom(self) -> float:
        """Factor that a fleet must bear: batches as slow as the end of their range. Source: time_range."""
        return max(1.0, self.time_range[1])

    def best_items_per_s(self, latency_s: float) -> float:
        """Highest rate under unlimited demand in batches that last no longer than a latency [1/s]. Source:
        definition."""
        most = batch_within(self.batch_s, latency_s)
        return max((size / self.batch_s[size] for size in range(1, most + 1)), default=0.0)


def time_range(job: ItemJob) -> tuple[float, float]:
    """Return the (low, high) ratios of real to predicted time between which 80 % of published runs lie.

    Source: runtimes.RUNTIMES; speech.RANGE.
    """
    if job.workload == "speech":
        return SPEECH_RANGE
    runtime = runtime_of(job.runtime)
    return runtime.low, runtime.high


def check_model(model: Model, workload: ItemWorkload) -> None:
    """Refuse models that are not made for the workload.

    Raises: AdvisorError: the model's record says that it does something else.
    Source: Model.workload.
    """
    texts = ("encoder", "decoder")  # large embedding models are decoders without a head
    kinds = {"diffusion": ("diffusion",), "embed": texts, "rerank": texts, "speech": ("speech",)}
    if model.workload not in kinds[workload]:
        examples = {
            "diffusion": "flux.1-dev",
            "embed": "bge-m3",
            "rerank": "bge-m3",
            "speech": "whisper-large-v3",
        }
        raise AdvisorError(
            f"{model.id} is no model for --workload {workload}",
            why=f"its record says {model.workload}",
            fix=f"--model {examples[workload]}, or advisor catalog models",
        )


def item_service(
    model: Model,
    accelerator: Accelerator,
    job: ItemJob,
    *,
    weight_dtype: str | None = None,
    parallel: Parallel | None = None,
    tensor_parallel: int = 1,
) -> ItemService:
    """Return the time of every batch size of one replica.

    Raises: InfeasibleError: nothing runs the model there, or it does not fit. AdvisorError: the job does not suit it.
    Source: diffusion.images_s, embedding.embedding_s, speech.transcription_s.
    """
    runtime = runtime_of(job.runtime)
    vendors = _VENDORS.get(job.runtime, _TORCH_VENDORS)
    if accelerator.vendor not in vendors:
        raise InfeasibleError(
            f"{job.runtime} does not run on {accelerator.id}", why=f"it runs on {' and '.join(vendors)}"
        )
    weights = weight_dtype or model.weights
    how = parallel or Parallel()
    deployment = Deployment(
        model,
        accelerator,
        engines.get(_KERNELS_OF).record,
        weight_dtype=weights,
        activation_dtype=activation_dtype_of(model, weights, accelerator),
        tensor_parallel=tensor_parallel,
    )
    library = OperatorLibrary(device_of(accelerator), deployment.engine.id)
    largest = min(job.max_batch, _largest(deployment, job, how))
    sizes = np.arange(1, largest + 1, dtype=np.float64)
    seconds = _seconds(deployment, library, job, sizes, how, runtime)
    total = np.asarray(sum(seconds.values()), dtype=np.float64)
    parts = {name: float(part[0]) for name, part in seconds.items() if part[0] > 0}
    return ItemService(
        deployment,
        how,
        runtime,
        (0.0, *map(float, total)),
        parts,
        tuple(sorted(library.transferred_operators)),
        time_range(job),
    )


def quantity(service: ItemService, value: float, *, is_rate: bool = False) -> Quantity:
    """Return a time or rate of a service with its 80 % interval.

    Source: published runs by runtime (runtimes.RUNTIMES), and of transcription (speech.RANGE).
    """
    low, high = service.time_range
    if is_rate:
        low, high = 1.0 / high, 1.0 / low
    return Quantity(value, value * low, value * high, service.basis)


def _seconds(
    deployment: Deployment,
    library: OperatorLibrary,
    job: ItemJob,
    sizes: FloatArray,
    parallel: Parallel,
    runtime: Runtime,
) -> Mapping[str, FloatArray]:
    """Time of every batch size, by part [s]."""
    if job.image is not None:
        pipeline = diffusion.get(deployment.model.id)
        return images_s(
            deployment, library, pipeline, job.image, sizes, parallel=parallel, runtime=runtime
        ).seconds
    if job.texts is not None:
        return embedding_s(deployment, library, job.texts, sizes, runtime=runtime).seconds
    tokens = job.tokens_per_segment or TOKENS_PER_S * SEGMENT_S
    return transcription_s(deployment, library, sizes, tokens_per_segment=tokens, runtime=runtime).seconds


def _largest(deployment: Deployment, job: ItemJob, parallel: Parallel) -> int:
    if job.image is not None:
        return largest_batch(deployment, diffusion.get(deployment.model.id), job.image, parallel)
    if job.texts is not None:
        return largest_text_batch(deployment, job.texts)
    return largest_segment_batch(deployment)
