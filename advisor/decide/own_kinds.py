"""Own boards of several kinds that serve together: replicas of each kind behind one router, which gives each kind the
share of the requests that it carries.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from advisor.catalog.ownership import ownership
from advisor.catalog.schema import Model
from advisor.decide.effort import is_spent
from advisor.decide.load_runs import LoadShare, SplitModel
from advisor.decide.measure import GRID
from advisor.decide.offers import ROUNDING, Placement
from advisor.decide.purchase import Demand, demands_of, extra_usd_per_hour, purchase_on
from advisor.decide.race import Race, Report, run_planning_point
from advisor.decide.ranking import Planned, judge_purchase
from advisor.decide.scenario import Scenario
from advisor.decide.trial import FleetPart, Found, Trial, UnlikeFleet

LEVER: Final = "own kinds"
"""Name of the lever that makes a fleet of own boards of several kinds."""
_MOST_STEPS: Final = 8


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of board with its best deployment."""

    plan: Planned
    """All boards of the kind at their capacity."""
    most: int
    """Replicas for which there are boards."""
    power_w: float
    """Power that a budget reserves for a replica, its part of the host included [W]; 0 where no source states it."""

    @property
    def way(self) -> Placement:
        return self.plan.found.purchase.placement

    @property
    def usd_per_hour(self) -> float:
        """Electricity of a replica at its capacity [USD/h]."""
        return self.way.usd_per_unit_hour * self.plan.found.purchase.drawn_fraction

    @property
    def load(self) -> float:
        """Capacity of a replica [requests/s]."""
        return self.plan.found.capacity.load


def serve_together(
    scenario: Scenario, model: Model, trials: Sequence[Trial], report: Report = lambda line: None
) -> Planned | None:
    """Return the cheapest replicas of several kinds of own boards that carry the load together, or those that carry
    most within a budget; None where there is one kind only, or where all together do not carry it.

    Each kind runs the deployment that serves most tokens per dollar; the load that they carry is the sum of theirs.
    Assumes: the router weighs replicas by their capacity; a kind sees a share of every length.
    """
    demand = demands_of(scenario)[-1]
    names = _names(scenario)
    if demand.kind not in ("rate", "budget") or len(names) < 2 or explain_alone(scenario):
        return None
    kinds = _kinds(scenario, model, trials, names, report)
    for step in range(_MOST_STEPS):
        counts = _choose_counts(scenario, demand, kinds, GRID**step)
        if counts is None or is_spent():
            return None
        plan = _buy(scenario, demand, kinds, counts, GRID**step)
        held = (
            None if plan is None else run_planning_point(scenario, plan, is_held=not scenario.screened_only)
        )
        if held is not None:
            return held
    return None


def _names(scenario: Scenario) -> list[str]:
    return list(dict.fromkeys(name for _, name in scenario.constraints.own))


def explain_alone(scenario: Scenario) -> str:
    """Return why own boards of several kinds are each tried alone for this traffic; empty where they serve together."""
    if len(_names(scenario)) < 2:
        return ""
    if scenario.constraints.own_are_alternatives:
        return "each of the alternatives is planned alone"
    if scenario.traffic.conversations is not None:
        return "each kind of own boards is tried alone, as a router with weights keeps no conversation on a replica"
    if demands_of(scenario)[-1].kind == "clients":
        return (
            "each kind of own boards is tried alone, as clients that wait for answers gather at the slower kind; "
            "kinds serve together for a --rate or a --budget"
        )
    return ""


def _kinds(
    scenario: Scenario, model: Model, trials: Sequence[Trial], names: Sequence[str], report: Report
) -> list[_Kind]:
    """The kinds of boards with their best deployments, by a race for all boards of each, on the runs that were made."""
    again = [
        Trial(each.order, each.candidate, each.ways, each.rate_bound, measurements=each.measurements)
        for each in trials
        if each.parent is None and each.candidate.full_power is None
    ]
    race = Race(scenario, model, (Demand("unit"),), again, width=len(names), report=report)
    race.run()
    known = ownership(scenario.as_of)
    found = list[_Kind]()
    for plan in race.entries(-1):
        way = plan.found.purchase.placement
        watts = known.system_power_w(plan.found.candidate.deployment.accelerator.tdp_w or 0.0)
        found.append(_Kind(plan, way.max_units or 0, watts * way.accelerators_per_unit))
    return found


def _choose_counts(
    scenario: Scenario, demand: Demand, kinds: Sequence[_Kind], part: float
) -> tuple[int, ...] | None:
    """The replicas of each kind that carry the load at the least electricity, given this part of their capacities, or
    those that carry most within a budget."""
    budget_w = scenario.constraints.power_budget_w or math.inf

    def usd_per_hour(counts: Sequence[int]) -> float:
        return sum(count * kind.usd_per_hour for count, kind in zip(counts, kinds, strict=True))

    def is_allowed(counts: Sequence[int]) -> bool:
        draw_w = sum(count * kind.power_w for count, kind in zip(counts, kinds, strict=True))
        return sum(count > 0 for count in counts) > 1 and draw_w <= budget_w * (1.0 + ROUNDING)

    if demand.kind == "budget":
        able = filter(is_allowed, _affordable(scenario, demand.size, kinds))
        return max(able, key=lambda counts: (_carries(scenario, kinds, counts), counts), default=None)
    needed = demand.size / (1.0 - scenario.headroom_fraction) / part
    able = filter(is_allowed, _counts(scenario, kinds, needed))
    return min(able, key=lambda counts: (usd_per_hour(counts), counts), default=None)


def _affordable(scenario: Scenario, budget: float, kinds: Sequence[_Kind]) -> Iterator[tuple[int, ...]]:
    """Yield the replicas of each kind, as many of the last one as a budget [USD/h] and the power budget leave to it."""
    if not kinds:
        return
    *others, last = kinds
    power_w = scenario.constraints.power_budget_w or math.inf
    machines = budget - extra_usd_per_hour(last.way.price, scenario.beside)
    for first in itertools.product(*(range(kind.most + 1) for kind in others)):
        pairs = list(zip(first, others, strict=True))
        usd = machines - sum(count * kind.way.usd_per_unit_hour for count, kind in pairs)
        watts = power_w - sum(count * kind.power_w for count, kind in pairs)
        most = min(
            last.most, usd / last.way.usd_per_unit_hour, watts / last.power_w if last.power_w else math.inf
        )
        if most >= 0.0:
            yield (*first, math.floor(most + ROUNDING))


def _counts(scenario: Scenario, kinds: Sequence[_Kind], needed: float) -> Iterator[tuple[int, ...]]:
    """Yield the replicas of each kind, as few of the last one as the load leaves to it."""
    if not kinds:
        return
    *others, last = kinds
    for first in itertools.product(*(range(kind.most + 1) for kind in others)):
        for count in range(last.most + 1):
            counts = (*first, count)
            if _carries(scenario, kinds, counts) * (1.0 + ROUNDING) >= needed:
                yield counts
                break


def _carries(scenario: Scenario, kinds: Sequence[_Kind], counts: Sequence[int]) -> float:
    """Load of the replicas together, without the largest one where one may fail [requests/s]."""
    loads = [kind.load for kind, count in zip(kinds, counts, strict=True) if count]
    whole = sum(count * kind.load for kind, count in zip(kinds, counts, strict=True))
    return whole - (max(loads, default=0.0) if scenario.redundancy == "n+1" else 0.0)


def _buy(
    scenario: Scenario, demand: Demand, kinds: Sequence[_Kind], counts: Sequence[int], part: float
) -> Planned | None:
    """The replicas as one purchase of own boards."""
    used = [(kind, count) for kind, count in zip(kinds, counts, strict=True) if count]
    whole = sum(count * kind.load for kind, count in used)
    fractions = [count * kind.load / whole for kind, count in used[1:]]
    fractions = [1.0 - sum(fractions), *fractions]
    served = SplitModel(
        tuple(
            LoadShare(kind.plan.found.replica, scenario.traffic, fraction, count)
            for (kind, count), fraction in zip(used, fractions, strict=True)
        )
    )
    parts = tuple(
        FleetPart(
            "kind",
            kind.plan.found.candidate,
            kind.plan.found.replica,
            count,
            kind.way,
            count,
            share_fraction=fraction,
        )
        for (kind, count), fraction in zip(used, fractions, strict=True)
    )
    last, _ = used[-1]
    way = replace(
        last.way,
        replicas_per_unit=1,
        accelerators_per_unit=sum(count * kind.way.accelerators_per_unit for kind, count in used),
        usd_per_unit_hour=sum(count * kind.way.usd_per_unit_hour for kind, count in used),
        max_units=1,
        num_workers=sum(count for _, count in used),
        has_spare=scenario.redundancy == "n+1",
    )
    carried = part * _carries(scenario, kinds, counts)
    capacity = last.plan.found.capacity.scale(carried / last.load)
    bought = purchase_on(scenario, demand, way, capacity.load * (1.0 + ROUNDING), capacity.requests_per_s)
    if bought is None:
        return None
    found = last.plan.found
    fleet = UnlikeFleet(LEVER, parts, served)
    return judge_purchase(
        scenario, demand, Found(found.candidate, found.replica, capacity, bought, (way,), fleet)
    )
