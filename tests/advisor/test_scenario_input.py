"""Typed load and limits: defaults are resolved, what excludes each other is refused."""

import datetime
from pathlib import Path
from typing import Any

import pytest

from advisor.ask.measures import parse_rate
from advisor.ask.options import LoadOptions, ObjectiveOptions, SharedOptions, Where
from advisor.ask.scenario import constraints_of, known_countries, parse_own, scenario_of
from advisor.ask.traffic import traffic_of
from advisor.catalog.errors import AdvisorError, InputFileError, UnknownNameError
from advisor.catalog.schema.price import country_of_region
from advisor.decide.offers import offers_by_accelerator

SHARED = SharedOptions(False, None, False, False, False, False, 3, datetime.date(2026, 11, 20), None)


def test_nothing_said_is_the_chat_profile() -> None:
    traffic = traffic_of(LoadOptions())
    assert traffic.profile == "chat"
    assert (traffic.mean_input_tokens, traffic.mean_output_tokens) == (1155, 211)
    assert traffic.rate_per_s is None
    assert "Azure" in traffic.source


def test_typed_lengths_keep_the_spread_of_the_profile() -> None:
    traffic = traffic_of(LoadOptions(input_tokens=4000, profile="rag"))
    assert (traffic.mean_input_tokens, traffic.mean_output_tokens) == (4000, 685)
    assert traffic.input_sigma == traffic_of(LoadOptions(profile="rag")).input_sigma
    assert traffic.profile == "custom"


def test_a_trace_gives_means_and_rate(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("arrived_at_s,input_tokens,output_tokens\n0,100,10\n1,300,30\n2,200,20\n")
    traffic = traffic_of(LoadOptions(trace=path))
    assert (traffic.mean_input_tokens, traffic.mean_output_tokens) == (200, 20)
    assert traffic.rate_per_s == pytest.approx(1.5)
    assert traffic.input_sigma == pytest.approx(0.4536, rel=1e-3)


@pytest.mark.parametrize(
    ("text", "rate"), [("10", 10.0), ("10/s", 10.0), ("600/min", 10.0), ("36000 / h", 10.0), ("1e-3", 0.001)]
)
def test_rates(text: str, rate: float) -> None:
    assert parse_rate(text) == pytest.approx(rate)


@pytest.mark.parametrize(
    "text", ["", "fast", "10/fortnight", "10 s", "-1", "0", "nan", "inf", "1e999", "10//s"]
)
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(AdvisorError, match="--rate") as raised:
        parse_rate(text)
    assert raised.value.fix
    assert raised.value.exit_code == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"rate": "1", "concurrency": "4"},
        {"trace": Path("t.csv"), "profile": "chat"},
        {"trace": Path("t.csv"), "input_tokens": 5},
        {"concurrency": "0"},
        {"concurrency": "8,64"},
        {"concurrency": "1e3"},
        {"ramp": "1s"},
    ],
)
def test_what_excludes_each_other_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(AdvisorError):
        traffic_of(LoadOptions(**changes))


def test_an_unknown_profile_and_a_missing_trace_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="profile"):
        traffic_of(LoadOptions(profile="chta"))
    with pytest.raises(InputFileError, match="no such file"):
        traffic_of(LoadOptions(trace=Path("none.csv")))


def test_own_hardware() -> None:
    assert parse_own("8xh100, 2 x l40s").counts == ((8, "h100-sxm"), (2, "l40s"))


def test_own_hardware_may_be_a_listing_pasted_or_in_a_file(tmp_path: Path) -> None:
    listing = "GPU 0: NVIDIA L40S (UUID: GPU-a)\nGPU 1: NVIDIA L40S (UUID: GPU-b)\n"
    file = tmp_path / "machine.txt"
    file.write_text(listing)
    for typed in (listing, str(file)):
        found = parse_own(typed)
        assert found.counts == ((2, "l40s"),)
        assert "2 x l40s" in found.notes[0]


@pytest.mark.parametrize("text", ["0xh100", "x", "8x", "8xh100,", "-2xh100"])
def test_what_is_no_hardware_is_refused(text: str) -> None:
    with pytest.raises(AdvisorError):
        parse_own(text)


def test_names_are_resolved_and_said() -> None:
    constraints, notes = constraints_of(
        Where(gpu="h100,mi300x", engine="vllm", precision="fp8", term="spot,on-demand")
    )
    assert constraints.accelerators == ("h100-sxm", "mi300x")
    assert constraints.terms == ("spot", "on_demand")
    assert any("h100-sxm" in note for note in notes)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"gpu": "h101"}, "h101"),
        ({"gpu": "h100,,a100"}, "empty name"),
        ({"provider": ""}, "empty name"),
        ({"engine": "vlm"}, "vlm"),
        ({"precision": "fp7"}, "fp7"),
        ({"term": "sometimes"}, "sometimes"),
    ],
)
def test_unknown_and_empty_names_are_refused(changes: dict[str, Any], what: str) -> None:
    with pytest.raises(AdvisorError) as raised:
        constraints_of(Where(**changes))
    assert what in raised.value.what
    assert raised.value.exit_code == 2


def test_the_scenario_holds_everything_resolved() -> None:
    scenario, notes = scenario_of(
        "70b", LoadOptions(rate="10"), ObjectiveOptions("1s", "50ms", budget="20/h"), Where(), 3, SHARED
    )
    assert scenario.model == "llama-3.1-70b"
    assert scenario.objectives.tpot_p99_s == pytest.approx(0.05)
    assert scenario.traffic.rate_per_s == 10.0
    assert (scenario.seed, scenario.top) == (3, 3)
    assert any("llama-3.1-70b" in note for note in notes)


@pytest.mark.parametrize(
    "changes",
    [
        {"ttft_p99": "1"},
        {"tpot_p99": "-5ms"},
        {"ttft_p99": "nans"},
        {"budget": "-1"},
        {"model": "7000b"},
    ],
)
def test_impossible_objectives_are_refused(changes: dict[str, Any]) -> None:
    objectives = {"ttft_p99": "1s", "tpot_p99": "50ms"} | changes
    model = objectives.pop("model", "70b")
    with pytest.raises(AdvisorError):
        scenario_of(model, LoadOptions(), ObjectiveOptions(**objectives), Where(), 5, SHARED)


@pytest.mark.parametrize("code", sorted(known_countries()))
def test_a_country_is_the_same_as_a_region_and_as_a_residency(code: str) -> None:
    """Offers in a country are those whose row or whose region's name states it, whichever option asks."""
    offered = [
        {(price.provider, price.sku, price.region) for found in rows.values() for price in found}
        for rows in (
            offers_by_accelerator(limits, datetime.date(2026, 11, 20), limits.regions)
            for limits in (
                constraints_of(Where(residency=code.lower(), term="on-demand,spot"))[0],
                constraints_of(Where(region=code.lower(), term="on-demand,spot"))[0],
            )
        )
    ]
    assert offered[0] == offered[1]


def test_a_union_or_continent_has_the_offers_of_its_countries() -> None:
    def offered(**where: str) -> set[tuple[str, str, str]]:
        limits, _ = constraints_of(Where(**where))
        rows = offers_by_accelerator(limits, datetime.date(2026, 11, 20), limits.regions).values()
        return {(price.provider, price.sku, price.region) for found in rows for price in found}

    assert offered(region="eu") == offered(residency="eu")
    assert offered(region="europe") == offered(region="eu") | offered(region="united kingdom,norway,ch")
    assert offered(region="asia") >= offered(region="japan") | offered(region="in")
    assert offered(region="eu-") < offered(region="europe")


def test_a_seller_whose_region_is_a_country_is_there() -> None:
    limits, _ = constraints_of(Where(residency="us"))
    regions = {
        price.region
        for found in offers_by_accelerator(limits, datetime.date(2026, 11, 20)).values()
        for price in found
    }
    assert {"us", "eastus"} <= {region.lower() for region in regions}
    assert country_of_region("any") == country_of_region("north-america") == country_of_region("") == ""
    assert country_of_region("Canada-1") == "CA"
    assert country_of_region("us") == country_of_region("US-west_2") == "US"


@pytest.mark.parametrize("name", ["H100", "rtx-3090", "3090 Ti", "RX 7900 XTX", "L40S"])
def test_accelerators_of_ones_own_are_counted_however_they_are_written(name: str) -> None:
    one = parse_own(name)
    ((number, id_),) = one.counts
    assert number == 1
    assert f"1x{id_}" in one.notes[0]
    for text in ("8x{0}", "8 x {0}", "8 {0}", "{0} x8", "{0}:8", "{0} (x8)", "2x4x{0}", "8 {0}s"):
        assert parse_own(text.format(name)).counts == ((8, id_),), text
