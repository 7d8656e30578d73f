"""W4A16 for 2 to 32 rows of activations and large matrices, with a ring in shared memory (Gluon): the twin of
`w4a16_mma`, which loads into registers.

Words, scales and activations of the next groups are copied into shared memory without passing registers, so that
registers are left for tiles of 256 rows of weights. All warps of a program read the activations of a group from one
copy, which a tile of 256 rows takes from the L2 half as often as one of 128.

Activations are copied in pairs, in the order in which the matrix instruction wants them: one load of 16 bytes then
fills the registers of two instructions. As they lie in memory, every pair took a further move between registers,
50 of 411 instructions.
"""

from dataclasses import dataclass
from typing import Final

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy, mma_v2

from advisor.kernels import w4a16, w4a16_mma
from advisor.kernels.backend import num_sms
from advisor.kernels.w4a16_mma import (
    LARGEST_M,
    _counter,
    _half_fragment,
    _store,
    _unpack,
    _wait_for_x,
    _words_layout,
    most_parts,
    units_per_program,
)

_ROWS: Final = 256
"""Number of rows of weights of a tile."""


@dataclass(frozen=True, slots=True)
class RingPlan:
    """Number of warps of a program, what is copied ahead, and how many programs run at once."""

    warps: int
    stages: int
    """Number of groups in shared memory."""
    programs_per_sm: int
    least_units: int
    """Least number of groups of each program with which this kernel is faster than `w4a16_mma`."""


FEW: Final = RingPlan(warps=8, stages=4, programs_per_sm=2, least_units=12)
"""Plan of up to 8 rows of activations: 8 rows times 57344 by 8192 take 67 us on an H200, with `w4a16_mma` 73."""
SOME: Final = RingPlan(warps=4, stages=4, programs_per_sm=2, least_units=25)
"""Plan of 9 to 16 rows: 16 rows times 57344 by 8192 take 76 us on an H200, with `w4a16_mma` 87, with `FEW` 81."""
MANY: Final = RingPlan(warps=4, stages=3, programs_per_sm=2, least_units=25)
"""Plan of more rows: 32 rows times 57344 by 8192 take 115 us on an H200, with `w4a16_mma` 128."""


@gluon.constexpr_function
def _copied_layout(num_warps, block_m):
    """Return the layout in which pairs of activations [4 quarters, block_m, 16] are copied, one a thread: a warp copies
    16 pairs of two rows."""
    num_warp_bits = num_warps.bit_length() - 1
    places = [[0, 1 << bit, 0] for bit in range(1, block_m.bit_length() - 1)] + [[1, 0, 0], [2, 0, 0]]
    return gl.DistributedLinearLayout(
        reg_bases=places[num_warp_bits:],
        lane_bases=[[0, 0, 1], [0, 0, 2], [0, 0, 4], [0, 0, 8], [0, 1, 0]],
        warp_bases=(places + [[0, 0, 0]] * num_warp_bits)[:num_warp_bits],
        block_bases=[],
        shape=[4, block_m, 16],
    )


@gluon.constexpr_function
def _read_layout(num_warps, block_m):
    """Return the layout of half a group's activations [2 quarters, block_m, 32] in which all warps read them: eight
    neighbours a thread, row g and every eighth."""
    rows = [[0, 8 << bit, 0] for bit in range((block_m // 8).bit_length() - 1)]
    return gl.DistributedLinearLayout(
        reg_bases=[[0, 0, 1], [0, 0, 2], [0, 0, 4], [1, 0, 0], *rows],
        lane_bases=[[0, 0, 8], [0, 0, 16], [0, 1, 0], [0, 2, 0], [0, 4, 0]],
        warp_bases=[[0, 0, 0]] * (num_warps.bit_length() - 1),
        block_bases=[],
        shape=[2, block_m, 32],
    )


@gluon.constexpr_function
def _scales_layout(num_warps, rows):
    """Return the layout of scales that copies two neighbours a thread, the least that can be."""
    num_warp_bits = num_warps.bit_length() - 1
    places = [[2 << bit] for bit in range((rows // 2).bit_length() - 1)]
    return gl.DistributedLinearLayout(
        reg_bases=[[1], *places[5 + num_warp_bits :]],
        lane_bases=places[:5],
        warp_bases=(places[5:] + [[0]] * num_warp_bits)[:num_warp_bits],
        block_bases=[],
        shape=[rows],
    )


@gluon.jit
def _copy_weights(ring, places, tile, group, stage, N, words_per_row, ROWS: gl.constexpr):
    """Start the copies of the words and scales of one group of one tile; the last tile moves up to end with the last
    row."""
    w_smem, scale_smem, _x_smem = ring
    w_places, scale_places, _x_places = places
    row = min(tile * ROWS, N - ROWS)
    words = row.to(gl.int64) * words_per_row + group * 256
    async_copy.async_copy_global_to_shared(w_smem.index(stage), w_places + words, cache_modifier=".cg")
    async_copy.async_copy_global_to_shared(scale_smem.index(stage), scale_places + (group * N + row))


@gluon.jit
def _copy_x(ring, places, group, stage):
    """Start the copies of the activations of one group."""
    async_copy.async_copy_global_to_shared(ring[2].index(stage), places[2] + group * 64)


@gluon.jit
def _x_places(x_ptr, M, words_per_row, BLOCK_M: gl.constexpr, num_warps: gl.constexpr):
    """Return the places of the first group's pairs of activations, as [4 quarters, BLOCK_M, (c, w0, i0)].

    Activation 32 i + 8 c + 2 w + e of a group meets thread c, word w and pair i. In quarter (i1, w1), a thread loads
    its pairs at once, 16 bytes: those of two words, two each.
    """
    layout: gl.constexpr = _copied_layout(num_warps, BLOCK_M)
    quarters = gl.arange(0, 4, layout=gl.SliceLayout(1, gl.SliceLayout(2, layout)))
    # Rows of x beyond the end repeat the last one; their results are never stored.
    rows = gl.minimum(gl.arange(0, BLOCK_M, layout=gl.SliceLayout(0, gl.SliceLayout(2, layout))), M - 1)
    pairs = gl.arange(0, 16, layout=gl.SliceLayout(0, gl.SliceLayout(1, layout)))
    of_quarter = quarters // 2 * 32 + quarters % 2 * 2
    of_pair = pairs % 2 * 16 + pairs // 2 % 2 + pairs // 4 * 4
    x_rows = x_ptr + (rows * (words_per_row * 4))[None, :, None]
    return x_rows + of_quarter[:, None, None] + of_pair[None, None, :]


@gluon.jit
def _add_half(product, weights, x_smem, HALF: gl.constexpr, BLOCK_M: gl.constexpr, num_warps: gl.constexpr):
    """Return product + weights of half a group · its activations."""
    layout: gl.constexpr = gl.DotOperandLayout(1, product.type.layout, 2)
    x = x_smem.slice(2 * HALF, 2).load(_read_layout(num_warps, BLOCK_M))
    # w1, row, thread c, w0, i0, e -> row, (w1, w0, i0, c, e)
    split = gl.reshape(x, [2, BLOCK_M, 4, 2, 2, 2])
    x_nk = gl.reshape(gl.permute(split, [1, 0, 3, 4, 2, 5]), [BLOCK_M, 64])
    return mma_v2(weights, gl.convert_layout(gl.permute(x_nk, [1, 0]), layout), product)


@gluon.jit
def _after(tile, group, groups):
    """Return the tile and the group that follow."""
    is_last = group == groups - 1
    return tile + is_last.to(gl.int32), gl.where(is_last, 0, group + 1)


@gluon.jit
def _ring_kernel(
    x_ptr,
    w_ptr,
    scale_ptr,
    out_ptr,
    part_ptr,
    count_ptr,
    M,
    N,
    words_per_row,
    num_units,
    units_per_program,
    IS_BF16: gl.constexpr,
    BLOCK_M: gl.constexpr,
    ROWS: gl.constexpr,
    STAGES: gl.constexpr,
    EARLY: gl.constexpr,
    num_warps: gl.constexpr,
):
    """Multiply an equal number of units in every program; a unit is a group of k of one tile of rows. `x_ptr` points to
    pairs of activations."""
    dtype: gl.constexpr = scale_ptr.dtype.element_ty
    acc_layout: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [num_warps, 1], [16, 8])
    a_layout: gl.constexpr = gl.DotOperandLayout(0, acc_layout, 2)
    words_layout: gl.constexpr = _words_layout(num_warps, ROWS)
    in_two: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    in_three: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [2, 1, 0])
    w_smem = gl.allocate_shared_memory(gl.int32, [STAGES, ROWS, 16], in_two)
    scale_smem = gl.allocate_shared_memory(dtype, [STAGES, ROWS], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    x_smem = gl.allocate_shared_memory(dtype, [STAGES, 4, BLOCK_M, 32], in_three)
    pairs_smem = x_smem._reinterpret(gl.int32, [STAGES, 4, BLOCK_M, 16], in_three)
    ring = (w_smem, scale_smem, pairs_smem)
    groups = words_per_row // 16
    begin = gl.program_id(0) * units_per_program
    end = min(begin + units_per_program, num_units)
    rows = gl.arange(0, ROWS, layout=gl.SliceLayout(1, words_layout))
    words = gl.arange(0, 16, layout=gl.SliceLayout(0, words_layout))
    w_places = w_ptr + (rows // 16 * (16 * words_per_row) + rows % 16 * 16)[:, None] + words[None, :]
    scale_places = scale_ptr + gl.arange(0, ROWS, layout=_scales_layout(num_warps, ROWS))
    places = (w_places, scale_places, _x_places(x_ptr, M, words_per_row, BLOCK_M, num_warps))
    out_rows = gl.arange(0, ROWS, layout=gl.SliceLayout(1, acc_layout))
    columns = gl.arange(0, BLOCK_M, layout=gl.SliceLayout(0, acc_layout))
    for ahead in gl.static_range(STAGES):
        unit = begin + ahead
        if unit < end:
            _copy_weights(ring, places, unit // groups, unit % groups, ahead, N, words_per_row, ROWS)
    _wait_for_x(EARLY)
    for ahead in gl.static_range(STAGES):
        if begin + ahead < end:
            _copy_x(ring, places, (begin + ahead) % groups, ahead)
        async_copy.commit_group()
    acc = gl.zeros([ROWS, BLOCK_M], gl.float32, acc_layout)
    tile = begin // groups
    group = begin % groups
    next_tile = (begin + STAGES) // groups
    next_group = (begin + STAGES) % groups
    stage = 0
    for unit in range(begin, end):
        async_copy.wait_group(STAGES - 1)
        low, high = _unpack(w_smem.index(stage).load(words_layout), IS_BF16)
        x_stage = x_smem.index(stage)
        product = gl.zeros_like(acc)
        product = _add_half(product, _half_fragment(low, a_layout), x_stage, 0, BLOCK_M, num_warps)
        product = _add_half(product, _half_fragment(high, a_layout), x_stage, 1, BLOCK_M, num_warps)
        scale = scale_smem.index(stage).load(gl.SliceLayout(1, acc_layout)).to(gl.float32)
        acc += product * scale[:, None]
        if unit + STAGES < end:
            _copy_weights(ring, places, next_tile, next_group, stage, N, words_per_row, ROWS)
            _copy_x(ring, places, next_group, stage)
        async_copy.commit_group()
        if (group == groups - 1) | (unit == end - 1):
            _store(
                acc,
                tile,
                groups,
                units_per_program,
                out_rows,
                columns,
                out_ptr,
                part_ptr,
                count_ptr,
                M,
                N,
                ROWS,
            )
            acc = gl.zeros_like(acc)
        tile, group = _after(tile, group, groups)
        next_tile, next_group = _after(next_tile, next_group, groups)
        stage = gl.where(stage == STAGES - 1, 0, stage + 1)


def choose_plan(m: int) -> RingPlan:
    """Return the plan that takes the least time for `m` rows of activations."""
    if m <= 8:
        return FEW
    return SOME if m <= 16 else MANY


def is_faster(x: torch.Tensor, num_rows: int, sms: int) -> bool:
    """Whether this kernel runs and takes less time than `w4a16_mma`: several rows of activations, and enough groups for
    every program."""
    m, k = x.shape
    if m == 1 or num_rows < _ROWS or not w4a16_mma.is_supported(x, num_rows):
        return False
    plan = choose_plan(m)
    num_units = int(triton.cdiv(num_rows, _ROWS)) * (k // w4a16.GROUP)
    return num_units >= plan.least_units * plan.programs_per_sm * sms


def run(
    x: torch.Tensor,
    words: torch.Tensor,
    scale: torch.Tensor,
    out: torch.Tensor | None = None,
    plan: RingPlan | None = None,
    early: bool = False,
) -> torch.Tensor:
    """Compute activations times packed weights.

    Shapes: x [M, K] bf16 or fp16, M ≤ 32, words [N, K / 8] int32, N ≥ 256, scale [K / 128, N] -> [M, N].
    `early` starts copying weights before the previous kernel has ended (Hopper and later).

    Assumes: launches on one device follow each other in one stream (they share counters); with `early`, nothing that
    still runs in the stream writes the weights.
    Raises: ValueError: the sizes differ, or are not those of this kernel.
    """
    w4a16.check_sizes(x, words, scale, out)
    m = x.shape[0]
    n = words.shape[0]
    if m > LARGEST_M or n < _ROWS:
        raise ValueError(
            f"{tuple(x.shape)} times {n} rows: the kernel takes up to {LARGEST_M} rows, and {_ROWS} rows of weights "
            "or more"
        )
    plan = plan or choose_plan(m)
    groups = words.shape[1] // 16
    tiles = triton.cdiv(n, _ROWS)
    num_units = tiles * groups
    units = units_per_program(num_units, num_sms(x.device.index or 0), plan.programs_per_sm)
    out = x.new_empty((m, n)) if out is None else out
    partial = x.new_empty((most_parts(groups, units), m, tiles * _ROWS), dtype=torch.float32)
    _ring_kernel[(triton.cdiv(num_units, units),)](
        x.view(torch.int32),
        words,
        scale,
        out,
        partial,
        _counter(x.device, tiles),
        m,
        n,
        words.shape[1],
        num_units,
        units,
        IS_BF16=x.dtype == torch.bfloat16,
        BLOCK_M=max(8, triton.next_power_of_2(m)),
        ROWS=_ROWS,
        STAGES=plan.stages,
        EARLY=early,
        num_warps=plan.warps,
        launch_pdl=early,
    )
    return out
