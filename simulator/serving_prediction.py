"""Predictions from a simulated run: latencies and rates with their 80 % intervals."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from advisor.simulator.deployment import is_local
from advisor.simulator.engine_costs import engine_costs, operator_library
from advisor.simulator.intervals import as_rate, narrow, prediction_class, with_interval
from advisor.simulator.quantity import Basis, Quantity
from advisor.simulator.replica_model import ReplicaModel
from advisor.simulator.serving import Distribution, ServingResult
from advisor.simulator.step_cost import prefill_iteration_s
from advisor.simulator.surface import decode_breakdown_s, prefill_breakdown_s

PERCENTILES = (50, 90, 95, 99)
_WITHOUT_RDMA: Final = "TCP 100Gb per node"
"""Network, in words, over which the nodes of a replica sum where NCCL finds no RDMA: sockets over the port that a node
has for everything else. Providers' nodes of eight have 80 to 400 Gb/s there (Azure ND H100 v5 80, GCP A3 200)."""


@dataclass(frozen=True, slots=True)
class ServingPrediction:
    """Predicted performance of a deployment: times per request, rates of all replicas together."""

    ttft_s: Mapping[str, Quantity]
    tpot_s: Mapping[str, Quantity]
    itl_s: Mapping[str, Quantity]
    e2e_s: Mapping[str, Quantity]
    output_tokens_per_s: Quantity
    total_tokens_per_s: Quantity
    requests_per_s: Quantity


def class_of(replica: ReplicaModel, sequences: float | None = None, *, stranger: bool = False) -> str:
    """Return the class of residuals of a replica with the given number of concurrent sequences; a wider class for a
    third-party server, whose settings are unknown.

    Source: `prediction_class`.
    """
    deployment = replica.deployment
    return prediction_class(
        deployment.engine.id,
        transferred=bool(replica.transferred_operators),
        architecture=deployment.accelerator.architecture,
        sequences=sequences,
        stranger=stranger,
    )


def predict_serving(
    result: ServingResult, replica: ReplicaModel, *, clients_wait: bool = False
) -> ServingPrediction:
    """Return latencies [s] by mean, p50, p90, p95, p99 and rates [1/s] of a run, with intervals of the replica's class.

    Clients that wait for their outputs (`clients_wait`) send as many requests as their mean end-to-end time lets them:
    their rates are its inverse, by Little's law, and so are the intervals. Where nothing says over what network nodes
    sum, intervals reach up to sockets.

    Raises: ValueError: no request finished.
    Source: latencies_of.
    """
    if not result.num_finished:
        raise ValueError("no request finished, so there is nothing to predict")
    basis = replica.basis
    class_name = class_of(replica, result.mean_batch)
    rates = (result.output_tokens_per_s, result.total_tokens_per_s, result.requests_per_s)
    times = latencies_of(result, replica, network=unstated_network_factors(result, replica))
    whole = times["e2e_s"]
    if clients_wait and whole["mean"].value > 0.0:
        mean = whole["mean"]
        span = (mean.low / mean.value, mean.high / mean.value)
        throughput = [as_rate(rate, span, mean.basis) for rate in rates]
    else:
        throughput = [
            narrow(with_interval(rate, "throughput", class_name, basis), replica, "tpot") for rate in rates
        ]
    return ServingPrediction(times["ttft_s"], times["tpot_s"], times["itl_s"], whole, *throughput)


def within_sent(
    prediction: ServingPrediction,
    sent_per_s: float,
    *,
    is_overloaded: bool,
    capacity_per_s: float | None = None,
) -> ServingPrediction:
    """Return a prediction for requests that come at a rate: no server serves more than it is sent.

    Source: `sent_factors`.
    """
    rate = prediction.requests_per_s
    mean = prediction.e2e_s["mean"]
    span = sent_factors(rate, sent_per_s, mean, is_overloaded=is_overloaded, capacity_per_s=capacity_per_s)
    return dataclasses.replace(
        prediction,
        output_tokens_per_s=with_factors(prediction.output_tokens_per_s, span),
        total_tokens_per_s=with_factors(prediction.total_tokens_per_s, span),
        requests_per_s=with_factors(rate, span),
    )


def sent_factors(
    rate: Quantity,
    sent_per_s: float,
    whole_s: Quantity,
    *,
    is_overloaded: bool,
    capacity_per_s: float | None = None,
) -> tuple[float, float]:
    """Return the (low, high) factors of the rate that a run with requests at `sent_per_s` serves.

    A server that keeps up serves what it is sent, however fast it is. Its own error moves only the end of the run,
    in which no request arrives; that end is longer or shorter as a whole request (`whole_s`) is. The low end is lower
    where the capacity, with the error of the throughput, falls below the load; where the capacity is not known, the
    low end is that of the throughput. An overloaded server serves its capacity.

    Assumes: the end of a run takes 1 / rate − 1 / sent for each of its requests.
    Source: conservation of requests.
    """
    value = rate.value
    if value <= 0.0:
        return 1.0, 1.0
    low = rate.low / value
    high = min(rate.high, sent_per_s) / value
    if not is_overloaded:
        end = max(0.0, 1.0 - value / sent_per_s)
        slowest, fastest = (1.0 + end * (time / whole_s.value - 1.0) for time in (whole_s.high, whole_s.low))
        high = min(high, 1.0 / fastest)
        if capacity_per_s is not None:
            low = min(1.0 / slowest, capacity_per_s / value * low)
    return min(low, 1.0), max(high, 1.0)


def with_factors(quantity: Quantity, factors: tuple[float, float]) -> Quantity:
    """Return a quantity whose interval reaches from (low, high) times its value."""
    low, high = factors
    return dataclasses.replace(quantity, low=quantity.value * low, high=quantity.value * high)


def latencies_of(
    result: ServingResult,
    replica: ReplicaModel,
    percents: Sequence[float] = PERCENTILES,
    *,
    network: tuple[float, float] = (1.0, 1.0),
) -> dict[str, dict[str, Quantity]]:
    """Return latencies [s] of a run by mean and percentile, with the intervals of the replica's class, of a server that
    was measured, of hosts that may be slow, and of a network that may be (factors of first tokens and of others).

    Assumes: an end-to-end time errs as its parts do; the gap between two tokens errs as their mean does.
    Source: advisor.simulator.intervals.
    """
    basis = replica.basis
    class_name = class_of(replica, result.mean_batch)
    slower_first, slower_token = slow_host_factors(result, replica)

    def quantities(times: Distribution, metric: str, slower: float) -> dict[str, Quantity]:
        found = statistics(times, metric, class_name, basis, percents)
        return {name: _widen(narrow(time, replica, metric), slower) for name, time in found.items()}

    ttft = quantities(result.ttft, "ttft", slower_first * network[0])
    tpot = quantities(result.tpot, "tpot", slower_token * network[1])
    return {
        "ttft_s": ttft,
        "tpot_s": tpot,
        "itl_s": quantities(result.itl, "tpot", slower_first * network[1]),
        "e2e_s": end_to_end(values_of(result.e2e, percents), ttft, tpot),
    }


def slow_host_factors(result: ServingResult, replica: ReplicaModel) -> tuple[float, float]:
    """Return how many times longer a first token and the time per output token may take because the host is slower than
    the usual one: the slowest that was measured launches experts in three times as long.

    An iteration with prefill takes S instead of U. A first token waits for one, S / U. A time per output token t of
    which the part p of the iterations has prefill grows by p (S - U) / t; longer iterations carry more of the prompts
    that arrive meanwhile, so that it is 1 / (1 - p (S - U) / t), and at most S / U.

    Assumes: prompts of the mean length; a server that was measured has a known host.
    Source: own derivation; engine costs, slow_launch_s.
    """
    surface = replica.surface
    is_known = replica.server is not None or surface.slow_launch_ps <= surface.launch_ps
    if is_known or not (result.num_iterations and result.num_finished):
        return 1.0, 1.0
    computed = result.input_tokens / result.num_finished * (1.0 - (result.prefix_hit_fraction or 0.0))
    budget = len(surface.mixed_base_ps) - 1
    tokens = max(1, min(budget, round(computed)))
    if tokens + result.mean_batch <= surface.captured_tokens:
        return 1.0, 1.0
    usual_s, slow_s = (
        prefill_iteration_s(dataclasses.replace(surface, launch_ps=launch_ps, captured_tokens=0), tokens)
        for launch_ps in (surface.launch_ps, surface.slow_launch_ps)
    )
    ratio = slow_s / usual_s
    if not result.tpot.num_samples or result.tpot.mean_s <= 0.0:
        return ratio, 1.0
    share = min(1.0, result.num_finished * math.ceil(computed / budget) / result.num_iterations)
    grown = share * (slow_s - usual_s) / result.tpot.mean_s
    return ratio, min(ratio, 1.0 / max(1.0 - grown, 1.0 / ratio))


def unstated_network_factors(result: ServingResult, replica: ReplicaModel) -> tuple[float, float]:
    """Return how many times longer a first token and the time per output token take if messages between the nodes of a
    replica go through sockets instead of RDMA; 1 where a network is stated or one node holds the replica.

    An iteration takes longer by the difference of its exchanges over the two networks, a first token by that of a
    prompt of mean length.

    Assumes: NCCL falls back to sockets where it finds no RDMA; a server that was measured has a known network.
    Source: own derivation; collectives/fabric_text.py for sockets.
    """
    deployment = replica.deployment
    is_known = deployment.network or replica.server is not None or is_local(deployment.engine)
    if is_known or deployment.group(deployment.accelerators_per_replica).num_nodes < 2:
        return 1.0, 1.0
    if not result.num_finished or not result.num_iterations:
        return 1.0, 1.0
    prompt = max(1, round(result.input_tokens / result.num_finished))
    batch = max(1, round(result.mean_batch))
    costs = engine_costs(deployment.engine)

    def iterations_s(network: str) -> tuple[float, float]:
        other = dataclasses.replace(deployment, network=network)
        library = operator_library(other)
        first = prefill_breakdown_s(other, library, costs, prompt)
        token = decode_breakdown_s(other, library, costs, batch, float(prompt))
        return sum(first.values()), sum(token.values())

    usual_first_s, usual_token_s = iterations_s("")
    slow_first_s, slow_token_s = iterations_s(_WITHOUT_RDMA)
    return (
        _longer(result.ttft, slow_first_s - usual_first_s),
        _longer(result.tpot, slow_token_s - usual_token_s),
    )


def _longer(times: Distribution, more_s: float) -> float:
    """Return how many times longer the mean is if it takes `more_s` more; 1 where nothing was timed."""
    if not times.num_samples or times.mean_s <= 0.0:
        return 1.0
    return 1.0 + max(0.0, more_s) / times.mean_s


def _widen(time: Quantity, factor: float) -> Quantity:
    """Return a time whose interval also allows for the factor, as an independent error upwards."""
    if factor <= 1.0 or time.value <= 0.0:
        return time
    spread = math.hypot(math.log(time.high / time.value), math.log(factor))
    return dataclasses.replace(time, high=time.value * math.exp(spread))


def predicted_latencies(
    ttft: Distribution, tpot: Distribution, e2e: Distribution, replica: ReplicaModel
) -> dict[str, dict[str, Quantity]]:
    """Return latencies [s] by mean, p50, p90, p95, p99 of requests that replicas of one kind served, with their
    intervals.

    Source: `predict_serving`.
    """
    basis = replica.basis
    class_name = class_of(replica)
    if not ttft.num_samples:
        return {"ttft_s": {}, "tpot_s": {}, "e2e_s": {}}
    first = statistics(ttft, "ttft", class_name, basis)
    token = statistics(tpot, "tpot", class_name, basis)
    return {"ttft_s": first, "tpot_s": token, "e2e_s": end_to_end(values_of(e2e), first, token)}


def predicted_rate(rate_per_s: float, replica: ReplicaModel) -> Quantity:
    """Return a rate of requests or tokens that replicas of one kind sustained, with its interval [1/s].

    Source: `predict_serving`.
    """
    class_name = class_of(replica)
    return with_interval(rate_per_s, "throughput", class_name, replica.basis)


def statistics(
    times: Distribution, metric: str, class_name: str, basis: Basis, percents: Sequence[float] = PERCENTILES
) -> dict[str, Quantity]:
    """Return mean and percentiles [s] with their intervals; empty if there is no value (the time per output token of
    one-token outputs).

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


def values_of(times: Distribution, percents: Sequence[float] = PERCENTILES) -> dict[str, float]:
    """Return mean and percentiles [s] without their intervals, as far as they are finite."""
    values = {"mean": times.mean_s} | {f"p{percent}": times.percentile_s(percent) for percent in percents}
    return {name: value for name, value in values.items() if math.isfinite(value)}


def end_to_end(
    values_s: Mapping[str, float], ttft: Mapping[str, Quantity], tpot: Mapping[str, Quantity]
) -> dict[str, Quantity]:
    """End-to-end times of requests [s], composed of the time to first token and the time of the tokens after it.

    A whole request takes its first token and then one interval between tokens after another. The part of the first
    token errs as the time to first token of the same statistic does, the rest as the time per output token does.

    Assumes: the first token of a whole request at a percentile takes the time to first token of that percentile.
    Source: own composition.
    """
    return {
        name: _whole(value, ttft.get(name), tpot.get(name))
        for name, value in values_s.items()
        if name in ttft
    }


def _whole(value_s: float, ttft: Quantity | None, tpot: Quantity | None) -> Quantity:
    assert ttft is not None
    if tpot is None or tpot.value <= 0 or ttft.value <= 0:
        tpot = ttft
    if ttft.value <= 0:
        return Quantity(value_s, value_s, value_s, ttft.basis)
    first_s = min(ttft.value, value_s)
    low, high = (
        first_s * first / ttft.value + (value_s - first_s) * token / tpot.value
        for first, token in ((ttft.low, tpot.low), (ttft.high, tpot.high))
    )
    return Quantity(value_s, min(low, value_s), max(high, value_s), ttft.basis)
