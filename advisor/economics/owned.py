"""Hardware of one's own: what the question names, as `recommend` answers it, or whole systems that are bought."""

import math
from collections.abc import Iterable
from dataclasses import replace

from advisor.catalog.ownership import Ownership, purchase_price
from advisor.catalog.schema import Accelerator, Price
from advisor.catalog.schema.economics import PurchasePrice
from advisor.decide.offers import OWN, Placement, count_within_power
from advisor.decide.option import Option
from advisor.decide.ownership import Holding, Tco, is_sold_by_the_node, tco
from advisor.decide.purchase import owned_bill, purchase_on, with_replicas
from advisor.decide.race import WIDTH, Report, run_planning_point
from advisor.decide.ranking import Planned, judge_purchase
from advisor.decide.recommend import build_shortlist, search_scenario
from advisor.decide.scenario import Scenario
from advisor.decide.served_option import option_of
from advisor.economics.question import CostQuestion
from advisor.economics.row import Priced, cost_row, mean_power

_MOST = 1_000_000
"""More accelerators than any site holds."""


def system_size(accelerator: Accelerator) -> int:
    """Return how many accelerators are bought together: all of a baseboard or a rack, cards and small systems singly.

    Source: form factors and scale-up domains of the catalog.
    """
    if not is_sold_by_the_node(accelerator):
        return 1
    return max(accelerator.node_size, accelerator.scale_up_domain)


def named_hardware(
    question: CostQuestion,
    known: Ownership,
    *,
    progress: Report = lambda line: None,
    width: int = WIDTH,
) -> tuple[Priced | None, str]:
    """Return the option that `recommend` gives for the hardware that the question names, with its cost of ownership;
    with a note where a figure is missing, or where the hardware is sold in larger systems.

    Raises: AdvisorError: a name is not known, or a power limit is not possible. InfeasibleError: the hardware cannot
        carry the load.
    """
    assert question.own is not None
    count, name = question.own
    found = build_shortlist(search_scenario(question.scenario, progress=progress, width=width))
    plan = found.entries[0]
    option = found.options[0]
    chip = plan.found.candidate.deployment.accelerator
    bought = purchase_price(known, chip)
    power_w = mean_power(plan, option, question.mean_over_peak)
    if bought is None or power_w is None:
        return None, f"no source states what {name} costs to buy, or the power that it draws"
    size = system_size(chip)
    note = f"{name} is sold in systems of {size}: {count} of them are a part of one" if count % size else ""
    cost = life_of(plan, count, power_w, bought, known)
    return Priced(cost_row(plan, option, question, known, cost), plan), note


def systems_to_buy(
    rented: Iterable[tuple[Planned, Option]], question: CostQuestion, known: Ownership
) -> tuple[Priced, ...]:
    """Return the deployments of a decision on whole systems that are bought for the load, cheapest per token first."""
    found = (buy_systems(plan, option, question, known) for plan, option in rented)
    return cheapest_first(each for each in found if each is not None)


def cheapest_first(found: Iterable[Priced]) -> tuple[Priced, ...]:
    """Return owned options by cost per token."""
    return tuple(sorted(found, key=lambda each: each.row.usd_per_million_tokens.value))


def buy_systems(plan: Planned, option: Option, question: CostQuestion, known: Ownership) -> Priced | None:
    """Return a rented deployment on as many whole systems as its replicas need.

    Headroom and spare replicas are those of the rented one. None where no source states the price or the power of its
    accelerator, where it exceeds the budget of money or power, or where it misses an objective.
    """
    scenario = question.scenario
    part = question.mean_over_peak
    deployment = plan.found.candidate.deployment
    chip = deployment.accelerator
    size = deployment.accelerators_per_replica
    bought = purchase_price(known, chip)
    power_w = mean_power(plan, option, part)
    if bought is None or power_w is None or plan.found.fleet is not None:
        return None
    unit = system_size(chip) * math.ceil(size / system_size(chip))
    as_rented = life_of(plan, unit, power_w * unit / option.machine.num_accelerators, bought, known)
    owned = _on_systems(plan, scenario, bought, unit, as_rented.usd_per_hour)
    if owned is None:
        return None
    # The systems that are bought may have boards that stay idle, which draw less than those that are rented.
    num_units = owned.found.purchase.num_units
    mean_w = mean_power(owned, option_of(1, owned, scenario), part) or 0.0
    cost = life_of(owned, num_units * unit, mean_w, bought, known)
    priced = _on_systems(plan, scenario, bought, unit, cost.usd_per_hour / num_units)
    if priced is None:
        return None
    bill = owned_bill(cost, priced.found.purchase.placement.price, scenario.beside)
    as_option = replace(option_of(1, priced, scenario), bill=bill)
    return Priced(cost_row(priced, as_option, question, known, cost), priced)


def _on_systems(
    plan: Planned, scenario: Scenario, bought: PurchasePrice, unit: int, usd_per_hour: float
) -> Planned | None:
    """Return a deployment on systems of `unit` accelerators at what one costs: for a given load with as many replicas
    as are rented, else with what one system carries."""
    found = plan.found
    demand = plan.demand
    deployment = found.candidate.deployment
    capacity = found.capacity
    chip = deployment.accelerator
    fed = count_within_power(scenario.constraints.power_budget_w, _MOST, chip, scenario.as_of)
    price = Price(
        provider=OWN,
        sku=f"{unit}x{bought.accelerator}",
        region="",
        accelerator=bought.accelerator,
        num_accelerators=unit,
        term="on_demand",
        usd_per_hour=usd_per_hour,
        observed_on=bought.observed_on,
        valid_from=bought.observed_on,
        url=bought.url,
    )
    per_unit = unit // deployment.accelerators_per_replica
    most = fed // unit if demand.kind in ("rate", "clients", "budget") else min(1, fed // unit)
    way = Placement(price, per_unit, unit, usd_per_hour, max_units=most)
    load = capacity.load
    rate = capacity.requests_per_s
    if demand.kind in ("rate", "clients"):
        purchase = with_replicas(scenario, demand, way, load, rate, found.purchase.num_replicas)
    else:
        purchase = purchase_on(scenario, demand, way, load, rate)
    return (
        None
        if purchase is None
        else run_planning_point(scenario, judge_purchase(scenario, demand, found.with_purchase(purchase)))
    )


def life_of(
    plan: Planned, num_accelerators: int, mean_power_w: float, bought: PurchasePrice, known: Ownership
) -> Tco:
    """Return the total cost of owning the hardware of a deployment.

    Assumes: power is reserved for as many accelerators as a power budget feeds.
    """
    deployment = plan.found.candidate.deployment
    price = plan.found.purchase.placement.price
    chip = deployment.accelerator
    spans = is_sold_by_the_node(chip) and deployment.accelerators_per_replica > system_size(chip)
    is_limited = price.provider == OWN and price.num_accelerators < (price.max_quantity or 0)
    fed = price.num_accelerators if is_limited else None
    return tco(Holding(chip, num_accelerators, mean_power_w, spans, num_fed=fed), bought, known)
