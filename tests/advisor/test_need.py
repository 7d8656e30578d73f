"""Questions that start from people and from what they build."""

import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from advisor.ask.need import stated_need
from advisor.ask.options import Audience, LoadOptions, ObjectiveOptions
from advisor.catalog.errors import AdvisorError
from advisor.catalog.profiles import get
from advisor.catalog.use_cases import all_use_cases

Cli = Callable[[str], Any]
NONE: Final = (LoadOptions(), ObjectiveOptions())


@pytest.mark.parametrize("name", all_use_cases())
def test_every_use_case_has_lengths_and_objectives_with_sources(name: str) -> None:
    case = all_use_cases()[name]
    load, objectives, notes = stated_need(Audience(use_case=name), *NONE)
    assert load.profile == case.profile
    assert objectives.ttft_p99
    assert objectives.tpot_p99
    assert case.objectives_source in notes[0]
    assert get(case.profile).source


def test_what_is_typed_counts_before_the_use_case() -> None:
    typed = (LoadOptions(input_tokens=500, profile="rag"), ObjectiveOptions(ttft_p50="1s"))
    load, objectives, _ = stated_need(Audience(use_case="code"), *typed)
    assert (load.input_tokens, load.profile) == (500, "rag")
    assert (objectives.ttft_p99, objectives.ttft_p50, objectives.tpot_p99) == (None, "1s", "40ms")


def test_users_become_the_rate_of_the_busiest_minute() -> None:
    load, _, notes = stated_need(Audience(users="10k", requests_per_user="36/h"), *NONE)
    assert load.rate == "152/s"  # 100/s in the mean, 1.52 times that at the peak of the chat trace
    assert "1.52 times the mean" in notes[-1]
    half, _, _ = stated_need(Audience(users="5k", requests_per_user="36/h"), *NONE)
    assert half.rate == "76/s"


@pytest.mark.parametrize(
    ("text", "per_day"), [("24/day", 24), ("1/h", 24), ("168/week", 24), ("1/min", 1440)]
)
def test_a_period_may_be_any(text: str, per_day: float) -> None:
    load, _, _ = stated_need(Audience(users="86400", requests_per_user=text, use_case="rag"), *NONE)
    assert load.rate == f"{per_day:.3g}/s"  # no peak is known of that profile


@pytest.mark.parametrize(
    ("need", "load", "what"),
    [
        (Audience(users="1000"), LoadOptions(rate="3"), "exclude each other"),
        (Audience(users="1000"), LoadOptions(concurrency="3"), "exclude each other"),
        (Audience(users="1000", use_case="code"), LoadOptions(), "nothing published"),
        (Audience(users="1000", requests_per_user="20"), LoadOptions(), "no period"),
        (Audience(users="1000", requests_per_user="x/h"), LoadOptions(), "--requests-per-user"),
        (Audience(users="0"), LoadOptions(), "--users"),
        (Audience(users="many"), LoadOptions(), "--users"),
        (Audience(requests_per_user="20/h"), LoadOptions(), "needs users"),
        (Audience(use_case="poetry"), LoadOptions(), "unknown use case"),
    ],
)
def test_a_need_that_says_no_load_is_refused(need: Audience, load: LoadOptions, what: str) -> None:
    with pytest.raises(AdvisorError) as raised:
        stated_need(need, load, ObjectiveOptions())
    assert what in raised.value.what


def test_a_recommendation_starts_from_users(cli: Cli) -> None:
    asked = cli(
        "advisor recommend --model 8b --use-case chatbot --users 1M --gpu h100-sxm --fast --json"
    ).document()["inputs"]
    assert asked["traffic"]["rate_per_s"] == pytest.approx(65.1)


def test_lengths_that_do_not_spread_need_less_than_spread_ones(cli: Cli) -> None:
    usd = {}
    for kind in ("fixed", "lognormal:1.2"):
        run = cli(
            "advisor recommend --model 8b --rate 20 --input-tokens 3000 --output-tokens 300 --gpu l40s --fast --json "
            f"--length-dist {kind}"
        )
        usd[kind] = json.loads(run.out)["options"][0]["bill"]["usd_per_hour"]
    assert usd["fixed"] < usd["lognormal:1.2"]
    assert cli("advisor recommend --model 8b --rate 20 --length-dist uniform:0.8 --fast").code == 2
