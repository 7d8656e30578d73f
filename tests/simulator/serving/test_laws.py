"""Laws that hold for all parameters: conservation, Little's law, equal seeds, common random numbers, monotony."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.simulator.serving import (
    ClosedLoop,
    FixedLengths,
    Gamma,
    LognormalLengths,
    Poisson,
    SchedulerPolicy,
    Slo,
    UniformLengths,
    Workload,
    simulate,
)
from advisor.simulator.step_cost import StepSurface


def surface(scale: float = 1.0, max_num_seqs: int = 128, max_tokens: int = 4096) -> StepSurface:
    """About Llama-3.1-8B on one H200: 5 ms a step, 25 µs a prompt token."""
    return StepSurface(
        decode_base_ps=[0] + [int(scale * (5e9 + 2e7 * d)) for d in range(1, max_num_seqs + 1)],
        decode_context_ps=[int(scale * 27_000)] * (max_num_seqs + 1),
        mixed_base_ps=[0] + [int(scale * (5e9 + 2.5e7 * t)) for t in range(1, max_tokens + 1)],
        prefill_pair_ps=scale * 100.0,
    )


POLICY = SchedulerPolicy(max_num_seqs=128, max_num_batched_tokens=4096, kv_capacity_blocks=2500)
WORKLOADS = [
    Workload(ClosedLoop(32), UniformLengths(512, 64), 400),
    Workload(Poisson(20.0), UniformLengths(512, 64, 0.2), 400),
    Workload(Gamma(20.0, 4.0), LognormalLengths(512, 64, 1.0), 400),
]
KINDS = ["mixed", "prefill_first", "static", "single_stream"]


def policy(kind: str, **changes) -> SchedulerPolicy:
    return SchedulerPolicy(
        kind=kind, max_num_seqs=128, max_num_batched_tokens=4096, kv_capacity_blocks=2500, **changes
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: type(w.arrivals).__name__)
def test_every_request_is_done_or_refused(kind, workload):
    result = simulate(surface(), policy(kind, max_context_tokens=600), workload, records=True)
    assert result.num_requests == workload.num_requests == result.num_finished + result.num_refused
    assert result.num_in_flight == 0
    assert len(result.records) == result.num_finished
    assert result.output_tokens == int(result.records.output_tokens.sum())
    assert result.input_tokens == int(result.records.input_tokens.sum())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: type(w.arrivals).__name__)
def test_instants_of_a_request_are_in_order(kind, workload):
    records = simulate(surface(), policy(kind), workload, records=True).records
    assert np.all(records.arrived_ps <= records.admitted_ps)
    assert np.all(records.admitted_ps < records.first_token_ps)
    assert np.all(records.first_token_ps <= records.finished_ps)
    assert np.array_equal(records.first_token_ps == records.finished_ps, records.output_tokens == 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: type(w.arrivals).__name__)
def test_littles_law(kind, workload):
    """Time-average of requests in the system, from arrivals and departures alone, = throughput × mean E2E."""
    result = simulate(surface(), policy(kind), workload, records=True)
    records = result.records
    instants = np.concatenate([records.arrived_ps, records.finished_ps])
    steps = np.concatenate([np.ones(len(records), int), -np.ones(len(records), int)])
    order = np.argsort(instants, kind="stable")
    in_system = np.cumsum(steps[order])[:-1]
    area = sum(n * t for n, t in zip(in_system.tolist(), np.diff(instants[order]).tolist(), strict=True))
    mean_in_system = area * 1e-12 / result.duration_s
    assert mean_in_system == pytest.approx(result.requests_per_s * result.e2e.mean_s, rel=1e-9)


@pytest.mark.parametrize("jump", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_inter_token_times_add_up_to_the_time_between_first_and_last_token(kind, jump):
    """The weighted histogram of runs and the records are two ways to the same sum, preemptions included."""
    tight = SchedulerPolicy(kind=kind, max_num_seqs=64, max_num_batched_tokens=2048, kv_capacity_blocks=400)
    result = simulate(surface(), tight, WORKLOADS[0], records=True, jump=jump)
    assert (result.num_preemptions > 0) == (kind in ("mixed", "prefill_first"))
    records = result.records
    total_s = float((records.finished_ps - records.first_token_ps).sum()) * 1e-12
    assert result.itl.mean_s * result.itl.num_samples == pytest.approx(total_s, rel=1e-12)
    assert result.itl.num_samples == int((records.output_tokens - 1).sum())


def test_inter_token_quantiles_do_not_depend_on_jumping():
    jumped = simulate(surface(), POLICY, WORKLOADS[1])
    stepped = simulate(surface(), POLICY, WORKLOADS[1], jump=False)
    assert jumped.num_events < stepped.num_events == jumped.num_iterations
    for fraction in (0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0):
        assert jumped.itl.quantile_s(fraction) == pytest.approx(stepped.itl.quantile_s(fraction), rel=1e-6)
    assert jumped.mean_kv_tokens == stepped.mean_kv_tokens
    assert jumped.mean_batch == stepped.mean_batch


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: type(w.arrivals).__name__)
def test_same_seed_same_records_other_seed_others(workload):
    first = simulate(surface(), POLICY, workload, records=True, seed=4).records
    again = simulate(surface(), POLICY, workload, records=True, seed=4).records
    other = simulate(surface(), POLICY, workload, records=True, seed=5).records
    assert first.equals(again)
    assert not first.equals(other)


def test_request_i_is_the_same_whatever_the_rate():
    slow, fast = (
        simulate(
            surface(), POLICY, Workload(Poisson(rate), UniformLengths(512, 64), 300), records=True
        ).records
        for rate in (1.0, 40.0)
    )
    assert np.array_equal(slow.input_tokens, fast.input_tokens)
    assert np.array_equal(slow.output_tokens, fast.output_tokens)
    assert slow.arrived_ps / 40.0 == pytest.approx(fast.arrived_ps, rel=1e-9, abs=1.0)


def test_inputs_do_not_depend_on_how_outputs_are_drawn():
    records = [
        simulate(
            surface(), POLICY, Workload(Poisson(5.0), UniformLengths(512, outputs), 50), records=True
        ).records
        for outputs in (16, 64)
    ]
    assert np.array_equal(records[0].input_tokens, records[1].input_tokens)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from([2.0, 3.0, 0.5]), st.sampled_from(KINDS))
def test_a_slower_machine_under_slower_arrivals_is_the_same_in_slow_motion(scale, kind):
    """Scaling all times by k scales all latencies by k."""
    fast = simulate(surface(), policy(kind), Workload(Poisson(8.0), FixedLengths(200, 20), 60), records=True)
    slow = simulate(
        surface(scale), policy(kind), Workload(Poisson(8.0 / scale), FixedLengths(200, 20), 60), records=True
    )
    assert slow.records.finished_ps == pytest.approx(fast.records.finished_ps * scale, rel=1e-6)


def test_percentiles_rise_with_load():
    p99 = [
        simulate(surface(), POLICY, Workload(Poisson(r), UniformLengths(512, 64), 600)).ttft.p99_s
        for r in (2, 20, 60)
    ]
    assert p99 == sorted(p99)


def test_fixed_lengths_lock_a_closed_loop_in_step():
    """All clients end together, so all prompts come together: mean TTFT about doubles against spread lengths."""
    fixed, spread = (
        simulate(surface(), POLICY, Workload(ClosedLoop(64), lengths, 1280)).ttft.mean_s
        for lengths in (FixedLengths(461, 231), UniformLengths(512, 256, 0.8))
    )
    assert fixed > 1.8 * spread


def test_giving_up_stops_early_and_still_accounts_for_everybody():
    """Far beyond capacity: the first violations end the trial."""
    workload = Workload(Poisson(500.0), UniformLengths(512, 64), 20_000)
    result = simulate(surface(), POLICY, workload, slo=Slo(ttft_s=0.5), give_up_after_violations=50)
    assert result.gave_up
    assert result.num_violations > 50
    assert result.num_finished < 2000
    assert result.num_in_flight > 0
    assert result.num_requests == result.num_finished + result.num_in_flight + result.num_refused


def test_a_trial_within_its_violations_runs_to_the_end():
    workload = Workload(Poisson(5.0), UniformLengths(512, 64), 300)
    result = simulate(surface(), POLICY, workload, slo=Slo(ttft_s=2.0), give_up_after_violations=3)
    assert not result.gave_up
    assert result.goodput_fraction == 1.0
    assert result.num_finished == 300


def test_steady_state_of_an_open_loop_leaves_out_ramp_and_drain():
    """Between the 30th completion and the 30th from the end."""
    workload = Workload(Poisson(5.0), UniformLengths(16, 400, 0.2), 300)
    result = simulate(surface(), POLICY, workload, records=True)
    records = result.records
    order = np.argsort(records.finished_ps, kind="stable")
    span_s = float(records.finished_ps[order[269]] - records.finished_ps[order[29]]) * 1e-12
    tokens = int(records.output_tokens[order[30:270]].sum())
    assert result.steady_output_tokens_per_s == pytest.approx(tokens / span_s, rel=1e-6)
    assert result.steady_requests_per_s == pytest.approx(240 / span_s, rel=1e-6)


def test_steady_state_of_a_closed_loop_ends_when_a_client_has_nothing_to_send():
    """At the 64th completion from the end; decoding alone in the drain is slow."""
    workload = Workload(ClosedLoop(64), UniformLengths(16, 400, 0.2), 320)
    result = simulate(surface(), POLICY, workload, records=True)
    records = result.records
    order = np.argsort(records.finished_ps, kind="stable")
    end_ps = records.finished_ps[order[255]]
    lasted_ps = records.finished_ps - records.admitted_ps
    passed = np.clip((end_ps - records.admitted_ps) / lasted_ps, 0.0, 1.0)
    assert result.steady_requests_per_s == pytest.approx(passed.sum() / (end_ps * 1e-12), rel=1e-6)
    tokens = float((passed * records.output_tokens).sum())
    assert result.steady_output_tokens_per_s == pytest.approx(tokens / (end_ps * 1e-12), rel=1e-6)
    assert result.steady_output_tokens_per_s > 1.1 * result.output_tokens_per_s
    offline = simulate(surface(), POLICY, Workload(ClosedLoop(100), UniformLengths(512, 64), 100))
    assert offline.steady_output_tokens_per_s is None


@pytest.mark.parametrize("sigma", [0.02, 0.2])
@pytest.mark.parametrize("num_blocks", [600, 1000, 2000])
def test_a_short_closed_loop_has_the_steady_rate_of_a_long_one(sigma: float, num_blocks: int) -> None:
    """Few rounds of clients that end in waves, with room for some of them in the cache."""
    policy = replace(POLICY, kv_capacity_blocks=num_blocks)
    rates = []
    for rounds in (3, 4, 5, 40):
        load = Workload(ClosedLoop(24), LognormalLengths(800, 300, sigma=sigma), 24 * rounds)
        rates.append(simulate(surface(), policy, load).steady_output_tokens_per_s)
    assert rates[:3] == pytest.approx([rates[3]] * 3, rel=0.1)


def test_busy_fraction_is_the_offered_load_when_requests_do_not_meet():
    workload = Workload(Poisson(0.05), FixedLengths(100, 5), 200)
    result = simulate(surface(), POLICY, workload, records=True)
    served = float((result.records.finished_ps - result.records.admitted_ps).sum()) * 1e-12
    assert result.busy_fraction == pytest.approx(served / result.duration_s, rel=0.02)


@pytest.mark.parametrize("kind", ["mixed", "prefill_first"])
@pytest.mark.parametrize("reserve", [0.0, 0.7])
@pytest.mark.parametrize("prompt", [512, 6000, 20_000])
def test_clients_beyond_the_cache_take_no_more_than_a_tenth_of_the_throughput(
    kind: str, reserve: float, prompt: int
) -> None:
    """A prompt of many chunks is not begun, evicted and begun again."""
    output = 64
    fits = 40_000 // (prompt + 64)
    rates = []
    for clients in (fits, fits + 1, fits + 2, 2 * fits, 4 * fits, 128):
        found = simulate(
            surface(),
            policy(kind, reserve_output_fraction=reserve),
            Workload(ClosedLoop(clients), UniformLengths(prompt, output, 0.1), 6 * clients),
        )
        rates.append(found.output_tokens / found.duration_s)
    assert min(rates[1:]) > 0.9 * rates[0]
