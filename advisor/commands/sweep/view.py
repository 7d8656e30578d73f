"""A finished sweep as an answer: how many points, what failed, and the best of them."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.render.answer import Answer, Axis, Block, Chart, Column, Datum, Paragraph, Section, Series, Table
from advisor.render.numbers import MISSING, digits
from advisor.sweep.pareto import Objective, pareto_front, parse_objectives

_MOST_ON_PAGE: Final = 2000
"""Points that a page lists; a CSV or Parquet file has all."""
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
        sections=_sections(table, answered, front, chosen, command),
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
    names = ["id", *varied_inputs(table), *(objective.column for objective in objectives)]
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


def _sections(
    table: Sequence[Mapping[str, Any]],
    answered: Sequence[Mapping[str, Any]],
    front: Sequence[Mapping[str, Any]],
    objectives: Sequence[Objective],
    command: str,
) -> tuple[Section, ...]:
    """Return the parts of a page: the best points, a chart, and every point with its status."""
    found = [Section("Result", _blocks(table, answered, front, objectives, command))]
    drawn = _chart(answered, front, objectives)
    if drawn is not None:
        found.append(Section("Points", (drawn,)))
    names = ["id", "status", *varied_inputs(table), *(objective.column for objective in objectives)]
    header = tuple(
        Column(_header(name, objectives), "left" if name in ("id", "status") else "right", fold=True)
        for name in names
    )
    rows = tuple(tuple(_cell(row.get(name)) for name in names) for row in table[:_MOST_ON_PAGE])
    cut = f", the first {_MOST_ON_PAGE:,} shown" if len(table) > _MOST_ON_PAGE else ""
    return (*found, Section("All points", (Table(header, rows, title=f"{len(table):,} points{cut}"),)))


def varied_inputs(table: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the inputs that differ between points."""
    inputs = [name for name in (table[0] if table else ()) if name.startswith(_INPUT)]
    return [name for name in inputs if len({str(row.get(name)) for row in table}) > 1]


def _chart(
    answered: Sequence[Mapping[str, Any]], front: Sequence[Mapping[str, Any]], objectives: Sequence[Objective]
) -> Chart | None:
    """Return every point by two objectives, or by the input that is varied and one objective; None without numbers."""
    numeric = [name for name in varied_inputs(answered) if all(_is_number(row.get(name)) for row in answered)]
    if len(objectives) > 1:
        across = objectives[0].column
        up = objectives[1].column
    elif objectives and numeric:
        across = numeric[0]
        up = objectives[0].column
    else:
        return None
    best = {row["id"] for row in front}
    named = varied_inputs(answered)
    points = _data((row for row in answered if row["id"] not in best), across, up, named)
    line = _data(sorted(front, key=lambda row: _number(row.get(across))), across, up, named)
    return Chart(
        "scatter",
        f"{_header(up, objectives)} by {_header(across, objectives)}",
        Axis(_header(across, objectives)),
        Axis(_header(up, objectives)),
        (
            Series("Pareto-optimal", line, is_joined=len(objectives) > 1),
            Series("others", points, is_muted=True),
        ),
        "Every point of the study that has an answer; those that no other beats are joined",
        is_in_terminal=False,
    )


def _data(rows: Iterable[Mapping[str, Any]], across: str, up: str, named: Sequence[str]) -> tuple[Datum, ...]:
    """Return rows as points that bear the inputs in which they differ."""
    return tuple(
        Datum(
            _number(row[across]),
            _number(row[up]),
            label=" ".join(_cell(row[name]) for name in named if row.get(name) is not None),
        )
        for row in rows
        if _is_number(row.get(across)) and _is_number(row.get(up))
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _number(value: Any) -> float:
    return float(value) if _is_number(value) else math.inf


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
