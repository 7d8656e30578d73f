"""Best-first search: tighten the most promising bound until no bound left can beat what was simulated."""

import heapq
import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from advisor.catalog.errors import AdvisorError
from advisor.catalog.schema import Accelerator, Engine, Model, Price
from advisor.recommend.candidates import Candidate, candidates_of
from advisor.recommend.capacity import VARIANT_TOLERANCE, Capacity, confirm, highest_load
from advisor.recommend.offers import Placement, placements
from advisor.recommend.purchase import (
    Purchase,
    cheapest_purchase,
    least_usd_per_million_tokens,
    replicas_for,
)
from advisor.recommend.roofline_bound import max_requests_per_s as roofline_requests_per_s
from advisor.recommend.scenario import Scenario
from advisor.recommend.surface_bound import max_requests_per_s as surface_requests_per_s
from advisor.simulator.calibrated_device import calibrated_accelerator
from advisor.simulator.engine_kernels import operator_library
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.replica_model import ReplicaModel, model_replica

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Found:
    """A simulated candidate: its load per replica and what it costs."""

    candidate: Candidate
    replica: ReplicaModel
    capacity: Capacity
    purchase: Purchase

    @property
    def accelerator_id(self) -> str:
        return self.candidate.deployment.accelerator.id

    @property
    def usd_per_million_tokens(self) -> float:
        return self.purchase.usd_per_million_tokens


@dataclass(slots=True)
class SearchOutcome:
    """What the search found, by accelerator, and what it skipped and why."""

    found: dict[str, list[Found]] = field(default_factory=lambda: defaultdict(list))
    """Confirmed by a long run, cheapest first."""
    estimated: dict[str, list[Found]] = field(default_factory=lambda: defaultdict(list))
    """Simulated in short runs only."""
    reasons: dict[str, str] = field(default_factory=dict)
    bounds: dict[str, float] = field(default_factory=dict)
    """Best bound [usd per million tokens] of accelerators that were left out because it is too dear."""
    num_candidates: int = 0
    num_modelled: int = 0
    num_simulated: int = 0
    num_requests: int = 0
    screen_wall_s: float = 0.0


@dataclass(order=True, slots=True)
class _Entry:
    """A candidate at one of four stages: bounded by its roofline, by its surface (replica known), estimated by short
    runs (capacity known), and then confirmed by a long one (a Found)."""

    usd_bound: float
    order: int
    candidate: Candidate = field(compare=False)
    ways: tuple[Placement, ...] = field(compare=False)
    """How its replicas can be bought."""
    rate_bound: float = field(compare=False)
    replica: ReplicaModel | None = field(compare=False, default=None)
    capacity: Capacity | None = field(compare=False, default=None)


def search(
    scenario: Scenario,
    model: Model,
    accelerators: Mapping[str, Accelerator],
    engines: tuple[Engine, ...],
    offers: Mapping[str, tuple[Price, ...]],
    *,
    progress: Progress = lambda message: None,
    exhaustive: bool = False,
) -> SearchOutcome:
    """Rank accelerators by dollars per million tokens, simulating only candidates whose bound could still win.

    A heap holds every candidate at its optimistic cost. The cheapest is tightened: from the roofline to the step-cost
    surface, to an estimate by short simulated runs, to a long confirming run. The search ends when the next bound is
    dearer than the `top`-th best confirmed accelerator. `exhaustive` confirms everything (to check the search).

    Source: best-first branch and bound; own formulation.
    """
    started = time.perf_counter()
    outcome = SearchOutcome()
    heap = _screen(scenario, model, accelerators, engines, offers, outcome)
    outcome.screen_wall_s = time.perf_counter() - started
    libraries: dict[tuple[str, str, str], OperatorLibrary] = {}
    while heap:
        entry = heapq.heappop(heap)
        if not exhaustive and entry.usd_bound > _cost_to_beat(scenario, outcome, entry):
            name = entry.candidate.deployment.accelerator.id
            if not outcome.found.get(name):
                outcome.bounds.setdefault(name, entry.usd_bound)
            continue
        if entry.replica is None:
            _tighten(scenario, entry, libraries, outcome, heap)
        elif entry.capacity is None:
            deployment = entry.candidate.deployment
            size, name = deployment.accelerators_per_replica, deployment.accelerator.id
            progress(f"simulating {deployment.model.id} on {size} x {name} ({deployment.engine.id})")
            _estimate(scenario, entry, outcome, heap)
        else:
            _confirm(scenario, entry, outcome, exhaustive=exhaustive)
    return outcome


def _screen(
    scenario: Scenario,
    model: Model,
    accelerators: Mapping[str, Accelerator],
    engines: tuple[Engine, ...],
    offers: Mapping[str, tuple[Price, ...]],
    outcome: SearchOutcome,
) -> list[_Entry]:
    traffic, constraints = scenario.traffic, scenario.constraints
    measured = scenario.calibration
    pool: list[tuple[Candidate, tuple[Placement, ...]]] = []
    for record in accelerators.values():
        accelerator = calibrated_accelerator(record, measured) if record.is_ranked else record
        candidates, reason = candidates_of(
            accelerator,
            model,
            engines,
            precisions=constraints.precisions,
            mean_context_tokens=traffic.mean_context_tokens,
            max_context_tokens=float(traffic.longest_request_tokens),
            max_accelerators=constraints.max_accelerators,
            is_calibrated=accelerator is not record,
        )
        if not candidates:
            outcome.reasons[accelerator.id] = reason
            continue
        if accelerator.id not in offers:
            outcome.reasons[accelerator.id] = "no price within the constraints on this date"
            continue
        placed = [
            (candidate, tuple(found))
            for candidate in candidates
            if (
                found := placements(
                    candidate.deployment.accelerators_per_replica, offers[accelerator.id], accelerator
                )
            )
        ]
        if not placed:
            outcome.reasons[accelerator.id] = "nobody sells enough of them in one node for this model"
        pool += placed
    outcome.num_candidates = len(pool)
    rates = roofline_requests_per_s([candidate for candidate, _ in pool], traffic, scenario.objectives)
    heap = []
    for order, ((candidate, ways), rate) in enumerate(zip(pool, rates.tolist(), strict=True)):
        accelerator_id = candidate.deployment.accelerator.id
        if rate <= 0:
            outcome.reasons.setdefault(
                accelerator_id, "even its datasheet limits miss the latency objectives"
            )
            continue
        usd = least_usd_per_million_tokens(scenario, ways, rate)
        if usd is None:
            outcome.reasons.setdefault(accelerator_id, _not_to_be_had(scenario))
            continue
        heap.append(_Entry(usd, order, candidate, ways, rate))
    heapq.heapify(heap)
    return heap


def _tighten(
    scenario: Scenario,
    entry: _Entry,
    libraries: dict[tuple[str, str, str], OperatorLibrary],
    outcome: SearchOutcome,
    heap: list[_Entry],
) -> None:
    deployment, traffic = entry.candidate.deployment, scenario.traffic
    key = (deployment.accelerator.id, deployment.engine.id, deployment.weight_dtype)
    if key not in libraries:
        libraries[key] = operator_library(deployment)
    try:
        replica = model_replica(
            deployment,
            mean_input_tokens=traffic.mean_input_tokens,
            mean_output_tokens=traffic.mean_output_tokens,
            max_context_tokens=traffic.longest_request_tokens,
            library=libraries[key],
        )
    except AdvisorError as error:
        outcome.reasons.setdefault(deployment.accelerator.id, error.why or error.what)
        return
    outcome.num_modelled += 1
    rate = min(entry.rate_bound, surface_requests_per_s(replica, traffic, scenario.objectives))
    if rate <= 0:
        outcome.reasons.setdefault(
            deployment.accelerator.id, "misses the time per output token even when alone"
        )
        return
    usd = least_usd_per_million_tokens(scenario, entry.ways, rate)
    if usd is None:
        outcome.reasons.setdefault(deployment.accelerator.id, _not_to_be_had(scenario))
        return
    heapq.heappush(heap, _Entry(usd, entry.order, entry.candidate, entry.ways, rate, replica))


def _estimate(scenario: Scenario, entry: _Entry, outcome: SearchOutcome, heap: list[_Entry]) -> None:
    """Find the highest load by short runs and put the candidate back at the cost that this gives."""
    assert entry.replica is not None
    accelerator_id = entry.candidate.deployment.accelerator.id
    capacity = highest_load(
        entry.replica, scenario.traffic, scenario.objectives, bound_per_s=entry.rate_bound, seed=scenario.seed
    )
    outcome.num_simulated += 1
    if capacity is None:
        outcome.reasons.setdefault(accelerator_id, "misses the latency objectives at any load")
        return
    outcome.num_requests += capacity.num_requests
    found = _priced(scenario, entry, capacity)
    if found is None:
        outcome.reasons.setdefault(accelerator_id, _not_to_be_had(scenario))
        return
    outcome.estimated[accelerator_id].append(found)
    heapq.heappush(heap, replace(entry, usd_bound=found.usd_per_million_tokens, capacity=capacity))


def _confirm(scenario: Scenario, entry: _Entry, outcome: SearchOutcome, *, exhaustive: bool) -> None:
    """Hold a candidate to a long run at the load that it will carry."""
    assert entry.replica is not None
    assert entry.capacity is not None
    accelerator_id = entry.candidate.deployment.accelerator.id
    aim = replace(entry.capacity, load=_load_per_replica(scenario, entry.capacity))
    # At the highest load cost is inverse to it; a given load leaves nothing to vary.
    open_ended = scenario.traffic.rate_per_s is None and scenario.traffic.concurrency is None
    own = outcome.found.get(accelerator_id)
    cutoff = own[0].usd_per_million_tokens if own else _cost_of_last(scenario, outcome)
    least = 0.0
    if open_ended and not exhaustive and math.isfinite(cutoff):
        least = min(aim.load, aim.load * entry.usd_bound / cutoff)
    hold = partial(confirm, entry.replica, scenario.traffic, scenario.objectives, seed=scenario.seed)
    capacity = hold(aim, least=least)
    if capacity is None and own and least:
        # Not better than what the accelerator already offers: shown beside it, found with less care.
        capacity = hold(replace(aim, load=least), tolerance=VARIANT_TOLERANCE)
    if capacity is None:
        _drop(outcome, entry)
        if least:
            outcome.bounds.setdefault(accelerator_id, cutoff)
        else:
            outcome.reasons.setdefault(accelerator_id, "misses the latency objectives in a long run")
        return
    outcome.num_requests += capacity.num_requests - entry.capacity.num_requests
    found = _priced(scenario, entry, capacity)
    if found is None:
        outcome.reasons.setdefault(accelerator_id, _not_to_be_had(scenario))
        return
    _drop(outcome, entry)
    outcome.found[accelerator_id].append(found)
    outcome.found[accelerator_id].sort(key=lambda option: option.usd_per_million_tokens)


def _drop(outcome: SearchOutcome, entry: _Entry) -> None:
    """Forget the estimate of a candidate that a long run has judged."""
    name = entry.candidate.deployment.accelerator.id
    estimated = outcome.estimated[name]
    outcome.estimated[name] = [found for found in estimated if found.candidate is not entry.candidate]


def _load_per_replica(scenario: Scenario, capacity: Capacity) -> float:
    """What one replica will carry: its share of the load asked for, or the most that it can."""
    asked = scenario.traffic.rate_per_s or scenario.traffic.concurrency
    if asked is None:
        return capacity.load
    share = asked / replicas_for(asked, capacity.load)
    return math.ceil(share) if scenario.traffic.concurrency else share


def _priced(scenario: Scenario, entry: _Entry, capacity: Capacity) -> Found | None:
    """What a simulated candidate costs at the load asked for, or at its highest; None where it cannot be bought."""
    assert entry.replica is not None
    purchase = cheapest_purchase(scenario, entry.ways, capacity.load, capacity.requests_per_s)
    return Found(entry.candidate, entry.replica, capacity, purchase) if purchase else None


def _not_to_be_had(scenario: Scenario) -> str:
    if scenario.constraints.own:
        return "the hardware that is there does not carry this load"
    return "costs more than the budget"


def _cost_to_beat(scenario: Scenario, outcome: SearchOutcome, entry: _Entry) -> float:
    """Above this bound a candidate cannot change the answer: it neither improves its own accelerator's best nor
    enters the best `top` accelerators."""
    own = outcome.found.get(entry.candidate.deployment.accelerator.id)
    limit = _cost_of_last(scenario, outcome)
    return min(limit, own[0].usd_per_million_tokens) if own else limit


def _cost_of_last(scenario: Scenario, outcome: SearchOutcome) -> float:
    """Cost of the last of the best `top` accelerators [USD per million tokens]; infinite while there are fewer."""
    best = sorted(options[0].usd_per_million_tokens for options in outcome.found.values() if options)
    return best[scenario.top - 1] if len(best) >= scenario.top else math.inf
