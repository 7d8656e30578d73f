"""Backward pass of softmax over rows: dx = y ∘ (dy − Σ y ∘ dy).

Tiled: one or a few whole rows per program, or one row in chunks. Kept on the chip: the rows, where they fit; a wider
row is read twice, once for its sum and once for the result.
"""

import torch
import triton
import triton.language as tl

from advisor.kernels import softmax
from advisor.kernels.backend import INTERPRET, check_operands, normal
from advisor.kernels.rms_norm import row_launch

_CHUNK = 128 if INTERPRET else 4096
_ELEMENTS_PER_THREAD = 16
_CHUNK_WARPS = 8


@triton.jit
def _resident_kernel(y_ptr, grad_ptr, dx_ptr, num_rows, num_columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)
    mask = (rows[:, None] < num_rows) & (columns[None, :] < num_columns)
    offsets = rows.to(tl.int64)[:, None] * num_columns + columns[None, :]
    y = tl.load(y_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    grad = tl.load(grad_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    shared = tl.sum(y * grad, axis=1)
    tl.store(dx_ptr + offsets, y * (grad - shared[:, None]), mask=mask)


@triton.jit
def _sweeping_kernel(y_ptr, grad_ptr, dx_ptr, num_columns, CHUNK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * num_columns
    sums = tl.zeros((CHUNK,), tl.float32)
    for first in tl.range(0, num_columns, CHUNK):
        columns = first + tl.arange(0, CHUNK)
        mask = columns < num_columns
        y = tl.load(y_ptr + start + columns, mask=mask, other=0.0).to(tl.float32)
        sums += y * tl.load(grad_ptr + start + columns, mask=mask, other=0.0).to(tl.float32)
    shared = tl.sum(sums)
    # Backwards: the end of the row is still in the caches.
    last = tl.cdiv(num_columns, CHUNK) * CHUNK - CHUNK
    for done in tl.range(0, num_columns, CHUNK):
        columns = last - done + tl.arange(0, CHUNK)
        mask = columns < num_columns
        y = tl.load(y_ptr + start + columns, mask=mask, other=0.0).to(tl.float32)
        grad = tl.load(grad_ptr + start + columns, mask=mask, other=0.0).to(tl.float32)
        tl.store(dx_ptr + start + columns, y * (grad - shared), mask=mask)


def reference(y: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    """Return the gradient of the logits in fp64.

    Shapes: y [R, C], grad [R, C] -> [R, C].
    """
    weights = y.double()
    product = weights * grad.double()
    return product - weights * product.sum(dim=1, keepdim=True)


def run(y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """Compute the gradient of the logits from the forward pass's result.

    Shapes: y [R, C], grad [R, C], contiguous -> [R, C].
    """
    check_operands(y=y, grad=(grad, y.shape), out=(out, y.shape))
    num_rows, num_columns = y.shape
    out = torch.empty_like(y) if out is None else out
    if num_columns <= softmax.WIDEST_RESIDENT_ROW:
        rows, block, num_warps = row_launch(num_columns, per_thread=_ELEMENTS_PER_THREAD)
        grid = (triton.cdiv(num_rows, rows),)
        _resident_kernel[grid](
            y, grad, out, num_rows, num_columns, ROWS=rows, BLOCK=block, num_warps=num_warps
        )
    else:
        _sweeping_kernel[(num_rows,)](y, grad, out, num_columns, CHUNK=_CHUNK, num_warps=_CHUNK_WARPS)
    return out


def flop(num_rows: int, num_columns: int) -> int:
    """Floating-point operations [flop]: product, sum, difference and product per element."""
    return 4 * num_rows * num_columns


def bytes(num_rows: int, num_columns: int, element_bytes: int) -> int:
    """Least traffic at device memory [bytes]: two arrays read, one written."""
    return 3 * num_rows * num_columns * element_bytes


def make_inputs(
    num_rows: int, num_columns: int, seed: int, device: torch.device, dtype: torch.dtype = torch.bfloat16
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return weights of random logits and a random gradient.

    Shapes: [num_rows, num_columns], [num_rows, num_columns].
    """
    draw = normal(seed, device, dtype)
    return torch.softmax(draw(num_rows, num_columns), dim=1), draw(num_rows, num_columns)
