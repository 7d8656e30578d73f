"""Static batches, single streams and isolated steps, against the surface that they read."""

from dataclasses import replace

import pytest

from advisor.catalog.errors import AdvisorError
from advisor.evidence.serving.case import ServingCase, parse_case
from advisor.evidence.serving.isolated import single_stream, static_batch, step
from advisor.evidence.serving.prediction import predict_row
from advisor.simulator.deployment import named_deployment
from advisor.simulator.replica_model import ReplicaModel, model_replica
from advisor.simulator.step_cost import decode_iteration_s, prefill_iteration_s


@pytest.fixture(scope="module")
def replica() -> ReplicaModel:
    return model_replica(
        named_deployment("llama-3.1-8b", "h100-sxm"), mean_input_tokens=512, mean_output_tokens=128
    )


def isolated_case(**columns: str) -> ServingCase:
    row = {"model": "llama-3.1-8b", "gpu": "h100-sxm", "engine": "vllm", "isl": "512", "osl": "128"} | columns
    return parse_case(row, row_number=2)


def test_a_static_batch_takes_its_prompts_and_then_one_step_for_each_token(replica: ReplicaModel) -> None:
    columns, sampling = static_batch(isolated_case(load="static_batch", concurrency="8"), replica, 0)
    decode_s = sum(decode_iteration_s(replica.surface, 8, 512 + token) for token in range(1, 128))
    prefill_s = columns["e2e_ms_mean"] / 1e3 - decode_s
    alone_s = prefill_iteration_s(replica.surface, 512)
    assert sampling == {}
    assert alone_s < prefill_s < 8 * alone_s  # 4 096 prompt tokens share iterations
    assert columns["output_tok_s"] == pytest.approx(8 * 128 / (columns["e2e_ms_mean"] / 1e3), rel=1e-6)


def test_a_static_batch_larger_than_the_cache_takes_more_than_one_turn(replica: ReplicaModel) -> None:
    case = isolated_case(load="static_batch", concurrency="64")
    fits, _ = static_batch(case, replica, 0)
    needed = 64 * 640 // replica.policy.block_tokens
    tight = replace(replica, policy=replace(replica.policy, kv_capacity_blocks=needed // 2))
    turns, _ = static_batch(case, tight, 0)
    assert turns["output_tok_s"] < 0.8 * fits["output_tok_s"]


def test_a_single_stream_decodes_slower_behind_a_deep_context(replica: ReplicaModel) -> None:
    shallow, _ = single_stream(isolated_case(load="batch1", isl="0"), replica, 0)
    deep, _ = single_stream(isolated_case(load="batch1", isl="0", context_depth="32768"), replica, 0)
    repeated, _ = single_stream(isolated_case(load="batch1", isl="32768", context_depth="32768"), replica, 0)
    assert set(shallow) == {"decode_tok_s"}
    assert deep["decode_tok_s"] < 0.8 * shallow["decode_tok_s"]
    assert repeated["decode_tok_s"] == pytest.approx(deep["decode_tok_s"])


@pytest.mark.parametrize(
    ("isl", "osl", "metric"), [("0", "128", "decode_tok_s"), ("512", "0", "prefill_tok_s")]
)
def test_a_test_of_prompts_or_of_answers_alone_is_predicted(isl: str, osl: str, metric: str) -> None:
    """Rows have the form of llama-bench: a test of prompts (pp) or of output tokens (tg)."""
    row = {"engine": "llama.cpp", "model": "llama-3.1-8b", "gpu": "rtx-4090", "weight_dtype": "q4_k_m"}
    found = predict_row(row | {"load": "batch1", "concurrency": "1", "isl": isl, "osl": osl}, 2)
    assert found.status == "ok", found.reason
    assert metric in found.metrics


def test_a_server_whose_lengths_are_not_stated_has_room_for_those_that_count() -> None:
    """The model keeps a state for each sequence, so that its cache is planned for requests of a length."""
    row = {"engine": "vllm", "engine_version": "0.23.0", "model": "Qwen/Qwen3.5-27B", "gpu": "rtx-3090"}
    row |= {"tp": "4", "n_gpus": "4", "weight_dtype": "int4", "load": "batch1", "concurrency": "1"}
    unstated = predict_row(row, 2)
    stated = predict_row(row | {"isl": "512", "osl": "128"}, 2)
    assert stated.metrics
    assert unstated.metrics == stated.metrics


def test_rates_of_a_stream_are_the_engines_and_latencies_the_clients(replica: ReplicaModel) -> None:
    columns, _ = single_stream(isolated_case(load="batch1"), replica, 0)
    engine_s = 512 / columns["prefill_tok_s"]
    assert columns["ttft_ms_mean"] / 1e3 == pytest.approx(
        engine_s + replica.policy.api_overhead_ps / 1e12, rel=1e-6
    )
    assert columns["decode_tok_s"] == pytest.approx(1e3 / columns["tpot_ms_mean"], rel=1e-6)


def test_steps_are_the_prompts_of_the_whole_batch_and_one_decode_step(replica: ReplicaModel) -> None:
    one, _ = step(isolated_case(load="step", concurrency="1"), replica, 0)
    many, _ = step(isolated_case(load="step", concurrency="64"), replica, 0)
    assert many["ttft_ms_p50"] > 20 * one["ttft_ms_p50"]
    assert many["tpot_ms_p50"] / 1e3 == pytest.approx(decode_iteration_s(replica.surface, 64, 512 + 64))


@pytest.mark.parametrize("run", [static_batch, step])
def test_a_batch_needs_a_size_and_tokens(run: object, replica: ReplicaModel) -> None:
    assert callable(run)
    with pytest.raises(AdvisorError, match="at least 1"):
        run(isolated_case(load="static_batch"), replica, 0)
    with pytest.raises(AdvisorError, match="at least 1 token"):
        run(isolated_case(load="static_batch", concurrency="4", isl="0"), replica, 0)
