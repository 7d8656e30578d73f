"""Pools of deployments: their links, their refusals, and published disaggregated runs."""

from dataclasses import replace

import pytest

from advisor.catalog import engines
from advisor.catalog.errors import InfeasibleError
from advisor.evidence.serving.prediction import predict_row
from advisor.simulator.deployment import named_deployment
from advisor.simulator.disaggregation import PoolPlan, kv_link, model_disaggregated

PREFILL = named_deployment("llama-3.1-70b", "h100-sxm", tensor_parallel=4)
DECODE = named_deployment("llama-3.1-70b", "h200-sxm", tensor_parallel=2)
R1 = {
    "engine": "tensorrt-llm",
    "model": "deepseek-ai/DeepSeek-R1",
    "gpu": "gb200",
    "weight_dtype": "nvfp4",
    "mode": "disagg",
    "load": "closed",
    "isl": "1024",
    "osl": "1024",
    "length_dist": "uniform:0.8",
    "stack": "dynamo",
    "date": "2026-02-05",
    "prefill_gpus": "4",
    "num_prefill_workers": "1",
}


def test_unlike_hardware_talks_over_the_network_and_one_rack_over_its_fabric() -> None:
    apart = kv_link(PoolPlan(PREFILL, 1), PoolPlan(DECODE, 1))
    network = PREFILL.accelerator.scale_out_bytes_per_s
    assert network
    assert apart.bytes_per_s == 2 * network  # the side with fewer accelerators sets the rate
    assert apart.bytes_per_token == 80 * 2 * 8 * 128 * 2
    rack = named_deployment("deepseek-r1", "gb200", "sglang", data_parallel=8)
    inside = kv_link(PoolPlan(rack, 1), PoolPlan(rack, 4))
    beyond = kv_link(PoolPlan(rack, 8), PoolPlan(rack, 4))
    assert inside.bytes_per_s > 5 * beyond.bytes_per_s  # 40 accelerators share NVLink, 96 do not
    assert inside.sender_channels == inside.receiver_channels == 8


def test_a_decode_worker_sets_whole_answers_aside_and_a_prefill_worker_only_prompts() -> None:
    model = model_disaggregated(
        PoolPlan(PREFILL, 2),
        PoolPlan(DECODE, 1),
        mean_input_tokens=2000,
        mean_output_tokens=500,
        concurrency=64,
    )
    assert model.decode.policy.reserve_output_fraction == 1.0
    assert model.decode.policy.max_num_seqs >= 64
    assert (model.prefill.num_replicas, model.decode.num_replicas) == (2, 1)


@pytest.mark.parametrize(
    ("prefill", "decode", "words"),
    [
        (PoolPlan(PREFILL, 0), PoolPlan(DECODE, 1), "a decode pool without prefill workers"),
        (PoolPlan(PREFILL, 1), PoolPlan(DECODE, 0), "a prefill pool without decode workers"),
        (
            PoolPlan(PREFILL, 1),
            PoolPlan(replace(DECODE, model=named_deployment("llama-3.1-8b", "h200-sxm").model), 1),
            "decode workers llama-3.1-8b",
        ),
    ],
)
def test_pools_that_serve_nobody_are_refused(prefill: PoolPlan, decode: PoolPlan, words: str) -> None:
    with pytest.raises(InfeasibleError, match=words) as refused:
        model_disaggregated(prefill, decode, mean_input_tokens=100, mean_output_tokens=100)
    assert refused.value.why


@pytest.mark.parametrize(
    ("pools", "measured_tpot_ms"),
    [
        # InferenceX, DeepSeek-R1 on GB200 under Dynamo and TensorRT-LLM
        ({"concurrency": "256", "tp": "8", "ep": "8", "num_decode_workers": "4", "decode_gpus": "32"}, 14.10),
        ({"concurrency": "24", "tp": "8", "ep": "8", "num_decode_workers": "4", "decode_gpus": "32"}, 7.47),
        (
            {
                "concurrency": "563",
                "osl": "8192",
                "dp": "32",
                "ep": "32",
                "num_decode_workers": "1",
                "decode_gpus": "32",
                "num_requests": "1126",
            },
            13.24,
        ),
    ],
)
def test_published_pools(pools: dict[str, str], measured_tpot_ms: float) -> None:
    found = predict_row(R1 | {"prefill_tp": "1", "prefill_dp": "4", "prefill_ep": "4"} | pools, 2)
    assert found.status == "ok", found.reason
    assert found.metrics["tpot_ms_mean"].value == pytest.approx(measured_tpot_ms, rel=0.25)


def test_what_a_row_must_say_of_its_pools() -> None:
    missing = predict_row(
        R1 | {"concurrency": "8", "num_prefill_workers": "", "decode_gpus": "8", "tp": "8"}, 2
    )
    assert (missing.status, "prefill workers" in missing.reason) == ("unsupported", True)
    uneven = predict_row(R1 | {"concurrency": "8", "decode_gpus": "12", "tp": "8"}, 2)
    assert "12 decode accelerators do not divide among workers of 8" in uneven.reason
    other_load = predict_row(R1 | {"load": "poisson", "request_rate": "1", "decode_gpus": "8", "tp": "8"}, 2)
    assert "closed loops" in other_load.reason


def test_clients_beyond_the_slots_of_decode_workers_wait_for_their_first_token() -> None:
    """27 clients on three decode workers of eight slots: three wait about an answer's time over 24 slots."""
    run = R1 | {
        "weight_dtype": "fp8",
        "concurrency": "27",
        "num_requests": "270",
        "prefill_gpus": "8",
        "prefill_tp": "1",
        "prefill_dp": "8",
        "num_decode_workers": "3",
        "tp": "8",
        "ep": "8",
        "decode_gpus": "24",
    }
    known, unknown = (
        predict_row(row, 2).metrics["ttft_ms_mean"].value
        for row in (run, run | {"concurrency": "26", "num_requests": "260"})
    )
    assert 1000 < known < 2000  # 1562 ms were measured
    assert unknown < 400
    stated = predict_row(run | {"max_num_seqs": "64"}, 2).metrics["ttft_ms_mean"].value
    assert stated < 400  # what a row states wins


@pytest.mark.parametrize("tokens", [512, 8192])
def test_a_decode_server_that_is_asked_in_turn_answers_last(tokens: int) -> None:
    """vLLM's decode servers pull the cache after the prompt and compute the first token; others are sent both."""
    links = [
        model_disaggregated(
            PoolPlan(replace(PREFILL, engine=engine), 1),
            PoolPlan(replace(DECODE, engine=engine), 1),
            mean_input_tokens=tokens,
            mean_output_tokens=100,
        ).link
        for engine in map(engines.by_id, ("vllm", "sglang", "tensorrt-llm"))
    ]
    assert [link.num_pieces(tokens) for link in links] == [1, 1, 80]
    in_turn, *others = (link.first_token_s for link in links)
    assert others == [0.0, 0.0]
    assert in_turn > 0.005
