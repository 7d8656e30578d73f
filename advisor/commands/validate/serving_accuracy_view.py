"""The tables of docs/accuracy.md about serving, as the answer of `advisor validate serving` prints them too."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from advisor.evidence.scores import MetricScore, Score
from advisor.evidence.serving.accuracy import CORE_COLUMNS, CORE_METRICS, GROUP, OTHER_LOADS, ServingAccuracy
from advisor.render.answer import Block, Paragraph, Table, columns

METRIC_NAMES = dict(zip(CORE_METRICS, ("TPOT", "TTFT", "throughput"), strict=True))
COLUMN_NAMES = dict(zip(CORE_COLUMNS, ("engine", "accelerator", "model", "tier"), strict=True))
TIERS = {
    "B1": "offline, highest throughput (TensorRT-LLM)",
    "C1": "static batches, engines of 2024",
    "C2": "local machines (llama.cpp)",
    "C3": "RTX 3090s with capped power",
    "D1": "prefill and decode apart",
    "M": "MLPerf Inference: layouts unknown, the smallest assumed",
}
SCORE_HEADS = ("rows", "predicted", "median", "p90", "bias")
CORE = (
    "The core: aggregated serving without speculation, all conditions published, whole servers under load. "
    "A missing prediction counts as 100 %; macro is the mean over groups of their medians."
)
STRANGER = "as a stranger's server"
"""Engines on their release's defaults: no start-up scripts, nothing that a row does not state."""
MEASURED = METRIC_NAMES | {"decode_tok_s": "decode", "prefill_tok_s": "prompts"}


def serving_accuracy_tables(found: ServingAccuracy) -> list[Table]:
    """Return all rows of the core, the core by engine, accelerator, model and tier, and the loads outside it."""
    tables = [_core_table(found.core)]
    tables += [_column_table(found, column) for column in CORE_COLUMNS]
    if found.other_loads:
        tables.append(_other_loads_table(found.other_loads))
    return tables


def stranger_tables(found: ServingAccuracy) -> list[Table]:
    """Return all rows and tiers of the core, and the loads outside it, without what scripts say."""
    tables = [_core_table(found.core), _column_table(found, "tier")]
    if found.other_loads:
        tables.append(_other_loads_table(found.other_loads))
    return [replace(table, title=f"{table.title}, {STRANGER}") for table in tables]


def serving_accuracy_blocks(found: ServingAccuracy) -> list[Block]:
    """Return a paragraph on the meaning of the core set, then the tables."""
    return [Paragraph(CORE), *serving_accuracy_tables(found)]


def score_cells(found: Score, share_decimals: int = 0) -> tuple[str, ...]:
    """Return cells of SCORE_HEADS; the median counts a missing prediction as 100 %."""
    total = found.n + found.num_missing
    return (
        str(total),
        _percent(found.n / total, share_decimals),
        _percent(found.median_ape_missing_as_1, 1),
        _percent(found.p90_ape),
        _signed_percent(found.bias),
    )


def _core_table(core: Mapping[str, MetricScore]) -> Table:
    rows = []
    for metric, found in core.items():
        count, share, median, p90, bias = score_cells(found.overall, share_decimals=1)
        macro = _percent(found.macro[GROUP]["median_ape_missing_as_1"], 1) if GROUP in found.macro else "–"
        inside = _percent(found.overall.interval_coverage)
        rows.append((METRIC_NAMES[metric], count, share, median, macro, p90, bias, inside))
    heads = ("rows", "predicted", "median", "macro", "p90", "bias", "inside 80 % interval")
    return _table("Core rows", "metric", heads, rows)


def _column_table(found: ServingAccuracy, column: str) -> Table:
    rows = []
    for value, number in sorted(found.num_core_rows[column].items(), key=lambda item: -item[1]):
        scores = [
            found.core[metric].by[column].get(value) if metric in found.core else None
            for metric in CORE_METRICS
        ]
        medians = (_percent(one.median_ape_missing_as_1 if one else None, 1) for one in scores)
        rows.append((value, str(number), *medians))
    title = f"Core by {COLUMN_NAMES[column]} (median)"
    return _table(title, column, ("rows", *METRIC_NAMES.values()), rows)


def _other_loads_table(found: Mapping[str, Mapping[str, Score]]) -> Table:
    rows = [
        (f"{TIERS[tier]}: {MEASURED[metric]}", *score_cells(found[tier][metric]))
        for tier, metric in OTHER_LOADS
        if metric in found.get(tier, {})
    ]
    return _table("Other loads", "rows of", SCORE_HEADS, rows)


def _table(title: str, first: str, heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
    return Table(columns(f"{first}~", *(f"{head}>" for head in heads)), tuple(rows), title=title)


def _percent(fraction: float | None, decimals: int = 0) -> str:
    return "–" if fraction is None else f"{100 * fraction:.{decimals}f} %"


def _signed_percent(fraction: float | None) -> str:
    return "–" if fraction is None else f"{100 * fraction:+.1f} %"
