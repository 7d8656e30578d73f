"""Rate of experts' products as training runs them, on a CUDA machine: one cuBLAS product each, on four streams.

So TransformerEngine's grouped linear layer and grouped_gemm on Hopper do it. Each shape runs for seconds on normal
values, so that clocks are those of the power limit; single large products beside them for comparison. Below them what
stands beside gpt-oss's products in Megatron, forward and with its backward pass, and a product that adds to an fp32
gradient beside one that does not.

python tools/measure_experts.py > experts.csv
"""

import time
from collections.abc import Callable

import torch

STREAMS = 4
SECONDS = 1.5
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
    count = 0
    start = time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        for _ in range(5):
            run()
        torch.cuda.synchronize()
        count += 5
    return (time.perf_counter() - start) / count


def values(rows: int, columns: int) -> torch.Tensor:
    return torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16)


def flop_per_s(experts: int, rows: int, depth: int, columns: int, streams: list[torch.cuda.Stream]) -> float:
    """Rate of `experts` matmuls of one shape on several streams [FLOP/s]."""
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


def clamp_halves(wide: torch.Tensor) -> torch.Tensor:
    """Clamp both halves one by one and joined, as megatron/core/fusions/fused_bias_geglu.py does."""
    gate, linear = wide.chunk(2, -1)
    return torch.cat((gate.clamp(max=7.0), linear.clamp(-7.0, 7.0)), -1)


def add_bias(out: torch.Tensor, biases: list[torch.Tensor], shares: torch.Tensor) -> torch.Tensor:
    """Each expert's bias, weighed by the router's shares, as megatron/core/transformer/moe/experts.py adds it."""
    rows = [len(out) // len(biases)] * len(biases)
    parts = zip(out.split(rows), biases, shares.split(rows), strict=True)
    return torch.cat([part + bias * share for part, bias, share in parts]).to(out.dtype)


def beside(name: str, run: Callable[[], torch.Tensor], leaves: list[torch.Tensor]) -> None:
    """Prints the time of an operator and of it with its backward pass [ms]."""
    above = torch.randn_like(run())
    with torch.no_grad():
        forward = seconds_of(lambda: (run(), None)[1])
    both = seconds_of(lambda: (torch.autograd.grad(run(), leaves, above), None)[1])
    print(f"{name},{forward * 1e3:.3f},{both * 1e3:.3f}", flush=True)


def beside_products(experts: int, rows: int, hidden: int) -> None:
    """Time the operators around gpt-oss's matmuls, whose inner size is the hidden one."""
    wide = values(experts * rows, 2 * hidden)
    out = values(experts * rows, hidden)
    biases = [values(1, hidden)[0] for _ in range(experts)]
    for tensor in (wide, out, *biases):
        tensor.requires_grad_()
    beside(f"clamp {rows}", lambda: clamp_halves(wide), [wide])
    for dtype in (torch.bfloat16, torch.float32):
        shares = torch.rand(experts * rows, 1, device="cuda", dtype=dtype, requires_grad=True)
        leaves = [out, shares, *biases]
        beside(f"bias {rows} {dtype}", lambda leaves=leaves: add_bias(out, biases, leaves[1]), leaves)
    left = values(rows, hidden)
    right = values(rows, 2 * hidden)
    main = torch.zeros(hidden, 2 * hidden, device="cuda")
    short = values(hidden, 2 * hidden)
    alone = seconds_of(lambda: (torch.mm(left.t(), right, out=short), None)[1])
    added = seconds_of(
        lambda: (torch.addmm(main, left.t(), right, out_dtype=torch.float32, out=main), None)[1]
    )
    print(f"gradient {rows},{experts * alone * 1e3:.3f},{experts * added * 1e3:.3f}", flush=True)


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
    print("beside the products,forward_ms,both_ms")
    for rows in (1024, 4096):
        beside_products(16, rows, 2880)


if __name__ == "__main__":
    main()
