"""Kernels as operators of torch for use outside this program: `torch.ops.advisor.*`, traceable by torch.compile.

Importing this module registers the operators.
"""

import torch

from advisor.kernels import (
    attention_wgmma,
    causal_conv1d,
    decode_attention,
    fp4,
    fp8_block_gemm_wgmma,
    gated_delta,
    gemm,
    grouped_gemm,
    mla_decode,
    rms_norm,
    ssd_wgmma,
    w4a16_row,
    w8a8,
)


@torch.library.custom_op("advisor::gemm", mutates_args=())
def gemm_op(a: torch.Tensor, b: torch.Tensor, scale: torch.Tensor | None = None) -> torch.Tensor:
    """Compute A · Bᵀ · scale.

    Shapes: a [M, K], b [N, K], scale [1] or None -> [M, N].
    """
    return gemm.run(a, b, scale).contiguous()


@gemm_op.register_fake
def _(a: torch.Tensor, b: torch.Tensor, scale: torch.Tensor | None = None) -> torch.Tensor:
    dtype = torch.bfloat16 if a.element_size() == 1 else a.dtype
    return a.new_empty((a.shape[0], b.shape[0]), dtype=dtype)


@torch.library.custom_op("advisor::rms_norm", mutates_args=())
def rms_norm_op(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, epsilon: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute normalised rows and the new residual.

    Shapes: x [R, C], residual [R, C], weight [C] -> [R, C], [R, C].
    """
    return rms_norm.run(x, residual, weight, epsilon)


@rms_norm_op.register_fake
def _(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, epsilon: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(x), torch.empty_like(x)


@torch.library.custom_op("advisor::attention", mutates_args=())
def attention_op(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = True) -> torch.Tensor:
    """Compute attention of a whole prompt.

    Shapes: q [B, S, H, D], k [B, T, G, D], v [B, T, G, D] -> [B, S, H, D].
    """
    return attention_wgmma.fastest(q)(q, k, v, causal)


@attention_op.register_fake
def _(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = True) -> torch.Tensor:
    return torch.empty_like(q)


@torch.library.custom_op("advisor::decode_attention", mutates_args=())
def decode_attention_op(
    q: torch.Tensor,
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
    max_length: int,
) -> torch.Tensor:
    """Compute attention of one token per sequence over a paged cache.

    Shapes: q [B, H, D], pages [P, T, G, D], block_table [B, pages], lengths [B] -> [B, H, D].
    """
    return decode_attention.run(q, k_pages, v_pages, block_table, lengths, max_length)


@decode_attention_op.register_fake
def _(
    q: torch.Tensor,
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
    max_length: int,
) -> torch.Tensor:
    return torch.empty_like(q)


@torch.library.custom_op("advisor::grouped_gemm", mutates_args=())
def grouped_gemm_op(a: torch.Tensor, b: torch.Tensor, group_sizes: torch.Tensor) -> torch.Tensor:
    """Compute rows sorted by expert times each expert's weights.

    Shapes: a [R, K], b [E, N, K], group_sizes [E] -> [R, N].
    """
    return grouped_gemm.run(a, b, group_sizes)


@grouped_gemm_op.register_fake
def _(a: torch.Tensor, b: torch.Tensor, group_sizes: torch.Tensor) -> torch.Tensor:
    return a.new_empty((a.shape[0], b.shape[1]))


@torch.library.custom_op("advisor::w4a16", mutates_args=())
def w4a16_op(x: torch.Tensor, words: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Compute activations times packed 4-bit weights, with the fastest kernel that supports the sizes.

    Shapes: x [M, K], words [N, K / 8] int32, scale [K / 128, N] -> [M, N].
    """
    return w4a16_row.fastest(x, words.shape[0])(x, words, scale)


@w4a16_op.register_fake
def _(x: torch.Tensor, words: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return x.new_empty((x.shape[0], words.shape[0]))


@torch.library.custom_op("advisor::w8a8", mutates_args=())
def w8a8_op(a: torch.Tensor, a_scale: torch.Tensor, b: torch.Tensor, b_scale: torch.Tensor) -> torch.Tensor:
    """Compute the matmul of 8-bit integers with a scale per row, in bf16.

    Shapes: a [M, K] int8, a_scale [M], b [N, K] int8, b_scale [N] -> [M, N].
    """
    return w8a8.run(a, a_scale, b, b_scale).contiguous()


@w8a8_op.register_fake
def _(a: torch.Tensor, a_scale: torch.Tensor, b: torch.Tensor, b_scale: torch.Tensor) -> torch.Tensor:
    return a.new_empty((a.shape[0], b.shape[0]), dtype=torch.bfloat16)


@torch.library.custom_op("advisor::attention_packed", mutates_args=())
def attention_packed_op(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_starts: torch.Tensor,
    max_queries: int,
    causal: bool = True,
    window: int | None = None,
    soft_cap: float | None = None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """Compute attention of packed prompts, with window, soft cap and sinks.

    Shapes: q [S, H, D], k [S, G, D], v [S, G, D], q_starts [N + 1] int32, sinks [H] -> [S, H, D].
    """
    return attention_wgmma.fastest_packed(q)(
        q, k, v, q_starts, None, max_queries, causal=causal, window=window, soft_cap=soft_cap, sinks=sinks
    )


@attention_packed_op.register_fake
def _(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_starts: torch.Tensor,
    max_queries: int,
    causal: bool = True,
    window: int | None = None,
    soft_cap: float | None = None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    return torch.empty_like(q)


@torch.library.custom_op("advisor::mla_decode", mutates_args=())
def mla_decode_op(
    q: torch.Tensor,
    pages: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
    softmax_scale: float,
    max_length: int,
) -> torch.Tensor:
    """Compute the weighted latents of one token per sequence over a paged cache of latents.

    Shapes: q [B, H, 576], pages [P, T, 576], block_table [B, pages], lengths [B] -> [B, H, 512].
    """
    return mla_decode.run(q, pages, block_table, lengths, softmax_scale, max_length)


@mla_decode_op.register_fake
def _(
    q: torch.Tensor,
    pages: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
    softmax_scale: float,
    max_length: int,
) -> torch.Tensor:
    return q.new_empty((*q.shape[:2], mla_decode.LATENT))


@torch.library.custom_op("advisor::fp8_block_gemm", mutates_args=())
def fp8_block_gemm_op(
    a: torch.Tensor, a_scale: torch.Tensor, b: torch.Tensor, b_scale: torch.Tensor
) -> torch.Tensor:
    """Compute the matmul in fp8 with scales of blocks, in bf16.

    Shapes: a [M, K] fp8, a_scale [⌈K / 128⌉, M], b [N, K] fp8, b_scale [⌈N / 128⌉, ⌈K / 128⌉] -> [M, N].
    """
    run = fp8_block_gemm_wgmma.fastest(a, b.shape[0])
    return run(a, a_scale, b, b_scale).contiguous()


@fp8_block_gemm_op.register_fake
def _(a: torch.Tensor, a_scale: torch.Tensor, b: torch.Tensor, b_scale: torch.Tensor) -> torch.Tensor:
    return a.new_empty((a.shape[0], b.shape[0]), dtype=torch.bfloat16)


@torch.library.custom_op("advisor::grouped_gemm_fp8", mutates_args=())
def grouped_gemm_fp8_op(
    a: torch.Tensor,
    a_scale: torch.Tensor,
    b: torch.Tensor,
    b_scale: torch.Tensor,
    group_sizes: torch.Tensor,
) -> torch.Tensor:
    """Compute rows sorted by expert times each expert's weights, in fp8 with scales of blocks.

    Shapes: a [R, K] fp8, a_scale [⌈K / 128⌉, R], b [E, N, K] fp8, b_scale [E, ⌈N / 128⌉, ⌈K / 128⌉], group_sizes [E]
    -> [R, N].
    """
    run = fp8_block_gemm_wgmma.fastest_grouped(a, *b.shape[:2])
    return run(a, a_scale, b, b_scale, group_sizes)


@grouped_gemm_fp8_op.register_fake
def _(
    a: torch.Tensor,
    a_scale: torch.Tensor,
    b: torch.Tensor,
    b_scale: torch.Tensor,
    group_sizes: torch.Tensor,
) -> torch.Tensor:
    return a.new_empty((a.shape[0], b.shape[1]), dtype=torch.bfloat16)


@torch.library.custom_op("advisor::dequantize_mxfp4", mutates_args=())
def dequantize_mxfp4_op(codes: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Compute weights in bf16 from MXFP4.

    Shapes: codes [N, K / 2] uint8, scale [N, K / 32] uint8 -> [N, K].
    """
    return fp4.run("mxfp4", codes, scale)


@dequantize_mxfp4_op.register_fake
def _(codes: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return codes.new_empty((codes.shape[0], 2 * codes.shape[1]), dtype=torch.bfloat16)


@torch.library.custom_op("advisor::dequantize_nvfp4", mutates_args=())
def dequantize_nvfp4_op(codes: torch.Tensor, scale: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """Compute weights in bf16 from NVFP4.

    Shapes: codes [N, K / 2] uint8, scale [N, K / 16] fp8, factor [1] -> [N, K].
    """
    return fp4.run("nvfp4", codes, scale, factor)


@dequantize_nvfp4_op.register_fake
def _(codes: torch.Tensor, scale: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    return codes.new_empty((codes.shape[0], 2 * codes.shape[1]), dtype=torch.bfloat16)


@torch.library.custom_op("advisor::ssd", mutates_args=())
def ssd_op(
    x: torch.Tensor,
    delta: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    skip: torch.Tensor,
    start: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the Mamba-2 scan and its final states.

    Shapes: x [B, L, H, P], delta [B, L, H], a [H], b, c [B, L, G, N], skip [H], start [B, H, N, P]
    -> [B, L, H, P], [B, H, N, P] fp32.
    """
    return ssd_wgmma.fastest(x, b.shape[3])(x, delta, a, b, c, skip, start)


@ssd_op.register_fake
def _(
    x: torch.Tensor,
    delta: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    skip: torch.Tensor,
    start: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    shape = (x.shape[0], x.shape[2], b.shape[3], x.shape[3])
    return torch.empty_like(x), x.new_empty(shape, dtype=torch.float32)


@torch.library.custom_op("advisor::gated_delta", mutates_args=())
def gated_delta_op(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    start: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the gated delta rule and its final states.

    Shapes: q, k [B, L, H, K], v [B, L, H, V], g, beta [B, L, H], start [B, H, K, V] -> [B, L, H, V], [B, H, K, V] fp32.
    """
    return gated_delta.run(q, k, v, g, beta, start)


@gated_delta_op.register_fake
def _(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    start: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    shape = (q.shape[0], q.shape[2], q.shape[3], v.shape[3])
    return torch.empty_like(v), q.new_empty(shape, dtype=torch.float32)


@torch.library.custom_op("advisor::causal_conv1d", mutates_args=())
def causal_conv1d_op(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    before: torch.Tensor | None = None,
    silu: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the causal convolution and its last tokens.

    Shapes: x [B, L, D], weight [D, W], bias [D], before [B, W − 1, D] -> [B, L, D], [B, W − 1, D].
    """
    return causal_conv1d.run(x, weight, bias, before, silu)


@causal_conv1d_op.register_fake
def _(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    before: torch.Tensor | None = None,
    silu: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(x), x.new_empty((x.shape[0], weight.shape[1] - 1, x.shape[2]))
