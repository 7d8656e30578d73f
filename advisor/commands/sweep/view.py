"""A finished sweep as an answer: how many points, what failed, and the best of them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.render.answer import Answer, Block, Column, Paragraph, Table
from advisor.render.numbers import MISSING, digits
from advisor.sweep.pareto import Objective, pareto_front, parse_objectives

_MOST_SHOWN: Final = 12
_INPUT: Final = "in_"
_NESTED: Final = ("metrics_", "options_")
"""Parts of an answer that hold its numbers: left out of headers for people."""


def sweep_answer(
    table: Sequence[Mapping[str, Any]],
    objectives: Sequence[str],
    *,
    inputs: Mapping[str, Any],
    command: str,
    strict: bool,
) -> Answer:
    """Return all points as records, and those on the Pareto front for people.

    `strict` refuses an objective that names no column; otherwise a finished table is not lost for it, and a warning
    says so.

    Raises: AdvisorError: an objective names no column.
    """
    answered = [row for row in table if row["status"] == "ok"]
    columns = tuple(dict.fromkeys(name for row in answered for name in row))
    try:
        chosen = parse_objectives(objectives if answered else (), columns)
        unknown = ""
    except AdvisorError as error:
        if strict:
            raise
        chosen = ()
        unknown = f"no best points: {error.what}; {error.fix}"
    front = [answered[index] for index in pareto_front(answered, chosen)]
    return Answer(
        result={
            "num_points": len(table),
            "statuses": dict(Counter(str(row["status"]) for row in table)),
            "pareto": {"objectives": chosen, "ids": [row["id"] for row in front]},
            "points": table,
        },
        inputs=inputs,
        blocks=_blocks(table, answered, front, chosen, command),
        records="points",
        # The table is written even so: it holds the reasons.
        exit_code=0 if answered else InfeasibleError.exit_code,
        warnings=(*filter(None, (unknown,)), *_warnings(table)),
    )


def _blocks(
    table: Sequence[Mapping[str, Any]],
    answered: Sequence[Mapping[str, Any]],
    front: Sequence[Mapping[str, Any]],
    objectives: Sequence[Objective],
    command: str,
) -> tuple[Block, ...]:
    what = f"advisor {command} at " if command else ""
    told = f"{len(answered)} with an answer" if answered else "none with an answer"
    headline = Paragraph(f"{what}{len(table)} points, {told}", emphasis=True)
    if not objectives:
        return (headline,)
    varied = [
        name for name in table[0] if name.startswith(_INPUT) and len({row.get(name) for row in table}) > 1
    ]
    names = ["id", *varied, *(objective.column for objective in objectives)]
    shown = front[:_MOST_SHOWN]
    cells = tuple(tuple(_cell(row.get(name)) for name in names) for row in shown)
    title = f"Pareto-optimal points: {len(front)} of {len(table)}" + (
        f", {_MOST_SHOWN} shown" if len(front) > len(shown) else ""
    )
    header = tuple(
        Column(_header(name, objectives), "left" if name == "id" else "right", fold=name != "id")
        for name in names
    )
    return headline, Table(header, cells, title=title)


def _header(name: str, objectives: Sequence[Objective]) -> str:
    direction = next((f"{o.direction} " for o in objectives if o.column == name), "")
    for part in _NESTED if direction else (_INPUT,):
        name = name.removeprefix(part)
    return direction + name


def _cell(value: Any) -> str:
    if value is None:
        return MISSING
    return digits(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _warnings(table: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return one line per kind of failure, the most frequent reason first."""
    reasons = Counter((str(row["status"]), str(row.get("reason"))) for row in table if row["status"] != "ok")
    return tuple(f"{count} points {status}: {reason}" for (status, reason), count in reasons.most_common(5))
