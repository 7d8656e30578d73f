"""Changes of a fleet while it serves: scaling, cold starts, failures, spot losses, deploys."""

from dataclasses import replace

import numpy as np
import pytest

from advisor.simulator.serving import (
    FixedLengths,
    Gamma,
    Poisson,
    SchedulerPolicy,
    Slo,
    TraceArrivals,
    UniformLengths,
    Workload,
)
from advisor.simulator.serving.arrivals import bursts
from advisor.simulator.serving.fleet import (
    ColdStart,
    Deploy,
    Failures,
    Fleet,
    Pool,
    Scaling,
    SpotLoss,
    wanted_replicas,
)
from advisor.simulator.serving.fleet_simulation import simulate_fleet
from advisor.simulator.serving.load import FleetLoad, Tenant, draw_load, merge_loads
from advisor.simulator.serving.sessions import Sessions, draw_sessions
from advisor.simulator.step_cost import StepSurface


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


def eventful(seed: int = 3, **changes) -> tuple[Fleet, FleetLoad]:
    """Two pools, two tenants; one pool scales and fails, the other loses machines."""
    loads = [
        draw_load(
            Workload(Poisson(40.0), UniformLengths(300, 120, 0.3), 2400),
            seed,
            Tenant(name="chat", slo=Slo(ttft_s=0.5, tpot_s=0.05)),
        ),
        draw_load(
            Workload(Gamma(10.0, 3.0), UniformLengths(900, 60, 0.3), 600),
            seed + 1,
            Tenant(name="batch", priority=1),
        ),
    ]
    base = Pool(
        name="base",
        surface=machine(),
        policy=MACHINE,
        num_replicas=2,
        usd_per_hour=3.0,
        spill_above=12,
        failures=Failures(mtbf_s=40.0, repair_s=5.0),
        order="priority",
    )
    peak = Pool(
        name="peak",
        surface=machine(),
        policy=MACHINE,
        num_replicas=1,
        usd_per_hour=1.0,
        cold_start=ColdStart(provision_s=2.0, image_bytes=10e9, image_bytes_per_s=5e9, engine_start_s=1.0),
        scaling=Scaling(
            metric="outstanding",
            target=10.0,
            min_replicas=1,
            max_replicas=6,
            interval_s=2.0,
            down_window_s=6.0,
        ),
        spot=SpotLoss(mean_life_s=20.0, notice_s=0.2),
        deploys=(Deploy(at_s=30.0),),
    )
    return Fleet(pools=(replace(base, **changes), peak)), merge_loads(loads)


def test_nothing_is_lost_when_replicas_are():
    """Conservation and Little's law are asserted in every run; here with failures, losses, scaling and a deploy."""
    fleet, load = eventful()
    run = simulate_fleet(fleet, load, records=True, seed=5)
    assert run.num_finished == run.num_requests == 3000
    kinds = {event.kind for event in run.events}
    assert kinds == {"start", "open", "drain", "notice", "lost", "failed"}
    assert run.num_retried > 0
    assert sorted(run.records.index.tolist()) == list(range(3000))
    assert np.all(
        run.records.arrived_ps == np.sort(load.instants_ps)[np.argsort(np.argsort(load.instants_ps))]
    )
    in_system = float((run.records.finished_ps - run.records.arrived_ps).sum()) * 1e-12 / run.duration_s
    assert run.mean_in_system == pytest.approx(in_system, rel=1e-9)
    assert sum(pool.usd for pool in run.pools) == pytest.approx(run.usd)
    assert [tenant.num_finished for tenant in run.tenants] == [2400, 600]


def test_an_eventful_fleet_repeats_itself_and_jumps_exactly():
    fleet, load = eventful()
    first, second = (simulate_fleet(fleet, load, records=True, seed=5) for _ in range(2))
    stepped = simulate_fleet(fleet, load, records=True, seed=5, jump=False)
    other = simulate_fleet(fleet, load, records=True, seed=6)
    assert first.records.equals(second.records)
    assert first.events == second.events == stepped.events
    assert first.records.equals(stepped.records)
    assert not first.records.equals(other.records)


def test_cold_starts_are_waited_for_and_paid():
    """A step in load at 10 s: another replica serves 20 s after the decision, and is paid from then on."""
    rates = [k / 4 for k in range(40)] + [10 + k / 40 for k in range(3000)]
    load = draw_load(Workload(TraceArrivals(rates), FixedLengths(300, 60), len(rates)), 0)
    scaling = Scaling(metric="rate", target=25.0, min_replicas=1, max_replicas=4, interval_s=5.0)
    cold = ColdStart(provision_s=8.0, image_bytes=20e9, image_bytes_per_s=2e9, engine_start_s=2.0)
    run = simulate_fleet(one_pool(1, scaling=scaling, cold_start=cold), load, interval_s=5.0)
    starts = [event.at_s for event in run.events if event.kind == "start"]
    opens = [event.at_s for event in run.events if event.kind == "open"]
    assert starts[0] == 15.0
    assert opens[0] == starts[0] + 20.0
    paid = run.duration_s + sum(run.duration_s - start for start in starts)
    assert run.pools[0].replica_hours * 3600 == pytest.approx(paid)
    assert run.usd == pytest.approx(2.0 * paid / 3600)


@pytest.mark.parametrize(
    ("current", "metric", "wanted"), [(4, 10.0, 4), (4, 10.9, 4), (4, 15.0, 6), (4, 2.0, 2), (8, 30.0, 12)]
)
def test_wanted_replicas_follow_the_ratio(current, metric, wanted):
    scaling = Scaling(metric="rate", target=10.0, min_replicas=2, max_replicas=12)
    assert wanted_replicas(scaling, current, metric) == wanted


@pytest.mark.parametrize(("metric", "target"), [("rate", 12.0), ("outstanding", 12.0), ("kv", 0.08)])
def test_every_metric_follows_the_load_up_and_down(metric, target):
    load = draw_load(
        Workload(bursts(5.0, 60.0, every_s=120.0, lasting_s=60.0), UniformLengths(300, 120, 0.3), 4150), 0
    )
    scaling = Scaling(
        metric=metric, target=target, min_replicas=1, max_replicas=8, interval_s=2.0, down_window_s=10.0
    )
    cold = ColdStart(engine_start_s=4.0)
    run = simulate_fleet(one_pool(1, scaling=scaling, cold_start=cold), load, interval_s=10.0)
    ready = [row.num_ready for row in run.timeline]
    quiet = ready[4]
    busy = max(ready[6:12])
    after = ready[16]
    assert quiet <= 2 <= busy
    assert busy >= 1.5 * quiet
    assert after < busy
    assert run.pools[0].num_replicas_started > 0
    fixed = simulate_fleet(one_pool(8), load)
    assert run.usd < 0.8 * fixed.usd


def test_failures_with_prefix_caches_and_sessions_lose_nothing():
    load = draw_sessions(
        Sessions(
            arrivals=Poisson(3.0),
            lengths=UniformLengths(200, 100, 0.3),
            num_sessions=150,
            think_s=2.0,
            system_tokens=300,
            branches=2,
        ),
        0,
    )
    policy = replace(MACHINE, prefix_caching=True)
    fleet = one_pool(
        3,
        "session_affinity",
        policy=policy,
        failures=Failures(mtbf_s=25.0, repair_s=3.0),
        spot=SpotLoss(mean_life_s=30.0, notice_s=0.3),
    )
    jumped, stepped = (simulate_fleet(fleet, load, records=True, seed=2, jump=jump) for jump in (True, False))
    assert jumped.num_finished == len(load)
    assert jumped.num_retried > 10
    assert jumped.records.equals(stepped.records)


def test_a_rolling_deploy_with_surge_keeps_serving():
    load = draw_load(Workload(Poisson(30.0), UniformLengths(300, 120, 0.3), 1800), 0)
    cold = ColdStart(engine_start_s=5.0)
    for surge in (True, False):
        deploy = Deploy(at_s=10.0, at_a_time=1, surge=surge)
        run = simulate_fleet(one_pool(3, cold_start=cold, deploys=(deploy,)), load, interval_s=1.0)
        assert sum(event.kind == "drain" for event in run.events) == 3
        least = min(row.num_ready for row in run.timeline[12:20])
        assert (least >= 3.0) == surge
        assert run.num_retried == 0
