"""Matmul of 8-bit integers, W8A8: one scale per token (row of A) and one per output channel (row of B)."""

from typing import Final

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from advisor.kernels.backend import INTERPRET, check_formats, check_operands, normal, persistent_programs
from advisor.kernels.gemm import align_rows, check_output, empty_output, tile_position
from advisor.kernels.gemm_tiles import Config

LARGEST: Final = 127
CONFIG: Final = Config(128, 256, 128, num_warps=8, num_stages=4)
_INTERPRETER_CONFIG: Final = Config(64, 64, 32, num_warps=4, num_stages=1)


@triton.jit
def _w8a8_kernel(
    a_desc,
    b_desc,
    c_desc,
    a_scale_ptr,
    b_scale_ptr,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    NUM_PROGRAMS: tl.constexpr,
):
    num_tiles_m = tl.cdiv(M, BLOCK_M)
    num_tiles_n = tl.cdiv(N, BLOCK_N)
    num_tiles_k = tl.cdiv(K, BLOCK_K)
    for tile_id in tl.range(tl.program_id(0), num_tiles_m * num_tiles_n, NUM_PROGRAMS, flatten=True):
        tile_m, tile_n = tile_position(tile_id, num_tiles_m, num_tiles_n, GROUP_M)
        row = tile_m * BLOCK_M
        column = tile_n * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.int32)
        for k in range(num_tiles_k):
            a = a_desc.load([row, k * BLOCK_K])
            b = b_desc.load([column, k * BLOCK_K])
            acc = tl.dot(a, b.T, acc, out_dtype=tl.int32)
        rows = row + tl.arange(0, BLOCK_M)
        columns = column + tl.arange(0, BLOCK_N)
        a_scale = tl.load(a_scale_ptr + rows, mask=rows < M, other=0.0)
        b_scale = tl.load(b_scale_ptr + columns, mask=columns < N, other=0.0)
        scaled = acc.to(tl.float32) * a_scale[:, None] * b_scale[None, :]
        halves = tl.permute(tl.reshape(scaled, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1))
        left, right = tl.split(halves)
        c_desc.store([row, column], left.to(c_desc.dtype))
        c_desc.store([row, column + BLOCK_N // 2], right.to(c_desc.dtype))


def quantize(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows as 8-bit integers and the scale of each row.

    scale = max |row| / 127, integers = round(row / scale)

    Shapes: x [R, C] -> [R, C] int8, [R] fp32.
    """
    scale = x.float().abs().amax(dim=1).clamp_min(1e-12) / LARGEST
    return torch.round(x.float() / scale[:, None]).to(torch.int8), scale


def reference(a: torch.Tensor, a_scale: torch.Tensor, b: torch.Tensor, b_scale: torch.Tensor) -> torch.Tensor:
    """Return the product of the dequantised operands; integer sums below 2²⁴ are exact in fp32, above in fp64.

    Shapes: a [M, K] int8, a_scale [M], b [N, K] int8, b_scale [N] -> [M, N].
    """
    return (a.double() @ b.double().T).float() * a_scale[:, None] * b_scale[None, :]


def run(
    a: torch.Tensor,
    a_scale: torch.Tensor,
    b: torch.Tensor,
    b_scale: torch.Tensor,
    out: torch.Tensor | None = None,
    config: Config | None = None,
) -> torch.Tensor:
    """Compute the scaled product in bf16.

    Shapes: a [M, K] int8, a_scale [M] fp32, b [N, K] int8, b_scale [N] fp32 -> [M, N].
    """
    m = a.shape[0]
    n = b.shape[0]
    check_formats((torch.int8,), a=a, b=b)
    check_operands((torch.float32,), a_scale=(a_scale, (m,)), b_scale=(b_scale, (n,)))
    if a.shape[1] != b.shape[1]:
        raise ValueError(f"cannot multiply {tuple(a.shape)} by {tuple(b.shape)} transposed")
    a = align_rows(a)
    b = align_rows(b)
    config = config or (_INTERPRETER_CONFIG if INTERPRET else CONFIG)
    out = empty_output(m, n, torch.bfloat16, a.device) if out is None else out
    check_output(out, m, n)
    programs = min(persistent_programs(a.device), config.num_tiles(m, n))
    _w8a8_kernel[(programs,)](
        TensorDescriptor.from_tensor(a, [config.block_m, config.block_k]),
        TensorDescriptor.from_tensor(b, [config.block_n, config.block_k]),
        TensorDescriptor.from_tensor(out, [config.block_m, config.block_n // 2]),
        a_scale,
        b_scale,
        m,
        n,
        a.shape[1],
        NUM_PROGRAMS=programs,
        **config.launch,
    )
    return out


def flop(m: int, n: int, k: int) -> int:
    """Integer multiplications and additions [flop]: 2 · m · n · k."""
    return 2 * m * n * k


def bytes(m: int, n: int, k: int) -> int:
    """Least traffic at device memory [bytes]: operands of one byte, scales of four, results of two."""
    return m * k + n * k + 4 * (m + n) + 2 * m * n


def make_inputs(
    m: int, n: int, k: int, seed: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return random operands, quantised.

    Shapes: a [m, k] int8, a_scale [m], b [n, k] int8, b_scale [n].
    """
    draw = normal(seed, device)
    return *quantize(draw(m, k)), *quantize(draw(n, k))
