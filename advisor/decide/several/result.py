"""The answer about several models on one fleet."""

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from advisor.catalog import accelerators
from advisor.catalog.errors import InfeasibleError
from advisor.decide.decision import Comparison, Counts, Decision
from advisor.decide.offers import machine_of, offer_of, seller_words, stale_price_warnings
from advisor.decide.option import Machine, Option, SharedMachines, SharedPerformance, SharedPurchase
from advisor.decide.purchase import bill_of, machines_bill, sum_of_bills
from advisor.decide.race import Report
from advisor.decide.ranking import Planned, is_tie, roles
from advisor.decide.recommend import SCREENED_ONLY
from advisor.decide.safe_picks import BLOCK, safe_pick_of
from advisor.decide.scenario import Scenario
from advisor.decide.served_option import ages_days, option_of, owned_note
from advisor.decide.several.blocks import (
    Fleet,
    ModelBlock,
    chance_cheaper,
    expected_usd_per_hour,
    is_safe,
    usd_per_hour,
    usd_range,
)
from advisor.decide.several.sizing import Sized, fleets, size_models
from advisor.simulator.quantity import Quantity, weakest

_LESS: Final = 0.99
"""Report a saving from shared machines if the models together cost less than this fraction of their cost apart."""


def recommend_several(
    scenarios: Sequence[Scenario], progress: Report, *, budget: float | None = None
) -> Decision:
    """Find the accelerators that serve all models together, each with its own replicas, at the least cost; within a
    budget [USD/h].

    Raises: InfeasibleError: nothing serves one of the models, or nothing that can be had all of them.
    """
    started = time.perf_counter()
    most = budget or math.inf
    found = size_models(scenarios, progress)
    progress("packing the models' replicas on machines")
    best, apart = fleets(found, scenarios[0].top, most)
    if not best:
        raise _nothing(found, most)
    block = best[:BLOCK]
    safe = next((place for place, fleet in enumerate(block) if is_safe(fleet)), None)
    named = roles([usd_per_hour(fleet) for fleet in block], safe)
    options = tuple(_option(rank, fleet, found) for rank, fleet in enumerate(best, start=1))
    of_block = (replace(option, role=role) for option, role in zip(options, named, strict=False))
    options = (*of_block, *options[BLOCK:])
    chances = [chance_cheaper(best[0], fleet) for fleet in best[1:]]
    ties = tuple(rank for rank, chance in enumerate(chances[: BLOCK - 1], start=2) if is_tie(chance))
    options = (replace(options[0], tie_with=ties), *options[1:])
    safe_pick = safe_pick_of(options)
    options = options[: scenarios[0].top]
    return Decision(
        kind="fleet",
        model="+".join(one.done.model.id for one in found),
        workload="serve",
        headline=_headline(options[0], found),
        options=options,
        safe_pick=safe_pick,
        ladder=(),
        rejected=(),
        counts=_counts(found, time.perf_counter() - started),
        comparisons=tuple(
            Comparison(option.rank, option.machine.accelerator, None, None, chance)
            for option, chance in zip(options[1:], chances, strict=False)
        ),
        warnings=stale_price_warnings(ages_days(options[0].parts)),
        notes=tuple(dict.fromkeys(note for one in found for note in one.done.notes))
        + owned_note(scenarios[0])
        + ((SCREENED_ONLY,) if scenarios[0].screened_only else ()),
        extra={
            "usd_per_hour_apart": None if scenarios[0].constraints.own or not math.isfinite(apart) else apart
        },
    )


def _counts(found: Sequence[Sized], wall_s: float) -> Counts:
    """How much was looked at for all models together."""
    counts = [one.done.counts(0.0) for one in found]
    return Counts(
        num_candidates=sum(each.num_candidates for each in counts),
        num_modelled=sum(each.num_modelled or 0 for each in counts),
        num_simulated=sum(each.num_simulated for each in counts),
        num_simulated_requests=sum(each.num_simulated_requests or 0 for each in counts),
        wall_s=wall_s,
    )


def _option(rank: int, fleet: Fleet, found: Sequence[Sized]) -> Option:
    """A fleet as an option; a part for each model, which pays for the accelerators that it uses."""
    plans = {place: plan for block in fleet for place, plan in zip(block.places, block.plans, strict=True)}
    parts = tuple(
        _part(option_of(rank, plans[place], one.scenario), plans[place], one.done.model.id)
        for place, one in enumerate(found)
    )
    purchases = tuple(_purchase(block, found) for block in fleet)
    # Weights and answers are stored and sent once, at the first provider's price.
    (price, usd), *rest = [(block.order.unit.price, block.usd_per_hour) for block in fleet]
    bills = [bill_of(price, usd, found[0].scenario.beside), *(machines_bill(*each) for each in rest)]
    low, high = usd_range(fleet)
    total = usd_per_hour(fleet)
    basis = weakest(*(each.served.basis for each in parts))
    return Option(
        rank=rank,
        role="other",
        machine=Machine(
            accelerator="+".join(dict.fromkeys(each.machine.accelerator for each in purchases)),
            num_accelerators=sum(each.machine.num_accelerators for each in purchases),
            accelerators_per_node=max(each.machine.accelerators_per_node for each in purchases),
            num_nodes=sum(each.machine.num_nodes for each in purchases),
        ),
        layout=None,
        offer=purchases[0].offer,
        bill=sum_of_bills(bills),
        performance=SharedPerformance(
            usd_per_hour=Quantity(total, min(low, total), max(high, total), basis),
            expected_usd_per_hour=expected_usd_per_hour(fleet),
            chance=math.prod(each.served.chance for each in parts),
            holds="likely" if all(each.served.holds == "likely" for each in parts) else "marginal",
            basis=basis,
        ),
        launch=None,
        parts=parts,
        purchases=purchases,
        reasons=tuple(dict.fromkeys(reason for each in parts for reason in each.reasons)),
    )


def _part(option: Option, plan: Planned, model: str) -> Option:
    """The option of one model, which pays for its accelerators alone."""
    bought = plan.found.purchase
    return replace(option, model=model, bill=machines_bill(bought.placement.price, bought.usd_per_hour))


def _purchase(block: ModelBlock, found: Sequence[Sized]) -> SharedPurchase:
    order = block.order
    one = found[0]
    price = order.unit.price
    names = [found[place].done.model.id for place in block.places]
    used = sum(each.count * each.num_used for each in order.machines)
    return SharedPurchase(
        machine=machine_of(order.unit, order.num_units),
        num_idle=order.num_accelerators - used,
        offer=offer_of(price, one.scenario.as_of),
        usd_per_hour=block.usd_per_hour,
        machines=tuple(
            SharedMachines(
                each.count,
                each.num_accelerators,
                each.num_used,
                dict(zip(names, each.num_replicas, strict=True)),
            )
            for each in order.machines
        ),
    )


def _headline(option: Option, found: Sequence[Sized]) -> str:
    """The answer in a sentence."""
    names = [one.done.model.name for one in found]
    deals = [
        f"{each.machine.num_accelerators} × {accelerators.by_id(each.machine.accelerator).name}"
        + (f" from {seller_words(each.offer)}" if each.offer else "")
        for each in option.purchases
    ]
    verb, ends = ("rent", "/h") if option.offer else ("run your own", "/h of electricity")
    return (
        f"{', '.join(names)}: {verb} {' and '.join(deals)} for ${option.shared.usd_per_hour.value:.2f}{ends}"
    )


def saving(found: Decision) -> str:
    """Return a sentence on the saving from shared machines; empty if they save nothing."""
    apart = found.extra["usd_per_hour_apart"]
    usd = found.options[0].shared.usd_per_hour.value
    if not isinstance(apart, float) or usd > _LESS * apart:
        return ""
    return f"Without shared machines the models cost ${apart:.2f}/h."


def _nothing(found: Sequence[Sized], budget: float) -> InfeasibleError:
    """Why no fleet serves all models."""
    best, _ = fleets(found, found[0].scenario.top, sys.float_info.max) if budget < math.inf else ([], 0.0)
    why = "they cost more" if best else "no offer within the constraints has enough accelerators"
    fix = "lower rates, or drop --own, --gpu or --provider"
    if best:
        fix = f"--budget {math.ceil(100 * min(map(usd_per_hour, best)) - 1e-6) / 100:.2f}/h"
    names = ", ".join(one.done.model.id for one in found)
    return InfeasibleError(f"nothing serves {names} together under these constraints", why=why, fix=fix)
