"""At a break-even both ways cost the same; sensitivities and carbon by their laws."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog import accelerators
from advisor.catalog.ownership import ownership
from advisor.catalog.regions import all_regions, get_region
from advisor.economics import break_even
from advisor.economics.carbon import footprint, peak_gflop_per_joule, site_kwh_per_million_tokens
from advisor.economics.sensitivity import SensitivityInput, tornado

USD = st.floats(0.01, 1e4)


@given(USD, st.floats(1e3, 1e12), USD)
def test_at_the_break_even_load_a_token_costs_the_same(hour: float, tokens: float, other: float) -> None:
    share = break_even.utilisation(hour, tokens, other)
    if share is None:
        assert hour / tokens * 1e6 > other * (1 - 1e-12)
    else:
        assert hour / (share * tokens) * 1e6 == pytest.approx(other)


@given(USD, USD)
def test_at_the_break_even_volume_the_bills_are_equal(hour: float, other: float) -> None:
    volume = break_even.tokens_per_day(hour, other)
    assert volume / 1e6 * other == pytest.approx(24 * hour)


@given(st.floats(1e3, 1e7), st.floats(1.0, 1e6), st.floats(0.0, 1e6))
def test_after_the_payback_the_purchase_is_saved(purchase: float, rent: float, running: float) -> None:
    months = break_even.payback_months(purchase, rent, running)
    if months is None:
        assert running >= rent
    else:
        assert months * (rent - running) == pytest.approx(purchase)


def test_hours_worth_owning() -> None:
    assert break_even.hours_per_day_worth_owning(48.0, 5.0, 1.0) == 12.0
    assert break_even.hours_per_day_worth_owning(48.0, 1.0, 1.0) is None
    assert break_even.hours_per_day_worth_owning(240.0, 5.0, 1.0) is None


def test_a_tornado_moves_one_at_a_time_widest_first() -> None:
    swings = tornado(
        lambda values: 2 * values["a"] + values["b"],
        (
            SensitivityInput("b", 1.0, 0.0, 5.0, "", ""),
            SensitivityInput("a", 1.0, -5.0, 5.0, "", ""),
            SensitivityInput("idle", 1.0, 0.0, 9.0, "", ""),
        ),
    )
    assert [(s.parameter, s.usd_per_million_at_low, s.usd_per_million_at_high) for s in swings] == [
        ("a", -9.0, 11.0),
        ("b", 2.0, 7.0),
    ]
    assert {swing.base_usd_per_million for swing in swings} == {3.0}


def test_energy_of_a_million_tokens_by_hand() -> None:
    """1 kW of accelerators, 1 000 tokens/s, PUE 1.5, systems 1.2 times: 1.8 MJ, half a kWh."""
    known = (
        ownership(datetime.date(2026, 11, 20))
        .with_assumption("system_power_factor", 1.2)
        .with_assumption("pue", 1.5)
    )
    assert site_kwh_per_million_tokens(1000.0, 1000.0, known) == pytest.approx(0.5)


@given(st.floats(0.001, 10.0), st.floats(1e3, 1e12))
def test_carbon_of_a_month_is_that_of_its_tokens(kwh: float, tokens: float) -> None:
    for region in all_regions().values():
        found = footprint(kwh, tokens, region)
        assert found.kg_co2e_per_month == pytest.approx(found.kg_co2e_per_million_tokens * tokens / 1e6)


def test_cleaner_grids_emit_less() -> None:
    clean, dirty = (footprint(1.0, 1e9, get_region(name)[0]) for name in ("sweden", "poland"))
    assert clean.kg_co2e_per_month < dirty.kg_co2e_per_month / 20


def test_peak_per_watt() -> None:
    assert peak_gflop_per_joule(accelerators.by_id("h100-sxm")) == pytest.approx(989.4e12 / 700 / 1e9)
    assert peak_gflop_per_joule(accelerators.by_id("wse3")) is None
