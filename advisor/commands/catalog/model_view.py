"""Models of the catalog as answers: what their shape fixes."""

from collections.abc import Mapping, Sequence

from advisor.catalog.schema import Model
from advisor.catalog.units import KB, KIB
from advisor.render.answer import Answer, Paragraph, Table, columns
from advisor.render.numbers import COUNT, MISSING, show, show_in
from advisor.render.serialize import Json
from advisor.simulator.graph.model import kv_bytes_per_token, layers_of, parameter_count, routed_layers

REFERENCE_CONTEXT_TOKENS = 8192
"""Context at which the cache of one sequence is listed: windows and states make it other than linear."""


def models_answer(models: Sequence[Model], filters: Mapping[str, object]) -> Answer:
    """A listing of models with parameters and cache computed from their shape."""
    rows = [model_row(model) for model in models]
    return Answer(
        result={"models": rows},
        inputs=filters,
        blocks=(
            Table(
                columns("model | params> | active> | mixer~ | experts | context> | KV KB> | weights"),
                tuple(_cells(model, row) for model, row in zip(models, rows, strict=True)),
            ),
            Paragraph(
                f"{len(models)} models. Parameters and KV per token (16 bits; all-token layers) are "
                "computed from the shape."
            ),
        ),
        records="models",
    )


def model_row(model: Model) -> dict[str, Json]:
    """What a listing gives of a model, SI units."""
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
    """Kinds of token mixers, the most frequent first: `gqa`, `mla`, `gdn+gqa`, `gqa+gqa/1024` (window)."""
    counts: dict[str, int] = {}
    for layer in layers_of(model):
        if layer.mixer is not None:
            window = layer.attention.window_tokens if layer.attention else None
            kind = f"{layer.mixer.kind}/{window}" if window else layer.mixer.kind
            counts[kind] = counts.get(kind, 0) + layer.count
    return "+".join(sorted(counts, key=lambda kind: -counts[kind])) or MISSING


def experts(model: Model) -> dict[str, Json]:
    """Routed experts and how many a token passes, of the largest group; None for a dense model."""
    parts = (experts for _, experts in routed_layers(model))
    largest = max(parts, key=lambda experts: experts.num_experts, default=None)
    return {
        "num_experts": largest.num_experts if largest else None,
        "experts_per_token": largest.per_token if largest else None,
    }


def _cells(model: Model, row: Mapping[str, Json]) -> tuple[str, ...]:
    count = parameter_count(model)
    return (
        model.id,
        show(count.total, COUNT),
        show(count.active, COUNT) if count.active < 0.9 * count.total else MISSING,
        str(row["mixer"]),
        MISSING if row["num_experts"] is None else f"{row['experts_per_token']} of {row['num_experts']}",
        MISSING if model.max_context_tokens is None else f"{model.max_context_tokens / KIB:,.0f}k",
        show_in(kv_bytes_per_token(model).full_bytes_per_token, KB),
        model.weights,
    )
