"""Execution of points in this process, in processes of this machine, or on an existing cluster."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

from advisor.catalog.errors import MissingHardwareError
from advisor.simulator.parent_process import end_with
from advisor.sweep.journal import Row
from advisor.sweep.points import SweepPoint

Ask = Callable[[Mapping[str, Any]], Row]
"""Function that returns the row of one point; other processes can import it."""
Outcome = tuple[str, Row]
_STRIKES: Final = 2
"""Losses of workers without a finished point in between, after which each remaining point runs alone."""
_ROUND: Final = 8
"""Points per worker and round, if results do not stream."""
_DIED: Final = {"status": "failed", "reason": "its worker died: out of memory or killed"}


@dataclass(frozen=True, slots=True)
class Workers:
    """Processes or cluster that run the points."""

    num_processes: int
    cluster: AbstractContextManager[Any] | None = None
    """Context manager that makes a cluster joblib's backend; None means this machine."""
    streams: bool = True
    """Whether results come back one by one; otherwise (Ray's backend) in rounds of a few points per worker."""


def usable_processes() -> int:
    """Number of processes that this machine has cores for."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def runs_processes() -> bool:
    """Whether the package that runs several processes is installed."""
    return find_spec("joblib") is not None


def outcomes(ask: Ask, points: Iterable[SweepPoint], workers: Workers) -> Iterator[Outcome]:
    """Yield the rows of all points as they finish, each point once, even if workers die.

    A lost worker costs the points that it had in hand; they are asked again. A point that keeps killing its workers
    gets a row that says so.

    Raises: MissingHardwareError: the cluster is gone.
    """
    waiting = {point.id: point for point in points}
    if workers.cluster is None and workers.num_processes == 1:
        for point in waiting.values():
            yield point.id, ask(point.options)
        return
    with workers.cluster or nullcontext():
        strikes = 0
        while waiting and strikes < _STRIKES:
            before = len(waiting)
            try:
                for point_id, row in _in_parallel(ask, tuple(waiting.values()), workers):
                    if waiting.pop(point_id, None):
                        yield point_id, row
            except _losses() as error:
                _check_cluster(error)
                strikes = strikes + 1 if len(waiting) == before else 0
        for point in waiting.values():
            yield _alone(ask, point, workers)


def _in_parallel(ask: Ask, points: tuple[SweepPoint, ...], workers: Workers) -> Iterator[Outcome]:
    from joblib import Parallel, delayed, effective_n_jobs

    # Without a context loky is the default; points take milliseconds to minutes, so batches adapt to them.
    num_jobs = workers.num_processes if workers.cluster is None else None
    parent = os.getpid() if workers.cluster is None else None
    if workers.streams:
        run = Parallel(n_jobs=num_jobs, return_as="generator_unordered")
        yield from run(delayed(_answer_point)(ask, point.id, point.options, parent) for point in points)
        return
    size = _ROUND * effective_n_jobs(-1)
    for start in range(0, len(points), size):
        yield from Parallel(n_jobs=num_jobs)(
            delayed(_answer_point)(ask, point.id, point.options, parent)
            for point in points[start : start + size]
        )


def _answer_point(ask: Ask, point_id: str, options: Mapping[str, Any], parent: int | None) -> Outcome:
    if parent is not None:
        end_with(parent)
    return point_id, ask(options)


def _alone(ask: Ask, point: SweepPoint, workers: Workers) -> Outcome:
    """Return the outcome of one point that runs alone, so that a death of its worker is due to it."""
    try:
        return next(iter(_in_parallel(ask, (point,), workers)))
    except _losses() as error:
        _check_cluster(error)
        return point.id, _DIED


def _losses() -> tuple[type[BaseException], ...]:
    """Return the errors that a backend raises when workers are lost."""
    from joblib.externals.loky.process_executor import BrokenProcessPool

    if find_spec("distributed") is None:
        return (BrokenProcessPool,)
    from distributed import KilledWorker
    from distributed.client import FutureCancelledError
    from distributed.comm.core import CommClosedError

    return BrokenProcessPool, KilledWorker, CommClosedError, FutureCancelledError


def _check_cluster(error: BaseException) -> None:
    """Raises: MissingHardwareError: the scheduler itself is gone."""
    if type(error).__name__ in ("CommClosedError", "FutureCancelledError"):
        raise MissingHardwareError(
            "the cluster stopped answering",
            why="the connection to its scheduler is lost",
            fix="start it again, then run the same command with --resume: finished points are kept",
        ) from None
