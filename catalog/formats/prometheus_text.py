"""Metrics of a running server since its start, as it states them or as Prometheus answers a query."""

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.formats.benchmark_result import BenchmarkResult, MeasuredTimes, ratio_of
from advisor.catalog.formats.file_format import FileFormat, has_keys, read_object

_SAMPLE: Final = re.compile(
    r"^([a-zA-Z_:][\w:]*)(?:\{((?:[^\"{}]|\"(?:[^\"\\]|\\.)*\")*)\})?\s+([+-]?(?:\d[\d.eE+-]*|Inf|NaN))(?:\s+[\d.]+)?\s*(?:#\s*\{.*)?$",
    re.MULTILINE,
)
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "ttft": ("time_to_first_token_seconds", "llm_api_time_to_first_token_metric"),
    "tpot": (
        "request_time_per_output_token_seconds",
        "time_per_output_token_seconds",
        "inter_token_latency_seconds",
    ),
    "e2e": (
        *("e2e_request_latency_seconds", "request_duration", "request_duration_seconds"),
        *("operation_duration_seconds", "request_total_latency_metric"),
    ),
    "inputs": (
        "request_prompt_tokens",
        "prompt_tokens_histogram",
        "request_input_length",
        "input_sequence_tokens",
    ),
    "outputs": (
        "request_generation_tokens",
        "generation_tokens_histogram",
        "request_generated_tokens",
        "output_sequence_tokens",
    ),
}
"""Histograms by what they measure, the best first, without the engine's prefix."""
_ENGINES: Final = {
    "vllm": "vllm",
    "sglang": "sglang",
    "trtllm": "tensorrt-llm",
    "lmdeploy": "lmdeploy",
    "aphrodite": "vllm",
    "tgi": "",
    "gen_ai": "",
    "litellm": "",
}
"""Engines by the prefix of their metrics; empty for one that is not planned."""
_OF_ANY_PROGRAM: Final = re.compile(
    r"^(?:(\w+?)[:_])?(?:time_to_first_token_seconds|e2e_request_latency_seconds|inter_token_latency_seconds)_(?:count|sum)\b",
    re.MULTILINE,
)
"""Metrics that mean the same behind any prefix or none, as those of gateways, routers and NIM do."""
_CONVENTION: Final = re.compile(r"^gen_ai_(?:client|server)_", re.MULTILINE)
"""Prefixes of OpenTelemetry's conventions for generative AI, whose names behind them differ."""
_USAGE: Final = re.compile(r"gen_ai:token_usage(?:_tokens?)?_(sum|count)")
_USED_TOKENS: Final = {"input": "input_sequence_tokens", "output": "output_sequence_tokens"}
"""Names of the tokens of one request by the label of the convention."""


_MODEL: Final = ("model_name", "model")
"""Labels with the name of the model."""


@dataclass(frozen=True, slots=True)
class ServerMetrics:
    """Metrics of one server since its start."""

    result: BenchmarkResult
    """Lengths and latencies; rates are None, as one reading does not say over which time it counts."""
    kv_tokens: int | None
    """Tokens that the KV cache holds; None if the metrics do not say it."""
    memory_fraction: float | None
    kv_usage_fraction: float | None
    """Part of the KV cache in use at the reading."""
    num_running: float | None
    num_waiting: float | None
    prefix_hit_fraction: float | None
    """Fraction of prompt tokens found in the prefix cache."""
    num_preemptions: float | None


@dataclass(slots=True)
class _Samples:
    """Sums of samples over labels that do not matter here, and buckets of histograms by upper bound."""

    totals: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    buckets: dict[str, dict[float, float]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(float))
    )
    labels: dict[str, dict[str, str]] = field(default_factory=dict)


def read_prometheus_text(text: str) -> ServerMetrics:
    """Return what the metrics of vLLM, SGLang, TensorRT-LLM or TGI say.

    Raises: InputFileError: no metric of such a server, or no request was counted.
    Source: Prometheus and OpenMetrics exposition formats; OpenTelemetry semantic conventions (generative
        AI metrics); vllm v1/metrics/loggers.py; sglang srt/observability/metrics_collector.py.
    """
    if _is_answer(text):
        text = "\n".join(_lines_of_answer(text))
    text = _CONVENTION.sub("gen_ai:", text)
    prefix = next((name for name in _ENGINES if re.search(rf"^{name}[:_]", text, re.MULTILINE)), "")
    named = _OF_ANY_PROGRAM.search(text)
    if not prefix and named:
        prefix = named[1] or ""
    samples = _samples(text)
    if not (prefix or named):
        raise InputFileError(
            "no metrics of vLLM, SGLang, TensorRT-LLM or TGI in the text",
            why="names that begin with vllm:, sglang:, trtllm_ or tgi_ are read; llama.cpp counts no requests' tokens",
            fix="give what the server answers at /metrics, or the timings that llama.cpp prints for a request",
        )
    histograms = {what: _histogram(samples, prefix, names) for what, names in _NAMES.items()}
    count = _first(
        samples.totals, *(f"{name}_count" for name in _all(prefix, _NAMES["e2e"] + _NAMES["ttft"]))
    )
    if not count:
        raise InputFileError(
            "the metrics count no finished request",
            why="latencies and lengths are means over finished requests",
            fix="read /metrics after the server has served requests",
        )
    totals = samples.totals
    inputs = _mean(samples, prefix, "inputs") or ratio_of(
        _first(totals, *_all(prefix, ("prompt_tokens_total", "input_tokens_metric_total"))), count
    )
    outputs = _mean(samples, prefix, "outputs") or ratio_of(
        _first(totals, *_all(prefix, ("generation_tokens_total", "output_tokens_metric_total"))), count
    )
    result = BenchmarkResult(
        tool="prometheus",
        model=next(
            (found for labels in samples.labels.values() for name in _MODEL if (found := labels.get(name))),
            "",
        ),
        num_requests=round(count),
        mean_input_tokens=inputs,
        mean_output_tokens=outputs,
        length_dist="mean",
        ttft=histograms["ttft"],
        tpot=histograms["tpot"],
        e2e=histograms["e2e"],
        engine=_ENGINES.get(prefix, ""),
        notes=(
            "figures since the server's start; percentiles are interpolated between the bounds of buckets",
        ),
    )
    return _with_gauges(result, samples, prefix)


def _with_gauges(result: BenchmarkResult, samples: _Samples, prefix: str) -> ServerMetrics:
    totals = samples.totals

    def gauge(*names: str) -> float | None:
        return _first(totals, *_all(prefix, names))

    config = samples.labels.get(f"{prefix}:cache_config_info", {})
    blocks = config.get("num_gpu_blocks", "")
    size = config.get("block_size", "")
    tokens = int(blocks) * int(size) if blocks.isdigit() and size.isdigit() else None
    stated = gauge("max_total_num_tokens")
    queries = gauge("prefix_cache_queries_total", "gpu_prefix_cache_queries_total")
    hits = gauge("prefix_cache_hits_total", "gpu_prefix_cache_hits_total")
    try:
        fraction = float(config.get("gpu_memory_utilization", "nan"))
    except ValueError:
        fraction = math.nan
    return ServerMetrics(
        result=result,
        kv_tokens=tokens if stated is None else round(stated),
        memory_fraction=fraction if math.isfinite(fraction) else None,
        kv_usage_fraction=gauge("kv_cache_usage_perc", "gpu_cache_usage_perc", "token_usage"),
        num_running=gauge("num_requests_running", "num_running_reqs"),
        num_waiting=gauge("num_requests_waiting", "num_queue_reqs"),
        prefix_hit_fraction=ratio_of(hits, queries) if queries else gauge("cache_hit_rate"),
        num_preemptions=gauge("num_preemptions_total"),
    )


def _lines_of_answer(text: str) -> Iterator[str]:
    """Yield the samples of an answer of Prometheus' HTTP API in the text format; of a range the last ones.

    Raises: InputFileError: the text is not whole.
    Source: Prometheus, HTTP API (query, query_range).
    """
    data = read_object(text, "answer of Prometheus").get("data")
    rows = data.get("result") if isinstance(data, Mapping) else None
    for row in rows if isinstance(rows, list) else ():
        labels = dict(row.get("metric") or {})
        name = labels.pop("__name__", "")
        within = ",".join(f'{label}="{value}"' for label, value in labels.items())
        values = row.get("values") or [row.get("value") or (0, "")]
        yield f"{name}{{{within}}} {values[-1][1]}"


def _is_answer(text: str) -> bool:
    return has_keys(text, "resultType", "result", "metric")


def _samples(text: str) -> _Samples:
    found = _Samples()
    for name, labels, value in _SAMPLE.findall(text):
        number = float(value)
        by_label = dict(_LABEL.findall(labels))
        if name.endswith("_bucket") and "le" in by_label:
            try:
                bound = float(by_label["le"])
            except ValueError:
                continue
            found.buckets[name.removesuffix("_bucket")][bound] += number
        elif math.isfinite(number):
            used = _USED_TOKENS.get(by_label.get("gen_ai_token_type", ""))
            if used and (usage := _USAGE.fullmatch(name)):
                name = f"gen_ai:{used}_{usage[1]}"
            found.totals[name] += number
            found.labels.setdefault(name, by_label)
    return found


def _all(prefix: str, names: tuple[str, ...]) -> tuple[str, ...]:
    if not prefix:
        return names
    return tuple(f"{prefix}{separator}{name}" for name in names for separator in (":", "_"))


def _first(totals: Mapping[str, float], *names: str) -> float | None:
    return next((totals[name] for name in names if name in totals), None)


def _mean(samples: _Samples, prefix: str, what: str) -> float | None:
    for name in _all(prefix, _NAMES[what]):
        if found := ratio_of(samples.totals.get(f"{name}_sum"), samples.totals.get(f"{name}_count")):
            return found
    return None


def _histogram(samples: _Samples, prefix: str, names: tuple[str, ...]) -> MeasuredTimes:
    """Return the statistics of the first histogram that has counts."""
    for name in _all(prefix, names):
        count = samples.totals.get(f"{name}_count")
        if count:
            buckets = samples.buckets.get(name, {})
            (p50, p50_within), (p99, p99_within) = (_percentile(buckets, part) for part in (0.5, 0.99))
            mean = ratio_of(samples.totals.get(f"{name}_sum"), count)
            return MeasuredTimes(mean, p50, p99, p50_within_s=p50_within, p99_within_s=p99_within)
    return MeasuredTimes()


def _percentile(
    buckets: Mapping[float, float], fraction: float
) -> tuple[float | None, tuple[float, float] | None]:
    """Return a percentile of a histogram, linear within its bucket, and the bounds of that bucket; None twice if it
    lies beyond the last finite bound.

    Source: Prometheus, histogram_quantile.
    """
    bounds = sorted(buckets)
    if not bounds or not buckets[bounds[-1]]:
        return None, None
    wanted = fraction * buckets[bounds[-1]]
    below = 0.0
    count = 0.0
    for bound in bounds:
        if buckets[bound] >= wanted:
            if not math.isfinite(bound):
                return None, None
            inside = buckets[bound] - count
            part = (wanted - count) / inside if inside else 1.0
            return below + (bound - below) * part, (below, bound)
        below = bound
        count = buckets[bound]
    return None, None


def _is_prometheus_text(text: str) -> bool:
    return bool(_is_answer(text) or _OF_ANY_PROGRAM.search(text)) or bool(
        re.search(
            r"^(?:# (?:HELP|TYPE) )?(?:vllm:|sglang:|trtllm_|llamacpp:|tgi_|lmdeploy:|aphrodite:"
            r"|gen_ai_(?:client|server)_|litellm_)\w+",
            text,
            re.MULTILINE,
        )
    )


FORMAT: Final = FileFormat(
    "prometheus",
    "Prometheus metrics of a serving engine",
    "server metrics",
    _is_prometheus_text,
    read_prometheus_text,
)
