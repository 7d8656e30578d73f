"""Levers in `advisor cost`: what they save, and who pays for what is cached."""

from collections.abc import Callable
from typing import Any

import pytest

Cli = Callable[[str], Any]
SHARED = "cost --model 8b --rate 5 --gpu l40s --api none --top 1 --input-tokens 4000 --output-tokens 200"


def report(cli: Cli, command: str) -> dict[str, Any]:
    return cli(f"advisor {command} --as-of 2026-11-20 --json").document()


def test_shared_beginnings_of_prompts_save_accelerators_and_are_priced_as_cached(cli: Cli) -> None:
    shared, without = (
        report(cli, f"{SHARED} --shared-prefix-tokens 3000 {more}") for more in ("", "--levers none")
    )
    first = shared["rows"][0]
    plain = without["rows"][0]
    assert first["machine"]["num_accelerators"] < plain["machine"]["num_accelerators"]
    assert first["levers"]["reused_input_tokens"] == 3000
    assert (first["share"]["cached_read"], plain["share"]["cached_read"]) == (
        pytest.approx(0.0, abs=1.0),
        0.0,
    )
    assert first["share"]["cached_read"] > 0.0


def test_a_named_lever_is_applied_or_refused(cli: Cli) -> None:
    applied = report(cli, f"{SHARED} --levers kv-fp8")
    assert applied["rows"][0]["layout"]["kv_dtype"] == "fp8"
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
