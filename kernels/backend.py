"""Backend of kernels: a GPU, or Triton's interpreter on a CPU, and the differences between them."""

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Final

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


FLOATS: Final = (torch.bfloat16, torch.float16, torch.float32)
"""Formats that kernels compute in: a block becomes fp32 after its load."""
HALVES: Final = (torch.bfloat16, torch.float16)
EIGHT_BITS: Final = (torch.float8_e4m3fn, torch.float8_e5m2)


def check_operands(
    formats: Collection[torch.dtype] | None = FLOATS,
    **operands: torch.Tensor | tuple[torch.Tensor | None, Sequence[int]] | None,
) -> None:
    """Refuse operands that a kernel would read wrongly, before it is launched.

    A kernel walks over rows without gaps, so each operand must be contiguous. An operand is given with its shape where
    another operand decides it. None, alone or in a pair, stands for an operand that is left out; None for `formats`
    means any.

    Raises: ValueError: an operand has gaps, another shape, another format, or lies on another device than the first.
    """
    pairs = {name: one if isinstance(one, tuple) else (one, None) for name, one in operands.items()}
    present = {name: (tensor, shape) for name, (tensor, shape) in pairs.items() if tensor is not None}
    check_formats(formats, **{name: tensor for name, (tensor, _) in present.items()})
    for name, (tensor, shape) in present.items():
        if shape is not None and tuple(tensor.shape) != tuple(shape):
            raise ValueError(f"{name} is {tuple(tensor.shape)}, and the other operands want {tuple(shape)}")
        if not tensor.is_contiguous():
            raise ValueError(
                f"{name} {tuple(tensor.shape)} has strides {tensor.stride()}, and the kernel reads rows without gaps: "
                f"pass {name}.contiguous()"
            )


def check_formats(formats: Collection[torch.dtype] | None, **operands: torch.Tensor) -> None:
    """Refuse operands in a format that a kernel does not compute in, or on several devices; None means any format.

    Raises: ValueError: an operand has another format, or lies on another device than the first.
    """
    device: torch.device | None = None
    for name, tensor in operands.items():
        device = device or tensor.device
        if tensor.device != device:
            raise ValueError(f"{name} is on {tensor.device}, and the first operand on {device}")
        if formats is not None and tensor.dtype not in formats:
            raise ValueError(f"{name} is {tensor.dtype}, and the kernel takes {', '.join(map(str, formats))}")


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
