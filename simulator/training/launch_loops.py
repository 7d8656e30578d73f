"""Launch commands of a loop of generation and training, for verl and OpenRLHF."""

import shlex
from dataclasses import dataclass
from typing import Final

from advisor.catalog.training import defines_model, is_in_transformers
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.launch_flags import recomputed_modules
from advisor.simulator.training.launch_start import (
    deepspeed_start,
    has_uneven_recomputation,
    ranks_in_node,
    ray_start,
    recomputed_layers,
)
from advisor.simulator.training.launch_tuning import (
    FLASH,
    LORA_ALPHA_PER_RANK,
    adapted_modules,
    attention_kernel,
    has_template,
    weights_of,
    wide_weights,
)
from advisor.simulator.training.plan import TrainingPlan
from advisor.simulator.training.reinforcement import GENERATION_MEMORY_FRACTION

_VERL_BATCHED_TOKENS: Final = 8192
"""Tokens of an iteration of the generating engine by default; verl refuses longer requests (vllm_rollout_spmd.py)."""
_ESTIMATORS: Final = {"grpo": "group_norm", "rloo": "rloo", "ppo": "gae"}
"""Advantage estimators in OpenRLHF by algorithm."""


@dataclass(frozen=True, slots=True)
class LoopShape:
    """One step of a loop: prompts, outputs for each, their lengths, and the generating engine."""

    algorithm: str
    prompts: int
    samples: int
    lengths: tuple[int, int]
    """Number of tokens of a prompt and of the longest output."""
    rollout_tensor_parallel: int
    num_rollout_accelerators: int
    ranks_per_node: int
    num_steps: int = 0
    """Number of steps of the loop; 0 leaves the framework its default."""
    reward_model: str = ""
    """Repository or folder of the model that judges outputs; empty if a rule does."""


def verl_runs(job: TrainingJob, plan: TrainingPlan) -> bool:
    """Whether verl has options for all of a plan.

    Verl takes Megatron with its distributed optimizer and no adapters, or FSDP without layers divided, both in bf16
    with AdamW. States that wait on the host come back for the update.

    Source: as `verl_flags`.
    """
    on_host = plan.offload_optimizer or plan.offload_parameters or plan.offload_activations
    if on_host or plan.shard_group or job.compute_dtype != "bf16" or job.optimizer != "adamw":
        return False
    if not (weights_of(job.model) and is_in_transformers("verl", job.model.family)):
        return False
    if job.framework == "megatron":
        ends = plan.first_stage_layers or plan.last_stage_layers
        in_order = (
            plan.schedule in ("1f1b", "interleaved") and not ends and plan.sharding in ("none", "zero1")
        )
        is_even = in_order and not has_uneven_recomputation(plan)
        return is_even and job.method == "full" and defines_model("verl-megatron", job.model.family)
    return (
        max(plan.tensor_parallel, plan.pipeline_parallel, plan.expert_parallel) == 1
        and plan.recompute in ("none", "full")
        and plan.recompute_layers < 0
        and (job.method == "full" or (job.method == "lora" and bool(adapted_modules(job))))
        and attention_kernel(job) == FLASH  # It names no other kernel.
    )


def verl_flags(job: TrainingJob, plan: TrainingPlan, loop: LoopShape) -> str:
    """Return a command of verl for one loop of generation and training on the same accelerators.

    Source: volcengine/verl, verl/trainer/config (ppo_trainer.yaml, Megatron and FSDP workers).
    """
    weights, first = wide_weights(job.model, loop.algorithm)
    name = shlex.quote(weights)
    in_node = ranks_in_node(loop.num_rollout_accelerators, loop.ranks_per_node)
    nodes = loop.num_rollout_accelerators // in_node
    micro = plan.micro_batch
    in_megatron = job.framework == "megatron"
    config = " --config-name=ppo_megatron_trainer" if in_megatron else ""
    actor = "actor_rollout_ref.actor"
    flags = [
        f"python3 -m verl.trainer.main_ppo{config}",
        f"algorithm.adv_estimator={'gae' if loop.algorithm == 'ppo' else loop.algorithm}",
        "data.train_files=TRAIN.parquet data.val_files=TEST.parquet",
        f"data.train_batch_size={loop.prompts} data.max_prompt_length={loop.lengths[0]}",
        # A longer prompt would end the run.
        f"data.max_response_length={loop.lengths[1]} data.filter_overlong_prompts=True",
        f"actor_rollout_ref.model.path={name}",
        f"{actor}.ppo_mini_batch_size={loop.prompts} {actor}.ppo_micro_batch_size_per_gpu={micro}",
        f"actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu={micro}",
        f"actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu={micro}",
        f"actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.n={loop.samples}",
        f"actor_rollout_ref.rollout.tensor_model_parallel_size={loop.rollout_tensor_parallel}",
        f"actor_rollout_ref.rollout.gpu_memory_utilization={GENERATION_MEMORY_FRACTION}",
        # By default it reports to Weights & Biases as well, which asks for an account.
        f"trainer.n_gpus_per_node={in_node} trainer.nnodes={nodes} trainer.logger=console",
    ]
    if loop.reward_model:
        judge = "reward_model"
        flags.append(f"{judge}.enable=True {judge}.model.path={shlex.quote(loop.reward_model)}")
        flags.append(f"{judge}.micro_batch_size_per_gpu={micro}")
    if sum(loop.lengths) > _VERL_BATCHED_TOKENS:
        flags.append(f"actor_rollout_ref.rollout.max_num_batched_tokens={sum(loop.lengths)}")
    if loop.num_steps:
        flags.append(f"trainer.total_training_steps={loop.num_steps}")
    # The reference is loaded only if the distance to it counts.
    flags.append(
        f"{actor}.use_kl_loss=True" if loop.algorithm != "ppo" else "algorithm.use_kl_in_reward=True"
    )
    if loop.algorithm == "ppo":
        flags.append(f"critic.model.path={name} critic.ppo_micro_batch_size_per_gpu={micro}")
    flags += _verl_megatron(job, plan, actor) if in_megatron else _verl_fsdp(plan, actor)
    flags += _verl_states_on_host(loop, in_megatron=in_megatron)
    if in_megatron:
        critic = ("critic",) if loop.algorithm == "ppo" else ()
        others = ("actor_rollout_ref.ref", *critic, *(("reward_model",) if loop.reward_model else ()))
        flags += [word for other in others for word in _verl_degrees(plan, f"{other}.megatron")]
        # Without it weights of the hub are read for dense models alone; the others take it from the actor.
        flags += [f"{one}.megatron.use_mbridge=True" for one in (actor, *critic)]
    if job.method != "full":
        alpha = LORA_ALPHA_PER_RANK * job.lora_rank
        flags.append(
            f"actor_rollout_ref.model.lora_rank={job.lora_rank} actor_rollout_ref.model.lora_alpha={alpha}"
        )
        if (names := adapted_modules(job)) != ("all-linear",):  # its default
            flags.append(f"actor_rollout_ref.model.target_modules=[{','.join(names)}]")
        # The generating engine takes adapters alone from the trainer, and loads the weights itself.
        flags.append("actor_rollout_ref.rollout.load_format=safetensors")
    return first + ray_start(" ".join(flags), nodes, loop.num_rollout_accelerators)


def _verl_megatron(job: TrainingJob, plan: TrainingPlan, actor: str) -> list[str]:
    own = f"{actor}.megatron"
    flags = [f"{actor}.strategy=megatron", *_verl_degrees(plan, own)]
    own = f"+{own}.override_transformer_config.recompute"
    if plan.recompute == "full":
        method, layers = recomputed_layers(plan)
        flags.append(f"{own}_granularity=full {own}_method={method} {own}_num_layers={layers}")
    elif plan.recompute != "none":
        flags.append(f"{own}_granularity=selective")
    if plan.recompute == "modules":
        flags.append(f"{own}_modules=[{','.join(recomputed_modules(job))}]")
    return flags


def _verl_degrees(plan: TrainingPlan, own: str) -> list[str]:
    """Return the degrees of one model of a loop: those of the reference and of the critic are 1 by default."""
    flags = [
        f"{own}.tensor_model_parallel_size={plan.tensor_parallel}",
        f"{own}.pipeline_model_parallel_size={plan.pipeline_parallel}",
        f"{own}.context_parallel_size={plan.context_parallel}",
    ]
    if plan.virtual_stages > 1:
        flags.append(f"{own}.virtual_pipeline_model_parallel_size={plan.virtual_stages}")
    if plan.expert_parallel > 1:
        flags.append(f"{own}.expert_model_parallel_size={plan.expert_parallel}")
    return flags


def _verl_fsdp(plan: TrainingPlan, actor: str) -> list[str]:
    flags = [f"{actor}.strategy=fsdp2"]
    if plan.sharding == "none" and plan.data_parallel > 1:
        flags.append(f"{actor}.fsdp_config.fsdp_size=1")
    elif plan.sharding == "zero2":
        flags.append(f"{actor}.fsdp_config.reshard_after_forward=False")
    if plan.context_parallel > 1:
        flags.append(f"{actor}.ulysses_sequence_parallel_size={plan.context_parallel}")
    flags.append(f"actor_rollout_ref.model.enable_gradient_checkpointing={plan.recompute != 'none'}")
    return flags


def _verl_states_on_host(loop: LoopShape, *, in_megatron: bool) -> list[str]:
    """Return the options that move each model's states to the host while it does not work, as the price of a loop has
    it: by default they stay beside the generating engine.

    Source: verl 0.6.0, trainer/config/engine/fsdp.yaml and megatron.yaml; workers/fsdp_workers.py.
    """
    learning = ("param", "grad", "optimizer") if in_megatron else ("param", "optimizer")
    folder = "megatron" if in_megatron else "fsdp_config"
    inner = "" if in_megatron else "model."  # where the configurations of critic and judge have FSDP's part
    moved = [("actor_rollout_ref.actor.", learning), ("actor_rollout_ref.ref.", ("param",))]
    moved += [(f"critic.{inner}", learning)] if loop.algorithm == "ppo" else []
    moved += [(f"reward_model.{inner}", ("param",))] if loop.reward_model else []
    return [f"{model}{folder}.{part}_offload=True" for model, parts in moved for part in parts]


def openrlhf_runs(job: TrainingJob, plan: TrainingPlan) -> bool:
    """Whether OpenRLHF has options for all of a plan: DeepSpeed's ZeRO, rings of context ranks, AdamW in bf16.

    Source: as `openrlhf_flags`.
    """
    return (
        max(plan.tensor_parallel, plan.pipeline_parallel, plan.expert_parallel) == 1
        and (plan.sharding in ("zero2", "zero3") or plan.num_accelerators == 1)
        and not plan.shard_group
        and plan.recompute in ("none", "full")
        and plan.recompute_layers < 0
        and not plan.offload_parameters
        and not plan.offload_activations
        and job.compute_dtype == "bf16"
        and job.optimizer == "adamw"
        and (job.method == "full" or (job.method == "lora" and bool(adapted_modules(job))))
        and bool(weights_of(job.model))
        and is_in_transformers("openrlhf", job.model.family)
        and attention_kernel(job) == FLASH
    )


def openrlhf_flags(
    job: TrainingJob, plan: TrainingPlan, loop: LoopShape, *, steps_off_policy: int = 0, together: bool = True
) -> str:
    """Return a command of OpenRLHF, with generation on the training accelerators or apart.

    Source: OpenRLHF/OpenRLHF, openrlhf/cli/train_ppo_ray.py.
    """
    weights, first = wide_weights(job.model, loop.algorithm)
    name = shlex.quote(weights)
    count = plan.num_accelerators
    micro = plan.micro_batch
    in_node = ranks_in_node(count, loop.ranks_per_node)
    nodes = count // in_node
    roles = ("actor", "ref", "critic") if loop.algorithm == "ppo" else ("actor", "ref")
    judge = "--remote_rm_url REWARD.py"
    if loop.reward_model and together:
        roles = (*roles, "reward")
        judge = f"--reward_pretrain {shlex.quote(loop.reward_model)}"
    flags = [f"python3 -m openrlhf.cli.train_ppo_ray --pretrain {name}"]
    flags += [f"--{role}_num_nodes {nodes} --{role}_num_gpus_per_node {in_node}" for role in roles]
    engines = loop.num_rollout_accelerators // loop.rollout_tensor_parallel
    flags += [
        f"--vllm_num_engines {engines} --vllm_tensor_parallel_size {loop.rollout_tensor_parallel}",
        f"--vllm_gpu_memory_utilization {GENERATION_MEMORY_FRACTION}",
        f"--advantage_estimator {_ESTIMATORS[loop.algorithm]} {judge} --prompt_data PROMPTS",
        f"--rollout_batch_size {loop.prompts} --n_samples_per_prompt {loop.samples}",
        f"--train_batch_size {loop.prompts * loop.samples}",
        f"--micro_train_batch_size {micro} --micro_rollout_batch_size {micro}",
        f"--prompt_max_len {loop.lengths[0]} --generate_max_len {loop.lengths[1]}",
        "--packing_samples",
    ]
    if loop.num_steps:
        # Steps are counted in prompts, which one episode passes once.
        flags.append(f"--max_samples {loop.num_steps * loop.prompts} --num_episodes 1")
    if together:
        flags.append("--colocate_all_models --vllm_enable_sleep --deepspeed_enable_sleep")
    elif loop.algorithm == "ppo":
        flags.append("--colocate_all_models")  # in asynchronous training without the generating engines
    else:
        flags.append("--colocate_actor_ref")
    if steps_off_policy and not together:
        flags.append(f"--async_train --async_queue_size {steps_off_policy}")
    flags += _openrlhf_plan(job, plan)
    total = max(loop.num_rollout_accelerators, count) if together else loop.num_rollout_accelerators + count
    machines = -(-total // min(total, loop.ranks_per_node))
    return first + ray_start(" ".join(flags), machines, total)


def _openrlhf_plan(job: TrainingJob, plan: TrainingPlan) -> list[str]:
    """Return the options of all trainers of OpenRLHF for how a plan trains."""
    flags = [f"--zero_stage {3 if plan.sharding == 'zero3' else 2} --bf16"]
    if plan.context_parallel > 1:
        flags.append(f"--ring_attn_size {plan.context_parallel}")
    if plan.recompute == "full":
        flags.append("--gradient_checkpointing")
    if plan.offload_optimizer:
        flags.append("--adam_offload")
    if job.method == "lora":
        alpha = LORA_ALPHA_PER_RANK * job.lora_rank
        modules = " ".join(adapted_modules(job))
        flags.append(f"--lora_rank {job.lora_rank} --lora_alpha {alpha} --target_modules {modules}")
    return flags


_GIVEN_OUTPUTS: Final = {
    "dpo": (
        "train_dpo --packing_samples",
        "--dataset PAIRS --apply_chat_template",
        "--dataset TEXT_PAIRS --prompt_key prompt",
    ),
    "reward": (
        "train_rm --packing_samples",
        "--dataset PAIRS --apply_chat_template",
        "--dataset TEXT_PAIRS --prompt_key prompt",
    ),
    "kto": (
        "train_kto",
        "--dataset LABELLED_CONVERSATIONS --input_key messages --apply_chat_template",
        "--dataset TEXT_LABELLED --input_key prompt --output_key completion",
    ),
}
"""OpenRLHF's trainers on given outputs by algorithm, with their data as conversations, which a chat template formats,
and as texts, for tokenizers that have none. Source: openrlhf 0.9.1.post1, datasets/reward_dataset.py and
unpaired_preference_dataset.py."""


def openrlhf_tunes(job: TrainingJob, plan: TrainingPlan, algorithm: str) -> bool:
    """Whether OpenRLHF has a trainer on given outputs, and options for all of a plan; its KTO has no rings.

    Source: as `openrlhf_tuning_flags`.
    """
    has_ring = plan.context_parallel > 1
    return algorithm in _GIVEN_OUTPUTS and openrlhf_runs(job, plan) and not (has_ring and algorithm == "kto")


def openrlhf_tuning_flags(
    job: TrainingJob, plan: TrainingPlan, algorithm: str, node_size: int, num_steps: int
) -> str:
    """Return a command of OpenRLHF for an algorithm on given outputs; batches count pairs where data are pairs.

    Source: OpenRLHF 0.9.1.post1, openrlhf/cli/train_dpo.py, train_rm.py, train_kto.py.
    """
    weights, first = wide_weights(job.model, algorithm)
    trainer, conversations, texts = _GIVEN_OUTPUTS[algorithm]
    module, _, packing = trainer.partition(" ")
    data = f"{conversations if has_template(weights) else texts} {packing}".rstrip()
    flags = [
        deepspeed_start(plan.num_accelerators, node_size, f"openrlhf.cli.{module}"),
        f"--pretrain {shlex.quote(weights)} {data} --max_len {job.sequence_tokens}",
        f"--train_batch_size {job.global_batch} --micro_train_batch_size {plan.micro_batch}",
        *_openrlhf_plan(job, plan),
    ]
    if num_steps:
        flags.append(f"--max_samples {num_steps * job.global_batch} --max_epochs 1")
    return first + " ".join(flags)
