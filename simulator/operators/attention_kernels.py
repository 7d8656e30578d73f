"""Common forms of all attention kernels: tiles of query rows in prefill, split streams of cache in decode.

Softmax attention and latent attention differ in bytes per token and flop per score only; both forms are here,
with the constants that are fitted on measured kernels.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.catalog.efficiencies import Fitted
from advisor.simulator.device import Device

Floats = NDArray[np.float64]

QUERY_TILE_ROWS: Final = 64
"""Number of query rows of one warpgroup; the M of the matrix instruction."""
_NARROW_HEAD_FLOP: Final = 4.0 * 128.0
_HOPPER_FLOP_PER_CYCLE: Final = 4096.0
"""Dense 16-bit FLOP of one SM of an H100 per clock, whose exponentials `scores_per_cycle` counts where a chip has no
kernels of its own."""
# In every measured kernel, the overhead of a tile hides in part behind the scores of its neighbour on the SM.
_TILE_EXPONENT: Final = 2.0
_L2_SHARPNESS: Final = 12.0
"""Exponent with which the share that the L2 holds falls around its capacity. Own choice: from 90 to 10 %
within ±20 %."""
_H200_BYTES_PER_S_AND_SM: Final = 4.8e12 / 132


@dataclass(frozen=True, slots=True)
class PrefillEfficiency(Fitted):
    """Fitted constants of a prefill kernel on one architecture."""

    launch_s: float
    peak_fraction: float
    """Fraction of the dense matrix peak, far from any edge."""
    wide_head_slowdown: float
    """Additional matrix time per 128 of head width above 128, where accumulators spill."""
    scores_per_cycle: float
    """Number of softmax exponentials per clock and SM."""
    overlap_exponent: float
    """Exponent of the norm that joins matrix and softmax time: 1 is one after the other, large is hidden."""
    tile_overhead_cycles: float
    """Cycles of prologue and epilogue of a tile of 64 query rows on one SM."""
    serial_rows: float
    """Number of query rows that one SM computes alone at the end of a sequence (the tail)."""
    tail_exponent: float
    """Exponent of the norm that joins the tail with all tiles' share: 1 is after them, large is hidden."""
    query_passes: float
    """Number of times that queries and outputs travel to memory (rotary embedding, quantisation)."""
    key_passes: float
    """Number of times that new keys and values travel to memory (rotary embedding, cache write, re-reading)."""
    compute_dtype: str = "bf16"


@dataclass(frozen=True, slots=True)
class DecodeEfficiency(Fitted):
    """Fitted constants of a decode kernel on one architecture."""

    launch_s: float
    bandwidth_fraction: float
    ramp_bytes_per_sm: float
    """Cost of filling the memory pipeline and joining splits, as bytes that every SM could have read."""
    ramp_half_bytes_per_sm: float
    """Bytes per SM at which half of the ramp is paid."""
    unit_overhead_cycles: float
    """Cycles of fixed cost of one stream (a sequence's cache for one KV head) on one SM."""
    overlap_exponent: float
    """Exponent of the norm that joins fixed cost, memory and matrix time: 1 is one after the other."""
    stream_sms: float
    """Number of SMs that one stream can keep busy: the limit of split-KV."""
    compute_fraction: float
    """Fraction of the dense 16-bit peak, in tiles of 64 query rows."""
    l2_fraction: float
    """Fraction of the L2 up to which a repeated call finds the cache there (only in benchmarks)."""
    l2_speedup: float


def attended_pairs(
    new_tokens: ArrayLike, cached_tokens: ArrayLike, window_tokens: int | None = None
) -> Floats:
    """Number of query-key pairs of one causal sequence: n c + n (n + 1) / 2, each query capped at the window.

    Assumes: a query sees its own key; with a window w it sees the last w keys.
    Source: definition of causal attention.
    """
    new = np.asarray(new_tokens, float)
    cached = np.asarray(cached_tokens, float)
    if window_tokens is None:
        return np.asarray(new * cached + new * (new + 1.0) / 2.0)
    growing = np.clip(window_tokens - cached, 0.0, new)
    return np.asarray(growing * cached + growing * (growing + 1.0) / 2.0 + (new - growing) * window_tokens)


def prefill_kernel_s(
    new_tokens: ArrayLike,
    cached_tokens: ArrayLike,
    num_streams: ArrayLike,
    rows_per_token: ArrayLike,
    flop_per_score: ArrayLike,
    query_bytes: ArrayLike,
    key_bytes: ArrayLike,
    device: Device,
    efficiency: PrefillEfficiency,
    *,
    window_tokens: int | None = None,
    causal: bool = True,
) -> Floats:
    """Time of attention of `new_tokens` on `cached_tokens` for each of `num_streams` KV heads [s].

    Rows of queries go in tiles of 64; a tile costs a fixed overhead o plus, per score, s = flop_per_score at
    a fraction of the peak joined with one exponential. All tiles share the SMs; the last one runs alone:

        t = launch + ‖‖tiles o, scores s‖ / num_sms, o + serial_rows keys s‖ + passes bytes / bandwidth

    with query_bytes and key_bytes of one new token and KV head travelling query_passes and key_passes times.

    Assumes: equal sequences; rows_per_token query heads share a KV head and its tiles; keys come from the L2;
    causal, or every query sees every key.
    Source: tile structure of FlashAttention-2 and -3, arXiv:2307.08691 and arXiv:2407.08608.
    """
    new = np.asarray(new_tokens, float)
    cached = np.asarray(cached_tokens, float)
    streams = np.asarray(num_streams, float)
    rows = np.asarray(rows_per_token, float)
    score_s = _score_s(np.asarray(flop_per_score, float), device, efficiency)
    overhead_s = efficiency.tile_overhead_cycles / device.clock_hz
    if causal:
        # A diagonal tile is computed in full: half a tile of masked scores per row.
        keys_per_row = (
            attended_pairs(new, cached, window_tokens) / new + np.minimum(QUERY_TILE_ROWS, new) / 2.0
        )
    else:
        keys_per_row = cached + new
    tiles = streams * np.ceil(new * rows / QUERY_TILE_ROWS)
    tile_s = overlap_norm_s(_TILE_EXPONENT, np.asarray(overhead_s), QUERY_TILE_ROWS * keys_per_row * score_s)
    shared_s = tiles * tile_s / device.num_sms
    last_keys = cached + new
    if window_tokens is not None:
        last_keys = np.minimum(last_keys, window_tokens + QUERY_TILE_ROWS)
    alone_s = overhead_s + efficiency.serial_rows * last_keys * score_s
    token_bytes = efficiency.query_passes * np.asarray(query_bytes, float)
    token_bytes = token_bytes + efficiency.key_passes * np.asarray(key_bytes, float)
    traffic_s = streams * new * token_bytes / device.bandwidth_bytes_per_s
    return np.asarray(
        efficiency.launch_s + overlap_norm_s(efficiency.tail_exponent, shared_s, alone_s) + traffic_s
    )


def decode_kernel_s(
    num_streams: ArrayLike,
    rows_per_stream: ArrayLike,
    stream_bytes: ArrayLike,
    row_flop: ArrayLike,
    row_bytes: ArrayLike,
    device: Device,
    efficiency: DecodeEfficiency,
    *,
    warm_l2: bool = False,
    uneven_share: float = 0.0,
    spread: float = 0.0,
) -> Floats:
    """Time of attention of `rows_per_stream` query rows on each of `num_streams` streams of cache [s].

    Bytes with their ramp over the achieved bandwidth b, joined by a p-norm with a fixed cost o per stream and
    tile of 64 rows spread over the SMs, with the share of b that one split stream can draw, and matrix time:

        t = launch + ‖tiles o / num_sms, (bytes + ramp) / b, stream_bytes / (share b), flop / (c peak)‖

    Streams of unequal length add `uneven_streams` to the time after the launch.

    Assumes: equal streams except for that. Between two steps the weights flush the L2, so the cache comes from memory;
    `warm_l2` prices a benchmark that repeats the call on the same cache.
    Source: own form.
    """
    streams = np.asarray(num_streams, float)
    stream = np.asarray(stream_bytes, float)
    rows = np.asarray(rows_per_stream, float)
    tiles = streams * np.ceil(rows / QUERY_TILE_ROWS)
    bandwidth = device.bandwidth_bytes_per_s * efficiency.bandwidth_fraction
    total_bytes = streams * (stream + rows * np.asarray(row_bytes, float))
    if warm_l2:
        l2_bytes = device.l2_bytes * efficiency.l2_fraction
        total_bytes = bytes_past_l2(total_bytes, l2_bytes, efficiency.l2_speedup)
    half_ramp = device.num_sms * efficiency.ramp_half_bytes_per_sm
    ramp = device.num_sms * efficiency.ramp_bytes_per_sm * total_bytes / (total_bytes + half_ramp)
    flop = tiles * QUERY_TILE_ROWS * np.asarray(row_flop, float)
    busy_s = overlap_norm_s(
        efficiency.overlap_exponent,
        tiles * efficiency.unit_overhead_cycles / (device.clock_hz * device.num_sms),
        (total_bytes + ramp) / bandwidth,
        stream / (bandwidth * min(1.0, efficiency.stream_sms / device.num_sms)),
        flop / (device.peak_flop_per_s["bf16"] * efficiency.compute_fraction),
    )
    # Where all measurements waited for memory the fraction has no meaning, and can exceed 1.
    busy_s = np.maximum(busy_s, streams * rows * np.asarray(row_flop, float) / device.peak_flop_per_s["bf16"])
    busy_s = busy_s * (1.0 + uneven_streams(streams, uneven_share, spread, device))
    return np.asarray(efficiency.launch_s + busy_s)


def uneven_streams(num_streams: Floats, uneven_share: float, spread: float, device: Device) -> Floats:
    """Additional time of streams of unequal length, as a fraction of the time of equal ones of the same bytes.

    The kernel cuts streams that are longer than an SM's share of all streams and deals the pieces out in turn. If there
    are about as many streams as SMs, some SMs get a second piece while others are done; if there are many, the last
    long ones are waited for. SMs without work leave bandwidth to the others, the less of it each needs anyway.

        share (b / b0)^1.6 · min(1, 4 spread) · min(1, (u / 0.485)²) · min(1, (0.92 / u)^(0.46 / spread))

    with u streams per SM and b bandwidth per SM, b0 that of an H200; spread is the standard deviation of lengths over
    their mean. Zero for a share of zero: kernels that are not known to do so.

    Error: 3.7 % of the kernel's time on average over calls of more than 700 tokens, where even contexts would be
    8.3 % off; tests/simulator/test_attention.py repeats it.
    Source: fitted on FlashAttention-3 as vLLM 0.20.2 calls it, on one H100 and one H200
    (catalog/data/measured/*-uneven-attention-2026-11-26.json).
    """
    if uneven_share <= 0.0 or spread <= 0.0:
        return np.zeros_like(num_streams)
    per_sm = num_streams / device.num_sms
    relative = device.bandwidth_bytes_per_s / device.num_sms / _H200_BYTES_PER_S_AND_SM
    height = uneven_share * relative**1.6 * min(1.0, 4.0 * spread)
    beside = np.minimum(1.0, (per_sm / 0.485) ** 2)
    behind = (0.92 / np.maximum(0.92, per_sm)) ** (0.46 / spread)
    return np.asarray(height * beside * behind)


def secant_over_context(
    time_s: Callable[[Floats, float], Floats],
    batch_sizes: ArrayLike,
    context_low: float,
    context_high: float,
    *,
    window_tokens: int | None = None,
) -> tuple[Floats, Floats]:
    """Intercept [s] and slope [s per token] of a decode time between two contexts, in summed context.

    With a window both contexts are windowed ones, so that the line holds in S_w = Σ min(context, window).

    Raises: ValueError: the contexts are not ascending.
    Source: own definition.
    """
    if window_tokens is not None:
        context_high = min(context_high, float(window_tokens))
        context_low = min(context_low, context_high / 2.0)
    if not 0.0 < context_low < context_high:
        raise ValueError(f"contexts must ascend from above 0: {context_low} to {context_high}")
    batch = np.asarray(batch_sizes, float)
    low_s = time_s(batch, context_low)
    high_s = time_s(batch, context_high)
    slope = (high_s - low_s) / (batch * (context_high - context_low))
    return low_s - slope * batch * context_low, slope


def secant_over_cache(
    time_s: Callable[[Floats, float], Floats], chunk_tokens: ArrayLike, cached_low: float, cached_high: float
) -> tuple[Floats, Floats]:
    """Intercept [s] and slope [s per pair] of a chunk's prefill time, in A = n (c + n / 2).

    Raises: ValueError: the cached tokens are not ascending.
    Source: own definition.
    """
    if not 0.0 <= cached_low < cached_high:
        raise ValueError(f"cached tokens must ascend from 0: {cached_low} to {cached_high}")
    chunk = np.asarray(chunk_tokens, float)
    low_s = time_s(chunk, cached_low)
    high_s = time_s(chunk, cached_high)
    slope = (high_s - low_s) / (chunk * (cached_high - cached_low))
    return low_s - slope * chunk * (cached_low + chunk / 2.0), slope


def overlap_norm_s(exponent: float, *parts: Floats) -> Floats:
    """Return the p-norm of times that overlap in part: 1 adds them, infinity takes the longest.

    Assumes: no time is negative.
    Source: definition of the p-norm.
    """
    longest = reduce(np.maximum, parts)
    scale = np.where(longest > 0.0, longest, 1.0)
    return np.asarray(longest * sum((part / scale) ** exponent for part in parts) ** (1.0 / exponent))


def bytes_past_l2(num_bytes: Floats, l2_bytes: float, l2_speedup: float) -> Floats:
    """Number of bytes from memory that take as long as `num_bytes` recently used ones, which the L2 holds in part.

    Assumes: the share that the L2 holds falls from 1 to 0 around l2_bytes; its rate is l2_speedup times higher.
    Source: own form.
    """
    share_in_l2 = 1.0 / (1.0 + (num_bytes / l2_bytes) ** _L2_SHARPNESS)
    return np.asarray(num_bytes * (1.0 - share_in_l2 * (1.0 - 1.0 / l2_speedup)))


def _score_s(flop_per_score: Floats, device: Device, efficiency: PrefillEfficiency) -> Floats:
    """Time of one query-key score on one SM: matrix work joined with its exponential [s].

    Assumes: a chip whose units are not stated has as many exponentials for its matrix units as an H100, or more.
    """
    peak = device.peak_flop_per_s.get(efficiency.compute_dtype, 0.0) or device.peak_flop_per_s["bf16"]
    spill = 1.0 + efficiency.wide_head_slowdown * np.maximum(0.0, flop_per_score / _NARROW_HEAD_FLOP - 1.0)
    matrix_s = flop_per_score * device.num_sms / (peak * efficiency.peak_fraction) * spill
    scores_per_cycle = efficiency.scores_per_cycle
    if "num_sms" in device.assumed:
        flop_per_cycle = device.peak_flop_per_s["bf16"] / (device.num_sms * device.clock_hz)
        scores_per_cycle *= max(1.0, flop_per_cycle / _HOPPER_FLOP_PER_CYCLE)
    softmax_s = 1.0 / (scores_per_cycle * device.clock_hz)
    return overlap_norm_s(efficiency.overlap_exponent, np.asarray(matrix_s), np.asarray(softmax_s))
