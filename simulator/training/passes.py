"""Times of one micro-batch through the busiest pipeline stage of every plan, from those of its layers."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from advisor.simulator.device import device_of
from advisor.simulator.graph.model import layers_of, num_layers
from advisor.simulator.graph.operator import Layer
from advisor.simulator.graph.training import layer_parameters, table_parameters
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.training.cluster import TrainingCluster
from advisor.simulator.training.framework_costs import FrameworkCosts, common_term
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.memory.formats import shape_of
from advisor.simulator.training.plan import (
    RECOMPUTES,
    SCHEDULES,
    FloatArray,
    IntArray,
    PlanLattice,
    Schedule,
    distinct,
)
from advisor.simulator.training.stages import MIRRORED, holds_embedding, holds_head, pipelines, stage_groups
from advisor.simulator.training.step_exchange import Exchanges
from advisor.simulator.training.step_layers import LayerPricing, LayerTimes, Slices

ENGINE: Final = "any"


@dataclass(frozen=True, slots=True)
class StageParameters:
    """Parameters of the busiest stage on one accelerator, per plan."""

    dense: FloatArray
    expert: FloatArray
    trained_fraction: float = 1.0
    table: FloatArray | float = 0.0
    """Part of `dense` in one input table or head."""


@dataclass(frozen=True, slots=True)
class StageLayers:
    """Busiest stage of each plan."""

    parts: dict[str, FloatArray]
    """Time of one micro-batch by part [s]."""
    others_s: FloatArray
    """Forward and backward pass of one micro-batch, averaged over the other stages [s]; 0 without any."""
    num_layers: FloatArray
    """Number of layers that one micro-batch passes through in this stage."""
    parameters: StageParameters


@dataclass(frozen=True, slots=True)
class PassColumns:
    """Times of one micro-batch through the busiest stage [s], per plan, and the sums over all stages."""

    parts: dict[str, FloatArray]
    """Times of one micro-batch by the step's column that they count for [s]."""
    forward_s: FloatArray
    input_s: FloatArray
    weight_s: FloatArray
    other_stages_share: FloatArray
    """Ratio of the time of an average other stage to that of the busiest."""
    send_s: FloatArray
    """Time to send an activation from the first stage to the second [s]."""
    slowest_send_s: FloatArray
    """Time of the slowest such send of the pipeline [s]."""
    activation_bytes: FloatArray
    """Size of the output of a layer on one accelerator [bytes]."""
    hidden_forward_s: FloatArray
    """Communication time that the forward pass already hides [s]."""
    hidden_backward_s: FloatArray
    layer_waits_s: tuple[FloatArray, FloatArray]
    """Time that the forward and the backward pass wait for the layers' own communication [s]."""
    stages: StageLayers


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
    layers = [_layer_parts(job, layer, pricing, exchanges, lattice, of) for layer in layers_of(job.model)]
    head = {name: seconds[of] for name, seconds in pricing.head().items()}
    stages = _stage_layers(job, lattice, layers, head)
    parts = stages.parts
    if "later_tokens" in job.features:
        joined = dict(
            zip(("forward", "input", "weight"), (one[of] for one in pricing.joining_matmul()), strict=True)
        )
        for name, seconds in _later_tokens_s(job, layers, head, joined).items():
            parts[name] = parts[name] + seconds / lattice.pipeline_parallel
    comm = ("tensor_parallel", "context_parallel", "expert_parallel")
    waits_f = np.asarray(sum(parts[f"{name}_forward"] for name in comm))
    waits_b = np.asarray(sum(parts[f"{name}_backward"] for name in comm))
    forward = parts["forward"] + waits_f
    inputs = parts["input"] + parts["recompute"] + waits_b
    return PassColumns(
        parts={
            "forward": parts["forward"],
            "backward": parts["input"] + parts["weight"],
            "recompute": parts["recompute"],
            **{name: parts[f"{name}_forward"] + parts[f"{name}_backward"] for name in comm},
        },
        forward_s=forward,
        input_s=inputs,
        weight_s=parts["weight"],
        other_stages_share=stages.others_s / (forward + inputs + parts["weight"]),
        send_s=exchanges.send_s(),
        slowest_send_s=exchanges.slowest_send_s(),
        activation_bytes=exchanges.activation_bytes(),
        hidden_forward_s=parts["hidden_forward"],
        hidden_backward_s=parts["hidden_backward"],
        layer_waits_s=(waits_f, waits_b),
        stages=stages,
    )


def _later_tokens_s(
    job: TrainingJob,
    layers: list[dict[str, FloatArray]],
    head: dict[str, FloatArray],
    joined: dict[str, FloatArray],
) -> dict[str, FloatArray]:
    """Time of the modules that predict later tokens, by part of one micro-batch [s], per plan.

    Each is one more block, the model's last attention and the last feed-forward part, behind a matrix that joins two
    hidden vectors, with a head and loss of its own.

    Assumes: stages are laid out so that these modules lengthen all of them alike.
    Source: DeepSeek-V3 (arXiv:2412.19437), section 2.2.
    """
    kinds = layers_of(job.model)
    block = {
        max((index for index, part in enumerate(parts) if part is not None), default=0)
        for parts in ([one.attention for one in kinds], [one.feed_forward for one in kinds])
    }
    found: dict[str, FloatArray] = {}
    for name in layers[0]:
        once = sum(layers[index][name] for index in block) + head.get(name, 0.0) + joined.get(name, 0.0)
        seconds = np.asarray(job.model.mtp_layers * once)
        added = name.replace("_repeated", "_backward")
        found[added] = found[added] + seconds if added in found else seconds
    return found


def _slices(job: TrainingJob, lattice: PlanLattice) -> tuple[Slices, IntArray]:
    """Return the distinct combinations of the values that price a layer, and the combination of each plan."""
    split = np.where(lattice.sequence_parallel == 1, lattice.tensor_parallel, 1)
    columns = (
        lattice.tensor_parallel,
        lattice.context_parallel,
        split,
        lattice.micro_batch,
        lattice.expert_parallel,
        lattice.tensor_parallel_of_experts,
    )
    first, of = distinct(columns)
    tp, cp, split, micro, ep, etp = (column[first] for column in columns)
    sequence = computed_sequence(job, micro.astype(np.float64))
    return Slices(
        sequence,
        micro * sequence / cp,
        micro.astype(np.float64),
        tp,
        cp.astype(np.float64),
        split.astype(np.float64),
        ep,
        etp,
    ), of


def _layer_parts(
    job: TrainingJob,
    layer: Layer,
    pricing: LayerPricing,
    exchanges: Exchanges,
    lattice: PlanLattice,
    of: IntArray,
) -> dict[str, FloatArray]:
    """Time of one layer and micro-batch by part [s], per plan."""
    times = pricing.layer(layer).take(of)
    found = exchanges.layer(layer, times)
    full, selective, modules = (
        lattice.recompute == RECOMPUTES.index(name) for name in ("full", "selective", "modules")
    )
    share = recomputed_share(job, lattice)
    whole = times.forward_s - pricing.costs.partial_recompute * times.last_matmul_s
    again_experts = modules & ("recomputed_experts" in job.features)
    modules_s = times.modules_s + (times.core_s if "recomputed_core" in job.features else 0.0)
    modules_s = modules_s + np.where(again_experts, times.experts_s, 0.0)
    again = np.where(selective, selectively_again_s(job, times), np.where(modules, modules_s, 0.0))
    again = share * np.where(full, whole, again) + times.tiled_s
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
        "expert_parallel_repeated": share * np.where(full | again_experts, found.expert_forward_s, 0.0),
        "hidden_forward": found.hidden_forward_s,
        "hidden_backward": found.hidden_backward_s + share * np.where(full, found.hidden_forward_s, 0.0),
    }


def selectively_again_s(job: TrainingJob, times: LayerTimes) -> FloatArray:
    """Time that selective recomputation of a layer repeats [s]: attention's core.

    torchtitan's saves every second multiplication and attention instead, and repeats all the rest.

    Source: Korthikanti et al. 2022, arXiv:2205.05198; pytorch/torchtitan, selective activation checkpointing ("op").
    """
    if job.framework != "torchtitan":
        return times.core_s
    return times.forward_s - times.core_s - 0.5 * times.matmul_forward_s


def recomputed_share(job: TrainingJob, lattice: PlanLattice) -> FloatArray:
    """Fraction of a stage's layers to which the plan's recomputation applies. Source: own definition."""
    per_stage = num_layers(job.model) / lattice.pipeline_parallel
    some = lattice.recompute_layers >= 0
    return np.where(some, np.minimum(1.0, lattice.recompute_layers / per_stage), 1.0)


def computed_sequence(job: TrainingJob, micro_batch: FloatArray) -> FloatArray:
    """Number of tokens of a sequence as they are computed: all of a packed one, else the longest of the micro-batch.

    min(sequence, mean (1 + spread sqrt(2 ln micro-batch))) and the learned tokens of prompt tuning

    Assumes: lengths spread by half of their mean, as instruction data does.
    Source: expected maximum of normal variables, leading order.
    """
    whole = np.full_like(micro_batch, job.computed_tokens, dtype=np.float64)
    if not job.mean_sequence_tokens:
        return whole
    longest = job.mean_sequence_tokens * (
        1.0 + common_term("length_spread") * np.sqrt(2.0 * np.log(micro_batch))
    )
    return np.minimum(whole, longest + job.virtual_tokens)


def _stage_layers(
    job: TrainingJob, lattice: PlanLattice, layers: list[dict[str, FloatArray]], head: dict[str, FloatArray]
) -> StageLayers:
    """Return times and parameters of the stage that takes longest, for each plan.

    Assumes: the stages that differ are those with other layers, with the input table, or with the head.
    Raises: InfeasibleError: a plan has more stages than layers.
    """
    shape = shape_of(job)
    times = {name: np.stack([layer[name] for layer in layers]) for name in layers[0]}
    per_layer = np.asarray(sum(seconds for name, seconds in times.items() if not name.startswith("hidden")))
    per_head = np.asarray(sum(head.values()))
    counts = np.zeros((len(layers), len(lattice)))
    others = np.zeros(len(lattice))
    has_embedding = np.zeros(len(lattice))
    has_head = np.zeros(len(lattice))
    keys, of = pipelines(lattice)
    for index, key in enumerate(keys):
        mask = np.flatnonzero(of == index)
        kinds = _kinds(stage_groups(shape, *key), key[-1])
        seconds = kinds[:, :-3] @ per_layer[:, mask] + kinds[:, -2:-1] * per_head[mask]
        busiest = np.argmax(seconds, axis=0)
        counts[:, mask] = kinds[busiest, :-3].T
        has_embedding[mask] = kinds[busiest, -3]
        has_head[mask] = kinds[busiest, -2]
        rest = kinds[:, -1] @ seconds - np.max(seconds, axis=0)
        others[mask] = np.maximum(0.0, rest) / max(key[0] - 1, 1)
    # A mirrored stage holds two parts of the model; a micro-batch passes one of them.
    mirrored = np.isin(lattice.schedule, [SCHEDULES.index(name) for name in MIRRORED])
    passed = np.where(mirrored, 0.5, 1.0)
    parts = {
        name: passed * (np.einsum("gn,gn->n", counts, value) + has_head * head.get(name, 0.0))
        for name, value in times.items()
    }
    for name in ("tensor_parallel", "context_parallel", "expert_parallel"):
        parts[f"{name}_backward"] = parts[f"{name}_backward"] + parts.pop(f"{name}_repeated")
    parameters = layer_parameters(shape, lattice.tensor_parallel, lattice.expert_ranks)
    tables = table_parameters(shape, lattice.tensor_parallel, has_embedding, has_head)
    holds_table = has_embedding + has_head > 0.0
    return StageLayers(
        parts=parts,
        others_s=passed * others,
        num_layers=passed * counts.sum(axis=0),
        parameters=StageParameters(
            np.einsum("gn,gn->n", counts, parameters.dense) + tables,
            np.einsum("gn,gn->n", counts, parameters.expert),
            _trained_fraction(job, shape.total),
            np.where(holds_table, shape.embedding / lattice.tensor_parallel, 0.0),
        ),
    )


def _trained_fraction(job: TrainingJob, total: float) -> float:
    if job.method == "full":
        return 1.0
    if job.trainable_parameters:
        return min(1.0, job.trainable_parameters / total)
    return min(1.0, 4.0 * job.lora_rank / job.model.hidden_size)


def _kinds(groups: IntArray, schedule: Schedule) -> FloatArray:
    """Return the distinct stages: layers of each group, whether it holds the input table and the head, how many are
    alike."""
    num_stages = len(groups)
    flags = [
        (holds_embedding(stage, num_stages, schedule), holds_head(stage, num_stages, schedule))
        for stage in range(num_stages)
    ]
    rows = np.hstack([groups, np.array(flags, dtype=np.int64)])
    distinct, alike = np.unique(rows, axis=0, return_counts=True)
    return np.hstack([distinct, alike[:, None]]).astype(np.float64)
