"""Bills: parts add up, what nobody states is unknown and never nothing, commitments are owed whole."""

import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog import accelerators
from advisor.catalog.ownership import ownership
from advisor.catalog.schema import Price
from advisor.catalog.schema.economics import PurchasePrice
from advisor.catalog.units import HOUR_S, HOURS_PER_MONTH, TB
from advisor.recommend.offers import owned_offer
from advisor.recommend.ownership import Holding, tco
from advisor.recommend.purchase import bill_of, bill_words, extra_usd_per_hour, job_usd, job_words, owned_bill
from advisor.recommend.scenario import Beside

DAY = datetime.date(2026, 11, 20)
H100 = accelerators.by_id("h100-sxm")


def price(usd: float = 24.0, **more: Any) -> Price:
    return Price(
        **{"provider": "aws", "sku": "x", "region": "", "accelerator": "h100-sxm", "num_accelerators": 8,
           "term": "on_demand", "usd_per_hour": usd, "observed_on": DAY, "valid_from": DAY, **more}
    )  # fmt: skip


def test_rent_alone_leaves_the_rest_unknown() -> None:
    bill = bill_of(price(), 48.0, Beside())
    assert bill.usd_per_hour == pytest.approx(48.0)
    assert bill.usd_per_month == pytest.approx(48.0 * 730.5)
    assert bill.parts_usd_per_month == {"rent": bill.usd_per_month, "storage": None, "egress": None}
    assert bill.unknown == {"storage": "--storage-tb", "egress": "--egress-tb"}
    assert bill.commitment_usd == 0.0
    words = bill_words(bill)
    assert words.endswith("storage and egress are unknown (--storage-tb, --egress-tb).")


def test_storage_and_egress_by_hand() -> None:
    """2 TB at 0.0001 USD per GB and hour; 10 TB at 5 cents a GB."""
    beside = Beside(storage_bytes=2 * TB, egress_bytes_per_month=10 * TB)
    offer = price(storage_usd_per_gb_hour=1e-4, egress_usd_per_gb=0.05)
    bill = bill_of(offer, 24.0, beside)
    assert bill.parts_usd_per_month["storage"] == pytest.approx(2000 * 1e-4 * HOURS_PER_MONTH)
    assert bill.parts_usd_per_month["egress"] == pytest.approx(500.0)
    assert bill.unknown == {}
    known = sum(usd for usd in bill.parts_usd_per_month.values() if usd is not None)
    assert bill.usd_per_month == pytest.approx(known)
    assert extra_usd_per_hour(offer, beside) == pytest.approx(bill.usd_per_hour - 24.0)


def test_an_amount_without_a_price_is_unknown_and_none_is_nothing() -> None:
    bill = bill_of(price(), 24.0, Beside(storage_bytes=TB, egress_bytes_per_month=0.0))
    assert bill.parts_usd_per_month["storage"] is None
    assert bill.parts_usd_per_month["egress"] == 0.0
    assert bill.unknown == {"storage": "aws states no price"}
    assert "storage is unknown (aws states no price)" in bill_words(bill)


def test_a_commitment_is_owed_whole() -> None:
    bill = bill_of(price(24.0, term="reserved_1y"), 48.0, Beside())
    assert bill.commitment_usd == pytest.approx(48.0 * 8760)
    assert "are owed whole" in bill_words(bill)
    assert bill_of(price(term="reserved_unspecified"), 24.0, Beside()).commitment_usd is None


@given(hours=st.floats(0.01, 20_000.0), usd=st.floats(0.1, 1e4))
def test_a_job_pays_the_longer_of_its_hours_and_its_commitment(hours: float, usd: float) -> None:
    assert job_usd("on_demand", usd, hours * HOUR_S) == pytest.approx(usd * hours)
    assert job_usd("reserved_1y", usd, hours * HOUR_S) == pytest.approx(usd * max(hours, 8760.0))
    assert job_usd("reserved_1m", usd, hours * HOUR_S) == pytest.approx(usd * max(hours, 730.0))


def test_a_job_keeps_its_data_for_as_long_as_it_runs() -> None:
    beside = Beside(storage_bytes=TB, egress_bytes_per_month=0.0)
    bill = bill_of(price(storage_usd_per_gb_hour=1e-3), 24.0, beside, job_s=10 * HOUR_S)
    assert bill.total_usd == pytest.approx(240.0 + 10.0)
    assert "in all for rent and storage and egress" in job_words(bill)


def test_own_machines_pay_their_hosts_and_cooling() -> None:
    known, offer = ownership(DAY), owned_offer(8, H100, DAY)
    bill = bill_of(offer, offer.usd_per_hour, Beside())
    factor = known.value("system_power_factor") * known.value("pue") * known.value("electricity_usd_per_kwh")
    assert bill.parts_usd_per_month["electricity"] == pytest.approx(5.6 * factor * HOURS_PER_MONTH)
    assert known.energy_usd_per_hour(5600.0) == pytest.approx(5.6 * factor)


def test_bought_machines_pay_what_their_total_cost_says() -> None:
    bought = PurchasePrice(
        accelerator="h100-sxm", usd=30_000, low=30_000, high=30_000, is_system=False, kind="estimate",
        observed_on=DAY, source="test",
    )  # fmt: skip
    cost = tco(Holding(H100, 8, 5600.0), bought, ownership(DAY))
    bill = owned_bill(cost, owned_offer(8, H100, DAY), Beside())
    assert bill.usd_per_month == pytest.approx(cost.usd_per_month)
    assert bill.usd_per_hour == pytest.approx(cost.usd_per_hour)
    assert set(bill.parts_usd_per_month) == {"capital", "electricity", "upkeep", "storage", "egress"}
