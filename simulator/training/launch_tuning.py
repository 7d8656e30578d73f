"""Launch commands of a plan for the frameworks that fine-tune: TRL under Accelerate, or DeepSpeed's own launcher."""

import json
from collections.abc import Mapping
from typing import Any, Final

from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.plan import TrainingPlan

LORA_ALPHA_PER_RANK: Final = 2
_PRECISIONS: Final[Mapping[str, str]] = {"bf16": "--dtype bfloat16 --bf16", "fp16": "--dtype float16 --fp16"}
_OPTIMIZERS: Final[Mapping[str, str]] = {
    "adamw": "",
    "adamw_8bit": "--optim adamw_bnb_8bit",
    "adafactor": "--optim adafactor",
    "lion": "--optim lion_32bit",
    "sgd": "--optim sgd",
}
_TRAINERS: Final = ("sft", "dpo", "grpo", "rloo", "kto", "reward")
"""Trainers of TRL's command line."""
"""Accelerators of one machine."""


def trl_runs(job: TrainingJob, plan: TrainingPlan) -> bool:
    """Whether TRL has options for all of a plan: data parallelism, and layers recomputed all or none. Source: as
    `trl_flags`."""
    degrees = (plan.pipeline_parallel, plan.tensor_parallel, plan.context_parallel, plan.expert_parallel)
    return (
        max(degrees) == 1
        and job.method != "ia3"
        and job.compute_dtype in _PRECISIONS
        and job.optimizer in _OPTIMIZERS
        and plan.recompute in ("none", "full")
        and plan.recompute_layers < 0
        and not plan.offload_activations
        and not plan.shard_group
    )


def trl_flags(job: TrainingJob, plan: TrainingPlan, trainer: str = "sft", more: str = "") -> str:
    """Return a command of TRL; several accelerators run under Accelerate, which shards and keeps states in host memory.

    Source: huggingface/trl, command-line interface and ModelConfig; huggingface/accelerate, `accelerate launch`.
    """
    if trainer not in _TRAINERS:
        raise ValueError(f"TRL has no command {trainer}")
    name = job.model.hf_ids[0] if job.model.hf_ids else job.model.id
    flags = [f"{_launcher(job, plan, trainer)} --model_name_or_path {name}"]
    flags.append(_sequences(job) if trainer == "sft" else more)
    flags += _trainer_flags(job, plan)
    if plan.data_parallel > 1 and not _in_host(plan):
        whole = "zero3" if job.framework == "deepspeed" else "fsdp2"
        profile = {"zero3": whole, "zero2": "zero2", "zero1": "zero1"}.get(plan.sharding, "multi_gpu")
        flags.append(f"--num_processes {plan.data_parallel} --accelerate_config {profile}")
    return " ".join(filter(None, flags))


def _sequences(job: TrainingJob) -> str:
    """Return the options for sequences packed full, or each padded to the longest of its micro-batch."""
    packing = "" if job.mean_sequence_tokens else " --packing"
    return f"--max_length {job.sequence_tokens}{packing}"


def _accumulation(job: TrainingJob, plan: TrainingPlan) -> int:
    return max(1, job.global_batch // (plan.data_parallel * plan.micro_batch))


def _trainer_flags(job: TrainingJob, plan: TrainingPlan) -> list[str]:
    """Return the options of every trainer of transformers: batches, format, optimizer, adapters, recomputation."""
    accumulate = _accumulation(job, plan)
    flags = [
        f"--per_device_train_batch_size {plan.micro_batch} --gradient_accumulation_steps {accumulate}",
        _PRECISIONS.get(job.compute_dtype, _PRECISIONS["bf16"]),
        _OPTIMIZERS.get(job.optimizer, ""),
    ]
    if job.method != "full":
        flags.append(
            f"--use_peft --lora_r {job.lora_rank} --lora_alpha {LORA_ALPHA_PER_RANK * job.lora_rank}"
        )
        flags.append("--lora_target_modules all-linear")
    if job.method == "qlora":
        flags.append("--load_in_4bit --use_bnb_nested_quant")
    if job.method == "dora":
        flags.append("--use_dora")
    flags.append(f"--gradient_checkpointing {plan.recompute != 'none'}")
    return flags


def _in_host(plan: TrainingPlan) -> bool:
    return plan.offload_parameters or plan.offload_optimizer


def _launcher(job: TrainingJob, plan: TrainingPlan, trainer: str) -> str:
    """Return the command itself, or Accelerate in front of the trainer's script if states live in host memory."""
    if not _in_host(plan):
        return f"trl {trainer}"
    processes = f"--num_processes {plan.data_parallel}"
    if plan.offload_parameters and job.framework != "deepspeed":
        how = f"--use_fsdp --fsdp_version 2 --fsdp_offload_params true {processes}"
    else:
        how = f"--use_deepspeed --zero_stage {_stage(plan)} --offload_optimizer_device cpu"
        how += " --offload_param_device cpu" if plan.offload_parameters else ""
        how += f" {processes}"
    return f"accelerate launch {how} trl/scripts/{trainer}.py"


def _stage(plan: TrainingPlan) -> int:
    """Return the ZeRO stage: states go to the host from stage 1 on, gradients with them from stage 2, parameters in
    stage 3."""
    if plan.offload_parameters:
        return 3
    stage = {"zero3": 3, "zero2": 2, "zero1": 1}.get(plan.sharding, 0)
    return max(1, stage) if plan.offload_optimizer else stage


def deepspeed_runs(job: TrainingJob, plan: TrainingPlan) -> bool:
    """Whether DeepSpeed's configuration has keys for all of a plan. Source: as `deepspeed_flags`."""
    return job.framework == "deepspeed" and trl_runs(job, plan)


def deepspeed_flags(job: TrainingJob, plan: TrainingPlan, node_size: int) -> str:
    """Return a command of DeepSpeed's launcher with its configuration as JSON, for a trainer of transformers.

    Source: deepspeedai/DeepSpeed, configuration JSON and launcher; transformers, TrainingArguments.deepspeed.
    """
    zero: dict[str, Any] = {"stage": _stage(plan)}
    for part, held in (("optimizer", plan.offload_optimizer), ("param", plan.offload_parameters)):
        if held:
            zero[f"offload_{part}"] = {"device": "cpu"}
    config = {
        "train_batch_size": _accumulation(job, plan) * plan.micro_batch * plan.data_parallel,
        "train_micro_batch_size_per_gpu": plan.micro_batch,
        "gradient_accumulation_steps": _accumulation(job, plan),
        job.compute_dtype: {"enabled": True},
        "zero_optimization": zero,
    }
    name = job.model.hf_ids[0] if job.model.hf_ids else job.model.id
    in_node = min(plan.data_parallel, node_size)
    nodes = -(-plan.data_parallel // in_node)
    where = f"--hostfile HOSTFILE --num_nodes {nodes} " if nodes > 1 else ""
    flags = [
        f"deepspeed {where}--num_gpus {in_node} trl/scripts/sft.py --model_name_or_path {name} {_sequences(job)}",
        f"--deepspeed '{json.dumps(config)}'",
        *_trainer_flags(job, plan),
    ]
    return " ".join(filter(None, flags))
