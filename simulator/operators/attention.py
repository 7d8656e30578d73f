"""Softmax attention with grouped queries: time of prefill and decode, and their lines for the surface.

Heads are those of one accelerator, after tensor parallelism; times are of one layer.
"""

import numpy as np
from numpy.typing import ArrayLike

from advisor.catalog.units import BF16_BYTES
from advisor.simulator.device import Device
from advisor.simulator.operators.attention_kernels import (
    DecodeEfficiency,
    Floats,
    PrefillEfficiency,
    decode_kernel_s,
    prefill_kernel_s,
)


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
    """Time of causal attention of `new_tokens` queries on `cached_tokens` earlier keys per sequence [s].

    The tile form of `prefill_kernel_s` with 4 head_dim flop per score and heads (n c + n (n + 1) / 2) scores.

    Assumes: equal sequences; no other kernel runs at the same time.
    Error: see `residual` of the catalog records; tests/simulator/test_attention.py repeats it.
    Source: operators.attention_kernels; constants from catalog/data/efficiency/attention_prefill.
    """
    heads = np.asarray(num_heads, float)
    kv_heads = np.asarray(num_kv_heads, float)
    dim = np.asarray(head_dim, float)
    group = heads / kv_heads
    return prefill_kernel_s(
        new_tokens,
        cached_tokens,
        np.asarray(batch_size, float) * kv_heads,
        group,
        4.0 * dim,
        2.0 * BF16_BYTES * group * dim,
        2.0 * kv_bytes_per_element * dim,
        device,
        efficiency,
        window_tokens=window_tokens,
    )


def attention_encoder_s(
    num_tokens: ArrayLike,
    batch_size: ArrayLike,
    num_heads: ArrayLike,
    head_dim: ArrayLike,
    device: Device,
    efficiency: PrefillEfficiency,
) -> Floats:
    """Time of bidirectional attention over `num_tokens` per image or sentence [s].

    The tile form of `prefill_kernel_s` with num_tokens² scores per head.

    Assumes: equal lengths; every head has its own keys.
    Error: see `residual` of the catalog records.
    Source: operators.attention_kernels; constants from catalog/data/efficiency/attention_encoder.
    """
    dim = np.asarray(head_dim, float)
    return prefill_kernel_s(
        num_tokens,
        0.0,
        np.asarray(batch_size, float) * np.asarray(num_heads, float),
        1.0,
        4.0 * dim,
        2.0 * BF16_BYTES * dim,
        2.0 * BF16_BYTES * dim,
        device,
        efficiency,
        causal=False,
    )


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
    uneven_share: float = 0.0,
    spread: float = 0.0,
) -> Floats:
    """Time of one decode step of attention for `batch_size` sequences of `context_tokens` each [s].

    The stream form of `decode_kernel_s` with 2 head_dim elements of cache per key and KV head.

    Assumes: contexts, capped at the window, that are equal or have that spread, for a kernel with that share of
    `uneven_streams`; `warm_l2` prices a benchmark that repeats the call.
    Error: see `residual` of the catalog records; tests/simulator/test_attention.py repeats it.
    Source: operators.attention_kernels; constants from catalog/data/efficiency/attention_decode.
    """
    heads = np.asarray(num_heads, float)
    kv_heads = np.asarray(num_kv_heads, float)
    dim = np.asarray(head_dim, float)
    keys = np.asarray(context_tokens, float)
    if window_tokens is not None:
        keys = np.minimum(keys, window_tokens)
    return decode_kernel_s(
        np.asarray(batch_size, float) * kv_heads,
        heads / kv_heads,
        2.0 * keys * dim * kv_bytes_per_element,
        4.0 * keys * dim,
        2.0 * BF16_BYTES * dim,
        device,
        efficiency,
        warm_l2=warm_l2,
        uneven_share=uneven_share,
        spread=spread,
    )
