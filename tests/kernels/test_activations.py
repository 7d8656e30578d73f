import pytest
import torch

from advisor.kernels import activations

SHAPES = [(1, 16), (3, 122), (5, 5000)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("activation", ["gelu", "swiglu"])
def test_matches_reference(activation, dtype, shape, device, assert_close, poison):
    (x,) = activations.make_inputs(*shape, seed=sum(shape), device=device, dtype=dtype)
    width = shape[1] if activation == "gelu" else shape[1] // 2
    out = poison(x.new_empty((shape[0], width)))
    assert_close(activations.run(activation, x, out), activations.reference(activation, x))


def test_odd_width_is_refused(device):
    with pytest.raises(ValueError, match="equal width"):
        activations.run("swiglu", torch.zeros((1, 3), device=device))


def test_counts():
    assert activations.bytes("gelu", 10, 2) == 40
    assert activations.bytes("swiglu", 10, 2) == 60
    assert activations.flop("gelu", 10) == 50
