"""One replica of an engine as a state machine: plan the next run of iterations, commit it, repeat.

A run is one iteration that carries prompt tokens, or n decode iterations that nothing interrupts. The times of
decode iterations grow linearly with their number, so n of them are priced and summed in closed form. Instants are
integer picoseconds: the sum equals stepping one by one to the last bit.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from heapq import heappop
from operator import attrgetter, itemgetter, methodcaller

from advisor.simulator.serving.batch import MicroBatch, Prefill, Request, book_gaps, iterations_until_full
from advisor.simulator.serving.cache import BlockLedger
from advisor.simulator.serving.ordered_queue import OrderedInbox, Rank
from advisor.simulator.serving.pipeline import NEVER, Delivery, Pipeline, decode_ps, mixed_ps
from advisor.simulator.serving.policy import UNLIMITED, SchedulerPolicy
from advisor.simulator.step_cost import StepSurface


class Replica:
    """One replica: waiting requests, running batches (one per pipeline stage), cache blocks, counters.

    `submit` requests, then alternate `resume(now)`, which starts all possible runs and returns the next instant at
    which something happens, and `advance(now)`, which completes the runs that are due then.
    """

    __slots__ = (
        "admission_ps",
        "alone",
        "batch_closed",
        "batches",
        "block_tokens",
        "blocks",
        "busy_ps",
        "chunked",
        "copy_in_ps",
        "copy_out_ps",
        "copying_ps",
        "delivery",
        "finished",
        "host_free",
        "inbox",
        "jump",
        "max_tokens",
        "max_used_blocks",
        "may_fill",
        "mixed",
        "more",
        "now_ps",
        "num_admissions",
        "num_cached_tokens",
        "num_events",
        "num_finished",
        "num_iterations",
        "num_preemptions",
        "num_prompt_tokens",
        "num_running",
        "num_slots",
        "num_swaps",
        "ordered",
        "overlap",
        "pipeline",
        "plain",
        "preempted",
        "preempted_tokens",
        "preempts_to_admit",
        "rank",
        "reserves",
        "static",
        "tables",
        "token_gaps",
    )

    def __init__(
        self, tables: StepSurface, policy: SchedulerPolicy, *, jump: bool = True, rank: Rank | None = None
    ) -> None:
        self.tables = tables
        self.jump = jump
        self.num_slots = policy.num_slots
        self.max_tokens = policy.max_num_batched_tokens
        self.chunked = policy.chunked_prefill
        self.overlap = policy.overlap_scheduling
        self.mixed = policy.kind in ("mixed", "single_stream")
        self.static = policy.kind == "static"
        self.admission_ps = policy.admission_ps
        self.delivery = Delivery(policy.delivery_ps)

        self.rank = rank
        self.preempts_to_admit = policy.preempts_to_admit and rank is not None
        self.ordered = None if rank is None else OrderedInbox(rank)
        self.inbox: deque[Request] = deque() if rank is None else self.ordered  # type: ignore[assignment]
        """Requests not yet admitted, in the order in which the scheduler sees them, future ones included."""
        self.more: Callable[[], list[Request]] | None = None
        """Callback for an empty inbox: the next requests in order of arrival, if there are any."""
        self.preempted: deque[Prefill] = deque()
        """Sequences that were preempted, in the order in which they return."""
        self.host_free = policy.host_blocks
        self.copy_out_ps = policy.copy_out_ps
        self.copy_in_ps = policy.copy_in_ps
        self.copying_ps = 0
        """Time that the next iteration waits for copies to and from host memory [ps]."""
        num_batches = 1 if self.static else min(tables.num_stages, self.num_slots)
        self.batches = [MicroBatch(policy.block_tokens, tables.window_tokens) for _ in range(num_batches)]
        self.alone = self.batches[0] if num_batches == 1 else None
        self.pipeline = Pipeline(tables, self.batches)
        reserve_fraction = 1.0 if self.static else policy.reserve_output_fraction
        self.blocks = BlockLedger(self.batches, policy, reserve_fraction)
        self.block_tokens = policy.block_tokens
        self.reserves = self.blocks.reserve_fraction > 0.0
        self.may_fill = policy.kv_capacity_blocks is not None and reserve_fraction < 1.0  # while decoding
        self.plain = self.pipeline.plain
        self.now_ps = self.num_running = self.num_admissions = 0
        self.batch_closed = False
        """Whether a static batch has begun to decode, so that no request joins until the batch has ended."""

        self.finished: list[int] = []
        """Finished requests as a flat list: visible [ps], index, input and output tokens, admitted, first token and
        last delivered [ps], preemptions."""
        self.token_gaps: list[int] = []
        """Decode runs as a flat list: first inter-token time [ps], its growth per iteration, iterations, sequences that
        yield tokens, cached tokens of the first iteration, their growth per iteration."""
        self.num_finished = self.num_preemptions = self.num_iterations = self.num_events = self.busy_ps = 0
        self.num_prompt_tokens = self.num_cached_tokens = 0
        """Prompt tokens of newly admitted requests, and those of them found in the cache; counted with a prefix cache
        only."""
        self.max_used_blocks = 0  # with a prefix cache, at once, each counted once
        self.num_swaps = 0
        """Number of preemptions after which host memory kept the cache."""
        self.preempted_tokens = 0
        """Tokens whose cache preempted sequences held."""

    def submit(self, request: Request) -> bool:
        """Add a request; return whether the next instant at which something happens may have changed.

        A decode run under way ends with the first iteration after the request can be seen.
        """
        inbox = self.inbox
        seen_ps = request[0]
        changed = False
        if not inbox or inbox[-1][0] <= seen_ps:
            inbox.append(request)
        else:
            inbox.insert(bisect_right(inbox, seen_ps, key=itemgetter(0)), request)
        for batch in self.batches:
            if not batch.running:
                changed = True
            elif batch.open_to_arrivals and batch.end_ps > seen_ps:
                self.pipeline.end_at(batch, seen_ps)
                changed = True
        return changed

    def refill_from(self, more: Callable[[], list[Request]]) -> None:
        """Take requests from a source that knows them in advance: the first ones now, others whenever none is left."""
        self.more = more
        self.refill()

    def refill(self) -> None:
        """Take the next requests from the source, if there is one."""
        requests = self.more() if self.more is not None else []
        if requests:
            self.submit(requests[0])  # a run under way ends for the first of them, so not for a later one
            self.inbox.extend(requests[1:])

    def resume(self, now_ps: int) -> int:
        """Start every run that can start now; return the next instant at which something happens, or NEVER [ps].

        Raises: ValueError: now lies before the instant of an earlier call.
        """
        batch = self.alone
        inbox = self.inbox
        if now_ps < self.now_ps:
            raise ValueError(f"the clock runs backwards, from {self.now_ps} to {now_ps} ps")
        self.now_ps = now_ps
        if batch is not None:
            if batch.running or self._plan(batch, now_ps):
                return batch.end_ps
            return inbox[0][0] if inbox else NEVER
        pipeline = self.pipeline
        for batch in sorted(self.batches, key=attrgetter("end_ps")):
            if not batch.running and pipeline.free_ps[0] <= now_ps:
                self._plan(batch, now_ps)
        head_ps = now_ps if self.preempted else inbox[0][0] if inbox else NEVER
        return pipeline.next_event_ps(now_ps, head_ps)

    def advance(self, now_ps: int) -> int:
        """Complete the runs that end now; return the number of requests that finished."""
        batch = self.alone
        if batch is not None:
            return self._commit(batch) if batch.running and batch.end_ps <= now_ps else 0
        return sum(self._commit(batch) for batch in self.batches if batch.running and batch.end_ps <= now_ps)

    def unfinished_requests(self) -> list[Request]:
        """Return the requests that the replica has not answered, in order of arrival; those not yet visible too."""
        requests = [*self.inbox, *(entry.request for entry in self.preempted)]
        for batch in self.batches:
            requests += [sequence[2] for sequence in batch.decoding]
            requests += [entry.request for entry in batch.completing]
            if batch.partial is not None:
                requests.append(batch.partial.request)
        return sorted(requests)

    def used_fraction(self) -> float:
        """Fraction of the cache in use; idle blocks of a prefix cache are free. 0 if the cache is unlimited."""
        held = sum(batch.held_blocks() for batch in self.batches) if self.blocks.limited else 0
        return held / self.blocks.capacity

    # Composing -----------------------------------------------------------------------------------------------

    def _plan(self, batch: MicroBatch, now_ps: int) -> bool:
        """Compose and start the next run of a batch; return False if it has no work."""
        batch.start_ps = now_ps
        if not self.overlap:
            batch.cutoff_ps = now_ps
        elif not batch.num_decoding and batch.is_empty():
            batch.cutoff_ps = now_ps
            batch.freed_sequences = batch.freed_blocks = 0
        if self.ordered is not None:
            self.ordered.reveal(batch.cutoff_ps)
        free = self.blocks.surely_free(batch) if self.may_fill else UNLIMITED
        made_room = free < 0 and self._make_room(batch)
        if batch.partial is not None:
            made_room = self._continue_prefill(batch) or made_room
            free = self.blocks.surely_free(batch) if self.may_fill else UNLIMITED
        if not made_room and (self.preempted or (self.inbox and self.inbox[0][0] <= batch.cutoff_ps)):
            if self.preempts_to_admit:
                self._make_way(batch)
                free = self.blocks.surely_free(batch) if self.may_fill else UNLIMITED
            self._admit(batch, free)
        if batch.num_chunks:
            self._start_mixed(batch)
        elif batch.num_decoding:
            self._start_decode(batch, made_room)
        else:
            return False
        batch.running = True
        return True

    def _make_room(self, batch: MicroBatch) -> bool:
        """Preempt sequences until the batch can grow by a token each; return True if one was preempted."""
        made_room = False
        while batch.num_decoding and not self.blocks.fits(batch, 0):
            self._preempt(self._next_victim())
            made_room = True
        return made_room

    def _continue_prefill(self, batch: MicroBatch) -> bool:
        """Compute the next chunk of the prompt that did not fit into one iteration; return True if a sequence was
        preempted for it."""
        entry = batch.partial
        assert entry is not None
        computed = entry.computed
        block_tokens = self.block_tokens
        tokens = min(entry.target - computed, self.max_tokens - (batch.num_decoding if self.mixed else 0))
        need = (computed + tokens - 1) // block_tokens - (computed - 1) // block_tokens
        made_room = False
        while tokens and not self.blocks.fits(batch, need):
            self._preempt(self._next_victim())
            made_room = True
            if batch.partial is None:
                return True
        if tokens:
            batch.take(entry, tokens, need)
        return made_room

    def _next_victim(self) -> MicroBatch:
        """Return the batch of the sequence to preempt next: of the highest rank the last admitted one.

        The oldest sequence of the lowest rank therefore always makes progress, whatever batch it is in.
        """
        if self.rank is None:
            return self.alone or max(self.batches, key=methodcaller("last_admitted"))
        return max(self.batches, key=self._last_of)

    def _last_of(self, batch: MicroBatch) -> tuple[int, int]:
        """Rank and admission number of the sequence of a batch that is preempted first; (-1, 0) in an empty batch."""
        rank = self.rank
        if rank is None:
            return 0, batch.last_admitted()
        return max(((rank(request), order) for order, request in batch.members()), default=(-1, 0))

    def _preempt(self, batch: MicroBatch) -> None:
        """Send a sequence back to the queue, even out of an iteration under way, before all others of its rank."""
        entry = batch.evict(self._last_of(batch)[1])
        self._queue_preempted(entry)
        self.blocks.release(entry.request)
        self.num_running -= 1
        self.num_preemptions += 1
        self.preempted_tokens += entry.target
        blocks = (entry.target - 2) // self.block_tokens + 1  # the token that it computes next has no cache
        if entry.num_generated and blocks <= self.host_free:  # a prompt under way is computed again
            entry.host_blocks = blocks
            self.host_free -= blocks
            self.copying_ps += blocks * self.copy_out_ps
            self.num_swaps += 1

    def _queue_preempted(self, entry: Prefill) -> None:
        """Put a preempted sequence before those of its rank; without ranks, before all."""
        rank = self.rank
        place = 0
        if rank is not None:
            own = rank(entry.request)
            while place < len(self.preempted) and rank(self.preempted[place].request) < own:
                place += 1
        self.preempted.insert(place, entry)

    def _is_preempted_next(self) -> bool:
        """Whether the next sequence to admit was preempted: it is, unless a request of a lower rank waits."""
        if not self.preempted:
            return False
        ordered = self.ordered
        if ordered is None or not ordered.visible:
            return True
        return ordered.rank(self.preempted[0].request) <= ordered.visible[0][0]

    def _make_way(self, batch: MicroBatch) -> None:
        """Preempt sequences of a higher rank until the first request of the queue can be admitted.

        Source: vLLM before 0.9.2, _schedule_priority_preemption; SGLang, preempt_to_schedule.
        """
        ordered = self.ordered
        if ordered is None or not ordered.visible or self._is_preempted_next():
            return
        urgency, request = ordered.visible[0]
        need = (request[2] - 1) // self.block_tokens + 1
        while self.num_running:
            slots = self.num_slots - self.num_running - batch.freed_sequences
            if slots > 0 and self.blocks.has_room(batch, request, need):
                return
            victim = self._next_victim()
            if self._last_of(victim)[0] <= urgency:
                return
            self._preempt(victim)

    def _bring_back(self, batch: MicroBatch) -> int:
        """Let the first preempted sequence decode again from the cache that host memory kept; return the blocks that it
        takes, or 0 if there is no room for them."""
        entry = self.preempted[0]
        request = entry.request
        blocks = (entry.target - 1) // self.block_tokens + 1
        if not self.blocks.grant(batch, request, blocks, alone=not self.num_running):
            return 0
        self.preempted.popleft()
        self.num_admissions = order = self.num_admissions + 1
        self.num_running += 1
        self.host_free += entry.host_blocks
        self.copying_ps += entry.host_blocks * self.copy_in_ps
        entry.host_blocks = 0
        ends = batch.tick + request[3] - entry.num_generated
        sequence = (ends, order, request, entry.admitted_ps, entry.first_token_ps, entry.num_preemptions)
        batch.stalled[order] = entry.last_token_ps
        batch.join(sequence, entry.target)
        return blocks

    def _admit(self, batch: MicroBatch, free: int) -> None:
        """Admit waiting requests in order of arrival while budget, sequence slots and blocks last.

        A prompt that comes in chunks is admitted once all of it has room: a prompt that is admitted for its first chunk
        and evicted for its second would be computed over and over. While `free` blocks suffice, the ledger need not be
        asked.
        """
        inbox = self.inbox
        preempted = self.preempted
        ranked = self.ordered is not None
        cutoff_ps = batch.cutoff_ps
        budget = self.max_tokens - batch.chunk_tokens - (batch.num_decoding if self.mixed else 0)
        slots = 0 if self.batch_closed else self.num_slots - self.num_running - batch.freed_sequences
        free = -1 if self.reserves else free - batch.freed_blocks - self.blocks.watermark
        block_tokens = self.block_tokens
        while budget > 0 and slots > 0:
            returns = self._is_preempted_next() if ranked else bool(preempted)
            if returns:
                request = preempted[0].request
                target = preempted[0].target
                if preempted[0].host_blocks:
                    taken = self._bring_back(batch)
                    if not taken:
                        return
                    slots -= 1
                    free -= taken
                    budget -= 1 if self.mixed else 0
                    continue
            elif inbox and inbox[0][0] <= cutoff_ps:
                request = inbox[0]
                target = request[2]
            else:
                return
            tokens = target if target <= budget else budget
            need = (tokens - 1) // block_tokens + 1
            whole = (target - 1) // block_tokens + 1
            if tokens < target and not self.chunked:
                return
            if whole > free and not self.blocks.grant(batch, request, whole, alone=not self.num_running):
                return
            self.num_admissions = order = self.num_admissions + 1
            self.num_running += 1
            if returns:
                entry = preempted.popleft()
                entry.order = order
            else:
                entry = Prefill(request, order, target, batch.start_ps)
                inbox.popleft()
                if not inbox:
                    self.refill()
            batch.take(entry, tokens, need)
            batch.num_admitted += 1
            budget -= tokens
            slots -= 1
            free -= need

    # Pricing -------------------------------------------------------------------------------------------------

    def _start_mixed(self, batch: MicroBatch) -> None:
        """Start one iteration with prompt tokens; decoding rides along in mixed batches and waits otherwise."""
        riding = batch.num_decoding if self.mixed else 0
        stage_ps = mixed_ps(self.tables, batch, riding) + self.admission_ps * batch.num_admitted
        if self.pipeline.slows_prompts:
            stage_ps = self.pipeline.prompts_ps(batch, stage_ps, riding + batch.chunk_tokens)
        stage_ps += self.copying_ps
        self.copying_ps = 0
        batch.ticking = riding > 0
        batch.open_to_arrivals = False
        self.pipeline.start(batch, stage_ps, 0, 1)

    def _start_decode(self, batch: MicroBatch, made_room: bool) -> None:
        """Start decode iterations until the next completion, arrival, exhaustion of blocks or saturation of a
        window."""
        stage_ps, slope_ps = decode_ps(self.tables, batch)
        batch.ticking = True
        self.batch_closed = self.static
        inbox = self.inbox
        waiting = bool(self.preempted) or (bool(inbox) and inbox[0][0] <= batch.start_ps)
        alone = made_room or self.copying_ps > 0
        most = self._most_iterations(batch, waiting) if self.jump and not alone else 1
        self.pipeline.start(batch, stage_ps + self.copying_ps, slope_ps, most)
        self.copying_ps = 0
        batch.open_to_arrivals = (
            most > 1
            and not self.batch_closed
            and (self.num_running < self.num_slots or self.preempts_to_admit)
            and (not waiting or self.ordered is not None)  # a later request may overtake those that wait
        )
        if batch.open_to_arrivals and inbox:
            next_ps = inbox[0][0] if self.ordered is None else self.ordered.next_ps()
            if next_ps < batch.end_ps:
                self.pipeline.end_at(batch, next_ps)

    def _most_iterations(self, batch: MicroBatch, waiting: bool) -> int:
        """Number of decode iterations until something other than an arrival must end the run.

        A waiting request that could not be admitted cannot be until a sequence ends: blocks only get scarcer.
        """
        if self.ordered is not None and self.ordered.next_ps() <= batch.start_ps and not self.batch_closed:
            return 1  # seen too late for this iteration, in time for the next
        if waiting and self.overlap and not self.batch_closed:
            late = not self.preempted and self.inbox[0][0] > batch.cutoff_ps
            if late or batch.freed_sequences or batch.freed_blocks:
                return 1
        if len(self.batches) > 1 and (
            waiting or any(b is not batch and not b.is_empty() for b in self.batches)
        ):
            return 1
        most = batch.decoding[0][0] - batch.tick
        if batch.saturations:
            most = min(most, batch.saturations[0][0] - batch.tick)
        if most > 1 and self.may_fill:
            free = self.blocks.capacity - batch.prefill_blocks
            most = iterations_until_full(
                batch.context_sum,
                batch.num_decoding,
                batch.phase_counts,
                batch.tick,
                batch.weights,
                free,
                most,
            )
        return most

    # Committing ----------------------------------------------------------------------------------------------

    def _commit(self, batch: MicroBatch) -> int:
        """Book the run that has just ended (tokens, completions, first tokens); return the number of finished
        requests."""
        before = self.num_finished
        end_ps = batch.end_ps
        batch.running = False
        self.num_events += 1
        self.num_iterations += batch.num_iterations
        self.busy_ps += end_ps - batch.start_ps if self.plain else batch.stage_work_ps()
        if self.overlap:
            batch.cutoff_ps = end_ps - batch.first_ps - batch.slope_ps * (batch.num_iterations - 1)
            batch.freed_sequences = batch.freed_blocks = 0
        if self.delivery.token_ps:
            self.delivery.take(batch)
        else:
            self.delivery.done_ps = end_ps
        stalls = not batch.ticking and batch.num_decoding > 0
        if batch.ticking:
            self._tick(batch)
        if not stalls:
            batch.last_token_ps = end_ps
        if batch.num_chunks:
            self._first_tokens(batch, stalls)
        if batch.saturations:
            batch.saturate(batch.tick)
        if self.static and not batch.decoding and batch.partial is None:
            batch.clear()
            self.num_running = self.blocks.reserved_blocks = 0
            self.batch_closed = False
        return self.num_finished - before

    def _tick(self, batch: MicroBatch) -> None:
        """Add the decoded tokens and end the sequences that are complete."""
        num_iterations = batch.num_iterations
        num_decoding = batch.num_decoding
        decoding = batch.decoding
        book_gaps(
            self.token_gaps,
            batch.stalled,
            batch.last_token_ps,
            batch.start_ps,
            batch.first_ps,
            batch.slope_ps,
            num_iterations,
            len(decoding),
            batch.context_sum,
            num_decoding,
        )
        batch.context_sum += num_iterations * num_decoding
        if batch.num_unsaturated:
            batch.window_sum += num_iterations * batch.num_unsaturated
        batch.tick = tick = batch.tick + num_iterations
        while decoding and decoding[0][0] == tick:
            _, order, request, admitted_ps, first_token_ps, num_preemptions = heappop(decoding)
            if not self.static:
                batch.leave(order, request[2] + request[3])
            self._finish(batch, request, admitted_ps, first_token_ps, num_preemptions)

    def _first_tokens(self, batch: MicroBatch, stalls: bool) -> None:
        """Let complete prompts yield a token; their sequences decode from the next iteration on."""
        end_ps = batch.end_ps
        tick = batch.tick
        block_tokens = self.block_tokens
        for entry in batch.completing:
            request = entry.request
            batch.prefill_blocks -= (entry.target - 1) // block_tokens + 1
            num_generated = entry.num_generated + 1
            first_token_ps = self.delivery.done_ps
            if num_generated > 1:
                first_token_ps = entry.first_token_ps
                self.token_gaps += (end_ps - entry.last_token_ps, 0, 1, 1, 0, 0)
            if num_generated == request[3]:
                self._finish(batch, request, entry.admitted_ps, first_token_ps, entry.num_preemptions)
                if self.static:
                    batch.compute(entry.order, entry.target + 1)
                continue
            ends = tick + request[3] - num_generated
            sequence = (ends, entry.order, request, entry.admitted_ps, first_token_ps, entry.num_preemptions)
            batch.join(sequence, entry.target + 1)
            if stalls:
                batch.stalled[entry.order] = end_ps
        batch.completing.clear()
        batch.num_chunks = batch.num_admitted = batch.chunk_tokens = batch.pairs = batch.window_pairs = 0

    def _finish(
        self, batch: MicroBatch, request: Request, admitted_ps: int, first_token_ps: int, num_preemptions: int
    ) -> None:
        """Record a request whose last token is out, and free its slot and blocks."""
        finished = self.finished
        finished += request
        finished += (admitted_ps, first_token_ps, self.delivery.done_ps, num_preemptions)
        self.num_finished += 1
        if self.static:
            return
        self.num_running -= 1
        if self.reserves:
            self.blocks.release(request)
        if self.overlap:
            batch.freed_sequences += 1
            batch.freed_blocks += (request[2] + request[3] - 2) // self.block_tokens + 1
