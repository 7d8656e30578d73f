"""Weight matrices of a layer: shapes by hand, sums against the parameter count, what a format covers."""

import pytest

from advisor.catalog import models
from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.schema import (
    DenseFeedForward,
    FeedForward,
    LayerGroup,
    Model,
    MoeFeedForward,
)
from advisor.simulator.graph.model import (
    dense_dtype,
    dense_weight_bytes,
    expert_weight_bytes,
    layer_of,
    layers_of,
    parameter_count,
)
from advisor.simulator.graph.operator import Layer

DECODERS = (
    "llama-3.1-8b",
    "qwen3-30b-a3b",
    "deepseek-r1",
    "deepseek-v3.2",
    "gpt-oss-120b",
    "gemma-3-27b",
    "phi-4",
    "qwen3-next-80b-a3b",
    "nemotron-3-nano-30b-a3b",
    "mixtral-8x7b",
    "opt-6.7b",
    "kimi-linear-48b-a3b",
    "mimo-v2-flash",
    "glm-4.5-air",
    "llama-4-scout",
)


def shapes(model: str, tp: int) -> dict[str, tuple[int, int]]:
    record = models.by_id(model)
    mixer = layers_of(record)[-1].mixer
    assert mixer is not None
    return {p.name: (p.columns, p.depth) for p in mixer.local(tp)}


def weight_bytes(model: Model, layer: Layer, dtype: str, tp: int, expert_ranks: int) -> float:
    return (
        dense_weight_bytes(model, layer, dtype, tp) + expert_weight_bytes(model, layer, dtype) / expert_ranks
    )


def part(feed_forward: FeedForward, hidden: int) -> Layer:
    return layer_of(LayerGroup(count=1, feed_forward=feed_forward), hidden)


def test_grouped_query_attention_by_hand() -> None:
    # Llama-3.1-8B: 32 heads and 8 key-value heads of 128 on a hidden size of 4096.
    assert shapes("llama-3.1-8b", 1) == {"qkv": (6144, 4096), "attention_out": (4096, 4096)}
    assert shapes("llama-3.1-8b", 8) == {"qkv": (768, 4096), "attention_out": (4096, 512)}


def test_few_key_value_heads_are_repeated_on_every_rank() -> None:
    # Qwen3-30B-A3B has 4: on 8 ranks each holds 4 query heads, one key and one value head.
    assert shapes("qwen3-30b-a3b", 8)["qkv"] == ((4 + 2) * 128, 2048)


def test_latent_attention_repeats_its_down_projection() -> None:
    one = shapes("deepseek-r1", 1)
    eight = shapes("deepseek-r1", 8)
    assert one["qkv_down"] == eight["qkv_down"] == (1536 + 512 + 64, 7168)
    assert one["query_up"] == (128 * 192, 1536)
    assert eight["query_up"] == (16 * 192, 1536)
    assert eight["attention_out"] == (7168, 16 * 128)


def test_gated_feed_forward_fuses_gate_and_up() -> None:
    gated = part(DenseFeedForward(intermediate_size=1000), 64).local(2)
    plain = part(DenseFeedForward(intermediate_size=1000, gated=False), 64).local(2)
    assert [(p.columns, p.depth) for p in gated] == [(1000, 64), (64, 500)]
    assert [(p.columns, p.depth) for p in plain] == [(500, 64), (64, 500)]
    assert layer_of(LayerGroup(count=1), 64).local(2) == ()


def test_router_stays_in_16_bits_and_experts_are_counted_apart() -> None:
    moe = MoeFeedForward(
        num_experts=8, experts_per_token=2, intermediate_size=100, shared_intermediate_size=50
    )
    layer = part(moe, 64)
    router, *shared = layer.local(1)
    assert (router.name, router.columns, router.low_bit) == ("router", 8, False)
    assert [p.columns * p.depth for p in shared] == [2 * 50 * 64, 64 * 50]
    assert layer.experts is not None
    assert layer.experts.elements == 3 * 100 * 64


@pytest.mark.parametrize("model_id", DECODERS)
def test_layers_add_up_to_the_parameter_count(model_id: str) -> None:
    model = models.by_id(model_id)
    total = sum(layer.count * weight_bytes(model, layer, "bf16", 1, 1) for layer in layers_of(model)) / 2.0
    expected = sum(layer.count * layer.parameters for layer in parameter_count(model).layers)
    assert total == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("model_id", DECODERS)
def test_ranks_together_hold_the_layer_at_least_once(model_id: str) -> None:
    model = models.by_id(model_id)
    for layer in layers_of(model):
        whole = weight_bytes(model, layer, "bf16", 1, 1)
        tp = 2
        half = weight_bytes(model, layer, "bf16", tp, tp)
        assert 0.999 * whole <= tp * half
        if layer.attention is not None and not layer.attention.latent and layer.feed_forward is not None:
            assert tp * half <= 1.03 * whole  # the router alone is held twice


def test_what_a_four_bit_format_covers() -> None:
    assert dense_dtype(models.by_id("llama-3.1-8b"), "int4") == "int4"
    # GPTQ and AWQ quantise attention too, but not beside recurrent layers; Kimi's own checkpoint does not.
    assert dense_dtype(models.by_id("qwen3-30b-a3b"), "int4") == "int4"
    assert dense_dtype(models.by_id("qwen3.5-397b-a17b"), "int4") == "bf16"
    assert dense_dtype(models.by_id("kimi-k2.5"), "int4") == "bf16"
    assert dense_dtype(models.by_id("gpt-oss-120b"), "mxfp4") == "bf16"
    assert dense_dtype(models.by_id("deepseek-r1"), "nvfp4") == "bf16"
    assert dense_dtype(models.by_id("deepseek-r1"), "fp8") == "fp8"
    # DeepSeek V4 says what its other matrices are in.
    assert dense_dtype(models.by_id("deepseek-v4-flash"), "mxfp4") == "fp8"
    assert dense_dtype(models.by_id("deepseek-v4-flash"), "bf16") == "bf16"


@pytest.mark.parametrize(("model_id", "dtype"), [("llama-3.1-8b", "fp8"), ("gpt-oss-120b", "mxfp4")])
def test_bytes_follow_the_format(model_id: str, dtype: str) -> None:
    model = models.by_id(model_id)
    layer = layers_of(model)[-1]
    wide, narrow = (weight_bytes(model, layer, name, 1, 1) for name in ("bf16", dtype))
    covered = wide / 2.0
    if layer.experts is not None:
        covered = layer.experts.num_experts * layer.experts.elements
    assert wide - narrow == pytest.approx(covered * (2.0 - bytes_per_element(dtype)))
