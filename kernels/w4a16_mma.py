"""W4A16 for few rows on NVIDIA's matrix units, with layouts chosen by hand (Gluon): the twin of `w4a16`.

A thread's words hold exactly the weights of its own fragment of the matrix instruction, in an order of k that the
activations follow: after three operations per pair of weights they are multiplied where they are. No shuffles and
no shared memory are needed between memory and the matrix unit.
"""

from dataclasses import dataclass
from typing import Final

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import mma_v2
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from advisor.kernels import w4a16
from advisor.kernels.backend import INTERPRET, num_sms

LARGEST_M: Final = 32
_WARPS: Final = 4
_ROWS: Final = 16 * _WARPS
"""Number of rows of one matrix instruction of every warp."""


@dataclass(frozen=True, slots=True)
class TilePlan:
    """Tile of a program, and how many programs run at once on a multiprocessor."""

    rows: int
    """Number of rows of weights of a tile. Activations are read once for all of them, so that twice the rows halve what
    the first cache delivers, which bounds 16 rows of activations and more."""
    programs_per_sm: int
    max_registers: int
    """Maximum number of registers per thread, with which these programs run at once."""


SHORT: Final = TilePlan(_ROWS, 3, 168)
"""Plan of small matrices, whose few units it divides most evenly. With seven programs of 72 registers an H100 takes 1.5
times as long for 16 rows and 2.2 times for 32, 57344 by 8192; for 8 rows 4 % less."""
TALL: Final = TilePlan(2 * _ROWS, 3, 168)
"""Plan of large matrices: 16 rows times 57344 by 8192 take 86 us on an H200, with `SHORT` 104."""
TALL_WIDE: Final = TilePlan(2 * _ROWS, 2, 255)
"""Plan of more than 16 rows of activations, whose results need registers: 32 rows times 28672 by 4096 take 39 us on an
H200, with `SHORT` 51, with `TALL` 56."""
_LEAST_UNITS: Final = 8
"""Least number of units of each program with which `TALL` pays; fewer are divided less evenly than those of `SHORT`."""
_TO_BF16 = gl.constexpr(
    """{
    .reg .b32 a<4>, one, zero_point;
    mov.b32 one, 0x3F803F80;
    mov.b32 zero_point, 0xC308C308;
    lop3.b32 a0, $8, 0x000F000F, 0x43004300, 0xEA;
    shr.u32 a1, $8, 4;
    lop3.b32 a1, a1, 0x000F000F, 0x43004300, 0xEA;
    shr.u32 a2, $8, 8;
    lop3.b32 a2, a2, 0x000F000F, 0x43004300, 0xEA;
    shr.u32 a3, $8, 12;
    lop3.b32 a3, a3, 0x000F000F, 0x43004300, 0xEA;
    fma.rn.bf16x2 a0, a0, one, zero_point;
    fma.rn.bf16x2 a1, a1, one, zero_point;
    fma.rn.bf16x2 a2, a2, one, zero_point;
    fma.rn.bf16x2 a3, a3, one, zero_point;
    mov.b32 {$0, $1}, a0;
    mov.b32 {$2, $3}, a1;
    mov.b32 {$4, $5}, a2;
    mov.b32 {$6, $7}, a3;
    }"""
)
"""Unpacking of weights to bf16. 128 + q has q as the last bits of a bf16; minus 136 it is q − 8, exactly."""
_TO_FP16 = gl.constexpr(
    """{
    .reg .b32 a<4>, zero_point;
    mov.b32 zero_point, 0x64086408;
    lop3.b32 a0, $8, 0x000F000F, 0x64006400, 0xEA;
    shr.u32 a1, $8, 4;
    lop3.b32 a1, a1, 0x000F000F, 0x64006400, 0xEA;
    shr.u32 a2, $8, 8;
    lop3.b32 a2, a2, 0x000F000F, 0x64006400, 0xEA;
    shr.u32 a3, $8, 12;
    lop3.b32 a3, a3, 0x000F000F, 0x64006400, 0xEA;
    sub.f16x2 a0, a0, zero_point;
    sub.f16x2 a1, a1, zero_point;
    sub.f16x2 a2, a2, zero_point;
    sub.f16x2 a3, a3, zero_point;
    mov.b32 {$0, $1}, a0;
    mov.b32 {$2, $3}, a1;
    mov.b32 {$4, $5}, a2;
    mov.b32 {$6, $7}, a3;
    }"""
)
"""Unpacking of weights to fp16. 1024 + q has q as the last bits of an fp16; minus 1032 it is q − 8, exactly."""
_OPERANDS = gl.constexpr("=h,=h,=h,=h,=h,=h,=h,=h,r")
_EIGHT_BF16 = gl.constexpr((gl.bfloat16,) * 8)
_EIGHT_FP16 = gl.constexpr((gl.float16,) * 8)
# Renamed in Triton 3.7.
_barrier = gl.barrier if hasattr(gl, "barrier") else gl.thread_barrier


@gluon.constexpr_function
def layout_of_words(num_warps, rows):
    """Return the layout that gives one thread rows g and g + 8 of each instruction, and four neighbouring words of
    each row."""
    warps = [[16 << bit, 0] for bit in range(num_warps.bit_length() - 1)]
    further = [[16 * num_warps << bit, 0] for bit in range((rows // (16 * num_warps)).bit_length() - 1)]
    return gl.DistributedLinearLayout(
        reg_bases=[[0, 1], [0, 2], [8, 0], *further],
        lane_bases=[[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]],
        warp_bases=warps,
        block_bases=[],
        shape=[rows, 16],
    )


@gluon.constexpr_function
def layout_of_x(num_warps, block_m, width):
    """Return the layout that gives a thread the activations of its weights: eight neighbours at a time of `width`,
    which is half a group or a whole one, row g and every eighth."""
    rows = [[8 << bit, 0] for bit in range((block_m // 8).bit_length() - 1)]
    rows = ([[0, 64]] if width == 128 else []) + rows
    return gl.DistributedLinearLayout(
        reg_bases=[[0, 1], [0, 2], [0, 4], [0, 32], *rows],
        lane_bases=[[0, 8], [0, 16], [1, 0], [2, 0], [4, 0]],
        warp_bases=[[0, 0]] * (num_warps.bit_length() - 1),
        block_bases=[],
        shape=[block_m, width],
    )


@gluon.jit
def half_fragment(pairs, layout: gl.constexpr):
    """Return the fragment [rows, 64] of the weights of half a group, from pairs of neighbours [rows, 16, 2, 2]."""
    rows: gl.constexpr = pairs.shape[0]
    # Indices of a weight: thread c of four, word w of the thread's four, half e of a pair, pair i.
    ncwei = gl.reshape(pairs, [rows, 4, 4, 2, 2])
    return gl.convert_layout(gl.reshape(gl.permute(ncwei, [0, 2, 4, 1, 3]), [rows, 64]), layout)


@gluon.jit
def unpack(words, IS_BF16: gl.constexpr):
    """Return (q − 8) of a group's first and last 64 weights as pairs of neighbours [rows, 16, 2, 2], from the words
    [rows, 16]."""
    if IS_BF16:
        p0, p4, p1, p5, p2, p6, p3, p7 = gl.inline_asm_elementwise(
            _TO_BF16, _OPERANDS, [words], dtype=_EIGHT_BF16, is_pure=True, pack=1
        )
    else:
        p0, p4, p1, p5, p2, p6, p3, p7 = gl.inline_asm_elementwise(
            _TO_FP16, _OPERANDS, [words], dtype=_EIGHT_FP16, is_pure=True, pack=1
        )
    return gl.join(gl.join(p0, p4), gl.join(p1, p5)), gl.join(gl.join(p2, p6), gl.join(p3, p7))


@gluon.jit
def _activations(x_places, BLOCK_M: gl.constexpr, layout: gl.constexpr):
    """Load the activations of half a group as a fragment [64, BLOCK_M], in the order of the weights."""
    nicwe = gl.reshape(gl.load(x_places), [BLOCK_M, 2, 4, 4, 2])
    x_nk = gl.reshape(gl.permute(nicwe, [0, 3, 1, 2, 4]), [BLOCK_M, 64])
    return gl.convert_layout(gl.permute(x_nk, [1, 0]), layout)


@gluon.jit
def _load_words(w_places, tile, group, N, words_per_row, ROWS: gl.constexpr):
    """Load the words of one group of one tile, bypassing the first cache, where the activations stay.

    The last tile, and any beyond it, moves up to end with the last row.
    """
    first_row = min(tile * ROWS, N - ROWS).to(gl.int64)
    return gl.load(w_places + (first_row * words_per_row + group * 256), cache_modifier=".cg")


@gluon.jit
def _load_scale(scale_places, tile, group, N, ROWS: gl.constexpr):
    """Load the scales of one group of one tile."""
    return gl.load(scale_places + (group * N + min(tile * ROWS, N - ROWS)))


@gluon.jit
def _multiply(
    acc,
    words,
    scale,
    x_places,
    group,
    IS_BF16: gl.constexpr,
    BLOCK_M: gl.constexpr,
    a_layout: gl.constexpr,
    b_layout: gl.constexpr,
):
    """Return acc + scale · (weights of one group · activations)."""
    low, high = unpack(words, IS_BF16)
    first = half_fragment(low, a_layout)
    last = half_fragment(high, a_layout)
    # Half a group at a time: the activations of a whole one would fill 64 registers at 32 rows.
    product = mma_v2(first, _activations(x_places + group * 128, BLOCK_M, b_layout), gl.zeros_like(acc))
    product = mma_v2(last, _activations(x_places + group * 128 + 64, BLOCK_M, b_layout), product)
    return acc + product * scale.to(gl.float32)[:, None]


@gluon.jit
def store_tile(acc, tile, pairs, units_per_program, rows, columns, out_ptr, part_ptr, count_ptr, M, N, ROWS):
    """Store a tile, or this program's part of it; the last program of a tile to finish adds up all parts."""
    first = tile * pairs // units_per_program
    num_parts = ((tile + 1) * pairs - 1) // units_per_program - first + 1
    mask = (columns < M)[None, :] & (rows >= 0)[:, None]
    out = out_ptr + min(tile * ROWS, N - ROWS) + columns[None, :] * N + rows[:, None]
    if num_parts == 1:
        gl.store(out, acc.to(out_ptr.dtype.element_ty), mask=mask)
    else:
        # Rows that two tiles share have a place in each, because parts of one must not mix with those of the other.
        num_places = (N + ROWS - 1) // ROWS * ROWS
        parts = part_ptr + tile * ROWS + columns[None, :] * num_places + rows[:, None]
        gl.store(parts + (gl.program_id(0) - first) * M * num_places, acc, mask=mask)
        _barrier()
        if gl.atomic_add(count_ptr + tile, 1) == num_parts - 1:
            total = gl.zeros_like(acc)
            for part in range(num_parts):
                total += gl.load(parts + part * M * num_places, mask=mask, other=0.0, cache_modifier=".cg")
            gl.store(out, total.to(out_ptr.dtype.element_ty), mask=mask)
            gl.store(count_ptr + tile, 0)


@gluon.jit
def wait_for_x(EARLY: gl.constexpr):
    """Wait until the previous kernel has written the activations. No kernel writes weights, so their first words are
    loaded before it has ended."""
    if EARLY:
        gdc_launch_dependents()
        gdc_wait()


@gluon.jit
def _mma_kernel(
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
    EARLY: gl.constexpr,
    num_warps: gl.constexpr,
):
    """Multiply an equal number of units in every program; a unit is a pair of groups of k of one tile of rows."""
    acc_layout: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [num_warps, 1], [16, 8])
    a_layout: gl.constexpr = gl.DotOperandLayout(0, acc_layout, 2)
    b_layout: gl.constexpr = gl.DotOperandLayout(1, acc_layout, 2)
    x_layout: gl.constexpr = layout_of_x(num_warps, BLOCK_M, 64)
    words_layout: gl.constexpr = layout_of_words(num_warps, ROWS)
    pairs = words_per_row // 32
    begin = gl.program_id(0) * units_per_program
    end = min(begin + units_per_program, num_units)
    rows = gl.arange(0, ROWS, layout=gl.SliceLayout(1, words_layout))
    words = gl.arange(0, 16, layout=gl.SliceLayout(0, words_layout))
    x_rows = gl.minimum(gl.arange(0, BLOCK_M, layout=gl.SliceLayout(1, x_layout)), M - 1)
    x_columns = gl.arange(0, 64, layout=gl.SliceLayout(0, x_layout))
    out_rows = gl.arange(0, ROWS, layout=gl.SliceLayout(1, acc_layout))
    columns = gl.arange(0, BLOCK_M, layout=gl.SliceLayout(0, acc_layout))
    w_places = w_ptr + (rows // 16 * (16 * words_per_row) + rows % 16 * 16)[:, None] + words[None, :]
    # Rows of x beyond the end repeat the last one; their results are never stored.
    x_places = x_ptr + x_rows[:, None] * (words_per_row * 8) + x_columns[None, :]
    # While one group is multiplied, the words and scales of the next are loaded.
    tile = begin // pairs
    group = begin % pairs * 2
    even = _load_words(w_places, tile, group, N, words_per_row, ROWS)
    odd = _load_words(w_places, tile, group + 1, N, words_per_row, ROWS)
    even_scale = _load_scale(scale_ptr + out_rows, tile, group, N, ROWS)
    odd_scale = _load_scale(scale_ptr + out_rows, tile, group + 1, N, ROWS)
    acc = gl.zeros([ROWS, BLOCK_M], gl.float32, acc_layout)
    wait_for_x(EARLY)
    for unit in range(begin, end):
        is_done = group + 2 == 2 * pairs
        next_tile = tile + is_done.to(gl.int32)
        next_group = (group + 2) * (1 - is_done.to(gl.int32))
        acc = _multiply(acc, even, even_scale, x_places, group, IS_BF16, BLOCK_M, a_layout, b_layout)
        even = _load_words(w_places, next_tile, next_group, N, words_per_row, ROWS)
        even_scale = _load_scale(scale_ptr + out_rows, next_tile, next_group, N, ROWS)
        acc = _multiply(acc, odd, odd_scale, x_places, group + 1, IS_BF16, BLOCK_M, a_layout, b_layout)
        odd = _load_words(w_places, next_tile, next_group + 1, N, words_per_row, ROWS)
        odd_scale = _load_scale(scale_ptr + out_rows, next_tile, next_group + 1, N, ROWS)
        if is_done | (unit == end - 1):
            store_tile(
                acc,
                tile,
                pairs,
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
        tile = next_tile
        group = next_group


_counters: dict[torch.device, torch.Tensor] = {}


def tile_counter(device: torch.device, num_tiles: int) -> torch.Tensor:
    """Return zeros, one per tile; every launch leaves them at zero again."""
    found = _counters.get(device)
    if found is None or found.numel() < num_tiles:
        found = _counters[device] = torch.zeros(max(4096, num_tiles), dtype=torch.int32, device=device)
    return found


def is_supported(x: torch.Tensor, num_rows: int) -> bool:
    """Whether this kernel runs: few rows of 16-bit numbers, 64 rows of weights or more, K a multiple of 256, and
    NVIDIA from Ampere on."""
    if INTERPRET or x.device.type != "cuda" or torch.version.hip is not None:
        return False
    is_16_bit = x.dtype in (torch.bfloat16, torch.float16)
    fits = x.shape[0] <= LARGEST_M and num_rows >= _ROWS and x.shape[1] % (2 * w4a16.GROUP) == 0
    return is_16_bit and fits and torch.cuda.get_device_capability(x.device) >= (8, 0)


def units_per_program(num_units: int, sms: int, programs_per_sm: int) -> int:
    """Number of units of each program [count]: all programs run at once, with equal numbers of units."""
    return int(triton.cdiv(num_units, min(num_units, programs_per_sm * sms)))


def most_parts(units_per_tile: int, units: int) -> int:
    """Largest number of programs that can share one tile when each has `units` units [count]."""
    return int(triton.cdiv(units_per_tile - 1, units)) + 1


def choose_plan(m: int, n: int, k: int, sms: int) -> TilePlan:
    """Return the plan that takes the least time for `m` rows of activations."""
    if n < TALL.rows:
        return SHORT
    if m > 16:
        return TALL_WIDE
    num_units = int(triton.cdiv(n, TALL.rows)) * (k // (2 * w4a16.GROUP))
    return TALL if num_units >= _LEAST_UNITS * TALL.programs_per_sm * sms else SHORT


def run(
    x: torch.Tensor,
    words: torch.Tensor,
    scale: torch.Tensor,
    out: torch.Tensor | None = None,
    plan: TilePlan | None = None,
    early: bool = False,
) -> torch.Tensor:
    """Compute activations times packed weights.

    Shapes: x [M, K] bf16 or fp16, M ≤ 32, K a multiple of 256, words [N, K / 8] int32, N ≥ 64, scale [K / 128, N]
    -> [M, N].
    `early` starts loading weights before the previous kernel has ended (Hopper and later).

    Assumes: launches on one device follow each other in one stream (they share counters); with `early`, nothing that
    still runs in the stream writes the weights.
    Raises: ValueError: the sizes differ, or are not those of this kernel.
    """
    w4a16.check_sizes(x, words, scale, out)
    m = x.shape[0]
    n = words.shape[0]
    least = plan.rows if plan else _ROWS
    if m > LARGEST_M or n < least or x.shape[1] % (2 * w4a16.GROUP):
        raise ValueError(
            f"{tuple(x.shape)} times {n} rows: the kernel takes up to {LARGEST_M} rows of a multiple of "
            f"{2 * w4a16.GROUP}, and {least} rows of weights or more"
        )
    sms = num_sms(x.device.index or 0)
    plan = plan or choose_plan(m, n, x.shape[1], sms)
    pairs = words.shape[1] // 32
    tiles = triton.cdiv(n, plan.rows)
    num_units = tiles * pairs
    units = units_per_program(num_units, sms, plan.programs_per_sm)
    out = x.new_empty((m, n)) if out is None else out
    partial = x.new_empty((most_parts(pairs, units), m, tiles * plan.rows), dtype=torch.float32)
    _mma_kernel[(triton.cdiv(num_units, units),)](
        x,
        words,
        scale,
        out,
        partial,
        tile_counter(x.device, tiles),
        m,
        n,
        words.shape[1],
        num_units,
        units,
        IS_BF16=x.dtype == torch.bfloat16,
        BLOCK_M=max(8, triton.next_power_of_2(m)),
        ROWS=plan.rows,
        EARLY=early,
        num_warps=_WARPS,
        launch_pdl=early,
        maxnreg=plan.max_registers,
    )
    return out
