"""Every option acts or is refused, in every command and for every workload.

An option acts where its value changes the answer; where it is a limit that may not bind, it changes what was asked.
An option that is refused ends with exit code 2, and the message names it. The options of other workloads change the
question or are refused in tests/advisor/test_options_apply.py, which asks for no answer.
"""

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from asking import ask, timeless, with_option, without_option
from questions import DAYS, IS_THOROUGH, Row, price_file

FILES = Path(__file__).resolve().parents[3] / "tools" / "corpus_files"
WORKLOADS = (
    "serve",
    "train",
    "finetune",
    "distill",
    "rl",
    "diffusion",
    "embed",
    "rerank",
    "speech",
    "vision",
    "batch",
)
OF_THE_OUTPUT = {
    "--json",
    "--output",
    "--quiet",
    "--verbose",
    "--no-input",
    "--offline",
    "--trust-config",
    "--help",
    "--explain",
    "--plan",
    "--emit",
    "--emit-dir",
    "--what-if",
    "--workload",
}
"""Options that say how an answer is written, and not what is asked."""
MARKET = price_file(
    (
        Row("acme", "l40s", 1, 0.95),
        Row("bolt", "l40s", 1, 0.8, DAYS[2], region=1),
        Row("bolt", "l40s", 1, 0.5, DAYS[0], term="spot"),
        Row("crest", "h100-sxm", 8, 17.6),
    )
)
SERVE = "recommend --model 8b --rate 3 --gpu l40s --engine vllm --precision fp8 --levers none --top 2"
COST = "cost --model 8b --rate 3 --gpu l40s --engine vllm --precision fp8 --levers none --top 2 --api none"
BASES = {
    "serve": SERVE,
    "train": "recommend --workload train --model 1b --tokens 1B --gpu h100-sxm --gpus 8",
    "finetune": "recommend --workload finetune --model 8b --method lora --tokens 10M --gpu h100-sxm --gpus 2",
    "distill": "recommend --workload distill --model 1b --teacher 8b --items 10k --gpu h100-sxm --gpus 2",
    "rl": "recommend --workload rl --model qwen2.5-7b --algorithm grpo --gpu h100-sxm --gpus 8 --prompts 64",
    "diffusion": "recommend --workload diffusion --model sd3-medium --rate 0.5 --latency-p99 20s --gpu h100-sxm,l40s",
    "embed": "recommend --workload embed --model bge-m3 --rate 100 --gpu l4,l40s",
    "rerank": "recommend --workload rerank --model bge-m3 --rate 100 --gpu l4,l40s",
    "speech": "recommend --workload speech --model whisper-large-v3 --rate 2 --latency-p99 5s --gpu l4,l40s",
    "vision": "recommend --workload vision --model qwen3-vl-8b --rate 1 --gpu l40s",
    "batch": "recommend --workload batch --model 8b --items 10k --gpu l40s --engine vllm --deadline 10h",
}
VALUES = {
    "--model": "qwen2.5-7b", "--models": "8b@2", "--rate": "20", "--concurrency": "40", "--input-tokens": "4000",
    "--output-tokens": "500", "--trace": f"{FILES / 'azure_conv.csv'}", "--trace-speed": "2", "--profile": "rag",
    "--ttft-p99": "400ms", "--tpot-p99": "30ms", "--ttft-p95": "300ms", "--ttft-p50": "100ms", "--tpot-p95": "30ms",
    "--tpot-p50": "25ms", "--itl-p99": "40ms", "--e2e-p99": "9s", "--headroom": "0.7", "--redundancy": "n+1",
    "--budget": "9/h", "--engine": "sglang", "--precision": "bf16", "--gpu": "a100-sxm-80gb", "--provider": "runpod",
    "--own": "2xl40s", "--term": "spot", "--tenancy": "shared,dedicated,unknown", "--region": "us",
    "--residency": "us", "--max-price-age": "100", "--max-gpus": "1", "--price-file": MARKET, "--max-context": "64k",
    "--power-budget": "0.6kW", "--storage-tb": "2", "--egress-tb": "3", "--levers": "kv-fp8", "--acceptance": "0.3",
    "--adapters": "50", "--adapter-rank": "64", "--adapter-slots": "4", "--shared-prefix-tokens": "600",
    "--shared-prefixes": "5000", "--sessions": "3", "--turn-gap": "2min", "--top": "1", "--fast": "",
    "--seed": "5", "--as-of": "2026-06-01", "--kv-precision": "fp8", "--goal": "", "--from": "", "--calibration": "",
    "--tokens": "2B", "--compute-optimal": "", "--sequence": "2048", "--mean-length": "300", "--global-batch": "64",
    "--method": "qlora", "--lora-rank": "64", "--optimizer": "muon", "--teacher": "qwen2.5-7b", "--framework": "fsdp",
    "--gpus": "4", "--deadline": "2h", "--checkpoints": "sync", "--mtbf-hours": "500", "--restart": "40m",
    "--spot-losses-per-day": "5", "--elastic": "", "--stragglers": "0.1", "--algorithm": "ppo", "--prompts": "128",
    "--samples": "4", "--rl-steps": "50", "--placement": "disaggregated", "--off-policy": "2", "--reward-time": "20s",
    "--reward-model": "8b", "--steps": "10", "--image-size": "512x512", "--guidance": "", "--query-tokens": "90",
    "--runtime": "torch-eager", "--max-batch": "2", "--latency-p99": "3s", "--images": "3",
    "--image-scheme": "llava-1.5", "--items": "20k",
    "--tokens-per-day": "2B", "--shape": "chat", "--api": "all", "--api-price-file": "", "--purchase-price": "20000",
    "--years": "3", "--electricity": "0.3", "--assumptions": "", "--framework-version": "2024-06",
    "--tp": "2", "--pp": "2", "--vpp": "2", "--cp": "2",
    "--ep": "2", "--etp": "2", "--dp": "2", "--micro-batch": "2", "--sharding": "none", "--recompute": "selective",
    "--schedule": "interleaved", "--network": "200Gb", "--host-memory": "128GB", "--power-cap-w": "500",
    "--storage-gb-s": "20", "--length-dist": "fixed", "--use-case": "code", "--users": "9k",
    "--requests-per-user": "30/h",
}  # fmt: skip
VALUES_OF_COST = VALUES | {"--own": "8xh100-sxm", "--power-budget": "3kW", "--region": "sweden"}
"""`cost` compares with machines to be owned: those with a purchase price, in a region with a tariff."""
FLAGS = {"--fast", "--compute-optimal", "--elastic", "--guidance"}
NEEDS = {
    "--trace-speed": f"--trace {FILES / 'azure_conv.csv'}",
    "--acceptance": "--levers eagle --tpot-p99 15ms --rate 1",
    "--adapter-rank": "--adapters 50",
    "--adapter-slots": "--adapters 50",
    "--shared-prefixes": "--shared-prefix-tokens 600 --levers prefix",
    "--shared-prefix-tokens": "--levers prefix",
    "--turn-gap": "--sessions 3",
    "--users": "--requests-per-user 2/h",
    "--requests-per-user": "--users 900",
    "--power-budget": "--own 2xl40s",
    "--purchase-price": "--own 8xh100-sxm",
    "--spot-losses-per-day": "--term spot",
    "--framework-version": "--framework megatron",
    "--elastic": "--term spot",
    "--residency": f"--price-file {MARKET} --provider acme,bolt",
    "--region": f"--price-file {MARKET} --provider acme,bolt",
}
INSTEAD_OF = {
    "--concurrency": ("--rate",),
    "--trace": ("--rate",),
    "--trace-speed": ("--rate",),
    "--models": ("--model", "--rate"),
    "--tokens-per-day": ("--rate",),
    "--compute-optimal": ("--tokens",),
    "--users": ("--rate",),
    "--requests-per-user": ("--rate",),
}
NOT_BINDING = {
    "--budget",
    "--max-gpus",
    "--tenancy",
    "--top",
    "--max-price-age",
    "--gpu",
    "--deadline",
    "--api",
}
"""Limits that need not change an answer; the question that they are part of is written in `inputs`."""
OF_EVERY_COMMAND = {"--seed", "--as-of"}
"""Options of the output and of repeating an answer, which the help by workload leaves out."""
NEEDS_A_FILE = {"--goal", "--from", "--calibration", "--api-price-file", "--assumptions"}


@cache
def options_in_help(command: str) -> tuple[str, ...]:
    """Options that the help of a command shows."""
    text = ask(f"{command} --help", as_json=False).out
    return tuple(sorted(set(re.findall(r"^[│ *]*(--[a-z0-9-]+)", text, re.MULTILINE))))


@cache
def options_of(command: str) -> tuple[str, ...]:
    """Options of a command, for whatever workload."""
    if command != "recommend":
        return options_in_help(command)
    return tuple(
        sorted({name for each in WORKLOADS for name in options_in_help(f"recommend --workload {each}")})
    )


def pair(base: str, option: str) -> tuple[str, str]:
    """A question that the option belongs to, and the same one with it."""
    words = base
    instead_of = INSTEAD_OF.get(option, ())
    needs = NEEDS.get(option, "")
    if base != COST and option in ("--own", "--power-budget"):
        instead_of = ("--gpu",)
    if base == COST and option == "--power-budget":
        needs = "--own 8xh100-sxm"
    if base == COST and option == "--region":
        needs = "--own 8xh100-sxm"
    for name in instead_of:
        if name in shlex.split(words):
            words = without_option(words, name)
    for needed in re.findall(r"--\S+ [^-]\S*", needs):
        words = with_option(words, needed)
    value = (VALUES_OF_COST if base == COST else VALUES)[option]
    changed = f"{words} {option}" if option in FLAGS else with_option(words, f"{option} {value}")
    if option in ("--concurrency", "--trace", "--tokens-per-day", "--own", "--compute-optimal"):
        return base, changed
    return words, changed


def check(base: str, option: str, *, in_answer: bool) -> None:
    """The option is refused by its name, or it acts."""
    without, changed = pair(base, option)
    after = ask(changed)
    if after.code == 2:
        names = (option, *re.findall(r"--\S+", NEEDS.get(option, "")), *INSTEAD_OF.get(option, ()))
        assert any(name in after.err for name in names), after.err
        return
    assert after.code in (0, 3), after.err
    before = ask(without)
    if after.code != before.code:
        return
    if before.code == 3:
        return
    assert timeless(after.document) != timeless(before.document), f"{option} changes nothing: {changed}"
    if in_answer:
        assert after.result != before.result, f"{option} changes only `inputs`: {changed}"


NAMES = sorted(set(VALUES) - NEEDS_A_FILE)
OF_COST_ALONE = {
    "--own",
    "--purchase-price",
    "--region",
    "--redundancy",
    "--power-budget",
    "--term",
    "--tokens-per-day",
}
"""Options that mean something else in `cost`, or that it once ignored."""


@pytest.mark.parametrize("option", NAMES)
def test_an_option_of_serving_acts_or_is_refused(option: str) -> None:
    if option in options_of("recommend"):
        check(SERVE, option, in_answer=option not in NOT_BINDING)


@pytest.mark.parametrize("option", sorted({*NAMES[:: 1 if IS_THOROUGH else 4], *OF_COST_ALONE}))
def test_an_option_of_cost_acts_or_is_refused(option: str) -> None:
    if option in options_in_help("cost"):
        check(COST, option, in_answer=option not in NOT_BINDING)
    else:
        value = "" if option in FLAGS else VALUES[option]
        answer = ask(f"{COST} {option} {value}")
        assert answer.code == 2
        assert option in answer.err


def test_the_table_of_values_is_whole() -> None:
    """A new option needs a value here that changes an answer."""
    missing = {*options_of("recommend"), *options_in_help("cost")} - set(VALUES) - OF_THE_OUTPUT
    assert not missing


@pytest.mark.parametrize("workload", WORKLOADS)
def test_help_shows_what_acts_in_ninety_lines(workload: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    shown = ask(f"recommend --workload {workload} --help --offline", as_json=False)
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert len(lines) <= 90
    assert max(map(len, lines)) <= 100
    shown_options = set(options_in_help(f"recommend --workload {workload}"))
    names = sorted(set(VALUES) - NEEDS_A_FILE - OF_EVERY_COMMAND - shown_options)
    for option in names[WORKLOADS.index(workload) :: 11] if not IS_THOROUGH else names:
        value = "" if option in FLAGS else VALUES[option]
        answer = ask(f"{BASES[workload]} {option} {value}")
        assert answer.code == 2, f"{option} is not in the help, and yet is not refused"
        assert option in answer.err
