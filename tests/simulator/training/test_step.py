"""Step time: columns add up, laws of parallelism hold, closed forms agree with event graphs, many plans at once."""

import time
from dataclasses import fields, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.catalog import accelerators, models
from advisor.catalog.terms import Term, by_name
from advisor.simulator.training.cluster import NodeNetwork, TrainingCluster
from advisor.simulator.training.framework_costs import framework_costs
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.passes import pass_times
from advisor.simulator.training.pipeline import ChunkTimes, bubbles_s, run_schedule
from advisor.simulator.training.plan import SCHEDULES, PlanLattice, Schedule, TrainingPlan
from advisor.simulator.training.step import StepColumns, num_micro_batches, step_time


def job(model: str = "llama-3.1-8b", sequence: int = 4096, batch: int = 128, **changes: Any) -> TrainingJob:
    return TrainingJob(models.get(model).record, sequence, batch, **changes)


COSTS = framework_costs(job(), "hopper")


def plan(**layout: Any) -> TrainingPlan:
    return TrainingPlan(**layout)


def cluster(gpu: str = "h100-sxm") -> TrainingCluster:
    return TrainingCluster(accelerators.by_id(gpu))


def step(
    plan: TrainingPlan, of: TrainingJob | None = None, on: TrainingCluster | None = None, **costs: Any
) -> StepColumns:
    return step_time(of or job(), PlanLattice.of([plan]), on or cluster(), replace(COSTS, **costs))


def seconds(
    plan: TrainingPlan, of: TrainingJob | None = None, on: TrainingCluster | None = None, **costs: Any
) -> float:
    return float(step(plan, of, on, **costs).step_s[0])


def test_parts_add_up_to_the_step() -> None:
    plan = TrainingPlan(
        tensor_parallel=2, pipeline_parallel=2, data_parallel=4, recompute="full", sharding="zero1"
    )
    found = step(plan)
    assert float(found.step_s[0]) == pytest.approx(sum(found.breakdown_s(0).values()))
    assert all(value >= 0.0 for value in found.breakdown_s(0).values())
    assert {"forward", "recompute", "bubble", "tensor_parallel", "straggler"} <= found.breakdown_s(0).keys()


def test_full_recomputation_costs_one_more_forward_pass_of_the_layers() -> None:
    with_it = step(TrainingPlan(recompute="full"))
    without = step(TrainingPlan(recompute="none"))
    again = float(with_it.recompute_s[0])
    assert without.recompute_s[0] == 0.0
    assert 0.8 * float(without.forward_s[0]) < again < float(without.forward_s[0])
    half = step(TrainingPlan(recompute="full", recompute_layers=16))
    assert float(half.recompute_s[0]) == pytest.approx(again / 2)
    selective = step(TrainingPlan(recompute="selective"))
    assert 0.0 < float(selective.recompute_s[0]) < 0.4 * again


def test_compute_of_a_large_dense_model_is_near_its_flop() -> None:
    # 6 N tokens and causal attention at the peak of one H100: a well-fed step takes between 1.1 and 2 times that.
    found = step(TrainingPlan(micro_batch=4), job(batch=4))
    compute = float(found.forward_s[0] + found.backward_s[0])
    ideal = 6.0 * (7.5e9 + 32 * 4096 * 4096) * 4 * 4096 / 989.4e12
    assert 1.1 * ideal < compute < 2.0 * ideal


def test_tensor_parallelism_divides_compute_and_adds_communication() -> None:
    one = step(TrainingPlan())
    four = step(TrainingPlan(tensor_parallel=4))
    ratio = float(one.forward_s[0] / four.forward_s[0])
    assert 2.8 < ratio < 4.2
    assert one.tensor_parallel_s[0] == 0.0 < four.tensor_parallel_s[0]


def test_data_parallelism_divides_micro_batches() -> None:
    plans = [TrainingPlan(data_parallel=dp, micro_batch=mb) for dp, mb in ((1, 1), (8, 1), (8, 4), (3, 1))]
    counts = num_micro_batches(job(batch=128), PlanLattice.of(plans))
    assert counts.tolist() == [128.0, 16.0, 4.0, 43.0]
    assert seconds(plans[1]) < seconds(plans[0]) / 6.0


def test_batch_scales_the_step_once_fixed_costs_are_paid() -> None:
    small, large = (seconds(TrainingPlan(data_parallel=8), job(batch=batch)) for batch in (64, 256))
    assert 3.5 < large / small <= 4.0


def test_interleaving_shrinks_the_bubble_by_its_chunks() -> None:
    whole = step(TrainingPlan(pipeline_parallel=8), job("llama-3.1-70b", batch=32))
    parts = step(
        TrainingPlan(pipeline_parallel=8, virtual_stages=5, schedule="interleaved"),
        job("llama-3.1-70b", batch=32),
    )
    assert float(parts.bubble_s[0]) == pytest.approx(float(whole.bubble_s[0]) / 5.0, rel=0.35)


def test_1f1b_with_8_stages_and_32_micro_batches_idles_for_7_39ths() -> None:
    # 80 layers over 8 stages; the head makes the last one longer, so that the others wait a little more than 7/39.
    found = step(TrainingPlan(pipeline_parallel=8), job("llama-3.1-70b", batch=32), pipeline_sync_s=0.0)
    share = float(found.bubble_s[0]) / (float(found.step_s[0]) - float(found.optimizer_s[0]))
    assert share == pytest.approx(7 / 39, abs=0.03)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_closed_forms_agree_with_event_graphs(schedule: Schedule) -> None:
    stages = 4
    micro_batches = 24
    chunks = 3 if schedule == "interleaved" else 1
    stage = 0.6
    parts = {"interleaved": chunks, "zbv": 2}.get(schedule, 1)
    times = ChunkTimes.equal(stages * parts, stage / parts, stage / parts, stage / parts)
    run = run_schedule(schedule, stages, micro_batches, times, virtual_stages=chunks)
    columns = [np.array([value]) for value in (stage, stage, stage)]
    found = bubbles_s(np.array([SCHEDULES.index(schedule)]), np.array([stages]), np.array([chunks]), *columns)
    assert float(found[0]) == pytest.approx(run.bubble_s, rel=0.02, abs=1e-9)


def test_a_lattice_prices_each_plan_as_if_alone() -> None:
    plans = [
        plan(
            tensor_parallel=tp,
            pipeline_parallel=pp,
            context_parallel=cp,
            data_parallel=16 // (tp * pp),
            micro_batch=mb,
            recompute=again,
            sharding=sharding,
        )
        for tp, pp, cp, mb, (again, sharding) in product(
            (1, 2), (1, 4), (1, 2), (1, 2), (("none", "zero3"), ("full", "zero1"), ("selective", "none"))
        )
    ]
    whole = step_time(job(), PlanLattice.of(plans), cluster(), COSTS)
    for row, single in enumerate(plans):
        alone = step(single)
        for field in fields(StepColumns):
            together = float(getattr(whole, field.name)[row])
            assert together == pytest.approx(float(getattr(alone, field.name)[0]), rel=1e-9, abs=1e-12)


def test_hundred_thousand_plans_take_about_a_second() -> None:
    plans = [
        plan(
            tensor_parallel=tp,
            pipeline_parallel=pp,
            data_parallel=512 // (tp * pp),
            micro_batch=mb,
            recompute=again,
            sharding=sharding,
        )
        for tp, pp, mb, again, sharding in product(
            (1, 2, 4, 8),
            (1, 2, 4, 8, 16),
            (1, 2, 4),
            ("none", "selective", "full"),
            ("none", "zero1", "zero3"),
        )
    ]
    lattice = PlanLattice.of(plans).take(np.random.default_rng(0).integers(0, len(plans), 100_000))
    gpt = job("gpt-3-175b", 2048, 1536)
    step_time(gpt, lattice.take(np.arange(10)), cluster(), COSTS)
    start = time.process_time()
    step_time(gpt, lattice, cluster(), COSTS)
    assert time.process_time() - start < 3.0  # 0.3 s on an idle core


@settings(max_examples=15, deadline=None)
@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4]), st.floats(1.05, 4.0))
def test_a_faster_accelerator_is_never_slower(tp: int, pp: int, factor: float) -> None:
    plan = TrainingPlan(tensor_parallel=tp, pipeline_parallel=pp, data_parallel=2, sharding="zero1")
    record = accelerators.by_id("h100-sxm")
    assert record.bandwidth_bytes_per_s
    quicker = record.model_copy(update={"bandwidth_bytes_per_s": record.bandwidth_bytes_per_s * factor})
    assert seconds(plan, on=TrainingCluster(quicker)) <= seconds(plan, on=TrainingCluster(record)) * (
        1 + 1e-9
    )


def test_a_slower_network_slows_data_parallelism_across_nodes() -> None:
    plan = TrainingPlan(data_parallel=64, sharding="zero3")
    record = accelerators.by_id("h100-sxm")
    fast, slow = (seconds(plan, on=TrainingCluster(record, 8, NodeNetwork(rate))) for rate in (50e9, 3e9))
    assert slow > 1.3 * fast


def test_sharded_parameters_are_gathered_in_every_micro_batch() -> None:
    on = TrainingCluster(accelerators.by_id("h100-sxm"), 8, NodeNetwork(5e9))
    few, many = (
        step(TrainingPlan(data_parallel=64, sharding="zero3"), job(batch=batch), on) for batch in (64, 256)
    )
    assert float(many.data_parallel_s[0]) == pytest.approx(4.0 * float(few.data_parallel_s[0]), rel=0.05)
    whole = step(TrainingPlan(data_parallel=64, sharding="zero1"), job(batch=256), on)
    assert float(whole.data_parallel_s[0]) < 0.5 * float(many.data_parallel_s[0])


def test_small_models_wait_for_the_host() -> None:
    tiny = step(TrainingPlan(), job("gpt2-xl", 1024, 8), launch_s=2e-5)
    big = step(TrainingPlan(tensor_parallel=8), job("llama-3.1-70b", 8192, 8), launch_s=2e-6)
    assert float(tiny.host_s[0]) > 0.2 * float(tiny.step_s[0])
    assert float(big.host_s[0]) < 0.01 * float(big.step_s[0])
    compiled = step(TrainingPlan(), job("gpt2-xl", 1024, 8, features=frozenset({"compile"})), launch_s=2e-5)
    assert float(compiled.host_s[0]) < float(tiny.host_s[0])


def test_adapters_skip_the_gradients_of_frozen_weights() -> None:
    full = step(TrainingPlan())
    lora = step(TrainingPlan(), job(method="lora", lora_rank=16))
    assert 0.55 < float(lora.step_s[0] / full.step_s[0]) < 0.85
    qlora = seconds(TrainingPlan(), job(method="qlora", lora_rank=16))
    assert qlora > float(lora.step_s[0])


def adapter_time(**changes: Any) -> float:
    """Time that adapters add to a forward pass in PEFT [s]."""
    one = job(framework="peft", software="peft", **changes)
    plain = replace(one, features=one.features | {"adapters_beside_matrices"})
    return float(step(plan(), one).forward_s[0] - step(plan(), plain).forward_s[0])


def test_adapters_cost_what_the_matrices_cost_that_have_them() -> None:
    features = [frozenset(words) for words in ((), ("adapters_all_linear",), ("whole_matrix_adapters",))]
    some, every, whole = (adapter_time(method="lora", lora_rank=16, features=each) for each in features)
    # Queries and values of Llama 3.1 8B are 9 216 of the 50 176 values that adapters on every matrix read and write.
    assert 0.0 < some < 0.3 * every
    assert whole > 2.0 * some
    assert adapter_time(method="lora", lora_rank=64) > some


def test_fewer_adapters_cost_less_whatever_a_framework_has_by_default() -> None:
    """FMS acceleration's LoRA of Mistral-7B on an A100, on attention alone with batches of four: 3,597 tokens/s
    (foundation-model-stack/fms-acceleration pull request 14)."""
    words = ("adapters_query_value", "adapters_attention", "adapters_all_linear")
    times = [
        adapter_time(method="lora", lora_rank=16, features=frozenset({"adapters_all_linear", word}))
        for word in words
    ]
    assert 0.0 < times[0] < times[1] < times[2]
    assert times[1] < 0.5 * times[2]


def test_products_of_adapters_cost_little_where_16_bits_are_far_faster_than_fp32() -> None:
    """An A100 multiplies 16 times as fast in 16 bits; the products of LoRA's rank on every matrix take less than a
    twentieth of a pass, and what else adapters cost does not depend on the rank."""
    one = job(framework="peft", software="trl", method="lora", lora_rank=16)
    one = replace(one, features=frozenset({"adapters_all_linear"}))
    plain = replace(one, features=one.features | {"adapters_beside_matrices"})
    a100 = cluster("a100-sxm-80gb")
    passed, few, more, most = (
        float(step(plan(), each, a100).forward_s[0])
        for each in (plain, one, replace(one, lora_rank=32), replace(one, lora_rank=64))
    )
    assert passed < few < more < most
    assert more - few < 0.05 * passed
    assert most - more == pytest.approx(2.0 * (more - few))


def test_kernels_that_take_values_one_at_a_time_wait_for_processors_not_memory() -> None:
    """DoRA's products with broadcast magnitudes in PEFT: twice the bandwidth helps them less than twice the clock."""
    base = cluster("h200-sxm")
    chip = base.accelerator

    def extra_s(**changes: Any) -> float:
        there = replace(base, accelerator=chip.model_copy(update=changes))
        dora, lora = (
            job(framework="peft", software="peft", method=method, lora_rank=16) for method in ("dora", "lora")
        )
        return float(step(plan(), dora, there).forward_s[0] - step(plan(), lora, there).forward_s[0])

    assert chip.clock_hz is not None
    usual = extra_s()
    faster = extra_s(clock_hz=2.0 * chip.clock_hz)
    wider = extra_s(bandwidth_bytes_per_s=2.0 * chip.bandwidth_bytes_per_s)
    assert faster < wider < usual


def test_experts_divide_over_expert_parallel_ranks() -> None:
    mixtral = job("mixtral-8x7b", 4096, 64)
    alone, spread = (
        step(TrainingPlan(data_parallel=8, expert_parallel=ep, sharding="zero1"), mixtral) for ep in (1, 8)
    )
    assert alone.expert_parallel_s[0] == 0.0 < spread.expert_parallel_s[0]
    assert float(spread.forward_s[0]) == pytest.approx(float(alone.forward_s[0]), rel=0.25)


def test_low_precision_is_faster_where_the_chip_has_it() -> None:
    bf16, fp8 = (seconds(TrainingPlan(micro_batch=2), job(compute_dtype=dtype)) for dtype in ("bf16", "fp8"))
    assert 0.5 * bf16 < fp8 < 0.95 * bf16
    ampere = cluster("a100-sxm-80gb")
    assert seconds(TrainingPlan(), job(compute_dtype="fp8"), ampere) >= seconds(TrainingPlan(), job(), ampere)


def test_stored_attention_scores_cost_more_than_flash_attention() -> None:
    plan = TrainingPlan(tensor_parallel=8)
    stored_scores = frozenset({"unfused_attention"})
    flash = seconds(plan, job("gpt-3-175b", 8192, 1))
    stored = seconds(plan, job("gpt-3-175b", 8192, 1, features=stored_scores))
    assert stored > 1.3 * flash


def test_busiest_stage_holds_the_head() -> None:
    lattice = PlanLattice.of(
        [TrainingPlan(pipeline_parallel=4), TrainingPlan(pipeline_parallel=4, last_stage_layers=5)]
    )
    found = pass_times(job(), lattice, cluster(), COSTS)
    # A last stage with fewer layers makes room for the head of 128 256 words.
    assert float(found.other_stages_share[1]) > float(found.other_stages_share[0])


def _row(value: float, **selectors: Any) -> Term:
    common = {"scope": "framework", "term": "kernel_scale", "unit": "1", "kind": "assumed", "source": "test"}
    return Term(value=value, **common, **selectors)


def test_costs_come_from_the_most_special_term() -> None:
    terms = by_name(
        [
            _row(1.2),
            _row(1.5, name=("fsdp",), until="2024-07"),
            _row(1.0, name=("megatron",), since="2026-05"),
        ]
    )
    early = job(framework="fsdp", date="2024-04-22")
    late = job(framework="fsdp", date="2025-01")
    assert framework_costs(early, "ampere", terms).kernel_scale == 1.5
    assert framework_costs(late, "ampere", terms).kernel_scale == 1.2
    assert framework_costs(job(framework_version="26.06.01"), "hopper", terms).kernel_scale == 1.0
    assert framework_costs(job(framework_version="25.11"), "hopper", terms).kernel_scale == 1.2
    assert framework_costs(job(framework_version="torch 2.13.0"), "hopper", terms).kernel_scale == 1.2


def test_training_on_every_ranked_accelerator_gives_a_finite_time() -> None:
    for accelerator in accelerators.all_accelerators():
        if accelerator.is_ranked:
            found = step_time(job(), PlanLattice.of([TrainingPlan()]), TrainingCluster(accelerator))
            assert 0.0 < float(found.step_s[0]) < 1e6, accelerator.id
