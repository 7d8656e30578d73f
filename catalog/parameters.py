"""What the shape of a model alone fixes: parameters, KV cache per token, recurrent state."""

from dataclasses import dataclass
from typing import Final

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
)

_INDEXER_SCALE_BYTES: Final = 4.0
_OVERLAPPING_COMPRESS_RATIO: Final = 4


@dataclass(frozen=True, slots=True)
class GroupParameters:
    """Parameters of one of `count` equal layers."""

    count: int
    mixer: float
    feed_forward: float
    feed_forward_active: float
    """The part of `feed_forward` that one token multiplies with."""

    @property
    def total(self) -> float:
        """Parameters of all layers of the group."""
        return self.count * (self.mixer + self.feed_forward)

    @property
    def active(self) -> float:
        """Parameters of all layers of the group that one token multiplies with."""
        return self.count * (self.mixer + self.feed_forward_active)


@dataclass(frozen=True, slots=True)
class ParameterCount:
    """Parameters of a model; `total` is the text tower without MTP layers and vision tower."""

    total: float
    active: float
    """What one token multiplies with: layers with the chosen experts, and the head; not the look-up."""
    embedding: float
    """Input table; it is the head too where embeddings are tied."""
    head: float
    """0 where embeddings are tied."""
    extra: float
    mtp: float
    vision: float
    groups: tuple[GroupParameters, ...]
    """One per layer group of the model, in its order."""


@dataclass(frozen=True, slots=True)
class KvFootprint:
    """Cache that sequences take on the whole deployment; tensor parallelism divides or repeats it."""

    full_bytes_per_token: float
    """Layers that keep every token."""
    windowed: tuple[tuple[int, float], ...]
    """(window_tokens, bytes_per_token) of layers that keep the latest tokens only, by ascending window."""
    state_bytes_per_sequence: float
    """Recurrent and convolution state, keys and values of an encoder: the same at every context."""

    def bytes_of(self, context_tokens: int) -> float:
        """Cache of one sequence with this context [bytes]."""
        windowed = sum(min(context_tokens, window) * per_token for window, per_token in self.windowed)
        return self.full_bytes_per_token * context_tokens + windowed + self.state_bytes_per_sequence


def parameter_count(model: Model) -> ParameterCount:
    """Parameters of a model from its shape.

    total = embedding + head + extra + Σ count · (mixer + feed-forward): all matrices and convolutions;
    norms and biases are left out.

    Assumes: a multi-token-prediction layer is an attention layer of the model with its last feed-forward
    part, and a projection from twice the hidden size to the hidden size.
    Error: below 1.5 % for dense, 2.5 % for other models of published counts (tests/catalog/test_models.py).
    Source: shapes as published; matrices of each layer type as in the transformers library.
    """
    hidden = model.hidden_size
    groups = tuple(_group(group, hidden) for group in model.layers)
    embedding = float(model.vocab_size * hidden)
    head = 0.0 if model.tied_embeddings else embedding
    return ParameterCount(
        total=embedding + head + model.extra_parameters + sum(group.total for group in groups),
        active=embedding + sum(group.active for group in groups),
        embedding=embedding,
        head=head,
        extra=model.extra_parameters,
        mtp=model.mtp_layers * _mtp_layer(model),
        vision=model.vision.parameters if model.vision else 0.0,
        groups=groups,
    )


def kv_bytes_per_token(model: Model, kv_dtype: str = "bf16") -> KvFootprint:
    """Cache of a sequence by what it grows with [bytes per token, bytes per sequence].

    Per token and layer: num_kv_heads · (head_dim + v_head_dim) values, or kv_lora_rank + qk_rope_head_dim
    values with latent attention; an indexer adds its own key in fp8 with one fp32 scale. Compressed layers
    keep one entry per compress_ratio tokens beside their window.

    Assumes: layers that share the keys and values of another keep none.
    Raises: KeyError: the format is not known.
    Source: vLLM 0.20.2, vllm/v1/kv_cache_interface.py (what each layer type stores).
    """
    full = 0.0
    windows: dict[int, float] = {}
    for group in model.layers:
        mixer = group.mixer
        if not isinstance(mixer, GroupedQueryAttention | LatentAttention):
            continue
        entry_bytes = group.count * _cache_entry_bytes(mixer, bytes_per_element(kv_dtype))
        compress_ratio = mixer.compress_ratio if isinstance(mixer, LatentAttention) else 1
        if mixer.window_tokens is not None:
            windows[mixer.window_tokens] = windows.get(mixer.window_tokens, 0.0) + entry_bytes
        if mixer.window_tokens is None or compress_ratio > 1:
            indexer_bytes = group.count * _indexer_bytes(mixer)
            full += (entry_bytes + indexer_bytes) / compress_ratio
    return KvFootprint(full, tuple(sorted(windows.items())), state_bytes_per_sequence(model, kv_dtype))


def state_bytes_per_sequence(model: Model, kv_dtype: str = "bf16") -> float:
    """State that a sequence holds whatever its context [bytes].

    Gated DeltaNet: value heads · key_head_dim · value_head_dim; Mamba-2: heads · head_dim · state_dim; both
    with the last conv_kernel − 1 inputs of their convolution. Cross-attention: the encoder's keys and values.

    Assumes: convolution inputs are kept in bf16.
    Raises: KeyError: a format is not known.
    Source: vLLM 0.20.2, model_executor/layers/mamba/mamba_utils.py (state shapes).
    """
    return sum(
        group.count * _mixer_state_bytes(group.mixer, bytes_per_element(kv_dtype)) for group in model.layers
    )


def _mixer_state_bytes(mixer: Mixer | None, kv_element_bytes: float) -> float:
    if isinstance(mixer, GatedDeltaNet):
        state = mixer.num_value_heads * mixer.key_head_dim * mixer.value_head_dim
        inputs = (mixer.conv_kernel - 1) * _gdn_convolution_channels(mixer)
        return state * bytes_per_element(mixer.state_dtype) + inputs * bytes_per_element("bf16")
    if isinstance(mixer, Mamba2):
        state = mixer.num_heads * mixer.head_dim * mixer.state_dim
        inputs = (mixer.conv_kernel - 1) * _mamba_convolution_channels(mixer)
        return state * bytes_per_element(mixer.state_dtype) + inputs * bytes_per_element("bf16")
    if isinstance(mixer, GroupedQueryAttention) and mixer.cross_attention_tokens:
        return mixer.cross_attention_tokens * _gqa_values_per_token(mixer) * kv_element_bytes
    return 0.0


def _cache_entry_bytes(mixer: GroupedQueryAttention | LatentAttention, element_bytes: float) -> float:
    if isinstance(mixer, LatentAttention):
        return (mixer.kv_lora_rank + mixer.qk_rope_head_dim) * element_bytes
    if mixer.shared_kv or mixer.cross_attention_tokens or not mixer.causal:
        return 0.0
    return _gqa_values_per_token(mixer) * element_bytes


def _indexer_bytes(mixer: GroupedQueryAttention | LatentAttention) -> float:
    """One key per token for all heads of the indexer: 132 bytes for 128 values in vLLM and SGLang."""
    if not mixer.indexer_num_heads:
        return 0.0
    return mixer.indexer_head_dim * bytes_per_element("fp8") + _INDEXER_SCALE_BYTES


def _gqa_values_per_token(mixer: GroupedQueryAttention) -> int:
    return mixer.num_kv_heads * (mixer.head_dim + (mixer.v_head_dim or mixer.head_dim))


def _gdn_convolution_channels(mixer: GatedDeltaNet) -> int:
    keys = mixer.num_key_heads * mixer.key_head_dim
    return 2 * keys + mixer.num_value_heads * mixer.value_head_dim


def _mamba_convolution_channels(mixer: Mamba2) -> int:
    return mixer.num_heads * mixer.head_dim + 2 * mixer.num_groups * mixer.state_dim


def _group(group: LayerGroup, hidden: int) -> GroupParameters:
    total, active = _feed_forward(group.feed_forward, hidden)
    return GroupParameters(group.count, _mixer(group.mixer, hidden), total, active)


def _mtp_layer(model: Model) -> float:
    attention = [
        g.mixer for g in model.layers if isinstance(g.mixer, GroupedQueryAttention | LatentAttention)
    ]
    feed_forward = [g.feed_forward for g in model.layers if g.feed_forward]
    mixer = _mixer(attention[-1], model.hidden_size) if attention else 0.0
    total = _feed_forward(feed_forward[-1], model.hidden_size)[0] if feed_forward else 0.0
    return mixer + total + 2.0 * model.hidden_size**2


def _feed_forward(feed_forward: FeedForward | None, hidden: int) -> tuple[float, float]:
    """Parameters, and those that one token multiplies with."""
    if feed_forward is None:
        return 0.0, 0.0
    num_matrices = 3 if feed_forward.gated else 2
    if isinstance(feed_forward, DenseFeedForward):
        parameters = float(num_matrices * hidden * feed_forward.intermediate_size)
        return parameters, parameters
    width = feed_forward.latent_size or hidden
    expert = num_matrices * width * feed_forward.intermediate_size
    always = hidden * feed_forward.num_experts + num_matrices * hidden * feed_forward.shared_intermediate_size
    if feed_forward.latent_size:
        always += 2 * hidden * feed_forward.latent_size
    return (
        float(always + feed_forward.num_experts * expert),
        float(always + feed_forward.experts_per_token * expert),
    )


def _mixer(mixer: Mixer | None, hidden: int) -> float:
    if isinstance(mixer, GroupedQueryAttention):
        return _gqa(mixer, hidden)
    if isinstance(mixer, LatentAttention):
        return _latent_only(mixer, hidden) if mixer.latent_only else _mla(mixer, hidden)
    if isinstance(mixer, GatedDeltaNet):
        return _gdn(mixer, hidden)
    if isinstance(mixer, Mamba2):
        return _mamba2(mixer, hidden)
    return 0.0


def _gqa(mixer: GroupedQueryAttention, hidden: int) -> float:
    v_head_dim = mixer.v_head_dim or mixer.head_dim
    output = mixer.num_heads * v_head_dim
    columns = mixer.num_heads * mixer.head_dim + (output if mixer.output_gate else 0)
    if not mixer.shared_kv:
        columns += mixer.num_kv_heads * (mixer.head_dim + (0 if mixer.keys_are_values else v_head_dim))
    indexer = (mixer.indexer_num_heads + 1) * mixer.indexer_head_dim if mixer.indexer_num_heads else 0
    return float(hidden * (columns + output + indexer))


def _mla(mixer: LatentAttention, hidden: int) -> float:
    queries = mixer.num_heads * (mixer.qk_nope_head_dim + mixer.qk_rope_head_dim)
    up = mixer.kv_lora_rank * mixer.num_heads * (mixer.qk_nope_head_dim + mixer.v_head_dim)
    down = hidden * (mixer.kv_lora_rank + mixer.qk_rope_head_dim)
    output = mixer.num_heads * mixer.v_head_dim * hidden * (2 if mixer.output_gate else 1)
    return _low_rank(hidden, mixer.q_lora_rank, queries) + up + down + output + _indexer(mixer, hidden)


def _latent_only(mixer: LatentAttention, hidden: int) -> float:
    """One head of keys that are the values; compressors of two matrices, twice as wide where they overlap."""
    latent = mixer.kv_lora_rank + mixer.qk_rope_head_dim
    rank, groups = mixer.output_lora_rank or 0, mixer.output_groups or 1
    output = mixer.num_heads * mixer.v_head_dim
    projected = output * rank + groups * rank * hidden if rank else output * hidden
    overlap = 2 if mixer.compress_ratio == _OVERLAPPING_COMPRESS_RATIO else 1
    compressed = latent + (mixer.indexer_head_dim if mixer.indexer_num_heads else 0)
    compressor = 2 * overlap * hidden * compressed if mixer.compress_ratio > 1 else 0
    queries = _low_rank(hidden, mixer.q_lora_rank, mixer.num_heads * latent)
    return queries + hidden * latent + projected + compressor + _indexer(mixer, hidden)


def _low_rank(hidden: int, rank: int | None, columns: int) -> float:
    return float(hidden * rank + rank * columns if rank else hidden * columns)


def _indexer(mixer: LatentAttention, hidden: int) -> float:
    if not mixer.indexer_num_heads:
        return 0.0
    queries = (mixer.q_lora_rank or hidden) * mixer.indexer_num_heads * mixer.indexer_head_dim
    keys = 0 if mixer.latent_only else hidden * mixer.indexer_head_dim
    return float(queries + keys + hidden * mixer.indexer_num_heads)


def _mamba2(mixer: Mamba2, hidden: int) -> float:
    inner = mixer.num_heads * mixer.head_dim
    channels = _mamba_convolution_channels(mixer)
    return float(hidden * (2 * inner + channels + mixer.num_heads) + channels * mixer.conv_kernel)


def _gdn(mixer: GatedDeltaNet, hidden: int) -> float:
    values = mixer.num_value_heads * mixer.value_head_dim
    channels = _gdn_convolution_channels(mixer)
    common = hidden * channels + channels * mixer.conv_kernel + values * hidden
    gate = _low_rank(hidden, mixer.output_gate_rank, values)
    channels_of_decay = mixer.num_value_heads * (mixer.key_head_dim if mixer.channel_gate_rank else 1)
    decay = _low_rank(hidden, mixer.channel_gate_rank, channels_of_decay)
    return common + gate + decay + hidden * mixer.num_value_heads
