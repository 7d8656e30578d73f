"""Laws that training memory must keep, whatever the plan; and the speed at which a lattice is accounted for."""

import time
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.catalog import models
from advisor.simulator.graph.training import expert_parameters, model_shape
from advisor.simulator.training.job import OPTIMIZERS, TrainingJob
from advisor.simulator.training.memory import MemoryColumns, peak_memory, stage_memory
from advisor.simulator.training.plan import SCHEDULES, PlanLattice, TrainingPlan

NAMES = ("llama-3.1-8b", "gpt-3-175b", "mixtral-8x7b", "deepseek-v3", "nemotron-h-56b", "qwen3-next-80b-a3b")
FAMILIES = ("megatron", "fsdp", "torchtitan", "deepspeed", "peft", "maxtext")

jobs = st.builds(
    lambda name, family, dtype, optimizer: TrainingJob(
        models.get(name).record, 2048, 512, compute_dtype=dtype, framework=family, optimizer=optimizer
    ),
    st.sampled_from(NAMES),
    st.sampled_from(FAMILIES),
    st.sampled_from(["bf16", "fp8", "nvfp4"]),
    st.sampled_from(OPTIMIZERS),
)
plans = st.builds(
    TrainingPlan,
    tensor_parallel=st.sampled_from([1, 2, 4]),
    pipeline_parallel=st.sampled_from([1, 2, 4, 5]),
    context_parallel=st.sampled_from([1, 2]),
    data_parallel=st.sampled_from([4, 8, 16]),
    expert_parallel=st.sampled_from([1, 4]),
    micro_batch=st.sampled_from([1, 2]),
    sharding=st.sampled_from(["none", "zero1", "zero2", "zero3"]),
    recompute=st.sampled_from(["none", "selective", "full"]),
    schedule=st.sampled_from(SCHEDULES),
    offload_optimizer=st.booleans(),
)


def memory(job: TrainingJob, *chosen: TrainingPlan) -> MemoryColumns:
    return peak_memory(job, PlanLattice.of(chosen))


def states(job: TrainingJob, plan: TrainingPlan) -> float:
    return sum(
        max(i.weight_bytes + i.gradient_bytes + i.optimizer_bytes for i in stage.instants)
        for stage in stage_memory(job, plan)
    )


@settings(deadline=None)
@given(jobs, plans)
def test_parts_add_up_and_the_peak_is_above_them(job: TrainingJob, plan: TrainingPlan) -> None:
    found = memory(job, plan)
    parts = (
        found.weight_bytes
        + found.gradient_bytes
        + found.optimizer_bytes
        + found.activation_bytes
        + found.loss_bytes
        + found.workspace_bytes
        + found.buffer_bytes
    )
    assert parts[0] == pytest.approx(found.allocated_bytes[0])
    assert 0 < found.allocated_bytes[0] < found.reserved_bytes[0] < found.peak_bytes[0]


@settings(deadline=None)
@given(jobs, plans)
def test_more_sharding_never_holds_more_states(job: TrainingJob, plan: TrainingPlan) -> None:
    if job.framework == "peft":
        # Accumulates whole gradients where it shards: see `accumulates_whole_gradients`.
        job = replace(job, global_batch=plan.data_parallel * plan.micro_batch)
    held = [states(job, replace(plan, sharding=sharding)) for sharding in ("none", "zero1", "zero2", "zero3")]
    assert held == sorted(held, reverse=True)


@settings(deadline=None)
@given(jobs, plans)
def test_more_recomputation_never_keeps_more(job: TrainingJob, plan: TrainingPlan) -> None:
    kept = [
        [
            stage.instants[0].activation_bytes
            for stage in stage_memory(job, replace(plan, recompute=recompute))
        ]
        for recompute in ("full", "selective", "none")
    ]
    assert np.all(np.diff(np.array(kept), axis=0) >= -1e-6)


@settings(deadline=None)
@given(jobs, plans, st.integers(0, 12))
def test_recomputing_fewer_layers_keeps_no_less(job: TrainingJob, plan: TrainingPlan, layers: int) -> None:
    full = replace(plan, recompute="full")
    order = [
        stage_memory(job, replace(full, recompute_layers=count))[0].instants[0].activation_bytes
        for count in (-1, layers + 1, layers, 0)
    ]
    assert all(fewer >= more * (1 - 1e-9) for more, fewer in pairwise(order))
    everything = stage_memory(job, replace(plan, recompute="none"))[0].instants[0].activation_bytes
    assert order[-1] == pytest.approx(everything)


@settings(deadline=None)
@given(jobs, plans)
def test_memory_grows_with_the_micro_batch_and_the_sequence(job: TrainingJob, plan: TrainingPlan) -> None:
    found = memory(job, plan, replace(plan, micro_batch=2 * plan.micro_batch))
    longer = memory(replace(job, sequence_tokens=2 * job.sequence_tokens), plan)
    if plan.data_parallel * plan.micro_batch * 2 < job.global_batch / 16:
        assert found.peak_bytes[1] >= found.peak_bytes[0]
    assert longer.peak_bytes[0] >= found.peak_bytes[0]


@settings(deadline=None)
@given(jobs, plans)
def test_more_context_parallelism_never_keeps_more(job: TrainingJob, plan: TrainingPlan) -> None:
    one = stage_memory(job, replace(plan, context_parallel=1))[0].instants[0]
    two = stage_memory(job, replace(plan, context_parallel=2))[0].instants[0]
    assert two.activation_bytes == pytest.approx(one.activation_bytes / 2)


@settings(deadline=None)
@given(jobs, plans)
def test_offloading_never_takes_more(job: TrainingJob, plan: TrainingPlan) -> None:
    here, states_away, activations_away = memory(
        job,
        replace(plan, offload_optimizer=False),
        replace(plan, offload_optimizer=True),
        replace(plan, offload_optimizer=False, offload_activations=True),
    ).peak_bytes
    assert states_away <= here
    assert activations_away <= here


@settings(deadline=None)
@given(
    st.sampled_from(["llama-3.1-8b", "mixtral-8x7b", "deepseek-v3"]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from(["1f1b", "interleaved", "zbv", "dualpipe"]),
)
def test_ranks_hold_the_model_s_weights(name: str, tensor: int, stages: int, schedule: Any) -> None:
    """Once per data-parallel copy; norms, routers and latent projections on every tensor-parallel rank.

    The models have separate tables: a tied one is held by the first and the last stage.
    """
    job = TrainingJob(models.get(name).record, 2048, 512)
    chunks = 2 if schedule == "interleaved" else 1
    plan = TrainingPlan(
        tensor_parallel=tensor, pipeline_parallel=stages, virtual_stages=chunks, schedule=schedule
    )
    held = sum(stage.instants[0].weight_bytes for stage in stage_memory(job, plan)) * tensor / 2.0
    shape = model_shape(job.model)
    degree = np.array([float(tensor)])
    layers = sum(
        layer.count * (tensor * float(shape.dense(layer, degree)[0]) + expert_parameters(layer))
        for layer in shape.layers
    )
    copies = 2 if schedule == "dualpipe" else 1
    # A mirrored pipeline of one stage holds the tables once.
    tables = shape.embedding + shape.head if copies == 2 and stages == 1 else 0.0
    outside = shape.embedding + shape.head + shape.extra + tensor * shape.hidden
    expected = copies * (layers + outside) - tables
    assert held == pytest.approx(expected, rel=1e-3)


@settings(deadline=None)
@given(jobs, st.lists(plans, min_size=1, max_size=6))
def test_a_lattice_answers_as_its_plans_one_by_one(job: TrainingJob, chosen: list[TrainingPlan]) -> None:
    together = memory(job, *chosen).peak_bytes
    alone = [memory(job, plan).peak_bytes[0] for plan in chosen]
    stagewise = [max(stage.peak_bytes for stage in stage_memory(job, plan)) for plan in chosen]
    assert together.tolist() == pytest.approx(alone)
    assert together.tolist() == pytest.approx(stagewise)


def test_hundred_thousand_plans_take_less_than_a_second() -> None:
    count = 100_000
    draw = np.random.default_rng(7)
    columns = {name: np.zeros(count, dtype=np.int64) for name in PlanLattice.__dataclass_fields__}
    for name, values in {
        "tensor_parallel": (1, 2, 4, 8),
        "pipeline_parallel": (1, 2, 4, 8, 16),
        "virtual_stages": (1, 2),
        "context_parallel": (1, 2, 4),
        "expert_parallel": (1,),
        "data_parallel": (8, 16, 32, 64),
        "micro_batch": (1, 2, 4),
        "sharding": (0, 1, 2, 3),
        "recompute": (0, 1, 2),
        "schedule": (1, 2),
        "sequence_parallel": (1,),
    }.items():
        columns[name] = draw.choice(np.array(values, dtype=np.int64), count)
    columns["recompute_layers"] -= 1
    lattice = PlanLattice(**columns)
    job = TrainingJob(models.get("gpt-3-175b").record, 2048, 1536)
    peak_memory(job, lattice.take(np.arange(10)))
    started = time.process_time()
    found = peak_memory(job, lattice)
    assert time.process_time() - started < 1.0
    assert len(found) == count
    assert np.isfinite(found.peak_bytes).all()


@pytest.mark.parametrize("name", ["mixtral-8x7b", "gpt-oss-20b", "qwen3-30b-a3b"])
def test_qlora_packs_all_but_routed_experts(name: str) -> None:
    """bitsandbytes packs linear layers; Transformers has the experts of a layer as one tensor."""
    job = TrainingJob(models.get(name).record, 1024, 8, method="lora", lora_rank=16, framework="peft")
    wide, packed = (
        float(peak_memory(each, PlanLattice.of([TrainingPlan()])).weight_bytes[0])
        for each in (job, replace(job, method="qlora"))
    )
    routed = sum(layer.count * expert_parameters(layer) for layer in model_shape(job.model).layers)
    assert 2.0 * routed < packed < wide
