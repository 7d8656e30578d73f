"""Conversion of a probe to the figures that replace catalog values in the simulator."""

from collections.abc import Callable, Sequence
from typing import Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.schema import Calibration
from advisor.catalog.schema.accelerator import PowerPoint
from advisor.probes.document import Probe
from advisor.probes.fabric import fast_groups, pair_rates
from advisor.probes.record import Measurement

_SLOW_LIBRARY: Final = 0.9
"""If the vendor library reaches less than this fraction of Triton's rate, the library limits the measurement, not the
hardware."""


def calibration_of(probe: Probe) -> Calibration:
    """Return the measured figures of the machine; a figure that was not measured stays empty.

    Each rate is the slowest GPU's, which sets the pace of a parallel job. Bandwidth is from the better
    instrument, matmul rates are the library's, which engines call.

    Raises: InputFileError: the probe names no accelerator of the catalog, or measured no figure that is used.
    """
    if not probe.accelerator:
        raise InputFileError(
            "the probe names no accelerator of the catalog",
            why="the board's PCI id is unknown and no --expect was given",
            fix="probe again with --expect ID",
        )
    groups = [m for m in probe.measurements if m.id.startswith("collective.")]
    largest = max((_num_ranks(m) for m in groups), default=0)
    groups = [m for m in groups if _num_ranks(m) == largest]
    pairs = pair_rates(probe.measurements)
    found = Calibration(
        accelerator=probe.accelerator,
        num_accelerators=max(1, len(probe.machine.gpus)),
        measured_on=probe.measured_on,
        driver=probe.machine.driver,
        tool_version=probe.tool_version,
        bandwidth_bytes_per_s=slowest_gpu(probe.measurements, "memory.read"),
        matmul_flop_per_s={
            name: rate
            for name in ("bf16", "fp16", "tf32", "fp32", "fp8", "int8")
            if (rate := _product_rate(probe.measurements, f"compute.matmul.{name}")) is not None
        },
        sustained_flop_per_s={
            name: rate
            for name in ("bf16", "fp16")
            if (rate := slowest_gpu(probe.measurements, f"compute.sustained.{name}")) is not None
        },
        launch_s=_best(probe.measurements, "launch.graph_interval", min),
        collective_bus_bytes_per_s={
            m.id.split(".")[1]: float(m.value)
            for m in groups
            if m.id.count(".") == 1 and isinstance(m.value, float) and m.unit == "bytes/s"
        },
        collective_latency_s={
            m.id.split(".")[1]: float(m.value)
            for m in groups
            if m.id.endswith(".latency") and isinstance(m.value, float)
        },
        pair_bytes_per_s={f"{i}-{j}": rate for (i, j), rate in sorted(pairs.items())},
        fast_groups=fast_groups(pairs),
        power_points=power_points(probe.measurements),
        host_to_device_bytes_per_s=slowest_gpu(probe.measurements, "host_link.h2d"),
    )
    if found.bandwidth_bytes_per_s is None and not found.matmul_flop_per_s:
        raise InputFileError(
            "the probe holds nothing to calibrate with",
            why="neither memory bandwidth nor a matrix rate was measured",
            fix="probe a machine with a GPU and torch",
        )
    return found


def power_points(measurements: Sequence[Measurement]) -> tuple[PowerPoint, ...]:
    """Return rates and power draw by power limit, lowest first; with several GPUs, the slowest rate and the highest
    draw.

    A limit with a missing figure is left out, so that an interrupted sweep gives a shorter curve, not one with holes.
    """
    seen: dict[float, dict[str, list[float]]] = {}
    for m in measurements:
        if (
            m.id.startswith("power.")
            and m.pattern.startswith("at ")
            and isinstance(m.value, float)
            and m.value > 0
        ):
            seen.setdefault(float(m.pattern.split()[1]), {}).setdefault(m.id.partition(".")[2], []).append(
                m.value
            )
    return tuple(
        PowerPoint(
            limit_w=limit_w,
            matmul_flop_per_s=min(found["product"]),
            matmul_w=max(found["product_draw"]),
            bandwidth_bytes_per_s=min(found["read"]),
            bandwidth_w=max(found["read_draw"]),
        )
        for limit_w, found in sorted(seen.items())
        if limit_w > 0 and found.keys() >= {"product", "product_draw", "read", "read_draw"}
    )


def _num_ranks(measurement: Measurement) -> int:
    first = measurement.pattern.split(" ", 1)[0]
    return int(first) if first.isdigit() else 0


def slowest_gpu(measurements: Sequence[Measurement], check: str) -> float | None:
    """Rate of the slowest GPU, each with its best instrument [SI]; None if none was measured."""
    best: dict[int | None, float] = {}
    for m in measurements:
        if m.id == check and isinstance(m.value, float):
            best[m.gpu] = max(best.get(m.gpu, 0.0), m.value)
    return min(best.values()) if best else None


def _product_rate(measurements: Sequence[Measurement], check: str) -> float | None:
    """Matmul rate of the library on the slowest GPU [flop/s]; Triton's rate if the library is missing or slow in the
    format.

    Measured: the two differ by 2 % in bf16 and fp8, by 40 % in int8, where torch does not call the engines' kernel.
    """
    best = slowest_gpu(measurements, check)
    library = slowest_gpu([m for m in measurements if m.instrument == "torch"], check)
    if best is None or library is None or library < _SLOW_LIBRARY * best:
        return best
    return library


def _best(
    measurements: Sequence[Measurement], check: str, choose: Callable[[Sequence[float]], float]
) -> float | None:
    values = [m.value for m in measurements if m.id == check and isinstance(m.value, float)]
    return choose(values) if values else None
