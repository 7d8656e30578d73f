"""How prices age: more with time and with worse sources, and not at all worse than the pairs that they rest on."""

import datetime
import math
from collections import defaultdict
from itertools import pairwise

import pytest

from advisor.catalog import prices
from advisor.catalog.prices import price_spread, spread_of
from advisor.catalog.schema import Price

KINDS = ("list", "quote", "from", "tracker", "marketplace_median", "marketplace_min", "spot")


@pytest.mark.parametrize("kind", KINDS)
def test_spread_grows_with_age_and_an_unknown_age_is_the_oldest(kind: str) -> None:
    found = [price_spread(age, kind) for age in (0, 1, 7, 30, 90, 365, 3650)]
    sigmas = [spread.sigma for spread in found]
    assert sigmas[:6] == sorted(set(sigmas[:6]))
    assert found[0].drift == 0
    assert found[0].sigma <= 0.15
    assert price_spread(None, kind) == found[-1]
    assert price_spread(-5, kind) == found[0]


@pytest.mark.parametrize("age", [0, 30, 300])
def test_a_sellers_own_list_is_the_surest(age: int) -> None:
    assert price_spread(age, "list").sigma == min(price_spread(age, kind).sigma for kind in KINDS)


def test_a_list_read_today_is_right() -> None:
    assert price_spread(0, "list").sigma <= 0.02


def test_spot_ages_as_spot_and_an_undated_row_as_the_oldest() -> None:
    day = datetime.date(2026, 11, 20)
    rows = prices.prices_as_of(day, terms=("on_demand", "spot"))
    spot = next(row for row in rows if row.term == "spot" and row.is_dated)
    undated = next(row for row in rows if not row.is_dated and row.term == "on_demand")
    assert spread_of(spot, day) == price_spread(prices.age_days(spot, day), "spot")
    assert spread_of(undated, day) == price_spread(None, undated.price_kind)


def test_moves_that_were_seen_lie_within_the_spread() -> None:
    """Four of five moves of sellers' lists lie within the 80 % interval, and one of twenty may lie beyond three."""
    offers: dict[object, list[Price]] = defaultdict(list)
    for price in prices.bundled_prices():
        if price.is_dated and price.price_kind == "list" and price.term != "spot":
            offers[prices.offer_of(price)].append(price)
    scores = []
    for readings in offers.values():
        for old, new in pairwise(sorted(readings, key=lambda price: price.observed_on)):
            spread = price_spread((new.observed_on - old.observed_on).days, "list")
            moved = math.log(new.usd_per_hour / old.usd_per_hour)
            scores.append(abs(moved - spread.drift) / spread.sigma)
    assert len(scores) >= 50
    assert sum(score <= 1.2816 for score in scores) >= 0.8 * len(scores)
    assert sum(score > 3 for score in scores) <= 0.05 * len(scores)


def test_commitments_are_billed_whole() -> None:
    row = next(price for price in prices.bundled_prices() if price.term == "reserved_1y")
    assert prices.commitment_usd(row) == pytest.approx(row.usd_per_hour * 8760)
    months = {
        "reserved_1m": 730.0,
        "reserved_3m": 2190.0,
        "reserved_3y": 26280.0,
        "on_demand": 0.0,
        "spot": 0.0,
    }
    for term, hours in months.items():
        changed = row.model_copy(update={"term": term})
        assert prices.commitment_usd(changed) == pytest.approx(row.usd_per_hour * hours)
    assert prices.commitment_usd(row.model_copy(update={"term": "reserved_unspecified"})) is None
