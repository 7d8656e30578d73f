"""Rows that the published accuracy counts, and its figures, on numbers worked out by hand."""

import pytest

from advisor.evidence.scores import JudgedRow
from advisor.evidence.serving.accuracy import (
    ServingAccuracy,
    copied_cases,
    engine_order,
    has_short_latencies,
    is_core,
    serving_accuracy,
)
from advisor.simulator.quantity import Quantity

CONDITIONS = {
    "tier": "A1",
    "mode": "agg",
    "spec_decode": "none",
    "engine": "vllm",
    "gpu": "h200-sxm",
    "model": "llama-3.1-8b",
    "tp": "1",
    "isl": "1024",
    "osl": "1024",
    "load": "closed",
    "weight_dtype": "bf16",
    "group": "one",
}


def judge_row(measured: float, predicted: float | None, **cells: str) -> JudgedRow:
    """A row whose time per token was measured and, unless None, predicted within 10 %."""
    metrics = {}
    if predicted is not None:
        metrics["tpot_ms_mean"] = Quantity(predicted, predicted * 0.9, predicted * 1.1, "modelled")
    return JudgedRow(CONDITIONS | {"tpot_ms_mean": str(measured)} | cells, metrics)


def accuracy(*rows: JudgedRow) -> ServingAccuracy:
    found = serving_accuracy(rows)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "cells",
    [
        {"tier": "B1"},
        {"tier": ""},
        {"mode": "disagg"},
        {"spec_decode": "mtp"},
        *({name: ""} for name in ("model", "gpu", "tp", "isl", "osl", "load", "weight_dtype")),
    ],
)
def test_a_row_outside_the_core_is_not_counted(cells: dict[str, str]) -> None:
    assert is_core(CONDITIONS)
    assert not is_core(CONDITIONS | cells)
    assert accuracy(judge_row(10, 11), judge_row(10, 50, **cells)).core["tpot_ms_mean"].overall.n == 1


def test_errors_are_medians_with_the_missing_as_a_hundred_percent() -> None:
    found = accuracy(judge_row(10, 10.5), judge_row(10, 8), judge_row(10, None)).core["tpot_ms_mean"].overall
    assert (found.n, found.num_missing) == (2, 1)
    assert found.median_ape_missing_as_1 == pytest.approx(0.2)
    assert found.interval_coverage == pytest.approx(0.5)


def test_the_macro_average_weighs_groups_equally() -> None:
    rows = [judge_row(10, 10) for _ in range(9)] + [judge_row(10, 15, group="another")]
    found = accuracy(*rows).core["tpot_ms_mean"]
    assert found.overall.median_ape_missing_as_1 == 0
    assert found.macro["group"]["median_ape_missing_as_1"] == pytest.approx(0.25)


def test_rows_are_counted_even_where_only_another_metric_was_measured() -> None:
    rows = (judge_row(10, 12), JudgedRow(CONDITIONS | {"engine": "sglang", "output_tok_s": "100"}, {}))
    found = accuracy(*rows)
    assert found.num_core_rows["engine"] == {"vllm": 1, "sglang": 1}
    assert set(found.core["tpot_ms_mean"].by["engine"]) == {"vllm"}
    assert found.core["output_tok_s"].by["engine"]["sglang"].median_ape_missing_as_1 == 1.0


def test_other_loads_are_scored_apart() -> None:
    found = accuracy(judge_row(10, 11), judge_row(10, 14, tier="D1", mode="disagg"))
    assert found.core["tpot_ms_mean"].overall.n == 1
    assert found.other_loads["D1"]["tpot_ms_mean"].median_ape == pytest.approx(0.4)


def test_a_table_without_tiers_has_no_such_figures() -> None:
    assert serving_accuracy([judge_row(10, 11, tier="")]) is None


def test_the_order_of_engines_is_that_of_matched_pairs() -> None:
    """Right, wrong, called a tie, missing; measured alike and the same engine do not count, nor other conditions."""
    rows = [
        judge_row(10, 10, isl="1"),
        judge_row(20, 15, isl="1", engine="sglang"),
        judge_row(10, 15, isl="2"),
        judge_row(20, 10, isl="2", engine="sglang"),
        judge_row(10, 10, isl="3"),
        judge_row(20, 10.2, isl="3", engine="sglang"),
        judge_row(10, None, isl="4"),
        judge_row(20, 10, isl="4", engine="sglang"),
        judge_row(10, 10, isl="5"),
        judge_row(10.2, 20, isl="5", engine="sglang"),
        judge_row(20, 20, isl="5"),
        judge_row(10, 10, isl="6"),
        judge_row(20, 20, isl="7", engine="sglang"),
    ]
    found = engine_order(rows, "tpot_ms_mean")
    assert (found.num_pairs, found.num_right, found.num_tied, found.num_told) == (5, 1, 2, 3)


def test_figures_that_a_source_prints_for_two_accelerators_count_for_neither() -> None:
    figures = {"source": "a page", "ttft_ms_mean": "5882.75", "tpot_ms_mean": "1246.57", "req_s": "98.67"}
    full = figures | {"output_tok_s": "394.66"}
    rows = [
        CONDITIONS | full | {"case_id": "a", "gpu": "a100-sxm-80gb"},
        CONDITIONS | full | {"case_id": "b", "gpu": "h100-sxm"},
        CONDITIONS | full | {"case_id": "another source", "gpu": "h200-sxm", "source": "another page"},
        CONDITIONS | full | {"case_id": "other figures", "output_tok_s": "394.67"},
        CONDITIONS | figures | {"case_id": "c", "gpu": "a100-sxm-80gb"},
        CONDITIONS | figures | {"case_id": "d", "gpu": "h100-sxm"},
    ]
    assert copied_cases(rows) == {"a", "b"}
    assert serving_accuracy([JudgedRow(row, {}) for row in rows[:2]]) is None
    assert accuracy(*(JudgedRow(row, {}) for row in rows)).num_core_rows["tier"] == {"A1": 4}


@pytest.mark.parametrize(
    ("cells", "short"),
    [
        ({}, False),
        ({"tpot_ms_mean": "0.1"}, True),
        ({"tpot_ms_mean": "3.6"}, True),
        ({"tpot_ms_mean": "3.6", "num_requests": "8"}, False),
        ({"tpot_ms_mean": "3.6", "load": "poisson"}, False),
        ({"tpot_ms_mean": "3.6", "output_tok_s": ""}, False),
    ],
)
def test_latencies_that_leave_half_of_the_clients_idle_are_not_those_of_the_run(
    cells: dict[str, str], short: bool
) -> None:
    """At 1 600 tokens/s, 101 tokens in 1 100 ms are 17 requests in flight, and 101 tokens in 460 ms are 7."""
    run = {"concurrency": "16", "osl": "101", "output_tok_s": "1600", "ttft_ms_mean": "100"}
    judged = judge_row(10, 11, **(run | cells))
    assert has_short_latencies(judged.cells) is short
    assert accuracy(judge_row(10, 11), judged).core["tpot_ms_mean"].overall.n == 2 - short
