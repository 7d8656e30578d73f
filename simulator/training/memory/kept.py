"""What the backward pass finds again of one layer's forward pass, per token, by kind of layer and style of kernels.

Bytes per token split by what divides them: `residual` by tensor parallelism only with sequence parallelism, `sharded`
by tensor parallelism always, `key_value` up to the key-value heads, `expert` by expert and tensor parallelism.
"""

from dataclasses import dataclass
from typing import Final

from advisor.catalog.errors import InfeasibleError
from advisor.catalog.schema import (
    DenseFeedForward,
    FeedForward,
    GatedDeltaNet,
    GroupedQueryAttention,
    LatentAttention,
    LayerGroup,
    Mamba2,
    Mixer,
)
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.memory.adapters import (
    adapter_input_bytes,
    adapts_every_matrix,
    quantized_input_bytes,
)
from advisor.simulator.training.memory.formats import Formats

_BF16: Final = 2.0
_FP32: Final = 4.0
_SCORE_BYTES: Final = 5.0
"""Unfused attention keeps per score: softmax and its dropout output in 16 bits, and the mask (2205.05198, eq. 1)."""
_LOW_BIT: Final = ("fp8", "mxfp8", "nvfp4")
_DELTA_CHUNK: Final = 64
"""Tokens of a chunk of the delta rule, whose triangular matrix is kept."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Bytes per token of one layer."""

    residual: float = 0.0
    sharded: float = 0.0
    key_value: float = 0.0
    expert: float = 0.0
    """Inside routed experts and their exchange, for all experts of a token."""
    exchanged: float = 0.0
    """Of `expert`, the copies at full width that expert tensor parallelism gathers instead of dividing."""

    def __add__(self, other: "Kept") -> "Kept":
        return Kept(
            self.residual + other.residual,
            self.sharded + other.sharded,
            self.key_value + other.key_value,
            self.expert + other.expert,
            self.exchanged + other.exchanged,
        )


@dataclass(frozen=True, slots=True)
class _Style:
    """How a layer's tensors are kept."""

    fused: bool
    compiled: bool
    frozen: bool
    low_bit: bool
    norm: float
    """That a norm keeps beside its output, per hidden value."""
    autocast: bool
    """Weights and residual are fp32; each matrix casts its own copy of a norm's output."""
    adapts_last: bool
    """The last matrix of a feed-forward part learns, or an adapter on it does."""
    dropout: bool
    repeats_key_value: bool
    splits_one_projection: bool

    @property
    def input_bytes(self) -> float:
        """Of a tensor kept only as the input of a matrix that learns; 0 where none does or it is computed again."""
        if self.frozen or self.compiled:
            return 0.0
        return 1.0 if self.low_bit else _BF16


def kept_per_token(group: LayerGroup, job: TrainingJob, formats: Formats) -> Kept:
    """Tensors that one layer keeps for its backward pass without recomputation [bytes per token].

    A fused GPT layer keeps 34 bytes per hidden value and token: 11 attention, 19 feed-forward, 4 norms; scores come on
    top where attention stores them. Gated feed-forward parts keep both halves and their product.

    Assumes: activations are 16-bit, inputs of fp8 matrices 8-bit; routing is balanced; compiled layers compute the
    inputs of adapters again.
    Source: Korthikanti et al. (arXiv:2205.05198) section 4.1; for eager PyTorch the tensors that autograd saves
    (derivatives.yaml); for compiled layers the inputs of matrix multiplications that the min-cut partitioner keeps.
    """
    software = formats.software
    compiled = software.activations == "compiled" or (
        software.activations == "eager" and "compile" in job.features
    )
    style = _Style(
        fused=software.activations == "fused",
        compiled=compiled,
        frozen=formats.frozen,
        low_bit=job.compute_dtype in _LOW_BIT and software.activations == "fused",
        norm=_norm_bytes(group, formats, compiled=compiled),
        autocast=formats.autocast,
        adapts_last=not formats.frozen or adapts_every_matrix(job, software),
        dropout="dropout" in job.features,
        repeats_key_value=software.repeats_key_value and not compiled,
        splits_one_projection=software.splits_one_projection and not compiled,
    )
    hidden = job.model.hidden_size
    parts = Kept()
    if group.mixer is not None:
        parts += _norm(hidden, 3, style) + _mixer(group.mixer, style, job)
    if group.feed_forward is not None:
        parts += _norm(hidden, 2, style) + _feed_forward(group.feed_forward, hidden, style)
    if formats.frozen and not compiled:
        parts += Kept(sharded=adapter_input_bytes(group, job, formats))
        parts += Kept(sharded=quantized_input_bytes(group, job, formats))
    return parts


def _norm_bytes(group: LayerGroup, formats: Formats, *, compiled: bool) -> float:
    """What a norm keeps beside its output, per hidden value [bytes].

    Models whose feed-forward part has no gate (GPT, MPT, StableLM alpha) come with LayerNorm, one kernel that keeps its
    16-bit input; RMS norms written in Python keep an fp32 copy, and one more where their weight learns.
    """
    if compiled:
        # The residual itself, from which the norm is computed again.
        return _FP32 if formats.autocast else _BF16
    if formats.autocast:
        return _FP32
    own = formats.software.frozen_norm_bytes if formats.frozen else formats.software.norm_bytes
    feed_forward = group.feed_forward
    return min(own, _BF16) if isinstance(feed_forward, DenseFeedForward) and not feed_forward.gated else own


def _norm(hidden: int, num_matrices: int, style: _Style) -> Kept:
    """A norm, its output as the input of the next matrices, and the dropout mask of the residual behind it."""
    copies = num_matrices if style.autocast and not style.compiled else 1
    own = style.norm + copies * style.input_bytes
    return Kept(residual=hidden * (own + (1.0 if style.dropout else 0.0)))


def _mixer(mixer: Mixer, style: _Style, job: TrainingJob) -> Kept:
    if isinstance(mixer, GroupedQueryAttention):
        return _gqa(mixer, style, job)
    if isinstance(mixer, LatentAttention):
        return _mla(mixer, style)
    if isinstance(mixer, GatedDeltaNet):
        return _gdn(mixer, style)
    if isinstance(mixer, Mamba2):
        return _mamba(mixer, style)
    raise InfeasibleError(f"training of {mixer.kind} layers is not modelled")


def _gqa(mixer: GroupedQueryAttention, style: _Style, job: TrainingJob) -> Kept:
    query = mixer.num_heads * mixer.head_dim
    output = mixer.num_heads * (mixer.v_head_dim or mixer.head_dim)
    # Compiled, the transposed output is written out for the matrix behind it.
    outputs = output * (2 if style.compiled and not style.frozen else 1)
    kept = _BF16 * (query + outputs) + _FP32 * mixer.num_heads
    if mixer.output_gate:
        kept += _BF16 * 2 * output
    if style.low_bit:
        kept += 1.0 * output
    keys = mixer.num_kv_heads * mixer.head_dim
    values = mixer.num_kv_heads * (mixer.v_head_dim or mixer.head_dim)
    if style.splits_one_projection and mixer.num_kv_heads == mixer.num_heads:
        kept += _BF16 * query
        keys *= 2
    elif style.repeats_key_value:
        kept += _BF16 * (query + output)
        keys = values = 0
    if "unfused_attention" in job.features:
        kept += _SCORE_BYTES * mixer.num_heads * job.sequence_tokens
    return Kept(sharded=kept, key_value=_BF16 * (keys + values))


def _mla(mixer: LatentAttention, style: _Style) -> Kept:
    """Latents before and after their norms; queries, keys, values, the up-projection behind them, and the output."""
    down = (mixer.q_lora_rank or 0) + mixer.kv_lora_rank
    heads, nope, rope, value = (
        mixer.num_heads,
        mixer.qk_nope_head_dim,
        mixer.qk_rope_head_dim,
        mixer.v_head_dim,
    )
    if mixer.latent_only:
        query = heads * (mixer.kv_lora_rank + rope)
        return Kept(
            residual=_BF16 * (2 * down + rope),
            sharded=_BF16 * (query + heads * value) + _FP32 * heads,
        )
    attention = heads * (2 * (nope + rope) + (nope + value) + value)
    latent = down if style.compiled else 2 * down
    return Kept(residual=_BF16 * (latent + rope), sharded=_BF16 * attention + _FP32 * heads)


def _gdn(mixer: GatedDeltaNet, style: _Style) -> Kept:
    """Projections before and after the convolution, the output before and after its gated norm, chunk matrices."""
    keys = mixer.num_key_heads * mixer.key_head_dim
    values = mixer.num_value_heads * mixer.value_head_dim
    channels = 2 * keys + values
    outputs = values * (1 if style.compiled else 2)
    chunk = mixer.num_value_heads * (_DELTA_CHUNK + _FP32)
    return Kept(sharded=_BF16 * (2 * channels + values + outputs + chunk))


def _mamba(mixer: Mamba2, style: _Style) -> Kept:
    """The input projection, from which the fused scan computes again, and the output before and after its norm."""
    inner = mixer.num_heads * mixer.head_dim
    projected = 2 * inner + 2 * mixer.num_groups * mixer.state_dim + mixer.num_heads
    return Kept(sharded=_BF16 * (projected + inner + (0 if style.compiled else inner)))


def _activation(width: int, gated: bool, style: _Style) -> float:
    """Inside a feed-forward part [bytes per token]: before the activation function, in between, and its result."""
    before = _BF16 * (2 if gated else 1)
    between = _BF16 if gated and not (style.fused or style.compiled) else 0.0
    # torch.compile's partitioner keeps the input of the last matrix too, though it could compute it again.
    after = _BF16 if style.compiled and style.adapts_last else style.input_bytes
    return width * (before + between + after)


def _feed_forward(feed_forward: FeedForward, hidden: int, style: _Style) -> Kept:
    if isinstance(feed_forward, DenseFeedForward):
        return Kept(sharded=_activation(feed_forward.intermediate_size, feed_forward.gated, style))
    width = feed_forward.latent_size or hidden
    per_expert = _activation(feed_forward.intermediate_size, feed_forward.gated, style)
    # Routed copies of the token in front of the experts, and their outputs, whose weighting has a gradient.
    exchanged = width * (style.input_bytes + _BF16)
    shared = _activation(feed_forward.shared_intermediate_size, feed_forward.gated, style)
    router = 2 * _FP32 * feed_forward.num_experts
    latent = _BF16 * (feed_forward.latent_size or 0)
    return Kept(
        residual=router + latent,
        sharded=shared,
        expert=feed_forward.experts_per_token * per_expert,
        exchanged=feed_forward.experts_per_token * exchanged,
    )


def selected_per_token(group: LayerGroup, job: TrainingJob, formats: Formats, kept: Kept) -> Kept:
    """What a layer keeps under selective recomputation [bytes per token].

    Megatron computes attention's core again: its scores go, flash attention keeps none anyway. torchtitan keeps the
    layer's input, attention's output and every second matrix multiplication: queries, values, the first and the last
    matrix of the feed-forward part.

    Source: Korthikanti et al. (arXiv:2205.05198) section 5; torchtitan distributed/activation_checkpoint.py.
    """
    if formats.software.family != "torchtitan":
        if "unfused_attention" not in job.features or not isinstance(group.mixer, GroupedQueryAttention):
            return kept
        scores = _SCORE_BYTES * group.mixer.num_heads * job.sequence_tokens
        return Kept(kept.residual, kept.sharded - scores, kept.key_value, kept.expert, kept.exchanged)
    hidden, mixer, feed_forward = job.model.hidden_size, group.mixer, group.feed_forward
    residual, sharded, key_value = _BF16 * hidden, 0.0, 0.0
    expert, exchanged = 0.0, 0.0
    if isinstance(mixer, GroupedQueryAttention):
        sharded += _BF16 * 2 * mixer.num_heads * mixer.head_dim + _FP32 * mixer.num_heads
        key_value += _BF16 * mixer.num_kv_heads * (mixer.v_head_dim or mixer.head_dim)
    else:
        sharded += kept.sharded / 2
    if isinstance(feed_forward, DenseFeedForward):
        sharded += _BF16 * feed_forward.intermediate_size
        residual += _BF16 * hidden
    elif feed_forward is not None:
        expert, exchanged = kept.expert / 2, kept.exchanged / 2
        residual += _BF16 * hidden
    return Kept(residual, sharded, key_value, expert, exchanged)
