"""Conditions of a measured server in the text around its result: commands of its client, headings, settings.

Start commands of engines are read where pasted commands are (`advisor/cli/server_around.py`).
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

from advisor.catalog import models
from advisor.catalog.formats.accelerator_names import boards_in, unknown_accelerator
from advisor.catalog.formats.benchmark_result import BenchmarkResult
from advisor.catalog.formats.link_report import LinkReport
from advisor.catalog.formats.llama_bench import LlamaBenchRow, format_of
from advisor.catalog.formats.named_results import ENGINES
from advisor.catalog.formats.server_log import ServerLog
from advisor.catalog.formats.stated_settings import unplanned_engine

_VALUE: Final = r"[ =]+[\"']?([\w./:@-]+)"
_MODEL: Final = re.compile(
    r"(?:--(?:hf-)?model(?:[-_](?:path|name|id))?|--tokenizer|(?<!\S)-m|\bMODEL(?:_\w+)?|_MODEL|\bpretrained)"
    + _VALUE
)
"""Model in a command of a client or a variable; that of the tokenizer is the same. Of GenAI-Perf it is -m, behind which
Python names a module, which is no model."""
_TENSOR: Final = re.compile(r"\bTP[ =]?(\d+)\b")
_EXPERTS: Final = re.compile(r"\bEP[ =]?(\d+)\b")
_CLIENTS: Final = re.compile(
    r"--(?:max[-_])?concurrency[ =](\d+)\b|^\s*concurrency:\s*(\d+)\s*$|\bconc(?:urrency)?=(\d+)\b",
    re.MULTILINE,
)
_SENT: Final = re.compile(r"--num[-_]prompts?[ =](\d+)\b|--num[-_]requests[ =](\d+)\b")
_RATE: Final = re.compile(r"--request[-_]rate[ =](inf|[\d.]+)")
_LENGTHS: Final = tuple(
    re.compile(
        rf"--(?:random[-_]{what}(?:[-_]len)?|(?:synthetic[-_])?{what}[-_]tokens[-_]mean|{short})[ =](\d+)\b"
        rf"|\b{word}_tokens=(\d+)\b"
    )
    for what, short, word in (("input", "isl", "prompt"), ("output", "osl", "output"))
)
"""Nominal lengths of prompts and outputs in the command of a client."""
_SHORT_LENGTHS: Final = re.compile(r"(?<![\w./-])((\d{1,3})k[/_]?(\d{1,3})k)(?![\w/])")
"""Lengths of prompts and outputs as benchmarks abbreviate them, 8k1k, in thousands of 1,024 tokens. Source:
SemiAnalysisAI/InferenceX (ISL 1024, OSL 1024 under 1k1k)."""
_MET: Final = 0.01
"""Difference of a mean from its nominal length up to which no lengths were drawn: a tokenizer's own."""
_SENDS_AT_ONCE: Final = re.compile(r"\bvllm bench serve\b|\bbenchmark_serving\.py|\bbench_serving\b")
"""Programs that send all requests at once unless a rate or a number of clients is typed."""
_HEADING: Final = re.compile(r"^[ \t]*(?:#+|\*\*)[ \t]*(\S.*)$", re.MULTILINE)
_PLACE: Final = re.compile(
    r"(?P<labelled>(?:\b(?:GPUs?|[Hh]ardware|[Dd]evice|[Mm]achine|[Aa]ccelerators?)|_GPU)(?:_TYPE|_NAME)?[*` ]*"
    r"[=:]\s*(.{2,40})|^GPU \d+: (.{2,40})|(\d{1,4}\s*[x×]\s*.{2,40}))|\b[Oo]n\s+(.{2,40})"
)
"""Places in which people name the accelerators of a result: GPU: A100 80GB, Hardware: H20, on 8 H200, 2x H100."""
_MODEL_LINE: Final = re.compile(
    r"^[ \t*_-]*model(?:[ _](?:name|id))?[ \t*_]*[:=][ \t*_`]*([a-z][\w./: -]*?)[ \t*_`]*$",
    re.MULTILINE | re.IGNORECASE,
)
_RELEASE: Final = (
    r"(?i:\b{engine}(?:-openai)?(?:[ *_]+(?:version|release))?[*_` ]*[=:@(]{{0,2}}[*_` ]*)"
    r"v?(\d+\.\d+\.\d+(?:\.?(?:rc|post)\d+)?)"
)
"""Release behind the name of an engine: vLLM Version : 0.18.2, vllm==0.10.1, vllm/vllm-openai:v0.11.0."""
_WORDS: Final = {
    "version": "release",
    "request_rate_per_s": "requests/s",
    "tensor_parallel": "tp",
    "expert_parallel": "ep",
    "device": "gpu",
    "weight_dtype": "precision",
}
_WORD: Final = re.compile(r"(?<![\w./-])[A-Za-z][\w./-]*\d[\w./-]*(?::\w[\w.-]*)?")
_LONGEST_NAME_WORDS: Final = 5
_Value = TypeVar("_Value")
_WIDE: Final = ("bf16", "fp16", "fp32")
"""Formats that words around timings may name of a cache as well as of weights."""
_LONGEST_LINE: Final = 400
"""Longest line in which names are looked for [characters]; people write shorter ones."""
_OF_A_PROGRAM: Final = re.compile(r"^\s*[|+=]|:\s{2,}\S|\S={3}")
"""Signs of a line that a program prints: a row of a table, or a figure behind a wide gap."""


class _NamedModel(NamedTuple):
    """Model that a text names."""

    id: str
    reference: str
    """Name under which the model is found again with the formats of its checkpoint."""
    weights: str
    """Format that the name of the checkpoint states; empty if it names none."""


def complete(results: Any, text: str) -> Any:
    """Return results or a start-up log with what the text around them says of their conditions, where they state none.

    A condition that the text states with several values is left open. Anything else is returned as it is.
    """
    if isinstance(results, ServerLog):
        return _complete_log(results, text)
    if isinstance(results, tuple) and all(isinstance(one, LlamaBenchRow) for one in results):
        return _complete_local(results, text)
    if isinstance(results, LinkReport):
        return results if results.device else dataclasses.replace(results, device=_boards(text)[0] or "")
    is_document = text.lstrip()[:1] in ("{", "[")
    if is_document or not (
        isinstance(results, tuple) and all(isinstance(one, BenchmarkResult) for one in results)
    ):
        return results
    model = _model_in(text) or _unknown_model_in(text)
    gpu, count = _boards(text)
    tensors = _of_each(_TENSOR, text, len(results)) or [_one(_TENSOR.findall(text), int) or count] * len(
        results
    )
    experts = _of_each(_EXPERTS, text, len(results)) or [_one(_EXPERTS.findall(text), int)] * len(results)
    of_all = text if len(results) == 1 else "\n".join(_HEADING.findall(text))
    clients = _one(("".join(found) for found in _CLIENTS.findall(of_all)), int)
    rate = _one(_RATE.findall(text), float)
    if rate is None and clients is None and _SENDS_AT_ONCE.search(text):
        rate = float("inf")
    told = [_one((first or second for first, second in form.findall(text)), int) for form in _LENGTHS]
    short = _one((found[0] for found in _SHORT_LENGTHS.findall(text)), str)
    if short and told == [None, None] and (found := _SHORT_LENGTHS.search(text)):
        told = [1024 * int(found[2]), 1024 * int(found[3])]
    sent = _one(("".join(found) for found in _SENT.findall(of_all)), int)
    if sent is not None and len(results) == 1:
        results = (_with_lost(results[0], sent),)
    engine = _engine_in(text)
    if not engine and (other := unplanned_engine("\n".join(_lines_of_people(text)))):
        words = f"{other} has no plan: what it measured is held against vllm; --engine NAME says another"
        results = tuple(dataclasses.replace(one, notes=(*one.notes, words)) for one in results)
    return tuple(
        _with(_with_lengths(one, *told), model, gpu, (tensor, expert), clients, rate, engine)
        for one, tensor, expert in zip(results, tensors, experts, strict=True)
    )


def _with_lost(one: BenchmarkResult, sent: int) -> BenchmarkResult:
    """Return a result with how many of the requests that its client was told to send failed, if it states none."""
    if one.num_failed or one.num_requests is None or one.num_requests >= sent:
        return one
    return dataclasses.replace(one, num_failed=sent - one.num_requests)


def _of_each(form: re.Pattern[str], text: str, count: int) -> list[int | None]:
    """Return the numbers in the head of a table that has one for each of several results; empty if none has."""
    rows = (form.findall(line) for line in text.splitlines() if "|" in line)
    return next(([int(number) for number in row] for row in rows if len(row) == count > 1), [])


def _engine_in(text: str) -> str:
    """Return the one engine that the lines of people in a text name; empty if they name none, or several."""
    words = "\n".join(_lines_of_people(text)).lower()
    named = {id_ for word, id_ in ENGINES if re.search(rf"(?<![a-z]){re.escape(word)}", words)}
    return named.pop() if len(named) == 1 else ""


def _with_lengths(one: BenchmarkResult, inputs: int | None, outputs: int | None) -> BenchmarkResult:
    """Return a result with the lengths that its client was told to send, where it states none; its requests are equal
    if its means are those lengths."""
    added: dict[str, Any] = {}
    is_met = True
    for name, told in (("mean_input_tokens", inputs), ("mean_output_tokens", outputs)):
        mean = getattr(one, name)
        if told and mean is None:
            added[name] = float(told)
        is_met = is_met and bool(told and (mean is None or abs(mean / told - 1.0) < _MET))
    if is_met and not one.length_dist:
        added["length_dist"] = "fixed"
    return dataclasses.replace(one, **added) if added else one


def _with(
    one: BenchmarkResult,
    model: str | None,
    gpu: str | None,
    degrees: tuple[int | None, int | None],
    clients: int | None,
    rate: float | None,
    engine: str,
) -> BenchmarkResult:
    """Return a result with the conditions that it lacks, and a note on them."""
    added: dict[str, Any] = {}
    tensor, expert = degrees
    if not one.model and model:
        added["model"] = model
    if not one.gpu and gpu:
        added["gpu"] = gpu
    if not one.engine and engine:
        added["engine"] = engine
    if one.tensor_parallel is None and one.num_gpus is None and tensor:
        added["tensor_parallel"] = tensor
    if one.expert_parallel is None and expert:
        added["expert_parallel"] = expert
    if one.concurrency is None and one.request_rate_per_s is None:
        if clients:
            added["concurrency"] = clients
        elif rate is not None:
            added["request_rate_per_s"] = rate
    if not added:
        return one
    said = ", ".join(
        "all requests at once" if value == float("inf") else f"{_WORDS.get(name, name)} {value}"
        for name, value in added.items()
    )
    return dataclasses.replace(one, **added, notes=(*one.notes, f"the text around the result says: {said}"))


def _one(found: Iterable[str], read: Callable[[str], _Value | None]) -> _Value | None:
    """Return the value that all texts mean which mean any; None if there is none, or several."""
    values = {value for text in found if text and (value := read(text)) is not None}
    return values.pop() if len(values) == 1 else None


def _model_in(text: str) -> str | None:
    """Return the one model that the commands, headings and lines of a text name, or else its other lines; None if there
    is none, or several."""
    named = (
        *_MODEL.findall(text),
        *(name for line in _HEADING.findall(text) for name in _names_in(line)),
        *(word for line in _MODEL_LINE.findall(text) for word in (line, "-".join(line.split()))),
    )
    found = {*filter(None, map(_model_record, named))}
    found = found or {
        record
        for line in _lines_of_people(text)
        for name in _names_in(line)
        if (record := _model_record(name)) is not None
    }
    return _one_model(found)


def _unknown_model_in(text: str) -> str | None:
    """Return the one repository that commands name as their model, whether or not the catalog has it; None for none,
    or several: an error names it with near misses."""
    return _one((name for name in _MODEL.findall(text) if re.fullmatch(r"[\w.-]+/[\w.-]+", name)), str)


def _lines_of_people(text: str) -> Iterator[str]:
    """Yield the lines of a text that are no rows of a table or of a result, up to the length that people write."""
    for line in text.splitlines():
        if line.strip() and len(line) <= _LONGEST_LINE and not _OF_A_PROGRAM.search(line):
            yield line


def _one_model(found: Iterable[_NamedModel]) -> str | None:
    """Return the name of the one model that is meant; None if there is none, or several. A checkpoint says more than
    its model: it counts, unless another one has other formats."""
    named = sorted(found)
    checkpoints = [one for one in named if one.weights]
    formats = {one.weights for one in checkpoints}
    if len({one.id for one in named}) != 1 or len(formats) > 1:
        return None
    return checkpoints[0].reference if checkpoints else named[0].id


def _names_in(heading: str) -> Iterator[str]:
    """Yield the words of a heading that may be the name of a model, and the longest of its phrases that is one."""
    yield from (word.rstrip(".") for word in _WORD.findall(heading))
    words = re.sub(r"[()\[\],:*`]", " ", heading).split()
    for count in range(_LONGEST_NAME_WORDS, 1, -1):
        phrases = (" ".join(words[place : place + count]) for place in range(len(words) - count + 1))
        found = [phrase for phrase in phrases if "/" not in phrase and _model_record(phrase)]
        if found:
            yield from found
            return


def _model_record(name: str) -> _NamedModel | None:
    record = models.find(models.name_in_path(name))
    if record is None:
        return None
    stored = bool(record.checkpoint)
    return _NamedModel(
        record.id, record.checkpoint if stored else record.id, record.weights if stored else ""
    )


def _boards(text: str) -> tuple[str | None, int | None]:
    """Return the one accelerator that a text names with its number, as a setting or as a place, and that number; else
    the name of one that the catalog does not have."""
    lines = [line for line in text.splitlines() if len(line) <= _LONGEST_LINE]
    places = [found for line in lines for found in _PLACE.finditer(line)]
    told = {
        one
        for found in places
        for one in boards_in(
            next(filter(None, found.groups()[1:])), counts_short_names=bool(found["labelled"])
        )
    }
    named = told or {one for line in _lines_of_people(text) for one in boards_in(line)}
    ids = {id_ for id_, _ in named}
    counts = {int(count) for _, count in named if count}
    if not ids:
        return unknown_accelerator("\n".join(_lines_of_people(text))) or None, None
    if len(ids) != 1:
        return None, None
    return ids.pop(), (counts.pop() if len(counts) == 1 else None)


def _complete_local(rows: tuple[LlamaBenchRow, ...], text: str) -> tuple[LlamaBenchRow, ...]:
    """Return timings of a local engine with what they lack of model, format and accelerator, as the text names them."""
    model = None if all(one.model or one.file_stem for one in rows) else _model_in(text)
    weights = models.get(model).record.weights if model else ""
    is_checkpoint = bool(model) and model not in models.all_ids()
    gpu = None if all(one.device for one in rows) else _boards(text)[0]
    stated = _file_format_in(text)
    return tuple(
        dataclasses.replace(
            one,
            device=one.device or gpu or "",
            file_stem=one.file_stem or ("" if one.model else model or ""),
            weight_dtype=one.weight_dtype
            or (weights if is_checkpoint and not (one.model or one.file_stem) else stated),
        )
        for one in rows
    )


def _file_format_in(text: str) -> str:
    """Return the one format of a local engine's file that the lines of people name; empty for none, or several."""
    named = {format_of(line) for line in _lines_of_people(text)} - {"", *_WIDE}
    return named.pop() if len(named) == 1 else ""


def _complete_log(log: ServerLog, text: str) -> ServerLog:
    """Return a start-up log with what it lacks of model, format, accelerator, number and release, as the text names
    them."""
    gpu, count = _boards(text)
    model = _model_in(text)
    weights = (format_of(log.model) or _file_format_in(text)) if log.engine == "llama.cpp" else ""
    release = _one(re.findall(_RELEASE.format(engine=re.escape(log.engine)), text), str)
    found: dict[str, Any] = {"device": gpu, "model": model, "weight_dtype": weights, "version": release}
    found["tensor_parallel"] = count
    added: dict[str, Any] = {name: value for name, value in found.items() if value and not getattr(log, name)}
    if not added:
        return log
    said = ", ".join(f"{_WORDS.get(name, name)} {value}" for name, value in added.items())
    return dataclasses.replace(log, **added, notes=(*log.notes, f"the text around the log says: {said}"))
