"""The conversion of a plan on an offer to an option: step, failures, days, dollars, energy, launch options."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from advisor.catalog.ownership import Ownership, purchase_price
from advisor.catalog.resolve import drop_separators
from advisor.catalog.schema import Accelerator
from advisor.catalog.training import framework_release
from advisor.catalog.units import DAY_S, GB, HOUR_S
from advisor.decide.certainty import holds_word
from advisor.decide.offers import OWN, offer_of
from advisor.decide.option import Machine
from advisor.decide.ownership import Holding, tco
from advisor.decide.purchase import bill_of, job_usd
from advisor.decide.reason import Reason, TightMemory
from advisor.decide.safe_picks import doubt_of_limit, doubts_of
from advisor.decide.training.commands import commands_of
from advisor.decide.training.conditions import network_words
from advisor.decide.training.money import (
    BUSY_POWER_FRACTION,
    ClusterOffer,
    cheapest_by_term,
    contract_needed,
    energy_of,
)
from advisor.decide.training.result import (
    FailureEffect,
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
    TrainingRun,
    failures_of,
    goodput_of,
    is_worth_committing,
    run_of,
)
from advisor.decide.training.scenario import MachineConditions, TrainingScenario
from advisor.decide.training.search import MEMORY_PARTS, PlanFound
from advisor.decide.training.simulate_args import simulate_args
from advisor.decide.training.space import rated_flop_per_s
from advisor.decide.training.uncertainty import loop_quantity, memory_quantity, step_quantity, verdict_of
from advisor.simulator.quantity import Quantity
from advisor.simulator.training.flop import hardware_flop_per_token, model_flop_per_token
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.launch_start import placeholders_of
from advisor.simulator.training.memory import stage_memory
from advisor.simulator.training.plan import TrainingPlan
from advisor.simulator.training.plan_check import plan_words
from advisor.simulator.training.reinforcement import Companions, companion_stages

_NOT_MODELLED: Final = "data_loading"
"""Part of a step that a plan's time contains only where the source of its data was stated."""


def offloaded_states(plan: TrainingPlan) -> tuple[str, ...]:
    """Return the states of a plan that are in host memory, in words."""
    parts = {"weights": plan.offload_parameters, "optimizer states": plan.offload_optimizer}
    return tuple(name for name, is_offloaded in parts.items() if is_offloaded)


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
    rank: int, run: TrainingRun, scenario: TrainingScenario, known: Ownership, others: Sequence[ClusterOffer]
) -> TrainingOption:
    """The option that a run stands for, with the same run at every other term as further bills."""
    found = run.found
    price = run.offer.price
    accelerator = found.cluster.accelerator
    step = _step(run)
    performance = _performance(run, scenario, known)
    deadline_s = scenario.limits.deadline_s
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
            duration_s=step.scale(run.paid_s / run.step_s),
        ),
        performance=performance,
        launch=_launch(run, scenario, shown),
        bills=_bills(run, scenario, known, others),
        reasons=(
            *doubts_of(step.basis, price, scenario.as_of),
            *_tight(found),
            *filter(None, (contract_needed(run.offer),)),
            *(doubt_of_limit(performance.days, deadline_s / DAY_S) if deadline_s else ()),
        ),
        notes=(*_condition_notes(run, scenario.conditions), *_contract_notes(run)),
    )


def _step(run: TrainingRun) -> Quantity:
    """Return the time of a step of a run with its interval [s], the loop around it included."""
    loop = run.reinforcement
    return loop_quantity(run.step_s) if loop and loop.rollout_s else step_quantity(run.found, run.step_s)


def _performance(run: TrainingRun, scenario: TrainingScenario, known: Ownership) -> TrainingPerformance:
    """Return how fast the plan of a run trains, what it needs, and how long the whole run takes."""
    found = run.found
    job = found.job
    plan = found.plan
    accelerator = found.cluster.accelerator
    step = _step(run)
    training = step_quantity(found, found.step_s * run.straggler_factor)
    per_step = job.real_tokens_per_step / found.num_accelerators
    peak = rated_flop_per_s(accelerator, job.compute_dtype)
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
    days = step.scale(run.num_steps / left / DAY_S)
    deadline_s = scenario.limits.deadline_s
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
        memory_by_stage=memory_stages(job, plan, found.companions),
        num_steps=run.num_steps,
        days=days,
        goodput_fraction=run.goodput.goodput_fraction,
        failures=_failures(run),
        breakdown_s=modelled_parts_s(breakdown_s),
        bubble_fraction=breakdown_s.get("bubble", 0.0) / sum(breakdown_s.values()),
        bottleneck=bottleneck_of(breakdown_s),
        power_w=energy.power_w if is_powered else None,
        energy_kwh=energy.energy_kwh if is_powered else None,
        carbon_kg_co2e=energy.carbon_kg_co2e if is_powered else None,
        carbon_region=energy.region,
        basis=step.basis,
        holds=_holds(run, days, deadline_s / DAY_S) if deadline_s else None,
        reinforcement=run.reinforcement,
    )


def _holds(run: TrainingRun, days: Quantity, limit_days: float) -> str:
    """Return how surely a run keeps its deadline; when a cluster by contract starts, its provider alone says."""
    word = holds_word(days, limit_days)
    return "likely" if word == "sure" and contract_needed(run.offer) is not None else word


def _tight(found: PlanFound) -> tuple[Reason, ...]:
    """Return the doubt about a plan whose expected peak alone is within the memory."""
    if verdict_of(found) == "fits":
        return ()
    peak = memory_quantity(found)
    return (TightMemory(peak.value, peak.high, found.cluster.accelerator.memory_bytes or 0.0),)


def _condition_notes(run: TrainingRun, conditions: MachineConditions) -> tuple[str, ...]:
    """Return notes on the conditions of machines that a run rests on: its network and what it keeps in host memory."""
    cluster = run.found.cluster
    network = network_words(cluster, run.num_accelerators)
    if network and not conditions.network:
        network += " (--network says another)"
    host = ""
    if run.found.host_bytes:
        room = f"{cluster.host_bytes / GB:.0f} GB"
        known = f"{room} there" if conditions.host_bytes else f"{room} assumed (--host-memory)"
        host = f"host memory: {run.found.host_bytes / GB:.0f} GB for each accelerator, of {known}"
    return tuple(filter(None, (network, host)))


def _contract_notes(run: TrainingRun) -> tuple[str, ...]:
    needed = contract_needed(run.offer)
    return () if needed is None else (needed.text,)


def modelled_parts_s(breakdown_s: Mapping[str, float]) -> dict[str, float]:
    """Return the parts of a step that are modelled [s]; they add up to the step. Waiting for data is among them where
    its source was stated and binds."""
    return {name: seconds for name, seconds in breakdown_s.items() if seconds or name != _NOT_MODELLED}


def cluster_machine(accelerator: Accelerator, count: int) -> Machine:
    """Return `count` accelerators in whole nodes, or in part of one."""
    each = min(count, accelerator.node_size)
    return Machine(accelerator.id, count, each, math.ceil(count / each))


def _breakdown_s(run: TrainingRun) -> dict[str, float]:
    """Parts of a step, stragglers of the whole cluster among them [s]."""
    found = run.found
    waits_s = found.step_s * (run.straggler_factor - 1.0)
    return {**found.breakdown_s, "straggler": found.breakdown_s.get("straggler", 0.0) + waits_s}


def _launch(run: TrainingRun, scenario: TrainingScenario, simulate_args: tuple[str, ...]) -> TrainingLaunch:
    found = run.found
    flags = commands_of(
        found.job,
        found.plan,
        found.cluster,
        scenario.rollout,
        run.reinforcement,
        run.num_steps,
        start="tuning" if scenario.workload == "finetune" else "new",
    )
    task = scenario.task
    asked = [drop_separators(name) for name in (*(program for _, program in task.programs), *task.named)]
    first = [name for word in asked for name in flags if drop_separators(name) == word]
    flags = {name: flags[name] for name in dict.fromkeys((*first, *flags))}
    placeholders = {name: placeholders_of(command) for name, command in flags.items()}
    releases = {name: framework_release(name) for name in flags}
    return TrainingLaunch(flags, placeholders, releases, simulate_args)


def _failures(run: TrainingRun) -> FailureEffect:
    left = run.goodput
    checkpoint = run.checkpoint
    return FailureEffect(
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
    run: TrainingRun, scenario: TrainingScenario, known: Ownership, others: Sequence[ClusterOffer]
) -> tuple[TermCost, ...]:
    """Return the cheapest offer of every term, with a year's commitment at the usual discount if no provider lists
    one, and the same cluster owned."""
    found: list[TermCost] = []
    for term, offer in sorted(cheapest_by_term(others, run.offer.price.term).items()):
        other = run_of(scenario, run.found, offer, run.reinforcement)
        price = offer.price
        left = other.goodput.goodput_fraction
        hourly = offer.usd_per_accelerator_hour
        if is_worth_committing(term, other.wall_s):
            feasible = left >= LEAST_GOODPUT
            days, usd = (other.days, other.usd) if feasible else (None, None)
            failures = failures_of(
                other.checkpoint,
                scenario.reliability,
                other.checkpoint.num_nodes,
                is_spot=price.term == "spot",
                count=other.num_accelerators,
            )
            bill = TermCost(term, price.provider, price.sku, hourly, days, left, usd, feasible)
            found.append(replace(bill, mtbf_s=failures.mtbf_s))
    terms = {bill.term: bill for bill in found}
    lists_a_year = any(offer.price.term == "reserved_1y" for offer in others)
    rented = terms.get("on_demand")
    days = rented.days if rented is not None else None
    worth = days is not None and is_worth_committing(ESTIMATED_RESERVATION, days * DAY_S)
    if rented is not None and days and worth and not lists_a_year and rented.provider != OWN:
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


def memory_stages(
    job: TrainingJob, plan: TrainingPlan, companions: Companions | None = None
) -> tuple[StageMemory, ...]:
    """Memory of every pipeline stage at its fullest instant, with a loop's other models."""
    stages = stage_memory(job, plan)
    others = companion_stages(job, plan, companions) if companions else ({},) * len(stages)
    return tuple(
        StageMemory(
            stage.stage,
            stage.peak_bytes + sum(other.values()),
            {**{name: getattr(stage.fullest, f"{name}_bytes") for name in MEMORY_PARTS}, **other},
        )
        for stage, other in zip(stages, others, strict=True)
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
    "host": ("host",),
    "data loading": ("data_loading",),
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
