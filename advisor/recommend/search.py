"""Best-first search: tighten the most promising bound until no bound left can beat what was simulated."""

import heapq
import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from advisor.catalog.errors import AdvisorError
from advisor.catalog.schema import Accelerator, Engine, Model, Price
from advisor.recommend.candidates import Candidate, candidates_of
from advisor.recommend.capacity import Capacity, confirm, highest_load
from advisor.recommend.offers import Placement, placements
from advisor.recommend.roofline_bound import max_requests_per_s as roofline_requests_per_s
from advisor.recommend.scenario import Scenario
from advisor.recommend.surface_bound import max_requests_per_s as surface_requests_per_s
from advisor.simulator.device import device_of
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.replica_model import ReplicaModel, model_replica

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Found:
    """A simulated candidate: its load per replica and what it costs."""

    candidate: Candidate
    replica: ReplicaModel
    capacity: Capacity
    placement: Placement
    num_replicas: int
    num_units: int
    requests_per_s: float
    """Served by the whole deployment."""
    usd_per_million_tokens: float

    @property
    def accelerator_id(self) -> str:
        return self.candidate.deployment.accelerator.id

    @property
    def usd_per_hour(self) -> float:
        return self.num_units * self.placement.usd_per_unit_hour


@dataclass(slots=True)
class SearchOutcome:
    """What the search found, by accelerator, and what it skipped and why."""

    found: dict[str, list[Found]] = field(default_factory=lambda: defaultdict(list))
    """Confirmed by a long run, cheapest first."""
    estimated: dict[str, list[Found]] = field(default_factory=lambda: defaultdict(list))
    """Simulated in short runs."""
    reasons: dict[str, str] = field(default_factory=dict)
    bounds: dict[str, float] = field(default_factory=dict)
    """Best bound [usd per million tokens] of accelerators that were never simulated."""
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
    placement: Placement = field(compare=False)
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
    libraries: dict[tuple[str, str], OperatorLibrary] = {}
    while heap:
        entry = heapq.heappop(heap)
        if not exhaustive and entry.usd_bound > _cost_to_beat(scenario, outcome, entry):
            outcome.bounds.setdefault(entry.candidate.deployment.accelerator.id, entry.usd_bound)
            continue
        if entry.replica is None:
            _tighten(scenario, entry, libraries, outcome, heap)
        elif entry.capacity is None:
            deployment = entry.candidate.deployment
            size, name = deployment.accelerators_per_replica, deployment.accelerator.id
            progress(f"simulating {deployment.model.id} on {size} x {name} ({deployment.engine.id})")
            _estimate(scenario, entry, outcome, heap)
        else:
            _confirm(scenario, entry, outcome)
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
    pool: list[tuple[Candidate, Placement]] = []
    for accelerator in accelerators.values():
        candidates, reason = candidates_of(
            accelerator,
            model,
            engines,
            precisions=constraints.precisions,
            mean_context_tokens=traffic.mean_context_tokens,
            max_context_tokens=float(traffic.longest_request_tokens),
            max_accelerators=constraints.max_accelerators,
        )
        if not candidates:
            outcome.reasons[accelerator.id] = reason
            continue
        if accelerator.id not in offers:
            outcome.reasons[accelerator.id] = "no price within the constraints on this date"
            continue
        placed = [
            (candidate, ways[0])
            for candidate in candidates
            if (
                ways := placements(
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
    for order, ((candidate, placement), rate) in enumerate(zip(pool, rates.tolist(), strict=True)):
        accelerator_id = candidate.deployment.accelerator.id
        if rate <= 0:
            outcome.reasons.setdefault(
                accelerator_id, "even its datasheet limits miss the latency objectives"
            )
            continue
        heap.append(_Entry(_usd_bound(scenario, placement, rate), order, candidate, placement, rate))
    heapq.heapify(heap)
    return heap


def _tighten(
    scenario: Scenario,
    entry: _Entry,
    libraries: dict[tuple[str, str], OperatorLibrary],
    outcome: SearchOutcome,
    heap: list[_Entry],
) -> None:
    deployment, traffic = entry.candidate.deployment, scenario.traffic
    key = (deployment.accelerator.id, deployment.engine.id)
    if key not in libraries:
        libraries[key] = OperatorLibrary(device_of(deployment.accelerator), deployment.engine.id)
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
    usd = _usd_bound(scenario, entry.placement, rate)
    heapq.heappush(heap, _Entry(usd, entry.order, entry.candidate, entry.placement, rate, replica))


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
        outcome.reasons.setdefault(accelerator_id, "costs more than the budget")
        return
    outcome.estimated[accelerator_id].append(found)
    heapq.heappush(heap, replace(entry, usd_bound=found.usd_per_million_tokens, capacity=capacity))


def _confirm(scenario: Scenario, entry: _Entry, outcome: SearchOutcome) -> None:
    """Hold a candidate to a long run at the load that it will carry."""
    assert entry.replica is not None
    assert entry.capacity is not None
    accelerator_id = entry.candidate.deployment.accelerator.id
    load = _load_per_replica(scenario, entry, entry.capacity)
    aim = replace(entry.capacity, load=load)
    capacity = confirm(entry.replica, scenario.traffic, scenario.objectives, aim, scenario.seed)
    if capacity is None:
        outcome.reasons.setdefault(accelerator_id, "misses the latency objectives in a long run")
        return
    outcome.num_requests += capacity.num_requests - entry.capacity.num_requests
    found = _priced(scenario, entry, capacity)
    if found is None:
        outcome.reasons.setdefault(accelerator_id, "costs more than the budget")
        return
    outcome.found[accelerator_id].append(found)
    outcome.found[accelerator_id].sort(key=lambda option: option.usd_per_million_tokens)


def _load_per_replica(scenario: Scenario, entry: _Entry, capacity: Capacity) -> float:
    """What one replica will carry: its share of the load asked for, or the most that it can."""
    asked = scenario.traffic.rate_per_s or scenario.traffic.concurrency
    if asked is None:
        return capacity.load
    replicas = _replicas_for(asked, capacity.load)
    share = asked / replicas
    return math.ceil(share) if scenario.traffic.concurrency else share


def _replicas_for(asked: float, load_per_replica: float) -> int:
    return max(1, math.ceil(asked / load_per_replica - 1e-9))


def _priced(scenario: Scenario, entry: _Entry, capacity: Capacity) -> Found | None:
    """What a simulated candidate costs at the load asked for, or at its highest; None above the budget."""
    assert entry.replica is not None
    traffic, placement = scenario.traffic, entry.placement
    asked = traffic.rate_per_s or traffic.concurrency
    num_replicas = placement.replicas_per_unit if asked is None else _replicas_for(asked, capacity.load)
    num_units = math.ceil(num_replicas / placement.replicas_per_unit)
    served_per_s = traffic.rate_per_s or num_replicas * capacity.requests_per_s
    usd_per_hour = num_units * placement.usd_per_unit_hour
    budget = scenario.objectives.budget_usd_per_hour
    if budget is not None and usd_per_hour > budget:
        return None
    tokens = traffic.mean_input_tokens + traffic.mean_output_tokens
    usd = usd_per_million_tokens(usd_per_hour, served_per_s, tokens)
    return Found(
        entry.candidate, entry.replica, capacity, placement, num_replicas, num_units, served_per_s, usd
    )


def usd_per_million_tokens(usd_per_hour: float, requests_per_s: float, tokens_per_request: float) -> float:
    """Dollars per million input and output tokens of a deployment at a steady load [USD].

    Source: definition: dollars per hour over tokens per hour.
    """
    return usd_per_hour / (requests_per_s * tokens_per_request * 3600.0) * 1e6


def _usd_bound(scenario: Scenario, placement: Placement, requests_per_s: float) -> float:
    """Least cost per million tokens that a candidate could reach; with a given rate, whole units count."""
    traffic = scenario.traffic
    tokens = traffic.mean_input_tokens + traffic.mean_output_tokens
    if traffic.rate_per_s is None:
        return usd_per_million_tokens(placement.usd_per_replica_hour, requests_per_s, tokens)
    replicas = math.ceil(traffic.rate_per_s / requests_per_s)
    units = math.ceil(replicas / placement.replicas_per_unit)
    return usd_per_million_tokens(units * placement.usd_per_unit_hour, traffic.rate_per_s, tokens)


def _cost_to_beat(scenario: Scenario, outcome: SearchOutcome, entry: _Entry) -> float:
    """Above this bound a candidate cannot change the answer: it neither improves its own accelerator's best nor
    enters the best `top` accelerators."""
    best = sorted(options[0].usd_per_million_tokens for options in outcome.found.values() if options)
    limit = best[scenario.top - 1] if len(best) >= scenario.top else math.inf
    own = outcome.found.get(entry.candidate.deployment.accelerator.id)
    return min(limit, own[0].usd_per_million_tokens) if own else limit
