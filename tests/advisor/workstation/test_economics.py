"""Dollars: break-even is where both cost the same, and the bill is the rate times the tokens."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.workstation.economics import (
    MachineOwnership,
    Rent,
    break_even_hours,
    economics,
    usd_per_million,
    usual_ownership,
)

DAY = datetime.date(2026, 6, 1)


@given(st.floats(100, 20000), st.floats(0.05, 10), st.floats(0.0, 2))
def test_at_break_even_owning_costs_what_renting_costs(loss: float, rent: float, running: float) -> None:
    hours = break_even_hours(loss, rent, running)
    if rent <= running:
        assert hours is None
        return
    assert hours is not None
    assert loss + running * hours == pytest.approx(rent * hours, rel=1e-9)


@given(st.floats(0.01, 10), st.floats(1, 1000), st.floats(1, 5000))
def test_dollars_per_million_times_tokens_is_the_bill(hourly: float, speed: float, hours: float) -> None:
    price = usd_per_million(hourly, speed)
    assert price is not None
    assert price * speed * 3600 * hours / 1e6 == pytest.approx(hourly * hours, rel=1e-12)


def test_owning_adds_loss_of_value_and_electricity() -> None:
    use = MachineOwnership(hours_per_day=10, years=2, usd_per_kwh=0.2, resale_fraction=0.5)
    rent = Rent("rtx-3090", 2, 0.5, "somebody", DAY, 30.0)
    found = economics(7300.0, 1000.0, (100.0, 20.0), rent, use)
    assert found.energy_usd_per_hour == pytest.approx(0.2)
    assert found.own_usd_per_hour == pytest.approx(3650 / 7300 + 0.2)
    assert found.resale_usd == 3650
    assert found.break_even_hours == pytest.approx(3650 / 0.3)
    assert found.break_even_days == pytest.approx(3650 / 0.3 / 10)
    assert found.own_usd_per_million_output_tokens == pytest.approx(5 * found.own_usd_per_million_tokens)  # type: ignore[operator]


def test_what_is_not_said_comes_from_the_catalog() -> None:
    usual = usual_ownership(DAY, 8, 3)
    assert 0.05 < usual.usd_per_kwh < 0.4
    assert usual.resale_fraction == pytest.approx((1 - 0.282) ** 3, abs=1e-6)
    own = usual_ownership(DAY, 8, 3, usd_per_kwh=0.3, resale_fraction=0.5)
    assert (own.usd_per_kwh, own.resale_fraction) == (0.3, 0.5)
