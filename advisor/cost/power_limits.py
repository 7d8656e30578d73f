"""Hardware of one's own held to each power limit that was measured: tokens per joule, and what a token then costs."""

from collections.abc import Iterator
from dataclasses import replace

from advisor.catalog.errors import InfeasibleError
from advisor.catalog.ownership import Ownership
from advisor.catalog.schema.economics import PurchasePrice
from advisor.cost.owned import owned_option
from advisor.cost.result import OwnedOption, PowerLimit
from advisor.cost.rows import Served
from advisor.recommend.changes import capacity_of
from advisor.recommend.levers import replica_of
from advisor.recommend.scenario import Scenario
from advisor.recommend.screening import Found
from advisor.recommend.settling import at_planned_load
from advisor.simulator.device import with_power_cap


def power_limits(
    found: Found,
    bought: PurchasePrice,
    scenario: Scenario,
    known: Ownership,
    *,
    served: Served | None,
    region: str,
    count: int | None,
) -> tuple[PowerLimit, ...]:
    """Each measured limit that the deployment holds its objectives under, lowest first; none without a measured sweep.

    Assumes: busy accelerators draw the limit.
    """
    limits = []
    for limit_w, capped in _capped(found, scenario):
        option = owned_option(capped, bought, scenario, known, served=served, region=region, count=count)
        if option is not None:
            limits.append(_of(limit_w, capped, option))
    return tuple(limits)


def _capped(found: Found, scenario: Scenario) -> Iterator[tuple[float, Found]]:
    deployment = found.candidate.deployment
    for point in deployment.accelerator.power_points:
        record = with_power_cap(deployment.accelerator, point.limit_w).model_copy(
            update={"tdp_w": point.limit_w}
        )
        candidate = replace(found.candidate, deployment=replace(deployment, accelerator=record))
        try:
            replica = replica_of(candidate, scenario)
        except InfeasibleError:
            continue
        capacity = capacity_of(scenario, replica)
        if capacity is not None:
            at_limit = replace(found, candidate=candidate, replica=replica, capacity=capacity)
            yield point.limit_w, at_planned_load(scenario, at_limit)


def _of(limit_w: float, capped: Found, option: OwnedOption) -> PowerLimit:
    rate = capped.capacity.result.output_tokens_per_s
    size = capped.candidate.deployment.accelerators_per_replica
    return PowerLimit(
        limit_w,
        rate,
        rate / (size * limit_w),
        option.tco.num_accelerators,
        option.row.usd_per_million_tokens.value,
    )
