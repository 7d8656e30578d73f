"""Backend of kernels: a GPU, or Triton's interpreter on a CPU, and the differences between them."""

import functools
from collections.abc import Callable

import torch
import triton
import triton.language as tl

INTERPRET = tl.constexpr(bool(triton.knobs.runtime.interpret))
"""Whether kernels run in the interpreter (TRITON_INTERPRET=1 before this import)."""

DEFAULT_NUM_SMS = 4
"""Number of programs of a persistent grid in the interpreter: few, so that each of them loops."""


@functools.lru_cache
def num_sms(device_index: int) -> int:
    """Number of streaming multiprocessors (compute units) of a GPU [count]."""
    return int(torch.cuda.get_device_properties(device_index).multi_processor_count)


def persistent_programs(device: torch.device) -> int:
    """Number of programs of a persistent grid with one program per multiprocessor [count].

    A tensor of the meta device stands for one of the first GPU, whose kernels are compiled ahead.
    """
    return num_sms(device.index or 0) if device.type in ("cuda", "meta") else DEFAULT_NUM_SMS


def normal(
    seed: int, device: torch.device, dtype: torch.dtype = torch.float32
) -> Callable[..., torch.Tensor]:
    """Return a function that draws normal numbers by shape, one array after the other from a seed."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return lambda *shape: torch.randn(shape, generator=generator, device=device, dtype=dtype)


def has_fp8(device: torch.device) -> bool:
    """Whether the matrix unit multiplies fp8: NVIDIA from capability 8.9 on; the interpreter always."""
    if device.type != "cuda":
        return True
    return torch.version.hip is None and torch.cuda.get_device_capability(device) >= (8, 9)


@triton.jit
def wide(x):
    """Return the block in a format whose arithmetic is right everywhere.

    The interpreter computes on the raw bits of bf16, so it converts a block to fp32 right after its load.
    """
    if INTERPRET:
        return x.to(tl.float32)
    else:
        return x


@triton.jit
def dot(a, b, acc):
    """Return acc + a @ b with fp32 accumulation; fp32 operands are multiplied in full precision."""
    if INTERPRET:
        return acc + tl.dot(a.to(tl.float32), b.to(tl.float32), input_precision="ieee")
    else:
        return tl.dot(a, b, acc, input_precision="ieee")
