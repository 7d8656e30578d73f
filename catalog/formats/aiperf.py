"""Results of AIPerf and of GenAI-Perf, its predecessor: JSON, CSV, one line a request or the printed table; each metric
states its unit."""

import csv
import io
import re
import statistics
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
from advisor.catalog.formats.file_format import FileFormat, has_keys, json_object, read_object
from advisor.catalog.units import NANOSECOND_S

_TITLE: Final = "result of AIPerf or GenAI-Perf"
_HEAD: Final = re.compile(r"^Metric,(?:avg|Value)\b", re.MULTILINE)
_NAMES_OF_TABLE: Final = ("Statistic", "Metric")
_TABLE: Final = re.compile(r"^\s*[┃│|]\s*(?:Statistic|Metric)\s*[┃│|]\s*avg\s*[┃│|]", re.MULTILINE)
_METRIC: Final = re.compile(r"^(.*?)\s*(?:\(([^()]*)\))?$")
_TOKEN_RATES: Final = ("tokens/sec", "tokens/s", "tokens/second", "tok/s", "tok/sec")
_REQUEST_RATES: Final = ("requests/sec", "requests/s", "requests/second", "req/s", "req/sec")
_SPREAD_OF_FIXED: Final = 0.02
"""Largest standard deviation over mean of lengths that count as fixed: tokenizers add and drop single tokens."""


def read_aiperf(text: str) -> tuple[BenchmarkResult, ...]:
    """Return the result of a `profile_export_aiperf` or `profile_export_genai_perf`, as JSON or CSV.

    Raises: InputFileError: the text is not whole, holds no figure, or a metric has no unit or an unknown one.
    Source: ai-dynamo/aiperf docs/reference/json-export-schema.md; triton-inference-server/perf_analyzer genai-perf.
    """
    if _is_of_requests(text):
        found = _of_requests(text)
    elif _TABLE.search(text):
        found = _of_csv("\n".join(_rows_of_table(text)))
    else:
        found = _of_csv(text) if _HEAD.search(text) else read_object(text, _TITLE)
    records = found.get("records")
    metrics = records if isinstance(records, Mapping) else found
    typed = found.get("input_config")
    settings = dict(_leaves(typed)) if isinstance(typed, Mapping) else {}
    concurrency = whole_of(settings.get("concurrency")) or None
    rate = rate_of(settings.get("request_rate"))
    is_json = text.lstrip()[:1] == "{" and not _is_of_requests(text)
    lacks = "the file has no input_config" if is_json else "only the JSON export has settings"
    notes = () if settings else (f"{lacks}: it does not say how requests were sent",)
    result = BenchmarkResult(
        tool="aiperf" if "aiperf" in text.lower() else "genai-perf",
        model=_model(settings),
        concurrency=concurrency if rate is None else None,
        request_rate_per_s=rate,
        num_requests=whole_of(_value(metrics, "request_count")) or whole_of(settings.get("request_count")),
        num_failed=whole_of(_value(metrics, "error_request_count")),
        mean_input_tokens=_value(metrics, "input_sequence_length"),
        mean_output_tokens=_value(metrics, "output_sequence_length") or _value(metrics, "output_token_count"),
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


def _rows_of_table(text: str) -> Iterator[str]:
    """Yield the rows of the printed table as those of the CSV export, and the rates that earlier releases print below
    it; a name that is wrapped goes on in rows without values."""
    rows: list[list[str]] = []
    for line in text.splitlines():
        cells = [cell.strip().replace(",", "") for cell in re.split("[│┃|]", line)[1:-1]]
        if rows and len(cells) == len(rows[-1]) and cells[0] and not any(cells[1:]):
            rows[-1][0] += f" {cells[0]}"
        elif len(cells) > 1 and cells[0]:
            rows.append(["Metric" if cells[0] in _NAMES_OF_TABLE else cells[0], *cells[1:]])
    below = [[name, rate.replace(",", "")] for name, rate in _RATES_BELOW.findall(text)] if rows else []
    rows += [[*cells, *[""] * (len(rows[0]) - len(cells))] for cells in below]
    yield from map(",".join, rows)


_RATES_BELOW: Final = re.compile(
    r"^\s*((?:Output token|Request) throughput \(per sec\)):\s*([\d.,]+)\s*$", re.MULTILINE
)
"""Rates that early releases of GenAI-Perf print below their table."""


def _is_of_requests(text: str) -> bool:
    return has_keys(text, "metadata", "metrics", "request_latency") and "request_start_ns" in text


def _of_requests(text: str) -> Mapping[str, Any]:
    """Return the metrics of an export with one line a request: means and percentiles over those that succeeded, in the
    phase that counts, and rates over the time from the first start to the last end.

    Raises: InputFileError: no line is whole.
    """
    rows = [one for line in text.splitlines() if (one := json_object(line)) and one.get("metrics")]
    rows = [one for one in rows if one["metadata"].get("benchmark_phase", "profiling") == "profiling"]
    values: dict[str, list[float]] = {}
    units: dict[str, str] = {}
    for one in rows:
        for name, metric in one["metrics"].items():
            number = number_of(metric.get("value")) if isinstance(metric, Mapping) else None
            if number is not None:
                values.setdefault(name, []).append(number)
                units[name] = metric.get("unit")
    spans = [
        (number_of(one["metadata"].get("request_start_ns")), number_of(one["metadata"].get("request_end_ns")))
        for one in rows
    ]
    whole = [(start, end) for start, end in spans if start is not None and end is not None and end > start]
    found: dict[str, Any] = {name: _statistics(numbers, units[name]) for name, numbers in values.items()}
    if whole and len(whole) == len(rows):
        seconds = (max(end for _, end in whole) - min(start for start, _ in whole)) * NANOSECOND_S
        tokens = sum(values.get("output_sequence_length", ()))
        found["request_throughput"] = {"unit": "requests/sec", "avg": len(rows) / seconds}
        found["output_token_throughput"] = {"unit": "tokens/sec", "avg": tokens / seconds}
    return found | {"request_count": {"unit": "requests", "avg": len(rows)}}


def _statistics(numbers: list[float], unit: str) -> Mapping[str, Any]:
    """Return mean, median, 99th percentile and spread of a metric, as the other exports state them."""
    ordered = sorted(numbers)
    p99 = ordered[min(len(ordered) - 1, round(0.99 * (len(ordered) - 1)))]
    return {
        "unit": unit,
        "avg": statistics.fmean(numbers),
        "p50": statistics.median(numbers),
        "p99": p99,
        "std": statistics.pstdev(numbers),
    }


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
    if _HEAD.search(text) or _TABLE.search(text):
        return "Token" in text or "Request" in text
    return has_keys(text, "time_to_first_token", "unit") or has_keys(
        text, "output_token_throughput", "unit", "avg"
    )


FORMAT: Final = FileFormat("aiperf", _TITLE, "serving benchmark", _is_aiperf, read_aiperf)
