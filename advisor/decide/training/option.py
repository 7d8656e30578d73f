"""The conversion of a plan on an offer to an option: step, failures, days, dollars, energy, launch options."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from advisor.catalog.ownership import Ownership, purchase_price
from advisor.catalog.schema import Accelerator
from advisor.catalog.units import DAY_S, GB, HOUR_S
from advisor.decide.offers import OWN, offer_of
from advisor.decide.option import Machine
from advisor.decide.ownership import Holding, tco
from advisor.decide.purchase import bill_of, job_usd
from advisor.decide.reason import Reason, TightMemory
from advisor.decide.standing import doubts_of
from advisor.decide.training.conditions import network_words
from advisor.decide.training.money import BUSY_POWER_FRACTION, ClusterOffer, cheapest_by_term, energy_of
from advisor.decide.training.result import (
    Failures,
    PlanColumns,
    StageMemory,
    TermCost,
    TrainingLaunch,
    TrainingOption,
    TrainingPerformance,
)
from advisor.decide.training.runs import (
    ESTIMATED_RESERVATION,
    LEAST_GOODPUT,
    Run,
    goodput_of,
    is_worth_committing,
    run_of,
)
from advisor.decide.training.scenario import MachineConditions, RolloutTask, TrainingScenario
from advisor.decide.training.search import PlanFound
from advisor.decide.training.simulate_args import simulate_args
from advisor.decide.training.space import peak_flop_per_s
from advisor.decide.training.uncertainty import memory_quantity, step_quantity, verdict_of
from advisor.simulator.training.cluster import on_bus
from advisor.simulator.training.flop import hardware_flop_per_token, model_flop_per_token
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.launch_flags import launch_flags
from advisor.simulator.training.launch_loops import (
    LoopShape,
    openrlhf_flags,
    openrlhf_runs,
    verl_flags,
    verl_runs,
)
from advisor.simulator.training.launch_tuning import trl_flags, trl_runs
from advisor.simulator.training.memory import stage_memory
from advisor.simulator.training.plan import TrainingPlan
from advisor.simulator.training.plan_check import plan_words
from advisor.simulator.training.reinforcement import RULES, generates

_NOT_MODELLED: Final = "data_loading"
"""Part of a step that no plan's time contains."""
_TRL_COMMANDS: Final = ("grpo", "rloo", "dpo", "kto", "reward")
"""Algorithms that TRL has a command for; its PPO and ORPO trainers have none."""
_LONGEST_ANSWER = 4.0
"""Ratio of the longest output to the mean output: outputs are cut off there."""


def plan_columns(job: TrainingJob, plan: TrainingPlan) -> PlanColumns:
    """A layout under the names of the contract."""
    etp = plan.expert_tensor_parallel or (plan.tensor_parallel if plan.expert_parallel > 1 else 1)
    offloaded = [
        name for name in ("optimizer", "parameters", "activations") if getattr(plan, f"offload_{name}")
    ]
    return PlanColumns(
        tp=plan.tensor_parallel,
        sp=plan.sequence_parallel and plan.tensor_parallel > 1,
        pp=plan.pipeline_parallel,
        vpp=plan.virtual_stages,
        cp=plan.context_parallel,
        ep=plan.expert_parallel,
        etp=etp,
        dp=plan.data_parallel,
        sharding=plan.sharding,
        shard_group=plan.shard_group,
        micro_batch=plan.micro_batch,
        num_micro_batches=max(1, -(-job.global_batch // (plan.data_parallel * plan.micro_batch))),
        recompute=plan.recompute,
        recompute_layers=plan.recompute_layers,
        schedule=plan.schedule,
        offload=", ".join(offloaded),
        first_stage_layers=plan.first_stage_layers,
        last_stage_layers=plan.last_stage_layers,
        framework=job.framework,
        compute_dtype=job.compute_dtype,
        words=plan_words(plan),
    )


def option_of(
    rank: int, run: Run, scenario: TrainingScenario, known: Ownership, others: Sequence[ClusterOffer]
) -> TrainingOption:
    """The option that a run stands for, with the same run at every other term as further bills."""
    found = run.found
    price = run.offer.price
    accelerator = found.cluster.accelerator
    step = step_quantity(found, run.step_s)
    shown: tuple[str, ...] = ()
    if run.reinforcement is None:
        shown = simulate_args(scenario.model, accelerator.id, found.job, found.plan, scenario.conditions)
    return TrainingOption(
        rank=rank,
        role="other",
        machine=cluster_machine(accelerator, run.num_accelerators),
        plan=plan_columns(found.job, found.plan),
        offer=offer_of(price, scenario.as_of),
        bill=bill_of(
            price,
            run.offer.usd_per_hour,
            scenario.limits.beside,
            duration_s=step.scaled(run.paid_s / run.step_s),
        ),
        performance=_performance(run, scenario, known),
        launch=TrainingLaunch(_launch(run, scenario), shown),
        bills=_bills(run, scenario, known, others),
        reasons=(*doubts_of(step.basis, price, scenario.as_of), *_tight(found)),
        notes=_condition_notes(run, scenario.conditions),
    )


def _performance(run: Run, scenario: TrainingScenario, known: Ownership) -> TrainingPerformance:
    """Return how fast the plan of a run trains, what it needs, and how long the whole run takes."""
    found = run.found
    job = found.job
    plan = found.plan
    accelerator = found.cluster.accelerator
    step = step_quantity(found, run.step_s)
    training = step_quantity(found, found.step_s * run.straggler_factor)
    per_step = job.real_tokens_per_step / found.num_accelerators
    peak = peak_flop_per_s(accelerator, job.compute_dtype) or 1.0
    breakdown_s = _breakdown_s(run)
    energy = energy_of(
        accelerator,
        run.num_accelerators,
        run.wall_s,
        run.offer.price,
        scenario.limits.region,
        known,
        power_cap_w=scenario.conditions.power_cap_w,
    )
    is_powered = bool(accelerator.tdp_w)
    left = max(run.goodput.goodput_fraction, 1e-9)
    return TrainingPerformance(
        step_time_s=step,
        tokens_per_s_per_accelerator=per_step / step,
        mfu_fraction=per_step * model_flop_per_token(job) / peak / training,
        hfu_fraction=per_step * hardware_flop_per_token(job, plan) / peak / training,
        peak_memory_bytes=memory_quantity(found),
        memory_limit_bytes=accelerator.memory_bytes,
        memory_verdict=verdict_of(found),
        allocated_memory_bytes=found.allocated_bytes,
        reserved_memory_bytes=found.reserved_bytes,
        host_memory_bytes=found.host_bytes or None,
        memory_bytes=found.memory_bytes,
        memory_by_stage=memory_stages(job, plan),
        num_steps=run.num_steps,
        days=step.scaled(run.num_steps / left / DAY_S),
        goodput_fraction=run.goodput.goodput_fraction,
        failures=_failures(run),
        breakdown_s=modelled(breakdown_s),
        bubble_fraction=breakdown_s.get("bubble", 0.0) / sum(breakdown_s.values()),
        bottleneck=bottleneck_of(breakdown_s),
        power_w=energy.power_w if is_powered else None,
        energy_kwh=energy.energy_kwh if is_powered else None,
        carbon_kg_co2e=energy.carbon_kg_co2e if is_powered else None,
        carbon_region=energy.region,
        basis=step.basis,
        reinforcement=run.reinforcement,
    )


def _tight(found: PlanFound) -> tuple[Reason, ...]:
    """Return the doubt about a plan whose expected peak alone is within the memory."""
    if verdict_of(found) == "fits":
        return ()
    peak = memory_quantity(found)
    return (TightMemory(peak.value, peak.high, found.cluster.accelerator.memory_bytes or 0.0),)


def _condition_notes(run: Run, conditions: MachineConditions) -> tuple[str, ...]:
    """Return notes on the conditions of machines that a run rests on: its network and what it keeps in host memory."""
    cluster = run.found.cluster
    network = network_words(cluster, run.num_accelerators)
    if network and not conditions.network:
        network += " is assumed (--network)"
    host = ""
    if run.found.host_bytes:
        room = f"{cluster.host_bytes / GB:.0f} GB"
        known = f"{room} there" if conditions.host_bytes else f"{room} assumed (--host-memory)"
        host = f"host memory: {run.found.host_bytes / GB:.0f} GB for each accelerator, of {known}"
    return tuple(filter(None, (network, host)))


def modelled(breakdown_s: Mapping[str, float]) -> dict[str, float]:
    """Return the parts of a step that are modelled [s]; they add up to the step."""
    return {name: seconds for name, seconds in breakdown_s.items() if name != _NOT_MODELLED}


def cluster_machine(accelerator: Accelerator, count: int) -> Machine:
    """Return `count` accelerators in whole nodes, or in part of one."""
    each = min(count, accelerator.node_size)
    return Machine(accelerator.id, count, each, math.ceil(count / each))


def _breakdown_s(run: Run) -> dict[str, float]:
    """Parts of a step, stragglers of the whole cluster among them [s]."""
    found = run.found
    waits_s = found.step_s * (run.straggler_factor - 1.0)
    return {**found.breakdown_s, "straggler": found.breakdown_s.get("straggler", 0.0) + waits_s}


def _launch(run: Run, scenario: TrainingScenario) -> Mapping[str, str]:
    """Options of the training frameworks; for a loop on the same accelerators also of the one that runs it."""
    job = run.found.job
    plan = run.found.plan
    loop = run.reinforcement
    domain = min(run.found.cluster.domain, run.found.cluster.accelerator.node_size)
    task = scenario.rollout
    if task is None or loop is None:
        bus = on_bus(run.found.cluster, plan.tensor_parallel)
        node_size = run.found.cluster.accelerator.node_size
        return launch_flags(job, plan, on_bus=bus, as_priced=True, node_size=node_size)
    lengths = (task.prompt_tokens, round(task.response_tokens * _LONGEST_ANSWER))
    together = loop.placement == "colocated"
    ways = loop.rollout_tensor_parallel
    offline = not generates(task.algorithm)
    flags = _trl_loop(job, plan, task, lengths, ways) if together or offline else {}
    if offline:
        return flags
    shape = LoopShape(
        task.algorithm,
        task.prompts,
        task.samples_per_prompt,
        lengths,
        ways,
        loop.num_rollout_accelerators,
        domain,
    )
    if openrlhf_runs(job, plan):
        late = loop.steps_off_policy
        flags["openrlhf"] = openrlhf_flags(job, plan, shape, steps_off_policy=late, together=together)
    whole = {"verl": verl_flags(job, plan, shape)} if together and verl_runs(job, plan) else {}
    return whole | flags


def _trl_loop(
    job: TrainingJob, plan: TrainingPlan, task: RolloutTask, lengths: tuple[int, int], ways: int
) -> dict[str, str]:
    """TRL's own trainer of the algorithm, where it has one and options for the plan."""
    if task.algorithm not in _TRL_COMMANDS or not trl_runs(job, plan):
        return {}
    if not generates(task.algorithm):
        if RULES[task.algorithm].given_answers == 2:
            # TRL counts pairs where the plan counts sequences.
            job = replace(job, global_batch=max(1, job.global_batch // 2))
            plan = replace(plan, micro_batch=plan.micro_batch // 2)
        return {"trl": trl_flags(job, plan, task.algorithm, f"--max_length {sum(lengths)}")}
    generated = f"--num_generations {task.samples_per_prompt} --max_completion_length {lengths[1]}"
    engine = "--use_vllm --vllm_mode colocate" + (f" --vllm_tensor_parallel_size {ways}" if ways > 1 else "")
    return {"trl": trl_flags(job, plan, task.algorithm, f"{generated} {engine}")}


def _failures(run: Run) -> Failures:
    left = run.goodput
    checkpoint = run.checkpoint
    return Failures(
        goodput_fraction=left.goodput_fraction,
        checkpoint_fraction=left.checkpoint_fraction,
        replay_fraction=left.replay_fraction,
        restart_fraction=left.restart_fraction,
        lost_capacity_fraction=left.lost_capacity_fraction,
        cluster_mtbf_s=left.mtbf_s,
        interruptions_per_day=left.num_interruptions_per_day,
        checkpoint_bytes=checkpoint.state_bytes,
        checkpoint_stall_s=checkpoint.stall_s,
        checkpoint_write_s=checkpoint.write_s,
        checkpoint_interval_s=left.interval_s,
    )


def _bills(
    run: Run, scenario: TrainingScenario, known: Ownership, others: Sequence[ClusterOffer]
) -> tuple[TermCost, ...]:
    """Return the cheapest offer of every term, with a year's commitment at the usual discount if no provider lists
    one, and the same cluster owned."""
    found: list[TermCost] = []
    for term, offer in sorted(cheapest_by_term(others).items()):
        other = run_of(scenario, run.found, offer, run.reinforcement)
        price = offer.price
        left = other.goodput.goodput_fraction
        hourly = offer.usd_per_accelerator_hour
        if is_worth_committing(term, other.wall_s):
            feasible = left >= LEAST_GOODPUT
            days, usd = (other.days, other.usd) if feasible else (None, None)
            found.append(TermCost(term, price.provider, price.sku, hourly, days, left, usd, feasible))
    terms = {bill.term: bill for bill in found}
    rented = terms.get("on_demand")
    days = rented.days if rented is not None else None
    worth = days is not None and is_worth_committing(ESTIMATED_RESERVATION, days * DAY_S)
    if rented is not None and days and worth and "reserved_1y" not in terms and rented.provider != OWN:
        hourly = known.value("reserved_1y_fraction") * rented.usd_per_accelerator_hour
        cheaper = replace(rented, term=ESTIMATED_RESERVATION, sku="", usd_per_accelerator_hour=hourly)
        paid_s = float(np.ceil(days * DAY_S / HOUR_S)) * HOUR_S
        usd = job_usd("reserved_1y", hourly * run.num_accelerators, paid_s)
        found.append(replace(cheaper, usd=usd))
    accelerator = run.found.cluster.accelerator
    count = run.num_accelerators
    bought = purchase_price(known, accelerator)
    if bought is not None and run.offer.price.provider != OWN:
        nodes = run.checkpoint.num_nodes
        left = goodput_of(
            run.found, run.checkpoint, scenario.reliability, nodes, is_spot=False, count=count
        ).goodput_fraction
        hours = run.num_steps * run.step_s / left / HOUR_S
        power_w = BUSY_POWER_FRACTION * count * (accelerator.tdp_w or 0.0)
        holding = Holding(accelerator, count, power_w, replicas_span_nodes=count > accelerator.node_size)
        owned = tco(holding, bought, known).usd_per_hour
        found.append(TermCost("owned", OWN, "", owned / count, hours * HOUR_S / DAY_S, left, owned * hours))
    return tuple(found)


def memory_stages(job: TrainingJob, plan: TrainingPlan) -> tuple[StageMemory, ...]:
    """Memory of every pipeline stage at its fullest instant."""
    parts = ("weight", "gradient", "optimizer", "activation", "loss", "workspace", "buffer")
    return tuple(
        StageMemory(
            stage.stage, stage.peak_bytes, {name: getattr(stage.fullest, f"{name}_bytes") for name in parts}
        )
        for stage in stage_memory(job, plan)
    )


_RESOURCES: Mapping[str, tuple[str, ...]] = {
    "compute": ("forward", "backward"),
    "recomputation": ("recompute",),
    "pipeline bubble": ("bubble", "pipeline"),
    "links inside nodes": ("tensor_parallel",),
    "context exchange": ("context_parallel",),
    "expert exchange": ("expert_parallel",),
    "network (gradients)": ("data_parallel",),
    "link between clusters": ("link",),
    "host": ("host", "data_loading"),
    "host link": ("offload",),
    "optimizer": ("optimizer",),
    "stragglers": ("straggler",),
}


def bottleneck_of(breakdown_s: Mapping[str, float]) -> str:
    """Return the resource that costs most besides useful computation, if it takes 10 % of the step or more; else
    compute."""
    total = sum(breakdown_s.values())
    shares = {name: sum(breakdown_s.get(p, 0.0) for p in parts) / total for name, parts in _RESOURCES.items()}
    shares.pop("compute")
    largest = max(shares, key=lambda name: shares[name])
    return largest if shares[largest] >= 0.1 else "compute"
