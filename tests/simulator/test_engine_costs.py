"""Engine parameters: which era a version or a date belongs to, what the host launches."""

import dataclasses

import pytest

from advisor.catalog import engines, models
from advisor.catalog.schema import Engine, EngineEra
from advisor.simulator.engine_costs import (
    DEFAULT_COSTS,
    EngineCosts,
    engine_costs,
    engine_in_turns,
    expert_padding_of,
)
from advisor.simulator.graph.model import num_operators
from advisor.simulator.releases import era_of

ERAS = (
    EngineEra(id="old", from_version="0.6.0", from_date="2024-09-01", parameters={"step_s": 0.005}),
    EngineEra(id="v1", from_version="0.8.0", from_date="2025-03-01", parameters={"step_s": 0.002, "unknown": 1.0}),
    EngineEra(id="new", from_version="0.13.1", from_date="2025-12-01", parameters={"kernel_scale": 1.2}),
)  # fmt: skip
ENGINE = engines.by_id("vllm").model_copy(update={"eras": ERAS})


def era(engine: Engine, **point: str) -> str:
    found = era_of(engine, **point)
    assert found is not None
    return found.id


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("0.6.3", "old"), ("0.8.0", "v1"), ("v0.8.5.post1", "v1"), ("0.9.0rc1", "v1"), ("0.13.0", "v1"),
        ("0.13.1", "new"), ("0.20.2", "new"), ("1.0", "new"), ("0.1.0", "old"), ("0.8", "v1"), ("", "new"),
        ("nightly", "new"),
    ],
)  # fmt: skip
def test_versions_compare_by_number(version: str, expected: str) -> None:
    assert era(ENGINE, version=version) == expected


@pytest.mark.parametrize(
    ("date", "expected"),
    [("2023-01-01", "old"), ("2025-02-28", "old"), ("2025-03-01", "v1"), ("2026-06-01", "new"), ("", "new")],
)
def test_a_date_stands_in_for_a_version(date: str, expected: str) -> None:
    assert era(ENGINE, date=date) == expected
    assert era(ENGINE, version="0.8.1", date=date) == "v1"


def test_fitted_parameters_replace_defaults_one_by_one() -> None:
    assert engine_costs(ENGINE, version="0.8.0") == dataclasses.replace(DEFAULT_COSTS, step_s=0.002)
    assert engine_costs(ENGINE) == dataclasses.replace(DEFAULT_COSTS, kernel_scale=1.2)
    bare = ENGINE.model_copy(update={"eras": ()})
    assert era_of(bare) is None
    assert engine_costs(bare) == DEFAULT_COSTS


def test_every_engine_of_the_catalog_has_plausible_costs() -> None:
    names = {field.name for field in dataclasses.fields(EngineCosts)}
    for engine in engines.all_engines():
        dates = [era.from_date for era in engine.eras]
        assert dates == sorted(dates), engine.id
        for found in engine.eras:
            assert set(found.parameters) <= names, (engine.id, found.id)
            costs = engine_costs(engine, date=found.from_date)
            for field in dataclasses.fields(EngineCosts):
                value = getattr(costs, field.name)
                largest = 5.0 if field.name.endswith(("_scale", "_factor")) else 1.0
                assert 0.0 <= value <= largest, (engine.id, found.id, field.name)
            assert costs.kernel_scale >= 0.5


def test_operators_are_counted_by_layer() -> None:
    # Llama: 8 of attention and 4 of a dense feed-forward part in each of 32 layers.
    assert num_operators(models.by_id("llama-3.1-8b")) == 32 * 12
    # DeepSeek R1: latent attention everywhere, three dense layers, 58 with experts.
    assert num_operators(models.by_id("deepseek-r1")) == 61 * 22 + 3 * 4 + 58 * 12
    # V3.2 adds an indexer to each layer; of GLM-5.2's layers, 57 reuse the choice of an earlier one.
    assert num_operators(models.by_id("deepseek-v3.2")) == 61 * (22 + 14) + 3 * 4 + 58 * 12
    assert num_operators(models.by_id("glm-5.2")) == 78 * 22 + 21 * 14 + 3 * 4 + 75 * 12


@pytest.mark.parametrize(
    ("version", "architecture", "expert_format", "tensor_parallel", "expected"),
    [
        ("0.12.0", "hopper", "fp8_block", 4, 128), ("0.14.1", "blackwell", "fp8_block", 1, 128),
        ("0.12.0", "hopper", "fp8_block", 8, None), ("0.12.0", "hopper", "bf16", 4, None),
        ("0.12.0", "ada", "fp8_block", 4, None), ("0.11.2", "hopper", "fp8_block", 4, None),
        ("0.15.0", "hopper", "fp8_block", 4, None), ("", "hopper", "fp8_block", 4, None),
    ],
)  # fmt: skip
def test_rows_of_experts_are_padded_by_some_releases(
    version: str, architecture: str, expert_format: str, tensor_parallel: int, expected: int | None
) -> None:
    found = expert_padding_of(
        engines.by_id("vllm"), architecture, expert_format, tensor_parallel, version=version
    )
    assert (found and found.block_rows) == expected


@pytest.mark.parametrize(
    ("model", "version", "date", "expected"),
    [
        ("qwen3-next-80b-a3b", "0.5.6", "", True), ("nemotron-3-nano-30b-a3b", "0.5.9.post1", "", True),
        ("qwen3-next-80b-a3b", "0.5.5", "", False), ("qwen3-next-80b-a3b", "0.5.10", "", False),
        ("qwen3-next-80b-a3b", "", "2026-02-20", True), ("qwen3-next-80b-a3b", "nightly", "2026-04-08", False),
        ("qwen3-next-80b-a3b", "", "", False),  # the newest release
        ("qwen3-235b-a22b", "0.5.9", "", False), ("kimi-linear-48b-a3b", "0.5.9", "", False),
    ],
)  # fmt: skip
def test_some_releases_take_turns_with_the_device_where_layers_carry_a_state(
    model: str, version: str, date: str, expected: bool
) -> None:
    sglang = engines.by_id("sglang")
    found = engine_in_turns(sglang, models.by_id(model), version=version, date=date)
    assert (found.prompt_launches == "in_turns", found.overlap_scheduling) == (expected, not expected)
    uncached = sglang.model_copy(update={"prefix_caching": False})
    assert engine_in_turns(uncached, models.by_id(model), version=version, date=date) == uncached
    vllm = engines.by_id("vllm")
    assert engine_in_turns(vllm, models.by_id(model), version=version, date=date) == vllm
