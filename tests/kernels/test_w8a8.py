import pytest
import torch

from advisor.kernels import gemm, w8a8

SHAPES = [(1, 16, 16), (64, 128, 96), (70, 33, 50)]
LARGE = [(1000, 1100, 4000)]


@pytest.mark.parametrize("shape", SHAPES + LARGE, ids=str)
def test_matches_reference(shape, device, on_gpu, assert_close, poison):
    if shape in LARGE and not on_gpu:
        pytest.skip("large shape: GPU only")
    inputs = w8a8.make_inputs(*shape, seed=sum(shape), device=device)
    out = poison(gemm.empty_output(*shape[:2], torch.bfloat16, device))
    w8a8.run(*inputs, out=out)
    assert_close(out, w8a8.reference(*inputs))


def test_integer_sums_are_exact_beyond_fp32(device):
    k = 2048
    a = torch.full((16, k), 127, dtype=torch.int8, device=device)
    scale = torch.full((16,), 2.0**-8, device=device)
    out = w8a8.run(a, scale, a, scale)
    assert float(out[3, 5]) == float(torch.tensor(127 * 127 * k * 2.0**-16).to(torch.bfloat16))


def test_quantisation_error_is_at_most_half_a_step(device):
    x = torch.randn((7, 50), device=device)
    q, scale = w8a8.quantize(x)
    assert float(((q.float() * scale[:, None] - x).abs() / scale[:, None]).max()) <= 0.5001
    assert int(q.abs().max()) == w8a8.LARGEST


def test_counts():
    assert w8a8.flop(2, 3, 4) == 48
    assert w8a8.bytes(2, 3, 4) == 8 + 12 + 20 + 12
