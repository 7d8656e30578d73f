"""Questions without an answer: the nearest that has one is named, and has one."""

import json
import re
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from advisor.ask.options import Where
from advisor.ask.scenario import constraints_of
from advisor.decide import nearest
from advisor.decide.scenario import Constraints, Objectives, Scenario, Traffic

Cli = Callable[[str], Any]
DAY = "--as-of 2026-11-20"


@pytest.fixture
def cli(ask_once: Cli) -> Cli:
    """Several tests ask the same questions, each of which is searched once."""
    return ask_once


def fix_of(cli: Cli, question: str, code: int = 3) -> str:
    run = cli(f"advisor recommend {question} {DAY}")
    assert run.code == code, run.out
    return str(run.err.split("To fix: ")[1].splitlines()[0])


@pytest.mark.parametrize(
    ("question", "budget"),
    [
        ("--model 70b --gpu h100,rtx-pro-6000-server", "0.5/h"),
        ("--model 70b --gpu h100,rtx-pro-6000-server --rate 4", "200/month"),
        ("--model flux --workload diffusion --gpu h100", "0.1/h"),
        ("--model 8b --workload batch --items 10M --gpu l40s", "0.2/h"),
    ],
)
def test_a_budget_below_the_smallest_option_names_one_that_is_enough(
    cli: Cli, question: str, budget: str
) -> None:
    fix = fix_of(cli, f"{question} --budget {budget}")
    enough = re.fullmatch(r"--budget ([\d.]+)/h: \d+ x \S+ from \S+ is enough", fix)
    assert enough, fix
    assert cli(f"advisor recommend {question} --budget {enough.group(1)}/h {DAY}").code == 0
    less = 0.97 * float(enough.group(1))
    assert cli(f"advisor recommend {question} --budget {less:.3f}/h {DAY}").code == 3


@pytest.mark.parametrize(
    ("question", "fix"),
    [
        ("--model 8b --rate 1 --gpu mi300x --precision nvfp4", "drop --precision"),
        ("--model 8b --rate 1 --gpu l40s --provider lambda --engine vllm", "drop --gpu"),
        ("--model 8b --rate 1 --gpu l40s --max-price-age 0", "drop --max-price-age"),
        ("--model 8b --own 1xm4-max-40-core --ttft-p99 2s", "--ttft-p99 "),
        ("--model 70b --rate 1 --gpu l4 --max-gpus 1 --engine vllm", "drop --gpu"),
        ("--model 8b --workload batch --items 1M --deadline 1min --gpu l40s", "--deadline 1h: "),
    ],
)
def test_the_limit_that_must_go_is_named(cli: Cli, question: str, fix: str) -> None:
    assert fix_of(cli, question).startswith(fix)


REFUSED = [
    "recommend --model 70b --concurrency 1 --tpot-p99 12ms --gpu h200-sxm --max-gpus 2",
    "recommend --model 70b --concurrency 1 --tpot-p99 10ms --gpu h200-sxm --max-gpus 2",
    "recommend --model 70b --own 2xh100-sxm --concurrency 2 --tpot-p99 12ms",
    "recommend --model 8b --rate 1 --gpu mi300x --precision nvfp4",
    "recommend --model 8b --rate 1 --gpu l40s --residency is",
    "recommend --model 8b --own 1xm4-max-40-core --ttft-p99 2s",
    "recommend --model 70b --own 1xrtx-3090 --concurrency 1 --ttft-p99 10s",
    "recommend --model qwen2.5-32b --own 1xrtx-3090 --concurrency 1 --engine llama.cpp",
    "recommend --model 70b --gpu rtx-4090 --concurrency 2 --budget 4/h",
    "recommend --model 70b --gpu rtx-4090 --concurrency 2 --precision int4 --budget 100/month",
    "recommend --model 8b --rate 2 --gpu l4 --engine vllm --ttft-p99 50ms",
    "recommend --model 8b --rate 2 --gpu l40s --engine vllm --e2e-p99 1s",
    "recommend --model 8b --gpu h100-sxm --rate 0.01 --input-tokens 200k",
    "cost --model 8b --rate 1 --gpu l40s --provider lambda --engine vllm",
    "cost --model 8b --rate 2 --gpu l4 --tpot-p99 5ms --api none --engine vllm",
]


@pytest.mark.parametrize("question", REFUSED)
def test_what_a_refusal_tells_to_type_is_accepted(cli: Cli, question: str) -> None:
    run = cli(f"advisor {question} {DAY}")
    assert run.code in (2, 3), run.out
    assert "Traceback" not in run.err
    fix = run.err.split("To fix: ")[1].splitlines()[0]
    again = with_fix(question, fix)
    assert again != question, f"the fix is no option: {fix}"
    mended = cli(f"advisor {again} {DAY}")
    assert mended.code == 0, f"{again}: {mended.err}"


def with_fix(question: str, fix: str) -> str:
    """The question with the options of a fix in place of its own, and without those to be dropped."""
    before, *rest = fix.split(":")[0].split(" or less")[0].split(", with ")
    for option in re.findall(r"--[\w-]+", before) if before.startswith("drop ") else ():
        question = without(question, option)
    told = " ".join(rest if before.startswith("drop ") else (before, *rest))
    for option, value in re.findall(r"(--[\w-]+) ([^\s,;]\S*[^\s,;])", told):
        question = f"{without(question, option)} {option} {value}"
    return question


def without(question: str, option: str) -> str:
    return re.sub(rf" {option} \S+", "", question)


def test_hardware_that_no_provider_rents_is_planned_on_as_ones_own(cli: Cli) -> None:
    asked = f"advisor recommend --model 8b --concurrency 1 {DAY}"
    run = cli(f"{asked} --gpu rx-7900-xtx")
    own = re.search(r"Hint: (--own \S+) instead of --gpu", run.err)
    assert own, run.err
    assert cli(f"{asked} {own.group(1)}").code == 0


@pytest.mark.parametrize("rate", ["0.001", "0.0001"])
def test_a_request_now_and_then_needs_no_more_than_one_every_few_minutes(cli: Cli, rate: str) -> None:
    """Whatever serves more serves it, at the same price and no slower."""
    asked = f"advisor recommend --model 8b --gpu rtx-4090 --top 1 --json {DAY} --rate"
    seldom, more = (json.loads(cli(f"{asked} {each}").out)["options"][0] for each in (rate, "0.01"))
    assert seldom["bill"]["usd_per_hour"] <= more["bill"]["usd_per_hour"]
    assert seldom["performance"]["ttft_s"]["p99"]["value"] <= 2.0


def test_the_longest_mean_prompt_that_is_named_can_be_asked(cli: Cli) -> None:
    asked = "--model 8b --gpu h100-sxm --ttft-p99 300s --rate 0.01"
    fix = fix_of(cli, f"{asked} --input-tokens 200k")
    longest = re.fullmatch(r"--input-tokens (\d+) or less, or another model", fix)
    assert longest, fix
    assert cli(f"advisor recommend {asked} --input-tokens {longest.group(1)} {DAY}").code == 0
    assert fix_of(cli, f"{asked} --input-tokens {int(longest.group(1)) + 1}") == fix


def test_a_load_beyond_ones_own_hardware_names_what_it_carries(cli: Cli) -> None:
    fix = fix_of(cli, "--model 8b --own 1xl4 --rate 500")
    carried = re.fullmatch(
        r"--rate ([\d.]+), which was found to be carried by what is there(, though only marginally: .*)?", fix
    )
    assert carried, fix
    run = cli(f"advisor recommend --model 8b --own 1xl4 --rate {carried.group(1)} --json {DAY}")
    option = json.loads(run.out)["options"][0]
    assert (option["performance"]["holds"] == "marginal") is bool(carried.group(2))


def test_fewer_accelerators_in_a_smaller_format_come_before_more(cli: Cli) -> None:
    fix = fix_of(cli, "--model 70b --own 1xrtx-3090 --concurrency 1 --ttft-p99 10s")
    assert fix == "--own 2xrtx-3090 --precision int4: one replica takes that many"


def test_an_engine_that_was_named_is_kept_where_it_serves_another_format(cli: Cli) -> None:
    assert (
        fix_of(cli, "--model deepseek-r1 --gpu a100-sxm-80gb --engine sglang --rate 2") == "--precision int8"
    )


def test_hardware_that_is_there_is_kept_where_another_engine_serves_it(cli: Cli) -> None:
    fix = fix_of(cli, "--model qwen2.5-32b --own 4xv100-sxm2-32gb --engine vllm --rate 1")
    assert fix.startswith("drop --engine, with --ttft-p99 ")


def test_too_little_hardware_names_how_much_one_replica_takes(cli: Cli) -> None:
    fix = fix_of(cli, "--model 120b --own 1xl40s --rate 0.02")
    assert fix == "--own 2xl40s: one replica takes that many"


@pytest.mark.parametrize(
    "option",
    [
        "--gpu l40s",
        "--provider aws",
        "--term spot",
        "--tenancy shared",
        "--residency eu",
        "--max-price-age 30",
    ],
)
@pytest.mark.parametrize("workload", ["serve", "batch", "embed", "finetune"])
def test_what_is_there_already_is_bought_nowhere(cli: Cli, option: str, workload: str) -> None:
    name = option.split()[0]
    fix = fix_of(cli, f"--model 8b --workload {workload} --own 2xl40s {option}", 2)
    assert fix == f"drop {name}, or --own"


def test_no_limit_is_loosened_that_nobody_gave() -> None:
    """Each try is a search: one that changes nothing uses up what may be simulated for the others."""
    limits, _ = constraints_of(Where())
    for field in nearest.LIMITS.values():
        assert getattr(limits, field) == Constraints.model_fields[field].get_default(), field


@pytest.mark.parametrize("reachable_s", [1.1e-3, 1.9e-3, 5e-3, 8.1e-3, 14e-3])
def test_nearest_limits_are_at_most_half_as_long_again_as_the_shortest_reachable(reachable_s: float) -> None:
    traffic = Traffic(profile="chat", mean_input_tokens=1000, mean_output_tokens=200, rate_per_s=1.0)
    short = Objectives(ttft_p99_s=1.0, tpot_p99_s=1e-3)
    asked = Scenario(model="llama-3.1-8b", as_of=date(2026, 11, 20), traffic=traffic, objectives=short)
    searched = list[Scenario]()

    def ask(scenario: Scenario) -> Any:
        searched.append(scenario)
        return object() if (scenario.objectives.tpot_p99_s or 0.0) >= reachable_s else None

    found = nearest.loosen_limits(asked, ask)
    assert found is not None
    assert found.tpot_p99_s is not None
    assert 1.0 <= found.tpot_p99_s / reachable_s <= 1.6
    assert len(searched) <= 6


@pytest.mark.parametrize(
    "question",
    [
        "--model 8b --rate 2 --as-of 2020-01-01",
        "--model 8b --rate 1 --gpu l4 --ttft-p99 1ms --provider gcp",
        "--model 8b --rate 1 --own 1xl4 --e2e-p99 1ms",
    ],
)
def test_a_fix_names_no_option_that_was_not_typed(cli: Cli, question: str) -> None:
    day = "" if "--as-of" in question else DAY
    fix = cli(f"advisor recommend {question} {day}").err.split("To fix: ")[1].splitlines()[0]
    for option in ("--budget", "--gpu", "--provider", "--precision", "--region", "--own", "--engine"):
        assert not re.search(rf"(?:drop|raise) [^,]*{option}\b", fix) or option in question, fix
    assert "--as-of" in fix or "2020" not in question
