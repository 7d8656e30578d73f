"""Results of serving benchmarks in any container whose fields have known meanings, whichever program wrote them."""

import math
import re
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from advisor.catalog.dtypes import known_dtype
from advisor.catalog.errors import AdvisorError, InputFileError
from advisor.catalog.formats.benchmark_result import BenchmarkResult, MeasuredTimes, number_of, rate_of
from advisor.catalog.formats.file_format import FileFormat
from advisor.catalog.formats.meanings import (
    RATES,
    TIMES,
    UNITS_S,
    Meaning,
    Quantity,
    Statistic,
    contradicts_itself,
    meaning_of,
    plain_words,
)
from advisor.catalog.formats.records import FieldsAround, Record, read_records
from advisor.catalog.formats.stated_settings import StatedSettings, settings_among

_CELL: Final = re.compile(
    r"^[~≈$]?\s*([\d.,]*\d(?:e[-+]?\d+)?)\s*(?:±\s*[\d.]+\s*)?[\[(]?([a-zA-Zµμ/]*)", re.IGNORECASE
)
_NEGATIVE: Final = re.compile(r"\s*[-−]\s*(?:[1-9]|0?[.,]0*[1-9])")
"""Number below zero; some clients print -0.00 for a median of no gaps."""
_THOUSANDS: Final = re.compile(r"(?<=\d),(?=\d{3}(?:\D|$))")
_SCALES: Final = {"k": 1e3, "m": 1e6}
_TOKENS_PER_K: Final = 1024.0
"""Tokens of a length written 1k, as benchmarks and `--context 32k` mean it."""
_LENGTHS: Final[tuple[Quantity, ...]] = ("input_tokens", "output_tokens")
_REQUEST_ID: Final = re.compile(
    r"(?:request|req|trace|call|completion|response)? ?(?:id|index|idx|number|no|nr)"
)
"""Names that number requests: a record with one is a request."""
_USAGE: Final = {"prompt_tokens", "completion_tokens"}
"""Names of the usage of one request. Source: OpenAI API reference, chat completions, `usage`."""
_SUCCEEDED: Final = re.compile(r"succe|complet|\bok\b", re.IGNORECASE)
_COUNTED: Final = re.compile(r"^(\d+)\s*[x×]\s*(.+)$|^(.+?)\s[x×]\s?(\d+)$", re.IGNORECASE)
ENGINES: Final = (
    ("vllm", "vllm"),
    ("sglang", "sglang"),
    ("trt", "tensorrt-llm"),
    ("tensorrt", "tensorrt-llm"),
    ("llama.cpp", "llama.cpp"),
    ("llama-server", "llama.cpp"),
    ("llamacpp", "llama.cpp"),
    ("ollama", "llama.cpp"),
    ("lm studio", "llama.cpp"),
    ("koboldcpp", "llama.cpp"),
    ("mlx", "mlx"),
    ("lmdeploy", "lmdeploy"),
    ("exllama", "exllamav3"),
    ("tabby", "exllamav3"),
)
_MARKS_WITHIN: Final = 100_000
"""Characters of a table in which its first rows are looked for."""
_NEAR: Final = 0.03
"""Largest difference at which a rate of tokens counts as requests times lengths. Own choice: rounding of both."""
_WHOLE: Final[tuple[Quantity, ...]] = (
    "concurrency",
    "num_requests",
    "num_failed",
    "num_gpus",
    "tensor_parallel",
    "expert_parallel",
    "data_parallel",
    "max_num_seqs",
)
_CENTRAL: Final[tuple[Statistic, ...]] = ("", "mean", "p50")
"""Statistics that stand for a quantity where its mean is wanted, the best first."""
_CONDITIONS: Final[tuple[Quantity, ...]] = (
    "concurrency",
    "request_rate_per_s",
    "input_tokens",
    "output_tokens",
)
_MOST_NAMED: Final = 6
"""Names that a note lists; an export of a benchmark has dozens."""
_TITLE: Final = "table or record of benchmark figures whose names are known"


@dataclass(slots=True)
class _Reading:
    """Values of one record by what they mean, and the names under which they stood."""

    numbers: dict[tuple[Quantity, Statistic], float] = field(default_factory=dict)
    words: dict[Quantity, str] = field(default_factory=dict)
    names: dict[tuple[Quantity, Statistic], str] = field(default_factory=dict)
    is_around: bool = False
    """Whether the fields stand around the tables of a text."""
    is_request: bool = False
    """Whether the record is one request, by its id, and not a load."""
    unit_less: dict[str, None] = field(default_factory=dict)
    """Names of times without a unit."""
    not_compared: dict[str, None] = field(default_factory=dict)
    """Names of times and rates by statistics that predictions do not have."""
    per_gpu: set[tuple[Quantity, Statistic]] = field(default_factory=set)

    settings: StatedSettings = field(default_factory=StatedSettings)
    """Settings of server and client."""
    num_listed: int = 0
    """Number of requests of a list over which the numbers are means and percentiles."""
    num_instants: int = 1
    """Instants of a time series of which the numbers are the mean."""

    def add_instant(self, other: "_Reading") -> None:
        """Take another instant of the same series into the means."""
        self.num_instants += 1
        for place in self.numbers:
            if place in other.numbers:
                self.numbers[place] += (other.numbers[place] - self.numbers[place]) / self.num_instants

    @property
    def figures(self) -> list[tuple[Quantity, Statistic]]:
        """Places of what was measured."""
        measured = (*TIMES, *RATES, "tokens_per_s_and_user")
        return [place for place in self.numbers if place[0] in measured]

    @property
    def has_load(self) -> bool:
        """Whether the record says how requests were sent."""
        return any(self.of(one) is not None for one in ("concurrency", "request_rate_per_s"))

    def may_be_of(self, other: "_Reading") -> bool:
        """Whether load and lengths of another reading, as far as both state them, are those of this one."""
        pairs = ((self.of(one), other.of(one)) for one in _CONDITIONS)
        return all(mine is None or theirs is None or mine == theirs for mine, theirs in pairs)

    def of(self, quantity: Quantity, *wanted: Statistic) -> float | None:
        """Return the value of a quantity under the first of some statistics that is stated."""
        stated = wanted or _CENTRAL
        return next((self.numbers[quantity, one] for one in stated if (quantity, one) in self.numbers), None)


def read_named_results(text: str) -> tuple[BenchmarkResult, ...]:
    """Return one result for each load that the records of a text state.

    Raises: InputFileError: a time has no unit, or a rate of tokens may be that of outputs or of all tokens.
    """
    every = list(_readings(text))
    requests = [one for one in every if one.is_request and one.figures and not one.has_load]
    readings = [_of_requests(requests)] if len(requests) > 1 else _join(every)
    found = [reading for reading in readings if reading.figures or reading.unit_less]
    if not found:
        raise InputFileError(
            "no latency and no rate among the fields",
            why="nothing in it can be compared with a prediction",
            fix="give times to first token, per output token or per request, or rates, with their units",
        )
    return tuple(_result(reading) for reading in found)


def _readings(text: str) -> Iterator[_Reading]:
    known: dict[str, Meaning | None] = {}
    for record in read_records(text, around=True):
        for name in record:
            if name not in known:
                known[name] = meaning_of(name)
        yield _read(record, known)


def _read(record: Record, known: dict[str, Meaning | None]) -> _Reading:
    is_request = any(_REQUEST_ID.fullmatch(plain_words(name)) for name in record)
    own = {name.rpartition(".")[2] for name in record}
    found = _Reading(
        is_around=isinstance(record, FieldsAround), is_request=is_request or _USAGE.issubset(own)
    )
    general = next(
        (str(record[name]) for name in record if re.fullmatch(r"(?:time_?)?units?", name, re.I)), ""
    )
    found.settings = settings_among(record.items())
    for name, cell in _apart(record, known):
        meaning = known[name]
        if meaning is not None and meaning.quantity == "tokens_per_s" and isinstance(cell, str):
            # The cell may say of which tokens: 250 output tok/s.
            meaning = meaning_of(f"{name} {cell}") or meaning
        if meaning is None or meaning.statistic == "other" or cell in (None, ""):
            if meaning is not None and cell not in (None, "") and meaning.quantity in (*TIMES, *RATES):
                found.not_compared[name] = None
            continue
        place = (meaning.quantity, meaning.statistic)
        if meaning.quantity in ("model", "gpu", "engine", "weight_dtype", "date"):
            found.words.setdefault(meaning.quantity, str(cell).strip())
            continue
        _check_is_positive(name, cell)
        number, unit = _number_in(cell, _TOKENS_PER_K if meaning.quantity in _LENGTHS else _SCALES["k"])
        if meaning.quantity == "request_rate_per_s" and (rate := rate_of(cell)) is not None:
            number = rate
        if number is not None and meaning.quantity == "num_failed":
            number = max(number, found.numbers.get(place, 0.0))  # refused connections and refused requests
        elif number is None or (place in found.numbers and not _SUCCEEDED.search(name)):
            continue
        if meaning.is_phase and unit not in UNITS_S:
            continue
        if meaning.quantity in TIMES:
            beside = str(record.get(f"{name.rpartition('.')[0]}.unit", "")) if "." in name else ""
            word = unit if unit in UNITS_S else meaning.unit or beside.lower() or general.lower()
            if word not in UNITS_S:
                found.unit_less[name] = None
                continue
            number *= UNITS_S[word]
        elif meaning.unit:
            number /= UNITS_S.get(meaning.unit, 1.0)
        if meaning.per_gpu:
            found.per_gpu.add(place)
        found.numbers[place] = number
        found.names[place] = name
    if (
        batch := found.numbers.pop(("batch_size", ""), None)
    ) is not None:  # of one client, unless it states clients
        found.numbers.setdefault(("concurrency", ""), batch)
    return found


def _check_is_positive(name: str, cell: Any) -> None:
    """Refuse a figure below zero. Raises: InputFileError: the cell is one."""
    if _NEGATIVE.match(str(cell)):
        raise InputFileError(
            f"{name}: {cell}",
            why="a time, a rate or a count is not negative",
            fix="correct the figure, or leave its column out",
        )


def _apart(record: Record, known: dict[str, Meaning | None]) -> Iterator[tuple[str, Any]]:
    """Yield names and cells; a column of two figures, `ISL/OSL` with `1024/128`, is two columns."""
    for name, cell in record.items():
        names = [part.strip() for part in name.split("/")]
        cells = [part.strip() for part in cell.split("/")] if isinstance(cell, str) else []
        if len(names) == len(cells) > 1:
            names, cells = _with_shared_words(names, cells)
            found = {part: meaning_of(part) for part in names}
            if all(found.values()):
                known |= found
                yield from zip(names, cells, strict=True)
                continue
        yield name, cell


def _with_shared_words(names: list[str], cells: list[str]) -> tuple[list[str], list[str]]:
    """Return names and cells with the words that stand once for all: `TTFT avg/p99` with `180/620 ms`."""
    plain = [re.sub(r"[()\[\]]", " ", name).strip() for name in names]
    words = plain[0].rpartition(" ")[0]
    full = [name if place == 0 or meaning_of(name) else f"{words} {name}" for place, name in enumerate(plain)]
    unit = cells[-1].lstrip("0123456789., ")
    return full, [f"{cell} {unit}" if number_of(cell) is not None else cell for cell in cells]


def _number_in(cell: Any, per_k: float) -> tuple[float | None, str]:
    """Return the number of a cell and the word of its unit: `1,234.5 ms`, `12.3k tok/s`, `0.5 ± 0.1`. A bare `1k` is
    `per_k`."""
    if not isinstance(cell, str):
        return number_of(cell), ""
    match = _CELL.match(cell.strip())
    if match is None:
        return None, ""
    digits = _THOUSANDS.sub("", match[1])
    number = number_of(digits.replace(",", ".") if digits.count(",") == 1 and "." not in digits else digits)
    unit = match[2].lower().replace("μ", "µ")
    if number is not None and unit in _SCALES and (unit == "k" or not cell.strip().endswith(match[2])):
        scale = per_k if unit == "k" and cell.strip().endswith(match[2]) else _SCALES[unit]
        return number * scale, ""
    return number, unit


def _of_requests(requests: list[_Reading]) -> _Reading:
    """Return means and percentiles over requests that a text lists one by one."""
    found = _Reading(words=dict(requests[0].words), num_listed=len(requests))
    for quantity in (*TIMES, "input_tokens", "output_tokens"):
        values = sorted(value for one in requests if (value := one.of(quantity)) is not None)
        if values:
            found.numbers[quantity, "mean"] = statistics.fmean(values)
            found.names[quantity, "mean"] = next(
                name for one in requests for (each, _), name in one.names.items() if each == quantity
            )
        if values and quantity in TIMES:
            found.numbers[quantity, "p50"] = statistics.median(values)
            found.numbers[quantity, "p99"] = values[min(len(values) - 1, int(0.99 * len(values)))]
    found.numbers["num_requests", ""] = float(len(requests))
    found.unit_less = requests[0].unit_less
    for one in requests:
        found.settings = found.settings.with_those_of(one.settings)
    return found


def _join(readings: list[_Reading]) -> list[_Reading]:
    """Return the readings, those joined that state different figures of one load; a reading without figures says what
    holds for those behind it."""
    found: list[_Reading] = []
    shared = _Reading()
    tables = [one for one in readings if not one.is_around]
    around = [one for one in readings if one.is_around]
    conditions = [one for one in around if not one.figures]
    for reading in [*conditions, *tables, *(one for one in around if one.figures and len(tables) == 1)]:
        if not (reading.figures or reading.unit_less):
            shared.numbers |= reading.numbers
            shared.words |= reading.words
            shared.settings = shared.settings.with_those_of(reading.settings)
            continue
        for place, number in shared.numbers.items():
            reading.numbers.setdefault(place, number)
        reading.words = {**shared.words, **reading.words}
        reading.settings = reading.settings.with_those_of(shared.settings)
        twin = next((one for one in found if one.may_be_of(reading)), None)
        if twin is not None and "date" in reading.words and set(twin.figures) == set(reading.figures):
            twin.add_instant(reading)
            continue
        if twin is not None and not set(twin.figures) & set(reading.figures):
            twin.numbers |= reading.numbers
            twin.names |= reading.names
            twin.per_gpu |= reading.per_gpu
            twin.unit_less |= reading.unit_less
            twin.settings = twin.settings.with_those_of(reading.settings)
        elif not reading.is_around:
            found.append(reading)
    return found


def _result(reading: _Reading) -> BenchmarkResult:
    if reading.unit_less and not reading.figures:
        raise InputFileError(
            f"{', '.join(list(reading.unit_less)[:3])}: seconds or milliseconds",
            why="neither the name nor the cell states a unit, and units are not guessed from the size of a number",
            fix="write the unit into the name, e.g. ttft_ms",
        )
    notes = [_words(reading)]
    if reading.unit_less:
        notes.append(f"not read, as they state no unit: {', '.join(reading.unit_less)}")
    if reading.not_compared:
        named = ", ".join(list(reading.not_compared)[:_MOST_NAMED])
        notes.append(f"not compared, as mean, median and p99 are: {named}")
    if reading.num_listed:
        notes.append(f"means and percentiles are over {reading.num_listed:,} requests")
    if reading.num_instants > 1:
        notes.append(f"figures are means over {reading.num_instants:,} instants")
    _check_succeeded(reading)
    gpu, num_gpus = _accelerator(reading)
    tensor = reading.of("tensor_parallel")
    if num_gpus and not (tensor or reading.of("data_parallel")):
        tensor = num_gpus
        if num_gpus > 1:
            notes.append(f"its {num_gpus:g} accelerators are taken to share the model (--tp)")
    rates = _rates(reading, num_gpus or tensor, notes)
    count = reading.of("num_requests")
    engine = reading.words.get("engine", "")
    inputs = reading.of("input_tokens") or _ratio(reading.of("total_input_tokens"), count)
    outputs = reading.of("output_tokens") or _ratio(reading.of("total_output_tokens"), count)
    per_s = reading.of("requests_per_s")
    inputs = inputs or _ratio(reading.of("input_tokens_per_s"), per_s)
    outputs = outputs or _ratio(reading.of("output_tokens_per_s"), per_s)
    whole: dict[str, int] = {
        str(name): round(value) for name in _WHOLE if (value := reading.of(name)) is not None
    }
    whole |= {"num_gpus": round(num_gpus)} if num_gpus else {}
    whole |= {"tensor_parallel": round(tensor)} if tensor else {}
    if not whole.get("concurrency"):
        whole.pop("concurrency", None)
    offered = reading.of("request_rate_per_s")
    if (
        offered is None
        and "concurrency" not in whole
        and per_s
        and _OFFERED.search(_name_of(reading, "requests_per_s"))
    ):
        offered = rates.pop("requests_per_s", per_s)
        notes.append(
            f"{_name_of(reading, 'requests_per_s')} is taken as the rate at which requests were sent"
        )
    fields: dict[str, Any] = {**rates, **whole}
    return BenchmarkResult(
        tool="the file",
        model=reading.words.get("model", ""),
        gpu=gpu,
        engine=next((id_ for word, id_ in ENGINES if word in engine.lower()), ""),
        weight_dtype=_dtype(reading.words.get("weight_dtype", "")),
        request_rate_per_s=offered,
        mean_input_tokens=inputs,
        mean_output_tokens=outputs,
        ttft=_times(reading, "ttft"),
        tpot=_token_times(reading),
        e2e=_times(reading, "e2e"),
        settings=reading.settings.columns,
        notes=(*notes, *reading.settings.notes),
        **fields,
    )


def _check_succeeded(reading: _Reading) -> None:
    """Refuse figures of requests that failed. Raises: InputFileError: as many failed as are counted."""
    failed = reading.of("num_failed") or 0.0
    count = reading.of("num_requests")
    if count and failed >= count:
        raise InputFileError(
            f"{failed:,.0f} requests failed, of {count:,.0f}",
            why="times of refused requests say nothing of the model",
            fix="read the answers of the server, mend the request, and measure again",
        )


def _words(reading: _Reading) -> str:
    parts = (
        f"{' '.join(filter(None, (statistic, quantity.replace('_', ' '))))} from {name!r}"
        for (quantity, statistic), name in reading.names.items()
    )
    return f"read by the names of its fields: {', '.join(parts)}"


def _accelerator(reading: _Reading) -> tuple[str, float | None]:
    """Return name and number of the accelerators, of which `8xH100` states both."""
    name = reading.words.get("gpu", "")
    number = reading.of("num_gpus")
    if counted := _COUNTED.match(name):
        return (counted[2] or counted[3]).strip(), float(counted[1] or counted[4])
    return name, number


def _ratio(total: float | None, count: float | None) -> float | None:
    return total / count if total and count else None


def _dtype(word: str) -> str:
    try:
        return known_dtype(word)[0] or "" if word else ""
    except AdvisorError:
        return ""


def _times(reading: _Reading, quantity: Quantity) -> MeasuredTimes:
    mean = reading.of(quantity, "mean", "")
    return MeasuredTimes(
        mean or None, reading.of(quantity, "p50") or None, reading.of(quantity, "p99") or None
    )


def _token_times(reading: _Reading) -> MeasuredTimes:
    """Return the times per output token; else the mean of the gaps between tokens, or of the rate of one request."""
    stated = _times(reading, "tpot")
    if not stated.is_empty:
        return stated
    speed = reading.of("tokens_per_s_and_user", "mean", "", "p50")
    gap = reading.of("itl", "mean", "")
    return MeasuredTimes(gap or (1.0 / speed if speed else None), reading.of("itl", "p50"))


def _rates(reading: _Reading, num_gpus: float | None, notes: list[str]) -> dict[str, float]:
    """Return the rates of the whole server.

    Raises: InputFileError: the only figure is a rate of tokens that does not say of which.
    """
    found: dict[str, float] = {}
    for quantity in RATES:
        place = next(((quantity, one) for one in _CENTRAL if (quantity, one) in reading.numbers), None)
        if place is None:
            continue
        if contradicts_itself(reading.names[place]):
            notes.append(f"not compared: {reading.names[place]!r} says tokens, and its unit requests")
            continue
        scale = 1.0
        if place in reading.per_gpu:
            if not num_gpus:
                notes.append(
                    f"not compared, as the number of accelerators is not stated: {reading.names[place]}"
                )
                continue
            scale = num_gpus
        found[quantity] = reading.numbers[place] * scale
    unclear = found.pop("tokens_per_s", None)
    if unclear and "output_tokens_per_s" not in found:
        meant = _tokens_meant(unclear, reading, found)
        if meant:
            found[meant] = unclear
        elif found or any(each in TIMES for each, _ in reading.figures):
            notes.append(
                f"not compared: {_name_of(reading)} may be the rate of output tokens or of all tokens"
            )
        else:
            raise InputFileError(
                f"{_name_of(reading)}: output tokens or all tokens per second",
                why="its name says neither, and prompts count in one of them",
                fix="name it output_tokens_per_s or total_tokens_per_s",
            )
    return found


_OFFERED: Final = re.compile(r"^'(?:qps|rps|requests?(?: ?/ ?| per )s(?:ec(?:ond)?)?)'$", re.IGNORECASE)
"""Bare names of a rate of requests: in a table that states no other load it is the offered one."""


def _name_of(reading: _Reading, which: Quantity = "tokens_per_s") -> str:
    return next(repr(name) for (quantity, _), name in reading.names.items() if quantity == which)


def _tokens_meant(rate: float, reading: _Reading, found: Mapping[str, float]) -> str:
    """Return which tokens a rate counts where requests and lengths, or clients and times, tell it; empty if they do
    not."""
    if (meant := _counts_by_times(rate, reading)) != "":
        return meant
    requests = found.get("requests_per_s")
    inputs = reading.of("input_tokens")
    outputs = reading.of("output_tokens")
    if not requests or not outputs:
        return ""
    products = {"output_tokens_per_s": requests * outputs}
    if inputs:
        products["total_tokens_per_s"] = requests * (inputs + outputs)
    return next(
        (name for name, product in products.items() if math.isclose(rate, product, rel_tol=_NEAR)), ""
    )


_ABOVE_ALL_OUTPUTS: Final = 1.2
_AT_MOST_ALL_OUTPUTS: Final = 1.05
_LONGEST_WAIT_TOKENS: Final = 50.0
"""TTFT over TPOT up to which prompts are taken to have more tokens than that."""


def _counts_by_times(rate: float, reading: _Reading) -> str:
    """Return which tokens a rate counts by the number of clients and the time of an output token; empty if they do not
    tell it.

    Clients that each wait for their output generate at most clients / TPOT tokens/s. All tokens are at most that only
    if a prompt has fewer tokens than TTFT / TPOT.

    Assumes: prompts have more than 50 tokens.
    """
    clients = reading.of("concurrency")
    each_s = reading.of("tpot") or reading.of("itl")
    first_s = reading.of("ttft")
    if not clients or not each_s:
        return ""
    share = rate * each_s / clients
    if share > _ABOVE_ALL_OUTPUTS:
        return "total_tokens_per_s"
    if share <= _AT_MOST_ALL_OUTPUTS and first_s and first_s <= _LONGEST_WAIT_TOKENS * each_s:
        return "output_tokens_per_s"
    return ""


def _is_named_results(text: str) -> bool:
    """Whether a record of the text has a figure and something else that is known."""
    start = text if text.lstrip()[:1] in ("{", "[", "<") else text[:_MARKS_WITHIN]
    for place, reading in enumerate(_readings(start)):
        measured = reading.figures or reading.unit_less
        if measured and len(reading.numbers) + len(reading.words) + len(reading.unit_less) > 1:
            return True
        if place > 200:
            break
    return False


FORMAT: Final = FileFormat(
    "named-results", _TITLE, "serving benchmark", _is_named_results, read_named_results
)
