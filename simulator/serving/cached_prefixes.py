"""Prefixes that requests share, from the tokens of each prompt that a prefix cache held when it was recorded."""

import bisect
import math
from collections.abc import Sequence
from itertools import count
from typing import Final

BLOCKS_TOKENS: Final = (16, 32, 64, 128, 256, 512, 1024)
"""Sizes of blocks that are tried [tokens]: vLLM's smallest one and its multiples; OpenAI's interface counts in 128."""


def hash_ids_of_cached(
    inputs: Sequence[int], cached: Sequence[int], most_ids: int
) -> tuple[int, tuple[tuple[int, ...], ...]] | None:
    """Return the tokens of a block and block ids of each prompt, so that each prompt shares with an earlier one what a
    cache held of it; None if nothing is shared, or more than `most_ids` would be needed.

    Assumes: a prompt continues the shortest earlier one that is as long as what it shares: counts do not say which.
        What no earlier prompt is long enough for was cached before the recording began, and is computed.
    Error: a prompt shares whole blocks, so up to one block less than recorded.
    Source: own definition.
    """
    blocks = [size for size in BLOCKS_TOKENS if sum(-(-tokens // size) for tokens in inputs) <= most_ids]
    if not blocks or not any(cached):
        return None
    common = math.gcd(*cached)
    block = max((size for size in blocks if common % size == 0), default=blocks[0])
    fresh = count()
    lengths: list[int] = []
    chains: list[tuple[int, ...]] = []
    found = []
    for tokens, held in zip(inputs, cached, strict=True):
        whole = min(held, tokens) // block
        place = bisect.bisect_left(lengths, whole * block)
        parent = chains[min(place, len(chains) - 1)] if chains else ()
        shared = parent[: min(whole, len(parent))]
        ids = (*shared, *(next(fresh) for _ in range(-(-tokens // block) - len(shared))))
        found.append(ids)
        full = tokens // block
        at = bisect.bisect_right(lengths, full * block)
        lengths.insert(at, full * block)
        chains.insert(at, ids[:full])
    return block, tuple(found)
