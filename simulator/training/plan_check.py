"""Checks of stated plans: why one cannot run, how far others are from it, and a plan in words."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.errors import InfeasibleError
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.lattice import ModelLimits, model_limits, runs
from advisor.simulator.training.plan import PlanLattice, TrainingPlan
from advisor.simulator.training.schedule_orders import CHUNKS
from advisor.simulator.training.stages import chunk_sizes, tables_as_layers


def distances(plan: TrainingPlan, lattice: PlanLattice) -> NDArray[np.float64]:
    """Return how far each plan of a lattice is from a wanted one.

    Distance: Σ |log2(degree / wanted degree)| over degrees and micro-batch, plus one for each other setting
    that differs.

    Source: own definition.
    """
    wanted = PlanLattice.of([plan])
    distance = np.zeros(len(lattice))
    for name in (
        "tensor_parallel",
        "pipeline_parallel",
        "virtual_stages",
        "context_parallel",
        "expert_parallel",
        "data_parallel",
        "micro_batch",
    ):
        ratio = getattr(lattice, name) / max(1, int(getattr(wanted, name)[0]))
        distance += np.abs(np.log2(ratio))
    for name in ("sharding", "recompute", "schedule", "offload_optimizer"):
        distance += getattr(lattice, name) != getattr(wanted, name)[0]
    return distance


def check_plan(plan: TrainingPlan, job: TrainingJob, domain: int) -> None:
    """Refuse a stated plan that no launcher would accept.

    Raises: InfeasibleError: a degree does not divide the quantity it splits, or there is nothing for it to divide.
    Source: the rules of enumerate_lattice.
    """
    found = next(faults(plan, job, domain), None)
    if found is None:
        return
    what, why = found
    fix = "change the degrees so that they divide"
    if plan.tensor_parallel > domain:
        fix = f"--tp {domain}, or --gpus-per-node if your nodes are larger"
    raise InfeasibleError(what, why=why, fix=fix)


def faults(plan: TrainingPlan, job: TrainingJob, domain: int) -> Iterator[tuple[str, str]]:
    """Yield every rule that a plan breaks, as (what, why).

    Source: the rules of enumerate_lattice.
    """
    shape = model_limits(job.model)
    if shape.num_heads % plan.tensor_parallel:
        yield (
            f"TP {plan.tensor_parallel} does not divide {shape.num_heads} attention heads",
            "each rank holds whole heads",
        )
    elif job.exchanges_heads and shape.num_heads % (plan.tensor_parallel * plan.context_parallel):
        yield (
            f"CP {plan.context_parallel} does not divide {shape.num_heads} attention heads",
            "Ulysses gives each context rank whole heads",
        )
    if plan.tensor_parallel > domain:
        yield f"TP {plan.tensor_parallel} spans machines", f"the fast fabric joins {domain} accelerators"
    parts = plan.pipeline_parallel * plan.virtual_stages
    if tables_as_layers(shape.num_layers, parts):
        pass
    elif plan.pipeline_parallel > shape.num_layers:
        yield (
            f"{plan.pipeline_parallel} stages for {shape.num_layers} layers",
            "every pipeline stage holds at least one layer",
        )
    elif shape.num_layers < parts:
        yield (
            f"{shape.num_layers} layers for {plan.pipeline_parallel} stages × {plan.virtual_stages} chunks",
            "every chunk holds at least one layer",
        )
    else:
        yield from _end_faults(plan, shape.num_layers)
    if plan.pipeline_parallel == 1 and (plan.virtual_stages > 1 or plan.schedule != "1f1b"):
        schedule = (
            f"{plan.virtual_stages} chunks" if plan.virtual_stages > 1 else f"the schedule {plan.schedule}"
        )
        yield f"{schedule} on one stage", "chunks and schedules order the stages of a pipeline: PP 2 or more"
    chunks = CHUNKS.get(plan.schedule, 1)
    if plan.virtual_stages > 1 and plan.schedule != "interleaved" and plan.virtual_stages != chunks:
        yield (
            f"{plan.virtual_stages} chunks per stage in the schedule {plan.schedule}",
            f"it has {chunks}; chunks of a number of one's own are what interleaved is for",
        )
    if plan.context_parallel > 1 and job.sequence_tokens % (2 * plan.context_parallel):
        yield (
            f"CP {plan.context_parallel} does not divide {job.sequence_tokens} tokens",
            "a sequence is cut into two pieces per rank to balance causal attention",
        )
    yield from _expert_faults(plan, shape)
    per_pass = plan.data_parallel * plan.micro_batch
    if job.global_batch % per_pass:
        yield (
            f"a batch of {job.global_batch} sequences is not a multiple of DP {plan.data_parallel} × micro-batch "
            f"{plan.micro_batch}",
            f"every rank runs whole micro-batches; {max(1, job.global_batch // per_pass) * per_pass} would divide",
        )
    elif (
        not runs(plan.schedule, plan.pipeline_parallel, job.global_batch // per_pass)
        and plan.pipeline_parallel > 1
    ):
        yield (
            f"{plan.schedule} does not run {job.global_batch // per_pass} micro-batches on "
            f"{plan.pipeline_parallel} stages",
            "interleaved needs multiples of the stages, DualPipe even numbers and two per stage",
        )


def _end_faults(plan: TrainingPlan, num_layers: int) -> Iterator[tuple[str, str]]:
    """Yield the rule that the layers stated for the first and the last stage break, as (what, why)."""
    ends = (plan.first_stage_layers, plan.last_stage_layers)
    try:
        chunk_sizes(num_layers, plan.pipeline_parallel, plan.virtual_stages, *ends)
    except InfeasibleError as error:
        yield error.what, error.why


def _expert_faults(plan: TrainingPlan, shape: ModelLimits) -> Iterator[tuple[str, str]]:
    ep = plan.expert_parallel
    etp = plan.expert_tensor_parallel or plan.tensor_parallel
    if not shape.num_experts and max(ep, plan.expert_tensor_parallel) > 1:
        degree = f"EP {ep}" if ep > 1 else f"ETP {etp}"
        yield f"{degree} for a model without experts", "expert parallelism divides the experts of a mixture"
    elif ep == 1:
        return
    elif shape.num_experts % ep:
        yield f"EP {ep} does not divide {shape.num_experts} experts", "every rank holds whole experts"
    elif (plan.tensor_parallel * plan.context_parallel * plan.data_parallel) % (ep * etp):
        ranks = plan.tensor_parallel * plan.context_parallel * plan.data_parallel
        yield (
            f"EP {ep} × ETP {etp} does not divide {ranks} ranks of a stage",
            "experts divide tensor × context × data ranks",
        )


def plan_words(plan: TrainingPlan) -> str:
    """Return a plan in words: `TP8 PP16 VPP6 DP8, micro-batch 1, zero1, selective recomputation, interleaved`.

    Source: own definition.
    """
    degrees = [
        ("TP", plan.tensor_parallel),
        ("PP", plan.pipeline_parallel),
        ("VPP", plan.virtual_stages),
        ("CP", plan.context_parallel),
        ("EP", plan.expert_parallel),
        ("ETP", _stated_tensor_of_experts(plan)),
        ("DP", plan.data_parallel),
    ]
    words = [
        f"{name}{value}" for name, value in degrees if value > 1 or name == "DP" or (name == "ETP" and value)
    ]
    parts = [" ".join(words), f"micro-batch {plan.micro_batch}"]
    if plan.sharding != "none":
        parts.append(
            f"{plan.sharding} in groups of {plan.shard_group}" if plan.shard_group else plan.sharding
        )
    if plan.recompute != "none":
        layers = f" of {plan.recompute_layers} layers" if plan.recompute_layers > 0 else ""
        parts.append(f"{plan.recompute} recomputation{layers}")
    if plan.pipeline_parallel > 1:
        parts.append(plan.schedule)
    states = (
        ("optimizer", plan.offload_optimizer),
        ("weights", plan.offload_parameters),
        ("activations", plan.offload_activations),
    )
    if offloaded := [name for name, is_there in states if is_there]:
        parts.append(f"{' and '.join(offloaded)} in host memory")
    return ", ".join(parts)


def _stated_tensor_of_experts(plan: TrainingPlan) -> int:
    """Degree of tensor parallelism inside experts where it is not that of the dense layers; 0 where it is."""
    inside = plan.expert_tensor_parallel
    return inside if plan.expert_parallel > 1 and inside != plan.tensor_parallel else 0
