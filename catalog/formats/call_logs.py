"""Logs of calls to a model's API as requests of a trace: LiteLLM, Langfuse, Helicone, responses of OpenAI's and
Anthropic's interfaces; and what is no trace: totals by day, texts without counts."""

from collections.abc import Mapping
from typing import Any, Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.formats.benchmark_result import number_of
from advisor.catalog.formats.trace_layouts import clock_s

Row = Mapping[str, Any]
_STARTS: Final = (
    "startTime",
    "start_time",
    "request_created_at",
    "createdAt",
    "created_at",
    "created",
    "timestamp",
)
"""Names of the instant at which a call began, the most specific first."""
_UNIX: Final = ("created", "created_at")
"""Names whose numbers are seconds since 1970 in OpenAI's interfaces; other numbers have no known unit."""
_USAGE: Final = ("usageDetails", "usage_details", "usage")
_INPUTS: Final = ("prompt_tokens", "input_tokens", "promptTokens", "inputTokens", "input")
_OUTPUTS: Final = ("completion_tokens", "output_tokens", "completionTokens", "outputTokens", "output")
_CACHED: Final = ("cache_read_input_tokens", "cache_creation_input_tokens")
"""Tokens of a prompt that Anthropic's interface counts apart from `input_tokens`."""
_COUNT: Final = "num_model_requests"
_TEXTS: Final = ("conversations", "messages", "prompt", "text", "conversation")
"""Keys of texts in sets of prompts, such as ShareGPT's."""


def call_of(row: Row) -> Row | None:
    """Return a call as a request with `called_at` [s], `prompt_tokens` and `completion_tokens`; None for any other row.

    Source: BerriAI/litellm (spend logs), langfuse API (observations), Helicone (request export), OpenAI and Anthropic
        API references (usage of a response).
    """
    start = next((name for name in _STARTS if row.get(name) not in (None, "")), None)
    usage: Row = next((row[name] for name in _USAGE if isinstance(row.get(name), Mapping)), row)
    inputs = next((usage[name] for name in _INPUTS if number_of(usage.get(name)) is not None), None)
    outputs = next((usage[name] for name in _OUTPUTS if number_of(usage.get(name)) is not None), None)
    if start is None or inputs is None or outputs is None:
        return None
    begun = number_of(row[start]) if start in _UNIX else None
    try:
        begun = clock_s(row[start]) if begun is None else begun
    except ValueError:
        return None  # a number whose unit is not known
    cached = sum(number_of(usage.get(name)) or 0.0 for name in _CACHED)
    return {
        "called_at": begun,
        "prompt_tokens": float(inputs) + cached,
        "completion_tokens": outputs,
    }


def is_other_event(row: Row) -> bool:
    """Whether a row of a log is a step beside the calls: a span or an event without tokens (Langfuse)."""
    return str(row.get("type", "")).upper() in ("SPAN", "EVENT", "TRACE", "TOOL") and "startTime" in row


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


def check_has_counts(row: Row, where: str) -> None:
    """Refuse texts whose tokens nothing counts.

    Raises: InputFileError: the row holds such a text.
    Source: ShareGPT's and OpenAI's formats of conversations.
    """
    text = next((name for name in _TEXTS if isinstance(row.get(name), str | list)), None)
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
