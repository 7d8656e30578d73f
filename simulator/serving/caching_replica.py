"""Replica with a prefix cache: it keeps the cache of served prompts and computes only what follows a cached prefix."""

from advisor.simulator.serving.batch import MicroBatch, Prefill, Request
from advisor.simulator.serving.cache import PrefixCache
from advisor.simulator.serving.content import Contents
from advisor.simulator.serving.ordered_queue import Rank
from advisor.simulator.serving.policy import SchedulerPolicy
from advisor.simulator.serving.replica import Replica
from advisor.simulator.step_cost import StepSurface


class CachingReplica(Replica):
    """Replica whose requests share the blocks of common prefixes.

    Admission looks up the longest cached prefix of a prompt; at least one token is computed again. The blocks of a
    chunk can be hit from the moment at which it is scheduled; the blocks of an output that a later request continues,
    once the output is complete. Idle blocks count as free and are evicted when their room is taken. A prompt is
    admitted only if all of it fits, without counting hits that other requests use.

    Batches count the blocks of every sequence in full. `overlap` of these blocks are counted more often than they
    exist, and the ledger's capacity is larger by as many.

    Assumes: a preempted request keeps its prompt in the cache until another request takes the room, but loses its
    output; one whose cache host memory kept comes back without sharing blocks; of two prompts that compute the same
    block at once, one copy stays.
    Source: own design; vLLM's KV cache manager and scheduler (chunks are hashed when scheduled, the last token is
    always computed, and by default whole prompts must fit: scheduler_reserve_full_isl).
    """

    __slots__ = ("answers", "cache", "covered", "may_evict", "prompts", "real_capacity", "sum_covered")

    def __init__(
        self,
        tables: StepSurface,
        policy: SchedulerPolicy,
        contents: Contents,
        *,
        jump: bool = True,
        rank: Rank | None = None,
    ) -> None:
        super().__init__(tables, policy, jump=jump, rank=rank)
        self.prompts = contents.prompts
        self.answers = contents.answers
        self.cache = PrefixCache(contents.tree, policy.block_tokens)
        for node in contents.kept:
            self.cache.keep(node)
        self.real_capacity = self.blocks.capacity
        self.may_evict = self.blocks.limited
        self.covered: dict[int, int] = {}
        """Number of content blocks that a request with pinned content has hit or computed, by request."""
        self.sum_covered = 0

    def used_fraction(self) -> float:
        """Fraction of the cache in use; idle blocks of a prefix cache are free. 0 if the cache is unlimited."""
        if not self.may_evict:
            return 0.0
        held = sum(batch.held_blocks() for batch in self.batches)
        return (held - self.sum_covered + self.cache.num_pinned) / self.real_capacity

    def _admit(self, batch: MicroBatch, free: int) -> None:
        """Admit waiting requests in order of arrival while budget, sequence slots and blocks last."""
        inbox = self.inbox
        preempted = self.preempted
        cutoff_ps = batch.cutoff_ps
        budget = self.max_tokens - batch.chunk_tokens - (batch.num_decoding if self.mixed else 0)
        slots = 0 if self.batch_closed else self.num_slots - self.num_running - batch.freed_sequences
        block_tokens = self.block_tokens
        prompts = self.prompts
        cache = self.cache
        while budget > 0 and slots > 0:
            returns = self._is_preempted_next()
            if returns and preempted[0].host_blocks:
                if not self._bring_back(batch):
                    return
                slots -= 1
                budget -= 1 if self.mixed else 0
                continue
            if not returns and not (inbox and inbox[0][0] <= cutoff_ps):
                return
            request = preempted[0].request if returns else inbox[0]
            target = preempted[0].target if returns else request[2]
            if self.may_evict:
                self._make_space(batch)
            leaf = prompts[request[1]]
            cached, pinned = cache.match(leaf) if leaf else (0, 0)
            cached = min(cached, (target - 1) // block_tokens)
            left = target - cached * block_tokens
            tokens = left if left <= budget else budget
            if tokens < left and not self.chunked:
                return
            shared = min(cached, pinned)
            need = (target - 1) // block_tokens + 1 - shared
            if not self.blocks.grant(batch, request, need, alone=not self.num_running, shared=shared):
                return
            entry = self._entry(batch, request, returns=returns)
            entry.computed = known = cached * block_tokens
            if not entry.num_preemptions:
                self.num_prompt_tokens += target
                self.num_cached_tokens += known
            batch.take(entry, tokens, (known + tokens - 1) // block_tokens + 1)
            batch.num_admitted += 1
            if leaf:
                cache.pin(leaf)
                self.covered[request[1]] = cached
                self.sum_covered += cached
                self._cover(entry)
            budget -= tokens
            slots -= 1

    def _bring_back(self, batch: MicroBatch) -> int:
        """Let a preempted sequence decode again from the cache that host memory kept; idle blocks make room for it."""
        if self.may_evict:
            self._make_space(batch)
        return super()._bring_back(batch)

    def _entry(self, batch: MicroBatch, request: Request, *, returns: bool) -> Prefill:
        """Take the next request off the queue, or off the sequences that return from a preemption."""
        self.num_admissions = order = self.num_admissions + 1
        self.num_running += 1
        if returns:
            entry = self.preempted.popleft()
            entry.order = order
            return entry
        entry = Prefill(request, order, request[2], batch.start_ps)
        self.inbox.popleft()
        if not self.inbox:
            self.refill()
        return entry

    def _continue_prefill(self, batch: MicroBatch) -> bool:
        """Compute the next chunk of the prompt that did not fit into one iteration; return True if a sequence was
        preempted for it."""
        entry = batch.partial
        made_room = super()._continue_prefill(batch)
        if entry is not None and entry.request[1] in self.covered:
            self._cover(entry)
        return made_room

    def _cover(self, entry: Prefill) -> None:
        """Enter the scheduled part of a prompt's content into the cache."""
        index = entry.request[1]
        cache = self.cache
        leaf = self.prompts[index]
        before = self.covered[index]
        covered = min(entry.computed, entry.request[2], cache.ends[leaf]) // self.block_tokens
        if covered > before:
            cache.extend(leaf, before, covered)
            self.covered[index] = covered
            self.sum_covered += covered - before
        self._count_overlap()

    def _count_overlap(self) -> None:
        """Tell the ledger how many blocks are counted more often than they exist."""
        if self.may_evict:
            self.blocks.capacity = self.real_capacity + self.sum_covered - self.cache.num_pinned

    def _make_space(self, batch: MicroBatch) -> None:
        """Evict idle blocks whose room running requests have taken, or take in the iteration being composed.

        Between two lookups or completions blocks are only taken, so the number of calls does not matter.
        """
        held = batch.held_blocks()
        if self.alone is None:
            held += sum(other.held_blocks() for other in self.batches if other is not batch)
        cache = self.cache
        free = self.blocks.capacity - held
        used = self.real_capacity - free
        if used > self.max_used_blocks:
            self.max_used_blocks = used
        if free < cache.num_idle:
            cache.evict(cache.num_idle - free)

    def _queue_preempted(self, entry: Prefill) -> None:
        """Put a preempted sequence into the queue; its prompt becomes idle in the cache.

        No sequence is preempted while there is an idle block to take.
        """
        self.cache.evict(self.cache.num_idle)
        super()._queue_preempted(entry)
        index = entry.request[1]
        covered = self.covered.pop(index, None)
        if covered is not None:
            self.cache.unpin(self.prompts[index])
            self.sum_covered -= covered
            self._count_overlap()

    def _commit(self, batch: MicroBatch) -> int:
        """Book the run that has just ended; the blocks that it grew by are taken before any are freed."""
        if self.may_evict:
            decoding = batch.decoding
            ends = batch.ticking and decoding and decoding[0][0] - batch.tick <= batch.num_iterations
            for entry in batch.completing:
                ends = ends or entry.num_generated + 1 == entry.request[3]
            if ends:
                self._make_space(batch)
        return super()._commit(batch)

    def _finish(
        self, batch: MicroBatch, request: Request, admitted_ps: int, first_token_ps: int, num_preemptions: int
    ) -> None:
        """Record a request whose last token is out; its blocks become idle, and those of its output too if a later
        request continues it."""
        super()._finish(batch, request, admitted_ps, first_token_ps, num_preemptions)
        index = request[1]
        cache = self.cache
        covered = self.covered.pop(index, None)
        if covered is None:
            return
        leaf = self.prompts[index]
        before = cache.num_pinned
        answer = self.answers.get(index)
        if answer is not None:
            if answer != leaf:
                cache.pin(answer)
                cache.unpin(leaf)
            cache.extend(answer, covered, (request[2] + request[3] - 1) // self.block_tokens)
            leaf = answer
        cache.unpin(leaf)
        if self.overlap:
            batch.freed_blocks -= covered - (before - cache.num_pinned)
        self.sum_covered -= covered
        self._count_overlap()
