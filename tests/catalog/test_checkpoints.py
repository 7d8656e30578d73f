"""The checkpoint that a launch command names is one that exists in that format."""

import pytest

from advisor.catalog import models
from advisor.catalog.published import checkpoint_for


@pytest.mark.parametrize(
    ("model", "weight_dtype", "engine", "hf_id", "stored"),
    [
        ("llama-3.1-70b", "bf16", "vllm", "meta-llama/Llama-3.1-70B-Instruct", "bf16"),
        ("llama-3.1-70b", "fp8", "vllm", "RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8", "fp8"),
        ("llama-3.1-70b", "fp8", "tensorrt-llm", "nvidia/Llama-3.1-70B-Instruct-FP8", "fp8"),
        ("qwen3-235b-a22b", "fp8", "vllm", "Qwen/Qwen3-235B-A22B-FP8", "fp8"),
        # Qwen3-Coder has its shapes and says Instruct, but is another model.
        ("qwen3-30b-a3b", "bf16", "vllm", "Qwen/Qwen3-30B-A3B", "bf16"),
        ("qwen3-235b-a22b-2507", "fp8", "vllm", "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "fp8"),
        ("deepseek-r1", "fp8", "sglang", "deepseek-ai/DeepSeek-R1", "fp8"),
        ("gpt-oss-120b", "mxfp4", "vllm", "openai/gpt-oss-120b", "mxfp4"),
    ],
)
def test_names_the_published_checkpoint(
    model: str, weight_dtype: str, engine: str, hf_id: str, stored: str
) -> None:
    found = checkpoint_for(models.by_id(model), weight_dtype, engine)
    assert found == (hf_id, stored)


def test_quantises_on_loading_where_nothing_is_published() -> None:
    model = models.by_id("llama-3.1-70b").model_copy(
        update={"hf_ids": ("meta-llama/Llama-3.1-70B-Instruct",)}
    )
    assert checkpoint_for(model, "fp8") == ("meta-llama/Llama-3.1-70B-Instruct", "bf16")


def test_every_model_has_a_checkpoint_in_its_own_format() -> None:
    for model in models.all_models():
        found = checkpoint_for(model, model.weights)
        assert found.weight_dtype == model.weights
        assert found.hf_id
