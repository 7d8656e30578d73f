"""The roofline: work of operators, ridge points, floors of a step, and the batch at which decode turns compute-bound.

Everything here is a lower bound from counts alone: no efficiency, no launch, no link. The fitted operators
(`simulator/operators`) are what predictions use; this is what they are measured against.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from advisor.simulator.operators.attention_kernels import attended_pairs

_BYTES = 2.0
"""Activations travel in 16 bits."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one operator computes, and the fewest bytes that it moves between memory and the chip."""

    flop: float
    num_bytes: float

    @property
    def intensity_flop_per_byte(self) -> float:
        """Arithmetic intensity [flop/byte]; infinite where nothing moves."""
        return self.flop / self.num_bytes if self.num_bytes else math.inf

    def __add__(self, other: "Work") -> "Work":
        return Work(self.flop + other.flop, self.num_bytes + other.num_bytes)

    def times(self, count: float) -> "Work":
        """`count` such operators, each with its own traffic."""
        return Work(self.flop * count, self.num_bytes * count)


def total_work(parts: Iterable[Work]) -> Work:
    """Sum of works whose traffic is not shared."""
    return sum(parts, Work(0.0, 0.0))


def ridge_flop_per_byte(peak_flop_per_s: float, bandwidth_bytes_per_s: float) -> float:
    """Intensity above which a device is limited by its arithmetic, below which by its memory [flop/byte].

    peak / bandwidth

    Source: Williams, Waterman, Patterson 2009, Roofline, doi:10.1145/1498765.1498785.
    """
    return peak_flop_per_s / bandwidth_bytes_per_s


def floor_s(work: Work, peak_flop_per_s: float, bandwidth_bytes_per_s: float) -> float:
    """Least time of some work on a device [s].

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
        input_bytes * num_rows * depth + weight_bytes * depth * num_columns + _BYTES * num_rows * num_columns
    )
    return Work(2.0 * num_rows * num_columns * depth, moved)


def elementwise_work(num_elements: float, flop_per_element: float, accesses: float) -> Work:
    """Work of an operator that touches each 16-bit element `accesses` times (reads and writes) at memory.

    Intensity: flop_per_element / (2 · accesses), whatever the size.

    Source: definition.
    """
    return Work(num_elements * flop_per_element, num_elements * accesses * _BYTES)


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
    queries = 2.0 * new_tokens * num_heads * head_dim * _BYTES
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
    result = num_tokens * intermediate_size * _BYTES
    wide = result * (2.0 if gated else 1.0)
    return 2.0 * wide + (2.0 * result if fused == "whole" else 0.0)
