"""A simulated load beyond capacity is a verdict, not a latency that is the length of the run."""

import json
import re
from collections.abc import Callable
from typing import Any, Final

import pytest

Cli = Callable[[str], Any]
SERVE: Final = (
    "advisor simulate serve --model llama-3.1-8b --gpu rtx-4090 --input-tokens 1000 --output-tokens 200"
)


def simulate(cli: Cli, options: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cli(f"{SERVE} {options} --json").out)
    return found


@pytest.mark.parametrize("rate", [6, 12, 100])
@pytest.mark.parametrize("requests", [300, 2000])
def test_a_load_beyond_capacity_is_said_first_and_has_no_percentiles_of_the_queue(
    cli: Cli, rate: int, requests: int
) -> None:
    found = simulate(cli, f"--rate {rate} --requests {requests}")
    overload = found["overload"]
    assert overload["sent_per_s"] == rate
    assert overload["queue_growth_per_s"] == pytest.approx(rate - overload["served_per_s"])
    assert found["metrics"]["ttft_s"] == {}
    assert found["metrics"]["e2e_s"] == {}
    assert found["metrics"]["tpot_s"]["p99"]["value"] > 0
    run = cli(f"{SERVE} --rate {rate} --requests {requests}")
    assert run.out.startswith("Overloaded:")


@pytest.mark.parametrize(
    "options", ["--rate 1", "--rate 2 --requests 100", "--rate 2.5", "--rate 0.01 --requests 20"]
)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_load_that_is_carried_is_no_overload(cli: Cli, options: str, seed: int) -> None:
    found = simulate(cli, f"{options} --seed {seed}")
    assert found["overload"] is None
    assert found["metrics"]["ttft_s"]["p99"]["value"] > 0


def test_clients_that_wait_for_outputs_overload_nothing(cli: Cli) -> None:
    assert simulate(cli, "--concurrency 500 --requests 1000")["overload"] is None


def test_more_replicas_end_an_overload(cli: Cli) -> None:
    assert simulate(cli, "--rate 6")["overload"] is not None
    assert simulate(cli, "--rate 6 --replicas 4")["overload"] is None


def test_the_served_rate_is_the_capacity_whatever_is_sent(cli: Cli) -> None:
    rates = [simulate(cli, f"--rate {rate}")["overload"]["served_per_s"] for rate in (6, 12, 50)]
    assert max(rates) < 1.1 * min(rates)


@pytest.mark.parametrize(
    "group", ["--router share", "--sessions 4 --turn-gap 10s", "--long-prompts from=2000:replicas=1"]
)
def test_the_verdict_holds_for_every_kind_of_traffic(cli: Cli, group: str) -> None:
    assert simulate(cli, f"{group} --rate 0.5 --requests 200")["overload"] is None
    assert simulate(cli, f"{group} --rate 40 --requests 600")["overload"]["sent_per_s"] > 0


@pytest.mark.parametrize("over", [0.6, 1.15, 1.3])
def test_an_overload_is_seen_however_long_requests_stay(cli: Cli, over: float) -> None:
    """A run of the usual length must not end while its queue fills: long outputs stay for minutes."""
    asked = "advisor simulate serve --model 70b --gpu h100-sxm --tp 4 --input-tokens 6000 --output-tokens 900 --json"
    most = json.loads(cli(f"{asked} --rate 50 --requests 6000").out)["metrics"]["requests_per_s"]["value"]
    found = json.loads(cli(f"{asked} --rate {over * most:.4g}").out)
    longer = json.loads(cli(f"{asked} --rate {over * most:.4g} --requests 16000").out)
    assert (found["overload"] is None) is (longer["overload"] is None)


LONG_ANSWERS: Final = (
    "advisor simulate serve --model llama-3.1-70b --gpu h100-sxm --tp 2 --precision fp8 --profile reasoning"
)


@pytest.mark.parametrize("rate", ["0.2", "1.2", "20"])
def test_the_verdict_does_not_depend_on_the_length_of_the_run(cli: Cli, rate: str) -> None:
    found = json.loads(cli(f"{LONG_ANSWERS} --rate {rate} --json").out)
    longer = json.loads(cli(f"{LONG_ANSWERS} --rate {rate} --requests 32000 --json").out)
    assert bool(found["overload"]) == bool(longer["overload"])
    assert not any("--requests" in each for each in found["warnings"])


def test_a_run_whose_typed_length_is_too_short_to_tell_says_so(cli: Cli) -> None:
    found = json.loads(cli(f"{LONG_ANSWERS} --rate 1 --requests 100 --json").out)
    (said,) = (each for each in found["warnings"] if "--requests" in each)
    (longer,) = re.findall(r"--requests \d+", said)
    enough = json.loads(cli(f"{LONG_ANSWERS} --rate 1 {longer} --json").out)
    assert not any("--requests" in each for each in enough["warnings"])
