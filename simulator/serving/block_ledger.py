"""The paged cache of a replica: what its batches hold, what is promised, what is left."""

from collections.abc import Sequence

from advisor.simulator.serving.micro_batch import MicroBatch, Request
from advisor.simulator.serving.policy import SchedulerPolicy

UNLIMITED = 1 << 62


class BlockLedger:
    """Which blocks of the paged cache are taken and promised, and whether more may be had.

    Source: own formulation of the block managers of vLLM (chunk by chunk) and TensorRT-LLM (guaranteed no evict).
    """

    def __init__(
        self, batches: Sequence[MicroBatch], policy: SchedulerPolicy, reserve_fraction: float
    ) -> None:
        self.batches = batches
        self.block_tokens = policy.block_tokens
        self.tail_tokens = policy.block_tokens - 1
        self.capacity = UNLIMITED if policy.kv_capacity_blocks is None else policy.kv_capacity_blocks
        self.sure_capacity = self.capacity if len(batches) == 1 else -1
        self.watermark = policy.watermark_blocks
        self.reserve_fraction = reserve_fraction
        self.reserved_blocks = 0

    def surely_fits(self, batch: MicroBatch) -> bool:
        """Whether a batch alone in the cache can grow by a token even if all its last blocks are full."""
        tokens = batch.context_sum + batch.num_decoding * self.tail_tokens
        return tokens // self.block_tokens + batch.prefill_blocks <= self.sure_capacity

    def fits(self, batch: MicroBatch, need: int) -> bool:
        """Whether `need` more blocks are free beside what the batches hold; a cheap upper bound is tried first."""
        tails = batch.num_decoding * (self.block_tokens - 1)
        bound = (batch.context_sum + tails) // self.block_tokens + batch.prefill_blocks
        free = self.capacity - need
        if len(self.batches) > 1:
            free -= sum(other.held_blocks() for other in self.batches if other is not batch)
        return bound <= free or batch.held_blocks() <= free

    def grant(self, batch: MicroBatch, request: Request, tokens: int, *, alone: bool) -> bool:
        """Whether a request whose first chunk has `tokens` tokens may be admitted; its reservation is made if so."""
        watermark = 0 if alone else self.watermark
        if not self.fits(batch, -(-tokens // self.block_tokens) + batch.freed_blocks + watermark):
            return False
        if self.reserve_fraction:
            reserved = self.reserved_blocks + self.reservation(request)
            if reserved + watermark > self.capacity:
                return False
            self.reserved_blocks = reserved
        return True

    def reservation(self, request: Request) -> int:
        """Blocks set aside for a request until it ends [blocks]."""
        tokens = request[2] + int(self.reserve_fraction * (request[3] - 1))
        return -(-tokens // self.block_tokens)

    def release(self, request: Request) -> None:
        """Return the reservation of a request that ends or is preempted."""
        if self.reserve_fraction:
            self.reserved_blocks -= self.reservation(request)
