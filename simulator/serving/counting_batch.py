"""A batch that always knows how many cache blocks its sequences hold."""

from advisor.simulator.serving.batch import MicroBatch


class CountingBatch(MicroBatch):
    """A batch whose blocks are counted as it changes, instead of anew for each question.

    From one tick to the next, a sequence takes a block if its context then has one token more than whole blocks; those
    are the sequences of one phase.

    Source: own derivation, as `kv_blocks.num_blocks`.
    """

    __slots__ = ("known_blocks", "known_tick")

    def __init__(self, block_tokens: int, window_tokens: int | None) -> None:
        super().__init__(block_tokens, window_tokens)
        self.known_tick = 0
        self.known_blocks = 0
        """Blocks of the decoding sequences in the iteration at known_tick."""

    def taken_after(self, num_ticks: int) -> int:
        """Blocks that the decoding sequences take in so many ticks after known_tick [blocks]."""
        counts, block_tokens = self.phase_counts, self.block_tokens
        rounds, rest = divmod(num_ticks, block_tokens)
        first = -self.known_tick % block_tokens  # the phase that takes a block at the next tick
        low = first - rest + 1
        taken = sum(counts[low : first + 1]) if low >= 0 else sum(counts[: first + 1]) + sum(counts[low:])
        return rounds * self.num_decoding + (taken if rest else 0)

    def _count(self) -> None:
        ticks = self.tick - self.known_tick
        if ticks:
            self.known_blocks += self.taken_after(ticks)
            self.known_tick = self.tick

    def held_blocks(self) -> int:
        """Cache blocks that the batch holds, those of the iteration under way or of the next one [blocks]."""
        self._count()
        ahead = self.num_iterations - 1 if self.running and self.ticking else 0
        return self.prefill_blocks + self.known_blocks + (self.taken_after(ahead) if ahead else 0)

    def compute(self, order: int, context: int) -> None:
        """Count a sequence in every further iteration."""
        self._count()
        self.known_blocks += -(-context // self.block_tokens)
        super().compute(order, context)

    def leave(self, order: int, context: int) -> None:
        """Forget the sums of a sequence that ends or is preempted before an iteration on `context` tokens."""
        self._count()
        self.known_blocks -= -(-context // self.block_tokens)
        super().leave(order, context)
