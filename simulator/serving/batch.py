"""Batches: sequences that share their iterations, with the sums that a replica needs to price, grow and finish them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import isqrt
from operator import mul

Request = tuple[int, int, int, int]
"""Request: (instant at which the scheduler can see it [ps], index, input tokens, output tokens)."""

Decoding = tuple[int, int, Request, int, int, int]
"""Decoding sequence: (tick at which it ends, admission number, request, admitted at [ps], first token at [ps],
preemptions)."""


@dataclass(slots=True, eq=False)
class Prefill:
    """Request on its way to its first token, or back to decoding after a preemption."""

    request: Request
    order: int
    target: int
    """Number of tokens to compute."""
    admitted_ps: int
    computed: int = 0
    first_token_ps: int = -1
    last_token_ps: int = -1
    num_generated: int = 0
    num_preemptions: int = 0
    host_blocks: int = 0
    """Blocks of its cache that host memory keeps; 0 if all tokens have to be computed again."""


@dataclass(slots=True, eq=False)
class MicroBatch:
    """Sequences that decode together, and the run of iterations that is under way.

    Every decode iteration adds one token to every sequence, so the batch counts ticks, and a sequence is stored with
    the tick at which it ends; sums over the batch are updated, never recomputed. `context_sum` is the sum over
    sequences of the tokens that the *next* iteration attends to, including the token that it processes.
    """

    block_tokens: int
    window_tokens: int | None
    tick: int = 0
    decoding: list[Decoding] = field(default_factory=list)
    num_decoding: int = 0
    """Number of sequences that an iteration computes; more than len(decoding) if finished ones are padded."""
    context_sum: int = 0
    phase_counts: list[int] = field(init=False)
    weights: list[int] = field(init=False)
    partial: Prefill | None = None
    """Prompt that did not fit into the last iteration: there is at most one, as it took all the budget."""
    completing: list[Prefill] = field(default_factory=list)
    """Prompts whose last chunk is in the iteration."""
    prefill_blocks: int = 0

    window_sum: int = 0
    num_unsaturated: int = 0
    unsaturated: set[int] = field(default_factory=set)
    saturations: list[tuple[int, int]] = field(default_factory=list)

    last_token_ps: int = 0
    stalled: dict[int, int] = field(default_factory=dict)
    """Sequences whose last token is younger than last_token_ps, by admission number."""
    cutoff_ps: int = 0
    freed_sequences: int = 0
    freed_blocks: int = 0

    num_chunks: int = 0
    num_admitted: int = 0
    chunk_tokens: int = 0
    pairs: int = 0
    """Σ n(2c + n) of the iteration's chunks of n new tokens on c cached ones."""
    window_pairs: int = 0
    """Σ n(2c + n) of the iteration's chunks, with contexts capped at the sliding window."""
    running: bool = False
    ticking: bool = False
    """Whether the iterations of the run decode; a pure prefill batch lets decoding wait."""
    open_to_arrivals: bool = False
    start_ps: int = 0
    end_ps: int = 0
    num_iterations: int = 0
    first_ps: int = 0
    slope_ps: int = 0
    stage_ps: int = 0
    stage_slope_ps: int = 0

    def __post_init__(self) -> None:
        self.phase_counts = [0] * self.block_tokens
        self.weights = descending_weights(self.block_tokens)

    def is_empty(self) -> bool:
        return not (self.num_decoding or self.completing or self.partial)

    def stage_work_ps(self) -> int:
        """Time for which the run keeps one stage busy [ps]."""
        return run_ps(self.stage_ps, self.stage_slope_ps, self.num_iterations)

    def held_blocks(self) -> int:
        """Cache blocks that the batch holds: those of the iteration under way or of the next one [blocks]."""
        ahead = self.num_iterations - 1 if self.running and self.ticking else 0
        grown = self.context_sum + ahead * self.num_decoding
        return self.prefill_blocks + num_blocks(grown, self.phase_counts, self.tick + ahead, self.weights)

    def most_blocks(self) -> int:
        """Upper bound of held_blocks: every last block full [blocks]."""
        block_tokens = self.block_tokens
        tokens = self.context_sum + self.num_decoding * (self.num_iterations + block_tokens - 1)
        return tokens // block_tokens + self.prefill_blocks

    def take(self, entry: Prefill, tokens: int, num_blocks: int) -> None:
        """Put the next `tokens` tokens of a prompt, which need num_blocks, into the iteration being composed."""
        computed = entry.computed
        window = self.window_tokens
        self.num_chunks += 1
        self.chunk_tokens += tokens
        self.prefill_blocks += num_blocks
        self.pairs += tokens * (2 * computed + tokens)
        if window is not None:
            inside = min(max(window - computed, 0), tokens)
            self.window_pairs += inside * (2 * computed + inside) + 2 * (tokens - inside) * window
        entry.computed = end = computed + tokens
        if end == entry.target:
            self.partial = None
            self.completing.append(entry)
        else:
            self.partial = entry

    def join(self, sequence: Decoding, context: int) -> None:
        """Take in a sequence whose next iteration attends to `context` tokens."""
        heappush(self.decoding, sequence)
        self.compute(sequence[1], context)

    def compute(self, order: int, context: int) -> None:
        """Count a sequence in every further iteration, whether it still needs tokens or only pads a static batch."""
        self.num_decoding += 1
        self.context_sum += context
        self.phase_counts[(context - self.tick) % self.block_tokens] += 1
        if self.window_tokens is not None:
            self.enter_window(order, context, self.tick)

    def enter_window(self, order: int, context: int, tick: int) -> None:
        """Count the windowed context of a sequence that decodes from this tick on."""
        window = self.window_tokens
        assert window is not None
        if context < window:
            self.window_sum += context
            self.num_unsaturated += 1
            self.unsaturated.add(order)
            heappush(self.saturations, (tick + window - context, order))
        else:
            self.window_sum += window

    def leave(self, order: int, context: int) -> None:
        """Remove a sequence that ends or is preempted before an iteration on `context` tokens from the sums."""
        self.num_decoding -= 1
        self.context_sum -= context
        self.phase_counts[(context - self.tick) % self.block_tokens] -= 1
        if self.window_tokens is not None:
            self.leave_window(order, context)

    def leave_window(self, order: int, context: int) -> None:
        """Remove the windowed context of a sequence that ends or is preempted."""
        window = self.window_tokens
        assert window is not None
        self.window_sum -= min(context, window)
        if order in self.unsaturated:
            self.unsaturated.remove(order)
            self.num_unsaturated -= 1

    def saturate(self, tick: int) -> None:
        """Stop the windowed context of sequences that have reached the window at this tick."""
        saturations = self.saturations
        while saturations and (saturations[0][0] <= tick or saturations[0][1] not in self.unsaturated):
            order = heappop(saturations)[1]
            if order in self.unsaturated:
                self.unsaturated.remove(order)
                self.num_unsaturated -= 1

    def last_admitted(self) -> int:
        """Admission number of the youngest sequence, 0 in an empty batch."""
        return max((order for order, _ in self.members()), default=0)

    def members(self) -> list[tuple[int, Request]]:
        """Return the admission number and the request of every sequence."""
        found = [(sequence[1], sequence[2]) for sequence in self.decoding]
        found.extend((entry.order, entry.request) for entry in self.completing)
        if self.partial is not None:
            found.append((self.partial.order, self.partial.request))
        return found

    def evict(self, order: int) -> Prefill:
        """Remove a sequence by its admission number and return it as a request that has to recompute all its tokens."""
        entry = self._evict_prefill(order)
        if entry is None:
            sequence = next(sequence for sequence in self.decoding if sequence[1] == order)
            self.decoding.remove(sequence)
            heapify(self.decoding)
            end_tick, _, request, admitted_ps, first_token_ps, entry_preemptions = sequence
            num_generated = request[3] - (end_tick - self.tick)
            entry = Prefill(request, order, request[2] + num_generated, admitted_ps)
            entry.num_generated = num_generated
            self.leave(order, entry.target)
            entry.first_token_ps = first_token_ps
            entry.last_token_ps = self.stalled.pop(order, self.last_token_ps)
            entry.num_preemptions = entry_preemptions
        entry.num_preemptions += 1
        return entry

    def _evict_prefill(self, order: int) -> Prefill | None:
        """Remove a prompt and return it, if the admission number belongs to one."""
        entry = self.partial
        if entry is not None and entry.order == order:
            self.partial = None
        else:
            entry = next((entry for entry in self.completing if entry.order == order), None)
            if entry is None:
                return None
            self.completing.remove(entry)
        self.prefill_blocks -= (entry.computed - 1) // self.block_tokens + 1
        entry.computed = 0
        return entry

    def clear(self) -> None:
        """Drop the sums of a batch that is held until its last member has ended."""
        self.num_decoding = self.context_sum = self.window_sum = self.num_unsaturated = 0
        self.phase_counts = [0] * self.block_tokens
        self.unsaturated.clear()
        self.saturations.clear()


def window_pairs(window: int, computed: int, tokens: int) -> int:
    """Σ n(2c + n) of a chunk of n tokens after c computed ones, each context capped at the sliding window [pairs].

    Source: own derivation.
    """
    inside = min(max(window - computed, 0), tokens)
    return inside * (2 * computed + inside) + 2 * (tokens - inside) * window


def book_gaps(
    gaps: list[int],
    stalled: dict[int, int],
    last_token_ps: int,
    start_ps: int,
    first_ps: int,
    slope_ps: int,
    num_iterations: int,
    num_sequences: int,
    context: int,
    growth: int,
) -> None:
    """Book the inter-token times of a run; the first also spans the time for which sequences waited since their last
    token.

    Source: own definition.
    """
    if start_ps == last_token_ps and not stalled:
        gaps += (first_ps, slope_ps, num_iterations, num_sequences, context, growth)
        return
    end_ps = start_ps + first_ps
    gaps += (end_ps - last_token_ps, 0, 1, num_sequences - len(stalled), context, 0)
    for stalled_ps in stalled.values():
        gaps += (end_ps - stalled_ps, 0, 1, 1, 0, 0)
    stalled.clear()
    if num_iterations > 1:
        gaps += (first_ps + slope_ps, slope_ps, num_iterations - 1, num_sequences, context + growth, growth)


def run_ps(first_ps: int, slope_ps: int, num_iterations: int) -> int:
    """Time of iterations that take first, first + slope, first + 2 slope, ... [ps].

    n first + slope n (n-1) / 2

    Source: arithmetic series.
    """
    return num_iterations * first_ps + slope_ps * (num_iterations * (num_iterations - 1) // 2)


def iterations_until(first_ps: int, slope_ps: int, target_ps: int) -> int:
    """Fewest iterations, at least one, whose run takes at least target_ps [iterations].

    The root of slope n² / 2 + (first - slope/2) n = target, in whole numbers: with b = 2 first - slope it is
    n = ceil((sqrt(b² + 8 slope target) - b) / (2 slope)), and the integer square root is at most one too small.

    Assumes: first_ps is positive, slope_ps not negative.
    Source: own derivation.
    """
    if target_ps <= first_ps:
        return 1
    if not slope_ps:
        return -(-target_ps // first_ps)
    b = 2 * first_ps - slope_ps
    num_iterations = (isqrt(b * b + 8 * slope_ps * target_ps) - b) // (2 * slope_ps)
    while run_ps(first_ps, slope_ps, num_iterations) < target_ps:
        num_iterations += 1
    return num_iterations


def descending_weights(block_tokens: int) -> list[int]:
    """Return block_tokens-1 .. 0 twice: the table that num_blocks reads.

    Source: own definition.
    """
    return list(range(block_tokens - 1, -1, -1)) * 2


def num_blocks(context_sum: int, phase_counts: Sequence[int], tick: int, weights: Sequence[int]) -> int:
    """Σ ceil(context / block) of sequences that all grow by one token per tick [blocks].

    A sequence's phase (context - tick) mod block never changes while it decodes, so the unused tail of its last
    block follows from the phase: Σ ceil = (Σ context + Σ tail) / block, with phase_counts[p] sequences in phase p.

    Assumes: every sequence has at least one token.
    Source: own derivation.
    """
    block_tokens = len(phase_counts)
    start = (tick - 1) % block_tokens
    tails: int = sum(map(mul, phase_counts, weights[start : start + block_tokens]))
    return (context_sum + tails) // block_tokens


def iterations_until_full(
    context_sum: int,
    num_sequences: int,
    phase_counts: Sequence[int],
    tick: int,
    weights: Sequence[int],
    capacity_blocks: int,
    most: int,
) -> int:
    """Number of iterations that fit into capacity_blocks, at most `most`; the first is known to fit [iterations].

    Tests a cheap upper bound first (every tail full), then bisects on the exact count.

    Source: own derivation.
    """
    block_tokens = len(phase_counts)
    bound = (context_sum + (most - 1) * num_sequences + num_sequences * (block_tokens - 1)) // block_tokens
    if bound <= capacity_blocks:
        return most
    low = 1
    high = most
    while low < high:
        middle = (low + high + 1) // 2
        grown = context_sum + (middle - 1) * num_sequences
        if num_blocks(grown, phase_counts, tick + middle - 1, weights) <= capacity_blocks:
            low = middle
        else:
            high = middle - 1
    return low
