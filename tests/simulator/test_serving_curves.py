"""Statements of docs/serving.md, held whatever the fitted parameters are."""

from dataclasses import replace

import pytest

from advisor.simulator.deployment import named_deployment
from advisor.simulator.replica_model import EngineSettings, ReplicaModel, model_replica
from advisor.simulator.serving import (
    ClosedLoop,
    LognormalLengths,
    Poisson,
    ServingResult,
    Workload,
    simulate,
)
from advisor.simulator.step_cost import decode_iteration_s, prefill_iteration_s


@pytest.fixture(scope="module")
def one_gpu() -> ReplicaModel:
    deployment = named_deployment("llama-3.1-8b", "h100-sxm")
    return model_replica(deployment, mean_input_tokens=1024, mean_output_tokens=256)


def under(clients: int, replica: ReplicaModel) -> ServingResult:
    load = Workload(ClosedLoop(clients), LognormalLengths(1024, 256, sigma=0.3), max(60, 8 * clients))
    return simulate(replica.surface, replica.policy, load)


def seventy_b(weights: str, tp: int) -> ReplicaModel:
    layout = named_deployment("llama-3.1-70b", "h100-sxm", weight_dtype=weights, tensor_parallel=tp)
    return model_replica(layout, mean_input_tokens=1024, mean_output_tokens=256)


def test_throughput_and_latency_rise_with_the_batch_and_power_has_a_knee(one_gpu: ReplicaModel) -> None:
    runs = {clients: under(clients, one_gpu) for clients in (1, 4, 16, 64, 256)}
    rates = [run.output_tokens_per_s for run in runs.values()]
    times = [run.tpot.mean_s for run in runs.values()]
    assert rates == sorted(rates)
    assert times == sorted(times)
    assert rates[1] > 3.4 * rates[0]
    assert rates[4] < 2.2 * rates[3]
    power = {clients: run.output_tokens_per_s / run.e2e.mean_s for clients, run in runs.items()}
    assert max(power, key=lambda clients: power[clients]) in (16, 64)


@pytest.mark.parametrize(("sigma", "least", "most"), [(0.01, 1.0, 1.4), (1.0, 3.0, 20.0)])
def test_continuous_batching_gains_by_the_spread_of_lengths(
    one_gpu: ReplicaModel, sigma: float, least: float, most: float
) -> None:
    load = Workload(ClosedLoop(64), LognormalLengths(512, 256, sigma), 1000)
    static, continuous = (
        simulate(one_gpu.surface, replace(one_gpu.policy, kind=kind, max_num_seqs=64), load)
        for kind in ("static", "mixed")
    )
    assert static.steady_output_tokens_per_s is not None
    assert continuous.steady_output_tokens_per_s is not None
    gain = continuous.steady_output_tokens_per_s / static.steady_output_tokens_per_s
    assert least < gain < most


def test_fewer_bits_win_alone_and_int4_loses_its_lead_in_a_crowd() -> None:
    """On four GPUs Machete's launches outlast what fewer bytes save: int4 wins on two."""
    for tp, formats in ((4, ("bf16", "fp8")), (2, ("fp8", "int4"))):
        alone = [under(1, seventy_b(weights, tp)).tpot.mean_s for weights in formats]
        assert alone == sorted(alone, reverse=True)
    crowd = {weights: under(128, seventy_b(weights, 2)).output_tokens_per_s for weights in ("fp8", "int4")}
    assert crowd["int4"] < crowd["fp8"]


def test_few_gpus_are_cheap_and_many_are_fast() -> None:
    few, many = (under(128, seventy_b("fp8", tp)) for tp in (2, 4))
    assert many.tpot.mean_s < few.tpot.mean_s
    assert many.total_tokens_per_s < 2 * few.total_tokens_per_s


def test_chunks_trade_the_gap_between_tokens_against_the_first_token(one_gpu: ReplicaModel) -> None:
    gaps = []
    firsts = []
    for chunk in (256, 1024, 8192):
        settings = EngineSettings(max_num_seqs=256, max_num_batched_tokens=chunk)
        replica = model_replica(
            one_gpu.deployment, mean_input_tokens=4096, mean_output_tokens=256, settings=settings
        )
        load = Workload(Poisson(4.0), LognormalLengths(4096, 256, 0.5), 400)
        run = simulate(replica.surface, replica.policy, load)
        gaps.append(run.itl.p99_s)
        firsts.append(run.ttft.p50_s)
    assert gaps == sorted(gaps)
    assert gaps[2] > 3 * gaps[0]
    assert firsts == sorted(firsts, reverse=True)


def test_a_cached_prefix_saves_prefill_and_nothing_else(one_gpu: ReplicaModel) -> None:
    surface = one_gpu.surface
    tokens = 8192
    whole = prefill_iteration_s(surface, tokens)
    rest = prefill_iteration_s(surface, tokens // 10, tokens - tokens // 10)
    assert tokens // 10 / tokens < rest / whole < 0.35
    assert decode_iteration_s(surface, 16, tokens) > decode_iteration_s(surface, 16, tokens // 10)
