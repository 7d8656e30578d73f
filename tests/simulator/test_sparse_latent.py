"""Sparse kernels that an engine runs, and what they do to a pass of DeepSeek V3.2."""

from dataclasses import replace

import numpy as np
import pytest

from advisor.catalog import engines
from advisor.catalog.schema import LatentAttention
from advisor.simulator.deployment import Deployment, named_deployment
from advisor.simulator.device import device_of
from advisor.simulator.graph.forward_pass import decode_lines, prefill_lines, token_costs
from advisor.simulator.graph.mixers.mla import (
    decodes_sparse,
    kernels_for,
    runs_absorbed,
    scores_prompts,
    sparse_kernels_of,
)
from advisor.simulator.operator_library import OperatorLibrary

TOKENS = np.array([2000.0])


def deployment(model: str = "deepseek-v3.2", engine: str = "vllm", gpu: str = "h200-sxm") -> Deployment:
    return named_deployment(model, gpu, engine, tensor_parallel=8)


def library(layout: Deployment) -> OperatorLibrary:
    return OperatorLibrary(device_of(layout.accelerator), layout.engine.id)


def mixer(layout: Deployment) -> LatentAttention:
    found = layout.model.layers[-1].mixer
    assert isinstance(found, LatentAttention)
    return found


def attention_us(layout: Deployment, tokens: float, *, decode: bool, input_tokens: float = 2000.0) -> float:
    """Per layer."""
    costs = token_costs(layout, library(layout), np.array([tokens]), decode=decode, input_tokens=input_tokens)
    return 1e6 * float(costs.seconds["attention"][0]) / sum(group.count for group in layout.model.layers)


@pytest.mark.parametrize(
    ("engine", "architecture", "kv_dtype", "heads", "expected"),
    [
        ("vllm", "hopper", "bf16", 16, ("bf16", "bf16", 64)),
        ("vllm", "hopper", "fp8", 16, ("fp8", "fp8", 64)),
        ("vllm", "hopper", "fp8", 32, ("bf16", "fp8", 64)),
        ("vllm", "blackwell", "bf16", 16, ("bf16", "bf16", 128)),
        ("sglang", "hopper", "bf16", 16, ("bf16", "latent", 64)),
        ("tensorrt-llm", "hopper", "bf16", 16, ("bf16", "bf16", 64)),
        ("vllm", "ampere", "bf16", 16, None),
        ("llama.cpp", "hopper", "bf16", 16, None),
    ],
)
def test_engines_name_their_sparse_kernels(
    engine: str, architecture: str, kv_dtype: str, heads: int, expected: tuple[str, str, int] | None
) -> None:
    found = sparse_kernels_of(engines.by_id(engine), architecture, kv_dtype, heads)
    assert (found and (found.prompt, found.decode, found.prompt_head_multiple)) == expected


def test_dense_models_and_compressed_caches_have_none() -> None:
    assert kernels_for(deployment("deepseek-r1"), mixer(deployment("deepseek-r1"))) is None
    compressed = deployment("deepseek-v4-pro")
    assert kernels_for(compressed, mixer(compressed)) is None


def test_prompts_run_absorbed_on_padded_heads() -> None:
    """16 heads of a rank take as long as the 64 to which they are padded: 0.5 µs per token and layer."""
    sparse = deployment()
    dense = deployment("deepseek-r1")
    assert attention_us(sparse, 8192, decode=False) / 8192 == pytest.approx(0.49, rel=0.05)
    whole = sum(token_costs(sparse, library(sparse), TOKENS, decode=False).seconds.values())
    without = sum(token_costs(dense, library(dense), TOKENS, decode=False).seconds.values())
    assert whole > 1.5 * without


def test_decode_costs_the_same_at_every_context() -> None:
    layout = deployment()
    assert decodes_sparse(layout, mixer(layout))
    assert attention_us(layout, 100, decode=True) == pytest.approx(62, rel=0.05)
    lines = decode_lines(layout, library(layout), np.array([100.0]), 1000.0, 3000.0)
    assert lines.window_slope_s[0] == 0.0
    assert lines.slope_s[0] > 0.0, "scores of all earlier tokens"


def test_sglang_expands_short_prompts_and_scores_long_ones() -> None:
    layout = deployment(engine="sglang")
    assert not runs_absorbed(layout, mixer(layout), 2048)
    assert runs_absorbed(layout, mixer(layout), 2049)
    assert not scores_prompts(layout, mixer(layout), 1000)
    assert attention_us(layout, 1000, decode=False, input_tokens=1000) == 0.0
    assert attention_us(layout, 4000, decode=False, input_tokens=4000) > 0.0
    assert attention_us(layout, 100, decode=True) == 0.0, "decode runs through the dense kernel"
    assert prefill_lines(layout, library(layout), 1000.0, 1000.0).pair_s == 0.0
    assert prefill_lines(layout, library(layout), 4000.0, 4000.0).pair_s > 0.0


def test_layers_without_an_indexer_of_their_own_score_nothing() -> None:
    glm = named_deployment("glm-5.2", "h200-sxm", "vllm", tensor_parallel=8)
    reuse = replace(glm, model=glm.model.model_copy(update={"layers": (glm.model.layers[1],)}))
    assert not scores_prompts(reuse, mixer(reuse), 8000)
    assert prefill_lines(reuse, library(reuse), 8000.0, 8000.0).pair_s == 0.0
    lines = decode_lines(reuse, library(reuse), np.array([16.0]), 4000.0, 12000.0)
    assert lines.slope_s[0] == 0.0
