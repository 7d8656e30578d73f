"""Layouts that a user fixes in part: what they leave to the search, and why they may be impossible."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from advisor.catalog.errors import InfeasibleError
from advisor.decide.training.scenario import LAYOUT_OPTIONS, FixedLayout, TrainingLimits
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.lattice import LatticeLimits, model_limits
from advisor.simulator.training.plan import Schedule, TrainingPlan
from advisor.simulator.training.plan_check import faults

_WHOLE: Final = ("tensor_parallel", "pipeline_parallel", "context_parallel", "data_parallel")
"""Degrees whose product is the number of accelerators."""
_LARGEST_OVER_ASKED: Final = 8
"""Largest number of accelerators that is named in place of one that is not divided, over that number."""
_MOST_SIZES_TRIED: Final = 6
"""Numbers of accelerators that are searched for one with an answer, the nearest first."""
_BATCH_SHIFT: Final = 0.125
"""Largest shift of a default batch that is made for more ranks to divide it. Own assumption: half of it leaves 768
accelerators half of their data-parallel ranks."""


def fixed_limits(limits: LatticeLimits, layout: FixedLayout) -> LatticeLimits:
    """Return the limits of a lattice with the parts that a user fixes as the only choice.

    Source: own definition.
    """
    if layout.is_free:
        return limits
    fixed: dict[str, Any] = {
        "schedules" if name == "schedule" else name: (value,)
        for name in type(layout).model_fields
        if (value := getattr(layout, name)) is not None
    }
    if layout.recompute is not None:
        fixed["recompute_shares"] = (1.0,)
    return replace(limits, are_stated=True, **fixed)


def least_plan(layout: FixedLayout, limits: LatticeLimits) -> TrainingPlan:
    """Return the smallest plan that has what a user fixes; what is free is as a framework with these limits has it.

    Source: own definition.
    """
    chunks = layout.virtual_stages or 1
    usual: Schedule = "interleaved" if chunks > 1 else "1f1b"
    is_of_pipeline = chunks > 1 or layout.schedule not in (None, "1f1b")
    return TrainingPlan(
        tensor_parallel=layout.tensor_parallel or 1,
        pipeline_parallel=layout.pipeline_parallel or (2 if is_of_pipeline else 1),
        virtual_stages=chunks,
        context_parallel=layout.context_parallel or 1,
        expert_parallel=layout.expert_parallel or 1,
        expert_tensor_parallel=layout.expert_tensor_parallel or 0,
        data_parallel=layout.data_parallel or 1,
        micro_batch=layout.micro_batch or 1,
        sharding=layout.sharding or limits.sharding[-1],
        recompute=layout.recompute or limits.recompute[0],
        schedule=layout.schedule or (usual if usual in limits.schedules else limits.schedules[0]),
    )


def check_layout(
    layout: FixedLayout,
    job: TrainingJob,
    domain: int,
    limits: TrainingLimits,
    works: Callable[[int], bool] = lambda count: True,
) -> None:
    """Refuse a fixed layout that cannot be whatever the rest of the plan is; `works` tells whether a question has an
    answer on another number of accelerators, of which the nearest is named.

    Raises: InfeasibleError: a degree divides nothing, or the accelerators are no multiple of what is fixed.
    """
    if layout.is_free:
        return
    fault = next(_faults(layout, job, domain), None)
    if fault is not None:
        raise InfeasibleError(fault[0], why=fault[1], fix=fault[2])
    ranks = layout.replica_ranks
    count = limits.num_accelerators
    if count is None:
        return
    copies = layout.data_parallel
    if count % ranks or (copies is not None and _is_whole(layout) and count != ranks * copies):
        whole = copies if copies is not None and _is_whole(layout) else None
        nearest = [ranks * whole] if whole else _sizes_near(count, ranks, job.global_batch, domain)
        near = next(filter(works, nearest[:_MOST_SIZES_TRIED]), nearest[0])
        raise InfeasibleError(
            f"--gpus {count} is not a multiple of what is fixed: {_degrees_words(layout)}",
            why=f"every replica takes TP × PP × CP = {ranks} accelerators",
            fix=f"--gpus {near}, or other degrees",
        )


def _sizes_near(count: int, ranks: int, global_batch: int, domain: int) -> list[int]:
    """Return the numbers of accelerators to try in place of one that replicas of `ranks` do not divide: those near it,
    the nearest first, then larger ones.

    Replicas divide the batch; beyond one domain, clusters are whole ones if the layout allows any of that size.
    """
    most = _LARGEST_OVER_ASKED * count // ranks + 1
    sizes = [ranks * copies for copies in range(1, most + 1) if global_batch % copies == 0]
    found: list[int] = []
    for group in ([s for s in sizes if s <= 2 * count + ranks], [s for s in sizes if s > 2 * count + ranks]):
        whole = [size for size in group if size <= domain or size % domain == 0] or group
        found += sorted(whole, key=lambda size: abs(size - count))
    return found


def batch_near(wanted: int, num_ranks: int) -> int:
    """Return the batch nearest to `wanted` that `num_ranks` ranks divide [sequences], or that half of them, a quarter
    and so on divide where whole ranks would move it by more than an eighth.

    Source: own definition: 72, 96 or 768 accelerators have a factor of three, which no power of two has; with a batch
    of 512 stages and context ranks have to take it, which lets an 8B's tokens take 13 % more time on 96 H100s.
    """
    step = num_ranks
    while step % 2 == 0 and (step > wanted or abs(_round_to(wanted, step) - wanted) > _BATCH_SHIFT * wanted):
        step //= 2
    return _round_to(wanted, step) if step <= wanted else wanted


def _round_to(number: int, step: int) -> int:
    return max(1, round(number / step)) * step


def _is_whole(layout: FixedLayout) -> bool:
    """Whether all degrees that make up the number of accelerators are fixed."""
    return all(getattr(layout, name) is not None for name in _WHOLE)


def layout_options(layout: FixedLayout, plan: TrainingPlan) -> str:
    """Return the options that make of a fixed layout the parts of a plan that differ from it: `--pp 8 --vpp 6`."""
    return " ".join(
        f"--{LAYOUT_OPTIONS.get(name, name).replace('_', '-')} {getattr(plan, name)}"
        for name in type(layout).model_fields
        if getattr(layout, name) not in (None, getattr(plan, name))
    )


def _degrees_words(layout: FixedLayout) -> str:
    fixed = ((LAYOUT_OPTIONS[name].upper(), getattr(layout, name)) for name in _WHOLE)
    return " × ".join(f"{short} {degree}" for short, degree in fixed if degree is not None)


def _faults(layout: FixedLayout, job: TrainingJob, domain: int) -> Iterator[tuple[str, str, str]]:
    """Yield (what, why, fix) for what is wrong with the fixed parts of a layout alone."""
    free = LatticeLimits(domain)
    plan = least_plan(layout, free)
    shape = model_limits(job.model)
    for option, degree in (("--ep", layout.expert_parallel), ("--etp", layout.expert_tensor_parallel)):
        if (degree or 1) > 1 and not shape.num_experts:
            yield (
                f"{option} {degree} for {job.model.id}, which has no experts",
                "expert parallelism divides experts",
                f"drop {option}",
            )
    # Free degrees could still make room for the experts: they are judged with all of the lattice.
    alone = replace(plan, expert_parallel=1, expert_tensor_parallel=0)
    for what, why in faults(alone, job, domain):
        yield what, why, _fix(layout, job, domain)


def _fix(layout: FixedLayout, job: TrainingJob, domain: int) -> str:
    """Return the nearest degrees that divide what they should."""
    shape = model_limits(job.model)
    tensor = layout.tensor_parallel
    if tensor is not None and (shape.num_heads % tensor or tensor > domain):
        allowed = [d for d in range(1, min(tensor, domain) + 1) if shape.num_heads % d == 0]
        return f"--tp {allowed[-1]}"
    context = layout.context_parallel
    if context is not None and context > 1 and job.sequence_tokens % (2 * context):
        allowed = [d for d in range(1, context) if job.sequence_tokens % (2 * d) == 0]
        return f"--cp {allowed[-1]}" if allowed else "drop --cp"
    if (layout.pipeline_parallel or 1) > shape.num_layers:
        return f"--pp {shape.num_layers} or fewer"
    if layout.pipeline_parallel == 1 and (layout.virtual_stages or 1) > 1:
        return "--pp 2 or more, or drop --vpp"
    if layout.pipeline_parallel == 1 and layout.schedule not in (None, "1f1b"):
        return "--pp 2 or more, or drop --schedule"
    per_pass = (layout.data_parallel or 1) * (layout.micro_batch or 1)
    if job.global_batch % per_pass:
        batch = _round_to(job.global_batch, per_pass)
        if layout.micro_batch is not None and job.global_batch % (layout.data_parallel or 1) == 0:
            ranks = job.global_batch // (layout.data_parallel or 1)
            nearest = max(m for m in range(1, min(layout.micro_batch, ranks) + 1) if ranks % m == 0)
            return f"--micro-batch {nearest}, or --global-batch {batch}"
        return f"--global-batch {batch}, or another --dp"
    return "other degrees"


def cluster_sizes(layout: FixedLayout, sizes: list[int], largest: int) -> list[int]:
    """Return the cluster sizes that a fixed layout allows, ascending: usual ones, and multiples of its own by powers of
    two.

    Source: own definition.
    """
    if layout.is_free:
        return sizes
    base = layout.replica_ranks * (layout.data_parallel or 1)
    if _is_whole(layout):
        return [base] if base <= largest else []
    own = {base << power for power in range(max(1, largest // base).bit_length())}
    return sorted(size for size in {*sizes, *own} if size % base == 0 and size <= largest)
