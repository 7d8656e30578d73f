"""Roofline: work of operators, ridge points, floors of a step, and the batch at which decode turns compute-bound.

Everything here is a lower bound from counts alone: no efficiency, no launch, no link. Predictions use the fitted
operators (`simulator/operators`), which are measured against these bounds.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from advisor.catalog.dtypes import cached_value_bytes
from advisor.catalog.schema import Model
from advisor.catalog.schema.model import Part
from advisor.catalog.units import BF16_BYTES
from advisor.simulator.graph.model import feed_forward_part, layers_in, stored_element_bytes
from advisor.simulator.graph.operator import Attention, Layer
from advisor.simulator.graph.weights import Projection
from advisor.simulator.operators.attention_kernels import attended_pairs

ElementBytes = Callable[[Model, str, Part], float]
"""Size of one weight by model, weight format and part [bytes]: as checkpoints store it, or as an engine's own files."""


@dataclass(frozen=True, slots=True)
class Work:
    """FLOP of one operator, and the fewest bytes that it moves between memory and the chip."""

    flop: float
    num_bytes: float

    @property
    def intensity_flop_per_byte(self) -> float:
        """Arithmetic intensity [flop/byte]; infinite if no byte moves."""
        return self.flop / self.num_bytes if self.num_bytes else math.inf

    def __add__(self, other: "Work") -> "Work":
        return Work(self.flop + other.flop, self.num_bytes + other.num_bytes)

    def times(self, count: float) -> "Work":
        """Return the work of `count` such operators, each with its own traffic."""
        return Work(self.flop * count, self.num_bytes * count)


def total_work(parts: Iterable[Work]) -> Work:
    """Return the sum of works whose traffic is not shared."""
    return sum(parts, Work(0.0, 0.0))


def ridge_flop_per_byte(peak_flop_per_s: float, bandwidth_bytes_per_s: float) -> float:
    """Intensity above which a device is limited by its arithmetic, below which by its memory [flop/byte].

    peak / bandwidth

    Source: Williams, Waterman, Patterson 2009, Roofline, doi:10.1145/1498765.1498785.
    """
    return peak_flop_per_s / bandwidth_bytes_per_s


def floor_s(work: Work, peak_flop_per_s: float, bandwidth_bytes_per_s: float) -> float:
    """Minimum time of some work on a device [s].

    max(flop / peak, bytes / bandwidth)

    Assumes: arithmetic and memory overlap perfectly.
    Source: roofline model, doi:10.1145/1498765.1498785.
    """
    return max(work.flop / peak_flop_per_s, work.num_bytes / bandwidth_bytes_per_s)


def is_compute_bound(work: Work, peak_flop_per_s: float, bandwidth_bytes_per_s: float) -> bool:
    """Whether the arithmetic of some work takes longer than its traffic.

    Source: roofline model, doi:10.1145/1498765.1498785.
    """
    return work.intensity_flop_per_byte > ridge_flop_per_byte(peak_flop_per_s, bandwidth_bytes_per_s)


def matmul_work(
    num_rows: float, num_columns: float, depth: float, *, weight_bytes: float = 2.0, input_bytes: float = 2.0
) -> Work:
    """Work of y[rows, columns] = x[rows, depth] · w[depth, columns]: 2 · rows · columns · depth flop.

    Assumes: every matrix moves once; the result has 16 bits; `weight_bytes` and `input_bytes` are per element.
    Source: definition of matrix multiplication.
    """
    moved = (
        input_bytes * num_rows * depth
        + weight_bytes * depth * num_columns
        + BF16_BYTES * num_rows * num_columns
    )
    return Work(2.0 * num_rows * num_columns * depth, moved)


def elementwise_work(num_elements: float, flop_per_element: float, accesses: float) -> Work:
    """Work of an operator that touches each 16-bit element `accesses` times (reads and writes) at memory.

    Intensity: flop_per_element / (2 · accesses), whatever the size.

    Source: definition.
    """
    return Work(num_elements * flop_per_element, num_elements * accesses * BF16_BYTES)


def attention_prefill_work(
    new_tokens: float,
    cached_tokens: float,
    num_heads: float,
    num_kv_heads: float,
    head_dim: float,
    *,
    kv_bytes: float = 2.0,
) -> Work:
    """Work of fused causal attention of one sequence's new tokens: 4 · heads · head_dim flop per query-key pair.

    Queries and outputs move once, keys and values of the whole context once; scores stay on the chip.

    Source: FlashAttention, arXiv:2205.14135; pairs as `attended_pairs`.
    """
    pairs = float(attended_pairs(new_tokens, cached_tokens))
    queries = 2.0 * new_tokens * num_heads * head_dim * BF16_BYTES
    keys = 2.0 * (new_tokens + cached_tokens) * num_kv_heads * head_dim * kv_bytes
    return Work(4.0 * num_heads * head_dim * pairs, queries + keys)


def attention_decode_work(
    batch_size: float,
    context_tokens: float,
    num_heads: float,
    num_kv_heads: float,
    head_dim: float,
    *,
    kv_bytes: float = 2.0,
) -> Work:
    """Work of one decode step of attention: every sequence reads its own cache.

    Intensity: 2 · heads / (kv heads · kv_bytes), whatever batch and context are.

    Assumes: queries and outputs, one token per sequence, are negligible.
    Source: own count.
    """
    keys = batch_size * context_tokens
    return Work(4.0 * num_heads * head_dim * keys, 2.0 * num_kv_heads * head_dim * keys * kv_bytes)


def score_matrix_bytes(
    num_heads: float,
    num_queries: float,
    num_keys: float,
    *,
    batch_size: float = 1.0,
    element_bytes: float = 2.0,
) -> float:
    """Size of the score matrix that unfused attention writes and reads back [bytes].

    batch · heads · queries · keys · element size

    Source: FlashAttention, arXiv:2205.14135, section 2.2.
    """
    return batch_size * num_heads * num_queries * num_keys * element_bytes


def mlp_fusion_saved_bytes(
    num_tokens: float, intermediate_size: float, *, gated: bool = False, fused: str = "whole"
) -> float:
    """Traffic that fusing a feed-forward part saves per layer [bytes].

    Unfused, the first product (two matrices wide with a gate) is written and read back by the activation, whose
    result is written and read back by the second product. "activation" puts the activation into the first
    product: the wide result no longer moves, the activated one still does. "whole" keeps both on the chip.

    Assumes: 16 bits; tensors larger than the cache.
    Raises: ValueError: fused is neither.
    Source: own count.
    """
    if fused not in ("activation", "whole"):
        raise ValueError(f"fused is 'activation' or 'whole', not {fused!r}")
    result = num_tokens * intermediate_size * BF16_BYTES
    wide = result * (2.0 if gated else 1.0)
    return 2.0 * wide + (2.0 * result if fused == "whole" else 0.0)


CACHE_PARTS: Final = ("attention", "state")
_PARTS: Final = ("projections", "feed_forward", "experts", "head", *CACHE_PARTS)
_STATE_FLOP_PER_ELEMENT: Final = 6.0
"""FLOP per element of a recurrent state: decay, update and read-out take a product and a sum each."""


def decode_step_work(
    model: Model,
    batch_size: float,
    context_tokens: float,
    *,
    weight_dtype: str = "bf16",
    kv_dtype: str = "bf16",
    expert_share: float = 1.0,
    element_bytes: ElementBytes = stored_element_bytes,
) -> Mapping[str, Work]:
    """Work of one decode step of `batch_size` sequences by part: weights are read once, every cache by itself.

    Parts: projections, feed_forward, experts, head (weights); attention, state (per sequence).

    Assumes: activations stay on the chip; routing is uniform, so E (1 − (1 − k/E)^batch) of E experts are read, or
    expert_share of them, where sequences of a batch resemble each other.
    Source: own count from the shape.
    """
    parts = {name: Work(0.0, 0.0) for name in _PARTS}
    expert_bytes = element_bytes(model, weight_dtype, "experts")
    for layer in layers_in(model, decode=True):
        for name, matrices in _matrices(layer, decode=True):
            flop = 2.0 * batch_size * sum(matrix.elements for matrix in matrices)
            dense_bytes = element_bytes(model, weight_dtype, _dense_part(layer, name))
            stored = sum(
                matrix.elements * (dense_bytes if matrix.low_bit else BF16_BYTES) for matrix in matrices
            )
            parts[name] += Work(flop, stored).times(layer.count)
        parts["experts"] += _experts(layer, batch_size, expert_bytes * expert_share)
        if layer.attention is not None:
            keys = batch_size * layer.attention.seen_tokens(context_tokens)
            read = Work(
                layer.attention.decode_pair_flop * keys, layer.attention.cached_bytes(kv_dtype) * keys
            )
            parts["attention"] += read.times(layer.count)
        parts["state"] += _state(layer, batch_size, 2.0 * batch_size)
    table = float(model.vocab_size * model.hidden_size)
    parts["head"] = Work(2.0 * batch_size * table, table * element_bytes(model, weight_dtype, "head"))
    return parts


def prefill_work(
    model: Model,
    num_tokens: int,
    *,
    weight_dtype: str = "bf16",
    kv_dtype: str = "bf16",
    element_bytes: ElementBytes = stored_element_bytes,
) -> Mapping[str, Work]:
    """Work of the prompt of one sequence by part, as `decode_step_work` names them; the head runs on one token.

    Assumes: every matrix, its input and its result move once; routing is uniform; a state stays on the chip during a
    prompt and is written once.
    Source: own count from the shape.
    """
    parts = {name: Work(0.0, 0.0) for name in _PARTS}
    expert_bytes = element_bytes(model, weight_dtype, "experts")
    kv_bytes = cached_value_bytes(kv_dtype)
    for layer in layers_in(model, decode=False):
        for name, matrices in _matrices(layer, decode=False):
            dense_bytes = element_bytes(model, weight_dtype, _dense_part(layer, name))
            for matrix in matrices:
                stored = dense_bytes if matrix.low_bit else BF16_BYTES
                one = matmul_work(num_tokens, matrix.columns, matrix.depth, weight_bytes=stored)
                parts[name] += one.times(layer.count)
        parts["experts"] += _experts(layer, num_tokens, expert_bytes)
        if layer.experts is not None:
            widths = 2.0 * layer.experts.hidden_size + 3.0 * layer.experts.intermediate_size
            moved = BF16_BYTES * num_tokens * layer.experts.per_token * widths
            parts["experts"] += Work(0.0, moved).times(layer.count)
        if layer.attention is not None and layer.attention.in_prompts:
            parts["attention"] += _prompt_attention(layer.attention, num_tokens, kv_bytes).times(layer.count)
        parts["state"] += _state(layer, num_tokens, 1.0)
    table = float(model.vocab_size * model.hidden_size)
    parts["head"] = Work(2.0 * table, table * element_bytes(model, weight_dtype, "head"))
    return parts


def _matrices(layer: Layer, *, decode: bool) -> tuple[tuple[str, tuple[Projection, ...]], ...]:
    return (
        ("projections", layer.mixer.projections(1, decode=decode) if layer.mixer else ()),
        ("feed_forward", layer.feed_forward.local(1) if layer.feed_forward else ()),
    )


def _dense_part(layer: Layer, name: str) -> Part:
    """Kind of weights of the projections, or of the feed-forward part outside routed experts."""
    return "mixer" if name == "projections" else feed_forward_part(layer)


def _experts(layer: Layer, num_tokens: float, element_bytes: float) -> Work:
    experts = layer.experts
    if experts is None:
        return Work(0.0, 0.0)
    elements = layer.count * experts.elements
    flop = 2.0 * num_tokens * experts.per_token * elements
    return Work(flop, experts.num_chosen(num_tokens) * elements * element_bytes)


def _prompt_attention(attention: Attention, num_tokens: int, kv_bytes: float) -> Work:
    """Work of attention over one prompt: queries and outputs move once, new keys and values once."""
    seen = min(filter(None, (attention.window_tokens, attention.top_k)), default=None)
    pairs = float(attended_pairs(num_tokens, 0.0, seen)) if attention.causal else float(num_tokens) ** 2
    width = attention.key_dim + attention.value_dim
    moved = num_tokens * width * (attention.num_heads * BF16_BYTES + attention.num_kv_heads * kv_bytes)
    return Work(attention.prefill_pair_flop * pairs, moved)


def _state(layer: Layer, num_tokens: float, accesses: float) -> Work:
    """Work of a recurrent state that every token updates and that moves `accesses` times."""
    shape = layer.mixer.recurrence() if layer.mixer is not None else None
    if shape is None:
        return Work(0.0, 0.0)
    flop = _STATE_FLOP_PER_ELEMENT * shape.state_elements * num_tokens
    return Work(flop, shape.state_bytes * accesses).times(layer.count)
