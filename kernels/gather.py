"""Kernels with access that is not contiguous: a strided read, and whole rows picked by an index (an embedding table).

Memory moves sectors of 32 bytes: a stride of s elements uses 1/s of the traffic until each element has a
sector of its own. The curve over the stride is the measurement.
"""

from typing import Final

import torch
import triton
import triton.language as tl

from advisor.kernels.backend import check_operands

_BLOCK: Final = 2048
_NUM_WARPS: Final = 8
_MAX_ROW_BLOCK: Final = 4096


@triton.jit
def _strided_read_kernel(x_ptr, sums_ptr, num_read, stride, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    index = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + index.to(tl.int64) * stride, mask=index < num_read, other=0.0).to(tl.float32)
    tl.store(sums_ptr + pid, tl.sum(x))


@triton.jit
def _gather_rows_kernel(table_ptr, index_ptr, out_ptr, num_columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = columns < num_columns
    source = tl.load(index_ptr + row).to(tl.int64)
    values = tl.load(table_ptr + source * num_columns + columns, mask=mask)
    tl.store(out_ptr + row * num_columns + columns, values, mask=mask)


def reference(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Return the rows of the table at the index.

    Shapes: table [V, C], index [R] -> [R, C].
    """
    return table[index.long()]


def run_strided(x: torch.Tensor, stride: int, out: torch.Tensor | None = None) -> torch.Tensor:
    """Return partial sums over every stride-th element.

    Shapes: x [n] -> [programs] fp32.
    """
    num_read = triton.cdiv(x.numel(), stride)
    programs = triton.cdiv(num_read, _BLOCK)
    out = x.new_empty(programs, dtype=torch.float32) if out is None else out[:programs]
    _strided_read_kernel[(programs,)](x, out, num_read, stride, BLOCK=_BLOCK, num_warps=_NUM_WARPS)
    return out


def run(table: torch.Tensor, index: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """Return the rows of the table at the index, bit for bit.

    Shapes: table [V, C] contiguous, index [R] int -> [R, C].
    """
    check_operands(None, table=table, out=(out, (index.numel(), table.shape[1])))
    check_operands((torch.int32, torch.int64), index=index)
    num_rows = index.numel()
    num_columns = table.shape[1]
    out = table.new_empty((num_rows, num_columns)) if out is None else out
    block = min(_MAX_ROW_BLOCK, triton.next_power_of_2(num_columns))
    grid = (num_rows, triton.cdiv(num_columns, block))
    _gather_rows_kernel[grid](table, index, out, num_columns, BLOCK=block, num_warps=max(1, block // 512))
    return out


def flop(num_rows: int, num_columns: int) -> int:
    """Floating-point operations [flop]: none."""
    return 0


def bytes(num_rows: int, num_columns: int, element_bytes: int, index_bytes: int = 8) -> int:
    """Traffic at device memory of a row gather [bytes]: index and rows read, rows written.

    Assumes: indices rarely repeat within the time that a row stays cached.
    """
    return num_rows * (2 * num_columns * element_bytes + index_bytes)


def make_inputs(
    num_table_rows: int,
    num_columns: int,
    num_rows: int,
    seed: int,
    device: torch.device,
    dtype: torch.dtype = torch.bfloat16,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a random table and a random index.

    Shapes: table [num_table_rows, num_columns], index [num_rows] int64.
    """
    generator = torch.Generator(device=device).manual_seed(seed)
    table = torch.randn((num_table_rows, num_columns), generator=generator, device=device, dtype=dtype)
    index = torch.randint(0, num_table_rows, (num_rows,), generator=generator, device=device)
    return table, index
