"""A batch of requests with a deadline and nobody waiting: the cheapest hardware that is done in time, spot included."""

import heapq
import itertools
import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from advisor.catalog import engines as engine_catalog
from advisor.catalog import models as model_catalog
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.schema import Model
from advisor.catalog.units import DAY_S, HOUR_S, MEGA
from advisor.decide.batch.purchase import BatchPurchase, cheapest_batch
from advisor.decide.batch.result import BatchJob, BatchOption, BatchRecommendation, BatchRung
from advisor.decide.bounds import roofline_requests_per_s, surface_requests_per_s
from advisor.decide.candidates import Candidate, candidates_of
from advisor.decide.decision import Rejected
from advisor.decide.load_runs import lengths_of, spread_of_contexts
from advisor.decide.offers import Placement, market, named, placements, seller_words, stale_price_warnings
from advisor.decide.purchase import bill_of, job_usd, smallest_budget
from advisor.decide.reason import CostsMore, MissesDeadline, NotForSale, NotSupported, Reason
from advisor.decide.scenario import Objectives, Scenario
from advisor.decide.standing import by_standing
from advisor.simulator.intervals import with_interval
from advisor.simulator.quantity import Quantity
from advisor.simulator.replica_model import ReplicaModel, model_replica
from advisor.simulator.serving import ClosedLoop, Workload, simulate
from advisor.simulator.serving_prediction import class_of

_NO_PROMISE = Objectives(ttft_p99_s=DAY_S, tpot_p99_s=DAY_S)
_LATER_S = (HOUR_S, 6 * HOUR_S, DAY_S, 7 * DAY_S, 30 * DAY_S)
"""Deadlines that are tried where one is missed."""
_LEAST_REQUESTS = 400
_MOST_REQUESTS = 4000


@dataclass(frozen=True, slots=True)
class _Run:
    """A simulated replica and the cheapest way to buy enough of it."""

    candidate: Candidate
    replica: ReplicaModel
    requests_per_s: float
    mean_batch: float
    purchase: BatchPurchase


def recommend_batch(scenario: Scenario, job: BatchJob, *, suggests: bool = True) -> BatchRecommendation:
    """The cheapest hardware that finishes a batch of requests before a deadline, ranked by dollars of the whole job.

    Candidates are tried in the order of optimistic bounds: the roofline's, then the step surface's, then a simulated
    closed loop that keeps every slot full; none that was not simulated could be cheaper.

    Raises: InfeasibleError: nothing is done in time. UnknownNameError: a name is in no record.
    """
    started = time.perf_counter()
    model = model_catalog.get(scenario.model).record
    reasons: dict[str, Reason] = {}
    entries = list(_entries(scenario, job, model, reasons))
    best, simulated = _search(scenario, job, entries, reasons)
    ranked = sorted(best.values(), key=lambda run: run.purchase.usd)[: scenario.top]
    if not ranked:
        raise _nothing(scenario, job, model, reasons, suggests=suggests)
    options = by_standing(
        [_option(rank, run, scenario, job) for rank, run in enumerate(ranked, 1)],
        [run.purchase.way.price for run in ranked],
        lambda option: option.usd,
        scenario.as_of,
    )
    shown = {option.accelerator for option in options}
    rejected = tuple(Rejected(name, reason) for name, reason in reasons.items() if name not in shown)
    return BatchRecommendation(
        "batch_plan", model.id, "batch", _headline(options[0], model, job), options, rejected, len(entries), simulated,
        time.perf_counter() - started, stale_price_warnings([option.price_age_days for option in options]),
    )  # fmt: skip


def _nothing(
    scenario: Scenario, job: BatchJob, model: Model, reasons: Mapping[str, Reason], *, suggests: bool
) -> InfeasibleError:
    """Why nothing is done in time; with the nearest budget, or deadline, that is enough."""
    fix = "a later --deadline, a higher --max-gpus or --budget, or another --precision"
    budget = scenario.objectives.budget_usd_per_hour
    free = scenario.model_copy(update={"objectives": _NO_PROMISE})
    later = [job.deadline_s] if budget is not None else [s for s in _LATER_S if s > job.deadline_s]
    for deadline_s in later if suggests else ():
        try:
            options = recommend_batch(free, replace(job, deadline_s=deadline_s), suggests=False).options
        except InfeasibleError:
            continue
        least = min(options, key=lambda option: option.usd_per_hour)
        fix = f"--deadline {deadline_s / HOUR_S:g}h: {least.num_accelerators} x {least.accelerator} are done by then"
        if budget is not None:
            fix = smallest_budget(
                least.usd_per_hour, least.num_accelerators, least.accelerator, least.provider
            )
        break
    common = sorted(
        Counter(reasons.values()).items(),
        key=lambda item: (not isinstance(item[0], MissesDeadline), -item[1]),
    )
    return InfeasibleError(
        f"nothing finishes {job.num_requests:,} requests to {model.id} in {job.deadline_s / HOUR_S:.3g} h",
        why="; ".join(str(reason) for reason, _ in common[:3]),
        fix=fix,
    )


def with_deadlines(
    found: BatchRecommendation, scenario: Scenario, job: BatchJob, deadlines_s: Sequence[float]
) -> BatchRecommendation:
    """An answer with what to take for each of several deadlines.

    Raises: UnknownNameError: a name is in no record.
    """
    rungs = []
    for deadline_s in deadlines_s:
        pick: BatchOption | None = found.options[0]
        if deadline_s != job.deadline_s:
            try:
                pick = recommend_batch(scenario, replace(job, deadline_s=deadline_s), suggests=False).options[
                    0
                ]
            except InfeasibleError:
                pick = None
        rungs.append(BatchRung(deadline_s, pick))
    return replace(found, ladder=tuple(rungs))


@dataclass(order=True, slots=True)
class _Entry:
    """A candidate with the least that the job can cost on it; the replica is known from the second bound on."""

    usd_bound: float
    order: int
    candidate: Candidate
    ways: tuple[Placement, ...]
    replica: ReplicaModel | None = None


def _entries(scenario: Scenario, job: BatchJob, model: Model, reasons: dict[str, Reason]) -> Iterator[_Entry]:
    traffic, order = scenario.traffic, itertools.count()
    offers, chips = market(scenario.constraints, scenario.as_of, scenario.calibration)
    wanted = scenario.constraints.engines
    engines = [engine for engine in engine_catalog.all_engines() if not wanted or engine.id in wanted]
    for name, chip in chips.items():
        candidates, reason = candidates_of(
            chip,
            model,
            engines,
            precisions=scenario.constraints.precisions,
            mean_context_tokens=traffic.mean_context_tokens,
            max_context_tokens=traffic.longest_request_tokens,
            max_accelerators=scenario.constraints.max_accelerators,
        )
        if reason is not None:
            reasons[name] = reason
            continue
        for candidate in candidates:
            size = candidate.deployment.accelerators_per_replica
            ways = tuple(placements(size, offers.get(name, ()), chip)[:3])
            rate = roofline_requests_per_s([candidate], traffic, _NO_PROMISE)[0] if ways else 0.0
            bound = cheapest_batch(ways, float(rate), scenario, job, candidate)
            if bound is None:
                reasons.setdefault(name, MissesDeadline(by_roofline=True) if ways else NotForSale())
                continue
            yield _Entry(bound.usd, next(order), candidate, ways)


def _search(
    scenario: Scenario, job: BatchJob, entries: list[_Entry], reasons: dict[str, Reason]
) -> tuple[dict[str, _Run], int]:
    """Best first until no bound can be among the top; the best of each accelerator counts."""
    heapq.heapify(entries)
    best: dict[str, _Run] = {}
    simulated = 0
    while entries:
        entry = heapq.heappop(entries)
        name = entry.candidate.deployment.accelerator.id
        known = sorted(run.purchase.usd for run in best.values())
        if len(known) >= scenario.top and entry.usd_bound >= known[scenario.top - 1]:
            _leave(entry, entries, known[scenario.top - 1], best, reasons)
            break
        if name in best and entry.usd_bound >= best[name].purchase.usd:
            continue
        if entry.replica is None:
            _tighten(entry, entries, scenario, job, reasons)
            continue
        run = _simulated(entry, scenario, job)
        simulated += 1
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
            reasons.setdefault(
                name, CostsMore(entry.usd_bound, limit, None, is_bound=True, per="for the job")
            )


def _tighten(
    entry: _Entry, entries: list[_Entry], scenario: Scenario, job: BatchJob, reasons: dict[str, Reason]
) -> None:
    """Model the replica and bound the job by its step surface."""
    traffic, name = scenario.traffic, entry.candidate.deployment.accelerator.id
    try:
        entry.replica = model_replica(
            entry.candidate.deployment,
            mean_input_tokens=traffic.mean_input_tokens,
            mean_output_tokens=traffic.mean_output_tokens,
            max_context_tokens=traffic.longest_request_tokens,
            context_spread=spread_of_contexts(traffic),
        )
    except AdvisorError as error:
        reasons.setdefault(name, NotSupported(error.why or error.what))
        return
    rate = surface_requests_per_s(entry.replica, traffic, _NO_PROMISE)
    bound = cheapest_batch(entry.ways, rate, scenario, job, entry.candidate)
    if bound is None:
        reasons.setdefault(name, MissesDeadline(by_roofline=False))
        return
    entry.usd_bound = bound.usd
    heapq.heappush(entries, entry)


def _simulated(entry: _Entry, scenario: Scenario, job: BatchJob) -> _Run | None:
    """A closed loop that keeps every slot full, and what the job costs at its steady rate."""
    replica = entry.replica
    assert replica is not None
    traffic = scenario.traffic
    context = traffic.mean_input_tokens + traffic.mean_output_tokens
    slots = max(1, min(replica.policy.num_slots, int(replica.memory.kv_capacity_tokens / context)))
    requests = min(_MOST_REQUESTS, max(_LEAST_REQUESTS, 4 * slots), job.num_requests)
    clients = min(slots, requests)
    workload = Workload(ClosedLoop(clients), lengths_of(traffic), requests)
    result = simulate(replica.surface, replica.policy, workload, seed=scenario.seed)
    rate = result.steady_requests_per_s or result.requests_per_s
    if not rate or not math.isfinite(rate):
        return None
    purchase = cheapest_batch(entry.ways, rate, scenario, job, entry.candidate)
    return None if purchase is None else _Run(entry.candidate, replica, rate, result.mean_batch, purchase)


def _option(rank: int, run: _Run, scenario: Scenario, job: BatchJob) -> BatchOption:
    deployment, purchase, traffic = run.candidate.deployment, run.purchase, scenario.traffic
    price = purchase.way.price
    class_name = class_of(run.replica, run.mean_batch)
    per_replica = with_interval(run.requests_per_s, "throughput", class_name, run.replica.basis)
    rate = per_replica.scaled(purchase.num_replicas)
    duration = purchase.duration_s * rate.value / rate
    per_hour = purchase.num_units * purchase.way.usd_per_unit_hour
    value, low, high = (
        job_usd(price.term, per_hour, end) for end in (duration.value, duration.low, duration.high)
    )
    usd = Quantity(value, low, high, duration.basis)
    tokens = job.num_requests * (traffic.mean_input_tokens + traffic.mean_output_tokens)
    meets = "sure" if duration.high <= job.deadline_s else "likely"
    return BatchOption(
        rank=rank,
        accelerator=deployment.accelerator.id,
        accelerator_name=deployment.accelerator.name,
        num_accelerators=purchase.num_replicas * deployment.accelerators_per_replica,
        num_replicas=purchase.num_replicas,
        tensor_parallel=deployment.tensor_parallel,
        pipeline_parallel=deployment.pipeline_parallel,
        expert_parallel=deployment.expert_parallel,
        data_parallel=deployment.data_parallel,
        weight_dtype=deployment.weight_dtype,
        engine=deployment.engine.id,
        **named(price, scenario.as_of),
        usd_per_hour=per_hour,
        bill=bill_of(price, per_hour, scenario.beside, job_s=purchase.duration_s),
        usd=usd,
        usd_per_million_tokens=usd.scaled(MEGA / tokens),
        duration_s=duration,
        requests_per_s=rate,
        output_tokens_per_s=rate.scaled(traffic.mean_output_tokens),
        mean_batch=run.mean_batch,
        meets_deadline=meets,
    )


def _headline(option: BatchOption, model: Model, job: BatchJob) -> str:
    return (
        f"{model.name}: {option.num_accelerators} × {option.accelerator_name} from "
        f"{seller_words(option.provider, option.price_kind)}, {option.term.replace('_', '-')}, finish "
        f"{job.num_requests:,} requests in {option.duration_s.value / HOUR_S:.3g} h for ${option.usd.value:,.2f}"
    )
