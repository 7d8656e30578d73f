"""Decode of multi-head latent attention (MLA) in absorbed form: all heads share one latent vector per token.

The up-projections of keys and values are multiplied into the query and into the output projection, so the cache holds
per token one latent of 512 numbers and 64 rotated ones. Keys are all 576 numbers, values the first 512: each byte is
read once and used by every head for both products. With 128 heads that is 242 flop per byte, near the ridge of an H100.

Tiled: a program takes a block of heads and one part of a sequence, in steps of some tokens. Kept on the chip: its
queries and the running maximum, sum and weighted latents of each head. Parts are merged as in `decode_attention`.

Letters of shapes: B sequences, H query heads, P pages, T tokens per page.
"""

from dataclasses import dataclass
from typing import Final

import torch
import triton
import triton.language as tl

from advisor.kernels.attention import LOG2_E
from advisor.kernels.backend import HALVES, INTERPRET, check_operands, dot, normal, persistent_programs
from advisor.kernels.decode_attention import MASKED, merge_kernel

LATENT: Final = 512
"""Number of values, and of latent numbers of a key. Source: DeepSeek-V2, arXiv:2405.04434, section 2.1 (d_c = 512)."""
ROTATED: Final = 64
"""Number of rotated numbers of a key. Source: DeepSeek-V2, arXiv:2405.04434, section 2.1 (d_h^R = 64)."""


@dataclass(frozen=True, slots=True)
class LatentConfig:
    """Numbers of heads of a program and of tokens per step, and the target number of programs per multiprocessor."""

    rows: int
    block_n: int
    num_warps: int
    num_stages: int
    programs_per_sm: int = 1


CONFIG: Final = LatentConfig(rows=64, block_n=64, num_warps=8, num_stages=2)
FEW_HEADS: Final = LatentConfig(rows=16, block_n=32, num_warps=4, num_stages=3, programs_per_sm=2)
"""Configuration of at most 16 heads, as tensor parallelism leaves them."""
_INTERPRETER_CONFIG: Final = LatentConfig(rows=16, block_n=16, num_warps=4, num_stages=1, programs_per_sm=2)


@triton.jit
def _part_kernel(
    q_ptr,
    page_ptr,
    table_ptr,
    lengths_ptr,
    part_ptr,
    top_ptr,
    total_ptr,
    num_heads,
    max_pages,
    softmax_scale,
    ROWS: tl.constexpr,
    PAGE: tl.constexpr,
    BLOCK_N: tl.constexpr,
    LATENT: tl.constexpr,
    ROTATED: tl.constexpr,
):
    # Programs of the same tokens and different heads run together: the second one finds the latents in the L2.
    block = tl.program_id(0)
    part = tl.program_id(1)
    num_parts = tl.num_programs(1)
    sequence = tl.program_id(2)
    length = tl.load(lengths_ptr + sequence)
    blocks_per_part = tl.cdiv(tl.cdiv(length, BLOCK_N), num_parts)
    begin = part * blocks_per_part * BLOCK_N
    end = min(length, begin + blocks_per_part * BLOCK_N)
    rows = block * ROWS + tl.arange(0, ROWS)
    is_head = rows < num_heads
    columns = tl.arange(0, LATENT)
    rotated = LATENT + tl.arange(0, ROTATED)
    width: tl.constexpr = LATENT + ROTATED
    heads = sequence * num_heads + rows
    q_rows = q_ptr + heads[:, None] * width
    q = tl.load(q_rows + columns[None, :], mask=is_head[:, None], other=0.0)
    q_rotated = tl.load(q_rows + rotated[None, :], mask=is_head[:, None], other=0.0)
    acc = tl.zeros((ROWS, LATENT), tl.float32)
    top = tl.full((ROWS,), MASKED, tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    for first in tl.range(begin, end, BLOCK_N):
        tokens = first + tl.arange(0, BLOCK_N)
        inside = tokens < end
        page = tl.load(table_ptr + sequence * max_pages + tokens // PAGE, mask=inside, other=0)
        token_rows = page_ptr + ((page.to(tl.int64) * PAGE + tokens % PAGE) * width)[:, None]
        latent = tl.load(token_rows + columns[None, :], mask=inside[:, None], other=0.0)
        k_rotated = tl.load(token_rows + rotated[None, :], mask=inside[:, None], other=0.0)
        scores = dot(q_rotated, tl.trans(k_rotated), tl.zeros((ROWS, BLOCK_N), tl.float32))
        scores = dot(q, tl.trans(latent), scores) * softmax_scale
        scores = tl.where(inside[None, :], scores, MASKED)
        higher = tl.maximum(top, tl.max(scores, axis=1))
        weights = tl.exp2(scores - higher[:, None])
        scale = tl.exp2(top - higher)
        total = total * scale + tl.sum(weights, axis=1)
        acc = dot(weights.to(latent.dtype), latent, acc * scale[:, None])
        top = higher
    slot = heads.to(tl.int64) * num_parts + part
    tl.store(part_ptr + slot[:, None] * LATENT + columns[None, :], acc, mask=is_head[:, None])
    tl.store(top_ptr + slot, top, mask=is_head)
    tl.store(total_ptr + slot, total, mask=is_head)


def reference(
    q: torch.Tensor,
    pages: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
    softmax_scale: float,
) -> torch.Tensor:
    """Return the weighted latents of each head, in fp64.

    Shapes: q [B, H, 576], pages [P, T, 576], block_table [B, pages], lengths [B] -> [B, H, 512].
    """
    rows = []
    for sequence, length in enumerate(lengths.tolist()):
        latents = pages[block_table[sequence].long()].reshape(-1, LATENT + ROTATED)[:length].double()
        weights = torch.softmax(q[sequence].double() @ latents.T * softmax_scale, dim=1)
        rows.append(weights @ latents[:, :LATENT])
    return torch.stack(rows)


def choose_parts(num_programs: int, max_length: int, config: LatentConfig, num_sms: int) -> int:
    """Number of parts per sequence [count]: as many as run at once, at least four steps each."""
    wanted = config.programs_per_sm * num_sms // num_programs
    return max(1, min(wanted, int(triton.cdiv(max_length, 4 * config.block_n))))


def run(
    q: torch.Tensor,
    pages: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
    softmax_scale: float,
    max_length: int | None = None,
    out: torch.Tensor | None = None,
    config: LatentConfig | None = None,
) -> torch.Tensor:
    """Compute the weighted latents of one query per sequence and head.

    Shapes: q [B, H, 576], pages [P, T, 576], contiguous, bf16 or fp16, block_table [B, pages] int32, lengths [B] int32
    -> [B, H, 512].

    Assumes: every length is at least 1; `max_length` (default: the capacity of the table) bounds them. `softmax_scale`
    is that of the head before absorption, 1 / √192 in DeepSeek-V3.
    Raises: ValueError: queries or pages are not 576 wide, or operands that `check_operands` refuses.
    """
    width = LATENT + ROTATED
    if q.dim() != 3 or pages.dim() != 3 or q.shape[2] != width or pages.shape[2] != width:
        raise ValueError(
            f"latent attention wants rows of {width}, not q {tuple(q.shape)}, pages {tuple(pages.shape)}"
        )
    num_sequences, num_heads = q.shape[:2]
    result_shape = (num_sequences, num_heads, LATENT)
    check_operands(HALVES, q=q, pages=pages, out=(out, result_shape))
    check_operands((q.dtype,), pages=pages)
    if block_table.dim() != 2:
        raise ValueError(f"block_table is {tuple(block_table.shape)}, and the kernel wants rows of pages")
    check_operands(
        (torch.int32,),
        block_table=(block_table, (num_sequences, block_table.shape[1])),
        lengths=(lengths, (num_sequences,)),
    )
    if config is None:
        config = _INTERPRETER_CONFIG if INTERPRET else (CONFIG if num_heads > FEW_HEADS.rows else FEW_HEADS)
    max_length = max_length or block_table.shape[1] * pages.shape[1]
    blocks = int(triton.cdiv(num_heads, config.rows))
    parts = choose_parts(num_sequences * blocks, max_length, config, persistent_programs(q.device))
    out = q.new_empty(result_shape) if out is None else out
    partial = q.new_empty((num_sequences, num_heads, parts, LATENT), dtype=torch.float32)
    tops = q.new_empty((num_sequences, num_heads, parts), dtype=torch.float32)
    totals = torch.empty_like(tops)
    _part_kernel[(blocks, parts, num_sequences)](
        q,
        pages,
        block_table,
        lengths,
        partial,
        tops,
        totals,
        num_heads,
        block_table.shape[1],
        LOG2_E * softmax_scale,
        ROWS=config.rows,
        PAGE=pages.shape[1],
        BLOCK_N=config.block_n,
        LATENT=LATENT,
        ROTATED=ROTATED,
        num_warps=config.num_warps,
        num_stages=config.num_stages,
    )
    merge_kernel[(num_sequences * num_heads,)](
        partial, tops, totals, out, parts, PARTS=triton.next_power_of_2(parts), HEAD_DIM=LATENT, num_warps=4
    )
    return out


def flop(num_heads: int, total_tokens: int) -> int:
    """Multiplications and additions of the two matmuls [flop]; `total_tokens` over all sequences."""
    return 2 * num_heads * (2 * LATENT + ROTATED) * total_tokens


def bytes(num_sequences: int, num_heads: int, total_tokens: int, element_bytes: int) -> int:
    """Least traffic at device memory [bytes]: the latents of every token once, queries read, results written."""
    heads = num_sequences * num_heads * (2 * LATENT + ROTATED)
    return ((LATENT + ROTATED) * total_tokens + heads) * element_bytes


def make_inputs(
    num_heads: int,
    lengths: list[int],
    page: int,
    seed: int,
    device: torch.device,
    dtype: torch.dtype = torch.bfloat16,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, float]:
    """Return random queries, a cache of latents whose pages lie scattered, and DeepSeek-V3's softmax scale.

    Shapes: q [B, H, 576], pages [P, T, 576], block_table [B, pages], lengths [B].
    """
    draw = normal(seed, device, dtype)
    pages_per_sequence = int(triton.cdiv(max(lengths), page))
    num_pages = pages_per_sequence * len(lengths)
    generator = torch.Generator(device=device).manual_seed(seed)
    order = torch.randperm(num_pages, generator=generator, device=device).to(torch.int32)
    width = LATENT + ROTATED
    return (
        draw(len(lengths), num_heads, width) / 2,
        draw(num_pages, page, width),
        order.reshape(len(lengths), pages_per_sequence),
        torch.tensor(lengths, dtype=torch.int32, device=device),
        192**-0.5,
    )
