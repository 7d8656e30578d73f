"""One published serving measurement as a question: its columns, parsed; what was measured is never among them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from advisor.catalog.errors import InputFileError

INPUT_COLUMNS: Final = (
    "case_id", "engine", "engine_version", "date", "model", "gpu", "n_gpus", "nodes", "tp", "pp", "ep", "dp",
    "mode", "prefill_gpus", "decode_gpus", "weight_dtype", "act_dtype", "kv_dtype", "load", "concurrency",
    "request_rate", "isl", "osl", "length_dist", "num_requests", "max_num_seqs", "max_num_batched_tokens",
    "prefix_cache", "spec_decode", "num_prefill_workers", "prefill_tp", "prefill_pp", "prefill_dp",
    "prefill_ep", "num_decode_workers", "moe_tp", "moe_ep", "context_depth", "split_mode", "power_cap_w",
    "stack", "shared_prefix_len", "num_prefixes",
)  # fmt: skip
"""All that a prediction may see. `notes`, `source`, `source_ref`, tier and group are not among them."""

METRICS: Final = (
    "ttft_ms_mean", "ttft_ms_p50", "ttft_ms_p99", "tpot_ms_mean", "tpot_ms_p50", "tpot_ms_p99", "output_tok_s",
    "total_tok_s", "req_s", "e2e_ms_mean", "decode_tok_s", "prefill_tok_s",
)  # fmt: skip
"""Columns that are predicted, and compared where they were measured."""

LOADS: Final = ("closed", "poisson", "offline", "static_batch", "batch1", "step")


@dataclass(frozen=True, slots=True)
class ServingCase:
    """One operating point to predict."""

    case_id: str
    engine: str
    engine_version: str
    date: str
    model: str
    gpu: str
    num_gpus: int
    tp: int
    pp: int
    ep: int
    dp: int
    mode: str
    weight_dtype: str
    kv_dtype: str
    load: str
    concurrency: int | None
    request_rate: float | None
    isl: int
    osl: int
    length_dist: str
    num_requests: int | None
    max_num_seqs: int | None
    max_num_batched_tokens: int | None
    spec_decode: str
    context_depth: int
    moe_ep: int | None


def parse_case(row: Mapping[str, str], row_number: int) -> ServingCase:
    """A case from a CSV row; blanks mean unknown.

    Raises: InputFileError: a needed field is missing or is not a number of the right kind; names row and field.
    Source: own definition of the columns, see docs/validation.md.
    """

    def text(name: str) -> str:
        return (row.get(name) or "").strip()

    def number(name: str, default: float | None = None) -> float:
        found = optional(name)
        if found is None:
            if default is None:
                raise InputFileError(f"row {row_number}: {name} is blank", fix=f"give {name} a value")
            return default
        return found

    def optional(name: str) -> float | None:
        raw = text(name)
        if not raw:
            return None
        try:
            value = float(raw)
        except ValueError:
            raise InputFileError(f"row {row_number}: {name} is {raw!r}, not a number") from None
        if not math.isfinite(value) or value < 0:
            raise InputFileError(
                f"row {row_number}: {name} is {raw}, which is not a finite number of at least 0"
            )
        return value

    def whole(name: str, default: float | None = None) -> int:
        return round(number(name, default))

    def whole_or_none(name: str) -> int | None:
        value = optional(name)
        return None if value is None else round(value)

    for name in ("model", "gpu", "engine", "load"):
        if not text(name):
            raise InputFileError(f"row {row_number}: {name} is blank", fix=f"give {name} a value")
    if text("load") not in LOADS:
        raise InputFileError(
            f"row {row_number}: load {text('load')!r} is not known", fix=f"one of {', '.join(LOADS)}"
        )
    num_gpus = whole("n_gpus", number("tp", 1) * number("pp", 1) * number("dp", 1))
    return ServingCase(
        case_id=text("case_id") or f"row-{row_number}",
        engine=text("engine"),
        engine_version=text("engine_version"),
        date=text("date"),
        model=text("model"),
        gpu=text("gpu"),
        num_gpus=max(1, num_gpus),
        tp=max(1, whole("tp", 1)),
        pp=max(1, whole("pp", 1)),
        ep=max(1, whole("moe_ep", number("ep", 1))),
        dp=max(1, whole("dp", 1)),
        mode=text("mode") or "agg",
        weight_dtype=text("weight_dtype") or "bf16",
        kv_dtype=text("kv_dtype") or "bf16",
        load=text("load"),
        concurrency=whole_or_none("concurrency"),
        request_rate=optional("request_rate"),
        isl=whole("isl", 0),
        osl=whole("osl", 0),
        length_dist=text("length_dist") or "fixed",
        num_requests=whole_or_none("num_requests"),
        max_num_seqs=whole_or_none("max_num_seqs"),
        max_num_batched_tokens=whole_or_none("max_num_batched_tokens"),
        spec_decode=text("spec_decode") or "none",
        context_depth=whole("context_depth", 0),
        moe_ep=whole_or_none("moe_ep"),
    )
