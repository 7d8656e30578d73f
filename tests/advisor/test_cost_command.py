"""`advisor cost`: the contract of its report, bills that add up, and what a mistake gets."""

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from advisor.__main__ import main

Cli = Callable[[str], Any]
Golden = Callable[[str, str], None]
QUICK = "advisor cost --model llama-3.1-8b --gpu h100-sxm,l40s --as-of 2026-11-20"
QUICKEST = "advisor cost --model llama-3.1-8b --gpu l40s --precision fp8 --as-of 2026-11-20"
API = "provider,model,usd_per_million_input,usd_per_million_output,observed_on\n"
RENT = "provider,accelerator,num_accelerators,term,usd_per_hour,observed_on\n"
VOLUME = f"{QUICK} --tokens-per-day 2B --shape reasoning"


def answered(command: str) -> dict[str, Any]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        code = main([*command.split()[1:], "--json"])
    assert code == 0
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


@pytest.fixture(scope="module")
def full() -> dict[str, Any]:
    return answered(QUICK)


@pytest.fixture(scope="module")
def volume() -> dict[str, Any]:
    return answered(VOLUME)


def test_the_report_has_the_contracts_fields(full: dict[str, Any]) -> None:
    assert full["kind"] == "report"
    assert full["currency"] == "USD"
    assert set(full) >= {
        "rows",
        "tco",
        "sensitivity",
        "break_even",
        "api",
        "ways",
        "carbon",
        "load",
        "inputs",
    }
    for row in full["rows"]:
        assert set(row) >= {
            "accelerator",
            "provider",
            "weight_dtype",
            "price_observed_on",
            "price_basis",
            "price_url",
        }
        for name in ("tokens", "input_tokens", "cached_tokens", "output_tokens"):
            cost = row[f"usd_per_million_{name}"]
            assert cost["low"] <= cost["value"] <= cost["high"]


@pytest.mark.parametrize("question", ["full", "volume"])
def test_prices_times_tokens_are_the_bill_to_a_cent(question: str, request: pytest.FixtureRequest) -> None:
    """For every row: a month of tokens at its prices is a month of its hourly price."""
    report = request.getfixturevalue(question)
    inputs, outputs = report["volume"]["input_tokens"], report["volume"]["output_tokens"]
    for row in report["rows"]:
        month_usd = 730 * row["usd_per_hour"]
        requests = 730 * 3600 * row["requests_per_s"]
        by_class = (
            requests
            / 1e6
            * (
                inputs * row["usd_per_million_input_tokens"]["value"]
                + outputs * row["usd_per_million_output_tokens"]["value"]
            )
        )
        assert by_class == pytest.approx(month_usd, abs=0.005)
        whole = requests * (inputs + outputs) / 1e6 * row["usd_per_million_tokens"]["value"]
        assert whole == pytest.approx(month_usd, abs=0.005)


def test_parts_of_owning_are_its_total(full: dict[str, Any]) -> None:
    for option in full["owned"]:
        cents = sum(round(100 * line["usd"]) for line in option["tco"]["lines"])
        assert cents == round(100 * option["tco"]["total_usd"])
        assert all(
            line["source"] and line["observed_on"] and line["basis"] for line in option["tco"]["lines"]
        )
    assert full["tco"] == full["owned"][0]["tco"]


def test_rows_are_by_provider_precision_and_cheapest_first(full: dict[str, Any]) -> None:
    costs = [row["usd_per_million_tokens"]["value"] for row in full["rows"]]
    assert costs == sorted(costs)
    best = full["rows"][0]["accelerator"]
    assert len({row["provider"] for row in full["rows"]}) > 2
    assert {row["weight_dtype"] for row in full["rows"] if row["accelerator"] == best} == {"fp8", "bf16"}


def test_more_load_is_never_dearer_a_token(full: dict[str, Any]) -> None:
    costs = [point["usd_per_million_tokens"] for point in full["load"]]
    loads = [point["load_fraction"] for point in full["load"]]
    assert loads == sorted(loads)
    assert costs == sorted(costs, reverse=True)
    assert loads[-1] == 1.0


def test_every_accelerator_that_is_paid_for_counts_as_capacity(volume: dict[str, Any]) -> None:
    rows = [*volume["rows"], *(option["row"] for option in volume["owned"])]
    assert any(row["num_accelerators"] == 8 for row in rows)
    for row in rows:
        size = row["tensor_parallel"] * row["pipeline_parallel"] * row["data_parallel"]
        assert row["num_replicas"] == row["num_accelerators"] // size
    for one in volume["rows"]:
        for other in volume["owned"]:
            bought = other["row"]
            if (one["accelerator"], one["weight_dtype"], one["engine"], one["tensor_parallel"]) == (
                bought["accelerator"], bought["weight_dtype"], bought["engine"], bought["tensor_parallel"]
            ):  # fmt: skip
                paid = one["num_accelerators"] / bought["num_accelerators"]
                assert bought["load_fraction"] == pytest.approx(one["load_fraction"] * paid)


def test_owning_is_weighed_against_renting_what_the_load_needs(volume: dict[str, Any]) -> None:
    option = volume["owned"][0]["row"]
    rows = [row for row in volume["rows"] if row["accelerator"] == option["accelerator"]]
    cheapest = min(rows, key=lambda row: float(row["usd_per_hour"]))
    rented = f"{cheapest['num_accelerators']} x {cheapest['accelerator']} from {cheapest['provider']}"
    against = {crossing["second"] for crossing in volume["break_even"] if crossing["quantity"] == "months"}
    assert against == {f"renting {rented}"}


def test_a_volume_is_carried_at_its_peak_and_every_way_is_for_it(volume: dict[str, Any]) -> None:
    asked = volume["volume"]
    assert asked["tokens_per_day"] == 2e9
    assert asked["peak_requests_per_s"] == pytest.approx(1.4 * asked["mean_requests_per_s"])
    tokens = asked["input_tokens"] + asked["output_tokens"]
    for row in volume["rows"]:
        assert row["requests_per_s"] * tokens * 86400 == pytest.approx(2e9)
        assert row["load_fraction"] <= 1 / 1.4 * 1.0001
    for way in volume["ways"]:
        assert way["usd_per_day"] == pytest.approx(2000 * way["usd_per_million_tokens"])
    assert {"rent", "own", "api"} == {way["way"] for way in volume["ways"]}
    assert volume["fleet"]
    fixed = min(w["usd_per_day"] for w in volume["ways"] if w["way"] == "rent" and w["note"] == "always on")
    for fleet in volume["fleet"]:
        assert fleet["base_units"] <= fleet["peak_units"]
    assert min(fleet["usd_per_day"] for fleet in volume["fleet"]) < fixed


def test_the_cheapest_way_is_the_headline_and_nobodys_price_is_not(volume: dict[str, Any]) -> None:
    offered = [way for way in volume["ways"] if not way["is_assumed"]]
    assert f"{offered[0]['usd_per_month']:,.0f}" in volume["headline"]
    alone = answered(f"{VOLUME} --provider runpod")  # lists no reserved price
    assert any(way["is_assumed"] and "assumed" in way["note"] for way in alone["ways"])


def test_a_rate_is_the_same_question_as_its_tokens(volume: dict[str, Any]) -> None:
    rate = volume["volume"]["mean_requests_per_s"]
    again = answered(f"{QUICK} --rate {rate!r} --shape reasoning")
    assert again["volume"]["tokens_per_day"] == pytest.approx(2e9)
    assert [row["sku"] for row in again["rows"]] == [row["sku"] for row in volume["rows"]]


def test_own_hardware_region_and_assumptions_count(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("interest_per_year = 0\n[purchase]\nl40s = 5000\n", encoding="utf-8")
    report = json.loads(cli(f"{QUICKEST} --own 4xl40s --region us-texas --assumptions {file} --json").out)
    assert report["tco"]["accelerator"] == "l40s"
    assert report["tco"]["num_accelerators"] == 4
    lines = {line["name"]: line for line in report["tco"]["lines"]}
    assert lines["interest"]["usd"] == 0
    assert lines["accelerators"]["usd"] == 20_000
    assert lines["accelerators"]["source"] == "given by the user"
    assert (
        "Texas" in lines["electricity"]["source"] or "themilliondollarway" in lines["electricity"]["source"]
    )
    assert "us-texas" in {place["region"] for place in report["carbon"]}
    assert {row["way"] for row in report["rows"]} == {"rent"}
    assert {row["row"]["way"] for row in report["owned"]} == {"own"}


def test_hardware_of_ones_own_is_never_silently_ignored(cli: Cli) -> None:
    run = cli(f"{QUICKEST} --own 4xl40s")
    assert run.code == 2
    assert "what l40s costs to buy is not known" in run.err
    assert "--purchase-price" in run.err
    assert "--assumptions" in run.err
    report = json.loads(cli(f"{QUICKEST} --own 4xl40s --purchase-price 7500 --json").out)
    lines = {line["name"]: line for line in report["tco"]["lines"]}
    assert (lines["accelerators"]["usd"], lines["accelerators"]["source"]) == (30_000, "given by the user")
    card = json.loads(cli(f"{QUICKEST} --own 2xrtx-a6000 --json").out)
    assert {line["name"]: line["usd"] for line in card["tco"]["lines"]}["accelerators"] == 2 * 4974
    little = cli(f"{QUICKEST} --own 1xrtx-4090 --tokens-per-day 50B")
    assert little.code != 0 or "1 x rtx-4090 of one's own cannot carry this load" in little.err
    assert cli(f"{QUICKEST} --purchase-price 7500").code == 2
    assert cli(f"{QUICKEST} --own 4xl40s --purchase-price -1").code == 2


def test_user_prices_override(cli: Cli, tmp_path: Path) -> None:
    prices, apis = tmp_path / "prices.csv", tmp_path / "apis.csv"
    prices.write_text(
        RENT + "mine,l40s,8,on_demand,0.8,2026-11-19\n",
        encoding="utf-8",
    )
    apis.write_text(
        API + "mine,llama-3.1-8b,0.0001,0.0001,2026-11-19\n",
        encoding="utf-8",
    )
    report = json.loads(cli(f"{QUICKEST} --price-file {prices} --api-price-file {apis} --json").out)
    assert (report["rows"][0]["provider"], report["api"][0]["provider"]) == ("mine", "mine")
    assert report["ways"][0]["way"] == "api"
    assert json.loads(cli(f"{QUICKEST} --api groq --json").out)["api"][0]["provider"] == "groq"
    assert json.loads(cli(f"{QUICKEST} --api none --json").out)["api"] == []


def test_old_prices_are_told(cli: Cli) -> None:
    run = cli(QUICKEST)
    assert run.code == 0
    assert "rental prices are older than 30 days" in run.err
    late = cli(QUICKEST.replace("2026-11-20", "2026-12-24"))
    assert "API prices are older than 30 days" in late.err


def test_the_terminal_fits_and_every_file_holds_the_rows(cli: Cli, tmp_path: Path) -> None:
    run = cli(VOLUME)
    assert max(len(line) for line in run.out.splitlines()) <= 100
    for part in (
        "USD per million tokens",
        "The same tokens by every way",
        "What moves the cost",
        "g CO2e/kWh",
    ):
        assert part in run.out
    for suffix in ("json", "csv", "md", "html"):
        file = tmp_path / f"report.{suffix}"
        assert cli(f"{QUICKEST} -q -o {file}").code == 0
        assert "l40s" in file.read_text(encoding="utf-8")


def test_the_same_question_has_the_same_answer(full: dict[str, Any]) -> None:
    again = answered(QUICK)
    for report in (full, again):
        report["counts"].pop("wall_s", None)
    assert again == full


@pytest.mark.parametrize(
    "options",
    [
        "--region atlantis",
        "--region swedn",
        "--api grok",
        "--shape weekly --rate 3",
        "--shape chat",
        "--tokens-per-day -5M",
        "--tokens-per-day 5M --rate 3",
        "--own 8xh101",
        "--own 8xh100,4xl40s",
        "--own h100",
        "--assumptions missing.toml",
        "--api-price-file missing.csv",
    ],
)
def test_a_mistake_is_told(cli: Cli, golden: Golden, options: str) -> None:
    run = cli(f"{QUICKEST} {options}")
    assert run.code == 2
    assert run.out == ""
    assert "Traceback" not in run.err
    golden(f"cost-{options.strip('-').replace(' ', '-').replace(',', '_')}", run.transcript())


@pytest.mark.parametrize(
    ("option", "name", "text"),
    [
        ("--api-price-file", "negative", API + "groq,llama-3.1-8b,-1,1,2026-11-01\n"),
        ("--api-price-file", "missing-price", API + "groq,llama-3.1-8b,1,,2026-11-01\n"),
        ("--api-price-file", "misspelt-column", API.replace("million", "milion")),
        ("--price-file", "typo-in-row", RENT + "mine,h100,8,on_demand,1O.5,2026-11-01\n"),
        ("--price-file", "negative", RENT + "mine,h100,8,on_demand,-2,2026-11-01\n"),
        ("--assumptions", "misspelt-name", "electricty_usd_per_kwh = 0.1\n"),
        ("--assumptions", "negative", "electricity_usd_per_kwh = -0.1\n"),
        ("--assumptions", "pue-below-one", "pue = 0.5\n"),
        ("--shape", "negative-levels", "levels = [1, -1]\n"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_told_by_its_row_and_field(
    cli: Cli,
    golden: Golden,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    option: str,
    name: str,
    text: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    file = Path(f"{name}{'.csv' if 'price' in option else '.toml'}")
    file.write_text(text, encoding="utf-8")
    rate = " --rate 3" if option == "--shape" else ""
    run = cli(f"{QUICKEST}{rate} {option} {file}")
    assert run.code == 2
    assert run.out == ""
    golden(f"cost-file{option.replace('-', '_')}-{name}", run.transcript())


def test_nothing_within_the_objectives_is_exit_3(cli: Cli) -> None:
    assert cli(f"{QUICKEST} --tpot-p99 1us").code == 3
