"""The answer for images, texts or audio under a latency objective: which accelerators, how many, at what price."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from advisor.catalog import models
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.schema import Model
from advisor.catalog.units import HOUR_S, KILO, plain_number
from advisor.decide.certainty import LIKELY, allowance
from advisor.decide.decision import Counts, Decision, Rejected, Rung
from advisor.decide.drawn_power import batches_drawn_fraction, least_drawn_fraction
from advisor.decide.items.option import (
    NUM_REQUESTS,
    ItemCandidate,
    ItemFound,
    headline,
    item_option,
    latencies_of,
    warnings_of,
)
from advisor.decide.items.result import ItemScenario
from advisor.decide.items.starting import lacks_engine
from advisor.decide.not_taken import providers_not_taken
from advisor.decide.offers import ROUNDING, Placement, market, placements
from advisor.decide.option import Option
from advisor.decide.purchase import extra_usd_per_hour, least_budget, pareto_placements, smallest_budget
from advisor.decide.reason import (
    CostsMore,
    DoesNotFit,
    NoKernels,
    NotForSale,
    NothingCarries,
    NotRanked,
    Reason,
    TooSlowAlone,
)
from advisor.decide.safe_picks import BLOCK, SAFE, order_by_trust, trust_of, with_safest
from advisor.simulator.power import BoardState
from advisor.simulator.quantity import Quantity
from advisor.simulator.workloads.batch_queue import (
    BatchFleet,
    highest_rate,
    servers_for,
)
from advisor.simulator.workloads.diffusion import Parallel
from advisor.simulator.workloads.services import ItemService, check_model, item_service, quantity

_SPLITS = (1, 2, 4, 8)
_TRICKLE_PER_S = 0.001
"""Rate for which the smallest fleet is enough [items/s]."""
_STATES: Final[Mapping[str, BoardState]] = {"speech": "decode"}
"""States of boards in a batch by workload: transcripts are generated token by token, all others are computed as prompts
are."""
_MOST_SIZINGS = 4
"""Times that a fleet is sized until it is likely to keep the promise: queues widen the interval as they fill."""
_LEAST_MORE_ROOM = 1.05


def recommend_items(scenario: ItemScenario) -> Decision:
    """The cheapest fleets that serve items within a promise, ranked by dollars per item.

    Every accelerator of the catalog with an offer is considered, alone and with batches split over 2, 4 and 8; the
    options shown were simulated, and none that was not could be cheaper by its bound.

    Raises: AdvisorError: the model does not do such work. InfeasibleError: nothing keeps the promise.
    """
    started = time.perf_counter()
    model = models.get(scenario.model).record
    check_model(model, scenario.job.workload)
    unfit: dict[str, Reason] = {}
    services = tuple(_services(scenario, model, unfit))
    loads = scenario.ladder_per_s or (scenario.rate_per_s,)
    answers = [_answer(replace(scenario, rate_per_s=load), services, unfit) for load in loads]
    carried = [answer for answer in answers if answer.options]
    if not carried:
        raise _nothing(scenario, model, services, answers[0].reasons)
    last = carried[-1]
    ladder = tuple(_rung(load, answer) for load, answer in zip(scenario.ladder_per_s, answers, strict=False))
    simulated = sum(answer.num_simulated for answer in answers)
    wall_s = time.perf_counter() - started
    return Decision(
        kind="item_plan",
        model=model.id,
        workload=scenario.job.workload,
        headline=headline(last.options[0], model, last.scenario, ladder),
        options=last.options,
        safe_pick=last.safe_pick,
        ladder=ladder,
        rejected=last.rejected_accelerators(),
        not_taken=providers_not_taken(scenario.constraints, scenario.as_of, last.options, last.safe_pick),
        counts=Counts(len(last.bounds), num_simulated=simulated, wall_s=wall_s),
        warnings=warnings_of([*last.options, *(rung.option for rung in ladder if rung.option)]),
        unit=scenario.job.unit,
    )


def _rung(rate_per_s: float, answer: "_Answer") -> Rung:
    """Return the pick for one load of a ladder."""
    if answer.options:
        return Rung(answer.options[0], rate_per_s=rate_per_s)
    return Rung(None, NothingCarries(), rate_per_s=rate_per_s)


_Fleets = dict[int, tuple[BatchFleet, float] | None]
"""Replicas that carry the load, and the capacity of one replica, by the identity of a service; None if none carries
it."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """The ranked options for one load, and the candidates that are not among them."""

    scenario: ItemScenario
    options: tuple[Option, ...]
    bounds: Sequence[ItemCandidate]
    reasons: Mapping[str, Reason]
    num_simulated: int
    safe_pick: Option | None = None
    """Safe pick, also if it is not among the options that are shown; None without one."""

    def rejected_accelerators(self) -> tuple[Rejected, ...]:
        shown = {option.machine.accelerator for option in self.options}
        limit = self.options[-1].of_items.usd_per_thousand_items.value
        unit = self.scenario.job.unit
        dearer = {c.service.deployment.accelerator.id: c.bound_usd * KILO for c in reversed(self.bounds)}
        rank = len(self.options)
        per = f"per 1000 {unit}s"
        rejected = [
            Rejected(name, CostsMore(usd, limit, rank, is_bound=True, per=per))
            for name, usd in sorted(dearer.items(), key=lambda item: item[1])
            if name not in shown and name not in self.reasons
        ]
        others = [Rejected(name, reason) for name, reason in self.reasons.items() if name not in shown]
        return (*rejected, *others)


def _answer(
    scenario: ItemScenario,
    services: Sequence[tuple[ItemService, Sequence[Placement]]],
    unfit: Mapping[str, Reason],
) -> _Answer:
    bounds = _candidates(scenario, services)
    reasons = dict(unfit)
    fleets: _Fleets = {}
    best = _cheapest(scenario, bounds, fleets, partial(_may_be_listed, scenario))
    firm = [each for each in bounds if trust_of(each.service.basis, each.way.price, scenario.as_of) == SAFE]
    safe = _cheapest(scenario, firm, {}, partial(_may_be_safe_pick_or_stand, best), is_safe=True)
    for name in (*best, *safe):
        reasons.pop(name, None)
    ranked = _by_cost(best, safe)[: max(BLOCK, scenario.top)]
    options = order_by_trust(
        [item_option(rank, found, scenario) for rank, found in enumerate(ranked, 1)],
        [found.candidate.way.price for found in ranked],
        lambda option: option.of_items.usd_per_thousand_items,
        scenario.as_of,
    )
    options = tuple(_with_cheaper(option, ranked, best, scenario) for option in options)
    least = min(safe.values(), key=lambda found: found.usd_per_item, default=None)
    options, safe_pick = with_safest(
        options,
        None if least is None else item_option(0, least, scenario),
        lambda option: (option.of_items.usd_per_thousand_items.value,),
    )
    return _Answer(scenario, options[: scenario.top], bounds, reasons, len(fleets), safe_pick)


def _candidates(
    scenario: ItemScenario, services: Sequence[tuple[ItemService, Sequence[Placement]]]
) -> list[ItemCandidate]:
    """Every replica on every offer, in the order of bounds."""
    found = [
        ItemCandidate(service, way, _bound_usd(service, way, scenario))
        for service, ways in services
        for way in ways
    ]
    return sorted(found, key=lambda candidate: candidate.bound_usd)


def _by_cost(best: Mapping[str, ItemFound], safe: Mapping[str, ItemFound]) -> list[ItemFound]:
    """The accelerators, cheapest first, each as it is safe to take where that may cost no more than its cheapest
    offer."""

    def best_option(name: str) -> ItemFound:
        sure = safe.get(name)
        cheapest = best.get(name)
        if sure and (cheapest is None or _cost(sure).low <= _cost(cheapest).high):
            return sure
        return best[name]

    return sorted(map(best_option, {**best, **safe}), key=lambda found: found.usd_per_item)


def _with_cheaper(
    option: Option, ranked: Sequence[ItemFound], best: Mapping[str, ItemFound], scenario: ItemScenario
) -> Option:
    """An option with the cheaper offer of its accelerator as a variant, where a safer one stands for it."""
    name = option.machine.accelerator
    cheapest = best.get(name)
    if cheapest is None or any(found is cheapest for found in ranked):
        return option
    variant = replace(item_option(option.rank, cheapest, scenario), role="cheapest_if_it_holds")
    return (
        option
        if variant.bill.usd_per_hour >= option.bill.usd_per_hour
        else replace(option, variants=(variant,))
    )


def _services(
    scenario: ItemScenario, model: Model, reasons: dict[str, Reason]
) -> Iterator[tuple[ItemService, Sequence[Placement]]]:
    """Every replica with the cheapest ways to buy it; why not, where there is none."""
    offers, chips = market(scenario.constraints, scenario.as_of, scenario.calibration)
    formats = scenario.constraints.precisions or (model.weights,)
    for name, chip in chips.items():
        if not offers.get(name) or not chip.is_ranked:
            reasons[name] = NotRanked(chip.unranked_reason) if chip.unranked_reason else NotForSale()
            continue
        for weights in formats:
            for parallel in _ways_to_split(scenario):
                try:
                    service = item_service(model, chip, scenario.job, weight_dtype=weights, parallel=parallel)
                except AdvisorError as error:
                    if parallel.num_accelerators == 1:
                        reasons[name] = DoesNotFit(f"{error.what}: {error.why}" if error.why else error.what)
                    continue
                if lacking := lacks_engine(service, scenario.job):
                    reasons.setdefault(name, lacking)
                    continue
                if service.batch_s[1] > scenario.latency_p99_s:
                    slow = TooSlowAlone(scenario.job.unit, service.batch_s[1], scenario.latency_p99_s)
                    reasons.setdefault(name, slow)
                    continue
                reasons.pop(name, None)
                size = service.accelerators_per_replica
                ways = placements(size, offers[name], chip)
                firm = [way for way in ways if trust_of(service.basis, way.price, scenario.as_of) == SAFE]
                kept = (
                    *pareto_placements(ways, scenario.as_of, scenario.beside),
                    *pareto_placements(firm, scenario.as_of, scenario.beside),
                )
                yield service, list(dict.fromkeys(kept))


def _ways_to_split(scenario: ItemScenario) -> Iterator[Parallel]:
    """One accelerator, and, for images, batches split over several of one node."""
    image = scenario.job.image
    for sequence in _SPLITS if image else (1,):
        for guidance in (1, 2) if image and image.guided else (1,):
            if sequence * guidance <= min(_SPLITS[-1], scenario.constraints.max_accelerators):
                yield Parallel("ulysses", sequence, guidance)


def _bound_usd(service: ItemService, way: Placement, scenario: ItemScenario) -> float:
    """Least dollars per item: no queues, no randomness, whole units where a rate is given; headroom included."""
    rate = scenario.rate_per_s
    most = service.best_items_per_s(scenario.latency_p99_s) / service.headroom
    drawn = least_drawn_fraction(scenario.constraints, service.deployment.accelerator)
    if rate is None:
        return drawn * way.usd_per_replica_hour / HOUR_S / most
    replicas = math.ceil(rate / most - ROUNDING)
    return drawn * math.ceil(replicas / way.replicas_per_unit) * way.usd_per_unit_hour / HOUR_S / rate


def _cheapest(
    scenario: ItemScenario,
    candidates: Sequence[ItemCandidate],
    fleets: _Fleets,
    may_enter: Callable[[ItemCandidate, Mapping[str, ItemFound]], bool],
    *,
    is_safe: bool = False,
) -> dict[str, ItemFound]:
    """The best of each accelerator, simulated in the order of bounds where a candidate `may_enter` what was found so
    far; `fleets` are those of replicas that were simulated. What must be safe is likely to keep the promise."""
    best: dict[str, ItemFound] = {}
    for candidate in candidates:
        name = candidate.service.deployment.accelerator.id
        if name in best and candidate.bound_usd >= best[name].usd_per_item:
            continue
        if not may_enter(candidate, best):
            continue
        key = id(candidate.service)
        if key not in fleets:
            fleets[key] = (_likely_fleet if is_safe else _fleet)(candidate.service, scenario)
        carried = fleets[key]
        found = _buy_fleet(candidate, *carried, scenario) if carried else None
        if found is not None and (name not in best or found.usd_per_item < best[name].usd_per_item):
            best[name] = found
    return best


def _may_be_listed(scenario: ItemScenario, candidate: ItemCandidate, best: Mapping[str, ItemFound]) -> bool:
    """Whether a candidate may be among the first accelerators, also where safe options that cost more stand for
    those found."""
    width = max(BLOCK, scenario.top)
    return len(best) < width or candidate.bound_usd < sorted(map(_dearest_usd, best.values()))[width - 1]


def _may_be_safe_pick_or_stand(
    best: Mapping[str, ItemFound], candidate: ItemCandidate, safe: Mapping[str, ItemFound]
) -> bool:
    """Whether a candidate at a firm price may be the cheapest safe one, or stand for the best of its accelerator."""
    cheapest = best.get(candidate.service.deployment.accelerator.id)
    if cheapest is not None and candidate.bound_usd <= _dearest_usd(cheapest):
        return True
    return all(candidate.bound_usd < found.usd_per_item for found in safe.values())


def _dearest_usd(found: ItemFound) -> float:
    """The most that a safe option costs which stands for another one of its accelerator [USD per item].

    Source: the overlap of their ranges, which `_by_cost` asks for.
    """
    cost = _cost(found)
    return cost.high * cost.value / cost.low


def _cost(found: ItemFound) -> Quantity:
    return quantity(found.candidate.service, found.usd_per_item)


def _likely_fleet(service: ItemService, scenario: ItemScenario) -> tuple[BatchFleet, float] | None:
    """Replicas that are likely to keep the promise, as `_fleet`: enough that the predicted latency leaves the room that
    its own interval takes."""
    room = allowance(service.time_range[1])
    for _ in range(_MOST_SIZINGS):
        carried = _fleet(service, replace(scenario, latency_p99_s=scenario.latency_p99_s / room))
        if carried is None:
            return None
        fleet, per_replica = carried
        p99 = latencies_of(service, fleet, per_replica * fleet.num_servers, scenario.seed)["p99"]
        if p99.chance_below(scenario.latency_p99_s) >= LIKELY:
            return carried
        room = max(_LEAST_MORE_ROOM * room, allowance(p99.high / p99.value))
    return None


def _fleet(service: ItemService, scenario: ItemScenario) -> tuple[BatchFleet, float] | None:
    """Replicas that keep the promise and bear the slow end of the range, and what one of them carries [1/s]."""
    promise_s = scenario.latency_p99_s
    headroom = service.headroom
    seed = scenario.seed
    rate = scenario.rate_per_s
    if rate is None:
        # One replica at the highest rate that it carries; half the requests do while that rate is sought.
        rate = highest_rate(
            service.batch_s, promise_s, headroom=headroom, seed=seed, num_requests=NUM_REQUESTS // 2
        )
        if rate <= 0.0:
            return None
    found = servers_for(
        rate, service.batch_s, promise_s, headroom=headroom, seed=seed, num_requests=NUM_REQUESTS
    )
    return None if found is None else (found, rate / found.num_servers)


def _buy_fleet(
    candidate: ItemCandidate, fleet: BatchFleet, per_replica: float, scenario: ItemScenario
) -> ItemFound | None:
    """The fleet on whole units of an offer; None beyond the budget or what can be had."""
    way = candidate.way
    least = way.min_units * way.replicas_per_unit
    replicas = fleet.num_servers if scenario.rate_per_s is not None else least
    units = max(way.min_units, math.ceil(replicas / way.replicas_per_unit))
    served = scenario.rate_per_s or replicas * per_replica
    chip = candidate.service.deployment.accelerator
    drawn = batches_drawn_fraction(
        scenario.constraints, chip, fleet.busy_fraction, _STATES.get(scenario.job.workload, "prefill")
    )
    found = ItemFound(candidate, replace(fleet, num_servers=replicas), units, served, drawn)
    paid = _paid_usd_per_hour(found, scenario)
    if scenario.budget_usd_per_hour is not None and paid > scenario.budget_usd_per_hour * (1.0 + ROUNDING):
        return None
    return None if way.max_units is not None and units > way.max_units else found


def _paid_usd_per_hour(found: ItemFound, scenario: ItemScenario) -> float:
    """Machines, storage and egress, as far as their prices are known [USD/h]."""
    return found.usd_per_hour + extra_usd_per_hour(found.candidate.way.price, scenario.beside)


def _nothing(
    scenario: ItemScenario,
    model: Model,
    services: Sequence[tuple[ItemService, Sequence[Placement]]],
    reasons: Mapping[str, Reason],
) -> InfeasibleError:
    slow = [reason for reason in reasons.values() if isinstance(reason, TooSlowAlone)]
    fastest = min(slow, key=lambda reason: reason.alone_s, default=None)
    first = {str(reason): name for name, reason in reversed(list(reasons.items()))}
    why = "; ".join([f"{name}: {reason}" for reason, name in reversed(first.items())][:3])
    if fastest is not None:
        why = f"on the fastest, {fastest}"
    steps = "take fewer --steps, " if model.workload == "diffusion" else ""
    fix = f"loosen --latency-p99, {steps}or allow --precision fp8"
    if reasons and all(isinstance(reason, NoKernels) for reason in reasons.values()):
        fix = "name an accelerator that the engine runs on with --gpu, e.g. l40s"
    budget = scenario.budget_usd_per_hour
    if budget is not None:
        rate = scenario.rate_per_s or _TRICKLE_PER_S
        asked = replace(scenario, rate_per_s=rate, ladder_per_s=(), top=1)
        fleets: _Fleets = {}
        bought = list[ItemFound]()

        def ask_within(usd_per_hour: float | None) -> float | None:
            within = replace(asked, budget_usd_per_hour=usd_per_hour)
            best = _cheapest(within, _candidates(within, services), fleets, partial(_may_be_listed, within))
            least = min(best.values(), key=lambda found: _paid_usd_per_hour(found, within), default=None)
            if least is None:
                return None
            bought.append(least)
            return _paid_usd_per_hour(least, within)

        if (bill := ask_within(None)) is not None:
            usd_per_hour = least_budget(bill, ask_within)
            service = bought[-1].candidate.service
            price = bought[-1].candidate.way.price
            count = bought[-1].fleet.num_servers * service.accelerators_per_replica
            why = f"${plain_number(budget)}/h buys nothing that keeps it"
            fix = smallest_budget(usd_per_hour, count, price.accelerator, price.provider)
    return InfeasibleError(
        f"nothing serves {model.id} with a p99 latency of {KILO * scenario.latency_p99_s:g} ms under these constraints",
        why=why,
        fix=fix,
    )
