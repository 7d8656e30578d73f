"""The cost of finishing a batch in time: whole units of an offer, their start, and the loss of spot machines."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.catalog.units import DAY_S, GB, MINUTE_S
from advisor.decide.batch.result import BatchJob
from advisor.decide.candidates import Candidate
from advisor.decide.offers import ROUNDING, Placement
from advisor.decide.purchase import extra_usd_per_hour, job_usd
from advisor.decide.scenario import Scenario

_LOAD_BYTES_PER_S = 1.0 * GB
"""Rate at which weights come from a store into one accelerator while a replica starts. Own assumption."""
_START_S = 2.0 * MINUTE_S
"""Time in which a machine boots, pulls its image and compiles [s]. Own assumption."""


@dataclass(frozen=True, slots=True)
class BatchPurchase:
    """Whole units of an offer that finish in time."""

    way: Placement
    num_units: int
    duration_s: float
    usd: float
    drawn_fraction: float
    """Power that own boards draw over their rated power, by which their electricity is paid; 1 for what is rented."""

    @property
    def usd_per_hour(self) -> float:
        """Price of the units [USD/h]."""
        return self.num_units * self.way.usd_per_unit_hour * self.drawn_fraction

    @property
    def num_replicas(self) -> int:
        return self.num_units * self.way.replicas_per_unit


def cheapest_batch(
    ways: Sequence[Placement],
    requests_per_s: float,
    scenario: Scenario,
    job: BatchJob,
    candidate: Candidate,
    drawn_fraction: float,
) -> BatchPurchase | None:
    """The cheapest way to buy replicas of this rate that finish in time; own boards draw this fraction of their rated
    power."""
    bought = (_purchase(way, requests_per_s, scenario, job, candidate, drawn_fraction) for way in ways)
    found = [purchase for purchase in bought if purchase is not None]
    return min(found, key=lambda purchase: purchase.usd, default=None)


def _purchase(
    way: Placement,
    requests_per_s: float,
    scenario: Scenario,
    job: BatchJob,
    candidate: Candidate,
    drawn_fraction: float,
) -> BatchPurchase | None:
    if requests_per_s <= 0.0:
        return None
    start_s = start_up_s(candidate)
    rate = requests_per_s * kept_fraction(way.price.term, job.spot_losses_per_day, start_s)
    room_s = job.deadline_s - start_s
    if room_s <= 0.0:
        return None
    units = max(way.min_units, math.ceil(job.num_requests / (rate * room_s) / way.replicas_per_unit))
    duration_s = start_s + job.num_requests / (rate * units * way.replicas_per_unit)
    machines = units * way.usd_per_unit_hour * drawn_fraction
    usd = job_usd(way.price.term, machines, duration_s)
    budget = scenario.objectives.budget_usd_per_hour
    per_hour = machines + extra_usd_per_hour(way.price, scenario.beside)
    if (budget is not None and per_hour > budget * (1.0 + ROUNDING)) or units > (way.max_units or math.inf):
        return None
    return BatchPurchase(way, units, duration_s, usd, drawn_fraction)


def start_up_s(candidate: Candidate) -> float:
    """Return the time from renting a machine to its first request [s]: boot, image, weights.

    Assumes: a store that feeds each accelerator with 1 GB/s.
    Source: own assumption, printed with the answer.
    """
    return _START_S + candidate.memory.weight_bytes / _LOAD_BYTES_PER_S


def kept_fraction(term: str, losses_per_day: float, start_s: float) -> float:
    """Part of a machine's time that does work although it may be lost [fraction].

    1 / (1 + losses per second · (start + half of what is in hand)); only spot machines are lost

    Assumes: a lost machine is replaced at once, and requests in hand are worth half a minute.
    Source: renewal argument, own derivation.
    """
    if term != "spot":
        return 1.0
    return 1.0 / (1.0 + losses_per_day / DAY_S * (start_s + MINUTE_S / 2.0))
