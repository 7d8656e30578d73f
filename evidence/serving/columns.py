"""Simulated runs in the columns and units of published measurements."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from advisor.catalog.units import MILLISECOND_S, PICOSECONDS_PER_S
from advisor.simulator.serving import Records, ServingResult

Factors = tuple[float, float]
Measured = tuple[dict[str, float], dict[str, Factors]]
"""Values by column, and (low, high) sampling errors of the percentiles among them, as factors."""
_PERCENTILES: Final = (50, 99)
_RATES: Final = ("output_tok_s", "total_tok_s", "req_s", "prefill_tok_s")


def columns_of(result: ServingResult) -> dict[str, float]:
    """Throughputs [1/s] and latencies [ms] of a run, by column.

    Columns: see docs/validation.md.
    """
    metrics = {
        "output_tok_s": result.output_tokens_per_s,
        "total_tok_s": result.total_tokens_per_s,
        "req_s": result.requests_per_s,
    }
    for name, times in (("ttft", result.ttft), ("tpot", result.tpot)):
        if times.num_samples:
            metrics[f"{name}_ms_mean"] = times.mean_s / MILLISECOND_S
            metrics[f"{name}_ms_p50"] = times.p50_s / MILLISECOND_S
            metrics[f"{name}_ms_p99"] = times.p99_s / MILLISECOND_S
    if result.e2e.num_samples:
        metrics["e2e_ms_mean"] = result.e2e.mean_s / MILLISECOND_S
    return metrics


def sampling_of(result: ServingResult) -> dict[str, Factors]:
    """Sampling errors of a run's percentiles, by column.

    Source: Distribution.sampling_factors.
    """
    return {
        f"{name}_ms_p{percent}": times.sampling_factors(percent / 100.0)
        for name, times in (("ttft", result.ttft), ("tpot", result.tpot))
        if times.num_samples
        for percent in _PERCENTILES
    }


def later(values: Mapping[str, float], num_requests: int, wait_s: float) -> dict[str, float]:
    """Return the columns of a run whose engine begins `wait_s` later; all of its `num_requests` requests are sent at
    once."""
    share = 1.0 / (1.0 + wait_s * values["req_s"] / num_requests)
    waits = ("ttft_ms_mean", "ttft_ms_p50", "ttft_ms_p99", "e2e_ms_mean")
    return {
        name: value * share if name in _RATES else value + wait_s / MILLISECOND_S * (name in waits)
        for name, value in values.items()
    }


def stream_rates(records: Records) -> dict[str, float]:
    """Rates of the clients' own streams [tokens/s], averaged over requests: decode_tok_s and prefill_tok_s.

    decode_tok_s: tokens after the first over the time that they took; prefill_tok_s: the prompt over the time to the
    first token, queueing included. A rate that no request has is left out: that of one output token, or no prompt.

    Assumes: the mean is of rates, so that quick requests weigh more than in a mean of times.
    Source: own definition; rigs that publish both columns for several clients at once average so, as their TTFT and
    throughput at the same points show.
    """
    parts = {
        "decode_tok_s": (records.output_tokens - 1, records.finished_ps - records.first_token_ps),
        "prefill_tok_s": (records.input_tokens, records.first_token_ps - records.arrived_ps),
    }
    rates = {}
    for name, (tokens, duration_ps) in parts.items():
        has = (tokens > 0) & (duration_ps > 0)
        if has.any():
            rates[name] = float(np.mean(tokens[has] / duration_ps[has])) * PICOSECONDS_PER_S
    return rates


def of_all_replicas(measured: Measured, num_replicas: int) -> Measured:
    """Return the columns of one replica as those of all together: rates add up, latencies stay."""
    values, sampling = measured
    return {
        name: value * num_replicas if name in _RATES else value for name, value in values.items()
    }, sampling
