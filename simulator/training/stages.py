"""Pipeline stages: the layers that each holds, the candidates for the fullest, and the micro-batches that each holds at
once."""

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from advisor.catalog.errors import InfeasibleError
from advisor.simulator.graph.training import ModelShape
from advisor.simulator.training.plan import SCHEDULES, FloatArray, IntArray, PlanLattice, Schedule, distinct

FOLDED: Final[frozenset[Schedule]] = frozenset({"zbv"})
"""Schedules in which the second half of the model runs back over the stages: the first stage holds the last layers
too."""
MIRRORED: Final[frozenset[Schedule]] = frozenset({"dualpipe"})
"""Schedules in which two whole models run in opposite directions: stage s holds the layers of stages s and pp − 1 −
s."""
_GPIPE, _INTERLEAVED, _DUALPIPE = (SCHEDULES.index(name) for name in ("gpipe", "interleaved", "dualpipe"))
_WHOLE_PIPELINE: Final = tuple(SCHEDULES.index(name) for name in ("zb_h1", "zbv"))

PipelineKey = tuple[int, int, int, int, Schedule]
"""Key of a pipeline: stages, chunks of each, layers of the first and of the last stage if they differ, schedule."""
_Row = tuple[int, tuple[int, ...], bool, bool]


@cache
def layer_order(shape: ModelShape) -> tuple[int, ...]:
    """Return the group of each layer from first to last: leading groups, then the others spread evenly among each
    other.

    Assumes: a record tells how many layers of a kind there are, not where: kinds alternate at their ratio, except
    the few dense layers of a mixture of experts, which come first.
    Source: own definition; Bresenham's rule for spreading.
    """
    groups = [(index, layer.count, shape.leading[index]) for index, layer in enumerate(shape.layers)]
    order = [index for index, count, leading in groups if leading for _ in range(count)]
    placed = [
        ((position + 0.5) / count, index)
        for index, count, leading in groups
        if not leading
        for position in range(count)
    ]
    return tuple(order + [index for _, index in sorted(placed)])


def layers_per_stage(num_layers: int, num_stages: int, first: int = 0, last: int = 0) -> tuple[int, ...]:
    """Number of layers of each stage: first and last as asked, the others even; a remainder goes to late stages except
    the last.

    Late stages hold the activations of fewer micro-batches; the last holds the logits.

    Raises: InfeasibleError: more stages than layers, or the asked layers leave none for the others.
    Source: Megatron-Core, num_layers_in_first_pipeline_stage and its counterpart for the last stage.
    """
    inner = num_stages - (first > 0) - (last > 0)
    rest = num_layers - first - last
    if num_stages > num_layers or rest < inner or (inner == 0 and rest):
        raise InfeasibleError(
            f"{num_layers} layers cannot be divided over {num_stages} pipeline stages",
            why=f"first stage {first or 'even'}, last stage {last or 'even'}",
            fix=f"use at most {num_layers} stages, and leave a layer for each",
        )
    base, remainder = divmod(rest, inner) if inner else (0, 0)
    even = [base] * inner
    # With an even last stage the remainder stops before it, unless every inner stage takes one.
    end = inner - (1 if last == 0 and inner > remainder else 0)
    for stage in range(end - remainder, end):
        even[stage] += 1
    return tuple(([first] if first else []) + even + ([last] if last else []))


@cache
def stage_groups(
    shape: ModelShape,
    num_stages: int,
    virtual_stages: int = 1,
    first: int = 0,
    last: int = 0,
    schedule: Schedule = "1f1b",
) -> IntArray:
    """Number of layers of each group that each stage holds: an array [stage, group], all chunks of a stage together.

    Chunk c of stage s is the (c · stages + s)-th part of the model; folded schedules run every second chunk backwards;
    mirrored ones hold two models, so that the sum over stages is twice the model's layers.

    Assumes: with virtual stages, layers that do not divide by all chunks go to late chunks; input table and loss are
        parts of their own where layers are one or two short of the parts.
    Raises: InfeasibleError: more chunks than layers, or an impossible first or last stage.
    Source: Megatron-LM interleaved schedule (arXiv:2104.04473); zero bubble V (arXiv:2405.15362); DualPipe
    (arXiv:2412.19437).
    """
    order = layer_order(shape)
    chunks = 2 if schedule in FOLDED else max(virtual_stages, 1)
    sizes = chunk_sizes(len(order), num_stages, chunks, first, last)
    counts = np.zeros((num_stages, len(shape.layers)), dtype=np.int64)
    start = 0
    for part, size in enumerate(sizes):
        chunk, stage = divmod(part, num_stages)
        if schedule in FOLDED and chunk % 2:
            stage = num_stages - 1 - stage
        for group in order[start : start + size]:
            counts[stage, group] += 1
        start += size
    if schedule in MIRRORED:
        counts = counts + counts[::-1]
    counts.setflags(write=False)
    return counts


def tables_as_layers(num_layers: int, num_parts: int) -> int:
    """Number of parts of the pipeline that input table and loss fill by themselves.

    The loss, or both, fill a part if the model has one or two layers fewer than there are parts; 0 if layers fill all
    parts or too many would stay empty.

    Source: Megatron-Core, account_for_embedding_in_pipeline_split and account_for_loss_in_pipeline_split.
    """
    missing = num_parts - num_layers
    return missing if num_layers > 1 and missing in (1, 2) else 0


def chunk_sizes(num_layers: int, num_stages: int, chunks: int, first: int, last: int) -> tuple[int, ...]:
    """Number of layers of each chunk in forward order.

    If the first stage has fewer layers than its chunks' even share, its first chunk has fewer; of the last stage, its
    last chunk. A chunk that a table fills has none.

    Source: Megatron-Core, account_for_embedding_in_pipeline_split.
    """
    alone = tables_as_layers(num_layers, num_stages * chunks)
    if alone and {first, last} <= {0, chunks - 1}:
        return (0,) * (alone > 1) + (1,) * num_layers + (0,)
    if chunks == 1:
        return layers_per_stage(num_layers, num_stages, first, last)
    inner = max(num_stages - (first > 0) - (last > 0), 1) * chunks
    even = (num_layers - first - last) // inner
    head, tail = (max(asked - (chunks - 1) * even, 1) if asked else 0 for asked in (first, last))
    return layers_per_stage(num_layers, num_stages * chunks, head, tail)


def holds_embedding(stage: int, num_stages: int, schedule: Schedule) -> bool:
    """Whether a stage holds the input table.

    Source: as `stage_groups`.
    """
    return stage == 0 or (schedule in MIRRORED and stage == num_stages - 1)


def holds_head(stage: int, num_stages: int, schedule: Schedule) -> bool:
    """Whether a stage holds the output head and computes the loss.

    Source: as `stage_groups`.
    """
    if schedule in FOLDED:
        return stage == 0
    return stage == num_stages - 1 or (schedule in MIRRORED and stage == 0)


def pipelines(lattice: PlanLattice) -> tuple[list[PipelineKey], IntArray]:
    """Return the distinct pipelines of a lattice, and the index of each plan's pipeline.

    Source: own definition.
    """
    columns = (
        lattice.pipeline_parallel,
        lattice.virtual_stages,
        lattice.first_stage_layers,
        lattice.last_stage_layers,
        lattice.schedule,
    )
    first, of = distinct(columns)
    stages, chunks, begin, end, codes = (column[first].tolist() for column in columns)
    return list(zip(stages, chunks, begin, end, [SCHEDULES[code] for code in codes], strict=True)), of


@dataclass(frozen=True, slots=True)
class Stages:
    """One stage of each plan, as columns."""

    stage: IntArray
    layers: FloatArray
    """Number of layers of each group: an array [group, plan]."""
    has_embedding: FloatArray
    has_head: FloatArray


def micro_batches_in_flight(
    lattice: PlanLattice, stage: IntArray, num_micro_batches: FloatArray
) -> FloatArray:
    """Number of micro-batches whose activations a stage holds at its fullest, in units of all its layers, for each
    plan.

    GPipe m; 1F1B min(p − s, m); interleaved with v chunks (2 (p − s − 1) + (v − 1) p + 1) / v, on the first stage
    p (1 + (p − 1) / (p v)); zero-bubble H1 and V p, since weight gradients wait; DualPipe (p + 1) / 2 of the layers of
    its two models.

    Source: GPipe (arXiv:1811.06965); Megatron-LM (arXiv:2104.04473; arXiv:2205.05198 section 4.2.3); zero bubble
    (arXiv:2401.10241; arXiv:2405.15362); DeepSeek-V3 (arXiv:2412.19437) table 2.
    """
    stages = lattice.pipeline_parallel
    behind = (stages - stage).astype(np.float64)
    chunks = np.maximum(lattice.virtual_stages, 1)
    schedule = lattice.schedule
    interleaved = (2.0 * (behind - 1.0) + (chunks - 1) * stages + 1.0) / chunks
    held = np.where((schedule == _INTERLEAVED) & (chunks > 1), interleaved, behind)
    for code in _WHOLE_PIPELINE:
        held = np.where(schedule == code, stages, held)
    held = np.where(schedule == _DUALPIPE, (stages + 1) / 2.0, held)
    held = np.where(schedule == _GPIPE, num_micro_batches, held)
    return np.where(stages == 1, 1.0, np.minimum(held, num_micro_batches))


def candidate_stages(shape: ModelShape, lattice: PlanLattice) -> tuple[Stages, ...]:
    """Return the stages among which the fullest of each plan is, as one column set per candidate.

    A stage that holds no more layers of any kind than an earlier one holds no more memory either, since earlier stages
    have at least as many micro-batches in flight; only the stage of the head is added.

    Raises: InfeasibleError: a plan has more stages than layers.
    Source: own derivation.
    """
    keys, inverse = pipelines(lattice)
    found = [_candidates(shape, *key) for key in keys]
    width = max(len(candidates) for candidates in found)
    columns = []
    for rank in range(width):
        picked = [candidates[rank] if rank < len(candidates) else candidates[0] for candidates in found]
        columns.append(_columns(picked, inverse))
    return tuple(columns)


def stages_at(shape: ModelShape, lattice: PlanLattice, stage: int) -> Stages:
    """Return stage `stage` of every plan.

    Raises: InfeasibleError: a plan has more stages than layers.
    Source: own definition.
    """
    keys, inverse = pipelines(lattice)
    return _columns([_stage(shape, *key, stage) for key in keys], inverse)


@cache
def _candidates(
    shape: ModelShape, stages: int, chunks: int, first: int, last: int, schedule: Schedule
) -> tuple[_Row, ...]:
    counts = stage_groups(shape, stages, chunks, first, last, schedule)
    chosen: list[int] = [0]
    for stage in range(1, stages):
        dominated = any((counts[earlier] >= counts[stage]).all() for earlier in chosen)
        if not dominated or (holds_head(stage, stages, schedule) and schedule not in MIRRORED):
            chosen.append(stage)
    return tuple(_stage(shape, stages, chunks, first, last, schedule, stage) for stage in chosen)


def _stage(
    shape: ModelShape, stages: int, chunks: int, first: int, last: int, schedule: Schedule, stage: int
) -> _Row:
    counts = stage_groups(shape, stages, chunks, first, last, schedule)
    layers = tuple(int(count) for count in counts[stage])
    return (stage, layers, holds_embedding(stage, stages, schedule), holds_head(stage, stages, schedule))


def _columns(rows: list[_Row], inverse: IntArray) -> Stages:
    stage = np.array([row[0] for row in rows], dtype=np.int64)
    layers = np.array([row[1] for row in rows], dtype=np.float64).T
    embedding = np.array([row[2] for row in rows], dtype=np.float64)
    head = np.array([row[3] for row in rows], dtype=np.float64)
    return Stages(stage[inverse], layers[:, inverse], embedding[inverse], head[inverse])
