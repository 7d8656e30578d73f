"""Rotary position embedding (RoPE): each pair of numbers of a head is turned by an angle of its token's position.

A pair is an element of the first half of a head and the one at the same place of the second half, as in Llama's
checkpoints. The backward pass is the turn by the opposite angle, so one kernel does both.

Tiled: one program per token takes all its heads. Kept on the chip: cosines and sines of the token, which every head
uses; each element is read once and written once.

Letters of shapes: T tokens, H heads, D head size, L rows of the table.
"""

from typing import Final

import torch
import triton
import triton.language as tl

from advisor.kernels.backend import check_operands, normal

_ELEMENTS_PER_WARP: Final = 2048


@triton.jit
def _rope_kernel(
    x_ptr,
    cos_ptr,
    sin_ptr,
    positions_ptr,
    y_ptr,
    num_heads,
    half,
    SIGN: tl.constexpr,
    HEADS: tl.constexpr,
    HALF: tl.constexpr,
):
    token = tl.program_id(0)
    position = tl.load(positions_ptr + token).to(tl.int64)
    columns = tl.arange(0, HALF)
    heads = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    is_pair = columns < half
    cos = tl.load(cos_ptr + position * half + columns, mask=is_pair, other=0.0).to(tl.float32)[None, :]
    sin = tl.load(sin_ptr + position * half + columns, mask=is_pair, other=0.0).to(tl.float32)[None, :] * SIGN
    mask = (heads[:, None] < num_heads) & is_pair[None, :]
    offsets = (token.to(tl.int64) * num_heads + heads)[:, None] * (2 * half) + columns[None, :]
    first = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    second = tl.load(x_ptr + offsets + half, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + offsets, first * cos - second * sin, mask=mask)
    tl.store(y_ptr + offsets + half, second * cos + first * sin, mask=mask)


def make_table(
    num_positions: int, head_dim: int, device: torch.device, base: float = 10000.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cosines and sines of the angles: position · base^(−2 i / D) for pair i.

    Shapes: -> [num_positions, head_dim / 2], [num_positions, head_dim / 2], fp32.
    Source: Su et al. 2021, arXiv:2104.09864, section 3.2.2.
    """
    pairs = torch.arange(0, head_dim, 2, device=device, dtype=torch.float64)
    angles = torch.arange(num_positions, device=device, dtype=torch.float64)[:, None] * base ** (
        -pairs / head_dim
    )
    return angles.cos().float(), angles.sin().float()


def reference(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, positions: torch.Tensor, inverse: bool = False
) -> torch.Tensor:
    """Return the turned heads in fp64.

    Shapes: x [T, H, D], cos [L, D / 2], sin [L, D / 2], positions [T] -> [T, H, D].
    """
    turn_cos = cos.double()[positions.long()][:, None, :]
    turn_sin = sin.double()[positions.long()][:, None, :] * (-1.0 if inverse else 1.0)
    first, second = x.double().chunk(2, dim=2)
    return torch.cat((first * turn_cos - second * turn_sin, second * turn_cos + first * turn_sin), dim=2)


def run(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor,
    inverse: bool = False,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Compute the turned heads; `out` may be the input. `inverse` turns back, which is the gradient's way.

    Shapes: x [T, H, D], cos [L, D / 2], sin [L, D / 2], positions [T] int32, contiguous -> [T, H, D].

    Assumes: positions are rows of the table; checking them would make the host wait for the device.
    Raises: ValueError: an odd head size, or operands that `check_operands` refuses.
    """
    if x.dim() != 3 or x.shape[2] % 2 or not x.shape[2]:
        raise ValueError(f"heads of {tuple(x.shape)} have no pairs: the last dimension must be even")
    num_tokens, num_heads, head_dim = x.shape
    half = head_dim // 2
    table = (cos.shape[0], half)
    check_operands(x=x, cos=(cos, table), sin=(sin, table), out=(out, x.shape))
    check_operands(None, x=x, positions=positions)
    check_operands((torch.int32,), positions=(positions, (num_tokens,)))
    out = torch.empty_like(x) if out is None else out
    width = triton.next_power_of_2(half)
    heads = min(triton.next_power_of_2(num_heads), max(1, 8 * _ELEMENTS_PER_WARP // (2 * width)))
    num_warps = min(8, max(1, 2 * heads * width // _ELEMENTS_PER_WARP))
    _rope_kernel[(num_tokens, triton.cdiv(num_heads, heads))](
        x,
        cos,
        sin,
        positions,
        out,
        num_heads,
        half,
        SIGN=-1.0 if inverse else 1.0,
        HEADS=heads,
        HALF=width,
        num_warps=num_warps,
    )
    return out


def flop(num_tokens: int, num_heads: int, head_dim: int) -> int:
    """Floating-point operations [flop]: two products and an addition per element."""
    return 3 * num_tokens * num_heads * head_dim


def bytes(num_tokens: int, num_heads: int, head_dim: int, element_bytes: int) -> int:
    """Least traffic at device memory [bytes]: heads read and written, cosines, sines and positions of each token."""
    return num_tokens * (2 * num_heads * head_dim * element_bytes + 4 * head_dim + 4)


def make_inputs(
    num_tokens: int,
    num_heads: int,
    head_dim: int,
    seed: int,
    device: torch.device,
    dtype: torch.dtype = torch.bfloat16,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return random heads, a table of twice as many positions as tokens, and positions in some order.

    Shapes: x [T, H, D], cos [2 T, D / 2], sin [2 T, D / 2], positions [T] int32.
    """
    generator = torch.Generator(device=device).manual_seed(seed)
    positions = torch.randperm(2 * num_tokens, generator=generator, device=device)[:num_tokens].to(
        torch.int32
    )
    x = normal(seed, device, dtype)(num_tokens, num_heads, head_dim)
    return x, *make_table(2 * num_tokens, head_dim, device), positions
