"""GPUStack's presets are replayed at their rate, with requests of one length, and nothing else is taken for them."""

import pytest

from advisor.evidence.serving.case import ServingCase, parse_case
from advisor.evidence.serving.client import lengths_of
from advisor.evidence.serving.gpustack import constant_rate_per_s, profile_of
from advisor.evidence.serving.prediction import predict_row
from advisor.simulator.serving import FixedLengths, LognormalLengths, UniformLengths

ROW = {
    "case_id": "x", "engine": "sglang", "date": "2025-2026", "model": "Qwen/Qwen3-8B", "gpu": "h200-sxm",
    "n_gpus": "1", "tp": "1", "mode": "agg", "weight_dtype": "bf16", "load": "closed", "concurrency": "40",
    "isl": "1012", "osl": "2000", "length_dist": "mean", "num_requests": "200",
}  # fmt: skip


def case(**changes: str) -> ServingCase:
    return parse_case({**ROW, **changes}, 2)


@pytest.mark.parametrize(
    ("isl", "osl", "num_requests", "rate"),
    [("1012", "2000", "200", 1.0), ("32010", "100", "100", 1.0), ("1034", "128", "1000", None)],
)
def test_presets_are_told_by_lengths_and_requests(
    isl: str, osl: str, num_requests: str, rate: float | None
) -> None:
    found = case(isl=isl, osl=osl, num_requests=num_requests)
    assert profile_of(found) is not None
    assert constant_rate_per_s(found) == rate
    assert lengths_of(found) == FixedLengths(int(isl), int(osl))


@pytest.mark.parametrize(
    "changes",
    [
        {"isl": "1000"},
        {"isl": "1100"},
        {"osl": "1999"},
        {"num_requests": "400"},
        {"num_requests": ""},
        {"engine_version": "0.5.9"},
        {"length_dist": "uniform:0.8"},
        {"load": "offline"},
    ],
)
def test_other_runs_are_no_preset(changes: dict[str, str]) -> None:
    assert profile_of(case(**changes)) is None
    assert constant_rate_per_s(case(**changes)) is None


def test_all_requests_in_flight_say_that_the_rate_was_taken_out() -> None:
    assert constant_rate_per_s(case(concurrency="200")) is None


def test_a_rate_starts_without_a_burst() -> None:
    paced, burst = (
        predict_row({**ROW, "concurrency": clients}, 2).metrics["ttft_ms_mean"].value
        for clients in ("40", "200")
    )
    assert paced < burst / 5


def test_a_preset_sends_as_fast_as_its_rate() -> None:
    found = predict_row(
        {**ROW, "isl": "42", "osl": "128", "num_requests": "100", "concurrency": "2"}, 2
    ).metrics
    assert found["req_s"].value == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize(("isl", "kind"), [("32000", LognormalLengths), ("3978", UniformLengths)])
def test_means_of_whole_thousands_are_nominal_lengths(isl: str, kind: type) -> None:
    found = lengths_of(case(isl=isl, osl="510", num_requests="80"))
    assert isinstance(found, kind)
