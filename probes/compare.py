"""Comparison of two probes: quantities that both measured in one way, and their differences."""

from dataclasses import dataclass
from typing import Final

from advisor.probes.document import Probe
from advisor.probes.record import Measurement, Status

ALIKE: Final = 0.03
"""Largest change between two probes that counts as equal. Two probes of one machine agree within 3 % in every median
above 100 µs."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Change of one quantity between two probes."""

    id: str
    gpu: int | None
    instrument: str
    pattern: str
    unit: str
    first: float
    second: float
    first_status: Status
    second_status: Status

    @property
    def change_fraction(self) -> float:
        return self.second / self.first - 1.0 if self.first else 0.0

    @property
    def is_alike(self) -> bool:
        return abs(self.change_fraction) <= ALIKE


def compare(first: Probe, second: Probe) -> list[Difference]:
    """Return every quantity that both probes have, largest change first."""
    others = {_key(m): m for m in second.measurements if isinstance(m.value, float)}
    found = [
        Difference(
            id=m.id,
            gpu=m.gpu,
            instrument=m.instrument,
            pattern=m.pattern,
            unit=m.unit,
            first=m.value,
            second=float(other.value or 0.0),
            first_status=m.status,
            second_status=other.status,
        )
        for m in first.measurements
        if isinstance(m.value, float) and (other := others.get(_key(m))) is not None
    ]
    return sorted(found, key=lambda d: -abs(d.change_fraction))


def _key(m: Measurement) -> tuple[str, int | None, str, str, str]:
    return (m.id, m.gpu, m.instrument, m.pattern, m.unit)
