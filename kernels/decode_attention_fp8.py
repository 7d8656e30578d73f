"""Decode attention over a cache in fp8 on NVIDIA's matrix units, with layouts chosen by hand (Gluon): the twin of
`decode_attention`.

A program is one warp, so no thread waits for another warp. Each thread loads the bytes of its own fragments of the
matrix instruction, so that a byte passes neither shared memory nor another thread on its way to the matrix unit. Keys
and values are the left operands of two products, and queries the right one, where 8 query heads fill an instruction:

scores [tokens, heads] = keys [tokens, D] · queriesᵀ [D, heads]

resultᵀ [D, heads] = valuesᵀ [D, tokens] · weights [tokens, heads]

A product does not depend on the order of its inner dimension, and the rows of a result may come in any order. So a
thread takes 16 neighbouring bytes of a key as its elements of four instructions, and the queries follow that order.
From two neighbouring tokens' values it takes D / 8 neighbouring bytes, whose rows of the result are put in order when
they are stored. One instruction turns a pair of fp8 numbers into a pair of fp16, exactly; bf16 would take three.

Letters of shapes: see `decode_attention`.
"""

from collections.abc import Callable
from typing import Final

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import mma_v2

from advisor.kernels import decode_attention
from advisor.kernels.attention import LOG2_E
from advisor.kernels.backend import EIGHT_BITS, INTERPRET, has_fp8, num_sms
from advisor.kernels.decode_attention import Config, merge_kernel

_MASKED = gl.constexpr(-1e30)
_SMALLEST = gl.constexpr(1e-30)
LARGEST_RESULT: Final = 2048
"""Largest number of elements of a key-value head's result, query heads times head size: they take registers."""
HEAD_DIMS: Final = (64, 128, 256)
_LONG_STEP: Final = 32
_SHORT_STEP: Final = 16
"""Numbers of tokens of a step, which lies in one page: short steps for pages that hold no whole number of long ones."""
_SMALL_RESULT: Final = 1024
"""Largest result that 12 programs of 168 registers hold at once, and 16 of 128 with short steps; a larger one takes 8
programs of 255. 32 sequences of 4096 tokens with 8 key-value heads of 128 need 71 us on an H200 with 12 programs and 73
with 8 for 4 query heads of each, 98 and 85 us for 16."""
_REGISTERS_OF_SM: Final = 65536
_MOST_REGISTERS: Final = 255
_LEAST_ROWS: Final = 8
"""Number of columns of the matrix instruction: fewer query heads are padded to it."""
_KEYS = gl.constexpr(
    """{
    .reg .b16 p<2>;
    .reg .b32 a<2>;
    mov.b32 {p0, p1}, $4;
    cvt.rn.f16x2.FORMATx2 a0, p0;
    cvt.rn.f16x2.FORMATx2 a1, p1;
    mov.b32 {$0, $1}, a0;
    mov.b32 {$2, $3}, a1;
    }"""
)
"""The four numbers of a word."""
_VALUES = gl.constexpr(
    """{
    .reg .b16 p<4>;
    .reg .b32 a<4>;
    prmt.b32 a0, $8, $9, 0x5140;
    prmt.b32 a1, $8, $9, 0x7362;
    mov.b32 {p0, p1}, a0;
    mov.b32 {p2, p3}, a1;
    cvt.rn.f16x2.FORMATx2 a0, p0;
    cvt.rn.f16x2.FORMATx2 a1, p1;
    cvt.rn.f16x2.FORMATx2 a2, p2;
    cvt.rn.f16x2.FORMATx2 a3, p3;
    mov.b32 {$0, $1}, a0;
    mov.b32 {$2, $3}, a1;
    mov.b32 {$4, $5}, a2;
    mov.b32 {$6, $7}, a3;
    }"""
)
"""The numbers of two words by place: a token's and its neighbour's."""


@gluon.constexpr_function
def _with_format(code, is_e5m2):
    """Return the code with the name of the cache's format."""
    return code.replace("FORMAT", "e5m2" if is_e5m2 else "e4m3")


@gluon.constexpr_function
def _doublings(first, end):
    """Return first, 2 · first, ... below end."""
    return [first << bit for bit in range((end // first).bit_length() - 1)]


@gluon.constexpr_function
def _keys_layout(step, words):
    """Return the layout that gives a thread four neighbouring words, every sixteenth, of tokens g, g + 8, ..."""
    return gl.DistributedLinearLayout(
        reg_bases=[
            [0, 1],
            [0, 2],
            *([0, far] for far in _doublings(16, words)),
            *([far, 0] for far in _doublings(8, step)),
        ],
        lane_bases=[[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]],
        warp_bases=[],
        block_bases=[],
        shape=[step, words],
    )


@gluon.constexpr_function
def _values_layout(step, words):
    """Return the layout that gives a thread an eighth of the words of tokens 2c, 2c + 1, 2c + 8, 2c + 9, ..."""
    own = words // 8
    return gl.DistributedLinearLayout(
        reg_bases=[
            *([0, near] for near in _doublings(1, own)),
            [1, 0],
            *([far, 0] for far in _doublings(8, step)),
        ],
        lane_bases=[[2, 0], [4, 0], [0, own], [0, 2 * own], [0, 4 * own]],
        warp_bases=[],
        block_bases=[],
        shape=[step, words],
    )


@gluon.jit
def _in_order(x):
    """Return columns in the order in which the first product sums: a thread's words h, w, then its pairs, then c."""
    hcwpe = gl.reshape(x, [x.shape[0], x.shape[1] // 64, 4, 4, 2, 2])
    return gl.reshape(gl.permute(hcwpe, [0, 1, 3, 4, 2, 5]), [x.shape[0], x.shape[1]])


@gluon.jit
def _key_fragment(words, IS_E5M2: gl.constexpr, layout: gl.constexpr):
    """Return keys [tokens, D] in fp16 from their words [tokens, D / 4]."""
    x0, x1, x2, x3 = gl.inline_asm_elementwise(
        _with_format(_KEYS, IS_E5M2), "=h,=h,=h,=h,r", [words], dtype=(gl.float16,) * 4, is_pure=True, pack=1
    )
    fours = gl.join(gl.join(x0, x2), gl.join(x1, x3))
    keys = gl.reshape(fours, [words.shape[0], words.shape[1] * 4])
    return gl.convert_layout(_in_order(keys), layout)


@gluon.jit
def _value_fragment(words, IS_E5M2: gl.constexpr, layout: gl.constexpr):
    """Return values transposed [D, tokens] in fp16 from their words [tokens, D / 4]; row 8 · i + g is column
    g · D / 8 + i."""
    tokens: gl.constexpr = words.shape[0]
    own: gl.constexpr = words.shape[1] // 8
    pairs = gl.permute(gl.reshape(words, [tokens // 2, 2, words.shape[1]]), [0, 2, 1])
    even, odd = gl.split(pairs)
    a0, b0, a1, b1, a2, b2, a3, b3 = gl.inline_asm_elementwise(
        _with_format(_VALUES, IS_E5M2),
        "=h,=h,=h,=h,=h,=h,=h,=h,r,r",
        [even, odd],
        dtype=(gl.float16,) * 8,
        is_pure=True,
        pack=1,
    )
    first = gl.join(gl.join(a0, b0), gl.join(a2, b2))
    second = gl.join(gl.join(a1, b1), gl.join(a3, b3))
    ngwti = gl.reshape(gl.join(first, second), [tokens // 2, 8, own, 2, 4])
    return gl.convert_layout(gl.reshape(gl.permute(ngwti, [2, 4, 1, 0, 3]), [own * 32, tokens]), layout)


@gluon.jit
def _own_share(length, part, num_parts, STEP: gl.constexpr):
    """Return the first token of a part of a sequence and the end of it, in whole steps but for the last part."""
    share = gl.cdiv(gl.cdiv(length, STEP), num_parts) * STEP
    begin = part * share
    return begin, min(length, begin + share)


@gluon.jit
def _find_page(table_ptr, first, last_step, PAGE: gl.constexpr):
    """Return the first token of a step, and its page. Beyond the end, the last step is loaded again and not used."""
    first = min(first, last_step)
    return first, gl.load(table_ptr + first // PAGE)


@gluon.jit
def _load_words(
    ptr,
    page,
    first,
    last,
    kv_head,
    layout: gl.constexpr,
    STEP: gl.constexpr,
    WORDS: gl.constexpr,
    PAGE: gl.constexpr,
    HEADS: gl.constexpr,
):
    """Load the words of a step's tokens of one head; tokens beyond the last stand for the last one.

    A step lies in one page.
    """
    steps = gl.arange(0, STEP, layout=gl.SliceLayout(1, layout))
    words = gl.arange(0, WORDS, layout=gl.SliceLayout(0, layout))
    place = ((page.to(gl.int64) * PAGE + first % PAGE) * HEADS + kv_head) * WORDS
    rows = gl.minimum(steps, last - first) * (HEADS * WORDS)
    return gl.load(ptr + place + (rows[:, None] + words[None, :]))


@gluon.jit
def _load_queries(ptr, first_head, heads, columns, QUERIES_PER_KV: gl.constexpr, layout: gl.constexpr):
    """Load queries of one key-value head as the right operand [D, heads], in fp16, with what they are divided by
    [heads].

    Divided by a power of two that brings them to 1 to 2, queries fit fp16 without loss.
    """
    places = (first_head + heads)[:, None] * columns.shape[0] + columns[None, :]
    q = gl.load(ptr + places, mask=(heads < QUERIES_PER_KV)[:, None], other=0.0).to(gl.float32)
    size = gl.exp2(gl.floor(gl.log2(gl.maximum(gl.max(gl.abs(q), axis=1), _SMALLEST))))
    q = gl.permute(_in_order((q / size[:, None]).to(gl.float16)), [1, 0])
    return gl.convert_layout(q, layout), size


@gluon.jit
def _add_weights(scores, top, total):
    """Return softmax's weights of further scores, the factor of what was summed before, and the new maxima and sums."""
    higher = gl.maximum(top, gl.max(scores, axis=0))
    weights = gl.exp2(scores - higher[None, :])
    scale = gl.exp2(top - higher)
    return weights, scale, higher, total * scale + gl.sum(weights, axis=0)


@gluon.jit
def _by_head(result, layout: gl.constexpr):
    """Return a result [D, heads], whose row 8 · i + g is column g · D / 8 + i, as [heads, D].

    Shared memory brings neighbours together for the store.
    """
    head_dim: gl.constexpr = result.shape[0]
    heads: gl.constexpr = result.shape[1]
    ordered = gl.permute(gl.reshape(result, [head_dim // 8, 8, heads]), [2, 1, 0])
    return gl.convert_layout(gl.reshape(ordered, [heads, head_dim]), layout)


@gluon.jit
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
    NUM_KV_HEADS: gl.constexpr,
    QUERIES_PER_KV: gl.constexpr,
    ROWS: gl.constexpr,
    PAGE: gl.constexpr,
    STEP: gl.constexpr,
    HEAD_DIM: gl.constexpr,
    IS_E5M2: gl.constexpr,
    num_warps: gl.constexpr,
):
    WORDS: gl.constexpr = HEAD_DIM // 4
    layout: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [1, 1], [16, 8])
    left: gl.constexpr = gl.DotOperandLayout(0, layout, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, layout, 2)
    k_layout: gl.constexpr = _keys_layout(STEP, WORDS)
    v_layout: gl.constexpr = _values_layout(STEP, WORDS)
    q_layout: gl.constexpr = gl.BlockedLayout([1, HEAD_DIM // 32], [1, 32], [1, 1], [1, 0])
    kv_head = gl.program_id(0)
    part = gl.program_id(1)
    num_parts = gl.num_programs(1)
    sequence = gl.program_id(2)
    length = gl.load(lengths_ptr + sequence)
    last = length - 1
    last_step = last // STEP * STEP
    begin, end = _own_share(length, part, num_parts, STEP)
    table_ptr += sequence * max_pages
    ahead, page = _find_page(table_ptr, begin, last_step, PAGE)
    k = _load_words(k_ptr, page, ahead, last, kv_head, k_layout, STEP, WORDS, PAGE, NUM_KV_HEADS)
    v = _load_words(v_ptr, page, ahead, last, kv_head, v_layout, STEP, WORDS, PAGE, NUM_KV_HEADS)
    ahead, page = _find_page(table_ptr, begin + STEP, last_step, PAGE)

    first_head = (sequence * NUM_KV_HEADS + kv_head) * QUERIES_PER_KV
    q_rows = gl.arange(0, ROWS, layout=gl.SliceLayout(1, q_layout))
    q_columns = gl.arange(0, HEAD_DIM, layout=gl.SliceLayout(0, q_layout))
    q, size = _load_queries(q_ptr, first_head, q_rows, q_columns, QUERIES_PER_KV, right)
    score_scale = gl.convert_layout(size, gl.SliceLayout(0, layout))
    score_scale = score_scale * (softmax_scale * gl.load(k_scale_ptr + kv_head))

    acc = gl.zeros([HEAD_DIM, ROWS], gl.float32, layout)
    top = gl.full([ROWS], _MASKED, gl.float32, gl.SliceLayout(0, layout))
    total = gl.zeros([ROWS], gl.float32, gl.SliceLayout(0, layout))
    score_steps = gl.arange(0, STEP, layout=gl.SliceLayout(1, layout))
    for first in range(begin, end, STEP):
        scores = mma_v2(_key_fragment(k, IS_E5M2, left), q, gl.zeros([STEP, ROWS], gl.float32, layout))
        # The next keys are loaded under the weights, the next values under the next scores.
        k = _load_words(k_ptr, page, ahead, last, kv_head, k_layout, STEP, WORDS, PAGE, NUM_KV_HEADS)
        scores = gl.where((score_steps < end - first)[:, None], scores * score_scale[None, :], _MASKED)
        weights, scale, top, total = _add_weights(scores, top, total)
        weights = gl.convert_layout(weights.to(gl.float16), right)
        acc = mma_v2(_value_fragment(v, IS_E5M2, left), weights, acc * scale[None, :])
        v = _load_words(v_ptr, page, ahead, last, kv_head, v_layout, STEP, WORDS, PAGE, NUM_KV_HEADS)
        ahead, page = _find_page(table_ptr, first + 2 * STEP, last_step, PAGE)

    result = _by_head(acc * gl.load(v_scale_ptr + kv_head), q_layout)
    q_slots = (first_head + q_rows).to(gl.int64) * num_parts + part
    part_places = q_slots[:, None] * HEAD_DIM + q_columns[None, :]
    gl.store(part_ptr + part_places, result, mask=(q_rows < QUERIES_PER_KV)[:, None])
    heads = gl.arange(0, ROWS, layout=gl.SliceLayout(0, layout))
    slots = (first_head + heads).to(gl.int64) * num_parts + part
    is_head = heads < QUERIES_PER_KV
    gl.store(top_ptr + slots, top, mask=is_head)
    gl.store(total_ptr + slots, total, mask=is_head)


def _num_rows(q: torch.Tensor, k_pages: torch.Tensor) -> int:
    """Number of query heads of a key-value head, padded to what the matrix instruction takes [count]."""
    return max(_LEAST_ROWS, triton.next_power_of_2(q.shape[1] // k_pages.shape[2]))


def _takes(q: torch.Tensor, k_pages: torch.Tensor) -> bool:
    """Whether the kernel is made for these sizes and this format of the cache."""
    is_size = q.shape[2] in HEAD_DIMS and _num_rows(q, k_pages) * q.shape[2] <= LARGEST_RESULT
    return is_size and k_pages.shape[1] % _SHORT_STEP == 0 and k_pages.dtype in EIGHT_BITS


def is_supported(q: torch.Tensor, k_pages: torch.Tensor) -> bool:
    """Whether this kernel runs: on NVIDIA with fp8, for a cache in fp8 with pages of a multiple of 16 tokens, head size
    64, 128 or 256, and up to 32, 16 or 8 query heads of a key-value head."""
    return not INTERPRET and q.device.type == "cuda" and has_fp8(q.device) and _takes(q, k_pages)


def choose_config(rows: int, head_dim: int, page: int) -> Config:
    """Return the configuration that takes the least time for `rows` query heads of a key-value head."""
    is_long = page % _LONG_STEP == 0
    small_result = 12 if is_long else 16
    return Config(
        block_n=_LONG_STEP if is_long else _SHORT_STEP,
        num_warps=1,
        num_stages=1,
        programs_per_sm=small_result if rows * head_dim <= _SMALL_RESULT else 8,
    )


def fastest(q: torch.Tensor, k_pages: torch.Tensor) -> Callable[..., torch.Tensor]:
    """Return the launch function that takes the least time for these queries and this cache."""
    return run if is_supported(q, k_pages) else decode_attention.run


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

    Shapes and errors: those of `decode_attention.run` with a cache in fp8, for the sizes of `is_supported`.
    """
    decode_attention.check_sizes(q, k_pages, v_pages, block_table, lengths, out, scales)
    num_sequences, num_heads, head_dim = q.shape
    page, num_kv_heads = k_pages.shape[1:3]
    queries_per_kv = num_heads // num_kv_heads
    if scales is None or not _takes(q, k_pages):
        raise ValueError(
            f"the kernel takes a cache in fp8, pages of a multiple of {_SHORT_STEP} tokens, head sizes {HEAD_DIMS} and "
            f"{LARGEST_RESULT} elements of a key-value head's result, not q {tuple(q.shape)} and pages "
            f"{tuple(k_pages.shape)} of {k_pages.dtype}"
        )
    rows = _num_rows(q, k_pages)
    config = config or choose_config(rows, head_dim, page)
    max_length = max_length or block_table.shape[1] * page
    sms = num_sms(q.device.index or 0)
    parts = decode_attention.choose_parts(num_sequences, num_kv_heads, max_length, config, sms)
    out = torch.empty_like(q) if out is None else out
    partial = q.new_empty((num_sequences, num_heads, parts, head_dim), dtype=torch.float32)
    tops = q.new_empty((num_sequences, num_heads, parts), dtype=torch.float32)
    totals = torch.empty_like(tops)
    _part_kernel[(num_kv_heads, parts, num_sequences)](
        q,
        k_pages.view(torch.int32),
        v_pages.view(torch.int32),
        block_table,
        lengths,
        *scales,
        partial,
        tops,
        totals,
        block_table.shape[1],
        LOG2_E / head_dim**0.5,
        NUM_KV_HEADS=num_kv_heads,
        QUERIES_PER_KV=queries_per_kv,
        ROWS=rows,
        PAGE=page,
        STEP=config.block_n,
        HEAD_DIM=head_dim,
        IS_E5M2=k_pages.dtype == torch.float8_e5m2,
        num_warps=config.num_warps,
        maxnreg=min(_MOST_REGISTERS, _REGISTERS_OF_SM // (32 * config.programs_per_sm) // 8 * 8),
    )
    merge_kernel[(num_sequences * num_heads,)](
        partial, tops, totals, out, parts, PARTS=triton.next_power_of_2(parts), HEAD_DIM=head_dim, num_warps=4
    )
    return out
