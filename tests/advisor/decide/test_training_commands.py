"""Commands of training answers: none is empty, the resources of a loop add up, and outputs are as long as asked."""

import json
import random
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from advisor.catalog import models
from advisor.catalog.accelerators import by_id
from advisor.catalog.training import framework_release, is_in_transformers, tuners
from advisor.decide.training.commands import LoopKind, has_command
from advisor.decide.training.scenario import TrainingTask
from advisor.decide.training.search import Tally, best_plans
from advisor.decide.training.space import variants_of
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.launch_flags import launch_flags
from advisor.simulator.training.launch_loops import (
    LoopShape,
    openrlhf_flags,
    openrlhf_runs,
    openrlhf_tuning_flags,
    verl_flags,
    verl_runs,
)
from advisor.simulator.training.launch_settings import settings_flags, settings_run
from advisor.simulator.training.plan import TrainingPlan

Cli = Callable[[str], Any]
MODELS = ("deepseek-v3", "qwen3-30b-a3b", "llama-3.1-8b", "llama-3.1-70b", "mixtral-8x7b", "gemma-2-9b")
CHIPS = ("h100-sxm", "b200-sxm", "mi300x", "mi355x", "a100-sxm-80gb", "tpu-v6e", "tpu-v5p", "l40s")


@pytest.mark.parametrize("seed", range(40))
def test_no_plan_of_a_search_lacks_a_command(seed: int) -> None:
    draw = random.Random(seed)
    model = models.by_id(draw.choice(MODELS))
    tuning = draw.random() < 0.4
    method = draw.choice(("full", "lora")) if tuning else "full"
    task = TrainingTask(
        tokens=1e9,
        sequence_tokens=draw.choice((4096, 8192)),
        global_batch=draw.choice((64, 512, 2048)),
        method=method,
        lora_rank=16 if method == "lora" else 0,
        may_offload=tuning,
        mean_sequence_tokens=draw.choice((0.0, 1000.0)) if tuning else 0.0,
    )
    count = draw.choice((8, 64, 256))
    variants, reason = variants_of(by_id(draw.choice(CHIPS)), model, task)
    if reason is not None:
        assert str(reason)
        return
    for found in best_plans(variants, count, Tally(), keep=3, can_start=has_command):
        flags = launch_flags(found.job, found.plan, as_priced=True)
        assert flags
        assert all(text.strip() and framework_release(name) for name, text in flags.items())


@pytest.mark.parametrize("chip", ["trainium2", "gaudi3"])
def test_chips_without_tabulated_options_are_refused_with_the_reason(chip: str) -> None:
    task = TrainingTask(tokens=1e9, sequence_tokens=4096, global_batch=64)
    found, reason = variants_of(by_id(chip), models.by_id("llama-3.1-8b"), task)
    assert found == []
    assert "no command" in str(reason)


def job(framework: str = "fsdp") -> TrainingJob:
    return TrainingJob(models.by_id("llama-3.1-8b"), 2560, 512, "bf16", framework)


@pytest.mark.parametrize("algorithm", ["grpo", "ppo"])
@pytest.mark.parametrize("count", [4, 6, 8, 12, 16, 24])
@pytest.mark.parametrize("generating", [4, 8])
@pytest.mark.parametrize("late", [0, 2])
def test_openrlhf_asks_for_the_accelerators_that_were_planned(
    algorithm: str, count: int, generating: int, late: int
) -> None:
    plan = TrainingPlan(data_parallel=count, sharding="zero3")
    assert openrlhf_runs(job(), plan)
    for together in (True, False):
        kind = LoopKind(algorithm, not together, 0 if together else late)
        if not has_command(job(), plan, kind):
            assert (algorithm, together, late) == ("ppo", False, 0)
            continue
        loop = LoopShape(algorithm, 64, 8, (512, 2048), 2, count if together else generating, 8)
        late_steps = kind.steps_off_policy
        command = openrlhf_flags(job(), plan, loop, steps_off_policy=late_steps, together=together)
        assert accelerators_of_openrlhf(command) == (count if together else count + generating)
        assert "--generate_max_len 2048" in command


def accelerators_of_openrlhf(command: str) -> int:
    """Accelerators that OpenRLHF's placement groups take, as its train_ppo_ray.py forms them."""

    def size(role: str) -> int:
        nodes = re.search(rf"--{role}_num_nodes (\d+)", command)
        each = re.search(rf"--{role}_num_gpus_per_node (\d+)", command)
        return int(nodes.group(1)) * int(each.group(1)) if nodes and each else 0

    engines = re.search(r"--vllm_num_engines (\d+) --vllm_tensor_parallel_size (\d+)", command)
    assert engines
    generating = int(engines.group(1)) * int(engines.group(2))
    everything = "--colocate_all_models" in command
    if everything and "--async_train" not in command:
        assert generating == size("actor")
        return size("actor")
    reference = 0 if everything or "--colocate_actor_ref" in command else size("ref")
    critic = 0 if everything else size("critic")
    return size("actor") + reference + critic + generating


@pytest.mark.parametrize("count", [1, 4, 6, 8, 12, 16, 20])
def test_verl_asks_for_the_accelerators_that_were_planned(count: int) -> None:
    plan = TrainingPlan(data_parallel=count, sharding="zero3")
    loop = LoopShape("grpo", 64, 8, (512, 2048), 1, count, 8)
    command = verl_flags(replace(job(), framework="fsdp"), plan, loop)
    found = re.search(r"trainer\.n_gpus_per_node=(\d+) trainer\.nnodes=(\d+)", command)
    assert found
    assert int(found.group(1)) * int(found.group(2)) == count
    assert int(found.group(1)) <= 8
    assert "data.max_response_length=2048" in command


STEPS = {
    "megatron-lm": (r"--train-iters (\d+)", r"--global-batch-size (\d+)", r"--seq-length (\d+)"),
    "nemo": (r"train\.train_iters=(\d+)", r"train\.global_batch_size=(\d+)", r"model\.seq_length=(\d+)"),
    "torchtitan": (
        r"--training\.steps (\d+)",
        r"--training\.global_batch_size (\d+)",
        r"--training\.seq_len (\d+)",
    ),
}
"""Steps, sequences of a step and tokens of a sequence in the words of each framework."""
TUNED_STEPS = r"max_steps[ =](\d+)"


@pytest.mark.parametrize(
    ("words", "tokens"),
    [
        ("--workload train --model 8b --tokens 100B --gpus 64 --framework megatron", 100e9),
        ("--workload train --model qwen3-30b-a3b --tokens 20B --gpus 64 --framework torchtitan", 20e9),
        ("--workload train --model 8b --tokens 20B --gpus 64 --framework maxtext", 20e9),
        ("--workload finetune --model 8b --tokens 100M --gpus 8 --framework deepspeed", 100e6),
        ("--workload finetune --model 8b --tokens 50M --method ia3", 50e6),
        ("--workload finetune --model 8b --tokens 50M --method qlora", 50e6),
    ],
)
def test_the_steps_of_a_command_train_the_tokens_that_were_asked(cli: Cli, words: str, tokens: float) -> None:
    run = cli(f"advisor recommend {words} --gpu h100-sxm --as-of 2026-11-20 --top 1 --json")
    option = json.loads(run.out)["options"][0]
    flags = option["launch"]["flags"]
    assert flags
    gpus = option["machine"]["num_accelerators"]
    for name, command in flags.items():
        if name in STEPS:
            steps, batch, length = (int(re.search(one, command)[1]) for one in STEPS[name])  # type: ignore[index]
        elif name == "maxtext":
            accumulation, length, steps = (
                int(re.search(rf"{one}=(\d+)", command)[1])  # type: ignore[index]
                for one in ("gradient_accumulation_steps", "max_target_length", " steps")
            )
            batch = accumulation * gpus * float(re.search(r"per_device_batch_size=([\d.]+)", command)[1])  # type: ignore[index, assignment]
            assert "model_name=llama3.1-8b" in command
        else:
            micro, accumulation, length = (
                int(re.search(rf"{one}[ =](\d+)", command)[1])  # type: ignore[index]
                for one in ("per_device_train_batch_size", "gradient_accumulation_steps", "max_length")
            )
            batch = micro * accumulation * gpus
            steps = int(re.search(TUNED_STEPS, command)[1])  # type: ignore[index]
        assert tokens <= steps * batch * length < tokens + batch * length


@pytest.mark.parametrize("sharding", ["none", "zero1"])
def test_the_precision_aware_optimizer_comes_with_the_distributed_one(sharding: str) -> None:
    """Megatron-Core refuses one without the other: OptimizerConfig.__post_init__."""
    plan = TrainingPlan(sharding=sharding, offload_optimizer=True)  # type: ignore[arg-type]
    for name, command in launch_flags(job("megatron"), plan).items():
        if "precision" in command and name in ("megatron-lm", "nemo"):
            assert "distributed" in command


def test_quantised_weights_are_stored_as_fsdp_divides_them() -> None:
    tuned = replace(job(), method="qlora", lora_rank=16)
    plan = TrainingPlan(data_parallel=2, sharding="zero3", recompute="full")
    assert "--bnb_4bit_quant_storage bfloat16" in launch_flags(tuned, plan)["trl"]
    alone = TrainingPlan(recompute="full")
    assert "quant_storage" not in launch_flags(tuned, alone)["trl"]


@pytest.mark.parametrize(("output", "is_longer"), [(2048, False), (16384, True)])
def test_verl_takes_outputs_longer_than_its_usual_batch(output: int, is_longer: bool) -> None:
    """verl refuses requests that are longer than max_num_batched_tokens: vllm_rollout_spmd.py."""
    shape = LoopShape("grpo", 512, 16, (512, output), 2, 8, 8, 500)
    command = verl_flags(job("megatron"), TrainingPlan(tensor_parallel=2, data_parallel=4), shape)
    assert (f"max_num_batched_tokens={512 + output}" in command) == is_longer
    assert "trainer.total_training_steps=500" in command


def test_verl_reports_to_the_console_alone() -> None:
    """By default it reports to Weights & Biases as well, and stops without an account: verl 0.6.0, ppo_trainer.yaml."""
    shape = LoopShape("grpo", 512, 16, (512, 2048), 2, 8, 8, 500)
    for family, plan in (
        ("megatron", TrainingPlan(data_parallel=8)),
        ("fsdp", TrainingPlan(data_parallel=8)),
    ):
        assert " trainer.logger=console " in verl_flags(job(family), plan, shape)


@pytest.mark.parametrize("name", ["llama-3.1-8b", "mistral-7b-v0.3", "gemma-2-9b", "pythia-1.4b", "opt-1.3b"])
def test_data_on_answers_need_a_chat_template_only_where_the_tokenizer_has_one(name: str) -> None:
    of = replace(job("fsdp"), model=models.by_id(name))
    plan = TrainingPlan(data_parallel=8, sharding="zero3")
    for algorithm in ("dpo", "kto", "reward"):
        command = openrlhf_tuning_flags(of, plan, algorithm, 8, 10)
        weights = command.split("--pretrain ")[1].split()[0]
        has_one = bool(re.search("instruct|chat|-it$", weights, re.IGNORECASE))
        assert has_one == (name not in ("pythia-1.4b", "opt-1.3b"))
        assert ("--apply_chat_template" in command) == has_one
        assert ("TEXT_" in command) != has_one


def test_a_repository_that_was_named_is_the_one_that_learns() -> None:
    named = replace(job("fsdp"), model=models.get("meta-llama/Llama-3.1-8B").record)
    plan = TrainingPlan(data_parallel=8, sharding="zero3")
    assert "--pretrain meta-llama/Llama-3.1-8B " in openrlhf_tuning_flags(named, plan, "dpo", 8, 10)


@pytest.mark.parametrize(("program", "fallback"), [("axolotl", "_fallback_chatml"), ("unsloth", "is None:")])
def test_conversations_train_a_base_model_too(program: str, fallback: str) -> None:
    of = replace(job("peft"), software=program, method="lora", lora_rank=16)
    assert fallback in settings_flags(of, TrainingPlan(recompute="full"), num_steps=10)


def test_maxtext_reads_the_data_that_it_is_given() -> None:
    """Without a type its release trains on random tokens: maxtext 0.2.5, configs/base.yml."""
    command = launch_flags(job("maxtext"), TrainingPlan(data_parallel=8, sharding="zero3"))["maxtext"]
    assert "dataset_type=tfds dataset_path=DATA" in command
    assert "tokenizer_type=huggingface tokenizer_path=meta-llama/" in command


@pytest.mark.parametrize("algorithm", ["dpo", "kto", "orpo", "reward", "grpo", "rloo", "ppo"])
@pytest.mark.parametrize(("chip", "count"), [("h100-sxm", 1), ("a100-sxm-80gb", 2), ("rtx-4090", 1)])
def test_a_loop_that_fits_no_accelerator_keeps_states_in_host_memory(
    cli: Cli, algorithm: str, chip: str, count: int
) -> None:
    """AdamW keeps 12 bytes a parameter, and the processor gradients in fp32: arXiv:2101.06840, section 4."""
    asked = f"advisor recommend --workload rl --algorithm {algorithm} --model 8b --top 1 --json"
    asked += f" --gpu {chip} --gpus {count} --host-memory 240GB"
    found = cli(asked)
    if algorithm == "ppo" and count == 1:
        assert found.code == 3  # OpenRLHF keeps weights and gradients of both models on the accelerator
        return
    option = json.loads(found.out)["options"][0]
    held = option["performance"]["host_memory_bytes"]
    plan = option["plan"]
    if not plan["offload"]:
        assert held is None
        return
    assert held >= 7.5e9 * 16 / count  # a reward model has no table of outputs

    command = option["launch"]["flags"]["openrlhf" if algorithm == "ppo" else "trl"]
    words = (
        ("--adam_offload",) if algorithm == "ppo" else ("--use_deepspeed", "--offload_optimizer_device cpu")
    )
    assert all(word in command for word in words)
    assert ("--offload_param_device cpu" in command) == ("parameters" in plan["offload"])
    least = cli(f"{asked} --host-memory {held / 2e9:.0f}GB")
    fitting = json.loads(least.out)["options"] if least.code == 0 else []
    assert all((one["performance"]["host_memory_bytes"] or 0) <= held / 2e9 * 1e9 for one in fitting)


def test_adapters_and_named_fsdp_keep_off_the_host(cli: Cli) -> None:
    for more in ("--method lora", "--framework fsdp --gpus 8"):
        found = cli(
            f"advisor recommend --workload rl --algorithm dpo --model 8b --gpu h100-sxm --top 1 --json {more}"
        )
        assert json.loads(found.out)["options"][0]["performance"]["host_memory_bytes"] is None


@pytest.mark.parametrize(
    "name", ["qwen3.5-9b", "gemma-4-12b", "glm-4.7-flash", "qwen3-8b", "exaone-3.5-7.8b"]
)
def test_no_framework_is_told_a_model_that_its_transformers_lack(name: str) -> None:
    """Packages require transformers 4.57.3 (OpenRLHF 0.9.1.post1), at most 5.6.0 (LLaMA-Factory 0.9.5)."""
    of = replace(job("fsdp"), model=models.by_id(name))
    plan = TrainingPlan(data_parallel=8, sharding="zero3", recompute="full")
    family = of.model.family
    assert openrlhf_runs(of, plan) <= is_in_transformers("openrlhf", family)
    assert verl_runs(of, plan) <= is_in_transformers("verl", family)
    adapted = replace(of, framework="peft", method="lora", lora_rank=16)
    for program in tuners():
        runs = settings_run(replace(adapted, software=program), TrainingPlan(recompute="full"))
        assert runs <= is_in_transformers(program, family)
    expected = {"qwen3.5-9b": False, "gemma-4-12b": False, "glm-4.7-flash": False}
    assert is_in_transformers("openrlhf", family) == expected.get(name, True) or name.startswith("exaone")
