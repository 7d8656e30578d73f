"""Corrections of sampling luck by a queue that is known exactly."""

import math

import numpy as np
import pytest

from advisor.decide import luck
from advisor.decide.luck import typical_seeds, utilization_error
from advisor.decide.scenario import Traffic

CHAT = Traffic(mean_input_tokens=1155, mean_output_tokens=211, input_sigma=0.64, output_sigma=0.5)
EQUAL = Traffic(mean_input_tokens=500, mean_output_tokens=50)
ONE_PERCENT = 0.01


@pytest.mark.parametrize("wait", [2.0, 8.0, 30.0, 120.0])
def test_waits_without_end_are_those_of_the_queue_with_exponential_services(
    monkeypatch: pytest.MonkeyPatch, wait: float
) -> None:
    """An M/M/1 queue has P(W > w) = ρ exp(−(1/ρ − 1) w), with one arrival a second in the mean."""
    parts = (np.arange(100_000) + 0.5) / 100_000
    monkeypatch.setattr(luck, "_service_times", lambda _: -np.log(1.0 - parts))
    luck._lasting_utilization.cache_clear()
    found = luck._lasting_utilization(CHAT, wait, ONE_PERCENT)
    luck._lasting_utilization.cache_clear()
    missed = found * math.exp(-(1.0 / found - 1.0) * wait)
    assert missed == pytest.approx(ONE_PERCENT, rel=0.04)


@pytest.mark.parametrize("traffic", [CHAT, EQUAL])
def test_long_runs_err_little_and_short_ones_are_too_good_where_the_queue_may_grow_long(
    traffic: Traffic,
) -> None:
    long = [utilization_error(traffic, (seed,), 200_000, 60.0, ONE_PERCENT) for seed in range(4)]
    short = [utilization_error(traffic, (seed,), 600, 60.0, ONE_PERCENT) for seed in range(40)]
    assert abs(np.mean(long)) < 0.01
    assert np.mean(short) > 0.04
    assert np.std(short) > 2.0 * np.std(long)


def test_typical_runs_come_first_and_do_not_depend_on_their_order() -> None:
    order = typical_seeds(CHAT, tuple(range(8)), 1200, 16.0, ONE_PERCENT)
    assert sorted(order) == list(range(8))
    errors = [abs(utilization_error(CHAT, (seed,), 1200, 16.0, ONE_PERCENT)) for seed in order]
    assert errors == sorted(errors)
    assert typical_seeds(CHAT, tuple(reversed(range(8))), 1200, 16.0, ONE_PERCENT) == order


def test_prompts_behind_a_shared_beginning_are_served_like_short_ones() -> None:
    shared = CHAT.model_copy(update={"mean_input_tokens": 2155, "shared_prefix_tokens": 1000})
    for seed in range(3):
        own = utilization_error(CHAT, (seed,), 1200, 16.0, ONE_PERCENT)
        assert utilization_error(shared, (seed,), 1200, 16.0, ONE_PERCENT) == pytest.approx(own, abs=2e-3)
