"""How much each assumption moves the answer: one at a time from its low to its high end."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Evaluate = Callable[[Mapping[str, float]], float]
"""Function that returns the requested figure from the values of all parameters."""

_NOTHING = 1e-9


@dataclass(frozen=True, slots=True)
class SensitivityInput:
    """One input with the range in which it may lie."""

    name: str
    value: float
    low: float
    high: float
    unit: str
    source: str


@dataclass(frozen=True, slots=True)
class Swing:
    """The change of the figure when one parameter goes to its ends."""

    parameter: str
    unit: str
    value: float
    low: float
    high: float
    base_usd_per_million: float
    usd_per_million_at_low: float
    usd_per_million_at_high: float
    source: str

    @property
    def swing(self) -> float:
        return abs(self.usd_per_million_at_high - self.usd_per_million_at_low)


def tornado(evaluate: Evaluate, parameters: tuple[SensitivityInput, ...]) -> tuple[Swing, ...]:
    """The figure at both ends of every parameter that moves it, the others staying, widest swing first.

    Source: one-at-a-time sensitivity analysis.
    """
    base = {parameter.name: parameter.value for parameter in parameters}
    middle = evaluate(base)
    swings = [
        Swing(
            parameter=parameter.name,
            unit=parameter.unit,
            value=parameter.value,
            low=parameter.low,
            high=parameter.high,
            base_usd_per_million=middle,
            usd_per_million_at_low=evaluate(base | {parameter.name: parameter.low}),
            usd_per_million_at_high=evaluate(base | {parameter.name: parameter.high}),
            source=parameter.source,
        )
        for parameter in parameters
    ]
    moving = [swing for swing in swings if swing.swing > _NOTHING * middle]
    return tuple(sorted(moving, key=lambda swing: -swing.swing))
