"""Operators on the roofline: counts against the definition, bounds that turn, times that add up."""

import dataclasses

import pytest

from advisor.catalog import models
from advisor.simulator.deployment import named_deployment
from advisor.simulator.device import device_of
from advisor.simulator.roofline import prefill_work, total_work
from advisor.simulator.step_roofline import roofline_passes
from advisor.simulator.surface import prefill_breakdown_s

MODELS = ("llama-3.1-8b", "mixtral-8x7b", "deepseek-v3", "nemotron-h-56b", "gpt-oss-120b")


def passes(model="llama-3.1-8b", gpu="h100-sxm", batch=16, context=4096, **options):
    return roofline_passes(named_deployment(model, gpu, **options), batch, context)


def by_name(one):
    return {operator.name: operator for operator in one.operators}


def test_prompt_work_of_a_dense_model_is_two_flop_per_weight_and_token():
    model = models.by_id("llama-3.1-8b")
    tokens = 1000
    work = prefill_work(model, tokens)
    layers = 32 * (4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336)
    assert work["projections"].flop + work["feed_forward"].flop == pytest.approx(2.0 * layers * tokens)
    assert work["head"].flop == pytest.approx(2.0 * 128256 * 4096)
    pairs = tokens * (tokens + 1) / 2
    assert work["attention"].flop == pytest.approx(32 * 4 * 32 * 128 * pairs)
    moved = 32 * tokens * 2 * (2 * 4096 + 2 * 1024)
    assert work["attention"].num_bytes == pytest.approx(moved)


def test_a_window_caps_the_pairs_of_a_prompt():
    model = models.by_id("gpt-oss-120b")
    short, long = (prefill_work(model, tokens)["attention"].flop for tokens in (8192, 16384))
    assert 2.0 < long / short < 4.0  # half of its layers see a window, half see everything


def test_experts_of_a_prompt_multiply_what_is_routed():
    model = models.by_id("mixtral-8x7b")
    work = prefill_work(model, 2048)["experts"]
    assert work.flop == pytest.approx(32 * 2048 * 2 * 2 * 3 * 4096 * 14336)
    assert work.num_bytes > 32 * 8 * 3 * 4096 * 14336 * 2


@pytest.mark.parametrize("model", MODELS)
def test_times_and_shares_add_up_and_no_operator_beats_its_floor_by_much(model):
    for one in passes(model, "h200-sxm"):
        assert sum(operator.share_fraction for operator in one.operators) == pytest.approx(1.0)
        parts = sum(operator.predicted_s.value for operator in one.operators)
        assert one.predicted_s.value == pytest.approx(parts)
        assert one.floor_s < one.predicted_s.value
        for operator in one.operators:
            assert operator.predicted_s.low < operator.predicted_s.value < operator.predicted_s.high
            # Engines' experts run up to a third faster than uniform routing would let them.
            assert operator.roof_fraction < (1.4 if operator.name == "experts" else 1.02)
            assert (operator.work is None) == (operator.bound in ("cache", "host"))


def test_all_counted_work_is_on_the_roof():
    model = models.by_id("deepseek-v3")
    step, prompt = passes("deepseek-v3", "h200-sxm")
    counted = total_work(operator.work for operator in prompt.operators if operator.work)
    assert counted.flop == pytest.approx(
        total_work(prefill_work(model, 4096, weight_dtype=model.weights).values()).flop
    )
    assert {operator.name for operator in step.operators if operator.work} >= {"experts", "attention"}


def test_decode_waits_for_memory_until_the_batch_is_large():
    small, large = (by_name(passes(batch=batch, context=128)[0]) for batch in (1, 1024))
    assert small["feed_forward"].bound == "memory"
    assert large["feed_forward"].bound == "compute"
    assert large["attention"].bound == "memory"
    assert small["feed_forward"].work.intensity_flop_per_byte == pytest.approx(1.0)


def test_prompts_wait_for_arithmetic():
    prompt = by_name(passes()[1])
    assert prompt["feed_forward"].bound == prompt["attention"].bound == "compute"
    assert prompt["head"].bound == "memory"


def test_the_roof_of_a_format_is_that_of_its_unit():
    wide, narrow = (
        by_name(passes(weight_dtype=dtype)[1])["feed_forward"].peak_flop_per_s for dtype in ("bf16", "fp8")
    )
    assert narrow == pytest.approx(2 * wide, rel=0.01)
    assert by_name(passes(weight_dtype="int4")[1])["feed_forward"].peak_flop_per_s == wide


def test_a_slower_roof_raises_floors_and_leaves_predictions():
    deployment = named_deployment("llama-3.1-8b", "h100-sxm")
    slower = device_of(named_deployment("llama-3.1-8b", "a100-sxm-80gb").accelerator)
    own, other = (roofline_passes(deployment, 8, 2048, roof=roof) for roof in (None, slower))
    for first, second in zip(own, other, strict=True):
        assert second.floor_s > 1.5 * first.floor_s
        assert second.predicted_s == first.predicted_s


def test_a_prompt_takes_longer_than_its_parts_launches():
    from advisor.simulator.engine_costs import default_costs
    from advisor.simulator.operator_library import OperatorLibrary

    deployment = named_deployment("llama-3.1-8b", "h100-sxm")
    library = OperatorLibrary(device_of(deployment.accelerator), "vllm")
    costs = dataclasses.replace(default_costs(), eager_launch_s=1.0)
    slow = prefill_breakdown_s(deployment, library, costs, 1024)
    assert sum(slow.values()) > 32.0  # every layer launches several operators
    assert slow["host"] > 0.9 * sum(slow.values())
    captured = prefill_breakdown_s(deployment, library, costs, 64)
    assert sum(captured.values()) < 0.1


@pytest.mark.parametrize(
    "weights", ["fp32", "tf32", "bf16", "fp8", "int8", "int4", "nvfp4", "mxfp4", "q4_k_m"]
)
@pytest.mark.parametrize("gpu", ["h100-sxm", "b200-sxm", "a100-sxm-80gb"])
def test_no_format_multiplies_above_its_roof(weights, gpu):
    engine = "llama.cpp" if weights == "q4_k_m" else "vllm"
    for one in passes(gpu=gpu, batch=1, weight_dtype=weights, engine=engine):
        for name in ("feed_forward", "attention_projections"):
            operator = by_name(one)[name]
            assert operator.predicted_s.value >= operator.floor_s, (name, one.phase)
