"""What is shown is held to more runs than the search spent: its capacity settled, its planning point simulated."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from advisor.catalog import engines as engine_catalog
from advisor.catalog.schema import Engine
from advisor.decide.capacity import (
    CONFIRM_REQUESTS,
    NUM_SEEDS,
    RESIDENCES,
    Capacity,
    confirm,
    run_length,
    scaled,
    seeds_of,
)
from advisor.decide.effort import affords, is_spent
from advisor.decide.load_runs import Served, percentile_s, run_at, strain
from advisor.decide.purchase import Demand, cheapest_purchase, planned_load, replicas_for
from advisor.decide.ranking import SAMPLING_SIGMA, Planned, planned, plans_of, preferred, ranked
from advisor.decide.scenario import Objectives, Scenario, Traffic
from advisor.decide.screening import Found, Searched, Settled
from advisor.decide.search import UNDERRATED, search_again
from advisor.simulator.serving import ServingResult
from advisor.simulator.serving.metrics import pooled

_SHOWN_REQUESTS: Final = 1200
"""Of a run whose figures are shown, at least."""
_MOST_SHOWN: Final = 4800
"""The same at most, unless they are needed to fill the replica."""
_SAMPLING_ERROR: Final = 0.05
_OVERRATED: Final = 0.85
"""Times what few short runs find that a capacity may be at the least."""
_STEP: Final = 0.93
_MOST_STEPS: Final = 5
_LEAST_RUNS: Final = 3
"""Of a deployment that is settled and shown, of a confirming length each."""
_DECIDING_REQUESTS: Final = 4 * CONFIRM_REQUESTS
"""Least requests of each run at a load that tells whether one replica fewer is enough: half the error."""
_UNSURE: Final = 2.0 * SAMPLING_SIGMA
_AS_SAFE: Final = 1.0 + 2.0 * SAMPLING_SIGMA
"""Times what the cheapest deployment that is safe to take is expected to cost, which another may: capacities err so."""
_DEARER: Final = 1.0 + _UNSURE
"""Times what the search promised from which on what it left out is looked at again."""
_MOST_TRIED: Final = 3
"""Deployments of one accelerator that are settled because another cost more than it promised."""


Anew = Callable[[Sequence[Found], Found | None], Sequence[Planned]]
"""What else an accelerator carries a demand with than what was tried, for less than the best of that."""


def engines_for(scenario: Scenario) -> tuple[Engine, ...]:
    """Those that a scenario allows."""
    wanted = scenario.constraints.engines
    return tuple(engine for engine in engine_catalog.all_engines() if not wanted or engine.id in wanted)


def leaders(done: Searched, demands: Sequence[Demand], place: int, competing: int, top: int) -> list[Planned]:
    """The best deployments for one of the demands, one per accelerator, settled, of so many that compete."""
    order = _order(done, demands, place, competing)
    return leading(done.scenario, order, done.settled, top, partial(_anew, done, demands[place]))


def _order(done: Searched, demands: Sequence[Demand], place: int, top: int) -> list[Planned]:
    """The best accelerators for one demand, each with the deployment that is expected to cost least, best first; among
    the first `top` one that is as safe to take, and costs as little, as any; last what else each of them carries it
    with, by what a load costs.
    """
    scenario, demand = done.scenario, demands[place]
    order, safe, others = list[Planned](), list[Planned](), list[Planned]()

    def usd_per_load(plan: Planned) -> float:
        return plan.found.purchase.placement.usd_per_replica_hour / plan.found.capacity.load

    for options in done.ranked(len(done.outcome.found), place):
        able = [plan for found in options for plan in plans_of(scenario, demand, found, place)]
        best = preferred(able)
        order.append(best)
        apart = defaultdict[int, list[Planned]](list)
        for plan in able:
            apart[id(plan.found.candidate)].append(plan)
        del apart[id(best.found.candidate)]
        others += map(preferred, apart.values())
        safe += [plan for plan in able if plan.is_founded]
    order = ranked(order)
    safest = min(safe, key=lambda plan: plan.expected_cost, default=None)
    if safest is not None and not any(
        plan.is_founded and plan.expected_cost <= _AS_SAFE * safest.expected_cost for plan in order[:top]
    ):
        rest = [plan for plan in order if plan.found.accelerator_id != safest.found.accelerator_id]
        order = ranked([*rest, safest])
        if safest not in order[:top]:
            order.remove(safest)
            order.insert(top - 1, safest)
    return [*order, *sorted(others, key=usd_per_load)]


def _anew(done: Searched, demand: Demand, without: Sequence[Found], best: Found | None) -> list[Planned]:
    """What else carries a demand on an accelerator for less than the best of what was settled there: the search had
    left out what promised no less than it then found.
    """
    scenario, name = _asking(done.scenario, demand), without[0].accelerator_id
    if best is not None:  # wherever it is cheapest
        able = best.capacity
        bought = cheapest_purchase(scenario, demand, best.ways, able.load, able.requests_per_s)
        best = replace(best, purchases=(bought,))
    before, tried = done.outcome, [found.candidate for found in without]
    if done.scenario.ladder_per_s:  # what is held to one of several loads says little of the others
        before = replace(before, entries=dict(before.entries))
    outcome = search_again(scenario, before, name, tried, best)
    return [
        plan
        for found in outcome.found[name]
        if best is None or found.candidate is not best.candidate
        for plan in plans_of(scenario, demand, found, 0)
    ]


def _asking(scenario: Scenario, demand: Demand) -> Scenario:
    """The question about that demand alone."""
    if demand.kind != "rate":
        return scenario
    traffic = scenario.traffic.model_copy(update={"rate_per_s": demand.size})
    return scenario.model_copy(update={"traffic": traffic, "ladder_per_s": ()})


def leading(
    scenario: Scenario,
    order: Sequence[Planned],
    known: Settled,
    top: int,
    anew: Anew = lambda without, best: (),
) -> list[Planned]:
    """The first of a ranking with what they show at their planning points, ranked again where that changed them; one
    that is safe to take stays among them.

    Held to the same runs are others, also on the same accelerator, that the search may have kept out by its own error:
    where few replicas carry the load, one more of them is a large step. `anew` looks for them where one costs more than
    it promised.
    """
    held: dict[str, Planned] = {}
    for plan in order:
        name = plan.found.accelerator_id
        own = held.get(name)
        if (own or len(held) >= top) and (is_spent() or not _may_enter(scenario, plan, own, held.values())):
            continue
        settled = None if scenario.screened_only else _as_promised(scenario, plan, known, anew)
        if settled is None and (scenario.screened_only or is_spent()):
            settled = screened(scenario, plan)
        if settled is not None:
            held[name] = preferred([own, settled]) if own else settled
    best = ranked(list(held.values()))
    if not any(plan.is_founded for plan in best[:top]):
        safe = next((plan for plan in best[top:] if plan.is_founded), None)
        return [*best[: top - 1], safe] if safe else best[:top]
    return best[:top]


def _as_promised(scenario: Scenario, plan: Planned, known: Settled, anew: Anew) -> Planned | None:
    """The deployment settled; where it costs more than it promised, or cannot be had, the best of its accelerator with
    what was left out for it."""
    tried, best, promise = list[Found](), None, math.inf
    for _ in range(_MOST_TRIED):
        settled = confirmed(scenario, plan, known)
        tried.append(plan.found)
        promise = min(promise, _DEARER * plan.found.purchase.cost)
        best = preferred([each for each in (best, settled) if each]) if best or settled else None
        if (best and best.found.purchase.cost <= promise) or is_spent():
            break
        others = anew(tried, best.found if best else None)
        if not others:
            break
        plan = preferred(others)
    return best


def _may_enter(scenario: Scenario, plan: Planned, own: Planned | None, held: Iterable[Planned]) -> bool:
    """Whether a deployment that carries more than the search found would be among those held, or, where its accelerator
    is, need fewer of it."""
    if scenario.screened_only or plan.found.fleet is not None or not _steps(scenario, plan):
        return False
    better = _with_capacity(scenario, plan, scaled(plan.found.capacity, UNDERRATED))
    if better is None:
        return False
    if own is not None:
        return _num_accelerators(better) < _num_accelerators(own)
    return better.expected_cost < max(each.expected_cost for each in held)


def _num_accelerators(plan: Planned) -> int:
    return plan.found.purchase.num_replicas * plan.found.candidate.deployment.accelerators_per_replica


def _steps(scenario: Scenario, plan: Planned) -> bool:
    """Whether a load is given that so few replicas carry that one more costs more than the error of a capacity."""
    if plan.demand.kind != "rate" or scenario.ladder_per_s:
        return False
    return _UNSURE * replicas_for(plan.demand.size, planned_load(scenario, plan.found.capacity.load)) <= 1.0


def confirmed(scenario: Scenario, plan: Planned, known: Settled) -> Planned | None:
    """The deployment with its capacity settled, and what it shows at its planning point, held to its objectives with
    seeds that decided nothing; with less load per replica where it misses them; None where that cannot be bought, or no
    more may be simulated.
    """
    settled: Planned | None = plan
    if not affords(plan.result, _LEAST_RUNS * CONFIRM_REQUESTS):
        return None
    if _is_open(scenario, plan):
        key = id(plan.found.candidate)
        if key not in known.capacities:
            known.capacities[key] = _settled(scenario, plan, known.seeds)
        capacity = known.capacities[key]
        settled = None if capacity is None else _with_capacity(scenario, plan, capacity)
    for _ in range(_MOST_STEPS):
        if settled is None:
            return None
        place = id(settled.found.candidate), settled.load
        if place in known.shown:
            at_point = _showing(settled, known.shown[place])
        else:
            at_point = shown(scenario, settled)
            known.shown[place] = at_point.result
        if strain(at_point.result, scenario.objectives)[0] <= 1.0:
            return at_point
        settled = _with_capacity(scenario, settled, scaled(settled.found.capacity, _STEP))
    return None


def _settled(scenario: Scenario, plan: Planned, seeds: list[int]) -> Capacity | None:
    """The capacity by more runs than the search had; where it is near a load at which one replica more, or one fewer,
    is needed, that load is decided by longer ones."""
    found, traffic, objectives = plan.found, scenario.traffic, scenario.objectives
    settle = partial(
        confirm, found.served, traffic, objectives, seed=scenario.seed, purpose="settle", order=seeds
    )
    most = UNDERRATED * found.capacity.load
    if traffic.concurrency is not None:
        most = float(math.floor(most))
    capacity = settle(found=replace(found.capacity, load=most))
    if capacity is None or not _steps(scenario, plan):
        return capacity
    long = partial(settle, num_requests=_DECIDING_REQUESTS)
    needed = replicas_for(plan.demand.size, planned_load(scenario, capacity.load))
    for count in range(needed, max(needed - 2, 0), -1):
        load = plan.demand.size / count / (1.0 - scenario.headroom_fraction)
        if abs(math.log(capacity.load / load)) > _UNSURE:
            continue
        aim = replace(capacity, load=load, requests_per_s=load)
        held = long(found=aim, least=load)
        if held is None:
            return long(found=aim) if count == needed else capacity
        capacity = max(capacity, held, key=lambda each: each.load)
    return capacity


def screened(scenario: Scenario, plan: Planned) -> Planned:
    """The deployment with what one run of a confirming length shows at its planning point, held to nothing; as the
    search left it, at full load, where no more may be simulated."""
    if not affords(plan.result, CONFIRM_REQUESTS):
        return plan
    seed, *_ = seeds_of(scenario.seed, "show")
    found, traffic = plan.found, scenario.traffic
    run = run_at(found.served, traffic, plan.load, CONFIRM_REQUESTS, seed, spacing_s=found.capacity.spacing_s)
    return _showing(plan, run)


def shown(scenario: Scenario, plan: Planned, *, most_runs: int = 0) -> Planned:
    """The deployment with what it shows at its planning point, by at most so many runs where conversations would ask
    for more. Source: recommend.capacity."""
    return _showing(plan, _at(scenario, plan.found, plan.load, most_runs))


def at_planned_load(scenario: Scenario, found: Found) -> Found:
    """The deployment as if its planned load were the most that it carries, with what it shows there."""
    part = planned_load(scenario, found.capacity.load) / found.capacity.load
    capacity = scaled(found.capacity, part)
    return replace(found, capacity=replace(capacity, result=_at(scenario, found, capacity.load)))


def _at(scenario: Scenario, found: Found, load: float, most_runs: int = 0) -> ServingResult:
    return planning_point(
        found.served,
        scenario.traffic,
        scenario.objectives,
        load,
        scenario.seed,
        spacing_s=found.capacity.spacing_s,
        most_runs=most_runs,
    )


def planning_point(
    replica: Served,
    traffic: Traffic,
    objectives: Objectives,
    load: float,
    seed: int,
    *,
    spacing_s: float,
    most_runs: int = 0,
) -> ServingResult:
    """What one replica shows at the load that it is planned for: runs of seeds that the search did not use, enough for
    percentiles with a sampling error below a twentieth. Clients begin `spacing_s` apart.

    Longer ones, but where conversations last as long as a run: more of it brings the same ones, another seed others, up
    to `most_runs` where they are given.
    """
    length, seeds, runs = _SHOWN_REQUESTS, list(seeds_of(seed, "show")), list[ServingResult]()
    most = _MOST_SHOWN * len(seeds)
    while True:
        run = partial(run_at, replica, traffic, load, length, spacing_s=spacing_s)
        runs += [run(each) for each in seeds[len(runs) :] if not (runs and is_spent())]
        needed = run_length(RESIDENCES * load * runs[0].e2e.mean_s) if traffic.concurrency is None else 0
        enough = length * len(runs) >= most or sampling_error(runs, objectives) < _SAMPLING_ERROR
        others = length >= needed and traffic.conversations is not None
        if is_spent() or (length >= needed and enough) or (others and 0 < most_runs <= len(runs)):
            return pooled(runs)
        if others:
            seeds += range(seeds[-1] + 1, seeds[-1] + 1 + NUM_SEEDS["show"])
        else:
            length, runs = min(max(needed, 2 * length), max(needed, _MOST_SHOWN)), []


def sampling_error(runs: Sequence[ServingResult], objectives: Objectives) -> float:
    """Relative standard error of the mean over runs of the percentiles that have an objective, the largest.

    Source: definition of the standard error, over runs of different seeds.
    """
    errors = [0.0]
    for level in objectives.levels:
        values = np.array([percentile_s(run, level) for run in runs])
        if len(values) > 1 and np.isfinite(values).all() and values.mean() > 0:
            errors.append(float(values.std(ddof=1) / values.mean() / math.sqrt(len(values))))
    return max(errors)


def _showing(plan: Planned, result: ServingResult) -> Planned:
    """The deployment with a run of it; clients are served as fast as they are there, which decides what tokens cost."""
    if plan.demand.kind != "clients":
        return replace(plan, result=result)
    bought = plan.found.purchase
    per_s = plan.demand.size / plan.load * (result.steady_requests_per_s or result.requests_per_s)
    ratio = bought.requests_per_s / per_s
    paid = replace(
        bought,
        requests_per_s=per_s,
        usd_per_million_tokens=ratio * bought.usd_per_million_tokens,
        cost=ratio * bought.cost,
    )
    found = replace(plan.found, purchases=(paid,))
    return replace(plan, found=found, expected_cost=ratio * plan.expected_cost, result=result)


def _is_open(scenario: Scenario, plan: Planned) -> bool:
    """Whether the answer depends on the exact capacity: not where a little more or less needs as many replicas."""
    if plan.found.fleet is not None:
        return False  # what is made of parts was settled as it was sized
    if plan.demand.kind not in ("rate", "clients"):
        return True
    ways, counts = (plan.found.purchase.placement,), set()
    for factor in (_OVERRATED, UNDERRATED):
        capacity = scaled(plan.found.capacity, factor)
        bought = cheapest_purchase(scenario, plan.demand, ways, capacity.load, capacity.requests_per_s)
        counts.add(bought.num_replicas if bought else 0)
    return len(counts) > 1


def _with_capacity(scenario: Scenario, plan: Planned, capacity: Capacity) -> Planned | None:
    """The same deployment with another capacity, bought anew; None where that cannot be had."""
    ways = (plan.found.purchase.placement,)
    bought = cheapest_purchase(scenario, plan.demand, ways, capacity.load, capacity.requests_per_s)
    if bought is None:
        return None
    return planned(scenario, plan.demand, replace(plan.found, capacity=capacity, purchases=(bought,)))
