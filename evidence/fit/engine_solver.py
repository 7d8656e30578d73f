"""Engine parameters as a hierarchy (all engines, an engine, a release), from logarithms of predicted / measured that
are linear in the logarithms of parameters.

The shift of a release is added to that of its engine, and this to that of all engines; priors hold each. How far down a
parameter goes is chosen by campaigns that were left out whole: a level stays only if it improves predictions of runs
that the fit has not seen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from advisor.evidence.fit.base import FloatArray, cauchy

Place = tuple[str, str]
"""Engine, and the first release of its era."""
PRIORS: Mapping[str, tuple[float, float]] = {
    "request_launch_s": (1.1e-3, 0.6),
    "request_s": (0.005, 0.4),
}
"""Parameters that may be fitted: default, and standard deviation of the logarithm around it that experience allows.
`launch_scale` is not among them: published runs ask for more of it than SGLang's own decodes on an H100 show, so the
table of terms holds it by engine and release."""
LEVELS: tuple[tuple[float, float, float], ...] = (
    (1.0, 0.0, 0.0),
    (1.0, 0.3, 0.0),
    (1.0, 0.3, 0.3),
    (1.0, 1.0, 1.0),
)
"""Strengths of (all engines, engine, release) that are tried, in parts of a prior's deviation, the simplest first."""
LEAST_GAIN = 0.015
"""Least gain by which a parameter or a level must lower the loss on left-out campaigns to stay, as a fraction of the
defaults' loss."""
ROBUST_SCALES = {"ttft": 0.25, "tpot": 0.12, "throughput": 0.12}
"""Relative error from which on a point counts as an outlier (Cauchy loss)."""


@dataclass(frozen=True)
class FittedRow:
    """Measured value near the default parameters: log(predicted / measured) and its slopes in their logarithms."""

    campaign: str
    place: Place
    metric: str
    miss: float
    slopes: Mapping[str, float]
    weight: float


Strengths = dict[str, tuple[float, float, float]]
"""Strengths of (all engines, engine, release), by parameter that is fitted."""
Shifts = dict[Place, dict[str, float]]
"""Logarithm of each parameter over its default, by era."""


def solve(lines: Sequence[FittedRow], strengths: Strengths) -> Shifts:
    """Return the shifts that fit the lines best; an era without lines gets those of its engine, and an engine without
    lines those of all. Without a parameter there are none."""
    if not strengths:
        return {}
    names = list(strengths)
    places = sorted({line.place for line in lines})
    owners = [
        [("",), *((engine,) for engine in sorted({place[0] for place in places})), *places] for _ in names
    ]
    columns = [(name, owner) for name, of_name in zip(names, owners, strict=True) for owner in of_name]
    sigma = np.array([PRIORS[name][1] * strengths[name][_level(owner)] for name, owner in columns])
    matrix = np.array([[_slope(line, *column) for column in columns] for line in lines]) * sigma
    scale = np.array([ROBUST_SCALES[line.metric] for line in lines])
    weight, miss = (np.array([getattr(line, name) for line in lines]) for name in ("weight", "miss"))

    def residuals(unknown: FloatArray) -> FloatArray:
        scaled = (miss + matrix @ unknown) / scale
        return np.concatenate([weight * cauchy(scaled), unknown])

    found = least_squares(residuals, np.zeros(len(columns)), max_nfev=40).x * sigma
    logs = dict(zip(columns, found.tolist(), strict=True))
    return {
        place: {name: logs[name, ("",)] + logs[name, (place[0],)] + logs[name, place] for name in names}
        for place in places
    }


def _level(owner: tuple[str, ...]) -> int:
    return 0 if owner == ("",) else len(owner)


def _slope(line: FittedRow, name: str, owner: tuple[str, ...]) -> float:
    is_its = owner in (("",), (line.place[0],), line.place)
    return line.slopes.get(name, 0.0) if is_its else 0.0


def shifted_log_ratio(line: FittedRow, shifts: Shifts) -> float:
    """Logarithm of predicted / measured of a line under these shifts. An era that was not seen is as another of its
    engine, an engine that was not seen as the mean of all."""
    own = of_place(shifts, line.place)
    return line.miss + sum(line.slopes.get(name, 0.0) * value for name, value in own.items())


def of_place(shifts: Shifts, place: Place) -> dict[str, float]:
    """Return the shifts of an era: its own, else the mean of its engine's eras or of all."""
    if place in shifts:
        return shifts[place]
    kin = [each for other, each in shifts.items() if other[0] == place[0]] or list(shifts.values())
    names = {name for each in kin for name in each}
    return {name: float(np.mean([each[name] for each in kin if name in each])) for name in sorted(names)}


def left_out_loss(lines: Sequence[FittedRow], strengths: Strengths) -> float:
    """Robust loss of every campaign under the shifts fitted on the others."""
    total = 0.0
    for campaign in sorted({line.campaign for line in lines}):
        shifts = solve([line for line in lines if line.campaign != campaign], strengths)
        own = [line for line in lines if line.campaign == campaign]
        scaled = np.array([shifted_log_ratio(line, shifts) / ROBUST_SCALES[line.metric] for line in own])
        total += float(np.sum((np.array([line.weight for line in own]) * cauchy(scaled)) ** 2))
    return total


def chosen_levels(lines: Sequence[FittedRow]) -> Strengths:
    """Return the parameters that improve left-out campaigns, each as far down the hierarchy as it does."""
    strengths: Strengths = {}
    loss = left_out_loss(lines, strengths)
    least_gain = LEAST_GAIN * loss
    print(f"defaults: loss on left-out campaigns {loss:.2f}", flush=True)
    for name in PRIORS:
        for levels in LEVELS:
            tried = left_out_loss(lines, strengths | {name: levels})
            keeps = tried < loss - least_gain
            print(f"{name} {levels}: {tried:.2f}{' stays' if keeps else ''}", flush=True)
            if keeps:
                strengths = strengths | {name: levels}
                loss = tried
    return strengths
