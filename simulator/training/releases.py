"""Releases of training frameworks: the one that a plan needs, and the features that a release switches on by itself."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from advisor.simulator.training.framework_costs import year_month_of
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.lattice import LatticeLimits
from advisor.simulator.training.plan import TrainingPlan

UNFUSED_UNTIL: Final = "2024-06"
"""Month from which Megatron-LM attends through Transformer Engine by default; before, it stored scores unless
--use-flash-attn was given. Source: NVIDIA/Megatron-LM, megatron/training/arguments.py, --transformer-impl."""


@dataclass(frozen=True, slots=True)
class FirstRelease:
    """Month in which a framework first had a feature, and the release that brought it."""

    month: str
    release: str


_SINCE: Final = {
    ("megatron", "fp8"): FirstRelease("2022-11", "Transformer Engine 0.2"),
    ("megatron", "mxfp8"): FirstRelease("2025-02", "Transformer Engine 2.0"),
    ("megatron", "nvfp4"): FirstRelease("2025-10", "Transformer Engine 2.8"),
    ("megatron", "context parallelism"): FirstRelease("2024-03", "Megatron-Core 0.5"),
    ("megatron", "expert parallelism"): FirstRelease("2023-09", "Megatron-Core 0.3"),
    ("megatron", "selective recomputation"): FirstRelease("2022-05", "arXiv:2205.05198"),
    ("megatron", "recomputed modules"): FirstRelease("2025-05", "Megatron-Core 0.12"),
    ("megatron", "interleaved stages"): FirstRelease("2021-04", "arXiv:2104.04473"),
    ("torchtitan", "the framework"): FirstRelease("2024-04", "the first commits of pytorch/torchtitan"),
    ("torchtitan", "context parallelism"): FirstRelease("2024-11", "PyTorch 2.6"),
    ("deepspeed", "zero3"): FirstRelease("2021-03", "DeepSpeed 0.3.13"),
    ("fsdp", "zero3"): FirstRelease("2022-06", "PyTorch 1.12"),
}  # fmt: skip
"""First releases by framework and feature. Months are an own record, not checked against release notes: one may be off
by a few."""


_RECOMPUTATIONS: Final = {"selective": "selective recomputation", "modules": "recomputed modules"}
"""Features of a release by the recomputation that needs them."""


@dataclass(frozen=True, slots=True)
class MissingFeature:
    """Feature of a plan that a framework's release does not have."""

    framework: str
    feature: str
    version: str
    first: FirstRelease

    def __str__(self) -> str:
        return f"{self.framework} of {self.version} has no {self.feature}: it came in {self.first.month}"


def missing_features(job: TrainingJob, plan: TrainingPlan) -> Iterator[MissingFeature]:
    """Yield every feature of a plan that is newer than the job's release; nothing if no release is stated.

    Source: own record, `_SINCE`.
    """
    month = year_month_of(job)
    if not month:
        return
    for feature in _features(job, plan):
        first = _SINCE.get((job.framework, feature))
        if first is not None and month < first.month:
            yield MissingFeature(job.framework, feature, job.framework_version or job.date, first)


def _features(job: TrainingJob, plan: TrainingPlan) -> Iterator[str]:
    yield "the framework"
    yield job.compute_dtype
    yield plan.sharding
    used = {
        "context parallelism": plan.context_parallel > 1,
        "expert parallelism": plan.expert_parallel > 1,
        _RECOMPUTATIONS["selective"]: plan.recompute == "selective",
        _RECOMPUTATIONS["modules"]: plan.recompute == "modules",
        "interleaved stages": plan.virtual_stages > 1,
    }
    yield from (feature for feature, is_used in used.items() if is_used)


def limits_at(limits: LatticeLimits, job: TrainingJob) -> LatticeLimits:
    """Return the limits of a lattice without the features that are newer than the job's release.

    Source: own record, `_SINCE`.
    """
    month = year_month_of(job)
    if not month:
        return limits

    def has(feature: str) -> bool:
        first = _SINCE.get((job.framework, feature))
        return first is None or month >= first.month

    found = replace(
        limits,
        sharding=tuple(name for name in limits.sharding if has(name)),
        schedules=tuple(
            name for name in limits.schedules if name != "interleaved" or has("interleaved stages")
        ),
        recompute=tuple(name for name in limits.recompute if has(_RECOMPUTATIONS.get(name, ""))),
    )
    if not has("context parallelism"):
        found = replace(found, context_parallel=(1,))
    return found if has("expert parallelism") else replace(found, expert_parallel=(1,))


def features_at(framework: str, month: str) -> frozenset[str]:
    """Return the features that a framework of a month has by default: Megatron-LM's attention with stored scores.

    Source: as UNFUSED_UNTIL.
    """
    old = framework == "megatron" and bool(month) and month < UNFUSED_UNTIL
    return frozenset({"unfused_attention"} if old else ())
