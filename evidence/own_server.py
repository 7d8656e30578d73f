"""A person's own server: its benchmark compared with what it should do, and the causes that would explain it.

`advisor validate file` shows the comparison; `advisor calibrate` keeps its ratios.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Literal

from advisor.catalog import accelerators, engines, models
from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.errors import AdvisorError, InputFileError, UnknownNameError
from advisor.catalog.formats.benchmark_result import BenchmarkResult, MeasuredTimes
from advisor.catalog.formats.llama_bench import LlamaBenchRow
from advisor.catalog.schema import Calibration
from advisor.catalog.units import GIB, MILLISECOND_S
from advisor.evidence.prediction import Prediction
from advisor.evidence.serving.prediction import predict_row
from advisor.simulator.quantity import Quantity

Verdict = Literal["as expected", "slower", "faster"]
Stated = Mapping[str, str]
"""Conditions that the person states, by column of a case; blank ones are left out."""

_LATENCIES: Final = ("ttft_ms", "tpot_ms", "e2e_ms")
_USUAL_ENGINE: Final = "vllm"
_EXPLAINS: Final = 0.5
"""Name a cause only if it leaves at most this fraction of the mean error. Own choice: a cause that leaves more explains
less than half of what is seen."""
_OFF_FROM: Final = 0.1
"""Look for causes from this mean error on (logarithm of measured over predicted): the median error of predictions for
servers whose settings are known is about 0.07."""
_FEWER_SEQUENCES: Final = (8, 16, 32, 64, 128, 256)
_POWER_FRACTIONS: Final = (0.8, 0.6)


LOCAL_ENGINES: Final = ("llama.cpp", "exllamav3")
"""Engines whose timings are those of one prompt and one output."""


@dataclass(frozen=True, slots=True)
class ServerFigure:
    """One measured figure of a server with its prediction, in the unit of the column."""

    metric: str
    measured: float
    predicted: Quantity
    verdict: Verdict
    within: tuple[float, float] | None = None
    """Bounds between which the measured value lies, where it is interpolated; None where it was measured itself."""

    @property
    def log_ratio(self) -> float:
        """Logarithm of how many times slower the server is than predicted; negative if it is faster. A value that is
        known by bounds alone is taken where it is nearest to the prediction."""
        low, high = self.within or (self.measured, self.measured)
        ratio = math.log(max(low, min(high, self.predicted.value)) / self.predicted.value)
        return ratio if self.metric.startswith(_LATENCIES) else -ratio


@dataclass(frozen=True, slots=True)
class Cause:
    """Setting or state of the server under which the prediction comes nearest to what was measured."""

    words: str
    error: float
    """Mean absolute logarithm of measured over predicted that is left under this cause."""


@dataclass(frozen=True, slots=True)
class ServerComparison:
    """One measured load on a server compared with its prediction."""

    row: Mapping[str, str]
    """Conditions and measured values by column of a case."""
    prediction: Prediction
    figures: tuple[ServerFigure, ...]
    causes: tuple[Cause, ...]
    assumed: tuple[str, ...]
    """Sentences about conditions that neither file nor person states."""

    @property
    def error(self) -> float:
        """Mean absolute logarithm of measured over predicted."""
        return _error(self.figures)

    @property
    def verdict(self) -> Verdict:
        """Verdict of most figures; the worse of two that are equally frequent."""
        verdicts = [figure.verdict for figure in self.figures]
        order: tuple[Verdict, ...] = ("slower", "as expected", "faster")
        return max(order, key=verdicts.count)


def row_of(
    result: BenchmarkResult, stated: Stated, around: Stated = MappingProxyType({})
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return conditions and measured values of a benchmark as a row of cases, and what had to be assumed.

    What a person states counts before what the file says, and that before the commands around it.

    Raises: InputFileError: model, accelerator, lengths or load are stated by neither; names what is missing.
    """
    assumed = list(result.notes)
    if result.num_failed and not _lost_too_many(result):
        assumed.append(f"{result.num_failed:,} requests failed: the figures may count them")
    tp = result.tensor_parallel
    found = {
        "model": models.name_in_path(result.model),
        "gpu": accelerator_id(result.gpu) or result.gpu,
        "engine": result.engine,
        "n_gpus": _text(result.num_gpus),
        "tp": _text(tp),
        "ep": _text(result.expert_parallel),
        "dp": _text(result.data_parallel),
        "max_num_seqs": _text(result.max_num_seqs),
        "weight_dtype": result.weight_dtype,
        "date": result.date,
        "isl": _text(result.mean_input_tokens),
        "osl": _text(result.mean_output_tokens),
        "length_dist": result.length_dist,
        "num_requests": _text(_limit_requests(result.num_requests)),
        **_load(result, stated),
    }
    row = {name: value for name, value in found.items() if value} | dict(stated)
    settings = {name: value for name, value in (result.settings or {}).items() if name not in row}
    if "load" in row:
        settings.pop("concurrency", None)
    if settings:
        assumed.append(f"settings in the file: {', '.join(' '.join(pair) for pair in settings.items())}")
        row = settings | ({"load": "closed"} if "concurrency" in settings else {}) | row
    added = {name: value for name, value in around.items() if name not in row}
    if added:
        assumed.append(
            f"the commands around the result say: {', '.join(' '.join(pair) for pair in added.items())}"
        )
        row = added | row
    row = stored_formats(row.get("model", "")) | row
    if "gpu" in row:
        row["gpu"] = accelerators.get(row["gpu"]).record.id
        assumed += _with_memory(row, result.gpu, is_typed="gpu" in stated)
    missing = [words for names, words in _NEEDED.items() if not any(row.get(name) for name in names)]
    if missing:
        raise InputFileError(
            f"the result of {result.tool} does not say {', '.join(words.partition(':')[0] for words in missing)}",
            why="a prediction needs it, and it is not guessed",
            fix=" ".join(words.partition(": ")[2] for words in missing),
        )
    if not row.get("engine"):
        row["engine"] = _USUAL_ENGINE
        assumed.append(f"the engine is taken as {_USUAL_ENGINE}; --engine says it")
    row = _published_format(row["model"], row["engine"]) | row
    if not (row.get("tp") or row.get("pp") or row.get("dp")):
        row["tp"] = row.get("n_gpus") or "1"
        assumed.append(
            "one accelerator is taken; --tp says how many share the model"
            if row["tp"] == "1"
            else f"its {row['tp']} accelerators are taken to share the model (--tp)"
        )
    replicas, rest = divmod(int(row.get("n_gpus") or 0), _accelerators_of(row))
    if replicas > 1 and not rest and "dp" not in row:
        row["dp"] = str(replicas)
        assumed.append(f"its {row['n_gpus']} accelerators are taken as {replicas} copies of the model (--dp)")
    if not row.get("length_dist"):
        is_nominal = all(_is_round(float(row[name])) for name in ("isl", "osl"))
        row["length_dist"] = "fixed" if is_nominal else "mean"
        assumed.append(
            "lengths are round: every request is taken to have them"
            if is_nominal
            else "the file states mean lengths, not their spread"
        )
    clients = float(row.get("concurrency") or 0.0) if row.get("load") == "closed" else 0.0
    row = {"case_id": result.tool, **row, **_figure_columns(result)}
    if doubts := contradictory_figures(result, clients):
        row[_DOUBT] = "; ".join(doubts)
    return row, tuple(assumed)


_DOUBT: Final = "contradiction"
"""Column of the reason why figures of a row are not compared: they cannot all be right."""
_MOST_FAILED: Final = 0.1
"""Largest part of the requests that may fail in a run whose figures are compared. Own choice: a server that refuses
one request in ten has a tenth less load than is stated."""


def _lost_too_many(result: BenchmarkResult) -> bool:
    """Whether more requests failed than `_MOST_FAILED` allows, so that the load was not the one that is stated."""
    failed = result.num_failed or 0
    return failed > _MOST_FAILED * (failed + (result.num_requests or 0))


_POSSIBLE: Final = 1.25
"""Ratio of a measured rate to the highest that the other figures allow up to which they agree. Own choice: means of
unequal requests and a benchmark's ends leave less."""


def contradictory_figures(result: BenchmarkResult, clients: float) -> tuple[str, ...]:
    """Return a sentence for each pair of figures of one result that cannot both be right, as of another unit or run.

    Tokens per second are requests per second times the mean output; `clients` that wait (0: none wait) have as many
    requests open as begin in the time of one, and each gets at most one token in the mean time of a token; a request
    takes no less than its tokens; and no time of a request that succeeded is 0.

    Source: own definition; Little's law.
    """
    found = []
    output = result.output_tokens_per_s
    length = result.mean_output_tokens
    tpot = result.tpot.mean_s or result.tpot.p50_s
    whole = result.e2e.mean_s
    if _lost_too_many(result):
        total = (result.num_failed or 0) + (result.num_requests or 0)
        found.append(
            f"{result.num_failed:,} of {total:,} requests failed, and the load was not the one that is stated"
        )
    for name, times in (("TTFT", result.ttft), ("TPOT", result.tpot)):
        if times.mean_s and times.p50_s == 0.0:
            found.append(
                f"a median {name} of 0 and a mean of {times.mean_s:.3g} s: half of the requests gave no token, so the "
                "server failed or refused them"
            )
    if length == 0.0:
        found.append("no token was generated")
    rate = result.requests_per_s
    if output and length and rate and not 1.0 / _POSSIBLE <= output / (rate * length) <= _POSSIBLE:
        found.append(
            f"{rate:.3g} requests/s of {length:,.0f} output tokens are {rate * length:,.0f} tokens/s, and the file "
            f"says {output:,.0f}"
        )
    elif clients and (said := _open_requests(result, clients)):
        found.append(said)
    if whole and tpot and length and _POSSIBLE * whole < 0.5 * tpot * (length - 1.0):
        found.append(
            f"{length:,.0f} output tokens at {tpot / MILLISECOND_S:.3g} ms take {tpot * (length - 1.0):,.3g} s, and "
            f"the file says {whole:,.3g} s for a whole request"
        )
    return tuple(f"figures contradict each other: {said}" for said in found)


_FEWEST_OPEN: Final = 0.25
"""Least part of its clients' requests that a closed loop has open on average, where each client sends two or more. Own
choice: starts, ends and a slow client leave more."""
_FEWEST_ROUNDS: Final = 2


def _open_requests(result: BenchmarkResult, clients: float) -> str:
    """Return a sentence if the rate and the times of the requests open another number at once than there are clients;
    empty if they agree or are not stated.

    Medians stand for means that are not stated. These, and means of unequal requests, may be twice as long. Without
    lengths, a request is the time of one token.
    """
    length = result.mean_output_tokens
    output = result.output_tokens_per_s
    tpot = result.tpot.mean_s or result.tpot.p50_s or 0.0
    ttft = result.ttft.mean_s or result.ttft.p50_s or 0.0
    rate = result.requests_per_s or (output / length if output and length else output)
    summed = (ttft + tpot * (length - 1.0)) if length else tpot
    times = [time for time in (result.e2e.mean_s, summed) if time]
    if not rate or not times or (result.requests_per_s and not length):
        return ""
    is_exact = result.e2e.mean_s or (result.tpot.mean_s and result.length_dist == "fixed")
    most = _POSSIBLE if is_exact else 2.0 * _POSSIBLE
    is_filled = (result.num_requests or 0) >= _FEWEST_ROUNDS * clients and ttft > 0.0 and tpot > 0.0
    whole = max(times) if rate * max(times) < _FEWEST_OPEN * clients else min(times)
    if rate * whole <= most * clients and not (is_filled and rate * whole < _FEWEST_OPEN * clients):
        return ""
    are_open = f"{rate * whole:,.0f}" if rate * whole >= 1.0 else f"{rate * whole:.2g}"
    what = "requests" if length else "tokens"
    return f"{rate:.3g} {what}/s of {whole:.3g} s each are {are_open} open at once, and there are {clients:g} clients"


_SAME_MEMORY: Final = 0.15
"""Relative difference of two statements of a memory that count as equal: sellers round, drivers reserve."""


def _with_memory(row: dict[str, str], name: str, *, is_typed: bool) -> list[str]:
    """Take the board of a row's accelerator that has the memory which the row states, out of the row; return a sentence
    where the accelerator has another and no board of its name has that."""
    gib = float(row.pop("memory_gib", 0.0))
    record = accelerators.by_id(row["gpu"])
    if not gib or not record.memory_bytes or abs(gib * GIB / record.memory_bytes - 1.0) <= _SAME_MEMORY:
        return []
    family = re.sub(r"-\d+gb$", "", row["gpu"])
    board = None if is_typed else accelerators.find(f"{family}-{gib:g}gb")
    if board is not None and board.id != record.id:
        row["gpu"] = board.id
        return [f"{name or record.id} with {gib:g} GB is taken as {board.id}"]
    return [
        f"not used: memory of {gib:g} GB ({record.id} is planned with {record.memory_bytes / GIB:.0f} GiB)"
    ]


def _accelerators_of(row: Mapping[str, str]) -> int:
    """Return the number of accelerators of a row's layout."""
    return math.prod(int(float(row.get(name) or 1)) for name in ("tp", "pp", "dp"))


def _is_round(tokens: float) -> bool:
    """Whether a length is one that people give a client, not the mean of what it drew.

    Assumes: means of conversations are a multiple of 32 or 50 once in 20 times, and both lengths once in 400.
    """
    return tokens % 32 == 0 or tokens % 50 == 0


def stored_formats(name: str) -> dict[str, str]:
    """Return the formats of weights and cache that the name of a checkpoint states, by column of a case; empty if it
    states none or is in no record."""
    try:
        record = models.get(name).record if name else None
    except AdvisorError:
        return {}
    if record is None or not record.checkpoint:
        return {}
    return {"weight_dtype": record.weights} | ({"kv_dtype": record.kv_dtype} if record.kv_dtype else {})


def _published_format(name: str, engine: str) -> dict[str, str]:
    """Return the format in which alone a model is published, if it has fewer than 16 bits and the engine runs it; a
    model of 16 bits may be served in fewer, so its name says nothing."""
    known = models.find(name) if name else None
    if known is None or engine not in engines.all_ids():
        return {}
    is_narrow = bytes_per_element(known.weights) < bytes_per_element("bf16")
    runs = known.weights in engines.by_id(engine).weight_dtypes
    return {"weight_dtype": known.weights} if is_narrow and runs else {}


_NEEDED: Final[Mapping[tuple[str, ...], str]] = {
    ("model",): "which model: --model ID",
    ("gpu",): "which accelerator: --gpu ID",
    ("isl",): "the prompt length: --input-tokens N",
    ("osl",): "the output length: --output-tokens N",
    ("load",): "how requests were sent: --concurrency N",
}


_MOST_SIMULATED: Final = 20_000
"""Largest number of requests of a benchmark that is simulated in full; more change no mean by 1 %."""


def _limit_requests(num_requests: int | None) -> int | None:
    return None if num_requests is None else min(num_requests, _MOST_SIMULATED)


def _load(result: BenchmarkResult, stated: Stated) -> dict[str, str]:
    """Return load, concurrency and rate, of what the person states or else of the file."""
    if "concurrency" in stated:
        return {"load": "closed"}
    if "request_rate" in stated:
        return {"load": "poisson"}
    rate = result.request_rate_per_s
    if result.concurrency:
        return {"load": "closed", "concurrency": str(result.concurrency)}
    if rate is not None and math.isinf(rate):
        return {"load": "offline"} if result.num_requests else {}
    return {} if rate is None else {"load": "poisson", "request_rate": f"{rate:g}"}


def accelerator_id(name: str) -> str:
    """Return the id of an accelerator that a file names, without the words that a benchmark appends (b200-trt)."""
    parts = name.split("-")
    for count in range(len(parts), 0, -1):
        if (record := accelerators.find("-".join(parts[:count]))) is not None:
            return record.id
    return ""


def _text(value: float | None) -> str:
    return "" if value is None else repr(round(value, 3)).removesuffix(".0")


_WITHIN: Final = "_within"
"""End of the name of a column with the two bounds of an interpolated value."""


def _figure_columns(result: BenchmarkResult) -> dict[str, str]:
    """Return the measured values by column of a case."""
    found: dict[str, float | None] = {
        "output_tok_s": result.output_tokens_per_s,
        "total_tok_s": result.total_tokens_per_s,
        "req_s": result.requests_per_s,
        "e2e_ms_mean": _milliseconds(result.e2e.mean_s),
    }
    for name, times in (("ttft", result.ttft), ("tpot", result.tpot)):
        found |= {f"{name}_ms_{part}": value for part, value in _statistics(times).items()}
    bounds = {
        f"{name}_ms_{part}{_WITHIN}": " ".join(f"{each / MILLISECOND_S:.6g}" for each in within)
        for name, times in (("ttft", result.ttft), ("tpot", result.tpot))
        for part, within in (("p50", times.p50_within_s), ("p99", times.p99_within_s))
        if within
    }
    return {name: repr(value) for name, value in found.items() if value} | bounds


def _statistics(times: MeasuredTimes) -> dict[str, float | None]:
    return {
        "mean": _milliseconds(times.mean_s),
        "p50": _milliseconds(times.p50_s),
        "p99": _milliseconds(times.p99_s),
    }


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds / MILLISECOND_S


def rows_of(
    results: Sequence[Any], stated: Stated, around: Stated, *, is_local: bool
) -> list[tuple[dict[str, str], tuple[str, ...]]]:
    """Return the results of a file as rows of cases, each with what had to be assumed; a local engine's results state
    what commands around others say.

    Raises: InputFileError: as `row_of` and `local_row_of`.
    """
    return [local_row_of(one, stated) if is_local else row_of(one, stated, around) for one in results]


def local_row_of(test: LlamaBenchRow, stated: Stated) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return one test of llama-bench as a row of cases, and what had to be assumed.

    Raises: InputFileError: neither the person nor the output says model, accelerator or format.
    """
    row = {
        "gpu": accelerator_id(device_words(test.device)) or test.device,
        "weight_dtype": test.weight_dtype or _format_of_tag(test.file_stem),
        "model": _model_of(test),
        **{name: value for name, value in stated.items() if value},
    }
    # Parts that are published in few bits stay so in files that are named by another type.
    published = _published_format(row["model"], test.engine) or stored_formats(row["model"])
    row["weight_dtype"] = row["weight_dtype"] or published.get("weight_dtype", "")
    assumed: tuple[str, ...] = ()
    if row["gpu"]:
        row["gpu"] = accelerators.get(row["gpu"]).record.id
        row |= {name: value for name, value in test.stated.columns.items() if name == "memory_gib"}
        assumed = tuple(_with_memory(row, test.device, is_typed="gpu" in stated))
    example = "exl3-4.0bpw" if test.engine == "exllamav3" else "q4_k_m"
    wanted = {"model": "--model ID", "gpu": "--gpu ID", "weight_dtype": f"--precision {example}"}
    if missing := [name for name in wanted if not row[name]]:
        printed = test.file_stem or test.model
        raise InputFileError(
            f"the timings do not name {', '.join(missing).replace('weight_dtype', 'the format')}",
            why=f"it prints {printed!r}, which names no model of the catalog"
            if "model" in missing and printed
            else "a prediction needs it, and it is not guessed",
            fix=" ".join(wanted[name] for name in missing),
        )
    formats = engines.by_id(test.engine).weight_dtypes
    if test.engine == "exllamav3" and row["weight_dtype"] not in formats:
        raise InputFileError(
            f"the timings are those of {test.engine}, which does not run {row['weight_dtype']}",
            why="TabbyAPI printed them, whose engine reads EXL3",
            fix=f"--precision {example}",
        )
    if test.num_gpu_layers == 0:
        assumed += ("the test ran without a GPU (ngl 0), the prediction is for one",)
    layers = sum(group.count for group in models.get(row["model"]).record.layers)
    if test.num_gpu_layers and test.num_gpu_layers < layers:
        assumed += (
            f"{test.num_gpu_layers} of {layers} layers ran on the GPU, the prediction is for all on it",
        )
    assumed += test.stated.notes
    lengths = {"isl": str(test.num_prompt_tokens), "osl": str(test.num_output_tokens)}
    metric = "prefill_tok_s" if test.num_prompt_tokens else "decode_tok_s"
    what = f"pp{test.num_prompt_tokens}" if test.num_prompt_tokens else f"tg{test.num_output_tokens}"
    depth = f" @ d{test.depth_tokens}" if test.depth_tokens else ""
    shared = {"pp": str(test.num_gpus)} if test.num_gpus > 1 and test.num_gpu_layers != 0 else {}
    fixed = {"engine": test.engine, "load": "batch1", "concurrency": "1", "length_dist": "fixed", "tp": "1"}
    found = {
        "case_id": " ".join((what + depth, *(word for pair in test.settings for word in pair))),
        **fixed,
        **shared,
        **{name: value for name, value in test.stated.columns.items() if name != "memory_gib"},
        **row,
        **lengths,
        "context_depth": str(test.depth_tokens),
        "micro_batch_tokens": str(test.micro_batch_tokens or ""),
        metric: repr(test.tokens_per_s),
    }
    return found, assumed


def device_words(device: str) -> str:
    """Return a driver's device name as an id is spelt."""
    words = (
        device.lower()
        .replace("nvidia ", "")
        .replace("geforce ", "")
        .replace("amd ", "")
        .replace("apple ", "")
        .removesuffix(" graphics")
    )
    return "-".join(words.split())


def _format_of_tag(tag: str) -> str:
    """Return the format that a tag of Ollama stands for; empty if it is none."""
    try:
        return models.get(tag).record.weights if ":" in tag else ""
    except UnknownNameError:
        return ""


def _model_of(test: LlamaBenchRow) -> str:
    """Return the id of the model that a GGUF file's name begins with, or else the one whose architecture and size the
    output prints; empty if that is none of the catalog, or leaves several ("llama 8B")."""
    stem = test.file_stem.lower()
    if test.weight_dtype and test.weight_dtype in stem:
        stem = stem[: stem.index(test.weight_dtype)]
    printed = _PRINTED_MODEL.match(test.model.lower())
    architecture = printed and f"{printed[1]} {printed[2]}"
    named = (
        _ARCHITECTURES.get(architecture or "")
        or f"{printed[1].removesuffix('moe')}-{printed[2].replace('.', '-', 1)}"
        if printed
        else ""
    )
    stems = (stem.rstrip("-._").removesuffix(end) for end in ("-instruct", "-it", "-chat", ""))
    alone = "" if " " in test.model else test.model
    for name in filter(None, (*stems, named, alone)):
        try:
            return models.get(name).record.id
        except UnknownNameError:
            continue
    return ""


_ARCHITECTURES: Final = {
    "deepseek2 671b": "deepseek-r1",
    "deepseek2 16b": "deepseek-v2-lite",
    "deepseek2 1024b": "kimi-k2",
}
"""Model of the catalog with the shape that llama.cpp calls by another name. Source: llama.cpp, llama-model.cpp."""
_PRINTED_MODEL: Final = re.compile(r"([a-z][\w.-]*) (\d+b(?:\.a\d+b)?)\b")
"""Architecture and size as llama-bench prints them: gpt-oss 120B, qwen3moe 30B.A3B."""


def compare_server(
    row: Mapping[str, str],
    assumed: tuple[str, ...] = (),
    *,
    calibration: Calibration | None = None,
    seed: int = 0,
    with_causes: bool = True,
) -> ServerComparison:
    """Return a measured row with its prediction, and the causes that would explain a difference.

    Assumes: the server has its engine's defaults where the row states nothing.
    Source: evidence.serving.prediction, as a third-party server.
    """
    if doubt := row.get(_DOUBT):
        return ServerComparison(
            row, Prediction(row.get("case_id", ""), "unsupported", doubt), (), (), assumed
        )
    prediction = predict_row(row, 1, seed=seed, calibration=calibration, view="stranger")
    if prediction.status in ("unsupported", "infeasible") and (method := row.get("spec_decode")):
        alone = {name: value for name, value in row.items() if name != "spec_decode"}
        without = predict_row(alone, 1, seed=seed, calibration=calibration, view="stranger")
        if without.metrics:
            assumed += (f"speculative decoding ({method}) is not in the prediction: {prediction.reason}",)
            row = alone
            prediction = without
    figures = _figures(row, prediction)
    if said := _impossible(figures):
        return ServerComparison(row, replace(prediction, reason=said), (), (), assumed)
    causes: tuple[Cause, ...] = ()
    if with_causes and figures and _error(figures) > _OFF_FROM:
        causes = _causes(row, figures, calibration, seed)
    return ServerComparison(row, prediction, figures, causes, assumed)


def _figures(row: Mapping[str, str], prediction: Prediction) -> tuple[ServerFigure, ...]:
    found = []
    for metric, predicted in prediction.metrics.items():
        measured = float(row.get(metric) or "nan")
        if not (measured > 0 and predicted.value > 0):
            continue
        is_latency = metric.startswith(_LATENCIES)
        bounds = tuple(map(float, row.get(f"{metric}{_WITHIN}", "").split()))
        within = (bounds[0], bounds[1]) if len(bounds) == 2 else None
        lowest, highest = within or (measured, measured)
        verdict: Verdict = "as expected"
        if lowest > predicted.high:
            verdict = "slower" if is_latency else "faster"
        elif highest < predicted.low:
            verdict = "faster" if is_latency else "slower"
        found.append(ServerFigure(metric, measured, predicted, verdict, within))
    return tuple(found)


_TOO_FAST: Final = 10.0
"""Ratio of predicted to measured decode time from which no server has the figure. Own choice: accepted drafts and the
narrowest formats explain a factor of 4."""


def _impossible(figures: Sequence[ServerFigure]) -> str:
    """Return a sentence on a decode time that no accelerator reaches; empty if there is none."""
    for figure in figures:
        ratio = math.exp(-figure.log_ratio)
        if figure.metric.startswith(("tpot_ms", "decode_tok_s")) and ratio > _TOO_FAST:
            return (
                f"no decode step is {ratio:.2g} times as fast as predicted: {figure.metric} {figure.measured:g} has "
                "another unit, or is that of another setting"
            )
    return ""


def exact(figures: Sequence[ServerFigure]) -> Sequence[ServerFigure]:
    """Return the figures that were measured themselves; all if each is known by bounds alone."""
    return [figure for figure in figures if figure.within is None] or figures


def _error(figures: Sequence[ServerFigure]) -> float:
    known = exact(figures)
    return math.fsum(abs(figure.log_ratio) for figure in known) / len(known) if known else 0.0


def _causes(
    row: Mapping[str, str], figures: Sequence[ServerFigure], calibration: Calibration | None, seed: int
) -> tuple[Cause, ...]:
    """Return the single changes of the server's settings under which most of the difference disappears, best first."""
    found = []
    for words, change in _suspects(row):
        prediction = predict_row(dict(row) | change, 1, seed=seed, calibration=calibration, view="stranger")
        changed = _figures(row, prediction)
        if len(changed) == len(figures) and _error(changed) <= _EXPLAINS * _error(figures):
            found.append(Cause(words, _error(changed)))
    return tuple(sorted(found, key=lambda cause: cause.error))


def _suspects(row: Mapping[str, str]) -> list[tuple[str, dict[str, str]]]:
    """Return settings and states that the row does not state and that a server may have, with their columns."""
    suspects: list[tuple[str, dict[str, str]]] = []
    if row.get("engine") in LOCAL_ENGINES:
        return suspects
    if not row.get("enforce_eager"):
        suspects.append(("it captures no decode graphs (--enforce-eager)", {"enforce_eager": "1"}))
    if not row.get("slow_host"):
        suspects.append(
            ("its host is slow: prompts wait for their experts to be launched", {"slow_host": "1"})
        )
    if not row.get("max_num_seqs"):
        most = float(row.get("concurrency") or "inf")
        suspects += [
            (f"at most {number} sequences run at once (--max-num-seqs)", {"max_num_seqs": str(number)})
            for number in _FEWER_SEQUENCES
            if number < most
        ]
    isl = float(row.get("isl") or 0)
    if not row.get("shared_prefix_len") and isl >= 64:
        for fraction in (0.5, 0.9):
            words = f"its prefix cache holds about {fraction:.0%} of each prompt (repeated prompts)"
            suspects.append((words, {"shared_prefix_len": str(round(fraction * isl)), "num_prefixes": "1"}))
    if not row.get("weight_dtype"):
        suspects += [
            (f"its weights are in {dtype} (--precision {dtype})", {"weight_dtype": dtype})
            for dtype in ("fp8", "int4")
        ]
    if not row.get("power_cap_w"):
        tdp_w = accelerators.by_id(row["gpu"]).tdp_w
        suspects += [
            (
                f"its accelerators are held to about {fraction * tdp_w:.0f} W",
                {"power_cap_w": f"{fraction * tdp_w:.0f}"},
            )
            for fraction in _POWER_FRACTIONS
            if tdp_w
        ]
    if not row.get("max_num_batched_tokens"):
        suspects.append(
            (
                "its steps take at most 2,048 tokens (--max-num-batched-tokens)",
                {"max_num_batched_tokens": "2048"},
            )
        )
    return suspects
