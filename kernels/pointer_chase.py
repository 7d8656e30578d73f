"""Memory latency: one thread follows a chain of addresses, each of which is known only after the previous one has
arrived."""

from typing import Final

import torch
import triton
import triton.language as tl

from advisor.kernels.backend import check_operands

LINE_BYTES: Final = 128
"""Distance of two elements of the chain [bytes], so that every hop touches a cache line of its own."""
_ELEMENTS_PER_LINE: Final = LINE_BYTES // 4


@triton.jit
def _chase_kernel(next_ptr, last_ptr, num_hops):
    position = 0
    for _ in tl.range(0, num_hops):
        position = tl.load(next_ptr + position)
    tl.store(last_ptr, position)


def reference(chain: torch.Tensor, num_hops: int) -> int:
    """Return the position that the chain reaches from position 0 after `num_hops` hops.

    Shapes: chain [n] int32.
    """
    position = 0
    for _ in range(num_hops):
        position = int(chain[position])
    return position


def run(chain: torch.Tensor, num_hops: int, out: torch.Tensor | None = None) -> torch.Tensor:
    """Compute the position after `num_hops` hops.

    Shapes: chain [n] int32 -> [1] int32.
    Raises: ValueError: the chain or the output has gaps or another format.
    """
    check_operands((torch.int32,), chain=chain, out=(out, (1,)))
    out = chain.new_empty(1) if out is None else out
    _chase_kernel[(1,)](chain, out, num_hops, num_warps=1)
    return out


def flop(num_hops: int) -> int:
    """Floating-point operations [flop]: none."""
    return 0


def bytes(num_hops: int) -> int:
    """Traffic between memory and caches [bytes]: a line per hop."""
    return num_hops * LINE_BYTES


def make_inputs(num_bytes: int, seed: int, device: torch.device) -> tuple[torch.Tensor]:
    """Return a random cycle through every line of an array of this size.

    Shapes: [num_bytes / 4] int32.
    """
    num_lines = max(2, num_bytes // LINE_BYTES)
    generator = torch.Generator(device=device).manual_seed(seed)
    order = torch.randperm(num_lines, generator=generator, device=device) * _ELEMENTS_PER_LINE
    # The walk starts at position 0, so the cycle is turned to begin there.
    order = torch.roll(order, -int(torch.nonzero(order == 0)[0]))
    chain = torch.zeros(num_lines * _ELEMENTS_PER_LINE, dtype=torch.int32, device=device)
    chain[order] = torch.roll(order, -1).to(torch.int32)
    return (chain,)
