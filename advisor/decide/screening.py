"""What a search begins with and returns: candidates at the least that they can cost, what was found, what was not."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from advisor.catalog.schema import Accelerator, Engine, Model, Price
from advisor.decide.bounds import roofline_requests_per_s
from advisor.decide.candidates import Candidate, candidates_of
from advisor.decide.capacity import Capacity
from advisor.decide.decision import Counts
from advisor.decide.levers import check_pulled, variants
from advisor.decide.load_runs import Served
from advisor.decide.offers import Placement, offers_under_limit, placements
from advisor.decide.option import Share
from advisor.decide.purchase import Demand, Purchase, cheapest_purchase, demands_of, least_costs
from advisor.decide.reason import (
    NotForSale,
    NotPowered,
    NotSoldTogether,
    OverBudget,
    OwnedTooSlow,
    Reason,
    SlowByDatasheet,
    TooFewOwned,
)
from advisor.decide.scenario import Scenario, Traffic
from advisor.simulator.calibrated_device import calibrated_accelerator
from advisor.simulator.intervals import factors, prediction_class
from advisor.simulator.replica_model import ReplicaModel
from advisor.simulator.serving import ServingResult

PICKS = 2
"""Accelerators that compete for one rung of a ladder of loads, and at least for any answer: the cheapest may not be the
one to take."""


@dataclass(frozen=True, slots=True)
class Part:
    """Equal replicas that do one share of the work of a fleet, and where they are bought."""

    role: Share
    candidate: Candidate
    replica: ReplicaModel
    num_replicas: int
    placement: Placement
    """Of one such replica, or of the machine that holds all parts."""
    num_units: int
    is_shared: bool = False
    """Whether that machine holds all parts."""
    traffic: Traffic | None = None
    """What it sees of the load; None where it has a part in every request."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """Unlike parts behind one router, and what is simulated of them together."""

    lever: str
    """By which it is made."""
    parts: tuple[Part, ...]
    served: Served


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
    fleet: Fleet | None = None
    """Unlike parts that serve together, of which candidate and replica are the one that answers; None where all
    replicas are alike."""

    @property
    def served(self) -> Served:
        """What is simulated under a load."""
        return self.fleet.served if self.fleet else self.replica

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


@dataclass(order=True, slots=True)
class Entry:
    """A candidate at one of four stages: bounded by its roofline, by its surface (replica known), estimated by short
    runs (capacity known), and then confirmed by long ones (held known)."""

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
    held: Capacity | None = field(compare=False, default=None)


@dataclass(slots=True)
class SearchOutcome:
    """What the search found, by accelerator, and what it skipped and why."""

    found: dict[str, list[Found]] = field(default_factory=lambda: defaultdict(list))
    """Confirmed by a long run, cheapest first."""
    estimated: dict[str, list[Found]] = field(default_factory=lambda: defaultdict(list))
    """Simulated in short runs only."""
    reasons: dict[str, Reason] = field(default_factory=dict)
    bounds: dict[str, float] = field(default_factory=dict)
    """Best bound [usd per million tokens] of accelerators that were left out because it is too dear."""
    hard_seeds: list[int] = field(default_factory=list)
    """Of long runs, the hardest first."""
    entries: dict[int, Entry] = field(default_factory=dict)
    """What became of each candidate that can serve, by its order: where a later search goes on."""
    num_candidates: int = 0
    num_modelled: int = 0
    num_simulated: int = 0
    num_requests: int = 0

    def counts(self, wall_s: float) -> Counts:
        """The counts as an answer shows them, after so long a search [s]."""
        return Counts(
            num_candidates=self.num_candidates,
            num_modelled=self.num_modelled,
            num_simulated=self.num_simulated,
            num_simulated_requests=self.num_requests,
            wall_s=wall_s,
        )


@dataclass(frozen=True, slots=True)
class Settled:
    """What has been settled, by identity of its candidate: one deployment may be picked for several loads, or again;
    and the seeds that did, the hardest first."""

    capacities: dict[int, Capacity | None] = field(default_factory=dict)
    shown: dict[tuple[int, float], ServingResult] = field(default_factory=dict)
    """Planning points, by the load of a replica too."""
    seeds: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Searched:
    """A scenario's search before it becomes an answer: what other questions than the ranking build on."""

    scenario: Scenario
    """As it was searched: with requests within the model's window."""
    model: Model
    notes: tuple[str, ...]
    accelerators: Mapping[str, Accelerator]
    offers: Mapping[str, tuple[Price, ...]]
    outcome: SearchOutcome
    settled: Settled = field(default_factory=Settled)

    def ranked(self, top: int, demand: int = -1) -> list[list[Found]]:
        """Confirmed deployments of the cheapest accelerators for a demand, each cheapest first."""
        confirmed = [
            sorted(able, key=lambda found: found.cost(demand))
            for options in self.outcome.found.values()
            if (able := [found for found in options if found.purchases[demand]])
        ]
        return sorted(confirmed, key=lambda options: options[0].cost(demand))[:top]


@dataclass(frozen=True, slots=True)
class Question:
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


def screen(
    scenario: Scenario,
    model: Model,
    accelerators: Mapping[str, Accelerator],
    engines: tuple[Engine, ...],
    offers: Mapping[str, tuple[Price, ...]],
    outcome: SearchOutcome,
) -> tuple[Question, list[Entry]]:
    """The question and every candidate that somebody sells, at its cost by datasheet limits; accelerators that have
    none leave their reason in the outcome.
    """
    pool = _pool(scenario, model, accelerators, engines, offers, outcome.reasons)
    outcome.num_candidates = len(pool)
    rates = roofline_requests_per_s(
        [candidate for candidate, _ in pool], scenario.traffic, scenario.objectives
    )
    demands, entries = demands_of(scenario), []
    offered = zip(pool, rates.tolist(), strict=True)
    # Of equally cheap ones the engine that is predicted best comes first, and with it whoever guesses ahead.
    surest = sorted(offered, key=lambda each: (-least_throughput(each[0][0]), each[0][0].speculation is None))
    for order, ((candidate, ways), rate) in enumerate(surest):
        name = candidate.deployment.accelerator.id
        if rate <= 0:
            outcome.reasons.setdefault(name, SlowByDatasheet())
            continue
        costs = least_costs(scenario, demands, ways, rate)
        if min(costs) == math.inf:
            outcome.reasons.setdefault(name, not_to_be_had(scenario))
            continue
        entries.append(Entry(0.0, order, costs, candidate, ways, rate))
    question, asked = _asked(scenario, demands, entries)
    outcome.entries = {entry.order: entry for entry in asked}
    return question, asked


def screened_again(scenario: Scenario, entries: Sequence[Entry]) -> tuple[Question, list[Entry]]:
    """A question about candidates of which an earlier search knows something already, at their costs for it; those that
    carry none of its demands are left out."""
    question = Question(scenario, demands_of(scenario))
    priced = [replace(entry, bounds=_costs_of(question, entry)) for entry in entries]
    able = [entry for entry in priced if min(entry.bounds) < math.inf]
    return _asked(scenario, question.demands, able)


def _costs_of(question: Question, entry: Entry) -> tuple[float, ...]:
    """What a candidate costs by what is known of it."""
    able = entry.held or entry.capacity
    if able is None:
        return least_costs(question.scenario, question.demands, entry.ways, entry.rate_bound)
    return costs_at(question, entry.ways, able)


def _purchases(
    question: Question, ways: Sequence[Placement], capacity: Capacity
) -> tuple[Purchase | None, ...]:
    """The cheapest way to carry each demand; None where nothing that can be had does."""
    return tuple(
        cheapest_purchase(question.scenario, demand, ways, capacity.load, capacity.requests_per_s)
        for demand in question.demands
    )


def priced(question: Question, entry: Entry, capacity: Capacity) -> Found | None:
    """What a simulated candidate costs for each demand; None where none of them can be bought."""
    assert entry.replica is not None
    purchases = _purchases(question, entry.ways, capacity)
    return Found(entry.candidate, entry.replica, capacity, purchases, entry.ways) if any(purchases) else None


def costs_at(question: Question, ways: Sequence[Placement], capacity: Capacity) -> tuple[float, ...]:
    """What those cost [USD per million tokens]; infinite where nothing that can be had does."""
    bought = _purchases(question, ways, capacity)
    return tuple(each.cost if each else math.inf for each in bought)


def _asked(
    scenario: Scenario, demands: tuple[Demand, ...], entries: Sequence[Entry]
) -> tuple[Question, list[Entry]]:
    """The question, and what each of the candidates promises for it."""
    best = [min(costs) for costs in zip(*(entry.bounds for entry in entries), strict=True)]
    question = Question(scenario, demands, tuple(best))
    return question, [replace(entry, promise=question.promise(entry.bounds)) for entry in entries]


def _pool(
    scenario: Scenario,
    model: Model,
    accelerators: Mapping[str, Accelerator],
    engines: tuple[Engine, ...],
    offers: Mapping[str, tuple[Price, ...]],
    reasons: dict[str, Reason],
) -> list[tuple[Candidate, tuple[Placement, ...]]]:
    """Candidates that somebody sells, with the ways to buy them; accelerators that have none leave their reason."""
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
        if reason is not None:
            reasons[accelerator.id] = reason
            continue
        if accelerator.id not in offers and not constraints.own:
            reasons[accelerator.id] = NotForSale()
            continue
        known = {accelerator.tdp_w: offers.get(accelerator.id, ())}
        placed = [
            (variant, tuple(found))
            for candidate in candidates
            for variant in variants(scenario, model, candidate)
            if (found := _ways(variant, scenario, known))
        ]
        if not placed:
            reasons[accelerator.id] = TooFewOwned() if constraints.own else NotSoldTogether()
            if constraints.own and not any(known.values()):
                reasons[accelerator.id] = NotPowered()
        pool += placed
    check_pulled(scenario, model, [candidate for candidate, _ in pool])
    return pool


def _ways(
    candidate: Candidate, scenario: Scenario, known: dict[float | None, tuple[Price, ...]]
) -> list[Placement]:
    """Ways to buy a candidate; `known` are offers by what a board may draw [W]."""
    chip = candidate.deployment.accelerator
    if chip.tdp_w not in known:
        known[chip.tdp_w] = offers_under_limit(scenario.constraints, chip, scenario.as_of)
    return placements(candidate.deployment.accelerators_per_replica, known[chip.tdp_w], chip)


def least_throughput(candidate: Candidate) -> float:
    """Lower end of measured over predicted throughput of the candidate's engine."""
    deployment = candidate.deployment
    architecture = deployment.accelerator.architecture
    name = prediction_class(deployment.engine.id, transferred=False, architecture=architecture)
    return factors("throughput", name)[0]


def not_to_be_had(scenario: Scenario) -> Reason:
    """Why nothing that can be bought carries the load."""
    if scenario.constraints.own:
        return OwnedTooSlow()
    return OverBudget()
