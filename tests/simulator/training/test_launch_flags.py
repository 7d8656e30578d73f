"""Printed commands: each parses against its framework's options, and carries all of the plan or is not offered."""

import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from advisor.catalog import models
from advisor.catalog.files import DATA_DIR, read_toml
from advisor.simulator.training.job import OPTIMIZERS, TrainingJob
from advisor.simulator.training.lattice import LatticeLimits, enumerate_lattice
from advisor.simulator.training.launch_flags import launch_flags, megatron_flags, stage_layout
from advisor.simulator.training.launch_tuning import trl_flags, verl_flags
from advisor.simulator.training.plan import RECOMPUTES, SCHEDULES, SHARDINGS, TrainingPlan

OPTIONS = read_toml(DATA_DIR / "training" / "launch_options.toml")
COMMANDS = {
    "trl": ("trl", "sft", "dpo", "grpo", "accelerate", "launch"),
    "verl": ("python3", "-m", "verl.trainer.main_ppo"),
}
DENSE = TrainingJob(models.get("llama-3.1-8b").record, 8192, 64)


def wrong(framework: str, command: str) -> list[str]:
    """What of a command its framework would refuse."""
    known: dict[str, Any] = OPTIONS[framework]["options"]
    left = [word for word in shlex.split(command) if word not in COMMANDS.get(framework, ())]
    left = [word for word in left if not word.startswith("trl/scripts/")]
    found = []
    while left:
        name, _, value = left.pop(0).partition("=")
        if name not in known:
            found.append(name)
            continue
        values = [value] if value else []
        while left and not left[0].startswith("--") and "=" not in left[0] and not value:
            values.append(left.pop(0))
        kind = known[name]
        if kind == "flag":
            good = not values
        elif kind == "int":
            good = len(values) == 1 and values[0].isdigit()
        else:
            good = bool(values) and (kind == "text" or set(values) <= set(kind))
        found += [] if good else [f"{name} {values}"]
    return found


def plans() -> Iterator[tuple[TrainingJob, TrainingPlan]]:
    for name in ("llama-3.1-8b", "deepseek-v3", "llama-3.1-405b"):
        job = TrainingJob(models.get(name).record, 8192, 2048)
        limits = LatticeLimits(
            8, schedules=SCHEDULES, recompute=RECOMPUTES, sharding=SHARDINGS, recompute_shares=(0.5, 1.0),
            micro_batch=(1, 2), shard_groups=(0, 8), offload=(False, True), offload_parameters=(False, True),
        )  # fmt: skip
        lattice = enumerate_lattice(job, 512, limits)
        for row in range(0, len(lattice), max(1, len(lattice) // 400)):
            yield job, lattice.plan(row)


def test_every_printed_command_parses() -> None:
    seen = set()
    for job, plan in plans():
        for precision in ("bf16", "fp8", "mxfp8", "nvfp4", "fp16"):
            for framework, command in launch_flags(replace(job, compute_dtype=precision), plan).items():
                assert not wrong(framework, command), (framework, command)
                seen.add(framework)
    for optimizer in OPTIMIZERS:
        for framework, command in launch_flags(replace(DENSE, optimizer=optimizer), TrainingPlan(8)).items():
            assert not wrong(framework, command), (framework, command)
    assert {"megatron-lm", "nemo", "torchtitan"} <= seen


@pytest.mark.parametrize("method", ["lora", "qlora", "dora", "full"])
@pytest.mark.parametrize("offload", [{}, {"offload_parameters": True}, {"offload_optimizer": True}])
def test_commands_of_tuning_parse(method: str, offload: dict[str, bool]) -> None:
    job = replace(DENSE, method=method, lora_rank=0 if method == "full" else 16, framework="peft")
    plan = TrainingPlan(data_parallel=4, sharding="zero3", **offload)  # type: ignore[arg-type]
    for trainer, more in (
        ("sft", ""),
        ("dpo", "--max_length 99"),
        ("grpo", "--num_generations 8 --use_vllm"),
    ):
        assert not wrong("trl", trl_flags(job, plan, trainer, more))
    assert bool(offload) == ("accelerate launch" in trl_flags(job, plan))
    for layout in (
        plan,
        replace(plan, tensor_parallel=2, recompute="full"),
        replace(plan, context_parallel=2),
    ):
        for algorithm in ("grpo", "ppo"):
            command = verl_flags(
                job, layout, algorithm=algorithm, prompts=64, samples=8, lengths=(512, 1024),
                rollout_tensor_parallel=1, num_accelerators=8, ranks_per_node=8,
            )  # fmt: skip
            assert not wrong("verl", command)
            assert "log_prob_micro_batch_size_per_gpu" in command


@pytest.mark.parametrize(
    ("change", "of_job", "frameworks"),
    [
        ({"offload_optimizer": True}, {}, {"megatron-lm", "nemo", "trl"}),
        ({"offload_activations": True}, {}, {"megatron-lm"}),
        ({"offload_parameters": True}, {}, {"trl"}),
        ({"recompute": "modules"}, {}, {"megatron-lm", "nemo"}),
        ({}, {"optimizer": "adamw_8bit"}, {"trl"}),
        ({}, {"optimizer": "adamw_bf16"}, {"megatron-lm"}),
        ({}, {"compute_dtype": "nvfp4"}, {"megatron-lm", "nemo"}),
        ({}, {"compute_dtype": "fp16"}, {"megatron-lm", "nemo", "trl"}),
        ({"context_parallel": 2}, {}, {"megatron-lm", "nemo"}),
        ({"sharding": "zero3", "pipeline_parallel": 2}, {}, {"torchtitan"}),
    ],
)
def test_a_plan_is_offered_only_where_all_of_it_is_carried(
    change: dict[str, Any], of_job: dict[str, Any], frameworks: set[str]
) -> None:
    plan = replace(TrainingPlan(data_parallel=4, sharding="zero1"), **change)
    assert set(launch_flags(replace(DENSE, **of_job), plan)) == frameworks


def test_published_pipelines_are_written_out() -> None:
    job = TrainingJob(models.get("llama-3.1-405b").record, 8192, 256)
    plan = TrainingPlan(8, 8, 8, 2, data_parallel=4, sharding="zero1", schedule="interleaved")
    layout = stage_layout(job, plan)
    assert layout.count("|") == 63
    assert (
        sum(int(part) for part in layout.replace("E", "").replace("L", "").replace("t*", "").split("|"))
        == 126
    )
    assert layout.startswith("Et*1|t*2|")
    assert layout.endswith("|t*2|t*1L")
    assert "--num-virtual-stages" not in megatron_flags(job, plan)
