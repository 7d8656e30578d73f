"""Knobs that a published run does not state, set to the fastest plan that fits, as an engineer who tuned it would."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.schema import GroupedQueryAttention, Model
from advisor.catalog.training import first_releases, software_of
from advisor.evidence.training.case import TrainingCase, usual_accumulation
from advisor.simulator.graph.model import num_experts
from advisor.simulator.training.framework_costs import FrameworkCosts
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.memory import MemoryColumns, fits, peak_memory
from advisor.simulator.training.plan import PlanLattice, Recompute, Schedule, TrainingPlan
from advisor.simulator.training.release_months import last_month_of
from advisor.simulator.training.step import StepColumns, step_time

_PARTS: Final = 4
"""Number of equal parts of a stage's layers; full recomputation is tried for each number of them."""
_MEGATRON_FSDP: Final = "25.09"
_MICRO_BATCHES: Final = (1, 2, 4, 8, 16, 32)
_TENSOR: Final = (1, 2, 4, 8)
_CONTEXT: Final = (1, 2, 4)
_MOST_LAYERS: Final = 40
"""Most chunks of a stage that are tried."""


@dataclass(frozen=True, slots=True)
class ResolvedCase:
    """Case with every knob set, and the figures computed for it."""

    job: TrainingJob
    plan: TrainingPlan
    step: StepColumns
    """Step time of this plan alone."""
    memory: MemoryColumns
    fits: bool


def resolve_knobs(case: TrainingCase, costs: FrameworkCosts | None = None) -> ResolvedCase:
    """Return the case with its unstated knobs set to the fastest plan that fits, or to the smallest if none fits.

    Tried are recomputation (none, selective, full, full for quarters of a stage), chunks per stage, micro-batches,
    tensor, pipeline and context parallelism, whichever the row leaves open.

    Assumes: a published run was tuned as far as its memory allows; one whose stated shard group holds too little
        shares its states among all ranks.
    Raises: InfeasibleError: the layout has more stages than layers.
    """
    found = _best(case, costs)
    if found.fits or not case.plan.shard_group:
        return found
    whole = replace(
        case, plan=replace(case.plan, shard_group=0), unstated=case.unstated | frozenset({"shard_group"})
    )
    other = _best(whole, costs)
    return other if other.fits else found


def _best(case: TrainingCase, costs: FrameworkCosts | None) -> ResolvedCase:
    """Return the fastest candidate that fits, else the smallest."""
    jobs = [case.job]
    plans = list(_candidates(case))
    if "global_batch" in case.unstated:
        accumulation = case.grad_accumulation or usual_accumulation(case.plan)
        by_micro = sorted({plan.micro_batch for plan in plans})
        jobs = [
            replace(case.job, global_batch=micro * accumulation * case.plan.data_parallel)
            for micro in by_micro
        ]
    best: ResolvedCase | None = None
    best_rank: tuple[float, float] = (np.inf, np.inf)
    for job in jobs:
        chosen = plans if len(jobs) == 1 else [plan for plan in plans if _uses(plan, job, case)]
        lattice = PlanLattice.of(chosen)
        step = step_time(job, lattice, case.cluster, costs)
        memory = peak_memory(job, lattice)
        enough = _enough(memory, case)
        per_token = step.step_s / job.tokens_per_step
        rank = np.where(enough, per_token, np.inf)
        row = int(np.argmin(rank)) if enough.any() else int(np.argmin(memory.peak_bytes))
        found = (float(rank[row]), float(memory.peak_bytes[row]))
        if best is None or found < best_rank:
            best = _only(job, chosen[row], step, memory, row, bool(enough[row]))
            best_rank = found
    assert best is not None
    return best


def _uses(plan: TrainingPlan, job: TrainingJob, case: TrainingCase) -> bool:
    accumulation = case.grad_accumulation or usual_accumulation(case.plan)
    return plan.micro_batch * accumulation * case.plan.data_parallel == job.global_batch


def _enough(memory: MemoryColumns, case: TrainingCase) -> NDArray[np.bool_]:
    capacity = case.cluster.accelerator.memory_bytes
    return fits(memory, capacity) if capacity else np.ones(len(memory.peak_bytes), dtype=np.bool_)


def _only(
    job: TrainingJob, plan: TrainingPlan, step: StepColumns, memory: MemoryColumns, row: int, enough: bool
) -> ResolvedCase:
    picked = np.array([row])
    return ResolvedCase(
        job,
        plan,
        StepColumns(**{name: getattr(step, name)[picked] for name in StepColumns.__dataclass_fields__}),
        MemoryColumns(**{name: getattr(memory, name)[picked] for name in MemoryColumns.__dataclass_fields__}),
        enough,
    )


def _candidates(case: TrainingCase) -> Iterator[TrainingPlan]:
    """Yield every plan that agrees with the stated values, at least the stated plan."""
    found = False
    for layout in _layouts(case):
        for plan in _chunked_plans(case, layout):
            for again, layers in _recomputations(case, plan):
                found = True
                yield replace(plan, recompute=again, recompute_layers=layers)
                if _may_shard(case, plan):
                    yield replace(plan, recompute=again, recompute_layers=layers, sharding="zero3")
    if not found:
        yield case.plan


def _may_shard(case: TrainingCase, plan: TrainingPlan) -> bool:
    """Whether parameters may be sharded too if the row leaves it open: Megatron has its own FSDP since 25.09."""
    recent = case.job.framework != "megatron" or case.job.framework_version >= _MEGATRON_FSDP
    return "sharding" in case.unstated and recent and plan.pipeline_parallel == 1 and plan.data_parallel > 1


def _layouts(case: TrainingCase) -> Iterator[TrainingPlan]:
    """Yield degrees of parallelism and micro-batches."""
    plan = case.plan
    if "layout" not in case.unstated or case.job.framework in ("maxtext", "fsdp", "peft"):
        for micro in _micro_batches(case, plan.data_parallel):
            yield replace(plan, micro_batch=micro)
        return
    layers = sum(group.count for group in case.job.model.layers)
    stages = [pp for pp in range(1, layers + 1) if layers % pp == 0 and pp <= 2 * _MICRO_BATCHES[-1]]
    for tp, pp, cp in product(_degrees(case.job.model, case), stages, _CONTEXT):
        if case.num_accelerators % (tp * pp * cp):
            continue
        dp = case.num_accelerators // (tp * pp * cp)
        for micro, ep in product(_micro_batches(case, dp), _expert_degrees(case, dp * cp)):
            yield replace(
                plan,
                tensor_parallel=tp,
                pipeline_parallel=pp,
                context_parallel=cp,
                data_parallel=dp,
                expert_parallel=ep,
                micro_batch=micro,
                sequence_parallel=tp > 1,
            )


def _expert_degrees(case: TrainingCase, ranks: int) -> tuple[int, ...]:
    """Numbers of ranks over which experts may be spread: a node's, and as many as divide them."""
    experts = num_experts(case.job.model)
    if not experts:
        return (1,)
    return tuple(sorted({math.gcd(experts, math.gcd(ranks, limit)) for limit in (_TENSOR[-1], 64)}))


def _degrees(model: Model, case: TrainingCase) -> tuple[int, ...]:
    heads = [
        group.mixer.num_heads for group in model.layers if isinstance(group.mixer, GroupedQueryAttention)
    ]
    return tuple(tp for tp in _TENSOR if tp <= case.cluster.domain and all(h % tp == 0 for h in heads))


def _micro_batches(case: TrainingCase, data_parallel: int) -> tuple[int, ...]:
    """Numbers of micro-batches that make up the batch of a rank, in as many steps as stated."""
    if "micro_batch" not in case.unstated:
        return (case.plan.micro_batch,)
    if "global_batch" in case.unstated:
        return _MICRO_BATCHES
    local, rest = divmod(case.job.global_batch, data_parallel)
    if rest or not local:
        return ()
    if case.grad_accumulation:
        micro, rest = divmod(local, case.grad_accumulation)
        return (micro,) if micro and not rest else ()
    return tuple(micro for micro in _MICRO_BATCHES if local % micro == 0)


def _chunked_plans(case: TrainingCase, plan: TrainingPlan) -> Iterator[TrainingPlan]:
    """Yield chunks per stage, if they are open and the micro-batches take turns."""
    yield plan
    pp = plan.pipeline_parallel
    layers = sum(group.count for group in case.job.model.layers)
    if pp == 1 or not case.unstated & {"virtual_stages", "layout"} or case.job.framework != "megatron":
        return
    micro_batches = case.job.global_batch // (plan.data_parallel * plan.micro_batch)
    if layers % pp or micro_batches % pp:
        return
    schedule: Schedule = "interleaved"
    for chunks in range(2, min(layers // pp, _MOST_LAYERS) + 1):
        if layers // pp % chunks == 0:
            yield replace(plan, virtual_stages=chunks, schedule=schedule)


def _names_modules(case: TrainingCase) -> bool:
    """Whether a row's word "selective" leaves open which modules are recomputed, as since Megatron's
    --recompute-modules.

    Source: catalog/data/training/releases.toml.
    """
    first = first_releases().get((case.job.framework, "recomputed modules"))
    return first is not None and last_month_of(case.job) >= first.month


def _recomputations(case: TrainingCase, plan: TrainingPlan) -> Iterator[tuple[Recompute, int]]:
    if "recompute" not in case.unstated:
        yield plan.recompute, plan.recompute_layers
        if plan.recompute == "selective" and _names_modules(case):
            yield "modules", -1
        return
    yield "none", -1
    if software_of(case.job.framework, case.job.software).recomputes_all_or_none:
        yield "full", -1
        return
    yield "selective", -1
    if case.job.framework == "megatron" and "unfused_attention" not in case.job.features:
        # Megatron-Core recomputes single modules (norms, activations, projections), which costs no more than this.
        return
    layers = -(-sum(group.count for group in case.job.model.layers) // plan.pipeline_parallel)
    for part in range(1, _PARTS):
        yield "full", -(-layers * part // _PARTS)
    yield "full", -1
