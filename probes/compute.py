"""Matmul rate of the vendor's library and of the compiler's kernels, by number format, data, shape and time."""

import time
from collections.abc import Callable
from functools import partial
from typing import Final

import torch

from advisor.kernels.timing import Call, summarize, synchronize
from advisor.probes.bench import Bench
from advisor.probes.record import Measurement
from advisor.probes.telemetry import Sampler

SIZE: Final = 8192
SMALL_SIZE: Final = 4096
"""Rows and columns of the square matmul on GPUs where 8192 takes too long or does not fit."""
_SHAPES: Final = (
    (512, 4096, 4096),
    (512, 28672, 4096),
    (2048, 8192, 8192),
    (4096, 14336, 4096),
    (16, 8192, 8192),
)
_LARGE_GPU_SMS: Final = 80
_SUSTAINED_QUICK_S: Final = 4.0
_SUSTAINED_FULL_S: Final = 30.0
_CHUNK_CALLS: Final = 50
_WARMUP_CALLS: Final = 3
_BURST_CALLS: Final = 15


def size_of(device: torch.device) -> int:
    """Rows and columns of the square matmul on this device [count]."""
    if device.type != "cuda":
        return SMALL_SIZE
    num_sms = torch.cuda.get_device_properties(device).multi_processor_count
    return SIZE if num_sms >= _LARGE_GPU_SMS else SMALL_SIZE


def _random(bench: Bench, rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator(device=bench.device).manual_seed(bench.seed + rows)
    exact = torch.randn((rows, columns), generator=generator, device=bench.device)
    return (50 * exact).to(dtype) if dtype == torch.int8 else exact.to(dtype)


def vendor_product(dtype_name: str, a: torch.Tensor, b: torch.Tensor) -> Call:
    """Return a call that multiplies [m, k] by [n, k] transposed with the vendor's library in this format."""
    if dtype_name == "fp8":
        one = torch.ones((), device=a.device)
        return lambda: torch._scaled_mm(
            a, b.T, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True
        )
    if dtype_name == "int8":
        return lambda: torch._int_mm(a, b.T)
    return lambda: torch.mm(a, b.T)


_FORMATS: Final[dict[str, torch.dtype]] = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "tf32": torch.float32,
    "fp8": torch.float8_e4m3fn,
    "int8": torch.int8,
    "fp32": torch.float32,
}


def matmul(bench: Bench) -> list[Measurement]:
    """Measure the square matmul by number format with the vendor's library on random data, and on
    zeros for comparison.
    """
    size = size_of(bench.device)
    names = ("bf16", "fp16", "tf32", "fp8") if bench.quick else tuple(_FORMATS)
    found = []
    for name in names:
        try:
            found.append(_vendor_matmul(bench, name, size))
        except (RuntimeError, TypeError, NotImplementedError, AttributeError) as error:
            reason = str(error).partition("\n")[0] or type(error).__name__
            found.append(bench.skip(f"compute.matmul.{name}", reason))
    if bench.is_gpu and isinstance(found[0].value, float):
        zeros = torch.zeros((size, size), dtype=torch.bfloat16, device=bench.device)
        on_zeros = _time_product(bench, "bf16", "zeros", vendor_product("bf16", zeros, zeros), size)
        found += [
            on_zeros.model_copy(update={"id": "compute.matmul_zeros.bf16"}),
            _data_gap(bench, found[0], on_zeros),
        ]
    return found


def _vendor_matmul(bench: Bench, name: str, size: int) -> Measurement:
    if name in ("tf32", "fp8", "int8") and bench.device.type != "cuda":
        return bench.skip(f"compute.matmul.{name}", "the device has no such unit in torch")
    a = _random(bench, size, size, _FORMATS[name])
    b = _random(bench, size, size, _FORMATS[name])
    allowed = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    try:
        return _time_product(bench, name, "random", vendor_product(name, a, b), size)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = allowed


def _time_product(
    bench: Bench, name: str, data: str, call: Call, size: int, instrument: str = "torch"
) -> Measurement:
    """Measure a burst after a rest. The power limit of a loaded board sets in after about 30 ms, in steps that differ
    from run to run; the sustained rate shows its effect."""
    for _ in range(_WARMUP_CALLS):
        call()
    bench.rest()
    return bench.time_rate(
        f"compute.matmul.{name}",
        instrument,
        f"{size} x {size} x {size}, {data} data, burst",
        call,
        2.0 * size**3,
        "flop/s",
        num_warmup=2,
        num_samples=_BURST_CALLS,
    )


def _data_gap(bench: Bench, random: Measurement, zeros: Measurement) -> Measurement:
    rate = float(random.value or 0.0)
    rate_on_zeros = float(zeros.value or 0.0)
    return Measurement(
        id="compute.data_gap",
        gpu=bench.gpu,
        instrument="torch",
        pattern=random.pattern,
        value=rate_on_zeros / rate - 1.0 if rate else None,
        unit="fraction faster on zeros",
        note="13 % on an A100 at its power limit (thonking.ai)",
    )


def triton_matmul(bench: Bench) -> list[Measurement]:
    """Measure the square matmul with the compiler's kernels, as the second instrument."""
    from advisor.kernels import w8a8
    from advisor.kernels.backend import has_fp8

    if bench.device.type != "cuda":
        return [bench.skip("compute.matmul.bf16", "Triton needs a GPU of NVIDIA or AMD")]
    size = size_of(bench.device)
    runs: dict[str, Callable[[], Call]] = {"bf16": lambda: _gemm_call(bench, "bf16", size)}
    if has_fp8(bench.device):
        runs["fp8"] = lambda: _gemm_call(bench, "fp8", size)
    if not bench.quick:
        runs["fp16"] = lambda: _gemm_call(bench, "fp16", size)
        inputs = w8a8.make_inputs(size, size, size, bench.seed, bench.device)
        runs["int8"] = lambda: lambda: w8a8.run(*inputs)
    return [_time_product(bench, name, "random", make(), size, "triton") for name, make in runs.items()]


def _gemm_call(bench: Bench, name: str, size: int) -> Call:
    from advisor.kernels import gemm

    a, b = gemm.make_inputs(size, size, size, bench.seed, bench.device, _FORMATS[name])
    scale = torch.ones(1, device=bench.device) if name == "fp8" else None
    out = gemm.run(a, b, scale)
    return lambda: gemm.run(a, b, scale, out)


def shape_sweep(bench: Bench) -> list[Measurement]:
    """Measure bf16 matmuls of sizes of language models with both instruments, in graphs, so that
    launches do not count.
    """
    from advisor.kernels import gemm

    found = []
    for m, n, k in _SHAPES:
        a, b = gemm.make_inputs(m, n, k, bench.seed, bench.device)
        out = gemm.run(a, b)
        calls: dict[str, Call] = {
            "torch": vendor_product("bf16", a, b),
            "triton": partial(gemm.run, a, b, None, out),
        }
        found += [
            bench.graph_rate(
                "compute.matmul_shape.bf16",
                name,
                f"{m} x {n} x {k}",
                [call] * 8,
                float(gemm.flop(m, n, k)),
                "flop/s",
            )
            for name, call in calls.items()
        ]
    return found


def measure_sustained(bench: Bench) -> list[Measurement]:
    """Measure sustained matmuls: the rate of the first sixteenth and of the second half of the run.

    The format is bf16, or fp16 if the board has no matrix units for bf16.
    """
    duration_s = _SUSTAINED_QUICK_S if bench.quick else _SUSTAINED_FULL_S
    name, call, amount = product_call(bench)
    call()
    synchronize(bench.device)
    times_s: list[float] = []
    started_at_s = time.perf_counter()
    with Sampler(bench.gpu) as sampler:
        while (now_s := time.perf_counter()) - started_at_s < duration_s:
            for _ in range(_CHUNK_CALLS):
                call()
            synchronize(bench.device)
            times_s.append((time.perf_counter() - now_s) / _CHUNK_CALLS)
    size = size_of(bench.device)
    pattern = f"{size} x {size} x {size}, random data, {duration_s:g} s"
    late = summarize(times_s[len(times_s) // 2 :])
    first = summarize(times_s[: max(1, len(times_s) // 16)])
    return [
        bench.rate(f"compute.sustained.{name}", "torch", pattern, late, amount, "flop/s", sampler),
        bench.rate(
            f"compute.burst.{name}", "torch", f"{pattern}, its first sixteenth", first, amount, "flop/s"
        ),
    ]


def product_call(bench: Bench) -> tuple[str, Call, float]:
    """Return the library's square matmul in the board's 16-bit format: its name, a call, and flop per call."""
    size = size_of(bench.device)
    name = _half_format(bench)
    a, b = (_random(bench, size, size, _FORMATS[name]) for _ in range(2))
    return name, vendor_product(name, a, b), 2.0 * size**3


def _half_format(bench: Bench) -> str:
    """Return bf16, or fp16 on NVIDIA boards before Ampere."""
    is_old = (
        bench.device.type == "cuda"
        and torch.version.hip is None
        and torch.cuda.get_device_capability(bench.device) < (8, 0)
    )
    return "fp16" if is_old else "bf16"
