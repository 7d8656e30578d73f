"""Host time of one layer of Megatron-LM as it was in 2023, on a CUDA machine: how long its Python and launches take.

A layer with stored scores, tracked random states, fused bias, dropout and residual, gradients added to fp32, and whole
layers recomputed, written again after megatron/model/transformer.py and core/tensor_parallel/random.py of that year.
Where hidden sizes are small the accelerator idles, and the time of a step is that of the host.

python tools/measure_launches.py > launches.csv
"""

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

DEVICE = "cuda"
DTYPE = torch.float16
TRACKED: dict[str, torch.Tensor] = {}
SHAPES = ((256, 4, 1), (1024, 16, 1), (1024, 16, 4), (2048, 16, 1))
LAYERS = 16
TOKENS = 1024


@contextlib.contextmanager
def track_random_state() -> Iterator[None]:
    """The random state of tensor-parallel ranks, as CudaRNGStatesTracker.fork has it."""
    before = torch.cuda.get_rng_state()
    set_state(TRACKED["model"])
    try:
        yield
    finally:
        TRACKED["model"] = torch.cuda.get_rng_state()
        set_state(before)


def set_state(state: torch.Tensor) -> None:
    torch.cuda.default_generators[0].set_state(state)


class MeasuredProduct(torch.autograd.Function):
    """LinearWithGradAccumulationAndAsyncCommunication on one rank."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        out = torch.matmul(x, weight.t())
        return out if bias is None else out + bias

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        x, weight = ctx.saved_tensors
        grad = grads[0]
        for_input = grad.matmul(weight)
        grad = grad.contiguous().view(-1, grad.shape[-1])
        x = x.view(-1, x.shape[-1])
        return for_input, grad.t().matmul(x), grad.sum(0) if ctx.needs_input_grad[2] else None


class MeasuredLinear(torch.nn.Module):
    def __init__(self, inputs: int, outputs: int, *, hands_bias_on: bool = False) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(outputs, inputs, device=DEVICE, dtype=DTYPE) * 0.02)
        self.bias = torch.nn.Parameter(torch.zeros(outputs, device=DEVICE, dtype=DTYPE))
        self.hands_bias_on = hands_bias_on

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return MeasuredProduct.apply(x, self.weight, None if self.hands_bias_on else self.bias)  # type: ignore[no-any-return]


@torch.jit.script
def bias_dropout_add(x: torch.Tensor, bias: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    return residual + F.dropout(x + bias, p=0.1, training=True)


@torch.jit.script
def bias_gelu(bias: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x = bias + y
    return x * 0.5 * (1.0 + torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x)))


class MeasuredLayer(torch.nn.Module):
    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.heads = heads
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(hidden, device=DEVICE, dtype=DTYPE) for _ in "ab")
        self.qkv = MeasuredLinear(hidden, 3 * hidden)
        self.out = MeasuredLinear(hidden, hidden, hands_bias_on=True)
        self.up = MeasuredLinear(hidden, 4 * hidden, hands_bias_on=True)
        self.down = MeasuredLinear(4 * hidden, hidden, hands_bias_on=True)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        out = self.out(self.attention(self.qkv(self.norms[0](x)), mask))
        x = bias_dropout_add(out, self.out.bias.expand_as(x), x)
        out = self.down(bias_gelu(self.up(self.norms[1](x)), self.up.bias))
        return bias_dropout_add(out, self.down.bias.expand_as(x), x)

    def attention(self, mixed: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        tokens = mixed.shape[0]
        batch = mixed.shape[1]
        size = self.hidden // self.heads
        q, k, v = torch.split(mixed.view(tokens, batch, self.heads, 3 * size), size, dim=-1)
        q, k, v = (part.reshape(tokens, batch * self.heads, size).transpose(0, 1) for part in (q, k, v))
        scores = torch.empty(batch * self.heads, tokens, tokens, dtype=DTYPE, device=DEVICE)
        scores = torch.baddbmm(scores, q, k.transpose(1, 2), beta=0.0, alpha=size**-0.5)
        scores = torch.softmax(scores.view(batch, self.heads, tokens, tokens).masked_fill(mask, -1e4), -1)
        with track_random_state():
            scores = F.dropout(scores, 0.1, True)
        context = torch.bmm(scores.view(batch * self.heads, tokens, tokens), v)
        context = context.view(batch, self.heads, tokens, size).permute(2, 0, 1, 3).contiguous()
        return context.view(tokens, batch, self.hidden)


class Recomputed(torch.autograd.Function):
    """CheckpointFunction of megatron/core/tensor_parallel/random.py."""

    @staticmethod
    def forward(ctx: Any, layer: MeasuredLayer, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        ctx.layer = layer
        ctx.states = (torch.get_rng_state(), torch.cuda.get_rng_state(), dict(TRACKED))
        with torch.no_grad():
            out = layer(x, mask)
        ctx.save_for_backward(x, mask)
        return out  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        x, mask = ctx.saved_tensors
        now = (torch.get_rng_state(), torch.cuda.get_rng_state(), dict(TRACKED))
        for states in (ctx.states, now):
            torch.set_rng_state(states[0])
            set_state(states[1])
            TRACKED.update(states[2])
            if states is ctx.states:
                x = x.detach().requires_grad_()
                with torch.enable_grad():
                    out = ctx.layer(x, mask)
        torch.autograd.backward((out,), grads)
        return None, x.grad, None


def step_ms(hidden: int, heads: int, batch: int, *, recompute: bool) -> float:
    """Time of a layer's forward and backward pass [ms], the mean over layers and steps."""
    TRACKED["model"] = torch.cuda.get_rng_state()
    layers = [MeasuredLayer(hidden, heads) for _ in range(LAYERS)]
    for parameter in (p for layer in layers for p in layer.parameters()):
        total = torch.zeros_like(parameter, dtype=torch.float32)

        def add_gradient(parameter: torch.Tensor, total: torch.Tensor = total) -> None:
            total.add_(parameter.grad)  # type: ignore[arg-type]
            parameter.grad = None

        parameter.register_post_accumulate_grad_hook(add_gradient)
    mask = torch.ones(1, 1, TOKENS, TOKENS, device=DEVICE).tril() < 0.5
    x = torch.randn(TOKENS, batch, hidden, device=DEVICE, dtype=DTYPE, requires_grad=True)
    grad = torch.randn_like(x) * 1e-3

    def step() -> None:
        y = x
        for layer in layers:
            y = Recomputed.apply(layer, y, mask) if recompute else layer(y, mask)
        y.backward(grad)

    for _ in range(10):
        step()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(10):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / 10 / LAYERS * 1e3


def launch_us() -> float:
    """Time of the host for one small kernel [µs]."""
    number = torch.zeros(8, device=DEVICE)
    for _ in range(2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(2000):
            number.add_(1)
        took = time.perf_counter() - start
    return took / 2000 * 1e6


if __name__ == "__main__":
    print(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, a launch {launch_us():.2f} us")
    print("hidden,heads,micro_batch,recompute,ms_per_layer")
    for shape in SHAPES:
        for full in (True, False):
            print(
                f"{shape[0]},{shape[1]},{shape[2]},{'full' if full else 'none'},{step_ms(*shape, recompute=full):.3f}"
            )
