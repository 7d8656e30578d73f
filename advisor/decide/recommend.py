"""The headline job: a scenario in, a ranked, priced, explained decision out."""

import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from advisor.catalog import engines as engine_catalog
from advisor.catalog import models as model_catalog
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.schema import Accelerator, Engine, Model, Price
from advisor.decide.bounds import tail_note
from advisor.decide.changes import (
    compare_first,
    tried_changes,
    tried_levers,
    what_would_change,
    with_asked_levers,
)
from advisor.decide.context_tiers import context_tiers, readable_windows, searched_largest, tier_scenario
from advisor.decide.decision import Counts, Decision, NotTaken, Rejected, Rung
from advisor.decide.effort import ENDED_EARLY, NOT_SETTLED, SEARCH_WORK, SHOW_WORK, is_spent, limit_effort
from advisor.decide.engine_classes import check_classes, check_windows, class_notes
from advisor.decide.levers import APART, BY_LENGTH, allowed_levers, at_full_power, find_lever
from advisor.decide.main_memory import main_memory_hint
from advisor.decide.nearest import loosen_limits, nearest_question, stated_limits
from advisor.decide.not_taken import engines_not_taken, providers_not_taken
from advisor.decide.offers import (
    OWN,
    Placement,
    market,
    named_accelerators,
    place_note,
    placeless_note,
    stale_price_warnings,
)
from advisor.decide.option import Option, Role
from advisor.decide.own_kinds import explain_alone, serve_together
from advisor.decide.pools import pools
from advisor.decide.purchase import Demand, Purchase, demands_of, purchase_on, with_replicas
from advisor.decide.race import WIDTH, Race, Report, grow_until_likely
from advisor.decide.ranking import (
    Planned,
    chance_cheaper,
    cheapest_by_expectation,
    is_tie,
    roles,
    sort_by_expected_cost,
)
from advisor.decide.reason import (
    ArchitectureNotInEngine,
    CostsMore,
    DoesNotFit,
    LessSure,
    NoAnswerError,
    NoCacheFormat,
    NoDeployment,
    NoKernels,
    NotForSale,
    NothingCarries,
    NotSupported,
    Reason,
    TooFewOwned,
    TooLate,
    most_common,
)
from advisor.decide.scenario import Scenario, fit_to_window
from advisor.decide.screening import screen
from advisor.decide.served_option import (
    ages_days,
    headline,
    idle_notes,
    option_of,
    owned_note,
    router_note,
    spot_warning,
    tight_memory_notes,
)
from advisor.decide.split import split_fleets
from advisor.decide.trial import Found
from advisor.decide.unlike_parts import Offers, bases_of

Offered = Callable[[Offers, Mapping[str, Accelerator]], Offers]
"""Function that returns the offers as a search may take them, given all offers and the accelerators."""
_MAX_VARIANTS: Final = 2
"""Number of further deployments of an accelerator that are shown besides its best one."""
SCREENED_ONLY: Final = (
    "screened only: capacities rest on short runs and none was confirmed, so order and counts may change; "
    "ask again without --fast before you rent"
)
POOLS_GAIN: Final = 0.92
"""Cost of the bound of two pools over that of the best plain deployment below which `auto` sizes them. What is found
costs 3 to 10 % more than its bound."""
POOLS_MOST_PER_S: Final = 100.0
"""Requests per second up to which `auto` sizes pools. A run that shows whether they hold has 80 seconds of requests: at
200 requests/s sizing one pair takes 6 CPU seconds, as many as the rest of the question."""


@dataclass(frozen=True, slots=True)
class Search:
    """A race that was run for a scenario, with the market that it was run on."""

    scenario: Scenario
    """Scenario that was searched: its requests are within the model's window."""
    model: Model
    notes: tuple[str, ...]
    accelerators: Mapping[str, Accelerator]
    offers: Mapping[str, tuple[Price, ...]]
    race: Race
    together: Planned | None = None
    """Own boards of several kinds that serve together, or of one kind in two pools where no plain deployment carries
    the load; None where one kind alone costs no more, or none is asked."""

    def counts(self, wall_s: float) -> Counts:
        """Return the numbers of candidates, models and simulations so far, with the wall time `wall_s` [s]."""
        race = self.race
        return Counts(
            num_candidates=race.num_candidates,
            num_modelled=race.num_modelled,
            num_simulated=race.num_simulated,
            num_simulated_requests=race.num_requests,
            wall_s=wall_s,
        )


def engines_for(scenario: Scenario) -> tuple[Engine, ...]:
    """Return the engines that a scenario allows."""
    return scenario.constraints.engines_of(engine_catalog.all_engines())


def search_scenario(
    scenario: Scenario,
    *,
    progress: Report = lambda line: None,
    suggests: bool = False,
    offered: Offered = lambda offers, _: offers,
    work: int | None = None,
    width: int = WIDTH,
) -> Search:
    """Run the race that a scenario asks for; where nothing is found and `suggests`, the nearest question is sought too.

    `offered` says how offers may be taken, `work` how much may be simulated, `width` how many accelerators are ranked.

    Raises: UnknownNameError: a model, accelerator, engine or provider is not in the catalog.
        InfeasibleError: nothing satisfies the request; the reasons are in the message.
    """
    with limit_effort(SEARCH_WORK if work is None else work) as effort:
        done = _run_search(scenario, progress, offered, width)
        if scenario.constraints.own and not done.race.entries(-1, 1) and done.together is None:
            done = replace(done, together=_pools_beyond(done, progress))
    if effort.is_spent:
        done = replace(done, notes=(*done.notes, ENDED_EARLY))
    if done.race.entries(-1, 1) or done.together is not None:
        return done
    rates = scenario.ladder_per_s
    carried = [place for place in range(len(rates)) if done.race.entries(place, 1)]
    if carried:
        # What the limits let be had does not carry the largest loads of a question without one.
        fewer = rates[: carried[-1] + 1]
        with limit_effort(SEARCH_WORK if work is None else work):
            done.race.end_at(carried[-1], width)
        told = f"what can be had within the limits carries the usual loads up to {fewer[-1]:g} requests/s"
        asked = done.scenario.model_copy(update={"ladder_per_s": fewer})
        return replace(done, scenario=asked, notes=(*done.notes, told))
    fix = ""
    if suggests:
        progress("looking for the nearest question that has an answer")
        answered = set[Scenario]()
        with limit_effort(max(0, effort.left) + SHOW_WORK):
            fix = nearest_question(
                done.scenario,
                done.model,
                engines_for(scenario),
                partial(_attempt, progress=progress, answered=answered),
                partial(_is_answered, progress=progress, answered=answered),
            )
    _, window_note = fit_to_window(scenario, done.model)
    raise _nothing(done, fix, window_note)


def with_reachable_limits(scenario: Scenario, progress: Report = lambda line: None) -> Scenario | None:
    """Return a question that has no answer with the shortest latency limits that were found to have one; None if no
    longer ones that were tried do."""
    model, _ = model_catalog.get(scenario.model)
    windows = readable_windows(scenario, model)
    asked = tier_scenario(scenario, windows[0]) if windows else scenario
    with limit_effort(SHOW_WORK):
        objectives = loosen_limits(asked, partial(_attempt, progress=progress, answered=set()))
    return None if objectives is None else scenario.model_copy(update={"objectives": objectives})


def _run_search(
    scenario: Scenario,
    progress: Report,
    offered: Offered = lambda offers, _: offers,
    width: int = WIDTH,
) -> Search:
    model, model_note = model_catalog.get(scenario.model)
    chips = named_accelerators(scenario.constraints)
    check_classes(model, engines_for(scenario), chips)
    scenario, window_note = fit_to_window(scenario, model)
    check_windows(model, engines_for(scenario), float(scenario.traffic.longest_request_tokens), chips)
    limits = scenario.constraints
    may_draw_less = at_full_power(scenario) is not None
    offers, accelerators = market(limits, scenario.as_of, None, may_draw_less=may_draw_less)
    trials, reasons = screen(
        scenario, model, accelerators, engines_for(scenario), offered(offers, accelerators)
    )
    race = Race(scenario, model, demands_of(scenario), trials, width=width, report=progress)
    race.reasons.update(reasons)
    race.run()
    sold = (accelerators[name] for name in offers if name in accelerators)
    classes = class_notes(model, engines_for(scenario), sold)
    notes = tuple(note for note in (model_note, window_note, explain_alone(scenario), *classes) if note)
    mixed = serve_together(scenario, model, trials, report=progress)
    alone = race.entries(-1, 1)
    if mixed is not None and alone and alone[0].expected_cost <= mixed.expected_cost:
        mixed = None
    return Search(scenario, model, notes, accelerators, offers, race, mixed)


def _purchase_from(scenario: Scenario, plan: Planned, way: Placement) -> Purchase | None:
    """Return what a plan buys of one offer, as many replicas as its planning point took; None if that offer cannot
    carry the demand."""
    capacity = plan.found.capacity
    shown = plan.found.purchase
    if way is shown.placement:
        return shown
    bought = purchase_on(scenario, plan.demand, way, capacity.load, capacity.requests_per_s)
    is_counted = plan.demand.kind in ("rate", "clients")
    if bought is None or not is_counted or bought.num_replicas >= shown.num_replicas:
        return bought
    load = capacity.load
    return with_replicas(scenario, plan.demand, way, load, capacity.requests_per_s, shown.num_replicas)


def _is_answered(scenario: Scenario, progress: Report, answered: set[Scenario]) -> bool:
    """Whether a question has an answer when it is searched with all the work of one that is typed.

    A race for one accelerator tells: until the first deployment carries the load, a race for more takes the same steps,
    and afterwards it only looks for better ones. One that was `answered` before its work was spent takes them again.
    """
    if scenario.model_copy(update={"top": 1}) in answered:
        return True
    with limit_effort(SEARCH_WORK, is_apart=True):
        try:
            done = _run_search(scenario, progress, width=1)
        except AdvisorError:
            return False
        return bool(done.race.entries(-1, 1)) or done.together is not None


def _attempt(scenario: Scenario, progress: Report, answered: set[Scenario]) -> Found | None:
    """Return the cheapest deployment that answers a question, at the prices that were read; None if there is none.

    A question is `answered` from now on if its search ended before its work was spent.
    """
    try:
        done = _run_search(scenario, progress, width=1)
    except AdvisorError:
        return None
    held = [
        plan for plan in done.race.entries(-1, 1) if plan.point is not None or done.scenario.screened_only
    ]
    if not held and done.together is None:
        return None  # What was measured misses an objective at its planning point, or was not shown there.
    if not is_spent():
        answered.add(scenario)
    names = [plan.found.accelerator_id for plan in done.race.entries(-1)]
    plans = [
        plan
        for name in names
        for plan in done.race.others(-1, name)
        if done.scenario.screened_only or plan.found.capacity.stage != "screened"
    ]
    # A budget is held against the price that is read, which may be lowest where the expected one is not.
    able = [
        plan.found.with_purchase(bought)
        for plan in plans
        for way in plan.found.ways
        if (bought := _purchase_from(done.scenario, plan, way))
    ]
    if done.together is not None:
        able.append(done.together.found)
    return min(able, key=lambda found: found.purchase.cost, default=None)


def recommend(
    scenario: Scenario,
    *,
    progress: Report = lambda line: None,
    whole: bool = True,
    suggests: bool = True,
) -> Decision:
    """Return which accelerator to take, how many, in which layout and precision, at which cost and with which
    latencies.

    Every accelerator of the catalog is considered; the options shown were simulated, and no other could be cheaper
    by its optimistic bound. One that is screened only rests on short runs alone, and says so. Unless `whole`, what a
    terminal does not show is left out: what would change the answer. With `suggests`, a refusal names the nearest
    question that has an answer.

    Raises: UnknownNameError: a model, accelerator, engine or provider is not in the catalog.
        InfeasibleError: nothing satisfies the request; the reasons are in the message.
    """
    started = time.perf_counter()
    asked = scenario
    refused = dict[int, Reason]()
    if scenario.max_contexts:
        named, _ = model_catalog.get(scenario.model)
        done, refused = searched_largest(
            scenario,
            named,
            lambda tier, is_last: search_scenario(tier, progress=progress, suggests=suggests and is_last),
        )
    else:
        done = search_scenario(scenario, progress=progress, suggests=suggests)
    with limit_effort(SHOW_WORK):
        plan = _build_decision(asked, refused, done, progress, whole=whole)
    return replace(plan, counts=done.counts(time.perf_counter() - started))


def _further(done: Search, entries: Sequence[Planned], top: int) -> list[Planned]:
    """Entries behind the first five, by races for five more accelerators at a time."""
    race = done.race
    names = {plan.found.accelerator_id for plan in entries}
    more = list[Planned]()
    while len(entries) >= WIDTH and len(names) < top and not is_spent():
        race.run(len(names) + WIDTH)
        found = [plan for plan in race.entries(-1) if plan.found.accelerator_id not in names]
        block = [shown_plan for plan in found[:WIDTH] if (shown_plan := race.at_planning_point(plan))]
        if not block:
            break
        more += block
        names |= {plan.found.accelerator_id for plan in block}
    return more


@dataclass(frozen=True, slots=True)
class Shortlist:
    """The result of a search: its deployments, best first, and the options made of the first of them."""

    entries: list[Planned]
    """Deployments for the last demand; five or more if as many exist, so that no statement depends on `--top`."""
    options: tuple[Option, ...]
    """Options of the first five entries, or of as many as `--top` asks for if that is more."""
    safe_pick: Option | None
    """The option with the role `safe_pick`, also where it is below the cut of `--top`; None where there is none."""
    rejected: tuple[Rejected, ...]
    not_taken: tuple[NotTaken, ...]
    """Providers and engines that the question names and none of the options up to `--top` has."""
    fleets: list[Planned]
    """Fleets of unlike parts that are expected to cost less than a plain deployment, shown or not."""


def build_shortlist(done: Search) -> Shortlist:
    """Return the ranking of a search with roles, variants and ties, the same for every command that asks it.

    All that is said of the first five depends on them alone; further ones are put behind them.
    """
    scenario = done.scenario
    race = done.race
    entries, fleets = _ranking(done, WIDTH)
    safe = next((place for place, plan in enumerate(entries) if plan.is_safe), None)
    able = [race.safe_pick(-1), *(plan for plan in fleets if plan.is_safe)]
    below = min(filter(None, able), key=lambda plan: plan.expected_cost, default=None)
    if safe is not None and below is not None and _is_cheaper_elsewhere(below, entries[safe]):
        safe = None  # a variant of an option that is not safe itself is safe for less
    costs = [plan.found.purchase.cost for plan in entries]
    options = _options(entries, roles(costs, safe), done, scenario, fleets=fleets)
    chances = (chance_cheaper(entries[0], plan) for plan in entries[1:])
    ties = [rank for rank, chance in enumerate(chances, start=2) if is_tie(chance)]
    options = (replace(options[0], tie_with=tuple(ties)), *options[1:])
    safe_pick = next((option for option in options if option.role == "safe_pick"), None)
    if safe_pick is None and below is not None:
        safe_pick = replace(option_of(0, race.at_planning_point(below) or below, scenario), role="safe_pick")
    # Work of its own: a longer list leaves the rest of the answer what it needs.
    with limit_effort(SHOW_WORK, is_apart=True):
        more = _further(done, entries, scenario.top)
    options += _options(more, ["other"] * len(more), done, scenario, first_rank=len(entries) + 1)
    entries += more
    rejected = _rejected_accelerators(done, entries, scenario.top)
    shown = entries[: scenario.top]
    not_taken = (
        *providers_not_taken(scenario.constraints, scenario.as_of, options[: scenario.top], safe_pick),
        *engines_not_taken(scenario, done.model, race, shown, safe_pick, done.accelerators),
    )
    return Shortlist(entries, options, safe_pick, rejected, not_taken, fleets)


def _ranking(done: Search, top: int) -> tuple[list[Planned], list[Planned]]:
    """Return the first `top` entries of a search, best first, among them fleets of unlike parts and own boards of
    several kinds; and those fleets, shown or not."""
    entries = done.race.entries(-1, top)
    fleets = _fleets(done, entries)
    if done.scenario.constraints.own and done.scenario.levers == ("auto",):
        # On boards that are there they save electricity alone, which is not worth a doubt.
        fleets = [each for each in fleets if each.holds == "likely"]
    entries = [with_asked_levers(done.scenario, plan) for plan in _with_fleets(done, entries, fleets)]
    if done.scenario.constraints.own:
        entries = sort_by_expected_cost([_surest_on_own(done, plan) for plan in entries])
    if done.together is not None:
        entries = sort_by_expected_cost([done.together, *entries])
    return entries, fleets


def _surest_on_own(done: Search, plan: Planned) -> Planned:
    """Return a plan on hardware that is there which is likely to hold, with more of it where that takes it: a board
    that is there costs its electricity. The plan itself where none is likely."""
    if plan.holds == "likely" or plan.demand.kind not in ("rate", "clients"):
        return plan
    others = [each for each in done.race.others(-1, plan.found.accelerator_id) if each.found.fleet is None]
    grown = (grow_until_likely(done.scenario, each) for each in others[:_MAX_VARIANTS])
    return next((each for each in grown if each is not None), plan)


def _is_cheaper_elsewhere(plan: Planned, entry: Planned) -> bool:
    """Whether a plan of another accelerator is expected to cost less than an entry."""
    is_other = plan.found.accelerator_id != entry.found.accelerator_id
    return is_other and plan.expected_cost < entry.expected_cost


def _build_decision(
    asked: Scenario, refused: dict[int, Reason], done: Search, progress: Report, *, whole: bool
) -> Decision:
    """Return the decision from a race, compared and explained."""
    scenario = done.scenario
    model = done.model
    race = done.race
    cheapest = [next(iter(race.entries(place, 1)), None) for place in range(len(scenario.ladder_per_s))]
    picks = [None if plan is None else with_asked_levers(scenario, plan) for plan in cheapest]
    found = build_shortlist(done)
    entries = found.entries
    options = found.options[: scenario.top]
    order = entries[: scenario.top]
    if scenario.ladder_clients:
        fewer = scenario.ladder_clients[:-1]
        picks = [*(_take_first(_of_clients(scenario, each), progress) for each in fewer), entries[0]]
    ladder = _ladder(scenario, picks)
    comparisons = compare_first(order)
    tail = tail_note(order[0].found.long_prompt_replica, scenario.traffic, scenario.objectives)
    return Decision(
        kind="plan",
        model=model.id,
        workload=scenario.workload,
        headline=headline(options[0], model, scenario, ladder),
        options=options,
        safe_pick=found.safe_pick,
        ladder=ladder,
        contexts=_contexts(asked, model, refused, order[0], progress),
        rejected=found.rejected,
        not_taken=found.not_taken,
        what_would_change=what_would_change(options, comparisons, tried_changes(scenario, order[0]))
        if whole
        else (),
        comparisons=comparisons,
        changes=tried_levers(scenario, _worth_trying(scenario, order[0], picks)),
        counts=done.counts(0.0),
        warnings=(*spot_warning(options), *stale_price_warnings(ages_days(options))),
        notes=(
            *done.notes,
            *owned_note(scenario),
            *_idle_levers(scenario, model, [*order, *found.fleets]),
            *router_note(options),
            *_network_notes(order),
            *idle_notes(options),
            *tight_memory_notes(options),
            *(() if found.safe_pick else _place_notes(scenario, options)),
            *((tail,) if tail else ()),
            *((SCREENED_ONLY,) if scenario.screened_only else ()),
            *((NOT_SETTLED,) if is_spent() else ()),
        ),
    )


def _place_notes(scenario: Scenario, options: Sequence[Option]) -> tuple[str, ...]:
    """Return what the providers of options may rent besides in the places that a question names."""
    limits = scenario.constraints
    providers = {option.offer.provider for option in options if option.offer is not None} - {OWN}
    if not providers:
        return ()
    note = place_note(limits, scenario.as_of, sorted(providers), limits.regions)
    return (note,) if note else ()


def _network_notes(order: Sequence[Planned]) -> tuple[str, ...]:
    """Return a note for each option whose pools send caches to each other over a network between machines."""
    return tuple(
        f"the pools of option {rank} send caches from machine to machine ({plan.network.words}): ask whether "
        f"{plan.found.purchase.placement.price.provider} joins them so; advisor simulate serve --network shows another"
        for rank, plan in enumerate(order, start=1)
        if plan.network is not None
    )


def _fleets(done: Search, entries: Sequence[Planned]) -> list[Planned]:
    """Fleets of unlike parts that cost less than plain deployments of the first entries, where they are asked for, or
    where `auto` finds that they may pay: not where kernels are assumed, since pools rest on the ratio of the time of
    prompts to that of answers, and on transfers that were not measured there either."""
    scenario = done.scenario
    demand = demands_of(scenario)[-1]
    plans = [done.race.others(-1, plan.found.accelerator_id) for plan in entries]
    found = list[Planned]()
    are_asked = APART.name in scenario.levers
    if are_asked or (_may_try_pools(scenario, demand) and _is_light(entries)):
        founded = [
            of_chip
            for plan, of_chip in zip(entries, plans, strict=True)
            if are_asked or plan.found.replica.basis != "assumed"
        ]
        bases = bases_of(scenario, founded, of_one_seller=False)
        gain = 1.0 if are_asked else POOLS_GAIN
        found += pools(scenario, demand, bases, done.accelerators, done.offers, gain=gain)
    if BY_LENGTH.name in scenario.levers:
        bases = bases_of(scenario, plans, of_one_seller=True)
        found += split_fleets(scenario, demand, bases, done.model, done.accelerators, done.offers)
    return found


def _pools_beyond(done: Search, progress: Report) -> Planned | None:
    """Return two pools of own boards that carry a load which is too much for plain deployments of all of them; None
    where `auto` does not try pools, or they do not carry it either."""
    scenario = done.scenario
    demand = demands_of(scenario)[-1]
    if not _may_try_pools(scenario, demand) or demand.size > POOLS_MOST_PER_S:
        return None
    most = _run_search(scenario.with_traffic(rate_per_s=None), progress)
    plain = [[plan] for plan in most.race.entries(-1) if plan.found.replica.basis != "assumed"]
    bases = bases_of(scenario, plain, of_one_seller=False)
    found = pools(scenario, demand, bases, done.accelerators, done.offers, at_any_cost=True)
    return min(found, key=lambda plan: plan.expected_cost, default=None)


def _may_try_pools(scenario: Scenario, demand: Demand) -> bool:
    """Whether `auto` may compute prompts apart: simulated for a rate or a budget, without adapters or conversations."""
    return (
        scenario.levers == ("auto",)
        and not scenario.screened_only
        and demand.kind in ("rate", "budget")
        and scenario.adapters is None
        and scenario.traffic.conversations is None
    )


def _is_light(entries: Sequence[Planned]) -> bool:
    """Whether the load is small enough for `auto` to size pools for it."""
    return bool(entries) and entries[0].found.purchase.requests_per_s <= POOLS_MOST_PER_S


def _with_fleets(done: Search, entries: Sequence[Planned], fleets: Sequence[Planned]) -> list[Planned]:
    """The entries of all accelerators, those of which fleets lead among them, best first."""
    if not fleets:
        return list(entries)
    led = list[Planned]()
    for plan in entries:
        own = _of_accelerator(plan, fleets)
        best = (
            cheapest_by_expectation([*done.race.others(-1, plan.found.accelerator_id), *own]) if own else plan
        )
        led.append(best if best.found.fleet is not None else plan)
    return sort_by_expected_cost(led)


def _of_accelerator(plan: Planned, fleets: Sequence[Planned]) -> list[Planned]:
    """The fleets whose tokens are generated on the accelerator of a plan."""
    return [each for each in fleets if each.found.accelerator_id == plan.found.accelerator_id]


def _of_clients(scenario: Scenario, clients: int) -> Scenario:
    """Return the scenario for a concurrency of `clients`."""
    return scenario.with_traffic(concurrency=clients).model_copy(update={"ladder_clients": ()})


def _take_first(scenario: Scenario, progress: Report) -> Planned | None:
    """Return the first entry of a question that is searched by itself; None where nothing answers it."""
    try:
        done = search_scenario(scenario, progress=progress, width=1)
    except InfeasibleError:
        return None
    entries, _ = _ranking(done, 1)
    return next(iter(entries), None)


def _ladder(scenario: Scenario, picks: Sequence[Planned | None]) -> tuple[Rung, ...]:
    """Return the picks for each of the scenario's loads."""
    rungs = []
    clients = scenario.ladder_clients or (None,) * len(picks)
    for place, (pick, count) in enumerate(zip(picks, clients, strict=True)):
        option = None if pick is None else replace(option_of(1, pick, scenario), role=_role_of(pick))
        served = option.served.requests_per_s.value if option else None
        rate = served if count else scenario.ladder_per_s[place]
        reason = NothingCarries() if option is None else None
        rungs.append(Rung(option, reason, rate_per_s=rate, clients=count))
    return tuple(rungs)


def _contexts(
    scenario: Scenario, model: Model, refused: dict[int, Reason], best: Planned, progress: Report
) -> tuple[Rung, ...]:
    """Return the picks for each of the scenario's context windows."""
    if not scenario.max_contexts:
        return ()

    def take_first(tier: Scenario) -> Planned | None:
        # Work of its own: beside others a window gets what it gets alone.
        with limit_effort(SEARCH_WORK + SHOW_WORK, is_apart=True):
            return _take_first(tier, progress)

    return context_tiers(scenario, model, refused, best, take_first)


def _worth_trying(
    scenario: Scenario, best: Planned, picks: Sequence[Planned | None]
) -> list[tuple[int, Planned]]:
    """The deployments on which levers are tried, with their ranks: the first option, and what a ladder's smallest load
    takes, as 0; none where only short runs are made."""
    if scenario.screened_only:
        return []
    return [(1, best), *((0, pick) for pick in picks[:1] if pick)]


def _role_of(pick: Planned) -> Role:
    """The role of a plan that stands alone."""
    return "safe_pick" if pick.is_safe else "cheapest_if_it_holds"


def _options(
    order: Sequence[Planned],
    named: Sequence[Role],
    done: Search,
    scenario: Scenario,
    first_rank: int = 1,
    fleets: Sequence[Planned] = (),
) -> tuple[Option, ...]:
    """The ranking as options, each with other deployments of its accelerator: a safe or a cheaper one first."""
    found = []
    for rank, (plan, role) in enumerate(zip(order, named, strict=True), start=first_rank):
        variants = tuple(
            replace(
                option_of(rank, each, scenario),
                role=_variant_role(each, plan) if number == 0 else "other",
                tie_with=(rank,) if is_tie(chance_cheaper(plan, each)) else (),
            )
            for number, each in enumerate(_variants(plan, done, fleets))
        )
        found.append(replace(option_of(rank, plan, scenario), role=role, variants=variants))
    return tuple(found)


def _variants(plan: Planned, done: Search, fleets: Sequence[Planned]) -> list[Planned]:
    """Other deployments and offers on the accelerator of an entry: the safe one, or what costs less than a safe
    entry, then other layouts; each at its planning point."""
    if plan is done.together:
        return []
    able = [*done.race.others(-1, plan.found.accelerator_id), *_of_accelerator(plan, fleets)]
    others = [
        each
        for each in sorted(able, key=lambda each: each.expected_cost)
        if each.found.candidate is not plan.found.candidate or _order_of(each) != _order_of(plan)
    ]
    if plan.is_safe:
        first = [each for each in others if each.expected_cost < plan.expected_cost][:1]
    else:
        held = (done.race.at_planning_point(each) for each in others if each.is_safe)
        first = list(itertools.islice((each for each in held if each is not None and each.is_safe), 1))
    rest = [
        each
        for each in others
        if each.found.candidate is not plan.found.candidate
        and all(each.found.candidate is not one.found.candidate for one in first)
    ]
    unique = {id(each.found.candidate): each for each in reversed(rest)}
    kept = sorted(unique.values(), key=lambda each: each.expected_cost)
    shown = filter(None, map(done.race.at_planning_point, [*first, *kept]))
    return list(itertools.islice(shown, _MAX_VARIANTS))


def _order_of(plan: Planned) -> tuple[int, int]:
    """Return which offer a plan takes, and how many replicas it buys there."""
    purchase = plan.found.purchase
    return id(purchase.placement), purchase.num_replicas


def _variant_role(variant: Planned, entry: Planned) -> Role:
    """The role of a variant: the safe deployment of an entry that is not, or what is cheaper if it holds."""
    if variant.is_safe and not entry.is_safe:
        return "safe_pick"
    if entry.is_safe and variant.expected_cost < entry.expected_cost:
        return "cheapest_if_it_holds"
    return "other"


def _accelerators(order: Sequence[Planned]) -> set[str]:
    """Ids of all accelerators of a ranking, those of unlike parts among them."""
    fleets = [plan.found.fleet.parts for plan in order if plan.found.fleet is not None]
    of_parts = {part.candidate.deployment.accelerator.id for parts in fleets for part in parts}
    return of_parts | {plan.found.accelerator_id for plan in order}


def _rejected_accelerators(done: Search, entries: Sequence[Planned], top: int) -> tuple[Rejected, ...]:
    """Return every accelerator that is no option, against the expected cost of the last one that is: those that cost
    less but are less sure first, then those that cost more, then those that cannot answer.
    """
    order = entries[:top]
    shown_ids = _accelerators(order)
    limit_usd = order[-1].expected_cost
    race = done.race
    # Of equal bills a surer deployment is the entry; what its accelerator could cost is the least of all.
    known = {
        plan.found.accelerator_id: min(
            each.expected_cost for each in (plan, *race.others(-1, plan.found.accelerator_id))
        )
        for plan in entries[top:]
    }
    dearer = list[tuple[float, str, bool]]()
    others = list[Rejected]()
    # A race that was run to its end has shown of every other accelerator that it does not cost less than its entries.
    proven = 0.0 if is_spent() or len(entries) < WIDTH else max(plan.expected_cost for plan in entries)
    for name in done.accelerators:
        if name in shown_ids:
            continue
        measured = race.others(-1, name)
        floor = race.floor(-1, name)
        if name in known:
            dearer.append((known[name], name, False))
        elif measured:
            is_settled = measured[0].found.capacity.stage == "settled"
            cost = measured[0].expected_cost
            least = cost if is_settled else max(min(cost, floor), proven)
            dearer.append((least, name, not is_settled))
        elif (least := race.open_floor(-1, name)) < float("inf"):
            dearer.append((max(least, proven), name, True))
        else:
            others.append(Rejected(name, race.reasons.get(name, NoDeployment())))
    per = "an hour" if order[0].demand.kind == "clients" else "per million tokens"
    ranked_by_cost = [
        Rejected(name, LessSure(usd, limit_usd, len(order), per))
        if name in known and usd < limit_usd
        else Rejected(name, CostsMore(usd, limit_usd, len(order), is_bound=is_bound, per=per))
        for usd, name, is_bound in sorted(dearer)
    ]
    return (*ranked_by_cost, *others)


def _idle_levers(scenario: Scenario, model: Model, found: Sequence[Planned]) -> tuple[str, ...]:
    """Levers that the search was allowed and that make nothing cheaper, or faster at the same cost."""
    idle = [
        name
        for name in allowed_levers(scenario, model)
        if not any(
            find_lever(name).is_applied(plan.found.candidate)
            or (plan.found.fleet is not None and plan.found.fleet.lever == name)
            for plan in found
        )
    ]
    names = ", ".join(idle)
    return (
        (f"no option is cheaper, or as cheap and faster, with {names}: searched with and without",)
        if idle
        else ()
    )


_REFUSALS: Final = (ArchitectureNotInEngine, DoesNotFit, NoCacheFormat, NoKernels, NotSupported)
"""Reasons that no objective and no budget changes."""


def _limits_to_loosen(scenario: Scenario, reasons: Iterable[Reason], *, is_sold: bool) -> str:
    """Return the limits of a question of which one must be given up: the latency that no deployment reaches even
    without load, else those that the question has; another day where nothing is for sale on its own."""
    if not is_sold:
        return "another day (--as-of), or your own prices with --price-file"
    levels = {level.name: f"--{level.metric}-p{level.percent}" for level in scenario.objectives.levels}
    least: dict[str, TooLate] = {}
    for reason in reasons:
        if isinstance(reason, TooLate) and reason.objective in levels:
            known = least.get(reason.objective, reason)
            least[reason.objective] = min(known, reason, key=lambda each: each.least_s)
    if least:
        return " and ".join(f"{levels[name]} above {reason.least}" for name, reason in least.items())
    budget = ("a larger --budget",) if scenario.objectives.budget_usd_per_hour is not None else ()
    owned = ("more --own",) if scenario.constraints.own else ()
    given = tuple(f"no {option}" for option, _ in stated_limits(scenario.constraints))
    return ", or ".join((f"longer {' or '.join(levels.values())}", *budget, *owned, *given))


def _nothing(done: Search, fix: str, window_note: str) -> NoAnswerError:
    """Return the error of a question without an answer, with its most common reasons and how its requests were cut to
    the model's window; accelerators that are described only, or not for sale, count last."""
    scenario = done.scenario
    model = done.model
    reasons = done.race.reasons.values()
    common = most_common(done.race.reasons, is_sold=bool(done.offers))
    named = scenario.constraints.accelerators
    is_unsold = bool(named) and all(isinstance(reason, NotForSale) for reason in reasons)
    is_refused = bool(reasons) and all(isinstance(reason, _REFUSALS) for reason in reasons)
    nearest = next((reason.nearest for reason, _ in common if isinstance(reason, NoKernels)), "")
    other = f"--precision {nearest}, or another" if nearest else "another"
    within = "" if is_refused else f" within {scenario.objectives.words}"
    is_sold = bool(done.offers) or bool(scenario.constraints.own)
    loosen = _limits_to_loosen(scenario, reasons, is_sold=is_sold)
    is_too_large = bool(reasons) and all(isinstance(reason, TooFewOwned) for reason in reasons)
    in_host = main_memory_hint(scenario, model) if is_too_large else ""
    if is_too_large:
        loosen = "a smaller --model or --precision, or more --own"
    return NoAnswerError(
        f"nothing serves {model.id}{within} under these constraints",
        why="; ".join(filter(None, (*(words for _, words in common), explain_alone(scenario)))),
        fix=fix or (f"{other} --engine, --gpu or --model" if is_refused else loosen),
        hint=f"--own 1x{named[0]} instead of --gpu plans on hardware that you have"
        if is_unsold
        else in_host
        or window_note
        or ("" if done.offers else placeless_note(scenario.constraints, scenario.as_of)),
        reasons=tuple(reason for reason, _ in common),
    )
