"""Multi-head latent attention (DeepSeek): the core in prefill and decode, and the absorbed matmuls.

The cache holds one vector of kv_lora_rank + qk_rope_head_dim per token. Prefill expands it to keys and values
per head (the expansion is a matmul that the caller prices); decode multiplies queries and outputs by
absorbed weights instead and attends in the latent space. Heads are those of one accelerator, times of a layer.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from advisor.catalog.schema import EfficiencyRecord
from advisor.catalog.units import BF16_BYTES
from advisor.simulator.device import Device
from advisor.simulator.operators.attention_kernels import (
    DecodeEfficiency,
    Floats,
    PrefillEfficiency,
    bytes_past_l2,
    decode_kernel_s,
    overlap_norm_s,
    prefill_kernel_s,
)

_MOST_HEADS = (24, 47)
_TILES = np.array((1, 2, 1))
"""Number of tiles that read the cache, by number of heads: TensorRT-LLM's and FlashInfer's kernel for Blackwell takes
up to 24 heads in one tile, then two of 16 heads each, and from 48 on tiles of 64. On B200, B300, GB200 and GB300 32
heads take half as long again as 16, and longer than 64 and 128."""


@dataclass(frozen=True, slots=True)
class LatentDecodeEfficiency(DecodeEfficiency):
    """Fitted constants of a latent decode kernel on one architecture."""

    second_tile_share: float = 0.0
    """Part of the cache that the second of two tiles of heads reads again, as a fraction."""


@dataclass(frozen=True, slots=True)
class AbsorbEfficiency:
    """Fitted constants of the batched matmuls with absorbed weights."""

    launch_s: float
    """Launch time of one of the two matmuls [s]."""
    bandwidth_fraction: float
    peak_fraction: float
    overlap_exponent: float
    activation_passes: float
    """Number of times that inputs and outputs travel; above 1 if they are quantised first."""
    l2_fraction: float
    """Fraction of the L2 up to which recently used data is still there."""
    l2_speedup: float
    weight_bytes: float

    @classmethod
    def from_record(cls, record: EfficiencyRecord) -> Self:
        """Return the constants of a catalog record of operator mla_absorb. Source: own definition."""
        return cls(**record.parameters, weight_bytes=1.0 if record.dtype == "fp8" else 2.0)


def mla_prefill_s(
    new_tokens: ArrayLike,
    cached_tokens: ArrayLike,
    batch_size: ArrayLike,
    num_heads: ArrayLike,
    qk_nope_head_dim: int,
    qk_rope_head_dim: int,
    v_head_dim: int,
    kv_lora_rank: int,
    device: Device,
    efficiency: PrefillEfficiency,
) -> Floats:
    """Time of causal latent attention in its expanded form, without any projection [s].

    Every head has its own keys: 2 (nope + rope) + 2 v flop per score, in the tile form of `prefill_kernel_s`.

    Assumes: cached latents were expanded to keys and values by the caller's projection; equal sequences.
    Error: see `residual` of the catalog records; tests/simulator/test_latent_attention.py repeats it.
    Source: DeepSeek-V2, arXiv:2405.04434, section 2.1; constants from catalog/data/efficiency/mla_prefill.
    """
    qk_dim = qk_nope_head_dim + qk_rope_head_dim
    latent_bytes = BF16_BYTES * (kv_lora_rank + qk_rope_head_dim) / np.asarray(num_heads, float)
    head_bytes = BF16_BYTES * (qk_dim + v_head_dim)
    return prefill_kernel_s(
        new_tokens,
        cached_tokens,
        np.asarray(batch_size, float) * np.asarray(num_heads, float),
        1.0,
        2.0 * (qk_dim + v_head_dim),
        head_bytes,
        head_bytes + latent_bytes,
        device,
        efficiency,
    )


def mla_decode_s(
    batch_size: ArrayLike,
    context_tokens: ArrayLike,
    num_heads: ArrayLike,
    kv_lora_rank: int,
    qk_rope_head_dim: int,
    device: Device,
    efficiency: LatentDecodeEfficiency,
    *,
    kv_bytes_per_element: float = 2.0,
    warm_l2: bool = False,
) -> Floats:
    """Time of one decode step of latent attention, all heads on the one latent stream of a sequence [s].

    The stream form of `decode_kernel_s`: (kv_lora_rank + rope) elements and 2 (2 kv_lora_rank + rope) flop
    per key and head. With many heads the matrix unit is the limit, not memory.

    Assumes: equal contexts; `warm_l2` prices a benchmark that repeats the call.
    Error: see `residual` of the catalog records; tests/simulator/test_latent_attention.py repeats it.
    Source: DeepSeek-V2, arXiv:2405.04434, section 2.1; constants from catalog/data/efficiency/mla_decode.
    """
    keys = np.asarray(context_tokens, float)
    tiles = _TILES[np.searchsorted(_MOST_HEADS, np.asarray(num_heads))]
    reads = 1.0 + efficiency.second_tile_share * (tiles - 1)
    return decode_kernel_s(
        batch_size,
        num_heads,
        reads * keys * (kv_lora_rank + qk_rope_head_dim) * kv_bytes_per_element,
        2.0 * keys * (2.0 * kv_lora_rank + qk_rope_head_dim),
        BF16_BYTES * (2.0 * kv_lora_rank + qk_rope_head_dim),
        device,
        efficiency,
        warm_l2=warm_l2,
    )


def mla_absorb_s(
    num_tokens: ArrayLike,
    num_heads: ArrayLike,
    kv_lora_rank: int,
    qk_nope_head_dim: int,
    v_head_dim: int,
    device: Device,
    efficiency: AbsorbEfficiency,
) -> Floats:
    """Time of the two batched matmuls of decode: queries into the latent space, outputs out of it [s].

    Per head q[tokens, nope] W[nope, rank] before and o[tokens, rank] W[rank, v] after attention.

    Assumes: weights come from memory; one batched call each.
    Error: see `residual` of the catalog records; tests/simulator/test_latent_attention.py repeats it.
    Source: DeepSeek-V2, arXiv:2405.04434, section 2.1.2; constants from catalog/data/efficiency/mla_absorb.
    """
    shapes = ((qk_nope_head_dim, kv_lora_rank), (kv_lora_rank, v_head_dim))
    before_s, after_s = (
        absorbed_product_s(num_tokens, num_heads, depth, columns, device, efficiency)
        for depth, columns in shapes
    )
    return np.asarray(before_s + after_s)


def absorbed_product_s(
    num_tokens: ArrayLike,
    num_heads: ArrayLike,
    depth: ArrayLike,
    columns: ArrayLike,
    device: Device,
    efficiency: AbsorbEfficiency,
    *,
    warm_l2: bool = False,
) -> Floats:
    """Time of one batched matmul y[head, token, column] = x[head, token, depth] W[head, depth, column] [s].

    t = launch + ‖bytes / (e bandwidth), flop / (c peak)‖

    Assumes: activations come from the L2 as far as they fit, weights from memory; `warm_l2` prices a
    benchmark that repeats the call with the same weights.
    Source: own form.
    """
    tokens = np.asarray(num_tokens, float)
    heads = np.asarray(num_heads, float)
    deep = np.asarray(depth, float)
    wide = np.asarray(columns, float)
    weights = heads * efficiency.weight_bytes * deep * wide
    activations = heads * efficiency.activation_passes * BF16_BYTES * tokens * (deep + wide)
    l2 = (device.l2_bytes * efficiency.l2_fraction, efficiency.l2_speedup)
    num_bytes = bytes_past_l2(weights + activations, *l2)
    if not warm_l2:
        num_bytes = weights + bytes_past_l2(activations, *l2)
    flop = 2.0 * heads * tokens * deep * wide
    busy_s = overlap_norm_s(
        efficiency.overlap_exponent,
        num_bytes / (device.bandwidth_bytes_per_s * efficiency.bandwidth_fraction),
        flop / (device.peak_flop_per_s["bf16"] * efficiency.peak_fraction),
    )
    return np.asarray(efficiency.launch_s + busy_s)
