"""Convergence: tokens that a published benchmark trains until it reaches its target, and the evaluations on the way."""

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

from advisor.catalog.files import DATA_DIR, read_toml
from advisor.simulator.training.job import TrainingJob

_FILE: Final = DATA_DIR / "training" / "convergence.toml"

_BEYOND: Final = 2.0
"""Factor beyond its references' batches up to which a run still counts as the benchmark."""


@dataclass(frozen=True, slots=True)
class Convergence:
    """Reference convergence of one benchmark."""

    batches: tuple[float, ...]
    samples: tuple[float, ...]
    """Number of sequences until the target is reached, at each of the batches."""
    evaluation_interval: float
    """Number of sequences between evaluations."""
    evaluation_samples: float
    """Number of sequences of one evaluation."""
    first_evaluation: float
    """Number of sequences before the first evaluation."""

    def samples_at(self, global_batch: int) -> float:
        """Number of sequences until the target at this batch: linear between references in the logarithm of the batch.

        Assumes: below the smallest and above the largest reference, the number at that reference.
        """
        return float(np.interp(np.log(global_batch), np.log(self.batches), self.samples))

    def num_evaluated(self, global_batch: int) -> float:
        """Number of sequences evaluated on the way to the target [sequences]."""
        trained = self.samples_at(global_batch)
        rounds = 1.0 + max(0.0, trained - self.first_evaluation) // self.evaluation_interval
        return rounds * self.evaluation_samples


def convergence_of(job: TrainingJob) -> Convergence | None:
    """Return the reference convergence of a job's benchmark; None if the job is no benchmark or its batch is far off.

    Source: catalog/data/training/convergence.toml (MLCommons reference convergence points).
    """
    for benchmark in _benchmarks():
        names = (benchmark["model"], benchmark["sequence_tokens"], benchmark["adapters"])
        if names == (job.model.id, job.sequence_tokens, job.method != "full"):
            fields = Convergence.__dataclass_fields__
            found = Convergence(**{name: _value(benchmark[name]) for name in fields})
            low = min(found.batches) / _BEYOND
            high = max(found.batches) * _BEYOND
            return found if low <= job.global_batch <= high else None
    return None


def _value(value: Any) -> Any:
    return tuple(float(item) for item in value) if isinstance(value, list) else value


@cache
def _benchmarks() -> list[dict[str, Any]]:
    return list(read_toml(_FILE)["benchmarks"])


def time_to_train_s(job: TrainingJob, step_s: float, forward_share: float, convergence: Convergence) -> float:
    """Time from the first step until the target is reached [s].

    samples / batch · step + evaluated / batch · step · forward share

    Assumes: evaluation runs the forward pass at the speed of training; starting up is not counted.
    Source: MLCommons training rules: run_start to run_stop include evaluations.
    """
    steps = convergence.samples_at(job.global_batch) / job.global_batch
    evaluations = convergence.num_evaluated(job.global_batch) / job.global_batch
    return step_s * (steps + evaluations * forward_share)
