"""Kernels of language models near the hardware's limit, which distinguish a slow kernel from a slow GPU."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import torch

from advisor.catalog.units import MIB
from advisor.kernels import (
    activations,
    attention,
    decode_attention,
    grouped_gemm,
    layer_norm,
    linear_gelu_residual,
    rms_norm,
    selective_scan,
    selective_scan_registers,
    softmax,
    transpose,
    w4a16,
    w4a16_row,
    w8a8,
)
from advisor.kernels.timing import Call, synchronize, time_graph
from advisor.probes.bench import Bench
from advisor.probes.record import Measurement
from advisor.probes.telemetry import Sampler

_COLD_BYTES: Final = 600 * MIB
"""Minimum total size of inputs that rotate in a graph [bytes]: several times the largest cache."""

_HOPPER: Final = (9, 0)
_WARM_UP_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class OperatorCase:
    """Operator at one size: calls that do equal work on different inputs, and the amount of that work."""

    check: str
    pattern: str
    calls: Sequence[Call]
    amount: float
    unit: str
    vendor: Sequence[Call] = ()
    """Calls of torch's own operators for the same work; empty if torch has none."""


def _case(
    name: str,
    pattern: str,
    call: Call | Sequence[Call],
    vendor: Call | None = None,
    *,
    num_bytes: float = 0.0,
    flop: float = 0.0,
) -> OperatorCase:
    """Return an operator measured by the bytes that it moves, or by its operations."""
    amount, unit = (flop, "flop/s") if flop else (num_bytes, "bytes/s")
    calls = [call] if callable(call) else call
    return OperatorCase(f"operator.{name}", pattern, calls, float(amount), unit, [vendor] if vendor else ())


def _copies(num_bytes: float) -> int:
    return max(1, min(64, round(_COLD_BYTES / num_bytes + 0.5)))


def rms_norm_case(device: torch.device, rows: int = 32768, columns: int = 8192) -> OperatorCase:
    """Return the case of RMSNorm with residual: two arrays read, two written."""
    inputs = rms_norm.make_inputs(rows, columns, 0, device)
    out = (torch.empty_like(inputs[0]), torch.empty_like(inputs[0]))
    return _case(
        "rms_norm",
        f"{rows} x {columns} bf16, with residual",
        lambda: rms_norm.run(*inputs, out=out),
        num_bytes=rms_norm.bytes(rows, columns, 2),
    )


def layer_norm_case(device: torch.device, rows: int = 32768, columns: int = 8192) -> OperatorCase:
    """Return the case of LayerNorm: one array read, one written."""
    x, weight, bias = layer_norm.make_inputs(rows, columns, 0, device)
    out = torch.empty_like(x)
    return _case(
        "layer_norm",
        f"{rows} x {columns} bf16",
        lambda: layer_norm.run(x, weight, bias, out=out),
        lambda: torch.nn.functional.layer_norm(x, (columns,), weight, bias),
        num_bytes=layer_norm.bytes(rows, columns, 2),
    )


def softmax_case(device: torch.device, rows: int = 32768, columns: int = 8192) -> OperatorCase:
    """Return the case of softmax over rows."""
    (x,) = softmax.make_inputs(rows, columns, 0, device)
    out = torch.empty_like(x)
    return _case(
        "softmax",
        f"{rows} x {columns} bf16",
        lambda: softmax.run(x, out),
        lambda: torch.softmax(x, dim=1),
        num_bytes=softmax.bytes(rows, columns, 2),
    )


def swiglu_case(device: torch.device, rows: int = 16384, columns: int = 28672) -> OperatorCase:
    """Return the case of SwiGLU of gate and up."""
    (x,) = activations.make_inputs(rows, columns, 0, device)
    out = x.new_empty((rows, columns // 2))
    return _case(
        "swiglu",
        f"{rows} x {columns} bf16",
        lambda: activations.run("swiglu", x, out),
        num_bytes=activations.bytes("swiglu", rows * columns // 2, 2),
    )


def gelu_case(device: torch.device, rows: int = 32768, columns: int = 8192) -> OperatorCase:
    """Return the case of GELU of one array."""
    (x,) = activations.make_inputs(rows, columns, 0, device)
    out = torch.empty_like(x)
    return _case(
        "gelu",
        f"{rows} x {columns} bf16",
        lambda: activations.run("gelu", x, out),
        partial(torch.nn.functional.gelu, x),
        num_bytes=activations.bytes("gelu", rows * columns, 2),
    )


def transpose_case(device: torch.device, rows: int = 32768, columns: int = 8192) -> OperatorCase:
    """Return the case of a matrix transpose."""
    (x,) = transpose.make_inputs(rows, columns, 0, device)
    out = x.new_empty((columns, rows))
    return _case(
        "transpose",
        f"{rows} x {columns} bf16",
        lambda: transpose.run(x, out),
        x.T.contiguous,
        num_bytes=transpose.bytes(rows, columns, 2),
    )


def attention_case(device: torch.device, tokens: int = 16384) -> OperatorCase:
    """Return the case of causal attention of one long prompt, 32 heads of 128 over 8 key-value heads."""
    q, k, v = attention.make_inputs(1, tokens, tokens, 32, 8, 128, 0, device)
    out = torch.empty_like(q)
    q_bhsd, k_bgtd, v_bgtd = (x.transpose(1, 2) for x in (q, k, v))
    return _case(
        "attention",
        f"{tokens} tokens, causal, 32 heads of 128 over 8, bf16",
        lambda: attention.run(q, k, v, True, out),
        lambda: torch.nn.functional.scaled_dot_product_attention(
            q_bhsd, k_bgtd, v_bgtd, is_causal=True, enable_gqa=True
        ),
        flop=attention.flop(1, tokens, tokens, 32, 128, True),
    )


def decode_case(device: torch.device, sequences: int = 64, tokens: int = 8192) -> OperatorCase:
    """Return the case of attention of one token per sequence over a paged cache, 32 heads of 128 over 8, pages of
    16."""
    inputs = decode_attention.make_inputs(32, 8, 128, [tokens] * sequences, 16, 0, device)
    out = torch.empty_like(inputs[0])
    return _case(
        "decode_attention",
        f"{sequences} sequences of {tokens} tokens, 32 heads of 128 over 8, pages of 16, bf16",
        lambda: decode_attention.run(*inputs, out=out),
        num_bytes=decode_attention.bytes(8, 128, sequences * tokens, 2),
    )


def w4a16_case(device: torch.device, m: int = 1, n: int = 57344, k: int = 8192) -> OperatorCase:
    """Return the case of 4-bit weights times few rows; the rate counts weight bytes alone."""
    weight_bytes = w4a16.weight_bytes(n, k)
    sets = [w4a16.make_inputs(m, n, k, seed, device) for seed in range(_copies(weight_bytes))]
    run: Callable[..., object] = w4a16_row.fastest(sets[0][0], n)
    if run is not w4a16.run and torch.cuda.get_device_capability(device) >= _HOPPER:
        run = partial(run, early=True)
    return _case(
        "w4a16",
        f"{m} x {n} x {k}, int4 weights in groups of 128, bf16",
        [partial(run, *inputs) for inputs in sets],
        num_bytes=weight_bytes,
    )


def w8a8_case(device: torch.device, size: int = 8192) -> OperatorCase:
    """Return the case of a matmul of 8-bit integers with a scale per row."""
    inputs = w8a8.make_inputs(size, size, size, 0, device)
    return _case(
        "w8a8",
        f"{size} x {size} x {size}",
        lambda: w8a8.run(*inputs),
        lambda: torch._int_mm(inputs[0], inputs[2].T),
        flop=w8a8.flop(size, size, size),
    )


def grouped_case(
    device: torch.device, rows: int = 16384, experts: int = 8, n: int = 14336, k: int = 4096
) -> OperatorCase:
    """Return the case of a grouped matmul: rows sorted by expert times each expert's weights."""
    a, b, sizes = grouped_gemm.make_inputs(rows, experts, n, k, 0, device)
    out = a.new_empty((rows, n))
    return _case(
        "grouped_gemm",
        f"{rows} rows, {experts} experts of {n} x {k}, bf16",
        lambda: grouped_gemm.run(a, b, sizes, out),
        flop=grouped_gemm.flop(rows, n, k),
    )


def linear_case(device: torch.device, size: int = 8192) -> OperatorCase:
    """Return the case of a linear layer with GELU and residual in its epilogue, against the three operators
    one by one."""
    a, b, bias, residual = linear_gelu_residual.make_inputs(size, size, size, 0, device)
    return _case(
        "linear_gelu_residual",
        f"{size} x {size} x {size}, bf16",
        lambda: linear_gelu_residual.run(a, b, bias, residual),
        lambda: residual + torch.nn.functional.gelu(torch.nn.functional.linear(a, b, bias)),
        flop=linear_gelu_residual.flop(size, size, size),
    )


def scan_case(
    device: torch.device, sequences: int = 8, tokens: int = 4096, channels: int = 5120
) -> OperatorCase:
    """Return the case of a selective scan with 16 states per channel."""
    inputs = selective_scan.make_inputs(sequences, tokens, channels, 16, 0, device)
    twin = selective_scan_registers
    run: Callable[..., object] = twin.run if twin.is_supported(inputs[0]) else selective_scan.run
    return _case(
        "selective_scan",
        f"{sequences} sequences of {tokens} tokens, {channels} channels, 16 states",
        lambda: run(*inputs),
        num_bytes=selective_scan.bytes(sequences, tokens, channels, 16),
    )


CASES: Final[tuple[Callable[[torch.device], OperatorCase], ...]] = (
    rms_norm_case,
    layer_norm_case,
    softmax_case,
    gelu_case,
    swiglu_case,
    transpose_case,
    attention_case,
    decode_case,
    w4a16_case,
    w8a8_case,
    grouped_case,
    linear_case,
    scan_case,
)


def operators(bench: Bench) -> list[Measurement]:
    """Measure every operator with Triton, and with torch's own if it has one."""
    if bench.device.type != "cuda":
        return [bench.skip("operator", "Triton needs a GPU of NVIDIA or AMD")]
    found: list[Measurement] = []
    for make in CASES:
        try:
            found += _measure_case(bench, make)
        except torch.OutOfMemoryError:
            name = make.__name__.removesuffix("_case")
            found.append(bench.skip(f"operator.{name}", "not enough free memory"))
    return found


def _measure_case(bench: Bench, make: Callable[[torch.device], OperatorCase]) -> list[Measurement]:
    """Measure the case in memory that torch still holds, because the driver clears returned memory during the next
    case.

    Raises: torch.OutOfMemoryError: the case does not fit even after all memory was given back.
    """
    try:
        return measure_case(bench, make(bench.device))
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
    return measure_case(bench, make(bench.device))


def measure_case(bench: Bench, case: OperatorCase) -> list[Measurement]:
    """Measure the case with each instrument; calls are replayed in a graph, so launches do not count."""
    found = []
    for instrument, calls in (("triton", case.calls), ("torch", case.vendor)):
        if calls:
            _warm_up(bench, calls)
            bench.rest()
            with Sampler(bench.gpu) as sampler:
                timing = time_graph(calls, bench.device, num_repeats=1, num_samples=10)
            found.append(
                bench.rate(case.check, instrument, case.pattern, timing, case.amount, case.unit, sampler)
            )
    return found


def _warm_up(bench: Bench, calls: Sequence[Call]) -> None:
    """Compile the calls, then run them for some milliseconds before the rest: a kernel's first runs are up to 12 %
    slower."""
    for call in calls:
        call()
    synchronize(bench.device)
    until_s = time.monotonic() + _WARM_UP_S
    while time.monotonic() < until_s:
        for call in calls:
            call()
        synchronize(bench.device)
