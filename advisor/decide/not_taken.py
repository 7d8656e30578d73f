"""Providers and engines that a question names and that no option has, each with its reason."""

import datetime
from collections.abc import Iterator, Mapping, Sequence

from advisor.catalog import engines as engine_catalog
from advisor.catalog.schema import Accelerator, Model, Price
from advisor.decide.candidates import candidates_within
from advisor.decide.decision import NotTaken
from advisor.decide.offers import offers_by_accelerator
from advisor.decide.option import Offer, Option, SharedPurchase
from advisor.decide.race import Race
from advisor.decide.ranking import Planned, chance_cheaper, is_tie
from advisor.decide.reason import (
    AsksMore,
    CostsAsMuch,
    CostsMore,
    LessSure,
    NoEngine,
    NotForSale,
    Reason,
    SellsOnlyOthers,
)
from advisor.decide.scenario import Constraints, Scenario


def providers_not_taken(
    constraints: Constraints, as_of: datetime.date, options: Sequence[Option], safe_pick: Option | None
) -> tuple[NotTaken, ...]:
    """Return the providers that a question names and from which neither an option nor the safe pick rents, which may be
    below the list."""
    if not constraints.providers or constraints.own:
        return ()
    offers = offers_by_accelerator(constraints, as_of, constraints.regions)
    taken = {
        each.machine.accelerator: each.offer
        for option in reversed((*options, *([safe_pick] if safe_pick else [])))
        for each in _purchases_of(option)
        if each.offer is not None
    }
    rents = {offer.provider for offer in taken.values()}
    return tuple(
        NotTaken("--provider", name, _provider_reason(name, offers, taken))
        for name in sorted(set(constraints.providers))
        if name not in rents
    )


def _purchases_of(option: Option) -> Iterator[Option | SharedPurchase]:
    yield option
    yield from option.parts
    yield from option.purchases


def _provider_reason(
    provider: str, offers: Mapping[str, Sequence[Price]], taken: Mapping[str, Offer]
) -> Reason:
    sold = {
        name: min(asked)
        for name, prices in offers.items()
        if (asked := [each.usd_per_accelerator_hour for each in prices if each.provider == provider])
    }
    if not sold:
        return NotForSale()
    both = next((name for name in taken if name in sold), None)
    if both is None:
        return SellsOnlyOthers(tuple(sorted(sold)))
    offer = taken[both]
    usd = offer.usd_per_hour / offer.accelerators_per_unit
    return AsksMore(both, sold[both], usd, offer.source_words)


def engines_not_taken(
    scenario: Scenario,
    model: Model,
    race: Race,
    entries: Sequence[Planned],
    safe_pick: Option | None,
    accelerators: Mapping[str, Accelerator],
) -> tuple[NotTaken, ...]:
    """Return the engines that a question names and that neither an entry nor the safe pick runs."""
    taken = {plan.found.candidate.deployment.engine.id for plan in entries}
    if safe_pick is not None and safe_pick.layout is not None:
        taken.add(safe_pick.layout.engine)
    left = sorted(set(scenario.constraints.engines) - taken)
    found = []
    for engine in left:
        compared = (
            _against(engine, race, rank, entry, entries[0]) for rank, entry in enumerate(entries, start=1)
        )
        reason = next(filter(None, compared), None)
        found.append(
            NotTaken("--engine", engine, reason or _refusal(engine, scenario, model, entries, accelerators))
        )
    return tuple(found)


def _against(engine: str, race: Race, rank: int, entry: Planned, first: Planned) -> Reason | None:
    """Return what an engine costs on the accelerator of an entry; None where it does not serve there."""
    name = entry.found.accelerator_id
    per = "an hour" if first.demand.kind == "clients" else "per million tokens"
    limit_usd = entry.expected_cost
    measured = (plan for plan in race.others(-1, name) if plan.found.candidate.deployment.engine.id == engine)
    if (best := next(measured, None)) is not None:
        if is_tie(chance_cheaper(entry, best)):
            return CostsAsMuch(rank)
        if best.expected_cost < limit_usd:
            return LessSure(best.expected_cost, limit_usd, rank, per)
        return CostsMore(best.expected_cost, limit_usd, rank, is_bound=False, per=per)
    trials = [
        trial
        for trial in race.trials.values()
        if trial.accelerator_id == name and trial.candidate.deployment.engine.id == engine
    ]
    floors = [trial.floors[2 * (len(race.demands) - 1)] for trial in trials if trial.progress != "closed"]
    if floors:
        return CostsMore(max(limit_usd, min(floors)), limit_usd, rank, is_bound=True, per=per)
    return next((trial.reason for trial in trials if trial.reason is not None), None)


def _refusal(
    engine: str,
    scenario: Scenario,
    model: Model,
    entries: Sequence[Planned],
    accelerators: Mapping[str, Accelerator],
) -> Reason:
    """Return why an engine serves on none of the accelerators, those of the entries first."""
    allowed = [each for each in engine_catalog.all_engines() if each.id == engine]
    names = dict.fromkeys((*(plan.found.accelerator_id for plan in entries), *accelerators))
    reasons = (
        candidates_within(scenario, accelerators[name], model, allowed)[1]
        for name in names
        if name in accelerators
    )
    return next((reason for reason in reasons if reason is not None), NoEngine(model.id))
