"""Flop and bytes of a whole decode step and of a prompt by part, counted from the operators."""

from collections.abc import Mapping
from typing import Final

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.schema import Model
from advisor.simulator.graph.model import dense_dtype, layers_in
from advisor.simulator.graph.operator import Attention, Layer
from advisor.simulator.graph.weights import Projection
from advisor.simulator.operators.attention_kernels import attended_pairs
from advisor.simulator.roofline import Work, matmul_work

CACHE_PARTS: Final = ("attention", "state")
_PARTS: Final = ("projections", "feed_forward", "experts", "head", *CACHE_PARTS)
_STATE_FLOP_PER_ELEMENT: Final = 6.0
"""Decay, update and read-out of one element of a recurrent state: a product and a sum each."""
_WIDE: Final = 2.0


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
    parts = {name: Work(0.0, 0.0) for name in _PARTS}
    dense_bytes, kv_bytes = bytes_per_element(dense_dtype(model, weight_dtype)), bytes_per_element(kv_dtype)
    for layer in layers_in(model, decode=True):
        for name, matrices in _matrices(layer, decode=True):
            flop = 2.0 * batch_size * sum(matrix.elements for matrix in matrices)
            stored = sum(matrix.elements * (dense_bytes if matrix.low_bit else _WIDE) for matrix in matrices)
            parts[name] += Work(flop, stored).times(layer.count)
        parts["experts"] += _experts(layer, batch_size, bytes_per_element(weight_dtype))
        if layer.attention is not None:
            keys = batch_size * layer.attention.seen_tokens(context_tokens)
            read = Work(
                layer.attention.decode_pair_flop * keys, layer.attention.cached_values * keys * kv_bytes
            )
            parts["attention"] += read.times(layer.count)
        parts["state"] += _state(layer, batch_size, 2.0 * batch_size)
    table = float(model.vocab_size * model.hidden_size)
    parts["head"] = Work(2.0 * batch_size * table, table * _WIDE)
    return parts


def prefill_work(
    model: Model, num_tokens: int, *, weight_dtype: str = "bf16", kv_dtype: str = "bf16"
) -> Mapping[str, Work]:
    """Work of the prompt of one sequence by part, as `decode_step_work` names them; the head runs on one token.

    Assumes: every matrix, its input and its result move once; routing is uniform; a state stays on the chip during a
    prompt and is written once.
    Source: own count from the shape.
    """
    parts = {name: Work(0.0, 0.0) for name in _PARTS}
    dense_bytes, kv_bytes = bytes_per_element(dense_dtype(model, weight_dtype)), bytes_per_element(kv_dtype)
    for layer in layers_in(model, decode=False):
        for name, matrices in _matrices(layer, decode=False):
            for matrix in matrices:
                stored = dense_bytes if matrix.low_bit else _WIDE
                one = matmul_work(num_tokens, matrix.columns, matrix.depth, weight_bytes=stored)
                parts[name] += one.times(layer.count)
        parts["experts"] += _experts(layer, num_tokens, bytes_per_element(weight_dtype))
        if layer.experts is not None:
            widths = 2.0 * layer.experts.hidden_size + 3.0 * layer.experts.intermediate_size
            moved = _WIDE * num_tokens * layer.experts.per_token * widths
            parts["experts"] += Work(0.0, moved).times(layer.count)
        if layer.attention is not None and layer.attention.in_prompts:
            parts["attention"] += _prompt_attention(layer.attention, num_tokens, kv_bytes).times(layer.count)
        parts["state"] += _state(layer, num_tokens, 1.0)
    table = float(model.vocab_size * model.hidden_size)
    parts["head"] = Work(2.0 * table, table * _WIDE)
    return parts


def _matrices(layer: Layer, *, decode: bool) -> tuple[tuple[str, tuple[Projection, ...]], ...]:
    return (
        ("projections", layer.mixer.projections(1, decode=decode) if layer.mixer else ()),
        ("feed_forward", layer.feed_forward.local(1) if layer.feed_forward else ()),
    )


def _experts(layer: Layer, num_tokens: float, element_bytes: float) -> Work:
    experts = layer.experts
    if experts is None:
        return Work(0.0, 0.0)
    elements = layer.count * experts.elements
    flop = 2.0 * num_tokens * experts.per_token * elements
    return Work(flop, experts.touched(num_tokens) * elements * element_bytes)


def _prompt_attention(attention: Attention, num_tokens: int, kv_bytes: float) -> Work:
    """Queries and outputs move once, new keys and values once."""
    seen = min(filter(None, (attention.window_tokens, attention.top_k)), default=None)
    pairs = float(attended_pairs(num_tokens, 0.0, seen)) if attention.causal else float(num_tokens) ** 2
    width = attention.key_dim + attention.value_dim
    moved = num_tokens * width * (attention.num_heads * _WIDE + attention.num_kv_heads * kv_bytes)
    return Work(attention.prefill_pair_flop * pairs, moved)


def _state(layer: Layer, num_tokens: float, accesses: float) -> Work:
    """A recurrent state is updated by every token, and moves so many times."""
    shape = layer.mixer.recurrence() if layer.mixer is not None else None
    if shape is None:
        return Work(0.0, 0.0)
    flop = _STATE_FLOP_PER_ELEMENT * shape.state_elements * num_tokens
    return Work(flop, shape.state_bytes * accesses).times(layer.count)
