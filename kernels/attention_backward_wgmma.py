"""Backward pass of attention on Hopper's matrix units with a role for each group of warps (Gluon): the twin of
`attention_backward`.

One warp copies. Two groups of four warps each own 64 keys and values of a program's 128, whose gradients stay in
their registers. Both compute scores transposed, keys by queries: so the weights and the gradients of the scores are
in registers as the first operand of the products for dV and dK. The gradients of the scores also go to shared
memory, since dQ sums over the keys of both groups; each group then computes half of dQ and adds it in device
memory.

dQ is summed in fp32 in the order in which threads hold it, so that the lanes of a warp add to neighbouring numbers;
a last kernel brings it into the order of the queries.
"""

from collections.abc import Callable
from dataclasses import dataclass
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

from advisor.kernels import attention, attention_backward, attention_wgmma
from advisor.kernels.attention_wgmma import COPY_REGISTERS, barrier, barriers_of, blocks_of, part_and_head
from advisor.kernels.backend import HALVES, check_operands

_KEYS = gl.constexpr(64)
"""Number of keys of one group of four warps: the rows of the matrix instruction."""
_TILE = gl.constexpr(64)
"""Number of queries of a step; a group computes 64 columns of their dQ."""
_LOG2_E = gl.constexpr(attention.LOG2_E)


@dataclass(frozen=True, slots=True)
class BackwardConfig:
    """Number of steps that shared memory holds, and registers per thread."""

    stages: int
    registers: int = 240


CONFIGS: Final[dict[int, BackwardConfig]] = {
    64: BackwardConfig(stages=2),
    128: BackwardConfig(stages=2),
}
"""Configuration by head size: those of this kernel."""
_HEADS_AT_ONCE: Final = 1
"""Number of heads of keys whose blocks come before those of the next: few, so that the L2 holds the queries that all
programs read and the sums to which they add."""
_HEADS_AT_ONCE_CAUSAL: Final = 4
"""Number of heads when a query sees only the keys before it: more, so that short blocks are left for the end."""


@gluon.jit
def _range(first_key, num_queries, num_keys, BLOCK_M: gl.constexpr, CAUSAL: gl.constexpr):
    """Return first block of queries, first block that needs no mask, and number of blocks."""
    end = (num_queries + BLOCK_M - 1) // BLOCK_M
    begin = 0
    whole = 0
    if CAUSAL:
        begin = max(0, first_key + num_queries - num_keys) // BLOCK_M
        whole = max(0, first_key + 2 * _KEYS - 1 + num_queries - num_keys)
        whole = min((whole + BLOCK_M - 1) // BLOCK_M, end)
    if first_key + 2 * _KEYS > num_keys:
        whole = end
    return begin, whole, end


@gluon.jit
def _copy(descs, memory, barriers, sizes, CAUSAL: gl.constexpr):
    """Copy the block of keys and values, and all queries and gradients, as the copying warp."""
    q_desc, k_desc, v_desc, grad_desc = descs
    q_smem, k_smem, v_smem, grad_smem, _ds_smem = memory
    kv_full, q_full, q_empty, grad_full, grad_empty, _ds_full, _ds_empty = barriers
    num_queries, num_keys, _num_kv_heads, queries_per_kv, batch, kv_head, first_key = sizes
    STAGES: gl.constexpr = q_smem.shape[0]
    BLOCK_M: gl.constexpr = q_smem.shape[2]
    mbarrier.expect(kv_full.index(0), 4 * k_desc.block_type.nbytes)
    for group in gl.static_range(2):
        key = first_key + group * _KEYS
        tma.async_copy_global_to_shared(
            k_desc, [batch, key, kv_head, 0], kv_full.index(0), k_smem.index(group)
        )
        tma.async_copy_global_to_shared(
            v_desc, [batch, key, kv_head, 0], kv_full.index(0), v_smem.index(group)
        )
    begin, _whole, end = _range(first_key, num_queries, num_keys, BLOCK_M, CAUSAL)
    count = 0
    for member in range(queries_per_kv):
        head = kv_head * queries_per_kv + member
        for block in range(begin, end):
            place = count % STAGES
            phase = count // STAGES & 1
            mbarrier.wait(q_empty.index(place), phase ^ 1)
            mbarrier.expect(q_full.index(place), q_desc.block_type.nbytes)
            tma.async_copy_global_to_shared(
                q_desc, [batch, block * BLOCK_M, head, 0], q_full.index(place), q_smem.index(place)
            )
            mbarrier.wait(grad_empty.index(place), phase ^ 1)
            mbarrier.expect(grad_full.index(place), grad_desc.block_type.nbytes)
            tma.async_copy_global_to_shared(
                grad_desc, [batch, block * BLOCK_M, head, 0], grad_full.index(place), grad_smem.index(place)
            )
            count += 1


@gluon.jit
def _add_dq(dq_ptr, dq, row):
    """Add a tile of dQ at its place: number r of thread t lies at 128 · r + t."""
    layout: gl.constexpr = dq.type.layout
    rows = gl.arange(0, _TILE, layout=gl.SliceLayout(1, layout))[:, None]
    columns = gl.arange(0, _TILE, layout=gl.SliceLayout(0, layout))[None, :]
    number = columns // 8 * 4 + rows // 8 % 2 * 2 + columns % 2
    thread = rows // 16 * 32 + rows % 8 * 4 + columns % 8 // 2
    start = dq_ptr + row.to(gl.int64) * (_TILE * _TILE)
    gl.atomic_add(start + number * 128 + thread, dq, sem="relaxed")


@gluon.jit
def _start_dq(ds_smem, k_smem, half, PART: gl.constexpr, layout: gl.constexpr):
    """Start the product for 64 columns of a step's dQ, over the keys of both groups."""
    HEAD: gl.constexpr = k_smem.shape[4]
    dq = gl.zeros([_TILE, _TILE], gl.float32, layout)
    for group in gl.static_range(2):
        k = k_smem.index(group).reshape([_KEYS, HEAD])
        if HEAD > _TILE:
            k = k.slice(PART * _TILE, _TILE, dim=1)
        ds = ds_smem.index(2 * half + group).permute([1, 0])
        dq = warpgroup_mma(ds, k, dq, use_acc=group > 0, is_async=True)
    return dq


@gluon.jit
def _load_early(logs_ptr, delta_ptr, head_row, first_row, num_queries, ROWS: gl.constexpr):
    """Start to load the logarithms and δ of a block of queries, one number for each thread.

    Every thread of a column gets its number when it needs it: until then they take two registers and not two for each
    column.
    """
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    rows = first_row + gl.arange(0, ROWS, layout=layout)
    place = head_row * num_queries + rows
    # Beyond the last query the weights become zero.
    logs = gl.load(logs_ptr + place, mask=rows < num_queries, other=float("inf"))
    return logs, gl.load(delta_ptr + place, mask=rows < num_queries, other=0.0)


@gluon.jit
def _share(ds_smem, ds_full, ds_empty, ds, count, GROUP: gl.constexpr):
    """Give the gradients of this group's scores to both groups, once they have read those of two steps before."""
    half = count & 1
    mbarrier.wait(ds_empty.index(half), (count // 2 & 1) ^ 1)
    ds_smem.index(2 * half + GROUP).store(ds)
    fence_async_shared()
    barrier()
    mbarrier.arrive(ds_full.index(half), count=1)


@gluon.jit
def _free(q_empty, grad_empty, ds_empty, place, half):
    """Say that this group has read a step's queries, gradients, and gradients of scores."""
    mbarrier.arrive(q_empty.index(place), count=1)
    mbarrier.arrive(grad_empty.index(place), count=1)
    mbarrier.arrive(ds_empty.index(half), count=1)


@gluon.jit
def _start_transposed(keys, queries, zeros):
    """Start the product of 64 keys and the transposed queries, or of values and transposed gradients."""
    rows = keys.reshape([_KEYS, keys.shape[3]])
    return warpgroup_mma(rows, queries.permute([1, 0]), zeros, use_acc=False, is_async=True)


@gluon.jit
def _hide(weights, first_row, first_key, num_keys, offset, CAUSAL: gl.constexpr, layout: gl.constexpr):
    """Return the weights with those of keys that a query does not attend to set to zero."""
    keys = first_key + gl.arange(0, weights.shape[0], layout=gl.SliceLayout(1, layout))
    visible = (keys < num_keys)[:, None]
    if CAUSAL:
        rows = first_row + gl.arange(0, weights.shape[1], layout=gl.SliceLayout(0, layout))
        visible = visible & (keys[:, None] <= rows[None, :] + offset)
    return gl.where(visible, weights, 0.0)


@gluon.jit
def _step(
    dk,
    dv,
    count,
    block,
    is_masked,
    head_row,
    dq_ptr,
    logs_ptr,
    delta_ptr,
    memory,
    barriers,
    first_key,
    num_queries,
    num_keys,
    softmax_scale,
    GROUP: gl.constexpr,
    CAUSAL: gl.constexpr,
    score_layout: gl.constexpr,
    acc_layout: gl.constexpr,
    dq_layout: gl.constexpr,
):
    """Take one block of queries: add its parts of dK and dV, and this group's half of its dQ."""
    q_smem, k_smem, v_smem, grad_smem, ds_smem = memory
    _kv_full, q_full, q_empty, grad_full, grad_empty, ds_full, ds_empty = barriers
    STAGES: gl.constexpr = q_smem.shape[0]
    BLOCK_M: gl.constexpr = q_smem.shape[2]
    HEAD: gl.constexpr = q_smem.shape[4]
    place = count % STAGES
    phase = count // STAGES & 1
    num_blocks = (num_queries + BLOCK_M - 1) // BLOCK_M
    column_layout: gl.constexpr = gl.SliceLayout(0, score_layout)
    logs, delta = _load_early(logs_ptr, delta_ptr, head_row, block * BLOCK_M, num_queries, BLOCK_M)
    zeros = gl.zeros([_KEYS, BLOCK_M], gl.float32, score_layout)
    q = q_smem.index(place).reshape([BLOCK_M, HEAD])
    grad = grad_smem.index(place).reshape([BLOCK_M, HEAD])
    mbarrier.wait(q_full.index(place), phase)
    scores = _start_transposed(k_smem.index(GROUP), q, zeros)
    mbarrier.wait(grad_full.index(place), phase)
    d_weights = _start_transposed(v_smem.index(GROUP), grad, zeros)
    scores = warpgroup_mma_wait(1, deps=[scores])
    logs = gl.convert_layout(logs, column_layout)
    weights = gl.exp2(scores * (softmax_scale * _LOG2_E) - logs[None, :])
    if is_masked:
        group_key = first_key + GROUP * _KEYS
        offset = num_keys - num_queries
        weights = _hide(weights, block * BLOCK_M, group_key, num_keys, offset, CAUSAL, score_layout)
    operand: gl.constexpr = gl.DotOperandLayout(0, acc_layout, 2)
    # From here on the weights are 16-bit numbers: in fp32 they would take the registers of the next products.
    rounded = weights.to(q_smem.dtype)
    dv = warpgroup_mma(gl.convert_layout(rounded, operand), grad, dv, is_async=True)
    d_weights = warpgroup_mma_wait(1, deps=[d_weights])
    delta = gl.convert_layout(delta, column_layout)
    ds = (rounded.to(gl.float32) * (d_weights - delta[None, :])).to(q_smem.dtype)
    half = count & 1
    _share(ds_smem, ds_full, ds_empty, ds, count, GROUP)
    dk = warpgroup_mma(gl.convert_layout(ds, operand), q, dk, is_async=True)
    mbarrier.wait(ds_full.index(half), count // 2 & 1)
    if HEAD > _TILE:
        dq = _start_dq(ds_smem, k_smem, half, GROUP, dq_layout)
        dv, dk, dq = warpgroup_mma_wait(0, deps=[dv, dk, dq])
        _free(q_empty, grad_empty, ds_empty, place, half)
        _add_dq(dq_ptr, dq, (head_row * num_blocks + block) * 2 + GROUP)
    else:
        # One tile a step: the groups take turns.
        if half == GROUP:
            dq = _start_dq(ds_smem, k_smem, half, 0, dq_layout)
            dq = warpgroup_mma_wait(0, deps=[dq])
            _add_dq(dq_ptr, dq, head_row * num_blocks + block)
        dv, dk = warpgroup_mma_wait(0, deps=[dv, dk])
        _free(q_empty, grad_empty, ds_empty, place, half)
    return dk, dv, count + 1


@gluon.jit
def _multiply(
    outputs,
    memory,
    barriers,
    sizes,
    softmax_scale,
    GROUP: gl.constexpr,
    CAUSAL: gl.constexpr,
):
    """Compute the gradients of 64 keys and values, and half of each dQ, as one group of four warps."""
    dq_ptr, dk_ptr, dv_ptr, logs_ptr, delta_ptr = outputs
    q_smem, _k_smem, _v_smem, _grad_smem, _ds_smem = memory
    kv_full, _q_full, _q_empty, _grad_full, _grad_empty, _ds_full, _ds_empty = barriers
    num_queries, num_keys, num_kv_heads, queries_per_kv, batch, kv_head, first_key = sizes
    BLOCK_M: gl.constexpr = q_smem.shape[2]
    HEAD: gl.constexpr = q_smem.shape[4]
    score_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_M, 16])
    acc_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HEAD, 16])
    dq_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, _TILE, 16])
    begin, whole, end = _range(first_key, num_queries, num_keys, BLOCK_M, CAUSAL)
    dk = gl.zeros([_KEYS, HEAD], gl.float32, acc_layout)
    dv = gl.zeros([_KEYS, HEAD], gl.float32, acc_layout)
    mbarrier.wait(kv_full.index(0), 0)
    count = 0
    for member in range(queries_per_kv):
        head_row = (batch * num_kv_heads + kv_head) * queries_per_kv + member
        for block in range(begin, end):
            dk, dv, count = _step(
                dk,
                dv,
                count,
                block,
                block < whole,
                head_row,
                dq_ptr,
                logs_ptr,
                delta_ptr,
                memory,
                barriers,
                first_key,
                num_queries,
                num_keys,
                softmax_scale,
                GROUP,
                CAUSAL,
                score_layout,
                acc_layout,
                dq_layout,
            )
    keys = first_key + GROUP * _KEYS + gl.arange(0, _KEYS, layout=gl.SliceLayout(1, acc_layout))
    columns = gl.arange(0, HEAD, layout=gl.SliceLayout(0, acc_layout))
    row = (batch * num_keys + keys).to(gl.int64) * num_kv_heads + kv_head
    offsets = row[:, None] * HEAD + columns[None, :]
    mask = (keys < num_keys)[:, None]
    gl.store(dk_ptr + offsets, (dk * softmax_scale).to(q_smem.dtype), mask=mask)
    gl.store(dv_ptr + offsets, dv.to(q_smem.dtype), mask=mask)


@gluon.jit(
    do_not_specialize=[
        "num_queries",
        "num_keys",
        "num_kv_heads",
        "queries_per_kv",
        "num_rows",
        "heads_at_once",
    ]
)
def _backward_kernel(
    q_desc,
    k_desc,
    v_desc,
    grad_desc,
    dq_ptr,
    dk_ptr,
    dv_ptr,
    logs_ptr,
    delta_ptr,
    num_queries,
    num_keys,
    num_kv_heads,
    queries_per_kv,
    num_rows,
    heads_at_once,
    softmax_scale,
    STAGES: gl.constexpr,
    CAUSAL: gl.constexpr,
    REGISTERS: gl.constexpr,
    COPYING_REGISTERS: gl.constexpr,
    num_warps: gl.constexpr,
):
    """Share the work among the groups of warps; `num_rows` counts sequences times key-value heads."""
    blocks = (num_keys + 2 * _KEYS - 1) // (2 * _KEYS)
    # With a causal mask the first keys are seen by the most queries: they go first.
    block, row = part_and_head(gl.program_id(0), blocks, num_rows, heads_at_once)
    first_key = block * (2 * _KEYS)
    batch = row // num_kv_heads
    kv_head = row % num_kv_heads
    BLOCK_M: gl.constexpr = q_desc.block_type.shape[1]
    ds_layout: gl.constexpr = gl.NVMMASharedLayout(128, 16, rank=2)
    ds_smem = gl.allocate_shared_memory(q_desc.dtype, [4, _KEYS, BLOCK_M], ds_layout)
    memory = (
        blocks_of(q_desc, STAGES),
        blocks_of(k_desc, 2),
        blocks_of(v_desc, 2),
        blocks_of(grad_desc, STAGES),
        ds_smem,
    )
    barriers = (
        barriers_of(1, 1),
        barriers_of(STAGES, 1),
        barriers_of(STAGES, 2),
        barriers_of(STAGES, 1),
        barriers_of(STAGES, 2),
        barriers_of(2, 2),
        barriers_of(2, 2),
    )
    fence_async_shared()
    inputs = (q_desc, k_desc, v_desc, grad_desc)
    outputs = (dq_ptr, dk_ptr, dv_ptr, logs_ptr, delta_ptr)
    sizes = (num_queries, num_keys, num_kv_heads, queries_per_kv, batch, kv_head, first_key)
    gl.warp_specialize(
        [
            (_multiply, (outputs, memory, barriers, sizes, softmax_scale, gl.constexpr(0), CAUSAL)),
            (_multiply, (outputs, memory, barriers, sizes, softmax_scale, gl.constexpr(1), CAUSAL)),
            (_copy, (inputs, memory, barriers, sizes, CAUSAL)),
        ],
        [4, 1],
        [REGISTERS, COPYING_REGISTERS],
    )


@triton.jit
def _order_kernel(
    sums_ptr,
    dq_ptr,
    num_queries,
    num_heads,
    num_blocks,
    softmax_scale,
    HEAD: tl.constexpr,
):
    """Write dQ in the order of the queries, 64 rows of 64 columns at a time."""
    tile: tl.constexpr = 64
    parts: tl.constexpr = HEAD // tile
    head = tl.program_id(1) % num_heads
    batch = tl.program_id(1) // num_heads
    part = tl.program_id(0) % parts
    block = tl.program_id(0) // parts
    rows = tl.arange(0, tile)[:, None]
    columns = tl.arange(0, tile)[None, :]
    number = columns // 8 * 4 + rows // 8 % 2 * 2 + columns % 2
    thread = rows // 16 * 32 + rows % 8 * 4 + columns % 8 // 2
    place = ((tl.program_id(1) * num_blocks + block) * parts + part).to(tl.int64) * (tile * tile)
    sums = tl.load(sums_ptr + place + number * 128 + thread)
    query = block * tile + rows
    row = (batch * num_queries + query).to(tl.int64) * num_heads + head
    mask = query + 0 * columns < num_queries
    tl.store(dq_ptr + row * HEAD + part * tile + columns, sums * softmax_scale, mask=mask)


def is_supported(q: torch.Tensor) -> bool:
    """Whether this kernel runs: head sizes of 64 and 128 in 16 bits on NVIDIA's Hopper."""
    return attention_wgmma.is_supported(q) and q.shape[3] in CONFIGS


def fastest(q: torch.Tensor) -> Callable[..., tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Return the launch function that takes the least time for these queries."""
    return run if is_supported(q) else attention_backward.run


def _describe(tensor: torch.Tensor, rows: int, width: int) -> TensorDescriptor:
    """Return how blocks of one head are copied; what lies beyond the head is zero."""
    layout = gl.NVMMASharedLayout(min(128, 2 * width), 16, rank=4)
    return TensorDescriptor.from_tensor(tensor, [1, rows, 1, width], layout)


def run(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    result: torch.Tensor,
    logs: torch.Tensor,
    grad: torch.Tensor,
    causal: bool = True,
    out: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None,
    config: BackwardConfig | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute the gradients of queries, keys and values from the forward pass's result and logarithms.

    Shapes: q, result, grad [B, S, H, D], k, v [B, T, G, D], contiguous, bf16 or fp16, logs [B, H, S] fp32
    -> those of q, k and v.
    Raises: ValueError: a head size other than 64 and 128, or operands that `attention_backward.run` refuses.
    """
    attention_backward.check_backward(q, k, v, result, logs, grad, causal, out)
    batch, num_queries, num_heads, head_dim = q.shape
    num_keys, num_kv_heads = k.shape[1:3]
    if head_dim not in CONFIGS:
        raise ValueError(f"a head size of {head_dim}: this kernel takes {' and '.join(map(str, CONFIGS))}")
    check_operands(HALVES, q=q)
    config = config or CONFIGS[head_dim]
    dq, dk, dv = out or (torch.empty_like(q), torch.empty_like(k), torch.empty_like(v))
    delta = attention_backward.compute_delta(result, grad, logs)
    tile = int(_TILE.value)
    blocks = int(triton.cdiv(num_queries, tile))
    parts = head_dim // tile
    sums = torch.zeros((batch * num_heads, blocks, parts, tile * tile), dtype=torch.float32, device=q.device)
    keys = int(_KEYS.value)
    rows = batch * num_kv_heads
    scale = head_dim**-0.5
    _backward_kernel[(rows * triton.cdiv(num_keys, 2 * keys),)](
        _describe(q, tile, head_dim),
        _describe(k, keys, head_dim),
        _describe(v, keys, head_dim),
        _describe(grad, tile, head_dim),
        sums,
        dk,
        dv,
        logs,
        delta,
        num_queries,
        num_keys,
        num_kv_heads,
        num_heads // num_kv_heads,
        rows,
        _HEADS_AT_ONCE_CAUSAL if causal else _HEADS_AT_ONCE,
        scale,
        STAGES=config.stages,
        CAUSAL=causal,
        REGISTERS=config.registers,
        COPYING_REGISTERS=COPY_REGISTERS,
        num_warps=4,
    )
    _order_kernel[(parts * blocks, batch * num_heads)](
        sums, dq, num_queries, num_heads, blocks, scale, HEAD=head_dim, num_warps=4
    )
    return dq, dk, dv
