"""Power limits of boards of one's own: which are tried, hardware held to one, and how far its speed is known there."""

from typing import Final

from advisor.catalog.errors import InfeasibleError
from advisor.catalog.schema import Accelerator
from advisor.simulator.device import with_power_cap

NAME: Final = "power-cap"
_FRACTIONS: Final = (0.9, 0.8, 0.7)
"""Fractions of rated power that are tried without a measured sweep. Below 0.7, the cube root is too optimistic: six
RTX 3090s at 57 % keep 60 % of their prompts per second, but it says 83 (llmgarage.ai, tokens per second test bench,
2026-02)."""
_UNMEASURED: Final = (0.95, 1.1)
"""Measured over predicted rate where only the cube root says it. The same RTX 3090s at 71 %: prompts 0.853 and answers
0.974 of the full rate, where it says 0.894; an H200's answers draw 137 to 300 W of 700, so that no limit slows them
(arXiv 2605.11999)."""
_ALIKE: Final = 0.005
"""Difference of two power limits, as a fraction of rated power, below which they count as one: users round them."""


def limits_of(chip: Accelerator, name: str = NAME) -> tuple[float, ...]:
    """Power limits [W] that `power-cap`, or `power-cap:280W`, `power-cap:70%`, stands for, highest first.

    Those of the machine's sweep below its highest; without one shares of rated power that its driver accepts.

    Raises: InfeasibleError: the board takes none, or not this one; with the nearest.
    Source: power_floors of the catalog; own choice of shares.
    """
    rated = chip.tdp_w
    if chip.vendor != "nvidia" or chip.unified_memory or not rated:
        raise InfeasibleError(
            f"no power limit of {chip.id} is known",
            why="limits are set by nvidia-smi, on boards whose rated power is stated",
            fix="--levers auto",
        )
    from advisor.catalog.parts import power_floors

    points = [point.limit_w for point in chip.power_points]
    if points:
        lowest = points[0]
        tried = points[-2::-1]
    else:
        floor = power_floors().get(chip.id)
        share = max(_FRACTIONS[-1], floor.fraction if floor else 0.0)
        lowest = share * rated
        tried = [part * rated for part in _FRACTIONS if part > share] + [share * rated]
    text = name.partition(":")[2]
    if not text:
        return tuple(float(round(watts)) for watts in tried)
    asked = float(text[:-1]) / 100.0 * rated if text.endswith("%") else float(text.removesuffix("W"))
    if not lowest - _ALIKE * rated <= asked < (points[-1] if points else rated):
        whose = "the lowest that was measured" if points else "below it, no measurement says how fast it is"
        raise InfeasibleError(
            f"{asked:.0f} W is no power limit for {chip.id}",
            why=f"it is rated for {rated:g} W; {lowest:.0f} W: {whose}",
            fix=f"{lowest:.0f}W, or a calibration of advisor probe --power-sweep",
        )
    return (float(round(asked)),)


def power_words(limit_w: float) -> tuple[str, ...]:
    """The command that holds all boards of a machine to a limit, which takes the right to it.

    Source: NVIDIA, nvidia-smi manual, --power-limit.
    """
    return "nvidia-smi", f"--power-limit={limit_w:.0f}"


def with_power_limit(chip: Accelerator, limit_w: float) -> Accelerator:
    """The accelerator under a power limit, which is what it draws at most.

    Source: simulator.device.
    """
    return with_power_cap(chip, limit_w).model_copy(update={"tdp_w": limit_w})


def rate_factors(chip: Accelerator) -> tuple[float, float]:
    """Measured over predicted rate under a limit, its 80 % interval; 1 where the limits were measured."""
    return (1.0, 1.0) if chip.power_points else _UNMEASURED
