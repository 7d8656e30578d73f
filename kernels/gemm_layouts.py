"""Matmul C = A · B of matrices in either order, row by row or column by column, as gradients need it.

`gemm` takes operands as linear layers store them. The gradients of Y = X · Wᵀ are dX = dY · W and dW = dYᵀ · X: here
an operand may be a transposed view, whose strides tell its order, so nothing is transposed in memory. The copy engine
brings a block in its order, and the matrix unit reads 16-bit blocks of either order from shared memory.

Tiled as `gemm`: one persistent program per multiprocessor walks over output tiles. Optionally the result is added to
what the output holds.
"""

from typing import Final

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from advisor.kernels.backend import FLOATS, INTERPRET, check_formats, dot, normal, persistent_programs
from advisor.kernels.gemm import align_rows, check_output, empty_output, tile_position
from advisor.kernels.gemm_tiles import Config

LARGE: Final = Config(128, 256, 64, num_warps=8, num_stages=3)
SMALL: Final = Config(128, 128, 64, num_warps=8, num_stages=4, split_epilogue=False)
_INTERPRETER_CONFIG: Final = Config(32, 64, 32, num_warps=4, num_stages=1)


@triton.jit
def load_block(desc, row, column, ROWS: tl.constexpr, COLUMNS: tl.constexpr, IS_TURNED: tl.constexpr):
    """Return the block [ROWS, COLUMNS] at a place of a matrix; a turned one is stored column by column."""
    if IS_TURNED:
        return tl.trans(desc.load([column, row]))
    else:
        return desc.load([row, column])


@triton.jit
def _layouts_kernel(
    a_desc,
    b_desc,
    c_desc,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    A_TURNED: tl.constexpr,
    B_TURNED: tl.constexpr,
    ADD: tl.constexpr,
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
            a = load_block(a_desc, row, k * BLOCK_K, BLOCK_M, BLOCK_K, A_TURNED)
            b = load_block(b_desc, k * BLOCK_K, column, BLOCK_K, BLOCK_N, B_TURNED)
            acc = dot(a, b, acc)
        halves = tl.permute(tl.reshape(acc, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1))
        left, right = tl.split(halves)
        if ADD:
            left += c_desc.load([row, column]).to(tl.float32)
            right += c_desc.load([row, column + BLOCK_N // 2]).to(tl.float32)
        c_desc.store([row, column], left.to(c_desc.dtype))
        c_desc.store([row, column + BLOCK_N // 2], right.to(c_desc.dtype))


def describe(x: torch.Tensor, rows: int, columns: int) -> tuple[TensorDescriptor, bool]:
    """Return how blocks of a matrix are copied, and whether it lies column by column.

    A matrix that is neither row by row nor column by column, or not aligned for the copy engine, is copied first.
    """
    if x.stride(1) != 1 and x.stride(0) == 1:
        return TensorDescriptor.from_tensor(align_rows(x.T), [columns, rows]), True
    return TensorDescriptor.from_tensor(align_rows(x), [rows, columns]), False


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return A · B in fp64.

    Shapes: a [M, K], b [K, N] -> [M, N].
    """
    return a.double() @ b.double()


def run(
    a: torch.Tensor,
    b: torch.Tensor,
    out: torch.Tensor | None = None,
    add: bool = False,
    config: Config | None = None,
) -> torch.Tensor:
    """Compute A · B, or with `add` out + A · B; the result has the operands' format unless `out` has another.

    Shapes: a [M, K], b [K, N], each in any order, bf16, fp16 or fp32 -> [M, N].
    Raises: ValueError: the inner sizes or the formats differ, or nothing is there to add to.
    """
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
        raise ValueError(f"cannot multiply {tuple(a.shape)} {a.dtype} by {tuple(b.shape)} {b.dtype}")
    if add and out is None:
        raise ValueError("nothing to add to: pass out")
    check_formats(FLOATS, a=a, b=b, **({} if out is None else {"out": out}))
    m, k = a.shape
    n = b.shape[1]
    programs = persistent_programs(a.device)
    if config is None:
        small = INTERPRET or LARGE.num_tiles(m, n) < programs
        config = _INTERPRETER_CONFIG if INTERPRET else (SMALL if small else LARGE)
    out = empty_output(m, n, a.dtype, a.device) if out is None else out
    check_output(out, m, n)
    a_desc, a_turned = describe(a, config.block_m, config.block_k)
    b_desc, b_turned = describe(b, config.block_k, config.block_n)
    programs = min(programs, config.num_tiles(m, n))
    _layouts_kernel[(programs,)](
        a_desc,
        b_desc,
        TensorDescriptor.from_tensor(out, [config.block_m, config.block_n // 2]),
        m,
        n,
        k,
        A_TURNED=a_turned,
        B_TURNED=b_turned,
        ADD=add,
        NUM_PROGRAMS=programs,
        **config.launch,
    )
    return out


def flop(m: int, n: int, k: int) -> int:
    """Multiplications and additions [flop]: 2 · m · n · k."""
    return 2 * m * n * k


def bytes(m: int, n: int, k: int, element_bytes: int) -> int:
    """Least traffic at device memory [bytes]: each operand read once, the result written once."""
    return (m * k + n * k + m * n) * element_bytes


def make_inputs(
    m: int, n: int, k: int, seed: int, device: torch.device, dtype: torch.dtype = torch.bfloat16
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return random operands as dW = dYᵀ · X has them: the first lies column by column.

    Shapes: a [m, k], b [k, n].
    """
    draw = normal(seed, device, dtype)
    return draw(k, m).T, draw(k, n)
