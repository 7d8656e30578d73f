"""Owning: lines that are the total to the cent, the annuity, and what cannot make it cheaper."""

import datetime
from dataclasses import replace
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog import accelerators, parts
from advisor.catalog.ownership import Ownership, ownership, purchase_price
from advisor.catalog.part_prices import price_book, price_of
from advisor.catalog.regions import get_region
from advisor.catalog.schema.economics import PurchasePrice
from advisor.catalog.schema.part import GpuCard
from advisor.catalog.units import HOURS_PER_MONTH
from advisor.decide.ownership import (
    Holding,
    OwnedCostLine,
    Tco,
    is_sold_by_the_node,
    round_to_cents,
    tco,
    total,
    whole_cents,
)

DAY = datetime.date(2026, 11, 20)
H100 = accelerators.by_id("h100-sxm")
KNOWN = ownership(DAY)


def price(usd: float = 30_000.0, *, is_system: bool = False) -> PurchasePrice:
    return PurchasePrice(
        accelerator="h100-sxm",
        usd=usd,
        low=usd,
        high=usd,
        is_system=is_system,
        kind="estimate",
        observed_on=DAY,
        source="test",
    )


def cost(known: Ownership = KNOWN, usd: float = 30_000.0, power_w: float = 5600.0, count: int = 8) -> Tco:
    return tco(Holding(H100, count, power_w), price(usd), known)


def line(found: Tco, name: str) -> float:
    return next(part.usd for part in found.lines if part.name == name)


@given(
    usd=st.floats(100.0, 500_000.0),
    power_w=st.floats(0.0, 50_000.0),
    count=st.integers(1, 2000),
    tariff=st.floats(0.0, 1.0),
    interest=st.floats(0.0, 0.3),
    decay=st.floats(0.0, 1.0),
)
def test_lines_are_the_total_to_the_cent(
    usd: float, power_w: float, count: int, tariff: float, interest: float, decay: float
) -> None:
    known = KNOWN.with_assumption("electricity_usd_per_kwh", tariff).with_assumption(
        "interest_per_year", interest
    )
    found = cost(known.with_assumption("resale_decay_per_year", decay), usd, power_w, count)
    assert found.total_usd == total(found.lines)
    assert found.usd_per_hour * found.life_years * 12 * HOURS_PER_MONTH == pytest.approx(
        found.total_usd, abs=0.005
    )
    assert found.purchase_usd + line(found, "resale at the end") == pytest.approx(
        found.depreciation_usd, abs=0.011
    )


def test_by_hand() -> None:
    """Eight H100: 240 000 + 70 000; 5 years; 5.6 kW × 1.18 × 43 830 h."""
    found = cost()
    assert found.purchase_usd == 8 * 30_000 + 8 * 8_750
    energy_kwh = 5.6 * 1.18 * 5 * 12 * HOURS_PER_MONTH
    assert line(found, "electricity") == pytest.approx(energy_kwh * 0.1437, abs=0.01)
    assert line(found, "cooling and losses") == pytest.approx(energy_kwh * 0.1437 * 0.54, abs=0.01)
    assert line(found, "resale at the end") == pytest.approx(-310_000 * 0.718**5, abs=0.01)
    assert line(found, "colocation") == pytest.approx(5.6 * 1.82 * 194.95 * 60, abs=0.01)


def test_interest_is_that_of_a_loan_paid_back_monthly() -> None:
    """100 000 at 6 % over 5 years: a published payment of 1 933.28 a month."""
    known = KNOWN.with_assumption("interest_per_year", 0.06).with_assumption(
        "server_usd_per_accelerator", 0.0
    )
    found = cost(known, usd=12_500.0)
    assert line(found, "interest") == pytest.approx(1933.28 * 60 - 100_000, abs=0.5)


def test_without_interest_there_is_none() -> None:
    assert line(cost(KNOWN.with_assumption("interest_per_year", 0.0)), "interest") == 0.0


@pytest.mark.parametrize(
    "name",
    [
        "electricity_usd_per_kwh",
        "pue",
        "interest_per_year",
        "colocation_usd_per_kw_month",
        "server_usd_per_accelerator",
        "staff_hours_per_node_month",
        "resale_decay_per_year",
        "system_power_factor",
    ],
)
def test_a_dearer_assumption_is_never_cheaper(name: str) -> None:
    figure = KNOWN.assumptions[name]
    assert (
        cost(KNOWN.with_assumption(name, figure.low)).total_usd
        < cost(KNOWN.with_assumption(name, figure.high)).total_usd
    )


@given(st.floats(1.0, 4.0))
def test_cost_is_linear_in_the_purchase_price(factor: float) -> None:
    known = KNOWN.with_assumption("server_usd_per_accelerator", 0.0)
    free, once, more = (cost(known, usd).total_usd for usd in (1e-6, 30_000.0, 30_000.0 * factor))
    assert more - free == pytest.approx(factor * (once - free), rel=1e-6)


def test_cards_and_small_systems_stand_in_an_own_room() -> None:
    card = accelerators.by_id("rtx-4090")
    whole = accelerators.by_id("gb10")
    assert is_sold_by_the_node(H100)
    assert not is_sold_by_the_node(card)
    names = [part.name for part in tco(Holding(card, 2, 500.0), price(1599.0), KNOWN).lines]
    assert "colocation" not in names
    alone = tco(Holding(whole, 1, 100.0), price(4699.0, is_system=True), KNOWN)
    assert alone.purchase_usd == 4699.0


def test_replicas_over_several_machines_need_a_network() -> None:
    one = tco(Holding(H100, 16, 11_200.0), price(), KNOWN)
    both = tco(replace(Holding(H100, 16, 11_200.0), replicas_span_nodes=True), price(), KNOWN)
    assert both.purchase_usd - one.purchase_usd == 16 * 4248


def test_a_region_brings_its_own_tariff_and_a_user_wins(tmp_path: Path) -> None:
    texas = get_region("us-texas")[0]
    local = KNOWN.with_electricity_of(texas)
    assert local.value("electricity_usd_per_kwh") == texas.electricity_usd_per_kwh
    file = tmp_path / "own.toml"
    file.write_text("electricity_usd_per_kwh = 0.05\n[purchase]\nh100 = 20000\n", encoding="utf-8")
    mine = ownership(DAY, file)
    assert mine.with_electricity_of(texas).value("electricity_usd_per_kwh") == 0.05
    bought = purchase_price(mine, H100)
    assert bought is not None
    assert (bought.usd, bought.source) == (20_000.0, "given by the user")


def test_a_list_price_stands_in_where_there_is_no_other() -> None:
    bought = purchase_price(KNOWN, accelerators.by_id("p150a"))
    assert bought is not None
    assert bought.usd == 1299.0
    assert "at launch" in bought.source


def test_a_thing_costs_the_same_wherever_it_is_asked_for() -> None:
    book = price_book()
    in_machines = {system.accelerator for system in parts.systems() if price_of(system, book) is not None}
    for card in parts.planner_parts(GpuCard):
        planned = price_of(card, book)
        bought = purchase_price(KNOWN, accelerators.by_id(card.accelerator))
        if planned is None and bought is not None and bought.is_system and card.accelerator in in_machines:
            continue  # a module that is sold with its machine alone, whose price is held below
        assert (planned is None) == (bought is None), card.accelerator
        assert planned is None or bought is None or planned.usd == bought.usd
    prices: dict[str, set[float]] = {}
    for system in parts.systems():
        planned = price_of(system, book)
        if planned is None:
            continue  # read in lists, and not planned
        prices.setdefault(system.accelerator, set()).add(planned.usd / system.num_accelerators)
    for name, known in prices.items():
        bought = purchase_price(KNOWN, accelerators.by_id(name))
        assert bought is not None
        assert bought.is_system
        assert bought.usd in known  # of one of the systems with it


def test_every_purchase_price_is_dated_and_cited() -> None:
    known = [found for r in accelerators.all_accelerators() if (found := purchase_price(KNOWN, r))]
    assert len(known) >= 40
    for bought in known:
        assert bought.source
        assert bought.low <= bought.usd <= bought.high
        assert bought.observed_on <= DAY
    undated = {bought.accelerator for bought in known if not bought.is_dated}
    assert undated == {"gb200", "gb300", "h20"}
    assert purchase_price(KNOWN, accelerators.by_id("tpu-v6e")) is None


AMOUNTS = st.floats(min_value=-1e9, max_value=1e9)


def cents(usd: float) -> OwnedCostLine:
    return OwnedCostLine("part", round_to_cents(usd), "measured", datetime.date(2026, 1, 1), "here")


@given(st.lists(AMOUNTS, max_size=30))
def test_a_total_is_the_sum_of_its_lines_to_the_cent(amounts: list[float]) -> None:
    lines = [cents(usd) for usd in amounts]
    exact = sum((Decimal(str(part.usd)) for part in lines), Decimal(0))
    assert Decimal(str(total(lines))).quantize(Decimal("0.01"), ROUND_HALF_EVEN) == exact.quantize(
        Decimal("0.01")
    )


@given(st.lists(AMOUNTS, max_size=10))
def test_the_order_of_lines_does_not_matter(amounts: list[float]) -> None:
    lines = [cents(usd) for usd in amounts]
    assert total(lines) == total(reversed(lines))


@given(AMOUNTS)
def test_rounding_moves_an_amount_by_half_a_cent_at_most(usd: float) -> None:
    assert abs(whole_cents(usd) / 100 - usd) <= 0.005 + 1e-6
