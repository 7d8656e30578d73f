"""Parts of the step: groups of many plans, intervals by class, convergence of benchmarks, host and padding."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog import accelerators, models
from advisor.simulator.collectives import all_gather_s, all_reduce_s, topology_of
from advisor.simulator.graph.model import num_experts
from advisor.simulator.training.cluster import Groups, NodeNetwork, TrainingCluster
from advisor.simulator.training.convergence import convergence_of, time_to_train_s
from advisor.simulator.training.framework_costs import FrameworkCosts, framework_costs
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.passes import computed_sequence
from advisor.simulator.training.plan import PlanLattice, Schedule, Sharding, TrainingPlan
from advisor.simulator.training.step import StepColumns, step_class, step_factors, step_quantity, step_time
from advisor.simulator.training.step_host import PassTimes, expert_layers_share, launch_times
from advisor.simulator.training.step_layers import elementwise_passes, is_eager
from advisor.simulator.training.step_sharding import gradient_bytes

H100 = TrainingCluster(accelerators.by_id("h100-sxm"))
LLAMA = TrainingJob(models.get("llama-3.1-8b").record, 4096, 64)
COSTS = framework_costs(LLAMA, "hopper")


def test_groups_price_each_plan_as_its_own_topology() -> None:
    ranks = np.array([1, 4, 8, 16, 8])
    stride = np.array([1, 1, 1, 1, 8])
    sizes = np.array([1e6, 1e6, 1e8, 1e8, 1e8])
    found = Groups(H100, ranks, stride)
    record = H100.accelerator
    spread = topology_of(record, 8, ranks_per_node=1)
    expected = [
        0.0,
        float(all_reduce_s(1e6, topology_of(record, 4), algorithm="nccl")),
        float(all_reduce_s(1e8, topology_of(record, 8), algorithm="nccl")),
        float(all_reduce_s(1e8, topology_of(record, 16), algorithm="nccl")),
        float(all_reduce_s(1e8, spread, algorithm="nccl")),
    ]
    assert found.all_reduce_s(sizes).tolist() == pytest.approx(expected)
    assert float(found.all_gather_s(sizes)[4]) == pytest.approx(float(all_gather_s(1e8, spread)))


def test_a_group_with_a_stride_keeps_its_share_of_a_node() -> None:
    group = H100.group(16, stride=4)
    assert (group.ranks_in_node, group.num_nodes) == (2, 8)
    slow = replace(H100, network=NodeNetwork(1e9))
    assert slow.group(16, stride=4).inter_bytes_per_s == 1e9
    assert slow.group(8).num_nodes == 1


def test_classes_of_residuals() -> None:
    def name(
        job: TrainingJob = LLAMA, on: str = "h100-sxm", ranks: int = 64, *, assumed: bool = False
    ) -> str:
        return step_class(job, TrainingCluster(accelerators.by_id(on)), ranks, assumed=assumed)

    assert name() == "multi_node_dense"
    assert name(ranks=8) == "single_node_dense"
    assert name(TrainingJob(models.get("mixtral-8x7b").record, 4096, 64)) == "multi_node_experts"
    assert name(replace(LLAMA, method="lora")) == "adapters"
    assert name(assumed=True) == "assumed_layout"
    assert name(on="tpu-v5p") == "other_vendor"
    assert name(on="mi300x") == "untested"
    assert name(replace(LLAMA, framework="torchtitan")) == "torchtitan"
    assert name(replace(LLAMA, framework="peft")) == "transformers"
    assert name(replace(LLAMA, framework="peft", method="lora")) == "adapters"
    assert name(replace(LLAMA, framework="of nobody")) == "untested"


def test_intervals_hold_the_value_and_are_wider_where_nothing_was_measured() -> None:
    known, unknown = (step_quantity(10.0, name) for name in ("multi_node_dense", "untested"))
    assert known.low <= 10.0 <= known.high
    assert unknown.high / unknown.low > known.high / known.low
    assert step_factors("no such class") == step_factors("any")


def test_benchmarks_converge_as_their_references() -> None:
    gpt = TrainingJob(models.get("gpt-3-175b").record, 2048, 2048)
    found = convergence_of(gpt)
    assert found is not None
    assert found.samples_at(2048) * 2048 == pytest.approx(1.1828e9, rel=0.001)
    assert found.samples_at(2048) < found.samples_at(5000) < found.samples_at(8192)
    assert found.samples_at(1000) == found.samples_at(1536)
    steps = found.samples_at(2048) / 2048
    assert steps < time_to_train_s(gpt, 1.0, 0.3, found) < 1.15 * steps
    assert convergence_of(replace(gpt, global_batch=64)) is None
    assert convergence_of(LLAMA) is None


def test_padded_micro_batches_compute_their_longest_sequence() -> None:
    padded = replace(LLAMA, sequence_tokens=768, mean_sequence_tokens=210.0)
    one, four, many = computed_sequence(padded, np.array([1.0, 4.0, 1e9]))
    assert one == 210.0
    assert 250.0 < four < 400.0
    assert many <= 768.0
    assert computed_sequence(LLAMA, np.array([1.0, 8.0])).tolist() == [4096.0, 4096.0]


def test_the_host_runs_ahead_without_a_pipeline_and_waits_in_one() -> None:
    host = PassTimes(np.array([2.0, 2.0]), np.array([1.0, 1.0]))
    waits = host.waits(np.array([False, True]), np.array([1.0, 1.0]), np.array([5.0, 5.0]))
    assert waits.forward_s == pytest.approx([0.0, 1.0], abs=0.02)
    assert waits.backward_s == pytest.approx([0.0, 0.0], abs=0.05)


@given(launching=st.floats(0.0, 10.0), computing=st.floats(1e-6, 10.0), more=st.floats(1.0, 10.0))
def test_a_host_is_waited_for_most_where_it_is_as_slow_as_the_kernels(
    launching: float, computing: float, more: float
) -> None:
    def pass_s(launch: float, compute: float) -> float:
        host = PassTimes(np.array([launch]), np.array([0.0]))
        return compute + float(
            host.waits(np.array([True]), np.array([compute]), np.array([1.0])).forward_s[0]
        )

    both = pass_s(launching, computing)
    longer = max(launching, computing)
    assert longer * (1.0 - 1e-9) <= both <= 1.15 * longer
    assert pass_s(launching, computing / more) <= both * (1.0 + 1e-9), "faster kernels are never slower"
    assert pass_s(launching / more, computing) <= both * (1.0 + 1e-9)


def test_launches_grow_with_layers_experts_and_casts() -> None:
    lattice = PlanLattice.of(
        [TrainingPlan(), TrainingPlan(recompute="full"), TrainingPlan(tensor_parallel=2)]
    )
    costs = replace(COSTS, tensor_kernels=10.0)
    layers = np.full(3, 32.0)
    share = np.ones(3)
    plain = launch_times(LLAMA, lattice, costs, layers, share)
    assert plain.forward_s[2] > plain.forward_s[0] == plain.forward_s[1]
    assert plain.backward_s[1] == pytest.approx(plain.backward_s[0] + plain.forward_s[0])
    cast = launch_times(replace(LLAMA, compute_dtype="mxfp8"), lattice, costs, layers, share)
    assert cast.forward_s[0] > plain.forward_s[0]
    mixture = TrainingJob(models.get("mixtral-8x7b").record, 4096, 64)
    assert num_experts(mixture.model) == 8
    assert expert_layers_share(mixture.model) == 1.0
    assert 0.3 < expert_layers_share(models.get("nemotron-3-super-120b-a12b").record) < 0.5
    assert launch_times(mixture, lattice, costs, layers, share).forward_s[0] > plain.forward_s[0]


def test_eager_pytorch_pays_for_unfused_norms() -> None:
    costs = replace(COSTS, elementwise_passes=1.5, eager_passes=2.0)
    eager = replace(LLAMA, framework="torchtitan")
    assert is_eager(eager)
    assert elementwise_passes(eager, costs) == 3.0
    compiled = replace(eager, features=frozenset({"compile"}))
    assert not is_eager(compiled)
    assert elementwise_passes(compiled, costs) == 1.0
    assert not is_eager(LLAMA)
    assert not is_eager(replace(eager, software="unsloth"))
    assert not is_eager(TrainingJob(models.get("mpt-7b").record, 2048, 64, framework="fsdp"))


def test_offloading_costs_what_the_host_link_carries() -> None:
    plans = [
        TrainingPlan(
            data_parallel=8, sharding="zero3", offload_optimizer=optimizer, offload_parameters=parameters
        )
        for optimizer, parameters in ((False, False), (True, False), (True, True))
    ]
    seconds = step_time(LLAMA, PlanLattice.of(plans), H100, COSTS).step_s
    assert seconds[0] < seconds[1] < seconds[2]
    kept, moved = (
        step_time(LLAMA, PlanLattice.of([TrainingPlan(offload_activations=offload)]), H100, COSTS)
        for offload in (False, True)
    )
    assert float(moved.step_s[0]) >= float(kept.step_s[0])


def test_sums_of_gradients_in_host_memory_come_back_for_every_micro_batch_but_the_first() -> None:
    """Gradients cross the host's link 2 m − 1 times in m micro-batches."""
    job = replace(LLAMA, global_batch=8)
    costs = replace(COSTS, data_overlap=0.0)

    def crossings_s(num: int, *, offload: bool) -> float:
        plan = TrainingPlan(data_parallel=8, sharding="zero2", offload_optimizer=offload)
        lattice = PlanLattice.of([plan])
        found = step_time(replace(job, global_batch=8 * num), lattice, H100, costs)
        return float(found.data_parallel_s[0] + found.hidden_s[0])

    extra = {num: crossings_s(num, offload=True) - crossings_s(num, offload=False) for num in (1, 2, 4)}
    assert extra[2] / extra[1] == pytest.approx(3.0, rel=0.02)
    assert extra[4] / extra[1] == pytest.approx(7.0, rel=0.02)


def test_sums_within_shards_and_over_replicas_replace_one_over_all() -> None:
    plans = [TrainingPlan(data_parallel=64, sharding="zero3", shard_group=group) for group in (0, 8)]
    on = TrainingCluster(accelerators.by_id("h100-sxm"), 8, NodeNetwork(4e9))
    everywhere, hybrid = step_time(LLAMA, PlanLattice.of(plans), on, COSTS).data_parallel_s
    assert hybrid < everywhere


def test_broadcasts_of_single_ranks_cost_more_the_more_ranks_there_are() -> None:
    """Source: InternLM/InternEvo, HybridZeroOptimizer.broadcast_params."""
    on = TrainingCluster(accelerators.by_id("a100-sxm-80gb"), 8, NodeNetwork(6.25e9))
    costs = framework_costs(replace(LLAMA, framework="deepspeed"), "ampere")

    def gather_s(software: str, ranks: int, group: int = 0, sharding: Sharding = "zero1") -> float:
        job = replace(LLAMA, framework="deepspeed", software=software, global_batch=4 * ranks)
        plan = TrainingPlan(data_parallel=ranks, sharding=sharding, shard_group=group)
        return float(step_time(job, PlanLattice.of([plan]), on, costs).data_parallel_s[0])

    extra_s = [gather_s("InternEvo", ranks) - gather_s("", ranks) for ranks in (8, 64, 256, 1024)]
    assert extra_s == sorted(extra_s)
    assert 0.0 <= extra_s[0] < 0.05
    assert extra_s[-1] > 1.0
    assert gather_s("InternEvo", 1024, 8) < 0.5 * gather_s("InternEvo", 1024)
    assert gather_s("InternEvo", 64, sharding="zero3") == gather_s("", 64, sharding="zero3")


def _torch_step(
    plan: TrainingPlan, *features: str, costs: FrameworkCosts | None = None, batch: int = 1
) -> StepColumns:
    job = replace(LLAMA, framework="fsdp", global_batch=batch, date="2026-11", features=frozenset(features))
    return step_time(job, PlanLattice.of([plan]), H100, costs)


def test_autocast_moves_an_fp32_residual_stream_and_casts_weights() -> None:
    short, wide = (_torch_step(TrainingPlan(), feature) for feature in ("bf16_states", "autocast"))
    num_weights = 8.03e9 - 0.53e9  # the input table is looked up, not cast
    casts = 6.0 * num_weights / (3.35e12 * 0.85)
    assert float(wide.forward_s[0]) > float(short.forward_s[0]) + casts
    assert float(wide.backward_s[0]) > float(short.backward_s[0]) + casts
    # 28 bytes and the norm against 14 bytes, which fused kernels move slower
    assert 1.3 < float(wide.optimizer_s[0] / short.optimizer_s[0]) < 1.8


def test_pytorch_checkpoints_stop_before_the_last_matrix_of_a_layer() -> None:
    whole, early = (
        _torch_step(TrainingPlan(recompute="full"), costs=replace(COSTS, partial_recompute=share))
        for share in (0.0, 1.0)
    )
    saved = 1.0 - float(early.recompute_s[0] / whole.recompute_s[0])
    assert 0.15 < saved < 14336 * 4096 / 218e6  # the last matrix's share of a layer's weights


def test_asynchronous_tensor_parallelism_of_pytorch_speeds_the_forward_pass() -> None:
    """Source: discuss.pytorch.org/t/209487: up to 29 % of the forward pass and 8 % of the step of a Llama of 8B, 20 and
    8 % of 70B, on H100s."""
    for name, batch, recompute in (("llama-3.1-8b", 12, "selective"), ("llama-3.1-70b", 16, "full")):
        plan = TrainingPlan(
            tensor_parallel=8, data_parallel=8, micro_batch=batch, sharding="zero3", recompute=recompute
        )
        job = TrainingJob(
            models.get(name).record,
            8192,
            8 * batch,
            framework="torchtitan",
            date="2024-09",
            software="torchtitan",
        )
        plain, ahead = (
            step_time(replace(job, features=frozenset(features)), PlanLattice.of([plan]), H100)
            for features in ({"compile"}, {"compile", "async_tp"})
        )
        assert 1.03 < float(plain.step_s[0] / ahead.step_s[0]) < 1.18


def test_a_ring_of_pytorch_merges_its_parts_and_one_of_megatron_does_not() -> None:
    plans = [TrainingPlan(context_parallel=degree, data_parallel=8 // degree) for degree in (1, 2, 4, 8)]
    jobs = {
        name: replace(LLAMA, sequence_tokens=65_536, framework=name) for name in ("megatron", "torchtitan")
    }
    exposed = {
        name: step_time(one, PlanLattice.of(plans), H100).context_parallel_s for name, one in jobs.items()
    }
    assert exposed["torchtitan"][0] == 0.0
    values = (
        64 * 65_536 * 4096 * 32 / 8
    )  # of a rank's queries in all layers of its micro-batches, for each part
    merging_s = values * (46.0 + 70.0) / (3.35e12 * 0.85)
    assert np.all(exposed["torchtitan"][1:] > merging_s)
    assert np.all(exposed["torchtitan"] >= exposed["megatron"])


def test_recomputation_of_jax_drops_what_no_gradient_needs() -> None:
    """Source: jax, ad_checkpoint.py (remat_dce)."""
    assert framework_costs(replace(LLAMA, framework="maxtext"), "tpu v5p").partial_recompute == 1.0
    assert framework_costs(LLAMA, "hopper").partial_recompute == 0.0


def test_the_input_tables_gradient_is_summed_after_the_backward_pass() -> None:
    plan = TrainingPlan(data_parallel=8, sharding="none")
    hidden, shown = (
        _torch_step(plan, costs=replace(COSTS, table_exposed=share, interference=0.0), batch=64)
        for share in (0.0, 1.0)
    )
    table = 128256 * 4096 / 8.03e9
    assert float(shown.data_parallel_s[0] / hidden.data_parallel_s[0]) == pytest.approx(32 * table, rel=0.02)


def test_gradients_are_summed_in_the_stated_format() -> None:
    costs = replace(COSTS, gradient_bytes=3.0)
    stated = {"fp32_grad_reduce": 4.0, "autocast": 4.0, "bf16_states": 2.0, "compile": 3.0}
    for feature, expected in stated.items():
        assert gradient_bytes(replace(LLAMA, features=frozenset({feature})), costs) == expected


def test_attention_of_pytorch_on_hopper_is_slower_before_cudnn_became_its_default() -> None:
    job = replace(LLAMA, framework="torchtitan", date="2025-06")
    old, new = (framework_costs(replace(job, date=date), "hopper") for date in ("2025-06", "2026-06"))
    assert old.attention_scale > 1.15 * new.attention_scale


@pytest.mark.parametrize("schedule", ["zb_h1", "zbv", "dualpipe"])
def test_every_schedule_computes_the_model_once(schedule: Schedule) -> None:
    """A mirrored stage holds two parts of the model, but a micro-batch passes only one of them."""
    plan = TrainingPlan(tensor_parallel=8, pipeline_parallel=4, data_parallel=2, sharding="zero1")
    job = TrainingJob(models.get("llama-3.1-70b").record, 4096, 128)
    plain, other = (
        step_time(job, PlanLattice.of([replace(plan, schedule=name, virtual_stages=chunks)]), H100)
        for name, chunks in (("1f1b", 1), (schedule, 2 if schedule in ("zbv", "dualpipe") else 1))
    )
    for part in ("forward_s", "backward_s"):
        assert getattr(other, part)[0] == pytest.approx(getattr(plain, part)[0], rel=0.06)
    assert other.bubble_s[0] < plain.bubble_s[0]
    assert other.step_s[0] < 1.02 * plain.step_s[0]


def test_experts_in_few_bits_have_a_scale_of_their_own() -> None:
    """The scale of few bits changes nothing in 16 bits, where experts are as warm as other products."""
    mixtral = TrainingJob(models.get("mixtral-8x7b").record, 4096, 64)
    plan = PlanLattice.of([TrainingPlan(data_parallel=8, expert_parallel=8, sharding="zero1")])

    def step_s(dtype: str, **scales: float) -> float:
        job = replace(mixtral, compute_dtype=dtype)
        return float(step_time(job, plan, H100, replace(COSTS, **scales)).step_s[0])

    for scale, dtype, grows in (
        ("low_bit_expert_scale", "fp8", True),
        ("low_bit_expert_scale", "bf16", False),
        ("kernel_scale", "bf16", True),
    ):
        once, twice = (step_s(dtype, **{scale: value}) for value in (1.0, 2.0))
        assert twice > 1.1 * once if grows else twice == once


def test_megatrons_releases_have_a_date() -> None:
    """A run of 2026-08 on Megatron-Core 0.11 (April 2025) has the early products of Blackwell in few bits."""
    mixtral = TrainingJob(models.get("mixtral-8x7b").record, 4096, 64, date="2026-08")
    old, new = (
        framework_costs(replace(mixtral, framework_version=version), "blackwell").low_bit_scale
        for version in ("0.11", "0.18.2")
    )
    assert old > new
    other = replace(mixtral, framework="fsdp", framework_version="0.14")
    assert framework_costs(other, "blackwell") == framework_costs(
        replace(other, framework_version=""), "blackwell"
    )


def test_states_in_host_memory_cost_their_way_there() -> None:
    job = replace(LLAMA, framework="deepspeed")
    apart = TrainingPlan(data_parallel=8, sharding="zero3", micro_batch=1)
    plans = [
        apart,
        replace(apart, offload_optimizer=True),
        replace(apart, offload_optimizer=True, offload_parameters=True),
    ]
    seconds = step_time(job, PlanLattice.of(plans), H100).step_s
    assert seconds[0] < seconds[1] < seconds[2]
