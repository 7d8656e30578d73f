"""Bytes of one layer on one accelerator, by layout: states, activations, workspace."""

from dataclasses import dataclass, fields
from typing import Final, Self

import numpy as np

from advisor.catalog.schema import DenseFeedForward, LayerGroup, MoeFeedForward
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.memory.adapters import adapter_identity_bytes, adapter_parameters
from advisor.simulator.training.memory.formats import Formats, ParameterBytes
from advisor.simulator.training.memory.kept import Kept, kept_per_token, selected_per_token
from advisor.simulator.training.plan import RECOMPUTES, SHARDINGS, PlanLattice
from advisor.simulator.training.shape import (
    FloatArray,
    ModelShape,
    expert_data_parallel,
    layer_parameters,
)

_ZERO1, _ZERO2, _ZERO3 = (SHARDINGS.index(name) for name in ("zero1", "zero2", "zero3"))
_SELECTIVE: Final = RECOMPUTES.index("selective")
_FULL: Final = RECOMPUTES.index("full")
_BF16: Final = 2.0


@dataclass(frozen=True, slots=True)
class LayerBytes:
    """One layer of each group on one accelerator: arrays [group, plan], bytes."""

    weights: FloatArray
    gradients: FloatArray
    optimizer: FloatArray
    step: FloatArray
    gathered: FloatArray
    """Whole weights and, in the backward pass, whole gradients, where they are sharded between steps."""
    placeholder: FloatArray
    """Empty 16-bit gradients of the dense matrices, one for each shape."""
    casts: FloatArray
    """16-bit copies of fp32 weights that autocast makes and the forward pass keeps."""
    kept: FloatArray
    """Of one micro-batch, from its forward to its backward pass."""
    again: FloatArray
    """Computed again for the backward pass of this layer."""
    workspace: FloatArray
    """Gradients of activations while the layer runs backwards, gathered inputs, dequantised weights."""


@dataclass(frozen=True, slots=True)
class Shards:
    """Shares of a parameter's weights, gradients and optimizer on one rank."""

    weights: FloatArray
    gradients: FloatArray
    optimizer: FloatArray

    @classmethod
    def of(cls, lattice: PlanLattice, ranks: FloatArray) -> Self:
        share, sharding = 1.0 / ranks, lattice.sharding
        return cls(
            np.where(sharding >= _ZERO3, share, 1.0),
            np.where(sharding >= _ZERO2, share, 1.0),
            np.where(sharding >= _ZERO1, share, 1.0),
        )


def layer_bytes(job: TrainingJob, formats: Formats, shape: ModelShape, lattice: PlanLattice) -> LayerBytes:
    """Bytes of one layer of each group on one accelerator, for each plan.

    States: parameters · bytes per parameter ÷ ranks of the shard. Activations: micro-batch · tokens / cp times bytes
    per token, the residual divided by tp only with sequence parallelism.

    Source: as `peak_memory`.
    """
    parameters = layer_parameters(shape, lattice)
    dense, expert = Shards.of(lattice, lattice.shard_ranks.astype(np.float64)), expert_shards(lattice)
    tp = lattice.tensor_parallel.astype(np.float64)
    sharded = lattice.sharding >= _ZERO3
    rows: dict[str, list[FloatArray]] = {field.name: [] for field in fields(LayerBytes)}
    for index, group in enumerate(job.model.layers):
        own, experts = parameters.dense[index], parameters.expert[index]
        states = states_of(formats.layers, own, dense, experts, expert)
        adapters = _adapters(group, job, formats, shape) / tp
        extra = states_of(formats.adapters, adapters, dense, np.zeros_like(experts), expert)
        copies = formats.quantized_copy * (own + experts)
        casts = _BF16 * (own + experts) if formats.autocast else np.zeros_like(own)
        whole = (own + experts) * formats.layers.gathered + adapters * formats.adapters.gathered
        rows["weights"].append((states[0] + extra[0]) * (1 - lattice.offload_parameters) + copies)
        rows["gradients"].append(states[1] + extra[1])
        rows["optimizer"].append(states[2] + extra[2])
        rows["step"].append(states[3] + extra[3])
        rows["gathered"].append(whole * sharded)
        rows["placeholder"].append(_BF16 * own)
        rows["casts"].append(casts)
        for name, values in _activations(group, job, formats, lattice).items():
            rows[name].append(values)
    empty = np.zeros((0, len(lattice)))
    return LayerBytes(**{name: np.stack(values) if values else empty for name, values in rows.items()})


def expert_shards(lattice: PlanLattice) -> Shards:
    """Shares of routed experts: divided by the ranks that hold the same experts.

    Source: as `expert_data_parallel`.
    """
    copies = expert_data_parallel(lattice)
    group = lattice.shard_group
    return Shards.of(lattice, np.where(group == 0, copies, np.minimum(np.maximum(group, 1), copies)))


def states_of(
    size: ParameterBytes, dense: FloatArray, shards: Shards, expert: FloatArray, expert_shards: Shards
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """(weights, gradients, optimizer, temporaries of the step) of these parameters [bytes].

    Source: ZeRO (arXiv:1910.02054), section 5.
    """
    weights = dense * shards.weights + expert * expert_shards.weights
    gradients = dense * shards.gradients + expert * expert_shards.gradients
    optimizer = dense * shards.optimizer + expert * expert_shards.optimizer
    return (
        size.weights * weights,
        size.gradients * gradients,
        size.optimizer * optimizer,
        size.step * optimizer,
    )


def _adapters(group: LayerGroup, job: TrainingJob, formats: Formats, shape: ModelShape) -> float:
    if not formats.frozen:
        return 0.0
    if job.trainable_parameters:
        return job.trainable_parameters / max(shape.num_layers, 1)
    return adapter_parameters(group, job, formats)


def _activations(
    group: LayerGroup, job: TrainingJob, formats: Formats, lattice: PlanLattice
) -> dict[str, FloatArray]:
    tp = lattice.tensor_parallel.astype(np.float64)
    tokens = lattice.micro_batch * (job.computed_tokens / lattice.context_parallel)
    residual_tokens = np.where(lattice.sequence_parallel > 0, tokens / tp, tokens)
    sharded_tokens = tokens / tp
    kv_tokens = tokens / np.minimum(tp, _kv_heads(group))
    etp = lattice.tensor_parallel_of_experts.astype(np.float64)
    hidden = float(job.model.hidden_size)

    def spread(kept: Kept) -> FloatArray:
        found = kept.residual * residual_tokens + kept.sharded * sharded_tokens
        if kept.key_value:
            found = found + kept.key_value * kv_tokens
        if kept.expert or kept.exchanged:
            found = found + residual_tokens * (kept.expert + kept.exchanged * etp)
        return found

    everything = kept_per_token(group, job, formats)
    whole = spread(everything) + adapter_identity_bytes(group, job, formats)
    selected = spread(selected_per_token(group, job, formats, everything))
    inputs = _BF16 * hidden * residual_tokens
    kept = np.where(lattice.recompute == _SELECTIVE, selected, whole)
    kept = np.where(lattice.recompute == _FULL, inputs, kept)
    again = whole - kept
    width = _widest(group)
    gathered_sequence = (lattice.sequence_parallel > 0) & (tp > 1)
    workspace = (
        2.0 * _BF16 * hidden * residual_tokens
        + 2.0 * _BF16 * width * sharded_tokens
        + _BF16 * hidden * tokens * gathered_sequence
        + _dequantized(group, job) / tp
    )
    return {"kept": kept, "again": again, "workspace": workspace}


def _kv_heads(group: LayerGroup) -> float:
    return float(getattr(group.mixer, "num_kv_heads", 1) or 1)


def _widest(group: LayerGroup) -> float:
    """Values per token of the widest tensor whose gradient is in flight."""
    feed_forward = group.feed_forward
    if isinstance(feed_forward, MoeFeedForward):
        return float(feed_forward.experts_per_token * feed_forward.intermediate_size)
    if isinstance(feed_forward, DenseFeedForward):
        return float(feed_forward.intermediate_size)
    return 0.0


def _dequantized(group: LayerGroup, job: TrainingJob) -> float:
    """The largest matrix of a layer in 16 bits, which QLoRA makes of NF4 before it multiplies, and DoRA to find the
    norms of its columns [bytes]."""
    if job.method not in ("qlora", "dora"):
        return 0.0
    feed_forward = group.feed_forward
    width = feed_forward.intermediate_size if feed_forward is not None else job.model.hidden_size
    return _BF16 * job.model.hidden_size * width
