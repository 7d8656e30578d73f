"""Memory: weights, reserves and KV cache of one accelerator."""

import math
from dataclasses import dataclass

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.engines import earlier_memory
from advisor.catalog.errors import InfeasibleError
from advisor.catalog.schema import Engine
from advisor.catalog.units import GB, GIB, MB
from advisor.simulator.deployment import Deployment
from advisor.simulator.graph.model import (
    KvFootprint,
    dense_weight_bytes,
    expert_weight_bytes,
    kv_bytes_per_token,
    kv_share,
    layers_of,
    stored_element_bytes,
)
from advisor.simulator.graph.operator import Layer

_CONTEXT_BYTES = 0.95 * GIB
"""Memory of one process before it loads anything [bytes]: its driver context, and what the driver keeps of the memory
that it reports. SGLang finds 78.6 to 78.8 GiB free on an H100 of 79.65 (github.com/sgl-project/sglang/pull/4760)."""
_COMMUNICATOR_BYTES = 1.25 * GIB
"""NCCL buffers and the all-reduce workspace of a rank in a group [bytes], as SGLang prints them on eight H100s ("Init
torch distributed ends. mem usage=1.25 GB")."""
_COMMUNICATOR_BYTES_WITHOUT_FABRIC = 0.26 * GIB
"""NCCL buffers of a rank on cards without a scale-up fabric, which open fewer channels [bytes]: on two RTX 4090s SGLang
prints 0.26 GB (github.com/sgl-project/sglang/issues/16920) and vLLM takes 0.25 GiB (vllm-project/vllm issue 13061)."""
_GRAPH_AND_LIBRARY_BYTES = 1.5 * GIB
"""Captured graphs, library handles and fragmentation [bytes], which engines count before they size the cache: the rest
of two printed cache sizes of vLLM 0.20.2 on one H200 (1.3 and 1.9 GiB) after the profile run's peak."""
_LIBRARY_BYTES = 0.5 * GIB
"""Library handles and fragmentation of an engine that captures no graphs [bytes]. Own assumption: the part of the sum
above that does not grow with the number of captured graphs."""
_SAMPLER_BYTES_PER_LOGIT = 14.0
"""Sampler bytes per logit: bf16 logits, an fp32 copy, probabilities and noise (vLLM 0.20.2, v1/sample)."""
_USUAL_FRACTION = 0.8
"""Fraction of the memory below which a refusal says how little of it the engine takes."""
_ENCODER_PATCHES = 65_536
_ENCODER_WIDTH = 1152
_ENCODER_INNER = 4304
_PATCH_VALUES = 3 * 2 * 16 * 16
"""Patches of the largest images that vLLM encodes at the start, width and inner width of the image tower, and values of
one patch of pixels: a budget of 16,384 tokens of four patches each, and the shape of SigLIP SO400M with patches of
Qwen3-VL, which towers of today's models have."""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Memory of the fullest accelerator of a replica [bytes], and the KV tokens that a replica can hold."""

    total_bytes: float
    weight_bytes: float
    activation_bytes: float
    runtime_bytes: float
    """Memory of context, communicators and captured graphs, and what kernels add to experts [bytes]."""
    kv_bytes: float
    """Memory left for the cache [bytes]; negative in the plan of a TooLittleMemoryError."""
    kv_bytes_per_token: float
    """Cache of one token of a long sequence on the fullest accelerator [bytes]."""
    state_bytes_per_sequence: float
    kv_capacity_tokens: int
    """Tokens that the cache of the whole replica holds: all attention data-parallel ranks together."""
    state_pool_bytes: float = 0.0
    """Part of `kv_bytes` that is set apart for recurrent states; 0 if they share pages with keys and values."""


class TooLittleMemoryError(InfeasibleError):
    """Weights, reserves and the cache that was asked for do not fit; `plan` says how the memory would be divided."""

    def __init__(self, plan: MemoryPlan, what: str, *, why: str, fix: str) -> None:
        super().__init__(what, why=why, fix=fix)
        self.plan = plan


def weight_bytes(deployment: Deployment) -> float:
    """Size of the weights on the fullest accelerator [bytes]: layers of its stage, embeddings and head of the outer
    stages.

    Assumes: stages of equal layers, the first and last carrying embedding and head; vocabulary split by tensor
    parallelism; routed experts split over all accelerators of a stage.
    Source: own definition.
    """
    model = deployment.model
    tp = deployment.tensor_parallel
    stages = deployment.pipeline_parallel
    elements = model.vocab_size * model.hidden_size / tp
    table = elements * stored_element_bytes(model, deployment.weight_dtype, "embedding")
    head = elements * stored_element_bytes(model, deployment.weight_dtype, "head")
    on_host = deployment.engine.embeds_on_host and not deployment.accelerator.unified_memory
    if model.tied_embeddings:
        head = table
    is_one = model.tied_embeddings or on_host
    tables = head if is_one else table + head
    table = max(table, head)
    extra = model.extra_parameters * bytes_per_element("bf16") / tp
    vision = (model.vision.parameters if model.vision else 0.0) * bytes_per_element("bf16") / tp
    return layer_weight_bytes(deployment) + (tables if stages == 1 else table) + extra + vision


def layer_weight_bytes(deployment: Deployment) -> float:
    """Size of the layers on the fullest accelerator, without embeddings, head and towers [bytes].

    Assumes: stages of equal layers; routed experts split over all accelerators of a stage.
    Source: own definition.
    """
    model = deployment.model
    dtype = deployment.weight_dtype
    layers = sum(
        layer.copies
        * (
            dense_weight_bytes(model, layer, dtype, deployment.tensor_parallel)
            + expert_weight_bytes(model, layer, dtype) / _expert_ranks(deployment, layer)
        )
        for layer in layers_of(model)
    )
    return layers / deployment.pipeline_parallel


def expert_padding_bytes(deployment: Deployment) -> float:
    """Memory that the engine's kernels add to routed experts on one accelerator, whose matrices they pad [bytes].

    Source: expert_padding of the engine record.
    """
    rule = next(
        (
            each
            for each in deployment.engine.expert_padding
            if deployment.weight_dtype in each.weight_dtypes
            and deployment.accelerator.architecture in each.architectures
        ),
        None,
    )
    added = 0.0
    for layer in layers_of(deployment.model) if rule else ():
        experts = layer.experts
        if experts is None or rule is None:
            continue
        part = experts.intermediate_size / deployment.expert_tensor_parallel
        widths = ((experts.hidden_size, rule.hidden_multiple), (part, rule.inner_multiple))
        ratio = math.prod(math.ceil(width / multiple) * multiple / width for width, multiple in widths)
        size = expert_weight_bytes(deployment.model, layer, deployment.weight_dtype)
        added += layer.copies * (ratio - 1.0) * size / _expert_ranks(deployment, layer)
    return added / deployment.pipeline_parallel


def _expert_ranks(deployment: Deployment, layer: Layer) -> float:
    """Number of accelerators that share one copy of a layer's routed experts: fewer than the stage's if some have
    copies."""
    experts = layer.experts
    ranks = deployment.ranks_per_stage
    if experts is None:
        return ranks
    return ranks * experts.num_experts / deployment.expert_slots(experts.num_experts)


def activation_bytes(
    deployment: Deployment, num_batched_tokens: int, num_seqs: int, version: str = ""
) -> float:
    """Largest activations of one iteration [bytes], as the profile run of an engine's release finds them.

    One forward pass over a full token budget, the sampler over every sequence, or the encoder over the largest images,
    whichever is largest: buffers are reused. The widest moment of a layer holds the residual twice and the fused
    gate-up output with its result.

    Assumes: attention workspaces are small; the gathered logits hold the whole vocabulary.
    Source: vLLM 0.20.2, profile_run; own derivation of the peak.
    """
    model = deployment.model
    tp = deployment.tensor_parallel
    parts = (layer.feed_forward for layer in layers_of(model))
    width = max((part.widest_values for part in parts if part is not None), default=0.0)
    tokens = num_batched_tokens / deployment.data_parallel
    forward = tokens * (2.0 * model.hidden_size + width / tp) * bytes_per_element("bf16")
    earlier = earlier_memory(deployment.engine, version)
    per_logit = (earlier.sampler_bytes_per_logit if earlier else None) or _SAMPLER_BYTES_PER_LOGIT
    sampler = num_seqs / deployment.data_parallel * model.vocab_size * per_logit
    return max(forward, sampler, _encoder_bytes(deployment))


def _encoder_bytes(deployment: Deployment) -> float:
    """Activations of the image encoder for the largest images that the engine tries at the start [bytes]; 0 if it tries
    none.

    A layer holds pixels, positions, residual and its norm throughout. The widest moment is the end of attention. It
    holds queries, keys and values, a copy of queries and keys before and one after their rotation, the result and its
    projection. If the inner layer with its result is wider, that is the widest moment.

    Source: vLLM 0.25.0, model_executor/models: qwen3_vl.py (Qwen3_VisionTransformer, Qwen3_VisionBlock) and
    qwen2_5_vl.py (Qwen2_5_VisionAttention).
    """
    vision = deployment.model.vision
    if not deployment.engine.profiles_encoder or vision is None or not vision.parameters:
        return 0.0
    tp = deployment.tensor_parallel
    held = _PATCH_VALUES + 3.0 * _ENCODER_WIDTH
    attention = (3.0 + 2.0 + 2.0 + 1.0) * _ENCODER_WIDTH / tp + _ENCODER_WIDTH
    inner = 2.0 * _ENCODER_INNER / tp
    return _ENCODER_PATCHES * (held + max(attention, inner)) * bytes_per_element("bf16")


def plan_memory(
    deployment: Deployment,
    *,
    num_batched_tokens: int,
    num_seqs: int,
    memory_fraction: float | None = None,
    mean_context_tokens: float = 4096.0,
    kv_cache_bytes: float | None = None,
    has_graphs: bool = True,
    offloaded_bytes: float = 0.0,
    version: str = "",
) -> MemoryPlan:
    """Divide the memory of the fullest accelerator as the engine would, and count the KV tokens that fit into the rest.

    `mean_context_tokens` spreads windowed layers and recurrent states, which a sequence owns once, over its tokens.
    `kv_cache_bytes` is a size of the cache that the user sets; without graphs none is reserved for them.
    `offloaded_bytes` of its layers lie in main memory. `version` is the release of the engine; an earlier one may
    reserve less.

    Raises:
        TooLittleMemoryError: weights and reserves do not fit; says by how much.
        InfeasibleError: the memory size of the accelerator has no source.
    Source: vLLM and TensorRT-LLM memory accounting as recorded in the engine records.
    """
    engine = deployment.engine
    accelerator = deployment.accelerator
    total = accelerator.memory_bytes
    if total is None:
        raise InfeasibleError(f"{accelerator.id}: its memory size has no source")
    weights = weight_bytes(deployment) - offloaded_bytes
    activations = activation_bytes(deployment, num_batched_tokens, num_seqs, version)
    fraction = memory_fraction if memory_fraction is not None else engine.memory_fraction
    communicator = _communicator_bytes(deployment)
    context = _context_bytes(deployment)
    runtime = _GRAPH_AND_LIBRARY_BYTES if has_graphs else _LIBRARY_BYTES
    runtime = _earlier_runtime_bytes(deployment, version, runtime, communicator)
    if engine.memory_reserve is None and engine.memory_fraction_of != "total":
        runtime += context
    runtime += expert_padding_bytes(deployment)
    if kv_cache_bytes is None:
        left = _room_for_cache(engine, total, fraction, (weights, activations, runtime, context))
    else:
        left = min(kv_cache_bytes, total - context - weights - activations - _LIBRARY_BYTES)
    footprint = kv_bytes_per_token(
        deployment.model, deployment.kv_dtype, pads_groups=engine.pads_cache_groups
    )
    state = footprint.state_bytes_per_sequence / deployment.tensor_parallel / deployment.pipeline_parallel
    per_token = cache_bytes_per_token(deployment, footprint, mean_context_tokens, num_batched_tokens)
    states = (
        left * engine.state_pool_ratio / (1.0 + engine.state_pool_ratio) if engine.state_pool_ratio else 0.0
    )
    if state and states:
        sequences = _tokens_that_fit(states, 0.0, state, mean_context_tokens)
        tokens = min(_tokens_that_fit(left - states, per_token, 0.0, mean_context_tokens), sequences)
    else:
        states = 0.0
        tokens = _tokens_that_fit(left, per_token, state, mean_context_tokens)
    if engine.memory_reserve is not None:
        # The engine reserves nothing for the highest allowed number of sequences: it samples those in the cache.
        num_held = max(1, min(num_seqs, int(tokens * deployment.data_parallel / mean_context_tokens)))
        activations = activation_bytes(deployment, num_batched_tokens, num_held, version)
    plan = MemoryPlan(
        total_bytes=total,
        weight_bytes=weights,
        activation_bytes=activations,
        runtime_bytes=runtime,
        kv_bytes=left,
        kv_bytes_per_token=per_token,
        state_bytes_per_sequence=state,
        kv_capacity_tokens=tokens * deployment.data_parallel,
        state_pool_bytes=states,
    )
    if kv_cache_bytes is not None and kv_cache_bytes > left:
        raise _too_large_cache(deployment, plan, kv_cache_bytes)
    if left <= 0:
        is_of_rest = engine.memory_reserve is None and engine.memory_fraction_of != "total"
        usable = total if is_of_rest else total * fraction
        raise _too_small(deployment, plan, usable, -left / fraction if is_of_rest else -left)
    return plan


def _communicator_bytes(deployment: Deployment) -> float:
    """Memory of the communicators of a rank in a group [bytes]."""
    return _COMMUNICATOR_BYTES if deployment.accelerator.scale_up else _COMMUNICATOR_BYTES_WITHOUT_FABRIC


def _context_bytes(deployment: Deployment) -> float:
    """Memory of the driver's context, and of communicators where a replica has several accelerators [bytes]."""
    return _CONTEXT_BYTES + (
        _communicator_bytes(deployment) if deployment.accelerators_per_replica > 1 else 0.0
    )


def widest_fraction(deployment: Deployment, plan: MemoryPlan) -> float:
    """Return the largest fraction of the memory, in hundredths, that its owner can give the engine: driver and
    communicators, and where the engine counts them outside of the fraction activations and graphs, have the rest.

    An engine that computes its fraction from a reserve is given at most what it takes where it knows no memory.

    Assumes: activations and graphs take what the plan says; the fraction is rounded down.
    Source: own derivation from `_room_for_cache`.
    """
    engine = deployment.engine
    context = _context_bytes(deployment)
    if engine.memory_reserve is not None:
        needed = plan.activation_bytes + plan.runtime_bytes
        part = 1.0 - needed / (plan.total_bytes - context)
        return math.floor(100.0 * min(part, engine.memory_fraction)) / 100.0
    outside = context if engine.memory_fraction_of == "total" else _LIBRARY_BYTES
    return math.floor(100.0 * (1.0 - outside / plan.total_bytes)) / 100.0


def _earlier_runtime_bytes(
    deployment: Deployment, version: str, runtime: float, communicator: float
) -> float:
    """Memory that a release takes off the cache for graphs, libraries and communicators [bytes]; `runtime` for one that
    differs in nothing.

    Source: earlier_memory of the engine record.
    """
    earlier = earlier_memory(deployment.engine, version)
    if earlier is None:
        return runtime
    accelerator = deployment.accelerator
    ranks = deployment.accelerators_per_replica
    if earlier.runtime_bytes is not None:
        runtime = min(runtime, earlier.runtime_bytes)
    if accelerator.vendor == "nvidia" and accelerator.scale_up:
        runtime += earlier.peer_bytes * (min(ranks, accelerator.scale_up_domain) - 1)
    if earlier.counts_communicators and ranks > 1:
        runtime += communicator
    return runtime


def _room_for_cache(
    engine: Engine, total: float, fraction: float, parts: tuple[float, float, float, float]
) -> float:
    """Memory that the engine gives its cache [bytes], from total memory, fraction, and weights, activations, runtime
    and context."""
    weights, activations, runtime, context = parts
    if engine.memory_reserve is not None:
        # The fraction already leaves room for activations and graphs; it applies to the memory free before loading.
        return (total - context) * fraction - weights
    if engine.memory_fraction_of == "total":
        # Context and communicators are in the part that is not requested.
        return total * fraction - weights - activations - runtime
    return (total - weights - activations - runtime) * fraction


def _too_large_cache(deployment: Deployment, plan: MemoryPlan, asked_bytes: float) -> TooLittleMemoryError:
    """Return the error of a cache that the user sets and that is larger than what is free."""
    free = max(plan.kv_bytes, 0.0) / GB
    return TooLittleMemoryError(
        plan,
        f"a KV cache of {asked_bytes / GB:.1f} GB does not fit beside {deployment.model.id}",
        why=f"{free:.1f} GB are free on each accelerator after weights and activations",
        fix=f"--kv-cache-bytes {math.floor(free)}GB or less"
        if free >= 1
        else "more accelerators per replica",
    )


def _too_small(deployment: Deployment, plan: MemoryPlan, usable: float, short: float) -> TooLittleMemoryError:
    """Return the error of weights and reserves that need `short` bytes more than the `usable` ones."""
    where = f"{deployment.accelerators_per_replica} × {deployment.accelerator.id}"
    part = ""
    if usable < _USUAL_FRACTION * plan.total_bytes:
        part = f"; {deployment.engine.name} takes no more of {plan.total_bytes / GB:.1f} GB unless told otherwise"
    return TooLittleMemoryError(
        plan,
        f"{deployment.model.id} ({deployment.weight_dtype}) does not fit {where}",
        why=f"weights {plan.weight_bytes / GB:.1f} GB per accelerator and reserves exceed "
        f"{usable / GB:.1f} GB by "
        + (f"{short / GB:.1f} GB" if short >= GB / 20 else f"{math.ceil(short / MB)} MB")
        + part,
        fix="more accelerators per replica, or a smaller weight format",
    )


def cache_bytes_per_token(
    deployment: Deployment, footprint: KvFootprint, mean_context_tokens: float, new_tokens: float = 0.0
) -> float:
    """Cache that the engine's pools set aside for one token of a sequence, on the fullest accelerator, without states
    [bytes].

    Layers with a window take what it holds, with the `new_tokens` of an iteration where each sequence has room for
    them, or the fraction of a pool of their own that the engine sizes by tokens.

    Source: windowed_cache_fraction, windowed_cache_families and windowed_cache_step of the engine record.
    """
    engine = deployment.engine
    families = engine.windowed_cache_families
    has_pool = not families or deployment.model.family in families
    windowed_fraction = engine.windowed_cache_fraction if has_pool else 1.0
    windowed = sum(
        per_token
        * max(
            min(mean_context_tokens, _window_cells(engine, window, new_tokens)) / mean_context_tokens,
            windowed_fraction,
        )
        for window, per_token in footprint.windowed
    )
    share = kv_share(deployment.model, deployment.tensor_parallel) / deployment.pipeline_parallel
    return (footprint.full_bytes_per_token + windowed) * share


def _window_cells(engine: Engine, window: int, new_tokens: float) -> float:
    """Return the tokens for which a layer with a window has room in the cache of one sequence."""
    step = engine.windowed_cache_step
    return step * math.ceil((window + new_tokens) / step) if step and new_tokens else float(window)


def _tokens_that_fit(left: float, per_token: float, state: float, mean_context_tokens: float) -> int:
    spread = per_token + state / mean_context_tokens
    if spread <= 0:
        return 2**40  # nothing grows with the sequence
    return max(0, math.floor(left / spread))
