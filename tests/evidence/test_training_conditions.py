"""Statements of published training rows on recipes, losses, batches, shards and schedules."""

from itertools import product

import pytest
from published_rows import TRAINING_ROW

from advisor.evidence.fit.training import measured_step_s
from advisor.evidence.training import recipes
from advisor.evidence.training.case import TrainingCase, parse_case
from advisor.evidence.training.prediction import predict_row
from advisor.evidence.training.unstated import resolve_knobs


def case(**cells: str) -> TrainingCase:
    return parse_case(TRAINING_ROW | cells, 7)


def test_a_recipe_of_a_container_states_its_switches() -> None:
    """Source: NVIDIA-NeMo/Megatron-Bridge, workload_base_configs.py at v0.3.0: alltoall, moe_a2a_overlap."""
    found = case(
        framework="Megatron-Bridge (NeMo)",
        framework_version="26.02",
        model="Qwen/Qwen3-235B-A22B",
        n_gpus="256",
        tp="2",
        pp="8",
        vpp="4",
        cp="1",
        ep="32",
        dp="16",
        recompute="",
    )
    assert {"alltoall_dispatcher", "overlapped_experts"} <= found.job.features
    assert "recompute" not in found.unstated
    graphed = case(
        framework="Megatron-Bridge (NeMo)",
        framework_version="26.08",
        model="Qwen/Qwen3-235B-A22B",
        gpu="gb200",
        n_gpus="256",
        precision="mxfp8",
        tp="1",
        pp="8",
        cp="1",
        ep="32",
        dp="32",
        recompute="",
    )
    assert {"graphed_step", "fused_experts", "hybrid_dispatcher"} <= graphed.job.features


def test_no_two_recipes_hold_for_one_run() -> None:
    rows = recipes.all_rows()
    for row in rows:
        for model, chip, precision in product(
            *(row[name].split() for name in ("model", "accelerator", "precision"))
        ):
            holding = [
                one
                for one in rows
                if model in one["model"].split()
                and chip in one["accelerator"].split()
                and precision in one["precision"].split()
                and one["since"] <= row["since"] < (one["until"] or "9")
            ]
            assert holding == [row], (model, chip, precision, row["since"])


def test_an_offloaded_optimizer_and_a_fused_loss_are_read() -> None:
    found = case(
        framework="DeepSpeed+HF+Liger", framework_version="", optimizer="adamw, CPU offload", sharding="zero3"
    )
    assert found.plan.offload_optimizer
    assert "linear_ce" in found.job.features


@pytest.mark.parametrize(
    ("method", "features"),
    [
        ("lora", set()),
        ("peft:vera", set()),
        ("peft:prompt_tuning", {"adapters_beside_matrices"}),
        ("peft:loha", {"whole_matrix_adapters"}),
    ],
)
def test_the_work_of_an_adapter_follows_from_its_method(method: str, features: set[str]) -> None:
    found = case(framework="peft", framework_version="", finetune=method).job
    assert found.features & {"adapters_beside_matrices", "whole_matrix_adapters"} == features
    assert found.method == "lora"
    assert case(framework="peft", framework_version="", finetune="peft:ia3").job.method == "ia3"


def test_torchtitan_cuts_a_batch_into_as_many_micro_batches_as_pipeline_ranks() -> None:
    cells = {
        "framework": "torchtitan",
        "framework_version": "",
        "model": "meta-llama/Llama-3.1-405B",
        "n_gpus": "512",
        "tp": "8",
        "pp": "8",
        "cp": "1",
        "dp": "8",
        "micro_batch": "",
        "local_batch": "32",
        "sharding": "hsdp",
        "shard_group": "8",
    }
    assert case(**cells).plan.micro_batch == 4
    assert case(**cells, pp_schedule="interleaved_1f1b").plan.micro_batch == 4


def test_a_shard_group_smaller_than_a_node_is_not_believed() -> None:
    cells = {"framework": "torchtitan", "framework_version": "", "sharding": "hsdp", "cp": "1", "dp": "64"}
    assert case(**cells, shard_group="2").plan.shard_group == 0
    assert case(**cells, shard_group="8").plan.shard_group == 8


def test_maxtext_runs_the_batch_of_a_chip_at_once() -> None:
    cells = {
        "framework": "maxtext",
        "framework_version": "",
        "gpu": "tpu-v5p",
        "n_gpus": "256",
        "micro_batch": "",
        "dp": "",
        "cp": "",
        "sharding": "fsdp",
        "global_batch_seqs": "1024",
    }
    assert case(**cells).plan.micro_batch == 4
    long = case(**cells | {"global_batch_seqs": "64"})
    assert (long.plan.context_parallel, long.plan.data_parallel, long.plan.micro_batch) == (4, 64, 1)
    assert "context_parallel" in long.unstated


@pytest.mark.parametrize(
    ("word", "framework", "schedule"),
    [
        ("DualPipe", "Megatron-LM", "dualpipe"),
        ("", "HAI-LLM", "dualpipe"),
        ("ZB-H1", "Megatron-LM", "zb_h1"),
        ("interleaved_1f1b", "NeMo", "interleaved"),
        ("1f1b", "HAI-LLM", "1f1b"),
        ("", "NeMo", "1f1b"),
    ],
)
def test_a_schedule_is_read_by_its_name(word: str, framework: str, schedule: str) -> None:
    found = case(framework=framework, framework_version="", pp="4", dp="8", pp_schedule=word)
    assert found.plan.schedule == schedule
    assert found.job.framework == "megatron"


def test_features_act_or_are_named_as_not_read() -> None:
    found = case(features="flux_capacitor, tiled_mlp  fused_frobnicator", framework="DeepSpeed+HF")
    assert found.unread == ("flux_capacitor", "fused_frobnicator")
    told = predict_row(TRAINING_ROW | {"features": "flux_capacitor"}, 7)
    assert "not read: flux_capacitor" in told.reason
    assert "not read" not in predict_row(TRAINING_ROW | {"features": "chunked_ce"}, 7).reason


def test_switches_in_a_framework_s_name_act_as_in_its_features() -> None:
    cells = {"cp": "8", "dp": "8", "sharding": "zero3", "seq_len": "131072", "global_batch_seqs": "64"}
    named = case(framework="DeepSpeed+HF+Liger (TiledMLP, ALST)", **cells)
    stated = case(framework="DeepSpeed+HF+Liger", features="tiled_mlp ALST", **cells)
    assert named.job.features == stated.job.features
    assert (named.plan, named.unread) == (stated.plan, ())
    assert named.plan.offload_activations


@pytest.mark.parametrize(("date", "runs"), [("2025", True), ("2024-12", False)])
def test_selective_recomputation_leaves_modules_open_since_megatron_names_them(date: str, runs: bool) -> None:
    """Qwen3-235B-A22B on 256 H800s with 32 stages of 3 chunks: core attention alone is not what was recomputed."""
    row = TRAINING_ROW | {
        "date": date,
        "framework": "megatron-core (Pai)",
        "framework_version": "",
        "model": "Qwen/Qwen3-235B-A22B",
        "gpu": "h800-sxm",
        "n_gpus": "256",
        "seq_len": "4096",
        "global_batch_seqs": "2048",
        "tp": "2",
        "pp": "32",
        "vpp": "3",
        "cp": "1",
        "ep": "8",
        "dp": "4",
        "sharding": "zero1",
        "recompute": "selective",
    }
    assert (predict_row(row, 2).metrics["oom"].value == 0.0) == runs


def test_a_step_of_a_batch_that_is_not_stated_is_measured_by_its_rate() -> None:
    row = TRAINING_ROW | {"global_batch_seqs": "", "grad_accum": "", "local_batch": ""}
    raw = row | {"step_time_s": "1000", "tokens_per_s_per_gpu": "500"}
    case = parse_case(row, 2)
    found = resolve_knobs(case)
    tokens = found.job.tokens_per_step / case.num_accelerators
    assert measured_step_s(raw, case, found) == pytest.approx(tokens / 500)
    stated = parse_case(TRAINING_ROW, 2)
    assert measured_step_s(raw, stated, resolve_knobs(stated)) == 1000.0


@pytest.mark.parametrize(
    ("cells", "held"),
    [
        ({"precision": "fp8"}, True),
        ({"precision": "bf16"}, False),
        ({"precision": "nvfp4", "gpu": "b200-sxm"}, False),
        ({"precision": "fp8", "framework": "Megatron-LM", "framework_version": ""}, False),
        ({"precision": "fp8", "model": "deepseek-ai/DeepSeek-V3", "n_gpus": "256", "pp": "8"}, False),
    ],
)
def test_nvidias_recipes_hold_parameters_in_fp8(cells: dict[str, str], held: bool) -> None:
    """Source: NVIDIA-NeMo/Megatron-Bridge v0.4.2, training/mixed_precision.py: fp8_param_gather."""
    found = case(**({"framework": "NeMo (Megatron)", "framework_version": "25.04"} | cells))
    assert ("fp8_allgather" in found.job.features) is held


def test_frozen_weights_of_adapters_take_one_byte_in_fp8() -> None:
    """MLPerf v4.0, NVIDIA's llama2_70b_lora on eight H100s: TP4 with micro-batches of one fits, nothing recomputed."""
    found = case(
        framework="NVIDIA NeMo Framework",
        framework_version="24.04",
        model="meta-llama/Llama-2-70b-hf",
        gpu="h100-sxm",
        n_gpus="8",
        precision="",
        seq_len="8192",
        global_batch_seqs="8",
        grad_accum="4",
        micro_batch="1",
        tp="4",
        pp="1",
        cp="1",
        dp="2",
        finetune="lora",
        lora_rank="16",
        recompute="none",
    )
    known = resolve_knobs(found)
    weights = float(known.memory.weight_bytes[0])
    assert known.fits
    assert 68.9e9 / 4 < weights < 1.1 * 68.9e9 / 4


@pytest.mark.parametrize(
    ("gpu", "release", "held_gb"), [("h100-sxm", "2025-03", 47.65), ("mi300x", "2025-08", 39.09)]
)
def test_memory_of_one_plan_follows_the_release_of_torchtitan(gpu: str, release: str, held_gb: float) -> None:
    """pytorch/ao, docs/source/workflows/training.md: Llama 3 8B, batch 1, per-operator recomputation, compiled.
    torchtitan 0.0.2 did not compile the loss, nightlies of August 2025 did."""
    row = {
        "framework": "torchtitan",
        "framework_version": release,
        "model": "meta-llama/Meta-Llama-3-8B",
        "gpu": gpu,
        "n_gpus": "8",
        "precision": "bf16",
        "seq_len": "8192",
        "global_batch_seqs": "8",
        "micro_batch": "1",
        "sharding": "fsdp",
        "shard_group": "8",
        "recompute": "selective",
        "compile": "1",
        "peak_mem_kind": "reserved",
    }
    assert predict_row(row, 1).metrics["peak_mem_gb"].value == pytest.approx(held_gb, rel=0.05)
