"""Matmul in fp8 with scales of blocks on Hopper, with a role for each group of warps (Gluon): the twin of
`fp8_block_gemm`, and of `grouped_gemm_fp8`, whose row tiles each have an expert.

Three groups of four warps own 64 rows each of a tile of 192 × 128; one more warp copies. A group multiplies a block of
128 along k and adds it to its result with the scales, on the vector unit. Meanwhile the matrix unit works for another
group, so the additions cost no time of it. That holds only while a group has added before the two others have
multiplied: whatever else it computes counts. So the copying warp multiplies the two scales of each row and block, and a
group finds the product beside the block: two loads from shared memory, in place of four from the L2.

The tile is large for the L2. A tile of 128 × 128 reads 32 KiB per block, for which the matrix unit takes 512 cycles:
64 bytes per cycle and multiprocessor, more than the L2 delivers to all of them. A tile of 192 × 128 reads 53.

The last rows of an expert's tile may belong to the next one. They are multiplied and not written: `ragged_rows` has the
copy engine check where the expert's rows end.
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

from advisor.kernels import fp8_block_gemm, grouped_gemm_fp8
from advisor.kernels.attention_wgmma import FAR, barrier, barriers_of, blocks_of, ragged_rows
from advisor.kernels.backend import INTERPRET, num_sms
from advisor.kernels.fp8_block_gemm import BLOCK
from advisor.kernels.gemm import check_output, empty_output
from advisor.kernels.grouped_gemm import Schedule, make_schedule

_ROWS = gl.constexpr(64)
"""Number of rows of a group: those of the matrix instruction."""
_GROUPS = gl.constexpr(3)
_TILE_ROWS = gl.constexpr(192)
_BLOCK = gl.constexpr(BLOCK)
_BEYOND = gl.constexpr(2**30)
"""A number of rows that no matrix has."""


@dataclass(frozen=True, slots=True)
class TileConfig:
    """Number of blocks along k in shared memory, registers per thread of the groups and of the copying warp, and rows
    of tiles that go side by side."""

    stages: int = 4
    registers: int = 152
    copying_registers: int = 56
    rows_at_once: int = 8


_WHOLE: Final = TileConfig(rows_at_once=6)
"""Configuration of a product that is not grouped: 6 rows of 22 tiles are one round of an H200's 132 programs and read
the least. 8192 cubed takes 812 us with 6, 822 with 8 or 4; 8 experts of 14336 x 4096 take 1560 with 8, 1678 with 6."""
_LEAST_FILLED: Final = 0.75
"""Least fraction of busy multiprocessors, over all rounds of tiles, with which large tiles take less time."""
_LEAST_GROUP: Final = 96
"""Smallest mean number of rows per expert with which tiles of 192 rows take less time than smaller ones."""


@gluon.jit
def _position(number, schedule, sizes, ROWS_AT_ONCE: gl.constexpr, GROUPED: gl.constexpr):
    """Return a tile's expert, first row, end of the expert's rows, and first column; expert −1 marks an unused slot.

    Tiles of some rows are taken column by column, so that the L2 helps.
    """
    expert_ptr, first_row_ptr, end_row_ptr = schedule
    M, N, _K, tiles_m = sizes
    tiles_n = (N + _BLOCK - 1) // _BLOCK
    band = number // (ROWS_AT_ONCE * tiles_n)
    first = band * ROWS_AT_ONCE
    rows = min(tiles_m - first, ROWS_AT_ONCE)
    place = number - first * tiles_n
    slot = first + place % rows
    expert = 0
    row = slot * _TILE_ROWS
    end = M
    if GROUPED:
        expert = gl.load(expert_ptr + slot)
        row = gl.load(first_row_ptr + slot)
        end = gl.load(end_row_ptr + slot)
    return expert, row, end, place // rows * _BLOCK


@gluon.jit
def _load_scales(a_scales, b_scales, rows, left):
    """Return the scales of a block along k: of the rows of each group, 0 for those beyond the matrix, and of B."""
    a_0 = gl.load(a_scales, mask=rows < left, other=0.0)
    a_1 = gl.load(a_scales + _ROWS, mask=rows < left - _ROWS, other=0.0)
    a_2 = gl.load(a_scales + 2 * _ROWS, mask=rows < left - 2 * _ROWS, other=0.0)
    return a_0, a_1, a_2, gl.load(b_scales)


@gluon.jit
def _copy(
    work, descs, scale_ptrs, schedule, STAGES: gl.constexpr, ROWS_AT_ONCE: gl.constexpr, GROUPED: gl.constexpr
):
    """Copy the blocks of both operands and multiply their scales, as the copying warp."""
    memory, barriers, sizes = work
    a_desc, b_desc = descs
    a_smem, b_smem, scale_smem = memory
    full, empty = barriers
    a_scale_ptr, b_scale_ptr = scale_ptrs
    M, N, K, tiles_m = sizes
    num_blocks = (K + _BLOCK - 1) // _BLOCK
    tiles_n = (N + _BLOCK - 1) // _BLOCK
    num_bytes: gl.constexpr = _GROUPS * a_desc.block_type.nbytes + b_desc.block_type.nbytes
    rows = gl.arange(0, _ROWS, layout=gl.BlockedLayout([2], [32], [1], [0]))
    count = 0
    for number in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        expert, row, _end, column = _position(number, schedule, sizes, ROWS_AT_ONCE, GROUPED)
        if expert >= 0:
            a_scales = a_scale_ptr + row + rows
            # Every lane loads the scale of B from an address of its own, though all are equal: a scalar goes to a
            # register that all lanes share, and for that the assembler waits as soon as it is loaded.
            b_scales = b_scale_ptr + (expert * tiles_n + column // _BLOCK) * num_blocks + rows // _BEYOND
            left = M - row
            a_0, a_1, a_2, b = _load_scales(a_scales, b_scales, rows, left)
            for k in range(num_blocks):
                place = count % STAGES
                mbarrier.wait(empty.index(place), (count // STAGES & 1) ^ 1)
                mbarrier.expect(full.index(place), num_bytes)
                tma.async_copy_global_to_shared(
                    b_desc, [expert, column, k * _BLOCK], full.index(place), b_smem.index(place)
                )
                for part in gl.static_range(_GROUPS):
                    tma.async_copy_global_to_shared(
                        a_desc,
                        [row + part * _ROWS, k * _BLOCK],
                        full.index(place),
                        a_smem.index(place * _GROUPS + part),
                    )
                scale_smem.index(place * _GROUPS).store(a_0 * b)
                scale_smem.index(place * _GROUPS + 1).store(a_1 * b)
                scale_smem.index(place * _GROUPS + 2).store(a_2 * b)
                barrier()
                mbarrier.arrive(full.index(place), count=1)
                # The scales of the next block arrive while this warp waits for a place.
                a_scales += M
                b_scales += 1
                if k + 1 < num_blocks:
                    a_0, a_1, a_2, b = _load_scales(a_scales, b_scales, rows, left)
                count += 1


@gluon.jit
def _sum_blocks(work, count, GROUP: gl.constexpr, STAGES: gl.constexpr, layout: gl.constexpr):
    """Return the scaled products of 64 rows, summed over all blocks along k, and the number of blocks taken so far."""
    memory, barriers, sizes = work
    a_smem, b_smem, scale_smem = memory
    full, empty = barriers
    _M, _N, K, _tiles_m = sizes
    acc = gl.zeros([_ROWS, _BLOCK], gl.float32, layout)
    for _ in range((K + _BLOCK - 1) // _BLOCK):
        place = count % STAGES
        mbarrier.wait(full.index(place), count // STAGES & 1)
        zeros = gl.zeros([_ROWS, _BLOCK], gl.float32, layout)
        product = warpgroup_mma(
            a_smem.index(place * _GROUPS + GROUP),
            b_smem.index(place).reshape([_BLOCK, _BLOCK]).permute([1, 0]),
            zeros,
            use_acc=False,
            is_async=True,
        )
        scale = scale_smem.index(place * _GROUPS + GROUP).load(gl.SliceLayout(1, layout))
        product = warpgroup_mma_wait(0, deps=[product])
        mbarrier.arrive(empty.index(place), count=1)
        acc += product * scale[:, None]
        count += 1
    return acc, count


@gluon.jit
def _multiply(
    work,
    outputs,
    schedule,
    GROUP: gl.constexpr,
    STAGES: gl.constexpr,
    ROWS_AT_ONCE: gl.constexpr,
    GROUPED: gl.constexpr,
):
    """Compute 64 rows of every tile, as one group of four warps."""
    c_desc, c_smem = outputs
    sizes = work[2]
    _M, N, _K, tiles_m = sizes
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, _BLOCK, 32])
    staging = c_smem.index(GROUP)
    count = 0
    for number in range(gl.program_id(0), tiles_m * ((N + _BLOCK - 1) // _BLOCK), gl.num_programs(0)):
        expert, row, end, column = _position(number, schedule, sizes, ROWS_AT_ONCE, GROUPED)
        if expert >= 0:
            row += GROUP * _ROWS
            acc, count = _sum_blocks(work, count, GROUP, STAGES, layout)
            # The tile before has left the staging place.
            tma.store_wait(0)
            staging.reshape([_ROWS, _BLOCK]).store(acc.to(c_desc.dtype))
            fence_async_shared()
            # Groups of rows that begin beyond the expert's rows write none.
            left = max(end - row, 0)
            tma.async_copy_shared_to_global(c_desc, [FAR, row + left, FAR - left, column], staging)
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["tiles_m"])
def _block_kernel(
    a_desc,
    b_desc,
    c_desc,
    a_scale_ptr,
    b_scale_ptr,
    expert_ptr,
    first_row_ptr,
    end_row_ptr,
    M,
    N,
    K,
    tiles_m,
    STAGES: gl.constexpr,
    ROWS_AT_ONCE: gl.constexpr,
    GROUPED: gl.constexpr,
    REGISTERS: gl.constexpr,
    COPYING_REGISTERS: gl.constexpr,
    num_warps: gl.constexpr,
):
    """Share the work among the groups of warps."""
    plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    scales = gl.allocate_shared_memory(gl.float32, [STAGES * _GROUPS, _ROWS], plain)
    memory = (blocks_of(a_desc, STAGES * _GROUPS), blocks_of(b_desc, STAGES), scales)
    outputs = (c_desc, blocks_of(c_desc, _GROUPS))
    # A place is full when the copies are there and, as a second arrival, the scales.
    barriers = (barriers_of(STAGES, 2), barriers_of(STAGES, _GROUPS))
    fence_async_shared()
    sizes = (M, N, K, tiles_m)
    schedule = (expert_ptr, first_row_ptr, end_row_ptr)
    work = (memory, barriers, sizes)
    scale_ptrs = (a_scale_ptr, b_scale_ptr)
    gl.warp_specialize(
        [
            (_multiply, (work, outputs, schedule, gl.constexpr(0), STAGES, ROWS_AT_ONCE, GROUPED)),
            (_multiply, (work, outputs, schedule, gl.constexpr(1), STAGES, ROWS_AT_ONCE, GROUPED)),
            (_multiply, (work, outputs, schedule, gl.constexpr(2), STAGES, ROWS_AT_ONCE, GROUPED)),
            (_copy, (work, (a_desc, b_desc), scale_ptrs, schedule, STAGES, ROWS_AT_ONCE, GROUPED)),
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


def fastest_grouped(a: torch.Tensor, num_experts: int, num_columns: int) -> Callable[..., torch.Tensor]:
    """Return the launch function that takes the least time for rows of some experts and a number of columns."""
    if not is_supported(a.device) or a.shape[0] < _LEAST_GROUP * num_experts:
        return grouped_gemm_fp8.run
    filled = filled_fraction(a.shape[0], num_columns, num_sms(a.device.index or 0))
    return run_grouped if filled >= _LEAST_FILLED else grouped_gemm_fp8.run


def _launch(
    a: torch.Tensor,
    a_scale: torch.Tensor,
    b: torch.Tensor,
    b_scale: torch.Tensor,
    out: torch.Tensor,
    config: TileConfig,
    schedule: Schedule | None,
) -> None:
    """Compute the tiles of a schedule, or of all rows."""
    m, k = a.shape
    n = b.shape[1]
    rows = int(_ROWS.value)
    tiles_m = schedule.expert.numel() if schedule else triton.cdiv(m, int(_TILE_ROWS.value))
    programs = min(tiles_m * triton.cdiv(n, BLOCK), num_sms(a.device.index or 0))
    bytes_layout = gl.NVMMASharedLayout(128, 8, rank=2)
    _block_kernel[(programs,)](
        TensorDescriptor.from_tensor(a, [rows, BLOCK], bytes_layout),
        TensorDescriptor.from_tensor(b, [1, BLOCK, BLOCK], gl.NVMMASharedLayout(128, 8, rank=3)),
        ragged_rows(out, rows, [BLOCK]),
        a_scale,
        b_scale,
        schedule.expert if schedule else None,
        schedule.first_row if schedule else None,
        schedule.end_row if schedule else None,
        m,
        n,
        k,
        tiles_m,
        STAGES=config.stages,
        ROWS_AT_ONCE=config.rows_at_once,
        GROUPED=schedule is not None,
        REGISTERS=config.registers,
        COPYING_REGISTERS=config.copying_registers,
        num_warps=4,
    )


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
    sizes = (a.shape[0], b.shape[0])
    out = empty_output(*sizes, torch.bfloat16, a.device) if out is None else out
    check_output(out, *sizes)
    _launch(a, a_scale, b[None], b_scale, out, config or _WHOLE, None)
    return out


def run_grouped(
    a: torch.Tensor,
    a_scale: torch.Tensor,
    b: torch.Tensor,
    b_scale: torch.Tensor,
    group_sizes: torch.Tensor,
    out: torch.Tensor | None = None,
    config: TileConfig | None = None,
    schedule: Schedule | None = None,
) -> torch.Tensor:
    """Compute each group of rows times its expert's weights, in bf16.

    Shapes: a [R, K] fp8 sorted by expert, a_scale [⌈K / 128⌉, R] fp32, b [E, N, K] fp8, b_scale [E, ⌈N / 128⌉,
    ⌈K / 128⌉] fp32, group_sizes [E] with sum R -> [R, N].
    Raises: ValueError: operands that `grouped_gemm_fp8.check_sizes` refuses.
    """
    grouped_gemm_fp8.check_sizes(a, a_scale, b, b_scale, group_sizes)
    sizes = (a.shape[0], b.shape[1])
    out = empty_output(*sizes, torch.bfloat16, a.device) if out is None else out
    check_output(out, *sizes)
    schedule = schedule or make_schedule(group_sizes, sizes[0], int(_TILE_ROWS.value))
    _launch(a, a_scale, b, b_scale, out, config or TileConfig(), schedule)
    return out
