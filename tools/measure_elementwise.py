"""Measure PyTorch's element-wise kernels on one GPU: terabytes and values a second, by what their operands look like.

    python tools/measure_elementwise.py

Kernels whose operands are whole tensors of one format move several values at once and reach the memory's rate. Those
that broadcast an operand, read one with gaps, or widen a format take one value at a time, and finish as many a cycle
whatever their size. Each time is the median of five replays of a CUDA graph of ten launches.
"""

import statistics
from collections.abc import Callable

import torch

NUM_LAUNCHES = 10
NUM_REPLAYS = 5
SHAPES = ((2048, 2048), (8192, 4096), (8192, 14336), (32768, 768), (131072, 2048))


def seconds(kernel: Callable[[], torch.Tensor]) -> float:
    """Return the time of one launch [s]."""
    for _ in range(3):
        kernel()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(NUM_LAUNCHES):
            kernel()
    found = []
    for _ in range(NUM_REPLAYS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        found.append(begin.elapsed_time(end) * 1e-3 / NUM_LAUNCHES)
    return float(statistics.median(found))


def kernels(num_tokens: int, width: int) -> dict[str, tuple[Callable[[], torch.Tensor], int]]:
    """Return each kernel on [num_tokens, width], with the bytes that it moves per value."""
    x, y = (torch.randn(num_tokens, width, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    both = torch.randn(num_tokens, 2 * width, device="cuda", dtype=torch.bfloat16)
    column = torch.randn(num_tokens, 1, device="cuda", dtype=torch.bfloat16)
    row = torch.randn(width, device="cuda", dtype=torch.bfloat16)
    wide = x.float()
    wide_row = row.float()
    wide_column = column.float()
    return {
        "whole: bf16 + bf16": (lambda: x + y, 6),
        "whole: fp32 squared": (lambda: wide.pow(2), 8),
        "whole: fp32 to bf16": (wide.bfloat16, 6),
        "broadcast: bf16 x row": (lambda: x * row, 4),
        "broadcast: bf16 x column": (lambda: x * column, 4),
        "broadcast: fp32 x row": (lambda: wide * wide_row, 8),
        "broadcast: fp32 x column": (lambda: wide * wide_column, 8),
        "gaps: SiLU of a half": (lambda: torch.nn.functional.silu(both[:, :width]), 4),
        "gaps: product with a half": (lambda: x * both[:, width:], 6),
        "gaps: transposed copy": (lambda: x.view(-1, 64, width).transpose(0, 1).contiguous(), 4),
        "widening: bf16 to fp32": (x.float, 6),
        "two formats: bf16 + fp32": (lambda: x + wide, 10),
        "two formats: bf16 x fp32 column": (lambda: x * wide_column, 6),
    }


def main() -> None:
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    print(torch.cuda.get_device_name(), torch.__version__, f"{processors} processors")
    print(f"{'kernel':34}", *(f"{tokens} x {width}".rjust(22) for tokens, width in SHAPES))
    found: dict[str, list[str]] = {}
    for tokens, width in SHAPES:
        for name, (kernel, num_bytes) in kernels(tokens, width).items():
            per_s = tokens * width / seconds(kernel)
            found.setdefault(name, []).append(f"{per_s * num_bytes * 1e-12:.2f} TB/s {per_s * 1e-9:5.0f} G/s")
    for name, cells in found.items():
        print(f"{name:34}", *(cell.rjust(22) for cell in cells))


if __name__ == "__main__":
    main()
