"""A person's own price file: what is doubtful is told by file and row, and what it may say beyond the price is kept."""

import datetime
from pathlib import Path

import pytest

from advisor.catalog import prices
from advisor.catalog.errors import InputFileError

HEADER = "provider,sku,accelerator,num_accelerators,term,usd_per_hour,observed_on"
GOOD = "acme,node,h100-sxm,8,on_demand,16,2026-03-01"


def write_file(folder: Path, text: str) -> Path:
    path = folder / "own.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{HEADER},currency\n{GOOD},EUR\n", ["row 2", "currency", "EUR", "USD"]),
        (f"{HEADER}\n{GOOD}\n{GOOD}\n", ["row 3 repeats row 2"]),
        (f"{HEADER}\n{GOOD.replace('16', '1600000')}\n", ["row 2", "usd_per_hour"]),
        (f"{HEADER}\n{GOOD.replace('16', '11680')}\n", ["row 2", "cents, or a month's"]),
        (f"{HEADER}\n{GOOD.replace('16', '0.002')}\n", ["row 2", "cents, or a month's"]),
        (f"{HEADER}\n{GOOD.replace('16', '$16')}\n", ["row 2", "usd_per_hour", "$16"]),
        (f"{HEADER}\n{GOOD.replace('2026', '2126')}\n", ["row 2", "in the future"]),
        (f"{HEADER}\n{GOOD.replace('on_demand', 'reserved_2y')}\n", ["row 2", "term"]),
        (f"{HEADER},tenancy\n{GOOD},mine\n", ["row 2", "tenancy"]),
        (f"{HEADER},price_kind\n{GOOD},gossip\n", ["row 2", "price_kind"]),
        (f"{HEADER},min_quantity\n{GOOD},0\n", ["row 2", "min_quantity"]),
        (f"{HEADER},min_quantity,max_quantity\n{GOOD},64,8\n", ["row 2", "below min_quantity"]),
        (f"{HEADER.replace('usd_per_hour', 'usd_per_month')}\n{GOOD}\n", ["row 1 lacks column usd_per_hour"]),
    ],
)
def test_what_is_wrong_is_told_by_file_and_row(tmp_path: Path, text: str, told: list[str]) -> None:
    with pytest.raises(InputFileError) as caught:
        prices.read_prices(write_file(tmp_path, text))
    error = caught.value
    assert "own.csv" in error.what
    assert error.fix
    for words in told:
        assert words in f"{error.what} {error.why}"


def test_what_a_contract_says_beyond_the_price_is_kept(tmp_path: Path) -> None:
    header = f"{HEADER},country,min_quantity,max_quantity,storage_usd_per_gb_hour,egress_usd_per_gb,currency"
    path = write_file(
        tmp_path, f"{header}\n{GOOD.replace('on_demand', 'reserved_3m')},SE,16,64,0.0001,0.05,USD\n"
    )
    (price,) = prices.read_prices(path)
    assert (price.price_kind, price.tenancy, price.country) == ("quote", "dedicated", "SE")
    assert (price.min_quantity, price.max_quantity) == (16, 64)
    assert (price.storage_usd_per_gb_hour, price.egress_usd_per_gb) == (0.0001, 0.05)
    assert prices.commitment_usd(price) == pytest.approx(16 * 2190)


def test_bundled_rows_say_how_sure_they_are() -> None:
    rows = prices.bundled_prices()
    assert all(row.source for row in rows)
    assert {row.price_kind for row in rows} == {
        "list",
        "from",
        "tracker",
        "marketplace_median",
        "marketplace_min",
    }
    assert {row.tenancy for row in rows} == {"dedicated", "shared", "unknown"}
    assert {"reserved_1m", "reserved_3m", "reserved_1y", "reserved_3y", "reserved_unspecified"} <= {
        r.term for r in rows
    }
    continents = {row.country for row in rows if row.provider in ("aws", "azure", "gcp")}
    assert {"US", "DE", "JP", "IN"} <= continents
    assert any(row.storage_usd_per_gb_hour for row in rows)


def test_a_renter_may_ask_for_kinds_and_tenancies() -> None:
    day = prices.newest_reading()
    everything = prices.prices_as_of(day)
    dedicated = prices.prices_as_of(day, kinds=("list",), tenancies=("dedicated",))
    assert set(dedicated) < set(everything)
    assert {(row.price_kind, row.tenancy) for row in dedicated} == {("list", "dedicated")}


def test_columns_that_are_not_read_and_doubted_counts_are_said(tmp_path: Path) -> None:
    """The price of one on a row of eight, and a number of accelerators under a name that is not known."""
    sheet = tmp_path / "sheet.csv"
    sheet.write_text("GPU,GPUs,Panels,Price\nH100 SXM,8,8,2.49\n", encoding="utf-8")
    notes = " ".join(prices.catalogue_notes(sheet, datetime.date(2026, 11, 20), ["acme"]))
    assert "not read: Panels" in notes
    assert "like those of one accelerator: 8 x h100-sxm" in notes
