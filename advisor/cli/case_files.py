"""Files of predictions."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from advisor.evidence.prediction import Prediction
from advisor.render.atomic import write_text


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
