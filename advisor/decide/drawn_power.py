"""Power that the boards of a deployment draw at its planning point, and own boards paid by it."""

from collections.abc import Sequence
from dataclasses import replace

from advisor.catalog.schema import Accelerator
from advisor.decide.purchase import Demand
from advisor.decide.ranking import Planned
from advisor.decide.scenario import Constraints, Scenario
from advisor.decide.trial import FleetPart
from advisor.simulator.power import BoardState, board_power_w, serving_power_w
from advisor.simulator.quantity import Quantity, weakest
from advisor.simulator.replica_model import ReplicaModel
from advisor.simulator.serving import ServingResult


def pay_as_drawn(scenario: Scenario, plan: Planned, result: ServingResult) -> Planned:
    """Return a plan on own boards whose electricity is that of the power which they draw in a run at its load.

    Any other plan is returned unchanged, and so is one of boards of which no source states what they draw.
    """
    if not scenario.constraints.own:
        return plan
    drawn = power_of(replace(plan, result=result))
    rated_w = _rated_power_w(plan)
    if drawn is None or not rated_w:
        return plan
    return _with_drawn_fraction(plan, min(1.0, drawn.value / rated_w))


def least_drawn_fraction(constraints: Constraints, chip: Accelerator) -> float:
    """Return the least that an own board with a model in memory draws, over its rated power; 1 for rented boards, and
    where no source states what one draws.

    Source: `serving_power_w`, in which work only adds to what a waiting board draws.
    """
    return batches_drawn_fraction(constraints, chip, 0.0)


def batches_drawn_fraction(
    constraints: Constraints, chip: Accelerator, busy_fraction: float, state: BoardState = "prefill"
) -> float:
    """Return the mean power of an own board that works on batches for a fraction of the time, over its rated power; 1
    for rented boards, and where no source states what one draws.

    Assumes: it draws in a batch what it draws in this state, and between batches what a waiting board does.
    """
    if not constraints.own or not chip.tdp_w:
        return 1.0
    waiting = board_power_w(chip, "waiting")
    working = board_power_w(chip, state)
    if waiting is None or working is None:
        return 1.0
    watts = waiting.value + busy_fraction * max(0.0, working.value - waiting.value)
    return min(1.0, watts / chip.tdp_w)


def run_drawn_fraction(constraints: Constraints, result: ServingResult, replica: ReplicaModel) -> float:
    """Return the mean power of an own board over a run, over its rated power; 1 for rented boards, and where no source
    states what one draws."""
    rated_w = replica.deployment.accelerator.tdp_w
    drawn = serving_power_w(result, replica) if constraints.own and rated_w else None
    return min(1.0, drawn.value / rated_w) if drawn is not None and rated_w else 1.0


def _with_drawn_fraction(plan: Planned, fraction: float) -> Planned:
    """Return a plan on own boards that draw this fraction of their rated power, and are paid by it."""
    bought = plan.found.purchase
    ratio = fraction / bought.drawn_fraction
    compared = ratio if is_compared_as_drawn(plan.demand) else 1.0
    paid = replace(
        bought,
        drawn_fraction=fraction,
        usd_per_million_tokens=ratio * bought.usd_per_million_tokens,
        cost=compared * bought.cost,
    )
    found = plan.found.with_purchase(paid)
    return replace(plan, found=found, expected_cost=compared * plan.expected_cost)


def is_compared_as_drawn(demand: Demand) -> bool:
    """Whether own boards are compared by the power that they draw: for a given load. A budget, and all boards that are
    there, are compared by what they carry."""
    return demand.kind in ("rate", "clients")


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
