"""Tables of cases and what was predicted of them: one bad row does not stop the others."""

import csv
import io
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.catalog.legible import as_cell
from advisor.evidence.prediction import Prediction
from advisor.evidence.scores import JudgedRow, MetricScore
from advisor.evidence.table import CaseRow
from advisor.render.atomic import write_text

PredictRow = Callable[[CaseRow, int], Prediction]
"""Function from a row that holds only inputs, and a seed, to its prediction."""


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
    """The judged rows and scores of a table."""

    judged: list[JudgedRow]
    """The table, measured columns and all, with what was predicted."""
    rows: list[Prediction]
    problems: list[str]
    """Reasons of rows with status error, with their row number."""
    scores: Mapping[str, MetricScore]
    gpus: frozenset[str] = frozenset()
    """Accelerators that the rows name."""
    misspelt: tuple[str, ...] = ()
    """Remarks on columns that are not read and whose names are close to one that is."""

    @property
    def statuses(self) -> dict[str, int]:
        return dict(Counter(row.status for row in self.rows))

    @property
    def left_out(self) -> tuple[str, ...]:
        """Return why rows have no prediction though they can be read, with their numbers, the most common first."""
        reasons = Counter(row.reason for row in self.rows if row.status in ("unsupported", "infeasible"))
        return tuple(f"{count} not predicted: {reason}" for reason, count in reasons.most_common() if reason)

    @property
    def coverage(self) -> float:
        """Return the share of rows with a prediction."""
        return self.statuses.get("ok", 0) / len(self.rows)


def write_predictions(path: Path, rows: Sequence[Prediction], metrics: Sequence[str]) -> None:
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
            "case_id": as_cell(row.case_id),
            "status": row.status,
            "reason": as_cell(row.reason),
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
