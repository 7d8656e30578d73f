"""Laws and published anchors of the matrix multiplication model."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.catalog.accelerators import by_id
from advisor.catalog.efficiencies import efficiency, records
from advisor.catalog.units import MICROSECOND_S
from advisor.simulator.deployment import named_deployment
from advisor.simulator.device import device_of
from advisor.simulator.engine_costs import operator_library
from advisor.simulator.operators.matmul import (
    FORMATS,
    MatmulEfficiency,
    matmul_s,
    of_one_warp,
    peak_flop_per_s,
    relative_sm_rate,
)

MEASURED = {
    "ampere": "a100-sxm-80gb",
    "ada": "l40s",
    "hopper": "h100-sxm",
    "blackwell": "b200-sxm",
    "blackwell-ultra": "b300-sxm",
    "blackwell-geforce": "rtx-pro-6000-server",
}
RECORDS = [record for record in records("matmul") if record.architecture in MEASURED]
RECORD_IDS = [f"{r.architecture}-{r.dtype}-{r.engine}" for r in RECORDS]

any_record = st.sampled_from(RECORDS)
sizes = st.integers(min_value=64, max_value=32768)
tokens = st.integers(min_value=1, max_value=32768)


def matmul_time_s(record, rows, columns, depth, device=None):
    device = device or device_of(by_id(MEASURED[record.architecture]))
    return matmul_s(rows, columns, depth, device, MatmulEfficiency.from_record(record))


def scale_device(device, bandwidth=1.0, rate=1.0, clock=1.0):
    return replace(
        device,
        bandwidth_bytes_per_s=device.bandwidth_bytes_per_s * bandwidth,
        clock_hz=device.clock_hz * clock,
        peak_flop_per_s={key: value * rate for key, value in device.peak_flop_per_s.items()},
    )


@given(any_record, tokens, sizes, sizes)
@settings(max_examples=200, deadline=None)
def test_time_is_positive_finite_and_above_the_roofline(record, rows, columns, depth):
    device = device_of(by_id(MEASURED[record.architecture]))
    seconds = matmul_time_s(record, rows, columns, depth)[0]
    roofline = max(
        2.0 * rows * columns * depth / peak_flop_per_s(record.dtype, device),
        FORMATS[record.dtype].weight_bytes * columns * depth / device.bandwidth_bytes_per_s,
    )
    assert np.isfinite(seconds)
    assert seconds > roofline


@given(any_record, tokens, sizes, sizes, st.floats(1.01, 8.0))
@settings(max_examples=200, deadline=None)
def test_more_bandwidth_is_never_slower(record, rows, columns, depth, factor):
    device = device_of(by_id(MEASURED[record.architecture]))
    faster = scale_device(device, bandwidth=factor)
    assert matmul_time_s(record, rows, columns, depth, faster)[0] <= matmul_time_s(
        record, rows, columns, depth
    )[0] * (1 + 1e-12)


@given(any_record, tokens, sizes, sizes, st.floats(1.01, 8.0))
@settings(max_examples=200, deadline=None)
def test_a_higher_peak_is_never_slower(record, rows, columns, depth, factor):
    device = device_of(by_id(MEASURED[record.architecture]))
    faster = scale_device(device, rate=factor)
    assert matmul_time_s(record, rows, columns, depth, faster)[0] <= matmul_time_s(
        record, rows, columns, depth
    )[0] * (1 + 1e-12)


@given(any_record, tokens, sizes, sizes, st.floats(0.2, 8.0))
@settings(max_examples=200, deadline=None)
def test_scaling_all_rates_scales_all_but_the_launch(record, rows, columns, depth, factor):
    device = device_of(by_id(MEASURED[record.architecture]))
    launch_s = record.parameters["launch_s"]
    once = matmul_time_s(record, rows, columns, depth)[0] - launch_s
    faster = (
        matmul_time_s(record, rows, columns, depth, scale_device(device, factor, factor, factor))[0]
        - launch_s
    )
    assert faster == pytest.approx(once / factor, rel=1e-6)


@given(any_record, st.lists(tokens, min_size=1, max_size=20), sizes, sizes)
@settings(max_examples=50, deadline=None)
def test_a_vector_of_tokens_is_priced_as_its_elements(record, rows, columns, depth):
    together = matmul_time_s(record, np.array(rows, dtype=float), columns, depth)
    alone = [matmul_time_s(record, row, columns, depth)[0] for row in rows]
    assert together == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize(
    "accelerator", ["a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200-sxm", "rtx-pro-6000-server"]
)
def test_a_large_square_reaches_most_of_the_bf16_peak(accelerator):
    device = device_of(by_id(accelerator))
    parameters = MatmulEfficiency.from_record(efficiency(device.architecture, "matmul", "bf16").record)
    achieved = 2.0 * 8192**3 / matmul_s(8192, 8192, 8192, device, parameters)[0]
    assert 0.60 <= achieved / peak_flop_per_s("bf16", device) <= 0.95


@pytest.mark.parametrize(
    "accelerator", ["a100-sxm-80gb", "l40s", "h100-sxm", "h200-sxm", "b200-sxm", "rtx-4090"]
)
def test_one_token_through_a_large_matrix_reaches_most_of_the_bandwidth(accelerator):
    device = device_of(by_id(accelerator))
    parameters = MatmulEfficiency.from_record(efficiency(device.architecture, "matmul", "bf16").record)
    achieved = 2.0 * 28672 * 8192 / matmul_s(1, 28672, 8192, device, parameters)[0]
    assert 0.60 <= achieved / device.bandwidth_bytes_per_s <= 0.95


@pytest.mark.parametrize("architecture", ["ada", "hopper", "blackwell", "blackwell-geforce"])
@pytest.mark.parametrize("rows", [1, 64, 4096])
def test_fp8_weights_are_faster_than_bf16_for_large_matrices(architecture, rows):
    by_dtype = {
        dtype: matmul_time_s(efficiency(architecture, "matmul", dtype).record, rows, 28672, 8192)[0]
        for dtype in ("bf16", "fp8")
    }
    assert by_dtype["fp8"] < by_dtype["bf16"]


# Kernel tables of vLLM and TensorRT-LLM on H200, bf16, n = k = 8192: 35 to 39 us up to 64 tokens.
@pytest.mark.parametrize(("rows", "published_us"), [(1, 37), (64, 37), (1024, 170), (8192, 1364)])
def test_published_h200_times(rows, published_us):
    record = efficiency("hopper", "matmul", "bf16").record
    seconds = matmul_time_s(record, rows, 8192, 8192, device_of(by_id("h200-sxm")))[0]
    assert seconds == pytest.approx(published_us * MICROSECOND_S, rel=0.10)


# Best achieved bf16 TFLOPS on random data: stas00/ml-engineering (MAMF); GeForce boards: crowd-sourced best.
@pytest.mark.parametrize(
    ("accelerator", "published_tflops", "tolerance"),
    [
        ("a100-sxm-80gb", 271, 0.12),
        ("h100-sxm", 794, 0.12),
        ("b200-sxm", 1745, 0.12),
        ("rtx-pro-6000-server", 413, 0.12),
        ("rtx-4090", 167, 0.2),
        ("rtx-3090", 76, 0.2),
        ("mi300x", 668, 0.2),
    ],
)
def test_published_best_matmul_rates(accelerator, published_tflops, tolerance):
    device = device_of(by_id(accelerator))
    parameters = MatmulEfficiency.from_record(efficiency(device.architecture, "matmul", "bf16").record)
    best = max(2.0 * n**3 / matmul_s(n, n, n, device, parameters)[0] for n in (4096, 8192, 12288))
    assert best / 1e12 == pytest.approx(published_tflops, rel=tolerance)


def test_waves_are_paid_whole():
    record = efficiency("hopper", "matmul", "bf16", "vllm").record
    steps = matmul_time_s(record, np.array([128.0, 129.0, 256.0]), 16896, 4096)
    assert steps[1] - steps[0] > 10 * (steps[2] - steps[1]) / 127


def test_a_related_record_keeps_the_bytes_of_the_format_asked_for():
    record = efficiency("hopper", "matmul", "int4_wo").record
    as_int8 = MatmulEfficiency.from_record(record, "int8_wo")
    device = device_of(by_id("h100-sxm"))
    extra = matmul_s(1, 28672, 8192, device, as_int8) - matmul_time_s(record, 1, 28672, 8192, device)
    assert extra[0] > 0.3 * 28672 * 8192 / device.bandwidth_bytes_per_s


def test_an_unknown_format_is_refused_with_the_known_ones():
    with pytest.raises(KeyError, match="bf16"):
        MatmulEfficiency.from_record(RECORDS[0], "int3")


def test_a_unit_without_the_format_multiplies_in_the_next_wider_one():
    a100 = device_of(by_id("a100-sxm-80gb"))
    h100 = device_of(by_id("h100-sxm"))
    assert peak_flop_per_s("fp8", a100) == a100.peak_flop_per_s["bf16"]
    assert peak_flop_per_s("nvfp4", h100) == h100.peak_flop_per_s["fp8"]


def test_half_rate_boards_wait_half_as_long_for_operands():
    l40s = device_of(by_id("l40s"))
    rtx_4090 = device_of(by_id("rtx-4090"))
    measured = l40s.peak_flop_per_s["bf16"] / (l40s.num_sms * l40s.clock_hz)
    assert relative_sm_rate(l40s.peak_flop_per_s["bf16"], l40s, measured) == pytest.approx(1.0)
    assert relative_sm_rate(rtx_4090.peak_flop_per_s["bf16"], rtx_4090, measured) == pytest.approx(
        0.5, rel=0.05
    )


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_kernel_of_fixed_tiles_pays_whole_clusters(engine):
    """CUTLASS products of 512 rows by 4096 columns are 128 tiles, one for each SM; of 513 rows they are 192."""
    record = efficiency("hopper", "matmul", "fp8", engine).record
    alone = replace(
        MatmulEfficiency.from_record(record), quantize_bytes=0.0, quantize_row_cycles=0.0, launch_s=0.0
    )
    one, two, library = (
        float(matmul_s(rows, 4096, 8192, device_of(by_id("h200-sxm")), kernels)[0])
        for rows, kernels in (
            (512, alone),
            (513, alone),
            (513, replace(alone, narrow_rows=0.0, partial_tiles=0.0)),
        )
    )
    assert 1.6 * one < two < 2.5 * one
    assert library < 0.8 * two


@pytest.mark.parametrize(
    "accelerator", ["a100-sxm-80gb", "rtx-3090", "rtx-4090", "l40s", "h100-sxm", "b200-sxm"]
)
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_unpacked_weights_save_bytes_and_no_work(accelerator, engine):
    """What is read is a quarter; what is multiplied is the same, at 16 bits, behind instructions that unpack."""
    library = operator_library(
        named_deployment("llama-3.1-8b", accelerator, engine=engine, weight_dtype="int4")
    )
    few = np.array([1.0])
    many = np.array([4096.0])
    for columns, depth in ((28672, 4096), (4096, 14336)):
        packed, plain = (
            [float(library.matmul_s(rows, columns, depth, dtype)[0]) for rows in (few, many)]
            for dtype in ("int4_wo", "bf16")
        )
        assert (
            packed[0] < (0.75 if accelerator != "b200-sxm" else 0.85) * plain[0]
        )  # whose SMs would need to stream more
        assert (
            packed[1] > 0.85 * plain[1]
        )  # an L40S's 16-bit products meet its power limit, which Marlin's record lacks


def test_unpacking_costs_a_slower_matrix_unit_less():
    """An H100 as Ampere's instructions see it loses a third; a 3090, with a fifth of its rate per SM, less."""
    parameters = MatmulEfficiency.from_record(efficiency("hopper", "marlin", "int8_wo").record)
    shares = []
    for name in ("h100-sxm", "a100-sxm-80gb", "rtx-3090"):
        device = of_one_warp(device_of(by_id(name)))
        rate = 2.0 * 8192**2 * 51200 / float(matmul_s(8192, 51200, 8192, device, parameters)[0])
        shares.append(rate / peak_flop_per_s("bf16", device))
    assert shares[0] < shares[1] < shares[2] < 1.0


def test_instructions_of_one_warp_are_all_that_ampere_has():
    a100 = device_of(by_id("a100-sxm-80gb"))
    h100 = device_of(by_id("h100-sxm"))
    assert of_one_warp(a100) is a100
    assert of_one_warp(h100).peak_flop_per_s["bf16"] < 0.65 * h100.peak_flop_per_s["bf16"]


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "chiplet_us"),
    [
        (8192, 8192, 8192, 1016.8),
        (16384, 8192, 8192, 1974.6),
        (8192, 12288, 12288, 2246.4),
        (12288, 12288, 12288, 3381.9),
        (16384, 16384, 16384, 7971.3),
        (16384, 16384, 18432, 8966.3),
    ],
)
def test_tpu_v7_reaches_its_published_device_times(
    rows: int, columns: int, depth: int, chiplet_us: float
) -> None:
    """Times of one of two chiplets: yangwhale/gpu-tpu-pedia@48b7543, results_v7_trace.csv; a chip takes half of one."""
    device = device_of(by_id("tpu-v7"))
    parameters = MatmulEfficiency.from_record(efficiency("tpu-v7", "matmul", "bf16").record)
    predicted_s = float(matmul_s(rows, columns, depth, device, parameters)[0])
    assert predicted_s / MICROSECOND_S == pytest.approx(chiplet_us / 2.0, rel=0.03)
