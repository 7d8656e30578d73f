"""Accelerators, models and engines of the catalog as answers."""

from collections.abc import Mapping, Sequence
from typing import Final

from advisor.catalog import units
from advisor.catalog.engines import support_statements
from advisor.catalog.schema import Accelerator, Engine, Model
from advisor.commands.catalog.support_view import UNSTATED, on_architecture, support_rows, weight_formats
from advisor.render.answer import Answer, Paragraph, Table, columns
from advisor.render.document import Json, fields_of
from advisor.render.numbers import COUNT, MISSING, percent, show, show_in
from advisor.simulator.graph.model import kv_bytes_per_token, layers_of, parameter_count, routed_layers

PROVENANCE_FIELDS: Final = ("sources", "field_sources", "notes")
"""Long fields that a listing leaves out; `catalog show ID` has them."""

REFERENCE_CONTEXT_TOKENS = 8192
"""Context at which the cache of one sequence is listed: windows and states make it other than linear."""


def accelerators_answer(records: Sequence[Accelerator], filters: Mapping[str, object]) -> Answer:
    """Return a listing of accelerators."""
    ranked = sum(not record.unranked_reason for record in records)
    return Answer(
        result={"accelerators": [fields_of(record, *PROVENANCE_FIELDS) for record in records]},
        inputs=filters,
        blocks=(
            Table(
                columns("accelerator | GB> | GB/s> | bf16> | fp8> | fp4> | link GB/s> | W> | remark~?"),
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


def models_answer(models: Sequence[Model], filters: Mapping[str, object]) -> Answer:
    """Return a listing of models with parameters and cache computed from their shape."""
    rows = [model_row(model) for model in models]
    return Answer(
        result={"models": rows},
        inputs=filters,
        blocks=(
            Table(
                columns("model | params> | active> | mixer~ | experts | context> | KV KB> | weights"),
                tuple(_model_row(model, row) for model, row in zip(models, rows, strict=True)),
            ),
            Paragraph(
                f"{len(models)} models. Parameters and KV per token (16 bits; all-token layers) are "
                "computed from the shape."
            ),
        ),
        records="models",
    )


def model_row(model: Model) -> dict[str, Json]:
    """Return the figures of a model for a listing, in SI units."""
    count = parameter_count(model)
    cache = kv_bytes_per_token(model)
    return {
        "id": model.id,
        "name": model.name,
        "family": model.family,
        "workload": model.workload,
        "released": model.released,
        "parameters": count.total,
        "active_parameters": count.active,
        "num_layers": sum(group.count for group in model.layers if group.mixer is not None),
        "mixer": mixer_kinds(model),
        **experts(model),
        "max_context_tokens": model.max_context_tokens,
        "kv_bytes_per_token": cache.full_bytes_per_token,
        "kv_bytes_at_8192_tokens": cache.bytes_of(REFERENCE_CONTEXT_TOKENS),
        "weights": model.weights,
    }


def mixer_kinds(model: Model) -> str:
    """Return kinds of token mixers, the most frequent first: `gqa`, `mla`, `gdn+gqa`, `gqa+gqa/1024` (window)."""
    counts: dict[str, int] = {}
    for layer in layers_of(model):
        if layer.mixer is not None:
            window = layer.attention.window_tokens if layer.attention else None
            kind = f"{layer.mixer.kind}/{window}" if window else layer.mixer.kind
            counts[kind] = counts.get(kind, 0) + layer.count
    return "+".join(sorted(counts, key=lambda kind: -counts[kind])) or MISSING


def experts(model: Model) -> dict[str, Json]:
    """Return routed experts and how many a token passes, of the largest group; None for a dense model."""
    parts = (experts for _, experts in routed_layers(model))
    largest = max(parts, key=lambda experts: experts.num_experts, default=None)
    return {
        "num_experts": largest.num_experts if largest else None,
        "experts_per_token": largest.per_token if largest else None,
    }


def _context(tokens: int | None) -> str:
    if tokens is None:
        return MISSING
    return f"{tokens / units.KIB:,.0f}k" if tokens >= units.KIB else f"{tokens}"


def _model_row(model: Model, row: Mapping[str, Json]) -> tuple[str, ...]:
    count = parameter_count(model)
    return (
        model.id,
        show(count.total, COUNT),
        show(count.active, COUNT) if count.active < 0.9 * count.total else MISSING,
        str(row["mixer"]),
        MISSING if row["num_experts"] is None else f"{row['experts_per_token']} of {row['num_experts']}",
        _context(model.max_context_tokens),
        show_in(kv_bytes_per_token(model).full_bytes_per_token, units.KB),
        model.weights,
    )


def engines_answer(
    engines: Sequence[Engine], filters: Mapping[str, object], chip: Accelerator | None = None
) -> Answer:
    """Return a listing of serving engines: defaults and stated support, on one accelerator if it is named."""
    listed_ids = {engine.id for engine in engines}
    found = {
        key: one
        for key, one in support_statements(architecture=chip.architecture if chip else "").items()
        if key[0] in listed_ids
    }
    matrix = on_architecture(found, chip.architecture) if chip else weight_formats(found, engines)
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
        result={
            "engines": [fields_of(engine, *PROVENANCE_FIELDS) for engine in engines],
            "support": support_rows(found),
        },
        inputs=filters,
        blocks=(
            Table(columns("engine | scheduler | seqs> | tokens/step> | memory> | weights~ | runs on~"), rows),
            Paragraph("Defaults where the accelerator does not change them."),
            matrix,
            Paragraph(UNSTATED),
        ),
        records="engines",
    )
