"""Replicas behind a router."""

import pytest

from advisor.catalog.errors import AdvisorError
from advisor.simulator.serving import (
    ClosedLoop,
    EmpiricalLengths,
    FixedLengths,
    Gamma,
    Poisson,
    SchedulerPolicy,
    TraceArrivals,
    UniformLengths,
    Workload,
    simulate,
)
from advisor.simulator.serving.content import SharedPrefixes
from advisor.simulator.step_cost import StepSurface

LENGTHS = UniformLengths(60, 30, 0.3)
ARRIVALS = [
    ClosedLoop(9),
    ClosedLoop(7, "staggered", 4e-9),
    Poisson(4e8),
    Gamma(4e8, 3.0),
    TraceArrivals([i // 5 * 7e-9 for i in range(200)]),
]
POLICIES = [
    SchedulerPolicy(max_num_seqs=6, max_num_batched_tokens=64, kv_capacity_blocks=60, block_tokens=4),
    SchedulerPolicy(kind="prefill_first", max_num_seqs=8, max_num_batched_tokens=50, api_overhead_ps=331),
    SchedulerPolicy(
        max_num_seqs=8, max_num_batched_tokens=64, overlap_scheduling=True, api_overhead_ps=50, delivery_ps=9
    ),
    SchedulerPolicy(kind="static", max_num_seqs=4, max_num_batched_tokens=64),
]


def surface(num_stages: int = 1) -> StepSurface:
    return StepSurface(
        decode_base_ps=[0] + [40 + d for d in range(1, 9)],
        decode_context_ps=[1] * 9,
        mixed_base_ps=[0] + [50 + 2 * t for t in range(1, 65)],
        prefill_pair_ps=0.25,
        num_stages=num_stages,
        stage_transfer_ps=5 * (num_stages - 1),
    )


@pytest.mark.parametrize("num_stages", [1, 3])
@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.kind + str(p.api_overhead_ps))
@pytest.mark.parametrize("arrivals", ARRIVALS, ids=lambda a: type(a).__name__ + getattr(a, "start", ""))
def test_one_replica_behind_a_router_equals_the_plain_loop(arrivals, policy, num_stages):
    workload = Workload(arrivals, LENGTHS, 200)
    alone = simulate(surface(num_stages), policy, workload, records=True, seed=3)
    routed = simulate(surface(num_stages), policy, workload, router="least_outstanding", records=True, seed=3)
    assert routed.records.equals(alone.records)
    assert routed.num_iterations == alone.num_iterations
    assert routed.itl.mean_s == alone.itl.mean_s
    assert routed.busy_fraction == alone.busy_fraction


@pytest.mark.parametrize("router", ["round_robin", "least_outstanding"])
@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.kind + str(p.api_overhead_ps))
@pytest.mark.parametrize("arrivals", ARRIVALS, ids=lambda a: type(a).__name__ + getattr(a, "start", ""))
def test_jumping_equals_stepping_in_a_cluster(arrivals, policy, router):
    workload = Workload(arrivals, LENGTHS, 200)
    options = {"num_replicas": 3, "router": router, "records": True, "seed": 5}
    jumped = simulate(surface(), policy, workload, **options)
    stepped = simulate(surface(), policy, workload, jump=False, **options)
    assert jumped.records.equals(stepped.records)
    assert jumped.num_iterations == stepped.num_iterations == stepped.num_events


def test_round_robin_deals_arrivals_out_in_turn():
    """Two replicas see every other arrival, as if each were alone with them."""
    times = [0.0, 1e-9, 1.1e-9, 4e-9, 4.2e-9, 4.4e-9]
    policy = POLICIES[0]
    both = simulate(
        surface(),
        policy,
        Workload(TraceArrivals(times), FixedLengths(9, 7), 6),
        num_replicas=2,
        router="round_robin",
        records=True,
    )
    for first in (0, 1):
        alone = simulate(
            surface(), policy, Workload(TraceArrivals(times[first::2]), FixedLengths(9, 7), 3), records=True
        )
        assert both.records.finished_ps[first::2].tolist() == alone.records.finished_ps.tolist()


def test_least_outstanding_avoids_the_busy_replica():
    """A long request keeps replica 0 busy: both short ones go to replica 1, one after the other."""
    workload = Workload(
        TraceArrivals([0.0, 1e-11, 3e-9]), EmpiricalLengths([(8, 200), (8, 2), (8, 2)], in_order=True), 3
    )
    policy = SchedulerPolicy(max_num_seqs=1, max_num_batched_tokens=64)
    result = simulate(surface(), policy, workload, num_replicas=2, records=True)
    assert result.records.finished_ps.argmax() == 0
    assert (result.records.admitted_ps - result.records.arrived_ps).tolist() == [0, 0, 0]


def test_joining_the_shortest_queue_beats_taking_turns():
    workload = Workload(Poisson(1.2e9), UniformLengths(60, 30, 0.05), 3000)
    waits = {
        router: simulate(
            surface(),
            SchedulerPolicy(max_num_seqs=2, max_num_batched_tokens=64),
            workload,
            num_replicas=4,
            router=router,
        ).queueing.mean_s
        for router in ("round_robin", "least_outstanding")
    }
    assert waits["least_outstanding"] < 0.9 * waits["round_robin"]


def test_more_replicas_finish_a_burst_sooner():
    workload = Workload(ClosedLoop(200), LENGTHS, 200)
    durations = [simulate(surface(), POLICIES[0], workload, num_replicas=n).duration_s for n in (1, 2, 4, 8)]
    assert durations == sorted(durations, reverse=True)
    assert durations[0] / durations[-1] == pytest.approx(8, rel=0.2)


@pytest.mark.parametrize("num_replicas", [0, -1, 1.5, True])
def test_number_of_replicas_must_be_positive(num_replicas):
    with pytest.raises(AdvisorError, match="num_replicas"):
        simulate(surface(), POLICIES[0], Workload(ClosedLoop(1), LENGTHS, 1), num_replicas=num_replicas)


def test_unknown_router():
    with pytest.raises(AdvisorError, match="router"):
        simulate(surface(), POLICIES[0], Workload(ClosedLoop(1), LENGTHS, 1), num_replicas=1, router="random")


def test_a_router_that_knows_prompts_raises_the_hit_rate():
    workload = Workload(Poisson(1.2e9), UniformLengths(20, 30, 0.3), 2000, SharedPrefixes(40, 60, 0.5))
    policy = SchedulerPolicy(
        max_num_seqs=8, max_num_batched_tokens=64, kv_capacity_blocks=260, block_tokens=4, prefix_caching=True
    )
    hits = {
        router: simulate(surface(), policy, workload, num_replicas=4, router=router).prefix_hit_fraction
        for router in ("round_robin", "prefix_affinity")
    }
    assert hits["prefix_affinity"] > 1.3 * hits["round_robin"]
    with pytest.raises(AdvisorError, match="begin alike"):
        simulate(
            surface(),
            policy,
            Workload(ClosedLoop(1), LENGTHS, 1),
            num_replicas=2,
            router="prefix_affinity",
        )
