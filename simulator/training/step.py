"""Time of one optimizer step for every plan of a lattice, and where it goes."""

from dataclasses import dataclass, fields

import numpy as np

from advisor.simulator.device import device_of
from advisor.simulator.training.cluster import TrainingCluster
from advisor.simulator.training.framework_costs import FrameworkCosts, framework_costs
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.passes import PassColumns, pass_times, recomputed_share
from advisor.simulator.training.pipeline import bubbles_s
from advisor.simulator.training.plan import FloatArray, PlanLattice
from advisor.simulator.training.step_host import launch_times
from advisor.simulator.training.step_sharding import HOST_LINK_BYTES_PER_S, sharding_times


@dataclass(frozen=True, slots=True)
class StepColumns:
    """Where the time of one optimizer step goes [s], per plan; the columns add up to the step."""

    forward_s: FloatArray
    backward_s: FloatArray
    recompute_s: FloatArray
    tensor_parallel_s: FloatArray
    """Exposed, as all communication here."""
    context_parallel_s: FloatArray
    expert_parallel_s: FloatArray
    pipeline_s: FloatArray
    """Sends between stages."""
    bubble_s: FloatArray
    """Waiting for other stages."""
    data_parallel_s: FloatArray
    """Gradients and parameters of data-parallel ranks, and what they slow beside them."""
    optimizer_s: FloatArray
    host_s: FloatArray
    """Launches that outlast the kernels, and what is done once per step."""
    data_loading_s: FloatArray
    straggler_s: FloatArray
    """Waiting for the slowest accelerator."""

    @property
    def step_s(self) -> FloatArray:
        """Time of the step [s]."""
        return np.asarray(sum(getattr(self, field.name) for field in fields(self)), dtype=np.float64)

    def breakdown_s(self, row: int) -> dict[str, float]:
        """The parts of one plan's step by name [s].

        Source: own definition.
        """
        return {field.name[:-2]: float(getattr(self, field.name)[row]) for field in fields(self)}


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
    costs = costs or framework_costs(job, cluster.accelerator.architecture)
    passes = pass_times(job, lattice, cluster, costs)
    m = num_micro_batches(job, lattice)
    pp = lattice.pipeline_parallel
    parts = {name: m * seconds for name, seconds in passes.parts.items()}
    launches = launch_times(job, lattice, costs, passes.stages.num_layers, recomputed_share(job, lattice))
    waits = launches.waits(pp > 1, passes.forward_s, passes.input_s + passes.weight_s)
    offloaded = _offloaded_s(lattice, passes)
    forward, inputs = passes.forward_s + waits.forward_s, passes.input_s + waits.backward_s
    busiest = forward + inputs + passes.weight_s
    # The busiest stage waits while one micro-batch passes through the others.
    idle = passes.other_stages_share * bubbles_s(
        lattice.schedule, pp, lattice.virtual_stages, forward, inputs, passes.weight_s
    )
    sends = (m + pp - 1.0) * _exposed_sends(lattice, costs) * 2.0 * (passes.send_s + costs.pipeline_sync_s)
    device = device_of(cluster.accelerator)
    sharding = sharding_times(
        job, lattice, cluster, costs, device, passes.stages.parameters, passes.forward_s,
        passes.input_s + passes.weight_s, m, passes.stages.num_layers,
    )  # fmt: skip
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
        host_s=m * (waits.forward_s + waits.backward_s + offloaded) + costs.step_s,
        data_loading_s=np.zeros_like(m),
        straggler_s=total * costs.straggler * np.sqrt(2.0 * np.log(lattice.num_accelerators)),
    )


def num_micro_batches(job: TrainingJob, lattice: PlanLattice) -> FloatArray:
    """Micro-batches of one data-parallel rank and step; a last one that is not full counts whole.

    Source: definition of gradient accumulation.
    """
    return np.maximum(1.0, np.ceil(job.global_batch / (lattice.data_parallel * lattice.micro_batch)))


def _offloaded_s(lattice: PlanLattice, passes: PassColumns) -> FloatArray:
    """What moving the layers' inputs to the host and back outlasts the passes beside it [s per micro-batch]."""
    copy_s = passes.stages.num_layers * passes.activation_bytes / HOST_LINK_BYTES_PER_S
    shown = np.maximum(0.0, copy_s - passes.forward_s)
    shown = shown + np.maximum(0.0, copy_s - passes.input_s - passes.weight_s)
    return np.where(lattice.offload_activations == 1, shown, 0.0)


def _exposed_sends(lattice: PlanLattice, costs: FrameworkCosts) -> FloatArray:
    """Sends of each kind per micro-batch that a stage waits for."""
    chunks = np.maximum(lattice.virtual_stages, 1)
    shown = np.where(chunks > 1, chunks * (1.0 - costs.pipeline_overlap), 1.0)
    return np.where(lattice.pipeline_parallel > 1, shown, 0.0)
