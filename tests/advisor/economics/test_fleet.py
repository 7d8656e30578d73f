"""Fleets for a day: needs by the hour, and no policy dearer than one that it contains."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.economics.fleet import (
    Day,
    UnitPrice,
    always_on,
    autoscaled_cost,
    day_of,
    reserved_base,
    units_needed,
)

LEVELS = st.lists(st.floats(0.0, 3.0), min_size=1, max_size=24).filter(lambda levels: max(levels) > 0.01)
ON_DEMAND = UnitPrice(4.0)


@given(LEVELS, st.floats(0.1, 500.0), st.floats(0.1, 50.0), st.integers(1, 8))
def test_units_carry_every_hour_and_none_is_too_many(
    levels: list[float], rate: float, capacity: float, replicas: int
) -> None:
    needed = units_needed(rate, levels, capacity, replicas)
    for level, units in zip(levels, needed, strict=True):
        assert units * replicas * capacity >= rate * level * (1 - 1e-6)
        assert (units - 1) * replicas * capacity < rate * level or units <= 1


def test_a_day_by_hand() -> None:
    """10/s on average, 20 at noon, 5 a replica: 1, 2, 4, 1 units of two over six hours each."""
    day = day_of(10.0, (0.4, 1.6, 2.0, 0.0), 5.0, 1)
    assert day.needed == (1, 4, 4, 0)
    assert day.part_hours == 6.0
    assert always_on(day, ON_DEMAND).usd_per_day == 4 * 24 * 4.0
    assert autoscaled_cost(day, ON_DEMAND, 0.0).usd_per_day == (1 + 4 + 4) * 6 * 4.0
    # Four starts: 0 -> 1 in the morning, 1 -> 4 at the second part, half an hour each.
    assert autoscaled_cost(day, ON_DEMAND, 30.0).unit_hours_per_day == 9 * 6 + 4 * 0.5


@given(LEVELS, st.floats(0.5, 100.0), st.floats(0.0, 60.0))
def test_following_the_load_is_never_dearer_than_always_on_but_for_the_starts(
    levels: list[float], rate: float, minutes: float
) -> None:
    day = day_of(rate, levels, 2.0)
    free = autoscaled_cost(day, ON_DEMAND, 0.0).usd_per_day
    assert free <= always_on(day, ON_DEMAND).usd_per_day + 1e-9
    assert autoscaled_cost(day, ON_DEMAND, minutes).usd_per_day >= free


@given(LEVELS, st.floats(0.5, 60.0), st.floats(0.1, 4.0), st.floats(0.0, 30.0))
def test_the_best_base_is_the_best_of_all(
    levels: list[float], rate: float, reserved: float, minutes: float
) -> None:
    day = day_of(rate, levels, 2.0)
    best = reserved_base(day, UnitPrice(reserved), ON_DEMAND, minutes)
    assert best.usd_per_day <= autoscaled_cost(day, ON_DEMAND, minutes).usd_per_day + 1e-9
    all_reserved = max(day.needed) * 24 * reserved
    assert best.usd_per_day <= all_reserved + 1e-9
    assert 0 <= best.base_units <= best.peak_units == max(day.needed)


def test_a_base_is_worth_while_where_enough_hours_need_it() -> None:
    """At half the price a reserved unit pays where more than half of the day needs it."""
    day = Day((1, 2, 3, 4), 40.0)
    assert reserved_base(day, UnitPrice(2.0 + 1e-6), ON_DEMAND, 0.0).base_units == 2
    assert reserved_base(day, UnitPrice(0.9), ON_DEMAND, 0.0).base_units == 4
    assert reserved_base(day, UnitPrice(3.9), ON_DEMAND, 0.0).base_units == 1


def test_some_units_must_not_be_taken_away() -> None:
    day = Day((1, 2, 3, 4), 40.0)
    spot = reserved_base(day, ON_DEMAND, UnitPrice(1.0), 0.0, overhead_fraction=0.1, least_base=1)
    assert spot.base_units == 1
    assert spot.usd_per_day == pytest.approx(24 * 4.0 + (0 + 1 + 2 + 3) * 6 * 1.0 * 1.1)


@pytest.mark.parametrize(("levels", "rate"), list(itertools.product([(1.0,), (0.5, 1.5)], [1.0, 7.3])))
def test_utilisation_is_load_over_what_is_paid(levels: tuple[float, ...], rate: float) -> None:
    day = day_of(rate, levels, 2.0)
    fixed = always_on(day, ON_DEMAND)
    assert fixed.utilisation_fraction == pytest.approx(rate / (2.0 * max(day.needed)))
    assert math.isclose(fixed.unit_hours_per_day, 24 * max(day.needed))


def test_a_higher_load_is_never_cheaper_in_all_and_never_much_dearer_a_request() -> None:
    bills = [always_on(day_of(rate, (1.0,), 2.0), ON_DEMAND).usd_per_day for rate in range(1, 40)]
    assert bills == sorted(bills)
