"""Laws of training answers: better machines, more money, memory and reliability never make an answer worse, and what is
printed is shown again."""

import itertools
import json
import re
import shlex
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.catalog import accelerators, models
from advisor.commands.simulate_train.options import TrainLayout
from advisor.decide.certainty import holds_word
from advisor.decide.training.commands import has_command
from advisor.decide.training.scenario import FixedLayout, MachineConditions, TrainingTask
from advisor.decide.training.search import Tally, best_plans, evaluate_plan
from advisor.decide.training.space import variants_of
from advisor.decide.training.uncertainty import verdict_of
from advisor.simulator.quantity import Quantity
from advisor.simulator.training.cluster import NodeNetwork, TrainingCluster
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.plan import Schedule, TrainingPlan

Cli = Callable[[str], Any]
H100 = accelerators.by_id("h100-sxm")
JOB = TrainingJob(models.get("llama-3.1-8b").record, 8192, 64)
PLANS = (
    TrainingPlan(data_parallel=16, sharding="zero1"),
    TrainingPlan(4, 2, data_parallel=2, sharding="zero1"),
    TrainingPlan(2, context_parallel=2, data_parallel=4, sharding="zero1", recompute="full"),
)
ASK = "advisor recommend --as-of 2026-11-20 --top 1 --json"


@settings(max_examples=40, deadline=None)
@given(
    plan=st.sampled_from(PLANS),
    more=st.floats(1.0, 8.0),
    part=st.sampled_from(("peaks", "bandwidth", "network")),
)
def test_better_machines_never_take_longer(plan: TrainingPlan, more: float, part: str) -> None:
    rate = H100.scale_out_bytes_per_s or 0.0
    better = TrainingCluster(H100)
    if part == "network":
        better = replace(better, network=NodeNetwork(rate * more))
    elif part == "bandwidth":
        wide = H100.model_copy(update={"bandwidth_bytes_per_s": more * (H100.bandwidth_bytes_per_s or 0.0)})
        better = TrainingCluster(wide)
    else:
        peaks = {name: more * peak for name, peak in H100.peak_flop_per_s.items()}
        better = TrainingCluster(H100.model_copy(update={"peak_flop_per_s": peaks}))
    usual = evaluate_plan(JOB, TrainingCluster(H100), plan).step_s
    assert evaluate_plan(JOB, better, plan).step_s <= usual * (1.0 + 1e-9)


@pytest.mark.parametrize("model", ["llama-3.1-8b", "qwen3-30b-a3b"])
def test_a_fifth_more_memory_never_takes_longer(model: str) -> None:
    """A step of a fifth is wider than the interval: what was tight before fits then, and no plan is lost."""
    task = TrainingTask(tokens=1e12, sequence_tokens=8192, global_batch=64)
    steps = []
    for power in range(6):
        chip = H100.model_copy(update={"memory_bytes": 40e9 * 1.2**power})
        variants, _ = variants_of(chip, models.get(model).record, task)
        plans = best_plans(variants, 8, Tally(), keep=1)
        steps.append(plans[0].step_s if plans else float("inf"))
    assert all(later <= before * (1 + 1e-9) for before, later in itertools.pairwise(steps))
    assert steps[-1] < float("inf")


def test_more_host_memory_never_takes_longer() -> None:
    task = TrainingTask(tokens=1e9, sequence_tokens=4096, global_batch=64, may_offload=True)
    chip = accelerators.by_id("rtx-4090")
    steps = []
    for gigabytes in (32, 64, 128, 160, 240, 512):
        conditions = MachineConditions(host_bytes=gigabytes * 1e9)
        variants, _ = variants_of(chip, models.get("llama-3.1-8b").record, task, conditions)
        plans = best_plans(variants, 1, Tally(), keep=1)
        assert all(plan.host_bytes <= gigabytes * 1e9 for plan in plans)
        steps.append(plans[0].step_s if plans else float("inf"))
    assert all(later <= before for before, later in itertools.pairwise(steps))
    assert steps[0] == float("inf")
    assert steps[-1] < float("inf")


def test_what_is_searched_fits_with_its_whole_interval_where_any_plan_does() -> None:
    task = TrainingTask(tokens=1e12, sequence_tokens=8192, global_batch=512)
    variants, _ = variants_of(H100, models.get("llama-3.1-70b").record, task)
    assert {verdict_of(plan) for plan in best_plans(variants, 64, Tally(), keep=8)} == {"fits"}


def ask(cli: Cli, words: str) -> dict[str, Any]:
    return cli(f"{ASK} {words}").document()


def test_more_money_is_never_later_and_never_buys_a_crowd_for_an_hour(cli: Cli) -> None:
    question = "--model 8b --workload train --tokens 20B --gpu h100,a100,mi300x"
    days = []
    for dollars in (2000, 5000, 20000, 100000):
        option = ask(cli, f"{question} --budget {dollars}")["options"][0]
        assert option["bill"]["usd"]["value"] <= dollars
        days.append(option["performance"]["days"]["value"])
        assert option["machine"]["num_accelerators"] <= 64, "a week and less count alike"
    assert all(later <= before for before, later in itertools.pairwise(days))


def test_a_longer_time_between_failures_never_costs_more(cli: Cli) -> None:
    question = "--model 8b --workload train --tokens 1T --gpu h100"
    dollars = []
    for hours in (100, 1000, 10_000, 50_000, 1_000_000):
        option = ask(cli, f"{question} --mtbf-hours {hours}")["options"][0]
        dollars.append(option["bill"]["usd"]["value"])
    assert all(later <= before for before, later in itertools.pairwise(dollars))


@pytest.mark.parametrize(
    "question",
    [
        "--model 8b --workload train --tokens 1T --gpu h100 --gpus 64",
        "--model 70b --workload train --tokens 1T --gpu h100 --gpus 256 --network 'RoCE 4x200Gb' --power-cap-w 500",
        "--model qwen3-30b-a3b --workload train --tokens 1T --gpu h100 --gpus 64 --ep 8 --recompute full",
        "--model 8b --workload train --tokens 1T --gpu h100 --gpus 64 --tp 4 --pp 2 --vpp 2 --micro-batch 1",
        "--model 8b --workload train --tokens 1T --gpu h100 --gpus 64 --framework torchtitan",
        "--model 8b --workload train --tokens 1T --gpu h100 --gpus 64 --framework megatron --framework-version 2023-06",
        "--model 8b --workload finetune --gpu rtx-4090 --gpus 1 --host-memory 160GB",
        "--model 8b --workload finetune --gpu l40s --gpus 1 --method qlora --lora-rank 64 --mean-length 900",
        "--model 8b --workload finetune --gpu l40s --gpus 1 --method ia3",
    ],
)
def test_what_is_printed_is_shown_again(cli: Cli, question: str) -> None:
    option = ask(cli, question)["options"][0]
    args = shlex.join(option["launch"]["simulate_args"])
    again = json.loads(cli(f"advisor simulate train {args} --json").out)
    planned = option["performance"]
    for name in ("step_time_s", "peak_memory_bytes", "mfu_fraction", "tokens_per_s_per_accelerator"):
        assert again[name]["value"] == pytest.approx(planned[name]["value"], rel=1e-9)
    assert again["memory_verdict"] == planned["memory_verdict"]
    words = {
        name: option["plan"][name] for name in ("tp", "pp", "vpp", "cp", "ep", "dp", "sharding", "recompute")
    }
    assert {name: again["plan"][name] for name in words} == words


def test_a_fixed_layout_is_kept() -> None:
    fixed = FixedLayout(tensor_parallel=4, pipeline_parallel=2, micro_batch=2, recompute="selective")
    task = TrainingTask(tokens=1e12, sequence_tokens=8192, global_batch=512, layout=fixed)
    variants, _ = variants_of(H100, models.get("llama-3.1-8b").record, task)
    for found in best_plans(variants, 64, Tally(), keep=8):
        plan = found.plan
        kept = (plan.tensor_parallel, plan.pipeline_parallel, plan.micro_batch, plan.recompute)
        assert kept == (4, 2, 2, "selective")


@pytest.mark.parametrize("schedule", ["interleaved", "zbv", "dualpipe"])
def test_a_schedule_of_stages_has_stages_and_a_command(schedule: Schedule) -> None:
    task = TrainingTask(
        tokens=1e12, sequence_tokens=8192, global_batch=512, layout=FixedLayout(schedule=schedule)
    )
    variants, _ = variants_of(H100, models.get("llama-3.1-8b").record, task)
    plans = [found.plan for found in best_plans(variants, 64, Tally(), keep=8, can_start=has_command)]
    assert plans
    assert all(plan.schedule == schedule and plan.pipeline_parallel > 1 for plan in plans)


REFUSED = (
    "recommend --workload train --model 8b --tokens 1T --gpu h100 --gpus 64 --tp 3",
    "recommend --workload train --model 8b --tokens 1T --gpu h100 --gpus 64 --tp 16",
    "recommend --workload train --model 8b --tokens 1T --gpu h100 --gpus 64 --cp 3",
    "recommend --workload train --model 8b --tokens 1T --gpu h100 --gpus 64 --pp 3",
    "recommend --workload train --model 8b --tokens 1T --gpu h100 --gpus 60 --pp 5",
    "recommend --workload train --model 8b --tokens 1T --gpu h100 --gpus 64 --micro-batch 7",
    "recommend --workload train --model 8b --tokens 1T --gpu h100 --gpus 64 --vpp 4 --pp 1",
    "recommend --workload train --model 8b --tokens 1T --gpu h100 --gpus 64 --power-cap-w 5000",
    "recommend --workload train --model 8b --tokens 1T --gpu h100 --gpus 64 --power-cap-w 20",
    "recommend --workload train --model 8b --tokens 1T --gpu h100 --gpus 64 --host-memory 5TB",
    "recommend --workload train --model 8b --tokens 1T --gpu h800 --gpus 64",
    "recommend --workload train --model qwen3-235b --tokens 1T --gpu h100 --gpus 512 --pp 8 --vpp 5",
    "recommend --workload train --model 70b --tokens 1T --gpu h100 --gpus 512 --mtbf-hours 100",
    "recommend --workload train --model 8b --tokens 1T --gpu h100 --gpus 64 --framework megatron --precision fp8 "
    "--framework-version 2022-01",
    "recommend --workload finetune --model 8b --own 1xrtx-4090 --host-memory 64GB",
    "recommend --workload finetune --model 8b --method ia3 --own 1xrtx-3090 --framework peft --framework-version 2022",
    "simulate train --model 8b --gpu h100 --gpus 8 --power-cap-w 5000",
    "simulate train --model 8b --gpu h100 --gpus 8 --framework torchtitan --features act_offload",
    "simulate train --model 8b --gpu h100 --gpus 8 --framework torchtitan --offload-optimizer --sharding zero3",
    "simulate train --model 8b --gpu h100 --gpus 8 --framework megatron --schedule dualpipe --pp 4",
    "simulate train --model 8b --gpu h100 --gpus 8 --framework torchtitan --framework-version 2023-01",
    "simulate train --model 8b --gpu h100 --gpus 1 --framework deepspeed --offload-optimizer --host-memory 64GB",
    "simulate train --model 8b --gpu h100 --gpus 8 --framework fsdp --sharding zero1 --sequence 4096 --global-batch 64",
    "simulate train --model 8b --gpu h100 --gpus 8 --vpp 2",
    "simulate train --model 8b --gpu h100 --gpus 16 --tp 16",
    "simulate train --model 8b --gpu h100 --gpus 64 --dp 7 --tp 4 --pp 2",
    "simulate train --model qwen3-30b-a3b --gpu h100 --gpus 48 --ep 12 --global-batch 480",
    "simulate train --model qwen3-235b --gpu h100 --gpus 64 --ep 24 --tp 4 --framework megatron",
    "simulate train --model 70b --gpu h100 --gpus 64 --framework torchtitan --schedule zb_h1 --pp 4 --tp 8",
    "simulate train --model 70b --gpu a100-sxm-80gb --gpus 64 --tp 8 --pp 8 --framework megatron "
    "--framework-version 2022-03 --recompute selective",
    "recommend --workload finetune --model openai/gpt-oss-20b --method qlora --framework torchtune --own 1xrtx-4080",
    "recommend --workload finetune --model 70b --method qlora --gpu l4 --gpus 1 --framework unsloth",
    "recommend --workload train --model 405b --tokens 1T --gpu h100 --gpus 100 --tp 8 --pp 4",
    "recommend --workload rl --model qwen2.5-32b --gpu h100 --gpus 1",
    "recommend --workload train --model 70b --tokens 2B --gpu mi355x,mi300x --budget 300",
    "recommend --workload finetune --model 8b --gpu h100 --gpus 8 --tokens 10M --deadline 1min",
    "recommend --workload train --model 8b --tokens 20B --gpu h100 --gpus 8 --deadline 1d --budget 100",
    "recommend --workload train --model 8b --tokens 1T --own 512xh100 --deadline 1d",
)
"""Questions that are refused, each by another rule."""
TOO_LARGE = (
    "simulate train --model qwen3-30b-a3b --gpu h100 --gpus 48 --ep 16 --global-batch 480",
    "simulate train --model 8b --gpu h100 --gpus 8 --framework fsdp --sequence 8192 --micro-batch 2 --dp 8",
    "simulate train --model 70b --gpu h100 --gpus 16 --tp 8 --pp 2",
    "simulate train --model qwen2.5-7b --method lora --gpu a800 --gpus 8 --framework peft --sequence 32768 --dp 8 "
    "--recompute full --framework-version 2025-06",
    "simulate train --model mixtral-8x7b --gpu h100 --gpus 16 --ep 8 --framework megatron",
)
"""Plans that do not fit, and for which what does is told."""
LAYOUT = {f"--{field.name}".replace("_", "-") for field in fields(TrainLayout)}


def with_options(command: str, options: str) -> str:
    """Return a command with the options that a fix names; a whole layout takes the place of what was typed of one."""
    words = shlex.split(command)
    typed = shlex.split(options)
    if typed[0] == "drop":
        place = words.index(typed[1].rstrip(","))
        has_value = place + 1 < len(words) and not words[place + 1].startswith("--")
        del words[place : place + 1 + has_value]
        if typed[2:3] != ["with"]:
            return shlex.join(words)
        typed = typed[3:]
    gone = LAYOUT if "--dp" in typed and command.startswith("simulate") else set()
    gone = (
        gone
        | {word for word in typed if word.startswith("--")}
        | ({"--gpu", "--gpus"} & {*words} if "--own" in typed else set())
    )
    kept = []
    for place, word in enumerate(words):
        name = word if word.startswith("--") else words[place - 1]
        if name not in gone:
            kept.append(word)
    return shlex.join([*kept, *typed])


def is_held(answer: str) -> bool:
    """Whether an answer's plan fits its accelerators; those that are recommended do."""
    return bool(json.loads(answer).get("fits", True))


@pytest.mark.parametrize("command", REFUSED)
def test_what_a_refusal_says_to_type_is_accepted(cli: Cli, command: str) -> None:
    refused = cli(f"advisor {command} --as-of 2026-11-20 --json")
    assert refused.code in (2, 3), refused.out[:200]
    fix = re.search(r"^  To fix: (.*)$", refused.err, re.MULTILINE)
    assert fix is not None, refused.err
    options = fix[1].split(", or ")[0].split(": then ")[0].removesuffix(" or more")
    again = cli(f"advisor {with_options(command, options)} --as-of 2026-11-20 --json")
    assert again.code == 0, again.err
    assert is_held(again.out), options


@pytest.mark.parametrize("command", TOO_LARGE)
def test_the_plan_that_is_said_to_fit_does(cli: Cli, command: str) -> None:
    found = cli(f"advisor {command} --as-of 2026-11-20 --json")
    assert not is_held(found.out)
    told = re.search(r"fits[^-]*(--[^\"]*?)(, which|\"|$)", " ".join(json.loads(found.out)["warnings"]))
    assert told is not None, json.loads(found.out)["warnings"]
    again = cli(f"advisor {with_options(command, told[1])} --as-of 2026-11-20 --json")
    assert again.code == 0, again.err
    assert is_held(again.out), told[1]


def test_an_infeasible_term_has_no_dollars(cli: Cli) -> None:
    found = ask(cli, "--model 405b --workload train --tokens 15T --gpu h100 --gpus 16384")
    bills = {bill["term"]: bill for bill in found["options"][0]["bills"]}
    assert bills["spot"]["feasible"] is False
    assert bills["spot"]["usd"] is None
    assert bills["spot"]["days"] is None
    assert bills["spot"]["mtbf_s"] < bills["on_demand"]["mtbf_s"]


def test_a_term_that_is_not_feasible_says_how_often_machines_are_lost(cli: Cli) -> None:
    asked = "advisor recommend --model 405b --workload train --tokens 15T --gpu h100 --gpus 16384 --explain"
    words = " ".join(cli(asked).out.split())
    assert re.search(
        r"spot at [\w-]+ is not feasible: 2,048 machines lose one every [\d.]+ \w+, which", words
    )


@pytest.mark.parametrize(
    "words",
    [
        "--model 8b --tokens 20B --deadline 3d --gpu h100,b200",
        "--model 70b --tokens 100B --deadline 20d --gpu h100",
    ],
)
def test_a_safe_pick_is_likely_to_be_done_by_its_deadline(cli: Cli, words: str) -> None:
    """Eight H100s for 2.85 (2.4-3.3) days were the safe pick for three days."""
    told = json.loads(
        cli(f"advisor recommend --as-of 2026-11-20 --workload train --top 3 {words} --json").out
    )
    deadline = told["inputs"]["limits"]["deadline_s"] / 86400.0
    takes = [*told["options"], told["safe_pick"]]
    assert told["safe_pick"] is not None
    for take in takes:
        days = Quantity(**take["performance"]["days"])
        is_late = any(reason["code"] == "may_not_hold" for reason in take["reasons"])
        assert is_late == (days.chance_below(deadline) < 0.75)
        assert take["performance"]["holds"] == holds_word(days, deadline)
        assert not is_late or take["role"] != "safe_pick"


LAYOUTS = (
    "8b --gpus 8 --tp 3",
    "8b --gpus 8 --framework fsdp --tp 2",
    "8b --gpus 8 --tp 8 --last-stage-layers 5",
    "8b --gpus 4 --tp 4 --pp 2 --framework fsdp",
    "8b --gpus 16 --tp 16 --schedule interleaved --no-sequence-parallel",
    "8b --gpus 100 --tp 2 --pp 2 --cp 3 --dp 3 --vpp 2",
    "8b --gpus 16 --tp 3 --recompute full --recompute-layers 4 --offload-optimizer",
    "8b --gpus 24 --pp 2 --vpp 3 --schedule 1f1b --shard-group 4",
    "70b --gpus 8 --cp 2 --ep 12",
    "qwen3-30b-a3b --gpus 16 --pp 3 --ep 4 --recompute full",
    "qwen3-30b-a3b --gpus 72 --tp 8 --dp 3 --ep 12",
    "qwen3-30b-a3b --gpus 64 --pp 5 --ep 8 --etp 2 --recompute none",
)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_options_that_a_refused_layout_gets_run_in_place_of_its_own(cli: Cli, layout: str) -> None:
    asked = f"advisor simulate train --model {layout}"
    run = cli(asked)
    assert run.code in (2, 3), run.out
    fix = re.search(r"To fix: (?:drop (?P<left>[^,]*)(?:, with )?)?(?P<options>.*)", run.err)
    assert fix is not None, run.err
    options = re.split(", or |: ", fix["options"])[0]
    for option in re.findall(r"--[\w-]+", f"{fix['left'] or ''} {options}"):
        asked = re.sub(rf" {option}(?= |$)( (?!--)\S+)?", "", asked)
    mended = cli(f"{asked} {options}")
    assert mended.code == 0, f"{asked} {options}: {mended.err}"
    assert "does not fit" not in mended.out
