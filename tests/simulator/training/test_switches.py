"""Switches of a training run: words for them, and laws of what they do to memory and time."""

from dataclasses import replace
from typing import Final, cast

import pytest

from advisor.catalog import accelerators, models
from advisor.catalog.training import first_releases
from advisor.simulator.training.cluster import TrainingCluster
from advisor.simulator.training.job import METHODS, Method, TrainingJob
from advisor.simulator.training.memory import peak_memory
from advisor.simulator.training.plan import (
    SHARDINGS,
    PlanLattice,
    Recompute,
    Schedule,
    Sharding,
    TrainingPlan,
)
from advisor.simulator.training.release_months import release_month
from advisor.simulator.training.releases import missing_features
from advisor.simulator.training.step import step_time
from advisor.simulator.training.step_host import host_bytes
from advisor.simulator.training.switches import SWITCHES, read_switches, switch_named, words_of

JOB: Final = TrainingJob(
    models.get("llama-3.1-8b").record, 131_072, 8, framework="deepspeed", software="DeepSpeed+HF with Liger"
)
PLAN: Final = TrainingPlan(data_parallel=8, sharding="zero3", recompute="full")
H200: Final = TrainingCluster(accelerators.by_id("h200-sxm"))


def peak_bytes(job: TrainingJob, plan: TrainingPlan) -> float:
    return float(peak_memory(job, PlanLattice.of([plan])).peak_bytes[0])


def step_s(job: TrainingJob, plan: TrainingPlan) -> float:
    return float(step_time(job, PlanLattice.of([plan]), H200).step_s[0])


@pytest.mark.parametrize(
    ("word", "switch"),
    [
        ("Liger-Kernel", "liger"),
        ("liger_fused_ce", "linear_ce"),
        ("Cut Cross Entropy", "linear_ce"),
        ("TiledMLP", "tiled_mlp"),
        ("ulysses", "ulysses_sp"),
        ("activation_checkpoint_offload", "act_offload"),
        ("cpu_offload", "optim_offload"),
        ("flux_capacitor", ""),
    ],
)
def test_words_of_frameworks_mean_switches(word: str, switch: str) -> None:
    assert switch_named(word) == switch


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Cut Cross Entropy, TiledMLP", ["Cut Cross Entropy", "TiledMLP"]),
        ("activation checkpoint offload; liger", ["activation checkpoint offload", "liger"]),
        ("DeepSpeed+HF+Liger (FA3/FA4)", ["DeepSpeed", "HF", "Liger", "FA3/FA4"]),
        ("tiled_mlp|ulysses sp flux", ["tiled_mlp", "ulysses sp", "flux"]),
        ("", []),
    ],
)
def test_names_of_several_words_stay_together(text: str, words: list[str]) -> None:
    assert words_of(text) == words


def test_a_method_s_name_stands_for_its_switches() -> None:
    found = read_switches(["ALST"])
    assert found.features == {"ulysses_sp", "tiled_mlp", "linear_ce"}
    assert found.offloads_activations
    assert not found.unknown


def test_every_switch_is_its_own_name() -> None:
    assert [switch_named(name) for name in SWITCHES] == list(SWITCHES)


def test_words_that_mean_nothing_are_told() -> None:
    found = read_switches(["liger", "flux_capacitor", "optim_offload"])
    assert found.unknown == ("flux_capacitor",)
    assert found.offloads_optimizer
    assert found.features == {"linear_ce"}
    assert found.software("DeepSpeed+HF") == "DeepSpeed+HF with Liger"


@pytest.mark.parametrize("recompute", ["none", "full"])
@pytest.mark.parametrize("sequence", [16_384, 131_072, 524_288])
def test_a_tiled_feed_forward_part_takes_less_memory_and_more_time(recompute: str, sequence: int) -> None:
    # Whole logits would hide what a layer takes.
    job = replace(JOB, sequence_tokens=sequence, features=frozenset({"linear_ce"}))
    tiled = replace(job, features=job.features | {"tiled_mlp"})
    plan = replace(PLAN, recompute=recompute)  # type: ignore[arg-type]
    assert peak_bytes(tiled, plan) < peak_bytes(job, plan)
    assert step_s(job, plan) < step_s(tiled, plan) < 1.5 * step_s(job, plan)


def test_each_switch_that_saves_memory_saves_memory() -> None:
    longest = replace(JOB, features=frozenset({"linear_ce", "tiled_mlp"}))
    offloaded = replace(PLAN, offload_activations=True)
    peaks = [
        peak_bytes(JOB, PLAN),
        peak_bytes(replace(JOB, features=frozenset({"linear_ce"})), PLAN),
        peak_bytes(longest, PLAN),
        peak_bytes(longest, offloaded),
    ]
    assert peaks == sorted(peaks, reverse=True)
    assert len(set(peaks)) == len(peaks)


def test_what_leaves_the_accelerator_is_on_the_host() -> None:
    offloaded = replace(PLAN, offload_activations=True)
    kept = 32 * 2 * 4096 * JOB.sequence_tokens
    assert float(host_bytes(JOB, PlanLattice.of([PLAN]))[0]) == 0.0
    assert float(host_bytes(JOB, PlanLattice.of([offloaded]))[0]) == pytest.approx(kept, rel=0.01)


@pytest.mark.parametrize(
    ("framework", "text", "month"),
    [
        ("megatron", "0.15.0", "2025-12"),
        ("megatron", "0.5.0", "2024-02"),
        ("megatron", "25.11", "2025-11"),
        ("fsdp", "torch 2.11", "2026-03"),
        ("peft", "2.1.1", "2023-10"),
        ("torchtitan", "2.7.0a0", "2025-04"),
        ("torchtitan", "v0.2.0", "2025-10"),
        ("deepspeed", "0.17.6", "2025-06"),
        ("fsdp", "2024", "2024-01"),
        ("fsdp", "2024-04-22", "2024-04"),
        ("megatron", "2.7.0", ""),
        ("fsdp", "newest", ""),
    ],
)
def test_a_release_has_a_month(framework: str, text: str, month: str) -> None:
    assert release_month(framework, text) == month


@pytest.mark.parametrize(("framework", "feature"), first_releases())
def test_a_feature_is_missing_before_its_month_and_not_in_its_year(framework: str, feature: str) -> None:
    month = first_releases()[framework, feature].month
    year = int(month[:4])
    job = replace(
        JOB,
        framework=framework,
        method=cast(Method, feature) if feature in METHODS else "full",
        features=frozenset({feature} & SWITCHES.keys()),
        compute_dtype=feature if feature in ("bf16", "fp8", "mxfp8", "nvfp4") else "fp16",
    )
    schedules: dict[str, Schedule] = {
        "zbv": "zbv",
        "dualpipe": "dualpipe",
        "interleaved stages": "interleaved",
    }
    recomputations: dict[str, Recompute] = {
        "selective recomputation": "selective",
        "recomputed modules": "modules",
    }
    plan = TrainingPlan(
        tensor_parallel=2 if feature == "sequence parallelism" else 1,
        sequence_parallel=feature == "sequence parallelism",
        pipeline_parallel=2 if feature == "pipeline parallelism" or feature in schedules else 1,
        virtual_stages=2 if feature == "interleaved stages" else 1,
        context_parallel=2 if feature == "context parallelism" else 1,
        expert_parallel=2 if feature == "expert parallelism" else 1,
        data_parallel=2,
        sharding=cast(Sharding, feature) if feature in SHARDINGS else "none",
        schedule=schedules.get(feature, "1f1b"),
        recompute=recomputations.get(feature, "none"),
        offload_optimizer=feature == "optimizer in host memory",
        offload_activations=feature == "activations in host memory",
    )

    def missing(version: str) -> set[str]:
        return {one.feature for one in missing_features(replace(job, framework_version=version), plan)}

    if feature != "embedding and loss as pipeline layers":
        assert feature in missing(f"{year - 1}")
    assert feature not in missing(str(year))
    assert feature not in missing(month)


def test_every_first_release_names_where_it_was_found() -> None:
    assert all(first.source and first.release for first in first_releases().values())
