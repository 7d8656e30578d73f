"""The answer about several models on one fleet, whole and frozen."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from advisor.catalog.errors import InfeasibleError
from advisor.catalog.prices import age_days
from advisor.decide.decision import Counts
from advisor.decide.offers import OWN, seller_words, stale_price_warnings
from advisor.decide.option import Bill, Option
from advisor.decide.options import ages_days, option_of, owned_note
from advisor.decide.purchase import bill_of
from advisor.decide.race import Report
from advisor.decide.recommend import SCREENED_ONLY
from advisor.decide.scenario import Scenario
from advisor.decide.several.blocks import (
    Block,
    Fleet,
    chance_cheaper,
    expected_usd_per_hour,
    is_founded,
    is_tie,
    usd_per_hour,
    usd_range,
)
from advisor.decide.several.packing import Machines
from advisor.decide.several.sizing import Sized, fleets, sized
from advisor.simulator.quantity import Quantity, weakest

_LESS: Final = 0.99
"""Of what the models cost apart, from which on sharing machines is said to save."""


@dataclass(frozen=True, slots=True)
class FleetPurchase:
    """Units of one offer, and what stands on them."""

    accelerator: str
    accelerator_name: str
    num_accelerators: int
    num_idle: int
    """That no replica uses."""
    num_units: int
    accelerators_per_unit: int
    provider: str
    sku: str
    region: str
    term: str
    price_kind: str
    price_tenancy: str
    price_age_days: int | None
    """None where its source bears no date."""
    usd_per_hour: float
    bill: Bill
    machines: tuple[Machines, ...]

    @property
    def shares_machines(self) -> bool:
        """Whether replicas of several models stand on one machine."""
        return any(sum(map(bool, each.num_replicas)) > 1 for each in self.machines)


@dataclass(frozen=True, slots=True)
class FleetOption:
    """What serves all models together."""

    rank: int
    accelerator: str
    """All that are in it, joined with +."""
    num_accelerators: int
    usd_per_hour: float
    usd_per_month: float
    """With storage and egress, as far as they are known."""
    expected_usd_per_hour: float
    usd_per_hour_range: Quantity
    holds: str
    """As the weakest of the models."""
    chance_of_holding: float
    """That all models keep their objectives, if the errors of their predictions have nothing in common: at least."""
    role: str
    tie_with: tuple[int, ...]
    chance_first_is_cheaper: float | None
    """Than this one; None of the first itself."""
    purchases: tuple[FleetPurchase, ...]
    models: tuple[Option, ...]
    """What serves each, with its part of the bill: that of the accelerators that it uses."""


@dataclass(frozen=True, slots=True)
class FleetRecommendation:
    """Which fleet serves several models."""

    kind: str
    models: tuple[str, ...]
    workload: str
    headline: str
    options: tuple[FleetOption, ...]
    usd_per_hour_apart: float | None
    """What the models cost where none shares a machine; None of hardware that is there already."""
    counts: Counts
    warnings: tuple[str, ...]
    notes: tuple[str, ...]


def recommend_several(
    scenarios: Sequence[Scenario], progress: Report, *, budget: float | None = None
) -> FleetRecommendation:
    """Which accelerators serve all models together, each with replicas of its own, for least; within a budget [USD/h].

    Raises: InfeasibleError: nothing serves one of the models, or nothing that can be had all of them.
    """
    started = time.perf_counter()
    most = budget or math.inf
    found = sized(scenarios, progress)
    progress("packing the models' replicas on machines")
    best, apart = fleets(found, scenarios[0].top, most)
    if not best:
        raise _nothing(found, most)
    options = tuple(_option(rank, fleet, best, found) for rank, fleet in enumerate(best, start=1))
    safe = next((place for place, fleet in enumerate(best) if is_founded(fleet)), None)
    cheapest = min(range(len(best)), key=lambda place: usd_per_hour(best[place]))
    roles = {cheapest: "cheapest_if_it_holds"} | ({} if safe is None else {safe: "safe_pick"})
    if safe is not None and usd_per_hour(best[cheapest]) >= usd_per_hour(best[safe]):
        roles = {safe: "safe_pick"}
    options = tuple(replace(each, role=roles.get(each.rank - 1, "other")) for each in options)
    ties = tuple(rank for rank, fleet in enumerate(best[1:], start=2) if is_tie(best[0], fleet))
    options = (replace(options[0], tie_with=ties), *options[1:])
    searches = [one.done.counts(0.0) for one in found]
    return FleetRecommendation(
        kind="fleet",
        models=tuple(one.done.model.id for one in found),
        workload="serve",
        headline=_headline(options[0], found),
        options=options,
        usd_per_hour_apart=None if scenarios[0].constraints.own else apart,
        counts=Counts(
            num_candidates=sum(each.num_candidates for each in searches),
            num_modelled=sum(each.num_modelled for each in searches),
            num_simulated=sum(each.num_simulated for each in searches),
            num_simulated_requests=sum(each.num_simulated_requests for each in searches),
            wall_s=time.perf_counter() - started,
        ),
        warnings=stale_price_warnings(ages_days(options[0].models)),
        notes=tuple(dict.fromkeys(note for one in found for note in one.done.notes))
        + owned_note(scenarios[0])
        + ((SCREENED_ONLY,) if scenarios[0].screened_only else ()),
    )


def _option(rank: int, fleet: Fleet, best: Sequence[Fleet], found: Sequence[Sized]) -> FleetOption:
    plans = {place: plan for block in fleet for place, plan in zip(block.places, block.plans, strict=True)}
    models = tuple(option_of(rank, plans[place], one.scenario) for place, one in enumerate(found))
    purchases = tuple(_purchase(block, found) for block in fleet)
    low, high = usd_range(fleet)
    total = usd_per_hour(fleet)
    basis = weakest(*(each.served.basis for each in models))
    return FleetOption(
        rank=rank,
        accelerator="+".join(dict.fromkeys(each.accelerator for each in purchases)),
        num_accelerators=sum(each.num_accelerators for each in purchases),
        usd_per_hour=total,
        usd_per_month=sum(each.bill.usd_per_month for each in purchases),
        expected_usd_per_hour=expected_usd_per_hour(fleet),
        usd_per_hour_range=Quantity(total, min(low, total), max(high, total), basis),
        holds="likely" if all(each.served.holds == "likely" for each in models) else "marginal",
        chance_of_holding=math.prod(each.served.chance for each in models),
        role="other",
        tie_with=(),
        chance_first_is_cheaper=None if fleet is best[0] else chance_cheaper(best[0], fleet),
        purchases=purchases,
        models=models,
    )


def _purchase(block: Block, found: Sequence[Sized]) -> FleetPurchase:
    order, one = block.order, found[0]
    price, chip = order.unit.price, one.done.accelerators[order.unit.price.accelerator]
    part = one.scenario
    held = [dict(zip(block.places, each.num_replicas, strict=True)) for each in order.machines]
    used = sum(each.count * each.num_used for each in order.machines)
    return FleetPurchase(
        accelerator=chip.id,
        accelerator_name=chip.name,
        num_accelerators=order.num_accelerators,
        num_idle=order.num_accelerators - used,
        num_units=order.num_units,
        accelerators_per_unit=order.unit.accelerators_per_unit,
        provider=price.provider,
        sku=price.sku,
        region=price.region,
        term=price.term,
        price_kind=price.price_kind,
        price_tenancy=price.tenancy,
        price_age_days=age_days(price, part.as_of) if price.is_dated else None,
        usd_per_hour=order.usd_per_hour,
        bill=bill_of(price, order.usd_per_hour, part.beside),
        machines=tuple(
            replace(each, num_replicas=tuple(replicas.get(place, 0) for place in range(len(found))))
            for each, replicas in zip(order.machines, held, strict=True)
        ),
    )


def _headline(option: FleetOption, found: Sequence[Sized]) -> str:
    """The answer in a sentence."""
    names = [one.done.model.name for one in found]
    deals = [
        f"{each.num_accelerators} × {each.accelerator_name}"
        + ("" if each.provider == OWN else f" from {seller_words(each.provider, each.price_kind)}")
        for each in option.purchases
    ]
    verb, ends = "rent", "/h"
    if option.purchases[0].provider == OWN:
        verb, ends = "run your own", "/h of electricity"
    return f"{', '.join(names)}: {verb} {' and '.join(deals)} for ${option.usd_per_hour:.2f}{ends}"


def saving(found: FleetRecommendation) -> str:
    """What sharing machines saves, in a sentence; empty where it saves nothing."""
    apart, best = found.usd_per_hour_apart, found.options[0]
    if apart is None or not math.isfinite(apart) or best.usd_per_hour > _LESS * apart:
        return ""
    return f"Without shared machines the models cost ${apart:.2f}/h."


def _nothing(found: Sequence[Sized], budget: float) -> InfeasibleError:
    """Why no fleet serves all models."""
    best, _ = fleets(found, found[0].scenario.top) if budget < math.inf else ([], 0.0)
    why = "they cost more" if best else "no offer within the constraints has so many accelerators"
    fix = "lower rates, or drop --own, --gpu or --provider"
    if best:
        fix = f"--budget {math.ceil(100 * min(map(usd_per_hour, best)) - 1e-6) / 100:.2f}/h"
    names = ", ".join(one.done.model.id for one in found)
    return InfeasibleError(f"nothing serves {names} together under these constraints", why=why, fix=fix)
