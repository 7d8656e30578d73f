"""Pareto front of a table: rows that no other row beats in every objective."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from advisor.catalog.errors import AdvisorError
from advisor.catalog.resolve import near_misses

_SIGNS: Final = {"min": 1.0, "max": -1.0}


@dataclass(frozen=True, slots=True)
class Objective:
    """Objective: a column, and whether low or high is better."""

    column: str
    direction: str
    """Direction of the optimum: min or max."""


def parse_objectives(texts: Sequence[str], columns: Sequence[str]) -> tuple[Objective, ...]:
    """Return the objectives written as `min COLUMN` or `max COLUMN`.

    Raises: AdvisorError: written otherwise, or the results have no such column.
    """
    found = []
    for text in texts:
        direction, _, column = text.strip().partition(" ")
        column = column.strip()
        if direction not in _SIGNS or not column:
            raise AdvisorError(
                f"objective {text!r} is not understood", fix="write min COLUMN or max COLUMN, comma-separated"
            )
        if column not in columns:
            near = near_misses(column, columns, {})
            raise AdvisorError(
                f"the results have no column {column!r}",
                fix=f"write {near[0]}" if near else f"one of {', '.join(columns)}",
                hint=f"did you mean: {', '.join(near)}" if len(near) > 1 else "",
            )
        found.append(Objective(column, direction))
    return tuple(found)


def pareto_front(rows: Sequence[Mapping[str, Any]], objectives: Sequence[Objective]) -> tuple[int, ...]:
    """Return the indices of the rows that no other row beats: at least as good everywhere and better somewhere.

    Rows that lack a number for an objective cannot be judged and stay out. Of equal rows all stay. Sorted by the
    first objective, best first.

    Source: Pareto dominance, definition.
    """
    values = np.array(
        [[_badness(row, objective) for objective in objectives] for row in rows], dtype=np.float64
    )
    if not values.size:
        return ()
    judged = np.flatnonzero(np.isfinite(values).all(axis=1))
    order = judged[np.lexsort(values[judged].T[::-1])]
    front: list[int] = []
    kept = np.empty((0, len(objectives)))
    for index in order:
        candidate = values[index]
        beaten = (kept <= candidate).all(axis=1) & (kept < candidate).any(axis=1)
        if not beaten.any():
            front.append(int(index))
            kept = np.vstack([kept, candidate])
    return tuple(front)


def _badness(row: Mapping[str, Any], objective: Objective) -> float:
    value = row.get(objective.column)
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        return float("nan")
    return _SIGNS[objective.direction] * float(value)
