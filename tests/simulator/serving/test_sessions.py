"""Conversations that grow, agents that branch, and rates that vary."""

import numpy as np
import pytest

from advisor.catalog.errors import AdvisorError
from advisor.simulator.serving import (
    ClosedLoop,
    FixedLengths,
    Poisson,
    SchedulerPolicy,
    TraceArrivals,
    UniformLengths,
    VaryingRate,
    Workload,
)
from advisor.simulator.serving.arrivals import bursts, diurnal
from advisor.simulator.serving.fleet import Fleet, Pool
from advisor.simulator.serving.fleet_simulation import simulate_fleet
from advisor.simulator.serving.load import Tenant, merge_loads
from advisor.simulator.serving.sessions import Sessions, draw_sessions
from advisor.simulator.serving.workload import draw_arrivals
from advisor.simulator.step_cost import StepSurface

SURFACE = StepSurface(
    decode_base_ps=[0] + [5_000_000_000 + 20_000_000 * d for d in range(1, 65)],
    decode_context_ps=[27_000] * 65,
    mixed_base_ps=[0] + [5_000_000_000 + 25_000_000 * t for t in range(1, 2049)],
    prefill_pair_ps=100.0,
)
POLICY = SchedulerPolicy(
    max_num_seqs=64, max_num_batched_tokens=2048, kv_capacity_blocks=8000, prefix_caching=True
)


def fleet(count: int, router="session_affinity", policy=POLICY) -> Fleet:
    return Fleet(pools=(Pool(name="all", surface=SURFACE, policy=policy, num_replicas=count),), router=router)


def chats(**changes) -> Sessions:
    values = {
        "arrivals": Poisson(3.0),
        "lengths": UniformLengths(200, 100, 0.3),
        "num_sessions": 200,
        "mean_turns": 5.0,
        "think_s": 4.0,
        "system_tokens": 400,
    }
    return Sessions(**(values | changes))


def test_a_conversation_by_hand():
    """Three turns of 100 + 20 tokens behind a system prompt of 64: contexts grow, all but the new part is a hit."""
    load = draw_sessions(
        chats(
            arrivals=TraceArrivals([0.0]),
            lengths=FixedLengths(100, 20),
            num_sessions=1,
            mean_turns=3,
            fixed_turns=True,
            system_tokens=64,
        ),
        0,
    )
    assert load.input_tokens.tolist() == [164, 284, 404]
    assert load.instants_ps.tolist() == [0, -1, -1]
    assert load.followers == {0: (1,), 1: (2,)}
    run = simulate_fleet(fleet(1), load, records=True)
    records = run.records
    pauses = (records.arrived_ps[1:] - records.finished_ps[:-1]).tolist()
    assert pauses == list(load.think_ps)[1:]
    hits = [0, (164 + 19) // 16 * 16, (284 + 19) // 16 * 16]
    prefill = [
        5_000_000_000 + 25_000_000 * (n - hit) + 50 * (n - hit) * (n + hit)
        for n, hit in zip((164, 284, 404), hits, strict=True)
    ]
    assert (records.first_token_ps - records.arrived_ps).tolist() == prefill
    assert run.pools[0].prefix_hit_fraction == pytest.approx(sum(hits) / (164 + 284 + 404))


def test_the_turns_of_a_session_follow_each_other():
    load = draw_sessions(chats(), 1)
    run = simulate_fleet(fleet(2), load, records=True, seed=1)
    assert run.num_finished == len(load) > 600
    finished = dict(zip(run.records.index.tolist(), run.records.finished_ps.tolist(), strict=True))
    arrived = dict(zip(run.records.index.tolist(), run.records.arrived_ps.tolist(), strict=True))
    for before, after in load.followers.items():
        for request in after:
            assert arrived[request] == finished[before] + load.think_ps[request]


def test_sub_agents_start_together_and_are_waited_for():
    load = draw_sessions(
        chats(
            arrivals=TraceArrivals([0.0]),
            lengths=FixedLengths(50, 10),
            num_sessions=1,
            mean_turns=2,
            fixed_turns=True,
            system_tokens=0,
            branches=3,
            think_s=1.0,
        ),
        0,
    )
    assert load.input_tokens.tolist() == [50, 110, 110, 110, 60 + 30 + 50]
    assert load.num_awaited == {4: 3}
    records = simulate_fleet(fleet(1), load, records=True).records
    assert records.arrived_ps[1:4].tolist() == [int(records.finished_ps[0])] * 3
    assert int(records.arrived_ps[4]) == int(records.finished_ps[1:4].max()) + load.think_ps[4]


def test_users_of_a_closed_loop_are_never_more_than_they_are():
    users = {"arrivals": ClosedLoop(16), "num_sessions": 320, "mean_turns": 4.0, "fixed_turns": True}
    load = draw_sessions(chats(**users, think_s=1.0), 0)
    run = simulate_fleet(fleet(2), load, records=True)
    assert run.num_finished == len(load)
    steps = np.concatenate([np.ones(len(load), int), -np.ones(len(load), int)])
    instants = np.concatenate([run.records.arrived_ps, run.records.finished_ps])
    under_way = np.cumsum(steps[np.lexsort((steps, instants))])
    assert 12 <= under_way.max() <= 16
    # Little's law of the whole circle: users = turns per second x (time in the system + thinking).
    ends_s = run.records.finished_ps * 1e-12
    span_s = 0.4 * run.duration_s
    rate = int(((ends_s > span_s / 2) & (ends_s <= span_s * 1.5)).sum()) / span_s
    sojourn = float((run.records.finished_ps - run.records.arrived_ps).mean()) * 1e-12
    think = float(np.mean([load.think_ps[i] for i in range(len(load)) if load.instants_ps[i] < 0])) * 1e-12
    assert rate * (sojourn + think) == pytest.approx(16, rel=0.08)


def test_staying_with_ones_replica_hits_more():
    load = draw_sessions(chats(arrivals=Poisson(6.0)), 0)
    hits = {
        router: simulate_fleet(fleet(4, router), load).pools[0].prefix_hit_fraction
        for router in ("round_robin", "least_outstanding", "session_affinity", "prefix_affinity")
    }
    assert min(hits["session_affinity"], hits["prefix_affinity"]) > 0.8
    assert max(hits["round_robin"], hits["least_outstanding"]) < 0.75


def test_sessions_jump_exactly():
    load = draw_sessions(chats(branches=2, num_sessions=60), 0)
    jumped, stepped = (simulate_fleet(fleet(2), load, records=True, jump=jump) for jump in (True, False))
    assert jumped.records.equals(stepped.records)
    assert jumped.pools[0].prefix_hit_fraction == stepped.pools[0].prefix_hit_fraction
    assert jumped.pools[0].num_events < stepped.pools[0].num_events


def test_tenants_keep_their_sessions_apart():
    loads = [draw_sessions(chats(num_sessions=40), seed, Tenant(name=f"t{seed}")) for seed in (1, 2)]
    both = simulate_fleet(fleet(1), merge_loads(loads), records=True)
    assert both.num_finished == sum(map(len, loads))
    assert [tenant.num_finished for tenant in both.tenants] == list(map(len, loads))
    alone = simulate_fleet(fleet(1), loads[0])
    assert both.pools[0].prefix_hit_fraction < alone.pools[0].prefix_hit_fraction + 0.02


def test_a_session_ends_before_its_context_is_too_long():
    load = draw_sessions(chats(mean_turns=40.0, max_context_tokens=2000), 0)
    assert int((load.input_tokens + load.output_tokens).max()) <= 2000


@pytest.mark.parametrize(
    "changes",
    [{"mean_turns": 0.5}, {"think_s": -1.0}, {"num_sessions": 0}, {"mean_turns": 2.5, "fixed_turns": True}],
)
def test_impossible_sessions(changes):
    with pytest.raises(AdvisorError):
        chats(**changes)


def instants(arrivals, count: int) -> np.ndarray:
    workload = Workload(arrivals, FixedLengths(1, 1), count)
    drawn = draw_arrivals(workload, 0)
    return np.array([next(drawn) for _ in range(count)]) * 1e-12


def test_a_day_has_its_peak_and_its_mean():
    load = diurnal(2.0, 1.8, period_s=1000.0)
    assert load.mean_rate_per_s == pytest.approx(2.0)
    times = instants(load, 40_000)
    assert times[-1] == pytest.approx(20_000, rel=0.02)
    phase = times % 1000.0
    night = ((phase < 100) | (phase > 900)).sum()
    noon = ((phase > 400) & (phase < 600)).sum()
    assert noon / night == pytest.approx((1 + 0.8 * 0.935) / (1 - 0.8 * 0.935), rel=0.1)


def test_bursts_come_when_they_are_due():
    times = instants(bursts(1.0, 50.0, every_s=60.0, lasting_s=5.0), 20_000)
    inside = (times % 60.0) >= 55.0
    assert inside.mean() == pytest.approx(250 / 305, abs=0.01)


def test_nobody_comes_while_the_rate_is_zero():
    times = instants(VaryingRate(((10.0, 0.0), (10.0, 5.0), (5.0, 0.0))), 5000)
    phase = times % 25.0
    assert phase.min() >= 10.0
    assert phase.max() <= 20.0


def test_a_constant_rate_is_a_poisson_process():
    gaps = np.diff(instants(VaryingRate(((7.0, 3.0),)), 20_000))
    assert gaps.mean() == pytest.approx(1 / 3, rel=0.03)
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, rel=0.03)


@pytest.mark.parametrize("steps", [(), ((1.0, 0.0),), ((0.0, 1.0),), ((1.0, -1.0),)])
def test_impossible_rates(steps):
    with pytest.raises(AdvisorError):
        VaryingRate(steps)
    with pytest.raises(AdvisorError):
        diurnal(1.0, 2.5)
