"""Memory of one pipeline stage of each plan at each instant of a step."""

from dataclasses import dataclass, fields, replace
from typing import Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.units import BF16_BYTES, FP32_BYTES
from advisor.simulator.graph.training import ModelShape, head_parameters, table_parameters
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.memory.account import LayerBytes, Shards, states_of
from advisor.simulator.training.memory.formats import Formats
from advisor.simulator.training.plan import RECOMPUTES, SHARDINGS, FloatArray, PlanLattice
from advisor.simulator.training.stages import Stages, micro_batches_in_flight

INSTANTS: Final = ("loss", "first backward", "last backward", "optimizer")
"""Instants of a step: activations of all layers with the logits; with the workspace of the first layer that runs
backwards; the last layer to run backwards, with all gradients; the step of the optimizer."""
Bytes = TypeVar("Bytes", float, FloatArray)
_ZERO1, _ZERO2, _ZERO3 = (SHARDINGS.index(name) for name in ("zero1", "zero2", "zero3"))
_NO_RECOMPUTE: Final = RECOMPUTES.index("none")
_FORWARD_LOSS_BYTES: Final = 8.0
_OFFLOADED_LAYERS: Final = 2.0
"""Number of layers whose activations are on the accelerator while others travel to the host."""
_BUCKET_COPIES: Final = 2.0
"""Copies of the gradients that DistributedDataParallel holds all the while: its buckets and those of its first
iteration. Measured on two and four H200 (data/training/measured-h200-2026-11-20.csv), with gradients as views of
buckets."""
_BUCKETED: Final = ("fsdp", "peft", "torchtitan")
"""Families whose data parallelism without shards copies gradients into buckets (torch DistributedDataParallel)."""


@dataclass(frozen=True, slots=True)
class Held(Generic[Bytes]):
    """Memory that an accelerator holds at one instant [bytes]: of one stage, or as columns of one stage of each
    plan."""

    weight_bytes: Bytes
    gradient_bytes: Bytes
    optimizer_bytes: Bytes
    activation_bytes: Bytes
    """Activations kept for the backward pass, over all micro-batches in flight [bytes]."""
    loss_bytes: Bytes
    """Size of the logits and of the loss's own tensors [bytes]."""
    workspace_bytes: Bytes
    """Workspace of the layer or the optimizer step that runs [bytes]."""
    buffer_bytes: Bytes
    """Size of gathered weights and buckets of communication [bytes]."""

    @property
    def allocated_bytes(self) -> Bytes:
        """Memory in tensors [bytes] (torch.cuda.max_memory_allocated)."""
        return (
            self.weight_bytes
            + self.gradient_bytes
            + self.optimizer_bytes
            + self.activation_bytes
            + self.loss_bytes
            + self.workspace_bytes
            + self.buffer_bytes
        )


PARTS: Final = tuple(field.name for field in fields(Held))


def select_where(
    mask: NDArray[np.bool_], mine: Held[FloatArray], other: Held[FloatArray]
) -> Held[FloatArray]:
    """Return `mine` where `mask` is true and `other` elsewhere.

    Source: own definition.
    """
    pairs = ((getattr(mine, name), getattr(other, name)) for name in PARTS)
    return Held(*(a if a is b else np.where(mask, a, b) for a, b in pairs))


@dataclass(frozen=True, slots=True)
class _Tables:
    """Memory of input table, head and last norm of a stage [bytes]."""

    weights: FloatArray
    gradients: FloatArray
    optimizer: FloatArray
    step: FloatArray
    gathered: FloatArray
    head: FloatArray
    """Size of the head in 16 bits [bytes]."""


def stage_instants(
    job: TrainingJob,
    formats: Formats,
    shape: ModelShape,
    lattice: PlanLattice,
    layers: LayerBytes,
    stages: Stages,
) -> tuple[Held[FloatArray], ...]:
    """Return the memory of one stage of each plan at each of INSTANTS [bytes].

    Source: as `peak_memory`.
    """
    count = stages.layers
    tables = _tables(formats, shape, lattice, stages)
    weights = _sum_over_groups(count, layers.weights) + tables.weights * (1 - lattice.offload_parameters)
    gradients = _sum_over_groups(count, layers.gradients) + tables.gradients
    on_device = 0 * lattice.offload_optimizer if formats.pages_optimizer else 1 - lattice.offload_optimizer
    optimizer = (_sum_over_groups(count, layers.optimizer) + tables.optimizer) * on_device
    step = (_sum_over_groups(count, layers.step) + tables.step) * on_device
    if formats.drops_gradients:
        gradients = np.zeros_like(gradients)
    if formats.software.offloads_gradients:
        # Gradients that ranks divide go to the optimizer in host memory as soon as they are summed.
        gradients = gradients * (1 - lattice.offload_optimizer * (lattice.sharding >= _ZERO2))
    num_micro = np.maximum(job.global_batch / (lattice.data_parallel * lattice.micro_batch), 1.0)
    if formats.software.accumulates_whole_gradients and not formats.frozen:
        gradients = _whole_gradients(formats, lattice, layers, stages, tables, gradients, num_micro)
    kept_gradients = gradients if formats.keeps_gradients else np.where(num_micro > 1.0, gradients, 0.0)
    flying, one_layer, again, work = _activations(lattice, layers, stages, num_micro)
    at_loss, at_backward, at_end, at_step = _buffers(formats, lattice, layers, stages, tables, gradients)
    none = np.zeros(len(lattice))
    loss = _loss(job, formats, lattice) * stages.has_head + _head_gradient(job, formats, tables)
    running = again + work
    held = Held(weights, kept_gradients, optimizer, flying, none, none, none)
    return (
        replace(held, loss_bytes=loss, buffer_bytes=at_loss),
        replace(held, workspace_bytes=running, buffer_bytes=at_backward),
        replace(
            held,
            gradient_bytes=gradients,
            activation_bytes=one_layer,
            workspace_bytes=running,
            buffer_bytes=at_end,
        ),
        replace(
            held, gradient_bytes=gradients, activation_bytes=none, workspace_bytes=step, buffer_bytes=at_step
        ),
    )


def fullest(instants: tuple[Held[FloatArray], ...]) -> tuple[Held[FloatArray], FloatArray, NDArray[np.int64]]:
    """Return the instant at which each stage holds most, its total [bytes], and its index in INSTANTS.

    Source: own definition.
    """
    best = instants[0]
    total = instants[0].allocated_bytes
    index = np.zeros(len(total), dtype=np.int64)
    for number, instant in enumerate(instants[1:], 1):
        found = instant.allocated_bytes
        better = found > total
        best = select_where(better, instant, best)
        total = np.maximum(found, total)
        index[better] = number
    return best, total, index


def held_blocks(instants: tuple[Held[FloatArray], ...]) -> FloatArray:
    """Memory of the allocator at the step if its temporaries fit into no cached block [bytes].

    The sum of the step's own memory and the blocks of activations and logits.

    Source: PyTorch CUDACachingAllocator: large blocks are split but never joined across allocations.
    """
    loss = instants[0]
    step = instants[-1]
    return step.allocated_bytes + loss.activation_bytes + loss.loss_bytes


def _whole_gradients(
    formats: Formats,
    lattice: PlanLattice,
    layers: LayerBytes,
    stages: Stages,
    tables: _Tables,
    gradients: FloatArray,
    num_micro: FloatArray,
) -> FloatArray:
    """Size of the gradients that are not sharded before the last micro-batch [bytes].

    Source: FullyShardedDataParallel.no_sync, PyTorch documentation.
    """
    gathered = _sum_over_groups(stages.layers, layers.gathered) + tables.gathered
    whole = gathered * (formats.layers.gradients / max(formats.layers.gathered, 1.0))
    return np.where((num_micro > 1.0) & (lattice.sharding >= _ZERO3), np.maximum(whole, gradients), gradients)


def _sum_over_groups(count: FloatArray, values: FloatArray) -> FloatArray:
    if len(values) == 1:
        return np.asarray(count[0] * values[0])
    return np.asarray(np.einsum("gn,gn->n", count, values))


def _most(values: FloatArray, count: FloatArray) -> FloatArray:
    """Largest value among the groups that the stage holds."""
    if len(values) == 1:
        return np.asarray(np.where(count[0] > 0, values[0], 0.0))
    return np.asarray(np.max(np.where(count > 0, values, 0.0), axis=0, initial=0.0))


def _tables(formats: Formats, shape: ModelShape, lattice: PlanLattice, stages: Stages) -> _Tables:
    tp = lattice.tensor_parallel
    has_embedding = stages.has_embedding
    parameters = table_parameters(shape, tp, has_embedding, stages.has_head)
    shards = Shards.of(lattice, lattice.shard_ranks.astype(np.float64))
    none = np.zeros_like(parameters)
    weights, gradients, optimizer, step = states_of(formats.tables, parameters, shards, none, shards)
    first = has_embedding * (shape.embedding + shape.extra) / tp
    head = stages.has_head * head_parameters(shape, tp, has_embedding)
    weights = weights + formats.table_copies * BF16_BYTES * first - formats.head_saved * head
    sharded = lattice.sharding >= _ZERO3
    gathered = formats.tables.gathered * parameters * sharded
    wide_head = BF16_BYTES * stages.has_head * head_parameters(shape, tp, np.zeros_like(parameters))
    return _Tables(weights, gradients, optimizer, step, gathered, wide_head)


def _activations(
    lattice: PlanLattice, layers: LayerBytes, stages: Stages, num_micro: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Activations kept by all micro-batches in flight, kept by one layer, recomputed for one, and workspace of one
    [bytes].

    `recompute_layers` layers of a stage are recomputed and the others keep everything.
    """
    count = stages.layers
    one = _sum_over_groups(count, layers.kept)
    again = _most(layers.again, count)
    some = (lattice.recompute_layers >= 0) & (lattice.recompute != _NO_RECOMPUTE)
    if some.any():
        total = np.maximum(count.sum(axis=0), 1.0)
        others = np.where(some, 1.0 - np.minimum(lattice.recompute_layers / total, 1.0), 0.0)
        one = one + others * _sum_over_groups(count, layers.again)
        again = np.where(some & (lattice.recompute_layers == 0), 0.0, again)
    one_layer = _most(layers.kept, count)
    flying = one * micro_batches_in_flight(lattice, stages.stage, num_micro)
    if lattice.offload_activations.any():
        on_device = np.minimum(flying, _OFFLOADED_LAYERS * one_layer)
        flying = np.where(lattice.offload_activations > 0, on_device, flying)
    return flying, one_layer, again, _most(layers.workspace, count)


def _loss(job: TrainingJob, formats: Formats, lattice: PlanLattice) -> FloatArray:
    """Size of the logits and of the loss's own tensors, for one micro-batch [bytes]: tokens · vocabulary / tp · bytes.

    Source: torch.nn.functional.cross_entropy on fp32 logits keeps the log-softmax and makes two gradients; Megatron's
    vocabulary-parallel loss works in place; chunked and linear-fused losses hold a part at a time.
    """
    software = formats.software
    whole = software.loss_bytes
    divided = whole if software.sharded_loss_bytes is None else software.sharded_loss_bytes
    if "unfused_ce" in job.features and software.unfused_loss_bytes is not None:
        whole = divided = software.unfused_loss_bytes
    if not job.features.isdisjoint({"chunked_ce", "fused_ce"}):
        whole = divided = software.fused_loss_bytes
    if "linear_ce" in job.features:
        # The number of chunks is vocabulary over hidden size; memory holds one chunk's logits and their gradient.
        whole = divided = 2.0 * FP32_BYTES * job.model.hidden_size / job.model.vocab_size
    if software.keeps_last_graph and job.method == "qlora":
        # The loss buffer is freed before the backward pass, so the peak is logits plus log-softmax.
        whole = divided = min(whole, _FORWARD_LOSS_BYTES)
    tp = lattice.tensor_parallel.astype(np.float64)
    tokens = lattice.micro_batch * (job.computed_tokens / lattice.context_parallel)
    size = np.where(tp > 1, divided, whole)
    outputs = 1 if "scalar_head" in job.features else job.model.vocab_size
    residual_tokens = np.where(lattice.sequence_parallel > 0, tokens / tp, tokens)
    return tokens * size * outputs / tp + residual_tokens * 2.0 * BF16_BYTES * job.model.hidden_size


def _head_gradient(job: TrainingJob, formats: Formats, tables: _Tables) -> FloatArray:
    """Size of the head's gradient where the loss sums it over tiles: whole in fp32, then a copy in the head's format
    [bytes].

    Source: TRL 1.16.0, kernels/chunked_logprob.py, ChunkedLogProbFunction.backward.
    """
    if "tiled_head" not in job.features or formats.frozen:
        return np.zeros_like(tables.head)
    copied = formats.tables.gathered if formats.tables.gathered < FP32_BYTES else 0.0
    return tables.head * ((FP32_BYTES + copied) / BF16_BYTES)


def _buffers(
    formats: Formats,
    lattice: PlanLattice,
    layers: LayerBytes,
    stages: Stages,
    tables: _Tables,
    gradients: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Size of gathered weights, whole gradients and buckets at four instants [bytes].

    The instants are the loss, the first and the last layer to run backwards, and the step. FSDP holds `gathered_layers`
    whole layers, one of them with its whole gradients, and input table and head too if they are wrapped with the whole
    model; with pipeline parallelism it gathers a stage once for all micro-batches and adds up whole gradients.
    DistributedDataParallel copies gradients into buckets; DeepSpeed's have a fixed size.

    Source: PyTorch FSDP (arXiv:2304.11277) section 3; torch/nn/parallel/distributed.py; DeepSpeed zero/config.py.
    """
    software = formats.software
    layer = _most(layers.gathered, stages.layers)
    table = tables.gathered if software.gathers_tables else 0.5 * tables.gathered
    learns = 0.0 if formats.frozen else 1.0
    reduced = formats.layers.gradients / max(formats.layers.gathered, 1.0) if learns else 0.0
    at_loss = max(software.gathered_layers - 1, 1) * layer + table
    at_backward = (software.gathered_layers + learns + reduced) * layer + (1.0 + learns) * table
    # Nothing is fetched ahead of the last layer, and the tables' own gradients, still whole, are not yet sharded.
    pending = tables.gradients if software.gathers_tables else np.zeros_like(table)
    at_end = (1.0 + learns + reduced) * layer + (1.0 + 0.5 * learns) * table - pending * (table > 0)
    if software.gathers_stages:
        stage = (1.0 + reduced) * (_sum_over_groups(stages.layers, layers.gathered) + tables.gathered)
        staged = lattice.pipeline_parallel > 1
        at_loss = np.where(staged, stage, at_loss)
        at_backward = np.where(staged, stage, at_backward)
        at_end = np.where(staged, stage, at_end)
    ranks = lattice.shard_ranks
    bucketed = np.zeros(len(lattice))
    if software.family in _BUCKETED:
        bucketed = np.where((lattice.sharding < _ZERO1) & (ranks > 1), _BUCKET_COPIES * gradients, 0.0)
    elif software.bucket_bytes and not formats.frozen:
        held = _sum_over_groups(stages.layers, layers.weights) + tables.weights
        bucketed = np.where(ranks > 1, np.minimum(software.bucket_bytes, 2.0 * held), 0.0)
    if formats.autocast:
        bucketed = bucketed + _sum_over_groups(stages.layers, layers.casts) + tables.head
    if software.placeholder_gradients and not formats.frozen:
        bucketed = bucketed + _most(layers.placeholder, stages.layers) + tables.head
    return at_loss + bucketed, at_backward + bucketed, at_end + bucketed, bucketed
