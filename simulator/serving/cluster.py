"""Several replicas behind a router: SimPy owns what happens at the same time, the replicas know their own clockwork."""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any, Literal, get_args

import simpy
from simpy.events import EventPriority

from advisor.catalog.errors import AdvisorError
from advisor.simulator.serving.client import Client
from advisor.simulator.serving.content import Contents
from advisor.simulator.serving.metrics import Recorder, ServingResult
from advisor.simulator.serving.micro_batch import Request
from advisor.simulator.serving.pipeline import NEVER
from advisor.simulator.serving.policy import SchedulerPolicy, Slo
from advisor.simulator.serving.replica import Replica
from advisor.simulator.serving.routers import Balance, PrefixHomes, no_common_beginnings, unless_overloaded
from advisor.simulator.serving.simulation import (
    BLOCK,
    WATCHED_BLOCK,
    Options,
    new_recorder,
    new_replica,
    result_of,
)
from advisor.simulator.serving.tables import step_tables
from advisor.simulator.serving.workload import Workload, draw_contents
from advisor.simulator.step_cost import StepSurface

Router = Literal["round_robin", "least_outstanding", "prefix_affinity"]
COMPLETE, ARRIVE, START = 1, 2, 3
"""Order of what falls on one instant: runs end, requests arrive, runs start. SimPy's interrupts come before, at 0."""


class Instant(simpy.Event):
    """A timeout with a place in the order of its instant."""

    def __init__(self, env: simpy.Environment, delay_ps: int, priority: int) -> None:
        super().__init__(env)
        self._ok = True
        self._value = None
        env.schedule(self, EventPriority(priority), delay_ps)


class _Site:
    """A replica, its process, and the number of requests that the router has sent it and not got back."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.num_outstanding = 0
        self.process: simpy.Process | None = None
        self.is_waiting = False


_Choice = Callable[[Sequence[_Site], int, Request], _Site]
"""Of the replicas, the number of requests routed so far, and a request."""


def _round_robin(sites: Sequence[_Site], num_routed: int, request: Request) -> _Site:
    return sites[num_routed % len(sites)]


def _least_outstanding(sites: Sequence[_Site], num_routed: int, request: Request) -> _Site:
    return min(sites, key=lambda site: site.num_outstanding)


def _prefix_affinity(contents: Contents) -> _Choice:
    """The replica that has computed the longest beginning of a prompt, unless it has far more to do than another."""
    homes, balance = PrefixHomes(contents.tree.parents, contents.tree.ends), Balance()

    def choose(sites: Sequence[_Site], num_routed: int, request: Request) -> _Site:
        loads = {number: site.num_outstanding for number, site in enumerate(sites)}
        node = contents.prompts[request[1]]
        home = homes.find(node, request[2], balance.least_matched_fraction, loads)
        number = unless_overloaded(home, loads, min(loads, key=loads.__getitem__), balance)
        homes.remember(node, number)
        return sites[number]

    return choose


def _router(rule: str, contents: Contents | None) -> _Choice:
    if rule == "round_robin":
        return _round_robin
    if rule == "least_outstanding":
        return _least_outstanding
    if rule != "prefix_affinity":
        raise AdvisorError(f"router {rule!r} is not known", fix=f"one of {', '.join(get_args(Router))}")
    if contents is None:
        raise no_common_beginnings()
    return _prefix_affinity(contents)


def simulate_cluster(
    surface: StepSurface,
    policy: SchedulerPolicy,
    workload: Workload,
    *,
    num_replicas: int,
    router: Router = "least_outstanding",
    jump: bool = True,
    records: bool = False,
    seed: int = 0,
    slo: Slo | None = None,
    give_up_after_violations: int | None = None,
) -> ServingResult:
    """Latencies and throughput of equal replicas that share a workload through a router.

    round_robin takes the replicas in turn; least_outstanding the one with the fewest unfinished requests, the first
    of them in a tie; prefix_affinity the one that has computed the longest beginning of the prompt. One replica gives
    the same records as `simulate`.

    Assumes: the router takes no time and never moves a request again.
    Raises: AdvisorError: no replica, an unknown router, affinity without common beginnings, or what `simulate` raises.
    Source: own design.
    """
    if isinstance(num_replicas, bool) or not isinstance(num_replicas, int) or num_replicas < 1:
        raise AdvisorError(f"num_replicas must be a whole number of at least 1, not {num_replicas!r}")
    contents = draw_contents(workload, seed)
    choose = _router(router, contents)
    client = Client(workload, policy, seed)
    options = Options(records=records, slo=slo, give_up_after_violations=give_up_after_violations)
    recorder = new_recorder(client, workload, policy, options)
    tables = step_tables(surface, policy)
    sites = [_Site(new_replica(tables, policy, contents, jump=jump)) for _ in range(num_replicas)]
    limit = NEVER if give_up_after_violations is None else give_up_after_violations
    cluster = _Cluster(sites, client, recorder, choose, limit)
    now_ps = cluster.run()
    client.num_sent -= len(cluster.ahead)
    replicas = [site.replica for site in sites]
    gave_up = recorder.num_violations > limit
    return result_of(replicas, client, recorder, policy, now_ps, gave_up=gave_up)


class _Cluster:
    """The processes of one simulation: one sends an open loop's requests, one for each replica serves them."""

    def __init__(
        self,
        sites: Sequence[_Site],
        client: Client,
        recorder: Recorder,
        choose: _Choice,
        limit: int,
    ) -> None:
        self.env = simpy.Environment(initial_time=0)
        self.sites = sites
        self.client = client
        self.recorder = recorder
        self.choose = choose
        self.limit = limit
        self.block = WATCHED_BLOCK if limit < NEVER else BLOCK
        self.enough = False
        self.num_routed = 0
        self.ahead: deque[Request] = deque()
        """Requests drawn before their arrival."""
        self.finished, self.gaps = sites[0].replica.finished, sites[0].replica.token_gaps
        for site in sites:
            site.replica.finished, site.replica.token_gaps = self.finished, self.gaps

    def run(self) -> int:
        """Run until nothing is left to do, or too many requests have missed the objective; the last instant [ps]."""
        env = self.env
        for site in self.sites:
            site.process = env.process(self._serve(site))
        env.process(self._arrive())
        while env.peek() < NEVER and not self.enough:
            env.step()
        self._record(0)
        return int(env.now)

    def _arrive(self) -> Generator[simpy.Event, Any, None]:
        """Send the requests whose instants are known beforehand."""
        self.client.refill(self.ahead.append)
        while self.ahead:
            instant_ps = self.ahead[0][0] - self.client.api_ps
            yield Instant(self.env, instant_ps - int(self.env.now), ARRIVE)
            self._route(self.ahead.popleft())
            if not self.ahead:
                self.client.refill(self.ahead.append)

    def _route(self, request: Request) -> None:
        """Give a request to a replica, whose process looks up if it waits for something later."""
        site = self.choose(self.sites, self.num_routed, request)
        self.num_routed += 1
        site.num_outstanding += 1
        changed = site.replica.submit(request)
        if changed and site.is_waiting and site.process is not None:
            site.is_waiting = False
            site.process.interrupt()

    def _serve(self, site: _Site) -> Generator[simpy.Event, Any, None]:
        """Start and complete the runs of one replica, and send the next request of every client it has answered."""
        env, replica, client = self.env, site.replica, self.client
        while True:
            yield Instant(env, 0, START)
            next_ps = replica.resume(int(env.now))
            site.is_waiting = True
            try:
                yield env.event() if next_ps == NEVER else Instant(env, next_ps - int(env.now), COMPLETE)
            except simpy.Interrupt:
                continue
            site.is_waiting = False
            num_finished = replica.advance(int(env.now))
            site.num_outstanding -= num_finished
            self._record(self.block)
            if client.is_closed_loop:
                heard_ps = max(int(env.now), replica.delivery.done_ps)
                for _ in range(num_finished):
                    client.send(heard_ps, self._route)

    def _record(self, least: int) -> None:
        """Hand over what the replicas report, once it is more than `least`."""
        if len(self.finished) > least:
            self.recorder.take_finished(self.finished)
            self.enough = self.recorder.num_violations > self.limit
        if len(self.gaps) > least:
            self.recorder.take_gaps(self.gaps)
