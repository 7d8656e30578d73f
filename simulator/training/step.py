"""Time of one optimizer step for every plan of a lattice, its parts, and its 80 % interval.

The interval comes from quantiles of measured / predicted over published runs whose source was left out.
"""

from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Final

import numpy as np

from advisor.catalog.files import DATA_DIR, read_toml
from advisor.simulator.device import device_of
from advisor.simulator.graph.model import num_experts
from advisor.simulator.quantity import Basis, Quantity
from advisor.simulator.training.cluster import TrainingCluster, host_copy_bytes_per_s
from advisor.simulator.training.framework_costs import FrameworkCosts, at_host, at_power, framework_costs
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.memory.peak import layer_kept_bytes
from advisor.simulator.training.passes import PassColumns, pass_times, recomputed_share
from advisor.simulator.training.pipeline import bubbles_s
from advisor.simulator.training.plan import FloatArray, PlanLattice, TrainingPlan
from advisor.simulator.training.step_exchange import DUALPIPE
from advisor.simulator.training.step_host import launch_times
from advisor.simulator.training.step_layers import SIXTEEN_BIT
from advisor.simulator.training.step_sharding import sharding_times

INTERVALS_FILE: Final = DATA_DIR / "training_intervals.toml"
_TESTED_FAMILIES: Final = ("megatron", "fsdp", "maxtext", "peft", "torchtitan", "deepspeed")
_TESTED_ARCHITECTURES: Final = ("ampere", "ada", "hopper", "blackwell", "tpu")
TORCHTITAN_ELSEWHERE: Final = "torchtitan_elsewhere"
"""Class of torchtitan's steps on other chips than H100 and H200: nine runs of one source on B200s and MI300Xs took 1.6
to 2.7 times as long as predicted."""
_SMALL_JOB: Final = 8
"""Largest number of accelerators at which a run counts as one node among the residuals, whatever its nodes hold. The
classes of training_intervals.toml were fitted with this boundary; it is no fact about hardware."""


@dataclass(frozen=True, slots=True)
class StepColumns:
    """Parts of the time of one optimizer step [s], per plan; all columns except the last add up to the step."""

    forward_s: FloatArray
    backward_s: FloatArray
    recompute_s: FloatArray
    tensor_parallel_s: FloatArray
    """Exposed communication of tensor parallelism [s]; all communication columns hold exposed time."""
    context_parallel_s: FloatArray
    expert_parallel_s: FloatArray
    pipeline_s: FloatArray
    """Time of sends between stages [s]."""
    bubble_s: FloatArray
    """Time of waiting for other stages [s]."""
    data_parallel_s: FloatArray
    """Time of gradients and parameters of data-parallel ranks, and of the computation that they slow [s]."""
    optimizer_s: FloatArray
    host_s: FloatArray
    """Time of launches that outlast the kernels, and of the work done once per step [s]."""
    data_loading_s: FloatArray
    straggler_s: FloatArray
    """Time of waiting for the slowest accelerator [s]."""
    hidden_s: FloatArray
    """Communication time that computation hides; not part of the step [s]."""

    @property
    def step_s(self) -> FloatArray:
        """Time of the step [s]."""
        return np.asarray(sum(getattr(self, name) for name in _PARTS), dtype=np.float64)

    def breakdown_s(self, row: int) -> dict[str, float]:
        """Return the parts of one plan's step by name [s]."""
        return {name[:-2]: float(getattr(self, name)[row]) for name in _PARTS}


_PARTS: Final = tuple(field.name for field in fields(StepColumns) if field.name != "hidden_s")


def step_time(
    job: TrainingJob, lattice: PlanLattice, cluster: TrainingCluster, costs: FrameworkCosts | None = None
) -> StepColumns:
    """Time of one optimizer step and its parts [s], per plan.

    step = m (forward + backward + recompute + exposed communication of the busiest stage) + bubble + exposed
    data-parallel communication + optimizer + host + stragglers, with m micro-batches per data-parallel rank.

    Assumes: ranks are numbered tensor, context, data, pipeline parallel, the first fastest; the schedule's closed
        form (simulator.training.pipeline).
    Raises: InfeasibleError: the accelerator lacks memory, bandwidth or a 16-bit peak; a plan has more stages than
        layers.
    Error: docs/training-time.md, whole sources left out.
    Source: own composition; each part in its module.
    """
    costs = at_power(costs or framework_costs(job, cluster.accelerator.architecture), cluster.accelerator)
    costs = at_host(costs, cluster.host_operator_s)
    passes = pass_times(job, lattice, cluster, costs)
    m = num_micro_batches(job, lattice)
    pp = lattice.pipeline_parallel
    parts = {name: m * seconds for name, seconds in passes.parts.items()}
    launches = launch_times(job, lattice, costs, passes.stages.num_layers, recomputed_share(job, lattice))
    waits = launches.waits(pp > 1, passes.forward_s, passes.input_s + passes.weight_s)
    offloaded = _offloaded_s(job, lattice, cluster, passes)
    forward = passes.forward_s + waits.forward_s
    inputs = passes.input_s + waits.backward_s
    busiest = forward + inputs + passes.weight_s
    # The busiest stage waits while one micro-batch passes through the others.
    idle = passes.other_stages_share * bubbles_s(
        lattice.schedule, pp, lattice.virtual_stages, forward, inputs, passes.weight_s
    )
    sends = (m + pp - 1.0) * _exposed_send_s(lattice, passes, costs.pipeline_sync_s, busiest)
    sharding = sharding_times(job, lattice, cluster, costs, passes, m)
    total = m * busiest + idle + sends + sharding.exchange_s + sharding.interference_s + sharding.optimizer_s
    return StepColumns(
        forward_s=parts["forward"],
        backward_s=parts["backward"],
        recompute_s=parts["recompute"],
        tensor_parallel_s=parts["tensor_parallel"],
        context_parallel_s=parts["context_parallel"],
        expert_parallel_s=parts["expert_parallel"],
        pipeline_s=sends,
        bubble_s=idle,
        data_parallel_s=sharding.exchange_s + sharding.interference_s,
        optimizer_s=sharding.optimizer_s,
        host_s=m * (waits.forward_s + waits.backward_s + offloaded),
        data_loading_s=np.zeros_like(m),
        straggler_s=total * costs.straggler * np.sqrt(2.0 * np.log(lattice.num_accelerators)),
        hidden_s=m * (passes.hidden_forward_s + passes.hidden_backward_s) + sharding.hidden_s,
    )


def num_micro_batches(job: TrainingJob, lattice: PlanLattice) -> FloatArray:
    """Number of micro-batches of one data-parallel rank and step; a last one that is not full counts whole.

    Source: definition of gradient accumulation.
    """
    return np.maximum(1.0, np.ceil(job.global_batch / (lattice.data_parallel * lattice.micro_batch)))


def _offloaded_s(
    job: TrainingJob, lattice: PlanLattice, cluster: TrainingCluster, passes: PassColumns
) -> FloatArray:
    """Time by which moving what layers keep to the host and back outlasts the passes [s per micro-batch].

    Error: 70 ms for 68 of a layer that keeps 1.7 GB, TRL's offloading on an H200 (tools/measure_tuned_layers.py).
    """
    if not lattice.offload_activations.any():
        return np.zeros(len(lattice))
    kept = passes.stages.num_layers * layer_kept_bytes(job, lattice)
    copy_s = kept / host_copy_bytes_per_s(cluster.accelerator)
    shown = np.maximum(0.0, copy_s - passes.forward_s)
    shown = shown + np.maximum(0.0, copy_s - passes.input_s - passes.weight_s)
    return np.where(lattice.offload_activations == 1, shown, 0.0)


def _exposed_send_s(
    lattice: PlanLattice, passes: PassColumns, sync_s: float, busiest_s: FloatArray
) -> FloatArray:
    """Time per micro-batch that a stage waits for its sends of both ways [s]; DualPipe's travel during other passes.

    No schedule passes micro-batches faster than the slowest hop carries their sends.
    """
    both_ways = 2.0 * np.maximum(lattice.virtual_stages, 1.0)
    waits = np.where(lattice.schedule == DUALPIPE, 0.0, both_ways * (passes.send_s + sync_s))
    beyond = both_ways * passes.slowest_send_s - busiest_s
    return np.where(lattice.pipeline_parallel > 1, np.maximum(waits, beyond), 0.0)


def step_class(
    job: TrainingJob, cluster: TrainingCluster, num_accelerators: int, *, assumed: bool = False
) -> str:
    """Return the class of residuals that a step belongs to.

    Untested if no published run of the framework or of the kind of chip was at hand, or if the chip's record lacks
    facts that those of the runs had; `assumed` if the layout had to be chosen; other vendors' chips, adapters,
    torchtitan, whose releases differ most, on Hopper and elsewhere, whole models in trainers of Transformers and with
    them DoRA and adapters of models with experts, of which hardly a run is published, experts, and the rest by whether
    it leaves a node.

    Source: own definition.
    """
    if job.framework == "torchtitan" and not cluster.accelerator.architecture.startswith("hopper"):
        return TORCHTITAN_ELSEWHERE
    if not _is_tested(job, cluster):
        return "untested"
    if cluster.accelerator.vendor != "nvidia":
        return "other_vendor"
    if device_of(cluster.accelerator).assumed:
        return "untested"
    if assumed:
        return "assumed_layout"
    if job.method != "full" and not (job.method == "dora" or num_experts(job.model)):
        return "adapters"
    if job.method != "full" or job.framework == "peft":
        return "transformers"
    if job.framework == "torchtitan":
        return "torchtitan"
    where = "multi_node" if num_accelerators > _SMALL_JOB else "single_node"
    return f"{where}_{'experts' if num_experts(job.model) else 'dense'}"


def _is_tested(job: TrainingJob, cluster: TrainingCluster) -> bool:
    tested = job.framework in _TESTED_FAMILIES
    return tested and cluster.accelerator.architecture.startswith(_TESTED_ARCHITECTURES)


def step_quantity(
    seconds: float, class_name: str, basis: Basis = "modelled", slow_host: float = 1.0
) -> Quantity:
    """Return a step time with its 80 % interval [s], whose upper end is `slow_host` times as far where launches of
    experts are uncertain.

    Source: catalog/data/training_intervals.toml, written by evidence/fit/training.py; `slow_host_factor`.
    """
    low, high = step_factors(class_name)
    return Quantity(seconds, seconds * min(low, 1.0), seconds * max(high, 1.0) * slow_host, basis)


def slow_host_factor(
    job: TrainingJob, plan: TrainingPlan, cluster: TrainingCluster, costs: FrameworkCosts | None = None
) -> float:
    """Ratio of the step if the host took twice as long to launch routed experts in 16 bits; 1 without any.

    How many kernels these experts launch is an own count (catalog/data/terms.csv, local_expert_kernels): every
    published run that waits for its host has its experts in fewer bits, so that no class of residuals covers it.

    Assumes: twice as long is the upper end of an 80 % interval.
    Source: own assumption; hosts that were measured differ by as much.
    """
    if not num_experts(job.model) or job.compute_dtype not in SIXTEEN_BIT:
        return 1.0
    costs = costs or framework_costs(job, cluster.accelerator.architecture)
    slow = replace(
        costs,
        expert_kernels=2.0 * costs.expert_kernels,
        local_expert_kernels=2.0 * costs.local_expert_kernels,
    )
    lattice = PlanLattice.of([plan])
    usual_s, slow_s = (float(step_time(job, lattice, cluster, each).step_s[0]) for each in (costs, slow))
    return max(1.0, slow_s / usual_s)


def step_factors(class_name: str) -> tuple[float, float]:
    """Return the (low, high) ratios of measured to predicted step time between which 80 % of left-out runs of the class
    lie.

    Source: as step_quantity.
    """
    known = _classes()
    low, high = known.get(class_name, known["any"])
    return float(low), float(high)


def widest_factors() -> tuple[float, float]:
    """Return the least and the largest ratio of measured to predicted step time of any class, for runs like none of
    which one was measured.

    Source: as step_quantity.
    """
    lows, highs = zip(*_classes().values(), strict=True)
    return float(min(lows)), float(max(highs))


@cache
def _classes() -> dict[str, tuple[float, float]]:
    return dict(read_toml(INTERVALS_FILE)["step_time"])
