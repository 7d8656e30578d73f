"""Backward passes over rows, and RoPE: each against automatic differentiation in fp64."""

import pytest
import torch

from advisor.kernels import (
    activations_backward,
    layer_norm,
    layer_norm_backward,
    rms_norm,
    rms_norm_backward,
    rope,
    softmax_backward,
)

SHAPES = [(1, 16), (3, 123), (70, 20)]
"""One program a row, parts of two blocks of columns to sum, and more rows than programs."""
LARGE = [(5, 1000), (2, 4096), (33, 80)]
STREAMED = [(3, 5000), (2, 40000)]
FORMATS = [torch.bfloat16, torch.float16, torch.float32]
CASES = [(dtype, shape) for dtype in FORMATS for shape in SHAPES + LARGE]


@pytest.fixture(autouse=True)
def skip_large(request, on_gpu):
    """The interpreter reduces element by element: wide rows are for a GPU, where width decides how many warps run."""
    parameters = getattr(request.node, "callspec", None)
    if parameters is not None and parameters.params.get("shape") in LARGE + STREAMED and not on_gpu:
        pytest.skip("large shape: GPU only")


def check_all(found, expected, assert_close, slack=2.0):
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other, slack=slack)


@pytest.mark.parametrize(
    ("dtype", "shape", "has_through"),
    [*((*case, True) for case in CASES), *((FORMATS[0], shape, False) for shape in SHAPES + LARGE)],
    ids=str,
)
def test_rms_norm(dtype, shape, has_through, device, assert_close, poison):
    total, weight, grad, through = rms_norm_backward.make_inputs(*shape, 1, device, dtype)
    through = through if has_through else None
    out = (poison(torch.empty_like(total)), poison(torch.empty_like(weight)))
    rms_norm_backward.run(total, weight, grad, through, out=out)
    check_all(out, rms_norm_backward.reference(total, weight, grad, through), assert_close)


@pytest.mark.parametrize(("dtype", "shape"), CASES, ids=str)
def test_layer_norm(dtype, shape, device, assert_close, poison):
    x, weight, grad = layer_norm_backward.make_inputs(*shape, 2, device, dtype)
    out = tuple(poison(torch.empty_like(one)) for one in (x, weight, weight))
    layer_norm_backward.run(x, weight, grad, out=out)
    check_all(out, layer_norm_backward.reference(x, weight, grad), assert_close)


@pytest.mark.parametrize("mean", [1e3, -1e5])
def test_layer_norm_keeps_its_digits_at_any_mean(mean, device, assert_close):
    x, weight, grad = layer_norm_backward.make_inputs(2, 300, 9, device, torch.float32)
    # Rounded so that adding the mean loses nothing.
    x = (x * 64).round() / 64 + mean
    found = layer_norm_backward.run(x, weight, grad)
    check_all(found, layer_norm_backward.reference(x, weight, grad), assert_close)


@pytest.mark.parametrize(
    ("dtype", "shape"), [*CASES, *((FORMATS[0], shape) for shape in ((3, 600), *STREAMED))], ids=str
)
def test_softmax(dtype, shape, device, assert_close, poison):
    y, grad = softmax_backward.make_inputs(*shape, 3, device, dtype)
    out = softmax_backward.run(y, grad, poison(torch.empty_like(y)))
    assert_close(out, softmax_backward.reference(y, grad), slack=2.0)


@pytest.mark.parametrize("shape", [(1, 2), (3, 246), (7, 1000), (2, 9000)], ids=str)
@pytest.mark.parametrize("dtype", FORMATS, ids=str)
@pytest.mark.parametrize("activation", ["gelu", "swiglu"])
def test_activations(activation, dtype, shape, device, assert_close, poison):
    x, grad = activations_backward.make_inputs(activation, *shape, 4, device, dtype)
    out = activations_backward.run(activation, x, grad, poison(torch.empty_like(x)))
    assert_close(out, activations_backward.reference(activation, x, grad), slack=2.0)


@pytest.mark.parametrize("shape", [(1, 1, 2), (5, 3, 64), (4, 20, 96), (3, 40, 128)], ids=str)
@pytest.mark.parametrize("dtype", FORMATS, ids=str)
@pytest.mark.parametrize("inverse", [False, True])
def test_rope(inverse, dtype, shape, device, assert_close, poison):
    inputs = rope.make_inputs(*shape, 5, device, dtype)
    out = rope.run(*inputs, inverse, poison(torch.empty_like(inputs[0])))
    assert_close(out, rope.reference(*inputs, inverse), slack=2.0)


def test_rope_turned_back_is_where_it_began(device, assert_close):
    x, *rest = rope.make_inputs(6, 4, 64, 6, device, torch.float32)
    expected = x.double()
    assert_close(rope.run(rope.run(x, *rest), *rest, inverse=True), expected)
    assert_close(rope.run(x, *rest, out=x), rope.reference(expected, *rest))


def test_a_pair_needs_an_even_head(device):
    x, cos, sin, positions = rope.make_inputs(2, 1, 4, 0, device)
    with pytest.raises(ValueError, match="even"):
        rope.run(x[:, :, :3].contiguous(), cos, sin, positions)


def test_backward_passes_fit_their_forward_passes(device, assert_close):
    """The gradient along a direction is the difference that a small step makes."""
    x, residual, weight = rms_norm.make_inputs(2, 64, 7, device, torch.float32)
    total = x + residual
    direction = torch.randn(
        total.shape, generator=torch.Generator(device=device).manual_seed(8), device=device
    )
    dx, _ = rms_norm_backward.run(total, weight, direction)
    zeros = torch.zeros_like(total)
    step = 1e-3
    above = rms_norm.run(total + step * direction, zeros, weight)[0]
    below = rms_norm.run(total - step * direction, zeros, weight)[0]
    slope = ((above - below).double() * direction.double()).sum() / (2 * step)
    assert float((dx.double() * direction.double()).sum()) == pytest.approx(float(slope), rel=1e-2)
    assert layer_norm.run(total, weight, weight).shape == total.shape


def test_counts():
    assert rms_norm_backward.bytes(2, 3, 2) == (4 * 2 + 2) * 3 * 2
    assert rms_norm_backward.bytes(2, 3, 2, has_through=False) == (3 * 2 + 2) * 3 * 2
    assert layer_norm_backward.bytes(2, 3, 2) == (3 * 2 + 3) * 3 * 2
    assert softmax_backward.bytes(2, 3, 2) == 36
    assert activations_backward.bytes("swiglu", 3, 2) == 30
    assert rope.bytes(2, 3, 4, 2) == 2 * (48 + 16 + 4)
    assert rms_norm_backward.flop(2, 3) == 72
    assert rope.flop(2, 3, 4) == 72
