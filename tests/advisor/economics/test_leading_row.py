"""Which row of `advisor cost` stands first, and the levers that it pulls."""

import json
from collections.abc import Callable
from typing import Any

import pytest

Cli = Callable[[str], Any]
SHARED = "cost --model 8b --rate 5 --gpu l40s --api none --top 1 --input-tokens 4000 --output-tokens 200"


def report(cli: Cli, command: str) -> dict[str, Any]:
    run = cli(f"advisor {command} --as-of 2026-11-20 --json")
    assert run.code == 0, run.err
    found: dict[str, Any] = json.loads(run.out)
    return found


def test_an_assumed_row_stands_first_only_where_no_better_founded_one_may_cost_no_more(cli: Cli) -> None:
    found = report(cli, "cost --model 70b --rate 10 --gpu mi300x,gh200 --api none --top 2")
    first, *others = found["rows"]
    assert {row["standing"] for row in found["rows"]} > {0}
    for row in others:
        founded = row["standing"] > first["standing"]
        overlaps = first["usd_per_million_tokens"]["high"] >= row["usd_per_million_tokens"]["low"]
        assert not (founded and overlaps), row["accelerator"]
    costs = [row["usd_per_million_tokens"]["value"] for row in others]
    assert costs == sorted(costs)
    assert first["usd_per_million_tokens"]["value"] > min(costs)  # it was moved there
    assert "MI300X" not in found["headline"]


def test_shared_beginnings_of_prompts_save_accelerators_and_are_priced_as_cached(cli: Cli) -> None:
    shared, without = (
        report(cli, f"{SHARED} --shared-prefix-tokens 3000 {more}") for more in ("", "--levers none")
    )
    first, plain = shared["rows"][0], without["rows"][0]
    assert first["num_accelerators"] < plain["num_accelerators"]
    assert first["levers"]["reused_input_tokens"] == 3000
    assert (first["share"]["cached_read"], plain["share"]["cached_read"]) == (
        pytest.approx(0.0, abs=1.0),
        0.0,
    )
    assert first["share"]["cached_read"] > 0.0


def test_a_named_lever_is_pulled_or_refused(cli: Cli) -> None:
    pulled = report(cli, f"{SHARED} --levers kv-fp8")
    assert pulled["rows"][0]["kv_dtype"] == "fp8"
    for typed, words in (
        ("--levers prefix", "prompts have nothing in common"),
        ("--levers warp", "unknown lever 'warp'"),
        ("--levers eagle --engine llama.cpp", "not known to guess ahead"),
        ("--acceptance 0.5", "--acceptance needs a way of guessing ahead"),
        ("--adapter-rank 8", "need adapters"),
    ):
        run = cli(f"advisor {SHARED} {typed} --as-of 2026-11-20")
        assert run.code in (2, 3), typed
        assert words in run.err
