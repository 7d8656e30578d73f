"""Prompts that a release replays from captured graphs: which do, and what a request then waits for."""

import pytest

from advisor.catalog import engines
from advisor.catalog.releases import version_key
from advisor.simulator.deployment import named_deployment
from advisor.simulator.disaggregation import prefill_replica
from advisor.simulator.engine_costs import captured_prompt_tokens, prompt_launch_s
from advisor.simulator.replica_model import EngineSettings, ReplicaModel, model_replica
from advisor.simulator.step_cost import prefill_iteration_s


def replica(model: str, version: str, chip: str = "h100-sxm", **layout: object) -> ReplicaModel:
    deployment = named_deployment(model, chip, "sglang", **layout)  # type: ignore[arg-type]
    settings = EngineSettings(version=version)
    return model_replica(deployment, mean_input_tokens=1024, mean_output_tokens=128, settings=settings)


def first_token_ms(found: ReplicaModel, tokens: int = 1024) -> float:
    return 1e3 * prefill_iteration_s(found.surface, tokens) + found.policy.api_overhead_ps / 1e9


@pytest.mark.parametrize(
    ("model", "chip", "layout", "captures"),
    [
        ("llama-3.1-8b", "h100-sxm", {}, {"0.5.9": False, "0.5.10": True, "0.5.17": True, "0.5.23": True}),
        ("llama-3.1-8b", "mi300x", {}, {"0.5.10": False, "0.5.17": False}),
        (
            "llama-3.1-70b",
            "h100-sxm",
            {"data_parallel": 2, "tensor_parallel": 2},
            {"0.5.10": False, "0.5.17": True},
        ),
        (
            "llama-3.1-70b",
            "h100-sxm",
            {"pipeline_parallel": 4},
            {"0.5.10": False, "0.5.17": True, "0.5.23": False},
        ),
        ("qwen3.6-27b", "h100-sxm", {}, {"0.5.10": False, "0.5.17": True}),
        ("qwen3-235b-a22b", "b200-sxm", {"tensor_parallel": 8}, {"0.5.12": False, "0.5.17": True}),
        ("gpt-oss-120b", "b200-sxm", {"tensor_parallel": 2}, {"0.5.12": True}),
    ],
)
def test_a_release_captures_prompts_of_what_its_source_lets_it(
    model: str, chip: str, layout: dict[str, int], captures: dict[str, bool]
) -> None:
    deployment = named_deployment(model, chip, "sglang", **layout)
    found = {version: captured_prompt_tokens(deployment, version=version) > 0 for version in captures}
    assert found == captures


@pytest.mark.parametrize(("version", "tokens"), [("0.5.12", 2048), ("0.5.17", 0), ("0.5.23", 8192)])
def test_latent_attention_is_captured_up_to_the_tokens_of_its_release(version: str, tokens: int) -> None:
    deployment = named_deployment("deepseek-r1", "h200-sxm", "sglang", tensor_parallel=8)
    assert captured_prompt_tokens(deployment, version=version) == tokens


def test_a_captured_prompt_takes_what_its_kernels_take() -> None:
    """An idle SGLang 0.5.17 on an H100 answered 1 024 tokens after 31 ms from a graph, and after 40 in fp8 without."""
    captured, launched = (replica("llama-3.1-8b", version) for version in ("0.5.17", "0.5.9"))
    assert first_token_ms(captured) == pytest.approx(31.0, rel=0.1)
    eager = replica("llama-3.1-8b", "0.5.9", weight_dtype="fp8")
    assert first_token_ms(eager) == pytest.approx(40.0, rel=0.1)
    assert first_token_ms(captured, 64) < 0.5 * first_token_ms(launched, 64)
    assert first_token_ms(launched, 64) > 1e3 * prompt_launch_s(launched.deployment, launched.costs)
    # Long prompts hide their launches.
    assert first_token_ms(captured, 8192) == pytest.approx(first_token_ms(launched, 8192), rel=0.02)


def test_the_newest_release_is_taken_where_nothing_is_said() -> None:
    deployment = named_deployment("llama-3.1-8b", "h100-sxm", "sglang")
    assert captured_prompt_tokens(deployment) > 0
    assert captured_prompt_tokens(deployment, date="2026-01-10") == 0
    assert engines.get("vllm").record.prompt_graphs == ()


def test_a_commit_is_no_version() -> None:
    assert version_key("43124cdd") == ()
    assert version_key("0.5.17") == (0, 5, 17)
    assert version_key("20250601") == (20250601,)


def test_workers_of_a_prefill_pool_capture_prompts_where_the_release_lets_them() -> None:
    """Graphs in pieces are off in pools (sglang 0.5.12, rule 13); breakable ones are not (0.5.17)."""
    worker = named_deployment("llama-3.1-8b", "h100-sxm", "sglang")
    found = {
        version: prefill_replica(
            worker, 1024, EngineSettings(version=version)
        ).deployment.engine.captured_prompt_tokens
        for version in ("0.5.9", "0.5.12", "0.5.17", "0.5.23")
    }
    assert [tokens > 0 for tokens in found.values()] == [False, False, True, True]
