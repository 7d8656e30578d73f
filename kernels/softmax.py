"""Softmax over rows: in registers where the row fits, else in two sweeps with a running maximum."""

from typing import Final

import torch
import triton
import triton.language as tl

from advisor.kernels.backend import INTERPRET, check_operands, normal
from advisor.kernels.rms_norm import row_launch

WIDEST_RESIDENT_ROW: Final = 256 if INTERPRET else 16384
_CHUNK: Final = 128 if INTERPRET else 4096
_ELEMENTS_PER_THREAD: Final = 16
_CHUNK_WARPS: Final = 8
_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _resident_kernel(x_ptr, y_ptr, num_rows, num_columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)
    mask = (rows[:, None] < num_rows) & (columns[None, :] < num_columns)
    offsets = rows.to(tl.int64)[:, None] * num_columns + columns[None, :]
    x = tl.load(x_ptr + offsets, mask=mask, other=float("-inf")).to(tl.float32)
    # Rows beyond the end are all −inf: a maximum of 0 and a sum of 1 keep them from becoming NaN.
    top = tl.where(rows < num_rows, tl.max(x, axis=1), 0.0)
    weights = tl.exp(x - top[:, None])
    total = tl.where(rows < num_rows, tl.sum(weights, axis=1), 1.0)
    tl.store(y_ptr + offsets, weights / total[:, None], mask=mask)


@triton.jit
def _sweeping_kernel(x_ptr, y_ptr, num_columns, CHUNK: tl.constexpr):
    row = tl.program_id(0)
    start = row.to(tl.int64) * num_columns
    top = -1e30
    total = tl.zeros((CHUNK,), tl.float32)
    for first in tl.range(0, num_columns, CHUNK):
        columns = first + tl.arange(0, CHUNK)
        mask = columns < num_columns
        x = tl.load(x_ptr + start + columns, mask=mask, other=float("-inf")).to(tl.float32) * _LOG2_E
        # One maximum covers the whole chunk, so that each element costs a single exponential, whose units are the
        # bottleneck.
        higher = tl.maximum(top, tl.max(x))
        total = total * tl.exp2(top - higher) + tl.exp2(x - higher)
        top = higher
    inverse = 1.0 / tl.sum(total)
    for first in tl.range(0, num_columns, CHUNK):
        columns = first + tl.arange(0, CHUNK)
        mask = columns < num_columns
        x = tl.load(x_ptr + start + columns, mask=mask, other=float("-inf")).to(tl.float32) * _LOG2_E
        tl.store(y_ptr + start + columns, tl.exp2(x - top) * inverse, mask=mask)


def reference(x: torch.Tensor) -> torch.Tensor:
    """Return the softmax of each row in fp32.

    Shapes: x [R, C] -> [R, C].
    """
    return torch.softmax(x.float(), dim=1)


def run(x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """Compute the softmax of each row.

    Shapes: x [R, C] contiguous -> [R, C].
    """
    num_rows, num_columns = x.shape
    check_operands(x=x, out=(out, x.shape))
    out = torch.empty_like(x) if out is None else out
    if num_columns <= WIDEST_RESIDENT_ROW:
        rows, block, num_warps = row_launch(num_columns, per_thread=_ELEMENTS_PER_THREAD)
        grid = (triton.cdiv(num_rows, rows),)
        _resident_kernel[grid](x, out, num_rows, num_columns, ROWS=rows, BLOCK=block, num_warps=num_warps)
    else:
        _sweeping_kernel[(num_rows,)](x, out, num_columns, CHUNK=_CHUNK, num_warps=_CHUNK_WARPS)
    return out


def flop(num_rows: int, num_columns: int) -> int:
    """Floating-point operations [flop]: maximum, difference, exponential, sum and quotient per element."""
    return 5 * num_rows * num_columns


def bytes(num_rows: int, num_columns: int, element_bytes: int) -> int:
    """Least traffic at device memory [bytes]: one array read, one written."""
    return 2 * num_rows * num_columns * element_bytes


def make_inputs(
    num_rows: int, num_columns: int, seed: int, device: torch.device, dtype: torch.dtype = torch.bfloat16
) -> tuple[torch.Tensor]:
    """Return random logits with a spread of three.

    Shapes: [num_rows, num_columns].
    """
    return (3 * normal(seed, device, dtype)(num_rows, num_columns),)
