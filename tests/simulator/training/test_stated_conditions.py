"""Stated conditions act: recipes of experts, power, tables as layers of a pipeline, releases, memory verdicts."""

from dataclasses import replace

import numpy as np
import pytest

from advisor.catalog import accelerators, models
from advisor.simulator.device import with_power_cap
from advisor.simulator.quantity import Quantity
from advisor.simulator.training.cluster import TrainingCluster, host_copy_bytes_per_s
from advisor.simulator.training.framework_costs import at_power, common_term, framework_costs
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.lattice import LatticeLimits, enumerate_lattice
from advisor.simulator.training.memory import fits, memory_verdict, peak_memory, stage_memory
from advisor.simulator.training.memory.formats import shape_of
from advisor.simulator.training.memory.peak import kept_activation_bytes
from advisor.simulator.training.plan import PlanLattice, TrainingPlan
from advisor.simulator.training.releases import features_at, limits_at, missing_features
from advisor.simulator.training.stages import chunk_sizes, stage_groups
from advisor.simulator.training.step import StepColumns, step_time

QWEN = TrainingJob(models.get("qwen3-235b-a22b").record, 4096, 2048)
LLAMA = TrainingJob(models.get("llama-3.1-8b").record, 8192, 16)
H100 = TrainingCluster(accelerators.by_id("h100-sxm"))
WIDE = TrainingPlan(
    tensor_parallel=2,
    pipeline_parallel=8,
    expert_parallel=32,
    expert_tensor_parallel=1,
    data_parallel=16,
    sharding="zero1",
)


def step(job: TrainingJob, plan: TrainingPlan = WIDE, cluster: TrainingCluster = H100) -> StepColumns:
    return step_time(job, PlanLattice.of([plan]), cluster)


def with_features(job: TrainingJob, *names: str) -> TrainingJob:
    return replace(job, features=frozenset(names))


def test_an_exchange_beside_another_micro_batch_is_exposed_less() -> None:
    """Source: Megatron-Core, overlap_moe_expert_parallel_comm."""
    alone = step(with_features(QWEN, "alltoall_dispatcher")).expert_parallel_s
    beside = step(with_features(QWEN, "alltoall_dispatcher", "overlapped_experts")).expert_parallel_s
    assert beside < 0.5 * alone


@pytest.mark.parametrize("graph", ["graphed_mixers", "graphed_routers", "graphed_step"])
def test_a_graph_takes_launches_from_the_host(graph: str) -> None:
    job = replace(QWEN, compute_dtype="mxfp8")
    cluster = TrainingCluster(accelerators.by_id("b200-sxm"))
    plan = replace(WIDE, tensor_parallel=1, expert_parallel=8, sequence_parallel=False)
    launched = step(job, plan, cluster).host_s[0]
    captured = step(with_features(job, graph), plan, cluster).host_s[0]
    assert captured < launched
    if graph == "graphed_step":
        assert captured == 0.0


def test_recomputed_experts_repeat_their_products_and_their_exchange() -> None:
    plan = replace(WIDE, recompute="modules")
    cheap = step(QWEN, plan)
    whole = step(with_features(QWEN, "recomputed_experts"), plan)
    assert whole.recompute_s > 2.0 * cheap.recompute_s
    assert whole.expert_parallel_s > cheap.expert_parallel_s


def test_more_power_per_unit_of_peak_is_never_slower() -> None:
    costs = framework_costs(LLAMA, "blackwell")
    board = accelerators.by_id("b200-sxm")
    scales = [at_power(costs, board.model_copy(update={"tdp_w": watts})) for watts in (700, 1000, 1200, 1400)]
    assert [one.kernel_scale for one in scales] == sorted((one.kernel_scale for one in scales), reverse=True)
    assert scales[1].kernel_scale == pytest.approx(costs.kernel_scale, rel=1e-3)
    assert framework_costs(LLAMA, "hopper") == at_power(framework_costs(LLAMA, "hopper"), H100.accelerator)


@pytest.mark.parametrize("name", ["a100-sxm-80gb", "h100-sxm", "b200-sxm", "gb200", "gb300"])
@pytest.mark.parametrize("share", [0.9, 0.6])
def test_a_power_limit_slows_products_alike_on_every_architecture(name: str, share: float) -> None:
    board = accelerators.by_id(name)
    assert board.tdp_w
    assert not board.power_points
    plan = TrainingPlan(data_parallel=8, sharding="zero1")
    full = step(LLAMA, plan, TrainingCluster(board))
    limited = step(LLAMA, plan, TrainingCluster(with_power_cap(board, share * board.tdp_w)))
    slower = float((limited.forward_s + limited.backward_s)[0] / (full.forward_s + full.backward_s)[0])
    assert slower == pytest.approx(share ** (-1 / 3), rel=0.02)


@pytest.mark.parametrize(("layers", "stages", "chunks"), [(94, 32, 3), (30, 8, 4), (31, 8, 4), (62, 64, 1)])
def test_tables_stand_in_for_layers_that_are_missing(layers: int, stages: int, chunks: int) -> None:
    """Source: Megatron-Core, account_for_embedding_in_pipeline_split, account_for_loss_in_pipeline_split."""
    sizes = chunk_sizes(layers, stages, chunks, 0, 0)
    assert len(sizes) == stages * chunks
    assert sum(sizes) == layers
    assert sizes[-1] == 0
    assert set(sizes) == {0, 1}


def test_94_layers_run_on_32_stages_of_3_chunks() -> None:
    plan = TrainingPlan(
        tensor_parallel=2,
        pipeline_parallel=32,
        virtual_stages=3,
        expert_parallel=8,
        expert_tensor_parallel=1,
        data_parallel=4,
        sharding="zero1",
        schedule="interleaved",
    )
    held = stage_groups(shape_of(QWEN), 32, 3, schedule="interleaved").sum(axis=1)
    assert held.tolist() == [2] + [3] * 30 + [2]
    assert step(QWEN, plan, TrainingCluster(accelerators.by_id("h800-sxm"))).step_s > 0.0


def test_a_peak_above_the_memory_never_fits() -> None:
    found = peak_memory(LLAMA, PlanLattice.of([TrainingPlan(data_parallel=8, sharding="zero1")]))
    peak = float(found.peak_bytes[0])
    assert fits(found, peak).tolist() == [True]
    assert fits(found, 0.999 * peak).tolist() == [False]


def test_the_verdict_follows_the_interval() -> None:
    peak = Quantity(80.0, 75.0, 92.0, "modelled")
    assert [memory_verdict(peak, limit) for limit in (95.0, 85.0, 79.0, 70.0)] == [
        "fits",
        "tight",
        "does not fit",
        "does not fit",
    ]


def test_a_release_lacks_what_came_later() -> None:
    job = replace(LLAMA, compute_dtype="nvfp4", framework_version="25.04")
    (missing,) = missing_features(job, TrainingPlan())
    assert (missing.feature, missing.first.month) == ("nvfp4", "2025-09")
    assert not list(missing_features(replace(job, framework_version="25.11"), TrainingPlan()))
    assert not list(missing_features(replace(job, framework_version=""), TrainingPlan()))
    old = replace(LLAMA, framework_version="2022-06")
    assert [one.feature for one in missing_features(old, TrainingPlan(context_parallel=2))] == [
        "context parallelism"
    ]


@pytest.mark.parametrize(("month", "has_it"), [("2022-03", False), ("2022-05", True), ("", True)])
def test_sequences_are_divided_from_the_release_that_does_it(month: str, has_it: bool) -> None:
    job = replace(LLAMA, framework_version=month)
    plan = TrainingPlan(tensor_parallel=8)
    assert (not any(missing_features(job, plan))) == has_it
    assert not any(missing_features(job, replace(plan, sequence_parallel=False)))
    found = enumerate_lattice(job, 8, limits_at(LatticeLimits(8), job))
    assert set(found.sequence_parallel[found.tensor_parallel > 1]) == {int(has_it)}


def test_megatron_of_2022_stores_scores() -> None:
    assert features_at("megatron", "2022-06") == {"unfused_attention"}
    assert not features_at("megatron", "2025-01")
    assert not features_at("fsdp", "2022-06")
    assert not features_at("megatron", "")
    assert features_at("megatron", "", "volta") == {"unfused_attention"}
    assert not features_at("megatron", "", "ampere")
    assert not features_at("fsdp", "", "volta")


def test_a_loss_that_never_holds_logits_takes_what_hidden_values_take() -> None:
    plans = PlanLattice.of([TrainingPlan(data_parallel=8, sharding="zero3", recompute="full")])
    job = replace(LLAMA, framework="deepspeed")
    whole, fused = (peak_memory(with_features(job, *names), plans) for names in ((), ("linear_ce",)))
    logits = 8192 * 128256 * 12.0
    assert float(whole.peak_bytes[0] - fused.peak_bytes[0]) > 0.5 * logits
    assert np.all(fused.loss_bytes <= whole.loss_bytes)


@pytest.mark.parametrize(("method", "copies"), [("full", 6.0), ("lora", 0.0)])
def test_tiles_of_the_head_hold_its_gradient_in_fp32_and_are_computed_again(
    method: str, copies: float
) -> None:
    """Source: TRL 1.16.0, kernels/chunked_logprob.py: a gradient in fp32, and its copy in the head's format."""
    plans = PlanLattice.of([TrainingPlan(data_parallel=8, sharding="zero3", recompute="full")])
    job = replace(LLAMA, framework="deepspeed", method=method, lora_rank=16 * (method != "full"))  # type: ignore[arg-type]
    kernel, tiles = (with_features(job, "linear_ce", *more) for more in ((), ("tiled_head",)))
    at_loss = [stage_memory(each, plans.plan(0))[0].instants[0].loss_bytes for each in (kernel, tiles)]
    assert at_loss[1] - at_loss[0] == pytest.approx(copies * 128256 * 4096, rel=1e-4)
    once, again = (float(step(each, plans.plan(0)).backward_s[0]) for each in (kernel, tiles))
    flop = 2.0 * 128256 * 4096 * job.tokens_per_step / 8
    assert again - once >= flop / 989e12


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_the_host_takes_all_that_layers_keep(recompute: str) -> None:
    """A link that is slower than the passes is waited for by what is kept beyond them, both ways."""
    job = replace(LLAMA, framework="peft", software="trl", sequence_tokens=1024, global_batch=1)
    plan = TrainingPlan(recompute=recompute, offload_activations=True)  # type: ignore[arg-type]
    resident = step(job, replace(plan, offload_activations=False))
    found = step(job, plan)
    waits = float(found.host_s[0] - resident.host_s[0])
    kept = float(kept_activation_bytes(job, PlanLattice.of([plan]))[0])
    passes = sum(float(each[0]) for each in (resident.forward_s, resident.backward_s, resident.recompute_s))
    rate = host_copy_bytes_per_s(H100.accelerator)
    assert waits >= 2.0 * kept / rate - passes - 1e-9
    assert waits <= 2.0 * kept / rate
    assert (waits > 0.0) == (recompute == "none")


def test_a_ring_holds_the_keys_of_whole_sequences() -> None:
    """Source: torch/distributed/tensor/experimental/_attention.py, _AllGatherRotater; Ulysses gathers none."""
    plan = TrainingPlan(context_parallel=8, sharding="zero3", recompute="full")
    ring = replace(LLAMA, framework="peft", software="trl", sequence_tokens=131072)
    heads = with_features(ring, "ulysses_sp")
    held = [stage_memory(job, plan)[0].instants[1].workspace_bytes for job in (ring, heads)]
    assert held[0] - held[1] == pytest.approx(131072 * 8 * (128 + 128) * 2)


def test_ranks_that_divide_sequences_take_less_memory_and_wait_for_keys() -> None:
    job = replace(LLAMA, framework="peft", software="trl", method="lora", lora_rank=16, sequence_tokens=65536)
    plans = [TrainingPlan(context_parallel=c, data_parallel=8 // c, sharding="zero3") for c in (1, 2, 4, 8)]
    peaks = peak_memory(job, PlanLattice.of(plans)).peak_bytes
    assert np.all(np.diff(peaks) < 0.0)
    waits = step_time(job, PlanLattice.of(plans), H100).context_parallel_s
    assert waits[0] == 0.0
    assert np.all(waits[1:] > 0.0)


@pytest.mark.parametrize("framework", ["megatron", "peft", "fsdp"])
def test_a_slow_host_delays_short_kernels_alone(framework: str) -> None:
    """A step of long kernels hides its launches; one of short kernels takes as much longer as its operators do."""
    slow = replace(H100, host_operator_s=4.0 * common_term("launch_s"))
    usual = replace(H100, host_operator_s=common_term("launch_s"))
    for tokens, slower in ((64, True), (8192, False)):
        job = replace(LLAMA, framework=framework, sequence_tokens=tokens, global_batch=1)
        lattice = PlanLattice.of([TrainingPlan(recompute="full")])
        ratio = step_time(job, lattice, slow).host_s[0] / max(step_time(job, lattice, H100).host_s[0], 1e-3)
        assert step_time(job, lattice, usual).step_s[0] == pytest.approx(
            step_time(job, lattice, H100).step_s[0]
        )
        assert (ratio > 3.0) == slower
