"""Calls of other libraries' kernels on the operands of this project's, for `advisor kernel --against`.

Each library is imported when its kernel is first called, so a missing one fails there alone. Conversions that a model
does once, such as packing weights, happen before the first call and are not timed.
"""

from collections.abc import Callable
from typing import Any, Final

import torch

from advisor.kernels import w4a16

Multiply = Callable[[], torch.Tensor]
"""Call of a kernel that returns its result."""
_EPSILON: Final = 1e-6
_MARLIN_LOCKS: Final = 4096
"""Entries of Marlin's workspace [count]: vLLM allocates one to four per multiprocessor."""


def lazily(make: Callable[[], Multiply]) -> Multiply:
    """Return a call whose preparation runs at its first use, so that a peer that is missing fails there alone."""
    made: list[Multiply] = []

    def call() -> torch.Tensor:
        if not made:
            made.append(make())
        return made[0]()

    return call


def gradient(function: Callable[..., torch.Tensor], *operands: torch.Tensor, grad: torch.Tensor) -> Multiply:
    """Return the backward pass of a function by automatic differentiation, without its forward pass."""
    wanted = [x.detach().requires_grad_() for x in operands]
    result = function(*wanted)

    def call() -> torch.Tensor:
        return torch.autograd.grad(result, wanted, grad, retain_graph=True)[0]

    return call


def fa3_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, starts: torch.Tensor, longest: int, window: int = 0
) -> Multiply:
    """Return FlashAttention 3 of packed causal sequences; a window of 0 has no limit.

    Shapes: q [S, H, D], k [S, G, D], v [S, G, D], starts [N + 1] int32.
    """

    def make() -> Multiply:
        from vllm.vllm_flash_attn.flash_attn_interface import flash_attn_varlen_func

        limit = [window - 1, 0] if window else None

        def call() -> torch.Tensor:
            out: torch.Tensor = flash_attn_varlen_func(
                q, k, v, longest, starts, longest, starts, causal=True, window_size=limit, fa_version=3
            )
            return out

        return call

    return lazily(make)


def fa3_decode(
    q: torch.Tensor, k_pages: torch.Tensor, v_pages: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor
) -> Multiply:
    """Return FlashAttention 3 of one new token per sequence over a paged cache.

    Shapes: q [B, H, D], k_pages [P, T, G, D], v_pages [P, T, G, D], table [B, pages], lengths [B].
    """

    def make() -> Multiply:
        from vllm.vllm_flash_attn.flash_attn_interface import flash_attn_varlen_func

        starts = torch.arange(q.shape[0] + 1, dtype=torch.int32, device=q.device)
        longest = int(lengths.max())

        def call() -> torch.Tensor:
            out: torch.Tensor = flash_attn_varlen_func(
                q,
                k_pages,
                v_pages,
                1,
                starts,
                longest,
                seqused_k=lengths,
                block_table=table,
                causal=True,
                fa_version=3,
            )
            return out

        return call

    return lazily(make)


def marlin_product(x: torch.Tensor, words: torch.Tensor, scale: torch.Tensor) -> Multiply:
    """Return Marlin's product with the same four-bit weights and scales, repacked into its tiles.

    Shapes: x [M, K], words [N, K / 8] int32, scale [K / 128, N].
    """
    from vllm import _C  # noqa: F401  # registers the operators
    from vllm.scalar_type import scalar_types

    operators: Any = torch.ops._C
    depth = x.shape[1]
    columns = words.shape[0]
    # GPTQ's layout, which Marlin repacks: eight successive weights of one column in a word, the first lowest.
    shifts = 4 * torch.arange(8, device=x.device, dtype=torch.int32)
    eight = w4a16.unpack(words).T.reshape(depth // 8, 8, columns)
    gptq = (eight << shifts[None, :, None]).sum(dim=1, dtype=torch.int32)
    none = torch.empty(0, dtype=torch.int32, device=x.device)
    tiles = operators.gptq_marlin_repack(gptq, none, depth, columns, 4, False)
    # Columns of scales lie in the order in which a warp's threads hold the results of a tile.
    order = [i + 8 * j for i in range(8) for j in range(8)]
    scales = scale.reshape(-1, len(order))[:, order].reshape(-1, columns).contiguous()
    locks = torch.zeros(_MARLIN_LOCKS, dtype=torch.int32, device=x.device)

    def call() -> torch.Tensor:
        out: torch.Tensor = operators.marlin_gemm(
            x,
            None,
            tiles,
            None,
            scales,
            None,
            None,
            None,
            None,
            None,
            locks,
            scalar_types.uint4b8.id,
            x.shape[0],
            columns,
            depth,
            True,
            False,
            True,
            False,
        )
        return out

    return call


def deep_gemm_product(
    a: torch.Tensor, a_scale: torch.Tensor, b: torch.Tensor, b_scale: torch.Tensor
) -> Multiply:
    """Return DeepGEMM's fp8 product with scales of 1 × 128 and 128 × 128 blocks.

    Shapes: a [M, K] fp8, a_scale [⌈K / 128⌉, M], b [N, K] fp8, b_scale [⌈N / 128⌉, ⌈K / 128⌉].
    """

    def make() -> Multiply:
        from vllm.third_party import deep_gemm

        out = torch.empty((a.shape[0], b.shape[0]), dtype=torch.bfloat16, device=a.device)

        def call() -> torch.Tensor:
            deep_gemm.fp8_gemm_nt((a, a_scale.T), (b, b_scale), out)
            return out

        return call

    return lazily(make)


def liger_rms_norm(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> Multiply:
    """Return Liger's RMSNorm of a sum with the residual."""

    def make() -> Multiply:
        from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction

        def call() -> torch.Tensor:
            out: torch.Tensor = LigerFusedAddRMSNormFunction.apply(x, residual, weight, _EPSILON)[0]
            return out

        return call

    return lazily(make)


def liger_rms_norm_backward(
    total: torch.Tensor, weight: torch.Tensor, grad: torch.Tensor, through: torch.Tensor
) -> Multiply:
    """Return Liger's backward pass of RMSNorm with a residual, from the gradients of both results."""

    def make() -> Multiply:
        from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction

        wanted = [x.detach().requires_grad_() for x in (total, weight)]
        results = LigerFusedAddRMSNormFunction.apply(
            wanted[0], torch.zeros_like(total), wanted[1], _EPSILON, 0.0, "llama", False
        )
        return lambda: torch.autograd.grad(results, wanted, (grad, through), retain_graph=True)[0]

    return lazily(make)


def _liger_layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    from liger_kernel.ops.layer_norm import LigerLayerNormFunction

    out: torch.Tensor = LigerLayerNormFunction.apply(x, weight, bias, 1e-5)
    return out


def liger_layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> Multiply:
    """Return Liger's LayerNorm."""
    return lambda: _liger_layer_norm(x, weight, bias)


def liger_layer_norm_backward(x: torch.Tensor, weight: torch.Tensor, grad: torch.Tensor) -> Multiply:
    """Return Liger's backward pass of LayerNorm."""
    return lazily(lambda: gradient(_liger_layer_norm, x, weight, torch.zeros_like(weight), grad=grad))


def liger_softmax(x: torch.Tensor) -> Multiply:
    """Return Liger's softmax over rows."""

    def make() -> Multiply:
        from liger_kernel.ops.softmax import LigerSoftmaxFunction

        def call() -> torch.Tensor:
            out: torch.Tensor = LigerSoftmaxFunction.apply(x)
            return out

        return call

    return lazily(make)


def _liger_swiglu(x: torch.Tensor) -> torch.Tensor:
    from liger_kernel.ops.swiglu import LigerFusedGateUpSiLUMulFunction

    out: torch.Tensor = LigerFusedGateUpSiLUMulFunction.apply(x)
    return out


def liger_swiglu(x: torch.Tensor) -> Multiply:
    """Return Liger's SwiGLU of rows that hold gate and up."""
    return lambda: _liger_swiglu(x)


def liger_swiglu_backward(x: torch.Tensor, grad: torch.Tensor) -> Multiply:
    """Return Liger's backward pass of SwiGLU."""
    return lazily(lambda: gradient(_liger_swiglu, x, grad=grad))


def liger_rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, positions: torch.Tensor) -> Multiply:
    """Return Liger's rotary embedding, which turns a copy of the operand in place and one head of keys besides.

    Only the first call therefore returns the rotation of `x`.

    Shapes: x [T, H, D], cos [2 T, D / 2], sin [2 T, D / 2], positions [T].
    """

    def make() -> Multiply:
        from liger_kernel.ops.rope import rope_forward

        q = x.clone()[None].transpose(1, 2)
        k = q[:, :1].clone()
        both = [table[positions.long()].repeat(1, 2)[None].to(x.dtype) for table in (cos, sin)]

        def call() -> torch.Tensor:
            out: torch.Tensor = rope_forward(q, k, *both)[0]
            return out.transpose(1, 2)[0]

        return call

    return lazily(make)


def fla_gated_delta(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, beta: torch.Tensor
) -> Multiply:
    """Return the gated delta rule of flash-linear-attention, chunked.

    Shapes: q [B, L, H, K], k [B, L, H, K], v [B, L, H, V], g [B, L, H], beta [B, L, H].
    """

    def make() -> Multiply:
        from fla.ops.gated_delta_rule import chunk_gated_delta_rule

        def call() -> torch.Tensor:
            out: torch.Tensor = chunk_gated_delta_rule(q, k, v, g, beta, output_final_state=True)[0]
            return out

        return call

    return lazily(make)


def mamba_scan(
    x: torch.Tensor,
    delta: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    skip: torch.Tensor,
) -> Multiply:
    """Return mamba_ssm's chunked Mamba-2 scan, with chunks of the 256 tokens that its models set.

    Shapes: x [B, L, H, P], delta [B, L, H], a [H], b [B, L, G, N], c [B, L, G, N], skip [H].
    """

    def make() -> Multiply:
        from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined

        def call() -> torch.Tensor:
            out: torch.Tensor = mamba_chunk_scan_combined(
                x, delta, a, b, c, 256, D=skip, return_final_states=True
            )[0]
            return out

        return call

    return lazily(make)
