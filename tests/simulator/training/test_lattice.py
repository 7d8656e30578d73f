"""The lattice of plans: complete against brute force, every plan valid, and what is refused with which hint."""

import itertools
from dataclasses import replace

import pytest

from advisor.catalog import models
from advisor.catalog.errors import InfeasibleError
from advisor.simulator.graph.training import model_shape
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.lattice import LatticeLimits, enumerate_lattice, model_limits
from advisor.simulator.training.plan import SCHEDULES, TrainingPlan
from advisor.simulator.training.plan_check import check_plan, distances, faults, plan_words
from advisor.simulator.training.stages import stage_groups

DENSE = TrainingJob(models.get("llama-3.1-8b").record, 8192, 48)
MIXTURE = TrainingJob(models.get("mixtral-8x7b").record, 4096, 64)


@pytest.mark.parametrize(("job", "count"), [(DENSE, 8), (DENSE, 24), (MIXTURE, 16)])
def test_every_plan_is_valid_and_uses_all_accelerators(job: TrainingJob, count: int) -> None:
    lattice = enumerate_lattice(job, count, LatticeLimits(8, schedules=SCHEDULES))
    assert len(lattice) > 100
    assert set(lattice.num_accelerators) == {count}
    seen = set()
    for row in range(0, len(lattice), 7):
        plan = lattice.plan(row)
        check_plan(plan, job, 8)
        seen.add(plan)
    assert len(seen) == len(range(0, len(lattice), 7))


@pytest.mark.parametrize("degree", [2, 3, 8])
def test_a_stated_degree_of_experts_leaves_the_plans_that_have_it_or_none(degree: int) -> None:
    limits = LatticeLimits(8, expert_parallel=(degree,))
    for count in (1, 2, 3, 4, 8, 16):
        lattice = enumerate_lattice(MIXTURE, count, limits)
        assert {lattice.plan(row).expert_parallel for row in range(len(lattice))} <= {degree}
        assert len(lattice) == 0 or count % degree == 0


def test_nothing_is_left_out_of_a_small_lattice() -> None:
    """Brute force over all degrees, with the rules as check_plan states them."""
    count = 8
    limits = LatticeLimits(8, sharding=("none",), recompute=("none",), schedules=("1f1b", "interleaved"))
    found = enumerate_lattice(MIXTURE, count, limits)
    plans = {found.plan(row) for row in range(len(found))}
    expected = set()
    degrees = [d for d in itertools.product((1, 2, 4, 8), repeat=3) if count % (d[0] * d[1] * d[2]) == 0]
    for (tp, pp, cp), vpp, ep, etp, micro in itertools.product(
        degrees, range(1, 13), (1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8, 16)
    ):
        if etp not in (1, tp) or 4096 // cp < 1024 or (pp == 1 and vpp > 1):
            continue
        if model_limits(MIXTURE.model).num_layers % (
            pp * vpp
        ):  # runs where it is stated, but is not looked for
            continue
        plan = TrainingPlan(
            tensor_parallel=tp,
            pipeline_parallel=pp,
            context_parallel=cp,
            virtual_stages=vpp,
            micro_batch=micro,
            data_parallel=count // (tp * pp * cp),
            expert_parallel=ep,
            expert_tensor_parallel=etp,
            schedule="interleaved" if vpp > 1 else "1f1b",
            sequence_parallel=tp > 1,
        )
        if (tp * cp * plan.data_parallel) % (ep * etp) == 0 and not list(faults(plan, MIXTURE, 8)):
            expected.add(plan)
    assert plans == expected


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"tensor_parallel": 3}, "attention heads"),
        ({"tensor_parallel": 16}, "spans machines"),
        ({"pipeline_parallel": 64}, "64 stages for 32 layers"),
        ({"pipeline_parallel": 4, "virtual_stages": 9, "schedule": "interleaved"}, "chunks"),
        (
            {"pipeline_parallel": 4, "virtual_stages": 2, "schedule": "gpipe"},
            "2 chunks per stage in the schedule gpipe",
        ),
        ({"context_parallel": 3}, "does not divide 8192 tokens"),
        ({"data_parallel": 5}, "not a multiple of DP 5"),
        ({"data_parallel": 2, "micro_batch": 32}, "not a multiple of DP 2"),
        ({"expert_parallel": 4}, "without experts"),
        (
            {"pipeline_parallel": 4, "virtual_stages": 2, "schedule": "interleaved", "data_parallel": 24},
            "does not run",
        ),
    ],
)
def test_a_plan_that_cannot_run_is_refused_by_its_part(change: dict[str, int], part: str) -> None:
    with pytest.raises(InfeasibleError) as error:
        check_plan(replace(TrainingPlan(), **change), DENSE, 8)
    assert part in error.value.what


@pytest.mark.parametrize(
    ("stages", "chunks", "outer"),
    [(8, 8, 0), (8, 8, 15), (16, 4, 7)],
    ids=["NVIDIA, 64 chunks", "the same stated", "Meta"],
)
def test_the_tables_stand_in_for_a_layer_of_126(stages: int, chunks: int, outer: int) -> None:
    """Published pipelines of Llama 3.1 405B: one layer fewer on the first and the last stage, in chunks too."""
    shape = model_shape(models.get("llama-3.1-405b").record)
    layers = stage_groups(shape, stages, chunks, outer, outer, "interleaved").sum(axis=1)
    assert layers.tolist() == [128 // stages - 1] + [128 // stages] * (stages - 2) + [128 // stages - 1]
    limits = LatticeLimits(8, tensor_parallel=(8,), pipeline_parallel=(stages,), schedules=("interleaved",))
    job = TrainingJob(models.get("llama-3.1-405b").record, 8192, 2048)
    found = enumerate_lattice(job, 16384, limits)
    assert chunks in found.virtual_stages
    assert set(found.first_stage_layers) == {128 // stages - 1}


def test_expert_faults() -> None:
    for change, part in (({"expert_parallel": 3}, "8 experts"), ({"expert_parallel": 8}, "does not divide")):
        with pytest.raises(InfeasibleError, match=part):
            check_plan(replace(TrainingPlan(data_parallel=4), **change), MIXTURE, 8)


def test_the_nearest_plan_is_itself_where_it_is_valid() -> None:
    lattice = enumerate_lattice(DENSE, 8, LatticeLimits(8))
    for row in (0, len(lattice) // 3, len(lattice) - 1):
        assert distances(lattice.plan(row), lattice)[row] == 0.0


def test_model_limits() -> None:
    assert model_limits(MIXTURE.model).num_experts == 8
    assert model_limits(DENSE.model) == type(model_limits(DENSE.model))(32, 32, 0, frozenset({8}))


def test_words() -> None:
    plan = TrainingPlan(
        8, 16, 6, data_parallel=8, sharding="zero1", recompute="selective", schedule="interleaved"
    )
    assert plan_words(plan) == "TP8 PP16 VPP6 DP8, micro-batch 1, zero1, selective recomputation, interleaved"
