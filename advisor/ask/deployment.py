"""One stated deployment and its load, as typed, turned into what the serving simulator takes."""

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from advisor.ask.host_layers import host_layers, stage_fraction
from advisor.ask.measures import parse_bytes, parse_length_dist, parse_seconds
from advisor.ask.names import release_notes
from advisor.ask.options import EngineFlags, LayoutOptions, LoadOptions
from advisor.ask.texts import listed_machine
from advisor.ask.topology import check_network
from advisor.ask.traffic import traffic_of
from advisor.catalog import accelerators, engines, models
from advisor.catalog.accelerators import nearest_served
from advisor.catalog.architectures import class_support, class_words, files_in_words
from advisor.catalog.dtypes import (
    EXL3_DTYPES,
    cache_halves,
    cached_value_bytes,
    joined_cache,
    known_cache,
    known_dtype,
)
from advisor.catalog.engines import lacks_arithmetic, plans_on, releases_that_serve, weight_formats
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.published import served_model, with_storage
from advisor.catalog.schema import Accelerator, Engine, Model
from advisor.catalog.units import BITS_PER_BYTE, GIGA
from advisor.decide.engine_classes import way_out
from advisor.decide.scenario import Traffic, within_window
from advisor.simulator.collectives.fabric_text import uses_sockets
from advisor.simulator.collectives.topology import usual_network
from advisor.simulator.deployment import Deployment, cache_dtype_of, named_deployment
from advisor.simulator.layout import check_generates, with_copies
from advisor.simulator.local_surface import divides_batches
from advisor.simulator.memory_account import size_contradiction
from advisor.simulator.replica_model import EngineSettings
from advisor.simulator.serving import (
    Arrivals,
    ClosedLoop,
    FixedLengths,
    Lengths,
    LognormalLengths,
    Poisson,
    ServingResult,
    UniformLengths,
    Workload,
)
from advisor.simulator.serving.arrivals import check_span
from advisor.simulator.serving.content import SharedPrefixes

REQUESTS_PER_CLIENT = 10
DEFAULT_REQUESTS = 2000
"""Twenty requests lie beyond the 99th percentile."""


def stated_deployment(
    model: str, gpu: str, layout: LayoutOptions, flags: EngineFlags
) -> tuple[Deployment, tuple[str, ...]]:
    """Return the deployment that a server with these settings is, and notes on what was understood.

    Raises: as `deployment_of`.
    """
    deployment, notes = deployment_of(model, gpu, layout, flags.engine_version or "")
    if flags.language_model_only:
        text_alone = deployment.model.model_copy(update={"vision": None, "published_parameters": None})
        deployment = dataclasses.replace(deployment, model=text_alone)
    return deployment, notes


def deployment_of(
    model: str, gpu: str, typed: LayoutOptions, version: str = ""
) -> tuple[Deployment, tuple[str, ...]]:
    """Return the deployment, ids resolved, and notes on what was understood.

    `version` is the release that --engine-version names; empty for the engine's newest or the one after its name.

    Raises: UnknownNameError: a model, accelerator, engine or format is in no record. InfeasibleError: the engine
        does not run there or not in this format.
    """
    if (listed := listed_machine(gpu, "--gpu")) is not None:
        (count, board), *others = listed.counts
        if others:
            raise InfeasibleError(
                f"--gpu {gpu}: lists {len(listed.counts)} kinds of accelerators",
                why="one replica runs on accelerators of one kind",
                fix=f"--gpu {board}, or advisor recommend --own {gpu}, whose kinds serve together",
            )
        planned, notes = deployment_of(model, board, typed, version)
        used = planned.accelerators_per_replica * planned.num_replicas
        idle = (f"{used} of them {'is' if used == 1 else 'are'} planned: --tp {count} takes all",)
        return planned, (*listed.notes, *(idle if used < count else ()), *notes)
    if typed.engine is None:
        name, engine_note = usual_engine(model, gpu, typed.precision, version)
        chosen_deployment, notes = deployment_of(model, gpu, dataclasses.replace(typed, engine=name), version)
        return chosen_deployment, (*notes, engine_note) if engine_note else notes
    engine, release = engines.split_release(typed.engine)
    named = models.get(model)
    chosen = [named.note, accelerators.get(gpu).note, engines.get(engine).note]
    chosen += release_notes(named.record, typed.engine)
    weight_dtype, weight_note = known_dtype(typed.precision)
    kv_dtype, kv_note = _cache_format(model, gpu, engine, typed)
    chosen += [weight_note, kv_note]
    deployment = named_deployment(
        model,
        gpu,
        engine,
        weight_dtype=weight_dtype,
        tensor_parallel=typed.tp,
        pipeline_parallel=typed.pp,
        data_parallel=typed.dp,
        expert_parallel=typed.ep,
        num_replicas=typed.replicas,
        kv_dtype=kv_dtype,
        network=typed.network or "",
    )
    deployment, wires = _over_nodes(deployment, typed)
    chosen.append(wires)
    if deployment.weight_dtype != deployment.model.weights:
        served = served_model(
            deployment.model, deployment.engine, deployment.weight_dtype, deployment.accelerator
        )
        deployment = dataclasses.replace(deployment, model=with_storage(deployment.model, served))
    if deployment.can_dispatch:
        deployment = with_copies(deployment)
    if copies := deployment.redundant_experts:
        chosen.append(
            f"{copies} experts have a copy, so that all divide among {typed.ep} ranks and loads even out"
        )
    if release:
        deployment = dataclasses.replace(
            deployment, engine=deployment.engine.model_copy(update={"release": release})
        )
    found = class_support(deployment.engine, deployment.model, deployment.accelerator, release)
    if found.file_format:
        raise InfeasibleError(
            f"{deployment.engine.name} does not load {deployment.model.checkpoint or named.record.name}",
            why=files_in_words(found.file_format),
            fix=way_out(deployment.model),
        )
    check_engine(
        deployment.engine, deployment.accelerator, deployment.weight_dtype, deployment.kv_dtype, version
    )
    if words := class_words(found, deployment.engine.name):
        chosen.append(f"{words}; what follows is a what-if" if found.is_refused else words)
    chosen += [size_contradiction(deployment.model), _lacks_kernel(deployment)]
    return deployment, tuple(note for note in chosen if note)


def _over_nodes(deployment: Deployment, typed: LayoutOptions) -> tuple[Deployment, str]:
    """Return the deployment on as many machines as typed, and a note on the network between them; empty in one.

    Raises: AdvisorError: the accelerators of a replica do not divide among the machines. UnknownNameError: no network
        is called so.
    """
    ranks = deployment.accelerators_per_replica
    if typed.nodes is not None:
        if ranks % typed.nodes:
            raise AdvisorError(
                f"--nodes {typed.nodes}: the {ranks} accelerators of a replica do not divide among them",
                why="machines hold equal shares of a replica",
                fix=f"--nodes {math.gcd(ranks, typed.nodes)}",
            )
        deployment = dataclasses.replace(deployment, ranks_per_node=ranks // typed.nodes)
    if typed.network is not None:
        check_network(typed.network)
    group = deployment.group(ranks)
    if group.num_nodes < 2:
        unused = typed.network is not None
        return deployment, "one machine holds a replica: --network says nothing about it" if unused else ""
    between = usual_network(deployment.accelerator, group)
    if typed.network is None and between is not None:
        return (
            deployment,
            f"{between.words}; ranges reach up to TCP over 100 Gb/s a node; --network says another",
        )
    rate = group.inter_bytes_per_s * BITS_PER_BYTE / GIGA
    kind = ", over sockets" if uses_sockets(typed.network or "") else ""
    return deployment, f"network between nodes: {rate:.3g} Gb/s for each accelerator{kind}"


def _lacks_kernel(deployment: Deployment) -> str:
    """Return that usual builds of the engine have no attention kernel for a cache in this format; empty if they do."""
    kernels = deployment.engine.kv_kernels
    cache = deployment.kv_dtype
    if kernels is None or cache in kernels.formats or deployment.accelerator.vendor not in kernels.vendors:
        return ""
    has_build = set(cache_halves(cache)) <= {*kernels.formats, *kernels.built_formats}
    return (
        f"usual builds of {deployment.engine.name} have no flash attention for a cache in {cache} and attend more "
        f"slowly than planned{f'; one with {kernels.build} has it' if has_build else ''}"
    )


def usual_engine(model: str, gpu: str, precision: str | None, version: str = "") -> tuple[str, str]:
    """Return the engine of a question that names none, and a note if it is not vLLM: the first in the accelerator's
    record that serves the weights on it. Where none does, one that runs there is refused with the reason. A release
    without an engine is vLLM's where that runs."""
    accelerator = accelerators.get(gpu).record
    if version and USUAL_ENGINE in accelerator.engines:
        return USUAL_ENGINE, ""
    record = models.get(model).record
    weights = known_dtype(precision)[0] or record.weights

    def is_served(name: str) -> bool:
        engine = engines.by_id(name)
        loads = not record.file_format or record.file_format in engine.file_formats
        return (
            name in accelerator.engines and weights in weight_formats(engine, accelerator, version) and loads
        )

    found = next(filter(is_served, accelerator.engines), None)
    if found == USUAL_ENGINE:
        return USUAL_ENGINE, ""
    if found is None and weights in EXL3_DTYPES and accelerator.vendor in engines.by_id(_EXL_ENGINE).vendors:
        found = _EXL_ENGINE
    if found is None:
        runs = accelerator.engines
        return (USUAL_ENGINE if USUAL_ENGINE in runs or not runs else runs[0]), ""
    if is_served(USUAL_ENGINE):
        return found, f"engine {found}, the usual one on {accelerator.id}: --engine says another"
    usual = engines.by_id(USUAL_ENGINE).name
    return found, f"engine {found}, as {usual} does not serve {weights} weights on {accelerator.id}"


USUAL_ENGINE: Final = "vllm"
_EXL_ENGINE: Final = "exllamav3"
"""Engine that alone reads EXL3 files: a deployment that names such files has it, and searches leave it out."""


def _cache_format(model: str, gpu: str, engine_id: str, typed: LayoutOptions) -> tuple[str, str]:
    """Return the format of the cache, and a note if it is not 16 bits without having been typed."""
    if typed.kv_precision not in (None, "auto"):
        named, note = known_cache(typed.kv_precision)
        return named or _USUAL_CACHE, note
    engine = engines.get(engine_id).record
    record = models.get(model).record
    found = cache_dtype_of(record, engine, accelerators.get(gpu).record)
    if found == _USUAL_CACHE:
        return found, ""
    if found in (record.kv_dtype, record.kv_dtype_beside):
        return found, f"the cache is kept in {found}, as the checkpoint says"
    return found, f"the cache is kept in {found}, the default of {engine.name} for this model here"


_USUAL_CACHE: Final = "bf16"


def layout_of(typed: LayoutOptions, flags: EngineFlags) -> tuple[LayoutOptions, tuple[str, ...]]:
    """Return the layout that degrees and flags of an engine mean together, and notes on how they were taken.

    SGLang's `--tp 8 --dp 8 --enable-dp-attention` are 8 accelerators: attention ranks divide those of --tp.

    Raises: AdvisorError: --dp does not divide --tp.
    """
    notes = []
    tp = typed.tp
    if flags.enable_dp_attention and typed.dp > 1:
        if typed.tp % typed.dp:
            raise AdvisorError(
                f"--enable-dp-attention: {typed.dp} ranks do not divide the {typed.tp} accelerators of --tp",
                why="attention ranks share the accelerators of --tp equally",
                fix=f"--dp {math.gcd(typed.tp, typed.dp)}, or --tp {typed.dp}",
            )
        tp = typed.tp // typed.dp
        notes.append(
            f"--tp {typed.tp} --dp {typed.dp} with attention data parallelism are {typed.tp} accelerators"
        )
    elif typed.dp > 1 and typed.tp > 1 and _counts_dp_ranks(typed.engine):
        notes.append(
            f"--tp {typed.tp} --dp {typed.dp} are taken as {typed.tp * typed.dp} accelerators; as {typed.engine} "
            "counts them with --enable-dp-attention, add that"
        )
    ep = tp * typed.dp if flags.enable_expert_parallel else typed.ep
    return dataclasses.replace(typed, tp=tp, ep=ep), tuple(notes)


def _counts_dp_ranks(engine: str | None) -> bool:
    """Return whether the degree that an engine calls tensor parallelism counts its attention ranks."""
    return engine is not None and engines.get(engine).record.flags.tp_counts_dp_ranks


def engine_settings(
    flags: EngineFlags,
    deployment: Deployment | None = None,
    max_num_seqs: int | None = None,
    max_num_batched_tokens: int | None = None,
) -> EngineSettings:
    """Return the settings of a server as typed; where layers lie only with a deployment.

    Raises: AdvisorError: the size of the cache is no size, or layers are divided otherwise than llama.cpp can.
        InfeasibleError: a setting of llama.cpp is typed for another engine.
    """
    size = flags.kv_cache_bytes
    return EngineSettings(
        max_num_seqs,
        max_num_batched_tokens,
        memory_fraction=flags.gpu_memory_utilization,
        kv_cache_bytes=parse_bytes(size, "--kv-cache-bytes") if size else None,
        kv_block_tokens=flags.block_size,
        enforce_eager=flags.enforce_eager,
        micro_batch_tokens=_micro_batch_tokens(flags, deployment),
        stage_fraction=stage_fraction(flags, deployment) if deployment else None,
        host=host_layers(flags, deployment) if deployment else None,
        version=flags.engine_version or "",
    )


def _micro_batch_tokens(flags: EngineFlags, deployment: Deployment | None) -> int | None:
    """Return the prompt tokens of one micro-batch as typed; None takes the engine's default.

    Raises: InfeasibleError: the engine divides no batch into micro-batches.
    """
    if flags.ubatch_size and deployment and not divides_batches(deployment.engine):
        raise InfeasibleError(
            f"--ubatch-size means nothing for {deployment.engine.name}",
            why="of the engines here llama.cpp alone divides a batch into micro-batches",
            fix="--max-num-batched-tokens N, or drop --ubatch-size",
        )
    return flags.ubatch_size


def check_engine(
    engine: Engine, accelerator: Accelerator, weights: str, cache: str, version: str = ""
) -> None:
    """Refuse an accelerator or format that the engine, in a release if one is named, does not serve.

    Raises: InfeasibleError: it does not; with the nearest that it does.
    """
    reads_alone = weights in EXL3_DTYPES and weights in engine.weight_dtypes
    if not plans_on(engine, accelerator) and not (reads_alone and accelerator.vendor in engine.vendors):
        runs = ", ".join(accelerator.engines)
        if runs and accelerator.vendor in engine.vendors:
            what = f"nothing is planned with {engine.name} on {accelerator.id}"
            why = f"the catalog only describes that engine; plans are made with {runs}"
        else:
            what = f"{engine.name} does not run on {accelerator.id}"
            why = f"engines that do: {runs}" if runs else _no_engine_words(accelerator)
        near = None if runs else nearest_served(accelerator)
        other = (
            "another accelerator" if near is None else f"--gpu {near.id}, the nearest that an engine runs on"
        )
        raise InfeasibleError(what, why=why, fix=f"--engine {accelerator.engines[0]}" if runs else other)
    formats = weight_formats(engine, accelerator, version)
    if weights not in formats:
        served = f"formats that it serves there: {', '.join(formats)}"
        usual = tuple(name for name in formats if name in engine.weight_dtypes)
        lacking = lacks_arithmetic(engine, accelerator, weights)
        if others := releases_that_serve(engine, accelerator, weights):
            served += f"; {others} serve {weights}"
        named = f"{engine.name} {version}" if version else engine.name
        raise InfeasibleError(
            f"{named} does not serve {weights} weights on {accelerator.id}",
            why=f"the chip does not multiply in {weights}; {served}" if lacking else served,
            fix=f"--precision {_nearest_format(weights, usual)}" if usual else "another engine",
        )
    sixteen = ("bf16", "fp16")
    served_cache = (*engine.kv_dtypes, *sixteen) if set(sixteen) & set(engine.kv_dtypes) else engine.kv_dtypes
    halves = cache_halves(cache)
    is_joint = halves[0] == halves[1] or bool(engine.flags.kv_halves)
    if engine.kv_dtypes and not (is_joint and set(halves) <= set(served_cache)):
        nearest = [_nearest_format(half, engine.kv_dtypes) for half in halves]
        raise InfeasibleError(
            f"{engine.name} does not keep its cache in {cache}",
            why=f"cache formats that it has: {', '.join(engine.kv_dtypes)}"
            + ("" if is_joint else ", keys and values in one"),
            fix=f"--kv-precision {joined_cache(*nearest) if is_joint else nearest[0]}",
        )


def _no_engine_words(accelerator: Accelerator) -> str:
    reason = accelerator.unranked_reason
    return f"no engine of the catalog does{f': {reason}' if reason else ''}"


def _nearest_format(asked: str, served: tuple[str, ...]) -> str:
    """Return the served format of nearest size, of two the larger; mxfp4, which few models have, and nf4, which engines
    only expand, are for those that ask for nothing else."""
    size = cached_value_bytes(asked)
    usual = tuple(name for name in served if name not in _RARE_FORMATS) or served
    return min(usual, key=lambda name: (abs(cached_value_bytes(name) - size), -cached_value_bytes(name)))


_RARE_FORMATS: Final = ("mxfp4", "nf4")


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """The load of a deployment."""

    traffic: Traffic
    workload: Workload
    mean_input_tokens: float
    mean_output_tokens: float
    longest_request_tokens: int
    notes: tuple[str, ...] = ()
    """Sentences about requests that the model's window cuts, and about how a trace was read."""

    @property
    def context_spread(self) -> float:
        """Return the standard deviation over mean of the contexts that decode together."""
        from advisor.simulator.serving.lengths import context_spread

        return context_spread(self.workload.lengths, self.traffic.shared_prefix_tokens)


def load_of(load: LoadOptions, model: Model, max_model_len: int | None = None) -> LoadPlan:
    """Return the workload that a load stands for, within the window of the model or of the server.

    Raises: AdvisorError: neither rate nor concurrency nor trace is given, or parts of the load exclude each other.
        InputFileError: the trace is malformed. InfeasibleError: a mean request is longer than the window.
    """
    check_generates(model)
    traffic = traffic_of(load)
    if load.trace is not None:
        return _trace_plan(load.trace, traffic, load)
    traffic, note = _within_window(traffic, load.length_dist, model, max_model_len)
    common = traffic.shared_prefix_tokens
    prefixes = SharedPrefixes(common, traffic.shared_prefixes) if common else None
    own = traffic.behind_beginning
    if load.length_dist is not None and not note:
        own = own.model_copy(update={"max_input_tokens": None})
    lengths = _lengths(load.length_dist, own)
    arrivals = _arrivals(traffic, load.ramp)
    count = load.requests or max(DEFAULT_REQUESTS, REQUESTS_PER_CLIENT * (traffic.concurrency or 0))
    if traffic.rate_per_s is not None:
        check_span(count, traffic.rate_per_s)
    mean = _mean_fraction(lengths)
    return LoadPlan(
        traffic,
        Workload(arrivals, lengths, count, prefixes),
        mean * own.mean_input_tokens + common,
        mean * own.mean_output_tokens,
        common
        + (own.longest_request_tokens if isinstance(lengths, LognormalLengths) else own.tokens_per_request),
        (note,) if note else (),
    )


def _within_window(
    traffic: Traffic, length_dist: str | None, model: Model, max_model_len: int | None
) -> tuple[Traffic, str]:
    """Return the traffic within the window, and a note; lengths that do not spread are refused rather than cut."""
    if length_dist is None or length_dist.startswith("lognormal"):
        return within_window(traffic, model, max_model_len)
    even = {"input_sigma": 0.0, "output_sigma": 0.0, "max_input_tokens": None, "max_output_tokens": None}
    _, note = within_window(traffic.model_copy(update=even), model, max_model_len)
    return traffic, note


def _trace_plan(path: Path, traffic: Traffic, load: LoadOptions) -> LoadPlan:
    """Return the plan of a trace, replayed at its own instants, or by clients if their number is given."""
    from advisor.simulator.serving.trace_files import read_trace
    from advisor.simulator.serving.trace_replay import replay

    trace = read_trace(path)
    if traffic.rate_per_s is not None and trace.rate_per_s is not None:
        trace = trace.sped_up(traffic.rate_per_s / trace.rate_per_s)
    workload = replay(trace, load.requests)
    if not trace.has_times and traffic.concurrency is None:
        if traffic.rate_per_s is None:
            raise AdvisorError(
                f"{path} does not say when its requests came",
                why="without times it has lengths only",
                fix="--rate R or --concurrency C",
            )
        workload = dataclasses.replace(workload, arrivals=Poisson(traffic.rate_per_s))
    if traffic.concurrency is not None:
        workload = dataclasses.replace(workload, arrivals=_clients(traffic.concurrency, load.ramp))
    longest = max(sum(pair) for pair in trace.pairs[: workload.num_requests])
    means = (trace.mean_input_tokens, trace.mean_output_tokens)
    return LoadPlan(traffic, workload, *means, longest, trace.notes)


def _arrivals(traffic: Traffic, ramp: str | None) -> Arrivals:
    if traffic.rate_per_s is not None:
        return Poisson(traffic.rate_per_s)
    if traffic.concurrency is not None:
        return _clients(traffic.concurrency, ramp)
    raise AdvisorError(
        "no load is given",
        why="a simulation needs to know how requests come",
        fix="--rate 10 or --concurrency 64",
    )


def _clients(count: int, ramp: str | None) -> ClosedLoop:
    return (
        ClosedLoop(count) if ramp is None else ClosedLoop(count, "staggered", parse_seconds(ramp, "--ramp"))
    )


def _lengths(text: str | None, traffic: Traffic) -> Lengths:
    """Return lengths written fixed, uniform:LOW or lognormal:SIGMA; the profile's spread where nothing is said."""
    inputs = traffic.mean_input_tokens
    outputs = traffic.mean_output_tokens
    if text is None:
        if traffic.input_sigma <= 0:
            return FixedLengths(inputs, outputs)
        return LognormalLengths(
            inputs,
            outputs,
            sigma=traffic.input_sigma,
            output_sigma=traffic.output_sigma or None,
            max_input_tokens=traffic.max_input_tokens,
        )
    kind, number = parse_length_dist(text)
    if kind == "fixed":
        return FixedLengths(inputs, outputs)
    if kind == "uniform":
        return UniformLengths(inputs, outputs, number)
    return LognormalLengths(inputs, outputs, sigma=number, max_input_tokens=traffic.max_input_tokens)


def _mean_fraction(lengths: Lengths) -> float:
    """Return the mean length over the nominal one: uniform lengths stay below it."""
    return (1.0 + lengths.low_fraction) / 2.0 if isinstance(lengths, UniformLengths) else 1.0


def as_inputs(deployment: Deployment, plan: LoadPlan) -> dict[str, object]:
    """Return the resolved inputs for the JSON document."""
    ids = {"model": deployment.model.id, "gpu": deployment.accelerator.id, "engine": deployment.engine.id}
    numbers = {
        field.name: getattr(deployment, field.name)
        for field in dataclasses.fields(deployment)
        if field.name not in ("model", "accelerator", "engine")
    }
    return ids | numbers | {"traffic": plan.traffic, "num_requests": plan.workload.num_requests}


def check_served(result: ServingResult) -> None:
    """Refuse a run in which nothing was served.

    Raises: InfeasibleError: no request finished.
    """
    if not result.num_finished:
        raise InfeasibleError(
            f"none of {result.num_requests} requests can be served",
            why="each is longer than the KV cache or the engine's longest context",
            fix="more accelerators per replica, a smaller format, or shorter requests",
        )
