"""Assignment of models to offers: blocks of models that share machines, and fleets of blocks at the least cost."""

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import NormalDist
from typing import Final

from advisor.catalog.prices import PriceSpread
from advisor.catalog.schema import Accelerator, Price
from advisor.decide.drawn_power import pay_as_drawn
from advisor.decide.offers import NO_SPREAD, ROUNDING, Placement, placements, price_spread_of
from advisor.decide.purchase import Purchase, pareto_placements, usd_per_million_tokens
from advisor.decide.ranking import (
    QUANTILES,
    SAMPLING_SIGMA,
    Planned,
    capacity_factor,
    is_firm,
    judge_purchase,
    move_to_front,
)
from advisor.decide.scenario import Scenario
from advisor.decide.several.packing import Need, UnitOrder, order_units
from advisor.simulator.quantity import Z80

Plans = Sequence[Mapping[str, Sequence[Planned]]]
"""Plans that may serve each model, by accelerator: replicas of several sizes, sized for the model's load."""
_NORMAL: Final = NormalDist()
_LOWEST: Final = 0.1


@dataclass(frozen=True, slots=True)
class Choice:
    """A subset of the models with their plans on one offer."""

    places: tuple[int, ...]
    """Positions of the subset's models in the list of all models."""
    plans: tuple[Planned, ...]
    price: Price
    chip: Accelerator
    usd_per_hour: float
    """Cost, with the expected movement of the price since it was read [USD/h]."""

    @property
    def key(self) -> tuple[object, ...]:
        return id(self.price), self.places, tuple(map(id, self.plans))


@dataclass(frozen=True, slots=True)
class ModelBlock:
    """Some of the models together on units of one offer."""

    places: tuple[int, ...]
    plans: tuple[Planned, ...]
    """Plan of each model, bought for its part of the bill: the part of the accelerators that it uses."""
    order: UnitOrder
    spread: PriceSpread
    expected_usd_per_hour: float
    """Mean over the errors of capacities and of the price."""
    log_high: float
    """Logarithm of what it costs over what it is priced at where capacities are the least that 80 % intervals leave."""

    @property
    def usd_per_hour(self) -> float:
        """Bill of the order, which its plans share; of own boards the electricity that they draw [USD/h]."""
        return sum(plan.found.purchase.usd_per_hour for plan in self.plans)

    @property
    def is_safe(self) -> bool:
        return all(plan.is_safe for plan in self.plans)


Fleet = tuple[ModelBlock, ...]
"""Blocks that together serve all models; each model belongs to exactly one block."""
_Drafts = dict[int, tuple[Choice, ...]]
"""The cheapest choices for sets of models, by their bits."""


def cheapest_fleets(
    scenarios: Sequence[Scenario],
    plans: Plans,
    rows: Sequence[tuple[Accelerator, Price]],
    budget: float = math.inf,
) -> list[Fleet]:
    """The cheapest fleet within a budget [USD/h], that of every accelerator alone, and the same of what is safe, by
    expected cost; what is not safe does not come first while something safe may cost no more.

    On each offer stands one block at most: two would cost no less than one with the models of both.
    """
    everyone = (1 << len(plans)) - 1
    drafts = list[tuple[Choice, ...]]()
    # Fleets are compared by expected prices, and a budget is held against those that were read.
    prices_of_rows = [(False, False), (True, False), *([(False, True)] if budget < math.inf else [])]
    for is_sound, is_as_read in prices_of_rows:
        choices = [
            _choices(scenarios[0], plans, chip, price, is_sound=is_sound, is_as_read=is_as_read)
            for chip, price in rows
        ]
        drafts += [found[everyone] for found in (_mix_choices(choices),) if everyone in found]
        for chip in {chip.id: chip for chip, _ in rows}.values():
            alone = [row[everyone] for row in choices if everyone in row and row[everyone].chip is chip]
            drafts += [(min(alone, key=lambda each: each.usd_per_hour),)] if alone else []
    known: dict[tuple[object, ...], ModelBlock] = {}
    fleets: dict[tuple[tuple[object, ...], ...], Fleet] = {}
    for draft in drafts:
        for each in draft:
            if each.key not in known:
                known[each.key] = _block(scenarios, each)
        fleets.setdefault(tuple(each.key for each in draft), tuple(known[each.key] for each in draft))
    order = sorted(
        (fleet for fleet in fleets.values() if usd_per_hour(fleet) <= budget + ROUNDING),
        key=expected_usd_per_hour,
    )
    safe = [fleet for fleet in order if is_safe(fleet)]
    return move_to_front(order, safe[0], _overlap) if safe else order


def apart_usd_per_hour(
    scenarios: Sequence[Scenario], plans: Plans, rows: Sequence[tuple[Accelerator, Price]]
) -> float:
    """Return the cost of the models if no model shares a machine with another [USD/h]; infinite if one cannot be
    bought alone."""
    choices = [_choices(scenarios[0], plans, chip, price, is_sound=False) for chip, price in rows]
    total = 0.0
    for place in range(len(plans)):
        alone = [row[1 << place] for row in choices if 1 << place in row]
        best = min(alone, key=lambda each: each.usd_per_hour, default=None)
        order = best and _order_of_choice(best)
        total += order.usd_per_hour if order else math.inf
    return total


def _mix_choices(choices: Sequence[Mapping[int, Choice]]) -> _Drafts:
    """The cheapest choices for every set of models, each offer taken once at most.

    Source: dynamic programming over offers and subsets; own formulation.
    """
    best: _Drafts = {0: ()}
    for row in choices:
        for done, taken in list(best.items()):
            for who, choice in row.items():
                draft = (*taken, choice)
                if not done & who and _rank(draft) < _rank(best.get(done | who)):
                    best[done | who] = draft
    return best


def _rank(draft: Sequence[Choice] | None) -> tuple[float, int]:
    """Return the sort key of a draft: its cost, rounded to a millionth [USD/h], and its number of orders."""
    return (
        (math.inf, 0) if draft is None else (round(sum(each.usd_per_hour for each in draft), 6), len(draft))
    )


def _choices(
    scenario: Scenario,
    plans: Plans,
    chip: Accelerator,
    price: Price,
    *,
    is_sound: bool,
    is_as_read: bool = False,
) -> dict[int, Choice]:
    """The cheapest for every set of models that an offer has room for, by their bits; of what is sound, or at the price
    that was read, if asked."""
    spread = NO_SPREAD if is_as_read else price_spread_of(price, scenario.as_of)
    found = dict[int, Choice]()
    if is_sound and not is_firm(price, spread):
        return found
    able = [
        [
            plan
            for plan in each.get(chip.id, ())
            if not is_sound or (plan.is_measured and plan.holds == "likely")
        ]
        for each in plans
    ]
    for who in range(1, 1 << len(plans)):
        places = tuple(place for place in range(len(plans)) if who >> place & 1)
        for combination in product(*(able[place] for place in places)):
            order = _order_of_choice(Choice(places, combination, price, chip, 0.0))
            usd = order.usd_per_hour * spread.mean_factor if order else math.inf
            if order and (who not in found or usd < found[who].usd_per_hour - ROUNDING):
                found[who] = Choice(places, combination, price, chip, usd)
    return found


def _order_of_choice(choice: Choice, quantile: float | None = None) -> UnitOrder | None:
    """Return the order for a choice, at the predicted capacities or at a quantile of their error; None if none fits."""
    needs = [Need(_num_replicas(plan, quantile), _size(plan)) for plan in choice.plans]
    return order_units(needs, choice.price, choice.chip)


def _num_replicas(plan: Planned, quantile: float | None) -> int:
    planned_ones = plan.found.purchase.num_replicas
    if quantile is None:
        return planned_ones
    real = plan.found.capacity.load * capacity_factor(plan.found, quantile)
    return max(planned_ones, math.ceil(plan.demand.size / real - ROUNDING))


def _size(plan: Planned) -> int:
    return plan.found.candidate.deployment.accelerators_per_replica


def _block(scenarios: Sequence[Scenario], choice: Choice) -> ModelBlock:
    """A choice with each model's part of the bill, and what it may really cost.

    Assumes: errors of capacities go together; what an offer has no more of would cost as much.
    """
    order = _order_of_choice(choice)
    spread = price_spread_of(choice.price, scenarios[0].as_of)
    assert order is not None
    used = _num_used(choice, None)

    def ratio(quantile: float) -> float:
        more = _order_of_choice(choice, quantile)
        return more.usd_per_hour / order.usd_per_hour if more else _num_used(choice, quantile) / used

    costs = [ratio(quantile) for quantile in QUANTILES]
    drifted = order.usd_per_hour * spread.mean_factor
    plans = tuple(
        _with_part(scenarios[place], plan, order, _size(plan) / used)
        for place, plan in zip(choice.places, choice.plans, strict=True)
    )
    drawn = sum(plan.found.purchase.usd_per_hour for plan in plans) / order.usd_per_hour
    expected = sum(costs) / len(costs) * drifted * drawn
    return ModelBlock(choice.places, plans, order, spread, expected, math.log(ratio(_LOWEST)))


def _num_used(choice: Choice, quantile: float | None) -> int:
    """Accelerators that replicas use."""
    return sum(_num_replicas(plan, quantile) * _size(plan) for plan in choice.plans)


def _with_part(scenario: Scenario, plan: Planned, order: UnitOrder, part: float) -> Planned:
    """Return a plan bought for its part of an order; `part` is the fraction of the order per replica. Own boards are
    paid by what they draw."""
    count = plan.found.purchase.num_replicas
    usd = order.usd_per_hour * part
    per_token = usd_per_million_tokens(count * usd, plan.demand.size, scenario.traffic.tokens_per_request)
    way = Placement(order.unit.price, 1, _size(plan), usd)
    bought = Purchase(way, count, count, plan.demand.size, per_token, per_token)
    found = plan.found.with_purchase(bought)
    judged = judge_purchase(scenario, plan.demand, found)
    shown = replace(judged, chance=plan.chance, result=plan.result, point=plan.point)
    return pay_as_drawn(scenario, shown, shown.result)


def is_safe(fleet: Fleet) -> bool:
    """Whether it is safe to take, for every model."""
    return all(block.is_safe for block in fleet)


def usd_per_hour(fleet: Fleet) -> float:
    return sum(block.usd_per_hour for block in fleet)


def expected_usd_per_hour(fleet: Fleet) -> float:
    return sum(block.expected_usd_per_hour for block in fleet)


def usd_range(fleet: Sequence[ModelBlock]) -> tuple[float, float]:
    """80 % interval of what blocks cost [USD/h]: capacities err together, prices of different offers do not."""
    bills = [block.usd_per_hour for block in fleet]
    total = sum(bills)
    more = sum(bill * math.exp(block.log_high) for bill, block in zip(bills, fleet, strict=True)) / total
    price = Z80 * math.hypot(
        *(bill / total * block.spread.sigma for bill, block in zip(bills, fleet, strict=True))
    )
    drift = sum(bill / total * block.spread.drift for bill, block in zip(bills, fleet, strict=True))
    high = math.hypot(math.log(more), price)
    return total * math.exp(min(0.0, drift - price)), total * math.exp(max(0.0, drift + high))


def chance_cheaper(first: Fleet, other: Fleet) -> float:
    """Chance that the first of two fleets costs less; what both have costs the same.

    Assumes: ln of the ratio of costs is normal.
    """
    own, others = (
        [block for block in fleet if block not in against]
        for fleet, against in ((first, other), (other, first))
    )
    if not own or not others:
        return 0.5
    ratio = math.log(expected_usd_per_hour(tuple(others)) / expected_usd_per_hour(tuple(own)))
    sigmas = [math.log(high / low) / (2.0 * Z80) for low, high in map(usd_range, (own, others))]
    return _NORMAL.cdf(ratio / max(math.hypot(SAMPLING_SIGMA, *sigmas), ROUNDING))


def _overlap(first: Fleet, second: Fleet) -> bool:
    return usd_range(first)[1] >= usd_range(second)[0]


def compared_rows(
    scenario: Scenario,
    offers: Mapping[str, Sequence[Price]],
    chips: Mapping[str, Accelerator],
    sizes: Sequence[int],
) -> Iterator[tuple[Accelerator, Price]]:
    """Yield the offers that some assignment may take: those of one accelerator, size and firmness that hold replicas of
    the same sizes, unless another is no worse in any respect."""
    for name, prices in offers.items():
        chip = chips[name]
        units = [unit for price in prices for unit in placements(1, (price,), chip)]
        rows = dict(zip(map(id, units), prices, strict=True))

        def kind_of(unit: Placement, chip: Accelerator = chip) -> Hashable:
            held = tuple(bool(placements(size, (unit.price,), chip)) for size in sizes)
            firm = is_firm(unit.price, price_spread_of(unit.price, scenario.as_of))
            return unit.accelerators_per_unit, held, firm

        yield from (
            (chip, rows[id(unit)])
            for unit in pareto_placements(units, scenario.as_of, scenario.beside, kind_of)
        )
