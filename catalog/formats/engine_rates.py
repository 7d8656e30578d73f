"""Lines in which a running vLLM or SGLang reports how many requests it serves and how many tokens it generates."""

import re
import statistics
from collections import Counter
from collections.abc import Mapping
from typing import Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.formats.benchmark_result import BenchmarkResult, MeasuredTimes
from advisor.catalog.formats.file_format import FileFormat

_TITLE: Final = "rates that a running vLLM or SGLang logs"
_LINES: Final[Mapping[str, re.Pattern[str]]] = {
    "vllm": re.compile(
        r"Avg prompt throughput: (?P<prompt>[\d.]+) tokens/s, Avg generation throughput: (?P<rate>[\d.]+) tokens/s, "
        r"Running: (?P<running>\d+) reqs"
    ),
    "sglang": re.compile(
        r"Decode batch[.,] #running-req: (?P<running>\d+), #token: (?P<tokens>\d+),[^\n]{0,200}?"
        r"gen throughput \(token/s\): (?P<rate>[\d.]+)"
    ),
}
"""Lines by the engine that prints them. Source: vllm v1/metrics/loggers.py, engine/metrics.py; sglang
managers/scheduler_metrics_mixin.py."""


def read_engine_rates(text: str) -> tuple[BenchmarkResult, ...]:
    """Return the rate with the most frequent number of running requests as one load.

    Where no prompt is computed, each request has a token in every step: the time of one is requests over rate.

    Raises: InputFileError: no line has a request that generates.
    """
    engine, form = next((name, form) for name, form in _LINES.items() if form.search(text))
    lines = [found for found in form.finditer(text) if int(found["running"]) and float(found["rate"])]
    if not lines:
        raise InputFileError(
            "no line of the log has a request that generates tokens",
            why="every line was written while the server was idle",
            fix="give the lines that were logged under load",
        )
    (running, _), *_ = Counter(int(found["running"]) for found in lines).most_common(1)
    kept = [found.groupdict() for found in lines if int(found["running"]) == running]
    rate = statistics.fmean(float(found["rate"]) for found in kept)
    decoding = [float(found["rate"]) for found in kept if not float(found.get("prompt") or 0.0)]
    held = [int(found["tokens"]) / running for found in kept if found.get("tokens")]
    notes = [f"{len(kept)} of {len(lines)} lines have {running} running requests, and are taken"]
    if held:
        notes.append("the prompt is taken as the tokens that a running request holds in the mean")
    return (
        BenchmarkResult(
            tool="the log",
            engine=engine,
            concurrency=running,
            mean_input_tokens=round(statistics.fmean(held)) if held else None,
            tpot=MeasuredTimes(running / statistics.fmean(decoding) if decoding else None),
            output_tokens_per_s=None if len(decoding) == len(kept) else rate,
            notes=tuple(notes),
        ),
    )


def _is_engine_rates(text: str) -> bool:
    return any(form.search(text) for form in _LINES.values())


FORMAT: Final = FileFormat("engine-rates", _TITLE, "serving benchmark", _is_engine_rates, read_engine_rates)
