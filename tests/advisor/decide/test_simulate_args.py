"""`simulate_args`: what is planned for conversations and for long prompts apart is shown again by the command."""

import json
import shlex
from collections.abc import Callable
from typing import Any

import pytest

Cli = Callable[[str], Any]
SERVE = "advisor simulate serve --model 8b --gpu h200-sxm --rate 4"


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("--rate 8 --profile agent --gpu h200-sxm --levers split --adapters 20", "--long-prompts from="),
        ("--rate 4 --sessions 4 --turn-gap 20s --gpu h100-sxm --shared-prefix-tokens 300", "--sessions 4"),
    ],
    ids=["split", "conversations"],
)
def test_a_printed_point_is_shown_again(cli: Cli, question: str, said: str) -> None:
    found = cli(
        f"advisor recommend --model 8b --engine vllm --precision bf16 --as-of 2026-11-20 {question} --json"
    )
    option = json.loads(found.out)["options"][0]
    args = shlex.join(option["launch"]["simulate_args"])
    assert said in args
    again = json.loads(cli(f"advisor simulate serve {args} --json").out)["metrics"]
    for metric, part in (("ttft_s", "p50"), ("tpot_s", "p50"), ("ttft_s", "p99"), ("tpot_s", "p99")):
        planned, shown = (each[metric][part]["value"] for each in (option["performance"], again))
        assert shown == pytest.approx(planned, rel=1e-9)
    assert again["requests_per_s"]["value"] == pytest.approx(
        option["performance"]["requests_per_s"]["value"], rel=0.05
    )


def test_ranks_that_attend_apart_fill_their_steps_together(cli: Cli) -> None:
    """The server is told the tokens of a rank, the simulation those of all."""
    found = cli(
        "advisor recommend --model qwen3-30b-a3b --profile agent --rate 5 --gpu b300-sxm --engine vllm "
        "--precision bf16 --top 1 --as-of 2026-11-20 --json"
    )
    option = json.loads(found.out)["options"][0]
    args = shlex.join(option["launch"]["simulate_args"])
    assert "--dp 4" in args
    assert "--max-num-batched-tokens 32768" in args
    assert "--max-num-batched-tokens 8192" in option["launch"]["command"]
    again = json.loads(cli(f"advisor simulate serve {args} --json").out)["metrics"]
    for part in ("p50", "p90"):
        assert again["ttft_s"][part]["value"] == pytest.approx(
            option["performance"]["ttft_s"][part]["value"], rel=1e-9
        )


def test_long_prompts_go_where_they_are_sent(cli: Cli) -> None:
    ask = f"{SERVE} --profile agent --requests 3000 --json"
    few, more = (
        json.loads(cli(f"{ask} {words}").out)["metrics"]["ttft_s"]["p99"]["value"]
        for words in (
            "--replicas 4 --long-prompts from=30465:replicas=4",
            "--replicas 4 --long-prompts from=30465:replicas=8",
        )
    )
    assert more < few


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--long-prompts gpu=l40s", "does not say which prompts are long"),
        ("--long-prompts from=4000:replicsa=2", "replicas=VALUE"),
        ("--long-prompts from=4000:tp=two", "is not a number"),
        ("--long-prompts from=4000:replicas=0", "counts begin at 1"),
        ("--long-prompts from=4000 --records out.csv", "exclude each other"),
        ("--long-prompts from=4000 --prefill-workers 1 --decode-workers 1", "exclude each other"),
        ("--sessions 5 --router round_robin", "simulate fleet has both"),
        ("--sessions 5 --ttft 1s", "exclude each other"),
        ("--sessions 5 --long-prompts from=4000", "exclude each other"),
    ],
)
def test_what_shares_do_not_have_is_refused(cli: Cli, words: str, said: str) -> None:
    run = cli(f"{SERVE} {words}")
    assert run.code != 0
    assert said in run.err
    assert "To fix:" in run.err


def test_shares_need_a_rate(cli: Cli) -> None:
    run = cli("advisor simulate serve --model 8b --gpu l40s --sessions 5")
    assert run.code != 0
    assert "--rate 10" in run.err


@pytest.mark.parametrize(
    "words", ["--gpu h200-sxm --precision fp8", "--gpu h100-sxm --model 30b-a3b --precision fp8"]
)
def test_the_search_models_a_replica_as_the_command_does(cli: Cli, words: str) -> None:
    """The law holds in formats and with experts for which an engine's release has kernels of its own."""
    model = "" if "--model" in words else "--model 8b"
    engine = "" if "--engine" in words else "--engine vllm"
    found = cli(
        f"advisor recommend {model} {engine} {words} --rate 1 --fast --levers none --as-of 2026-11-20 --json"
    )
    option = json.loads(found.out)["options"][0]
    run = cli(f"advisor simulate serve {shlex.join(option['launch']['simulate_args'])} --json")
    shown = json.loads(run.out)["metrics"]["tpot_s"]["p50"]["value"]
    assert shown == pytest.approx(option["performance"]["tpot_s"]["p50"]["value"], rel=1e-9)
