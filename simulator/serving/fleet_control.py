"""Fleet control: SimPy processes that start, open, drain and remove replicas during a simulation."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import simpy

from advisor.catalog.units import PICOSECONDS_PER_S
from advisor.simulator.serving.fleet import Deploy, Failures, Pool, Scaling, SpotLoss, wanted_replicas
from advisor.simulator.serving.fleet_loop import FleetLoop, FleetSite
from advisor.simulator.serving.load import seconds_to_ps
from advisor.simulator.serving.pipeline import NEVER

EventKind = Literal["start", "open", "drain", "notice", "lost", "failed"]
Process = Generator[simpy.Event, Any, None]
_FAILURE_STREAM = 10
_SPOT_STREAM = 11


@dataclass(frozen=True, slots=True)
class FleetEvent:
    """One event in the life of a replica."""

    at_s: float
    pool: str
    replica: int
    kind: EventKind


class FleetControl:
    """Processes that change the fleet. They act between the events of the data path: first at an instant that both
    share.

    Random lives are drawn per replica from (seed, stream, number of the replica), so that they do not depend on the
    order in which things happen.
    """

    def __init__(self, loop: FleetLoop, seed: int) -> None:
        self.loop = loop
        self.seed = seed
        self.env = simpy.Environment(initial_time=0)
        self.events: list[FleetEvent] = []
        self.num_starting = [0] * len(loop.fleet.pools)
        for number, pool in enumerate(loop.fleet.pools):
            for _ in range(pool.num_replicas):
                self._open(self._start(number))
            if pool.scaling is not None:
                self.env.process(self._scale(number, pool.scaling))
            for deploy in pool.deploys:
                self.env.process(self._deploy(number, deploy))

    def run(self) -> None:
        """Serve the load to its last request while the processes change the fleet."""
        env = self.env
        loop = self.loop
        while not loop.is_done:
            next_ps = env.peek()
            if next_ps == float("inf"):
                loop.run_until(NEVER)
                return
            loop.run_until(int(next_ps))
            if not loop.is_done:
                env.step()

    # Replicas ------------------------------------------------------------------------------------------------

    def _start(self, number: int) -> FleetSite:
        site = self.loop.start_site(number)
        if self.env.now:
            self._note(site, "start")
        return site

    def _open(self, site: FleetSite) -> None:
        self.loop.open_site(site)
        if self.env.now:
            self._note(site, "open")
        pool = self._pool(site)
        if pool.failures is not None:
            self.env.process(self._fail(site, pool.failures))
        if pool.spot is not None:
            self.env.process(self._reclaim(site, pool.spot))

    def _grow(self, number: int, wait_s: float = 0.0) -> Process:
        """Start a replica after a wait, and open it once it has come up."""
        self.num_starting[number] += 1
        yield self.env.timeout(seconds_to_ps(wait_s))
        site = self._start(number)
        yield self.env.timeout(seconds_to_ps(self._pool(site).cold_start.total_s))
        self.num_starting[number] -= 1
        self._open(site)

    def _drain(self, site: FleetSite) -> None:
        self._note(site, "drain")
        self.loop.drain_site(site)

    def _lose(self, site: FleetSite, kind: EventKind) -> None:
        if site.state != "gone":
            self._note(site, kind)
            self.loop.lose_site(site)

    def _ready(self, number: int) -> list[FleetSite]:
        return [site for site in self.loop.sites if site.pool_number == number and site.state == "ready"]

    def _pool(self, site: FleetSite) -> Pool:
        return self.loop.fleet.pools[site.pool_number]

    def _note(self, site: FleetSite, kind: EventKind) -> None:
        at_s = int(self.env.now) / PICOSECONDS_PER_S
        self.events.append(FleetEvent(at_s, self._pool(site).name, site.number, kind))

    # Processes -----------------------------------------------------------------------------------------------

    def _scale(self, number: int, scaling: Scaling) -> Process:
        """Read the metric every interval; add missing replicas at once, remove those that were not needed for a
        while."""
        loop = self.loop
        interval_ps = seconds_to_ps(scaling.interval_s)
        wishes = [(0, loop.fleet.pools[number].num_replicas)]  # what is there at first counts as asked for
        routed = 0
        while True:
            yield self.env.timeout(interval_ps)
            ready = self._ready(number)
            arrived = loop.router.num_routed[number] - routed
            routed += arrived
            current = len(ready) + self.num_starting[number]
            metric = scaling_metric(scaling, ready, arrived / scaling.interval_s) / max(1, current)
            wanted = wanted_replicas(scaling, current, metric)
            now_ps = int(self.env.now)
            wishes = [wish for wish in wishes if wish[0] > now_ps - seconds_to_ps(scaling.down_window_s)]
            wishes.append((now_ps, wanted))
            for _ in range(wanted - current):
                self.env.process(self._grow(number))
            lasting = max(wish for _, wish in wishes)
            if lasting < current:
                youngest = sorted(ready, key=lambda site: (site.num_outstanding, -site.number))
                for site in youngest[: min(current - lasting, len(ready) - scaling.min_replicas)]:
                    self._drain(site)

    def _fail(self, site: FleetSite, failures: Failures) -> Process:
        """Fail after an exponential time; a replacement serves after the repair."""
        yield self.env.timeout(self._life_ps(site, _FAILURE_STREAM, failures.mtbf_s))
        if site.state == "gone":
            return
        was_ready = site.state == "ready"
        self._lose(site, "failed")
        if was_ready:
            self.num_starting[site.pool_number] += 1
            yield self.env.timeout(seconds_to_ps(failures.repair_s))
            self.num_starting[site.pool_number] -= 1
            self._open(self._start(site.pool_number))

    def _reclaim(self, site: FleetSite, spot: SpotLoss) -> Process:
        """Give notice after an exponential life: the replica takes no new requests, another machine is requested, then
        it is gone."""
        yield self.env.timeout(self._life_ps(site, _SPOT_STREAM, spot.mean_life_s))
        if site.state == "gone":
            return
        if site.state == "ready":
            self.env.process(self._grow(site.pool_number, spot.wait_s))
        self._note(site, "notice")
        self.loop.drain_site(site)
        yield self.env.timeout(seconds_to_ps(spot.notice_s))
        self._lose(site, "lost")

    def _deploy(self, number: int, deploy: Deploy) -> Process:
        """Replace the replicas that serve at the beginning, a few at a time."""
        yield self.env.timeout(seconds_to_ps(deploy.at_s))
        old = self._ready(number)
        for first in range(0, len(old), deploy.at_a_time):
            leaving = [site for site in old[first : first + deploy.at_a_time] if site.state == "ready"]
            if not deploy.surge:
                for site in leaving:
                    self._drain(site)
            yield self.env.all_of([self.env.process(self._grow(number)) for _ in leaving])
            if deploy.surge:
                for site in leaving:
                    if site.state == "ready":
                        self._drain(site)

    def _life_ps(self, site: FleetSite, stream: int, mean_s: float) -> int:
        drawn = np.random.default_rng([self.seed, stream, site.number]).standard_exponential()
        return max(1, seconds_to_ps(mean_s * float(drawn)))


def scaling_metric(scaling: Scaling, ready: list[FleetSite], arrivals_per_s: float) -> float:
    """Scaling metric summed over the replicas of a pool.

    Source: own definition.
    """
    if scaling.metric == "rate":
        return arrivals_per_s
    if scaling.metric == "outstanding":
        return float(sum(site.num_outstanding for site in ready))
    return sum(site.replica.used_fraction() for site in ready)
