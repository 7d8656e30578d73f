"""Laws of closed loops over models, accelerators, engines and releases: rates agree with latencies, and clients that
the cache cannot hold cost no throughput."""

from itertools import pairwise

import pytest

from advisor.simulator.deployment import named_deployment
from advisor.simulator.replica_model import EngineSettings, ReplicaModel, model_replica
from advisor.simulator.serving import ClosedLoop, LognormalLengths, Workload, simulate
from advisor.simulator.serving_prediction import predict_serving

_DEPLOYMENTS = (
    ("llama-3.1-8b", "h100-sxm", "vllm", "0.8.5"),
    ("llama-3.1-8b", "l4", "vllm", ""),
    ("qwen3-30b-a3b", "h200-sxm", "sglang", "0.5.9"),
    ("qwen3-30b-a3b", "mi300x", "vllm", ""),
    ("llama-3.1-8b", "b200-sxm", "tensorrt-llm", ""),
    ("llama-3.1-8b", "r9700", "vllm", "0.13.0"),
)
_TIGHT = (
    ("qwen3-32b", "bf16", "mi300x", "tensorrt-llm", 1, 6000, 300, 0.5),
    ("qwen3-8b", "fp8", "mi355x", "tensorrt-llm", 2, 30000, 1000, 0.02),
    ("llama-3.1-70b", "fp8", "l4", "sglang", 8, 2000, 50, 0.02),
    ("qwen3-8b", "fp8", "l4", "lmdeploy", 2, 1000, 1000, 0.5),
    ("mixtral-8x7b", "fp8", "l4", "vllm", 4, 30000, 1000, 0.2),
)
"""Random deployments whose outputs end in waves, with tokens in and out and the spread of their logarithm."""
_PROMPT_TOKENS = 6000
_OUTPUT_TOKENS = 300
_LOST_FRACTION = 0.1
"""Fraction of throughput that more clients may cost: a batch that evicts computes some prompts twice."""


def replica_of(model: str, gpu: str, engine: str, version: str) -> ReplicaModel:
    return model_replica(
        named_deployment(model, gpu, engine),
        mean_input_tokens=_PROMPT_TOKENS,
        mean_output_tokens=_OUTPUT_TOKENS,
        settings=EngineSettings(version=version),
    )


def load_of(clients: int) -> Workload:
    lengths = LognormalLengths(_PROMPT_TOKENS, _OUTPUT_TOKENS, sigma=0.2)
    return Workload(ClosedLoop(clients), lengths, max(12, 3 * clients))


@pytest.mark.parametrize("deployment", _DEPLOYMENTS, ids=" ".join)
@pytest.mark.parametrize("clients", [1, 8])
def test_the_rate_of_waiting_clients_is_what_their_latencies_allow(
    deployment: tuple[str, str, str, str], clients: int
) -> None:
    """Little's law at each end of the intervals; a rate of its own error would contradict them."""
    replica = replica_of(*deployment)
    result = simulate(replica.surface, replica.policy, load_of(clients))
    found = predict_serving(result, replica, clients_wait=True)
    rate = found.requests_per_s
    whole = found.e2e_s["mean"]
    assert rate.low * whole.high == pytest.approx(rate.value * whole.value)
    assert rate.high * whole.low == pytest.approx(rate.value * whole.value)
    rest = _OUTPUT_TOKENS - 1
    slowest_s = found.ttft_s["mean"].high + rest * found.tpot_s["mean"].high
    fastest_s = found.ttft_s["mean"].low + rest * found.tpot_s["mean"].low
    drawn = rate.value * whole.value / clients  # clients that wait for the last requests, and drawn lengths
    assert rate.low <= 1.1 * clients * max(drawn, 1.0) / fastest_s
    assert rate.high >= 0.9 * clients * min(drawn, 1.0) / slowest_s


@pytest.mark.parametrize("deployment", _DEPLOYMENTS[:3], ids=" ".join)
def test_clients_beyond_the_cache_cost_no_throughput(deployment: tuple[str, str, str, str]) -> None:
    """Clients are added until the cache would have to hold twice what it can."""
    replica = replica_of(*deployment)
    held = replica.memory.kv_capacity_tokens // (_PROMPT_TOKENS + _OUTPUT_TOKENS)
    rates = []
    for share in (0.8, 1.0, 1.2, 1.5, 2.0):
        clients = max(1, round(share * held))
        result = simulate(replica.surface, replica.policy, load_of(clients))
        rates.append(result.steady_output_tokens_per_s or result.output_tokens_per_s)
    assert_nothing_is_lost(rates)


def assert_nothing_is_lost(rates: list[float]) -> None:
    for before, after in pairwise(rates):
        assert after > (1.0 - _LOST_FRACTION) * before


@pytest.mark.parametrize("case", _TIGHT, ids=str)
def test_clients_whose_outputs_end_in_waves_cost_no_throughput(
    case: tuple[str, str, str, str, int, int, int, float],
) -> None:
    """Few requests a client, up to three times as many clients as the cache holds."""
    model, weights, gpu, engine, ranks, inputs, outputs, sigma = case
    replica = model_replica(
        named_deployment(model, gpu, engine, weight_dtype=weights, tensor_parallel=ranks),
        mean_input_tokens=inputs,
        mean_output_tokens=outputs,
    )
    held = replica.memory.kv_capacity_tokens // (inputs + outputs)
    rates = []
    for share in (0.8, 1.0, 1.2, 1.5, 2.0, 3.0):
        clients = max(1, round(share * held))
        load = Workload(
            ClosedLoop(clients), LognormalLengths(inputs, outputs, sigma=sigma), max(12, 4 * clients)
        )
        result = simulate(replica.surface, replica.policy, load)
        rates.append(result.steady_output_tokens_per_s or result.output_tokens_per_s)
    assert_nothing_is_lost(rates)
