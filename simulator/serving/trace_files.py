"""Recorded traffic: files with one request per row, in the layouts of the public traces and of this project."""

import math
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from advisor.catalog.errors import AdvisorError, InputFileError
from advisor.catalog.files import too_many
from advisor.catalog.formats.benchmark_result import number_of, typed_number_of
from advisor.catalog.formats.named_requests import (
    NAMED_INPUTS,
    NAMED_OUTPUTS,
    UNREAD,
    bears_on_all,
    states_failure,
)
from advisor.catalog.formats.trace_layouts import (
    MODEL_COLUMNS,
    MOONCAKE_BLOCK,
    UNUSED_COLUMNS,
    TraceLayout,
    block_of,
    layout_of,
)
from advisor.catalog.formats.trace_rows import trace_rows
from advisor.catalog.units import HOUR_S
from advisor.simulator.serving.cached_prefixes import BLOCKS_TOKENS, hash_ids_of_cached

LONGEST_GAP_S: Final = HOUR_S
"""Longest gap between two requests of one recording [s]; longer gaps are holes, over which rates and caches mean
nothing."""
LARGEST_TOKENS: Final = 10_000_000
MOST_REQUESTS: Final = 1_000_000
"""Highest number of requests of one trace: as many as one simulation takes."""
MOST_HASH_IDS: Final = 3_000_000
"""Highest number of block ids of all prompts of a trace: 400 MB."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests in order of arrival: instants counted from the first arrival [s], and (input, output) tokens."""

    times_s: tuple[float, ...]
    pairs: tuple[tuple[int, int], ...]
    hash_ids: tuple[tuple[int, ...], ...] | None = None
    """Block ids of each prompt, one for every `block_tokens` tokens, equal where two prompts share a prefix; None: not
    recorded."""
    rows: Sequence[int] = field(default=(), hash=False)
    """Row of the file that holds each request."""
    block_tokens: int = MOONCAKE_BLOCK
    """Tokens that one block id covers; the last id of a prompt covers what is left."""
    has_times: bool = True
    """Whether the file says when requests came; without times they have only an order."""
    notes: tuple[str, ...] = ()
    """Sentences about how the file was read: layout, unit of time, tokens of a block, rows left out."""

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

    def check_fits(
        self, max_context_tokens: int | None, model: str, path: Path, *, window_tokens: int | None = None
    ) -> None:
        """Refuse a request that is longer than a model's context, or than the window that its server is set to.

        Raises: InputFileError: a request is longer; the error names file and row, and the window that takes all rows.
        """
        context = math.inf if max_context_tokens is None else max_context_tokens
        limit = min(context, math.inf if window_tokens is None else window_tokens)
        longest = max((inputs + outputs for inputs, outputs in self.pairs), default=0)
        for place, (inputs, outputs) in enumerate(self.pairs):
            if inputs + outputs <= limit:
                continue
            row = self.rows[place] if self.rows else place + 1
            what = f"{path}: row {row}: {inputs} tokens in and {outputs} out"
            if limit < context:
                wider = f"--max-model-len {longest}, or " if longest <= context else ""
                why = f"the server is set to take {limit:,.0f} tokens (--max-model-len)"
                raise InputFileError(what, why=why, fix=f"{wider}drop the row")
            why = f"the context of {model} ends at {limit:,.0f} tokens"
            raise InputFileError(what, why=why, fix="drop the row, or take a model with a longer context")

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


@dataclass(slots=True)
class _Reading:
    """Requests of a trace while it is read."""

    path: Path
    layout: TraceLayout
    block_tokens: int
    times: "array[float]" = field(default_factory=lambda: array("d"))
    pairs: list[tuple[int, int]] = field(default_factory=list)
    numbers: "array[int]" = field(default_factory=lambda: array("q"))
    hashes: list[tuple[int, ...]] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)
    """Millions of rows share few numbers of tokens."""
    names: dict[str, int] = field(default_factory=dict)
    """Number that stands for a block whose id is text."""
    num_ids: int = 0
    cached: "array[int]" = field(default_factory=lambda: array("q"))
    """Tokens of each prompt that were read from a cache where the trace was recorded."""
    num_failed: int = 0
    num_abridged: int = 0
    unused: dict[str, dict[str, None]] = field(default_factory=dict)
    """Values of further columns that bear on a replay, of the first rows."""
    unread: dict[str, None] = field(default_factory=dict)
    """Columns of numbers or instants that nothing reads, in the first rows."""
    sessions: dict[str, tuple[float, int, int]] = field(default_factory=dict)
    """Instant, tokens and number of turns of each conversation so far."""
    has_times: bool = True


_ROWS_LOOKED_AT: Final = 1000
"""Number of rows in which such columns are looked for."""
_LONGEST_VALUE: Final = 40
_CLOCK: Final = re.compile(
    r"\s*(?:\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}[./]\d{2,4})?[T ]*\d{1,2}:\d\d(?::\d\d|\s*$)"
)
"""Beginning of a cell that holds an instant."""


def read_trace(path: Path) -> Trace:
    """Return the requests of a recorded trace, counted from the first arrival.

    The layout is recognised by its columns (`catalog.formats.trace_layouts`), whatever the file is called: own columns
    (arrived_at_s, input_tokens, output_tokens), Azure 2023 and 2024, BurstGPT, Qwen-Bailian, Mooncake, AIPerf
    conversations, Baseten, WEKA's agents, OpenTelemetry spans. hash_ids, a list or numbers separated by spaces, tell
    which prompts share a prefix; `block_size` in a row says how many tokens one covers. A note names further columns
    that bear on a request.

    Raises: InputFileError: the file cannot be read, has no known columns or no rows, or a row is wrong: an instant
        that is no time, earlier than the one before it or more than an hour later; tokens that are no whole number
        of at least 1, or more than ten million; hash_ids that do not cover the prompt.
    Source: catalog.formats.trace_layouts.
    """
    try:
        status = path.stat()
    except (OSError, ValueError):
        return _read(path)  # which says what is wrong with it
    return _read_state(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4)
def _read_state(path: Path, changed_ns: int, num_bytes: int) -> Trace:
    """Return the requests of a file in one state of it: one question asks for them several times."""
    return _read(path)


def _read(path: Path) -> Trace:
    reading: _Reading | None = None
    for number, row in trace_rows(path):
        if reading is None:
            layout = layout_of(row, str(path))
            block = block_of(row, layout, f"{path}: row {number}")
            reading = _Reading(path, layout, block)
        _take(reading, number, row)
        if len(reading.pairs) <= _ROWS_LOOKED_AT:
            for name in UNUSED_COLUMNS:
                if (value := row.get(name)) not in (None, "", 0, "0", False, "false", []):
                    reading.unused.setdefault(name, {})[str(value)[:_LONGEST_VALUE]] = None
            reading.unread.update(dict.fromkeys(_unread_columns(row, reading.layout)))
        if len(reading.pairs) > MOST_REQUESTS:
            raise too_many(path, MOST_REQUESTS, "requests")
        if reading.num_ids > MOST_HASH_IDS:
            raise too_many(path, MOST_HASH_IDS, "ids of blocks")
    if reading is None or not reading.pairs:
        failed = reading is not None and reading.num_failed
        why = "every row is a request without output tokens" if failed else ""
        raise InputFileError(f"{path}: holds no requests", why=why, fix="give one request per row")
    return _trace_of(reading)


def _unread_columns(row: Mapping[str, Any], layout: TraceLayout) -> Iterator[str]:
    """Yield the names of a row's columns that hold a number or an instant and that nothing reads."""
    turns = ("timestamp", "delay") if layout.is_conversation else ()
    own = (
        layout.time,
        layout.inputs,
        layout.outputs,
        layout.hashes,
        *layout.marks,
        *turns,
        "block_size",
        "call_id",
    )
    for name, cell in row.get(UNREAD, row).items():
        if name in own or name in UNUSED_COLUMNS or bears_on_all(name):
            continue
        if typed_number_of(cell) is not None or _CLOCK.match(str(cell)):
            yield name


def _take(reading: _Reading, number: int, row: Mapping[str, Any]) -> None:
    """Add one row to the requests."""
    layout = reading.layout
    where = f"{reading.path}: row {number}"
    if _has_failed(row, layout):
        reading.num_failed += 1
        return
    pair = _tokens(row, layout.inputs, where), _tokens(row, layout.outputs, where)
    reading.cached.append(int(min(max(number_of(row.get("cached_tokens")) or 0.0, 0.0), pair[0])))
    if layout.is_conversation:
        instant, pair, ids = _turn(reading, row, pair, where)
        reading.hashes.append(ids)
    else:
        instant = _instant(row, layout, where) if layout.time else 0.0
        reading.has_times = reading.has_times and bool(layout.time)
        if row.get(layout.hashes) not in (None, "", []):
            _take_ids(reading, row[layout.hashes], pair[0], where)
    if reading.times and layout.is_sorted and layout.time:
        _check_step(instant - reading.times[-1], layout.time, where)
    reading.times.append(instant)
    counts = reading.counts
    reading.pairs.append((counts.setdefault(pair[0], pair[0]), counts.setdefault(pair[1], pair[1])))
    reading.numbers.append(number)


def _has_failed(row: Mapping[str, Any], layout: TraceLayout) -> bool:
    """Whether a row is a request that failed: it has no output, and no prompt either or a status that says so."""
    if layout.leaves_out_failed and str(row.get(layout.outputs)).strip() in ("0", "0.0"):
        return True
    outputs, inputs = (
        all(row.get(name) in (None, "") for name in names)
        for names in ((layout.outputs, NAMED_OUTPUTS), (layout.inputs, NAMED_INPUTS))
    )
    return outputs and ((inputs and layout.leaves_out_failed) or states_failure(row))


def _take_ids(reading: _Reading, value: Any, input_tokens: int, where: str) -> None:
    """Add the ids of one prompt; ids that a published excerpt abridges are counted and not used."""
    parts = value.split() if isinstance(value, str) else value
    if reading.layout.names_ids and isinstance(parts, list):
        names = reading.names
        parts = [names.setdefault(str(part), len(names)) for part in parts]
    ids = _hash_ids(parts, input_tokens, reading, where)
    if ids is None:
        reading.num_abridged += 1
        return
    reading.hashes.append(ids)
    reading.num_ids += len(ids)


def _turn(
    reading: _Reading, row: Mapping[str, Any], pair: tuple[int, int], where: str
) -> tuple[float, tuple[int, int], tuple[int, ...]]:
    """Return instant, tokens and block ids of a turn, whose prompt is all of its conversation and what is new.

    The delay counts from the start of the turn before it: the file does not say how long that took.
    """
    layout = reading.layout
    name = str(row.get("session_id") or where)  # a row without one is a conversation of its own
    before_s, context, turn = reading.sessions.get(name, (0.0, 0, 0))
    if row.get("timestamp") not in (None, ""):
        instant = _instant(row, replace(layout, time="timestamp"), where)
    elif turn:
        delay = row.get("delay")
        instant = before_s + (
            _instant(row, replace(layout, time="delay"), where) if delay not in (None, "") else 0.0
        )
    else:
        reading.has_times = False
        instant = 0.0
    prompt = context + pair[0]
    whole, rest = divmod(prompt, reading.block_tokens)
    blocks = [f"{name}:{place}" for place in range(whole)]
    if rest:
        blocks.append(f"{name}:{whole}:{turn}")
    names = reading.names
    ids = tuple(names.setdefault(block, len(names)) for block in blocks)
    reading.num_ids += len(ids)
    reading.sessions[name] = (instant, prompt + pair[1], turn + 1)
    return instant, (prompt, pair[1]), ids


def _trace_of(reading: _Reading) -> Trace:
    """Return the trace of all rows, in order of arrival."""
    order = range(len(reading.pairs))
    times = reading.times
    has_ids = len(reading.hashes) == len(reading.pairs)
    if not reading.layout.is_sorted:
        by_time = sorted(order, key=lambda place: times[place])
        for place, before in zip(by_time[1:], by_time, strict=False):
            where = f"{reading.path}: row {reading.numbers[place]}"
            _check_step(times[place] - times[before], reading.layout.time or "timestamp", where)
        order_of = by_time
    else:
        order_of = list(order)
    first = times[order_of[0]]
    pairs = tuple(reading.pairs[place] for place in order_of)
    hashes = tuple(reading.hashes[place] for place in order_of) if has_ids else None
    block_tokens = reading.block_tokens
    notes = _notes(reading, has_ids)
    if not has_ids and any(reading.cached):
        cached = [reading.cached[place] for place in order_of]
        known = hash_ids_of_cached([inputs for inputs, _ in pairs], cached, MOST_HASH_IDS)
        block_tokens, hashes = known or (block_tokens, None)
        notes = (*notes, _cache_note(reading, is_shared=known is not None))
    return Trace(
        tuple(times[place] - first if reading.has_times else 0.0 for place in order_of),
        pairs,
        hashes,
        array("q", (reading.numbers[place] for place in order_of)),
        block_tokens,
        reading.has_times,
        notes,
    )


def _notes(reading: _Reading, has_ids: bool) -> tuple[str, ...]:
    """Return how the file was read, and what was left out; own columns say by their names how they are read."""
    layout = reading.layout
    times = f"times in {layout.unit}" if reading.has_times else "without times of arrival"
    ids = f", one id for {reading.block_tokens} tokens" if has_ids and not layout.is_conversation else ""
    found = [] if layout.id == "own" else [f"{reading.path.name} is read as {layout.title}: {times}{ids}"]
    if reading.num_failed:
        found.append(f"{reading.num_failed:,} requests without output tokens (failed) are left out")
    found += [
        f"column {name} is not used: {instead}"
        for name, instead in UNUSED_COLUMNS.items()
        if len(reading.unused.get(name, ())) > (1 if name in MODEL_COLUMNS else 0)
    ]
    if reading.unread:
        names = ", ".join(reading.unread)
        what = (
            ""
            if reading.has_times
            else "; call the one that says when a request came arrived_at_s, in seconds"
        )
        found.append(f"columns that are not read: {names}{what}")
    if reading.num_abridged:
        found.append(
            f"hash_ids of {reading.num_abridged:,} requests do not cover their prompts at {reading.block_tokens} "
            "tokens an id: no prefix is taken for shared"
        )
    if reading.sessions and any(turns > 1 for _, _, turns in reading.sessions.values()):
        found.append(
            "each turn sends its whole conversation again; delays count from the start of the turn before"
        )
    return tuple(found)


def _cache_note(reading: _Reading, *, is_shared: bool) -> str:
    """Return what a trace says of a prefix cache whose contents it does not tell, and whether it is used."""
    part = sum(reading.cached) / sum(inputs for inputs, _ in reading.pairs)
    said = f"{part:.0%} of its prompt tokens were read from a prefix cache"
    if is_shared:
        return f"{said}: prompts share that much with earlier ones, and which ones is assumed"
    return f"{said}; they are too many for ids, so every prompt is computed whole"


def _check_step(step_s: float, name: str, where: str) -> None:
    """Refuse a row whose instant is earlier than the previous row's, or later by more than LONGEST_GAP_S."""
    if step_s < 0:
        raise InputFileError(
            f"{where}: field {name}: earlier than the row before it", fix="sort the trace by time"
        )
    if step_s > LONGEST_GAP_S:
        raise InputFileError(
            f"{where}: field {name}: a gap of {step_s:.0f} s since the row before it",
            why=f"nothing for more than {LONGEST_GAP_S:.0f} s is a hole in the recording",
            fix="cut the trace there and give one of its parts",
        )


def _hash_ids(value: Any, input_tokens: int, reading: _Reading, where: str) -> tuple[int, ...] | None:
    """Return the ids of the blocks of one prompt; None if an excerpt abridges them."""
    try:
        ids = tuple(int(part) for part in value)
    except (TypeError, ValueError):
        ids = ()
    expected = -(-input_tokens // reading.block_tokens)
    if len(ids) == expected:
        return ids
    if reading.layout.may_abridge_ids and ids:
        return None
    fitting = [block for block in BLOCKS_TOKENS if ids and len(ids) == -(-input_tokens // block)]
    fix = (
        f'"block_size": {fitting[0]} in each row' if fitting else f"{expected} whole numbers, or no hash_ids"
    )
    raise InputFileError(
        f"{where}: field hash_ids: {len(ids)} ids for {input_tokens} tokens",
        why=f"one id stands for {reading.block_tokens} tokens, the last one for what is left",
        fix=fix,
    )


def _instant(row: Mapping[str, Any], layout: TraceLayout, where: str) -> float:
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


_NAMES: Final = {NAMED_INPUTS: "of prompt tokens", NAMED_OUTPUTS: "of output tokens"}
"""Words for fields that the file calls otherwise."""


def _tokens(row: Mapping[str, Any], name: str, where: str) -> int:
    value = row.get(name)
    number = typed_number_of(value) or math.nan
    if not (number >= 1 and number.is_integer()):
        raise InputFileError(
            f"{where}: field {_NAMES.get(name, name)}: {value!r}",
            why="not a whole number of at least 1",
            fix="correct it or drop the row",
        )
    if number > LARGEST_TOKENS:
        raise InputFileError(
            f"{where}: field {_NAMES.get(name, name)}: {number:.0f} tokens",
            why=f"more than {LARGEST_TOKENS:,}, which no model takes",
            fix="correct it or drop the row",
        )
    return int(number)
