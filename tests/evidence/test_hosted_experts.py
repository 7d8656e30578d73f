"""Weights in the host's memory: hosts in words, laws, and published runs."""

from dataclasses import replace

import pytest

from advisor.catalog.cpu_names import find_cpu
from advisor.catalog.errors import AdvisorError
from advisor.catalog.hosts import all_clocks, parse_host, soldered_processors
from advisor.catalog.models import by_id
from advisor.evidence.hosted.prediction import predict_row
from advisor.simulator.deployment import named_deployment
from advisor.simulator.graph.model import routed_layers
from advisor.simulator.workloads.host_experts import host_alone_s, hosted_decode, without_routed_experts

DOUBLE = {
    "engine": "ktransformers",
    "engine_version": "0.2",
    "model": "deepseek-ai/DeepSeek-V3",
    "weights": "q4_k_m",
    "experts": "8",
    "gpu": "rtx-4090-d",
    "n_gpus": "1",
    "cpu": "2x Xeon Gold 6454S",
    "sockets": "2",
    "dram": "16x DDR5-4800 (8 per socket)",
    "isl": "500",
    "osl": "",
}
QUEUED = DOUBLE | {
    "engine_version": "kt-kernel + SGLang",
    "model": "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "weights": "fp8",
    "gpu": "rtx-4090",
    "n_gpus": "4",
    "cpu": "Xeon Gold 6454S",
    "sockets": "",
    "isl": "ShareGPT",
}

XEON = QUEUED | {
    "model": "MiniMaxAI/MiniMax-M2",
    "experts": "8",
    "n_gpus": "1",
    "cpu": "2x Xeon Platinum 8488C",
    "dram": "16x DDR5-4800",
    "isl": "2048",
}
EPYC = XEON | {"gpu": "rtx-5090", "cpu": "2x EPYC 9355", "dram": "24x DDR5-5600"}


@pytest.mark.parametrize(
    ("processor", "memory", "sockets", "gigabytes_per_s"),
    [
        ("2x Xeon Gold 6454S", "16x DDR5-4800 (8 per socket)", 2, 614.4),
        ("2x Xeon Gold 6454S", "16x DDR5-4800 (8 per socket)", 1, 307.2),
        ("Xeon Gold 6454S", "16x DDR5-4800 (8 per socket)", None, 614.4),
        ("dual EPYC 9654", "", None, 921.6),
        ("AMD EPYC 7763", "8x 64 GB DDR4-2933", None, 187.7),
        ("Core i9-14900KF", "2-channel DDR5-4000", None, 64.0),
        ("NVIDIA Grace", "", None, 546.1),
        ("some processor", "12 channels of DDR5-6400", None, 614.4),
    ],
)
def test_a_host_is_read_from_words(
    processor: str, memory: str, sockets: int | None, gigabytes_per_s: float
) -> None:
    assert parse_host(processor, memory, sockets).bytes_per_s == pytest.approx(
        gigabytes_per_s * 1e9, rel=0.001
    )


def test_a_host_that_is_not_known_is_refused_with_those_that_are() -> None:
    with pytest.raises(AdvisorError, match="is not known"):
        parse_host("a mainframe")
    assert all(one.source for one in (*all_clocks(), *soldered_processors()))


def test_a_cpu_with_a_clock_is_a_part_of_the_catalog_and_has_its_cores() -> None:
    for clock in all_clocks():
        cpu = find_cpu(clock.cpu)
        assert cpu is not None
        assert cpu.name == clock.cpu
        assert parse_host(clock.cpu).cores == cpu.cores
    # No clock is recorded for these two: their memory follows from their records all the same.
    assert parse_host("2x EPYC 7532").bytes_per_s == 2 * parse_host("EPYC 7763").bytes_per_s
    assert parse_host("Threadripper PRO 7975WX").cores == 32


# KTransformers 0.2 with DeepSeek-V3 in 4 bits (doc/en/DeepseekR1_V3_tutorial.md), and kt-kernel with Qwen3-Next in fp8
# (experts-sched-Tutorial): tokens per second of decoding.
@pytest.mark.parametrize(
    ("row", "published"),
    [
        (DOUBLE, 12.2),
        (DOUBLE | {"experts": "6"}, 13.7),
        (DOUBLE | {"sockets": "1"}, 8.73),
        (DOUBLE | {"sockets": "1", "experts": "6"}, 10.3),
        (QUEUED | {"experts": "0 % of the experts on GPU"}, 53.0),
        (QUEUED | {"experts": "10 % of the experts on GPU"}, 56.6),
        (QUEUED | {"experts": "50 % of the experts on GPU"}, 65.3),
        (QUEUED | {"experts": "90 % of the experts on GPU"}, 81.1),
        (QUEUED | {"experts": "10 % of the experts on GPU (dynamic-expert-update)"}, 70.2),
        (QUEUED | {"experts": "50 % of the experts on GPU (dynamic-expert-update)"}, 81.2),
        (QUEUED | {"experts": "90 % of the experts on GPU (dynamic-expert-update)"}, 95.0),
    ],
)
def test_runs_that_terms_come_from_are_within_a_fifth(row: dict[str, str], published: float) -> None:
    found = predict_row(row, row_number=2)
    assert found.status == "ok", found.reason
    assert found.metrics["decode_tok_s"].value == pytest.approx(published, rel=0.2)


# kt-kernel's MiniMax-M2.1-Tutorial and KTransformers' Kimi-K2.md: no term comes from these models and processors.
@pytest.mark.parametrize(
    ("row", "published"),
    [
        (XEON, 21.8),
        (XEON | {"isl": "8192"}, 20.9),
        (XEON | {"n_gpus": "2"}, 23.6),
        (EPYC, 32.1),
        (EPYC | {"n_gpus": "2"}, 35.9),
        (EPYC | {"isl": "32768"}, 27.6),
        (DOUBLE | {"model": "kimi-k2"}, 14.0),
        (DOUBLE | {"model": "kimi-k2", "sockets": "1"}, 10.0),
    ],
)
def test_other_models_and_processors_are_within_a_quarter(row: dict[str, str], published: float) -> None:
    found = predict_row(row, row_number=2)
    assert found.status == "ok", found.reason
    assert found.metrics["decode_tok_s"].value == pytest.approx(published, rel=0.25)


def test_a_processor_alone_reads_every_active_weight_for_each_token() -> None:
    # 6.2 tokens/s of a 671B model in eight bits on one EPYC 9754 with 461 GB/s (inference.duchess.capital/epyc.html).
    alone_s = host_alone_s(by_id("deepseek-r1"), "q8_0", parse_host("EPYC 9754"))
    assert 1.0 / alone_s == pytest.approx(6.2, rel=0.15)
    twice = host_alone_s(by_id("deepseek-r1"), "q8_0", parse_host("2x EPYC 9754"))
    assert twice == alone_s


def test_more_experts_with_the_accelerators_or_a_faster_host_are_never_slower() -> None:
    deployment = named_deployment(
        "qwen3-next-80b-a3b", "rtx-4090", "sglang", weight_dtype="fp8", tensor_parallel=4
    )
    steps = [
        hosted_decode(
            deployment, context_tokens=1024, host_bytes_per_s=3e11, resident_fraction=fraction
        ).step_s
        for fraction in (0.1, 0.4, 0.7, 1.0)
    ]
    assert steps == sorted(steps, reverse=True)
    rates = [
        hosted_decode(deployment, context_tokens=1024, host_bytes_per_s=rate, resident_fraction=0.5).step_s
        for rate in (1e11, 3e11, 6e11)
    ]
    assert rates == sorted(rates, reverse=True)


def test_what_is_left_without_routed_experts_has_none() -> None:
    bare = without_routed_experts(by_id("deepseek-v3"))
    assert not routed_layers(bare)
    assert sum(group.count for group in bare.layers) == 61


def test_a_row_that_says_too_little_is_not_asked() -> None:
    for change in ({"cpu": "a mainframe", "dram": ""}, {"weights": "seven"}, {"model": "nobody/nothing"}):
        assert predict_row(DOUBLE | change, row_number=2).status == "unsupported"
    assert replace(parse_host("EPYC 9654"), sockets=1).sockets == 1
