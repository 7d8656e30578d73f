import pytest
import torch

from advisor.kernels import w4a16, w4a16_mma

SHAPES = [(1, 64, 256), (1, 100, 512), (3, 4096, 4096), (8, 1000, 1280), (16, 130, 2048), (32, 4096, 14336)]


@pytest.fixture(autouse=True)
def _needs_a_gpu(on_gpu):
    if not on_gpu:
        pytest.skip("layouts chosen by hand run on an NVIDIA GPU only; w4a16 is the twin for the interpreter")


@pytest.mark.parametrize("programs_per_sm", [1, 6])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_matches_reference(dtype, shape, programs_per_sm, device, assert_close, poison):
    inputs = w4a16.make_inputs(*shape, seed=sum(shape), device=device, dtype=dtype)
    assert w4a16_mma.is_supported(inputs[0], shape[1])
    for _ in range(3):  # the counters must be back at zero
        out = w4a16_mma.run(
            *inputs, out=poison(inputs[0].new_empty(shape[:2])), programs_per_sm=programs_per_sm
        )
        assert_close(out, w4a16.reference(*inputs), slack=2.0)
