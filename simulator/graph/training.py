"""Sums over a model's layers for training: parameters and how ranks divide them, flop, and activations kept.

`training.stages` decides which layers a pipeline stage holds; columns are arrays with one entry for each plan.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.schema import Model
from advisor.catalog.units import BF16_BYTES
from advisor.simulator.graph.backward import KeptTensors, Style
from advisor.simulator.graph.model import layers_of, num_layers, parameter_count
from advisor.simulator.graph.operator import Layer

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_SHORT_FRACTION: Final = 0.125
"""Largest fraction of a mixture-of-experts model's layers at which a dense group comes first (DeepSeek: 3 of 61)."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Parameters of a model before any division."""

    layers: tuple[Layer, ...]
    leading: tuple[bool, ...]
    """Whether the layers of a group come before the others instead of between them, by group."""
    hidden: int
    embedding: float
    """Parameters of the input table, divided along the vocabulary by tensor parallelism, on the first stage."""
    head: float
    """Parameters of the output head, on the last stage; 0 if tied, but a last stage of its own holds a copy
    (`table_parameters`)."""
    extra: float
    """Parameters on the first stage that tensor parallelism divides: per-layer embeddings, vision tower."""

    @property
    def num_layers(self) -> int:
        return sum(layer.count for layer in self.layers)

    @property
    def total(self) -> float:
        """Parameters of the model, one norm after the last layer included."""
        one = np.ones(1)
        layers = sum(
            layer.count * (float(self.dense(layer, one)[0]) + expert_parameters(layer))
            for layer in self.layers
        )
        return layers + self.embedding + self.head + self.hidden + self.extra

    def dense(self, layer: Layer, tensor_parallel: FloatArray) -> FloatArray:
        """Number of parameters of one layer on one rank without its routed experts, including a norm before each part.

        Source: Megatron-LM (arXiv:1909.08053); norms are on every rank.
        """
        norms = float(self.hidden * layer.num_parts)
        return np.asarray(
            sum(
                (matrix.num_weights_on_rank(tensor_parallel) for matrix in layer.stored),
                np.full_like(tensor_parallel, norms),
            )
        )


@dataclass(frozen=True, slots=True)
class LayerColumns:
    """Parameters of one layer of each group that an accelerator holds: arrays [group, plan]."""

    dense: FloatArray
    """Parameters outside routed experts; data-parallel copies of them are on data × context ranks."""
    expert: FloatArray
    """Parameters of routed experts; copies of them are on `PlanLattice.expert_copies` ranks."""


@cache
def model_shape(model: Model) -> ModelShape:
    """Return the parameters of a model by how they are divided [parameters].

    Assumes: multi-token-prediction layers are not trained.
    Source: shapes as published (`graph.model.parameter_count`).
    """
    count = parameter_count(model)
    layers = layers_of(model)
    has_experts = any(layer.experts for layer in layers)
    few = _SHORT_FRACTION * num_layers(model)
    return ModelShape(
        layers,
        tuple(has_experts and layer.experts is None and layer.count <= few for layer in layers),
        hidden=model.hidden_size,
        embedding=count.embedding,
        head=count.head,
        extra=count.extra + count.vision,
    )


def layer_parameters(shape: ModelShape, tensor_parallel: IntArray, expert_ranks: IntArray) -> LayerColumns:
    """Number of parameters of one layer of each group on one accelerator [parameters], for each plan.

    `expert_ranks`, the ranks of expert and expert tensor parallelism, divide the routed experts.

    Source: Megatron-LM (arXiv:1909.08053); expert parallelism of Megatron-Core.
    """
    degrees = np.arange(1.0, tensor_parallel.max(initial=0) + 1.0)
    shares = 1.0 / expert_ranks
    empty = np.zeros((0, len(tensor_parallel)))
    dense = [shape.dense(layer, degrees)[tensor_parallel - 1] for layer in shape.layers]
    expert = [expert_parameters(layer) * shares for layer in shape.layers]
    return LayerColumns(np.stack(dense) if dense else empty, np.stack(expert) if expert else empty)


def expert_parameters(layer: Layer) -> float:
    """Number of parameters of all routed experts of one layer [parameters]; expert and expert tensor parallelism divide
    them.

    Source: expert parallelism of Megatron-Core (by EP × ETP and not by TP, Megatron-LM issue 4050).
    """
    return float(layer.experts.num_experts * layer.experts.elements) if layer.experts else 0.0


def table_parameters(
    shape: ModelShape, tensor_parallel: IntArray, has_embedding: FloatArray, has_head: FloatArray
) -> FloatArray:
    """Number of parameters outside the layers on one accelerator of a stage: input table, extras, output head, last
    norm.

    A tied head on a stage without the input table is a copy of the table; on a stage with the table, it is the table.

    Source: Megatron-LM (arXiv:1909.08053), vocabulary-parallel embedding; its first and last stage both hold a tied
    table.
    """
    first = has_embedding * (shape.embedding + shape.extra) / tensor_parallel
    return first + has_head * head_parameters(shape, tensor_parallel, has_embedding)


def head_parameters(shape: ModelShape, tensor_parallel: IntArray, has_embedding: FloatArray) -> FloatArray:
    """Number of parameters of the output head and the last norm on one accelerator of the stage that computes the loss.

    Source: as `table_parameters`.
    """
    copied = shape.head or shape.embedding
    return np.where(has_embedding > 0.0, shape.head, copied) / tensor_parallel + shape.hidden


def attention_flop_per_token(model: Model, sequence_tokens: int) -> float:
    """FLOP of the scores and their product with the values in one forward pass, per token [flop]: causal, so half of
    the square.

    Σ layers · heads · 2 (d_qk + d_v) · s / 2; a window caps s.

    Assumes: a token attends to half of the sequence on average.
    Source: Chowdhery et al. 2022, arXiv:2204.02311, appendix B, halved for causality.
    """
    flop = 0.0
    for layer in layers_of(model):
        if attention := layer.attention:
            seen = sequence_tokens / 2.0 if attention.causal else float(sequence_tokens)
            if attention.window_tokens and attention.compress_ratio == 1:
                seen = min(seen, float(attention.window_tokens))
            flop += layer.count * attention.prefill_pair_flop * seen
    return flop


def layer_flop_per_token(model: Model) -> float:
    """FLOP of the multiplications with the weights of all layers in one forward pass, per token [flop].

    Source: two per active parameter (Kaplan et al. 2020, arXiv:2001.08361).
    """
    return 2.0 * sum(layer.count * layer.active for layer in layers_of(model))


def layer_kept_tensors(layer: Layer, hidden: int, style: Style) -> KeptTensors:
    """Tensors that one layer keeps for its backward pass without recomputation [bytes per token].

    A fused GPT layer keeps 34 bytes per hidden value and token: 11 attention, 19 feed-forward, 4 norms; scores come on
    top where attention stores them. Gated feed-forward parts keep both halves and their product.

    Assumes: activations are 16-bit, inputs of fp8 matrices 8-bit; routing is balanced; compiled layers compute the
    inputs of adapters again.
    Source: Korthikanti et al. (arXiv:2205.05198) section 4.1; for eager PyTorch the tensors that autograd saves
    (derivatives.yaml); for compiled layers the inputs of matrix multiplications that the min-cut partitioner keeps.
    """
    norm_bytes = style.norm_bytes
    if layer.feed_forward is not None and layer.feed_forward.is_layer_norm:
        norm_bytes = style.layer_norm_bytes
    found = KeptTensors()
    if layer.mixer is not None:
        found += _norm(hidden, 3, norm_bytes, style) + layer.mixer.kept_tensors(style)
    if layer.feed_forward is not None:
        found += _norm(hidden, 2, norm_bytes, style) + layer.feed_forward.kept_tensors(style)
    return found


def _norm(hidden: int, num_matrices: int, norm_bytes: float, style: Style) -> KeptTensors:
    """Bytes kept by a norm, by its output as the input of the next matrices, and by the dropout mask of the residual
    behind it."""
    copies = num_matrices if style.autocast and not style.compiled else 1
    return KeptTensors(
        residual=hidden * (norm_bytes + copies * style.input_bytes + (1.0 if style.dropout else 0.0))
    )


def without_modules_per_token(layer: Layer, hidden: int, style: Style) -> KeptTensors:
    """Tensors that a layer keeps if norms, latent up-projections and experts' activation are recomputed [bytes per
    token].

    Assumes: dense feed-forward parts keep all their tensors (Megatron-Core recomputes the activation of experts alone).
    Source: Megatron-Core, --recompute-modules layernorm mla_up_proj moe_act; DeepSeek-V3 (arXiv:2412.19437), section
    3.2.3.
    """
    found = KeptTensors()
    for part in (layer.mixer, layer.feed_forward):
        if part is not None:
            found += KeptTensors(residual=BF16_BYTES * hidden) + part.without_modules(
                part.kept_tensors(style), style
            )
    return found


def selective_kept_tensors(
    layer: Layer, hidden: int, style: Style, kept: KeptTensors, *, every_second: bool
) -> KeptTensors:
    """Tensors that a layer keeps under selective recomputation [bytes per token]; `kept` is without it.

    Megatron recomputes attention's core: its scores go, flash attention keeps none anyway. torchtitan keeps the
    layer's input, attention's output and `every_second` matmul: queries, values, the first and the last
    matrix of the feed-forward part. A compiled layer saves no value that no gradient needs: not the last matrix's.

    Source: Korthikanti et al. (arXiv:2205.05198) section 5; torchtitan distributed/activation_checkpoint.py; PyTorch,
        torch/_functorch/partitioners.py.
    """
    if not every_second:
        if layer.mixer is None or not style.score_tokens:
            return kept
        without = layer.mixer.kept_tensors(replace(style, score_tokens=0))
        return kept + without + layer.mixer.kept_tensors(style).times(-1.0)
    found = KeptTensors(residual=BF16_BYTES * hidden)
    if style.compiled and layer.feed_forward is not None:
        found += KeptTensors(residual=-BF16_BYTES * hidden)
    found += (
        layer.mixer.every_second(kept) if layer.mixer is not None else KeptTensors(sharded=kept.sharded / 2.0)
    )
    return found + (
        layer.feed_forward.every_second(kept) if layer.feed_forward is not None else KeptTensors()
    )
