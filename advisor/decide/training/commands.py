"""Launch options of training plans: whether a framework has them for all of a plan, which a pick needs, and what they
are."""

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from advisor.catalog import models as model_catalog
from advisor.catalog.training import tuners
from advisor.decide.training.result import Reinforcement
from advisor.decide.training.scenario import RolloutTask
from advisor.simulator.training.cluster import TrainingCluster, on_bus
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.launch_flags import Start, launch_flags
from advisor.simulator.training.launch_loops import (
    LoopShape,
    openrlhf_flags,
    openrlhf_runs,
    openrlhf_tunes,
    openrlhf_tuning_flags,
    verl_flags,
    verl_runs,
)
from advisor.simulator.training.launch_settings import settings_flags, settings_run
from advisor.simulator.training.launch_tuning import trl_flags, trl_runs, weights_of
from advisor.simulator.training.memory import peak_memory
from advisor.simulator.training.plan import PlanLattice, TrainingPlan
from advisor.simulator.training.reinforcement import (
    GENERATION_MEMORY_FRACTION,
    RULES,
    Algorithm,
    generates,
)

_OF_LOOPS: Final = ("verl", "openrlhf")
_TRL_SCRIPTS: Final = ("grpo", "rloo", "dpo", "kto", "orpo", "reward")
"""Algorithms that TRL has a script for; its PPO trainer is called from Python."""


@dataclass(frozen=True, slots=True)
class LoopKind:
    """The parts of a loop of generation and training that decide which framework runs it."""

    algorithm: Algorithm
    is_apart: bool
    """Whether other accelerators generate than those that train."""
    steps_off_policy: int


def has_command(job: TrainingJob, plan: TrainingPlan, loop: LoopKind | None = None) -> bool:
    """Whether a framework has options for all of a plan, of pre-training and tuning or of a loop."""
    if loop is None:
        return bool(launch_flags(job, plan, as_priced=True))
    if not generates(loop.algorithm):
        return _trains_loop(job, plan, loop.algorithm) or _tunes(job, plan, loop.algorithm)
    if job.software in tuners():
        return _trains_loop(job, plan, loop.algorithm) and not loop.is_apart
    if _may_be(job, "openrlhf") and openrlhf_places(loop) and openrlhf_runs(job, plan):
        return True
    in_verl = _may_be(job, "verl") and verl_runs(job, plan)
    return not loop.is_apart and (in_verl or _trains_loop(job, plan, loop.algorithm))


def _tunes(job: TrainingJob, plan: TrainingPlan, algorithm: Algorithm) -> bool:
    """Whether OpenRLHF trains a plan on given outputs; a micro-batch holds whole pairs."""
    is_whole = plan.micro_batch % RULES[algorithm].given_answers == 0
    is_able = job.software not in tuners() and _may_be(job, "openrlhf")
    return is_able and is_whole and openrlhf_tunes(job, plan, algorithm)


def _may_be(job: TrainingJob, framework: str) -> bool:
    """Whether a job may run in a framework of loops: no other one of them is named."""
    return job.software not in _OF_LOOPS or job.software == framework


def _trains_loop(job: TrainingJob, plan: TrainingPlan, algorithm: Algorithm) -> bool:
    """Whether TRL has a script of the algorithm and options for all of a plan, or the named framework settings: pairs,
    and the estimate that KTO makes of others' outputs, take two sequences of a micro-batch.

    Source: TRL 1.16.0, trl/trainer/kto_trainer.py.
    """
    if not generates(algorithm) and plan.micro_batch < 2:
        return False
    if job.software in tuners():
        return settings_run(job, plan, algorithm)
    is_of_trl = _may_be(job, "trl") and algorithm in _TRL_SCRIPTS and job.method != "ia3"
    return is_of_trl and trl_runs(job, plan, algorithm)


def openrlhf_places(loop: LoopKind) -> bool:
    """Whether OpenRLHF can place the models of a loop on the planned accelerators.

    Apart from generation, a critic shares the policy's accelerators only in asynchronous training.

    Source: OpenRLHF 0.9.1.post1, openrlhf/cli/train_ppo_ray.py, --colocate_all_models.
    """
    return loop.algorithm != "ppo" or not loop.is_apart or loop.steps_off_policy > 0


def commands_of(
    job: TrainingJob,
    plan: TrainingPlan,
    cluster: TrainingCluster,
    task: RolloutTask | None,
    loop: Reinforcement | None,
    num_steps: int,
    *,
    start: Start,
) -> Mapping[str, str]:
    """Return the options by framework of a job of `num_steps` steps, which starts as `start` says; for a loop on the
    same accelerators also those of the one that runs it."""
    if task is None or loop is None:
        bus = on_bus(cluster, plan.tensor_parallel)
        node_size = cluster.accelerator.node_size
        return launch_flags(
            job,
            plan,
            on_bus=bus,
            as_priced=True,
            node_size=node_size,
            num_steps=num_steps,
            start=start,
            vendor=cluster.accelerator.vendor,
        )
    # Longer outputs than the training sequences that were planned would not fit the memory of the plan.
    lengths = (task.prompt_tokens, task.response_tokens)
    together = loop.placement == "colocated"
    ways = loop.rollout_tensor_parallel
    offline = not generates(task.algorithm)
    node_size = cluster.accelerator.node_size
    flags = _trl_loop(job, plan, task, lengths, ways, cluster, num_steps) if together or offline else {}
    if offline and _tunes(job, plan, task.algorithm):
        counted = _in_pairs(job, plan, task.algorithm)
        flags["openrlhf"] = openrlhf_tuning_flags(*counted, task.algorithm, node_size, num_steps)
    if offline or job.software in tuners():
        return flags
    shape = LoopShape(
        task.algorithm,
        task.prompts,
        task.samples_per_prompt,
        lengths,
        ways,
        loop.num_rollout_accelerators,
        min(cluster.domain, node_size),
        num_steps,
        _judge_of(task),
    )
    late = loop.steps_off_policy
    if (
        _may_be(job, "openrlhf")
        and openrlhf_runs(job, plan)
        and openrlhf_places(LoopKind(task.algorithm, not together, late))
    ):
        flags["openrlhf"] = openrlhf_flags(job, plan, shape, steps_off_policy=late, together=together)
    in_verl = together and _may_be(job, "verl") and verl_runs(job, plan)
    return ({"verl": verl_flags(job, plan, shape)} if in_verl else {}) | flags


def _judge_of(task: RolloutTask) -> str:
    """Return where the frameworks find the model that judges outputs; empty if a rule judges."""
    return weights_of(model_catalog.get(task.reward_model).record) if task.reward_model else ""


def _trl_loop(
    job: TrainingJob,
    plan: TrainingPlan,
    task: RolloutTask,
    lengths: tuple[int, int],
    ways: int,
    cluster: TrainingCluster,
    num_steps: int,
) -> dict[str, str]:
    """Return the command of TRL's own trainer of the algorithm, where TRL has one and options for the plan, or that of
    the named framework."""
    name = task.algorithm
    if not _trains_loop(job, plan, name):
        return {}
    node_size = cluster.accelerator.node_size
    if generates(name) and job.software in tuners():
        judge = _judge_of(task)
        more = {
            "generations": task.samples_per_prompt,
            "output": lengths[1],
            "engine_fraction": _engine_fraction(job, plan, cluster),
            "engine_ranks": ways,
            "rewards": [judge or "REWARD"],
            "rules": None if judge else ["REWARD_FUNCTION"],
            "judges": [judge] if judge else None,
        }
        return {job.software: settings_flags(job, plan, name, more, node_size=node_size, num_steps=num_steps)}
    if generates(name):
        limits = f"--max_completion_length {lengths[1]} --num_generations {task.samples_per_prompt}"
        engine = "--use_vllm --vllm_mode colocate --vllm_enable_sleep_mode"
        engine += f" --vllm_gpu_memory_utilization {_engine_fraction(job, plan, cluster):g}"
        engine += f" --vllm_tensor_parallel_size {ways}" if ways > 1 else ""
        judge = (
            f"--reward_model_name_or_path {shlex.quote(named)}"
            if (named := _judge_of(task))
            else "--reward_funcs REWARD"
        )
        # GRPO's default loads no reference, whose passes the plan counts.
        distance = " --beta 0.001" if name == "grpo" else ""
        extra = f"{limits} {judge} {engine}{distance}"
    else:
        extra = f"--max_length {sum(lengths)}"
        job, plan = _in_pairs(job, plan, name)
    if job.software in tuners():
        return {job.software: settings_flags(job, plan, name, node_size=node_size, num_steps=num_steps)}
    return {"trl": trl_flags(job, plan, name, extra, node_size=node_size, num_steps=num_steps)}


def _in_pairs(job: TrainingJob, plan: TrainingPlan, algorithm: Algorithm) -> tuple[TrainingJob, TrainingPlan]:
    """Return a job and its plan with batches in pairs, as trainers on pairs count them; plans count sequences."""
    if RULES[algorithm].given_answers < 2:
        return job, plan
    pairs = max(1, job.global_batch // 2)
    return replace(job, global_batch=pairs), replace(plan, micro_batch=plan.micro_batch // 2)


def _engine_fraction(job: TrainingJob, plan: TrainingPlan, cluster: TrainingCluster) -> float:
    """Return the fraction of an accelerator's memory for an engine beside TRL's trainer, whose states stay where they
    are: at most what the price of generation assumes. TRL's default of 0.3 holds no larger model.

    Source: TRL 1.16.0, trl/trainer/grpo_config.py, vllm_gpu_memory_utilization; vLLM refuses more than is free.
    """
    held = peak_memory(job, PlanLattice.of([plan]))
    states = float((held.weight_bytes + held.gradient_bytes + held.optimizer_bytes)[0])
    memory = cluster.accelerator.memory_bytes or states
    left = GENERATION_MEMORY_FRACTION - states / memory
    return max(math.floor(100.0 * left), 1) / 100.0
