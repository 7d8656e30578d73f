"""Kernels as operators of torch for use outside this program: `torch.ops.advisor.*`, traceable by torch.compile.

Importing this module registers the operators.
"""

import torch

from advisor.kernels import attention_wgmma, decode_attention, gemm, grouped_gemm, rms_norm, w4a16_row, w8a8


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
