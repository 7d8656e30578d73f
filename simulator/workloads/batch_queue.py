"""Queue of requests that are served in batches, all at once (images, embeddings, audio), and the number of servers that
an objective takes."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapreplace
from typing import Final

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
NUM_REQUESTS: Final = 20_000
"""Number of requests of a run: two hundred of them lie beyond the 99th percentile."""
WARM_UP_FRACTION: Final = 0.1
_QUANTILE: Final = 99.0
_HALVINGS: Final = 10
"""Number of bisections of a rate: to a thousandth of the highest."""
_MOST_SERVERS: Final = 1_000_000
_ROUNDING: Final = 1e-9
"""Rounding tolerance of a share of the load that equals a server's capacity, after division and multiplication."""


@dataclass(frozen=True, slots=True)
class BatchFleet:
    """Servers that hold an objective, each taking up to `max_batch` waiting requests at a time."""

    num_servers: int
    max_batch: int
    latency_p50_s: float
    latency_p99_s: float
    mean_batch: float
    busy_fraction: float


@dataclass(frozen=True, slots=True)
class BatchRun:
    """Latencies of a simulated run after its warm-up."""

    latencies_s: FloatArray
    mean_batch: float
    busy_fraction: float

    def percentile_s(self, percent: float) -> float:
        """Latency within which `percent` % of requests end [s]. Source: order statistic."""
        return float(np.percentile(self.latencies_s, percent))


def simulate_batches(arrivals_s: Sequence[float], batch_s: Sequence[float], num_servers: int) -> BatchRun:
    """Return the latencies of requests that free servers take from one queue in batches, as many as wait and fit [s].

    batch_s[n] is the time of a batch of n; batch_s[0] is unused, the last entry is the largest batch. A free server
    never waits for more requests.

    Assumes: one queue in order of arrival; a batch leaves as a whole.
    Raises: ValueError: no server, or no batch size.
    Source: bulk-service queue with greedy service; held to M/D/1 and M/D/c in tests/simulator/workloads.
    """
    run = _simulate_within(arrivals_s, batch_s, num_servers, np.inf)
    assert run is not None
    return run


def _simulate_within(
    arrivals_s: Sequence[float], batch_s: Sequence[float], num_servers: int, latency_p99_s: float
) -> BatchRun | None:
    """Return the run of `simulate_batches` if its p99 latency holds; None as soon as too many requests have missed it.

    Source: the 99th percentile lies above a latency that more than 1 % of the requests miss.
    """
    if num_servers < 1 or len(batch_s) < 2:
        raise ValueError("a queue needs a server and a batch size")
    largest = len(batch_s) - 1
    count = len(arrivals_s)
    warm_up = int(WARM_UP_FRACTION * count)
    most_missed = int((1.0 - _QUANTILE / 100.0) * (count - warm_up)) + 1
    free = [0.0] * min(num_servers, count)
    ends: list[float] = []
    batches: list[int] = []
    busy_s = 0.0
    first = num_missed = 0
    while first < count:
        start = max(free[0], arrivals_s[first])
        last = first + 1
        if last < count and arrivals_s[last] <= start:
            last = bisect_right(arrivals_s, start, last, min(first + largest, count))
        end = start + batch_s[last - first]
        heapreplace(free, end)
        ends.append(end)
        batches.append(last - first)
        busy_s += batch_s[last - first]
        if end - arrivals_s[last - 1] > latency_p99_s and first >= warm_up:
            num_missed += last - first
            if num_missed > most_missed:
                return None
        first = last
    latencies = np.repeat(ends, batches) - np.asarray(arrivals_s)
    span_s = num_servers * (max(free) - arrivals_s[0])
    busy_fraction = min(1.0, busy_s / span_s) if span_s > 0 else 1.0
    run = BatchRun(latencies[warm_up:], float(np.mean(batches)), busy_fraction)
    return run if latency_p99_s == np.inf or run.percentile_s(_QUANTILE) <= latency_p99_s else None


def poisson_arrivals(rate_per_s: float, num_requests: int, seed: int) -> list[float]:
    """Return the instants of a Poisson process [s]; the same gaps at every rate, scaled. Source: definition."""
    gaps = np.random.Generator(np.random.PCG64(seed)).exponential(1.0, num_requests)
    instants: list[float] = (np.cumsum(gaps) / rate_per_s).tolist()
    return instants


def servers_for(
    rate_per_s: float,
    batch_s: Sequence[float],
    latency_p99_s: float,
    *,
    headroom: float = 1.0,
    seed: int = 0,
    num_requests: int = NUM_REQUESTS,
) -> BatchFleet | None:
    """Return the fewest servers whose p99 latency holds under a Poisson load; None if one request alone misses it.

    With headroom h the fleet also keeps up if every batch takes h times as long, whatever latency that gives. Batch
    limits are tried by powers of two: a larger one carries more and lets some requests wait longer. The number of
    servers is found by bisection over runs that see the same requests.

    Assumes: more servers are never slower.
    Source: own design.
    """
    arrivals = poisson_arrivals(rate_per_s, num_requests, seed)
    best: BatchFleet | None = None
    for largest in _batch_limits(batch_within(batch_s, latency_p99_s)):
        times = list(batch_s[: largest + 1])
        busy = headroom * rate_per_s * min(times[size] / size for size in range(1, largest + 1))
        least = max(1, int(np.ceil(busy - _ROUNDING)))
        if best is not None and least >= best.num_servers:
            continue
        most = best.num_servers - 1 if best else _MOST_SERVERS
        found = _fewest(arrivals, times, latency_p99_s, least, most)
        best = found or best
    return best


def batch_within(batch_s: Sequence[float], latency_s: float) -> int:
    """Largest batch that does not itself last longer than a latency; 0 if a single request lasts longer.

    Source: definition.
    """
    return max((size for size in range(1, len(batch_s)) if batch_s[size] <= latency_s), default=0)


def highest_rate(
    batch_s: Sequence[float],
    latency_p99_s: float,
    *,
    headroom: float = 1.0,
    seed: int = 0,
    num_requests: int = NUM_REQUESTS,
) -> float:
    """Highest Poisson rate that one server carries within a p99 latency [1/s]; 0 if one request alone misses it.

    Assumes: headroom as in servers_for.
    Source: bisection over runs that see the same requests.
    """
    most = batch_within(batch_s, latency_p99_s)
    if not most:
        return 0.0
    gaps = np.asarray(poisson_arrivals(1.0, num_requests, seed))
    high = max(size / batch_s[size] for size in range(1, most + 1)) / headroom
    limits = [list(batch_s[: size + 1]) for size in _batch_limits(most)]
    low = 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        arrivals = (gaps / middle).tolist()
        kept = any(_simulate_within(arrivals, times, 1, latency_p99_s) for times in limits)
        low, high = (middle, high) if kept else (low, middle)
    return low


def _fewest(
    arrivals: list[float], times: list[float], latency_p99_s: float, least: int, most: int
) -> BatchFleet | None:
    low = least
    high = least
    step = 1
    while (held := _simulate_within(arrivals, times, high, latency_p99_s)) is None:
        low = high + 1
        high = high + step
        step = 2 * step
        if low > most:
            return None
    while low < high:
        middle = (low + high) // 2
        run = _simulate_within(arrivals, times, middle, latency_p99_s)
        if run is None:
            low = middle + 1
        else:
            held = run
            high = middle
    if high > most:
        return None
    p50_s, p99_s = map(held.percentile_s, (50.0, _QUANTILE))
    return BatchFleet(high, len(times) - 1, p50_s, p99_s, held.mean_batch, held.busy_fraction)


def _batch_limits(largest: int) -> list[int]:
    if not largest:
        return []
    limits = [1 << power for power in range(largest.bit_length()) if 1 << power <= largest]
    return limits if limits[-1] == largest else [*limits, largest]
