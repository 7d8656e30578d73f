"""The roofline of a whole decode step: its work by part, its floor, and the batch at which it turns compute-bound."""

import math
from collections.abc import Mapping

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.schema import (
    GatedDeltaNet,
    GroupedQueryAttention,
    LatentAttention,
    LayerGroup,
    Mamba2,
    Mixer,
    Model,
    MoeFeedForward,
)
from advisor.simulator.operators.state_space import delta_net_shape, mamba2_shape
from advisor.simulator.projections import (
    Projection,
    dense_dtype,
    expert_elements,
    feed_forward_projections,
    mixer_projections,
)
from advisor.simulator.roofline import Work, attention_decode_work, floor_s, total_work

_STATE_FLOP_PER_ELEMENT = 6.0
"""Decay, update and read-out of one element of a recurrent state: a product and a sum each."""
_MANY = 1e15
"""A batch in which every expert gets a token."""
_LONGEST_TOKENS = 1e9
_CACHE_PARTS = ("attention", "state")


def decode_step_work(
    model: Model,
    batch_size: float,
    context_tokens: float,
    *,
    weight_dtype: str = "bf16",
    kv_dtype: str = "bf16",
) -> Mapping[str, Work]:
    """Work of one decode step of `batch_size` sequences by part: weights are read once, every cache by itself.

    Parts: projections, feed_forward, experts, head (weights); attention, state (per sequence).

    Assumes: activations stay on the chip; routing is uniform, so E (1 − (1 − k/E)^batch) of E experts are read.
    Source: own count from the shape.
    """
    parts = {
        name: Work(0.0, 0.0) for name in ("projections", "feed_forward", "experts", "head", *_CACHE_PARTS)
    }
    dense_bytes = bytes_per_element(dense_dtype(model, weight_dtype))
    for group in model.layers:
        for name, matrices in (
            ("projections", mixer_projections(group.mixer, model.hidden_size, 1)),
            ("feed_forward", feed_forward_projections(group.feed_forward, model.hidden_size, 1)),
        ):
            parts[name] += _weights(matrices, batch_size, dense_bytes).times(group.count)
        parts["experts"] += _experts(model, group, batch_size, bytes_per_element(weight_dtype))
        attention = _attention(group.mixer, batch_size, context_tokens, bytes_per_element(kv_dtype))
        parts["attention"] += attention.times(group.count)
        parts["state"] += _state(group.mixer, batch_size).times(group.count)
    table = float(model.vocab_size * model.hidden_size)
    parts["head"] = Work(2.0 * batch_size * table, table * bytes_per_element("bf16"))
    return parts


def decode_floor_s(
    model: Model,
    batch_size: float,
    context_tokens: float,
    peak_flop_per_s: float,
    bandwidth_bytes_per_s: float,
    *,
    weight_dtype: str = "bf16",
    kv_dtype: str = "bf16",
) -> float:
    """Least time of one decode step on a device with this peak and bandwidth, which are sums over a group [s].

    max(Σ flop / peak, Σ bytes / bandwidth)

    Assumes: everything multiplies at the one peak; links and host cost nothing; memory is large enough.
    Source: roofline model, doi:10.1145/1498765.1498785; counts of `decode_step_work`.
    """
    work = decode_step_work(model, batch_size, context_tokens, weight_dtype=weight_dtype, kv_dtype=kv_dtype)
    return floor_s(total_work(work.values()), peak_flop_per_s, bandwidth_bytes_per_s)


def crossover_batch(
    model: Model,
    context_tokens: float,
    peak_flop_per_s: float,
    bandwidth_bytes_per_s: float,
    *,
    weight_dtype: str = "bf16",
    kv_dtype: str = "bf16",
) -> float | None:
    """Batch at which arithmetic overtakes traffic in a decode step [sequences]; None where it never does.

    A sequence brings F flop and K bytes of cache. With weights W the batch is (W / B) / (F / P − K / B); where
    F / P ≤ K / B, every further sequence adds more reading than computing. With experts W grows with the batch,
    and the crossing is searched below the one for all of W.

    Assumes: as `decode_floor_s`; a group of accelerators changes nothing, as P and B grow together.
    Source: own derivation from the roofline.
    """

    def excess_s(batch: float, names: tuple[str, ...] | None = None) -> float:
        work = decode_step_work(model, batch, context_tokens, weight_dtype=weight_dtype, kv_dtype=kv_dtype)
        summed = total_work(work.values())
        moved = total_work(work[name] for name in names).num_bytes if names else summed.num_bytes
        return summed.flop / peak_flop_per_s - moved / bandwidth_bytes_per_s

    per_sequence_s = excess_s(1.0, _CACHE_PARTS)
    if per_sequence_s <= 0.0:
        return None
    weights_s = _all_weight_bytes(model, weight_dtype) / bandwidth_bytes_per_s
    low, high = 0.0, weights_s / per_sequence_s
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if excess_s(middle) < 0.0 else (low, middle)
    return high


def longest_compute_bound_context(
    model: Model, peak_flop_per_s: float, bandwidth_bytes_per_s: float, *, kv_dtype: str = "bf16"
) -> float:
    """Context beyond which no batch makes decode compute-bound [tokens]; infinite where every context can be.

    The context at which a sequence's flop / peak equals its cache bytes / bandwidth.

    Assumes: as `decode_floor_s`.
    Source: own derivation from the roofline.
    """

    def excess_s(context: float) -> float:
        work = decode_step_work(model, 1.0, context, kv_dtype=kv_dtype)
        cache_bytes = total_work(work[name] for name in _CACHE_PARTS).num_bytes
        return total_work(work.values()).flop / peak_flop_per_s - cache_bytes / bandwidth_bytes_per_s

    if excess_s(0.0) <= 0.0:
        return 0.0
    if excess_s(_LONGEST_TOKENS) > 0.0:
        return math.inf
    low, high = 0.0, _LONGEST_TOKENS
    for _ in range(80):
        middle = (low + high) / 2.0
        low, high = (middle, high) if excess_s(middle) > 0.0 else (low, middle)
    return low


def _weights(matrices: tuple[Projection, ...], batch_size: float, dense_bytes: float) -> Work:
    wide = bytes_per_element("bf16")
    return Work(
        2.0 * batch_size * sum(matrix.elements for matrix in matrices),
        sum(matrix.elements * (dense_bytes if matrix.low_bit else wide) for matrix in matrices),
    )


def _experts(model: Model, group: LayerGroup, batch_size: float, element_bytes: float) -> Work:
    feed_forward = group.feed_forward
    if not isinstance(feed_forward, MoeFeedForward):
        return Work(0.0, 0.0)
    chance = feed_forward.experts_per_token / feed_forward.num_experts
    touched = feed_forward.num_experts * (1.0 - (1.0 - chance) ** batch_size)
    elements = group.count * expert_elements(feed_forward, model.hidden_size)
    return Work(
        2.0 * batch_size * feed_forward.experts_per_token * elements, touched * elements * element_bytes
    )


def _attention(mixer: Mixer | None, batch_size: float, context_tokens: float, kv_bytes: float) -> Work:
    if isinstance(mixer, GroupedQueryAttention):
        seen = min(context_tokens, mixer.window_tokens or math.inf, mixer.sparse_top_k or math.inf)
        return attention_decode_work(
            batch_size, seen, mixer.num_heads, mixer.num_kv_heads, mixer.head_dim, kv_bytes=kv_bytes
        )
    if isinstance(mixer, LatentAttention):
        entries = context_tokens / mixer.compress_ratio
        seen = min(entries, mixer.sparse_top_k or math.inf)
        if mixer.window_tokens is not None:
            tail = min(context_tokens, mixer.window_tokens)
            seen = tail + (seen if mixer.compress_ratio > 1 else 0.0)
        latent = mixer.kv_lora_rank + mixer.qk_rope_head_dim
        flop = 2.0 * mixer.num_heads * (latent + mixer.kv_lora_rank) * batch_size * seen
        return Work(flop, batch_size * seen * latent * kv_bytes)
    return Work(0.0, 0.0)


def _state(mixer: Mixer | None, batch_size: float) -> Work:
    """A recurrent state is read and written by every token."""
    if not isinstance(mixer, GatedDeltaNet | Mamba2):
        return Work(0.0, 0.0)
    shape = delta_net_shape(mixer) if isinstance(mixer, GatedDeltaNet) else mamba2_shape(mixer)
    elements = shape.state_bytes / bytes_per_element(mixer.state_dtype)
    return Work(_STATE_FLOP_PER_ELEMENT * elements * batch_size, 2.0 * shape.state_bytes * batch_size)


def _all_weight_bytes(model: Model, weight_dtype: str) -> float:
    work = decode_step_work(model, _MANY, 0.0, weight_dtype=weight_dtype)
    return sum(part.num_bytes for name, part in work.items() if name not in _CACHE_PARTS)
