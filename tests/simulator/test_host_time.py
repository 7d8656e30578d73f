"""Host time that is added to a step where the host prepares the next one ahead, and where it takes turns with the
device."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from advisor.catalog import engines
from advisor.catalog.files import DATA_DIR
from advisor.evidence.serving.recipe import with_states
from advisor.simulator.deployment import Deployment, named_deployment
from advisor.simulator.engine_costs import default_costs, engine_costs
from advisor.simulator.replica_model import EngineSettings, model_replica
from advisor.simulator.serving import ClosedLoop, LognormalLengths, Poisson, Workload, simulate
from advisor.simulator.serving_prediction import predict_serving, slow_host_factors
from advisor.simulator.step_cost import decode_iteration_s


def read_measurements() -> tuple[dict[str, Any], np.ndarray[Any, np.dtype[np.float64]]]:
    path = DATA_DIR / "measured" / "h200-sxm-vllm-host-2026-11-22.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["columns"] == ["sequences", "ahead_s", "in_turns_s"]
    return document, np.array(document["rows"])


def test_steps_prepared_ahead_take_what_is_predicted() -> None:
    document, rows = read_measurements()
    found = model_replica(
        named_deployment(document["model"], document["accelerator"], document["engine"]),
        mean_input_tokens=document["input_tokens"],
        mean_output_tokens=2.0 * (document["context_tokens"] - document["input_tokens"]),
        settings=EngineSettings(version=document["release"]),
    )
    context = float(document["context_tokens"])
    predicted = [decode_iteration_s(found.surface, int(sequences), context) for sequences in rows[:, 0]]
    assert predicted == pytest.approx(rows[:, 1], rel=0.05)


def test_releases_that_take_turns_show_half_of_what_it_cost_on_a_virtual_machine() -> None:
    """1.25 ms and 18 µs a sequence more than ahead, which itself shows the common costs."""
    _, rows = read_measurements()
    sequences = rows[:, 0]
    more_s = rows[:, 2] - rows[:, 1]
    per_sequence_s, step_s = np.polyfit(sequences, more_s, 1)
    assert (step_s, per_sequence_s) == pytest.approx((1.25e-3, 18.0e-6), rel=0.08)
    costs = engine_costs(engines.by_id("vllm"), version="0.13.0")
    assert costs.step_s == pytest.approx(0.5 * (step_s + default_costs().step_s), rel=0.08)
    assert costs.sequence_s == pytest.approx(0.5 * (per_sequence_s + default_costs().sequence_s), rel=0.2)


def test_vllm_takes_and_delivers_tokens_as_fast_as_its_api_server_does() -> None:
    """Delivery is what 196 more tokens of each of 256 outputs cost it; Vultr's servers end at 18,800 a second."""
    path = DATA_DIR / "measured" / "h100-sxm-vllm-front-end-2026-11-23.json"
    rows = {tuple(row[:4]): row[5] for row in json.loads(path.read_text(encoding="utf-8"))["rows"]}
    per_request_s = rows["tokens", 1000, 128, 4] / 1000
    costs = engine_costs(engines.by_id("vllm"))
    assert per_request_s < costs.request_s < rows["text", 1000, 128, 4] / 1000
    long_s, short_s = (
        (rows["chat", number, tokens, 4] - rows["tokens", number, tokens, 4]) / number
        for number, tokens in ((500, 2000), (1000, 128))
    )
    assert costs.prompt_token_s == pytest.approx(0.75 * (long_s - short_s) / (2000 - 128), rel=0.05)
    per_token_s = (rows["tokens", 256, 128, 200] - 256 * per_request_s) / (256 * 200)
    assert costs.delivery_s == pytest.approx(per_token_s, rel=0.05)
    assert costs.delivery_s == pytest.approx(1 / 18_800, rel=0.1)


@pytest.mark.parametrize(
    ("version", "ahead"), [("0.11.0", False), ("0.13.0", False), ("0.14.0", True), ("", True)]
)
def test_vllm_prepares_ahead_from_0_14_on(version: str, ahead: bool) -> None:
    """SchedulerConfig.async_scheduling is False in 0.12 and 0.13, and chosen by the engine in 0.14."""
    costs = engine_costs(engines.by_id("vllm"), version=version)
    assert (costs.step_s == default_costs().step_s) == ahead


def test_layers_with_a_state_take_what_vllm_spends_around_them(monkeypatch: pytest.MonkeyPatch) -> None:
    path = DATA_DIR / "measured" / "h200-sxm-vllm-recurrent-2026-11-23.json"
    seen = json.loads(path.read_text(encoding="utf-8"))
    asked = named_deployment(seen["shape_of"], seen["accelerator"], seen["engine"])
    served = dataclasses.replace(asked, model=with_states(asked.model, seen["state_dtype"]))
    rows = np.array(seen["rows"])

    def steps_s(deployment: Deployment) -> list[float]:
        found = model_replica(
            deployment,
            mean_input_tokens=seen["input_tokens"],
            mean_output_tokens=2.0 * (seen["context_tokens"] - seen["input_tokens"]),
            settings=EngineSettings(version=seen["release"]),
        )
        context = float(seen["context_tokens"])
        return [decode_iteration_s(found.surface, int(sequences), context) for sequences in rows[:, 0]]

    assert steps_s(served) == pytest.approx(rows[:, 1], rel=0.06)
    with_layers = steps_s(served)
    monkeypatch.setattr("advisor.simulator.engine_costs.find", lambda *_: None)
    without = steps_s(served)
    assert np.array(with_layers) - np.array(without) == pytest.approx(24 * 30e-6, rel=1e-6)
    assert min(rows[:3, 1] / np.array(without)[:3]) > 1.08


OWN_MIXTURES = (
    ("gpt-oss-20b", "h200-sxm", "mxfp4", "0.24.0", 8.0, 339, (1155, 211), (0.066, 0.0085)),
    ("qwen3-30b-a3b", "h100-sxm", "fp8", "0.26.0", 15.0, 1500, (1155, 211), (0.166, 0.0386)),
    ("qwen3-30b-a3b", "h200-sxm", "fp8", "0.20.2", 6.0, 200, (812, 264), (0.0958, 0.0134)),
    ("qwen3-30b-a3b", "h200-sxm", "fp8", "0.20.2", 12.0, 360, (812, 264), (0.179, 0.0252)),
)
"""Own open loops of mixtures under vLLM: model, accelerator, weights, release, requests per second and in all, tokens
in and out, median TTFT and TPOT [s]. Source: docs/validation.md."""


@pytest.mark.parametrize("run", OWN_MIXTURES, ids=lambda run: f"{run[0]} {run[4]}")
def test_intervals_of_mixtures_hold_runs_on_hosts_of_any_measured_speed(run: tuple[Any, ...]) -> None:
    model, gpu, weights, version, rate, number, (prompt, output), measured_s = run
    replica = model_replica(
        named_deployment(model, gpu, "vllm", weight_dtype=weights),
        mean_input_tokens=prompt,
        mean_output_tokens=output,
        settings=EngineSettings(version=version),
    )
    load = Workload(Poisson(rate), LognormalLengths(prompt, output, sigma=0.8), number)
    result = simulate(replica.surface, replica.policy, load, seed=1)
    found = predict_serving(result, replica)
    for time, seconds in zip((found.ttft_s["p50"], found.tpot_s["p50"]), measured_s, strict=True):
        assert time.low <= seconds <= time.high


@pytest.mark.parametrize(
    ("model", "gpu", "engine", "is_wider"),
    [
        ("qwen3-30b-a3b", "h100-sxm", "vllm", True),
        ("gpt-oss-120b", "b200-sxm", "vllm", False),  # experts in four bits are one operator
        ("llama-3.1-8b", "h100-sxm", "vllm", False),
        ("qwen3-30b-a3b", "h100-sxm", "sglang", False),
    ],
)
def test_a_slow_host_widens_intervals_only_where_it_launches_experts_one_by_one(
    model: str, gpu: str, engine: str, is_wider: bool
) -> None:
    deployment = named_deployment(model, gpu, engine)
    usual, slow = (
        model_replica(
            deployment,
            mean_input_tokens=1024,
            mean_output_tokens=256,
            settings=EngineSettings(slow_host=slow_host),
        )
        for slow_host in (False, True)
    )
    load = Workload(ClosedLoop(8), LognormalLengths(1024, 256, sigma=0.2), 64)
    result, slower = (simulate(each.surface, each.policy, load) for each in (usual, slow))
    first, token = slow_host_factors(result, usual)
    assert (first > 1.0) == (token > 1.0) == (slower.ttft.mean_s > 1.01 * result.ttft.mean_s) == is_wider
    found = predict_serving(result, usual)
    assert found.ttft_s["mean"].value == result.ttft.mean_s
    assert slower.ttft.mean_s <= found.ttft_s["mean"].high
    assert slower.tpot.mean_s <= found.tpot_s["mean"].high
    assert slow_host_factors(slower, slow) == (1.0, 1.0)
