"""Plots of points in characters."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.render.numbers import digits


@dataclass(frozen=True, slots=True)
class PlotPoint:
    """Point, and the one character that marks it."""

    x: float
    y: float
    mark: str


@dataclass(frozen=True, slots=True)
class PlotAxis:
    """Axis of a plot: its meaning, and the unit of its labels."""

    title: str
    factor: float = 1.0
    is_log: bool = True


def scatter(
    points: Sequence[PlotPoint], x: PlotAxis, y: PlotAxis, *, width: int = 72, height: int = 14
) -> str:
    """Return points on two axes, lower left is best; if two points share a cell, the first is shown.

    Raises: ValueError: a coordinate is not finite, or not positive on a logarithmic axis.
    """
    for axis, values in ((x, [p.x for p in points]), (y, [p.y for p in points])):
        if axis.is_log and not all(0 < value < math.inf for value in values):
            raise ValueError("a logarithmic axis shows positive, finite values only")
        if not all(map(math.isfinite, values)):
            raise ValueError("an axis shows finite values only")
    if not points:
        return ""
    across = _AxisScale.of([point.x for point in points], x)
    up = _AxisScale.of([point.y for point in points], y)
    cells = [[" "] * width for _ in range(height)]
    for point in reversed(points):
        cells[height - 1 - up.cell(point.y, height)][across.cell(point.x, width)] = point.mark
    labels = [up.label(height - 1 - row, height, y.factor) for row in range(height)]
    margin = max(map(len, labels))
    lines = [f"{label:>{margin}} |{''.join(row).rstrip()}" for label, row in zip(labels, cells, strict=True)]
    ends = digits(across.low / x.factor), digits(across.high / x.factor)
    axis_line = f"{'':>{margin}} +{'-' * width}"
    below = f"{'':>{margin}}  {ends[0]}{x.title:^{width - len(ends[0]) - len(ends[1])}}{ends[1]}"
    return "\n".join([y.title, *lines, axis_line, below])


@dataclass(frozen=True, slots=True)
class _AxisScale:
    """Scale of an axis: its two ends."""

    low: float
    high: float
    is_log: bool

    @classmethod
    def of(cls, values: Sequence[float], axis: PlotAxis) -> "_AxisScale":
        low = min(values)
        high = max(values)
        if axis.is_log:
            return cls(*_limits(values), is_log=True)
        free = (high - low or abs(high) or 1.0) * 0.05
        # Quantities that cannot be negative keep their zero.
        return cls(0.0 if 0 <= low < high / 2 else low - free, high + free, is_log=False)

    def at(self, part: float) -> float:
        if self.is_log:
            return self.low * math.exp(math.log(self.high / self.low) * part)
        return self.low + (self.high - self.low) * part

    def cell(self, value: float, count: int) -> int:
        if self.is_log:
            part = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return min(count - 1, int(part * count))

    def label(self, step: int, height: int, factor: float) -> str:
        """Return the labels on the lowest, middle and highest line."""
        if step not in (0, height // 2, height - 1):
            return ""
        return digits(self.at((step + 0.5) / height) / factor)


def _limits(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of an axis with 5 % of its length free on both sides, at least a factor of two apart."""
    low = min(values)
    high = max(values)
    middle = math.sqrt(low * high)
    half = max(math.log(high / low) / 2.0 * 1.1, math.log(2.0) / 2.0)
    return middle * math.exp(-half), middle * math.exp(half)
