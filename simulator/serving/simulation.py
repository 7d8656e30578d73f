"""Simulate one replica under a workload: the loop that needs no process simulation."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from advisor.catalog.errors import AdvisorError
from advisor.catalog.units import PICOSECONDS_PER_S
from advisor.simulator.serving.caching_replica import CachingReplica
from advisor.simulator.serving.client import Client
from advisor.simulator.serving.content import Contents
from advisor.simulator.serving.metrics import Recorder, ServingResult
from advisor.simulator.serving.pipeline import NEVER
from advisor.simulator.serving.policy import SchedulerPolicy, Slo
from advisor.simulator.serving.replica import Replica
from advisor.simulator.serving.tables import StepTables, step_tables
from advisor.simulator.serving.workload import Workload, draw_contents
from advisor.simulator.step_cost import StepSurface

BLOCK = 1 << 15
"""Integers that replicas collect before the recorder takes them in."""
WATCHED_BLOCK = 1 << 9
"""The same while violations are watched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to keep, what to check, when to stop."""

    records: bool
    slo: Slo | None
    give_up_after_violations: int | None


def simulate(
    surface: StepSurface,
    policy: SchedulerPolicy,
    workload: Workload,
    *,
    jump: bool = True,
    records: bool = False,
    seed: int = 0,
    slo: Slo | None = None,
    give_up_after_violations: int | None = None,
) -> ServingResult:
    """Latencies and throughput of one replica that serves a workload to its last request.

    With jump=False every iteration is processed by itself; all records are the same. With
    give_up_after_violations the simulation stops as soon as more finished requests than that miss the slo.

    Assumes: what StepSurface and SchedulerPolicy assume.
    Raises: AdvisorError: the surface does not cover the policy, or give_up_after_violations without slo.
    Source: own design.
    """
    client = Client(workload, policy, seed)
    options = Options(records=records, slo=slo, give_up_after_violations=give_up_after_violations)
    recorder = new_recorder(client, workload, policy, options)
    contents = draw_contents(workload, seed)
    replica = new_replica(step_tables(surface, policy), policy, contents, jump=jump)
    client.refill(replica.submit)
    if not client.is_closed_loop:
        replica.refill = partial(client.refill, replica.submit)
    limit = NEVER if give_up_after_violations is None else give_up_after_violations
    now_ps = _run(replica, client, recorder, limit)
    return result_of([replica], client, recorder, policy, now_ps, gave_up=recorder.num_violations > limit)


def _run(replica: Replica, client: Client, recorder: Recorder, limit: int) -> int:
    """Alternate resume and advance until nothing happens any more; the last instant [ps]."""
    resume, advance, send, submit = replica.resume, replica.advance, client.send, replica.submit
    finished, gaps = replica.finished, replica.token_gaps
    closed, block = client.is_closed_loop, WATCHED_BLOCK if limit < NEVER else BLOCK
    now_ps, next_ps = 0, resume(0)
    while next_ps != NEVER:
        now_ps = next_ps
        num_finished = advance(now_ps)
        if num_finished:
            if closed:
                heard_ps = max(now_ps, replica.delivery.done_ps)
                for _ in range(num_finished):
                    send(heard_ps, submit)
            if len(finished) > block:
                recorder.take_finished(finished)
                if recorder.num_violations > limit:
                    break
        if len(gaps) > BLOCK:
            recorder.take_gaps(gaps)
        next_ps = resume(now_ps)
    recorder.take_finished(finished)
    recorder.take_gaps(gaps)
    return now_ps


def new_replica(
    tables: StepTables, policy: SchedulerPolicy, contents: Contents | None, *, jump: bool = True
) -> Replica:
    """A replica, with a prefix cache where the policy has one and the requests have anything in common.

    A static batch holds its blocks to its end and computes all prompts.
    Source: own definition.
    """
    if contents is None or not policy.prefix_caching or policy.kind == "static":
        return Replica(tables, policy, jump=jump)
    return CachingReplica(tables, policy, contents, jump=jump)


def new_recorder(client: Client, workload: Workload, policy: SchedulerPolicy, options: Options) -> Recorder:
    """The recorder of a simulation.

    Raises: AdvisorError: a number of violations without an objective, or a negative one.
    Source: own definition.
    """
    limit = options.give_up_after_violations
    if limit is not None and (options.slo is None or limit < 0):
        raise AdvisorError(
            f"giving up after {limit} violations needs an objective and a number of at least 0"
        )
    return Recorder(
        num_expected=workload.num_requests,
        ramp=client.ramp,
        api_overhead_ps=policy.api_overhead_ps,
        slo=options.slo,
        keep=options.records,
    )


def result_of(
    replicas: Sequence[Replica],
    client: Client,
    recorder: Recorder,
    policy: SchedulerPolicy,
    now_ps: int,
    *,
    gave_up: bool,
) -> ServingResult:
    """Metrics of a simulation that has ended, once every request is accounted for.

    Raises: AssertionError: arrived is not done + in flight + refused; a defect of the simulator.
    Source: own definition.
    """
    num_future = sum(1 for replica in replicas for request in replica.inbox if request[0] > now_ps)
    num_arrived = client.num_sent - num_future
    num_in_flight = sum(replica.num_in_flight(now_ps) for replica in replicas)
    if num_arrived != recorder.num_finished + num_in_flight + client.num_refused:
        raise AssertionError(
            f"{num_arrived} requests arrived, but {recorder.num_finished} are done, {num_in_flight} in flight and "
            f"{client.num_refused} refused"
        )
    duration_ps = max(0, recorder.last_end_ps - client.first_arrival_ps)
    num_iterations = sum(replica.num_iterations for replica in replicas)
    steady_requests, steady_tokens = recorder.steady_rates()
    capacity = policy.kv_capacity_blocks
    return ServingResult(
        num_requests=num_arrived,
        num_finished=recorder.num_finished,
        num_refused=client.num_refused,
        num_in_flight=num_in_flight,
        num_preemptions=sum(replica.num_preemptions for replica in replicas),
        num_iterations=num_iterations,
        num_events=sum(replica.num_events for replica in replicas),
        gave_up=gave_up,
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
        busy_fraction=sum(r.busy_ps for r in replicas) / (len(replicas) * duration_ps)
        if duration_ps
        else 0.0,
        mean_batch=recorder.itl.num_samples / num_iterations if num_iterations else 0.0,
        mean_kv_tokens=recorder.context_sum / num_iterations if num_iterations else 0.0,
        max_kv_tokens=_max_kv_tokens(replicas, recorder),
        kv_capacity_tokens=None if capacity is None else capacity * policy.block_tokens,
        goodput_fraction=recorder.goodput_fraction(),
        num_violations=recorder.num_violations,
        records=recorder.records(),
        prefix_hit_fraction=_hit_fraction(replicas),
    )


def _max_kv_tokens(replicas: Sequence[Replica], recorder: Recorder) -> int:
    """With prefix caches, what is shared counts once, where there is a capacity to compare it with."""
    used = [
        replica.max_used_blocks * replica.block_tokens
        for replica in replicas
        if isinstance(replica, CachingReplica) and replica.may_evict
    ]
    return max(used) if used else recorder.max_context


def _hit_fraction(replicas: Sequence[Replica]) -> float | None:
    caching = [replica for replica in replicas if isinstance(replica, CachingReplica)]
    num_prompt_tokens = sum(replica.num_prompt_tokens for replica in caching)
    if not num_prompt_tokens:
        return None
    return sum(replica.num_cached_tokens for replica in caching) / num_prompt_tokens
