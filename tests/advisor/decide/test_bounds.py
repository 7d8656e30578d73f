"""Bounds of both screens on what the simulator can reach: roofline above surface above simulated saturation."""

import dataclasses
import math
from statistics import NormalDist

import pytest

from advisor.catalog import accelerators, engines, models
from advisor.catalog.units import TYPED_DIGITS, time_words
from advisor.decide.bounds import _mean_up_to, least_prompt_s, tail_note, too_long_a_prompt
from advisor.decide.bounds import roofline_requests_per_s as roofline_rates
from advisor.decide.bounds import surface_requests_per_s as surface_rate
from advisor.decide.candidates import Candidate, candidates_of
from advisor.decide.reason import LongPrompts
from advisor.decide.scenario import Objectives, Traffic
from advisor.simulator.replica_model import model_replica
from advisor.simulator.serving import ClosedLoop, FixedLengths, Workload, simulate

UNLIMITED = Objectives(ttft_p99_s=1e9, tpot_p99_s=1e9)
LOADS = {
    "short": Traffic(mean_input_tokens=100, mean_output_tokens=50),
    "prompt": Traffic(mean_input_tokens=3000, mean_output_tokens=2),
    "answer": Traffic(mean_input_tokens=10, mean_output_tokens=300),
    "single": Traffic(mean_input_tokens=500, mean_output_tokens=1),
}


def candidates(model: str, gpu: str, traffic: Traffic, engine: str) -> list[Candidate]:
    found, reason = candidates_of(
        accelerators.by_id(gpu),
        models.by_id(model),
        [engines.by_id(engine)],
        mean_context_tokens=traffic.mean_context_tokens,
        max_context_tokens=traffic.longest_request_tokens,
    )
    assert found, reason
    return found


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize(
    ("model", "gpu", "engine"),
    [
        ("llama-3.1-8b", "l4", "vllm"),
        ("qwen3-0.6b", "rtx-4090", "sglang"),
        ("qwen3-30b-a3b", "h200-sxm", "tensorrt-llm"),
        ("gpt-oss-20b", "mi300x", "vllm"),
        ("gemma-3-27b", "b200-sxm", "sglang"),
        ("deepseek-v3.2", "h200-sxm", "vllm"),
        ("qwen3-next-80b-a3b", "h100-sxm", "vllm"),
        ("llama-3.1-405b", "a100-sxm-80gb", "vllm"),  # only pipelines hold it
    ],
)
def test_bounds_hold(model: str, gpu: str, engine: str, load: str) -> None:
    traffic = LOADS[load]
    found = candidates(model, gpu, traffic, engine)
    rates = roofline_rates(found, traffic, UNLIMITED)
    candidate = found[-1]
    roofline = float(rates[-1])
    replica = model_replica(
        candidate.deployment,
        mean_input_tokens=traffic.mean_input_tokens,
        mean_output_tokens=traffic.mean_output_tokens,
    )
    surface = surface_rate(replica, traffic, UNLIMITED)
    # Saturate it: more clients than its cache and its slots hold, from empty to empty.
    fitting = replica.memory.kv_capacity_tokens / (traffic.mean_input_tokens + traffic.mean_output_tokens)
    clients = min(replica.policy.num_slots, int(1.2 * fitting) + 1, 256)
    lengths = FixedLengths(traffic.mean_input_tokens, traffic.mean_output_tokens)
    result = simulate(
        replica.surface, replica.policy, Workload(ClosedLoop(clients), lengths, 4 * clients + 20), seed=0
    )
    assert result.num_refused == 0
    assert 0 < result.requests_per_s <= surface <= roofline


def test_every_layout_is_bounded() -> None:
    traffic = LOADS["short"]
    found = candidates("qwen3-30b-a3b", "h100-sxm", traffic, "vllm")
    assert {c.deployment.data_parallel for c in found} >= {1, 2, 8}
    assert {c.deployment.expert_parallel for c in found} >= {1, 2, 8}
    for candidate, roofline in zip(found, roofline_rates(found, traffic, UNLIMITED), strict=True):
        replica = model_replica(candidate.deployment, mean_input_tokens=100, mean_output_tokens=50)
        assert 0 < surface_rate(replica, traffic, UNLIMITED) <= roofline


def test_tighter_objectives_never_raise_a_bound() -> None:
    traffic = LOADS["short"]
    found = candidates("llama-3.1-8b", "l4", traffic, "vllm")[:2]
    replica = model_replica(found[0].deployment, mean_input_tokens=100, mean_output_tokens=50)
    last_roofline = float("inf")
    last_surface = float("inf")
    for tpot_s in (1e9, 0.2, 0.1, 0.08, 0.06, 0.001):
        limit = Objectives(ttft_p99_s=1e9, tpot_p99_s=tpot_s)
        roofline = float(roofline_rates(found, traffic, limit)[0])
        surface = surface_rate(replica, traffic, limit)
        assert surface <= roofline <= last_roofline
        assert surface <= last_surface
        last_roofline = roofline
        last_surface = surface
    assert last_roofline == last_surface == 0.0  # a millisecond is less than its weights take to read


def test_a_prompt_that_cannot_be_in_time_is_screened_out() -> None:
    traffic = Traffic(mean_input_tokens=20_000, mean_output_tokens=10)
    found = candidates("llama-3.1-8b", "l4", traffic, "vllm")[:1]
    assert roofline_rates(found, traffic, Objectives(ttft_p99_s=0.1))[0] == 0.0
    assert roofline_rates(found, traffic, Objectives(ttft_p99_s=60.0))[0] > 0.0
    assert roofline_rates([], traffic, UNLIMITED).shape == (0,)


def test_a_stage_counts_once_and_a_token_passes_all() -> None:
    replica = model_replica(
        candidates("llama-3.1-8b", "l4", LOADS["short"], "vllm")[0].deployment,
        mean_input_tokens=100,
        mean_output_tokens=50,
    )
    traffic = LOADS["short"]
    staged = dataclasses.replace(
        replica, surface=dataclasses.replace(replica.surface, num_stages=4, stage_transfer_ps=1000)
    )
    assert surface_rate(staged, traffic, UNLIMITED) == pytest.approx(
        surface_rate(replica, traffic, UNLIMITED)
    )
    limit = Objectives(ttft_p99_s=1e9, tpot_p99_s=0.09)
    assert surface_rate(replica, traffic, limit) > 0
    assert surface_rate(staged, traffic, limit) == 0.0


def test_mean_of_a_capped_lognormal() -> None:
    assert _mean_up_to(1000.0, 0.0, 300.0) == 300.0
    assert _mean_up_to(1000.0, 0.0, 3000.0) == 1000.0
    assert _mean_up_to(1000.0, 0.8, 1e9) == pytest.approx(1000.0)
    # Against quadrature: min(x, 500) at 20 000 quantiles of the same lognormal.
    normal = NormalDist()
    location = math.log(1000.0) - 0.8**2 / 2
    quantiles = (math.exp(location + 0.8 * normal.inv_cdf((i + 0.5) / 20_000)) for i in range(20_000))
    assert _mean_up_to(1000.0, 0.8, 500.0) == pytest.approx(
        sum(min(q, 500.0) for q in quantiles) / 20_000, 1e-3
    )


AGENT = Traffic(mean_input_tokens=13312, mean_output_tokens=347, input_sigma=1.1, max_input_tokens=123192)


@pytest.mark.parametrize(
    ("model", "gpu", "engine"),
    [
        ("llama-3.1-8b", "l4", "vllm"),
        ("llama-3.3-70b", "h200-sxm", "tensorrt-llm"),
        ("deepseek-v3.2", "h200-sxm", "vllm"),
        ("qwen3-next-80b-a3b", "h100-sxm", "vllm"),
        ("llama-3.1-405b", "a100-sxm-80gb", "vllm"),
    ],
)
@pytest.mark.parametrize("tokens", [1000, 60_000])
def test_no_prompt_alone_is_faster_than_its_bound(model: str, gpu: str, engine: str, tokens: int) -> None:
    traffic = Traffic(mean_input_tokens=tokens, mean_output_tokens=1)
    deployment = candidates(model, gpu, traffic, engine)[-1].deployment
    replica = model_replica(deployment, mean_input_tokens=tokens, mean_output_tokens=1)
    load = Workload(ClosedLoop(1), FixedLengths(tokens, 1), 2)
    result = simulate(replica.surface, replica.policy, load, seed=0)
    assert result.num_refused == 0
    least_s = least_prompt_s(replica, tokens)
    assert least_s <= result.ttft.mean_s
    assert tokens < 10_000 or least_s > 0.2 * result.ttft.mean_s  # short ones wait for weights to be read


def test_an_objective_that_the_lengths_of_prompts_alone_miss_is_told() -> None:
    deployment = candidates("llama-3.1-8b", "h100-sxm", AGENT, "vllm")[-1].deployment
    replica = model_replica(deployment, mean_input_tokens=13312, mean_output_tokens=347)
    tokens = AGENT.prompt_tokens(99)
    alone_s = least_prompt_s(replica, tokens)
    assert 90_000 < tokens < 110_000
    for part, missed, near in ((0.9, True, True), (1.5, False, True), (2.5, False, False)):
        limits = Objectives(ttft_p99_s=part * alone_s, tpot_p99_s=1.0)
        why = too_long_a_prompt(replica, AGENT, limits)
        note = tail_note(replica, AGENT, limits)
        assert (bool(why), bool(note)) == (missed, near)
    why = too_long_a_prompt(replica, AGENT, Objectives(ttft_p99_s=0.9 * alone_s, tpot_p99_s=1.0))
    assert why == LongPrompts("p99 TTFT", pytest.approx(alone_s), 0.9 * alone_s, 100.0, pytest.approx(tokens))
    takes = (
        f"which take {time_words(alone_s)} alone: p99 TTFT {time_words(0.9 * alone_s, TYPED_DIGITS)} is asked"
    )
    assert str(why) == f"one prompt in 100 is longer than {tokens:,.0f} tokens, {takes}"
    long = AGENT.model_copy(update={"trace": "trace.jsonl"})
    assert not too_long_a_prompt(replica, long, Objectives(ttft_p99_s=1e-6, tpot_p99_s=1.0))
