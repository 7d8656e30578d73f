"""What a power limit does to an accelerator: clocks fall, and with them what it computes and what it can ask for."""

from advisor.catalog.errors import AdvisorError
from advisor.catalog.schema import Accelerator

_CLOCK_EXPONENT = 1.0 / 3.0
"""Power of switching grows with clock times voltage squared, and voltage about with the clock."""


def with_power_cap(accelerator: Accelerator, power_cap_w: float | None) -> Accelerator:
    """The accelerator under a power limit: peaks, clock and bandwidth times (cap / rated power)^(1/3), at most 1.

    Memory keeps its own clock, but cores and caches that run slower ask for less of it.

    Assumes: work at full clocks draws the rated power, decoding too; a rated power that has no source leaves the
    accelerator as it is.
    Raises: AdvisorError: the cap is not positive.
    Error: decoding on RTX 3090s held to 220 W of 350: 4 to 10 % where bandwidth without the factor gave 8 to 25 %.
    Source: dynamic power of CMOS, P = C·V²·f; own simplification.
    """
    if power_cap_w is None or accelerator.tdp_w is None:
        return accelerator
    if not power_cap_w > 0:
        raise AdvisorError(f"a power cap must be positive, not {power_cap_w} W")
    factor = min(1.0, power_cap_w / accelerator.tdp_w) ** _CLOCK_EXPONENT
    peaks = {name: peak * factor for name, peak in accelerator.peak_flop_per_s.items()}
    clock_hz = accelerator.clock_hz and accelerator.clock_hz * factor
    bandwidth = accelerator.bandwidth_bytes_per_s and accelerator.bandwidth_bytes_per_s * factor
    changes = {"peak_flop_per_s": peaks, "clock_hz": clock_hz, "bandwidth_bytes_per_s": bandwidth}
    return accelerator.model_copy(update=changes)
