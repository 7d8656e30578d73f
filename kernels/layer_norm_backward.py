"""Backward pass of LayerNorm: gradients of the rows, the weights and the biases, in one pass over memory.

With n = (x − mean) / √(variance + ε), y = n · weight + bias and w = weight ∘ dy:

dx = (w − mean(w) − n · mean(w ∘ n)) / √(variance + ε),  dweight = Σ over rows of dy ∘ n,  dbias = Σ over rows of dy

Tiled: each program takes every P-th row of P programs. Kept on the chip: the row, so that mean and variance are
computed again instead of being stored by the forward pass, and the program's parts of dweight and dbias. The next row
is loaded while one is computed.

The warps of a program meet once per row, for four sums at once. The variance is therefore that of the distances from
the row's first element, less their mean squared: an element is as near to the mean as rows vary, so the difference
keeps its digits, which it would lose around zero if the mean were large.
"""

import torch
import triton
import triton.language as tl

from advisor.kernels import layer_norm
from advisor.kernels.backend import check_operands, normal
from advisor.kernels.rms_norm_backward import FULL_MULTIPROCESSOR, WIDEST_ROW_AHEAD, row_programs, sum_parts


@triton.jit
def _add_four(a, b, c, d, other_a, other_b, other_c, other_d):
    return a + other_a, b + other_b, c + other_c, d + other_d


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
    start = first.to(tl.int64) * num_columns
    offsets = start + columns
    if AHEAD:
        x_ahead = tl.load(x_ptr + offsets, mask=mask, other=0.0)
        grad_ahead = tl.load(grad_ptr + offsets, mask=mask, other=0.0)
        near_ahead = tl.load(x_ptr + start)
    for row in tl.range(first, num_rows, NUM_PROGRAMS):
        next_start = start + NUM_PROGRAMS * num_columns
        after = next_start + columns
        if AHEAD:
            x = x_ahead.to(tl.float32)
            grad = grad_ahead.to(tl.float32)
            near = near_ahead.to(tl.float32)
            is_next = row + NUM_PROGRAMS < num_rows
            is_there = mask & is_next
            x_ahead = tl.load(x_ptr + after, mask=is_there, other=0.0)
            grad_ahead = tl.load(grad_ptr + after, mask=is_there, other=0.0)
            near_ahead = tl.load(x_ptr + next_start, mask=is_next, other=0.0)
        else:
            # The widest rows leave no registers for a second row, nor for the weights, which the caches hold.
            x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
            grad = tl.load(grad_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
            weight = tl.load(weight_ptr + columns, mask=mask, other=0.0).to(tl.float32)
            near = tl.load(x_ptr + start).to(tl.float32)
        weighted = grad * weight
        x = tl.where(mask, x - near, 0.0)
        sums = tl.reduce((x, x * x, weighted, weighted * x), 0, _add_four)
        mean = sums[0] / num_columns
        scale = tl.rsqrt(tl.maximum(sums[1] / num_columns - mean * mean, 0.0) + epsilon)
        mean_weighted = sums[2] / num_columns
        product = sums[3] / num_columns - mean_weighted * mean
        normed = (x - mean) * scale
        dx = (weighted - mean_weighted - normed * (product * scale)) * scale
        tl.store(dx_ptr + offsets, dx, mask=mask)
        dw += grad * normed
        db += grad
        start = next_start
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
        **FULL_MULTIPROCESSOR,
    )
    dw, db = (torch.empty_like(weight) if one is None else one for one in (dw, db))
    sum_parts(parts, dw, db)
    return dx, dw, db


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
