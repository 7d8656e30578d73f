"""Matmul C = A · Bᵀ in fp8 with scales of blocks: 1 × 128 of the activations A, 128 × 128 of the weights B.

fp8 has three bits of mantissa and little range, so one scale for a whole matrix wastes both where an outlier sets it.
Here every 128 numbers of a row of A, and every square of 128 of B, have a scale of their own. Along k both scales are
constant for 128 numbers: the matrix unit multiplies one block, and the vector unit adds it to the result with its
scales. This second sum in fp32 also replaces the matrix unit's, which keeps only some 14 bits for fp8.

Tiled: one persistent program per multiprocessor walks over output tiles of 128 × 128, block of k by block of k. Kept
on the chip: the result and one block's product. Per tile and block 4.2 Mflop on the matrix unit meet 16,384
multiply-adds on the vector unit, a quarter of its time: no fp8 kernel with such scales reaches the rate of one
without.

Source: block sizes of DeepSeek-V3, arXiv:2412.19437, section 3.3.2.
"""

from typing import Final

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from advisor.kernels.backend import (
    INTERPRET,
    check_formats,
    check_operands,
    dot,
    normal,
    persistent_programs,
)
from advisor.kernels.gemm import check_output, empty_output, tile_position
from advisor.kernels.gemm_tiles import Config

BLOCK: Final = 128
"""Size of a scale's block along k, and along the rows of B."""
CONFIG: Final = Config(128, 128, BLOCK, num_warps=8, num_stages=4, split_epilogue=False)
PROGRAMS_PER_SM: Final = 1
"""Number of programs of a multiprocessor: with several, one adds with scales while another multiplies."""
SMALL_TILES: Final = Config(64, 128, BLOCK, num_warps=4, num_stages=4, split_epilogue=False)
"""Configuration of at most 64 rows."""
_INTERPRETER_CONFIG: Final = Config(32, BLOCK, BLOCK, num_warps=4, num_stages=1, split_epilogue=False)
FP8: Final = torch.float8_e4m3fn


@triton.jit
def scaled_tile(
    a_desc,
    b_desc,
    a_scale_ptr,
    b_scale_ptr,
    row,
    last_row,
    column,
    expert,
    num_rows,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Return the tile at a place of A · Bᵀ, for one expert's B; scales of rows from `last_row` on are not read."""
    num_blocks = tl.cdiv(K, BLOCK_K)
    rows = row + tl.arange(0, BLOCK_M)
    scale_row = (expert * tl.cdiv(N, BLOCK_N) + column // BLOCK_N) * num_blocks
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(num_blocks):
        a = a_desc.load([row, k * BLOCK_K])
        b = tl.reshape(b_desc.load([expert, column, k * BLOCK_K]), (BLOCK_N, BLOCK_K))
        a_scale = tl.load(a_scale_ptr + k * num_rows + rows, mask=rows < last_row, other=0.0)
        b_scale = tl.load(b_scale_ptr + scale_row + k)
        product = dot(a, b.T, tl.zeros((BLOCK_M, BLOCK_N), tl.float32))
        acc += product * (a_scale * b_scale)[:, None]
    return acc


@triton.jit
def _block_kernel(
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
    for tile_id in tl.range(tl.program_id(0), num_tiles_m * num_tiles_n, NUM_PROGRAMS):
        tile_m, tile_n = tile_position(tile_id, num_tiles_m, num_tiles_n, GROUP_M)
        row = tile_m * BLOCK_M
        column = tile_n * BLOCK_N
        acc = scaled_tile(
            a_desc,
            b_desc,
            a_scale_ptr,
            b_scale_ptr,
            row,
            M,
            column,
            0,
            M,
            N,
            K,
            BLOCK_M,
            BLOCK_N,
            BLOCK_K,
        )
        c_desc.store([row, column], acc.to(c_desc.dtype))


def _whole_blocks(x: torch.Tensor, multiples: tuple[int, ...]) -> torch.Tensor:
    """Return the array padded with zeros to multiples of the last dimensions."""
    padding: list[int] = []
    for size, multiple in zip(reversed(x.shape), reversed(multiples), strict=False):
        padding += [0, -size % multiple]
    return torch.nn.functional.pad(x, padding)


def quantize_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows in fp8 and the scales of their blocks, block by block: the layout in which a tile reads them.

    Shapes: x [M, K] -> [M, K] fp8, [⌈K / 128⌉, M] fp32.
    """
    m, k = x.shape
    blocks = _whole_blocks(x.float(), (1, BLOCK)).reshape(m, -1, BLOCK)
    scale = blocks.abs().amax(dim=2).clamp_min(1e-12) / torch.finfo(FP8).max
    values = (blocks / scale[:, :, None]).reshape(m, -1)[:, :k]
    return values.to(FP8).contiguous(), scale.T.contiguous()


def quantize_weights(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return weights in fp8 and the scales of their squares.

    Shapes: x [..., N, K] -> [..., N, K] fp8, [..., ⌈N / 128⌉, ⌈K / 128⌉] fp32.
    """
    n, k = x.shape[-2:]
    padded = _whole_blocks(x.float(), (BLOCK, BLOCK))
    rows, columns = (size // BLOCK for size in padded.shape[-2:])
    squares = padded.reshape(*x.shape[:-2], rows, BLOCK, columns, BLOCK)
    scale = squares.abs().amax(dim=(-3, -1)).clamp_min(1e-12) / torch.finfo(FP8).max
    values = (squares / scale[..., :, None, :, None]).reshape(padded.shape)[..., :n, :k]
    return values.to(FP8).contiguous(), scale


def dequantize_rows(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Return rows times their blocks' scales, in fp64.

    Shapes: x [M, K] fp8, scale [⌈K / 128⌉, M] -> [M, K].
    """
    return x.float().double() * scale.double().T.repeat_interleave(BLOCK, dim=1)[:, : x.shape[1]]


def dequantize_weights(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Return weights times their squares' scales, in fp64.

    Shapes: x [..., N, K] fp8, scale [..., ⌈N / 128⌉, ⌈K / 128⌉] -> [..., N, K].
    """
    n, k = x.shape[-2:]
    wide = scale.double().repeat_interleave(BLOCK, dim=-2).repeat_interleave(BLOCK, dim=-1)
    return x.float().double() * wide[..., :n, :k]


def reference(a: torch.Tensor, a_scale: torch.Tensor, b: torch.Tensor, b_scale: torch.Tensor) -> torch.Tensor:
    """Return the product of the dequantised operands in fp64.

    Shapes: a [M, K] fp8, a_scale [⌈K / 128⌉, M], b [N, K] fp8, b_scale [⌈N / 128⌉, ⌈K / 128⌉] -> [M, N].
    """
    return dequantize_rows(a, a_scale) @ dequantize_weights(b, b_scale).T


def check_sizes(a: torch.Tensor, a_scale: torch.Tensor, b: torch.Tensor, b_scale: torch.Tensor) -> None:
    """Refuse operands that do not fit together; `b` has one or more matrices of weights.

    Raises: ValueError: the sizes do not fit, K is not a multiple of 16, an operand has gaps or another format.
    """
    k = a.shape[-1]
    if a.dim() != 2 or b.dim() < 2 or b.shape[-1] != k or k % 16:
        raise ValueError(
            f"cannot multiply {tuple(a.shape)} by {tuple(b.shape)}: K must be equal and fill 16 bytes"
        )
    blocks = int(triton.cdiv(k, BLOCK))
    scale_shape = (*b.shape[:-2], int(triton.cdiv(b.shape[-2], BLOCK)), blocks)
    check_operands((FP8,), a=a, b=b)
    check_formats(None, a=a, a_scale=a_scale)
    check_operands((torch.float32,), a_scale=(a_scale, (blocks, a.shape[0])), b_scale=(b_scale, scale_shape))


def choose_config(num_rows: int) -> Config:
    """Return the tile shape for a number of rows, or a mean number of rows of an expert."""
    return SMALL_TILES if num_rows <= SMALL_TILES.block_m else CONFIG


def run(
    a: torch.Tensor,
    a_scale: torch.Tensor,
    b: torch.Tensor,
    b_scale: torch.Tensor,
    out: torch.Tensor | None = None,
    config: Config | None = None,
) -> torch.Tensor:
    """Compute the scaled product in bf16.

    Shapes: a [M, K] fp8, a_scale [⌈K / 128⌉, M] fp32, b [N, K] fp8, b_scale [⌈N / 128⌉, ⌈K / 128⌉] fp32 -> [M, N].
    Raises: ValueError: operands that `check_sizes` refuses, or tiles that are not those of the scales.
    """
    check_sizes(a, a_scale, b, b_scale)
    m, k = a.shape
    n = b.shape[0]
    config = config or (_INTERPRETER_CONFIG if INTERPRET else choose_config(m))
    if config.block_n != BLOCK or config.block_k != BLOCK:
        raise ValueError(
            f"tiles of {config.block_n} x {config.block_k} are not the scales' blocks of {BLOCK}"
        )
    out = empty_output(m, n, torch.bfloat16, a.device) if out is None else out
    check_output(out, m, n)
    programs = min(PROGRAMS_PER_SM * persistent_programs(a.device), config.num_tiles(m, n))
    _block_kernel[(programs,)](
        TensorDescriptor.from_tensor(a, [config.block_m, BLOCK]),
        TensorDescriptor.from_tensor(b[None], [1, BLOCK, BLOCK]),
        TensorDescriptor.from_tensor(out, [config.block_m, BLOCK]),
        a_scale,
        b_scale,
        m,
        n,
        k,
        NUM_PROGRAMS=programs,
        **config.launch,
    )
    return out


def flop(m: int, n: int, k: int) -> int:
    """Multiplications and additions of the matrix unit [flop]: 2 · m · n · k."""
    return 2 * m * n * k


def bytes(m: int, n: int, k: int) -> int:
    """Least traffic at device memory [bytes]: operands of one byte, scales of four, results of two."""
    blocks = -(-k // BLOCK)
    return m * k + n * k + 4 * blocks * (m + -(-n // BLOCK)) + 2 * m * n


def make_inputs(
    m: int, n: int, k: int, seed: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return random operands, quantised; the rows differ in size, so that their scales do.

    Shapes: a [m, k] fp8, a_scale [⌈k / 128⌉, m], b [n, k] fp8, b_scale [⌈n / 128⌉, ⌈k / 128⌉].
    """
    draw = normal(seed, device)
    sizes = torch.linspace(0.1, 10.0, m, device=device)[:, None]
    return *quantize_rows(draw(m, k) * sizes), *quantize_weights(draw(n, k))
