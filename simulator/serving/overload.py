"""Overload: an open load that a deployment does not carry, seen in a simulated run."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from advisor.simulator.serving.metrics import ServingResult

if TYPE_CHECKING:  # a run of one deployment needs no simulation of fleets
    from advisor.simulator.serving.fleet_result import FleetResult

_LEAST_SHORTFALL: Final = 0.05
"""Fraction of the sent requests by which the served rate must fall short. The steady rate of a run that keeps up is
within 2 % of the rate that is sent."""
_STANDARD_ERRORS: Final = 3.0
"""Number of standard errors of a rate of Poisson arrivals by which the served rate must fall short as well."""

_GROWTH: Final = 1.5
"""Ratio of the requests under way when arrivals end to those half-way, from which on they count as growing: 2 in an
overload from the start, 1 in a steady state."""
_LEAST_ROWS: Final = 8
"""Least number of intervals of a timeline in which requests arrive, from which growth is judged."""


@dataclass(frozen=True, slots=True)
class Overload:
    """Load beyond capacity: requests come faster than they are served, so that latencies grow with the length of the
    run."""

    sent_per_s: float
    served_per_s: float
    """Requests per second that finish while the load lasts."""

    @property
    def queue_growth_per_s(self) -> float:
        """Requests by which the queue grows each second [1/s]."""
        return self.sent_per_s - self.served_per_s


def overload_of(result: ServingResult, sent_per_s: float | None) -> Overload | None:
    """Return the overload of a run with requests at a rate; None if the run keeps up, or if clients wait for outputs.

    A run is overloaded if requests finish more slowly than they come, by more than chance, and it goes on after the
    last arrival.

    Assumes: arrivals whose number has about the variance of a Poisson process.
    Source: own definition; a queue with arrivals faster than services has no steady state.
    """
    served = result.steady_requests_per_s
    if sent_per_s is None or served is None or not result.num_requests:
        return None
    chance = _STANDARD_ERRORS / math.sqrt(result.num_requests)
    falls_short = served < (1.0 - max(_LEAST_SHORTFALL, chance)) * sent_per_s
    goes_on = result.duration_s * sent_per_s > (1.0 + _LEAST_SHORTFALL) * result.num_requests
    return Overload(sent_per_s, served) if falls_short and goes_on else None


def overload_of_fleet(result: "FleetResult") -> Overload | None:
    """Return the overload of a fleet at the end of its load; None if it keeps up, or turns requests away instead.

    A fleet is overloaded if requests under way grow until the last arrival and are then more than chance explains.

    Assumes: arrivals whose number has about the variance of a Poisson process.
    Source: own definition, as for one deployment.
    """
    rows = result.timeline
    last = max((index for index, row in enumerate(rows) if row.arrived_per_s > 0), default=0)
    if last < _LEAST_ROWS:
        return None
    lengths = [later.from_s - row.from_s for row, later in pairwise(rows[: last + 1])]
    under_way = [0.0]
    for row, length in zip(rows, lengths, strict=False):
        under_way.append(under_way[-1] + (row.arrived_per_s - row.finished_per_s) * length)
    half = len(lengths) // 2
    chance = max(_LEAST_SHORTFALL, _STANDARD_ERRORS / math.sqrt(max(1, result.num_requests)))
    is_growing = under_way[-1] > _GROWTH * max(under_way[half], 0.0)
    if not is_growing or under_way[-1] < chance * result.num_requests:
        return None
    time_s = sum(lengths[half:])
    parts = tuple(zip(rows[half:], lengths[half:], strict=False))
    sent = sum(row.arrived_per_s * length for row, length in parts) / time_s
    return Overload(sent, sum(row.finished_per_s * length for row, length in parts) / time_s)
