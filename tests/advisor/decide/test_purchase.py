"""Whole replicas and whole units are bought; bills add up, and what nobody states is unknown, never nothing."""

import dataclasses
import datetime
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog import accelerators
from advisor.catalog.ownership import ownership
from advisor.catalog.schema import Price
from advisor.catalog.schema.economics import PurchasePrice
from advisor.catalog.units import HOUR_S, HOURS_PER_MONTH, TB
from advisor.decide import purchase
from advisor.decide.offers import Placement, owned_offer
from advisor.decide.option import Bill, BillLine, UnknownCost
from advisor.decide.ownership import Holding, tco
from advisor.decide.purchase import (
    Purchase,
    bill_of,
    bill_words,
    demands_of,
    expected_cost,
    extra_usd_per_hour,
    job_usd,
    job_words,
    least_costs,
    left_out,
    owned_bill,
    planned_load,
    replicas_for,
    usd_per_million_tokens,
)
from advisor.decide.reason import AmountNotStated, PriceNotStated
from advisor.decide.scenario import ExtraItems, Objectives, Scenario, Traffic
from advisor.simulator.quantity import Quantity

DAY = datetime.date(2026, 11, 20)


def way(replicas: int, accelerators: int, usd: float, max_units: int | None = None) -> Placement:
    price = Price(
        provider="aws",
        sku="x",
        region="",
        accelerator="h100-sxm",
        num_accelerators=accelerators,
        term="on_demand",
        usd_per_hour=usd,
        observed_on=DAY,
        valid_from=DAY,
    )
    return Placement(price, replicas, accelerators, usd, max_units)


def scenario(budget: float | None = None, headroom: float = 0.0, **traffic: Any) -> Scenario:
    return Scenario(
        headroom_fraction=headroom,
        model="llama-3.1-8b",
        traffic=Traffic(mean_input_tokens=900, mean_output_tokens=100, **traffic),
        objectives=Objectives(budget_usd_per_hour=budget),
        as_of=DAY,
    )


def cheapest_purchase(
    asked: Scenario, ways: list[Placement], load: float, requests_per_s: float
) -> Purchase | None:
    (demand,) = demands_of(asked)
    return purchase.cheapest_purchase(asked, demand, ways, load, requests_per_s)


def least(asked: Scenario, ways: list[Placement], requests_per_s: float) -> float:
    (found,) = least_costs(asked, demands_of(asked), ways, requests_per_s)
    return found


def test_dollars_per_million_tokens_by_hand() -> None:
    # 3.6 dollars an hour at one request of 1000 tokens a second: a dollar per million tokens.
    assert usd_per_million_tokens(3.6, 1.0, 1000) == pytest.approx(1.0)


def test_a_given_rate_buys_whole_replicas_and_whole_units() -> None:
    bought = cheapest_purchase(scenario(rate_per_s=10.0), [way(4, 8, 24.0)], 1.7, 1.7)
    assert bought is not None
    assert (bought.num_replicas, bought.num_units, bought.usd_per_hour) == (6, 2, 48.0)
    assert bought.requests_per_s == 10.0
    assert bought.usd_per_million_tokens == pytest.approx(48.0 / (10.0 * 1000 * 3600) * 1e6)


def test_without_a_rate_one_full_unit_is_priced() -> None:
    bought = cheapest_purchase(scenario(), [way(4, 8, 24.0)], 2.0, 2.0)
    assert bought is not None
    assert (bought.num_replicas, bought.num_units, bought.requests_per_s) == (4, 1, 8.0)


def test_clients_are_shared_by_replicas() -> None:
    bought = cheapest_purchase(scenario(concurrency=64), [way(1, 1, 2.0)], 24.0, 3.0)
    assert bought is not None
    assert (bought.num_replicas, bought.requests_per_s) == (
        3,
        8.0,
    )  # each client is served as fast as at capacity


def test_headroom_is_left_free_whatever_is_asked() -> None:
    """Of a capacity of 2, with a fifth free, 1.6 are planned: by the number of replicas or by what a unit serves."""
    rate = cheapest_purchase(scenario(headroom=0.2, rate_per_s=10.0), [way(1, 1, 3.0)], 2.0, 2.0)
    assert rate is not None
    assert rate.num_replicas == 7  # 10 / 1.6
    unit = cheapest_purchase(scenario(headroom=0.2), [way(4, 8, 24.0)], 2.0, 2.0)
    assert unit is not None
    assert unit.requests_per_s == pytest.approx(4 * 1.6)
    clients = scenario(headroom=0.2, concurrency=64)
    assert planned_load(clients, 24.0) == 19.0


def test_one_more_replica_where_one_may_be_lost() -> None:
    asked = scenario(rate_per_s=10.0).model_copy(update={"redundancy": "n+1"})
    bought = cheapest_purchase(asked, [way(1, 1, 3.0)], 2.0, 2.0)
    assert bought is not None
    assert bought.num_replicas == 6


def test_a_budget_alone_buys_the_most_traffic() -> None:
    small = way(1, 1, 3.0)
    fast = way(1, 1, 7.0)
    bought = cheapest_purchase(scenario(budget=13.7), [small, fast], 2.0, 2.0)
    assert bought is not None
    assert (bought.placement, bought.num_units, bought.requests_per_s) == (small, 4, 8.0)


def test_a_ladder_is_one_demand_a_load() -> None:
    asked = scenario().model_copy(update={"ladder_per_s": (1.0, 10.0)})
    assert [(demand.kind, demand.size) for demand in demands_of(asked)] == [("rate", 1.0), ("rate", 10.0)]
    assert len(least_costs(asked, demands_of(asked), [way(1, 1, 3.0)], 2.0)) == 2


def test_the_least_order_is_paid() -> None:
    only_many = dataclasses.replace(way(1, 1, 3.0), min_units=8)
    bought = cheapest_purchase(scenario(rate_per_s=1.0), [only_many], 2.0, 2.0)
    assert bought is not None
    assert (bought.num_units, bought.usd_per_hour) == (8, 24.0)


def test_a_small_load_takes_the_small_sku_although_the_node_is_cheaper_each() -> None:
    node = way(8, 8, 16.0)
    single = way(1, 1, 3.0)
    for load, chosen in ((1.0, single), (30.0, node)):
        bought = cheapest_purchase(scenario(rate_per_s=load), [node, single], 4.0, 4.0)
        assert bought is not None
        assert bought.placement is chosen
    # With the whole load open the node wins; where a budget does not allow it, the single one.
    full = cheapest_purchase(scenario(), [node, single], 4.0, 4.0)
    tight = cheapest_purchase(scenario(budget=5.0), [node, single], 4.0, 4.0)
    assert full is not None
    assert tight is not None
    assert (full.placement, tight.placement) == (node, single)


def test_budget_and_stock_are_limits() -> None:
    assert cheapest_purchase(scenario(budget=47.0, rate_per_s=10.0), [way(4, 8, 24.0)], 1.7, 1.7) is None
    assert cheapest_purchase(scenario(budget=48.0, rate_per_s=10.0), [way(4, 8, 24.0)], 1.7, 1.7) is not None
    assert cheapest_purchase(scenario(rate_per_s=10.0), [way(4, 8, 24.0, max_units=1)], 1.7, 1.7) is None
    assert cheapest_purchase(scenario(rate_per_s=6.0), [way(4, 8, 24.0, max_units=1)], 1.7, 1.7) is not None
    assert cheapest_purchase(scenario(), [], 1.7, 1.7) is None
    assert least(scenario(budget=1.0), [way(4, 8, 24.0)], 1.0) == math.inf


@given(rate=st.floats(0.01, 1e4), share=st.integers(1, 50))
def test_a_share_of_the_load_takes_as_many_replicas_again(rate: float, share: int) -> None:
    assert replicas_for(rate, rate / share) == share


@given(
    factor=st.floats(0.1, 10.0),
    rate=st.one_of(st.none(), st.floats(0.1, 100.0)),
    capacity=st.floats(0.1, 50.0),
)
def test_cost_is_linear_in_the_price(factor: float, rate: float | None, capacity: float) -> None:
    ways = [way(4, 8, 24.0), way(1, 1, 4.0)]
    dearer = [dataclasses.replace(w, usd_per_unit_hour=factor * w.usd_per_unit_hour) for w in ways]
    base, scaled = (
        cheapest_purchase(scenario(rate_per_s=rate), w, capacity, capacity) for w in (ways, dearer)
    )
    assert base is not None
    assert scaled is not None
    assert scaled.usd_per_million_tokens == pytest.approx(factor * base.usd_per_million_tokens)


@given(
    rate=st.one_of(st.none(), st.floats(0.1, 100.0)),
    bound=st.floats(0.1, 50.0),
    part=st.floats(0.05, 1.0),
    budget=st.one_of(st.none(), st.floats(1.0, 200.0)),
)
def test_the_bound_is_never_dearer_than_the_purchase(
    rate: float | None, bound: float, part: float, budget: float | None
) -> None:
    asked = scenario(budget=budget, rate_per_s=rate)
    ways = [way(4, 8, 24.0), way(1, 1, 4.0)]
    bought = cheapest_purchase(asked, ways, part * bound, part * bound)
    if bought is not None:
        assert least(asked, ways, bound) <= expected_cost(bought, asked) * (1 + 1e-9)


DAY = datetime.date(2026, 11, 20)
H100 = accelerators.by_id("h100-sxm")


def price(usd: float = 24.0, **more: Any) -> Price:
    return Price(
        **{
            "provider": "aws",
            "sku": "x",
            "region": "",
            "accelerator": "h100-sxm",
            "num_accelerators": 8,
            "term": "on_demand",
            "usd_per_hour": usd,
            "observed_on": DAY,
            "valid_from": DAY,
            **more,
        }
    )


def lines_of(bill: Bill) -> dict[str, float]:
    return {line.what: line.usd_per_month for line in bill.lines}


def test_rent_alone_leaves_the_rest_unknown() -> None:
    bill = bill_of(price(), 48.0, ExtraItems())
    assert bill.usd_per_hour == pytest.approx(48.0)
    assert bill.usd_per_month == pytest.approx(48.0 * 730.5)
    assert bill.lines == (BillLine("rent", bill.usd_per_month),)
    unknown = {each.what: each.reason for each in bill.unknown}
    assert unknown == {"storage": AmountNotStated("--storage-tb"), "egress": AmountNotStated("--egress-tb")}
    assert bill.commitment_usd == 0.0
    words = bill_words(bill)
    assert words.endswith("storage and egress are unknown (--storage-tb, --egress-tb).")


def test_storage_and_egress_by_hand() -> None:
    """2 TB at 0.0001 USD per GB and hour; 10 TB at 5 cents a GB."""
    beside = ExtraItems(storage_bytes=2 * TB, egress_bytes_per_month=10 * TB)
    offer = price(storage_usd_per_gb_hour=1e-4, egress_usd_per_gb=0.05)
    bill = bill_of(offer, 24.0, beside)
    assert lines_of(bill)["storage"] == pytest.approx(2000 * 1e-4 * HOURS_PER_MONTH)
    assert lines_of(bill)["egress"] == pytest.approx(500.0)
    assert bill.unknown == ()
    assert bill.usd_per_month == pytest.approx(sum(lines_of(bill).values()))
    assert extra_usd_per_hour(offer, beside) == pytest.approx(bill.usd_per_hour - 24.0)


def test_an_amount_without_a_price_is_unknown_and_none_is_nothing() -> None:
    bill = bill_of(price(provider="acme"), 24.0, ExtraItems(storage_bytes=TB, egress_bytes_per_month=0.0))
    assert "storage" not in lines_of(bill)
    assert lines_of(bill)["egress"] == 0.0
    assert bill.unknown == (UnknownCost("storage", PriceNotStated("acme")),)
    assert "storage is unknown (no price of acme is known)" in bill_words(bill)
    unasked = bill_of(price(provider="acme"), 24.0, ExtraItems())
    assert bill_words(unasked).endswith("storage and egress are unknown (no price of acme is known).")
    assert (left_out(bill), left_out(unasked)) == (", storage unknown", "")


def test_a_commitment_is_owed_whole() -> None:
    bill = bill_of(price(24.0, term="reserved_1y"), 48.0, ExtraItems())
    assert bill.commitment_usd == pytest.approx(48.0 * 8760)
    assert "are owed whole" in bill_words(bill)
    assert bill_of(price(term="reserved_unspecified"), 24.0, ExtraItems()).commitment_usd is None


@given(hours=st.floats(0.01, 20_000.0), usd=st.floats(0.1, 1e4))
def test_a_job_pays_the_longer_of_its_hours_and_its_commitment(hours: float, usd: float) -> None:
    assert job_usd("on_demand", usd, hours * HOUR_S) == pytest.approx(usd * hours)
    assert job_usd("reserved_1y", usd, hours * HOUR_S) == pytest.approx(usd * max(hours, 8760.0))
    assert job_usd("reserved_1m", usd, hours * HOUR_S) == pytest.approx(usd * max(hours, 730.0))


def test_a_job_keeps_its_data_for_as_long_as_it_runs() -> None:
    beside = ExtraItems(storage_bytes=TB, egress_bytes_per_month=0.0)
    lasts = Quantity(10 * HOUR_S, 8 * HOUR_S, 15 * HOUR_S, "modelled")
    bill = bill_of(price(storage_usd_per_gb_hour=1e-3), 24.0, beside, duration_s=lasts)
    assert bill.usd is not None
    assert bill.usd.basis == "modelled"
    found = bill.usd.value, bill.usd.low, bill.usd.high
    assert found == pytest.approx((240.0 + 10.0, 192.0 + 8.0, 360.0 + 15.0))
    assert {line.what: line.usd for line in bill.lines} == pytest.approx(
        {"rent": 240.0, "storage": 10.0, "egress": 0.0}
    )
    assert "in all for rent and storage and egress" in job_words(bill)


def test_own_machines_pay_their_hosts_and_cooling() -> None:
    known = ownership(DAY)
    offer = owned_offer(8, H100, DAY)
    bill = bill_of(offer, offer.usd_per_hour, ExtraItems())
    factor = known.value("system_power_factor") * known.value("pue") * known.value("electricity_usd_per_kwh")
    assert lines_of(bill)["electricity"] == pytest.approx(5.6 * factor * HOURS_PER_MONTH)
    assert known.energy_usd_per_hour(5600.0) == pytest.approx(5.6 * factor)


def test_bought_machines_pay_what_their_total_cost_says() -> None:
    bought = PurchasePrice(
        accelerator="h100-sxm",
        usd=30_000,
        low=30_000,
        high=30_000,
        is_system=False,
        kind="estimate",
        observed_on=DAY,
        source="test",
    )
    cost = tco(Holding(H100, 8, 5600.0), bought, ownership(DAY))
    bill = owned_bill(cost, owned_offer(8, H100, DAY), ExtraItems())
    assert bill.usd_per_month == pytest.approx(cost.usd_per_month)
    assert bill.usd_per_hour == pytest.approx(cost.usd_per_hour)
    assert set(lines_of(bill)) == {"capital", "electricity", "upkeep"}
