"""The race: which candidates are measured more precisely, until no other could be among the answers.

A lane is one demand at any price or at firm prices, with as many leaders as its answer shows accelerators. Candidates
begin at a bound that is never pessimistic. The race advances, in this order, a candidate whose bound beats a leader of
a lane, a leader that is not known precisely enough, and a measured rival that its sampling error may have kept behind a
leader. It stops when there is none of these, or when the limit of simulated work is reached.

Only the order of work depends on other candidates; no figure does (`advisor.decide.measure`).
"""

import heapq
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from advisor.catalog.errors import AdvisorError
from advisor.catalog.schema import Model
from advisor.decide.bounds import slow_alone, surface_requests_per_s, too_long_a_prompt
from advisor.decide.candidates import batch_variants
from advisor.decide.certainty import chance_within, tighten
from advisor.decide.drawn_power import is_compared_as_drawn, least_drawn_fraction, pay_as_drawn
from advisor.decide.effort import affords, is_spent
from advisor.decide.levers import replica_of
from advisor.decide.load_runs import percentile_s, strain
from advisor.decide.measure import (
    GRID,
    LEAST_SHOWN,
    LONG_REQUESTS,
    SIGMA,
    STAGES,
    Capacity,
    Measurements,
    PlanningPoint,
    Stage,
    planning_point,
)
from advisor.decide.offers import Placement
from advisor.decide.purchase import (
    Demand,
    expected_cost,
    least_costs,
    pareto_placements,
    purchase_on,
    with_replicas,
)
from advisor.decide.ranking import (
    Planned,
    buy_at_capacity,
    cheapest_by_expectation,
    firm_ways,
    highest_overlap,
    judge_purchase,
    sort_by_expected_cost,
)
from advisor.decide.reason import (
    DoesNotFit,
    MissesObjectives,
    NotEnoughOffered,
    NotTried,
    OverBudget,
    OwnedTooSlow,
    Reason,
    keep_furthest,
)
from advisor.decide.scenario import Scenario
from advisor.decide.trial import Found, Trial
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.replica_model import ReplicaModel

Report = Callable[[str], None]
"""Takes a line of progress."""
WIDTH: Final = 5
"""Accelerators that the last demand of a question ranks, and of which a block of further ones consists."""
_REFUSAL_SIGMAS: Final = 4.0
"""Standard errors by which a capacity may be higher than it was measured, before a question is refused
for want of it: one screened capacity in 45 is more than two too low, one in 30,000 more than four."""
RIVAL_SIGMAS: Final = 2.0
"""Standard errors of a capacity by which a rival may be better than it was measured. Of two questions, 1 takes 16 %
fewer requests and finds a first option that costs 2.4 % more for one of them; 3 takes 15 % more requests and
changes no cost. Measured by `python benchmarks/bench_measure.py --tables rivals`."""
RIVAL_MARGIN: Final = 0.97
"""Expected cost over that of a leader below which a rival is measured again. Of two questions, 0.94 takes 10 and 18 %
fewer requests and 1.0 takes 4 and 8 % more; neither changes a cost. Measured by
`python benchmarks/bench_measure.py --tables rivals`."""
_ADVANTAGE: Final = 1.0 - 1e-9
_LEAST_GAIN: Final = 0.5
"""Capacity over the most that other batch limits are assumed to give. They are tried while each improves, however near
to its bound a candidate is: left out above half of it, B300s cost twice as much for one question of three."""
_MOST_GROWTH: Final = 8
"""Replicas, or steps of 3 % of load, that a planning point which misses an objective is moved at most; of more replicas
than that, up to as many again."""
_LEAST_GAIN_OF_CHANCE: Final = 0.01
"""Gain of the chance to hold by a replica more, below which no further one is tried: the latency hardly depends on the
load."""
_WORTH_PROBING: Final = 0.3
"""Load needed to beat a leader, over the bound, from which on that load is tried first: most candidates miss it."""
_BELOW: Final = 0.999
"""Part of a load that missed an objective which a candidate may still carry."""
_BISECTIONS: Final = 7


@dataclass(frozen=True, slots=True)
class Lane:
    """One demand, at any price or at firm prices on measured hardware alone."""

    demand: Demand
    is_safe: bool
    width: int


@dataclass(slots=True)
class _LaneState:
    """The candidates of one lane: bounds of those that are not measured, plans of those that are."""

    lane: Lane
    least: float = math.inf
    """Lowest floor of any candidate when the race began."""
    open: dict[str, list[tuple[float, int]]] = field(default_factory=lambda: defaultdict(list))
    """Heaps of (floor, order) by accelerator."""
    plans: dict[str, dict[int, Planned]] = field(default_factory=lambda: defaultdict(dict))
    """Plans of measured candidates by accelerator and order."""
    shown: set[int] = field(default_factory=set)
    """Orders of candidates whose plan is at its planning point."""
    entries: dict[str, Planned] = field(default_factory=dict)
    """The entry of each accelerator, as long as its plans stay."""
    lowest_costs: dict[str, float] = field(default_factory=dict)
    """Lowest expected cost of each accelerator that has a plan."""
    chances: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Chances that the purchases of a candidate showed at their planning points, one replica after the other."""
    wanted: dict[str, float] = field(default_factory=dict)
    """Expected cost up to which an accelerator is looked at here although others cost less: a leader at any price wants
    a safe variant that would take its place."""

    def put(self, name: str, order: int, plan: Planned | None) -> None:
        """Take the plan of a candidate in place of an earlier one; None where it cannot be bought."""
        plans = self.plans[name]
        if plan is None:
            plans.pop(order, None)
            self.shown.discard(order)
        else:
            plans[order] = plan
        self.entries.pop(name, None)
        self.lowest_costs.pop(name, None)
        if plans:
            self.lowest_costs[name] = min(each.expected_cost for each in plans.values())

    def leaders(self) -> list[Planned]:
        """Return the entries of the accelerators that are expected to cost least, and of those that are wanted."""
        for name in self.lowest_costs:
            if name not in self.entries:
                self.entries[name] = cheapest_by_expectation(list(self.plans[name].values()))
        order = sorted(self.entries.values(), key=lambda plan: plan.expected_cost)
        rest = (plan for plan in order[self.lane.width :] if plan.found.accelerator_id in self.wanted)
        return [*order[: self.lane.width], *rest]

    def lowest(self, name: str) -> float:
        """Lowest expected cost of an accelerator among its measured candidates."""
        return self.lowest_costs.get(name, math.inf)

    def limits(self) -> Callable[[str], float]:
        """Return the expected cost that a candidate of an accelerator must beat to matter here: that of the last
        leader, and of its own accelerator's cheapest plan."""
        costs = sorted(self.lowest_costs.values())
        limit = costs[self.lane.width - 1] if len(costs) >= self.lane.width else math.inf

        def limit_of(name: str) -> float:
            return min(max(limit, self.wanted.get(name, 0.0)), self.lowest(name))

        return limit_of


class Race:
    """Candidates of one question about serving, and what is known of them."""

    def __init__(
        self,
        scenario: Scenario,
        model: Model,
        demands: Sequence[Demand],
        trials: Sequence[Trial],
        *,
        width: int = WIDTH,
        report: Report = lambda line: None,
    ) -> None:
        self.scenario = scenario
        self.model = model
        self.demands = tuple(demands)
        self.trials = {trial.order: trial for trial in trials}
        self.num_candidates = len(self.trials)
        self.num_modelled = 0
        self.report = report
        self.reasons: dict[str, Reason] = {}
        """Why an accelerator has no candidate left, by its id."""
        self._libraries: dict[tuple[str, str, str], OperatorLibrary] = {}
        last = len(self.demands) - 1
        self.states = [
            _LaneState(Lane(demand, is_safe, width if place == last and not is_safe else 1))
            for place, demand in enumerate(self.demands)
            for is_safe in (False, True)
        ]
        self._known_ways: dict[tuple[int, bool], tuple[Placement, ...]] = {}
        self._by_candidate = {id(trial.candidate): trial for trial in trials}
        for trial in trials:
            trial.least_drawn = least_drawn_fraction(
                scenario.constraints, trial.candidate.deployment.accelerator
            )
            self._enter(trial)
        for state in self.states:
            state.least = min((heap[0][0] for heap in state.open.values() if heap), default=math.inf)

    @property
    def num_simulated(self) -> int:
        """Candidates of which a capacity was sought."""
        return sum(trial.measurements is not None for trial in self.trials.values())

    @property
    def num_requests(self) -> int:
        """Requests that were simulated."""
        return sum(
            trial.measurements.num_requests
            for trial in self.trials.values()
            if trial.measurements is not None
        )

    def run(self, width: int | None = None) -> None:
        """Race until no candidate could change an answer; with a `width` for the last demand."""
        if width is not None:
            last = self.states[-2]
            last.lane = Lane(last.lane.demand, last.lane.is_safe, width)
        while not is_spent():
            if not (
                self._advance_lowest()
                or self._advance_leader()
                or self._advance_rival()
                or self._advance_excluded()
                or self._want_safe()
            ):
                break
        able = {trial.accelerator_id for trial in self.trials.values() if min(trial.floors) < math.inf}
        for trial in self.trials.values():
            if trial.is_measured or trial.progress == "closed":
                continue
            if self._could_lead(trial):
                keep_furthest(self.reasons, trial.accelerator_id, NotTried())
            elif trial.accelerator_id not in able:
                keep_furthest(self.reasons, trial.accelerator_id, cannot_be_had(self.scenario))

    def end_at(self, place: int, width: int) -> None:
        """Leave out the demands behind one, which becomes the last, and race on for it with a `width`."""
        self.demands = self.demands[: place + 1]
        self.states = self.states[: 2 * len(self.demands)]
        for trial in self.trials.values():
            trial.floors = trial.floors[: len(self.states)]
        self.run(width)

    def entries(self, place: int, top: int | None = None) -> list[Planned]:
        """Return the entries of the accelerators for one of the demands, best first: by expected cost, the safe one
        first where its range overlaps that of the cheapest. The first `top` are at their planning points."""
        while True:
            entries = sort_by_expected_cost(
                [
                    cheapest_by_expectation(able)
                    for name in self._names(place)
                    if (able := self.others(place, name))
                ]
            )
            if top is None:
                return entries
            vague = [plan for plan in entries[:top] if plan.point is None]
            if not vague or is_spent():
                return [self._as_is(plan) for plan in entries[:top]]
            for plan in vague:
                needed = self._next_stage(self._trial_of(plan), plan)
                if needed is None:
                    self._show_entry(place, plan)
                else:
                    self._measure(self._trial_of(plan), needed)

    def _names(self, place: int) -> list[str]:
        """Accelerators that carry one of the demands."""
        state, safe = self._states_of(place)
        return list(dict.fromkeys((*state.lowest_costs, *safe.lowest_costs)))

    def at_planning_point(self, plan: Planned) -> Planned | None:
        """Return a plan of the last demand at its planning point; None where it does not hold."""
        if plan.point is not None:
            return plan
        trial = self._trial_of(plan)
        while not is_spent() and (needed := self._next_stage(trial, plan)) is not None:
            self._measure(trial, needed)
            again = [
                each
                for each in self.others(-1, trial.accelerator_id)
                if each.found.candidate is trial.candidate
            ]
            if not again:
                return None
            way = plan.found.purchase.placement
            plan = next((each for each in again if each.found.purchase.placement is way), again[0])
        if plan.point is not None:
            return plan
        return run_planning_point(self.scenario, plan, is_held=not self.scenario.screened_only)

    def _show_entry(self, place: int, plan: Planned) -> None:
        """Show a plan at its planning point in the lane that holds it."""
        name = plan.found.accelerator_id
        order = self._trial_of(plan).order
        for state in self._states_of(place):
            if state.plans[name].get(order) is plan:
                self._show(state, plan)
                return

    def safe_pick(self, place: int) -> Planned | None:
        """Return the safe plan of lowest expected cost for one of the demands, at its planning point; None where
        there is none."""
        _, safe = self._states_of(place)
        while able := [plan for plans in safe.plans.values() for plan in plans.values() if plan.is_safe]:
            pick = cheapest_by_expectation(able)
            if is_spent():
                pick = self._as_is(pick)
                return pick if pick.is_safe else None
            if pick.point is not None:
                return pick
            self._show_entry(place, pick)
        return None

    def _as_is(self, plan: Planned) -> Planned:
        """Return a plan as sure as what it shows: without a planning point its full load, at which own boards pay."""
        if not is_compared_as_drawn(plan.demand):
            plan = pay_as_drawn(self.scenario, plan, plan.result)
        within = chance_within(plan.found, plan.result, self.scenario.objectives)
        return plan if within >= plan.chance else replace(plan, chance=within)

    def others(self, place: int, name: str) -> list[Planned]:
        """Return every plan of one accelerator for one of the demands, cheapest first: of each candidate what costs
        least, and what costs least at a firm price."""
        found: dict[tuple[int, int, int], Planned] = {}
        for state in self._states_of(place):
            for order, plan in state.plans.get(name, {}).items():
                bought = plan.found.purchase
                key = order, id(bought.placement), bought.num_replicas
                if key not in found or found[key].point is None:
                    found[key] = plan
        return sorted(found.values(), key=lambda plan: plan.expected_cost)

    def floor(self, place: int, name: str) -> float:
        """Return the least that an accelerator could cost for one of the demands, by what is known of its
        candidates."""
        place %= len(self.demands)
        floors = [
            trial.floors[2 * place]
            for trial in self.trials.values()
            if trial.accelerator_id == name and trial.progress != "closed"
        ]
        return min(floors, default=math.inf)

    def open_floor(self, place: int, name: str) -> float:
        """Return the least that an accelerator could cost for one of the demands by the bounds of candidates that were
        not measured, since others cost less; infinite where there are none."""
        place %= len(self.demands)
        if isinstance(self.reasons.get(name), NotTried):
            return math.inf
        floors = [
            trial.floors[2 * place]
            for trial in self.trials.values()
            if trial.accelerator_id == name and trial.progress in ("bound", "surface")
        ]
        return min(floors, default=math.inf)

    def _states_of(self, place: int) -> tuple[_LaneState, _LaneState]:
        place %= len(self.demands)
        return self.states[2 * place], self.states[2 * place + 1]

    # --- what is advanced next -------------------------------------------------------------------------------------

    def _want_safe(self) -> bool:
        """Look for a safe variant of each leader of the last demand that is not safe itself; False where all
        were looked for."""
        leaders, safe = self._states_of(-1)
        wanted = {
            plan.found.accelerator_id: highest_overlap(plan) for plan in leaders.leaders() if not plan.is_safe
        }
        if all(usd <= safe.wanted.get(name, 0.0) for name, usd in wanted.items()):
            return False
        safe.wanted |= wanted
        return True

    def _advance_lowest(self) -> bool:
        """Advance the candidate of lowest bound that beats a leader of a lane."""
        best: tuple[float, int] | None = None
        for place, state in enumerate(self.states):
            limit_of = state.limits()
            for name, heap in state.open.items():
                if not heap:
                    continue
                # The first floor of a heap is never above that of its first candidate which is still to be advanced:
                # where it is not below what the accelerator costs already, or what the best of the others could, that
                # candidate is not either.
                floor = heap[0][0]
                if floor >= state.lowest(name) or (best is not None and floor / state.least > best[0]):
                    continue
                most = _ADVANTAGE * limit_of(name)
                if floor >= most:
                    continue
                trial = self._top(heap, place)
                if trial is None or trial.floors[place] >= most:
                    continue
                found = trial.floors[place] / state.least, trial.order
                best = found if best is None else min(best, found)
        if best is None:
            return False
        trial = self.trials[best[1]]
        if trial.progress == "bound":
            self._model(trial)
        else:
            self._try(trial, "screened", _ADVANTAGE)
        return True

    def _top(self, heap: list[tuple[float, int]], place: int) -> Trial | None:
        """The candidate of lowest floor in a heap; those that were measured, or entered again, are removed."""
        while heap:
            floor, order = heap[0]
            trial = self.trials[order]
            if trial.progress in ("bound", "surface") and trial.floors[place] == floor:
                return trial
            heapq.heappop(heap)
        return None

    def _advance_leader(self) -> bool:
        """Advance the leader of a lane that is known least precisely; show a precise one at its planning point."""
        vague: list[tuple[int, float, int, _LaneState, Planned]] = []
        for state in self.states:
            for plan in self._plans_to_settle(state):
                trial = self._trial_of(plan)
                needed = self._next_stage(trial, plan)
                if needed is not None:
                    vague.append((STAGES.index(needed), plan.expected_cost, trial.order, state, plan))
                elif trial.order not in state.shown:
                    vague.append((len(STAGES), plan.expected_cost, trial.order, state, plan))
        if not vague:
            return False
        stage, _, _, state, plan = min(vague, key=lambda each: each[:3])
        if stage < len(STAGES):
            self._measure(self._trial_of(plan), STAGES[stage])
        else:
            self._show(state, plan)
        return True

    def _plans_to_settle(self, state: _LaneState) -> Iterator[Planned]:
        """The plans that must be known precisely: leaders, and of each the cheapest of its accelerator."""
        for plan in state.leaders():
            yield plan
            own = state.plans[plan.found.accelerator_id].values()
            lowest = min(own, key=lambda each: each.expected_cost)
            if lowest is not plan:
                yield lowest

    def _advance_rival(self) -> bool:
        """Advance a measured candidate that may be better than a leader by its sampling error."""
        if self.scenario.screened_only:
            return False
        rivals = [
            trial
            for trial in self.trials.values()
            if trial.capacity is not None and trial.capacity.stage != "settled"
        ]
        best: tuple[float, int] | None = None
        for place, state in enumerate(self.states):
            limit_of = state.limits()
            for trial in rivals:
                own = RIVAL_MARGIN * limit_of(trial.accelerator_id)
                if trial.floors[place] < own:
                    found = trial.floors[place] / own, trial.order
                    best = found if best is None else min(best, found)
        if best is None:
            return False
        trial = self.trials[best[1]]
        assert trial.capacity is not None
        self._try(trial, STAGES[STAGES.index(trial.capacity.stage) + 1], RIVAL_MARGIN)
        return True

    def _advance_excluded(self) -> bool:
        """Advance a measured candidate for a demand that nothing else carries, although its capacity leaves no purchase
        within the budget or the units on offer: a refusal rests on settled capacities."""
        if self.scenario.screened_only:
            return False
        for state in self.states:
            if state.lowest_costs:
                continue
            best: tuple[float, int] | None = None
            for trial in self.trials.values():
                if trial.capacity is None or trial.capacity.stage == "settled":
                    continue
                most = trial.rate_bound
                if self.scenario.traffic.concurrency is None:
                    above = math.exp(_REFUSAL_SIGMAS * trial.capacity.sigma)
                    most = min(most, above * trial.capacity.load)
                ways = self._ways(trial, state.lane)
                cost = least_costs(self.scenario, (state.lane.demand,), ways, most)[0]
                if cost < math.inf:
                    found = cost, trial.order
                    best = found if best is None else min(best, found)
            if best is not None:
                trial = self.trials[best[1]]
                assert trial.capacity is not None
                self._measure(trial, STAGES[STAGES.index(trial.capacity.stage) + 1])
                return True
        return False

    def _try(self, trial: Trial, stage: Stage, margin: float) -> None:
        """Measure a candidate if it may hold the least load at which it would beat a leader.

        A candidate that misses that load by more than the error of a stage need not be measured: its floors rise to
        what it costs there.
        """
        if self.scenario.traffic.concurrency is None:
            needed = self._needed_load(trial, margin)
            measurements = self._measurements_of(trial)
            if needed > _WORTH_PROBING * trial.best_load:
                slack = math.exp(-RIVAL_SIGMAS * SIGMA[stage])
                load = measurements.load_from(slack * needed)
                if load >= slack * trial.best_load:
                    # That was missed already; a load below what is needed may be missed as well.
                    load = measurements.load_from(slack * needed, places_below=1)
                if measurements.holds(load, stage) is None and not is_spent():
                    trial.best_load = min(trial.best_load, _BELOW * load / slack)
                    self._enter(trial)
                    return
        self._measure(trial, stage)

    def _needed_load(self, trial: Trial, margin: float) -> float:
        """The least capacity with which a candidate would beat a leader of a lane [requests/s]; 0 where any would."""
        lanes = []
        for place, state in enumerate(self.states):
            limit = margin * state.limits()(trial.accelerator_id)
            if trial.floors[place] < limit:
                lanes.append((state.lane, limit))
        if not lanes or any(limit == math.inf for _, limit in lanes):
            return 0.0

        def wins(load: float) -> bool:
            return any(self._least_cost(trial, lane, load) < limit for lane, limit in lanes)

        low = 0.0
        high = trial.best_load
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if wins(middle) else (middle, high)
        return high

    def _next_stage(self, trial: Trial, plan: Planned) -> Stage | None:
        """The next stage of a candidate; None where its capacity is settled, or settling would change no count."""
        capacity = trial.capacity
        assert capacity is not None
        if self.scenario.screened_only or capacity.stage == "settled":
            return None
        if capacity.stage == "screened":
            return "confirmed"
        return None if self._is_enough(plan, capacity) else "settled"

    def _is_enough(self, plan: Planned, capacity: Capacity) -> bool:
        """Whether a more precise capacity would buy as many replicas."""
        if plan.demand.kind not in ("rate", "clients"):
            return False
        counts = set[int]()
        for sign in (-1.0, 1.0):
            moved = capacity.scale(math.exp(sign * RIVAL_SIGMAS * capacity.sigma))
            bought = purchase_on(
                self.scenario, plan.demand, plan.found.purchase.placement, moved.load, moved.requests_per_s
            )
            counts.add(bought.num_replicas if bought else 0)
        return len(counts) == 1

    def _could_lead(self, trial: Trial) -> bool:
        """Whether the bound of a candidate beats a leader of a lane."""
        return any(
            trial.floors[place] < _ADVANTAGE * state.limits()(trial.accelerator_id)
            for place, state in enumerate(self.states)
        )

    # --- how a candidate is advanced -------------------------------------------------------------------------------

    def _enter(self, trial: Trial) -> None:
        """Put a candidate into every lane at the least that it can cost there, by the most that it may carry."""
        trial.floors = [
            self._least_cost(trial, state.lane, trial.best_load)
            if trial.may_be_likely or not state.lane.is_safe
            else math.inf
            for state in self.states
        ]
        if trial.capacity is not None:
            return
        for place, state in enumerate(self.states):
            if trial.floors[place] < math.inf:
                heapq.heappush(state.open[trial.accelerator_id], (trial.floors[place], trial.order))

    def _least_cost(self, trial: Trial, lane: Lane, load: float) -> float:
        """Return the least expected cost of a candidate in a lane if one replica carries at most this load; own boards
        draw at least what is known of them."""
        (cost,) = least_costs(self.scenario, (lane.demand,), self._ways(trial, lane), load)
        return trial.least_drawn * cost if is_compared_as_drawn(lane.demand) else cost

    def _ways(self, trial: Trial, lane: Lane) -> tuple[Placement, ...]:
        """The ways to buy a candidate in a lane that may be the cheapest."""
        key = id(trial.ways), lane.is_safe
        if key not in self._known_ways:
            ways = firm_ways(self.scenario, trial.ways) if lane.is_safe else trial.ways
            self._known_ways[key] = pareto_placements(ways, self.scenario.as_of, self.scenario.beside)
        return self._known_ways[key]

    def _close(self, trial: Trial, reason: Reason) -> None:
        trial.progress = "closed"
        trial.reason = reason
        trial.capacity = None
        for state in self.states:
            state.put(trial.accelerator_id, trial.order, None)
        keep_furthest(self.reasons, trial.accelerator_id, reason)

    def _model(self, trial: Trial) -> None:
        """Build the step-cost surface of a candidate and bound it by that."""
        scenario = self.scenario
        deployment = trial.candidate.deployment
        chip = deployment.accelerator
        # What a release of an engine does to kernels depends on how experts are divided.
        experts = deployment.expert_tensor_parallel, deployment.expert_parallel
        key = (f"{chip.id} {chip.tdp_w}", deployment.engine.id, f"{deployment.weight_dtype} {experts}")
        try:
            trial.replica = replica_of(trial.candidate, scenario, self._libraries.get(key))
        except AdvisorError as error:
            self._close(trial, DoesNotFit(error.why or error.what))
            return
        self._libraries.setdefault(key, trial.replica.library)
        self.num_modelled += 1
        if why := too_long_a_prompt(trial.replica, scenario.traffic, scenario.objectives):
            self._close(trial, why)
            return
        if late := slow_alone(trial.replica, scenario.traffic, scenario.objectives):
            self._close(trial, late)
            return
        rate = surface_requests_per_s(trial.replica, scenario.traffic, scenario.objectives)
        trial.rate_bound = min(trial.rate_bound, rate)
        trial.best_load = min(trial.best_load, rate)
        trial.progress = "surface"
        trial.may_be_likely = self._may_be_likely(trial.replica)
        self._enter(trial)
        if min(trial.floors) == math.inf:
            self._close(trial, cannot_be_had(self.scenario))

    def _may_be_likely(self, replica: ReplicaModel) -> bool:
        """Whether a replica may keep the objectives with the chance of a safe pick, by its bound at any load."""
        traffic = self.scenario.traffic
        safe = tighten(self.scenario.objectives, replica)
        return (
            not too_long_a_prompt(replica, traffic, safe)
            and surface_requests_per_s(replica, traffic, safe) > 0.0
        )

    def _measure(self, trial: Trial, stage: Stage) -> None:
        """Measure the capacity of a candidate more precisely, and price it in every lane."""
        capacity = self._measurements_of(trial).capacity(stage)
        if capacity is None and is_spent():
            return
        if capacity is None:
            self._close(trial, self._miss(trial))
        else:
            self._price(trial, capacity, stage)
        if stage == "screened":
            for child in self._children(trial, capacity.load if capacity else 0.0):
                self._enter(child)

    def _price(self, trial: Trial, capacity: Capacity, stage: Stage) -> None:
        """Price a candidate of a capacity in every lane."""
        trial.progress = stage
        trial.capacity = capacity
        if stage == "confirmed":
            trial.confirmed = capacity
        if self.scenario.traffic.concurrency is None:
            trial.best_load = min(trial.best_load, capacity.load * math.exp(RIVAL_SIGMAS * capacity.sigma))
        plans = [self._plan(state, trial) for state in self.states]
        trial.least_drawn = min(
            (plan.found.purchase.drawn_fraction for plan in plans if plan), default=trial.least_drawn
        )
        self._enter(trial)
        for state, plan in zip(self.states, plans, strict=True):
            state.shown.discard(trial.order)
            state.chances.pop(trial.order, None)
            state.put(trial.accelerator_id, trial.order, plan)
        if not any(trial.order in state.plans[trial.accelerator_id] for state in self.states):
            keep_furthest(self.reasons, trial.accelerator_id, cannot_be_had(self.scenario))

    def _miss(self, trial: Trial) -> MissesObjectives:
        """The objective that a candidate misses at any load, and what its runs reached at the lowest."""
        runs = self._measurements_of(trial)
        levels = [each for each in self.scenario.objectives.levels if each.metric == runs.binding]
        words = " and ".join(each.words for each in levels) or self.scenario.objectives.words
        if runs.missed is None:
            return MissesObjectives(words)
        reached = ((percentile_s(runs.missed, each), each) for each in levels)
        late = [(each_s, each) for each_s, each in reached if each.limit_s < each_s < math.inf]
        worst_s, worst = max(late, key=lambda each: each[0] / each[1].limit_s, default=(None, None))
        return MissesObjectives(worst.words, worst_s, worst.limit_s) if worst else MissesObjectives(words)

    def _measurements_of(self, trial: Trial) -> Measurements:
        """The runs of a candidate."""
        if trial.measurements is None:
            assert trial.replica is not None
            run = trial.candidate.deployment
            size = run.accelerators_per_replica
            self.report(f"simulating {run.model.id} on {size} x {trial.accelerator_id} ({run.engine.id})")
            trial.measurements = Measurements(trial.replica, self.scenario, trial.rate_bound)
        return trial.measurements

    def _children(self, trial: Trial, held: float) -> Iterator[Trial]:
        """Candidates with other batch limits, towards the objective that binds, where the hardware would allow more."""
        if self.scenario.traffic.concurrency is not None:
            return
        before = (
            trial.parent.measurements.screened_load if trial.parent and trial.parent.measurements else 0.0
        )
        if trial.parent is not None and held <= before:
            return
        assert trial.measurements is not None
        assert trial.replica is not None
        binding = trial.measurements.binding
        for candidate in batch_variants(trial.candidate, trial.replica, binding, self.scenario):
            bound = trial.rate_bound / _LEAST_GAIN
            # Gaps between tokens are as long as the iterations that carry prompts: there a smaller chunk may gain any
            # factor. Elsewhere at most a factor of two is assumed.
            best = bound if binding == "itl" or not held else held / _LEAST_GAIN
            child = Trial(max(self.trials) + 1, candidate, trial.ways, bound, best, parent=trial)
            # Other batch limits let boards carry more, and not draw less at the same load.
            child.least_drawn = trial.least_drawn
            self.trials[child.order] = child
            self._by_candidate[id(candidate)] = child
            yield child

    def _plan(self, state: _LaneState, trial: Trial) -> Planned | None:
        """The cheapest expected way to buy a measured candidate in a lane; None where it cannot be bought there.

        It rests on the capacity that the lane needs, even where another lane asked for a more precise one.
        """
        assert trial.capacity is not None
        if state.lane.is_safe and not trial.may_be_likely:
            return None
        confirmed = trial.confirmed
        if confirmed is not None and trial.capacity.stage == "settled":
            plan = self._cheapest_way(state, trial, confirmed)
            if plan is not None and self._is_enough(plan, confirmed):
                return plan
        return self._cheapest_way(state, trial, trial.capacity)

    def _cheapest_way(self, state: _LaneState, trial: Trial, capacity: Capacity) -> Planned | None:
        """The cheapest expected way to buy a candidate of a capacity in a lane; None where there is none."""
        scenario = self.scenario
        demand = state.lane.demand
        best = None
        bought = [
            (expected_cost(purchase, scenario), purchase)
            for way in self._ways(trial, state.lane)
            if (purchase := purchase_on(scenario, demand, way, capacity.load, capacity.requests_per_s))
        ]
        for least, purchase in sorted(bought, key=lambda each: each[0]):
            if best is not None and least >= best.expected_cost:
                break
            assert trial.replica is not None
            runs = trial.measurements
            found = Found(trial.candidate, trial.replica, capacity, purchase, trial.ways, measurements=runs)
            plan = _pay_at_load(scenario, judge_purchase(scenario, demand, found))
            if best is None or plan.expected_cost < best.expected_cost:
                best = plan
        if best is None or (state.lane.is_safe and not best.is_safe):
            return None
        return best

    def _trial_of(self, plan: Planned) -> Trial:
        return self._by_candidate[id(plan.found.candidate)]

    def _show(self, state: _LaneState, plan: Planned) -> None:
        """Put what a plan shows at its planning point in its place; a larger purchase where it misses an objective, or
        where a safe pick is sought and it is not likely to hold."""
        trial = self._trial_of(plan)
        if not affords(plan.result, LONG_REQUESTS):
            state.shown.add(trial.order)
            return
        others = [each for order, each in state.plans[trial.accelerator_id].items() if order != trial.order]
        most_cost = min((each.expected_cost for each in others), default=math.inf)
        at_point = run_planning_point(
            self.scenario, plan, is_held=not self.scenario.screened_only, most_cost=most_cost
        )
        if at_point is not None and at_point.point and state.lane.is_safe and not at_point.is_safe:
            at_point = self._surer(state, at_point)
        state.put(trial.accelerator_id, trial.order, at_point)
        if at_point is not None and at_point.point is not None:
            state.shown.add(trial.order)
        elif trial.accelerator_id not in state.lowest_costs:
            keep_furthest(self.reasons, trial.accelerator_id, cannot_be_had(self.scenario))

    def _surer(self, state: _LaneState, plan: Planned) -> Planned | None:
        """Return a plan that is not likely to hold with a replica more, or less load, before its planning point; None
        where that makes it hardly surer."""
        seen = state.chances[self._trial_of(plan).order]
        seen.append(plan.chance)
        if len(seen) > _MOST_GROWTH or (len(seen) > 1 and seen[-1] < seen[-2] + _LEAST_GAIN_OF_CHANCE):
            return None
        larger = _larger(self.scenario, plan)
        return larger if larger is not None and larger.is_safe else None


def run_planning_point(
    scenario: Scenario,
    plan: Planned,
    *,
    is_held: bool = True,
    most_runs: int = 0,
    most_cost: float = math.inf,
) -> Planned | None:
    """Return a plan with what it shows at its planning point, by seeds that decided nothing.

    Where the point misses an objective and `is_held`, a replica is added, or the load falls by 3 %, until it holds; the
    plan is None where that cannot be bought. One that is then expected to cost more than `most_cost` is returned as it
    would have to be bought, without its point. A question that confirms nothing is shown by as few runs as there may
    be.
    """
    most_runs = most_runs or (LEAST_SHOWN if scenario.screened_only else 0)
    is_counted = plan.demand.kind in ("rate", "clients")
    for _ in range(max(_MOST_GROWTH, plan.found.purchase.num_replicas if is_counted else 0)):
        point = _point_of(scenario, plan, most_runs)
        at_point = _showing(scenario, plan, point)
        if not is_held or strain(point.result, scenario.objectives)[0] <= 1.0 or is_spent():
            return at_point
        larger = _larger(scenario, plan)
        if larger is None or larger.expected_cost > most_cost >= plan.expected_cost:
            return larger
        plan = larger
    return None


def _point_of(scenario: Scenario, plan: Planned, most_runs: int) -> PlanningPoint:
    """Return what a replica shows at the load of a plan, in `most_runs` runs if that is not 0; made once."""
    found = plan.found
    points = {} if found.measurements is None else found.measurements.points
    point = points.get((plan.load, most_runs))
    if point is None:
        point = planning_point(
            found.served,
            scenario.traffic,
            scenario.objectives,
            plan.load,
            scenario.seed,
            spacing_s=found.capacity.spacing_s,
            most_runs=most_runs,
        )
        points[plan.load, most_runs] = point
    return point


def _pay_at_load(scenario: Scenario, plan: Planned) -> Planned:
    """Return a plan on own boards that are compared as they draw, paid by what they do in one run at its load.

    Any other plan is returned unchanged.
    """
    if not scenario.constraints.own or not is_compared_as_drawn(plan.demand):
        return plan
    return pay_as_drawn(scenario, plan, _point_of(scenario, plan, most_runs=1).result)


def grow_until_likely(scenario: Scenario, plan: Planned) -> Planned | None:
    """Return a plan with as many replicas more as make it likely to hold, at its planning point; None where no number
    that can be had does."""
    grown: Planned | None = plan
    while grown is not None and not is_spent():
        if grown.holds == "likely":
            shown = grown if grown.point is not None else run_planning_point(scenario, grown)
            if shown is None or shown.holds == "likely":
                return shown
        grown = _larger(scenario, grown)
    return None


def settle(scenario: Scenario, plan: Planned) -> Planned | None:
    """Return a plan with its capacity settled, at its planning point; None where it does not hold, or cannot be
    bought."""
    found = plan.found
    if found.measurements is None or scenario.screened_only:
        return run_planning_point(scenario, plan, is_held=not scenario.screened_only)
    capacity = found.measurements.capacity("settled")
    if capacity is None:
        return plan if is_spent() else None
    again = buy_at_capacity(scenario, plan.demand, found, capacity)
    return None if again is None else run_planning_point(scenario, again)


def _showing(scenario: Scenario, plan: Planned, point: PlanningPoint) -> Planned:
    """Return a plan with a run of it, the chance that its latencies leave, and own boards paid by what they draw there;
    clients are served as fast as they are there, which decides what a token costs, and not what the search compares."""
    result = point.result
    chance = min(plan.chance, chance_within(plan.found, result, scenario.objectives))
    plan = pay_as_drawn(scenario, replace(plan, chance=chance, result=result, point=point), result)
    if plan.demand.kind != "clients":
        return plan
    bought = plan.found.purchase
    per_s = plan.demand.size / plan.load
    per_s *= result.steady_requests_per_s or result.requests_per_s
    ratio = bought.requests_per_s / per_s
    paid = replace(
        bought,
        requests_per_s=per_s,
        usd_per_million_tokens=ratio * bought.usd_per_million_tokens,
    )
    return replace(plan, found=plan.found.with_purchase(paid))


def _larger(scenario: Scenario, plan: Planned) -> Planned | None:
    """Return a plan with a replica more, or with 3 % less load on each; None where that cannot be bought, or there are
    no clients for one more."""
    found = plan.found
    demand = plan.demand
    capacity = found.capacity
    if found.fleet is not None:
        return None
    way = found.purchase.placement
    count = found.purchase.num_replicas
    if demand.kind in ("rate", "clients"):
        bought = with_replicas(scenario, demand, way, capacity.load, capacity.requests_per_s, count + 1)
        if bought is None or bought.num_replicas <= count:
            return None
        larger = judge_purchase(scenario, demand, found.with_purchase(bought))
    else:
        less = buy_at_capacity(scenario, demand, found, capacity.scale(GRID))
        if less is None:
            return None
        larger = less
    return _pay_at_load(scenario, larger)


def cannot_be_had(scenario: Scenario) -> Reason:
    """Return why no purchase carries the load."""
    if scenario.constraints.own:
        return OwnedTooSlow()
    return OverBudget() if scenario.objectives.budget_usd_per_hour is not None else NotEnoughOffered()
