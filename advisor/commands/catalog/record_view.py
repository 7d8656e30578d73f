"""One catalog record in full: every field that is set, in a unit that fits, with the source of it."""

from collections.abc import Iterator, Mapping
from typing import Final

from advisor.catalog.schema import Model, Record, Source
from advisor.catalog.units import GIGA
from advisor.commands.catalog.support_view import facts_of
from advisor.commands.catalog.view import model_row
from advisor.render.answer import Answer, Block, Paragraph, Table, columns
from advisor.render.document import Json, flatten, to_json
from advisor.render.numbers import COMPUTE, POWER, RATE, SIZE, TIME, Ladder, show, usd

LADDERS: Final[tuple[tuple[str, Ladder], ...]] = (
    ("flop_per_s", COMPUTE),
    ("bytes_per_s", RATE),
    ("bytes", SIZE),
    ("bytes_per_token", SIZE),
    ("bytes_at_8192_tokens", SIZE),
    ("_hz", ((GIGA, "GHz"),)),
    ("_w", POWER),
    ("_s", TIME),
)
"""Unit suffix of a field, the longest first, and how people read it."""
NOT_FIGURES: Final = ("sources", "field_sources", "notes", "id", "name", "power_fraction")


def record_answer(record: Record, kind: str, note: str, inputs: Mapping[str, object]) -> Answer:
    """Return everything about one record."""
    sources: tuple[Source, ...] = getattr(record, "sources", ())
    own: Mapping[str, Source] = getattr(record, "field_sources", {})
    legend = list(dict.fromkeys([*sources, *own.values()]))
    marks = {field: f"[{legend.index(source) + 1}]" for field, source in own.items()}
    default = f"[1-{len(sources)}]" if len(sources) > 1 else "[1]" if sources else ""
    rows = [
        (name, _show_value(name, value), marks.get(name, default))
        for name, value in figures_of(record).items()
    ]
    rows += [(name, _show_value(name, value), "derived") for name, value in derive_figures(record).items()]
    blocks: list[Block] = [
        Paragraph(f"{getattr(record, 'id', '')}: {getattr(record, 'name', kind)}", emphasis=True),
        Table(columns(f"{kind} | value~ | source"), tuple(rows)),
        Paragraph("\n".join(f"[{i}] {cite(source)}" for i, source in enumerate(legend, 1))),
    ]
    if remark := getattr(record, "notes", ""):
        blocks.append(Paragraph(f"Notes: {remark}"))
    more, facts = facts_of(record)
    blocks += more
    result = {"kind": kind, "record": record, "derived": derive_figures(record), **facts}
    return Answer(result=result, inputs=inputs, blocks=tuple(blocks), notes=(note,) if note else ())


def derive_figures(record: Record) -> dict[str, Json]:
    """Return figures derived from a record: a model's parameters and cache; empty for other records."""
    if not isinstance(record, Model):
        return {}
    own = type(record).model_fields
    return {name: value for name, value in model_row(record).items() if value is not None and name not in own}


def figures_of(record: Record) -> dict[str, Json]:
    """Return the record's fields that are set, nested ones by dotted name."""
    content = to_json(record)
    if not isinstance(content, dict):
        raise TypeError(f"{type(record).__name__} is not a record")
    return dict(_leaves({name: value for name, value in content.items() if name not in NOT_FIGURES}, ""))


def _leaves(content: Mapping[str, Json], prefix: str) -> Iterator[tuple[str, Json]]:
    for name, value in content.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}.")
        elif value not in (None, "", []):
            yield prefix + name, value


def _show_value(name: str, value: Json) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return _number(name, float(value))
    if isinstance(value, list):
        return "; ".join(_item(item) for item in value)
    return str(value)


def _number(name: str, value: float) -> str:
    field = name.split(".")[0] if "flop_per_s" in name else name
    if "usd" in field:
        return usd(value)
    ladder = next((ladder for suffix, ladder in LADDERS if field.endswith(suffix)), None)
    if ladder is not None:
        return show(value, ladder)
    return f"{value:,.0f}" if value.is_integer() else f"{value:g}"


def _item(item: Json) -> str:
    if not isinstance(item, dict):
        return str(item)
    return ", ".join(
        f"{name} {value}" for name, value in flatten(item).items() if value not in (None, "", False)
    )


def cite(source: Source) -> str:
    """Return a source as one line: title, place, day of reading, kind."""
    read = f"read {source.accessed}" if source.accessed else ""
    return ", ".join(filter(None, (source.title, source.where, read, source.kind)))
