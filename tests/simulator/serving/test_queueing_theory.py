"""Limits in which queueing theory knows the answer: means of independent replications against closed forms.

Each iteration lasts one token time whatever its content, or a token time per sequence, so a request's service is its
number of output tokens. Expected values use the moments of the very lengths that are drawn.
"""

import math

import numpy as np
import pytest

from advisor.simulator.serving import (
    EmpiricalLengths,
    FixedLengths,
    Poisson,
    SchedulerPolicy,
    Workload,
    simulate,
)
from advisor.simulator.step_cost import StepSurface

TOKEN_S = 1e-6
TOKEN_PS = 1_000_000
REPLICATIONS = 20
T_999 = 3.883
"""Student's t, 99.9 % two-sided, 19 degrees of freedom."""


def surface(max_num_seqs: int, shared: bool) -> StepSurface:
    """Iterations of one token time, or of one token time for each sequence in them."""
    times = [TOKEN_PS * (number if shared else 1) for number in range(max_num_seqs + 2)]
    return StepSurface(
        decode_base_ps=times[: max_num_seqs + 1],
        decode_context_ps=[0] * (max_num_seqs + 1),
        mixed_base_ps=times,
        prefill_pair_ps=0.0,
    )


def exponential_lengths(mean: float) -> EmpiricalLengths:
    """Quantiles of an exponential distribution: one prompt token, about `mean` output tokens."""
    fractions = (np.arange(4000) + 0.5) / 4000
    return EmpiricalLengths([(1, max(1, round(-mean * math.log(1.0 - f)))) for f in fractions])


def moments(lengths: EmpiricalLengths) -> tuple[float, float]:
    services = np.array([pair[1] for pair in lengths.pairs]) * TOKEN_S
    return float(services.mean()), float((services**2).mean())


def replicate(measure) -> tuple[float, float]:
    """Mean and half-width of the confidence interval over independent seeds."""
    values = np.array([measure(seed) for seed in range(REPLICATIONS)])
    return float(values.mean()), T_999 * float(values.std(ddof=1)) / math.sqrt(REPLICATIONS)


def check(measure, expected: float, bias: float = 0.0, precision: float = 0.06) -> None:
    """The interval holds the expected value (within a known bias), and is narrow enough to mean something."""
    mean, half_width = replicate(measure)
    assert half_width < precision * expected
    assert abs(mean - expected) < half_width + bias


def single_server(lengths, rate_per_s: float, num_requests: int = 12_000):
    policy = SchedulerPolicy(max_num_seqs=1, max_num_batched_tokens=2)
    return lambda seed: simulate(
        surface(1, shared=False), policy, Workload(Poisson(rate_per_s), lengths, num_requests), seed=seed
    )


@pytest.mark.parametrize("load", [0.5, 0.7])
def test_constant_service_waits_as_md1(load):
    """M/D/1: W = ρ S / (2 (1 - ρ))."""
    service_s = 50 * TOKEN_S
    run = single_server(FixedLengths(1, 50), load / service_s)
    check(lambda seed: run(seed).queueing.mean_s, load * service_s / (2.0 * (1.0 - load)))


@pytest.mark.parametrize("load", [0.3, 0.6])
def test_exponential_service_waits_as_mm1(load):
    """M/G/1 (Pollaczek, Khinchine): W = λ E[S²] / (2 (1 - ρ)), which is ρ S / (1 - ρ) for exponential service."""
    lengths = exponential_lengths(100.0)
    mean_s, second = moments(lengths)
    rate = load / mean_s
    expected = rate * second / (2.0 * (1.0 - load))
    assert expected == pytest.approx(load * mean_s / (1.0 - load), rel=0.02)
    run = single_server(lengths, rate)
    check(lambda seed: run(seed).queueing.mean_s, expected)


def test_sojourn_in_mm1_is_exponential():
    """The 90th percentile of an M/M/1 sojourn is ln 10 / (μ - λ)."""
    lengths = exponential_lengths(200.0)
    mean_s, _ = moments(lengths)
    load = 0.5
    run = single_server(lengths, load / mean_s)
    expected = math.log(10.0) * mean_s / (1.0 - load)
    check(lambda seed: run(seed).e2e.p90_s, expected, bias=0.01 * expected)


def test_slots_that_do_not_slow_each_other_wait_as_mmc():
    """M/M/c: W = C(c, a) S / (c - a), Erlang's C; plus half an iteration until the next boundary, at most one."""
    servers = 4
    load = 0.75
    lengths = exponential_lengths(400.0)
    mean_s, _ = moments(lengths)
    offered = servers * load
    terms = [offered**k / math.factorial(k) for k in range(servers)]
    last = offered**servers / math.factorial(servers) / (1.0 - load)
    expected = last / (sum(terms) + last) * mean_s / (servers - offered)
    policy = SchedulerPolicy(max_num_seqs=servers, max_num_batched_tokens=servers + 1)

    def queueing_s(seed: int) -> float:
        workload = Workload(Poisson(offered / mean_s), lengths, 10_000)
        return simulate(surface(servers, shared=False), policy, workload, seed=seed).queueing.mean_s

    check(queueing_s, expected, bias=TOKEN_S, precision=0.1)


def test_time_proportional_to_batch_is_processor_sharing():
    """M/G/1-PS: a sojourn lasts S / (1 - ρ) on average, whatever the distribution of service."""
    load = 0.6
    lengths = exponential_lengths(60.0)
    mean_s, _ = moments(lengths)
    policy = SchedulerPolicy(max_num_seqs=64, max_num_batched_tokens=65)

    def sojourn_s(seed: int) -> float:
        workload = Workload(Poisson(load / mean_s), lengths, 8000)
        return simulate(surface(64, shared=True), policy, workload, seed=seed).e2e.mean_s

    check(sojourn_s, mean_s / (1.0 - load), bias=2 * TOKEN_S / (1.0 - load))


def test_taking_turns_makes_arrivals_more_regular():
    """Two servers in turn see Erlang-2 gaps (E2/D/1): W by Lindley's recursion on the same gaps."""
    service_s = 50 * TOKEN_S
    load = 0.8
    num_requests = 6000
    policy = SchedulerPolicy(max_num_seqs=1, max_num_batched_tokens=2)
    workload = Workload(Poisson(2 * load / service_s), FixedLengths(1, 50), num_requests)
    result = simulate(
        surface(1, shared=False),
        policy,
        workload,
        num_replicas=2,
        router="round_robin",
        records=True,
        seed=1,
    )
    arrived = result.records.arrived_ps
    waits = []
    for gaps in (np.diff(arrived[0::2]), np.diff(arrived[1::2])):
        wait = 0
        waits.append(wait)
        for gap in gaps.tolist():
            wait = max(0, wait + 50 * TOKEN_PS - gap)
            waits.append(wait)
    assert result.queueing.mean_s == pytest.approx(sum(waits) / num_requests * 1e-12, rel=1e-12)
