"""Printed commands: each parses against its framework's options, and carries all of the plan or is not offered."""

import itertools
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import pytest

from advisor.catalog import accelerators, models
from advisor.catalog.files import DATA_DIR, read_toml
from advisor.catalog.published import checkpoint_format, loadable_checkpoints
from advisor.catalog.schema import Mamba2
from advisor.catalog.training import defines_model
from advisor.decide.training.space import features_of, limits_of, training_job
from advisor.simulator.graph.model import layers_of
from advisor.simulator.training.cluster import TrainingCluster
from advisor.simulator.training.job import OPTIMIZERS, TrainingJob
from advisor.simulator.training.lattice import LatticeLimits, enumerate_lattice, model_limits
from advisor.simulator.training.launch_flags import launch_flags, megatron_flags, stage_layout
from advisor.simulator.training.launch_loops import (
    LoopShape,
    openrlhf_flags,
    openrlhf_runs,
    openrlhf_tunes,
    openrlhf_tuning_flags,
    verl_flags,
    verl_runs,
)
from advisor.simulator.training.launch_start import has_mamba_layers, megatron_builds, placeholders_of
from advisor.simulator.training.launch_tuning import trl_flags, trl_runs
from advisor.simulator.training.plan import RECOMPUTES, SCHEDULES, SHARDINGS, PlanLattice, TrainingPlan
from advisor.simulator.training.reinforcement import GENERATION_MEMORY_FRACTION

OPTIONS = read_toml(DATA_DIR / "training" / "launch_options.toml")
STARTED = ("megatron-lm", "nemo", "torchtitan")
"""Frameworks whose processes torchrun starts."""
COMMANDS = {
    "trl": ("trl", "sft", "dpo", "grpo", "rloo", "kto", "reward", "accelerate", "launch", "orpo.py"),
    "verl": ("python3", "-m", "verl.trainer.main_ppo"),
    "verl-megatron": ("python3", "-m", "verl.trainer.main_ppo"),
    "deepspeed": ("deepspeed",),
    "maxtext": ("python3", "-m", "maxtext.trainers.pre_train.train"),
    "openrlhf": ("python3", "-m", "openrlhf.cli.train_ppo_ray", "deepspeed"),
}
VARIABLES = {
    *("CUDA_DEVICE_MAX_CONNECTIONS", "TRANSFORMER_BASED_WRAP", "GPU"),
    *("NNODES", "NODE_RANK", "JAX_COORDINATOR_IP", "JAX_COORDINATOR_PORT"),
}
"""Capital words of commands that their user does not fill in."""
DECODERS = [model for model in models.all_models() if model.workload == "decoder"]
DENSE = TrainingJob(models.get("llama-3.1-8b").record, 8192, 64)


def wrong(framework: str, command: str) -> list[str]:
    """Parts of a command that its framework would refuse, and scripts that neither it nor a named checkout has."""
    named = {*re.findall(r"cat > (\S+)", command), *placeholders_of(command)}
    command = command.rpartition("\nEOF\n")[
        2
    ]  # programs before it, as one that writes weights out in 16 bits
    scripts = set(re.findall(r"(?<=\s)[\w./-]+\.py(?=\s|$)", command))
    if scripts - named:
        return sorted(scripts - named)
    command = (
        command.partition("; do sleep 5; done\nelse\n")[2].rpartition("done\n")[2].removesuffix("\nfi")
        or command
    )
    while re.match(r"[A-Z_0-9]+=", command):
        command = command.partition(" ")[2]
    if framework in STARTED:
        start, command = split_start(framework, command)
        found = wrong("torchrun", start)
        if found:
            return found
    if "--config-name=ppo_megatron_trainer" in command:
        framework = "verl-megatron"
    known: dict[str, Any] = OPTIONS[framework]["options"]
    if framework == "deepspeed":
        known = known | OPTIONS["trl"]["options"]
    assert "--dataset_name" in command or framework not in ("trl", "deepspeed")
    left = [word for word in shlex.split(command) if word not in COMMANDS.get(framework, ())]
    found = []
    while left:
        name, _, value = left.pop(0).partition("=")
        if name not in known:
            found.append(name)
            continue
        values = [value] if value else []
        while left and not left[0].startswith("--") and "=" not in left[0] and not value:
            values.append(left.pop(0))
        good = is_allowed(known[name], values, framework)
        found += [] if good else [f"{name} {values}"]
    return found


PROGRAMS = {
    "megatron-lm": ("Megatron-LM/pretrain_gpt.py $MODEL", "Megatron-LM/pretrain_mamba.py $MODEL"),
    "nemo": ("Megatron-Bridge/scripts/training/run_recipe.py",),
    "torchtitan": ("-m torchtitan.train",),
}


def split_start(framework: str, command: str) -> tuple[str, str]:
    """Options of torchrun in a command, and the framework's own with a number for the steps."""
    command = command.removeprefix("CUDA_DEVICE_MAX_CONNECTIONS=1 ").replace('"$STEPS"', "100")
    program = next(name for name in PROGRAMS[framework] if f" {name} " in command)
    start, own = command.split(f" {program} ")
    assert start.startswith("torchrun ")
    return start.removeprefix("torchrun "), own


def is_allowed(kind: Any, values: list[str], framework: str) -> bool:
    """Whether an option of this kind takes these words."""
    if kind == "flag":
        return not values
    if kind == "switch":
        return not values or values in (["True"], ["False"])
    if kind == "json":
        return len(values) == 1 and not wrong_keys(json.loads(values[0]), OPTIONS[framework]["keys"])
    if kind == "int or null" and values == ["null"]:
        return True
    if kind in ("int", "int or null", "axis", "number"):
        digits = (
            values[0].removeprefix("-") if kind == "axis" else values[0].replace(".", "", kind == "number")
        )
        return len(values) == 1 and digits.isdigit()
    return bool(values) and (kind == "text" or set(values) <= set(kind))


def wrong_keys(config: dict[str, Any], known: dict[str, Any], before: str = "") -> list[str]:
    """Keys of a configuration that are unknown or have another kind of value."""
    found = []
    for name, value in config.items():
        path = f"{before}{name}"
        if isinstance(value, dict):
            found += wrong_keys(value, known, f"{path}.")
            continue
        kind = known.get(path)
        kinds = {"int": int, "bool": bool}
        good = value in kind if isinstance(kind, list) else type(value) is kinds.get(str(kind))
        found += [] if good else [path]
    return found


def plans() -> Iterator[tuple[TrainingJob, TrainingPlan]]:
    for name in ("llama-3.1-8b", "deepseek-v3", "llama-3.1-405b"):
        job = TrainingJob(models.get(name).record, 8192, 2048)
        limits = LatticeLimits(
            8,
            schedules=SCHEDULES,
            recompute=RECOMPUTES,
            sharding=SHARDINGS,
            recompute_shares=(0.5, 1.0),
            micro_batch=(1, 2),
            shard_groups=(0, 8),
            offload=(False, True),
            offload_parameters=(False, True),
        )
        lattice = enumerate_lattice(job, 512, limits)
        for row in range(0, len(lattice), max(1, len(lattice) // 400)):
            yield job, lattice.plan(row)


def test_every_table_names_its_release_and_what_was_checked() -> None:
    for name, table in OPTIONS.items():
        assert all(table[field] for field in ("release", "where", "accessed", "checked", "options")), name
    both = OPTIONS["verl"]["options"].keys() ^ OPTIONS["verl-megatron"]["options"].keys()
    assert all(
        "megatron" in option for option in both - OPTIONS["verl"]["options"].keys() - {"--config-name"}
    )


@pytest.mark.parametrize("node_size", [1, 4, 8])
@pytest.mark.parametrize("ranks", [1, 2, 8, 12, 64, 96])
def test_as_many_processes_start_as_a_plan_has_ranks(ranks: int, node_size: int) -> None:
    plan = TrainingPlan(data_parallel=ranks, sharding="zero3" if ranks > 1 else "none")
    commands = {
        name: command
        for family in ("megatron", "torchtitan", "deepspeed")
        for name, command in launch_flags(
            replace(DENSE, framework=family), plan, as_priced=True, node_size=node_size
        ).items()
    }
    assert {*STARTED, "deepspeed"} <= commands.keys()
    for name, command in commands.items():
        words = shlex.split(command)
        if name == "trl":
            assert int(words[words.index("--num_processes") + 1]) == ranks
            continue
        nodes, each = (
            ("--num_nodes", "--num_gpus") if name == "deepspeed" else ("--nnodes", "--nproc_per_node")
        )
        machines = int(words[words.index(nodes) + 1]) if nodes in words else 1
        assert machines * int(words[words.index(each) + 1]) == ranks, command
        assert int(words[words.index(each) + 1]) <= node_size
        asks = name != "deepspeed" and machines > 1
        assert ("--standalone" in words) == (name != "deepspeed" and machines == 1)
        assert ("$HEAD" in command) == asks


def test_layouts_that_share_multiplications_start_with_one_queue() -> None:
    for plan, is_needed in (
        (TrainingPlan(8, sharding="zero1"), True),
        (TrainingPlan(context_parallel=8, sharding="zero1"), True),
        (TrainingPlan(data_parallel=8, sharding="zero1"), False),
        (TrainingPlan(2, data_parallel=4, sharding="zero3"), False),
    ):
        command = launch_flags(DENSE, plan)["megatron-lm"]
        assert command.startswith("CUDA_DEVICE_MAX_CONNECTIONS=1 ") == is_needed


@pytest.mark.parametrize("family", ["megatron", "torchtitan", "deepspeed", "maxtext", "fsdp"])
def test_tuning_starts_from_weights_and_training_from_none(family: str) -> None:
    job = replace(DENSE, framework=family)
    plan = TrainingPlan(data_parallel=8, sharding="zero3")
    tuned = launch_flags(job, plan, as_priced=True, start="tuning")
    assert tuned
    for name, command in launch_flags(job, plan, as_priced=True).items():
        loads = name in ("trl", "deepspeed")  # trainers of transformers, which name the model's repository
        assert ("WEIGHTS" in command or "--model_name_or_path meta-llama/Llama-3.1-8B" in command) == loads
        assert (
            "meta-llama/Llama-3.1-8B" in tuned[name] if loads else "WEIGHTS" in placeholders_of(tuned[name])
        )
        assert not wrong(name, tuned[name])


def test_trainers_of_transformers_get_weights_of_16_bits() -> None:
    """Transformers refuses to tune models in FP8 or MXFP4."""
    for model in [one for one in models.all_models() if one.weights not in ("bf16", "fp16")]:
        if model.workload != "decoder":
            continue
        job = replace(DENSE, model=model, framework="deepspeed")
        plan = TrainingPlan(data_parallel=16, sharding="zero2")
        loop = LoopShape("grpo", 512, 8, (512, 2048), 1, 16, 8)
        for command in (
            trl_flags(job, plan),
            trl_flags(replace(job, method="ia3"), plan),
            *launch_flags(job, plan, as_priced=True).values(),
            verl_flags(job, plan, loop),
            openrlhf_flags(job, plan, loop),
        ):
            subprocess.run(["bash", "-n"], input=command.encode(), check=True)
            named = command.rpartition("\nEOF\n")[2] if "ia3.py" not in command else command
            told = re.findall(r"(?:--model_name_or_path |--pretrain |model\.path=|model=')([^ ']+)", named)
            assert told
            for name in told:
                is_widened = name == "./widened" and "dequantize=True" in command
                is_known = any(one.repository == name for one in loadable_checkpoints(model, "bf16"))
                assert is_widened or is_known or checkpoint_format(name) == "bf16"


def test_mamba_layers_have_their_own_trainer() -> None:
    job = TrainingJob(models.get("mamba2-2.7b").record, 2048, 64)
    assert (
        " Megatron-LM/pretrain_mamba.py " in launch_flags(job, TrainingPlan(data_parallel=8))["megatron-lm"]
    )
    assert (
        " Megatron-LM/pretrain_gpt.py " in launch_flags(DENSE, TrainingPlan(data_parallel=8))["megatron-lm"]
    )


def test_every_word_that_is_not_known_is_explained() -> None:
    plan = TrainingPlan(data_parallel=16, sharding="zero2")
    loop = LoopShape("grpo", 512, 8, (512, 2048), 1, 16, 8)
    in_torch = replace(DENSE, framework="fsdp")
    commands = [
        *launch_flags(DENSE, replace(plan, sharding="zero1")).values(),
        *launch_flags(in_torch, plan).values(),
        *launch_flags(replace(DENSE, framework="deepspeed"), plan).values(),
        *launch_flags(replace(DENSE, framework="maxtext"), replace(plan, sharding="zero3")).values(),
        trl_flags(in_torch, plan, "grpo", "--reward_funcs REWARD"),
        verl_flags(in_torch, plan, loop),
        openrlhf_flags(replace(DENSE, framework="deepspeed"), plan, loop),
    ]
    for command in commands:
        told = placeholders_of(command)
        assert all(told.values())
        left = command
        for word in sorted(told, key=len, reverse=True):
            left = left.replace(word, "")
        rest = set(re.findall(r"(?<![\w.-])\$?[A-Z]{3,}\b", left))
        assert rest <= VARIABLES, (rest, command)


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


@pytest.mark.parametrize("method", ["lora", "qlora", "full"])
@pytest.mark.parametrize("sharding", SHARDINGS)
def test_gradients_that_fsdp_divides_stay_divided_while_they_accumulate(method: str, sharding: Any) -> None:
    """Source: transformers 5.24.0, trainer.py: without sync_each_batch, no micro-batch but the last reduces them."""
    plan = TrainingPlan(data_parallel=4, sharding=sharding)
    for batch in (4, 64):
        rank = 0 if method == "full" else 16
        job = replace(DENSE, method=method, lora_rank=rank, framework="fsdp", global_batch=batch)
        command = launch_flags(job, plan).get("trl", "")
        accumulates = "--use_fsdp" in command and batch > 4
        assert ('"sync_each_batch": true' in command) == accumulates
        assert not wrong("trl", command)


@pytest.mark.parametrize("family", ["peft", "deepspeed"])
@pytest.mark.parametrize("method", ["lora", "ia3", "full"])
def test_commands_of_divided_sequences_carry_every_rank(family: str, method: str) -> None:
    """Source: TRL 1.16.0 refuses packing and loops with divided sequences; accelerate 1.15.0, parallelism_config.py."""
    rank = 16 if method == "lora" else 0
    job = replace(DENSE, method=method, lora_rank=rank, framework=family)  # type: ignore[arg-type]
    plan = TrainingPlan(context_parallel=4, data_parallel=2, sharding="zero3", recompute="full")
    assert trl_runs(job, plan)
    assert not trl_runs(job, plan, "grpo")
    assert not trl_runs(job, replace(plan, sharding="none"))
    command = launch_flags(job, plan)["trl"]
    assert "--num_processes 8" in command
    assert ("SP_SIZE=4" if family == "deepspeed" else "--parallelism_config_cp_size 4") in command
    assert not re.search(r"--packing|packing=", command)
    assert re.search(r"sdpa", command)
    assert method == "ia3" or not wrong("trl", command)
    windowed = replace(job, model=models.get("gemma-2-9b").record)
    recurrent = replace(job, model=models.by_id("qwen3-next-80b-a3b"))
    assert trl_runs(windowed, plan) == (family == "deepspeed")
    assert not trl_runs(recurrent, plan)


@pytest.mark.parametrize("trainer", ["sft", "dpo", "kto", "reward", "grpo", "orpo"])
def test_activations_in_host_memory_are_an_option_of_some_trainers(trainer: str) -> None:
    """Source: TRL 1.16.0, trainer/*_config.py."""
    plan = TrainingPlan(micro_batch=2, recompute="full", offload_activations=True)
    job = replace(DENSE, method="lora", lora_rank=8, framework="peft")
    assert trl_runs(job, plan, trainer) == (trainer in ("sft", "dpo", "kto", "reward"))
    command = trl_flags(job, plan)
    assert "--activation_offloading" in command
    assert not wrong("trl", command)


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
    assert "accelerate launch" in trl_flags(job, plan)
    assert bool(offload) == ("accelerate launch" in trl_flags(job, replace(plan, data_parallel=1)))
    for layout in (
        plan,
        replace(plan, tensor_parallel=2, recompute="full"),
        replace(plan, context_parallel=2),
    ):
        for algorithm in ("grpo", "ppo"):
            loop = LoopShape(algorithm, 64, 8, (512, 1024), 1, 8, 8)
            for family in ("megatron", "torchtitan") if method == "full" else ("torchtitan",):
                command = verl_flags(replace(job, framework=family), layout, loop)
                assert not wrong("verl", command)
                assert "log_prob_micro_batch_size_per_gpu" in command
                assert ("megatron" in command) == (family == "megatron")


def test_verl_carries_a_plan_or_is_not_offered() -> None:
    plan = TrainingPlan(2, 2, data_parallel=2, sharding="zero1", recompute="full", recompute_layers=3)
    loop = LoopShape("grpo", 64, 8, (512, 1024), 1, 8, 8)
    assert verl_runs(DENSE, plan)
    assert "recompute_method=block" in verl_flags(DENSE, plan, loop)
    command = verl_flags(DENSE, replace(plan, recompute="modules", recompute_layers=-1), loop)
    assert "recompute_modules=[layernorm]" in command
    assert not wrong("verl", command)
    apart = TrainingPlan(data_parallel=8, sharding="zero3")
    in_torch = replace(DENSE, framework="torchtitan")
    assert verl_runs(in_torch, apart)
    assert not verl_runs(in_torch, replace(apart, recompute="selective"))
    assert verl_runs(replace(in_torch, method="lora", lora_rank=8), apart)
    assert not verl_runs(replace(in_torch, method="qlora", lora_rank=8), apart), "its adapters are plain"
    assert not verl_runs(DENSE, replace(plan, first_stage_layers=3))
    assert not verl_runs(replace(DENSE, method="lora", lora_rank=8), plan), (
        "its Megatron trainer has no adapters"
    )
    assert not verl_runs(replace(DENSE, compute_dtype="fp8"), plan)


FAMILIES = {
    "maxtext": {"sharding": ("zero3",), "recompute": ("none", "full")},
    "deepspeed": {"sharding": ("none", "zero1", "zero2", "zero3"), "recompute": ("none", "full")},
    "fsdp": {"sharding": ("none", "zero2", "zero3"), "recompute": ("none", "full")},
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b"])
def test_commands_of_other_families_parse_and_carry_the_batch(family: str, model: str) -> None:
    job = TrainingJob(models.get(model).record, 4096, 128, framework=family)
    whole = () if family == "maxtext" else (1,)
    limits = LatticeLimits(
        8,
        schedules=("1f1b",),
        micro_batch=(1, 2),
        tensor_parallel=whole,
        pipeline_parallel=(1,),
        context_parallel=whole,
        expert_parallel=whole,
        offload=(False, True),
        offload_parameters=(False, True),
        **FAMILIES[family],  # type: ignore[arg-type]
    )
    lattice = enumerate_lattice(job, 16, limits)
    seen = set()
    for row in range(len(lattice)):
        plan = lattice.plan(row)
        for framework, command in launch_flags(job, plan, as_priced=True).items():
            assert not wrong(framework, command), (framework, command)
            seen.add(framework)
            if framework == "deepspeed":
                config = json.loads(shlex.split(command)[shlex.split(command).index("--deepspeed") + 1])
                assert config["train_batch_size"] == 128
                assert ("offload_param" in config["zero_optimization"]) == plan.offload_parameters
                assert ("offload_optimizer" in config["zero_optimization"]) == plan.offload_optimizer
            if framework == "maxtext":
                words = dict(word.split("=") for word in shlex.split(command) if "=" in word)
                accumulated = float(words["per_device_batch_size"]) * int(
                    words["gradient_accumulation_steps"]
                )
                assert accumulated * 16 == 128
                assert int(words["ici_tensor_parallelism"]) == plan.tensor_parallel
    assert family in seen or family == "fsdp"
    assert seen <= {family, "trl", "torchtitan"}


@pytest.mark.parametrize("together", [True, False])
def test_loops_of_openrlhf_parse(together: bool) -> None:
    plan = TrainingPlan(
        data_parallel=4, context_parallel=2, micro_batch=2, sharding="zero3", recompute="full"
    )
    for job in (DENSE, replace(DENSE, method="lora", lora_rank=16)):
        for algorithm in ("grpo", "ppo"):
            assert openrlhf_runs(job, plan)
            loop = LoopShape(algorithm, 64, 8, (512, 1024), 2, 8, 8)
            moved = replace(plan, offload_optimizer=True)
            command = openrlhf_flags(job, moved, loop, steps_off_policy=1, together=together)
            assert not wrong("openrlhf", command), command
            assert "--vllm_num_engines 4" in command
            assert "--ring_attn_size 2" in command
            assert "--train_batch_size 512" in command
    assert not openrlhf_runs(DENSE, replace(plan, tensor_parallel=2))


@pytest.mark.parametrize(("algorithm", "trainer"), [("dpo", "dpo"), ("reward", "rm"), ("kto", "kto")])
def test_trainers_of_openrlhf_on_given_outputs_parse(algorithm: str, trainer: str) -> None:
    job = replace(DENSE, method="lora", lora_rank=16, framework="fsdp")
    plan = TrainingPlan(data_parallel=16, micro_batch=2, sharding="zero3", recompute="full")
    assert openrlhf_tunes(job, plan, algorithm)
    command = openrlhf_tuning_flags(job, plan, algorithm, 8, 10)
    assert not wrong("openrlhf", command), command
    assert command.startswith(
        f"deepspeed --hostfile HOSTFILE --num_nodes 2 --num_gpus 8 --module openrlhf.cli.train_{trainer} "
    )
    assert f"--max_samples {10 * job.global_batch}" in command
    # Its KTO has neither rows of several sequences nor rings of context ranks.
    ring = replace(plan, context_parallel=2)
    assert openrlhf_tunes(job, ring, algorithm) == (algorithm != "kto")
    assert ("--packing_samples" in command) == (algorithm != "kto")
    assert not openrlhf_tunes(job, plan, "orpo")


@pytest.mark.parametrize("optimizer", ["adamw", "adamw_bf16", "sgd", "muon"])
@pytest.mark.parametrize("precision", ["bf16", "fp8", "mxfp8", "fp16"])
def test_no_command_of_megatron_breaks_a_rule_between_its_options(optimizer: Any, precision: str) -> None:
    """Source: Megatron-LM core_v0.16.0, validate_args; transformer_config.py and optimizer/muon.py of the core."""
    features = features_of("full", "megatron", precision)
    for job, plan in plans():
        asked = replace(job, optimizer=optimizer, compute_dtype=precision, features=features)
        command = launch_flags(asked, plan).get("megatron-lm", "")
        words = set(command.split())
        divided = bool({"--use-distributed-optimizer", "--use-megatron-fsdp"} & words)
        assert ("--use-megatron-fsdp" in words) == ("fsdp_dtensor" in words)
        assert "moe_act" not in words or "--moe-grouped-gemm" in words or "--offload-modules" in words
        assert "--fp8-param-gather" not in words or divided
        in_buffer = {"--fp8-param-gather", "mxfp8", "--use-distributed-optimizer"} <= words
        assert ("--reuse-grad-buf-for-mxfp8-param-ag" in words) == in_buffer
        assert not {"delayed", "layernorm"} <= words
        assert not {"dist_muon", "muon"} & words or not (divided or "--overlap-grad-reduce" in words)
        assert ("--fine-grained-activation-offloading" in words) == ("NVTE_CPU_OFFLOAD_V1=1" in words)


def test_overrides_of_a_recipe_leave_none_of_its_own_layout() -> None:
    """Recipes have stages, recomputation and sharding for some accelerators: a plan states its own, also if none."""
    stated = (
        "virtual_pipeline_model_parallel_size",
        "pipeline_model_parallel_layout",
        "recompute_granularity",
        "recompute_method",
        "recompute_num_layers",
    )
    for job, plan in plans():
        command = launch_flags(job, plan).get("nemo", "")
        if command:
            assert all(f" model.{name}=" in command for name in stated)
            counts = " model.recompute_num_layers=null" not in command
            assert counts == (" model.recompute_granularity=full" in command)
            assert "use_distributed_optimizer=" in command or "use_megatron_fsdp=true" in command
            assert ("model.mtp_num_layers=0" in command) == bool(job.model.mtp_layers)
            assert " comm_overlap." not in command, "recipes without that part refuse it"


def test_torchtitan_has_the_mesh_of_every_offered_plan() -> None:
    """Source: torchtitan 0.2.0, distributed/parallel_dims.py, models/llama3/infra/parallelize.py."""
    mixed = TrainingJob(models.get("qwen3-30b-a3b").record, 8192, 2048)
    lattice = enumerate_lattice(mixed, 64, LatticeLimits(8, sharding=SHARDINGS))
    for job, plan in (*plans(), *((mixed, lattice.plan(row)) for row in range(0, len(lattice), 7))):
        if "torchtitan" not in launch_flags(job, plan):
            continue
        if plan.sharding == "none" and plan.data_parallel > 1:
            assert plan.num_accelerators == plan.data_parallel
        if plan.expert_parallel > 1 and plan.expert_tensor_parallel <= 1:
            assert plan.expert_parallel % (plan.context_parallel * plan.tensor_parallel) == 0
        assert plan.context_parallel == 1 or job.model.id != "deepseek-v3"


def test_tensor_ranks_hold_whole_heads_of_keys_or_copies_of_them() -> None:
    for model in models.all_models():
        job = TrainingJob(model, 4096, 64)
        tried = {plan.tensor_parallel for plan in _some(enumerate_lattice(job, 8, LatticeLimits(8)))}
        heads = model_limits(model).key_heads
        assert all(one % tp == 0 or tp % one == 0 for one in heads for tp in tried)


def _some(lattice: PlanLattice) -> Iterator[TrainingPlan]:
    yield from (lattice.plan(row) for row in range(0, len(lattice), max(1, len(lattice) // 50)))


def test_machines_of_a_loop_join_before_it_starts() -> None:
    plan = TrainingPlan(data_parallel=16, sharding="zero3")
    job = replace(DENSE, framework="fsdp")
    for count, is_spread in ((8, False), (16, True)):
        loop = LoopShape("grpo", 64, 8, (512, 1024), 1, count, 8, reward_model="org/judge")
        for command in (
            verl_flags(job, replace(plan, data_parallel=count), loop),
            openrlhf_flags(job, replace(plan, data_parallel=count), loop),
        ):
            subprocess.run(["bash", "-n"], input=command.encode(), check=True)
            assert ("ray start --head" in command) == ('ray start --address="$HEAD' in command) == is_spread
            assert f" = {count} ]" in command or not is_spread
            assert "org/judge" in command


def test_gpus_of_maxtext_are_named_and_find_each_other() -> None:
    job = replace(DENSE, framework="maxtext")
    plan = TrainingPlan(data_parallel=16, sharding="zero3")
    on_gpus = launch_flags(job, plan)["maxtext"]
    on_tpus = launch_flags(job, plan, vendor="google")["maxtext"]
    assert 'NNODES=2 NODE_RANK="$RANK" JAX_COORDINATOR_IP="$HEAD"' in on_gpus
    assert "hardware=gpu" in on_gpus
    assert "hardware" not in on_tpus
    assert "$HEAD" not in on_tpus


def test_what_is_printed_for_a_priced_plan_is_of_its_family() -> None:
    plan = TrainingPlan(data_parallel=4, sharding="zero3")
    assert set(launch_flags(replace(DENSE, framework="torchtitan"), plan, as_priced=True)) == {"torchtitan"}
    assert set(launch_flags(replace(DENSE, framework="fsdp"), plan, as_priced=True)) == {"torchtitan", "trl"}
    assert set(launch_flags(DENSE, plan, as_priced=True)) == {"megatron-lm", "nemo"}


@pytest.mark.parametrize(
    ("change", "of_job", "frameworks"),
    [
        ({"offload_optimizer": True}, {}, {"megatron-lm", "nemo", "trl"}),
        ({"offload_activations": True}, {}, {"megatron-lm", "trl"}),
        ({"offload_parameters": True}, {}, set()),
        ({"offload_parameters": True, "sharding": "zero3"}, {}, {"trl"}),
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


def test_every_process_of_a_plan_is_launched() -> None:
    sizes = ((1, 8), (8, 8), (16, 8), (32, 4))
    trainers = ("sft", "dpo", "kto", "orpo", "reward", "grpo", "rloo")
    for framework, sharding, (count, node_size), trainer in itertools.product(
        ("fsdp", "deepspeed", "peft"), SHARDINGS, sizes, trainers
    ):
        job = replace(DENSE, framework=framework)
        plan = TrainingPlan(data_parallel=count, sharding=sharding)
        command = trl_flags(job, plan, trainer, "--max_length 99", node_size=node_size)
        assert not wrong("trl", command), command
        words = shlex.split(command.rpartition("\nEOF\n")[2])
        if count == 1 and trainer != "orpo":
            assert words[:2] == ["trl", trainer]
            continue
        assert words[words.index("--num_processes") + 1] == str(count)
        start = words.index("orpo.py" if trainer == "orpo" else f"trl.scripts.{trainer}")
        assert words.index("--num_processes") < start < words.index("--model_name_or_path"), (
            "Accelerate's come first"
        )
        machines = count // node_size
        assert (machines > 1) == ("--num_machines" in words) == ("--machine_rank" in words)
        if machines > 1:
            assert words[words.index("--num_machines") + 1] == str(machines)
            assert ("--use_deepspeed" in words) == ("--deepspeed_multinode_launcher" in words)


@pytest.mark.parametrize(
    ("model", "frameworks"),
    [
        ("llama-3.1-8b", {"megatron-lm", "nemo", "torchtitan", "trl"}),
        ("qwen3-30b-a3b", {"megatron-lm", "nemo", "torchtitan", "trl"}),
        ("deepseek-v3", {"megatron-lm", "nemo", "torchtitan", "trl"}),
        ("mixtral-8x7b", {"megatron-lm", "trl"}),
        ("gemma-2-9b", {"nemo", "trl"}),
        ("pythia-1.4b", {"trl"}),
        ("olmo-2-7b", {"trl"}),
        ("gla-1.3b", {"trl"}),
        ("rwkv7-2.9b", {"trl"}),
    ],
)
def test_only_frameworks_with_the_model_have_a_command(model: str, frameworks: set[str]) -> None:
    job = TrainingJob(models.get(model).record, 2048, 64)
    found = launch_flags(job, TrainingPlan(data_parallel=8, sharding="zero3"))
    assert set(found) == frameworks
    assert ("--trust_remote_code" in found["trl"]) == (model in ("gla-1.3b", "rwkv7-2.9b"))
    if "torchtitan" in found:
        assert "--model.flavor FLAVOR" not in found["torchtitan"]


@pytest.mark.parametrize("count", [1, 8, 16])
def test_adapters_without_an_option_of_trl_have_a_program(count: int) -> None:
    job = replace(DENSE, method="ia3", lora_rank=0, framework="peft", optimizer="adafactor")
    (command,) = launch_flags(job, TrainingPlan(data_parallel=count), as_priced=True).values()
    program, start = command.removeprefix("cat > ia3.py <<'EOF'\n").rsplit("\nEOF\n", 1)
    compile(program, "ia3.py", "exec")
    assert "IA3Config" in program
    assert "optim='adafactor'" in program
    assert start == "python3 ia3.py" or f"--num_processes {count}" in start


def test_sequences_of_nemo_are_as_long_in_the_data_set_as_in_the_model() -> None:
    """Source: Megatron-Bridge 0.3.0, training/config.py, ConfigContainer.validate; scripts/training/run_recipe.py."""
    jobs = {job.model.id: replace(job, sequence_tokens=6144) for job, _ in plans()}.values()
    for job, (start, packed) in product((*jobs, DENSE), (("new", False), ("tuning", True))):
        for plan in (TrainingPlan(data_parallel=8), TrainingPlan(context_parallel=4, micro_batch=2)):
            command = launch_flags(job, plan, start=start).get("nemo", "")
            assert bool(command) == (plan.micro_batch == 1 or not packed), "Rows of packed data pass alone."
            if not command:
                continue
            length = f"--packed_sequence --seq_length {job.sequence_tokens}"
            assert (length in command) == packed
            assert (f" dataset.sequence_length={job.sequence_tokens}" in command) != packed
    tuned = launch_flags(DENSE, TrainingPlan(context_parallel=4), start="tuning")["nemo"]
    assert " dataset.packed_sequence_specs.pad_seq_to_mult=8 " in tuned
    assert "model.calculate_per_token_loss=true ddp.average_in_collective=false" in tuned


def test_recipes_of_nemo_are_named_where_the_release_has_them() -> None:
    for model in DECODERS:
        table = read_toml(DATA_DIR / "training" / "models.toml")["nemo"]
        for start, ending in (("new", "pretrain_config"), ("tuning", "finetune_config")):
            command = launch_flags(replace(DENSE, model=model), TrainingPlan(), start=start).get("nemo", "")
            if not command:
                continue
            stem = table["flavors"].get(model.id)
            has_recipe = stem and not (start == "tuning" and stem in table["no_tuning"])
            assert f" --recipe {stem}_{ending} " in command if has_recipe else " --recipe RECIPE " in command
            assert ("RECIPE" in placeholders_of(command)) == (not has_recipe)


def test_mamba_layers_are_recomputed_by_no_option_of_megatron() -> None:
    """Source: Megatron-Core 0.16.0, core/ssm: no checkpoint of a Mamba layer; mamba_block.py, stages of equal sizes."""
    for model in [one for one in models.all_models() if has_mamba_layers(one)]:
        job = TrainingJob(model, 4096, 64)
        layers = model_limits(model).num_layers
        for stages in range(1, layers + 1):
            for plan in (
                TrainingPlan(pipeline_parallel=stages),
                TrainingPlan(pipeline_parallel=stages, virtual_stages=2, schedule="interleaved"),
            ):
                runs = "megatron-lm" in launch_flags(job, plan)
                assert not runs or (layers % stages == 0 and plan.virtual_stages == 1)
        for recompute in RECOMPUTES:
            found = launch_flags(job, TrainingPlan(recompute=recompute))
            is_described = any(defines_model(name, model.family) for name in ("megatron-lm", "nemo"))
            runs = recompute == "none" and megatron_builds(model) and is_described
            assert bool({"megatron-lm", "nemo"} & found.keys()) == runs
        assert limits_of(job, TrainingCluster(accelerators.by_id("h100-sxm"))).recompute == ("none",)


def test_megatron_gives_each_tensor_rank_whole_groups_of_mamba_2() -> None:
    """Source: Megatron-Core 0.16.0, core/ssm/mamba_mixer.py: assertions on ngroups and nheads, one step per head."""
    for model in [one for one in models.all_models() if has_mamba_layers(one)]:
        mixers = [group.mixer for group in model.layers if isinstance(group.mixer, Mamba2)]
        job = TrainingJob(model, 4096, 64)
        for ways in (1, 2, 4, 8):
            whole = all(mixer.num_groups % ways == mixer.num_heads % ways == 0 for mixer in mixers)
            second = all(mixer.time_step_rank is None for mixer in mixers)
            found = launch_flags(job, TrainingPlan(tensor_parallel=ways))
            is_defined = defines_model("megatron-lm", model.family)
            assert ("megatron-lm" in found) == (whole and second and is_defined)
            tried = limits_of(job, TrainingCluster(accelerators.by_id("h100-sxm"))).tensor_parallel
            assert (ways in tried) == whole


def test_trainers_of_transformers_compute_attention_as_priced() -> None:
    """Source: transformers 5.24.0, modeling_utils.py; TRL 1.16.0, sft_trainer.py (padding_free)."""
    for architecture in ["hopper", "blackwell"]:
        for model in DECODERS:
            job = training_job(
                model, 4096, 64, "bf16", "peft", method="lora", lora_rank=8, architecture=architecture
            )
            command = launch_flags(job, TrainingPlan(data_parallel=2), as_priced=True).get("trl")
            if command is None:
                continue
            assert not wrong("trl", command)
            kernel = re.search(r"--attn_implementation (\S+)", command)
            stores = "unfused_attention" in job.features
            assert (kernel is not None and kernel[1] == "eager") == stores
            by_kernel = kernel is not None and "flash" in kernel[1]
            assert by_kernel != ("--packing_strategy wrapped" in command)
            wide = any(one.attention is not None and one.attention.key_dim > 256 for one in layers_of(model))
            assert not (wide and by_kernel)
            if model.family == "gpt_oss":
                assert stores == (architecture != "hopper")


@pytest.mark.parametrize("framework", ["fsdp", "deepspeed", "peft"])
def test_new_models_start_from_new_weights(framework: str) -> None:
    job = replace(DENSE, framework=framework)
    for count in (1, 16):
        commands = launch_flags(job, TrainingPlan(data_parallel=count, sharding="zero3"), start="new")
        for name in commands.keys() & {"trl", "deepspeed"}:
            subprocess.run(["bash", "-n"], input=commands[name].encode(), check=True)
            assert "from_config" in commands[name]
            assert "--model_name_or_path ./new " in commands[name]
            assert not wrong(name, commands[name])
    assert "from_config" not in launch_flags(job, TrainingPlan(), start="tuning")["trl"]


@pytest.mark.parametrize(
    ("trainer", "columns"),
    [
        *(("sft", "messages"), ("dpo", "chosen"), ("orpo", "rejected"), ("reward", "chosen")),
        *(("kto", "label"), ("grpo", "prompt"), ("rloo", "prompt")),
    ],
)
@pytest.mark.parametrize("count", [1, 8])
def test_columns_of_a_data_set_are_those_of_its_trainer(trainer: str, columns: str, count: int) -> None:
    job = replace(DENSE, framework="fsdp")
    command = trl_flags(job, TrainingPlan(data_parallel=count, sharding="zero3"), trainer)
    assert columns in placeholders_of(command)["DATASET"]
    assert ("messages" in placeholders_of(command)["DATASET"]) == (trainer == "sft")


@pytest.mark.parametrize(("sharding", "size", "is_kept"), [("none", 1, 0), ("zero2", 0, 1), ("zero3", 0, 0)])
def test_verl_divides_states_as_planned(sharding: Any, size: int, is_kept: int) -> None:
    """Source: verl 0.6.0, workers/fsdp_workers.py: fsdp_size ranks share a copy, all of them by default."""
    loop = LoopShape("grpo", 64, 8, (512, 1024), 1, 8, 8)
    command = verl_flags(
        replace(DENSE, framework="fsdp"), TrainingPlan(data_parallel=8, sharding=sharding), loop
    )
    assert not wrong("verl", command)
    assert ("fsdp_config.fsdp_size=1" in command) == bool(size)
    assert ("fsdp_config.reshard_after_forward=False" in command) == bool(is_kept)


def test_loops_run_where_their_kernel_of_attention_does() -> None:
    """FlashAttention-2, with which verl 0.6.0 and OpenRLHF 0.9.1.post1 load models, has no sinks."""
    plan = TrainingPlan(data_parallel=8, sharding="zero3")
    for name, runs in (("llama-3.1-8b", True), ("gpt-oss-20b", False)):
        job = TrainingJob(models.get(name).record, 2048, 64, framework="fsdp")
        assert verl_runs(job, plan) == openrlhf_runs(job, plan) == runs


@pytest.mark.parametrize("method", ["lora", "qlora", "dora", "full"])
def test_adapters_of_a_reward_model_keep_its_head(method: Any) -> None:
    """Source: TRL 1.16.0, trainer/model_config.py, lora_task_type."""
    for is_reward in (False, True):
        switches = frozenset({"scalar_head"} if is_reward else ())
        job = training_job(
            DENSE.model, 2048, 64, "bf16", "peft", method=method, lora_rank=8, switches=switches
        )
        command = trl_flags(job, TrainingPlan(), "reward" if is_reward else "dpo")
        assert not wrong("trl", command)
        assert ("--lora_task_type SEQ_CLS" in command) == (is_reward and method != "full")


@pytest.mark.parametrize("model", ["mamba2-2.7b", "nemotron-4-15b"])
def test_a_repository_without_a_class_is_loaded_by_no_trainer_of_transformers(model: str) -> None:
    job = TrainingJob(models.get(model).record, 2048, 64, framework="fsdp")
    assert not launch_flags(job, TrainingPlan(), as_priced=True)
    assert not openrlhf_runs(job, TrainingPlan(sharding="zero3", data_parallel=2))


@pytest.mark.parametrize(("family", "kept"), [("peft", False), ("fsdp", True), ("deepspeed", True)])
def test_weights_that_learn_are_kept_in_fp32_only_where_they_were_priced_so(family: str, kept: bool) -> None:
    """Source: accelerate 1.15.0, utils/fsdp_utils.py; catalog/data/training/memory.toml (states)."""
    plan = TrainingPlan(data_parallel=8, sharding="zero3")
    for method in ("full", "lora"):
        job = training_job(DENSE.model, 4096, 64, "bf16", family, method=method, lora_rank=8)
        command = trl_flags(job, plan)
        assert not wrong("trl", command)
        assert ("--bf16 False" in command) == (not kept and method == "full")


def test_losses_of_trl_hold_no_whole_logits() -> None:
    """Source: TRL 1.16.0, kernels/chunked_logprob.py."""
    for method, version, generates_too, is_tiled in (
        ("lora", "", False, True),
        ("qlora", "", False, True),
        ("full", "", False, True),
        ("lora", "0.15.0", False, False),
        ("lora", "", True, False),
    ):
        make = partial(training_job, DENSE.model, 4096, 64, "bf16", "peft", lora_rank=8)
        job = make(method=method, version=version, generates_too=generates_too)
        assert ("linear_ce" in job.features) == is_tiled


def test_recipes_of_nemo_are_printed_for_chips_of_nvidia_alone() -> None:
    """Source: megatron_bridge 0.3.0 (PyPI), METADATA: transformer-engine[core_cu13]."""
    plan = TrainingPlan(data_parallel=8, sharding="zero1")
    assert set(launch_flags(DENSE, plan, as_priced=True, vendor="amd")) == {"megatron-lm"}
    ranks = replace(plan, tensor_parallel=2, sequence_parallel=True)
    overlaps = {
        vendor: "--tp-comm-overlap" in launch_flags(DENSE, ranks, vendor=vendor)["megatron-lm"]
        for vendor in ("nvidia", "amd")
    }
    assert overlaps == {"nvidia": True, "amd": False}


@pytest.mark.parametrize("chunks", [1, 2, 4])
@pytest.mark.parametrize("layers", [1, 2, 3, 4, 6, 8])
def test_megatron_recomputes_the_layers_of_a_stage_that_were_priced(chunks: int, layers: int) -> None:
    """Megatron counts recomputed layers by the chunk of a stage."""
    plan = TrainingPlan(
        pipeline_parallel=4,
        virtual_stages=chunks,
        schedule="interleaved" if chunks > 1 else "1f1b",
        recompute="full",
        recompute_layers=layers,
    )
    loop = LoopShape("grpo", 512, 8, (512, 2048), 1, 4, 8)
    found = launch_flags(DENSE, plan)
    if layers % chunks:
        assert not {"megatron-lm", "nemo"} & found.keys()
        assert not verl_runs(DENSE, plan)
        return
    commands = [found["megatron-lm"], found["nemo"], verl_flags(DENSE, plan, loop)]
    for command in commands:
        assert re.findall(r"recompute[-_]num[-_]layers[ =](\d+)", command) == [str(layers // chunks)]


def test_searched_plans_recompute_as_many_layers_in_each_chunk() -> None:
    limits = LatticeLimits(8, recompute=("full",), recompute_shares=(0.25, 0.5, 0.75, 1.0))
    lattice = enumerate_lattice(DENSE, 16, limits)
    some = lattice.recompute_layers > 0
    assert (lattice.recompute_layers[some] % lattice.virtual_stages[some] == 0).all()
    assert (some & (lattice.virtual_stages > 1)).any()
    per_stage = model_limits(DENSE.model).num_layers / lattice.pipeline_parallel
    assert (lattice.recompute_layers < per_stage).all()


@pytest.mark.parametrize("name", ["qwen3-8b", "qwen3-30b-a3b"])
def test_stages_are_planned_only_where_the_release_divides_the_model(name: str) -> None:
    """Source: torchtitan 0.2.0, models/qwen3: pipelining_fn=None."""
    job = TrainingJob(models.get(name).record, 4096, 64, framework="torchtitan")
    staged = TrainingPlan(pipeline_parallel=2, data_parallel=4, sharding="zero3")
    whole = TrainingPlan(data_parallel=8, sharding="zero3")
    assert not launch_flags(job, staged, as_priced=True)
    assert launch_flags(job, whole, as_priced=True)
    assert launch_flags(replace(DENSE, framework="torchtitan"), staged, as_priced=True)
    limits = limits_of(job, TrainingCluster(accelerators.by_id("h100-sxm")))
    assert limits.pipeline_parallel == (1,)


def test_no_trainer_of_text_starts_an_encoder_or_an_image_model() -> None:
    for model in [one for one in models.all_models() if one.workload != "decoder"]:
        for family in ("megatron", "torchtitan", "fsdp", "peft", "deepspeed", "maxtext"):
            assert not launch_flags(TrainingJob(model, 64, 8, framework=family), TrainingPlan())


@pytest.mark.parametrize("algorithm", ["grpo", "rloo", "ppo"])
@pytest.mark.parametrize("family", ["megatron", "fsdp"])
def test_states_give_way_to_a_generating_engine_as_priced(algorithm: Any, family: str) -> None:
    """The price of a loop moves states to the host; the engine gets a stated fraction of the memory."""
    job = replace(DENSE, framework=family)
    plan = TrainingPlan(data_parallel=8, sharding="zero1" if family == "megatron" else "zero3")
    loop = LoopShape(algorithm, 64, 8, (512, 1024), 2, 8, 8, reward_model="org/judge")
    command = verl_flags(job, plan, loop)
    assert not wrong("verl", command)
    words = command.split()
    models_held = ["actor_rollout_ref.actor", "actor_rollout_ref.ref", "reward_model"]
    for model in [*models_held, *(["critic"] if algorithm == "ppo" else [])]:
        assert any(word.startswith(model) and word.endswith("param_offload=True") for word in words)
    assert f"actor_rollout_ref.rollout.gpu_memory_utilization={GENERATION_MEMORY_FRACTION}" in words
    assert not verl_runs(job, replace(plan, offload_optimizer=True)), "states come back for the update"
    ring = openrlhf_flags(replace(job, framework="fsdp"), replace(plan, sharding="zero3"), loop)
    assert f"--vllm_gpu_memory_utilization {GENERATION_MEMORY_FRACTION}" in ring
    assert not wrong("openrlhf", ring)


@pytest.mark.parametrize("method", ["full", "lora"])
def test_commands_are_of_frameworks_that_run_on_the_vendors_chips(method: str) -> None:
    tuned = replace(DENSE, framework="peft", method=method, lora_rank=0 if method == "full" else 16)
    for vendor in sorted({each.vendor for each in accelerators.all_accelerators()}):
        found = launch_flags(tuned, TrainingPlan(), vendor=vendor)
        assert bool(found) == (vendor in ("nvidia", "amd"))
