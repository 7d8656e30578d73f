"""Predict published serving measurements from their conditions: build the deployment, replay the load."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from advisor.catalog import accelerators, engines, models
from advisor.catalog.dtypes import DTYPES, EXL3_DTYPES
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.schema import Accelerator, Calibration, Engine, Model
from advisor.evidence.columns import columns_of, stream_rates
from advisor.evidence.run_date import dated
from advisor.evidence.serving.case import ServingCase, parse_case
from advisor.evidence.serving.closed_load import closed_workload
from advisor.evidence.serving.disaggregated import disaggregated_loop, disaggregated_model
from advisor.evidence.serving.isolated import Measured, single_stream, static_batch, step
from advisor.evidence.serving.lengths import lengths_of, mean_share
from advisor.evidence.serving.own_machine import in_own_machine, server_slots
from advisor.evidence.serving.recipe import (
    as_laid_out,
    as_started,
    costs_of,
    recipe_for,
    with_admission_wait,
    with_recipe,
)
from advisor.evidence.serving.speculation import (
    speculating,
    speculating_pools,
    speculation_of,
    with_range,
)
from advisor.evidence.serving.unstated_formats import as_published, as_stored
from advisor.evidence.serving.unstated_layout import of_all_replicas, share_of, smallest_layout
from advisor.simulator.calibrated_device import calibrated_accelerator
from advisor.simulator.deployment import Deployment, activation_dtype_for
from advisor.simulator.engine_costs import EngineCosts
from advisor.simulator.graph.model import is_moe
from advisor.simulator.intervals import prediction_class, with_interval
from advisor.simulator.local_surface import back_end, is_local, micro_batch_tokens
from advisor.simulator.power import with_power_cap
from advisor.simulator.quantity import Basis, Quantity
from advisor.simulator.replica_model import EngineSettings, ReplicaModel, model_replica
from advisor.simulator.serving import ClosedLoop, Poisson, Workload, simulate

_DYNAMO = "dynamo"
_RAISED_MEMORY_FRACTION = 0.97
"""What people set where the weights leave no room below an engine's default."""
_OPEN_LOOP_REQUESTS = 2500
"""Requests of a load at a rate whose number is not stated: enough that chance and the draining end move its
throughput by some 2 %."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The answer to one case: metrics in the units of the truth's columns, or why there is none."""

    case_id: str
    status: str
    """ok, unsupported (a mechanism or name that is not modelled), infeasible (does not fit), error."""
    reason: str = ""
    basis: Basis = "modelled"
    metrics: Mapping[str, Quantity] = field(default_factory=dict)


def predict_case(
    case: ServingCase,
    *,
    costs: EngineCosts | None = None,
    seed: int = 0,
    calibration: Calibration | None = None,
) -> Prediction:
    """Predicted metrics of one case; never raises for what a row can contain.

    A calibration counts for rows of its accelerator.

    Source: own composition.
    """
    try:
        case = dated(as_laid_out(as_published(case)))
        chosen = speculation_of(case, deployment_of(case, calibration))
        if case.mode == "disagg":
            values, num_samples, replica = _disaggregated(case, costs, seed, calibration)
        else:
            values, num_samples, replica = _aggregated(case, costs, seed, calibration)
    except InfeasibleError as error:
        return Prediction(case.case_id, "infeasible", error.why or error.what)
    except AdvisorError as error:
        return Prediction(case.case_id, "unsupported", error.what)
    basis = replica.basis
    class_name = prediction_class(case.engine, transferred=bool(replica.transferred))
    metrics = {
        name: with_range(
            name,
            with_interval(
                value, _error_metric(name), class_name, basis, num_samples=num_samples, **_tail(name)
            ),
            chosen,
        )
        for name, value in values.items()
        if math.isfinite(value)
    }
    return Prediction(case.case_id, "ok", "", basis, metrics)


def predict_row(
    row: Mapping[str, str], row_number: int, *, seed: int = 0, calibration: Calibration | None = None
) -> Prediction:
    """Predicted metrics of one CSV row; a bad row is a prediction with status error.

    Source: own composition.
    """
    try:
        case = parse_case(row, row_number)
    except AdvisorError as error:
        return Prediction(row.get("case_id") or f"row-{row_number}", "error", error.what)
    return predict_case(case, seed=seed, calibration=calibration)


def _aggregated(
    case: ServingCase, costs: EngineCosts | None, seed: int, calibration: Calibration | None
) -> tuple[dict[str, float], int, ReplicaModel]:
    """Values by column, the number of requests behind them, and the replica."""
    if case.layout_stated or case.num_gpus == 1:
        replica = replica_of(case, costs=costs, calibration=calibration)
        return *load_metrics(case, replica, seed), replica
    layout, replica = smallest_layout(
        case, lambda layout: replica_of(layout, costs=costs, calibration=calibration)
    )
    num_replicas = case.num_gpus // layout.tp
    measured = load_metrics(share_of(layout, num_replicas), replica, seed)
    return *of_all_replicas(measured, num_replicas), replica


def _disaggregated(
    case: ServingCase, costs: EngineCosts | None, seed: int, calibration: Calibration | None
) -> tuple[dict[str, float], int, ReplicaModel]:
    """Values by column, the number of requests behind them, and the decode worker."""
    if case.stack == _DYNAMO and case.date:
        # Published versions are those of the orchestrator; the date knows the engine's era.
        case = replace(case, engine_version="")
    deployment = deployment_of(case, calibration)
    model = disaggregated_model(case, deployment, costs=costs)
    settings = EngineSettings(version=case.engine_version, date=case.date)
    model = speculating_pools(model, case, speculation_of(case, deployment), settings)
    values, num_samples = disaggregated_loop(case, model, lengths_of(case), seed)
    return values, num_samples, model.decode_worker


def _error_metric(column: str) -> str:
    """Which residuals a column shares: ttft, tpot or throughput."""
    return next((name for name in ("ttft", "tpot") if column.startswith(name)), "throughput")


def _tail(column: str) -> dict[str, float]:
    return {"tail_fraction": 0.99} if column.endswith("p99") else {}


def replica_of(
    case: ServingCase, *, costs: EngineCosts | None = None, calibration: Calibration | None = None
) -> ReplicaModel:
    """The replica that a case describes.

    Raises: AdvisorError: a name is unknown, a mechanism is not modelled, or it does not fit.
    Source: own composition.
    """
    deployment = deployment_of(case, calibration)
    chosen = speculation_of(case, deployment)
    settings = EngineSettings(
        max_num_seqs=_max_num_seqs(case, deployment.engine),
        max_num_batched_tokens=case.max_num_batched_tokens,
        micro_batch_tokens=_micro_batch_tokens(case, deployment),
        prefix_caching=not case.prefix_cache_off,
        version=case.engine_version,
        date=case.date,
    )
    recipe = recipe_for(case, deployment)
    deployment = as_started(deployment, recipe)
    settings = with_recipe(settings, case, deployment, recipe)
    scale = mean_share(case)
    own_costs = costs_of(case, deployment, costs, recipe)

    def started(settings: EngineSettings) -> ReplicaModel:
        return model_replica(
            deployment,
            mean_input_tokens=max(1.0, scale * case.isl),
            mean_output_tokens=max(1.0, scale * case.osl),
            settings=settings,
            costs=own_costs,
        )

    try:
        replica = started(settings)
    except InfeasibleError:
        # A published run did fit: who started it raised a fraction of memory that is an option, not a computed one.
        if not _memory_is_an_option(deployment.engine):
            raise
        replica = started(replace(settings, memory_fraction=_RAISED_MEMORY_FRACTION))
    return with_admission_wait(speculating(replica, case, chosen, settings), case, recipe)


def _memory_is_an_option(engine: Engine) -> bool:
    return engine.memory_reserve is None and engine.memory_fraction < _RAISED_MEMORY_FRACTION


def deployment_of(case: ServingCase, calibration: Calibration | None = None) -> Deployment:
    """The deployment that a case describes.

    Raises: UnknownNameError: model, accelerator or engine is not in the catalog.
    Source: own composition.
    """
    model, found, engine = _records(case.model, case.gpu, case.engine)
    accelerator = calibrated_accelerator(found, calibration)
    weight = case.weight_dtype
    if weight not in DTYPES:
        raise AdvisorError(f"weight format {weight} is not modelled")
    if weight in EXL3_DTYPES and weight not in engine.weight_dtypes:
        raise AdvisorError(f"weight format {weight} is not read by {engine.id}")
    if case.kv_dtype not in (*DTYPES, "auto"):
        raise AdvisorError(f"cache format {case.kv_dtype} is not modelled")
    deployment = Deployment(
        model=model,
        accelerator=with_power_cap(
            in_own_machine(accelerator, case.num_gpus, case.power_cap_w), case.power_cap_w
        ),
        engine=engine,
        tensor_parallel=case.tp,
        pipeline_parallel=case.pp,
        data_parallel=case.dp,
        expert_parallel=_expert_parallel(case, model),
        weight_dtype=weight,
        activation_dtype=activation_dtype_for(weight, accelerator),
        kv_dtype="bf16" if case.kv_dtype in ("auto", "fp16") else case.kv_dtype,
        is_calibrated=accelerator is not found,
    )
    return as_stored(deployment, case)


@lru_cache(maxsize=1024)
def _records(model: str, gpu: str, engine: str) -> tuple[Model, Accelerator, Engine]:
    return models.get(model).record, accelerators.by_id(gpu), engines.get(engine).record


def _expert_parallel(case: ServingCase, model: Model) -> int:
    if not is_moe(model):
        return 1
    ranks = case.tp * case.dp
    return case.ep if ranks % case.ep == 0 else 1


def _micro_batch_tokens(case: ServingCase, deployment: Deployment) -> int | None:
    engine, vendor = deployment.engine, deployment.accelerator.vendor
    if not is_local(engine):
        return None
    return micro_batch_tokens(engine, back_end(case.engine_version, vendor), case.context_depth)


def _max_num_seqs(case: ServingCase, engine: Engine) -> int | None:
    slots = case.max_num_seqs or server_slots(case, engine)
    if slots:
        return slots
    if case.concurrency and case.load in ("closed", "static_batch", "step"):
        # Benchmarks start the engine with room for their highest concurrency.
        return max(engine.max_num_seqs, case.concurrency)
    return None


def load_metrics(case: ServingCase, replica: ReplicaModel, seed: int = 0) -> Measured:
    """Values by column of a case's load on a replica, and the number of requests behind them.

    Raises: AdvisorError: the case lacks what its load needs.
    Source: own composition.
    """
    recipe = recipe_for(case, replica.deployment)
    if recipe is not None and recipe.in_process:
        replica = replace(replica, policy=replace(replica.policy, api_overhead_ps=0))
    return _LOADS[case.load](case, replica, seed)


def _closed(case: ServingCase, replica: ReplicaModel, seed: int) -> Measured:
    if not case.concurrency:
        return _highest_throughput(case, replica, seed)
    recipe = recipe_for(case, replica.deployment)
    return _online(replica, closed_workload(case, recipe, seed), seed)


def _poisson(case: ServingCase, replica: ReplicaModel, seed: int) -> Measured:
    if not case.request_rate:
        return _highest_throughput(case, replica, seed)
    num_requests = case.num_requests or _OPEN_LOOP_REQUESTS
    workload = Workload(Poisson(case.request_rate), lengths_of(case), num_requests)
    return _online(replica, workload, seed)


def _online(replica: ReplicaModel, workload: Workload, seed: int) -> Measured:
    result = simulate(replica.surface, replica.policy, workload, seed=seed, records=True)
    rates = {} if result.records is None else stream_rates(result.records)
    return columns_of(result) | rates, result.num_finished


def _offline(case: ServingCase, replica: ReplicaModel, seed: int) -> Measured:
    # Long enough that filling and draining the batch is a small part of the run.
    num_requests = case.num_requests or 4 * replica.policy.num_slots
    policy = replace(replica.policy, api_overhead_ps=0)
    workload = Workload(ClosedLoop(num_requests), lengths_of(case), num_requests)
    result = simulate(replica.surface, policy, workload, seed=seed)
    return columns_of(result), result.num_finished


def _highest_throughput(case: ServingCase, replica: ReplicaModel, seed: int) -> Measured:
    """What a throughput that was published without its clients or its rate must be: the highest that was found."""
    values, num_samples = _offline(case, replica, seed)
    return {name: values[name] for name in ("output_tok_s", "total_tok_s", "req_s")}, num_samples


_LOADS: Final[Mapping[str, Callable[[ServingCase, ReplicaModel, int], Measured]]] = {
    "closed": _closed,
    "poisson": _poisson,
    "offline": _offline,
    "static_batch": static_batch,
    "batch1": single_stream,
    "step": step,
}
