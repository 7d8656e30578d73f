"""How much load one replica carries within its service levels: bracketing by simulation."""

import math
from dataclasses import dataclass

from advisor.recommend.scenario import Objectives, Traffic
from advisor.simulator.replica_model import ReplicaModel
from advisor.simulator.serving import (
    ClosedLoop,
    FixedLengths,
    LognormalLengths,
    Poisson,
    ServingResult,
    Workload,
    simulate,
)

SEARCH_REQUESTS = 400
"""Requests of one trial while bracketing."""
FINAL_REQUESTS = 2000
"""Requests of the run whose figures are shown: twenty lie beyond the 99th percentile."""
_TOLERANCE = 0.03
_LEAST_RATE = 1e-3
"""Requests per second below which a replica is no answer: one request in a quarter of an hour."""
_MAX_TRIALS = 12


@dataclass(frozen=True, slots=True)
class Capacity:
    """The highest load of one replica within the objectives, and the run that shows it."""

    requests_per_s: float
    result: ServingResult
    num_trials: int
    num_requests: int
    """Simulated over all trials."""
    binding: str
    """What breaks first above this load: ttft, tpot or throughput."""


def highest_rate(
    replica: ReplicaModel, traffic: Traffic, objectives: Objectives, *, bound_per_s: float, seed: int
) -> Capacity | None:
    """The highest Poisson rate of one replica whose p99 TTFT and TPOT meet the objectives, by bisection.

    All trials draw the same request lengths and the same unit-rate gaps (common random numbers), so that trials
    differ by the rate alone. None where even one request at a time misses an objective.

    Assumes: `bound_per_s` is an upper bound.
    Source: own procedure.
    """
    low, high = 0.0, bound_per_s * 1.05
    rate, best, binding = bound_per_s * 0.7, None, "throughput"
    trials = 0
    while trials < _MAX_TRIALS and high - low > _TOLERANCE * high:
        if rate < _LEAST_RATE:
            return None
        trials += 1
        result = run_at_rate(replica, traffic, rate, SEARCH_REQUESTS, seed)
        missed = misses(result, rate, objectives)
        if missed:
            high, binding = rate, missed
        else:
            low, best = rate, result
        rate = (low + high) / 2.0 if low else high * 0.5
    if best is None:
        return None
    return _confirm(replica, traffic, objectives, low, binding, trials, seed)


def _confirm(
    replica: ReplicaModel,
    traffic: Traffic,
    objectives: Objectives,
    rate: float,
    binding: str,
    trials: int,
    seed: int,
) -> Capacity | None:
    """Run long at the rate found; step down while the longer run misses what the short one met."""
    for _ in range(6):
        trials += 1
        result = run_at_rate(replica, traffic, rate, FINAL_REQUESTS, seed)
        missed = misses(result, rate, objectives)
        if not missed:
            return Capacity(rate, result, trials, trials * SEARCH_REQUESTS + FINAL_REQUESTS, binding)
        rate, binding = rate * 0.95, missed
    return None


def run_at_rate(
    replica: ReplicaModel, traffic: Traffic, rate_per_s: float, num_requests: int, seed: int
) -> ServingResult:
    """Simulate one replica under Poisson arrivals of the traffic's lengths.

    Source: simulator.serving.
    """
    workload = Workload(Poisson(rate_per_s), lengths_of(traffic), num_requests)
    return simulate(replica.surface, replica.policy, workload, seed=seed)


def run_at_concurrency(
    replica: ReplicaModel, traffic: Traffic, concurrency: int, num_requests: int, seed: int
) -> ServingResult:
    """Simulate one replica serving a fixed number of clients.

    Source: simulator.serving.
    """
    workload = Workload(ClosedLoop(concurrency), lengths_of(traffic), max(num_requests, 4 * concurrency))
    return simulate(replica.surface, replica.policy, workload, seed=seed)


def lengths_of(traffic: Traffic) -> FixedLengths | LognormalLengths:
    """The length distribution of a traffic: lognormal around the means, fixed where no spread is given.

    Source: own definition.
    """
    inputs, outputs = traffic.mean_input_tokens, traffic.mean_output_tokens
    if traffic.input_sigma <= 0 and traffic.output_sigma <= 0:
        return FixedLengths(inputs, outputs)
    return LognormalLengths(
        inputs,
        outputs,
        sigma=traffic.input_sigma,
        output_sigma=traffic.output_sigma,
        max_input_tokens=traffic.max_input_tokens,
        max_output_tokens=traffic.max_output_tokens,
    )


def misses(result: ServingResult, rate_per_s: float, objectives: Objectives) -> str:
    """Which objective a run misses first: ttft, tpot, throughput (it cannot keep up); empty if it meets all.

    A run keeps up when its steady throughput stays near the offered rate; a queue that grows through a short run
    may still meet the latency objectives.

    Source: own definition.
    """
    if result.num_refused:
        return "kv cache"
    if result.ttft.p99_s > objectives.ttft_p99_s:
        return "ttft"
    if math.isfinite(result.tpot.p99_s) and result.tpot.p99_s > objectives.tpot_p99_s:
        return "tpot"
    served = result.steady_requests_per_s
    if served is not None and served < 0.9 * rate_per_s:
        return "throughput"
    return ""
