"""What fits: weights, reserves and the KV cache of one accelerator."""

import math
from dataclasses import dataclass

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.errors import InfeasibleError
from advisor.catalog.parameters import KvFootprint, kv_bytes_per_token
from advisor.catalog.schema import GroupedQueryAttention, LatentAttention, Model
from advisor.catalog.units import GB, GIB, MIB
from advisor.simulator.deployment import Deployment
from advisor.simulator.projections import layer_weight_bytes

_CONTEXT_BYTES = 0.55 * GIB
"""Driver context, library handles and allocator slack of one process; nvidia-smi shows about half a GiB."""
_COMMUNICATOR_BYTES = 0.35 * GIB
"""NCCL buffers and the custom all-reduce workspace of a rank in a group."""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Memory of the fullest accelerator of a replica [bytes], and the KV tokens that a replica can hold."""

    total_bytes: float
    weight_bytes: float
    activation_bytes: float
    runtime_bytes: float
    """Context, communicators, captured graphs."""
    kv_bytes: float
    """Left for the cache."""
    kv_bytes_per_token: float
    """Of one token of a long sequence on the fullest accelerator."""
    state_bytes_per_sequence: float
    kv_capacity_tokens: int
    """Of the whole replica: all attention data-parallel ranks together."""


def weight_bytes(deployment: Deployment) -> float:
    """Weights on the fullest accelerator [bytes]: layers of its stage, embeddings and head of the outer stages.

    Assumes: stages of equal layers, the first and last carrying embedding and head; vocabulary split by tensor
    parallelism; routed experts split over all accelerators of a stage.
    Source: own definition.
    """
    model, tp, stages = deployment.model, deployment.tensor_parallel, deployment.pipeline_parallel
    layers = sum(
        group.count
        * layer_weight_bytes(model, group, deployment.weight_dtype, tp, deployment.ranks_per_stage)
        for group in model.layers
    )
    table = model.vocab_size * model.hidden_size * bytes_per_element("bf16") / tp
    tables = table * (1 if model.tied_embeddings else 2)
    extra = model.extra_parameters * bytes_per_element("bf16") / tp
    vision = (model.vision.parameters if model.vision else 0.0) * bytes_per_element("bf16") / tp
    return layers / stages + (tables if stages == 1 else table) + extra + vision


def activation_bytes(deployment: Deployment, num_batched_tokens: int, num_seqs: int) -> float:
    """Largest activations of one iteration [bytes], as an engine's profile run finds them.

    The widest moment of a layer holds the residual twice, the fused gate-up output and its activation; sampling
    holds logits in the model's format and twice in fp32.

    Assumes: buffers of earlier layers are reused; attention workspaces are small.
    Source: memory life of a Llama layer in vLLM; own derivation.
    """
    model, tp = deployment.model, deployment.tensor_parallel
    width = 0.0
    for group in model.layers:
        feed_forward = group.feed_forward
        if feed_forward is None:
            continue
        if feed_forward.kind == "dense":
            width = max(width, 3.0 * feed_forward.intermediate_size / tp)
        else:
            routed = feed_forward.experts_per_token * (
                3.0 * feed_forward.intermediate_size + model.hidden_size
            )
            width = max(
                width, routed / deployment.expert_tensor_parallel / max(1, deployment.expert_parallel) ** 0.5
            )
    tokens = num_batched_tokens / deployment.data_parallel
    layer = tokens * (4.0 * model.hidden_size + width) * bytes_per_element("bf16")
    logits = num_seqs / deployment.data_parallel * model.vocab_size * (bytes_per_element("bf16") + 8.0)
    return max(layer, logits)


def plan_memory(
    deployment: Deployment,
    *,
    num_batched_tokens: int,
    num_seqs: int,
    memory_fraction: float | None = None,
    mean_context_tokens: float = 4096.0,
) -> MemoryPlan:
    """Divide the memory of the fullest accelerator as the engine would, and count the KV tokens that are left.

    `mean_context_tokens` spreads windowed layers and recurrent states, which a sequence owns once, over its tokens.

    Raises: InfeasibleError: weights and reserves do not fit; says by how much.
    Source: vLLM and TensorRT-LLM memory accounting as recorded in the engine records.
    """
    engine, accelerator = deployment.engine, deployment.accelerator
    total = accelerator.memory_bytes
    if total is None:
        raise InfeasibleError(f"{accelerator.id}: its memory size has no source")
    weights = weight_bytes(deployment)
    activations = activation_bytes(deployment, num_batched_tokens, num_seqs)
    ranks = deployment.tensor_parallel * deployment.data_parallel * deployment.pipeline_parallel
    runtime = _CONTEXT_BYTES + (_COMMUNICATOR_BYTES if ranks > 1 else 0.0)
    fraction = memory_fraction if memory_fraction is not None else engine.memory_fraction
    if engine.memory_fraction_of == "total":
        left = total * fraction - weights - activations - runtime
    else:
        left = (total - weights - activations - runtime - _graph_bytes(deployment)) * fraction
    footprint = kv_bytes_per_token(deployment.model, deployment.kv_dtype)
    share = kv_share(deployment.model, deployment.tensor_parallel) / deployment.pipeline_parallel
    state = footprint.state_bytes_per_sequence / deployment.tensor_parallel / deployment.pipeline_parallel
    per_token = _bytes_per_token(footprint, mean_context_tokens) * share
    if left <= 0:
        short = -left / GB
        raise InfeasibleError(
            f"{deployment.model.id} ({deployment.weight_dtype}) does not fit {ranks} × {accelerator.id}",
            why=f"weights {weights / GB:.1f} GB per accelerator and reserves exceed {total * fraction / GB:.1f} GB "
            f"by {short:.1f} GB",
            fix="more accelerators per replica, or a smaller weight format",
        )
    tokens = _tokens_that_fit(left, per_token, state, mean_context_tokens)
    return MemoryPlan(
        total_bytes=total,
        weight_bytes=weights,
        activation_bytes=activations,
        runtime_bytes=runtime,
        kv_bytes=left,
        kv_bytes_per_token=per_token,
        state_bytes_per_sequence=state,
        kv_capacity_tokens=tokens * deployment.data_parallel,
    )


def kv_share(model: Model, tensor_parallel: int) -> float:
    """Part of the model's KV cache that one tensor-parallel rank holds: 1/tp, more where heads are replicated.

    Source: key-value heads are replicated when there are fewer than ranks; latent vectors always are.
    """
    total = shared = 0.0
    for group in model.layers:
        mixer = group.mixer
        if isinstance(mixer, GroupedQueryAttention) and not mixer.shared_kv:
            per_layer = group.count * 2.0 * mixer.num_kv_heads * mixer.head_dim
            total += per_layer
            shared += per_layer / min(tensor_parallel, mixer.num_kv_heads)
        elif isinstance(mixer, LatentAttention):
            per_layer = float(group.count * (mixer.kv_lora_rank + mixer.qk_rope_head_dim))
            total += per_layer
            shared += per_layer
    return shared / total if total else 1.0 / tensor_parallel


def _graph_bytes(deployment: Deployment) -> float:
    """Memory of captured decode graphs [bytes]: a few MiB a layer and graph pool, small against the cache."""
    layers = sum(group.count for group in deployment.model.layers) / deployment.pipeline_parallel
    return layers * 8.0 * MIB if deployment.engine.cuda_graph_sizes else 0.0


def _bytes_per_token(footprint: KvFootprint, mean_context_tokens: float) -> float:
    windowed = sum(
        per_token * min(mean_context_tokens, window) / mean_context_tokens
        for window, per_token in footprint.windowed
    )
    return footprint.full_bytes_per_token + windowed


def _tokens_that_fit(left: float, per_token: float, state: float, mean_context_tokens: float) -> int:
    spread = per_token + state / mean_context_tokens
    if spread <= 0:
        return 2**40  # nothing grows with the sequence
    return math.floor(left / spread)
