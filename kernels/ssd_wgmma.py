"""State-space duality scan on Hopper's matrix units with a role for each group of warps (Gluon): the twin of `ssd`.

The recurrence is the one of `ssd`, in chunks of 64 tokens, with everything transposed: a state is [channels, states]
and stays in registers, where it is the accumulator of its own update and, rounded, the left operand of the product that
reads it.

A chunk's results are computed as its end sees them. With s the sums of Δ · a in a chunk, Q its last token, and
e_j = exp(s_Q − s_j) · Δ_j · x_j what a token leaves in the state:

y_i = exp(s_i − s_Q) · (c_i · (exp(s_Q) · state) + Σ_j≤i (c_i · b_j) · e_j) + skip · x_i

So the tokens that enter the state, e, also make the results, the scores c · bᵀ are the same for all heads, and no
decay is computed for a pair of tokens. Where a chunk leaves less of a state than bf16 can hold, and in fp16, pairs of
tokens have decays, as in `ssd`, for a fifth more time.

One warp copies a chunk of x, b, c, scores and factors into a ring of shared memory, one computes the powers that all
threads need of it, and one copies results to memory. Two groups of four warps take one head each and share b, c and
scores. A program stays and takes one pair of heads after the other.

A sequence that is cut into segments has a first pass for the states with which they start. It leaves out the chunks
that a segment's end has forgotten, which for most heads are nearly all.

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
from advisor.kernels.attention_wgmma import barrier, barriers_of, blocks_of
from advisor.kernels.backend import HALVES, INTERPRET, num_sms
from advisor.kernels.ssd import LARGEST_EXPONENT

_CHUNK = gl.constexpr(64)
_CHANNELS = gl.constexpr(64)
"""Number of channels of one group of four warps: the rows of the matrix instruction."""
_SUM_HEADS: Final = 16
"""Number of heads of a program that sums steps: 64 bytes of a token's steps."""
_PLAIN = gl.constexpr(gl.SwizzledSharedLayout(1, 1, 1, [0]))
_FACTORS = gl.constexpr(2)
_SUMS = gl.constexpr(0)
_LATE = gl.constexpr(1)
"""Rows of a head's factors: the sum s of Δ · a · log₂ e from the chunk's start, and s − log₂ Δ."""
_POWERS = gl.constexpr(3)
_KEPT = gl.constexpr(0)
_BACK = gl.constexpr(1)
_LEFT = gl.constexpr(2)
"""Rows of a head's powers of 2: what the chunk's end keeps of a token, with its step; by how much a result computed
from there is too small; what a token leaves of the state before the chunk."""
_LEAST_LEFT = gl.constexpr(2.0**-96)
"""Least part of a state that a chunk may leave for its results to be computed from the chunk's end: bf16 and fp32 hold
numbers down to 2^-126, and tokens come with their steps."""
_MORE_THAN_ALL = gl.constexpr(2.0)
"""Threshold in fp16, whose range is too short for results from a chunk's end: no chunk leaves twice a state."""
_LONGEST: Final = 64
"""Decay, as an exponent of 2, after which a segment's end has forgotten a chunk: a sum in fp32 has 24 bits, so tokens
would have to be 2^40 times as large as later ones to show."""
_STAGES: Final = 3
"""Number of chunks in shared memory."""
_REGISTERS: Final = 232
"""Number of registers per thread of a group that scans."""
_HELPING_REGISTERS: Final = 40
"""Number of registers per thread of the warps that copy, store and compute powers."""
_LARGEST_SHARE: Final = 1.035
"""Largest share of a program, of an equal one, that is worth more programs side by side."""
LARGEST_STATES: Final = 128
_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _decays_kernel(
    factors_ptr,
    decay_ptr,
    begin_ptr,
    num_chunks,
    segment_chunks,
    FACTORS: tl.constexpr,
    TOKENS: tl.constexpr,
    LONGEST: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Store by how much a segment decays a state, and its first chunk that its end has not forgotten."""
    head = tl.program_id(0)
    segment = tl.program_id(1)
    sequence = tl.program_id(2)
    chunks = tl.arange(0, BLOCK)
    inside = chunks < segment_chunks
    rows = (
        (sequence * tl.num_programs(0) + head).to(tl.int64) * num_chunks + segment * segment_chunks + chunks
    )
    # The first factor is the sum from the chunk's start.
    sums = tl.load(factors_ptr + rows * FACTORS * TOKENS + TOKENS - 1, mask=inside, other=0.0)
    place = (sequence * tl.num_programs(1) + segment) * tl.num_programs(0) + head
    tl.store(decay_ptr + place, tl.sum(sums, axis=0))
    later = tl.cumsum(sums, axis=0, reverse=True) - sums
    tl.store(begin_ptr + place, tl.sum((inside & (later < -LONGEST)).to(tl.int32), axis=0))


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
def _band(sizes):
    """Return this program's band, and the number of programs of a band."""
    bands = sizes[7]
    programs = gl.num_programs(0) // bands
    return gl.program_id(0) // programs, programs


@gluon.jit
def _share(sizes):
    """Return the number of pieces of this program, and the first and the end of its chunks of its band's tasks.

    Bands of programs take tasks in turns. Those of a band lie one after the other, and every program takes an equal
    number of their chunks, at least as many as one task has. It walks over them backwards. So it begins with the start
    of a task that the next program ends, and hands over the states long before that one needs them.

    Programs of one place in all bands walk side by side: they read the same tokens of neighbouring heads, which lie
    together in memory, and their b, c and scores come from the L2.
    """
    _heads, _groups, _blocks, _segments, _chunks, segment_chunks, num_tasks, bands = sizes
    band, programs = _band(sizes)
    total = (num_tasks - band + bands - 1) // bands * segment_chunks
    share = (total + programs - 1) // programs
    begin = gl.program_id(0) % programs * share
    end = min(total, begin + share)
    tasks = (end + segment_chunks - 1) // segment_chunks - begin // segment_chunks
    return max(tasks, 0), begin, end


@gluon.jit
def _segment_of(task, sizes):
    """Return sequence, segment, group and pair of heads of a task; the pairs that share b and c lie together."""
    num_heads, num_groups, blocks, segments, _chunks, _segment_chunks, _tasks, _bands = sizes
    pairs = (num_heads // num_groups * blocks + 1) // 2
    rest = task // pairs
    return rest // num_groups // segments, rest // num_groups % segments, rest % num_groups, task % pairs


@gluon.jit
def _piece(number, begin, end, sizes):
    """Return the task of this program's piece, the first and the end of its chunks, counted in the task, and how many
    the task has before its sequence ends."""
    _heads, _groups, _blocks, _segments, num_chunks, segment_chunks, _tasks, bands = sizes
    band, _programs = _band(sizes)
    place = (end - 1) // segment_chunks - number
    task = place * bands + band
    before = place * segment_chunks
    first = max(begin - before, 0)
    last = min(end - before, segment_chunks)
    _sequence, segment, _group, _pair = _segment_of(task, sizes)
    return task, first, last, min(segment_chunks, num_chunks - segment * segment_chunks)


@gluon.jit
def _place(task, sizes, HALF: gl.constexpr):
    """Return sequence, segment, group, head and block of channels of one half of a task, and whether it is there."""
    num_heads, num_groups, blocks, _segments, _chunks, _segment_chunks, _tasks, _bands = sizes
    sequence, segment, group, pair = _segment_of(task, sizes)
    units = num_heads // num_groups * blocks
    unit = min(pair * 2 + HALF, units - 1)
    head = group * (num_heads // num_groups) + unit // blocks
    return sequence, segment, group, head, unit % blocks, pair * 2 + HALF < units


@gluon.jit
def _steps(task, first, last, there, sizes, begin_ptr, RESULTS: gl.constexpr):
    """Return the first and the end of the chunks that are walked through, of a piece: a first pass leaves out what the
    segment's end has forgotten."""
    stop = min(last, there)
    if not RESULTS:
        num_heads, _groups, _blocks, segments, _chunks, _segment_chunks, _tasks, _bands = sizes
        sequence, segment, _group0, head0, _block0, _is_there0 = _place(task, sizes, 0)
        _sequence, _segment, _group1, head1, _block1, _is_there1 = _place(task, sizes, 1)
        begins = begin_ptr + (sequence * segments + segment) * num_heads
        first = max(first, min(gl.load(begins + head0), gl.load(begins + head1)))
    return first, stop


@gluon.jit
def _copy(work, RESULTS: gl.constexpr):
    """Copy every chunk of this program's tasks, as the copying warp."""
    descs, memory, barriers, sizes, begin_ptr = work
    x_desc, b_desc, c_desc, scores_desc, factors_desc, _out_desc = descs
    x_smem, b_smem, c_smem, scores_smem, factors_smem, _out_smem, _powers, _factors = memory
    full, empty, _made, _left, _stored = barriers
    num_heads, num_groups, _blocks, _segments, num_chunks, segment_chunks, _tasks, _bands = sizes
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
        step0, stop = _steps(task, first, last, there, sizes, begin_ptr, RESULTS)
        row0 = (sequence * num_heads + head0) * num_chunks
        row1 = (sequence * num_heads + head1) * num_chunks
        for step in range(step0, stop):
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
def _last_of(rows, number, layout: gl.constexpr):
    """Return the last number of a row in shared memory, for all rows of a layout."""
    ones: gl.constexpr = [rows.shape[0] * _CHUNK, 1]
    return rows._reinterpret(rows.dtype, ones, _PLAIN).index((number + 1) * _CHUNK - 1).load(layout)


@gluon.jit
def _make_powers(work, RESULTS: gl.constexpr):
    """Compute for every chunk what its groups would compute each thread for itself, as a warp of its own: by how much
    tokens decay to the chunk's end, and by how much results come out too small."""
    _descs, memory, barriers, sizes, begin_ptr = work
    powers = memory[6]
    factors = memory[7]
    full, empty, made, left, _stored = barriers
    STAGES: gl.constexpr = memory[1].shape[0]
    layout: gl.constexpr = gl.BlockedLayout([2], [32], [1], [0])
    num_pieces, begin, end = _share(sizes)
    count = 0
    for number in range(num_pieces):
        task, first, last, there = _piece(number, begin, end, sizes)
        step0, stop = _steps(task, first, last, there, sizes, begin_ptr, RESULTS)
        for _ in range(step0, stop):
            place = count % STAGES
            mbarrier.wait(full.index(place), count // STAGES & 1)
            if RESULTS:
                mbarrier.wait(left.index(place), (count // STAGES & 1) ^ 1)
            for half in gl.static_range(2):
                row = (place * 2 + half) * _FACTORS
                power = (place * 2 + half) * _POWERS
                sums = factors.index(row + _SUMS).load(layout)
                total = _last_of(factors, row + _SUMS, layout)
                kept = gl.exp2(total - factors.index(row + _LATE).load(layout))
                powers.index(power + _KEPT).store(kept)
                powers.index(power + _BACK).store(gl.exp2(sums - total))
                powers.index(power + _LEFT).store(gl.exp2(sums))
            barrier()
            mbarrier.arrive(made.index(place), count=1)
            count += 1
    # Groups ask for a chunk after the last one, too.
    mbarrier.wait(empty.index(count % STAGES), (count // STAGES & 1) ^ 1)
    mbarrier.arrive(made.index(count % STAGES), count=1)


@gluon.jit
def _store(work):
    """Copy the results of every chunk to memory, as a warp of its own."""
    descs, memory, barriers, sizes, _begin_ptr = work
    out_desc = descs[5]
    out_smem = memory[5]
    _full, _empty, _made, left, stored = barriers
    _heads, _groups, _blocks, _segments, _chunks, segment_chunks, _tasks, _bands = sizes
    STAGES: gl.constexpr = memory[1].shape[0]
    num_pieces, begin, end = _share(sizes)
    count = 0
    for number in range(num_pieces):
        task, first, last, there = _piece(number, begin, end, sizes)
        sequence, segment, _group, head0, block0, _is_there0 = _place(task, sizes, 0)
        _sequence, _segment, _group1, head1, block1, is_there1 = _place(task, sizes, 1)
        for step in range(first, min(last, there)):
            place = count % STAGES
            mbarrier.wait(stored.index(place), count // STAGES & 1)
            token = (segment * segment_chunks + step) * _CHUNK
            tma.async_copy_shared_to_global(
                out_desc, [sequence, token, head0, block0 * _CHANNELS], out_smem.index(place * 2)
            )
            if is_there1:
                tma.async_copy_shared_to_global(
                    out_desc, [sequence, token, head1, block1 * _CHANNELS], out_smem.index(place * 2 + 1)
                )
            tma.store_wait(0)
            mbarrier.arrive(left.index(place), count=1)
            count += 1


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
def _take(memory, made, count, HALF: gl.constexpr, layout: gl.constexpr, state_layout: gl.constexpr):
    """Wait for a chunk; return its tokens, by how much they decay to its end, and what it leaves of a state."""
    STAGES: gl.constexpr = memory[1].shape[0]
    place = count % STAGES
    half = place * 2 + HALF
    powers = memory[6]
    operand: gl.constexpr = gl.DotOperandLayout(0, layout, 2)
    mbarrier.wait(made.index(place), count // STAGES & 1)
    at_end = _last_of(powers, half * _POWERS + _LEFT, gl.SliceLayout(1, state_layout))
    x = memory[0].index(half).reshape([_CHUNK, _CHANNELS]).permute([1, 0]).load(operand)
    kept = powers.index(half * _POWERS + _KEPT).load(gl.SliceLayout(0, operand))
    return x, kept, at_end


@gluon.jit
def _enter(x, kept):
    """Return a chunk's tokens, decayed to its end."""
    return (x.to(gl.float32) * kept[None, :]).to(x.dtype)


@gluon.jit
def _update(state, entering, memory, place):
    """Start the product that adds a chunk's tokens to the decayed state."""
    b_smem = memory[1]
    STATES: gl.constexpr = b_smem.shape[4]
    operand: gl.constexpr = gl.DotOperandLayout(0, state.type.layout, 2)
    b = b_smem.index(place).reshape([_CHUNK, STATES])
    return warpgroup_mma(gl.convert_layout(entering, operand), b, state, is_async=True)


@gluon.jit
def _as_operand(state, dtype: gl.constexpr, layout: gl.constexpr):
    """Return a state as the left operand of a product."""
    return gl.convert_layout(state.to(dtype), gl.DotOperandLayout(0, layout, 2))


@gluon.jit
def _read_state(old, memory, place, layout: gl.constexpr):
    """Start the product of a state and this chunk's c."""
    c_smem = memory[2]
    c = c_smem.index(place).reshape([_CHUNK, c_smem.shape[4]])
    zeros = gl.zeros([_CHANNELS, _CHUNK], gl.float32, layout)
    return warpgroup_mma(old, c.permute([1, 0]), zeros, use_acc=False, is_async=True)


@gluon.jit
def _store_result(y, x, skip, memory, place, half, state, empty, layout: gl.constexpr):
    """Store a chunk's results in shared memory, transposed, and return the state once its product has ended.

    Then the chunk's places are given back, before the results are stored: the next copy starts as soon as it can.
    """
    results = (y + skip * gl.convert_layout(x, layout).to(gl.float32)).to(memory[5].dtype)
    state = warpgroup_mma_wait(0, deps=[state])
    mbarrier.arrive(empty.index(place), count=1)
    turned = memory[5].index(half).reshape([_CHUNK, _CHANNELS]).permute([1, 0])
    turned.store(results)
    return state


@gluon.jit
def _scan_decayed(state, taken, skip, memory, empty, count, HALF: gl.constexpr, layout: gl.constexpr):
    """Scan a chunk from the state as the chunk's end leaves it, and return the state.

    Results come out as much too small as their tokens are before the chunk's end. So the tokens that enter the state
    also make the results, with the scores that all heads share, and nothing is computed for pairs of tokens.
    """
    x, kept, at_end = taken
    place = count % memory[1].shape[0]
    half = place * 2 + HALF
    # Before the products, which read shared memory too: after them these loads would wait twice as long.
    back = memory[6].index(half * _POWERS + _BACK).load(gl.SliceLayout(0, layout))
    entering = _enter(x, kept)
    state = state * at_end[:, None]
    old = _as_operand(state, memory[2].dtype, layout)
    y = _read_state(old, memory, place, layout)
    scores = memory[3].index(place).reshape([_CHUNK, _CHUNK])
    y = warpgroup_mma(entering, scores.permute([1, 0]), y, is_async=True)
    state = _update(state, entering, memory, place)
    y = warpgroup_mma_wait(1, deps=[y])
    return _store_result(y * back[None, :], x, skip, memory, place, half, state, empty, layout)


@gluon.jit
def _scan_pairs(state, taken, skip, memory, empty, count, HALF: gl.constexpr, layout: gl.constexpr):
    """Scan a chunk with a decay for each pair of tokens, whatever the chunk leaves of a state, and return the state."""
    x, kept, at_end = taken
    place = count % memory[1].shape[0]
    half = place * 2 + HALF
    y = _read_state(_as_operand(state, memory[2].dtype, layout), memory, place, layout)
    # Of tokens that come later than the row's the scores are zero: their decays need only be finite.
    sums = memory[7].index(half * _FACTORS + _SUMS).load(gl.SliceLayout(1, layout))
    late = memory[7].index(half * _FACTORS + _LATE).load(gl.SliceLayout(0, layout))
    decays = gl.exp2(gl.minimum(sums[:, None] - late[None, :], LARGEST_EXPONENT))
    weights = memory[3].index(place).reshape([_CHUNK, _CHUNK]).load(layout).to(gl.float32) * decays
    # The weights pass through the place of the results.
    weights_place = memory[5].index(half).reshape([_CHUNK, _CHUNK])
    weights_place.store(weights.to(memory[5].dtype))
    fence_async_shared()
    barrier()
    y = warpgroup_mma_wait(0, deps=[y])
    y = y * memory[6].index(half * _POWERS + _LEFT).load(gl.SliceLayout(0, layout))[None, :]
    y = warpgroup_mma(x, weights_place.permute([1, 0]), y, is_async=True)
    state = _update(state * at_end[:, None], _enter(x, kept), memory, place)
    y = warpgroup_mma_wait(1, deps=[y])
    barrier()
    return _store_result(y, x, skip, memory, place, half, state, empty, layout)


@gluon.jit
def _scan_state(state, taken, memory, count):
    """Take a chunk's tokens into the state, without results, and return it."""
    x, kept, at_end = taken
    state = _update(state * at_end[:, None], _enter(x, kept), memory, count % memory[1].shape[0])
    return warpgroup_mma_wait(0, deps=[state])


@gluon.jit
def _can_be_decayed(taken, THRESHOLD: gl.constexpr):
    """Whether a chunk leaves enough of a state for results that are computed from the chunk's end."""
    _x, _kept, at_end = taken
    return gl.max(at_end, axis=0) >= THRESHOLD


@gluon.jit
def _pass_on(stored, count):
    """Give a chunk's results to the warp that copies them to memory."""
    # Not before the products have ended: the assembler of Triton 3.6 crashes.
    fence_async_shared()
    mbarrier.arrive(stored.index(count % stored.shape[0]), count=1)


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
def _nothing(work):
    """Return at once."""


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
    _descs, memory, barriers, sizes, begin_ptr = work
    skip_ptr, _start_ptr, end_ptr, between_ptr, flag_ptr = pointers
    b_smem = memory[1]
    _full, empty, made, _left, stored = barriers
    num_heads, _groups, _blocks, segments, _chunks, segment_chunks, _tasks, _bands = sizes
    STATES: gl.constexpr = b_smem.shape[4]
    state_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, STATES, 16])
    out_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, _CHUNK, 16])
    THRESHOLD: gl.constexpr = _LEAST_LEFT if memory[0].dtype == gl.bfloat16 else _MORE_THAN_ALL
    own = gl.program_id(0) * 2 + HALF
    num_pieces, begin, end = _share(sizes)
    count = 0
    taken = _take(memory, made, count, HALF, out_layout, state_layout)
    for number in range(num_pieces):
        task, first, last, there = _piece(number, begin, end, sizes)
        sequence, segment, _group, head, block, is_there = _place(task, sizes, HALF)
        skip = gl.load(skip_ptr + head).to(gl.float32)
        states = ((sequence * segments + segment) * num_heads + head).to(gl.int64) * NUM_STATES * NUM_CHANNELS
        state = _first_state(
            pointers, states, block, first, NUM_CHANNELS, NUM_STATES, HAS_START, HALF, STATES, state_layout
        )
        step, stop = _steps(task, first, last, there, sizes, begin_ptr, RESULTS)
        if not RESULTS:
            while step < stop:
                state = _scan_state(state, taken, memory, count)
                mbarrier.arrive(empty.index(count % empty.shape[0]), count=1)
                count += 1
                step += 1
                taken = _take(memory, made, count, HALF, out_layout, state_layout)
        else:
            # A loop of its own for chunks that can be decayed: with a branch in it the states would be moved.
            while step < stop:
                while (step < stop) & _can_be_decayed(taken, THRESHOLD):
                    state = _scan_decayed(state, taken, skip, memory, empty, count, HALF, out_layout)
                    _pass_on(stored, count)
                    count += 1
                    step += 1
                    taken = _take(memory, made, count, HALF, out_layout, state_layout)
                if step < stop:
                    state = _scan_pairs(state, taken, skip, memory, empty, count, HALF, out_layout)
                    _pass_on(stored, count)
                    count += 1
                    step += 1
                    taken = _take(memory, made, count, HALF, out_layout, state_layout)
        if last < segment_chunks:
            _hand_over(state, between_ptr + own * STATES * _CHANNELS, flag_ptr + own, STATES, state_layout)
        else:
            places, mask = _state_places(block, NUM_CHANNELS, NUM_STATES, STATES, state_layout)
            gl.store(end_ptr + states + places, state, mask=mask & is_there)


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
    begin_ptr,
    num_heads,
    num_groups,
    blocks,
    segments,
    num_chunks,
    segment_chunks,
    num_tasks,
    bands,
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
    factors = blocks_of(factors_desc, STAGES * 2)
    memory = (
        blocks_of(x_desc, STAGES * 2),
        blocks_of(b_desc, STAGES),
        blocks_of(c_desc, STAGES),
        blocks_of(scores_desc, STAGES),
        factors,
        blocks_of(out_desc, STAGES * 2),
        gl.allocate_shared_memory(gl.float32, [STAGES * 2 * _POWERS, _CHUNK], _PLAIN),
        factors._reinterpret(gl.float32, [STAGES * 2 * _FACTORS, _CHUNK], _PLAIN),
    )
    barriers = (
        barriers_of(STAGES, 1),
        barriers_of(STAGES, 2),
        barriers_of(STAGES, 1),
        barriers_of(STAGES, 1),
        barriers_of(STAGES, 2),
    )
    fence_async_shared()
    descs = (x_desc, b_desc, c_desc, scores_desc, factors_desc, out_desc)
    sizes = (num_heads, num_groups, blocks, segments, num_chunks, segment_chunks, num_tasks, bands)
    pointers = (skip_ptr, start_ptr, end_ptr, between_ptr, flag_ptr)
    work = (descs, memory, barriers, sizes, begin_ptr)
    gl.warp_specialize(
        [
            (_scan, (work, pointers, NUM_CHANNELS, NUM_STATES, HAS_START, RESULTS, gl.constexpr(0))),
            (_scan, (work, pointers, NUM_CHANNELS, NUM_STATES, HAS_START, RESULTS, gl.constexpr(1))),
            (_copy, (work, RESULTS)),
            (_make_powers, (work, RESULTS)),
            (_store if RESULTS else _nothing, (work,)),
        ],
        [4, 1, 1, 1],
        [REGISTERS, COPYING_REGISTERS, COPYING_REGISTERS, COPYING_REGISTERS],
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
        num_warps=2,
    )
    return scores, factors


def num_bands(tasks: int, programs: int, chunks: int) -> int:
    """Number of bands of programs that take tasks of some chunks in turns [count]: the most that cost hardly any
    balance."""

    def share(bands: int) -> int:
        return int(triton.cdiv(triton.cdiv(tasks, bands) * chunks, programs // bands))

    fitting = [bands for bands in range(1, programs + 1) if programs % bands == 0]
    return max(bands for bands in fitting if share(bands) <= _LARGEST_SHARE * share(1))


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
    begins: torch.Tensor | None = None,
) -> None:
    """Scan the segments that `ends` has a state for; with `begins`, their first chunks that matter, for end states from
    zero alone."""
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
        begins,
        num_heads,
        groups,
        blocks,
        segments,
        triton.cdiv(num_tokens, chunk),
        segment_chunks,
        tasks,
        num_bands(tasks, programs, segment_chunks),
        NUM_CHANNELS=num_channels,
        NUM_STATES=num_states,
        STAGES=_STAGES,
        HAS_START=starts is not None,
        RESULTS=begins is None,
        REGISTERS=_REGISTERS,
        COPYING_REGISTERS=_HELPING_REGISTERS,
        num_warps=4,
    )


def _decays(
    factors: torch.Tensor, ends: torch.Tensor, segment_chunks: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return by how much segments decay a state, as exponents of 2, and the first chunk that each one's end remembers.

    Shapes: factors [B · H · chunks, factors, chunk], ends [B, segments, H, N, P] -> [B, segments, H], the same int32.
    """
    batch, segments, num_heads = ends.shape[:3]
    decays = ends.new_empty((batch, segments, num_heads))
    begins = torch.empty_like(decays, dtype=torch.int32)
    _decays_kernel[(num_heads, segments, batch)](
        factors,
        decays,
        begins,
        factors.shape[0] // (batch * num_heads),
        segment_chunks,
        FACTORS=_FACTORS.value,
        TOKENS=_CHUNK.value,
        LONGEST=_LONGEST,
        BLOCK=triton.next_power_of_2(segment_chunks),
        num_warps=1,
    )
    return decays, begins


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
        own_ends = states_of(segments - 1)
        decays, begins = _decays(factors, own_ends, segment_chunks)
        _launch(x, b, c, scores, factors, skip, None, out, own_ends, segment_chunks, begins)
        starts = ssd.join_states(own_ends, decays, start, segments)
    ends = states_of(segments)
    _launch(x, b, c, scores, factors, skip, starts, out, ends, segment_chunks)
    return out, ends[:, -1].contiguous()
