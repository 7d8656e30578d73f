"""Rows whose machine is somebody's own: lanes that cards share, clients in step."""

from dataclasses import replace
from typing import Any

import pytest

from advisor.catalog import accelerators
from advisor.catalog.errors import AdvisorError
from advisor.catalog.formats.benchmark_result import BenchmarkResult, MeasuredTimes
from advisor.evidence.own_server import compare_server, contradictory_figures, row_of
from advisor.evidence.serving.case import ServingCase, parse_case
from advisor.evidence.serving.client import closed_loop_lengths
from advisor.evidence.serving.deployment import deployment_of, in_own_machine
from advisor.evidence.serving.prediction import predict_row
from advisor.simulator.serving import FixedLengths, LognormalLengths, UniformLengths

ROW = {
    "case_id": "x",
    "engine": "vllm",
    "engine_version": "0.25.0",
    "model": "qwen3-8b",
    "gpu": "rtx-3090",
    "n_gpus": "4",
    "tp": "4",
    "weight_dtype": "int4",
    "load": "closed",
    "concurrency": "16",
    "isl": "512",
    "osl": "128",
    "length_dist": "fixed",
    "power_cap_w": "220",
}


def case(**cells: str) -> ServingCase:
    return parse_case(ROW | cells, 2)


@pytest.mark.parametrize(("num_gpus", "lanes"), [(1, 16), (2, 8), (4, 4), (8, 4)])
def test_desktop_cards_share_sixteen_lanes_and_keep_four(num_gpus: int, lanes: int) -> None:
    assert in_own_machine(accelerators.by_id("rtx-3090"), num_gpus, 220.0).pcie_lanes == lanes


def test_rented_cards_and_those_of_servers_keep_their_lanes() -> None:
    geforce = accelerators.by_id("rtx-3090")
    server = accelerators.by_id("l40s")
    assert in_own_machine(geforce, 4, None) is geforce
    assert in_own_machine(server, 4, 220.0) is server
    few = geforce.model_copy(update={"pcie_lanes": 1})
    assert in_own_machine(few, 2, 220.0).pcie_lanes == 1  # a slot is never wider than its card


def test_a_machine_without_cards_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one accelerator, not 0"):
        in_own_machine(accelerators.by_id("rtx-3090"), 0, 220.0)


def test_prompts_over_four_cards_wait_for_narrow_slots() -> None:
    own, rented = (
        predict_row(ROW | {"load": "batch1", "concurrency": "1", "power_cap_w": cap}, 2)
        for cap in ("350", "")
    )
    assert deployment_of(case(power_cap_w="350")).accelerator.pcie_lanes == 4
    assert own.metrics["prefill_tok_s"].value < 0.6 * rented.metrics["prefill_tok_s"].value


def test_only_the_owners_clients_keep_step_and_only_with_equal_lengths() -> None:
    assert isinstance(closed_loop_lengths(case()), FixedLengths)
    assert isinstance(closed_loop_lengths(case(power_cap_w="")), LognormalLengths)
    assert isinstance(closed_loop_lengths(case(length_dist="uniform:0.8")), UniformLengths)
    with pytest.raises(AdvisorError, match="at least 1 token"):
        closed_loop_lengths(case(isl=""))


def test_rates_of_streams_are_means_over_requests() -> None:
    found = predict_row(ROW | {"concurrency": "1", "num_requests": "4"}, 2).metrics
    assert found["decode_tok_s"].value == pytest.approx(1e3 / found["tpot_ms_mean"].value, rel=1e-3)
    assert found["prefill_tok_s"].value == pytest.approx(512e3 / found["ttft_ms_mean"].value, rel=1e-3)
    many = predict_row(ROW, 2).metrics
    assert many["decode_tok_s"].value < found["decode_tok_s"].value
    assert many["prefill_tok_s"].value >= 0.999 * 512e3 / many["ttft_ms_mean"].value  # quick ones weigh more
    single = predict_row(ROW | {"osl": "1"}, 2).metrics
    assert "decode_tok_s" not in single
    assert "prefill_tok_s" in single


@pytest.mark.parametrize(
    ("output", "requests", "whole_s", "num_found"),
    [
        (500.0, 2.5, 1.7, 0),
        (5000.0, 2.5, 1.7, 1),  # the requests have a tenth of these tokens
        (5000.0, None, 1.7, 1),  # four clients at 7.4 ms a token get 541 at most
        (500.0, 2.5, 0.17, 1),  # 200 tokens at 7.4 ms take 1.5 s
    ],
)
def test_figures_that_cannot_all_be_right_are_told(
    output: float, requests: float | None, whole_s: float, num_found: int
) -> None:
    result = BenchmarkResult(
        tool="x",
        mean_output_tokens=200.0,
        tpot=MeasuredTimes(0.0074),
        e2e=MeasuredTimes(whole_s),
        output_tokens_per_s=output,
        requests_per_s=requests,
    )
    assert len(contradictory_figures(result, 4.0)) == num_found


AGREEING = BenchmarkResult(
    tool="x",
    num_requests=200,
    mean_input_tokens=1024.0,
    mean_output_tokens=256.0,
    ttft=MeasuredTimes(0.12, 0.10),
    tpot=MeasuredTimes(0.0129, 0.0128),
    output_tokens_per_s=1193.5,
)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, ""),
        ({"num_failed": 10}, ""),
        ({"num_failed": 100}, "100 of 300 requests failed"),
        ({"ttft": MeasuredTimes(14.8, 0.0)}, "a median TTFT of 0"),
        ({"mean_output_tokens": 0.0}, "no token was generated"),
        # Times in seconds under names of milliseconds, and a decimal point too few.
        ({"ttft": MeasuredTimes(0.00012), "tpot": MeasuredTimes(1.29e-5)}, "open at once"),
        ({"output_tokens_per_s": 11935.0}, "open at once"),
        # Medians may differ from means; a load of few requests is never full.
        ({"tpot": MeasuredTimes(None, 0.0128), "output_tokens_per_s": 1900.0}, ""),
        ({"num_requests": 16, "output_tokens_per_s": 200.0}, ""),
    ],
)
def test_figures_that_contradict_the_load_are_told(changed: dict[str, Any], said: str) -> None:
    """Little's law: 16 clients have 16 requests open, and a request that succeeded has a token."""
    found = "; ".join(contradictory_figures(replace(AGREEING, **changed), 16.0))
    assert said in found
    assert bool(found) == bool(said)


def test_contradictory_figures_are_named_and_not_judged() -> None:
    given = replace(AGREEING, model="llama-3.1-8b", gpu="h100-sxm", concurrency=16, num_failed=100)
    row, assumed = row_of(given, {})
    compared = compare_server(row, assumed)
    assert "100 of 300 requests failed" in compared.prediction.reason
    assert (compared.figures, compared.causes) == ((), ())
    slow_clock = replace(given, num_failed=None, concurrency=None, request_rate_per_s=2.0, requests_per_s=2.0)
    fast = replace(slow_clock, output_tokens_per_s=512.0, tpot=MeasuredTimes(1e-5), ttft=MeasuredTimes())
    compared = compare_server(*row_of(fast, {}), with_causes=False)
    assert "another unit" in compared.prediction.reason
    assert compared.figures == ()
