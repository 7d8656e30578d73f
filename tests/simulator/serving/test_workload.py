"""Arrivals and lengths: their distributions, their streams, and what they refuse."""

import math

import numpy as np
import pytest

from advisor.catalog.errors import AdvisorError
from advisor.simulator.serving import (
    ClosedLoop,
    EmpiricalLengths,
    FixedLengths,
    Gamma,
    LognormalLengths,
    Poisson,
    SchedulerPolicy,
    Slo,
    TraceArrivals,
    UniformLengths,
    Workload,
    simulate,
)
from advisor.simulator.serving.lengths import context_spread
from advisor.simulator.serving.workload import draw_arrivals, draw_requests
from advisor.simulator.step_cost import StepSurface

BAD_NUMBERS = [0.0, -1.0, math.nan, math.inf]


def lengths_of(lengths, number: int = 20_000, seed: int = 1):
    drawn = list(draw_requests(Workload(Poisson(1.0), lengths, number), seed))
    assert [index for index, _, _ in drawn] == list(range(number))
    table = np.array(drawn)
    return table[:, 1], table[:, 2]


def gaps_of(arrivals, number: int = 50_000):
    workload = Workload(arrivals, FixedLengths(1, 1), number)
    instants = [instant for instant, _ in zip(draw_arrivals(workload, 2), range(number), strict=False)]
    return np.diff(instants) * 1e-12


def test_poisson_gaps_are_exponential():
    gaps = gaps_of(Poisson(8.0))
    assert gaps.mean() == pytest.approx(1 / 8.0, rel=0.02)
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, rel=0.02)
    assert np.quantile(gaps, 0.5) == pytest.approx(math.log(2.0) / 8.0, rel=0.03)


@pytest.mark.parametrize("cv", [0.5, 1.0, 3.0])
def test_gamma_gaps_have_the_rate_and_the_variation(cv):
    gaps = gaps_of(Gamma(8.0, cv))
    assert gaps.mean() == pytest.approx(1 / 8.0, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.05)


def test_uniform_lengths_are_whole_numbers_up_to_the_nominal_one():
    inputs, outputs = lengths_of(UniformLengths(512, 10, 0.8))
    assert (inputs.min(), inputs.max()) == (409, 512)
    assert inputs.mean() == pytest.approx((409 + 512) / 2, rel=0.01)
    assert set(outputs.tolist()) == {8, 9, 10}


def test_uniform_lengths_never_reach_zero():
    assert lengths_of(UniformLengths(1, 3, 0.0))[1].min() == 1


@pytest.mark.parametrize("limit", [None, 1500])
def test_lognormal_lengths_keep_their_mean_even_when_clipped(limit):
    inputs, outputs = lengths_of(LognormalLengths(500, 200, 1.0, max_input_tokens=limit), 100_000)
    assert inputs.mean() == pytest.approx(500, rel=0.02)
    assert outputs.mean() == pytest.approx(200, rel=0.02)
    assert inputs.min() >= 1
    if limit is None:
        assert np.log(inputs).std() == pytest.approx(1.0, rel=0.02)
    else:
        assert inputs.max() == limit


def test_contexts_that_decode_together_spread_as_prompts_and_answers_do():
    """Equal requests are anywhere in their answers; what all begin with makes them more alike."""
    fixed = context_spread(FixedLengths(1000, 400))
    assert fixed == pytest.approx(400 / 12**0.5 / 1200)
    assert context_spread(FixedLengths(1000, 400), 3000) == pytest.approx(fixed * 1200 / 4200)
    assert context_spread(FixedLengths(500, 1)) < 1e-3
    spread = [context_spread(LognormalLengths(1000, 400, sigma)) for sigma in (0.1, 0.5, 0.8)]
    assert fixed < spread[0] < spread[1] < spread[2]
    # A prompt of half its mean and one of one and a half, each with the same answer.
    pairs = context_spread(EmpiricalLengths([(500, 2), (1500, 2)]))
    assert pairs == pytest.approx(0.5, rel=0.02)


def test_empirical_pairs_stay_together():
    pairs = [(10, 1), (20, 2), (30, 3)]
    inputs, outputs = lengths_of(EmpiricalLengths(pairs), 3000)
    assert set(zip(inputs.tolist(), outputs.tolist(), strict=True)) == set(pairs)
    assert np.bincount(outputs)[1:] == pytest.approx([1000] * 3, rel=0.1)


def test_empirical_pairs_in_order_are_replayed():
    pairs = [(number, number + 1) for number in range(1, 10_001)]
    inputs, outputs = lengths_of(EmpiricalLengths(pairs, in_order=True), 10_000)
    assert list(zip(inputs.tolist(), outputs.tolist(), strict=True)) == pairs


@pytest.mark.parametrize("bad", BAD_NUMBERS)
@pytest.mark.parametrize(
    "make",
    [
        Poisson,
        lambda bad: Gamma(bad, 1.0),
        lambda bad: Gamma(1.0, bad),
        lambda bad: ClosedLoop(4, "staggered", bad),
    ],
)
def test_rates_must_be_positive_and_finite(make, bad):
    with pytest.raises(AdvisorError, match="positive"):
        make(bad)


@pytest.mark.parametrize("bad", [0, -3, 2.5, True])
@pytest.mark.parametrize(
    "make",
    [
        ClosedLoop,
        lambda bad: FixedLengths(bad, 4),
        lambda bad: FixedLengths(4, bad),
        lambda bad: UniformLengths(bad, 4),
        lambda bad: LognormalLengths(4, bad, 1.0),
        lambda bad: Workload(Poisson(1.0), FixedLengths(1, 1), bad),
    ],
)
def test_counts_must_be_positive_whole_numbers(make, bad):
    with pytest.raises(AdvisorError, match="whole number of at least 1"):
        make(bad)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ClosedLoop(4, "slowly"), "burst"),
        (lambda: ClosedLoop(4, "burst", 1.0), "staggered"),
        (lambda: TraceArrivals([]), "no arrivals"),
        (lambda: TraceArrivals([0.0, 2.0, 1.0]), "arrival 3 is earlier"),
        (lambda: TraceArrivals([0.0, math.nan]), "finite"),
        (lambda: TraceArrivals([-1.0, 0.0]), "between 0"),
        (lambda: TraceArrivals([0.0, 1e9]), "between 0"),
        (lambda: UniformLengths(4, 4, 1.5), "low_fraction"),
        (lambda: UniformLengths(4, 4, math.nan), "low_fraction"),
        (lambda: LognormalLengths(4, 4, 0.0), "sigma"),
        (lambda: LognormalLengths(4, 4, 1.0, max_input_tokens=4), "mean of 4"),
        (lambda: EmpiricalLengths([]), "empty"),
        (lambda: EmpiricalLengths([(1, 1), (0, 5)]), "pair 2"),
        (lambda: EmpiricalLengths([(1, 1, 1)]), "pair 1"),
        (lambda: EmpiricalLengths([(1, 1), (1, 2.5)]), "pair 2"),
        (lambda: EmpiricalLengths([(1, 1), (1,)]), "pair 2"),
        (lambda: LognormalLengths(4, 4, 1.0, output_sigma=math.nan), "sigma"),
        (lambda: Workload(TraceArrivals([0.0]), FixedLengths(1, 1), 2), "1 arrivals, not 2"),
        (lambda: Workload(Poisson(1.0), EmpiricalLengths([(1, 1)], in_order=True), 2), "do not make 2"),
        (Slo, "at least one"),
        (lambda: Slo(ttft_s=0.0), "ttft_s"),
        (lambda: Slo(tpot_s=math.nan), "tpot_s"),
    ],
)
def test_what_cannot_be_meant_is_refused(make, message):
    with pytest.raises(AdvisorError, match=message):
        make()


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "magic"},
        {"max_num_seqs": 0},
        {"max_num_seqs": 2.0},
        {"max_num_batched_tokens": 8},
        {"block_tokens": 0},
        {"kv_capacity_blocks": 0},
        {"watermark_blocks": -1},
        {"reserve_output_fraction": 1.1},
        {"reserve_output_fraction": math.nan},
        {"max_context_tokens": 0},
        {"max_sequences_by_state": 0},
        {"api_overhead_ps": -1},
        {"api_overhead_ps": 1.5},
        {"admission_ps": -1},
    ],
)
def test_impossible_policies_are_refused(changes):
    with pytest.raises(AdvisorError):
        SchedulerPolicy(**{"max_num_seqs": 16, "max_num_batched_tokens": 64, **changes})


GOOD = {
    "decode_base_ps": [0, 5, 6],
    "decode_context_ps": [0, 1, 1],
    "mixed_base_ps": [0, 5, 6, 7, 8],
    "prefill_pair_ps": 0.5,
}
SMALL = SchedulerPolicy(max_num_seqs=2, max_num_batched_tokens=4)
ONE = Workload(ClosedLoop(1), FixedLengths(2, 2), 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decode_base_ps": [0, 5]}, "decode_base_ps up to 1, the policy needs 2"),
        ({"decode_context_ps": [0, 1]}, "decode_context_ps"),
        ({"mixed_base_ps": [0, 5]}, "mixed_base_ps up to 1, the policy needs 4"),
        ({"window_tokens": 8}, "decode_window_ps"),
        ({"decode_base_ps": [0, 0, 6]}, "no time"),
        ({"decode_context_ps": [0, -1, 1]}, "negative"),
        ({"prefill_pair_ps": -0.5}, "negative"),
        ({"prefill_pair_ps": math.nan}, "finite"),
        ({"prefill_sequence_ps": -1}, "negative"),
        ({"riding_sequence_ps": -1}, "negative"),
        ({"num_stages": 0}, "stage"),
        ({"window_tokens": 0, "decode_window_ps": [0, 0, 0]}, "window"),
    ],
)
def test_surfaces_that_do_not_cover_the_policy_are_refused(changes, message):
    with pytest.raises(AdvisorError, match=message):
        simulate(StepSurface(**{**GOOD, **changes}), SMALL, ONE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": -1}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"give_up_after_violations": 3}, "objective"),
        ({"give_up_after_violations": -1, "slo": Slo(ttft_s=1.0)}, "at least 0"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(AdvisorError, match=message):
        simulate(StepSurface(**GOOD), SMALL, ONE, **options)


def test_a_workload_of_which_nothing_fits_is_refused_whole():
    policy = SchedulerPolicy(max_num_seqs=2, max_num_batched_tokens=4, max_context_tokens=3)
    result = simulate(
        StepSurface(**GOOD), policy, Workload(ClosedLoop(1), FixedLengths(2, 2), 5), records=True
    )
    assert (result.num_requests, result.num_refused, result.num_finished) == (5, 5, 0)
    assert math.isnan(result.ttft.p99_s)
    assert result.goodput_fraction is None
    assert len(result.records) == 0
    assert (result.duration_s, result.num_iterations, result.busy_fraction) == (0.0, 0, 0.0)
    assert math.isnan(result.output_tokens_per_s)
