"""Timing of iterations: their duration, when runs of them begin and end on a replica's stages, and when clients get
tokens."""

from array import array
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from advisor.catalog.errors import AdvisorError
from advisor.simulator.serving.batch import MicroBatch, iterations_until, run_ps
from advisor.simulator.serving.policy import SchedulerPolicy
from advisor.simulator.step_cost import StepSurface

NEVER = 1 << 62
"""Instant later than every instant of a simulation [ps]."""


class Pipeline:
    """Stages that iterations pass in order of entry; a stage holds one iteration at a time.

    An iteration enters stage s when it has left stage s-1 (plus the transfer) and stage s is free. Alone it leaves
    after num_stages × (stage time + transfer).

    Assumes: all stages take the same time for one iteration.
    Source: own formulation of a tandem queue.
    """

    def __init__(self, tables: StepSurface, batches: Sequence[MicroBatch]) -> None:
        self.num_stages = tables.num_stages
        self.transfer_ps = tables.stage_transfer_ps
        self.launch_ps = tables.launch_ps
        self.captured_tokens = tables.captured_tokens
        self.launched_ps = 0
        """Instant at which the host is done with the last iteration that it launched itself [ps]."""
        self.slowdown = tables.limited_scale - 1.0
        self.clock_recovery = tables.clock_recovery
        self.full_clock_ps = tables.full_clock_ps
        self.reading_ps = tables.reading_ps
        self.clock_left_ps = tables.full_clock_ps
        self.prompted_ps = 0
        """Work that the board could still do at its full clock when it finished the last prompts, and the instant of
        that [ps]."""
        self.batches = batches
        self.plain = tables.num_stages == 1 and not tables.stage_transfer_ps
        """Whether time in the pipeline is time in its one stage."""
        self.shared = len(batches) > 1
        """Whether several batches can be under way at once."""
        self.slows_prompts = self.slowdown > 0.0 or self.launch_ps > 0
        """Whether an iteration with prefill may take longer than its kernels at the full clock."""
        self.free_ps = [0] * tables.num_stages

    def start(self, batch: MicroBatch, stage_ps: int, slope_ps: int, num_iterations: int) -> None:
        """Begin a run whose iterations take stage_ps, stage_ps + slope_ps, ... in each stage.

        More than one iteration is asked for only where no other batch is under way.
        """
        batch.num_iterations = num_iterations
        if not self.plain:
            batch.stage_ps = stage_ps
            batch.stage_slope_ps = slope_ps
            stage_ps = self.num_stages * (stage_ps + self.transfer_ps)
            slope_ps = self.num_stages * slope_ps
        batch.first_ps = stage_ps
        batch.slope_ps = slope_ps
        if num_iterations == 1:
            batch.end_ps = batch.start_ps + stage_ps
        else:
            batch.end_ps = batch.start_ps + run_ps(stage_ps, slope_ps, num_iterations)
        if self.shared:
            if num_iterations == 1:
                self._queue(batch)
            else:
                self._occupy(batch)

    def prompts_ps(self, batch: MicroBatch, stage_ps: int, num_tokens: int) -> int:
        """Time in one stage of an iteration with prefill that takes stage_ps at the full clock [ps]; an iteration that
        is not captured is launched first."""
        if self.slowdown:
            stage_ps = self._clocked_ps(batch, stage_ps)
        if self.launch_ps and num_tokens > self.captured_tokens:
            stage_ps = self._launched_ps(batch, stage_ps)
        return stage_ps

    def _clocked_ps(self, batch: MicroBatch, stage_ps: int) -> int:
        """Time of an iteration with prefill at the clock that the board has [ps].

        A board draws more than its limit for a while, then it lowers its clock, until it has made up for that.
        """
        rested_ps = max(0, batch.start_ps - self.prompted_ps)
        left_ps = min(self.full_clock_ps, self.clock_left_ps + round(self.clock_recovery * rested_ps))
        beyond_ps = max(0, stage_ps - self.reading_ps) - left_ps
        self.clock_left_ps = max(0, -beyond_ps)
        if beyond_ps > 0:
            stage_ps += round(self.slowdown * beyond_ps)
        self.prompted_ps = batch.start_ps + stage_ps
        return stage_ps

    def _launched_ps(self, batch: MicroBatch, stage_ps: int) -> int:
        """Time of an iteration that ends no sooner than its launches [ps].

        The host begins to launch an iteration once it has composed it, unless it is still busy with earlier launches.
        """
        if not self.plain:
            return max(stage_ps, self.launch_ps)
        self.launched_ps = max(batch.cutoff_ps, self.launched_ps) + self.launch_ps
        return max(stage_ps, self.launched_ps - batch.start_ps)

    def end_at(self, batch: MicroBatch, seen_ps: int) -> None:
        """Shorten a run of several iterations to the first one that ends at seen_ps or later."""
        first_ps = batch.first_ps
        slope_ps = batch.slope_ps
        start_ps = batch.start_ps
        num_iterations = iterations_until(first_ps, slope_ps, seen_ps - start_ps)
        if num_iterations < batch.num_iterations:
            batch.num_iterations = num_iterations
            batch.end_ps = start_ps + run_ps(first_ps, slope_ps, num_iterations)
            if self.shared:
                self._occupy(batch)

    def next_event_ps(self, now_ps: int, head_ps: int) -> int:
        """Earliest end of a run, or start of a batch that waits for the first stage or for a request [ps].

        `head_ps` is the instant from which a request waits. Every run that could start now has started already.
        """
        events = [NEVER]
        for batch in self.batches:
            if batch.running:
                events.append(batch.end_ps)
            else:
                ready_ps = max(self.free_ps[0], head_ps) if batch.is_empty() else self.free_ps[0]
                if ready_ps > now_ps:
                    events.append(ready_ps)
        return min(events)

    def _queue(self, batch: MicroBatch) -> None:
        """Send one iteration through stages that others may hold."""
        instant = batch.start_ps
        free = self.free_ps
        for stage in range(self.num_stages):
            free[stage] = instant = max(instant, free[stage]) + batch.stage_ps
            instant += self.transfer_ps
        batch.end_ps = instant
        batch.first_ps = instant - batch.start_ps

    def _occupy(self, batch: MicroBatch) -> None:
        """Note the instant until which the last iteration of a run that is alone holds each stage."""
        steps = batch.num_iterations - 1
        stage_ps = batch.stage_ps + batch.stage_slope_ps * steps
        left = batch.end_ps - batch.first_ps - batch.slope_ps * steps
        for stage in range(self.num_stages):
            left += stage_ps
            self.free_ps[stage] = left
            left += self.transfer_ps


class Delivery:
    """Queue with one server: detokenizer and HTTP of an engine spend a fixed time on each token of any sequence.

    The engine does not wait for it, so tokens that come faster than they are delivered queue here, and a closed loop's
    clients, who send again when they have their last token, then keep fewer requests in the engine.

    Source: own formulation, Lindley's recursion over the iterations of a run.
    """

    __slots__ = ("done_ps", "token_ps")

    def __init__(self, token_ps: int) -> None:
        self.token_ps = token_ps
        self.done_ps = 0
        """Instant at which the last token so far reaches its client [ps]; the end of its iteration if delivery takes no
        time."""

    def take(self, batch: MicroBatch) -> None:
        """Queue the tokens of a run that has just ended, before its sequences are booked."""
        num_tokens = len(batch.completing)
        if batch.ticking:
            num_tokens += len(batch.decoding)
        begin_ps = batch.start_ps + batch.first_ps
        work_ps = num_tokens * self.token_ps
        self.done_ps = delivered_ps(self.done_ps, begin_ps, batch.end_ps, work_ps, batch.num_iterations)


def delivered_ps(done_ps: int, begin_ps: int, end_ps: int, work_ps: int, num_iterations: int) -> int:
    """Instant at which the last token of a run is delivered, if the one before was delivered at done_ps [ps]. The first
    iteration ends at begin_ps, the last at end_ps, and the tokens of each take work_ps.

    The iterations of a run never get shorter from one to the next: the longest wait begins with the tokens already in
    the queue, with the first iteration or with the last.

    Source: Lindley's recursion over the iterations of a run.
    """
    if done_ps > begin_ps:
        begin_ps = done_ps
    queued_ps = begin_ps + num_iterations * work_ps
    last_ps = end_ps + work_ps
    return queued_ps if queued_ps > last_ps else last_ps


def mixed_ps(surface: StepSurface, batch: MicroBatch, riding: int) -> int:
    """Time in one stage of an iteration with the batch's chunks and `riding` of its decoding sequences [ps].

    The batch's pairs are 2A = Σ n(2c + n), whole numbers.
    Source: StepSurface.
    """
    twice_ps = surface.prefill_pair_ps * batch.pairs + surface.prefill_window_pair_ps * batch.window_pairs
    time_ps = (
        surface.mixed_base_ps[riding + batch.chunk_tokens]
        + round(0.5 * twice_ps)
        + surface.prefill_sequence_ps * batch.num_chunks
    )
    if riding:
        time_ps += surface.decode_context_ps[riding] * batch.context_sum + surface.riding_sequence_ps * riding
        if surface.window_tokens is not None:
            time_ps += surface.decode_window_ps[riding] * batch.window_sum
    return time_ps


def decode_ps(surface: StepSurface, batch: MicroBatch) -> tuple[int, int]:
    """Time in one stage of the next decode iteration, and the time that each further one adds [ps].

    Source: StepSurface.
    """
    num_decoding = batch.num_decoding
    slope_ps = surface.decode_context_ps[num_decoding]
    time_ps = surface.decode_base_ps[num_decoding] + slope_ps * batch.context_sum
    slope_ps *= num_decoding
    if surface.window_tokens is not None:
        window_ps = surface.decode_window_ps[num_decoding]
        time_ps += window_ps * batch.window_sum
        slope_ps += window_ps * batch.num_unsaturated
    return time_ps, slope_ps


@lru_cache(maxsize=8)
def step_tables(surface: StepSurface, policy: SchedulerPolicy) -> StepSurface:
    """Return the surface with plain integers, after checking that it covers everything that the policy can compose.

    Raises: AdvisorError: the surface is too small for the policy, or has negative or all-zero times.
    Source: own definition.
    """
    window = surface.window_tokens
    num_slots = policy.num_slots
    num_tokens = policy.max_num_batched_tokens
    decode_base_ps, least_decode_ps = _covering("decode_base_ps", surface.decode_base_ps, num_slots)
    decode_context_ps, _ = _covering("decode_context_ps", surface.decode_context_ps, num_slots)
    decode_window_ps: Sequence[int] = ()
    if window is not None:
        decode_window_ps, _ = _covering("decode_window_ps", surface.decode_window_ps, num_slots)
    mixed_base_ps, least_mixed_ps = _covering("mixed_base_ps", surface.mixed_base_ps, num_tokens)
    if min(least_decode_ps, least_mixed_ps) <= 0:
        raise AdvisorError("the step-cost surface has an iteration that takes no time")
    scalars = (
        surface.prefill_pair_ps,
        surface.prefill_window_pair_ps,
        surface.prefill_sequence_ps,
        surface.riding_sequence_ps,
        surface.stage_transfer_ps,
        surface.full_clock_ps,
        surface.reading_ps,
    )
    if min(scalars) < 0 or not np.all(np.isfinite(scalars)):
        raise AdvisorError("the step-cost surface has a negative or non-finite time")
    if not (1.0 <= surface.limited_scale < np.inf and surface.clock_recovery >= 0.0):
        raise AdvisorError("the step-cost surface has a power limit that makes work faster")
    if surface.num_stages < 1 or (window is not None and window < 1):
        raise AdvisorError(
            "the step-cost surface needs at least one stage and a window of at least one token"
        )
    return replace(
        surface,
        # Lists are read faster, and these are read in every run.
        decode_base_ps=list(decode_base_ps[: num_slots + 1]),
        decode_context_ps=list(decode_context_ps[: num_slots + 1]),
        decode_window_ps=decode_window_ps,
        mixed_base_ps=mixed_base_ps,
    )


def _covering(name: str, column: Sequence[int], largest: int) -> tuple[Sequence[int], int]:
    """Return a column of plain integers that reaches 0..largest, and the least of its times."""
    if len(column) <= largest:
        raise AdvisorError(
            f"the step-cost surface tabulates {name} up to {len(column) - 1}, the policy needs {largest}",
            fix="build the surface for the policy's max_num_seqs and max_num_batched_tokens",
        )
    if isinstance(column, array) and column.typecode == "q":
        # A run reads few of thousands of places: those of a buffer become Python integers as they are read.
        least = int(np.asarray(column)[1 : largest + 1].min())
    else:
        column = list(map(int, column))
        least = min(column[1 : largest + 1])
    if least < 0:
        raise AdvisorError(f"the step-cost surface has negative times in {name}")
    return column, least
