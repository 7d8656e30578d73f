"""Releases of training frameworks: the one that a plan needs, and the features that a release switches on by itself."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from advisor.catalog.schema.training_release import FirstRelease
from advisor.catalog.training import first_releases
from advisor.simulator.graph.model import num_layers
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.lattice import LatticeLimits
from advisor.simulator.training.plan import TrainingPlan
from advisor.simulator.training.release_months import last_month_of
from advisor.simulator.training.stages import tables_as_layers

UNFUSED_UNTIL: Final = "2024-06"
"""Month from which Megatron-LM attends through Transformer Engine by default; before, it stored scores unless
--use-flash-attn was given. Source: NVIDIA/Megatron-LM, commit e7b74a4b7e (--transformer-impl, 2024-04-02), released
with Megatron-Core 0.7.0."""
COMPILED_LOSS_SINCE: Final = "2025-04"
"""Month from which torchtitan compiles the loss with the model. Source: pytorch/torchtitan, commit bbb1b616e
(2025-04-02), build_loss_fn."""
WIDE_TABLES_UNTIL: Final = "2025-12"
"""Month from which TRL leaves tables and norms of an NF4 model in 16 bits; before, it cast them to fp32, and with
them what layers pass on. Source: TRL 0.14.0 and 0.25.0 (trl/trainer/sft_trainer.py) call PEFT's
prepare_model_for_kbit_training (peft/utils/other.py), 0.26.0 does not."""
FUSED_OPTIMIZER_SINCE: Final = "2025-08"
"""Month from which Transformers' Trainer updates with one kernel by default, without temporaries: PyTorch 2.8. Source:
transformers 5.24.0, training_args.py (default_optim)."""
WITHOUT_FUSED_ATTENTION: Final = frozenset({"pascal", "volta", "turing"})
"""Architectures on which Megatron-LM stores scores: Transformer Engine's kernels begin with compute capability 8.0.
Source: NVIDIA, Transformer Engine, datatype and hardware support matrix."""
WHOLE: Final = "the framework"
"""Feature that stands for a whole framework: no release of it is older."""
SEQUENCE_PARALLELISM: Final = "sequence parallelism"
ACTIVATIONS_IN_HOST: Final = "activations in host memory"
_RECOMPUTATIONS: Final = {"selective": "selective recomputation", "modules": "recomputed modules"}
"""Features of a release by the recomputation that needs them."""


@dataclass(frozen=True, slots=True)
class MissingFeature:
    """Feature of a plan that a framework's release does not have."""

    framework: str
    feature: str
    version: str
    first: FirstRelease

    @property
    def words(self) -> str:
        """Return what is missing, without the month of its first release."""
        if self.feature == WHOLE:
            return f"there was no {self.framework} in {self.version}"
        return f"{self.framework} of {self.version} has no {self.feature}"

    def __str__(self) -> str:
        return f"{self.words}: it came in {self.first.month}"


def missing_features(job: TrainingJob, plan: TrainingPlan) -> Iterator[MissingFeature]:
    """Yield every feature of a plan that is newer than the job's release; nothing if no release is stated.

    Source: catalog/data/training/releases.toml.
    """
    for feature in _features(job, plan):
        first = first_releases().get((job.framework, feature))
        if first is not None and not has_feature(job, feature):
            yield MissingFeature(job.framework, feature, job.framework_version or job.date, first)


def _features(job: TrainingJob, plan: TrainingPlan) -> Iterator[str]:
    yield WHOLE
    yield job.compute_dtype
    yield job.method
    yield plan.sharding
    yield plan.schedule
    yield from sorted(job.features)
    parts = plan.pipeline_parallel * plan.virtual_stages
    used = {
        "pipeline parallelism": plan.pipeline_parallel > 1,
        SEQUENCE_PARALLELISM: plan.sequence_parallel and plan.tensor_parallel > 1,
        "context parallelism": plan.context_parallel > 1,
        "expert parallelism": plan.expert_parallel > 1,
        _RECOMPUTATIONS["selective"]: plan.recompute == "selective",
        _RECOMPUTATIONS["modules"]: plan.recompute == "modules",
        "interleaved stages": plan.virtual_stages > 1 and plan.schedule == "interleaved",
        "embedding and loss as pipeline layers": tables_as_layers(num_layers(job.model), parts) > 0,
        "optimizer in host memory": plan.offload_optimizer,
        ACTIVATIONS_IN_HOST: plan.offload_activations,
    }
    yield from (feature for feature, is_used in used.items() if is_used)


def has_feature(job: TrainingJob, feature: str) -> bool:
    """Whether the job's release has a feature; the newest has all of them.

    Source: catalog/data/training/releases.toml.
    """
    month = last_month_of(job)
    first = first_releases().get((job.framework, feature))
    return not month or first is None or month >= first.month


def limits_at(limits: LatticeLimits, job: TrainingJob) -> LatticeLimits:
    """Return the limits of a lattice without the features that are newer than the job's release.

    Source: catalog/data/training/releases.toml.
    """
    if not last_month_of(job):
        return limits
    has = partial(has_feature, job)
    found = replace(
        limits,
        sequence_parallel=limits.sequence_parallel and has(SEQUENCE_PARALLELISM),
        sharding=tuple(name for name in limits.sharding if has(name)),
        schedules=tuple(
            name for name in limits.schedules if has("interleaved stages" if name == "interleaved" else name)
        ),
        recompute=tuple(name for name in limits.recompute if has(_RECOMPUTATIONS.get(name, ""))),
    )
    if not has("pipeline parallelism"):
        found = replace(found, pipeline_parallel=(1,))
    if not has("context parallelism"):
        found = replace(found, context_parallel=(1,))
    return found if has("expert parallelism") else replace(found, expert_parallel=(1,))


def features_at(framework: str, month: str, architecture: str = "", method: str = "full") -> frozenset[str]:
    """Return the features that a framework of a month has by default on an architecture: Megatron-LM's attention with
    stored scores, fp32 tables of an NF4 model, and the optimizer of Transformers' Trainer as one kernel.

    Source: as UNFUSED_UNTIL, WITHOUT_FUSED_ATTENTION, WIDE_TABLES_UNTIL and FUSED_OPTIMIZER_SINCE.
    """
    if framework == "peft":
        is_wide = method == "qlora" and month and month < WIDE_TABLES_UNTIL
        is_fused = not month or month >= FUSED_OPTIMIZER_SINCE
        return frozenset({"wide_tables"} if is_wide else ()) | ({"fused_optimizer"} if is_fused else set())
    is_old = (bool(month) and month < UNFUSED_UNTIL) or architecture in WITHOUT_FUSED_ATTENTION
    return frozenset({"unfused_attention"} if framework == "megatron" and is_old else ())


def features_of_compilation(framework: str, features: AbstractSet[str], month: str) -> frozenset[str]:
    """Return what a framework of a month compiles together with the layers: torchtitan's loss.

    Source: as COMPILED_LOSS_SINCE.
    """
    is_compiled = framework == "torchtitan" and "compile" in features and month >= COMPILED_LOSS_SINCE
    return frozenset({"fused_ce"} if is_compiled else ())
