"""Requests of traffic in rows whose names are known: when each came, and the tokens of its prompt and output."""

import math
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.formats.benchmark_result import number_of, typed_number_of
from advisor.catalog.formats.call_logs import CACHED, is_cached
from advisor.catalog.formats.meanings import UNITS_S, plain_words
from advisor.catalog.formats.records import flat_fields
from advisor.catalog.formats.trace_layouts import clock_s

_ARRIVAL: Final = re.compile(
    r"\b(?:arriv\w*|arrival|timestamp|datetime|date|time|ts|start\w*|created|received|submitted|begin|began|sent|offset"
    r"|issued|enqueued|at|t)\b"
)
_NO_ARRIVAL: Final = re.compile(
    r"\b(?:end\w*|finish\w*|complet\w*|latenc\w*|duration|delay|first token|ttft|tpot|itl|took|elapsed|response time"
    r"|generation time|processing|timeout|queue|wait\w*|prefill|decode|total time|last|updated|inter\w*|gap)\b"
)
_TOKENS: Final = r"(?:tok(?:en)?s?|len(?:gth)?|size|count)"
_IN: Final = r"(?:inputs?|prompts?|in|context|prefill|query|request|isl)"
_OUT: Final = r"(?:outputs?|completions?|out|generat\w+|decode|response|answer|new|reply|osl)"
_INPUTS: Final = re.compile(
    rf"\b{_IN}\b(?: \w+)? {_TOKENS}\b|\b{_TOKENS} (?:(?:of|de) )?(?:in|{_IN})\b|^(?:isl|(?:n|num) (?:in|input|prompt))$"
)
_OUTPUTS: Final = re.compile(
    rf"\b{_OUT}\b(?: \w+)? {_TOKENS}\b|\b{_TOKENS} (?:(?:of|de) )?(?:out|{_OUT})\b"
    r"|^(?:osl|(?:n|num) (?:out|output|gen))$"
)
_BARE: Final = ("tokens", "token count", "count", "length", "len", "size")
"""Names that say what they count only with the name above them."""
_OTHER_TOKENS: Final = re.compile(
    r"\b(?:total|cache\w*|max\w*|limit|price|cost|per|rate|details|audio|reasoning|id)\b"
)
_GAPS: Final = re.compile(r"\bdelay|\binter ?arrival|\bgap\b|\bsince (?:last|previous)")
_EPOCH: Final = (1.2e9, 2.2e9)
"""Seconds since 1970 of the years 2008 to 2039: in one unit alone a number of a clock lies within them."""
_ACCESS: Final = re.compile(
    r"^\S+ \S+ \S+ \[(\d\d)/(\w{3})/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-]\d{4})\] \"(?:GET|POST|PUT)"
)
_MONTHS: Final = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


NAMED_INPUTS: Final = "named_inputs"
NAMED_OUTPUTS: Final = "named_outputs"
UNREAD: Final = "unread"
"""Cells of a row whose names mean nothing that is read, by name."""
_STATUS: Final = re.compile(r"(?:http |response )?status(?: code)?|(?:http|response) code")
_FAILURES: Final = ("error", "failed", "failure", "timeout", "cancelled", "canceled")
_FIRST_ERROR: Final = 400
"""Lowest status of HTTP that says that a request failed."""


def states_failure(row: Mapping[str, Any]) -> bool:
    """Whether a status in a row says that its request failed."""
    return any(
        str(cell).strip().lower() in _FAILURES or (number_of(cell) or 0.0) >= _FIRST_ERROR
        for name, cell in row.items()
        if _is_status(name)
    )


@cache
def bears_on_all(name: str) -> bool:
    """Whether a column is read in every layout: a status, or tokens that a cache held."""
    return _is_status(name) or name.rpartition(".")[2] in CACHED or is_cached(name)


@cache
def _is_status(name: str) -> bool:
    return _STATUS.fullmatch(plain_words(name.rpartition(".")[2])) is not None


def request_of(row: Mapping[str, Any], where: str) -> Mapping[str, Any] | None:
    """Return a row as a request with `named_at_s`, `named_inputs` and `named_outputs`; None for any other row. A row
    without times has the lengths alone.

    Raises: InputFileError: two fields may be the same figure, or a time has no unit.
    """
    fields = flat_fields(row)
    inputs, outputs, time, cached = _places(tuple(fields))
    if inputs is None or outputs is None:
        return None
    found = {NAMED_INPUTS: _with_cached(fields, inputs), NAMED_OUTPUTS: fields[outputs]}
    found |= {name: cell for name, cell in fields.items() if states_failure({name: cell})}
    read = (inputs, outputs, time, cached)
    found[UNREAD] = {
        name: cell for name, cell in fields.items() if name not in read and not bears_on_all(name)
    }
    if cached is not None:
        found["cached_tokens"] = number_of(fields[cached])
    if time is None and (gaps := [name for name in fields if _GAPS.search(plain_words(name))]):
        raise InputFileError(
            f"{where}: column {gaps[0]} holds gaps, and no column says when a request came",
            why="a gap may count from the start or from the end of the request before",
            fix="add a column arrived_at_s",
        )
    rest = [name for name in fields if time is None and name not in (inputs, outputs, cached, *found)]
    if possible := [name for name in rest if _may_hold_times(name, fields[name])]:
        raise InputFileError(
            f"{where}: column {possible[0]} may hold times, and no column says when a request came",
            why="its title is none that is known, and without times only the lengths would be read",
            fix="name it arrived_at_s, arrived_at_ms or arrived_at_min, or drop it",
        )
    if time is not None and fields[time] not in (None, ""):
        found["named_at_s"] = _instant_s(fields[time], time, where)
    return found


def _may_hold_times(name: str, cell: Any) -> bool:
    """Whether a column of an unknown title has a unit of time in it, or an instant below it."""
    words = plain_words(name)
    if number_of(cell) is not None:
        return (
            words.split()[-1:] != [words] and words.split()[-1] in UNITS_S and not _NO_ARRIVAL.search(words)
        )
    try:
        clock_s(cell)
    except (TypeError, ValueError):
        return False
    return not _NO_ARRIVAL.search(words)


def _with_cached(fields: Mapping[str, Any], inputs: str) -> Any:
    """Return the tokens of a prompt. Where a row counts what was read from a cache and written to it beside the prompt,
    as Anthropic's interface does, the prompt is the sum.

    Source: Anthropic, Messages API, usage: input_tokens excludes both cache_read_input_tokens and
        cache_creation_input_tokens.
    """
    beside = [number_of(cell) or 0.0 for name, cell in fields.items() if name.rpartition(".")[2] in CACHED]
    prompt = number_of(fields[inputs])
    return fields[inputs] if prompt is None or not beside else round(prompt + sum(beside))


@cache
def _places(names: tuple[str, ...]) -> tuple[str | None, str | None, str | None, str | None]:
    """Return the names of prompt tokens, output tokens, arrival and cached tokens; None for each that no name means."""
    plain = {name: plain_words(name.rpartition(".")[2]) for name in names}
    joined = {name: plain_words(" ".join(name.split(".")[-2:])) for name in names}
    plain |= {
        name: joined[name]
        for name, words in plain.items()
        if words in _BARE or re.search(rf"\b{_TOKENS} {words}$", joined[name])
    }
    counts = {name: words for name, words in plain.items() if not _OTHER_TOKENS.search(words)}
    inputs = [name for name, words in counts.items() if _INPUTS.search(words)]
    outputs = [name for name, words in counts.items() if _OUTPUTS.search(words) and name not in inputs]
    times = [
        name for name, words in plain.items() if _ARRIVAL.search(words) and not _NO_ARRIVAL.search(words)
    ]
    arrivals = [
        name for name in times if re.search(r"arriv|request|start|sent|created|submitted", plain[name])
    ]
    arrival = next(iter(arrivals or times), None)
    return _one_of(inputs, plain), _one_of(outputs, plain), arrival, next(filter(is_cached, names), None)


def _one_of(names: list[str], plain: Mapping[str, str]) -> str | None:
    """Return the name that says tokens, of several that mean one figure."""
    said = [name for name in names if re.search(r"\btok", plain[name])]
    return next(iter(said or names), None)


def _instant_s(cell: Any, name: str, where: str) -> float:
    """Return the instant of a cell [s]: a calendar's, in the unit of its name, or since 1970 in the one unit that gives
    a year of this age.

    Raises: InputFileError: a number has no unit.
    """
    number = typed_number_of(cell)
    if number is None:
        try:
            return clock_s(cell)
        except ValueError:
            raise InputFileError(
                f"{where}: field {name}: {cell!r}", why="not a time", fix="write it as 2026-01-31T12:00:00Z"
            ) from None
    unit = next((UNITS_S[word] for word in reversed(plain_words(name).split()) if word in UNITS_S), None)
    if unit is None:
        units = (1.0, 1e-3, 1e-6, 1e-9)
        unit = next((one for one in units if _EPOCH[0] <= number * one <= _EPOCH[1]), None)
    if unit is None or not math.isfinite(number):
        raise InputFileError(
            f"{where}: column {name} holds times, whose unit is not known",
            why="it may be seconds or milliseconds, and a unit is not guessed from the size of a number",
            fix=f"name the column {name}_s or {name}_ms",
        )
    return number * unit


def check_is_no_access_log(lines: list[str], where: str) -> None:
    """Refuse the access log of a web server, which counts no tokens, with the rate that it shows.

    Raises: InputFileError: the lines are of such a log.
    Source: nginx and Apache, combined log format.
    """
    found = [match for line in lines if (match := _ACCESS.match(line))]
    if not found:
        return
    times = [
        clock_s(f"{year}-{_MONTHS.index(month) + 1:02}-{day}T{hour}:{minute}:{second}{zone[:3]}:{zone[3:]}")
        for day, month, year, hour, minute, second, zone in (match.groups() for match in found)
    ]
    span_s = max(times) - min(times)
    rate = f" --rate {(len(times) - 1) / span_s:.4g}" if span_s > 0 else " --rate R"
    raise InputFileError(
        f"{where}: an access log of {len(found):,} requests, without their tokens",
        why="it counts bytes of text, and tokens are not guessed from them",
        fix=f"--input-tokens N --output-tokens N{rate} instead of the trace, or a log that counts tokens",
    )
