"""Peak memory of every plan of a lattice at once, and of every stage of one plan for display."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.files import DATA_DIR, read_toml
from advisor.catalog.schema.training_software import TrainingSoftware
from advisor.catalog.training import allocator, loads_divided
from advisor.simulator.quantity import Quantity
from advisor.simulator.training.families import OF_TRANSFORMERS
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.memory.account import layer_bytes
from advisor.simulator.training.memory.formats import formats_of, shape_of
from advisor.simulator.training.memory.instants import (
    INSTANTS,
    PARTS,
    Held,
    fullest,
    held_blocks,
    select_where,
    stage_instants,
)
from advisor.simulator.training.plan import SHARDINGS, FloatArray, IntArray, PlanLattice, TrainingPlan
from advisor.simulator.training.stages import candidate_stages, stages_at

_ZERO3: Final = SHARDINGS.index("zero3")
MemoryVerdict = Literal["fits", "tight", "does not fit"]
_CHUNK: Final = 16384
"""Number of plans at a time, so that columns stay in the processor's cache."""


@dataclass(frozen=True, slots=True)
class MemoryColumns(Held[FloatArray]):
    """Memory of the fullest accelerator of each plan [bytes], with its parts at the instant of the peak."""

    peak_bytes: FloatArray
    """Memory that the accelerator must have [bytes]: reserved by the allocator, with context and communicators."""
    reserved_bytes: FloatArray
    """Memory held by the caching allocator [bytes] (torch.cuda.max_memory_reserved)."""
    stage: IntArray
    """Index of the fullest pipeline stage."""
    instant: IntArray
    """Index in INSTANTS of the peak."""

    def __len__(self) -> int:
        return len(self.peak_bytes)


@dataclass(frozen=True, slots=True)
class InstantMemory(Held[float]):
    """Memory that an accelerator holds at one instant [bytes]."""

    name: str


@dataclass(frozen=True, slots=True)
class PeakStageMemory:
    """Memory of each accelerator of one pipeline stage [bytes]."""

    stage: int
    num_layers: int
    instants: tuple[InstantMemory, ...]
    cached_bytes: float
    """Memory of the allocator at the step with cached blocks of activations [bytes]; 0 if these blocks are used
    again."""
    reserved_factor: float
    """Ratio of the bytes that the allocator holds to those in tensors."""
    outside_bytes: float
    """Memory of driver context and communicators [bytes]."""

    @property
    def fullest(self) -> InstantMemory:
        """Memory at the instant of the peak."""
        return max(self.instants, key=lambda instant: instant.allocated_bytes)

    @property
    def peak_bytes(self) -> float:
        """Memory that the accelerator must have [bytes]."""
        return (
            max(self.fullest.allocated_bytes, self.cached_bytes) * self.reserved_factor + self.outside_bytes
        )


def peak_memory(job: TrainingJob, lattice: PlanLattice) -> MemoryColumns:
    """Return the memory of the fullest accelerator of each plan, as the maximum over pipeline stages and instants
    [bytes].

    loss: weights + gradients* + optimizer + activations of all micro-batches in flight + logits
    backward: the same without logits, with the running layer's workspace and recomputed activations; or all gradients
    with the activations of one layer
    optimizer: weights + gradients + optimizer + temporaries of the step
    * if they outlive the step, or an earlier micro-batch left them.

    reserved = allocated · factor; peak = reserved + context + communicators.

    Assumes: valid layouts (divisibility is the search's to check); balanced experts.
    Raises: InfeasibleError: a plan has more pipeline stages than layers.
    Error: measured by tests and `validate training` on published peaks, see docs/accuracy.md.
    Source: Korthikanti et al. (arXiv:2205.05198); ZeRO (arXiv:1910.02054); PyTorch FSDP (arXiv:2304.11277);
    Megatron-Core; docs/training-memory.md derives each part.
    """
    parts = [
        _chunk(job, _rows(lattice, slice(start, start + _CHUNK))) for start in range(0, len(lattice), _CHUNK)
    ]
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return _chunk(job, lattice)
    joined = {
        field.name: np.concatenate([getattr(part, field.name) for part in parts])
        for field in fields(MemoryColumns)
    }
    return MemoryColumns(**joined)


def kept_activation_bytes(job: TrainingJob, lattice: PlanLattice) -> FloatArray:
    """Size of the activations that the fullest stage of each plan keeps for its backward passes, wherever they are
    [bytes].

    Source: as `peak_memory`.
    """
    resident = replace(lattice, offload_activations=np.zeros_like(lattice.offload_activations))
    formats = formats_of(job)
    shape = shape_of(job)
    layers = layer_bytes(job, formats, shape, resident)
    found = [
        stage_instants(job, formats, shape, resident, layers, stages)[0].activation_bytes
        for stages in candidate_stages(shape, resident)
    ]
    return np.asarray(np.max(np.stack(found), axis=0))


def layer_kept_bytes(job: TrainingJob, lattice: PlanLattice) -> FloatArray:
    """Size of the activations that an average layer of each plan keeps of one micro-batch for its backward pass
    [bytes].

    Source: as `peak_memory`.
    """
    shape = shape_of(job)
    kept = layer_bytes(job, formats_of(job), shape, lattice).kept
    counts = np.array([layer.count for layer in shape.layers], dtype=np.float64)
    return np.asarray(counts @ kept / counts.sum())


def fits(columns: MemoryColumns, memory_bytes: float) -> NDArray[np.bool_]:
    """Whether each plan's expected peak, reserved blocks and context included, is within this much memory.

    The allocator gives cached blocks back before it fails, but fragments remain: published runs that failed were
    expected at 1.01 to 1.05 of the memory.

    Source: own observation of four public reports; PyTorch CUDACachingAllocator, release_cached_blocks.
    """
    return np.asarray(columns.peak_bytes <= memory_bytes)


def memory_verdict(peak: Quantity, memory_bytes: float) -> MemoryVerdict:
    """Return the verdict on a peak: `fits` if its whole 80 % interval is within the memory, `tight` if only the peak
    is.

    Source: own definition.
    """
    if peak.high <= memory_bytes:
        return "fits"
    return "tight" if peak.value <= memory_bytes else "does not fit"


def peak_factors(job: TrainingJob) -> tuple[float, float]:
    """Return (low, high) of measured over predicted peaks that hold 80 % of published runs of the job's kind.

    Source: catalog/data/training/memory_intervals.toml.
    """
    low, high = _intervals()["planned_full" if job.method == "full" else "planned_adapters"]
    return min(low, 1.0), max(high, 1.0)


@cache
def _intervals() -> Mapping[str, tuple[float, float]]:
    found = read_toml(DATA_DIR / "training" / "memory_intervals.toml")["intervals"]
    return {name: (float(low), float(high)) for name, (low, high) in found.items()}


def reserved_factor(software: TrainingSoftware, lattice: PlanLattice) -> FloatArray:
    """Ratio of the bytes that the caching allocator holds to those in tensors, for each plan.

    Source: catalog/data/training/memory.toml.
    """
    memory = allocator()
    sharded = lattice.sharding >= _ZERO3
    own = software.sharded_reserved_factor or memory.sharded_reserved_factor
    return np.where(sharded, own, memory.reserved_factor)


def communicators(lattice: PlanLattice) -> FloatArray:
    """Number of communicators of a rank: one for each kind of parallelism of more than one rank.

    Source: own definition.
    """
    degrees = (
        lattice.tensor_parallel,
        lattice.pipeline_parallel,
        lattice.context_parallel,
        lattice.data_parallel,
        lattice.expert_parallel,
    )
    count = np.zeros(len(lattice))
    for degree in degrees:
        count += degree > 1
    return count


def stage_memory(job: TrainingJob, plan: TrainingPlan) -> tuple[PeakStageMemory, ...]:
    """Return the memory of each pipeline stage of a plan with its instants [bytes].

    Assumes: as `peak_memory`, of which this is the account.
    Raises: InfeasibleError: more pipeline stages than layers.
    Source: as `peak_memory`.
    """
    lattice = PlanLattice.of([plan])
    formats = formats_of(job)
    shape = shape_of(job)
    layers = layer_bytes(job, formats, shape, lattice)
    memory = allocator()
    factor = float(reserved_factor(formats.software, lattice)[0])
    outside = memory.context_bytes + memory.communicator_bytes * float(communicators(lattice)[0])
    found = []
    for stage in range(plan.pipeline_parallel):
        stages = stages_at(shape, lattice, stage)
        instants = stage_instants(job, formats, shape, lattice, layers, stages)
        cached = float(held_blocks(instants)[0]) if formats.software.flat_step else 0.0
        named = tuple(
            InstantMemory(name=name, **{part: float(getattr(held, part)[0]) for part in PARTS})
            for name, held in zip(INSTANTS, instants, strict=True)
        )
        found.append(PeakStageMemory(stage, int(stages.layers[:, 0].sum()), named, cached, factor, outside))
    return tuple(found)


def _rows(lattice: PlanLattice, rows: slice) -> PlanLattice:
    """Return consecutive plans, as views."""
    return PlanLattice(**{field.name: getattr(lattice, field.name)[rows] for field in fields(PlanLattice)})


def _chunk(job: TrainingJob, lattice: PlanLattice) -> MemoryColumns:
    formats = formats_of(job)
    shape = shape_of(job)
    layers = layer_bytes(job, formats, shape, lattice)
    best: Held[FloatArray] | None = None
    total = np.zeros(len(lattice))
    stage = np.zeros(len(lattice), dtype=np.int64)
    instant = np.zeros(len(lattice), dtype=np.int64)
    cached = np.zeros(len(lattice))
    for stages in candidate_stages(shape, lattice):
        instants = stage_instants(job, formats, shape, lattice, layers, stages)
        found, sums, index = fullest(instants)
        if formats.software.flat_step:
            cached = np.maximum(cached, held_blocks(instants))
        if best is None:
            best = found
            total = sums
            stage = stages.stage
            instant = index
            continue
        better = sums > total
        if better.any():
            best = select_where(better, found, best)
            total = np.maximum(sums, total)
            stage = np.where(better, stages.stage, stage)
            instant = np.where(better, index, instant)
    assert best is not None
    memory = allocator()
    reserved = np.maximum(total, cached) * reserved_factor(formats.software, lattice)
    outside = memory.context_bytes + memory.communicator_bytes * communicators(lattice)
    return MemoryColumns(
        peak_bytes=reserved + outside,
        reserved_bytes=reserved,
        **{name: getattr(best, name) for name in PARTS},
        stage=stage,
        instant=instant,
    )


def is_too_large_to_load(job: TrainingJob, memory_bytes: float | None) -> bool:
    """Whether an accelerator's memory does not hold a model whose layers become 4-bit weights as they are read: their
    quantiser puts all on each rank's accelerator before ranks divide them. Routed experts keep 16 bits.

    Source: transformers 5.24.0, quantizers/quantizer_bnb_4bit.py, update_device_map.
    """
    if job.framework not in OF_TRANSFORMERS or job.method != "qlora" or loads_divided(job.software):
        return False
    weights = float(peak_memory(job, PlanLattice.of([TrainingPlan()])).weight_bytes[0])
    return weights > (memory_bytes or math.inf)
