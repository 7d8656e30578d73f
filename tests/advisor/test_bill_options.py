"""Storage, egress and power on the command line: they act on the bill, or are refused by name."""

import datetime
import json
from collections.abc import Callable
from typing import Any

import pytest

from advisor.catalog.prices import prices_as_of

Cli = Callable[[str], Any]
DAY = "--as-of 2026-11-20 --json"


def first(cli: Cli, command: str, key: str = "options") -> dict[str, Any]:
    return cli(f"advisor {command} {DAY}").document()[key][0]


def storage_rate(chip: str) -> float:
    rows = prices_as_of(datetime.date(2026, 11, 20), providers=["dataoorts"], accelerators=[chip])
    (rate,) = {row.storage_usd_per_gb_hour for row in rows}
    assert rate is not None
    return rate


def lines_of(bill: dict[str, Any]) -> dict[str, float]:
    return {line["what"]: line["usd_per_month"] for line in bill["lines"]}


@pytest.mark.parametrize(
    "command",
    [
        "recommend --model 8b --rate 1 --gpu rtx-4090 --top 1",
        "recommend --model bge-m3 --workload embed --rate 5 --gpu rtx-4090 --top 1",
        "recommend --model 8b --workload batch --items 10k --gpu rtx-4090 --top 1",
        "recommend --model 8b --workload finetune --method lora --tokens 1M --gpu h100 --gpus 1 --top 1",
    ],
)
def test_storage_is_billed_where_its_price_is_known_and_unknown_elsewhere(cli: Cli, command: str) -> None:
    known = first(cli, f"{command} --provider dataoorts --storage-tb 2 --egress-tb 0")["bill"]
    plain = first(cli, f"{command} --provider dataoorts")["bill"]
    stored = lines_of(known)["storage"]
    chip = "h100-sxm" if "h100" in command else "rtx-4090"
    assert stored == pytest.approx(2000 * storage_rate(chip) * 730.5)
    assert known["usd_per_month"] == pytest.approx(plain["usd_per_month"] + stored)
    assert (lines_of(known)["egress"], known["unknown"]) == (0.0, [])
    assert "storage" not in lines_of(plain)
    other = first(cli, f"{command.replace('rtx-4090', 'l40s')} --provider runpod --storage-tb 2")["bill"]
    assert "storage" not in lines_of(other)
    unknown = {each["what"]: each["reason"] for each in other["unknown"]}
    assert unknown["storage"] == {"code": "price_not_stated", "text": "no price of runpod is known"}


def test_cost_compares_by_the_whole_bill(cli: Cli) -> None:
    command = "advisor cost --model 8b --rate 2 --gpu rtx-4090 --provider dataoorts --api none --top 1"

    def ways(more: str) -> dict[str, dict[str, Any]]:
        run = cli(f"{command} {more} {DAY}")
        return {f"{way['way']} {way['note']}": way for way in json.loads(run.out)["ways"]}

    plain = ways("")
    stored = ways("--storage-tb 2")
    rate = 2000 * storage_rate("rtx-4090") * 730.5
    before = plain["rent always on"]
    after = stored["rent always on"]
    assert after["usd_per_month"] == pytest.approx(before["usd_per_month"] + rate)
    assert any("storage unknown" in name for name in stored if name.startswith("own"))


def test_a_budget_pays_for_storage_too(cli: Cli) -> None:
    command = "recommend --model 8b --budget 1000/month --gpu rtx-4090 --provider dataoorts --top 1 --fast"
    plain = first(cli, command)
    stored = first(cli, f"{command} --storage-tb 2")
    assert stored["machine"]["num_accelerators"] < plain["machine"]["num_accelerators"]
    assert stored["bill"]["usd_per_month"] <= 1000


def test_a_power_budget_leaves_fewer_accelerators(cli: Cli) -> None:
    option = first(cli, "recommend --model 8b --own 4xl40s --power-budget 1kW")
    assert option["machine"]["num_accelerators"] == 2  # 350 W each, 1.18 times with their host


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (
            "recommend --model 8b --gpu l40s --power-budget 1kW",
            2,
            "--power-budget is for machines of your own",
        ),
        ("recommend --model 8b --own 4xl40s --power-budget 100W", 3, "--power-budget 413W or more"),
        ("recommend --model 8b --own 4xl40s --power-budget loads", 2, "not a power"),
        ("recommend --model 8b --own 4xl40s --power-budget 0W", 2, "--power-budget"),
        ("recommend --model 8b --rate 1 --storage-tb -1", 2, "--storage-tb"),
        ("recommend --model 8b --rate 1 --egress-tb lots", 2, "--egress-tb"),
        (
            "cost --model 8b --own 4xl40s --purchase-price 8000 --power-budget 100W",
            3,
            "--power-budget 413W or more",
        ),
    ],
)
def test_bad_amounts_are_told(cli: Cli, command: str, code: int, words: str) -> None:
    run = cli(f"advisor {command} --as-of 2026-11-20")
    assert run.code == code, run.err
    assert words in run.err
