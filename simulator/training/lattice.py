"""Lattice of all plans that a job, a cluster size and a framework allow, as columns."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np

from advisor.catalog.schema import Model
from advisor.simulator.graph.model import layers_of, num_layers, routed_layers
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.plan import (
    RECOMPUTES,
    SCHEDULES,
    SHARDINGS,
    PlanLattice,
    Recompute,
    Schedule,
    Sharding,
)

_LEAST_TOKENS_PER_CONTEXT_RANK: Final = 1024
_MOST_TENSOR_PARALLEL: Final = 16
_MOST_CONTEXT_PARALLEL: Final = 64
_MOST_MICRO_BATCH: Final = 16
_MOST_VIRTUAL_STAGES: Final = 12


@dataclass(frozen=True, slots=True)
class LatticeLimits:
    """Limits of the enumeration: the values tried for each degree."""

    domain: int
    """Number of accelerators of one scale-up domain: tensor parallelism stays inside it."""
    tensor_parallel: tuple[int, ...] = ()
    """Degrees of tensor parallelism tried; empty: powers of two and the domain's width."""
    pipeline_parallel: tuple[int, ...] = ()
    """Numbers of stages tried; empty: every divisor of the accelerators up to the number of layers."""
    context_parallel: tuple[int, ...] = ()
    expert_parallel: tuple[int, ...] = ()
    micro_batch: tuple[int, ...] = ()
    recompute: tuple[Recompute, ...] = ("none", "selective", "full")
    recompute_shares: tuple[float, ...] = (1.0,)
    """Fractions of a stage's layers with full recomputation."""
    offloads_checkpoints: bool = False
    """Whether inputs of recomputed layers are in host memory."""
    sharding: tuple[Sharding, ...] = ("none", "zero1", "zero2", "zero3")
    cuts_with_fsdp: bool = False
    """Whether layers and sequences are cut only where ranks divide the states too (`states_allow_cuts`)."""
    schedules: tuple[Schedule, ...] = ("1f1b", "interleaved")
    shard_groups: tuple[int, ...] = (0,)
    offload: tuple[bool, ...] = (False,)
    """Choices of keeping optimizer states in host memory."""
    offload_parameters: tuple[bool, ...] = (False,)
    """Choices of keeping weights in host memory, streamed in for every pass."""
    data_parallel: tuple[int, ...] = ()
    """Degrees of data parallelism that are allowed; empty: any that is left."""
    virtual_stages: tuple[int, ...] = ()
    """Numbers of chunks per stage that are allowed; empty: 1, and up to twelve where they divide the layers."""
    expert_tensor_parallel: tuple[int, ...] = ()
    """Degrees of tensor parallelism inside experts that are allowed; empty: none, or that of the dense layers."""
    sequence_parallel: bool = True
    """Whether tensor ranks divide norms and residuals along the sequence."""
    are_stated: bool = False
    """Whether the user states degrees: then what divides is tried, whatever a rule of thumb would try."""


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """Properties of a model that bound its plans."""

    num_layers: int
    num_heads: int
    num_experts: int
    key_heads: frozenset[int]
    """Numbers of heads of keys and values, of attention that is not latent."""


def model_limits(model: Model) -> ModelLimits:
    """Return the number of layers, the common divisor of the attention heads, and the routed experts of a model.

    Source: definition.
    """
    attention = [layer.attention for layer in layers_of(model) if layer.attention is not None]
    heads = [one.num_heads for one in attention]
    experts = [experts.num_experts for _, experts in routed_layers(model)]
    return ModelLimits(
        num_layers=num_layers(model),
        num_heads=math.gcd(*heads) if heads else 1 << 20,
        num_experts=math.gcd(*experts) if experts else 0,
        key_heads=frozenset(one.num_kv_heads for one in attention if not one.latent),
    )


def enumerate_lattice(job: TrainingJob, num_accelerators: int, limits: LatticeLimits) -> PlanLattice:
    """Return all plans of exactly num_accelerators accelerators, before memory decides.

    Tensor parallelism divides the heads, divides those of keys or is a multiple of their number, and stays in a domain;
    stages divide the layers; context ranks divide the sequence in halves; expert ranks divide the experts and tensor ×
    context × data ranks; micro-batches divide the batch of a data-parallel rank; interleaved chunks divide a stage's
    layers and need micro-batches in multiples of the stages.

    Source: own enumeration; rules of Megatron-Core's argument checks and of the schedules' definitions.
    """
    shape = model_limits(job.model)
    blocks = []
    for tp, pp, cp in _dense_degrees(job, num_accelerators, limits, shape):
        dp = num_accelerators // (tp * pp * cp)
        if job.global_batch % dp or (limits.data_parallel and dp not in limits.data_parallel):
            continue
        micro_batches = [b for b in _micro_batches(limits) if job.global_batch // dp % b == 0]
        outer = _outer_layers(shape.num_layers, pp)
        experts = list(_expert_degrees(tp, cp, dp, limits, shape))
        for schedule, virtual in _schedules(pp, shape.num_layers, limits):
            fitting = [b for b in micro_batches if runs(schedule, pp, job.global_batch // dp // b)]
            if fitting:
                what = (experts, fitting, _recomputes(-(-shape.num_layers // pp), virtual, limits))
                blocks.append(_block((tp, pp, cp, dp), outer, (schedule, virtual), what, limits))
    return _join_blocks(blocks)


def _dense_degrees(
    job: TrainingJob, num_accelerators: int, limits: LatticeLimits, shape: ModelLimits
) -> Iterator[tuple[int, int, int]]:
    widest = min(limits.domain, _MOST_TENSOR_PARALLEL)
    tensor = limits.tensor_parallel or _powers_of_two(widest)
    fewest = 2 if limits.are_stated else _LEAST_TOKENS_PER_CONTEXT_RANK
    context = [
        c
        for c in limits.context_parallel or _powers_of_two(_MOST_CONTEXT_PARALLEL)
        if c == 1 or (job.sequence_tokens % (2 * c) == 0 and job.sequence_tokens // c >= fewest)
    ]
    stages = limits.pipeline_parallel or [p for p in _divisors(num_accelerators) if p <= shape.num_layers]
    for tp, cp, pp in product(tensor, context, stages):
        divides = num_accelerators % (tp * cp * pp) == 0 and shape.num_heads % tp == 0
        divides = divides and not (job.exchanges_heads and shape.num_heads % (tp * cp))
        divides = divides and not any(heads % tp and tp % heads for heads in shape.key_heads)
        dp = num_accelerators // (tp * pp * cp)
        # A plan that is stated is told which framework lacks it; a search leaves it out.
        if limits.cuts_with_fsdp and not limits.are_stated and not states_allow_cuts(tp, pp, cp, dp, "zero3"):
            continue
        if divides and pp <= shape.num_layers and tp <= limits.domain:
            yield tp, pp, cp


def states_allow_cuts(tp: int, pp: int, cp: int, dp: int, sharding: Sharding) -> bool:
    """Whether torchtitan and Accelerate run these degrees of parallelism with the states divided as `sharding`: tensor,
    pipeline and context parallelism need FSDP or DeepSpeed, which need several ranks that hold the same layers.

    In torchtitan DDP combines with none of them, and without FSDP nothing sets number formats: weights and products
    would be in fp32 (maybe_enable_amp).

    Source: pytorch/torchtitan 0.2.0, distributed/parallel_dims.py, models/llama3/infra/parallelize.py; accelerate
        1.15.0, parallelism_config.py and commands/launch.py (_validate_launch_command).
    """
    is_cut = max(tp, pp, cp) > 1
    return not is_cut or (sharding != "none" and dp * cp > 1)


def _outer_layers(num_layers: int, stages: int) -> int:
    """Number of layers of the first and last stage, if one fewer than on the others divides the rest evenly.

    Otherwise 0: all stages are equal, or late stages take a remainder.
    """
    if num_layers % stages and stages > 2 and (num_layers + 2) % stages == 0:
        return (num_layers + 2) // stages - 1
    return 0


def _schedules(stages: int, num_layers: int, limits: LatticeLimits) -> Iterator[tuple[Schedule, int]]:
    """Yield (schedule, chunks per stage) for `stages` stages, of the allowed numbers of chunks."""
    allowed = limits.virtual_stages
    yield from (
        (schedule, chunks)
        for schedule, chunks in _all_schedules(stages, num_layers, limits)
        if not allowed or chunks in allowed
    )


def _all_schedules(stages: int, num_layers: int, limits: LatticeLimits) -> Iterator[tuple[Schedule, int]]:
    if stages == 1:
        # A schedule that the user states orders stages, so that a plan without a pipeline does not have it.
        if "1f1b" in limits.schedules or not limits.are_stated:
            yield "1f1b", 1
        return
    most = num_layers if limits.are_stated else _MOST_VIRTUAL_STAGES
    for schedule in limits.schedules:
        if schedule == "interleaved":
            yield from ((schedule, chunks) for chunks in _chunks(num_layers, stages, most))
        elif schedule == "zbv":
            if num_layers % (2 * stages) == 0:
                yield schedule, 2
        elif schedule != "dualpipe" or stages % 2 == 0:
            yield schedule, 1


def _chunks(num_layers: int, stages: int, most: int) -> list[int]:
    """Return the numbers of chunks per stage up to `most`: equal chunks, or equal except the first and the last.

    The tables replace a layer of the first and of the last.

    Source: Megatron-Core, account_for_embedding_in_pipeline_split and account_for_loss_in_pipeline_split.
    """
    outer = 2 if _outer_layers(num_layers, stages) else 0
    if (num_layers + outer) % stages:
        return []
    per_stage = (num_layers + outer) // stages
    most = min(per_stage, most)
    return [chunks for chunks in _divisors(per_stage) if 1 < chunks <= most]


def runs(schedule: Schedule, stages: int, num_micro_batches: int) -> bool:
    """Whether a schedule exists for num_micro_batches micro-batches on `stages` stages.

    Source: as advisor.simulator.training.schedule_orders.order_of.
    """
    if schedule == "interleaved":
        return num_micro_batches % stages == 0
    if schedule == "dualpipe":
        return num_micro_batches % 2 == 0 and num_micro_batches >= 2 * stages
    return True


def _expert_degrees(
    tp: int, cp: int, dp: int, limits: LatticeLimits, shape: ModelLimits
) -> Iterator[tuple[int, int]]:
    """Yield (expert parallel, expert tensor parallel); ETP is either that of the dense layers or none."""
    if not shape.num_experts:
        yield 1, 0
        return
    wanted = limits.expert_parallel or _divisors(shape.num_experts)
    inside = limits.expert_tensor_parallel or sorted({1, tp})
    for ep, etp in product(wanted, inside):
        if (tp * cp * dp) % (ep * etp) == 0 and shape.num_experts % ep == 0:
            yield ep, etp


def _micro_batches(limits: LatticeLimits) -> tuple[int, ...]:
    return limits.micro_batch or tuple(_powers_of_two(_MOST_MICRO_BATCH))


def _recomputes(layers_per_stage: int, chunks: int, limits: LatticeLimits) -> list[tuple[int, int, int]]:
    """Return kinds of recomputation with recomputed layers of a stage, as many in each of its chunks (-1 is all of
    them), and whether their inputs are in host memory."""
    per_chunk = layers_per_stage / chunks
    found = []
    for recompute in limits.recompute:
        if recompute != "full":
            found.append((RECOMPUTES.index(recompute), -1, 0))
            continue
        layers = {round(share * per_chunk) for share in limits.recompute_shares}
        some = [-1 if number >= per_chunk else chunks * number for number in sorted(layers) if number]
        offloads = int(limits.offloads_checkpoints)
        found += [(RECOMPUTES.index("full"), number, offloads) for number in some]
    return found


_FIXED: Final = (
    "tensor_parallel",
    "pipeline_parallel",
    "context_parallel",
    "data_parallel",
    "schedule",
    "virtual_stages",
    "sequence_parallel",
    "first_stage_layers",
    "last_stage_layers",
)
_CHOSEN: Final = (
    ("expert_parallel", "expert_tensor_parallel"),
    ("micro_batch",),
    ("recompute", "recompute_layers", "offload_activations"),
    ("sharding", "offload_parameters"),
    ("shard_group",),
    ("offload_optimizer",),
)
"""Columns that are chosen together; the last ones change fastest."""
_Choices = Sequence[tuple[int, ...]]
_Block = tuple[tuple[int, ...], tuple[_Choices, ...]]
"""Plans that share their dense degrees and schedule: the fixed columns, and the choices, which all combine."""


def _block(
    degrees: tuple[int, int, int, int],
    outer: int,
    schedule: tuple[Schedule, int],
    what: tuple[_Choices, list[int], _Choices],
    limits: LatticeLimits,
) -> _Block:
    tp, _, cp, dp = degrees
    experts, micro_batches, recomputes = what
    alone = ("none", "zero3") if any(limits.offload_parameters) and any(limits.offload) else ("none",)
    shardings = [s for s in limits.sharding if s in alone or dp * cp > 1] or ["none"]
    if limits.cuts_with_fsdp:
        shardings = [s for s in shardings if states_allow_cuts(*degrees, s)] or shardings
    groups = [g for g in limits.shard_groups if g == 0 or (1 < g < dp * cp and dp * cp % g == 0)] or [0]
    # Weights in host memory are divided over the ranks: no framework keeps a whole copy there for each.
    held = [
        (SHARDINGS.index(sharding), int(streams))
        for sharding in shardings
        for streams in limits.offload_parameters
        if not streams or sharding == "zero3" or dp * cp == 1
    ]
    micro, group, offload = (
        [(int(value),) for value in values] for values in (micro_batches, groups, limits.offload)
    )
    fixed = (
        *degrees,
        SCHEDULES.index(schedule[0]),
        schedule[1],
        int(tp > 1 and limits.sequence_parallel),
        outer,
        outer,
    )
    return fixed, (experts, micro, recomputes, held, group, offload)


def _join_blocks(blocks: Sequence[_Block]) -> PlanLattice:
    """Return the plans of all blocks, one after the other; a block without one of its choices has no plans."""
    blocks = [(fixed, choices) for fixed, choices in blocks if all(choices)]
    if not blocks:
        return PlanLattice.of([])
    sizes = np.array([[len(options) for options in choices] for _, choices in blocks])
    counts = sizes.prod(axis=1)
    block = np.repeat(np.arange(len(blocks)), counts)
    place = np.arange(len(block)) - np.repeat(np.cumsum(counts) - counts, counts)
    columns = dict(zip(_FIXED, np.array([fixed for fixed, _ in blocks]).T[:, block], strict=True))
    for number, names in reversed(list(enumerate(_CHOSEN))):
        options = np.array([option for _, choices in blocks for option in choices[number]])
        first = np.cumsum(sizes[:, number]) - sizes[:, number]
        place, chosen = np.divmod(place, sizes[block, number])
        columns |= zip(names, options.T[:, first[block] + chosen], strict=True)
    return PlanLattice(**columns)


def _powers_of_two(largest: int) -> list[int]:
    return [1 << i for i in range(max(1, largest).bit_length())]


def _divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]
