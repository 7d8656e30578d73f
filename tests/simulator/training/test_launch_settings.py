"""Settings files of frameworks that tune: each says the whole plan as it is priced, or the plan is refused."""

import ast
import random
import re
import shlex
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import yaml

from advisor.catalog import models
from advisor.catalog.training import software_of, tuner_named, tuners
from advisor.simulator.graph.model import layers_of
from advisor.simulator.graph.operator import Layer
from advisor.simulator.training.job import METHODS, OPTIMIZERS, TrainingJob
from advisor.simulator.training.launch_flags import launch_flags
from advisor.simulator.training.launch_settings import PARTS, missing_settings, settings_flags, settings_run
from advisor.simulator.training.launch_start import placeholders_of
from advisor.simulator.training.launch_tuning import LORA_ALPHA_PER_RANK
from advisor.simulator.training.memory.account import adapted_matrices
from advisor.simulator.training.plan import RECOMPUTES, SHARDINGS, TrainingPlan

MODELS = (
    "llama-3.1-8b",
    "llama-3-8b",
    "qwen3-8b",
    "qwen2.5-32b",
    "gemma-2-9b",
    "mistral-7b-v0.3",
    "qwen3-30b-a3b",
)
HUGGING = ("per_device_train_batch_size", "gradient_accumulation_steps")
READ = {
    "axolotl": (
        "micro_batch_size",
        "gradient_accumulation_steps",
        "sequence_len",
        "lora_r",
        "lora_alpha",
        "max_steps",
    ),
    "llama-factory": (*HUGGING, "cutoff_len", "lora_rank", "lora_alpha", "max_steps"),
    "ms-swift": (*HUGGING, "max_length", "lora_rank", "lora_alpha", "max_steps"),
    "torchtune": (
        *("batch_size", "gradient_accumulation_steps", "tokenizer.max_seq_len"),
        *("model.lora_rank", "model.lora_alpha", "max_steps_per_epoch"),
    ),
    "unsloth": (
        *(f"args.{name}" for name in HUGGING),
        *("load.max_seq_length", "peft.r", "peft.lora_alpha", "args.max_steps"),
    ),
    "xtuner": (
        *(
            "train_dataloader.batch_size",
            "optim_wrapper.accumulative_counts",
            "train_dataloader.dataset.max_length",
        ),
        *("model.lora.r", "model.lora.lora_alpha", "train_cfg.max_iters"),
    ),
}
"""Names of micro-batch, accumulation, length, rank, alpha and steps in each framework's own documentation."""


def read_settings(style: str, command: str) -> dict[str, Any]:
    """Settings of a command, as its framework reads them, by dotted name."""
    if style == "pairs":
        pairs = [word.partition("=") for word in shlex.split(command) if "=" in word]
        return {key: yaml.safe_load(value) for key, _, value in pairs}
    text = command.partition("<<'EOF'\n")[2].partition("\nEOF\n")[0]
    if style == "yaml":
        return dict(yaml.safe_load(text))
    found = {}
    for call in (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)):
        name = ast.unparse(call.func)
        table = {"from_pretrained": "load", "get_peft_model": "peft"}.get(name.rpartition(".")[2], "args")
        found |= {
            f"{table}.{word.arg}": word.value.value
            for word in call.keywords
            if isinstance(word.value, ast.Constant)
        }
    return found


def ranks_of(command: str) -> int:
    """Processes that a command starts on all its machines together."""
    each = re.search(r"(?:nproc_per_node|NPROC_PER_NODE)[ =](\d+)", command)
    nodes = re.search(r"(?:--nnodes|NNODES)[ =](\d+)", command)
    return (int(each[1]) if each else 1) * (int(nodes[1]) if nodes else 1)


def draw_question(draw: random.Random, name: str) -> tuple[TrainingJob, TrainingPlan]:
    """One job and plan of a framework's families, whatever it has settings for."""
    method = draw.choice(METHODS)
    ranks = draw.choice((1, 1, 2, 4, 8, 16, 24))
    micro = draw.choice((1, 2, 4))
    job = TrainingJob(
        models.by_id(draw.choice(tuple(tuners()[name].models) or MODELS)),
        draw.choice((1024, 4096, 16384)),
        ranks * micro * draw.choice((1, 3, 8)),
        draw.choice(("bf16", "bf16", "fp16")),
        draw.choice(tuners()[name].families),
        name,
        method=method,
        lora_rank=0 if method in ("full", "ia3") else draw.choice((8, 16, 64)),
        optimizer=draw.choice((*OPTIMIZERS, *["adamw"] * 8)),
        mean_sequence_tokens=draw.choice((0.0, 0.0, 300.0)),
    )
    plan = TrainingPlan(
        data_parallel=ranks,
        micro_batch=micro,
        sharding=draw.choice(SHARDINGS),
        recompute=draw.choice(RECOMPUTES),
        offload_parameters=draw.random() < 0.1,
    )
    return job, plan


@pytest.mark.parametrize("name", list(READ))
def test_settings_say_the_batch_the_ranks_and_the_adapters_that_are_priced(name: str) -> None:
    draw = random.Random(name)
    checked = 0
    for _ in range(700):
        job, plan = draw_question(draw, name)
        if not settings_run(job, plan):
            assert not launch_flags(job, plan)
            continue
        checked += 1
        command = launch_flags(job, plan, num_steps=77, node_size=8, start="tuning", as_priced=True)[name]
        read = read_settings(tuners()[name].style, command)
        micro, accumulation, length, rank, alpha, steps = (read.get(key) for key in READ[name])
        ranks = ranks_of(command)
        assert ranks == plan.num_accelerators
        assert micro * accumulation * ranks == job.global_batch
        assert length == job.sequence_tokens
        assert steps == 77 * (accumulation if name == "xtuner" else 1)
        if job.lora_rank:
            assert (rank, alpha) == (job.lora_rank, LORA_ALPHA_PER_RANK * job.lora_rank)
        else:
            assert rank is None
        left = re.sub(r"\$(RANK|HEAD)\b", "", command)
        assert "$" not in left
        assert not re.search(r"\{\w+\}", left)
    assert checked > 10


@pytest.mark.parametrize("name", list(READ))
def test_two_plans_that_differ_in_a_part_have_different_settings(name: str) -> None:
    draw = random.Random(f"{name} parts")
    for _ in range(100):
        job, plan = draw_question(draw, name)
        others = [
            (replace(job, method=method), plan) for method in ("lora", "qlora", "dora") if job.lora_rank
        ]
        others += [(job, replace(plan, recompute=again)) for again in ("none", "full")]
        others = [pair for pair in others if settings_run(*pair)]
        commands = {settings_flags(*pair) for pair in others}
        assert len(commands) == len({(one.method, two.recompute) for one, two in others})


@pytest.mark.parametrize("name", list(READ))
def test_a_plan_is_refused_with_the_part_that_has_no_setting(name: str) -> None:
    draw = random.Random(f"{name} refused")
    record = tuners()[name]
    for _ in range(300):
        job, plan = draw_question(draw, name)
        for lacks in missing_settings(job, plan):
            table = getattr(record, lacks.part, None)
            assert lacks.part not in PARTS or table is None or lacks.word not in table
            assert record.release in str(lacks)


def test_a_framework_is_found_by_each_of_its_spellings() -> None:
    spelt = {
        "llama-factory": ("LLaMA-Factory", "llamafactory", "llama_factory", "LLaMA Factory"),
        "ms-swift": ("ms-swift", "swift", "MS-SWIFT", "ms_swift"),
        "axolotl": ("Axolotl", "axolotl"),
    }
    for name, words in spelt.items():
        for word in words:
            record = tuner_named(word)
            assert record is not None
            assert record.id == name


def test_every_capital_word_of_settings_is_explained() -> None:
    for name, task in product(READ, ("sft", "dpo", "kto", "orpo", "reward")):
        job = TrainingJob(
            models.by_id("llama-3-8b"), 4096, 8, framework=tuners()[name].families[0], software=name
        )
        job = replace(job, method="qlora", lora_rank=16)
        if not settings_run(job, TrainingPlan(), task):
            continue
        command = settings_flags(job, TrainingPlan(), task)
        asked = set(
            re.findall(
                r"\b(?:CONVERSATIONS|PAIRS|INPUT_PAIRS|REJECTED|LABELLED|DATASET_NAME|ALPACA)\b", command
            )
        )
        assert asked
        assert asked <= placeholders_of(command).keys()


@pytest.mark.parametrize("name", ["axolotl", "llama-factory", "ms-swift"])
@pytest.mark.parametrize("sharding", ["none", "zero2", "zero3"])
def test_gradients_that_trainers_of_transformers_divide_stay_divided(name: str, sharding: Any) -> None:
    """Source: accelerate 1.15.0, accelerator.py, no_sync: without sync_each_batch each rank keeps whole gradients."""
    job = TrainingJob(models.by_id("llama-3-8b"), 4096, 64, framework="fsdp", software=name)
    plan = TrainingPlan(data_parallel=4, sharding=sharding)
    if not settings_run(job, plan):
        assert sharding == "zero2"
        return
    command = settings_flags(job, plan)
    assert ("sync_each_batch: true" in command) == (sharding != "none")


def test_a_framework_is_told_the_template_that_its_release_has_for_a_model_with_images() -> None:
    shape = {"framework": "peft", "software": "llama-factory", "method": "lora", "lora_rank": 16}
    for name, template in (
        ("qwen2.5-vl-7b", "qwen2_vl"),
        ("gemma-3-27b", "gemma3"),
        ("llama-3.2-11b-vision", "mllama"),
        ("llama-3.1-8b", "llama3"),
    ):
        job = TrainingJob(models.by_id(name), 4096, 8, "bf16", **shape)  # type: ignore[arg-type]
        read = read_settings("yaml", settings_flags(job, TrainingPlan(micro_batch=1), "dpo"))
        assert read["template"] == template
    base = job.model.model_copy(update={"hf_ids": ("meta-llama/Llama-3.1-8B",)})
    assert "template" not in read_settings("yaml", settings_flags(replace(job, model=base), TrainingPlan()))


def modules_of(command: str) -> frozenset[str]:
    """Names under which a command's adapters are, as its trainer reads them; all of them as one word."""
    if re.search(r"all-linear|lora_target_linear|lora_target: all|apply_lora_to_mlp=True", command):
        return frozenset({"all"})
    return frozenset(re.findall(r"\b(?:[qkvo]|out|output)_proj\b|\bdense\b", command))


@pytest.mark.parametrize("name", ["", "trl", *tuners()])
@pytest.mark.parametrize("method", ["lora", "qlora", "dora"])
@pytest.mark.parametrize("part", ["", "adapters_all_linear", "adapters_attention", "adapters_query_value"])
def test_printed_adapters_are_those_that_are_priced(name: str, method: Any, part: str) -> None:
    checked = 0
    for model in models.all_models():
        family = tuners()[name].families[0] if name in tuners() else "peft"
        job = TrainingJob(
            *(model, 4096, 8, "bf16", family, name),
            method=method,
            lora_rank=16,
            features=frozenset({part} if part else ()),
        )
        for command in launch_flags(job, TrainingPlan()).values():
            checked += 1
            software = software_of(family, name)
            layers = [(layer, adapted_matrices(layer, job, software)) for layer in layers_of(model)]
            priced = sum(layer.count * sum(one[1] + one[2] for one in found) for layer, found in layers)
            names = modules_of(command)
            if name == "xtuner" and not names:
                names = frozenset({"all"})
            assert priced == sum(layer.count * values_adapted(layer, names) for layer, _ in layers), model.id
    assert checked or (name, method) in LACKING


LACKING = {("unsloth", "dora"), ("xtuner", "dora"), ("axolotl", "dora")}


def values_adapted(layer: Layer, names: frozenset[str]) -> int:
    """Inputs and outputs of the matrices of a layer that an adapter has beside them, by names as in Transformers."""
    mixer = layer.mixer
    if names == {"all"}:
        parts = [part for part in (mixer, layer.feed_forward) if part is not None]
        return sum(one[1] + one[2] for part in parts for one in part.linears(every=True))
    record = mixer.record
    hidden = mixer.hidden
    query = record.num_heads * record.head_dim
    keys = record.num_kv_heads * record.head_dim
    value = record.num_kv_heads * (record.v_head_dim or record.head_dim)
    outputs = {"q_proj": query, "k_proj": keys, "v_proj": value}
    return sum(outputs[name] + hidden if name in outputs else query + hidden for name in names)
