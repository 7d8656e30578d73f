"""Every option of `advisor recommend` acts for a workload or is refused by name; none is dropped in silence."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from advisor.cli.command import parameters_of
from advisor.commands.recommend.applies import ACTS, given
from advisor.commands.recommend.options import RecommendInput

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
    "adapter_rank": "8", "adapter_slots": "9", "emit": "k8s", "emit_dir": "here",
    "plan": "p.json", "from_plan": "p.json", "max_context": "64k",
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


def test_only_what_differs_from_the_default_was_given() -> None:
    assert given(RecommendInput()) == []
    assert given(RecommendInput(model="8b")) == ["model"]
