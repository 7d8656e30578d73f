"""Bytes of one layer with its adapters on one accelerator, by layout: states, activations, workspace."""

from dataclasses import dataclass, fields
from typing import Final, Literal, Self

import numpy as np

from advisor.catalog.schema.training_software import TrainingSoftware
from advisor.catalog.training import families_with_adapted_experts
from advisor.catalog.units import BF16_BYTES, FP32_BYTES
from advisor.simulator.graph.backward import KeptTensors, Linear, Style
from advisor.simulator.graph.operator import Layer
from advisor.simulator.graph.training import (
    ModelShape,
    layer_kept_tensors,
    layer_parameters,
    selective_kept_tensors,
    without_modules_per_token,
)
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.memory.formats import Formats, ParameterBytes
from advisor.simulator.training.plan import RECOMPUTES, SHARDINGS, FloatArray, PlanLattice

_ZERO1, _ZERO2, _ZERO3 = (SHARDINGS.index(name) for name in ("zero1", "zero2", "zero3"))
_SELECTIVE: Final = RECOMPUTES.index("selective")
_FULL: Final = RECOMPUTES.index("full")
_MODULES: Final = RECOMPUTES.index("modules")
_LOW_BIT: Final = ("fp8", "mxfp8", "nvfp4")


@dataclass(frozen=True, slots=True)
class LayerBytes:
    """Memory of one layer of each group on one accelerator: arrays [group, plan], bytes."""

    weights: FloatArray
    gradients: FloatArray
    optimizer: FloatArray
    step: FloatArray
    gathered: FloatArray
    """Size of whole weights and, in the backward pass, whole gradients, if they are sharded between steps [bytes]."""
    placeholder: FloatArray
    """Size of empty 16-bit gradients of the dense matrices, one for each shape [bytes]."""
    casts: FloatArray
    """Size of the 16-bit copies of fp32 weights that autocast makes and the forward pass keeps [bytes]."""
    kept: FloatArray
    """Activations of one micro-batch kept from its forward to its backward pass [bytes]."""
    again: FloatArray
    """Activations recomputed for the backward pass of this layer [bytes]."""
    workspace: FloatArray
    """Size of gradients of activations while the layer runs backwards, gathered inputs, dequantised weights [bytes]."""


@dataclass(frozen=True, slots=True)
class Shards:
    """Fractions of a parameter's weights, gradients and optimizer on one rank."""

    weights: FloatArray
    gradients: FloatArray
    optimizer: FloatArray

    @classmethod
    def of(cls, lattice: PlanLattice, ranks: FloatArray) -> Self:
        share = 1.0 / ranks
        sharding = lattice.sharding
        return cls(
            np.where(sharding >= _ZERO3, share, 1.0),
            np.where(sharding >= _ZERO2, share, 1.0),
            np.where(sharding >= _ZERO1, share, 1.0),
        )


def layer_bytes(job: TrainingJob, formats: Formats, shape: ModelShape, lattice: PlanLattice) -> LayerBytes:
    """Return the memory of one layer of each group on one accelerator [bytes], for each plan.

    States: parameters · bytes per parameter ÷ ranks of the shard. Activations: micro-batch · tokens / cp times bytes
    per token, the residual divided by tp only with sequence parallelism.

    Source: as `peak_memory`.
    """
    parameters = layer_parameters(shape, lattice.tensor_parallel, lattice.expert_ranks)
    dense = Shards.of(lattice, lattice.shard_ranks.astype(np.float64))
    expert = expert_shards(lattice)
    tp = lattice.tensor_parallel.astype(np.float64)
    sharded = lattice.sharding >= _ZERO3
    rows: dict[str, list[FloatArray]] = {field.name: [] for field in fields(LayerBytes)}
    for index, layer in enumerate(shape.layers):
        own = parameters.dense[index]
        experts = parameters.expert[index]
        none = np.zeros_like(experts)
        matrices = states_of(formats.layers, own, dense, none, expert)
        routed = states_of(formats.experts, none, dense, experts, expert)
        states = [sum(parts) for parts in zip(matrices, routed, strict=True)]
        adapters = _adapters(layer, job, formats, shape) / tp
        extra = states_of(formats.adapters, adapters, dense, none, expert)
        copies = formats.quantized_copy * (own + experts)
        casts = BF16_BYTES * (own + experts) if formats.autocast else np.zeros_like(own)
        whole = own * formats.layers.gathered + experts * formats.experts.gathered
        whole = whole + adapters * formats.adapters.gathered
        rows["weights"].append((states[0] + extra[0]) * (1 - lattice.offload_parameters) + copies)
        rows["gradients"].append(states[1] + extra[1])
        rows["optimizer"].append(states[2] + extra[2])
        rows["step"].append(states[3] + extra[3])
        rows["gathered"].append(whole * sharded)
        rows["placeholder"].append(BF16_BYTES * own)
        rows["casts"].append(casts)
        for name, values in _activations(layer, job, formats, lattice).items():
            rows[name].append(values)
    empty = np.zeros((0, len(lattice)))
    return LayerBytes(**{name: np.stack(values) if values else empty for name, values in rows.items()})


def expert_shards(lattice: PlanLattice) -> Shards:
    """Return the shares of routed experts: divided by the ranks that hold the same experts.

    Source: as `PlanLattice.expert_copies`.
    """
    copies = lattice.expert_copies
    limit = np.maximum(lattice.shard_group, 1)
    return Shards.of(lattice, np.where(lattice.shard_group == 0, copies, np.minimum(limit, copies)))


def states_of(
    size: ParameterBytes, dense: FloatArray, shards: Shards, expert: FloatArray, expert_shards: Shards
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Size of weights, gradients, optimizer and temporaries of the step of these parameters [bytes].

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
    """Return the style in which the kernels of a job's framework keep the tensors of a layer.

    A norm of compiled layers is computed again from the residual itself. RMS norms written in Python keep an fp32 copy,
    and one more where their weight learns; LayerNorm is one kernel.

    Source: catalog/data/training/memory.toml; autograd's derivatives.yaml.
    """
    software = formats.software
    compiled = software.activations == "compiled" or (
        software.activations == "eager" and "compile" in job.features
    )
    replaced = "transformer_engine" in job.features
    fused = replaced or software.activations == "fused"
    norm_bytes = software.frozen_norm_bytes if formats.frozen else software.norm_bytes
    norm_bytes = min(norm_bytes, BF16_BYTES) if replaced else norm_bytes
    layer_norm_bytes = min(norm_bytes, BF16_BYTES)
    if formats.autocast or compiled:
        norm_bytes = layer_norm_bytes = FP32_BYTES if formats.autocast else BF16_BYTES
    return Style(
        fused=fused,
        compiled=compiled,
        frozen=formats.frozen,
        low_bit=fused and job.compute_dtype in _LOW_BIT,
        autocast=formats.autocast,
        dropout="dropout" in job.features,
        adapts_last=not formats.frozen or adapted_part(job, software) == "all",
        adapts_experts=formats.frozen and adapts_experts(job, software),
        repeats_key_value=software.repeats_key_value and not compiled,
        splits_one_projection=software.splits_one_projection and not compiled,
        score_tokens=job.sequence_tokens if "unfused_attention" in job.features else 0,
        norm_bytes=norm_bytes,
        layer_norm_bytes=layer_norm_bytes,
    )


def kept_layer_bytes(layer: Layer, job: TrainingJob, formats: Formats, style: Style) -> KeptTensors:
    """Tensors that one layer with its adapters keeps for its backward pass without recomputation [bytes per token].

    Source: as `layer_kept_tensors`.
    """
    kept = layer_kept_tensors(layer, job.model.hidden_size, style)
    if not formats.frozen or style.compiled:
        return kept
    inputs = adapter_input_bytes(layer, job, formats) + quantized_input_bytes(layer, job, formats)
    return kept + KeptTensors(sharded=inputs)


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

    def spread(kept: KeptTensors) -> FloatArray:
        found = kept.residual * residual_tokens + kept.sharded * sharded_tokens
        if kept.key_value:
            found = found + kept.key_value * kv_tokens
        if kept.expert or kept.exchanged:
            found = found + residual_tokens * (kept.expert + kept.exchanged * etp)
        return found

    style = style_of(job, formats)
    everything = kept_layer_bytes(layer, job, formats, style)
    tiles = mlp_tiles(job, lattice)
    tiled = KeptTensors()
    if is_tiled(layer, job):
        assert layer.feed_forward is not None
        tiled = layer.feed_forward.kept_tensors(style)
        everything = everything + tiled.times(-1.0)
    merged, merged_gradient = merged_expert_bytes(layer, job, formats.software)
    whole = spread(everything) + merged
    every_second = formats.software.family == "torchtitan"
    selected = spread(
        selective_kept_tensors(layer, job.model.hidden_size, style, everything, every_second=every_second)
    )
    inputs = (FP32_BYTES if formats.wide_residual else BF16_BYTES) * hidden * residual_tokens
    kept = np.where(lattice.recompute == _SELECTIVE, selected, whole)
    kept = np.where(lattice.recompute == _FULL, inputs, kept)
    if (lattice.recompute == _MODULES).any():
        cheap = spread(without_modules_per_token(layer, job.model.hidden_size, style))
        kept = np.where(lattice.recompute == _MODULES, cheap, kept)
    again = whole - kept
    width = layer.feed_forward.gradient_values if layer.feed_forward is not None else 0.0
    gathered_sequence = (lattice.sequence_parallel > 0) & (tp > 1)
    workspace = (
        2.0 * BF16_BYTES * hidden * residual_tokens
        + 2.0 * BF16_BYTES * width * sharded_tokens / tiles
        + spread(tiled) / tiles
        + BF16_BYTES * hidden * tokens * gathered_sequence
        + _prepared_bytes(layer, job, formats.software) / tp
        + merged_gradient
        + routed_gradient_bytes(layer, job) * residual_tokens
        + _gathered_ring_bytes(layer, job, formats.software, lattice)
    )
    return {"kept": kept, "again": again, "workspace": workspace}


def is_tiled(layer: Layer, job: TrainingJob) -> bool:
    """Whether the feed-forward part of a layer runs tile by tile: dense ones do. Source: deepspeed TiledMLP."""
    return "tiled_mlp" in job.features and layer.feed_forward is not None and layer.experts is None


def mlp_tiles(job: TrainingJob, lattice: PlanLattice) -> FloatArray:
    """Number of tiles in which a feed-forward part runs: tokens of a sequence on this rank over the hidden size.

    Source: deepspeed/runtime/sequence_parallel/ulysses_sp.py, TiledMLP: ceil(sequence / hidden).
    """
    if "tiled_mlp" not in job.features:
        return np.ones(len(lattice))
    return np.ceil(job.computed_tokens / lattice.context_parallel / job.model.hidden_size)


def _gathered_ring_bytes(
    layer: Layer, job: TrainingJob, software: TrainingSoftware, lattice: PlanLattice
) -> FloatArray:
    """Size of the keys and values of whole sequences that a ring gathers at once for a layer's attention [bytes].

    Source: torch/distributed/tensor/experimental/_attention.py, _AllGatherRotater.
    """
    attention = layer.attention
    if attention is None or job.exchanges_heads or not software.gathers_ring:
        return np.zeros(len(lattice))
    heads = attention.num_heads if software.repeats_ring_heads else attention.num_kv_heads
    width = np.maximum(1.0, heads / lattice.tensor_parallel) * (attention.key_dim + attention.value_dim)
    whole = BF16_BYTES * width * lattice.micro_batch * job.computed_tokens
    return np.where(lattice.context_parallel > 1, whole, 0.0)


def _prepared_bytes(layer: Layer, job: TrainingJob, software: TrainingSoftware) -> float:
    """Memory in which adapters prepare the matrix of a layer that takes most of it [bytes].

    QLoRA makes a matrix of NF4 before it multiplies. DoRA sends an identity as wide as the matrix's inputs through the
    adapter, in fp32 and in 16 bits, and later holds product, weight, scaled product and sum in fp32.

    Source: peft 0.21.2, tuners/lora/dora.py (get_lora_weight, forward).
    """
    if job.method == "qlora":
        width = layer.feed_forward.matrix_width if layer.feed_forward is not None else job.model.hidden_size
        return BF16_BYTES * job.model.hidden_size * width
    if job.method != "dora":
        return 0.0
    return max(
        (
            max(
                (FP32_BYTES + BF16_BYTES) * matrix.inputs**2 + BF16_BYTES * matrix.inputs * matrix.outputs,
                4 * FP32_BYTES * matrix.inputs * matrix.outputs,
            )
            for matrix in adapted_matrices(layer, job, software)
        ),
        default=0.0,
    )


def adapter_parameters(layer: Layer, job: TrainingJob, formats: Formats) -> float:
    """Number of adapter parameters of one layer.

    LoRA on a matrix of d inputs and k outputs has r (d + k); DoRA adds k magnitudes. On queries and values, or on
    all linear matrices of attention and dense feed-forward part, with some software of routed experts and their router
    too. Of an expert the two matrices in front of the activation function are one, whose rank is twice as large.

    IA3 has a factor for each key, each value and each input of the last matrix.

    Source: LoRA (arXiv:2106.09685); DoRA (arXiv:2402.09353); IA3 (arXiv:2205.05638), section 3.3; peft 0.21.2,
        utils/transformers_weight_conversion.py (_convert_peft_config_moe).
    """
    if job.method == "ia3":
        return float(scaled_width(layer))
    dense = sum(
        job.lora_rank * (inputs + outputs) + (outputs if job.method == "dora" else 0)
        for _, inputs, outputs in adapted_matrices(layer, job, formats.software)
    )
    experts = layer.experts
    if experts is None or not adapts_experts(job, formats.software):
        return dense
    inner = experts.intermediate_size
    stacked = 2 if experts.gated else 1
    rank_widths = stacked * (experts.hidden_size + stacked * inner) + inner + experts.hidden_size
    router = experts.hidden_size + experts.num_experts
    return dense + job.lora_rank * (rank_widths * experts.num_experts + router)


def adapter_input_bytes(layer: Layer, job: TrainingJob, formats: Formats) -> float:
    """Inputs that adapters of one layer keep for their own gradients, in their format [bytes per token].

    Adapters in the activations' format share an input; fp32 adapters cast it for each matrix, under autocast back to 16
    bits, and dropout copies it for each matrix, with a mask of a byte. DoRA keeps the outputs of matrix and adapter
    too, and so does a framework that puts adapters on queries and values into the output of one matrix for all three
    (index_copy_).

    IA3 keeps what its factors multiply.

    Assumes: an adapter that is not of LoRA's kind (`other_adapter`) keeps one input of the hidden size.
    Source: huggingface/peft tuners/lora/layer.py; litgpt/lora.py.
    """
    software = formats.software
    size = formats.adapters.weights
    if job.method == "ia3":
        return BF16_BYTES * scaled_width(layer)
    if "other_adapter" in job.features:
        return size * job.model.hidden_size
    targets = adapted_matrices(layer, job, formats.software)
    # DoRA scales the sum of both outputs: its magnitudes need them.
    outputs = 2.0 * BF16_BYTES * sum(width for _, _, width in targets) if job.method == "dora" else 0.0
    if software.splits_one_projection and adapted_part(job, software) != "all":
        outputs += BF16_BYTES * sum(width for tensor, _, width in targets if tensor == "mixer")
    inputs = [(tensor, width) for tensor, width, _ in targets]
    if software.adapter_inputs == "shared":
        # Attention keeps its output itself, and the result of the activation function is computed again.
        shared = (width for tensor, width in dict.fromkeys(inputs) if tensor in ("mixer", "feed_forward"))
        return outputs + BF16_BYTES * sum(shared)
    if software.adapter_dropout:
        return outputs + (size + 1.0) * sum(width for _, width in dict.fromkeys(inputs))
    kept = inputs if size > BF16_BYTES else dict.fromkeys(inputs)
    held = BF16_BYTES if software.adapter_inputs == "autocast" else size
    return outputs + held * sum(width for _, width in kept)


def quantized_input_bytes(layer: Layer, job: TrainingJob, formats: Formats) -> float:
    """Inputs of NF4 matrices of one layer that an autograd function keeps although nothing learns from them [bytes per
    token].

    These are the inputs in front of attention and feed-forward part and of its last matrix; with those of the
    micro-batch before, if its graph still lives, also attention's output, which the graph itself has given back.

    Source: bitsandbytes before 0.43.3, MatMul4Bit.forward (`ctx.tensors = (A, B)`).
    """
    software = formats.software
    if job.method != "qlora" or not software.keeps_quantized_inputs:
        return 0.0
    inputs = attended = 0
    if layer.mixer is not None:
        inputs = job.model.hidden_size
        attended = layer.mixer.attended_values
    if layer.feed_forward is not None and layer.experts is None:
        inputs += job.model.hidden_size + layer.feed_forward.inner_size
    return BF16_BYTES * (inputs + (inputs + attended if software.keeps_last_graph else 0))


def scaled_width(layer: Layer) -> int:
    """Number of values of a token that IA3 multiplies in one layer: keys, values, inputs of the last dense matrix.

    Source: huggingface/peft, tuners/ia3; routed experts have no factors.
    """
    parts = (part for part in (layer.mixer, layer.feed_forward) if part is not None)
    linears = [linear for part in parts for linear in part.linears(every=True)]
    keys_and_values = [outputs for tensor, _, outputs in linears if tensor == "mixer"][1:3]
    activated = [inputs for tensor, inputs, _ in linears if tensor == "activated"]
    return sum(keys_and_values) + sum(activated)


AdaptedPart = Literal["all", "attention", "query_value"]


def adapted_part(job: TrainingJob, software: TrainingSoftware) -> AdaptedPart:
    """Return which linear matrices have adapters.

    Source: the recipe's habit, if the job's features do not tell.
    """
    if "adapters_attention" in job.features:
        return "attention"
    if "adapters_query_value" in job.features:
        return "query_value"
    every = software.adapters_on == "all_linear" or "adapters_all_linear" in job.features
    return "all" if every else "query_value"


def adapts_experts(job: TrainingJob, software: TrainingSoftware) -> bool:
    """Whether routed experts have adapters, which every pass adds to their weights. Source: the software's record."""
    if not software.adapts_experts or adapted_part(job, software) != "all":
        return False
    is_plain = job.method in ("lora", "qlora") and "other_adapter" not in job.features
    return is_plain and job.model.family in families_with_adapted_experts()


def merged_expert_bytes(layer: Layer, job: TrainingJob, software: TrainingSoftware) -> tuple[float, float]:
    """Size of the experts of one layer with their adapters added, which autograd keeps, and of the gradient of their
    second matrices, which is found first [bytes]; none without such adapters.

    The larger gradient of the first matrices comes when second matrices and their outputs are gone.

    Source: peft 0.21.2, tuners/lora/layer.py (ParamWrapper, _LoraFactorsProxy); blocks alive at the peak of a step of
        OLMoE on an H200 (tools/measure_tuned_layers.py).
    """
    experts = layer.experts
    if experts is None or not adapts_experts(job, software):
        return 0.0, 0.0
    size = BF16_BYTES * experts.num_experts
    return size * experts.elements, size * experts.hidden_size * experts.intermediate_size


def routed_gradient_bytes(layer: Layer, job: TrainingJob) -> float:
    """Size of the gradients of tokens' copies that are alive together in Transformers' experts [bytes per token].

    They are those of the second matrices' outputs, weighed and not; once these are gone, of the first ones' outputs.

    Source: transformers 5.24.0, integrations/moe.py (grouped_mm_experts_forward); as `merged_expert_bytes`.
    """
    experts = layer.experts
    if experts is None or job.framework != "peft":
        return 0.0
    return BF16_BYTES * experts.per_token * max(2.0 * experts.hidden_size, experts.intermediate_size)


def adapted_matrices(layer: Layer, job: TrainingJob, software: TrainingSoftware) -> tuple[Linear, ...]:
    """Return the matrices of a layer that have an adapter: all, those of attention, or those of queries and values.

    Source: the recipe's habit, if the job's features do not tell.
    """
    part = adapted_part(job, software)
    found = layer.mixer.linears(every=part != "query_value") if layer.mixer else ()
    return (*found, *layer.feed_forward.linears(every=part == "all")) if layer.feed_forward else found
