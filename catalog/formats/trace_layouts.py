"""Layouts of recorded traffic: which columns a public trace has, in which unit, and how many tokens one id covers."""

import datetime
import email.utils
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.units import MILLISECOND_S

MOONCAKE_BLOCK: Final = 512
"""Tokens that one id of a Mooncake trace covers."""
_BAILIAN_BLOCK: Final = 16
_CONVERSATION_BLOCK: Final = 64
"""Tokens by which the shared beginnings of a conversation's turns are counted. Own choice: shorter blocks exceed the
memory of a trace at contexts of 100,000 tokens, longer ones miss the reuse of short chats."""
_ZULU: Final = re.compile(r"\s*(?:Z|UTC|GMT)$")
_FRACTION: Final = re.compile(r"\.(\d+)")
_MOST_BLOCK: Final = 65_536


MODEL_COLUMNS: Final = ("model", "Model", "model_name", "modelName")
"""Columns of a trace that name a model: they bear on a replay where they name several."""
UNUSED_COLUMNS: Final = {
    **dict.fromkeys(MODEL_COLUMNS, "all requests are replayed on one model"),
    **dict.fromkeys(("images", "num_images", "image_count"), "images are not counted in its tokens"),
    **dict.fromkeys(("audio", "audio_seconds"), "sound is not counted in its tokens"),
    **dict.fromkeys(("priority",), "requests are served in the order of their arrival"),
    **dict.fromkeys(
        ("adapter", "lora", "lora_name", "adapter_id"), "requests are replayed on the base model"
    ),
}
"""Columns that bear on how a request was served and that a replay does not read, with what is done instead."""


@dataclass(frozen=True, slots=True)
class TraceLayout:
    """How one kind of trace writes a request."""

    id: str
    title: str
    time: str
    """Column of the arrival; empty if the layout has none."""
    inputs: str
    outputs: str
    instant_s: Callable[[Any], float]
    unit: str
    """Unit of the times, in words."""
    marks: tuple[str, ...] = ()
    """Columns that only this layout has; at least one is there, unless there are none."""
    hashes: str = "hash_ids"
    block_tokens: int = MOONCAKE_BLOCK
    """Tokens of one id, where rows do not say it in `block_size`."""
    leaves_out_failed: bool = True
    """Whether a row without output tokens is a request that failed, which is left out."""
    may_abridge_ids: bool = False
    """Whether excerpts of the trace leave out ids in the middle; such ids are not used."""
    names_ids: bool = False
    """Whether an id is text, because it counts within its conversation only."""
    is_sorted: bool = True

    @property
    def is_conversation(self) -> bool:
        """Whether rows are turns that only state what is new in their prompts. A row that lists the blocks of its
        prompt states all of it."""
        return self.id == "sessions"

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Whether a row has the columns of the layout."""
        needed = (name for name in (self.time, self.inputs, self.outputs) if name)
        return (
            all(name in row for name in needed)
            and (not self.marks or any(mark in row for mark in self.marks))
            and not (self.is_conversation and row.get(self.hashes))
        )


def clock_s(value: Any) -> float:
    """Return the seconds of a calendar instant, whose zone is UTC unless it says another.

    Decimals beyond the sixth count: `2023-11-16 18:17:03.9799600`, `2024-05-10 00:00:00.009930+00:00`.
    """
    text = str(value).strip()
    fraction = _FRACTION.search(text)
    whole = _ZULU.sub("+00:00", _FRACTION.sub("", text, count=1))
    if re.fullmatch(r"\d{1,2}:\d\d:\d\d", whole):  # a time of day: only differences between instants count
        whole = f"1970-01-01 {whole:0>8}"
    try:
        instant = datetime.datetime.fromisoformat(whole)
    except ValueError:
        instant = email.utils.parsedate_to_datetime(text)  # as HTTP and mail write a date
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=datetime.UTC)
    return instant.timestamp() + (float(f"0.{fraction[1]}") if fraction else 0.0)


def milliseconds(value: Any) -> float:
    """Return the seconds of a number of milliseconds."""
    return float(value) * MILLISECOND_S


_NO_TIMES: Final = "no times"
_BAILIAN_MARKS: Final = ("chat_id", "parent_chat_id")
LAYOUTS: Final = (
    TraceLayout(
        "own",
        "own columns",
        "arrived_at_s",
        "input_tokens",
        "output_tokens",
        float,
        "seconds",
        leaves_out_failed=False,
    ),
    TraceLayout(
        "azure",
        "Azure LLM inference trace",
        "TIMESTAMP",
        "ContextTokens",
        "GeneratedTokens",
        clock_s,
        "calendar instants",
    ),
    TraceLayout(
        "burstgpt", "BurstGPT trace", "Timestamp", "Request tokens", "Response tokens", float, "seconds"
    ),
    TraceLayout(
        "bailian",
        "Qwen-Bailian trace",
        "timestamp",
        "input_length",
        "output_length",
        float,
        "seconds",
        marks=_BAILIAN_MARKS,
        block_tokens=_BAILIAN_BLOCK,
        may_abridge_ids=True,
    ),
    TraceLayout(
        "sessions",
        "AIPerf conversations",
        "",
        "input_length",
        "output_length",
        milliseconds,
        "milliseconds",
        marks=("session_id",),
        block_tokens=_CONVERSATION_BLOCK,
        is_sorted=False,
    ),
    TraceLayout(
        "mooncake",
        "Mooncake trace",
        "timestamp",
        "input_length",
        "output_length",
        milliseconds,
        "milliseconds",
        leaves_out_failed=False,
    ),
    TraceLayout(
        "baseten",
        "Baseten trace",
        "timestamp_start_unix_ms",
        "input_tokens",
        "output_tokens",
        milliseconds,
        "milliseconds",
        hashes="total_hashes",
        is_sorted=False,
    ),
    TraceLayout(
        "weka",
        "agentic trace of WEKA's cache tester",
        "t",
        "in",
        "out",
        float,
        "seconds",
        marks=("type",),
        names_ids=True,
        is_sorted=False,
    ),
    TraceLayout(
        "vidur",
        "Vidur trace",
        "arrived_at",
        "num_prefill_tokens",
        "num_decode_tokens",
        float,
        "seconds",
    ),
    TraceLayout(
        "opentelemetry",
        "OpenTelemetry spans",
        "start_s",
        "gen_ai_input_tokens",
        "gen_ai_output_tokens",
        float,
        "seconds",
        is_sorted=False,
    ),
    TraceLayout(
        "opentelemetry-ends",
        "OpenTelemetry spans without their starts: a request is taken to come at its end",
        "end_s",
        "gen_ai_input_tokens",
        "gen_ai_output_tokens",
        float,
        "seconds",
        is_sorted=False,
    ),
    TraceLayout(
        "calls",
        "log of calls to an API",
        "called_at",
        "prompt_tokens",
        "completion_tokens",
        float,
        "calendar instants",
        is_sorted=False,
    ),
    TraceLayout(
        "named",
        "requests by the names of their fields",
        "named_at_s",
        "named_inputs",
        "named_outputs",
        float,
        "the unit of their name or of a clock",
        is_sorted=False,
    ),
    TraceLayout(
        "named-lengths", "lengths without times", "", "named_inputs", "named_outputs", float, _NO_TIMES
    ),
    TraceLayout(
        "lengths", "lengths without times", "", "input_length", "output_length", milliseconds, _NO_TIMES
    ),
    TraceLayout(
        "own-lengths", "lengths without times", "", "input_tokens", "output_tokens", float, _NO_TIMES
    ),
    TraceLayout(
        "vidur-lengths",
        "lengths without times",
        "",
        "num_prefill_tokens",
        "num_decode_tokens",
        float,
        _NO_TIMES,
    ),
)
"""Layouts in the order in which they are tried, the most specific first.

Source: Azure/AzurePublicDataset (2023, 2024); HPMLL/BurstGPT; alibaba-edu/qwen-bailian-usagetraces-anon;
kvcache-ai/Mooncake; ai-dynamo/aiperf docs (conversations, Baseten, WEKA); microsoft/vidur (data/processed_traces);
OpenTelemetry semantic conventions; logs of calls as catalog.formats.call_logs.
"""
_TIMES: Final = re.compile(r"time|arriv|stamp|delay|(?:_|\b)(?:at|ts)(?:_|\b)", re.IGNORECASE)
"""Names of columns that hold times in some unit."""
_KNOWN: Final = "arrived_at_s (seconds), input_tokens, output_tokens"


def layout_of(row: Mapping[str, Any], name: str) -> TraceLayout:
    """Return the layout of a first row; `name` names the file in the message.

    Raises: InputFileError: the row has no known columns; says which of the nearest layout are missing.
    """
    for layout in LAYOUTS:
        if layout.holds(row):
            if layout.unit == _NO_TIMES and (times := [str(one) for one in row if _TIMES.search(str(one))]):
                raise InputFileError(
                    f"{name}: column {', '.join(times)} seems to hold times, whose unit is not known",
                    why="without them only the lengths would be read",
                    fix="name the column arrived_at_s with times in seconds, or drop it",
                )
            return layout
    possible = [layout for layout in LAYOUTS if not layout.marks or any(mark in row for mark in layout.marks)]
    nearest = max(possible, key=lambda layout: sum(column in row for column in _columns(layout)))
    missing = [column for column in _columns(nearest) if column not in row]
    has = ", ".join(map(str, list(row)[:12])) or "none"
    if len(missing) == len(_columns(nearest)):
        raise InputFileError(
            f"{name}: no known columns",
            why=f"it has {has}",
            fix=f"name them {_KNOWN}; prompt_tokens and completion_tokens beside a timestamp are read too",
        )
    raise InputFileError(
        f"{name}: no {' and no '.join(missing)}",
        why=f"it looks like {nearest.title}, and lengths are not guessed; it has {has}",
        fix=f"add {', '.join(missing)} to each row",
    )


def _columns(layout: TraceLayout) -> list[str]:
    return [name for name in (layout.time, layout.inputs, layout.outputs) if name]


def block_of(row: Mapping[str, Any], layout: TraceLayout, where: str) -> int:
    """Return how many tokens one id of a row covers: its own `block_size`, else the layout's.

    Raises: InputFileError: it is no whole number of tokens.
    """
    value = row.get("block_size")
    if value in (None, ""):
        return layout.block_tokens
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (1 <= number <= _MOST_BLOCK and number.is_integer()):
        raise InputFileError(
            f"{where}: field block_size: {value!r}",
            why="not a whole number of tokens",
            fix="correct it, or drop hash_ids",
        )
    return int(number)
