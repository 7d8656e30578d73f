"""What carrying a load costs: how many replicas, on how many units of which offer, for how much per token."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from advisor.catalog.units import HOUR_S, MEGA
from advisor.recommend.bill import extra_usd_per_hour
from advisor.recommend.offers import Placement
from advisor.recommend.scenario import Scenario

_MOST_UNITS = 1_000_000
"""More than anybody sells."""
_ROUNDING = 1e-9
"""A share of the load that is a replica's very capacity, after division and multiplication."""


@dataclass(frozen=True, slots=True)
class Demand:
    """A load that is to be carried: a rate [requests/s], a number of clients, the most that a budget [USD/h] buys, or
    what one full unit carries."""

    kind: Literal["rate", "clients", "budget", "unit"]
    size: float = 0.0


def demands_of(scenario: Scenario) -> tuple[Demand, ...]:
    """The loads that a scenario asks about: the one that it names, its ladder, its budget, or one full unit."""
    traffic, budget = scenario.traffic, scenario.objectives.budget_usd_per_hour
    if traffic.rate_per_s is not None:
        return (Demand("rate", traffic.rate_per_s),)
    if traffic.concurrency is not None:
        return (Demand("clients", traffic.concurrency),)
    if scenario.ladder_per_s:
        return tuple(Demand("rate", rate) for rate in scenario.ladder_per_s)
    return (Demand("unit") if budget is None else Demand("budget", budget),)


@dataclass(frozen=True, slots=True)
class Purchase:
    """Replicas on whole units of one offer."""

    placement: Placement
    num_replicas: int
    num_units: int
    requests_per_s: float
    """Served by all replicas together, at the planning point."""
    usd_per_million_tokens: float
    cost: float
    """What a search minimises: dollars per million tokens, of the whole budget where that is what is asked."""

    @property
    def usd_per_hour(self) -> float:
        return self.num_units * self.placement.usd_per_unit_hour


def cheapest_purchase(
    scenario: Scenario, demand: Demand, ways: Sequence[Placement], load: float, requests_per_s: float
) -> Purchase | None:
    """The cheapest way to carry a demand; None where no way stays within the budget and the units that can be had.

    `load` and `requests_per_s` are what one replica carries and serves at most; it is planned with the scenario's
    headroom.
    """
    traffic, planned = scenario.traffic, planned_load(scenario, load)
    tokens = traffic.mean_input_tokens + traffic.mean_output_tokens
    best, least = None, math.inf
    for way in ways:
        bought = _units(scenario, demand, way, planned)
        if bought is None:
            continue
        num_replicas, num_units = bought
        if demand.kind == "rate":
            served_per_s = demand.size
        elif demand.kind == "clients":
            served_per_s = demand.size / load * requests_per_s
        else:
            served_per_s = num_replicas * planned * requests_per_s / load
        spent = demand.size if demand.kind == "budget" else num_units * way.usd_per_unit_hour
        cost = usd_per_million_tokens(spent, served_per_s, tokens)
        if best is None or cost < least:
            best, least = (way, num_replicas, num_units, served_per_s), cost
    if best is None:
        return None
    way, _, num_units, served_per_s = best
    usd = usd_per_million_tokens(num_units * way.usd_per_unit_hour, served_per_s, tokens)
    return Purchase(*best, usd, least)


def least_costs(
    scenario: Scenario, demands: Sequence[Demand], ways: Sequence[Placement], requests_per_s: float
) -> tuple[float, ...]:
    """Least cost of each demand if one replica serves at most so many requests per second [USD per million tokens];
    infinite where no way stays within the budget and the units that can be had.
    """
    return tuple(
        _least_of_clients(scenario, ways, requests_per_s)
        if demand.kind == "clients"
        else _cost(cheapest_purchase(scenario, demand, ways, requests_per_s, requests_per_s))
        for demand in demands
    )


def replicas_for(asked: float, load_per_replica: float) -> int:
    """Replicas that carry a load together, evenly shared."""
    return max(1, math.ceil(asked / load_per_replica - _ROUNDING))


def usd_per_million_tokens(usd_per_hour: float, requests_per_s: float, tokens_per_request: float) -> float:
    """Dollars per million input and output tokens of a deployment at a steady load [USD].

    Source: definition: dollars per hour over tokens per hour.
    """
    return usd_per_hour / (requests_per_s * tokens_per_request * HOUR_S) * MEGA


def planned_load(scenario: Scenario, capacity: float) -> float:
    """What a replica of a confirmed capacity is planned to carry [requests/s, or whole clients of a closed loop].

    Source: own policy: headroom for bursts and for the error of the model.
    """
    load = capacity * (1.0 - scenario.headroom_fraction)
    return load if scenario.traffic.concurrency is None else max(1.0, math.floor(load + _ROUNDING))


def _units(scenario: Scenario, demand: Demand, way: Placement, planned: float) -> tuple[int, int] | None:
    """Replicas and units that carry a demand at so much load per replica; None where they cannot be had."""
    budget = scenario.objectives.budget_usd_per_hour
    most = math.inf if way.max_units is None else way.max_units
    if budget is not None:
        machines = budget - extra_usd_per_hour(way.price, scenario.beside)
        most = min(most, math.floor(machines / way.usd_per_unit_hour + _ROUNDING))
    if demand.kind in ("rate", "clients"):
        spare = 1 if scenario.redundancy == "n+1" and not way.has_spare else 0
        num_replicas = replicas_for(demand.size, planned) + spare
        num_units = max(way.min_units, math.ceil(num_replicas / way.replicas_per_unit))
    else:
        num_units = way.min_units if demand.kind == "unit" else int(min(most, _MOST_UNITS))
        num_replicas = num_units * way.replicas_per_unit
    return (num_replicas, num_units) if way.min_units <= num_units <= most else None


def _cost(purchase: Purchase | None) -> float:
    return purchase.cost if purchase else math.inf


def _least_of_clients(scenario: Scenario, ways: Sequence[Placement], requests_per_s: float) -> float:
    """Clients that wait for answers are served no faster than a full replica serves."""
    budget, traffic = scenario.objectives.budget_usd_per_hour or math.inf, scenario.traffic
    tokens = traffic.mean_input_tokens + traffic.mean_output_tokens
    least = min(
        (way.usd_per_replica_hour for way in ways if way.usd_per_unit_hour <= budget), default=math.inf
    )
    return usd_per_million_tokens(least, requests_per_s, tokens)
