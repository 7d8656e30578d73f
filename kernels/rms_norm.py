"""RMSNorm with residual: the elementwise step between two matmuls of a transformer layer.

residual' = x + residual, y = residual' / rms(residual') · weight, in one pass over memory.
"""

from typing import Final

import torch
import triton
import triton.language as tl

from advisor.kernels.backend import check_operands, normal

MAX_COLUMNS: Final = 65536
"""Widest row: a whole row stays in registers, and no published model is wider than a third of this."""
_ELEMENTS_PER_PROGRAM: Final = 4096
_ELEMENTS_PER_THREAD: Final = 32


@triton.jit
def _rms_norm_kernel(
    x_ptr,
    residual_ptr,
    weight_ptr,
    y_ptr,
    new_residual_ptr,
    num_rows,
    num_columns,
    epsilon,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)
    mask = (rows[:, None] < num_rows) & (columns[None, :] < num_columns)
    offsets = rows.to(tl.int64)[:, None] * num_columns + columns[None, :]
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    residual = tl.load(residual_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + columns, mask=columns < num_columns, other=0.0).to(tl.float32)
    total = x + residual
    tl.store(new_residual_ptr + offsets, total, mask=mask)
    scale = tl.rsqrt(tl.sum(total * total, axis=1) / num_columns + epsilon)
    tl.store(y_ptr + offsets, total * scale[:, None] * weight[None, :], mask=mask)


def row_launch(
    num_columns: int, per_program: int = _ELEMENTS_PER_PROGRAM, per_thread: int = _ELEMENTS_PER_THREAD
) -> tuple[int, int, int]:
    """Numbers of rows per program, padded columns and warps for a kernel that holds whole rows [counts].

    Raises: ValueError: the row is wider than MAX_COLUMNS.
    """
    if num_columns > MAX_COLUMNS:
        raise ValueError(f"rows of {num_columns} elements are wider than {MAX_COLUMNS}")
    block = max(16, triton.next_power_of_2(num_columns))
    rows = max(1, per_program // block)
    num_warps = min(32, max(4, rows * block // (32 * per_thread)))
    return rows, block, num_warps


def reference(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, epsilon: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return normalised rows and the new residual, in fp32.

    Shapes: x [R, C], residual [R, C], weight [C] -> [R, C], [R, C].
    """
    total = x.float() + residual.float()
    scale = torch.rsqrt(total.square().mean(dim=1, keepdim=True) + epsilon)
    return total * scale * weight.float(), total


def run(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    epsilon: float = 1e-6,
    out: tuple[torch.Tensor, torch.Tensor] | None = None,
    num_warps: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute normalised rows and the new residual; `out` may reuse the inputs.

    Shapes: x [R, C], residual [R, C], weight [C], contiguous -> [R, C], [R, C].
    Raises: ValueError: the row is wider than MAX_COLUMNS.
    """
    num_rows, num_columns = x.shape
    first, second = out or (None, None)
    check_operands(
        x=x,
        residual=(residual, x.shape),
        weight=(weight, x.shape[1:]),
        out=(first, x.shape),
        new_residual=(second, x.shape),
    )
    rows, block, warps = row_launch(num_columns)
    y, new_residual = out or (torch.empty_like(x), torch.empty_like(x))
    _rms_norm_kernel[(triton.cdiv(num_rows, rows),)](
        x,
        residual,
        weight,
        y,
        new_residual,
        num_rows,
        num_columns,
        epsilon,
        ROWS=rows,
        BLOCK=block,
        num_warps=num_warps or warps,
    )
    return y, new_residual


def flop(num_rows: int, num_columns: int) -> int:
    """Floating-point operations [flop]: add, square, accumulate and two products per element."""
    return 5 * num_rows * num_columns


def bytes(num_rows: int, num_columns: int, element_bytes: int) -> int:
    """Traffic at device memory [bytes]: two arrays read, two written, one row of weights."""
    return (4 * num_rows + 1) * num_columns * element_bytes


def make_inputs(
    num_rows: int, num_columns: int, seed: int, device: torch.device, dtype: torch.dtype = torch.bfloat16
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return random activations, residual and weights around one.

    Shapes: [num_rows, num_columns], [num_rows, num_columns], [num_columns].
    """
    draw = normal(seed, device, dtype)
    return draw(num_rows, num_columns), draw(num_rows, num_columns), 1 + 0.1 * draw(num_columns)
