"""Attention of a whole prompt (prefill): softmax(Q · Kᵀ / √d) · V without ever storing the scores.

Queries may share key and value heads (GQA). With `causal`, the last query attends to every key: prompts that
continue a cached prefix have more keys than queries.

Letters of shapes: B batch, S queries, T keys, H query heads, G key-value heads, D head size.
"""

from dataclasses import dataclass
from typing import Final

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from advisor.kernels.backend import HALVES, INTERPRET, check_operands, dot, normal

LOG2_E: Final = 1.4426950408889634
_MASKED = tl.constexpr(-1e30)
"""Score of a key that is not attended to; finite, so that differences of two of them are not NaN."""


@dataclass(frozen=True, slots=True)
class Config:
    """Numbers of queries and keys per step of one program, with warps and stages."""

    block_m: int
    block_n: int
    num_warps: int
    num_stages: int


CONFIGS: Final[dict[int, Config]] = {
    64: Config(block_m=128, block_n=128, num_warps=8, num_stages=2),
    128: Config(block_m=64, block_n=64, num_warps=4, num_stages=3),
    256: Config(block_m=128, block_n=64, num_warps=8, num_stages=2),
}
"""Configuration by head size, rounded up to one of these."""
MOST_HEAD_DIM: Final = 256
"""Largest head size: its queries, keys and values still fit the shared memory of a multiprocessor."""
_INTERPRETER_CONFIG: Final = Config(block_m=32, block_n=32, num_warps=4, num_stages=1)


@triton.jit
def _attend(
    acc,
    top,
    total,
    q,
    k_desc,
    v_desc,
    batch,
    kv_head,
    begin,
    end,
    rows,
    num_keys,
    offset,
    softmax_scale,
    BLOCK_N: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    MASKED: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    """Update running maximum, sum of exponentials and weighted values of each query over keys [begin, end)."""
    for first in tl.range(begin, end, BLOCK_N):
        k = tl.reshape(k_desc.load([batch, first, kv_head, 0]), (BLOCK_N, HEAD_DIM))
        scores = dot(q, k.T, tl.zeros((q.shape[0], BLOCK_N), tl.float32))
        if MASKED:
            keys = first + tl.arange(0, BLOCK_N)
            visible = keys[None, :] < num_keys
            if CAUSAL:
                visible = visible & (keys[None, :] <= rows[:, None] + offset)
            scores = tl.where(visible, scores, _MASKED)
        higher = tl.maximum(top, tl.max(scores, axis=1) * softmax_scale)
        weights = tl.exp2(scores * softmax_scale - higher[:, None])
        scale = tl.exp2(top - higher)
        total = total * scale + tl.sum(weights, axis=1)
        top = higher
        v = tl.reshape(v_desc.load([batch, first, kv_head, 0]), (BLOCK_N, HEAD_DIM))
        acc = dot(weights.to(v_desc.dtype), v, acc * scale[:, None])
    return acc, top, total


@triton.jit
def _attention_kernel(
    q_desc,
    k_desc,
    v_desc,
    out_ptr,
    logs_ptr,
    num_queries,
    num_keys,
    num_heads,
    head_dim,
    softmax_scale,
    QUERIES_PER_KV: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WHOLE_HEAD: tl.constexpr,
    CAUSAL: tl.constexpr,
    HAS_LOGS: tl.constexpr,
):
    # The last queries see the most keys: they go first, so that no long program runs alone at the end.
    block = tl.num_programs(0) - 1 - tl.program_id(0)
    head = tl.program_id(1) % num_heads
    batch = tl.program_id(1) // num_heads
    kv_head = head // QUERIES_PER_KV
    rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
    offset = num_keys - num_queries
    end = num_keys
    # Keys below `whole` are visible to every query of the block: no mask is computed for them.
    whole = (num_keys // BLOCK_N) * BLOCK_N
    if CAUSAL:
        end = min(num_keys, (block + 1) * BLOCK_M + offset)
        whole = min(whole, ((block * BLOCK_M + offset + 1) // BLOCK_N) * BLOCK_N)
    q = tl.reshape(q_desc.load([batch, block * BLOCK_M, head, 0]), (BLOCK_M, HEAD_DIM))
    acc = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
    top = tl.full((BLOCK_M,), _MASKED, tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc, top, total = _attend(
        acc,
        top,
        total,
        q,
        k_desc,
        v_desc,
        batch,
        kv_head,
        0,
        whole,
        rows,
        num_keys,
        offset,
        softmax_scale,
        BLOCK_N,
        HEAD_DIM,
        False,
        CAUSAL,
    )
    acc, top, total = _attend(
        acc,
        top,
        total,
        q,
        k_desc,
        v_desc,
        batch,
        kv_head,
        whole,
        end,
        rows,
        num_keys,
        offset,
        softmax_scale,
        BLOCK_N,
        HEAD_DIM,
        True,
        CAUSAL,
    )
    if HAS_LOGS:
        logs = logs_ptr + (batch * num_heads + head).to(tl.int64) * num_queries + rows
        tl.store(logs, top + tl.log2(total), mask=rows < num_queries)
    acc = acc / total[:, None]
    columns = tl.arange(0, HEAD_DIM)
    row = (batch * num_queries + rows).to(tl.int64) * num_heads + head
    out = out_ptr + row[:, None] * head_dim + columns[None, :]
    mask = rows[:, None] < num_queries
    if not WHOLE_HEAD:
        # Columns of the block beyond the head were loaded as zeros.
        mask = mask & (columns[None, :] < head_dim)
    tl.store(out, acc.to(v_desc.dtype), mask=mask)


def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = True) -> torch.Tensor:
    """Return attention in fp32 with all scores in memory.

    Shapes: q [B, S, H, D], k [B, T, G, D], v [B, T, G, D] -> [B, S, H, D].
    """
    num_queries, num_heads = q.shape[1:3]
    num_keys, num_kv_heads = k.shape[1:3]
    q_bhsd, k_bgtd, v_bgtd = (x.float().transpose(1, 2) for x in (q, k, v))
    k_bhtd, v_bhtd = (x.repeat_interleave(num_heads // num_kv_heads, dim=1) for x in (k_bgtd, v_bgtd))
    scores = q_bhsd @ k_bhtd.transpose(2, 3) / q.shape[3] ** 0.5
    if causal:
        hidden = torch.ones((num_queries, num_keys), dtype=torch.bool, device=q.device)
        scores = scores.masked_fill(hidden.triu(num_keys - num_queries + 1), float("-inf"))
    return (torch.softmax(scores, dim=-1) @ v_bhtd).transpose(1, 2)


def check_sizes(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    out: torch.Tensor | None,
    logs: torch.Tensor | None = None,
) -> None:
    """Refuse operands between which attention is not defined, or that the kernels would read wrongly.

    Raises: ValueError: a head size that is no multiple of 8 or above 256; heads that do not divide; more queries than
    keys with `causal`; nothing to attend to; gaps, formats or devices that `check_operands` refuses.
    """
    if q.dim() != 4 or k.dim() != 4:
        raise ValueError(
            f"attention takes four dimensions, not those of q {tuple(q.shape)} and k {tuple(k.shape)}"
        )
    batch, num_queries, num_heads, head_dim = q.shape
    num_keys, num_kv_heads = k.shape[1:3]
    is_size = head_dim % 8 == 0 and 0 < head_dim <= MOST_HEAD_DIM and min(q.shape) > 0 and min(k.shape) > 0
    if not is_size or num_heads % num_kv_heads or (causal and num_queries > num_keys):
        raise ValueError(f"attention is not defined for q {tuple(q.shape)} and k {tuple(k.shape)}")
    kv_shape = (batch, num_keys, num_kv_heads, head_dim)
    check_operands(HALVES, q=q, k=(k, kv_shape), v=(v, kv_shape), out=(out, q.shape))
    check_operands(None, q=q, logs=(logs, (batch, num_heads, num_queries)))
    check_operands((torch.float32,), logs=logs)


def run(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = True,
    out: torch.Tensor | None = None,
    config: Config | None = None,
    logs: torch.Tensor | None = None,
) -> torch.Tensor:
    """Compute attention of every query over the keys of its sequence.

    Shapes: q [B, S, H, D], k [B, T, G, D], v [B, T, G, D], contiguous, bf16 or fp16 -> [B, S, H, D].
    A head size is a multiple of 8 up to 256; computed as 64, 128 or 256, the next one. `logs` [B, H, S] fp32, if given,
    receives the base-2 logarithm of each query's sum of exponentials, which the backward pass needs.

    Raises: ValueError: operands that `check_sizes` refuses.
    """
    check_sizes(q, k, v, causal, out, logs)
    batch, num_queries, num_heads, head_dim = q.shape
    num_keys, num_kv_heads = k.shape[1:3]
    width = min(size for size in CONFIGS if size >= head_dim)
    config = config or (_INTERPRETER_CONFIG if INTERPRET else CONFIGS[width])
    out = torch.empty_like(q) if out is None else out
    grid = (triton.cdiv(num_queries, config.block_m), batch * num_heads)
    _attention_kernel[grid](
        TensorDescriptor.from_tensor(q, [1, config.block_m, 1, width]),
        TensorDescriptor.from_tensor(k, [1, config.block_n, 1, width]),
        TensorDescriptor.from_tensor(v, [1, config.block_n, 1, width]),
        out,
        logs,
        num_queries,
        num_keys,
        num_heads,
        head_dim,
        LOG2_E / head_dim**0.5,
        QUERIES_PER_KV=num_heads // num_kv_heads,
        BLOCK_M=config.block_m,
        BLOCK_N=config.block_n,
        HEAD_DIM=width,
        WHOLE_HEAD=width == head_dim,
        CAUSAL=causal,
        HAS_LOGS=logs is not None,
        num_warps=config.num_warps,
        num_stages=config.num_stages,
    )
    return out


def flop(batch: int, num_queries: int, num_keys: int, num_heads: int, head_dim: int, causal: bool) -> int:
    """Multiplications and additions of the two matmuls [flop]: 4 · visible pairs · heads · head size.

    Assumes: softmax is not counted; with `causal` only pairs below the diagonal count.
    """
    pairs = num_queries * num_keys
    if causal:
        pairs -= num_queries * (num_queries - 1) // 2
    return 4 * batch * num_heads * pairs * head_dim


def bytes(
    batch: int,
    num_queries: int,
    num_keys: int,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    element: int,
) -> int:
    """Least traffic at device memory [bytes]: queries, keys and values read once, the result written once."""
    return 2 * batch * (num_queries * num_heads + num_keys * num_kv_heads) * head_dim * element


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
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return random queries, keys and values.

    Shapes: q [B, S, H, D], k [B, T, G, D], v [B, T, G, D].
    """
    draw = normal(seed, device, dtype)
    kv_shape = (batch, num_keys, num_kv_heads, head_dim)
    return draw(batch, num_queries, num_heads, head_dim), draw(*kv_shape), draw(*kv_shape)
