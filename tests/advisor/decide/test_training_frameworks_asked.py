"""Frameworks that a user names: what each stands for, and what does instead of one without options."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from advisor.decide.training.space import RULES, family_asked

Cli = Callable[[str], Any]
LOOP_NAMES = ("trl", "verl", "openrlhf", "axolotl", "unsloth", "ms-swift", "fsdp", "deepspeed")


@pytest.mark.parametrize("name", LOOP_NAMES)
def test_trainers_of_transformers_run_loops_under_any_name(name: str) -> None:
    assert family_asked(name, loop_method="full")[0] == "fsdp"
    assert family_asked(name, loop_method="lora")[0] == "peft"


@pytest.mark.parametrize(
    ("name", "method", "told"),
    [
        ("trl", "lora", "--num_generations 12"),
        ("verl", "full", "rollout.n=12"),
        ("axolotl", "full", "num_generations: 12"),
        ("ms-swift", "lora", "num_generations: 12"),
    ],
)
def test_a_loop_in_a_named_trainer_has_its_command(cli: Cli, name: str, method: str, told: str) -> None:
    asked = (
        f"advisor recommend --model qwen3-4b --workload rl --gpu h100 --gpus 8 --samples 12 --method {method}"
    )
    run = cli(f"{asked} --framework {name}")
    assert run.code == 0, run.err
    assert f"# {name}, options of" in run.out
    assert told in run.out


def test_a_loop_that_a_named_trainer_lacks_is_refused_with_one_that_has_it(cli: Cli) -> None:
    """verl generates for every algorithm that it trains."""
    asked = "advisor recommend --model qwen3-4b --workload rl --algorithm dpo --gpu h100 --gpus 8"
    refused = cli(f"{asked} --framework verl")
    assert refused.code == 3
    fix = refused.err.partition("To fix: ")[2].splitlines()[0]
    assert cli(f"{asked} {fix}").code == 0, fix


@pytest.mark.parametrize("family", sorted(set(RULES) - {"peft", "deepspeed", "fsdp", "maxtext"}))
def test_the_fix_of_a_framework_without_adapters_is_one_with_them(cli: Cli, family: str) -> None:
    asked = "advisor recommend --model 8b --workload finetune --method lora --gpu h100 --gpus 8"
    refused = cli(f"{asked} --framework {family}")
    assert refused.code == 3
    fix = refused.err.partition("To fix: ")[2].splitlines()[0]
    assert cli(f"{asked} {fix}").code == 0, fix


@pytest.mark.parametrize("name", ["nemo", "NeMo", "megatron-lm", "deepspeed", "trl"])
def test_the_command_of_the_named_framework_is_first(cli: Cli, name: str) -> None:
    run = cli(
        f"advisor recommend --model 8b --workload finetune --gpu h100 --gpus 8 --framework {name} --json"
    )
    launch = json.loads(run.out)["options"][0]["launch"]
    assert next(iter(launch["flags"])) == name.lower()


@pytest.mark.parametrize(
    ("model", "method", "near"),
    [
        ("rwkv7-7.2b", "full", "--model rwkv7-2.9b"),
        ("retnet-6.7b", "full", "another --model"),
        ("mamba2-1.3b", "lora", "--method full"),
    ],
)
def test_a_model_that_no_trainer_takes_is_refused_with_the_nearest_that_one_does(
    cli: Any, model: str, method: str, near: str
) -> None:
    work = "train --tokens 1B" if method == "full" else f"finetune --method {method}"
    run = cli(f"advisor recommend --model {model} --workload {work} --gpu h100-sxm --gpus 8")
    assert run.code == 3
    assert near in run.err
    assert near == "--method full" or f"advisor simulate train --model {model}" in run.err
    stated = cli(
        f"advisor simulate train --model {model} --gpu h100-sxm --gpus 8 --sequence 2048 --global-batch 64"
    )
    assert stated.code == 0


@pytest.mark.parametrize(
    ("gpu", "model", "fits"), [("rtx-4090", "8b", True), ("rtx-3060-12gb", "14b", False)]
)
def test_frozen_weights_leave_a_card_only_where_no_other_plan_fits(gpu: str, model: str, fits: bool) -> None:
    import advisor

    asked = {"workload": "finetune", "method": "qlora", "framework": "axolotl", "sequence": 1024}
    found = advisor.recommend(model=model, own=f"1x{gpu}", gpus=1, global_batch=8, tokens="1M", **asked)
    plan = found.to_dict()["options"][0]["plan"]
    assert (plan["offload"] == "") == fits
