"""Simulation of disaggregated serving: a prefill pool and a decode pool, a router before each, links between them."""

import math
from dataclasses import dataclass, field
from heapq import heapreplace

from advisor.catalog.errors import AdvisorError
from advisor.catalog.units import PICOSECONDS_PER_S
from advisor.simulator.serving.batch import MicroBatch, Prefill, Request
from advisor.simulator.serving.content import Contents
from advisor.simulator.serving.fleet import Pool
from advisor.simulator.serving.load import Arrival
from advisor.simulator.serving.loop import BLOCK, EventLoop, LoadIndex, Site
from advisor.simulator.serving.metrics import NUM_FIELDS, Recorder, ServingResult
from advisor.simulator.serving.pipeline import NEVER, step_tables
from advisor.simulator.serving.policy import UNLIMITED, Slo
from advisor.simulator.serving.replica import Replica
from advisor.simulator.serving.simulation import WATCHED_BLOCK, new_replica, result_of
from advisor.simulator.serving.workload import Client, Workload, draw_contents


@dataclass(frozen=True, slots=True)
class KvLink:
    """Links of a worker, and what a transfer moves.

    A worker has `num_channels` independent links (its attention data-parallel ranks), each of which carries one
    request's cache at a time.
    """

    bytes_per_token: float
    bytes_per_s: float
    """Rate of one channel in one direction [bytes/s]."""
    latency_s: float = 0.0
    """Latency per request [s]: blocks are announced, and asked for."""
    first_token_s: float = 0.0
    """Time that a decode worker takes to its first token [s], beyond the transfer; 0 if it is sent the first token."""
    fixed_bytes: float = 0.0
    """Bytes of recurrent state per request, whatever its length."""
    num_layers: int = 1
    layer_wise: bool = True
    """Whether a layer's cache leaves while the next layers are computed; otherwise chunks or all of it leave once they
    are computed."""
    chunk_tokens: int = 0
    """Tokens whose cache leaves together once they are computed; 0 if the whole prompt's does."""
    sender_channels: int = 1
    receiver_channels: int = 1

    def __post_init__(self) -> None:
        if (
            not self.bytes_per_s > 0
            or min(self.bytes_per_token, self.latency_s, self.first_token_s, self.fixed_bytes) < 0
        ):
            raise AdvisorError("a KV link needs a positive rate, and sizes and latency of at least 0")
        if min(self.num_layers, self.sender_channels, self.receiver_channels) < 1:
            raise AdvisorError("a KV link needs at least one layer and one channel on each side")

    def num_pieces(self, tokens: float) -> int:
        """Number of equal pieces in which a prompt's cache leaves, each once it is computed: its layers, its chunks, or
        one."""
        if self.layer_wise:
            return self.num_layers
        return max(1, math.ceil(tokens / self.chunk_tokens)) if self.chunk_tokens else 1


@dataclass(slots=True)
class Channels:
    """Instants at which each of a worker's links is free again [ps]."""

    num_channels: int
    free_ps: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.free_ps = [0] * self.num_channels


def transferred_ps(
    link: KvLink, sender: Channels, receiver: Channels, tokens: int, computed_from_ps: int, computed_ps: int
) -> int:
    """Instant at which the cache of a prompt is in place [ps]; occupies both links. The prompt was computed between two
    instants.

    The transfer starts when both links are free, and once the first piece (layer, chunk, or the whole prompt) is
    computed; it cannot end before the last piece has followed the end of the computation:

        start = max(links free, computed - (computed - computed_from) · (pieces - 1) / pieces)
        end = max(start + bytes / rate, computed + bytes / rate / pieces) + latency

    Assumes: pieces take equal times and have equal caches; links serve one request at a time in order of computation.
    Source: own derivation; layer-wise transfer as in Patel et al. 2024 (Splitwise), arXiv:2311.18677.
    """
    num_bytes = link.bytes_per_token * tokens + link.fixed_bytes
    whole_ps = round(num_bytes / link.bytes_per_s * PICOSECONDS_PER_S)
    pieces = link.num_pieces(tokens)
    ready_ps = computed_ps - (computed_ps - computed_from_ps) * (pieces - 1) // pieces
    start_ps = max(sender.free_ps[0], receiver.free_ps[0], ready_ps)
    end_ps = max(start_ps + whole_ps, computed_ps + whole_ps // pieces)
    for side in (sender, receiver):
        heapreplace(side.free_ps, end_ps)
    return end_ps + round((link.latency_s + link.first_token_s) * PICOSECONDS_PER_S)


def simulate_disaggregated(
    prefill: Pool,
    decode: Pool,
    link: KvLink,
    workload: Workload,
    *,
    records: bool = False,
    seed: int = 0,
    slo: Slo | None = None,
    give_up_after_violations: int | None = None,
) -> ServingResult:
    """Return latencies and throughput of a prefill pool and a decode pool that serve a workload to its last request.

    A request goes to the prefill worker with the fewest unfinished requests, which computes its prompt and first
    token; its cache moves to the decode worker with the fewest, which generates the rest once it has room. The client
    sees the first token when decoding begins. With give_up_after_violations the simulation stops as soon as more
    finished requests than this number miss the slo.

    Assumes: routers take no time; a prompt's cache leaves the prefill worker without holding up the next prompts;
    decode workers set blocks aside for the whole output, and keep no prefixes; prefill workers keep them if their
    policy says so, and send whole prompts on. A prompt that no prefill worker could hold is refused.
    Raises: AdvisorError: what `simulate` raises.
    Source: own design; DistServe (arXiv:2401.09670), Splitwise (arXiv:2311.18677).
    """
    held = prefill.policy.largest_prompt_tokens, prefill.policy.largest_request_tokens
    most = min((limit for limit in held if limit is not None), default=UNLIMITED)
    client = Client(workload, decode.policy, seed, most_prompt_tokens=most)
    recorder = client.recorder(slo, keep=records)
    service = _PoolService(prefill, decode, link, client, recorder, draw_contents(workload, seed))
    if give_up_after_violations is not None:
        service.limit = give_up_after_violations
        service.block = WATCHED_BLOCK
    service.run_until(NEVER)
    service.record(0)
    replicas = [site.replica for site in (*service.prefill, *service.decode)]
    return result_of(service, replicas, client, recorder, decode.policy)


class DecodeReplica(Replica):
    """Replica whose requests arrive with their cache filled.

    A request (visible, index, cached tokens, output tokens) takes blocks for its cached tokens and joins the next
    iteration as a decoding sequence; the iteration yields its first output token here. Blocks for all its output are
    set aside at admission, so nothing is ever recomputed.

    Assumes: reserve_output_fraction is 1; the cache is in place when the request becomes visible.
    Source: own design; decode workers of TensorRT-LLM and SGLang admit a request once its blocks are there.
    """

    def _admit(self, batch: MicroBatch, free: int) -> None:
        """Admit waiting requests in order of arrival while sequence slots and blocks last."""
        inbox = self.inbox
        cutoff_ps = batch.cutoff_ps
        slots = self.num_slots - self.num_running - batch.freed_sequences
        while slots > 0 and inbox and inbox[0][0] <= cutoff_ps:
            request = inbox[0]
            need = (request[2] - 1) // self.block_tokens + 1
            if not self.blocks.grant(batch, request, need, alone=not self.num_running):
                return
            self.num_admissions += 1
            self.num_running += 1
            inbox.popleft()
            entry = Prefill(request, self.num_admissions, request[2], batch.start_ps)
            batch.take(entry, request[2], need)
            batch.num_admitted += 1
            slots -= 1

    def _start_mixed(self, batch: MicroBatch) -> None:
        """Start one decode iteration of the running sequences and of those that have just arrived."""
        tables = self.tables
        window = self.tables.window_tokens
        cached = [entry.target for entry in batch.completing]
        num_sequences = batch.num_decoding + len(cached)
        stage_ps = tables.decode_base_ps[num_sequences] + self.admission_ps * batch.num_admitted
        stage_ps += tables.decode_context_ps[num_sequences] * (batch.context_sum + sum(cached))
        if window is not None:
            windowed = batch.window_sum + sum(min(tokens, window) for tokens in cached)
            stage_ps += tables.decode_window_ps[num_sequences] * windowed
        batch.ticking = batch.num_decoding > 0
        batch.open_to_arrivals = False
        self.pipeline.start(batch, stage_ps, 0, 1)


class _Worker(Site):
    """Replica of a pool, with its links."""

    __slots__ = ("channels",)

    def __init__(self, number: int, replica: Replica, loads: LoadIndex, num_channels: int) -> None:
        super().__init__(number, replica, loads)
        loads.join(number)
        self.channels = Channels(num_channels)


class _PoolService(EventLoop):
    """Clients and both pools; the cache of a finished prompt moves from one pool to the other."""

    def __init__(
        self,
        prefill: Pool,
        decode: Pool,
        link: KvLink,
        client: Client,
        recorder: Recorder,
        contents: Contents | None,
    ) -> None:
        super().__init__()
        self.client = client
        self.recorder = recorder
        self.link = link
        first, second = (step_tables(pool.surface, pool.policy) for pool in (prefill, decode))
        self.prefill_loads = LoadIndex()
        self.decode_loads = LoadIndex()
        self.prefill = [
            _Worker(
                number, new_replica(first, prefill.policy, contents), self.prefill_loads, link.sender_channels
            )
            for number in range(prefill.num_replicas)
        ]
        self.decode = [
            _Worker(number, DecodeReplica(second, decode.policy), self.decode_loads, link.receiver_channels)
            for number in range(decode.num_replicas)
        ]
        self.under_way: dict[int, Request] = {}
        """Requests of the clients by index, until their last token is out."""
        self.rows: list[int] = []
        self.limit = NEVER
        self.block = BLOCK
        self.come_from(client.arrivals())

    def arrive(self, arrival: Arrival) -> None:
        """Give a request to a prefill worker, for its first token only."""
        sent_ps, index, input_tokens, output_tokens = arrival
        self._begin((sent_ps + self.client.api_ps, index, input_tokens, output_tokens))

    def _begin(self, request: Request) -> None:
        seen_ps, index, input_tokens, _ = request
        self.under_way[index] = request
        worker = self.prefill[self.prefill_loads.least_loaded()]
        self.hand_over(worker, (seen_ps, index, input_tokens, 1))

    def handle_finished(self, site: Site, num_finished: int) -> None:
        """Move the caches of computed prompts, and answer requests whose last token is out."""
        site.count_finished(num_finished)
        done = site.replica.finished
        decodes = site.load_index is self.decode_loads
        for at in range(0, len(done), NUM_FIELDS):
            _, index, input_tokens, _, admitted_ps, _, end_ps, _ = done[at : at + NUM_FIELDS]
            if decodes:
                self._answer(index, admitted_ps, admitted_ps, end_ps)  # decoding began with the first token
            elif self.under_way[index][3] == 1:
                self._answer(index, admitted_ps, end_ps, end_ps)
            else:
                assert isinstance(site, _Worker)
                self._move(site, index, input_tokens, admitted_ps, end_ps)
        done.clear()

    def _move(
        self, worker: _Worker, index: int, input_tokens: int, admitted_ps: int, computed_ps: int
    ) -> None:
        """Send a prompt's cache to a decode worker."""
        target = self.decode[self.decode_loads.least_loaded()]
        there_ps = transferred_ps(
            self.link, worker.channels, target.channels, input_tokens, admitted_ps, computed_ps
        )
        # The first token's own place in the cache is filled by the iteration that processes it.
        output_tokens = self.under_way[index][3]
        self.hand_over(target, (max(there_ps, self.now_ps), index, input_tokens + 1, output_tokens - 1))

    def _answer(self, index: int, admitted_ps: int, first_ps: int, end_ps: int) -> None:
        self.rows += (*self.under_way.pop(index), admitted_ps, first_ps, end_ps, 0)
        self.record(self.block)
        if self.client.is_closed_loop:
            self.client.send(max(self.now_ps, end_ps), self._begin)

    def record(self, least: int) -> None:
        """Pass ended requests to the recorder, once there are more than `least`."""
        if len(self.rows) >= least:
            self.recorder.take_finished(self.rows)
            self.enough = self.recorder.num_violations > self.limit
            for worker in self.decode:
                self.recorder.take_gaps(worker.replica.token_gaps)
