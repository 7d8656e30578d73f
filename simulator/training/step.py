"""Time of one optimizer step for every plan of a lattice, and where it goes."""

from dataclasses import dataclass, fields
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.schema import LayerGroup
from advisor.simulator.device import device_of
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.training.bubbles import bubbles_s
from advisor.simulator.training.cluster import TrainingCluster
from advisor.simulator.training.framework_costs import FrameworkCosts, framework_costs
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.plan import RECOMPUTES, IntArray, PlanLattice
from advisor.simulator.training.step_adapters import adapter_times
from advisor.simulator.training.step_exchange import Exchanges
from advisor.simulator.training.step_head import head_times
from advisor.simulator.training.step_host import launch_times
from advisor.simulator.training.step_layers import LayerPricing, LayerTimes, Slices
from advisor.simulator.training.step_sharding import HOST_LINK_BYTES_PER_S, sharding_times
from advisor.simulator.training.step_stages import StageLayers, stage_layers

FloatArray = NDArray[np.float64]

ENGINE: Final = "any"


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


@dataclass(frozen=True, slots=True)
class PassColumns:
    """Times of one micro-batch through the busiest stage [s], per plan, and the sums over all stages."""

    parts: dict[str, FloatArray]
    """By the step's column that they count for."""
    forward_s: FloatArray
    input_s: FloatArray
    weight_s: FloatArray
    other_stages_share: FloatArray
    """Time of an average stage over that of the busiest."""
    send_s: FloatArray
    activation_bytes: FloatArray
    """Output of a layer on one accelerator."""
    stages: StageLayers


def step_time(
    job: TrainingJob, lattice: PlanLattice, cluster: TrainingCluster, costs: FrameworkCosts | None = None
) -> StepColumns:
    """Time of one optimizer step and its parts [s], per plan.

    step = m (forward + backward + recompute + exposed communication of the busiest stage) + bubble + exposed
    data-parallel communication + optimizer + host + stragglers, with m micro-batches per data-parallel rank.

    Assumes: ranks are numbered tensor, context, data, pipeline parallel, the first fastest; the schedule's closed
        form (simulator.training.bubbles).
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
    idle = bubbles_s(lattice.schedule, pp, lattice.virtual_stages, forward, inputs, passes.weight_s)
    idle = idle * np.where(pp > 1, passes.other_stages_share, 0.0)
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


def computed_sequence(job: TrainingJob, micro_batch: FloatArray) -> FloatArray:
    """Tokens of a sequence as they are computed: all of a packed one, else the longest of the micro-batch.

    min(sequence, mean (1 + spread sqrt(2 ln micro-batch))) and the learned tokens of prompt tuning

    Assumes: lengths spread by half of their mean, as instruction data does.
    Source: expected maximum of normal variables, leading order.
    """
    whole = np.full_like(micro_batch, job.computed_tokens, dtype=np.float64)
    if not job.mean_sequence_tokens:
        return whole
    longest = job.mean_sequence_tokens * (1.0 + _LENGTH_SPREAD * np.sqrt(2.0 * np.log(micro_batch)))
    return np.minimum(whole, longest + job.virtual_tokens)


_LENGTH_SPREAD: Final = 0.4


def pass_times(
    job: TrainingJob, lattice: PlanLattice, cluster: TrainingCluster, costs: FrameworkCosts
) -> PassColumns:
    """Times of one micro-batch through the busiest stage, by part [s], per plan.

    Raises: InfeasibleError: as step_time.
    Source: own composition.
    """
    slices, of = _slices(job, lattice)
    pricing = LayerPricing(job, OperatorLibrary(device_of(cluster.accelerator), ENGINE), costs, slices)
    rows = slices.rows[of]
    exchanges = Exchanges(job, lattice, cluster, costs, rows)
    layers = [_layer_parts(job, group, pricing, exchanges, lattice, of) for group in job.model.layers]
    head = {name: seconds[of] for name, seconds in head_times(job, pricing).items()}
    stages = stage_layers(job, lattice, layers, head)
    parts = stages.parts
    comm = ("tensor_parallel", "context_parallel", "expert_parallel")
    forward = parts["forward"] + sum(parts[f"{name}_forward"] for name in comm)
    inputs = parts["input"] + parts["recompute"] + sum(parts[f"{name}_backward"] for name in comm)
    return PassColumns(
        parts={
            "forward": parts["forward"],
            "backward": parts["input"] + parts["weight"],
            "recompute": parts["recompute"],
            **{name: parts[f"{name}_forward"] + parts[f"{name}_backward"] for name in comm},
        },
        forward_s=forward,
        input_s=np.asarray(inputs),
        weight_s=parts["weight"],
        other_stages_share=stages.average_s / (forward + inputs + parts["weight"]),
        send_s=exchanges.send_s(),
        activation_bytes=exchanges.activation_bytes(),
        stages=stages,
    )


def _slices(job: TrainingJob, lattice: PlanLattice) -> tuple[Slices, IntArray]:
    """Distinct combinations of what prices a layer, and which of them each plan has."""
    split = np.where(lattice.sequence_parallel == 1, lattice.tensor_parallel, 1)
    columns = (
        lattice.tensor_parallel,
        lattice.context_parallel,
        split,
        lattice.micro_batch,
        lattice.expert_parallel,
        lattice.tensor_parallel_of_experts,
    )
    key = np.zeros_like(columns[0])
    for column in columns:
        key = key * (int(column.max(initial=1)) + 1) + column
    _, first, of = np.unique(key, return_index=True, return_inverse=True)
    tp, cp, split, micro, ep, etp = (column[first] for column in columns)
    sequence = computed_sequence(job, micro.astype(np.float64))
    return Slices(sequence, micro * sequence / cp, micro.astype(np.float64), tp, cp.astype(np.float64),
                  split.astype(np.float64), ep, etp), of  # fmt: skip


def _layer_parts(
    job: TrainingJob,
    group: LayerGroup,
    pricing: LayerPricing,
    exchanges: Exchanges,
    lattice: PlanLattice,
    of: IntArray,
) -> dict[str, FloatArray]:
    """Time of one layer and micro-batch by part [s], per plan."""
    times = adapter_times(job, group, pricing, pricing.layer(group)).taken(of)
    found = exchanges.layer(group, times)
    full, selective = (lattice.recompute == RECOMPUTES.index(name) for name in ("full", "selective"))
    share = recomputed_share(job, lattice)
    whole = times.forward_s - pricing.costs.partial_recompute * times.last_matmul_s
    again = share * np.where(full, whole, np.where(selective, selectively_again_s(job, times), 0.0))
    return {
        "forward": times.forward_s,
        "input": times.input_s,
        "weight": times.weight_s,
        "recompute": again,
        "tensor_parallel_forward": found.tensor_forward_s,
        "tensor_parallel_backward": found.tensor_backward_s,
        "tensor_parallel_repeated": share * np.where(full, found.tensor_forward_s, 0.0),
        "context_parallel_forward": found.context_forward_s,
        "context_parallel_backward": found.context_backward_s,
        "context_parallel_repeated": share * np.where(full | selective, found.context_forward_s, 0.0),
        "expert_parallel_forward": found.expert_forward_s,
        "expert_parallel_backward": found.expert_backward_s,
        "expert_parallel_repeated": share * np.where(full, found.expert_forward_s, 0.0),
    }


def selectively_again_s(job: TrainingJob, times: LayerTimes) -> FloatArray:
    """What selective recomputation of a layer repeats [s]: attention's core.

    torchtitan's saves every second multiplication and attention instead, and repeats all the rest.

    Source: Korthikanti et al. 2022, arXiv:2205.05198; pytorch/torchtitan, selective activation checkpointing ("op").
    """
    if job.framework != "torchtitan":
        return times.core_s
    return times.forward_s - times.attention_s - 0.5 * times.matmul_forward_s


def recomputed_share(job: TrainingJob, lattice: PlanLattice) -> FloatArray:
    """Share of a stage's layers to which the plan's recomputation applies. Source: own definition."""
    per_stage = sum(group.count for group in job.model.layers) / lattice.pipeline_parallel
    some = lattice.recompute_layers >= 0
    return np.where(some, np.minimum(1.0, lattice.recompute_layers / per_stage), 1.0)


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
