"""One replica, or a fleet of unlike ones, under one load: the runs that a capacity rests on, and how near they come to
the objectives.
"""

import math
from array import array
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from hashlib import blake2b
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from advisor.decide.conversations import conversations_at
from advisor.decide.effort import spend
from advisor.decide.scenario import Objectives, ServiceLevel, Traffic, lognormal_quantile
from advisor.simulator.disaggregation import DisaggregatedModel
from advisor.simulator.replica_model import ReplicaModel
from advisor.simulator.serving import (
    ClosedLoop,
    Distribution,
    EmpiricalLengths,
    FixedLengths,
    Lengths,
    LognormalLengths,
    Poisson,
    ServingResult,
    Slo,
    Workload,
    simulate,
)
from advisor.simulator.serving.arrivals import TraceArrivals, most_requests
from advisor.simulator.serving.content import Contents, SharedPrefixes
from advisor.simulator.serving.disaggregated import simulate_disaggregated
from advisor.simulator.serving.fleet import Pool
from advisor.simulator.serving.lengths import context_spread
from advisor.simulator.serving.metrics import pool_runs
from advisor.simulator.serving.trace_files import Trace, read_trace
from advisor.simulator.serving.trace_replay import share_of_replay
from advisor.simulator.step_cost import StepSurface

_CLIENT_ROUNDS = 10
"""Requests per client of a closed loop, as the usual benchmark client sends them."""
_TAIL_PERCENT = 99
_REFUSED_FRACTION = 0.01
"""Fraction of requests that a 99th percentile ignores: those too long for the cache or the token budget."""
_GIVE_UP_FRACTION = 0.02
"""Abandon a run once 2 % of its requests miss TTFT or TPOT: the p99 can no longer hold. Of several runs judged
together, one is abandoned at their number times 1 %."""

_MIN_REQUESTS_PER_SHARE = 200
"""Minimum requests per share in a run over several shares."""
_REMEMBERED_RUNS: Final = 512
"""Runs that a process remembers for its next questions: one has 100 to 400, and most of them stand in the next question
about the same model again. Together they take some 30 MB."""
_SAMPLED_CHUNKS = 8
"""Number of chunks of 4,096 sampled lengths each, from which the requests of a range are drawn if no trace has them."""


@dataclass(frozen=True, slots=True)
class LoadShare:
    """Equal replicas that serve the requests of one range of prompts."""

    replica: ReplicaModel
    traffic: Traffic
    fraction: float
    """Fraction of all requests that this share serves."""
    num_replicas: int


@dataclass(frozen=True, slots=True)
class SplitModel:
    """Pools behind a router that sends each request where prompts of its length go."""

    shares: tuple[LoadShare, ...]


Served = ReplicaModel | DisaggregatedModel | SplitModel
"""The system that serves a load: one replica, or pools together."""


_CLIENTS_SLACK: Final = 2.0
"""Times the clients that keep a replica busy by Little's law up to which numbers of clients are tried."""

_SURE_FACTOR: Final = 2.0
"""Clients held for each that is asked for, see `sure_clients`."""


def busy_clients(traffic: Traffic, objectives: Objectives, bound_per_s: float) -> float:
    """Clients that keep a replica busy where every answer takes what the objectives allow; as many as there are where
    they allow anything.

    clients = rate · time of an answer (Little's law)

    Source: Little's law.
    Assumes: one answer in a hundred may take any time, but the mean stays below twice what 99 keep.
    """
    limits = {each.metric: each.limit_s for each in objectives.levels if each.percent == _TAIL_PERCENT}
    apart_s = limits.get("ttft", math.inf) + traffic.mean_output_tokens * limits.get("tpot", math.inf)
    answer_s = min(apart_s, limits.get("e2e", math.inf))
    return max(1.0, bound_per_s * answer_s) if answer_s < math.inf else float(traffic.concurrency or 1)


def most_clients(
    traffic: Traffic, objectives: Objectives, headroom_fraction: float, bound_per_s: float
) -> int:
    """Return the most clients of a replica that are worth trying: enough to see how surely it holds those that the
    question asks for, and no more than could be answered in time at `bound_per_s`, the most requests per second of the
    replica.
    """
    sure = math.ceil(sure_clients(traffic.concurrency or 1, headroom_fraction))
    return min(sure, math.ceil(_CLIENTS_SLACK * busy_clients(traffic, objectives, bound_per_s)))


def sure_clients(num_clients: float, headroom_fraction: float) -> float:
    """Return the clients that a replica must hold so that it surely holds `num_clients` with the headroom.

    Source: own definition; the 80 % intervals of predicted throughput reach down to about half.
    """
    return _SURE_FACTOR * num_clients / (1.0 - headroom_fraction)


def run_at(
    served: Served,
    traffic: Traffic,
    load: float,
    num_requests: int,
    seed: int,
    *,
    objectives: Objectives | None = None,
    spacing_s: float = 0.0,
    give_up_fraction: float = _GIVE_UP_FRACTION,
) -> ServingResult:
    """Simulate a replica, or pools, under a load: requests per second, or clients where the traffic is a closed loop.

    Arrivals are Poisson, or those of a trace at its own instants, bursts and shared prefixes included.

    With objectives the run ends as soon as it is certain that a 99th percentile misses one. Clients begin
    `spacing_s` apart: people do not all press the key at once, as a benchmark does.
    """
    if isinstance(served, SplitModel):
        run = partial(_run_of_shares, served, load, num_requests, seed)
        return run(objectives=objectives, give_up_fraction=give_up_fraction)
    workload = workload_of(traffic, load, num_requests, seed, spacing_s=spacing_s)
    if objectives is None:
        return _simulate_served(served, workload, seed)
    tail = max(_TAIL_PERCENT, *(each.percent for each in objectives.levels))
    tails = {each.metric: each.limit_s for each in objectives.levels if each.percent == tail}
    limits = {f"{metric}_s": limit for metric, limit in tails.items() if metric != "itl"}
    if not limits:
        return _simulate_served(served, workload, seed)
    allowed = int(give_up_fraction * workload.num_requests)
    return _simulate_served(served, workload, seed, Slo(**limits), allowed)


def workload_of(
    traffic: Traffic, load: float, num_requests: int, seed: int, *, spacing_s: float = 0.0
) -> Workload:
    """Return the requests of a traffic at a load: a rate [1/s], or clients that begin `spacing_s` apart."""
    if traffic.concurrency is None:
        return _open_loop(traffic, load, num_requests, seed)
    clients = max(1, round(load))
    count = max(num_requests, _CLIENT_ROUNDS * clients)
    lengths = _stratified_lengths(traffic, count, seed) if traffic.has_heavy_tail else lengths_of(traffic)
    return Workload(_clients(clients, spacing_s), lengths, count, _shared_prefixes(traffic))


def _run_of_shares(
    served: SplitModel,
    load: float,
    num_requests: int,
    seed: int,
    *,
    objectives: Objectives | None,
    give_up_fraction: float,
) -> ServingResult:
    """Simulate one replica of each share under its part of the load, and return the results together, as the router's
    clients see them.

    Assumes: replicas of a share get equal parts, each a Poisson stream of its own, as replicas of one kind do.
    """
    length = max(
        num_requests, math.ceil(_MIN_REQUESTS_PER_SHARE / min(each.fraction for each in served.shares))
    )
    allowed = give_up_fraction * length
    results = list[ServingResult]()
    for each in served.shares:
        count = max(1, round(length * each.fraction))
        rate = load * each.fraction / each.num_replicas
        run = partial(run_at, each.replica, each.traffic, rate, count, seed)
        results.append(run(objectives=objectives, give_up_fraction=max(0.0, allowed / count)))
        allowed -= results[-1].num_violations
        if results[-1].gave_up:
            break
    counts = [each.num_replicas for each in served.shares[: len(results)]]
    steady = [result.steady_requests_per_s for result in results]
    tokens = [result.steady_output_tokens_per_s for result in results]
    changes: dict[str, Any] = {
        "steady_requests_per_s": _total(steady, counts),
        "steady_output_tokens_per_s": _total(tokens, counts),
    }
    for name in ("busy_fraction", "mean_batch", "mean_kv_tokens"):
        values = [getattr(result, name) for result in results]
        changes[name] = float(np.average(values, weights=counts))
    return replace(pool_runs(results), **changes)


def _total(rates: list[float | None], counts: list[int]) -> float | None:
    known = [rate * count for rate, count in zip(rates, counts, strict=True) if rate is not None]
    return sum(known) if len(known) == len(counts) else None


def _simulate_served(
    served: ReplicaModel | DisaggregatedModel,
    workload: Workload,
    seed: int,
    slo: Slo | None = None,
    limit: int | None = None,
) -> ServingResult:
    run = _remembered_run if _is_drawn(workload) else _simulate
    result = run(_RunKey(served, workload), seed, slo, limit)
    # Of remembered runs too: an answer is the same whenever it is asked for.
    spend(result.num_events + result.num_requests)
    return result


def _is_drawn(workload: Workload) -> bool:
    """Whether arrivals and contents follow from distributions and the seed, so that the workload has a short key."""
    return isinstance(workload.arrivals, Poisson | ClosedLoop) and not isinstance(workload.contents, Contents)


class _RunKey:
    """A replica, or two pools, with its requests as a key: equal step times and listed lengths have equal digests."""

    __slots__ = ("digest", "rest", "served", "workload")

    def __init__(self, served: ReplicaModel | DisaggregatedModel, workload: Workload) -> None:
        self.served: ReplicaModel | DisaggregatedModel | None = served
        self.workload: Workload | None = workload
        parts: tuple[ReplicaModel | Pool, ...]
        if isinstance(served, DisaggregatedModel):
            parts = served.prefill, served.decode
            fleet: tuple[object, ...] = (served.prefill.num_replicas, served.decode.num_replicas, served.link)
        else:
            parts = (served,)
            fleet = ()
        found = blake2b(digest_size=32)
        for part in parts:
            for name in StepSurface.__slots__:
                value = getattr(part.surface, name)
                is_table = not isinstance(value, int | float | None)
                found.update(array("q", value).tobytes() if is_table else repr(value).encode())
        lengths: object = workload.lengths
        if isinstance(lengths, EmpiricalLengths):
            found.update(lengths.table_bytes())
            lengths = len(lengths.pairs), lengths.in_order
        requests = workload.arrivals, lengths, workload.num_requests, workload.contents
        self.rest = (*(part.policy for part in parts), *fleet, *requests)
        self.digest = found.digest()

    def __hash__(self) -> int:
        return hash((self.digest, self.rest))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _RunKey) and (self.digest, self.rest) == (other.digest, other.rest)


def _simulate(key: _RunKey, seed: int, slo: Slo | None, limit: int | None) -> ServingResult:
    served = key.served
    workload = key.workload
    key.served = key.workload = None  # the key outlives the question
    assert workload is not None
    if isinstance(served, DisaggregatedModel):
        run = partial(simulate_disaggregated, served.prefill, served.decode, served.link)
    else:
        assert served is not None
        run = partial(simulate, served.surface, served.policy)
    return run(workload, seed=seed, slo=slo, give_up_after_violations=limit)


_remembered_run = lru_cache(maxsize=_REMEMBERED_RUNS)(_simulate)


def lengths_of(traffic: Traffic) -> FixedLengths | LognormalLengths | EmpiricalLengths:
    """The length distribution of a traffic behind shared beginnings: a trace's pairs, lognormal around the means, or
    fixed without spread; of a range of prompts those that are in it.
    """
    if traffic.part is not None:
        return _lengths_in_range(traffic)
    if traffic.trace is not None:
        return EmpiricalLengths(read_trace(traffic.trace).pairs)
    common = traffic.shared_prefix_tokens
    outputs = traffic.mean_output_tokens
    inputs = traffic.own_input_tokens
    most = traffic.max_input_tokens
    if traffic.input_sigma <= 0 and traffic.output_sigma <= 0:
        return FixedLengths(inputs, outputs)
    tiny = 1e-3  # a lognormal needs a spread; this one stays within a token
    return LognormalLengths(
        inputs,
        outputs,
        sigma=max(traffic.input_sigma, tiny),
        output_sigma=max(traffic.output_sigma, tiny),
        max_input_tokens=None if most is None else most - common,
        max_output_tokens=traffic.max_output_tokens,
    )


@lru_cache(maxsize=16)
def prompt_pairs(traffic: Traffic) -> NDArray[np.int64]:
    """Tokens of prompts, shared beginnings included, and of their answers: a trace's, or many drawn ones."""
    part = traffic.part
    if part is not None:
        pairs = prompt_pairs(part.whole)
        most = pairs[:, 0].max() if part.to_tokens is None else part.to_tokens
        inside: NDArray[np.int64] = pairs[(pairs[:, 0] >= part.from_tokens) & (pairs[:, 0] <= most)]
        return inside
    if traffic.trace is not None:
        return np.array(read_trace(traffic.trace).pairs)
    inputs = np.random.default_rng([0, 0])
    outputs = np.random.default_rng([0, 1])
    drawn = islice(lengths_of(traffic).chunks(inputs, outputs), _SAMPLED_CHUNKS)
    own: NDArray[np.int64] = np.concatenate([np.stack(chunk, axis=1) for chunk in drawn])
    own[:, 0] += traffic.shared_prefix_tokens
    return own


@lru_cache(maxsize=64)
def spread_of_contexts(traffic: Traffic) -> float:
    """Standard deviation over mean of the contexts of a traffic's requests that decode together."""
    return context_spread(lengths_of(traffic), traffic.shared_prefix_tokens)


@lru_cache(maxsize=16)
def _lengths_in_range(traffic: Traffic) -> EmpiricalLengths:
    own = prompt_pairs(traffic) - np.array([traffic.shared_prefix_tokens, 0])
    return EmpiricalLengths(tuple(map(tuple, own.tolist())))


def strain(result: ServingResult, objectives: Objectives) -> tuple[float, str]:
    """How near a run comes to its tightest objective, as a ratio that is above 1 where it misses, and which it is."""
    if result.num_refused > _REFUSED_FRACTION * result.num_requests:
        return math.inf, "kv cache"
    ratios = [(percentile_s(result, level) / level.limit_s, level.metric) for level in objectives.levels]
    return max(((ratio, name) for ratio, name in ratios if math.isfinite(ratio)), default=(0.0, "throughput"))


def odds_of_missing(result: ServingResult, objectives: Objectives) -> tuple[float, str]:
    """Return the odds that a request misses the tightest objective over those that it allows, above 1 where the run
    misses it, and which it is. A run without a miss counts half of one."""
    if result.num_refused > _REFUSED_FRACTION * result.num_requests:
        return math.inf, "kv cache"
    ratios = [(0.0, "throughput")]
    for level in objectives.levels:
        times: Distribution = getattr(result, level.metric)
        if not times.num_samples:
            continue
        least = 0.5 / times.num_samples
        missed = min(1.0 - least, max(least, times.fraction_above(level.limit_s)))
        allowed = max(least, 1.0 - level.percent / 100.0)
        ratios.append((missed / (1.0 - missed) * (1.0 - allowed) / allowed, level.metric))
    return max(ratios)


def percentile_s(result: ServingResult, level: ServiceLevel) -> float:
    """The percentile of a run that an objective speaks of [s]."""
    times: Distribution = getattr(result, level.metric)
    return times.percentile_s(level.percent)


def _clients(count: int, spacing_s: float) -> ClosedLoop:
    return ClosedLoop(count, "staggered", count * spacing_s) if spacing_s > 0 else ClosedLoop(count)


def _open_loop(traffic: Traffic, load: float, num_requests: int, seed: int) -> Workload:
    """One replica's share of a trace that has a rate, or of conversations that stay with it, or Poisson arrivals."""
    talk = traffic.conversations
    if talk is not None:
        window = traffic.longest_request_tokens
        return conversations_at(talk, lengths_of(talk.turn), window, load, num_requests, seed)
    if traffic.trace is not None:
        trace = trace_of(traffic)
        if trace.rate_per_s is not None:
            return share_of_replay(trace, load, num_requests, seed)
    num_requests = min(num_requests, most_requests(load))
    lengths = (
        _stratified_lengths(traffic, num_requests, seed) if traffic.has_heavy_tail else lengths_of(traffic)
    )
    return Workload(Poisson(load), lengths, num_requests, _shared_prefixes(traffic))


@lru_cache(maxsize=64)
def arrivals_per_s(traffic: Traffic, load: float, num_requests: int, seed: int) -> float:
    """Return the rate at which the requests of a run come between its first and its last tenth [1/s]: of a trace that
    of the hours which lie there, else the load."""
    if traffic.trace is None or traffic.conversations is not None or trace_of(traffic).rate_per_s is None:
        return load
    arrivals = workload_of(traffic, load, num_requests, seed).arrivals
    assert isinstance(arrivals, TraceArrivals)
    times_s = arrivals.times_s
    first = len(times_s) // 10
    span_s = times_s[-1 - first] - times_s[first]
    return (len(times_s) - 1 - 2 * first) / span_s if span_s > 0.0 else load


@lru_cache(maxsize=64)
def _stratified_lengths(traffic: Traffic, num_requests: int, seed: int) -> Lengths:
    """Lengths of a run of prompts with a heavy tail: its share of every length, in random order, since how many of the
    longest a short run happens to draw would decide its 99th percentile. Those of a trace as they are drawn.

    Source: stratified sampling (Cochran, Sampling Techniques, 1977, chapter 5): as right in the mean, less by chance.
    """
    lengths = lengths_of(traffic)
    if not isinstance(lengths, LognormalLengths):
        return lengths
    random = np.random.default_rng([seed, num_requests])
    prompts = lengths.input_tokens, lengths.sigma, lengths.max_input_tokens
    answers = lengths.output_tokens, lengths.output_sigma or lengths.sigma, lengths.max_output_tokens
    columns = []
    for mean, sigma, most in (prompts, answers):
        parts = (random.permutation(num_requests) + random.random(num_requests)) / num_requests
        columns.append(
            [max(1, round(lognormal_quantile(mean, sigma, most, part))) for part in parts.tolist()]
        )
    return EmpiricalLengths(tuple(zip(*columns, strict=True)), in_order=True)


def _shared_prefixes(traffic: Traffic) -> SharedPrefixes | None:
    """The beginnings that prompts of a traffic share, cached at first; None where they share none."""
    common = traffic.shared_prefix_tokens
    return SharedPrefixes(common, traffic.shared_prefixes, is_warm=True) if common else None


@lru_cache(maxsize=16)
def trace_of(traffic: Traffic) -> Trace:
    """The requests of a traffic's trace; of a range of prompts those that are in it, at their own instants."""
    assert traffic.trace is not None
    trace = read_trace(traffic.trace)
    part = traffic.part
    if part is None:
        return trace
    least = part.from_tokens
    most = part.to_tokens or math.inf
    kept = [place for place, (prompt, _) in enumerate(trace.pairs) if least <= prompt <= most]
    begin = trace.times_s[kept[0]]
    return Trace(
        tuple(trace.times_s[place] - begin for place in kept),
        tuple(trace.pairs[place] for place in kept),
        None if trace.hash_ids is None else tuple(trace.hash_ids[place] for place in kept),
        block_tokens=trace.block_tokens,
        has_times=trace.has_times,
    )
