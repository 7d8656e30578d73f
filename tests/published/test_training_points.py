"""Published training runs against predictions: single points of ten sources, each cited in training_points.csv.

Drawn at random from each source, one per model and accelerator, without looking at errors. The frameworks' parameters
were fitted on rows like these, so this is a guard against mistakes, not a measure of accuracy: that is
docs/training-time.md, on sources left out.
"""

import csv
import statistics
from pathlib import Path

import pytest

from advisor.evidence.prediction import Prediction
from advisor.evidence.training.prediction import predict_row

MEDIAN_ERROR = 0.10
WITHIN = 0.25
WITHIN_SHARE = 0.8
FACTOR = 2.0
"""No single point may be further off than so many times."""

_TABLE = Path(__file__).parent / "training_points.csv"
POINTS = list(csv.DictReader(_TABLE.read_text(encoding="utf-8").splitlines()))


@pytest.fixture(scope="module")
def predictions() -> list[Prediction]:
    return [predict_row(row, number) for number, row in enumerate(POINTS, start=2)]


def test_points_are_cited_and_various() -> None:
    assert len(POINTS) == 28
    assert all(row["source"] and row["source_ref"] for row in POINTS)
    assert len({row["source"] for row in POINTS}) == 10
    assert len({row["gpu"] for row in POINTS}) >= 7
    assert {"bf16", "fp16", "fp8", "mxfp8"} <= {row["precision"] for row in POINTS}


def test_every_point_is_predicted(predictions: list[Prediction]) -> None:
    assert {found.case_id: found.reason for found in predictions if found.status != "ok"} == {}


def test_errors_stay_within_their_tolerance(predictions: list[Prediction]) -> None:
    ratios = {
        row["case_id"]: found.metrics["tokens_per_s_per_gpu"].value / float(row["tokens_per_s_per_gpu"])
        for row, found in zip(POINTS, predictions, strict=True)
    }
    errors = [abs(ratio - 1.0) for ratio in ratios.values()]
    assert statistics.median(errors) < MEDIAN_ERROR
    assert sum(error < WITHIN for error in errors) >= WITHIN_SHARE * len(errors)
    assert {name: ratio for name, ratio in ratios.items() if not 1.0 / FACTOR < ratio < FACTOR} == {}


def test_most_points_lie_in_their_intervals(predictions: list[Prediction]) -> None:
    inside = [
        found.metrics["tokens_per_s_per_gpu"].low
        <= float(row["tokens_per_s_per_gpu"])
        <= found.metrics["tokens_per_s_per_gpu"].high
        for row, found in zip(POINTS, predictions, strict=True)
    ]
    assert sum(inside) >= 0.65 * len(inside)
