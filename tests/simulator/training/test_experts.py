"""Routed experts in training: products of a fixed capacity, libraries that move tokens, what surrounds the products."""

from dataclasses import replace

import numpy as np
import pytest

from advisor.catalog import accelerators, models
from advisor.catalog.schema import Model
from advisor.simulator.collectives import all_gather_s
from advisor.simulator.collectives.expert_parallel import distinct_holders, moe_combine_s, moe_dispatch_s
from advisor.simulator.device import device_of
from advisor.simulator.graph.model import layers_of
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.training import step_layers
from advisor.simulator.training.cluster import Groups, TrainingCluster
from advisor.simulator.training.framework_costs import common_term, framework_costs
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.passes import _slices
from advisor.simulator.training.plan import PlanLattice, TrainingPlan
from advisor.simulator.training.step import StepColumns, slow_host_factor, step_time
from advisor.simulator.training.step_exchange import Exchanges
from advisor.simulator.training.step_host import launch_times

MIXTURE = TrainingJob(models.get("qwen3-30b-a3b").record, 4096, 256)
OSS = TrainingJob(models.get("gpt-oss-20b").record, 4096, 256)
RACK, BOX = (TrainingCluster(accelerators.by_id(card)) for card in ("gb200", "h100-sxm"))


def step_columns(
    job: TrainingJob, cluster: TrainingCluster = RACK, ranks: int = 32, **costs: float
) -> StepColumns:
    plan = TrainingPlan(data_parallel=ranks, expert_parallel=min(ranks, 32), sharding="zero1")
    known = framework_costs(job, cluster.accelerator.architecture)
    return step_time(job, PlanLattice.of([plan]), cluster, replace(known, **costs))


def by(job: TrainingJob, *features: str) -> TrainingJob:
    return replace(job, features=frozenset(features))


@pytest.mark.parametrize(
    ("name", "micro_batch", "experts", "tokens_per_s"),
    [("mixtral-8x7b", 12, 1, 3896.752), ("mixtral-8x22b", 8, 4, 1326.307)],
)
def test_mixtral_on_256_tpus_runs_as_published(
    name: str, micro_batch: int, experts: int, tokens_per_s: float
) -> None:
    """AI-Hypercomputer/tpu-recipes, training/trillium: Mixtral-8x7B- and Mixtral-8x22B-MaxText, bf16, dropped."""
    job = TrainingJob(models.get(name).record, 4096, 256 * micro_batch, framework="maxtext")
    plan = TrainingPlan(
        data_parallel=256,
        expert_parallel=experts,
        sharding="zero3",
        micro_batch=micro_batch,
        recompute="full",
    )
    cluster = TrainingCluster(accelerators.by_id("tpu-v6e"))
    step = step_time(job, PlanLattice.of([plan]), cluster)
    assert job.tokens_per_step / 256 / step.step_s[0] == pytest.approx(tokens_per_s, rel=0.2)


def test_experts_of_a_capacity_compute_all_of_it() -> None:
    once, twice = (step_columns(MIXTURE, expert_capacity=capacity) for capacity in (1.25, 2.5))
    none = step_columns(MIXTURE, expert_capacity=1e-6)
    added = (twice.forward_s[0] - none.forward_s[0]) / (once.forward_s[0] - none.forward_s[0])
    assert added == pytest.approx(2.0, rel=0.25)
    experts = (
        48 * 3 * 2048 * 768 * 8 * 2 * 1.25 * 8 * 4096
    )  # layers, matrices, pairs of a token, tokens of a rank
    assert once.forward_s[0] - none.forward_s[0] > experts / 2.5e15, "no faster than the chip"


def test_sixteen_bit_experts_reach_what_single_products_on_streams_were_measured_at() -> None:
    """tools/measure_experts.py on an H100, 2026-11-23: 606 to 690 TFLOP/s of experts with 4 096 rows and more."""
    job = replace(MIXTURE, model=models.get("gpt-oss-120b").record, global_batch=32)
    plan = TrainingPlan(data_parallel=8, expert_parallel=8, sharding="zero1", micro_batch=4)
    known = framework_costs(job, "hopper")
    held = [
        step_time(job, PlanLattice.of([plan]), BOX, replace(known, kernel_scale=scale)).forward_s[0]
        for scale in (known.kernel_scale, 2.0 * known.kernel_scale)
    ]
    dense = 36 * 16384 * 2 * 2880 * (2 * 4096 + 2 * 512) + 16384 * 2 * 2880 * 201088
    experts = 36 * 16384 * 4 * 2 * 3 * 2880 * 2880
    assert 560e12 < (experts + dense) / (held[1] - held[0]) < 720e12


@pytest.mark.parametrize(
    ("ranks", "there", "back"), [(8, 764.0, 737.1), (16, 707.0, 666.3), (36, 632.3, 597.0)]
)
def test_hybridep_moves_tokens_as_its_authors_measured(ranks: int, there: float, back: float) -> None:
    """deepseek-ai/DeepEP, branch hybrid-ep, docs/README_Hybrid-EP.md: GB200, bf16, 32 SMs; GB/s of received vectors."""
    group = RACK.group(ranks)
    received = distinct_holders(ranks, 8) * 4096 * 7168 * 2.0
    for exchange_s, rate in ((moe_dispatch_s, there), (moe_combine_s, back)):
        seconds = float(exchange_s(4096, 7168, 8, group, bytes_per_element=2.0, mode="hybrid"))
        assert received / seconds / 1e9 == pytest.approx(rate, rel=0.06)


def test_hybridep_starts_copies_of_short_vectors_no_faster_than_its_processors_can() -> None:
    """Halving long vectors halves the time; halving short ones does not change it."""
    group = RACK.group(64)

    def seconds(hidden: int) -> float:
        return float(moe_dispatch_s(4096, hidden, 22, group, bytes_per_element=2.0, mode="hybrid"))

    assert seconds(16384) == pytest.approx(2.0 * seconds(8192))
    assert seconds(1024) == pytest.approx(seconds(512))


def test_hybridep_sorts_copies_and_gathers_the_map_of_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """The forward pass waits for the map of all ranks' tokens, one byte for a token and an expert; both passes for the
    kernels that sort copies: 2 (ranks reached + 8) vectors a token."""
    job = by(MIXTURE, "hybrid_dispatcher")
    whole = step_columns(job, expert_overlap=0.0)
    monkeypatch.setattr(Exchanges, "_sorted_s", lambda self, tokens, experts: np.zeros_like(tokens))
    unsorted = step_columns(job, expert_overlap=0.0)
    moved = 48 * 8 * 2 * 4096 * 2.0 * (distinct_holders(32, 8) + 8) * 2048 * 2.0
    bandwidth = device_of(RACK.accelerator).bandwidth_bytes_per_s * common_term("stream_fraction")
    assert whole.expert_parallel_s[0] - unsorted.expert_parallel_s[0] == pytest.approx(moved / bandwidth)
    monkeypatch.setattr(Groups, "all_gather_s", lambda self, num_bytes: np.zeros_like(num_bytes))
    no_map = step_columns(job, expert_overlap=0.0)
    gathered = 48 * 8 * float(all_gather_s(32 * 4096 * 128.0, RACK.group(32)))
    assert unsorted.expert_parallel_s[0] - no_map.expert_parallel_s[0] == pytest.approx(gathered)


def test_copies_are_sorted_and_put_back_beside_an_exchange_that_does_not() -> None:
    hybrid, deep, plain = (
        step_columns(by(MIXTURE, *name)) for name in (("hybrid_dispatcher",), (), ("alltoall_dispatcher",))
    )
    assert hybrid.forward_s[0] < deep.forward_s[0] < plain.forward_s[0]
    values = 3.0 + 1.0 / 8.0
    moved = 48 * 8 * 4096 * 8 * 2.0 * values * 2048
    bandwidth = device_of(RACK.accelerator).bandwidth_bytes_per_s * common_term("stream_fraction")
    assert deep.forward_s[0] - hybrid.forward_s[0] == pytest.approx(moved / bandwidth, rel=0.05)


def test_gpt_oss_clamps_and_biases_its_experts_in_sixteen_bits_as_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """tools/measure_experts.py on an H100, 2026-11-24: passes over a tensor of the inner and of the hidden size."""
    monkeypatch.setattr(step_layers, "_UNFUSED_ROTARY", ())
    bandwidth = device_of(RACK.accelerator).bandwidth_bytes_per_s * common_term("stream_fraction")
    one = (
        24 * 8 * 4096 * 4 * 2.0 * 2880 / bandwidth
    )  # layers, tokens of a rank, experts of each, bytes, width
    for features, forward, both in (
        ((), 12.2 + 19.4, 12.2 + 19.4 + 24.0 + 27.7),
        (("alltoall_dispatcher",), 12.2 + 8.6, 12.2 + 8.6 + 24.0 + 14.3),
    ):
        job = by(OSS, *features)
        step = step_columns(job)
        plain = step_columns(replace(job, model=replace_family(OSS, "unknown")))
        assert step.forward_s[0] - plain.forward_s[0] == pytest.approx(forward * one, rel=0.01)
        beside = step.forward_s[0] + step.backward_s[0] - plain.forward_s[0] - plain.backward_s[0]
        assert beside == pytest.approx(both * one, rel=0.01)
    other = replace(OSS, model=replace_family(OSS, "unknown"))
    few = {"compute_dtype": "mxfp8"}
    assert step_columns(replace(OSS, **few)).forward_s[0] == step_columns(replace(other, **few)).forward_s[0]
    torch = {"framework": "torchtitan"}
    assert (
        step_columns(replace(OSS, **torch)).forward_s[0] == step_columns(replace(other, **torch)).forward_s[0]
    )


def test_experts_next_to_each_other_are_sent_fewer_copies() -> None:
    spread, next_door = (step_columns(job, BOX, 64) for job in (MIXTURE, by(MIXTURE, "neighbouring_experts")))
    assert next_door.expert_parallel_s[0] < 0.5 * spread.expert_parallel_s[0]
    assert next_door.forward_s[0] == spread.forward_s[0]


def replace_family(job: TrainingJob, family: str) -> Model:
    return job.model.model_copy(update={"family": family})


@pytest.mark.parametrize("card", ["h100-sxm", "gb200"])
def test_an_expert_launches_as_much_in_every_format_of_few_bits(card: str) -> None:
    """Scales, copies and objects of each expert are made by themselves in all of them; in 16 bits there are none."""
    plans = PlanLattice.of([TrainingPlan(data_parallel=ranks, expert_parallel=ranks) for ranks in (4, 8)])
    added = {}
    for dtype in ("bf16", "fp8", "mxfp8", "nvfp4"):
        job = replace(MIXTURE, compute_dtype=dtype)
        costs = framework_costs(job, accelerators.by_id(card).architecture)
        few, many = launch_times(job, plans, costs, np.full(2, 48.0), np.zeros(2)).forward_s[::-1]
        added[dtype] = many - few
    assert added["fp8"] == pytest.approx(added["mxfp8"])
    assert added["fp8"] == pytest.approx(added["nvfp4"])
    assert added["bf16"] < added["fp8"]


def test_megatron_turns_the_heads_of_gpt_oss_operator_by_operator() -> None:
    """The time grows with queries and keys, and other frameworks and models have none of it."""
    for family, slower in (("gpt_oss", True), ("other", False)):
        job = replace(OSS, model=OSS.model.model_copy(update={"family": family}))
        times = [
            float(
                step_columns(replace(job, framework=framework), BOX, 8, elementwise_passes=0.0).forward_s[0]
            )
            for framework in ("megatron", "fsdp")
        ]
        assert (times[0] > 1.02 * times[1]) == slower


@pytest.mark.parametrize("stages", [1, 4])
def test_a_module_for_later_tokens_costs_a_block_and_a_head(stages: int) -> None:
    """All stages together compute as much more as a model with one more layer does, and its head once more."""
    job = TrainingJob(models.get("deepseek-v3").record, 4096, 256, compute_dtype="fp8")
    plan = TrainingPlan(pipeline_parallel=stages, data_parallel=32, expert_parallel=32, sharding="zero1")

    def forward_s(job: TrainingJob) -> float:
        return float(step_time(job, PlanLattice.of([plan]), RACK).forward_s[0])

    rest = job.model.layers[-1]
    layers = (*job.model.layers[:-1], rest.model_copy(update={"count": rest.count - 4}))
    fewer = replace(job, model=job.model.model_copy(update={"layers": layers}))
    block_s = (forward_s(job) - forward_s(fewer)) * stages / 4.0
    added_s = stages * (forward_s(by(job, "later_tokens")) - forward_s(job))
    assert block_s < added_s < 4.0 * block_s
    without = replace(job, model=job.model.model_copy(update={"mtp_layers": 0}))
    assert forward_s(by(without, "later_tokens")) == pytest.approx(forward_s(without))


def test_experts_in_sixteen_bits_move_what_their_activation_reads_and_writes() -> None:
    """Three tensors of the inner size forward (gate and up-projection read, product written), 1.8 times that back."""
    job = replace(MIXTURE, framework="megatron")
    plan = PlanLattice.of([TrainingPlan(data_parallel=32, expert_parallel=32, sharding="zero1")])
    costs = framework_costs(job, RACK.accelerator.architecture)
    wide, narrow = (
        step_layers.LayerPricing(
            each, OperatorLibrary(device_of(RACK.accelerator), "any"), costs, _slices(each, plan)[0]
        )
        for each in (job, replace(job, compute_dtype="mxfp8"))
    )
    layer = next(layer for layer in layers_of(job.model) if layer.experts)
    bandwidth = device_of(RACK.accelerator).bandwidth_bytes_per_s * common_term("stream_fraction")
    once = 4096 * 8 * 3 * 768 * 2.0 * costs.elementwise_passes / bandwidth
    forward, backward = (
        float(of_wide[0] - of_narrow[0])
        for of_wide, of_narrow in zip(wide._small(layer), narrow._small(layer), strict=True)
    )
    assert forward == pytest.approx(once)
    assert backward == pytest.approx(1.8 * once)


def test_a_slow_host_widens_the_time_of_experts_in_sixteen_bits_where_launches_count() -> None:
    """Launches of sixteen small experts a rank outlast their kernels; those of large ones, or in few bits, which
    published runs determine, do not widen it."""
    plan = TrainingPlan(pipeline_parallel=2, data_parallel=8, expert_parallel=8, sharding="zero1")
    small = replace(MIXTURE, framework="megatron")
    assert 1.2 < slow_host_factor(small, plan, BOX) < 2.0
    assert slow_host_factor(replace(small, compute_dtype="fp8"), plan, BOX) == 1.0
    dense = TrainingJob(models.get("llama-3.1-8b").record, 4096, 256)
    assert slow_host_factor(dense, replace(plan, expert_parallel=1), BOX) == 1.0
    assert slow_host_factor(small, replace(plan, micro_batch=8), BOX) < 1.05
