import pytest
import torch

from advisor.kernels import gemm, linear_gelu_residual

SHAPES = [(1, 16, 16), (64, 128, 96), (70, 33, 50)]
LARGE = [(1000, 1100, 1000)]


@pytest.mark.parametrize("shape", SHAPES + LARGE, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_matches_reference(dtype, shape, device, on_gpu, assert_close, poison):
    if shape in LARGE and not on_gpu:
        pytest.skip("large shape: GPU only")
    inputs = linear_gelu_residual.make_inputs(*shape, seed=sum(shape), device=device, dtype=dtype)
    out = poison(gemm.empty_output(*shape[:2], dtype, device))
    linear_gelu_residual.run(*inputs, out=out)
    assert_close(out, linear_gelu_residual.reference(*inputs))


def test_counts():
    assert linear_gelu_residual.flop(2, 3, 4) == 48 + 42
    assert linear_gelu_residual.bytes(2, 3, 4, 2) == (8 + 12 + 3 + 12) * 2
