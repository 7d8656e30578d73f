"""Activations between the two matmuls of a feed-forward part: GELU of one array, SwiGLU of a pair."""

from typing import Final, Literal

import torch
import triton
import triton.language as tl

from advisor.kernels.backend import check_operands, normal

Activation = Literal["gelu", "swiglu"]
_BLOCK: Final = 4096
_NUM_WARPS: Final = 8
_GELU_BLOCK: Final = 2048
_GELU_WARPS: Final = 4
_SQRT_HALF = tl.constexpr(0.7071067811865476)
_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def gelu(x):
    """Return x · Φ(x) of an fp32 block.

    The library's error function is limited by arithmetic (63 % of an H200's bandwidth). This one is off by less
    than 1.5e-7: a polynomial in 1 / (1 + p |z|) times exp(−z²).

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26.
    """
    z = tl.abs(x) * _SQRT_HALF
    t = 1.0 / (1.0 + 0.3275911 * z)
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    erf = 1.0 - poly * tl.exp2(z * z * -_LOG2_E)
    return 0.5 * (x + tl.abs(x) * erf)


@triton.jit
def _gelu_kernel(x_ptr, y_ptr, numel, BLOCK: tl.constexpr):
    step = tl.full((), BLOCK, tl.int64)
    offsets = tl.program_id(0) * step + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < numel, other=0.0).to(tl.float32)
    tl.store(y_ptr + offsets, gelu(x), mask=offsets < numel)


@triton.jit
def _swiglu_kernel(x_ptr, y_ptr, num_columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = columns < num_columns
    start = x_ptr + row * 2 * num_columns
    gate = tl.load(start + columns, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(start + num_columns + columns, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * num_columns + columns, gate * tl.sigmoid(gate) * up, mask=mask)


def reference(activation: Activation, x: torch.Tensor) -> torch.Tensor:
    """Return the activation in fp32.

    Shapes: x [R, C] -> [R, C] for gelu, [R, C / 2] for swiglu (gate in the first half of the columns).
    """
    if activation == "gelu":
        return torch.nn.functional.gelu(x.float())
    gate, up = x.float().chunk(2, dim=1)
    return torch.nn.functional.silu(gate) * up


def run(activation: Activation, x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """Compute the activation.

    Shapes: x [R, C] contiguous -> [R, C] for gelu, [R, C / 2] for swiglu.
    Raises: ValueError: swiglu of an odd number of columns.
    """
    width = x.shape[-1] // (2 if activation == "swiglu" else 1)
    check_operands(x=x, out=(out, (*x.shape[:-1], width)))
    if activation == "gelu":
        out = torch.empty_like(x) if out is None else out
        programs = triton.cdiv(x.numel(), _GELU_BLOCK)
        _gelu_kernel[(programs,)](x, out, x.numel(), BLOCK=_GELU_BLOCK, num_warps=_GELU_WARPS)
        return out
    num_rows, num_columns = x.shape
    if num_columns % 2:
        raise ValueError(f"swiglu needs gate and up of equal width, got {num_columns} columns")
    half = num_columns // 2
    out = x.new_empty((num_rows, half)) if out is None else out
    block = min(_BLOCK, triton.next_power_of_2(half))
    grid = (num_rows, triton.cdiv(half, block))
    _swiglu_kernel[grid](x, out, half, BLOCK=block, num_warps=min(_NUM_WARPS, max(1, block // 512)))
    return out


def flop(activation: Activation, num_outputs: int) -> int:
    """Floating-point operations [flop], an exponential or error function counted as one."""
    return {"gelu": 5, "swiglu": 5}[activation] * num_outputs


def bytes(activation: Activation, num_outputs: int, element_bytes: int) -> int:
    """Traffic at device memory [bytes]: gelu reads one array and writes one, swiglu reads two."""
    return {"gelu": 2, "swiglu": 3}[activation] * num_outputs * element_bytes


def make_inputs(
    num_rows: int, num_columns: int, seed: int, device: torch.device, dtype: torch.dtype = torch.bfloat16
) -> tuple[torch.Tensor]:
    """Return random pre-activations.

    Shapes: [num_rows, num_columns].
    """
    return (normal(seed, device, dtype)(num_rows, num_columns),)
