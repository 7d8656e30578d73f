"""Sums over the operators of a model: parameters and caches as published, shares of ranks that add up."""

from dataclasses import replace

import pytest

from advisor.catalog import models
from advisor.catalog.errors import AdvisorError
from advisor.catalog.schema import GroupedQueryAttention, Model
from advisor.simulator.deployment import named_deployment
from advisor.simulator.graph.mixers import gqa
from advisor.simulator.graph.model import (
    check_parameters,
    has_state,
    kv_bytes_per_token,
    layers_of,
    mixer_operators,
    num_collectives,
    num_layers,
    num_operators,
    parameter_count,
)
from advisor.simulator.graph.weights import Block, Matrix
from advisor.simulator.memory import plan_memory, weight_bytes
from advisor.simulator.roofline import decode_step_work, prefill_work

ALL = models.all_models()

# Published figures that are themselves rounded or count something else; reason beside each.
TOTAL_EXCEPTIONS = {
    "whisper-tiny": 0.04,  # README: "39 M"; the shape with convolutions and positions has 37.7 million
    "whisper-base": 0.025,  # README: "74 M"; the shape has 72.5 million
    "internvl3.5-1b": 0.045,  # "1.1B" of two digits; tower and Qwen3 0.6B with its own head have 1,061 million
    "internvl3.5-2b": 0.022,  # "2.3B" of two digits; tower and Qwen3 1.7B with its own head have 2,348 million
    "mamba2-1.3b": 0.038,  # "1.3B" of two digits; the shape has 1,343 million
}
ACTIVE_EXCEPTIONS = {
    "ernie-4.5-21b-a3b": 0.15,  # the name gives one digit, "A3B"
    "qwen3-next-80b-a3b": 0.10,  # the name gives one digit, "A3B"
    "qwen3-coder-next": 0.10,  # the name gives one digit, "A3B"
}


def is_dense(model: Model) -> bool:
    """Only softmax attention and dense feed-forward parts."""
    return all(
        (group.mixer is None or group.mixer.kind == "gqa")
        and (group.feed_forward is None or group.feed_forward.kind == "dense")
        for group in model.layers
    )


def test_total_parameters_agree_with_the_published_count() -> None:
    for model in [m for m in ALL if m.published_parameters]:
        count = parameter_count(model)
        total = count.total
        total += count.vision if "vision" in model.published_includes else 0.0
        total += count.mtp if "mtp" in model.published_includes else 0.0
        limit = TOTAL_EXCEPTIONS.get(model.id, 0.015 if is_dense(model) else 0.025)
        assert model.published_parameters is not None
        assert total == pytest.approx(model.published_parameters, rel=limit)


def test_active_parameters_agree_with_the_published_count() -> None:
    for model in [m for m in ALL if m.published_active_parameters]:
        # Publishers count embedding and head or not: the published figure lies between the two readings.
        count = parameter_count(model)
        published = model.published_active_parameters
        assert published is not None
        limit = ACTIVE_EXCEPTIONS.get(model.id, 0.025)
        head = count.head or count.embedding
        assert (
            (count.active - head) * (1 - limit) <= published <= (count.active + count.embedding) * (1 + limit)
        )


def test_every_mixer_has_a_cache_or_a_state() -> None:
    for model in ALL:
        for layer in layers_of(model):
            if layer.mixer is not None:
                assert (layer.attention is None) == (layer.mixer.recurrence() is not None)
                assert layer.mixer.launches > 0
                assert layer.mixer.head_counts


def test_ranks_together_hold_every_weight_and_repeat_few() -> None:
    for model in ALL:
        for layer in layers_of(model):
            for matrix in layer.stored:
                assert matrix.local(1).elements == matrix.elements == matrix.num_weights_on_rank(1)
                for tp in (2, 8):
                    assert tp * matrix.num_weights_on_rank(tp) >= matrix.elements * (1 - 1e-12)
                    assert matrix.num_weights_on_rank(tp) <= matrix.elements


def test_repeated_heads_are_the_only_ones_held_more_than_once() -> None:
    matrix = Matrix("qkv", (Block(64, 128), Block(8, 256)), Block(8192, divided=False))
    assert 16 * matrix.num_weights_on_rank(16) == (64 * 128 + 2 * 8 * 256) * 8192
    assert 8 * matrix.num_weights_on_rank(8) == matrix.elements


def test_work_multiplies_every_active_parameter_once() -> None:
    for model in (models.by_id(name) for name in ("llama-3.1-8b", "deepseek-v4-flash", "nemotron-h-56b")):
        count = parameter_count(model)
        convolutions = sum(
            layer.count * sum(matrix.elements for matrix in layer.mixer.convolutions)
            for layer in count.layers
            if layer.mixer is not None
        )
        for work in (decode_step_work(model, 1.0, 0.0), prefill_work(model, 1)):
            multiplied = sum(work[name].flop for name in ("projections", "feed_forward", "experts", "head"))
            assert multiplied == pytest.approx(2.0 * (count.active - convolutions), rel=1e-9)


def test_a_prompt_of_one_token_is_a_step_of_one_sequence() -> None:
    model = models.by_id("qwen3-235b-a22b")
    step = decode_step_work(model, 1.0, 1.0)
    prompt = prefill_work(model, 1)
    assert {name: work.flop for name, work in step.items()} == pytest.approx(
        {name: work.flop for name, work in prompt.items()}
    )


def test_launches_and_sums_are_counted_by_layer() -> None:
    llama = models.by_id("llama-3.1-8b")
    assert (num_layers(llama), num_operators(llama), num_collectives(llama)) == (32, 32 * 12, 64)
    hybrid = models.by_id("nemotron-h-56b")  # each layer is a mixer or a feed-forward part
    assert num_collectives(hybrid) == num_layers(hybrid)
    assert has_state(hybrid)
    assert not has_state(llama)


def test_llama_2_7b_holds_13_5_gb_and_34_4_gb_of_cache() -> None:
    model = models.by_id("llama-2-7b")
    assert parameter_count(model).total == pytest.approx(6.738e9, rel=1e-3)
    assert weight_bytes(named_deployment("llama-2-7b", "h100-sxm")) == pytest.approx(13.5e9, rel=0.01)
    assert 32 * kv_bytes_per_token(model).bytes_of(2048) == pytest.approx(34.4e9, rel=1e-2)


def test_the_weights_of_a_vision_tower_are_in_memory() -> None:
    seeing = named_deployment("qwen3-vl-8b", "h100-sxm", tensor_parallel=2)
    vision = seeing.model.vision
    assert vision is not None
    assert vision.parameters == 451.178e6
    blind = replace(seeing, model=seeing.model.model_copy(update={"vision": None}))
    assert weight_bytes(seeing) - weight_bytes(blind) == pytest.approx(2.0 * vision.parameters / 2)
    left = [plan_memory(each, num_batched_tokens=2048, num_seqs=64).kv_bytes for each in (seeing, blind)]
    assert left[1] - left[0] >= vision.parameters  # the engine keeps room for its activations too


def test_operators_that_do_not_add_up_are_refused_with_the_file() -> None:
    model = models.by_id("qwen3-8b")
    wrong = model.model_copy(update={"layers": (model.layers[0].model_copy(update={"count": 72}),)})
    check_parameters(model)
    with pytest.raises(AdvisorError, match=r"catalog/data/models/qwen3-8b.toml"):
        check_parameters(wrong)


def test_a_mixer_without_a_cache_or_a_state_is_refused_with_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    record = GroupedQueryAttention(num_heads=3, num_kv_heads=3, head_dim=7)
    monkeypatch.setattr(gqa.Operators, "launches", 0)
    with pytest.raises(AdvisorError, match=r"simulator/graph/mixers/gqa.py"):
        mixer_operators(record, 21)


def test_a_mixer_whose_ranks_do_not_add_up_is_refused_with_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    record = GroupedQueryAttention(num_heads=5, num_kv_heads=5, head_dim=11)
    monkeypatch.setattr(Block, "local", lambda block, ranks: block.size // ranks + 1)
    with pytest.raises(
        AdvisorError, match=r"simulator/graph/mixers/gqa.py: the matrices of one rank do not add up"
    ):
        mixer_operators(record, 55)


def test_kv_cache_of_llama_3_70b_at_8192_tokens_is_2_68_gb() -> None:
    footprint = kv_bytes_per_token(models.get("llama-3.1-70b").record, "bf16")
    assert footprint.bytes_of(8192) == pytest.approx(2.684e9, rel=1e-3)
    assert footprint.windowed == ()
    assert footprint.state_bytes_per_sequence == 0.0


def test_fp8_halves_the_cache() -> None:
    model = models.get("qwen3-8b").record
    full = kv_bytes_per_token(model, "bf16").full_bytes_per_token
    assert kv_bytes_per_token(model, "fp8").full_bytes_per_token == full / 2


def test_latent_attention_keeps_576_values_per_token_and_layer() -> None:
    footprint = kv_bytes_per_token(models.get("deepseek-r1").record, "bf16")
    assert footprint.full_bytes_per_token == 61 * 576 * 2


def test_an_indexer_adds_its_key_where_a_layer_has_its_own() -> None:
    own = kv_bytes_per_token(models.get("deepseek-v3.2").record, "bf16").full_bytes_per_token
    assert own == 61 * (576 * 2 + 132)
    shared = kv_bytes_per_token(models.get("glm-5.2").record, "bf16").full_bytes_per_token
    assert shared == 78 * 576 * 2 + 21 * 132


def test_windows_are_reported_apart_and_saturate() -> None:
    footprint = kv_bytes_per_token(models.get("gpt-oss-120b").record, "bf16")
    per_layer = 2 * 8 * 64 * 2
    assert footprint.full_bytes_per_token == 18 * per_layer
    assert footprint.windowed == ((128, 18 * per_layer),)
    assert footprint.bytes_of(100) == 36 * per_layer * 100
    assert footprint.bytes_of(10_000) == 18 * per_layer * (10_000 + 128)


def test_recurrent_state_does_not_grow() -> None:
    footprint = kv_bytes_per_token(models.get("qwen3.5-397b-a17b").record, "bf16")
    recurrent = 64 * 128 * 128 * 4
    convolution = 3 * (2 * 16 * 128 + 64 * 128) * 2
    assert footprint.full_bytes_per_token == 15 * 2 * 2 * 256 * 2
    assert footprint.state_bytes_per_sequence == 45 * (recurrent + convolution)
    assert footprint.bytes_of(0) == footprint.state_bytes_per_sequence


def test_compressed_layers_keep_one_entry_per_ratio_beside_their_window() -> None:
    footprint = kv_bytes_per_token(models.get("deepseek-v4-flash").record, "bf16")
    entry = 512 * 2
    assert footprint.windowed == ((128, 43 * entry),)
    assert footprint.full_bytes_per_token == pytest.approx(21 * (entry + 132) / 4 + 20 * entry / 128)


def test_layers_that_share_keys_and_values_keep_none() -> None:
    footprint = kv_bytes_per_token(models.get("gemma-4-e2b").record, "bf16")
    assert footprint.full_bytes_per_token == 3 * 2 * 512 * 2
    assert footprint.windowed == ((512, 12 * 2 * 256 * 2),)


def test_cross_attention_counts_once_per_sequence() -> None:
    footprint = kv_bytes_per_token(models.get("whisper-large-v3").record, "bf16")
    assert footprint.full_bytes_per_token == 32 * 2 * 1280 * 2
    assert footprint.state_bytes_per_sequence == 32 * 1500 * 2 * 1280 * 2


def test_unknown_cache_format_is_refused() -> None:
    with pytest.raises(KeyError):
        kv_bytes_per_token(models.get("qwen3-8b").record, "fp5")
