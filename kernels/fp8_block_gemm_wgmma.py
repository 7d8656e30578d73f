"""Matmul in fp8 with scales of blocks on Hopper, with a role for each group of warps (Gluon): the twin of
`fp8_block_gemm`.

Three groups of four warps own 64 rows each of a tile of 192 × 128; one more warp copies. A group multiplies a block of
128 along k and adds it to its result with the scales, on the vector unit. Meanwhile the matrix unit works for another
group, so the additions cost no time of it.

The tile is large for the L2. A tile of 128 × 128 reads 32 KiB per block, for which the matrix unit takes 512 cycles:
64 bytes per cycle and multiprocessor, more than the L2 delivers to all of them. A tile of 192 × 128 reads 53.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from advisor.kernels import fp8_block_gemm
from advisor.kernels.attention_wgmma import COPY_REGISTERS, barriers_of, blocks_of
from advisor.kernels.backend import INTERPRET, num_sms
from advisor.kernels.fp8_block_gemm import BLOCK
from advisor.kernels.gemm import check_output, empty_output

_ROWS = gl.constexpr(64)
"""Number of rows of a group: those of the matrix instruction."""
_GROUPS = gl.constexpr(3)
_TILE_ROWS = gl.constexpr(192)
_BLOCK = gl.constexpr(BLOCK)
_BEYOND = gl.constexpr(2**30)
"""A number of rows that no matrix has."""


@dataclass(frozen=True, slots=True)
class TileConfig:
    """Number of blocks along k in shared memory, registers per thread, and rows of tiles that go side by side.

    With `turns`, groups start their products one after the other.
    """

    stages: int = 4
    registers: int = 160
    rows_at_once: int = 8
    turns: bool = True


_LONG_DEPTH: Final = 4096
"""Smallest K with which turns pay: a group that stores its result holds up the others, each time for the same time."""
_LEAST_FILLED: Final = 0.75
"""Least fraction of busy multiprocessors, over all rounds of tiles, with which large tiles take less time."""


@gluon.jit
def _position(number, M, N, ROWS_AT_ONCE: gl.constexpr):
    """Return first row and column of a tile; tiles of some rows are taken column by column, so that the L2 helps."""
    tiles_m = (M + _TILE_ROWS - 1) // _TILE_ROWS
    tiles_n = (N + _BLOCK - 1) // _BLOCK
    band = number // (ROWS_AT_ONCE * tiles_n)
    first = band * ROWS_AT_ONCE
    rows = min(tiles_m - first, ROWS_AT_ONCE)
    place = number - first * tiles_n
    return (first + place % rows) * _TILE_ROWS, place // rows * _BLOCK


@gluon.jit
def _copy(descs, memory, barriers, sizes, STAGES: gl.constexpr, ROWS_AT_ONCE: gl.constexpr):
    """Copy the blocks of both operands, as the copying warp."""
    a_desc, b_desc = descs
    a_smem, b_smem = memory
    full, empty, _turns = barriers
    M, N, K, num_tiles = sizes
    num_bytes: gl.constexpr = _GROUPS * a_desc.block_type.nbytes + b_desc.block_type.nbytes
    count = 0
    for number in range(gl.program_id(0), num_tiles, gl.num_programs(0)):
        row, column = _position(number, M, N, ROWS_AT_ONCE)
        for k in range((K + _BLOCK - 1) // _BLOCK):
            place = count % STAGES
            mbarrier.wait(empty.index(place), (count // STAGES & 1) ^ 1)
            mbarrier.expect(full.index(place), num_bytes)
            tma.async_copy_global_to_shared(
                b_desc, [column, k * _BLOCK], full.index(place), b_smem.index(place)
            )
            for part in gl.static_range(_GROUPS):
                tma.async_copy_global_to_shared(
                    a_desc,
                    [row + part * _ROWS, k * _BLOCK],
                    full.index(place),
                    a_smem.index(place * _GROUPS + part),
                )
            count += 1


@gluon.jit
def _multiply(
    work, GROUP: gl.constexpr, STAGES: gl.constexpr, ROWS_AT_ONCE: gl.constexpr, TURNS: gl.constexpr
):
    """Compute 64 rows of every tile, as one group of four warps."""
    c_desc, memory, outputs, barriers, sizes, a_scale_ptr, b_scale_ptr = work
    a_smem, b_smem = memory
    full, empty, turns = barriers
    M, N, K, num_tiles = sizes
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, _BLOCK, 32])
    staging = outputs.index(GROUP)
    num_blocks = (K + _BLOCK - 1) // _BLOCK
    count = 0
    for number in range(gl.program_id(0), num_tiles, gl.num_programs(0)):
        row, column = _position(number, M, N, ROWS_AT_ONCE)
        row += GROUP * _ROWS
        rows = row + gl.arange(0, _ROWS, layout=gl.SliceLayout(1, layout))
        acc = gl.zeros([_ROWS, _BLOCK], gl.float32, layout)
        a_scales = a_scale_ptr + rows
        # Every thread loads the scale of B from an address of its own, though all are equal: a scalar goes to a
        # register that all threads share, and for that the assembler waits as soon as it is loaded.
        b_scales = b_scale_ptr + column // _BLOCK * num_blocks + rows // _BEYOND
        # Scales are loaded two blocks ahead: while the L2 is busy with blocks, they take longer than one.
        is_row = rows < M
        a_scale = gl.load(a_scales, mask=is_row, other=0.0)
        b_scale = gl.load(b_scales)
        next_a = gl.load(a_scales + M, mask=is_row & (num_blocks > 1), other=0.0)
        next_b = gl.load(b_scales + 1, mask=is_row & (num_blocks > 1), other=0.0)
        for k in range(num_blocks):
            a_scales += M
            b_scales += 1
            later_a = gl.load(a_scales + M, mask=is_row & (k + 2 < num_blocks), other=0.0)
            later_b = gl.load(b_scales + 1, mask=is_row & (k + 2 < num_blocks), other=0.0)
            place = count % STAGES
            mbarrier.wait(full.index(place), count // STAGES & 1)
            zeros = gl.zeros([_ROWS, _BLOCK], gl.float32, layout)
            if TURNS:
                mbarrier.wait(turns.index(GROUP), (count + (1 if GROUP == 0 else 0)) & 1)
            product = warpgroup_mma(
                a_smem.index(place * _GROUPS + GROUP),
                b_smem.index(place).permute([1, 0]),
                zeros,
                use_acc=False,
                is_async=True,
            )
            if TURNS:
                mbarrier.arrive(turns.index((GROUP + 1) % _GROUPS), count=1)
            product = warpgroup_mma_wait(0, deps=[product])
            mbarrier.arrive(empty.index(place), count=1)
            acc += product * (a_scale * b_scale)[:, None]
            a_scale, b_scale, next_a, next_b = next_a, next_b, later_a, later_b
            count += 1
        # The tile before has left the staging place.
        tma.store_wait(0)
        staging.store(acc.to(c_desc.dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(c_desc, [row, column], staging)
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["num_tiles"])
def _block_kernel(
    a_desc,
    b_desc,
    c_desc,
    a_scale_ptr,
    b_scale_ptr,
    M,
    N,
    K,
    num_tiles,
    STAGES: gl.constexpr,
    ROWS_AT_ONCE: gl.constexpr,
    TURNS: gl.constexpr,
    REGISTERS: gl.constexpr,
    COPYING_REGISTERS: gl.constexpr,
    num_warps: gl.constexpr,
):
    """Share the work among the groups of warps."""
    memory = (blocks_of(a_desc, STAGES * _GROUPS), blocks_of(b_desc, STAGES))
    outputs = blocks_of(c_desc, _GROUPS)
    barriers = (barriers_of(STAGES, 1), barriers_of(STAGES, _GROUPS), barriers_of(_GROUPS, 1))
    fence_async_shared()
    sizes = (M, N, K, num_tiles)
    work = (c_desc, memory, outputs, barriers, sizes, a_scale_ptr, b_scale_ptr)
    gl.warp_specialize(
        [
            (_multiply, (work, gl.constexpr(0), STAGES, ROWS_AT_ONCE, TURNS)),
            (_multiply, (work, gl.constexpr(1), STAGES, ROWS_AT_ONCE, TURNS)),
            (_multiply, (work, gl.constexpr(2), STAGES, ROWS_AT_ONCE, TURNS)),
            (_copy, ((a_desc, b_desc), memory, barriers, sizes, STAGES, ROWS_AT_ONCE)),
        ],
        [4, 4, 1],
        [REGISTERS, REGISTERS, COPYING_REGISTERS],
    )


def is_supported(device: torch.device) -> bool:
    """Whether this kernel runs: on NVIDIA's Hopper."""
    if INTERPRET or device.type != "cuda" or torch.version.hip is not None:
        return False
    return torch.cuda.get_device_capability(device) == (9, 0)


def filled_fraction(num_rows: int, num_columns: int, sms: int) -> float:
    """Fraction of multiprocessors with work, over all rounds of tiles."""
    tiles = int(triton.cdiv(num_rows, int(_TILE_ROWS.value)) * triton.cdiv(num_columns, BLOCK))
    return tiles / (sms * int(triton.cdiv(tiles, sms)))


def fastest(a: torch.Tensor, num_columns: int) -> Callable[..., torch.Tensor]:
    """Return the launch function that takes the least time for activations and a number of columns."""
    if not is_supported(a.device):
        return fp8_block_gemm.run
    filled = filled_fraction(a.shape[0], num_columns, num_sms(a.device.index or 0))
    return run if filled >= _LEAST_FILLED else fp8_block_gemm.run


def run(
    a: torch.Tensor,
    a_scale: torch.Tensor,
    b: torch.Tensor,
    b_scale: torch.Tensor,
    out: torch.Tensor | None = None,
    config: TileConfig | None = None,
) -> torch.Tensor:
    """Compute the scaled product in bf16.

    Shapes: a [M, K] fp8, a_scale [⌈K / 128⌉, M] fp32, b [N, K] fp8, b_scale [⌈N / 128⌉, ⌈K / 128⌉] fp32 -> [M, N].
    Raises: ValueError: operands that `fp8_block_gemm.check_sizes` refuses.
    """
    fp8_block_gemm.check_sizes(a, a_scale, b, b_scale)
    m, k = a.shape
    n = b.shape[0]
    out = empty_output(m, n, torch.bfloat16, a.device) if out is None else out
    check_output(out, m, n)
    config = config or TileConfig(turns=k >= _LONG_DEPTH)
    rows = int(_ROWS.value)
    tiles = triton.cdiv(m, int(_TILE_ROWS.value)) * triton.cdiv(n, BLOCK)
    bytes_layout = gl.NVMMASharedLayout(128, 8, rank=2)
    _block_kernel[(min(tiles, num_sms(a.device.index or 0)),)](
        TensorDescriptor.from_tensor(a, [rows, BLOCK], bytes_layout),
        TensorDescriptor.from_tensor(b, [BLOCK, BLOCK], bytes_layout),
        TensorDescriptor.from_tensor(out, [rows, BLOCK], gl.NVMMASharedLayout(128, 16, rank=2)),
        a_scale,
        b_scale,
        m,
        n,
        k,
        tiles,
        STAGES=config.stages,
        ROWS_AT_ONCE=config.rows_at_once,
        TURNS=config.turns,
        REGISTERS=config.registers,
        COPYING_REGISTERS=COPY_REGISTERS,
        num_warps=4,
    )
    return out
