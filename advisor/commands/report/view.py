"""Saved answers side by side: the best of each, a chart of their costs, and all options of each."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from advisor.decide.option import with_terms
from advisor.render.answer import (
    Answer,
    Axis,
    Block,
    Chart,
    Datum,
    Paragraph,
    Section,
    Series,
    Table,
    bullet_list,
    columns,
)
from advisor.render.comparison_view import comparison_words
from advisor.render.document import Json
from advisor.render.document_comparison import compare_documents
from advisor.render.numbers import MISSING, TIME, digits, show, usd
from advisor.render.paired_documents import first_at

Document = Mapping[str, Any]
_COSTS: Final = (
    ("performance.usd_per_million_tokens", "$/Mtok"),
    ("performance.usd_per_thousand_items", "$ per 1,000 items"),
    ("bill.usd", "$ of the job"),
)
"""Costs by which answers are compared: the first that all have."""


def collection_answer(files: Sequence[Path], documents: Sequence[Document]) -> Answer:
    """Return answers side by side; of two of one kind also what differs."""
    pairs = list(zip(files, documents, strict=True))
    best = [_best(document) for document in documents]
    rows = tuple(
        (str(path), _question(document), *_cells(option))
        for (path, document), option in zip(pairs, best, strict=True)
    )
    head = Paragraph(f"{len(files)} answer{'' if len(files) == 1 else 's'} side by side", emphasis=True)
    table = Table(columns("answer~ | question~", *_HEADERS), rows, title="First option of each answer")
    blocks: list[Block] = [head, table, *_charts(pairs)]
    sections = [Section("Side by side", tuple(blocks[1:]))]
    if len(documents) == 2 and documents[0].get("kind") == documents[1].get("kind"):
        found = compare_documents(*documents)
        words = bullet_list(f"{files[0]} against {files[1]}", comparison_words(found))
        blocks.append(words)
        sections.append(Section("What differs", (words,)))
    controls = [document["what_if"] for document in documents if isinstance(document.get("what_if"), dict)]
    sections += [Section(str(path), tuple(_blocks(document))) for path, document in pairs]
    return Answer(
        # A page holds one set of controls: those of the first answer that has them.
        result={"kind": "collection", "answers": [_fields(path, document) for path, document in pairs]}
        | ({"what_if": controls[0]} if controls else {}),
        inputs={"files": files},
        blocks=tuple(blocks),
        sections=tuple(sections),
        records="answers",
        warnings=tuple(
            f"{path}: {text}" for path, document in pairs for text in _texts(document, "warnings")
        ),
    )


_HEADERS: Final = ("take~", "runs~", "offer~", "$/h>", "cost>", "TTFT p99>", "TPOT p99>")


def _best(document: Document) -> Document:
    options = [each for each in document["options"] if isinstance(each, dict)]
    return options[0] if options else {}


def _cells(option: Document) -> tuple[str, ...]:
    """Return the cells of an option; a dash for what its kind of work has not."""
    count = first_at(option, "machine.num_accelerators")
    name = first_at(option, "machine.accelerator")
    runs = [first_at(option, f"layout.{field}") for field in ("engine", "weight_dtype")]
    words = first_at(option, "plan.words")
    provider, region, term = (first_at(option, f"offer.{name}") for name in ("provider", "region", "term"))
    return (
        f"{count} x {name}" if name else MISSING,
        str(words) if words else " ".join(str(each) for each in runs if each) or MISSING,
        with_terms(str(provider), str(region or "any"), str(term or "on_demand"))
        if provider
        else "own"
        if option
        else MISSING,
        _usd(first_at(option, "bill.usd_per_hour")),
        next((f"{_usd(value)} {unit}" for value, unit in _costs(option)), MISSING),
        _time(first_at(option, "performance.ttft_s.p99.value", "performance.latency_s.p99.value")),
        _time(first_at(option, "performance.tpot_s.p99.value")),
    )


def _costs(option: Document) -> Iterator[tuple[Json, str]]:
    for place, unit in _COSTS:
        value = first_at(option, f"{place}.value")
        if value is not None:
            yield value, unit


def _usd(value: Json) -> str:
    if not _is_number(value) or not isinstance(value, int | float):
        return MISSING
    return usd(value) if value >= 1.0 else f"${digits(value)}"


def _time(value: Json) -> str:
    return show(value, TIME) if isinstance(value, int | float) and _is_number(value) else MISSING


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _question(document: Document) -> str:
    """Return model, work and day of a question."""
    inputs = document.get("inputs")
    asked = inputs if isinstance(inputs, dict) else {}
    rate = first_at(asked, "traffic.rate_per_s", "rate_per_s")
    words = [
        asked.get("model"),
        asked.get("workload"),
        f"{rate} requests/s" if rate else None,
        asked.get("as_of"),
    ]
    return ", ".join(str(word) for word in words if word)


def _texts(document: Document, name: str) -> list[str]:
    found = document.get(name)
    return [str(each) for each in found] if isinstance(found, list) else []


def _blocks(document: Document) -> Iterator[Block]:
    headline = document.get("headline")
    if headline:
        yield Paragraph(str(headline))
    options = [each for each in document["options"] if isinstance(each, dict)]
    rows = tuple((str(place), *_cells(each)) for place, each in enumerate(options, start=1))
    yield Table(columns("#>", *_HEADERS), rows)


def _charts(pairs: Sequence[tuple[Path, Document]]) -> Iterator[Chart]:
    """Yield a chart of the cost of every option, if all answers have the same kind of cost."""
    for place, unit in _COSTS:
        series = [
            Series(
                str(path),
                tuple(
                    Datum(str(first_at(each, "machine.accelerator")), float(value))
                    for each in document["options"]
                    if isinstance(each, dict)
                    and _is_number(value := first_at(each, f"{place}.value"))
                    and isinstance(value, int | float)
                ),
            )
            for path, document in pairs
        ]
        if all(one.points for one in series):
            about = "Bars of every option of every answer, in the order of the answers"
            title = f"Cost, {unit}"
            yield Chart("bar", title, Axis("option"), Axis(unit), tuple(series), about, is_in_terminal=False)
            return


def _fields(path: Path, document: Document) -> dict[str, object]:
    best = _best(document)
    names = ("machine", "offer", "bill", "performance")
    return {
        "file": path,
        "kind": document.get("kind"),
        "headline": document.get("headline"),
        "num_options": len(document["options"]),
        "first": {name: best.get(name) for name in names} if best else None,
    }
