"""Attention of prompts of different lengths, packed one after the other, with window, soft cap and sinks.

The tokens of all sequences lie in one array without padding; `starts` says where each sequence begins. Three options
change the softmax, as models do:

- A window W: a query attends to the W newest keys up to its own (without `causal`, also to the W − 1 keys after it).
- A soft cap c: a score s becomes c · tanh(s / c).
- A sink: a learned logit of each head that takes part in the sum of exponentials and has no value.

Tiled: blocks of queries of one head of one sequence; each walks over the blocks of keys that it can see. Kept on the
chip: the block's queries, the running maximum, sum and weighted values; scores never reach memory.

Letters of shapes: N sequences, S tokens of queries, T tokens of keys, H query heads, G key-value heads, D head size.
"""

from typing import Final

import torch
import triton
import triton.language as tl

from advisor.kernels.attention import LOG2_E, MOST_HEAD_DIM, Config
from advisor.kernels.backend import HALVES, INTERPRET, check_operands, dot, normal

_MASKED = tl.constexpr(-1e30)
"""Score of a key that is not attended to; finite, so that differences of two of them are not NaN."""
_LOG2_E = tl.constexpr(LOG2_E)


CONFIGS: Final[dict[int, Config]] = {
    64: Config(block_m=128, block_n=64, num_warps=4, num_stages=3),
    128: Config(block_m=64, block_n=64, num_warps=4, num_stages=3),
    256: Config(block_m=128, block_n=32, num_warps=8, num_stages=2),
}
"""Configuration by head size, rounded up to one of these."""
_INTERPRETER_CONFIG: Final = Config(block_m=32, block_n=16, num_warps=4, num_stages=1)


@triton.jit
def _attend(
    acc,
    top,
    total,
    q,
    k_ptr,
    v_ptr,
    begin,
    end,
    places,
    num_keys,
    row_elements,
    head_dim,
    softmax_scale,
    soft_cap,
    window,
    BLOCK_N: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    MASKED: tl.constexpr,
    CAUSAL: tl.constexpr,
    HAS_WINDOW: tl.constexpr,
    HAS_CAP: tl.constexpr,
):
    """Update running maximum, sum of exponentials and weighted values of each query over keys [begin, end)."""
    columns = tl.arange(0, HEAD_DIM)
    for first in tl.range(begin, end, BLOCK_N):
        keys = first + tl.arange(0, BLOCK_N)
        offsets = keys.to(tl.int64)[:, None] * row_elements + columns[None, :]
        inside = (keys[:, None] < num_keys) & (columns[None, :] < head_dim)
        k = tl.load(k_ptr + offsets, mask=inside, other=0.0)
        scores = dot(q, tl.trans(k), tl.zeros((q.shape[0], BLOCK_N), tl.float32)) * softmax_scale
        if HAS_CAP:
            # tanh x = 1 − 2 / (exp 2x + 1)
            scores = soft_cap * (1.0 - 2.0 / (tl.exp2(scores * (2.0 * _LOG2_E / soft_cap)) + 1.0))
        scores = scores * _LOG2_E
        if MASKED:
            visible = keys[None, :] < num_keys
            if CAUSAL:
                visible = visible & (keys[None, :] <= places[:, None])
            if HAS_WINDOW:
                visible = visible & (keys[None, :] > places[:, None] - window)
                visible = visible & (keys[None, :] < places[:, None] + window)
            scores = tl.where(visible, scores, _MASKED)
        higher = tl.maximum(top, tl.max(scores, axis=1))
        weights = tl.exp2(scores - higher[:, None])
        if MASKED:
            # A query that sees no key of this block, nor of one before, has differences of zero.
            weights = tl.where(visible, weights, 0.0)
        scale = tl.exp2(top - higher)
        total = total * scale + tl.sum(weights, axis=1)
        top = higher
        v = tl.load(v_ptr + offsets, mask=inside, other=0.0)
        acc = dot(weights.to(v.dtype), v, acc * scale[:, None])
    return acc, top, total


@triton.jit
def _packed_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    q_starts_ptr,
    k_starts_ptr,
    sinks_ptr,
    out_ptr,
    num_heads,
    head_dim,
    softmax_scale,
    soft_cap,
    window,
    QUERIES_PER_KV: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    CAUSAL: tl.constexpr,
    HAS_WINDOW: tl.constexpr,
    HAS_CAP: tl.constexpr,
    HAS_SINKS: tl.constexpr,
):
    # The last queries of a long sequence see the most keys, so they go first.
    block = tl.num_programs(0) - 1 - tl.program_id(0)
    head = tl.program_id(1)
    sequence = tl.program_id(2)
    first_query = tl.load(q_starts_ptr + sequence)
    num_queries = tl.load(q_starts_ptr + sequence + 1) - first_query
    if block * BLOCK_M < num_queries:
        first_key = tl.load(k_starts_ptr + sequence)
        num_keys = tl.load(k_starts_ptr + sequence + 1) - first_key
        kv_head = head // QUERIES_PER_KV
        row_elements = num_heads // QUERIES_PER_KV * head_dim
        rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
        # The last query stands at the last key.
        offset = num_keys - num_queries
        places = rows + offset
        lowest = block * BLOCK_M + offset
        highest = lowest + BLOCK_M - 1
        begin = 0
        end = num_keys
        # Keys in [left, whole) are visible to every query of the block: no mask is computed for them.
        left = 0
        whole = (num_keys // BLOCK_N) * BLOCK_N
        if CAUSAL:
            end = min(num_keys, highest + 1)
            whole = min(whole, (lowest + 1) // BLOCK_N * BLOCK_N)
        if HAS_WINDOW:
            begin = max(0, lowest - window + 1) // BLOCK_N * BLOCK_N
            left = tl.cdiv(max(0, highest - window + 1), BLOCK_N) * BLOCK_N
            end = min(end, highest + window)
            whole = min(whole, max(0, lowest + window) // BLOCK_N * BLOCK_N)
            left = max(begin, min(left, tl.cdiv(end, BLOCK_N) * BLOCK_N))
        whole = max(left, whole)
        columns = tl.arange(0, HEAD_DIM)
        query_rows = (first_query + rows).to(tl.int64) * num_heads + head
        is_query = (rows[:, None] < num_queries) & (columns[None, :] < head_dim)
        q_offsets = query_rows[:, None] * head_dim + columns[None, :]
        q = tl.load(q_ptr + q_offsets, mask=is_query, other=0.0)
        kv_start = first_key.to(tl.int64) * row_elements + kv_head * head_dim
        k_ptr += kv_start
        v_ptr += kv_start
        acc = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
        top = tl.full((BLOCK_M,), _MASKED, tl.float32)
        total = tl.zeros((BLOCK_M,), tl.float32)
        if HAS_SINKS:
            # A sink is a key that was seen before all others, with values of zero.
            top = tl.zeros((BLOCK_M,), tl.float32) + tl.load(sinks_ptr + head).to(tl.float32) * _LOG2_E
            total = tl.full((BLOCK_M,), 1.0, tl.float32)
        if HAS_WINDOW:
            acc, top, total = _attend(
                acc,
                top,
                total,
                q,
                k_ptr,
                v_ptr,
                begin,
                left,
                places,
                num_keys,
                row_elements,
                head_dim,
                softmax_scale,
                soft_cap,
                window,
                BLOCK_N,
                HEAD_DIM,
                True,
                CAUSAL,
                HAS_WINDOW,
                HAS_CAP,
            )
        acc, top, total = _attend(
            acc,
            top,
            total,
            q,
            k_ptr,
            v_ptr,
            left,
            whole,
            places,
            num_keys,
            row_elements,
            head_dim,
            softmax_scale,
            soft_cap,
            window,
            BLOCK_N,
            HEAD_DIM,
            False,
            CAUSAL,
            HAS_WINDOW,
            HAS_CAP,
        )
        acc, top, total = _attend(
            acc,
            top,
            total,
            q,
            k_ptr,
            v_ptr,
            whole,
            end,
            places,
            num_keys,
            row_elements,
            head_dim,
            softmax_scale,
            soft_cap,
            window,
            BLOCK_N,
            HEAD_DIM,
            True,
            CAUSAL,
            HAS_WINDOW,
            HAS_CAP,
        )
        # A query without any visible key gets zeros.
        acc = acc / tl.where(total > 0.0, total, 1.0)[:, None]
        tl.store(out_ptr + q_offsets, acc, mask=is_query)


def reference(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_starts: torch.Tensor,
    k_starts: torch.Tensor | None = None,
    *,
    causal: bool = True,
    window: int | None = None,
    soft_cap: float | None = None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return attention of each sequence in fp64, with all scores in memory.

    Shapes: q [S, H, D], k [T, G, D], v [T, G, D], starts [N + 1], sinks [H] -> [S, H, D].
    """
    k_starts = q_starts if k_starts is None else k_starts
    num_heads, head_dim = q.shape[1:]
    parts = []
    for n in range(q_starts.numel() - 1):
        queries = q[q_starts[n] : q_starts[n + 1]].double().transpose(0, 1)
        keys, values = (
            x[k_starts[n] : k_starts[n + 1]]
            .double()
            .transpose(0, 1)
            .repeat_interleave(num_heads // k.shape[1], dim=0)
            for x in (k, v)
        )
        scores = queries @ keys.transpose(1, 2) / head_dim**0.5
        if soft_cap is not None:
            scores = soft_cap * torch.tanh(scores / soft_cap)
        num_queries, num_keys = scores.shape[1:]
        key = torch.arange(num_keys, device=q.device)[None, :]
        place = torch.arange(num_queries, device=q.device)[:, None] + num_keys - num_queries
        hidden = torch.zeros((num_queries, num_keys), dtype=torch.bool, device=q.device)
        if causal:
            hidden |= key > place
        if window is not None:
            hidden |= (key <= place - window) | (key >= place + window)
        scores = scores.masked_fill(hidden, float("-inf"))
        if sinks is not None:
            logits = sinks.double()[:, None, None].expand(-1, num_queries, 1)
            scores = torch.cat((scores, logits), dim=2)
        weights = torch.nan_to_num(torch.softmax(scores, dim=2))[:, :, :num_keys]
        parts.append((weights @ values).transpose(0, 1))
    return torch.cat(parts)


def check_sizes(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_starts: torch.Tensor,
    k_starts: torch.Tensor | None,
    window: int | None,
    soft_cap: float | None,
    sinks: torch.Tensor | None,
    out: torch.Tensor | None,
) -> None:
    """Refuse operands between which packed attention is not defined, or that the kernel would read wrongly.

    Raises: ValueError: dimensions, head sizes or heads that do not fit; a window or a cap that is not positive; gaps,
    formats or devices that `check_operands` refuses.
    """
    if q.dim() != 3 or k.dim() != 3 or q_starts.dim() != 1:
        raise ValueError(
            f"packed attention takes three dimensions, not q {tuple(q.shape)}, k {tuple(k.shape)}"
        )
    head_dim = q.shape[2]
    is_size = head_dim % 8 == 0 and 0 < head_dim <= MOST_HEAD_DIM and min(k.shape) > 0 and min(q.shape) > 0
    if not is_size or q.shape[1] % k.shape[1]:
        raise ValueError(f"attention is not defined for q {tuple(q.shape)} and k {tuple(k.shape)}")
    if window is not None and window < 1:
        raise ValueError(f"a window of {window} keys sees nothing: it must be at least 1")
    if soft_cap is not None and soft_cap <= 0.0:
        raise ValueError(f"a soft cap of {soft_cap} is not positive")
    kv_shape = (k.shape[0], k.shape[1], head_dim)
    check_operands(HALVES, q=q, k=(k, kv_shape), v=(v, kv_shape), out=(out, q.shape))
    check_operands(None, q=q, sinks=(sinks, (q.shape[1],)), q_starts=q_starts)
    check_operands((torch.int32,), q_starts=q_starts, k_starts=(k_starts, q_starts.shape))


def run(
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
    config: Config | None = None,
) -> torch.Tensor:
    """Compute attention of every query over the visible keys of its sequence.

    Shapes: q [S, H, D], k [T, G, D], v [T, G, D], contiguous, bf16 or fp16, starts [N + 1] int32, sinks [H]
    -> [S, H, D].

    Assumes: starts rise from 0 to S (and to T); with `causal` or a window no sequence has more queries than keys;
    `max_queries` (default: S, which launches programs that leave at once) bounds the queries of a sequence.
    Raises: ValueError: operands that `check_sizes` refuses.
    """
    check_sizes(q, k, v, q_starts, k_starts, window, soft_cap, sinks, out)
    num_queries, num_heads, head_dim = q.shape
    width = min(size for size in CONFIGS if size >= head_dim)
    config = config or (_INTERPRETER_CONFIG if INTERPRET else CONFIGS[width])
    out = torch.empty_like(q) if out is None else out
    blocks = triton.cdiv(min(num_queries, max_queries or num_queries), config.block_m)
    _packed_kernel[(blocks, num_heads, q_starts.numel() - 1)](
        q,
        k,
        v,
        q_starts,
        q_starts if k_starts is None else k_starts,
        sinks,
        out,
        num_heads,
        head_dim,
        head_dim**-0.5,
        soft_cap or 1.0,
        window or 1,
        QUERIES_PER_KV=num_heads // k.shape[1],
        BLOCK_M=config.block_m,
        BLOCK_N=config.block_n,
        HEAD_DIM=width,
        CAUSAL=causal,
        HAS_WINDOW=window is not None,
        HAS_CAP=soft_cap is not None,
        HAS_SINKS=sinks is not None,
        num_warps=config.num_warps,
        num_stages=config.num_stages,
    )
    return out


def visible_pairs(num_queries: int, num_keys: int, causal: bool, window: int | None) -> int:
    """Number of pairs of a query and a key that it attends to, in one sequence [count]."""
    offset = num_keys - num_queries
    total = 0
    for place in range(offset, num_keys):
        lowest = 0 if window is None else max(0, place - window + 1)
        highest = num_keys - 1 if window is None else min(num_keys - 1, place + window - 1)
        total += min(highest, place if causal else highest) - lowest + 1
    return total


def flop(lengths: list[int], num_heads: int, head_dim: int, causal: bool, window: int | None) -> int:
    """Multiplications and additions of the two matmuls [flop]: 4 · visible pairs · heads · head size.

    Assumes: as many keys as queries in each sequence; softmax, cap and sinks are not counted.
    """
    pairs = sum(visible_pairs(length, length, causal, window) for length in lengths)
    return 4 * pairs * num_heads * head_dim


def bytes(lengths: list[int], num_heads: int, num_kv_heads: int, head_dim: int, element_bytes: int) -> int:
    """Least traffic at device memory [bytes]: queries, keys and values read once, the result written once."""
    return 2 * sum(lengths) * (num_heads + num_kv_heads) * head_dim * element_bytes


def make_inputs(
    lengths: list[int],
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    seed: int,
    device: torch.device,
    dtype: torch.dtype = torch.bfloat16,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return random queries, keys and values of sequences of these lengths, and where they start.

    Shapes: q [S, H, D], k [S, G, D], v [S, G, D], starts [N + 1] int32.
    """
    draw = normal(seed, device, dtype)
    tokens = sum(lengths)
    starts = torch.tensor([0, *lengths], device=device).cumsum(0).to(torch.int32)
    kv_shape = (tokens, num_kv_heads, head_dim)
    return draw(tokens, num_heads, head_dim), draw(*kv_shape), draw(*kv_shape), starts
