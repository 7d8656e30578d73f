"""Coverage: everything that is rented can be planned with or says why not; stale and single-source rows are listed."""

import datetime
from pathlib import Path

from advisor.catalog import prices
from advisor.catalog.accelerators import all_accelerators
from advisor.catalog.coverage import TERMS, AcceleratorCoverage, coverage, is_plannable
from advisor.catalog.prices import all_providers

DAY = datetime.date(2026, 11, 23)
FOUND = coverage(DAY)


def of(accelerator: str) -> AcceleratorCoverage:
    return next(row for row in FOUND.accelerators if row.accelerator == accelerator)


def test_what_is_rented_and_runs_has_a_price_to_plan_with_or_says_why_not() -> None:
    unpriced = dict(FOUND.unpriced)
    for row in FOUND.accelerators:
        if row.engines:
            assert (row.num_dedicated > 0) != (row.accelerator in unpriced), row.accelerator
            assert row.num_dedicated == 0 or row.newest is not None
    assert all(unpriced.values())
    assert unpriced["h20"] == "no provider is known to rent it out; a purchase price is known"
    assert unpriced["rtx-4080"] == "unknown tenancy, marketplace min price (akash, salad)"
    assert "undated (paperspace)" in unpriced["v100-pcie-32gb"]


def test_the_usual_accelerators_are_well_known() -> None:
    for name in ("h100-sxm", "h200-sxm", "b200-sxm", "a100-sxm-80gb", "l40s", "mi300x"):
        row = of(name)
        assert len(row.sellers) >= 5, name
        assert row.num_dedicated >= 10
        assert row.num_fresh <= row.num_dedicated
        assert {"vllm", "sglang"} <= set(row.engines_stated)
        assert "matmul" in row.measured_operators
        assert not row.is_single_source
    assert of("mi325x").is_single_source
    assert "mi325x" in FOUND.single_source


def test_every_seller_and_accelerator_has_a_row() -> None:
    assert [row.provider for row in FOUND.providers] == sorted(all_providers())
    assert [row.accelerator for row in FOUND.accelerators] == [record.id for record in all_accelerators()]
    aws = next(row for row in FOUND.providers if row.provider == "aws")
    assert {"on_demand", "spot", "reserved_1y", "reserved_3y"} <= set(aws.terms)
    assert {"list", "tracker"} == set(aws.kinds)
    assert aws.num_undated > 0
    assert aws.newest == datetime.date(2026, 11, 9)
    assert "h100-sxm" in aws.accelerators
    assert {"us-east-1", "eu-north-1"} <= set(aws.regions)


def test_stale_and_undated_offers_are_listed_oldest_first() -> None:
    undated = [price for price in FOUND.stale if not price.is_dated]
    assert FOUND.stale[: len(undated)] == tuple(undated)
    dated = [price.observed_on for price in FOUND.stale if price.is_dated]
    assert dated == sorted(dated)
    assert all(
        prices.age_days(price, DAY) > prices.STALE_AFTER_DAYS for price in FOUND.stale if price.is_dated
    )
    offers = prices.prices_as_of(DAY, terms=TERMS)
    assert sum(row.num_offers for row in FOUND.providers) == len(offers)
    assert sum(row.num_dedicated for row in FOUND.accelerators) == sum(map(is_plannable, offers))


def test_an_own_price_fills_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text(
        "provider,accelerator,num_accelerators,term,usd_per_hour,observed_on\nours,h20,8,on_demand,9.6,2026-11-20\n"
    )
    assert "h20" not in dict(coverage(DAY, user_file=path).unpriced)


def test_nothing_is_known_before_it_was_read() -> None:
    early = coverage(datetime.date(2020, 1, 1))
    assert not early.stale
    assert all(row.num_offers == 0 for row in early.accelerators)


def test_one_accelerator_or_seller_only() -> None:
    h100 = coverage(DAY, accelerators=["h100-sxm"])
    assert [row.accelerator for row in h100.accelerators] == ["h100-sxm"]
    assert h100.accelerators[0] == of("h100-sxm")
    assert not h100.unpriced
    aws = coverage(DAY, providers=["aws"])
    assert [row.provider for row in aws.providers] == ["aws"]
    assert {row.sellers for row in aws.accelerators} == {("aws",)}
    assert not aws.single_source  # nothing is said of sellers that were left out
