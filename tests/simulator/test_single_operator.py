"""Operators without a model: counts by hand, laws of tiles and fusion, and times against measured kernels."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.catalog import accelerators, models
from advisor.catalog.errors import AdvisorError
from advisor.simulator.device import device_of
from advisor.simulator.single_operator import (
    OPERATOR_NAMES,
    OperatorAnalysis,
    OperatorName,
    OperatorQuestion,
    analyse_operator,
    misplaced_dimension,
    most_of,
    reordered_shape,
    shape_names,
)

SIZES = st.sampled_from([64, 128, 512, 1000, 4096])


def analysis(gpu: str, operator: OperatorName, *shape: int, **more: object) -> OperatorAnalysis:
    record = accelerators.by_id(gpu)
    question = OperatorQuestion(operator, shape, **more)  # type: ignore[arg-type]
    return analyse_operator(question, device_of(record), record.peak_flop_per_s.get("fp32"))


def test_a_square_matmul_has_the_intensity_of_its_size() -> None:
    found = analysis("a100-sxm-80gb", "gemm", 4096, 4096, 4096)
    assert found.usual.work.flop == 2 * 4096**3
    assert found.usual.work.num_bytes == 3 * 2 * 4096**2
    assert found.usual.work.intensity_flop_per_byte == pytest.approx(4096 / 3)
    assert found.usual.floor_s == pytest.approx(2 * 4096**3 / 312e12)
    assert found.usual.bound(found.bandwidth_bytes_per_s) == "compute"


def test_waves_are_tiles_over_sms() -> None:
    found = analysis("a100-sxm-80gb", "gemm", 4096, 4096, 4096, tile=(128, 128))
    (grid,) = found.grids
    assert (grid.num_tiles, grid.num_sms, grid.paid_waves) == (1024, 108, 10)
    assert grid.wave_fraction == pytest.approx(1024 / 108 / 10)


def test_one_more_tile_than_sms_costs_a_wave() -> None:
    sms = accelerators.by_id("h100-sxm").num_sms or 0
    full, over = (analysis("h100-sxm", "gemm", 128, 128 * n, 4096, tile=(128, 128)) for n in (sms, sms + 1))
    assert full.grids[0].wave_fraction == 1.0
    assert over.grids[0].paid_waves == 2
    assert over.grids[0].wave_fraction == pytest.approx((sms + 1) / sms / 2)


@pytest.mark.parametrize(
    ("operator", "shape", "way", "intensity"),
    [
        ("layernorm", (4096, 4096), "row read twice", 5 / 6),
        ("layernorm", (4096, 4096), "row kept on the chip", 1.25),
        ("softmax", (4096, 4096), "row kept on the chip", 1.25),
        ("transpose", (4096, 4096), "tiled", 0.0),
        ("embedding", (4096, 4096), "rows gathered", 0.0),
        ("decode-attention", (64, 32, 8192, 128), "fused", 1.0),
    ],
)
def test_operators_over_a_tensor_have_an_intensity_of_their_own(
    operator: OperatorName, shape: tuple[int, ...], way: str, intensity: float
) -> None:
    for gpu in ("a100-sxm-80gb", "h200-sxm", "mi300x", "m4-max-40-core"):
        found = analysis(gpu, operator, *shape)
        ways = {each.name: each for each in found.ways}
        assert ways[way].work.intensity_flop_per_byte == pytest.approx(intensity)
        assert ways[way].bound(found.bandwidth_bytes_per_s) == "memory"


def test_grouped_heads_multiply_the_intensity_of_decode() -> None:
    alone = analysis("h100-sxm", "decode-attention", 64, 64, 8192, 128)
    grouped = analysis("h100-sxm", "decode-attention", 64, 64, 8192, 128, kv_heads=8)
    assert grouped.usual.work.intensity_flop_per_byte == 8 * alone.usual.work.intensity_flop_per_byte


def test_fused_attention_saves_four_passes_over_the_scores() -> None:
    found = analysis("h100-sxm", "attention", 1, 64, 8192, 128)
    scores = 64 * 8192**2 * 2
    assert scores == pytest.approx(8.6e9, rel=0.01)
    assert found.saved_bytes == pytest.approx(4 * scores)


def test_a_mask_halves_the_pairs() -> None:
    masked = analysis("h100-sxm", "attention", 2, 16, 4096, 64).usual.work
    full = analysis("h100-sxm", "attention", 2, 16, 4096, 64, is_causal=False).usual.work
    assert full.flop == 4 * 2 * 16 * 4096**2 * 64
    assert masked.flop == pytest.approx(full.flop / 2, rel=1e-3)


def test_fusing_an_mlp_saves_its_inner_results() -> None:
    found = analysis("h100-sxm", "mlp", 1024, 4096, 4 * 4096)
    moved = {way.name: way.work.num_bytes for way in found.ways}
    assert moved["three kernels"] - moved["activation fused"] == pytest.approx(67.1e6, rel=1e-3)
    assert found.saved_bytes == pytest.approx(134.2e6, rel=1e-3)


def test_a_format_without_a_unit_is_multiplied_in_sixteen_bits() -> None:
    found = analysis("a100-sxm-80gb", "gemm", 4096, 4096, 4096, dtype="fp8")
    assert found.usual.peak_flop_per_s == 312e12
    assert found.remarks == ("weights are unpacked on their way and multiplied in bf16",)
    assert found.usual.work.num_bytes == 4096**2 * (1 + 2 + 2)


# Rates that the bundled probe of an H200 measured (catalog/data/measured/h200-sxm-x1-2026-11-23.json).
MEASURED = [
    ("layernorm", (32768, 8192), 2 * 2 * 32768 * 8192 / 2.447e12, 0),
    ("layernorm", (32768, 8192), 2 * 2 * 32768 * 8192 / 4.086e12, 1),
    ("softmax", (32768, 8192), 2 * 2 * 32768 * 8192 / 4.192e12, 0),
    ("gelu", (32768, 8192), 2 * 2 * 32768 * 8192 / 4.202e12, 0),
    ("swiglu", (16384, 28672), 3 * 2 * 16384 * 28672 / 4.161e12, 0),
    ("transpose", (32768, 8192), 2 * 2 * 32768 * 8192 / 3.984e12, 0),
    ("gemm", (8192, 8192, 8192), 2 * 8192**3 / 8.0e14, 0),
]


@pytest.mark.parametrize(("operator", "shape", "measured_s", "way"), MEASURED)
def test_times_are_those_of_measured_kernels(
    operator: OperatorName, shape: tuple[int, ...], measured_s: float, way: int
) -> None:
    predicted = analysis("h200-sxm", operator, *shape).ways[way].predicted_s
    assert predicted is not None
    assert predicted.value == pytest.approx(measured_s, rel=0.15)


@settings(deadline=None, max_examples=30)
@given(operator=st.sampled_from(OPERATOR_NAMES), sizes=st.lists(SIZES, min_size=4, max_size=4))
def test_no_kernel_beats_its_roof(operator: OperatorName, sizes: list[int]) -> None:
    shape = sizes[: len(shape_names(operator))]
    if "attention" in operator:
        shape = [min(shape[0], 64), 32, shape[2], 128]
    found = analysis("h100-sxm", operator, *shape)
    for way in found.ways:
        assert way.floor_s >= 0
        if way.predicted_s is not None:
            assert math.isfinite(way.predicted_s.value)
            assert way.predicted_s.high >= 0.9 * way.floor_s or way.work.num_bytes < 50e6
    assert found.saved_bytes >= 0


@pytest.mark.parametrize(
    ("operator", "shape", "wrong", "meant"),
    [
        ("decode-attention", (64, 64, 8192, 128), "", ()),
        ("decode-attention", (64, 8192, 64, 128), "heads", (64, 64, 8192, 128)),
        ("attention", (1, 32, 128, 8192), "head_dim", (1, 32, 8192, 128)),
        ("attention", (8192, 32, 1, 128), "", ()),
        ("mlp", (1024, 102_400, 25_600), "hidden", (1024, 25_600, 102_400)),
        ("embedding", (4096, 131_072), "hidden", (131_072, 4096)),
        ("attention", (8192, 8192, 8192, 8192), "heads", ()),
        ("softmax", (1, 10_000_000), "", ()),
    ],
)
def test_a_size_that_no_model_has_tells_of_another_order(
    operator: OperatorName, shape: tuple[int, ...], wrong: str, meant: tuple[int, ...]
) -> None:
    assert misplaced_dimension(operator, shape) == wrong
    if wrong:
        assert reordered_shape(operator, shape) == meant


def test_no_model_is_larger_than_a_dimension_may_be() -> None:
    for model in models.all_models():
        assert 2 * model.hidden_size <= most_of("mlp", "hidden")
        for layer in model.layers:
            heads = getattr(layer.mixer, "num_heads", 0)
            head_dim = getattr(layer.mixer, "head_dim", 0)
            assert not misplaced_dimension("attention", (1, 2 * heads, 1, 2 * head_dim))


@pytest.mark.parametrize("shape", [(4096,), (4096, 4096), (1, 2, 3, 4)])
def test_a_shape_of_other_dimensions_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(AdvisorError, match="gemm has 3 dimensions"):
        analysis("h100-sxm", "gemm", *shape)


def test_heads_must_divide() -> None:
    with pytest.raises(AdvisorError, match="does not divide"):
        analysis("h100-sxm", "attention", 1, 64, 128, 64, kv_heads=7)
