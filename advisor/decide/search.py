"""Best-first search: tighten the most promising bound until no bound left can beat what was simulated."""

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from advisor.catalog.errors import AdvisorError
from advisor.decide.bounds import surface_requests_per_s, too_long_a_prompt
from advisor.decide.candidates import Candidate
from advisor.decide.capacity import (
    TOLERANCE,
    VARIANT_TOLERANCE,
    Capacity,
    confirm,
    highest_load,
    scaled,
    usually_held,
)
from advisor.decide.effort import is_spent
from advisor.decide.levers import replica_of
from advisor.decide.purchase import cheapest_purchase, least_costs, planned_load, replicas_for
from advisor.decide.ranking import firm_ways
from advisor.decide.reason import MissesObjectives, NotSupported, NotTried, SlowAlone
from advisor.decide.scenario import Scenario
from advisor.decide.screening import (
    Entry,
    Found,
    Question,
    SearchOutcome,
    costs_at,
    not_to_be_had,
    priced,
    screened_again,
)
from advisor.simulator.operator_library import OperatorLibrary

Progress = Callable[[str], None]
UNDERRATED: Final = 1.15
"""Times what few short runs find that a capacity may be."""
_LEAST_HELD = 0.1
"""Part of a bound, or of an estimate, that simulated runs have always held."""
_PART = 0.01
"""How closely that part is known from which on a candidate changes an answer."""


def search(
    question: Question,
    entries: list[Entry],
    outcome: SearchOutcome,
    *,
    progress: Progress = lambda message: None,
    exhaustive: bool = False,
    layouts: bool = True,
) -> SearchOutcome:
    """Rank accelerators by dollars per million tokens, simulating only candidates whose bound could still win.

    A heap holds every candidate at its optimistic cost. The cheapest is tightened: from the roofline to the step-cost
    surface, to an estimate by short simulated runs, to a long confirming run. The search ends when the next bound is
    dearer than the `top`-th best confirmed accelerator. `exhaustive` confirms everything (to check the search);
    of a scenario that is screened only nothing: what long runs usually hold of an estimate stands for them. Unless
    `layouts`, no layout is confirmed to be shown beside a better one of the same accelerator and weight format.

    Source: best-first branch and bound; own formulation.
    """
    heap = list(entries)
    heapq.heapify(heap)
    libraries: dict[tuple[str, str, str], OperatorLibrary] = {}
    while heap and not is_spent():
        entry = heapq.heappop(heap)
        if not exhaustive and not _can_win(question, outcome, entry):
            name = entry.candidate.deployment.accelerator.id
            if not outcome.found.get(name):
                outcome.bounds.setdefault(name, entry.bounds[-1])
            continue
        if entry.replica is None:
            tighten(question, entry, libraries, outcome, heap)
        elif entry.capacity is None:
            deployment = entry.candidate.deployment
            size, name = deployment.accelerators_per_replica, deployment.accelerator.id
            progress(f"simulating {deployment.model.id} on {size} x {name} ({deployment.engine.id})")
            estimate(question, entry, outcome, heap, exhaustive=exhaustive)
        elif entry.held is not None:
            _found(question, entry, entry.held, outcome)
        else:
            _confirm(question, entry, outcome, heap, exhaustive=exhaustive, layouts=layouts)
    _end(question, outcome, heap)
    return outcome


def search_again(
    scenario: Scenario, before: SearchOutcome, name: str, without: Sequence[Candidate], best: Found | None
) -> SearchOutcome:
    """What else answers a scenario on an accelerator, as far as an earlier search of the same traffic left it open.

    Candidates `without` are left out; `best` is one that was found, which others must beat.
    """
    tried = set(map(id, without))
    outcome = SearchOutcome(hard_seeds=before.hard_seeds, entries=before.entries)
    outcome.found[name] += [best] if best else []
    known = [
        entry
        for entry in before.entries.values()
        if entry.candidate.deployment.accelerator.id == name and id(entry.candidate) not in tried
    ]
    return search(*screened_again(scenario, known), outcome)


def _end(question: Question, outcome: SearchOutcome, heap: list[Entry]) -> None:
    """What is left when no more may be simulated was not tried; where nothing is confirmed, short runs must do."""
    estimated = [] if outcome.found else [entry for entry in heap if entry.capacity is not None]
    for entry in estimated:
        assert entry.capacity is not None
        if (found := priced(question, entry, usually_held(entry.capacity))) is not None:
            outcome.found[found.accelerator_id].append(found)
    for entry in heap:
        name = entry.candidate.deployment.accelerator.id
        if _can_win(question, outcome, entry):
            outcome.reasons[name] = NotTried()
            outcome.bounds.pop(name, None)
        elif name not in outcome.reasons and not outcome.found.get(name):
            outcome.bounds.setdefault(name, entry.bounds[-1])


def tighten(
    question: Question,
    entry: Entry,
    libraries: dict[tuple[str, str, str], OperatorLibrary],
    outcome: SearchOutcome,
    heap: list[Entry],
) -> None:
    """Put a candidate back with its replica, at the cost that its step-cost surface bounds."""
    scenario, deployment = question.scenario, entry.candidate.deployment
    chip = deployment.accelerator
    # What an engine's release does to kernels depends on how experts are divided.
    experts = deployment.expert_tensor_parallel, deployment.expert_parallel
    key = (f"{chip.id} {chip.tdp_w}", deployment.engine.id, f"{deployment.weight_dtype} {experts}")
    outcome.entries.pop(entry.order, None)
    try:
        replica = replica_of(entry.candidate, scenario, libraries.get(key))
        libraries.setdefault(key, replica.library)
    except AdvisorError as error:
        outcome.reasons.setdefault(deployment.accelerator.id, NotSupported(error.why or error.what))
        return
    outcome.num_modelled += 1
    if why := too_long_a_prompt(replica, scenario.traffic, scenario.objectives):
        outcome.reasons.setdefault(chip.id, why)
        return
    rate = min(entry.rate_bound, surface_requests_per_s(replica, scenario.traffic, scenario.objectives))
    if rate <= 0:
        outcome.reasons.setdefault(deployment.accelerator.id, SlowAlone())
        return
    costs = least_costs(scenario, question.demands, entry.ways, rate)
    if min(costs) == math.inf:
        outcome.reasons.setdefault(deployment.accelerator.id, not_to_be_had(scenario))
        return
    tightened = replace(
        entry, promise=question.promise(costs), bounds=costs, rate_bound=rate, replica=replica
    )
    _put_back(outcome, heap, tightened)


def _put_back(outcome: SearchOutcome, heap: list[Entry], entry: Entry) -> None:
    outcome.entries[entry.order] = entry
    heapq.heappush(heap, entry)


def estimate(
    question: Question, entry: Entry, outcome: SearchOutcome, heap: list[Entry], *, exhaustive: bool
) -> None:
    """Find the highest load by short runs and put the candidate back at the cost that this gives."""
    assert entry.replica is not None
    scenario, name = question.scenario, entry.candidate.deployment.accelerator.id
    least = 0.0
    if not exhaustive and question.demands[-1].kind == "rate":
        least = _least_load(question, outcome, entry, entry.rate_bound, entry.rate_bound)
    capacity = highest_load(
        entry.replica,
        scenario.traffic,
        scenario.objectives,
        bound_per_s=entry.rate_bound,
        seed=scenario.seed,
        least=least,
        headroom_fraction=scenario.headroom_fraction,
    )
    outcome.num_simulated += 1
    if capacity is None and is_spent():
        heapq.heappush(heap, entry)
        return
    if capacity is None and least:
        outcome.bounds.setdefault(name, entry.bounds[-1])
        return
    if capacity is None:
        outcome.entries.pop(entry.order, None)
        outcome.reasons.setdefault(name, MissesObjectives())
        return
    outcome.num_requests += capacity.num_requests
    found = priced(question, entry, capacity)
    if found is None:
        outcome.reasons.setdefault(name, not_to_be_had(scenario))
        return
    outcome.estimated[name].append(found)
    costs = tuple(found.cost(demand) for demand in range(len(question.demands)))
    estimated = replace(entry, promise=question.promise(costs), bounds=costs, capacity=capacity)
    _put_back(outcome, heap, estimated)


def _confirm(
    question: Question,
    entry: Entry,
    outcome: SearchOutcome,
    heap: list[Entry],
    *,
    exhaustive: bool,
    layouts: bool,
) -> None:
    """Hold a candidate to long runs at the load that it will carry, headroom included."""
    assert entry.replica is not None
    assert entry.capacity is not None
    scenario, name = question.scenario, entry.candidate.deployment.accelerator.id
    aim = replace(entry.capacity, load=_load_per_replica(question, entry.capacity))
    own = outcome.found.get(name)
    given = (
        len(question.demands) == 1 and question.demands[0].kind == "rate"
    )  # its share is tried first, and once
    least = 0.0
    if not exhaustive and not given:
        least = _least_load(question, outcome, entry, aim.load, aim.requests_per_s)
    hold = partial(
        confirm,
        entry.replica,
        scenario.traffic,
        scenario.objectives,
        seed=scenario.seed,
        order=outcome.hard_seeds,
        estimate=entry.capacity.load,
    )
    capacity = usually_held(entry.capacity) if question.scenario.screened_only else hold(aim, least=least)
    shown = own and (layouts or _weight_dtype(entry) != _weight_dtype(own[0]))
    if capacity is None and shown and least and question.demands[-1].kind in ("unit", "budget"):
        # Not better than what the accelerator already offers: shown beside it, found with less care.
        capacity = hold(replace(aim, load=least), tolerance=VARIANT_TOLERANCE)
    if capacity is None and is_spent():
        heapq.heappush(heap, entry)
        return
    if capacity is None:
        _drop(outcome, entry)
        if least:
            outcome.bounds.setdefault(name, entry.bounds[-1])
        else:
            outcome.entries.pop(entry.order, None)
            outcome.reasons.setdefault(name, MissesObjectives(in_long_run=True))
        return
    outcome.entries[entry.order] = replace(entry, held=capacity)
    outcome.num_requests += capacity.num_requests - entry.capacity.num_requests
    _found(question, entry, capacity, outcome)


def _found(question: Question, entry: Entry, held: Capacity, outcome: SearchOutcome) -> None:
    """Take note of a candidate that long runs have confirmed."""
    name = entry.candidate.deployment.accelerator.id
    found = priced(question, entry, held)
    if found is None and not question.scenario.screened_only:
        # settling will tell whether money or units are enough
        found = priced(question, entry, scaled(held, UNDERRATED))
    if found is None:
        outcome.reasons.setdefault(name, not_to_be_had(question.scenario))
        return
    _drop(outcome, entry)
    outcome.found[name].append(found)
    outcome.found[name].sort(key=lambda option: option.purchase.cost)


def _weight_dtype(of: Entry | Found) -> str:
    return of.candidate.deployment.weight_dtype


def _least_load(
    question: Question, outcome: SearchOutcome, entry: Entry, load: float, requests_per_s: float
) -> float:
    """The load of one replica below which a candidate cannot change any answer; zero where it might at any load, and
    where the load is a number of clients."""
    if question.demands[0].kind == "clients":
        return 0.0
    firm = firm_ways(question.scenario, entry.ways)
    limits = _limits(question, outcome, entry), _firm_limits(question, outcome, entry)

    def wins(part: float) -> bool:
        per_s = part * requests_per_s
        for ways, least in zip((entry.ways, firm), limits, strict=True):
            for demand, limit in zip(question.demands, least, strict=True):
                bought = cheapest_purchase(question.scenario, demand, ways, part * load, per_s)
                if bought and bought.cost < limit:
                    return True
        return False

    if wins(_LEAST_HELD):
        return 0.0
    low, high = _LEAST_HELD, 1.0
    while high - low > _PART:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if wins(middle) else (middle, high)
    return high * load


def _drop(outcome: SearchOutcome, entry: Entry) -> None:
    """Forget the estimate of a candidate that a long run has judged."""
    name = entry.candidate.deployment.accelerator.id
    estimated = outcome.estimated[name]
    outcome.estimated[name] = [found for found in estimated if found.candidate is not entry.candidate]


def _load_per_replica(question: Question, capacity: Capacity) -> float:
    """What one replica is tried at: its share of the only load that is asked for with its headroom, and as much more as
    a long run may hold less than it was tried at; or the most that it can."""
    scenario, demand = question.scenario, question.demands[-1]
    if len(question.demands) > 1 or demand.kind not in ("rate", "clients"):
        return capacity.load
    share = demand.size / replicas_for(demand.size, planned_load(scenario, capacity.load))
    needed = share / (1.0 - scenario.headroom_fraction)
    if demand.kind == "clients":
        return min(capacity.load, math.ceil(needed))
    return min(capacity.load, needed / (1.0 - TOLERANCE))


def _can_win(question: Question, outcome: SearchOutcome, entry: Entry) -> bool:
    """Whether a candidate can change the answer to any demand: improve its own accelerator's best, where that is among
    the best accelerators or the candidate enters them, or improve what that accelerator costs at firm prices, which
    may head the list instead: another seller's units can make another layout the cheapest."""
    limits = zip(entry.bounds, _limits(question, outcome, entry), strict=True)
    if any(bound <= limit and bound < math.inf for bound, limit in limits):
        return True
    dearest = _firm_limits(question, outcome, entry)
    if max(dearest) <= 0.0:
        return False
    firm = firm_ways(question.scenario, entry.ways)
    if entry.capacity is None:
        costs = least_costs(question.scenario, question.demands, firm, entry.rate_bound)
    else:
        costs = costs_at(question, firm, entry.capacity)
    return any(cost < limit and cost < math.inf for cost, limit in zip(costs, dearest, strict=True))


def _limits(question: Question, outcome: SearchOutcome, entry: Entry) -> list[float]:
    """Cost of each demand that a candidate must not exceed: its accelerator's best, that of the last shown."""
    own = outcome.found.get(entry.candidate.deployment.accelerator.id, ())
    return [
        min(_cost_of_last(question, outcome, demand), *(found.cost(demand) for found in own), math.inf)
        for demand in range(len(question.demands))
    ]


def _firm_limits(question: Question, outcome: SearchOutcome, entry: Entry) -> list[float]:
    """The same at firm prices, of an accelerator that is shown and costs less at another price; else zero."""
    own = outcome.found.get(entry.candidate.deployment.accelerator.id, ())
    costs = [costs_at(question, firm_ways(question.scenario, found.ways), found.capacity) for found in own]
    limits = []
    for demand in range(len(question.demands)):
        least = min((found.cost(demand) for found in own), default=math.inf)
        firm = min((cost[demand] for cost in costs), default=math.inf)
        is_shown = least <= _cost_of_last(question, outcome, demand)
        limits.append(firm if is_shown and least < firm < math.inf else 0.0)
    return limits


def _cost_of_last(question: Question, outcome: SearchOutcome, demand: int) -> float:
    """Cost of the last of a demand's best accelerators [USD per million tokens]; infinite while there are fewer."""
    best = sorted(
        min(found.cost(demand) for found in options) for options in outcome.found.values() if options
    )
    wanted = question.wanted(demand)
    return best[wanted - 1] if len(best) >= wanted else math.inf
