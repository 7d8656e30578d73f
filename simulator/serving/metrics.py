"""Metrics: from finished requests and token gaps to records, distributions and rates."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.units import PICOSECONDS_PER_S
from advisor.simulator.serving.distribution import Distribution
from advisor.simulator.serving.policy import Slo

IntColumn = NDArray[np.int64]
NUM_FIELDS = 8
VISIBLE, INDEX, INPUT, OUTPUT, ADMITTED, FIRST, END = range(NUM_FIELDS - 1)
"""Columns of the row of a finished request; preemptions come last."""


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Finished requests in order of arrival: instants [ps], lengths [tokens], preemptions.

    Source: own definition, after the data records of Ciw.
    """

    index: IntColumn
    arrived_ps: IntColumn
    admitted_ps: IntColumn
    first_token_ps: IntColumn
    finished_ps: IntColumn
    input_tokens: IntColumn
    output_tokens: IntColumn
    num_preemptions: IntColumn

    def __len__(self) -> int:
        return len(self.index)

    def equals(self, other: "Records") -> bool:
        """Whether every field of every record is the same."""
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in self.__slots__)

    def rows(self) -> Iterator[dict[str, float | int | None]]:
        """Yield flat dictionaries: instants `*_at_s`, durations `*_s`; tpot_s is None for a single output token."""
        columns = [getattr(self, name).tolist() for name in self.__slots__]
        for index, arrived, admitted, first, finished, inputs, outputs, preemptions in zip(
            *columns, strict=True
        ):
            yield {
                "request": index,
                "arrived_at_s": arrived / PICOSECONDS_PER_S,
                "admitted_at_s": admitted / PICOSECONDS_PER_S,
                "first_token_at_s": first / PICOSECONDS_PER_S,
                "finished_at_s": finished / PICOSECONDS_PER_S,
                "queueing_s": (admitted - arrived) / PICOSECONDS_PER_S,
                "ttft_s": (first - arrived) / PICOSECONDS_PER_S,
                "tpot_s": (finished - first) / (outputs - 1) / PICOSECONDS_PER_S if outputs > 1 else None,
                "e2e_s": (finished - arrived) / PICOSECONDS_PER_S,
                "input_tokens": inputs,
                "output_tokens": outputs,
                "num_preemptions": preemptions,
            }


def records_of(parts: Sequence[NDArray[np.int64]]) -> Records:
    """Return records from blocks of rows as the recorder keeps them, ordered by request.

    Source: own definition.
    """
    table = np.concatenate(parts) if parts else np.empty((0, NUM_FIELDS), dtype=np.int64)
    table = table[np.argsort(table[:, 1], kind="stable")]
    arrived, index, inputs, outputs, admitted, first_token, finished, preemptions = table.T.copy()
    return Records(index, arrived, admitted, first_token, finished, inputs, outputs, preemptions)


NUM_GAP_FIELDS = 6


class Recorder:
    """Recorder of what replicas report, in blocks; its memory does not grow with the number of requests."""

    def __init__(
        self,
        *,
        api_overhead_ps: int,
        slo: Slo | None,
        keep: bool,
        num_expected: int = 0,
        ramp: int = 0,
        full_from_ps: int | None = None,
        waits: dict[int, int] | None = None,
    ) -> None:
        self.ttft = Distribution()
        self.tpot = Distribution()
        self.e2e = Distribution()
        self.queueing = Distribution()
        self.itl = Distribution()
        self.api_overhead_ps = api_overhead_ps
        self.waits = {} if waits is None else waits
        """Waits of requests at the front end by index [ps], on top of api_overhead_ps; those without one are left
        out."""
        self.slo = slo
        self.num_finished = self.num_violations = 0
        self.input_tokens = self.output_tokens = 0
        self.last_end_ps = 0
        self.context_sum = 0
        """Cached tokens that decoding attended to, summed over iterations."""
        self.max_context = 0
        self.full_from_ps = full_from_ps
        """Instant from which as many requests are under way as there are clients [ps]; None in an open loop."""
        self.marks = [num_expected - ramp] if full_from_ps is not None else [ramp, num_expected - ramp]
        """Numbers of completions at which the steady state begins and ends; that of a closed loop begins at once."""
        self.late_from = num_expected // 2
        """Number of the first request of the second half of the load."""
        self.num_late = self.late_queueing_ps = 0
        self.mark_ps: list[int] = []
        self.mark_tokens: list[int] = []
        self.begun_requests = self.begun_tokens = 0.0
        """Requests, and their output tokens, that are under way when a closed loop's steady state ends: of each the
        fraction of its time since admission that has passed."""
        self.parts: list[NDArray[np.int64]] | None = [] if keep else None

    def take_finished(self, flat: list[int]) -> None:
        """Take in finished requests in order of completion, and empty the list."""
        if not flat:
            return
        rows = np.array(flat, np.int64).reshape(-1, NUM_FIELDS)
        flat.clear()
        self.take_rows(rows)

    def take_rows(self, rows: IntColumn) -> NDArray[np.bool_]:
        """Take in finished requests in order of completion; return which of them met the objective.

        The first column then holds their arrivals.
        """
        rows[:, VISIBLE] = self._arrivals(rows)
        for index in rows[:, INDEX].tolist() if self.waits else ():
            self.waits.pop(index, None)
        arrived = rows[:, VISIBLE]
        first = rows[:, FIRST]
        end = rows[:, END]
        outputs = rows[:, OUTPUT]
        ttft = first - arrived
        e2e = end - arrived
        several = outputs > 1
        tpot = (end - first)[several] // (outputs[several] - 1)
        good = self._meets_objective(ttft, e2e, tpot, several)
        self.ttft.add(ttft)
        self.e2e.add(e2e)
        self.tpot.add(tpot)
        queueing = rows[:, ADMITTED] - arrived
        self.queueing.add(queueing)
        late = queueing[rows[:, INDEX] >= self.late_from]
        self.num_late += len(late)
        self.late_queueing_ps += int(late.sum())
        self._mark(rows[:, ADMITTED], end, outputs)
        self.num_finished += len(rows)
        self.input_tokens += int(rows[:, INPUT].sum())
        self.output_tokens += int(outputs.sum())
        self.last_end_ps = max(self.last_end_ps, int(end.max()))
        if self.slo is not None:
            self.num_violations += len(rows) - int(good.sum())
        if self.parts is not None:
            self.parts.append(rows)
        return good

    def count_violations(self, flat: list[int]) -> int:
        """Return how many of finished requests missed the objective, without taking them in."""
        rows = np.array(flat, np.int64).reshape(-1, NUM_FIELDS)
        arrived = self._arrivals(rows)
        first = rows[:, FIRST]
        end = rows[:, END]
        outputs = rows[:, OUTPUT]
        several = outputs > 1
        tpot = (end - first)[several] // (outputs[several] - 1)
        good = self._meets_objective(first - arrived, end - arrived, tpot, several)
        return len(rows) - int(np.count_nonzero(good))

    def _arrivals(self, rows: IntColumn) -> IntColumn:
        """Return the instants at which requests were sent [ps]."""
        sent = rows[:, VISIBLE] - self.api_overhead_ps
        if self.waits:
            sent -= np.array([self.waits.get(index, 0) for index in rows[:, INDEX].tolist()], np.int64)
        return sent

    def _meets_objective(
        self, ttft: IntColumn, e2e: IntColumn, tpot: IntColumn, several: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Return which requests met the objective, by their times [ps]; `tpot` is that of those with several tokens."""
        good = np.ones(len(ttft), dtype=np.bool_)
        slo = self.slo
        if slo is None:
            return good
        if slo.ttft_s is not None:
            good &= ttft <= slo.ttft_s * PICOSECONDS_PER_S
        if slo.e2e_s is not None:
            good &= e2e <= slo.e2e_s * PICOSECONDS_PER_S
        if slo.tpot_s is not None:
            good[several] &= tpot <= slo.tpot_s * PICOSECONDS_PER_S
        return good

    def take_gaps(self, flat: list[int]) -> None:
        """Take in decode runs, inter-token times and cached tokens, and empty the list."""
        if not flat:
            return
        runs = np.array(flat, np.int64).reshape(-1, NUM_GAP_FIELDS)
        flat.clear()
        first, slope, num_iterations, num_sequences, context, growth = (
            runs[:, i] for i in range(NUM_GAP_FIELDS)
        )
        self.itl.add_runs(first, slope, num_iterations, num_sequences)
        last = context + growth * (num_iterations - 1)
        self.context_sum += int(((context + last) * num_iterations).sum()) // 2
        self.max_context = max(self.max_context, int(last.max()))

    def merge(self, other: "Recorder") -> None:
        """Take in the contents of another recorder; steady rates are lost."""
        for name in ("ttft", "tpot", "e2e", "queueing", "itl"):
            getattr(self, name).merge(getattr(other, name))
        for name in ("num_finished", "num_violations", "input_tokens", "output_tokens", "context_sum"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.last_end_ps = max(self.last_end_ps, other.last_end_ps)
        self.max_context = max(self.max_context, other.max_context)
        self.mark_ps = []
        if self.parts is not None and other.parts is not None:
            self.parts += other.parts

    def steady_rates(self) -> tuple[float | None, float | None]:
        """Requests and output tokens per second in the steady state [1/s]; None if there is no such span.

        Requests of a closed loop end in waves. Completions between two marks would count a wave wholly or not at all,
        up to 60 % of the rate where each client sends four requests; the work that is under way counts instead.
        """
        if len(self.mark_ps) < len(self.marks) or self.marks[0] < 1:
            return None, None
        tokens = float(self.mark_tokens[-1])
        if self.full_from_ps is None:
            begin_ps = self.mark_ps[0]
            requests = float(self.marks[-1] - self.marks[0])
            tokens -= self.mark_tokens[0]
        else:
            begin_ps = self.full_from_ps
            requests = self.marks[0] + self.begun_requests
            tokens += self.begun_tokens
        span_s = (self.mark_ps[-1] - begin_ps) / PICOSECONDS_PER_S
        return (requests / span_s, tokens / span_s) if span_s > 0.0 else (None, None)

    def late_queueing_s(self) -> float | None:
        """Mean wait of the second half of the requests [s]; None if none of them finished."""
        return self.late_queueing_ps / self.num_late / PICOSECONDS_PER_S if self.num_late else None

    def goodput_fraction(self) -> float | None:
        """Fraction of finished requests that met the objective; None without an objective or without requests."""
        if self.slo is None or not self.num_finished:
            return None
        return 1.0 - self.num_violations / self.num_finished

    def records(self) -> Records | None:
        """Records of the finished requests; None if they were not kept."""
        return None if self.parts is None else records_of(self.parts)

    def _mark(self, admitted: IntColumn, end: IntColumn, outputs: IntColumn) -> None:
        """Note instant and tokens at the completions that bound the steady state, and what a closed loop has begun by
        then."""
        for mark in self.marks:
            position = mark - 1 - self.num_finished
            if 0 <= position < len(end):
                self.mark_ps.append(int(end[position]))
                self.mark_tokens.append(self.output_tokens + int(outputs[: position + 1].sum()))
        if self.full_from_ps is not None and self.mark_ps:
            later = slice(max(0, self.marks[0] - self.num_finished), None)
            since = admitted[later]
            passed = np.clip((self.mark_ps[0] - since) / np.maximum(end[later] - since, 1), 0.0, 1.0)
            self.begun_requests += float(passed.sum())
            self.begun_tokens += float((passed * outputs[later]).sum())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServingResult:
    """Result of a simulated run of serving. Times in s; distributions give mean, quantiles and number of samples.

    TTFT counts from arrival, queueing and api overhead included; TPOT = (last - first token) / (output tokens - 1),
    undefined for one token; goodput_fraction is the share of finished requests that met the objective.
    """

    num_requests: int
    """Number of requests that arrived: finished, in flight and refused."""
    num_finished: int
    num_refused: int
    num_in_flight: int
    num_preemptions: int
    num_iterations: int
    """Number of iterations that the engine would run."""
    num_events: int
    """Number of iterations and jumps that the simulator processed."""
    gave_up: bool
    ttft: Distribution
    tpot: Distribution
    e2e: Distribution
    queueing: Distribution
    itl: Distribution
    duration_s: float
    """Time from the first arrival to the last completion [s]."""
    input_tokens: int
    output_tokens: int
    steady_output_tokens_per_s: float | None
    """Output tokens per second, in an open loop without the first and the last tenth of the completions, in a closed
    loop until a client has no further request to send; None if nothing is left."""
    steady_requests_per_s: float | None
    busy_fraction: float
    """Fraction of the time in which a replica computes; its first stage under pipeline parallelism."""
    mean_batch: float
    """Mean number of decoding sequences per iteration: tokens after the first of their requests."""
    mean_kv_tokens: float
    """Cached tokens of decoding sequences, averaged over iterations, per replica."""
    max_kv_tokens: int
    kv_capacity_tokens: int | None
    goodput_fraction: float | None
    num_violations: int
    """Number of finished requests that missed the objective."""
    records: Records | None
    prefix_hit_fraction: float | None = None
    """Fraction of the prompts' tokens that were found in a prefix cache; None without one."""
    num_swaps: int = 0
    """Number of preemptions after which host memory kept the cache."""
    preempted_tokens: int = 0
    """Tokens of the sequences that were preempted, each as often as it was."""
    late_queueing_s: float | None = None
    """Mean wait of the second half of the requests [s]; None if none of them finished."""

    @property
    def output_tokens_per_s(self) -> float:
        """Output tokens over the whole duration [1/s]."""
        return self.output_tokens / self.duration_s if self.duration_s else math.nan

    @property
    def total_tokens_per_s(self) -> float:
        """Input and output tokens of finished requests over the whole duration [1/s]."""
        return (self.input_tokens + self.output_tokens) / self.duration_s if self.duration_s else math.nan

    @property
    def requests_per_s(self) -> float:
        """Finished requests over the whole duration [1/s]."""
        return self.num_finished / self.duration_s if self.duration_s else math.nan


def pool_runs(results: Sequence[ServingResult]) -> ServingResult:
    """Return several runs of one replica under one load as if they were a single long one.

    Distributions and counts are those of all runs, means are over their time.

    Assumes: equal loads of different seeds; records are not kept.
    Raises: ValueError: no run.
    Source: definition.
    """
    if not results:
        raise ValueError("no run to pool")
    first = results[0]
    total_s = sum(result.duration_s for result in results)
    merged = {name: Distribution() for name in ("ttft", "tpot", "e2e", "queueing", "itl")}
    for result in results:
        for name, times in merged.items():
            times.merge(getattr(result, name))
    counts = (
        "num_requests",
        "num_finished",
        "num_refused",
        "num_in_flight",
        "num_preemptions",
        "num_swaps",
        "preempted_tokens",
        "num_iterations",
        "num_events",
        "input_tokens",
        "output_tokens",
        "num_violations",
    )
    means = (
        "steady_output_tokens_per_s",
        "steady_requests_per_s",
        "busy_fraction",
        "mean_batch",
        "mean_kv_tokens",
        "goodput_fraction",
        "prefix_hit_fraction",
        "late_queueing_s",
    )

    changes: dict[str, Any] = {**merged, "records": None, "duration_s": total_s}
    for name in counts:
        changes[name] = sum(getattr(result, name) for result in results)
    for name in means:
        values = [getattr(result, name) for result in results]
        if None not in values and total_s:
            changes[name] = sum(v * r.duration_s for v, r in zip(values, results, strict=True)) / total_s
    changes["gave_up"] = any(result.gave_up for result in results)
    changes["max_kv_tokens"] = max(result.max_kv_tokens for result in results)
    return replace(first, **changes)
