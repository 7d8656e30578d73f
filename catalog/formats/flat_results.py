"""Results of benchmarks whose files are flat: each figure has one place in an object, which a table names by tool."""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from advisor.catalog.errors import InputFileError
from advisor.catalog.formats.benchmark_result import (
    BenchmarkResult,
    MeasuredTimes,
    multiply,
    number_of,
    require_figures,
)
from advisor.catalog.formats.documents import json_objects
from advisor.catalog.formats.file_format import FileFormat, has_keys
from advisor.catalog.formats.launcher_lines import without_prefixes
from advisor.catalog.units import MICROSECOND_S, MILLISECOND_S, MINUTE_S

_Times = tuple[str, str, str]
"""Places of the mean, the median and the 99th percentile; empty where a tool has none."""


@dataclass(frozen=True, slots=True)
class _Tool:
    """Places of the figures in the files of one benchmark.

    A place is keys joined by slashes; of places divided by bars the first that has a value counts.
    """

    id: str
    marks: tuple[str, ...]
    """Keys or column titles that its file has."""
    numbers: Mapping[str, str]
    """Places by field of the result."""
    times: Mapping[Literal["ttft", "tpot", "e2e"], _Times]
    unit_s: float
    """Unit of its times [s]."""
    engine: str = ""
    model: str = ""
    weight_dtype: str = ""
    """Place of the name of the format."""
    sends: Literal["batch", "at once", "clients"] = "clients"
    """batch: as many requests as clients, once; at once: all requests; clients: as the numbers say."""
    requests_per_minute: str = ""
    """Place of the completed requests per minute."""
    notes: tuple[str, ...] = ()


_WHOLE: Final = "whole requests are timed: no time to first token, and their tokens are yours to say"


def _percentiles(place: str, mean: str = "mean", median: str = "median") -> _Times:
    return (f"{place}/{mean}", f"{place}/{median}", f"{place}/p99")


_TOOLS: Final = (
    _Tool(
        "llmperf",
        ("results_ttft_s_mean", "num_concurrent_requests"),
        {
            "concurrency": "num_concurrent_requests",
            "num_requests": "results_num_completed_requests",
            "num_failed": "results_number_errors",
            "mean_input_tokens": "results_number_input_tokens_mean | mean_input_tokens",
            "mean_output_tokens": "results_number_output_tokens_mean | mean_output_tokens",
            "output_tokens_per_s": "results_mean_output_throughput_token_per_s",
        },
        {
            "ttft": (
                "results_ttft_s_mean",
                "results_ttft_s_quantiles_p50",
                "results_ttft_s_quantiles_p99",
            ),
            "e2e": (
                "results_end_to_end_latency_s_mean",
                "results_end_to_end_latency_s_quantiles_p50",
                "results_end_to_end_latency_s_quantiles_p99",
            ),
        },
        1.0,
        model="model",
        requests_per_minute="results_num_completed_requests_per_min",
        notes=("its time between tokens counts the first token's wait and is not compared",),
    ),
    _Tool(
        "inference-perf",
        ("load_summary", "successes", "normalized_time_per_output_token"),
        {
            "request_rate_per_s": "load_summary/requested_rate | load_summary/achieved_rate",
            "concurrency": "load_summary/concurrency",
            "num_requests": "successes/count",
            "num_failed": "failures/count",
            "mean_input_tokens": "successes/prompt_len/mean | successes/prompt_tokens/mean",
            "mean_output_tokens": "successes/output_len/mean | successes/output_tokens/mean",
            "output_tokens_per_s": "successes/throughput/output_tokens_per_sec",
            "total_tokens_per_s": "successes/throughput/total_tokens_per_sec",
            "requests_per_s": "successes/throughput/requests_per_sec",
        },
        {
            "ttft": _percentiles("successes/latency/time_to_first_token"),
            "tpot": _percentiles("successes/latency/time_per_output_token"),
            "e2e": _percentiles("successes/latency/request_latency"),
        },
        1.0,
    ),
    _Tool(
        "trtllm-bench",
        ("world_info", "request_info", "system_output_throughput_tok_s"),
        {
            "concurrency": "request_info/avg_num_concurrent_requests",
            "num_requests": "request_info/num_requests",
            "mean_input_tokens": "request_info/avg_input_length",
            "mean_output_tokens": "request_info/avg_output_length",
            "output_tokens_per_s": "performance/system_output_throughput_tok_s",
            "total_tokens_per_s": "performance/system_total_throughput_tok_s",
            "requests_per_s": "performance/request_throughput_req_s",
            "tensor_parallel": "world_info/tp_size",
            "expert_parallel": "world_info/ep_size",
        },
        {
            "ttft": _percentiles("streaming_metrics/ttft_percentiles", "average", "p50"),
            "tpot": _percentiles("streaming_metrics/tpot_percentiles", "average", "p50"),
            "e2e": ("performance/avg_request_latency_ms", "", ""),
        },
        MILLISECOND_S,
        engine="tensorrt-llm",
        model="engine/model",
        weight_dtype="engine/quantization",
        notes=("its mean number of requests under way is taken as the number of clients",),
    ),
    _Tool(
        "sglang bench_one_batch",
        ("batch_size", "input_len", "output_len", "overall_throughput"),
        {
            "concurrency": "batch_size",
            "mean_input_tokens": "input_len",
            "mean_output_tokens": "output_len",
            "total_tokens_per_s": "overall_throughput",
        },
        {
            "ttft": ("prefill_latency | last_ttft", "", ""),
            "tpot": ("", "median_decode_latency", ""),
            "e2e": ("total_latency | latency", "", ""),
        },
        1.0,
        engine="sglang",
        sends="batch",
    ),
    _Tool(
        "llama-batched-bench",
        ("S_PP t/s", "S_TG t/s"),
        {
            "concurrency": "B",
            "mean_input_tokens": "PP",
            "mean_output_tokens": "TG",
            "total_tokens_per_s": "S t/s",
        },
        {"ttft": ("T_PP s", "", ""), "e2e": ("T s", "", "")},
        1.0,
        engine="llama.cpp",
        sends="batch",
    ),
    _Tool(
        "vllm bench latency",
        ("avg_latency", "percentiles"),
        {},
        {"e2e": ("avg_latency", "percentiles/50", "percentiles/99")},
        1.0,
        engine="vllm",
        sends="batch",
        notes=("one batch of --concurrency requests is timed",),
    ),
    _Tool(
        "vllm bench throughput",
        ("elapsed_time", "total_num_tokens", "requests_per_second"),
        {
            "num_requests": "num_requests",
            "total_tokens_per_s": "tokens_per_second",
            "requests_per_s": "requests_per_second",
        },
        {},
        1.0,
        engine="vllm",
        sends="at once",
    ),
    _Tool(
        "k6",
        ("http_req_duration", "http_reqs"),
        {
            "concurrency": "metrics/vus_max/values/value | metrics/vus_max/value",
            "num_requests": "metrics/http_reqs/values/count | metrics/http_reqs/count",
            "requests_per_s": "metrics/http_reqs/values/rate | metrics/http_reqs/rate",
        },
        {
            "e2e": (
                "metrics/http_req_duration/values/avg | metrics/http_req_duration/avg",
                "metrics/http_req_duration/values/med | metrics/http_req_duration/med",
                "metrics/http_req_duration/values/p(99) | metrics/http_req_duration/p(99)",
            )
        },
        MILLISECOND_S,
        notes=(_WHOLE,),
    ),
    _Tool(
        "locust",
        ("Average Response Time", "Request Count", "Failure Count"),
        {
            "num_requests": "Request Count",
            "num_failed": "Failure Count",
            "requests_per_s": "Requests/s",
        },
        {"e2e": ("Average Response Time", "50% | Median Response Time", "99%")},
        MILLISECOND_S,
        notes=(_WHOLE,),
    ),
    _Tool(
        "evalscope perf",
        ("Number of concurrency", "Average time to first token (s)"),
        {
            "concurrency": "Number of concurrency",
            "num_requests": "Succeed requests",
            "num_failed": "Failed requests",
            "mean_input_tokens": "Average input tokens per request",
            "mean_output_tokens": "Average output tokens per request",
            "output_tokens_per_s": "Output token throughput (tok/s)",
            "total_tokens_per_s": "Total token throughput (tok/s)",
            "requests_per_s": "Request throughput (req/s)",
        },
        {
            "ttft": ("Average time to first token (s)", "", ""),
            "tpot": ("Average time per output token (s)", "", ""),
            "e2e": ("Average latency (s)", "", ""),
        },
        1.0,
    ),
    _Tool(
        "JMeter",
        ("meanResTime", "pct3ResTime", "sampleCount"),
        {
            "num_requests": "Total/sampleCount | sampleCount",
            "num_failed": "Total/errorCount | errorCount",
            "requests_per_s": "Total/throughput | throughput",
        },
        {
            "e2e": (
                "Total/meanResTime | meanResTime",
                "Total/medianResTime | medianResTime",
                "Total/pct3ResTime | pct3ResTime",
            )
        },
        MILLISECOND_S,
        notes=(_WHOLE, "its third percentile is taken as the 99th, the default of JMeter"),
    ),
    _Tool(
        "Gatling",
        ("numberOfRequests", "meanResponseTime", "percentiles4"),
        {
            "num_requests": "stats/numberOfRequests/ok | numberOfRequests/ok",
            "num_failed": "stats/numberOfRequests/ko | numberOfRequests/ko",
            "requests_per_s": "stats/meanNumberOfRequestsPerSecond/ok | meanNumberOfRequestsPerSecond/ok",
        },
        {
            "e2e": (
                "stats/meanResponseTime/ok | meanResponseTime/ok",
                "stats/percentiles1/ok | percentiles1/ok",
                "stats/percentiles4/ok | percentiles4/ok",
            )
        },
        MILLISECOND_S,
        notes=(_WHOLE, "its percentiles are taken as the 50th and the 99th, the defaults of Gatling"),
    ),
    _Tool(
        "Artillery",
        ("http.response_time", "http.requests"),
        {
            "num_requests": "aggregate/counters/http.codes.200 | aggregate/counters/http.requests",
            "requests_per_s": "aggregate/rates/http.request_rate",
        },
        {
            "e2e": _percentiles("aggregate/summaries/http.response_time"),
        },
        MILLISECOND_S,
        notes=(_WHOLE,),
    ),
    _Tool(
        "Siege",
        ("transaction_rate", "response_time", "longest_transaction"),
        {
            "concurrency": "concurrency",
            "num_requests": "successful_transactions",
            "num_failed": "failed_transactions",
            "requests_per_s": "transaction_rate",
        },
        {"e2e": ("response_time", "", "")},
        1.0,
        notes=(_WHOLE, "its mean number of requests under way is taken as the number of clients"),
    ),
    _Tool(
        "oha or hey",
        ("requestsPerSec", "latencyPercentiles"),
        {"num_requests": "statusCodeDistribution/200", "requests_per_s": "summary/requestsPerSec"},
        {"e2e": ("summary/average", "latencyPercentiles/p50", "latencyPercentiles/p99")},
        1.0,
        notes=(_WHOLE,),
    ),
    _Tool(
        "wrk",
        ("Req/Sec", "Requests/sec"),
        {"concurrency": "connections", "num_requests": "requests", "requests_per_s": "Requests/sec"},
        {"e2e": ("Latency", "50%", "99%")},
        1.0,
        notes=(_WHOLE,),
    ),
    _Tool(
        "vegeta",
        ("latencies", "bytes_in", "status_codes"),
        {"request_rate_per_s": "rate", "num_requests": "requests", "requests_per_s": "throughput"},
        {"e2e": ("latencies/mean", "latencies/50th", "latencies/99th")},
        1e-9,
        notes=(_WHOLE,),
    ),
    _Tool(
        "MLPerf Offline",
        ("SUT name", "Offline"),
        {
            "num_requests": "qsl_reported_performance_count",
            "output_tokens_per_s": "Tokens per second",
            "requests_per_s": "Samples per second",
        },
        {},
        1.0,
        sends="at once",
    ),
    _Tool(
        "MLPerf Server",
        ("SUT name", "Server"),
        {
            "request_rate_per_s": "Scheduled samples per second",
            "output_tokens_per_s": "Completed tokens per second",
            "requests_per_s": "Completed samples per second",
        },
        {
            "ttft": (
                "Mean First Token latency (ns)",
                "50.00 percentile first token latency (ns)",
                "99.00 percentile first token latency (ns)",
            ),
            "tpot": (
                "Mean Time to Output Token (ns)",
                "50.00 percentile time to output token (ns)",
                "99.00 percentile time to output token (ns)",
            ),
        },
        1e-9,
    ),
)
"""Tools that are read.

Source: ray-project/llmperf token_benchmark_ray.py; kubernetes-sigs/inference-perf inference_perf/reportgen/base.py;
NVIDIA/TensorRT-LLM tensorrt_llm/bench/dataclasses/reporting.py (--report_json); sgl-project/sglang
bench_one_batch.py, bench_one_batch_server.py; ggml-org/llama.cpp tools/batched-bench; vllm-project/vllm
vllm/benchmarks/latency.py, throughput.py (--output-json); Grafana k6 (summary export); Locust (_stats.csv);
modelscope/evalscope perf; hatoo/oha (--output-format json), rakyll/hey; wg/wrk; tsenart/vegeta (report -type=json);
Apache JMeter (statistics.json of its report); Gatling (global_stats.json); artilleryio/artillery (report);
JoeDog/siege (JSON);
mlcommons/inference loadgen (mlperf_log_summary.txt).
"""
_TITLE: Final = (
    "result of llmperf, inference-perf, trtllm-bench, bench_one_batch, batched-bench, evalscope, MLPerf, k6, Locust, "
    "JMeter, Gatling, Artillery, Siege, oha, hey, wrk or vegeta"
)
_LATENCY: Final = re.compile(r"^Avg latency: ([\d.e-]+) seconds", re.MULTILINE)
_PERCENTILE: Final = re.compile(r"^(\d+)% percentile latency: ([\d.e-]+) seconds", re.MULTILINE)
_TABLE: Final = re.compile(r"^\|\s*PP\s*\|.*\bS_PP t/s\s*\|.*\bS_TG t/s\s*\|", re.MULTILINE)
_SUMMARY: Final = re.compile(r"^Summary:\s*$.*^\s+Requests/sec:", re.MULTILINE | re.DOTALL)
"""Printed summary of oha and hey, whose figures are those of oha's JSON."""
_SHARES: Final = re.compile(r"^\s+(\d+)(?:\.00)?%%? in ([\d.]+) (m?s)ecs?", re.MULTILINE)
_WRK: Final = re.compile(r"^\s+Thread Stats\s.*^Requests/sec:", re.MULTILINE | re.DOTALL)
_SPAN: Final = re.compile(r"^\s+(Latency|\d+%)\s+([\d.]+)(us|ms|s|m)\b", re.MULTILINE)
_UNITS_S: Final = {"us": MICROSECOND_S, "ms": MILLISECOND_S, "s": 1.0, "m": MINUTE_S}
_MLPERF: Final = re.compile(r"^SUT name\s*:.*^Scenario\s*:", re.MULTILINE | re.DOTALL)
_PRINTED: Final = (_LATENCY, _TABLE, _SUMMARY, _WRK, _MLPERF)
_QUANTISED: Final = {"fp8": "fp8", "nvfp4": "nvfp4", "w4a8_mxfp4_mxfp8": "mxfp4"}


def read_flat_results(text: str) -> tuple[BenchmarkResult, ...]:
    """Return the results of a flat file, one for each of its objects or rows.

    Raises: InputFileError: the text is not whole, or no object in it has a figure.
    """
    found = [
        (tool, one)
        for one in _objects(text)
        for tool in _TOOLS
        if all(_holds(one, mark) for mark in tool.marks)
    ]
    if not found:
        tool = _tool_of(text)
        name = tool.id if tool else "the benchmark"
        raise InputFileError(
            f"no whole result of {name} in the text",
            why="it ends in the middle",
            fix="give the whole file as it was written",
        )
    return tuple(require_figures(_result(tool, one), f"result of {tool.id}") for tool, one in found)


def _holds(found: Any, mark: str) -> bool:
    """Whether a key occurs in an object or in the objects within it."""
    return isinstance(found, Mapping) and (
        mark in found or any(_holds(inner, mark) for inner in found.values())
    )


def _objects(text: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of JSON, of JSON lines, of a table or of CSV; a line that was cut is left out."""
    if printed := _LATENCY.search(text):
        yield {"avg_latency": printed[1], "percentiles": dict(_PERCENTILE.findall(text))}
    elif _TABLE.search(text):
        yield from _table_rows(text)
    elif any(printed.search(text) for printed in _PRINTED):
        yield _printed_summary(text)
    elif text.lstrip()[:1] not in ("{", "["):
        rows = csv.DictReader(io.StringIO(text))
        yield from (row for row in rows if row.get("Name") == "Aggregated")
    else:
        yield from json_objects(text)


def _printed_summary(text: str) -> Mapping[str, Any]:
    """Return the figures of a summary printed for people as its program's JSON has them, else by their names."""
    named = {
        name.strip(): value for name, value in re.findall(r"^([^:\n]+?)\s*:\s+(\S+)", text, re.MULTILINE)
    }
    if _WRK.search(text):
        spans = {name: float(value) * _UNITS_S[unit] for name, value, unit in reversed(_SPAN.findall(text))}
        counts = re.findall(r"(\d+) (connections|requests)\b", text)
        return {**named, **spans, "Req/Sec": "", **{name: count for count, name in counts}}
    if not _SUMMARY.search(text):
        return {**named, str(named.get("Scenario")): ""}
    shares = {f"p{share}": float(value) * _UNITS_S[unit] for share, value, unit in _SHARES.findall(text)}
    answered = re.search(r"\[200\]\s+(\d+) responses", text)
    return {
        "summary": {"average": named.get("Average"), "requestsPerSec": named.get("Requests/sec")},
        "latencyPercentiles": shares,
        "statusCodeDistribution": {"200": answered[1]} if answered else {},
    }


def _table_rows(text: str) -> Iterator[Mapping[str, str]]:
    """Yield the rows of llama-batched-bench's table.

    Raises: InputFileError: its sequences share one prompt, which is computed once for all of them.
    """
    if re.search(r"is_pp_shared = [1t]", text):
        raise InputFileError(
            "the sequences of this llama-batched-bench share one prompt (-pps)",
            why="its prompt is computed once, and a server that reuses it is another question",
            fix="run it without -pps",
        )
    names: list[str] = []
    for line in without_prefixes(text):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if "S_PP t/s" in cells:
            names = cells
        elif len(cells) == len(names) and cells[0].isdigit():
            yield dict(zip(names, cells, strict=True))


def _value(found: Mapping[str, Any], places: str) -> Any:
    """Return the value at the first place that has one; None if none has."""
    for place in places.split(" | "):
        value: Any = found
        for key in [place] if place in found else place.split("/"):
            value = value.get(key) if isinstance(value, Mapping) else None
        if value not in (None, ""):
            return value
    return None


def _result(tool: _Tool, found: Mapping[str, Any]) -> BenchmarkResult:
    numbers = {name: number_of(_value(found, places)) for name, places in tool.numbers.items()}
    whole = {
        name: round(numbers.pop(name) or 0) or None
        for name in ("concurrency", "num_requests", "num_failed", "tensor_parallel", "expert_parallel")
        if numbers.get(name) is not None
    }
    if tool.sends == "batch":
        whole["num_requests"] = whole["max_num_seqs"] = whole.get("concurrency")
    if tool.sends == "at once":
        numbers["request_rate_per_s"] = float("inf")
    if tool.requests_per_minute:
        numbers["requests_per_s"] = multiply(_value(found, tool.requests_per_minute), 1 / 60)
    times = {
        name: MeasuredTimes(*(multiply(_value(found, place), tool.unit_s) or None for place in places))
        for name, places in tool.times.items()
    }
    found_fields: dict[str, Any] = numbers | whole | {str(name): value for name, value in times.items()}
    return BenchmarkResult(
        tool=tool.id,
        model=str(_value(found, tool.model) or "") if tool.model else "",
        engine=tool.engine,
        weight_dtype=_QUANTISED.get(str(_value(found, tool.weight_dtype)).lower(), "")
        if tool.weight_dtype
        else "",
        length_dist="fixed" if tool.sends == "batch" else "mean",
        notes=tool.notes,
        **found_fields,
    )


def _tool_of(text: str) -> _Tool | None:
    """Return the tool that wrote a text, which may be cut in the middle; None if none of these did."""
    if _LATENCY.search(text):
        return next(tool for tool in _TOOLS if tool.id == "vllm bench latency")
    if _TABLE.search(text):
        return next(tool for tool in _TOOLS if tool.id == "llama-batched-bench")
    if any(printed.search(text) for printed in _PRINTED):
        found = _printed_summary(text)
        return next((tool for tool in _TOOLS if all(_holds(found, mark) for mark in tool.marks)), None)
    head = text.lstrip("\ufeff").partition("\n")[0]
    return next(
        (
            tool
            for tool in _TOOLS
            if has_keys(text, *tool.marks) or all(mark in head.split(",") for mark in tool.marks)
        ),
        None,
    )


FORMAT: Final = FileFormat(
    "flat-results", _TITLE, "serving benchmark", lambda text: _tool_of(text) is not None, read_flat_results
)
