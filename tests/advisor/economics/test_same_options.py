"""`cost` asks what `recommend` asks: the same options, to the last digit, for every kind of load and limit."""

from collections.abc import Callable
from typing import Any

import pytest

Cli = Callable[[str], Any]
ASK = "--model llama-3.1-8b --engine vllm --as-of 2026-11-20 --json"
SAME = (
    "rank",
    "role",
    "machine",
    "layout",
    "offer",
    "bill",
    "performance",
    "launch",
    "levers",
    "tie_with",
    "parts",
    "variants",
    "reasons",
    "explanation",
)
SOME = "--gpu h100-sxm,l40s"
LOADS = (
    "--rate 20 --redundancy n+1 --headroom 0.3 --storage-tb 2 --egress-tb 1",
    "--rate 3 --budget 4/h",
    "--budget 12/h",
    "--concurrency 200",
    "--rate 20 --residency eu",
    "--rate 8 --region sweden",
    "--rate 20 --term on-demand,spot,reserved-1y --tenancy dedicated,shared",
    "--rate 5 --levers kv-fp8 --itl-p99 60ms",
    "--rate 5 --input-tokens 4000 --output-tokens 200 --shared-prefix-tokens 3000",
    "--rate 20 --top 1",
)


def document(cli: Cli, command: str) -> dict[str, Any]:
    return cli(f"advisor {command}").document()


def plain(option: dict[str, Any]) -> dict[str, Any]:
    return {name: option[name] for name in SAME}


@pytest.mark.parametrize("load", LOADS)
def test_rows_are_the_options_of_the_same_question(cli: Cli, load: str) -> None:
    asked = document(cli, f"recommend {ASK} {SOME} {load}")
    cost = document(cli, f"cost {ASK} {SOME} {load} --api none")
    assert [plain(row) for row in cost["rows"]] == [plain(option) for option in asked["options"]]
    assert cost["rejected"] == asked["rejected"]
    assert cost["safe_pick"] == asked["safe_pick"]


def test_prefill_and_decode_workers_are_paid_by_what_uses_them(cli: Cli) -> None:
    """Prompts pay the bill of prefill workers, the rest that of decode workers; the prices are the bill."""
    load = "--gpu h100-sxm --rate 20 --input-tokens 8000 --output-tokens 200 --tpot-p99 10ms --levers pools"
    asked = document(cli, f"recommend {ASK} {load}")
    cost = document(cli, f"cost {ASK} {load} --api none")
    assert [plain(row) for row in cost["rows"]] == [plain(option) for option in asked["options"]]
    row = cost["rows"][0]
    parts = {part["role"]: part["bill"]["usd_per_hour"] for part in row["parts"]}
    share = row["share"]["prefill"] + row["share"]["cached_read"]
    assert share == pytest.approx(parts["prefill"] / sum(parts.values()))
    prompt, output = (row[f"usd_per_million_{name}_tokens"]["value"] for name in ("input", "output"))
    assert 20 * 3600 * (8000 * prompt + 200 * output) / 1e6 == pytest.approx(row["bill"]["usd_per_hour"])


@pytest.mark.parametrize("load", ["--rate 10", "--rate 10 --redundancy n+1 --power-budget 6kW", ""])
def test_hardware_of_ones_own_is_what_recommend_says_of_it(cli: Cli, load: str) -> None:
    own = "--model llama-3.1-8b --own 8xh100-sxm --engine vllm --as-of 2026-11-20 --json"
    asked = document(cli, f"recommend {own} {load}")
    cost = document(cli, f"cost {own} --gpu h100-sxm {load} --api none")
    assert plain(cost["owned"][0]) == plain(asked["options"][0])
    assert cost["owned"][0]["tco"]["num_accelerators"] == 8


def test_a_load_that_is_not_flat_is_asked_at_its_peak(cli: Cli) -> None:
    cost = document(cli, f"cost {ASK} {SOME} --rate 20 --shape chat --api none")
    peak = cost["volume"]["peak_requests_per_s"]
    assert peak > 20
    asked = document(cli, f"recommend {ASK} {SOME} --rate {peak!r}")
    for row, option in zip(cost["rows"], asked["options"], strict=True):
        assert row["layout"] == option["layout"]
        assert row["bill"] == option["bill"]
        assert (
            row["usd_per_million_tokens"]["value"] > option["performance"]["usd_per_million_tokens"]["value"]
        )


def test_a_spare_replica_is_paid_for_by_rent_and_by_purchase(cli: Cli) -> None:
    for name in ("rows", "owned"):
        plain_, spare = (
            document(cli, f"cost {ASK} --gpu h100-sxm --rate 20 --api none --redundancy {rule}")[name][0]
            for rule in ("none", "n+1")
        )
        assert spare["layout"]["num_replicas"] == plain_["layout"]["num_replicas"] + 1
        # Boards of a baseboard are bought whether a replica runs on them or not: the load is that of all of them.
        is_paid_anyway = name == "owned"
        assert spare["load_fraction"] <= plain_["load_fraction"] - (0.0 if is_paid_anyway else 1e-9)


def test_a_term_that_is_not_asked_for_is_never_in_the_headline(cli: Cli) -> None:
    found = document(cli, f"cost {ASK} {SOME} --rate 40 --shape reasoning --api none")
    leading = [way for way in found["ways"] if way["may_lead"]]
    assert all("reserved" not in way["note"] and "spot" not in way["note"] for way in leading)
    assert any("reserved" in way["note"] for way in found["ways"])
    assert "reserved" not in found["headline"]
    assert "spot" not in found["headline"]
    assert f"{leading[0]['usd_per_month']:,.0f}" in found["headline"]


def test_what_cost_says_does_not_depend_on_how_many_options_are_shown(cli: Cli) -> None:
    few, many = (
        document(cli, f"cost --model llama-3.1-8b --rate 20 --as-of 2026-11-20 --json --top {top}")
        for top in (2, 5)
    )
    names = [name for name in SAME if name != "tie_with"]
    for row, other in zip(few["rows"], many["rows"], strict=False):
        assert {name: row[name] for name in names} == {name: other[name] for name in names}
    for name in ("headline", "owned", "sensitivity", "carbon", "load", "volume", "safe_pick"):
        assert few[name] == many[name], name
