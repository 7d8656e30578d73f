"""Attention of a whole prompt on Hopper's matrix units with a role for each group of warps (Gluon): the twin of
`attention`.

One warp copies keys and values into a ring of shared memory. Each of the other groups of four warps owns 64 queries.
It starts two products, the scores of the next keys and the values weighted by the last ones, and computes the softmax
of the scores while the second product still runs. Groups take turns in starting products, so that one computes
exponentials while the matrix unit works for another. A program stays and takes tile after tile, longest first.
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

from advisor.kernels import attention
from advisor.kernels.backend import HALVES, INTERPRET, num_sms

_ROWS = gl.constexpr(64)
"""Number of queries of one group of four warps: the rows of the matrix instruction."""


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
_COPY_REGISTERS: Final = 24
"""Number of registers of the copying warp's threads: the least that can be asked for."""


@gluon.jit
def _place(
    step,
    num_queries,
    num_keys,
    num_heads,
    num_tiles,
    TILE: gl.constexpr,
    BLOCK_N: gl.constexpr,
    CAUSAL: gl.constexpr,
):
    """Return block of queries, head, batch and number of blocks of keys of a program's tile.

    Heads are taken in bands. In the last band the tiles with the most keys come first, and every second round goes
    backwards through the programs, so that all of them end at nearly the same time.
    """
    programs = gl.num_programs(0)
    program = gl.program_id(0)
    if step % 2 == 1:
        program = programs - 1 - program
    tile = step * programs + program
    blocks = (num_queries + TILE - 1) // TILE
    heads = num_tiles // blocks
    # At least four programs read the keys and values of a head at a time, so that the L2 serves most of them.
    most_heads = max(1, programs // 4)
    band = tile // (most_heads * blocks)
    first_head = band * most_heads
    band_heads = min(most_heads, heads - first_head)
    place = tile - first_head * blocks
    block = place // band_heads
    # Bands alternate: each begins with tiles of the length with which the one before ended.
    if ((heads - 1) // most_heads - band) % 2 == 0:
        block = blocks - 1 - block
    head = first_head + place % band_heads
    batch = head // num_heads
    head = head % num_heads
    end = num_keys
    if CAUSAL:
        end = min(num_keys, (block + 1) * TILE + num_keys - num_queries)
    return block, head, batch, (end + BLOCK_N - 1) // BLOCK_N


@gluon.jit
def _num_steps(num_tiles):
    """Return the number of tiles of this program."""
    programs = gl.num_programs(0)
    whole = num_tiles // programs
    left = num_tiles - whole * programs
    program = gl.program_id(0)
    if whole % 2 == 1:
        program = programs - 1 - program
    return whole + (program < left).to(gl.int32)


@gluon.jit
def _copy_rows(
    desc, tail_desc, smem, tail_smem, full, empty, place, phase, batch, first, head, TAIL: gl.constexpr
):
    """Copy a block to its place in shared memory, once the groups have read its previous content."""
    mbarrier.wait(empty.index(place), phase ^ 1)
    num_bytes: gl.constexpr = desc.block_type.nbytes
    if TAIL:
        mbarrier.expect(full.index(place), num_bytes + tail_desc.block_type.nbytes)
    else:
        mbarrier.expect(full.index(place), num_bytes)
    tma.async_copy_global_to_shared(desc, [batch, first, head, 0], full.index(place), smem.index(place))
    if TAIL:
        column: gl.constexpr = desc.block_type.shape[3]
        tma.async_copy_global_to_shared(
            tail_desc, [batch, first, head, column], full.index(place), tail_smem.index(place)
        )


@gluon.jit
def _copy(descs, memory, barriers, sizes, TAIL: gl.constexpr, CAUSAL: gl.constexpr):
    """Copy queries, keys and values of all tiles, as the copying warp."""
    q_desc, k_desc, v_desc, q_tail_desc, k_tail_desc, v_tail_desc = descs
    q_smem, k_smem, v_smem, q_tail, k_tail, v_tail = memory
    q_full, q_empty, k_full, k_empty, v_full, v_empty = barriers
    num_queries, num_keys, num_heads, queries_per_kv, num_tiles = sizes
    GROUPS: gl.constexpr = q_smem.shape[0]
    STAGES: gl.constexpr = k_smem.shape[0]
    BLOCK_N: gl.constexpr = k_smem.shape[2]
    count = 0
    for step in range(_num_steps(num_tiles)):
        block, head, batch, num_blocks = _place(
            step, num_queries, num_keys, num_heads, num_tiles, GROUPS * _ROWS, BLOCK_N, CAUSAL
        )
        kv_head = head // queries_per_kv
        for left in range(num_blocks - 1, -1, -1):
            place = count % STAGES
            phase = count // STAGES & 1
            first = left * BLOCK_N
            _copy_rows(
                k_desc,
                k_tail_desc,
                k_smem,
                k_tail,
                k_full,
                k_empty,
                place,
                phase,
                batch,
                first,
                kv_head,
                TAIL,
            )
            if left == num_blocks - 1:
                for group in gl.static_range(GROUPS):
                    row = (block * GROUPS + group) * _ROWS
                    _copy_rows(
                        q_desc,
                        q_tail_desc,
                        q_smem,
                        q_tail,
                        q_full,
                        q_empty,
                        group,
                        step & 1,
                        batch,
                        row,
                        head,
                        TAIL,
                    )
            _copy_rows(
                v_desc,
                v_tail_desc,
                v_smem,
                v_tail,
                v_full,
                v_empty,
                place,
                phase,
                batch,
                first,
                kv_head,
                TAIL,
            )
            count += 1


@gluon.jit
def _hide(scores, first_row, first_key, num_keys, offset, CAUSAL: gl.constexpr, layout: gl.constexpr):
    """Return the scores with those of keys that a query does not attend to replaced."""
    keys = first_key + gl.arange(0, scores.shape[1], layout=gl.SliceLayout(0, layout))
    visible = (keys < num_keys)[None, :]
    if CAUSAL:
        rows = first_row + gl.arange(0, _ROWS, layout=gl.SliceLayout(1, layout))
        visible = visible & (keys[None, :] <= rows[:, None] + offset)
    return gl.where(visible, scores, -float("inf"))


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
    BLOCK_N: gl.constexpr = k_smem.shape[2]
    HEAD: gl.constexpr = k_smem.shape[4]
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
    BLOCK_N: gl.constexpr = k_smem.shape[2]
    acc = warpgroup_mma(weights, v_smem.index(place).reshape([BLOCK_N, k_smem.shape[4]]), acc, is_async=True)
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
    acc,
    acc_tail,
    weights,
    top,
    total,
    count,
    first_key,
    memory,
    barriers,
    turns,
    tile,
    first_row,
    num_keys,
    offset,
    softmax_scale,
    GROUP: gl.constexpr,
    TAIL: gl.constexpr,
    MASKED: gl.constexpr,
    CAUSAL: gl.constexpr,
    OVERLAP: gl.constexpr,
    TURNS: gl.constexpr,
    score_layout: gl.constexpr,
    tail_layout: gl.constexpr,
):
    """Take one block of keys: its scores and the values of the block before are multiplied at the same time."""
    _q_full, _q_empty, k_full, k_empty, v_full, v_empty = barriers
    STAGES: gl.constexpr = k_full.shape[0]
    place = count % STAGES
    mbarrier.wait(k_full.index(place), count // STAGES & 1)
    if TURNS:
        # The first block of each tile is taken without a turn; the first group has its first turn at once.
        turn = count - 1 - tile + (1 if GROUP == 0 else 0)
        mbarrier.wait(turns.index(GROUP), turn & 1)
    scores = _start_scores(memory, place, GROUP, TAIL, score_layout)
    last = (count - 1) % STAGES
    mbarrier.wait(v_full.index(last), (count - 1) // STAGES & 1)
    acc, acc_tail = _start_values(memory, weights, acc, acc_tail, last, TAIL, tail_layout)
    if TURNS:
        mbarrier.arrive(turns.index((GROUP + 1) % turns.shape[0]), count=1)
    scores = warpgroup_mma_wait(2 if TAIL else 1, deps=[scores])
    mbarrier.arrive(k_empty.index(place), count=1)
    if MASKED:
        scores = _hide(scores, first_row, first_key, num_keys, offset, CAUSAL, score_layout)
    weights_fp32, top, total, scale = _exponentials(scores, top, total, softmax_scale, MASKED)
    if OVERLAP:
        total = _finish(total)
    acc, acc_tail = _await_values(acc, acc_tail, TAIL)
    mbarrier.arrive(v_empty.index(last), count=1)
    acc = _times(acc, scale)
    if TAIL:
        acc_tail = _times(acc_tail, scale)
    weights = gl.convert_layout(weights_fp32.to(weights.dtype), weights.type.layout)
    return acc, acc_tail, weights, top, total, count + 1


@gluon.jit
def _store(
    descs, memory, acc, acc_tail, total, batch, first_row, head, GROUP: gl.constexpr, TAIL: gl.constexpr
):
    """Store the result through the place of the queries; rows and columns beyond the array are not written."""
    out_desc, out_tail_desc = descs
    q_smem, _k_smem, _v_smem, q_tail, _k_tail, _v_tail = memory
    HEAD: gl.constexpr = q_smem.shape[4]
    q = q_smem.index(GROUP)
    q.reshape([_ROWS, HEAD]).store(_times(acc, 1.0 / total).to(q_smem.dtype))
    if TAIL:
        q_rest = q_tail.index(GROUP)
        q_rest.reshape([_ROWS, TAIL]).store(_times(acc_tail, 1.0 / total).to(q_smem.dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(out_desc, [batch, first_row, head, 0], q)
    if TAIL:
        tma.async_copy_shared_to_global(out_tail_desc, [batch, first_row, head, HEAD], q_rest)
    tma.store_wait(0)


@gluon.jit
def _multiply(
    descs,
    memory,
    barriers,
    turns,
    sizes,
    logs_ptr,
    softmax_scale,
    GROUP: gl.constexpr,
    TAIL: gl.constexpr,
    CAUSAL: gl.constexpr,
    OVERLAP: gl.constexpr,
    TURNS: gl.constexpr,
    HAS_LOGS: gl.constexpr,
):
    """Compute 64 queries of every tile, as one group of four warps."""
    q_smem, k_smem, _v_smem, _q_tail, _k_tail, _v_tail = memory
    q_full, q_empty, k_full, k_empty, v_full, v_empty = barriers
    num_queries, num_keys, num_heads, _queries_per_kv, num_tiles = sizes
    GROUPS: gl.constexpr = q_smem.shape[0]
    STAGES: gl.constexpr = k_smem.shape[0]
    BLOCK_N: gl.constexpr = k_smem.shape[2]
    HEAD: gl.constexpr = k_smem.shape[4]
    score_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    acc_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HEAD, 16])
    tail_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, TAIL if TAIL else HEAD, 16])
    weight_layout: gl.constexpr = gl.DotOperandLayout(0, acc_layout, 2)
    offset = num_keys - num_queries
    count = 0
    for step in range(_num_steps(num_tiles)):
        block, head, batch, num_blocks = _place(
            step, num_queries, num_keys, num_heads, num_tiles, GROUPS * _ROWS, BLOCK_N, CAUSAL
        )
        first_row = (block * GROUPS + GROUP) * _ROWS
        # Blocks of keys below `whole` are visible to every query of the group: no mask is computed for them.
        whole = num_keys // BLOCK_N
        if CAUSAL:
            whole = min(whole, (first_row + offset + 1) // BLOCK_N)
        whole = min(whole, num_blocks - 1)
        mbarrier.wait(q_full.index(GROUP), step & 1)
        mbarrier.wait(k_full.index(count % STAGES), count // STAGES & 1)
        scores = _start_scores(memory, count % STAGES, GROUP, TAIL, score_layout)
        scores = warpgroup_mma_wait(0, deps=[scores])
        mbarrier.arrive(k_empty.index(count % STAGES), count=1)
        scores = _hide(scores, first_row, (num_blocks - 1) * BLOCK_N, num_keys, offset, CAUSAL, score_layout)
        top = gl.full([_ROWS], -float("inf"), gl.float32, gl.SliceLayout(1, score_layout))
        total = gl.zeros([_ROWS], gl.float32, gl.SliceLayout(1, score_layout))
        weights_fp32, top, total, _scale = _exponentials(scores, top, total, softmax_scale, True)
        weights = gl.convert_layout(weights_fp32.to(q_smem.dtype), weight_layout)
        acc = gl.zeros([_ROWS, HEAD], gl.float32, acc_layout)
        acc_tail = gl.zeros([_ROWS, TAIL if TAIL else 1], gl.float32, tail_layout)
        count += 1
        for left in range(num_blocks - 2, whole - 1, -1):
            acc, acc_tail, weights, top, total, count = _step(
                acc,
                acc_tail,
                weights,
                top,
                total,
                count,
                left * BLOCK_N,
                memory,
                barriers,
                turns,
                step,
                first_row,
                num_keys,
                offset,
                softmax_scale,
                GROUP,
                TAIL,
                True,
                CAUSAL,
                OVERLAP,
                TURNS,
                score_layout,
                tail_layout,
            )
        for left in range(whole - 1, -1, -1):
            acc, acc_tail, weights, top, total, count = _step(
                acc,
                acc_tail,
                weights,
                top,
                total,
                count,
                left * BLOCK_N,
                memory,
                barriers,
                turns,
                step,
                first_row,
                num_keys,
                offset,
                softmax_scale,
                GROUP,
                TAIL,
                False,
                CAUSAL,
                OVERLAP,
                TURNS,
                score_layout,
                tail_layout,
            )
        last = (count - 1) % STAGES
        mbarrier.wait(v_full.index(last), (count - 1) // STAGES & 1)
        acc, acc_tail = _start_values(memory, weights, acc, acc_tail, last, TAIL, tail_layout)
        acc, acc_tail = _await_values(acc, acc_tail, TAIL)
        mbarrier.arrive(v_empty.index(last), count=1)
        if HAS_LOGS:
            rows = first_row + gl.arange(0, _ROWS, layout=gl.SliceLayout(1, score_layout))
            logs = logs_ptr + (batch * num_heads + head).to(gl.int64) * num_queries + rows
            gl.store(logs, top + gl.log2(total), mask=rows < num_queries)
        _store(descs, memory, acc, acc_tail, total, batch, first_row, head, GROUP, TAIL)
        mbarrier.arrive(q_empty.index(GROUP), count=1)


@gluon.jit
def _blocks(desc, NUMBER: gl.constexpr):
    """Return shared memory for some blocks of an array. Triton does not know a star in a list."""
    shape: gl.constexpr = [NUMBER] + desc.block_type.shape  # noqa: RUF005
    return gl.allocate_shared_memory(desc.dtype, shape, desc.layout)


@gluon.jit
def _barriers(NUMBER: gl.constexpr, ARRIVALS: gl.constexpr):
    """Return barriers in shared memory that open after some arrivals."""
    found = gl.allocate_shared_memory(gl.int64, [NUMBER, 1], mbarrier.MBarrierLayout())
    for place in gl.static_range(NUMBER):
        mbarrier.init(found.index(place), count=ARRIVALS)
    return found


@gluon.jit(do_not_specialize=["num_queries", "num_keys", "num_heads", "queries_per_kv", "num_tiles"])
def _attention_kernel(
    q_desc,
    k_desc,
    v_desc,
    out_desc,
    q_tail_desc,
    k_tail_desc,
    v_tail_desc,
    out_tail_desc,
    logs_ptr,
    num_queries,
    num_keys,
    num_heads,
    queries_per_kv,
    num_tiles,
    softmax_scale,
    GROUPS: gl.constexpr,
    STAGES: gl.constexpr,
    TAIL: gl.constexpr,
    CAUSAL: gl.constexpr,
    OVERLAP: gl.constexpr,
    TURNS: gl.constexpr,
    HAS_LOGS: gl.constexpr,
    REGISTERS: gl.constexpr,
    COPY_REGISTERS: gl.constexpr,
    num_warps: gl.constexpr,
):
    """Share the work among the groups of warps."""
    q_smem = _blocks(q_desc, GROUPS)
    k_smem = _blocks(k_desc, STAGES)
    v_smem = _blocks(v_desc, STAGES)
    q_tail = q_smem
    k_tail = k_smem
    v_tail = v_smem
    if TAIL:
        q_tail = _blocks(q_tail_desc, GROUPS)
        k_tail = _blocks(k_tail_desc, STAGES)
        v_tail = _blocks(v_tail_desc, STAGES)
    memory = (q_smem, k_smem, v_smem, q_tail, k_tail, v_tail)
    barriers = (
        _barriers(GROUPS, 1),
        _barriers(GROUPS, 1),
        _barriers(STAGES, 1),
        _barriers(STAGES, GROUPS),
        _barriers(STAGES, 1),
        _barriers(STAGES, GROUPS),
    )
    turns = _barriers(GROUPS, 1)
    fence_async_shared()
    inputs = (q_desc, k_desc, v_desc, q_tail_desc, k_tail_desc, v_tail_desc)
    outputs = (out_desc, out_tail_desc)
    sizes = (num_queries, num_keys, num_heads, queries_per_kv, num_tiles)
    if GROUPS == 2:
        gl.warp_specialize(
            [
                (
                    _multiply,
                    (
                        outputs,
                        memory,
                        barriers,
                        turns,
                        sizes,
                        logs_ptr,
                        softmax_scale,
                        gl.constexpr(0),
                        TAIL,
                        CAUSAL,
                        OVERLAP,
                        TURNS,
                        HAS_LOGS,
                    ),
                ),
                (
                    _multiply,
                    (
                        outputs,
                        memory,
                        barriers,
                        turns,
                        sizes,
                        logs_ptr,
                        softmax_scale,
                        gl.constexpr(1),
                        TAIL,
                        CAUSAL,
                        OVERLAP,
                        TURNS,
                        HAS_LOGS,
                    ),
                ),
                (_copy, (inputs, memory, barriers, sizes, TAIL, CAUSAL)),
            ],
            [4, 1],
            [REGISTERS, COPY_REGISTERS],
        )
    else:
        gl.warp_specialize(
            [
                (
                    _multiply,
                    (
                        outputs,
                        memory,
                        barriers,
                        turns,
                        sizes,
                        logs_ptr,
                        softmax_scale,
                        gl.constexpr(0),
                        TAIL,
                        CAUSAL,
                        OVERLAP,
                        TURNS,
                        HAS_LOGS,
                    ),
                ),
                (
                    _multiply,
                    (
                        outputs,
                        memory,
                        barriers,
                        turns,
                        sizes,
                        logs_ptr,
                        softmax_scale,
                        gl.constexpr(1),
                        TAIL,
                        CAUSAL,
                        OVERLAP,
                        TURNS,
                        HAS_LOGS,
                    ),
                ),
                (
                    _multiply,
                    (
                        outputs,
                        memory,
                        barriers,
                        turns,
                        sizes,
                        logs_ptr,
                        softmax_scale,
                        gl.constexpr(2),
                        TAIL,
                        CAUSAL,
                        OVERLAP,
                        TURNS,
                        HAS_LOGS,
                    ),
                ),
                (_copy, (inputs, memory, barriers, sizes, TAIL, CAUSAL)),
            ],
            [4, 4, 1],
            [REGISTERS, REGISTERS, COPY_REGISTERS],
        )


def is_supported(q: torch.Tensor) -> bool:
    """Whether this kernel runs: 16-bit numbers on NVIDIA's Hopper."""
    if INTERPRET or q.device.type != "cuda" or torch.version.hip is not None:
        return False
    return q.dtype in HALVES and torch.cuda.get_device_capability(q.device) == (9, 0)


def fastest(q: torch.Tensor) -> Callable[..., torch.Tensor]:
    """Return the launch function that takes the least time for these queries."""
    return run if is_supported(q) else attention.run


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


def widths(head_dim: int) -> tuple[int, int]:
    """Widths of the two parts of a head, each a power of two as tensors must be; the second may be zero."""
    if head_dim <= 64:
        return 64, 0
    head = 1 << (head_dim.bit_length() - 1)
    return head, triton.next_power_of_2(max(16, head_dim - head)) if head_dim > head else 0


def _describe(tensor: torch.Tensor, rows: int, width: int) -> TensorDescriptor:
    """Return how blocks of one head are copied; what lies beyond the head is zero."""
    layout = gl.NVMMASharedLayout(min(128, 2 * width), 16, rank=4)
    return TensorDescriptor.from_tensor(tensor, [1, rows, 1, width], layout)


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
    num_keys, num_kv_heads = k.shape[1:3]
    head, tail = widths(head_dim)
    sms = num_sms(q.device.index or 0)
    config = config or choose_config(head_dim, num_queries, batch * num_heads, sms)
    out = torch.empty_like(q) if out is None else out
    rows = _ROWS.value
    tiles = triton.cdiv(num_queries, config.groups * rows) * batch * num_heads
    blocks = ((q, rows), (k, config.block_n), (v, config.block_n), (out, rows))
    _attention_kernel[(min(tiles, sms),)](
        *(_describe(tensor, number, head) for tensor, number in blocks),
        *(_describe(tensor, number, tail or head) for tensor, number in blocks),
        logs,
        num_queries,
        num_keys,
        num_heads,
        num_heads // num_kv_heads,
        tiles,
        attention.LOG2_E / head_dim**0.5,
        GROUPS=config.groups,
        STAGES=config.stages,
        TAIL=tail,
        CAUSAL=causal,
        OVERLAP=config.overlap,
        TURNS=config.turns,
        HAS_LOGS=logs is not None,
        REGISTERS=config.registers,
        COPY_REGISTERS=_COPY_REGISTERS,
        num_warps=4,
    )
    return out
