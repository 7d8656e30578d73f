"""Results of `vllm bench serve` and SGLang's `bench_serving`: JSON, JSON lines, or the printed summary; and the line of
`vllm bench throughput`."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.formats.benchmark_result import (
    BenchmarkResult,
    MeasuredTimes,
    length_of,
    multiply,
    number_of,
    rate_of,
    ratio_of,
    require_figures,
    whole_of,
)
from advisor.catalog.formats.documents import json_objects
from advisor.catalog.formats.file_format import FileFormat, has_keys, json_object
from advisor.catalog.formats.launcher_lines import without_prefixes
from advisor.catalog.units import MILLISECOND_S

_TITLE: Final = "result of vllm bench serve"
_HEAD: Final = re.compile(r"(?<!=)=+ (Serving|Offline Throughput) Benchmark Result =+")
_PRINTED: Final = re.compile(r"^#?\s*([A-Za-z0-9][^:]*?)\s*:\s*(\S+)(?:\s*|\s+(?:#|//|←|<-).*)$")
"""A figure of the printed summary, with what may be written behind it."""
_NAMES: Final[Mapping[str, str]] = {
    "Successful requests": "completed",
    "Failed requests": "failed",
    "Maximum request concurrency": "max_concurrency",
    "Max request concurrency": "max_concurrency",
    "Traffic request rate": "request_rate",
    "Request rate configured (RPS)": "request_rate",
    "Backend": "backend",
    "Benchmark duration (s)": "duration",
    "Total input tokens": "total_input_tokens",
    "Total generated tokens": "total_output_tokens",
    "Request throughput (req/s)": "request_throughput",
    "Output token throughput (tok/s)": "output_throughput",
    "Total token throughput (tok/s)": "total_token_throughput",
    "Mean TTFT (ms)": "mean_ttft_ms",
    "Median TTFT (ms)": "median_ttft_ms",
    "P99 TTFT (ms)": "p99_ttft_ms",
    "Mean TPOT (ms)": "mean_tpot_ms",
    "Median TPOT (ms)": "median_tpot_ms",
    "P99 TPOT (ms)": "p99_tpot_ms",
    "Mean ITL (ms)": "mean_itl_ms",
    "Median ITL (ms)": "median_itl_ms",
    "P99 ITL (ms)": "p99_itl_ms",
    "Mean E2EL (ms)": "mean_e2el_ms",
    "Median E2EL (ms)": "median_e2el_ms",
    "P99 E2EL (ms)": "p99_e2el_ms",
    "Mean E2E Latency (ms)": "mean_e2e_latency_ms",
    "Median E2E Latency (ms)": "median_e2e_latency_ms",
}
"""Names of the saved file by those of the printed summary."""
_OFFLINE: Final = re.compile(
    r"^Throughput: ([\d.]+) requests/s, ([\d.]+) total tokens/s, ([\d.]+) output tokens/s", re.MULTILINE
)
"""Line of `vllm bench throughput`, which sends all requests at once."""
_PROGRESS: Final = re.compile(
    r"Processed prompts: 100%[^\n]{0,200}?(\d+)/\d+ \[[^\n\]]{0,60}?([\d.]+)(it/s|s/it), est\. speed "
    r"input: ([\d.]+) toks?/s, output: ([\d.]+) toks?/s"
)
"""Last line of the progress of `LLM.generate`, which gets all prompts at once. Source: vllm entrypoints/llm.py."""
_KEEPS_UP: Final = 0.9
"""Fraction of the rate that must be served if requests were sent at that rate, and not as clients became free."""
_LOWERED: Final = {name.lower(): key for name, key in _NAMES.items()}


def read_vllm_bench(text: str) -> tuple[BenchmarkResult, ...]:
    """Return the results of a saved JSON file, of JSON lines, or of printed summaries, one for each load.

    Raises: InputFileError: no whole result in the text, or one without any figure.
    Source: vllm-project/vllm, vllm/benchmarks/serve.py; sgl-project/sglang, python/sglang/bench_serving.py.
    """
    plain = "\n".join(without_prefixes(text))
    offline = _OFFLINE.search(plain)
    if offline:
        return (_offline_result(plain, *map(float, offline.groups())),)
    if progress := _PROGRESS.findall(plain):
        return (_progress_result(*progress[-1]),)
    found = list(json_objects(text, _is_result)) if text.lstrip()[:1] in "{[" else list(_summaries(text))
    if not found:
        raise InputFileError(
            f"no whole {_TITLE} in the text",
            why="the JSON or the printed summary ends in the middle",
            fix="give all of the file that --save-result wrote",
        )
    return tuple(require_figures(_result(one), _TITLE) for one in found)


def _is_result(found: Mapping[str, Any]) -> bool:
    return "total_output_tokens" in found or "mean_ttft_ms" in found or "output_throughput" in found


def _summaries(text: str) -> Iterator[Mapping[str, Any]]:
    """Yield the printed summaries; lines above the title (request rate, concurrency) belong to the next one."""
    found: dict[str, str] = {}
    started = False
    for line in without_prefixes(text):
        if titled := _HEAD.search(line):
            started = True
            found |= {"request_rate": "inf"} if titled[1] != "Serving" else {}
            continue
        if started and re.search(r"={20,}\s*$", line):
            yield found
            found = {}
            started = False
            continue
        printed = _PRINTED.match(line.strip())
        key = _LOWERED.get(printed[1].lower()) if printed else None
        if key and printed:
            found[key] = printed[2]
    if started and _is_result(found):
        yield found


def _result(found: Mapping[str, Any]) -> BenchmarkResult:
    completed = whole_of(found.get("completed", found.get("successful_requests")))
    inputs = ratio_of(found.get("total_input_tokens"), completed) or number_of(found.get("random_input_len"))
    outputs = ratio_of(found.get("total_output_tokens"), completed) or number_of(
        found.get("random_output_len")
    )
    tpot = _times(found, "tpot")
    notes = []
    if tpot.is_empty and not _times(found, "itl").is_empty:
        tpot = MeasuredTimes(mean_s=_times(found, "itl").mean_s)
        notes.append("the mean gap between tokens stands for the time per output token, which the file lacks")
    if completed and number_of(found.get("mean_ttft_ms")) == 0.0:
        notes.append("a TTFT of 0 was not measured: it is left out")
    concurrency = whole_of(found.get("max_concurrency"))
    rate = rate_of("inf" if "successful_requests" in found else found.get("request_rate"))
    if found.get("ramp_up_strategy") and not concurrency:
        rate = None  # the rate rose during the run: no one rate is the load's
    served = number_of(found.get("request_throughput"))
    if concurrency and rate and served and served < _KEEPS_UP * rate:
        rate = None  # the clients wait for each other, whatever rate was asked for
    if concurrency and rate not in (None, float("inf")):
        notes.append(
            f"at most {concurrency} requests were open at once; the load is taken as {rate:g} requests/s"
        )
    said = found.get("server_info")  # SGLang adds the server's own settings
    server: Mapping[str, Any] = said if isinstance(said, dict) else {}
    backend = str(found.get("backend") or found.get("endpoint_type") or "").lower()
    return BenchmarkResult(
        tool="vllm bench serve" if "sglang" not in backend else "sglang bench_serving",
        model=str(found.get("model_id") or found.get("model") or server.get("model_path") or ""),
        concurrency=concurrency if concurrency and rate in (None, float("inf")) else None,
        request_rate_per_s=rate,
        num_requests=completed,
        num_failed=_count_failed(found, completed),
        mean_input_tokens=inputs,
        mean_output_tokens=outputs,
        length_dist=_length_dist(found),
        ttft=_times(found, "ttft"),
        tpot=tpot,
        e2e=_times(found, "e2el") if "mean_e2el_ms" in found else _times(found, "e2e_latency"),
        output_tokens_per_s=number_of(found.get("output_throughput")),
        total_tokens_per_s=number_of(found.get("total_token_throughput") or found.get("total_throughput")),
        requests_per_s=number_of(found.get("request_throughput")),
        engine=next(
            (name for name in ("sglang", "vllm", "tensorrt-llm", "lmdeploy") if backend.startswith(name)), ""
        ),
        tensor_parallel=whole_of(server.get("tp_size", found.get("tensor_parallel_size"))),
        date=_date(str(found.get("date", ""))),
        notes=tuple(notes),
    )


def _count_failed(found: Mapping[str, Any], completed: int | None) -> int | None:
    """Return how many requests failed, as is stated or of those that were sent; None if neither is."""
    stated = whole_of(found.get("failed"))
    sent = whole_of(found.get("num_prompts"))
    return stated or (sent - completed if sent and completed is not None and sent > completed else stated)


def _offline_result(text: str, requests: float, tokens: float, outputs: float) -> BenchmarkResult:
    """Return the result of a batch; its mean lengths follow from its rates."""
    prompts = re.search(r"Total num prompt tokens:\s+(\d+)", text)
    return BenchmarkResult(
        tool="vllm bench throughput",
        request_rate_per_s=float("inf"),
        num_requests=round(int(prompts[1]) * requests / (tokens - outputs))
        if prompts and tokens > outputs
        else None,
        mean_input_tokens=(tokens - outputs) / requests if requests else None,
        mean_output_tokens=outputs / requests if requests else None,
        length_dist="mean",
        output_tokens_per_s=outputs,
        total_tokens_per_s=tokens,
        requests_per_s=requests,
        engine="vllm",
    )


def _progress_result(count: str, rate: str, unit: str, inputs: str, outputs: str) -> BenchmarkResult:
    """Return the result of a batch by its progress; the mean lengths follow from its rates."""
    requests = float(rate) if unit == "it/s" else 1.0 / float(rate)
    return BenchmarkResult(
        tool="the progress of vLLM",
        request_rate_per_s=float("inf"),
        num_requests=int(count),
        mean_input_tokens=float(inputs) / requests,
        mean_output_tokens=float(outputs) / requests,
        length_dist="mean",
        output_tokens_per_s=float(outputs),
        total_tokens_per_s=float(inputs) + float(outputs),
        requests_per_s=requests,
        engine="vllm",
    )


def _times(found: Mapping[str, Any], name: str) -> MeasuredTimes:
    """Return a latency, whose unit is part of its name."""
    mean, median, p99 = (
        multiply(found.get(f"{part}_{name}_ms"), MILLISECOND_S) for part in ("mean", "median", "p99")
    )
    return MeasuredTimes(mean or None, median if mean else median or None, p99 or None)


def _length_dist(found: Mapping[str, Any]) -> str:
    if isinstance(found.get("input_lens"), list):
        kinds = {length_of(found["input_lens"]), length_of(found.get("output_lens"))}
        return "fixed" if kinds == {"fixed"} else "mean"
    ratio = number_of(found.get("random_range_ratio"))
    return "" if ratio is None else ("fixed" if ratio in (0.0, 1.0) else "mean")


def _date(text: str) -> str:
    found = re.match(r"(\d{4})-?(\d{2})", text)
    return f"{found[1]}-{found[2]}" if found else ""


def _is_vllm_bench(text: str) -> bool:
    if text.lstrip()[:1] in ("{", "["):
        if not (
            has_keys(text, "mean_ttft_ms") or has_keys(text, "total_output_tokens", "request_throughput")
        ):
            return False
        whole = json_object(text)  # another program may have the same names deeper within its file
        return whole is None or "mean_ttft_ms" in whole or "total_output_tokens" in whole
    if _OFFLINE.search(text) or _PROGRESS.search(text):
        return True
    head = _HEAD.search(text)  # other programs print that title above names of their own
    printed = (
        (_PRINTED.match(line.strip()) for line in without_prefixes(text[head.start() :])) if head else ()
    )
    named = [line for line in printed if line is not None]
    return head is not None and (not named or any(line[1].lower() in _LOWERED for line in named))


FORMAT: Final = FileFormat("vllm-bench", _TITLE, "serving benchmark", _is_vllm_bench, read_vllm_bench)
