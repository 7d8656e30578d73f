"""The weight matrices of a layer as one accelerator holds them: the common ground of memory and time."""

from dataclasses import dataclass

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.schema import (
    DenseFeedForward,
    FeedForward,
    GatedDeltaNet,
    GroupedQueryAttention,
    LatentAttention,
    LayerGroup,
    Mamba2,
    Mixer,
    Model,
    MoeFeedForward,
)

_FOUR_BIT = ("nvfp4", "mxfp4", "int4")
_SIXTEEN_BIT = ("bf16", "fp16")


@dataclass(frozen=True, slots=True)
class Projection:
    """One dense matrix y[tokens, columns] = x[tokens, depth] · W, local to one accelerator."""

    name: str
    columns: int
    depth: int
    low_bit: bool = True
    """Stored in the deployment's weight format; otherwise in bf16."""
    prefill_only: bool = False
    """Decode uses an absorbed form instead (up-projection of latent attention)."""

    @property
    def elements(self) -> int:
        return self.columns * self.depth


def mixer_projections(mixer: Mixer | None, hidden_size: int, tensor_parallel: int) -> tuple[Projection, ...]:
    """Projections of a mixer after tensor parallelism, fused as the engines fuse them.

    Query, key and value are one matrix; key-value heads are replicated where there are fewer than ranks; the
    down-projections of latent attention are replicated on every rank.

    Source: Megatron-LM column/row split (arXiv:1909.08053); DeepSeek-V2 (arXiv:2405.04434) for latent attention.
    """
    tp = tensor_parallel
    if mixer is None:
        return ()
    if isinstance(mixer, GroupedQueryAttention):
        heads = mixer.num_heads // tp
        kv_heads = 0 if mixer.shared_kv else max(1, mixer.num_kv_heads // tp)
        query = heads * (2 if mixer.output_gate else 1)
        return (
            Projection("qkv", (query + 2 * kv_heads) * mixer.head_dim, hidden_size),
            Projection("attention_out", hidden_size, heads * mixer.head_dim),
        )
    if isinstance(mixer, LatentAttention):
        return _latent_projections(mixer, hidden_size, tp)
    if isinstance(mixer, GatedDeltaNet):
        key, value = mixer.num_key_heads * mixer.key_head_dim, mixer.num_value_heads * mixer.value_head_dim
        return (
            Projection(
                "linear_attention_in", (2 * key + 2 * value + 2 * mixer.num_value_heads) // tp, hidden_size
            ),
            Projection("linear_attention_out", hidden_size, value // tp),
        )
    return _mamba_projections(mixer, hidden_size, tp)


def _latent_projections(mixer: LatentAttention, hidden_size: int, tp: int) -> tuple[Projection, ...]:
    heads = mixer.num_heads // tp
    latent = mixer.kv_lora_rank + mixer.qk_rope_head_dim
    query_columns = heads * (mixer.qk_nope_head_dim + mixer.qk_rope_head_dim)
    if mixer.q_lora_rank:
        down = (Projection("qkv_down", mixer.q_lora_rank + latent, hidden_size),)
        up = (Projection("query_up", query_columns, mixer.q_lora_rank),)
    else:
        down = (Projection("kv_down", latent, hidden_size),)
        up = (Projection("query", query_columns, hidden_size),)
    key_value = Projection(
        "kv_up", heads * (mixer.qk_nope_head_dim + mixer.v_head_dim), mixer.kv_lora_rank, prefill_only=True
    )
    indexer: tuple[Projection, ...] = ()
    if mixer.sparse_top_k and mixer.indexer_num_heads:
        depth = mixer.q_lora_rank or hidden_size
        indexer = (
            Projection("indexer", mixer.indexer_num_heads * mixer.indexer_head_dim, depth),
            Projection("indexer_key", mixer.indexer_head_dim, hidden_size),
            Projection("indexer_weights", mixer.indexer_num_heads, hidden_size, low_bit=False),
        )
    return (
        *down,
        *up,
        key_value,
        *indexer,
        Projection("attention_out", hidden_size, heads * mixer.v_head_dim),
    )


def _mamba_projections(mixer: Mamba2, hidden_size: int, tp: int) -> tuple[Projection, ...]:
    inner = mixer.num_heads * mixer.head_dim
    columns = 2 * inner + 2 * mixer.num_groups * mixer.state_dim + mixer.num_heads
    return (
        Projection("mamba_in", columns // tp, hidden_size),
        Projection("mamba_out", hidden_size, inner // tp),
    )


def feed_forward_projections(
    feed_forward: FeedForward | None, hidden_size: int, tensor_parallel: int
) -> tuple[Projection, ...]:
    """Dense matrices of a feed-forward part after tensor parallelism: gate and up fused; for a mixture of experts
    the router and the shared experts (routed experts are priced as a grouped multiplication).

    Source: SwiGLU (arXiv:2002.05202); own definition.
    """
    if feed_forward is None:
        return ()
    if isinstance(feed_forward, DenseFeedForward):
        return _gated_pair(
            "feed_forward", feed_forward.intermediate_size, feed_forward.gated, hidden_size, tensor_parallel
        )
    router = Projection("router", feed_forward.num_experts, hidden_size, low_bit=False)
    latent: tuple[Projection, ...] = ()
    if feed_forward.latent_size:
        latent = (
            Projection("latent_down", feed_forward.latent_size, hidden_size),
            Projection("latent_up", hidden_size, feed_forward.latent_size),
        )
    if not feed_forward.shared_intermediate_size:
        return (router, *latent)
    shared = _gated_pair(
        "shared_expert",
        feed_forward.shared_intermediate_size,
        feed_forward.gated,
        hidden_size,
        tensor_parallel,
    )
    return (router, *latent, *shared)


def _gated_pair(
    name: str, intermediate: int, gated: bool, hidden_size: int, tp: int
) -> tuple[Projection, ...]:
    local = max(1, intermediate // tp)
    return (
        Projection(f"{name}_in", local * (2 if gated else 1), hidden_size),
        Projection(f"{name}_out", hidden_size, local),
    )


def expert_elements(feed_forward: MoeFeedForward, hidden_size: int) -> int:
    """Weights of one routed expert [elements]."""
    width = feed_forward.latent_size or hidden_size
    return (3 if feed_forward.gated else 2) * feed_forward.intermediate_size * width


def dense_dtype(model: Model, weight_dtype: str) -> str:
    """Format of the dense matrices outside the routed experts.

    Published 4-bit checkpoints of mixture-of-experts models quantise the experts and leave attention in 16 bits,
    or in the format that the model's record names (DeepSeek V4: fp8 beside mxfp4 experts).

    Source: nvidia/DeepSeek-R1-FP4, moonshotai/Kimi-K2.5 and openai/gpt-oss-120b quantization_config.
    """
    mixture = any(isinstance(group.feed_forward, MoeFeedForward) for group in model.layers)
    if not mixture or weight_dtype in _SIXTEEN_BIT:
        return weight_dtype
    if weight_dtype in _FOUR_BIT or model.quantized_parts == "experts":
        return model.weights_elsewhere
    return weight_dtype


def layer_weight_bytes(
    model: Model, group: LayerGroup, weight_dtype: str, tensor_parallel: int, expert_ranks: float
) -> float:
    """Weights of one layer on one accelerator [bytes]; `expert_ranks` accelerators share the routed experts.

    Assumes: norms and biases are negligible; experts divide evenly.
    Source: own definition, from the projections.
    """
    dense = bytes_per_element(dense_dtype(model, weight_dtype))
    total = 0.0
    projections = mixer_projections(group.mixer, model.hidden_size, tensor_parallel)
    for projection in projections + feed_forward_projections(
        group.feed_forward, model.hidden_size, tensor_parallel
    ):
        total += projection.elements * (dense if projection.low_bit else bytes_per_element("bf16"))
    if isinstance(group.feed_forward, MoeFeedForward):
        experts = group.feed_forward.num_experts * expert_elements(group.feed_forward, model.hidden_size)
        total += experts * bytes_per_element(weight_dtype) / expert_ranks
    return total
