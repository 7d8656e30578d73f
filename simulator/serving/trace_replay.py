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
_LEAST_IN_STRETCH = 25
"""Consecutive requests of a replayed stretch, at least: bursts are shorter."""
_MOST_STRETCHES = 24
"""Stretches of a trace that are replayed, at most: one for each hour of a day."""
_LEAST_IN_WARM_STRETCH = 300
"""Consecutive requests of a replayed stretch, at least, where prompts share prefixes: what a cache holds comes from the
requests before. Four stretches of 75 find a third of what the whole of a trace of conversations does."""


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


def share_of_replay(trace: Trace, rate_per_s: float, num_requests: int, seed: int = 0) -> Workload:
    """Return one replica's share of a trace at a mean rate: every n-th request at its own instants.

    n is the nearest whole number; time is stretched by the rest. Of a share with more requests than `num_requests`,
    stretches of consecutive ones from all of it follow each other, so that hours of much and of little traffic count as
    in the whole; a seed moves them. A share with fewer continues with the shares of further replicas, up to the whole
    trace. If prompts share prefixes, half of `num_requests` further requests, those before the stretches, only leave
    their prompts in the cache.

    Raises: AdvisorError: all requests of the trace come at once.
    Source: own definition; a router that deals requests out in turn thins bursts as it thins the rate. Stretches:
        stratified sampling of clusters (Cochran, Sampling Techniques, 1977, chapters 5 and 9).
    """
    if trace.rate_per_s is None:
        raise AdvisorError(
            "the trace has no rate", why="all of its requests come at once", fix="a number of clients"
        )
    every = max(1, min(len(trace.pairs), round(trace.rate_per_s / rate_per_s)))
    stretch = trace.rate_per_s / every / rate_per_s
    per_share = len(trace.pairs) // every
    num_shares = min(every, math.ceil(num_requests / per_share))
    indices = np.concatenate([np.arange(offset, len(trace.pairs), every) for offset in range(num_shares)])
    shared = trace.hash_ids is not None
    warming, chosen = _stretches(len(indices), num_requests, seed, warms=shared)
    gaps_s = np.diff(np.array(trace.times_s)[indices], prepend=0.0)
    gaps_s[gaps_s < 0.0] = every / trace.rate_per_s  # the share of the next replica begins
    times_s = np.cumsum(gaps_s[chosen]) * stretch
    return _pick_requests(trace, indices[chosen].tolist(), times_s, indices[warming].tolist())


def _stretches(
    num_all: int, num_requests: int, seed: int, *, warms: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of the requests that only warm a cache, and of those that are replayed: a stretch somewhere in
    each part of a share, behind its own of the former. Stretches at equal distances would skip every burst alike."""
    least = _LEAST_IN_WARM_STRETCH if warms else _LEAST_IN_STRETCH
    number = min(_MOST_STRETCHES, max(1, num_requests // least))
    num_requests = min(num_requests, num_all)
    num_warming = min(num_requests // 2, num_all // 3) if warms else 0
    num_requests = min(num_requests, num_all - num_warming)
    bounds = np.arange(number + 1)
    begins = bounds * num_requests // number
    warm_begins = bounds * num_warming // number
    slack = num_all - num_requests - num_warming
    turns = np.random.default_rng(seed).random(number)
    skipped = ((bounds[:-1] + turns) * slack / number).astype(np.int64)
    warming = [
        np.arange(warm_begins[each], warm_begins[each + 1]) + begins[each] + skipped[each]
        for each in range(number)
    ]
    chosen = [
        np.arange(begins[each], begins[each + 1]) + warm_begins[each + 1] + skipped[each]
        for each in range(number)
    ]
    return np.concatenate(warming), np.concatenate(chosen)


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
