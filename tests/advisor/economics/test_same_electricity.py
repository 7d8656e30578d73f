"""One price of electricity: recommend, cost and simulate state the same dollars an hour of the same own machine."""

import datetime
import json
import shlex
from collections.abc import Callable
from typing import Any

import pytest

from advisor.catalog.ownership import ownership
from advisor.catalog.units import HOURS_PER_MONTH

Cli = Callable[[str], Any]
DAY = "2026-11-20"
MACHINES = (
    "--model 70b --engine vllm --precision fp8 --own 4xh100-sxm --rate 2",
    "--model 8b --engine vllm --own 2xrtx-4090 --concurrency 8",
    "--model 8b --engine vllm --precision fp8 --own 1xh100-sxm",
)


@pytest.mark.parametrize("words", MACHINES)
def test_recommend_cost_and_simulate_state_one_price_of_electricity(cli: Cli, words: str) -> None:
    known = ownership(datetime.date.fromisoformat(DAY))
    option = json.loads(cli(f"advisor recommend {words} --as-of {DAY} --json").out)["options"][0]
    drawn_w = option["performance"]["power_w"]["value"]
    usd_per_hour = option["bill"]["usd_per_hour"]
    assert usd_per_hour == pytest.approx(known.energy_usd_per_hour(drawn_w))
    assert usd_per_hour / known.energy_usd_per_hour(1.0) < rated_w(option)

    run = json.loads(
        cli(f"advisor simulate serve {shlex.join(option['launch']['simulate_args'])} --json").out
    )
    boards = option["machine"]["num_accelerators"]
    assert boards * run["metrics"]["board_power_w"]["value"] == pytest.approx(drawn_w, rel=0.03)

    report = json.loads(cli(f"advisor cost {words} --as-of {DAY} --api none --json").out)
    (owned,) = report["owned"]
    assert owned["tco"]["energy_usd_per_month"] / HOURS_PER_MONTH == pytest.approx(usd_per_hour, rel=1e-3)


def rated_w(option: dict[str, Any]) -> float:
    """Rated power of the boards of an option [W]."""
    from advisor.catalog import accelerators

    machine = option["machine"]
    return float(machine["num_accelerators"] * (accelerators.by_id(machine["accelerator"]).tdp_w or 0.0))
