"""State-space duality scan on Hopper's matrix units with a role for each group of warps (Gluon): the twin of `ssd`.

The recurrence is the one of `ssd`, in chunks of 64 tokens, with everything transposed: a state is [channels, states]
and stays in registers, where it is the accumulator of its own update and, rounded, the left operand of the product that
reads it. Only the weights among a chunk's tokens pass through shared memory.

One warp copies a chunk of x, b, c, scores and factors into a ring of shared memory. Two groups of four warps take one
head each and share b, c and scores, which would otherwise bound the kernel by what the L2 gives; a third group computes
the weights for both. A program stays and takes one pair of heads after the other.

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

from advisor.kernels import ssd
from advisor.kernels.attention_wgmma import COPY_REGISTERS, barrier, barriers_of, blocks_of
from advisor.kernels.backend import HALVES, INTERPRET, num_sms
from advisor.kernels.ssd import LARGEST_EXPONENT

_CHUNK = gl.constexpr(64)
_CHANNELS = gl.constexpr(64)
"""Number of channels of one group of four warps: the rows of the matrix instruction."""
_SUM_HEADS: Final = 16
"""Number of heads of a program that sums steps: 64 bytes of a token's steps."""
_FACTORS = gl.constexpr(4)
_SUMS = gl.constexpr(0)
_LATE = gl.constexpr(1)
_LEFT = gl.constexpr(2)
_KEPT = gl.constexpr(3)
"""Rows of a head's factors: s, s − log₂ Δ, what is left of an earlier state at a token, and what is kept of a token."""
_STAGES: Final = 3
"""Number of chunks in shared memory."""
_REGISTERS: Final = 200
"""Number of registers per thread of a group that scans. What exceeds them goes through the first cache, of which shared
memory leaves little: while sums were held from one product to the next, a scan of 0.40 ms took 0.48."""
_WEIGH_REGISTERS: Final = 88
LARGEST_STATES: Final = 128
_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _factors_kernel(
    delta_ptr,
    a_ptr,
    factors_ptr,
    num_tokens,
    num_heads,
    HEADS: tl.constexpr,
    TOKENS: tl.constexpr,
):
    """Store four numbers for each head and token of a chunk, which every program would compute for all its threads.

    With s the sum of Δ · a · log₂ e from the chunk's start, Q its last token: s, s − log₂ Δ, 2^s, and Δ · 2^(s_Q − s).
    Tokens lie side by side in the result and heads in Δ, so a program turns a block over.
    """
    chunk = tl.program_id(0)
    heads = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    sequence = tl.program_id(2).to(tl.int64)
    steps = tl.arange(0, TOKENS)
    tokens = chunk * TOKENS + steps
    is_head = heads < num_heads
    places = (sequence * num_tokens + tokens)[:, None] * num_heads + heads[None, :]
    # Beyond the end Δ is 0, so the state stays unchanged and the token has no weight.
    delta = tl.load(delta_ptr + places, mask=(tokens < num_tokens)[:, None] & is_head[None, :], other=0.0).to(
        tl.float32
    )
    rate = tl.load(a_ptr + heads, mask=is_head, other=0.0).to(tl.float32) * _LOG2_E
    decays = delta * rate[None, :]
    sums = tl.cumsum(decays, axis=0)
    last = tl.sum(decays, axis=0)[None, :]
    row = (sequence * num_heads + heads) * tl.num_programs(0) + chunk
    out = factors_ptr + row[None, :] * _FACTORS * TOKENS + steps[:, None]
    mask = is_head[None, :]
    tl.store(out + _SUMS * TOKENS, sums, mask=mask)
    tl.store(out + _LATE * TOKENS, sums - tl.log2(delta), mask=mask)
    tl.store(out + _LEFT * TOKENS, tl.exp2(sums), mask=mask)
    tl.store(out + _KEPT * TOKENS, delta * tl.exp2(last - sums), mask=mask)


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
def _copy(work):
    """Copy every chunk of this program's tasks, as the copying warp."""
    descs, memory, barriers, sizes = work
    x_desc, b_desc, c_desc, scores_desc, factors_desc, _out_desc = descs
    x_smem, b_smem, c_smem, scores_smem, factors_smem, _weights_smem, _out_smem = memory
    full, empty, _weighed = barriers
    num_heads, num_groups, _blocks, _segments, num_chunks, segment_chunks, _tasks, _whole = sizes
    STAGES: gl.constexpr = b_smem.shape[0]
    blocks: gl.constexpr = [STAGES * 2, 1, _FACTORS * _CHUNK]
    factors_blocks = factors_smem._reinterpret(factors_smem.dtype, blocks, factors_smem.layout)
    half_bytes: gl.constexpr = x_desc.block_type.nbytes + factors_desc.block_type.nbytes
    both_bytes: gl.constexpr = (
        b_desc.block_type.nbytes + c_desc.block_type.nbytes + scores_desc.block_type.nbytes
    )
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
            mbarrier.expect(bar, 2 * half_bytes + both_bytes)
            chunk = segment * segment_chunks + step
            token = chunk * _CHUNK
            score_row = (sequence * num_chunks + chunk) * num_groups + group
            tma.async_copy_global_to_shared(scores_desc, [score_row, 0, 0], bar, scores_smem.index(place))
            halves = place * 2
            tma.async_copy_global_to_shared(
                factors_desc, [row0 + chunk, 0], bar, factors_blocks.index(halves)
            )
            tma.async_copy_global_to_shared(
                factors_desc, [row1 + chunk, 0], bar, factors_blocks.index(halves + 1)
            )
            tma.async_copy_global_to_shared(c_desc, [sequence, token, group, 0], bar, c_smem.index(place))
            tma.async_copy_global_to_shared(b_desc, [sequence, token, group, 0], bar, b_smem.index(place))
            tma.async_copy_global_to_shared(
                x_desc, [sequence, token, head0, block0 * _CHANNELS], bar, x_smem.index(halves)
            )
            tma.async_copy_global_to_shared(
                x_desc, [sequence, token, head1, block1 * _CHANNELS], bar, x_smem.index(halves + 1)
            )
            count += 1


@gluon.jit
def _factor(factors_smem, half, FACTOR: gl.constexpr, layout: gl.constexpr):
    """Return one of the factors of a half's tokens."""
    return factors_smem.index(half * _FACTORS + FACTOR).reshape([_CHUNK]).load(layout)


@gluon.jit
def _decays(factors_smem, half, layout: gl.constexpr):
    """Return how much of each token, a column, is left at each later one, a row, times Δ of the former.

    Of tokens that come later than the row's the scores are zero: their decays need only be finite.
    """
    sums = _factor(factors_smem, half, _SUMS, gl.SliceLayout(1, layout))
    late = _factor(factors_smem, half, _LATE, gl.SliceLayout(0, layout))
    return gl.exp2(gl.minimum(sums[:, None] - late[None, :], LARGEST_EXPONENT))


@gluon.jit
def _weigh(work):
    """Compute the weights among each chunk's tokens for both heads, as one group of four warps."""
    _descs, memory, barriers, sizes = work
    _x_smem, b_smem, _c_smem, scores_smem, factors_smem, weights_smem, _out_smem = memory
    full, _empty, weighed = barriers
    STAGES: gl.constexpr = b_smem.shape[0]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, _CHUNK, 16])
    num_pieces, begin, end = _share(sizes)
    count = 0
    for number in range(num_pieces):
        _task, first, last, there = _piece(number, begin, end, sizes)
        for _step in range(first, min(last, there)):
            place = count % STAGES
            mbarrier.wait(full.index(place), count // STAGES & 1)
            scores_place = scores_smem.index(place).reshape([_CHUNK, _CHUNK])
            scores = scores_place.load(layout).to(gl.float32)
            weights0 = scores * _decays(factors_smem, place * 2, layout)
            weights_smem.index(place).store(weights0.to(b_smem.dtype))
            # The second head's weights take the place of the scores, which all threads have read.
            weights1 = scores * _decays(factors_smem, place * 2 + 1, layout)
            scores_place.store(weights1.to(b_smem.dtype))
            fence_async_shared()
            barrier()
            mbarrier.arrive(weighed.index(place), count=1)
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
def _read_state(state, memory, place, left, layout: gl.constexpr):
    """Start the product of what earlier chunks left and this chunk's c, and decay the state to the chunk's end.

    The state is decayed before the product starts: the assembler would end a product that runs before it lets another
    accumulator be touched.
    """
    c_smem = memory[2]
    STATES: gl.constexpr = c_smem.shape[4]
    old = gl.convert_layout(state.to(c_smem.dtype), gl.DotOperandLayout(0, layout, 2))
    state = state * left
    c = c_smem.index(place).reshape([_CHUNK, STATES])
    zeros = gl.zeros([_CHANNELS, _CHUNK], gl.float32, layout)
    return warpgroup_mma(old, c.permute([1, 0]), zeros, use_acc=False, is_async=True), state


@gluon.jit
def _enter(state, x, memory, place, HALF: gl.constexpr):
    """Start the product that adds this chunk's tokens, decayed to its end, to the state."""
    b_smem = memory[1]
    STATES: gl.constexpr = b_smem.shape[4]
    kept = _factor(memory[4], place * 2 + HALF, _KEPT, gl.SliceLayout(0, x.type.layout))
    entering = (x.to(gl.float32) * kept[None, :]).to(b_smem.dtype)
    operand: gl.constexpr = gl.DotOperandLayout(0, state.type.layout, 2)
    b = b_smem.index(place).reshape([_CHUNK, STATES])
    return warpgroup_mma(gl.convert_layout(entering, operand), b, state, is_async=True)


@gluon.jit
def _scan_chunk(state, memory, barriers, place, phase, skip, HALF: gl.constexpr, layout: gl.constexpr):
    """Store a chunk's results in shared memory, transposed, and return the state, whose update still runs."""
    x_smem, _b_smem, _c_smem, scores_smem, factors_smem, weights_smem, out_smem = memory
    full, _empty, weighed = barriers
    columns_layout: gl.constexpr = gl.SliceLayout(0, layout)
    mbarrier.wait(full.index(place), phase)
    left = _factor(factors_smem, place * 2 + HALF, _LEFT, columns_layout)
    columns = gl.arange(0, _CHUNK, layout=columns_layout)
    at_end = gl.sum(gl.where(columns == _CHUNK - 1, left, 0.0), axis=0)
    y, state = _read_state(state, memory, place, at_end, layout)
    mbarrier.wait(weighed.index(place), phase)
    y = warpgroup_mma_wait(0, deps=[y])
    x = x_smem.index(place * 2 + HALF).reshape([_CHUNK, _CHANNELS]).permute([1, 0])
    x = x.load(gl.DotOperandLayout(0, layout, 2))
    # Factors are loaded again, because registers that held them until here would be missing.
    y = y * _factor(factors_smem, place * 2 + HALF, _LEFT, columns_layout)[None, :]
    weights = weights_smem.index(place)
    if HALF == 1:
        weights = scores_smem.index(place).reshape([_CHUNK, _CHUNK])
    y = warpgroup_mma(x, weights.permute([1, 0]), y, is_async=True)
    state = _enter(state, x, memory, place, HALF)
    y = warpgroup_mma_wait(1, deps=[y])
    # The result of the chunk before has been read from its place.
    tma.store_wait(0)
    barrier()
    y += skip * gl.convert_layout(x, layout).to(gl.float32)
    turned = out_smem.index(HALF).reshape([_CHUNK, _CHANNELS]).permute([1, 0])
    turned.store(y.to(x_smem.dtype))
    fence_async_shared()
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
    HALF: gl.constexpr,
):
    """Scan one head of every task, as one group of four warps."""
    descs, memory, barriers, sizes = work
    skip_ptr, _start_ptr, end_ptr, between_ptr, flag_ptr = pointers
    out_desc = descs[5]
    b_smem = memory[1]
    out_place = memory[6].index(HALF)
    empty = barriers[1]
    num_heads, _groups, _blocks, segments, _chunks, segment_chunks, _tasks, _whole = sizes
    STAGES: gl.constexpr = b_smem.shape[0]
    STATES: gl.constexpr = b_smem.shape[4]
    state_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, STATES, 16])
    out_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, _CHUNK, 16])
    own = gl.program_id(0) * 2 + HALF
    num_pieces, begin, end = _share(sizes)
    count = 0
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
            state = _scan_chunk(state, memory, barriers, place, count // STAGES & 1, skip, HALF, out_layout)
            if is_there:
                token = (segment * segment_chunks + step) * _CHUNK
                tma.async_copy_shared_to_global(
                    out_desc, [sequence, token, head, block * _CHANNELS], out_place
                )
            state = warpgroup_mma_wait(0, deps=[state])
            mbarrier.arrive(empty.index(place), count=1)
            count += 1
        if last < segment_chunks:
            _hand_over(state, between_ptr + own * STATES * _CHANNELS, flag_ptr + own, STATES, state_layout)
        else:
            places, mask = _state_places(block, NUM_CHANNELS, NUM_STATES, STATES, state_layout)
            gl.store(end_ptr + states + places, state, mask=mask & is_there)
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
    REGISTERS: gl.constexpr,
    WEIGH_REGISTERS: gl.constexpr,
    COPYING_REGISTERS: gl.constexpr,
    num_warps: gl.constexpr,
):
    """Share the work among the groups of warps."""
    weights_layout: gl.constexpr = gl.NVMMASharedLayout(128, 16, rank=2)
    memory = (
        blocks_of(x_desc, STAGES * 2),
        blocks_of(b_desc, STAGES),
        blocks_of(c_desc, STAGES),
        blocks_of(scores_desc, STAGES),
        gl.allocate_shared_memory(gl.float32, [STAGES * 2 * _FACTORS, 1, _CHUNK], factors_desc.layout),
        gl.allocate_shared_memory(x_desc.dtype, [STAGES, _CHUNK, _CHUNK], weights_layout),
        blocks_of(out_desc, 2),
    )
    barriers = (barriers_of(STAGES, 1), barriers_of(STAGES, 2), barriers_of(STAGES, 1))
    fence_async_shared()
    descs = (x_desc, b_desc, c_desc, scores_desc, factors_desc, out_desc)
    sizes = (num_heads, num_groups, blocks, segments, num_chunks, segment_chunks, num_tasks, whole)
    pointers = (skip_ptr, start_ptr, end_ptr, between_ptr, flag_ptr)
    work = (descs, memory, barriers, sizes)
    gl.warp_specialize(
        [
            (_scan, (work, pointers, NUM_CHANNELS, NUM_STATES, HAS_START, gl.constexpr(0))),
            (_scan, (work, pointers, NUM_CHANNELS, NUM_STATES, HAS_START, gl.constexpr(1))),
            (_weigh, (work,)),
            (_copy, (work,)),
        ],
        [4, 4, 1],
        [REGISTERS, WEIGH_REGISTERS, COPYING_REGISTERS],
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


def _compute_factors(delta: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
    """Return what `_factors_kernel` finds, a row for each chunk of a head and sequence.

    Shapes: delta [B, L, H], a [H] -> [B · H · chunks, 4 · tokens of a chunk] fp32.
    """
    batch, num_tokens, num_heads = delta.shape
    chunk = _CHUNK.value
    num_chunks = int(triton.cdiv(num_tokens, chunk))
    shape = (batch * num_heads * num_chunks, _FACTORS.value * chunk)
    factors = torch.empty(shape, dtype=torch.float32, device=delta.device)
    _factors_kernel[(num_chunks, triton.cdiv(num_heads, _SUM_HEADS), batch)](
        delta, a, factors, num_tokens, num_heads, HEADS=_SUM_HEADS, TOKENS=chunk, num_warps=4
    )
    return factors


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
    width = _CHANNELS.value
    blocks = int(triton.cdiv(num_channels, width))
    pairs = batch * groups * int(triton.cdiv(num_heads // groups * blocks, 2))
    sms = num_sms(x.device.index or 0)
    segments = num_segments or ssd.choose_segments(pairs, num_tokens, chunk, sms)
    segments, segment_chunks = ssd.cut(num_tokens, chunk, segments)
    starts = start
    if segments > 1:
        starts = ssd.find_starts(x, delta, a, b, start, segments, segment_chunks * chunk)
    out = torch.empty_like(x) if out is None else out
    ends = x.new_empty((batch, segments, num_heads, num_states, num_channels), dtype=torch.float32)
    scores = ssd.compute_scores(b, c, chunk)
    factors = _compute_factors(delta, a)

    def describe(tensor: torch.Tensor, columns: int) -> TensorDescriptor:
        layout = gl.NVMMASharedLayout(min(128, 2 * columns), 16, rank=4)
        return TensorDescriptor.from_tensor(tensor, [1, chunk, 1, columns], layout)

    states = max(16, triton.next_power_of_2(num_states))
    tasks = pairs * segments
    programs = min(tasks, sms)
    between = x.new_empty((programs, 2, states, width), dtype=torch.float32)
    _ssd_kernel[(programs,)](
        describe(x, width),
        describe(b, states),
        describe(c, states),
        TensorDescriptor.from_tensor(scores, [1, chunk, chunk], gl.NVMMASharedLayout(128, 16, rank=3)),
        TensorDescriptor.from_tensor(factors, [1, factors.shape[1]], gl.NVMMASharedLayout(0, 32, rank=2)),
        describe(out, width),
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
        REGISTERS=_REGISTERS,
        WEIGH_REGISTERS=_WEIGH_REGISTERS,
        COPYING_REGISTERS=COPY_REGISTERS,
        num_warps=4,
    )
    return out, ends[:, -1].contiguous()
