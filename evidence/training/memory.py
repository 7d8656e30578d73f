"""Peak memory of published training runs: settings implied by a framework's recipe, and the prediction with its
interval."""

from dataclasses import replace
from functools import cache
from typing import Final

import numpy as np

from advisor.catalog.files import DATA_DIR, read_toml
from advisor.catalog.training import software_of
from advisor.catalog.units import GB
from advisor.evidence.training.case import TrainingCase
from advisor.simulator.quantity import Basis, Quantity
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.memory import MemoryColumns, fits, peak_memory
from advisor.simulator.training.plan import FloatArray, PlanLattice, TrainingPlan
from advisor.simulator.training.reinforcement import Companions, companion_bytes

_TUNED_FAMILIES: Final = ("megatron", "maxtext")
"""Families whose runs set recomputation to what fits; in other runs it is off unless the recipe states it."""
_OOM_MARGIN: Final = 0.05
"""Distance to the memory limit, as a fraction of it, within which a run may fit or not."""


def memory_metrics(
    case: TrainingCase, job: TrainingJob, plan: TrainingPlan, basis: Basis = "modelled"
) -> dict[str, Quantity]:
    """Predicted `peak_mem_gb` [1e9 bytes] and `oom` [1 or 0] of a run with its knobs set.

    Assumes: a peak of unspecified kind is what the allocator holds, between tensors and what the device shows; of
        Megatron what its tensors hold, which is what it logs.
    Raises: InfeasibleError: more pipeline stages than layers.
    Error: measured in tests/evidence/test_memory_truth.py.
    Source: as `peak_memory`; intervals from data/training/memory_intervals.toml.
    """
    fitting = plan
    job, plan = as_run(case, job, plan)
    lattice = PlanLattice.of([plan])
    columns = peak_memory(job, lattice)
    beside = 0.0
    if case.finetune == "grpo":
        beside = float(companion_bytes(job, lattice, Companions("grpo"))[0])
    capacity = case.cluster.accelerator.memory_bytes
    peak = _working_peak_bytes(case, job, fitting, columns, beside) / GB
    low, high = _factors(case.peak_mem_kind)
    most = max(peak, min(peak * high, capacity / GB)) if capacity else peak * high
    metrics = {"peak_mem_gb": Quantity(peak, peak * low, most, basis)}
    if capacity:
        limits = [capacity * edge - beside for edge in (1 + _OOM_MARGIN, 1, 1 - _OOM_MARGIN)]
        edges = [float(not fits(columns, limit)[0]) for limit in limits]
        metrics["oom"] = Quantity(edges[1], edges[0], edges[2], basis)
    return metrics


def _working_peak_bytes(
    case: TrainingCase, job: TrainingJob, fitting: TrainingPlan, columns: MemoryColumns, beside: float
) -> float:
    """Peak that a run shows if it runs [bytes], which is never more than the accelerator has.

    If the recipe's recomputation does not fit and the row leaves it open, the recomputation is that of the plan that
    fits. A peak is only ever printed by a run that did not fail.
    """
    capacity = case.cluster.accelerator.memory_bytes
    if not capacity:
        return float(_of_kind(columns, _kind(case), None)[0]) + beside
    if "recompute" in case.unstated and not fits(columns, capacity - beside)[0]:
        other = peak_memory(job, PlanLattice.of([fitting]))
        columns = other if fits(other, capacity - beside)[0] else columns
    return min(float(_of_kind(columns, _kind(case), capacity)[0]) + beside, capacity)


def as_run(case: TrainingCase, job: TrainingJob, plan: TrainingPlan) -> tuple[TrainingJob, TrainingPlan]:
    """Return job and plan of a case with the settings of its framework's recipe for everything the row leaves open.

    For a reinforcement-learning run it is the training phase, during which a reference model is also in memory unless
    adapters can be switched off. Adapter recipes that run on one device do so. Recomputation is as the recipe has it,
    or as it was tuned. torchtitan cuts a rank's batch into as many micro-batches as stages. An adapter that is not
    LoRA's is marked as such.

    Source: catalog/data/training/memory.toml; torchtitan, pipeline_parallel_microbatches.
    """
    software = software_of(job.framework, job.software)
    if case.finetune == "grpo" and job.lora_rank:
        job = replace(job, method="lora")
    if case.finetune.startswith("peft:"):
        job = replace(job, features=job.features | {"other_adapter"})
    if software.adapters_on_one_device and job.method != "full":
        plan = replace(plan, data_parallel=1, sharding="none")
    if software.chunks_adapter_loss and job.method != "full":
        job = replace(job, features=job.features | {"chunked_ce"})
    layers = sum(group.count for group in job.model.layers)
    stages = plan.pipeline_parallel
    if software.remainder_on_last_stages and layers % stages and not plan.last_stage_layers:
        plan = replace(plan, last_stage_layers=-(-layers // stages))
    if "recompute" in case.unstated and job.framework not in _TUNED_FAMILIES:
        sharded = plan.sharding == "zero3" and plan.data_parallel * plan.context_parallel > 1
        habit = (software.sharded_recompute if sharded else None) or software.recompute
        plan = replace(plan, recompute=habit, recompute_layers=-1)
    if "micro_batch" in case.unstated and job.framework == "torchtitan" and plan.pipeline_parallel > 1:
        micro = job.global_batch // (plan.data_parallel * plan.pipeline_parallel)
        plan = replace(plan, micro_batch=max(1, micro))
    return job, plan


def _kind(case: TrainingCase) -> str:
    """Return the kind of peak that a row means: the stated one, or the one that its framework's log prints.

    Source: NVIDIA/Megatron-LM, megatron/training/utils.py, report_memory: max_memory_allocated.
    """
    logged = case.job.framework == "megatron" and case.peak_mem_kind not in (
        "allocated",
        "active",
        "reserved",
    )
    return "allocated" if logged else case.peak_mem_kind


def _of_kind(columns: MemoryColumns, kind: str, capacity_bytes: float | None) -> FloatArray:
    """Peak of a kind [bytes]: in tensors (allocated, active), or held by the allocator, which lies between tensors and
    the device.

    What tensors leave free is all that the allocator can hold above them.
    """
    if kind in ("allocated", "active") or not capacity_bytes:
        return columns.allocated_bytes if kind in ("allocated", "active") else columns.reserved_bytes
    room = capacity_bytes - (columns.peak_bytes - columns.reserved_bytes)
    return np.maximum(np.minimum(columns.reserved_bytes, room), columns.allocated_bytes)


@cache
def _intervals() -> dict[str, list[float]]:
    return dict(read_toml(DATA_DIR / "training" / "memory_intervals.toml")["intervals"])


def _factors(kind: str) -> tuple[float, float]:
    """Return (low, high) of measured / predicted that hold 80 % of published peaks of a kind."""
    known = _intervals()
    low, high = known["allocated" if kind == "active" else kind if kind in known else "unspecified"]
    return low, high
