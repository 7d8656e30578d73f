"""How much load one replica carries within its service levels: bracketing by simulation."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from advisor.recommend.scenario import Objectives, Traffic
from advisor.simulator.replica_model import ReplicaModel
from advisor.simulator.serving import (
    ClosedLoop,
    EmpiricalLengths,
    FixedLengths,
    LognormalLengths,
    Poisson,
    ServingResult,
    Workload,
    simulate,
)
from advisor.simulator.serving.trace_files import read_trace

SEARCH_REQUESTS = 300
"""Requests of one trial while bracketing."""
CONFIRM_REQUESTS = 2000
"""Requests of the run whose figures are shown: twenty lie beyond the 99th percentile."""
_TOLERANCE = 0.05
_MAX_TRIALS = 9
_CONFIRM_STEP = 0.96
_MAX_CONFIRMATIONS = 6
_LEAST_RATE = 1e-3
"""Requests per second below which a replica is no answer: one request in a quarter of an hour."""
_KEEPS_UP = 0.9


@dataclass(frozen=True, slots=True)
class Capacity:
    """The highest load of one replica within the objectives, and the run that shows it."""

    load: float
    """Requests per second, or clients where the traffic is a closed loop."""
    result: ServingResult
    num_requests: int
    """Simulated over all trials."""
    binding: str
    """What breaks first above this load: ttft, tpot, throughput or kv cache."""

    @property
    def requests_per_s(self) -> float:
        """Served by one replica at this load."""
        served = self.result.steady_requests_per_s
        return served if served is not None else self.result.requests_per_s


def highest_load(
    replica: ReplicaModel, traffic: Traffic, objectives: Objectives, *, bound_per_s: float, seed: int
) -> Capacity | None:
    """The highest load of one replica whose p99 TTFT and TPOT meet the objectives, by bisection on short runs.

    Open loop: a Poisson rate. Closed loop (the traffic names a concurrency): a number of clients. All trials draw
    the same request lengths and unit-rate gaps (common random numbers), so that they differ by the load alone.
    None where even the lightest load misses an objective.

    Assumes: `bound_per_s` is an upper bound on requests per second.
    Source: own procedure.
    """
    if traffic.concurrency is not None:
        return _bracket(replica, traffic, objectives, 1.0, float(traffic.concurrency), seed, whole=True)
    return _bracket(replica, traffic, objectives, _LEAST_RATE, bound_per_s * 1.05, seed, whole=False)


def confirm(
    replica: ReplicaModel, traffic: Traffic, objectives: Objectives, found: Capacity, seed: int
) -> Capacity | None:
    """Run long at the load found; step down while the longer run misses what the short one met.

    Source: own procedure.
    """
    load, binding, spent = found.load, found.binding, found.num_requests
    for _ in range(_MAX_CONFIRMATIONS):
        result = run_at(replica, traffic, load, CONFIRM_REQUESTS, seed)
        spent += CONFIRM_REQUESTS
        missed = misses(result, traffic, load, objectives)
        if not missed:
            return Capacity(load, result, spent, binding)
        load, binding = load * _CONFIRM_STEP, missed
        if traffic.concurrency is not None:
            load = math.floor(load)
            if load < 1:
                return None
    return None


def run_at(
    replica: ReplicaModel, traffic: Traffic, load: float, num_requests: int, seed: int
) -> ServingResult:
    """Simulate one replica under a Poisson rate, or under a number of clients where the traffic is a closed loop.

    Source: simulator.serving.
    """
    if traffic.concurrency is None:
        workload = Workload(Poisson(load), lengths_of(traffic), num_requests)
    else:
        clients = max(1, round(load))
        workload = Workload(ClosedLoop(clients), lengths_of(traffic), max(num_requests, 4 * clients))
    return simulate(replica.surface, replica.policy, workload, seed=seed)


def lengths_of(traffic: Traffic) -> FixedLengths | LognormalLengths | EmpiricalLengths:
    """The length distribution of a traffic: a trace's pairs, lognormal around the means, or fixed without spread.

    Source: own definition.
    """
    if traffic.trace is not None:
        return EmpiricalLengths(_trace_pairs(traffic.trace))
    inputs, outputs = traffic.mean_input_tokens, traffic.mean_output_tokens
    if traffic.input_sigma <= 0 and traffic.output_sigma <= 0:
        return FixedLengths(inputs, outputs)
    tiny = 1e-3  # a lognormal needs a spread; this one stays within a token
    return LognormalLengths(
        inputs,
        outputs,
        sigma=max(traffic.input_sigma, tiny),
        output_sigma=max(traffic.output_sigma, tiny),
        max_input_tokens=traffic.max_input_tokens,
        max_output_tokens=traffic.max_output_tokens,
    )


def misses(result: ServingResult, traffic: Traffic, load: float, objectives: Objectives) -> str:
    """Which objective a run misses first: kv cache, ttft, tpot, throughput; empty if it meets all.

    An open-loop run keeps up when its steady throughput stays near the offered rate: a queue that grows through a
    short run may still meet the latency objectives.

    Source: own definition.
    """
    if result.num_refused:
        return "kv cache"
    if result.ttft.p99_s > objectives.ttft_p99_s:
        return "ttft"
    if math.isfinite(result.tpot.p99_s) and result.tpot.p99_s > objectives.tpot_p99_s:
        return "tpot"
    served = result.steady_requests_per_s
    if traffic.concurrency is None and served is not None and served < _KEEPS_UP * load:
        return "throughput"
    return ""


def _bracket(
    replica: ReplicaModel,
    traffic: Traffic,
    objectives: Objectives,
    least: float,
    most: float,
    seed: int,
    *,
    whole: bool,
) -> Capacity | None:
    """Bisect between the lightest load that makes sense and a bound; the first guess is near the bound."""
    rounded: Callable[[float], float] = round if whole else float
    low, high, best, binding = 0.0, most, None, "throughput"
    load = rounded(most) if whole else most * 0.7
    spent = 0
    for _ in range(_MAX_TRIALS):
        if load < least:
            break
        result = run_at(replica, traffic, load, SEARCH_REQUESTS, seed)
        spent += SEARCH_REQUESTS
        missed = misses(result, traffic, load, objectives)
        if missed:
            high, binding = load, missed
        else:
            low, best = load, result
        if whole and low >= most:
            break
        if high - low <= (1.0 if whole else _TOLERANCE * high):
            break
        load = rounded((low + high) / 2.0 if low else high * 0.5)
    return Capacity(low, best, spent, binding) if best is not None else None


@lru_cache(maxsize=4)
def _trace_pairs(path: Path) -> tuple[tuple[int, int], ...]:
    return tuple(read_trace(path).pairs)
