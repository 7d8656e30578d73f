"""Published checkpoints and context windows: as sources say, and unknown where none does."""

import itertools

import pytest

from advisor.catalog import accelerators, engines, models
from advisor.catalog.errors import UnknownNameError
from advisor.catalog.named_formats import base_repository
from advisor.catalog.published import (
    all_published,
    checkpoint_for,
    context_limits,
    is_gguf,
    loadable_checkpoints,
    reads_checkpoint,
    served_checkpoint,
)


@pytest.mark.parametrize(
    ("model", "dtype", "engine", "repository"),
    [
        ("qwen3-32b", "int4", "vllm", "Qwen/Qwen3-32B-AWQ"),
        ("kimi-k2-thinking", "int4", "vllm", "moonshotai/Kimi-K2-Thinking"),
        ("gpt-oss-120b", "mxfp4", "vllm", "openai/gpt-oss-120b"),
        ("deepseek-v3.2", "fp8", "sglang", "deepseek-ai/DeepSeek-V3.2"),
        ("llama-3.3-70b", "int4", "vllm", "RedHatAI/Llama-3.3-70B-Instruct-quantized.w4a16"),
        ("llama-3.1-8b", "int4", "mlx", "mlx-community/Meta-Llama-3.1-8B-Instruct-4bit"),
        ("llama-3.1-8b", "q4_k_m", "llama.cpp", "lmstudio-community/Meta-Llama-3.1-8B-Instruct-GGUF"),
    ],
)
def test_the_best_known_checkpoint(model: str, dtype: str, engine: str, repository: str) -> None:
    found = loadable_checkpoints(models.by_id(model), dtype, engine)
    assert found[0].repository == repository
    assert found[0].publisher == repository.split("/")[0]
    assert found[0].is_seen
    assert all(one.source for one in found)


def test_the_default_model_is_served_in_every_format_in_which_it_is_published() -> None:
    for model in [one for one in models.all_models() if one.hf_ids]:
        own = checkpoint_for(model, model.weights).hf_id
        b200 = accelerators.by_id("b200-sxm")
        for name, dtype in itertools.product(
            ("vllm", "sglang", "llama.cpp"), ("fp8", "int4", "nvfp4", "q4_k_m")
        ):
            if (name == "llama.cpp") != (dtype == "q4_k_m"):
                continue
            served = served_checkpoint(model, engines.by_id(name), dtype, b200).repository
            rows = {one.repository: one for one in loadable_checkpoints(model, dtype, name)}
            forms = [one for one in rows if base_repository(one, model.hf_ids) == own]
            if served in rows and served not in model.hf_ids and forms:
                assert base_repository(served, model.hf_ids) == own
            assert "distill" not in served.casefold() or "distill" in model.id


def test_no_model_of_another_name_is_served_for_a_lack_of_the_format() -> None:
    b200 = accelerators.by_id("b200-sxm")
    served = served_checkpoint(models.by_id("deepseek-v3.2"), engines.by_id("vllm"), "bf16", b200)
    assert (served.repository, served.is_made_first) == ("deepseek-ai/DeepSeek-V3.2", True)


def test_a_format_that_nobody_published_has_no_checkpoint() -> None:
    assert loadable_checkpoints(models.by_id("qwen3-32b"), "mxfp4", "vllm") == ()
    assert loadable_checkpoints(models.by_id("mt-nlg-530b"), "bf16") == ()


def test_checkpoints_are_of_models_of_the_catalog() -> None:
    assert set(all_published()) <= set(models.all_ids())
    rows = [one for found in all_published().values() for one in found]
    assert len(rows) >= 1000
    assert len({one.repository for one in rows}) == len(rows)
    assert {one.kind for one in rows} == {"official", "vendor", "community"}
    assert any(not one.is_seen for one in rows)


@pytest.mark.parametrize(
    ("model", "repository", "native", "scaled"),
    [
        ("qwen3-32b", "", 40_960, 131_072),
        ("qwen3-235b-a22b", "", 40_960, 131_072),
        ("qwen3-235b-a22b-2507", "", 262_144, 262_144),
        ("qwen3-30b-a3b-2507", "Qwen/Qwen3-30B-A3B-Instruct-2507", 262_144, 262_144),
        ("qwen2.5-7b", "Qwen/Qwen2.5-7B-Instruct", 32_768, 131_072),
        ("qwen2-72b", "", 32_768, 131_072),
        ("qwen2-7b", "", 32_768, 131_072),
        ("qwen3.5-27b", "", 262_144, 1_010_000),
        ("kimi-k2-thinking", "", 262_144, None),
        ("gpt2-xl", "", 1_024, None),
    ],
)
def test_context_windows(model: str, repository: str, native: int, scaled: int | None) -> None:
    found = context_limits(models.by_id(model), repository)
    assert (found.native, found.with_scaling) == (native, scaled)
    assert found.source


def test_conflicts_are_told_and_the_smaller_window_counts() -> None:
    found = context_limits(models.by_id("minimax-m2.7"))
    assert found.native == 196_608
    assert "204800" in found.note


@pytest.mark.parametrize(
    ("name", "model", "tokens", "weights"),
    [
        ("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "qwen3-235b-a22b-2507", 262_144, "fp8"),
        ("Qwen/Qwen3-4B-Thinking-2507", "qwen3-4b-2507", 262_144, "bf16"),
        ("someone/Qwen3-30B-A3B-Instruct-2507-AWQ", "qwen3-30b-a3b-2507", 262_144, "int4"),
        ("Qwen/Qwen3-30B-A3B", "qwen3-30b-a3b", 40_960, "bf16"),
        ("235b", "qwen3-235b-a22b", 40_960, "bf16"),
        ("moonshotai/Kimi-K2-Thinking", "kimi-k2-thinking", 262_144, "int4"),
        ("moonshotai/Kimi-K2-Instruct", "kimi-k2", 131_072, "fp8"),
    ],
)
def test_revisions_of_another_length_or_format_are_models_of_their_own(
    name: str, model: str, tokens: int, weights: str
) -> None:
    found = models.get(name).record
    assert (found.id, found.max_context_tokens, found.weights) == (model, tokens, weights)


def test_an_unknown_hugging_face_id_says_how_to_use_its_config() -> None:
    with pytest.raises(UnknownNameError) as caught:
        models.get("someone/An-Unheard-Of-Model-9B")
    assert "config.json of huggingface.co/someone/An-Unheard-Of-Model-9B" in caught.value.fix
    with pytest.raises(UnknownNameError) as caught:
        models.get("unheard-of")
    assert "config.json" not in caught.value.fix


@pytest.mark.parametrize(
    ("model", "dtype", "repository", "origin"),
    [
        ("llama-3.1-8b", "bf16", "meta-llama/Llama-3.1-8B-Instruct", "convert first"),
        ("gpt-oss-20b", "mxfp4", "openai/gpt-oss-20b", "convert first"),
        ("mamba2-2.7b", "fp16", "state-spaces/mamba2-2.7b", "convert first"),
        ("qwen3-8b", "q8_0", "unsloth/Qwen3-8B-GGUF", "published"),
        ("starcoder2-7b", "q4_k_m", "bigcode/starcoder2-7b", "quantise first"),
    ],
)
def test_an_engine_of_gguf_files_gets_gguf_files(
    model: str, dtype: str, repository: str, origin: str
) -> None:
    chip = accelerators.by_id("rtx-4090")
    found = served_checkpoint(models.by_id(model), engines.by_id("llama.cpp"), dtype, chip)
    assert (found.repository, found.origin) == (repository, origin)


def test_no_safetensors_are_loaded_by_an_engine_of_gguf_files() -> None:
    chip = accelerators.by_id("rtx-4090")
    engine = engines.by_id("llama.cpp")
    for name in models.all_ids():
        for dtype in engine.weight_dtypes:
            found = served_checkpoint(models.by_id(name), engine, dtype, chip)
            assert found.is_made_first or is_gguf(found.repository), (name, dtype, found)


@pytest.mark.parametrize(
    ("engine", "accelerator", "formats"),
    [
        ("vllm", "h100-sxm", {"fp8", "nvfp4"}),
        ("sglang", "h100-sxm", {"fp8", "nvfp4"}),
        ("vllm", "mi300x", {"fp8", "nvfp4"}),
        ("sglang", "mi300x", {"nvfp4"}),
        ("vllm", "max-1550", {"fp8"}),
        ("vllm", "gaudi3", set()),
    ],
)
def test_modelopt_checkpoints_are_read_where_the_engine_lists_their_method(
    engine: str, accelerator: str, formats: set[str]
) -> None:
    """Source: vllm 0.33.0, platforms/rocm.py and xpu.py; sglang 0.5.23, configs/model_config.py."""
    run = (engines.by_id(engine), accelerators.by_id(accelerator))
    found = {
        dtype
        for dtype, name in (("fp8", "nvidia/Llama-3.1-70B-Instruct-FP8"), ("nvfp4", "nvidia/Qwen3-32B-NVFP4"))
        if reads_checkpoint(name, dtype, *run)
    }
    assert found == formats
    assert reads_checkpoint("RedHatAI/Qwen3-32B-FP8-dynamic", "fp8", *run)


@pytest.mark.parametrize(
    ("model", "engine", "dtype", "chip"),
    [
        ("phi-4", "tensorrt-llm", "fp8", "h100-sxm"),
        ("phi-4", "vllm", "nvfp4", "b200-sxm"),
        ("qwen3-8b", "vllm", "nf4", "l40s"),
        ("ministral-3-8b", "sglang", "nf4", "l40s"),
        ("deepseek-v3", "sglang", "nvfp4", "b200-sxm"),
    ],
)
def test_a_model_tuned_under_another_name_is_not_served_in_place_of_the_one_asked_for(
    model: str, engine: str, dtype: str, chip: str
) -> None:
    run = (models.by_id(model), engines.by_id(engine), dtype, accelerators.by_id(chip))
    name = served_checkpoint(*run).repository.casefold()
    assert not any(word in name for word in ("base", "reasoning", "v3.1", "r1-"))
