"""Rate and power at the current limit: sustained matmuls, then sustained reads of device memory."""

import time
from typing import Final

import torch

from advisor.catalog.units import GIB
from advisor.kernels.timing import Call, synchronize
from advisor.probes import nvml
from advisor.probes.bench import Bench
from advisor.probes.compute import product_call
from advisor.probes.record import Measurement
from advisor.probes.telemetry import Sampler

_DURATION_S: Final = 2.5
_SETTLE_S: Final = 0.5
_READ_BYTES: Final = int(2 * GIB)


def power_point(bench: Bench) -> list[Measurement]:
    """Measure two rates and the power drawn at each, by the board's energy counter if it has one."""
    limit = nvml.field("nvmlDeviceGetEnforcedPowerLimit", nvml.handle(bench.gpu))
    pattern = f"at {(limit or 0) * nvml.MILLIWATT:.0f} W"
    _, product, flop = product_call(bench)
    x = torch.randn(_READ_BYTES // 4, device=bench.device)
    total = torch.empty((), device=bench.device)
    found = []
    for name, call, amount, unit in (
        ("power.product", product, flop, "flop/s"),
        ("power.read", lambda: torch.sum(x, dim=0, out=total), float(_READ_BYTES), "bytes/s"),
    ):
        rate, power_w = _measure_limited(bench, call, amount)
        found.append(
            Measurement(id=name, gpu=bench.gpu, instrument="torch", pattern=pattern, value=rate, unit=unit)
        )
        found.append(
            Measurement(
                id=f"{name}_draw", gpu=bench.gpu, instrument="nvml", pattern=pattern, value=power_w, unit="W"
            )
        )
    return found


def _measure_limited(bench: Bench, call: Call, amount: float) -> tuple[float, float | None]:
    """Return rate and mean power once the limit has set in."""
    device = nvml.handle(bench.gpu)
    _repeat(bench, call, _SETTLE_S)
    before = nvml.field("nvmlDeviceGetTotalEnergyConsumption", device)
    with Sampler(bench.gpu) as sampler:
        num_calls, elapsed_s = _repeat(bench, call, _DURATION_S)
    after = nvml.field("nvmlDeviceGetTotalEnergyConsumption", device)
    span = sampler.conditions().power_w
    power_w = sum(span) / 2 if span else None
    if before is not None and after is not None and after > before:
        power_w = (after - before) * nvml.MILLIWATT / elapsed_s
    return amount * num_calls / elapsed_s, power_w


def _repeat(bench: Bench, call: Call, duration_s: float) -> tuple[int, float]:
    started_at_s = time.perf_counter()
    num_calls = 0
    while (elapsed_s := time.perf_counter() - started_at_s) < duration_s or not num_calls:
        for _ in range(10):
            call()
        synchronize(bench.device)
        num_calls += 10
    return num_calls, elapsed_s
