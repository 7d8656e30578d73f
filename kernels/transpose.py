"""Matrix transpose: every byte is read along one axis and written along the other, tile by tile."""

from typing import Final

import torch
import triton
import triton.language as tl

from advisor.kernels.backend import INTERPRET, check_operands, normal

_TILE: Final = 64 if INTERPRET else 128
_NUM_WARPS: Final = 8


@triton.jit
def _transpose_kernel(x_ptr, y_ptr, num_rows, num_columns, TILE: tl.constexpr):
    rows = tl.program_id(1) * TILE + tl.arange(0, TILE)
    columns = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside = (rows[:, None] < num_rows) & (columns[None, :] < num_columns)
    tile = tl.load(x_ptr + rows.to(tl.int64)[:, None] * num_columns + columns[None, :], mask=inside)
    out = y_ptr + columns.to(tl.int64)[:, None] * num_rows + rows[None, :]
    tl.store(out, tl.trans(tile), mask=tl.trans(inside))


def reference(x: torch.Tensor) -> torch.Tensor:
    """Return the transposed matrix.

    Shapes: x [R, C] -> [C, R].
    """
    return x.T.contiguous()


def run(x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """Compute the transposed matrix, bit for bit.

    Shapes: x [R, C] contiguous -> [C, R].
    """
    num_rows, num_columns = x.shape
    check_operands(None, x=x, out=(out, (num_columns, num_rows)))
    out = x.new_empty((num_columns, num_rows)) if out is None else out
    grid = (triton.cdiv(num_columns, _TILE), triton.cdiv(num_rows, _TILE))
    _transpose_kernel[grid](x, out, num_rows, num_columns, TILE=_TILE, num_warps=_NUM_WARPS)
    return out


def flop(num_rows: int, num_columns: int) -> int:
    """Floating-point operations [flop]: none."""
    return 0


def bytes(num_rows: int, num_columns: int, element_bytes: int) -> int:
    """Traffic at device memory [bytes]: one array read, one written."""
    return 2 * num_rows * num_columns * element_bytes


def make_inputs(
    num_rows: int, num_columns: int, seed: int, device: torch.device, dtype: torch.dtype = torch.bfloat16
) -> tuple[torch.Tensor]:
    """Return a random matrix.

    Shapes: [num_rows, num_columns].
    """
    return (normal(seed, device, dtype)(num_rows, num_columns),)
