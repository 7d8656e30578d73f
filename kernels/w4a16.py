"""Linear layer with 4-bit weights and 16-bit activations, W4A16: one scale per group of 128 weights of a row.

weight = (q − 8) · scale, q in 0 … 15. Eight weights share a 32-bit word. Nibble p of the group's word j is weight
32 · (p mod 4) + 2 j + ⌊p / 4⌋: consecutive words meet consecutive activations, and the nibbles i and i + 4, which one
operation can extract together, are neighbours. Scales lie group by group, so that neighbouring rows share a sector.

Words lie in tiles: the 16 words of one group of 16 rows, row after row, then the same rows' next group. A tile is what
one warp multiplies at a time, so it reads one kilobyte in a piece. With whole rows one after the other a warp read 16
pieces of 64 bytes, and large products were 3 % slower on an H100.
"""

from typing import Final

import torch
import triton
import triton.language as tl

from advisor.kernels.backend import HALVES, INTERPRET, check_operands, dot

GROUP: Final = 128
TILE_ROWS: Final = 16
"""Number of rows of weights whose words of one group lie together."""
_WORDS_PER_WARP: Final = 128
"""Number of words per warp: four per thread, so that the words and their activations belong to equal threads."""
_WEIGHTS_PER_WORD = tl.constexpr(8)
_WORDS_PER_GROUP = tl.constexpr(16)
_ROWS = tl.constexpr(TILE_ROWS)
_ZERO_POINT = tl.constexpr(8)
_ONE_BITS: Final = 0x3F800000
_HIGH_SLOT = tl.constexpr(0x000F0000)
_LOW_SLOT = tl.constexpr(0x0000F000)
LARGEST_VECTOR_M: Final = 1
"""Largest number of rows for which the vector units are used; above, the matrix units."""


@triton.jit
def _slot_as_float(words, one_bits, SLOT: tl.constexpr):
    """Return 1 + q · 2⁻⁷ (high slot) or 1 + q · 2⁻¹¹ (low slot): the four bits become part of a float's mantissa.

    One logic operation replaces a conversion, whose units would be slower than the memory. The operation takes a single
    constant, so the other (the bits of 1.0) comes as an argument.
    """
    return ((words & SLOT) | one_bits).to(tl.float32, bitcast=True)


@triton.jit
def _load_x(x_row, first, num_weights, PAIR: tl.constexpr, BLOCK_W: tl.constexpr):
    """Load the activations of nibbles PAIR and PAIR + 4 of every word, as two rows."""
    place = 2 * first + tl.arange(0, 2 * BLOCK_W)[None, :]
    offsets = (place // 32) * 128 + place % 32 + 32 * PAIR
    x = tl.load(x_row + offsets, mask=offsets < num_weights, other=0.0).to(tl.float32)
    return tl.split(tl.reshape(x, (1, BLOCK_W, 2)))


@triton.jit
def _rows_of_words(w_ptr, rows, words_per_row):
    """Return where the words of some rows begin."""
    return w_ptr + (rows // _ROWS).to(tl.int64) * _ROWS * words_per_row + rows % _ROWS * _WORDS_PER_GROUP


@triton.jit
def _places_of_words(index):
    """Return how far the words of a row lie behind its first one."""
    return index // _WORDS_PER_GROUP * (_ROWS * _WORDS_PER_GROUP) + index % _WORDS_PER_GROUP


@triton.jit
def _load_words(w_rows, is_row, index, words_per_row):
    mask = is_row[:, None] & (index < words_per_row)
    return tl.load(w_rows + _places_of_words(index), mask=mask, other=0).to(tl.uint32, bitcast=True)


@triton.jit
def _sum_quads(x):
    """Return the sums of four neighbours along the row, all of one thread and of one group."""
    return tl.sum(tl.reshape(x, (x.shape[0], x.shape[1] // 4, 4)), axis=2)


@triton.jit
def _vector_kernel(
    x_ptr, w_ptr, scale_ptr, out_ptr, N, words_per_row, one_bits, BLOCK_N: tl.constexpr, BLOCK_W: tl.constexpr
):
    """Multiply one row of activations: each program takes BLOCK_N rows of weights and reads each word once."""
    num_weights = words_per_row * _WEIGHTS_PER_WORD
    x_row = x_ptr + tl.program_id(1) * num_weights
    rows = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    is_row = rows < N
    groups_per_row = words_per_row // _WORDS_PER_GROUP
    w_rows = _rows_of_words(w_ptr, rows, words_per_row)[:, None]
    scale_rows = scale_ptr + rows[:, None]
    # Activations are loaded as one row of the words' block, so that equal threads hold both without an exchange.
    words = tl.arange(0, BLOCK_W)[None, :]
    quads = 4 * tl.arange(0, BLOCK_W // 4)[None, :]
    acc = tl.zeros((BLOCK_N, BLOCK_W // 4), tl.float32)
    ahead = _load_words(w_rows, is_row, words, words_per_row)
    for first in tl.range(0, words_per_row, BLOCK_W):
        w = ahead
        ahead = _load_words(w_rows, is_row, first + BLOCK_W + words, words_per_row)
        group = (first + quads) // _WORDS_PER_GROUP
        scale = tl.load(scale_rows + group * N, mask=is_row[:, None] & (group < groups_per_row), other=0.0)
        # Bits 16–19 and 12–15 are the slots; three shifts bring the other three pairs of nibbles there.
        x0, x4 = _load_x(x_row, first, num_weights, 0, BLOCK_W)
        x1, x5 = _load_x(x_row, first, num_weights, 1, BLOCK_W)
        x2, x6 = _load_x(x_row, first, num_weights, 2, BLOCK_W)
        x3, x7 = _load_x(x_row, first, num_weights, 3, BLOCK_W)
        high = _slot_as_float(w, one_bits, _HIGH_SLOT) * x4
        low = _slot_as_float(w, one_bits, _LOW_SLOT) * x3
        high += _slot_as_float(w << 8, one_bits, _HIGH_SLOT) * x2
        low += _slot_as_float(w << 8, one_bits, _LOW_SLOT) * x1
        high += _slot_as_float(w >> 8, one_bits, _HIGH_SLOT) * x6
        low += _slot_as_float(w >> 8, one_bits, _LOW_SLOT) * x5
        turned = (w << 16) | (w >> 16)
        high += _slot_as_float(turned, one_bits, _HIGH_SLOT) * x0
        low += _slot_as_float(turned, one_bits, _LOW_SLOT) * x7
        high_x = x0 + x2 + x4 + x6
        low_x = x1 + x3 + x5 + x7
        # Σ (q − 8) x, with q = (slot − 1) · 2⁷ or · 2¹¹
        correction = (128 + _ZERO_POINT) * _sum_quads(high_x) + (2048 + _ZERO_POINT) * _sum_quads(low_x)
        acc += (128.0 * _sum_quads(high) + 2048.0 * _sum_quads(low) - correction) * scale.to(tl.float32)
    tl.store(out_ptr + tl.program_id(1) * N + rows, tl.sum(acc, axis=1), mask=is_row)


@triton.jit
def _matrix_kernel(
    x_ptr,
    w_ptr,
    scale_ptr,
    out_ptr,
    M,
    N,
    words_per_row,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_W: tl.constexpr,
):
    """Multiply several rows of activations: weights become 16-bit numbers in registers and go to the matrix units."""
    rows = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = words_per_row * _WEIGHTS_PER_WORD
    w_rows = _rows_of_words(w_ptr, columns, words_per_row)[:, None]
    scale_rows = scale_ptr + columns[:, None]
    acc = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    for first in tl.range(0, words_per_row, BLOCK_W):
        index = first + tl.arange(0, BLOCK_W)
        inside = index < words_per_row
        w_mask = (columns[:, None] < N) & inside[None, :]
        w = tl.load(w_rows + _places_of_words(index)[None, :], mask=w_mask, other=0)
        scale = tl.load(scale_rows + (index // _WORDS_PER_GROUP)[None, :] * N, mask=w_mask, other=0.0)
        scale = scale.to(tl.float32)
        base = (index // _WORDS_PER_GROUP) * 128 + 2 * (index % _WORDS_PER_GROUP)
        x_mask = (rows[None, :] < M) & inside[:, None]
        for nibble in tl.static_range(8):
            x_offsets = rows[None, :] * k + base[:, None] + (32 * (nibble % 4) + nibble // 4)
            x = tl.load(x_ptr + x_offsets, mask=x_mask, other=0.0)
            q = ((w >> (4 * nibble)) & 15) - _ZERO_POINT
            acc = dot((q.to(tl.float32) * scale).to(x.dtype), x, acc)
    out = out_ptr + rows[None, :] * N + columns[:, None]
    tl.store(out, acc, mask=(rows[None, :] < M) & (columns[:, None] < N))


def _turn(words: torch.Tensor, rows: int, groups: int) -> torch.Tensor:
    """Return words of tiles with rows and groups in the other order; `rows` and `groups` are the sizes after it."""
    return words.reshape(-1, rows, groups, 16).transpose(1, 2).reshape(words.shape)


def pack(q: torch.Tensor) -> torch.Tensor:
    """Return four-bit numbers packed in the order that the kernels read.

    Shapes: q [N, K] int in 0 … 15, N a multiple of 16 -> [N, K / 8] int32.
    """
    # weight 32 i + 2 j + e of a group -> word j, nibble i + 4 e
    nibbles = q.reshape(q.shape[0], -1, 4, 16, 2).permute(0, 1, 3, 4, 2).reshape(q.shape[0], -1, 8)
    shifts = 4 * torch.arange(8, device=q.device)
    words = (nibbles.to(torch.int64) << shifts).sum(dim=2)
    words = torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)
    return _turn(words, TILE_ROWS, q.shape[1] // GROUP)


def unpack(words: torch.Tensor) -> torch.Tensor:
    """Return the four-bit numbers in the order of the weights.

    Shapes: words [N, K / 8] int32 -> [N, K] int32.
    """
    shifts = 4 * torch.arange(8, device=words.device, dtype=torch.int32)
    nibbles = (_turn(words, words.shape[1] // 16, TILE_ROWS)[:, :, None] >> shifts) & 15
    groups = nibbles.reshape(words.shape[0], -1, 16, 2, 4).permute(0, 1, 4, 2, 3)
    return groups.reshape(words.shape[0], -1)


def reference(x: torch.Tensor, words: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Return the product with the dequantised weights, in fp32.

    Shapes: x [M, K], words [N, K / 8] int32, scale [K / 128, N] -> [M, N].
    """
    weights = (unpack(words) - 8).float() * scale.float().T.repeat_interleave(GROUP, dim=1)
    return x.float() @ weights.T


def check_sizes(
    x: torch.Tensor, words: torch.Tensor, scale: torch.Tensor, out: torch.Tensor | None = None
) -> None:
    """Refuse operands that do not fit together.

    Raises: ValueError: K is not a multiple of 128 or N of 16, the sizes differ or an operand has gaps.
    """
    k = x.shape[1]
    n = words.shape[0]
    if k % GROUP or n % TILE_ROWS or words.shape[1] * 8 != k or scale.shape != (k // GROUP, n):
        raise ValueError(f"x {tuple(x.shape)}, words {tuple(words.shape)}, scale {tuple(scale.shape)}")
    check_operands((*HALVES, torch.int32), x=x, words=words, scale=scale, out=(out, (x.shape[0], n)))


def run(
    x: torch.Tensor,
    words: torch.Tensor,
    scale: torch.Tensor,
    out: torch.Tensor | None = None,
    block_n: int = 4,
    num_warps: int = 4,
) -> torch.Tensor:
    """Compute activations times packed weights.

    Shapes: x [M, K] bf16 or fp16, words [N, K / 8] int32, scale [K / 128, N], all contiguous -> [M, N].
    Raises: ValueError: K is not a multiple of 128 or N of 16, or the sizes differ.
    """
    check_sizes(x, words, scale, out)
    m = x.shape[0]
    n, words_per_row = words.shape
    out = x.new_empty((m, n)) if out is None else out
    if m <= LARGEST_VECTOR_M:
        _vector_kernel[(triton.cdiv(n, block_n), m)](
            x,
            words,
            scale,
            out,
            n,
            words_per_row,
            _ONE_BITS,
            BLOCK_N=block_n,
            BLOCK_W=_WORDS_PER_WARP * num_warps,
            num_warps=num_warps,
        )
        return out
    block_m = 16 if INTERPRET else min(64, max(16, triton.next_power_of_2(m)))
    _matrix_kernel[(triton.cdiv(n, 64), triton.cdiv(m, block_m))](
        x,
        words,
        scale,
        out,
        m,
        n,
        words_per_row,
        BLOCK_M=block_m,
        BLOCK_N=64,
        BLOCK_W=32,
        num_warps=4,
        num_stages=3,
    )
    return out


def flop(m: int, n: int, k: int) -> int:
    """Multiplications and additions [flop]: 2 · m · n · k."""
    return 2 * m * n * k


def weight_bytes(n: int, k: int, scale_bytes: int = 2) -> int:
    """Size of stored weights and scales [bytes]."""
    return n * k // 2 + n * (k // GROUP) * scale_bytes


def bytes(m: int, n: int, k: int, element_bytes: int = 2) -> int:
    """Least traffic at device memory [bytes]: weights, scales, activations and results once."""
    return weight_bytes(n, k, element_bytes) + m * (n + k) * element_bytes


def make_inputs(
    m: int, n: int, k: int, seed: int, device: torch.device, dtype: torch.dtype = torch.bfloat16
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return random activations, words and scales.

    Shapes: x [m, k], words [n, k / 8] int32, scale [k / 128, n].
    """
    generator = torch.Generator(device=device).manual_seed(seed)
    x = torch.randn((m, k), generator=generator, device=device, dtype=dtype)
    q = torch.randint(0, 16, (n, k), generator=generator, device=device, dtype=torch.int8)
    scale = torch.rand((k // GROUP, n), generator=generator, device=device) / (4 * k**0.5) + 0.01 / k**0.5
    return x, pack(q), scale.to(dtype)
