"""Device under test, its telemetry, and conversion of timings into measurements, for all measuring steps."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from advisor.kernels.timing import Call, ColdCache, Timing, synchronize, time_calls, time_graph
from advisor.probes.record import Measurement
from advisor.probes.telemetry import Sampler

_REST_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Bench:
    """Device under test."""

    device: torch.device
    gpu: int
    """Index of the GPU in the report and in the driver."""
    quick: bool
    seed: int = 0

    @property
    def is_gpu(self) -> bool:
        return self.device.type in ("cuda", "mps")

    def free_bytes(self) -> float:
        """Memory that can be allocated now [bytes]."""
        if self.device.type == "cuda":
            return float(torch.cuda.mem_get_info(self.device)[0])
        return float(torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory())

    def rest(self) -> None:
        """Let the board's power recover, so that every burst starts from an equal state."""
        synchronize(self.device)
        time.sleep(_REST_S)

    def time_rate(
        self,
        check: str,
        instrument: str,
        pattern: str,
        call: Call,
        amount: float,
        unit: str,
        *,
        num_warmup: int = 5,
        num_samples: int = 30,
        flush: ColdCache | None = None,
    ) -> Measurement:
        """Measure a rate: `amount` per call over the call's time, sampled with the GPU's state."""
        with Sampler(self.gpu) as sampler:
            timing = time_calls(
                call, self.device, num_warmup=num_warmup, num_samples=num_samples, flush=flush
            )
        return self.rate(check, instrument, pattern, timing, amount, unit, sampler)

    def graph_rate(
        self, check: str, instrument: str, pattern: str, calls: Sequence[Call], amount: float, unit: str
    ) -> Measurement:
        """Measure a rate from calls replayed back to back in one graph; the calls should rotate over several inputs."""
        self.rest()
        with Sampler(self.gpu) as sampler:
            timing = time_graph(calls, self.device, num_samples=10)
        return self.rate(check, instrument, pattern, timing, amount, unit, sampler)

    def rate(
        self,
        check: str,
        instrument: str,
        pattern: str,
        timing: Timing,
        amount: float,
        unit: str,
        sampler: Sampler | None = None,
    ) -> Measurement:
        """Return the measurement of a rate; p5 and p95 are of the rate, so the slow end comes first."""
        found = rate_measurement(check, instrument, pattern, timing, amount, unit)
        conditions = sampler.conditions() if sampler is not None else None
        return found.model_copy(update={"gpu": self.gpu, "conditions": conditions})

    def duration(self, check: str, instrument: str, pattern: str, timing: Timing) -> Measurement:
        """Return the measurement of a time [s]."""
        return time_measurement(check, instrument, pattern, timing).model_copy(update={"gpu": self.gpu})

    def skip(self, check: str, reason: str) -> Measurement:
        """Return the record of a check that was not measured, with the reason."""
        return Measurement(id=check, gpu=self.gpu, status="not_measured", note=reason)


def rate_measurement(
    check: str, instrument: str, pattern: str, timing: Timing, amount: float, unit: str
) -> Measurement:
    """Return the measurement of a rate, `amount` over the time; p5 and p95 are of the rate, so the slow end comes
    first."""
    value, p5, p95 = (amount / seconds for seconds in (timing.median_s, timing.p95_s, timing.p5_s))
    return _build_measurement(check, instrument, pattern, timing, value=value, p5=p5, p95=p95, unit=unit)


def time_measurement(check: str, instrument: str, pattern: str, timing: Timing) -> Measurement:
    """Return the measurement of a time [s]."""
    spread = {"value": timing.median_s, "p5": timing.p5_s, "p95": timing.p95_s}
    return _build_measurement(check, instrument, pattern, timing, unit="s", **spread)


def _build_measurement(
    check: str, instrument: str, pattern: str, timing: Timing, **values: Any
) -> Measurement:
    samples = {"num_samples": timing.num_samples, "variation": timing.variation}
    return Measurement(id=check, instrument=instrument, pattern=pattern, **samples, **values)
