"""Speeds of prompts and outputs of local runs, in the tables and lines that people write by hand."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from advisor.catalog import models
from advisor.catalog.errors import InputFileError
from advisor.catalog.formats.accelerator_names import one_accelerator
from advisor.catalog.formats.benchmark_result import number_of
from advisor.catalog.formats.file_format import FileFormat
from advisor.catalog.formats.llama_bench import LlamaBenchRow, format_of, further_settings
from advisor.catalog.formats.meanings import plain_words
from advisor.catalog.formats.records import Record, read_records

_PER_S: Final = r"(?:tok(?:en)?s?|t) per (?:s|sec|second)|tps"
_OF_PROMPT: Final = r"pp ?\d*|prefill|prompt(?: (?:processing|eval\w*|speed|tokens?))?|input"
_OF_OUTPUT: Final = r"tg ?\d*|decod\w+|(?:token |text )?generation|gen|eval|output"
_NAME: Final = re.compile(
    rf"(?:(?P<prompt>{_OF_PROMPT})|(?P<output>{_OF_OUTPUT}))\b(?: (?:speed|rate|throughput))?"
    rf"(?: ?(?:at|@)? ?d ?(?P<depth>\d+))?(?P<unit> (?:{_PER_S}))?"
)
"""Name of a speed: pp512, tg128 @ d4096, Prefill (tok/s), Decode tok/s, token generation."""
_TEST: Final = re.compile(r"(?:pp|tg) ?\d+(?: ?(?:at|@)? ?d ?\d+)?")
_PER_SECOND: Final = re.compile(rf"(?:{_PER_S})(?: mean| avg)?|speed|rate|throughput")
_COUNT: Final = re.compile(r"(?:pp|tg) ?(\d+)")
_DEPTH: Final = re.compile(
    r"(?:prompt|input|context|ctx|depth)(?: (?:tokens?|length|size|depth|window))?|(?:prompt )?tokens?|n depth"
)
"""Title of the column of tokens before the row's outputs, or of its prompt."""
_RATE: Final = re.compile(
    r"[~≈]?\s*(\d[\d,]*(?:\.\d+)?)\s*(?:±\s*[\d.]+\s*)?(?P<unit>t(?:ok(?:en)?s?)?(?:/| per )s\w*|tps)?\.?"
)
_LOCAL: Final = re.compile(
    r"llama\.?cpp|llama-(?:server|bench|cli)|ollama|lm ?studio|kobold|gguf|\bmlx\b|\b(?:pp|tg)\d{2,}\b"
    r"|\b(?:UD-)?I?Q\d_[0-9A-Z]",
    re.IGNORECASE,
)
"""Words of what runs models on one machine for one request at a time."""
_SERVED: Final = re.compile(
    r"\b(?:vllm|sglang|tensorrt|ttft|tpot|itl|concurren\w+|clients|requests?/s|req/s)\b", re.IGNORECASE
)
_SIZED: Final = re.compile(r"\b[A-Za-z][\w.-]*[ -]\d+(?:\.\d+)?B(?:-A\d+B)?\b")
"""Words of a model's name with its size, be it in the catalog or not."""
_OUTPUTS: Final = re.compile(r"\b(\d{2,5}) (?:generated|output|new) tok", re.IGNORECASE)
_USUAL_OUTPUT: Final = 128
"""Output of a speed that states none [tokens]: llama-bench's, and a thousand more change a speed by a percent."""
_SUMS: Final = ("average", "mean", "avg", "median", "total")
_LONGEST: Final = 100
"""Characters of the longest line that is a title."""
_NAME_WORDS: Final = 4
_TITLE: Final = "speeds of prompts and outputs of a local run"


def read_local_tables(text: str) -> tuple[LlamaBenchRow, ...]:
    """Return the speeds of a text as tests of llama-bench; several runs of one test count with their mean.

    Raises: InputFileError: no speed is left, as prompts state no length.
    """
    found: dict[tuple[Any, ...], list[LlamaBenchRow]] = {}
    for row in _rows(text):
        place = (row.model, row.weight_dtype, row.num_prompt_tokens, row.num_output_tokens, row.depth_tokens)
        found.setdefault(place, []).append(row)
    if not found:
        raise InputFileError(
            f"no length of a prompt among the {_TITLE}",
            why="the speed of a prompt depends on its length",
            fix="name it pp512, or add a column Prompt tokens",
        )
    return tuple(
        replace(rows[0], tokens_per_s=sum(row.tokens_per_s for row in rows) / len(rows))
        for rows in found.values()
    )


def _rows(text: str) -> Iterator[LlamaBenchRow]:
    device = one_accelerator(text)
    about = _named_model(text)
    printed = _SIZED.search(text)
    format_ = format_of(text)
    outputs = _OUTPUTS.search(text)
    engine = "mlx" if re.search(r"\bmlx\b", text, re.IGNORECASE) else "llama.cpp"
    for record in _records(text):
        model = next((str(record[name]) for name in record if plain_words(name) == "model"), "")
        depth = next((_whole(record[name]) for name in record if _DEPTH.fullmatch(plain_words(name))), 0)
        for named, rate in _speeds(record):
            count = _COUNT.match(plain_words(named[0]))
            tokens = int(count[1]) if count else 0
            is_prompt = bool(named["prompt"])
            tokens = tokens or (depth if is_prompt else int(outputs[1]) if outputs else _USUAL_OUTPUT)
            if not tokens:
                continue
            before = int(named["depth"] or 0) or (0 if is_prompt else depth)
            yield LlamaBenchRow(
                model=model or (printed[0] if printed else ""),
                file_stem=_id_of(model) or about,
                weight_dtype=format_of(model) or format_,
                backend="",
                device=device,
                num_prompt_tokens=tokens if is_prompt else 0,
                num_output_tokens=0 if is_prompt else tokens,
                depth_tokens=before,
                tokens_per_s=rate,
                num_gpu_layers=None,
                engine=engine,
                stated=further_settings(record),
            )


def _records(text: str) -> Iterator[Record]:
    """Yield the records, without sums over those beside them."""
    for record in read_records(text, around=True):
        first = str(next(iter(record.values()), ""))
        if plain_words(first) not in _SUMS:
            yield _with_test_as_name(record)


def _with_test_as_name(record: Record) -> Record:
    """Return a row that names its test in a cell, `test: pp512, t/s: 980`, with that as the name of the rate."""
    tests = [name for name, cell in record.items() if _TEST.fullmatch(plain_words(str(cell)))]
    rates = [name for name in record if _PER_SECOND.fullmatch(plain_words(name))]
    if len(tests) != 1 or not rates:
        return record
    rest = {name: cell for name, cell in record.items() if name not in (tests[0], rates[0])}
    return {**rest, str(record[tests[0]]): record[rates[0]]}


def _speeds(record: Mapping[str, Any]) -> Iterator[tuple[re.Match[str], float]]:
    """Yield the speeds of a record with the names under which they stand."""
    for name, cell in record.items():
        named = _NAME.fullmatch(plain_words(name))
        found = _RATE.fullmatch(str(cell).strip()) if named else None
        if named is None or found is None:
            continue
        rate = number_of(found[1].replace(",", ""))
        if rate and (found["unit"] or named["unit"] or _COUNT.match(plain_words(name))):
            yield named, rate


def _whole(cell: Any) -> int:
    digits = re.sub(r"[,\s]|tok\w*", "", str(cell).lower())
    scale = 1024 if digits.endswith("k") else 1
    number = number_of(digits.removesuffix("k"))
    return round(number * scale) if number else 0


def _id_of(name: str) -> str:
    """Return the id of the model that a name begins with, in as many words as it takes; a tag of Ollama as it is, which
    names a format too. Empty if the name is of no model."""
    words = name.replace("*", " ").split()[:_NAME_WORDS]
    for count in range(len(words), 0, -1):
        found = models.find(models.name_in_path("-".join(words[:count]).strip(":,.")))
        if found is not None:
            return found.checkpoint if ":" in found.checkpoint else found.id
    return ""


def _named_model(text: str) -> str:
    """Return the one model of the catalog that the titles of a text name; empty if they name none or several."""
    named: dict[str, None] = {}
    for line in text.splitlines():
        if len(line) > _LONGEST or "|" in line:
            continue
        words = re.sub(r"[*#`,()]", " ", line).split()
        for place, word in enumerate(words):
            if any(sign.isdigit() for sign in "".join(words[place : place + 2])) and word[0].isalpha():
                found = _id_of(" ".join(words[place:]))
                if found:
                    named.setdefault(found)
                    break
    return next(iter(named), "") if len(named) == 1 else ""


def _is_local_table(text: str) -> bool:
    if not _LOCAL.search(text) or _SERVED.search(text):
        return False
    return any(True for record in _records(text) for _ in _speeds(record))


FORMAT: Final = FileFormat("local-table", _TITLE, "local benchmark", _is_local_table, read_local_tables)
