"""A predicted number with its range and its basis: how a prediction leaves the simulator."""

from dataclasses import dataclass
from typing import Literal, get_args

Basis = Literal["measured here", "calibrated", "modelled", "assumed"]
BASES: tuple[Basis, ...] = get_args(Basis)
"""From the surest to the least sure."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value with its 80 % interval, in the unit that the field holding it names."""

    value: float
    low: float
    high: float
    basis: Basis

    def __post_init__(self) -> None:
        # A NaN fails every comparison, so this also refuses what is not a number.
        if not self.low <= self.value <= self.high:
            raise ValueError(f"interval [{self.low}, {self.high}] does not hold {self.value}")

    def scaled(self, factor: float) -> "Quantity":
        """The quantity times an exactly known number of at least 0, in the product's unit.

        Assumes: the factor has no error of its own, so the relative range stays.
        Raises: ValueError: the factor is negative or no number.
        """
        if not factor >= 0:
            raise ValueError(f"scale factor must be at least 0, not {factor}")
        return Quantity(self.value * factor, self.low * factor, self.high * factor, self.basis)

    def __rtruediv__(self, amount: float) -> "Quantity":
        """An exactly known positive amount over the quantity: a rate from a time, whose low end is the slow one's."""
        return Quantity(amount / self.value, amount / self.high, amount / self.low, self.basis)


def weakest(*bases: Basis) -> Basis:
    """The basis of a number that rests on several: the least sure of them.

    Raises: ValueError: no basis given.
    Source: definition.
    """
    return max(bases, key=BASES.index)
