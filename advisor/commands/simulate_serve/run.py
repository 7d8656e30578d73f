"""Run one stated deployment under one load."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from advisor.ask.deployment import (
    LoadPlan,
    as_inputs,
    check_served,
    engine_settings,
    layout_of,
    load_of,
    stated_deployment,
)
from advisor.ask.host_layers import host_notes
from advisor.ask.measures import parse_bytes, parse_seconds, parse_watts
from advisor.ask.options import SharedOptions
from advisor.ask.own_data import given_calibration
from advisor.ask.topology import check_network
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.schema import Calibration, Model
from advisor.commands.simulate_serve.options import Guessing, ServeInput
from advisor.render.answer import Answer, Paragraph
from advisor.render.atomic import check_writable, write_text
from advisor.render.serve_view import ServeRun, SpeculationGain, serve_answer
from advisor.simulator.deployment import Deployment
from advisor.simulator.host_cache import (
    PreemptionCost,
    find_host_cache,
    flag_of,
    host_cache_of,
    preemption_cost,
    priority_rule_of,
    with_host_cache,
)
from advisor.simulator.replica_model import EngineSettings, ReplicaModel, model_replica
from advisor.simulator.serving import (
    Gamma,
    Poisson,
    SchedulerPolicy,
    ServingResult,
    Slo,
    Weibull,
    Workload,
    simulate,
)
from advisor.simulator.serving.content import SharedPrefixes
from advisor.simulator.serving.metrics import pool_runs
from advisor.simulator.serving.ordered_queue import Rank
from advisor.simulator.serving.overload import num_requests_to_run_again, num_requests_to_tell, overload_of
from advisor.simulator.serving_prediction import ServingPrediction, predict_serving, within_sent

if TYPE_CHECKING:
    from advisor.commands.simulate_serve.pools import KvTransfer, Pools
    from advisor.commands.simulate_serve.speculation import Speculating


def serve(asked: ServeInput, shared: SharedOptions) -> Answer:
    """Simulate a deployment under a load; writes the request records if asked.

    Raises: AdvisorError and its kinds: something typed is malformed or unknown, the model does not fit, or no
        request can be served.
    """
    for path in (asked.records, asked.chrome_trace):
        if path is not None:
            check_writable(path)
    is_page = shared.output is not None and shared.output.suffix == ".html"
    typed = asked.preempting
    keeps_records = asked.records is not None or asked.chrome_trace is not None or typed.urgent is not None
    asked = replace(asked, keeps_records=keeps_records or (is_page and asked.seeds is None))
    slo = _slo(asked)
    calibration = given_calibration(shared.calibration)
    layout, layout_notes = layout_of(asked.layout, asked.flags)
    if asked.pools.is_given and layout.network is not None:
        # It is the network between the pools, whether or not a worker spans machines.
        check_network(layout.network)
        deployment, notes = stated_deployment(
            asked.model, asked.gpu, replace(layout, network=None), asked.flags
        )
        deployment = replace(deployment, network=layout.network)
    else:
        deployment, notes = stated_deployment(asked.model, asked.gpu, layout, asked.flags)
    notes = (*notes, *layout_notes, *host_notes(asked.flags, deployment))
    if asked.load.trace is not None:
        from advisor.simulator.serving.trace_files import read_trace

        model = deployment.model
        trace = asked.load.trace
        window = asked.flags.max_model_len
        read_trace(trace).check_fits(model.max_context_tokens, model.id, trace, window_tokens=window)
    _check_mechanisms(asked)
    started = time.perf_counter()
    run = _run_in_shares if _is_shared_out(asked) else _run_whole
    ran = run(asked, deployment, calibration, _seeds(asked, shared.seed), slo)
    wall_s = time.perf_counter() - started
    check_served(ran.result)
    notes = (*notes, *ran.plan.notes, *_flag_notes(asked, ran.replica.deployment))
    notes = (*notes, *_write_records(asked, ran.result, deployment))
    inputs = as_inputs(ran.replica.deployment, ran.plan) | {
        "pools": asked.pools if asked.pools.is_given else None,
        "long_prompts": asked.long_prompts,
        "other_replicas": asked.other_replicas,
        "router": asked.layout.router,
        "prefix_caching": ran.replica.policy.prefix_caching,
        "power_cap": asked.power_cap,
        "batching": asked.batching,
        "arrivals": ran.plan.workload.arrivals if asked.burstiness is not None else None,
        "contents": _contents_of(ran.plan.workload),
        "swap_space": typed.swap_space,
        "urgent": typed.urgent,
    }
    sent = None if ran.plan.traffic.concurrency else ran.plan.traffic.rate_per_s
    overload = overload_of(ran.result, sent)
    if overload is not None:
        notes = (*notes, *_format_note(asked, ran.replica.deployment))
    shown = ServeRun(
        ran.replica,
        ran.result,
        ran.prediction,
        wall_s,
        ran.gain,
        ran.words,
        overload,
        ran.preemption,
        ran.needed_requests,
    )
    answer = serve_answer(shown, ran.plan.traffic, inputs, notes)
    answer = _with_parts(answer, asked, shared, ran, is_page=is_page)
    if asked.what_if:
        again = partial(run, deployment=deployment, calibration=calibration, slo=slo)
        answer = _with_what_if(answer, asked, shared, again, ran)
    if calibration is None:
        return answer
    from advisor.render.calibration_view import with_calibration

    return with_calibration(answer, calibration, (deployment.accelerator.id,))


def _format_note(asked: ServeInput, deployment: Deployment) -> tuple[str, ...]:
    """Return the note that weights with fewer bits are planned for the same model, if no format is typed."""
    from advisor.commands.simulate_serve.fixes import fewer_bits

    formats = fewer_bits(deployment) if asked.layout.precision is None else ()
    return tuple(
        f"weights are {deployment.weight_dtype}, the format of the checkpoint; advisor recommend also plans "
        f"--precision {each}"
        for each in formats[:1]
    )


def _write_records(asked: ServeInput, result: ServingResult, deployment: Deployment) -> tuple[str, ...]:
    """Write the records of a run into the files that were named, and return a note for each."""
    notes: tuple[str, ...] = ()
    if asked.records is not None and result.records is not None:
        from advisor.render.frame import csv_text

        write_text(asked.records, csv_text(result.records.rows()))
        notes = (*notes, f"wrote {asked.records}")
    if asked.chrome_trace is not None and result.records is not None:
        from advisor.render.chrome_trace import serving_events, trace_text

        about = {"model": deployment.model.id, "accelerator": deployment.accelerator.id}
        write_text(asked.chrome_trace, trace_text(serving_events(result.records), about))
        notes = (*notes, f"wrote {asked.chrome_trace}")
    return notes


def _with_what_if(
    answer: Answer, asked: ServeInput, shared: SharedOptions, run: "Callable[..., _Ran]", ran: "_Ran"
) -> Answer:
    """Return the answer with the controls of its page; `run` simulates the same deployment again."""
    from advisor.commands.simulate_serve.what_if import price_of, with_what_if

    def simulate_again(other: ServeInput) -> tuple[ServingPrediction, ServingResult]:
        again = run(other, seeds=_seeds(other, shared.seed))
        check_served(again.result)
        return again.prediction, again.result

    is_alike = not (asked.pools.is_given or asked.long_prompts or asked.other_replicas)
    price = price_of(ran.replica.deployment, shared.as_of, is_alike=is_alike)
    plain = replace(asked, keeps_records=False, records=None, chrome_trace=None)
    return with_what_if(
        answer, plain, simulate_again, ran.plan.traffic, price, seed=shared.seed, quiet=shared.quiet
    )


@dataclass(frozen=True, slots=True)
class _Ran:
    """A simulated deployment with its plan and its result."""

    plan: LoadPlan
    replica: ReplicaModel
    result: ServingResult
    prediction: ServingPrediction
    gain: SpeculationGain | None
    """Gain of speculative decoding over the same load without it; None without speculative decoding."""
    words: str
    """Text of the answer about pools or shares; empty for one pool that takes the whole load."""
    preemption: PreemptionCost | None = None
    """Cost of preemptions, by the engine's way to swap if it has one; None if nothing was preempted."""
    transfer: "KvTransfer | None" = None
    """Transfer of a mean prompt's cache from one pool to the other; None for one pool."""
    needed_requests: int | None = None
    """Requests of a run that is long enough to tell whether the deployment keeps up; None if this one is."""


def _with_parts(
    answer: Answer, asked: ServeInput, shared: SharedOptions, ran: _Ran, *, is_page: bool
) -> Answer:
    """Return the answer with what only some questions have: figures by priority, charts of a page, sent caches."""
    urgent = asked.preempting.urgent
    if urgent is not None:
        from advisor.commands.simulate_serve.urgency import by_priority, draw_ranks, priority_table

        ranks = draw_ranks(urgent, ran.plan.workload.num_requests, shared.seed)
        apart = by_priority(ran.result, ranks, ran.replica)
        result = {**answer.result, "by_priority": apart}
        answer = replace(answer, result=result, blocks=(*answer.blocks, priority_table(apart)))
    if is_page and ran.result.records is not None:
        from advisor.render.serve_charts import serving_charts

        answer = replace(answer, blocks=(*answer.blocks, *serving_charts(ran.result.records)))
    if ran.transfer is not None:
        words = Paragraph(ran.transfer.words)
        result = {**answer.result, "kv_transfer": ran.transfer}
        answer = replace(answer, result=result, blocks=(*answer.blocks, words))
    return answer


def _run_in_shares(
    asked: ServeInput,
    deployment: Deployment,
    calibration: Calibration | None,
    seeds: tuple[int, ...],
    slo: Slo | None,
) -> _Ran:
    """Run one replica with its share of the load."""
    from advisor.commands.simulate_serve.shares import in_shares

    shares = in_shares(asked, deployment, partial(_share_replica, calibration=calibration), seeds)
    clients_wait = shares.plan.traffic.concurrency is not None
    prediction = shares.of_all(predict_serving(shares.result, shares.replica, clients_wait=clients_wait))
    prediction = _within_load(prediction, shares.plan, shares.result, shares.capacity_per_s)
    return _Ran(shares.plan, shares.replica, shares.result, prediction, None, shares.words)


def _run_whole(
    asked: ServeInput,
    deployment: Deployment,
    calibration: Calibration | None,
    seeds: tuple[int, ...],
    slo: Slo | None,
) -> _Ran:
    """Run all replicas, or both pools, with the whole load, once for each seed."""
    plan = load_of(asked.load, deployment.model, asked.flags.max_model_len)
    if asked.burstiness is not None:
        arrivals = _bursty(asked.burstiness, asked.gaps, plan)
        plan = replace(plan, workload=replace(plan.workload, arrivals=arrivals))
    sent = None if asked.load.trace else plan.traffic.rate_per_s
    pools, plain, speculating, replica = _replicas(deployment, plan, asked, calibration)
    served = _run if pools is None else partial(_run_pools, pools)

    def run(plan: LoadPlan) -> ServingResult:
        runs = [
            served(replica, _workload_of(plan, asked, seed, deployment.model), asked, seed, slo)
            for seed in seeds
        ]
        return runs[0] if len(runs) == 1 else pool_runs(runs)

    result = run(plan)
    while not asked.load.requests and (longer := num_requests_to_run_again(result, sent, len(seeds))):
        plan = replace(plan, workload=replace(plan.workload, num_requests=longer))
        result = run(plan)
    needed = num_requests_to_tell(result, sent, len(seeds))
    prediction = predict_serving(result, replica, clients_wait=plan.traffic.concurrency is not None)
    gain = None
    if speculating is not None:
        prediction = speculating.as_sure(prediction)
        gain = speculating.gain(plain, plan, result)
    prediction = _within_load(prediction, plan, result, _capacity_per_s(pools, replica, plan, asked))
    if pools is None:
        way = find_host_cache(deployment.engine, _settings(asked))
        cost = preemption_cost(result, replica, way)
        return _Ran(plan, replica, result, prediction, gain, "", cost, needed_requests=needed)
    transfer = pools.transfer(plan.mean_input_tokens)
    return _Ran(plan, replica, result, prediction, gain, pools.words, None, transfer, needed)


def _capacity_per_s(
    pools: "Pools | None", replica: ReplicaModel, plan: LoadPlan, asked: ServeInput
) -> float | None:
    """Return the most requests per second of all replicas by the step-cost surface; None for static batches."""
    from advisor.decide.bounds import capacity_per_s, pools_capacity_per_s

    if asked.batching == "static":
        return None
    if pools is None:
        return replica.deployment.num_replicas * capacity_per_s(replica, plan.traffic)
    workers = pools.model.prefill_worker, pools.prefill.num_workers, replica, pools.decode.num_workers
    return pools_capacity_per_s(*workers, plan.traffic)


def _within_load(
    prediction: ServingPrediction, plan: LoadPlan, result: ServingResult, capacity_per_s: float | None
) -> ServingPrediction:
    """Return the prediction with rates that the rate of the load limits; the same where clients wait for outputs."""
    sent = None if plan.traffic.concurrency else plan.traffic.rate_per_s
    if sent is None:
        return prediction
    is_overloaded = overload_of(result, sent) is not None
    return within_sent(prediction, sent, is_overloaded=is_overloaded, capacity_per_s=capacity_per_s)


def _bursty(variation: float, gaps: str | None, plan: LoadPlan) -> Gamma | Weibull:
    """Return arrivals at the rate of the plan whose gaps vary as typed.

    Raises: AdvisorError: requests are sent by clients or come from a trace, or the variation is out of range.
    """
    rate = plan.traffic.rate_per_s
    if rate is None or not isinstance(plan.workload.arrivals, Poisson):
        raise AdvisorError(
            "--burstiness needs a rate",
            why="clients wait for their answers, and a trace has its own instants",
            fix="--rate 10, or drop --burstiness",
        )
    return Weibull(rate, variation) if gaps == "weibull" else Gamma(rate, variation)


def _check_mechanisms(asked: ServeInput) -> None:
    """Refuse mechanisms that are not simulated together.

    Raises: AdvisorError: there are two of them.
    """
    if asked.what_if and asked.load.trace is not None:
        raise AdvisorError(
            "--what-if and --trace exclude each other",
            why="the page varies load and lengths, and a trace has its own",
            fix="--rate 10, or leave --what-if out",
        )
    if asked.gaps is not None and asked.burstiness is None:
        raise AdvisorError(
            "--gaps needs --burstiness", why="a distribution has a width", fix="--burstiness 2"
        )
    if asked.burstiness is not None and _is_shared_out(asked):
        raise AdvisorError(
            "--burstiness is for replicas that share one queue",
            why="conversations and shares of a load draw their own arrivals",
            fix="drop --burstiness, or the options of sessions, long prompts and shares",
        )
    _check_preempting(asked)
    if asked.batching == "static" and asked.pools.is_given:
        raise AdvisorError(
            "static batches and two pools exclude each other",
            why="workers that only decode have no batch that begins with its prompts",
            fix="drop --batching static, or the options of pools",
        )
    if asked.batching == "static" and asked.prefix_caching:
        raise AdvisorError(
            "--batching static keeps no prefix cache",
            why="a static batch computes all its prompts",
            fix="drop --prefix-caching",
        )


def _check_preempting(asked: ServeInput) -> None:
    """Refuse host memory and priorities where nothing is preempted or ranked.

    Raises: AdvisorError: there are two pools, static batches, a share of the load, or several seeds.
    """
    typed = asked.preempting
    for name, value in (("--swap-space", typed.swap_space), ("--urgent", typed.urgent)):
        if value is None:
            continue
        if asked.pools.is_given or asked.batching == "static":
            other = "two pools" if asked.pools.is_given else "static batches"
            raise AdvisorError(
                f"{name} and {other} exclude each other",
                why="they set cache aside for whole answers and take requests in order of arrival",
                fix=f"drop {name}",
            )
        if name == "--urgent" and (_is_shared_out(asked) or asked.seeds is not None):
            raise AdvisorError(
                "--urgent is for one run of replicas that share one queue",
                why="latencies by priority are those of one run's requests",
                fix="drop --urgent, or --seeds and the options of sessions, long prompts and shares",
            )


def _is_shared_out(asked: ServeInput) -> bool:
    """Whether one replica is run with its share of the load, as `advisor recommend` plans it."""
    is_apart = asked.load.sessions is not None or asked.long_prompts is not None
    is_apart = is_apart or asked.other_replicas is not None
    return is_apart or asked.layout.router == "share"


def _seeds(asked: ServeInput, seed: int) -> tuple[int, ...]:
    """Return the seeds of the runs.

    Raises: AdvisorError: a seed is no whole number from 0 on, or records or a trace are wanted of several.
    """
    if asked.seeds is None:
        return (seed,)
    try:
        seeds = tuple(int(text) for text in asked.seeds.split(","))
    except ValueError:
        seeds = (-1,)
    if min(seeds) < 0:
        raise AdvisorError(f"--seeds {asked.seeds}: not a list of whole numbers", fix="--seeds 8,9,10")
    if asked.records is not None or asked.chrome_trace is not None:
        name = "--records" if asked.records is not None else "--chrome-trace"
        raise AdvisorError(
            f"--seeds and {name} exclude each other",
            why="records are of one run",
            fix=f"--seed {seeds[0]}, or drop {name}",
        )
    return seeds


def _workload_of(plan: LoadPlan, asked: ServeInput, seed: int, model: Model) -> Workload:
    """Return the requests of one run: as typed, or, if seeds are named, as `advisor recommend` draws them."""
    traffic = plan.traffic
    load = asked.load
    if asked.seeds is None or load.length_dist is not None or traffic.rate_per_s is None:
        return plan.workload
    from advisor.decide.load_runs import workload_of
    from advisor.decide.scenario import within_window

    traffic, _ = within_window(traffic, model)
    drawn = workload_of(traffic, traffic.rate_per_s or 0.0, plan.workload.num_requests, seed)
    return drawn if asked.burstiness is None else replace(drawn, arrivals=plan.workload.arrivals)


def _replicas(
    deployment: Deployment, plan: LoadPlan, asked: ServeInput, calibration: Calibration | None
) -> "tuple[Pools | None, ReplicaModel, Speculating | None, ReplicaModel]":
    """Return the pools or None, the replica or decode worker, its speculation or None, and the replica that runs."""
    limited = _under_limit(deployment, asked, calibration)
    pools, plain = _build_models(limited or deployment, plan, asked, None if limited else calibration)
    speculating = _speculating(plain, plan, asked)
    return (
        pools,
        plain,
        speculating,
        _with_adapters(plain if speculating is None else speculating.replica, asked),
    )


def _share_replica(
    deployment: Deployment, plan: LoadPlan, asked: ServeInput, *, calibration: Calibration | None
) -> ReplicaModel:
    """Return the replica that serves a share of the requests."""
    *_, replica = _replicas(deployment, plan, asked, calibration)
    return replica


def _under_limit(
    deployment: Deployment, asked: ServeInput, calibration: Calibration | None
) -> Deployment | None:
    """Return the calibrated deployment with its accelerators at the power limit; None without a power limit."""
    if asked.power_cap is None:
        return None
    from advisor.decide.power import limits_of, with_power_limit
    from advisor.simulator.calibrated_device import calibrated_deployment

    watts = parse_watts(asked.power_cap, "--power-cap")
    measured = calibrated_deployment(deployment, calibration)
    (limit_w,) = limits_of(measured.accelerator, f"power-cap:{watts:g}W")
    return replace(measured, accelerator=with_power_limit(measured.accelerator, limit_w))


def _build_models(
    deployment: Deployment, plan: LoadPlan, asked: ServeInput, calibration: Calibration | None
) -> "tuple[Pools | None, ReplicaModel]":
    """Return two pools, if any, and the replica or decode worker."""
    if not asked.pools.is_given:
        return None, _replica(deployment, plan, asked, calibration)
    if asked.step_by_step or asked.layout.router != "least_outstanding":
        raise AdvisorError(
            "--step-by-step and --router are for one pool",
            why="two pools are stepped by events and send to the worker with the least work",
            fix="drop them, or the options of pools",
        )
    from advisor.commands.simulate_serve.pools import pools_of

    pools = pools_of(asked.pools, deployment, plan, _settings(asked), calibration)
    if asked.prefix_caching is not None:
        policy = replace(pools.model.prefill.policy, prefix_caching=asked.prefix_caching)
        prefill = replace(pools.model.prefill, policy=policy)
        pools = replace(pools, model=replace(pools.model, prefill=prefill))
    return pools, pools.model.decode_worker


def _speculating(plain: ReplicaModel, plan: LoadPlan, asked: ServeInput) -> "Speculating | None":
    if asked.guessing == Guessing():
        return None
    from advisor.commands.simulate_serve.speculation import speculating_replica

    return speculating_replica(asked.guessing, plain, plan, _settings(asked))


def _with_adapters(replica: ReplicaModel, asked: ServeInput) -> ReplicaModel:
    typed = asked.adapting
    if typed.adapters is None:
        if typed.adapter_rank is not None or typed.adapter_slots is not None:
            raise AdvisorError("--adapter-rank and --adapter-slots need adapters", fix="--adapters 50")
        return replica
    from advisor.simulator.workloads.lora import MOST_SLOTS, USUAL_RANK, Adapters, lora_replica

    slots = min(typed.adapters, typed.adapter_slots or MOST_SLOTS)
    return lora_replica(replica, Adapters(typed.adapters, typed.adapter_rank or USUAL_RANK, slots))


def _run_pools(
    pools: "Pools",
    decode_worker: ReplicaModel,
    workload: Workload,
    asked: ServeInput,
    seed: int,
    slo: Slo | None,
) -> ServingResult:
    from advisor.simulator.disaggregation import with_decode_worker
    from advisor.simulator.serving.disaggregated import simulate_disaggregated

    model = with_decode_worker(pools.model, decode_worker)
    records = asked.keeps_records
    return simulate_disaggregated(
        model.prefill, model.decode, model.link, workload, records=records, seed=seed, slo=slo
    )


def _run(
    replica: ReplicaModel, workload: Workload, asked: ServeInput, seed: int, slo: Slo | None
) -> ServingResult:
    """Simulate a workload; one replica needs no router and runs faster without it, with the same records."""
    count = replica.deployment.num_replicas
    return simulate(
        replica.surface,
        replica.policy,
        workload,
        num_replicas=count,
        router=asked.layout.router if count > 1 and asked.layout.router != "share" else None,
        jump=not asked.step_by_step,
        records=asked.keeps_records,
        rank=_rank(asked, workload, seed),
        seed=seed,
        slo=slo,
    )


def _rank(asked: ServeInput, workload: Workload, seed: int) -> Rank | None:
    """Return the rank of requests where a part of them is urgent; None serves them in order of arrival."""
    part = asked.preempting.urgent
    if part is None:
        return None
    from advisor.commands.simulate_serve.urgency import draw_ranks, rank_by

    return rank_by(draw_ranks(part, workload.num_requests, seed))


def _contents_of(workload: Workload) -> object:
    """Return the shared content of the prompts, as the answer repeats it."""
    contents = workload.contents
    return contents if contents is None or isinstance(contents, SharedPrefixes) else "trace"


def _slo(asked: ServeInput) -> Slo | None:
    ttft_s = parse_seconds(asked.ttft, "--ttft") if asked.ttft else None
    tpot_s = parse_seconds(asked.tpot, "--tpot") if asked.tpot else None
    return Slo(ttft_s=ttft_s, tpot_s=tpot_s) if ttft_s or tpot_s else None


@dataclass(frozen=True, slots=True)
class _Same:
    """A record as a key: it equals itself only, so that nothing of it needs to be hashed."""

    record: Any

    def __hash__(self) -> int:
        return id(self.record)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.record is other.record


@dataclass(frozen=True, slots=True)
class _Lengths:
    """Lengths of requests that a replica is modelled for."""

    mean_input_tokens: float
    mean_output_tokens: float
    max_context_tokens: int
    context_spread: float


@lru_cache(maxsize=32)
def _remembered_replica(
    deployment: _Same, lengths: _Lengths, settings: EngineSettings, calibration: _Same
) -> ReplicaModel:
    """Return a replica; runs of a page that differ in their load alone share it."""
    return model_replica(
        deployment.record,
        mean_input_tokens=lengths.mean_input_tokens,
        mean_output_tokens=lengths.mean_output_tokens,
        max_context_tokens=lengths.max_context_tokens,
        context_spread=lengths.context_spread,
        settings=settings,
        calibration=calibration.record,
    )


def _replica(
    deployment: Deployment, plan: LoadPlan, asked: ServeInput, calibration: Calibration | None
) -> ReplicaModel:
    lengths = _Lengths(
        plan.mean_input_tokens,
        plan.mean_output_tokens,
        asked.flags.max_model_len or plan.longest_request_tokens,
        plan.context_spread,
    )
    settings = _settings(asked, deployment)
    try:
        replica = _remembered_replica(_Same(deployment), lengths, settings, _Same(calibration))
    except InfeasibleError as error:
        from advisor.commands.simulate_serve.fixes import with_fixes

        typed = asked.layout.precision
        fixed = with_fixes(error, deployment, plan, asked.flags, settings, typed_precision=typed)
        raise fixed from None
    replica = _as_preempting(replica, asked)
    if asked.batching is not None:
        replica = replace(replica, policy=_with_batching(replica.policy, asked.batching))
    if asked.prefix_caching is None:
        return replica
    return replace(replica, policy=replace(replica.policy, prefix_caching=asked.prefix_caching))


def _as_preempting(replica: ReplicaModel, asked: ServeInput) -> ReplicaModel:
    """Return the replica with the host memory and the priorities that were typed.

    Raises: InfeasibleError: the engine's release has none of that. AdvisorError: the size is no size.
    """
    typed = asked.preempting
    engine = replica.deployment.engine
    if typed.swap_space is not None:
        host_bytes = parse_bytes(typed.swap_space, "--swap-space")
        replica = with_host_cache(replica, host_bytes, host_cache_of(engine, _settings(asked)))
    if typed.urgent is not None:
        rule = priority_rule_of(engine, _settings(asked))
        replica = replace(replica, policy=replace(replica.policy, preempts_to_admit=rule.preempts_to_admit))
    return replica


def _flag_notes(asked: ServeInput, deployment: Deployment) -> tuple[str, ...]:
    """Return the options by which the engine does what was asked."""
    typed = asked.preempting
    engine = deployment.engine
    notes = []
    if typed.swap_space is not None:
        host_bytes = parse_bytes(typed.swap_space, "--swap-space")
        way = host_cache_of(engine, _settings(asked))
        words = flag_of(way, host_bytes, deployment.accelerators_per_replica)
        notes.append(f"options of {engine.name}: {words}")
    if typed.urgent is not None:
        notes.append(f"options of {engine.name}: {priority_rule_of(engine, _settings(asked)).flag}")
    return tuple(notes)


def _with_batching(policy: SchedulerPolicy, batching: str) -> SchedulerPolicy:
    """Return the policy with static batches; or the engine's own, which is continuous unless it takes one request.

    Raises: AdvisorError: the engine takes one request at a time.
    """
    if batching == "static":
        return replace(policy, kind="static", prefix_caching=False)
    if policy.kind == "single_stream":
        raise AdvisorError(
            "this engine takes one request at a time",
            why="its scheduler is simulated as single_stream",
            fix="--batching static, or another --engine",
        )
    return policy


def _settings(asked: ServeInput, deployment: Deployment | None = None) -> EngineSettings:
    return engine_settings(asked.flags, deployment, asked.max_num_seqs, asked.max_num_batched_tokens)
