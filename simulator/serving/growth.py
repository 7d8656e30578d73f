"""Closed forms of what grows evenly: times of runs of iterations, blocks that a batch of sequences holds."""

from collections.abc import Sequence
from math import isqrt
from operator import mul


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
    """block_tokens-1 .. 0 twice: the table that num_blocks reads.

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
    """Iterations that fit into capacity_blocks, at most `most`; the first is known to fit [iterations].

    Tests a cheap upper bound first (every tail full), then bisects on the exact count.

    Source: own derivation.
    """
    block_tokens = len(phase_counts)
    bound = (context_sum + (most - 1) * num_sequences + num_sequences * (block_tokens - 1)) // block_tokens
    if bound <= capacity_blocks:
        return most
    low, high = 1, most
    while low < high:
        middle = (low + high + 1) // 2
        grown = context_sum + (middle - 1) * num_sequences
        if num_blocks(grown, phase_counts, tick + middle - 1, weights) <= capacity_blocks:
            low = middle
        else:
            high = middle - 1
    return low
