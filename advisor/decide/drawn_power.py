"""Power that the boards of a deployment draw at its planning point, and own boards paid by it."""

from collections.abc import Sequence
from dataclasses import replace

from advisor.decide.ranking import Planned
from advisor.decide.scenario import Scenario
from advisor.decide.trial import FleetPart
from advisor.simulator.power import board_power_w, serving_power_w
from advisor.simulator.quantity import Quantity, weakest


def pay_as_drawn(scenario: Scenario, plan: Planned) -> Planned:
    """Return a plan on own boards whose electricity is that of the power which they draw; any other plan unchanged, as
    where no source states what a board draws.

    A search compares own boards at the power that they are rated for, which is known before a run and is the most
    that they may draw.
    """
    if not scenario.constraints.own:
        return plan
    drawn = power_of(plan)
    rated_w = _rated_power_w(plan)
    if drawn is None or not rated_w:
        return plan
    return with_drawn_fraction(plan, min(1.0, drawn.value / rated_w))


def with_drawn_fraction(plan: Planned, fraction: float) -> Planned:
    """Return a plan on own boards that draw this fraction of their rated power, and are paid by it."""
    bought = plan.found.purchase
    ratio = fraction / bought.drawn_fraction
    # A budget is compared by what it buys, whether or not it is spent.
    compared = 1.0 if plan.demand.kind == "budget" else ratio
    paid = replace(
        bought,
        drawn_fraction=fraction,
        usd_per_million_tokens=ratio * bought.usd_per_million_tokens,
        cost=compared * bought.cost,
    )
    found = plan.found.with_purchase(paid)
    return replace(plan, found=found, expected_cost=compared * plan.expected_cost)


def _rated_power_w(plan: Planned) -> float:
    """Rated power of the boards whose electricity is the price of a plan [W]; 0 where no source states one."""
    found = plan.found
    bought = found.purchase
    if found.fleet is None or found.fleet.parts[0].is_shared:
        rated_w = found.candidate.deployment.accelerator.tdp_w or 0.0
        return rated_w * bought.num_units * bought.placement.accelerators_per_unit
    return sum(
        (part.candidate.deployment.accelerator.tdp_w or 0.0)
        * part.num_units
        * part.placement.accelerators_per_unit
        for part in found.fleet.parts
    )


def power_of(plan: Planned) -> Quantity | None:
    """Mean power of all boards that are paid for, those on which nothing runs included [W]; None where no source states
    what one draws.

    Assumes: every replica draws what the simulated one draws at the planning point; boards of one's own on which
    nothing runs are switched off; unlike boards are as busy as all together.
    """
    found = plan.found
    if found.fleet is not None and len({part.accelerator_id for part in found.fleet.parts}) > 1:
        return _power_of_parts(plan, found.fleet.parts)
    bought = plan.found.purchase
    chip = found.candidate.deployment.accelerator
    drawn = serving_power_w(plan.result, found.replica)
    idle = board_power_w(chip, "unloaded")
    if drawn is None or idle is None:
        return None
    num_boards = busy = bought.num_units * bought.placement.accelerators_per_unit
    if found.fleet is None:
        busy = bought.num_replicas * found.candidate.deployment.accelerators_per_replica
    rest = max(0, num_boards - busy)
    return Quantity(
        busy * drawn.value + rest * idle.value,
        busy * drawn.low + rest * idle.low,
        busy * drawn.high + rest * idle.high,
        weakest(drawn.basis, idle.basis),
    )


def _power_of_parts(plan: Planned, parts: Sequence[FleetPart]) -> Quantity | None:
    """Mean power of unlike boards together [W]; None where no source states what one of them draws."""
    whole: Quantity | None = None
    for part in parts:
        drawn = serving_power_w(plan.result, part.replica)
        if drawn is None:
            return None
        of_part = drawn.scale(float(part.num_units * part.placement.accelerators_per_unit))
        whole = of_part if whole is None else _sum(whole, of_part)
    return whole


def _sum(first: Quantity, other: Quantity) -> Quantity:
    """The sum of two quantities whose errors go together."""
    return Quantity(
        first.value + other.value,
        first.low + other.low,
        first.high + other.high,
        weakest(first.basis, other.basis),
    )
