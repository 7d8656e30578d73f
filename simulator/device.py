"""Devices: the numbers of one accelerator that operator formulas use (plain SI), and what a power limit leaves of
them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.schema import Accelerator
from advisor.simulator.terms import TermCase, find, value

_ASSUMABLE: Final = ("num_sms", "clock_hz", "l2_bytes")


@dataclass(frozen=True, slots=True)
class Device:
    """Numbers of one accelerator (SI)."""

    id: str
    architecture: str
    num_sms: int
    clock_hz: float
    bandwidth_bytes_per_s: float
    l2_bytes: float
    memory_bytes: float
    peak_flop_per_s: Mapping[str, float]
    """Dense peak by number format (bf16, fp8, ...)."""
    peak_scale: Mapping[str, float] = field(default_factory=dict)
    """Ratio of the calibrated peak to the datasheet's, by calibrated format; it tells how the unit is built."""
    data_fraction: float = 1.0
    """Fraction of the memory's traffic that carries data, not codes for error correction."""
    assumed: tuple[str, ...] = ()
    """Facts that the record lacks and that a usual chip supplies: predictions that depend on them are assumed."""


def device_of(accelerator: Accelerator) -> Device:
    """Return the device view of an accelerator record.

    Assumes: a usual chip's values, of the architecture or else a mid-size one's, if the record has no sourced SM count,
    clock or L2; memory, bandwidth and the bf16 or fp16 peak must be there.
    Raises: InfeasibleError: the record lacks memory, bandwidth or a 16-bit peak.
    Source: own definition; catalog/data/terms.csv.
    """
    peaks = dict(accelerator.peak_flop_per_s)
    if (
        accelerator.memory_bytes is None
        or accelerator.bandwidth_bytes_per_s is None
        or not ("bf16" in peaks or "fp16" in peaks)
    ):
        raise InfeasibleError(
            f"{accelerator.id} cannot be simulated",
            why=accelerator.unranked_reason or "memory, bandwidth or 16-bit peak is not in the catalog",
            fix="choose another accelerator",
        )
    peaks.setdefault("bf16", peaks.get("fp16", 0.0))
    peaks.setdefault("fp16", peaks["bf16"])
    known = {name: getattr(accelerator, name) for name in _ASSUMABLE}
    assumed = tuple(name for name, fact in known.items() if not fact)
    case = TermCase(accelerator.id, architecture=accelerator.architecture)
    facts = {name: fact or value("device", name, case) for name, fact in known.items()}
    return Device(
        id=accelerator.id,
        architecture=accelerator.architecture,
        num_sms=round(facts["num_sms"]),
        clock_hz=facts["clock_hz"],
        bandwidth_bytes_per_s=accelerator.bandwidth_bytes_per_s,
        l2_bytes=facts["l2_bytes"],
        memory_bytes=accelerator.memory_bytes,
        peak_flop_per_s=peaks,
        peak_scale=accelerator.peak_scale,
        data_fraction=accelerator.data_fraction,
        assumed=assumed,
    )


_CLOCK_EXPONENT = 1.0 / 3.0
"""Exponent of clock over power: switching power grows with clock times voltage squared, and voltage about with the
clock."""


@dataclass(frozen=True, slots=True)
class PowerLimit:
    """Work that a board does before it meets its power limit, and the rates that the limit leaves.

    Source: catalog/data/terms.csv; a calibration.
    """

    full_clock_s: float
    """Prefill work that a rested board does before its clock falls [s]."""
    flop_per_s: Mapping[str, float]
    """Rate that matmuls keep without a pause, by the format of the unit [flop/s]: the limit lets this much work through
    at any clock."""
    other_draw: float
    """Fraction of the limit that all other work draws: decodes, attention, experts."""


def power_limit(accelerator: Accelerator) -> PowerLimit | None:
    """Return the rates that the power limit leaves of a board's prefill, as measured on the machine or else on others
    of its kind; None if neither was measured.

    Assumes: a board of the same architecture with a lower rated power keeps as much less as its cube root, one with a
    higher one keeps no more; formats that were not measured on the machine lose what 16 bits lose.
    Source: catalog/data/terms.csv; a calibration.
    """
    case = TermCase(accelerator.id, architecture=accelerator.architecture)
    usual = dict[str, float]()
    for dtype in accelerator.peak_flop_per_s:
        row = find("device", "sustained_flop_per_s", replace(case, dtype=dtype))
        if row is not None:
            reference_w = value("device", "sustained_at_w", case)
            share = min(1.0, (accelerator.tdp_w or reference_w) / reference_w) ** _CLOCK_EXPONENT
            usual[dtype] = share * row.value
    own = accelerator.sustained_flop_per_s
    kept = next((own[name] / usual[name] for name in own if name in usual), 1.0)
    rates = {name: kept * rate for name, rate in usual.items()} | own
    if not rates:
        return None
    return PowerLimit(value("device", "full_clock_s", case), rates, value("device", "other_draw", case))


DECODE_LOAD: Final = (0.75, 0.06)
"""Fractions of bandwidth and of peak rate of decoding: H100, Llama-3.1-8B, 32 to 64 sequences. Own choice among
measured points (catalog/data/measured/h100-sxm-draw-2026-11-26.json)."""


def decode_draw_fraction(accelerator: Accelerator) -> float:
    """Draw of a board that decodes at full clocks over its rated power, at most 1.

    Error: 0.8 of rated power for an H100, which drew 0.67 to 0.98 of it with 1 to 256 sequences.
    Source: catalog/data/terms.csv, terms waiting_fraction, memory_draw and compute_draw.
    """
    case = TermCase(accelerator.id, architecture=accelerator.architecture)
    names = ("waiting_fraction", "memory_draw", "compute_draw")
    waiting, memory, compute = (value("device", name, case) for name in names)
    return min(1.0, waiting + memory * DECODE_LOAD[0] + compute * DECODE_LOAD[1])


def with_power_cap(accelerator: Accelerator, power_cap_w: float | None) -> Accelerator:
    """Return the accelerator under a power limit: peaks, rates without a pause and clock times (cap / draw)^(1/3), at
    most 1, where products draw the rated power; bandwidth by the same law, where reading draws what decoding draws.

    If the machine was measured at several limits, the factor is the fraction of the highest limit's rates that it kept
    there, in proportion between two limits. Memory keeps its own clock, but slower cores and caches ask for less of it.

    Assumes: all that reads draws as much as decoding; a rated power that has no source leaves the accelerator as it is;
    below the lowest limit that was measured nothing changes any more.
    Raises: AdvisorError: the cap is not positive.
    Error: reading on an H200 held to half of its rated power: 0.86 of the bandwidth, 0.92 measured.
    Source: dynamic power of CMOS, P = C·V²·f; own simplification; probes/power.py.
    """
    points = accelerator.power_points
    if power_cap_w is None or (accelerator.tdp_w is None and not points):
        return accelerator
    if not power_cap_w > 0:
        raise AdvisorError(f"a power cap must be positive, not {power_cap_w} W")
    if points:
        limits = [point.limit_w for point in points]
        computing, reading = (
            float(np.interp(power_cap_w, limits, rates)) / rates[-1]
            for rates in (
                [point.matmul_flop_per_s for point in points],
                [point.bandwidth_bytes_per_s for point in points],
            )
        )
    else:
        share = power_cap_w / (accelerator.tdp_w or 0.0)
        computing = min(1.0, share) ** _CLOCK_EXPONENT
        reading = min(1.0, share / decode_draw_fraction(accelerator)) ** _CLOCK_EXPONENT
    peaks = {name: peak * computing for name, peak in accelerator.peak_flop_per_s.items()}
    clock_hz = accelerator.clock_hz and accelerator.clock_hz * computing
    bandwidth = accelerator.bandwidth_bytes_per_s and accelerator.bandwidth_bytes_per_s * reading
    changes = {"peak_flop_per_s": peaks, "clock_hz": clock_hz, "bandwidth_bytes_per_s": bandwidth}
    changes["power_fraction"] = accelerator.power_fraction * computing
    if (limit := power_limit(accelerator)) is not None:
        kept = {name: rate * computing for name, rate in limit.flop_per_s.items()}
        changes["sustained_flop_per_s"] = kept
    return accelerator.model_copy(update=changes)
