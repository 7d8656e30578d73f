"""A new server's first burst: what compiling in the middle of it adds to a run that was sent at once."""

import pytest

from advisor.catalog.terms import terms_by_name
from advisor.evidence.serving.columns import later
from advisor.evidence.serving.prediction import predict_row

ROW = {
    "case_id": "x",
    "engine": "vllm",
    "engine_version": "0.11.0",
    "gpu": "a100-sxm-80gb",
    "n_gpus": "1",
    "tp": "1",
    "pp": "1",
    "mode": "agg",
    "weight_dtype": "bf16",
    "isl": "217",
    "osl": "200",
    "length_dist": "mean",
}


def test_a_later_beginning_moves_first_tokens_and_stretches_the_run() -> None:
    run = {
        "output_tok_s": 2000.0,
        "req_s": 10.0,
        "ttft_ms_mean": 100.0,
        "tpot_ms_mean": 7.0,
        "e2e_ms_mean": 900.0,
    }
    moved = later(run, 100, 5.0)
    assert moved["req_s"] == pytest.approx(100 / (100 / 10.0 + 5.0))
    assert moved["output_tok_s"] / run["output_tok_s"] == pytest.approx(moved["req_s"] / run["req_s"])
    assert moved["ttft_ms_mean"] == 5100.0
    assert moved["e2e_ms_mean"] == 5900.0
    assert moved["tpot_ms_mean"] == 7.0
    assert later(run, 100, 0.0) == run


def first_tokens_s(**cells: str) -> float:
    return predict_row(ROW | cells, 2).metrics["ttft_ms_mean"].value / 1e3


def test_only_a_burst_to_a_new_server_that_filters_its_tokens_waits() -> None:
    """TensorRT-LLM compiles nothing so late; gpt-oss asks for neither top-k nor top-p; clients in a loop come later."""
    (term,) = terms_by_name()["engine", "first_burst_s"]
    burst = {"load": "offline", "concurrency": "100", "num_requests": "100", "model": "Qwen/Qwen3-14B"}
    others = (
        burst | {"model": "openai/gpt-oss-20b", "weight_dtype": "mxfp4"},
        burst | {"load": "closed"},
        burst | {"engine_version": "0.6.3", "date": "2024-11"},
        burst | {"engine_version": "0.33.0", "date": "2026-11"},
        burst | {"gpu": "ascend-910b", "date": "2025-12"},
        burst | {"gpu": "mi300x"},
    )
    assert first_tokens_s(**burst) > term.value
    assert first_tokens_s(**burst | {"gpu": "h100-sxm"}) > term.value
    assert all(first_tokens_s(**other) < term.value for other in others)
