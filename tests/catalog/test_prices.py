"""Prices: enough of them, reproducible as of a day, layered, a message for every bad row; sellers are described."""

import datetime
from pathlib import Path

import pytest
from pydantic import ValidationError

from advisor.catalog import accelerators, prices
from advisor.catalog.accelerators import all_accelerators
from advisor.catalog.errors import InputFileError, UnknownNameError
from advisor.catalog.prices import Provider, all_providers, bundled_prices
from advisor.catalog.schema import Price

BUNDLED = prices.bundled_prices()
TODAY = datetime.date(2026, 11, 20)
HEADER = "provider,sku,region,accelerator,num_accelerators,term,usd_per_hour,observed_on,valid_from,valid_to"


def _file(folder: Path, *rows: str, header: str = HEADER) -> Path:
    path = folder / "own.csv"
    path.write_text("\n".join((header, *rows)) + "\n")
    return path


def _of(found: tuple[Price, ...], sku: str) -> list[float]:
    return [price.usd_per_hour for price in found if price.sku == sku]


def test_there_are_enough_rows_providers_and_terms() -> None:
    assert sum(price.observed_on.year == 2026 for price in BUNDLED) >= 180
    assert sum(price.observed_on.year < 2026 for price in BUNDLED) >= 20
    assert len({price.provider for price in BUNDLED}) >= 8
    assert {"on_demand", "spot", "community", "reserved_3y"} <= {price.term for price in BUNDLED}


def test_every_row_names_a_catalog_accelerator_and_where_it_was_read() -> None:
    ids = {record.id for record in accelerators.all_accelerators()}
    for price in BUNDLED:
        assert price.accelerator in ids
        assert price.url.startswith("https://")
        assert price.sku
        assert price.region


def test_no_offer_has_two_prices_from_the_same_day() -> None:
    keys = [
        (p.provider, p.sku, p.region, p.accelerator, p.num_accelerators, p.term, p.valid_from)
        for p in BUNDLED
    ]
    assert len(keys) == len(set(keys))


def test_prices_are_plausible_per_accelerator() -> None:
    """Nothing is priced per node by mistake: 5 cents to 30 dollars an hour for one, 36 for Azure's GB200 in Asia."""
    for price in BUNDLED:
        assert price.usd_per_accelerator_hour >= (
            0.05 if price.price_kind in prices.COMPARED_KINDS else 0.04
        ), price
        assert price.usd_per_accelerator_hour <= (36 if price.accelerator == "gb200" else 30), price


def test_spot_is_cheaper_than_on_demand_of_the_same_offer() -> None:
    found = prices.prices_as_of(TODAY, terms=("on_demand", "spot"))
    on_demand = {(p.provider, p.sku, p.region): p.usd_per_hour for p in found if p.term == "on_demand"}
    spot = [p for p in found if p.term == "spot"]
    assert len(spot) >= 300
    assert sum((price.provider, price.sku, price.region) in on_demand for price in spot) >= 200
    for price in spot:
        assert price.usd_per_hour < on_demand.get((price.provider, price.sku, price.region), float("inf"))


def test_a_newer_row_takes_over_from_its_day_on() -> None:
    before = prices.prices_as_of(datetime.date(2026, 8, 17), providers=("lambda",))
    after = prices.prices_as_of(datetime.date(2026, 8, 18), providers=("lambda",))
    assert _of(before, "gpu_8x_h100_sxm5") == [23.92]
    assert _of(after, "gpu_8x_h100_sxm5") == [31.92]
    assert prices.prices_as_of(datetime.date(2024, 1, 1)) == ()


def test_only_the_terms_providers_and_accelerators_asked_for_come_back() -> None:
    found = prices.prices_as_of(
        TODAY, providers=("AWS", "google"), terms=("on_demand",), accelerators=("l4",)
    )
    assert {price.provider for price in found} == {"aws", "gcp"}
    assert {(price.accelerator, price.term) for price in found} == {("l4", "on_demand")}
    per_accelerator = [price.usd_per_accelerator_hour for price in found]
    assert per_accelerator == sorted(per_accelerator)


def test_an_unknown_provider_is_told_with_near_misses() -> None:
    with pytest.raises(UnknownNameError) as caught:
        prices.prices_as_of(TODAY, providers=("azur",))
    assert "azure" in caught.value.hint


def test_appending_a_row_later_does_not_change_an_older_day(tmp_path: Path) -> None:
    first = "acme,node,x,h100-sxm,8,on_demand,16,2026-03-01,2026-03-01,"
    later = "acme,node,x,h100-sxm,8,on_demand,12,2026-09-01,2026-02-01,"
    march = datetime.date(2026, 3, 15)
    alone = prices.prices_as_of(march, providers=("acme",), user_file=_file(tmp_path, first))
    both = prices.prices_as_of(march, providers=("acme",), user_file=_file(tmp_path, first, later))
    assert alone == both
    assert _of(both, "node") == [16]


def test_validity_is_half_open(tmp_path: Path) -> None:
    path = _file(tmp_path, "acme,node,x,h100-sxm,8,on_demand,16,2026-03-01,2026-03-10,2026-03-20")
    for day, num_rows in ((9, 0), (10, 1), (19, 1), (20, 0)):
        found = prices.prices_as_of(datetime.date(2026, 3, day), providers=("acme",), user_file=path)
        assert len(found) == num_rows, day


def test_user_beats_cache_beats_bundle(tmp_path: Path) -> None:
    row = "aws,p5.48xlarge,us-east-1,h100-sxm,8,on_demand,{},2026-11-15,2026-11-15,"
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "aws.csv").write_text(f"{HEADER}\n{row.format(50)}\n")
    own = _file(tmp_path, row.format(40))

    def price(**layers: Path) -> list[float]:
        found = prices.prices_as_of(TODAY, providers=("aws",), **layers)  # type: ignore[arg-type]
        return _of(tuple(row for row in found if row.region == "us-east-1"), "p5.48xlarge")

    assert price() == [55.04]
    assert price(cache_dir=cache) == [50]
    assert price(cache_dir=cache, user_file=own) == [40]


def test_a_newer_bundle_beats_an_old_refresh(tmp_path: Path) -> None:
    row = "aws,p5.48xlarge,us-east-1,h100-sxm,8,on_demand,50,2026-07-01,2026-07-01,"
    (tmp_path / "aws.csv").write_text(f"{HEADER}\n{row}\n")
    found = prices.prices_as_of(TODAY, providers=("aws",), cache_dir=tmp_path)
    assert _of(tuple(row for row in found if row.region == "us-east-1"), "p5.48xlarge") == [55.04]


def test_a_short_own_file_with_an_alias_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "short.csv"
    path.write_text(
        "# our contract\nprovider,accelerator,num_accelerators,term,usd_per_hour,observed_on,ram_gb\n"
        "ours,H100,8,reserved_1y,14.4,2026-11-01,2048\n"
    )
    (price,) = prices.read_prices(path)
    assert price.accelerator == "h100-sxm"
    assert price.valid_from == datetime.date(2026, 11, 1)
    assert price.usd_per_accelerator_hour == pytest.approx(1.8)
    assert price.ram_bytes == 2048 * 2**30


def test_age_and_staleness() -> None:
    price = next(price for price in BUNDLED if price.sku == "p5.48xlarge" and price.is_dated)
    read_on = price.observed_on
    assert prices.age_days(price, read_on + datetime.timedelta(days=7)) == 7
    assert not prices.is_stale(price, read_on + datetime.timedelta(days=30))
    assert prices.is_stale(price, read_on + datetime.timedelta(days=31))
    assert not prices.is_stale(price, read_on - datetime.timedelta(days=400))


GOOD = "acme,node,x,h100-sxm,8,on_demand,16,2026-03-01,,"


@pytest.mark.parametrize(
    ("row", "field", "value"),
    [
        ("acme,node,x,h100-sxm,8,on_demand,abc,2026-03-01,,", "usd_per_hour", "abc"),
        ("acme,node,x,h100-sxm,8,on_demand,-3,2026-03-01,,", "usd_per_hour", "-3"),
        ("acme,node,x,h100-sxm,8,on_demand,0,2026-03-01,,", "usd_per_hour", "0"),
        ("acme,node,x,h100-sxm,8,on_demand,nan,2026-03-01,,", "usd_per_hour", "nan"),
        ("acme,node,x,h100-sxm,8,on_demand,inf,2026-03-01,,", "usd_per_hour", "inf"),
        ("acme,node,x,h100-sxm,8,on_demand,,2026-03-01,,", "usd_per_hour", "missing"),
        ("acme,node,x,h100-sxm,0,on_demand,16,2026-03-01,,", "num_accelerators", "0"),
        ("acme,node,x,h100-sxm,2.5,on_demand,16,2026-03-01,,", "num_accelerators", "2.5"),
        ("acme,node,x,h100-sxm,8,yearly,16,2026-03-01,,", "term", "yearly"),
        ("acme,node,x,h100-sxm,8,on_demand,16,2026-13-01,,", "observed_on", "2026-13-01"),
        ("acme,node,x,h100-sxm,8,on_demand,16,yesterday,,", "observed_on", "yesterday"),
        ("acme,node,x,h100-sxm,8,on_demand,16,2026-03-01,2026-03-01,2026-02-01", "valid_to", "2026-02-01"),
        ("acme,node,x,h100-smx,8,on_demand,16,2026-03-01,,", "accelerator", "h100-smx"),
        (",node,x,h100-sxm,8,on_demand,16,2026-03-01,,", "provider", "missing"),
    ],
)
def test_a_bad_row_is_told_by_row_field_and_value(tmp_path: Path, row: str, field: str, value: str) -> None:
    with pytest.raises(InputFileError) as caught:
        prices.read_prices(_file(tmp_path, GOOD, row))
    error = caught.value
    message = f"{error.what} {error.why}"
    assert "own.csv: row 3" in message
    assert field in message
    assert value in message
    assert error.fix


def test_a_misspelt_accelerator_in_a_price_file_gets_near_misses(tmp_path: Path) -> None:
    with pytest.raises(InputFileError) as caught:
        prices.read_prices(_file(tmp_path, "acme,node,x,h100-smx,8,on_demand,16,2026-03-01,,"))
    assert "h100-sxm" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "row 1 lacks column"),
        ("provider,accelerator\nacme,h100\n", "row 1 lacks column num_accelerators"),
        (f"{HEADER},colour\n{GOOD},red\n", "unknown or repeated columns: colour"),
        (f"{HEADER}\n{GOOD},1\n", "row 2 has 11 cells"),
        (f"{HEADER}\nacme,node\n", "row 2 has 2 cells"),
        (f'{HEADER}\n"acme,node,x,h100-sxm,8,on_demand,16,2026-03-01,,\n', "not CSV"),
    ],
)
def test_a_file_of_the_wrong_shape_is_told(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "shape.csv"
    path.write_text(text)
    with pytest.raises(InputFileError) as caught:
        prices.read_prices(path)
    assert "shape.csv" in caught.value.what
    assert told in caught.value.what
    assert caught.value.fix


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\x7fELF\x02\x01\x00\x00\x81")
    for path, told in (
        (tmp_path / "none.csv", "no such file"),
        (tmp_path, "folder"),
        (binary, "not a text file"),
    ):
        with pytest.raises(InputFileError) as caught:
            prices.read_prices(path)
        assert told in caught.value.what
    with pytest.raises(InputFileError) as caught:
        prices.prices_as_of(TODAY, cache_dir=tmp_path / "nowhere")
    assert "no such folder" in caught.value.what


def test_every_seller_with_a_price_is_described() -> None:
    assert {price.provider for price in bundled_prices()} == set(all_providers())
    for name, provider in all_providers().items():
        assert provider.id == name
        assert provider.name
        assert provider.kind in ("hyperscaler", "neocloud", "marketplace")


def test_single_sales_are_by_accelerator_or_for_all() -> None:
    assert all_providers()["runpod"].sells_singly("h100-sxm")
    assert all_providers()["gcp"].sells_singly("tpu-v6e")
    assert not all_providers()["gcp"].sells_singly("h100-sxm")
    assert not all_providers()["aws"].sells_singly("h100-sxm")


def test_what_is_named_exists() -> None:
    known = {*(record.id for record in all_accelerators()), "*"}
    for provider in all_providers().values():
        assert set(provider.per_accelerator) <= known, provider.id


def test_least_rental_is_a_whole_number_of_what_is_priced() -> None:
    for price in bundled_prices():
        least = all_providers()[price.provider].node_of
        assert least <= price.num_accelerators or least % price.num_accelerators == 0, price.sku
    assert all_providers()["tensorwave"].node_of == 8
    assert all_providers()["aws"].node_of == 1


def test_unknown_fields_and_classes_are_refused() -> None:
    with pytest.raises(ValidationError):
        Provider.model_validate({"id": "x", "name": "X", "class": "shop"})
    with pytest.raises(ValidationError):
        Provider.model_validate({"id": "x", "name": "X", "class": "neocloud", "colour": "red"})
