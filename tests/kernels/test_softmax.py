import pytest
import torch

from advisor.kernels import softmax

SHAPES = [(1, 16), (3, 123), (5, 200), (4, 1000), (2, 1025)]
LARGE = [(33, 16384), (7, 16385), (5, 128_256)]


@pytest.mark.parametrize("shape", SHAPES + LARGE, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_matches_reference(dtype, shape, device, on_gpu, assert_close, poison):
    if shape in LARGE and not on_gpu:
        pytest.skip("large shape: GPU only")
    (x,) = softmax.make_inputs(*shape, seed=sum(shape), device=device, dtype=dtype)
    assert_close(softmax.run(x, poison(torch.empty_like(x))), softmax.reference(x))


@pytest.mark.parametrize("num_columns", [64, 700])
def test_large_and_masked_logits(num_columns, device):
    x = torch.full((2, num_columns), float("-inf"), device=device)
    x[:, 1] = 3e4
    x[1, num_columns - 1] = 3e4
    y = softmax.run(x)
    assert y[0, 1] == 1.0
    assert y[1, 1] == y[1, num_columns - 1] == 0.5
    assert float(y.sum()) == 2.0


def test_counts():
    assert softmax.bytes(2, 3, 2) == 24
    assert softmax.flop(2, 3) == 30
