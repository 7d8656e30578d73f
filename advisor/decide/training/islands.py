"""One job over two clusters of unlike accelerators or fabrics: replicas, or stages of a pipeline, on both sides.

Tensor, context and expert parallelism stay inside a part. Where replicas are on both sides, gradients cross the link
and everybody waits for the slower part; where stages are, activations cross, and layers are divided by how fast the
parts are.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

from advisor.catalog.errors import InfeasibleError
from advisor.decide.training.option import memory_stages
from advisor.decide.training.result import StageMemory
from advisor.decide.training.search import (
    PlanFound,
    does_fit,
    evaluate_plan,
    run_of_passes,
    simulate_pipeline,
)
from advisor.simulator.graph.model import num_layers, with_depth
from advisor.simulator.training.cluster import Link, TrainingCluster
from advisor.simulator.training.framework_costs import framework_costs
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.passes import pass_times
from advisor.simulator.training.pipeline import ChunkTimes
from advisor.simulator.training.plan import PlanLattice, TrainingPlan

Across = Literal["dp", "pp"]
"""Unit of work on either side of the link: replicas (dp) or stages (pp)."""
ACROSS: Final[tuple[Across, ...]] = get_args(Across)
_SCHEDULES: Final = ("gpipe", "1f1b", "zb_h1")
_MICRO_BATCH_PARTS: Final = (
    "forward",
    "backward",
    "recompute",
    "tensor_parallel",
    "context_parallel",
    "expert_parallel",
    "host",
)
_GRAPH_PARTS: Final = (*_MICRO_BATCH_PARTS[:-1], "bubble")
"""Parts of the step that the event graph of a pipeline contains; the rest follows or accompanies it."""
_NEAR: Final = 2
"""Layers of a stage more or fewer than what divides the time evenly, that are tried."""


@dataclass(frozen=True, slots=True)
class Islands:
    """Two clusters and the link between them; the first holds the first stages or replicas."""

    clusters: tuple[TrainingCluster, TrainingCluster]
    counts: tuple[int, int]
    bytes_per_s: float
    """Bandwidth between the two clusters, all accelerators together, in one direction [bytes/s]."""

    @property
    def num_accelerators(self) -> int:
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class IslandsFound:
    """A plan of the whole job, and what each part makes of it."""

    across: Across
    found: PlanFound
    """The whole step; its cluster is the part that sets the pace."""
    parts: tuple[PlanFound, PlanFound]
    """Each part's side of it."""
    fit: tuple[bool, bool]
    limit_bytes: float
    """Memory of an accelerator in the part that is fullest, whose peak `found` has."""
    stage_layers: tuple[int, ...] = ()
    """Number of layers of every stage, if stages are on both sides; else empty."""
    memory: tuple[StageMemory, ...] = ()
    uneven: tuple[int, int, float] | None = None
    """Micro-batches of a replica of each part that would take least, and the step then [s]; None where even ones do."""


def replica_fault(islands: Islands, plan: TrainingPlan) -> tuple[str, str, str] | None:
    """Why a plan's replicas cannot stand whole in both parts, as (what, why, fix); None where they can.

    Source: own definition.
    """
    size = plan.tensor_parallel * plan.pipeline_parallel * plan.context_parallel
    experts = plan.expert_parallel * (plan.expert_tensor_parallel or plan.tensor_parallel)
    for count in islands.counts:
        if count % size:
            near = max(1, round(count / size)) * size
            return (
                f"{count} accelerators hold no whole number of replicas of {size}",
                "a replica's tensor, context and pipeline ranks stay in one part",
                f"{near} accelerators there, or other degrees",
            )
        if count // plan.pipeline_parallel % experts:
            return (
                f"EP {plan.expert_parallel} does not stay in a part of {count} accelerators",
                "tokens of every layer would cross the link",
                "a smaller --ep",
            )
    return None


def stage_fault(islands: Islands, plan: TrainingPlan) -> tuple[str, str, str] | None:
    """Why a plan's stages cannot stand whole in both parts, as (what, why, fix); None where they can.

    Source: own definition.
    """
    if plan.pipeline_parallel == 1:
        return "stages on both sides of the link need a pipeline", "PP is 1", "--pp 2, or --across dp"
    if plan.schedule not in _SCHEDULES or plan.virtual_stages > 1:
        known = ", ".join(_SCHEDULES)
        return (
            f"{plan.schedule} would cross the link with every chunk",
            f"one chunk a stage crosses once: {known}",
            "--schedule 1f1b without --vpp, or --across dp",
        )
    if plan.first_stage_layers or plan.last_stage_layers:
        return (
            "layers of the first or last stage are given",
            "stages on both sides get layers by how fast their part is",
            "drop --first-stage-layers and --last-stage-layers, or --across dp",
        )
    size = islands.num_accelerators // plan.pipeline_parallel
    for count in islands.counts:
        if count % size:
            return (
                f"{count} accelerators hold no whole number of stages of {size}",
                f"{islands.num_accelerators} over {plan.pipeline_parallel} stages",
                _nearest_stages(islands, plan),
            )
    return None


def _nearest_stages(islands: Islands, plan: TrainingPlan) -> str:
    """The number of stages nearest to a plan's whose stages stand whole in both parts, as what to type."""
    total = islands.num_accelerators
    common = math.gcd(*islands.counts)
    ranks = plan.tensor_parallel * plan.context_parallel
    whole = [total // size for size in range(ranks, common + 1, ranks) if common % size == 0]
    if not whole:
        return "parts that hold whole stages, or --across dp"
    return f"--pp {min(whole, key=lambda stages: abs(stages - plan.pipeline_parallel))}, or --across dp"


def over_islands(
    job: TrainingJob, islands: Islands, plan: TrainingPlan, across: Across | None
) -> IslandsFound:
    """A plan over both parts: as it is asked for, else the faster way that fits.

    Raises: InfeasibleError: neither way, or not the one that is asked for, divides into the parts.
    Source: Holmes (arXiv:2312.03549): data parallelism inside clusters of one fabric, pipelines across them.
    """
    ways = {"dp": (replica_fault, _replicas), "pp": (stage_fault, _stages)}
    found = []
    faults = []
    for name in (across,) if across else ACROSS:
        check, price = ways[name]
        fault = check(islands, plan)
        if fault is None:
            found.append(price(job, islands, plan))
        else:
            faults.append(fault)
    if not found:
        what, why, fix = faults[0]
        raise InfeasibleError(what, why=why, fix=fix)
    return min(found, key=lambda each: (not all(each.fit), each.found.step_s))


def _replicas(job: TrainingJob, islands: Islands, plan: TrainingPlan) -> IslandsFound:
    """Replicas in both parts: every one as many micro-batches, the slower part's step."""
    parts = []
    for cluster, count in zip(islands.clusters, islands.counts, strict=True):
        link = Link(islands.bytes_per_s, islands.num_accelerators, count)
        parts.append(simulate_pipeline(evaluate_plan(job, replace(cluster, link=link), plan)))
    slower = max(parts, key=lambda part: part.step_s)
    limit = min(cluster.accelerator.memory_bytes or 0.0 for cluster in islands.clusters)
    fit = (does_fit(parts[0]), does_fit(parts[1]))
    uneven = _uneven(job, islands, plan, (parts[0], parts[1]))
    return IslandsFound("dp", slower, (parts[0], parts[1]), fit, limit, uneven=uneven)


def _uneven(
    job: TrainingJob, islands: Islands, plan: TrainingPlan, parts: tuple[PlanFound, PlanFound]
) -> tuple[int, int, float] | None:
    """The division of the batch that takes least, where it is not the even one.

    Assumes: what is done once a step stays; gradients are weighed by their micro-batches.
    """
    size = plan.tensor_parallel * plan.pipeline_parallel * plan.context_parallel
    replicas = [count // size for count in islands.counts]
    total = job.global_batch // plan.micro_batch
    even = total // sum(replicas)
    each = [sum(part.breakdown_s[name] for name in _MICRO_BATCH_PARTS) / even for part in parts]
    best = None
    for first in range(1, total // replicas[0] + 1):
        second, rest = divmod(total - replicas[0] * first, replicas[1])
        if rest or not second:
            continue
        counts = (first, second)
        seconds = max(
            part.step_s + (n - even) * one for part, n, one in zip(parts, counts, each, strict=True)
        )
        if best is None or seconds < best[2]:
            best = (first, second, seconds)
    return best if best is not None and best[0] != even else None


def _stages(job: TrainingJob, islands: Islands, plan: TrainingPlan) -> IslandsFound:
    """Stages in both parts: of all divisions of the layers near the one that takes both as long, the fastest."""
    size = islands.num_accelerators // plan.pipeline_parallel
    stages = (islands.counts[0] // size, islands.counts[1] // size)
    found = [
        _divide_pipeline(job, islands, plan, layers, stages)
        for layers in _divisions(job, islands, plan, stages)
    ]
    return min(found, key=lambda each: (not all(each.fit), each.found.step_s))


def _divisions(
    job: TrainingJob, islands: Islands, plan: TrainingPlan, stages: tuple[int, int]
) -> Iterator[tuple[int, int]]:
    """Layers of the first and of the second part."""
    total = num_layers(job.model)
    alike = [evaluate_plan(job, cluster, plan).step_s for cluster in islands.clusters]
    first = total * stages[0] * alike[1] / (stages[0] * alike[1] + stages[1] * alike[0])
    near = {
        *(stages[0] * (round(first / stages[0]) + more) for more in range(-_NEAR, _NEAR + 1)),
        *(
            total - stages[1] * (round((total - first) / stages[1]) + more)
            for more in range(-_NEAR, _NEAR + 1)
        ),
    }
    for layers in sorted(near):
        if stages[0] <= layers <= total - stages[1]:
            yield layers, total - layers


def _divide_pipeline(
    job: TrainingJob, islands: Islands, plan: TrainingPlan, layers: tuple[int, int], stages: tuple[int, int]
) -> IslandsFound:
    """Plan a pipeline whose first stages belong to one cluster.

    Each part is priced as a pipeline of stages like its own; the event graph is made of both, and what crosses the link
    lengthens the passes of the stages next to it.

    Assumes: a part's stages hold as many layers as its fullest, of all kinds in the model's proportion.
    """
    parts = []
    for cluster, count, number in zip(islands.clusters, layers, stages, strict=True):
        model = with_depth(job.model, -(-count // number) * plan.pipeline_parallel)
        parts.append(simulate_pipeline(evaluate_plan(replace(job, model=model), cluster, plan)))
    first = parts[0]
    second = parts[1]
    sent_s = _crossing_s(job, islands, plan)
    rounds = max(1, job.global_batch // (plan.data_parallel * plan.micro_batch))
    without, with_link = (
        run_of_passes(plan, rounds, _join_passes(first, second, stages[0], seconds))
        for seconds in (0.0, sent_s)
    )
    pace = max(parts, key=lambda part: sum(part.breakdown_s[name] for name in _GRAPH_PARTS[:-1]))
    busy_s = sum(pace.breakdown_s[name] for name in _GRAPH_PARTS[:-1])
    shown = dict(pace.breakdown_s)
    for name in shown.keys() - set(_GRAPH_PARTS):
        shown[name] = max(part.breakdown_s.get(name, 0.0) for part in parts)
    shown["bubble"] = max(0.0, without[1] - busy_s)
    shown["link"] = with_link[1] - without[1]
    rows = [memory_stages(part.job, plan) for part in parts]
    memory = (*rows[0][: stages[0]], *rows[1][stages[0] :])
    limits = [cluster.accelerator.memory_bytes or 1.0 for cluster in islands.clusters]
    peaks = [max(row.peak_bytes for row in held) for held in (memory[: stages[0]], memory[stages[0] :])]
    fullest = max((0, 1), key=lambda side: peaks[side] / limits[side])
    whole = replace(
        pace,
        job=job,
        step_s=sum(shown.values()),
        breakdown_s=shown,
        run=with_link[0],
        times=_join_passes(first, second, stages[0], sent_s),
        peak_memory_bytes=peaks[fullest],
    )
    sizes = [
        count // number + (place >= number - count % number)
        for count, number in zip(layers, stages, strict=True)
        for place in range(number)
    ]
    fit = (peaks[0] <= limits[0], peaks[1] <= limits[1])
    return IslandsFound("pp", whole, (first, second), fit, limits[fullest], tuple(sizes), memory)


def _crossing_s(job: TrainingJob, islands: Islands, plan: TrainingPlan) -> float:
    """Activations of one micro-batch of every replica over the link [s], one way."""
    cluster = islands.clusters[0]
    lattice = PlanLattice.of([plan])
    passes = pass_times(job, lattice, cluster, framework_costs(job, cluster.accelerator.architecture))
    ranks = islands.num_accelerators // plan.pipeline_parallel
    return float(passes.activation_bytes[0]) * ranks / islands.bytes_per_s


def _join_passes(first: PlanFound, second: PlanFound, stages: int, sent_s: float) -> ChunkTimes:
    """Return the passes of all stages; those that send over the link take `sent_s` longer."""
    assert first.times is not None
    assert second.times is not None
    columns = []
    for name, sender in (("forward_s", stages - 1), ("input_s", stages), ("weight_s", -1)):
        row = [*getattr(first.times, name)[:stages], *getattr(second.times, name)[stages:]]
        if sender >= 0:
            row[sender] += sent_s
        columns.append(tuple(row))
    return ChunkTimes(columns[0], columns[1], columns[2])
