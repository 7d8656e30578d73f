"""Clocks, power, temperatures and throttling of a GPU under load."""

import threading
from types import TracebackType
from typing import Any, Final, Self

from advisor.probes import amd, nvml
from advisor.probes.record import Conditions

_INTERVAL_S: Final = 0.02


class Sampler:
    """Sampler of a GPU's state in a thread between entering and leaving; it does nothing if no driver reports the
    state."""

    def __init__(self, index: int, interval_s: float = _INTERVAL_S) -> None:
        self._device: Any = nvml.handle(index)
        amd_gpus = amd.devices() if self._device is None else []
        self._amd = amd_gpus[index] if index < len(amd_gpus) else None
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._series: dict[str, list[float]] = {}
        self._reasons: set[str] = set()
        self._num_samples = 0

    def __enter__(self) -> Self:
        if self._device is not None or self._amd is not None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            self._sample()
            if self._stop.wait(self._interval_s):
                return

    def _sample(self) -> None:
        device = self._device
        if self._amd is not None:
            for name, value in amd.readings(self._amd).items():
                self._series.setdefault(name, []).append(value)
            self._num_samples += 1
            return
        readings = {
            "sm_clock": (nvml.field("nvmlDeviceGetClockInfo", device, 1), nvml.MEGAHERTZ),
            "memory_clock": (nvml.field("nvmlDeviceGetClockInfo", device, 2), nvml.MEGAHERTZ),
            "power": (nvml.field("nvmlDeviceGetPowerUsage", device), nvml.MILLIWATT),
            "temperature": (nvml.field("nvmlDeviceGetTemperature", device, 0), 1.0),
            "memory_temperature": (nvml.memory_temperature_c(device), 1.0),
            "pcie_generation": (nvml.field("nvmlDeviceGetCurrPcieLinkGeneration", device), 1.0),
            "pcie_width": (nvml.field("nvmlDeviceGetCurrPcieLinkWidth", device), 1.0),
        }
        for name, (value, unit) in readings.items():
            if value is not None:
                self._series.setdefault(name, []).append(float(value) * unit)
        self._reasons.update(reason for reason in nvml.throttle_reasons(device) if reason != nvml.IDLE)
        self._num_samples += 1

    def conditions(self) -> Conditions:
        """Return the range of every reading so far; the PCIe link is the best seen, because it
        trains down when idle.
        """

        def span(name: str) -> tuple[float, float] | None:
            values = self._series.get(name)
            return (min(values), max(values)) if values else None

        def best(name: str) -> int | None:
            values = self._series.get(name)
            return int(max(values)) if values else None

        return Conditions(
            sm_clock_hz=span("sm_clock"),
            memory_clock_hz=span("memory_clock"),
            power_w=span("power"),
            temperature_c=span("temperature"),
            memory_temperature_c=span("memory_temperature"),
            throttle_reasons=tuple(sorted(self._reasons)),
            pcie_generation=best("pcie_generation"),
            pcie_width=best("pcie_width"),
            num_samples=self._num_samples,
        )
