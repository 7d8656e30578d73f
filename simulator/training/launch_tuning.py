"""Launch commands of a plan for the frameworks that fine-tune: TRL under Accelerate, or DeepSpeed's own launcher."""

import json
import shlex
from collections.abc import Mapping
from string import Template
from typing import Any, Final

from advisor.catalog.architectures import class_of, needs_repository_code
from advisor.catalog.named_formats import CHAT
from advisor.catalog.published import checkpoint_for, checkpoint_format, loadable_checkpoints
from advisor.catalog.resaving import TORCH_DTYPES, new_weights_program, resaving_program
from advisor.catalog.schema import Model
from advisor.catalog.schema.accelerator import ASSUMED_ACCELERATORS_PER_NODE
from advisor.catalog.training import attention_matrices, attention_of, software_of, tuners
from advisor.simulator.graph.model import layers_of
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.launch_start import PORT, deepspeed_start, ranks_in_node
from advisor.simulator.training.memory.account import adapted_part
from advisor.simulator.training.plan import TrainingPlan

LORA_ALPHA_PER_RANK: Final = 2
_WIDENED: Final = "./widened"
_NEW: Final = "./new"
_WIDEST_FLASH_HEAD: Final = 256
"""Widest head that FlashAttention-2 computes. Source: Dao-AILab/flash-attention, README."""
FLASH: Final = "flash_attention_2"
_PYTORCH: Final = "sdpa"
_HOPPER_ONLY: Final = "kernels-community/vllm-flash-attn3"
_PRECISIONS: Final[Mapping[str, str]] = {"bf16": "--dtype bfloat16 --bf16", "fp16": "--dtype float16 --fp16"}
_ALL_IN_BF16: Final = "--dtype bfloat16 --bf16 False"
"""Weights and states in bf16: under --bf16 Accelerate's FSDP keeps what learns in fp32 (accelerate 1.15.0,
utils/fsdp_utils.py), with twice the states."""
_OPTIMIZERS: Final[Mapping[str, str]] = {
    "adamw": "",
    "adamw_8bit": "--optim adamw_bnb_8bit",
    "adafactor": "--optim adafactor",
    "lion": "--optim lion_32bit",
    "sgd": "--optim sgd",
}
_TRAINERS: Final = ("sft", "dpo", "grpo", "rloo", "kto", "reward")
"""Trainers of TRL's command line, whose scripts are modules of the package."""
_OFFLOADING: Final = ("sft", "dpo", "kto", "reward")
"""Trainers of TRL with an option for activations in host memory. Source: TRL 1.16.0, trainer/*_config.py."""
_PROGRAMS: Final = {
    "orpo": """cat > orpo.py <<'EOF'
from accelerate import PartialState
from datasets import load_dataset
from transformers import AutoTokenizer
from trl import ModelConfig, ScriptArguments, TrlParser, get_peft_config, get_quantization_config
from trl.experimental.orpo import ORPOConfig, ORPOTrainer

data, args, model = TrlParser((ScriptArguments, ORPOConfig, ModelConfig)).parse_args_and_config()
packed = get_quantization_config(model)
args.model_init_kwargs = {
    "dtype": model.dtype,
    "attn_implementation": model.attn_implementation,
    "quantization_config": packed,
    "device_map": {"": PartialState().local_process_index} if packed else None,
}
tokenizer = AutoTokenizer.from_pretrained(model.model_name_or_path, trust_remote_code=args.trust_remote_code)
tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
ORPOTrainer(
    model.model_name_or_path,
    args=args,
    train_dataset=load_dataset(data.dataset_name, name=data.dataset_config)[data.dataset_train_split],
    processing_class=tokenizer,
    peft_config=get_peft_config(model),
).train()
EOF
"""
}
"""Programs that call a trainer for which the package of TRL has neither command nor script, with TRL's own options.
Source: TRL 1.16.0, trl/experimental/orpo; trl/scripts/dpo.py, whose options they are."""


def weights_of(model: Model) -> str:
    """Return where Transformers finds a model: its folder, or its repository; empty if neither is known, or if the
    repository names no class that it could build."""
    return model.folder or (next(iter(model.hf_ids), "") if class_of(model) else "")


def wide_weights(model: Model, task: str = "sft") -> tuple[str, str]:
    """Return where a trainer finds weights of a model in 16 bits, and the lines that write them there first if all
    that is published has fewer bits.

    Tasks on answers start from a model that answers, if one is published and the user named none: they write prompts
    with the chat template of its tokenizer, which those of base models lack.

    Source: transformers 5.24.0, is_trainable in quantizers: models in FP8 and MXFP4 are not tuned.
    """
    name = weights_of(model)
    if task != "sft" and name and not model.folder and not model.checkpoint:
        answering = checkpoint_for(model, model.weights).hf_id
        name = answering if has_template(answering) else name
    stored = model.weights if model.folder else checkpoint_format(name) or model.weights
    if stored in TORCH_DTYPES or not name:
        return name, ""
    published = [one for one in loadable_checkpoints(model, "bf16") if one.format == "bf16"]
    if published and not model.folder:
        return published[0].repository, ""
    code = needs_repository_code(model, "transformers")
    lines = resaving_program(name, _WIDENED, "bf16", runs_code=code)
    return _WIDENED, f"[ -d {_WIDENED} ] || {lines}"


def quantized_weights(job: TrainingJob, task: str = "sft") -> tuple[str, str]:
    """Return the name of a job's weights and the lines that make them: published as they are where the framework packs
    all of them in 4 bits itself, else as `wide_weights`.

    Source: unsloth 2026.10.9, unsloth/models/mapper.py: published names stand for its 4-bit checkpoints.
    """
    packs_all = job.model.family in software_of(job.framework, job.software).quantized_experts
    if job.method == "qlora" and packs_all:
        return weights_of(job.model), ""
    return wide_weights(job.model, task)


def has_template(weights: str) -> bool:
    """Whether a name says that the model answers, so that its tokenizer has a chat template."""
    return CHAT.search(weights) is not None


def _first_weights(model: Model, task: str, *, is_new: bool) -> tuple[str, str]:
    """Return where a trainer of Transformers finds the weights that a run starts from, and the lines that write them
    there first: published ones in 16 bits, or random ones of a new model."""
    if not is_new:
        return wide_weights(model, task)
    code = needs_repository_code(model, "transformers")
    return _NEW, f"[ -d {_NEW} ] || {new_weights_program(weights_of(model), _NEW, runs_code=code)}"


def stores_scores(model: Model, framework: str, architecture: str, software: str = "") -> bool:
    """Whether a trainer of Transformers computes a model's attention with stored scores, as nothing else does it on
    that architecture. Software with models of its own does not.

    Source: attention_of; openai/gpt-oss-20b's sinks are in FlashAttention-3's kernels, for Hopper alone.
    """
    kernel = attention_of(model.family)
    no_kernel = kernel == _HOPPER_ONLY and architecture != "hopper"
    record = software_of(framework, software)
    is_own = record.own_models or model.family in record.own_attention
    in_transformers = framework in ("peft", "fsdp", "deepspeed") and not is_own
    return in_transformers and (kernel == "eager" or no_kernel)


def attention_kernel(job: TrainingJob, context_parallel: int = 1) -> str:
    """Return the name that Transformers has for a job's kernels of attention; empty leaves it the choice. Ranks that
    divide sequences run PyTorch's.

    Source: transformers 5.24.0, modeling_utils.py: PyTorch's attention unless another is named. Code of a repository
        names its own; in fp16 it may be a card without FlashAttention-2, before compute capability 8.0.
    """
    if "unfused_attention" in job.features:
        return "eager"
    if context_parallel > 1:
        return _PYTORCH
    if needs_repository_code(job.model, "transformers") or job.compute_dtype == "fp16":
        return ""
    if job.model.family in software_of(job.framework, job.software).own_attention:
        return ""
    widths = [layer.attention.key_dim for layer in layers_of(job.model) if layer.attention is not None]
    if not widths or max(widths) > _WIDEST_FLASH_HEAD:
        return ""
    return attention_of(job.model.family)


def adapted_modules(job: TrainingJob) -> tuple[str, ...]:
    """Return the words by which PEFT finds the matrices that have a job's adapters; empty if attention alone has them
    and its names are not known, or if encoders of images have matrices of the same names.

    Source: catalog/data/training/models.toml; PEFT 0.21.2, LoraConfig.target_modules.
    """
    part = adapted_part(job, software_of(job.framework, job.software))
    if part == "all":
        return ("all-linear",)
    names = () if job.model.vision else attention_matrices(job.model.family)
    return names[:3:2] if part == "query_value" else names


def divides_sequences(job: TrainingJob) -> bool:
    """Whether Accelerate divides the sequences of a job that Transformers' Trainer runs: over heads under DeepSpeed, of
    models without a recurrence; under FSDP in PyTorch's ring, which knows causal attention to all tokens alone, with
    heads that its kernels take.

    Frameworks with settings of their own have other options for it, which are not tabulated.

    Source: accelerate 1.15.0, big_modeling.py (_attach_context_parallel_hooks,
        _refuse_recurrent_layers_under_sequence_parallelism); transformers 5.24.0, trainer.py
        (_prepare_context_parallel_inputs).
    """
    if job.framework not in ("peft", "deepspeed") or job.software in tuners():
        return False
    layers = layers_of(job.model)
    whole = [layer.attention for layer in layers if layer.attention is not None]
    if len(whole) < sum(layer.mixer is not None for layer in layers) or "unfused_attention" in job.features:
        return False
    if job.exchanges_heads:
        return True
    return attention_of(job.model.family) in (FLASH, _PYTORCH) and all(
        each.window_tokens is None
        and each.causal
        and not each.latent
        and each.cross_tokens is None
        and each.key_dim == each.value_dim <= _WIDEST_FLASH_HEAD
        for each in whole
    )


def trl_runs(job: TrainingJob, plan: TrainingPlan, trainer: str = "sft") -> bool:
    """Whether TRL has options for all of a plan: data parallelism, sequences divided in supervised tuning, and layers
    recomputed all or none. Weights in host memory are divided over the ranks: FSDP offloads shards, and DeepSpeed the
    parameters of stage 3.

    Source: as `trl_flags`; TRL 1.16.0, trainer/grpo_config.py and rloo_config.py, which refuse divided sequences.
    """
    is_divided = plan.data_parallel * plan.context_parallel == 1 or plan.sharding == "zero3"
    degrees = (plan.pipeline_parallel, plan.tensor_parallel, plan.expert_parallel)
    has_context = plan.context_parallel == 1 or (
        trainer == "sft" and divides_sequences(job) and plan.sharding != "none"
    )
    return (
        bool(weights_of(job.model))
        and has_context
        and max(degrees) == 1
        and job.compute_dtype in _PRECISIONS
        and job.optimizer in _OPTIMIZERS
        and plan.recompute in ("none", "full")
        and plan.recompute_layers < 0
        and (trainer in _OFFLOADING or not plan.offload_activations)
        and not plan.shard_group
        and (is_divided or not plan.offload_parameters)
        and (job.method in ("full", "ia3") or bool(adapted_modules(job)))
    )


def trl_flags(
    job: TrainingJob,
    plan: TrainingPlan,
    trainer: str = "sft",
    more: str = "",
    *,
    node_size: int = ASSUMED_ACCELERATORS_PER_NODE,
    num_steps: int = 0,
    is_new: bool = False,
) -> str:
    """Return a command of TRL; several accelerators run under Accelerate, which shards and keeps states in host memory.

    On several machines it is started on each, with RANK and HEAD as the machine's number and the first one's address.
    Without `num_steps` it passes its data three times. `is_new`: the run starts from random weights.

    Source: TRL 1.16.0, trl/cli, trl/scripts; Accelerate 1.15.0, accelerate/commands/launch.py. TRL 0.24.0 hands
        options of Accelerate on for `sft` alone.
    """
    if job.method == "ia3":
        return _program(job, plan, node_size, num_steps)
    if trainer not in _TRAINERS and trainer not in _PROGRAMS:
        raise ValueError(f"TRL has no command {trainer}")
    name, first = _first_weights(job.model, trainer, is_new=is_new)
    start = _launcher(job, plan, trainer, node_size)
    flags = [f"{start} --model_name_or_path {shlex.quote(name)} --dataset_name DATASET"]
    flags.append(_sequences(job, plan) if trainer == "sft" else more)
    flags += _trainer_flags(job, plan, num_steps)
    return first + _PROGRAMS.get(trainer, "") + " ".join(filter(None, flags))


_IA3: Final = """cat > ia3.py <<'EOF'
from datasets import load_dataset
from peft import IA3Config
from trl import SFTConfig, SFTTrainer

SFTTrainer(
    model=$model,
    args=SFTConfig($arguments),
    train_dataset=load_dataset("DATASET", split="train"),
    peft_config=IA3Config(task_type="CAUSAL_LM"$modules),
).train()
EOF
$start"""
"""Program for a kind of adapter that no command of TRL has an option for."""
_IA3_MODULES: Final = ', target_modules=["k_proj", "v_proj", "down_proj"], feedforward_modules=["down_proj"]'
_IA3_DEFAULTS: Final = (
    *("llama", "llama4", "mistral", "mixtral", "gemma", "gemma2", "gemma3_text", "qwen2", "qwen3", "phi"),
    *("bloom", "falcon", "gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox", "gptj", "mt5", "opt", "t5"),
)
"""Model types for which PEFT chooses the matrices itself. Source: PEFT 0.21.2, utils/constants.py,
TRANSFORMERS_MODELS_TO_IA3_TARGET_MODULES_MAPPING."""


def _program(job: TrainingJob, plan: TrainingPlan, node_size: int, num_steps: int) -> str:
    """Return a Python program that tunes IA3 vectors with TRL's trainer, and its start.

    Source: TRL 1.16.0, SFTTrainer(peft_config); PEFT, IA3Config.
    """
    kernel = attention_kernel(job, plan.context_parallel)
    arguments: dict[str, Any] = {
        "model_init_kwargs": {
            "dtype": "float16" if job.compute_dtype == "fp16" else "bfloat16",
            **({"attn_implementation": kernel} if kernel else {}),
        },
        "max_length": job.sequence_tokens,
        **_packing(job, plan),
        "per_device_train_batch_size": plan.micro_batch,
        "gradient_accumulation_steps": gradient_accumulation(job, plan),
        job.compute_dtype: True,
        "gradient_checkpointing": plan.recompute != "none",
        **({"activation_offloading": True} if plan.offload_activations else {}),
    }
    if named := _OPTIMIZERS.get(job.optimizer, "").removeprefix("--optim "):
        arguments["optim"] = named
    if num_steps:
        arguments["max_steps"] = num_steps
    start = "python3 ia3.py"
    if _ranks(plan) > 1 or _in_host(plan):
        start = f"{_accelerate(job, plan, node_size)} ia3.py"
    name, first = wide_weights(job.model)
    return first + Template(_IA3).substitute(
        model=repr(name),
        modules="" if job.model.family in _IA3_DEFAULTS else _IA3_MODULES,
        arguments=", ".join(f"{name}={value!r}" for name, value in arguments.items()),
        start=start,
    )


def _sequences(job: TrainingJob, plan: TrainingPlan) -> str:
    """Return the options for sequences packed full, or each padded to the longest of its micro-batch; sequences that
    ranks divide pass as they are, in as many pieces as their number asks for.

    Source: TRL 1.16.0, sft_trainer.py, which refuses packing with context parallelism; PyTorch's ring gives each rank
        two pieces.
    """
    if plan.context_parallel > 1:
        return f"--max_length {job.sequence_tokens} --pad_to_multiple_of {2 * plan.context_parallel}"
    packing = "" if job.mean_sequence_tokens else " --packing"
    how = "" if packs_by_kernel(job) else " --packing_strategy wrapped"
    return f"--max_length {job.sequence_tokens}{packing}{how}"


def _packing(job: TrainingJob, plan: TrainingPlan) -> dict[str, Any]:
    """Return the arguments of a program that mean the same as `_sequences`."""
    if plan.context_parallel > 1:
        return {"pad_to_multiple_of": 2 * plan.context_parallel}
    strategy = {} if packs_by_kernel(job) else {"packing_strategy": "wrapped"}
    return {"packing": not job.mean_sequence_tokens, **strategy}


def packs_by_kernel(job: TrainingJob) -> bool:
    """Whether sequences may be packed whole, which makes one row of a micro-batch: kernels with a list of lengths leave
    out the scores between sequences, the others would compute those of the whole row.

    Source: TRL 1.16.0, sft_trainer.py, padding_free.
    """
    return bool(job.mean_sequence_tokens) or "flash" in attention_kernel(job)


def gradient_accumulation(job: TrainingJob, plan: TrainingPlan) -> int:
    return max(1, job.global_batch // (plan.data_parallel * plan.micro_batch))


_DIVIDED_GRADIENTS: Final = (
    """--accelerator_config '{"gradient_accumulation_kwargs": {"sync_each_batch": true}}'"""
)
"""Options that divide gradients after every micro-batch, as plans are priced; by default each accelerator keeps whole
ones until the step. Source: transformers 5.24.0, trainer.py; accelerate 1.15.0, accelerator.py, no_sync."""


def _trainer_flags(job: TrainingJob, plan: TrainingPlan, num_steps: int) -> list[str]:
    """Return the options of every trainer of transformers: batches, steps, format, optimizer, adapters,
    recomputation."""
    accumulate = gradient_accumulation(job, plan)
    flags = [
        f"--per_device_train_batch_size {plan.micro_batch} --gradient_accumulation_steps {accumulate}",
        _precision(job, plan),
        f"--attn_implementation {kernel}" if (kernel := attention_kernel(job, plan.context_parallel)) else "",
        _OPTIMIZERS.get(job.optimizer, ""),
        "--trust_remote_code" if needs_repository_code(job.model, "transformers") else "",
    ]
    if job.method != "full":
        flags.append(
            f"--use_peft --lora_r {job.lora_rank} --lora_alpha {LORA_ALPHA_PER_RANK * job.lora_rank}"
        )
        flags.append(f"--lora_target_modules {' '.join(adapted_modules(job))}")
        flags += ["--lora_task_type SEQ_CLS"] if "scalar_head" in job.features else []
    if job.method == "qlora":
        flags.append("--load_in_4bit --use_bnb_nested_quant")
        if "--use_fsdp" in _sharding(job, plan):
            # FSDP divides parameters of one format; packed 4-bit weights are stored in that of the adapters.
            flags.append("--bnb_4bit_quant_storage bfloat16")
    if job.method == "dora":
        flags.append("--use_dora")
    flags.append(f"--gradient_checkpointing {plan.recompute != 'none'}")
    flags += ["--activation_offloading"] if plan.offload_activations else []
    if accumulate > 1 and "--use_fsdp" in _sharding(job, plan):
        flags.append(_DIVIDED_GRADIENTS)
    flags += [f"--max_steps {num_steps}"] if num_steps else []
    return flags


def _precision(job: TrainingJob, plan: TrainingPlan) -> str:
    """Return the options for the formats of weights and products: PEFT's whole models are all in bf16."""
    if job.framework == "peft" and job.method == "full" and "--use_fsdp" in _sharding(job, plan):
        return _ALL_IN_BF16 if job.compute_dtype == "bf16" else _PRECISIONS[job.compute_dtype]
    return _PRECISIONS.get(job.compute_dtype, _PRECISIONS["bf16"])


def _in_host(plan: TrainingPlan) -> bool:
    return plan.offload_parameters or plan.offload_optimizer


def _launcher(job: TrainingJob, plan: TrainingPlan, trainer: str, node_size: int) -> str:
    """Return TRL's own command for one accelerator, which takes all of a machine if not told, or Accelerate in front
    of the trainer's script."""
    if _ranks(plan) == 1 and not _in_host(plan) and trainer in _TRAINERS:
        return f"trl {trainer} --num_processes 1"
    script = f"--module trl.scripts.{trainer}" if trainer in _TRAINERS else f"{trainer}.py"
    return f"{_accelerate(job, plan, node_size)} {script}"


def _accelerate(job: TrainingJob, plan: TrainingPlan, node_size: int) -> str:
    """Return Accelerate's command with its own options, for every process of a plan."""
    count = _ranks(plan)
    machines = count // ranks_in_node(count, node_size)
    start = f"{_ulysses(job, plan)}accelerate launch {_sharding(job, plan)}".rstrip()
    words = [f"{start} --num_processes {count}"]
    if machines > 1:
        words.append(f'--num_machines {machines} --machine_rank "$RANK" --main_process_ip "$HEAD"')
        words.append(f"--main_process_port {PORT}")
        words += ["--deepspeed_multinode_launcher standard"] if "--use_deepspeed" in words[0] else []
    return " ".join(words)


def _ranks(plan: TrainingPlan) -> int:
    return plan.data_parallel * plan.context_parallel


def _ulysses(job: TrainingJob, plan: TrainingPlan) -> str:
    """Return the variables that divide sequences over heads: Accelerate's command has options for the ring alone.

    Source: accelerate 1.15.0, parallelism_config.py; commands/launch.py (_validate_launch_command).
    """
    if plan.context_parallel == 1 or not job.exchanges_heads:
        return ""
    size = f"PARALLELISM_CONFIG_SP_SIZE={plan.context_parallel}"
    return f"ACCELERATE_USE_PARALLELISM_CONFIG=true {size} PARALLELISM_CONFIG_SP_ATTN_IMPLEMENTATION=sdpa "


def _sharding(job: TrainingJob, plan: TrainingPlan) -> str:
    """Return Accelerate's options for how processes divide the states, and which of them live in host memory."""
    is_zero = job.framework == "deepspeed" or plan.sharding == "zero1"
    if (_in_host(plan) and not plan.offload_parameters) or (is_zero and _stage(plan)):
        how = f"--use_deepspeed --zero_stage {_stage(plan)}"
        how += " --offload_optimizer_device cpu" if _in_host(plan) else ""
        return how + (" --offload_param_device cpu" if plan.offload_parameters else "")
    if plan.offload_parameters or plan.sharding in ("zero2", "zero3"):
        again = str(plan.sharding != "zero2").lower()
        how = "--use_fsdp --fsdp_version 2 --fsdp_auto_wrap_policy TRANSFORMER_BASED_WRAP"
        how += f" --fsdp_reshard_after_forward {again}"
        if plan.context_parallel > 1:
            how += f" --use_parallelism_config --parallelism_config_dp_shard_size {plan.data_parallel}"
            how += f" --parallelism_config_cp_size {plan.context_parallel}"
        return how + (" --fsdp_offload_params true" if plan.offload_parameters else "")
    return "--multi_gpu" if plan.data_parallel > 1 else ""


def _stage(plan: TrainingPlan) -> int:
    """Return the ZeRO stage: states go to the host from stage 1 on, gradients with them from stage 2, parameters in
    stage 3."""
    if plan.offload_parameters:
        return 3
    stage = {"zero3": 3, "zero2": 2, "zero1": 1}.get(plan.sharding, 0)
    return max(1, stage) if plan.offload_optimizer else stage


def deepspeed_runs(job: TrainingJob, plan: TrainingPlan) -> bool:
    """Whether DeepSpeed's configuration has keys for all of a plan. Source: as `deepspeed_flags`."""
    return job.framework == "deepspeed" and plan.context_parallel == 1 and trl_runs(job, plan)


def deepspeed_flags(
    job: TrainingJob, plan: TrainingPlan, node_size: int, num_steps: int = 0, *, is_new: bool = False
) -> str:
    """Return a command of DeepSpeed's launcher with its configuration as JSON, for a trainer of transformers.

    Source: deepspeedai/DeepSpeed, configuration JSON and launcher; transformers, TrainingArguments.deepspeed.
    """
    zero: dict[str, Any] = {"stage": _stage(plan)}
    for part, held in (("optimizer", plan.offload_optimizer), ("param", plan.offload_parameters)):
        if held:
            zero[f"offload_{part}"] = {"device": "cpu"}
    config = {
        "train_batch_size": gradient_accumulation(job, plan) * plan.micro_batch * plan.data_parallel,
        "train_micro_batch_size_per_gpu": plan.micro_batch,
        "gradient_accumulation_steps": gradient_accumulation(job, plan),
        job.compute_dtype: {"enabled": True},
        "zero_optimization": zero,
    }
    name, first = _first_weights(job.model, "sft", is_new=is_new)
    start = deepspeed_start(plan.data_parallel, node_size, "trl.scripts.sft")
    flags = [
        f"{start} --model_name_or_path {shlex.quote(name)} --dataset_name DATASET {_sequences(job, plan)}",
        f"--deepspeed '{json.dumps(config)}'",
        *_trainer_flags(job, plan, num_steps),
    ]
    return first + " ".join(filter(None, flags))
