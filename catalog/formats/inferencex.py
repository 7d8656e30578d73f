"""Results of InferenceX (InferenceMAX): `agg_*.json`, one object or a list of them."""

import re
from collections.abc import Mapping
from typing import Any, Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.files import parsed_json
from advisor.catalog.formats.benchmark_result import (
    BenchmarkResult,
    MeasuredTimes,
    number_of,
    require_figures,
    whole_of,
)
from advisor.catalog.formats.file_format import FileFormat, has_keys, read_object

_TITLE: Final = "result of InferenceX"
_ENGINES: Final = ("sglang", "vllm", "trt")
_RANGE: Final = "uniform:0.8"
"""Lengths of the benchmark's client: random between 0.8 and 1 times the nominal ones (--random-range-ratio 0.8)."""


def read_inferencex(text: str) -> tuple[BenchmarkResult, ...]:
    """Return the results of one or several `agg_*.json`. Latencies are in seconds, rates per GPU.

    Raises: InputFileError: the text is not whole, or a result has neither tp nor figures.
    Source: SemiAnalysisAI/InferenceX utils/process_result.py, README (--random-range-ratio 0.8).
    """
    try:
        found: Any = parsed_json(text)
    except (ValueError, RecursionError):
        found = read_object(text, _TITLE)
    rows = [row for row in (found if isinstance(found, list) else [found]) if isinstance(row, Mapping)]
    if not rows:
        raise InputFileError(f"the {_TITLE} holds no objects", fix="give agg_*.json")
    return tuple(require_figures(_result(row), _TITLE) for row in rows)


def _result(row: Mapping[str, Any]) -> BenchmarkResult:
    is_disaggregated = _is_true(row.get("disagg")) or bool(
        row.get("disagg") is None and whole_of(row.get("num_prefill_gpu"))
    )
    pools = _pools(row) if is_disaggregated else {}
    tp = whole_of(row.get("decode_tp" if pools else "tp"))
    if not tp:
        raise InputFileError(
            f"the {_TITLE} has no tp", why="its rates are per GPU", fix="give the file as it was written"
        )
    conc = whole_of(row.get("conc"))
    attends_apart = _is_true(row.get("decode_dp_attention" if pools else "dp_attention"))
    framework = str(row.get("framework", "")).lower()
    total = number_of(row.get("tput_per_gpu"))
    output = number_of(row.get("output_tput_per_gpu"))
    isl = number_of(row.get("isl"))
    decode_gpus = int(pools.get("decode_gpus", tp))
    return BenchmarkResult(
        tool="inferencex",
        model=str(row.get("model") or row.get("infmax_model_prefix") or ""),
        concurrency=conc or None,
        num_requests=conc * 10 if conc else None,
        mean_input_tokens=isl,
        mean_output_tokens=number_of(row.get("osl")),
        length_dist=_RANGE if isl else "",
        ttft=_times(row, "ttft"),
        tpot=_times(row, "tpot"),
        e2e=_times(row, "e2el"),
        output_tokens_per_s=output * decode_gpus if output else None,
        total_tokens_per_s=total * (decode_gpus + int(pools.get("prefill_gpus", 0))) if total else None,
        engine=next((name for name in _ENGINES if name in framework), framework).replace(
            "trt", "tensorrt-llm"
        ),
        gpu=re.split(r"[_ ]", str(row.get("hw", "")).lower())[0],
        num_gpus=None if pools else tp,
        tensor_parallel=1 if attends_apart else tp,
        expert_parallel=whole_of(row.get("decode_ep" if pools else "ep")) or None,
        data_parallel=tp if attends_apart else None,
        weight_dtype={"fp4": "nvfp4"}.get(str(row.get("precision", "")), str(row.get("precision", ""))),
        settings=pools or None,
        notes=() if isl else ("an InferenceX result without isl and osl does not state its lengths",),
    )


_POOLS: Final = {
    "prefill_gpus": "num_prefill_gpu",
    "decode_gpus": "num_decode_gpu",
    "num_prefill_workers": "prefill_num_workers",
    "num_decode_workers": "decode_num_workers",
    "prefill_tp": "prefill_tp",
    "prefill_ep": "prefill_ep",
}
"""Fields of a result of separate workers by column of a case."""


def _pools(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the pools of a result of separate prefill and decode workers by column of a case.

    Raises: InputFileError: it does not say how each pool is laid out, as results of 2025 do not.
    """
    found = {column: whole_of(row.get(name)) for column, name in _POOLS.items()}
    if missing := [_POOLS[column] for column, value in found.items() if not value]:
        raise InputFileError(
            f"a {_TITLE} of separate prefill and decode workers without {', '.join(missing)}",
            why="it does not say how each pool is laid out",
            fix="write the pools as a row of cases: advisor validate serving CASES.csv",
        )
    columns = {"mode": "disagg", **{column: str(value) for column, value in found.items()}}
    if _is_true(row.get("prefill_dp_attention")):
        columns |= {"prefill_dp": columns["prefill_tp"], "prefill_tp": "1"}
    return columns


def _is_true(value: Any) -> bool:
    return str(value).lower() == "true"


def _times(row: Mapping[str, Any], name: str) -> MeasuredTimes:
    mean, median, p99 = (number_of(row.get(f"{part}_{name}")) for part in ("mean", "median", "p99"))
    return MeasuredTimes(mean or None, median or None, p99 or None)


def _is_inferencex(text: str) -> bool:
    return has_keys(text, "tput_per_gpu", "conc") or has_keys(text, "hw", "output_tput_per_gpu")


FORMAT: Final = FileFormat("inferencex", _TITLE, "serving benchmark", _is_inferencex, read_inferencex)
