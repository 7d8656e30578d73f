"""Memory and matmul rates of an Apple GPU by MLX, in addition to torch over Metal. Never run on hardware."""

import importlib
import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any, Final

from advisor.catalog.units import GIB
from advisor.probes.record import Measurement

_ARRAY_BYTES: Final = int(1 * GIB)
_SIZE: Final = 4096
_SAMPLES: Final = {True: 10, False: 30}
_WARM_UP: Final = 3
_FORMATS: Final = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


def mlx(quick: bool) -> list[Measurement]:
    """Measure read and copy of 1 GiB and square matmuls in three formats, as the median of several calls. MLX cannot
    read Metal's events, so each time includes one launch."""
    mx = importlib.import_module("mlx.core")
    return [_measure_calls(mx, quick, *one) for one in _calls(mx)]


def _calls(mx: Any) -> Iterator[tuple[str, str, Callable[[], Any], float, str]]:
    """Yield check, pattern, a call that returns a lazy array, and the amount that one call moves or computes with its
    unit."""
    x = mx.random.normal((_ARRAY_BYTES // 4,), dtype=mx.float32)
    mx.eval(x)
    yield "memory.read", "1 GiB, sum", lambda: mx.sum(x), float(_ARRAY_BYTES), "bytes/s"
    yield "memory.copy", "1 GiB, read plus write", lambda: x + 1.0, 2.0 * _ARRAY_BYTES, "bytes/s"
    for name, kind in _FORMATS.items():
        a, b = (mx.random.normal((_SIZE, _SIZE), dtype=getattr(mx, kind)) for _ in range(2))
        mx.eval(a, b)
        pattern = f"{_SIZE} x {_SIZE} x {_SIZE}, random data, burst"
        yield f"compute.matmul.{name}", pattern, partial(mx.matmul, a, b), 2.0 * _SIZE**3, "flop/s"


def _measure_calls(
    mx: Any, quick: bool, check: str, pattern: str, call: Callable[[], Any], amount: float, unit: str
) -> Measurement:
    times_s = []
    for _ in range(_WARM_UP + _SAMPLES[quick]):
        started_at_s = time.perf_counter()
        mx.eval(call())
        times_s.append(time.perf_counter() - started_at_s)
    rates = sorted(amount / seconds for seconds in times_s[_WARM_UP:])
    return Measurement(
        id=check,
        gpu=0,
        instrument="mlx",
        pattern=pattern,
        value=median(rates),
        p5=rates[len(rates) // 20],
        p95=rates[-1 - len(rates) // 20],
        num_samples=len(rates),
        unit=unit,
    )
