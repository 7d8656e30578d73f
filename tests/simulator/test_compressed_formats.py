"""Weights below 4 bits, in 4 bits with 8-bit activations, and with 2:4 sparsity: published sizes and laws."""

import numpy as np
import pytest

from advisor.catalog.dtypes import bytes_per_element, dtype_of
from advisor.catalog.models import by_id
from advisor.simulator.deployment import activation_dtype_for, named_deployment
from advisor.simulator.device import device_of
from advisor.simulator.graph.model import parameter_count
from advisor.simulator.operator_library import OperatorLibrary, matmul_key
from advisor.simulator.operators.matmul import peak_flop_per_s
from advisor.simulator.workloads.long_context import CACHE_POLICIES, heavy_hitters, kept_bytes, window_of


def product_s(gpu: str, weights: str, rows: float) -> float:
    deployment = named_deployment("llama-3.1-8b", gpu)
    library = OperatorLibrary(device_of(deployment.accelerator), "any")
    key = matmul_key(weights, activation_dtype_for(weights, deployment.accelerator))
    return float(library.matmul_s(np.array([rows]), 8192, 8192, key)[0])


@pytest.mark.parametrize(
    ("name", "format_name", "bits"),
    [
        ("aqlm", "aqlm-2bit", 2.02),
        ("quip#", "quip-2bit", 2.0),
        ("w4a8", "w4a8", 4.125),
        ("qserve", "w4a8", 4.125),
        ("2:4", "sparse24", 9.0),
    ],
)
def test_formats_by_the_names_that_people_use(name: str, format_name: str, bits: float) -> None:
    assert dtype_of(name).id == format_name
    assert 8.0 * bytes_per_element(format_name) == pytest.approx(bits)


@pytest.mark.parametrize(("model", "published_gb"), [("llama-2-7b", 2.2), ("llama-2-70b", 18.2)])
def test_aqlm_models_have_the_size_of_their_checkpoints(model: str, published_gb: float) -> None:
    # ISTA-DASLab, cards of the 2x8 checkpoints; input table and head stay in 16 bits.
    count = parameter_count(by_id(model))
    tables = count.embedding + count.head
    size = (count.total - tables) * bytes_per_element("aqlm-2bit") + 2.0 * tables
    assert size / 1e9 == pytest.approx(published_gb, rel=0.03)


@pytest.mark.parametrize("gpu", ["h100-sxm", "a100-sxm-80gb", "l40s"])
def test_one_row_takes_less_the_fewer_bits_its_weights_have(gpu: str) -> None:
    times = [product_s(gpu, name, 1.0) for name in ("bf16", "sparse24", "int4", "aqlm-2bit")]
    assert times == sorted(times, reverse=True)


def test_many_rows_gain_from_sparse_units_and_not_from_codebooks() -> None:
    dense, sparse, codebook = (
        product_s("a100-sxm-80gb", name, 8192.0) for name in ("bf16", "sparse24", "aqlm-2bit")
    )
    # cuSPARSELt on an A100: up to 1.6 times as fast for large matrices (arXiv:2104.08378, figure 3).
    assert 1.3 < dense / sparse < 1.7
    assert codebook > 0.95 * dense
    # Volta has no sparse instructions.
    assert product_s("v100-sxm2-32gb", "sparse24", 8192.0) == pytest.approx(
        product_s("v100-sxm2-32gb", "bf16", 8192.0), rel=0.02
    )


def test_activations_in_eight_bits_multiply_at_the_rate_of_their_unit() -> None:
    for gpu, unit in (("h100-sxm", "fp8"), ("a100-sxm-80gb", "int8")):
        accelerator = named_deployment("llama-3.1-8b", gpu).accelerator
        assert activation_dtype_for("w4a8", accelerator) == unit
        device = device_of(accelerator)
        assert peak_flop_per_s("w4a8", device) == device.peak_flop_per_s[unit]
        assert product_s(gpu, "w4a8", 8192.0) < product_s(gpu, "int4", 8192.0)
    assert peak_flop_per_s("sparse24", device) == 2.0 * device.peak_flop_per_s["bf16"]


def test_budgets_and_windows_of_any_size() -> None:
    deployment = named_deployment("llama-3.1-8b", "h100-sxm")
    full = kept_bytes(deployment, CACHE_POLICIES["full"], 10_000)
    for fraction in (0.1, 0.2, 0.5, 1.0):
        assert kept_bytes(deployment, heavy_hitters(fraction), 10_000) == pytest.approx(fraction * full)
    assert kept_bytes(deployment, window_of(1000), 10_000) == pytest.approx(full * 1004 / 10_000)
    assert kept_bytes(deployment, window_of(20_000), 10_000) == full
    # 2 bits in groups of 32 with a scale and a zero point of 16 bits each: 3 bits; 16 bits over that.
    assert full / kept_bytes(deployment, CACHE_POLICIES["kivi-2bit"], 10_000) == pytest.approx(16 / 3)
