"""Rows of recorded traffic, whichever container they come in: CSV, JSON lines, one JSON document, Parquet."""

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from advisor.catalog.errors import InputFileError, install_command
from advisor.catalog.files import parsed_json, read_lines, read_text, with_commas
from advisor.catalog.formats.benchmark_result import number_of
from advisor.catalog.formats.call_logs import (
    call_of,
    check_has_counts,
    check_is_no_course,
    check_is_no_total,
    counts_nothing,
    is_cached,
    is_other_event,
)
from advisor.catalog.formats.meanings import plain_words
from advisor.catalog.formats.named_requests import check_is_no_access_log, request_of
from advisor.catalog.formats.records import TIME_AHEAD, read_records, rows_of_table
from advisor.catalog.formats.trace_layouts import LAYOUTS, clock_s

Row = Mapping[str, Any]
NANOSECONDS: Final = 1_000_000_000
_NANOSECONDS_PER_MICROSECOND: Final = 1000
_PAGES: Final = ("data", "events", "requests", "records", "items", "rows", "logs", "entries")
"""Keys under which a document lists requests, as the interfaces of Langfuse and CloudWatch do."""
_DEEPEST: Final = 4
"""Levels of objects in which the list of a document is looked for."""
_PARQUET: Final = b"PAR1"
_INPUTS: Final = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.usage.prompt_tokens",
    "llm.token_count.prompt",
)
_OUTPUTS: Final = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.usage.completion_tokens",
    "llm.token_count.completion",
)
"""Attributes of a span with its tokens, newest convention first."""


def trace_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Yield the rows of a trace with their numbers; a JSON object that holds many requests yields each of them.

    Rows of a log of calls come in the columns of its layout, without the steps between the calls. The first row decides
    whether a trace is in a layout of its own.

    Raises: InputFileError: the file cannot be read, or a row is malformed.
    """
    is_known: bool | None = None
    last: tuple[int, Row] | None = None
    event: tuple[int, Row] | None = None
    has_requests = False
    for number, row in _rows(path):
        if is_known is None:
            check_is_no_total(row, f"{path}: row {number}")
            is_known = any(layout.holds(row) and layout.time for layout in LAYOUTS)
        if is_known:
            yield number, row
        elif (call := call_of(row)) is not None:
            if last is not None and (call["call_id"] is None or call["call_id"] != last[1]["call_id"]):
                yield last
            last = number, call  # an agent writes each part of an answer with the counts of the call so far
        elif not is_other_event(row):
            where = f"{path}: row {number}"
            named = request_of(row, where)
            if named is None and not any(layout.holds(row) for layout in LAYOUTS):
                check_has_counts(row, where)
                if counts_nothing(row):
                    event = event or (number, row)
                    continue
            has_requests = True
            yield number, named or row
    if last is not None:
        yield last
    elif event is not None and not (has_requests or is_known):
        check_is_no_course(event[1], f"{path}: row {event[0]}")
        yield event  # its columns are what the reader says it does not know


def _rows(path: Path) -> Iterator[tuple[int, Row]]:
    if _is_parquet(path):
        return _parquet_rows(path)
    first = next(read_lines(path), "").lstrip("\ufeff \t\r\n")
    if first[:1] in ("{", "["):
        return _json_rows(path, first)
    if _object_behind(first) is not None:
        return _collected_rows(path)
    return _table_rows(path, first)


def _is_parquet(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_PARQUET)) == _PARQUET
    except OSError:
        return False  # the reader of lines names the fault


def _parquet_rows(path: Path) -> Iterator[tuple[int, Row]]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise InputFileError(
            f"{path}: is Parquet, and pyarrow is not installed",
            why="it is an extra of this program",
            fix=f"{install_command('sweep', 'pyarrow')}, or write the trace as CSV",
        ) from None
    number = 0
    try:
        file = parquet.ParquetFile(path)
        wanted = [name for name in file.schema_arrow.names if name not in ("prompt", "output_text")]
        for batch in file.iter_batches(columns=wanted):
            for row in batch.to_pylist():
                number += 1
                yield number, row
    except (ArrowException, OSError) as error:
        raise InputFileError(
            f"{path}: not whole Parquet", why=str(error)[:200], fix="give the whole file"
        ) from None


def _table_rows(path: Path, first: str) -> Iterator[tuple[int, Row]]:
    """Yield the rows of CSV, line by line; of a table in another form, or of a log of `name=value`, as a whole."""
    titles = next(csv.reader(with_commas([first])), [])
    if len(titles) > 1 and "=" not in first and not any(map(number_of, titles)):
        return _csv_rows(path)
    text = read_text(path)
    check_is_no_access_log(text.splitlines(), str(path))
    return enumerate(read_records(text), 1)


def _csv_rows(path: Path) -> Iterator[tuple[int, Row]]:
    reader = csv.DictReader(with_commas(read_lines(path)), strict=True)
    try:
        for row in reader:
            beyond = row.pop(None, None)  # cells for which there is no title
            if any(cell.strip() for cell in beyond or ()):
                raise InputFileError(
                    f"{path}: row {reader.line_num} has more cells than there are titles",
                    why=f"{len(row)} titles are in the first row",
                    fix="quote cells that hold commas, or add the missing titles",
                )
            yield reader.line_num, row
    except csv.Error as error:
        raise InputFileError(
            f"{path}: row {reader.line_num} is not CSV", why=str(error), fix="correct its quotes"
        ) from None


def _json_rows(path: Path, first: str) -> Iterator[tuple[int, Row]]:
    """Yield the rows of JSON lines, or of one document that spans several lines."""
    try:
        parsed_json(first)
    except (ValueError, RecursionError):
        try:
            whole = parsed_json(read_text(path))
        except (ValueError, RecursionError) as error:
            raise _not_json(path, 1, error) from None
        yield from _expand(path, 1, whole)
        return
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _not_json(path, number, error) from None
        yield from _expand(path, number, found)


def _collected_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Yield the objects of a log whose lines a container's runtime, a collector or a logger prefixed, with the time of
    the prefix where an object has none of its own. Lines that hold no object are what else the program printed.

    Raises: InputFileError: an object ends in the middle.
    """
    for number, line in enumerate(read_lines(path), 1):
        found = _object_behind(line)
        if found is not None:
            ahead = TIME_AHEAD.match(line)
            yield from _expand(path, number, {"time": ahead[1], **found} if ahead else found)
        elif '{"' in line and not line.rstrip().endswith("}"):
            raise _not_json(path, number, ValueError("the line ends in the middle"))


def _object_behind(line: str) -> Row | None:
    """Return the JSON object with which a line ends; None if it ends otherwise."""
    place = line.find("{")
    if place < 0 or not line.rstrip().endswith("}"):
        return None
    try:
        found = json.loads(line[place:])
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _not_json(path: Path, number: int, error: Exception) -> InputFileError:
    return InputFileError(f"{path}: row {number} is not JSON", why=str(error), fix="one object per line")


def _expand(path: Path, number: int, found: Any) -> Iterator[tuple[int, Row]]:
    """Yield the requests of a JSON value: a request itself, a list of them, or a document that holds them."""
    if isinstance(found, list):
        for place, one in enumerate(found, number):
            if not isinstance(one, dict):
                raise InputFileError(f"{path}: row {place} is no JSON object", fix="one object per line")
            yield from _expand(path, place, one)
    elif not isinstance(found, dict):
        raise InputFileError(f"{path}: row {number} is no JSON object", fix="one object per line")
    elif "resourceSpans" in found:
        yield from ((number, row) for row in _spans(found))
    elif isinstance(found.get("requests"), list) and "hash_id_scope" in found:
        yield from ((number, row) for row in _agent_requests(found, f"{path}: row {number}"))
    elif isinstance(found.get("spans"), list) and "traceID" in found:
        yield from ((number, row) for row in _jaeger_spans(found["spans"]))
    elif "object" not in found and (
        page := next((found[key] for key in _PAGES if isinstance(found.get(key), list)), None)
    ):
        yield from _expand(path, number, page)
    elif isinstance(found.get("attributes"), dict):
        row = _span(found["attributes"], found)
        yield from () if row is None else ((number, row),)
    elif (listed := _find_rows(found)) is not None:
        yield from _expand(path, number, listed)
    else:
        yield number, found


def _find_rows(document: Row, depth: int = _DEEPEST) -> list[Any] | None:
    """Return the rows of a document that is no call itself, as the interfaces of Elasticsearch and Loki nest them; None
    if it has none. Loki's are pairs of nanoseconds and a line."""
    if depth == _DEEPEST and (call_of(document) is not None or "object" in document):
        return None
    for value in document.values():
        if isinstance(value, Mapping) and depth and (found := _find_rows(value, depth - 1)) is not None:
            return found
        if not isinstance(value, list) or not value:
            continue
        streams = [one.get("values") for one in value if isinstance(one, dict)]
        lines = [pair for stream in streams if isinstance(stream, list) for pair in stream]
        tables = [rows for one in value if (rows := rows_of_table(one)) is not None]
        if tables:
            return tables[0]
        if lines and all(isinstance(pair, list) and len(pair) > 1 for pair in lines):
            return [{"timestamp_ns": pair[0], "line": pair[1]} for pair in lines]
        if any(isinstance(one, dict) and call_of(one) is not None for one in value):
            return value
    return None


def _agent_requests(trace: Row, where: str, start_s: float = 0.0) -> Iterator[Row]:
    """Yield the requests of one agent session. A subagent's times count from its own start where they lie before it."""
    block = trace.get("block_size")
    session = str(trace.get("id", where))
    for one in trace["requests"]:
        if not isinstance(one, dict):
            raise InputFileError(f"{where}: a request is no object", fix="give the trace as it was written")
        if one.get("type") != "subagent":
            ids = one.get("hash_ids")
            marked = [f"{session}:{each}" for each in ids] if isinstance(ids, list) else ids
            shifted = {} if start_s == 0.0 else {"t": start_s + float(one.get("t") or 0.0)}
            yield {**one, "block_size": block, "hash_ids": marked, "session": session, **shifted}
            continue
        inner = one.get("requests")
        begun = float(one.get("t") or 0.0)
        times = [each.get("t") for each in inner if isinstance(each, dict)] if isinstance(inner, list) else []
        own_clock = any(isinstance(time, int | float) and time < begun for time in times)
        nested = {"requests": inner or [], "block_size": block, "id": session}
        yield from _agent_requests(nested, where, begun if own_clock else 0.0)


def _spans(document: Row) -> Iterator[Row]:
    """Yield the spans of an OTLP document that state tokens."""
    for resource in document.get("resourceSpans") or []:
        for scope in (resource.get("scopeSpans") or []) if isinstance(resource, dict) else []:
            for span in (scope.get("spans") or []) if isinstance(scope, dict) else []:
                pairs = span.get("attributes") or []
                named = {
                    str(pair.get("key")): _plain(pair.get("value"))
                    for pair in pairs
                    if isinstance(pair, dict)
                }
                row = _span(named, span)
                if row is not None:
                    yield row


def _jaeger_spans(spans: list[Any]) -> Iterator[Row]:
    """Yield the spans of a trace that Jaeger exported, whose times are microseconds, that state tokens."""
    for span in spans:
        tags = span.get("tags") if isinstance(span, dict) else None
        named = {str(tag.get("key")): tag.get("value") for tag in tags or [] if isinstance(tag, dict)}
        start = span.get("startTime") if isinstance(span, dict) else None
        row = _span(
            named, {"start_time": start * _NANOSECONDS_PER_MICROSECOND} if isinstance(start, int) else {}
        )
        if row is not None:
            yield row


def _plain(value: Any) -> Any:
    """Return the value of an OTLP attribute, of which any type may stand."""
    return next(iter(value.values()), None) if isinstance(value, dict) else value


def _span(attributes: Row, span: Row) -> Row | None:
    """Return a span as a row; None for a span that is no request to a model. One that states its end alone has that."""
    inputs = next((attributes[name] for name in _INPUTS if attributes.get(name) is not None), None)
    outputs = next((attributes[name] for name in _OUTPUTS if attributes.get(name) is not None), None)
    if inputs is None and outputs is None:
        return None
    cached = next((attributes[name] for name in attributes if is_cached(name)), None)
    times = {
        plain_words(name).removesuffix(" unix nano"): value
        for name, value in span.items()
        if value is not None
    }
    row = {"gen_ai_input_tokens": inputs, "gen_ai_output_tokens": outputs, "cached_tokens": cached}
    if (start := times.get("start time")) is not None:
        row["start_s"] = _span_instant_s(start)
    elif (end := times.get("end time")) is not None:
        row["end_s"] = _span_instant_s(end)
    return {name: value for name, value in row.items() if value is not None}


def _span_instant_s(value: Any) -> float:
    """Return an instant of a span [s]: nanoseconds, seconds with nanoseconds behind them, or that of a calendar.

    Source: OpenTelemetry protocol (Timestamp, UnixNano); @opentelemetry/api (HrTime).
    """
    if isinstance(value, list | tuple) and len(value) == 2:
        return float(value[0]) + float(value[1]) / NANOSECONDS
    nanoseconds = number_of(value)
    return clock_s(value) if nanoseconds is None else nanoseconds / NANOSECONDS
