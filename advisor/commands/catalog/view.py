"""Catalog records as answers: what a listing shows of each, and everything about one."""

from collections.abc import Mapping, Sequence
from typing import Final

from advisor.catalog import units
from advisor.catalog.schema import Accelerator, Engine
from advisor.render.answer import Answer, Paragraph, Table, columns
from advisor.render.numbers import percent, show_in
from advisor.render.serialize import Json, to_json

PROVENANCE_FIELDS: Final = ("sources", "field_sources", "notes")
"""Long fields that a listing leaves out; `catalog show ID` has them."""


def accelerators_answer(records: Sequence[Accelerator], filters: Mapping[str, object]) -> Answer:
    """A listing of accelerators."""
    ranked = sum(not record.unranked_reason for record in records)
    return Answer(
        result={"accelerators": [listed(record) for record in records]},
        inputs=filters,
        blocks=(
            Table(
                columns("accelerator | GB> | GB/s> | bf16> | fp8> | fp4> | link GB/s> | W> | remark~"),
                tuple(_accelerator_row(record) for record in records),
            ),
            Paragraph(
                f"{len(records)} accelerators, {ranked} of them ranked. Dense TFLOP/s, FP32 accumulation; "
                "link = scale-up fabric, one direction."
            ),
        ),
        records="accelerators",
    )


def _accelerator_row(record: Accelerator) -> tuple[str, ...]:
    peaks = record.peak_flop_per_s
    link = record.scale_up.bytes_per_s if record.scale_up else None
    remarks: list[str] = [record.status] if record.status != "released" else []
    if record.unranked_reason:
        remarks.append("not ranked")
    return (
        record.id,
        show_in(record.memory_bytes, units.GB),
        show_in(record.bandwidth_bytes_per_s, units.GB),
        *(show_in(peaks.get(dtype), units.TERA) for dtype in ("bf16", "fp8", "fp4")),
        show_in(link, units.GB),
        show_in(record.tdp_w, 1.0),
        ", ".join(remarks),
    )


def engines_answer(engines: Sequence[Engine], filters: Mapping[str, object]) -> Answer:
    """A listing of serving engines with their defaults."""
    rows = tuple(
        (
            engine.id,
            engine.scheduler,
            str(engine.max_num_seqs),
            str(engine.max_num_batched_tokens),
            percent(engine.memory_fraction),
            " ".join(engine.weight_dtypes),
            " ".join(engine.vendors),
        )
        for engine in engines
    )
    return Answer(
        result={"engines": [listed(engine) for engine in engines]},
        inputs=filters,
        blocks=(
            Table(
                columns("engine | scheduler | seqs> | tokens/step> | memory> | weights~ | runs on~"),
                rows,
            ),
            Paragraph("Defaults where the accelerator does not change them."),
        ),
        records="engines",
    )


def listed(record: object) -> dict[str, Json]:
    """A record as a listing gives it: all figures, without the long texts on where they come from."""
    content = to_json(record)
    if not isinstance(content, dict):
        raise TypeError(f"{type(record).__name__} is not a record")
    return {key: value for key, value in content.items() if key not in PROVENANCE_FIELDS}
