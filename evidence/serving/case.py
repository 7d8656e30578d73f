"""Published serving measurement as a case: its parsed conditions, without measured values."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

from advisor.catalog import accelerators, models
from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.errors import InputFileError, UnknownNameError
from advisor.catalog.published import checkpoint_format
from advisor.catalog.releases import middle_of
from advisor.evidence.table import Cells

View = Literal["replay", "stranger"]
"""View of a case: with the settings of its benchmark's scripts, or as a third-party server of which only the row is
known."""
VIEWS: Final[tuple[View, ...]] = get_args(View)

INPUT_COLUMNS: Final = (
    "case_id",
    "engine",
    "engine_version",
    "date",
    "model",
    "gpu",
    "n_gpus",
    "nodes",
    "tp",
    "pp",
    "ep",
    "dp",
    "mode",
    "prefill_gpus",
    "decode_gpus",
    "weight_dtype",
    "act_dtype",
    "kv_dtype",
    "load",
    "concurrency",
    "request_rate",
    "isl",
    "osl",
    "length_dist",
    "num_requests",
    "max_num_seqs",
    "max_num_batched_tokens",
    "prefix_cache",
    "spec_decode",
    "num_prefill_workers",
    "prefill_tp",
    "prefill_pp",
    "prefill_dp",
    "prefill_ep",
    "num_decode_workers",
    "moe_tp",
    "moe_ep",
    "context_depth",
    "split_mode",
    "power_cap_w",
    "stack",
    "shared_prefix_len",
    "num_prefixes",
    "script",
    "memory_fraction",
    "enforce_eager",
    "slow_host",
)
"""Columns that a prediction may read. `notes`, `source`, `source_ref`, tier and group are not among them."""

METRICS: Final = (
    "ttft_ms_mean",
    "ttft_ms_p50",
    "ttft_ms_p99",
    "tpot_ms_mean",
    "tpot_ms_p50",
    "tpot_ms_p99",
    "output_tok_s",
    "total_tok_s",
    "req_s",
    "e2e_ms_mean",
    "decode_tok_s",
    "prefill_tok_s",
)
"""Columns that are predicted, and compared if they were measured."""

LENGTH_DISTS: Final = ("fixed", "uniform", "mean", "lognormal")
SCRIPTS: Final = ("inferencex", "aiconfigurator", "vultr", "lmdeploy")
"""Benchmarks whose published scripts a row may name."""
BATCHES: Final = ("static_batch", "batch1", "step")
LOADS: Final = ("closed", "poisson", "offline", *BATCHES)

_CLIPPED: Final = re.compile(r"^lognormal\b.* clipped \d+-(\d+)/\d+-(\d+)$")
_POOL_SIZES: Final = ("prefill_gpus", "decode_gpus", "num_prefill_workers", "num_decode_workers")
_PREFILL_DEGREES: Final = ("prefill_tp", "prefill_pp", "prefill_dp", "prefill_ep")
_FIRST_DAY: Final = "-01"
_WIDE: Final = ("bf16", "fp16")


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
    num_nodes: int
    tp: int
    pp: int
    ep: int
    dp: int
    mode: str
    weight_dtype: str
    kv_dtype: str
    """Format of the KV cache; auto if the row does not state it."""
    load: str
    concurrency: int | None
    request_rate: float | None
    isl: int
    osl: int
    length_dist: str
    """Distribution of lengths: fixed, uniform, mean or lognormal."""
    lengths_stated: bool
    """Whether the row states the distribution of its lengths."""
    length_spread: float | None
    """Shortest length over the nominal one if uniform; sigma if lognormal; None if not stated."""
    longest: tuple[int, int] | None
    """Most input and output tokens to which lognormal lengths were clipped; None if not stated."""
    num_requests: int | None
    max_num_seqs: int | None
    max_num_batched_tokens: int | None
    prefix_cache_off: bool
    shared_prefix_tokens: int
    """Tokens of a prompt that it shares with others, part of `isl`; 0 if the row states none."""
    num_prefixes: int
    """Number of different shared prefixes."""
    spec_decode: str
    context_depth: int
    power_cap_w: float | None = None
    stack: str = ""
    prefill_gpus: int | None = None
    decode_gpus: int | None = None
    num_prefill_workers: int | None = None
    num_decode_workers: int | None = None
    prefill_tp: int | None = None
    """Tensor parallelism of one prefill worker; None if only the pool's size is known."""
    prefill_pp: int | None = None
    prefill_dp: int | None = None
    prefill_ep: int | None = None
    weights_stated: bool = True
    """Whether the weight format was published; otherwise it is 16 bits, or 8 if these do not fit."""
    layout_stated: bool = True
    """Whether the degrees of a replica were published; otherwise only num_gpus is known."""
    script: str = ""
    """Benchmark whose scripts started engine and client; empty if the row does not name one."""
    view: View = "replay"
    memory_fraction: float | None = None
    """Fraction of the memory that the engine was allowed; None if the row does not state it."""
    enforce_eager: bool = False
    slow_host: bool = False
    """Whether the host is as slow as the slowest that was measured."""
    """Whether the engine captured no decode graphs."""

    @property
    def most_at_once(self) -> float | None:
        """Most sequences that run at once, as far as the load states it; None if it does not."""
        return float(self.concurrency) if self.concurrency and self.load in ("closed", *BATCHES) else None


def _accelerator_id(name: str) -> str:
    """Return the id of the accelerator that a name means; the name where the catalog knows none, which a prediction
    tells."""
    try:
        return accelerators.get(name).record.id
    except UnknownNameError:
        return name


def parse_case(row: Mapping[str, str], row_number: int, view: View = "replay") -> ServingCase:
    """Return a case from a CSV row; blanks mean unknown.

    Raises: InputFileError: a needed field is missing or is not a number of the right kind; names row and field.
    Source: columns as in docs/validation.md.
    """
    cells = Cells(row, row_number)
    for name in ("model", "gpu", "engine", "load"):
        if not cells.text(name):
            raise InputFileError(f"row {row_number}: {name} is blank", fix=f"give {name} a value")
    if (load := cells.text("load")) not in LOADS:
        raise InputFileError(
            f"row {row_number}: load {load!r} is not known", fix=f"one of {', '.join(LOADS)}"
        )
    tp, pp, dp = (cells.degree(name) or 1 for name in ("tp", "pp", "dp"))
    length_dist, spread = _length_dist(cells)
    return ServingCase(
        case_id=cells.text("case_id") or f"row-{row_number}",
        engine=cells.text("engine"),
        engine_version=cells.text("engine_version"),
        date=cells.text("date"),
        model=cells.text("model"),
        gpu=_accelerator_id(cells.text("gpu")),
        num_gpus=cells.degree("n_gpus") or tp * pp * dp,
        num_nodes=cells.degree("nodes") or 1,
        tp=tp,
        pp=pp,
        ep=cells.degree("moe_ep") or cells.degree("ep") or 1,
        dp=dp,
        mode=cells.text("mode") or "agg",
        weight_dtype=cells.text("weight_dtype") or "bf16",
        weights_stated=bool(cells.text("weight_dtype")),
        kv_dtype=cells.text("kv_dtype") or "auto",
        load=load,
        concurrency=cells.whole("concurrency"),
        request_rate=cells.number("request_rate"),
        isl=round(cells.number("isl") or 0.0),  # a mean need not be whole
        osl=round(cells.number("osl") or 0.0),
        length_dist=length_dist,
        lengths_stated=bool(cells.text("length_dist")),
        length_spread=spread,
        longest=_longest(cells),
        num_requests=cells.whole("num_requests"),
        max_num_seqs=cells.whole("max_num_seqs"),
        max_num_batched_tokens=cells.whole("max_num_batched_tokens"),
        prefix_cache_off=cells.text("prefix_cache") in ("0", "0.0"),
        shared_prefix_tokens=cells.whole("shared_prefix_len") or 0,
        num_prefixes=cells.whole("num_prefixes") or 1,
        spec_decode=cells.text("spec_decode") or "none",
        context_depth=cells.whole("context_depth") or 0,
        power_cap_w=cells.number("power_cap_w"),
        stack=cells.text("stack"),
        layout_stated=bool(cells.text("tp")) or not cells.text("n_gpus"),
        script=_script(cells),
        view=view,
        memory_fraction=cells.positive("memory_fraction"),
        enforce_eager=cells.text("enforce_eager") in ("1", "1.0", "true"),
        slow_host=cells.text("slow_host") in ("1", "1.0", "true"),
        **{name: cells.whole(name) for name in _POOL_SIZES},
        **{name: cells.degree(name) for name in _PREFILL_DEGREES},
    )


def contradictions(case: ServingCase) -> tuple[str, ...]:
    """Return a sentence for each contradiction in the conditions of a case, with the reading that is taken."""
    found = []
    if case.shared_prefix_tokens and case.isl <= case.shared_prefix_tokens:
        found.append(
            f"prompts of {case.isl} tokens cannot begin with {case.shared_prefix_tokens} shared ones: "
            "isl is taken for what comes after them"
        )
    if case.load == "closed" and case.concurrency and (case.max_num_seqs or 0) > case.concurrency:
        found.append(f"{case.max_num_seqs} sequences, but {case.concurrency} clients: no more than these run")
    return tuple(found)


def without_contradictions(case: ServingCase) -> ServingCase:
    """Return a case in the reading that `contradictions` states."""
    if case.shared_prefix_tokens and case.isl <= case.shared_prefix_tokens:
        return replace(case, isl=case.isl + case.shared_prefix_tokens)
    return case


def _script(cells: Cells) -> str:
    name = cells.text("script")
    if name not in ("", *SCRIPTS):
        raise InputFileError(
            f"row {cells.row_number}: script {name!r} is not known", fix=f"one of {', '.join(SCRIPTS)}"
        )
    return name


def _length_dist(cells: Cells) -> tuple[str, float | None]:
    """Return kind and parameter of a distribution, from cells such as uniform:0.8 or lognormal:600/200,0.8 clipped."""
    text = cells.text("length_dist") or "fixed"
    kind, _, detail = text.partition(":")
    if kind not in LENGTH_DISTS:
        raise InputFileError(
            f"row {cells.row_number}: length_dist {text!r} is not known",
            fix=f"one of {', '.join(LENGTH_DISTS)}",
        )
    if not detail or kind not in ("uniform", "lognormal"):
        return kind, None
    words = detail.split(",")[-1].split()
    try:
        spread = float(words[0])
    except (IndexError, ValueError):
        spread = math.nan
    most = 1.0 if kind == "uniform" else 5.0
    if not 0.0 < spread <= most:
        raise InputFileError(
            f"row {cells.row_number}: length_dist {text!r} has no spread between 0 and {most:g}",
            fix=f"write {kind}:0.8",
        )
    return kind, spread


def _longest(cells: Cells) -> tuple[int, int] | None:
    """Return most input and output tokens, from lognormal:600/200,0.8 clipped 16-6000/4-1500."""
    clipped = _CLIPPED.search(cells.text("length_dist"))
    return None if clipped is None else (int(clipped[1]), int(clipped[2]))


def with_date(case: ServingCase) -> ServingCase:
    """Return a case with a date: the middle of the stated year or years, but none before the release of its model, as
    no engine of that time could run it.

    Assumes: engines serve a model from the month on in which it is released.

    Source: `released` of the model's record.
    """
    date = middle_of(case.date)
    if date == case.date:
        return case
    try:
        released = models.get(case.model).record.released
    except UnknownNameError:
        released = ""
    return replace(case, date=max(date, released + _FIRST_DAY if released else ""))


def as_published(case: ServingCase) -> ServingCase:
    """Return a case that states 16-bit weights of a checkpoint with fewer bits, in that checkpoint's format.

    Assumes: engines load a checkpoint as it is published; a table that says bf16 of it says what it computes in.
    Source: catalog/data/models.
    """
    published = checkpoint_format(case.model)
    if published is None or case.weight_dtype not in _WIDE:
        return case
    narrow = bytes_per_element(published) < bytes_per_element(case.weight_dtype)
    return replace(case, weight_dtype=published) if narrow else case
