"""The headline job: a scenario in, a ranked, priced, explained recommendation out."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from advisor.catalog import engines as engine_catalog
from advisor.catalog import models as model_catalog
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.ownership import ownership
from advisor.catalog.schema import Accelerator, Engine, Model, Price
from advisor.recommend.changes import compared, tried_changes, what_would_change
from advisor.recommend.checkpoint import windowed
from advisor.recommend.context_tiers import context_tiers, searched_largest
from advisor.recommend.lever_trials import tried_levers
from advisor.recommend.levers import APART, BY_LENGTH, lever, pulled
from advisor.recommend.market import market, seller_words, stale_price_warnings
from advisor.recommend.nearest import nearest_question
from advisor.recommend.offers import OWN
from advisor.recommend.options import option_of
from advisor.recommend.pools import with_pools
from advisor.recommend.purchase import Demand, cheapest_purchase, demands_of
from advisor.recommend.ranking import (
    LIKELY,
    Planned,
    Settled,
    confirmed,
    planned,
    plans_of,
    ranked,
    roles,
    screened,
)
from advisor.recommend.result import ContextTier, Option, Recommendation, Rejected, Rung
from advisor.recommend.scenario import Scenario
from advisor.recommend.screening import NOT_FOR_SALE, PICKS, Found, SearchOutcome
from advisor.recommend.search import Progress, search
from advisor.recommend.split import with_split

_MAX_VARIANTS = 2
SCREENED_ONLY = (
    "screened only: capacities rest on short runs and none was confirmed, so order and counts may change; "
    "ask again without --fast before you rent"
)


@dataclass(frozen=True, slots=True)
class Searched:
    """A scenario's search before it becomes an answer: what other questions than the ranking build on."""

    scenario: Scenario
    """As it was searched: with requests within the model's window."""
    model: Model
    notes: tuple[str, ...]
    accelerators: Mapping[str, Accelerator]
    offers: Mapping[str, tuple[Price, ...]]
    outcome: SearchOutcome
    settled: Settled = field(default_factory=Settled)

    def ranked(self, top: int, demand: int = -1) -> list[list[Found]]:
        """Confirmed deployments of the cheapest accelerators for a demand, each cheapest first."""
        confirmed = [
            sorted(able, key=lambda found: found.cost(demand))
            for options in self.outcome.found.values()
            if (able := [found for found in options if found.purchases[demand]])
        ]
        return sorted(confirmed, key=lambda options: options[0].cost(demand))[:top]


def searched(
    scenario: Scenario, *, progress: Progress = lambda message: None, suggests: bool = False
) -> Searched:
    """The search that a scenario asks for; where nothing is found and `suggests`, the nearest question is sought too.

    Raises: UnknownNameError: a model, accelerator, engine or provider is not in the catalog.
        InfeasibleError: nothing satisfies the request; the reasons are in the message.
    """
    done = _searched(scenario, progress)
    if done.ranked(1):
        return done
    fix = ""
    if suggests:
        progress("looking for the nearest question that has an answer")
        fix = nearest_question(
            done.scenario, done.model, _engines(scenario), partial(_attempt, progress=progress)
        )
    raise _nothing(done, fix)


def _searched(scenario: Scenario, progress: Progress) -> Searched:
    model, model_note = model_catalog.get(scenario.model)
    scenario, window_note = windowed(scenario, model)
    offers, accelerators = market(scenario.constraints, scenario.as_of, None)
    outcome = search(
        scenario,
        model,
        accelerators,
        _engines(scenario),
        offers,
        progress=progress,
    )
    notes = tuple(note for note in (model_note, window_note) if note)
    return Searched(scenario, model, notes, accelerators, offers, outcome)


def _attempt(scenario: Scenario, progress: Progress) -> Found | None:
    """The cheapest that a question would be answered with."""
    try:
        done = _searched(scenario, progress)
    except AdvisorError:
        return None
    asked, demands = done.scenario, demands_of(done.scenario)
    plans = _confirmed(_order(done, asked, demands, -1, PICKS), done, asked, PICKS)
    bought = [
        replace(plan.found, purchases=(purchase,))
        for plan in plans
        if (purchase := cheapest_purchase(asked, plan.demand, plan.found.ways, *_carries(plan.found)))
    ]
    return min(bought, key=lambda found: found.cost(0), default=None)


def _carries(found: Found) -> tuple[float, float]:
    return found.capacity.load, found.capacity.requests_per_s


def recommend(scenario: Scenario, *, progress: Progress = lambda message: None) -> Recommendation:
    """Which accelerator, how many, which layout, precision and engine, at which cost, with which latencies.

    Every accelerator of the catalog is considered; the options shown were simulated, and no other could be cheaper
    by its optimistic bound. One that is screened only rests on short runs alone, and says so.

    Raises: UnknownNameError: a model, accelerator, engine or provider is not in the catalog.
        InfeasibleError: nothing satisfies the request; the reasons are in the message.
    """
    started = time.perf_counter()
    asked, refused = scenario, dict[int, str]()
    if scenario.max_contexts:
        named, _ = model_catalog.get(scenario.model)
        done, refused = searched_largest(scenario, named, partial(searched, progress=progress))
    else:
        done = searched(scenario, progress=progress, suggests=True)
    scenario, model, outcome = done.scenario, done.model, done.outcome
    demands = demands_of(scenario)
    last = len(demands) - 1
    competing = _order(done, scenario, demands, last, max(PICKS, scenario.top))
    order = _confirmed(competing, done, scenario, scenario.top)
    if not order:
        raise _nothing(done)
    order = _with_unlike_parts(done, scenario, demands[last], order)
    options = _options(order, done, scenario)
    picks = [_pick(done, scenario, demands, place) for place in range(len(scenario.ladder_per_s))]
    ladder = tuple(
        Rung(rate, None if pick is None else replace(option_of(1, pick, scenario), role=roles([pick])[0]))
        for rate, pick in zip(scenario.ladder_per_s, picks, strict=True)
    )
    names = {option.accelerator for option in options}
    comparisons = compared(order)
    ties = [each.rank for each in comparisons if 1.0 - LIKELY < each.chance_first_is_cheaper < LIKELY]
    options = (replace(options[0], tie_with=tuple(ties)), *options[1:])
    return Recommendation(
        kind="plan",
        model=model.id,
        workload=scenario.workload,
        headline=_headline(options[0], model, scenario, ladder),
        options=options,
        ladder=ladder,
        contexts=_contexts(asked, model, refused, order[0], progress),
        rejected=_rejected(done, names, options[-1]),
        what_would_change=what_would_change(options, comparisons, tried_changes(scenario, order[0])),
        comparisons=comparisons,
        levers_tried=tried_levers(scenario, _worth_trying(scenario, order[0], picks)),
        search=outcome.statistics(time.perf_counter() - started),
        warnings=stale_price_warnings(options),
        notes=(
            *done.notes,
            *_owned_note(scenario),
            *_idle_levers(scenario, model, order),
            *_router_note(options),
            *((SCREENED_ONLY,) if scenario.screened_only else ()),
        ),
    )


def _order(
    done: Searched, scenario: Scenario, demands: Sequence[Demand], place: int, top: int
) -> list[Planned]:
    """The best accelerators for one demand, each with the deployment that is expected to cost least, best first; among
    the first `top` one that is safe to take, where there is any."""
    demand, order, safe = demands[place], [], []
    for options in done.ranked(len(done.outcome.found), place):
        able = [plan for found in options for plan in plans_of(scenario, demand, found, place)]
        order.append(ranked(able)[0])
        safe += [plan for plan in able if plan.is_founded]
    order = ranked(order)
    if safe and not any(plan.is_founded for plan in order[:top]):
        best = min(safe, key=lambda plan: plan.expected_cost)
        order = [plan for plan in order if plan.found.accelerator_id != best.found.accelerator_id]
        order.insert(top - 1, best)
    return order


def _confirmed(order: Sequence[Planned], done: Searched, scenario: Scenario, top: int) -> list[Planned]:
    """The first of a ranking with what they show at their planning points, ranked again where that changed them."""
    held: list[Planned] = []
    for plan in order:
        if len(held) == top:
            break
        settled = (
            screened(scenario, plan) if scenario.screened_only else confirmed(scenario, plan, done.settled)
        )
        if settled is not None:
            held.append(settled)
    return ranked(held)


def _with_unlike_parts(
    done: Searched, scenario: Scenario, demand: Demand, order: list[Planned]
) -> list[Planned]:
    """The ranking with fleets of unlike parts in place of what they beat, where they are asked for."""
    if APART.name in scenario.levers:
        order = ranked(with_pools(scenario, demand, order, done.accelerators, done.offers))
    if BY_LENGTH.name in scenario.levers:
        order = ranked(with_split(scenario, demand, order, done.model, done.accelerators, done.offers))
    return order


def _pick(done: Searched, scenario: Scenario, demands: Sequence[Demand], place: int) -> Planned | None:
    """What to take for one of the demands."""
    order = _confirmed(_order(done, scenario, demands, place, PICKS), done, scenario, 1)
    return order[0] if order else None


def _contexts(
    scenario: Scenario, model: Model, refused: dict[int, str], best: Planned, progress: Progress
) -> tuple[ContextTier, ...]:
    """What to take for each of the scenario's context windows."""
    if not scenario.max_contexts:
        return ()

    def taken(asked: Scenario) -> Planned | None:
        done = searched(asked.model_copy(update={"top": 1}), progress=progress)
        return _pick(done, done.scenario, demands_of(done.scenario), 0)

    return context_tiers(scenario, model, refused, best, taken)


def _worth_trying(
    scenario: Scenario, best: Planned, picks: Sequence[Planned | None]
) -> list[tuple[int, Planned]]:
    """The deployments on which levers are tried, with their ranks: the first option, and what a ladder's smallest load
    takes, as 0; none where only short runs are made."""
    if scenario.screened_only:
        return []
    return [(1, best), *((0, pick) for pick in picks[:1] if pick)]


def _options(order: Sequence[Planned], done: Searched, scenario: Scenario) -> tuple[Option, ...]:
    """The ranking as options, each with other confirmed layouts of its accelerator."""
    found = []
    for rank, (plan, role) in enumerate(zip(order, roles(order), strict=True), start=1):
        others = [
            each
            for each in done.outcome.found[plan.found.accelerator_id]
            if each.purchases[-1] and each.candidate is not plan.found.candidate
        ]
        others.sort(key=lambda each: each.cost(-1))
        variants = tuple(
            option_of(rank, screened(scenario, planned(scenario, plan.demand, each.at(-1))), scenario)
            for each in others[:_MAX_VARIANTS]
        )
        found.append(replace(option_of(rank, plan, scenario), role=role, variants=variants))
    return tuple(found)


def _engines(scenario: Scenario) -> tuple[Engine, ...]:
    wanted = scenario.constraints.engines
    return tuple(engine for engine in engine_catalog.all_engines() if not wanted or engine.id in wanted)


def _headline(option: Option, model: Model, scenario: Scenario, ladder: Sequence[Rung]) -> str:
    """The answer in a sentence; of a ladder its smallest and its cheapest load."""
    if not ladder:
        return f"{model.name}: {_deal(option)}, {_carried(option, scenario)}"
    first = next((rung for rung in ladder if rung.pick), None)
    assert first is not None
    assert first.pick is not None
    small = f"for {first.rate_per_s:g} requests/s {_deal(first.pick)}"
    cheapest = f"at {option.requests_per_s.value:g} requests/s a million tokens cost least"
    return f"{model.name}: {small}; {cheapest}, ${option.usd_per_million_tokens.value:.3g}: {_deal(option)}"


def _carried(option: Option, scenario: Scenario) -> str:
    cost = f"${option.usd_per_million_tokens.value:.3g} per million tokens"
    if scenario.traffic.rate_per_s:
        return f"{cost} at the {scenario.traffic.rate_per_s:g} requests/s asked for"
    return f"{cost} at {option.requests_per_s.value:.3g} requests/s"


def _deal(option: Option) -> str:
    kinds = dict.fromkeys(part.accelerator_name for part in option.parts) or (option.accelerator_name,)
    counts = {
        name: sum(part.num_accelerators for part in option.parts if part.accelerator_name == name)
        for name in kinds
    }
    if len(counts) == 1:
        counts = {option.accelerator_name: option.num_accelerators}
    count = " and ".join(f"{number} × {name}" for name, number in counts.items())
    replicas = f" as {option.num_replicas} replicas" if option.num_replicas > 1 else ""
    if option.parts:
        replicas = " as " + " and ".join(part.work for part in option.parts)
    if option.provider == OWN:
        return f"run your own {count}{replicas} for ${option.usd_per_hour:.2f}/h of electricity"
    seller = seller_words(option.provider, option.price.kind)
    return f"rent {count}{replicas} from {seller} for ${option.usd_per_hour:.2f}/h"


def _rejected(done: Searched, shown: set[str], last: Option) -> tuple[Rejected, ...]:
    """Every accelerator that is not an option, against the last one that is."""
    named = f"option {last.rank}"
    return rejected_of(done, shown, last.usd_per_million_tokens.value, named)


def rejected_of(
    done: Searched, shown: set[str], limit: float, named: str = "the dearest shown"
) -> tuple[Rejected, ...]:
    """Every accelerator that is not shown: dearer ones first, then those that cannot answer.

    `limit` is what the dearest one that is shown, called `named`, costs [USD per million tokens].
    """
    outcome = done.outcome
    dearer, others = [], []
    for name in done.accelerators:
        if name in shown:
            continue
        found = outcome.found.get(name)
        if found:
            dearer.append((found[0].usd_per_million_tokens, name, "simulated"))
        elif name in outcome.bounds:
            dearer.append((outcome.bounds[name], name, "at best"))
        else:
            others.append(Rejected(name, outcome.reasons.get(name, "no feasible deployment")))
    ranked = [
        Rejected(name, f"${usd:.3g} per million tokens {how}, against ${limit:.3g} for {named}")
        for usd, name, how in sorted(dearer)
    ]
    return (*ranked, *others)


def _owned_note(scenario: Scenario) -> tuple[str, ...]:
    if not scenario.constraints.own:
        return ()
    known = ownership(scenario.as_of)
    tariff, pue = known.value("electricity_usd_per_kwh"), known.value("pue")
    hosts = known.value("system_power_factor")
    return (
        f"own hardware is charged its electricity only: {tariff:.4g} USD/kWh, {hosts:.3g} times its boards with hosts, "
        f"PUE {pue:.3g}; advisor cost adds the purchase",
    )


def _router_note(options: Sequence[Option]) -> tuple[str, ...]:
    """What the reuse of a conversation's earlier turns rests on."""
    if not any(option.levers.get("sticky_router") and option.num_replicas > 1 for option in options):
        return ()
    return ("each conversation must stay with its replica: --emit writes the router that keeps it there",)


def _idle_levers(scenario: Scenario, model: Model, order: Sequence[Planned]) -> tuple[str, ...]:
    """Levers that the search was allowed and that nothing shown gains from."""
    idle = [
        name
        for name in pulled(scenario, model)
        if not any(
            lever(name).is_pulled(plan.found.candidate)
            or (plan.found.fleet is not None and plan.found.fleet.lever == name)
            for plan in order
        )
    ]
    return (f"none of the options gains from {', '.join(idle)}: searched with and without",) if idle else ()


def _nothing(done: Searched, fix: str = "") -> AdvisorError:
    """Why there is no answer: what another question would change first, then the most common."""
    scenario, model = done.scenario, done.model
    never = {each.unranked_reason for each in done.accelerators.values()}
    reasons = Counter(done.outcome.reasons.values())
    common = sorted(reasons.items(), key=lambda item: (item[0] in never, item[0] == NOT_FOR_SALE, -item[1]))[
        :3
    ]
    return InfeasibleError(
        f"nothing serves {model.id} within {scenario.objectives.words} under these constraints",
        why="; ".join(
            f"{reason} ({count} accelerators)" if count > 1 else reason for reason, count in common
        ),
        fix=fix or "loosen --ttft-p99 or --tpot-p99, raise --budget, or drop --gpu/--provider/--precision",
    )
