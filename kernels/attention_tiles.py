"""Tiles of queries of packed sequences, in the order in which programs take them.

The tiles of one sequence lie together, so that the L2 serves their keys to all of them. Sequences with more keys go
first, and in each the last queries, which see the most keys: what is left at the end are the shortest tiles.
"""

from typing import Final

import torch
import triton
import triton.language as tl

TILE_WORDS: Final = 7
"""Number of words that describe a tile: its first query, the queries from it to the end of the sequence, the place of
the first query among the keys, the first key, the number of keys, the sequence, and the queries before the tile."""
_AT_ONCE: Final = 64
"""Number of tiles, and of sequences, that a program compares at once."""


@triton.jit
def _length(starts_ptr, sequence, inside):
    """Return the lengths of sequences, 0 for those that are not inside."""
    end = tl.load(starts_ptr + sequence + 1, mask=inside, other=0)
    return end - tl.load(starts_ptr + sequence, mask=inside, other=0)


@triton.jit
def _list_kernel(
    q_starts_ptr,
    k_starts_ptr,
    tiles_ptr,
    counts_ptr,
    num_sequences,
    TILE: tl.constexpr,
    WORDS: tl.constexpr,
    AT_ONCE: tl.constexpr,
):
    """List the tiles of one sequence, the last queries first, after those of all sequences with more keys."""
    own = tl.program_id(0)
    first_query = tl.load(q_starts_ptr + own)
    num_queries = tl.load(q_starts_ptr + own + 1) - first_query
    first_key = tl.load(k_starts_ptr + own)
    num_keys = tl.load(k_starts_ptr + own + 1) - first_key
    total = 0
    before = 0
    for first in range(0, num_sequences, AT_ONCE):
        others = first + tl.arange(0, AT_ONCE)
        inside = others < num_sequences
        num_tiles = tl.cdiv(_length(q_starts_ptr, others, inside), TILE)
        keys = _length(k_starts_ptr, others, inside)
        earlier = inside & ((keys > num_keys) | ((keys == num_keys) & (others < own)))
        total += tl.sum(num_tiles)
        before += tl.sum(tl.where(earlier, num_tiles, 0))
    own_tiles = tl.cdiv(num_queries, TILE)
    for first_tile in range(0, own_tiles, AT_ONCE):
        tiles = first_tile + tl.arange(0, AT_ONCE)
        words = tiles_ptr + (before + own_tiles - 1 - tiles) * WORDS
        rows = tiles * TILE
        listed = rows < num_queries
        tl.store(words, first_query + rows, mask=listed)
        tl.store(words + 1, num_queries - rows, mask=listed)
        tl.store(words + 2, rows + num_keys - num_queries, mask=listed)
        tl.store(words + 3, first_key + tl.zeros_like(rows), mask=listed)
        tl.store(words + 4, num_keys + tl.zeros_like(rows), mask=listed)
        tl.store(words + 5, own + tl.zeros_like(rows), mask=listed)
        tl.store(words + 6, rows, mask=listed)
    if own == 0:
        tl.store(counts_ptr, total)
        tl.store(counts_ptr + 1, 0)


def list_tiles(
    q_starts: torch.Tensor, k_starts: torch.Tensor, num_queries: int, tile: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what describes each tile of `tile` queries, and two counts: of the tiles, and of those taken, zero.

    Shapes: starts [N + 1] int32 -> [⌊S / tile⌋ + N, 7] int32, [2] int32. Rows beyond the number of tiles have no
    content.
    """
    sequences = q_starts.numel() - 1
    numbers = {"dtype": torch.int32, "device": q_starts.device}
    tiles = torch.empty((num_queries // tile + sequences, TILE_WORDS), **numbers)
    counts = torch.empty(2, **numbers)
    _list_kernel[(sequences,)](
        q_starts,
        k_starts,
        tiles,
        counts,
        sequences,
        TILE=tile,
        WORDS=TILE_WORDS,
        AT_ONCE=_AT_ONCE,
    )
    return tiles, counts
