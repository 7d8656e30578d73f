"""Steps of a probe: names, durations, and the functions that measure them.

Functions are named as text and imported by the process that runs them: this module loads neither torch nor Triton.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

Place = Literal["gpu", "host", "group", "power", "apple"]


@dataclass(frozen=True, slots=True)
class ProbeStep:
    """Part of a probe that is measured, reported and resumed as a whole."""

    name: str
    title: str
    function: str
    """Module and function, e.g. "memory:touch"."""
    quick_s: float
    """Expected time in quick mode on an H200 [s], 0 = not part of it; a step that takes ten times
    as long is stopped.
    """
    full_s: float
    place: Place = "gpu"
    is_exclusive: bool = False
    """Whether only one GPU at a time runs the step, because the GPUs share what is measured."""
    is_timed: bool = True
    """Whether the result is a time or a rate, so that no other work may run at the same time."""


STEPS: Final[tuple[ProbeStep, ...]] = (
    ProbeStep("touch", "fill and read back the memory", "memory:touch", 3, 3, is_timed=False),
    ProbeStep("bandwidth", "memory bandwidth", "memory:bandwidth", 3, 4),
    ProbeStep("matmul", "matrix products, vendor library", "compute:matmul", 3, 5),
    ProbeStep("triton_matmul", "matrix products, Triton", "compute:triton_matmul", 3, 5),
    ProbeStep("host_link", "host link", "host_link:host_link", 4, 8, is_exclusive=True),
    ProbeStep("launch", "launch overhead", "launch:launch", 2, 2),
    ProbeStep("sustained", "sustained matrix rate", "compute:measure_sustained", 5, 32),
    ProbeStep("truth", "right results under load", "truth:truth", 2, 10),
    ProbeStep("cache", "cache bandwidth", "memory:cache_curve", 0, 3),
    ProbeStep("latency", "memory latency", "memory:latency", 0, 4),
    ProbeStep("stride", "strided reads", "memory:stride_curve", 0, 2),
    ProbeStep("shapes", "matrix products by shape", "compute:shape_sweep", 0, 4),
    ProbeStep("operators", "operators of language models", "operators:operators", 0, 25),
    ProbeStep("processor", "processor and its memory", "host:processor", 2, 3, place="host"),
    ProbeStep("storage", "storage", "host:storage", 2, 8, place="host"),
    ProbeStep("peer", "copies between GPUs", "peers:peer", 8, 12, place="group"),
    ProbeStep("collective", "collectives", "collective_worker", 15, 40, place="group"),
    ProbeStep("mlx", "memory and matrix products, MLX", "apple:mlx", 8, 12, place="apple"),
    ProbeStep("power", "work per joule at a power limit", "power_point:power_point", 12, 12, place="power"),
)


def plan(quick: bool, place: Place) -> list[ProbeStep]:
    """Return the steps of this mode and place in their order."""
    return [step for step in STEPS if step.place == place and duration_s(step, quick) > 0]


def duration_s(step: ProbeStep, quick: bool) -> float:
    """Expected time of the step [s]."""
    return step.quick_s if quick else step.full_s


def timeout_s(step: ProbeStep, quick: bool) -> float:
    """Time after which the step counts as hung [s]: ten times the expected one, at least a minute."""
    return max(60.0, 10 * duration_s(step, quick))


def remaining_s(steps: Sequence[ProbeStep], quick: bool) -> float:
    """Expected time of the remaining steps [s]."""
    return sum(duration_s(step, quick) for step in steps)
