"""A batch of requests with a deadline."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchJob:
    """How many requests, until when, and how often spot machines are lost."""

    num_requests: int
    deadline_s: float
    spot_losses_per_day: float = 1.0
    """Of one machine; what it had in hand is asked again elsewhere."""
