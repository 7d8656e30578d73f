"""Tables of cases and what was predicted of them: one bad row does not stop the others."""

import csv
import io
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.catalog.errors import InputFileError
from advisor.catalog.files import read_text
from advisor.evidence.scores import JudgedRow, MetricScore
from advisor.render.atomic import write_text
from advisor.simulator.quantity import Quantity


@dataclass(frozen=True, slots=True)
class CaseRow:
    """One data row of a table."""

    number: int
    """Line in the file, the header being 1."""
    cells: Mapping[str, str]
    problem: str = ""
    """Why the row cannot be read; empty if it can."""


@dataclass(frozen=True, slots=True)
class PredictedRow:
    """One row of a predictions file."""

    case_id: str
    status: str
    reason: str
    basis: str
    metrics: Mapping[str, Quantity]


PredictRow = Callable[[CaseRow, int], PredictedRow]
"""From a row that holds nothing but inputs, and a seed, to its prediction."""


@dataclass(frozen=True, slots=True)
class Suite:
    """A kind of table: which columns a prediction may see, what it predicts, by what it is grouped."""

    name: str
    needed: tuple[str, ...]
    inputs: tuple[str, ...]
    metrics: tuple[str, ...]
    groups: tuple[str, ...]
    predict: PredictRow


@dataclass(frozen=True, slots=True)
class Validation:
    """What came out of a table."""

    judged: list[JudgedRow]
    """The table, measured columns and all, with what was predicted."""
    rows: list[PredictedRow]
    problems: list[str]
    """Reasons of rows with status error, with their row number."""
    scores: Mapping[str, MetricScore]
    gpus: frozenset[str] = frozenset()
    """Accelerators that the rows name."""

    @property
    def statuses(self) -> dict[str, int]:
        return dict(Counter(row.status for row in self.rows))

    @property
    def coverage(self) -> float:
        """Share of rows with a prediction."""
        return self.statuses.get("ok", 0) / len(self.rows)


def read_cases(path: Path, needed: Sequence[str]) -> list[CaseRow]:
    """Data rows of a CSV file with a header; a ragged row is kept with its problem.

    Raises: InputFileError: the file is missing, no text or no CSV, lacks a needed column, or has no rows.
    """
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    try:
        header = next(reader, [])
        missing = [name for name in needed if name not in header]
        if missing:
            raise InputFileError(
                f"{path}: row 1 lacks column {', '.join(missing)}",
                fix=f"the header needs {', '.join(needed)}",
            )
        rows = [_case_row(reader.line_num, header, cells) for cells in reader if any(cells)]
    except csv.Error as error:
        raise InputFileError(
            f"{path}: row {reader.line_num} is not CSV", why=str(error), fix="correct its quotes"
        ) from None
    if not rows:
        raise InputFileError(
            f"{path}: holds no cases", why="only a header, or nothing", fix="add rows below it"
        )
    return rows


def _case_row(number: int, header: Sequence[str], cells: Sequence[str]) -> CaseRow:
    named = dict(zip(header, cells, strict=False))
    if len(cells) == len(header):
        return CaseRow(number, named)
    return CaseRow(number, named, f"row {number}: {len(cells)} cells under {len(header)} columns")


def write_predictions(path: Path, rows: Sequence[PredictedRow], metrics: Sequence[str]) -> None:
    """Write case_id, status, reason, basis and, for each metric X, pred_X, low_X and high_X.

    Raises: UnwritableError: the system refused; nothing is left behind.
    """
    names = [f"{part}_{metric}" for metric in metrics for part in ("pred", "low", "high")]
    text = io.StringIO()
    writer = csv.DictWriter(
        text, ["case_id", "status", "reason", "basis", *names], restval="", lineterminator="\n"
    )
    writer.writeheader()
    for row in rows:
        cells: dict[str, object] = {
            "case_id": row.case_id,
            "status": row.status,
            "reason": row.reason,
            "basis": row.basis,
        }
        for metric, quantity in row.metrics.items():
            cells |= {
                f"pred_{metric}": quantity.value,
                f"low_{metric}": quantity.low,
                f"high_{metric}": quantity.high,
            }
        writer.writerow(cells)
    write_text(path, text.getvalue())
