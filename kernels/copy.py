"""Device memory kernels with three access patterns: read only, copy (a read, a write) and triad (two reads, a write).

Healthy memory gives different rates for each, so a bandwidth without its pattern means little.
"""

from dataclasses import dataclass
from typing import Final, Literal

import torch
import triton
import triton.language as tl

from advisor.kernels.backend import INTERPRET, check_operands, normal, persistent_programs, wide

Pattern = Literal["read", "copy", "triad"]
SCALAR = 0.5
"""Factor of the triad: a power of two, so that its multiplication is exact in every format."""


@dataclass(frozen=True, slots=True)
class Config:
    """Division of a one-dimensional array into blocks."""

    block: int
    num_warps: int
    programs_per_sm: int
    """Number of programs of the persistent grid; 0 gives every block its own program."""


CONFIGS: dict[Pattern, Config] = {
    "read": Config(block=8192, num_warps=8, programs_per_sm=0),
    "copy": Config(block=2048, num_warps=16, programs_per_sm=0),
    "triad": Config(block=16384, num_warps=8, programs_per_sm=0),
}


_REPEAT_BLOCK: Final = 4096
_REPEAT_PROGRAMS_PER_SM: Final = 8


@triton.jit
def _read_kernel(x_ptr, sums_ptr, numel, num_blocks, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    step = tl.full((), BLOCK, tl.int64)
    for block_id in tl.range(pid, num_blocks, tl.num_programs(0)):
        offsets = block_id * step + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + offsets, mask=offsets < numel, other=0.0).to(tl.float32)
    tl.store(sums_ptr + pid, tl.sum(total))


@triton.jit
def _repeated_read_kernel(x_ptr, sums_ptr, num_blocks, num_passes, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for step in tl.range(pid, num_blocks * num_passes, tl.num_programs(0)):
        offsets = (step % num_blocks) * BLOCK + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + offsets).to(tl.float32)
    tl.store(sums_ptr + pid, tl.sum(total))


@triton.jit
def _copy_kernel(x_ptr, out_ptr, numel, num_blocks, BLOCK: tl.constexpr):
    step = tl.full((), BLOCK, tl.int64)
    for block_id in tl.range(tl.program_id(0), num_blocks, tl.num_programs(0)):
        offsets = block_id * step + tl.arange(0, BLOCK)
        mask = offsets < numel
        tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask), mask=mask)


@triton.jit
def _triad_kernel(x_ptr, y_ptr, out_ptr, scalar, numel, num_blocks, BLOCK: tl.constexpr):
    step = tl.full((), BLOCK, tl.int64)
    for block_id in tl.range(tl.program_id(0), num_blocks, tl.num_programs(0)):
        offsets = block_id * step + tl.arange(0, BLOCK)
        mask = offsets < numel
        x = wide(tl.load(x_ptr + offsets, mask=mask))
        y = wide(tl.load(y_ptr + offsets, mask=mask))
        tl.store(out_ptr + offsets, x + scalar * y, mask=mask)


def reference(pattern: Pattern, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return the result of the pattern: the sum, x, or x + SCALAR · y.

    Shapes: x [n], y [n] -> [] for read, else [n].
    """
    if pattern == "read":
        return x.double().sum()
    if pattern == "copy":
        return x.clone()
    return (x.float() + SCALAR * y.float()).to(x.dtype)


def run(
    pattern: Pattern,
    x: torch.Tensor,
    y: torch.Tensor,
    out: torch.Tensor | None = None,
    config: Config | None = None,
) -> torch.Tensor:
    """Run the pattern over one-dimensional arrays; `out` saves the allocation (read: the partial sums, fp32).

    Shapes: x [n], y [n] -> [programs] partial sums for read, else [n].
    """
    check_operands(x=x, y=(y, x.shape), out=out if pattern == "read" else (out, x.shape))
    config = config or CONFIGS[pattern]
    numel = x.numel()
    num_blocks = triton.cdiv(numel, config.block)
    programs = num_blocks
    if config.programs_per_sm or INTERPRET:
        programs = min(num_blocks, max(config.programs_per_sm, 1) * persistent_programs(x.device))
    if out is None:
        out = x.new_empty(programs, dtype=torch.float32) if pattern == "read" else torch.empty_like(x)
    launch = {"BLOCK": config.block, "num_warps": config.num_warps}
    if pattern == "read":
        _read_kernel[(programs,)](x, out, numel, num_blocks, **launch)
        return out[:programs]
    if pattern == "copy":
        _copy_kernel[(programs,)](x, out, numel, num_blocks, **launch)
    else:
        _triad_kernel[(programs,)](x, y, out, SCALAR, numel, num_blocks, **launch)
    return out


def run_repeated_read(x: torch.Tensor, num_passes: int, out: torch.Tensor | None = None) -> torch.Tensor:
    """Return partial sums over the array, read several times in one launch; an array that fits in a cache is read from
    there.

    Shapes: x [n] with n a multiple of 4096 -> [programs] fp32.
    Raises: ValueError: the array is not a multiple of a block.
    """
    check_operands(x=x, out=out)
    if x.numel() % _REPEAT_BLOCK:
        raise ValueError(f"{x.numel()} elements are no multiple of {_REPEAT_BLOCK}")
    num_blocks = x.numel() // _REPEAT_BLOCK
    programs = min(num_blocks * num_passes, _REPEAT_PROGRAMS_PER_SM * persistent_programs(x.device))
    out = x.new_empty(programs, dtype=torch.float32) if out is None else out[:programs]
    _repeated_read_kernel[(programs,)](x, out, num_blocks, num_passes, BLOCK=_REPEAT_BLOCK, num_warps=8)
    return out


def flop(pattern: Pattern, numel: int) -> int:
    """Floating-point operations [flop]: an addition per element read, a multiply-add per triad element."""
    return {"read": numel, "copy": 0, "triad": 2 * numel}[pattern]


def bytes(pattern: Pattern, numel: int, element_bytes: int) -> int:
    """Traffic at device memory [bytes]: every array once."""
    return {"read": 1, "copy": 2, "triad": 3}[pattern] * numel * element_bytes


def make_inputs(
    numel: int, seed: int, device: torch.device, dtype: torch.dtype = torch.float32
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two random arrays.

    Shapes: x [numel], y [numel].
    """
    draw = normal(seed, device, dtype)
    return draw(numel), draw(numel)
