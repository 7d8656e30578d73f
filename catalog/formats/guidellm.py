"""Results of GuideLLM: a JSON file with one benchmark for each load, or the tables that it prints."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
from advisor.catalog.formats.launcher_lines import without_prefixes
from advisor.catalog.units import MILLISECOND_S

_TITLE: Final = "result of guidellm"
_AT_ONCE: Final = "throughput"
_CSV: Final = re.compile(r"\ufeff?(?:Run Info,|Type,Run Id,)")
"""Beginning of the header of a CSV, before release 0.4 and since."""
_PRINTED: Final = re.compile(
    r"Request Latency Statistics \(Completed|^\s*#?\s*Metadata\s*\| Request Stats", re.MULTILINE
)
_SEPARATOR: Final = re.compile(r"\s*\|?(?:[-=]{2,}\|)+[-=]{2,}\|?\s*")
_PLACES: Final[Mapping[str, re.Pattern[str]]] = {
    name: re.compile(pattern, re.IGNORECASE)
    for name, pattern in {
        "requests": r"requests made comp",
        "inputs": r"(?:prompt|input) tok(?:/req| per req) (?:comp|mdn|mean)",
        "outputs": r"output tok(?:/req| per req) (?:comp|mdn|mean)",
        "per_s": r"request(?: stat)?s per sec(?:ond)?(?: mean)?",
        "clients": r"request(?: stat)?s concurrency(?: mdn| mean)?",
        "output_rate": r"(?:out tok/sec|output tokens per sec) mean",
        "total_rate": r"total tokens per sec mean",  # early releases count prompts twice
        "e2e": r"req(?:uest)? latency (?:\(\w+\)|sec)(?P<statistic> mean| median| mdn| p99)",
        "ttft": r"ttft (?:\(ms\)|ms)(?P<statistic> mean| median| mdn| p99)",
        "itl": r"itl (?:\(ms\)|ms)(?P<statistic> mean| median| mdn| p99)",
    }.items()
}
"""Titles of columns, groups and statistics joined, by what they hold. Early releases write ms over whole requests in
seconds."""
_STRATEGY: Final = re.compile(r"(synchronous|throughput|constant|poisson|async|concurrent)(?:@([\d.]+))?")


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
    if _PRINTED.search(text):
        return tuple(require_figures(one, _TITLE) for one in _printed_results(text))
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


def _printed_results(text: str) -> Iterator[BenchmarkResult]:
    """Yield the results of the printed tables, whose rows are the loads in one order.

    Source: vllm-project/guidellm 0.2 to 0.5, src/guidellm/benchmark/output.py and outputs/console.py.
    """
    loads: dict[tuple[str, int], dict[str, float]] = {}
    for titles, rows in _tables(text):
        seen: Counter[str] = Counter()
        for row in rows:
            label = row[0].strip("# ")
            if not _STRATEGY.fullmatch(label):
                continue
            load = loads.setdefault((label, seen[label]), {})
            seen[label] += 1
            for title, cell in zip(titles, row, strict=False):
                for name, pattern in _PLACES.items():
                    if (found := pattern.fullmatch(title)) and (number := number_of(cell)) is not None:
                        statistic = found.groupdict().get("statistic") or ""
                        load.setdefault(name + statistic.lower().replace("mdn", "median"), number)
    for (label, _), load in loads.items():
        strategy = _STRATEGY.fullmatch(label)
        assert strategy is not None
        yield _printed_result(strategy[1], number_of(strategy[2]), load)


def _printed_result(kind: str, number: float | None, load: Mapping[str, float]) -> BenchmarkResult:
    clients = (
        1.0 if kind == "synchronous" else number or load.get("clients") if kind == "concurrent" else None
    )
    rate = float("inf") if kind == _AT_ONCE else None if clients else number or load.get("per_s")
    times = {
        name: MeasuredTimes(
            *(multiply(load.get(f"{name} {part}") or None, factor) for part in ("mean", "median", "p99"))
        )
        for name, factor in (("ttft", MILLISECOND_S), ("itl", MILLISECOND_S), ("e2e", 1.0))
    }
    notes = (
        ("the rate at which requests were sent is taken as that of answers",) if rate and not number else ()
    )
    return BenchmarkResult(
        tool="guidellm",
        concurrency=round(clients) if clients else None,
        request_rate_per_s=rate,
        num_requests=whole_of(load.get("requests")),
        mean_input_tokens=load.get("inputs"),
        mean_output_tokens=load.get("outputs"),
        ttft=times["ttft"],
        tpot=times["itl"],
        e2e=times["e2e"],
        output_tokens_per_s=load.get("output_rate"),
        total_tokens_per_s=load.get("total_rate"),
        requests_per_s=load.get("per_s"),
        notes=notes if kind != _AT_ONCE else (),
    )


def _tables(text: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Yield the titles of the columns and the rows of each printed table. A title over several columns has as many bars
    behind it."""
    head: list[list[str]] = []
    rows: list[list[str]] = []
    is_below = False
    lines = text.splitlines()
    if not any(re.match(r"\s*(?:#\s*)?(?:Metadata\s*)?\|", line) for line in lines):
        lines = list(without_prefixes(text))
    for line in [*lines, ""]:
        plain = line.strip().removeprefix("#").strip()
        if _SEPARATOR.fullmatch(plain):
            is_below = bool(head)
        elif "|" in plain:
            cells = _spread(plain)
            (rows if is_below else head).append(cells)
        elif head or rows:
            if rows:
                yield _titles(head), rows
            head = []
            rows = []
            is_below = False


def _spread(line: str) -> list[str]:
    """Return the cells of a row, those over several columns once for each."""
    parts = re.findall(r"([^|]+)(\|*)", line.removeprefix("|"))
    return [cell.strip() for cell, bars in parts for _ in range(max(1, len(bars)))]


def _titles(head: Sequence[Sequence[str]]) -> list[str]:
    width = max(map(len, head))
    full = [[*row, *[row[-1]] * (width - len(row))] for row in head]
    return [" ".join(dict.fromkeys(filter(None, column))) for column in zip(*full, strict=True)]


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
    return bool(_CSV.match(text) or _PRINTED.search(text)) or (
        has_keys(text, "benchmarks", "metrics")
        and ("time_to_first_token_ms" in text or "guidellm" in text.lower())
    )


FORMAT: Final = FileFormat("guidellm", _TITLE, "serving benchmark", _is_guidellm, read_guidellm)
