"""How far the capacity of a few runs lies from that of endless ones, by a queue that is known exactly.

Near its capacity a replica misses objectives in rare, long excursions: some thousand requests see one or none of them,
and a percentile of what they see is, more often than not, too good. A single server that takes prompts one after the
other has the same excursions under the same arrivals. What its run of the same requests gets wrong is known, since its
waiting times without end are: that error is taken off (a control variate).
"""

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.units import PICOSECONDS_PER_S
from advisor.decide.load_runs import prompt_pairs, workload_of
from advisor.decide.scenario import Traffic
from advisor.simulator.serving.workload import draw_arrival_chunks, draw_length_chunks

FloatArray = NDArray[np.float64]
_BISECTIONS: Final = 12
"""Halvings of a utilization between 0 and `_MOST_UTILIZATION`: to a twentieth of a per cent."""
_MOST_UTILIZATION: Final = 1.5
_WAIT_STEP: Final = 1.1
"""Ratio of neighbouring waits for which the error of a run is computed: it changes slowly with the wait."""
_POINTS: Final = 4096
"""Points at which the distribution of waits is computed."""
_REACH: Final = 4.0
"""Times the wait of the objective up to which waits are computed: beyond it, where one in a hundred is longer than the
wait, less than one in a million lies."""


def utilization_error(
    traffic: Traffic, seeds: tuple[int, ...], num_requests: int, wait: float, missed_fraction: float
) -> float:
    """Return by how much runs of these seeds overstate the utilization at which a fraction of the requests waits too
    long; `wait` is what the objective allows, in mean times between arrivals.

    Assumes: one server, services as long as prompts.
    Source: Lindley's recursion for the runs, the formula of Pollaczek and Khinchine for what lasts (Asmussen, Applied
    Probability and Queues, 2003, III.6 and VIII.5).
    """
    rounded = _WAIT_STEP ** round(math.log(wait) / math.log(_WAIT_STEP))
    seen = _run_utilization(traffic, seeds, num_requests, rounded, missed_fraction)
    return seen - _lasting_utilization(traffic, rounded, missed_fraction)


@lru_cache(maxsize=128)
def typical_seeds(
    traffic: Traffic, seeds: tuple[int, ...], num_requests: int, wait: float, missed_fraction: float
) -> tuple[int, ...]:
    """Return the seeds in the order in which their runs are typical: those first that state the utilization best.

    Source: `utilization_error`.
    """
    errors = [abs(utilization_error(traffic, (seed,), num_requests, wait, missed_fraction)) for seed in seeds]
    return tuple(seed for _, seed in sorted(zip(errors, seeds, strict=True)))


@lru_cache(maxsize=512)
def _run_utilization(
    traffic: Traffic, seeds: tuple[int, ...], num_requests: int, wait: float, missed_fraction: float
) -> float:
    """Utilization at which this fraction of the requests of the runs waits longer."""
    mean = _service_times(traffic).mean()
    drawn = [_requests(traffic, seed, num_requests) for seed in seeds]
    gaps = np.stack([each[0] for each in drawn])
    services = np.stack([each[1] for each in drawn]) / mean

    def fraction_beyond(utilization: float) -> float:
        steps = utilization * services[:, :-1] - gaps[:, 1:]
        backlog = np.concatenate([np.zeros((len(seeds), 1)), np.cumsum(steps, axis=1)], axis=1)
        waits = backlog - np.minimum.accumulate(backlog, axis=1)
        return float(np.mean(waits > wait))

    return _crossing(fraction_beyond, missed_fraction, _MOST_UTILIZATION)


@lru_cache(maxsize=256)
def _lasting_utilization(traffic: Traffic, wait: float, missed_fraction: float) -> float:
    """Utilization at which this fraction of all requests waits longer, if requests come without end."""
    services = np.sort(_service_times(traffic))
    services /= services.mean()
    step = _REACH * wait / _POINTS
    # A service that a request finds under way still lasts longer than x with the integral of P(S > x) beyond x.
    lengths = np.arange(_POINTS + 1) * step
    sums = np.concatenate([[0.0], np.cumsum(services)])

    def fraction_beyond(utilization: float) -> float:
        if utilization >= 1.0:
            return 1.0
        longest = lengths / max(utilization, 1e-9)
        below = np.searchsorted(services, longest)
        integral = (sums[below] + (len(services) - below) * longest) / len(services)  # of P(S > x) up to x
        # What lies between two points counts half at each.
        under_way = np.diff(np.append(integral, 1.0))
        under_way[1:] = 0.5 * (under_way[1:] + under_way[:-1])
        under_way[0] *= 0.5
        turned = np.fft.rfft(under_way, 2 * _POINTS)
        waits = np.fft.irfft((1.0 - utilization) / (1.0 - utilization * turned), 2 * _POINTS)
        return 1.0 - float(waits[: round(wait / step)].sum())

    return _crossing(fraction_beyond, missed_fraction, 1.0)


def _crossing(missed: Callable[[float], float], fraction: float, most: float) -> float:
    """The utilization from which on more than a fraction misses, up to the most that is tried."""
    low = 0.0
    high = most
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if missed(middle) > fraction else (middle, high)
    return 0.5 * (low + high)


@lru_cache(maxsize=16)
def _service_times(traffic: Traffic) -> FloatArray:
    """Lengths of many prompts behind what they share."""
    lengths: FloatArray = (prompt_pairs(traffic)[:, 0] - traffic.shared_prefix_tokens).astype(np.float64)
    return lengths


@lru_cache(maxsize=64)
def _requests(traffic: Traffic, seed: int, num_requests: int) -> tuple[FloatArray, FloatArray]:
    """Times between the arrivals of a run at one request a second [s], and the lengths of its prompts."""
    workload = workload_of(traffic, 1.0, num_requests, seed)
    instants = np.concatenate(_first(draw_arrival_chunks(workload, seed), num_requests)) / PICOSECONDS_PER_S
    prompts = np.concatenate(_first((each for each, _ in draw_length_chunks(workload, seed)), num_requests))
    gaps = np.diff(instants[:num_requests], prepend=0.0)
    return gaps, (prompts[:num_requests] - traffic.shared_prefix_tokens).astype(np.float64)


def _first(chunks: Iterator[NDArray[np.int64]], num_requests: int) -> list[NDArray[np.int64]]:
    """Return the chunks that hold the first `num_requests` values."""
    found = list[NDArray[np.int64]]()
    left = num_requests
    for chunk in chunks:
        found.append(chunk)
        left -= len(chunk)
        if left <= 0:
            break
    return found
