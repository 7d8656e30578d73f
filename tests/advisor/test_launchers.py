"""Launchers of training runs: however a number of accelerators and a division of states are said, they count."""

import json
from pathlib import Path

import pytest
import yaml

from advisor.catalog.errors import AdvisorError
from advisor.cli.launchers import read_start, script_of
from advisor.cli.tuning_settings import with_tuning_settings

STEP = (
    *("--model", "--gpus", "--global-batch", "--micro-batch", "--method", "--recompute", "--sharding"),
    *("--offload-optimizer", "--offload-parameters", "--framework", "--sequence", "--tp", "--pp"),
)
TRAINERS = {
    "llama-factory": "src/train.py --stage sft --finetuning_type full --model_name_or_path Qwen/Qwen2.5-7B "
    "--cutoff_len 2048 --per_device_train_batch_size 2 --gradient_accumulation_steps 1",
    "TRL": "trl/scripts/sft.py --model_name_or_path Qwen/Qwen2.5-7B --max_length 2048 "
    "--per_device_train_batch_size 2 --gradient_accumulation_steps 1",
    "Transformers": "run_clm.py --model_name_or_path Qwen/Qwen2.5-7B --block_size 2048 "
    "--per_device_train_batch_size 2 --gradient_accumulation_steps 1 --gradient_checkpointing",
}
LAUNCHERS = {
    "torchrun": "torchrun --nnodes {machines} --nproc_per_node {each} {trainer}",
    "torchrun with equals signs": "torchrun --nnodes={machines} --nproc-per-node={each} --node_rank=$RANK {trainer}",
    "accelerate": "accelerate launch --num_machines {machines} --num_processes {all} {trainer}",
    "deepspeed": "deepspeed --num_nodes {machines} --num_gpus {each} {trainer}",
    "mpirun": "mpirun -np {all} -hostfile hosts python {trainer}",
    "variables of a script": "NNODES={machines}; GPUS=$((4 * 2))\\nexport EACH=${{EACH:-{each}}}\\n"
    "torchrun --nnodes $NNODES --nproc_per_node $EACH {trainer}",
    "variables of the launcher": "NNODES={machines} NPROC_PER_NODE={each} python {trainer}",
    "job of Slurm": "#!/bin/bash\\n#SBATCH --nodes={machines}\\n#SBATCH --gpus-per-node={each}\\nsrun python {trainer}",
    "job of Slurm with torchrun": "#SBATCH -N {machines}\\n#SBATCH --ntasks-per-node=1 --gres=gpu:h100:{each}\\n"
    "srun torchrun --nnodes $SLURM_NNODES --nproc_per_node {each} {trainer}",
}


def understand(text: str, *typed: str) -> dict[str, str]:
    words, _ = with_tuning_settings([text, *typed], STEP, ("--offload-optimizer", "--offload-parameters"))
    flags = {"--offload-optimizer", "--offload-parameters"}
    found = {word: "" for word in words if word in flags}
    plain = [word for word in words if word not in flags]
    return found | dict(zip(plain[::2], plain[1::2], strict=True))


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize(("machines", "each"), [(1, 8), (2, 8), (3, 4)])
def test_accelerators_are_machines_times_those_of_each(
    launcher: str, trainer: str, machines: int, each: int
) -> None:
    text = (
        LAUNCHERS[launcher]
        .replace("\\n", "\n")
        .format(machines=machines, each=each, all=machines * each, trainer=TRAINERS[trainer])
    )
    found = understand(text)
    assert found["--gpus"] == str(machines * each)
    assert found["--global-batch"] == str(2 * machines * each)
    assert found["--sequence"] == "2048"


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_trainer_is_told_by_its_own_marks(trainer: str) -> None:
    _, notes = with_tuning_settings([f"torchrun --nproc_per_node 8 {TRAINERS[trainer]}"], STEP, ())
    assert notes[0] == f"the command: settings of {trainer}"


def test_an_unknown_number_is_asked_for_or_said() -> None:
    text = "FORCE_TORCHRUN=1 NNODES=2 llamafactory-cli train --stage sft --model_name_or_path Qwen/Qwen2.5-7B"
    with pytest.raises(AdvisorError, match="does not say how many accelerators each has"):
        understand(text)
    assert understand(text, "--gpus", "16")["--gpus"] == "16"
    _, notes = with_tuning_settings([text.replace("NNODES=2 ", "")], STEP, ())
    assert any("the number of accelerators is not stated" in note for note in notes)


def test_torchrun_that_grows_states_no_number() -> None:
    assert read_start("torchrun --nnodes 1:4 train.py").machines is None
    assert read_start("torchrun --nnodes 10:20 train.py").machines is None


def test_hosts_of_deepspeed_have_slots(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("# machines\nnode1 slots=8\nnode2 slots=4\n")
    assert read_start(f"deepspeed --hostfile {hosts} train.py").accelerators == 12


@pytest.mark.parametrize(
    ("strategy", "sharding"),
    [("FULL_SHARD", "zero3"), ("SHARD_GRAD_OP", "zero2"), (1, "zero3"), (2, "zero2")],
)
@pytest.mark.parametrize("named", ["--config_file {file} {trainer}", "--config_file={file} {trainer}"])
def test_the_file_of_accelerate_says_processes_and_division(
    tmp_path: Path, strategy: object, sharding: str, named: str
) -> None:
    file = tmp_path / "fsdp.yaml"
    inner = {"fsdp_sharding_strategy": strategy, "fsdp_offload_params": False}
    content = {"distributed_type": "FSDP", "num_machines": 2, "num_processes": 16, "fsdp_config": inner}
    file.write_text(yaml.safe_dump(content))
    for trainer in TRAINERS.values():
        found = understand(f"accelerate launch {named.format(file=file, trainer=trainer)}")
        assert (found["--gpus"], found["--sharding"]) == ("16", sharding)
    with pytest.raises(AdvisorError, match="is accelerate's file"):
        understand(str(file))


def test_the_second_version_of_fsdp_frees_weights_unless_told_otherwise(tmp_path: Path) -> None:
    for said, sharding in (({}, "zero3"), ({"fsdp_reshard_after_forward": False}, "zero2")):
        file = tmp_path / "fsdp2.yaml"
        content = {"distributed_type": "FSDP", "num_machines": 1, "num_processes": 8}
        file.write_text(yaml.safe_dump({**content, "fsdp_config": {"fsdp_version": 2, **said}}))
        command = f"accelerate launch --config_file {file} {TRAINERS['TRL']}"
        assert understand(command)["--sharding"] == sharding


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_the_file_of_deepspeed_says_division_and_host_memory(tmp_path: Path, stage: int) -> None:
    file = tmp_path / "ds.json"
    zero = {"stage": stage, "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}}
    file.write_text(json.dumps({"train_micro_batch_size_per_gpu": "auto", "zero_optimization": zero}))
    found = understand(f"deepspeed --num_gpus 8 {TRAINERS['llama-factory']} --deepspeed {file}")
    assert found["--sharding"] == (f"zero{stage}" if stage else "none")
    assert "--offload-optimizer" in found
    with pytest.raises(AdvisorError, match="is DeepSpeed's configuration"):
        understand(str(file))


def test_a_batch_that_deepspeed_would_refuse_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "ds.json"
    command = f"deepspeed --num_gpus 8 {TRAINERS['llama-factory']} --deepspeed {file}"
    for batch, is_right in ((16, True), (64, False)):
        file.write_text(json.dumps({"train_batch_size": batch, "zero_optimization": {"stage": 2}}))
        if is_right:
            assert understand(command)["--global-batch"] == "16"
        else:
            with pytest.raises(AdvisorError, match="is not 2 x 1 passes x 8 accelerators"):
                understand(command)


def test_recipes_of_several_ranks_divide_the_states() -> None:
    for recipe, sharding in (("full_finetune_distributed", "zero3"), ("full_finetune_single_device", "none")):
        command = f"tune run --nproc_per_node 8 {recipe} --config llama3_1/8B_full batch_size=2"
        assert understand(command)["--sharding"] == sharding


def test_axolotl_says_the_first_version_of_fsdp_by_its_words() -> None:
    text = (
        "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 4096\nmicro_batch_size: 2\nfsdp: [%s, auto_wrap]\n"
        "gradient_accumulation_steps: 4\nfsdp_config: {fsdp_state_dict_type: FULL_STATE_DICT}\n"
    )
    for word, sharding in (("full_shard", "zero3"), ("shard_grad_op", "zero2")):
        assert understand(text % word, "--gpus", "8")["--sharding"] == sharding


def test_a_recipe_of_nemo_in_python_is_read() -> None:
    text = (
        "import nemo_run as run\nfrom nemo.collections import llm\n"
        "recipe = llm.llama3_70b.pretrain_recipe(dir='/x', name='y', num_nodes=8, num_gpus_per_node=8)\n"
        "recipe.trainer.strategy.tensor_model_parallel_size = 4\n"
        "recipe.trainer.strategy.pipeline_model_parallel_size = 2\nrecipe.data.global_batch_size = 256\n"
        "run.run(recipe)\n"
    )
    found = understand(text)
    assert found["--model"] == "llama-3-70b"
    assert (found["--gpus"], found["--tp"], found["--pp"]) == ("64", "4", "2")
    assert found["--global-batch"] == "256"


def test_torchtitan_reads_the_file_that_its_command_names(tmp_path: Path) -> None:
    file = tmp_path / "train.toml"
    file.write_text(
        "[model]\nname = 'llama3'\nflavor = '8B'\n[training]\nlocal_batch_size = 4\nseq_len = 4096\n"
        "[parallelism]\ntensor_parallel_degree = 2\n"
    )
    command = f"torchrun --nnodes 2 --nproc_per_node 8 -m torchtitan.train --job.config_file {file}"
    found = understand(command)
    assert (found["--gpus"], found["--tp"], found["--micro-batch"]) == ("16", "2", "4")
    assert understand(f"{command} --training.local_batch_size 1")["--micro-batch"] == "1"


def test_a_script_without_a_trainer_is_refused_as_what_it_is(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("python -m http.server\n")
    with pytest.raises(AdvisorError, match="no settings of a framework that trains models in"):
        understand(str(script))


def test_sums_of_a_script_are_those_of_a_shell() -> None:
    text = "A=4; B=$((A * 2 + 10 / 4))\necho $B $((B % 7)) $((A / 0))\n"
    assert script_of(text).splitlines()[-1].split() == ["echo", "10", "3", "$((A", "/", "0))"]


def test_a_file_that_is_not_there_says_its_stage_by_its_name() -> None:
    for named in (
        "--config_file examples/accelerate_configs/deepspeed_zero%d.yaml",
        "--accelerate_config zero%d",
    ):
        for stage in (1, 2, 3):
            command = f"accelerate launch {named % stage} --num_processes 8 {TRAINERS['TRL']}"
            assert understand(command)["--sharding"] == f"zero{stage}"


def test_adapters_under_the_first_stages_are_those_of_deepspeed() -> None:
    command = "NPROC_PER_NODE=4 swift sft --model Qwen/Qwen2.5-7B --tuner_type lora --max_length 2048 --deepspeed %s"
    assert understand(command % "zero2")["--framework"] == "deepspeed"
    assert understand(command % "zero3")["--framework"] != "deepspeed"


def test_a_file_of_deepspeed_that_no_json_reader_takes_says_its_stage(tmp_path: Path) -> None:
    file = tmp_path / "ds.json"
    file.write_text('{\n  // as usual\n  "zero_optimization": {"stage": 2}\n}\n')
    assert understand(f"deepspeed --num_gpus 8 {TRAINERS['TRL']} --deepspeed {file}")["--sharding"] == "zero2"
