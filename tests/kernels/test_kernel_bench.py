"""The process behind `advisor kernel`: each operator's kernel against fp64, at small shapes."""

import pytest

from advisor.probes import kernel_bench

SHAPES = {"gemm": (64, 96, 64), "attention": (1, 2, 64, 64)}
NAMES = ("gemm", "attention", "rms_norm", "layer_norm", "softmax", "gelu", "swiglu", "transpose")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_kernels_and_peers_are_near_fp64(name, dtype, device, on_gpu):
    case = kernel_bench.make_case(name, SHAPES.get(name, (48, 64)), dtype, device)
    limit = {"bf16": 8e-3, "fp16": 1.5e-3}[dtype]
    for instrument, call in case.calls.items():
        if name == "attention" and not on_gpu and instrument != "advisor":
            continue  # torch's attention of these names needs a GPU
        assert kernel_bench.relative_error(case, call) < limit, instrument


def test_a_wrong_kernel_shows_its_error(device):
    case = kernel_bench.make_case("softmax", (48, 64), "fp16", device)
    right = case.calls["advisor"]
    assert kernel_bench.relative_error(case, lambda: right() * 1.1) == pytest.approx(0.1, rel=0.05)


def test_fp8_products_are_near_fp64(device):
    from advisor.kernels.backend import has_fp8

    if not has_fp8(device):
        pytest.skip("no fp8 matrix unit")
    case = kernel_bench.make_case("gemm", (64, 96, 64), "fp8", device)
    assert kernel_bench.relative_error(case, case.calls["advisor"]) < 8e-3
