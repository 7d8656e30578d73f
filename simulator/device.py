"""One accelerator as the operator formulas see it: plain SI numbers, no catalog record in a hot loop."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from advisor.catalog.errors import InfeasibleError
from advisor.catalog.schema import Accelerator
from advisor.simulator.terms import Case, value

_ASSUMABLE: Final = ("num_sms", "clock_hz", "l2_bytes")


@dataclass(frozen=True, slots=True)
class Device:
    """Numbers of one accelerator, SI."""

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
    """Of formats that were calibrated: that peak over the datasheet's, which tells how the unit is built."""
    assumed: tuple[str, ...] = ()
    """Facts that the record lacks, for which those of a mid-size chip stand: what rests on them is assumed."""


def device_of(accelerator: Accelerator) -> Device:
    """The device view of an accelerator record.

    Assumes: where the record has no sourced SM count, clock or L2, those of a mid-size chip; memory, bandwidth and the
    bf16 or fp16 peak must be there.
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
    case = Case(accelerator.id, architecture=accelerator.architecture)
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
        assumed=assumed,
    )
