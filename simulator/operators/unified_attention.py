"""Attention in one kernel for prompts and decodes: tiles of 16 query rows, which engines use if no faster kernel fits.

vLLM's Triton kernel takes the cases that FlashAttention-2 cannot, e.g. sinks. Sixteen rows fill one matrix
instruction, so a tile spends its time on issuing and waiting, not on the matrix unit's rate: cycles of an SM per key,
whatever the chip.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from advisor.catalog.efficiencies import Fitted
from advisor.simulator.device import Device
from advisor.simulator.operators.attention_kernels import (
    Floats,
    attended_pairs,
    overlap_norm_s,
)

TILE_ROWS: Final = 16
_KEY_TILE: Final = 32
"""Number of keys that a tile takes in at once."""
_SPLITS: Final = 16
"""Number of parts into which a decode step divides a cache while its tiles are few."""
_FEW_TILES: Final = 128
_TILES_PER_SEQUENCE: Final = 1.5
"""Number of tiles that the kernel counts per decoding sequence and KV head: its bound, for tiles of two tokens."""


@dataclass(frozen=True, slots=True)
class UnifiedAttentionEfficiency(Fitted):
    """Fitted parameters of the kernel; cycles are those of one SM."""

    launch_s: float
    tile_cycles: float
    """Cycles of every tile: its start, its queries, its output."""
    key_cycles: float
    """Cycles of every key of a tile while tiles fill the SM, exponentials included."""
    key_dim_cycles: float
    """Cycles of every key of a tile per element of a head: products, and reading the key and its value."""
    chain_cycles: float
    """Cycles of every key of a tile that is alone on its SM: each step waits for the one before."""
    chain_dim_cycles: float
    bandwidth_fraction: float
    overlap_norm: float
    """Exponent p of the norm that joins work, the longest chain and memory."""


def unified_prefill_s(
    new_tokens: ArrayLike,
    cached_tokens: ArrayLike,
    batch_size: ArrayLike,
    num_heads: ArrayLike,
    num_kv_heads: ArrayLike,
    head_dim: ArrayLike,
    device: Device,
    efficiency: UnifiedAttentionEfficiency,
    *,
    window_tokens: int | None = None,
) -> Floats:
    """Time of causal attention of `new_tokens` queries on `cached_tokens` earlier keys per sequence [s].

    launch + ‖tiles (fixed + keys · per key) / SMs, keys of the last tile · chain‖, in cycles

    Assumes: equal sequences; the heads of a KV head share its tiles; keys come from the L2.
    Error: see `residual` of the catalog record; `left_out` is an accelerator of another architecture.
    Source: kernel_unified_attention_2d of vLLM 0.11; constants from catalog/data/efficiency/unified_attention.
    """
    new = np.asarray(new_tokens, float)
    cached = np.asarray(cached_tokens, float)
    group = np.asarray(num_heads, float) / np.asarray(num_kv_heads, float)
    tiles = np.asarray(batch_size, float) * np.asarray(num_kv_heads, float) * np.ceil(new * group / TILE_ROWS)
    keys = attended_pairs(new, cached, window_tokens) / new + _KEY_TILE / 2.0
    last_keys = cached + new if window_tokens is None else np.minimum(cached + new, window_tokens + _KEY_TILE)
    return _kernel_s(tiles, keys, last_keys, np.asarray(0.0), np.asarray(head_dim, float), device, efficiency)


def unified_decode_s(
    batch_size: ArrayLike,
    context_tokens: ArrayLike,
    num_heads: ArrayLike,
    num_kv_heads: ArrayLike,
    head_dim: ArrayLike,
    device: Device,
    efficiency: UnifiedAttentionEfficiency,
    *,
    window_tokens: int | None = None,
    kv_bytes_per_element: float = 2.0,
) -> Floats:
    """Time of one decode step of attention for `batch_size` sequences of `context_tokens` each [s].

    The form is that of `unified_prefill_s`, and no faster than the cache is read. Few sequences have their cache
    divided among sixteen tiles; more have one tile per KV head, whose keys follow each other.

    Assumes: equal contexts, capped at the window (version 0.11 reads past it while it divides caches).
    Error: see `residual` of the catalog record.
    Source: unified_attention of vLLM 0.11; constants from catalog/data/efficiency/unified_attention.
    """
    batch = np.asarray(batch_size, float)
    kv_heads = np.asarray(num_kv_heads, float)
    dim = np.asarray(head_dim, float)
    keys = np.asarray(context_tokens, float)
    if window_tokens is not None:
        keys = np.minimum(keys, window_tokens)
    streams = batch * kv_heads
    tiles = streams * np.ceil(np.asarray(num_heads, float) / kv_heads / TILE_ROWS)
    splits = np.where(_TILES_PER_SEQUENCE * streams <= _FEW_TILES, _SPLITS, 1.0)
    splits = np.minimum(splits, np.ceil(keys / _KEY_TILE))
    read_bytes = streams * 2.0 * keys * dim * kv_bytes_per_element
    return _kernel_s(tiles * splits, keys / splits, keys / splits, read_bytes, dim, device, efficiency)


def _kernel_s(
    tiles: Floats,
    keys: Floats,
    last_keys: Floats,
    read_bytes: Floats,
    head_dim: Floats,
    device: Device,
    e: UnifiedAttentionEfficiency,
) -> Floats:
    """Time of `tiles` tiles over `keys` keys each [s]."""
    width = 2.0 ** np.ceil(np.log2(head_dim))  # heads are padded to a power of two
    cycle_s = 1.0 / device.clock_hz
    key_cycles = e.key_cycles + width * e.key_dim_cycles
    work_s = tiles * (e.tile_cycles + keys * key_cycles) * cycle_s / device.num_sms
    chain_s = last_keys * (e.chain_cycles + width * e.chain_dim_cycles) * cycle_s
    read_s = read_bytes / (device.bandwidth_bytes_per_s * e.bandwidth_fraction)
    return np.asarray(e.launch_s + overlap_norm_s(e.overlap_norm, work_s, chain_s, read_s))
