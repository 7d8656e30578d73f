"""The headline job: a scenario in, a ranked, priced, explained recommendation out."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from advisor.catalog import models as model_catalog
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.schema import Accelerator, Model
from advisor.decide.bounds import tail_note
from advisor.decide.changes import compared, tried_changes, tried_levers, what_would_change
from advisor.decide.context_tiers import context_tiers, searched_largest
from advisor.decide.decision import Decision, Rejected, Rung
from advisor.decide.effort import ENDED_EARLY, NOT_SETTLED, SEARCH_WORK, SHOW_WORK, is_spent, limited
from advisor.decide.levers import APART, BY_LENGTH, lever, pulled, without_limits
from advisor.decide.nearest import nearest_question
from advisor.decide.offers import market, stale_price_warnings
from advisor.decide.option import Option
from advisor.decide.options import ages_days, headline, option_of, owned_note, router_note
from advisor.decide.pools import with_pools
from advisor.decide.purchase import Demand, cheapest_purchase, demands_of
from advisor.decide.ranking import (
    Planned,
    is_tie,
    planned,
    ranked,
    roles,
)
from advisor.decide.reason import (
    CostsMore,
    NoAnswerError,
    NoDeployment,
    NotForSale,
    NothingCarries,
    NotRanked,
    Reason,
)
from advisor.decide.scenario import Scenario, windowed
from advisor.decide.screening import PICKS, Found, Searched, SearchOutcome, screen
from advisor.decide.search import Progress, search
from advisor.decide.settling import engines_for, leaders, screened
from advisor.decide.split import with_split
from advisor.decide.unlike_parts import Offers

Offered = Callable[[Offers, Mapping[str, Accelerator]], Offers]
_MAX_VARIANTS = 2
SCREENED_ONLY = (
    "screened only: capacities rest on short runs and none was confirmed, so order and counts may change; "
    "ask again without --fast before you rent"
)
_NO_LIMIT = "no power limit that was tried holds the objectives: boards at full power"


def searched(
    scenario: Scenario,
    *,
    progress: Progress = lambda message: None,
    suggests: bool = False,
    offered: Offered = lambda offers, _: offers,
    work: int | None = None,
    layouts: bool = True,
) -> Searched:
    """The search that a scenario asks for; where nothing is found and `suggests`, the nearest question is sought too.

    `offered` says how offers may be taken, `work` how much may be simulated; unless `layouts`, of each accelerator and
    weight format the best layout alone is looked for.

    Raises: UnknownNameError: a model, accelerator, engine or provider is not in the catalog.
        InfeasibleError: nothing satisfies the request; the reasons are in the message.
    """
    with limited(SEARCH_WORK if work is None else work) as effort:
        done = _searched(scenario, progress, offered, layouts=layouts)
    if effort.is_spent:
        done = replace(done, notes=(*done.notes, ENDED_EARLY))
    if done.ranked(1):
        return done
    fix = ""
    if suggests:
        progress("looking for the nearest question that has an answer")
        with limited(max(0, effort.left) + SHOW_WORK):
            fix = nearest_question(
                done.scenario, done.model, engines_for(scenario), partial(_attempt, progress=progress)
            )
    raise _nothing(done, fix)


def _searched(
    scenario: Scenario,
    progress: Progress,
    offered: Offered = lambda offers, _: offers,
    *,
    layouts: bool = True,
) -> Searched:
    model, model_note = model_catalog.get(scenario.model)
    scenario, window_note = windowed(scenario, model)
    limits, may_draw_less = scenario.constraints, without_limits(scenario) is not None
    offers, accelerators = market(limits, scenario.as_of, None, may_draw_less=may_draw_less)
    on_offer, outcome = offered(offers, accelerators), SearchOutcome()
    question, entries = screen(scenario, model, accelerators, engines_for(scenario), on_offer, outcome)
    search(question, entries, outcome, progress=progress, layouts=layouts)
    notes = tuple(note for note in (model_note, window_note) if note)
    return Searched(scenario, model, notes, accelerators, offers, outcome)


def _attempt(scenario: Scenario, progress: Progress) -> Found | None:
    """The cheapest that a question would be answered with."""
    try:
        done = _searched(scenario, progress)
    except AdvisorError:
        return None
    asked, demands = done.scenario, demands_of(done.scenario)
    plans = leaders(done, demands, -1, PICKS, PICKS)
    bought = [
        replace(plan.found, purchases=(purchase,))
        for plan in plans
        if (purchase := cheapest_purchase(asked, plan.demand, plan.found.ways, *_carries(plan.found)))
    ]
    return min(bought, key=lambda found: found.cost(0), default=None)


def _carries(found: Found) -> tuple[float, float]:
    return found.capacity.load, found.capacity.requests_per_s


def recommend(
    scenario: Scenario, *, progress: Progress = lambda message: None, whole: bool = True
) -> Decision:
    """Which accelerator, how many, which layout, precision and engine, at which cost, with which latencies.

    Every accelerator of the catalog is considered; the options shown were simulated, and no other could be cheaper
    by its optimistic bound. One that is screened only rests on short runs alone, and says so. Unless `whole`, what a
    terminal does not show is left out: what would change the answer, and what other layouts show.

    Raises: UnknownNameError: a model, accelerator, engine or provider is not in the catalog.
        InfeasibleError: nothing satisfies the request; the reasons are in the message.
    """
    started = time.perf_counter()
    asked, refused = scenario, dict[int, Reason]()
    if scenario.max_contexts:
        named, _ = model_catalog.get(scenario.model)
        done, refused = searched_largest(scenario, named, partial(searched, progress=progress))
    else:
        done = searched(scenario, progress=progress, suggests=True)
    with limited(SHOW_WORK):
        plan = _answered(asked, refused, done, progress, whole=whole)
    return replace(plan, counts=done.outcome.counts(time.perf_counter() - started))


def _answered(
    asked: Scenario, refused: dict[int, Reason], done: Searched, progress: Progress, *, whole: bool
) -> Decision:
    """What a search found, settled, shown and compared."""
    scenario, model, outcome = done.scenario, done.model, done.outcome
    demands = demands_of(scenario)
    last = len(demands) - 1
    order = leaders(done, demands, last, max(PICKS, scenario.top), scenario.top)
    if not order and (
        free := without_limits(scenario)
    ):  # what is dearer than limited boards was not looked at
        again = searched(free, progress=progress)
        again = replace(again, notes=(*again.notes, _NO_LIMIT))
        return _answered(asked, refused, again, progress, whole=whole)
    if not order:
        raise _nothing(done)
    order = _with_unlike_parts(done, scenario, demands[last], order)
    options = _options(order, done, scenario, whole=whole)
    picks = list[Planned | None]()
    for place in range(len(scenario.ladder_per_s)):
        picks += leaders(done, demands, place, PICKS, 1)[:1] or [None]
    if scenario.ladder_clients:
        fewer = scenario.ladder_clients[:-1]
        picks = [*(_taken(_of_clients(scenario, each), progress) for each in fewer), order[0]]
    ladder = _ladder(scenario, picks)
    comparisons = compared(order)
    ties = [rank for rank, plan in enumerate(order[1:], start=2) if is_tie(order[0], plan)]
    options = (replace(options[0], tie_with=tuple(ties)), *options[1:])
    return Decision(
        kind="plan",
        model=model.id,
        workload=scenario.workload,
        headline=headline(options[0], model, scenario, ladder),
        options=options,
        safe_pick=next((option for option in options if option.role == "safe_pick"), None),
        ladder=ladder,
        contexts=_contexts(asked, model, refused, order[0], progress),
        rejected=_rejected(done, _accelerators(order), options[-1]),
        what_would_change=what_would_change(options, comparisons, tried_changes(scenario, order[0]))
        if whole
        else (),
        comparisons=comparisons,
        changes=tried_levers(scenario, _worth_trying(scenario, order[0], picks)),
        counts=outcome.counts(0.0),
        warnings=stale_price_warnings(ages_days(options)),
        notes=(
            *done.notes,
            *owned_note(scenario),
            *_idle_levers(scenario, model, order),
            *router_note(options),
            *filter(None, (tail_note(order[0].found.replica, scenario.traffic, scenario.objectives),)),
            *((SCREENED_ONLY,) if scenario.screened_only else ()),
            *((NOT_SETTLED,) if is_spent() else ()),
        ),
    )


def _with_unlike_parts(
    done: Searched, scenario: Scenario, demand: Demand, order: list[Planned]
) -> list[Planned]:
    """The ranking with fleets of unlike parts in place of what they beat, where they are asked for."""
    if APART.name in scenario.levers:
        order = ranked(with_pools(scenario, demand, order, done.accelerators, done.offers))
    if BY_LENGTH.name in scenario.levers:
        order = ranked(with_split(scenario, demand, order, done.model, done.accelerators, done.offers))
    return order


def _of_clients(scenario: Scenario, clients: int) -> Scenario:
    """The same question for so many clients."""
    traffic = scenario.traffic.model_copy(update={"concurrency": clients})
    return scenario.model_copy(update={"traffic": traffic, "ladder_clients": ()})


def _taken(scenario: Scenario, progress: Progress) -> Planned | None:
    """What to take for a question of its own."""
    try:
        done = searched(scenario.model_copy(update={"top": 1}), progress=progress)
    except InfeasibleError:
        return None
    return next(iter(leaders(done, demands_of(done.scenario), 0, PICKS, 1)), None)


def _ladder(scenario: Scenario, picks: Sequence[Planned | None]) -> tuple[Rung, ...]:
    """What to take for each of the scenario's loads."""
    rungs = []
    clients = scenario.ladder_clients or (None,) * len(picks)
    for place, (pick, count) in enumerate(zip(picks, clients, strict=True)):
        option = None if pick is None else replace(option_of(1, pick, scenario), role=roles([pick])[0])
        served = option.served.requests_per_s.value if option else None
        rate = served if count else scenario.ladder_per_s[place]
        reason = NothingCarries() if option is None else None
        rungs.append(Rung(option, reason, rate_per_s=rate, clients=count))
    return tuple(rungs)


def _contexts(
    scenario: Scenario, model: Model, refused: dict[int, Reason], best: Planned, progress: Progress
) -> tuple[Rung, ...]:
    """What to take for each of the scenario's context windows."""
    if not scenario.max_contexts:
        return ()

    return context_tiers(scenario, model, refused, best, partial(_taken, progress=progress))


def _worth_trying(
    scenario: Scenario, best: Planned, picks: Sequence[Planned | None]
) -> list[tuple[int, Planned]]:
    """The deployments on which levers are tried, with their ranks: the first option, and what a ladder's smallest load
    takes, as 0; none where only short runs are made."""
    if scenario.screened_only:
        return []
    return [(1, best), *((0, pick) for pick in picks[:1] if pick)]


def _options(
    order: Sequence[Planned], done: Searched, scenario: Scenario, *, whole: bool
) -> tuple[Option, ...]:
    """The ranking as options, each with other confirmed layouts of its accelerator."""
    found = []
    for rank, (plan, role) in enumerate(zip(order, roles(order), strict=True), start=1):
        others = [
            each
            for each in done.outcome.found[plan.found.accelerator_id]
            if each.purchases[-1] and each.candidate is not plan.found.candidate
        ]
        others.sort(key=lambda each: each.cost(-1))
        plans = [planned(scenario, plan.demand, each.at(-1)) for each in others[:_MAX_VARIANTS]]
        if whole:
            plans = [screened(scenario, each) for each in plans]
        variants = tuple(
            replace(option_of(rank, each, scenario), tie_with=(rank,) if is_tie(plan, each) else ())
            for each in plans
        )
        found.append(replace(option_of(rank, plan, scenario), role=role, variants=variants))
    return tuple(found)


def _accelerators(order: Sequence[Planned]) -> set[str]:
    """Ids of all accelerators of a ranking, those of unlike parts among them."""
    fleets = [plan.found.fleet.parts for plan in order if plan.found.fleet is not None]
    of_parts = {part.candidate.deployment.accelerator.id for parts in fleets for part in parts}
    return of_parts | {plan.found.accelerator_id for plan in order}


def _rejected(done: Searched, shown: set[str], last: Option) -> tuple[Rejected, ...]:
    """Every accelerator that is not an option, against the last one that is."""
    return rejected_of(done, shown, last.served.usd_per_million_tokens.value, last.rank)


def rejected_of(
    done: Searched, shown: set[str], limit_usd: float, rank: int | None = None
) -> tuple[Rejected, ...]:
    """Every accelerator that is not shown: dearer ones first, then those that cannot answer.

    `limit_usd` is what the dearest one that is shown, the option `rank`, costs [USD per million tokens].
    """
    outcome = done.outcome
    dearer, others = list[tuple[float, str, bool]](), list[Rejected]()
    for name in done.accelerators:
        if name in shown:
            continue
        found = outcome.found.get(name)
        if found:
            dearer.append((found[0].usd_per_million_tokens, name, False))
        elif name in outcome.bounds:
            dearer.append((outcome.bounds[name], name, True))
        else:
            others.append(Rejected(name, outcome.reasons.get(name, NoDeployment())))
    ranked = [
        Rejected(name, CostsMore(usd, limit_usd, rank, is_bound=is_bound))
        for usd, name, is_bound in sorted(dearer)
    ]
    return (*ranked, *others)


def _idle_levers(scenario: Scenario, model: Model, order: Sequence[Planned]) -> tuple[str, ...]:
    """Levers that the search was allowed and that make nothing shown cheaper."""
    idle = [
        name
        for name in pulled(scenario, model)
        if not any(
            lever(name).is_pulled(plan.found.candidate)
            or (plan.found.fleet is not None and plan.found.fleet.lever == name)
            for plan in order
        )
    ]
    return (f"no option is cheaper with {', '.join(idle)}: searched with and without",) if idle else ()


def _nothing(done: Searched, fix: str = "") -> NoAnswerError:
    """Why there is no answer: what another question would change first, then the most common."""
    scenario, model = done.scenario, done.model
    reasons = Counter(done.outcome.reasons.values())
    common = sorted(
        reasons.items(),
        key=lambda item: (isinstance(item[0], NotRanked), isinstance(item[0], NotForSale), -item[1]),
    )[:3]
    return NoAnswerError(
        f"nothing serves {model.id} within {scenario.objectives.words} under these constraints",
        why="; ".join(
            f"{reason} ({count} accelerators)" if count > 1 else str(reason) for reason, count in common
        ),
        fix=fix or "loosen --ttft-p99 or --tpot-p99, raise --budget, or drop --gpu/--provider/--precision",
        reasons=tuple(reason for reason, _ in common),
    )
