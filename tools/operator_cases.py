"""Operators of language models at the sizes that serving meets, each timed in a replayed graph on cold inputs."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from llama_step import Llama, Shape
from torch.nn import functional

from advisor.kernels import activations, attention, decode_attention, empty, grouped_gemm
from advisor.kernels.timing import Call, Timing, summarize, time_calls, time_graph, time_once
from advisor.probes import nvml

Point = dict[str, Any]

COLD_BYTES = 250e6
"""Inputs that rotate in a graph add up to at least this: several times the L2."""
MOST_COPIES = 96
BURST_S = 0.03
"""Matrix units at full speed meet the power limit after about this long; bursts are shorter."""
REST_S = 0.3
RATE_FLOP_PER_S = 7e14

DECODE_HEADS = ((32, 8), (8, 1), (64, 8))
"""Query and key-value heads: Llama-3.1-8B, a rank of Llama-3.1-70B under TP8, one GPU with Qwen3-32B's 64."""
DECODE_BATCHES = (1, 4, 8, 16, 64, 256)
DECODE_CONTEXTS = (512, 1024, 2048, 4096, 8192, 32768)
MOST_CACHE_BYTES = 40e9
PREFILL_TOKENS = (128, 512, 1024, 2048, 4096, 8192, 16384, 32768)
MATMUL_ROWS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
MATMUL_SHAPES = ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (128256, 4096))
"""Columns and depth of Llama-3.1-8B's matrices."""
EXPERTS = {
    "qwen3-30b-a3b": (2048, 768, 128, 8),
    "mixtral-8x7b": (4096, 14336, 8, 2),
    "deepseek-v3": (7168, 2048, 256, 8),
}
"""Hidden size, intermediate size, experts, experts per token."""
EXPERT_TOKENS = (1, 4, 16, 64, 256, 1024, 4096)
EXPERT_SKEWS = (0.0, 0.7, 2.0)
"""Coefficients of variation of the experts' popularity."""
NUM_ROUTINGS = 3
STEP_BATCHES = (1, 8, 64, 256)
STEP_CONTEXTS = (512, 4096)
STEP_PROMPTS = (128, 256, 512, 1024, 2048, 4096, 8192)
NUM_EAGER_STEPS = 8
NUM_RESTED = 5
"""Prompts that come one at a time: each replay starts from rest, below the power limit."""
NUM_LAUNCHES = 1000
SHORT_CONTEXTS = (64, 128, 256)
SUSTAINED_ROWS = (512, 2048, 8192)
SUSTAINED_S = 4.0
SUSTAINED_LAYERS = 4
SUSTAINED_ENDS_S = (0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 2.0, SUSTAINED_S)
"""Ends of the spans of which each gives a point: when the power limit sets in, and what it leaves."""
CHUNK_S = 0.01


def point(operator: str, instrument: str, shape: dict[str, object], timing: Timing) -> Point:
    """One measured time with its spread, SI."""
    return {
        "operator": operator,
        "instrument": instrument,
        **shape,
        "median_s": float(f"{timing.median_s:.4g}"),
        "p5_s": float(f"{timing.p5_s:.4g}"),
        "p95_s": float(f"{timing.p95_s:.4g}"),
        "num_samples": timing.num_samples,
    }


def time_call_graph(calls: Sequence[Call], device: torch.device, flop: float = 0.0) -> Timing:
    """Time per call of a graph of all calls [s]; a burst from rest where the matrix units are at work."""
    burst_s = len(calls) * flop / RATE_FLOP_PER_S
    if burst_s > BURST_S / 100.0:
        torch.cuda.synchronize()
        time.sleep(REST_S)
    num_samples = max(5, min(20, int(BURST_S / burst_s))) if burst_s else 20
    return time_graph(calls, device, num_samples=num_samples)


def copies(num_bytes: float) -> int:
    """How many inputs of so many bytes rotate [count]."""
    return max(1, min(MOST_COPIES, round(COLD_BYTES / num_bytes + 0.5)))


def short_decode_points(device: torch.device) -> Iterator[Point]:
    """Decode attention where launches and the merge decide."""
    return decode_points(device, SHORT_CONTEXTS)


def decode_points(device: torch.device, contexts: Sequence[int] = DECODE_CONTEXTS) -> Iterator[Point]:
    """One token per sequence over a paged cache in bf16, head size 128, pages of 16."""
    for heads, kv_heads in DECODE_HEADS:
        for batch in DECODE_BATCHES:
            for context in contexts:
                num_bytes = decode_attention.bytes(kv_heads, 128, batch * context, 2)
                if num_bytes > MOST_CACHE_BYTES:
                    continue
                sets = [
                    decode_attention.make_inputs(heads, kv_heads, 128, [context] * batch, 16, seed, device)
                    for seed in range(copies(num_bytes))
                ]
                calls = [partial(decode_attention.run, *inputs) for inputs in sets]
                shape = {"batch": batch, "context": context, "heads": heads, "kv_heads": kv_heads}
                yield point("attention_decode", "triton", shape, time_call_graph(calls, device))


def prefill_points(device: torch.device) -> Iterator[Point]:
    """Causal attention of one prompt, 32 heads of 128 over 8."""
    for tokens in PREFILL_TOKENS:
        q, k, v = attention.make_inputs(1, tokens, tokens, 32, 8, 128, 0, device)
        turned = tuple(x.transpose(1, 2) for x in (q, k, v))
        flop = attention.flop(1, tokens, tokens, 32, 128, True)
        library = partial(functional.scaled_dot_product_attention, *turned, is_causal=True, enable_gqa=True)
        for name, call in (("triton", partial(attention.run, q, k, v, True)), ("torch", library)):
            yield point("attention_prefill", name, {"tokens": tokens}, time_call_graph([call], device, flop))


def matmul_points(device: torch.device) -> Iterator[Point]:
    """The vendor's library over the matrices of a dense model, weights cold."""
    for columns, depth in MATMUL_SHAPES:
        weights = [
            torch.randn((columns, depth), device=device, dtype=torch.bfloat16)
            for _ in range(copies(2.0 * columns * depth))
        ]
        for rows in MATMUL_ROWS:
            x = torch.randn((rows, depth), device=device, dtype=torch.bfloat16)
            calls = [partial(torch.mm, x, weight.T) for weight in weights]
            timing = time_call_graph(calls, device, 2.0 * rows * columns * depth)
            yield point("matmul", "torch", {"rows": rows, "columns": columns, "depth": depth}, timing)


def expert_points(device: torch.device) -> Iterator[Point]:
    """Routed experts of one layer: both grouped products with SwiGLU between, against tokens and skew."""
    for model, (hidden, inner, num_experts, per_token) in EXPERTS.items():
        up = random_weights((num_experts, 2 * inner, hidden), device)
        down = random_weights((num_experts, hidden, inner), device)
        for tokens in EXPERT_TOKENS:
            for skew in EXPERT_SKEWS:
                sizes = [
                    routed_rows(tokens, num_experts, per_token, skew, seed, device)
                    for seed in range(NUM_ROUTINGS)
                ]
                x = torch.randn((tokens * per_token, hidden), device=device, dtype=torch.bfloat16)
                shape = {
                    "model": model,
                    "tokens": tokens,
                    "skew": skew,
                    "mean_active_experts": sum(int((size > 0).sum()) for size in sizes) / NUM_ROUTINGS,
                    "mean_largest_group": sum(int(size.max()) for size in sizes) / NUM_ROUTINGS,
                }
                flop = 6.0 * tokens * per_token * hidden * inner
                for name, make in (("triton", our_experts), ("torch", torch_experts)):
                    calls = [make(x, up, down, size) for size in sizes]
                    yield point("experts", name, shape, time_call_graph(calls, device, flop))


def sustained_points(device: torch.device) -> Iterator[Point]:
    """The products of dense layers without a pause, from rest: time of a layer, clock and power by time since then."""
    shapes = MATMUL_SHAPES[:4]
    weights = [
        torch.randn(shape, device=device, dtype=torch.bfloat16)
        for _ in range(SUSTAINED_LAYERS)
        for shape in shapes
    ]
    gpu = nvml.handle(device.index or 0)
    for rows in SUSTAINED_ROWS:
        x = {depth: torch.randn((rows, depth), device=device, dtype=torch.bfloat16) for _, depth in shapes}
        out = {columns: x[4096].new_empty((rows, columns)) for columns, _ in shapes}
        graph = torch.cuda.CUDAGraph()
        torch.mm(x[4096], weights[0].T, out=out[weights[0].shape[0]])
        with torch.cuda.graph(graph):
            for weight in weights:
                torch.mm(x[weight.shape[1]], weight.T, out=out[weight.shape[0]])
        graph.replay()
        once_s = time_once(graph.replay, device)
        chunk = max(1, round(CHUNK_S / once_s))
        torch.cuda.synchronize()
        time.sleep(2.0)
        yield from _spans(rows, _chunks(graph, chunk, gpu), chunk * SUSTAINED_LAYERS)


def _chunks(
    graph: torch.cuda.CUDAGraph, num_replays: int, gpu: Any
) -> list[tuple[float, float, float, float]]:
    """Time since the start, duration, clock and power of chunks of replays, the next always queued already."""
    marks = [torch.cuda.Event(enable_timing=True)]
    marks[0].record()
    found: list[tuple[float, float, float, float]] = []
    while not found or found[-1][0] < SUSTAINED_S:
        for _ in range(num_replays):
            graph.replay()
        marks.append(torch.cuda.Event(enable_timing=True))
        marks[-1].record()
        if len(marks) > 2:
            marks[-2].synchronize()
            clock_hz = nvml.MEGAHERTZ * (nvml.field("nvmlDeviceGetClockInfo", gpu, 1) or 0)
            power_w = nvml.MILLIWATT * (nvml.field("nvmlDeviceGetPowerUsage", gpu) or 0)
            until_s, took_s = (1e-3 * mark.elapsed_time(marks[-2]) for mark in (marks[0], marks[-3]))
            found.append((until_s, took_s, clock_hz, power_w))
    torch.cuda.synchronize()
    return found


def _spans(
    rows: int, chunks: list[tuple[float, float, float, float]], layers_per_chunk: int
) -> Iterator[Point]:
    begin_s = 0.0
    for end_s in SUSTAINED_ENDS_S:
        inside = [chunk for chunk in chunks if begin_s < chunk[0] <= end_s]
        if inside:
            timing = summarize([took_s / layers_per_chunk for _, took_s, _, _ in inside])
            clocks, powers = ([chunk[index] for chunk in inside] for index in (2, 3))
            shape = {
                "rows": rows,
                "from_s": begin_s,
                "to_s": end_s,
                "mean_sm_clock_hz": round(sum(clocks) / len(clocks)),
                "mean_power_w": round(sum(powers) / len(powers), 1),
            }
            yield point("layer_products", "torch", shape, timing)
        begin_s = end_s


def random_weights(size: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """Random weights, expert by expert, so that no second copy is needed."""
    weights = torch.empty(size, device=device, dtype=torch.bfloat16)
    for expert in weights:
        expert.normal_(std=size[-1] ** -0.5)
    return weights


def routed_rows(
    tokens: int, num_experts: int, per_token: int, skew: float, seed: int, device: torch.device
) -> torch.Tensor:
    """Rows of each expert when every token picks distinct experts by lognormal popularity. Shapes: -> [experts]."""
    generator = torch.Generator().manual_seed(seed)
    sigma = torch.log1p(torch.tensor(skew**2)).sqrt()
    popularity = sigma * torch.randn(num_experts, generator=generator)
    gumbel = -torch.log(-torch.log(torch.rand((tokens, num_experts), generator=generator)))
    chosen = (popularity + gumbel).topk(per_token, dim=1).indices
    return torch.bincount(chosen.flatten(), minlength=num_experts).to(device)


def our_experts(x: torch.Tensor, up: torch.Tensor, down: torch.Tensor, sizes: torch.Tensor) -> Call:
    """Return both matmuls by this project's kernel, with a schedule that was made before, as for the layer's two."""
    config = grouped_gemm.choose_config(x.shape[0], sizes.numel())
    schedule = grouped_gemm.make_schedule(sizes, x.shape[0], config.block_m)

    def call() -> torch.Tensor:
        between = activations.run("swiglu", grouped_gemm.run(x, up, sizes, config=config, schedule=schedule))
        return grouped_gemm.run(between, down, sizes, config=config, schedule=schedule)

    return call


def torch_experts(x: torch.Tensor, up: torch.Tensor, down: torch.Tensor, sizes: torch.Tensor) -> Call:
    """Return both matmuls by torch."""
    ends = torch.cumsum(sizes, 0, dtype=torch.int32)
    multiply: Callable[..., torch.Tensor] = getattr(functional, "grouped_mm", torch._grouped_mm)

    def call() -> torch.Tensor:
        between = activations.run("swiglu", multiply(x, up.transpose(1, 2), offs=ends))
        return multiply(between, down.transpose(1, 2), offs=ends)

    return call


def launch_points(device: torch.device) -> Iterator[Point]:
    """Interval of kernels that do nothing, launched one by one and in a graph."""
    x = torch.zeros(1, device=device)
    for name, call in (("torch", x.zero_), ("triton", partial(empty.run, x))):
        many = [call] * NUM_LAUNCHES
        yield point("launch", name, {"mode": "eager"}, wall([lambda m=many: [c() for c in m]], NUM_LAUNCHES))
        yield point("launch", name, {"mode": "graph"}, time_graph(many, device))


def wall(calls: Sequence[Call], num_parts: int = 1, num_samples: int = 5) -> Timing:
    """Time of a call by the host's clock until the device is done, per part [s]."""
    samples = []
    for _ in range(num_samples + 1):
        for call in calls:
            torch.cuda.synchronize()
            begun_s = time.perf_counter()
            call()
            torch.cuda.synchronize()
            samples.append((time.perf_counter() - begun_s) / num_parts)
    return summarize(samples[len(calls) :])


def step_points(device: torch.device) -> Iterator[Point]:
    """Whole passes of a Llama-3.1-8B-shaped model: decode steps and prompts, in a graph and kernel by kernel."""
    model = Llama(device, Shape())
    for batch in STEP_BATCHES:
        for context in STEP_CONTEXTS:
            model.prepare_decode(batch, context)
            yield from _both_ways("decode_step", {"batch": batch, "context": context}, model.decode, device)
    for tokens in STEP_PROMPTS:
        model.prepare_prefill(tokens)
        yield from _both_ways("prefill_step", {"tokens": tokens}, model.prefill, device)


def _both_ways(operator: str, shape: dict[str, object], call: Call, device: torch.device) -> Iterator[Point]:
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    eager = wall([lambda: [call() for _ in range(NUM_EAGER_STEPS)]], NUM_EAGER_STEPS)
    yield point(operator, "eager", shape, eager)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    yield point(operator, "graph", shape, time_calls(graph.replay, device, num_warmup=3, num_samples=10))
    if operator == "prefill_step":
        samples = []
        for _ in range(NUM_RESTED):
            torch.cuda.synchronize()
            time.sleep(REST_S)
            samples.append(time_once(graph.replay, device))
        yield point(operator, "graph from rest", shape, summarize(samples))
    del graph
    torch.cuda.empty_cache()
