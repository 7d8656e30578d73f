"""Latent attention over chosen keys (DeepSeek V3.2, GLM-5): the sparse kernel, and the indexer that chooses.

The sparse kernel runs absorbed for prompts and decode alike: each query gathers its own keys from the latent cache,
so queries do not share tiles of keys, and nothing is saved if a query sees fewer keys than it may choose. Times
of a layer; heads are those of one accelerator.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from advisor.catalog.efficiencies import Fitted
from advisor.simulator.device import Device
from advisor.simulator.operators.attention_kernels import Floats, attended_pairs

TILE_HEADS: Final = 64
"""Number of query heads that one thread block multiplies, present or not; the M of the matrix instruction."""
_KEY_SCALE_BYTES: Final = 4.0
_SCORE_BYTES: Final = 4.0
_SCORE_PASSES: Final = 3.0
"""Number of times that scores travel: written once, read twice, as the selection counts, then picks."""


@dataclass(frozen=True, slots=True)
class SparseLatentEfficiency(Fitted):
    """Fitted constants of the sparse kernel on one architecture."""

    launch_s: float
    peak_fraction: float
    """Fraction of the dense 16-bit peak; keys kept in 8 bits are converted before they are multiplied."""
    tile_overhead_cycles: float
    """Cycles of prologue and epilogue of one query's tile of heads on one SM."""
    wave_smoothing: float
    """0: a tile stays on one SM, and a last partial round costs a whole one; 1: keys of a tile are split over SMs."""


@dataclass(frozen=True, slots=True)
class IndexerEfficiency(Fitted):
    """Fitted constants of the kernel that scores keys for the indexer."""

    launch_s: float
    peak_fraction: float
    """Fraction of the dense 8-bit peak."""
    bandwidth_fraction: float


def sparse_latent_s(
    num_queries: ArrayLike,
    num_heads: int,
    top_k: int,
    kv_lora_rank: int,
    qk_rope_head_dim: int,
    device: Device,
    efficiency: SparseLatentEfficiency,
    *,
    head_multiple: int = TILE_HEADS,
) -> Floats:
    """Time of sparse latent attention of `num_queries` queries, each over `top_k` chosen keys [s].

    Heads are padded to `head_multiple` and go in tiles of 64; a tile costs a fixed overhead and
    2 · 64 (2 rank + rope) flop per key, and tiles share the SMs in rounds:

        t = launch + ((1 − s) ⌈tiles / SMs⌉ + s · tiles / SMs) · (overhead + top_k · flop / (c · peak / SMs))

    Assumes: a query with fewer keys than top_k pays for all, its list being filled with entries that the kernel
    multiplies and masks (61 µs on an H200 with 256 of 2 048 entries valid, 55 µs with all); keys come from the L2.
    Error: see `residual` of the catalog records; tests/simulator/test_sparse_attention.py repeats it.
    Source: FlashMLA (deepseek-ai, MIT), csrc/sm90/prefill/sparse; constants from catalog/data/efficiency/mla_sparse.
    """
    padded = -(-num_heads // head_multiple) * head_multiple
    tiles = np.asarray(num_queries, float) * -(-padded // TILE_HEADS) / device.num_sms
    flop = 2.0 * TILE_HEADS * top_k * (2.0 * kv_lora_rank + qk_rope_head_dim)
    rate = device.peak_flop_per_s["bf16"] * efficiency.peak_fraction / device.num_sms
    tile_s = efficiency.tile_overhead_cycles / device.clock_hz + flop / rate
    smooth = efficiency.wave_smoothing
    return np.asarray(efficiency.launch_s + ((1.0 - smooth) * np.ceil(tiles) + smooth * tiles) * tile_s)


def indexer_s(
    new_tokens: ArrayLike,
    cached_tokens: ArrayLike,
    batch_size: ArrayLike,
    indexer_num_heads: int,
    indexer_head_dim: int,
    device: Device,
    efficiency: IndexerEfficiency,
) -> Floats:
    """Time of scoring every earlier token for `new_tokens` queries per sequence [s], without the selection.

    t = launch + max(2 heads dim pairs / (c fp8 peak), batch keys (dim + 4) bytes / (e bandwidth))

    Assumes: fp8 keys with one fp32 scale each; all heads on every rank, as engines replicate the indexer.
    Error: see `residual` of the catalog records; tests/simulator/test_sparse_attention.py repeats it.
    Source: DeepSeek-V3.2-Exp, section 2.1; DeepGEMM's fp8 MQA logits; constants from catalog/data/efficiency/indexer.
    """
    new = np.asarray(new_tokens, float)
    cached = np.asarray(cached_tokens, float)
    batch = np.asarray(batch_size, float)
    peak = device.peak_flop_per_s.get("fp8", 0.0) or device.peak_flop_per_s["bf16"]
    flop = 2.0 * indexer_num_heads * indexer_head_dim * batch * attended_pairs(new, cached)
    num_bytes = batch * (cached + new) * (indexer_head_dim + _KEY_SCALE_BYTES)
    bandwidth = device.bandwidth_bytes_per_s * efficiency.bandwidth_fraction
    busy_s = np.maximum(flop / (peak * efficiency.peak_fraction), num_bytes / bandwidth)
    return np.asarray(efficiency.launch_s + busy_s)


def selection_s(num_scores: ArrayLike, device: Device, efficiency: IndexerEfficiency) -> Floats:
    """Time of moving the indexer's scores: written once, read twice to choose the best [s].

    Assumes: fp32 scores past the L2, at the share of bandwidth that the scoring kernel reaches.
    Source: own count, of a selection by radix histograms (vLLM, top_k_per_row).
    """
    num_bytes = _SCORE_BYTES * _SCORE_PASSES * np.asarray(num_scores, float)
    return np.asarray(num_bytes / (device.bandwidth_bytes_per_s * efficiency.bandwidth_fraction))
