"""Decode of latent attention in SGLang's Triton kernel, which splits a sequence into few parts.

A block of threads walks through its part of the keys one tile after the other and waits for each from memory, so that
time is the length of a part, whatever the other SMs do. Times of a layer; heads are those of one accelerator.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from advisor.catalog.efficiencies import Fitted
from advisor.simulator.device import Device
from advisor.simulator.operators.attention_kernels import Floats

KERNELS: Final = "sglang-triton"
"""Level of the efficiency records for SGLang's Triton kernels."""
_MOST_SPLITS: Final = 8.0
_LEAST_SPLIT: Final = 32.0
"""Minimum number of keys of a split."""
_BLOCK_HEADS: Final = 16.0
"""Number of query heads that one block multiplies."""
_UNSPLIT_TOKENS: Final = 64.0
"""Context in the logarithm of which splits grow [tokens]: splits grow with log(context / this)."""


@dataclass(frozen=True, slots=True)
class TritonLatentEfficiency(Fitted):
    """Fitted constants of the kernel."""

    launch_s: float
    """Launch time of both stages inside a captured graph [s]."""
    key_cycles: float
    """Cycles of a block on one key, its latency from memory included [cycles]."""
    blocks_per_sm: float
    """Number of blocks that an SM runs at once without slowing any."""


def triton_latent_s(
    batch_size: ArrayLike,
    context_tokens: ArrayLike,
    num_heads: int,
    device: Device,
    efficiency: TritonLatentEfficiency,
    *,
    stream_share: float = 0.0,
) -> Floats:
    """Time of one decode step of latent attention [s].

    t = launch + keys of a split · cycles per key · max(1, blocks / (SMs · blocks per SM))

    Assumes: equal contexts, cold cache. The launcher takes every head for one with keys of its own and splits only as
    far as heads and sequences leave SMs free, up to 8 or, in later releases, up to a share of the SMs.
    Error: see `residual` of the catalog record.
    Source: sglang/srt/layers/attention/triton_backend.py get_num_kv_splits_triton (Apache-2.0); own form of the time.
    """
    batch = np.asarray(batch_size, float)
    keys = np.maximum(np.asarray(context_tokens, float), 1.0)
    growth = np.maximum(np.log2(keys / _UNSPLIT_TOKENS), 1.0)
    most = max(_MOST_SPLITS, stream_share * device.num_sms)
    splits = np.clip(np.ceil(device.num_sms * growth / (batch * num_heads)), 1.0, most)
    longest = np.maximum(keys / splits, np.minimum(keys, _LEAST_SPLIT))
    blocks = batch * splits * np.ceil(num_heads / _BLOCK_HEADS)
    waves = np.maximum(1.0, blocks / (device.num_sms * efficiency.blocks_per_sm))
    return np.asarray(efficiency.launch_s + longest * waves * efficiency.key_cycles / device.clock_hz)
