"""Backward pass of attention: gradients of queries, keys and values in one sweep over the scores.

With P = softmax(Q · Kᵀ / √d), O = P · V and the gradient dO of O, δ the row sums of dO ∘ O:

dV = Pᵀ · dO,  dS = P ∘ (dO · Vᵀ − δ),  dQ = dS · K / √d,  dK = dSᵀ · Q / √d

The scores were never stored. They are computed again from Q, K and the logarithm of each query's sum of exponentials,
which the forward pass keeps: P = exp₂(scores · log₂ e − log).

Tiled: each program owns a block of keys and values of one key-value head. Kept on the chip: the block, and its dK and
dV in registers over all queries of all heads that share it (GQA). Each step takes one block of queries and dO, makes
five products, and adds its part of dQ in device memory through the copy engine. Scores are computed transposed (keys by
queries), so that Pᵀ and dSᵀ are in registers where the next products need them.

The order in which parts of dQ are added is not fixed, so its last bits differ from run to run.

Letters of shapes: B batch, S queries, T keys, H query heads, G key-value heads, D head size.
"""

from typing import Final

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from advisor.kernels import attention
from advisor.kernels.attention import Config
from advisor.kernels.backend import HALVES, INTERPRET, check_operands, dot, normal

CONFIGS: Final[dict[int, Config]] = {
    64: Config(block_m=64, block_n=64, num_warps=4, num_stages=2),
    128: Config(block_m=64, block_n=128, num_warps=8, num_stages=2),
    256: Config(block_m=32, block_n=64, num_warps=8, num_stages=1),
}
"""Configuration by head size, rounded up to one of these. At 128 it spills and is twice as fast as one that does not
(H100: 4.9 and 9.7 ms for 8192 tokens of 32 heads); at 256 all do."""
_INTERPRETER_CONFIG: Final = Config(block_m=16, block_n=32, num_warps=4, num_stages=1)
_LOG2_E = tl.constexpr(attention.LOG2_E)
_ROWS: Final = 16
"""Number of rows whose δ one program computes."""


@triton.jit
def _delta_kernel(
    out_ptr,
    grad_ptr,
    delta_ptr,
    num_rows,
    num_queries,
    num_heads,
    head_dim,
    ROWS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
):
    """Store the sum of dO ∘ O of each query and head, in the order batch, head, query."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, HEAD_DIM)
    mask = (rows[:, None] < num_rows) & (columns[None, :] < head_dim)
    offsets = rows.to(tl.int64)[:, None] * head_dim + columns[None, :]
    out = tl.load(out_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    grad = tl.load(grad_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    head = rows % num_heads
    query = rows // num_heads % num_queries
    batch = rows // num_heads // num_queries
    place = (batch * num_heads + head).to(tl.int64) * num_queries + query
    tl.store(delta_ptr + place, tl.sum(out * grad, axis=1), mask=rows < num_rows)


@triton.jit
def _add_block(desc, pointer, block, batch, first, head, num_rows, num_heads, head_dim):
    """Add a block of fp32 rows in device memory; the interpreter has no copy engine, so it adds by pointers."""
    rows: tl.constexpr = block.shape[0]
    width: tl.constexpr = block.shape[1]
    if INTERPRET:
        row = first + tl.arange(0, rows)
        columns = tl.arange(0, width)
        offsets = ((batch * num_rows + row).to(tl.int64) * num_heads + head)[:, None] * head_dim + columns[
            None, :
        ]
        mask = (row[:, None] < num_rows) & (columns[None, :] < head_dim)
        tl.atomic_add(pointer + offsets, block, mask=mask)
    else:
        desc.atomic_add([batch, first, head, 0], tl.reshape(block, (1, rows, 1, width)))


@triton.jit
def _sweep(
    dk,
    dv,
    k,
    v,
    q_desc,
    grad_desc,
    dq_desc,
    dq_ptr,
    logs_ptr,
    delta_ptr,
    batch,
    head,
    begin,
    end,
    first_key,
    num_queries,
    num_keys,
    num_heads,
    head_dim,
    softmax_scale,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    MASKED: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    """Take the queries [begin, end) of one head: return the block's gradients with their parts added."""
    keys = first_key + tl.arange(0, BLOCK_N)
    start = (batch * num_heads + head).to(tl.int64) * num_queries
    for first in tl.range(begin, end, BLOCK_M):
        rows = first + tl.arange(0, BLOCK_M)
        q = tl.reshape(q_desc.load([batch, first, head, 0]), (BLOCK_M, HEAD_DIM))
        grad = tl.reshape(grad_desc.load([batch, first, head, 0]), (BLOCK_M, HEAD_DIM))
        # Beyond the last query the weights become zero.
        logs = tl.load(logs_ptr + start + rows, mask=rows < num_queries, other=float("inf"))
        delta = tl.load(delta_ptr + start + rows, mask=rows < num_queries, other=0.0)
        zeros = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
        scores = dot(k, q.T, zeros)
        weights = tl.exp2(scores * (softmax_scale * _LOG2_E) - logs[None, :])
        if MASKED:
            visible = keys[:, None] < num_keys
            if CAUSAL:
                visible = visible & (keys[:, None] <= rows[None, :] + num_keys - num_queries)
            weights = tl.where(visible, weights, 0.0)
        dv = dot(weights.to(k.dtype), grad, dv)
        grad_weights = dot(v, grad.T, zeros)
        grad_scores = (weights * (grad_weights - delta[None, :])).to(k.dtype)
        dk = dot(grad_scores, q, dk)
        dq = dot(tl.trans(grad_scores), k, tl.zeros((BLOCK_M, HEAD_DIM), tl.float32))
        _add_block(dq_desc, dq_ptr, dq * softmax_scale, batch, first, head, num_queries, num_heads, head_dim)
    return dk, dv


@triton.jit
def _backward_kernel(
    q_desc,
    k_desc,
    v_desc,
    grad_desc,
    dq_desc,
    dq_ptr,
    dk_ptr,
    dv_ptr,
    logs_ptr,
    delta_ptr,
    num_queries,
    num_keys,
    num_heads,
    head_dim,
    softmax_scale,
    QUERIES_PER_KV: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    # With a causal mask the first keys are seen by the most queries: they go first.
    first_key = tl.program_id(1) * BLOCK_N
    num_kv_heads = num_heads // QUERIES_PER_KV
    kv_head = tl.program_id(0) % num_kv_heads
    batch = tl.program_id(0) // num_kv_heads
    begin = 0
    # Queries from `whole` on see every key of the block: no mask is computed for them.
    whole = 0
    if CAUSAL:
        # The query in row r sees the keys up to r + T − S.
        begin = max(0, first_key + num_queries - num_keys) // BLOCK_M * BLOCK_M
        whole = max(0, first_key + BLOCK_N - 1 + num_queries - num_keys)
        whole = min(tl.cdiv(whole, BLOCK_M), tl.cdiv(num_queries, BLOCK_M)) * BLOCK_M
    if first_key + BLOCK_N > num_keys:
        whole = tl.cdiv(num_queries, BLOCK_M) * BLOCK_M
    k = tl.reshape(k_desc.load([batch, first_key, kv_head, 0]), (BLOCK_N, HEAD_DIM))
    v = tl.reshape(v_desc.load([batch, first_key, kv_head, 0]), (BLOCK_N, HEAD_DIM))
    dk = tl.zeros((BLOCK_N, HEAD_DIM), tl.float32)
    dv = tl.zeros((BLOCK_N, HEAD_DIM), tl.float32)
    for member in range(QUERIES_PER_KV):
        head = kv_head * QUERIES_PER_KV + member
        dk, dv = _sweep(
            dk,
            dv,
            k,
            v,
            q_desc,
            grad_desc,
            dq_desc,
            dq_ptr,
            logs_ptr,
            delta_ptr,
            batch,
            head,
            begin,
            whole,
            first_key,
            num_queries,
            num_keys,
            num_heads,
            head_dim,
            softmax_scale,
            BLOCK_M,
            BLOCK_N,
            HEAD_DIM,
            True,
            CAUSAL,
        )
        dk, dv = _sweep(
            dk,
            dv,
            k,
            v,
            q_desc,
            grad_desc,
            dq_desc,
            dq_ptr,
            logs_ptr,
            delta_ptr,
            batch,
            head,
            whole,
            num_queries,
            first_key,
            num_queries,
            num_keys,
            num_heads,
            head_dim,
            softmax_scale,
            BLOCK_M,
            BLOCK_N,
            HEAD_DIM,
            False,
            CAUSAL,
        )
    keys = first_key + tl.arange(0, BLOCK_N)
    columns = tl.arange(0, HEAD_DIM)
    row = (batch * num_keys + keys).to(tl.int64) * num_kv_heads + kv_head
    offsets = row[:, None] * head_dim + columns[None, :]
    mask = (keys[:, None] < num_keys) & (columns[None, :] < head_dim)
    tl.store(dk_ptr + offsets, dk * softmax_scale, mask=mask)
    tl.store(dv_ptr + offsets, dv, mask=mask)


def reference(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, grad: torch.Tensor, causal: bool = True
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradients of queries, keys and values in fp64, by automatic differentiation.

    Shapes: q [B, S, H, D], k [B, T, G, D], v [B, T, G, D], grad [B, S, H, D] -> those of q, k and v.
    """
    operands = [x.detach().double().requires_grad_() for x in (q, k, v)]
    queries, keys, values = (x.transpose(1, 2) for x in operands)
    group = q.shape[2] // k.shape[2]
    keys, values = (x.repeat_interleave(group, dim=1) for x in (keys, values))
    scores = queries @ keys.transpose(2, 3) / q.shape[3] ** 0.5
    if causal:
        hidden = torch.ones(scores.shape[2:], dtype=torch.bool, device=q.device)
        scores = scores.masked_fill(hidden.triu(k.shape[1] - q.shape[1] + 1), float("-inf"))
    out = (torch.softmax(scores, dim=-1) @ values).transpose(1, 2)
    dq, dk, dv = torch.autograd.grad(out, operands, grad.double())
    return dq, dk, dv


def check_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    result: torch.Tensor,
    logs: torch.Tensor,
    grad: torch.Tensor,
    causal: bool,
    out: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None,
) -> None:
    """Refuse operands between which the backward pass is not defined, or that the kernels would read wrongly.

    Raises: ValueError: operands that `attention.check_sizes` refuses, or of other shapes.
    """
    attention.check_sizes(q, k, v, causal, result, logs)
    dq, dk, dv = out or (None, None, None)
    check_operands(HALVES, q=q, grad=(grad, q.shape), dq=(dq, q.shape), dk=(dk, k.shape), dv=(dv, k.shape))


def compute_delta(result: torch.Tensor, grad: torch.Tensor, logs: torch.Tensor) -> torch.Tensor:
    """Return the sum of dO ∘ O of each query and head.

    Shapes: result [B, S, H, D], grad [B, S, H, D], logs [B, H, S] -> [B, H, S] fp32.
    """
    batch, num_queries, num_heads, head_dim = result.shape
    width = min(size for size in CONFIGS if size >= head_dim)
    delta = torch.empty_like(logs)
    num_rows = batch * num_queries * num_heads
    _delta_kernel[(triton.cdiv(num_rows, _ROWS),)](
        result, grad, delta, num_rows, num_queries, num_heads, head_dim, ROWS=_ROWS, HEAD_DIM=width
    )
    return delta


def run(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    result: torch.Tensor,
    logs: torch.Tensor,
    grad: torch.Tensor,
    causal: bool = True,
    out: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None,
    config: Config | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute the gradients of queries, keys and values from the forward pass's result and logarithms.

    Shapes: q, result, grad [B, S, H, D], k, v [B, T, G, D], contiguous, bf16 or fp16, logs [B, H, S] fp32
    -> those of q, k and v.
    Raises: ValueError: operands that `attention.check_sizes` refuses, or of other shapes.
    """
    check_backward(q, k, v, result, logs, grad, causal, out)
    dq, dk, dv = out or (None, None, None)
    batch, num_queries, num_heads, head_dim = q.shape
    num_keys, num_kv_heads = k.shape[1:3]
    width = min(size for size in CONFIGS if size >= head_dim)
    config = config or (_INTERPRETER_CONFIG if INTERPRET else CONFIGS[width])
    delta = compute_delta(result, grad, logs)
    dq_sum = torch.zeros(q.shape, dtype=torch.float32, device=q.device)
    dk = torch.empty_like(k) if dk is None else dk
    dv = torch.empty_like(v) if dv is None else dv
    _backward_kernel[(batch * num_kv_heads, triton.cdiv(num_keys, config.block_n))](
        TensorDescriptor.from_tensor(q, [1, config.block_m, 1, width]),
        TensorDescriptor.from_tensor(k, [1, config.block_n, 1, width]),
        TensorDescriptor.from_tensor(v, [1, config.block_n, 1, width]),
        TensorDescriptor.from_tensor(grad, [1, config.block_m, 1, width]),
        TensorDescriptor.from_tensor(dq_sum, [1, config.block_m, 1, width]),
        dq_sum,
        dk,
        dv,
        logs,
        delta,
        num_queries,
        num_keys,
        num_heads,
        head_dim,
        head_dim**-0.5,
        QUERIES_PER_KV=num_heads // num_kv_heads,
        BLOCK_M=config.block_m,
        BLOCK_N=config.block_n,
        HEAD_DIM=width,
        CAUSAL=causal,
        num_warps=config.num_warps,
        num_stages=config.num_stages,
    )
    if dq is None:
        return dq_sum.to(q.dtype), dk, dv
    return dq.copy_(dq_sum), dk, dv


def flop(batch: int, num_queries: int, num_keys: int, num_heads: int, head_dim: int, causal: bool) -> int:
    """Multiplications and additions of the five products [flop]: 2.5 times those of the forward pass."""
    return attention.flop(batch, num_queries, num_keys, num_heads, head_dim, causal) // 2 * 5


def bytes(
    batch: int,
    num_queries: int,
    num_keys: int,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    element: int,
) -> int:
    """Least traffic at device memory [bytes]: five operands read, three gradients written.

    Queries, result, its gradient and dQ have the queries' size; keys, values, dK and dV the keys'.
    """
    return 4 * batch * (num_queries * num_heads + num_keys * num_kv_heads) * head_dim * element


def make_inputs(
    batch: int,
    num_queries: int,
    num_keys: int,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    seed: int,
    device: torch.device,
    dtype: torch.dtype = torch.bfloat16,
    causal: bool = True,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return random queries, keys, values, the forward pass's result and logarithms, and a random gradient.

    Shapes: q [B, S, H, D], k [B, T, G, D], v [B, T, G, D], result [B, S, H, D], logs [B, H, S], grad [B, S, H, D].
    """
    q, k, v = attention.make_inputs(
        batch, num_queries, num_keys, num_heads, num_kv_heads, head_dim, seed, device, dtype
    )
    logs = torch.empty((batch, num_heads, num_queries), dtype=torch.float32, device=device)
    result = attention.run(q, k, v, causal, logs=logs)
    return q, k, v, result, logs, normal(seed + 1, device, dtype)(*q.shape)
