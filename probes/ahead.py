"""Process that runs during the first step: it reports what torch knows of the GPUs, then compiles the kernels of later
steps.

Workers find the kernels in Triton's cache on disk. They time nothing until this process, which holds their lock, has
ended.
"""

import sys
from contextlib import suppress
from typing import Any

import torch

from advisor.probes.compute import SIZE, size_of
from advisor.probes.devices import describe
from advisor.probes.events import claim_stdout, emit
from advisor.probes.memory import LARGEST_BUFFER_BYTES


def main() -> int:
    """Report the GPUs, then compile; a kernel that cannot be compiled here is compiled by the step that needs it."""
    events = claim_stdout()
    runtime, nccl, gpus = describe()
    emit(events, {"runtime": runtime, "nccl": nccl, "gpus": gpus})
    if runtime == "cuda" and gpus:
        from advisor.kernels.backend import has_fp8

        device = torch.device("cuda", 0)
        launches_compile_alone()
        with suppress(Exception):
            compile_kernels(size_of(device), has_fp8=has_fp8(device))
    return 0


def launches_compile_alone() -> None:
    """Make all further launches of this process compile the kernel and its launcher, without running it."""
    from triton.runtime import driver
    from triton.runtime.jit import JITFunction

    launch = JITFunction.run

    def run(self: Any, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        kernel = launch(self, *arguments, grid=grid, warmup=True, **options)
        with suppress(Exception):  # this part is built by Triton with the host's compiler
            driver.active.launcher_cls(kernel.src, kernel.metadata)
        return kernel

    JITFunction.run = run


def compile_kernels(size: int = SIZE, *, has_fp8: bool = True) -> None:
    """Compile the launches of a quick probe, in the order of its steps, on tensors of the meta device, which take no
    memory."""
    from advisor.kernels import copy, empty, gemm

    def tensor(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    large = tensor(int(LARGEST_BUFFER_BYTES) // 4)
    for pattern in copy.CONFIGS:
        copy.run(pattern, large, large, large)
    half = tensor(size, size, dtype=torch.bfloat16)
    gemm.run(half, half)
    if has_fp8:
        quarter = tensor(size, size, dtype=torch.float8_e4m3fn)
        gemm.run(quarter, quarter, tensor(1))
    empty.run(tensor(1))


if __name__ == "__main__":
    sys.exit(main())
