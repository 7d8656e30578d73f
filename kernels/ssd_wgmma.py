"""State-space duality scan on Hopper's matrix units with a role for each group of warps (Gluon): the twin of `ssd`.

The recurrence is the one of `ssd`, in chunks of 64 tokens, with everything transposed: a state is [channels, states]
and stays in registers, where it is the accumulator of its own update and, rounded, the left operand of the product that
reads it.

A chunk's results are computed as its end sees them. With s the sums of Δ · a in a chunk, Q its last token, and
e_j = exp(s_Q − s_j) · Δ_j · x_j what a token leaves in the state:

y_i = exp(s_i − s_Q) · (c_i · (exp(s_Q) · state) + Σ_j≤i (c_i · b_j) · e_j) + skip · x_i

So the tokens that enter the state, e, also make the results, the scores c · bᵀ are the same for all heads, and no
decay is computed for a pair of tokens. Where a chunk leaves less of a state than bf16 can hold, and in fp16, pairs of
tokens have decays, as in `ssd`, for a quarter more time.

One warp copies a chunk of x, b, c, scores and factors into a ring of shared memory. Two groups of four warps take one
head each and share b, c and scores. A program stays and takes one pair of heads after the other. Results of a chunk
leave shared memory while the products of the next one run.

Letters of shapes: see `ssd`.
"""

from collections.abc import Callable
from typing import Final

import torch
import triton
import triton.language as tl
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
from triton.tools.tensor_descriptor import TensorDescriptor as OneDescriptor

from advisor.kernels import ssd
from advisor.kernels.attention_wgmma import COPY_REGISTERS, barrier, barriers_of, blocks_of
from advisor.kernels.backend import HALVES, INTERPRET, num_sms
from advisor.kernels.ssd import LARGEST_EXPONENT

_CHUNK = gl.constexpr(64)
_CHANNELS = gl.constexpr(64)
"""Number of channels of one group of four warps: the rows of the matrix instruction."""
_SUM_HEADS: Final = 16
"""Number of heads of a program that sums steps: 64 bytes of a token's steps."""
_FACTORS = gl.constexpr(2)
_SUMS = gl.constexpr(0)
_LATE = gl.constexpr(1)
"""Rows of a head's factors: the sum s of Δ · a · log₂ e from the chunk's start, and s − log₂ Δ."""
_LEAST_LEFT = gl.constexpr(2.0**-96)
"""Least part of a state that a chunk may leave for its results to be computed from the chunk's end: bf16 and fp32 hold
numbers down to 2^-126, and tokens come with their steps."""
_MORE_THAN_ALL = gl.constexpr(2.0)
"""Threshold in fp16, whose range is too short for results from a chunk's end: no chunk leaves twice a state."""
_STAGES: Final = 3
"""Number of chunks in shared memory."""
_REGISTERS: Final = 232
"""Number of registers per thread of a group that scans."""
LARGEST_STATES: Final = 128
_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _prepare_kernel(
    b_desc,
    c_desc,
    scores_desc,
    delta_ptr,
    a_ptr,
    factors_ptr,
    num_tokens,
    num_heads,
    num_groups,
    HEADS: tl.constexpr,
    TOKENS: tl.constexpr,
    STATES: tl.constexpr,
):
    """Store what a chunk's programs would compute each for itself: the scores of a group, or the sums of some heads.

    Tokens lie side by side in the sums and heads in Δ, so a program turns a block over.
    """
    chunk = tl.program_id(0)
    sequence = tl.program_id(2)
    if tl.program_id(1) < num_groups:
        ssd.store_scores(
            b_desc,
            c_desc,
            scores_desc,
            chunk,
            tl.program_id(1),
            num_groups,
            sequence,
            tl.num_programs(0),
            TOKENS,
            STATES,
        )
    else:
        heads = (tl.program_id(1) - num_groups) * HEADS + tl.arange(0, HEADS)
        steps = tl.arange(0, TOKENS)
        tokens = chunk * TOKENS + steps
        is_head = heads < num_heads
        places = (sequence.to(tl.int64) * num_tokens + tokens)[:, None] * num_heads + heads[None, :]
        # Beyond the end Δ is 0, so the state stays unchanged and the token has no weight.
        is_there = (tokens < num_tokens)[:, None] & is_head[None, :]
        delta = tl.load(delta_ptr + places, mask=is_there, other=0.0).to(tl.float32)
        rate = tl.load(a_ptr + heads, mask=is_head, other=0.0).to(tl.float32) * _LOG2_E
        sums = tl.cumsum(delta * rate[None, :], axis=0)
        row = (sequence * num_heads + heads).to(tl.int64) * tl.num_programs(0) + chunk
        out = factors_ptr + row[None, :] * _FACTORS * TOKENS + steps[:, None]
        tl.store(out + _SUMS * TOKENS, sums, mask=is_head[None, :])
        tl.store(out + _LATE * TOKENS, sums - tl.log2(delta), mask=is_head[None, :])


@gluon.jit
def _share(sizes):
    """Return the number of pieces of this program, and the first and the end of its chunks of the divided tasks.

    Every program first takes `whole` tasks, all at the same time, so that those with equal b, c and scores read them
    from the L2 together. The other tasks are divided: they lie one after the other, and every program takes an equal
    number of their chunks, at least as many as one task has. It walks over these tasks backwards. So it begins with the
    start of a task that the next program ends, and hands over the states long before that one needs them.
    """
    _heads, _groups, _blocks, _segments, _chunks, segment_chunks, num_tasks, whole = sizes
    divided = whole * gl.num_programs(0)
    total = (num_tasks - divided) * segment_chunks
    share = (total + gl.num_programs(0) - 1) // gl.num_programs(0)
    begin = gl.program_id(0) * share
    end = min(total, begin + share)
    tasks = (end + segment_chunks - 1) // segment_chunks - begin // segment_chunks
    return whole + max(tasks, 0), divided * segment_chunks + begin, divided * segment_chunks + end


@gluon.jit
def _segment_of(task, sizes):
    """Return sequence, segment, group and pair of heads of a task; the pairs that share b and c lie together."""
    num_heads, num_groups, blocks, segments, _chunks, _segment_chunks, _tasks, _whole = sizes
    pairs = (num_heads // num_groups * blocks + 1) // 2
    rest = task // pairs
    return rest // num_groups // segments, rest // num_groups % segments, rest % num_groups, task % pairs


@gluon.jit
def _piece(number, begin, end, sizes):
    """Return the task of this program's piece, the first and the end of its chunks, counted in the task, and how many
    the task has before its sequence ends."""
    _heads, _groups, _blocks, _segments, num_chunks, segment_chunks, _tasks, whole = sizes
    is_whole = number < whole
    divided_task = (end - 1) // segment_chunks - (number - whole)
    task = gl.where(is_whole, number * gl.num_programs(0) + gl.program_id(0), divided_task)
    before = task * segment_chunks
    first = gl.where(is_whole, 0, max(begin - before, 0))
    last = gl.where(is_whole, segment_chunks, min(end - before, segment_chunks))
    _sequence, segment, _group, _pair = _segment_of(task, sizes)
    return task, first, last, min(segment_chunks, num_chunks - segment * segment_chunks)


@gluon.jit
def _place(task, sizes, HALF: gl.constexpr):
    """Return sequence, segment, group, head and block of channels of one half of a task, and whether it is there."""
    num_heads, num_groups, blocks, _segments, _chunks, _segment_chunks, _tasks, _whole = sizes
    sequence, segment, group, pair = _segment_of(task, sizes)
    units = num_heads // num_groups * blocks
    unit = min(pair * 2 + HALF, units - 1)
    head = group * (num_heads // num_groups) + unit // blocks
    return sequence, segment, group, head, unit % blocks, pair * 2 + HALF < units


@gluon.jit
def _copy(work, RESULTS: gl.constexpr):
    """Copy every chunk of this program's tasks, as the copying warp."""
    descs, memory, barriers, sizes = work
    x_desc, b_desc, c_desc, scores_desc, factors_desc, _out_desc = descs
    x_smem, b_smem, c_smem, scores_smem, factors_smem, _out_smem = memory
    full, empty = barriers
    num_heads, num_groups, _blocks, _segments, num_chunks, segment_chunks, _tasks, _whole = sizes
    STAGES: gl.constexpr = b_smem.shape[0]
    half_bytes: gl.constexpr = x_desc.block_type.nbytes + factors_desc.block_type.nbytes
    state_bytes: gl.constexpr = 2 * half_bytes + b_desc.block_type.nbytes
    result_bytes: gl.constexpr = c_desc.block_type.nbytes + scores_desc.block_type.nbytes
    num_bytes: gl.constexpr = state_bytes + result_bytes if RESULTS else state_bytes
    num_pieces, begin, end = _share(sizes)
    count = 0
    for number in range(num_pieces):
        task, first, last, there = _piece(number, begin, end, sizes)
        sequence, segment, group, head0, block0, _is_there0 = _place(task, sizes, 0)
        _sequence, _segment, _group, head1, block1, _is_there1 = _place(task, sizes, 1)
        row0 = (sequence * num_heads + head0) * num_chunks
        row1 = (sequence * num_heads + head1) * num_chunks
        for step in range(first, min(last, there)):
            place = count % STAGES
            bar = full.index(place)
            mbarrier.wait(empty.index(place), (count // STAGES & 1) ^ 1)
            mbarrier.expect(bar, num_bytes)
            chunk = segment * segment_chunks + step
            token = chunk * _CHUNK
            halves = place * 2
            tma.async_copy_global_to_shared(
                factors_desc, [row0 + chunk, 0, 0], bar, factors_smem.index(halves)
            )
            tma.async_copy_global_to_shared(
                factors_desc, [row1 + chunk, 0, 0], bar, factors_smem.index(halves + 1)
            )
            tma.async_copy_global_to_shared(
                x_desc, [sequence, token, head0, block0 * _CHANNELS], bar, x_smem.index(halves)
            )
            tma.async_copy_global_to_shared(
                x_desc, [sequence, token, head1, block1 * _CHANNELS], bar, x_smem.index(halves + 1)
            )
            tma.async_copy_global_to_shared(b_desc, [sequence, token, group, 0], bar, b_smem.index(place))
            if RESULTS:
                tma.async_copy_global_to_shared(c_desc, [sequence, token, group, 0], bar, c_smem.index(place))
                score_row = (sequence * num_chunks + chunk) * num_groups + group
                tma.async_copy_global_to_shared(scores_desc, [score_row, 0, 0], bar, scores_smem.index(place))
            count += 1


@gluon.jit
def _factor(memory, half, FACTOR: gl.constexpr, layout: gl.constexpr):
    """Return one of the factors of a half's tokens."""
    factors_smem = memory[4]
    rows: gl.constexpr = [factors_smem.shape[0] * _FACTORS, _CHUNK]
    plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    by_row = factors_smem._reinterpret(factors_smem.dtype, rows, plain)
    return by_row.index(half * _FACTORS + FACTOR).load(layout)


@gluon.jit
def _last_sum(memory, half, layout: gl.constexpr):
    """Return the sum at the end of a half's tokens, for all rows of a layout."""
    factors_smem = memory[4]
    ones: gl.constexpr = [factors_smem.shape[0] * _FACTORS * _CHUNK, 1]
    plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    by_one = factors_smem._reinterpret(factors_smem.dtype, ones, plain)
    return by_one.index((half * _FACTORS + _SUMS) * _CHUNK + _CHUNK - 1).load(layout)


@gluon.jit
def _state_places(
    block, NUM_CHANNELS: gl.constexpr, NUM_STATES: gl.constexpr, STATES: gl.constexpr, layout: gl.constexpr
):
    """Return the places of a block of channels in a head's states, and which of them are there."""
    channels = block * _CHANNELS + gl.arange(0, _CHANNELS, layout=gl.SliceLayout(1, layout))
    numbers = gl.arange(0, STATES, layout=gl.SliceLayout(0, layout))
    places = numbers[None, :] * NUM_CHANNELS + channels[:, None]
    return places, (numbers < NUM_STATES)[None, :] & (channels < NUM_CHANNELS)[:, None]


@gluon.jit
def _take_over(between_ptr, flag_ptr, STATES: gl.constexpr, layout: gl.constexpr):
    """Return the state that the program before hands over, once it is there."""
    ready = gl.atomic_add(flag_ptr, 0)
    while ready == 0:
        ready = gl.atomic_add(flag_ptr, 0)
    places, _mask = _state_places(0, _CHANNELS, STATES, STATES, layout)
    state = gl.load(between_ptr + places, cache_modifier=".cg")
    gl.atomic_xchg(flag_ptr, 0)
    return state


@gluon.jit
def _hand_over(state, between_ptr, flag_ptr, STATES: gl.constexpr, layout: gl.constexpr):
    """Give a state to the program that goes on with its task."""
    places, _mask = _state_places(0, _CHANNELS, STATES, STATES, layout)
    gl.store(between_ptr + places, state)
    barrier()
    gl.atomic_xchg(flag_ptr, 1)


@gluon.jit
def _enter(x, memory, place, HALF: gl.constexpr):
    """Return this chunk's tokens, decayed to its end."""
    half = place * 2 + HALF
    columns: gl.constexpr = gl.SliceLayout(0, x.type.layout)
    kept = gl.exp2(_last_sum(memory, half, columns) - _factor(memory, half, _LATE, columns))
    return (x.to(gl.float32) * kept[None, :]).to(memory[1].dtype)


@gluon.jit
def _update(state, entering, memory, place):
    """Start the product that adds a chunk's tokens to the decayed state."""
    b_smem = memory[1]
    STATES: gl.constexpr = b_smem.shape[4]
    operand: gl.constexpr = gl.DotOperandLayout(0, state.type.layout, 2)
    b = b_smem.index(place).reshape([_CHUNK, STATES])
    return warpgroup_mma(gl.convert_layout(entering, operand), b, state, is_async=True)


@gluon.jit
def _read_state(state, memory, place, layout: gl.constexpr):
    """Start the product of a state and this chunk's c."""
    c_smem = memory[2]
    STATES: gl.constexpr = c_smem.shape[4]
    old = gl.convert_layout(state.to(c_smem.dtype), gl.DotOperandLayout(0, layout, 2))
    c = c_smem.index(place).reshape([_CHUNK, STATES])
    zeros = gl.zeros([_CHANNELS, _CHUNK], gl.float32, layout)
    return warpgroup_mma(old, c.permute([1, 0]), zeros, use_acc=False, is_async=True)


@gluon.jit
def _out_place(memory, count, HALF: gl.constexpr):
    """Return the place of a chunk's results: two take turns."""
    return memory[5].index(count % 2 * 2 + HALF)


@gluon.jit
def _flush(pending, out_desc, memory, count, HALF: gl.constexpr):
    """Start to copy the results of the chunk before; then the place of this chunk's results is free."""
    sequence, token, head, column, is_there = pending
    fence_async_shared()
    tma.store_wait(0)
    barrier()
    if is_there:
        place = _out_place(memory, count + 1, HALF)
        tma.async_copy_shared_to_global(out_desc, [sequence, token, head, column], place)


@gluon.jit
def _store_result(y, x, skip, memory, count, HALF: gl.constexpr, layout: gl.constexpr):
    """Store a chunk's results in shared memory, transposed."""
    y += skip * gl.convert_layout(x, layout).to(gl.float32)
    turned = _out_place(memory, count, HALF).reshape([_CHUNK, _CHANNELS]).permute([1, 0])
    turned.store(y.to(memory[5].dtype))


@gluon.jit
def _scan_decayed(
    state, x, at_end, skip, pending, out_desc, memory, count, HALF: gl.constexpr, layout: gl.constexpr
):
    """Scan a chunk from the state as the chunk's end leaves it, and return the state.

    Results come out as much too small as their tokens are before the chunk's end. So the tokens that enter the state
    also make the results, with the scores that all heads share, and nothing is computed for pairs of tokens.
    """
    place = count % memory[1].shape[0]
    half = place * 2 + HALF
    # Before the products, which read shared memory too: after them these loads would wait twice as long.
    columns: gl.constexpr = gl.SliceLayout(0, layout)
    back = gl.exp2(_factor(memory, half, _SUMS, columns) - _last_sum(memory, half, columns))
    entering = _enter(x, memory, place, HALF)
    state = state * at_end[:, None]
    y = _read_state(state, memory, place, layout)
    scores = memory[3].index(place).reshape([_CHUNK, _CHUNK])
    y = warpgroup_mma(entering, scores.permute([1, 0]), y, is_async=True)
    state = _update(state, entering, memory, place)
    _flush(pending, out_desc, memory, count, HALF)
    y = warpgroup_mma_wait(1, deps=[y])
    _store_result(y * back[None, :], x, skip, memory, count, HALF, layout)
    return warpgroup_mma_wait(0, deps=[state])


@gluon.jit
def _scan_pairs(
    state, x, at_end, skip, pending, out_desc, memory, count, HALF: gl.constexpr, layout: gl.constexpr
):
    """Scan a chunk with a decay for each pair of tokens, whatever the chunk leaves of a state, and return the state."""
    place = count % memory[1].shape[0]
    half = place * 2 + HALF
    y = _read_state(state, memory, place, layout)
    _flush(pending, out_desc, memory, count, HALF)
    # Of tokens that come later than the row's the scores are zero: their decays need only be finite.
    sums = _factor(memory, half, _SUMS, gl.SliceLayout(1, layout))
    late = _factor(memory, half, _LATE, gl.SliceLayout(0, layout))
    decays = gl.exp2(gl.minimum(sums[:, None] - late[None, :], LARGEST_EXPONENT))
    weights = memory[3].index(place).reshape([_CHUNK, _CHUNK]).load(layout).to(gl.float32) * decays
    # The weights pass through the place of the results.
    weights_place = _out_place(memory, count, HALF).reshape([_CHUNK, _CHUNK])
    weights_place.store(weights.to(memory[5].dtype))
    fence_async_shared()
    barrier()
    y = warpgroup_mma_wait(0, deps=[y])
    y = y * gl.exp2(_factor(memory, half, _SUMS, gl.SliceLayout(0, layout)))[None, :]
    y = warpgroup_mma(x, weights_place.permute([1, 0]), y, is_async=True)
    entering = _enter(x, memory, place, HALF)
    state = _update(state * at_end[:, None], entering, memory, place)
    y = warpgroup_mma_wait(1, deps=[y])
    barrier()
    _store_result(y, x, skip, memory, count, HALF, layout)
    return warpgroup_mma_wait(0, deps=[state])


@gluon.jit
def _scan_chunk(
    state,
    skip,
    pending,
    out_desc,
    memory,
    count,
    HALF: gl.constexpr,
    RESULTS: gl.constexpr,
    layout: gl.constexpr,
):
    """Store a chunk's results in shared memory, transposed, and return the state at its end."""
    x_smem = memory[0]
    place = count % memory[1].shape[0]
    half = place * 2 + HALF
    x = x_smem.index(half).reshape([_CHUNK, _CHANNELS]).permute([1, 0])
    x = x.load(gl.DotOperandLayout(0, layout, 2))
    at_end = gl.exp2(_last_sum(memory, half, gl.SliceLayout(1, state.type.layout)))
    if not RESULTS:
        entering = _enter(x, memory, place, HALF)
        state = warpgroup_mma_wait(0, deps=[_update(state * at_end[:, None], entering, memory, place)])
    elif gl.max(at_end, axis=0) >= (_LEAST_LEFT if x_smem.dtype == gl.bfloat16 else _MORE_THAN_ALL):
        state = _scan_decayed(state, x, at_end, skip, pending, out_desc, memory, count, HALF, layout)
    else:
        state = _scan_pairs(state, x, at_end, skip, pending, out_desc, memory, count, HALF, layout)
    return state


@gluon.jit
def _first_state(
    pointers,
    states,
    block,
    first,
    NUM_CHANNELS: gl.constexpr,
    NUM_STATES: gl.constexpr,
    HAS_START: gl.constexpr,
    HALF: gl.constexpr,
    STATES: gl.constexpr,
    layout: gl.constexpr,
):
    """Return the state before a task's chunk `first`: zeros or the caller's, or what the program before hands over."""
    _skip_ptr, start_ptr, _end_ptr, between_ptr, flag_ptr = pointers
    state = gl.zeros([_CHANNELS, STATES], gl.float32, layout)
    if HAS_START:  # noqa: SIM102 — without states there is no pointer to load from
        if first == 0:
            places, mask = _state_places(block, NUM_CHANNELS, NUM_STATES, STATES, layout)
            state = gl.load(start_ptr + states + places, mask=mask, other=0.0)
    if first > 0:
        before = gl.program_id(0) * 2 - 2 + HALF
        state = _take_over(between_ptr + before * STATES * _CHANNELS, flag_ptr + before, STATES, layout)
    return state


@gluon.jit
def _scan(
    work,
    pointers,
    NUM_CHANNELS: gl.constexpr,
    NUM_STATES: gl.constexpr,
    HAS_START: gl.constexpr,
    RESULTS: gl.constexpr,
    HALF: gl.constexpr,
):
    """Scan one head of every task, as one group of four warps."""
    descs, memory, barriers, sizes = work
    skip_ptr, _start_ptr, end_ptr, between_ptr, flag_ptr = pointers
    out_desc = descs[5]
    b_smem = memory[1]
    full, empty = barriers
    num_heads, _groups, _blocks, segments, _chunks, segment_chunks, _tasks, _whole = sizes
    STAGES: gl.constexpr = b_smem.shape[0]
    STATES: gl.constexpr = b_smem.shape[4]
    state_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, STATES, 16])
    out_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, _CHUNK, 16])
    own = gl.program_id(0) * 2 + HALF
    num_pieces, begin, end = _share(sizes)
    count = 0
    pending = (count, count, count, count, count > 0)
    for number in range(num_pieces):
        task, first, last, there = _piece(number, begin, end, sizes)
        sequence, segment, _group, head, block, is_there = _place(task, sizes, HALF)
        skip = gl.load(skip_ptr + head).to(gl.float32)
        states = ((sequence * segments + segment) * num_heads + head).to(gl.int64) * NUM_STATES * NUM_CHANNELS
        state = _first_state(
            pointers, states, block, first, NUM_CHANNELS, NUM_STATES, HAS_START, HALF, STATES, state_layout
        )
        for step in range(first, min(last, there)):
            place = count % STAGES
            mbarrier.wait(full.index(place), count // STAGES & 1)
            state = _scan_chunk(state, skip, pending, out_desc, memory, count, HALF, RESULTS, out_layout)
            mbarrier.arrive(empty.index(place), count=1)
            token = (segment * segment_chunks + step) * _CHUNK
            pending = (sequence, token, head, block * _CHANNELS, is_there)
            count += 1
        if last < segment_chunks:
            _hand_over(state, between_ptr + own * STATES * _CHANNELS, flag_ptr + own, STATES, state_layout)
        else:
            places, mask = _state_places(block, NUM_CHANNELS, NUM_STATES, STATES, state_layout)
            gl.store(end_ptr + states + places, state, mask=mask & is_there)
    if RESULTS:
        _flush(pending, out_desc, memory, count, HALF)
        tma.store_wait(0)


@gluon.jit(do_not_specialize=["num_heads", "num_tasks"])
def _ssd_kernel(
    x_desc,
    b_desc,
    c_desc,
    scores_desc,
    factors_desc,
    out_desc,
    skip_ptr,
    start_ptr,
    end_ptr,
    between_ptr,
    flag_ptr,
    num_heads,
    num_groups,
    blocks,
    segments,
    num_chunks,
    segment_chunks,
    num_tasks,
    whole,
    NUM_CHANNELS: gl.constexpr,
    NUM_STATES: gl.constexpr,
    STAGES: gl.constexpr,
    HAS_START: gl.constexpr,
    RESULTS: gl.constexpr,
    REGISTERS: gl.constexpr,
    COPYING_REGISTERS: gl.constexpr,
    num_warps: gl.constexpr,
):
    """Share the work among the groups of warps."""
    memory = (
        blocks_of(x_desc, STAGES * 2),
        blocks_of(b_desc, STAGES),
        blocks_of(c_desc, STAGES),
        blocks_of(scores_desc, STAGES),
        blocks_of(factors_desc, STAGES * 2),
        blocks_of(out_desc, 4),
    )
    barriers = (barriers_of(STAGES, 1), barriers_of(STAGES, 2))
    fence_async_shared()
    descs = (x_desc, b_desc, c_desc, scores_desc, factors_desc, out_desc)
    sizes = (num_heads, num_groups, blocks, segments, num_chunks, segment_chunks, num_tasks, whole)
    pointers = (skip_ptr, start_ptr, end_ptr, between_ptr, flag_ptr)
    work = (descs, memory, barriers, sizes)
    gl.warp_specialize(
        [
            (_scan, (work, pointers, NUM_CHANNELS, NUM_STATES, HAS_START, RESULTS, gl.constexpr(0))),
            (_scan, (work, pointers, NUM_CHANNELS, NUM_STATES, HAS_START, RESULTS, gl.constexpr(1))),
            (_copy, (work, RESULTS)),
        ],
        [4, 1],
        [REGISTERS, COPYING_REGISTERS],
    )


def is_supported(x: torch.Tensor, num_states: int) -> bool:
    """Whether this kernel runs: 16-bit numbers and up to 128 states on NVIDIA's Hopper."""
    if INTERPRET or x.device.type != "cuda" or torch.version.hip is not None:
        return False
    is_hopper = torch.cuda.get_device_capability(x.device) == (9, 0)
    return x.dtype in HALVES and num_states <= LARGEST_STATES and is_hopper


def fastest(x: torch.Tensor, num_states: int) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    """Return the launch function that takes the least time for these inputs."""
    return run if is_supported(x, num_states) else ssd.run


_flags_of: dict[torch.device, torch.Tensor] = {}


def _flags(device: torch.device, number: int) -> torch.Tensor:
    """Return zeros, one per group of warps that scans; every launch leaves them at zero again."""
    found = _flags_of.get(device)
    if found is None or found.numel() < number:
        found = _flags_of[device] = torch.zeros(number, dtype=torch.int32, device=device)
    return found


def _describe(tensor: torch.Tensor, columns: int) -> TensorDescriptor:
    """Return the descriptor of an array with tokens, of whose last dimension a chunk takes some columns."""
    layout = gl.NVMMASharedLayout(min(128, 2 * columns), 16, rank=4)
    return TensorDescriptor.from_tensor(tensor, [1, _CHUNK.value, 1, columns], layout)


def _num_columns(num_states: int) -> int:
    """Number of states that the kernel computes [count]: with fewer than 64 the assembler of Triton 3.6 fails."""
    return max(64, int(triton.next_power_of_2(num_states)))


def _prepare(
    delta: torch.Tensor, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return scores and factors, as `_prepare_kernel` finds them.

    Shapes: delta [B, L, H], a [H], b [B, L, G, N], c [B, L, G, N]
    -> [B · chunks · G, chunk, chunk], [B · H · chunks, factors, chunk] fp32.
    """
    batch, num_tokens, num_heads = delta.shape
    groups, num_states = b.shape[2:]
    chunk = _CHUNK.value
    num_chunks = int(triton.cdiv(num_tokens, chunk))
    scores = b.new_empty((batch * num_chunks * groups, chunk, chunk))
    shape = (batch * num_heads * num_chunks, _FACTORS.value, chunk)
    factors = torch.empty(shape, dtype=torch.float32, device=delta.device)
    states = _num_columns(num_states)
    _prepare_kernel[(num_chunks, groups + triton.cdiv(num_heads, _SUM_HEADS), batch)](
        *(OneDescriptor.from_tensor(one, [1, chunk, 1, states]) for one in (b, c)),
        OneDescriptor.from_tensor(scores, [1, chunk, chunk]),
        delta,
        a,
        factors,
        num_tokens,
        num_heads,
        groups,
        HEADS=_SUM_HEADS,
        TOKENS=chunk,
        STATES=states,
        num_warps=4,
    )
    return scores, factors


def _launch(
    x: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    scores: torch.Tensor,
    factors: torch.Tensor,
    skip: torch.Tensor,
    starts: torch.Tensor | None,
    out: torch.Tensor,
    ends: torch.Tensor,
    segment_chunks: int,
    is_last: bool,
) -> None:
    """Scan the segments that `ends` has a state for; if not for the last time, for end states from zero alone."""
    num_tokens, num_heads, num_channels = x.shape[1:]
    groups, num_states = b.shape[2:]
    chunk = _CHUNK.value
    width = _CHANNELS.value
    states = _num_columns(num_states)
    blocks = int(triton.cdiv(num_channels, width))
    segments = ends.shape[1]
    tasks = _num_pairs(x, groups) * segments
    programs = min(tasks, num_sms(x.device.index or 0))
    between = x.new_empty((programs, 2, states, width), dtype=torch.float32)

    _ssd_kernel[(programs,)](
        _describe(x, width),
        _describe(b, states),
        _describe(c, states),
        TensorDescriptor.from_tensor(scores, [1, chunk, chunk], gl.NVMMASharedLayout(128, 16, rank=3)),
        TensorDescriptor.from_tensor(factors, [1, *factors.shape[1:]], gl.NVMMASharedLayout(0, 32, rank=3)),
        _describe(out, width),
        skip,
        starts,
        ends,
        between,
        _flags(x.device, 2 * programs),
        num_heads,
        groups,
        blocks,
        segments,
        triton.cdiv(num_tokens, chunk),
        segment_chunks,
        tasks,
        max(0, tasks // programs - 1),
        NUM_CHANNELS=num_channels,
        NUM_STATES=num_states,
        STAGES=_STAGES,
        HAS_START=starts is not None,
        RESULTS=is_last,
        REGISTERS=_REGISTERS,
        COPYING_REGISTERS=COPY_REGISTERS,
        num_warps=4,
    )


def _decays(factors: torch.Tensor, ends: torch.Tensor, segment_chunks: int) -> torch.Tensor:
    """Return by how much segments decay a state, as exponents of 2.

    Shapes: factors [B · H · chunks, factors, chunk], ends [B, segments, H, N, P] -> [B, segments, H].
    """
    batch, segments, num_heads = ends.shape[:3]
    sums = factors[:, _SUMS.value, -1].view(batch, num_heads, -1)[:, :, : segments * segment_chunks]
    return sums.view(batch, num_heads, segments, segment_chunks).sum(3).transpose(1, 2).contiguous()


def _num_pairs(x: torch.Tensor, groups: int) -> int:
    """Number of pairs of heads, or of blocks of 64 of their channels, that share b and c [count]."""
    batch, _, num_heads, num_channels = x.shape
    blocks = int(triton.cdiv(num_channels, _CHANNELS.value))
    return batch * groups * int(triton.cdiv(num_heads // groups * blocks, 2))


def run(
    x: torch.Tensor,
    delta: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    skip: torch.Tensor,
    start: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    num_segments: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute results and final states, from zeros or from the states that an earlier call handed over.

    Shapes and errors: those of `ssd.run`, with up to 128 states.
    Assumes: launches on one device follow each other in one stream (they share the flags of handed-over states).
    """
    ssd.check_sizes(x, delta, a, b, c, skip, start, out)
    batch, num_tokens, num_heads, num_channels = x.shape
    groups, num_states = b.shape[2:]
    if num_states > LARGEST_STATES:
        raise ValueError(f"the kernel keeps up to {LARGEST_STATES} states, not {num_states}")
    chunk = _CHUNK.value
    segments = num_segments or ssd.choose_segments(
        _num_pairs(x, groups), num_tokens, chunk, num_sms(x.device.index or 0)
    )
    segments, segment_chunks = ssd.cut(num_tokens, chunk, segments)
    out = torch.empty_like(x) if out is None else out
    scores, factors = _prepare(delta, a, b, c)

    def states_of(number: int) -> torch.Tensor:
        return x.new_empty((batch, number, num_heads, num_states, num_channels), dtype=torch.float32)

    starts = start
    if segments > 1:
        parts = states_of((segments - 1) * ssd.PARTS)
        part_chunks = segment_chunks // ssd.PARTS
        _launch(x, b, c, scores, factors, skip, None, out, parts, part_chunks, is_last=False)
        starts = ssd.join_states(parts, _decays(factors, parts, part_chunks), start, segments)
    ends = states_of(segments)
    _launch(x, b, c, scores, factors, skip, starts, out, ends, segment_chunks, is_last=True)
    return out, ends[:, -1].contiguous()
