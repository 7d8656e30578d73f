"""Cost of a kernel that does nothing: launched one by one, in a replayed graph, and waited for."""

import time
from typing import Final

import torch

from advisor.kernels import empty
from advisor.kernels.timing import Call, summarize, time_calls
from advisor.probes.bench import Bench
from advisor.probes.record import Measurement

_NUM_KERNELS: Final = 1000
_NUM_SAMPLES: Final = 20


def launch(bench: Bench) -> list[Measurement]:
    """Measure the interval of empty kernels in a stream and in a graph, and the round trip of one
    launch and its wait.
    """
    if bench.device.type != "cuda":
        return [bench.skip("launch.graph_interval", "the device has no graphs in torch")]
    x = torch.zeros(1, device=bench.device)

    def torch_kernels() -> None:
        for _ in range(_NUM_KERNELS):
            x.zero_()

    def empty_kernels() -> None:
        for _ in range(_NUM_KERNELS):
            empty.run(x)

    found = []
    for name, many in (("torch", torch_kernels), ("triton", empty_kernels)):
        found.append(_interval(bench, "launch.stream_interval", name, many))
        graph = _capture_graph(many)
        timing = time_calls(graph.replay, bench.device, num_warmup=2, num_samples=_NUM_SAMPLES)
        pattern = f"{_NUM_KERNELS} kernels in a graph"
        found.append(bench.duration("launch.graph_interval", name, pattern, timing.per_call(_NUM_KERNELS)))
    found.append(_round_trip(bench, x))
    return found


def _capture_graph(many: Call) -> torch.cuda.CUDAGraph:
    many()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        many()
    return graph


def _interval(bench: Bench, check: str, instrument: str, many: Call) -> Measurement:
    """Measure host time per launch while the queue never runs empty or full."""
    many()
    torch.cuda.synchronize(bench.device)
    samples = []
    for _ in range(5):
        started_at_s = time.perf_counter()
        many()
        torch.cuda.synchronize(bench.device)
        samples.append((time.perf_counter() - started_at_s) / _NUM_KERNELS)
    return bench.duration(check, instrument, f"{_NUM_KERNELS} kernels one by one", summarize(samples))


def _round_trip(bench: Bench, x: torch.Tensor) -> Measurement:
    samples = []
    for _ in range(200):
        started_at_s = time.perf_counter()
        x.zero_()
        torch.cuda.synchronize(bench.device)
        samples.append(time.perf_counter() - started_at_s)
    return bench.duration("launch.round_trip", "torch", "one launch and the wait for it", summarize(samples))
