"""Softmax attention: time of prefill and decode kernels from tiles, bytes and a few fitted constants.

Heads are those of one accelerator (after tensor parallelism); times are per layer. A decode kernel reads the
KV cache once and is a memory stream with a fixed cost per (sequence, KV head); a prefill kernel is matrix work
in query tiles with a softmax that the exponential unit may limit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.catalog.schema import EfficiencyRecord
from advisor.simulator.device import Device

QUERY_TILE_ROWS: Final = 64
"""Rows of queries that one warpgroup handles; the M of the matrix instruction."""
_ACTIVATION_BYTES: Final = 2.0
_TAIL_EXPONENT: Final = 4.0

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PrefillEfficiency:
    """Fitted constants of a prefill kernel on one architecture."""

    launch_s: float
    peak_fraction: float
    """Of the dense matrix peak, far from any edge."""
    scores_per_cycle: float
    """Softmax exponentials per clock and SM."""
    overlap_exponent: float
    """Norm that joins matrix and softmax time: 1 is one after the other, large is hidden."""
    tile_overhead_cycles: float
    """Prologue and epilogue of a tile of 64 query rows on one SM."""
    serial_rows: float
    """Query rows that one SM works off alone at the end of a sequence (the tail)."""
    token_passes: float
    """How often queries, outputs, new keys and values travel to memory (rotary embedding, cache write)."""
    compute_dtype: str = "bf16"

    @classmethod
    def from_record(cls, record: EfficiencyRecord) -> Self:
        """The constants of a catalog record of operator attention_prefill. Source: own definition."""
        return cls(**record.parameters, compute_dtype=record.dtype)


@dataclass(frozen=True, slots=True)
class DecodeEfficiency:
    """Fitted constants of a decode kernel on one architecture."""

    launch_s: float
    bandwidth_fraction: float
    unit_overhead_cycles: float
    """Fixed cost of one (sequence, KV head) on one SM."""
    overlap_exponent: float
    """Norm that joins fixed cost, memory and matrix time: 1 is one after the other."""
    stream_sms: float
    """SMs that one (sequence, KV head) can keep busy: the limit of split-KV."""
    compute_fraction: float
    """Of the dense 16-bit peak, in tiles of 64 query rows."""
    l2_fraction: float
    """Share of the L2 up to which a repeated call finds the cache there (only in benchmarks)."""
    l2_speedup: float

    @classmethod
    def from_record(cls, record: EfficiencyRecord) -> Self:
        """The constants of a catalog record of operator attention_decode. Source: own definition."""
        return cls(**record.parameters)


def attended_pairs(
    new_tokens: ArrayLike, cached_tokens: ArrayLike, window_tokens: int | None = None
) -> Floats:
    """Query-key pairs of one causal sequence: n c + n (n + 1) / 2, each query capped at the window.

    Assumes: a query sees its own key; with a window w it sees the last w keys.
    Source: definition of causal attention.
    """
    new, cached = np.asarray(new_tokens, float), np.asarray(cached_tokens, float)
    if window_tokens is None:
        return np.asarray(new * cached + new * (new + 1.0) / 2.0)
    growing = np.clip(window_tokens - cached, 0.0, new)
    return np.asarray(growing * cached + growing * (growing + 1.0) / 2.0 + (new - growing) * window_tokens)


def attention_prefill_s(
    new_tokens: ArrayLike,
    cached_tokens: ArrayLike,
    batch_size: ArrayLike,
    num_heads: ArrayLike,
    num_kv_heads: ArrayLike,
    head_dim: ArrayLike,
    device: Device,
    efficiency: PrefillEfficiency,
    *,
    window_tokens: int | None = None,
    kv_bytes_per_element: float = 2.0,
) -> Floats:
    """Time of causal attention over `new_tokens` queries on `cached_tokens` earlier keys per sequence [s].

    Rows of queries go in tiles of 64; a tile costs a fixed overhead o plus, per score, s = 4 head_dim flop at a
    fraction of the peak joined with one exponential. All tiles share the SMs; the last one runs alone:

        t = launch + ‖(tiles o + scores s) / num_sms, o + serial_rows keys s‖ + token_passes bytes / bandwidth

    Assumes: equal sequences; group queries of one KV head may share a tile; the cache is read through L2.
    Error: median 3 to 12 % above 50 µs by architecture and engine, tests/simulator/test_attention.py.
    Source: tile structure of FlashAttention-2/3, arXiv:2307.08691 and arXiv:2407.08608; constants from
    catalog/data/efficiency/attention_prefill.
    """
    new, cached = np.asarray(new_tokens, float), np.asarray(cached_tokens, float)
    batch = np.asarray(batch_size, float)
    heads, kv_heads = np.asarray(num_heads, float), np.asarray(num_kv_heads, float)
    dim = np.asarray(head_dim, float)
    score_s = _score_s(dim, device, efficiency)
    overhead_s = efficiency.tile_overhead_cycles / device.clock_hz
    # A diagonal tile is computed in full: half a tile of masked scores per row.
    keys_per_row = attended_pairs(new, cached, window_tokens) / new + np.minimum(QUERY_TILE_ROWS, new) / 2.0
    tiles = batch * kv_heads * np.ceil(new * heads / kv_heads / QUERY_TILE_ROWS)
    shared_s = tiles * (overhead_s + QUERY_TILE_ROWS * keys_per_row * score_s) / device.num_sms
    last_keys = cached + new
    if window_tokens is not None:
        last_keys = np.minimum(last_keys, window_tokens + QUERY_TILE_ROWS)
    alone_s = overhead_s + efficiency.serial_rows * last_keys * score_s
    token_bytes = dim * (2.0 * _ACTIVATION_BYTES * heads + 2.0 * kv_bytes_per_element * kv_heads)
    traffic_s = efficiency.token_passes * batch * new * token_bytes / device.bandwidth_bytes_per_s
    return np.asarray(efficiency.launch_s + _joined(_TAIL_EXPONENT, shared_s, alone_s) + traffic_s)


def attention_decode_s(
    batch_size: ArrayLike,
    context_tokens: ArrayLike,
    num_heads: ArrayLike,
    num_kv_heads: ArrayLike,
    head_dim: ArrayLike,
    device: Device,
    efficiency: DecodeEfficiency,
    *,
    window_tokens: int | None = None,
    kv_bytes_per_element: float = 2.0,
    warm_l2: bool = False,
) -> Floats:
    """Time of one decode step of attention for `batch_size` sequences of `context_tokens` each [s].

    KV bytes over the achieved bandwidth, joined by a p-norm with a fixed cost o per (sequence, KV head) spread
    over the SMs, with the rate of one split-KV stream, and with matrix time in tiles of 64 query rows:

        t = launch + ‖units o / num_sms, bytes / (e bandwidth), stream_bytes / (e share bandwidth), flop / (c peak)‖

    Assumes: equal contexts; between two steps the weights flush the L2, so nothing is warm. `warm_l2` prices
    a benchmark that repeats the call on the same cache.
    Error: median 4 to 15 % above 10 µs by architecture and engine, tests/simulator/test_attention.py.
    Source: own form; constants from catalog/data/efficiency/attention_decode.
    """
    batch = np.asarray(batch_size, float)
    heads, kv_heads = np.asarray(num_heads, float), np.asarray(num_kv_heads, float)
    dim = np.asarray(head_dim, float)
    keys = np.asarray(context_tokens, float)
    if window_tokens is not None:
        keys = np.minimum(keys, window_tokens)
    tiles = kv_heads * np.ceil(heads / kv_heads / QUERY_TILE_ROWS)
    bandwidth = device.bandwidth_bytes_per_s * efficiency.bandwidth_fraction
    stream_bytes = 2.0 * keys * dim * kv_bytes_per_element
    total_bytes = batch * (kv_heads * stream_bytes + 2.0 * _ACTIVATION_BYTES * heads * dim)
    if warm_l2:
        total_bytes = _bytes_past_l2(total_bytes, device, efficiency)
    flop = 4.0 * batch * tiles * QUERY_TILE_ROWS * keys * dim
    busy_s = _joined(
        efficiency.overlap_exponent,
        batch * tiles * efficiency.unit_overhead_cycles / (device.clock_hz * device.num_sms),
        total_bytes / bandwidth,
        stream_bytes / (bandwidth * min(1.0, efficiency.stream_sms / device.num_sms)),
        flop / (device.peak_flop_per_s["bf16"] * efficiency.compute_fraction),
    )
    return np.asarray(efficiency.launch_s + busy_s)


def decode_line(
    batch_sizes: ArrayLike,
    context_low: float,
    context_high: float,
    num_heads: ArrayLike,
    num_kv_heads: ArrayLike,
    head_dim: ArrayLike,
    device: Device,
    efficiency: DecodeEfficiency,
    *,
    window_tokens: int | None = None,
    kv_bytes_per_element: float = 2.0,
) -> tuple[Floats, Floats]:
    """Intercept [s] and slope [s per token of summed context] of decode attention at each batch size.

    The secant of `attention_decode_s` between two contexts, in S = batch × context. With a window both
    contexts are windowed ones, so that the line holds in S_w = Σ min(context, window).

    Source: own definition, see simulator/step_cost.py.
    """

    def time_s(batch: Floats, context: float) -> Floats:
        return attention_decode_s(
            batch,
            context,
            num_heads,
            num_kv_heads,
            head_dim,
            device,
            efficiency,
            window_tokens=window_tokens,
            kv_bytes_per_element=kv_bytes_per_element,
        )

    cap = float("inf") if window_tokens is None else float(window_tokens)
    return secant_over_context(time_s, batch_sizes, min(context_low, cap / 2.0), min(context_high, cap))


def prefill_line(
    chunk_tokens: ArrayLike,
    cached_low: float,
    cached_high: float,
    num_heads: ArrayLike,
    num_kv_heads: ArrayLike,
    head_dim: ArrayLike,
    device: Device,
    efficiency: PrefillEfficiency,
    *,
    kv_bytes_per_element: float = 2.0,
) -> tuple[Floats, Floats]:
    """Intercept [s] and slope [s per pair] of prefill attention for a chunk of n tokens of one sequence.

    The secant of `attention_prefill_s` between two numbers of cached tokens c, in A = n (c + n / 2).

    Source: own definition, see simulator/step_cost.py.
    """
    chunk = np.asarray(chunk_tokens, float)
    low_s, high_s = (
        attention_prefill_s(
            chunk,
            cached,
            1,
            num_heads,
            num_kv_heads,
            head_dim,
            device,
            efficiency,
            kv_bytes_per_element=kv_bytes_per_element,
        )
        for cached in (cached_low, cached_high)
    )
    slope = (high_s - low_s) / (chunk * (cached_high - cached_low))
    return low_s - slope * chunk * (cached_low + chunk / 2.0), slope


def secant_over_context(
    time_s: Callable[[Floats, float], Floats], batch_sizes: ArrayLike, context_low: float, context_high: float
) -> tuple[Floats, Floats]:
    """Intercept [s] and slope [s per token] of a decode time between two contexts, in summed context.

    Raises: ValueError: the contexts are not ascending.
    Source: own definition.
    """
    if not 0.0 < context_low < context_high:
        raise ValueError(f"contexts must ascend from above 0: {context_low} to {context_high}")
    batch = np.asarray(batch_sizes, float)
    low_s, high_s = time_s(batch, context_low), time_s(batch, context_high)
    slope = (high_s - low_s) / (batch * (context_high - context_low))
    return low_s - slope * batch * context_low, slope


def _score_s(head_dim: Floats, device: Device, efficiency: PrefillEfficiency) -> Floats:
    """Time of one query-key score on one SM: matrix work joined with its exponential [s]."""
    peak = device.peak_flop_per_s.get(efficiency.compute_dtype, device.peak_flop_per_s["bf16"])
    matrix_s = 4.0 * head_dim * device.num_sms / (peak * efficiency.peak_fraction)
    softmax_s = 1.0 / (efficiency.scores_per_cycle * device.clock_hz)
    return _joined(efficiency.overlap_exponent, np.asarray(matrix_s), np.asarray(softmax_s))


def _bytes_past_l2(total_bytes: Floats, device: Device, efficiency: DecodeEfficiency) -> Floats:
    share_in_l2 = 1.0 / (1.0 + (total_bytes / (device.l2_bytes * efficiency.l2_fraction)) ** 4)
    return np.asarray(total_bytes * (1.0 - share_in_l2 * (1.0 - 1.0 / efficiency.l2_speedup)))


def _joined(exponent: float, *parts: Floats) -> Floats:
    """p-norm of times that overlap in part: 1 adds them, infinity takes the longest."""
    longest = np.maximum.reduce(np.broadcast_arrays(*parts))
    scale = np.where(longest > 0.0, longest, 1.0)
    return np.asarray(longest * sum((part / scale) ** exponent for part in parts) ** (1.0 / exponent))
