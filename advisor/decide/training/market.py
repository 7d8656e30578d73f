"""The market searched for a training run: accelerators by an optimistic bound, cluster sizes upwards, plans inside."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from advisor.catalog import accelerators as accelerator_catalog
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.schema import Accelerator, Model, Price
from advisor.catalog.units import DAY_S, HOUR_S
from advisor.decide.offers import ROUNDING, offers_by_accelerator, owned_offers, price_spread_of
from advisor.decide.ranking import is_firm
from advisor.decide.reason import (
    NoClusterSize,
    NoFramework,
    NoLayout,
    NotForSale,
    NotSoldAsCluster,
    NotSupported,
    OverJobBudget,
    Reason,
    TakesTooLong,
)
from advisor.decide.safe_picks import BLOCK
from advisor.decide.training.commands import LoopKind, has_command, openrlhf_places
from advisor.decide.training.conditions import check_power_cap, lowest_power_w
from advisor.decide.training.fixed_layout import cluster_sizes
from advisor.decide.training.money import BUSY_POWER_FRACTION, ClusterOffer, cluster_offers
from advisor.decide.training.result import Reinforcement
from advisor.decide.training.rollouts import best_loop, companions_of, trains_loop
from advisor.decide.training.runs import LONGEST_DAYS, TrainingRun, num_steps_of, run_of
from advisor.decide.training.scenario import RolloutTask, TrainingScenario, Workload
from advisor.decide.training.search import Tally, best_plans, simulate_pipeline, unlayable
from advisor.decide.training.space import (
    Variant,
    counts_of,
    frameworks_with_settings,
    lacking_setting,
    peak_flop_per_s,
    variants_of,
)
from advisor.simulator.calibrated_device import calibrated_accelerator
from advisor.simulator.device import with_power_cap
from advisor.simulator.training.flop import model_flop_per_token
from advisor.simulator.training.plan_check import plan_words
from advisor.simulator.training.reinforcement import generates, num_forwards, num_trained_models

Progress = Callable[[str], None]
LONGEST_LISTED_S: Final = 120.0 * DAY_S
"""Time of a run beyond which it is no answer to a budget alone [s]: a long public run, BLOOM's, took 118 days (Luccioni
et al. 2022, arXiv:2211.02001, section 4). A stated deadline, cluster or machines of one's own say otherwise."""
_PATIENCE = 2
"""Larger clusters tried beyond the cheapest that meets the deadline, or beyond which speed is worth nothing."""
SHORTEST_WORTH_S: Final[Mapping[Workload, float]] = {"train": 7.0 * DAY_S, "finetune": DAY_S, "rl": DAY_S}
"""Time of a run below which being faster is worth no money unless a deadline says so [s]: clusters are handed over and
tried within days, machines within one. Own assumption; without it $20,000 rent a thousand accelerators for two hours.
"""
LEAST_OF_COARSE = 0.85
"""Least part of a coarse plan's step that the best plan of the whole lattice takes; 0.86 was the least of 66 clusters
of seven questions, 0.99 of 24 on networks of 10 Gb/s and more."""
_FINALISTS = 4
_MFU_UPPER_BOUND = 0.85
"""Upper bound on MFU that no published run comes near; plans that miss the deadline even so are not priced."""


@dataclass(slots=True)
class MarketOutcome:
    """The result of the search, with the reasons why other runs are not in it."""

    runs: dict[str, list[TrainingRun]] = field(default_factory=dict)
    offers: dict[tuple[str, int], list[ClusterOffer]] = field(default_factory=dict)
    reasons: dict[str, Reason] = field(default_factory=dict)
    bounds: dict[str, float] = field(default_factory=dict)
    """Least dollars of accelerators that were not searched, because they cannot win."""
    near: list[TrainingRun] = field(default_factory=list)
    """Runs that miss a limit."""
    nearest_sold: dict[str, int] = field(default_factory=dict)
    """Size nearest to the requested cluster size that a provider sells, by accelerator, where none sells that size."""
    effort: Tally = field(default_factory=Tally)
    num_clusters: int = 0


def search_training(
    scenario: TrainingScenario, model: Model, progress: Progress = lambda message: None, *, width: int = 0
) -> MarketOutcome:
    """All runs worth showing, by accelerator; the best `width` accelerators are among them, or as many as the question
    shows.

    Raises: UnknownNameError: an accelerator or provider is not known.
    """
    width = width or max(BLOCK, scenario.top)
    outcome = MarketOutcome()
    records = candidates(scenario)
    offers = offers_of(scenario, records)
    queue = sorted(_bounds(scenario, model, records, offers, outcome), key=lambda entry: entry[0])
    for bound, name in queue:
        budget = scenario.limits.budget_usd
        if budget is not None and bound > budget * (1.0 + ROUNDING):
            outcome.bounds[name] = bound
            outcome.reasons[name] = OverJobBudget(bound, budget, None)
            continue
        if bound > _to_beat(scenario, outcome, width):
            outcome.bounds[name] = bound
            continue
        progress(f"laying out {model.id} on {name}")
        _search_accelerator(scenario, model, records[name], offers[name], outcome)
    _refine(scenario, model, outcome, progress, width)
    return outcome


def candidates(scenario: TrainingScenario) -> dict[str, Accelerator]:
    """Accelerators that may be the answer under the power limit of the question, with a calibration's figures where it
    names one.

    Raises: UnknownNameError: an accelerator is not known. AdvisorError: the power limit is none for those that are
        named.
    """
    limits = scenario.limits
    names = tuple(name for _, name in limits.own) or limits.accelerators
    records = (
        [accelerator_catalog.by_id(name) for name in names]
        if names
        else list(accelerator_catalog.all_accelerators())
    )
    cap_w = scenario.conditions.power_cap_w
    if names and cap_w is not None:
        # A limit above the rated power of some is none for them, but of all of them it is a mistake.
        widest = max(records, key=lambda record: record.tdp_w or math.inf)
        if cap_w > (widest.tdp_w or math.inf) or len(records) == 1:
            check_power_cap(widest, cap_w)
    return {
        record.id: with_power_cap(calibrated_accelerator(record, scenario.calibration), cap_w)
        if record.is_ranked
        else record
        for record in records
    }


def offers_of(
    scenario: TrainingScenario, records: Mapping[str, Accelerator]
) -> Mapping[str, tuple[Price, ...]]:
    """Return the prices of what is for sale within the limits, by accelerator; owned hardware at the price of the
    electricity that its boards draw over a step, as in the energy of a run.

    Raises: UnknownNameError: a provider is not known. InputFileError: the price file is wrong.
    """
    limits = scenario.limits
    if limits.own:
        owned = owned_offers(limits.own, records, scenario.as_of, limits.power_budget_w)
        return {
            name: tuple(_as_drawn(price, records[name], scenario.conditions.power_cap_w) for price in prices)
            for name, prices in owned.items()
        }
    return offers_by_accelerator(limits, scenario.as_of)


def _as_drawn(price: Price, accelerator: Accelerator, power_cap_w: float | None) -> Price:
    """Return the price of own boards at what they draw over a step: a part of their limit, the rated one or a cap."""
    rated_w = accelerator.tdp_w
    capped = 1.0 if not rated_w or power_cap_w is None else min(1.0, power_cap_w / rated_w)
    return price.model_copy(update={"usd_per_hour": BUSY_POWER_FRACTION * capped * price.usd_per_hour})


def _variants(
    scenario: TrainingScenario, model: Model, accelerator: Accelerator, *, whole: bool = True
) -> tuple[list[Variant], Reason | None]:
    """The jobs to consider on an accelerator under the conditions that the question states, or why there are none."""
    return variants_of(accelerator, model, scenario.task, scenario.conditions, whole=whole)


def _bounds(
    scenario: TrainingScenario,
    model: Model,
    records: Mapping[str, Accelerator],
    offers: Mapping[str, tuple[Price, ...]],
    outcome: MarketOutcome,
) -> list[tuple[float, str]]:
    """(least dollars that perfect computation could cost, accelerator), where it could run at all."""
    found = []
    for name, accelerator in records.items():
        variants, reason = _variants(scenario, model, accelerator)
        lowest_w = lowest_power_w(accelerator)
        if (scenario.conditions.power_cap_w or math.inf) < lowest_w - 1.0:
            outcome.reasons[name] = NotSupported(f"its power is limited to {lowest_w:.0f} W or more")
        elif reason is not None:
            outcome.reasons[name] = reason
        elif not offers.get(name):
            outcome.reasons[name] = NotForSale()
        else:
            cheapest = min(price.usd_per_accelerator_hour for price in offers[name])
            found.append((_least_accelerator_hours(scenario, variants) * cheapest, name))
    return found


def _least_accelerator_hours(scenario: TrainingScenario, variants: Sequence[Variant]) -> float:
    """Return the accelerator-hours of the whole run at an MFU above any that is reached."""
    job = variants[0].job
    flop = model_flop_per_token(job) * job.tokens_per_step * num_steps_of(scenario)
    if scenario.rollout is not None:
        flop *= _loop_factor(scenario.rollout)
    peak = max(peak_flop_per_s(v.cluster.accelerator, v.job.compute_dtype) or 0.0 for v in variants)
    return flop / (peak * _MFU_UPPER_BOUND) / HOUR_S


def _loop_factor(task: RolloutTask) -> float:
    """Work of a whole loop over that of its training: log-probabilities and generation are forward passes."""
    generated = int(generates(task.algorithm))
    return num_trained_models(task.algorithm) + (num_forwards(task.algorithm) + generated) / 3.0


def _to_beat(scenario: TrainingScenario, outcome: MarketOutcome, width: int) -> float:
    """Dollars of the last of the best `width` accelerators that meet the limits; infinite where days decide too."""
    if is_fastest_wanted(scenario) or is_electricity_all(scenario):
        return math.inf
    held = ([run.usd for run in runs if misses(scenario, run) is None] for runs in outcome.runs.values())
    best = sorted(map(min, filter(None, held)))
    return best[width - 1] if len(best) >= width else math.inf


def _search_accelerator(
    scenario: TrainingScenario,
    model: Model,
    accelerator: Accelerator,
    prices: Sequence[Price],
    outcome: MarketOutcome,
) -> None:
    """Runs on one accelerator that keep the limits: cluster sizes upwards until larger ones only cost more, or, if only
    money is limited, until more speed is worth nothing."""
    variants, _ = _variants(scenario, model, accelerator, whole=False)
    limits = scenario.limits
    name = accelerator.id
    reason: Reason | None = None
    nearest: TrainingRun | None = None
    in_time = list[TrainingRun]()
    num_short = 0
    counts = _counts(scenario, accelerator, prices, variants)
    sold = {count: cluster_offers(count, prices, accelerator) for count in counts}
    for count, ways in sold.items():
        if not ways:
            asked = limits.num_accelerators is not None
            near = _nearest_that_works(scenario, accelerator, prices, variants if asked else (), count)
            outcome.nearest_sold[name] = near
            reason = reason or NotSoldAsCluster(count, near)
            continue
        outcome.offers[name, count] = ways
        outcome.num_clusters += 1
        try:
            run = _best_run(scenario, variants, ways, outcome, refine=False)
        except InfeasibleError as error:
            reason = NoLayout(f"{error.what}: {error.why}" if error.why else error.what)
            continue
        except AdvisorError as error:
            reason = NotSupported(error.what)
            break
        if run is None:
            reason = _why_none(scenario, variants, count)
            if limits.num_accelerators is not None:
                outcome.nearest_sold[name] = _nearest_that_works(
                    scenario, accelerator, prices, variants, count
                )
            continue
        if (infeasible := run.infeasible) is not None:
            reason = reason or infeasible
            continue
        missed = misses(scenario, _at_least(run))
        if missed is None:
            outcome.runs.setdefault(name, []).append(run)
        else:
            outcome.near.append(run)
            nearest = min(filter(None, (nearest, run)), key=partial(shortfall, scenario))
        if isinstance(missed, TakesTooLong):
            continue
        # Whether a size is tried must not depend on the budget: more of it would otherwise hide one.
        in_time.append(run)
        num_short += bool(limits.deadline_s) or run.wall_s <= SHORTEST_WORTH_S[scenario.workload]
        larger = [way for more, ways in sold.items() if more > count for way in ways[:1]]
        is_limited = limits.deadline_s is not None or limits.budget_usd is not None
        if is_limited and num_short > _PATIENCE and not _may_cost_less(in_time, larger):
            break
    if name not in outcome.runs:
        # A run that only misses a limit says more than sizes that hold no plan at all.
        reason = (misses(scenario, nearest) if nearest is not None else reason) or NoClusterSize()
        outcome.reasons[name] = reason


def _at_least(run: TrainingRun) -> TrainingRun:
    """A run of a coarse plan in the least time that the best plan of the whole lattice may take."""
    return replace(run, step_s=LEAST_OF_COARSE * run.step_s)


def _may_cost_less(runs: Sequence[TrainingRun], larger: Sequence[ClusterOffer]) -> bool:
    """Whether a larger cluster may cost less than every run so far.

    Assumes: once two larger clusters cost more than the cheapest, an accelerator does no more work in a still larger
    one, so that only a lower price of its hour makes that cheaper.
    """
    best = min(range(len(runs)), key=lambda place: runs[place].usd)
    if len(runs) - best <= _PATIENCE:
        return bool(larger)
    least_hours = min(run.usd / run.offer.usd_per_accelerator_hour for run in runs)
    least_usd = min((way.usd_per_accelerator_hour for way in larger), default=math.inf)
    return least_hours * least_usd < runs[best].usd


def shortfall(scenario: TrainingScenario, run: TrainingRun) -> float:
    """Return by which factor a run misses the limit that it misses most."""
    limits = scenario.limits
    longest_s = _longest_s(scenario)
    late = run.wall_s / longest_s if longest_s is not None else 0.0
    dear = run.usd / limits.budget_usd if limits.budget_usd is not None else 0.0
    return max(late, dear)


def _why_none(scenario: TrainingScenario, variants: Sequence[Variant], count: int) -> Reason:
    """Return why a cluster has no plan: none fits, or no framework has options for those that fit."""
    task = scenario.rollout
    if task is not None and not openrlhf_places(
        LoopKind(task.algorithm, task.placement == "disaggregated", task.steps_off_policy)
    ):
        return NotSupported(
            "a policy and its critic share accelerators apart from generation only in asynchronous training, as "
            "--off-policy 1 asks for"
        )
    others = companions_of(task, apart=task.placement == "disaggregated") if task is not None else None
    found = best_plans(variants, count, Tally(), keep=1, companions=others)
    if not found:
        return unlayable(variants, count, scenario.task.layout, others)
    fits = f"{plan_words(found[0].plan)} fits, but no command would start it"
    goal = scenario.task.loop or "sft"
    lacks = lacking_setting(found[0].job, found[0].plan, goal)
    able = frameworks_with_settings(found[0].job, goal, found[0].plan)
    if lacks is not None:
        instead = f"; --framework {' or '.join(able)} does" if able else ""
        return NoFramework(f"{plan_words(found[0].plan)} fits, but {lacks}{instead}", able)
    if task is None:
        return NotSupported(f"no framework has options for any layout that fits: {fits}")
    named = " and ".join(name for _, name in scenario.task.programs)
    why = f"no framework {named and f'of {named} '}that runs {goal} has options for any layout that fits: {fits}"
    return NoFramework(why, able) if named and able else NotSupported(why)


def _nearest_that_works(
    scenario: TrainingScenario,
    accelerator: Accelerator,
    prices: Sequence[Price],
    variants: Sequence[Variant],
    count: int,
) -> int:
    """Return the size nearest to `count` that a provider within the limits sells as one cluster and that a plan
    fits; 0 if there is none. Without variants, any size that is sold will do."""
    near = _sizes_near(accelerator, count, scenario.task.layout.replica_ranks)
    sold = (size for size in near if cluster_offers(size, prices, accelerator))
    return next((size for size in sold if not variants or _fits(scenario, variants, size)), 0)


def _fits(scenario: TrainingScenario, variants: Sequence[Variant], count: int) -> bool:
    try:
        if scenario.rollout is not None:
            return trains_loop(scenario.rollout, variants, count)
        return bool(best_plans(variants, count, Tally(), keep=1, can_start=has_command))
    except InfeasibleError:
        return False


def _sizes_near(accelerator: Accelerator, count: int, replica_ranks: int) -> list[int]:
    node = accelerator.node_size
    steps = (node, math.lcm(node, replica_ranks))
    whole = {count // step * step + more for step in steps for more in (0, step)}
    sizes = {*counts_of(accelerator, 16 * count), *whole} - {0, count}
    return sorted(sizes, key=lambda size: abs(size - count))


def _best_run(
    scenario: TrainingScenario,
    variants: Sequence[Variant],
    ways: Sequence[ClusterOffer],
    outcome: MarketOutcome,
    *,
    refine: bool,
) -> TrainingRun | None:
    """Return the fastest run of one cluster, at the cheapest of its offers whose machines have the host memory that it
    takes. A refined one has its best few plans simulated as event graphs. Where no offer has as much as the plan needs,
    the plan is made for the most that one of them has."""
    count = ways[0].num_accelerators
    reinforcement: Reinforcement | None = None
    if scenario.rollout is not None:
        loop = best_loop(scenario, variants, count, outcome.effort, refine=refine)
        plans = [loop.found] if loop else []
        reinforcement = loop.reinforcement if loop else None
    else:
        keep = _FINALISTS if refine else 1
        plans = best_plans(variants, count, outcome.effort, keep=keep, can_start=has_command)
        if refine:
            plans = sorted(
                (simulate_pipeline(plan, outcome.effort) for plan in plans), key=lambda plan: plan.step_s
            )
    if not plans:
        return None
    offer = next((way for way in ways if way.has_host_memory(plans[0].host_bytes)), None)
    if offer is None:
        most = max(way.stated_host_bytes or 0.0 for way in ways)
        return _best_run(scenario, _with_host_memory(variants, most), ways, outcome, refine=refine)
    return run_of(scenario, plans[0], offer, reinforcement)


def _with_host_memory(variants: Sequence[Variant], host_bytes: float) -> list[Variant]:
    """Return the variants on machines with this much host memory for each accelerator [bytes]."""
    return [replace(each, cluster=replace(each.cluster, stated_host_bytes=host_bytes)) for each in variants]


def _counts(
    scenario: TrainingScenario, accelerator: Accelerator, prices: Sequence[Price], variants: Sequence[Variant]
) -> list[int]:
    """Cluster sizes to try, ascending; from the smallest that perfect computation would need for the deadline."""
    limits = scenario.limits
    if limits.num_accelerators is not None:
        return [limits.num_accelerators]
    largest = limits.max_accelerators
    if limits.own:
        largest = min(largest, max(price.num_accelerators for price in prices))
    least = 1.0
    if limits.deadline_s:
        least = _least_accelerator_hours(scenario, variants) * HOUR_S / limits.deadline_s
    owned = [price.num_accelerators for price in prices if limits.own]
    usual = sorted({*counts_of(accelerator, largest), *owned})
    sizes = cluster_sizes(scenario.task.layout, usual, largest)
    # The largest is priced even where it is too small, so that the answer says by how much.
    return [count for count in sizes if count >= least] or sizes[-1:]


def misses(scenario: TrainingScenario, run: TrainingRun) -> Reason | None:
    """Return the limit that a run misses; None if it keeps all."""
    limits = scenario.limits
    if (longest_s := _longest_s(scenario)) is not None and run.wall_s > longest_s:
        is_stated = limits.deadline_s is not None
        return TakesTooLong(run.days, run.num_accelerators, longest_s / DAY_S, is_stated=is_stated)
    if limits.budget_usd is not None and run.usd > limits.budget_usd * (1.0 + ROUNDING):
        return OverJobBudget(run.usd, limits.budget_usd, run.num_accelerators)
    return None


def _longest_s(scenario: TrainingScenario) -> float | None:
    """Longest time of a run that is an answer [s]: the deadline; with a budget alone `LONGEST_LISTED_S`; None where the
    cluster decides."""
    limits = scenario.limits
    is_free = limits.num_accelerators is None and not limits.own
    return LONGEST_LISTED_S if is_free and is_fastest_wanted(scenario) else limits.deadline_s


def is_fastest_wanted(scenario: TrainingScenario) -> bool:
    """Whether the fastest plan is wanted: money is limited and time is not."""
    return scenario.limits.budget_usd is not None and scenario.limits.deadline_s is None


def is_electricity_all(scenario: TrainingScenario) -> bool:
    """Whether nothing but electricity is paid and nothing is limited: machines of one's own, whose idle ones save
    hardly anything."""
    limits = scenario.limits
    return bool(limits.own) and limits.budget_usd is None and limits.deadline_s is None


def order_key(scenario: TrainingScenario) -> Callable[[TrainingRun], tuple[float, float]]:
    """Return the sort key of runs that keep the limits."""
    return lambda run: goal_of(scenario, run.usd, run.wall_s, run.offer.usd_per_hour)


def goal_of(
    scenario: TrainingScenario, usd: float, wall_s: float, usd_per_hour: float
) -> tuple[float, float]:
    """Return what a question wants to be small: dollars; if only money is limited, time as far as it is worth money,
    then dollars; on machines of one's own without limits, electricity times time [USD s²/h], by which twice the
    machines are better if they take less than 71 % of the time.

    Source: energy-delay product (Gonzalez and Horowitz 1996, doi:10.1109/4.535411).
    """
    if is_electricity_all(scenario):
        return usd_per_hour * wall_s**2, wall_s
    if is_fastest_wanted(scenario):
        return max(wall_s, SHORTEST_WORTH_S[scenario.workload]), usd
    return usd, wall_s


def ranked_runs(scenario: TrainingScenario, outcome: MarketOutcome) -> list[list[TrainingRun]]:
    """The runs of the best accelerators, best first, each accelerator's best first."""
    key = order_key(scenario)
    groups = [sorted(runs, key=key) for runs in outcome.runs.values() if runs]
    return sorted(groups, key=lambda runs: key(runs[0]))[: max(BLOCK, scenario.top)]


def firm_runs(scenario: TrainingScenario, model: Model, outcome: MarketOutcome) -> Iterator[TrainingRun]:
    """Runs at firm prices on all accelerators that were searched, best first, each looked at again.

    The search keeps the cheapest offer of each cluster, whose price may be old or a tracker's.
    """
    found = list[TrainingRun]()
    for name, runs in outcome.runs.items():
        for run in runs:
            ways = outcome.offers.get((name, run.num_accelerators), [run.offer])
            able = (way for way in ways if way.has_host_memory(run.found.host_bytes))
            firm = next(
                (way for way in able if is_firm(way.price, price_spread_of(way.price, scenario.as_of))), None
            )
            if firm is None:
                continue
            again = run if firm is run.offer else run_of(scenario, run.found, firm, run.reinforcement)
            if again.infeasible is None and misses(scenario, again) is None:
                found.append(again)
    for best in sorted(found, key=order_key(scenario)):
        if best.num_accelerators == outcome.runs[best.found.cluster.accelerator.id][0].num_accelerators:
            yield best
            continue
        variants, _ = _variants(scenario, model, best.found.cluster.accelerator)
        again = _best_run(scenario, variants, [best.offer], outcome, refine=True) or best
        yield best if again.infeasible or misses(scenario, again) else again


def best_runs(scenario: TrainingScenario, model: Model) -> list[list[TrainingRun]]:
    """The runs of a question that is asked besides, as `ranked_runs` gives them; empty where it has no answer."""
    return ranked_runs(scenario, search_training(scenario, model))


def cheapest_run(scenario: TrainingScenario, model: Model) -> TrainingRun | None:
    """Return the run that costs least within all limits but the budget, which is the least budget that has an answer;
    None where there is none."""
    longest_s = _longest_s(scenario) or LONGEST_DAYS * DAY_S
    free = scenario.with_limits(budget_usd=None, deadline_s=longest_s)
    ranked = ranked_runs(free, search_training(free, model, width=1))
    return ranked[0][0] if ranked else None


def _refine(
    scenario: TrainingScenario, model: Model, outcome: MarketOutcome, progress: Progress, width: int
) -> None:
    """The best clusters again with the whole lattice, their best few plans as event graphs, until no other accelerator
    could be among the first if it were looked at again; of each until no other of its clusters could be better."""
    key = order_key(scenario)

    def least(run: TrainingRun) -> tuple[float, float]:
        return key(_at_least(run))

    groups = sorted(
        (list(runs) for runs in outcome.runs.values() if runs), key=lambda runs: min(map(least, runs))
    )
    known: list[tuple[float, float]] = []
    for runs in groups:
        if len(known) >= width and min(map(least, runs)) >= sorted(known)[width - 1]:
            break
        accelerator = runs[0].found.cluster.accelerator
        variants, _ = _variants(scenario, model, accelerator)
        refined: list[TrainingRun] = []
        left = list(runs)
        while left:
            first = min(left, key=least)
            if refined and least(first) >= key(refined[0]):
                break
            left.remove(first)
            progress(f"refining {first.num_accelerators} x {accelerator.id}")
            ways = outcome.offers[accelerator.id, first.num_accelerators]
            again = _best_run(scenario, variants, ways, outcome, refine=True) or first
            reason = again.infeasible or misses(scenario, again)
            if reason is None:
                refined = sorted([*refined, again], key=key)
            else:
                outcome.near.append(again)
                outcome.reasons[accelerator.id] = reason
        outcome.runs[accelerator.id] = [*refined, *left]
        known += [key(run) for run in refined[:1]]
    for name, runs in outcome.runs.items():
        held = [run for run in runs if misses(scenario, run) is None]
        outcome.near += (run for run in runs if run not in held)
        outcome.runs[name] = sorted(held, key=key)
        if held:
            outcome.reasons.pop(name, None)
        elif name not in outcome.reasons:
            outcome.bounds[name] = min(_at_least(run).usd for run in runs)
