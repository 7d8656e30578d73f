"""Reinforcement learning on one cluster: training plans and rollouts together, or split in the best proportion."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from advisor.catalog import models as model_catalog
from advisor.catalog.errors import AdvisorError
from advisor.decide.training.commands import LoopKind, has_command
from advisor.decide.training.result import Reinforcement
from advisor.decide.training.scenario import RolloutTask, TrainingScenario
from advisor.decide.training.search import PlanFound, Tally, best_plans, simulate_pipeline
from advisor.decide.training.space import Variant, peak_flop_per_s
from advisor.simulator.training.reinforcement import (
    Companions,
    LoopTimes,
    colocated_sync_s,
    disaggregated_sync_s,
    forward_s,
    generates,
    judge_s,
    num_forwards,
    num_trained_models,
)
from advisor.simulator.training.rollout import Rollout, RolloutLoad, rollout

_SHARES = (0.25, 0.5, 0.75)
"""Fractions of a split cluster that generate rollouts."""
_STATES = ("weight", "gradient", "optimizer")


@dataclass(frozen=True, slots=True)
class Loop:
    """A training plan with the generation around it."""

    found: PlanFound
    reinforcement: Reinforcement

    @property
    def num_accelerators(self) -> int:
        """Number of accelerators in the whole cluster."""
        loop = self.reinforcement
        if loop.placement == "colocated":
            return loop.num_training_accelerators
        return loop.num_training_accelerators + loop.num_rollout_accelerators


def best_loop(
    scenario: TrainingScenario,
    variants: Sequence[Variant],
    num_accelerators: int,
    effort: Tally,
    *,
    refine: bool = True,
) -> Loop | None:
    """The fastest loop of a cluster; a first look (`refine` False) tries only generation on the training machines.

    Raises: AdvisorError: no layout generates with the model at all.
    Source: own composition of best_plans and rollout.
    """
    task = scenario.rollout
    assert task is not None
    loops: list[Loop] = []
    if task.placement != "disaggregated" or not generates(task.algorithm):
        loops += _colocated_loops(scenario, task, variants, num_accelerators, effort, refine=refine)
    apart = task.placement == "disaggregated" or (refine and task.placement == "both")
    if apart and generates(task.algorithm):
        loops += _disaggregated_loops(scenario, task, variants, num_accelerators, effort, refine=refine)
    return min(loops, key=lambda loop: loop.reinforcement.step_s, default=None)


def _colocated_loops(
    scenario: TrainingScenario,
    task: RolloutTask,
    variants: Sequence[Variant],
    count: int,
    effort: Tally,
    *,
    refine: bool,
) -> Iterator[Loop]:
    found = _plan(variants, count, task, effort, apart=False, refine=refine)
    if found is None:
        return
    accelerator = found.cluster.accelerator
    if not generates(task.algorithm):
        yield Loop(found, _reinforcement(scenario, task, found, None, 0.0, count, apart=False))
        return
    made = _rollout(scenario, task, found, count)
    states = sum(found.memory_bytes[name] for name in _STATES) * num_trained_models(task.algorithm)
    sync_s = colocated_sync_s(found.job.model, accelerator, made.tensor_parallel, states)
    yield Loop(found, _reinforcement(scenario, task, found, made, sync_s, count, apart=False))


def _disaggregated_loops(
    scenario: TrainingScenario,
    task: RolloutTask,
    variants: Sequence[Variant],
    count: int,
    effort: Tally,
    *,
    refine: bool,
) -> Iterator[Loop]:
    for share in _SHARES:
        generating = round(count * share)
        training = count - generating
        if generating < 1 or training < 1:
            continue
        found = _plan(_apart(variants), training, task, effort, apart=True, refine=refine)
        if found is None:
            continue
        try:
            made = _rollout(scenario, task, found, generating)
        except AdvisorError:
            continue
        sync_s = disaggregated_sync_s(
            found.job.model, found.cluster.accelerator, made.tensor_parallel, training
        )
        yield Loop(found, _reinforcement(scenario, task, found, made, sync_s, generating, apart=True))


def _apart(variants: Sequence[Variant]) -> list[Variant]:
    """Layouts that train while other machines generate: those of OpenRLHF, or all where FSDP is not among them."""
    sharded = [
        replace(each, limits=replace(each.limits, sharding=("zero2", "zero3"), shard_groups=(0,)))
        for each in variants
        if each.job.framework == "fsdp"
    ]
    return sharded or list(variants)


def trains_loop(task: RolloutTask, variants: Sequence[Variant], count: int) -> bool:
    """Whether a plan that a framework has options for trains on `count` accelerators, generation being left aside."""
    if task.placement != "disaggregated" or not generates(task.algorithm):
        return _plan(variants, count, task, Tally(), apart=False, refine=False) is not None
    parts = (count - round(count * share) for share in _SHARES)
    return any(
        _plan(_apart(variants), part, task, Tally(), apart=True, refine=False) is not None
        for part in parts
        if 0 < part < count
    )


def companions_of(task: RolloutTask, *, apart: bool) -> Companions:
    """Return the other models on the accelerators that train: what judges stays with what generates."""
    judge = model_catalog.get(task.reward_model).record if task.reward_model and not apart else None
    return Companions(task.algorithm, reward_model=judge)


def _plan(
    variants: Sequence[Variant],
    count: int,
    task: RolloutTask,
    effort: Tally,
    *,
    apart: bool,
    refine: bool,
) -> PlanFound | None:
    kind = LoopKind(task.algorithm, apart, task.steps_off_policy if apart else 0)
    companions = companions_of(task, apart=apart)
    keep = 2 if refine else 1
    can_start = partial(has_command, loop=kind)
    plans = best_plans(variants, count, effort, keep=keep, companions=companions, can_start=can_start)
    if not plans:
        return None
    if not refine:
        return plans[0]
    return min((simulate_pipeline(plan, effort) for plan in plans), key=lambda plan: plan.step_s)


def _rollout(scenario: TrainingScenario, task: RolloutTask, found: PlanFound, count: int) -> Rollout:
    load = RolloutLoad(
        task.prompts * task.samples_per_prompt,
        task.prompt_tokens,
        task.response_tokens,
        task.response_sigma,
        task.samples_per_prompt,
    )
    return rollout(
        found.job.model, found.cluster.accelerator, count, load, engine=task.engine, seed=scenario.seed
    )


def _reinforcement(
    scenario: TrainingScenario,
    task: RolloutTask,
    found: PlanFound,
    made: Rollout | None,
    sync_s: float,
    generating: int,
    *,
    apart: bool,
) -> Reinforcement:
    training = found.num_accelerators
    times = LoopTimes(
        rollout_s=made.time_s if made else 0.0,
        reward_s=task.reward_s + _judging_s(task, found, generating),
        logprob_s=num_forwards(task.algorithm) * forward_s(found.breakdown_s),
        training_s=num_trained_models(task.algorithm) * found.step_s,
        weight_sync_s=sync_s,
    )
    step_s = times.step_s(apart=apart, steps_off_policy=task.steps_off_policy)
    samples = task.prompts * task.samples_per_prompt
    return Reinforcement(
        algorithm=task.algorithm,
        placement="disaggregated" if apart else "colocated",
        num_rollout_accelerators=generating,
        num_training_accelerators=training,
        steps_off_policy=task.steps_off_policy if apart else 0,
        rollout_s=times.rollout_s,
        reward_s=times.reward_s,
        logprob_s=times.logprob_s,
        training_s=times.training_s,
        weight_sync_s=times.weight_sync_s,
        step_s=step_s,
        rollout_fraction=times.rollout_s / times.work_s,
        rollout_tail_fraction=made.tail_fraction if made else 0.0,
        rollout_tensor_parallel=made.tensor_parallel if made else 0,
        rollout_output_tokens_per_s=made.output_tokens_per_s if made else 0.0,
        samples_per_s=samples / step_s,
    )


def _judging_s(task: RolloutTask, found: PlanFound, count: int) -> float:
    if not task.reward_model:
        return 0.0
    judge = model_catalog.get(task.reward_model).record
    peak = peak_flop_per_s(found.cluster.accelerator, "bf16") or 1.0
    tokens = float(found.job.tokens_per_step)
    return judge_s(judge, tokens, count, peak)
