"""W4A16 for a single row of activations and many rows of weights, on the integer matrix unit (Gluon).

A four-bit weight becomes a byte in one or two operations, a 16-bit float in two or three and a correction. So the
weights are multiplied as bytes. The activations of a group become integers of 21 bits and a sign, relative to the
largest of them, and three bytes each: a single row would fill one of the instruction's eight columns, the bytes fill
three. All sums of a group are exact, and the error of an activation is 2⁻²² of the largest one, less than that of sums
in fp32.

Every program first splits the activations, into shared memory, and stays. Its warps share the k of 16 rows of weights,
as in `w4a16_row`; words and scales of the next groups are copied into a ring in shared memory meanwhile, across tiles.
"""

from dataclasses import dataclass
from typing import Final

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy, mma_v2

from advisor.kernels import w4a16
from advisor.kernels.backend import HALVES, INTERPRET, num_sms
from advisor.kernels.w4a16_mma import _wait_for_x

LARGEST_K: Final = 8192
"""Largest number of activations of which three programs fit on a multiprocessor: they take four bytes each."""
_LEAST_TILES: Final = 4
"""Least number of tiles of each program with which this kernel is faster: a program's first microsecond splits the
activations. 28672 by 4096 take 17.1 us on an H200, with `w4a16_row` 19.7; 10240 by 8192 take 14.3, with `w4a16_row`
13.7."""
_GROUPS_AT_ONCE: Final = 4
"""Largest number of groups of each slice that are split at once: their activations are held in registers."""


@dataclass(frozen=True, slots=True)
class BytePlan:
    """Number of warps that share a tile's k, what is copied ahead, and how many programs run at once."""

    slices: int
    stages: int
    """Number of groups of every slice in shared memory."""
    max_registers: int | None
    programs_per_sm: int


PLAN: Final = BytePlan(8, 5, 64, 3)
"""Plan of all sizes. 57344 by 8192 take 59 us on an H200; with 16 warps and one program 61, with 4 warps and six 60."""
_INTEGER_BITS = gl.constexpr(21)
"""Number of bits of an activation's integer, without the sign."""
_SMALLEST_BITS = gl.constexpr(0x0D800000)
"""Bits of 2⁻¹⁰⁰ in fp32: the least that a group's largest activation counts as, so that its inverse is finite."""
_ROUNDER = gl.constexpr(12582912.0)
"""1.5 · 2²³: added to a float below 2²², it leaves the nearest integer in the last bits of the sum."""
_ROUNDER_BITS = gl.constexpr(0x4B400000)
_ALL_BYTES_128 = gl.constexpr(0x808080)
_TO_INT8 = gl.constexpr(
    """{
    .reg .b32 low;
    shl.b32 low, $8, 4;
    lop3.b32 $0, low, 0xF0F0F0F0, 0x80808080, 0x6A;
    lop3.b32 $1, $8, 0xF0F0F0F0, 0x80808080, 0x6A;
    shl.b32 low, $9, 4;
    lop3.b32 $2, low, 0xF0F0F0F0, 0x80808080, 0x6A;
    lop3.b32 $3, $9, 0xF0F0F0F0, 0x80808080, 0x6A;
    shl.b32 low, $10, 4;
    lop3.b32 $4, low, 0xF0F0F0F0, 0x80808080, 0x6A;
    lop3.b32 $5, $10, 0xF0F0F0F0, 0x80808080, 0x6A;
    shl.b32 low, $11, 4;
    lop3.b32 $6, low, 0xF0F0F0F0, 0x80808080, 0x6A;
    lop3.b32 $7, $11, 0xF0F0F0F0, 0x80808080, 0x6A;
    }"""
)
"""Unpacking of four words. A nibble q as the high bits of a byte, its highest bit turned, is 16 · (q − 8)."""
_TO_INT8_OPERANDS = gl.constexpr("=&r,=&r,=&r,=&r,=&r,=&r,=&r,=&r,r,r,r,r")
_EIGHT_INT8 = gl.constexpr((gl.int8,) * 8)
_TO_DIGITS = gl.constexpr(
    """{
    .reg .b32 first, last, both;
    prmt.b32 first, $3, $4, 0x5140;
    prmt.b32 last, $5, $6, 0x5140;
    prmt.b32 both, first, last, 0x5410;
    xor.b32 $0, both, 0x80808080;
    prmt.b32 both, first, last, 0x7632;
    xor.b32 $1, both, 0x80808080;
    prmt.b32 first, $3, $4, 0x0062;
    prmt.b32 last, $5, $6, 0x0062;
    prmt.b32 both, first, last, 0x5410;
    xor.b32 $2, both, 0x80808080;
    }"""
)
"""Bytes 0, 1 and 2 of four integers, each minus 128. Of v + 128 · (1 + 256 + 65536) they are the digits of v."""
_TO_DIGITS_OPERANDS = gl.constexpr("=&r,=&r,=&r,r,r,r,r")
_THREE_INT8 = gl.constexpr((gl.int8,) * 3)


@gluon.constexpr_function
def _words_layout(slices):
    """Return the layout of words [slices, 16 rows, 16]: a thread has four neighbouring words of rows g and g + 8."""
    return gl.DistributedLinearLayout(
        reg_bases=[[0, 0, 1], [0, 0, 2], [0, 8, 0]],
        lane_bases=[[0, 0, 4], [0, 0, 8], [0, 1, 0], [0, 2, 0], [0, 4, 0]],
        warp_bases=[[1 << bit, 0, 0] for bit in range(slices.bit_length() - 1)],
        block_bases=[],
        shape=[slices, 16, 16],
    )


@gluon.constexpr_function
def _scales_layout(slices):
    """Return the layout of scales [slices, 16 rows] that copies two neighbours a thread, the least that can be."""
    places = [[0, 2], [0, 4], [0, 8]] + [[1 << bit, 0] for bit in range(slices.bit_length() - 1)]
    num_warp_bits = slices.bit_length() - 1
    return gl.DistributedLinearLayout(
        reg_bases=[[0, 1]],
        lane_bases=(places + [[0, 0]] * 5)[:5],
        warp_bases=(places[5:] + [[0, 0]] * num_warp_bits)[:num_warp_bits],
        block_bases=[],
        shape=[slices, 16],
    )


@gluon.constexpr_function
def _x_layout(slices, groups, is_by_digit):
    """Return a layout of activations [groups, slices, 128]: four neighbours and those 64 later belong to one thread.

    An activation of a group is number 32 i + 8 c + 2 w + e: thread c of four, word w of the thread's four, pair
    i = (i1, i0), half e. By digit, the bits i1 and e come first: those activations meet the bytes of one register.
    """
    in_order = [[0, 0, 1], [0, 0, 2], [0, 0, 64]]
    by_digit = [[0, 0, 64], [0, 0, 1], [0, 0, 2]]
    num_warp_bits = slices.bit_length() - 1
    places = [[0, 1 << bit, 0] for bit in range(num_warp_bits)]
    places += [[1 << bit, 0, 0] for bit in range(groups.bit_length() - 1)]
    warps = (places[1:] + [[0, 0, 0]] * num_warp_bits)[:num_warp_bits]
    return gl.DistributedLinearLayout(
        reg_bases=(by_digit if is_by_digit else in_order) + places[1 + num_warp_bits :],
        lane_bases=([[0, 0, 4], [0, 0, 8], [0, 0, 16], [0, 0, 32], *places[:1]] + [[0, 0, 0]] * 5)[:5],
        warp_bases=warps,
        block_bases=[],
        shape=[groups, slices, 128],
    )


@gluon.constexpr_function
def _digits_layout(slices):
    """Return the layout of a group's digits [slices, i0, two halves, 4 columns, c and 16 bytes] that the matrix
    instruction wants: thread 4 n + c has column n. Columns 4 to 7 repeat the first four."""
    return gl.DistributedLinearLayout(
        reg_bases=[[0, 0, 0, 0, 1], [0, 0, 0, 0, 2], [0, 0, 0, 0, 4], [0, 0, 0, 0, 8], [0, 1, 0, 0, 0]],
        lane_bases=[[0, 0, 0, 0, 16], [0, 0, 0, 0, 32], [0, 0, 0, 1, 0], [0, 0, 0, 2, 0], [0, 0, 1, 0, 0]],
        warp_bases=[[1 << bit, 0, 0, 0, 0] for bit in range(slices.bit_length() - 1)],
        block_bases=[],
        shape=[slices, 2, 2, 4, 64],
    )


@gluon.jit
def _split_x(
    x_ptr, digits_smem, steps_smem, SLICES: gl.constexpr, GROUPS: gl.constexpr, AT_ONCE: gl.constexpr
):
    """Store the three digits of every activation, and the step of each group: what a digit of 1 stands for, over 16.

    The largest activation is found among bits, whose order is that of numbers and which keep what is no number.
    """
    in_order: gl.constexpr = _x_layout(SLICES, AT_ONCE, False)
    by_digit: gl.constexpr = _x_layout(SLICES, AT_ONCE, True)
    groups = gl.arange(0, AT_ONCE, layout=gl.SliceLayout(1, gl.SliceLayout(2, in_order)))
    slices = gl.arange(0, SLICES, layout=gl.SliceLayout(0, gl.SliceLayout(2, in_order)))
    places = gl.arange(0, 128, layout=gl.SliceLayout(0, gl.SliceLayout(1, in_order)))
    for first in gl.static_range(0, GROUPS, AT_ONCE):
        group = gl.minimum(groups + first, GROUPS - 1)
        row = slices[None, :, None] * GROUPS + group[:, None, None]
        x = gl.load(x_ptr + row * 128 + places[None, None, :]).to(gl.float32)
        bits = gl.max(x.to(gl.int32, bitcast=True) & 0x7FFFFFFF, axis=2)
        largest = gl.maximum(bits, _SMALLEST_BITS).to(gl.float32, bitcast=True)
        scaled = x * ((1 << _INTEGER_BITS) / largest)[:, :, None]
        shifted = (scaled + _ROUNDER).to(gl.int32, bitcast=True) - (_ROUNDER_BITS - _ALL_BYTES_128)
        d0, d1, d2 = gl.inline_asm_elementwise(
            _TO_DIGITS,
            _TO_DIGITS_OPERANDS,
            [gl.convert_layout(shifted, by_digit)],
            dtype=_THREE_INT8,
            is_pure=True,
            pack=4,
        )
        # The fourth column repeats the third and counts nothing.
        columns = gl.join(gl.join(d0, d1), gl.join(d2, d2))
        # groups, slices, i1, i0, c, w, e, n0, n1 -> groups, slices, i0, (n1, n0), (c, w, e, i1)
        split = gl.reshape(columns, [AT_ONCE, SLICES, 2, 2, 4, 4, 2, 2, 2])
        turned = gl.permute(split, [0, 1, 3, 8, 7, 4, 5, 6, 2])
        digits_smem.index(first // AT_ONCE).store(gl.reshape(turned, [AT_ONCE * SLICES, 2, 4, 64]))
        step = largest * (1.0 / (1 << (_INTEGER_BITS + 4)))
        steps_smem.index(first // AT_ONCE).store(gl.reshape(step, [AT_ONCE * SLICES]))


@gluon.jit
def _copy_unit(ring, places, unit, num_tiles, N, SLICES: gl.constexpr, GROUPS: gl.constexpr):
    """Start the copies of one group of every slice of one tile."""
    w_smem, scale_smem = ring
    w_places, scale_places = places
    STAGES: gl.constexpr = w_smem.shape[0]
    tile = gl.minimum(gl.program_id(0) + unit // GROUPS * gl.num_programs(0), num_tiles - 1)
    group = unit % GROUPS
    words = tile.to(gl.int64) * (SLICES * GROUPS * 256) + group * 256
    stage = unit % STAGES
    async_copy.async_copy_global_to_shared(w_smem.index(stage), w_places + words, cache_modifier=".cg")
    async_copy.async_copy_global_to_shared(scale_smem.index(stage), scale_places + (tile * 16 + group * N))


@gluon.jit
def _weights(words, layout: gl.constexpr):
    """Return 16 · (q − 8) of words [slices, 16, 16] as bytes [slices, 16, 128], where they are multiplied.

    The instruction takes four words of a thread and returns a register of low and one of high nibbles of each; Triton
    is told that the four bytes of a register lie where the four words did.
    """
    l0, h0, l1, h1, l2, h2, l3, h3 = gl.inline_asm_elementwise(
        _TO_INT8, _TO_INT8_OPERANDS, [words], dtype=_EIGHT_INT8, is_pure=True, pack=4
    )
    first = gl.join(gl.join(l0, h0), gl.join(l1, h1))
    last = gl.join(gl.join(l2, h2), gl.join(l3, h3))
    # slices, rows, thread c, byte, low or high, w0, w1 -> slices, rows, (w1, w0, low or high, c, byte)
    nibbles = gl.reshape(gl.join(first, last), [words.shape[0], 16, 4, 4, 2, 2, 2])
    turned = gl.permute(nibbles, [0, 1, 6, 5, 4, 2, 3])
    return gl.convert_layout(gl.reshape(turned, [words.shape[0], 16, 128]), layout)


@gluon.jit
def _activations(digits_smem, group, SLICES: gl.constexpr, layout: gl.constexpr):
    """Return the digits of one group of every slice as bytes [slices, 128, 8 columns]."""
    loaded: gl.constexpr = _digits_layout(SLICES)
    digits = gl.expand_dims(digits_smem.index(group).load(gl.SliceLayout(2, loaded)), 2)
    digits, _zeros = gl.broadcast(digits, gl.zeros([SLICES, 2, 2, 4, 64], gl.int8, loaded))
    # slices, i0, column, thread c, w, byte -> slices, (w, i0, c, byte), column
    split = gl.reshape(digits, [SLICES, 2, 8, 4, 4, 4])
    turned = gl.permute(split, [0, 4, 1, 3, 5, 2])
    return gl.convert_layout(gl.reshape(turned, [SLICES, 128, 8]), layout)


@gluon.jit
def _store(acc, y_smem, out_ptr, tile, SLICES: gl.constexpr):
    """Store the results of a tile: the sum over digits, each with its weight, and over slices."""
    columns = gl.arange(0, 8, layout=gl.SliceLayout(0, gl.SliceLayout(1, acc.type.layout)))
    weight = gl.where(columns == 0, 1.0, gl.where(columns == 1, 256.0, gl.where(columns == 2, 65536.0, 0.0)))
    y_smem.store(gl.sum(acc * weight[None, None, :], axis=2))
    layout: gl.constexpr = gl.BlockedLayout([SLICES, 1], [1, 32], [1, SLICES], [0, 1])
    y = gl.sum(y_smem.load(layout), axis=0)
    out = out_ptr + tile * 16 + gl.arange(0, 16, layout=gl.SliceLayout(0, layout))
    gl.store(out, y.to(out_ptr.dtype.element_ty))


@gluon.jit
def _places_of(w_ptr, scale_ptr, N, SLICES: gl.constexpr, GROUPS: gl.constexpr):
    """Return the places of the words and of the scales of every slice's first group, in the first tile."""
    words_layout: gl.constexpr = _words_layout(SLICES)
    scales_layout: gl.constexpr = _scales_layout(SLICES)
    slices = gl.arange(0, SLICES, layout=gl.SliceLayout(1, gl.SliceLayout(2, words_layout)))
    rows = gl.arange(0, 16, layout=gl.SliceLayout(0, gl.SliceLayout(2, words_layout)))
    words = gl.arange(0, 16, layout=gl.SliceLayout(0, gl.SliceLayout(1, words_layout)))
    w_places = (
        w_ptr + (slices * (GROUPS * 256))[:, None, None] + (rows * 16)[None, :, None] + words[None, None, :]
    )
    scale_slices = gl.arange(0, SLICES, layout=gl.SliceLayout(1, scales_layout))
    scale_rows = gl.arange(0, 16, layout=gl.SliceLayout(0, scales_layout))
    return w_places, scale_ptr + scale_slices[:, None] * (GROUPS * N) + scale_rows[None, :]


@gluon.jit
def _row_kernel(
    x_ptr,
    w_ptr,
    scale_ptr,
    out_ptr,
    N,
    num_tiles,
    GROUPS: gl.constexpr,
    AT_ONCE: gl.constexpr,
    STAGES: gl.constexpr,
    EARLY: gl.constexpr,
    num_warps: gl.constexpr,
):
    """Multiply every tile of this program, `GROUPS` groups of each slice; a warp has one slice."""
    SLICES: gl.constexpr = num_warps
    PADDED: gl.constexpr = (GROUPS + AT_ONCE - 1) // AT_ONCE * AT_ONCE
    acc_layout: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [SLICES, 1, 1], [1, 16, 8])
    rows_layout: gl.constexpr = gl.SliceLayout(2, acc_layout)
    in_one: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    in_two: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    in_three: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [2, 1, 0])
    in_four: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [3, 2, 1, 0])
    split_digits = gl.allocate_shared_memory(
        gl.int8, [PADDED // AT_ONCE, AT_ONCE * SLICES, 2, 4, 64], in_four
    )
    split_steps = gl.allocate_shared_memory(gl.float32, [PADDED // AT_ONCE, AT_ONCE * SLICES], in_one)
    digits_smem = split_digits._reinterpret(gl.int8, [PADDED, SLICES, 2, 4, 64], in_four)
    steps_smem = split_steps._reinterpret(gl.float32, [PADDED, SLICES], in_one)
    w_smem = gl.allocate_shared_memory(gl.int32, [STAGES, SLICES, 16, 16], in_three)
    scale_smem = gl.allocate_shared_memory(scale_ptr.dtype.element_ty, [STAGES, SLICES, 16], in_two)
    y_smem = gl.allocate_shared_memory(gl.float32, [2, SLICES, 16], in_two)
    ring = (w_smem, scale_smem)
    places = _places_of(w_ptr, scale_ptr, N, SLICES, GROUPS)
    num_units = (num_tiles - gl.program_id(0) + gl.num_programs(0) - 1) // gl.num_programs(0) * GROUPS
    for unit in gl.static_range(STAGES - 1):
        if unit < num_units:
            _copy_unit(ring, places, unit, num_tiles, N, SLICES, GROUPS)
        async_copy.commit_group()
    _wait_for_x(EARLY)
    _split_x(x_ptr, split_digits, split_steps, SLICES, GROUPS, AT_ONCE)
    acc = gl.zeros([SLICES, 16, 8], gl.float32, acc_layout)
    for unit in range(num_units):
        async_copy.wait_group(STAGES - 2)
        group = unit % GROUPS
        stage = unit % STAGES
        weights = _weights(
            w_smem.index(stage).load(_words_layout(SLICES)), gl.DotOperandLayout(0, acc_layout, 4)
        )
        x = _activations(digits_smem, group, SLICES, gl.DotOperandLayout(1, acc_layout, 4))
        product = mma_v2(weights, x, gl.zeros([SLICES, 16, 8], gl.int32, acc_layout))
        step = steps_smem.index(group).load(gl.SliceLayout(1, rows_layout))
        scale = scale_smem.index(stage).load(rows_layout).to(gl.float32) * step[:, None]
        acc += product.to(gl.float32) * scale[:, :, None]
        if group == GROUPS - 1:
            tile = gl.program_id(0) + unit // GROUPS * gl.num_programs(0)
            # Two places take turns, so that no warp waits until the others have read the tile before.
            _store(acc, y_smem.index(unit // GROUPS % 2), out_ptr, tile, SLICES)
            acc = gl.zeros_like(acc)
        if unit + STAGES - 1 < num_units:
            _copy_unit(ring, places, unit + STAGES - 1, num_tiles, N, SLICES, GROUPS)
        async_copy.commit_group()


def is_faster(x: torch.Tensor, num_rows: int, sms: int) -> bool:
    """Whether this kernel runs and takes less time than `w4a16_row`: one row of activations that divides into slices,
    and enough rows of weights for every program."""
    m, k = x.shape
    divides = m == 1 and k <= LARGEST_K and k % (PLAN.slices * w4a16.GROUP) == 0
    tiles = num_rows // w4a16.TILE_ROWS
    return divides and is_supported(x) and tiles >= _LEAST_TILES * PLAN.programs_per_sm * sms


def is_supported(x: torch.Tensor) -> bool:
    """Whether this kernel runs: 16-bit activations, and NVIDIA from Ampere on."""
    if INTERPRET or x.device.type != "cuda" or torch.version.hip is not None:
        return False
    return x.dtype in HALVES and torch.cuda.get_device_capability(x.device) >= (8, 0)


def run(
    x: torch.Tensor,
    words: torch.Tensor,
    scale: torch.Tensor,
    out: torch.Tensor | None = None,
    plan: BytePlan = PLAN,
    early: bool = False,
) -> torch.Tensor:
    """Compute one row of activations times packed weights.

    Shapes: x [1, K] bf16 or fp16, K a multiple of 128 · slices, words [N, K / 8] int32, N a multiple of 16, scale
    [K / 128, N] -> [1, N].
    `early` starts copying weights before the previous kernel has ended (Hopper and later).

    Assumes: with `early`, nothing that still runs in the stream writes the weights.
    Raises: ValueError: the sizes differ, several rows, or K that the plan cannot slice.
    """
    w4a16.check_sizes(x, words, scale, out)
    n = words.shape[0]
    if x.shape[0] != 1 or x.shape[1] % (plan.slices * w4a16.GROUP):
        raise ValueError(f"{tuple(x.shape)} times {n} rows does not go into {plan.slices} slices")
    out = x.new_empty((1, n)) if out is None else out
    groups = words.shape[1] // (16 * plan.slices)
    tiles = n // w4a16.TILE_ROWS
    _row_kernel[(min(tiles, plan.programs_per_sm * num_sms(x.device.index or 0)),)](
        x,
        words,
        scale,
        out,
        n,
        tiles,
        GROUPS=groups,
        AT_ONCE=min(_GROUPS_AT_ONCE, triton.next_power_of_2(groups)),
        STAGES=plan.stages,
        EARLY=early,
        num_warps=plan.slices,
        launch_pdl=early,
        maxnreg=plan.max_registers,
    )
    return out
