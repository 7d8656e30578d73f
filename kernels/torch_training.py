"""Kernels with their backward passes as operators of torch, for training: `torch.ops.advisor.*` with autograd.

Importing this module registers the operators. torch.compile traces through them without a graph break: each has a fake
that gives shape and format of its result, and its backward pass is an operator itself.
"""

from typing import Any

import torch

from advisor.kernels import (
    activations,
    activations_backward,
    attention_backward_wgmma,
    attention_wgmma,
    layer_norm,
    layer_norm_backward,
    linear_cross_entropy,
    linear_gelu_backward,
    linear_gelu_residual,
    rms_norm_backward,
    rope,
    softmax,
    softmax_backward,
)
from advisor.kernels.torch_ops import rms_norm_op

Context = Any
"""Context of autograd, in which torch keeps what the backward pass needs."""


@torch.library.custom_op("advisor::rms_norm_backward", mutates_args=())
def rms_norm_backward_op(
    total: torch.Tensor,
    weight: torch.Tensor,
    grad: torch.Tensor,
    through: torch.Tensor | None = None,
    epsilon: float = 1e-6,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the gradients of the sum and of the weights.

    Shapes: total [R, C], weight [C], grad [R, C], through [R, C] -> [R, C], [C].
    """
    through = None if through is None else through.contiguous()
    return rms_norm_backward.run(total, weight, grad.contiguous(), through, epsilon)


@rms_norm_backward_op.register_fake
def _(
    total: torch.Tensor,
    weight: torch.Tensor,
    grad: torch.Tensor,
    through: torch.Tensor | None = None,
    epsilon: float = 1e-6,
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(total), torch.empty_like(weight)


def _keep_rms_norm(ctx: Context, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
    ctx.save_for_backward(output[1], inputs[2])
    ctx.epsilon = inputs[3]


def _rms_norm_gradients(ctx: Context, grad: torch.Tensor, through: torch.Tensor) -> tuple[Any, ...]:
    total, weight = ctx.saved_tensors
    dx, dw = rms_norm_backward_op(total, weight, grad, through, ctx.epsilon)
    return dx, dx, dw, None


rms_norm_op.register_autograd(_rms_norm_gradients, setup_context=_keep_rms_norm)


@torch.library.custom_op("advisor::layer_norm", mutates_args=())
def layer_norm_op(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, epsilon: float = 1e-5
) -> torch.Tensor:
    """Compute normalised rows.

    Shapes: x [R, C], weight [C], bias [C] -> [R, C].
    """
    return layer_norm.run(x, weight, bias, epsilon)


@layer_norm_op.register_fake
def _(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, epsilon: float = 1e-5) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("advisor::layer_norm_backward", mutates_args=())
def layer_norm_backward_op(
    x: torch.Tensor, weight: torch.Tensor, grad: torch.Tensor, epsilon: float = 1e-5
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute the gradients of rows, weights and biases.

    Shapes: x [R, C], weight [C], grad [R, C] -> [R, C], [C], [C].
    """
    return layer_norm_backward.run(x, weight, grad.contiguous(), epsilon)


@layer_norm_backward_op.register_fake
def _(
    x: torch.Tensor, weight: torch.Tensor, grad: torch.Tensor, epsilon: float = 1e-5
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.empty_like(x), torch.empty_like(weight), torch.empty_like(weight)


def _keep_layer_norm(ctx: Context, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(inputs[0], inputs[1])
    ctx.epsilon = inputs[3]


def _layer_norm_gradients(ctx: Context, grad: torch.Tensor) -> tuple[Any, ...]:
    return *layer_norm_backward_op(*ctx.saved_tensors, grad, ctx.epsilon), None


layer_norm_op.register_autograd(_layer_norm_gradients, setup_context=_keep_layer_norm)


@torch.library.custom_op("advisor::softmax", mutates_args=())
def softmax_op(x: torch.Tensor) -> torch.Tensor:
    """Compute the softmax of each row.

    Shapes: x [R, C] -> [R, C].
    """
    return softmax.run(x)


@softmax_op.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("advisor::softmax_backward", mutates_args=())
def softmax_backward_op(y: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    """Compute the gradient of the logits.

    Shapes: y [R, C], grad [R, C] -> [R, C].
    """
    return softmax_backward.run(y, grad.contiguous())


@softmax_backward_op.register_fake
def _(y: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(y)


def _keep_result(ctx: Context, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(output)


def _softmax_gradient(ctx: Context, grad: torch.Tensor) -> torch.Tensor:
    gradient: torch.Tensor = softmax_backward_op(*ctx.saved_tensors, grad)
    return gradient


softmax_op.register_autograd(_softmax_gradient, setup_context=_keep_result)


@torch.library.custom_op("advisor::gelu", mutates_args=())
def gelu_op(x: torch.Tensor) -> torch.Tensor:
    """Compute GELU.

    Shapes: x [R, C] -> [R, C].
    """
    return activations.run("gelu", x)


@gelu_op.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("advisor::gelu_backward", mutates_args=())
def gelu_backward_op(x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    """Compute the gradient of GELU's input.

    Shapes: x [R, C], grad [R, C] -> [R, C].
    """
    return activations_backward.run("gelu", x, grad.contiguous())


@gelu_backward_op.register_fake
def _(x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("advisor::swiglu", mutates_args=())
def swiglu_op(x: torch.Tensor) -> torch.Tensor:
    """Compute SwiGLU of gate and up, side by side.

    Shapes: x [R, 2 C] -> [R, C].
    """
    return activations.run("swiglu", x)


@swiglu_op.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty((x.shape[0], x.shape[1] // 2))


@torch.library.custom_op("advisor::swiglu_backward", mutates_args=())
def swiglu_backward_op(x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    """Compute the gradient of gate and up.

    Shapes: x [R, 2 C], grad [R, C] -> [R, 2 C].
    """
    return activations_backward.run("swiglu", x, grad.contiguous())


@swiglu_backward_op.register_fake
def _(x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def _keep_input(ctx: Context, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(inputs[0])


def _gelu_gradient(ctx: Context, grad: torch.Tensor) -> torch.Tensor:
    gradient: torch.Tensor = gelu_backward_op(*ctx.saved_tensors, grad)
    return gradient


def _swiglu_gradient(ctx: Context, grad: torch.Tensor) -> torch.Tensor:
    gradient: torch.Tensor = swiglu_backward_op(*ctx.saved_tensors, grad)
    return gradient


gelu_op.register_autograd(_gelu_gradient, setup_context=_keep_input)
swiglu_op.register_autograd(_swiglu_gradient, setup_context=_keep_input)


@torch.library.custom_op("advisor::rope", mutates_args=())
def rope_op(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, positions: torch.Tensor, inverse: bool = False
) -> torch.Tensor:
    """Compute heads turned by their positions' angles; tables and positions have no gradients.

    Shapes: x [T, H, D], cos [L, D / 2], sin [L, D / 2], positions [T] -> [T, H, D].
    """
    return rope.run(x.contiguous(), cos, sin, positions, inverse)


@rope_op.register_fake
def _(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, positions: torch.Tensor, inverse: bool = False
) -> torch.Tensor:
    return x.new_empty(x.shape)


def _keep_rope(ctx: Context, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs[1:4])
    ctx.inverse = inputs[4]


def _rope_gradient(ctx: Context, grad: torch.Tensor) -> tuple[Any, ...]:
    return rope_op(grad, *ctx.saved_tensors, not ctx.inverse), None, None, None, None


rope_op.register_autograd(_rope_gradient, setup_context=_keep_rope)


@torch.library.custom_op("advisor::attention_with_logs", mutates_args=())
def attention_with_logs_op(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute attention, and the logarithms that its backward pass needs, which have no gradient.

    Shapes: q [B, S, H, D], k [B, T, G, D], v [B, T, G, D] -> [B, S, H, D], [B, H, S] fp32.
    """
    logs = torch.empty((q.shape[0], q.shape[2], q.shape[1]), dtype=torch.float32, device=q.device)
    return attention_wgmma.fastest(q)(q, k, v, causal, logs=logs), logs


@attention_with_logs_op.register_fake
def _(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    logs = q.new_empty((q.shape[0], q.shape[2], q.shape[1]), dtype=torch.float32)
    return torch.empty_like(q), logs


@torch.library.custom_op("advisor::attention_backward", mutates_args=())
def attention_backward_op(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    result: torch.Tensor,
    logs: torch.Tensor,
    grad: torch.Tensor,
    causal: bool = True,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute the gradients of queries, keys and values.

    Shapes: q, result, grad [B, S, H, D], k, v [B, T, G, D], logs [B, H, S] -> those of q, k and v.
    """
    run = attention_backward_wgmma.fastest(q)
    return run(q, k, v, result, logs, grad.contiguous(), causal)


@attention_backward_op.register_fake
def _(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    result: torch.Tensor,
    logs: torch.Tensor,
    grad: torch.Tensor,
    causal: bool = True,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)


def _keep_attention(ctx: Context, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs[:3], *output)
    ctx.causal = inputs[3]
    ctx.mark_non_differentiable(output[1])


def _attention_gradients(ctx: Context, grad: torch.Tensor, _: torch.Tensor) -> tuple[Any, ...]:
    return *attention_backward_op(*ctx.saved_tensors, grad, ctx.causal), None


attention_with_logs_op.register_autograd(_attention_gradients, setup_context=_keep_attention)


@torch.library.custom_op("advisor::linear_gelu_residual", mutates_args=())
def linear_gelu_residual_op(
    a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor, residual: torch.Tensor
) -> torch.Tensor:
    """Compute residual + GELU(A · Bᵀ + bias).

    Shapes: a [M, K], b [N, K], bias [N], residual [M, N] -> [M, N].
    """
    return linear_gelu_residual.run(a, b, bias, residual).contiguous()


@linear_gelu_residual_op.register_fake
def _(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    return a.new_empty((a.shape[0], b.shape[0]))


@torch.library.custom_op("advisor::linear_gelu_backward", mutates_args=())
def linear_gelu_backward_op(
    a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor, grad: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute the gradients of activations, weights and bias.

    Shapes: a [M, K], b [N, K], bias [N], grad [M, N] -> [M, K], [N, K], [N].
    """
    da, db, dbias = linear_gelu_backward.run(a, b, bias, grad)
    return da.contiguous(), db.contiguous(), dbias


@linear_gelu_backward_op.register_fake
def _(
    a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor, grad: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return a.new_empty(a.shape), b.new_empty(b.shape), torch.empty_like(bias)


def _keep_linear(ctx: Context, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs[:3])


def _linear_gradients(ctx: Context, grad: torch.Tensor) -> tuple[Any, ...]:
    return *linear_gelu_backward_op(*ctx.saved_tensors, grad), grad


linear_gelu_residual_op.register_autograd(_linear_gradients, setup_context=_keep_linear)


@torch.library.custom_op("advisor::linear_cross_entropy", mutates_args=())
def linear_cross_entropy_op(
    x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the loss of each row, and the logarithms that the backward pass needs, which have no gradient.

    Shapes: x [R, C], weight [V, C], target [R] -> [R] fp32, [R] fp32.
    """
    return linear_cross_entropy.run(x, weight, target)


@linear_cross_entropy_op.register_fake
def _(x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    rows = x.new_empty(x.shape[:1], dtype=torch.float32)
    return rows, torch.empty_like(rows)


@torch.library.custom_op("advisor::linear_cross_entropy_backward", mutates_args=())
def linear_cross_entropy_backward_op(
    x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, log: torch.Tensor, grad: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the gradients of rows and weights.

    Shapes: x [R, C], weight [V, C], target [R], log [R], grad [R] -> [R, C], [V, C].
    """
    dx, dw = linear_cross_entropy.run_backward(x, weight, target, log, grad.contiguous())
    return dx.contiguous(), dw.contiguous()


@linear_cross_entropy_backward_op.register_fake
def _(
    x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, log: torch.Tensor, grad: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    return x.new_empty(x.shape), weight.new_empty(weight.shape)


def _keep_cross_entropy(ctx: Context, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs, output[1])
    ctx.mark_non_differentiable(output[1])


def _cross_entropy_gradients(ctx: Context, grad: torch.Tensor, _: torch.Tensor) -> tuple[Any, ...]:
    return *linear_cross_entropy_backward_op(*ctx.saved_tensors, grad), None


linear_cross_entropy_op.register_autograd(_cross_entropy_gradients, setup_context=_keep_cross_entropy)
