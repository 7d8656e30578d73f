"""Engine parameters: which terms a version or a date gets, what the host launches."""

import dataclasses

import pytest

from advisor.catalog import engines, models
from advisor.simulator.deployment import named_deployment
from advisor.simulator.engine_costs import (
    default_costs,
    engine_costs,
    engine_in_turns,
    launches_experts_apart,
    request_latency_s,
)
from advisor.simulator.graph.model import num_operators
from advisor.simulator.terms import TermCase, find

VLLM = engines.by_id("vllm")


@pytest.mark.parametrize(
    ("version", "date", "expected"),
    [
        ("0.6.3", "", "common"),
        ("0.8.0", "", "2025"),
        ("v0.8.5.post1", "", "2025"),
        ("0.9.0rc1", "", "2025"),
        ("0.13.9", "", "2025"),
        ("0.14", "", "2026"),
        ("0.20.2", "", "2026"),
        ("1.0", "", "2026"),
        ("0.1.0", "", "common"),
        ("0.8", "", "2025"),
        ("", "", "2026"),
        ("nightly", "", "2026"),
        ("", "2023-01-01", "common"),
        ("", "2025-03-17", "common"),
        ("", "2025-03-18", "2025"),
        ("", "2026-06-01", "2026"),
        ("0.8.1", "2026-06-01", "2025"),
    ],
)
def test_terms_of_a_release_replace_common_ones_one_by_one(version: str, date: str, expected: str) -> None:
    own = {
        "common": {},
        "2025": {"step_s": 7.4e-4, "sequence_s": 1.2e-5, "eager_sequence_s": 3.2e-5},
        "2026": {"eager_sequence_s": 3.2e-5},
    }
    found = dataclasses.replace(
        engine_costs(VLLM, version=version, date=date), hidden_exchange_fraction=0.0, slow_launch_s=0.0
    )
    always = {"delivery_s": 5.6e-5, "request_s": 2.5e-3, "prompt_token_s": 2.5e-6, "network_wait_s": 4.5e-6}
    assert found == dataclasses.replace(default_costs(), **always, **own[expected])


def test_an_engine_without_terms_has_the_common_ones() -> None:
    assert engine_costs(engines.by_id("mindie")) == default_costs()


def test_operators_are_counted_by_layer() -> None:
    # Llama: 8 of attention and 4 of a dense feed-forward part in each of 32 layers.
    assert num_operators(models.by_id("llama-3.1-8b")) == 32 * 12
    # DeepSeek R1: latent attention everywhere, three dense layers, 58 with experts.
    assert num_operators(models.by_id("deepseek-r1")) == 61 * 22 + 3 * 4 + 58 * 12
    # V3.2 adds an indexer to each layer; of GLM-5.2's layers, 57 reuse the choice of an earlier one.
    assert num_operators(models.by_id("deepseek-v3.2")) == 61 * (22 + 14) + 3 * 4 + 58 * 12
    assert num_operators(models.by_id("glm-5.2")) == 78 * 22 + 21 * 14 + 3 * 4 + 75 * 12


@pytest.mark.parametrize(
    ("version", "architecture", "expert_format", "expected"),
    [
        ("0.12.0", "hopper", "fp8_block", 128),
        ("0.14.1", "blackwell", "fp8_block", 128),
        ("0.12.0", "hopper", "bf16", None),
        ("0.12.0", "gaudi3", "bf16", 1),
        ("0.12.0", "ada", "fp8_block", None),
        ("0.11.2", "hopper", "fp8_block", None),
        ("0.15.0", "hopper", "fp8_block", None),
        ("", "hopper", "fp8_block", None),
    ],
)
def test_rows_of_experts_are_padded_by_some_releases(
    version: str, architecture: str, expert_format: str, expected: int | None
) -> None:
    case = TermCase("vllm", version, architecture=architecture, dtype=expert_format)
    found = find("engine", "expert_block_rows", case)
    assert (found and found.value) == expected


@pytest.mark.parametrize(
    ("model", "version", "date", "expected"),
    [
        ("qwen3-next-80b-a3b", "0.5.6", "", True),
        ("nemotron-3-nano-30b-a3b", "0.5.9.post1", "", True),
        ("qwen3-next-80b-a3b", "0.5.5", "", False),
        ("qwen3-next-80b-a3b", "0.5.10", "", False),
        ("qwen3-next-80b-a3b", "", "2026-02-20", True),
        ("qwen3-next-80b-a3b", "nightly", "2026-04-08", False),
        ("qwen3-next-80b-a3b", "", "", False),  # the newest release
        ("qwen3-235b-a22b", "0.5.9", "", False),
        ("kimi-linear-48b-a3b", "0.5.9", "", False),
    ],
)
def test_some_releases_take_turns_with_the_device_where_layers_carry_a_state(
    model: str, version: str, date: str, expected: bool
) -> None:
    sglang = engines.by_id("sglang")
    found = engine_in_turns(sglang, models.by_id(model), version=version, date=date)
    assert (found.prompt_launches == "in_turns", found.overlap_scheduling) == (expected, not expected)
    uncached = sglang.model_copy(update={"prefix_caching": False})
    assert engine_in_turns(uncached, models.by_id(model), version=version, date=date) == uncached


@pytest.mark.parametrize(
    ("version", "date", "overlaps"),
    [
        ("0.11.2.dev690+g67475a6e8", "2025-12", False),
        ("0.13.0", "", False),
        ("0.14.0", "", True),
        ("", "2025-11", False),
        ("", "2026-03", True),
        ("", "", True),  # the newest release
    ],
)
def test_vllm_composes_a_batch_while_another_runs_since_release_0_14(
    version: str, date: str, overlaps: bool
) -> None:
    vllm = engines.by_id("vllm")
    found = engine_in_turns(vllm, models.by_id("llama-3.1-8b"), version=version, date=date)
    assert (found.overlap_scheduling, found.prompt_launches) == (overlaps, vllm.prompt_launches)


@pytest.mark.parametrize(
    ("gpu", "apart"), [("a100-sxm-80gb", True), ("h200-sxm", True), ("b200-sxm", False), ("b300-sxm", False)]
)
def test_experts_in_four_bits_are_one_operator_where_the_device_multiplies_in_four_bits(
    gpu: str, apart: bool
) -> None:
    deployment = named_deployment("gpt-oss-20b", gpu, "vllm", weight_dtype="mxfp4")
    assert launches_experts_apart(deployment) is apart


def test_ranks_hardly_wait_for_each_other_if_experts_are_one_operator() -> None:
    """Four-bit experts of TensorRT-LLM are one operator on a B200 and several on an H200; latent attention has many."""

    def wait_s(model: str, gpu: str, weight_dtype: str) -> float:
        chosen = named_deployment(model, gpu, "tensorrt-llm", weight_dtype=weight_dtype, tensor_parallel=8)
        costs = engine_costs(chosen.engine)
        return request_latency_s(chosen, costs, 1024, 8192) - costs.request_s

    several_s = wait_s("gpt-oss-120b", "h200-sxm", "mxfp4")
    assert 0.0 < wait_s("gpt-oss-120b", "b200-sxm", "mxfp4") < 0.2 * several_s
    assert wait_s("deepseek-r1", "b200-sxm", "nvfp4") > several_s
