"""Backward pass of a linear layer with GELU, out = residual + GELU(A · Bᵀ + bias).

The pre-activations were never stored. One kernel computes them again and, while they are in registers, multiplies
GELU's slope by the gradient: dP = dout ∘ GELU'(A · Bᵀ + bias). Two more products follow, dA = dP · B and dB = dPᵀ ·
A; dbias is the column sum of dP, and the residual's gradient is dout itself.

Tiled: output tiles of dP as in `linear_gelu_residual`. Kept on the chip: the pre-activations and the slope.
"""

from typing import Final

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from advisor.kernels import gemm_layouts, linear_gelu_residual
from advisor.kernels.activations_backward import gelu_slope
from advisor.kernels.backend import (
    HALVES,
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
def _finish(acc, bias_ptr, grad_desc, dp_desc, row, column, N):
    columns = column + tl.arange(0, acc.shape[1])
    bias = tl.load(bias_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    grad = grad_desc.load([row, column]).to(tl.float32)
    dp_desc.store([row, column], (grad * gelu_slope(acc + bias[None, :])).to(dp_desc.dtype))


@triton.jit
def _slope_kernel(
    a_desc,
    b_desc,
    bias_ptr,
    grad_desc,
    dp_desc,
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
        # Quarters: the slope of half a tile would not fit the registers.
        quarter: tl.constexpr = BLOCK_N // 4
        left, right = tl.split(tl.permute(tl.reshape(acc, (BLOCK_M, 2, 2 * quarter)), (0, 2, 1)))
        first, second = tl.split(tl.permute(tl.reshape(left, (BLOCK_M, 2, quarter)), (0, 2, 1)))
        third, fourth = tl.split(tl.permute(tl.reshape(right, (BLOCK_M, 2, quarter)), (0, 2, 1)))
        _finish(first, bias_ptr, grad_desc, dp_desc, row, column, N)
        _finish(second, bias_ptr, grad_desc, dp_desc, row, column + quarter, N)
        _finish(third, bias_ptr, grad_desc, dp_desc, row, column + 2 * quarter, N)
        _finish(fourth, bias_ptr, grad_desc, dp_desc, row, column + 3 * quarter, N)


def reference(
    a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor, grad: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradients of activations, weights and bias in fp64, by automatic differentiation.

    Shapes: a [M, K], b [N, K], bias [N], grad [M, N] -> [M, K], [N, K], [N].
    """
    operands = [x.detach().double().requires_grad_() for x in (a, b, bias)]
    out = torch.nn.functional.gelu(operands[0] @ operands[1].T + operands[2])
    da, db, dbias = torch.autograd.grad(out, operands, grad.double())
    return da, db, dbias


def run(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor,
    grad: torch.Tensor,
    out: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None,
    config: Config | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute the gradients of activations, weights and bias; the residual's is `grad`.

    Shapes: a [M, K], b [N, K], bias [N], grad [M, N], bf16 or fp16 -> [M, K], [N, K], [N].
    Raises: ValueError: the sizes do not fit, or operands that `check_operands` refuses.
    """
    m, k = a.shape
    n = b.shape[0]
    check_formats(HALVES, a=a, b=b, bias=bias, grad=grad)
    check_operands(bias=(bias, (n,)))
    if b.shape[1] != k or grad.shape != (m, n):
        raise ValueError(f"a {tuple(a.shape)}, b {tuple(b.shape)} and grad {tuple(grad.shape)} do not fit")
    if out is not None:
        check_output(out[0], m, k)
        check_output(out[1], n, k)
        check_operands(dbias=(out[2], (n,)))
    config = config or (_INTERPRETER_CONFIG if INTERPRET else CONFIG)
    dp = empty_output(m, n, a.dtype, a.device)
    programs = min(persistent_programs(a.device), config.num_tiles(m, n))
    quarter_tile = [config.block_m, config.block_n // 4]
    aligned = align_rows(a)
    _slope_kernel[(programs,)](
        TensorDescriptor.from_tensor(aligned, [config.block_m, config.block_k]),
        TensorDescriptor.from_tensor(align_rows(b), [config.block_n, config.block_k]),
        bias,
        TensorDescriptor.from_tensor(align_rows(grad), quarter_tile),
        TensorDescriptor.from_tensor(dp, quarter_tile),
        m,
        n,
        aligned.shape[1],
        NUM_PROGRAMS=programs,
        **config.launch,
    )
    da, db, dbias = out or (None, None, None)
    summed = dp.sum(dim=0, dtype=torch.float32)
    return (
        gemm_layouts.run(dp, b, da),
        gemm_layouts.run(dp.T, a, db),
        summed.to(bias.dtype) if dbias is None else dbias.copy_(summed),
    )


def flop(m: int, n: int, k: int) -> int:
    """Operations [flop]: three products of one size, and ten per pre-activation (bias, slope, gradient, sum)."""
    return 6 * m * n * k + 10 * m * n


def bytes(m: int, n: int, k: int, element_bytes: int) -> int:
    """Least traffic at device memory [bytes]: operands and gradient read, dP written and read, gradients written."""
    return (2 * (m * k + n * k) + 3 * m * n + 2 * n) * element_bytes


def make_inputs(
    m: int, n: int, k: int, seed: int, device: torch.device, dtype: torch.dtype = torch.bfloat16
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return random activations, weights, bias, and the gradient of the result.

    Shapes: a [m, k], b [n, k], bias [n], grad [m, n].
    """
    a, b, bias, _ = linear_gelu_residual.make_inputs(m, n, k, seed, device, dtype)
    return a, b, bias, normal(seed + 1, device, dtype)(m, n)
