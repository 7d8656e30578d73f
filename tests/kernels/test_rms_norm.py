import pytest
import torch

from advisor.kernels import rms_norm

SHAPES = [(1, 16), (3, 123), (5, 1000), (9, 4096), (2, 5120)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_matches_reference(dtype, shape, device, assert_close, poison):
    x, residual, weight = rms_norm.make_inputs(*shape, seed=sum(shape), device=device, dtype=dtype)
    out = (poison(torch.empty_like(x)), poison(torch.empty_like(x)))
    y, new_residual = rms_norm.run(x, residual, weight, out=out)
    expected_y, expected_residual = rms_norm.reference(x, residual, weight)
    assert_close(y, expected_y)
    assert_close(new_residual, expected_residual)


def test_may_overwrite_its_inputs(device, assert_close):
    x, residual, weight = rms_norm.make_inputs(4, 96, seed=0, device=device)
    expected_y, expected_residual = rms_norm.reference(x, residual, weight)
    rms_norm.run(x, residual, weight, out=(x, residual))
    assert_close(x, expected_y)
    assert_close(residual, expected_residual)


def test_epsilon_keeps_zero_rows_finite(device):
    x = torch.zeros((2, 64), device=device)
    y, _ = rms_norm.run(x, x, torch.ones(64, device=device))
    assert torch.equal(y, x)


def test_too_wide_is_refused(device):
    with pytest.raises(ValueError, match="wider"):
        rms_norm.row_launch(rms_norm.MAX_COLUMNS + 1)


def test_counts():
    assert rms_norm.bytes(2, 3, 2) == (4 * 2 + 1) * 3 * 2
    assert rms_norm.flop(2, 3) == 30
