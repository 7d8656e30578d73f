"""Defaults of training questions: a batch that ranks divide, machines of one's own, ways out of a refusal."""

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog import accelerators, models
from advisor.catalog.files import DATA_DIR, read_toml
from advisor.decide.training.fixed_layout import batch_near
from advisor.decide.training.scenario import TrainingTask
from advisor.decide.training.space import (
    RULES,
    offloads_checkpoints,
    option_faults,
    training_job,
    variants_of,
)
from advisor.decide.training.uncertainty import loop_quantity
from advisor.simulator.training.job import OPTIMIZERS, Method, TrainingJob
from advisor.simulator.training.launch_tuning import trl_runs
from advisor.simulator.training.memory import peak_memory
from advisor.simulator.training.plan import PlanLattice, Sharding, TrainingPlan
from advisor.simulator.training.step_host import host_bytes

Cli = Callable[[str], Any]
AS_OF = "--as-of 2026-11-20 --json"


@given(wanted=st.sampled_from((16, 64, 512, 2048)), ranks=st.integers(1, 4096))
def test_the_default_batch_is_near_the_usual_one_and_ranks_divide_it(wanted: int, ranks: int) -> None:
    batch = batch_near(wanted, ranks)
    odd = ranks // (ranks & -ranks)
    assert batch % odd == 0 or odd > wanted
    assert abs(batch - wanted) <= wanted / 8 or odd > wanted / 4


@pytest.mark.parametrize("ranks", [2**n for n in range(13)])
def test_powers_of_two_keep_the_usual_batch(ranks: int) -> None:
    assert batch_near(512, ranks) == 512


@pytest.mark.parametrize(
    ("gpu", "few", "more"), [("h100-sxm", 64, 96), ("gb200", 64, 72), ("a100-sxm-80gb", 32, 48)]
)
def test_accelerators_with_a_factor_of_three_train_faster_than_fewer_of_them(
    cli: Cli, gpu: str, few: int, more: int
) -> None:
    """96 H100s trained an 8B in 13.3 days that 64 trained in 17.6: less than proportionally faster."""

    def accelerator_days(count: int) -> float:
        command = f"recommend --model 8b --workload train --tokens 1T --gpu {gpu} --gpus {count}"
        days = json.loads(cli(f"advisor {command} {AS_OF}").out)["options"][0]["performance"]["days"]["value"]
        return float(days) * count

    assert accelerator_days(more) < 1.04 * accelerator_days(few)


@pytest.mark.parametrize(("sequence", "batch"), [(4096, 64), (65536, 64), (131072, 32), (262144, 16)])
def test_fine_tuning_takes_no_more_tokens_a_step_than_pretraining(
    cli: Cli, sequence: int, batch: int
) -> None:
    command = (
        f"recommend --model 8b --workload finetune --method lora --gpu h200 --gpus 8 --sequence {sequence}"
    )
    found = json.loads(cli(f"advisor {command} --framework megatron {AS_OF}").out or "{}")
    if "inputs" in found:
        assert found["inputs"]["task"]["global_batch"] == batch


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ("16xh100-sxm", "--model qwen2.5-72b --workload finetune --tokens 500M"),
        ("8xrtx-4090", "--model 1b --workload train --tokens 20B"),
        ("6xrtx-4090", "--model 8b --workload finetune --method lora --tokens 100M"),
        ("4xrtx-a6000", "--model 8b --workload finetune --tokens 100M"),
        ("2xrtx-4090", "--model 32b --workload finetune --method qlora --sequence 1024 --tokens 20M"),
    ],
)
def test_machines_of_ones_own_are_all_taken_where_time_falls(cli: Cli, own: str, words: str) -> None:
    """Half of 16 H100s saved $1.50 of electricity and took ten hours more."""
    option = json.loads(cli(f"advisor recommend {words} --own {own} {AS_OF}").out)["options"][0]
    assert option["machine"]["num_accelerators"] == int(own.split("x", 1)[0])


def test_a_deadline_lets_electricity_decide_among_machines_of_ones_own(cli: Cli) -> None:
    command = "recommend --model 1b --workload train --tokens 20B --own 8xrtx-4090"
    every = json.loads(cli(f"advisor {command} {AS_OF}").out)["options"][0]
    within = json.loads(cli(f"advisor {command} --deadline 30d {AS_OF}").out)["options"][0]
    assert within["bill"]["usd"]["value"] <= every["bill"]["usd"]["value"]
    assert within["machine"]["num_accelerators"] < every["machine"]["num_accelerators"]


@pytest.mark.parametrize("framework", sorted(RULES))
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_only_optimizers_for_host_memory_are_kept_there(framework: str, optimizer: str) -> None:
    model = models.get("llama-3.1-70b").record
    job = TrainingJob(model, 4096, 64, framework=framework, optimizer=optimizer)  # type: ignore[arg-type]
    plan = TrainingPlan(data_parallel=8, sharding="zero3", offload_optimizer=True)
    whats = [what for what, _ in option_faults(job, plan)]
    able = optimizer in RULES[framework].host_optimizers
    assert (f"{framework} does not keep {optimizer} in host memory" in whats) is not able
    task = TrainingTask(
        tokens=1e8,
        sequence_tokens=4096,
        global_batch=64,
        optimizer=optimizer,
        frameworks=(framework,),
        may_offload=True,
    )
    variants, _ = variants_of(accelerators.by_id("h100-sxm"), model, task)
    assert able or not any(any(each.limits.offload) for each in variants)


NOT_FITTING = (
    "--model 8b --tokens 200M --gpu h100 --gpus 8 --sequence 131072 --framework fsdp",
    "--model llama-3.1-70b --tokens 100M --own 8xh100-sxm --optimizer adamw_8bit",
    "--model 7b --method lora --lora-rank 1024 --own 1xrtx-4090",
    "--model qwen2.5-32b --tokens 50M --own 1xrtx-3090 --host-memory 64GB",
    "--model 70b --method lora --tokens 50M --gpu rtx-4090 --gpus 1 --host-memory 32GB",
    "--model 14b --tokens 50M --own 2xl40s --framework fsdp",
)


@pytest.mark.parametrize("words", NOT_FITTING)
def test_what_a_job_that_does_not_fit_is_told_to_type_works(cli: Cli, words: str) -> None:
    command = f"advisor recommend --workload finetune {words}"
    refused = cli(f"{command} {AS_OF}")
    assert refused.code == 3, refused.out[:200]
    fix = re.search(r"^  To fix: (.*)$", refused.err, re.MULTILINE)
    assert fix is not None
    name, value = shlex.split(fix[1].split(", or ")[0])[:2]
    typed = shlex.split(command)
    if name in typed:
        typed[typed.index(name) + 1] = value
    else:
        typed += [name, value]
    again = cli(f"{shlex.join(typed)} {AS_OF}")
    assert again.code == 0, (fix[1], again.err)


@pytest.mark.parametrize(
    ("own", "words", "in_host"),
    [
        ("8xrtx-4090", "--model 8b --workload finetune --tokens 50M", True),
        ("8xh100-sxm", "--model 8b --workload finetune --tokens 50M", False),
        ("4xa100-sxm-80gb", "--model 13b --workload finetune --tokens 50M", False),
    ],
)
def test_states_go_to_host_memory_where_tensor_ranks_would_wait_longer(
    cli: Cli, own: str, words: str, in_host: bool
) -> None:
    """Eight 4090s with their states divided over tensor ranks take 1.9 hours, with the optimizer in host memory 1.2."""
    option = json.loads(cli(f"advisor recommend {words} --own {own} {AS_OF}").out)["options"][0]
    assert ("optimizer in host memory" in option["plan"]["words"]) == in_host
    assert option["machine"]["num_accelerators"] == int(own.split("x", 1)[0])


def test_electricity_of_ones_own_machines_is_paid_by_the_second_and_rent_by_the_hour_begun(cli: Cli) -> None:
    command = "recommend --model 8b --workload finetune --method lora --tokens 1M"
    own = json.loads(cli(f"advisor {command} --own 8xh100-sxm {AS_OF}").out)["options"][0]
    rented = json.loads(cli(f"advisor {command} --gpu h100-sxm --gpus 8 {AS_OF}").out)["options"][0]
    hours = own["performance"]["days"]["value"] * 24.0
    assert hours < 0.5
    assert own["bill"]["usd"]["value"] == pytest.approx(own["bill"]["usd_per_hour"] * hours)
    assert rented["bill"]["usd"]["value"] == pytest.approx(rented["bill"]["usd_per_hour"])


@pytest.mark.parametrize(
    ("ranks", "sharding", "runs"), [(1, "none", True), (2, "none", False), (2, "zero3", True)]
)
def test_ranks_divide_weights_in_host_memory(ranks: int, sharding: Sharding, runs: bool) -> None:
    """Source: accelerate 1.15.0, utils/fsdp_utils.py: fully_shard with CPUOffloadPolicy."""
    model = models.get("llama-3.1-70b").record
    job = training_job(model, 1024, 64, "bf16", "peft", method="qlora", lora_rank=16)
    plan = TrainingPlan(data_parallel=ranks, sharding=sharding, recompute="full", offload_parameters=True)
    assert trl_runs(job, plan) == runs
    held = host_bytes(job, PlanLattice.of([plan]))[0]
    alone = host_bytes(job, PlanLattice.of([replace(plan, data_parallel=1, sharding="none")]))[0]
    assert not runs or held == pytest.approx(alone / ranks, rel=0.01)


@pytest.mark.parametrize(
    ("model", "card", "software", "version", "tokens"),
    [
        ("llama-3.1-8b", "rtx-4090", "", "2025-02", 5_789),
        ("llama-3.1-8b", "rtx-4090", "unsloth", "", 78_475),
        ("llama-3.3-70b", "a100-sxm-80gb", "", "2025-02", 6_916),
        ("llama-3.3-70b", "a100-sxm-80gb", "unsloth", "", 89_389),
        ("llama-3.3-70b", "rtx-a6000", "unsloth", "", 12_106),
    ],
)
def test_the_longest_sequence_that_a_trainer_has_run_fills_its_card(
    model: str, card: str, software: str, version: str, tokens: int
) -> None:
    """Source: Unsloth's benchmarks of context lengths (README, QLoRA of rank 32 on all matrices, one sequence)."""
    job = training_job(
        models.get(model).record,
        *(tokens, 1, "bf16", "peft"),
        method="qlora",
        lora_rank=32,
        optimizer="adamw_8bit",
        version=version,
        software=software,
    )
    plan = TrainingPlan(recompute="full", offload_activations=offloads_checkpoints(job))
    filled = peak_memory(job, PlanLattice.of([plan])).peak_bytes[0] / accelerators.by_id(card).memory_bytes
    assert 0.90 < filled < 1.05


def test_no_tuner_of_its_own_kernels_holds_more_than_plain_transformers() -> None:
    model = models.get("llama-3.1-8b").record
    plan = PlanLattice.of([TrainingPlan(recompute="full")])

    def peak(framework: str, software: str, method: Method) -> float:
        given = (model, 8192, 1, "bf16", framework)
        job = training_job(*given, method=method, lora_rank=16, software=software, version="2025-02")
        return float(peak_memory(job, plan).peak_bytes[0])

    for method in ("lora", "qlora"):
        plain = peak("peft", "", method)
        assert peak("fsdp", "torchtune", method) < plain
        assert peak("peft", "unsloth", method) < plain


def test_stored_scores_are_told_and_a_switch_or_own_models_store_none(cli: Cli) -> None:
    asked = (
        "advisor simulate train --model mpt-7b --gpus 8 --sharding zero3 --recompute full --sequence 65536 "
        "--global-batch 8 --framework"
    )
    stored = cli(f"{asked} fsdp")
    assert "stores its scores" in stored.err
    assert "--features flash_attention" in stored.err
    for other in ("fsdp --features flash_attention", "llm-foundry"):
        assert "stores its scores" not in cli(f"{asked} {other}").err


def test_utilisation_falls_with_throughput_under_a_power_limit(cli: Cli) -> None:
    asked = (
        "advisor simulate train --model 8b --gpus 8 --framework torchtitan --sharding zero3 --global-batch 64"
    )
    free, held = (
        json.loads(cli(f"{asked} --sequence 4096 {cap} --json").out) for cap in ("", "--power-cap-w 400")
    )
    kept = held["tokens_per_s_per_accelerator"]["value"] / free["tokens_per_s_per_accelerator"]["value"]
    assert kept < 1.0
    assert held["mfu_fraction"]["value"] / free["mfu_fraction"]["value"] == pytest.approx(kept)


def test_stated_nodes_hold_wider_tensor_ranks(cli: Cli) -> None:
    asked = "advisor simulate train --model 8b --gpu gh200-96gb --gpus 8 --tp 4 --global-batch 8"
    refused = cli(asked)
    assert refused.code == 3
    assert "--gpus-per-node" in refused.err
    assert cli(f"{asked} --gpus-per-node 4").code == 0


def test_a_budget_that_is_refused_is_told_with_one_that_suffices(cli: Cli) -> None:
    asked = f"advisor recommend --model llama-3.2-1b --workload train --tokens 1B --gpu h100-sxm {AS_OF}"
    refused = cli(f"{asked} --budget 1")
    assert refused.code == 3
    found = re.search(r"To fix: (--budget [\d.]+)", refused.err)
    assert found is not None
    assert cli(f"{asked} {found[1]}").code == 0


def test_a_loop_that_generates_has_the_widest_interval_and_is_assumed() -> None:
    loop = loop_quantity(1.0)
    classes = read_toml(DATA_DIR / "training_intervals.toml")["step_time"].values()
    assert loop.basis == "assumed"
    assert loop.low <= min(low for low, _ in classes)
    assert loop.high >= max(high for _, high in classes)
