"""Iterations of a running engine, which no fit has seen, against the step-cost surface."""

import numpy as np
import pytest

from advisor.evidence.serving.engine_iterations import measured_iterations, predicted_iteration_s


@pytest.mark.parametrize(
    ("model", "dtype", "iteration", "median", "worst"),
    [
        ("llama-3.1-8b", "bf16", "decode", 0.03, 0.07),
        ("llama-3.1-8b", "bf16", "prompts", 0.05, 0.11),
        ("llama-3.1-8b", "bf16", "mixed", 0.06, 0.12),
        ("llama-3.1-8b", "fp8", "decode", 0.05, 0.07),
        ("llama-3.1-8b", "fp8", "prompts", 0.06, 0.13),
        ("llama-3.1-8b", "fp8", "mixed", 0.05, 0.12),
        ("qwen3-30b-a3b", "bf16", "decode", 0.04, 0.1),
        ("qwen3-30b-a3b", "bf16", "prompts", 0.03, 0.04),
        ("qwen3-30b-a3b", "bf16", "mixed", 0.05, 0.18),  # one cell of six prompts stands alone
        (
            "qwen3-30b-a3b",
            "fp8",
            "prompts",
            0.12,
            0.24,
        ),  # launches are priced between this host's and another's
        ("qwen3-30b-a3b", "fp8", "mixed", 0.08, 0.24),
        (
            "gpt-oss-20b",
            "mxfp4",
            "decode",
            0.19,
            0.24,
        ),  # the record of mxfp4 experts on Hopper is of slower kernels
        ("gpt-oss-20b", "mxfp4", "mixed", 0.05, 0.12),
        ("qwen3-14b", "bf16", "decode", 0.02, 0.13),
        ("qwen3-14b", "bf16", "prompts", 0.055, 0.065),
    ],
)
def test_iterations_of_a_running_engine(
    model: str, dtype: str, iteration: str, median: float, worst: float
) -> None:
    asked = (model, dtype, iteration)
    rows = [row for row in measured_iterations() if (row.model, row.weight_dtype, row.iteration) == asked]
    wrong = np.abs([predicted_iteration_s(row) / row.median_s - 1.0 for row in rows])
    assert len(rows) >= 2
    assert np.median(wrong) < median
    assert wrong.max() < worst


def test_a_prompt_beyond_the_largest_graph_waits_for_its_launches() -> None:
    """512 tokens run captured; 768 and more take as long whatever their number, on a device that is idle before. With
    decodes before them the device works meanwhile."""
    rows = [
        row for row in measured_iterations() if row.weight_dtype == "fp8" and row.model == "qwen3-30b-a3b"
    ]
    alone = {row.new_tokens: row for row in rows if row.iteration == "prompts"}
    for time_s in (lambda row: row.median_s, predicted_iteration_s):
        assert time_s(alone[1024]) > 2.3 * time_s(alone[512])
        assert time_s(alone[2048]) < 1.1 * time_s(alone[1024])
        behind = next(row for row in rows if (row.sequences, row.new_tokens) == (64, 1024))
        assert time_s(behind) < 0.8 * time_s(alone[1024])


def test_the_host_decides_beyond_the_largest_graph() -> None:
    """999 sequences take nearly twice as long as 500: launches and bookkeeping outlast the kernels."""
    inside, beyond = (
        next(
            row
            for row in measured_iterations()
            if row.model == "qwen3-30b-a3b" and row.sequences == count and row.input_tokens == 512
        )
        for count in (500, 999)
    )
    assert beyond.median_s > 1.8 * inside.median_s
    assert predicted_iteration_s(beyond) > 1.6 * predicted_iteration_s(inside)


@pytest.mark.parametrize(("sequences", "low", "high"), [(1, 88, 4150), (16, 112, 4100), (64, 112, 1100)])
def test_triton_decode_grows_with_the_context_as_in_a_running_engine(
    monkeypatch: pytest.MonkeyPatch, sequences: int, low: int, high: int
) -> None:
    """On an H100 the server was told to use Triton, which it chooses itself for no model there."""
    monkeypatch.setattr(
        "advisor.simulator.engine_costs.chosen_kernels", lambda _, **__: {"mla_decode": "sglang-triton"}
    )
    rows = {
        row.context_tokens: row
        for row in measured_iterations()
        if (row.model, row.sequences) == ("glm-4.7-flash", sequences)
    }
    measured_s = rows[high].median_s - rows[low].median_s
    predicted_s = predicted_iteration_s(rows[high]) - predicted_iteration_s(rows[low])
    assert predicted_s == pytest.approx(measured_s, rel=0.1)
