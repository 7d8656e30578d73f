"""Changes that would make the first option cheaper or put another first: levers and looser objectives, each
simulated like the answer; the certainty of the order, and the prices at which it changes.
"""

import contextlib
import math
from collections.abc import Sequence
from dataclasses import replace

from advisor.catalog import models
from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.published import served_model
from advisor.catalog.units import plain_number
from advisor.decide.bounds import surface_requests_per_s
from advisor.decide.candidates import Candidate, cache_format, fit_memory, usable_precisions
from advisor.decide.decision import BeforeAfter, Change, Comparison
from advisor.decide.drawn_power import power_of
from advisor.decide.effort import is_spent
from advisor.decide.levers import (
    Lever,
    asked_levers,
    lever_note,
    replica_of,
    to_try,
    under_limits,
    with_lever,
)
from advisor.decide.load_runs import percentile_s, strain
from advisor.decide.measure import LEAST_SHOWN, SIGMA, Capacity, Measurements
from advisor.decide.offers import OWN, ROUNDING, Placement, offers_under_limit, placements
from advisor.decide.option import Option
from advisor.decide.power import NAME, rate_factors
from advisor.decide.race import RIVAL_SIGMAS, run_planning_point
from advisor.decide.ranking import (
    CHEAPER_IF_BELOW,
    EQUAL_FACTOR,
    Planned,
    buy_at_capacity,
    chance_cheaper,
    log_error,
)
from advisor.decide.scenario import Objectives, Scenario, ServiceLevel
from advisor.decide.trial import Found
from advisor.simulator.deployment import activation_dtype_of
from advisor.simulator.intervals import pair_class
from advisor.simulator.quantity import Quantity, weakest
from advisor.simulator.replica_model import ReplicaModel

_MISSES = "misses the objectives at this load"
_TRIAL_RUNS = LEAST_SHOWN
"""Number of runs that show a change where conversations would ask for more runs: two deployments under the same
runs differ by the change only."""
_FASTER = 0.9
"""Report a lever as faster if it cuts the p99 TPOT to this fraction of it or less at no higher cost."""
_NEAR = 0.8
"""Fraction of its limit from which on an objective counts as binding at the capacity."""
_RELAX_FACTOR = 1.5
"""Factor by which the binding objective is relaxed to show its cost."""
_FOUR_BIT = ("nvfp4", "mxfp4", "int4")
_SURE = 0.9
"""Probability from which on an order of two options counts as settled."""


def tried_levers(scenario: Scenario, plans: Sequence[tuple[int, Planned]]) -> tuple[Change, ...]:
    """Each lever that may be tried on each of the ranked deployments, best first; those that gain nothing last."""
    trials = [
        _try_lever(scenario, rank, plan, beside, one)
        for rank, plan in plans
        for beside in (_beside(scenario, plan),)
        for one in to_try(scenario, plan.found.candidate)
        if not is_spent()
    ]
    trials += [
        trial
        for rank, plan in plans
        if scenario.constraints.own and not is_spent() and (trial := _under_limit(scenario, rank, plan))
    ]
    order = ("applied", "cheaper", "faster", "no gain", "refused")
    return tuple(sorted(trials, key=lambda trial: (order.index(trial.verdict), _gain(trial))))


def with_asked_levers(scenario: Scenario, plan: Planned) -> Planned:
    """Return a deployment with each lever that the question names where that costs no more, is no slower and is as
    sure: the search, which compares costs, has left it out of what costs the same.
    """
    if plan.found.fleet is not None or is_spent():
        return plan
    for one in asked_levers(scenario, plan.found.candidate):
        beside = _beside(scenario, plan)
        try:
            candidate = with_lever(plan.found.candidate, one, scenario)
            replica = replica_of(candidate, scenario, plan.found.replica.library)
        except AdvisorError:
            continue
        after = plan_changed(scenario, plan, replace(plan.found, candidate=candidate, replica=replica))
        if after is None or _change("tpot", plan, after, beside).ratio > 1.0:
            continue
        at_point = run_planning_point(scenario, after, is_held=not scenario.screened_only)
        if at_point is not None and _replaces(at_point, plan):
            plan = at_point
    return plan


def _replaces(after: Planned, plan: Planned) -> bool:
    """Whether a deployment has no higher bill than another and is as sure."""
    costs_no_more = (
        after.found.purchase.cost <= plan.found.purchase.cost * (1.0 + ROUNDING)
        and after.expected_cost <= plan.expected_cost * EQUAL_FACTOR
    )
    return costs_no_more and (after.is_safe, after.is_known) >= (plan.is_safe, plan.is_known)


def _gain(trial: Change) -> tuple[float, float]:
    """The key by which changes with the same verdict are ordered, the best first."""
    cost = trial.usd_per_million_tokens
    time = trial.tpot_p99_s
    return (cost.ratio if cost else 1.0, time.ratio if time else 1.0)


def _beside(scenario: Scenario, plan: Planned) -> Planned:
    """The deployment by as few runs as what is tried on it: by the same ones, so that only the change differs."""
    if scenario.traffic.conversations is None:
        return plan
    return _at_point(scenario, plan)


def _try_lever(scenario: Scenario, rank: int, plan: Planned, beside: Planned, one: Lever) -> Change:
    """One lever on one deployment, which carries the same demand."""
    trial = Change(one.name, one.words, rank, plan.found.accelerator_id, "no gain", one.costs_quality, "")
    try:
        candidate = with_lever(plan.found.candidate, one, scenario)
        replica = replica_of(candidate, scenario, plan.found.replica.library)
    except AdvisorError as error:
        return replace(trial, verdict="refused", note=error.why or error.what)
    after = plan_changed(scenario, plan, replace(plan.found, candidate=candidate, replica=replica))
    if after is None:
        return replace(trial, note=_MISSES)
    # It must also pay where the fewest guesses are accepted that are likely.
    worst = candidate.speculation.time_factors[1] if candidate.speculation else 1.0
    return _compare_trial(replace(trial, note=lever_note(one, candidate)), plan, after, worst, beside)


def _compare_trial(
    trial: Change, plan: Planned, after: Planned, worst: float, beside: Planned | None = None
) -> Change:
    """Return the trial with the effect of its change. `worst` is the factor on the cost where its error is large,
    if there is a difference. The last argument is the deployment under the same runs, if the answer shows it under
    other runs."""
    cost = BeforeAfter(plan.found.usd_per_million_tokens, after.found.usd_per_million_tokens)
    ttft, tpot = (_change(name, plan, after, beside or plan) for name in ("ttft", "tpot"))
    saves = cost.ratio * (worst if cost.ratio != 1.0 else 1.0) <= CHEAPER_IF_BELOW
    is_faster = cost.ratio <= 1.0 and tpot.ratio <= _FASTER
    return replace(
        trial,
        verdict="cheaper" if saves else "faster" if is_faster else "no gain",
        usd_per_million_tokens=cost,
        usd_per_hour=BeforeAfter(plan.found.purchase.usd_per_hour, after.found.purchase.usd_per_hour),
        ttft_p99_s=ttft,
        tpot_p99_s=tpot,
    )


def _change(metric: str, plan: Planned, after: Planned, beside: Planned) -> BeforeAfter:
    """Return a p99 latency before and after a change [s], scaled by what the same runs show without the change."""
    before_s, after_s, same_s = (
        getattr(each.result, metric).percentile_s(99) for each in (plan, after, beside)
    )
    return BeforeAfter(before_s, after_s if beside is plan or not same_s else before_s * after_s / same_s)


def _under_limit(scenario: Scenario, rank: int, plan: Planned) -> Change | None:
    """Return the effect of a power limit on an owned deployment: its own limit, else the lowest limit that meets
    the objectives; None if no limit may be tried."""
    candidate = plan.found.candidate
    if plan.found.fleet is not None:
        return None
    if candidate.full_power is not None:
        deployment = replace(candidate.deployment, accelerator=candidate.full_power)
        free = _under(scenario, plan, replace(candidate, deployment=deployment, full_power=None))
        again = _under(scenario, plan, candidate)  # by the same runs, so that only the limit differs
        if free is None or again is None:
            return None
        trial = _compare_trial(_of_limit(rank, candidate, free, again), free, again, 1.0)
        shown_usd = plan.found.usd_per_million_tokens
        ratio = BeforeAfter(*(each.found.usd_per_million_tokens for each in (free, again))).ratio
        return replace(
            trial, verdict="applied", usd_per_million_tokens=BeforeAfter(shown_usd / ratio, shown_usd)
        )
    if scenario.levers != ("auto",):
        return None
    with contextlib.suppress(InfeasibleError):
        for limited in reversed(under_limits(candidate)):
            after = _under(scenario, plan, limited)
            if after is not None:
                slowest, _ = rate_factors(candidate.deployment.accelerator)
                return _compare_trial(_of_limit(rank, limited, plan, after), plan, after, 1.0 / slowest)
    return None


def _under(scenario: Scenario, plan: Planned, candidate: Candidate) -> Planned | None:
    """The deployment with another power limit, or without one, paid as its boards draw; None where it does not hold."""
    chip = candidate.deployment.accelerator
    bought = plan.found.purchase
    offers = offers_under_limit(scenario.constraints, chip, scenario.as_of)
    ways = placements(candidate.deployment.accelerators_per_replica, offers, chip)
    if not ways:
        return None
    ratio = ways[0].usd_per_unit_hour / bought.placement.usd_per_unit_hour
    paid = replace(
        bought,
        placement=ways[0],
        usd_per_million_tokens=ratio * bought.usd_per_million_tokens,
        cost=ratio * bought.cost,
    )
    replica = replica_of(candidate, scenario)
    found = replace(plan.found, candidate=candidate, replica=replica, ways=tuple(ways), purchase=paid)
    return plan_changed(scenario, plan, found)


def _of_limit(rank: int, limited: Candidate, before: Planned, after: Planned) -> Change:
    """Return the trial of a power limit: the power that it saves, or the boards that the power budget then feeds."""
    chip = limited.deployment.accelerator
    free = limited.full_power
    assert free is not None
    assert free.tdp_w is not None
    assert chip.tdp_w is not None
    watts = f"{chip.tdp_w:.0f}"
    fed, fed_now = (_most_boards(plan.found.purchase.placement) for plan in (before, after))
    draws = [power_of(plan) for plan in (before, after)]
    less_w = max(0.0, draws[0].value - draws[1].value) if draws[0] and draws[1] else 0.0
    saved = f"boards draw {less_w:,.0f} W less under this load"
    if fed_now > fed:
        saved = f"the power feeds {fed_now} boards instead of {fed}"
    return Change(
        f"{NAME}:{watts}W",
        f"hold boards to {watts} of {free.tdp_w:.0f} W",
        rank,
        chip.id,
        "no gain",
        costs_quality=False,
        note=f"{saved}; speed " + ("as measured" if free.power_points else "by the cube root of power"),
    )


def _most_boards(way: Placement) -> int:
    """Boards of one's own that the power feeds."""
    return (way.max_units or 1) * way.accelerators_per_unit


def plan_changed(scenario: Scenario, plan: Planned, found: Found) -> Planned | None:
    """Return a changed deployment, or objective, with what it shows bought for the demand; None where it does not
    hold."""
    if plan.demand.kind == "rate" and found.purchase.num_replicas == 1:
        # Nothing can be saved; it may be faster.
        at_point = _at_point(scenario, replace(plan, found=replace(found, measurements=None)))
        return at_point if strain(at_point.result, scenario.objectives)[0] <= 1.0 else None
    measurements = measurements_of(scenario, found.replica)
    if measurements is None:
        return None
    capacity = _enough(scenario, plan, measurements) or measurements.capacity("confirmed")
    if capacity is None:
        return None
    changed = buy_at_capacity(scenario, plan.demand, replace(found, measurements=measurements), capacity)
    return None if changed is None else _at_point(scenario, changed)


def _at_point(scenario: Scenario, plan: Planned) -> Planned:
    """The deployment at its planning point, by as few runs as tell a change, whether or not it holds."""
    at_point = run_planning_point(scenario, plan, is_held=False, most_runs=_TRIAL_RUNS)
    assert at_point is not None
    return at_point


def measurements_of(scenario: Scenario, replica: ReplicaModel) -> Measurements | None:
    """Return the measurements of a replica under the traffic of a scenario; None where its bound misses an
    objective."""
    bound = surface_requests_per_s(replica, scenario.traffic, scenario.objectives)
    return Measurements(replica, scenario, bound) if bound > 0.0 else None


def _enough(scenario: Scenario, plan: Planned, measurements: Measurements) -> Capacity | None:
    """The least capacity of a changed replica that a given load needs: as many replicas as the deployment has, where
    one fewer does not hold. None where more must be known."""
    if plan.demand.kind != "rate":
        return None
    count = plan.found.purchase.num_replicas
    needed = plan.demand.size / (1.0 - scenario.headroom_fraction)
    if count > 1 and measurements.bound_per_s > needed / (count - 1):
        fewer = math.exp(-RIVAL_SIGMAS * SIGMA["screened"]) * needed / (count - 1)
        if measurements.holds(measurements.load_from(fewer), "screened") is not None:
            return None
    load = needed / count
    held = measurements.holds(load) if measurements.bound_per_s > load else None
    if held is None:
        return None
    return Capacity(load, load, held, measurements.num_requests, plan.found.capacity.binding, "confirmed")


def what_would_change(
    options: tuple[Option, ...], comparisons: tuple[Comparison, ...], tried: Sequence[str]
) -> tuple[str, ...]:
    """Short sentences: break-even prices of the runners-up, orders that are open, changes that were tried.

    Source: own definition; costs are linear in the hourly price.
    """
    first = options[0]
    sentences = _surest(options)
    for option in options[1:3]:
        ratio = first.served.usd_per_million_tokens.value / option.served.usd_per_million_tokens.value
        per_accelerator = option.bill.machines_usd_per_hour / option.machine.num_accelerators
        name = option.machine.accelerator
        seller = option.offer.source_words if option.offer else OWN
        sentences.append(
            f"{name} wins below ${per_accelerator * ratio:.2f} per accelerator and hour "
            f"(now ${per_accelerator:.2f} at {seller})"
            if ratio < 1.0
            else f"{name} at {seller} costs less already: a benchmark that holds makes it first"
        )
    close = [each.accelerator for each in comparisons if each.chance_first_is_cheaper < _SURE]
    if close:
        sentences.append(
            f"{', '.join(close)} cannot be told apart from option 1 within the model's error: "
            "benchmark both before a long contract"
        )
    return (*sentences, *tried)


def tried_changes(scenario: Scenario, plan: Planned) -> tuple[str, ...]:
    """Return the effects of a looser binding objective and of four-bit weights on the first option, each simulated like
    it. The result is empty if they gain nothing, if only short runs are made, or for unlike parts, which are sized
    together.

    Source: `plan_changed`.
    """
    if scenario.screened_only or is_spent() or plan.found.fleet is not None:
        return ()
    found = []
    for level in _binding_levels(scenario.objectives, plan):
        looser = _with_limit(scenario.objectives, level, _RELAX_FACTOR * level.limit_s)
        after = plan_changed(scenario.model_copy(update={"objectives": looser}), plan, plan.found)
        if effect := _effect(
            f"{level.name} within {plain_number(_RELAX_FACTOR * level.limit_s)} s", plan, after
        ):
            found.append(effect)
            break
    if not scenario.constraints.precisions:
        found += [
            _effect(
                f"four-bit weights (--precision {dtype}, where your quality tests allow them)", plan, after
            )
            for dtype, after in _four_bit(scenario, plan)
        ]
    return tuple(filter(None, found))


def _binding_levels(objectives: Objectives, plan: Planned) -> list[ServiceLevel]:
    """The objective that the lowest load beyond the capacity misses most, then others that are near there: above the
    capacity a queue grows, and requests that wait miss one objective for another's sake."""
    capacity = plan.found.capacity
    binding = [each for each in objectives.levels if each.metric == capacity.binding]
    others = [each for each in objectives.levels if each.metric != capacity.binding]
    near = [each for each in others if percentile_s(capacity.result, each) >= _NEAR * each.limit_s]
    return [*binding[:1], *near]


def _with_limit(objectives: Objectives, level: ServiceLevel, limit_s: float) -> Objectives:
    if level in objectives.others:
        others = tuple(
            each.model_copy(update={"limit_s": limit_s}) if each == level else each
            for each in objectives.others
        )
        return objectives.model_copy(update={"others": others})
    return objectives.model_copy(update={f"{level.metric}_p99_s": limit_s})


def _four_bit(scenario: Scenario, plan: Planned) -> list[tuple[str, Planned | None]]:
    """The first option with weights of four bits, in the first format that its engine has for it; none where it has
    none, or where they have four already."""
    candidate = plan.found.candidate
    traffic = scenario.traffic
    deployment = candidate.deployment
    if bytes_per_element(deployment.weight_dtype) < 1.0:
        return []
    chip = deployment.accelerator
    engine = deployment.engine
    usable = usable_precisions(deployment.model, chip, engine, _FOUR_BIT)
    for dtype in usable[:1]:
        model = served_model(models.get(scenario.model).record, engine, dtype, chip)
        changed = replace(
            deployment,
            model=model,
            weight_dtype=dtype,
            activation_dtype=activation_dtype_of(model, dtype, chip),
            kv_dtype=cache_format(scenario.constraints.kv_dtype, model, engine, chip),
        )
        try:
            fits = fit_memory(changed, traffic.mean_context_tokens, float(traffic.longest_request_tokens))
            lighter = replace(candidate, deployment=changed, memory=fits.memory)
            replica = replica_of(lighter, scenario)
        except AdvisorError:
            continue
        return [
            (dtype, plan_changed(scenario, plan, replace(plan.found, candidate=lighter, replica=replica)))
        ]
    return []


def _effect(change: str, plan: Planned, after: Planned | None) -> str:
    """Return the effect of a change on the cost, as simulated; empty if it saves nothing."""
    if after is None:
        return ""
    cost = BeforeAfter(plan.found.usd_per_million_tokens, after.found.usd_per_million_tokens)
    if cost.ratio > CHEAPER_IF_BELOW:
        return ""
    counts = plan.found.purchase.num_replicas, after.found.purchase.num_replicas
    fewer = f", {counts[1]} replicas for {counts[0]}" if counts[1] < counts[0] else ""
    return f"{change}: option 1 ${plain_number(cost.before)} to ${plain_number(cost.after)} per million tokens{fewer}"


def _surest(options: tuple[Option, ...]) -> list[str]:
    """Return a sentence on the cheapest option without borrowed kernel parameters, if the first option rests on
    them."""
    first = options[0]
    if first.served.basis != "assumed":
        return []
    measured = next((option for option in options if option.served.basis != "assumed"), None)
    lead = f"{first.machine.accelerator} is predicted with kernel parameters of related hardware"
    if measured is None:
        return [f"{lead}, and so are its rivals: benchmark before you commit"]
    return [
        f"{lead}; the cheapest whose own kernels were measured is {measured.machine.accelerator}, option "
        f"{measured.rank}, at ${plain_number(measured.served.usd_per_million_tokens.value, 2)} per million tokens"
    ]


def compare_first(order: Sequence[Planned]) -> tuple[Comparison, ...]:
    """The first option against each of the others, by what they may really cost."""
    found = []
    first = order[0]
    for rank, option in enumerate(order[1:], start=2):
        ratio = option.expected_cost / first.expected_cost
        factor = math.exp(log_error(first, option))
        basis = weakest(first.found.replica.basis, option.found.replica.basis)
        found.append(
            Comparison(
                rank,
                option.found.accelerator_id,
                pair_class(first.found.replica, option.found.replica),
                Quantity(ratio, ratio / factor, ratio * factor, basis),
                chance_cheaper(first, option),
            )
        )
    return tuple(found)
