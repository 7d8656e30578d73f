"""Operators with autograd: torch's own checks in full, gradients like torch's, and no breaks under torch.compile."""

import pytest
import torch
from torch.nn import functional

from advisor.kernels import (
    attention,
    layer_norm,
    linear_cross_entropy,
    linear_gelu_residual,
    rms_norm,
    rope,
    softmax,
    torch_training,
)


def cases(device):
    """Operators with operands, and the same in torch; tensors of floats that may have gradients come first."""
    half = {"device": device, "dtype": torch.float16}
    q, k, v = attention.make_inputs(1, 33, 33, 2, 1, 64, 1, **half)

    def attend(q, k, v):
        out = functional.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True, enable_gqa=True
        )
        return out.transpose(1, 2)

    def turn(x, cos, sin, positions):
        rows = positions.long()
        first, second = x.chunk(2, dim=2)
        c = cos[rows][:, None]
        s = sin[rows][:, None]
        return torch.cat((first * c - second * s, second * c + first * s), dim=2)

    def swiglu(x):
        gate, up = x.chunk(2, dim=1)
        return functional.silu(gate) * up

    return {
        "rms_norm": (
            torch_training.rms_norm_op,
            rms_norm.make_inputs(5, 96, 1, **half),
            lambda x, residual, weight: functional.rms_norm(x + residual, weight.shape, weight, 1e-6),
            3,
        ),
        "layer_norm": (
            torch_training.layer_norm_op,
            layer_norm.make_inputs(5, 96, 2, **half),
            lambda x, weight, bias: functional.layer_norm(x, weight.shape, weight, bias),
            3,
        ),
        "softmax": (
            torch_training.softmax_op,
            softmax.make_inputs(5, 96, 3, **half),
            lambda x: torch.softmax(x, dim=1),
            1,
        ),
        "gelu": (torch_training.gelu_op, softmax.make_inputs(5, 96, 4, **half), functional.gelu, 1),
        "swiglu": (torch_training.swiglu_op, softmax.make_inputs(5, 96, 5, **half), swiglu, 1),
        "rope": (torch_training.rope_op, rope.make_inputs(5, 2, 32, 6, **half), turn, 1),
        "attention_with_logs": (torch_training.attention_with_logs_op, (q, k, v), attend, 3),
        "linear_gelu_residual": (
            torch_training.linear_gelu_residual_op,
            linear_gelu_residual.make_inputs(20, 40, 32, 7, **half),
            lambda a, b, bias, residual: residual + functional.gelu(a @ b.T + bias),
            4,
        ),
        "linear_cross_entropy": (
            torch_training.linear_cross_entropy_op,
            linear_cross_entropy.make_inputs(9, 32, 70, 8, **half),
            lambda x, weight, target: functional.cross_entropy(x @ weight.T, target, reduction="none"),
            2,
        ),
    }


NAMES = (
    "rms_norm",
    "layer_norm",
    "softmax",
    "gelu",
    "swiglu",
    "rope",
    "attention_with_logs",
    "linear_gelu_residual",
    "linear_cross_entropy",
)


def first_of(result):
    return result[0] if isinstance(result, tuple) else result


def with_gradients(operands, number):
    return [x.detach().clone().requires_grad_() if i < number else x for i, x in enumerate(operands)]


@pytest.mark.parametrize("name", NAMES)
def test_operators_pass_all_of_torchs_checks(name, device):
    operator, operands, _, number = cases(device)[name]
    torch.library.opcheck(operator, tuple(with_gradients(operands, number)), atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_those_of_torch_in_fp64(name, device, assert_close):
    operator, operands, same, number = cases(device)[name]
    own = with_gradients(operands, number)
    result = first_of(operator(*own))
    grad = torch.randn(result.shape, generator=torch.Generator(device=device).manual_seed(9), device=device)
    found = torch.autograd.grad(result, own[:number], grad.to(result.dtype))
    wide = with_gradients([x.double() if x.is_floating_point() else x for x in operands], number)
    expected = torch.autograd.grad(same(*wide), wide[:number], grad.to(result.dtype).double())
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other, slack=4.0)


@pytest.mark.parametrize("name", NAMES)
def test_compiled_graphs_have_no_breaks(name, device, on_gpu):
    operator, operands, _, number = cases(device)[name]
    own = with_gradients(operands, number)

    def step(*operands):
        return (first_of(operator(*operands)).float() ** 2).sum()

    expected = torch.autograd.grad(step(*own), own[:number])
    torch._dynamo.reset()
    compiled = torch.compile(step, fullgraph=True, backend="inductor" if on_gpu else "aot_eager")
    found = torch.autograd.grad(compiled(*own), own[:number])
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=2e-2, rtol=2e-2)


def test_both_results_of_rms_norm_carry_gradients(device, assert_close):
    x, residual, weight = with_gradients(rms_norm.make_inputs(4, 64, 1, device, torch.float32), 3)
    y, total = torch_training.rms_norm_op(x, residual, weight)
    found = torch.autograd.grad((y * 2 + total * 3).sum(), (x, residual, weight))
    wide = [one.detach().double().requires_grad_() for one in (x, residual, weight)]
    both = wide[0] + wide[1]
    same = functional.rms_norm(both, (64,), wide[2], 1e-6) * 2 + both * 3
    for one, other in zip(found, torch.autograd.grad(same.sum(), wide), strict=True):
        assert_close(one, other)
