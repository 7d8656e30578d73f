"""Laws of the step that nothing else would notice broken: the head once, the slowest of n, unequal stages."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.polynomial.legendre import leggauss
from scipy.special import ndtr

from advisor.catalog import accelerators, models
from advisor.catalog.schema import Model
from advisor.simulator.training.cluster import NodeNetwork, TrainingCluster
from advisor.simulator.training.framework_costs import FrameworkCosts
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.memory import peak_memory
from advisor.simulator.training.memory.formats import shape_of
from advisor.simulator.training.passes import pass_times
from advisor.simulator.training.pipeline import ChunkTimes, run_schedule
from advisor.simulator.training.plan import PlanLattice, Schedule, Sharding, TrainingPlan
from advisor.simulator.training.step import StepColumns, step_time

H100 = TrainingCluster(accelerators.by_id("h100-sxm"))
LLAMA = models.get("llama-3.1-8b").record
COSTS = FrameworkCosts(launch_s=0.0, kernels_per_layer=0.0, pipeline_sync_s=0.0)
RANKS = (1, 2, 8, 64)
BATCH = 64
TOKENS = 4096


def step(model: Model, costs: FrameworkCosts = COSTS, **layout: object) -> StepColumns:
    plan = TrainingPlan(**layout)  # type: ignore[arg-type]
    return step_time(TrainingJob(model, TOKENS, BATCH), PlanLattice.of([plan]), H100, costs)


def busy_s(model: Model, **layout: object) -> float:
    """Forward and backward pass of all micro-batches of one rank."""
    found = step(model, **layout)
    return float(found.forward_s[0] + found.backward_s[0])


def with_words(number: int) -> Model:
    return LLAMA.model_copy(update={"vocab_size": number})


def test_all_ranks_together_multiply_with_the_head_once_per_token() -> None:
    """The second half of a doubled vocabulary costs 6 flop per weight and token, however the batch is dealt out."""
    words = LLAMA.vocab_size
    flop = 6.0 * words * LLAMA.hidden_size * BATCH * TOKENS
    peak = H100.accelerator.peak_flop_per_s["bf16"]
    together_s = [
        ranks
        * (
            busy_s(with_words(2 * words), data_parallel=ranks)
            - busy_s(with_words(words), data_parallel=ranks)
        )
        for ranks in RANKS
    ]
    assert together_s == pytest.approx([together_s[0]] * len(RANKS), rel=1e-6)
    assert 1.0 < together_s[0] * peak / flop < 1.8


@pytest.mark.parametrize(("sharding", "copies"), [("none", RANKS), ("zero3", (1,) * len(RANKS))])
def test_ranks_hold_the_head_once_each_or_once_together(sharding: Sharding, copies: tuple[int, ...]) -> None:
    words = LLAMA.vocab_size
    table_bytes = 2.0 * words * LLAMA.hidden_size
    for ranks, count in zip(RANKS, copies, strict=True):
        plan = PlanLattice.of([TrainingPlan(data_parallel=ranks, sharding=sharding)])
        more, less = (
            float(peak_memory(TrainingJob(with_words(number), TOKENS, BATCH), plan).weight_bytes[0])
            for number in (2 * words, words)
        )
        # Input table and head.
        assert ranks * (more - less) == pytest.approx(count * 2.0 * table_bytes)


def test_a_stage_exchanges_and_updates_the_head_once() -> None:
    words = LLAMA.vocab_size
    lattice = PlanLattice.of([TrainingPlan(data_parallel=ranks) for ranks in RANKS])
    more, less = (
        pass_times(
            TrainingJob(with_words(number), TOKENS, BATCH), lattice, H100, COSTS
        ).stages.parameters.dense
        for number in (2 * words, words)
    )
    assert (more - less).tolist() == pytest.approx([2.0 * words * LLAMA.hidden_size] * len(RANKS))


def test_one_accelerator_updates_every_parameter_once() -> None:
    for model in [m for m in models.all_models() if m.workload == "decoder" and m.layers]:
        job = TrainingJob(model, TOKENS, BATCH)
        held = pass_times(job, PlanLattice.of([TrainingPlan()]), H100, COSTS).stages.parameters
        assert float(held.dense[0] + held.expert[0]) == pytest.approx(shape_of(job).total, rel=1e-9)


def expected_largest(number: int) -> float:
    """Mean of the largest of so many standard normal deviates: ∫ (1 − Φⁿ) over x > 0 less ∫ Φⁿ over x < 0."""
    nodes, weights = leggauss(400)
    x = 5.0 * (nodes + 1.0)
    width = 5.0 * weights
    return float(np.sum(width * (1.0 - ndtr(x) ** number)) - np.sum(width * ndtr(-x) ** number))


@pytest.mark.parametrize("ranks", [8, 64, 1024, 16384])
def test_a_step_waits_for_the_slowest_of_its_ranks(ranks: int) -> None:
    """√(2 ln n) bounds the mean of the largest of n normal deviates from above, and exceeds it by about 1 / ln n."""
    spread = 0.01
    costs = replace(COSTS, straggler=spread)
    found = step(LLAMA, costs, tensor_parallel=2, data_parallel=ranks // 2, sharding="zero1")
    rest_s = float(found.step_s[0] - found.straggler_s[0])
    deviates = float(found.straggler_s[0]) / (spread * rest_s)
    excess = deviates / expected_largest(ranks) - 1.0
    assert 0.85 < excess * np.log(ranks) < 1.1


def test_one_rank_waits_for_nobody() -> None:
    assert step(LLAMA, replace(COSTS, straggler=0.5)).straggler_s[0] == 0.0


@pytest.mark.parametrize("stages", [2, 4, 8])
def test_a_slower_last_stage_waits_for_one_pass_through_the_others(stages: int) -> None:
    """1F1B, by hand: the last stage, longer by the head, starts after the forward passes of the others and ends before
    their backward passes: it idles for one forward and one backward pass of each other stage."""
    layer_s = (
        busy_s(with_layers(32), data_parallel=BATCH) - busy_s(with_layers(16), data_parallel=BATCH)
    ) / 16.0
    head_s = busy_s(with_layers(32), data_parallel=BATCH) - 32.0 * layer_s
    assert head_s > layer_s
    others_s = (stages - 1) * (32 // stages) * layer_s
    found = step(LLAMA, pipeline_parallel=stages)
    assert float(found.bubble_s[0]) == pytest.approx(others_s, rel=1e-6)
    per_stage = [32 // stages * layer_s / 3.0] * stages
    per_stage[-1] += head_s / 3.0
    run = run_schedule(
        "1f1b", stages, BATCH, ChunkTimes(tuple(per_stage), tuple(per_stage), tuple(per_stage))
    )
    last = run.slots[-1]
    assert run.makespan_s - run.busy_s[-1] == pytest.approx(others_s)
    assert last[0].start_at_s == pytest.approx(others_s / 3.0)


def with_layers(number: int) -> Model:
    return LLAMA.model_copy(update={"layers": (LLAMA.layers[0].model_copy(update={"count": number}),)})


@pytest.mark.parametrize("schedule", ["1f1b", "interleaved", "zbv", "dualpipe"])
@pytest.mark.parametrize("context", [1, 4, 8])
def test_no_schedule_is_faster_than_its_slowest_hop(schedule: Schedule, context: int) -> None:
    """Stages that share a node send on its fabric, but others do not; both ways of every micro-batch cross the network
    between two nodes, each rank with its own share of it."""
    rate = 0.2e9
    slow = TrainingCluster(accelerators.by_id("h100-sxm"), network=NodeNetwork(rate))
    job = TrainingJob(models.get("llama-3.1-8b").record, 8192, 64)
    chunks = {"interleaved": 2, "zbv": 2}.get(schedule, 1)
    plan = TrainingPlan(
        pipeline_parallel=16, virtual_stages=chunks, context_parallel=context, schedule=schedule
    )
    sent = 2.0 * chunks * 64 * 8192 / context * job.model.hidden_size * 2.0
    assert float(step_time(job, PlanLattice.of([plan]), slow).step_s[0]) >= sent / rate
