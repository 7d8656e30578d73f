"""What would make it cheaper: levers pulled on the deployments that an answer shows, each simulated like the answer."""

from collections.abc import Sequence
from dataclasses import replace

from advisor.catalog.errors import AdvisorError
from advisor.recommend.bounds import surface_requests_per_s
from advisor.recommend.capacity import Capacity, confirm, highest_load
from advisor.recommend.levers import Lever, lever_note, replica_of, to_try, with_lever
from advisor.recommend.load_runs import is_spent, strain
from advisor.recommend.purchase import cheapest_purchase
from advisor.recommend.ranking import Planned, planned
from advisor.recommend.result import BeforeAfter, LeverTrial
from advisor.recommend.scenario import Scenario
from advisor.recommend.screening import Found
from advisor.recommend.settling import shown
from advisor.simulator.replica_model import ReplicaModel

LESS = 0.97
"""Cost over cost before from which on a change is called cheaper: a capacity is known within a twentieth."""
_FASTER = 0.9
"""The same of a time that 99 % keep, where the cost stays."""


def tried_levers(scenario: Scenario, plans: Sequence[tuple[int, Planned]]) -> tuple[LeverTrial, ...]:
    """Each lever that may be tried on each of the ranked deployments, best first; those that gain nothing last."""
    trials = [
        _tried(scenario, rank, plan, one)
        for rank, plan in plans
        for one in to_try(scenario, plan.found.candidate)
        if not is_spent()
    ]
    order = ("cheaper", "faster", "no gain", "refused")
    return tuple(sorted(trials, key=lambda trial: (order.index(trial.verdict), trial.gain)))


def _tried(scenario: Scenario, rank: int, plan: Planned, one: Lever) -> LeverTrial:
    """One lever on one deployment, which carries the same demand."""
    trial = LeverTrial(one.name, one.words, rank, plan.found.accelerator_id, "no gain", one.costs_quality, "")
    try:
        candidate = with_lever(plan.found.candidate, one, scenario)
        replica = replica_of(candidate, scenario, plan.found.replica.library)
    except AdvisorError as error:
        return replace(trial, verdict="refused", note=error.why or error.what)
    after = carried(scenario, plan, replace(plan.found, candidate=candidate, replica=replica))
    if after is None:
        return replace(trial, note="misses the objectives at this load")
    cost = BeforeAfter(plan.found.usd_per_million_tokens, after.found.usd_per_million_tokens)
    tpot = BeforeAfter(*(each.result.tpot.percentile_s(99) for each in (plan, after)))
    # It must also pay where the fewest guesses are accepted that are likely.
    worst = candidate.speculation.time_factors[1] if candidate.speculation and cost.ratio != 1.0 else 1.0
    saves, is_faster = cost.ratio * worst <= LESS, cost.ratio <= 1.0 and tpot.ratio <= _FASTER
    return replace(
        trial,
        verdict="cheaper" if saves else "faster" if is_faster else "no gain",
        note=lever_note(one, candidate),
        usd_per_million_tokens=cost,
        usd_per_hour=BeforeAfter(plan.found.purchase.usd_per_hour, after.found.purchase.usd_per_hour),
        ttft_p99_s=BeforeAfter(*(each.result.ttft.percentile_s(99) for each in (plan, after))),
        tpot_p99_s=tpot,
    )


def carried(scenario: Scenario, plan: Planned, found: Found) -> Planned | None:
    """A changed deployment, or objective, with what it shows bought for the demand; None where it does not hold."""
    if plan.demand.kind == "rate" and found.purchase.num_replicas == 1:
        at_point = shown(scenario, replace(plan, found=found))  # nothing can be saved; it may be faster
        return at_point if strain(at_point.result, scenario.objectives)[0] <= 1.0 else None
    capacity = capacity_of(scenario, found.replica)
    if capacity is None:
        return None
    way = found.purchase.placement
    bought = cheapest_purchase(scenario, plan.demand, (way,), capacity.load, capacity.requests_per_s)
    if bought is None:
        return None
    return shown(
        scenario, planned(scenario, plan.demand, replace(found, capacity=capacity, purchases=(bought,)))
    )


def capacity_of(scenario: Scenario, replica: ReplicaModel) -> Capacity | None:
    """The highest load that a replica holds within the objectives of a scenario; None where it holds none."""
    traffic, objectives, seed = scenario.traffic, scenario.objectives, scenario.seed
    bound = surface_requests_per_s(replica, traffic, objectives)
    if bound <= 0:
        return None
    free = scenario.headroom_fraction
    found = highest_load(replica, traffic, objectives, bound_per_s=bound, seed=seed, headroom_fraction=free)
    return None if found is None else confirm(replica, traffic, objectives, found, seed)
