"""Hardware of one's own held to power limits: tokens per joule, and what a token then costs."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from advisor.catalog.errors import InfeasibleError
from advisor.catalog.ownership import Ownership
from advisor.catalog.schema.economics import PurchasePrice
from advisor.decide.changes import measurements_of
from advisor.decide.levers import replica_of
from advisor.decide.power import held_to, limits_of
from advisor.decide.race import at_planned_load
from advisor.decide.scenario import Scenario
from advisor.decide.trial import Found
from advisor.economics.owned import owned_option
from advisor.economics.result import OwnedOption, PowerLimit
from advisor.economics.rows import Served


def power_limits(
    found: Found,
    bought: PurchasePrice,
    scenario: Scenario,
    known: Ownership,
    *,
    served: Served | None,
    region: str,
    count: int | None,
    power_cap: str = "",
) -> tuple[PowerLimit, ...]:
    """Each limit that the deployment holds its objectives under, lowest first, then full power: those that were
    measured, or those that `power_cap` names; none where neither is.

    Assumes: busy accelerators draw the limit.
    Raises: InfeasibleError: its boards take no such limit.
    """
    chip = found.candidate.deployment.accelerator
    points = [point.limit_w for point in chip.power_points]
    full_w = points[-1] if points else chip.tdp_w or 0.0
    tried = [*reversed(limits_of(chip, power_cap)), full_w] if power_cap else points
    limits = []
    for limit_w, capped in _capped(found, scenario, tried):
        option = owned_option(capped, bought, scenario, known, served=served, region=region, count=count)
        if option is not None:
            limits.append(_of(limit_w, capped, option))
    return tuple(limits)


def _capped(found: Found, scenario: Scenario, limits_w: Sequence[float]) -> Iterator[tuple[float, Found]]:
    deployment = found.candidate.deployment
    for limit_w in limits_w:
        record = held_to(deployment.accelerator, limit_w)
        candidate = replace(found.candidate, deployment=replace(deployment, accelerator=record))
        try:
            replica = replica_of(candidate, scenario)
        except InfeasibleError:
            continue
        measurements = measurements_of(scenario, replica)
        capacity = measurements.capacity("confirmed") if measurements else None
        if capacity is not None:
            at_limit = replace(
                found, candidate=candidate, replica=replica, capacity=capacity, measurements=measurements
            )
            yield limit_w, at_planned_load(scenario, at_limit)


def _of(limit_w: float, capped: Found, option: OwnedOption) -> PowerLimit:
    rate = capped.capacity.result.output_tokens_per_s
    size = capped.candidate.deployment.accelerators_per_replica
    return PowerLimit(
        limit_w,
        rate,
        rate / (size * limit_w),
        option.tco.num_accelerators,
        option.row.usd_per_million_tokens.value,
        "measured" if capped.candidate.deployment.accelerator.power_points else "modelled",
    )
