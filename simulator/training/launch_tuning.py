"""A plan as a command of the frameworks that fine-tune and reinforce: TRL under Accelerate, verl."""

from collections.abc import Mapping
from typing import Final

from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.plan import TrainingPlan

LORA_ALPHA_PER_RANK: Final = 2
_PRECISIONS: Final[Mapping[str, str]] = {"bf16": "--dtype bfloat16 --bf16", "fp16": "--dtype float16 --fp16"}
_OPTIMIZERS: Final[Mapping[str, str]] = {
    "adamw": "", "adamw_8bit": "--optim adamw_bnb_8bit", "adafactor": "--optim adafactor", "lion": "--optim lion_32bit",
    "sgd": "--optim sgd",
}  # fmt: skip
_TRAINERS: Final = ("sft", "dpo", "grpo")
"""Of TRL's command line."""


def trl_runs(job: TrainingJob, plan: TrainingPlan) -> bool:
    """Whether TRL has options for all of a plan: data parallelism, and layers recomputed all or none. Source: as
    `trl_flags`."""
    degrees = (plan.pipeline_parallel, plan.tensor_parallel, plan.context_parallel, plan.expert_parallel)
    return (
        max(degrees) == 1
        and job.compute_dtype in _PRECISIONS
        and job.optimizer in _OPTIMIZERS
        and plan.recompute in ("none", "full")
        and plan.recompute_layers < 0
        and not plan.offload_activations
        and not plan.shard_group
    )


def trl_flags(job: TrainingJob, plan: TrainingPlan, trainer: str = "sft", more: str = "") -> str:
    """A command of TRL; several accelerators run under Accelerate, which shards and keeps states in host memory.

    Source: huggingface/trl, command-line interface and ModelConfig; huggingface/accelerate, `accelerate launch`.
    """
    if trainer not in _TRAINERS:
        raise ValueError(f"TRL has no command {trainer}")
    name = job.model.hf_ids[0] if job.model.hf_ids else job.model.id
    accumulate = max(1, job.global_batch // (plan.data_parallel * plan.micro_batch))
    packed = f"--max_length {job.sequence_tokens} --packing" if trainer == "sft" else more
    flags = [
        f"{_launcher(plan, trainer)} --model_name_or_path {name} {packed}",
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
    if plan.data_parallel > 1 and not _in_host(plan):
        profile = {"zero3": "fsdp2", "zero2": "zero2", "zero1": "zero1"}.get(plan.sharding, "multi_gpu")
        flags.append(f"--num_processes {plan.data_parallel} --accelerate_config {profile}")
    return " ".join(filter(None, flags))


def _in_host(plan: TrainingPlan) -> bool:
    return plan.offload_parameters or plan.offload_optimizer


def _launcher(plan: TrainingPlan, trainer: str) -> str:
    """The command itself, or Accelerate in front of the trainer's script where states live in host memory."""
    if not _in_host(plan):
        return f"trl {trainer}"
    processes = f"--num_processes {plan.data_parallel}"
    if plan.offload_parameters:
        how = f"--use_fsdp --fsdp_version 2 --fsdp_offload_params true {processes}"
    else:
        stage = {"zero3": 3, "zero2": 2}.get(plan.sharding, 1)
        how = f"--use_deepspeed --zero_stage {stage} --offload_optimizer_device cpu {processes}"
    return f"accelerate launch {how} trl/scripts/{trainer}.py"


def verl_flags(
    job: TrainingJob, plan: TrainingPlan, *, algorithm: str, prompts: int, samples: int, lengths: tuple[int, int],
    rollout_tensor_parallel: int, num_accelerators: int, ranks_per_node: int,
) -> str:  # fmt: skip
    """A command of verl for one loop of generation and training on the same accelerators.

    Source: volcengine/verl, verl/trainer/config (ppo_trainer.yaml, Megatron and FSDP workers).
    """
    name = job.model.hf_ids[0] if job.model.hf_ids else job.model.id
    in_node, micro = min(ranks_per_node, num_accelerators), plan.micro_batch
    in_megatron = plan.tensor_parallel > 1 or plan.pipeline_parallel > 1 or plan.expert_parallel > 1
    config = " --config-name=ppo_megatron_trainer" if in_megatron else ""
    actor = "actor_rollout_ref.actor"
    flags = [
        f"python3 -m verl.trainer.main_ppo{config}",
        f"algorithm.adv_estimator={'grpo' if algorithm == 'grpo' else 'gae'}",
        "data.train_files=TRAIN.parquet data.val_files=TEST.parquet",
        f"data.train_batch_size={prompts} data.max_prompt_length={lengths[0]}",
        f"data.max_response_length={lengths[1]}",
        f"actor_rollout_ref.model.path={name}",
        f"{actor}.ppo_mini_batch_size={prompts} {actor}.ppo_micro_batch_size_per_gpu={micro}",
        f"actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu={micro}",
        f"actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu={micro}",
        f"actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.n={samples}",
        f"actor_rollout_ref.rollout.tensor_model_parallel_size={rollout_tensor_parallel}",
        f"trainer.n_gpus_per_node={in_node} trainer.nnodes={-(-num_accelerators // in_node)}",
    ]
    if algorithm == "ppo":
        flags.append(f"critic.model.path={name} critic.ppo_micro_batch_size_per_gpu={micro}")
    flags += _verl_megatron(plan, actor) if in_megatron else _verl_fsdp(plan, actor)
    if job.method != "full":
        alpha = LORA_ALPHA_PER_RANK * job.lora_rank
        flags.append(
            f"actor_rollout_ref.model.lora_rank={job.lora_rank} actor_rollout_ref.model.lora_alpha={alpha}"
        )
    return " ".join(flags)


def _verl_megatron(plan: TrainingPlan, actor: str) -> list[str]:
    own = f"{actor}.megatron"
    flags = [
        f"{actor}.strategy=megatron {own}.tensor_model_parallel_size={plan.tensor_parallel}",
        f"{own}.pipeline_model_parallel_size={plan.pipeline_parallel}",
        f"{own}.context_parallel_size={plan.context_parallel}",
    ]
    if plan.virtual_stages > 1:
        flags.append(f"{own}.virtual_pipeline_model_parallel_size={plan.virtual_stages}")
    if plan.expert_parallel > 1:
        flags.append(f"{own}.expert_model_parallel_size={plan.expert_parallel}")
    if plan.recompute == "full":
        own = f"{own}.override_transformer_config"
        flags.append(
            f"+{own}.recompute_granularity=full +{own}.recompute_method=uniform +{own}.recompute_num_layers=1"
        )
    elif plan.recompute != "none":
        flags.append(f"+{own}.override_transformer_config.recompute_granularity=selective")
    return flags


def _verl_fsdp(plan: TrainingPlan, actor: str) -> list[str]:
    flags = [f"{actor}.strategy=fsdp2"]
    if plan.context_parallel > 1:
        flags.append(f"{actor}.ulysses_sequence_parallel_size={plan.context_parallel}")
    flags.append(f"actor_rollout_ref.model.enable_gradient_checkpointing={plan.recompute != 'none'}")
    for part, held in (("param", plan.offload_parameters), ("optimizer", plan.offload_optimizer)):
        if held:
            flags.append(f"{actor}.fsdp_config.{part}_offload=True")
    return flags
