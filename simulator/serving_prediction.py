"""A simulated run as predictions: its latencies and rates with their 80 % intervals."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from advisor.simulator.intervals import latency_factors, prediction_class, with_interval
from advisor.simulator.quantity import Basis, Quantity
from advisor.simulator.replica_model import ReplicaModel
from advisor.simulator.serving import Distribution, ServingResult

PERCENTILES = (50, 90, 99)


@dataclass(frozen=True, slots=True)
class ServingPrediction:
    """What a deployment would show; times per request, rates of all replicas together."""

    ttft_s: Mapping[str, Quantity]
    tpot_s: Mapping[str, Quantity]
    itl_s: Mapping[str, Quantity]
    e2e_s: Mapping[str, Quantity]
    output_tokens_per_s: Quantity
    total_tokens_per_s: Quantity
    requests_per_s: Quantity


def class_of(replica: ReplicaModel, sequences: float | None = None, *, stranger: bool = False) -> str:
    """The class of residuals of what a replica shows with so many sequences at once; of a stranger's server, whose
    settings nobody states, a wider one.

    Source: `prediction_class`.
    """
    deployment = replica.deployment
    return prediction_class(
        deployment.engine.id,
        transferred=bool(replica.transferred),
        architecture=deployment.accelerator.architecture,
        sequences=sequences,
        stranger=stranger,
    )


def predicted(result: ServingResult, replica: ReplicaModel) -> ServingPrediction:
    """Latencies [s] by mean, p50, p90, p99 and rates [1/s] of a run, with intervals of the replica's class.

    Assumes: an end-to-end time errs as its parts do, the time to the first token and the rest; the gap between two
    tokens errs as their mean does.
    Raises: ValueError: no request finished.
    Source: advisor.simulator.intervals.
    """
    if not result.num_finished:
        raise ValueError("no request finished, so there is nothing to predict")
    basis = replica.basis
    class_name = class_of(replica, result.mean_batch)
    rates = (result.output_tokens_per_s, result.total_tokens_per_s, result.requests_per_s)
    return ServingPrediction(
        statistics(result.ttft, "ttft", class_name, basis),
        statistics(result.tpot, "tpot", class_name, basis),
        statistics(result.itl, "tpot", class_name, basis),
        _end_to_end(result.ttft, result.e2e, class_name, basis),
        *(with_interval(rate, "throughput", class_name, basis) for rate in rates),
    )


def predicted_latencies(
    ttft: Distribution, tpot: Distribution, e2e: Distribution, replica: ReplicaModel
) -> dict[str, dict[str, Quantity]]:
    """Latencies [s] by mean, p50, p90, p99 of requests that replicas of one kind served, with their intervals.

    Source: `predicted`.
    """
    basis = replica.basis
    class_name = class_of(replica)
    if not ttft.num_samples:
        return {"ttft_s": {}, "tpot_s": {}, "e2e_s": {}}
    return {
        "ttft_s": statistics(ttft, "ttft", class_name, basis),
        "tpot_s": statistics(tpot, "tpot", class_name, basis),
        "e2e_s": _end_to_end(ttft, e2e, class_name, basis),
    }


def predicted_rate(rate_per_s: float, replica: ReplicaModel) -> Quantity:
    """A rate of requests or tokens that replicas of one kind sustained, with its interval [1/s].

    Source: `predicted`.
    """
    class_name = class_of(replica)
    return with_interval(rate_per_s, "throughput", class_name, replica.basis)


def statistics(
    times: Distribution, metric: str, class_name: str, basis: Basis, percents: Sequence[int] = PERCENTILES
) -> dict[str, Quantity]:
    """Mean and percentiles [s] with their intervals; nothing where no value was seen (the time per output token of
    one-token answers).

    Source: `with_interval`; the sampling error of order statistics.
    """
    if not times.num_samples:
        return {}
    found = {"mean": with_interval(times.mean_s, metric, class_name, basis)}
    for percent in percents:
        found[f"p{percent}"] = with_interval(
            times.percentile_s(percent),
            metric,
            class_name,
            basis,
            sampling=times.sampling_factors(percent / 100.0),
        )
    return found


def _end_to_end(
    ttft: Distribution, times: Distribution, class_name: str, basis: Basis
) -> dict[str, Quantity]:
    low, high = latency_factors(class_name, ttft.mean_s / times.mean_s if times.mean_s > 0 else 0.0)
    values = {"mean": times.mean_s} | {f"p{percent}": times.percentile_s(percent) for percent in PERCENTILES}
    return {
        name: Quantity(value, value * low, value * high, basis)
        for name, value in values.items()
        if math.isfinite(value)
    }
