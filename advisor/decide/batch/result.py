"""A batch of requests with a deadline."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchJob:
    """How many requests, until when, and how often spot machines are lost."""

    num_requests: int
    deadline_s: float
    spot_losses_per_day: float = 1.0
    """Spot losses of one machine per day; another machine repeats the requests that were running on it."""
