"""Fleets: the same records as replicas behind a router, in parts and in processes; queueing theory; events."""

import math
from dataclasses import replace

import numpy as np
import pytest

from advisor.catalog.errors import AdvisorError
from advisor.simulator.serving import (
    EmpiricalLengths,
    Gamma,
    Poisson,
    SchedulerPolicy,
    Slo,
    TraceArrivals,
    UniformLengths,
    Workload,
    simulate,
)
from advisor.simulator.serving.content import SharedPrefixes
from advisor.simulator.serving.fleet import (
    Fleet,
    Pool,
    Scaling,
)
from advisor.simulator.serving.fleet_simulation import is_separable, simulate_fleet, simulate_in_parts
from advisor.simulator.serving.load import Tenant, draw_load, merge_loads
from advisor.simulator.step_cost import StepSurface

POLICIES = [
    SchedulerPolicy(max_num_seqs=6, max_num_batched_tokens=64, kv_capacity_blocks=60, block_tokens=4),
    SchedulerPolicy(kind="prefill_first", max_num_seqs=8, max_num_batched_tokens=50, api_overhead_ps=331),
    SchedulerPolicy(
        max_num_seqs=8, max_num_batched_tokens=64, overlap_scheduling=True, api_overhead_ps=50, delivery_ps=9
    ),
]
WORKLOADS = [
    Workload(Poisson(1.2e9), UniformLengths(60, 30, 0.3), 300),
    Workload(Gamma(1.2e9, 3.0), UniformLengths(60, 30, 0.3), 300),
    Workload(TraceArrivals([i // 5 * 3e-9 for i in range(300)]), UniformLengths(60, 30, 0.3), 300),
]


def toy(num_stages: int = 1) -> StepSurface:
    return StepSurface(
        decode_base_ps=[0] + [40 + d for d in range(1, 9)],
        decode_context_ps=[1] * 9,
        mixed_base_ps=[0] + [50 + 2 * t for t in range(1, 65)],
        prefill_pair_ps=0.25,
        num_stages=num_stages,
        stage_transfer_ps=5 * (num_stages - 1),
    )


def machine(max_num_seqs: int = 64) -> StepSurface:
    """About Llama-3.1-8B on one H200: 5 ms a step, 25 µs a prompt token."""
    return StepSurface(
        decode_base_ps=[0] + [5_000_000_000 + 20_000_000 * d for d in range(1, max_num_seqs + 1)],
        decode_context_ps=[27_000] * (max_num_seqs + 1),
        mixed_base_ps=[0] + [5_000_000_000 + 25_000_000 * t for t in range(1, 2049)],
        prefill_pair_ps=100.0,
    )


MACHINE = SchedulerPolicy(max_num_seqs=64, max_num_batched_tokens=2048, kv_capacity_blocks=4000)


def one_pool(count: int, router="least_outstanding", surface=None, policy=MACHINE, **changes) -> Fleet:
    pool = Pool(
        name="all",
        surface=surface or machine(),
        policy=policy,
        num_replicas=count,
        usd_per_hour=2.0,
        **changes,
    )
    return Fleet(pools=(pool,), router=router)


@pytest.mark.parametrize("router", ["round_robin", "least_outstanding"])
@pytest.mark.parametrize("num_stages", [1, 3])
@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.kind + str(p.api_overhead_ps))
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: type(w.arrivals).__name__)
def test_a_still_fleet_equals_replicas_behind_a_router(workload, policy, num_stages, router):
    fleet = one_pool(3, router, toy(num_stages), policy)
    cluster = simulate(toy(num_stages), policy, workload, num_replicas=3, router=router, records=True, seed=7)
    run = simulate_fleet(fleet, draw_load(workload, 7), records=True)
    assert run.records.equals(cluster.records)
    assert run.pools[0].num_iterations == cluster.num_iterations
    assert run.pools[0].ttft.p99_s == cluster.ttft.p99_s
    stepped = simulate_fleet(fleet, draw_load(workload, 7), records=True, jump=False)
    assert stepped.records.equals(run.records)
    assert stepped.pools[0].num_events == stepped.pools[0].num_iterations


def test_one_replica_with_a_prefix_cache_equals_the_plain_loop():
    workload = Workload(Poisson(30.0), UniformLengths(200, 60, 0.3), 500, SharedPrefixes(300, 20, 0.8))
    policy = replace(MACHINE, prefix_caching=True, kv_capacity_blocks=700)
    alone = simulate(machine(), policy, workload, records=True, seed=2)
    run = simulate_fleet(one_pool(1, policy=policy), draw_load(workload, 2), records=True)
    assert run.records.equals(alone.records)
    assert run.pools[0].prefix_hit_fraction == alone.prefix_hit_fraction


@pytest.mark.parametrize("num_processes", [1, 2, 3])
def test_the_same_records_on_any_number_of_processes(num_processes):
    workload = Workload(Poisson(120.0), UniformLengths(200, 60, 0.3), 2000, SharedPrefixes(100, 20, 0.8))
    tenant = Tenant(slo=Slo(ttft_s=0.2))
    fleet = one_pool(5, "round_robin", policy=replace(MACHINE, prefix_caching=True, max_context_tokens=355))
    load = draw_load(workload, 1, tenant)
    assert is_separable(fleet, load)
    whole = simulate_fleet(fleet, load, records=True)
    parts = simulate_in_parts(fleet, load, num_processes=num_processes, records=True)
    assert whole.num_refused > 0
    assert parts.records.equals(whole.records)
    assert parts.timeline == whole.timeline
    for name in ("num_requests", "num_refused", "goodput_fraction", "mean_in_system", "usd", "duration_s"):
        assert getattr(parts, name) == getattr(whole, name)
    for name in ("num_events", "prefix_hit_fraction", "busy_fraction", "replica_hours"):
        assert getattr(parts.pools[0], name) == getattr(whole.pools[0], name)
    assert parts.tenants[0].ttft.p99_s == whole.tenants[0].ttft.p99_s


def test_what_depends_on_each_other_is_not_taken_apart():
    load = draw_load(WORKLOADS[0], 0)
    fleet = one_pool(2, "least_outstanding", toy(), POLICIES[0])
    assert not is_separable(fleet, load)
    with pytest.raises(AdvisorError, match="depend on each other"):
        simulate_in_parts(fleet, load)


@pytest.mark.parametrize("order", ["priority", "deadline"])
@pytest.mark.parametrize("overlap", [False, True])
def test_ordered_queues_jump_exactly(order, overlap):
    """Tight caches: heads that wait for blocks while later, smaller requests of a better rank overtake them."""
    loads = [
        draw_load(
            Workload(Gamma(6e8, 3.0), UniformLengths(60, 30, 0.1), 300),
            seed,
            Tenant(name=f"t{seed}", priority=-seed, slo=Slo(ttft_s=1e-9 / (1 + seed))),
        )
        for seed in range(3)
    ]
    policy = replace(POLICIES[0], overlap_scheduling=overlap, kv_capacity_blocks=30)
    fleet = one_pool(2, surface=toy(), policy=policy, order=order)
    load = merge_loads(loads)
    jumped = simulate_fleet(fleet, load, records=True)
    stepped = simulate_fleet(fleet, load, records=True, jump=False)
    assert jumped.records.equals(stepped.records)
    assert jumped.pools[0].num_events < stepped.pools[0].num_events


def overload(order: str):
    loads = [
        draw_load(Workload(Poisson(30.0), UniformLengths(900, 60, 0.3), 900), seed, tenant)
        for seed, tenant in enumerate(
            (
                Tenant(name="urgent", priority=0, slo=Slo(ttft_s=0.3)),
                Tenant(name="patient", priority=1, slo=Slo(ttft_s=30.0)),
            )
        )
    ]
    run = simulate_fleet(one_pool(1, order=order), merge_loads(loads))
    return {tenant.name: tenant for tenant in run.tenants}


def test_priorities_and_deadlines_protect_the_urgent():
    fifo, priority, deadline = (overload(order) for order in ("arrival", "priority", "deadline"))
    assert priority["urgent"].ttft.p99_s < 0.1 * fifo["urgent"].ttft.p99_s
    assert deadline["urgent"].goodput_fraction > fifo["urgent"].goodput_fraction + 0.5
    assert deadline["patient"].goodput_fraction > 0.9
    assert priority["patient"].ttft.mean_s > fifo["patient"].ttft.mean_s


def test_admission_control_bounds_the_queue():
    load = draw_load(
        Workload(Poisson(60.0), UniformLengths(900, 60, 0.3), 1500), 0, Tenant(slo=Slo(ttft_s=1.0))
    )
    free = simulate_fleet(one_pool(1), load)
    bounded = simulate_fleet(one_pool(1, max_outstanding=24), load)
    assert free.num_rejected == 0
    assert bounded.num_rejected > 200
    assert bounded.num_requests == bounded.num_finished + bounded.num_rejected == 1500
    assert bounded.tenants[0].ttft.p99_s < 1.0 < free.tenants[0].ttft.p50_s
    assert bounded.goodput_fraction > 1.5 * free.goodput_fraction
    assert bounded.mean_in_system < 24


def test_long_prompts_go_to_their_own_pool():
    short = Pool(name="short", surface=machine(), policy=MACHINE, num_replicas=2, max_input_tokens=500)
    long = Pool(name="long", surface=machine(), policy=MACHINE, num_replicas=1, min_input_tokens=501)
    lengths = EmpiricalLengths([(100, 40), (100, 40), (3000, 40)])
    load = draw_load(Workload(Poisson(30.0), lengths, 900), 0)
    run = simulate_fleet(Fleet(pools=(short, long)), load, records=True)
    many = int((run.records.input_tokens == 3000).sum())
    assert [pool.num_finished for pool in run.pools] == [900 - many, many]
    mixed = simulate_fleet(one_pool(3), load)
    assert run.pools[0].ttft.p99_s < mixed.pools[0].ttft.p99_s


def test_overflow_goes_to_the_next_pool():
    base = Pool(name="base", surface=machine(), policy=MACHINE, num_replicas=1, spill_above=8)
    peak = Pool(name="peak", surface=machine(), policy=MACHINE, num_replicas=1)
    shares = []
    for rate in (5.0, 40.0):
        load = draw_load(Workload(Poisson(rate), UniformLengths(300, 120, 0.3), 600), 0)
        run = simulate_fleet(Fleet(pools=(base, peak)), load)
        shares.append(run.pools[1].num_finished / 600)
    assert shares[0] < 0.05 < 0.3 < shares[1]


@pytest.mark.parametrize("in_parts", [False, True])
def test_a_prompt_that_one_iteration_cannot_compute_whole_is_refused(in_parts):
    """Without chunked prefill, as TensorRT-LLM does: 3 000 tokens do not fit into a budget of 2 048."""
    policy = replace(MACHINE, chunked_prefill=False, reserve_output_fraction=1.0)
    lengths = EmpiricalLengths([(100, 4), (3000, 4), (2048, 4)], in_order=True)
    load = draw_load(Workload(TraceArrivals([0.0, 0.1, 0.2]), lengths, 3), 0)
    run = (simulate_in_parts if in_parts else simulate_fleet)(one_pool(2, "round_robin", policy=policy), load)
    assert (run.num_finished, run.num_refused) == (2, 1)


def test_a_request_that_no_pool_can_hold_is_refused():
    load = draw_load(
        Workload(TraceArrivals([0.0, 0.1]), EmpiricalLengths([(100, 4), (90_000, 4)], in_order=True), 2), 0
    )
    run = simulate_fleet(one_pool(2), load)
    assert (run.num_finished, run.num_refused) == (1, 1)


def test_erlangs_formula_for_replicas_that_share_a_queue():
    """Replicas of one slot, least outstanding: waits lie between M/M/c and its queues taken in turn."""
    token = 1_000_000
    surface = StepSurface([0, token], [0, 0], [0, token, 2 * token], 0.0)
    policy = SchedulerPolicy(max_num_seqs=1, max_num_batched_tokens=2)
    fractions = (np.arange(4000) + 0.5) / 4000
    lengths = EmpiricalLengths([(1, max(1, round(-100 * math.log(1.0 - f)))) for f in fractions])
    mean_s = float(np.mean([pair[1] for pair in lengths.pairs])) * 1e-6
    servers = 4
    load = 0.75
    offered = servers * load
    terms = [offered**k / math.factorial(k) for k in range(servers)]
    last = offered**servers / math.factorial(servers) / (1.0 - load)
    erlang = last / (sum(terms) + last) * mean_s / (servers - offered)
    waits = {
        router: np.mean(
            [
                simulate_fleet(
                    one_pool(servers, router, surface, policy),
                    draw_load(Workload(Poisson(offered / mean_s), lengths, 8000), seed),
                )
                .tenants[0]
                .ttft.mean_s
                - 1e-6
                for seed in range(8)
            ]
        )
        for router in ("least_outstanding", "round_robin")
    }
    single = load * mean_s / (1.0 - load)
    assert erlang < waits["least_outstanding"] < 1.6 * erlang < waits["round_robin"] < single


def test_refusals_of_fleets():
    pool = one_pool(1).pools[0]
    load = draw_load(WORKLOADS[0], 0)
    with pytest.raises(AdvisorError, match="same name"):
        Fleet(pools=(pool, pool))
    with pytest.raises(AdvisorError, match="at least one pool"):
        Fleet(pools=())
    with pytest.raises(AdvisorError, match="who send nothing"):
        simulate_fleet(Fleet(pools=(replace(pool, tenants=("nobody",)),)), load)
    with pytest.raises(AdvisorError, match="needs sessions"):
        simulate_fleet(Fleet(pools=(pool,), router="session_affinity"), load)
    with pytest.raises(AdvisorError, match="begin alike"):
        simulate_fleet(Fleet(pools=(pool,), router="prefix_affinity"), load)
    with pytest.raises(AdvisorError, match="router"):
        Fleet(pools=(pool,), router="random")
    with pytest.raises(AdvisorError, match="min_replicas"):
        Scaling(metric="rate", target=1.0, min_replicas=3, max_replicas=2)
