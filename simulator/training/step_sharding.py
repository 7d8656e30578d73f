"""Data parallelism and the optimizer: gradients summed, parameters gathered, states updated, once per step or more
often."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from advisor.catalog.training import software_of
from advisor.catalog.units import BF16_BYTES, FP32_BYTES
from advisor.simulator.device import device_of
from advisor.simulator.training.cluster import Groups, TrainingCluster, host_copy_bytes_per_s
from advisor.simulator.training.framework_costs import FrameworkCosts, common_term
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.memory.formats import moment_bytes
from advisor.simulator.training.passes import PassColumns, StageParameters
from advisor.simulator.training.plan import SHARDINGS, FloatArray, PlanLattice

_EXTRA_BYTES: Final = {"adafactor": 6.0, "muon": 2.0}
"""Bytes that an update moves per parameter besides gradient, states and 16-bit copy, by optimizer: Adafactor reads
gradient and update again for their means, Muon multiplies a momentum in 16 bits."""
_SHORT_OPTIMIZER_BYTES: Final = {"adamw": 22.0, "sgd": 6.0}
"""Bytes read and written per parameter if everything is in 16 bits, by optimizer; Adam's 14 bytes are stretched, as its
update computes in fp32 and fused kernels reach less of the bandwidth (measured on an H200)."""
_NORM_BYTES: Final = 8.0
"""Bytes moved per gradient for clipping: gradients are read for their norm, and read and written where it clips."""
_MUON_PASSES: Final = 30.0
"""Multiply-adds per parameter and unit of the smaller side: five Newton-Schulz steps of three products."""


@dataclass(frozen=True, slots=True)
class ShardingTimes:
    """Exposed data-parallel communication and the optimizer's update [s], per plan."""

    exchange_s: FloatArray
    interference_s: FloatArray
    """Time that hidden communication adds to the computation [s]."""
    optimizer_s: FloatArray
    hidden_s: FloatArray
    """Communication time that computation hides [s]."""


def sharding_times(
    job: TrainingJob,
    lattice: PlanLattice,
    cluster: TrainingCluster,
    costs: FrameworkCosts,
    passes: PassColumns,
    num_micro_batches: FloatArray,
) -> ShardingTimes:
    """Time of data-parallel communication that computation does not hide, and of the optimizer step [s].

    The passes of one micro-batch through the busiest stage are the windows behind which gathers and sums hide.
    Gradients: an all-reduce, or a reduce-scatter and a gather of parameters if the optimizer is divided; with divided
    parameters (ZeRO-3, FSDP) a gather per pass and a scatter per backward pass of every micro-batch. The part that
    exceeds its window is exposed, and at least one layer's share of it always is.

    If data ranks share the fabric of the layers' own communication, the windows are the computation without the time in
    which that communication uses the fabric.

    Assumes: gradients are summed in the last micro-batch's backward pass, in every one's if they are divided
        (ZeRO-2: a rank has no room for the others' sums); parameters gathered in the first's forward pass; HSDP adds an
        all-reduce of the shard over the replicas; PyTorch's pipelines gather a stage once for all micro-batches.
    Source: Megatron-Core distributed optimizer (overlap_grad_reduce, overlap_param_gather); PyTorch FSDP
    (arXiv:2304.11277); ZeRO (arXiv:1910.02054).
    """
    device = device_of(cluster.accelerator)
    parameters = passes.stages.parameters
    forward_s, backward_s = _windows_s(lattice, cluster, passes)
    reduce, gather = _communication_s(job, lattice, cluster, costs, parameters, num_micro_batches)
    is_full, is_none, is_divided = (
        lattice.sharding == SHARDINGS.index(n) for n in ("zero3", "none", "zero2")
    )
    staged = (lattice.pipeline_parallel > 1) & software_of(job.framework, job.software).gathers_stages
    rounds = np.where(staged, 1.0, num_micro_batches)
    sums = np.where(is_divided, num_micro_batches, 1.0)
    gather_once = np.where(is_none | is_full, 0.0, gather * parameters.trained_fraction)
    overlap = costs.data_overlap
    table = costs.table_exposed * parameters.table / np.maximum(parameters.dense, 1.0)
    alone = np.maximum(1.0 / np.maximum(passes.stages.num_layers, 1.0), table)
    once = _exposed_time_s(reduce, overlap * backward_s, alone)
    # A sum before another micro-batch can also hide behind all of that micro-batch.
    once = once + (sums - 1.0) * np.maximum(reduce - overlap * (forward_s + backward_s), 0.0)
    once = once + _exposed_time_s(gather_once, costs.gather_overlap * forward_s, alone)
    per_pass = _exposed_time_s(gather, overlap * forward_s, alone)
    per_pass = per_pass + _exposed_time_s(gather + reduce, overlap * backward_s, alone)
    exchange = np.where(is_full, rounds * per_pass, once)
    total = np.where(is_full, rounds * (2.0 * gather + reduce), sums * reduce + gather_once)
    hidden = np.maximum(0.0, total - exchange)
    # Gathered parameters are copied apart in both passes, gradients put together in the one format that is summed.
    moved = 2.0 * 2.0 * BF16_BYTES + parameters.trained_fraction * (BF16_BYTES + gradient_bytes(job, costs))
    copies = costs.shard_copies * moved * (parameters.dense + parameters.expert)
    copies = np.where(is_full, rounds * copies, 0.0) / (
        device.bandwidth_bytes_per_s * common_term("stream_fraction")
    )
    optimizer_s = _optimizer_s(job, lattice, cluster, costs, parameters)
    return ShardingTimes(exchange, costs.interference * hidden + copies, optimizer_s, hidden)


def _windows_s(
    lattice: PlanLattice, cluster: TrainingCluster, passes: PassColumns
) -> tuple[FloatArray, FloatArray]:
    """Data-parallel communication time that the forward and the backward pass of a micro-batch can hide [s].

    A second fabric (the network between nodes) is free all the time; the fabric that layers use is busy while they wait
    for it and while they communicate during computation.
    """
    ranks = lattice.data_parallel * lattice.context_parallel
    same = Groups(cluster, ranks, lattice.tensor_parallel, ranks > 1).inside
    busy_f, busy_b = passes.layer_waits_s
    forward_s = passes.forward_s
    backward_s = passes.input_s + passes.weight_s
    free_f = forward_s - np.where(same, busy_f + passes.hidden_forward_s, 0.0)
    free_b = backward_s - np.where(same, busy_b + passes.hidden_backward_s, 0.0)
    return np.maximum(free_f, 0.0), np.maximum(free_b, 0.0)


def _communication_s(
    job: TrainingJob,
    lattice: PlanLattice,
    cluster: TrainingCluster,
    costs: FrameworkCosts,
    parameters: StageParameters,
    num_micro_batches: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Time of the sum of all gradients, and of the gather of all parameters of a stage, per micro-batch [s].

    Divided gradients of an optimizer in host memory are summed there: each micro-batch but the first brings the sum
    back, adds its own, and sends it again, 2 m − 1 crossings in m micro-batches.

    Source: deepspeedai/DeepSpeed, runtime/zero/stage3.py (partition_grads) and stage_1_and_2.py
        (async_accumulate_grad_in_cpu_via_gpu).
    """
    shard = lattice.shard_ranks
    tp = lattice.tensor_parallel
    ranks = lattice.data_parallel * lattice.context_parallel
    copies = np.maximum(1, np.rint(lattice.expert_copies)).astype(np.int64)
    # In a job of two parts, ranks with the same weights are in both parts; a smaller shard group is in one part.
    sharded = Groups(cluster, shard, tp, shard == ranks)
    everyone = Groups(cluster, ranks, tp, ranks > 1)
    replicas = Groups(cluster, np.maximum(ranks // shard, 1), tp * shard, shard < ranks)
    expert_ranks = lattice.expert_parallel * lattice.tensor_parallel_of_experts
    experts = Groups(cluster, copies, expert_ranks, copies > 1)
    gradient, expert_gradient = (
        count * gradient_bytes(job, costs) * parameters.trained_fraction
        for count in (parameters.dense, parameters.expert)
    )
    weight = parameters.dense * gathered_weight_bytes(job)
    expert_weight = parameters.expert * BF16_BYTES
    scattered = sharded.reduce_scatter_s(gradient) + replicas.all_reduce_s(gradient / shard)
    scattered = scattered + experts.reduce_scatter_s(expert_gradient)
    summed = everyone.all_reduce_s(gradient) + experts.all_reduce_s(expert_gradient)
    link = host_copy_bytes_per_s(cluster.accelerator)
    from_host = (weight / shard + expert_weight / copies) / link
    divided = lattice.sharding >= SHARDINGS.index("zero2")
    crossings = 2.0 - 1.0 / np.maximum(num_micro_batches, 1.0)
    to_host = crossings * (gradient / shard + expert_gradient / copies) / link
    scattered = scattered + np.where(divided & (lattice.offload_optimizer == 1), to_host, 0.0)
    gather = sharded.all_gather_s(weight) + experts.all_gather_s(expert_weight)
    if software_of(job.framework, job.software).broadcasts_shards:
        told = sharded.broadcasts_s(weight) + experts.broadcasts_s(expert_weight)
        gather = np.where(lattice.sharding == SHARDINGS.index("zero3"), gather, told)
    gather = gather + np.where(lattice.offload_parameters == 1, from_host, 0.0)
    return np.where(lattice.sharding == SHARDINGS.index("none"), summed, scattered), gather


def gradient_bytes(job: TrainingJob, costs: FrameworkCosts) -> float:
    """Bytes of one gradient as it is summed over ranks: the stated format's, else the framework's default.

    Source: PyTorch DistributedDataParallel sums in the weights' format, FSDP in `reduce_dtype`.
    """
    if job.features & {"fp32_grad_reduce", "autocast"}:
        return FP32_BYTES
    if software_of(job.framework, job.software).sums_in_fp32 and "bf16_states" not in job.features:
        return FP32_BYTES
    return 2.0 if "bf16_states" in job.features else costs.gradient_bytes


def gathered_weight_bytes(job: TrainingJob) -> float:
    """Bytes of one weight of dense layers as ranks gather it."""
    return 1.0 if "fp8_allgather" in job.features else BF16_BYTES


def _exposed_time_s(seconds: FloatArray, window_s: FloatArray, alone: FloatArray) -> FloatArray:
    """Communication time beyond its window [s]; the share of the first or last group has no computation to hide
    behind."""
    return np.maximum(seconds - window_s, seconds * alone)


def _update_bytes(job: TrainingJob) -> float:
    """Bytes that an update reads and writes per parameter: gradient, fp32 master copy and moments, 16-bit copy."""
    states = FP32_BYTES + moment_bytes(job, FP32_BYTES)
    return FP32_BYTES + 2.0 * states + BF16_BYTES + _EXTRA_BYTES.get(job.optimizer, 0.0)


def _optimizer_s(
    job: TrainingJob,
    lattice: PlanLattice,
    cluster: TrainingCluster,
    costs: FrameworkCosts,
    parameters: StageParameters,
) -> FloatArray:
    """Time to update the states that a rank holds [s]: bytes per parameter over bandwidth, or over the host's link."""
    shard = np.where(lattice.sharding == SHARDINGS.index("none"), 1, lattice.shard_ranks)
    copies = np.where(lattice.sharding == SHARDINGS.index("none"), 1.0, lattice.expert_copies)
    owned = parameters.trained_fraction * (parameters.dense / shard + parameters.expert / copies)
    num_bytes = _update_bytes(job) + _NORM_BYTES
    if "bf16_states" in job.features and job.optimizer in _SHORT_OPTIMIZER_BYTES:
        num_bytes = _SHORT_OPTIMIZER_BYTES[job.optimizer] + 0.5 * _NORM_BYTES
    device = device_of(cluster.accelerator)
    moved = owned * num_bytes * costs.optimizer_passes
    seconds = moved / (device.bandwidth_bytes_per_s * common_term("stream_fraction"))
    if job.optimizer == "muon":
        seconds = seconds + owned * _MUON_PASSES * job.model.hidden_size / (
            0.6 * device.peak_flop_per_s["bf16"]
        )
    host = owned * (
        2.0 * BF16_BYTES / host_copy_bytes_per_s(cluster.accelerator)
        + _update_bytes(job) / common_term("host_update_bytes_per_s")
    )
    return np.asarray(np.where(lattice.offload_optimizer == 1, host, seconds))
