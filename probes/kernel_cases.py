"""Cases of kernels that `advisor kernel` shows and the simulator has no model of: calls, peers, right values.

A peer is what torch or another library offers for the same operation, in the same process.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import torch
from torch.nn import functional

from advisor.kernels import (
    activations_backward,
    attention,
    attention_backward,
    attention_backward_wgmma,
    attention_packed,
    attention_wgmma,
    causal_conv1d,
    decode_attention,
    decode_attention_fp8,
    fp4,
    fp8_block_gemm,
    fp8_block_gemm_wgmma,
    gated_delta,
    gemm_layouts,
    grouped_gemm,
    grouped_gemm_fp8,
    layer_norm_backward,
    linear_cross_entropy,
    linear_gelu_backward,
    mla_decode,
    rms_norm_backward,
    rope,
    selective_scan,
    selective_scan_registers,
    softmax_backward,
    ssd,
    ssd_wgmma,
    w4a16,
    w4a16_row,
    w8a8,
)
from advisor.kernels.activations import Activation
from advisor.kernels.work import QUERIES_PER_KV
from advisor.probes import kernel_peers
from advisor.probes.kernel_peers import Multiply, gradient, lazily

NUM_CHECKED: Final = 128
"""Rows, or queries of one head, that are also computed in fp64."""
_PAGE: Final = 64
"""Tokens of a page of the cache, in decode attention [count]."""
_ROTATED_BYTES: Final = 200 * 10**6
"""Weights that calls of a small product take turns with [bytes]: four times an H100's L2."""
_TAPS: Final = 4
"""Taps of the causal convolution [count]."""


@dataclass(frozen=True, slots=True)
class KernelCase:
    """One operator at one shape: calls by instrument, and the part of the result that fp64 computes too."""

    calls: Mapping[str, Multiply]
    part: Callable[[torch.Tensor], torch.Tensor]
    """Part of a result that `exact` is compared with."""
    exact: Callable[[], torch.Tensor]
    """Right values of that part in fp64, from the rounded operands."""
    num_repeats: int = 4
    """Number of calls that are captured in one graph; with small operands, more than the caches hold."""
    can_be_captured: bool = True
    """Whether all calls can be captured in a graph; a peer's backward pass by automatic differentiation cannot."""


def _whole(out: torch.Tensor) -> torch.Tensor:
    return out


def _sdpa(kind: Any, causal: bool = True) -> Callable[..., torch.Tensor]:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        turned = [x.transpose(1, 2) for x in (q, k, v)]
        with torch.nn.attention.sdpa_kernel(kind):
            is_grouped = k.shape[2] != q.shape[2]
            out: torch.Tensor = functional.scaled_dot_product_attention(
                turned[0], turned[1], turned[2], is_causal=causal, enable_gqa=is_grouped
            )
        return out.transpose(1, 2)

    return attend


def attention_backward_case(
    shape: Sequence[int], kind: torch.dtype, device: torch.device, num_kv_heads: int | None = None
) -> KernelCase:
    """Return the case of the backward pass of causal attention; the gradient of the first queries is checked."""
    batch, heads, tokens, size = shape
    groups = num_kv_heads or heads
    q, k, v = attention.make_inputs(batch, tokens, tokens, heads, groups, size, 0, device, kind)
    grad = torch.randn(q.shape, device=device, dtype=kind)
    logs = torch.empty((batch, heads, tokens), dtype=torch.float32, device=device)
    result = attention_wgmma.fastest(q)(q, k, v, True, logs=logs)
    backend = torch.nn.attention.SDPBackend
    few = min(NUM_CHECKED, tokens)

    def exact() -> torch.Tensor:
        """dQ of the first queries of the first head, which see only the first keys."""
        one = [x[:1, :few, :1] for x in (q, k, v)]
        return attention_backward.reference(one[0], one[1], one[2], grad[:1, :few, :1])[0]

    calls: dict[str, Multiply] = {
        "advisor": lambda: attention_backward.run(q, k, v, result, logs, grad)[0],
        "torch": lazily(lambda: gradient(_sdpa(backend.FLASH_ATTENTION), q, k, v, grad=grad)),
        "cudnn": lazily(lambda: gradient(_sdpa(backend.CUDNN_ATTENTION), q, k, v, grad=grad)),
    }
    if attention_backward_wgmma.is_supported(q):
        calls["advisor (wgmma)"] = lambda: attention_backward_wgmma.run(q, k, v, result, logs, grad)[0]
    return KernelCase(calls, lambda out: out[:1, :few, :1], exact, can_be_captured=False)


def attention_packed_case(shape: Sequence[int], kind: torch.dtype, device: torch.device) -> KernelCase:
    """Return the case of packed causal attention with a window."""
    batch, heads, tokens, size, window = shape
    q, k, v, starts = attention_packed.make_inputs([tokens] * batch, heads, heads, size, 0, device, kind)
    few = min(NUM_CHECKED, tokens)
    first = torch.tensor([0, few], dtype=torch.int32, device=device)

    def exact() -> torch.Tensor:
        return attention_packed.reference(q[:few, :1], k[:few, :1], v[:few, :1], first, window=window)

    run = partial(attention_wgmma.fastest_packed(q), q, k, v, starts, None, tokens, window=window)
    peer = kernel_peers.fa3_attention(q, k, v, starts, tokens, window)
    return KernelCase({"advisor": run, "fa3": peer}, lambda out: out[:few, :1], exact)


def decode_case(shape: Sequence[int], kind: torch.dtype, device: torch.device, is_fp8: bool) -> KernelCase:
    """Return the case of one new token per sequence over a paged cache, of the queries' format or of fp8."""
    sequences, kv_heads, tokens, size = shape
    q, k, v, table, lengths = decode_attention.make_inputs(
        QUERIES_PER_KV * kv_heads, kv_heads, size, [tokens] * sequences, _PAGE, 0, device, kind
    )
    scales = None
    if is_fp8:
        k, k_scale = decode_attention.quantize(k)
        v, v_scale = decode_attention.quantize(v)
        scales = (k_scale, v_scale)

    def exact() -> torch.Tensor:
        return decode_attention.reference(q[:1], k, v, table[:1], lengths[:1], scales).double()

    run = decode_attention_fp8.fastest(q, k)
    calls: dict[str, Multiply] = {"advisor": partial(run, q, k, v, table, lengths, scales=scales)}
    if not is_fp8:
        calls["fa3"] = kernel_peers.fa3_decode(q, k, v, table, lengths)
    return KernelCase(calls, lambda out: out[:1], exact)


def mla_decode_case(shape: Sequence[int], kind: torch.dtype, device: torch.device) -> KernelCase:
    """Return the case of one new token per sequence over a paged cache of latents."""
    sequences, heads, tokens = shape
    q, pages, table, lengths, scale = mla_decode.make_inputs(
        heads, [tokens] * sequences, _PAGE, 0, device, kind
    )
    return KernelCase(
        {"advisor": lambda: mla_decode.run(q, pages, table, lengths, scale)},
        lambda out: out[:1],
        lambda: mla_decode.reference(q[:1], pages, table[:1], lengths[:1], scale),
    )


def row_backward_case(name: str, shape: Sequence[int], kind: torch.dtype, device: torch.device) -> KernelCase:
    """Return the case of a backward pass over rows; the gradient of the first rows is checked."""
    rows, columns = shape
    some = slice(0, NUM_CHECKED)

    def first_rows(out: torch.Tensor) -> torch.Tensor:
        return out[some]

    if name == "rms_norm_backward":
        total, weight, grad, through = rms_norm_backward.make_inputs(rows, columns, 0, device, kind)

        def both(x: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return functional.rms_norm(x, (columns,), scale, 1e-6), x * 1

        def torch_call() -> Multiply:
            wanted = [x.detach().requires_grad_() for x in (total, weight)]
            results = both(*wanted)
            return lambda: torch.autograd.grad(results, wanted, (grad, through), retain_graph=True)[0]

        return KernelCase(
            {
                "advisor": lambda: rms_norm_backward.run(total, weight, grad, through)[0],
                "torch": lazily(torch_call),
                "liger": kernel_peers.liger_rms_norm_backward(total, weight, grad, through),
            },
            first_rows,
            lambda: rms_norm_backward.reference(total[some], weight, grad[some], through[some])[0],
            can_be_captured=False,
        )
    if name == "layer_norm_backward":
        x, weight, grad = layer_norm_backward.make_inputs(rows, columns, 0, device, kind)
        bias = torch.zeros_like(weight)

        def norm(rows: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
            return functional.layer_norm(rows, (columns,), scale, shift)

        return KernelCase(
            {
                "advisor": lambda: layer_norm_backward.run(x, weight, grad)[0],
                "torch": lazily(lambda: gradient(norm, x, weight, bias, grad=grad)),
                "liger": kernel_peers.liger_layer_norm_backward(x, weight, grad),
            },
            first_rows,
            lambda: layer_norm_backward.reference(x[some], weight, grad[some])[0],
            can_be_captured=False,
        )
    if name == "softmax_backward":
        y, grad = softmax_backward.make_inputs(rows, columns, 0, device, kind)
        return KernelCase(
            {
                "advisor": lambda: softmax_backward.run(y, grad),
                "torch": lambda: torch._softmax_backward_data(grad, y, 1, kind),
            },
            first_rows,
            lambda: softmax_backward.reference(y[some], grad[some]),
        )
    return _activation_backward_case(name, rows, columns, kind, device)


def _activation_backward_case(
    name: str, rows: int, columns: int, kind: torch.dtype, device: torch.device
) -> KernelCase:
    """Return the case of an activation's backward pass; columns are those of the forward pass's result."""
    some = slice(0, NUM_CHECKED)
    is_pair = name == "swiglu_backward"
    activation: Activation = "swiglu" if is_pair else "gelu"
    x, grad = activations_backward.make_inputs(
        activation, rows, 2 * columns if is_pair else columns, 0, device, kind
    )

    def swiglu(values: torch.Tensor) -> torch.Tensor:
        gate, up = values.chunk(2, dim=1)
        return functional.silu(gate) * up

    function = swiglu if is_pair else functional.gelu
    calls: dict[str, Multiply] = {
        "advisor": lambda: activations_backward.run(activation, x, grad),
        "torch": lazily(lambda: gradient(function, x, grad=grad)),
    }
    if is_pair:
        calls["liger"] = kernel_peers.liger_swiglu_backward(x, grad)
    return KernelCase(
        calls,
        lambda out: out[some],
        lambda: activations_backward.reference(activation, x[some], grad[some]),
        can_be_captured=False,
    )


def rope_case(shape: Sequence[int], kind: torch.dtype, device: torch.device) -> KernelCase:
    """Return the case of rotary embedding; torch's peer is the formula in separate operations."""
    tokens, heads, size = shape
    x, cos, sin, positions = rope.make_inputs(tokens, heads, size, 0, device, kind)
    some = slice(0, NUM_CHECKED)

    def separate() -> torch.Tensor:
        c, s = (table[positions.long()][:, None, :].to(kind) for table in (cos, sin))
        first, second = x.chunk(2, dim=2)
        return torch.cat((first * c - second * s, second * c + first * s), dim=2)

    return KernelCase(
        {
            "advisor": lambda: rope.run(x, cos, sin, positions),
            "torch": separate,
            "liger": kernel_peers.liger_rope(x, cos, sin, positions),
        },
        lambda out: out[some],
        lambda: rope.reference(x[some], cos, sin, positions[some]),
    )


def linear_gelu_backward_case(shape: Sequence[int], kind: torch.dtype, device: torch.device) -> KernelCase:
    """Return the case of the backward pass of a linear layer with GELU; dA of the first rows is checked.

    torch's peer keeps the pre-activations of the forward pass, and so computes two of the three products.
    """
    m, n, k = shape
    a, b, bias, grad = linear_gelu_backward.make_inputs(m, n, k, 0, device, kind)
    some = slice(0, NUM_CHECKED)

    def exact() -> torch.Tensor:
        return linear_gelu_backward.reference(a[some], b, bias, grad[some])[0]

    def forward(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return functional.gelu(functional.linear(a, b, bias))

    return KernelCase(
        {
            "advisor": lambda: linear_gelu_backward.run(a, b, bias, grad)[0],
            "torch": lazily(lambda: gradient(forward, a, b, bias, grad=grad)),
        },
        lambda out: out[some],
        exact,
        can_be_captured=False,
    )


def cross_entropy_case(
    shape: Sequence[int], kind: torch.dtype, device: torch.device, is_backward: bool
) -> KernelCase:
    """Return the case of a linear layer with cross-entropy; torch's peer stores all logits."""
    rows, columns, words = shape
    x, weight, target = linear_cross_entropy.make_inputs(rows, columns, words, 0, device, kind)
    some = slice(0, NUM_CHECKED)

    def loss(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(functional.linear(x, weight), target, reduction="none")

    if not is_backward:
        return KernelCase(
            {
                "advisor": lambda: linear_cross_entropy.run(x, weight, target)[0],
                "torch": lambda: loss(x, weight),
            },
            lambda out: out[some],
            lambda: linear_cross_entropy.reference(x[some], weight, target[some]),
        )
    grad = torch.ones(shape[0], device=device)
    _, log = linear_cross_entropy.run(x, weight, target)

    def exact() -> torch.Tensor:
        return linear_cross_entropy.reference_backward(x[some], weight, target[some], grad[some])[0]

    return KernelCase(
        {
            "advisor": lambda: linear_cross_entropy.run_backward(x, weight, target, log, grad)[0],
            "torch": lazily(lambda: gradient(loss, x, weight, grad=grad.to(kind))),
        },
        lambda out: out[some],
        exact,
        can_be_captured=False,
    )


def gemm_layouts_case(shape: Sequence[int], kind: torch.dtype, device: torch.device) -> KernelCase:
    """Return the case of a product of the first operand's columns, as the gradient of weights needs it."""
    m, n, k = shape
    a, b = gemm_layouts.make_inputs(m, n, k, 0, device, kind)
    return KernelCase(
        {"advisor": lambda: gemm_layouts.run(a, b), "torch": lambda: a @ b},
        lambda out: out[:NUM_CHECKED],
        lambda: gemm_layouts.reference(a[:NUM_CHECKED], b),
    )


def fp8_block_case(shape: Sequence[int], device: torch.device) -> KernelCase:
    """Return the case of a product in fp8 with scales of blocks; torch's peer has the same scales."""
    m, n, k = shape
    a, a_scale, b, b_scale = fp8_block_gemm.make_inputs(m, n, k, 0, device)

    def vendor() -> torch.Tensor:
        # torch wants the scales of rows with neighbouring rows side by side, which is how this kernel stores them.
        out: torch.Tensor = torch._scaled_mm(
            a, b.T, a_scale.T, b_scale.T, out_dtype=torch.bfloat16, use_fast_accum=False
        )
        return out

    some = slice(0, NUM_CHECKED)
    return KernelCase(
        {
            "advisor": partial(fp8_block_gemm_wgmma.fastest(a, n), a, a_scale, b, b_scale),
            "torch": vendor,
            "deep-gemm": kernel_peers.deep_gemm_product(a, a_scale, b, b_scale),
        },
        lambda out: out[some],
        lambda: fp8_block_gemm.reference(a[some], a_scale[:, some], b, b_scale),
    )


def w8a8_case(shape: Sequence[int], device: torch.device) -> KernelCase:
    """Return the case of a product of 8-bit integers; torch's peer returns the sums without scales."""
    m, n, k = shape
    a, a_scale, b, b_scale = w8a8.make_inputs(m, n, k, 0, device)
    some = slice(0, NUM_CHECKED)

    def separate() -> torch.Tensor:
        return torch._int_mm(a, b.T).float() * a_scale[:, None] * b_scale[None, :]

    return KernelCase(
        {"advisor": lambda: w8a8.run(a, a_scale, b, b_scale), "torch": separate},
        lambda out: out[some],
        lambda: w8a8.reference(a[some], a_scale[some], b, b_scale).double(),
    )


def w4a16_case(shape: Sequence[int], kind: torch.dtype, device: torch.device) -> KernelCase:
    """Return the case of a product with 4-bit weights; torch's peer has weights of 16 bits, four times as many bytes.

    Calls take turns with several copies of the weights, since a product in a model finds no weights in the caches. With
    `early` a launch overlaps the kernel before, as in a captured step.
    """
    m, n, k = shape
    x, words, scale = w4a16.make_inputs(m, n, k, 0, device, kind)
    num_copies = max(1, min(32, _ROTATED_BYTES // w4a16.weight_bytes(n, k))) if device.type == "cuda" else 1
    copies = [(words.clone(), scale.clone()) for _ in range(num_copies)]
    run = w4a16_row.fastest(x, n)

    def rotating(launch: Callable[..., torch.Tensor]) -> Multiply:
        turns = itertools.cycle(copies)
        return lambda: launch(x, *next(turns))

    def wide() -> Multiply:
        weights = ((w4a16.unpack(words) - 8) * scale.T.repeat_interleave(w4a16.GROUP, dim=1)).to(kind)
        turns = itertools.cycle([weights.clone() for _ in range(max(1, num_copies // 4))])
        return lambda: x @ next(turns).T

    def marlin() -> Multiply:
        turns = itertools.cycle([kernel_peers.marlin_product(x, *copy) for copy in copies])

        def call() -> torch.Tensor:
            return next(turns)()

        return call

    calls = {"advisor": rotating(run), "torch": lazily(wide), "marlin": lazily(marlin)}
    if run is not w4a16.run:
        calls["advisor (early)"] = rotating(partial(run, early=True))
    return KernelCase(
        calls,
        _whole,
        lambda: w4a16.reference(x, words, scale).double(),
        num_repeats=max(4, num_copies),
    )


def grouped_case(shape: Sequence[int], kind: torch.dtype, device: torch.device) -> KernelCase:
    """Return the case of a grouped product; the peer is torch's."""
    rows, experts, n, k = shape
    a, b, sizes = grouped_gemm.make_inputs(rows, experts, n, k, 0, device, kind)
    ends = sizes.cumsum(0).to(torch.int32)

    def exact() -> torch.Tensor:
        owner = torch.repeat_interleave(torch.arange(experts, device=device), sizes)[:NUM_CHECKED]
        return torch.stack([b[e].double() @ a[row].double() for row, e in enumerate(owner.tolist())])

    def vendor() -> torch.Tensor:
        out: torch.Tensor = torch._grouped_mm(a, b.transpose(1, 2), offs=ends)
        return out

    return KernelCase(
        {"advisor": lambda: grouped_gemm.run(a, b, sizes), "torch": vendor},
        lambda out: out[:NUM_CHECKED],
        exact,
    )


def grouped_fp8_case(shape: Sequence[int], device: torch.device) -> KernelCase:
    """Return the case of a grouped product in fp8; torch's peer has one scale per row: less work and more error."""
    rows, experts, n, k = shape
    a, a_scale, b, b_scale, sizes = grouped_gemm_fp8.make_inputs(rows, experts, n, k, 0, device)
    ends = sizes.cumsum(0).to(torch.int32)
    ones = (torch.ones(rows, device=device), torch.ones((experts, n), device=device))

    def exact() -> torch.Tensor:
        few = min(NUM_CHECKED, int(sizes[0]) or rows)
        owner = int((sizes > 0).nonzero()[0])
        wide = fp8_block_gemm.dequantize_weights(b[owner], b_scale[owner])
        return fp8_block_gemm.dequantize_rows(a[:few], a_scale[:, :few]) @ wide.T

    def vendor() -> torch.Tensor:
        out: torch.Tensor = torch._scaled_grouped_mm(
            a, b.transpose(1, 2), *ones, offs=ends, out_dtype=torch.bfloat16, use_fast_accum=True
        )
        return out

    return KernelCase(
        {
            "advisor": partial(
                fp8_block_gemm_wgmma.fastest_grouped(a, experts, n), a, a_scale, b, b_scale, sizes
            ),
            "torch (a scale per row)": vendor,
        },
        lambda out: out[: min(NUM_CHECKED, int(sizes[0]) or rows)],
        exact,
    )


def fp4_case(name: fp4.Fp4, shape: Sequence[int], device: torch.device) -> KernelCase:
    """Return the case of a dequantisation, of which torch has none."""
    rows, columns = shape
    codes, scale, factor = fp4.make_inputs(name, rows, columns, 0, device)
    some = slice(0, NUM_CHECKED)
    return KernelCase(
        {"advisor": lambda: fp4.run(name, codes, scale, factor)},
        lambda out: out[some],
        lambda: fp4.reference(name, codes[some], scale[some], factor),
    )


def scan_case(name: str, shape: Sequence[int], kind: torch.dtype, device: torch.device) -> KernelCase:
    """Return the case of a scan; torch has none. The first tokens of the first sequence are checked."""
    few = min(NUM_CHECKED, shape[1])

    def first_tokens(out: torch.Tensor) -> torch.Tensor:
        return out[:1, :few]

    if name == "ssd":
        sequences, tokens, heads, channels, states = shape
        x, delta, a, b, c, skip = ssd.make_inputs(
            sequences, tokens, heads, channels, 1, states, 0, device, kind
        )
        calls: dict[str, Multiply] = {
            "advisor": lambda: ssd.run(x, delta, a, b, c, skip)[0],
            "mamba-ssm": kernel_peers.mamba_scan(x, delta, a, b, c, skip),
        }
        if ssd_wgmma.is_supported(x, states):
            calls["advisor (wgmma)"] = lambda: ssd_wgmma.run(x, delta, a, b, c, skip)[0]
        return KernelCase(
            calls,
            first_tokens,
            lambda: ssd.reference(x[:1, :few], delta[:1, :few], a, b[:1, :few], c[:1, :few], skip)[0],
        )
    if name == "gated_delta":
        sequences, tokens, heads, keys, values = shape
        operands = gated_delta.make_inputs(sequences, tokens, heads, keys, values, 0, device, kind)
        return KernelCase(
            {
                "advisor": lambda: gated_delta.run(*operands)[0],
                "fla": kernel_peers.fla_gated_delta(*operands),
            },
            first_tokens,
            lambda: gated_delta.reference(*(one[:1, :few] for one in operands))[0],
        )
    if name == "causal_conv1d":
        sequences, tokens, channels = shape
        tokens_in, weight, bias = causal_conv1d.make_inputs(
            sequences, tokens, channels, _TAPS, 0, device, kind
        )

        def vendor() -> torch.Tensor:
            padded = functional.pad(tokens_in.transpose(1, 2), (_TAPS - 1, 0))
            return functional.silu(
                functional.conv1d(padded, weight[:, None], bias, groups=weight.shape[0])
            ).transpose(1, 2)

        return KernelCase(
            {"advisor": lambda: causal_conv1d.run(tokens_in, weight, bias)[0], "torch": vendor},
            first_tokens,
            lambda: causal_conv1d.reference(tokens_in[:1, :few], weight, bias),
        )
    sequences, tokens, channels, states = shape
    u, delta, a, b, c, skip = selective_scan.make_inputs(sequences, tokens, channels, states, 0, device, kind)
    module = selective_scan_registers if selective_scan_registers.is_supported(u) else selective_scan

    def exact() -> torch.Tensor:
        some = [one[:1, :few].double() for one in (u, delta, b, c)]
        wide = selective_scan.reference(some[0], some[1], a.double(), some[2], some[3], skip.double())
        return wide[0].double()

    return KernelCase(
        {"advisor": lambda: module.run(u, delta, a, b, c, skip)[0]},
        first_tokens,
        exact,
    )


def make_newer_case(name: str, shape: Sequence[int], kind: torch.dtype, device: torch.device) -> KernelCase:
    """Return the case of a kernel of `kernels.work` by name."""
    makers: dict[str, Callable[[], KernelCase]] = {
        "attention_backward": lambda: attention_backward_case(shape, kind, device),
        "attention_packed": lambda: attention_packed_case(shape, kind, device),
        "decode_attention": lambda: decode_case(shape, kind, device, is_fp8=False),
        "decode_attention_fp8": lambda: decode_case(shape, kind, device, is_fp8=True),
        "mla_decode": lambda: mla_decode_case(shape, kind, device),
        "rope": lambda: rope_case(shape, kind, device),
        "linear_gelu_backward": lambda: linear_gelu_backward_case(shape, kind, device),
        "linear_cross_entropy": lambda: cross_entropy_case(shape, kind, device, is_backward=False),
        "linear_cross_entropy_backward": lambda: cross_entropy_case(shape, kind, device, is_backward=True),
        "gemm_layouts": lambda: gemm_layouts_case(shape, kind, device),
        "fp8_block_gemm": lambda: fp8_block_case(shape, device),
        "w8a8": lambda: w8a8_case(shape, device),
        "w4a16": lambda: w4a16_case(shape, kind, device),
        "grouped_gemm": lambda: grouped_case(shape, kind, device),
        "grouped_gemm_fp8": lambda: grouped_fp8_case(shape, device),
        "mxfp4": lambda: fp4_case("mxfp4", shape, device),
        "nvfp4": lambda: fp4_case("nvfp4", shape, device),
    }
    if name in makers:
        return makers[name]()
    if name.endswith("_backward"):
        return row_backward_case(name, shape, kind, device)
    return scan_case(name, shape, kind, device)
