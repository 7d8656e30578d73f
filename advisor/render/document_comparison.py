"""Two answers of one kind as documents: what was asked differently, what came out differently, and what moved it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from advisor.catalog.units import DAY_S, HOUR_S
from advisor.render.document import Json, flatten
from advisor.render.paired_documents import asks_the_same, at, first_at, is_within_error

LISTS: Final = ("options", "rows", "builds", "lists", "metrics")
"""Keys under which documents keep their records, the main list first."""
ACCELERATOR: Final = ("machine.accelerator", "accelerator")
"""Places of a record's accelerator: in an option, and in a flat row."""
IDENTITY: Final = (
    "way",
    "accelerator",
    "provider",
    "term",
    "region",
    "weight_dtype",
    "engine",
    "load_fraction",
    "name",
    "category",
)
"""Fields that say of what a record of a report is; a plan's options are one per accelerator."""
FIGURES: Final = (
    "performance.usd_per_million_tokens",
    "performance.usd_per_thousand_items",
    "performance.usd",
    "bill.usd",
    "performance.days",
    "performance.usd_per_million_output_tokens",
    "bill.usd_per_hour",
    "performance.ttft_s.p99",
    "performance.tpot_s.p99",
    "performance.latency_s.p99",
    "performance.requests_per_s",
    "performance.total_tokens_per_s",
    "performance.items_per_s",
    "performance.duration_s",
    "performance.step_time_s",
    "performance.tokens_per_s_per_accelerator",
    "performance.mfu_fraction",
    "performance.goodput_fraction",
    "performance.peak_memory_bytes",
    "performance.power_w",
    "usd_per_million_tokens",
    "usd",
    "total_usd",
    "days",
    "usd_per_million_input_tokens",
    "usd_per_million_output_tokens",
    "usd_per_hour",
    "ttft_s.p99",
    "tpot_s.p99",
    "requests_per_s",
    "total_tokens_per_s",
    "step_time_s",
    "tokens_per_s_per_accelerator",
    "mfu_fraction",
    "goodput_fraction",
    "peak_memory_bytes",
    "power_w",
)
"""Figures that are compared, by their places in options and in flat rows; the first that differs is the headline's."""
LEAST_CHANGE: Final = 1e-9
"""Fraction below which two figures are the same."""
_NOT_ASKED: Final = frozenset({"offline", "rate_per_s"})
"""Inputs that cannot change an answer, and the load of the options shown, which is computed from what was asked."""
_MEANINGS: Final = {
    "model": "model",
    "traffic": "traffic",
    "objectives": "objectives",
    "constraints": "what may be used",
    "limits": "what may be used",
    "as_of": "day of the prices",
    "calibration": "calibration",
    "seed": "seed",
}


@dataclass(frozen=True, slots=True)
class InputChange:
    """An input that differs."""

    name: str
    meaning: str
    first: Json
    second: Json


@dataclass(frozen=True, slots=True)
class FigureChange:
    """A figure of a record in both documents."""

    name: str
    first: float
    second: float
    is_within_error: bool | None
    """Whether the model's error may explain it: by errors of pairs where the question is the same, else whether the two
    80 % intervals overlap; None where there are none."""

    @property
    def change_fraction(self) -> float:
        return self.second / self.first - 1.0 if self.first else math.inf


@dataclass(frozen=True, slots=True)
class RecordChange:
    """An option or row in both documents."""

    identity: str
    first_place: int
    second_place: int
    figures: tuple[FigureChange, ...]
    texts: tuple[tuple[str, str, str], ...]
    """Other fields that differ: name, first, second."""
    price_factor: float | None
    """Factor of the cost due to the price of an accelerator-hour; None if it is unknown."""
    work_factor: float | None
    """Factor of the cost due to accelerator-hours for the same work; both factors multiply to that of the cost."""


@dataclass(frozen=True, slots=True)
class DocumentComparison:
    """Everything that differs between two documents."""

    kind: str
    versions: tuple[InputChange, ...]
    inputs: tuple[InputChange, ...]
    records: tuple[RecordChange, ...]
    only_first: tuple[tuple[str, str], ...]
    """Records that the second lacks, and the reason that it gives."""
    only_second: tuple[tuple[str, str], ...]
    first_best: str
    second_best: str

    @property
    def is_same(self) -> bool:
        moved = any(record.figures or record.texts for record in self.records)
        return not (moved or self.inputs or self.versions or self.only_first or self.only_second)


Document = Mapping[str, Json]


def compare_documents(first: Document, second: Document) -> DocumentComparison:
    """Return the differences between two documents of one kind."""
    records = _records(first), _records(second)
    both = [name for name in records[0] if name in records[1]]
    places = [{name: i for i, name in enumerate(found, 1)} for found in records]
    same = asks_the_same(first, second)
    figures = (*FIGURES, *_asked_figures(first, second))
    return DocumentComparison(
        kind=str(first.get("kind")),
        versions=tuple(_changes(first, second, ("tool_version", "catalog_version", "schema_version"))),
        inputs=tuple(_input_changes(first, second)),
        records=tuple(
            _record_change(
                name, places[0][name], places[1][name], records[0][name], records[1][name], same, figures
            )
            for name in both
        ),
        only_first=tuple((n, _reason(second, records[0][n])) for n in records[0] if n not in records[1]),
        only_second=tuple((n, _reason(first, records[1][n])) for n in records[1] if n not in records[0]),
        first_best=next(iter(records[0]), ""),
        second_best=next(iter(records[1]), ""),
    )


def _asked_figures(*documents: Document) -> list[str]:
    """Return places of the latencies that have an objective of their own in one of the documents."""
    levels = (at(document, "inputs.objectives.others") for document in documents)
    found = (
        f"performance.{level.get('metric')}_s.p{percent:g}"
        for stated in levels
        for level in (stated if isinstance(stated, list) else ())
        if isinstance(level, dict) and isinstance(percent := level.get("percent"), int | float)
    )
    return [place for place in dict.fromkeys(found) if place not in FIGURES]


def _changes(first: Document, second: Document, names: Sequence[str]) -> Iterator[InputChange]:
    for name in names:
        if first.get(name) != second.get(name):
            yield InputChange(name, "version", first.get(name), second.get(name))


def _input_changes(first: Document, second: Document) -> Iterator[InputChange]:
    flat = [_flat(document.get("inputs")) for document in (first, second)]
    for name in dict.fromkeys((*flat[0], *flat[1])):
        one = flat[0].get(name)
        other = flat[1].get(name)
        if one != other and name not in _NOT_ASKED:
            head = name.split(".")[0]
            yield InputChange(name, _MEANINGS.get(head, head), one, other)


def _flat(value: Json, prefix: str = "") -> dict[str, Json]:
    """Return leaves of nested records by dotted name; lists stay whole."""
    if not isinstance(value, dict):
        return {prefix: value}
    found: dict[str, Json] = {}
    for key, item in value.items():
        found |= _flat(item, f"{prefix}.{key}" if prefix else key)
    return found


def _records(document: Document) -> dict[str, Mapping[str, Json]]:
    """Return the records of a document's main list by what they are of."""
    rows = next((rows for name in LISTS if isinstance(rows := document.get(name), list)), [])
    records = [row for row in rows if isinstance(row, dict)]
    is_composed = any("machine" in record for record in records)
    names = ("machine.accelerator",) if is_composed else _telling(records)
    found: dict[str, Mapping[str, Json]] = {}
    for record in records:
        said = (at(record, name) for name in names)
        found.setdefault(" ".join(str(value) for value in said if value is not None) or "answer", record)
    return found


def _telling(records: Sequence[Mapping[str, Json]]) -> tuple[str, ...]:
    """Return the identity fields that differ between records, and always `accelerator`."""
    return tuple(
        name
        for name in IDENTITY
        if name == "accelerator" or len({str(record.get(name)) for record in records}) > 1
    )


def _reason(document: Document, record: Mapping[str, Json]) -> str:
    """Return the reason that a document gives for not listing a record's accelerator."""
    name = first_at(record, *ACCELERATOR)
    rejected = document.get("rejected")
    for entry in rejected if isinstance(rejected, list) else []:
        if isinstance(entry, dict) and entry.get("accelerator") == name:
            return str(entry.get("text", ""))
    allowed = first_at(document, "inputs.constraints.accelerators")
    if isinstance(allowed, list) and allowed and name not in allowed:
        return "its question names other accelerators"
    return "not among those shown"


def _record_change(
    name: str,
    first_place: int,
    second_place: int,
    first: Mapping[str, Json],
    second: Mapping[str, Json],
    is_paired: bool,
    compared: Sequence[str],
) -> RecordChange:
    figures = tuple(
        change
        for figure in compared
        if (change := _figure_change(figure, first, second, is_paired)) is not None
        and not abs(change.change_fraction) <= LEAST_CHANGE
    )
    price, work = _factors(first, second)
    return RecordChange(name, first_place, second_place, figures, _text_changes(first, second), price, work)


def _figure_change(
    name: str, first: Mapping[str, Json], second: Mapping[str, Json], is_paired: bool
) -> FigureChange | None:
    values = [at(record, name) for record in (first, second)]
    numbers = [_number(value) for value in values]
    if numbers[0] is None or numbers[1] is None:
        return None
    within = None
    if is_paired and numbers[0]:
        within = is_within_error(name, first, second, numbers[1] / numbers[0])
    return FigureChange(name, numbers[0], numbers[1], _overlap(*values) if within is None else within)


def _number(value: Json) -> float | None:
    """Return a plain number, or the value of a quantity."""
    if isinstance(value, dict):
        value = value.get("value")
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _overlap(first: Json, second: Json) -> bool | None:
    ends = [
        (_number(value.get("low")), _number(value.get("high")))
        for value in (first, second)
        if isinstance(value, dict)
    ]
    if len(ends) < 2:
        return None
    (low, high), (other_low, other_high) = ends
    if low is None or high is None or other_low is None or other_high is None:
        return None
    return low <= other_high and other_low <= high


def _text_changes(first: Mapping[str, Json], second: Mapping[str, Json]) -> tuple[tuple[str, str, str], ...]:
    """Return the fields of words, dates and whole numbers that differ: layout, provider, engine, what binds."""
    flat = [
        flatten({k: v for k, v in record.items() if k not in ("variants", "parts")})
        for record in (first, second)
    ]
    found = []
    for name in flat[0]:
        one = flat[0][name]
        other = flat[1].get(name)
        is_text = isinstance(one, str) or (isinstance(one, int) and name.endswith(_COUNTED))
        if is_text and one != other and name not in _UNTOLD and not name.endswith("_basis"):
            found.append((name, str(one), str(other)))
    return tuple(found)


_COUNTED: Final = (
    "parallel",
    "num_accelerators",
    "num_replicas",
    "tp",
    "pp",
    "dp",
    "ep",
    "cp",
    "micro_batch",
)
_UNTOLD: Final = frozenset(
    {
        "launch_command",
        "launch_argv",
        "launch_simulate_args",
        "headline",
        "offer_url",
        "price_url",
        "explanation_quality_note",
        "explanation_basis_notes",
    }
)


def _factors(first: Mapping[str, Json], second: Mapping[str, Json]) -> tuple[float | None, float | None]:
    """Return the factors of two records: cost = price of an accelerator-hour x accelerator-hours for the work."""
    parts = [_price_and_work(record) for record in (first, second)]
    if parts[0] is None or parts[1] is None:
        return None, None
    return parts[1][0] / parts[0][0], parts[1][1] / parts[0][1]


def _price_and_work(record: Mapping[str, Json]) -> tuple[float, float] | None:
    count = _number(first_at(record, "machine.num_accelerators", "num_accelerators"))
    cost = _number(first_at(record, "performance.usd_per_million_tokens", "usd_per_million_tokens"))
    hourly = _number(first_at(record, "bill.usd_per_hour", "usd_per_hour"))
    if count and cost and hourly:
        return hourly / count, cost / (hourly / count)
    usd = _number(first_at(record, "bill.usd", "usd"))
    days = _number(first_at(record, "performance.days", "days"))
    if count and usd and days:
        hours = days * count * DAY_S / HOUR_S
        return usd / hours, hours
    return None
