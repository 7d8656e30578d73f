"""Starts of launch commands: torchrun on one machine or on each of several, and the words of a line that its user
fills in."""

import math
import re
from collections.abc import Mapping
from functools import cache
from typing import Final

from advisor.catalog.schema.model import GatedLinearAttention, Mamba2, Model, Rwkv7
from advisor.catalog.training import framework_release, tuners
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.plan import TrainingPlan

PORT: Final = 29500
"""Port at which the first machine waits for the others: the default of torch.distributed."""
RAY_PORT: Final = 6379
"""Port of the first machine at which the others join a cluster of Ray: its default."""

_PLACEHOLDERS: Final[Mapping[str, str]] = {
    "$RANK": "number of the machine on which the line runs, from 0",
    "$HEAD": "name or address of the first machine; run the line on every machine",
    **{
        f"Megatron-LM/{name}": "script of a checkout, once on every machine: git clone --branch core_v0.16.0 "
        "https://github.com/NVIDIA/Megatron-LM"
        for name in ("pretrain_gpt.py", "pretrain_mamba.py")
    },
    "Megatron-Bridge/scripts/training/run_recipe.py": "script of a checkout, once on every machine: git clone "
    "--branch v0.3.0 https://github.com/NVIDIA-NeMo/Megatron-Bridge",
    "$MODEL": "Megatron-LM's options for the model, its tokenizer and data: --num-layers, --data-path, ...",
    "$STEPS": "optimizer steps of the run, which Megatron-LM has no default of",
    "RECIPE": "name of a recipe, which Megatron-Bridge's release lacks for the model: add one to "
    "megatron/bridge/recipes, NAME_pretrain_config, or NAME_finetune_config for tuning",
    "dataset.sequence_length": "length of the recipe's data set, a mock unless dataset.blend names tokenized files",
    "--packed_sequence": "the recipe's data set, packed: SQuAD, unless a recipe of your own names another",
    "WEIGHTS": "folder with the model's weights in the framework's own form; torchtitan reads those of the hub",
    "CONFIG.toml": "torchtitan's settings that the line does not repeat: data set, tokenizer, learning rate",
    "DATASET": "data set: a name on the Hugging Face hub, or a local folder; its columns: ",
    "REWARD": "reward of an answer: id of a reward model, or dotted path of a Python function",
    "HOSTFILE": "file with a line `HOST slots=ACCELERATORS` for each machine",
    "TRAIN.parquet": "prompts to train on, as verl's data preparation writes them",
    "TEST.parquet": "prompts to validate on, as verl's data preparation writes them",
    "REWARD.py": "Python file with a reward_func, or the address of a reward server",
    "LABELLED_CONVERSATIONS": "data set of conversations, in a column messages, and label (true or false): a name on "
    "the hub, or a local file",
    "TEXT_PAIRS": "data set with texts in columns prompt, chosen and rejected: a name on the hub, or a local file",
    "TEXT_LABELLED": "data set with texts in columns prompt and completion, and label (true or false): a name on the "
    "hub, or a local file",
    "PROMPTS": "data set of prompts: a name on the Hugging Face hub, or a local folder",
    "model_name=MODEL": "model's name in MaxText, or a definition of one's own by base_emb_dim and its other options",
    "dataset_path=DATA": "folder of a data set of TensorFlow Datasets, c4/en:3.1.0 unless dataset_name says another",
    "run_name=RUN": "name of the run; run the line on every host",
    "base_output_directory=OUTPUT": "folder that every host reaches, such as gs://BUCKET/FOLDER, for checkpoints",
    "tokenizer_path=TOKENIZER": "repository or folder of the tokenizer",
    "NAME": "model's name in torchtitan",
    "FLAVOR": "name for the model's size, which torchtitan's release lacks: add its dimensions to the sizes in "
    "torchtitan/models",
}
"""Meaning of each word of a command that the program cannot know, as it stands in the command."""


_REMARKS: Final[Mapping[str, str]] = {
    r"flash_attention_2|\bfa2\b": "its kernel of attention: pip install flash-attn --no-build-isolation",
    r"kernels-community/": "its kernel of attention, from the hub: pip install kernels",
    r"--use_deepspeed": "its runtime: pip install 'deepspeed>=0.18.2'",
    r"--pad_to_multiple_of": "samples pass as they are: where ranks divide sequences, the trainer packs none",
}
"""Remarks on a command, by the words of it that ask for them: packages beside the trainer, and the data. Source:
transformers 5.24.0, integrations/hub_kernels.py and utils/import_utils.py; flash-attn's own instructions; accelerate
1.15.0, accelerator.py (_prepare_deepspeed); TRL 1.16.0, trainer/sft_trainer.py."""
_PAIRS: Final = "chosen and rejected, with prompt where it is the same"
_COLUMNS: Final[Mapping[str, str]] = {
    "sft": "text, or prompt and completion, or messages (a model without a chat template: --chat_template_path)",
    **dict.fromkeys(("dpo", "orpo", "reward"), _PAIRS),
    "kto": "prompt, completion, label (true or false)",
    **dict.fromkeys(("grpo", "rloo"), "prompt, and what the reward reads"),
}
"""Columns that each trainer of TRL reads. Source: TRL 1.16.0, docs, dataset_formats."""


def deepspeed_start(count: int, node_size: int, module: str) -> str:
    """Return the start of a module by DeepSpeed's launcher, which reaches several machines over ssh.

    Source: DeepSpeed v0.19.8, deepspeed/launcher/runner.py (--hostfile, --num_nodes, --num_gpus, --module).
    """
    in_node = ranks_in_node(count, node_size)
    nodes = count // in_node
    where = f"--hostfile HOSTFILE --num_nodes {nodes} " if nodes > 1 else ""
    return f"deepspeed {where}--num_gpus {in_node} --module {module}"


def ranks_in_node(count: int, limit: int) -> int:
    """Return the accelerators of a node so that whole nodes hold exactly `count`, at most `limit`."""
    return next(size for size in range(min(count, limit), 0, -1) if count % size == 0)


def placeholders_of(command: str) -> dict[str, str]:
    """Return the words of a command that its user fills in, with what each stands for.

    Source: own definition.
    """
    trainer = re.search(rf"(?:trl |scripts\.|> )({'|'.join(_COLUMNS)})\b", command)
    columns = _COLUMNS[trainer[1] if trainer else "sft"]
    return {
        word: meaning + (columns if word == "DATASET" else "")
        for word, meaning in {**_PLACEHOLDERS, **_words_of_tuners()}.items()
        if re.search(rf"(?<![\w$.]){re.escape(word)}(?![\w.])", command)
    }


@cache
def _words_of_tuners() -> dict[str, str]:
    """Return the words of settings that their user fills in. Source: catalog/data/training/tuners.toml."""
    return {word: meaning for record in tuners().values() for word, meaning in record.placeholders.items()}


def explain_command(name: str, command: str) -> str:
    """Return a framework's command under comment lines with the release whose options it has and the meaning of each
    word that its user fills in.

    Source: own definition.
    """
    remarks = [f"# {words}" for pattern, words in _REMARKS.items() if re.search(pattern, command)]
    meanings = [f"# {word}: {meaning}" for word, meaning in placeholders_of(command).items()]
    return "\n".join([f"# {name}, options of {framework_release(name)}", *remarks, *meanings, command])


def has_mamba_layers(model: Model) -> bool:
    """Whether a model has Mamba-2 layers, which Megatron's own trainer builds and which it never recomputes.

    Source: Megatron-Core 0.16.0, core/ssm/mamba_block.py and mamba_layer.py.
    """
    return bool(_mamba_mixers(model))


def _mamba_mixers(model: Model) -> tuple[Mamba2, ...]:
    return tuple(group.mixer for group in model.layers if isinstance(group.mixer, Mamba2))


def megatron_builds(model: Model) -> bool:
    """Whether Megatron has every layer of a model: attention, Mamba-2, whose mixer projects one time step per head as
    Mamba-1 does not, and gated delta rules, no other recurrence.

    Source: NVIDIA/Megatron-LM, megatron/core/transformer; Megatron-Core 0.16.0, core/ssm/mamba_mixer.py, in_proj.
    """
    others = any(isinstance(group.mixer, GatedLinearAttention | Rwkv7) for group in model.layers)
    return not others and all(mixer.time_step_rank is None for mixer in _mamba_mixers(model))


def mamba_tensor_ranks(model: Model) -> int:
    """Number that the degree of tensor parallelism divides in Megatron, whose ranks have whole groups and heads of a
    Mamba layer; 0 without such layers.

    Source: Megatron-Core 0.16.0, core/ssm/mamba_mixer.py, its assertions on ngroups and nheads.
    """
    return math.gcd(*(math.gcd(mixer.num_groups, mixer.num_heads) for mixer in _mamba_mixers(model)))


def recomputed_layers(plan: TrainingPlan) -> tuple[str, int]:
    """Return Megatron's method of full recomputation, and the layers that it counts: those of one chunk of a stage that
    are recomputed, or 1 if all are.

    Source: Megatron-Core 0.16.0, core/transformer/transformer_block.py, _checkpointed_forward: a block is one chunk.
    """
    if plan.recompute_layers <= 0:
        return "uniform", 1
    return "block", plan.recompute_layers // plan.virtual_stages


def has_uneven_recomputation(plan: TrainingPlan) -> bool:
    """Whether the chunks of a stage would recompute different numbers of layers, for which Megatron has no option.

    Source: as `recomputed_layers`.
    """
    return plan.recompute_layers > 0 and plan.recompute_layers % plan.virtual_stages != 0


def megatron_start(job: TrainingJob, plan: TrainingPlan, node_size: int) -> str:
    """Return the start of Megatron-LM: torchrun with the number and the address of a machine, and the trainer.

    Source: NVIDIA/Megatron-LM, examples/gpt3/train_gpt3_175b_distributed.sh, examples/llama, pretrain_gpt.py and
        pretrain_mamba.py (models with Mamba layers); megatron/training/arguments.py, CUDA_DEVICE_MAX_CONNECTIONS.
    """
    script = "pretrain_mamba.py" if has_mamba_layers(job.model) else "pretrain_gpt.py"
    divided = plan.tensor_parallel > 1 or plan.context_parallel > 1
    # Megatron-LM refuses to start such a layout without it; its FSDP refuses to start with it.
    queue = "CUDA_DEVICE_MAX_CONNECTIONS=1 " if divided and plan.sharding in ("none", "zero1") else ""
    if plan.offload_activations:
        queue += "NVTE_CPU_OFFLOAD_V1=1 "  # Transformer Engine 2.10 and later moves weights too without it.
    return f"{queue}{_static(plan, node_size)} Megatron-LM/{script} $MODEL"


def nemo_start(plan: TrainingPlan, node_size: int) -> str:
    """Return the start of a recipe of NeMo (Megatron-Bridge).

    Source: NVIDIA-NeMo/Megatron-Bridge, scripts/training/README.md and run_recipe.py.
    """
    return f"{_static(plan, node_size)} Megatron-Bridge/scripts/training/run_recipe.py"


def torchtitan_start(plan: TrainingPlan, node_size: int) -> str:
    """Return the start of torchtitan, whose machines find each other at the address of the first one.

    Source: pytorch/torchtitan, run_train.sh and multinode_trainer.slurm.
    """
    nodes, in_node = _machines(plan, node_size)
    meeting = f'--rdzv_id 1 --rdzv_backend c10d --rdzv_endpoint "$HEAD:{PORT}"'
    where = "--standalone" if nodes == 1 else f"--nnodes {nodes} {meeting}"
    return f"torchrun {where} --nproc_per_node {in_node} -m torchtitan.train --job.config_file CONFIG.toml"


def maxtext_start(plan: TrainingPlan, node_size: int) -> str:
    """Return the variables by which MaxText's processes on GPUs, one a machine, find each other; empty for one machine.

    Source: AI-Hypercomputer/maxtext, maxtext/utils/max_utils.py, initialize_jax_for_gpu.
    """
    nodes, _ = _machines(plan, node_size)
    if nodes == 1:
        return ""
    where = f'JAX_COORDINATOR_IP="$HEAD" JAX_COORDINATOR_PORT={PORT}'
    return f'NNODES={nodes} NODE_RANK="$RANK" {where} '


def ray_start(command: str, nodes: int, num_accelerators: int) -> str:
    """Return a command that Ray spreads over machines, on each of which the lines run: the first one starts it when the
    accelerators of all have joined.

    Source: docs.ray.io, `ray start`; verl 0.6.0 and OpenRLHF 0.9.1, whose ray.init() finds the running cluster.
    """
    if nodes == 1:
        return command
    count = (
        "import ray; ray.init('auto', log_to_driver=False); print(int(ray.cluster_resources().get('GPU', 0)))"
    )
    return f"""if [ "$RANK" != 0 ]; then
    until ray start --address="$HEAD:{RAY_PORT}" --block; do sleep 5; done
else
    ray start --head --port={RAY_PORT}
    until [ "$(python3 -c "{count}" | tail -n 1)" = {num_accelerators} ]; do sleep 5; done
    {command}
fi"""


def _static(plan: TrainingPlan, node_size: int) -> str:
    nodes, in_node = _machines(plan, node_size)
    meeting = f'--node_rank "$RANK" --master_addr "$HEAD" --master_port {PORT}'
    where = "--standalone" if nodes == 1 else f"--nnodes {nodes} {meeting}"
    return f"torchrun {where} --nproc_per_node {in_node}"


def _machines(plan: TrainingPlan, node_size: int) -> tuple[int, int]:
    """Return the number of machines of a plan, and the processes of each."""
    in_node = ranks_in_node(plan.num_accelerators, node_size)
    return plan.num_accelerators // in_node, in_node
