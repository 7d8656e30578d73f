"""A scatter plot in characters: where options stand in cost and latency."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.render.numbers import digits


@dataclass(frozen=True, slots=True)
class Point:
    """A point and the one character that marks it."""

    x: float
    y: float
    mark: str


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis means and the unit in which it is labelled."""

    title: str
    factor: float = 1.0


def scatter(points: Sequence[Point], x: Axis, y: Axis, *, width: int = 72, height: int = 14) -> str:
    """Points on logarithmic axes, lower left is best; of two points in one cell the one that comes first is shown.

    Raises: ValueError: a coordinate is not positive and finite.
    """
    if not all(0 < value < math.inf for point in points for value in (point.x, point.y)):
        raise ValueError("a logarithmic axis shows positive, finite values only")
    if not points:
        return ""
    low_x, high_x = _limits([point.x for point in points])
    low_y, high_y = _limits([point.y for point in points])
    cells = [[" "] * width for _ in range(height)]
    for point in reversed(points):
        column = _cell(point.x, low_x, high_x, width)
        row = height - 1 - _cell(point.y, low_y, high_y, height)
        cells[row][column] = point.mark
    labels = [_label(low_y, high_y, height - 1 - row, height, y.factor) for row in range(height)]
    margin = max(map(len, labels))
    lines = [f"{label:>{margin}} |{''.join(row).rstrip()}" for label, row in zip(labels, cells, strict=True)]
    ends = digits(low_x / x.factor), digits(high_x / x.factor)
    axis = f"{'':>{margin}} +{'-' * width}"
    below = f"{'':>{margin}}  {ends[0]}{x.title:^{width - len(ends[0]) - len(ends[1])}}{ends[1]}"
    return "\n".join([y.title, *lines, axis, below])


def _limits(values: Sequence[float]) -> tuple[float, float]:
    """Ends of an axis with 5 % of its length free on both sides, at least a factor of two apart."""
    low, high = min(values), max(values)
    middle = math.sqrt(low * high)
    half = max(math.log(high / low) / 2.0 * 1.1, math.log(2.0) / 2.0)
    return middle * math.exp(-half), middle * math.exp(half)


def _cell(value: float, low: float, high: float, count: int) -> int:
    return min(count - 1, int(math.log(value / low) / math.log(high / low) * count))


def _label(low: float, high: float, step: int, height: int, factor: float) -> str:
    """Labels on the lowest, middle and highest line."""
    if step not in (0, height // 2, height - 1):
        return ""
    return digits(low * (high / low) ** ((step + 0.5) / height) / factor)
