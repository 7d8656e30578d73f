"""Backward pass of LayerNorm: gradients of the rows, the weights and the biases, in one pass over memory.

With n = (x − mean) / √(variance + ε), y = n · weight + bias and w = weight ∘ dy:

dx = (w − mean(w) − n · mean(w ∘ n)) / √(variance + ε),  dweight = Σ over rows of dy ∘ n,  dbias = Σ over rows of dy

Tiled: each program takes every P-th row of P programs. Kept on the chip: the row, so that mean and variance are
computed again instead of being stored by the forward pass, and the program's parts of dweight and dbias. The next row
is loaded while one is computed.
"""

import torch
import triton
import triton.language as tl

from advisor.kernels import layer_norm
from advisor.kernels.backend import check_operands, normal
from advisor.kernels.rms_norm_backward import WIDEST_ROW_AHEAD, add_pairs, row_programs


@triton.jit
def _backward_kernel(
    x_ptr,
    weight_ptr,
    grad_ptr,
    dx_ptr,
    parts_ptr,
    num_rows,
    num_columns,
    epsilon,
    BLOCK: tl.constexpr,
    NUM_PROGRAMS: tl.constexpr,
    AHEAD: tl.constexpr,
):
    columns = tl.arange(0, BLOCK)
    mask = columns < num_columns
    if AHEAD:
        weight = tl.load(weight_ptr + columns, mask=mask, other=0.0).to(tl.float32)
    dw = tl.zeros((BLOCK,), tl.float32)
    db = tl.zeros((BLOCK,), tl.float32)
    first = tl.program_id(0)
    offsets = first.to(tl.int64) * num_columns + columns
    if AHEAD:
        x_ahead = tl.load(x_ptr + offsets, mask=mask, other=0.0)
        grad_ahead = tl.load(grad_ptr + offsets, mask=mask, other=0.0)
    for row in tl.range(first, num_rows, NUM_PROGRAMS):
        after = offsets + NUM_PROGRAMS * num_columns
        if AHEAD:
            x = x_ahead.to(tl.float32)
            grad = grad_ahead.to(tl.float32)
            is_there = mask & (row + NUM_PROGRAMS < num_rows)
            x_ahead = tl.load(x_ptr + after, mask=is_there, other=0.0)
            grad_ahead = tl.load(grad_ptr + after, mask=is_there, other=0.0)
        else:
            # The widest rows leave no registers for a second row, nor for the weights, which the caches hold.
            x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
            grad = tl.load(grad_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
            weight = tl.load(weight_ptr + columns, mask=mask, other=0.0).to(tl.float32)
        weighted = grad * weight
        sum_x, sum_weighted = tl.reduce((x, weighted), 0, add_pairs)
        centred = tl.where(mask, x - sum_x / num_columns, 0.0)
        squares, product = tl.reduce((centred * centred, weighted * centred), 0, add_pairs)
        scale = tl.rsqrt(squares / num_columns + epsilon)
        normed = centred * scale
        dx = (weighted - sum_weighted / num_columns - normed * (product / num_columns * scale)) * scale
        tl.store(dx_ptr + offsets, dx, mask=mask)
        dw += grad * normed
        db += grad
        offsets = after
    parts = parts_ptr + first * 2 * num_columns + columns
    tl.store(parts, dw, mask=mask)
    tl.store(parts + num_columns, db, mask=mask)


def reference(
    x: torch.Tensor, weight: torch.Tensor, grad: torch.Tensor, epsilon: float = 1e-5
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradients of rows, weights and biases in fp64, by automatic differentiation.

    Shapes: x [R, C], weight [C], grad [R, C] -> [R, C], [C], [C].
    """
    rows, weights = (one.detach().double().requires_grad_() for one in (x, weight))
    biases = torch.zeros_like(weights).requires_grad_()
    y = torch.nn.functional.layer_norm(rows, (x.shape[1],), weights, biases, epsilon)
    dx, dw, db = torch.autograd.grad(y, (rows, weights, biases), grad.double())
    return dx, dw, db


def run(
    x: torch.Tensor,
    weight: torch.Tensor,
    grad: torch.Tensor,
    epsilon: float = 1e-5,
    out: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute the gradients of rows, weights and biases.

    Shapes: x [R, C], weight [C], grad [R, C], contiguous -> [R, C], [C], [C].
    Raises: ValueError: the row is wider than a program holds, or operands that `check_operands` refuses.
    """
    dx, dw, db = out or (None, None, None)
    shape = x.shape[1:]
    check_operands(
        x=x, weight=(weight, shape), grad=(grad, x.shape), dx=(dx, x.shape), dw=(dw, shape), db=(db, shape)
    )
    num_rows, num_columns = x.shape
    programs, block, num_warps = row_programs(num_rows, num_columns, x.device)
    dx = torch.empty_like(x) if dx is None else dx
    parts = torch.empty((programs, 2, num_columns), dtype=torch.float32, device=x.device)
    _backward_kernel[(programs,)](
        x,
        weight,
        grad,
        dx,
        parts,
        num_rows,
        num_columns,
        epsilon,
        BLOCK=block,
        NUM_PROGRAMS=programs,
        AHEAD=block <= WIDEST_ROW_AHEAD,
        num_warps=num_warps,
    )
    summed = parts.sum(dim=0)
    return (
        dx,
        summed[0].to(weight.dtype) if dw is None else dw.copy_(summed[0]),
        summed[1].to(weight.dtype) if db is None else db.copy_(summed[1]),
    )


def flop(num_rows: int, num_columns: int) -> int:
    """Floating-point operations [flop]: four sums, two of them of products, and ten more per element."""
    return 16 * num_rows * num_columns


def bytes(num_rows: int, num_columns: int, element_bytes: int) -> int:
    """Least traffic at device memory [bytes]: rows and gradient read, one gradient written, weights and biases."""
    return (3 * num_rows + 3) * num_columns * element_bytes


def make_inputs(
    num_rows: int, num_columns: int, seed: int, device: torch.device, dtype: torch.dtype = torch.bfloat16
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return random rows with a mean of three, weights around one, and a random gradient.

    Shapes: [num_rows, num_columns], [num_columns], [num_rows, num_columns].
    """
    x, weight, _ = layer_norm.make_inputs(num_rows, num_columns, seed, device, dtype)
    return x, weight, normal(seed + 1, device, dtype)(num_rows, num_columns)
