"""`advisor cost`: the contract of its report, bills that add up, and what a mistake gets."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from advisor.decide.option import with_terms

Cli = Callable[[str], Any]
Golden = Callable[[str, str], None]
QUICK = "advisor cost --model llama-3.1-8b --gpu h100-sxm,l40s --as-of 2026-11-20"
QUICKEST = "advisor cost --model llama-3.1-8b --gpu l40s --precision fp8 --as-of 2026-11-20"
API = "provider,model,usd_per_million_input,usd_per_million_output,observed_on\n"
RENT = "provider,accelerator,num_accelerators,term,usd_per_hour,observed_on\n"
VOLUME = f"{QUICK} --tokens-per-day 2B --shape reasoning"


@pytest.fixture(scope="module")
def full(ask_once: Cli) -> dict[str, Any]:
    return dict(ask_once(f"{QUICK} --json").document())


@pytest.fixture(scope="module")
def volume(ask_once: Cli) -> dict[str, Any]:
    return dict(ask_once(f"{VOLUME} --json").document())


@pytest.fixture(scope="module")
def kept(ask_once: Cli) -> dict[str, Any]:
    return dict(ask_once(f"{QUICK} --rate 20 --storage-tb 3 --egress-tb 2 --json").document())


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
        assert set(row) >= {"rank", "role", "machine", "layout", "offer", "bill", "performance", "launch"}
        assert row["way"] == "rent"
        for name in ("tokens", "input_tokens", "cached_tokens", "output_tokens"):
            cost = row[f"usd_per_million_{name}"]
            assert cost["low"] <= cost["value"] <= cost["high"]


@pytest.mark.parametrize("question", ["full", "volume", "kept"])
def test_prices_times_tokens_are_the_bill_to_a_cent(question: str, request: pytest.FixtureRequest) -> None:
    """For every row: a month of tokens at its prices is a month of its bill, or of what owning costs."""
    report = request.getfixturevalue(question)
    inputs = report["volume"]["input_tokens"]
    outputs = report["volume"]["output_tokens"]
    rows = [*report["rows"], *report["owned"]]
    assert rows
    for row in rows:
        beside = sum(
            line["usd_per_month"] for line in row["bill"]["lines"] if line["what"] in ("storage", "egress")
        )
        month_usd = (
            row["bill"]["usd_per_month"] if row["tco"] is None else row["tco"]["usd_per_month"] + beside
        )
        assert 730.5 * row["usd_per_hour"] == pytest.approx(month_usd, abs=0.005)
        requests = 730.5 * 3600 * row["mean_requests_per_s"]
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
        assert sum(row["share"].values()) == pytest.approx(1.0)


def test_parts_of_owning_are_its_total(full: dict[str, Any]) -> None:
    for row in full["owned"]:
        cents = sum(round(100 * line["usd"]) for line in row["tco"]["lines"])
        assert cents == round(100 * row["tco"]["total_usd"])
        assert all(line["source"] and line["observed_on"] and line["basis"] for line in row["tco"]["lines"])
        assert (row["way"], row["offer"]) == ("own", None)
    assert full["tco"] == full["owned"][0]["tco"]


def test_other_providers_ask_more_for_the_first_option_or_are_less_sure(full: dict[str, Any]) -> None:
    for row in full["rows"]:
        costs = [each["usd_per_million_tokens"] for each in row["providers"]]
        assert costs == sorted(costs)
        names = [(each["provider"], each["term"]) for each in row["providers"]]
        assert len(names) == len(set(names))
        assert (row["offer"]["provider"], row["offer"]["term"]) not in names
    assert len(full["rows"][0]["providers"]) > 2


def test_more_load_is_never_dearer_a_token(full: dict[str, Any]) -> None:
    costs = [point["usd_per_million_tokens"] for point in full["load"]]
    loads = [point["load_fraction"] for point in full["load"]]
    assert loads == sorted(loads)
    assert costs == sorted(costs, reverse=True)
    assert loads[-1] == 1.0


def test_owning_is_weighed_against_renting_what_the_load_needs(volume: dict[str, Any]) -> None:
    name = volume["owned"][0]["machine"]["accelerator"]
    row = next(row for row in volume["rows"] if row["machine"]["accelerator"] == name)
    offer = row["offer"]
    source = with_terms(offer["provider"], offer["region"], offer["term"])
    rented = f"{row['machine']['num_accelerators']} x {name} from {source}"
    against = {crossing["second"] for crossing in volume["break_even"] if crossing["quantity"] == "months"}
    assert against == {f"renting {rented}"}


def test_a_volume_is_carried_at_its_peak_and_every_way_is_for_it(volume: dict[str, Any]) -> None:
    asked = volume["volume"]
    assert asked["tokens_per_day"] == 2e9
    assert asked["peak_requests_per_s"] == pytest.approx(1.4 * asked["mean_requests_per_s"])
    tokens = asked["input_tokens"] + asked["output_tokens"]
    for row in volume["rows"]:
        assert row["mean_requests_per_s"] * tokens * 86400 == pytest.approx(2e9)
        assert row["performance"]["requests_per_s"]["value"] == pytest.approx(asked["peak_requests_per_s"])
        assert row["load_fraction"] <= 1 / 1.4 * 1.0001
    for way in volume["ways"]:
        assert way["usd_per_day"] == pytest.approx(2000 * way["usd_per_million_tokens"])
    assert {"rent", "own", "api"} == {way["way"] for way in volume["ways"]}
    assert volume["fleet"]
    fixed = min(w["usd_per_day"] for w in volume["ways"] if w["way"] == "rent" and w["note"] == "always on")
    for fleet in volume["fleet"]:
        assert fleet["base_units"] <= fleet["peak_units"]
    assert min(fleet["usd_per_day"] for fleet in volume["fleet"]) < fixed


def test_the_cheapest_way_that_may_lead_is_the_headline(cli: Cli, volume: dict[str, Any]) -> None:
    leading = [way for way in volume["ways"] if way["may_lead"]]
    assert f"{leading[0]['usd_per_month']:,.0f}" in volume["headline"]
    alone = cli(f"{VOLUME} --provider runpod --json").document()  # lists no reserved price
    assumed = [way for way in alone["ways"] if "assumed" in way["note"]]
    assert assumed
    assert not any(way["may_lead"] for way in assumed)


def test_a_rate_is_the_same_question_as_its_tokens(cli: Cli, volume: dict[str, Any]) -> None:
    rate = volume["volume"]["mean_requests_per_s"]
    again = cli(f"{QUICK} --rate {rate!r} --shape reasoning --json").document()
    assert again["volume"]["tokens_per_day"] == pytest.approx(2e9)
    assert [row["offer"] for row in again["rows"]] == [row["offer"] for row in volume["rows"]]


def test_own_hardware_region_and_assumptions_count(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("interest_per_year = 0\n[purchase]\nl40s = 5000\n", encoding="utf-8")
    asked = "advisor cost --model llama-3.1-8b --gpu a100-pcie-80gb,l40s --as-of 2026-11-20"
    report = json.loads(cli(f"{asked} --own 4xl40s --region us-texas --assumptions {file} --json").out)
    assert report["tco"]["accelerator"] == "l40s"
    assert report["tco"]["num_accelerators"] == 4
    lines = {line["name"]: line for line in report["tco"]["lines"]}
    assert lines["interest"]["usd"] == 0
    assert lines["accelerators"]["usd"] == 20_000
    assert lines["accelerators"]["source"] == "given by the user"
    assert "table 5.6.A" in lines["electricity"]["source"]
    assert "us-texas" in {place["region"] for place in report["carbon"]}
    assert {row["offer"]["region"] for row in report["rows"]} <= {"us-south1", "southcentralus"}


def test_a_region_sets_tariff_and_grid_or_says_that_it_does_not(cli: Cli) -> None:
    asked = (
        "advisor cost --model 8b --engine vllm --levers none --rate 3 --api none --own 8xh100-sxm --region"
    )
    spent = {}
    for name in ("sweden", "germany", "norway"):
        run = cli(f"{asked} {name} --json")
        report = json.loads(run.out)
        lines = {line["name"]: line for line in report["tco"]["lines"]}
        spent[name] = lines["electricity"]["usd"]
        assert name in {place["region"] for place in report["carbon"]}
        assert ("no source states what electricity costs" in run.err) == (name == "norway")
        owned = report["owned"][0]["bill"]["lines"][0]["usd_per_month"]
        spent[f"{name} bill"] = owned
    assert spent["sweden"] < spent["norway"] < spent["germany"]
    assert spent["sweden bill"] < spent["norway bill"] < spent["germany bill"]


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
    prices = tmp_path / "prices.csv"
    apis = tmp_path / "apis.csv"
    prices.write_text(
        RENT + "mine,l40s,8,on_demand,2.4,2026-11-19\n",
        encoding="utf-8",
    )
    apis.write_text(
        API + "mine,llama-3.1-8b,0.0001,0.0001,2026-11-19\n",
        encoding="utf-8",
    )
    report = json.loads(cli(f"{QUICKEST} --price-file {prices} --api-price-file {apis} --json").out)
    assert (report["rows"][0]["offer"]["provider"], report["api"][0]["provider"]) == ("mine", "mine")
    assert report["ways"][0]["way"] == "api"
    assert json.loads(cli(f"{QUICKEST} --api deepinfra --json").out)["api"][0]["provider"] == "deepinfra"
    assert json.loads(cli(f"{QUICKEST} --api none --json").out)["api"] == []


def test_old_prices_are_told(cli: Cli) -> None:
    run = cli(QUICKEST)
    assert run.code == 0
    assert "prices are older than 30 days" in run.err
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


def test_the_same_question_has_the_same_answer(cli: Cli, full: dict[str, Any]) -> None:
    again = cli(f"{QUICK} --json").document()
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
        "--own 0xh100",
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
)
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


@pytest.mark.parametrize("limit", ["--residency eu", "--region us-east", "--term spot", "--provider gcp"])
def test_limits_on_rent_leave_what_can_be_owned(limit: str, ask_once: Cli) -> None:
    """The place and the provider of rented machines say nothing of those that are bought."""
    asked = f"{QUICK} --rate 2 --json"
    free = ask_once(asked).document()["owned"]
    bound = ask_once(f"{asked} {limit}").document()["owned"]
    told = [
        [(row["machine"]["accelerator"], row["machine"]["num_accelerators"]) for row in rows]
        for rows in (free, bound)
    ]
    assert told[0] == told[1]


@pytest.mark.parametrize("limit", ["--residency eu", "--region eu-north1"])
def test_an_api_of_an_unknown_place_is_no_answer_to_a_limit_on_places(limit: str, ask_once: Cli) -> None:
    asked = f"{QUICK} --tokens-per-day 50M {limit} --json"
    report = ask_once(asked).document()
    assert not report["api"]
    assert "APIs are left out" in ask_once(asked).err or any(
        "APIs are left out" in note for note in report.get("notes", ())
    )
    assert ask_once(f"{asked} --api deepinfra").document()["api"]


@pytest.mark.parametrize("typed", ["--gpu h100-sxm --residency eu", "--gpu a100-sxm-80gb --term spot"])
def test_no_way_is_priced_on_a_placeholder_nor_discounted_twice(typed: str, ask_once: Cli) -> None:
    asked = f"advisor cost --model llama-3.1-8b --tokens-per-day 200M --shape chat --as-of 2026-12-01 {typed} --json"
    report = ask_once(asked).document()
    undated = {
        row["offer"]["provider"]
        for row in report["rows"]
        if row["offer"] and row["offer"]["age_days"] is None
    }
    for way in report["ways"]:
        assert way["price_observed_on"] != "2025-01-01"
        is_spot = "spot" in way["what"]
        assert not (is_spot and "reserved" in way["note"]), way
    for row in report["rows"]:
        assert row["offer"] is None or bool(row["offer"]["observed_on"]) is (
            row["offer"]["age_days"] is not None
        )
    assert undated or "spot" in typed


def test_more_load_uses_more_of_the_boards_that_are_paid_for(ask_once: Cli) -> None:
    """Boards that stay idle are not used, though eight are bought."""
    asked = "advisor cost --model llama-3.1-8b --own 8xh100-sxm --as-of 2026-11-20 --json --rate"
    used = [ask_once(f"{asked} {rate}").document()["owned"][0]["load_fraction"] for rate in (4, 40, 100)]
    assert used == sorted(used)
    assert used[0] < 0.1
