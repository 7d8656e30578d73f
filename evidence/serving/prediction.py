"""Predictions of published serving measurements from their conditions: build the deployment, replay the load."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from advisor.catalog import models
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.schema import Calibration
from advisor.evidence.prediction import Prediction, predict_or_report
from advisor.evidence.serving.case import (
    ServingCase,
    View,
    as_published,
    contradictions,
    parse_case,
    with_date,
    without_contradictions,
)
from advisor.evidence.serving.client import closed_workload, lengths_of, shared_prefixes
from advisor.evidence.serving.columns import (
    Factors,
    Measured,
    columns_of,
    later,
    of_all_replicas,
    sampling_of,
    stream_rates,
)
from advisor.evidence.serving.deployment import (
    as_submitted,
    deployment_of,
    replica_of,
    share_of,
    smallest_layout,
)
from advisor.evidence.serving.disaggregated import disaggregated_loop, disaggregated_model
from advisor.evidence.serving.isolated import single_stream, static_batch, step, with_lengths
from advisor.evidence.serving.recipe import as_laid_out, recipe_for
from advisor.evidence.serving.speculation import speculating_pools, speculation_of, with_range
from advisor.simulator.engine_costs import EngineCosts
from advisor.simulator.intervals import as_rate, factors, latency_factors, narrow, with_interval
from advisor.simulator.quantity import Basis, Quantity
from advisor.simulator.replica_model import EngineSettings, ReplicaModel
from advisor.simulator.serving import ClosedLoop, Poisson, Workload, simulate
from advisor.simulator.serving_prediction import class_of
from advisor.simulator.terms import TermCase, find

_DYNAMO = "dynamo"
_OPEN_LOOP_REQUESTS = 2500
"""Number of requests of an open loop if the row states none: large enough that chance and the draining end move its
throughput by about 2 %."""
_UNFILTERED = ("gpt-oss",)
"""Models whose generation_config.json asks for neither top-k nor top-p: a server that takes it as its default samples
from all tokens, for which no kernel is compiled."""
_WAITING_LOADS = ("closed", "batch1", "static_batch")
"""Loads in which a client sends its next request once it has its output."""
RATES = ("output_tok_s", "total_tok_s", "req_s")
_MOST_RUNS = 16
"""Most runs of a short open-loop load with unpublished arrivals and lengths; their median is what the measured run
most likely shows. 60 requests of widely spread lengths move throughput by 15 %, and the p99 TTFT by 40 %."""


def predict_case(
    case: ServingCase,
    *,
    costs: EngineCosts | None = None,
    seed: int = 0,
    calibration: Calibration | None = None,
) -> Prediction:
    """Return the predicted metrics of one case; no content of a row raises an error. The reason names contradictions.

    A calibration counts for rows of its accelerator.
    """
    remarks = "; ".join(contradictions(case))
    try:
        case = with_lengths(with_date(as_laid_out(as_published(without_contradictions(case)))))
        chosen = speculation_of(case, deployment_of(case, calibration))
        if case.mode == "disagg":
            values, sampling, replica = _predict_disaggregated(case, costs, seed, calibration)
        else:
            values, sampling, replica = _predict_aggregated(case, costs, seed, calibration)
    except InfeasibleError as error:
        return Prediction(case.case_id, "infeasible", ": ".join(filter(None, (error.what, error.why))))
    except AdvisorError as error:
        return Prediction(case.case_id, "unsupported", error.what)
    basis = replica.basis
    class_name = class_of(replica, case.most_at_once, stranger=True)
    known = {name: value for name, value in values.items() if math.isfinite(value)}
    rates = _rates_of_latencies(case, known, class_name, basis)
    metrics = {
        name: with_range(
            name,
            narrow(
                rates.get(name)
                or with_interval(
                    value, _error_metric(name), class_name, basis, sampling=sampling.get(name, (1.0, 1.0))
                ),
                replica,
                _error_metric(name),
            ),
            chosen,
        )
        for name, value in known.items()
    }
    return Prediction(case.case_id, "ok", remarks, basis, metrics, replica.deployment.weight_dtype)


def predict_row(
    row: Mapping[str, str],
    row_number: int,
    *,
    seed: int = 0,
    calibration: Calibration | None = None,
    view: View = "replay",
) -> Prediction:
    """Return the predicted metrics of one CSV row; a bad row is a prediction with status error.

    A `replay` starts engine and client as the row's scripts do, if its protocol identifies them; for a `stranger` the
    engine has its release's defaults and the row's settings.
    """
    return predict_or_report(
        row,
        row_number,
        lambda: parse_case(row, row_number, view),
        lambda case: predict_case(case, seed=seed, calibration=calibration),
    )


def _predict_aggregated(
    case: ServingCase, costs: EngineCosts | None, seed: int, calibration: Calibration | None
) -> tuple[dict[str, float], dict[str, Factors], ReplicaModel]:
    """Return values by column, their sampling errors, and the replica."""
    if case.layout_stated or case.num_gpus == 1:
        replica = replica_of(case, costs=costs, calibration=calibration)
        return *load_metrics(case, replica, seed), replica
    case = as_submitted(case)
    layout, replica = smallest_layout(case, costs=costs, calibration=calibration)
    num_replicas = case.num_gpus // layout.tp
    measured = load_metrics(share_of(layout, num_replicas), replica, seed)
    return *of_all_replicas(measured, num_replicas), replica


def _predict_disaggregated(
    case: ServingCase, costs: EngineCosts | None, seed: int, calibration: Calibration | None
) -> tuple[dict[str, float], dict[str, Factors], ReplicaModel]:
    """Return values by column, their sampling errors, and the decode worker."""
    if case.stack == _DYNAMO and case.date:
        # Published versions are those of the orchestrator; the date knows the engine's era.
        case = replace(case, engine_version="")
    deployment = deployment_of(case, calibration)
    model = disaggregated_model(case, deployment, costs=costs)
    settings = EngineSettings(version=case.engine_version, date=case.date)
    model = speculating_pools(model, case, speculation_of(case, deployment), settings)
    return *disaggregated_loop(case, model, lengths_of(case), seed), model.decode_worker


def _rates_of_latencies(
    case: ServingCase, values: Mapping[str, float], class_name: str, basis: Basis
) -> dict[str, Quantity]:
    """Return the columns that follow from a run's latencies, with the intervals of those latencies: the time of a
    whole request; the rates of one stream; and the throughput of clients that wait for their outputs (by Little's law).

    Source: intervals.latency_factors.
    """
    found = {}
    for name, part in (("decode_tok_s", "tpot"), ("prefill_tok_s", "ttft")):
        if name in values:
            found[name] = as_rate(values[name], factors(part, class_name), basis)
    whole = values.get("e2e_ms_mean", 0.0)
    if whole <= 0.0 or "ttft_ms_mean" not in values:
        return found
    span = latency_factors(class_name, values["ttft_ms_mean"] / whole)
    found["e2e_ms_mean"] = Quantity(whole, whole * span[0], whole * span[1], basis)
    if case.load in _WAITING_LOADS:
        found |= {name: as_rate(values[name], span, basis) for name in RATES if name in values}
    return found


def _error_metric(column: str) -> str:
    """Return the metric whose residuals a column shares: ttft, tpot or throughput."""
    return next((name for name in ("ttft", "tpot") if column.startswith(name)), "throughput")


def load_metrics(case: ServingCase, replica: ReplicaModel, seed: int = 0) -> Measured:
    """Return the values by column of a case's load on a replica, and their sampling errors.

    Raises: AdvisorError: the case lacks what its load needs.
    """
    recipe = recipe_for(case, replica.deployment)
    if recipe is not None and recipe.in_process:
        replica = replace(replica, policy=replace(replica.policy, api_overhead_ps=0, intake_ps=0))
    return _LOADS[case.load](case, replica, seed)


def _measure_closed_loop(case: ServingCase, replica: ReplicaModel, seed: int) -> Measured:
    if not case.concurrency:
        return _highest_throughput(case, replica, seed)
    recipe = recipe_for(case, replica.deployment)
    return _online(replica, closed_workload(case, recipe, seed), seed)


def _poisson(case: ServingCase, replica: ReplicaModel, seed: int) -> Measured:
    if not case.request_rate:
        return _highest_throughput(case, replica, seed)
    num_requests = case.num_requests or _OPEN_LOOP_REQUESTS
    workload = Workload(Poisson(case.request_rate), lengths_of(case), num_requests, shared_prefixes(case))
    num_runs = min(_MOST_RUNS, max(1, _OPEN_LOOP_REQUESTS // num_requests))
    runs = [_online(replica, workload, seed + run) for run in range(num_runs)]
    common = [name for name in runs[0][0] if all(name in values for values, _ in runs)]
    return {name: float(np.median([values[name] for values, _ in runs])) for name in common}, runs[0][1]


def _online(replica: ReplicaModel, workload: Workload, seed: int) -> Measured:
    result = simulate(replica.surface, replica.policy, workload, seed=seed, records=True)
    rates = {} if result.records is None else stream_rates(result.records)
    return columns_of(result) | rates, sampling_of(result)


def _offline(case: ServingCase, replica: ReplicaModel, seed: int) -> Measured:
    # The run is so long that filling and draining the batch is a small part of it.
    num_requests = case.num_requests or 4 * replica.policy.num_slots
    policy = replace(replica.policy, api_overhead_ps=0)
    if case.num_requests is None:
        # A highest throughput comes from the engine's own benchmark, without a server before it.
        policy = replace(policy, intake_ps=0, delivery_ps=0)
    workload = Workload(ClosedLoop(num_requests), lengths_of(case), num_requests, shared_prefixes(case))
    result = simulate(replica.surface, policy, workload, seed=seed)
    values = columns_of(result)
    if case.num_requests and not models.get(case.model).record.id.startswith(_UNFILTERED):
        architecture = replica.deployment.accelerator.architecture
        first = find(
            "engine", "first_burst_s", TermCase(case.engine, case.engine_version, case.date, architecture)
        )
        values = later(values, num_requests, first.value if first else 0.0)
    return values, sampling_of(result)


def _highest_throughput(case: ServingCase, replica: ReplicaModel, seed: int) -> Measured:
    """Return the throughput of a row published without clients or rate, which must be the highest that was found."""
    values, _ = _offline(case, replica, seed)
    return {name: values[name] for name in ("output_tok_s", "total_tok_s", "req_s")}, {}


_LOADS: Final[Mapping[str, Callable[[ServingCase, ReplicaModel, int], Measured]]] = {
    "closed": _measure_closed_loop,
    "poisson": _poisson,
    "offline": _offline,
    "static_batch": static_batch,
    "batch1": single_stream,
    "step": step,
}
