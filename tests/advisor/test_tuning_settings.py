"""Settings of tuning frameworks as input: what the program writes of a plan, it reads as that plan."""

import json
import random
import shlex
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog import models
from advisor.catalog.errors import AdvisorError
from advisor.catalog.training import tuners
from advisor.cli.tuning_settings import with_tuning_settings
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.launch_settings import settings_flags, settings_run
from advisor.simulator.training.plan import TrainingPlan

Cli = Callable[[str], Any]
STEP = ("--model", "--gpus", "--global-batch", "--method", "--recompute", "--sharding")
STEP_OF = "advisor simulate train --json --gpus 2 --gpu h100-sxm"
SEARCH = (*STEP, "--workload")


TRL = (
    "sft.py --model_name_or_path Qwen/Qwen3-8B --max_seq_length 4096 --per_device_train_batch_size 1 "
    "--gradient_accumulation_steps 8 --use_peft --lora_r 16"
)


def understand(text: str, known: tuple[str, ...] = STEP, *typed: str) -> dict[str, str]:
    words, _ = with_tuning_settings([text, *typed], known, ())
    return dict(zip(words[::2], words[1::2], strict=True))


@pytest.mark.parametrize("name", [name for name in tuners() if name != "xtuner"])
def test_settings_that_are_written_are_read_as_the_same_plan(name: str) -> None:
    """Every part that the record of a framework has words for comes back, on one accelerator and on four."""
    draw = random.Random(name)
    record = tuners()[name]
    tried = 0
    parts: Any = product(
        record.method, record.optimizer, ("none", "full"), (1, 4), ("none", "zero2", "zero3")
    )
    every = list(parts)
    for method, optimizer, recompute, count, sharding in draw.sample(every, min(40, len(every))):
        micro = draw.choice((1, 2, 4))
        passes = draw.choice((1, 3, 8))
        job = TrainingJob(
            models.by_id("llama-3.1-8b"),
            draw.choice((1024, 4096)),
            micro * passes * count,
            framework=record.families[0],
            software=name,
            method=method,
            optimizer=optimizer,
            lora_rank=0 if method in ("full", "ia3") else draw.choice((8, 32)),
        )
        plan = TrainingPlan(data_parallel=count, micro_batch=micro, recompute=recompute, sharding=sharding)
        if (count == 1 and sharding != "none") or not settings_run(job, plan):
            continue
        tried += 1
        found = understand(settings_flags(job, plan), STEP, "--gpus", str(count))
        assert models.get(found["--model"]).record.id == "llama-3.1-8b"
        assert (found["--method"], found["--recompute"], found["--sharding"]) == (method, recompute, sharding)
        assert found["--sequence"] == str(job.sequence_tokens)
        assert (found["--micro-batch"], found["--global-batch"]) == (str(micro), str(job.global_batch))
        assert found.get("--optimizer", "adamw") == optimizer
        assert found.get("--lora-rank", "0") == str(job.lora_rank)
    assert tried


AXOLOTL = "base_model: Qwen/Qwen3-8B\nadapter: lora\nlora_r: 16\nsequence_len: 2048\nmicro_batch_size: 2\n"
LIGER = "plugins:\n- axolotl.integrations.liger.LigerPlugin\nliger_fused_linear_cross_entropy: true\n"
CUT = "plugins:\n- axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin\n"


def test_what_is_typed_counts_before_the_settings() -> None:
    found = understand(AXOLOTL, STEP, "--method", "qlora", "--gpus", "8")
    assert (found["--method"], found["--lora-rank"], found["--global-batch"]) == ("qlora", "16", "16")


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        ("lora_target_modules: [q_proj, v_proj]\n", "adapters_query_value"),
        ("lora_target_modules:\n- q_proj\n- k_proj\n- v_proj\n- o_proj\n", "adapters_attention"),
        ("lora_target_modules: [q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj]\n", None),
        ("lora_target_linear: true\n", None),
        ("lora_target_modules: all-linear\n", None),
        ("lora_target_modules: query_key_value\n", "adapters_attention"),
        ("", None),
    ],
)
def test_the_matrices_that_have_adapters_are_read(targets: str, expected: str | None) -> None:
    found = understand(AXOLOTL + targets, (*STEP, "--features"), "--gpus", "1")
    assert found.get("--features") == expected


TRL_LORA = "trl sft --model_name_or_path Qwen/Qwen3-8B --use_peft --lora_r 8"
TUNE = "tune run lora_finetune_single_device --config llama3_1/8B_lora_single_device"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{TRL_LORA} --lora_target_modules q_proj v_proj --bf16", "adapters_query_value"),
        (f"{TRL_LORA} --lora_target_modules k_proj v_proj --bf16", "adapters_attention"),
        (f"{TRL_LORA} --lora_target_modules q_proj up_proj", None),
        (f"{TRL_LORA} --lora_target_modules all-linear", None),
        (
            f"{TUNE} model.lora_attn_modules=[q_proj,v_proj] model.apply_lora_to_mlp=False",
            "adapters_query_value",
        ),
        (f"{TUNE} model.lora_attn_modules=[q_proj,v_proj] model.apply_lora_to_mlp=True", None),
        (
            "model_name_or_path: Qwen/Qwen3-8B\nlora_target: q_proj,v_proj\nstage: sft\n",
            "adapters_query_value",
        ),
    ],
)
def test_the_matrices_that_have_adapters_are_read_as_each_trainer_names_them(
    text: str, expected: str | None
) -> None:
    found = understand(text, (*STEP, "--features"), "--gpus", "1")
    assert found.get("--features") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (AXOLOTL + "optimizer: paged_adamw_8bit\n", {"--optimizer": "adamw_8bit", "--framework": "axolotl"}),
        (AXOLOTL + "deepspeed: deepspeed_configs/zero3_bf16.json\n", {"--sharding": "zero3"}),
        (
            "tune run --nproc_per_node 4 lora_finetune_distributed --config llama3_1/8B_lora batch_size=2",
            {"--model": "llama-3.1-8b", "--method": "lora", "--micro-batch": "2"},
        ),
        (
            "trl sft --model_name_or_path Qwen/Qwen3-8B --per_device_train_batch_size 8 --use_peft --lora_r 8",
            {"--model": "Qwen/Qwen3-8B", "--method": "lora", "--lora-rank": "8", "--micro-batch": "8"},
        ),
        (
            "from trl import SFTConfig, SFTTrainer\nfrom peft import LoraConfig\nSFTTrainer(model='Qwen/Qwen3-8B', "
            "args=SFTConfig(per_device_train_batch_size=4, max_length=1024, gradient_checkpointing=True), "
            "peft_config=LoraConfig(r=32))",
            {"--model": "Qwen/Qwen3-8B", "--method": "lora", "--sequence": "1024", "--recompute": "full"},
        ),
    ],
)
def test_settings_as_people_have_them(text: str, expected: dict[str, str]) -> None:
    found = understand(text, STEP, "--gpus", "4")
    assert {name: found[name] for name in expected} == expected


def test_preferences_are_a_loop_that_a_search_takes_and_a_step_refuses(cli: Cli, tmp_path: Path) -> None:
    text = AXOLOTL + "rl: dpo\n"
    assert understand(text, SEARCH)["--algorithm"] == "dpo"
    with pytest.raises(AdvisorError, match="not one step of tuning"):
        understand(text)


def test_a_command_of_another_framework_is_refused_by_a_step() -> None:
    with pytest.raises(AdvisorError, match="no settings of a framework that trains"):
        understand("torchrun --nproc_per_node 8 train_gpt2.py --batch_size 32 --sequence_length 1024")


def test_a_file_of_settings_is_a_plan_or_a_search(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "tune.yml"
    file.write_text(AXOLOTL)
    plan = "--model qwen3-8b --method lora --lora-rank 16 --sequence 2048 --micro-batch 2 --global-batch 4"
    alone = cli(f"{STEP_OF} {plan} --framework axolotl --recompute none --sharding none")
    found = cli(f"{STEP_OF} {file}")
    assert json.loads(found.out)["step_time_s"] == json.loads(alone.out)["step_time_s"]
    assert "settings of axolotl" in found.err


def test_a_notebook_and_a_trainer_of_preferences_are_read() -> None:
    script = (
        "from unsloth import FastLanguageModel\nfrom trl import {0}Config, {0}Trainer\n"
        "model, _ = FastLanguageModel.from_pretrained(model_name='unsloth/Qwen3-14B', max_seq_length=2048)\n"
        "{0}Trainer(model=model, args={0}Config(per_device_train_batch_size=2, gradient_accumulation_steps=4))\n"
    )
    sources = ["%%capture\n!pip install unsloth", "%%writefile a.txt\nnot code", script.format("SFT")]
    notebook = json.dumps({"cells": [{"cell_type": "code", "source": source} for source in sources]})
    assert understand(notebook) == understand(script.format("SFT"))
    assert understand(script.format("DPO"), SEARCH)["--algorithm"] == "dpo"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (AXOLOTL + LIGER + "liger_glu_activation: true\nliger_rope: true\n", "liger,linear_ce"),
        (AXOLOTL + LIGER + "liger_swiglu: true\ntorch_compile: true\n", "liger,linear_ce,compile"),
        (AXOLOTL + LIGER, "linear_ce"),
        (AXOLOTL + CUT, "linear_ce"),
        (AXOLOTL + CUT + "cut_cross_entropy: true\ntiled_mlp: true\n", "linear_ce,tiled_mlp"),
        (f"accelerate launch {TRL} --use_liger_kernel", "liger"),
    ],
)
def test_switches_of_settings_are_read(text: str, expected: str) -> None:
    words, notes = with_tuning_settings([text], (*STEP, "--features"), ())
    assert words[words.index("--features") + 1] == expected
    assert "is not read" not in " ".join(notes)


@pytest.mark.parametrize(
    "line", ["liger_rms_norm: true", "plugins: [axolotl.integrations.kd.KDPlugin]", "torch_compile: auto"]
)
def test_a_switch_that_no_feature_stands_for_is_named(line: str) -> None:
    words, notes = with_tuning_settings([f"{AXOLOTL}{line}\n"], (*STEP, "--features"), ())
    assert "--features" not in words
    assert "is not read: state what it does" in " ".join(notes)


def test_a_setting_that_no_word_of_the_framework_has_is_named() -> None:
    text = "model_name_or_path: Qwen/Qwen3-8B\nstage: sft\nfinetuning_type: lora\nquantization_bit: 8\n"
    words, notes = with_tuning_settings([text], STEP, ())
    assert words[words.index("--method") + 1] == "lora"
    assert "quantization_bit 8 is not known, and not part of the plan" in notes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (AXOLOTL + "deepspeed: deepspeed_configs/zero3_bf16.json\n", "zero3: what it offloads is not read"),
        (AXOLOTL + "deepspeed: mine.json\n", "mine.json is not read"),
        (f"accelerate launch --config_file fsdp.yaml --num_processes 8 {TRL}", "fsdp.yaml is not read"),
    ],
)
def test_a_file_that_is_named_and_not_read_is_said(text: str, said: str) -> None:
    assert said in " ".join(with_tuning_settings([text], STEP, ())[1])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("swift sft --model Qwen/Qwen3-8B --train_type lora --per_device_train_batch_size 1", "full"),
        (
            "llamafactory-cli train --model_name_or_path Qwen/Qwen3-8B --finetuning_type lora --stage sft",
            "full",
        ),
        ("base_model: Qwen/Qwen3-8B\nadapter: lora\nmicro_batch_size: 1\nsequence_len: 1024", "none"),
    ],
)
def test_recomputation_that_is_not_stated_is_the_default_of_the_framework(text: str, expected: str) -> None:
    assert understand(text)["--recompute"] == expected


@pytest.mark.parametrize("value", ["}", "{", "[", "a: b: c", "'", "&x *y", "!!python/name:os", "2026-13-45"])
def test_a_value_that_is_no_yaml_is_a_text(value: str) -> None:
    text = f"swift sft --model Qwen/Qwen3-8B --train_type lora --output_dir={shlex.quote(value)} --max_length 2048"
    assert understand(text)["--sequence"] == "2048"


@pytest.mark.parametrize("value", ["abc", "-3", "1e999", "[1, 2]", "true", "nan", ".inf", "9" * 40, "1.5"])
@pytest.mark.parametrize(
    "key", ["micro_batch_size", "gradient_accumulation_steps", "sequence_len", "lora_r", "max_steps"]
)
def test_a_count_that_is_none_is_named(key: str, value: str) -> None:
    text = f"base_model: Qwen/Qwen3-8B\nadapter: lora\nsample_packing: true\n{key}: {value}\n"
    with pytest.raises(AdvisorError, match="is no count"):
        understand(text)
