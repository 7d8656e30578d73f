"""What a load costs: whole units, budget, stock; linear in the price."""

import dataclasses
import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog.schema import Price
from advisor.recommend.offers import Placement
from advisor.recommend.purchase import (
    cheapest_purchase,
    least_usd_per_million_tokens,
    replicas_for,
    usd_per_million_tokens,
)
from advisor.recommend.scenario import Objectives, Scenario, Traffic

DAY = datetime.date(2026, 11, 20)


def way(replicas: int, accelerators: int, usd: float, max_units: int | None = None) -> Placement:
    price = Price(
        provider="aws", sku="x", region="", accelerator="h100-sxm", num_accelerators=accelerators, term="on_demand",
        usd_per_hour=usd, observed_on=DAY, valid_from=DAY,
    )  # fmt: skip
    return Placement(price, replicas, accelerators, usd, max_units)


def scenario(budget: float | None = None, **traffic: Any) -> Scenario:
    return Scenario(
        model="llama-3.1-8b",
        traffic=Traffic(mean_input_tokens=900, mean_output_tokens=100, **traffic),
        objectives=Objectives(budget_usd_per_hour=budget),
        as_of=DAY,
    )


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
    assert (bought.num_replicas, bought.requests_per_s) == (3, 9.0)


def test_a_small_load_takes_the_small_sku_although_the_node_is_cheaper_each() -> None:
    node, single = way(8, 8, 16.0), way(1, 1, 3.0)
    for load, chosen in ((1.0, single), (30.0, node)):
        bought = cheapest_purchase(scenario(rate_per_s=load), [node, single], 4.0, 4.0)
        assert bought is not None
        assert bought.placement is chosen
    # With the whole load open the node wins; where the budget does not allow it, the single one.
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
    assert least_usd_per_million_tokens(scenario(budget=1.0), [way(4, 8, 24.0)], 1.0) is None


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
    least = least_usd_per_million_tokens(asked, ways, bound)
    bought = cheapest_purchase(asked, ways, part * bound, part * bound)
    if bought is not None:
        assert least is not None
        assert least <= bought.usd_per_million_tokens * (1 + 1e-9)
