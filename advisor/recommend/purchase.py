"""What carrying a load costs: how many replicas, on how many units of which offer, for how much per token."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.catalog.units import HOUR_S, MEGA
from advisor.recommend.offers import Placement
from advisor.recommend.scenario import Scenario, Traffic

_ROUNDING = 1e-9
"""A share of the load that is a replica's very capacity, after division and multiplication."""


@dataclass(frozen=True, slots=True)
class Purchase:
    """Replicas on whole units of one offer."""

    placement: Placement
    num_replicas: int
    num_units: int
    requests_per_s: float
    """Served by all replicas together."""
    usd_per_million_tokens: float

    @property
    def usd_per_hour(self) -> float:
        return self.num_units * self.placement.usd_per_unit_hour


def cheapest_purchase(
    scenario: Scenario, ways: Sequence[Placement], load: float, requests_per_s: float
) -> Purchase | None:
    """The cheapest way per token to carry the load asked for, or, where none is, to fill one unit; None where no way
    stays within the budget and the units that can be had.

    `load` and `requests_per_s` are what one replica carries and serves.

    Source: own definition.
    """
    found = [purchase for way in ways if (purchase := _purchase(scenario, way, load, requests_per_s))]
    return min(found, key=lambda purchase: purchase.usd_per_million_tokens, default=None)


def least_usd_per_million_tokens(
    scenario: Scenario, ways: Sequence[Placement], requests_per_s: float
) -> float | None:
    """Least cost per million tokens if one replica serves at most so many requests per second [USD]; None where no
    way stays within the budget and the units that can be had. With a given rate, whole units count.

    Source: own definition.
    """
    if scenario.traffic.rate_per_s is not None:
        cheapest = cheapest_purchase(scenario, ways, requests_per_s, requests_per_s)
        return cheapest.usd_per_million_tokens if cheapest else None
    budget = scenario.objectives.budget_usd_per_hour or math.inf
    least = min((way.usd_per_replica_hour for way in ways if way.usd_per_unit_hour <= budget), default=None)
    return None if least is None else usd_per_million_tokens(least, requests_per_s, _tokens(scenario.traffic))


def replicas_for(asked: float, load_per_replica: float) -> int:
    """Replicas that carry a load together, evenly shared.

    Source: definition.
    """
    return max(1, math.ceil(asked / load_per_replica - _ROUNDING))


def usd_per_million_tokens(usd_per_hour: float, requests_per_s: float, tokens_per_request: float) -> float:
    """Dollars per million input and output tokens of a deployment at a steady load [USD].

    Source: definition: dollars per hour over tokens per hour.
    """
    return usd_per_hour / (requests_per_s * tokens_per_request * HOUR_S) * MEGA


def _purchase(scenario: Scenario, way: Placement, load: float, requests_per_s: float) -> Purchase | None:
    traffic = scenario.traffic
    asked = traffic.rate_per_s or traffic.concurrency
    num_replicas = way.replicas_per_unit if asked is None else replicas_for(asked, load)
    num_units = math.ceil(num_replicas / way.replicas_per_unit)
    usd_per_hour = num_units * way.usd_per_unit_hour
    budget = scenario.objectives.budget_usd_per_hour
    if (budget is not None and usd_per_hour > budget) or num_units > (way.max_units or math.inf):
        return None
    served_per_s = traffic.rate_per_s or num_replicas * requests_per_s
    usd = usd_per_million_tokens(usd_per_hour, served_per_s, _tokens(traffic))
    return Purchase(way, num_replicas, num_units, served_per_s, usd)


def _tokens(traffic: Traffic) -> int:
    return traffic.mean_input_tokens + traffic.mean_output_tokens
