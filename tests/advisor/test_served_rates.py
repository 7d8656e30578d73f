"""Rates of servers at a stated load: a server that keeps up serves what it is sent, however fast it is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[[str], Any]

SMALL = "--model llama-3.1-8b --gpu h100-sxm"
LOADS = {
    "one pool": f"serve {SMALL} --rate 5 --requests 600",
    "speculation": f"serve {SMALL} --rate 5 --requests 600 --speculative ngram --acceptance 0.4",
    "replicas": f"serve {SMALL} --rate 9 --requests 600 --replicas 2",
    "two pools": f"serve {SMALL} --rate 6 --requests 600 --prefill-workers 1 --decode-workers 1",
    "shares": f"serve {SMALL} --rate 9 --requests 600 --replicas 2 --long-prompts from=4000:replicas=1",
    "adapters": f"adapters {SMALL} --adapters 20 --rank 16 --rate 4 --requests 600",
    "images": "vision --model qwen2.5-vl-7b --gpu h100-sxm --rate 2 --requests 300",
}


def metrics_of(cli: Cli, command: str) -> dict[str, Any]:
    return dict(cli(f"advisor simulate {command} --json").document()["metrics"])


@pytest.mark.parametrize("command", LOADS.values(), ids=LOADS)
def test_a_server_that_keeps_up_serves_what_it_is_sent(cli: Cli, command: str) -> None:
    """The error of a server moves only the end of its run, in which no request comes."""
    metrics = metrics_of(cli, command)
    sent = float(command.split("--rate ")[1].split()[0])
    rate = metrics["requests_per_s"]
    assert rate["high"] <= max(sent, rate["value"])
    assert rate["low"] > 0.97 * rate["value"] - 0.5 * max(0.0, sent - rate["value"])
    for name in ("output_tokens_per_s", "total_tokens_per_s"):
        for end in ("low", "high"):
            ratio = metrics[name][end] / metrics[name]["value"]
            assert ratio == pytest.approx(rate[end] / rate["value"])


def test_an_overloaded_server_serves_a_capacity_that_errs(cli: Cli) -> None:
    rate = metrics_of(cli, f"serve {SMALL} --rate 60 --requests 1500")["requests_per_s"]
    assert rate["low"] < 0.9 * rate["value"]
    assert rate["value"] < rate["high"] <= 60.0


def test_a_server_that_may_fall_short_says_so(cli: Cli) -> None:
    """A load just below the capacity is above the low end of what the server may carry."""
    busy, idle = (
        metrics_of(cli, f"serve {SMALL} --rate {rate} --requests 4000")["requests_per_s"] for rate in (21, 3)
    )
    assert busy["low"] / busy["value"] < idle["low"] / idle["value"] < 1.0


def test_a_fleet_that_keeps_up_serves_what_it_is_sent(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(
        'model = "llama-3.1-8b"\ninterval = "10s"\n'
        '[[pools]]\nname = "base"\ngpu = "h100-sxm"\nprecision = "fp8"\nreplicas = 2\nusd_per_hour = 2.0\n'
        "[[load]]\nrate = 20\nrequests = 1200\ninput_tokens = 300\noutput_tokens = 60\n"
    )
    rate = metrics_of(cli, f"fleet {path}")["requests_per_s"]
    assert 0.97 * rate["value"] < rate["low"] <= rate["value"] <= rate["high"] < 1.2 * rate["value"]
