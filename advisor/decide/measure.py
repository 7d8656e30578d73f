"""Measurements of one deployment: the highest load that it holds within the objectives, and its planning point.

A measurement depends on the deployment, the traffic and the objectives alone, never on what else was tried: loads
lie on a grid below the deployment's own bound, seeds are nested in a fixed order, and every run is kept. So one
measurement serves all demands of a question, and adding or removing candidates changes no figure.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import numpy as np

from advisor.decide.effort import is_spent
from advisor.decide.load_runs import (
    Served,
    arrivals_per_s,
    busy_clients,
    most_clients,
    odds_of_missing,
    percentile_s,
    run_at,
    strain,
)
from advisor.decide.luck import typical_seeds, utilization_error
from advisor.decide.scenario import Objectives, Scenario, Traffic
from advisor.simulator.serving import ServingResult
from advisor.simulator.serving.metrics import pool_runs
from advisor.simulator.serving.overload import RESIDENCES

Stage = Literal["screened", "confirmed", "settled"]
"""How precisely a capacity is known."""
STAGES: Final[tuple[Stage, ...]] = ("screened", "confirmed", "settled")
NUM_SEEDS: Final[dict[Stage, int]] = {"screened": 1, "confirmed": 1, "settled": 2}
"""Seeds whose runs decide together whether a load holds. Few long runs, not many short ones: a run begins empty, and
near its capacity a replica misses its objectives in excursions that may be thousands of requests apart."""
SIGMA: Final[dict[Stage, float]] = {"screened": 0.09, "confirmed": 0.045, "settled": 0.04}
"""Standard error of the logarithm of a capacity by stage: root mean square over twelve leading deployments and eight
seeds, against runs of 320,000 requests. Measured by `python benchmarks/bench_measure.py --tables sigma`."""
LEAST_SHOWN: Final = 3
"""Seeds of a planning point, at least; they decided nothing before."""
_MOST_SHOWN: Final = 8
"""Seeds of a planning point, at most."""
_SEED_BLOCK: Final = 16
"""Seeds that one question may use: the seeds of two questions do not overlap."""
GRID: Final = 0.97
"""Ratio of neighbouring loads: finer than the sampling error of a settled capacity."""
SHORT_REQUESTS: Final = 300
"""Requests of a screening run."""
LONG_REQUESTS: Final = 1200
"""Least requests of each run that confirms: twelve of them lie beyond their 99th percentile."""
_MOST_REQUESTS: Final = 20_000
_MIN_TTFT_LIMITS_PER_RUN: Final = 20
"""Minimum length of a confirming run, in multiples of the TTFT objective: a backlog that grows by 5 % of the arrivals
then shows as a missed objective."""
_LONGEST_WAIT_S: Final = 60.0
"""TTFT objective beyond which a confirming run is made no longer [s]."""
_KEEPS_UP: Final = 0.9
"""Least part of the offered rate that a confirming run serves between its first and last tenth."""
_GIVE_UP: Final[dict[Stage, float]] = {"screened": 0.02, "confirmed": 0.06, "settled": 0.06}
"""Part of the requests of one run which miss an objective that ends the run: its strain then counts as "at least 1".
Six in a hundred of one run are one in a hundred of two runs for one of three metrics, so no later run could help."""
_MISSED: Final = 1.01
"""Least strain of a run that was given up."""
_START: Final[dict[Stage, float]] = {"screened": 0.9, "confirmed": 1.1, "settled": 1.0}
"""First load that is tried, over the bound of the deployment or the capacity of the stage before. It decides how much
is simulated: a screened start of 0.7 takes 4 % more requests and one of 0.9 2 % fewer, and capacities move by 2 %.
Measured by `python benchmarks/bench_measure.py --tables start`."""
_OPTIMISM: Final = 0.9
"""Lasting capacity over that of screening runs, which begin empty and end before queues are full: 0.95 in the mean of
twelve leading deployments, 1.05 at most. Of those that do not lead it may be a quarter. Two standard errors above 0.95
is 1.11, so that no candidate which could lead is left behind. Measured by
`python benchmarks/bench_measure.py --tables optimism,sigma`."""
_PRECISION: Final[dict[Stage, int]] = {"screened": 6, "confirmed": 3, "settled": 2}
"""Steps of the grid between the highest load that holds and the lowest that does not at which the search ends."""
_MOST_RISE: Final[dict[Stage, float]] = {"screened": 1.0, "confirmed": 1.35, "settled": 1.15}
"""Capacity of a stage over that of the stage before, at most."""
_CLOSE: Final[dict[Stage, float]] = {"screened": 0.03, "confirmed": 1.2, "settled": 1.0}
"""Logarithm of the strain of a load up to which no other load is tried: a screened one must hold, of others capacity is
where the usual steepness leads from there, by 2 % of load at most."""
_STEEPNESS: Final[dict[Stage, float]] = {"screened": 2.0, "confirmed": 45.0, "settled": 45.0}
"""Usual power of the load with which strain grows: of screened loads a latency, of others the odds that a request
misses an objective. Of eleven leading deployments those grow with powers of 19 to 110 between one and ten in a
hundred."""
_LEAST_STEP: Final[dict[Stage, float]] = {"screened": 0.8, "confirmed": 0.9, "settled": 0.9}
"""Ratio of neighbouring loads that are tried, at least, while none holds."""
_MOST_ERROR: Final = 0.1
"""Largest error of the utilization of a queue that is taken off a capacity."""
_MAX_LOADS: Final = 9
"""Loads that one stage tries at most."""
_LEAST_RATE: Final = 2e-3
"""Requests per second below which a replica is no answer: one request in eight minutes."""
_TAIL_FRACTION: Final = 0.01
"""Part of the requests beyond the wait by which the error of a run is known."""
_FIRST_SHOWN: Final = 8
"""Number of the first seed of a planning point; those before it may decide."""
_SHOWN_REQUESTS: Final = 600
"""Requests of each run of a planning point, at least."""
_SAMPLING_ERROR: Final = 0.05
"""Relative standard error of the percentiles of a planning point below which no seed is added."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """The highest load of one replica within the objectives, and the runs that show it."""

    load: float
    """Requests per second, or clients where the traffic is a closed loop."""
    requests_per_s: float
    """Served by one replica at this load."""
    result: ServingResult
    """Runs at the highest load of the grid that holds."""
    num_requests: int
    """Simulated over all runs."""
    binding: str
    """Name of the limit that is missed first above this load: ttft, tpot, itl, e2e, throughput or kv cache."""
    stage: Stage = "settled"

    @property
    def spacing_s(self) -> float:
        """Time after which the next client of a closed loop begins [s]: as fast as requests are served."""
        return 1.0 / self.requests_per_s

    @property
    def sigma(self) -> float:
        """Standard error of the logarithm of the load, by sampling."""
        return SIGMA[self.stage]

    def scale(self, factor: float) -> "Capacity":
        """Return the capacity of a replica that carries `factor` times the load."""
        return replace(self, load=factor * self.load, requests_per_s=factor * self.requests_per_s)


@dataclass(frozen=True, slots=True)
class _Judged:
    """Runs at one load, pooled, and how near they come to the tightest objective."""

    result: ServingResult
    strain: float
    """Above 1 where an objective is missed."""
    metric: str
    is_at_least: bool = False
    """Whether a run was given up, so that the strain is only known to be above 1."""


@dataclass(frozen=True, slots=True)
class PlanningPoint:
    """Pooled runs of a deployment at its planned load, and how they were made, so that they can be made again."""

    result: ServingResult
    load: float
    """Load of one replica."""
    seeds: tuple[int, ...]
    num_requests: int
    """Requests of each run."""
    spacing_s: float


@dataclass(slots=True)
class Measurements:
    """All runs of one deployment under the traffic and the objectives of a question."""

    served: Served
    scenario: Scenario
    bound_per_s: float
    """Most requests per second that the deployment can serve."""
    num_requests: int = 0
    _runs: dict[tuple[float, int, Stage], ServingResult] = field(default_factory=dict)
    _judged: dict[tuple[float, Stage], _Judged] = field(default_factory=dict)
    _capacities: dict[Stage, Capacity | None] = field(default_factory=dict)
    points: dict[tuple[float, int], PlanningPoint] = field(default_factory=dict)
    """Planning points by load, and by the most runs that they may have."""
    binding: str = ""
    """Objective that the lowest load which misses one missed, at the last stage."""
    missed: ServingResult | None = None
    """Runs at that load."""

    @property
    def is_closed(self) -> bool:
        """Whether the traffic is a closed loop, whose load is a whole number of clients."""
        return self.scenario.traffic.concurrency is not None

    @property
    def screened_load(self) -> float:
        """Load of the screened capacity; 0 where there is none."""
        found = self._capacities.get("screened")
        return found.load if found else 0.0

    def capacity(self, stage: Stage) -> Capacity | None:
        """Return the capacity at a stage of precision; None where even the lightest load misses an objective, or
        where no more may be simulated."""
        if stage not in self._capacities:
            found = self._find(stage)
            if found is None and is_spent():
                return None
            self._capacities[stage] = found
        return self._capacities[stage]

    def load_from(self, load: float, places_below: int = 0) -> float:
        """Return the lowest load of the grid that is not below a load, or one some places below that."""
        grid = _Grid(self._loads("screened")[0], whole=self.is_closed)
        place = grid.nearest(load)
        if place and grid.load(place) < load:
            place -= 1
        return grid.load(place + places_below)

    def holds(self, load: float, stage: Stage = "confirmed") -> ServingResult | None:
        """Return the pooled runs that show that a load holds; None where they miss an objective."""
        judged = self._at(self._load_to_run(load, stage), stage)
        return judged.result if judged.strain <= 1.0 else None

    def _load_to_run(self, load: float, stage: Stage) -> float:
        """The load of the grid at which the runs of a stage show what lasting traffic of a load does: they are luckier,
        or less lucky."""
        if self.is_closed:
            return load
        lucky = 1.0 / _OPTIMISM if stage == "screened" else math.exp(self._error(load, stage))
        return load if lucky == 1.0 else min(self.load_from(lucky * load), self._loads("screened")[0])

    def _find(self, stage: Stage) -> Capacity | None:
        most, start, limit = self._loads(stage)
        if start <= 0.0:
            return None
        grid = _Grid(most, whole=self.is_closed)
        held: tuple[int, _Judged] | None = None
        missed: tuple[int, _Judged | None] = (grid.nearest(min(most, limit)) - 1, None)
        place = grid.nearest(start)
        misses = 0
        before = self.num_requests
        for _ in range(_MAX_LOADS):
            load = grid.load(place)
            if load < (1.0 if self.is_closed else min(_LEAST_RATE, start)) or is_spent():
                break
            judged = self._at(load, stage)
            if judged.strain <= 1.0:
                held = place, judged
            else:
                missed = (place, judged)
                misses = misses + (held is None)
                self.binding = judged.metric
                self.missed = judged.result
            if judged.strain == math.inf:  # requests that no load makes shorter
                break
            if self._is_close(judged, stage) or (held and held[0] - missed[0] <= _PRECISION[stage]):
                break
            place = _next_place(stage, grid, held, missed, misses)
        near = place, self._at(grid.load(place), stage)
        if held is None and not self._is_close(near[1], stage):
            return None
        return self._crossing(stage, grid, near, held, missed, self.num_requests - before)

    def _is_close(self, judged: "_Judged", stage: Stage) -> bool:
        """Whether a load is so near to the capacity that no other need be tried."""
        if judged.is_at_least or judged.strain <= 0.0:
            return False
        must_hold = stage == "screened" or self.is_closed
        above = math.log(judged.strain)
        return -_CLOSE[stage] <= above <= (0.0 if must_hold else _CLOSE[stage])

    def _loads(self, stage: Stage) -> tuple[float, float, float]:
        """The highest load of the grid, the first that is tried, and a load that cannot hold."""
        traffic = self.scenario.traffic
        bound = self.bound_per_s
        most = bound
        start = _START["screened"] * bound
        if traffic.concurrency is not None:
            most = float(
                most_clients(traffic, self.scenario.objectives, self.scenario.headroom_fraction, bound)
            )
            start = most
            if most < traffic.concurrency / (1.0 - self.scenario.headroom_fraction):
                start = math.ceil(_START["screened"] * busy_clients(traffic, self.scenario.objectives, bound))
        if stage == "screened":
            return most, start, most
        earlier = self.capacity(STAGES[STAGES.index(stage) - 1])
        if earlier is None:
            return most, 0.0, most
        start = _START[stage] * earlier.load * math.exp(self._error(earlier.load, stage))
        return most, start, max(start / GRID, _MOST_RISE[stage] * earlier.load)

    def _crossing(
        self,
        stage: Stage,
        grid: "_Grid",
        near: tuple[int, "_Judged"],
        held: tuple[int, "_Judged"] | None,
        missed: tuple[int, "_Judged | None"],
        num_requests: int,
    ) -> Capacity:
        """The load at which the strain reaches 1: beyond a load that is close to it, or between one that holds and one
        that misses, on logarithms."""
        place, judged = held or near
        load = grid.load(place)
        above = missed[1]
        binding = above.metric if above is not None else judged.metric
        if self._is_close(near[1], stage) and not self.is_closed:
            load = grid.load(near[0]) * near[1].strain ** (-1.0 / _STEEPNESS[stage])
        elif above is not None and not self.is_closed and judged.strain > 0.0:
            upper = grid.load(missed[0])
            if not above.is_at_least:
                part = math.log(1.0 / judged.strain) / math.log(above.strain / judged.strain)
                load *= (upper / load) ** min(1.0, max(0.0, part))
            elif stage != "screened":
                load = math.sqrt(load * upper)
        served = load
        if self.is_closed:
            served = judged.result.steady_requests_per_s or judged.result.requests_per_s
        else:
            load = served = min(load, grid.most) * math.exp(-self._error(load, stage))
        found = Capacity(load, served, judged.result, num_requests, binding, stage)
        return found.scale(_OPTIMISM) if stage == "screened" and not self.is_closed else found

    def _error(self, load: float, stage: Stage) -> float:
        """Return by how much the runs of a stage overstate the load, on the logarithm, as a queue does that serves the
        same requests; 0 where that is not known."""
        if stage == "screened" or not self._is_typed:
            return 0.0
        seeds = tuple(self._seed(number) for number in range(NUM_SEEDS[stage]))
        wait = load * self.scenario.objectives.largest_ttft_s
        error = utilization_error(self.scenario.traffic, seeds, self._long_length(load), wait, _TAIL_FRACTION)
        return min(_MOST_ERROR, max(-_MOST_ERROR, error))

    @property
    def _is_typed(self) -> bool:
        """Whether it is known how typical a run is: requests that are drawn independently, and may wait."""
        traffic = self.scenario.traffic
        is_drawn = traffic.trace is None and traffic.conversations is None and traffic.part is None
        return is_drawn and not self.is_closed and math.isfinite(self.scenario.objectives.largest_ttft_s)

    def _seed(self, number: int) -> int:
        """The seed of a long run. Those that are typical of the traffic come first, in the same order for all
        deployments of about one capacity."""
        if not self._is_typed:
            return seed_of(self.scenario.seed, number)
        seeds = tuple(seed_of(self.scenario.seed, each) for each in range(_FIRST_SHOWN))
        wait = 2.0 ** round(math.log2(self.bound_per_s * self.scenario.objectives.largest_ttft_s))
        return typical_seeds(self.scenario.traffic, seeds, LONG_REQUESTS, wait, _TAIL_FRACTION)[number]

    def _at(self, load: float, stage: Stage) -> _Judged:
        """Runs at a load, of as many seeds as it takes to tell whether it holds."""
        key = (load, stage)
        if key not in self._judged:
            self._judged[key] = self._judge(load, stage)
        return self._judged[key]

    def _judge(self, load: float, stage: Stage) -> _Judged:
        together: ServingResult | None = None
        tightest = math.inf
        metric = "throughput"
        for number in range(NUM_SEEDS[stage]):
            if together is not None and is_spent():
                break
            result = self._run(load, number, stage)
            own, metric = self._strain(result, load, stage)
            if result.gave_up or own == math.inf:
                return _Judged(result, max(own, _MISSED), metric, is_at_least=True)
            together = result if together is None else pool_runs([together, result])
            tightest, metric = self._strain(together, load, stage)
        assert together is not None
        return _Judged(together, tightest, metric, is_at_least=metric == "throughput" and tightest > 1.0)

    def _strain(self, result: ServingResult, load: float, stage: Stage) -> tuple[float, str]:
        """Return how near runs come to the tightest objective, above 1 where they miss it, and its name: the ratio of a
        latency to it in a screening run. In longer ones the odds that a request misses it over those that it allows,
        since a percentile of few excursions tells less than how many miss; they must also keep up with their arrivals.
        """
        if stage == "screened":
            return strain(result, self.scenario.objectives)
        tightest, metric = odds_of_missing(result, self.scenario.objectives)
        served = result.steady_requests_per_s
        if self.is_closed or tightest > 1.0 or served is None:
            return tightest, metric
        seeds = (self._seed(number) for number in range(NUM_SEEDS[stage]))
        length = self._long_length(load)
        sent = min(arrivals_per_s(self.scenario.traffic, load, length, seed) for seed in seeds)
        return (tightest, metric) if served >= _KEEPS_UP * sent else (_KEEPS_UP * sent / served, "throughput")

    def _run(self, load: float, number: int, stage: Stage) -> ServingResult:
        """The run of one seed at a load; confirming and settling share theirs."""
        kind: Stage = "screened" if stage == "screened" else "confirmed"
        key = (load, number, kind)
        if key not in self._runs:
            self._runs[key] = (
                self._simulate(
                    kind, load, seed_of(self.scenario.seed, 0), SHORT_REQUESTS, 1.0 / self.bound_per_s
                )
                if kind == "screened"
                else self._long_run(load, number)
            )
        return self._runs[key]

    def _long_run(self, load: float, number: int) -> ServingResult:
        """A run of many residence times, long enough for a growing backlog to show."""
        length = self._long_length(load)
        spacing_s = 1.0 / self.bound_per_s
        if self.is_closed:
            screened = self.capacity("screened")
            spacing_s = screened.spacing_s if screened else spacing_s
        return self._simulate("confirmed", load, self._seed(number), length, spacing_s)

    def _long_length(self, load: float) -> int:
        """Requests of a long run at a load. They do not depend on which loads were tried before."""
        if self.is_closed:
            return LONG_REQUESTS
        wait_s = min(self.scenario.objectives.largest_ttft_s, _LONGEST_WAIT_S)
        screened = self.capacity("screened")
        residence_s = screened.result.e2e.mean_s if screened else 0.0
        return run_length(max(_MIN_TTFT_LIMITS_PER_RUN * load * wait_s, RESIDENCES * load * residence_s))

    def _simulate(
        self, kind: Stage, load: float, seed: int, num_requests: int, spacing_s: float
    ) -> ServingResult:
        result = run_at(
            self.served,
            self.scenario.traffic,
            load,
            num_requests,
            seed,
            objectives=self.scenario.objectives,
            spacing_s=spacing_s,
            give_up_fraction=_GIVE_UP[kind],
        )
        self.num_requests += result.num_requests
        return result


@dataclass(frozen=True, slots=True)
class _Grid:
    """Loads that may be tried: 3 % apart below the bound, or whole numbers of clients."""

    most: float
    whole: bool

    def load(self, place: int) -> float:
        """The load at a place of the grid, 0 being the highest."""
        return self.most - place if self.whole else self.most * GRID**place

    def nearest(self, load: float) -> int:
        """The place of the highest load of the grid that is not above a load."""
        if self.whole:
            return max(0, math.ceil(self.most - load - 1e-9))
        return max(0, math.ceil(math.log(min(1.0, load / self.most)) / math.log(GRID) - 1e-9))


def _next_place(
    stage: Stage,
    grid: _Grid,
    held: tuple[int, _Judged] | None,
    missed: tuple[int, _Judged | None],
    misses: int,
) -> int:
    """The next place of the grid: further down while nothing holds, between hold and miss afterwards."""
    least = _LEAST_STEP[stage]
    power = 1.0 / _STEEPNESS[stage]
    if held is None:
        assert missed[1] is not None
        judged = missed[1]
        factor = least
        if math.isfinite(judged.strain) and not (stage == "screened" and judged.is_at_least):
            factor = min(GRID, max(least, judged.strain**-power))
        lower = grid.nearest(grid.load(missed[0]) * factor**misses)
        return max(lower, missed[0] + 1)
    place, judged = held
    steps = place - missed[0]
    if missed[1] is None and stage != "screened" and judged.strain > 0.0:
        upper = grid.load(place) / max(least, judged.strain**power)
        return max(missed[0] + 1, min(place - 1, grid.nearest(upper)))
    part = 0.5
    if missed[1] is not None and judged.strain > 0.0 and not missed[1].is_at_least:
        part = math.log(1.0 / judged.strain) / math.log(missed[1].strain / judged.strain)
    return place - min(steps - 1, max(1, round(steps * min(0.7, max(0.3, part)))))


def seed_of(seed: int, number: int) -> int:
    """Return the seed of a run: 0 to 7 decide, 8 to 15 show."""
    return _SEED_BLOCK * seed + number


def seeds_to_show(seed: int) -> tuple[int, ...]:
    """Return the seeds of a planning point."""
    return tuple(seed_of(seed, number) for number in range(_FIRST_SHOWN, _FIRST_SHOWN + _MOST_SHOWN))


def _shown_length(residing: float) -> int:
    """Requests of a run of a planning point, by how many reside at once."""
    return min(_MOST_REQUESTS, max(_SHOWN_REQUESTS, math.ceil(RESIDENCES * residing)))


def run_length(num_requests: float) -> int:
    """Return the requests of a confirming run that should have `num_requests`, within what one run may have."""
    return min(_MOST_REQUESTS, max(LONG_REQUESTS, math.ceil(num_requests)))


def planning_point(
    served: Served,
    traffic: Traffic,
    objectives: Objectives,
    load: float,
    seed: int,
    *,
    spacing_s: float,
    most_runs: int = 0,
) -> PlanningPoint:
    """Return what one replica shows at the load that it is planned for, by seeds that decided nothing.

    Seeds are added until the percentiles of the objectives have a sampling error below 5 %, or up to `most_runs` where
    that is given.
    """
    length = _SHOWN_REQUESTS
    runs = list[ServingResult]()
    seeds = seeds_to_show(seed)
    for number, each in enumerate(seeds):
        run = run_at(served, traffic, load, length, each, spacing_s=spacing_s)
        if not number and traffic.concurrency is None:
            needed = _shown_length(load * run.e2e.mean_s)
            if needed > length:
                length = needed
                run = run_at(served, traffic, load, length, each, spacing_s=spacing_s)
        runs.append(run)
        if is_spent() or len(runs) == most_runs:
            break
        if len(runs) >= LEAST_SHOWN and sampling_error(runs, objectives) < _SAMPLING_ERROR:
            break
    return PlanningPoint(pool_runs(runs), load, seeds[: len(runs)], length, spacing_s)


def sampling_error(runs: Sequence[ServingResult], objectives: Objectives) -> float:
    """Relative standard error, over runs of different seeds, of the percentiles that have an objective; the largest."""
    errors = [0.0]
    for level in objectives.levels:
        values = np.array([percentile_s(run, level) for run in runs])
        if len(values) > 1 and np.isfinite(values).all() and values.mean() > 0:
            errors.append(float(values.std(ddof=1) / values.mean() / math.sqrt(len(values))))
    return max(errors)
