"""Answers about money say which prices they rest on, which limit a fix gives up, and why a cheaper row stands lower."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from advisor.catalog.closed_models import closed_families, closed_model_error
from advisor.catalog.models import all_ids
from advisor.catalog.regions import home_region, region_of_offer
from advisor.decide import nearest
from advisor.decide.ranking import CHEAPER_IF_BELOW

Cli = Callable[[str], Any]
DAY = "--as-of 2026-11-20"
EU = ("de", "fr", "se")


def report_of(cli: Cli, words: str) -> dict[str, Any]:
    run = cli(f"advisor cost {words} {DAY} --json")
    assert run.code == 0, run.err
    found: dict[str, Any] = json.loads(run.out)
    return found


def test_limits_that_may_be_law_are_given_up_last() -> None:
    options = list(nearest.LIMITS)
    assert options[-1] == "--residency"
    laws = [option in ("--region", "--residency") for option in options]
    assert laws == sorted(laws)


def test_a_term_is_loosened_before_the_residency(cli: Cli) -> None:
    run = cli(f"advisor recommend --model 8b --rate 1 --gpu h100-nvl --residency eu --term reserved-3y {DAY}")
    assert "To fix: --term on-demand" in run.err
    assert "drop --residency" not in run.err


def test_own_machines_stand_where_data_must_stay() -> None:
    places = [region_of_offer("", code) for code in EU]
    tariffs = [place.electricity_usd_per_kwh for place in places if place and place.electricity_usd_per_kwh]
    mean = home_region(EU)
    assert mean is not None
    assert mean.electricity_usd_per_kwh == pytest.approx(sum(tariffs) / len(tariffs))
    assert home_region(("de", "europe-west3")) == region_of_offer("", "de")


def test_electricity_and_years_of_owning_are_options(cli: Cli) -> None:
    words = (
        "--model 8b --engine vllm --precision fp8 --gpu h100-sxm --own 1xh100-sxm --rate 2 --api none --top 1"
    )
    usual = report_of(cli, words)["tco"]
    local = report_of(cli, f"{words} --residency de")["tco"]
    dear = report_of(cli, f"{words} --residency de --electricity 0.5 --years 3")["tco"]
    germany = region_of_offer("", "de")
    assert germany is not None
    assert germany.electricity_usd_per_kwh is not None
    assert local["energy_usd_per_month"] / usual["energy_usd_per_month"] == pytest.approx(
        germany.electricity_usd_per_kwh / 0.1437, rel=1e-3
    )
    assert dear["energy_usd_per_month"] / usual["energy_usd_per_month"] == pytest.approx(
        0.5 / 0.1437, rel=1e-3
    )
    assert (usual["life_years"], dear["life_years"]) == (5, 3)


def test_carbon_is_compared_within_the_residency(cli: Cli) -> None:
    words = "--model 8b --engine vllm --gpu h100-nvl --rate 1 --residency eu --api none --top 1"
    assert {place["region"] for place in report_of(cli, words)["carbon"]}.isdisjoint({"india", "us-virginia"})


def test_users_mean_the_same_load_to_cost_and_to_recommend(cli: Cli) -> None:
    words = "--model 8b --engine vllm --gpu l4 --users 2000 --requests-per-user 10/day --top 1"
    asked = report_of(cli, f"{words} --api none")
    run = cli(f"advisor recommend {words} {DAY} --json")
    option = json.loads(run.out)["options"][0]
    assert asked["volume"]["peak_requests_per_s"] == pytest.approx(
        option["performance"]["requests_per_s"]["value"], rel=0.01
    )
    assert asked["volume"]["mean_requests_per_s"] == pytest.approx(2000 * 10 / 86400, rel=0.01)
    assert asked["rows"][0]["bill"]["usd_per_hour"] == option["bill"]["usd_per_hour"]


@pytest.mark.parametrize("words", ["--users 100 --rate 1", "--users 100 --tokens-per-day 1M"])
def test_users_and_another_load_exclude_each_other(cli: Cli, words: str) -> None:
    run = cli(f"advisor cost --model 8b {words}")
    assert run.code == 2
    assert "exclude each other" in run.err


def test_a_row_that_costs_less_and_stands_lower_is_explained(cli: Cli) -> None:
    words = "recommend --model 32b --budget 5000/month --top 3 --as-of 2026-12-01"
    options = json.loads(cli(f"advisor {words} --json").out)["options"]
    text = " ".join(cli(f"advisor {words}").out.split())
    first = options[0]["performance"]["usd_per_million_tokens"]["value"]
    lower = [
        each["rank"]
        for each in options[1:]
        if each["performance"]["usd_per_million_tokens"]["value"] < CHEAPER_IF_BELOW * first
    ]
    assert lower
    for rank in lower:
        assert f"{rank} saves " in text


def test_the_provider_of_the_safe_pick_is_no_provider_that_is_left_out(cli: Cli) -> None:
    words = "--model 8b --rate 3 --provider aws,gcp,azure --top 3 --as-of 2026-12-01 --json"
    decision = json.loads(cli(f"advisor recommend {words}").out)
    assert decision["safe_pick"]["offer"]["provider"] not in {each["name"] for each in decision["not_taken"]}


def test_a_term_of_several_is_named_with_what_it_commits_to(cli: Cli) -> None:
    words = "--model llama-3.3-70b --tokens-per-day 200M --term on-demand,reserved-3y --api none --top 3"
    text = " ".join(cli(f"advisor cost {words} --as-of 2026-12-01").out.split())
    assert "Terms of the options: on-demand: " in text
    assert "owed, used or not" in text or "no option is reserved-3y" in text


def test_an_undated_price_is_undated_everywhere_and_in_no_headline(cli: Cli) -> None:
    listed = cli("advisor catalog prices --provider spheron --gpu h100-sxm --as-of 2026-12-01")
    assert "undated" in listed.out
    assert "bear no date" in listed.err
    rows = json.loads(
        cli("advisor catalog prices --provider spheron --gpu h100-sxm --as-of 2026-12-01 --json").out
    )["prices"]
    assert {row["age_days"] for row in rows if not row["is_dated"]} == {None}
    report = report_of(
        cli, "--model llama-3.3-70b --tokens-per-day 200M --residency eu --gpu h100-sxm,h100-nvl --top 2"
    )
    undated = [way["usd_per_month"] for way in report["ways"] if way["price_observed_on"] == "undated"]
    assert all(f"${usd:,.0f}" not in report["headline"] for usd in undated[1:])


@pytest.mark.parametrize(
    "name", ["gpt-4o", "claude-sonnet-4-5", "gemini 2.5 pro", "openai/gpt-4o", "o3-mini"]
)
def test_a_model_without_weights_is_said_to_have_none(name: str) -> None:
    error = closed_model_error(name)
    assert error is not None
    assert "not published" in error.what


def test_no_open_model_counts_as_closed() -> None:
    assert not [name for name in all_ids() if closed_model_error(name)]
    assert {family.open for family in closed_families()} <= set(all_ids())


def test_options_without_likeness_are_not_suggested(cli: Cli) -> None:
    assert "did you mean" not in cli("advisor cost --model 8b --fist 3").err
    assert "--tokens-per-day" in cli("advisor cost --model 8b --tokens-per-dya 3M").err
