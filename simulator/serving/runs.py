"""Runs of iterations whose times grow linearly: their sum, and the iteration in which an instant falls."""

from math import isqrt


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
