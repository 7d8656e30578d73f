"""Rate of experts' products as training runs them, on a CUDA machine: one cuBLAS product each, on four streams.

So TransformerEngine's grouped linear layer and grouped_gemm on Hopper do it. Each shape runs for seconds on normal
values, so that clocks are those of the power limit; single large products beside them for comparison.

python tools/measure_experts.py > experts.csv
"""

import time
from collections.abc import Callable

import torch

STREAMS, SECONDS = 4, 1.5
SHAPES = (
    ("gpt-oss-120b, micro-batch 1", 16, 2880, 2880, 1024, 2),
    ("gpt-oss-120b, micro-batch 4", 16, 2880, 2880, 4096, 2),
    ("qwen3-30b-a3b, micro-batch 1", 16, 2048, 768, 2048, 2),
    ("qwen3-30b-a3b, micro-batch 4", 16, 2048, 768, 8192, 2),
    ("nemotron-3-nano, micro-batch 4", 16, 2688, 1856, 6144, 1),
    ("deepseek-v3", 4, 7168, 2048, 8192, 2),
    ("mixtral-8x7b", 8, 4096, 14336, 2048, 2),
)
"""Name, experts of a rank, hidden and inner size, rows of an expert, matrices of its first product."""
DENSE = ((8192, 8192, 8192), (4096, 8192, 57344))


def seconds_of(run: Callable[[], None]) -> float:
    """Mean time of a call [s], over seconds of them."""
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        for _ in range(5):
            run()
        torch.cuda.synchronize()
        count += 5
    return (time.perf_counter() - start) / count


def values(rows: int, columns: int) -> torch.Tensor:
    return torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16)


def flop_per_s(experts: int, rows: int, depth: int, columns: int, streams: list[torch.cuda.Stream]) -> float:
    """Of so many products of one shape."""
    operands = [(values(rows, depth), values(depth, columns), values(rows, columns)) for _ in range(experts)]

    def run() -> None:
        current = torch.cuda.current_stream()
        for stream in streams:
            stream.wait_stream(current)
        for number, (left, right, out) in enumerate(operands):
            with torch.cuda.stream(streams[number % STREAMS]):
                torch.mm(left, right, out=out)
        for stream in streams:
            current.wait_stream(stream)

    return 2.0 * experts * rows * depth * columns / seconds_of(run)


def main() -> None:
    streams = [torch.cuda.Stream() for _ in range(STREAMS)]
    print(f"# {torch.cuda.get_device_name()}, torch {torch.__version__}")
    print("name,experts,rows,depth,columns,tflop_per_s")
    for name, experts, hidden, inner, rows, matrices in SHAPES:
        wide = matrices * inner
        for shape in (
            (rows, hidden, wide),
            (rows, inner, hidden),
            (rows, wide, hidden),
            (hidden, rows, wide),
        ):
            rate = flop_per_s(experts, *shape, streams) / 1e12
            print(f'"{name}",{experts},{",".join(map(str, shape))},{rate:.0f}', flush=True)
    for shape in DENSE:
        print(f"dense,1,{','.join(map(str, shape))},{flop_per_s(1, *shape, streams) / 1e12:.0f}", flush=True)


if __name__ == "__main__":
    main()
