"""List prices, figures of ownership, grids and daily loads: plausible, dated, cited; mistakes in files are told."""

import datetime
from pathlib import Path

import pytest

from advisor.catalog import models as model_catalog
from advisor.catalog.api_prices import (
    api_endings,
    api_prices_as_of,
    bundled_api_prices,
    endings_of,
    read_api_prices,
)
from advisor.catalog.errors import InputFileError, UnknownNameError
from advisor.catalog.ownership import ownership
from advisor.catalog.profiles import all_load_shapes, get_load_shape
from advisor.catalog.regions import all_regions, get_region, region_of_offer

DAY = datetime.date(2026, 11, 20)
HEADER = (
    "provider,model,usd_per_million_input,usd_per_million_cached_input,usd_per_million_output,observed_on\n"
)


def api_file(folder: Path, *rows: str) -> Path:
    file = folder / "api.csv"
    file.write_text(HEADER + "\n".join(rows) + "\n", encoding="utf-8")
    return file


def test_list_prices_are_plausible_and_have_an_address() -> None:
    prices = bundled_api_prices()
    assert len(prices) > 50
    for price in prices:
        assert 0.01 < price.usd_per_million_input < 20
        assert price.usd_per_million_output >= price.usd_per_million_input * 0.9
        assert price.url.startswith("https://")
        if price.usd_per_million_cached_input is not None:
            assert price.usd_per_million_cached_input < price.usd_per_million_input
    assert len({(price.provider, price.model) for price in prices}) == len(prices)


def test_a_price_is_not_known_before_it_was_read() -> None:
    assert api_prices_as_of(datetime.date(2024, 1, 1), ["llama-3.3-70b"]) == ()
    assert api_prices_as_of(DAY, ["llama-3.3-70b"])


def test_a_users_row_wins_and_aliases_are_understood(tmp_path: Path) -> None:
    file = api_file(
        tmp_path, "groq,meta-llama/Llama-3.3-70B-Instruct,9,,9,2026-11-19", "mine,my-model,1,0.1,2,2026-11-19"
    )
    found = {
        price.provider: price
        for price in api_prices_as_of(DAY, ["llama-3.3-70b", "my-model"], user_file=file)
    }
    assert found["groq"].usd_per_million_input == 9
    assert found["mine"].usd_per_million_cached_input == 0.1
    assert found["novita"].usd_per_million_input < 1


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("groq,llama,-1,,1,2026-11-01", "usd_per_million_input"),
        ("groq,llama,abc,,1,2026-11-01", "usd_per_million_input"),
        ("groq,llama,1,,nan,2026-11-01", "usd_per_million_output"),
        ("groq,llama,1,,,2026-11-01", "usd_per_million_output"),
        ("groq,llama,1,,1,01.11.2026", "observed_on"),
        ("groq,llama,0,,0,2026-11-01", "cost nothing"),
        ("groq,llama,1,1,2026-11-01", "cells"),
    ],
)
def test_a_wrong_row_is_told_by_its_number_and_field(tmp_path: Path, row: str, what: str) -> None:
    with pytest.raises(InputFileError) as error:
        read_api_prices(api_file(tmp_path, "groq,llama,1,,1,2026-11-01", row))
    assert "row 3" in error.value.what
    assert what in error.value.what


def test_a_misspelt_column_is_told(tmp_path: Path) -> None:
    file = tmp_path / "api.csv"
    file.write_text(
        "provider,model,usd_per_milion_input,usd_per_million_output,observed_on\n", encoding="utf-8"
    )
    with pytest.raises(InputFileError, match="usd_per_million_input"):
        read_api_prices(file)


def test_an_unknown_api_provider_has_near_misses() -> None:
    with pytest.raises(UnknownNameError) as error:
        api_prices_as_of(DAY, ["llama-3.3-70b"], providers=["grok"])
    assert "groq" in error.value.hint


def test_every_figure_of_ownership_is_dated_and_cited() -> None:
    known = ownership(DAY)
    for figure in known.assumptions.values():
        assert figure.source
        assert datetime.date(2020, 1, 1) <= figure.observed_on <= DAY
    for figure in known.assumptions.values():
        assert figure.url or "own assumption" in figure.source or "published" in figure.source
    assert not known.purchases  # those are the user's own


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("electricty_usd_per_kwh = 0.1", "electricty_usd_per_kwh"),
        ("electricity_usd_per_kwh = -0.1", "out of range"),
        ("pue = 0.9", "out of range"),
        ("resale_decay_per_year = 1.5", "out of range"),
        ("life_years = 0", "out of range"),
        ("pue = nan", "out of range"),
        ("pue = '1.3'", "not a number"),
        ("pue = true", "not a number"),
        ("[purchase]\nh101 = 3", "h101"),
        ("[purchase]\nh100-sxm = -3", "usd"),
        ("[purchase]\nh100-sxm = 0", "usd"),
        ("pue 1.3", "not valid TOML"),
    ],
)
def test_a_mistake_in_a_file_of_assumptions_is_told(tmp_path: Path, text: str, what: str) -> None:
    file = tmp_path / "own.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputFileError) as error:
        ownership(DAY, file)
    told = f"{error.value.what} {error.value.why} {error.value.hint}"
    assert what in told
    assert str(file) in told


def test_grids_are_plausible_and_their_names_clear() -> None:
    regions = all_regions()
    assert len(regions) > 25
    names = [name for region in regions.values() for name in (region.id, *region.aliases)]
    assert len(names) == len(set(names))
    for region in regions.values():
        assert 0.001 < region.kg_co2e_per_kwh < 0.9
        assert region.carbon_source
        if region.electricity_usd_per_kwh is not None:
            assert region.electricity_source
            assert region.electricity_observed_on is not None
    by_carbon = sorted(regions.values(), key=lambda region: region.kg_co2e_per_kwh)
    places = {region.id: place for place, region in enumerate(by_carbon)}
    assert max(places["sweden"], places["france"], places["canada-quebec"]) < 5 < places["germany"]
    assert places["germany"] < places["poland"] < places["india"]


def test_regions_of_clouds_are_found() -> None:
    assert get_region("eu-central-1")[0].id == "germany"
    assert get_region("de")[0].id == "germany"
    found = region_of_offer("us-east4")
    assert found is not None
    assert found.id == "us-virginia"
    assert region_of_offer("any") is None
    with pytest.raises(UnknownNameError) as error:
        get_region("swedn")
    assert "sweden" in error.value.hint


def test_shapes_have_a_mean_of_one(tmp_path: Path) -> None:
    for shape in all_load_shapes().values():
        assert sum(shape.relative) / len(shape.relative) == pytest.approx(1.0)
        assert shape.source
    file = tmp_path / "mine.toml"
    file.write_text("levels = [1, 3]", encoding="utf-8")
    assert get_load_shape(str(file)).relative == (0.5, 1.5)


@pytest.mark.parametrize(
    "text", ["levels = []", "levels = [-1, 2]", "levels = [0, 0]", "level = [1]", "levels = ['a']"]
)
def test_a_shape_that_is_none_is_told(tmp_path: Path, text: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputFileError):
        get_load_shape(str(file))


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (("groq,70b,0.5,,0.8,2126-11-19",), "row 2: field observed_on: 2126-11-19"),
        (("groq,70b,0.5,,-0.8,2026-11-19",), "row 2: field usd_per_million_output"),
        (("groq,70b,0.5,,,2026-11-19",), "row 2: field usd_per_million_output"),
        (("groq,70b,0.0000005,,0.0000008,2026-11-19",), "row 2: field usd_per_million_output: 8e-07"),
        (("groq,70b,0.5,,0.8,2026-11-19", "groq,llama-3.1-70b,0.6,,0.9,2026-11-19"), "row 3 repeats row 2"),
    ],
)
def test_a_bad_row_of_api_prices_is_told_with_file_and_row(
    tmp_path: Path, rows: tuple[str, ...], says: str
) -> None:
    file = api_file(tmp_path, *rows)
    with pytest.raises(InputFileError) as raised:
        api_prices_as_of(DAY, ["llama-3.1-70b"], user_file=file)
    assert str(file) in raised.value.what
    assert says in raised.value.what


def test_api_prices_in_another_currency_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "api.csv"
    file.write_text(HEADER.strip() + ",currency\ngroq,70b,0.5,,0.8,2026-11-19,EUR\n", encoding="utf-8")
    with pytest.raises(InputFileError, match="row 2: field currency: 'EUR'"):
        api_prices_as_of(DAY, ["llama-3.1-70b"], user_file=file)


def test_no_price_of_a_service_that_has_ended_is_offered_however_lately_its_list_was_read() -> None:
    for ending in api_endings():
        models = {price.model for price in bundled_api_prices() if ending.model in ("", price.model)}
        alive = api_prices_as_of(DAY, models)
        assert not any(price.provider == ending.provider for price in alive if ending.rules_out(price, DAY))
        before = ending.ended_on - datetime.timedelta(days=1)
        assert not any(ending.rules_out(price, before) for price in bundled_api_prices())


def test_an_ending_is_of_a_listed_provider_and_model() -> None:
    listed = {(price.provider, price.model) for price in bundled_api_prices()}
    providers = {provider for provider, _ in listed}
    models = set(model_catalog.all_ids())
    for ending in api_endings():
        assert ending.provider in providers
        assert not ending.model or ending.model in models
        assert ending.url.startswith("https://")


def test_an_ended_service_is_named_unless_the_user_states_its_price(tmp_path: Path) -> None:
    assert [each.provider for each in endings_of(DAY, ["qwen3-32b"])] == ["groq", "lambda", "novita"]
    assert [each.provider for each in endings_of(DAY, ["qwen3-32b"], providers=["lambda"])] == ["lambda"]
    own = api_file(tmp_path, "lambda,qwen3-32b,1,,2,2026-11-19")
    assert "lambda" in {price.provider for price in api_prices_as_of(DAY, ["qwen3-32b"], user_file=own)}
