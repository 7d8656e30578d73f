"""Answers on the stated support of engines, on published checkpoints and on their context lengths."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from advisor.catalog.engines import Support, support_statements
from advisor.catalog.published import PublishedCheckpoint, best_first, context_limits, known_checkpoints
from advisor.catalog.schema import Accelerator, Engine, Model, Record
from advisor.render.answer import Block, Paragraph, Table, columns
from advisor.render.document import pick_attributes
from advisor.render.numbers import MISSING

Stated = Mapping[tuple[str, str, str], Support]
UNSTATED: Final = (
    "What no source states is unknown. Nothing here was run: catalog show ENGINE --json has the sources."
)


def support_rows(found: Stated) -> list[dict[str, object]]:
    """Return every statement as data."""
    return [
        {"engine": engine, "architecture": architecture, "what": what}
        | pick_attributes(one, "verdict version note source")
        for (engine, architecture, what), one in sorted(found.items())
    ]


def on_architecture(found: Stated, architecture: str) -> Table:
    """Return the stated support of each engine on one architecture: a row for each format or feature."""
    engines = sorted({engine for engine, _, _ in found})
    rows: dict[str, dict[str, str]] = defaultdict(dict)
    for (engine, _, what), one in found.items():
        rows[what][engine] = one.verdict
    return Table(
        columns("format or feature", *engines),
        tuple(
            (what, *(rows[what].get(engine, MISSING) for engine in engines)) for what in _sort_columns(rows)
        ),
        title=f"Stated support on {architecture}",
    )


def of_engine(found: Stated, name: str) -> Table:
    """Return the stated support of one engine by architecture: a row for each format or feature."""
    where: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (_, architecture, what), one in sorted(found.items()):
        where[what, one.verdict].append(architecture)
    versions = ", ".join(sorted({one.version for one in found.values() if one.version}))
    return Table(
        columns("format or feature | native on~ | expanded first on~ | refused on~"),
        tuple(
            (what, *(" ".join(where[what, verdict]) or MISSING for verdict in ("native", "emulated", "no")))
            for what in _sort_columns({what for what, _ in where})
        ),
        title=f"Stated support of {name} ({versions})",
    )


def weight_formats(found: Stated, engines: Sequence[Engine]) -> Table:
    """Return a table of weight formats with the architectures on which engines are stated to run them."""
    named: dict[tuple[str, str], set[str]] = defaultdict(set)
    for (engine, architecture, what), one in found.items():
        if ":" not in what and one.is_usable:
            named[engine, one.verdict].add(what)
            named[engine, "on"].add(architecture)
    return Table(
        columns("engine | native somewhere~ | only expanded first~ | on~"),
        tuple(
            (
                engine.id,
                " ".join(sorted(named[engine.id, "native"])) or MISSING,
                " ".join(sorted(named[engine.id, "emulated"] - named[engine.id, "native"])) or MISSING,
                " ".join(sorted(named[engine.id, "on"])) or MISSING,
            )
            for engine in engines
        ),
        title="Weight formats that sources state",
    )


def _sort_columns(names: set[str] | Mapping[str, object]) -> list[str]:
    """Return the columns: weight formats first, then cache formats, then features."""
    return sorted(names, key=lambda name: (("", "kv", "feature").index(name.rpartition(":")[0]), name))


def facts_of(record: Record) -> tuple[list[Block], dict[str, object]]:
    """Return what sources state about a record beyond its own figures: blocks for people, and fields of the data."""
    if isinstance(record, Model):
        return _of_model(record)
    if isinstance(record, Engine):
        found = support_statements(engine=record.id)
        table = of_engine(found, record.name)
    elif isinstance(record, Accelerator):
        found = support_statements(architecture=record.architecture)
        table = on_architecture(found, record.architecture)
    else:
        return [], {}
    if not found:
        return [Paragraph("No source states what runs here.")], {"support": []}
    return [table, Paragraph(UNSTATED)], {"support": support_rows(found)}


def _of_model(model: Model) -> tuple[list[Block], dict[str, object]]:
    """Return published checkpoints by format, and the context window."""
    limits = context_limits(model)
    scaled = (
        f"; {limits.with_scaling:,} with the scaling that its publisher states" if limits.with_scaling else ""
    )
    native = f"{limits.native:,} tokens" if limits.native else "not stated"
    note = f" {limits.note}." if limits.note else ""
    window = Paragraph(f"Context window: {native}{scaled} ({limits.source}).{note}")
    found = best_first(model, known_checkpoints(model))
    data: dict[str, object] = {"context": limits._asdict(), "checkpoints": [one._asdict() for one in found]}
    if not found:
        return [window, Paragraph("No published checkpoint is known by name: quantise first.")], data
    by_format: dict[str, list[PublishedCheckpoint]] = defaultdict(list)
    for one in found:
        by_format[one.format].append(one)
    table = Table(
        columns("format | n> | repository~ | publisher | engines~"),
        tuple(
            (
                name,
                f"{len(rows)}",
                rows[0].repository + ("" if rows[0].is_seen else " [by pattern]"),
                rows[0].kind,
                " ".join(rows[0].engines) or MISSING,
            )
            for name, rows in sorted(by_format.items())
        ),
        title="Published checkpoints by format, the best known of n",
    )
    remark = Paragraph(
        "None was looked up: it may be gated, renamed or gone. --json has all with their sources."
    )
    return [window, table, remark], data
