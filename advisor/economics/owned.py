"""Hardware of one's own for a load: how much to buy, what it costs for its life, what a token costs on it."""

import math
from collections.abc import Iterable
from dataclasses import replace

from advisor.catalog.ownership import Ownership, purchase_price
from advisor.catalog.schema import Price
from advisor.catalog.schema.economics import PurchasePrice
from advisor.decide.offers import OWN, Placement, fed_by
from advisor.decide.options import mean_power_w
from advisor.decide.ownership import Holding, Tco, sold_by_the_node, tco
from advisor.decide.purchase import owned_bill
from advisor.decide.scenario import Scenario
from advisor.decide.trial import Found
from advisor.economics.result import OwnedOption
from advisor.economics.rows import Served, purchase_for, row_of


def owned_options(
    candidates: Iterable[Found],
    scenario: Scenario,
    known: Ownership,
    *,
    served: Served | None,
    region: str,
    count: int | None = None,
) -> tuple[OwnedOption, ...]:
    """Each deployment that can be bought, priced for its life, cheapest per token first.

    `count` is how many accelerators there are; without it as many are bought as the load needs, modules by the server
    of eight.
    """
    options = []
    for found in candidates:
        bought = purchase_price(known, found.candidate.deployment.accelerator)
        if bought is not None:
            option = owned_option(found, bought, scenario, known, served=served, region=region, count=count)
            if option is not None:
                options.append(option)
    return tuple(sorted(options, key=lambda option: option.row.usd_per_million_tokens.value))


def owned_option(
    found: Found,
    bought: PurchasePrice,
    scenario: Scenario,
    known: Ownership,
    *,
    served: Served | None,
    region: str,
    count: int | None = None,
) -> OwnedOption | None:
    """One deployment on hardware of one's own; None where the hardware that there is cannot carry the load,
    or its power is not there."""
    deployment = found.candidate.deployment
    size = deployment.accelerators_per_replica
    unit = count or _unit(found)
    if size > unit:
        return None
    way = _placement(bought, unit, size, usd_per_hour=1.0, region=region)
    plan = purchase_for(way, found.capacity, scenario.traffic, served)
    if count is not None and plan.num_units > 1:
        return None
    load = plan.requests_per_s / (plan.num_replicas * found.capacity.requests_per_s)
    busy = min(1.0, found.capacity.result.busy_fraction * load)
    total, limit_w = plan.num_units * unit, scenario.constraints.power_budget_w
    if fed_by(limit_w, total, deployment.accelerator, scenario.as_of) < total:
        return None
    cost = whole_life(found, bought, known, num_accelerators=total, busy_fraction=busy)
    way = _placement(bought, unit, size, usd_per_hour=cost.usd_per_hour / plan.num_units, region=region)
    row = row_of(found, way, scenario, known, served=served, price_basis=bought.kind)
    return OwnedOption(replace(row, bill=owned_bill(cost, way.price, scenario.beside)), cost)


def whole_life(
    found: Found, bought: PurchasePrice, known: Ownership, *, num_accelerators: int, busy_fraction: float
) -> Tco:
    """Total cost of owning the hardware of a deployment."""
    deployment = found.candidate.deployment
    accelerator = deployment.accelerator
    holding = Holding(
        accelerator,
        num_accelerators,
        mean_power_w(accelerator, num_accelerators, busy_fraction),
        replicas_span_nodes=sold_by_the_node(accelerator)
        and deployment.accelerators_per_replica > accelerator.node_size,
    )
    return tco(holding, bought, known)


def _unit(found: Found) -> int:
    """Accelerators that are bought together: whole servers of modules, cards by the replica."""
    size = found.candidate.deployment.accelerators_per_replica
    accelerator = found.candidate.deployment.accelerator
    if not sold_by_the_node(accelerator):
        return size
    return accelerator.node_size * math.ceil(size / accelerator.node_size)


def _placement(bought: PurchasePrice, unit: int, size: int, *, usd_per_hour: float, region: str) -> Placement:
    price = Price(
        provider=OWN,
        sku=f"{unit}x{bought.accelerator}",
        region=region,
        accelerator=bought.accelerator,
        num_accelerators=unit,
        term="on_demand",
        usd_per_hour=usd_per_hour,
        observed_on=bought.observed_on,
        valid_from=bought.observed_on,
        url=bought.url,
    )
    return Placement(price, unit // size, unit, usd_per_hour)
