"""Streaming distributions against NumPy on the same values."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.simulator.serving import (
    Distribution,
    Poisson,
    SchedulerPolicy,
    UniformLengths,
    Workload,
    simulate,
)
from advisor.simulator.step_cost import StepSurface

FRACTIONS = (0.0, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0)


def test_small_samples_are_exact():
    values = np.random.default_rng(0).integers(0, 10**13, 1001)
    distribution = Distribution()
    for part in np.array_split(values, 7):
        distribution.add(part)
    for fraction in FRACTIONS:
        assert distribution.quantile_s(fraction) == pytest.approx(
            np.quantile(values, fraction) * 1e-12, rel=1e-12
        )
    assert distribution.mean_s == pytest.approx(values.mean() * 1e-12, rel=1e-12)
    assert distribution.max_s == values.max() * 1e-12
    assert distribution.num_samples == 1001


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=60), st.floats(0.0, 1.0))
def test_quantiles_are_those_of_numpy_to_the_last_bit(values, fraction):
    distribution = Distribution()
    distribution.add(np.array(values))
    assert distribution.quantile_s(fraction) == np.quantile(values, fraction) / 1e12


@pytest.mark.parametrize("asked_first", [False, True])
def test_merged_runs_are_as_if_they_had_come_to_one(asked_first):
    """Whether the histogram of either exists already or not."""
    column = np.arange(1, 200, dtype=np.int64)
    parts = [Distribution(), Distribution()]
    one = Distribution()
    for number, part in enumerate(parts, start=1):
        for each in (part, one):
            each.add_runs(10**9 * number * column, column, column, column)
            each.add(10**8 * column)
    if asked_first:
        assert parts[0].p50_s < parts[1].p50_s < parts[1].p99_s
    merged = Distribution()
    for part in parts:
        merged.merge(part)
    assert [merged.quantile_s(each) for each in FRACTIONS] == [one.quantile_s(each) for each in FRACTIONS]
    assert merged.num_samples == one.num_samples


@pytest.mark.parametrize("sigma", [0.1, 2.0])
def test_large_samples_are_within_half_a_bin(sigma):
    values = np.rint(np.exp(np.random.default_rng(1).normal(23.0, sigma, 200_000))).astype(np.int64)
    distribution = Distribution()
    for part in np.array_split(values, 50):
        distribution.add(part)
    for fraction in FRACTIONS:
        assert distribution.quantile_s(fraction) == pytest.approx(
            np.quantile(values, fraction) * 1e-12, rel=6e-4
        )
    assert distribution.mean_s == pytest.approx(values.mean() * 1e-12, rel=1e-12)


def test_zeros_keep_their_place():
    distribution = Distribution()
    distribution.add(np.repeat(np.array([0, 10**9]), [80_000, 20_000]))
    assert distribution.quantile_s(0.79) == 0.0
    assert distribution.quantile_s(0.81) == pytest.approx(1e-3, rel=1e-3)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 10**6), st.integers(0, 10**4), st.integers(1, 300), st.integers(0, 5)),
        min_size=1,
        max_size=8,
    )
)
def test_runs_fall_into_the_bins_of_their_values(runs):
    """A run of linear times leaves the same histogram as its values one by one."""
    together = Distribution()
    apart = Distribution()
    together.add_runs(*(np.array(column, dtype=np.int64) for column in zip(*runs, strict=True)))
    for first, slope, count, weight in runs:
        values = first + slope * np.arange(count, dtype=np.int64)
        ones = np.ones(count, dtype=np.int64)
        apart.add_runs(values, 0 * ones, ones, weight * ones)
    assert together.p50_s == apart.p50_s or not together.num_samples
    together._spill(), apart._spill()
    assert np.array_equal(together._counts, apart._counts)
    assert together.num_samples == apart.num_samples == sum(count * weight for _, _, count, weight in runs)
    if together.num_samples:
        assert together.mean_s == pytest.approx(apart.mean_s, rel=1e-12)
        assert together.max_s == apart.max_s


def test_sums_beyond_sixty_four_bits_stay_exact():
    distribution = Distribution()
    distribution.add(np.full(1000, 2**61, dtype=np.int64))
    assert distribution.mean_s == 2**61 * 1e-12
    runs = Distribution()
    one = np.array([1], dtype=np.int64)
    runs.add_runs(2**55 * one, 0 * one, 4096 * one, 4096 * one)
    assert runs.mean_s == pytest.approx(2**55 * 1e-12, rel=1e-15)


def test_no_values_no_quantiles():
    empty = Distribution()
    assert empty.num_samples == 0
    assert math.isnan(empty.mean_s)
    assert math.isnan(empty.p99_s)
    assert math.isnan(empty.max_s)


def test_equal_times_have_no_sampling_error_and_few_have_a_bounded_one() -> None:
    equal = Distribution()
    few = Distribution()
    many = Distribution()
    equal.add(np.full(3, 7 * 10**9))
    rng = np.random.default_rng(0)
    few.add(rng.integers(10**9, 2 * 10**9, 20))
    many.add(rng.integers(10**9, 2 * 10**9, 20_000))
    for fraction in (0.5, 0.9, 0.99):
        assert equal.sampling_factors(fraction) == (1.0, 1.0)
        low, high = few.sampling_factors(fraction)
        assert 0.5 <= low <= 1.0 <= high <= 2.0
        less, more = many.sampling_factors(fraction)
        assert low <= less <= 1.0 <= more <= high
    assert Distribution().sampling_factors(0.5) == (1.0, 1.0)


@pytest.mark.parametrize("fraction", [-0.1, 1.1, 99.0])
def test_fractions_outside_zero_to_one_are_refused(fraction):
    with pytest.raises(ValueError, match="0 to 1"):
        Distribution().quantile_s(fraction)


def test_memory_does_not_grow_with_the_number_of_requests(monkeypatch):
    monkeypatch.setattr("advisor.simulator.serving.distribution._EXACT_VALUES", 1 << 12)
    surface = StepSurface([0] + [10**9] * 8, [0] * 9, [0] + [10**9] * 64, 0.0)
    policy = SchedulerPolicy(max_num_seqs=8, max_num_batched_tokens=64)
    peaks = []
    for num_requests in (12_000, 36_000):
        workload = Workload(Poisson(300.0), UniformLengths(8, 3, 0.5), num_requests)
        tracemalloc.start()
        simulate(surface, policy, workload)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0]


@pytest.mark.parametrize("num", [1000, 200_000])
def test_the_fraction_above_a_limit_is_counted(num: int) -> None:
    values = np.random.default_rng(3).lognormal(25.0, 1.0, num).astype(np.int64)
    times = Distribution()
    times.add(values)
    for quantile in (0.1, 0.5, 0.9, 0.99):
        limit = int(np.quantile(values, quantile))
        exact = float(np.mean(values > limit))
        assert times.fraction_above(limit / 1e12) == pytest.approx(exact, abs=1e-9 if num < 65_536 else 1e-3)
    assert times.fraction_above(1e9) == 0.0
    assert times.fraction_above(0.0) == pytest.approx(1.0, abs=1e-3)
    assert math.isnan(Distribution().fraction_above(1.0))


def test_the_fraction_of_weighted_runs_above_a_limit_is_counted() -> None:
    times = Distribution()
    times.add_runs(*(np.array([each], dtype=np.int64) for each in (1_000_000, 1000, 100, 3)))
    assert times.fraction_above(1_049_500e-12) == pytest.approx(0.5, abs=0.02)
