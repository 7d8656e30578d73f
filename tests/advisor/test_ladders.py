"""Several loads at once: rates or numbers of clients that each get an answer; clients as they are sized and shown."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from advisor.ask.levers import largest_of
from advisor.ask.measures import parse_clients
from advisor.ask.options import LoadOptions

Cli = Callable[[str], Any]
QUICK = "advisor recommend --model 8b --gpu rtx-4090,l40s --engine vllm --as-of 2026-11-20"


def answer(cli: Cli, options: str) -> dict[str, Any]:
    return cli(f"{QUICK} {options} --json").document()


def what(option: dict[str, Any]) -> tuple[Any, ...]:
    return (
        option["machine"]["accelerator"],
        option["layout"]["num_replicas"],
        option["bill"]["usd_per_hour"],
        option["performance"]["requests_per_s"]["value"],
    )


def test_numbers_of_clients_each_get_the_answer_of_their_own(cli: Cli) -> None:
    found = answer(cli, "--concurrency 200,8")
    alone = answer(cli, "--concurrency 8")
    few, many = found["ladder"]
    assert (few["clients"], many["clients"]) == (8, 200)
    assert what(few["option"]) == what(alone["options"][0])
    assert what(many["option"]) == what(found["options"][0])
    assert few["rate_per_s"] == few["option"]["performance"]["requests_per_s"]["value"]
    assert (
        few["option"]["layout"]["num_replicas"] == 1
    )  # a replica that carries ten clients carries eight with headroom
    shown = cli(f"{QUICK} --concurrency 8,200").out
    assert "clients  take" in shown
    assert "clients as below" in " ".join(shown.split())
    assert max(map(len, shown.splitlines()[:-12])) <= 100


def test_clients_shown_are_clients_simulated(cli: Cli) -> None:
    """`simulate_args` shows the planning point again: what clients wait for, and how fast they are served."""
    option = answer(cli, "--concurrency 60")["options"][0]
    assert "--ramp" in option["launch"]["simulate_args"]
    again = json.loads(
        cli(f"advisor simulate serve {' '.join(option['launch']['simulate_args'])} --seed 77 --json").out
    )
    seen = again["metrics"]
    assert seen["requests_per_s"]["value"] == pytest.approx(
        option["performance"]["requests_per_s"]["value"], rel=0.1
    )
    assert seen["tpot_s"]["p50"]["value"] == pytest.approx(
        option["performance"]["tpot_s"]["p50"]["value"], rel=0.15
    )
    assert seen["ttft_s"]["p50"]["value"] == pytest.approx(
        option["performance"]["ttft_s"]["p50"]["value"], rel=0.25
    )


def test_a_ladder_of_rates_may_be_given(cli: Cli) -> None:
    found = answer(cli, "--rate 600/min,1")
    assert [rung["rate_per_s"] for rung in found["ladder"]] == [1.0, 10.0]
    assert all(rung["clients"] is None for rung in found["ladder"])
    assert found["options"][0]["performance"]["requests_per_s"]["value"] == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ("--concurrency 8,x", "not a number of clients"),
        ("--concurrency 0", "not a number of clients"),
        ("--concurrency 8,,9", "empty name"),
        ("--concurrency 200000", "100,000"),
        ("--concurrency 8,64 --rate 1", "exclude each other"),
        ("--concurrency 8,64 --max-context 32k", "at one load"),
        ("--rate 1,2 --max-context 32k", "at one load"),
        ("--rate 1,2,3,4,5,6,7,8,9", "at most 8"),
        ("--rate 1,-2", "--rate"),
    ],
)
def test_loads_that_are_none_are_refused(cli: Cli, options: str, word: str) -> None:
    run = cli(f"{QUICK} {options}")
    assert run.code == 2, run.out
    assert word in run.err


def test_clients_begin_over_a_time_where_one_is_given(cli: Cli) -> None:
    base = "advisor simulate serve --model 8b --gpu l40s --concurrency 64 --requests 128 --json"
    together = json.loads(cli(base).out)["metrics"]["ttft_s"]["p99"]["value"]
    apart = json.loads(cli(f"{base} --ramp 20s").out)["metrics"]["ttft_s"]["p99"]["value"]
    assert apart < 0.5 * together
    refused = cli("advisor simulate serve --model 8b --gpu l40s --rate 1 --ramp 20s")
    assert refused.code == 2
    assert "--ramp" in refused.err
    assert cli("advisor simulate serve --model 8b --gpu l40s --concurrency 8,64").code == 2


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        *(("1,000/h", "1000/h"), ("2,000,000/day", "2000000/day"), ("1,10", "10"), ("1,200", "200")),
        *(
            ("1 000/h", "1000/h"),
            ("500/h,1,000/h", "1000/h"),
            ("2'000/h, 1'000/h", "2000/h"),
            ("600/min", "600/min"),
        ),
    ],
)
def test_a_comma_between_thousands_parts_no_loads(typed: str, read: str) -> None:
    load, ladder = largest_of(LoadOptions(rate=typed))
    assert load.rate == read
    assert bool(ladder) == (typed in ("1,10", "1,200", "500/h,1,000/h", "2'000/h, 1'000/h"))


@pytest.mark.parametrize(
    ("typed", "read"), [("1,000", "1000"), ("64,128", "128"), ("1,000,2,000", "2000"), ("1 000", "1 000")]
)
def test_signs_between_thousands_part_no_clients(typed: str, read: str) -> None:
    load, ladder = largest_of(LoadOptions(concurrency=typed))
    assert load.concurrency is not None
    assert parse_clients(load.concurrency) == parse_clients(read)
    assert bool(ladder) == (typed in ("64,128", "1,000,2,000"))


def test_a_larger_load_for_less_says_that_it_carries_the_smaller(cli: Cli) -> None:
    """Prices of different age lead at different loads: the headline says why the smaller load costs more."""
    asked = "advisor recommend --model 8b --rate 1,2 --top 1 --json --as-of 2026-11-20"
    headline = cli(asked).document()["headline"]
    small, large = map(float, re.findall(r"\$([\d.]+)/h", headline))
    assert ("also carries the smaller load" in headline) == (large < small)
