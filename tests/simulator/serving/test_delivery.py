"""Tokens reach clients through one process: what that costs, and what it does to a closed loop."""

import pytest

from advisor.simulator.serving import (
    ClosedLoop,
    FixedLengths,
    Poisson,
    SchedulerPolicy,
    TraceArrivals,
    UniformLengths,
    Workload,
    simulate,
)
from advisor.simulator.step_cost import StepSurface

CLIENTS = 32
OUTPUT = 200
STEP_PS = 1_000_000
SURFACE = StepSurface(
    decode_base_ps=[0] + [STEP_PS] * 64,
    decode_context_ps=[0] * 65,
    mixed_base_ps=[0] + [STEP_PS] * 4096,
    prefill_pair_ps=0.0,
)


def serve(delivery_ps, clients=CLIENTS, output=OUTPUT, rounds=30, jump=True):
    policy = SchedulerPolicy(max_num_seqs=64, max_num_batched_tokens=4096, delivery_ps=delivery_ps)
    workload = Workload(ClosedLoop(clients), FixedLengths(4, output), rounds * clients)
    return simulate(SURFACE, policy, workload, jump=jump)


def test_tokens_of_one_iteration_leave_one_after_the_other():
    """Two sequences, 10 ps a token: first tokens at 1 000 020 and, after the decode iteration, at 2 000 020."""
    policy = SchedulerPolicy(max_num_seqs=4, max_num_batched_tokens=64, delivery_ps=10)
    workload = Workload(TraceArrivals([0.0, 0.0]), FixedLengths(4, 2), 2)
    result = simulate(SURFACE, policy, workload, records=True)
    assert result.records.first_token_ps.tolist() == [STEP_PS + 20] * 2
    assert result.records.finished_ps.tolist() == [2 * STEP_PS + 20] * 2


def test_no_more_tokens_per_second_than_can_be_delivered():
    """32 tokens every µs are 32 tokens/µs; at 0.1 µs each only 10 get out."""
    free = serve(0)
    bound = serve(100_000)
    assert free.output_tokens_per_s == pytest.approx(CLIENTS / 1e-6, rel=0.02)
    assert bound.output_tokens_per_s == pytest.approx(10 / 1e-6, rel=0.02)


def test_beyond_that_requests_wait_for_their_first_token_and_not_between_tokens():
    """The engine runs as many as delivery allows, 10 of 32; the others wait for a token, the longer the answers are."""
    policy = SchedulerPolicy(max_num_seqs=64, max_num_batched_tokens=4096, delivery_ps=100_000)
    ttft = []
    tpot = []
    for output in (100, 400):
        lengths = UniformLengths(4, output, 0.5)
        result = simulate(SURFACE, policy, Workload(ClosedLoop(CLIENTS), lengths, 60 * CLIENTS))
        cycle_s = result.ttft.mean_s + 0.75 * output * result.tpot.mean_s
        requests_per_s = result.output_tokens_per_s / (0.75 * output)
        assert requests_per_s * cycle_s == pytest.approx(CLIENTS, rel=0.05)
        ttft.append(result.ttft.mean_s)
        tpot.append(result.tpot.mean_s)
    assert ttft[1] > 2.0 * ttft[0]
    assert tpot[1] < 1.5 * tpot[0]


def test_an_engine_that_delivers_in_time_only_adds_one_iterations_tokens():
    free = serve(0)
    slow = serve(20_000)
    assert slow.tpot.mean_s == pytest.approx(free.tpot.mean_s, rel=0.01)
    assert slow.ttft.mean_s - free.ttft.mean_s == pytest.approx(CLIENTS * 20_000e-12, rel=0.1)


def test_jumping_equals_stepping_with_a_queue():
    for delivery_ps in (20_000, 31_250, 100_000):
        jumped, stepped = (serve(delivery_ps, jump=jump) for jump in (True, False))
        assert jumped.ttft.mean_s == stepped.ttft.mean_s
        assert jumped.duration_s == stepped.duration_s


def test_an_open_loop_beyond_delivery_falls_behind_for_good():
    policy = SchedulerPolicy(max_num_seqs=64, max_num_batched_tokens=4096, delivery_ps=100_000)
    rate = 2.0 * 1e7 / OUTPUT
    few, many = (
        simulate(SURFACE, policy, Workload(Poisson(rate), FixedLengths(4, OUTPUT), number)).ttft.mean_s
        for number in (500, 2000)
    )
    assert many > 3.0 * few
