"""Predict published serving measurements from their conditions: build the deployment, replay the load."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from advisor.catalog import accelerators, engines, models
from advisor.catalog.dtypes import DTYPES
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.schema import Accelerator, Engine, Model
from advisor.simulator.deployment import Deployment, activation_dtype_for, is_moe
from advisor.simulator.engine_costs import EngineCosts, engine_costs
from advisor.simulator.intervals import prediction_class, with_interval
from advisor.simulator.quantity import Basis, Quantity
from advisor.simulator.replica_model import EngineSettings, ReplicaModel, model_replica
from advisor.simulator.serving import (
    ClosedLoop,
    FixedLengths,
    LognormalLengths,
    Poisson,
    ServingResult,
    UniformLengths,
    Workload,
    simulate,
)
from advisor.simulator.validation.serving_case import ServingCase, parse_case

_REQUESTS_PER_CLIENT = 10
"""How many requests per concurrent client the usual benchmark client sends."""
_SHAREGPT_SIGMA = 1.0
"""Spread of conversation lengths where only means were published (ShareGPT-like; lengths/sharegpt: 0.9 to 1.3)."""


_JITTER_SIGMA = 0.05
"""Spread that keeps equal requests of a closed loop out of step, small against any length effect."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The answer to one case: metrics in the units of the truth's columns, or why there is none."""

    case_id: str
    status: str
    """ok, unsupported (a mechanism or name that is not modelled), infeasible (does not fit), error."""
    reason: str = ""
    basis: Basis = "modelled"
    metrics: Mapping[str, Quantity] = field(default_factory=dict)


def predict_case(case: ServingCase, *, costs: EngineCosts | None = None, seed: int = 0) -> Prediction:
    """Predicted metrics of one case; never raises for what a row can contain.

    Source: own composition.
    """
    try:
        replica = replica_of(case, costs=costs)
        values, num_samples = _metrics(case, replica, seed)
    except InfeasibleError as error:
        return Prediction(case.case_id, "infeasible", error.why or error.what)
    except AdvisorError as error:
        return Prediction(case.case_id, "unsupported", error.what)
    basis: Basis = "assumed" if replica.transferred else "modelled"
    class_name = prediction_class(case.engine, transferred=bool(replica.transferred))
    metrics = {
        name: with_interval(
            value, _error_metric(name), class_name, basis, num_samples=num_samples, **_tail(name)
        )
        for name, value in values.items()
        if math.isfinite(value)
    }
    return Prediction(case.case_id, "ok", "", basis, metrics)


def predict_row(row: Mapping[str, str], row_number: int, *, seed: int = 0) -> Prediction:
    """Predicted metrics of one CSV row; a bad row is a prediction with status error.

    Source: own composition.
    """
    try:
        case = parse_case(row, row_number)
    except AdvisorError as error:
        return Prediction(row.get("case_id") or f"row-{row_number}", "error", error.what)
    return predict_case(case, seed=seed)


def _error_metric(column: str) -> str:
    """Which residuals a column shares: ttft, tpot or throughput."""
    return next((name for name in ("ttft", "tpot") if column.startswith(name)), "throughput")


def _tail(column: str) -> dict[str, float]:
    return {"tail_fraction": 0.99} if column.endswith("p99") else {}


def replica_of(case: ServingCase, *, costs: EngineCosts | None = None) -> ReplicaModel:
    """The replica that a case describes.

    Raises: AdvisorError: a name is unknown, a mechanism is not modelled, or it does not fit.
    Source: own composition.
    """
    if case.mode != "agg":
        raise AdvisorError("disaggregated serving is not modelled")
    if case.spec_decode not in ("none", ""):
        raise AdvisorError(f"speculative decoding ({case.spec_decode}) is not modelled")
    deployment = deployment_of(case)
    settings = EngineSettings(
        max_num_seqs=_max_num_seqs(case, deployment.engine),
        max_num_batched_tokens=case.max_num_batched_tokens,
        version=case.engine_version,
        date=case.date,
    )
    scale = 0.9 if case.length_dist.startswith("uniform") else 1.0
    if costs is None:
        costs = engine_costs(deployment.engine, version=case.engine_version, date=case.date)
    return model_replica(
        deployment,
        mean_input_tokens=max(1.0, scale * case.isl),
        mean_output_tokens=max(1.0, scale * case.osl),
        settings=settings,
        costs=costs,
    )


def deployment_of(case: ServingCase) -> Deployment:
    """The deployment that a case describes.

    Raises: UnknownNameError: model, accelerator or engine is not in the catalog.
    Source: own composition.
    """
    model, accelerator, engine = _records(case.model, case.gpu, case.engine)
    weight = case.weight_dtype
    if weight not in DTYPES:
        raise AdvisorError(f"weight format {weight} is not modelled")
    return Deployment(
        model=model,
        accelerator=accelerator,
        engine=engine,
        tensor_parallel=case.tp,
        pipeline_parallel=case.pp,
        data_parallel=case.dp,
        expert_parallel=_expert_parallel(case, model),
        weight_dtype=weight,
        activation_dtype=activation_dtype_for(weight, accelerator),
        kv_dtype=case.kv_dtype if case.kv_dtype in ("fp8", "int8") else "bf16",
    )


@lru_cache(maxsize=1024)
def _records(model: str, gpu: str, engine: str) -> tuple[Model, Accelerator, Engine]:
    return models.get(model).record, accelerators.by_id(gpu), engines.get(engine).record


def _expert_parallel(case: ServingCase, model: Model) -> int:
    if not is_moe(model):
        return 1
    ranks = case.tp * case.dp
    return case.ep if ranks % case.ep == 0 else 1


def _max_num_seqs(case: ServingCase, engine: Engine) -> int | None:
    if case.max_num_seqs:
        return case.max_num_seqs
    if case.concurrency and case.load in ("closed", "static_batch"):
        # Benchmarks start the engine with room for their highest concurrency.
        return max(engine.max_num_seqs, case.concurrency)
    return None


def _metrics(case: ServingCase, replica: ReplicaModel, seed: int) -> tuple[dict[str, float], int]:
    """Values by column, and the number of requests behind them."""
    if case.load == "closed":
        result = _closed(case, replica, seed)
        return _from_result(result), result.num_finished
    if case.load == "poisson":
        result = _poisson(case, replica, seed)
        return _from_result(result), result.num_finished
    if case.load == "offline":
        result = _offline(case, replica, seed)
        names = ("output_tok_s", "total_tok_s", "req_s")
        return {
            name: value for name, value in _from_result(result).items() if name in names
        }, result.num_finished
    raise AdvisorError(f"load {case.load} is not modelled")


def _closed(case: ServingCase, replica: ReplicaModel, seed: int) -> ServingResult:
    if not case.concurrency:
        raise AdvisorError("a closed loop needs a concurrency of at least 1")
    num_requests = case.num_requests or _REQUESTS_PER_CLIENT * case.concurrency
    workload = Workload(ClosedLoop(case.concurrency), _lengths(case), max(num_requests, case.concurrency))
    return simulate(replica.surface, replica.policy, workload, seed=seed)


def _poisson(case: ServingCase, replica: ReplicaModel, seed: int) -> ServingResult:
    if not case.request_rate:
        raise AdvisorError("Poisson arrivals need a positive request_rate")
    workload = Workload(Poisson(case.request_rate), _lengths(case), case.num_requests or 500)
    return simulate(replica.surface, replica.policy, workload, seed=seed)


def _offline(case: ServingCase, replica: ReplicaModel, seed: int) -> ServingResult:
    # Long enough that filling and draining the batch is a small part of the run.
    num_requests = case.num_requests or 4 * replica.policy.num_slots
    policy = replace(replica.policy, api_overhead_ps=0)
    return simulate(
        replica.surface, policy, Workload(ClosedLoop(num_requests), _lengths(case), num_requests), seed=seed
    )


def _lengths(case: ServingCase) -> FixedLengths | UniformLengths | LognormalLengths:
    isl, osl = case.isl, case.osl
    if isl < 1 or osl < 1:
        raise AdvisorError("isl and osl must be at least 1 token")
    kind, _, detail = case.length_dist.partition(":")
    if kind == "uniform":
        return UniformLengths(isl, osl, float(detail or 0.8))
    if kind == "mean":
        return LognormalLengths(isl, osl, _SHAREGPT_SIGMA)
    if kind == "lognormal":
        sigma = detail.split(",")[-1].split()[0] if detail else _SHAREGPT_SIGMA
        return LognormalLengths(isl, osl, float(sigma))
    if case.num_requests is None and case.load == "closed":
        # A client whose protocol is not stated sits behind HTTP: answers jitter, and slots do not stay in step.
        return LognormalLengths(isl, osl, _JITTER_SIGMA)
    return FixedLengths(isl, osl)


def _from_result(result: ServingResult) -> dict[str, float]:
    metrics = {
        "output_tok_s": result.output_tokens_per_s,
        "total_tok_s": result.total_tokens_per_s,
        "req_s": result.requests_per_s,
    }
    for name, times in (("ttft", result.ttft), ("tpot", result.tpot)):
        if times.num_samples:
            metrics[f"{name}_ms_mean"] = times.mean_s * 1e3
            metrics[f"{name}_ms_p50"] = times.p50_s * 1e3
            metrics[f"{name}_ms_p99"] = times.p99_s * 1e3
    if result.e2e.num_samples:
        metrics["e2e_ms_mean"] = result.e2e.mean_s * 1e3
    return metrics
