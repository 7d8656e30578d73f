"""Linear layer with its epilogue, out = residual + GELU(A · Bᵀ + bias), without an intermediate trip through memory."""

from typing import Final

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from advisor.kernels.activations import gelu
from advisor.kernels.backend import (
    FLOATS,
    INTERPRET,
    check_formats,
    check_operands,
    dot,
    normal,
    persistent_programs,
)
from advisor.kernels.gemm import align_rows, check_output, empty_output, tile_position
from advisor.kernels.gemm_tiles import Config

CONFIG: Final = Config(128, 256, 64, num_warps=8, num_stages=3, group_m=16)
_INTERPRETER_CONFIG: Final = Config(64, 64, 32, num_warps=4, num_stages=1)


@triton.jit
def _finish(acc, bias_ptr, residual_desc, out_desc, row, column, N):
    columns = column + tl.arange(0, acc.shape[1])
    bias = tl.load(bias_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    residual = residual_desc.load([row, column]).to(tl.float32)
    out_desc.store([row, column], (residual + gelu(acc + bias[None, :])).to(out_desc.dtype))


@triton.jit
def _linear_kernel(
    a_desc,
    b_desc,
    bias_ptr,
    residual_desc,
    out_desc,
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
    for tile_id in tl.range(tl.program_id(0), num_tiles_m * num_tiles_n, NUM_PROGRAMS):
        tile_m, tile_n = tile_position(tile_id, num_tiles_m, num_tiles_n, GROUP_M)
        row = tile_m * BLOCK_M
        column = tile_n * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(num_tiles_k):
            a = a_desc.load([row, k * BLOCK_K])
            b = b_desc.load([column, k * BLOCK_K])
            acc = dot(a, b.T, acc)
        halves = tl.permute(tl.reshape(acc, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1))
        left, right = tl.split(halves)
        _finish(left, bias_ptr, residual_desc, out_desc, row, column, N)
        _finish(right, bias_ptr, residual_desc, out_desc, row, column + BLOCK_N // 2, N)


def reference(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    """Return residual + GELU(A · Bᵀ + bias) in fp32.

    Shapes: a [M, K], b [N, K], bias [N], residual [M, N] -> [M, N].
    """
    return residual.float() + torch.nn.functional.gelu(a.float() @ b.float().T + bias.float())


def run(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor,
    residual: torch.Tensor,
    out: torch.Tensor | None = None,
    config: Config | None = None,
) -> torch.Tensor:
    """Compute residual + GELU(A · Bᵀ + bias).

    Shapes: a [M, K], b [N, K], bias [N], residual [M, N], bf16 or fp16 -> [M, N].
    """
    m = a.shape[0]
    n = b.shape[0]
    check_formats(FLOATS, a=a, b=b, bias=bias, residual=residual)
    check_operands(bias=(bias, (n,)))
    if a.shape[1] != b.shape[1] or residual.shape != (m, n):
        raise ValueError(
            f"a {tuple(a.shape)}, b {tuple(b.shape)} and residual {tuple(residual.shape)} do not fit"
        )
    a = align_rows(a)
    b = align_rows(b)
    residual = align_rows(residual)
    config = config or (_INTERPRETER_CONFIG if INTERPRET else CONFIG)
    out = empty_output(m, n, a.dtype, a.device) if out is None else out
    check_output(out, m, n)
    programs = min(persistent_programs(a.device), config.num_tiles(m, n))
    half_tile = [config.block_m, config.block_n // 2]
    _linear_kernel[(programs,)](
        TensorDescriptor.from_tensor(a, [config.block_m, config.block_k]),
        TensorDescriptor.from_tensor(b, [config.block_n, config.block_k]),
        bias,
        TensorDescriptor.from_tensor(residual, half_tile),
        TensorDescriptor.from_tensor(out, half_tile),
        m,
        n,
        a.shape[1],
        NUM_PROGRAMS=programs,
        **config.launch,
    )
    return out


def flop(m: int, n: int, k: int) -> int:
    """Operations [flop]: the matmul, and seven per output (bias, GELU counted as five, residual)."""
    return 2 * m * n * k + 7 * m * n


def bytes(m: int, n: int, k: int, element_bytes: int) -> int:
    """Least traffic at device memory [bytes]: operands, bias and residual read, the result written."""
    return (m * k + n * k + n + 2 * m * n) * element_bytes


def make_inputs(
    m: int, n: int, k: int, seed: int, device: torch.device, dtype: torch.dtype = torch.bfloat16
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return random activations, weights scaled so that pre-activations have unit variance, bias and residual.

    Shapes: a [m, k], b [n, k], bias [n], residual [m, n].
    """
    draw = normal(seed, device, dtype)
    return draw(m, k), draw(n, k) / k**0.5, draw(n), draw(m, n)
