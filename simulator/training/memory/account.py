"""Bytes of one layer on one accelerator, by layout: states, activations, workspace."""

from dataclasses import dataclass, fields
from typing import Final, Self

import numpy as np

from advisor.simulator.graph.backward import Kept, Style
from advisor.simulator.graph.operator import Layer
from advisor.simulator.graph.training import ModelShape, kept_per_token, layer_parameters, selected_per_token
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.memory.adapters import (
    adapter_identity_bytes,
    adapter_input_bytes,
    adapter_parameters,
    adapts_every_matrix,
    quantized_input_bytes,
)
from advisor.simulator.training.memory.formats import Formats, ParameterBytes
from advisor.simulator.training.plan import RECOMPUTES, SHARDINGS, FloatArray, PlanLattice

_ZERO1, _ZERO2, _ZERO3 = (SHARDINGS.index(name) for name in ("zero1", "zero2", "zero3"))
_SELECTIVE: Final = RECOMPUTES.index("selective")
_FULL: Final = RECOMPUTES.index("full")
_BF16: Final = 2.0
_FP32: Final = 4.0
_LOW_BIT: Final = ("fp8", "mxfp8", "nvfp4")


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
    parameters = layer_parameters(shape, lattice.tensor_parallel, lattice.expert_ranks)
    dense, expert = Shards.of(lattice, lattice.shard_ranks.astype(np.float64)), expert_shards(lattice)
    tp = lattice.tensor_parallel.astype(np.float64)
    sharded = lattice.sharding >= _ZERO3
    rows: dict[str, list[FloatArray]] = {field.name: [] for field in fields(LayerBytes)}
    for index, layer in enumerate(shape.layers):
        own, experts = parameters.dense[index], parameters.expert[index]
        states = states_of(formats.layers, own, dense, experts, expert)
        adapters = _adapters(layer, job, formats, shape) / tp
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
        for name, values in _activations(layer, job, formats, lattice).items():
            rows[name].append(values)
    empty = np.zeros((0, len(lattice)))
    return LayerBytes(**{name: np.stack(values) if values else empty for name, values in rows.items()})


def expert_shards(lattice: PlanLattice) -> Shards:
    """Shares of routed experts: divided by the ranks that hold the same experts.

    Source: as `PlanLattice.expert_copies`.
    """
    copies, limit = lattice.expert_copies, np.maximum(lattice.shard_group, 1)
    return Shards.of(lattice, np.where(lattice.shard_group == 0, copies, np.minimum(limit, copies)))


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


def _adapters(layer: Layer, job: TrainingJob, formats: Formats, shape: ModelShape) -> float:
    if not formats.frozen:
        return 0.0
    if job.trainable_parameters:
        return job.trainable_parameters / max(shape.num_layers, 1)
    return adapter_parameters(layer, job, formats)


def style_of(job: TrainingJob, formats: Formats) -> Style:
    """How the kernels of a job's framework keep the tensors of a layer.

    A norm of compiled layers is computed again from the residual itself. RMS norms written in Python keep an fp32 copy,
    and one more where their weight learns; LayerNorm is one kernel.

    Source: catalog/data/training/memory.toml; autograd's derivatives.yaml.
    """
    software = formats.software
    compiled = software.activations == "compiled" or (
        software.activations == "eager" and "compile" in job.features
    )
    fused = software.activations == "fused"
    norm_bytes = software.frozen_norm_bytes if formats.frozen else software.norm_bytes
    layer_norm_bytes = min(norm_bytes, _BF16)
    if formats.autocast or compiled:
        norm_bytes = layer_norm_bytes = _FP32 if formats.autocast else _BF16
    return Style(
        fused=fused,
        compiled=compiled,
        frozen=formats.frozen,
        low_bit=fused and job.compute_dtype in _LOW_BIT,
        autocast=formats.autocast,
        dropout="dropout" in job.features,
        adapts_last=not formats.frozen or adapts_every_matrix(job, software),
        repeats_key_value=software.repeats_key_value and not compiled,
        splits_one_projection=software.splits_one_projection and not compiled,
        score_tokens=job.sequence_tokens if "unfused_attention" in job.features else 0,
        norm_bytes=norm_bytes,
        layer_norm_bytes=layer_norm_bytes,
    )


def kept_by_layer(layer: Layer, job: TrainingJob, formats: Formats, style: Style) -> Kept:
    """What one layer with its adapters keeps for its backward pass without recomputation [bytes per token].

    Source: as `kept_per_token`.
    """
    kept = kept_per_token(layer, job.model.hidden_size, style)
    if not formats.frozen or style.compiled:
        return kept
    inputs = adapter_input_bytes(layer, job, formats) + quantized_input_bytes(layer, job, formats)
    return kept + Kept(sharded=inputs)


def _activations(
    layer: Layer, job: TrainingJob, formats: Formats, lattice: PlanLattice
) -> dict[str, FloatArray]:
    tp = lattice.tensor_parallel.astype(np.float64)
    tokens = lattice.micro_batch * (job.computed_tokens / lattice.context_parallel)
    residual_tokens = np.where(lattice.sequence_parallel > 0, tokens / tp, tokens)
    sharded_tokens = tokens / tp
    kv_tokens = tokens / np.minimum(
        tp, (layer.mixer.repeated_heads if layer.mixer is not None else None) or 1
    )
    etp = lattice.tensor_parallel_of_experts.astype(np.float64)
    hidden = float(job.model.hidden_size)

    def spread(kept: Kept) -> FloatArray:
        found = kept.residual * residual_tokens + kept.sharded * sharded_tokens
        if kept.key_value:
            found = found + kept.key_value * kv_tokens
        if kept.expert or kept.exchanged:
            found = found + residual_tokens * (kept.expert + kept.exchanged * etp)
        return found

    style = style_of(job, formats)
    everything = kept_by_layer(layer, job, formats, style)
    whole = spread(everything) + adapter_identity_bytes(layer, job, formats)
    every_second = formats.software.family == "torchtitan"
    selected = spread(
        selected_per_token(layer, job.model.hidden_size, style, everything, every_second=every_second)
    )
    inputs = _BF16 * hidden * residual_tokens
    kept = np.where(lattice.recompute == _SELECTIVE, selected, whole)
    kept = np.where(lattice.recompute == _FULL, inputs, kept)
    again = whole - kept
    width = layer.feed_forward.gradient_values if layer.feed_forward is not None else 0.0
    gathered_sequence = (lattice.sequence_parallel > 0) & (tp > 1)
    workspace = (
        2.0 * _BF16 * hidden * residual_tokens
        + 2.0 * _BF16 * width * sharded_tokens
        + _BF16 * hidden * tokens * gathered_sequence
        + _dequantized(layer, job) / tp
    )
    return {"kept": kept, "again": again, "workspace": workspace}


def _dequantized(layer: Layer, job: TrainingJob) -> float:
    """The largest matrix of a layer in 16 bits, which QLoRA makes of NF4 before it multiplies, and DoRA to find the
    norms of its columns [bytes]."""
    if job.method not in ("qlora", "dora"):
        return 0.0
    width = layer.feed_forward.matrix_width if layer.feed_forward is not None else job.model.hidden_size
    return _BF16 * job.model.hidden_size * width
