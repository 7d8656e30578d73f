import pytest
import torch

from advisor.kernels import transpose


@pytest.mark.parametrize("shape", [(1, 1), (64, 64), (3, 200), (129, 65)], ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_is_exact(dtype, shape, device, poison):
    (x,) = transpose.make_inputs(*shape, seed=sum(shape), device=device, dtype=dtype)
    out = transpose.run(x, poison(x.new_empty(shape[::-1])))
    assert torch.equal(out, transpose.reference(x))


def test_counts():
    assert transpose.bytes(2, 3, 2) == 24
    assert transpose.flop(2, 3) == 0
