"""Every option of `advisor recommend` acts for a workload or is refused by name; none is dropped in silence."""

import datetime
import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from advisor.cli.command import gathered, parameters_of
from advisor.cli.options import Shared
from advisor.commands.recommend.applies import ACTS, ON_A_PLAN, given
from advisor.commands.recommend.options import RecommendInput
from advisor.commands.recommend.training_input import training_question
from advisor.commands.recommend.training_run import _from_plan

Cli = Callable[[str], Any]
FLAGS = ("fast", "guidance", "explain", "compute_optimal", "elastic")
VALUES = {
    "rate": "7", "concurrency": "16", "input_tokens": "700", "output_tokens": "90", "trace": "t.csv",
    "trace_speed": "2", "profile": "rag", "ttft_p99": "5s", "tpot_p99": "55ms", "ttft_p95": "1s", "ttft_p50": "1s",
    "tpot_p95": "70ms", "tpot_p50": "70ms", "itl_p99": "1s", "e2e_p99": "90s", "headroom": "0.4", "redundancy": "n+1",
    "budget": "9", "goal": "goal.toml", "engine": "vllm", "steps": "10", "image_size": "512x512",
    "query_tokens": "50", "runtime": "tensorrt", "max_batch": "2", "latency_p99": "9s", "images": "3",
    "image_scheme": "qwen2-vl", "items": "50k", "sequence": "2048", "global_batch": "64", "method": "lora",
    "lora_rank": "64", "optimizer": "muon", "framework": "fsdp", "gpus": "8", "deadline": "3d", "tokens": "1B",
    "checkpoints": "sync", "mtbf_hours": "1000", "restart": "30m", "spot_losses_per_day": "3", "stragglers": "0.2",
    "algorithm": "ppo", "prompts": "64", "samples": "4", "rl_steps": "7", "placement": "colocated", "off_policy": "2",
    "teacher": "70b", "mean_length": "300", "precision": "fp8", "reward_time": "3s", "reward_model": "8b",
    "shared_prefix_tokens": "100", "shared_prefixes": "3", "sessions": "6", "turn_gap": "30s",
    "levers": "none", "acceptance": "0.5", "adapters": "50",
    "max_gpus": "32", "adapter_rank": "8", "adapter_slots": "9", "emit": "k8s", "emit_dir": "here",
    "models": "8b@1,70b@1", "plan": "p.json", "from_plan": "p.json", "max_context": "64k",
}  # fmt: skip
OPTIONS = [parameter.name for parameter in parameters_of(RecommendInput)]
IDLE = [(workload, name) for workload, acts in ACTS.items() for name in OPTIONS if name not in acts]


def test_the_table_knows_every_workload_and_every_option() -> None:
    (choices,) = [
        field.type.__args__[0].__args__  # type: ignore[union-attr]
        for field in fields(RecommendInput)
        if field.name == "workload"
    ]
    assert set(ACTS) == set(choices)
    assert set().union(*ACTS.values()) == set(OPTIONS)


@pytest.mark.parametrize(("workload", "name"), IDLE, ids=str)
def test_an_option_that_would_do_nothing_is_refused(cli: Cli, workload: str, name: str) -> None:
    option = "--from" if name == "from_plan" else f"--{name.replace('_', '-')}"
    value = "" if name in FLAGS else VALUES[name]
    run = cli(f"advisor recommend --model 8b --workload {workload} {option} {value}")
    assert run.code == 2, run.out
    assert f"{option} means nothing for --workload {workload}" in run.err
    assert "To fix:" in run.err


def test_what_differs_from_the_default_or_was_typed_was_given() -> None:
    assert given(RecommendInput()) == []
    assert given(RecommendInput(model="8b")) == ["model"]
    assert given(RecommendInput(model="8b"), frozenset({"headroom", "seed"})) == ["model", "headroom"]


def test_an_option_typed_with_its_default_was_given(cli: Cli, plan: Path) -> None:
    run = cli("advisor recommend --model bge-m3 --workload embed --headroom 0.2")
    assert "--headroom means nothing for --workload embed" in run.err
    run = cli(f"advisor recommend --from {plan} --gpus 16 --optimizer adamw")
    assert "--optimizer means nothing beside --from" in run.err
    run = cli("advisor recommend --own 8xh100-sxm --model 8b --term on-demand")
    assert "--own and --term exclude each other" in run.err


LIMITS = {
    "gpus": 256, "deadline": "9d", "budget": "90000", "gpu": "b200-sxm", "provider": "aws", "own": "64xh200-sxm",
    "term": "spot", "tenancy": "shared", "residency": "eu", "region": "france", "max_price_age": 9,
    "price_file": Path("mine.csv"), "power_budget": "5kW", "storage_tb": 2.0, "egress_tb": 3.0,
}  # fmt: skip


def asked_of_a_plan(**typed: Any) -> RecommendInput:
    names = {parameter.name: parameter.default for parameter in parameters_of(RecommendInput)}
    found: RecommendInput = gathered(RecommendInput, names | typed)
    return found


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    question = asked_of_a_plan(model="8b", workload="train", tokens="1B", gpus=8)
    scenario, _ = training_question(question, Shared(as_of=datetime.date(2026, 11, 20)))
    option = {"accelerator": "h100-sxm", "num_accelerators": 8, "plan": {"words": "DP8"}}
    file = tmp_path / "plan.json"
    inputs = json.loads(scenario.model_dump_json())
    file.write_text(json.dumps({"kind": "plan", "inputs": inputs, "options": [option]}))
    return file


@pytest.mark.parametrize("name", [name for name in OPTIONS if name not in ON_A_PLAN])
def test_what_a_plan_says_already_is_refused_beside_it(cli: Cli, plan: Path, name: str) -> None:
    option = f"--{name.replace('_', '-')}"
    run = cli(f"advisor recommend --from {plan} --gpus 16 {option} {'' if name in FLAGS else VALUES[name]}")
    assert run.code == 2, run.out
    assert f"{option} means nothing beside --from" in run.err


def test_limits_beside_a_plan_are_all_known() -> None:
    again = {"from_plan", "model", "workload", "top", "plan", "explain"}
    assert set(LIMITS) | again == ON_A_PLAN


@pytest.mark.parametrize("name", LIMITS)
def test_every_limit_beside_a_plan_changes_its_question(plan: Path, name: str) -> None:
    base, _ = _from_plan(plan, asked_of_a_plan(max_price_age=99), Shared())
    more = {"own": "64xh200-sxm"} if name == "power_budget" else {}
    if more:
        base, _ = _from_plan(plan, asked_of_a_plan(max_price_age=99, **more), Shared())
    changed, _ = _from_plan(
        plan, asked_of_a_plan(**{"max_price_age": 99, name: LIMITS[name]} | more), Shared()
    )
    assert changed.limits != base.limits
    assert changed.task == base.task


SAYS_NOTHING_OF_THE_QUESTION = {"json", "output", "quiet", "verbose", "no_input", "offline", "trust_config"}
OF_ALL = {"seed": 7, "as_of": datetime.date(2026, 11, 1), "calibration": None}


def test_options_of_all_commands_beside_a_plan_are_all_known() -> None:
    assert set(OF_ALL) | SAYS_NOTHING_OF_THE_QUESTION == {each.name for each in parameters_of(Shared)}


@pytest.mark.parametrize("name", OF_ALL)
def test_what_every_command_has_changes_a_plans_question(plan: Path, tmp_path: Path, name: str) -> None:
    typed = OF_ALL[name]
    if name == "calibration":
        typed = tmp_path / "calibration.json"
        measured = {"kind": "calibration", "accelerator": "h100-sxm", "bandwidth_bytes_per_s": 3e12}
        typed.write_text(json.dumps(measured))
    again, notes = _from_plan(plan, asked_of_a_plan(), Shared(**{name: typed}))
    base, _ = _from_plan(plan, asked_of_a_plan(max_price_age=99), Shared())
    assert getattr(again, name) not in (None, getattr(base, name))
    assert name == "calibration" or str(typed) in notes[1]


@pytest.mark.parametrize(
    ("typed", "word"),
    [
        ("", "needs what shall change"),
        ("--top 3", "needs what shall change"),
        ("--gpus 16 --workload finetune", "is of --workload train"),
        ("--gpus 16 --model 70b", "is of --model llama-3.1-8b"),
        ("--own 8xh100-sxm --provider aws", "exclude each other"),
        ("--gpus 16 --power-budget 5kW", "machines of your own"),
    ],
)
def test_what_contradicts_a_plan_is_refused(cli: Cli, plan: Path, typed: str, word: str) -> None:
    run = cli(f"advisor recommend --from {plan} {typed}")
    assert run.code == 2, run.out
    assert word in run.err
