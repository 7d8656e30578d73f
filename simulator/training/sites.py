"""Training over sites that a slow network joins: gradients cross it every step, or parameters from time to time."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sites:
    """Equal clusters with a network of their own each, and a slower one between them."""

    num_sites: int
    bytes_per_s: float
    """Rate between one site and the others, in each direction [bytes/s]."""
    latency_s: float = 0.03
    """Round-trip time between sites [s]; 30 ms is about 3 000 km of fibre."""


def exchange_s(sites: Sites, num_bytes: float) -> float:
    """Time to average num_bytes over all sites [s]: 2 (s − 1) / s of them over a site's link, in 2 (s − 1) hops.

    Assumes: a ring; every site's accelerators share its link evenly, so that its size does not matter.
    Raises: ValueError: the link has no rate.
    Source: ring all-reduce (Patarasuk and Yuan 2009).
    """
    if not sites.bytes_per_s > 0:
        raise ValueError(f"bytes_per_s must be positive, not {sites.bytes_per_s}")
    hops = 2.0 * (sites.num_sites - 1)
    return hops / sites.num_sites * num_bytes / sites.bytes_per_s + hops * sites.latency_s


def synchronous_step_s(sites: Sites, step_s: float, backward_s: float, gradient_bytes: float) -> float:
    """Time of a step whose gradients cross the sites every time [s]; the part that the backward pass covers is hidden.

    step + max(0, exchange − backward)

    Source: definition; the overlap of data parallelism with the last backward pass.
    """
    return step_s + max(0.0, exchange_s(sites, gradient_bytes) - backward_s)


def local_step_s(
    sites: Sites, step_s: float, inner_steps: int, parameter_bytes: float, *, overlapped: bool = False
) -> float:
    """Mean time of a step if sites train apart and average their parameters every `inner_steps` steps [s].

    step + exchange / inner steps; overlapped, the exchange runs during the next inner steps, and only the part that
    outlasts them is exposed.

    Assumes: the outer optimizer's update takes no time; how far sites may drift apart is not judged here.
    Raises: ValueError: fewer than one inner step.
    Source: DiLoCo (arXiv:2311.08105), algorithm 1; overlapped: Streaming DiLoCo (arXiv:2501.18512).
    """
    if inner_steps < 1:
        raise ValueError(f"inner_steps must be at least 1, not {inner_steps}")
    exchange = exchange_s(sites, parameter_bytes)
    if overlapped:
        return max(step_s, exchange / inner_steps)
    return step_s + exchange / inner_steps
