"""From layers to pipeline stages: the busiest stage of every plan, its layers, its parameters."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.plan import SCHEDULES, IntArray, PlanLattice
from advisor.simulator.training.shape import layer_parameters, model_shape
from advisor.simulator.training.stages import MIRRORED, holds_embedding, holds_head, stage_groups
from advisor.simulator.training.step_sharding import StageParameters

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StageLayers:
    """The busiest stage of each plan."""

    parts: dict[str, FloatArray]
    """Time of one micro-batch by part [s]."""
    average_s: FloatArray
    """Forward and backward pass of one micro-batch, averaged over stages [s]."""
    num_layers: FloatArray
    """That one micro-batch passes."""
    parameters: StageParameters


def stage_layers(
    job: TrainingJob,
    lattice: PlanLattice,
    layers: list[dict[str, FloatArray]],
    head: dict[str, FloatArray],
) -> StageLayers:
    """Times and parameters of the stage that takes longest, for each plan.

    Assumes: the stages that differ are those with other layers, with the input table, or with the head.
    Raises: InfeasibleError: a plan has more stages than layers.
    Source: own composition of simulator.training.stages.
    """
    shape = model_shape(job.model)
    times = {name: np.stack([layer[name] for layer in layers]) for name in layers[0]}
    per_layer = np.asarray(sum(times.values()))
    per_head = np.asarray(sum(head.values()))
    counts, with_head = np.zeros((len(layers), len(lattice))), np.zeros(len(lattice))
    average, tables = np.zeros(len(lattice)), np.zeros(len(lattice))
    keys, of = _pipelines(lattice)
    for index, (pp, vpp, first, last, schedule) in enumerate(keys):
        mask = np.flatnonzero(of == index)
        kinds = _kinds(stage_groups(shape, pp, vpp, first, last, SCHEDULES[schedule]), SCHEDULES[schedule])
        seconds = kinds[:, :-3] @ per_layer[:, mask] + kinds[:, -2:-1] * per_head[mask]
        busiest = np.argmax(seconds, axis=0)
        counts[:, mask] = kinds[busiest, :-3].T
        with_head[mask] = kinds[busiest, -2]
        tables[mask] = kinds[busiest, -3] + kinds[busiest, -2]
        average[mask] = kinds[:, -1] @ seconds / pp
    # A mirrored stage holds two parts of the model, of which a micro-batch passes one.
    mirrored = np.isin(lattice.schedule, [SCHEDULES.index(name) for name in MIRRORED])
    passed = np.where(mirrored, 0.5, 1.0)
    parts = {
        name: passed * (np.einsum("gn,gn->n", counts, value) + with_head * head.get(name, 0.0))
        for name, value in times.items()
    }
    for name in ("tensor_parallel", "context_parallel", "expert_parallel"):
        parts[f"{name}_backward"] = parts[f"{name}_backward"] + parts.pop(f"{name}_repeated")
    parameters = layer_parameters(shape, lattice)
    table = tables * shape.embedding / lattice.tensor_parallel
    return StageLayers(
        parts=parts,
        average_s=passed * average,
        num_layers=passed * counts.sum(axis=0),
        parameters=StageParameters(
            np.einsum("gn,gn->n", counts, parameters.dense) + table,
            np.einsum("gn,gn->n", counts, parameters.expert),
            _trained_fraction(job, shape.total),
            np.where(tables > 0.0, shape.embedding / lattice.tensor_parallel, 0.0),
        ),
    )


def _trained_fraction(job: TrainingJob, total: float) -> float:
    if job.method == "full":
        return 1.0
    if job.trainable_parameters:
        return min(1.0, job.trainable_parameters / total)
    return min(1.0, 4.0 * job.lora_rank / job.model.hidden_size)


def _pipelines(lattice: PlanLattice) -> tuple[list[tuple[int, ...]], IntArray]:
    """Distinct (stages, chunks, first, last, schedule), and which of them each plan has."""
    columns = (
        lattice.pipeline_parallel, lattice.virtual_stages, lattice.first_stage_layers, lattice.last_stage_layers,
        lattice.schedule,
    )  # fmt: skip
    key = np.zeros_like(columns[0])
    for column in columns:
        key = key * (int(column.max(initial=0)) + 1) + column
    _, first, of = np.unique(key, return_index=True, return_inverse=True)
    return [tuple(int(column[row]) for column in columns) for row in first], of


def _kinds(groups: IntArray, schedule: str) -> FloatArray:
    """Distinct stages: layers of each group, whether it holds the input table and the head, how many are alike."""
    num_stages = len(groups)
    flags = [
        (holds_embedding(stage, num_stages, schedule), holds_head(stage, num_stages, schedule))  # type: ignore[arg-type]
        for stage in range(num_stages)
    ]
    rows = np.hstack([groups, np.array(flags, dtype=np.int64)])
    distinct, alike = np.unique(rows, axis=0, return_counts=True)
    return np.hstack([distinct, alike[:, None]]).astype(np.float64)
