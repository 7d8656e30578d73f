"""The best plans of one job on one cluster size: memory prunes, time ranks, event graphs confirm the best few."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.errors import InfeasibleError
from advisor.catalog.units import GB
from advisor.decide.reason import NoLayout
from advisor.decide.training.conditions import MOST_HOST_BYTES
from advisor.decide.training.fixed_layout import layout_options, least_plan
from advisor.decide.training.near_plans import nearest_that_runs
from advisor.decide.training.scenario import FixedLayout
from advisor.decide.training.space import Variant, limits_of
from advisor.simulator.training.cluster import TrainingCluster
from advisor.simulator.training.framework_costs import framework_costs
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.lattice import enumerate_lattice
from advisor.simulator.training.memory import MemoryColumns, fits, peak_factors, peak_memory
from advisor.simulator.training.memory.peak import is_too_large_to_load
from advisor.simulator.training.passes import pass_times
from advisor.simulator.training.pipeline import ChunkTimes, PipelineRun, bubbles_s, run_schedule
from advisor.simulator.training.plan import PlanLattice, TrainingPlan
from advisor.simulator.training.reinforcement import (
    Companions,
    companion_bytes,
    companion_host_bytes,
    companion_parts,
)
from advisor.simulator.training.releases import limits_at
from advisor.simulator.training.schedule_orders import CHUNKS
from advisor.simulator.training.step import StepColumns, num_micro_batches, step_time
from advisor.simulator.training.step_host import exposed_stream_s, host_bytes

CanStart = Callable[[TrainingJob, TrainingPlan], bool]
"""Whether a framework has options for all of a plan."""
MOST_SIMULATED_PASSES = 12_000
"""Passes of one event graph; longer schedules are simulated with fewer micro-batches and continued at their rate."""


HOST_WORTH_FRACTION: Final = 0.8
"""Part of the step of a plan on accelerators alone that a plan in host memory must stay below to be taken: what the
host gives is not known. Own assumption; an 8B on eight RTX 4090s takes 1.2 hours by it instead of 1.9."""
MEMORY_PARTS: Final = ("weight", "gradient", "optimizer", "activation", "loss", "workspace", "buffer")
"""Uses of an accelerator's memory, besides what the allocator and the driver keep."""


@dataclass(slots=True)
class Tally:
    """Counters of what a search has looked at."""

    num_considered: int = 0
    num_evaluated: int = 0
    """Plans whose memory and time were computed."""
    num_feasible: int = 0
    num_simulated: int = 0


@dataclass(frozen=True, slots=True)
class PlanFound:
    """One plan with its memory and time."""

    job: TrainingJob
    cluster: TrainingCluster
    plan: TrainingPlan
    step_s: float
    breakdown_s: dict[str, float]
    peak_memory_bytes: float
    memory_bytes: dict[str, float]
    host_bytes: float = 0.0
    """Host memory that the plan takes for each accelerator [bytes]; 0 if nothing lives there."""
    companions: Companions | None = None
    """Other models of a loop, whose memory is part of the plan's; None without a loop."""
    run: PipelineRun | None = field(default=None, compare=False)
    """The schedule as an event graph, where it was simulated."""
    times: ChunkTimes | None = field(default=None, compare=False)
    """Pass times that the graph was made of; None without a graph."""

    @property
    def num_accelerators(self) -> int:
        return self.plan.num_accelerators

    @property
    def reserved_bytes(self) -> float:
        """Memory that the caching allocator holds at the peak [bytes]."""
        return self.peak_memory_bytes - self.memory_bytes["context"]

    @property
    def allocated_bytes(self) -> float:
        """Memory in tensors at the peak [bytes]."""
        return self.reserved_bytes - self.memory_bytes["reserve"]


def best_plans(
    variants: Sequence[Variant],
    num_accelerators: int,
    effort: Tally,
    *,
    keep: int = 4,
    companions: Companions | None = None,
    can_start: CanStart | None = None,
) -> list[PlanFound]:
    """Return the fastest plans of all variants on `num_accelerators` accelerators, in closed form, fastest first.

    Plans that fit with the whole interval of their peak come before tight ones, which are looked at only if no other
    fits. Plans on the accelerators alone come before those in host memory, unless one of these tunes a whole model in
    less than HOST_WORTH_FRACTION of their step: what the base of adapters saves there is less sure than that it fits.

    `companions` are the other models of a loop, whose memory counts while the policy trains: a critic's states, the
    weights of a reference and of a reward model. `can_start` leaves out plans that no framework has options for.

    Source: whole enumeration; memory prunes before time is computed.
    """

    sized: dict[int, tuple[PlanLattice, MemoryColumns | None]] = {}

    def fastest(*, in_host: bool, tight: bool) -> list[PlanFound]:
        found: list[PlanFound] = []
        for place, variant in enumerate(variants):
            if variant.is_last_resort != in_host:
                continue
            if place not in sized:
                lattice = enumerate_lattice(variant.job, num_accelerators, variant.limits)
                sized[place] = lattice, peak_memory(variant.job, lattice) if len(lattice) else None
            lattice, memory = sized[place]
            found += best_of_lattice(
                variant.job,
                variant.cluster,
                lattice,
                effort,
                keep=keep,
                companions=companions,
                can_start=can_start,
                tight=tight,
                memory=memory,
            )
        return sorted(found, key=lambda plan: plan.step_s)[:keep]

    alone = fastest(in_host=False, tight=False) or fastest(in_host=False, tight=True)
    if not alone:
        return fastest(in_host=True, tight=False) or fastest(in_host=True, tight=True)
    is_full = any(each.job.method == "full" for each in variants)
    held = fastest(in_host=True, tight=False) if is_full else []
    if held and held[0].step_s < HOST_WORTH_FRACTION * alone[0].step_s:
        return held
    return alone


def best_of_lattice(
    job: TrainingJob,
    cluster: TrainingCluster,
    lattice: PlanLattice,
    effort: Tally,
    *,
    keep: int = 4,
    companions: Companions | None = None,
    can_start: CanStart | None = None,
    tight: bool = False,
    memory: MemoryColumns | None = None,
) -> list[PlanFound]:
    """The fastest plans of a lattice whose interval of memory fits, fastest first; of `tight` ones only the expected
    peak has to. `memory` is that of the lattice where it is known."""
    if not tight:
        effort.num_considered += len(lattice)
    if not len(lattice):
        return []
    memory = memory or peak_memory(job, lattice)
    limit_bytes = cluster.accelerator.memory_bytes or 0.0
    others = companion_bytes(job, lattice, companions) if companions else np.zeros(len(lattice))
    widest = 1.0 if tight else peak_factors(job)[1]
    inside = np.flatnonzero(widest * (memory.peak_bytes + others) <= limit_bytes)
    if not len(inside):
        return []
    offloaded = lattice.offload_parameters[inside] + lattice.offload_optimizer[inside]
    if not offloaded.all():
        # Host memory is for what does not fit otherwise: streaming is at the mercy of the host.
        inside = inside[offloaded == 0]
    if offloaded.all() or lattice.offload_activations[inside].any():
        held = host_bytes(job, lattice.take(inside))
        if companions is not None:
            held = held + companion_host_bytes(job, lattice.take(inside), companions)
        inside = inside[held <= cluster.host_bytes]
        if not len(inside):
            return []
    kept = lattice.take(inside)
    steps = step_time(job, kept, cluster)
    effort.num_evaluated += len(kept)
    effort.num_feasible += len(kept)
    seconds = steps.step_s + _waits_s(job, kept, cluster, steps)
    order = np.argsort(seconds, kind="stable")
    if can_start is not None:
        able = (row for row, plan in zip(order, kept.plans(order), strict=True) if can_start(job, plan))
        order = np.array(list(itertools.islice(able, keep)), dtype=np.int64)
    order = order[:keep]
    found = [
        _build_plan_found(job, cluster, kept, steps, memory, int(inside[row]), int(row)) for row in order
    ]
    return [with_companions(plan, companions) for plan in found] if companions else found


def with_companions(found: PlanFound, companions: Companions) -> PlanFound:
    """Return a plan whose memory includes that of a loop's other models.

    Source: as `companion_parts`.
    """
    lattice = PlanLattice.of([found.plan])
    parts = companion_parts(found.job, lattice, companions)
    held = {name: float(size[0]) for name, size in parts.items()}
    return replace(
        found,
        peak_memory_bytes=found.peak_memory_bytes + sum(held.values()),
        memory_bytes={**found.memory_bytes, **held},
        host_bytes=found.host_bytes + float(companion_host_bytes(found.job, lattice, companions)[0]),
        companions=companions,
    )


def evaluate_plan(job: TrainingJob, cluster: TrainingCluster, plan: TrainingPlan) -> PlanFound:
    """One stated plan with its memory and time, whether it fits or not.

    Source: as best_of_lattice.
    """
    lattice = PlanLattice.of([plan])
    return _build_plan_found(
        job, cluster, lattice, step_time(job, lattice, cluster), peak_memory(job, lattice), 0, 0
    )


def does_fit(found: PlanFound) -> bool:
    """Whether a plan fits its accelerators."""
    memory = peak_memory(found.job, PlanLattice.of([found.plan]))
    return bool(fits(memory, found.cluster.accelerator.memory_bytes or 0.0)[0])


def _build_plan_found(
    job: TrainingJob,
    cluster: TrainingCluster,
    lattice: PlanLattice,
    steps: StepColumns,
    memory: MemoryColumns,
    memory_row: int,
    row: int,
) -> PlanFound:
    breakdown_s = steps.breakdown_s(row)
    waits_s = float(_waits_s(job, lattice, cluster, steps)[row])
    if waits_s:
        breakdown_s["offload"] = waits_s
    held = {name: float(getattr(memory, f"{name}_bytes")[memory_row]) for name in MEMORY_PARTS}
    held["reserve"] = float(memory.reserved_bytes[memory_row] - memory.allocated_bytes[memory_row])
    held["context"] = float(memory.peak_bytes[memory_row] - memory.reserved_bytes[memory_row])
    return PlanFound(
        job,
        cluster,
        lattice.plan(row),
        sum(breakdown_s.values()),
        breakdown_s,
        float(memory.peak_bytes[memory_row]),
        held,
        float(host_bytes(job, lattice.take(np.array([row])))[0]),
    )


def _waits_s(
    job: TrainingJob, lattice: PlanLattice, cluster: TrainingCluster, steps: StepColumns
) -> NDArray[np.float64]:
    """Return the time that a step waits for weights that are in host memory [s]."""
    computing = steps.forward_s + steps.backward_s + steps.recompute_s
    return exposed_stream_s(job, lattice, cluster, num_micro_batches(job, lattice), computing)


def simulate_pipeline(found: PlanFound, effort: Tally | None = None) -> PlanFound:
    """The plan with its pipeline run as an event graph: the graph's idle time replaces the closed form's.

    Assumes: the last stage is the busiest (it computes the loss), the others are alike; sends
        stay as the step's closed form counts them.
    """
    plan = found.plan
    if plan.pipeline_parallel == 1:
        return found
    lattice = PlanLattice.of([plan])
    passes = pass_times(
        found.job, lattice, found.cluster, framework_costs(found.job, found.cluster.accelerator.architecture)
    )
    stages = plan.pipeline_parallel
    chunks = CHUNKS.get(plan.schedule, plan.virtual_stages)
    busiest = tuple(float(getattr(passes, f"{name}_s")[0]) for name in ("forward", "input", "weight"))
    other = min(1.0, float(passes.other_stages_share[0]))
    times = _chunk_times(busiest, other, stages, chunks, plan.schedule)
    count = int(num_micro_batches(found.job, lattice)[0])
    run, makespan_s = run_of_passes(plan, count, times)
    if effort is not None:
        effort.num_simulated += 1
    columns = (passes.forward_s, passes.input_s, passes.weight_s)
    closed = other * float(
        bubbles_s(lattice.schedule, lattice.pipeline_parallel, lattice.virtual_stages, *columns)[0]
    )
    idle = max(0.0, makespan_s - count * sum(busiest))
    parts = dict(found.breakdown_s)
    # Launches that hold up passes lengthen them in the bubble as everywhere.
    parts["bubble"] = parts["bubble"] * idle / closed if closed > 0.0 else idle
    return replace(found, step_s=sum(parts.values()), breakdown_s=parts, run=run, times=times)


def pipeline_to_draw(found: PlanFound) -> PipelineRun | None:
    """The pipeline with few enough micro-batches to be seen, the rest being more of the same; None without one.

    Source: own definition: two rounds of the stages, three for DualPipe.
    """
    if found.times is None or found.run is None:
        return None
    plan = found.plan
    stages = found.plan.pipeline_parallel
    few = 2 * stages * (2 if plan.schedule == "dualpipe" else 1)
    if found.run.num_micro_batches <= few:
        return found.run
    return run_schedule(plan.schedule, stages, few, found.times, virtual_stages=plan.virtual_stages)


def _chunk_times(
    busiest: tuple[float, ...], other: float, stages: int, chunks: int, schedule: str
) -> ChunkTimes:
    """Times of all positions: equal ones, and at the end of the model what the busiest stage has beyond the others."""
    pieces = 1 if schedule == "dualpipe" else chunks
    positions = stages * pieces
    rows = [
        (seconds * other / pieces,) * (positions - 1) + (seconds * (other / pieces + 1.0 - other),)
        for seconds in busiest
    ]
    return ChunkTimes(rows[0], rows[1], rows[2])


def run_of_passes(plan: TrainingPlan, num_micro_batches: int, times: ChunkTimes) -> tuple[PipelineRun, float]:
    """The event graph of a step, and its time [s]; a long one is continued at the rate of its last micro-batches.

    Source: own definition.
    """
    stages = plan.pipeline_parallel
    count = num_micro_batches
    passes = 3 * len(times.forward_s) * count
    if passes <= MOST_SIMULATED_PASSES:
        run = run_schedule(plan.schedule, stages, count, times, virtual_stages=plan.virtual_stages)
        return run, run.makespan_s
    group = 2 * stages
    fewer = max(2, MOST_SIMULATED_PASSES // (6 * len(times.forward_s)) // group) * group
    fewer += count % group
    short, long = (
        run_schedule(plan.schedule, stages, number, times, virtual_stages=plan.virtual_stages)
        for number in (fewer, fewer + group)
    )
    rate_s = (long.makespan_s - short.makespan_s) / group
    return long, long.makespan_s + rate_s * (count - fewer - group)


def unlayable(
    variants: Sequence[Variant],
    num_accelerators: int,
    layout: FixedLayout,
    companions: Companions | None = None,
) -> NoLayout:
    """Return why no plan of the variants fits `num_accelerators` accelerators, from the plan that needs least, with the
    other models of a loop; and what to type instead, of the parts that a user fixes and of the host memory."""
    least: tuple[float, float] | None = None
    memory = variants[0].cluster.accelerator.memory_bytes or 0.0
    host = math.inf
    for variant in variants:
        try:
            lattice = enumerate_lattice(variant.job, num_accelerators, variant.limits)
        except InfeasibleError as error:
            return NoLayout(error.what)
        if not len(lattice):
            continue
        peaks = peak_memory(variant.job, lattice).peak_bytes
        if companions is not None:
            peaks = peaks + companion_bytes(variant.job, lattice, companions)
        in_host = host_bytes(variant.job, lattice)
        if companions is not None:
            in_host = in_host + companion_host_bytes(variant.job, lattice, companions)
        smallest = int(peaks.argmin())
        found = float(peaks[smallest]), float(in_host[smallest])
        least = found if least is None else min(least, found)
        held = in_host[peaks <= memory]
        host = min(host, float(held.min(initial=math.inf)))
    if least is None:
        why = f"no layout divides {num_accelerators} accelerators, the batch and the model"
        return NoLayout(why, _nearest_options(variants, num_accelerators, layout))
    peak, in_host_bytes = least
    if peak <= memory:
        accelerators = "accelerators" if num_accelerators > 1 else "accelerator"
        why = (
            f"its states fit neither {num_accelerators} {accelerators} nor "
            f"{variants[0].cluster.host_bytes / GB:.0f} GB of host memory for each (--host-memory)"
        )
        needed = math.ceil(host / GB) if host <= MOST_HOST_BYTES else 0
        return NoLayout(why, f"--host-memory {needed}GB" if needed else "")
    beside = ""
    if companions is not None:
        names = companion_parts(variants[0].job, PlanLattice.of([TrainingPlan()]), companions)
        beside = f" with its {' and '.join(name.replace('_', ' ') for name in names)}" if names else ""
    why = f"the smallest plan needs {peak / GB:.0f} GB per accelerator{beside}, it has {memory / GB:.0f}"
    if in_host_bytes > (held_bytes := variants[0].cluster.host_bytes):
        why += f", and {in_host_bytes / GB:.0f} GB of host memory for each, of {held_bytes / GB:.0f}"
    if all(
        is_too_large_to_load(variant.job, variant.cluster.accelerator.memory_bytes) for variant in variants
    ):
        why += "; Transformers loads the whole 4-bit model on each accelerator before ranks divide it"
        return NoLayout(why, last_fix=f"a --gpu with more than {peak / GB:.0f} GB, or a smaller --model")
    return NoLayout(why)


def _nearest_options(variants: Sequence[Variant], num_accelerators: int, layout: FixedLayout) -> str:
    """Return the options of the nearest plan that runs and fits, for what a user fixes otherwise; empty if nothing is
    fixed, or no plan runs at all."""
    if layout.is_free:
        return ""
    for variant in variants:
        limits = limits_at(limits_of(variant.job, variant.cluster), variant.job)
        wanted = least_plan(layout, limits)
        near = nearest_that_runs(wanted, variant.job, variant.cluster, ((num_accelerators,),))
        if near is not None:
            return layout_options(layout, near)
    return ""
