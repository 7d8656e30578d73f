"""Reports of `trtllm-bench throughput` and `trtllm-bench latency` as they are printed."""

import re
from collections.abc import Mapping
from typing import Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.formats.benchmark_result import (
    BenchmarkResult,
    MeasuredTimes,
    multiply,
    number_of,
    require_figures,
    whole_of,
)
from advisor.catalog.formats.file_format import FileFormat
from advisor.catalog.formats.launcher_lines import without_prefixes
from advisor.catalog.units import MILLISECOND_S

_TITLE: Final = "report of trtllm-bench"
_LINE: Final = re.compile(r"^(.+?)\s*:\s+(\S+)\s*$")
_FORMATS: Final[Mapping[str, str]] = {"fp8": "fp8", "nvfp4": "nvfp4", "w4a8_mxfp4_mxfp8": "mxfp4", "none": ""}


def read_trtllm_bench(text: str) -> tuple[BenchmarkResult, ...]:
    """Return the result of a report.

    Raises: InputFileError: the report holds no figure; it was cut before its overview.
    Source: NVIDIA/TensorRT-LLM, tensorrt_llm/bench/dataclasses/reporting.py.
    """
    found: dict[str, str] = {}
    for line in without_prefixes(text):
        printed = _LINE.match(line.strip())
        if printed:
            found[" ".join(printed[1].split()).lower()] = printed[2]
    if "request throughput (req/sec)" not in found:
        raise InputFileError(
            f"the {_TITLE} has no request throughput",
            why="it ends before its performance overview",
            fix="give all that trtllm-bench printed",
        )
    clients = number_of(found.get("number of concurrent requests"))
    notes = ("its mean number of requests under way is taken as the number of clients",) if clients else ()
    quantised = found.get("quantization", "").lower()
    result = BenchmarkResult(
        tool="trtllm-bench",
        model=found.get("model", ""),
        concurrency=max(1, round(clients)) if clients else None,
        num_requests=whole_of(found.get("number of requests")),
        mean_input_tokens=number_of(found.get("average input length (tokens)")),
        mean_output_tokens=number_of(found.get("average output length (tokens)")),
        length_dist="mean",
        ttft=_times(found, "[ttft]", "average time-to-first-token [ttft] (ms)"),
        tpot=_times(found, "[tpot]", "average time-per-output-token [tpot] (ms)"),
        e2e=_times(found, "[latency]", "average request latency (ms)"),
        output_tokens_per_s=number_of(found.get("total output throughput (tokens/sec)")),
        total_tokens_per_s=number_of(found.get("total token throughput (tokens/sec)")),
        requests_per_s=number_of(found["request throughput (req/sec)"]),
        engine="tensorrt-llm",
        tensor_parallel=whole_of(found.get("tp size")),
        expert_parallel=whole_of(found.get("ep size")),
        weight_dtype=_FORMATS.get(quantised, ""),
        notes=notes,
    )
    return (require_figures(result, _TITLE),)


def _times(found: Mapping[str, str], label: str, mean: str) -> MeasuredTimes:
    """Return a latency from its mean and its breakdown, both in milliseconds."""
    values = (
        found.get(mean) or found.get(f"{label} average"),
        found.get(f"{label} p50"),
        found.get(f"{label} p99"),
    )
    return MeasuredTimes(*(multiply(value, MILLISECOND_S) or None for value in values))


def _is_trtllm_bench(text: str) -> bool:
    return bool(
        re.search(r"^\W*=\s*(?:PYTORCH|_AUTODEPLOY|ENGINE|TENSORRT) ?(?:BACKEND|DETAILS)", text, re.MULTILINE)
    ) or ("= PERFORMANCE OVERVIEW" in text and "Request Throughput (req/sec)" in text)


FORMAT: Final = FileFormat("trtllm-bench", _TITLE, "serving benchmark", _is_trtllm_bench, read_trtllm_bench)
