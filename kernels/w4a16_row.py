"""W4A16 for a single row of activations (Gluon): the warps of a program share a tile's k, not its rows.

The matrix instruction multiplies 16 rows of weights by eight columns, and one row of activations fills one of them.
Here all columns hold the same slice of the activations, another one in every warp, and warp s multiplies slice s of the
weights of 16 rows. A program thus finishes its 16 outputs alone, by one sum through shared memory, where `w4a16_mma`
sums parts of several programs through device memory.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import mma_v2

from advisor.kernels import w4a16, w4a16_mma, w4a16_ring, w4a16_row_int8
from advisor.kernels.backend import num_sms
from advisor.kernels.w4a16_mma import _unpack, _wait_for_x, _words_layout, _x_layout

_ROWS: Final = w4a16.TILE_ROWS


@dataclass(frozen=True, slots=True)
class WarpPlan:
    """Number of warps that share a tile's k, and what each of them holds."""

    slices: int
    depth: int
    """Number of groups of every slice that are loaded ahead."""
    max_registers: int | None
    """Maximum number of registers per thread; a low number lets several programs run at once."""
    programs_per_sm: int


PLANS: Final = (WarpPlan(16, 1, 64, 2), WarpPlan(8, 1, 80, 3), WarpPlan(4, 2, 128, 4), WarpPlan(4, 2, 96, 5))
"""Plans by the number of programs that run at once: the fewer rows of weights, the more warps share one tile."""
_LEAST_FILLED: Final = 0.8
"""Minimum fraction of the first plan's programs that must have a tile."""
_WARP = gl.constexpr("""{
    .reg .u32 thread;
    mov.u32 thread, %tid.x;
    shr.u32 thread, thread, 5;
    add.u32 $0, thread, $1;
    }""")


@gluon.jit
def _own_warp(zeros):
    """Return the number of the executing warp in every element, although the layout repeats x in all warps."""
    return gl.inline_asm_elementwise(_WARP, "=r,r", [zeros], dtype=gl.int32, is_pure=True, pack=1)


@gluon.jit
def _load_ahead(w_places, scale_places, first, groups, N, DEPTH: gl.constexpr):
    """Load the words and scales of the next groups of every slice, up to the last group; words bypass the first cache,
    where the activations stay."""
    words = ()
    scales = ()
    for j in gl.static_range(DEPTH):
        is_there = first + j < groups
        loaded = gl.load(w_places + (first + j) * 256, mask=is_there, other=0, cache_modifier=".cg")
        words = words + (loaded,)  # type: ignore[assignment]  # noqa: RUF005
        scale = gl.load(scale_places + (first + j) * N, mask=is_there, other=0.0)
        scales = scales + (scale,)  # type: ignore[assignment]  # noqa: RUF005
    return words, scales


@gluon.jit
def _multiply(
    acc, words, scale, x_places, group, IS_BF16: gl.constexpr, a_layout: gl.constexpr, b_layout: gl.constexpr
):
    """Return acc + scale · (weights of one group of every slice · its activations)."""
    x = gl.load(x_places + group * 128)
    nicwe = gl.reshape(x, [8, 2, 2, 4, 4, 2])
    x_nk = gl.reshape(gl.permute(nicwe, [0, 4, 1, 2, 3, 5]), [8, 128])
    x_kn = gl.convert_layout(gl.permute(x_nk, [1, 0]), b_layout)
    low, high = _unpack(words, IS_BF16)
    # Indices of a weight in its group: thread c of four, word w of the thread's four, pair i = (i1, i0), half e.
    ncweii = gl.reshape(gl.join(low, high), [words.shape[0], 4, 4, 2, 2, 2])
    whole = gl.reshape(gl.permute(ncweii, [0, 2, 5, 4, 1, 3]), [words.shape[0], 128])
    weights = gl.convert_layout(whole, a_layout)
    product = mma_v2(weights, x_kn, gl.zeros_like(acc))
    return acc + product * scale.to(gl.float32)[:, None]


@gluon.jit
def _row_kernel(
    x_ptr,
    w_ptr,
    scale_ptr,
    out_ptr,
    N,
    words_per_row,
    groups,
    IS_BF16: gl.constexpr,
    DEPTH: gl.constexpr,
    IS_ONE_STEP: gl.constexpr,
    EARLY: gl.constexpr,
    num_warps: gl.constexpr,
):
    """Multiply `groups` of each slice; a row of a block is one row of weights in one slice."""
    acc_layout: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [num_warps, 1], [16, 8])
    a_layout: gl.constexpr = gl.DotOperandLayout(0, acc_layout, 2)
    b_layout: gl.constexpr = gl.DotOperandLayout(1, acc_layout, 2)
    x_layout: gl.constexpr = _x_layout(num_warps, 8, 128)
    words_layout: gl.constexpr = _words_layout(num_warps, 16 * num_warps)
    rows = gl.arange(0, 16 * num_warps, layout=gl.SliceLayout(1, words_layout))
    words = gl.arange(0, 16, layout=gl.SliceLayout(0, words_layout))
    x_columns = gl.arange(0, 128, layout=gl.SliceLayout(0, x_layout))
    x_rows = _own_warp(gl.zeros([8], gl.int32, gl.SliceLayout(1, x_layout)))
    out_rows = gl.arange(0, 16 * num_warps, layout=gl.SliceLayout(1, acc_layout))
    out_columns = gl.arange(0, 8, layout=gl.SliceLayout(0, acc_layout))
    first_row = gl.program_id(0) * 16
    w_rows = first_row.to(gl.int64) * words_per_row + rows // 16 * (groups * 256) + rows % 16 * 16
    w_places = w_ptr + w_rows[:, None] + words[None, :]
    scale_places = scale_ptr + (out_rows // 16) * groups * N + first_row + out_rows % 16
    x_places = x_ptr + (x_rows * (groups * 128))[:, None] + x_columns[None, :]
    words_ahead, scales_ahead = _load_ahead(w_places, scale_places, 0, groups, N, DEPTH)
    acc = gl.zeros([16 * num_warps, 8], gl.float32, acc_layout)
    _wait_for_x(EARLY)
    if IS_ONE_STEP:
        for j in gl.static_range(DEPTH):
            acc = _multiply(acc, words_ahead[j], scales_ahead[j], x_places, j, IS_BF16, a_layout, b_layout)
    else:
        for first in range(0, groups, DEPTH):
            next_words = ()
            next_scales = ()
            for j in gl.static_range(DEPTH):
                group = min(first + j, groups - 1)
                acc = _multiply(
                    acc, words_ahead[j], scales_ahead[j], x_places, group, IS_BF16, a_layout, b_layout
                )
                loaded_words, loaded_scales = _load_ahead(
                    w_places, scale_places, first + DEPTH + j, groups, N, 1
                )
                next_words = next_words + loaded_words
                next_scales = next_scales + loaded_scales
            words_ahead = next_words
            scales_ahead = next_scales
    by_row = gl.sum(gl.where((out_columns == 0)[None, :], acc, 0.0), axis=1)
    y = gl.sum(gl.reshape(by_row, [num_warps, 16]), axis=0)
    out = out_ptr + first_row + gl.arange(0, 16, layout=y.type.layout)
    gl.store(out, y.to(out_ptr.dtype.element_ty))


def choose_plan(n: int, k: int, sms: int) -> WarpPlan | None:
    """Return the first plan whose programs, one per 16 rows of weights, all run at once, or the last plan; None if
    `w4a16_mma` is faster.

    The kernel of `w4a16_mma` gives every program an equal share at any size, but sums across programs, which costs
    2 µs.
    """
    tiles = n // _ROWS
    fitting = [plan for plan in PLANS if k % (plan.slices * w4a16.GROUP) == 0]
    if not fitting or tiles < _LEAST_FILLED * PLANS[0].programs_per_sm * sms:
        return None
    return next((plan for plan in fitting if tiles <= plan.programs_per_sm * sms), fitting[-1])


def fastest(x: torch.Tensor, num_rows: int) -> Callable[..., torch.Tensor]:
    """Return the launch function that takes the least time for these activations and `num_rows` rows of weights."""
    if not w4a16_mma.is_supported(x, num_rows):
        return w4a16.run
    sms = num_sms(x.device.index or 0)
    if w4a16_row_int8.is_faster(x, num_rows, sms):
        return w4a16_row_int8.run
    if w4a16_ring.is_faster(x, num_rows, sms):
        return w4a16_ring.run
    if x.shape[0] == 1 and (plan := choose_plan(num_rows, x.shape[1], sms)):
        return partial(run, plan=plan)
    return w4a16_mma.run


def run(
    x: torch.Tensor,
    words: torch.Tensor,
    scale: torch.Tensor,
    out: torch.Tensor | None = None,
    plan: WarpPlan = PLANS[-1],
    early: bool = False,
) -> torch.Tensor:
    """Compute one row of activations times packed weights.

    Shapes: x [1, K] bf16 or fp16, K a multiple of 128 · slices, words [N, K / 8] int32, N a multiple of 16, scale
    [K / 128, N] -> [1, N].
    `early` starts loading weights before the previous kernel has ended (Hopper and later).

    Assumes: with `early`, nothing that still runs in the stream writes the weights.
    Raises: ValueError: the sizes differ, several rows, or K that the plan cannot slice.
    """
    w4a16.check_sizes(x, words, scale, out)
    n = words.shape[0]
    if x.shape[0] != 1 or x.shape[1] % (plan.slices * w4a16.GROUP):
        raise ValueError(f"{tuple(x.shape)} times {n} rows does not go into {plan.slices} slices")
    out = x.new_empty((1, n)) if out is None else out
    groups = words.shape[1] // (16 * plan.slices)
    depth = min(plan.depth, groups)
    _row_kernel[(triton.cdiv(n, _ROWS),)](
        x,
        words,
        scale,
        out,
        n,
        words.shape[1],
        groups,
        IS_BF16=x.dtype == torch.bfloat16,
        DEPTH=depth,
        IS_ONE_STEP=groups == depth,
        EARLY=early,
        num_warps=plan.slices,
        launch_pdl=early,
        maxnreg=plan.max_registers,
    )
    return out
