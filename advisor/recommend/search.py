"""Best-first search: tighten the most promising bound until no bound left can beat what was simulated."""

import heapq
import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from advisor.catalog.errors import AdvisorError
from advisor.catalog.schema import Accelerator, Engine, Model, Price
from advisor.recommend.candidates import Candidate, candidates_of
from advisor.recommend.capacity import VARIANT_TOLERANCE, Capacity, confirm, highest_load
from advisor.recommend.offers import Placement, placements
from advisor.recommend.purchase import (
    Demand,
    Purchase,
    cheapest_purchase,
    demands_of,
    least_costs,
    planned_load,
    replicas_for,
)
from advisor.recommend.roofline_bound import max_requests_per_s as roofline_requests_per_s
from advisor.recommend.scenario import Scenario
from advisor.recommend.surface_bound import max_requests_per_s as surface_requests_per_s
from advisor.simulator.calibrated_device import calibrated_accelerator
from advisor.simulator.engine_kernels import operator_library
from advisor.simulator.intervals import factors, prediction_class
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.replica_model import ReplicaModel, model_replica

Progress = Callable[[str], None]
PICKS = 2
"""Accelerators that compete for one rung of a ladder of loads, and at least for any answer: the cheapest may not be the
one to take."""


@dataclass(frozen=True, slots=True)
class Found:
    """A simulated candidate: its load per replica and what it costs."""

    candidate: Candidate
    replica: ReplicaModel
    capacity: Capacity
    purchases: tuple[Purchase | None, ...]
    """What carries each of the question's demands, in their order; None where nothing that can be had does."""
    ways: tuple[Placement, ...] = ()
    """All that it can be bought on."""

    @property
    def accelerator_id(self) -> str:
        return self.candidate.deployment.accelerator.id

    @property
    def purchase(self) -> Purchase:
        """What is bought; of several demands the last that can be carried."""
        return next(purchase for purchase in reversed(self.purchases) if purchase)

    @property
    def usd_per_million_tokens(self) -> float:
        return self.purchase.usd_per_million_tokens

    def cost(self, demand: int) -> float:
        """What carrying a demand costs, as the search ranks it [USD per million tokens]; infinite where it cannot."""
        purchase = self.purchases[demand]
        return purchase.cost if purchase else math.inf

    def at(self, demand: int) -> "Found":
        """The same deployment bought for one of the demands."""
        return replace(self, purchases=(self.purchases[demand],))


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

    promise: float
    """Least of its bounds over the best first bound of any candidate, over the demands."""
    order: int
    bounds: tuple[float, ...] = field(compare=False)
    """Least cost of each demand [USD per million tokens]."""
    candidate: Candidate = field(compare=False)
    ways: tuple[Placement, ...] = field(compare=False)
    """How its replicas can be bought."""
    rate_bound: float = field(compare=False)
    replica: ReplicaModel | None = field(compare=False, default=None)
    capacity: Capacity | None = field(compare=False, default=None)


@dataclass(frozen=True, slots=True)
class _Question:
    """The scenario, its demands, and the best bound of each when the search began."""

    scenario: Scenario
    demands: tuple[Demand, ...]
    least: tuple[float, ...] = ()

    def promise(self, costs: Sequence[float]) -> float:
        ratios = (cost / least for cost, least in zip(costs, self.least, strict=True) if cost < math.inf)
        return min(ratios, default=math.inf)

    def wanted(self, demand: int) -> int:
        """Accelerators to be ranked for a demand: of a ladder only the last is shown whole."""
        return max(PICKS, self.scenario.top) if demand == len(self.demands) - 1 else PICKS


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
    question, heap = _screen(scenario, model, accelerators, engines, offers, outcome)
    outcome.screen_wall_s = time.perf_counter() - started
    libraries: dict[tuple[str, str, str], OperatorLibrary] = {}
    while heap:
        entry = heapq.heappop(heap)
        if not exhaustive and not _can_win(question, outcome, entry):
            name = entry.candidate.deployment.accelerator.id
            if not outcome.found.get(name):
                outcome.bounds.setdefault(name, entry.bounds[-1])
            continue
        if entry.replica is None:
            _tighten(question, entry, libraries, outcome, heap)
        elif entry.capacity is None:
            deployment = entry.candidate.deployment
            size, name = deployment.accelerators_per_replica, deployment.accelerator.id
            progress(f"simulating {deployment.model.id} on {size} x {name} ({deployment.engine.id})")
            _estimate(question, entry, outcome, heap)
        else:
            _confirm(question, entry, outcome, exhaustive=exhaustive)
    return outcome


def _screen(
    scenario: Scenario,
    model: Model,
    accelerators: Mapping[str, Accelerator],
    engines: tuple[Engine, ...],
    offers: Mapping[str, tuple[Price, ...]],
    outcome: SearchOutcome,
) -> tuple[_Question, list[_Entry]]:
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
    demands, entries = demands_of(scenario), []
    offered = zip(pool, rates.tolist(), strict=True)
    # Of equally cheap ones the engine that is predicted best comes first.
    surest = sorted(offered, key=lambda each: -_least_throughput(each[0][0]))
    for order, ((candidate, ways), rate) in enumerate(surest):
        name = candidate.deployment.accelerator.id
        if rate <= 0:
            outcome.reasons.setdefault(name, "even its datasheet limits miss the latency objectives")
            continue
        costs = least_costs(scenario, demands, ways, rate)
        if min(costs) == math.inf:
            outcome.reasons.setdefault(name, _not_to_be_had(scenario))
            continue
        entries.append(_Entry(0.0, order, costs, candidate, ways, rate))
    best = [min(costs) for costs in zip(*(entry.bounds for entry in entries), strict=True)]
    question = _Question(scenario, demands, tuple(best))
    heap = [replace(entry, promise=question.promise(entry.bounds)) for entry in entries]
    heapq.heapify(heap)
    return question, heap


def _least_throughput(candidate: Candidate) -> float:
    """Lower end of measured over predicted throughput of the candidate's engine."""
    return factors("throughput", prediction_class(candidate.deployment.engine.id, transferred=False))[0]


def _tighten(
    question: _Question,
    entry: _Entry,
    libraries: dict[tuple[str, str, str], OperatorLibrary],
    outcome: SearchOutcome,
    heap: list[_Entry],
) -> None:
    scenario, deployment = question.scenario, entry.candidate.deployment
    traffic = scenario.traffic
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
    costs = least_costs(scenario, question.demands, entry.ways, rate)
    if min(costs) == math.inf:
        outcome.reasons.setdefault(deployment.accelerator.id, _not_to_be_had(scenario))
        return
    tightened = replace(
        entry, promise=question.promise(costs), bounds=costs, rate_bound=rate, replica=replica
    )
    heapq.heappush(heap, tightened)


def _estimate(question: _Question, entry: _Entry, outcome: SearchOutcome, heap: list[_Entry]) -> None:
    """Find the highest load by short runs and put the candidate back at the cost that this gives."""
    assert entry.replica is not None
    scenario, name = question.scenario, entry.candidate.deployment.accelerator.id
    capacity = highest_load(
        entry.replica, scenario.traffic, scenario.objectives, bound_per_s=entry.rate_bound, seed=scenario.seed
    )
    outcome.num_simulated += 1
    if capacity is None:
        outcome.reasons.setdefault(name, "misses the latency objectives at any load")
        return
    outcome.num_requests += capacity.num_requests
    found = _priced(question, entry, capacity)
    if found is None:
        outcome.reasons.setdefault(name, _not_to_be_had(scenario))
        return
    outcome.estimated[name].append(found)
    costs = tuple(found.cost(demand) for demand in range(len(question.demands)))
    heapq.heappush(heap, replace(entry, promise=question.promise(costs), bounds=costs, capacity=capacity))


def _confirm(question: _Question, entry: _Entry, outcome: SearchOutcome, *, exhaustive: bool) -> None:
    """Hold a candidate to long runs at the load that it will carry, headroom included."""
    assert entry.replica is not None
    assert entry.capacity is not None
    scenario, name = question.scenario, entry.candidate.deployment.accelerator.id
    aim = replace(entry.capacity, load=_load_per_replica(question, entry.capacity))
    # At the highest load cost is inverse to it; a given load leaves nothing to vary.
    open_ended = len(question.demands) == 1 and question.demands[0].kind in ("unit", "budget")
    own = outcome.found.get(name)
    cutoff = own[0].purchase.cost if own else _cost_of_last(question, outcome, 0)
    least = 0.0
    if open_ended and not exhaustive and math.isfinite(cutoff):
        least = min(aim.load, aim.load * entry.bounds[0] / cutoff)
    hold = partial(confirm, entry.replica, scenario.traffic, scenario.objectives, seed=scenario.seed)
    capacity = hold(aim, least=least)
    if capacity is None and own and least:
        # Not better than what the accelerator already offers: shown beside it, found with less care.
        capacity = hold(replace(aim, load=least), tolerance=VARIANT_TOLERANCE)
    if capacity is None:
        _drop(outcome, entry)
        if least:
            outcome.bounds.setdefault(name, cutoff)
        else:
            outcome.reasons.setdefault(name, "misses the latency objectives in a long run")
        return
    outcome.num_requests += capacity.num_requests - entry.capacity.num_requests
    found = _priced(question, entry, capacity)
    if found is None:
        outcome.reasons.setdefault(name, _not_to_be_had(scenario))
        return
    _drop(outcome, entry)
    outcome.found[name].append(found)
    outcome.found[name].sort(key=lambda option: option.purchase.cost)


def _drop(outcome: SearchOutcome, entry: _Entry) -> None:
    """Forget the estimate of a candidate that a long run has judged."""
    name = entry.candidate.deployment.accelerator.id
    estimated = outcome.estimated[name]
    outcome.estimated[name] = [found for found in estimated if found.candidate is not entry.candidate]


def _load_per_replica(question: _Question, capacity: Capacity) -> float:
    """What one replica must be shown to carry: its share of the only load that is asked for with its headroom, or the
    most that it can."""
    scenario, demand = question.scenario, question.demands[-1]
    if len(question.demands) > 1 or demand.kind not in ("rate", "clients"):
        return capacity.load
    share = demand.size / replicas_for(demand.size, planned_load(scenario, capacity.load))
    needed = share / (1.0 - scenario.headroom_fraction)
    return min(capacity.load, math.ceil(needed) if demand.kind == "clients" else needed)


def _priced(question: _Question, entry: _Entry, capacity: Capacity) -> Found | None:
    """What a simulated candidate costs for each demand; None where none of them can be bought."""
    assert entry.replica is not None
    purchases = tuple(
        cheapest_purchase(question.scenario, demand, entry.ways, capacity.load, capacity.requests_per_s)
        for demand in question.demands
    )
    return Found(entry.candidate, entry.replica, capacity, purchases, entry.ways) if any(purchases) else None


def _not_to_be_had(scenario: Scenario) -> str:
    if scenario.constraints.own:
        return "the hardware that is there does not carry this load"
    return "costs more than the budget"


def _can_win(question: _Question, outcome: SearchOutcome, entry: _Entry) -> bool:
    """Whether a candidate can change the answer to any demand: improve its own accelerator's best, where that is among
    the best accelerators or the candidate enters them."""
    own = outcome.found.get(entry.candidate.deployment.accelerator.id, ())
    for demand, bound in enumerate(entry.bounds):
        limit = min(
            _cost_of_last(question, outcome, demand), *(found.cost(demand) for found in own), math.inf
        )
        if bound <= limit and bound < math.inf:
            return True
    return False


def _cost_of_last(question: _Question, outcome: SearchOutcome, demand: int) -> float:
    """Cost of the last of a demand's best accelerators [USD per million tokens]; infinite while there are fewer."""
    best = sorted(
        min(found.cost(demand) for found in options) for options in outcome.found.values() if options
    )
    wanted = question.wanted(demand)
    return best[wanted - 1] if len(best) >= wanted else math.inf
