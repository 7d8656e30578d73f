"""Commands, settings and printed arguments of frameworks that train from scratch, as options of a plan."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from advisor.catalog.errors import AdvisorError
from advisor.cli.tuning_settings import with_tuning_settings

Cli = Callable[[str], Any]
STEP: Final = (
    *("--model", "--gpu", "--gpus", "--framework", "--tp", "--pp", "--vpp", "--cp", "--ep", "--micro-batch"),
    *(
        "--global-batch",
        "--sequence",
        "--precision",
        "--sharding",
        "--recompute",
        "--recompute-layers",
        "--tokens",
    ),
)
SCRIPT: Final = """\
#!/bin/bash
#SBATCH --nodes=8
MICRO=1
ARGS=(
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 11008 --num-attention-heads 32
    --swiglu --untie-embeddings-and-output-weights --seq-length 4096
)
torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py ${ARGS[@]} \\
    --micro-batch-size $MICRO --global-batch-size 128 --bf16 --use-distributed-optimizer \\
    --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 4 \\
    --tokenizer-type Llama2Tokenizer
"""
PRINTED: Final = """\
  micro_batch_size ................................ 1
  global_batch_size ............................... 128
  num_layers ...................................... 32
  hidden_size ..................................... 4096
  ffn_hidden_size ................................. 11008
  num_attention_heads ............................. 32
  seq_length ...................................... 4096
  padded_vocab_size ............................... 32000
  tensor_model_parallel_size ...................... 2
  pipeline_model_parallel_size .................... 2
  num_virtual_stages_per_pipeline_rank ............ 4
  swiglu .......................................... True
  untie_embeddings_and_output_weights ............. True
  use_distributed_optimizer ....................... True
  recompute_granularity ........................... None
  world_size ...................................... 16
"""
TITAN: Final = """\
[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 2
seq_len = 8192
[parallelism]
data_parallel_shard_degree = -1
tensor_parallel_degree = 2
[activation_checkpoint]
mode = "selective"
"""


def understand(*words: str) -> dict[str, str]:
    found, notes = with_tuning_settings(words, STEP, ())
    assert any("settings of" in note for note in notes)
    return dict(zip(found[::2], found[1::2], strict=True))


@pytest.mark.parametrize("text", [SCRIPT, PRINTED])
def test_a_script_and_the_arguments_that_it_prints_are_one_plan(text: str) -> None:
    found = understand(text)
    shape = json.loads(found.pop("--model"))
    assert (shape["num_hidden_layers"], shape["intermediate_size"], shape["vocab_size"]) == (32, 11008, 32000)
    assert found == {
        "--framework": "megatron",
        "--gpus": "16",
        "--tp": "2",
        "--pp": "2",
        "--vpp": "4",
        "--micro-batch": "1",
        "--global-batch": "128",
        "--sequence": "4096",
        "--sharding": "zero1",
        "--recompute": "none",
        "--precision": "bf16",
    }


def test_words_of_a_command_are_read_as_they_are_typed_and_as_one_text() -> None:
    command = SCRIPT.partition("torchrun")[2].replace(
        "${ARGS[@]}", "--num-layers 2 --hidden-size 64 --num-attention-heads 2"
    )
    words = shlex.split("torchrun" + command.replace("\\\n", " ").replace("$MICRO", "1"))
    assert understand(*words) == understand(shlex.join(words))


def test_settings_of_torchtitan_divide_states_and_batch_over_what_is_typed(cli: Cli, tmp_path: Path) -> None:
    found = understand(TITAN, "--gpus", "16")
    assert (found["--model"], found["--sharding"], found["--recompute"]) == (
        "llama-3-8b",
        "zero3",
        "selective",
    )
    assert (found["--gpus"], found["--global-batch"]) == ("16", "16")
    file = tmp_path / "llama.toml"
    file.write_text(TITAN)
    assert cli(f"advisor simulate train {file} --gpus 16 --json").document()["fits"]


@pytest.mark.parametrize(
    "text",
    [
        "nemo llm pretrain --factory llama3_8b trainer.num_nodes=2 trainer.devices=8 data.global_batch_size=512 "
        "data.micro_batch_size=1 data.seq_length=8192 trainer.strategy.tensor_model_parallel_size=2",
        "torchrun --nnodes 2 --nproc_per_node=8 run_recipe.py --recipe llama3_8b_pretrain_config "
        "train.global_batch_size=512 train.micro_batch_size=1 model.seq_length=8192 model.tensor_model_parallel_size=2",
    ],
)
def test_a_recipe_names_its_model(text: str) -> None:
    found = understand(text)
    names = ("--model", "--gpus", "--tp", "--global-batch", "--sharding")
    assert [found[name] for name in names] == ["llama-3-8b", "16", "2", "512", "zero1"]


def test_settings_without_model_and_shape_take_a_typed_model() -> None:
    text = "torchrun pretrain_gpt.py --tensor-model-parallel-size 4 --micro-batch-size 1"
    with pytest.raises(AdvisorError, match="name no model"):
        understand(text)
    found = understand(text, "--model", "8b")
    assert (found["--model"], found["--tp"], found["--gpus"]) == ("8b", "4", "4")


def test_a_step_of_a_stated_shape_is_that_of_the_model(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "train.sh"
    file.write_text(SCRIPT)
    plan = "--tp 2 --pp 2 --vpp 4 --global-batch 128 --sequence 4096"
    times = [
        cli(f"advisor simulate train {words} --json").document()["step_time_s"]
        for words in (str(file), f"--model llama-2-7b --gpus 16 {plan}")
    ]
    assert times[0] == times[1]


def test_a_config_may_be_pasted_in_place_of_its_path(cli: Cli, tmp_path: Path) -> None:
    config = {"model_type": "llama", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 2}
    config |= {"num_attention_heads": 8, "vocab_size": 1000}
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    found = [
        cli(f"advisor memory --gpu l4 --json --model {shlex.quote(model)}").document()["model"]
        for model in (str(file), json.dumps(config))
    ]
    assert found[0] == found[1]
