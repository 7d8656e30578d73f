"""Jumping equals stepping, and both equal a simulator that recomputes every sum in every iteration."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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
from advisor.simulator.step_cost import StepSurface

MAX_SEQS = 12
MAX_TOKENS = 40


@st.composite
def surfaces(draw, num_stages=1):
    """Small whole numbers, so that instants coincide often: ties are where order shows."""
    slope = draw(st.integers(0, 3))
    windowed = draw(st.booleans())
    base = draw(st.integers(1, 50))
    return StepSurface(
        decode_base_ps=[0] + [base + d * draw(st.integers(0, 2)) for d in range(1, MAX_SEQS + 1)],
        decode_context_ps=[0] + [slope + d % 2 for d in range(1, MAX_SEQS + 1)],
        mixed_base_ps=[0] + [base + 2 * t for t in range(1, MAX_TOKENS + 1)],
        prefill_pair_ps=draw(st.sampled_from([0.0, 0.5, 1.3])),
        prefill_sequence_ps=draw(st.integers(0, 5)),
        riding_sequence_ps=draw(st.integers(0, 3)),
        window_tokens=draw(st.integers(1, 20)) if windowed else None,
        decode_window_ps=[0] + [2] * MAX_SEQS if windowed else (),
        prefill_window_pair_ps=0.7 if windowed else 0.0,
        num_stages=num_stages,
        stage_transfer_ps=draw(st.integers(0, 7)) if num_stages > 1 else 0,
        launch_ps=draw(st.sampled_from([0, 0, 25, 90])),
        captured_tokens=draw(st.integers(0, 20)),
        full_clock_ps=draw(st.sampled_from([0, 40, 200])),
        limited_scale=draw(st.sampled_from([1.0, 1.0, 1.17, 2.0])),
        clock_recovery=draw(st.sampled_from([0.0, 0.7, 1.0])),
        reading_ps=draw(st.sampled_from([0, 20])),
    )


@st.composite
def policies(draw):
    kind = draw(st.sampled_from(["mixed", "mixed", "prefill_first", "static", "single_stream"]))
    block = draw(st.integers(1, 5))
    return SchedulerPolicy(
        kind=kind,
        max_num_seqs=draw(st.integers(1, MAX_SEQS)),
        max_num_batched_tokens=draw(st.integers(MAX_SEQS, MAX_TOKENS)),
        chunked_prefill=draw(st.booleans()),
        kv_capacity_blocks=draw(st.one_of(st.none(), st.integers(30 // block + 1, 160 // block))),
        block_tokens=block,
        watermark_blocks=draw(st.integers(0, 2)),
        reserve_output_fraction=draw(st.sampled_from([0.0, 0.0, 0.4, 1.0])),
        max_sequences_by_state=draw(st.one_of(st.none(), st.integers(1, 8))),
        overlap_scheduling=draw(st.booleans()),
        api_overhead_ps=draw(st.sampled_from([0, 0, 37])),
        admission_ps=draw(st.sampled_from([0, 3])),
        delivery_ps=draw(st.sampled_from([0, 0, 1, 9, 40])),
    )


@st.composite
def workloads(draw):
    num = draw(st.integers(1, 30))
    top_in = draw(st.integers(1, 60))
    top_out = draw(st.integers(1, 40))
    lengths = draw(
        st.one_of(
            st.builds(FixedLengths, st.just(top_in), st.just(top_out)),
            st.builds(UniformLengths, st.just(top_in), st.just(top_out), st.sampled_from([0.0, 0.5, 0.9])),
            st.builds(
                EmpiricalLengths, st.lists(st.tuples(st.integers(1, 60), st.integers(1, 40)), min_size=1)
            ),
        )
    )
    gap = st.integers(0, 400)
    arrivals = draw(
        st.one_of(
            st.builds(ClosedLoop, st.integers(1, 14)),
            st.builds(ClosedLoop, st.integers(1, 14), st.just("staggered"), st.just(1e-9)),
            st.builds(Poisson, st.sampled_from([1e9, 5e9, 3e10])),
            st.builds(Gamma, st.sampled_from([1e9, 5e9]), st.sampled_from([0.3, 3.0])),
            st.lists(gap, min_size=num, max_size=num).map(
                lambda gaps: TraceArrivals([sum(gaps[: i + 1]) * 1e-12 for i in range(num)])
            ),
        )
    )
    return Workload(arrivals, lengths, num)


def table(result):
    records = result.records
    return [tuple(int(getattr(records, name)[i]) for name in records.__slots__) for i in range(len(records))]


SETTINGS = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@SETTINGS
@given(surfaces(), policies(), workloads(), st.integers(0, 5))
def test_jumping_and_stepping_equal_the_plain_simulator(plain, surface, policy, workload, seed):
    truth = plain(surface, policy, workload, seed)
    jumped = simulate(surface, policy, workload, records=True, seed=seed)
    stepped = simulate(surface, policy, workload, records=True, seed=seed, jump=False)
    assert table(jumped) == sorted(truth.rows)
    assert table(stepped) == sorted(truth.rows)
    assert jumped.num_iterations == stepped.num_iterations == stepped.num_events == truth.iterations
    assert jumped.num_refused == stepped.num_refused == truth.refused
    assert jumped.itl.num_samples == stepped.itl.num_samples == len(truth.gaps)
    if truth.gaps:
        mean_s = sum(truth.gaps) / len(truth.gaps) * 1e-12
        assert jumped.itl.mean_s == pytest.approx(mean_s, rel=1e-12)
        assert stepped.itl.mean_s == pytest.approx(mean_s, rel=1e-12)


@SETTINGS
@given(st.integers(2, 4).flatmap(surfaces), policies(), workloads(), st.integers(0, 5))
def test_jumping_equals_stepping_in_a_pipeline(surface, policy, workload, seed):
    jumped = simulate(surface, policy, workload, records=True, seed=seed)
    stepped = simulate(surface, policy, workload, records=True, seed=seed, jump=False)
    assert jumped.records.equals(stepped.records)
    assert jumped.num_iterations == stepped.num_iterations == stepped.num_events
    assert jumped.num_events <= stepped.num_events
    assert jumped.itl.num_samples == stepped.itl.num_samples
    assert jumped.busy_fraction == stepped.busy_fraction
    assert jumped.max_kv_tokens == stepped.max_kv_tokens
