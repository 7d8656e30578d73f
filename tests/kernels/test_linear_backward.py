"""Matmuls of either order, and the backward passes of linear layers, against fp64."""

import pytest
import torch

from advisor.kernels import gemm_layouts, linear_cross_entropy, linear_gelu_backward

SIZES = [(1, 1, 8), (33, 70, 40), (64, 128, 64), (20, 33, 100)]
LARGE = [(1000, 777, 512), (4096, 1024, 2048)]


@pytest.mark.parametrize("sizes", SIZES + LARGE, ids=str)
@pytest.mark.parametrize("orders", [(a, b) for a in "rc" for b in "rc"], ids="".join)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_products_of_either_order(dtype, orders, sizes, device, on_gpu, assert_close):
    if sizes in LARGE and not on_gpu:
        pytest.skip("large shape: GPU only")
    m, n, k = sizes
    draw = torch.Generator(device=device).manual_seed(m)

    def matrix(rows, columns, order):
        shape = (rows, columns) if order == "r" else (columns, rows)
        x = torch.randn(shape, generator=draw, device=device).to(dtype)
        return x if order == "r" else x.T

    a = matrix(m, k, orders[0])
    b = matrix(k, n, orders[1])
    assert_close(gemm_layouts.run(a, b), gemm_layouts.reference(a, b), slack=2.0)


def test_products_are_added_in_the_format_of_the_output(device, assert_close):
    a, b = gemm_layouts.make_inputs(40, 64, 33, 1, device, torch.float16)
    out = torch.ones((40, 64), device=device)
    gemm_layouts.run(a, b, out, add=True)
    assert_close(out, 1.0 + gemm_layouts.reference(a, b))
    with pytest.raises(ValueError, match="add"):
        gemm_layouts.run(a, b, add=True)


@pytest.mark.parametrize("sizes", SIZES[1:] + LARGE, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_linear_gelu(dtype, sizes, device, on_gpu, assert_close):
    if sizes in LARGE and not on_gpu:
        pytest.skip("large shape: GPU only")
    inputs = linear_gelu_backward.make_inputs(*sizes, 2, device, dtype)
    found = linear_gelu_backward.run(*inputs)
    for one, other in zip(found, linear_gelu_backward.reference(*inputs), strict=True):
        # The slope is rounded before two more products.
        assert_close(one, other, slack=3.0)


# rows, columns, words
CROSS = [(5, 16, 40), (70, 40, 130), (33, 64, 200)]
LARGE_CROSS = [(1000, 512, 32000)]


@pytest.mark.parametrize("sizes", CROSS + LARGE_CROSS, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_cross_entropy(dtype, sizes, device, on_gpu, assert_close, poison):
    if sizes in LARGE_CROSS and not on_gpu:
        pytest.skip("large shape: GPU only")
    x, weight, target = linear_cross_entropy.make_inputs(*sizes, 3, device, dtype)
    loss = poison(torch.empty(sizes[0], device=device))
    linear_cross_entropy.run(x, weight, target, loss)
    assert_close(loss, linear_cross_entropy.reference(x, weight, target), dtype)
    assert float(loss[0]) == 0.0


@pytest.mark.parametrize("sizes", CROSS + LARGE_CROSS, ids=str)
@pytest.mark.parametrize("slice_bytes", [1, 1 << 29])
def test_cross_entropy_backward_does_not_depend_on_slices(sizes, slice_bytes, device, on_gpu, assert_close):
    if sizes in LARGE_CROSS and not on_gpu:
        pytest.skip("large shape: GPU only")
    x, weight, target = linear_cross_entropy.make_inputs(*sizes, 4, device, torch.float16)
    grad = torch.linspace(0.5, 2.0, sizes[0], device=device)
    _, log = linear_cross_entropy.run(x, weight, target)
    found = linear_cross_entropy.run_backward(x, weight, target, log, grad, slice_bytes)
    for one, other in zip(
        found, linear_cross_entropy.reference_backward(x, weight, target, grad), strict=True
    ):
        assert_close(one, other, slack=2.0)


def test_a_target_beyond_the_vocabulary_has_no_loss(device):
    x, weight, target = linear_cross_entropy.make_inputs(4, 16, 40, 5, device)
    target[1] = 40
    loss, _ = linear_cross_entropy.run(x, weight, target)
    assert torch.isnan(loss).tolist() == [False, True, False, False]


def test_counts():
    assert gemm_layouts.flop(2, 3, 4) == 48
    assert gemm_layouts.bytes(2, 3, 4, 2) == 2 * (8 + 12 + 6)
    assert linear_gelu_backward.flop(2, 3, 4) == 6 * 24 + 60
    assert linear_gelu_backward.bytes(2, 3, 4, 2) == 2 * (40 + 18 + 6)
    assert linear_cross_entropy.flop(2, 3, 4, backward=True) == 6 * 24
    assert linear_cross_entropy.bytes(2, 3, 4, 2) == 2 * 18 + 32
    assert linear_cross_entropy.bytes(2, 3, 4, 2, backward=True) == 2 * 36 + 48
