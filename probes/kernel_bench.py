"""A process that measures one kernel and others of the same operator: rate, error against fp64, tile shapes.

`advisor kernel` starts it, so that a crash or a compiler's fault ends this process, not the command.
"""

import argparse
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

import torch
from torch.nn import functional

from advisor.kernels import (
    activations,
    attention,
    attention_wgmma,
    gemm,
    layer_norm,
    rms_norm,
    softmax,
    transpose,
)
from advisor.kernels.gemm_tiles import CONFIGS
from advisor.kernels.peers import package_of
from advisor.kernels.timing import time_calls, time_graph, time_once
from advisor.kernels.work import WORKS
from advisor.probes import kernel_peers
from advisor.probes.bench import Bench
from advisor.probes.compute import vendor_product
from advisor.probes.devices import open_device
from advisor.probes.events import claim_stdout, emit
from advisor.probes.kernel_cases import NUM_CHECKED, KernelCase, make_newer_case
from advisor.probes.kernel_peers import Multiply
from advisor.probes.telemetry import Sampler

FORMATS: Final = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp8": torch.float8_e4m3fn}
_NUM_BURSTS: Final = 3
_NUM_SAMPLES: Final = 10
_LONG_S: Final = 1e-3
"""Time above which a kernel is replayed alone [s]."""


def gemm_case(shape: Sequence[int], dtype: str, device: torch.device) -> KernelCase:
    """Return the case of a matmul of rows, columns and depth."""
    m, n, k = shape
    a, b = gemm.make_inputs(m, n, k, 0, device, FORMATS[dtype])
    scale = torch.ones(1, device=device) if dtype == "fp8" else None
    return KernelCase(
        {"advisor": lambda: gemm.run(a, b, scale), "torch": cast(Multiply, vendor_product(dtype, a, b))},
        lambda out: out[:NUM_CHECKED],
        lambda: a[:NUM_CHECKED].double() @ b.double().T,
    )


def attention_case(shape: Sequence[int], dtype: str, device: torch.device) -> KernelCase:
    """Return the case of causal attention of batch, heads, tokens and head size, with as many heads of keys."""
    batch, heads, tokens, size = shape
    q, k, v = attention.make_inputs(batch, tokens, tokens, heads, heads, size, 0, device, FORMATS[dtype])
    turned = [x.transpose(1, 2) for x in (q, k, v)]
    backend = torch.nn.attention.SDPBackend

    def with_backend(kind: Any) -> Multiply:
        def call() -> torch.Tensor:
            with torch.nn.attention.sdpa_kernel(kind):
                out: torch.Tensor = functional.scaled_dot_product_attention(
                    turned[0], turned[1], turned[2], is_causal=True
                )
            return out.transpose(1, 2)

        return call

    def exact() -> torch.Tensor:
        last = slice(tokens - min(NUM_CHECKED, tokens), tokens)
        scores = q[0, last, 0].double() @ k[0, :, 0].double().T / math.sqrt(size)
        places = torch.arange(tokens, device=device)
        scores = scores.masked_fill(places[None, :] > places[last][:, None], -math.inf)
        return torch.softmax(scores, dim=1) @ v[0, :, 0].double()

    calls: dict[str, Multiply] = {
        "advisor": lambda: attention.run(q, k, v),
        "torch": with_backend(backend.FLASH_ATTENTION),
        "cudnn": with_backend(backend.CUDNN_ATTENTION),
    }
    if attention_wgmma.is_supported(q):
        calls["advisor (wgmma)"] = lambda: attention_wgmma.run(q, k, v)
    starts = tokens * torch.arange(batch + 1, dtype=torch.int32, device=device)
    packed = kernel_peers.fa3_attention(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), starts, tokens)
    calls["fa3"] = lambda: packed().view_as(q)
    return KernelCase(calls, lambda out: out[0, -min(NUM_CHECKED, tokens) :, 0], exact)


def row_case(name: str, shape: Sequence[int], dtype: str, device: torch.device) -> KernelCase:
    """Return the case of an operator that passes over rows; columns are those of the result."""
    rows, columns = shape
    kind = FORMATS[dtype]
    some = slice(0, NUM_CHECKED)
    if name == "rms_norm":
        x, residual, weight = rms_norm.make_inputs(rows, columns, 0, device, kind)

        def exact() -> torch.Tensor:
            total = x[some].double() + residual[some].double()
            return functional.rms_norm(total, (columns,), weight.double(), 1e-6)

        calls: dict[str, Multiply] = {
            "advisor": lambda: rms_norm.run(x, residual, weight)[0],
            "torch": lambda: functional.rms_norm(x + residual, (columns,), weight, 1e-6),
            "liger": kernel_peers.liger_rms_norm(x, residual, weight),
        }
        return KernelCase(calls, lambda out: out[some], exact)
    if name == "layer_norm":
        x, weight, bias = layer_norm.make_inputs(rows, columns, 0, device, kind)
        norm = functional.layer_norm
        return KernelCase(
            {
                "advisor": lambda: layer_norm.run(x, weight, bias),
                "torch": lambda: norm(x, (columns,), weight, bias),
                "liger": kernel_peers.liger_layer_norm(x, weight, bias),
            },
            lambda out: out[some],
            lambda: norm(x[some].double(), (columns,), weight.double(), bias.double()),
        )
    return _elementwise_case(name, rows, columns, kind, device)


def _elementwise_case(
    name: str, rows: int, columns: int, kind: torch.dtype, device: torch.device
) -> KernelCase:
    """Return the case of an operator of one array."""
    some = slice(0, NUM_CHECKED)
    (x,) = softmax.make_inputs(rows, 2 * columns if name == "swiglu" else columns, 0, device, kind)

    def swiglu(values: torch.Tensor) -> torch.Tensor:
        gate, up = values.chunk(2, dim=1)
        return functional.silu(gate) * up

    own: dict[str, Multiply] = {
        "softmax": lambda: softmax.run(x),
        "gelu": lambda: activations.run("gelu", x),
        "swiglu": lambda: activations.run("swiglu", x),
        "transpose": lambda: transpose.run(x),
    }
    other: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "softmax": lambda values: torch.softmax(values, dim=1),
        "gelu": functional.gelu,
        "swiglu": swiglu,
        "transpose": lambda values: values.T.contiguous(),
    }
    if name == "transpose":
        return KernelCase(
            {"advisor": own[name], "torch": lambda: other[name](x)},
            lambda out: out[:, some],
            lambda: x[some].double().T,
        )
    calls: dict[str, Multiply] = {"advisor": own[name], "torch": lambda: other[name](x)}
    if name == "softmax":
        calls["liger"] = kernel_peers.liger_softmax(x)
    if name == "swiglu":
        calls["liger"] = kernel_peers.liger_swiglu(x)
    return KernelCase(calls, lambda out: out[some], lambda: other[name](x[some].double()))


def make_case(name: str, shape: Sequence[int], dtype: str, device: torch.device) -> KernelCase:
    """Return the case of a kernel by name."""
    if name == "gemm":
        return gemm_case(shape, dtype, device)
    if name == "attention":
        return attention_case(shape, dtype, device)
    if name in WORKS:
        return make_newer_case(name, shape, FORMATS[dtype], device)
    return row_case(name, shape, dtype, device)


def relative_error(case: KernelCase, call: Multiply) -> float:
    """Root of the mean square deviation from fp64, over that of the right values [ratio]."""
    exact = case.exact()
    deviation = case.part(call()).double() - exact
    return float(deviation.square().mean().sqrt() / exact.square().mean().sqrt())


def measure(name: str, case: KernelCase, bench: Bench) -> dict[str, Any]:
    """Measure one instrument: the median time of bursts from rest, and its error; a refusal is a reason."""
    try:
        call = case.calls[name]
        error = relative_error(case, call)
        times_s = []
        with Sampler(bench.gpu) as sampler:
            for _ in range(_NUM_BURSTS):
                bench.rest()
                times_s.append(_time_burst(case, call, bench.device))
    except ModuleNotFoundError as fault:
        return {
            "instrument": name,
            "reason": f"{fault.name} is not installed: it is in the package {package_of(name)}",
        }
    except (RuntimeError, ValueError, NotImplementedError, ImportError) as fault:
        return {"instrument": name, "reason": str(fault).partition("\n")[0] or type(fault).__name__}
    if not math.isfinite(error):
        return {"instrument": name, "reason": "its result is no number"}
    clocks = sampler.conditions().sm_clock_hz
    seconds = sorted(times_s)[len(times_s) // 2]
    return {"instrument": name, "time_s": seconds, "error": error, "clock_hz": clocks[1] if clocks else None}


def _time_burst(case: KernelCase, call: Multiply, device: torch.device) -> float:
    """Median time of a call within one burst of some tens of milliseconds [s]."""
    if case.can_be_captured:
        # Short kernels are replayed several at a time, so that a launch does not weigh on them.
        is_long = device.type == "cuda" and time_once(call, device) > _LONG_S
        num_repeats = 1 if is_long else case.num_repeats
        return time_graph([call], device, num_repeats=num_repeats, num_samples=_NUM_SAMPLES).median_s
    return time_calls(call, device, num_warmup=2, num_samples=_NUM_SAMPLES).median_s


def sweep_tiles(shape: Sequence[int], dtype: str, bench: Bench) -> list[dict[str, Any]]:
    """Measure the matmul with every tile shape that can divide this product."""
    m, n, k = shape
    case = gemm_case(shape, dtype, bench.device)
    a, b = gemm.make_inputs(m, n, k, 0, bench.device, FORMATS[dtype])
    scale = torch.ones(1, device=bench.device) if dtype == "fp8" else None
    found = []
    for number, config in enumerate(CONFIGS[a.element_size()]):
        if config.pieces == 1:
            call = partial(gemm.run, a, b, scale, None, config)
            one = measure("tiles", replace(case, calls={"tiles": call}), bench)
            found.append(one | {"instrument": f"tiles {number}", "tile": [config.block_m, config.block_n]})
    return found


def main(arguments: list[str] | None = None) -> int:
    """Measure and print each result as a line of JSON."""
    parser = argparse.ArgumentParser(prog="advisor.probes.kernel_bench")
    parser.add_argument("name")
    parser.add_argument("--shape", required=True)
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--against", default="torch")
    parser.add_argument("--sweep", action="store_true")
    options = parser.parse_args(arguments)
    events = claim_stdout()
    shape = [int(size) for size in options.shape.split("x")]
    bench = Bench(open_device(), 0, quick=True)
    case = make_case(options.name, shape, options.dtype, bench.device)
    wanted = [name for name in case.calls if name.startswith("advisor")] + options.against.split(",")
    for name in wanted:
        known = name in case.calls
        reason = {"instrument": name, "reason": "it has no kernel for this operator here"}
        emit(events, measure(name, case, bench) if known else reason)
    for found in sweep_tiles(shape, options.dtype, bench) if options.sweep else ():
        emit(events, found)
    return 0


if __name__ == "__main__":
    os._exit(main())  # all results are written, so nothing need wait for torch to shut down
