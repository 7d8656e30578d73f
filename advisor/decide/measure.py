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
from advisor.decide.load_runs import Served, busy_clients, percentile_s, run_at, strain
from advisor.decide.scenario import Objectives, Traffic
from advisor.simulator.serving import ServingResult
from advisor.simulator.serving.metrics import pool_runs

Stage = Literal["screened", "confirmed", "settled"]
"""How precisely a capacity is known."""
STAGES: Final[tuple[Stage, ...]] = ("screened", "confirmed", "settled")
NUM_SEEDS: Final[dict[Stage, int]] = {"screened": 1, "confirmed": 3, "settled": 8}
"""Seeds whose runs decide together whether a load holds. More seeds reduce the sampling error (see SIGMA), not what
short runs miss: settled capacities of twelve leading deployments are 5 to 14 % above those of runs of 60,000 requests,
8 % in the mean; likely because a backlog that grows slowly needs longer than a run lasts to show
(`_MIN_TTFT_LIMITS_PER_RUN`). Measured by `python benchmarks/bench_measure.py --tables sigma`."""
SIGMA: Final[dict[Stage, float]] = {"screened": 0.12, "confirmed": 0.06, "settled": 0.035}
"""Standard error of the logarithm of a capacity by stage, by sampling. Of twelve leading deployments the standard
deviation over five seeds is 0.060 screened, 0.048 confirmed and 0.043 settled; screened capacities also differ between
deployments by what `_OPTIMISM` leaves out: 0.090 in all, against runs of 60,000 requests.
Measured by `python benchmarks/bench_measure.py --tables sigma`."""
LEAST_SHOWN: Final = 3
"""Seeds of a planning point, at least; they decided nothing before."""
_MOST_SHOWN: Final = 8
"""Seeds of a planning point, at most."""
_SEED_BLOCK: Final = 16
"""Seeds that one question may use: the seeds of two questions do not overlap."""
_GRID: Final = 0.97
"""Ratio of neighbouring loads: finer than the sampling error of a settled capacity."""
SHORT_REQUESTS: Final = 300
"""Requests of a screening run."""
LONG_REQUESTS: Final = 600
"""Least requests of each run that confirms: 18 of three such runs lie beyond their 99th percentile."""
_MOST_REQUESTS: Final = 20_000
RESIDENCES: Final = 8
"""Minimum length of a confirming run, in mean request residence times, because a run starts with an empty replica."""
_MIN_TTFT_LIMITS_PER_RUN: Final = 20
"""Minimum length of a confirming run, in multiples of the TTFT objective: a backlog that grows by 5 % of the arrivals
then shows as a missed objective."""
_LONGEST_WAIT_S: Final = 60.0
"""TTFT objective beyond which a confirming run is made no longer [s]."""
_KEEPS_UP: Final = 0.9
"""Least part of the offered rate that a confirming run serves between its first and last tenth."""
_GIVE_UP: Final[dict[Stage, float]] = {"screened": 0.02, "confirmed": 0.05, "settled": 0.05}
"""Part of the requests of one run which miss an objective that ends the run: its strain then counts as "at least 1"."""
_MISSED: Final = 1.01
"""Least strain of a run that was given up."""
_CLEAR: Final = (0.75, 0.85, 0.9)
"""Strain of the runs of one, two, and three or more seeds up to which further seeds are not asked. Without it a
settled capacity of twenty deployments takes 1.6 times the requests and moves by 5 %. Measured by
`python benchmarks/bench_measure.py --tables clear`."""
_START: Final[dict[Stage, float]] = {"screened": 0.8, "confirmed": 0.94, "settled": 1.0}
"""First load that is tried, over the bound of the deployment or the capacity of the stage before. It decides how much
is simulated: a screened start of 0.7 takes 4 % more requests and one of 0.9 2 % fewer, and capacities move by 2 %.
Measured by `python benchmarks/bench_measure.py --tables start`."""
_OPTIMISM: Final = 0.9
"""Capacity that confirming runs find over the one of screening runs, which begin empty and end before queues are full.
Of 39 deployments drawn from those for sale it is 0.22 to 1.06, median 0.74 and 1.01 at the ninth decile; of those that
lead it is about 1. Two standard errors above 0.9 is 1.14, so that no candidate which could lead is left behind; 0.8
left one behind, and two races took 2 and 10 % more requests with it. Measured by
`python benchmarks/bench_measure.py --tables optimism`."""
_PRECISION: Final[dict[Stage, int]] = {"screened": 6, "confirmed": 2, "settled": 1}
"""Steps of the grid between the highest load that holds and the lowest that does not at which the search ends."""
_MOST_RISE: Final[dict[Stage, float]] = {"screened": 1.0, "confirmed": 1.35, "settled": 1.15}
"""Capacity of a stage over that of the stage before, at most."""
_CLOSE: Final = 0.97
"""Strain of a load that holds from which no higher load is tried."""
_MAX_LOADS: Final = 9
"""Loads that one stage tries at most."""
_FIRST_STEP: Final = 0.8
_LEAST_RATE: Final = 2e-3
"""Requests per second below which a replica is no answer: one request in eight minutes."""
_CLIENTS_SLACK: Final = 2.0
"""Times the clients that keep a replica busy by Little's law up to which numbers of clients are tried."""
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
    traffic: Traffic
    objectives: Objectives
    bound_per_s: float
    """Most requests per second that the deployment can serve."""
    seed: int
    headroom_fraction: float = 0.0
    num_requests: int = 0
    _runs: dict[tuple[float, int, Stage], ServingResult] = field(default_factory=dict)
    _judged: dict[tuple[float, Stage], _Judged] = field(default_factory=dict)
    _capacities: dict[Stage, Capacity | None] = field(default_factory=dict)
    points: dict[tuple[float, int], PlanningPoint] = field(default_factory=dict)
    """Planning points by load, and by the most runs that they may have."""
    binding: str = ""
    """Objective that the lowest load which misses one missed, at the last stage."""

    @property
    def is_closed(self) -> bool:
        """Whether the traffic is a closed loop, whose load is a whole number of clients."""
        return self.traffic.concurrency is not None

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

    def load_from(self, load: float) -> float:
        """Return the lowest load of the grid that is not below a load."""
        grid = _Grid(self._loads("screened")[0], whole=self.is_closed)
        place = grid.nearest(load)
        return grid.load(place - 1) if place and grid.load(place) < load else grid.load(place)

    def holds(self, load: float, stage: Stage = "confirmed") -> ServingResult | None:
        """Return the pooled runs at one load; None where they miss an objective."""
        judged = self._at(load, stage)
        return judged.result if judged.strain <= 1.0 else None

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
            if held is not None and (held[0] - missed[0] <= _PRECISION[stage] or held[1].strain >= _CLOSE):
                break
            place = _next_place(grid, held, missed, misses)
        if held is None:
            return None
        return self._crossing(stage, grid, held, missed, self.num_requests - before)

    def _loads(self, stage: Stage) -> tuple[float, float, float]:
        """The highest load of the grid, the first that is tried, and a load that cannot hold."""
        traffic = self.traffic
        bound = self.bound_per_s
        most = bound
        start = _START["screened"] * bound
        if traffic.concurrency is not None:
            busy = busy_clients(traffic, self.objectives, bound)
            most = float(math.ceil(traffic.concurrency / (1.0 - self.headroom_fraction)))
            start = most
            if most > _CLIENTS_SLACK * busy:
                most = math.ceil(_CLIENTS_SLACK * busy)
                start = math.ceil(_START["screened"] * busy)
        if stage == "screened":
            return most, start, most
        earlier = self.capacity(STAGES[STAGES.index(stage) - 1])
        if earlier is None:
            return most, 0.0, most
        return most, _START[stage] * earlier.load, _MOST_RISE[stage] * earlier.load

    def _crossing(
        self,
        stage: Stage,
        grid: "_Grid",
        held: tuple[int, _Judged],
        missed: tuple[int, _Judged | None],
        num_requests: int,
    ) -> Capacity:
        """The load at which the strain reaches 1, by logarithmic interpolation between the loads that hold and miss."""
        place, judged = held
        load = grid.load(place)
        binding = missed[1].metric if missed[1] is not None else judged.metric
        # The strain of a load that holds is that of its latencies: it says nothing of how near it is to falling behind.
        is_near = missed[1] is not None and not missed[1].is_at_least and missed[1].metric != "throughput"
        if missed[1] is not None and is_near and not self.is_closed and judged.strain > 0.0:
            upper = grid.load(missed[0])
            part = math.log(1.0 / judged.strain) / math.log(missed[1].strain / judged.strain)
            load *= (upper / load) ** min(1.0, max(0.0, part))
        served = load
        if self.is_closed:
            served = judged.result.steady_requests_per_s or judged.result.requests_per_s
        found = Capacity(load, served, judged.result, num_requests, binding, stage)
        return found.scale(_OPTIMISM) if stage == "screened" and not self.is_closed else found

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
            if stage != "screened" and tightest <= _CLEAR[min(number, len(_CLEAR) - 1)]:
                break
        assert together is not None
        return _Judged(together, tightest, metric)

    def _strain(self, result: ServingResult, load: float, stage: Stage) -> tuple[float, str]:
        """Largest ratio of a latency to its objective; a confirming run must also keep up with its arrivals."""
        tightest, metric = strain(result, self.objectives)
        served = result.steady_requests_per_s
        if stage == "screened" or self.is_closed or tightest > 1.0 or served is None:
            return tightest, metric
        return (_KEEPS_UP * load / served, "throughput") if served < _KEEPS_UP * load else (tightest, metric)

    def _run(self, load: float, number: int, stage: Stage) -> ServingResult:
        """The run of one seed at a load; confirming and settling share theirs."""
        kind: Stage = "screened" if stage == "screened" else "confirmed"
        key = (load, number, kind)
        if key not in self._runs:
            self._runs[key] = self._short_run(load) if kind == "screened" else self._long_run(load, number)
        return self._runs[key]

    def _short_run(self, load: float) -> ServingResult:
        result = run_at(
            self.served,
            self.traffic,
            load,
            SHORT_REQUESTS,
            seed_of(self.seed, 0),
            objectives=self.objectives,
            spacing_s=1.0 / self.bound_per_s,
            give_up_fraction=_GIVE_UP["screened"],
        )
        self.num_requests += result.num_requests
        return result

    def _long_run(self, load: float, number: int) -> ServingResult:
        """A run of many residence times, long enough for a growing backlog to show."""
        length = LONG_REQUESTS
        spacing_s = 1.0 / self.bound_per_s
        if not self.is_closed:
            wait_s = min(self.objectives.largest_ttft_s, _LONGEST_WAIT_S)
            length = run_length(_MIN_TTFT_LIMITS_PER_RUN * load * wait_s)
            # The screened capacity does not depend on which loads were confirmed before: neither does this length.
            screened = self._capacities.get("screened")
            residence_s = screened.result.e2e.mean_s if screened else 0.0
            length = max(length, run_length(RESIDENCES * load * residence_s))
        else:
            screened = self.capacity("screened")
            spacing_s = screened.spacing_s if screened else spacing_s
        result = self._simulate(load, number, length, spacing_s)
        if not self.is_closed and not result.gave_up:
            needed = run_length(RESIDENCES * load * result.e2e.mean_s)
            if needed > length:
                result = self._simulate(load, number, needed, spacing_s)
        return result

    def _simulate(self, load: float, number: int, num_requests: int, spacing_s: float) -> ServingResult:
        result = run_at(
            self.served,
            self.traffic,
            load,
            num_requests,
            seed_of(self.seed, number),
            objectives=self.objectives,
            spacing_s=spacing_s,
            give_up_fraction=_GIVE_UP["confirmed"],
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
        return self.most - place if self.whole else self.most * _GRID**place

    def nearest(self, load: float) -> int:
        """The place of the highest load of the grid that is not above a load."""
        if self.whole:
            return max(0, math.ceil(self.most - load - 1e-9))
        return max(0, math.ceil(math.log(min(1.0, load / self.most)) / math.log(_GRID) - 1e-9))


def _next_place(
    grid: _Grid, held: tuple[int, _Judged] | None, missed: tuple[int, _Judged | None], misses: int
) -> int:
    """The next place of the grid: further down while nothing holds, between hold and miss afterwards."""
    if held is None:
        assert missed[1] is not None
        judged = missed[1]
        factor = _FIRST_STEP
        if not judged.is_at_least and math.isfinite(judged.strain):
            factor = min(0.97, max(_FIRST_STEP, 1.0 / math.sqrt(judged.strain)))
        lower = grid.nearest(grid.load(missed[0]) * factor**misses)
        return max(lower, missed[0] + 1)
    place, judged = held
    part = 0.5
    if missed[1] is not None and judged.strain > 0.0 and not missed[1].is_at_least:
        part = math.log(1.0 / judged.strain) / math.log(missed[1].strain / judged.strain)
    steps = place - missed[0]
    return place - min(steps - 1, max(1, round(steps * min(0.7, max(0.3, part)))))


def seed_of(seed: int, number: int) -> int:
    """Return the seed of a run: 0 to 7 decide, 8 to 15 show."""
    return _SEED_BLOCK * seed + number


def seeds_to_show(seed: int) -> tuple[int, ...]:
    """Return the seeds of a planning point."""
    first = NUM_SEEDS["settled"]
    return tuple(seed_of(seed, number) for number in range(first, first + _MOST_SHOWN))


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
            needed = run_length(RESIDENCES * load * run.e2e.mean_s)
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
