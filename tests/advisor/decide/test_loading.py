"""Layouts in which an engine loads the checkpoint that it is given: whole blocks of scales, room before quantising, and
methods of quantising that the accelerator's platform has."""

import datetime
from typing import Any

import pytest

from advisor.catalog import accelerators, engines, models
from advisor.catalog.architectures import ClassLimit, class_lacks, class_support
from advisor.catalog.launch import LaunchSettings, launch
from advisor.catalog.published import is_block_scaled, reads_checkpoint, served_checkpoint, served_model
from advisor.catalog.schema import Accelerator, Engine, Model
from advisor.decide.candidates import Candidate, cache_format, candidates_of
from advisor.decide.scenario import AdapterLoad, Constraints, Scenario, Traffic
from advisor.decide.starting import launch_settings
from advisor.simulator.deployment import cache_dtype_of

BLOCK = 128


def candidates_on(model: str, chip: str, engine: str, precision: str = "fp8") -> list[Candidate]:
    return candidates_of(
        accelerators.by_id(chip),
        models.by_id(model),
        (engines.by_id(engine),),
        precisions=(precision,),
        mean_context_tokens=1500.0,
        max_context_tokens=8192.0,
    )[0]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize(
    ("model", "chip"),
    [
        ("minimax-m2", "l40s"),
        ("qwen3-235b-a22b", "h100-sxm"),
        ("qwen3-coder-480b-a35b", "h100-sxm"),
        ("qwen3-30b-a3b", "l4"),
        ("deepseek-v3", "h200-sxm"),
        ("deepseek-v3", "h100-sxm"),
    ],
)
def test_ranks_hold_whole_blocks_of_experts(engine: str, model: str, chip: str) -> None:
    able = candidates_on(model, chip, engine)
    assert able
    for one in able:
        run = one.deployment
        assert is_block_scaled(run.model, run.engine, "fp8", run.accelerator)
        for group in run.model.layers:
            part = group.feed_forward
            if part is not None and part.kind == "moe" and run.expert_tensor_parallel > 1:
                assert part.intermediate_size % (BLOCK * run.expert_tensor_parallel) == 0


def test_experts_stay_whole_where_eight_ranks_would_cut_them() -> None:
    wide = [one.deployment for one in candidates_on("qwen3-coder-480b-a35b", "h100-sxm", "vllm")]
    assert wide
    assert all(run.expert_parallel > 1 for run in wide if run.ranks_per_stage == 8)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_ranks_hold_whole_groups_of_4_bit_weights_as_the_checkpoint_pads_them(engine: str) -> None:
    widths = {"qwen2.5-14b": 13_824, "qwen2.5-7b": 18_944, "qwen2.5-72b": 29_696}
    for model, width in widths.items():
        able = [one.deployment for one in candidates_on(model, "l40s", engine, "int4")]
        assert able
        assert all(width % (BLOCK * run.tensor_parallel) == 0 for run in able)
    assert max(run.tensor_parallel for run in able) == 8


def test_files_that_are_cut_for_some_ranks_load_in_that_layout_alone() -> None:
    found = [one.deployment for one in candidates_on("grok-2", "h200-sxm", "sglang", "bf16")]
    assert {(run.tensor_parallel, run.accelerators_per_replica) for run in found} == {(8, 8)}


@pytest.mark.parametrize(
    ("model", "chip", "least"), [("kimi-linear-48b-a3b", "h100-sxm", 2), ("mixtral-8x7b", "h100-sxm", 2)]
)
def test_weights_fit_before_an_engine_quantises_them(model: str, chip: str, least: int) -> None:
    sglang = [
        one for one in candidates_on(model, chip, "sglang") if one.checkpoint.origin == "quantised on loading"
    ]
    assert all(one.deployment.ranks_per_stage >= least for one in sglang)
    vllm = [
        one for one in candidates_on(model, chip, "vllm") if one.checkpoint.origin == "quantised on loading"
    ]
    assert len(vllm) >= len(sglang)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_checkpoint_that_is_started_is_one_that_the_engine_reads(engine: str) -> None:
    ours = accelerators.by_id("mi300x")
    runs = engines.by_id(engine)
    for model in models.all_models():
        if model.workload != "decoder":
            continue
        for precision in ("fp8", "nvfp4", "int4"):
            name = served_checkpoint(model, runs, precision, ours).repository
            assert reads_checkpoint(name, precision, runs, ours), name


@pytest.mark.parametrize(
    ("engine", "model", "what"),
    [
        ("llama.cpp", "deepseek-v3", "tensor"),
        ("llama.cpp", "olmo-2-32b", "tensor"),
        ("sglang", "grok-1", "pipeline"),
        ("vllm", "falcon-7b", "adapters"),
        ("vllm", "mixtral-8x7b", "eagle"),
        ("sglang", "minimax-m3", "mtp"),
    ],
)
def test_an_engine_divides_and_extends_only_classes_that_can(
    engine: str, model: str, what: ClassLimit
) -> None:
    record = engines.by_id(engine)
    assert class_lacks(record, models.by_id(model), what)
    assert not class_lacks(record, models.by_id("llama-3.1-8b"), what)
    earlier = record.model_copy(update={"release": "0.0.1"})
    assert not class_lacks(earlier, models.by_id(model), what)
    for one in candidates_on(model, "h200-sxm", engine, "bf16"):
        run = one.deployment
        assert what != "tensor" or run.tensor_parallel == 1
        assert what != "pipeline" or run.pipeline_parallel == 1


@pytest.mark.parametrize(
    ("engine", "model", "chip", "precision"),
    [
        ("vllm", "deepseek-v3.2", "a100-sxm-80gb", ""),
        ("sglang", "glm-5", "l40s", ""),
        ("tensorrt-llm", "deepseek-v4-flash", "h100-sxm", ""),
        ("sglang", "qwen3-30b-a3b", "a100-sxm-80gb", "fp8"),
    ],
)
def test_a_class_or_format_is_planned_only_on_accelerators_whose_kernels_run_it(
    engine: str, model: str, chip: str, precision: str
) -> None:
    """Sources: data/support/class_limits.csv; engines.csv, fp8-experts."""
    precision = precision or models.by_id(model).weights
    assert not candidates_on(model, chip, engine, precision)
    assert candidates_on(model, "b200-sxm", engine, precision)
    assert class_support(engines.by_id(engine), models.by_id(model)).verdict == "native"


def test_a_command_says_every_cache_format_that_the_engine_would_not_choose_itself() -> None:
    """TensorRT-LLM refuses another format than the one that a checkpoint declares: pyexecutor/model_loader.py."""
    chip = accelerators.by_id("b200-sxm")
    model = models.by_id("nemotron-3-nano-30b-a3b")
    for name, asked, words in (
        ("vllm", "bf16", "--kv-cache-dtype bfloat16"),
        ("sglang", "bf16", "--kv-cache-dtype bf16"),
        ("vllm", "fp8", "--kv-cache-dtype fp8"),
        ("tensorrt-llm", "bf16", ""),
        ("tensorrt-llm", "nvfp4", ""),
    ):
        engine = engines.by_id(name)
        served = served_model(model, engine, "fp8", chip)
        own = cache_dtype_of(served, engine, chip)
        assert own == "fp8"
        found = cache_format(asked, served, engine, chip)
        assert bool(found) is bool(words)
        if words:
            started = launch(engine, "org/name", LaunchSettings(kv_dtype=found, own_kv_dtype=own))
            assert words in started.command


@pytest.mark.parametrize(
    ("model", "is_kept"),
    [
        ("gemma-3-27b", False),
        ("gemma-3-1b", True),
        ("gpt-oss-20b", False),
        ("deepseek-v2-lite", False),
        ("qwen3-8b", True),
    ],
)
def test_a_cache_format_is_kept_only_where_one_attention_kernel_reads_it(model: str, is_kept: bool) -> None:
    """vLLM 0.33.0 reads fp8 on Ampere with FlashInfer alone: no sinks, latents or images that are read both ways."""
    engine = engines.by_id("vllm")
    for chip, kept in (("a100-sxm-80gb", is_kept), ("h100-sxm", True)):
        found = cache_format("fp8", models.by_id(model), engine, accelerators.by_id(chip))
        assert bool(found) is kept


def test_an_engine_is_told_16_bits_where_it_would_choose_a_cache_that_it_does_not_read() -> None:
    engine = engines.by_id("vllm")
    chip = accelerators.by_id("a100-sxm-80gb")
    declares = models.by_id("gpt-oss-20b").model_copy(update={"kv_dtype": "fp8"})
    assert cache_dtype_of(declares, engine, chip) == "fp8"
    assert cache_format("", declares, engine, chip) == "bf16"
    assert not cache_format("fp8", declares, engine, chip)
    keeps = engine.model_copy(update={"keeps_declared_cache": True})
    assert not cache_format("", declares, keeps, chip)


@pytest.mark.parametrize(
    ("model", "precision", "is_planned"),
    [
        ("llama-3.1-8b", "fp8", False),  # published in compressed-tensors alone
        ("llama-3.1-8b", "int4", True),
        ("qwen3-32b", "fp8", True),  # in blocks
        ("gemma-2-9b", "int4", False),  # neither published in AWQ nor made by auto_awq
        ("deepseek-v3", "int4", False),  # experts of the PyTorch engine
        ("gpt-oss-20b", "mxfp4", True),
    ],
)
def test_an_engine_loads_weights_whose_method_it_reads_or_that_a_tool_makes_for_it(
    model: str, precision: str, is_planned: bool
) -> None:
    """Source: lmdeploy 0.18.0, turbomind/converter.py, lite/apis/calibrate.py, pytorch/nn/moe."""
    assert bool(candidates_on(model, "h200-sxm", "lmdeploy", precision)) is is_planned


@pytest.mark.parametrize(
    ("model", "precision", "matrices"),
    [
        ("llama-3.1-8b", "fp8", "all"),
        ("qwen3-30b-a3b", "bf16", "all"),
        ("qwen3-30b-a3b", "fp8", "q_proj k_proj v_proj o_proj"),
        ("gpt-oss-120b", "mxfp4", "q_proj k_proj v_proj o_proj"),
        ("deepseek-v3", "fp8", "q_a_proj q_b_proj kv_a_proj_with_mqa kv_b_proj o_proj"),
    ],
)
def test_adapters_change_the_experts_only_where_the_engine_adapts_them(
    model: str, precision: str, matrices: str
) -> None:
    """SGLang 0.5.23 stops at experts without quant_info: lora/layers.py, FusedMoEWithLoRA."""
    candidate = candidates_on(model, "h200-sxm", "sglang", precision)[0]
    traffic = Traffic(mean_input_tokens=1000, mean_output_tokens=200, rate_per_s=1.0)
    loras = AdapterLoad(count=4, rank=16, slots=4)
    scenario = Scenario(model=model, traffic=traffic, as_of=datetime.date(2026, 11, 20), adapters=loras)
    started = launch(engines.by_id("sglang"), "org/name", launch_settings(candidate, scenario))
    assert f"--lora-target-modules {matrices}" in started.command


def test_an_engine_of_which_nothing_was_fitted_plans_where_it_is_named() -> None:
    assert candidates_on("internvl3-38b", "a100-sxm-80gb", "lmdeploy", "bf16")
    assert not candidates_on("llama-3.1-8b", "mi300x", "lmdeploy", "bf16")
    known = {one.id for one in Constraints().engines_of(engines.all_engines())}
    assert "vllm" in known
    assert "lmdeploy" not in known


def test_weights_that_an_engine_does_not_cut_are_planned_whole_and_loaded_by_their_own_option() -> None:
    """Source: sglang 0.5.23, srt/model_loader/loader.py, BitsAndBytesModelLoader."""
    able = candidates_on("llama-3.1-8b", "l40s", "sglang", "nf4")
    assert able
    for one in able:
        assert one.deployment.tensor_parallel * one.deployment.data_parallel == 1
    stored = LaunchSettings(weight_dtype="nf4", checkpoint_dtype="nf4")
    assert "--load-format bitsandbytes" in " ".join(launch(engines.by_id("sglang"), "a/b", stored).argv)
    assert not candidates_on("gpt-oss-20b", "h100-sxm", "sglang", "nf4")


def test_no_plan_starts_a_checkpoint_of_a_method_that_the_engine_does_not_read() -> None:
    """Source: NVIDIA/TensorRT-LLM, llmapi/llm_utils.py: any method but those that it lists is refused."""
    chip = accelerators.by_id("h100-sxm")
    engine = engines.by_id("tensorrt-llm")
    for model in ("qwen3-32b", "qwen3-8b", "kimi-k2-thinking", "llama-3.1-8b"):
        for one in candidates_on(model, "h100-sxm", "tensorrt-llm", "int4"):
            run = one.deployment
            served = served_checkpoint(run.model, engine, "int4", chip)
            assert served.is_made_first or served.repository.startswith("nvidia/")
    assert not candidates_on("llama-3.1-8b", "h100-sxm", "tensorrt-llm", "int8")
    assert not candidates_on("gpt-oss-20b", "a100-sxm-80gb", "tensorrt-llm", "int4")


def test_candidates_are_remembered_by_all_that_decides_them() -> None:
    """Equal records of other objects are the same question; each other record, format or length is another one."""

    def sizes(chip: Accelerator, model: Model, engine: Engine, **more: Any) -> list[tuple[str, int]]:
        asked: dict[str, Any] = {"mean_context_tokens": 1000.0, "max_context_tokens": 4000.0, **more}
        found, _ = candidates_of(chip, model, (engine,), **asked)
        known = [(each.deployment.weight_dtype, each.memory.kv_capacity_tokens) for each in found]
        found.clear()  # a caller's list is its own
        return known

    chip = accelerators.by_id("h100-sxm")
    model = models.by_id("llama-3.1-8b")
    engine = engines.by_id("vllm")
    usual = sizes(chip, model, engine)
    assert usual == sizes(*(each.model_copy() for each in (chip, model, engine)))
    less = chip.model_copy(update={"memory_bytes": 0.5 * (chip.memory_bytes or 0.0)})
    other = engine.model_copy(update={"weight_dtypes": ("bf16",), "memory_fraction": 0.5})
    more = model.model_copy(update={"vocab_size": model.vocab_size + 1024})
    assert usual
    for asked in ((less, model, engine), (chip, more, engine), (chip, model, other)):
        assert sizes(*asked) not in ([], usual)
    assert sizes(chip, model, engine, precisions=("bf16",)) not in ([], usual)
    assert sizes(chip, model, engine, kv_dtype="fp8") not in ([], usual)
    assert sizes(chip, model, engine, max_accelerators=1) not in ([], usual)
    assert sizes(chip, model, engine, max_context_tokens=1e9) == []
