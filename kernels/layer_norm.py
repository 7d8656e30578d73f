"""LayerNorm: y = (x − mean) / √(variance + ε) · weight + bias, one pass over memory."""

from typing import Final

import torch
import triton
import triton.language as tl

from advisor.kernels.backend import INTERPRET, check_operands, normal
from advisor.kernels.rms_norm import row_launch

_ELEMENTS_PER_PROGRAM: Final = 4096 if INTERPRET else 16384
_ELEMENTS_PER_THREAD: Final = 64
"""Number of elements that one thread holds: with one array to read, a program needs two rows in flight to keep the
memory busy (H200: 3.9 to 4.1 TB/s)."""


@triton.jit
def _layer_norm_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    y_ptr,
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
    weight = tl.load(weight_ptr + columns, mask=columns < num_columns, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + columns, mask=columns < num_columns, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=1) / num_columns
    # The row is in registers: a second pass costs no traffic and keeps large means from cancelling.
    centred = tl.where(mask, x - mean[:, None], 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=1) / num_columns + epsilon)
    tl.store(y_ptr + offsets, centred * scale[:, None] * weight[None, :] + bias[None, :], mask=mask)


def reference(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, epsilon: float = 1e-5
) -> torch.Tensor:
    """Return normalised rows in fp32.

    Shapes: x [R, C], weight [C], bias [C] -> [R, C].
    """
    normalized_shape = (x.shape[1],)
    return torch.nn.functional.layer_norm(x.float(), normalized_shape, weight.float(), bias.float(), epsilon)


def run(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    epsilon: float = 1e-5,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Compute normalised rows.

    Shapes: x [R, C], weight [C], bias [C], contiguous -> [R, C].
    Raises: ValueError: the row is wider than a program holds.
    """
    num_rows, num_columns = x.shape
    check_operands(x=x, weight=(weight, x.shape[1:]), bias=(bias, x.shape[1:]), out=(out, x.shape))
    rows, block, num_warps = row_launch(num_columns, _ELEMENTS_PER_PROGRAM, _ELEMENTS_PER_THREAD)
    out = torch.empty_like(x) if out is None else out
    _layer_norm_kernel[(triton.cdiv(num_rows, rows),)](
        x, weight, bias, out, num_rows, num_columns, epsilon, ROWS=rows, BLOCK=block, num_warps=num_warps
    )
    return out


def flop(num_rows: int, num_columns: int) -> int:
    """Floating-point operations [flop]: two sums, a difference, a square, two products and an addition."""
    return 7 * num_rows * num_columns


def bytes(num_rows: int, num_columns: int, element_bytes: int) -> int:
    """Traffic at device memory [bytes]: one array read, one written, weights and biases."""
    return (2 * num_rows + 2) * num_columns * element_bytes


def make_inputs(
    num_rows: int, num_columns: int, seed: int, device: torch.device, dtype: torch.dtype = torch.bfloat16
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return random rows with a mean of three, weights around one, small biases.

    Shapes: [num_rows, num_columns], [num_columns], [num_columns].
    """
    draw = normal(seed, device, dtype)
    return 3 + draw(num_rows, num_columns), 1 + 0.1 * draw(num_columns), 0.1 * draw(num_columns)
