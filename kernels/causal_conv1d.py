"""Causal convolution over the tokens of each channel, with SiLU: the short filter before the scans of Mamba.

y[t] = SiLU(bias + Σ_w weight[w] · x[t − W + 1 + w]); tokens before the first are those that an earlier call handed
over, or zeros. The last W − 1 tokens are the state for the next call.

Tiled: a program takes some tokens of a block of channels. Their rows, and the W − 1 before, are loaded at once into
registers, where each serves W results. Only the W − 1 rows before are read twice, the second time out of the L2.

Letters of shapes: B sequences, L tokens, D channels, W taps.
"""

from typing import Final

import torch
import triton
import triton.language as tl

from advisor.kernels.backend import INTERPRET, check_operands, normal

_TOKENS: Final = 8 if INTERPRET else 14
"""Number of tokens of a program. 8 and 16 take 2 and 3 % longer on an H200, 24 take 39 %: they fill the registers."""
_CHANNELS: Final = 16 if INTERPRET else 256
_NUM_WARPS: Final = 2
MOST_TAPS: Final = 8
_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _conv_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    before_ptr,
    y_ptr,
    num_tokens,
    num_channels,
    TAPS: tl.constexpr,
    HAS_BEFORE: tl.constexpr,
    SILU: tl.constexpr,
    TOKENS: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    sequence = tl.program_id(2).to(tl.int64)
    first = tl.program_id(1) * TOKENS
    channels = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    is_channel = channels < num_channels
    start = sequence * num_tokens * num_channels
    rows = ()
    for i in tl.static_range(TOKENS + TAPS - 1):
        source = first + i - (TAPS - 1)
        mask = is_channel & (source < num_tokens)
        if i < TAPS - 1:
            mask = mask & (source >= 0)
        row = tl.load(x_ptr + start + source.to(tl.int64) * num_channels + channels, mask=mask, other=0.0)
        if HAS_BEFORE and i < TAPS - 1:
            early = sequence * (TAPS - 1) + source + (TAPS - 1)
            before = tl.load(
                before_ptr + early * num_channels + channels, mask=is_channel & (source < 0), other=0.0
            )
            row = tl.where(source < 0, before.to(row.dtype), row)
        rows = rows + (row,)  # type: ignore[assignment]  # noqa: RUF005
    bias = tl.load(bias_ptr + channels, mask=is_channel, other=0.0).to(tl.float32)
    weights = ()
    for tap in tl.static_range(TAPS):
        weight = tl.load(weight_ptr + channels * TAPS + tap, mask=is_channel, other=0.0)
        weights = weights + (weight.to(tl.float32),)  # type: ignore[assignment]  # noqa: RUF005
    for i in tl.static_range(TOKENS):
        acc = bias
        for tap in tl.static_range(TAPS):
            acc += rows[i + tap].to(tl.float32) * weights[tap]
        if SILU:
            acc = acc / (1.0 + tl.exp2(acc * -_LOG2_E))
        token = first + i
        place = start + token.to(tl.int64) * num_channels
        tl.store(y_ptr + place + channels, acc, mask=is_channel & (token < num_tokens))


def reference(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    before: torch.Tensor | None = None,
    silu: bool = True,
) -> torch.Tensor:
    """Return the filtered tokens in fp64.

    Shapes: x [B, L, D], weight [D, W], bias [D], before [B, W − 1, D] -> [B, L, D].
    """
    taps = weight.shape[1]
    early = x.new_zeros((x.shape[0], taps - 1, x.shape[2])) if before is None else before
    tokens = torch.cat((early.double(), x.double()), dim=1).transpose(1, 2)
    y = torch.nn.functional.conv1d(
        tokens, weight.double()[:, None, :], bias.double(), groups=x.shape[2]
    ).transpose(1, 2)
    return torch.nn.functional.silu(y) if silu else y


def run(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    before: torch.Tensor | None = None,
    silu: bool = True,
    out: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the filtered tokens, and the last W − 1 tokens as the state for the next call.

    Shapes: x [B, L, D], weight [D, W], bias [D], before [B, W − 1, D] or None, contiguous -> [B, L, D], [B, W − 1, D].
    Raises: ValueError: dimensions that do not fit, more than 8 taps, or operands that `check_operands` refuses.
    """
    if x.dim() != 3 or weight.dim() != 2 or not 1 < weight.shape[1] <= MOST_TAPS or min(x.shape) == 0:
        raise ValueError(f"no convolution of x {tuple(x.shape)} with weights {tuple(weight.shape)}")
    batch, num_tokens, num_channels = x.shape
    taps = weight.shape[1]
    check_operands(
        x=x,
        weight=(weight, (num_channels, taps)),
        bias=(bias, (num_channels,)),
        before=(before, (batch, taps - 1, num_channels)),
        out=(out, x.shape),
    )
    out = torch.empty_like(x) if out is None else out
    grid = (triton.cdiv(num_channels, _CHANNELS), triton.cdiv(num_tokens, _TOKENS), batch)
    _conv_kernel[grid](
        x,
        weight,
        bias,
        before,
        out,
        num_tokens,
        num_channels,
        TAPS=taps,
        HAS_BEFORE=before is not None,
        SILU=silu,
        TOKENS=_TOKENS,
        CHANNELS=_CHANNELS,
        num_warps=_NUM_WARPS,
    )
    early = x.new_zeros((batch, taps - 1, num_channels)) if before is None else before
    last = x[:, -(taps - 1) :] if num_tokens >= taps - 1 else torch.cat((early.to(x.dtype), x), dim=1)
    return out, last[:, -(taps - 1) :].clone(memory_format=torch.contiguous_format)


def flop(batch: int, num_tokens: int, num_channels: int, taps: int) -> int:
    """Floating-point operations [flop]: two per tap, one for the bias, four of SiLU."""
    return (2 * taps + 5) * batch * num_tokens * num_channels


def bytes(batch: int, num_tokens: int, num_channels: int, element_bytes: int) -> int:
    """Least traffic at device memory [bytes]: tokens read once, results written once."""
    return 2 * batch * num_tokens * num_channels * element_bytes


def make_inputs(
    batch: int,
    num_tokens: int,
    num_channels: int,
    taps: int,
    seed: int,
    device: torch.device,
    dtype: torch.dtype = torch.bfloat16,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return random tokens, weights and biases.

    Shapes: x [B, L, D], weight [D, W], bias [D].
    """
    draw = normal(seed, device, dtype)
    return (
        draw(batch, num_tokens, num_channels),
        draw(num_channels, taps) / taps**0.5,
        0.1 * draw(num_channels),
    )
