"""Cases of published training runs: what may be seen, what bad cells give, how open knobs are set."""

import csv
import random
from pathlib import Path

import pytest
from published_rows import TRAINING_ROW, Watched

from advisor.catalog.errors import InputFileError
from advisor.catalog.schema import MoeFeedForward
from advisor.evidence.prediction import Prediction
from advisor.evidence.training.case import (
    INPUT_COLUMNS,
    METRICS,
    TrainingCase,
    parse_case,
)
from advisor.evidence.training.prediction import predict_row
from advisor.evidence.training.unstated import resolve_knobs
from advisor.simulator.device import decode_draw_fraction
from advisor.simulator.graph.training import model_shape

POINTS = Path(__file__).resolve().parents[1] / "published" / "training_points.csv"
NOT_INPUTS = ("notes", "source", "source_ref", "tier", "group", "primary_metric", *METRICS)


def predict(**cells: str) -> Prediction:
    return predict_row(TRAINING_ROW | cells, 7)


def case(**cells: str) -> TrainingCase:
    return parse_case(TRAINING_ROW | cells, 7)


def test_only_input_columns_are_read() -> None:
    row = Watched(TRAINING_ROW)
    assert predict_row(row, 7).status == "ok"
    assert row.read <= set(INPUT_COLUMNS)
    assert not set(INPUT_COLUMNS) & set(NOT_INPUTS)


def test_shuffled_notes_sources_and_measurements_change_nothing() -> None:
    with POINTS.open(newline="") as file:
        rows = list(csv.DictReader(file))[::4]
    before = [predict_row(row, number) for number, row in enumerate(rows, 2)]
    rng = random.Random(1)
    for name in (*NOT_INPUTS, "source"):
        cells = [row.get(name, f"{name} of another run") or "7" for row in rows]
        rng.shuffle(cells)
        for row, cell in zip(rows, cells, strict=True):
            row[name] = cell
    assert [predict_row(row, number) for number, row in enumerate(rows, 2)] == before


def test_every_metric_is_predicted_with_an_interval_around_it() -> None:
    found = predict().metrics
    assert set(found) == {
        "tokens_per_s_per_gpu",
        "tflops_per_gpu",
        "mfu",
        "step_time_s",
        "peak_mem_gb",
        "oom",
    }
    for quantity in found.values():
        assert quantity.low <= quantity.value <= quantity.high
    assert found["step_time_s"].low < found["step_time_s"].high
    rate = 1024 * 8192 / 64 / found["step_time_s"].value
    assert found["tokens_per_s_per_gpu"].value == pytest.approx(rate)
    assert found["mfu"].value == pytest.approx(found["tflops_per_gpu"].value / 989.4)


@pytest.mark.parametrize(
    ("cells", "word"),
    [
        ({"n_gpus": "many"}, "n_gpus"),
        ({"seq_len": "-1"}, "seq_len"),
        ({"tp": "0"}, "tp"),
        ({"micro_batch": "1.5"}, "micro_batch"),
        ({"power_cap_w": "nan"}, "power_cap_w"),
        ({"compile": "2"}, "compile"),
    ],
)
def test_a_bad_cell_is_named_and_is_an_error_of_its_row(cells: dict[str, str], word: str) -> None:
    with pytest.raises(InputFileError, match=f"row 7: {word}"):
        case(**cells)
    found = predict(**cells)
    assert (found.status, found.metrics) == ("error", {})
    assert word in found.reason


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"gpu": "h100-sxl"}, "not in the catalog"),
        ({"model": "no-such-model"}, "unknown model"),
        ({"precision": "fp3"}, "not modelled"),
    ],
)
def test_what_is_not_told_or_modelled_is_unsupported_with_a_reason(
    cells: dict[str, str], reason: str
) -> None:
    found = predict(**cells)
    assert found.status == "unsupported"
    assert reason in found.reason


@pytest.mark.parametrize(
    ("cells", "assumed"),
    [
        ({"gpu": ""}, "accelerator"),
        ({"dp": "31"}, "data_parallel"),
        ({"n_gpus": "63", "dp": ""}, "data_parallel"),
        ({"n_gpus": "", "tp": "", "pp": "", "cp": "", "dp": "", "params_b": "8"}, "num_accelerators"),
        ({"precision": "fp8-tensorwise"}, "precision"),
        ({"model": "somebody/base-8b", "params_b": ""}, "shape"),
    ],
)
def test_what_a_row_leaves_open_or_contradicts_is_assumed_and_said(
    cells: dict[str, str], assumed: str
) -> None:
    found = predict(**cells)
    assert found.status == "ok"
    assert assumed in found.reason
    rate = found.metrics["tokens_per_s_per_gpu"].value
    assert rate == pytest.approx(predict().metrics["tokens_per_s_per_gpu"].value, rel=0.6)


def test_an_unknown_mixture_has_the_experts_that_its_name_or_sizes_tell() -> None:
    named = case(model="Mixtral-8x2B reduced (4 layers)", layers="4").job.model
    experts = named.layers[0].feed_forward
    assert isinstance(experts, MoeFeedForward)
    assert (named.layers[0].count, experts.num_experts, experts.experts_per_token) == (4, 8, 2)
    sized = case(model="somebody/moe", params_b="120", active_params_b="6").job.model
    shape = model_shape(sized)
    assert shape.total == pytest.approx(120e9, rel=0.05)


def test_experts_spread_over_the_machine_where_nothing_is_said() -> None:
    row = {"model": "mistralai/Mixtral-8x7B-v0.1", "tp": "2", "pp": "1", "cp": "1", "dp": "32"}
    assert case(**row).plan.expert_parallel == 4
    assert case(**row, ep="8").plan.expert_parallel == 8
    assert case(**row, framework="torchtitan", sharding="fsdp").plan.expert_parallel == 1


def test_a_pipeline_of_unknown_batch_is_not_all_bubble() -> None:
    row = {"tp": "4", "pp": "4", "cp": "1", "dp": "4", "micro_batch": "1"}
    unknown, full = (predict(**row, global_batch_seqs=batch).metrics for batch in ("", "2048"))
    rate, most = (metrics["tokens_per_s_per_gpu"].value for metrics in (unknown, full))
    assert 0.85 * most < rate < most


def test_a_peak_is_one_that_the_accelerator_can_show() -> None:
    """Without recomputation it does not fit, so whoever printed a peak recomputed."""
    row = {
        "framework": "transformers",
        "recompute": "",
        "sharding": "fsdp",
        "tp": "1",
        "dp": "64",
        "seq_len": "32768",
    }
    found = predict(**row).metrics
    assert found["oom"].value == 1.0
    assert found["peak_mem_gb"].value <= case(**row).cluster.accelerator.memory_bytes / 1e9


def test_learned_tokens_of_prompts_are_computed_too() -> None:
    row = {
        "model": "meta-llama/Llama-3.2-3B",
        "gpu": "l40s",
        "n_gpus": "1",
        "dp": "1",
        "tp": "1",
        "pp": "1",
        "cp": "1",
        "framework": "transformers+peft",
        "sharding": "",
        "seq_len": "768",
        "global_batch_seqs": "4",
        "micro_batch": "4",
        "trainable_params": "614400",
        "recompute": "none",
    }
    prompt, other = (
        predict(**row, finetune=f"peft:{name}").metrics for name in ("prompt_tuning", "ln_tuning")
    )
    assert case(**row, finetune="peft:prompt_tuning").job.virtual_tokens == 200
    assert prompt["step_time_s"].value == pytest.approx(other["step_time_s"].value * 968 / 768, rel=0.1)
    assert prompt["peak_mem_gb"].value > 1.08 * other["peak_mem_gb"].value


def test_a_reinforcement_learning_step_has_no_time_of_its_own() -> None:
    found = predict(finetune="grpo")
    assert "rollouts" in found.reason
    assert "step_time_s" not in found.metrics


def test_more_stages_than_layers_is_infeasible() -> None:
    found = predict(pp="64", dp="1", cp="1")
    assert found.status == "infeasible"
    assert "64 pipeline stages" in found.reason


def test_shape_columns_override_the_named_model() -> None:
    found = case(layers="4", hidden="4096", heads="32", kv_heads="8", ffn="14336", vocab="128256").job.model
    assert sum(group.count for group in found.layers) == 4
    custom = case(
        model="GPT L20 h2048 a16", layers="20", hidden="2048", heads="16", ffn="8192", vocab="51200"
    ).job.model
    assert (custom.hidden_size, custom.tied_embeddings) == (2048, True)
    assert not custom.layers[0].feed_forward.gated  # type: ignore[union-attr]
    reduced = case(model="deepseek-ai/DeepSeek-V3", layers="4").job.model
    assert sum(group.count for group in reduced.layers) == 4
    assert len(reduced.layers) == 2


def test_a_model_of_known_size_only_is_assumed_and_says_so() -> None:
    found = predict(model="6.8B HF model", params_b="6.8")
    assert (found.status, found.basis) == ("ok", "assumed")
    assert "shape" in found.reason


def test_the_machine_of_the_test_overrides_the_catalog() -> None:
    tested = case(gpu_mem_gb="64", mem_bw_tb_s="2", power_cap_w="500").cluster.accelerator
    assert tested.memory_bytes == 64e9
    # Reading draws less than products do, so that a limit costs it less.
    drawn = decode_draw_fraction(tested)
    assert drawn < 1.0
    assert tested.bandwidth_bytes_per_s == pytest.approx(2e12 * (5 / 7 / drawn) ** (1 / 3))
    assert (
        predict(power_cap_w="300").metrics["step_time_s"].value > 1.2 * predict().metrics["step_time_s"].value
    )


@pytest.mark.parametrize(
    ("text", "gigabytes_per_s"),
    [
        ("NVLink; 4x100Gb RoCE per node", 6.25),
        ("NVLink; 800 Gb/s inter-node", 12.5),
        ("NVLink3 + IB HDR 8x200Gb (Selene)", 25.0),
        (
            "NVLINK Gen4 900 GB/s | Storage: 2x CX7 IB NDR 400Gb/s, Compute: 8x ConnectX-7 IB NDR 400Gb/s",
            50.0,
        ),
        ("reference DGX Cloud systems", 0.0),
    ],
)
def test_the_network_is_read_from_its_description(text: str, gigabytes_per_s: float) -> None:
    network = case(interconnect=text).cluster.network
    assert (network.bytes_per_s if network else 0.0) == pytest.approx(gigabytes_per_s * 1e9)


def test_racks_with_one_fabric_are_divided_evenly() -> None:
    assert case(gpu="gb200", n_gpus="256", gpus_per_node="4", dp="128").cluster.domain == 64
    assert (
        case(gpu="tpu-v5e", n_gpus="512", dp="256", interconnect="ICI; 2 slice(s) over DCN").cluster.domain
        == 256
    )


def test_cores_count_as_chips_where_the_row_says_so() -> None:
    cells = {"gpu": "trainium2", "n_gpus": "32", "tp": "32", "pp": "1", "cp": "1", "dp": "8"}
    plan = case(**cells, features="degrees_count_cores").plan
    assert (plan.tensor_parallel, plan.data_parallel) == (4, 8)


def test_stated_knobs_stay_and_open_ones_are_the_fastest_that_fit() -> None:
    stated = resolve_knobs(case())
    assert stated.plan == case().plan
    open_knobs = {
        "framework": "NeMo (Megatron)",
        "model": "meta-llama/Meta-Llama-3.1-70B",
        "tp": "4",
        "pp": "8",
        "cp": "1",
        "dp": "2",
        "recompute": "",
        "sharding": "",
        "vpp": "",
        "global_batch_seqs": "32",
    }
    found = resolve_knobs(case(**open_knobs))
    assert {"recompute", "sharding", "virtual_stages"} <= case(**open_knobs).unstated
    assert (found.plan.tensor_parallel, found.plan.pipeline_parallel) == (4, 8)
    assert found.plan.schedule == "interleaved"
    assert found.fits
    smaller = resolve_knobs(case(**open_knobs, gpu_mem_gb="60"))
    assert float(smaller.step.step_s[0]) >= float(found.step.step_s[0])


def test_an_unknown_layout_agrees_with_batch_and_accumulation() -> None:
    row = dict.fromkeys(("tp", "pp", "cp", "dp", "micro_batch", "sharding", "recompute", "precision"), "") | {
        "model": "GPT-3 175B (MLPerf)",
        "n_gpus": "512",
        "global_batch_seqs": "2048",
        "grad_accum": "64",
        "seq_len": "2048",
        "framework": "NVIDIA NeMo Framework",
        "framework_version": "24.09",
    }
    found = resolve_knobs(case(**row))
    plan = found.plan
    assert plan.num_accelerators == 512
    assert plan.data_parallel * plan.micro_batch * 64 == 2048
    assert found.job.compute_dtype == "fp8"
    prediction = predict(**row)
    assert prediction.basis == "assumed"
    assert 20.0 < prediction.metrics["time_to_train_min"].value < 100.0


def test_memory_follows_the_kind_that_was_measured() -> None:
    kinds = {
        kind: predict(peak_mem_kind=kind).metrics["peak_mem_gb"]
        for kind in ("allocated", "reserved", "unspecified")
    }
    assert kinds["allocated"].value < kinds["reserved"].value
    width = {kind: found.high / found.low for kind, found in kinds.items()}
    assert width["unspecified"] > width["reserved"]


def test_what_does_not_fit_is_an_out_of_memory() -> None:
    cells = {
        "n_gpus": "8",
        "cp": "1",
        "dp": "8",
        "sharding": "none",
        "model": "meta-llama/Meta-Llama-3.1-70B",
        "global_batch_seqs": "8",
    }
    assert predict(**cells).metrics["oom"].value == 1.0
    assert predict().metrics["oom"].value == 0.0


def test_a_peak_of_megatron_is_what_it_logs() -> None:
    """max_memory_allocated, where a row does not say which peak it means; of others what the allocator holds."""
    row = {
        "framework": "Megatron-LM 0.14",
        "model": "meta-llama/Meta-Llama-3-70B",
        "layers": "12",
        "gpu": "b200-sxm",
        "n_gpus": "8",
        "precision": "bf16",
        "seq_len": "4096",
        "global_batch_seqs": "16",
        "micro_batch": "1",
        "tp": "2",
        "pp": "1",
        "dp": "4",
        "sharding": "dist_opt",
        "recompute": "none",
        "finetune": "pretrain",
    }

    def peak(framework: str, kind: str) -> float:
        return (
            predict_row({**row, "framework": framework, "peak_mem_kind": kind}, 2)
            .metrics["peak_mem_gb"]
            .value
        )

    megatron = "Megatron-LM 0.14"
    assert peak(megatron, "unspecified") == peak(megatron, "allocated") < peak(megatron, "reserved")
    assert peak("torchtitan", "unspecified") == peak("torchtitan", "reserved")
