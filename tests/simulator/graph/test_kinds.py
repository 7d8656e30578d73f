"""Kinds of mixers that few models have: counts by hand, and what prompts and decodes of an encoder-decoder pass."""

import numpy as np
import pytest

from advisor.catalog import models
from advisor.simulator.deployment import named_deployment
from advisor.simulator.device import device_of
from advisor.simulator.graph.forward_pass import decode_lines, prefill_lines, token_costs
from advisor.simulator.graph.model import kv_bytes_per_token, layers_in, layers_of, parameter_count
from advisor.simulator.memory import weight_bytes
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.roofline import decode_step_work, prefill_work

TOKENS = np.array([256.0, 1024.0])


def library(model: str) -> OperatorLibrary:
    layout = named_deployment(model, "h100-sxm")
    return OperatorLibrary(device_of(layout.accelerator), "vllm")


def test_rwkv_7_has_the_published_parameters_but_for_its_vectors() -> None:
    # arXiv:2503.14456, appendix: 2DV + 4D + LD (12D + 2 (dw + da + dv + dg) + 19) - (2 D dv + D)
    width = 2560
    layers = 32
    vocabulary = 65536
    ranks = 96 + 96 + 64 + 320
    published = (
        2 * width * vocabulary
        + 4 * width
        + layers * width * (12 * width + 2 * ranks + 19)
        - (2 * 64 + 1) * width
    )
    assert published == 2_947_735_040
    vectors = 4 * width + 19 * layers * width - width
    assert parameter_count(models.by_id("rwkv7-2.9b")).total == published - vectors


def test_the_state_of_rwkv_7_has_one_size() -> None:
    footprint = kv_bytes_per_token(models.by_id("rwkv7-2.9b"))
    state = 40 * 64 * 64 * 4
    shifts = 2 * 2560 * 2
    assert footprint.bytes_of(1) == footprint.bytes_of(1_000_000) == 32 * (state + shifts)


def test_gated_linear_attention_holds_keys_by_values() -> None:
    layer = layers_of(models.by_id("gla-1.3b"))[0]
    assert layer.mixer is not None
    # Queries and keys half as wide as the model, values, gate and output as wide, decay through rank 16.
    assert layer.mixer.parameters == 2 * 2048 * 1024 + 3 * 2048 * 2048 + 16 * (2048 + 1024)
    assert layer.mixer.state_bytes(2.0) == 4 * 256 * 512 * 4


@pytest.mark.parametrize(("model", "kernel"), [("rwkv7-2.9b", "kda"), ("gla-1.3b", "mamba2")])
def test_kernels_that_nobody_measured_are_lent_and_said_to_be(model: str, kernel: str) -> None:
    operators = library(model)
    costs = token_costs(named_deployment(model, "h100-sxm"), operators, TOKENS, decode=True)
    assert (costs.seconds["state_space"] > 0).all()
    assert any(kernel in entry for entry in operators.transferred_operators)


def test_an_encoder_reads_prompts_and_a_decoder_writes() -> None:
    model = models.by_id("flan-t5-xl")
    count = parameter_count(model)
    width = 2048
    inner = 5120
    encoder = 24 * (4 * width**2 + 3 * width * inner)
    cross_keys = 24 * 2 * width**2
    decoder = 24 * (8 * width**2 + 3 * width * inner)
    assert count.total - count.embedding - count.head == encoder + decoder
    parts = ("projections", "feed_forward")
    prompt = prefill_work(model, 100)
    step = decode_step_work(model, 1.0, 0.0)
    assert sum(prompt[name].flop for name in parts) == 2.0 * 100 * (encoder + cross_keys)
    assert sum(step[name].flop for name in parts) == 2.0 * (decoder - cross_keys)
    assert prompt["attention"].flop == 24 * 4 * width * 100**2  # of all tokens with all tokens
    assert {layer.encodes for layer in layers_in(model, decode=True)} == {False}


def test_every_token_of_an_encoder_decoder_is_kept_once_per_decoder_layer() -> None:
    assert kv_bytes_per_token(models.by_id("flan-t5-xl")).full_bytes_per_token == 24 * 2 * 2048 * 2
    step = decode_step_work(models.by_id("flan-t5-xl"), 8.0, 500.0)
    assert step["attention"].num_bytes == 8 * 500 * 24 * 2 * 2048 * 2


def test_an_encoders_prompts_meet_all_their_tokens() -> None:
    layout = named_deployment("flan-t5-xl", "h100-sxm")
    operators = library("flan-t5-xl")
    lines = prefill_lines(layout, operators, 512.0, 512.0)
    causal = prefill_lines(named_deployment("llama-3.1-8b", "h100-sxm"), operators, 512.0, 512.0)
    # 24 layers of 32 heads of 64 on all pairs, against 32 layers of 32 heads of 128 on half of them.
    assert lines.pair_s / causal.pair_s == pytest.approx(24 * 2 / (32 * 2), rel=0.5)
    assert (decode_lines(layout, operators, TOKENS, 256.0, 512.0).slope_s > 0).all()


@pytest.mark.parametrize("tp", [1, 2, 8])
@pytest.mark.parametrize("stages", [1, 2])
def test_accelerators_together_hold_the_model_at_least_once(tp: int, stages: int) -> None:
    for model in models.all_models():
        layout = named_deployment(
            model.id, "h200-sxm", tensor_parallel=tp, pipeline_parallel=stages, weight_dtype="bf16"
        )
        count = parameter_count(model)
        tables = count.embedding + count.head if stages == 1 else 2 * count.embedding
        least = count.total - count.embedding - count.head + tables + count.vision
        assert weight_bytes(layout) * tp * stages >= 2.0 * least * (1 - 1e-9), model.id
