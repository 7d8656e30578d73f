"""Simulation of equal replicas that share a workload: a single replica, or several behind a router."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from advisor.catalog.errors import AdvisorError, whole
from advisor.catalog.units import PICOSECONDS_PER_S
from advisor.simulator.serving.batch import Request
from advisor.simulator.serving.caching_replica import CachingReplica
from advisor.simulator.serving.content import Contents
from advisor.simulator.serving.load import Arrival
from advisor.simulator.serving.lone_replica import is_usual, serve_alone
from advisor.simulator.serving.loop import BLOCK, EventLoop, LoadIndex, Site
from advisor.simulator.serving.metrics import Recorder, ServingResult
from advisor.simulator.serving.ordered_queue import Rank
from advisor.simulator.serving.pipeline import NEVER, step_tables
from advisor.simulator.serving.policy import SchedulerPolicy, Slo
from advisor.simulator.serving.replica import Replica
from advisor.simulator.serving.workload import Client, Workload, draw_contents
from advisor.simulator.step_cost import StepSurface

if TYPE_CHECKING:
    from advisor.simulator.serving.fleet import RouterRule
    from advisor.simulator.serving.router import Router

WATCHED_BLOCK = 1 << 10
"""Number of integers that replicas collect while violations are counted."""


def simulate(
    surface: StepSurface,
    policy: SchedulerPolicy,
    workload: Workload,
    *,
    num_replicas: int = 1,
    router: "RouterRule | None" = None,
    jump: bool = True,
    records: bool = False,
    rank: Rank | None = None,
    seed: int = 0,
    slo: Slo | None = None,
    give_up_after_violations: int | None = None,
) -> ServingResult:
    """Return latencies and throughput of equal replicas that serve a workload to its last request.

    round_robin takes the replicas in turn; least_outstanding, the default, takes the replica with the fewest unfinished
    requests, the first of them in a tie; prefix_affinity takes the replica that has computed the longest prefix of the
    prompt. With jump=False every iteration is processed by itself; all records are the same. Requests of a lower rank
    go first; None serves them in order of arrival. With give_up_after_violations the simulation stops as soon as more
    finished requests than this number miss the slo.

    Assumes: what StepSurface and SchedulerPolicy assume; the router takes no time and never moves a request again.
    Raises: AdvisorError: the surface does not cover the policy, no replica, affinity without common prefixes, or
        give_up_after_violations without slo, or negative.
    Source: own design.
    """
    limit = give_up_after_violations
    if limit is not None and (slo is None or limit < 0):
        raise AdvisorError(
            f"giving up after {limit} violations needs an objective and a number of at least 0"
        )
    whole("num_replicas", num_replicas)
    client = Client(workload, policy, seed, num_front_ends=num_replicas)
    recorder = client.recorder(slo, keep=records)
    contents = draw_contents(workload, seed)
    before = _router(surface, policy, num_replicas, router, contents)
    tables = step_tables(surface, policy)
    replicas = [new_replica(tables, policy, contents, jump=jump, rank=rank) for _ in range(num_replicas)]
    loop = _ClientService(replicas, client, recorder, before, NEVER if limit is None else limit)
    loop.run()
    loop.record()
    return result_of(loop, replicas, client, recorder, policy)


def _router(
    surface: StepSurface,
    policy: SchedulerPolicy,
    num_replicas: int,
    rule: "RouterRule | None",
    contents: Contents | None,
) -> "Router | None":
    """Return the router before several replicas, or before a single one if a rule is given; else None."""
    if num_replicas == 1 and rule is None:
        return None
    from advisor.simulator.serving.fleet import Fleet, Pool
    from advisor.simulator.serving.router import Router

    pool = Pool(name="all", surface=surface, policy=policy, num_replicas=num_replicas)
    return Router(Fleet(pools=(pool,), router=rule or "least_outstanding"), contents)


class _ClientService(EventLoop):
    """Clients and the replicas that answer them: through a router, or a single replica that knows its requests in
    advance."""

    def __init__(
        self,
        replicas: Sequence[Replica],
        client: Client,
        recorder: Recorder,
        router: "Router | None",
        limit: int,
    ) -> None:
        super().__init__()
        self.client = client
        self.recorder = recorder
        self.router = router
        self.limit = limit
        self.is_closed_loop = client.is_closed_loop
        self.send = client.send
        self.block = WATCHED_BLOCK if limit < NEVER else BLOCK
        self.next_look = self.block
        """Length of the list of finished requests beyond which violations are counted, or the list is recorded."""
        self.num_counted = 0
        """Length of that list up to which violations are counted."""
        self.num_violations = 0
        self.finished = replicas[0].finished
        self.gaps = replicas[0].token_gaps
        sites = [Site(number, replica, LoadIndex()) for number, replica in enumerate(replicas)]
        for site in sites:
            site.replica.finished = self.finished
            site.replica.token_gaps = self.gaps
        self.submit = replicas[0].submit if router is None else self._route
        if router is not None:
            for site in sites:
                router.join(site)
            self.come_from(client.arrivals())
            return
        if client.is_closed_loop:
            client.begin(self.submit)
        else:
            replicas[0].refill_from(client.upcoming)
        self.touch(sites[0])

    def run(self) -> None:
        """Process all events to the end, or until enough requests have missed the objective."""
        if self.router is None and is_usual(self.touched[0].replica):
            serve_alone(self, self.touched.pop())
        else:
            self.run_until(NEVER)

    def arrive(self, arrival: Arrival) -> None:
        """Give a request to the replica that the router chooses."""
        sent_ps, index, input_tokens, output_tokens = arrival
        self._route((sent_ps + self.client.api_ps, index, input_tokens, output_tokens))

    def _route(self, request: Request) -> None:
        assert self.router is not None
        site = self.router.choose(*request[1:])
        assert isinstance(site, Site), "clients send nothing that a replica cannot hold"
        self.hand_over(site, request)

    def handle_finished(self, site: Site, num_finished: int) -> None:
        """Record finished requests, and send the next request of every client that has been answered."""
        if self.router is not None:
            site.count_finished(num_finished)
        if len(self.finished) > self.next_look:
            self._look()
        if len(self.gaps) > BLOCK:
            self.recorder.take_gaps(self.gaps)
        if self.is_closed_loop:
            heard_ps = self.now_ps
            done_ps = site.replica.delivery.done_ps
            if done_ps > heard_ps:
                heard_ps = done_ps
            for _ in range(num_finished):
                self.send(heard_ps, self.submit)

    def _look(self) -> None:
        """Count the violations among the requests that have finished since the last time; record a long list."""
        finished = self.finished
        if len(finished) > BLOCK:
            self.recorder.take_finished(finished)
            self.num_violations = self.recorder.num_violations
        else:
            self.num_violations += self.recorder.count_violations(finished[self.num_counted :])
        self.num_counted = len(finished)
        self.next_look = self.num_counted + self.block
        self.enough = self.num_violations > self.limit

    def record(self) -> None:
        """Pass what the replicas report to the recorder."""
        self.recorder.take_finished(self.finished)
        self.recorder.take_gaps(self.gaps)
        self.enough = self.recorder.num_violations > self.limit


def new_replica(
    tables: StepSurface,
    policy: SchedulerPolicy,
    contents: Contents | None,
    *,
    jump: bool = True,
    rank: Rank | None = None,
) -> Replica:
    """Return a replica, with a prefix cache if the policy has one and the requests have anything in common.

    A static batch holds its blocks to its end and computes all prompts.
    Source: own definition.
    """
    if contents is None or not policy.prefix_caching or policy.kind == "static":
        return Replica(tables, policy, jump=jump, rank=rank)
    return CachingReplica(tables, policy, contents, jump=jump, rank=rank)


def result_of(
    loop: EventLoop, replicas: Sequence[Replica], client: Client, recorder: Recorder, policy: SchedulerPolicy
) -> ServingResult:
    """Return the metrics of a simulation that has ended, after checking that every request is accounted for.

    Raises: AssertionError: arrived is not done + in flight + refused; a defect of the simulator.
    Source: own definition.
    """
    held = [request[0] for replica in replicas for request in replica.unfinished_requests()]
    num_in_flight = sum(seen_ps <= loop.now_ps for seen_ps in held)
    num_future = len(held) - num_in_flight + len(client.ahead) + (not loop.expects_nobody)
    num_arrived = client.num_sent - num_future
    if num_arrived != recorder.num_finished + num_in_flight + client.num_refused:
        raise AssertionError(
            f"{num_arrived} requests arrived, but {recorder.num_finished} are done, {num_in_flight} in flight and "
            f"{client.num_refused} refused"
        )
    duration_ps = max(0, recorder.last_end_ps - client.first_arrival_ps)
    num_iterations = sum(replica.num_iterations for replica in replicas)
    steady_requests, steady_tokens = recorder.steady_rates()
    capacity = policy.kv_capacity_blocks
    work_ps = sum(replica.busy_ps for replica in replicas)
    return ServingResult(
        num_requests=num_arrived,
        num_finished=recorder.num_finished,
        num_refused=client.num_refused,
        num_in_flight=num_in_flight,
        num_preemptions=sum(replica.num_preemptions for replica in replicas),
        num_swaps=sum(replica.num_swaps for replica in replicas),
        preempted_tokens=sum(replica.preempted_tokens for replica in replicas),
        num_iterations=num_iterations,
        num_events=sum(replica.num_events for replica in replicas),
        gave_up=loop.enough,
        ttft=recorder.ttft,
        tpot=recorder.tpot,
        e2e=recorder.e2e,
        queueing=recorder.queueing,
        itl=recorder.itl,
        duration_s=duration_ps / PICOSECONDS_PER_S,
        input_tokens=recorder.input_tokens,
        output_tokens=recorder.output_tokens,
        steady_output_tokens_per_s=steady_tokens,
        steady_requests_per_s=steady_requests,
        busy_fraction=work_ps / (len(replicas) * duration_ps) if duration_ps else 0.0,
        mean_batch=recorder.itl.num_samples / num_iterations if num_iterations else 0.0,
        mean_kv_tokens=recorder.context_sum / num_iterations if num_iterations else 0.0,
        max_kv_tokens=max(r.max_used_blocks * r.block_tokens for r in replicas) or recorder.max_context,
        kv_capacity_tokens=None if capacity is None else capacity * policy.block_tokens,
        goodput_fraction=recorder.goodput_fraction(),
        num_violations=recorder.num_violations,
        records=recorder.records(),
        prefix_hit_fraction=_hit_fraction(replicas),
        late_queueing_s=recorder.late_queueing_s(),
    )


def _hit_fraction(replicas: Sequence[Replica]) -> float | None:
    num_prompt_tokens = sum(replica.num_prompt_tokens for replica in replicas)
    if not num_prompt_tokens:
        return None
    return sum(replica.num_cached_tokens for replica in replicas) / num_prompt_tokens
