"""Simulation of a fleet under a load: as a whole, or replica by replica if they do not depend on each other."""

import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise
from multiprocessing import get_context

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.errors import AdvisorError
from advisor.catalog.units import PICOSECONDS_PER_S
from advisor.simulator.parent_process import end_with
from advisor.simulator.serving.batch import Request
from advisor.simulator.serving.fleet import Fleet
from advisor.simulator.serving.fleet_control import FleetControl, FleetEvent
from advisor.simulator.serving.fleet_loop import FleetLoop, FleetSite, fleet_replica
from advisor.simulator.serving.fleet_recorder import FleetRecorder, Timeline
from advisor.simulator.serving.fleet_result import (
    FleetResult,
    SiteTally,
    pool_result,
    site_tally,
    tenant_result,
    timeline_rows,
)
from advisor.simulator.serving.load import Arrival, FleetLoad, arrivals_of, seconds_to_ps
from advisor.simulator.serving.loop import BLOCK, EventLoop, Site
from advisor.simulator.serving.pipeline import NEVER, step_tables
from advisor.simulator.serving.workload import AHEAD

_INTERVALS = 48
"""Approximate number of rows of a timeline, unless the user gives the interval."""
_MOST_INTERVALS = 100_000
_Share = tuple[Fleet, FleetLoad, NDArray[np.int64], range, float | None, bool]
"""Share of a simulation: (fleet, load, routed requests in order of arrival, replicas, interval [s], whether to keep
records)."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Requests that did not finish normally, and events of the replicas."""

    num_sent: int
    num_refused: int = 0
    num_rejected: int = 0
    num_retried: int = 0
    events: tuple[FleetEvent, ...] = ()


def simulate_fleet(
    fleet: Fleet,
    load: FleetLoad,
    *,
    jump: bool = True,
    records: bool = False,
    seed: int = 0,
    interval_s: float | None = None,
) -> FleetResult:
    """Return latencies, goodput, cost and timeline of a fleet that serves a load to its last request.

    Assumes: routing takes no time; a request that loses its replica begins again; replicas that are open at the
    beginning have no cold start.
    Raises: AdvisorError: a tenant that no pool serves, a pool that names an unknown tenant, or what `simulate` raises.
    Source: own design.
    """
    _check_fleet(fleet, load)
    recorder = FleetRecorder(fleet, load, _timeline_of(load, interval_s), keep=records)
    loop = FleetLoop(fleet, load, recorder, jump=jump)
    control = FleetControl(loop, seed)
    control.run()
    recorder.close()
    outcome = _Outcome(
        loop.num_sent, loop.num_refused, loop.num_rejected, loop.num_retried, tuple(control.events)
    )
    _check_laws(loop, recorder)
    return _fleet_result(fleet, load, recorder, [site_tally(site) for site in loop.sites], outcome)


def is_separable(fleet: Fleet, load: FleetLoad) -> bool:
    """Whether the replica of each request is known in advance: replicas take requests in turn, and their number is
    fixed.

    Source: own definition.
    """
    pool = fleet.pools[0]
    return (
        len(fleet.pools) == 1
        and fleet.router == "round_robin"
        and not pool.changes
        and pool.max_outstanding is None
        and pool.order == "arrival"
        and not load.followers
    )


def simulate_in_parts(
    fleet: Fleet,
    load: FleetLoad,
    *,
    num_processes: int = 1,
    records: bool = False,
    interval_s: float | None = None,
) -> FleetResult:
    """Return the result of `simulate_fleet`, with the same records, for a fleet that `is_separable`.

    Replica r of n serves every n-th request from the r-th on. Histograms and sums of parts add up to those of the
    whole, whatever the number of processes.

    Raises: AdvisorError: the fleet is not separable, or what `simulate_fleet` raises.
    Source: own design.
    """
    if not is_separable(fleet, load):
        raise AdvisorError(
            "the replicas of this fleet depend on each other",
            why="only one pool, router round_robin, and replicas that stay can be simulated one by one",
            fix="simulate_fleet",
        )
    if num_processes < 1:
        raise AdvisorError(f"num_processes must be at least 1, not {num_processes}")
    _check_fleet(fleet, load)
    recorder = FleetRecorder(fleet, load, _timeline_of(load, interval_s), keep=records)
    routed, refused = _route_requests(fleet, load)
    for index in refused.tolist():
        instant_ps = int(load.instants_ps[index])
        recorder.turned_away(index, instant_ps, instant_ps)
    num_replicas = fleet.pools[0].num_replicas
    starts = np.linspace(0, num_replicas, min(num_processes, num_replicas) + 1).astype(int).tolist()
    shares = [
        (fleet, load, routed, range(first, last), interval_s, records) for first, last in pairwise(starts)
    ]
    sites: list[SiteTally] = []
    for part, tallies in _run_all(shares):
        recorder.merge(part)
        sites += tallies
    finished = recorder.of_all().num_finished
    if finished != len(routed):
        raise AssertionError(f"{len(routed)} requests were routed, but {finished} are done")
    return _fleet_result(fleet, load, recorder, sites, _Outcome(len(load), len(refused)))


def _run_all(shares: list[_Share]) -> Iterator[tuple[FleetRecorder, list[SiteTally]]]:
    if len(shares) == 1:
        yield _run_share(shares[0])
        return
    context = get_context("spawn")
    parent = (os.getpid(),)
    with ProcessPoolExecutor(len(shares), context, initializer=end_with, initargs=parent) as pool:
        yield from pool.map(_run_share, shares)


def _route_requests(fleet: Fleet, load: FleetLoad) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the requests that the pool takes, in order of arrival, and those that it refuses."""
    order = np.argsort(load.instants_ps, kind="stable")
    inputs = load.input_tokens[order].astype(np.int64)
    outputs = load.output_tokens[order]
    least_prompt, most_prompt, most_tokens = fleet.pools[0].token_limits
    taken = (inputs >= least_prompt) & (inputs <= most_prompt) & (inputs + outputs <= most_tokens)
    return order[taken], order[~taken]


def _run_share(share: _Share) -> tuple[FleetRecorder, list[SiteTally]]:
    """Simulate a share of the replicas, one after the other."""
    fleet, load, routed, numbers, interval_s, keep = share
    pool = fleet.pools[0]
    recorder = FleetRecorder(fleet, load, _timeline_of(load, interval_s), keep=keep)
    tables = step_tables(pool.surface, pool.policy)
    tallies = []
    for number in numbers:
        site = FleetSite(number, 0, fleet_replica(pool, tables, load, recorder.lists[0]), 0)
        site.opened_ps = 0
        arrivals = arrivals_of(load, routed[number :: pool.num_replicas])
        _Part(site, recorder, arrivals, pool.policy.api_overhead_ps).run_until(NEVER)
        tallies.append(site_tally(site))
    recorder.close()
    return recorder, tallies


class _Part(EventLoop):
    """One replica that knows its requests in advance."""

    def __init__(self, site: Site, recorder: FleetRecorder, arrivals: Iterator[Arrival], api_ps: int) -> None:
        super().__init__()
        self.recorder = recorder
        site.replica.refill_from(partial(_upcoming, arrivals, api_ps))
        self.touch(site)

    def handle_finished(self, site: Site, num_finished: int) -> None:
        """Pass finished requests to the recorder once a block of them has accumulated."""
        if len(site.replica.finished) > BLOCK or len(site.replica.token_gaps) > BLOCK:
            self.recorder.take_finished(0)


def _upcoming(arrivals: Iterator[Arrival], api_ps: int) -> list[Request]:
    """Return the next requests of a replica, as its scheduler sees them."""
    return [
        (sent_ps + api_ps, index, input_tokens, output_tokens)
        for sent_ps, index, input_tokens, output_tokens in islice(arrivals, AHEAD)
    ]


def _check_fleet(fleet: Fleet, load: FleetLoad) -> None:
    """Refuse a fleet that cannot serve its tenants.

    Raises: AdvisorError: a tenant that no pool serves, or a pool that names an unknown tenant.
    """
    names = {tenant.name for tenant in load.tenants}
    for pool in fleet.pools:
        unknown = sorted(set(pool.tenants) - names)
        if unknown:
            raise AdvisorError(
                f"pool {pool.name} serves {', '.join(unknown)}, who send nothing",
                fix=f"tenants of the load: {', '.join(sorted(names))}",
            )
    served = {name for name in names for pool in fleet.pools if not pool.tenants or name in pool.tenants}
    if served != names:
        raise AdvisorError(f"no pool serves {', '.join(sorted(names - served))}", fix="name them in a pool")


def _timeline_of(load: FleetLoad, interval_s: float | None) -> Timeline:
    """Return an empty timeline with rows of the given interval, or of about a 48th of the span of the known arrivals.

    Raises: AdvisorError: an interval that is no positive time.
    """
    if interval_s is not None:
        if not (math.isfinite(interval_s) and interval_s > 0):
            raise AdvisorError(f"the interval of a timeline must be positive, not {interval_s}")
        return Timeline(max(1, seconds_to_ps(interval_s)), _MOST_INTERVALS)
    least_s = max(load.last_instant_ps / PICOSECONDS_PER_S / _INTERVALS, 1e-9)
    power = 10.0 ** math.floor(math.log10(least_s))
    chosen_s = next(step * power for step in (1, 2, 3, 6, 10) if step * power >= 0.999 * least_s)
    return Timeline(max(1, seconds_to_ps(chosen_s)), 2 * _INTERVALS)


def _check_laws(loop: FleetLoop, recorder: FleetRecorder) -> None:
    """Check conservation of requests, and Little's law in whole picoseconds.

    Little's law: the time integral of the requests under way is the sum of their times in the system.

    Raises: AssertionError: a defect of the simulator.
    """
    whole = recorder.of_all()
    if loop.num_sent != whole.num_finished + loop.num_refused + loop.num_rejected or loop.num_in_system:
        raise AssertionError(
            f"{loop.num_sent} requests were sent, but {whole.num_finished} are done, {loop.num_refused} refused, "
            f"{loop.num_rejected} rejected and {loop.num_in_system} under way"
        )
    in_system_ps = whole.e2e.sum_ps + recorder.sum_turned_away_ps
    if loop.area != in_system_ps:
        raise AssertionError(
            f"requests were in the system for {loop.area} ps together, but their times there add up to "
            f"{in_system_ps} ps"
        )


def _fleet_result(
    fleet: Fleet, load: FleetLoad, recorder: FleetRecorder, sites: Sequence[SiteTally], outcome: _Outcome
) -> FleetResult:
    """Return the result of a run that has ended."""
    whole = recorder.of_all()
    end_ps = max(whole.last_end_ps, 1)
    pools = tuple(
        pool_result(pool, recorder.of_pool(number), [s for s in sites if s.pool_number == number], end_ps)
        for number, pool in enumerate(fleet.pools)
    )
    return FleetResult(
        num_requests=outcome.num_sent,
        num_finished=whole.num_finished,
        num_refused=outcome.num_refused,
        num_rejected=outcome.num_rejected,
        num_retried=outcome.num_retried,
        duration_s=end_ps / PICOSECONDS_PER_S,
        mean_in_system=(whole.e2e.sum_ps + recorder.sum_turned_away_ps) / end_ps,
        goodput_fraction=sum(pool.num_good for pool in pools) / outcome.num_sent,
        pools=pools,
        tenants=tuple(
            tenant_result(tenant, recorder.of_tenant(number), recorder.num_turned_away[number])
            for number, tenant in enumerate(load.tenants)
        ),
        timeline=timeline_rows(recorder.timeline, sites, end_ps),
        events=outcome.events,
        usd=sum(pool.usd for pool in pools),
        records=whole.records(),
    )
