"""Backward pass of the activations: gradients of GELU's array and of SwiGLU's pair.

GELU: dx = dy ∘ (Φ(x) + x · φ(x)). SwiGLU, with s = σ(gate): dgate = dy ∘ up ∘ s · (1 + gate · (1 − s)), dup = dy ∘ gate
∘ s. Nothing but the forward pass's input is kept.

Tiled: blocks of neighbouring elements; every element is read once and its gradient written once.
"""

from typing import Final

import torch
import triton
import triton.language as tl

from advisor.kernels.activations import Activation
from advisor.kernels.backend import check_operands, normal

_GELU_BLOCK: Final = 2048
_GELU_WARPS: Final = 4
_BLOCK: Final = 2048
_NUM_WARPS: Final = 4
_SQRT_HALF = tl.constexpr(0.7071067811865476)
_INVERSE_ROOT_TWO_PI = tl.constexpr(0.3989422804014327)
_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def gelu_slope(x):
    """Return the derivative of x · Φ(x), of an fp32 block; the error function is that of `activations.gelu`.

    Its exponential exp(−x² / 2) is also that of the density φ, so the slope costs one exponential as well.
    """
    z = tl.abs(x) * _SQRT_HALF
    t = 1.0 / (1.0 + 0.3275911 * z)
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    bell = tl.exp2(z * z * -_LOG2_E)
    erf = 1.0 - poly * bell
    return 0.5 + tl.where(x < 0.0, -0.5, 0.5) * erf + x * bell * _INVERSE_ROOT_TWO_PI


@triton.jit
def _gelu_kernel(x_ptr, grad_ptr, dx_ptr, numel, BLOCK: tl.constexpr):
    step = tl.full((), BLOCK, tl.int64)
    offsets = tl.program_id(0) * step + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < numel, other=0.0).to(tl.float32)
    grad = tl.load(grad_ptr + offsets, mask=offsets < numel, other=0.0).to(tl.float32)
    tl.store(dx_ptr + offsets, grad * gelu_slope(x), mask=offsets < numel)


@triton.jit
def _swiglu_kernel(x_ptr, grad_ptr, dx_ptr, num_columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = columns < num_columns
    start = row * 2 * num_columns + columns
    gate = tl.load(x_ptr + start, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(x_ptr + start + num_columns, mask=mask, other=0.0).to(tl.float32)
    grad = tl.load(grad_ptr + row * num_columns + columns, mask=mask, other=0.0).to(tl.float32)
    share = tl.sigmoid(gate)
    tl.store(dx_ptr + start, grad * up * share * (1.0 + gate * (1.0 - share)), mask=mask)
    tl.store(dx_ptr + start + num_columns, grad * gate * share, mask=mask)


def reference(activation: Activation, x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    """Return the gradient of the input in fp64, by automatic differentiation.

    Shapes: x [R, C], grad [R, C] (swiglu: [R, C / 2]) -> [R, C].
    """
    values = x.detach().double().requires_grad_()
    if activation == "gelu":
        y = torch.nn.functional.gelu(values)
    else:
        gate, up = values.chunk(2, dim=1)
        y = torch.nn.functional.silu(gate) * up
    return torch.autograd.grad(y, values, grad.double())[0]


def run(
    activation: Activation, x: torch.Tensor, grad: torch.Tensor, out: torch.Tensor | None = None
) -> torch.Tensor:
    """Compute the gradient of the input.

    Shapes: x [R, C], grad [R, C] (swiglu: [R, C / 2]), contiguous -> [R, C].
    Raises: ValueError: swiglu of an odd number of columns, or operands that `check_operands` refuses.
    """
    width = x.shape[-1] // (2 if activation == "swiglu" else 1)
    check_operands(x=x, grad=(grad, (*x.shape[:-1], width)), out=(out, x.shape))
    out = torch.empty_like(x) if out is None else out
    if activation == "gelu":
        programs = triton.cdiv(x.numel(), _GELU_BLOCK)
        _gelu_kernel[(programs,)](x, grad, out, x.numel(), BLOCK=_GELU_BLOCK, num_warps=_GELU_WARPS)
        return out
    num_rows, num_columns = x.shape
    if num_columns % 2:
        raise ValueError(f"swiglu needs gate and up of equal width, got {num_columns} columns")
    block = min(_BLOCK, triton.next_power_of_2(width))
    grid = (num_rows, triton.cdiv(width, block))
    num_warps = min(_NUM_WARPS, max(1, block // 512))
    _swiglu_kernel[grid](x, grad, out, width, BLOCK=block, num_warps=num_warps)
    return out


def flop(activation: Activation, num_outputs: int) -> int:
    """Floating-point operations [flop], exponentials counted as one, by outputs of the forward pass."""
    return {"gelu": 8, "swiglu": 10}[activation] * num_outputs


def bytes(activation: Activation, num_outputs: int, element_bytes: int) -> int:
    """Traffic at device memory [bytes]: gelu reads two arrays and writes one, swiglu reads three and writes two."""
    return {"gelu": 3, "swiglu": 5}[activation] * num_outputs * element_bytes


def make_inputs(
    activation: Activation,
    num_rows: int,
    num_columns: int,
    seed: int,
    device: torch.device,
    dtype: torch.dtype = torch.bfloat16,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return random pre-activations and a random gradient.

    Shapes: [num_rows, num_columns], [num_rows, num_columns] (swiglu: [num_rows, num_columns / 2]).
    """
    draw = normal(seed, device, dtype)
    width = num_columns // (2 if activation == "swiglu" else 1)
    return draw(num_rows, num_columns), draw(num_rows, width)
