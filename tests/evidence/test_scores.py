"""Scores of predictions against measurements, on numbers worked out by hand."""

import pytest

from advisor.evidence.scores import MeasuredPrediction, score, score_metrics
from advisor.simulator.quantity import Quantity


def row(predicted: float | None, measured: float, gpu: str = "a", spread: float = 0.1) -> MeasuredPrediction:
    quantity = (
        None
        if predicted is None
        else Quantity(predicted, predicted * (1 - spread), predicted * (1 + spread), "modelled")
    )
    return MeasuredPrediction("tpot_ms_mean", measured, quantity, {"gpu": gpu})


def test_errors_by_hand() -> None:
    found = score([row(110.0, 100.0), row(80.0, 100.0), row(100.0, 100.0)])
    assert found.n == 3
    assert found.mape == pytest.approx(0.1)
    assert found.median_ape == pytest.approx(0.1)
    assert found.p90_ape == pytest.approx(0.18)
    assert found.bias == pytest.approx(0.0)


def test_coverage_counts_measurements_inside_the_interval() -> None:
    assert score([row(105.0, 100.0), row(150.0, 100.0)]).interval_coverage == pytest.approx(0.5)


def test_a_missing_prediction_counts_as_a_hundred_percent_where_asked() -> None:
    found = score([row(101.0, 100.0), row(None, 100.0), row(None, 100.0)])
    assert (found.n, found.num_missing) == (1, 2)
    assert found.median_ape == pytest.approx(0.01)
    assert found.median_ape_missing_as_1 == 1.0


def test_nothing_predicted_leaves_errors_open() -> None:
    found = score([row(None, 100.0)])
    assert (found.n, found.mape, found.bias, found.interval_coverage) == (0, None, None, None)


def test_no_rows_have_no_score() -> None:
    with pytest.raises(ValueError, match="at least one"):
        score([])


def test_macro_average_weighs_groups_equally() -> None:
    rows = [row(100.0, 100.0, "big")] * 9 + [row(150.0, 100.0, "small")]
    found = score_metrics(rows, ["gpu", "engine"])["tpot_ms_mean"]
    assert found.overall.mape == pytest.approx(0.05)
    assert found.macro["gpu"]["mape"] == pytest.approx(0.25)
    assert set(found.by) == {"gpu"}
    assert found.by["gpu"]["small"].bias == pytest.approx(0.5)
