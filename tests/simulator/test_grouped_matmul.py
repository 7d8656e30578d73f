"""Laws of the routed-experts model and of the load that routing gives the busiest rank."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.catalog.accelerators import by_id
from advisor.catalog.efficiencies import efficiency, records
from advisor.catalog.units import MICROSECOND_S
from advisor.simulator.device import device_of
from advisor.simulator.operators.grouped_matmul import (
    GroupedMatmulEfficiency,
    expert_load,
    moe_s,
    rate_fraction,
)

MEASURED = {
    "ampere": "a100-sxm-80gb",
    "ada": "l40s",
    "hopper": "h100-sxm",
    "blackwell": "b200-sxm",
    "blackwell-ultra": "b300-sxm",
    "blackwell-geforce": "rtx-pro-6000-server",
}
RECORDS = [record for record in records("grouped_matmul") if record.architecture in MEASURED]
# hidden, intermediate, experts, experts per token
MODELS = {
    "gpt-oss-120b": (2880, 2880, 128, 4),
    "deepseek-r1": (7168, 2048, 256, 8),
    "qwen3-235b": (4096, 1536, 128, 8),
    "mixtral-8x7b": (4096, 14336, 8, 2),
}
any_record = st.sampled_from(RECORDS)
any_model = st.sampled_from(list(MODELS.values()))
tokens = st.integers(min_value=1, max_value=16384)
ranks = st.sampled_from([1, 2, 4, 8])


def moe_time_s(record, num_tokens, model, device=None, **options):
    device = device or device_of(by_id(MEASURED[record.architecture]))
    return moe_s(num_tokens, *model, device, GroupedMatmulEfficiency.from_record(record), **options)


@given(any_record, tokens, any_model, ranks, ranks, st.floats(0.0, 2.0))
@settings(max_examples=200, deadline=None)
def test_time_is_positive_and_finite(record, num_tokens, model, tensor, expert, skew):
    seconds = moe_time_s(record, num_tokens, model, tensor_parallel=tensor, expert_parallel=expert, skew=skew)
    assert seconds.shape == (1,)
    assert np.isfinite(seconds[0])
    assert seconds[0] > record.parameters["launch_s"]


@given(any_record, tokens, any_model, ranks, st.floats(1.01, 8.0), st.floats(1.0, 8.0))
@settings(max_examples=200, deadline=None)
def test_faster_hardware_is_never_slower(record, num_tokens, model, expert, bandwidth, rate):
    device = device_of(by_id(MEASURED[record.architecture]))
    faster = replace(
        device,
        bandwidth_bytes_per_s=device.bandwidth_bytes_per_s * bandwidth,
        peak_flop_per_s={key: value * rate for key, value in device.peak_flop_per_s.items()},
    )
    before = moe_time_s(record, num_tokens, model, expert_parallel=expert)
    after = moe_time_s(record, num_tokens, model, faster, expert_parallel=expert)
    assert after[0] <= before[0] * (1 + 1e-12)


@given(any_record, any_model, ranks)
@settings(max_examples=100, deadline=None)
def test_more_tokens_take_longer_but_for_tile_effects(record, model, expert):
    seconds = moe_time_s(record, np.array([1, 8, 64, 512, 4096, 16384.0]), model, expert_parallel=expert)
    assert (np.diff(seconds) > 0.0).all()


@pytest.mark.parametrize("model", MODELS.values(), ids=list(MODELS))
def test_tensor_and_expert_parallelism_divide_the_weights(model):
    record = efficiency("hopper", "grouped_matmul", "bf16").record
    whole = moe_time_s(record, 256, model)[0]
    assert 2.0 < whole / moe_time_s(record, 256, model, tensor_parallel=8)[0] < 8.5
    assert 2.0 < whole / moe_time_s(record, 256, model, expert_parallel=8)[0] < 8.5


@given(st.integers(1, 20000), any_model, ranks, st.floats(0.0, 2.0))
@settings(max_examples=200, deadline=None)
def test_load_is_conserved_and_bounded(num_tokens, model, expert_parallel, skew):
    _, _, num_experts, topk = model
    load = expert_load(np.array([float(num_tokens)]), num_experts, topk, expert_parallel, skew)
    pairs = num_tokens * topk
    assert 0.0 < load.active_experts[0] <= num_experts / expert_parallel + 1e-9
    assert load.rows[0] <= pairs + 1e-6
    if skew == 0.0:
        assert load.rows[0] >= pairs / expert_parallel * (1 - 1e-9)
        if expert_parallel == 1:
            assert load.rows[0] == pytest.approx(pairs)
    # A tile holds at least one and at most `size` rows; an idle expert has none.
    assert (np.diff(load.row_tiles[:, 0]) <= 1e-9).all()
    assert (load.row_tiles[:, 0] >= load.active_experts[0] - 1e-9).all()


def test_active_experts_match_a_simulated_router():
    rng = np.random.default_rng(1)
    for num_tokens in (1, 4, 16, 64, 256):
        seen = [
            len(np.unique([rng.choice(128, 4, replace=False) for _ in range(num_tokens)])) for _ in range(40)
        ]
        expected = expert_load(np.array([float(num_tokens)]), 128, 4, skew=0.0).active_experts[0]
        assert expected == pytest.approx(np.mean(seen), rel=0.05)


def test_the_busiest_rank_matches_a_simulated_router():
    rng = np.random.default_rng(2)
    busiest = []
    for _ in range(200):
        experts = np.argsort(rng.random((512, 256)), axis=1)[:, :8]
        busiest.append(np.bincount(experts.ravel() // 32, minlength=8).max())
    predicted = expert_load(np.array([512.0]), 256, 8, 8, skew=0.0).rows[0]
    assert predicted == pytest.approx(np.mean(busiest), rel=0.06)


@pytest.mark.parametrize("skew", [0.5, 1.0])
def test_skew_leaves_experts_idle_and_ranks_uneven(skew):
    few = np.array([32.0])
    many = np.array([4096.0])
    assert (
        expert_load(few, 128, 4, skew=skew).active_experts < expert_load(few, 128, 4, skew=0.0).active_experts
    )
    assert expert_load(many, 128, 4, 8, skew).rows > expert_load(many, 128, 4, 8, skew=0.0).rows


# One layer of gpt-oss-120b in mxfp4 under vLLM on one H100 (kernel tables of aiconfigurator): an even load that
# fills whole tiles, and a power law. Random routing lies between them once every expert has work.
@pytest.mark.parametrize(
    ("num_tokens", "even_us", "power_law_us"), [(512, 715, 1075), (2048, 1041, 1766), (8192, 2931, 3954)]
)
def test_published_gpt_oss_layer_on_h100(num_tokens, even_us, power_law_us):
    record = efficiency("hopper", "grouped_matmul", "mxfp4_wo", "vllm").record
    seconds = moe_time_s(record, num_tokens, MODELS["gpt-oss-120b"])[0]
    assert even_us * 0.95 <= seconds / MICROSECOND_S <= power_law_us * 1.05


# One layer of DeepSeek-R1 in nvfp4 under SGLang on one B200, weights split over 8, power law.
@pytest.mark.parametrize(("num_tokens", "published_us"), [(64, 111), (1024, 268), (8192, 643)])
def test_published_deepseek_layer_on_b200(num_tokens, published_us):
    record = efficiency("blackwell", "grouped_matmul", "nvfp4", "sglang").record
    seconds = moe_time_s(record, num_tokens, MODELS["deepseek-r1"], tensor_parallel=8, skew=1.0)[0]
    assert seconds / MICROSECOND_S == pytest.approx(published_us, rel=0.25)


@given(any_record, tokens, any_model, ranks, ranks)
@settings(max_examples=100, deadline=None)
def test_padding_reads_every_expert(record, num_tokens, model, tensor, expert):
    split = {"tensor_parallel": tensor, "expert_parallel": expert}
    plain = moe_time_s(record, num_tokens, model, **split)
    padded = moe_time_s(record, num_tokens, model, block_rows=128, **split)
    assert padded[0] > plain[0]
    device = device_of(by_id(MEASURED[record.architecture]))
    width = {"bf16": 2.0, "nvfp4": 0.5, "mxfp4": 0.5, "w4a8_mxfp4": 0.5, "int4_wo": 0.5, "mxfp4_wo": 0.5}
    hidden, inner, num_experts, _ = model
    weights = 3.0 * hidden * inner / tensor * num_experts / expert * width.get(record.dtype, 1.0)
    assert padded[0] > weights / device.bandwidth_bytes_per_s


def test_few_tokens_take_as_long_as_many_where_rows_are_padded() -> None:
    record = next(found for found in RECORDS if (found.architecture, found.dtype) == ("hopper", "fp8_block"))
    few, many = (moe_time_s(record, count, MODELS["qwen3-235b"], block_rows=128)[0] for count in (2, 64))
    assert many / few < 1.1
    assert (
        moe_time_s(record, 64, MODELS["qwen3-235b"])[0] / moe_time_s(record, 2, MODELS["qwen3-235b"])[0] > 4.0
    )


@given(any_record, st.floats(0.25, 1.0), st.floats(0.25, 1.0), st.floats(1.0, 64.0) | st.just(math.inf))
def test_a_slower_unit_reaches_more_of_its_rate_and_never_more_than_a_faster_one(
    record, relative, other, norm
):
    """A slower matrix unit has the same feed, and hides more of it the better a kernel overlaps both."""
    fraction = GroupedMatmulEfficiency.from_record(record).compute_fraction
    slow, fast = sorted((relative, other))
    reached = {each: rate_fraction(fraction, each, norm) for each in (slow, fast)}
    assert rate_fraction(fraction, 1.0, norm) == pytest.approx(fraction)
    assert fraction * (1 - 1e-9) <= reached[fast] <= reached[slow] <= 1.0
    assert slow * reached[slow] <= fast * reached[fast] * (1 + 1e-9)
    assert reached[slow] >= rate_fraction(fraction, slow) * (1 - 1e-9)


def test_an_h20_computes_experts_at_most_of_its_rate() -> None:
    """An H20 has a quarter of an H100's rate per SM and the same feed: SGLang's kernel, which reaches a fifth of the
    H100's rate with 512 rows of 192 columns for each expert, reaches twice that fraction there."""
    hidden, inner, _, each = MODELS["qwen3-235b"]
    record = next(r for r in RECORDS if (r.architecture, r.dtype, r.engine) == ("hopper", "bf16", "sglang"))

    def fraction(gpu: str) -> float:
        device = device_of(by_id(gpu))
        seconds = moe_time_s(record, 8192, MODELS["qwen3-235b"], device, tensor_parallel=8)[0]
        flop = 8192 * each * 3 * 2 * hidden * inner / 8
        return float(flop / seconds / device.peak_flop_per_s["bf16"])

    assert fraction("h20") > 2 * fraction("h100-sxm")
    assert fraction("h20") < 0.8
