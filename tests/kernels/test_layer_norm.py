import pytest
import torch

from advisor.kernels import layer_norm

SHAPES = [(1, 16), (3, 123), (5, 1000), (9, 4096), (2, 5120)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_matches_reference(dtype, shape, device, assert_close, poison):
    x, weight, bias = layer_norm.make_inputs(*shape, seed=sum(shape), device=device, dtype=dtype)
    y = layer_norm.run(x, weight, bias, out=poison(torch.empty_like(x)))
    assert_close(y, layer_norm.reference(x, weight, bias))


def test_a_large_mean_does_not_cancel(device, assert_close):
    x, weight, bias = layer_norm.make_inputs(4, 300, seed=1, device=device, dtype=torch.float32)
    x = x + 1000.0
    assert_close(layer_norm.run(x, weight, bias), layer_norm.reference(x.double(), weight, bias), slack=20)


def test_counts():
    assert layer_norm.bytes(2, 3, 2) == 36
    assert layer_norm.flop(2, 3) == 42
