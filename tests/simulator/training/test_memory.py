"""Training memory against numbers that others published: states, activations, adapters, schedules."""

from dataclasses import replace

import numpy as np
import pytest

from advisor.catalog import models
from advisor.catalog.schema import GroupedQueryAttention, LayerGroup, Model, MoeFeedForward
from advisor.catalog.units import GB, GIB
from advisor.simulator.graph.training import model_shape
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.memory import MemoryColumns, PeakStageMemory, fits, peak_memory, stage_memory
from advisor.simulator.training.memory.account import layer_bytes
from advisor.simulator.training.memory.formats import formats_of, nf4_bytes_per_parameter, shape_of
from advisor.simulator.training.plan import PlanLattice, TrainingPlan
from advisor.simulator.training.stages import micro_batches_in_flight


def job_of(name: str, sequence: int = 2048, batch: int = 1024, **changes: object) -> TrainingJob:
    return TrainingJob(models.get(name).record, sequence, batch, **changes)  # type: ignore[arg-type]


def memory(job: TrainingJob, **layout: object) -> MemoryColumns:
    return peak_memory(job, PlanLattice.of([TrainingPlan(**layout)]))  # type: ignore[arg-type]


def states_bytes(job: TrainingJob, **layout: object) -> float:
    """Weights, gradients and optimizer of the first stage, without activations."""
    step: PeakStageMemory = stage_memory(job, TrainingPlan(**layout))[0]  # type: ignore[arg-type]
    at_step = step.instants[-1]
    return at_step.weight_bytes + at_step.gradient_bytes + at_step.optimizer_bytes


def test_mixed_precision_adam_takes_16_bytes_per_parameter() -> None:
    job = job_of("llama-2-7b", framework="deepspeed")
    assert states_bytes(job) == pytest.approx(107.8e9, rel=1e-3)
    assert states_bytes(job) / model_shape(job.model).total == pytest.approx(16.0)


def test_13b_under_zero3_on_8_accelerators_takes_26_gb_each() -> None:
    job = job_of("llama-2-13b", framework="deepspeed")
    assert states_bytes(job, data_parallel=8, sharding="zero3") == pytest.approx(26.0e9, rel=2e-3)


@pytest.mark.parametrize(
    ("sharding", "published_gb"), [("none", 120.0), ("zero1", 31.4), ("zero2", 16.6), ("zero3", 1.9)]
)
def test_zero_divides_states_as_its_paper_prints(sharding: str, published_gb: float) -> None:
    """ZeRO (arXiv:1910.02054), figure 1: 7.5 B parameters on 64 accelerators."""
    job = job_of("llama-2-7b", framework="deepspeed")
    states = states_bytes(job, data_parallel=64, sharding=sharding)
    assert states / model_shape(job.model).total * 7.5 == pytest.approx(published_gb, rel=0.02)


def test_megatron_takes_18_bytes_and_6_of_them_with_its_distributed_optimizer() -> None:
    job = job_of("gpt-3-175b")
    parameters = model_shape(job.model).total
    assert states_bytes(job) / parameters == pytest.approx(18.0)
    assert states_bytes(job, data_parallel=64, sharding="zero1") / parameters == pytest.approx(6 + 12 / 64)


@pytest.mark.parametrize(
    ("layout", "per_value"),
    [
        ({}, 34 + 5 * 96 * 2048 / 12288),
        ({"tensor_parallel": 8, "sequence_parallel": False}, 10 + 24 / 8 + 5 * 96 * 2048 / 12288 / 8),
        ({"tensor_parallel": 8}, (34 + 5 * 96 * 2048 / 12288) / 8),
        ({"tensor_parallel": 8, "recompute": "selective"}, 34 / 8),
        ({"recompute": "full"}, 2.0),
        ({"recompute": "selective", "tensor_parallel": 8, "sequence_parallel": False}, 10 + 24 / 8),
    ],
)
def test_activations_of_a_gpt_layer_are_those_of_korthikanti(
    layout: dict[str, object], per_value: float
) -> None:
    """Reducing Activation Recomputation (arXiv:2205.05198), table 2: bytes per s·b·h of GPT-3."""
    job = job_of("gpt-3-175b", features=frozenset({"dropout", "unfused_attention"}))
    lattice = PlanLattice.of([TrainingPlan(**layout)])  # type: ignore[arg-type]
    layers = layer_bytes(job, formats_of(job), shape_of(job), lattice)
    assert layers.kept[0, 0] / (2048 * 12288) == pytest.approx(per_value, rel=0.002)


@pytest.mark.parametrize(("stages", "chunks"), [(8, 3), (64, 1), (35, 3)])
def test_interleaving_keeps_more_on_the_first_stage(stages: int, chunks: int) -> None:
    """arXiv:2205.05198, section 4.2.3: L (1 + (p − 1) / (p m)) layers' worth on the first stage."""
    schedule = "interleaved" if chunks > 1 else "1f1b"
    plan = TrainingPlan(pipeline_parallel=stages, virtual_stages=chunks, schedule=schedule)  # type: ignore[arg-type]
    found = micro_batches_in_flight(PlanLattice.of([plan]), np.array([0]), np.array([1e9]))
    growth = 1 + (stages - 1) / (stages * chunks) if chunks > 1 else 1
    assert found[0] == pytest.approx(stages * growth)


@pytest.mark.parametrize(
    ("schedule", "first", "last"),
    [
        ("gpipe", 32, 32),
        ("1f1b", 8, 1),
        ("zb_h1", 8, 8),
        ("zbv", 8, 8),
        ("dualpipe", 4.5, 4.5),
    ],
)
def test_micro_batches_in_flight_by_schedule(schedule: str, first: float, last: float) -> None:
    plan = TrainingPlan(pipeline_parallel=8, schedule=schedule)  # type: ignore[arg-type]
    lattice = PlanLattice.of([plan, plan])
    found = micro_batches_in_flight(lattice, np.array([0, 7]), np.array([32.0, 32.0]))
    assert found.tolist() == [first, last]


MIXTRAL_8X2B = Model(
    id="mixtral-8x2b-4",
    name="Mixtral 8x2B, 4 layers",
    hidden_size=2048,
    vocab_size=32000,
    layers=(
        LayerGroup(
            count=4,
            mixer=GroupedQueryAttention(num_heads=16, num_kv_heads=8, head_dim=128),
            feed_forward=MoeFeedForward(num_experts=8, experts_per_token=2, intermediate_size=5440),
        ),
    ),
)


@pytest.mark.parametrize(
    ("tensor", "micro", "real_gb"), [(2, 1, 6.6), (2, 2, 8.0), (1, 1, 11.2), (1, 2, 13.8)]
)
def test_a_small_mixture_of_experts_measured_by_mbridge(tensor: int, micro: int, real_gb: float) -> None:
    """ISEEKYAN/mbridge, memory_estimator/README.md: real peaks on 8 GPUs (it divides by 1024³)."""
    job = TrainingJob(MIXTRAL_8X2B, 4096, 64, features=frozenset({"unfused_ce"}))
    found = memory(
        job, tensor_parallel=tensor, data_parallel=8 // tensor, micro_batch=micro, sharding="zero1"
    )
    assert found.allocated_bytes[0] / GIB == pytest.approx(real_gb, rel=0.04)


def test_65b_in_nf4_with_double_quantisation_weighs_33_7_gb() -> None:
    assert nf4_bytes_per_parameter() * 8 == pytest.approx(4.127, abs=5e-4)
    assert nf4_bytes_per_parameter(double_quantization=False) * 8 == pytest.approx(4.5)
    assert nf4_bytes_per_parameter() * 65.29e9 == pytest.approx(33.7e9, rel=1e-3)


def test_qlora_of_65b_trains_on_48_gb_but_not_at_long_sequences() -> None:
    """QLoRA (arXiv:2305.14314) fine-tunes 65B on one 48 GB GPU with sequences of 512 tokens."""
    job = job_of("llama-65b", 512, 16, method="qlora", lora_rank=64, framework="peft")
    paged = replace(job, features=frozenset({"paged_optimizer", "adapters_all_linear"}))
    assert fits(memory(paged, recompute="full"), 48e9)[0]
    assert not fits(memory(replace(paged, sequence_tokens=32768), recompute="full"), 48e9)[0]


def test_experts_are_divided_by_etp_and_ep_and_not_by_tp() -> None:
    """NVIDIA/Megatron-LM issue 4050: an estimator divided experts by TP."""
    job = job_of("mixtral-8x7b")
    split = {"tensor_parallel": 4, "expert_parallel": 4, "data_parallel": 4}
    whole = memory(job, **split, expert_tensor_parallel=1)
    divided = memory(job, **split, expert_tensor_parallel=4)
    experts = 2 * 45.1e9 / 4
    assert whole.weight_bytes[0] - divided.weight_bytes[0] == pytest.approx(experts * 3 / 4, rel=0.01)


def test_uneven_stages_are_counted_as_they_are() -> None:
    """NVIDIA-NeMo/Megatron-Bridge issue 5077: even stages understate a plan whose first stage is full by a third."""
    job = job_of("gpt-3-175b")
    plan = TrainingPlan(tensor_parallel=8, pipeline_parallel=8, data_parallel=2, recompute="full")
    even, uneven = (
        stage_memory(job, chosen)[0].fullest.allocated_bytes
        for chosen in (plan, replace(plan, first_stage_layers=19))
    )
    assert uneven / even == pytest.approx(19 / 12, rel=0.03)
    assert memory(job, **_layout(replace(plan, first_stage_layers=19))).stage[0] == 0


def test_zero3_can_hold_more_than_zero2() -> None:
    """Where gathered layers outweigh what sharding saves: few ranks, wide layers (the direction of DeepSpeed 5305)."""
    job = job_of("llama-3.1-405b", 1024, 2, framework="deepspeed", optimizer="sgd")
    wide = replace(job, model=job.model.model_copy(update={"layers": (_layers(job.model, 2),)}))
    second = memory(wide, data_parallel=2, sharding="zero2", recompute="full", offload_optimizer=True)
    third = memory(wide, data_parallel=2, sharding="zero3", recompute="full", offload_optimizer=True)
    assert third.weight_bytes[0] < second.weight_bytes[0]
    assert third.reserved_bytes[0] > second.reserved_bytes[0]


def test_the_last_stage_has_the_logits_and_the_first_the_most_micro_batches() -> None:
    job = job_of("llama-3.1-70b", 8192)
    stages = stage_memory(job, TrainingPlan(tensor_parallel=8, pipeline_parallel=8, data_parallel=4))
    assert [stage.instants[0].loss_bytes > 0 for stage in stages] == [False] * 7 + [True]
    kept = [stage.instants[0].activation_bytes for stage in stages]
    assert kept == sorted(kept, reverse=True)
    assert kept[0] / kept[7] == pytest.approx(8.0)


def test_columns_report_the_fullest_stage_and_instant() -> None:
    job = job_of("llama-3.1-70b", 8192)
    plan = TrainingPlan(tensor_parallel=8, pipeline_parallel=4, data_parallel=8, recompute="full")
    stages = stage_memory(job, plan)
    fullest = max(stages, key=lambda stage: stage.peak_bytes)
    found = memory(job, **_layout(plan))
    assert found.stage[0] == fullest.stage
    assert found.peak_bytes[0] == pytest.approx(fullest.peak_bytes)
    assert found.allocated_bytes[0] == pytest.approx(fullest.fullest.allocated_bytes)


def test_own_fsdp_step_on_8_h200() -> None:
    """Measured: 29.541 GB allocated (Llama-3.1-8B, 4 096 tokens, micro-batch 2, full recomputation, fp32 logits)."""
    features = frozenset({"fp32_params", "fp32_grad_reduce", "unfused_ce", "compile"})
    job = job_of("llama-3.1-8b", 4096, 16, framework="fsdp", features=features)
    found = memory(job, data_parallel=8, micro_batch=2, sharding="zero3", recompute="full")
    assert found.allocated_bytes[0] == pytest.approx(29.541 * GB, rel=0.02)


def _layout(plan: TrainingPlan) -> dict[str, object]:
    return {name: getattr(plan, name) for name in TrainingPlan.__dataclass_fields__}


def _layers(model: Model, count: int) -> LayerGroup:
    return model.layers[0].model_copy(update={"count": count})


@pytest.mark.parametrize(
    ("optimizer", "framework", "per_parameter"),
    [
        ("adamw", "fsdp", 16.0),
        ("adamw_8bit", "deepspeed", 2 + 2 + 4 + 2 * (1 + 4 / 256)),
        ("muon", "deepspeed", 2 + 2 + 4 + 4),
        ("sgd", "deepspeed", 2 + 2 + 4),
        ("sgd", "megatron", 2 + 4 + 4 + 4),
        ("adafactor", "deepspeed", 2 + 2 + 4 + 8 / 4096),
    ],
)
def test_states_by_optimizer(optimizer: str, framework: str, per_parameter: float) -> None:
    job = job_of("llama-2-7b", framework=framework, optimizer=optimizer)
    assert states_bytes(job) / model_shape(job.model).total == pytest.approx(per_parameter)


def test_a_recipe_in_bf16_takes_8_bytes_and_low_bit_training_adds_copies() -> None:
    recipe = job_of("llama-2-7b", framework="fsdp", software="torchtune")
    parameters = model_shape(recipe.model).total
    assert states_bytes(recipe) / parameters == pytest.approx(8.0)
    tables = 2 * 32000 * 4096
    low = [states_bytes(job_of("llama-2-7b", compute_dtype=name)) for name in ("bf16", "fp8", "nvfp4")]
    assert (low[1] - low[0]) / (parameters - tables) == pytest.approx(2.0, rel=1e-3)
    assert (low[2] - low[0]) / (parameters - tables) == pytest.approx(1.125, rel=1e-3)


def test_a_shard_group_divides_by_its_ranks_only() -> None:
    job = job_of("llama-2-7b", framework="fsdp")
    hybrid = states_bytes(job, data_parallel=64, sharding="zero3", shard_group=8)
    assert hybrid == pytest.approx(states_bytes(job, data_parallel=8, sharding="zero3"))


def test_context_parallel_ranks_share_shards_and_activations() -> None:
    job = job_of("llama-3.1-8b", 8192, framework="fsdp")
    alone, shared = (memory(job, context_parallel=cp, data_parallel=8, sharding="zero3") for cp in (1, 4))
    assert shared.weight_bytes[0] == pytest.approx(alone.weight_bytes[0] / 4)
    assert shared.activation_bytes[0] == pytest.approx(alone.activation_bytes[0] / 4)


def test_key_value_heads_limit_what_tensor_parallelism_divides() -> None:
    """Eight key-value heads on sixteen ranks: each keeps keys and values of one head, not of half a head."""
    job = job_of("llama-3.1-70b", 8192)
    lattice = PlanLattice.of([TrainingPlan(tensor_parallel=tp) for tp in (8, 16)])
    kept = layer_bytes(job, formats_of(job), shape_of(job), lattice).kept[0] / 8192
    keys_and_values = 2 * 2 * 8 * 128
    assert kept[1] == pytest.approx((kept[0] * 8 - keys_and_values) / 16 + keys_and_values / 8)


def test_dora_needs_more_than_lora() -> None:
    lora, dora = (
        memory(job_of("llama-3.1-8b", 2048, 8, framework="peft", method=method, lora_rank=16))
        for method in ("lora", "dora")
    )
    assert dora.activation_bytes[0] > lora.activation_bytes[0]
    assert dora.optimizer_bytes[0] > lora.optimizer_bytes[0]
