"""Simulated training runs that fail and start again: the reference for the closed forms of goodput."""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy

from advisor.simulator.training.goodput import FailureModel

Steps = Generator[simpy.Event, Any, None]
Draw = Callable[[], float]
"""Time to the next failure of the cluster [s]."""


@dataclass(slots=True)
class _Progress:
    """Progress in segments between checkpoints: done, and safe in storage; a failure begins another epoch."""

    safe: int = 0
    done: int = 0
    epoch: int = 0


def simulated_goodput(
    model: FailureModel,
    interval_s: float,
    seed: int = 0,
    *,
    num_segments: int = 3000,
    next_failure_s: Draw | None = None,
) -> float:
    """Fraction of the time that becomes progress in one simulated run [fraction].

    A job works, stalls for a checkpoint, writes it behind the next segment; a failure throws it back to the last safe
    state and costs a restart, which can fail too.

    Assumes: failures come at random with the model's mean, unless `next_failure_s` draws them.
    Source: processes of SimPy; the same assumptions as expected_wall_s, which has no randomness left.
    """
    env = simpy.Environment()
    progress = _Progress()
    rng = np.random.default_rng(seed)
    job = env.process(_job(env, model, interval_s, num_segments, progress))
    env.process(_failures(env, job, next_failure_s or (lambda: float(rng.exponential(model.mtbf_s)))))
    env.run(until=job)
    return num_segments * interval_s / float(env.now)


def _job(
    env: simpy.Environment, model: FailureModel, interval_s: float, num_segments: int, progress: _Progress
) -> Steps:
    behind_s = max(0.0, model.checkpoint_write_s - model.checkpoint_stall_s)
    while progress.safe < num_segments:
        try:
            while progress.done < num_segments:
                yield env.timeout(interval_s + model.checkpoint_stall_s)
                progress.done += 1
                env.process(_writer(env, behind_s, progress, progress.epoch, progress.done))
            return
        except simpy.Interrupt:
            progress.epoch += 1
            progress.done = progress.safe
        yield from _restart(env, model.restart_s)


def _writer(env: simpy.Environment, behind_s: float, progress: _Progress, epoch: int, upto: int) -> Steps:
    yield env.timeout(behind_s)
    if progress.epoch == epoch:
        progress.safe = max(progress.safe, upto)


def _restart(env: simpy.Environment, restart_s: float) -> Steps:
    while True:
        try:
            yield env.timeout(restart_s)
            return
        except simpy.Interrupt:
            continue


def _failures(env: simpy.Environment, job: simpy.Process, next_failure_s: Draw) -> Steps:
    while job.is_alive:
        yield env.timeout(next_failure_s())
        if job.is_alive:
            job.interrupt()
