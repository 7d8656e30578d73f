"""Laws and measured anchors of mixers with a constant state."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.catalog.accelerators import by_id
from advisor.catalog.efficiencies import efficiency, records
from advisor.catalog.schema import GatedDeltaNet, Mamba2
from advisor.simulator.device import Device, device_of
from advisor.simulator.graph.mixers.gdn import delta_net_shape
from advisor.simulator.graph.mixers.mamba2 import mamba2_shape
from advisor.simulator.operators.state_space import (
    RecurrenceEfficiency,
    chunked_s,
    convolution_s,
    recurrence_s,
    recurrent_step_s,
)

MICRO = 1e-6
# Qwen3-Next's and Qwen3.5's linear layers; Nemotron-3-Super's Mamba-2 layers.
QWEN = GatedDeltaNet(num_key_heads=16, num_value_heads=32, key_head_dim=128, value_head_dim=128)
NEMOTRON = Mamba2(num_heads=128, head_dim=64, state_dim=128, num_groups=8)
architectures = st.sampled_from(["ada", "hopper", "blackwell", "blackwell-ultra", "blackwell-geforce"])


def device(name: str) -> Device:
    return device_of(by_id(name))


def fit_of(operator: str, architecture: str, engine: str = "any") -> RecurrenceEfficiency:
    return RecurrenceEfficiency.from_record(efficiency(architecture, operator, "bf16", engine).record)


def test_state_of_a_delta_net_is_keys_times_values_in_fp32() -> None:
    shape = delta_net_shape(QWEN)
    assert shape.state_bytes == 32 * 128 * 128 * 4
    assert shape.conv_channels == 2 * 16 * 128 + 32 * 128
    split = delta_net_shape(QWEN, 4)
    assert split.state_bytes == shape.state_bytes / 4
    assert split.num_heads == 8


def test_state_of_mamba2_is_width_times_state() -> None:
    shape = mamba2_shape(NEMOTRON)
    assert shape.state_bytes == 128 * 64 * 128 * 4
    assert shape.conv_channels == 128 * 64 + 2 * 8 * 128


@settings(deadline=None, max_examples=50)
@given(architectures, st.booleans(), st.integers(1, 64), st.integers(1, 65536), st.sampled_from([1, 2, 4, 8]))
def test_time_grows_with_work_and_shrinks_with_the_device(
    architecture: str, decode: bool, sequences: int, tokens: int, tensor_parallel: int
) -> None:
    at = device("h200-sxm")
    fit = fit_of("gdn", architecture)
    tokens = sequences if decode else max(tokens, sequences)

    def time_s(tokens: int, sequences: int, at: Device, tensor_parallel: int) -> float:
        return float(
            recurrence_s(tokens, sequences, delta_net_shape(QWEN, tensor_parallel), at, fit, decode=decode)
        )

    here = time_s(tokens, sequences, at, tensor_parallel)
    assert time_s(2 * tokens, 2 * sequences, at, tensor_parallel) >= here
    assert time_s(tokens, sequences, at, 1) >= here
    wider = dataclasses.replace(at, bandwidth_bytes_per_s=2 * at.bandwidth_bytes_per_s)
    assert time_s(tokens, sequences, wider, tensor_parallel) <= here


def test_decode_does_not_depend_on_context_but_reads_and_writes_the_state() -> None:
    at = device("h200-sxm")
    fit = fit_of("gdn", "hopper", "vllm")
    moved = 2 * 1024 * delta_net_shape(QWEN).state_bytes
    seconds = float(recurrent_step_s(1024, delta_net_shape(QWEN), at, fit))
    assert 0.7 < moved / seconds / at.bandwidth_bytes_per_s < 1.0


@pytest.mark.parametrize(
    ("sequences", "tokens", "measured_us"), [(1, 8192, 398.8), (8, 8192, 836.9), (64, 1024, 925.8)]
)
def test_chunked_rule_meets_single_measurements(sequences: int, tokens: int, measured_us: float) -> None:
    """Source: ai-dynamo/aiconfigurator, chunk_gated_delta_rule, vLLM on H200, 16 key and 32 value heads."""
    fit = fit_of("gdn", "hopper", "vllm")
    predicted = chunked_s(sequences * tokens, sequences, delta_net_shape(QWEN), device("h200-sxm"), fit)
    assert predicted / MICRO == pytest.approx(measured_us, rel=0.15)


def test_one_sequence_cannot_fill_the_machine() -> None:
    """The chain of chunks of one head runs on one SM: four sequences cost as much as one."""
    fit = fit_of("gdn", "hopper", "vllm")
    shape = delta_net_shape(QWEN)
    at = device("h200-sxm")
    one, four, sixteen = (float(chunked_s(n * 8192, n, shape, at, fit)) for n in (1, 4, 16))
    assert four < 1.35 * one
    assert sixteen > 3.0 * one


@pytest.mark.parametrize(("batch", "measured_us"), [(64, 71.7), (256, 267.3), (1024, 1052.0)])
def test_recurrent_step_meets_single_measurements(batch: int, measured_us: float) -> None:
    """Source: ai-dynamo/aiconfigurator, fused_recurrent_gated_delta_rule, vLLM on H200."""
    fit = fit_of("gdn", "hopper", "vllm")
    predicted = recurrent_step_s(batch, delta_net_shape(QWEN), device("h200-sxm"), fit)
    assert predicted / MICRO == pytest.approx(measured_us, rel=0.12)


@pytest.mark.parametrize(("sequences", "tokens", "measured_us"), [(1, 8192, 714.7), (8, 4096, 2512.0)])
def test_mamba2_scan_meets_single_measurements(sequences: int, tokens: int, measured_us: float) -> None:
    """Source: ai-dynamo/aiconfigurator, mamba_chunk_scan_combined, TensorRT-LLM on B200, 128 heads."""
    fit = fit_of("mamba2", "blackwell")
    predicted = chunked_s(sequences * tokens, sequences, mamba2_shape(NEMOTRON), device("b200-sxm"), fit)
    assert predicted / MICRO == pytest.approx(measured_us, rel=0.15)


def test_parts_add_up() -> None:
    at = device("b200-sxm")
    fit = fit_of("mamba2", "blackwell")
    shape = mamba2_shape(NEMOTRON, 2)
    whole = recurrence_s(4096, 2, mamba2_shape(NEMOTRON, 2), at, fit, decode=False)
    parts = chunked_s(4096, 2, shape, at, fit) + convolution_s(4096, 2, shape, at, fit)
    assert whole == pytest.approx(parts)


def test_every_record_builds_and_prices() -> None:
    at = device("h100-sxm")
    for operator in ("gdn", "kda", "mamba2"):
        found = records(operator)
        assert found, operator
        for record in found:
            fit = RecurrenceEfficiency.from_record(record)
            if operator == "mamba2":
                seconds = recurrence_s(
                    np.array([1, 4096]), 1, mamba2_shape(NEMOTRON, 1), at, fit, decode=False
                )
            else:
                seconds = recurrence_s(
                    np.array([1, 4096]), 1, delta_net_shape(QWEN, 1), at, fit, decode=False
                )
            assert np.all((seconds > 1e-6) & (seconds < 0.02)), record
