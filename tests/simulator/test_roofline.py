"""The roofline against numbers of textbooks and datasheets, and against the fitted model, which it must bound."""

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog import accelerators, engines, models
from advisor.simulator.deployment import Deployment
from advisor.simulator.device import device_of
from advisor.simulator.engine_costs import default_costs
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.roofline import (
    Work,
    attention_decode_work,
    attention_prefill_work,
    decode_step_work,
    elementwise_work,
    floor_s,
    is_compute_bound,
    matmul_work,
    mlp_fusion_saved_bytes,
    ridge_flop_per_byte,
    score_matrix_bytes,
    total_work,
)
from advisor.simulator.step_roofline import crossover_batch, decode_floor_s, longest_compute_bound_context
from advisor.simulator.surface import decode_breakdown_s

H100_BF16 = 989.4e12
H100_BYTES_PER_S = 3.35e12
NO_HOST = dataclasses.replace(default_costs(), step_s=0.0, sequence_s=0.0)


def test_square_matmul_on_an_a100() -> None:
    work = matmul_work(4096, 4096, 4096)
    assert work.intensity_flop_per_byte == pytest.approx(1365, abs=1)
    assert ridge_flop_per_byte(312e12, 2.04e12) == pytest.approx(153, abs=0.5)
    assert is_compute_bound(work, 312e12, 2.04e12)


@pytest.mark.parametrize(
    ("gpu", "ridge"), [("a100-sxm-80gb", 153), ("h100-sxm", 295), ("h200-sxm", 206)], ids=str
)
def test_ridge_of_the_catalog(gpu: str, ridge: float) -> None:
    record = accelerators.by_id(gpu)
    assert record.bandwidth_bytes_per_s
    found = ridge_flop_per_byte(record.peak_flop_per_s["bf16"], record.bandwidth_bytes_per_s)
    assert found == pytest.approx(ridge, abs=0.6)


def test_layer_norm_is_far_below_every_ridge() -> None:
    work = elementwise_work(4096 * 8192, flop_per_element=5, accesses=3)
    assert work.intensity_flop_per_byte == pytest.approx(5 / 6)


def test_decode_attention_has_the_intensity_of_its_group() -> None:
    assert attention_decode_work(32, 8192, 64, 8, 128).intensity_flop_per_byte == pytest.approx(8)
    assert attention_decode_work(1, 100, 32, 32, 128).intensity_flop_per_byte == pytest.approx(1)
    assert attention_decode_work(1, 100, 64, 8, 128, kv_bytes=1).intensity_flop_per_byte == pytest.approx(16)


def test_prefill_attention_turns_compute_bound_with_length() -> None:
    short, long = (attention_prefill_work(n, 0, 64, 8, 128) for n in (64, 8192))
    assert not is_compute_bound(short, H100_BF16, H100_BYTES_PER_S)
    assert is_compute_bound(long, H100_BF16, H100_BYTES_PER_S)
    assert long.flop == pytest.approx(4 * 64 * 128 * 8192 * 8193 / 2)


def test_prefill_of_a_cached_prompt_counts_pairs_with_the_cache() -> None:
    assert attention_prefill_work(1, 4095, 32, 32, 128).flop == 4 * 32 * 128 * 4096


def test_70b_in_16_bits_takes_42_ms_per_token_on_one_h100() -> None:
    read_s = floor_s(Work(0.0, 70e9 * 2), H100_BF16, H100_BYTES_PER_S)
    assert read_s == pytest.approx(41.8e-3, abs=0.05e-3)
    model = models.get("llama-3.1-70b").record
    assert decode_floor_s(model, 1, 0, H100_BF16, H100_BYTES_PER_S) == pytest.approx(41.5e-3, rel=0.005)


def test_decode_does_two_flop_per_parameter_and_one_per_byte() -> None:
    model = models.get("llama-3.1-70b").record
    work = total_work(decode_step_work(model, 1, 0).values())
    assert work.flop == pytest.approx(2 * 69.5e9, rel=0.001)
    assert work.intensity_flop_per_byte == pytest.approx(1.0, abs=0.01)


def test_the_crossover_is_the_ridge_without_context_and_never_with_8k() -> None:
    model = models.get("llama-3.1-70b").record
    assert crossover_batch(model, 0, H100_BF16, H100_BYTES_PER_S) == pytest.approx(295.3, abs=0.3)
    assert crossover_batch(model, 8192, H100_BF16, H100_BYTES_PER_S) is None
    longest = longest_compute_bound_context(model, H100_BF16, H100_BYTES_PER_S)
    assert longest == pytest.approx(1476, abs=3)
    assert crossover_batch(model, longest * 0.99, H100_BF16, H100_BYTES_PER_S) is not None
    assert crossover_batch(model, longest * 1.01, H100_BF16, H100_BYTES_PER_S) is None


@pytest.mark.parametrize("name", ["llama-3.1-70b", "mixtral-8x7b", "deepseek-v3", "gpt-oss-120b"])
def test_at_the_crossover_arithmetic_takes_as_long_as_traffic(name: str) -> None:
    model = models.get(name).record
    batch = crossover_batch(model, 256, H100_BF16, H100_BYTES_PER_S)
    assert batch is not None
    work = total_work(decode_step_work(model, batch, 256).values())
    assert work.flop / H100_BF16 == pytest.approx(work.num_bytes / H100_BYTES_PER_S, rel=1e-6)


def test_experts_raise_the_crossover() -> None:
    dense, sparse = (models.get(name).record for name in ("llama-3.1-70b", "mixtral-8x7b"))
    batches = [crossover_batch(model, 0, H100_BF16, H100_BYTES_PER_S) for model in (dense, sparse)]
    assert batches[0] is not None
    assert batches[1] is not None
    assert batches[1] > 3 * batches[0]


def test_few_tokens_read_few_experts() -> None:
    mixtral = models.get("mixtral-8x7b").record
    alone, crowd = (decode_step_work(mixtral, batch, 0)["experts"] for batch in (1, 1000))
    assert alone.num_bytes == pytest.approx(crowd.num_bytes / 4)  # 2 of 8


def test_a_recurrent_state_is_constant_and_a_window_saturates() -> None:
    hybrid = models.get("nemotron-h-56b").record
    assert decode_step_work(hybrid, 1, 1000)["state"] == decode_step_work(hybrid, 1, 100_000)["state"]
    assert decode_step_work(hybrid, 1, 1000)["state"].num_bytes > 0
    mistral = models.get("mistral-7b-v0.1").record
    cached = [decode_step_work(mistral, 1, tokens)["attention"].num_bytes for tokens in (4096, 32768)]
    assert cached[0] == cached[1]


def test_fusing_saves_the_intermediate_and_flash_attention_the_scores() -> None:
    assert score_matrix_bytes(64, 8192, 8192) == pytest.approx(8.59e9, rel=0.001)
    assert mlp_fusion_saved_bytes(1024, 4 * 4096) == pytest.approx(134.2e6, rel=0.001)
    assert mlp_fusion_saved_bytes(1024, 4 * 4096, fused="activation") == pytest.approx(67.1e6, rel=0.001)
    assert mlp_fusion_saved_bytes(1024, 14336, gated=True) == 6 * 1024 * 14336 * 2
    with pytest.raises(ValueError, match="half"):
        mlp_fusion_saved_bytes(1, 1, fused="half")


@given(
    flop=st.floats(0, 1e18), moved=st.floats(1, 1e15), peak=st.floats(1e9, 1e16), rate=st.floats(1e9, 1e14)
)
def test_the_floor_falls_with_bandwidth_and_peak(flop: float, moved: float, peak: float, rate: float) -> None:
    work = Work(flop, moved)
    assert floor_s(work, peak, 2 * rate) <= floor_s(work, peak, rate)
    assert floor_s(work, 2 * peak, rate) <= floor_s(work, peak, rate)
    assert floor_s(work.times(3), peak, rate) == pytest.approx(3 * floor_s(work, peak, rate))


def test_nothing_moved_is_infinitely_intense() -> None:
    assert Work(1.0, 0.0).intensity_flop_per_byte == math.inf


@pytest.mark.parametrize("gpu", ["a100-sxm-80gb", "h100-sxm", "h200-sxm", "l40s", "mi300x"])
@pytest.mark.parametrize("batch", [1, 16, 256])
def test_no_predicted_step_beats_the_roofline(gpu: str, batch: int) -> None:
    model = models.get("llama-3.1-8b").record
    accelerator = accelerators.by_id(gpu)
    deployment = Deployment(model, accelerator, engines.get("vllm").record)
    device = device_of(accelerator)
    library = OperatorLibrary(device, "vllm")
    predicted_s = sum(decode_breakdown_s(deployment, library, NO_HOST, batch, 2048).values())
    peak = device.peak_flop_per_s["bf16"]
    rate = device.bandwidth_bytes_per_s
    bound_s = decode_floor_s(model, batch, 2048, peak, rate)
    assert bound_s <= predicted_s <= 2.5 * bound_s
