"""How much load a replica carries: what is found holds, a little more does not, and no run depends on another."""

import dataclasses
import datetime
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from advisor.catalog import accelerators, engines, models
from advisor.decide import measure
from advisor.decide.load_runs import (
    _stratified_lengths,
    arrivals_per_s,
    busy_clients,
    lengths_of,
    odds_of_missing,
    run_at,
    strain,
)
from advisor.decide.measure import NUM_SEEDS, SIGMA, STAGES, Capacity, Measurements, planning_point, seed_of
from advisor.decide.scenario import Objectives, Scenario, Traffic
from advisor.simulator.deployment import Deployment
from advisor.simulator.replica_model import EngineSettings, ReplicaModel, model_replica
from advisor.simulator.serving import EmpiricalLengths, FixedLengths, LognormalLengths
from advisor.simulator.step_cost import scale_steps

CHAT = Traffic(mean_input_tokens=300, mean_output_tokens=60, input_sigma=0.5, output_sigma=0.5)
OBJECTIVES = Objectives(ttft_p99_s=1.0, tpot_p99_s=0.05)
TIGHT = 1.3
"""At so many times the load that was found, a run of another length and the same seed misses an objective."""


@pytest.fixture(scope="module")
def replica() -> ReplicaModel:
    deployment = Deployment(
        models.by_id("llama-3.1-8b"), accelerators.by_id("a100-sxm-80gb"), engines.by_id("vllm")
    )
    return model_replica(
        deployment, mean_input_tokens=300, mean_output_tokens=60, settings=EngineSettings(max_num_seqs=128)
    )


def runs_of(
    replica: ReplicaModel,
    traffic: Traffic = CHAT,
    objectives: Objectives = OBJECTIVES,
    bound: float = 60.0,
    seed: int = 0,
) -> Measurements:
    scenario = Scenario(
        model="llama-3.1-8b",
        traffic=traffic,
        objectives=objectives,
        as_of=datetime.date(2026, 11, 20),
        seed=seed,
        headroom_fraction=0.0,
    )
    return Measurements(replica, scenario, bound)


def settle_capacity(runs: Measurements) -> Capacity:
    found = runs.capacity("settled")
    assert found is not None
    return found


def figures(found: Capacity) -> tuple[object, ...]:
    """Figures of a capacity, and the runs that show it."""
    run = found.result
    return found.load, found.requests_per_s, found.binding, run.num_requests, run.ttft.p99_s, run.tpot.p99_s


def test_the_load_found_holds_and_more_does_not(replica: ReplicaModel) -> None:
    runs = runs_of(replica)
    found = settle_capacity(runs)
    lasting = run_at(replica, CHAT, 0.95 * found.load, 30_000, 77)
    assert strain(lasting, OBJECTIVES)[0] <= 1.0
    assert found.result.num_requests >= measure.LONG_REQUESTS
    assert found.requests_per_s == found.load < runs.bound_per_s
    longer = run_at(replica, CHAT, TIGHT * found.load, 6000, 0)
    assert strain(longer, OBJECTIVES)[0] > 1.0
    assert found.binding in ("ttft", "tpot", "throughput")


def test_a_later_stage_is_more_precise_and_each_run_is_made_once(replica: ReplicaModel) -> None:
    runs = runs_of(replica)
    found = [runs.capacity(stage) for stage in STAGES]
    assert all(found)
    spent = runs.num_requests
    assert [runs.capacity(stage) for stage in reversed(STAGES)] == found[::-1]
    assert runs.num_requests == spent
    assert [each.stage for each in found if each] == list(STAGES)
    assert all(SIGMA[later] < SIGMA[earlier] for earlier, later in pairwise(STAGES))
    for earlier, later in pairwise(each for each in found if each):
        assert abs(np.log(later.load / earlier.load)) < 3.0 * earlier.sigma


def test_loads_that_were_tried_before_change_no_capacity(replica: ReplicaModel) -> None:
    """A race asks for the load that would beat a leader first, which depends on the other candidates."""
    fresh = settle_capacity(runs_of(replica))
    for part in (0.5, 0.9, 1.1):
        runs = runs_of(replica)
        runs.capacity("screened")
        runs.holds(runs.load_from(part * fresh.load))
        runs.holds(runs.load_from(part * fresh.load), "settled")
        assert figures(settle_capacity(runs)) == figures(fresh)


def test_a_load_is_raised_to_the_grid_by_three_per_cent_at_most(replica: ReplicaModel) -> None:
    runs = runs_of(replica)
    for load in (0.01, 1.0, 7.3, 59.9, 60.0):
        raised = runs.load_from(load)
        assert load <= raised <= load / 0.97 * (1 + 1e-9)
        assert runs.load_from(raised) == raised
    clients = runs_of(replica, CHAT.model_copy(update={"concurrency": 8}))
    assert [clients.load_from(load) for load in (0.5, 3.0, 3.2)] == [1.0, 3.0, 4.0]


@pytest.mark.parametrize("objectives", [OBJECTIVES, Objectives(ttft_p99_s=0.3, tpot_p99_s=0.02)])
def test_another_seed_finds_nearly_the_same(replica: ReplicaModel, objectives: Objectives) -> None:
    loads = [settle_capacity(runs_of(replica, objectives=objectives, seed=seed)).load for seed in range(3)]
    assert np.ptp(np.log(loads)) < 4.0 * SIGMA["settled"]


def test_a_long_run_serves_what_was_promised(replica: ReplicaModel) -> None:
    """The empty start of a short run must neither raise nor lower the answer."""
    loose = Objectives(ttft_p99_s=2.0, tpot_p99_s=1.0)
    found = settle_capacity(runs_of(replica, objectives=loose, bound=100.0))
    longer = run_at(replica, CHAT, found.load, 8000, 1)
    served = longer.steady_requests_per_s
    assert served is not None
    assert served > 0.93 * found.load
    overloaded = run_at(replica, CHAT, 2.0 * found.load, 8000, 1).steady_requests_per_s
    assert overloaded is not None
    assert found.load > 0.85 * overloaded  # saturation throughput; latency takes little of it here


def test_what_comes_faster_than_it_can_be_served_is_refused_however_patient_its_users(
    replica: ReplicaModel,
) -> None:
    """At a utilisation above 1 the queue grows with every arrival: no wait is long enough to make that a capacity."""
    patient = Objectives(ttft_p99_s=1e6, tpot_p99_s=1e3)
    always_full = CHAT.model_copy(update={"concurrency": 512})
    served = run_at(replica, always_full, 512, 6000, 0).steady_requests_per_s
    assert served is not None
    load = 1.5 * served
    for num_requests in (3000, 6000, 12000):
        mean_wait_s = (
            num_requests / 2 * (1.0 / served - 1.0 / load)
        )  # of a backlog that grows by load - served
        assert run_at(replica, CHAT, load, num_requests, 0).queueing.mean_s == pytest.approx(
            mean_wait_s,
            rel=0.12,  # clients in step and arrivals out of it fill iterations a little differently
        )
    short = run_at(replica, CHAT, load, measure.SHORT_REQUESTS, 0)
    assert strain(short, patient)[0] < 1.0  # latencies alone would let it pass
    runs = runs_of(replica, objectives=patient, bound=load)
    found = runs.capacity("confirmed")
    assert found is not None
    assert found.binding == "throughput"
    assert found.load / served < 1.12  # a run from an empty replica to an empty one cannot tell a tenth
    assert runs.holds(load) is None


def test_same_seed_same_answer_and_tighter_never_more(replica: ReplicaModel) -> None:
    first, again = (settle_capacity(runs_of(replica)) for _ in range(2))
    assert figures(first) == figures(again)
    tighter = settle_capacity(runs_of(replica, objectives=Objectives(ttft_p99_s=1.0, tpot_p99_s=0.025)))
    assert tighter.load < first.load
    assert tighter.binding == "tpot"


@pytest.mark.parametrize("objectives", [Objectives(tpot_p99_s=1e-4), Objectives(ttft_p99_s=1e-4)])
def test_what_cannot_be_met_at_any_load_is_none(replica: ReplicaModel, objectives: Objectives) -> None:
    runs = runs_of(replica, objectives=objectives)
    assert [runs.capacity(stage) for stage in STAGES] == [None] * 3


def test_a_very_slow_replica_is_no_mistake_of_the_user(replica: ReplicaModel) -> None:
    slow = dataclasses.replace(
        replica,
        surface=dataclasses.replace(
            replica.surface, mixed_base_ps=[4000 * t for t in replica.surface.mixed_base_ps]
        ),
    )
    generous = Objectives(ttft_p99_s=1000.0, tpot_p99_s=200.0)
    found = runs_of(slow, objectives=generous, bound=0.01).capacity("screened")
    assert found is None or 0 < found.load <= 0.01


def test_clients_are_whole_and_tried_up_to_twice_those_asked_for(replica: ReplicaModel) -> None:
    generous = Objectives(ttft_p99_s=10.0, tpot_p99_s=1.0)
    found = settle_capacity(runs_of(replica, CHAT.model_copy(update={"concurrency": 8}), generous, 1e9))
    assert found.load == 16.0
    assert found.requests_per_s == pytest.approx(found.result.steady_requests_per_s)
    tight = Objectives(ttft_p99_s=10.0, tpot_p99_s=0.02)
    fewer = settle_capacity(runs_of(replica, CHAT.model_copy(update={"concurrency": 100}), tight, 1e9))
    assert fewer.load == int(fewer.load)
    assert 1 <= fewer.load < 100


def test_one_replica_is_not_given_more_clients_than_it_answers_in_time() -> None:
    """A hundred thousand clients take minutes to simulate, and miss every objective."""
    objectives = Objectives(ttft_p99_s=2.0, tpot_p99_s=0.05)
    traffic = Traffic(concurrency=100_000, mean_input_tokens=100, mean_output_tokens=200)
    assert busy_clients(traffic, objectives, 10.0) == pytest.approx(10.0 * (2.0 + 200 * 0.05))
    free = Objectives(ttft_p99_s=None, tpot_p99_s=None)
    assert busy_clients(traffic, free, 10.0) == 100_000


@pytest.mark.parametrize("error", [0.0, 1.0])
def test_a_planning_point_rests_on_seeds_that_decided_nothing(
    replica: ReplicaModel, monkeypatch: pytest.MonkeyPatch, error: float
) -> None:
    """Three seeds, and more of them where percentiles stay uncertain."""
    monkeypatch.setattr(measure, "sampling_error", lambda *_: error)
    point = planning_point(replica, CHAT, OBJECTIVES, 5.0, 4, spacing_s=0.0)
    assert len(set(point.seeds)) == len(point.seeds) == (8 if error else 3)
    decided = {seed_of(seed, number) for seed in range(10) for number in range(NUM_SEEDS["settled"])}
    assert not decided & set(point.seeds)
    assert point.result.num_requests == len(point.seeds) * point.num_requests
    alone = [run_at(replica, CHAT, 5.0, point.num_requests, seed) for seed in point.seeds]
    assert point.result.ttft.mean_s == pytest.approx(np.mean([run.ttft.mean_s for run in alone]))


def test_lengths_follow_the_traffic(tmp_path) -> None:  # type: ignore[no-untyped-def]
    assert isinstance(lengths_of(CHAT), LognormalLengths)
    assert isinstance(
        lengths_of(CHAT.model_copy(update={"input_sigma": 0.0, "output_sigma": 0.0})), FixedLengths
    )
    path = tmp_path / "trace.csv"
    path.write_text("arrived_at_s,input_tokens,output_tokens\n0,100,10\n1,300,30\n")
    traced = lengths_of(CHAT.model_copy(update={"trace": path}))
    assert isinstance(traced, EmpiricalLengths)
    assert tuple(traced.pairs) == ((100, 10), (300, 30))


def test_a_replica_sees_its_share_of_a_trace_bursts_included(replica: ReplicaModel, tmp_path: Path) -> None:
    """Requests of one length, evenly or in bursts of 40: the same mean rate, another tail; the p99 decides."""
    p99 = {}
    for name, instants in (("even", range(1200)), ("bursts", (40 * (k // 40) for k in range(1200)))):
        path = tmp_path / f"{name}.csv"
        rows = "".join(f"{0.25 * at},1000,100\n" for at in instants)
        path.write_text("arrived_at_s,input_tokens,output_tokens\n" + rows)
        traced = CHAT.model_copy(update={"trace": path})
        result = run_at(replica, traced, 4.0, 1000, 0)
        assert result.num_finished == 1000
        assert result.requests_per_s == pytest.approx(4.0, rel=0.05)
        p99[name] = result.ttft.p99_s
        thinned = run_at(replica, traced, 1.0, 250, 0)
        assert thinned.requests_per_s == pytest.approx(1.0, rel=0.1)
    assert p99["bursts"] > 5 * p99["even"]


def test_a_trace_that_begins_in_the_night_leaves_a_replica_its_capacity(
    replica: ReplicaModel, tmp_path: Path
) -> None:
    """The first requests of a day came at a fraction of its mean rate, so no replica seemed to keep up with that."""
    path = tmp_path / "day.csv"
    gaps = [4.0] * 3000 + [1.0] * 9000
    rows = "".join(f"{at},1000,100\n" for at in np.cumsum(gaps))
    path.write_text("arrived_at_s,input_tokens,output_tokens\n" + rows)
    found = settle_capacity(runs_of(replica, CHAT.model_copy(update={"trace": path}), bound=10.0))
    assert found.load > 1.0


def test_only_a_trace_has_hours_of_its_own(tmp_path: Path) -> None:
    """Runs of drawn arrivals are held against the load: of pools, requests end in no order of their arrivals."""
    assert arrivals_per_s(CHAT, 7.0, 1200, 0) == 7.0
    path = tmp_path / "even.csv"
    rows = "".join(f"{0.25 * at},1000,100\n" for at in range(2000))
    path.write_text("arrived_at_s,input_tokens,output_tokens\n" + rows)
    even = CHAT.model_copy(update={"trace": path})
    assert arrivals_per_s(even, 4.0, 1200, 3) == pytest.approx(4.0, rel=0.02)


def test_many_refused_requests_break_an_objective(replica: ReplicaModel) -> None:
    small = dataclasses.replace(replica, policy=dataclasses.replace(replica.policy, kv_capacity_blocks=20))
    result = run_at(small, CHAT, 1.0, 200, 0)
    assert result.num_refused > 2
    assert strain(result, Objectives())[1] == "kv cache"
    assert strain(result, Objectives())[0] > 1.0


def test_clients_do_not_all_begin_at_once(replica: ReplicaModel) -> None:
    clients = CHAT.model_copy(update={"concurrency": 60})
    together = run_at(replica, clients, 60, 300, 0)
    apart = run_at(replica, clients, 60, 300, 0, spacing_s=0.05)
    assert apart.ttft.p99_s < 0.5 * together.ttft.p99_s


def test_few_requests_may_come_hours_apart(replica: ReplicaModel) -> None:
    """Arrivals are drawn in chunks that reach beyond the longest simulated time at such a rate."""
    result = run_at(replica, CHAT, 1e-3, 100, 0)
    assert result.num_finished == 100
    assert result.duration_s == pytest.approx(100 / 1e-3, rel=0.3)


def test_of_prompts_with_a_heavy_tail_every_run_has_its_share() -> None:
    """Of 600 requests six are longer than the 99th percentile, by chance none to fourteen."""
    heavy = Traffic(
        mean_input_tokens=13312,
        mean_output_tokens=347,
        input_sigma=1.1,
        output_sigma=0.6,
        max_input_tokens=123192,
    )
    limit = heavy.prompt_tokens(99)
    runs = []
    for seed in range(8):
        lengths = _stratified_lengths(heavy, 600, seed)
        assert isinstance(lengths, EmpiricalLengths)
        runs.append(np.array(lengths.pairs))
    for pairs in runs:
        assert len(pairs) == 600
        assert int((pairs[:, 0] > limit - 1.0).sum()) == 6
        assert pairs[:, 0].max() <= 123192
        assert pairs[:, 0].mean() == pytest.approx(13312, rel=0.01)
        assert pairs[:, 1].mean() == pytest.approx(347, rel=0.01)
        assert abs(np.corrcoef(pairs[:, 0], pairs[:, 1])[0, 1]) < 0.15
    assert not np.array_equal(runs[0], runs[1])
    assert heavy.has_heavy_tail
    assert not heavy.model_copy(update={"input_sigma": 0.9}).has_heavy_tail


def test_odds_of_missing_agree_with_percentiles(replica: ReplicaModel) -> None:
    """Above 1 exactly where the percentile is beyond its limit, by how many requests are."""
    for load in (2.0, 20.0, 40.0):
        result = run_at(replica, CHAT, load, 2000, 3)
        for limit_s in (0.05, 0.1, 0.5, 1.0):
            objectives = Objectives(ttft_p99_s=limit_s, tpot_p99_s=None)
            odds, metric = odds_of_missing(result, objectives)
            tightest, _ = strain(result, objectives)
            assert metric == "ttft"
            missed = result.ttft.fraction_above(limit_s)
            if abs(missed - 0.01) > 1.0 / result.num_requests:
                assert (odds > 1.0) == (tightest > 1.0) == (missed > 0.01)


def test_a_run_is_given_up_only_where_no_other_could_make_up_for_it() -> None:
    """A run gives up at as many requests as may miss one of three metrics in all runs together."""
    for stage in STAGES[1:]:
        assert measure._GIVE_UP[stage] >= 3 * NUM_SEEDS[stage] * 0.01


def test_only_drawn_requests_that_may_wait_have_a_known_error(replica: ReplicaModel) -> None:
    closed = CHAT.model_copy(update={"concurrency": 8})
    patient = Objectives(ttft_p99_s=None, tpot_p99_s=0.05)
    assert runs_of(replica)._error(20.0, "settled") != 0.0
    assert runs_of(replica)._error(20.0, "screened") == 0.0
    assert runs_of(replica, closed)._error(20.0, "settled") == 0.0
    assert runs_of(replica, objectives=patient)._error(20.0, "settled") == 0.0


def test_a_run_is_remembered_by_all_that_decides_it(replica: ReplicaModel) -> None:
    """Equal tables of another object are the same question; each other table, policy, load or seed is another one."""
    found = run_at(replica, CHAT, 2.0, 200, 3)
    equal = dataclasses.replace(replica, surface=dataclasses.replace(replica.surface))
    assert run_at(equal, CHAT, 2.0, 200, 3) is found
    policy = replica.policy
    others = (
        dataclasses.replace(replica, surface=scale_steps(replica.surface, 1.01, 1.0)),
        dataclasses.replace(replica, surface=scale_steps(replica.surface, 1.0, 1.01)),
        dataclasses.replace(
            replica, policy=dataclasses.replace(policy, api_overhead_ps=policy.api_overhead_ps + 10**9)
        ),
    )
    for other in others:
        assert run_at(other, CHAT, 2.0, 200, 3).ttft.sum_ps != found.ttft.sum_ps
    assert run_at(replica, CHAT, 2.1, 200, 3).ttft.sum_ps != found.ttft.sum_ps
    assert run_at(replica, CHAT, 2.0, 200, 4).ttft.sum_ps != found.ttft.sum_ps
    heavy = CHAT.model_copy(update={"input_sigma": 1.2})
    listed = run_at(replica, heavy, 2.0, 200, 3)
    assert run_at(replica, heavy, 2.0, 200, 3) is listed
    longer = heavy.model_copy(update={"mean_output_tokens": CHAT.mean_output_tokens + 1})
    for other_run in (
        run_at(replica, longer, 2.0, 200, 3),
        run_at(replica, heavy, 2.0, 199, 3),
        run_at(replica, heavy, 2.0, 200, 4),
    ):
        assert other_run.ttft.sum_ps != listed.ttft.sum_ps
