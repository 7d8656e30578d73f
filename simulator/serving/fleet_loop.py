"""The requests of a fleet under way: arrivals, routing, runs of the replicas, in order of time."""

from heapq import heappop, heappush

from advisor.simulator.serving.fleet import Fleet
from advisor.simulator.serving.fleet_load import Arrival, FleetLoad
from advisor.simulator.serving.fleet_recorder import FleetRecorder
from advisor.simulator.serving.fleet_router import FULL, FleetRouter
from advisor.simulator.serving.fleet_site import Site, new_site, unfinished
from advisor.simulator.serving.pipeline import NEVER
from advisor.simulator.serving.records import NUM_FIELDS
from advisor.simulator.serving.tables import StepTables, step_tables

_BLOCK = 1 << 15
"""Integers that replicas collect before the recorder takes them in."""
_INDEX, _END = 1, 6
"""Places in a finished request's record."""
_NOBODY: Arrival = (NEVER, -1, 0, 0)


class FleetLoop:
    """The data path: what falls on one instant happens in the order runs end, requests arrive, runs start.

    A site's next instant stands in a heap; entries that it no longer means are skipped. What changes the sites
    themselves (scaling, failures) happens between two calls of `run_until`.

    Source: own design.
    """

    def __init__(self, fleet: Fleet, load: FleetLoad, recorder: FleetRecorder, *, jump: bool = True) -> None:
        self.fleet, self.load, self.recorder, self.jump = fleet, load, recorder, jump
        self.tables: list[StepTables] = [step_tables(pool.surface, pool.policy) for pool in fleet.pools]
        self.sites: list[Site] = []
        """Of all times."""
        self.router = FleetRouter(fleet, load)
        self.heap: list[tuple[int, int]] = []
        self.due: list[Arrival] = []
        """Requests that follow others, by instant."""
        self.parked: list[Arrival] = []
        """Requests that found no replica in service; they wait for one."""
        self.stream = self.load.arrivals()
        self.next_known = next(self.stream)
        self.now_ps = 0
        self.num_in_system = self.num_sent = self.num_refused = self.num_rejected = self.num_retried = 0
        self.area = 0
        """Time integral of the requests in the system [ps]."""
        self.awaited = dict(load.num_awaited)
        self.arrived_at: dict[int, int] = recorder.arrived_at

    # Replicas ------------------------------------------------------------------------------------------------

    def start_site(self, pool_number: int) -> Site:
        """A new replica that does not serve yet; it is paid for from now on."""
        pool = self.fleet.pools[pool_number]
        site = new_site(len(self.sites), pool_number, pool, self.tables[pool_number], self.load, self.jump)
        site.replica.finished, site.replica.token_gaps = self.recorder.lists[pool_number]
        site.started_ps = self.now_ps
        self.sites.append(site)
        return site

    def open_site(self, site: Site) -> None:
        """Let a replica take requests."""
        site.state, site.opened_ps = "ready", self.now_ps
        self.router.join(site)
        parked, self.parked = self.parked, []
        for arrival in parked:
            self._route_and_wake(arrival)

    def drain_site(self, site: Site) -> None:
        """Send a replica nothing more; it ends when it has finished what it has."""
        if site.state == "ready":
            self.router.leave(site)
            site.state = "draining"
        if not site.num_outstanding:
            self._stop(site)

    def lose_site(self, site: Site) -> None:
        """End a replica at once; its unfinished requests go to others, from the beginning."""
        if site.state == "ready":
            self.router.leave(site)
        lost = unfinished(site.replica)
        self._stop(site)
        api_ps = self.fleet.pools[site.pool_number].policy.api_overhead_ps
        for seen_ps, index, input_tokens, output_tokens in lost:
            self.num_retried += 1
            self.arrived_at.setdefault(index, seen_ps - api_ps)
            self._route_and_wake((self.now_ps, index, input_tokens, output_tokens))

    def _stop(self, site: Site) -> None:
        site.state, site.wake_ps, site.stopped_ps, site.num_outstanding = "gone", NEVER, self.now_ps, 0

    def _route_and_wake(self, arrival: Arrival) -> None:
        site = self._route(arrival)
        if site is not None:
            site.wake_ps = self.now_ps
            heappush(self.heap, (self.now_ps, site.number))

    # Requests ------------------------------------------------------------------------------------------------

    @property
    def is_done(self) -> bool:
        """Whether no request is under way and none is to come."""
        return not self.num_in_system and self.next_known is _NOBODY and not self.due

    def run_until(self, limit_ps: int) -> None:
        """Everything that happens before an instant; the clock stands there then, or at the last completion."""
        heap, due, sites = self.heap, self.due, self.sites
        while True:
            now_ps = self.next_known[0]
            if due and due[0][0] < now_ps:
                now_ps = due[0][0]
            if heap and heap[0][0] < now_ps:
                now_ps = heap[0][0]
            if now_ps >= limit_ps:
                break
            self._pass(now_ps)
            touched = []
            while heap and heap[0][0] == now_ps:
                site = sites[heappop(heap)[1]]
                if site.wake_ps == now_ps:
                    site.wake_ps = NEVER
                    self._advance(site)
                    touched.append(site)
            while self.next_known[0] == now_ps:
                arrival = self.next_known
                self.next_known = next(self.stream, _NOBODY)
                self._arrive(arrival, touched)
            while due and due[0][0] == now_ps:
                self._arrive(heappop(due), touched)
            for site in touched:
                if site.state == "gone":
                    continue
                wake_ps = site.replica.resume(now_ps)
                if wake_ps != site.wake_ps:
                    if wake_ps < now_ps:
                        raise AssertionError(f"replica {site.number} neither works nor waits at {now_ps} ps")
                    site.wake_ps = wake_ps
                    if wake_ps != NEVER:
                        heappush(heap, (wake_ps, site.number))
        if limit_ps != NEVER and not self.is_done:
            self._pass(limit_ps)

    def _pass(self, now_ps: int) -> None:
        """Let time pass."""
        self.area += self.num_in_system * (now_ps - self.now_ps)
        self.now_ps = now_ps

    def _arrive(self, arrival: Arrival, touched: list[Site]) -> None:
        self.num_sent += 1
        self.num_in_system += 1
        site = self._route(arrival)
        if site is not None:
            touched.append(site)

    def _route(self, arrival: Arrival) -> Site | None:
        """Give a request to a replica; the replica, if it must look up now."""
        now_ps, index, input_tokens, output_tokens = arrival
        site = self.router.choose(index, input_tokens, output_tokens)
        if site is None:
            self.arrived_at.setdefault(index, now_ps)
            self.parked.append(arrival)
            return None
        if isinstance(site, str):
            self.num_in_system -= 1
            if site == FULL:
                self.num_rejected += 1
            else:
                self.num_refused += 1
            self.recorder.turned_away(index, self.arrived_at.pop(index, now_ps), self.now_ps)
            self._answered(index, self.now_ps)
            return None
        site.num_outstanding += 1
        site.load_index.more(site.number)
        request = (self.now_ps + site.api_ps, index, input_tokens, output_tokens)
        return site if site.replica.submit(request) else None

    def _advance(self, site: Site) -> None:
        """Complete what ends now on a replica."""
        replica = site.replica
        finished = replica.finished
        num_finished = replica.advance(self.now_ps)
        if num_finished:
            first_row = len(finished) - NUM_FIELDS * num_finished
            ends_ps = finished[first_row + _END :: NUM_FIELDS]
            self.area += sum(ends_ps) - num_finished * self.now_ps  # their last tokens are on the way
            self.num_in_system -= num_finished
            site.num_outstanding -= num_finished
            if site.state == "ready":
                site.load_index.fewer(site.number, num_finished)
            elif not site.num_outstanding:
                self._stop(site)
            if self.load.followers:
                for index, end_ps in zip(finished[first_row + _INDEX :: NUM_FIELDS], ends_ps, strict=True):
                    self._answered(index, end_ps)
            if len(finished) > _BLOCK:
                self.recorder.take_finished(site.pool_number)
        if len(replica.token_gaps) > _BLOCK:
            self.recorder.take_gaps(site.pool_number)

    def _answered(self, index: int, heard_ps: int) -> None:
        """Send the requests that have waited for this answer and need no other."""
        load = self.load
        for follower in load.followers.get(index, ()):
            left = self.awaited.get(follower, 1) - 1
            if left:
                self.awaited[follower] = left
                continue
            lengths = int(load.input_tokens[follower]), int(load.output_tokens[follower])
            heappush(self.due, (heard_ps + load.think_ps[follower], follower, *lengths))
