"""Attention of prompts on Hopper's matrix units with a role for each group of warps (Gluon): the twin of `attention`,
and of `attention_packed` with window, soft cap and sinks.

One warp copies keys and values into a ring of shared memory. Each of the other groups of four warps owns 64 queries.
It starts two products, the scores of the next keys and the values weighted by the last ones, and computes the softmax
of the scores while the second product still runs. Groups take turns in starting products, so that one computes
exponentials while the matrix unit works for another.

A program stays and takes the next tile of the list whenever it is done with one: tiles differ in their keys, and
multiprocessors in their speed.

Prompts lie one after the other without padding, so a block of keys may reach beyond its sequence, into the next one.
An address is the sum of two coordinates with the same stride, of which the copy engine checks only one. That one is
counted from the end of the sequence: rows beyond it are read as zeros and never written.

Source: two coordinates for arrays of unequal length: Triton's `triton/tools/ragged_tma.py`.
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

from advisor.kernels import attention, attention_packed
from advisor.kernels.attention_tiles import TILE_WORDS, list_tiles
from advisor.kernels.backend import HALVES, INTERPRET, num_sms

_ROWS = gl.constexpr(64)
"""Number of queries of one group of four warps: the rows of the matrix instruction."""
_LOG2_E = gl.constexpr(attention.LOG2_E)
_TILE_WORDS = gl.constexpr(TILE_WORDS)
# Renamed in Triton 3.7.
barrier = gl.barrier if hasattr(gl, "barrier") else gl.thread_barrier
FAR = gl.constexpr(2**30)
"""Bound of the coordinate that the copy engine checks, and the coordinate that brings its sum back.

Rows are addressed by three coordinates with strides 2^34 − s, s and s for rows of s elements. With the first at 2^30
their sum is 2^64 elements more than the row: nothing, since addresses wrap around.
"""


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """How a program works on a head size.

    `groups` of four warps multiply, with `registers` per thread and `block_n` keys per step; shared memory holds
    `stages` steps. With `overlap`, exponentials are held before the wait for the values' product; with `turns`, groups
    start their products one after the other.
    """

    groups: int
    block_n: int
    stages: int
    registers: int
    overlap: bool
    turns: bool


@dataclass(frozen=True, slots=True)
class Mode:
    """A variant that is compiled: the width of a head's second part, what masks and changes scores, and how the groups
    work together."""

    tail: int
    causal: bool
    has_window: bool
    has_cap: bool
    has_sinks: bool
    has_logs: bool
    overlap: bool
    turns: bool


CONFIGS: Final[dict[int, GroupConfig]] = {
    64: GroupConfig(groups=3, block_n=128, stages=2, registers=160, overlap=False, turns=True),
    96: GroupConfig(groups=2, block_n=128, stages=2, registers=240, overlap=False, turns=True),
    128: GroupConfig(groups=2, block_n=128, stages=2, registers=240, overlap=True, turns=False),
    256: GroupConfig(groups=2, block_n=64, stages=2, registers=240, overlap=False, turns=False),
}
"""Configuration by largest head size."""
SMALL_TILES: Final = GroupConfig(groups=2, block_n=128, stages=3, registers=240, overlap=True, turns=True)
"""Configuration of head sizes up to 64 where tiles of 192 queries leave the last round of programs nearly empty."""
_RATE_OF_SMALL_TILES: Final = 0.93
"""Rate of `SMALL_TILES` relative to the configuration with three groups when all programs are busy, as measured."""
HEADS_AT_ONCE: Final = 4
"""Least number of heads whose tiles are taken together when each query sees all keys: few, so that the L2 serves their
keys to all programs."""
HEADS_AT_ONCE_CAUSAL: Final = 16
"""Least number of heads when a query sees only the keys before it: more, so that short tiles are left for the end."""
COPY_REGISTERS: Final = 24
"""Number of registers of the copying warp's threads: the least that can be asked for."""


@gluon.jit
def part_and_head(number, num_parts, num_heads, heads_at_once):
    """Return which part of which head an item is, if all parts of `heads_at_once` heads come before those of the next
    heads."""
    heads_before = number // (num_parts * heads_at_once) * heads_at_once
    heads = min(heads_at_once, num_heads - heads_before)
    number -= heads_before * num_parts
    return number // heads, heads_before + number % heads


@gluon.jit
def _place(
    number,
    tiles_ptr,
    walk,
    window,
    TILE: gl.constexpr,
    BLOCK_N: gl.constexpr,
    MODE: gl.constexpr,
):
    """Return head, what the list says of queries and keys, and the blocks of keys [begin, end)."""
    num_tiles, num_heads, heads_at_once = walk
    tile, head = part_and_head(number, num_tiles, num_heads, heads_at_once)
    words = tiles_ptr + tile * _TILE_WORDS
    first_query = gl.load(words)
    queries_left = gl.load(words + 1)
    place = gl.load(words + 2)
    first_key = gl.load(words + 3)
    num_keys = gl.load(words + 4)
    sequence = gl.load(words + 5)
    row = gl.load(words + 6)
    begin = 0
    end = num_keys
    if MODE.causal:
        end = min(end, place + TILE)
    if MODE.has_window:
        begin = max(0, place - window + 1) // BLOCK_N
        if not MODE.causal:
            end = min(end, place + TILE - 1 + window)
    # A tile without any key takes one block, all of which is hidden.
    end = max(begin + 1, (end + BLOCK_N - 1) // BLOCK_N)
    queries = (first_query, queries_left, place, sequence, row)
    return head, queries, first_key, num_keys, begin, end


@gluon.jit
def _give(number, step, numbers, given, taken):
    """Tell the groups which tile and head comes next, as the copying warp."""
    place = step % 2
    mbarrier.wait(taken.index(place), (step // 2 & 1) ^ 1)
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [1], [0])
    numbers.index(place).store(gl.zeros([1], gl.int32, layout) + number)
    barrier()
    mbarrier.arrive(given.index(place), count=1)


@gluon.jit
def _take(step, numbers, given, taken):
    """Return which tile and head comes next, as a group of four warps."""
    place = step % 2
    mbarrier.wait(given.index(place), step // 2 & 1)
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    number = gl.max(numbers.index(place).load(layout), axis=0)
    mbarrier.arrive(taken.index(place), count=1)
    return number


@gluon.jit
def _copy_rows(descs, smems, full, empty, place, phase, first, rows_left, head, TAIL: gl.constexpr):
    """Copy a block to its place in shared memory, once the groups have read its previous content.

    The rows from `rows_left` on, counted from the first, become zeros.
    """
    desc, tail_desc = descs
    smem, tail_smem = smems
    mbarrier.wait(empty.index(place), phase ^ 1)
    num_bytes: gl.constexpr = desc.block_type.nbytes
    tail_bytes: gl.constexpr = tail_desc.block_type.nbytes if TAIL else 0
    mbarrier.expect(full.index(place), num_bytes + tail_bytes)
    end = first + rows_left
    tma.async_copy_global_to_shared(
        desc, [FAR, end, FAR - rows_left, head, 0], full.index(place), smem.index(place)
    )
    if TAIL:
        column: gl.constexpr = desc.block_type.shape[4]
        tma.async_copy_global_to_shared(
            tail_desc, [FAR, end, FAR - rows_left, head, column], full.index(place), tail_smem.index(place)
        )


@gluon.jit
def _copy(copies, MODE: gl.constexpr):
    """Copy queries, keys and values of all tiles, as the copying warp."""
    descs, memory, numbers, barriers, sizes = copies
    q_desc, k_desc, v_desc, q_tail_desc, k_tail_desc, v_tail_desc = descs
    q_smem, k_smem, v_smem, q_tail, k_tail, v_tail = memory
    q_full, q_empty, k_full, k_empty, v_full, v_empty, given, taken = barriers
    tiles_ptr, counts_ptr, num_heads, heads_at_once, queries_per_kv, window, _longest = sizes
    GROUPS: gl.constexpr = q_smem.shape[0]
    STAGES: gl.constexpr = k_smem.shape[0]
    BLOCK_N: gl.constexpr = k_smem.shape[-3]
    TAIL: gl.constexpr = MODE.tail
    queries_from = (q_desc, q_tail_desc)
    keys_from = (k_desc, k_tail_desc)
    values_from = (v_desc, v_tail_desc)
    count = 0
    step = 0
    num_tiles = gl.load(counts_ptr)
    num_items = num_tiles * num_heads
    walk = (num_tiles, num_heads, heads_at_once)
    number = gl.atomic_add(counts_ptr + 1, 1)
    _give(number, step, numbers, given, taken)
    while number < num_items:
        head, queries, first_key, num_keys, begin, end = _place(
            number, tiles_ptr, walk, window, GROUPS * _ROWS, BLOCK_N, MODE
        )
        first_query, queries_left, _first_place, _sequence, _row = queries
        kv_head = head // queries_per_kv
        for block in range(end - 1, begin - 1, -1):
            place = count % STAGES
            phase = count // STAGES & 1
            first = first_key + block * BLOCK_N
            left = num_keys - block * BLOCK_N
            _copy_rows(keys_from, (k_smem, k_tail), k_full, k_empty, place, phase, first, left, kv_head, TAIL)
            if block == end - 1:
                for group in gl.static_range(GROUPS):
                    row = group * _ROWS
                    _copy_rows(
                        queries_from,
                        (q_smem, q_tail),
                        q_full,
                        q_empty,
                        group,
                        step & 1,
                        first_query + row,
                        queries_left - row,
                        head,
                        TAIL,
                    )
                # Asked for while the groups have work.
                number = gl.atomic_add(counts_ptr + 1, 1)
            _copy_rows(
                values_from, (v_smem, v_tail), v_full, v_empty, place, phase, first, left, kv_head, TAIL
            )
            count += 1
        step += 1
        _give(number, step, numbers, given, taken)


@gluon.jit
def _hide(scores, first_key, reach, MODE: gl.constexpr, layout: gl.constexpr):
    """Return the scores with those of keys that a query does not attend to replaced.

    `reach` is the place of the group's first query among the keys, the number of keys, and the window.
    """
    first_place, num_keys, window = reach
    keys = first_key + gl.arange(0, scores.shape[1], layout=gl.SliceLayout(0, layout))
    places = first_place + gl.arange(0, _ROWS, layout=gl.SliceLayout(1, layout))
    visible = (keys < num_keys)[None, :]
    if MODE.causal:
        visible = visible & (keys[None, :] <= places[:, None])
    if MODE.has_window:
        visible = visible & (keys[None, :] > places[:, None] - window)
        if not MODE.causal:
            visible = visible & (keys[None, :] < places[:, None] + window)
    return gl.where(visible, scores, -float("inf"))


@gluon.jit
def _cap(scores, factor):
    """Return tanh(scores · factor), by tanh x = 1 − 2 / (exp 2x + 1)."""
    return 1.0 - 2.0 / (gl.exp2(scores * (factor * 2.0 * _LOG2_E)) + 1.0)


@gluon.jit
def _exponentials(scores, top, total, softmax_scale, MASKED: gl.constexpr):
    """Return the weights of a block, the new maximum and sum of each query, and the factor of what was before."""
    higher = gl.maximum(top, gl.max(scores, axis=1) * softmax_scale)
    # A query that has not seen a key yet: the difference of two infinities would be NaN.
    finite = gl.where(higher == -float("inf"), 0.0, higher) if MASKED else higher
    weights = gl.exp2(scores * softmax_scale - finite[:, None])
    scale = gl.exp2(top - finite)
    return weights, higher, total * scale + gl.sum(weights, axis=1), scale


@gluon.jit
def _finish(x):
    """Return x, computed before any wait that follows.

    The assembler moves arithmetic behind a wait that it does not depend on, and with it all that should run under the
    product. A store that never happens (x is not negative) holds it in place.
    """
    return gl.inline_asm_elementwise(
        """{
        .reg .pred never;
        .reg .b32 nowhere;
        mov.b32 nowhere, 0;
        setp.lt.f32 never, $1, 0f00000000;
        @never st.shared.f32 [nowhere], $1;
        mov.f32 $0, $1;
        }""",
        "=f,f",
        [x],
        dtype=gl.float32,
        is_pure=False,
        pack=1,
    )


@gluon.jit
def _start_scores(memory, place, GROUP: gl.constexpr, TAIL: gl.constexpr, layout: gl.constexpr):
    """Start the product of this group's queries and a block of keys."""
    q_smem, k_smem, _v_smem, q_tail, k_tail, _v_tail = memory
    BLOCK_N: gl.constexpr = k_smem.shape[-3]
    HEAD: gl.constexpr = k_smem.shape[-1]
    q = q_smem.index(GROUP).reshape([_ROWS, HEAD])
    k = k_smem.index(place).reshape([BLOCK_N, HEAD])
    zeros = gl.zeros([_ROWS, BLOCK_N], gl.float32, layout)
    scores = warpgroup_mma(q, k.permute([1, 0]), zeros, use_acc=False, is_async=True)
    if TAIL:
        q = q_tail.index(GROUP).reshape([_ROWS, TAIL])
        k = k_tail.index(place).reshape([BLOCK_N, TAIL])
        scores = warpgroup_mma(q, k.permute([1, 0]), scores, is_async=True)
    return scores


@gluon.jit
def _start_values(memory, weights, acc, acc_tail, place, TAIL: gl.constexpr, tail_layout: gl.constexpr):
    """Start the product of weights and a block of values."""
    _q_smem, k_smem, v_smem, _q_tail, _k_tail, v_tail = memory
    BLOCK_N: gl.constexpr = k_smem.shape[-3]
    acc = warpgroup_mma(weights, v_smem.index(place).reshape([BLOCK_N, k_smem.shape[-1]]), acc, is_async=True)
    if TAIL:
        weights = gl.convert_layout(weights, gl.DotOperandLayout(0, tail_layout, 2))
        acc_tail = warpgroup_mma(
            weights, v_tail.index(place).reshape([BLOCK_N, TAIL]), acc_tail, is_async=True
        )
    return acc, acc_tail


@gluon.jit
def _await_values(acc, acc_tail, TAIL: gl.constexpr):
    """Wait for the product of weights and values."""
    if TAIL:
        acc, acc_tail = warpgroup_mma_wait(0, deps=[acc, acc_tail])
    else:
        acc = warpgroup_mma_wait(0, deps=[acc])
    return acc, acc_tail


@gluon.jit
def _times(acc, factor):
    """Return each row of the block times its factor."""
    return acc * gl.convert_layout(factor, gl.SliceLayout(1, acc.type.layout))[:, None]


@gluon.jit
def _step(
    state,
    first_key,
    memory,
    rings,
    turns,
    tile,
    reach,
    scales,
    MODE: gl.constexpr,
    GROUP: gl.constexpr,
    MASKED: gl.constexpr,
    score_layout: gl.constexpr,
    tail_layout: gl.constexpr,
):
    """Take one block of keys: its scores and the values of the block before are multiplied at the same time.

    `scales` are the factor of scores before a soft cap, and the factor of what the exponentials are taken of.
    """
    acc, acc_tail, weights, top, total, count = state
    _q_full, _q_empty, k_full, k_empty, v_full, v_empty = rings
    factor, softmax_scale = scales
    STAGES: gl.constexpr = k_full.shape[0]
    TAIL: gl.constexpr = MODE.tail
    place = count % STAGES
    mbarrier.wait(k_full.index(place), count // STAGES & 1)
    if MODE.turns:
        # The first block of each tile is taken without a turn; the first group has its first turn at once.
        turn = count - 1 - tile + (1 if GROUP == 0 else 0)
        mbarrier.wait(turns.index(GROUP), turn & 1)
    scores = _start_scores(memory, place, GROUP, TAIL, score_layout)
    last = (count - 1) % STAGES
    mbarrier.wait(v_full.index(last), (count - 1) // STAGES & 1)
    acc, acc_tail = _start_values(memory, weights, acc, acc_tail, last, TAIL, tail_layout)
    if MODE.turns:
        mbarrier.arrive(turns.index((GROUP + 1) % turns.shape[0]), count=1)
    scores = warpgroup_mma_wait(2 if TAIL else 1, deps=[scores])
    mbarrier.arrive(k_empty.index(place), count=1)
    if MODE.has_cap:
        scores = _cap(scores, factor)
    if MASKED:
        scores = _hide(scores, first_key, reach, MODE, score_layout)
    weights_fp32, top, total, scale = _exponentials(scores, top, total, softmax_scale, MASKED)
    if MODE.overlap:
        total = _finish(total)
    acc, acc_tail = _await_values(acc, acc_tail, TAIL)
    mbarrier.arrive(v_empty.index(last), count=1)
    acc = _times(acc, scale)
    if TAIL:
        acc_tail = _times(acc_tail, scale)
    weights = gl.convert_layout(weights_fp32.to(weights.dtype), weights.type.layout)
    return acc, acc_tail, weights, top, total, count + 1


@gluon.jit
def _walk(
    state,
    begin,
    end,
    memory,
    rings,
    turns,
    tile,
    reach,
    scales,
    MODE: gl.constexpr,
    GROUP: gl.constexpr,
    MASKED: gl.constexpr,
    score_layout: gl.constexpr,
    tail_layout: gl.constexpr,
):
    """Take blocks [begin, end) of keys, the last first."""
    BLOCK_N: gl.constexpr = memory[1].shape[-3]
    for block in range(end - 1, begin - 1, -1):
        state = _step(
            state,
            block * BLOCK_N,
            memory,
            rings,
            turns,
            tile,
            reach,
            scales,
            MODE,
            GROUP,
            MASKED,
            score_layout,
            tail_layout,
        )
    return state


@gluon.jit
def _store(descs, memory, result, first_query, queries_left, head, GROUP: gl.constexpr, TAIL: gl.constexpr):
    """Store the result through the place of the queries; rows of other sequences are not written."""
    acc, acc_tail, total = result
    out_desc, out_tail_desc = descs
    q_smem, _k_smem, _v_smem, q_tail, _k_tail, _v_tail = memory
    HEAD: gl.constexpr = q_smem.shape[-1]
    # A query without any visible key gets zeros.
    factor = 1.0 / gl.where(total > 0.0, total, 1.0)
    q = q_smem.index(GROUP)
    q.reshape([_ROWS, HEAD]).store(_times(acc, factor).to(q_smem.dtype))
    if TAIL:
        q_rest = q_tail.index(GROUP)
        q_rest.reshape([_ROWS, TAIL]).store(_times(acc_tail, factor).to(q_smem.dtype))
    fence_async_shared()
    end = first_query + queries_left
    tma.async_copy_shared_to_global(out_desc, [FAR, end, FAR - queries_left, head, 0], q)
    if TAIL:
        tma.async_copy_shared_to_global(out_tail_desc, [FAR, end, FAR - queries_left, head, HEAD], q_rest)
    tma.store_wait(0)


@gluon.jit
def _visible(reach, begin, end, BLOCK_N: gl.constexpr, MODE: gl.constexpr):
    """Return the blocks of keys [left, whole) that every query of a group sees: no mask is computed for them."""
    lowest, num_keys, window = reach
    whole = num_keys // BLOCK_N
    left = begin
    if MODE.causal:
        whole = min(whole, (lowest + 1) // BLOCK_N)
    if MODE.has_window:
        left = max(begin, (lowest + _ROWS - window + BLOCK_N - 1) // BLOCK_N)
        if not MODE.causal:
            whole = min(whole, (lowest + window) // BLOCK_N)
    whole = max(begin, min(whole, end - 1))
    return min(left, whole), whole


@gluon.jit
def _first_weights(
    memory,
    rings,
    count,
    step,
    first_key,
    reach,
    scales,
    sink_ptr,
    MODE: gl.constexpr,
    GROUP: gl.constexpr,
    layout: gl.constexpr,
):
    """Return the weights of a tile's first block, and each query's maximum and sum."""
    q_full, _q_empty, k_full, k_empty, _v_full, _v_empty = rings
    STAGES: gl.constexpr = k_full.shape[0]
    factor, softmax_scale = scales
    row_layout: gl.constexpr = gl.SliceLayout(1, layout)
    mbarrier.wait(q_full.index(GROUP), step & 1)
    mbarrier.wait(k_full.index(count % STAGES), count // STAGES & 1)
    scores = _start_scores(memory, count % STAGES, GROUP, MODE.tail, layout)
    scores = warpgroup_mma_wait(0, deps=[scores])
    mbarrier.arrive(k_empty.index(count % STAGES), count=1)
    if MODE.has_cap:
        scores = _cap(scores, factor)
    scores = _hide(scores, first_key, reach, MODE, layout)
    top = gl.full([_ROWS], -float("inf"), gl.float32, row_layout)
    total = gl.zeros([_ROWS], gl.float32, row_layout)
    if MODE.has_sinks:
        # A sink is a key that was seen before all others, with values of zero.
        top = gl.zeros([_ROWS], gl.float32, row_layout) + gl.load(sink_ptr).to(gl.float32) * _LOG2_E
        total = gl.full([_ROWS], 1.0, gl.float32, row_layout)
    weights, top, total, _scale = _exponentials(scores, top, total, softmax_scale, True)
    return weights, top, total


@gluon.jit
def _last_values(state, memory, rings, TAIL: gl.constexpr, tail_layout: gl.constexpr):
    """Return the sums of weighted values with those of a tile's last block."""
    acc, acc_tail, weights, _top, _total, count = state
    _q_full, _q_empty, _k_full, _k_empty, v_full, v_empty = rings
    STAGES: gl.constexpr = v_full.shape[0]
    last = (count - 1) % STAGES
    mbarrier.wait(v_full.index(last), (count - 1) // STAGES & 1)
    acc, acc_tail = _start_values(memory, weights, acc, acc_tail, last, TAIL, tail_layout)
    acc, acc_tail = _await_values(acc, acc_tail, TAIL)
    mbarrier.arrive(v_empty.index(last), count=1)
    return acc, acc_tail


@gluon.jit
def _multiply(work, MODE: gl.constexpr, GROUP: gl.constexpr):
    """Compute 64 queries of every tile, as one group of four warps."""
    descs, memory, numbers, barriers, turns, sizes, sinks_ptr, logs_ptr, scales = work
    q_smem, k_smem, _v_smem, _q_tail, _k_tail, _v_tail = memory
    q_full, q_empty, k_full, k_empty, v_full, v_empty, given, taken = barriers
    tiles_ptr, counts_ptr, num_heads, heads_at_once, _queries_per_kv, window, longest = sizes
    GROUPS: gl.constexpr = q_smem.shape[0]
    BLOCK_N: gl.constexpr = k_smem.shape[-3]
    HEAD: gl.constexpr = k_smem.shape[-1]
    TAIL: gl.constexpr = MODE.tail
    score_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    acc_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HEAD, 16])
    tail_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, TAIL if TAIL else HEAD, 16])
    weight_layout: gl.constexpr = gl.DotOperandLayout(0, acc_layout, 2)
    row_layout: gl.constexpr = gl.SliceLayout(1, score_layout)
    rings = (q_full, q_empty, k_full, k_empty, v_full, v_empty)
    count = 0
    step = 0
    num_tiles = gl.load(counts_ptr)
    num_items = num_tiles * num_heads
    walk = (num_tiles, num_heads, heads_at_once)
    number = _take(step, numbers, given, taken)
    while number < num_items:
        head, queries, _first_key, num_keys, begin, end = _place(
            number, tiles_ptr, walk, window, GROUPS * _ROWS, BLOCK_N, MODE
        )
        first_query, queries_left, place, sequence, row = queries
        lowest = place + GROUP * _ROWS
        reach = (lowest, num_keys, window)
        left, whole = _visible(reach, begin, end, BLOCK_N, MODE)
        weights_fp32, top, total = _first_weights(
            memory,
            rings,
            count,
            step,
            (end - 1) * BLOCK_N,
            reach,
            scales,
            sinks_ptr + head if MODE.has_sinks else sinks_ptr,
            MODE,
            GROUP,
            score_layout,
        )
        weights = gl.convert_layout(weights_fp32.to(q_smem.dtype), weight_layout)
        acc = gl.zeros([_ROWS, HEAD], gl.float32, acc_layout)
        acc_tail = gl.zeros([_ROWS, TAIL if TAIL else 1], gl.float32, tail_layout)
        state = (acc, acc_tail, weights, top, total, count + 1)
        context = (memory, rings, turns, step, reach, scales)
        state = _walk(state, whole, end - 1, *context, MODE, GROUP, True, score_layout, tail_layout)
        state = _walk(state, left, whole, *context, MODE, GROUP, False, score_layout, tail_layout)
        if MODE.has_window:
            state = _walk(state, begin, left, *context, MODE, GROUP, True, score_layout, tail_layout)
        acc, acc_tail = _last_values(state, memory, rings, TAIL, tail_layout)
        _acc, _tail, _weights, top, total, count = state
        group_row = GROUP * _ROWS
        if MODE.has_logs:
            rows = group_row + gl.arange(0, _ROWS, layout=row_layout)
            logs = logs_ptr + (sequence * num_heads + head).to(gl.int64) * longest + row + rows
            gl.store(logs, top + gl.log2(total), mask=rows < queries_left)
        result = (acc, acc_tail, total)
        _store(descs, memory, result, first_query + group_row, queries_left - group_row, head, GROUP, TAIL)
        mbarrier.arrive(q_empty.index(GROUP), count=1)
        step += 1
        number = _take(step, numbers, given, taken)


@gluon.jit
def blocks_of(desc, NUMBER: gl.constexpr):
    """Return shared memory for some blocks of an array. Triton does not know a star in a list."""
    shape: gl.constexpr = [NUMBER] + desc.block_type.shape  # noqa: RUF005
    return gl.allocate_shared_memory(desc.dtype, shape, desc.layout)


@gluon.jit
def barriers_of(NUMBER: gl.constexpr, ARRIVALS: gl.constexpr):
    """Return barriers in shared memory that open after some arrivals."""
    found = gl.allocate_shared_memory(gl.int64, [NUMBER, 1], mbarrier.MBarrierLayout())
    for place in gl.static_range(NUMBER):
        mbarrier.init(found.index(place), count=ARRIVALS)
    return found


@gluon.jit(do_not_specialize=["num_heads", "heads_at_once", "queries_per_kv", "window", "longest"])
def _attention_kernel(
    q_desc,
    k_desc,
    v_desc,
    out_desc,
    q_tail_desc,
    k_tail_desc,
    v_tail_desc,
    out_tail_desc,
    tiles_ptr,
    counts_ptr,
    sinks_ptr,
    logs_ptr,
    num_heads,
    heads_at_once,
    queries_per_kv,
    window,
    longest,
    factor,
    softmax_scale,
    GROUPS: gl.constexpr,
    STAGES: gl.constexpr,
    MODE: gl.constexpr,
    REGISTERS: gl.constexpr,
    COPYING_REGISTERS: gl.constexpr,
    num_warps: gl.constexpr,
):
    """Share the work among the groups of warps."""
    q_smem = blocks_of(q_desc, GROUPS)
    k_smem = blocks_of(k_desc, STAGES)
    v_smem = blocks_of(v_desc, STAGES)
    q_tail = q_smem
    k_tail = k_smem
    v_tail = v_smem
    if MODE.tail:
        q_tail = blocks_of(q_tail_desc, GROUPS)
        k_tail = blocks_of(k_tail_desc, STAGES)
        v_tail = blocks_of(v_tail_desc, STAGES)
    memory = (q_smem, k_smem, v_smem, q_tail, k_tail, v_tail)
    barriers = (
        barriers_of(GROUPS, 1),
        barriers_of(GROUPS, 1),
        barriers_of(STAGES, 1),
        barriers_of(STAGES, GROUPS),
        barriers_of(STAGES, 1),
        barriers_of(STAGES, GROUPS),
        barriers_of(2, 1),
        barriers_of(2, GROUPS),
    )
    turns = barriers_of(GROUPS, 1)
    numbers = gl.allocate_shared_memory(gl.int32, [2, 1], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    fence_async_shared()
    inputs = (q_desc, k_desc, v_desc, q_tail_desc, k_tail_desc, v_tail_desc)
    outputs = (out_desc, out_tail_desc)
    sizes = (tiles_ptr, counts_ptr, num_heads, heads_at_once, queries_per_kv, window, longest)
    scales = (factor, softmax_scale)
    work = (outputs, memory, numbers, barriers, turns, sizes, sinks_ptr, logs_ptr, scales)
    copies = (inputs, memory, numbers, barriers, sizes)
    if GROUPS == 2:
        gl.warp_specialize(
            [
                (_multiply, (work, MODE, gl.constexpr(0))),
                (_multiply, (work, MODE, gl.constexpr(1))),
                (_copy, (copies, MODE)),
            ],
            [4, 1],
            [REGISTERS, COPYING_REGISTERS],
        )
    else:
        gl.warp_specialize(
            [
                (_multiply, (work, MODE, gl.constexpr(0))),
                (_multiply, (work, MODE, gl.constexpr(1))),
                (_multiply, (work, MODE, gl.constexpr(2))),
                (_copy, (copies, MODE)),
            ],
            [4, 4, 1],
            [REGISTERS, REGISTERS, COPYING_REGISTERS],
        )


def is_supported(q: torch.Tensor) -> bool:
    """Whether this kernel runs: 16-bit numbers on NVIDIA's Hopper."""
    if INTERPRET or q.device.type != "cuda" or torch.version.hip is not None:
        return False
    return q.dtype in HALVES and torch.cuda.get_device_capability(q.device) == (9, 0)


def fastest(q: torch.Tensor) -> Callable[..., torch.Tensor]:
    """Return the launch function that takes the least time for these queries of equal sequences."""
    return run if is_supported(q) else attention.run


def fastest_packed(q: torch.Tensor) -> Callable[..., torch.Tensor]:
    """Return the launch function that takes the least time for these queries of packed sequences."""
    return run_packed if is_supported(q) else attention_packed.run


def choose_config(head_dim: int, num_queries: int, heads: int, sms: int) -> GroupConfig:
    """Return the configuration that takes the least time for `heads` heads of all sequences together."""
    found = CONFIGS[min(size for size in CONFIGS if size >= head_dim)]
    if found is not CONFIGS[64]:
        return found

    def rows_in_turn(config: GroupConfig) -> int:
        """Number of queries that the busiest multiprocessor takes one after the other [count]."""
        rows = config.groups * int(_ROWS.value)
        return rows * int(triton.cdiv(triton.cdiv(num_queries, rows) * heads, sms))

    return SMALL_TILES if rows_in_turn(SMALL_TILES) < _RATE_OF_SMALL_TILES * rows_in_turn(found) else found


def choose_heads_at_once(queries_per_kv: int, causal: bool) -> int:
    """Return the number of heads whose tiles programs take before those of the next, whole groups of shared keys."""
    least = HEADS_AT_ONCE_CAUSAL if causal else HEADS_AT_ONCE
    return int(triton.cdiv(least, queries_per_kv)) * queries_per_kv


def widths(head_dim: int) -> tuple[int, int]:
    """Widths of the two parts of a head, each a power of two as tensors must be; the second may be zero."""
    if head_dim <= 64:
        return 64, 0
    head = 1 << (head_dim.bit_length() - 1)
    return head, triton.next_power_of_2(max(16, head_dim - head)) if head_dim > head else 0


def ragged_rows(tensor: torch.Tensor, rows: int, block: list[int]) -> TensorDescriptor:
    """Return how blocks of some rows are copied that are counted from the end of a sequence.

    Shapes: tensor [S, …]; `block` holds the sizes of a block in the other dimensions.
    """
    row, *others = tensor.stride()
    far = int(FAR.value)
    most = 2**31 - 2**16
    return TensorDescriptor(
        tensor,
        [most, most, far, *tensor.shape[1:]],
        [2**34 - row, row, row, *others],
        [1, 1, rows, *block],
        gl.NVMMASharedLayout(min(128, tensor.element_size() * block[-1]), 16, rank=3 + len(block)),
    )


def _launch(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_starts: torch.Tensor,
    k_starts: torch.Tensor,
    out: torch.Tensor,
    config: GroupConfig,
    *,
    causal: bool,
    window: int | None = None,
    soft_cap: float | None = None,
    sinks: torch.Tensor | None = None,
    logs: torch.Tensor | None = None,
) -> None:
    """List the tiles and compute them. `logs` [N, H, longest] receives base-2 logarithms of sums of exponentials."""
    num_queries, num_heads, head_dim = q.shape
    head, tail = widths(head_dim)
    rows = int(_ROWS.value)
    tiles, counts = list_tiles(q_starts, k_starts, num_queries, config.groups * rows)
    blocks = ((q, rows), (k, config.block_n), (v, config.block_n), (out, rows))
    scale = head_dim**-0.5
    mode = Mode(
        tail=tail,
        causal=causal,
        has_window=window is not None,
        has_cap=soft_cap is not None,
        has_sinks=sinks is not None,
        has_logs=logs is not None,
        overlap=config.overlap,
        turns=config.turns,
    )
    _attention_kernel[(min(tiles.shape[0] * num_heads, num_sms(q.device.index or 0)),)](
        *(ragged_rows(tensor, number, [1, head]) for tensor, number in blocks),
        *(ragged_rows(tensor, number, [1, tail or head]) for tensor, number in blocks),
        tiles,
        counts,
        sinks,
        logs,
        num_heads,
        choose_heads_at_once(num_heads // k.shape[1], causal),
        num_heads // k.shape[1],
        window or 0,
        0 if logs is None else logs.shape[2],
        scale / (soft_cap or 1.0),
        attention.LOG2_E * (soft_cap or scale),
        GROUPS=config.groups,
        STAGES=config.stages,
        MODE=mode,
        REGISTERS=config.registers,
        COPYING_REGISTERS=COPY_REGISTERS,
        num_warps=4,
    )


def run(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = True,
    out: torch.Tensor | None = None,
    config: GroupConfig | None = None,
    logs: torch.Tensor | None = None,
) -> torch.Tensor:
    """Compute attention of every query over the keys of its sequence.

    Shapes: q [B, S, H, D], k [B, T, G, D], v [B, T, G, D], contiguous, bf16 or fp16 -> [B, S, H, D]. `logs` [B, H, S]
    fp32, if given, receives the base-2 logarithm of each query's sum of exponentials.
    Raises: ValueError: operands that `attention.check_sizes` refuses.
    """
    attention.check_sizes(q, k, v, causal, out, logs)
    batch, num_queries, num_heads, head_dim = q.shape
    num_keys = k.shape[1]
    config = config or choose_config(head_dim, num_queries, batch * num_heads, num_sms(q.device.index or 0))
    out = torch.empty_like(q) if out is None else out
    places = torch.arange(batch + 1, dtype=torch.int32, device=q.device)
    q_starts = places * num_queries
    k_starts = q_starts if num_keys == num_queries else places * num_keys
    _launch(
        q.flatten(0, 1),
        k.flatten(0, 1),
        v.flatten(0, 1),
        q_starts,
        k_starts,
        out.flatten(0, 1),
        config,
        causal=causal,
        logs=logs,
    )
    return out


def run_packed(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_starts: torch.Tensor,
    k_starts: torch.Tensor | None = None,
    max_queries: int | None = None,
    *,
    causal: bool = True,
    window: int | None = None,
    soft_cap: float | None = None,
    sinks: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    config: GroupConfig | None = None,
) -> torch.Tensor:
    """Compute attention of every query over the visible keys of its sequence.

    Shapes: q [S, H, D], k [T, G, D], v [T, G, D], contiguous, bf16 or fp16, starts [N + 1] int32, sinks [H]
    -> [S, H, D].

    Assumes: starts rise from 0 to S (and to T); with `causal` or a window no sequence has more queries than keys.
    `max_queries` is what `attention_packed.run` needs; here the list has no tiles without queries.
    Raises: ValueError: operands that `attention_packed.check_sizes` refuses.
    """
    attention_packed.check_sizes(q, k, v, q_starts, k_starts, window, soft_cap, sinks, out)
    config = config or CONFIGS[min(size for size in CONFIGS if size >= q.shape[2])]
    out = torch.empty_like(q) if out is None else out
    _launch(
        q,
        k,
        v,
        q_starts,
        q_starts if k_starts is None else k_starts,
        out,
        config,
        causal=causal,
        window=window,
        soft_cap=soft_cap,
        sinks=sinks,
    )
    return out
