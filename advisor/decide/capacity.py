"""How much load one replica carries within its service levels: bracketing by simulation.

A short run starts from an empty replica and ends before its queues are full, so what it carries is an optimistic
estimate; a long one, of many residence times, confirms what lasts.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

from advisor.decide.effort import is_spent
from advisor.decide.load_runs import Served, busy_clients, run_at, strain
from advisor.decide.scenario import Objectives, Traffic
from advisor.simulator.serving import ServingResult
from advisor.simulator.serving.metrics import pooled

ESTIMATE_REQUESTS = 300
"""Requests of one run while estimating."""
CONFIRM_REQUESTS = 600
"""Least requests of each of the runs that decide together: eighteen lie beyond their 99th percentile."""
_MOST_REQUESTS = 20_000
RESIDENCES = 8
"""Mean residence times that a confirming run lasts at least: it begins with an empty replica."""
_LONGER = 1.1
"""Times the length that an earlier run asks for: residence grows with the load."""
_TTFT_LIMITS = 20
"""Times the TTFT objective that a confirming run lasts at least: a backlog that grows by a twentieth of the arrivals
then shows as a missed objective."""
_KEEPS_UP = 0.9
"""Least part of the offered rate that a long run serves between its first and last tenth; filling the batch takes
the rest."""
TOLERANCE = 0.05
VARIANT_TOLERANCE = 0.12
"""Of a further layout of an accelerator that has its answer already, where it does not beat that answer."""
_MAX_RUNS = 10
Purpose = Literal["search", "settle", "show"]
NUM_SEEDS: Final[Mapping[Purpose, int]] = {"search": 3, "settle": 8, "show": 3}
"""Runs of different seeds that decide together. Three rank candidates under the same arrivals; near the knee, eight of
600 requests find the load that runs of 60 000 hold within 4 %."""
_SEED_BLOCK = 16
_LONGEST_WAIT_S = 60.0
_LEAST_RATE = 2e-3
"""Requests per second below which a replica is no answer where more was tried first: one request in eight minutes."""
_FIRST_STEP = 0.8
_USUALLY_HELD = 0.75
"""Part of an estimate that long runs usually hold: where their bracket begins."""
_USUALLY_SETTLED = 0.94
"""Part of the most that settling allows for that usually holds: a tenth above what the search confirmed."""
_USUALLY_ESTIMATED = 0.8
"""Part of the bound of a surface that short runs usually hold."""
_NEAR = 0.6
"""Part of the first load to be tried from which on the least that is of use is tried first instead."""
_CLEAR: Final = (0.75, 0.85, 0.9)
"""Strain of the runs of the hardest seed, two and more up to which the others need not be asked on the way to the
answer: all seeds together are no harder than the hardest."""
_CLOSE = 0.97
"""Strain of a load that holds from which on no higher one need be tried: it grows about as fast as the load."""
_MISSED_SLACK = 1.25
"""Times a hundredth of all requests: where so many miss some objective, one of them is missed for certain."""
_CLIENTS_SLACK = 2.0
_MISSED = 1.01
"""Least strain of a load that was given up."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """The highest load of one replica within the objectives, and the run that shows it."""

    load: float
    """Requests per second, or clients where the traffic is a closed loop."""
    requests_per_s: float
    """Served by one replica at this load."""
    result: ServingResult
    num_requests: int
    """Simulated over all runs."""
    binding: str
    """What breaks first above this load: ttft, tpot, throughput or kv cache."""

    @property
    def spacing_s(self) -> float:
        """After which the next of its clients begins: as fast as their requests are served."""
        return 1.0 / self.requests_per_s


_Judged = tuple[ServingResult, float, str]
"""A run, how near it comes to the tightest objective, and which one it is."""
_Run = Callable[[float], _Judged]
"""Of a load."""


def highest_load(
    replica: Served,
    traffic: Traffic,
    objectives: Objectives,
    *,
    bound_per_s: float,
    seed: int,
    least: float = 0.0,
    headroom_fraction: float = 0.0,
) -> Capacity | None:
    """An optimistic estimate of the highest load of one replica whose p99 TTFT and TPOT meet the objectives.

    Open loop: a Poisson rate. Closed loop (the traffic names a concurrency): a number of clients, at most what
    carries those of the traffic with headroom. All runs draw the same request lengths and unit-rate gaps (common
    random numbers), so that they differ by the load alone.
    None where even the lightest load misses an objective, or the `least` that is of use.

    Assumes: `bound_per_s` is an upper bound on requests per second.
    """
    clients = traffic.concurrency
    whole = clients is not None
    most, start = bound_per_s, _USUALLY_ESTIMATED * bound_per_s
    if clients is not None:
        busy = busy_clients(traffic, objectives, bound_per_s)
        most = start = float(math.ceil(clients / (1.0 - headroom_fraction)))
        if most > _CLIENTS_SLACK * busy:
            most, start = math.ceil(_CLIENTS_SLACK * busy), math.ceil(_USUALLY_ESTIMATED * busy)

    def run(load: float) -> _Judged:
        spacing_s = 1.0 / bound_per_s
        result = run_at(
            replica, traffic, load, ESTIMATE_REQUESTS, seed, objectives=objectives, spacing_s=spacing_s
        )
        return result, *strain(result, objectives)

    return _highest(run, most, whole=whole, least=least, start=start)


def confirm(
    replica: Served,
    traffic: Traffic,
    objectives: Objectives,
    found: Capacity,
    seed: int,
    *,
    least: float = 0.0,
    tolerance: float = TOLERANCE,
    purpose: Purpose = "search",
    order: list[int] | None = None,
    num_requests: int = CONFIRM_REQUESTS,
    estimate: float = 0.0,
) -> Capacity | None:
    """The highest load up to the one found that long runs of several seeds hold together, within a tolerance; None
    where none does, or none from `least` on.

    `order` are seeds that were found to be hard for other candidates, kept up to date: all see the same arrivals.
    Each run has at least `num_requests`. `estimate` is what short runs found, where less is asked for.
    """
    order = [] if order is None else order
    order += [each for each in seeds_of(seed, purpose) if each not in order]
    spacing_s = 1.0 / found.requests_per_s
    hold = partial(
        _long_run,
        replica,
        traffic,
        objectives=objectives,
        spacing_s=spacing_s,
        least_requests=num_requests,
        residences_s=[],
    )
    whole = traffic.concurrency is not None
    jury = _Jury(order, hold, partial(_held, objectives=objectives, open_loop=not whole))
    usual = _USUALLY_SETTLED if purpose == "settle" else _USUALLY_HELD
    start = found.load if whole else min(found.load, usual * max(estimate, found.load))
    search = partial(_highest, most=found.load, whole=whole, least=least, tolerance=tolerance, start=start)
    held = search(jury.run)
    if held is not None and not jury.all_heard(held.load):
        result, tightest, _ = jury.run(held.load, clear=())
        if tightest > 1.0:
            held = search(partial(jury.run, clear=()))
        else:
            held = replace(held, result=result, requests_per_s=_served(result, held.load, whole=whole))
    if held is None:
        return None
    binding = held.binding if held.load < found.load else found.binding
    return replace(held, num_requests=found.num_requests + held.num_requests, binding=binding)


def usually_held(estimate: Capacity) -> Capacity:
    """What long runs usually confirm of an estimate, where none is made.

    Source: own definition; the same part begins their bracket.
    """
    part = _USUALLY_HELD
    return replace(estimate, load=part * estimate.load, requests_per_s=part * estimate.requests_per_s)


class _Jury:
    """Seeds whose long runs decide together whether a load holds; the hardest are asked first, and no more of them
    than needed.

    Source: own procedure, a sequential test under common random numbers.
    """

    def __init__(
        self, order: list[int], hold: Callable[..., _Judged], judge: Callable[..., tuple[float, str]]
    ) -> None:
        self.order, self.hold, self.judge = order, hold, judge
        self.most_missed = _MISSED_SLACK * len(order) / 100
        self.known: dict[tuple[float, int], _Judged] = {}

    def all_heard(self, load: float) -> bool:
        """Whether every seed has had its run at a load."""
        return all((load, seed) in self.known for seed in self.order)

    def run(self, load: float, clear: Sequence[float] = _CLEAR) -> _Judged:
        """Runs at a load pooled, up to the seed that tells that it misses, or, within `clear`, that it holds."""
        order, strains, missed = self.order, list[float](), 0.0
        together: ServingResult | None = None
        for seed in order:
            one = self.known.get((load, seed))
            if one is None and together is not None and is_spent():
                break
            one = one or self.hold(load, seed=seed, give_up_fraction=max(0.0, self.most_missed - missed))
            result, tightest, name = one
            if result.gave_up or tightest == math.inf:
                strains.append(math.inf)
                tightest = max(tightest, _MISSED)
                break
            self.known[load, seed] = one
            strains.append(tightest)
            missed += result.num_violations / result.num_requests
            result = together = pooled([together, result]) if together else result
            tightest, name = self.judge(result, load)
            if clear and tightest <= clear[min(len(strains), len(clear)) - 1]:
                break
        hardest_first = sorted(range(len(strains)), key=lambda place: -strains[place])
        order[: len(strains)] = [order[place] for place in hardest_first]
        return result, tightest, name


def scaled(capacity: Capacity, factor: float) -> Capacity:
    """It, as if a replica carried so many times the load."""
    return replace(capacity, load=factor * capacity.load, requests_per_s=factor * capacity.requests_per_s)


def seeds_of(seed: int, purpose: Purpose) -> tuple[int, ...]:
    """Seeds of the runs that decide, or show, together: others to rank candidates, to settle the capacity of what is
    shown, and to show it.
    """
    first = _SEED_BLOCK * (3 * seed + ("search", "settle", "show").index(purpose))
    return tuple(range(first, first + NUM_SEEDS[purpose]))


def _held(
    result: ServingResult, load: float, objectives: Objectives, *, open_loop: bool
) -> tuple[float, str]:
    """Strain of a long run, which must also keep up with its arrivals."""
    tightest, name = strain(result, objectives)
    served = result.steady_requests_per_s
    if open_loop and tightest <= 1.0 and served is not None and served < _KEEPS_UP * load:
        return _KEEPS_UP * load / served, "throughput"
    return tightest, name


def _long_run(
    replica: Served,
    traffic: Traffic,
    load: float,
    *,
    objectives: Objectives,
    seed: int,
    spacing_s: float,
    give_up_fraction: float,
    least_requests: int,
    residences_s: list[float],
) -> _Judged:
    """A run of several that are long together against what they hold; each must keep up with its arrivals.

    `residences_s` are mean ones of earlier runs, from which the length is guessed.
    """
    open_loop = traffic.concurrency is None
    wait_s = min(objectives.largest_ttft_s, _LONGEST_WAIT_S)
    length = max(least_requests, run_length(_TTFT_LIMITS * load * wait_s)) if open_loop else least_requests
    if open_loop and residences_s:
        length = max(length, run_length(_LONGER * RESIDENCES * load * residences_s[-1]))
    run = partial(run_at, replica, traffic, load, objectives=objectives, give_up_fraction=give_up_fraction)
    result = run(length, seed, spacing_s=spacing_s)
    if open_loop and not result.gave_up:
        needed = run_length(RESIDENCES * load * result.e2e.mean_s)
        if needed > length:
            result = run(needed, seed)
        residences_s.append(result.e2e.mean_s)
    return result, *_held(result, load, objectives, open_loop=open_loop)


def run_length(num_requests: float) -> int:
    """Requests of a run that is to have so many, within what one may have. Source: own definition."""
    return min(_MOST_REQUESTS, max(CONFIRM_REQUESTS, math.ceil(num_requests)))


def _highest(
    run: _Run,
    most: float,
    *,
    whole: bool,
    least: float = 0.0,
    tolerance: float = TOLERANCE,
    start: float | None = None,
) -> Capacity | None:
    """Search down from `most`, or from where to `start`: steps that grow until a load holds, then interpolation between
    hold and miss.

    With `least` above zero no load below it is tried, and where it is near that one comes first: most candidates miss
    it, and nothing else need be tried then. `whole`: the load is a number of clients.
    """
    held: tuple[float, float, ServingResult] | None = None
    missed_load, missed_strain, binding = most, math.inf, "throughput"
    load, spent, misses = start or most, 0, 0
    if least > _NEAR * load:
        load = min(most, least)
    lowest = max(least, 1.0 if whole else min(_LEAST_RATE, load))
    for _ in range(_MAX_RUNS):
        if load < lowest or is_spent():
            break
        result, tightest, name = run(load)
        spent += result.num_requests
        if tightest > 1.0:
            missed_load, missed_strain, binding = load, math.inf if result.gave_up else tightest, name
        else:
            held = load, tightest, result
        if held is not None and (
            missed_load - held[0] <= (1.0 if whole else tolerance * missed_load)
            or (held[1] >= _CLOSE and not whole)
        ):
            break
        if held is None:
            misses += 1
            lower = load * _step_down(result, tightest) ** misses
            load = least if lower < least < load else lower
        else:
            load = _between(held[0], held[1], missed_load, missed_strain)
        load = float(math.floor(load)) if whole else load
    if held is None:
        return None
    load, _, result = held
    return Capacity(load, _served(result, load, whole=whole), result, spent, binding)


def _step_down(result: ServingResult, strain_of_miss: float) -> float:
    """How far below a miss to try next: a near miss needs little; an abandoned run does not say how near it was."""
    if result.gave_up or not math.isfinite(strain_of_miss):
        return _FIRST_STEP
    return min(0.97, max(_FIRST_STEP, 1.0 / math.sqrt(strain_of_miss)))


def _between(low: float, low_strain: float, high: float, high_strain: float) -> float:
    """The load at which the strain reaches 1 by logarithmic interpolation, well inside the interval; its middle where
    nothing tells by how much the higher one misses."""
    part = 0.5
    if low_strain > 0.0 and math.isfinite(high_strain):
        part = math.log(1.0 / low_strain) / math.log(high_strain / low_strain)
    return low * math.exp(math.log(high / low) * min(0.7, max(0.3, part)))


def _served(result: ServingResult, load: float, *, whole: bool) -> float:
    """Requests per second at a load that holds: what arrives is served, clients are served as fast as they are."""
    if not whole:
        return load
    return result.steady_requests_per_s or result.requests_per_s
