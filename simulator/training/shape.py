"""Parameters of a model by the way that training divides them: tensor-, vocabulary- and expert-parallel or repeated.

One `ModelShape` per model; `layer_parameters` gives the parameters of one layer that an accelerator holds, for every
plan of a lattice at once. Which layers a pipeline stage holds is told by `stages`.
"""

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.schema import GroupedQueryAttention, LatentAttention, LayerGroup, Model, MoeFeedForward
from advisor.simulator.graph.model import parameter_count
from advisor.simulator.graph.operator import Layer
from advisor.simulator.training.plan import IntArray, PlanLattice

FloatArray = NDArray[np.float64]

_SHORT_FRACTION: Final = 0.125
"""A dense group of a mixture-of-experts model with at most so many of its layers comes first (DeepSeek: 3 of 61)."""


@dataclass(frozen=True, slots=True)
class GroupShape:
    """Parameters of one of `count` equal layers, before any division."""

    count: int
    sharded: float
    """Divided by tensor parallelism: queries, outputs, dense and shared feed-forward."""
    key_value: float
    """Key and value projections: divided by tensor parallelism up to their heads, then repeated."""
    num_kv_heads: int
    replicated: float
    """On every tensor-parallel rank: norms, router, down-projections of latent attention, indexer."""
    expert: float
    """All routed experts of the layer: divided by expert and expert tensor parallelism."""
    num_experts: int
    leading: bool
    """Comes before the other layers instead of between them."""

    @property
    def total(self) -> float:
        """Parameters of one layer."""
        return self.sharded + self.key_value + self.replicated + self.expert


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Parameters of a model before any division."""

    groups: tuple[GroupShape, ...]
    embedding: float
    """Input table, divided along the vocabulary by tensor parallelism, on the first stage."""
    head: float
    """Of the output, on the last stage; 0 where tied, but a last stage of its own holds a copy (`table_parameters`)."""
    final_norm: float
    extra: float
    """On the first stage, divided by tensor parallelism: per-layer embeddings, vision tower."""

    @property
    def num_layers(self) -> int:
        return sum(group.count for group in self.groups)

    @property
    def total(self) -> float:
        """Parameters of the model."""
        layers = sum(group.count * group.total for group in self.groups)
        return layers + self.embedding + self.head + self.final_norm + self.extra

    @property
    def num_experts(self) -> int:
        """Routed experts of a layer; 0 for a dense model."""
        return max((group.num_experts for group in self.groups), default=0)


@dataclass(frozen=True, slots=True)
class LayerColumns:
    """Parameters of one layer of each group that an accelerator holds: arrays [group, plan]."""

    dense: FloatArray
    """Everything but routed experts; data-parallel copies of it are on data × context ranks."""
    expert: FloatArray
    """Routed experts; copies of them are on `expert_data_parallel` ranks."""


@cache
def model_shape(model: Model) -> ModelShape:
    """Parameters of a model by how they are divided [parameters].

    The matrices are those of `graph.model.parameter_count`; a norm of the hidden size is added before each
    mixer and feed-forward part, and one at the end.

    Assumes: multi-token-prediction layers are not trained.
    Source: Megatron-LM (arXiv:1909.08053) for columns and rows; Megatron-Core transformer layers for what repeats.
    """
    count = parameter_count(model)
    has_experts = any(isinstance(group.feed_forward, MoeFeedForward) for group in model.layers)
    num_layers = sum(group.count for group in model.layers)
    return ModelShape(
        groups=tuple(
            _group(group, parameters, model.hidden_size, _leads(group, has_experts, num_layers))
            for group, parameters in zip(model.layers, count.layers, strict=True)
        ),
        embedding=count.embedding,
        head=count.head,
        final_norm=float(model.hidden_size),
        extra=count.extra + count.vision,
    )


def layer_parameters(shape: ModelShape, lattice: PlanLattice) -> LayerColumns:
    """Parameters of one layer of each group on one accelerator [parameters], for each plan.

    dense = sharded / tp + key_value / min(tp, kv heads) + replicated;  expert = experts / (ep · etp)

    Source: Megatron-LM (arXiv:1909.08053); expert parallelism of Megatron-Core (experts divide by EP × ETP and not by
    TP, Megatron-LM issue 4050).
    """
    tp = lattice.tensor_parallel.astype(np.float64)
    expert_ranks = (lattice.expert_parallel * lattice.tensor_parallel_of_experts).astype(np.float64)
    dense = [
        group.sharded / tp + group.key_value / np.minimum(tp, max(group.num_kv_heads, 1)) + group.replicated
        for group in shape.groups
    ]
    expert = [group.expert / expert_ranks for group in shape.groups]
    empty = np.zeros((0, len(lattice)))
    return LayerColumns(np.stack(dense) if dense else empty, np.stack(expert) if expert else empty)


def expert_data_parallel(lattice: PlanLattice) -> FloatArray:
    """Accelerators of a stage that hold the same experts: tp · cp · dp / (ep · etp), for each plan.

    Source: Megatron-Core, parallel folding of expert layers (arXiv:2504.14960).
    """
    ranks = lattice.tensor_parallel * lattice.context_parallel * lattice.data_parallel
    copies = ranks / (lattice.expert_parallel * lattice.tensor_parallel_of_experts)
    return np.maximum(copies, 1.0)


def table_parameters(
    shape: ModelShape, tensor_parallel: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Parameters on one accelerator of (input table and extras, output head and last norm, table of a tied head).

    The third is what a last stage holds in place of the second where the input table is tied and on another stage.

    Source: Megatron-LM (arXiv:1909.08053), vocabulary-parallel embedding; its first and last stage both hold a tied
    table.
    """
    tp = tensor_parallel.astype(np.float64)
    first = (shape.embedding + shape.extra) / tp
    last = shape.head / tp + shape.final_norm
    return first, last, (shape.head or shape.embedding) / tp + shape.final_norm


def _leads(group: LayerGroup, has_experts: bool, num_layers: int) -> bool:
    dense = not isinstance(group.feed_forward, MoeFeedForward)
    return has_experts and dense and group.count <= _SHORT_FRACTION * num_layers


def _group(group: LayerGroup, layer: Layer, hidden: int, leading: bool) -> GroupShape:
    key_value, num_kv_heads = _key_value(group, hidden)
    repeated_mixer = _repeated_mixer(group, hidden)
    repeated_feed_forward, expert = 0.0, 0.0
    num_experts = 0
    if isinstance(group.feed_forward, MoeFeedForward):
        moe = group.feed_forward
        num_experts = moe.num_experts
        expert = float(
            num_experts * (3 if moe.gated else 2) * (moe.latent_size or hidden) * moe.intermediate_size
        )
        repeated_feed_forward = float(hidden * (num_experts + 2 * (moe.latent_size or 0)))
    norms = hidden * ((group.mixer is not None) + (group.feed_forward is not None))
    sharded = layer.parameters - (key_value + expert + repeated_mixer + repeated_feed_forward)
    return GroupShape(
        count=group.count,
        sharded=sharded,
        key_value=key_value,
        num_kv_heads=num_kv_heads,
        replicated=norms + repeated_mixer + repeated_feed_forward,
        expert=expert,
        num_experts=num_experts,
        leading=leading,
    )


def _key_value(group: LayerGroup, hidden: int) -> tuple[float, int]:
    mixer = group.mixer
    if not isinstance(mixer, GroupedQueryAttention) or mixer.shared_kv:
        return 0.0, 1
    width = mixer.head_dim + (0 if mixer.keys_are_values else mixer.v_head_dim or mixer.head_dim)
    return float(hidden * mixer.num_kv_heads * width), mixer.num_kv_heads


def _repeated_mixer(group: LayerGroup, hidden: int) -> float:
    """What every tensor-parallel rank holds of a mixer: latent down-projections, the indexer."""
    mixer = group.mixer
    if isinstance(mixer, GroupedQueryAttention) and mixer.indexer_num_heads:
        return float(hidden * (mixer.indexer_num_heads + 1) * mixer.indexer_head_dim)
    if isinstance(mixer, LatentAttention):
        return float(hidden * ((mixer.q_lora_rank or 0) + mixer.kv_lora_rank + mixer.qk_rope_head_dim))
    return 0.0
