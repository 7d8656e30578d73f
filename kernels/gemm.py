"""Matmul C = A · Bᵀ for bf16, fp16 and fp8, stored as linear layers do: A [M, K], weights B [N, K].

One persistent program per multiprocessor walks over output tiles. Operands come through tensor descriptors
(TMA on Hopper and later), and the next tile's loads overlap the last tile's store. If the last wave of tiles would
leave most multiprocessors idle, its tiles are cut into pieces, one per program.
"""

import math
from typing import Final

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from advisor.kernels.backend import (
    EIGHT_BITS,
    FLOATS,
    INTERPRET,
    check_formats,
    check_operands,
    dot,
    normal,
    persistent_programs,
)
from advisor.kernels.gemm_tiles import CONFIGS, Config

DESCRIPTOR_ALIGNMENT_BYTES: Final = 16
"""Alignment of rows that a tensor descriptor needs [bytes]."""


_PIECE_STAGES: Final = 6
_INTERPRETER_CONFIG: Final = Config(64, 64, 32, num_warps=4, num_stages=1)


@triton.jit
def tile_position(tile_id, num_tiles_m, num_tiles_n, GROUP_M: tl.constexpr):
    """Return row and column of a tile when GROUP_M rows of tiles are walked column by column."""
    tiles_per_group = GROUP_M * num_tiles_n
    first_m = (tile_id // tiles_per_group) * GROUP_M
    rows = min(num_tiles_m - first_m, GROUP_M)
    within = tile_id % tiles_per_group
    return first_m + within % rows, within // rows


@triton.jit
def _gemm_kernel(
    a_desc,
    b_desc,
    c_desc,
    b_piece_desc,
    c_piece_desc,
    scale_ptr,
    M,
    N,
    K,
    whole_tiles,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    PIECES: tl.constexpr,
    PIECE_STAGES: tl.constexpr,
    SPLIT_EPILOGUE: tl.constexpr,
    HAS_SCALE: tl.constexpr,
    NUM_PROGRAMS: tl.constexpr,
):
    num_tiles_m = tl.cdiv(M, BLOCK_M)
    num_tiles_n = tl.cdiv(N, BLOCK_N)
    num_tiles_k = tl.cdiv(K, BLOCK_K)
    scale = tl.load(scale_ptr) if HAS_SCALE else 1.0
    for tile_id in tl.range(tl.program_id(0), whole_tiles, NUM_PROGRAMS, flatten=True):
        tile_m, tile_n = tile_position(tile_id, num_tiles_m, num_tiles_n, GROUP_M)
        row = tile_m * BLOCK_M
        column = tile_n * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(num_tiles_k):
            a = a_desc.load([row, k * BLOCK_K])
            b = b_desc.load([column, k * BLOCK_K])
            acc = dot(a, b.T, acc)
        if HAS_SCALE:
            acc = acc * scale
        if SPLIT_EPILOGUE:
            halves = tl.permute(tl.reshape(acc, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1))
            left, right = tl.split(halves)
            c_desc.store([row, column], left.to(c_desc.dtype))
            c_desc.store([row, column + BLOCK_N // 2], right.to(c_desc.dtype))
        else:
            c_desc.store([row, column], acc.to(c_desc.dtype))
    if PIECES > 1:
        tile_id = whole_tiles + tl.program_id(0) // PIECES
        if tile_id < num_tiles_m * num_tiles_n:
            tile_m, tile_n = tile_position(tile_id, num_tiles_m, num_tiles_n, GROUP_M)
            row = tile_m * BLOCK_M
            column = tile_n * BLOCK_N + tl.program_id(0) % PIECES * (BLOCK_N // PIECES)
            acc = tl.zeros((BLOCK_M, BLOCK_N // PIECES), tl.float32)
            for k in tl.range(num_tiles_k, num_stages=PIECE_STAGES):
                a = a_desc.load([row, k * BLOCK_K])
                b = b_piece_desc.load([column, k * BLOCK_K])
                acc = dot(a, b.T, acc)
            if HAS_SCALE:
                acc = acc * scale
            c_piece_desc.store([row, column], acc.to(c_desc.dtype))


def reference(a: torch.Tensor, b: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    """Return A · Bᵀ · scale in fp32 from the rounded operands.

    Shapes: a [M, K], b [N, K] -> [M, N].
    """
    return scale * (a.float() @ b.float().T)


def choose_config(m: int, n: int, element_bytes: int, programs: int) -> Config:
    """Return the tile shape with the least predicted time, and whether the last wave is cut into pieces.

    time ∝ block_m · block_n · (whole waves / rate + 1 / (pieces · piece rate)); without pieces the last wave is whole

    Assumes: every wave takes a whole tile's time; K does not change the order of the candidates. No wave is cut if half
    of a tile's rows would be empty.
    """
    if INTERPRET:
        return _INTERPRETER_CONFIG

    def cost(config: Config) -> float:
        tiles = config.num_tiles(m, n)
        if config.pieces == 1:
            waves = triton.cdiv(tiles, programs) / config.rate
        elif _can_cut(tiles % programs, config.pieces, programs) and 2 * m > config.block_m:
            waves = tiles // programs / config.rate + 1.0 / (config.pieces * config.piece_rate)
        else:
            return math.inf
        return waves * config.block_m * config.block_n

    return min(CONFIGS[element_bytes], key=cost)


def _can_cut(num_tiles: int, pieces: int, programs: int) -> bool:
    return 0 < pieces * num_tiles <= programs


def align_rows(x: torch.Tensor) -> torch.Tensor:
    """Return the matrix with rows padded by zeros to the alignment of a tensor descriptor; an aligned one is unchanged.

    Shapes: x [R, C] -> [R, C'] with C' ≥ C.
    """
    multiple = DESCRIPTOR_ALIGNMENT_BYTES // x.element_size()
    padding = -x.shape[1] % multiple
    if padding:
        padded = x.new_zeros((x.shape[0], x.shape[1] + padding))
        padded[:, : x.shape[1]] = x
        return padded
    if x.stride(1) == 1 and x.stride(0) % multiple == 0:
        return x
    return torch.empty(x.shape, dtype=x.dtype, device=x.device).copy_(x)


def empty_output(m: int, n: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return an output whose rows are aligned for a tensor descriptor: a view of the first n columns if n is not
    aligned.

    Shapes: -> [m, n].
    """
    multiple = DESCRIPTOR_ALIGNMENT_BYTES // dtype.itemsize
    return torch.empty((m, n + -n % multiple), dtype=dtype, device=device)[:, :n]


def check_output(out: torch.Tensor, m: int, n: int) -> None:
    """Refuse an output that a tensor descriptor cannot write; rows may be padded, as `empty_output` pads them.

    Raises: ValueError: the output has another shape, gaps within a row, or rows that are not aligned.
    """
    multiple = DESCRIPTOR_ALIGNMENT_BYTES // out.element_size()
    if tuple(out.shape) != (m, n):
        raise ValueError(f"out is {tuple(out.shape)}, and the other operands want {(m, n)}")
    if out.stride(1) != 1 or out.stride(0) % multiple:
        raise ValueError(
            f"out {(m, n)} has strides {out.stride()}, and the kernel writes rows without gaps, each aligned to "
            f"{DESCRIPTOR_ALIGNMENT_BYTES} bytes: take gemm.empty_output"
        )


def run(
    a: torch.Tensor,
    b: torch.Tensor,
    scale: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    config: Config | None = None,
) -> torch.Tensor:
    """Compute A · Bᵀ · scale; bf16 and fp16 keep their format, fp8 gives bf16.

    Shapes: a [M, K], b [N, K], scale [1] fp32 (fp8) -> [M, N].
    Raises: ValueError: the inner sizes or the formats differ, or the last wave cannot be cut.
    """
    if a.shape[1] != b.shape[1] or a.dtype != b.dtype:
        raise ValueError(
            f"cannot multiply {tuple(a.shape)} {a.dtype} by {tuple(b.shape)} {b.dtype} transposed"
        )
    check_formats((*FLOATS, *EIGHT_BITS), a=a, b=b)
    check_operands((torch.float32,), scale=scale)
    m = a.shape[0]
    n = b.shape[0]
    a = align_rows(a)
    b = align_rows(b)
    programs = persistent_programs(a.device)
    config = config or choose_config(m, n, a.element_size(), programs)
    if out is None:
        out = empty_output(m, n, torch.bfloat16 if a.element_size() == 1 else a.dtype, a.device)
    check_output(out, m, n)
    store_n = config.block_n // 2 if config.split_epilogue else config.block_n
    tiles = config.num_tiles(m, n)
    rest = tiles % programs if config.pieces > 1 else 0
    if config.pieces > 1 and not _can_cut(rest, config.pieces, programs):
        raise ValueError(f"cannot cut {rest} tiles into {config.pieces} pieces for {programs} programs")
    whole_tiles = tiles - rest
    programs = min(programs, max(whole_tiles, config.pieces * rest))
    piece_n = config.block_n // config.pieces
    _gemm_kernel[(programs,)](
        TensorDescriptor.from_tensor(a, [config.block_m, config.block_k]),
        TensorDescriptor.from_tensor(b, [config.block_n, config.block_k]),
        TensorDescriptor.from_tensor(out, [config.block_m, store_n]),
        TensorDescriptor.from_tensor(b, [piece_n, config.block_k]),
        TensorDescriptor.from_tensor(out, [config.block_m, piece_n]),
        scale,
        m,
        n,
        a.shape[1],
        whole_tiles,
        PIECES=config.pieces,
        PIECE_STAGES=_PIECE_STAGES,
        SPLIT_EPILOGUE=config.split_epilogue,
        HAS_SCALE=scale is not None,
        NUM_PROGRAMS=programs,
        **config.launch,
    )
    return out


def flop(m: int, n: int, k: int) -> int:
    """Multiplications and additions [flop]: 2 · m · n · k."""
    return 2 * m * n * k


def bytes(m: int, n: int, k: int, element_bytes: int, out_bytes: int = 2) -> int:
    """Least traffic at device memory [bytes]: each operand read once, the result written once."""
    return (m * k + n * k) * element_bytes + m * n * out_bytes


def make_inputs(
    m: int, n: int, k: int, seed: int, device: torch.device, dtype: torch.dtype = torch.bfloat16
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return random operands with unit variance (fp8: rounded to e4m3).

    Shapes: a [m, k], b [n, k].
    """
    draw = normal(seed, device, torch.float32 if dtype.itemsize == 1 else dtype)
    return draw(m, k).to(dtype), draw(n, k).to(dtype)
