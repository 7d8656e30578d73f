"""Differences between releases on some architectures: launches without graphs, kernels without a configuration."""

from collections.abc import Mapping
from dataclasses import asdict

import numpy as np
import pytest

from advisor.catalog import engines, models
from advisor.catalog.releases import is_before, middle_of
from advisor.simulator.deployment import Deployment, named_deployment
from advisor.simulator.engine_costs import (
    chosen_kernels,
    default_costs,
    operator_library,
    prompt_launch_s,
    release_costs,
)
from advisor.simulator.graph.forward_pass import token_costs
from advisor.simulator.graph.model import num_collectives, num_operators
from advisor.simulator.replica_model import EngineSettings, ReplicaModel, model_replica
from advisor.simulator.step_cost import decode_iteration_s, prefill_iteration_s


def of_triton(kernels: Mapping[str, str]) -> set[str]:
    return {operator for operator, level in kernels.items() if level == "sglang-triton"}


def replica(deployment: Deployment, version: str = "") -> ReplicaModel:
    settings = EngineSettings(version=version)
    return model_replica(deployment, mean_input_tokens=500.0, mean_output_tokens=200.0, settings=settings)


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        ("2025", "2025-07-01"),
        ("2025-2026", "2026-01-01"),
        ("2024-2026", "2025-07-01"),
        ("2025-06", "2025-06"),
        ("2025-06-03", "2025-06-03"),
        ("", ""),
    ],
)
def test_a_date_of_years_stands_for_their_middle(date: str, expected: str) -> None:
    assert middle_of(date) == expected


def test_without_version_and_date_a_release_is_the_newest() -> None:
    assert is_before("0.5.9", "2026-12-01", "0.5.10 2026-04-05")
    assert not is_before("0.5.10", "2025-01-01", "0.5.10 2026-04-05")
    assert is_before("", "2025-2026", "0.5.10 2026-04-05")
    assert not is_before("", "", "0.5.10 2026-04-05")


@pytest.mark.parametrize(
    ("gpu", "weight_dtype", "model", "version", "expected"),
    [
        ("mi300x", "fp8", "deepseek-r1", "0.5.9", 1.41),
        ("mi325x", "fp8", "deepseek-r1", "0.5.6", 1.41),
        ("mi300x", "fp8", "deepseek-r1", "0.5.5", 1.0),
        ("mi300x", "fp8", "deepseek-r1", "0.5.10", 1.0),
        ("mi355x", "fp8", "deepseek-r1", "0.5.9", 1.0),
        ("mi300x", "int4", "kimi-k2.5", "0.5.9", 1.0),
        ("mi300x", "fp8", "qwen3-235b-a22b", "0.5.9", 1.0),
        ("mi300x", "fp8", "deepseek-r1", "", 1.0),
    ],
)
def test_some_releases_lack_a_configuration_of_latent_attentions_projections(
    gpu: str, weight_dtype: str, model: str, version: str, expected: float
) -> None:
    deployment = named_deployment(model, gpu, "sglang", weight_dtype=weight_dtype, tensor_parallel=8)
    assert release_costs(deployment, default_costs(), version=version).release_scale == expected


@pytest.mark.parametrize(
    ("gpu", "weight_dtype", "model", "version", "expected"),
    [
        ("h200-sxm", "fp8", "deepseek-r1", "1.1.0rc2.post2", 4.8e-5),
        ("b200-sxm", "fp8", "deepseek-r1", "1.0.0", 6e-5),
        ("b200-sxm", "nvfp4", "deepseek-r1", "1.1.0", 0.0),
        ("b200-sxm", "fp8", "deepseek-r1", "1.2.0rc6", 0.0),
        ("h100-sxm", "fp8", "deepseek-r1", "1.2.0", 4.8e-5),
        ("h200-sxm", "fp8", "deepseek-r1", "1.3.0rc14", 0.0),
        ("h200-sxm", "fp8", "deepseek-r1", "", 0.0),
        ("h200-sxm", "fp8", "qwen3-235b-a22b", "1.1.0", 0.0),
    ],
)
def test_early_releases_add_time_to_each_layer_of_latent_attention(
    gpu: str, weight_dtype: str, model: str, version: str, expected: float
) -> None:
    deployment = named_deployment(model, gpu, "tensorrt-llm", weight_dtype=weight_dtype, tensor_parallel=8)
    found = release_costs(deployment, default_costs(), version=version)
    assert found.release_layers_s == pytest.approx(61 * expected)


@pytest.mark.parametrize(
    ("model", "gpu", "weight_dtype", "expected"),
    [
        ("qwen3-coder-next", "b200-sxm", "bf16", {"attention_decode", "attention_prefill"}),
        ("qwen3-next-80b-a3b", "h200-sxm", "bf16", set()),
        ("glm-4.7-flash", "b200-sxm", "bf16", {"attention_prefill", "mla_decode", "grouped_matmul"}),
        ("glm-4.5-air", "b300-sxm", "bf16", {"grouped_matmul"}),
        ("glm-4.5-air", "b200-sxm", "fp8", {"grouped_matmul"}),
        ("minimax-m2", "h200-sxm", "fp8", set()),
        ("qwen3-235b-a22b", "b200-sxm", "bf16", set()),
        ("deepseek-r1", "b200-sxm", "fp8", set()),
    ],
)
def test_sglang_runs_triton_kernels_for_some_models_on_blackwell(
    model: str, gpu: str, weight_dtype: str, expected: set[str]
) -> None:
    deployment = named_deployment(model, gpu, "sglang", weight_dtype=weight_dtype)
    assert of_triton(chosen_kernels(deployment)) == expected
    assert of_triton(operator_library(deployment).with_launch_scale(0.5).kernels) == expected
    assert not of_triton(chosen_kernels(named_deployment(model, gpu, "vllm", weight_dtype=weight_dtype)))


@pytest.mark.parametrize(
    ("model", "engine", "is_wide"),
    [
        ("glm-4.6", "vllm", True),
        ("glm-4.6", "sglang", False),
        ("minimax-m2", "vllm", True),
        ("minimax-m2", "sglang", True),
        ("qwen3-235b-a22b", "vllm", False),
        ("glm-4.6", "tensorrt-llm", False),
    ],
)
def test_some_engines_keep_a_familys_router_in_fp32(model: str, engine: str, is_wide: bool) -> None:
    """8192 tokens take ten times as long as in 16 bits, as on an H100: 260 against 26 µs for 256 experts."""
    library = operator_library(
        named_deployment(model, "h100-sxm", engine, weight_dtype="fp8", tensor_parallel=8)
    )
    assert (library.wide_format("router") == "fp32") is is_wide
    assert library.wide_format("indexer_weights") == "bf16"
    tokens = np.array([64.0, 8192.0])
    few, many = library.matmul_s(tokens, 256, 3072, library.wide_format("router"))
    assert (few, many) == pytest.approx((13.5e-6, 261e-6) if is_wide else (6.8e-6, 26e-6), rel=0.25)


@pytest.mark.parametrize(
    ("model", "gpu", "tensor_parallel", "version", "is_untuned"),
    [
        ("glm-4.6", "h200-sxm", 8, "0.11.0", True),
        ("glm-4.6", "h200-sxm", 8, "0.17.0", False),
        ("glm-4.6", "h200-sxm", 8, "", False),
        ("glm-4.6", "b200-sxm", 8, "0.11.0", False),
        ("qwen3-235b-a22b", "h200-sxm", 8, "0.11.0", False),
        ("qwen3-235b-a22b", "h200-sxm", 16, "0.11.0", True),
        ("llama-3.1-70b", "h200-sxm", 8, "0.11.0", False),
    ],
)
def test_releases_before_017_run_experts_slower_in_shapes_that_nobody_tuned(
    model: str, gpu: str, tensor_parallel: int, version: str, is_untuned: bool
) -> None:
    deployment = named_deployment(model, gpu, "vllm", tensor_parallel=tensor_parallel)
    assert (chosen_kernels(deployment, version=version).get("grouped_matmul") == "sglang") is is_untuned


@pytest.mark.parametrize(
    ("model", "gpu", "tensor_parallel", "version", "is_tuned"),
    [
        ("qwen3-30b-a3b", "h200-sxm", 1, "0.5.17", True),
        ("qwen3-30b-a3b", "h200-sxm", 2, "", True),
        ("qwen3-30b-a3b", "h200-sxm", 1, "0.5.2", False),
        ("qwen3-235b-a22b", "h200-sxm", 4, "0.5.2", False),
        ("glm-4.5-air", "h100-sxm", 4, "0.5.9", False),
        ("glm-4.5-air", "h100-sxm", 4, "0.5.12", True),
        ("qwen3-30b-a3b", "h100-nvl", 1, "", False),
        ("qwen3-30b-a3b", "b200-sxm", 1, "", False),
        ("llama-3.1-70b", "h200-sxm", 8, "", False),
    ],
)
def test_sglang_runs_experts_in_tuned_tiles_where_its_release_has_some_for_their_shape(
    model: str, gpu: str, tensor_parallel: int, version: str, is_tuned: bool
) -> None:
    deployment = named_deployment(model, gpu, "sglang", tensor_parallel=tensor_parallel, weight_dtype="bf16")
    assert (chosen_kernels(deployment, version=version).get("grouped_matmul") == "vllm") is is_tuned


@pytest.mark.parametrize(
    ("model", "gpu", "version", "is_slow"),
    [
        ("minimax-m2.5", "h200-sxm", "0.14.0", False),
        ("minimax-m2.5", "h200-sxm", "0.15.1", True),
        ("minimax-m2.5", "h100-sxm", "0.16.0", True),
        ("minimax-m2.5", "h200-sxm", "0.17.0", False),
        ("minimax-m2.5", "h200-sxm", "", False),
        ("minimax-m2.5", "b200-sxm", "0.16.0", False),
    ],
)
def test_two_releases_of_vllm_run_experts_in_fp8_with_flashinfers_cutlass(
    model: str, gpu: str, version: str, is_slow: bool
) -> None:
    deployment = named_deployment(model, gpu, "vllm", tensor_parallel=4, weight_dtype="fp8")
    kernels = chosen_kernels(deployment, version=version)
    assert (kernels.get("grouped_matmul") == "tensorrt-llm") is is_slow


def test_flashinfers_cutlass_takes_longer_for_few_tokens() -> None:
    """A quarter of MiniMax-M2.5's experts takes an H200 121 µs for four tokens with TensorRT-LLM's kernels and 63 with
    Triton's, in 62 layers."""
    deployment = named_deployment("minimax-m2.5", "h200-sxm", "vllm", tensor_parallel=4, weight_dtype="fp8")
    old, new = (
        decode_iteration_s(replica(deployment, each).surface, 4, 600.0) for each in ("0.16.0", "0.17.0")
    )
    assert 1e-3 < old - new < 62 * 58e-6


def test_experts_that_nobody_tuned_are_slower_for_prompts_alone() -> None:
    """On one H200 the tiles of 0.16 take 1.4 to 1.8 times those of 0.17 from 256 tokens on, and as long before."""
    glm = named_deployment("glm-4.6", "h200-sxm", "vllm", tensor_parallel=8)
    old, new = (replica(glm, version).surface for version in ("0.16.0", "0.17.0"))
    assert prefill_iteration_s(old, 8192) > 1.07 * prefill_iteration_s(new, 8192)
    assert decode_iteration_s(old, 4, 600.0) == pytest.approx(decode_iteration_s(new, 4, 600.0), rel=0.15)


def test_triton_attention_follows_from_the_state_of_a_prefix_cache() -> None:
    deployment = named_deployment("qwen3-coder-next", "b200-sxm", "sglang", tensor_parallel=2)
    kept, without = (
        model_replica(
            deployment,
            mean_input_tokens=4000.0,
            mean_output_tokens=500.0,
            settings=EngineSettings(prefix_caching=caching),
        )
        for caching in (True, False)
    )
    assert not of_triton(without.library.kernels)
    slower = decode_iteration_s(kept.surface, 16, 4000.0) - decode_iteration_s(without.surface, 16, 4000.0)
    assert 3e-4 < slower < 1.2e-3  # 12 layers of full attention, 30 to 100 µs each


@pytest.mark.parametrize("batch", [1, 64])
def test_added_layers_take_as_long_whatever_the_batch(batch: int) -> None:
    deployment = named_deployment(
        "deepseek-r1", "h200-sxm", "tensorrt-llm", weight_dtype="fp8", tensor_parallel=8
    )
    settings = (EngineSettings(version=version, date="2025-12-20") for version in ("1.2.0", "1.3.0"))
    old, new = (
        model_replica(
            deployment,
            mean_input_tokens=500.0,
            mean_output_tokens=200.0,
            settings=chosen,
            costs=default_costs(),
        )
        for chosen in settings
    )
    times_s = [decode_iteration_s(found.surface, batch, 600.0) for found in (old, new)]
    assert times_s[0] - times_s[1] == pytest.approx(61 * 4.8e-5, rel=1e-6)


def test_what_a_release_lacks_counts_once_however_often_costs_are_handed_on() -> None:
    deployment = named_deployment(
        "deepseek-r1", "mi300x", "sglang", weight_dtype="fp8", kv_dtype="fp8", tensor_parallel=8
    )
    old = replica(deployment, "0.5.9")
    new = replica(deployment, "0.5.12")
    again = model_replica(
        deployment,
        mean_input_tokens=500.0,
        mean_output_tokens=200.0,
        settings=EngineSettings(version="0.5.9"),
        costs=old.costs,
    )
    assert asdict(again.surface) == asdict(old.surface)
    ratio = decode_iteration_s(old.surface, 16, 600) / decode_iteration_s(new.surface, 16, 600)
    assert 1.33 < ratio < 1.41


def test_decode_without_graphs_lasts_as_long_as_its_launches() -> None:
    deployment = named_deployment("qwen3-30b-a3b", "ascend-910b", tensor_parallel=2)
    operators = num_operators(models.by_id("qwen3-30b-a3b"))

    def launch_s(version: str) -> float:
        return release_costs(deployment, default_costs(), version=version).eager_launch_s

    for version in ("0.10.1", "0.11.0"):
        step_s = decode_iteration_s(replica(deployment, version).surface, 1, 600)
        assert step_s == pytest.approx(operators * launch_s(version), rel=0.05)
    # Without graphs 165 ms were measured on a model of 1240 operators, and some 100 ms on one of 768.
    assert 1240 * launch_s("0.10.1") == pytest.approx(0.165, rel=0.05)
    assert 768 * launch_s("0.10.1") == pytest.approx(0.100, rel=0.05)
    assert launch_s("") < launch_s("0.10.1")
    newest, earlier = (
        decode_iteration_s(replica(deployment, version).surface, 1, 600) for version in ("", "0.11.0")
    )
    assert newest < 0.5 * earlier  # the newest releases replay the whole step
    graphs = replica(named_deployment("qwen3-30b-a3b", "h100-sxm")).cuda_graph_sizes
    assert len(graphs) > 1


def test_graphs_of_fixed_shapes_read_all_experts_for_one_token(monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = named_deployment("qwen3-30b-a3b", "gaudi3")
    one, many = (decode_iteration_s(replica(deployment).surface, batch, 600) for batch in (1, 64))
    assert one > 0.7 * many
    monkeypatch.setattr("advisor.simulator.replica_model.find", lambda *_: None)
    assert decode_iteration_s(replica(deployment).surface, 1, 600) < 0.6 * one


def test_atoms_prompts_run_ahead_of_the_device_as_vllms() -> None:
    assert engines.by_id("atom").prompt_launches == engines.by_id("vllm").prompt_launches == "ahead"
    served = replica(named_deployment("deepseek-r1", "mi355x", "atom", weight_dtype="fp8", tensor_parallel=8))
    sums_s = served.costs.collective_launch_s * num_collectives(models.by_id("deepseek-r1"))
    launched_s = prompt_launch_s(served.deployment, served.costs) + sums_s
    assert served.surface.launch_ps == pytest.approx(launched_s * 1e12, rel=1e-6)
    dense = replica(named_deployment("llama-3.1-70b", "h200-sxm", tensor_parallel=8))
    assert 0 < dense.surface.launch_ps < 0.6 * served.surface.launch_ps
    assert served.policy.api_overhead_ps == round(served.costs.request_s * 1e12)


def test_experts_in_four_bits_are_launched_at_once() -> None:
    """A first token waits a little for them, as published ones do; an iteration for its other operators alone."""
    whole, apart = (
        replica(named_deployment("gpt-oss-120b", "b200-sxm", weight_dtype=dtype, tensor_parallel=2))
        for dtype in ("mxfp4", "bf16")
    )
    assert whole.surface.launch_ps < 0.8 * apart.surface.launch_ps
    assert whole.policy.api_overhead_ps > apart.policy.api_overhead_ps


def test_a_prompt_on_many_ranks_takes_as_long_as_tensorrt_llm_launches_it() -> None:
    """Llama-3.1-8B on eight H100s: a prompt of 1 024 tokens stops decoding as long as one of 256, some 17 ms."""
    eight = replica(named_deployment("llama-3.1-8b", "h100-sxm", "tensorrt-llm", tensor_parallel=8), "1.0.0")
    short_s, long_s = (prefill_iteration_s(eight.surface, tokens) for tokens in (256, 1024))
    launched_s = eight.costs.eager_launch_s * num_operators(models.by_id("llama-3.1-8b"))
    assert launched_s < short_s < launched_s + 2e-3
    assert long_s == pytest.approx(short_s, rel=0.05)


def test_routed_experts_are_few_operators_where_an_engine_fuses_them() -> None:
    qwen = models.by_id("qwen3-235b-a22b")
    fused, spread = (engines.get(name).record.expert_operators for name in ("tensorrt-llm", "sglang"))
    assert (num_operators(qwen, fused), num_operators(qwen, spread)) == (94 * (8 + 4), 94 * (8 + 12))
    assert num_operators(models.by_id("llama-3.1-8b"), fused) == num_operators(models.by_id("llama-3.1-8b"))


@pytest.mark.parametrize(
    ("version", "tokens", "captured"), [("0.6.3", 8000, True), ("0.6.3", 9000, False), ("0.8.5", 9000, True)]
)
def test_graphs_of_early_vllm_end_at_a_context(version: str, tokens: int, captured: bool) -> None:
    replica = model_replica(
        named_deployment("llama-3.1-8b", "h100-sxm"),
        mean_input_tokens=tokens,
        mean_output_tokens=100,
        settings=EngineSettings(version=version),
    )
    assert (max(replica.cuda_graph_sizes) > 0) == captured


def small_operators_s(deployment: Deployment, num_tokens: float, version: str) -> float:
    """Time of the small operators of one pass [s]."""
    library = operator_library(deployment, version=version)
    costs = token_costs(deployment, library, np.array([num_tokens]), decode=True)
    return float(costs.seconds["small_operators"][0])


@pytest.mark.parametrize("gpu", ["h100-sxm", "b200-sxm"])
@pytest.mark.parametrize(
    ("model", "takes"),
    [
        ("gpt-oss-120b", True),
        ("llama-3.1-70b", True),
        ("llama-3.1-8b", False),
        ("qwen3.5-397b-a17b", False),
        ("deepseek-r1", True),
    ],
)
def test_sums_over_ranks_take_norms_along_where_the_source_has_it(
    gpu: str, model: str, *, takes: bool
) -> None:
    ranks = 8 if model == "deepseek-r1" else 4
    shared = named_deployment(model, gpu, "tensorrt-llm", tensor_parallel=ranks)
    now = small_operators_s(shared, 16.0, "1.2.0")
    before = small_operators_s(shared, 16.0, "0.20.0")
    assert (now < before) if takes else (now == before)


def test_a_rank_alone_and_sums_of_long_prompts_keep_their_norms() -> None:
    for ranks, tokens in ((1, 16.0), (4, 8192.0)):
        deployment = named_deployment("gpt-oss-120b", "b200-sxm", "tensorrt-llm", tensor_parallel=ranks)
        assert small_operators_s(deployment, tokens, "1.2.0") == small_operators_s(
            deployment, tokens, "0.20.0"
        )
