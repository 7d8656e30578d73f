"""Timing of device work by events or graph replays with a cold L2; the result is a distribution, not one number."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import torch

FLUSH_BYTES: Final = 256 * 1024 * 1024
"""Size of the buffer that flushes the caches [bytes]: several times the largest L2 (126 MB on GB200); AMD's 256 MB
Infinity Cache is cleared once over."""
_HEAD_START_CYCLES: Final = 2_000_000
"""Cycles that the GPU spins, about a millisecond, while the host queues the first samples, so that launch gaps are not
measured."""

Call = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Timing:
    """Distribution of the time of one call [s]."""

    p5_s: float
    median_s: float
    p95_s: float
    num_samples: int
    variation: float
    """Standard deviation ÷ mean."""

    def per_call(self, num_calls: int) -> "Timing":
        """Return the distribution per call if each sample covered `num_calls` calls."""
        return Timing(
            self.p5_s / num_calls,
            self.median_s / num_calls,
            self.p95_s / num_calls,
            self.num_samples,
            self.variation,
        )


def summarize(samples_s: Sequence[float]) -> Timing:
    """Percentiles of measured times [s].

    Raises: ValueError: there is no sample.
    """
    if not samples_s:
        raise ValueError("no samples")
    ordered = sorted(samples_s)

    def quantile(fraction: float) -> float:
        position = fraction * (len(ordered) - 1)
        low = math.floor(position)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (position - low) * (ordered[high] - ordered[low])

    mean = sum(ordered) / len(ordered)
    variance = sum((sample - mean) ** 2 for sample in ordered) / len(ordered)
    variation = math.sqrt(variance) / mean if mean > 0 else 0.0
    return Timing(quantile(0.05), quantile(0.5), quantile(0.95), len(ordered), variation)


def synchronize(device: torch.device) -> None:
    """Wait until all work queued on the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


class ColdCache:
    """Cache flush that reads a large buffer.

    Reading leaves no modified lines: after a memset their write-back would be charged to the timed work.
    """

    def __init__(self, device: torch.device, num_bytes: int = FLUSH_BYTES) -> None:
        self._buffer = torch.ones(num_bytes // 4, dtype=torch.float32, device=device)
        self._sum = torch.empty((), dtype=torch.float32, device=device)

    def __call__(self) -> None:
        torch.sum(self._buffer, dim=0, out=self._sum)


def time_calls(
    call: Call, device: torch.device, *, num_warmup: int = 5, num_samples: int = 50, flush: Call | None = None
) -> Timing:
    """Time of each call between two events on the device, caches flushed before each [s].

    Assumes: on CUDA all samples are queued without waiting, so the time excludes the host unless one call
    outlasts its own launch plus the flush. On other devices the time is host time around a synchronised call.
    """
    for _ in range(num_warmup):
        call()
    if device.type != "cuda":
        return _time_on_host(call, device, num_samples, flush)
    starts = [torch.cuda.Event(enable_timing=True) for _ in range(num_samples)]
    ends = [torch.cuda.Event(enable_timing=True) for _ in range(num_samples)]
    torch.cuda.synchronize(device)
    torch.cuda._sleep(_HEAD_START_CYCLES)
    for start, end in zip(starts, ends, strict=True):
        if flush is not None:
            flush()
        start.record()
        call()
        end.record()
    torch.cuda.synchronize(device)
    return summarize([s.elapsed_time(e) * 1e-3 for s, e in zip(starts, ends, strict=True)])


def time_once(call: Call, device: torch.device) -> float:
    """Time of one call between two events on the device's current stream, including the wait [s].

    Assumes: CUDA.
    """
    with torch.cuda.device(device):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
    return start.elapsed_time(end) * 1e-3


def time_graph(
    calls: Sequence[Call], device: torch.device, *, num_repeats: int = 1, num_samples: int = 20
) -> Timing:
    """Time per call when the calls are captured back to back in one graph and replayed [s].

    Assumes: the calls together touch several times the L2 (rotate over inputs), otherwise the cache is measured.
    Without CUDA graphs the calls run one after the other and are timed on the host.
    """
    num_calls = len(calls) * num_repeats
    for call in calls:
        call()

    def run_all() -> None:
        for _ in range(num_repeats):
            for call in calls:
                call()

    if device.type != "cuda":
        return _time_on_host(run_all, device, num_samples, None).per_call(num_calls)
    torch.cuda.synchronize(device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run_all()
    timing = time_calls(graph.replay, device, num_warmup=2, num_samples=num_samples)
    return timing.per_call(num_calls)


def _time_on_host(call: Call, device: torch.device, num_samples: int, flush: Call | None) -> Timing:
    samples: list[float] = []
    for _ in range(num_samples):
        if flush is not None:
            flush()
        synchronize(device)
        started_at_s = time.perf_counter()
        call()
        synchronize(device)
        samples.append(time.perf_counter() - started_at_s)
    return summarize(samples)
