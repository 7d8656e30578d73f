"""Attention of one new token per sequence over a paged key-value cache (decode).

The work is reading the cache once: few sequences would leave most multiprocessors idle, so each sequence is
split into parts whose partial results a second kernel merges.

A cache in fp8 holds values divided by a scale of their key-value head. The blocks become 16-bit numbers in registers;
the scale of the keys multiplies the scores and that of the values the result, so neither costs work per element.

Letters of shapes: B sequences, H query heads, G key-value heads, D head size, P pages, T tokens per page.
"""

from dataclasses import dataclass
from typing import Final

import torch
import triton
import triton.language as tl

from advisor.kernels.attention import LOG2_E
from advisor.kernels.backend import (
    EIGHT_BITS,
    HALVES,
    INTERPRET,
    check_formats,
    check_operands,
    dot,
    persistent_programs,
)

MASKED = tl.constexpr(-1e30)
_MIN_DOT_ROWS: Final = 16
"""Fewest rows that the matrix unit takes: query heads of one key-value head are padded to this number."""


@dataclass(frozen=True, slots=True)
class Config:
    """Number of tokens per step of one program, and the target number of programs per multiprocessor."""

    block_n: int
    num_warps: int
    num_stages: int
    programs_per_sm: int = 4
    """Target number of programs per multiprocessor when sequences are split."""


CONFIG: Final = Config(block_n=64, num_warps=4, num_stages=3)
CONFIG_FP8: Final = Config(block_n=128, num_warps=4, num_stages=3)
"""Configuration of a cache in fp8, whose tokens are half as large: with blocks of 64, 1.52 and not 1.82 TB/s (H100)."""
_INTERPRETER_CONFIG: Final = Config(block_n=16, num_warps=4, num_stages=1, programs_per_sm=2)


@triton.jit
def _part_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    table_ptr,
    lengths_ptr,
    k_scale_ptr,
    v_scale_ptr,
    part_ptr,
    top_ptr,
    total_ptr,
    max_pages,
    softmax_scale,
    NUM_KV_HEADS: tl.constexpr,
    QUERIES_PER_KV: tl.constexpr,
    ROWS: tl.constexpr,
    PAGE: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    IS_FP8: tl.constexpr,
):
    # Programs of equal tokens and neighbouring heads run together, because their rows share pages of DRAM.
    kv_head = tl.program_id(0)
    part = tl.program_id(1)
    num_parts = tl.num_programs(1)
    sequence = tl.program_id(2)
    length = tl.load(lengths_ptr + sequence)
    blocks_per_part = tl.cdiv(tl.cdiv(length, BLOCK_N), num_parts)
    begin = part * blocks_per_part * BLOCK_N
    end = min(length, begin + blocks_per_part * BLOCK_N)
    rows = tl.arange(0, ROWS)
    columns = tl.arange(0, HEAD_DIM)
    heads = sequence * NUM_KV_HEADS * QUERIES_PER_KV + kv_head * QUERIES_PER_KV + rows
    is_head = rows < QUERIES_PER_KV
    q = tl.load(q_ptr + heads[:, None] * HEAD_DIM + columns[None, :], mask=is_head[:, None], other=0.0)
    if IS_FP8:
        softmax_scale *= tl.load(k_scale_ptr + kv_head)
    acc = tl.zeros((ROWS, HEAD_DIM), tl.float32)
    top = tl.full((ROWS,), MASKED, tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    for first in tl.range(begin, end, BLOCK_N):
        tokens = first + tl.arange(0, BLOCK_N)
        inside = tokens < end
        page = tl.load(table_ptr + sequence * max_pages + tokens // PAGE, mask=inside, other=0)
        row = (page.to(tl.int64) * PAGE + tokens % PAGE) * NUM_KV_HEADS + kv_head
        offsets = row[:, None] * HEAD_DIM + columns[None, :]
        k = tl.load(k_ptr + offsets, mask=inside[:, None], other=0.0)
        v = tl.load(v_ptr + offsets, mask=inside[:, None], other=0.0)
        if IS_FP8:
            k = k.to(q.dtype)
            v = v.to(q.dtype)
        scores = dot(q, tl.trans(k), tl.zeros((ROWS, BLOCK_N), tl.float32)) * softmax_scale
        scores = tl.where(inside[None, :], scores, MASKED)
        higher = tl.maximum(top, tl.max(scores, axis=1))
        weights = tl.exp2(scores - higher[:, None])
        scale = tl.exp2(top - higher)
        total = total * scale + tl.sum(weights, axis=1)
        acc = dot(weights.to(v.dtype), v, acc * scale[:, None])
        top = higher
    if IS_FP8:
        acc *= tl.load(v_scale_ptr + kv_head)
    slot = heads.to(tl.int64) * num_parts + part
    tl.store(part_ptr + slot[:, None] * HEAD_DIM + columns[None, :], acc, mask=is_head[:, None])
    tl.store(top_ptr + slot, top, mask=is_head)
    tl.store(total_ptr + slot, total, mask=is_head)


@triton.jit
def merge_kernel(
    part_ptr, top_ptr, total_ptr, out_ptr, num_parts, PARTS: tl.constexpr, HEAD_DIM: tl.constexpr
):
    head = tl.program_id(0)
    parts = tl.arange(0, PARTS)
    columns = tl.arange(0, HEAD_DIM)
    exists = parts < num_parts
    slots = head.to(tl.int64) * num_parts + parts
    tops = tl.load(top_ptr + slots, mask=exists, other=MASKED)
    totals = tl.load(total_ptr + slots, mask=exists, other=0.0)
    scales = tl.exp2(tops - tl.max(tops))
    partial = tl.load(
        part_ptr + slots[:, None] * HEAD_DIM + columns[None, :], mask=exists[:, None], other=0.0
    )
    merged = tl.sum(partial * scales[:, None], axis=0) / tl.sum(totals * scales)
    tl.store(out_ptr + head * HEAD_DIM + columns, merged)


def _tokens(
    cache: torch.Tensor, pages: torch.Tensor, length: int, scale: torch.Tensor | None
) -> torch.Tensor:
    """Return the tokens of some pages in fp32, times their heads' scales."""
    # torch gathers bytes everywhere, and numbers of fp8 not.
    gathered = cache.view(torch.uint8)[pages].view(cache.dtype)
    tokens = gathered.reshape(-1, *cache.shape[2:])[:length].float()
    return tokens if scale is None else tokens * scale[:, None]


def reference(
    q: torch.Tensor,
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
    scales: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> torch.Tensor:
    """Return attention of each query over its sequence's tokens, gathered from the pages, in fp32.

    Shapes: q [B, H, D], pages [P, T, G, D], block_table [B, pages], lengths [B], scales [G], [G] -> [B, H, D].
    """
    num_heads, head_dim = q.shape[1:]
    num_kv_heads = k_pages.shape[2]
    k_scale, v_scale = scales or (None, None)
    rows = []
    for sequence, length in enumerate(lengths.tolist()):
        pages = block_table[sequence].long()
        k_tgd = _tokens(k_pages, pages, length, k_scale)
        v_tgd = _tokens(v_pages, pages, length, v_scale)
        k_thd, v_thd = (x.repeat_interleave(num_heads // num_kv_heads, dim=1) for x in (k_tgd, v_tgd))
        scores = torch.einsum("hd,thd->ht", q[sequence].float(), k_thd) / head_dim**0.5
        rows.append(torch.einsum("ht,thd->hd", torch.softmax(scores, dim=1), v_thd))
    return torch.stack(rows)


def choose_parts(num_sequences: int, num_kv_heads: int, max_length: int, config: Config, num_sms: int) -> int:
    """Number of parts per sequence [count]: as many as run at once, at least four steps each.

    One program more than fits would make all the others wait for a second round.

    Assumes: `max_length` is the longest sequence; shorter ones get shorter parts.
    """
    wanted = config.programs_per_sm * num_sms // (num_sequences * num_kv_heads)
    return max(1, min(wanted, triton.cdiv(max_length, 4 * config.block_n)))


def check_sizes(
    q: torch.Tensor,
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
    out: torch.Tensor | None,
    scales: tuple[torch.Tensor, torch.Tensor] | None,
) -> None:
    """Refuse operands that do not fit together.

    Raises: ValueError: the heads do not divide, the head size is not a power of two, a cache in fp8 has no scales, or
    operands that `check_operands` refuses.
    """
    num_sequences, num_heads, head_dim = q.shape
    num_kv_heads = k_pages.shape[2]
    if num_heads % num_kv_heads or head_dim != triton.next_power_of_2(head_dim):
        raise ValueError(f"attention is not defined for q {tuple(q.shape)} and pages {tuple(k_pages.shape)}")
    check_formats(HALVES, q=q)
    is_fp8 = k_pages.dtype in EIGHT_BITS
    if is_fp8 != (scales is not None):
        raise ValueError(f"a cache in {k_pages.dtype} {'needs scales' if is_fp8 else 'takes no scales'}")
    pages_shape = (*k_pages.shape[:3], head_dim)
    check_operands(
        (k_pages.dtype if is_fp8 else q.dtype,),
        k_pages=(k_pages, pages_shape),
        v_pages=(v_pages, pages_shape),
    )
    check_operands(None, q=q, out=(out, q.shape), k_pages=k_pages)
    k_scale, v_scale = scales or (None, None)
    scale_shape = (num_kv_heads,)
    check_operands((torch.float32,), k_scale=(k_scale, scale_shape), v_scale=(v_scale, scale_shape))
    check_operands((torch.int32,), block_table=block_table, lengths=(lengths, (num_sequences,)))


def run(
    q: torch.Tensor,
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
    max_length: int | None = None,
    out: torch.Tensor | None = None,
    config: Config | None = None,
    scales: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> torch.Tensor:
    """Compute attention of one query per sequence over its cached tokens.

    Shapes: q [B, H, D] bf16 or fp16, pages [P, T, G, D] contiguous in the same format or in fp8, block_table [B, pages]
    int32, lengths [B] int32, scales of keys and of values [G] fp32 (fp8) -> [B, H, D].

    Assumes: every length is at least 1; `max_length` (default: the capacity of the table) bounds them.
    Raises: ValueError: the heads do not divide, the head size is not a power of two, or a cache in fp8 has no scales.
    """
    check_sizes(q, k_pages, v_pages, block_table, lengths, out, scales)
    num_sequences, num_heads, head_dim = q.shape
    page, num_kv_heads = k_pages.shape[1:3]
    is_fp8 = scales is not None
    k_scale, v_scale = scales or (None, None)
    config = config or (_INTERPRETER_CONFIG if INTERPRET else (CONFIG_FP8 if is_fp8 else CONFIG))
    max_length = max_length or block_table.shape[1] * page
    parts = choose_parts(num_sequences, num_kv_heads, max_length, config, persistent_programs(q.device))
    out = torch.empty_like(q) if out is None else out
    partial = q.new_empty((num_sequences, num_heads, parts, head_dim), dtype=torch.float32)
    tops = q.new_empty((num_sequences, num_heads, parts), dtype=torch.float32)
    totals = torch.empty_like(tops)
    queries_per_kv = num_heads // num_kv_heads
    _part_kernel[(num_kv_heads, parts, num_sequences)](
        q,
        k_pages,
        v_pages,
        block_table,
        lengths,
        k_scale,
        v_scale,
        partial,
        tops,
        totals,
        block_table.shape[1],
        LOG2_E / head_dim**0.5,
        NUM_KV_HEADS=num_kv_heads,
        QUERIES_PER_KV=queries_per_kv,
        ROWS=max(_MIN_DOT_ROWS, triton.next_power_of_2(queries_per_kv)),
        PAGE=page,
        BLOCK_N=config.block_n,
        HEAD_DIM=head_dim,
        IS_FP8=is_fp8,
        num_warps=config.num_warps,
        num_stages=config.num_stages,
    )
    merge_kernel[(num_sequences * num_heads,)](
        partial, tops, totals, out, parts, PARTS=triton.next_power_of_2(parts), HEAD_DIM=head_dim, num_warps=4
    )
    return out


def flop(num_heads: int, head_dim: int, total_tokens: int) -> int:
    """Multiplications and additions of the two matmuls [flop]; `total_tokens` over all sequences."""
    return 4 * num_heads * head_dim * total_tokens


def bytes(num_kv_heads: int, head_dim: int, total_tokens: int, element_bytes: int) -> int:
    """Least traffic at device memory [bytes]: keys and values of every token once.

    Assumes: queries, results and the table are negligible.
    """
    return 2 * num_kv_heads * head_dim * total_tokens * element_bytes


def make_inputs(
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    lengths: list[int],
    page: int,
    seed: int,
    device: torch.device,
    dtype: torch.dtype = torch.bfloat16,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return random queries and a cache whose pages lie scattered, like after hours of serving.

    Shapes: q [B, H, D], k_pages [P, T, G, D], v_pages [P, T, G, D], block_table [B, pages], lengths [B].
    """
    generator = torch.Generator(device=device).manual_seed(seed)
    pages_per_sequence = triton.cdiv(max(lengths), page)
    num_pages = pages_per_sequence * len(lengths)
    shape = (num_pages, page, num_kv_heads, head_dim)
    q = torch.randn((len(lengths), num_heads, head_dim), generator=generator, device=device, dtype=dtype)
    k_pages = torch.randn(shape, generator=generator, device=device, dtype=dtype)
    v_pages = torch.randn(shape, generator=generator, device=device, dtype=dtype)
    order = torch.randperm(num_pages, generator=generator, device=device).to(torch.int32)
    block_table = order.reshape(len(lengths), pages_per_sequence)
    return q, k_pages, v_pages, block_table, torch.tensor(lengths, dtype=torch.int32, device=device)


def quantize(
    pages: torch.Tensor, dtype: torch.dtype = torch.float8_e4m3fn
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return pages in fp8 and the scale of each key-value head: its largest value becomes the format's largest.

    Shapes: pages [P, T, G, D] -> [P, T, G, D], [G] fp32.
    """
    scale = pages.abs().amax(dim=(0, 1, 3)).float().clamp_min(1e-12) / torch.finfo(dtype).max
    return (pages.float() / scale[:, None]).to(dtype), scale
