"""Requests that come together are taken in by one process, one after the other."""

import pytest

from advisor.simulator.serving import (
    ClosedLoop,
    FixedLengths,
    Poisson,
    SchedulerPolicy,
    UniformLengths,
    Workload,
    simulate,
)
from advisor.simulator.step_cost import StepSurface

STEP_PS = 1_000_000
INTAKE_PS = 400_000
SURFACE = StepSurface(
    decode_base_ps=[0] + [STEP_PS] * 64,
    decode_context_ps=[0] * 65,
    mixed_base_ps=[0] + [STEP_PS] * 4096,
    prefill_pair_ps=0.0,
)


SHORT = FixedLengths(4, 3)


def serve(intake_ps, arrivals, lengths=SHORT, num_requests=8, **options):
    policy = SchedulerPolicy(
        max_num_seqs=64, max_num_batched_tokens=4096, api_overhead_ps=500_000, intake_ps=intake_ps
    )
    return simulate(SURFACE, policy, Workload(arrivals, lengths, num_requests), records=True, **options)


def test_a_burst_reaches_the_scheduler_one_by_one():
    """Five clients at 0.4 µs each are seen from 0.5 to 2.1 µs; the first iteration has one of them, the next two each
    have those of the microsecond before."""
    records = serve(INTAKE_PS, ClosedLoop(5), num_requests=5).records
    assert records.arrived_ps.tolist() == [0] * 5
    assert records.first_token_ps.tolist() == [1_500_000, 2_500_000, 2_500_000, 3_500_000, 3_500_000]


def test_without_intake_a_burst_comes_at_once():
    records = serve(0, ClosedLoop(5), num_requests=5).records
    assert records.first_token_ps.tolist() == [1_500_000] * 5


def test_a_lone_client_and_independent_arrivals_do_not_wait():
    for arrivals in (ClosedLoop(1), Poisson(1e6)):
        with_intake, without = (serve(intake, arrivals).records for intake in (INTAKE_PS, 0))
        assert with_intake.first_token_ps.tolist() == without.first_token_ps.tolist()


def test_every_replica_takes_in_its_own_requests():
    one, two = (serve(INTAKE_PS, ClosedLoop(32), num_requests=32, num_replicas=number) for number in (1, 2))
    assert two.ttft.mean_s < one.ttft.mean_s
    assert one.num_finished == two.num_finished == 32


@pytest.mark.parametrize("intake_ps", [1, INTAKE_PS, 7 * STEP_PS])
def test_jumps_are_exact_behind_an_intake(intake_ps):
    lengths = UniformLengths(9, 40, 0.2)
    jumped, stepped = (
        serve(intake_ps, ClosedLoop(12), lengths, 90, jump=jump).records for jump in (True, False)
    )
    for name in ("index", "arrived_ps", "first_token_ps", "finished_ps"):
        assert getattr(jumped, name).tolist() == getattr(stepped, name).tolist()


def test_no_more_requests_are_answered_than_are_taken_in():
    """Outputs of one token: 64 clients are answered no faster than one per 7 µs."""
    result = serve(7 * STEP_PS, ClosedLoop(64), FixedLengths(4, 1), 640)
    assert result.steady_requests_per_s == pytest.approx(1e12 / (7 * STEP_PS), rel=0.02)
