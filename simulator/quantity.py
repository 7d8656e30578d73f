"""Predicted quantities: a number with its 80 % interval and its basis, as the simulator returns it."""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, Literal, get_args

Basis = Literal["measured here", "calibrated", "modelled", "assumed"]
BASES: tuple[Basis, ...] = get_args(Basis)
"""Bases of a prediction, most certain first."""
_NORMAL: Final = NormalDist()
Z80: Final = _NORMAL.inv_cdf(0.9)
"""Half of an 80 % interval, in standard deviations."""
_TINY: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Quantity:
    """Value with its 80 % interval, in the unit that the field holding it names."""

    value: float
    low: float
    high: float
    basis: Basis

    def __post_init__(self) -> None:
        # A NaN fails every comparison, so this also refuses values that are not numbers.
        if not self.low <= self.value <= self.high:
            raise ValueError(f"interval [{self.low}, {self.high}] does not hold {self.value}")

    def scale(self, factor: float) -> "Quantity":
        """Return the quantity multiplied by an exactly known number of at least 0, in the product's unit.

        Assumes: the factor has no error of its own, so the relative range stays.
        Raises: ValueError: the factor is negative or no number.
        """
        if not factor >= 0:
            raise ValueError(f"scale factor must be at least 0, not {factor}")
        return Quantity(self.value * factor, self.low * factor, self.high * factor, self.basis)

    def chance_below(self, limit: float) -> float:
        """Return the chance that the real value of a positive quantity is at most a limit.

        Assumes: ln of real over predicted is normal on either side of the prediction, as wide as the interval there.
        """
        room = math.log(limit / self.value)
        end = self.high if room > 0.0 else self.low
        half = abs(math.log(end / self.value)) if end > 0.0 else math.inf
        return _NORMAL.cdf(Z80 * room / max(half, _TINY))

    def __rtruediv__(self, amount: float) -> "Quantity":
        """Return an exactly known positive amount divided by the quantity: a rate from a time; its low end comes from
        the slow end of the time."""
        return Quantity(amount / self.value, amount / self.high, amount / self.low, self.basis)


def weakest(*bases: Basis) -> Basis:
    """Return the basis of a number that depends on several others: the least certain of their bases.

    Raises: ValueError: no basis given.
    Source: definition.
    """
    return max(bases, key=BASES.index)
