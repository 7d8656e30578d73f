"""Results of GuideLLM: a JSON file with one benchmark for each load."""

import re
from collections.abc import Mapping
from typing import Any, Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.formats.benchmark_result import (
    BenchmarkResult,
    MeasuredTimes,
    multiply,
    number_of,
    require_figures,
    whole_of,
)
from advisor.catalog.formats.file_format import FileFormat, has_keys, read_object
from advisor.catalog.units import MILLISECOND_S

_TITLE: Final = "result of guidellm"
_AT_ONCE: Final = "throughput"
_CSV: Final = re.compile(r"\ufeff?(?:Run Info,|Type,Run Id,)")
"""Beginning of the header of a CSV, before release 0.4 and since."""


def read_guidellm(text: str) -> tuple[BenchmarkResult, ...]:
    """Return the results of a `benchmarks.json`, one for each load.

    Raises: InputFileError: the text is not whole, or holds no benchmark.
    Source: vllm-project/guidellm, src/guidellm/benchmark (latencies named _ms; request_latency in s).
    """
    if _CSV.match(text):
        raise InputFileError(
            "GuideLLM's CSV is not read",
            why="its columns differ from release to release",
            fix="give the benchmarks.json of the run: --output-path benchmarks.json, or --outputs json",
        )
    document = read_object(text, _TITLE)
    benchmarks = document.get("benchmarks")
    if not isinstance(benchmarks, list) or not benchmarks:
        raise InputFileError(
            f"the {_TITLE} has no benchmarks", why="its list is empty", fix="run it to its end"
        )
    args = document.get("args")
    return tuple(
        require_figures(_result(one, args if isinstance(args, Mapping) else {}), _TITLE)
        for one in benchmarks
        if isinstance(one, Mapping)
    )


def _result(one: Mapping[str, Any], args: Mapping[str, Any]) -> BenchmarkResult:
    strategy = _strategy(one)
    kind = str(strategy.get("type_") or strategy.get("type") or "")
    clients = next(
        (found for name in ("streams", "max_concurrency") if (found := whole_of(strategy.get(name)))), None
    )
    rate = number_of(strategy.get("rate")) or number_of(strategy.get("initial_burst"))
    notes = () if kind else ("the file does not say how requests were sent",)
    totals = _at(one, "metrics", "request_totals") or _at(one, "run_stats", "requests_made") or {}
    return BenchmarkResult(
        tool="guidellm",
        model=_model(one, args),
        concurrency=1 if kind == "synchronous" else clients if kind in ("concurrent", "") else None,
        request_rate_per_s=float("inf")
        if kind == _AT_ONCE
        else rate
        if kind in ("constant", "poisson", "async")
        else None,
        num_requests=whole_of(totals.get("successful")),
        num_failed=whole_of(totals.get("errored")),
        mean_input_tokens=_mean(one, "prompt_token_count"),
        mean_output_tokens=_mean(one, "output_token_count"),
        length_dist=_length_dist(one),
        ttft=_times(one, "time_to_first_token_ms", MILLISECOND_S),
        tpot=_times(one, "inter_token_latency_ms", MILLISECOND_S),
        e2e=_times(one, "request_latency", 1.0),
        output_tokens_per_s=_mean(one, "output_tokens_per_second"),
        total_tokens_per_s=_mean(one, "tokens_per_second"),
        requests_per_s=_mean(one, "requests_per_second"),
        notes=notes,
    )


def _at(one: Any, *path: str) -> Mapping[str, Any] | None:
    for name in path:
        one = one.get(name) if isinstance(one, Mapping) else None
    return one if isinstance(one, Mapping) else None


def _strategy(one: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return how requests were sent; releases keep it in different places."""
    for path in (
        ("config", "strategy"),
        ("args", "strategy"),
        ("scheduler", "strategy"),
        ("args", "profile"),
    ):
        if found := _at(one, *path):
            return found
    return {}


def _model(one: Mapping[str, Any], args: Mapping[str, Any]) -> str:
    places = (
        args,
        one,
        _at(one, "args") or {},
        _at(one, "config", "backend") or {},
        _at(one, "benchmarker", "backend") or {},
        _at(one, "worker") or {},
    )
    names = (place.get(name) for place in places for name in ("model", "backend_model"))
    return next((name for name in names if isinstance(name, str) and name), "")


def _distribution(one: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the statistics of the requests that succeeded, or of all where a release does not divide them."""
    found = _at(one, "metrics", name) or {}
    return _at(found, "successful") or found


def _mean(one: Mapping[str, Any], name: str) -> float | None:
    return number_of(_distribution(one, name).get("mean")) or None


def _times(one: Mapping[str, Any], name: str, factor: float) -> MeasuredTimes:
    found = _distribution(one, name)
    percentiles = _at(found, "percentiles") or found
    median = found.get("median", percentiles.get("p50"))
    mean, p50, p99 = (
        multiply(value, factor) for value in (found.get("mean"), median, percentiles.get("p99"))
    )
    return MeasuredTimes(mean or None, p50 or None, p99 or None)


def _length_dist(one: Mapping[str, Any]) -> str:
    spreads = [
        number_of(_distribution(one, name).get("std_dev"))
        for name in ("prompt_token_count", "output_token_count")
    ]
    if any(spread is None for spread in spreads):
        return ""
    means = (_mean(one, "prompt_token_count") or 0.0, _mean(one, "output_token_count") or 0.0)
    even = all((spread or 0.0) <= 0.02 * mean for spread, mean in zip(spreads, means, strict=True))
    return "fixed" if even else "mean"


def _is_guidellm(text: str) -> bool:
    return bool(_CSV.match(text)) or (
        has_keys(text, "benchmarks", "metrics")
        and ("time_to_first_token_ms" in text or "guidellm" in text.lower())
    )


FORMAT: Final = FileFormat("guidellm", _TITLE, "serving benchmark", _is_guidellm, read_guidellm)
