"""Backward pass of RMSNorm with residual: gradients of the sum and of the weights, in one pass over memory.

With t = x + residual, r = 1 / rms(t), y = t · r · weight, the gradient dy of y and the gradient g of t itself (the new
residual goes on to later layers):

dt = r · (weight ∘ dy) − t · r³ / C · Σ(weight ∘ dy ∘ t) + g,  dweight = Σ over rows of dy ∘ t · r

x and the residual both have the gradient dt.

Tiled: each program takes every P-th row of P programs. Kept on the chip: a row of t and dy, so that both sums over it
cost no further traffic, and the program's part of dweight over all its rows. The next row is loaded while one is
computed. Parts of dweight are written once per program and added by a second pass of a few megabytes.
"""

from typing import Final

import torch
import triton
import triton.language as tl

from advisor.kernels import rms_norm
from advisor.kernels.backend import INTERPRET, check_operands, normal, persistent_programs

WIDEST_ROW: Final = 16384
"""Widest row whose gradients and weights' sums fit the registers of 32 warps; no published model's is wider."""
WIDEST_ROW_AHEAD: Final = 8192
"""Widest row that leaves registers for loading the next one."""
_ELEMENTS_PER_THREAD: Final = 16
_WARPS_PER_SM: Final = 16
"""Number of warps that all programs of a multiprocessor have together: more would leave fewer than 128 registers."""
FULL_MULTIPROCESSOR: Final = {"maxnreg": 128} if torch.version.cuda and not INTERPRET else {}
"""Option with which all these programs are on a multiprocessor at once: with more registers each, some would wait."""
_SUM_ROWS: Final = 32
_SUM_COLUMNS: Final = 32


@triton.jit
def add_pairs(a, b, other_a, other_b):
    """Add two sums at once: the warps of a program meet once for both."""
    return a + other_a, b + other_b


@triton.jit
def _backward_kernel(
    total_ptr,
    weight_ptr,
    grad_ptr,
    through_ptr,
    dx_ptr,
    dw_ptr,
    num_rows,
    num_columns,
    epsilon,
    HAS_THROUGH: tl.constexpr,
    BLOCK: tl.constexpr,
    NUM_PROGRAMS: tl.constexpr,
    AHEAD: tl.constexpr,
):
    columns = tl.arange(0, BLOCK)
    mask = columns < num_columns
    if AHEAD:
        weight = tl.load(weight_ptr + columns, mask=mask, other=0.0).to(tl.float32)
    dw = tl.zeros((BLOCK,), tl.float32)
    first = tl.program_id(0)
    offsets = first.to(tl.int64) * num_columns + columns
    if AHEAD:
        total_ahead = tl.load(total_ptr + offsets, mask=mask, other=0.0)
        grad_ahead = tl.load(grad_ptr + offsets, mask=mask, other=0.0)
    for row in tl.range(first, num_rows, NUM_PROGRAMS):
        after = offsets + NUM_PROGRAMS * num_columns
        if AHEAD:
            total = total_ahead.to(tl.float32)
            grad = grad_ahead.to(tl.float32)
            is_there = mask & (row + NUM_PROGRAMS < num_rows)
            total_ahead = tl.load(total_ptr + after, mask=is_there, other=0.0)
            grad_ahead = tl.load(grad_ptr + after, mask=is_there, other=0.0)
        else:
            # The widest rows leave no registers for a second row, nor for the weights, which the caches hold.
            total = tl.load(total_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
            grad = tl.load(grad_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
            weight = tl.load(weight_ptr + columns, mask=mask, other=0.0).to(tl.float32)
        weighted = grad * weight
        squares, product = tl.reduce((total * total, weighted * total), 0, add_pairs)
        scale = tl.rsqrt(squares / num_columns + epsilon)
        shared = product / num_columns * scale * scale * scale
        dx = weighted * scale - total * shared
        if HAS_THROUGH:
            dx += tl.load(through_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        tl.store(dx_ptr + offsets, dx, mask=mask)
        dw += grad * total * scale
        offsets = after
    tl.store(dw_ptr + first * num_columns + columns, dw, mask=mask)


def row_programs(num_rows: int, num_columns: int, device: torch.device) -> tuple[int, int, int]:
    """Numbers of programs, padded columns and warps for a kernel that walks over whole rows [counts].

    Raises: ValueError: the row is wider than WIDEST_ROW.
    """
    if num_columns > WIDEST_ROW:
        raise ValueError(f"rows of {num_columns} elements are wider than {WIDEST_ROW}")
    block = max(32, int(triton.next_power_of_2(num_columns)))
    num_warps = min(32, max(1, block // (32 * _ELEMENTS_PER_THREAD)))
    programs = persistent_programs(device) * max(1, _WARPS_PER_SM // num_warps)
    return max(1, min(num_rows, programs)), block, num_warps


@triton.jit
def _sum_kernel(
    parts_ptr,
    first_ptr,
    second_ptr,
    num_parts,
    num_columns,
    NUM_SUMS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    which = tl.program_id(1)
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    is_column = columns < num_columns
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, num_parts, ROWS):
        parts = start + tl.arange(0, ROWS)
        offsets = (parts * NUM_SUMS + which)[:, None] * num_columns + columns[None, :]
        is_there = (parts < num_parts)[:, None] & is_column[None, :]
        total += tl.load(parts_ptr + offsets, mask=is_there, other=0.0)
    found = tl.sum(total, axis=0)
    if which == 0:
        tl.store(first_ptr + columns, found, mask=is_column)
    else:
        tl.store(second_ptr + columns, found, mask=is_column)


def sum_parts(parts: torch.Tensor, first: torch.Tensor, second: torch.Tensor) -> None:
    """Add what each program found and write it as weights are: one launch in place of a sum and conversions.

    Shapes: parts [P, 1 or 2, C] fp32, first [C] for the first of the sums, second [C] for the second, if there is one.
    """
    num_parts, num_sums, num_columns = parts.shape
    _sum_kernel[(triton.cdiv(num_columns, _SUM_COLUMNS), num_sums)](
        parts,
        first,
        second,
        num_parts,
        num_columns,
        NUM_SUMS=num_sums,
        ROWS=_SUM_ROWS,
        BLOCK=_SUM_COLUMNS,
    )


def reference(
    total: torch.Tensor,
    weight: torch.Tensor,
    grad: torch.Tensor,
    through: torch.Tensor | None = None,
    epsilon: float = 1e-6,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients of the sum and of the weights in fp64, by automatic differentiation.

    Shapes: total [R, C], weight [C], grad [R, C], through [R, C] -> [R, C], [C].
    """
    t = total.detach().double().requires_grad_()
    w = weight.detach().double().requires_grad_()
    y = t * torch.rsqrt(t.square().mean(dim=1, keepdim=True) + epsilon) * w
    dt, dw = torch.autograd.grad(y, (t, w), grad.double())
    return dt if through is None else dt + through.double(), dw


def run(
    total: torch.Tensor,
    weight: torch.Tensor,
    grad: torch.Tensor,
    through: torch.Tensor | None = None,
    epsilon: float = 1e-6,
    out: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the gradients of the sum and of the weights.

    Shapes: total (the forward pass's new residual) [R, C], weight [C], grad [R, C], through (the gradient of the new
    residual, or None) [R, C], contiguous -> [R, C], [C].
    Raises: ValueError: the row is wider than WIDEST_ROW, or operands that `check_operands` refuses.
    """
    dx, dw = out or (None, None)
    check_operands(
        total=total,
        weight=(weight, total.shape[1:]),
        grad=(grad, total.shape),
        through=(through, total.shape),
        dx=(dx, total.shape),
        dw=(dw, total.shape[1:]),
    )
    num_rows, num_columns = total.shape
    programs, block, num_warps = row_programs(num_rows, num_columns, total.device)
    dx = torch.empty_like(total) if dx is None else dx
    parts = torch.empty((programs, num_columns), dtype=torch.float32, device=total.device)
    _backward_kernel[(programs,)](
        total,
        weight,
        grad,
        through,
        dx,
        parts,
        num_rows,
        num_columns,
        epsilon,
        HAS_THROUGH=through is not None,
        BLOCK=block,
        NUM_PROGRAMS=programs,
        AHEAD=block <= WIDEST_ROW_AHEAD,
        num_warps=num_warps,
        **FULL_MULTIPROCESSOR,
    )
    dw = torch.empty_like(weight) if dw is None else dw
    sum_parts(parts[:, None], dw, dw)
    return dx, dw


def flop(num_rows: int, num_columns: int) -> int:
    """Floating-point operations [flop]: two sums of products, and eight more per element."""
    return 12 * num_rows * num_columns


def bytes(num_rows: int, num_columns: int, element_bytes: int, has_through: bool = True) -> int:
    """Least traffic at device memory [bytes]: the sum and one or two gradients read, one written, and the weights."""
    return ((3 + has_through) * num_rows + 2) * num_columns * element_bytes


def make_inputs(
    num_rows: int, num_columns: int, seed: int, device: torch.device, dtype: torch.dtype = torch.bfloat16
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return a random sum, weights around one, and the gradients of the result and of the new residual.

    Shapes: [num_rows, num_columns], [num_columns], [num_rows, num_columns], [num_rows, num_columns].
    """
    x, residual, weight = rms_norm.make_inputs(num_rows, num_columns, seed, device, dtype)
    return x, weight, residual, normal(seed + 1, device, dtype)(num_rows, num_columns)
