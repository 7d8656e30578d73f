"""Prompts in one pool, decoding in another: two pools of unlike workers, a router before each, links between them."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import simpy

from advisor.catalog.errors import AdvisorError
from advisor.simulator.serving.client import Client
from advisor.simulator.serving.cluster import ARRIVE, COMPLETE, START, Instant
from advisor.simulator.serving.content import Contents
from advisor.simulator.serving.decode_replica import DecodeReplica
from advisor.simulator.serving.kv_transfer import Channels, KvLink, transferred_ps
from advisor.simulator.serving.metrics import Recorder, ServingResult
from advisor.simulator.serving.micro_batch import Request
from advisor.simulator.serving.pipeline import NEVER
from advisor.simulator.serving.policy import SchedulerPolicy, Slo
from advisor.simulator.serving.records import NUM_FIELDS
from advisor.simulator.serving.replica import Replica
from advisor.simulator.serving.simulation import BLOCK, Options, new_recorder, new_replica, result_of
from advisor.simulator.serving.tables import step_tables
from advisor.simulator.serving.workload import Workload, draw_contents
from advisor.simulator.step_cost import StepSurface


@dataclass(frozen=True, slots=True)
class Pool:
    """`num_workers` equal workers of one kind."""

    surface: StepSurface
    policy: SchedulerPolicy
    num_workers: int


def simulate_disaggregated(
    prefill: Pool,
    decode: Pool,
    link: KvLink,
    workload: Workload,
    *,
    records: bool = False,
    seed: int = 0,
    slo: Slo | None = None,
) -> ServingResult:
    """Latencies and throughput of a prefill pool and a decode pool that serve a workload to its last request.

    A request goes to the prefill worker with the fewest unfinished requests, which computes its prompt and first
    token; its cache moves to the decode worker with the fewest, which generates the rest once it has room. The client
    sees the first token when decoding begins.

    Assumes: routers take no time; a prompt's cache leaves the prefill worker without holding up the next prompts;
    decode workers set blocks aside for the whole output, and keep no prefixes: prefill workers do, where their policy
    says so, and send whole prompts on.
    Raises: AdvisorError: a pool without workers, or what `simulate` raises.
    Source: own design; DistServe (arXiv:2401.09670), Splitwise (arXiv:2311.18677).
    """
    for pool, name in ((prefill, "prefill"), (decode, "decode")):
        if pool.num_workers < 1:
            raise AdvisorError(
                f"the {name} pool has no workers",
                why="each request needs one worker of each pool",
                fix=f"at least one {name} worker, or one pool for both",
            )
    client = Client(workload, decode.policy, seed)
    options = Options(records=records, slo=slo, give_up_after_violations=None)
    recorder = new_recorder(client, workload, decode.policy, options)
    service = _Service(prefill, decode, link, client, recorder, draw_contents(workload, seed))
    now_ps = service.run()
    replicas = [site.replica for site in (*service.prefill, *service.decode)]
    return result_of(replicas, client, recorder, decode.policy, now_ps, gave_up=False)


class _Worker:
    """A replica, its process, its links, and the number of requests on it."""

    def __init__(self, replica: Replica, num_channels: int) -> None:
        self.replica = replica
        self.channels = Channels(num_channels)
        self.num_outstanding = 0
        self.process: simpy.Process | None = None
        self.is_waiting = False

    def submit(self, request: Request) -> None:
        """Hand a request over; the worker's process looks up if it waits for something later."""
        if self.replica.submit(request) and self.is_waiting and self.process is not None:
            self.is_waiting = False
            self.process.interrupt()


class _Service:
    """The processes of one simulation: each worker serves, each finished prompt moves."""

    def __init__(
        self,
        prefill: Pool,
        decode: Pool,
        link: KvLink,
        client: Client,
        recorder: Recorder,
        contents: Contents | None,
    ) -> None:
        self.env = simpy.Environment(initial_time=0)
        self.client, self.recorder, self.link = client, recorder, link
        first, second = (
            step_tables(prefill.surface, prefill.policy),
            step_tables(decode.surface, decode.policy),
        )
        self.prefill = [
            _Worker(new_replica(first, prefill.policy, contents), link.sender_channels)
            for _ in range(prefill.num_workers)
        ]
        self.decode = [
            _Worker(DecodeReplica(second, decode.policy), link.receiver_channels)
            for _ in range(decode.num_workers)
        ]
        self.under_way: dict[int, Request] = {}
        """What the client asked for, by index, until its last token is out."""
        self.arrivals: list[Request] = []
        self.rows: list[int] = []

    def run(self) -> int:
        """Run until nothing is left to do; the last instant [ps]."""
        env = self.env
        for worker in self.prefill:
            worker.process = env.process(self._serve(worker, is_prefill=True))
        for worker in self.decode:
            worker.process = env.process(self._serve(worker, is_prefill=False))
        env.process(self._arrive())
        while env.peek() < NEVER:
            env.step()
        self._record(0)
        return int(env.now)

    def _arrive(self) -> Generator[simpy.Event, Any, None]:
        """Send the requests whose instants are known beforehand."""
        self.client.refill(self.arrivals.append)
        while self.arrivals:
            for request in self.arrivals:
                instant_ps = request[0] - self.client.api_ps
                yield Instant(self.env, instant_ps - int(self.env.now), ARRIVE)
                self._begin(request)
            self.arrivals.clear()
            if not self.client.is_closed_loop:
                self.client.refill(self.arrivals.append)

    def _begin(self, request: Request) -> None:
        """Give a request to a prefill worker, for its first token only."""
        seen_ps, index, input_tokens, _ = request
        self.under_way[index] = request
        worker = _least(self.prefill)
        worker.num_outstanding += 1
        worker.submit((seen_ps, index, input_tokens, 1))

    def _serve(self, worker: _Worker, *, is_prefill: bool) -> Generator[simpy.Event, Any, None]:
        """Start and complete the runs of one worker."""
        env, replica = self.env, worker.replica
        after = self._prompt_done if is_prefill else self._answer_done
        while True:
            yield Instant(env, 0, START)
            next_ps = replica.resume(int(env.now))
            worker.is_waiting = True
            try:
                yield env.event() if next_ps == NEVER else Instant(env, next_ps - int(env.now), COMPLETE)
            except simpy.Interrupt:
                continue
            worker.is_waiting = False
            worker.num_outstanding -= replica.advance(int(env.now))
            done = replica.finished
            for at in range(0, len(done), NUM_FIELDS):
                after(worker, done[at : at + NUM_FIELDS])
            done.clear()
            if len(replica.token_gaps) > BLOCK:
                self.recorder.take_gaps(replica.token_gaps)

    def _prompt_done(self, worker: _Worker, row: list[int]) -> None:
        """A prompt is computed: its cache goes to a decode worker, or the answer was that one token."""
        _, index, input_tokens, _, admitted_ps, _, end_ps, _ = row
        request = self.under_way[index]
        if request[3] == 1:
            self._answered(index, admitted_ps, end_ps, end_ps)
            return
        target = _least(self.decode)
        target.num_outstanding += 1
        there_ps = transferred_ps(
            self.link, worker.channels, target.channels, input_tokens, admitted_ps, end_ps
        )
        # The first token's own place in the cache is filled by the iteration that processes it.
        target.submit((max(there_ps, int(self.env.now)), index, input_tokens + 1, request[3] - 1))

    def _answer_done(self, worker: _Worker, row: list[int]) -> None:
        """The last token is out; decoding began with the first."""
        _, index, _, _, admitted_ps, _, end_ps, _ = row
        self._answered(index, admitted_ps, admitted_ps, end_ps)

    def _answered(self, index: int, admitted_ps: int, first_ps: int, end_ps: int) -> None:
        self.rows += (*self.under_way.pop(index), admitted_ps, first_ps, end_ps, 0)
        self._record(BLOCK)
        if self.client.is_closed_loop:
            self.client.send(max(int(self.env.now), end_ps), self._begin)

    def _record(self, least: int) -> None:
        """Hand over what has ended, once it is more than `least`."""
        if len(self.rows) > least:
            self.recorder.take_finished(self.rows)
        if not least:
            for worker in self.decode:
                self.recorder.take_gaps(worker.replica.token_gaps)


def _least(workers: Sequence[_Worker]) -> _Worker:
    return min(workers, key=lambda worker: worker.num_outstanding)
