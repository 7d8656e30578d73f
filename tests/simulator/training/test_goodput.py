"""Failures: worked question 26, formulas against a simulated run, laws."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog.units import HOUR_S, MINUTE_S, TB
from advisor.simulator.training.failing_run import simulated_goodput
from advisor.simulator.training.goodput import (
    SNAPSHOT_S,
    WRITING_FRACTION,
    CheckpointMethod,
    FailureModel,
    best_interval_s,
    cluster_mtbf_s,
    daly_interval_s,
    elastic_goodput,
    expected_wall_s,
    goodput,
    straggler_factor,
    with_spot,
    young_interval_s,
)


def test_question_26() -> None:
    mtbf_s = cluster_mtbf_s(16_384)
    assert mtbf_s / HOUR_S == pytest.approx(3.05, abs=0.005)
    assert young_interval_s(mtbf_s, 120.0) / MINUTE_S == pytest.approx(27.06, abs=0.01)
    found = goodput(FailureModel(mtbf_s, 120.0, 120.0, restart_s=600.0))
    assert found.goodput_fraction == pytest.approx(0.813, abs=0.005)


@pytest.mark.parametrize(
    ("mtbf_h", "stall_s", "write_s", "restart_s"),
    [
        (3.05, 120.0, 120.0, 600.0),
        (1.0, 60.0, 60.0, 300.0),
        (3.0, 5.0, 300.0, 600.0),
        (24.0, 30.0, 30.0, 600.0),
    ],
)
def test_the_formula_agrees_with_a_simulated_run(
    mtbf_h: float, stall_s: float, write_s: float, restart_s: float
) -> None:
    model = FailureModel(mtbf_h * HOUR_S, stall_s, write_s, restart_s)
    interval_s = best_interval_s(model)
    runs = [simulated_goodput(model, interval_s, seed) for seed in range(8)]
    error = 3.0 * np.std(runs, ddof=1) / math.sqrt(len(runs)) + 0.004
    assert goodput(model).goodput_fraction == pytest.approx(float(np.mean(runs)), abs=error)


@given(mtbf=st.floats(1e3, 1e6), stall=st.floats(0.1, 300.0), restart=st.floats(0.0, 900.0))
def test_no_interval_beats_the_chosen_one(mtbf: float, stall: float, restart: float) -> None:
    model = FailureModel(mtbf, stall, stall, restart)
    best = expected_wall_s(1.0, best_interval_s(model), model)
    for factor in (0.3, 0.5, 0.8, 1.25, 2.0, 3.0):
        other = expected_wall_s(1.0, factor * best_interval_s(model), model)
        assert best <= other * 1.01


@given(mtbf=st.floats(1e3, 1e7), stall=st.floats(0.1, 300.0), restart=st.floats(0.0, 900.0))
def test_shares_add_up_and_fewer_failures_are_never_worse(mtbf: float, stall: float, restart: float) -> None:
    model = FailureModel(mtbf, stall, stall, restart)
    found = goodput(model)
    parts = (
        found.goodput_fraction
        + found.checkpoint_fraction
        + found.replay_fraction
        + found.restart_fraction
        + found.lost_capacity_fraction
    )
    assert parts == pytest.approx(1.0)
    assert 0.0 <= found.goodput_fraction <= 1.0
    better = goodput(FailureModel(2.0 * mtbf, stall, stall, restart))
    assert better.goodput_fraction >= found.goodput_fraction
    assert daly_interval_s(mtbf, stall) <= young_interval_s(mtbf, stall) * 1.5 or stall >= 2 * mtbf


def test_asynchronous_and_sharded_checkpoints_stall_less() -> None:
    state: dict[str, Any] = {"state_bytes": 5.7 * TB, "num_nodes": 128, "num_accelerators": 1024}
    sharded = CheckpointMethod(**state, asynchronous=False)
    assert sharded.stall_s == pytest.approx(5700 / 128)
    assert CheckpointMethod(**state, asynchronous=False, sharded=False).stall_s == pytest.approx(5700)
    behind = CheckpointMethod(**state)
    assert behind.write_s == sharded.write_s
    assert behind.stall_s == pytest.approx(SNAPSHOT_S + 5700 / 1024 / 20)
    small = CheckpointMethod(state_bytes=1e9, num_nodes=1, num_accelerators=8)
    assert small.stall_s == small.write_s, "a snapshot costs no more than the write that it replaces"


@given(
    mtbf_h=st.floats(0.1, 1e6),
    write_s=st.floats(0.1, 1e4),
    stall=st.floats(0.001, 1.0),
    longer=st.floats(1.0, 1e3),
)
def test_a_longer_time_between_failures_never_leaves_less(
    mtbf_h: float, write_s: float, stall: float, longer: float
) -> None:
    def left(hours: float) -> float:
        least_s = write_s / WRITING_FRACTION
        model = FailureModel(hours * HOUR_S, stall * write_s, write_s, 600.0 + write_s, least_s)
        return goodput(model).goodput_fraction

    assert left(longer * mtbf_h) >= left(mtbf_h) * (1.0 - 1e-9)


def test_checkpoints_are_no_oftener_than_the_storage_bears() -> None:
    """405B on 16,384 accelerators, 5.68 TB: 19.5 s apart if only the copy to the host counted."""
    for rate in (2e12, 1e11, 1e10):
        saved = CheckpointMethod(5.68e12, 2048, 16_384, storage_bytes_per_s=rate)
        model = FailureModel(
            cluster_mtbf_s(16_384), saved.stall_s, saved.write_s, 600.0, saved.least_interval_s
        )
        interval_s = goodput(model).interval_s
        assert saved.write_s <= WRITING_FRACTION * interval_s * (1 + 1e-9)
        assert interval_s > 120.0


def test_spot_adds_its_interruptions_and_elastic_training_survives_them_better() -> None:
    steady = FailureModel(100 * HOUR_S, 10.0, 60.0, 600.0)
    spot = with_spot(steady, 32, 1 / (24 * HOUR_S))
    assert 1 / spot.mtbf_s == pytest.approx(1 / steady.mtbf_s + 32 / (24 * HOUR_S))
    assert goodput(spot).goodput_fraction < goodput(steady).goodput_fraction
    elastic = elastic_goodput(spot, 32, 2.0)
    assert goodput(spot).goodput_fraction < elastic.goodput_fraction < 1.0
    assert elastic.lost_capacity_fraction > 0


def test_elastic_shrink_agrees_with_simulated_outages() -> None:
    """Nodes out at a time follow Poisson arrivals with a fixed absence."""
    rng = np.random.default_rng(1)
    horizon = 4e7
    replacement = 1800.0
    mtbf = 2700.0
    nodes = 64
    losses = np.cumsum(rng.exponential(mtbf, int(horizon / mtbf)))
    out = len(losses) * replacement / losses[-1]
    found = elastic_goodput(
        FailureModel(mtbf, 0.0, 0.0), nodes, 1.0, replacement_s=replacement, reshape_s=0.0
    )
    assert found.lost_capacity_fraction == pytest.approx(out / nodes, rel=0.05)


def test_stragglers_grow_with_scale() -> None:
    rng = np.random.default_rng(0)
    for n in (8, 64, 1024):
        slowest = 1.0 + 0.02 * rng.standard_normal((2000, n)).max(axis=1).mean()
        assert straggler_factor(n, 0.02) == pytest.approx(float(slowest), abs=5e-4)
    assert straggler_factor(1, 0.02) == straggler_factor(64, 0.0) == 1.0


def test_a_cluster_that_fails_faster_than_it_restarts_makes_no_progress() -> None:
    assert goodput(FailureModel(1.0, 10.0, 10.0, 600.0)).goodput_fraction == 0.0
    with pytest.raises(ValueError, match="interval_s"):
        expected_wall_s(1.0, 0.0, FailureModel(1.0, 1.0))


def test_failures_that_come_in_pairs_cost_less_than_alone() -> None:
    """Half of them strike what is being restarted: there is nothing to lose."""
    model = FailureModel(3.0 * HOUR_S, 60.0, 60.0, 600.0)
    interval_s = best_interval_s(model)
    gaps = itertools.cycle((6.0 * HOUR_S - 60.0, 60.0))
    paired = simulated_goodput(model, interval_s, next_failure_s=lambda: next(gaps))
    alone = simulated_goodput(model, interval_s, next_failure_s=lambda: 3.0 * HOUR_S)
    assert paired > alone
