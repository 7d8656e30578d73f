"""Two answers as documents, side by side: what was asked differently, what became of the best, what moved each cost."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from advisor.catalog.units import MILLION
from advisor.render.answer import (
    Answer,
    Axis,
    Block,
    Chart,
    Datum,
    Paragraph,
    Series,
    Table,
    bullet_list,
    columns,
)
from advisor.render.document import Json, pick_attributes
from advisor.render.document_comparison import DocumentComparison, RecordChange
from advisor.render.numbers import COUNT, MISSING, POWER, SIZE, TIME, Ladder, digits, show, words_of

LEAST_SHOWN_FRACTION: Final = 0.0005
"""Changes below round to 0.0 %; JSON has them."""
_LABELS: Final = {
    "usd_per_million_tokens": "$/M tokens",
    "usd_per_million_input_tokens": "$/M input tokens",
    "usd_per_million_output_tokens": "$/M output tokens",
    "usd_per_thousand_items": "$/1000",
    "usd_per_hour": "$/h",
    "ttft_s.p99": "TTFT p99",
    "tpot_s.p99": "TPOT p99",
    "itl_s.p99": "ITL p99",
    "e2e_s.p99": "E2E p99",
    "latency_s.p99": "latency p99",
    "requests_per_s": "requests/s",
    "items_per_s": "items/s",
    "total_tokens_per_s": "tokens/s",
    "power_w": "power",
    "usd": "$",
    "days": "days",
    "duration_s": "duration",
    "step_time_s": "step time",
    "mfu_fraction": "MFU",
    "goodput_fraction": "goodput",
    "tokens_per_s_per_accelerator": "tokens/s per accelerator",
    "peak_memory_bytes": "peak memory",
    "total_usd": "$",
}
_TOLD: Final = frozenset(
    {
        "provider",
        "sku",
        "engine",
        "weight_dtype",
        "num_accelerators",
        "num_replicas",
        "price_observed_on",
        "offer_provider",
        "offer_sku",
        "offer_observed_on",
        "layout_engine",
        "layout_weight_dtype",
        "layout_num_replicas",
        "machine_num_accelerators",
        "explanation_bottleneck",
        "explanation_binding_objective",
        "performance_holds",
    }
)
"""Fields of words that are shown; JSON has all."""
_PROVIDER: Final = ("offer_provider", "provider")
_RECORDS: Final = ("performance", "bill", "layout", "machine", "offer", "explanation")
"""Records of an option, which people read without their names."""
_LADDERS: Final[tuple[tuple[str, Ladder], ...]] = (
    ("_bytes", SIZE),
    ("_w", POWER),
    ("_s.p99", TIME),
    ("_s.p95", TIME),
    ("_s.p50", TIME),
    ("step_time_s", TIME),
    ("duration_s", TIME),
)


def documents_answer(found: DocumentComparison, first: Path, second: Path) -> Answer:
    """Return the comparison: one sentence, why, then the tables."""
    blocks: list[Block] = [Paragraph(_headline(found), emphasis=True)]
    why = list(causes_of(found))
    if why:
        blocks.append(bullet_list("Why", why))
    if found.inputs:
        rows = tuple((c.name, _cell(c.first), _cell(c.second)) for c in found.inputs)
        header = columns("input | first~ | second~")
        blocks.append(Table(header, rows, title="What was asked differently"))
    if any(record.figures for record in found.records):
        blocks += [_figures_table(found), _cost_chart(found)]
    texts = _texts_table(found)
    if texts:
        blocks.append(texts)
    gone = [(n, "only the first", why) for n, why in found.only_first]
    gone += [(n, "only the second", why) for n, why in found.only_second]
    if gone:
        header = columns("option | in | reason in the other answer~")
        blocks.append(Table(header, tuple(gone), title="Options in only one of the two answers"))
    return Answer(
        result={
            "kind": "comparison",
            "compared": found.kind,
            "is_same": found.is_same,
            **comparison_fields(found),
        },
        inputs={"first": first, "second": second},
        blocks=tuple(blocks),
        records="changes",
    )


def comparison_words(found: DocumentComparison) -> tuple[str, ...]:
    """Return a comparison in sentences: what became of the first choice, and why."""
    return (_headline(found), *causes_of(found))


def _headline(found: DocumentComparison) -> str:
    if found.is_same:
        return "The two answers are the same, and so were their questions"
    moved = [record for record in found.records if record.figures]
    if found.first_best != found.second_best:
        return f"The first choice changed from {found.first_best} to {found.second_best}"
    best = next((record for record in moved if record.identity == found.first_best), None)
    if best is None:
        return f"{found.first_best or 'The answer'} stays first, with the same figures"
    figure = best.figures[0]
    ends = f"from {_value(figure.name, figure.first)} to {_value(figure.name, figure.second)}"
    return (
        f"{found.first_best} stays first; {_label(figure.name)} {ends} ({_percent(figure.change_fraction)})"
    )


def causes_of(found: DocumentComparison) -> Iterator[str]:
    """Yield the causes of a changed answer: data, question, prices, work."""
    for change in found.versions:
        yield f"{change.name.replace('_', ' ')}: {change.first} became {change.second}"
    for meaning in dict.fromkeys(change.meaning for change in found.inputs):
        names = [change.name.split(".")[-1] for change in found.inputs if change.meaning == meaning]
        yield f"asked differently: {meaning}" + (f" ({', '.join(names)})" if names != [meaning] else "")
    for record in found.records:
        reason = _cost_words(record)
        if reason:
            yield reason
    if not found.inputs and not found.versions and not found.is_same:
        yield "neither question nor versions differ: the price file, the price cache or the calibration did"


def _cost_words(record: RecordChange) -> str:
    """Return the two causes of a changed cost in words.

    Example: `h100-sxm: cost +12.0 %: an accelerator-hour +20.0 % (aws to gcp), accelerator-hours for the work -6.7 %`.
    """
    if record.price_factor is None or record.work_factor is None:
        return ""
    price = record.price_factor - 1.0
    work = record.work_factor - 1.0
    if max(abs(price), abs(work)) < LEAST_SHOWN_FRACTION:
        return ""
    sellers = (f" ({one} to {other})" for name, one, other in record.texts if name in _PROVIDER)
    seller = next(sellers, "")
    total = record.price_factor * record.work_factor - 1.0
    return (
        f"{record.identity}: cost {_percent(total)}: price of an accelerator-hour {_change_text(price)}{seller}, "
        f"accelerator-hours for the work {_change_text(work)}"
    )


def _change_text(fraction: float) -> str:
    return "unchanged" if abs(fraction) < LEAST_SHOWN_FRACTION else _percent(fraction)


def _figures_table(found: DocumentComparison) -> Table:
    rows = tuple(
        (
            record.identity,
            _place(record),
            _label(figure.name),
            _value(figure.name, figure.first),
            _value(figure.name, figure.second),
            _percent(figure.change_fraction),
            {True: "yes", False: "no", None: MISSING}[figure.is_within_error],
        )
        for record in found.records
        for figure in record.figures
        if abs(figure.change_fraction) >= LEAST_SHOWN_FRACTION
    )
    return Table(
        columns(
            "option~ | place | figure~",
            *(f"{name}>" for name in ("first", "second", "change")),
            "within the error",
        ),
        rows,
        title="What came out differently",
    )


def _place(record: RecordChange) -> str:
    if record.first_place == record.second_place:
        return str(record.first_place)
    return f"{record.first_place} to {record.second_place}"


def _texts_table(found: DocumentComparison) -> Table | None:
    """Return a table of the texts that differ: providers, layouts, limits."""
    rows = tuple(
        (record.identity, _label(name), one, other)
        for record in found.records
        for name, one, other in record.texts
        if name in _TOLD or name.endswith("_parallel")
    )
    return Table(columns("option~ | what~ | first~ | second~"), rows) if rows else None


def _cost_chart(found: DocumentComparison) -> Chart:
    """Return the chart of every record's first figure before and after, for pages."""
    name = next((f.name for record in found.records for f in record.figures), "")
    pairs = [(record.identity, f) for record in found.records for f in record.figures if f.name == name]
    series = tuple(
        Series(title, tuple(Datum(identity, getattr(figure, title)) for identity, figure in pairs))
        for title in ("first", "second")
    )
    unit = "$" if "usd" in name else ""
    return Chart(
        "bar",
        f"{_label(name)} before and after",
        Axis("option"),
        Axis(_label(name), unit),
        series if name else (),
        "Bars of the first and of the second answer for every option that both have",
        is_in_terminal=False,
    )


def _label(name: str) -> str:
    for record in _RECORDS:
        name = name.removeprefix(f"{record}.").removeprefix(f"{record}_")
    if name in _LABELS:
        return _LABELS[name]
    metric, _, percentile = name.partition("_s.")
    return f"{metric.upper()} {percentile}" if percentile else words_of(name)


def _value(name: str, value: float) -> str:
    if "usd" in name:
        return f"${digits(value)}" if abs(value) < MILLION else f"${show(value, COUNT)}"
    for suffix, ladder in _LADDERS:
        if name.endswith(suffix):
            return show(value, ladder)
    return f"{digits(100 * value)} %" if name.endswith("_fraction") else digits(value)


def _percent(fraction: float) -> str:
    return f"{100 * fraction:+.1f} %"


def _cell(value: Json) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or MISSING
    return MISSING if value is None else str(value)


def comparison_fields(found: DocumentComparison) -> Mapping[str, object]:
    """Return what a document says of a comparison."""
    names = ("identity", "first_place", "second_place", "price_factor", "work_factor", "figures")
    return {
        **pick_attributes(found, "versions first_best second_best"),
        "inputs_changed": found.inputs,
        "causes": list(causes_of(found)),
        "changes": [
            pick_attributes(record, *names)
            | {"texts": [{"name": name, "first": one, "second": other} for name, one, other in record.texts]}
            for record in found.records
        ],
        "only_first": [{"identity": name, "reason": why} for name, why in found.only_first],
        "only_second": [{"identity": name, "reason": why} for name, why in found.only_second],
    }
