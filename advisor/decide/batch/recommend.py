"""The answer for a batch of requests with a deadline and no waiting client: the cheapest hardware, spot included."""

import heapq
import itertools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from advisor.catalog import engines as engine_catalog
from advisor.catalog import models as model_catalog
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.schema import Model
from advisor.catalog.units import DAY_S, HOUR_S, MEGA, plain_number
from advisor.decide.batch.purchase import BatchPurchase, cheapest_batch
from advisor.decide.batch.result import BatchJob
from advisor.decide.bounds import roofline_requests_per_s, surface_requests_per_s
from advisor.decide.candidates import Candidate, candidates_within
from advisor.decide.certainty import allowance, holds_word
from advisor.decide.decision import Counts, Decision, Rejected, Rung
from advisor.decide.drawn_power import least_drawn_fraction, run_drawn_fraction
from advisor.decide.engine_classes import check_classes, doubt_of
from advisor.decide.load_runs import lengths_of, spread_of_contexts
from advisor.decide.not_taken import providers_not_taken
from advisor.decide.offers import (
    OWN,
    Placement,
    machine_of,
    market,
    named_accelerators,
    offer_of,
    placements,
    seller_words,
    stale_price_warnings,
)
from advisor.decide.option import Explanation, JobPerformance, Option
from advisor.decide.purchase import bill_of, least_budget, pareto_placements, smallest_budget
from advisor.decide.ranking import firm_ways
from advisor.decide.reason import (
    CostsMore,
    MissesDeadline,
    NotForSale,
    NothingCarries,
    NotSupported,
    Reason,
    UnsureClass,
    keep_furthest,
    name_accelerators,
)
from advisor.decide.safe_picks import (
    BLOCK,
    doubt_of_limit,
    doubts_of,
    order_by_trust,
    with_safest,
)
from advisor.decide.scenario import ExtraItems, Objectives, Scenario
from advisor.decide.served_option import accelerator_words, ages_days
from advisor.decide.starting import launch_of, launch_settings, layout_of, memory_of
from advisor.simulator.intervals import factors, with_interval
from advisor.simulator.replica_model import EngineSettings, ReplicaModel, model_replica
from advisor.simulator.serving import ClosedLoop, Workload, simulate
from advisor.simulator.serving_prediction import class_of

_NO_PROMISE = Objectives(ttft_p99_s=DAY_S, tpot_p99_s=DAY_S)
"""Objectives of requests for which no client waits: a day for each token, which no deployment misses."""
_LATER_S = (HOUR_S, 6 * HOUR_S, DAY_S, 7 * DAY_S, 30 * DAY_S)
"""Deadlines that are tried where one is missed."""
_LEAST_REQUESTS = 400
_MOST_REQUESTS = 4000
"""Fewest and most requests of the run that shows the rate of a replica; between them, four for each slot."""


@dataclass(frozen=True, slots=True)
class _Run:
    """A simulated replica and the cheapest way to buy enough of it."""

    candidate: Candidate
    replica: ReplicaModel
    requests_per_s: float
    mean_batch: float
    purchase: BatchPurchase


def recommend_batch(scenario: Scenario, job: BatchJob, *, suggests: bool = True) -> Decision:
    """The cheapest hardware that finishes a batch of requests before a deadline, ranked by dollars of the whole job.

    Candidates are tried in the order of optimistic bounds: the roofline's, then the step surface's, then a simulated
    closed loop that keeps every slot full; none that was not simulated could be cheaper.

    Raises: InfeasibleError: nothing is done in time. UnknownNameError: a name is in no record.
    """
    started = time.perf_counter()
    model = model_catalog.get(scenario.model).record
    reasons: dict[str, Reason] = {}
    entries = list(_entries(scenario, job, model, reasons))
    width = max(BLOCK, scenario.top)
    best, simulated = _search(scenario, job, list(entries), reasons, width)
    firm = [again for entry in entries if (again := _at_firm_prices(entry, scenario, job))]
    safest, more = _search(scenario, job, firm, {}, 1, is_safe=True)
    simulated += more
    ranked = sorted(best.values(), key=lambda run: run.purchase.usd)[:width]
    if not ranked:
        raise _nothing(scenario, job, model, reasons, suggests=suggests)
    made = [(_option(rank, run, scenario, job), run.purchase.way.price) for rank, run in enumerate(ranked, 1)]
    made.sort(key=lambda each: each[0].job_usd.value)
    options = order_by_trust(
        [option for option, _ in made],
        [price for _, price in made],
        lambda option: option.job_usd,
        scenario.as_of,
    )
    least = min(safest.values(), key=lambda run: run.purchase.usd, default=None)
    options, safe_pick = with_safest(
        options,
        None if least is None else _option(0, least, scenario, job),
        lambda option: (option.job_usd.value,),
    )
    options = options[: scenario.top]
    shown = {option.machine.accelerator for option in options}
    rejected = (
        *(each for each in _dearer(entries, best, options) if each.accelerator not in reasons),
        *(Rejected(name, reason) for name, reason in reasons.items() if name not in shown),
    )
    wall_s = time.perf_counter() - started
    return Decision(
        kind="batch_plan",
        model=model.id,
        workload="batch",
        headline=_headline(options[0], model, job),
        options=options,
        safe_pick=safe_pick,
        ladder=(),
        rejected=rejected,
        not_taken=providers_not_taken(scenario.constraints, scenario.as_of, options, safe_pick),
        counts=Counts(len(entries), num_simulated=simulated, wall_s=wall_s),
        warnings=stale_price_warnings(ages_days(options)),
        notes=tuple(
            dict.fromkeys(
                str(reason) for each in options for reason in each.reasons if isinstance(reason, UnsureClass)
            )
        ),
    )


def _nothing(
    scenario: Scenario, job: BatchJob, model: Model, reasons: Mapping[str, Reason], *, suggests: bool
) -> InfeasibleError:
    """Why nothing is done in time; with the nearest budget, or deadline, that is enough."""
    fix = "a later --deadline, a higher --max-gpus or --budget, or another --precision"
    budget = scenario.objectives.budget_usd_per_hour
    free = scenario.model_copy(update={"objectives": _NO_PROMISE})
    later = [job.deadline_s] if budget is not None else [s for s in _LATER_S if s > job.deadline_s]
    for deadline_s in later if suggests else ():
        least = _least_bill(free, replace(job, deadline_s=deadline_s))
        if least is None:
            continue
        bought = f"{least.machine.num_accelerators} x {least.machine.accelerator}"
        fix = f"--deadline {deadline_s / HOUR_S:g}h: {bought} are done by then"
        if budget is not None:
            fix = _enough(scenario, job, least)
        break
    alike: dict[Reason, list[str]] = {}
    for name, reason in reasons.items():
        alike.setdefault(reason, []).append(name)
    common = sorted(alike.items(), key=lambda item: (not isinstance(item[0], MissesDeadline), -len(item[1])))
    return InfeasibleError(
        f"nothing finishes {job.num_requests:,} requests to {model.id} in {plain_number(job.deadline_s / HOUR_S)} h",
        why="; ".join(name_accelerators(reason, names) for reason, names in common[:3]),
        fix=fix,
    )


def _enough(scenario: Scenario, job: BatchJob, found: Option) -> str:
    """Return the least budget that is enough for a job, and what it buys; `found` is done in time without a budget."""
    bought = [found]

    def ask_within(usd_per_hour: float) -> float | None:
        option = _least_bill(scenario.with_objectives(budget_usd_per_hour=usd_per_hour), job)
        if option is None:
            return None
        bought.append(option)
        return option.bill.usd_per_hour

    usd_per_hour = least_budget(found.bill.usd_per_hour, ask_within)
    machine = bought[-1].machine
    provider = bought[-1].offer.provider if bought[-1].offer else OWN
    return smallest_budget(usd_per_hour, machine.num_accelerators, machine.accelerator, provider)


def _least_bill(scenario: Scenario, job: BatchJob) -> Option | None:
    """Return the option of a question that costs least an hour; None without an answer."""
    try:
        options = recommend_batch(scenario, job, suggests=False).options
    except InfeasibleError:
        return None
    return min(options, key=lambda option: option.bill.usd_per_hour)


def with_deadlines(
    found: Decision, scenario: Scenario, job: BatchJob, deadlines_s: Sequence[float]
) -> Decision:
    """An answer with what to take for each of several deadlines.

    Raises: UnknownNameError: a name is in no record.
    """
    rungs = []
    for deadline_s in deadlines_s:
        pick: Option | None = found.options[0]
        if deadline_s != job.deadline_s:
            try:
                pick = recommend_batch(scenario, replace(job, deadline_s=deadline_s), suggests=False).options[
                    0
                ]
            except InfeasibleError:
                pick = None
        reason = NothingCarries("nothing is done by then") if pick is None else None
        rungs.append(Rung(pick, reason, deadline_s=deadline_s))
    return replace(found, ladder=tuple(rungs))


@dataclass(order=True, slots=True)
class _Entry:
    """A candidate with the least that the job can cost on it; the replica is known from the second bound on."""

    usd_bound: float
    order: int
    candidate: Candidate
    ways: tuple[Placement, ...]
    requests_per_s: float
    """Most that a replica may answer, by the last bound."""
    firm_ways: tuple[Placement, ...] = ()
    """The cheapest ways to buy it at prices that are safe to take."""
    replica: ReplicaModel | None = None
    measured: tuple[float, float, float] | None = None
    """Steady rate of a replica [requests/s], its mean batch, and what own boards draw over their rated power, once it
    was simulated."""


def _entries(scenario: Scenario, job: BatchJob, model: Model, reasons: dict[str, Reason]) -> Iterator[_Entry]:
    traffic = scenario.traffic
    order = itertools.count()
    offers, chips = market(scenario.constraints, scenario.as_of, scenario.calibration)
    engines = scenario.constraints.engines_of(engine_catalog.all_engines())
    check_classes(model, engines, named_accelerators(scenario.constraints))
    for name, chip in chips.items():
        candidates, reason = candidates_within(scenario, chip, model, engines)
        if reason is not None:
            reasons[name] = reason
            continue
        for candidate in candidates:
            size = candidate.deployment.accelerators_per_replica
            able = placements(size, offers.get(name, ()), chip)
            firm = firm_ways(scenario, able)
            ways = pareto_placements(able, scenario.as_of, scenario.beside)
            rate = roofline_requests_per_s([candidate], traffic, _NO_PROMISE)[0] if ways else 0.0
            drawn = least_drawn_fraction(scenario.constraints, chip)
            bound = cheapest_batch(ways, float(rate), scenario, job, candidate, drawn)
            if bound is None:
                keep_furthest(reasons, name, MissesDeadline(by_roofline=True) if ways else NotForSale())
                continue
            yield _Entry(
                bound.usd,
                next(order),
                candidate,
                ways,
                float(rate),
                pareto_placements(firm, scenario.as_of, scenario.beside),
            )


def _dearer(
    entries: Sequence[_Entry], best: Mapping[str, _Run], options: Sequence[Option]
) -> tuple[Rejected, ...]:
    """Return the accelerators that finish the job and are no option, by the least that the job costs on them."""
    shown = {option.machine.accelerator for option in options}
    limit_usd = options[-1].job_usd.value
    bounds = {
        each.candidate.deployment.accelerator.id: each.usd_bound for each in sorted(entries, reverse=True)
    }
    costs = {
        name: best[name].purchase.usd if name in best else max(usd, limit_usd) for name, usd in bounds.items()
    }
    return tuple(
        Rejected(name, CostsMore(usd, limit_usd, len(options), is_bound=name not in best, per="for the job"))
        for name, usd in sorted(costs.items(), key=lambda each: each[1])
        if name not in shown
    )


def _at_firm_prices(entry: _Entry, scenario: Scenario, job: BatchJob) -> _Entry | None:
    """The candidate as it is safe to take, with what is known of it; None where it is not."""
    drawn = least_drawn_fraction(scenario.constraints, entry.candidate.deployment.accelerator)
    bound = cheapest_batch(entry.firm_ways, entry.requests_per_s, scenario, job, entry.candidate, drawn)
    return None if bound is None else replace(entry, usd_bound=bound.usd, ways=entry.firm_ways)


def _search(
    scenario: Scenario,
    job: BatchJob,
    entries: list[_Entry],
    reasons: dict[str, Reason],
    width: int,
    *,
    is_safe: bool = False,
) -> tuple[dict[str, _Run], int]:
    """Return the cheapest run of each accelerator, and how many candidates were simulated.

    Candidates are tried by their bounds until none can be among the first `width`. If `is_safe`, only runs count
    whose kernels were measured, whose engine has the model's class, and which are likely to be done in time.
    """
    heapq.heapify(entries)
    best: dict[str, _Run] = {}
    simulated = 0
    while entries:
        entry = heapq.heappop(entries)
        name = entry.candidate.deployment.accelerator.id
        known = sorted(run.purchase.usd for run in best.values())
        if len(known) >= width and entry.usd_bound >= known[width - 1]:
            _leave(entry, entries, known[width - 1], best, reasons)
            break
        if name in best and entry.usd_bound >= best[name].purchase.usd:
            continue
        if entry.replica is None:
            _tighten(entry, entries, scenario, job, reasons)
            continue
        if is_safe and (entry.replica.basis == "assumed" or doubt_of(entry.candidate.deployment)):
            continue
        simulated += entry.measured is None
        run = _simulate_job(entry, scenario, job, is_safe=is_safe)
        if run is not None and (name not in best or run.purchase.usd < best[name].purchase.usd):
            best[name] = run
    return best, simulated


def _leave(
    last: _Entry, entries: list[_Entry], limit: float, best: Mapping[str, _Run], reasons: dict[str, Reason]
) -> None:
    """Say of accelerators that were never simulated how cheap they could be at best."""
    for entry in sorted([last, *entries]):
        name = entry.candidate.deployment.accelerator.id
        if name not in best:
            dearer = CostsMore(entry.usd_bound, limit, None, is_bound=True, per="for the job")
            keep_furthest(reasons, name, dearer)


def _tighten(
    entry: _Entry, entries: list[_Entry], scenario: Scenario, job: BatchJob, reasons: dict[str, Reason]
) -> None:
    """Model the replica and bound the job by its step surface."""
    traffic = scenario.traffic
    name = entry.candidate.deployment.accelerator.id
    try:
        entry.replica = model_replica(
            entry.candidate.deployment,
            settings=EngineSettings(memory_fraction=entry.candidate.memory_fraction),
            mean_input_tokens=traffic.mean_input_tokens,
            mean_output_tokens=traffic.mean_output_tokens,
            max_context_tokens=traffic.longest_request_tokens,
            context_spread=spread_of_contexts(traffic),
        )
    except AdvisorError as error:
        reasons.setdefault(name, NotSupported(error.why or error.what))
        return
    rate = surface_requests_per_s(entry.replica, traffic, _NO_PROMISE)
    drawn = least_drawn_fraction(scenario.constraints, entry.candidate.deployment.accelerator)
    bound = cheapest_batch(entry.ways, rate, scenario, job, entry.candidate, drawn)
    if bound is None:
        keep_furthest(reasons, name, MissesDeadline(by_roofline=False))
        return
    entry.usd_bound = bound.usd
    entry.requests_per_s = rate
    heapq.heappush(entries, entry)


def _simulate_job(entry: _Entry, scenario: Scenario, job: BatchJob, *, is_safe: bool) -> _Run | None:
    """Price the job at the steady rate of a closed loop that keeps every slot full; where it must be safe, on enough
    units that it is likely to be done in time."""
    replica = entry.replica
    assert replica is not None
    if entry.measured is None:
        entry.measured = _full_load(replica, scenario, job)
    rate, mean_batch, drawn = entry.measured
    if not rate or not math.isfinite(rate):
        return None
    if is_safe:
        slowest, _ = factors("throughput", class_of(replica, mean_batch))
        job = replace(job, deadline_s=job.deadline_s / allowance(1.0 / slowest))
    purchase = cheapest_batch(entry.ways, rate, scenario, job, entry.candidate, drawn)
    return None if purchase is None else _Run(entry.candidate, replica, rate, mean_batch, purchase)


def _full_load(replica: ReplicaModel, scenario: Scenario, job: BatchJob) -> tuple[float, float, float]:
    """Return the steady rate of a replica whose slots are always full [requests/s], its mean batch, and what its own
    boards draw over their rated power."""
    traffic = scenario.traffic
    fitting = int(replica.memory.kv_capacity_tokens / traffic.tokens_per_request)
    slots = max(1, min(replica.policy.num_slots, fitting))
    requests = min(_MOST_REQUESTS, max(_LEAST_REQUESTS, 4 * slots), job.num_requests)
    clients = min(slots, requests)
    workload = Workload(ClosedLoop(clients), lengths_of(traffic), requests)
    result = simulate(replica.surface, replica.policy, workload, seed=scenario.seed)
    drawn = run_drawn_fraction(scenario.constraints, result, replica)
    return result.steady_requests_per_s or result.requests_per_s, result.mean_batch, drawn


def _option(rank: int, run: _Run, scenario: Scenario, job: BatchJob) -> Option:
    purchase = run.purchase
    traffic = scenario.traffic
    price = purchase.way.price
    class_name = class_of(run.replica, run.mean_batch)
    per_replica = with_interval(run.requests_per_s, "throughput", class_name, run.replica.basis)
    rate = per_replica.scale(purchase.num_replicas)
    duration_s = purchase.duration_s * rate.value / rate
    per_hour = purchase.usd_per_hour
    machines = bill_of(price, per_hour, ExtraItems(), duration_s=duration_s).usd
    assert machines is not None
    tokens = job.num_requests * traffic.tokens_per_request
    machine = machine_of(purchase.way, purchase.num_units)
    window = launch_settings(run.candidate, scenario).max_model_len
    return Option(
        rank=rank,
        role="other",
        machine=machine,
        layout=layout_of(run.candidate, purchase.num_replicas, window, scenario.constraints),
        offer=offer_of(price, scenario.as_of),
        bill=bill_of(price, per_hour, scenario.beside, duration_s=duration_s),
        performance=JobPerformance(
            usd_per_million_tokens=machines.scale(MEGA / tokens),
            duration_s=duration_s,
            requests_per_s=rate,
            output_tokens_per_s=rate.scale(traffic.mean_output_tokens),
            mean_batch=run.mean_batch,
            holds=holds_word(duration_s, job.deadline_s),
            basis=run.replica.basis,
        ),
        launch=launch_of(run.candidate, scenario, machine),
        reasons=(
            *filter(None, (doubt_of(run.candidate.deployment),)),
            *doubts_of(run.replica.basis, price, scenario.as_of),
            *doubt_of_limit(duration_s, job.deadline_s),
        ),
        explanation=Explanation(
            memory_bytes=memory_of(run.replica),
            kv_capacity_tokens=run.replica.memory.kv_capacity_tokens,
            basis_notes=tuple(sorted(run.replica.transferred_operators)),
        ),
    )


def _headline(option: Option, model: Model, job: BatchJob) -> str:
    offer = option.offer
    duration_s = option.batched.duration_s.value
    count = accelerator_words(option)
    deal = f"your own {count}"
    if offer is not None:
        deal = f"{count} from {seller_words(offer)}"
    return (
        f"{model.name}: {deal} finish {job.num_requests:,} requests in {plain_number(duration_s / HOUR_S)} h for "
        f"${option.job_usd.value:,.2f}"
    )
