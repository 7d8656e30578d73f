"""Paged cache of one replica: blocks held by its batches, blocks reserved, and cached blocks of prompts."""

from collections import OrderedDict
from collections.abc import Sequence

from advisor.simulator.serving.batch import MicroBatch, Request
from advisor.simulator.serving.content import ROOT, ContentTree
from advisor.simulator.serving.policy import UNLIMITED, SchedulerPolicy


class BlockLedger:
    """Ledger of the paged cache: blocks taken and reserved, and whether more may be granted.

    Source: own formulation of the block managers of vLLM (blocks chunk by chunk, admission by the whole prompt:
    scheduler_reserve_full_isl) and TensorRT-LLM (guaranteed no evict).
    """

    def __init__(
        self, batches: Sequence[MicroBatch], policy: SchedulerPolicy, reserve_fraction: float
    ) -> None:
        self.batches = batches
        self.block_tokens = policy.block_tokens
        self.tail_tokens = policy.block_tokens - 1
        self.capacity = UNLIMITED if policy.kv_capacity_blocks is None else policy.kv_capacity_blocks
        self.limited = policy.kv_capacity_blocks is not None
        self.shared = self.limited and len(batches) > 1
        self.watermark = policy.watermark_blocks
        self.reserve_fraction = reserve_fraction if self.limited else 0.0
        self.reserved_blocks = 0

    def surely_free(self, batch: MicroBatch) -> int:
        """Number of blocks that are free even if every last block is full: a cheap test that often suffices."""
        tokens = batch.context_sum + batch.num_decoding * self.tail_tokens
        free = self.capacity - tokens // self.block_tokens - batch.prefill_blocks
        if self.shared:
            free -= sum([other.most_blocks() for other in self.batches if other is not batch])
        return free

    def fits(self, batch: MicroBatch, need: int) -> bool:
        """Whether `need` more blocks are free in addition to those that the batches hold.

        A cheap upper bound is tried first; blocks that were reserved to the end on admission always fit.
        """
        if self.reserve_fraction == 1.0 or need <= self.surely_free(batch):
            return True
        others = sum(other.held_blocks() for other in self.batches if other is not batch)
        return batch.held_blocks() + others + need <= self.capacity

    def grant(self, batch: MicroBatch, request: Request, need: int, *, alone: bool, shared: int = 0) -> bool:
        """Whether a request whose first chunk needs `need` blocks may be admitted; if so, reserve blocks for its whole
        length.

        `shared` of the blocks that it would reserve belong to running requests.
        """
        reserved = self._reservations_with(batch, request, need, alone=alone, shared=shared)
        if reserved is None:
            return False
        self.reserved_blocks = reserved
        return True

    def has_room(self, batch: MicroBatch, request: Request, need: int) -> bool:
        """Whether `grant` would admit a request while others run."""
        return self._reservations_with(batch, request, need, alone=False, shared=0) is not None

    def _reservations_with(
        self, batch: MicroBatch, request: Request, need: int, *, alone: bool, shared: int
    ) -> int | None:
        """Number of reserved blocks once a request is admitted [blocks]; None if it has no room."""
        spare = batch.freed_blocks + (0 if alone else self.watermark)
        if not self.fits(batch, need + spare):
            return None
        if not self.reserve_fraction:
            return 0
        reserved = self.reserved_blocks + self.reservation(request)
        return reserved if reserved - shared + spare <= self.capacity else None

    def reservation(self, request: Request) -> int:
        """Number of blocks set aside for a request until it ends [blocks]."""
        tokens = request[2] + int(self.reserve_fraction * (request[3] - 1))
        return -(-tokens // self.block_tokens)

    def release(self, request: Request) -> None:
        """Return the reservation of a request that ends or is preempted."""
        if self.reserve_fraction:
            self.reserved_blocks -= self.reservation(request)


class PrefixCache:
    """Cached blocks by content node: pinned while a running request uses them, idle after, evicted least recent first.

    A node's cached blocks are always its first ones, and its parent's are then complete. A request pins its node,
    a pinned node pins its parent, so that pins reach the root and cost no more than the part of the path that is new.
    Idle nodes are in the order in which their last user left, deeper ones of the same moment first: this is the
    order of a free list to which blocks are returned tail first. An idle node at the front therefore never has a
    cached continuation, and eviction shortens it from its end.

    Source: own formulation of vLLM's block pool (reference counts, free queue in order of release, full blocks only).
    """

    def __init__(self, tree: ContentTree, block_tokens: int) -> None:
        self.parents = tree.parents
        self.ends = tree.ends
        self.block_tokens = block_tokens
        self.extents: dict[int, int] = {}
        """Number of cached blocks by node; nodes without any are missing."""
        self.pins: dict[int, int] = {ROOT: 1}
        """Number of running requests and pinned continuations by node; nodes without any are missing."""
        self.idle: OrderedDict[int, None] = OrderedDict()
        self.num_idle = 0
        """Number of blocks that no request uses and that may be evicted."""
        self.num_pinned = 0
        """Number of blocks that running requests use, each counted once."""

    def match(self, node: int) -> tuple[int, int]:
        """Return the number of blocks from the beginning of a node's content that are cached, and how many of them are
        pinned."""
        parents = self.parents
        extents = self.extents
        pins = self.pins
        while node:
            extent = extents.get(node)
            if extent:
                break
            node = parents[node]
        else:
            return 0, 0
        cached = self.ends[parents[node]] // self.block_tokens + extent
        while node not in pins:
            node = parents[node]
        if not node:
            return cached, 0
        return cached, self.ends[parents[node]] // self.block_tokens + extents.get(node, 0)

    def pin(self, node: int) -> None:
        """Keep the cached part of a node's content, present and future, until it is unpinned."""
        parents = self.parents
        pins = self.pins
        extents = self.extents
        while node:
            count = pins.get(node)
            if count:
                pins[node] = count + 1
                return
            pins[node] = 1
            extent = extents.get(node)
            if extent:
                self.num_pinned += extent
                self.num_idle -= extent
                del self.idle[node]
            node = parents[node]

    def unpin(self, node: int) -> None:
        """Give up one use of a node's content; blocks without another user become idle, the end first."""
        parents = self.parents
        pins = self.pins
        extents = self.extents
        while node:
            count = pins[node] - 1
            if count:
                pins[node] = count
                return
            del pins[node]
            extent = extents.get(node)
            if extent:
                self.num_pinned -= extent
                self.num_idle += extent
                self.idle[node] = None
            node = parents[node]

    def extend(self, node: int, first: int, last: int) -> None:
        """Note that blocks first..last-1 of a pinned node's content are computed."""
        parents = self.parents
        ends = self.ends
        extents = self.extents
        block_tokens = self.block_tokens
        while node:
            start = ends[parents[node]] // block_tokens
            if last > start:
                size = min(last, ends[node] // block_tokens) - start
                grown = size - extents.get(node, 0)
                if grown > 0:
                    extents[node] = size
                    self.num_pinned += grown
            if start <= first:
                return
            node = parents[node]

    def keep(self, node: int) -> None:
        """Hold all of a node's content in the state in which a finished request leaves it: cached and idle."""
        parents = self.parents
        ends = self.ends
        extents = self.extents
        idle = self.idle
        end = ends[node] // self.block_tokens
        while node:
            above = parents[node]
            start = ends[above] // self.block_tokens
            if end > start:
                self.num_idle += end - start - extents.get(node, 0)
                extents[node] = end - start
                idle[node] = None
                idle.move_to_end(node)
            node = above
            end = start

    def evict(self, num_blocks: int) -> None:
        """Evict idle blocks, least recently used first; fewer if there are not as many."""
        idle = self.idle
        extents = self.extents
        while num_blocks > 0 and idle:
            node = next(iter(idle))
            extent = extents[node]
            if extent > num_blocks:
                extents[node] = extent - num_blocks
                self.num_idle -= num_blocks
                return
            idle.popitem(last=False)
            del extents[node]
            self.num_idle -= extent
            num_blocks -= extent
