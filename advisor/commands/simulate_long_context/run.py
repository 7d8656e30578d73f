"""Take a long context apart, and weights that stay in the host's memory: times by degree, place and policy."""

from collections.abc import Sequence
from dataclasses import replace

from advisor.ask.deployment import deployment_of
from advisor.ask.measures import parse_bytes, parse_tokens
from advisor.ask.options import LayoutOptions, SharedOptions
from advisor.ask.own_data import given_calibration
from advisor.catalog import models
from advisor.catalog.dtypes import bytes_per_element, known_dtype
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.hosts import parse_host
from advisor.catalog.units import GB
from advisor.commands.simulate_long_context.options import LongContextInput, OffloadInput
from advisor.commands.simulate_long_context.view import (
    ContextRow,
    TierRow,
    context_answer,
    host_answer,
    offload_answer,
)
from advisor.decide.scenario import check_window
from advisor.render.answer import Answer
from advisor.simulator.calibrated_device import calibrated_deployment
from advisor.simulator.deployment import Deployment
from advisor.simulator.engine_costs import operator_library
from advisor.simulator.graph.model import kv_share, parameter_count
from advisor.simulator.intervals import prediction_class, with_interval
from advisor.simulator.layout import check_layout
from advisor.simulator.memory import weight_bytes
from advisor.simulator.quantity import Quantity
from advisor.simulator.replica_model import ReplicaModel, model_replica
from advisor.simulator.serving_prediction import class_of
from advisor.simulator.step_cost import decode_iteration_s
from advisor.simulator.workloads.host_experts import (
    host_alone_s,
    hosted_decode,
    hosted_prompt_s,
    prompt_flop_per_s,
)
from advisor.simulator.workloads.long_context import (
    CACHE_POLICIES,
    SPREAD_HIGH,
    CachePolicy,
    LongPrefill,
    heavy_hitters,
    kept_bytes,
    ring_prefill,
    window_of,
    with_cache_policy,
)
from advisor.simulator.workloads.tiers import fetch_or_recompute, tiers_of, worth_keeping_s

_NO_ACCELERATOR = ("none", "cpu")
_MATRIX_FORMATS = ("bf16", "int8")
"""Formats that engines hand to AMX's matrix instructions; fp8 runs on vector units."""
_USUAL_HOST = "300GB/s"
_DEGREES = (1, 2, 4, 8, 16)
_USABLE_FRACTION = 0.9


def long_context(asked: LongContextInput, shared: SharedOptions) -> Answer:
    """Return a prompt of some length: prefill by context parallelism, cache by policy, and which memory tier pays.

    Raises: AdvisorError and its kinds: something typed is malformed or unknown, or the weights do not fit.
    """
    tokens = parse_tokens(asked.context, "--context")
    deployment, notes = deployment_of(asked.model, asked.gpu, asked.layout)
    check_layout(deployment)
    check_window(tokens, deployment.model, "--context")
    if not kept_bytes(deployment, CACHE_POLICIES["full"], tokens):
        raise AdvisorError(
            f"{deployment.model.id} keeps no cache of past tokens",
            why="a long context costs it nothing that could be shared, dropped or stored",
            fix="a model that attends to past tokens, e.g. --model llama-3.1-8b",
        )
    deployment = calibrated_deployment(deployment, given_calibration(shared.calibration))
    library = operator_library(deployment)
    prefills = [ring_prefill(deployment, library, tokens, degree) for degree in _DEGREES if degree <= tokens]
    inputs = {
        "model": deployment.model.id,
        "gpu": deployment.accelerator.id,
        "tensor_parallel": deployment.tensor_parallel,
        "weight_dtype": deployment.weight_dtype,
        "context_tokens": tokens,
        "usd_per_gpu_hour": asked.usd_per_gpu_hour,
        "keep": asked.keep,
        "window": asked.window,
        "hit_rate": asked.hit_rate,
    }
    return context_answer(
        deployment,
        tokens,
        prefills,
        [_prefill_quantity(deployment, prefill) for prefill in prefills],
        _policies(deployment, tokens, _chosen_policies(asked)),
        _tiers(deployment, tokens, asked.usd_per_gpu_hour),
        inputs,
        notes,
    )


def _chosen_policies(asked: LongContextInput) -> list[CachePolicy]:
    """Return the published policies, and those of the budgets and windows that were typed.

    Raises: AdvisorError: a budget is no fraction, or a window no number of tokens.
    """
    budgets = [word.strip() for word in (asked.keep or "").split(",") if word.strip()]
    windows = [word.strip() for word in (asked.window or "").split(",") if word.strip()]
    return [
        *CACHE_POLICIES.values(),
        *(heavy_hitters(_fraction(word)) for word in budgets),
        *(window_of(parse_tokens(word, "--window")) for word in windows),
    ]


def _fraction(word: str) -> float:
    """Return a fraction, written 0.2 or 20%.

    Raises: AdvisorError: it is neither.
    """
    scale = 100.0 if word.endswith("%") else 1.0
    try:
        return float(word.removesuffix("%")) / scale
    except ValueError:
        raise AdvisorError(f"--keep {word}: not a fraction", fix="--keep 0.5,0.2") from None


def _policies(deployment: Deployment, tokens: int, policies: Sequence[CachePolicy]) -> list[ContextRow]:
    """Return a row for each cache policy: the sequences that fit, and the decode step.

    Accelerators of tensor parallelism hold equal parts of a cache of many heads, but each all of a latent one.
    """
    usable = (deployment.accelerator.memory_bytes or 0.0) * _USABLE_FRACTION
    free = max(0.0, usable - weight_bytes(deployment)) * deployment.data_parallel
    share = kv_share(deployment.model, deployment.tensor_parallel) / deployment.pipeline_parallel
    rows = []
    for policy in policies:
        size = kept_bytes(deployment, policy, tokens)
        kept_tokens = max(1, round(tokens * size / kept_bytes(deployment, CACHE_POLICIES["full"], tokens)))
        step_s = None
        replica = _replica(with_cache_policy(deployment, policy), kept_tokens)
        if replica is not None:
            attended = tokens * policy.keep_fraction
            if policy.window_tokens is not None:
                attended = min(attended, policy.window_tokens + policy.sink_tokens)
            if policy.stored_bits is not None:
                attended *= policy.stored_bits / (8.0 * bytes_per_element(policy.kv_dtype))
            step_s = _predict(decode_iteration_s(replica.surface, 1, attended), "tpot", replica)
        rows.append(ContextRow(policy, size, int(free // (size * share)), step_s))
    return rows


def _tiers(deployment: Deployment, tokens: int, usd_per_gpu_hour: float) -> list[TierRow]:
    """Compare fetching the cached prefix with computing it again, for each tier below the accelerator's memory."""
    replica = _replica(deployment, tokens)
    if replica is None:
        return []
    try:
        tiers = tiers_of(deployment.accelerator)
    except InfeasibleError:
        return []
    fetches = fetch_or_recompute(
        deployment, replica.surface, tokens, tiers, replica.policy.max_num_batched_tokens
    )
    ranks = deployment.accelerators_per_replica
    return [
        TierRow(
            fetch,
            _predict(fetch.recompute_s, "ttft", replica),
            worth_keeping_s(fetch, usd_per_gpu_hour, ranks),
        )
        for fetch in fetches
    ]


def _predict(value: float, metric: str, replica: ReplicaModel) -> Quantity:
    return with_interval(value, metric, class_of(replica), replica.basis)


def _prefill_quantity(deployment: Deployment, prefill: LongPrefill) -> Quantity:
    """Return a prompt's time with the range of first tokens; dealt over groups, it reaches to what was published."""
    alone = with_interval(
        prefill.total_s, "ttft", prediction_class(deployment.engine.id, transferred=False), "modelled"
    )
    if prefill.context_parallel == 1:
        return alone
    return Quantity(alone.value, alone.low, max(alone.high, SPREAD_HIGH * alone.value), "assumed")


def _replica(deployment: Deployment, tokens: int) -> ReplicaModel | None:
    try:
        return model_replica(deployment, mean_input_tokens=tokens, mean_output_tokens=256)
    except InfeasibleError:
        return None


def offload(asked: OffloadInput, shared: SharedOptions) -> Answer:
    """Return decoding with routed experts in host memory: read over the link, or multiplied by the host.

    Raises: AdvisorError and its kinds: something typed is malformed, the model has no experts, or nothing fits.
    """
    if asked.gpu.lower() in _NO_ACCELERATOR:
        return _host_alone(asked)
    layout = LayoutOptions(tp=asked.tp, precision=asked.precision, engine=asked.engine)
    batch = asked.batch
    deployment, notes = deployment_of(asked.model, asked.gpu, layout)
    deployment = calibrated_deployment(deployment, given_calibration(shared.calibration))
    room = parse_bytes(asked.host_memory, "--host-memory")
    host = parse_host(asked.host) if asked.host else None
    if host is not None and asked.host_bandwidth is None:
        rate = host.bytes_per_s
    else:
        typed = asked.host_bandwidth or _USUAL_HOST
        rate = parse_bytes(typed.removesuffix("/s"), "--host-bandwidth")
    tokens = parse_tokens(asked.context, "--context")
    decode = hosted_decode(deployment, context_tokens=tokens, batch=batch, host_bytes_per_s=rate)
    found = decode.offload
    if found.host_bytes > room:
        raise AdvisorError(
            f"the host's memory is too small for {deployment.model.id}",
            why=f"{found.host_bytes / GB:.0f} GB of experts stay there, it has {room / GB:.0f} GB",
            fix=f"--host-memory {found.host_bytes / GB * 1.1:.0f}GB, or a smaller format",
        )
    inputs = {
        "model": deployment.model.id,
        "gpu": deployment.accelerator.id,
        "weight_dtype": deployment.weight_dtype,
        "tensor_parallel": deployment.tensor_parallel,
        "batch": batch,
        "host_memory_bytes": room,
        "host_bytes_per_s": rate,
        "host": asked.host,
        "context_tokens": tokens,
    }
    prompt_s = hosted_prompt_s(deployment, host, tokens) if host and tokens > 1 else None
    return offload_answer(deployment, decode, batch, prompt_s, inputs, notes)


def _host_alone(asked: OffloadInput) -> Answer:
    """Return decoding on the processors alone.

    Raises: AdvisorError: the host is not given or not known, or its memory is too small.
    """
    if asked.host is None:
        raise AdvisorError(
            "--gpu none needs the processors that run the model",
            why="their memory sets the rate",
            fix="--host '2x Xeon Gold 6454S'",
        )
    model = models.get(asked.model).record
    host = parse_host(asked.host)
    if asked.host_bandwidth:
        rate = parse_bytes(asked.host_bandwidth.removesuffix("/s"), "--host-bandwidth")
        host = replace(host, bytes_per_s=rate)
    weights = known_dtype(asked.precision)[0] or model.weights
    tokens = parse_tokens(asked.context, "--context")
    room = parse_bytes(asked.host_memory, "--host-memory")
    whole = parameter_count(model).total * bytes_per_element(weights)
    if whole > room:
        raise AdvisorError(
            f"the host's memory is too small for {model.id}",
            why=f"its weights have {whole / GB:.0f} GB in {weights}, the host {room / GB:.0f} GB",
            fix=f"--host-memory {whole / GB * 1.1:.0f}GB, or a smaller format",
        )
    active = parameter_count(model).active
    rate = prompt_flop_per_s(host, uses_amx=weights in _MATRIX_FORMATS)
    inputs = {
        "model": model.id,
        "gpu": None,
        "weight_dtype": weights,
        "host": asked.host,
        "host_bytes_per_s": host.bytes_per_s,
        "host_memory_bytes": room,
        "context_tokens": tokens,
        "token_bytes": active * bytes_per_element(weights),
    }
    prompt_s = 2.0 * active * tokens / rate if rate else None
    return host_answer(model, weights, host, host_alone_s(model, weights, host), prompt_s, inputs)
