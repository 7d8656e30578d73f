"""Recorded traffic: files with one request per row, in the layouts of the public traces and in our own."""

import csv
import datetime
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.files import read_text
from advisor.catalog.units import MILLISECOND_S


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests in order of arrival: instants [s] from the first one on, and (input, output) tokens.

    Source: own definition.
    """

    times_s: tuple[float, ...]
    pairs: tuple[tuple[int, int], ...]

    @property
    def duration_s(self) -> float:
        """From the first arrival to the last [s]."""
        return self.times_s[-1]

    @property
    def mean_input_tokens(self) -> float:
        """Tokens of the mean prompt."""
        return sum(pair[0] for pair in self.pairs) / len(self.pairs)

    @property
    def mean_output_tokens(self) -> float:
        """Tokens of the mean answer."""
        return sum(pair[1] for pair in self.pairs) / len(self.pairs)


@dataclass(frozen=True, slots=True)
class _Layout:
    time: str
    inputs: str
    outputs: str
    instant_s: Callable[[Any], float]


def _clock(value: Any) -> float:
    """Seconds of a calendar instant such as 2023-11-16 18:17:03.9799600; its seventh decimal is dropped."""
    day, _, fraction = str(value).partition(".")
    instant = datetime.datetime.fromisoformat(day).replace(tzinfo=datetime.UTC)
    return instant.timestamp() + float(f"0.{fraction or 0}")


LAYOUTS: Final = (
    _Layout("arrived_at_s", "input_tokens", "output_tokens", float),
    _Layout("TIMESTAMP", "ContextTokens", "GeneratedTokens", _clock),
    _Layout("timestamp", "input_length", "output_length", lambda value: float(value) * MILLISECOND_S),
)
"""Our own, Azure's (calendar instants) and Mooncake's (milliseconds)."""


def read_trace(path: Path) -> Trace:
    """The requests of a CSV file with a header or of a JSON-lines file, counted from the first arrival.

    Columns are arrived_at_s, input_tokens, output_tokens; or those of the Azure LLM inference traces; or those of
    the Mooncake traces. Further columns are ignored.

    Raises: InputFileError: the file cannot be read, has no known columns or no rows, or a row is wrong: an instant
        that is no time or earlier than the one before it, tokens that are no whole number of at least 1.
    Source: Azure/AzurePublicDataset (AzureLLMInferenceTrace), kvcache-ai/Mooncake (trace files).
    """
    is_lines = path.suffix.lower() in (".jsonl", ".ndjson")
    rows = _json_rows(path) if is_lines else _csv_rows(path)
    times: list[float] = []
    pairs: list[tuple[int, int]] = []
    layout: _Layout | None = None
    for number, row in rows:
        layout = layout or _layout_of(row, path)
        where = f"{path}: row {number}"
        instant = _instant(row, layout, where)
        if times and instant < times[-1]:
            raise InputFileError(
                f"{where}: field {layout.time}: earlier than the row before it", fix="sort the trace by time"
            )
        times.append(instant)
        pairs.append((_tokens(row, layout.inputs, where), _tokens(row, layout.outputs, where)))
    if not times:
        raise InputFileError(f"{path}: holds no requests", fix="give one request per row")
    return Trace(tuple(instant - times[0] for instant in times), tuple(pairs))


def _csv_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""), strict=True)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise InputFileError(
            f"{path}: row {reader.line_num} is not CSV", why=str(error), fix="correct its quotes"
        ) from None


def _json_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
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
    return int(number)
