"""Hardware of one's own held to power limits: tokens per joule, and what a token then costs."""

from collections.abc import Iterator
from dataclasses import replace

from advisor.catalog.errors import InfeasibleError
from advisor.catalog.ownership import Ownership, purchase_price
from advisor.catalog.schema import Accelerator
from advisor.catalog.units import HOUR_S, MILLION
from advisor.decide.changes import measurements_of
from advisor.decide.levers import replica_of
from advisor.decide.power import limits_of, with_power_limit
from advisor.decide.purchase import planned_load
from advisor.decide.race import run_planning_point
from advisor.decide.ranking import Planned, buy_at_capacity
from advisor.decide.served_option import option_of
from advisor.economics.owned import life_of
from advisor.economics.question import CostQuestion
from advisor.economics.result import LimitedDeployment
from advisor.economics.row import Priced, mean_power


def power_limits(priced: Priced, question: CostQuestion, known: Ownership) -> tuple[LimitedDeployment, ...]:
    """Return each limit under which an owned deployment holds its objectives, lowest first, then full power: those that
    were measured, or those that the question names; none where neither is.

    Assumes: busy accelerators draw the limit.
    Raises: InfeasibleError: its boards take no such limit.
    """
    candidate = priced.plan.found.candidate
    if priced.plan.found.fleet is not None:
        return ()
    chip = candidate.full_power or candidate.deployment.accelerator
    points = [point.limit_w for point in chip.power_points]
    full_w = points[-1] if points else chip.tdp_w or 0.0
    tried = [*reversed(limits_of(chip, question.power_cap)), full_w] if question.power_cap else points
    limits = list[LimitedDeployment]()
    for limit_w in tried:
        record = with_power_limit(chip, limit_w)
        for plan in _plan_on_record(priced.plan, record, question):
            limits += _limit(limit_w, plan, question, known)
    return tuple(limits)


def _plan_on_record(plan: Planned, record: Accelerator, question: CostQuestion) -> Iterator[Planned]:
    """Yield the deployment on another record of its accelerator, bought for the same demand, where it holds."""
    scenario = question.scenario
    found = plan.found
    deployment = replace(found.candidate.deployment, accelerator=record)
    candidate = replace(found.candidate, deployment=deployment)
    try:
        replica = replica_of(candidate, scenario)
    except InfeasibleError:
        return
    measurements = measurements_of(scenario, replica)
    capacity = measurements.capacity("confirmed") if measurements else None
    if capacity is None:
        return
    limited = replace(found, candidate=candidate, replica=replica, measurements=measurements)
    held = buy_at_capacity(scenario, plan.demand, limited, capacity)
    at_point = None if held is None else run_planning_point(scenario, held)
    if at_point is not None:
        yield at_point


def _limit(
    limit_w: float, plan: Planned, question: CostQuestion, known: Ownership
) -> Iterator[LimitedDeployment]:
    """Yield what a token costs on a deployment under a limit."""
    scenario = question.scenario
    found = plan.found
    there = question.own
    option = option_of(1, plan, scenario)
    deployment = found.candidate.deployment
    capacity = found.capacity
    count = there[0] if there else option.machine.num_accelerators
    power_w = mean_power(plan, option, question.mean_over_peak)
    bought = purchase_price(known, deployment.accelerator)
    if bought is None or power_w is None:
        return
    cost = life_of(plan, count, power_w, bought, known)
    served = planned_load(scenario, capacity.load) / capacity.load * capacity.requests_per_s
    rate = served * scenario.traffic.mean_output_tokens
    tokens_per_s = found.purchase.requests_per_s * question.mean_over_peak * question.tokens_per_request
    yield LimitedDeployment(
        limit_w,
        rate,
        rate / (deployment.accelerators_per_replica * limit_w),
        count,
        cost.usd_per_hour / (tokens_per_s * HOUR_S) * MILLION,
        "measured" if deployment.accelerator.power_points else "modelled",
    )
