"""Account of an accelerator's memory for one load: weights, cache, states, activations, reserves, and what is free."""

import math
from dataclasses import dataclass, replace
from typing import Final

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.errors import InfeasibleError
from advisor.catalog.schema import Model
from advisor.catalog.units import GB
from advisor.simulator.deployment import Deployment
from advisor.simulator.graph.model import (
    dense_weight_bytes,
    expert_weight_bytes,
    kv_bytes_per_token,
    kv_share,
    layers_of,
    parameter_count,
    stored_element_bytes,
)
from advisor.simulator.memory import (
    MemoryPlan,
    TooLittleMemoryError,
    cache_bytes_per_token,
    weight_bytes,
)
from advisor.simulator.replica_model import EngineSettings, engine_limits, micro_batch_of, replica_memory


@dataclass(frozen=True, slots=True)
class MemoryAccount:
    """Memory of the fullest accelerator of one replica that holds `num_sequences` sequences of one length [bytes]."""

    total_bytes: float
    weight_bytes: float
    vision_bytes: float
    """Part of the weights that belongs to vision and audio towers."""
    activation_bytes: float
    """Largest activations of one iteration of the engine."""
    runtime_bytes: float
    """Context of the driver, communicators, captured graphs, and what kernels add to experts."""
    cache_bytes: float
    """Keys and values of the sequences, as the engine's pages and pools set them aside."""
    padding_bytes: float
    """Part of `cache_bytes` that stays empty: in pages of one size for all kinds of layers, or in the pool of windows
    that is sized by tokens."""
    reading_bytes: float
    """Part of `cache_bytes` for an iteration's new tokens of a prompt, which layers with a window hold in addition."""
    state_bytes: float
    """Recurrent states of the sequences, and keys and values of an encoder."""
    reserve_bytes: float
    """Memory that the engine leaves to others: it asks for a fraction of the whole."""
    num_sequences: int
    num_fitting: int
    """Sequences of this length that the cache holds; 0 if the weights do not fit or one is too long."""
    capacity_tokens: int
    """Tokens of such sequences that the cache of the replica holds."""
    problem: str
    """Reason why weights and reserves do not fit; empty if they do."""

    @property
    def needed_bytes(self) -> float:
        """Memory that the sequences need with everything else [bytes]."""
        parts = (
            self.weight_bytes,
            self.activation_bytes,
            self.runtime_bytes,
            self.cache_bytes,
            self.state_bytes,
        )
        return sum(parts) + self.reserve_bytes

    @property
    def free_bytes(self) -> float:
        """Memory left for more sequences [bytes]; negative if it does not suffice."""
        return self.total_bytes - self.needed_bytes

    @property
    def fits(self) -> bool:
        """Whether all sequences are held at once."""
        return not self.problem and self.num_fitting >= self.num_sequences


@dataclass(frozen=True, slots=True)
class ModelAccount:
    """Sizes of a whole model, however it is divided [bytes]."""

    weight_bytes: float
    sequence_bytes: float
    """Cache and state of one sequence."""
    cache_bytes_per_token: float
    """Cache of one more token of a long sequence."""
    num_parameters: float
    num_active_parameters: float
    """Parameters that one token passes; all of them without routed experts."""


def model_account(deployment: Deployment, context_tokens: int) -> ModelAccount:
    """Return the sizes of a model in its formats: all weights once, and one sequence of `context_tokens` tokens.

    Source: memory.weight_bytes on one accelerator; kv_bytes_per_token.
    """
    alone = replace(
        deployment,
        tensor_parallel=1,
        pipeline_parallel=1,
        data_parallel=1,
        expert_parallel=1,
        redundant_experts=0,
    )
    weights = weight_bytes(alone)
    model = deployment.model
    if deployment.engine.embeds_on_host and not model.tied_embeddings:
        table = stored_element_bytes(model, deployment.weight_dtype, "embedding")
        weights += (
            0.0 if deployment.accelerator.unified_memory else table * model.vocab_size * model.hidden_size
        )
    footprint = kv_bytes_per_token(model, deployment.kv_dtype)
    count = parameter_count(model)
    return ModelAccount(
        weights,
        footprint.bytes_of(context_tokens),
        footprint.full_bytes_per_token,
        count.total,
        count.total if not any(layer.experts for layer in count.layers) else count.active + count.head,
    )


def size_contradiction(model: Model) -> str:
    """Return a sentence if the index of a checkpoint states another size than its config gives; empty if they agree.

    An index may count prediction layers that engines leave out. Source: model.safetensors.index.json.
    """
    if model.tensor_bytes is None:
        return ""
    count = parameter_count(model)
    table = float(model.vocab_size * model.hidden_size)
    dtype = model.weights
    layers = sum(
        layer.copies * (dense_weight_bytes(model, layer, dtype, 1) + expert_weight_bytes(model, layer, dtype))
        for layer in layers_of(model)
    )
    counted = layers + table * stored_element_bytes(model, dtype, "embedding")
    counted += 0.0 if model.tied_embeddings else table * stored_element_bytes(model, dtype, "head")
    wide = bytes_per_element("bf16")
    counted += (count.extra + count.vision) * wide
    most = counted + count.mtp * wide
    if (1 - _SIZE_TOLERANCE) * counted <= model.tensor_bytes <= (1 + _SIZE_TOLERANCE) * most:
        return ""
    return (
        f"config.json describes {counted / GB:,.1f} GB of weights, the index of the safetensors files "
        f"{model.tensor_bytes / GB:,.1f} GB: one of them is not of this checkpoint, and config.json counts"
    )


_SIZE_TOLERANCE: Final = 0.05
"""Largest difference between the sizes of config and index that is not told: norms, biases, towers without a shape."""


def account_memory(
    deployment: Deployment,
    context_tokens: int,
    num_sequences: int,
    settings: EngineSettings | None = None,
) -> MemoryAccount:
    """Return how the memory of the fullest accelerator is used by sequences of `context_tokens` tokens each.

    Attention data-parallel ranks deal the sequences out; the fullest holds ⌈sequences / ranks⌉.

    Assumes: the settings that the engine chooses on this accelerator, unless given; all sequences at full length.
    Raises: InfeasibleError: the memory size of the accelerator has no source.
    Source: memory.plan_memory, which the engine records' sources back.
    """
    total = deployment.accelerator.memory_bytes
    if total is None:
        raise InfeasibleError(f"{deployment.accelerator.id}: its memory size has no source")
    settings = settings or EngineSettings()
    plan, problem = _plan(deployment, settings, context_tokens)
    deployment = settings.in_memory(deployment)
    on_rank = math.ceil(num_sequences / deployment.data_parallel)
    footprint = kv_bytes_per_token(
        deployment.model, deployment.kv_dtype, pads_groups=deployment.engine.pads_cache_groups
    )
    share = kv_share(deployment.model, deployment.tensor_parallel) / deployment.pipeline_parallel
    state = footprint.state_bytes_per_sequence / deployment.tensor_parallel / deployment.pipeline_parallel
    cache = cache_bytes_per_token(deployment, footprint, context_tokens) * context_tokens
    filled = kv_bytes_per_token(deployment.model, deployment.kv_dtype)
    padding = cache - (filled.bytes_of(context_tokens) - filled.state_bytes_per_sequence) * share
    # While a prompt is read, the layers with a window hold an iteration's new tokens beside it; llama.cpp has room for
    # those of each sequence from the start, with which its plan counts.
    chunk_tokens = (
        engine_limits(deployment, settings, context_tokens)[1] if deployment.engine.pads_cache_groups else 1
    )
    reading = (footprint.bytes_of(context_tokens, chunk_tokens) - footprint.bytes_of(context_tokens)) * share
    room = max(0.0, 1.0 - reading / plan.kv_bytes) if plan.kv_bytes > 0 else 1.0
    micro = micro_batch_of(deployment.engine, settings)
    with_new = cache_bytes_per_token(deployment, footprint, context_tokens, micro) * context_tokens
    reading += on_rank * (with_new - cache)
    fitting = 0
    if not problem:
        block = settings.kv_block_tokens or 1
        kept = -(-context_tokens // block) * block
        held = math.floor(room * plan.kv_capacity_tokens / deployment.data_parallel / kept + 1e-9)
        fitting = held * deployment.data_parallel
    towers = deployment.model.vision.parameters if deployment.model.vision else 0.0
    planned = plan.weight_bytes + plan.activation_bytes + plan.runtime_bytes + plan.kv_bytes
    return MemoryAccount(
        total_bytes=total,
        weight_bytes=plan.weight_bytes,
        vision_bytes=towers * bytes_per_element("bf16") / deployment.tensor_parallel,
        activation_bytes=plan.activation_bytes,
        runtime_bytes=plan.runtime_bytes,
        cache_bytes=on_rank * cache + reading,
        padding_bytes=on_rank * padding,
        reading_bytes=reading,
        state_bytes=on_rank * state,
        reserve_bytes=max(0.0, total - planned),
        num_sequences=num_sequences,
        num_fitting=fitting,
        capacity_tokens=math.floor(room * plan.kv_capacity_tokens),
        problem=problem,
    )


def _plan(deployment: Deployment, settings: EngineSettings, context_tokens: int) -> tuple[MemoryPlan, str]:
    """Return the engine's division of the memory, and why weights and reserves do not fit; empty if they do."""
    try:
        return replica_memory(deployment, settings, 1, float(context_tokens)), ""
    except TooLittleMemoryError as error:
        return error.plan, error.why
