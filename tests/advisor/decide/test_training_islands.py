"""One job over two unlike clusters: against one cluster of all, against the wire, and how work is divided."""

from dataclasses import replace

import pytest

from advisor.catalog import accelerators, models
from advisor.catalog.errors import InfeasibleError
from advisor.decide.training.islands import Across, Islands, IslandsFound, over_islands
from advisor.decide.training.search import evaluate_plan, simulate_pipeline
from advisor.simulator.training.cluster import TrainingCluster
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.plan import TrainingPlan

H100, A100 = (TrainingCluster(accelerators.by_id(name)) for name in ("h100-sxm", "a100-sxm-80gb"))
JOB = TrainingJob(models.get("llama-3.1-70b").record, 8192, 256)
PLAN = TrainingPlan(8, 4, data_parallel=8, sharding="zero1")
WIDE = 1e15


def _plan_islands(
    second: TrainingCluster, rate: float, across: Across, plan: TrainingPlan = PLAN
) -> IslandsFound:
    return over_islands(JOB, Islands((H100, second), (128, 128), rate), plan, across)


@pytest.mark.parametrize("across", ["dp", "pp"])
def test_two_like_halves_on_a_wide_link_are_one_cluster(across: Across) -> None:
    whole = simulate_pipeline(evaluate_plan(JOB, H100, PLAN))
    found = _plan_islands(H100, WIDE, across)
    # Stages on both sides may leave the half with the head a layer or two fewer.
    slack = 0.0 if across == "dp" else 0.01
    assert (1.0 - slack) * whole.step_s <= found.found.step_s * 1.0001 <= 1.005 * whole.step_s
    assert found.uneven is None
    assert not found.stage_layers or max(found.stage_layers) - min(found.stage_layers) <= 2


@pytest.mark.parametrize("across", ["dp", "pp"])
def test_a_thinner_link_is_never_faster_and_never_faster_than_its_wire(across: Across) -> None:
    steps = [_plan_islands(A100, rate, across).found.step_s for rate in (WIDE, 1e11, 1e10, 1e9)]
    assert steps == sorted(steps)
    # fp32 gradients over it once, parameters in 16 bits back; or the activations of every micro-batch, each way.
    bytes_of = {"dp": 70.6e9 * (4.0 + 2.0) * 0.8, "pp": 256 * 8192 * 8192 * 2.0}
    assert steps[-1] > bytes_of[across] / 1e9


def test_replicas_wait_for_the_slower_part_and_an_uneven_batch_would_not() -> None:
    found = _plan_islands(A100, WIDE, "dp")
    slow = simulate_pipeline(evaluate_plan(JOB, A100, PLAN))
    assert found.found.step_s == pytest.approx(slow.step_s, rel=0.02)
    assert found.uneven is not None
    fast_rounds, slow_rounds, seconds = found.uneven
    assert fast_rounds + slow_rounds == 2 * 256 // 8
    assert fast_rounds > 2 * slow_rounds
    assert seconds < 0.7 * found.found.step_s


def test_the_faster_part_holds_more_layers_and_the_step_lies_between_those_of_either() -> None:
    found = _plan_islands(A100, 1e11, "pp")
    layers = found.stage_layers
    assert sum(layers) == 80
    assert sum(layers[:2]) > 2 * sum(layers[2:])
    fast, slow = (simulate_pipeline(evaluate_plan(JOB, cluster, PLAN)).step_s for cluster in (H100, A100))
    assert fast < found.found.step_s < slow
    even = 2.0 / (1.0 / fast + 1.0 / slow)
    assert found.found.step_s == pytest.approx(even, rel=0.15), "work is divided by speed"
    assert [row.stage for row in found.memory] == [0, 1, 2, 3]


def test_without_a_wish_the_faster_way_is_taken() -> None:
    islands = Islands((H100, A100), (128, 128), 1e11)
    both = [over_islands(JOB, islands, PLAN, across).found.step_s for across in ("dp", "pp")]
    assert over_islands(JOB, islands, PLAN, None).found.step_s == min(both)


@pytest.mark.parametrize(
    ("changed", "across", "what"),
    [
        ({"pipeline_parallel": 1, "data_parallel": 32}, "pp", "need a pipeline"),
        ({"schedule": "interleaved", "virtual_stages": 2}, "pp", "interleaved would cross"),
        ({"first_stage_layers": 19}, "pp", "first or last stage"),
        ({"pipeline_parallel": 8, "tensor_parallel": 4, "context_parallel": 8}, "dp", "no whole number"),
    ],
)
def test_what_does_not_divide_is_refused(changed: dict[str, object], across: Across, what: str) -> None:
    with pytest.raises(InfeasibleError, match=what) as refused:
        _plan_islands(A100, 1e11, across, replace(PLAN, **changed))
    assert refused.value.fix


def test_stages_that_straddle_the_link_are_refused_with_a_number_that_works() -> None:
    islands = Islands((H100, A100), (64, 128), 1e11)
    job = replace(JOB, global_batch=192)
    with pytest.raises(InfeasibleError, match="no whole number of stages of 48") as refused:
        over_islands(job, islands, replace(PLAN, data_parallel=6), "pp")
    assert refused.value.fix.startswith("--pp 3,")
    found = over_islands(job, islands, replace(PLAN, pipeline_parallel=3), "pp")
    assert len(found.stage_layers) == 3


def test_experts_stay_in_a_part() -> None:
    job = TrainingJob(models.get("mixtral-8x7b").record, 4096, 64)
    islands = Islands((H100, A100), (4, 12), 1e11)
    with pytest.raises(InfeasibleError, match="EP 8 does not stay"):
        over_islands(job, islands, TrainingPlan(expert_parallel=8, data_parallel=16), "dp")
