"""A simulated run in the columns and units of published measurements."""

from advisor.catalog.units import MILLISECOND_S
from advisor.simulator.serving import ServingResult


def columns_of(result: ServingResult) -> dict[str, float]:
    """Throughputs [1/s] and latencies [ms] of a run, by column.

    Source: own definition of the columns, see docs/validation.md.
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
