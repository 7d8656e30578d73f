"""Requests of a fleet under way: routing to replicas, and what happens to requests when replicas come and go."""

from heapq import heappush
from typing import Literal

from advisor.simulator.serving.fleet import Fleet, Pool
from advisor.simulator.serving.fleet_recorder import FleetRecorder
from advisor.simulator.serving.load import Arrival, FleetLoad, seconds_to_ps
from advisor.simulator.serving.loop import BLOCK, EventLoop, LoadIndex, Site
from advisor.simulator.serving.metrics import END, INDEX, NUM_FIELDS
from advisor.simulator.serving.ordered_queue import Rank
from advisor.simulator.serving.pipeline import NEVER, step_tables
from advisor.simulator.serving.replica import Replica
from advisor.simulator.serving.router import FULL, Router
from advisor.simulator.serving.simulation import new_replica
from advisor.simulator.step_cost import StepSurface


class FleetSite(Site):
    """Replica of a pool from the moment at which it is ordered until it is given back."""

    __slots__ = ("opened_ps", "pool_number", "started_ps", "state", "stopped_ps")

    def __init__(self, number: int, pool_number: int, replica: Replica, started_ps: int) -> None:
        super().__init__(number, replica, LoadIndex())
        self.pool_number = pool_number
        self.started_ps = started_ps
        self.state: Literal["starting", "ready", "draining", "gone"] = "starting"
        self.opened_ps = self.stopped_ps = -1
        """Instants at which the replica opened and stopped [ps]; -1 before that."""


class FleetLoop(EventLoop):
    """Event loop of a fleet: routes arriving requests, records finished ones, and sends the requests that follow
    them."""

    def __init__(self, fleet: Fleet, load: FleetLoad, recorder: FleetRecorder, *, jump: bool = True) -> None:
        super().__init__()
        self.fleet = fleet
        self.load = load
        self.recorder = recorder
        self.jump = jump
        self.api_ps = [pool.policy.api_overhead_ps for pool in fleet.pools]
        self.tables = [step_tables(pool.surface, pool.policy) for pool in fleet.pools]
        self.sites: list[FleetSite] = []
        """All replicas that ever existed."""
        self.router = Router(
            fleet,
            load.contents,
            tenants=[tenant.name for tenant in load.tenants],
            tenant_of=load.tenant_of,
            sessions=load.sessions,
        )
        self.parked: list[Arrival] = []
        """Requests that found no replica in service; they wait for one."""
        self.num_in_system = self.num_sent = self.num_refused = self.num_rejected = self.num_retried = 0
        self.area = self.counted_ps = 0
        """Time integral of the requests in the system up to an instant [ps]."""
        self.awaited = dict(load.num_awaited)
        self.arrived_at = recorder.arrived_at
        self.come_from(load.arrivals())

    # Replicas ------------------------------------------------------------------------------------------------

    def start_site(self, pool_number: int) -> FleetSite:
        """Order a new replica that does not serve yet; it is paid for from now on."""
        pool = self.fleet.pools[pool_number]
        tables = self.tables[pool_number]
        reports = self.recorder.lists[pool_number]
        replica = fleet_replica(pool, tables, self.load, reports, jump=self.jump)
        site = FleetSite(len(self.sites), pool_number, replica, self.now_ps)
        self.sites.append(site)
        return site

    def open_site(self, site: FleetSite) -> None:
        """Let a replica take requests."""
        site.state = "ready"
        site.opened_ps = self.now_ps
        self.router.join(site, site.pool_number)
        parked = self.parked
        self.parked = []
        for arrival in parked:
            self._route(arrival)

    def drain_site(self, site: FleetSite) -> None:
        """Send a replica no further requests; it ends when it has finished those that it has."""
        if site.state == "ready":
            self.router.leave(site)
            site.state = "draining"
        if not site.num_outstanding:
            self._stop(site)

    def lose_site(self, site: FleetSite) -> None:
        """End a replica at once; its unfinished requests start again on other replicas."""
        if site.state == "ready":
            self.router.leave(site)
        lost = site.replica.unfinished_requests()
        self._stop(site)
        for seen_ps, index, input_tokens, output_tokens in lost:
            self.num_retried += 1
            self.arrived_at.setdefault(index, seen_ps - self.api_ps[site.pool_number])
            self._route((self.now_ps, index, input_tokens, output_tokens))

    def _stop(self, site: FleetSite) -> None:
        site.state = "gone"
        site.stopped_ps = self.now_ps
        site.num_outstanding = 0
        self.forget(site)

    # Requests ------------------------------------------------------------------------------------------------

    @property
    def is_done(self) -> bool:
        """Whether no request is under way and none is to come."""
        return not self.num_in_system and self.expects_nobody

    def run_until(self, limit_ps: int) -> None:
        """Process all events before an instant; the clock then is at this instant, or at the last completion."""
        super().run_until(limit_ps)
        if limit_ps != NEVER and not self.is_done:
            self.now_ps = limit_ps

    def _count(self, more: int) -> None:
        """Change the number of requests in the system by `more`, after integrating it over time up to now (Little's
        law)."""
        self.area += self.num_in_system * (self.now_ps - self.counted_ps)
        self.counted_ps = self.now_ps
        self.num_in_system += more

    def arrive(self, arrival: Arrival) -> None:
        """Route a request that comes for the first time."""
        self.num_sent += 1
        self._count(1)
        self._route(arrival)

    def _route(self, arrival: Arrival) -> None:
        """Give a request to a replica, let it wait for one, or turn it away."""
        now_ps, index, input_tokens, output_tokens = arrival
        site = self.router.choose(index, input_tokens, output_tokens)
        if site is None:
            self.arrived_at.setdefault(index, now_ps)
            self.parked.append(arrival)
        elif isinstance(site, str):
            self._count(-1)
            if site == FULL:
                self.num_rejected += 1
            else:
                self.num_refused += 1
            self.recorder.turned_away(index, self.arrived_at.pop(index, now_ps), self.now_ps)
            self._send_waiting(index, self.now_ps)
        else:
            assert isinstance(site, FleetSite)
            seen_ps = self.now_ps + self.api_ps[site.pool_number]
            self.hand_over(site, (seen_ps, index, input_tokens, output_tokens))

    def handle_finished(self, site: Site, num_finished: int) -> None:
        """Record the requests that a replica has finished, and end the replica if it is draining and empty."""
        assert isinstance(site, FleetSite)
        finished = site.replica.finished
        first_row = len(finished) - NUM_FIELDS * num_finished
        ends_ps = finished[first_row + END :: NUM_FIELDS]
        self._count(-num_finished)
        self.area += sum(ends_ps) - num_finished * self.now_ps  # their last tokens are on the way
        if site.state == "ready":
            site.count_finished(num_finished)
        else:
            site.num_outstanding -= num_finished
            if not site.num_outstanding:
                self._stop(site)
        if self.load.followers:
            for index, end_ps in zip(finished[first_row + INDEX :: NUM_FIELDS], ends_ps, strict=True):
                self._send_waiting(index, end_ps)
        if len(finished) > BLOCK or len(site.replica.token_gaps) > BLOCK:
            self.recorder.take_finished(site.pool_number)

    def _send_waiting(self, index: int, heard_ps: int) -> None:
        """Send the requests that have waited for this output and need no other."""
        load = self.load
        for follower in load.followers.get(index, ()):
            left = self.awaited.get(follower, 1) - 1
            if left:
                self.awaited[follower] = left
                continue
            lengths = int(load.input_tokens[follower]), int(load.output_tokens[follower])
            heappush(self.due, (heard_ps + load.think_ps[follower], follower, *lengths))


def fleet_replica(
    pool: Pool,
    tables: StepSurface,
    load: FleetLoad,
    reports: tuple[list[int], list[int]],
    *,
    jump: bool = True,
) -> Replica:
    """Return a replica with the pool's queue and cache, and with the lists that it reports to.

    Source: own definition.
    """
    rank = None if pool.order == "arrival" else _rank(pool, load)
    replica = new_replica(tables, pool.policy, load.contents, jump=jump, rank=rank)
    replica.finished, replica.token_gaps = reports
    return replica


def _rank(pool: Pool, load: FleetLoad) -> Rank:
    """Return the rank of requests: their tenant's priority, or the instant by which the first token is promised."""
    tenants = load.tenants
    tenant_of = [0] * len(load) if load.tenant_of is None else load.tenant_of.tolist()
    if pool.order == "priority":
        priorities = [tenant.priority for tenant in tenants]
        return lambda request: priorities[tenant_of[request[1]]]
    allowed = [
        NEVER if tenant.slo is None or tenant.slo.ttft_s is None else seconds_to_ps(tenant.slo.ttft_s)
        for tenant in tenants
    ]
    return lambda request: request[0] + allowed[tenant_of[request[1]]]
