"""Recorded traffic: files with one request per row, in the layouts of the public traces and of this project."""

import csv
import datetime
import json
import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from advisor.catalog.errors import AdvisorError, InputFileError
from advisor.catalog.files import read_lines, too_many
from advisor.catalog.units import HOUR_S, MILLISECOND_S

HASH_TOKENS: Final = 512
"""Tokens of a hashed block, as in the Mooncake traces."""
LONGEST_GAP_S: Final = HOUR_S
"""Longest gap between two requests of one recording [s]; longer gaps are holes, over which rates and caches mean
nothing."""
LARGEST_TOKENS: Final = 10_000_000
MOST_REQUESTS: Final = 1_000_000
"""Highest number of requests of one trace: as many as one simulation takes."""
MOST_HASH_IDS: Final = 5_000_000
"""Highest number of block ids of all prompts of a trace: 400 MB."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests in order of arrival: instants counted from the first arrival [s], and (input, output) tokens."""

    times_s: tuple[float, ...]
    pairs: tuple[tuple[int, int], ...]
    hash_ids: tuple[tuple[int, ...], ...] | None = None
    """Block ids of each prompt, one for every HASH_TOKENS tokens, equal where two prompts share a prefix; None: not
    recorded."""
    rows: Sequence[int] = field(default=(), hash=False)
    """Row of the file that holds each request."""

    @property
    def rate_per_s(self) -> float | None:
        """Mean arrival rate [1/s]; None if all requests arrive at once."""
        return len(self.pairs) / self.duration_s if self.duration_s else None

    def sped_up(self, factor: float) -> "Trace":
        """Return the trace with its requests arriving `factor` times as fast.

        Raises: AdvisorError: a factor that is not positive and finite.
        """
        if not (math.isfinite(factor) and factor > 0):
            raise AdvisorError(f"a trace cannot be replayed {factor} times as fast", fix="a factor above 0")
        return replace(self, times_s=tuple(instant / factor for instant in self.times_s))

    def check_fits(self, max_context_tokens: int | None, model: str, path: Path) -> None:
        """Refuse a request that is longer than a model's context.

        Raises: InputFileError: a request is longer; the error names file and row.
        """
        if max_context_tokens is None:
            return
        for place, (inputs, outputs) in enumerate(self.pairs):
            if inputs + outputs > max_context_tokens:
                row = self.rows[place] if self.rows else place + 1
                raise InputFileError(
                    f"{path}: row {row}: {inputs} tokens in and {outputs} out",
                    why=f"the context of {model} ends at {max_context_tokens:,} tokens",
                    fix="drop the row, or take a model with a longer context",
                )

    @property
    def duration_s(self) -> float:
        """Time from the first arrival to the last [s]."""
        return self.times_s[-1]

    @property
    def mean_input_tokens(self) -> float:
        """Mean prompt length [tokens]."""
        return sum(pair[0] for pair in self.pairs) / len(self.pairs)

    @property
    def mean_output_tokens(self) -> float:
        """Mean output length [tokens]."""
        return sum(pair[1] for pair in self.pairs) / len(self.pairs)


@dataclass(frozen=True, slots=True)
class _Layout:
    time: str
    inputs: str
    outputs: str
    instant_s: Callable[[Any], float]


def _clock(value: Any) -> float:
    """Return the seconds of a calendar instant such as 2023-11-16 18:17:03.9799600; its seventh decimal is dropped."""
    day, _, fraction = str(value).partition(".")
    instant = datetime.datetime.fromisoformat(day).replace(tzinfo=datetime.UTC)
    return instant.timestamp() + float(f"0.{fraction or 0}")


LAYOUTS: Final = (
    _Layout("arrived_at_s", "input_tokens", "output_tokens", float),
    _Layout("TIMESTAMP", "ContextTokens", "GeneratedTokens", _clock),
    _Layout("timestamp", "input_length", "output_length", lambda value: float(value) * MILLISECOND_S),
)
"""Layouts of trace files: this project's own, Azure's (calendar instants) and Mooncake's (milliseconds)."""


def read_trace(path: Path) -> Trace:
    """Return the requests of a CSV file with a header or of a JSON-lines file, counted from the first arrival.

    Columns are arrived_at_s, input_tokens, output_tokens; or those of the Azure LLM inference traces; or those of
    the Mooncake traces. hash_ids, a list or numbers separated by spaces, tell which prompts share a prefix. Further
    columns are ignored.

    Raises: InputFileError: the file cannot be read, has no known columns or no rows, or a row is wrong: an instant
        that is no time, earlier than the one before it or more than an hour later; tokens that are no whole number
        of at least 1, or more than ten million; hash_ids that do not cover the prompt.
    Source: Azure/AzurePublicDataset (AzureLLMInferenceTrace), kvcache-ai/Mooncake (trace files).
    """
    is_lines = path.suffix.lower() in (".jsonl", ".ndjson")
    rows = _json_rows(path) if is_lines else _csv_rows(path)
    times = array("d")
    pairs: list[tuple[int, int]] = []
    numbers = array("q")
    counts: dict[int, int] = {}  # millions of rows share few numbers of tokens
    hashes: list[tuple[int, ...]] = []
    num_ids = 0
    layout: _Layout | None = None
    for number, row in rows:
        layout = layout or _layout_of(row, path)
        where = f"{path}: row {number}"
        instant = _instant(row, layout, where)
        if times:
            _check_step(instant - times[-1], layout, where)
        times.append(instant)
        pair = _tokens(row, layout.inputs, where), _tokens(row, layout.outputs, where)
        pairs.append((counts.setdefault(pair[0], pair[0]), counts.setdefault(pair[1], pair[1])))
        numbers.append(number)
        if row.get("hash_ids") not in (None, ""):
            hashes.append(_hash_ids(row["hash_ids"], pairs[-1][0], where))
            num_ids += len(hashes[-1])
        if len(pairs) > MOST_REQUESTS:
            raise too_many(path, MOST_REQUESTS, "requests")
        if num_ids > MOST_HASH_IDS:
            raise too_many(path, MOST_HASH_IDS, "ids of blocks")
    if not times:
        raise InputFileError(f"{path}: holds no requests", fix="give one request per row")
    return Trace(
        tuple(instant - times[0] for instant in times),
        tuple(pairs),
        tuple(hashes) if len(hashes) == len(pairs) else None,
        numbers,
    )


def _check_step(step_s: float, layout: _Layout, where: str) -> None:
    """Refuse a row whose instant is earlier than the previous row's, or later by more than LONGEST_GAP_S."""
    if step_s < 0:
        raise InputFileError(
            f"{where}: field {layout.time}: earlier than the row before it", fix="sort the trace by time"
        )
    if step_s > LONGEST_GAP_S:
        raise InputFileError(
            f"{where}: field {layout.time}: a gap of {step_s:.0f} s since the row before it",
            why=f"nothing for more than {LONGEST_GAP_S:.0f} s is a hole in the recording",
            fix="cut the trace there and give one of its parts",
        )


def _hash_ids(value: Any, input_tokens: int, where: str) -> tuple[int, ...]:
    """Return the ids of the blocks of one prompt."""
    try:
        ids = tuple(int(part) for part in (value.split() if isinstance(value, str) else value))
    except (TypeError, ValueError):
        ids = ()
    expected = -(-input_tokens // HASH_TOKENS)
    if len(ids) != expected:
        raise InputFileError(
            f"{where}: field hash_ids: {len(ids)} ids for {input_tokens} tokens",
            why=f"one id stands for {HASH_TOKENS} tokens, the last one for what is left",
            fix=f"{expected} whole numbers, or no hash_ids",
        )
    return ids


def _csv_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    reader = csv.DictReader(read_lines(path), strict=True)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise InputFileError(
            f"{path}: row {reader.line_num} is not CSV", why=str(error), fix="correct its quotes"
        ) from None


def _json_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputFileError(
                f"{path}: row {number} is not JSON", why=str(error), fix="one object per line"
            ) from None
        if not isinstance(row, dict):
            raise InputFileError(f"{path}: row {number} is no JSON object", fix="one object per line")
        yield number, row


def _layout_of(row: Mapping[str, Any], path: Path) -> _Layout:
    for layout in LAYOUTS:
        if all(name in row for name in (layout.time, layout.inputs, layout.outputs)):
            return layout
    known = "; ".join(f"{layout.time}, {layout.inputs}, {layout.outputs}" for layout in LAYOUTS)
    raise InputFileError(
        f"{path}: no known columns", why=f"it has {', '.join(map(str, row)) or 'none'}", fix=f"needs {known}"
    )


def _instant(row: Mapping[str, Any], layout: _Layout, where: str) -> float:
    value = row.get(layout.time)
    try:
        instant = layout.instant_s(value)
    except (TypeError, ValueError):
        instant = math.nan
    if not math.isfinite(instant):
        raise InputFileError(
            f"{where}: field {layout.time}: {value!r}", why="not an instant", fix="correct it"
        )
    return instant


def _tokens(row: Mapping[str, Any], name: str, where: str) -> int:
    value = row.get(name)
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not (number >= 1 and number.is_integer()):
        raise InputFileError(
            f"{where}: field {name}: {value!r}",
            why="not a whole number of at least 1",
            fix="correct it or drop the row",
        )
    if number > LARGEST_TOKENS:
        raise InputFileError(
            f"{where}: field {name}: {number:.0f} tokens",
            why=f"more than {LARGEST_TOKENS:,}, which no model takes",
            fix="correct it or drop the row",
        )
    return int(number)
