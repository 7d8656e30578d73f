"""Balance of routed experts over accelerators: popularity, redundant copies, and the load of the fullest rank."""

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.errors import AdvisorError

FloatArray = NDArray[np.float64]
_DRAWS = 64
"""Random placements over which experts without a plan are averaged."""


@dataclass(frozen=True, slots=True)
class ExpertBalance:
    """Loads of the ranks of one layer, relative to their mean."""

    slots_per_rank: int
    """Experts that each rank holds, copies included."""
    hottest_share: float
    """Fraction of all routed tokens that the most popular expert gets."""
    as_numbered: float
    """Load of the fullest rank where experts lie as they are numbered, over the mean; popularity has no order."""
    with_copies: float
    """Load of the fullest rank with copies of the most popular experts, packed by load, over the mean."""


def popularity(num_experts: int, skew: float) -> FloatArray:
    """Fractions of routed tokens by expert, most popular first: those of Zipf's law, 1 / rank^skew; 0 is even.

    Source: definition.
    """
    weights = np.arange(1, num_experts + 1, dtype=np.float64) ** -skew
    return np.asarray(weights / weights.sum())


def balance_experts(
    num_experts: int, num_ranks: int, *, skew: float, num_copies: int = 0, seed: int = 0
) -> ExpertBalance:
    """Return the loads of ranks under a popularity of experts, without and with redundant copies.

    copies go one by one to the expert with the most tokens for each of its copies; then experts go by load, largest
    first, to the rank with the least load that has a slot

    Assumes: tokens of an expert are shared evenly by its copies; popularity is known when experts are placed.
    Raises: AdvisorError: experts and copies do not divide among the ranks.
    Source: DeepSeek-AI, EPLB (deepseek-ai/EPLB); DeepSeek-V3, arXiv:2412.19437, section 3.4.
    """
    slots, left = divmod(num_experts + num_copies, num_ranks)
    if left or num_experts % num_ranks or not slots:
        near = num_copies + num_ranks - left
        raise AdvisorError(
            f"{num_experts} experts and {num_copies} copies do not divide among {num_ranks} ranks",
            why="every rank holds as many",
            fix=f"--redundant {near}" if num_experts % num_ranks == 0 else "--ep a divisor of the experts",
        )
    shares = popularity(num_experts, skew)
    rng = np.random.default_rng(seed)
    per_rank = num_experts // num_ranks
    plain = [rng.permutation(shares).reshape(num_ranks, per_rank).sum(axis=1).max() for _ in range(_DRAWS)]
    loads = _pack(_shares_of_copies(shares, num_copies), num_ranks, slots)
    return ExpertBalance(slots, float(shares[0]), float(np.mean(plain)) * num_ranks, max(loads) * num_ranks)


def _shares_of_copies(shares: FloatArray, num_copies: int) -> list[float]:
    """Return the shares of all copies, the most loaded expert copied next."""
    queue = [(-float(share), float(share), 1) for share in shares]
    heapq.heapify(queue)
    for _ in range(num_copies):
        _, share, count = heapq.heappop(queue)
        heapq.heappush(queue, (-share / (count + 1), share, count + 1))
    return [share / count for _, share, count in queue for _ in range(count)]


def _pack(shares: list[float], num_ranks: int, slots: int) -> list[float]:
    """Return the load of each rank after packing, largest first, to the least loaded rank with a free slot."""
    queue = [(0.0, rank) for rank in range(num_ranks)]
    used = [0] * num_ranks
    loads = [0.0] * num_ranks
    for share in sorted(shares, reverse=True):
        _, rank = heapq.heappop(queue)
        loads[rank] += share
        used[rank] += 1
        if used[rank] < slots:
            heapq.heappush(queue, (loads[rank], rank))
    return loads
