"""Layouts: what the engines refuse is refused with the nearest layout that they take; formats go with the chip."""

import math
from dataclasses import replace

import pytest

from advisor.catalog import accelerators, engines, models
from advisor.catalog.errors import InfeasibleError
from advisor.simulator.deployment import Deployment, activation_dtype_for
from advisor.simulator.graph.model import is_moe, routed_layers
from advisor.simulator.layout import check_layout


def deployment(model: str, **layout: int) -> Deployment:
    return Deployment(models.by_id(model), accelerators.by_id("h100-sxm"), engines.by_id("vllm"), **layout)


def test_counts_of_accelerators() -> None:
    layout = deployment(
        "deepseek-r1", tensor_parallel=2, pipeline_parallel=3, data_parallel=4, expert_parallel=2
    )
    assert layout.accelerators_per_replica == 24
    assert layout.ranks_per_stage == 8
    assert layout.expert_tensor_parallel == 4
    assert replace(layout, num_replicas=5).num_accelerators == 120
    assert layout.num_accelerators == 24


@pytest.mark.parametrize(
    ("model", "layout"),
    [
        ("llama-3.1-8b", {"tensor_parallel": 8, "pipeline_parallel": 32}),
        ("qwen3-30b-a3b", {"tensor_parallel": 8, "expert_parallel": 8}),  # 4 key-value heads, repeated
        ("deepseek-r1", {"data_parallel": 8, "expert_parallel": 8}),
        ("qwen1.5-moe-a2.7b", {"tensor_parallel": 8, "expert_parallel": 4}),
        ("phi-4", {"tensor_parallel": 2}),
    ],
)
def test_layouts_that_engines_take(model: str, layout: dict[str, int]) -> None:
    taken = deployment(model, **layout)
    check_layout(taken)
    assert taken.num_accelerators == math.prod(n for name, n in layout.items() if name != "expert_parallel")


@pytest.mark.parametrize(
    ("model", "layout", "words", "fix"),
    [
        ("llama-3.1-8b", {"tensor_parallel": 3}, "32 heads do not divide", "--tp 2"),
        ("qwen2.5-7b", {"tensor_parallel": 8}, "28 heads do not divide", "--tp 4"),
        ("phi-4", {"tensor_parallel": 4}, "10 key-value heads do not divide", "--tp 2"),
        ("qwen3-next-80b-a3b", {"tensor_parallel": 32}, "heads do not divide", "--tp 16"),
        ("llama-3.1-8b", {"pipeline_parallel": 33}, "33 pipeline stages for 32 layers", "--pp 32"),
        ("llama-3.1-8b", {"tensor_parallel": 2, "expert_parallel": 2}, "no experts", "--ep 1"),
        (
            "qwen3-30b-a3b",
            {"tensor_parallel": 4, "expert_parallel": 3},
            "does not divide the 4 accelerators",
            "--ep 2",
        ),
        (
            "qwen1.5-moe-a2.7b",
            {"tensor_parallel": 8, "expert_parallel": 8},
            "60 experts do not divide",
            "--ep 4",
        ),
        ("llama-3.1-8b", {"tensor_parallel": 0}, "tensor parallelism must be at least 1", ""),
        ("llama-3.1-8b", {"data_parallel": -1}, "data parallelism must be at least 1", ""),
    ],
)
def test_refusals_name_the_nearest_valid_layout(
    model: str, layout: dict[str, int], words: str, fix: str
) -> None:
    with pytest.raises(InfeasibleError, match=words) as caught:
        check_layout(deployment(model, **layout))
    assert caught.value.fix == fix
    if fix:
        names = {"--tp": "tensor_parallel", "--pp": "pipeline_parallel", "--ep": "expert_parallel"}
        flag, value = fix.split()
        check_layout(deployment(model, **(layout | {names[flag]: int(value)})))


def test_dense_and_expert_models_are_told_apart() -> None:
    assert not is_moe(models.by_id("llama-3.1-8b"))
    assert is_moe(models.by_id("deepseek-r1"))
    assert sum(layers for layers, _ in routed_layers(models.by_id("deepseek-r1"))) == 58


@pytest.mark.parametrize(
    ("gpu", "weights", "activations"),
    [
        ("h100-sxm", "bf16", "bf16"),
        ("h100-sxm", "fp8", "fp8"),
        ("a100-sxm-80gb", "fp8", "bf16"),  # no fp8 unit: weight-only
        ("a100-sxm-80gb", "int8", "int8"),
        ("h100-sxm", "int4", "bf16"),
        ("h100-sxm", "nvfp4", "bf16"),
        ("b200-sxm", "nvfp4", "nvfp4"),
        ("b200-sxm", "mxfp4", "fp8"),
        ("mi355x", "mxfp4", "mxfp4"),
        ("h100-sxm", "mxfp4", "bf16"),
    ],
)
def test_activations_follow_weights_and_chip(gpu: str, weights: str, activations: str) -> None:
    assert activation_dtype_for(weights, accelerators.by_id(gpu)) == activations
