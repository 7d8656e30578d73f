"""Predict published serving runs of one accelerator with and without a calibration and write the errors as a table.

    python tools/compare_calibration.py ../shared/data/truth/serving.csv h200-sxm-x1 h200-sxm-x8 --write docs/probes.md

Rows: aggregated serving in closed loops without speculation, all conditions published; a missing prediction counts as
100 %. The calibrations are recordings of the catalog or probe files; rows are of their accelerator. `--write` replaces
what stands between the page's marks.
"""

import argparse
import csv
import datetime
import sys
from pathlib import Path

from marked_text import replace_marked

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the checkout need not be installed

from advisor.catalog.schema import Calibration
from advisor.evidence.prediction import Prediction
from advisor.evidence.scores import JudgedRow, comparisons, score_metrics
from advisor.evidence.serving.accuracy import is_core
from advisor.evidence.serving.prediction import predict_row
from advisor.probes.calibrate import calibration_of
from advisor.probes.document import read_probe

METRICS = {
    "TPOT": "tpot_ms_mean",
    "TTFT": "ttft_ms_mean",
    "output throughput": "output_tok_s",
    "decode rate": "decode_tok_s",
}
NAME = "calibration"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("cases", type=Path)
    parser.add_argument("probes", nargs="+")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    calibrations = {name: calibration_of(read_probe(Path(name))) for name in options.probes}
    accelerators = {calibration.accelerator for calibration in calibrations.values()}
    if len(accelerators) != 1:
        parser.error(f"the probes are of several accelerators: {', '.join(sorted(accelerators))}")
    rows = judged_rows(options.cases, accelerators.pop())
    columns: dict[str, Calibration | None] = {"datasheet": None, **calibrations}
    predictions = {name: predict_rows(rows, calibration) for name, calibration in columns.items()}
    text = table(rows, predictions)
    if options.write:
        replace_marked(options.write, NAME, text)
    else:
        print(text)


def judged_rows(path: Path, accelerator: str) -> list[dict[str, str]]:
    """Rows of the accelerator with all conditions."""
    with path.open(encoding="utf-8") as stream:
        return [
            row
            for row in csv.DictReader(stream)
            if row["gpu"] == accelerator and row["load"] == "closed" and is_core(row)
        ]


def predict_rows(rows: list[dict[str, str]], calibration: Calibration | None) -> list[Prediction]:
    """Every row predicted from its conditions alone."""
    hidden = (*METRICS.values(), "notes", "source", "source_ref")
    return [
        predict_row({k: v for k, v in row.items() if k not in hidden}, number, calibration=calibration)
        for number, row in enumerate(rows, 2)
    ]


def table(rows: list[dict[str, str]], predictions: dict[str, list[Prediction]]) -> str:
    """Median error over rows, its mean over groups, and the median of predicted ÷ measured, by metric."""
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    lines = [
        f"{len(rows)} published runs, predicted on {today}. Per cell: median error, mean over groups of their median "
        "errors, median of predicted over measured.",
        "",
        "| metric | rows | " + " | ".join(predictions) + " |",
        "| --- | ---: |" + " ---: |" * len(predictions),
    ]
    for label, column in METRICS.items():
        measured = [row[column] for row in rows]
        if any(measured):
            cells = [cell(rows, found, column) for found in predictions.values()]
            lines.append(f"| {label} | {sum(map(bool, measured))} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cell(rows: list[dict[str, str]], predictions: list[Prediction], column: str) -> str:
    judged = [JudgedRow(row, found.metrics) for row, found in zip(rows, predictions, strict=True)]
    found = score_metrics(comparisons(judged, column), ("group",))[column]
    whole = found.overall.median_ape_missing_as_1
    macro = found.macro["group"]["median_ape_missing_as_1"]
    return f"{100 * whole:.1f} %, {100 * macro:.1f} %, × {1.0 + (found.overall.bias or 0.0):.2f}"


if __name__ == "__main__":
    main()
