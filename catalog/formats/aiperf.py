"""Results of AIPerf and of GenAI-Perf, its predecessor: JSON or CSV of metrics that each state their unit."""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.formats.benchmark_result import (
    BenchmarkResult,
    MeasuredTimes,
    multiply,
    number_of,
    rate_of,
    require_figures,
    seconds_in,
    whole_of,
)
from advisor.catalog.formats.file_format import FileFormat, has_keys, read_object

_TITLE: Final = "result of AIPerf or GenAI-Perf"
_HEAD: Final = re.compile(r"^Metric,(?:avg|Value)\b", re.MULTILINE)
_METRIC: Final = re.compile(r"^(.*?)\s*(?:\(([^()]*)\))?$")
_TOKEN_RATES: Final = ("tokens/sec", "tokens/s", "tokens/second")
_REQUEST_RATES: Final = ("requests/sec", "requests/s", "requests/second")
_SPREAD_OF_FIXED: Final = 0.02
"""Largest standard deviation over mean of lengths that count as fixed: tokenizers add and drop single tokens."""


def read_aiperf(text: str) -> tuple[BenchmarkResult, ...]:
    """Return the result of a `profile_export_aiperf` or `profile_export_genai_perf`, as JSON or CSV.

    Raises: InputFileError: the text is not whole, holds no figure, or a metric has no unit or an unknown one.
    Source: ai-dynamo/aiperf docs/reference/json-export-schema.md; triton-inference-server/perf_analyzer genai-perf.
    """
    found = _of_csv(text) if _HEAD.search(text) else read_object(text, _TITLE)
    records = found.get("records")
    metrics = records if isinstance(records, Mapping) else found
    typed = found.get("input_config")
    settings = dict(_leaves(typed)) if isinstance(typed, Mapping) else {}
    concurrency = whole_of(settings.get("concurrency")) or None
    rate = rate_of(settings.get("request_rate"))
    lacks = "a CSV export has no settings" if _HEAD.search(text) else "the file has no input_config"
    notes = () if settings else (f"{lacks}: it does not say how requests were sent",)
    result = BenchmarkResult(
        tool="aiperf" if "aiperf" in text.lower() else "genai-perf",
        model=_model(settings),
        concurrency=concurrency if rate is None else None,
        request_rate_per_s=rate,
        num_requests=whole_of(_value(metrics, "request_count")) or whole_of(settings.get("request_count")),
        num_failed=whole_of(_value(metrics, "error_request_count")),
        mean_input_tokens=_value(metrics, "input_sequence_length"),
        mean_output_tokens=_value(metrics, "output_sequence_length"),
        length_dist=_length_dist(metrics),
        ttft=_times(metrics, "time_to_first_token"),
        tpot=_times(metrics, "inter_token_latency"),
        e2e=_times(metrics, "request_latency"),
        output_tokens_per_s=_rate(metrics, "output_token_throughput", _TOKEN_RATES),
        total_tokens_per_s=_rate(metrics, "total_token_throughput", _TOKEN_RATES),
        requests_per_s=_rate(metrics, "request_throughput", _REQUEST_RATES),
        notes=notes,
    )
    return (require_figures(result, _TITLE),)


def _of_csv(text: str) -> Mapping[str, Any]:
    """Return the metrics of a CSV export by name; each states its unit behind its name, `Request Latency (ms)`.

    A rate is `(per sec)` in GenAI-Perf and `(tokens/sec)` in AIPerf.
    """
    found: dict[str, Any] = {}
    names: list[str] = []
    for cells in csv.reader(io.StringIO(text)):
        if not cells:
            continue
        if cells[0] == "Metric":
            names = cells
            continue
        titled = _METRIC.match(cells[0])
        if titled is None or len(cells) != len(names):
            continue
        name = titled[1].strip().lower().replace(" ", "_")
        unit = (titled[2] or "").strip()
        if unit == "per sec":
            unit = "requests/sec" if name == "request_throughput" else "tokens/sec"
        values = {label: cell.replace(",", "") for label, cell in zip(names[1:], cells[1:], strict=True)}
        if "Value" in values:
            values["avg"] = values.pop("Value")
        found[name] = {"unit": unit, **values}
    return found


def _leaves(typed: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield names and values of nested settings, inner ones first, so that outer ones win."""
    for value in typed.values():
        if isinstance(value, Mapping):
            yield from _leaves(value)
    yield from (
        (name, value) for name, value in typed.items() if value is not None and not isinstance(value, Mapping)
    )


def _model(settings: Mapping[str, Any]) -> str:
    for name in ("model_names", "model", "models", "model_name"):
        value = settings.get(name)
        first = value[0] if isinstance(value, list) and value else value
        if isinstance(first, str):
            return first
    return ""


def _metric(metrics: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = metrics.get(name)
    return found if isinstance(found, Mapping) else {}


def _value(metrics: Mapping[str, Any], name: str) -> float | None:
    return number_of(_metric(metrics, name).get("avg"))


def _times(metrics: Mapping[str, Any], name: str) -> MeasuredTimes:
    found = _metric(metrics, name)
    if not found:
        return MeasuredTimes()
    factor = seconds_in(found.get("unit"), name)
    mean, p50, p99 = (multiply(found.get(part), factor) for part in ("avg", "p50", "p99"))
    return MeasuredTimes(mean or None, p50 or None, p99 or None)


def _rate(metrics: Mapping[str, Any], name: str, units: tuple[str, ...]) -> float | None:
    found = _metric(metrics, name)
    if found and str(found.get("unit")).lower() not in units:
        raise InputFileError(
            f"{name} is in {found.get('unit')!r}",
            why=f"read are {', '.join(units)}",
            fix="give the file as it was written",
        )
    return number_of(found.get("avg"))


def _length_dist(metrics: Mapping[str, Any]) -> str:
    spreads = [
        (number_of(_metric(metrics, name).get("std")), _value(metrics, name))
        for name in ("input_sequence_length", "output_sequence_length")
    ]
    if any(spread is None or not mean for spread, mean in spreads):
        return ""
    return "fixed" if all((s or 0.0) <= _SPREAD_OF_FIXED * (m or 0.0) for s, m in spreads) else "mean"


def _is_aiperf(text: str) -> bool:
    if _HEAD.search(text):
        return "Token" in text or "Request" in text
    return has_keys(text, "time_to_first_token", "unit") or has_keys(
        text, "output_token_throughput", "unit", "avg"
    )


FORMAT: Final = FileFormat("aiperf", _TITLE, "serving benchmark", _is_aiperf, read_aiperf)
