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

RESIDENCES: Final = 8
"""Minimum length of a run in mean residence times of a request, because a run starts with an empty replica and ends
with a draining one: what is then under way is about a tenth of the requests, which the steady rate leaves out."""
_GROWING_WAIT: Final = 1.25
"""Ratio of the mean wait of the second half of the requests to that of all, from which on waits count as growing: 1.5
if they grow from the start to the end, 1 in a steady state."""
_LEAST_WAIT: Final = 0.05
"""Mean wait over mean residence below which it does not matter whether waits grow."""
_LONG_WAIT: Final = 1.0
"""Mean wait over mean residence from which on growing waits are an overload, however small the shortfall."""
_MARGIN: Final = 2.0
"""Length of a run that was too short, when it is run again, over the minimum."""
_ROUND_TO: Final = 1000
"""Multiple of requests to which the length of a longer run is rounded."""
_MOST_REQUESTS: Final = 32_000
"""Requests beyond which a run is made no longer by itself."""

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
    last arrival. Where waits grow beyond the time in service, a small shortfall is enough.

    Assumes: arrivals whose number has about the variance of a Poisson process.
    Source: own definition; a queue with arrivals faster than services has no steady state.
    """
    served = result.steady_requests_per_s
    if sent_per_s is None or served is None or not result.num_requests:
        return None
    least = 0.0 if _waits_grow(result, _LONG_WAIT) else _LEAST_SHORTFALL
    shortfall = max(least, _STANDARD_ERRORS / math.sqrt(result.num_requests))
    falls_short = served < (1.0 - shortfall) * sent_per_s
    goes_on = result.duration_s * sent_per_s > (1.0 + least) * result.num_requests
    return Overload(sent_per_s, served) if falls_short and goes_on else None


def num_requests_to_tell(result: ServingResult, sent_per_s: float | None, num_runs: int = 1) -> int | None:
    """Return the requests of a run that is long enough to tell whether the deployment keeps up; None if each of the
    `num_runs` runs of the result is, or if clients wait for outputs.

    The time that a request waits before it is admitted is no part of its residence: it grows under overload with the
    length of the run. Requests that are sent but not served fill no place either. If waits grow in a run that falls
    short too little for a verdict, only a longer one tells an overload from a busy hour.

    Source: own definition; requests under way are rate times residence (Little's law).
    """
    if sent_per_s is None or not result.num_finished:
        return None
    served_per_s = min(sent_per_s, result.steady_requests_per_s or sent_per_s)
    under_way = served_per_s * (result.e2e.mean_s - result.queueing.mean_s)
    num_requests = result.num_requests / num_runs
    needed = RESIDENCES * under_way
    if _waits_grow(result, _LEAST_WAIT) and overload_of(result, sent_per_s) is None:
        needed = max(needed, _MARGIN * num_requests)
    return None if num_requests >= needed else _ROUND_TO * math.ceil(_MARGIN * needed / _ROUND_TO)


def _waits_grow(result: ServingResult, least: float) -> bool:
    """Whether requests wait longer in the second half of a run, and on average at least `least` times the time for
    which they are served."""
    mean_s = result.queueing.mean_s
    late_s = result.late_queueing_s
    matters = mean_s > least * (result.e2e.mean_s - mean_s)
    return matters and late_s is not None and late_s > _GROWING_WAIT * mean_s


def num_requests_to_run_again(
    result: ServingResult, sent_per_s: float | None, num_runs: int = 1
) -> int | None:
    """Return the requests of a longer run in place of one that is too short; None if none is needed or allowed.

    Source: `num_requests_to_tell`.
    """
    needed = num_requests_to_tell(result, sent_per_s, num_runs)
    num_requests = min(needed or 0, _MOST_REQUESTS)
    return num_requests if num_requests > result.num_requests / num_runs else None


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
