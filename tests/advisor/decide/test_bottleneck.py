"""Bottleneck of an option: named after the largest part of its decode step."""

import pytest

from advisor.catalog import accelerators, engines, models
from advisor.decide.bounds import bottleneck_of
from advisor.simulator.deployment import Deployment, activation_dtype_for
from advisor.simulator.replica_model import ReplicaModel, model_replica


def replica(model: str = "llama-3.1-8b", gpu: str = "h100-sxm", dtype: str = "bf16") -> ReplicaModel:
    accelerator = accelerators.by_id(gpu)
    deployment = Deployment(
        models.by_id(model),
        accelerator,
        engines.by_id("vllm"),
        weight_dtype=dtype,
        activation_dtype=activation_dtype_for(dtype, accelerator),
    )
    return model_replica(deployment, mean_input_tokens=500, mean_output_tokens=100)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"attention_projections": 3.0, "feed_forward": 3.0, "host": 1.0}, "HBM (weights)"),
        ({"feed_forward": 2.0, "host": 3.0}, "host"),
        ({"feed_forward": 2.0, "collectives": 3.0, "host": 1.0}, "link"),
        ({"feed_forward": 2.0, "attention": 3.0}, "HBM (KV cache)"),
    ],
)
def test_the_largest_part_names_it(parts: dict[str, float], expected: str) -> None:
    assert bottleneck_of(replica(), parts, 1.0, 1000.0) == expected


def test_a_full_cache_comes_first() -> None:
    found = replica()
    assert bottleneck_of(found, {"host": 1.0}, 1.0, 0.95 * found.memory.kv_capacity_tokens) == "KV capacity"


@pytest.mark.parametrize(
    ("model", "gpu", "dtype", "turning"),
    [
        # Peak over bandwidth: 295 flop per byte on an H100, two flop per weight of two bytes.
        ("llama-3.1-8b", "h100-sxm", "bf16", 295),
        # fp8 doubles the peak and halves the bytes; the 16-bit head moves it little.
        ("llama-3.1-70b", "h200-sxm", "fp8", 206),
        # Weights of half a byte that multiply in 16 bits.
        ("llama-3.1-8b", "h100-sxm", "int4", 100),
    ],
)
def test_weights_turn_into_compute_at_the_ridge(model: str, gpu: str, dtype: str, turning: int) -> None:
    found = replica(model, gpu, dtype)
    parts = {"feed_forward": 1.0}
    assert bottleneck_of(found, parts, 0.8 * turning, 1.0) == "HBM (weights)"
    assert bottleneck_of(found, parts, 1.25 * turning, 1.0) == "compute"


def test_experts_need_far_larger_batches() -> None:
    """Eight of 128 experts multiply for a token, but a batch of 400 touches them all."""
    found = replica("qwen3-30b-a3b")
    assert bottleneck_of(found, {"experts": 1.0}, 400.0, 1.0) == "HBM (weights)"
    assert bottleneck_of(found, {"experts": 1.0}, 8000.0, 1.0) == "compute"
