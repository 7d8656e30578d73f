"""A predicted number keeps its interval around its value and takes the weakest basis."""

import math

import pytest

from advisor.simulator.quantity import Quantity, weakest


def test_interval_must_hold_the_value() -> None:
    with pytest.raises(ValueError, match="does not hold"):
        Quantity(1.0, 1.1, 1.2, "modelled")


@pytest.mark.parametrize("bad", [(math.nan, 0.0, 1.0), (0.5, math.nan, 1.0), (0.5, 0.0, math.nan)])
def test_not_a_number_is_refused(bad: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="does not hold"):
        Quantity(*bad, "modelled")


def test_scaling_keeps_the_relative_range_and_the_basis() -> None:
    scaled = Quantity(2.0, 1.5, 3.0, "calibrated").scale(1000.0)
    assert scaled == Quantity(2000.0, 1500.0, 3000.0, "calibrated")


def test_nothing_of_a_quantity_costs_nothing_for_certain() -> None:
    assert Quantity(2.0, 1.5, 3.0, "calibrated").scale(0.0) == Quantity(0.0, 0.0, 0.0, "calibrated")


@pytest.mark.parametrize("factor", [-1.0, math.nan])
def test_scale_factor_is_not_negative(factor: float) -> None:
    with pytest.raises(ValueError, match="at least 0"):
        Quantity(2.0, 1.5, 3.0, "calibrated").scale(factor)


def test_weakest_basis_wins() -> None:
    assert weakest("measured here", "assumed", "calibrated") == "assumed"
    assert weakest("measured here") == "measured here"
    with pytest.raises(ValueError, match="empty"):
        weakest()
