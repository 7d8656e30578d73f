"""Attention of prompts against cuDNN: head sizes, causal and full, shared keys and values.

    python benchmarks/bench_attention.py                 every row, in about two minutes on an H100

Each time is the median of three bursts from rest, in one process. Needs an NVIDIA GPU with torch and Triton.
"""

import itertools
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Final

import torch
from torch.nn import functional

from advisor.kernels import attention, attention_wgmma
from advisor.kernels.timing import time_graph

REST_S: Final = 0.15
PROMPTS: Final = ((4, 4096), (1, 16384))
"""Numbers of sequences and of their tokens."""
HEADS: Final = ((64, 32, 8), (80, 32, 8), (96, 32, 8), (128, 32, 8), (192, 16, 4), (256, 16, 4))
"""Head sizes, with numbers of heads and of the key-value heads that they share."""


def time_s(call: Callable[[], torch.Tensor], device: torch.device) -> float:
    """Median time of three bursts [s]."""
    times_s = []
    for _ in range(3):
        time.sleep(REST_S)
        times_s.append(time_graph([call], device, num_repeats=1, num_samples=10).median_s)
    return sorted(times_s)[1]


def cudnn(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """Return cuDNN's attention."""
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
        out: torch.Tensor = functional.scaled_dot_product_attention(
            q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1]
        )
    return out


def main() -> None:
    """Measure and print the table."""
    if not torch.cuda.is_available():
        sys.exit("no NVIDIA GPU here: the table cannot be measured")
    device = torch.device("cuda")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}\n")
    print("| sequences × tokens | head size | heads / key-value heads | | TFLOP/s | cuDNN | share |")
    print("| --- | ---: | ---: | --- | ---: | ---: | ---: |")
    for (batch, tokens), (size, heads, groups) in itertools.product(PROMPTS, HEADS):
        for kv_heads, causal in itertools.product((heads, groups), (True, False)):
            q, k, v = attention.make_inputs(batch, tokens, tokens, heads, kv_heads, size, 0, device)
            turned = [x.transpose(1, 2) for x in (q, k, v)]
            own_s = time_s(partial(attention_wgmma.fastest(q), q, k, v, causal), device)
            peer_s = time_s(partial(cudnn, *turned, causal), device)
            flop = attention.flop(batch, tokens, tokens, heads, size, causal) / 1e12
            kind = "causal" if causal else "full"
            print(
                f"| {batch} × {tokens} | {size} | {heads} / {kv_heads} | {kind} | {flop / own_s:.0f} | "
                f"{flop / peer_s:.0f} | {peer_s / own_s:.0%} |"
            )


if __name__ == "__main__":
    main()
