"""Recorded traces as workloads: replayed in full, as one replica's share, or as synthetic traffic fitted to them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.errors import AdvisorError
from advisor.simulator.serving.arrivals import Gamma, TraceArrivals
from advisor.simulator.serving.content import (
    Contents,
    SharedPrefixes,
    hashed_contents,
    mean_reused_tokens,
)
from advisor.simulator.serving.lengths import EmpiricalLengths, LognormalLengths
from advisor.simulator.serving.trace_files import Trace
from advisor.simulator.serving.workload import Workload

_LOGNORMAL_DISTANCE = 0.1
"""Largest distance between two distribution functions at which a lognormal still represents the lengths."""

_STARTS_PER_BUSIER = 100
"""Starts in a trace of which one is followed by a busier stretch than the one that is replayed: the tail that a 99th
percentile leaves out."""


@lru_cache(maxsize=4)
def contents_of(trace: Trace) -> Contents | None:
    """Return the shared prefixes of a trace's prompts; None if the trace does not record them.

    Source: `hashed_contents`.
    """
    if trace.hash_ids is None:
        return None
    return hashed_contents(trace.hash_ids, [pair[0] for pair in trace.pairs], trace.block_tokens)


def replay(trace: Trace, num_requests: int | None = None) -> Workload:
    """Return the first requests of a trace, or all of them, at their own instants.

    Source: own definition.
    """
    count = len(trace.pairs) if num_requests is None else min(num_requests, len(trace.pairs))
    return _pick_requests(trace, range(count), np.array(trace.times_s[:count]))


def share_of_replay(trace: Trace, rate_per_s: float, num_requests: int) -> Workload:
    """Return one replica's share of a trace at a mean rate: every n-th request at its own instants.

    n is the nearest whole number; time is stretched by the rest. A longer trace is replayed where it is busy: at the
    requests in a row that only one start in a hundred exceeds in rate, since these decide a 99th percentile. A share
    with fewer requests than `num_requests` continues with the shares of further replicas, up to the whole trace. If
    prompts share prefixes, half of `num_requests` further requests come before those that are replayed, and only leave
    their prompts in the cache.

    Raises: AdvisorError: all requests of the trace come at once.
    Source: own definition; a router that deals requests out in turn thins bursts as it thins the rate.
    """
    share = _share(trace, rate_per_s, num_requests)
    warming = share.num_warming
    return _pick_requests(trace, share.chosen[warming:], share.times_s[warming:], share.chosen[:warming])


def rate_of_share(trace: Trace, rate_per_s: float, num_requests: int) -> float:
    """Rate at which the requests of a share arrive between its first and its last tenth [1/s]: above the mean rate of
    the trace where it is replayed in its busy hours.

    Raises: AdvisorError: all requests of the trace come at once.
    Source: own definition; `share_of_replay`.
    """
    share = _share(trace, rate_per_s, num_requests)
    times = share.times_s[share.num_warming :]
    first = len(times) // 10
    span_s = float(times[-1 - first] - times[first])
    return (len(times) - 1 - 2 * first) / span_s if span_s > 0 else rate_per_s


@dataclass(frozen=True, slots=True)
class _Share:
    """Requests of a trace that one replica gets, in their order, with their instants."""

    chosen: list[int]
    times_s: NDArray[np.float64]
    num_warming: int
    """Number of the first requests that only leave their prompts in the cache."""


def _share(trace: Trace, rate_per_s: float, num_requests: int) -> _Share:
    if trace.rate_per_s is None:
        raise AdvisorError(
            "the trace has no rate", why="all of its requests come at once", fix="a number of clients"
        )
    every = max(1, min(len(trace.pairs), round(trace.rate_per_s / rate_per_s)))
    stretch = trace.rate_per_s / every / rate_per_s
    warming = 0 if trace.hash_ids is None else num_requests // 2
    num_requests += warming
    chosen: list[int] = []
    parts: list[NDArray[np.float64]] = []
    times = np.array(trace.times_s)
    if num_requests * every < len(times):
        begin = _busy_start(times, num_requests * every)
        indices = range(begin, begin + num_requests * every, every)
        return _Share(list(indices), times[indices.start : indices.stop : every] * stretch, warming)
    span_s = trace.duration_s + every / trace.rate_per_s
    for offset in range(every):
        indices = range(offset, len(trace.pairs), every)[: num_requests - len(chosen)]
        chosen += indices
        parts.append((times[indices.start : indices.stop : every] + offset * span_s) * stretch)
        if len(chosen) >= num_requests:
            break
    return _Share(chosen, np.concatenate(parts), min(warming, len(chosen) // 3))


def _busy_start(times_s: NDArray[np.float64], count: int) -> int:
    """Return the first of `count` requests in a row that come faster than those behind all but one in a hundred of the
    other starts."""
    spans = times_s[count - 1 :] - times_s[: len(times_s) - count + 1]
    return int(np.argsort(spans, kind="stable")[len(spans) // _STARTS_PER_BUSIER])


def _pick_requests(
    trace: Trace, indices: Sequence[int], times_s: NDArray[np.float64], before: Sequence[int] = ()
) -> Workload:
    contents = contents_of(trace)
    if contents is not None:
        prompts = contents.prompts
        contents = Contents(
            contents.tree,
            [prompts[index] for index in indices],
            kept=[prompts[index] for index in before],
        )
    pairs = [trace.pairs[index] for index in indices]
    arrivals = TraceArrivals((times_s - times_s[0]).tolist())
    return Workload(arrivals, EmpiricalLengths(pairs, in_order=True), len(pairs), contents)


@dataclass(frozen=True, slots=True)
class LengthFit:
    """Lengths of prompts or outputs: their moments, and how well a lognormal represents them."""

    mean_tokens: float
    sigma: float
    """Standard deviation of the logarithm of the lengths."""
    p50_tokens: float
    p99_tokens: float
    max_tokens: int
    distance: float
    """Largest difference between the distribution functions of the lengths and of the lognormal with this mean and
    sigma (Kolmogorov, Smirnov)."""


@dataclass(frozen=True, slots=True)
class TraceFit:
    """Fitted parameters of a trace, from which similar traffic can be drawn."""

    num_requests: int
    duration_s: float
    rate_per_s: float | None
    burstiness_cv: float | None
    """Coefficient of variation of the gaps: 1 is Poisson, more is bursty."""
    inputs: LengthFit
    outputs: LengthFit
    lengths: Literal["lognormal", "empirical"]
    """Distribution from which lengths are drawn: the fitted lognormal or the observed lengths."""
    length_correlation: float | None
    """Correlation of the logarithms of input and output length; drawn lognormal lengths have none."""
    prefix_hit_fraction: float | None
    """Fraction of prompt tokens that an earlier prompt had: hits of a cache that never evicts; None without
    hash_ids."""
    num_shared_prefixes: int | None
    """Number of prefixes that at least two prompts share and that no longer shared prefix contains."""


def fit_trace(trace: Trace) -> TraceFit:
    """Return rate, burstiness, lengths and common prefixes of a trace.

    Source: moments; Kolmogorov-Smirnov distance; own count of shared beginnings.
    """
    inputs, outputs = (np.array([pair[k] for pair in trace.pairs], dtype=np.float64) for k in (0, 1))
    fits = _length_fit(inputs), _length_fit(outputs)
    lognormal = max(fit.distance for fit in fits) <= _LOGNORMAL_DISTANCE
    gaps = np.diff(trace.times_s)
    bursty = gaps.size > 1 and gaps.mean() > 0
    spread = len(trace.pairs) > 1 and min(fit.sigma for fit in fits) > 0
    return TraceFit(
        num_requests=len(trace.pairs),
        duration_s=trace.duration_s,
        rate_per_s=trace.rate_per_s,
        burstiness_cv=float(gaps.std() / gaps.mean()) if bursty else None,
        inputs=fits[0],
        outputs=fits[1],
        lengths="lognormal" if lognormal else "empirical",
        length_correlation=float(np.corrcoef(np.log(inputs), np.log(outputs))[0, 1]) if spread else None,
        prefix_hit_fraction=None
        if (contents := contents_of(trace)) is None
        else mean_reused_tokens(contents) / trace.mean_input_tokens,
        num_shared_prefixes=None if trace.hash_ids is None else _num_shared(trace.hash_ids),
    )


def shared_prefixes_like(fit: TraceFit, num_requests: int) -> SharedPrefixes | None:
    """Return prefixes of one length that give `num_requests` requests the trace's hits in an unlimited cache; None if
    its prompts share nothing, or do not say what they share.

    With K of them among N requests, a share h of all tokens is hit if each is h · mean / (1 − K/N) tokens long.

    Source: own definition.
    """
    if not (fit.prefix_hit_fraction and fit.num_shared_prefixes):
        return None
    num_prefixes = min(fit.num_shared_prefixes, max(1, num_requests // 2))
    share = fit.prefix_hit_fraction / (1.0 - num_prefixes / num_requests)
    return SharedPrefixes(max(1, round(min(0.95, share) * fit.inputs.mean_tokens)), num_prefixes)


def synthetic(trace: Trace, fit: TraceFit, num_requests: int) -> Workload:
    """Return traffic similar to a trace: gamma gaps, fitted or resampled lengths, and equal hits in an unlimited cache.

    Raises: AdvisorError: all requests of the trace come at once.
    Source: own definition.
    """
    if fit.rate_per_s is None:
        raise AdvisorError(
            "the trace has no rate", why="all of its requests come at once", fix="a longer one"
        )
    arrivals = Gamma(fit.rate_per_s, max(fit.burstiness_cv or 1.0, 0.05))
    prefixes = shared_prefixes_like(fit, num_requests)
    own_mean = fit.inputs.mean_tokens - (prefixes.num_tokens if prefixes else 0)
    lengths: LognormalLengths | EmpiricalLengths
    if fit.lengths == "lognormal":
        lengths = LognormalLengths(
            max(1, round(own_mean)),
            max(1, round(fit.outputs.mean_tokens)),
            sigma=max(fit.inputs.sigma, 1e-3),
            output_sigma=max(fit.outputs.sigma, 1e-3),
        )
    else:
        part = own_mean / fit.inputs.mean_tokens
        lengths = EmpiricalLengths([(max(1, round(part * pair[0])), pair[1]) for pair in trace.pairs])
    return Workload(arrivals, lengths, num_requests, prefixes)


def _length_fit(tokens: NDArray[np.float64]) -> LengthFit:
    logs = np.log(tokens)
    sigma = float(logs.std())
    mean = float(tokens.mean())
    ordered = np.sort(tokens)
    if sigma > 0:
        location = math.log(mean) - sigma**2 / 2.0
        expected = [
            0.5 * math.erfc((location - value) / (sigma * math.sqrt(2.0))) for value in np.log(ordered)
        ]
        at_most = np.searchsorted(ordered, ordered, side="right") / len(ordered)
        below = np.searchsorted(ordered, ordered, side="left") / len(ordered)
        distance = float(max(np.max(at_most - expected), np.max(np.array(expected) - below)))
    else:
        distance = 0.0
    p50, p99 = np.quantile(tokens, [0.5, 0.99]).tolist()
    return LengthFit(mean, sigma, p50, p99, int(ordered[-1]), distance)


def _num_shared(hash_ids: Sequence[Sequence[int]]) -> int:
    """Number of longest prefixes that at least two prompts share."""
    contents = hashed_contents(hash_ids, [len(ids) for ids in hash_ids], 1)
    parents = contents.tree.parents
    uses = [0] * len(parents)
    for leaf in contents.prompts:
        uses[leaf] += 1
    for node in range(len(parents) - 1, 0, -1):
        uses[parents[node]] += uses[node]
    shared = [node for node in range(1, len(parents)) if uses[node] > 1]
    continued = {parents[node] for node in shared}
    return sum(node not in continued for node in shared)
