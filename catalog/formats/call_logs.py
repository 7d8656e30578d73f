"""Logs of calls to a model's API as requests of a trace: gateways, observers, responses of interfaces, sessions of
coding agents, whatever wraps them; and what is no trace: totals by day, texts without counts."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.files import parsed_json
from advisor.catalog.formats.benchmark_result import number_of
from advisor.catalog.formats.meanings import plain_words
from advisor.catalog.formats.records import flat_fields
from advisor.catalog.formats.trace_layouts import UNUSED_COLUMNS, clock_s, milliseconds

Row = Mapping[str, Any]
_STARTS: Final = (
    "startTime",
    "start_time",
    "request_created_at",
    "createdAt",
    "created_at",
    "created",
    "createTime",
    "started_at",
    "timestamp",
    "@timestamp",
)
"""Names of the instant at which a call began, the most specific first."""
_UNIX: Final = ("created", "created_at")
"""Names whose numbers are seconds since 1970 in OpenAI's interfaces; other numbers have no known unit."""
_MILLISECONDS: Final = ("started_at",)
"""Names whose numbers are milliseconds since 1970 (Kong)."""
_INPUTS: Final = (
    *("prompt_tokens", "input_tokens", "promptTokens", "inputTokens", "input"),
    *("promptTokenCount", "inputTokenCount", "prompt_eval_count", "tokens_prompt", "req_units"),
)
_OUTPUTS: Final = (
    *("completion_tokens", "output_tokens", "completionTokens", "outputTokens", "output"),
    *("candidatesTokenCount", "outputTokenCount", "eval_count", "tokens_completion", "res_units"),
)
_THOUGHT: Final = "thoughtsTokenCount"
"""Tokens of an output that Gemini's interface counts apart from `candidatesTokenCount`."""
_SUMS: Final = ("total_token_usage",)
"""Keys of sums over the calls so far (Codex); the call's own counts have another key."""
_DEEPEST: Final = 6
"""Levels of objects in which a call is looked for: Kong's and OpenAI's batches have four."""
CACHED: Final = ("cache_read_input_tokens", "cache_creation_input_tokens")
"""Tokens of a prompt that Anthropic's interface counts apart from `input_tokens`."""
_CACHE_READ: Final = re.compile(
    r"(?:prompt )?cached?(?: (?:read|content|input|prompt|hit))* (?:tokens?|token count)"
)
"""Names of tokens of a prompt that a prefix cache held, in plain words."""
_MAY_COUNT: Final = re.compile(
    r"tok|prompt|input|output|len|usage|context|prefill|decode|generat|complet|isl|osl|size", re.IGNORECASE
)
_COUNT: Final = "num_model_requests"
_PERIOD: Final = re.compile(r"\b(?:time|date|day|hour|minute|interval|bucket|period|timestamp|from|start)\b")
"""Words in the names of columns that tell a time or a part of a day."""
_REQUESTS: Final = re.compile(r"\b(?:requests?|calls?|queries|hits|count|number|qps|rps|rpm|volume)\b")
"""Words in the names of columns that tell a number of requests."""
_TEXTS: Final = ("conversations", "messages", "prompt", "text", "conversation")
"""Keys of texts in sets of prompts, such as ShareGPT's."""


def call_of(row: Row) -> Row | None:
    """Return a call as a request with `called_at` [s], `prompt_tokens` and `completion_tokens`; None for any other row.

    Source: BerriAI/litellm (spend logs), langfuse API (observations), Helicone (request export), Portkey (log export),
        OpenRouter (activity), Kong (AI proxy's log), Amazon Bedrock (model invocation log), OpenAI, Anthropic, Gemini
        and Ollama API references (usage of a response), sessions of Claude Code and Codex.
    """
    layers = tuple(_layers(row))
    whole = {name: value for layer in reversed(layers) for name, value in layer.items()}
    counts = ((_first(one, _INPUTS), _first(one, _OUTPUTS), one) for one in (*layers, whole))
    found = next((each for each in counts if each[0] is not None and each[1] is not None), None)
    times = (_instant_s(layer, name) for layer in layers for name in _STARTS if name in layer)
    begun = next((time for time in times if time is not None), None)
    if found is None or begun is None:
        return None
    inputs, outputs, usage = found
    return {
        "called_at": begun,
        "prompt_tokens": (inputs or 0.0) + sum(number_of(usage.get(name)) or 0.0 for name in CACHED),
        "cached_tokens": next(
            (number_of(cell) for name, cell in flat_fields(usage).items() if is_cached(name)), None
        ),
        "completion_tokens": (outputs or 0.0) + (number_of(usage.get(_THOUGHT)) or 0.0),
        "call_id": next((layer["requestId"] for layer in layers if "requestId" in layer), None),
        **{name: whole[name] for name in UNUSED_COLUMNS if name in whole},
    }


def is_cached(name: str) -> bool:
    """Whether a field counts the tokens of a prompt that were read from a prefix cache."""
    parts = name.split(".")
    return any(_CACHE_READ.fullmatch(plain_words(" ".join(parts[-count:]))) for count in (1, 2))


def _layers(row: Row) -> Iterator[Row]:
    """Yield a row and the objects within it, the outer ones first; a text that is JSON is the object that it holds."""
    level = [row]
    for _ in range(_DEEPEST):
        yield from level
        inner = [value for one in level for name, value in one.items() if name not in _SUMS]
        texts = [_parse(value) if isinstance(value, str) and value[:1] == "{" else value for value in inner]
        level = [value for value in texts if isinstance(value, Mapping)]


def _parse(text: str) -> Any:
    try:
        return parsed_json(text)
    except (ValueError, RecursionError):
        return None


def _first(usage: Row, names: tuple[str, ...]) -> float | None:
    """Return the first of the numbers that an object has under one of several names."""
    return next((value for name in names if (value := number_of(usage.get(name))) is not None), None)


def _instant_s(row: Row, name: str) -> float | None:
    """Return the instant under a name [s since 1970]; None for a number whose unit is not known."""
    number = number_of(row[name])
    if number is not None:
        return number if name in _UNIX else milliseconds(number) if name in _MILLISECONDS else None
    try:
        return clock_s(row[name])
    except ValueError:
        return None


def is_other_event(row: Row) -> bool:
    """Whether a row of a log is no call: a span (Langfuse), a person's turn (coding agents), a failure."""
    return isinstance(row.get("type"), str) or (row.get("response", row) is None and "error" in row)


def counts_nothing(row: Row) -> bool:
    """Whether no name in a row can be that of a length: the row tells of something else than a request."""
    return not any(_MAY_COUNT.search(name) for layer in _layers(row) for name in layer)


def check_is_no_total(row: Row, where: str) -> None:
    """Refuse totals of many requests, with the means that they give.

    Raises: InputFileError: the row is such a total.
    Source: OpenAI API reference (organization usage).
    """
    if (totals := _totals(row)) is not None:
        count, inputs, outputs, seconds = totals
        rate = f" --rate {count / seconds:.4g}" if seconds else ""
        raise InputFileError(
            f"{where}: totals of {count:,.0f} requests, not requests",
            why="when they came and how long each was is not in an export of usage",
            fix=f"--input-tokens {inputs / count:.0f} --output-tokens {outputs / count:.0f}{rate} instead of the trace",
        )


def check_is_no_course(row: Row, where: str) -> None:
    """Refuse numbers of requests by hour or day.

    Raises: InputFileError: the row has a time and a number of requests, and no length.
    """
    plain = {name: plain_words(str(name)) for name in row}
    time = next((name for name, words in plain.items() if _PERIOD.search(words)), None)
    count = next((n for n, words in plain.items() if n != time and _REQUESTS.search(words)), None)
    if time is None or count is None or number_of(row[count]) is None or not counts_nothing(row):
        return
    raise InputFileError(
        f"{where}: {count} by {time}, not requests",
        why="a trace has a row for each request, with its arrival and its lengths",
        fix="give the mean as --rate; advisor cost --shape FILE.toml takes the course of a day, with "
        "levels = [24 numbers] in the file",
    )


def check_has_counts(row: Row, where: str) -> None:
    """Refuse texts whose tokens nothing counts.

    Raises: InputFileError: the row holds such a text.
    Source: ShareGPT's and OpenAI's formats of conversations.
    """
    text = next(
        (name for layer in _layers(row) for name in _TEXTS if isinstance(layer.get(name), str | list)), None
    )
    if text is not None and str(row.get(text, "")).strip().isdigit():
        raise InputFileError(
            f"{where}: {text} holds numbers, of tokens or of letters",
            why="the name of the column does not say what is counted",
            fix="name the columns input_tokens and output_tokens if they count tokens",
        )
    if text is not None:
        raise InputFileError(
            f"{where}: {text} holds text, and nothing counts its tokens",
            why="tokens depend on the model's tokenizer, and are not guessed from letters",
            fix="count them with it: one row of arrived_at_s, input_tokens, output_tokens for each request",
        )


def _totals(row: Row) -> tuple[float, float, float, float] | None:
    """Return requests, input tokens, output tokens and seconds of all totals in a row; None if there are none."""
    buckets = row["data"] if isinstance(row.get("data"), list) else [row]
    found = [0.0, 0.0, 0.0, 0.0]
    for bucket in buckets:
        if not isinstance(bucket, Mapping):
            return None
        results = bucket["results"] if isinstance(bucket.get("results"), list) else [bucket]
        counted = [one for one in results if isinstance(one, Mapping) and number_of(one.get(_COUNT))]
        for one in counted:
            for place, name in enumerate((_COUNT, "input_tokens", "output_tokens")):
                found[place] += number_of(one.get(name)) or 0.0
        begun, ended = (number_of(bucket.get(name)) for name in ("start_time", "end_time"))
        if counted and begun is not None and ended is not None:
            found[3] += max(0.0, ended - begun)
    return (found[0], found[1], found[2], found[3]) if found[0] else None
