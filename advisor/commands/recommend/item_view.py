"""Images, texts and audio as an answer: the fleets that a promise takes."""

from collections.abc import Mapping
from typing import Any, Final

from advisor.recommend.item_result import ItemRecommendation
from advisor.render.answer import Answer, Block, Column, Paragraph, Table
from advisor.render.numbers import LEGEND, TIME, percent, show, show_quantity, usd, usd_quantity

_REJECTED_SHOWN: Final = 8


def item_answer(
    found: ItemRecommendation, inputs: Mapping[str, Any], notes: tuple[str, ...], *, explain: bool
) -> Answer:
    """The ranked fleets of a question about items."""
    return Answer(
        result={
            "kind": found.kind,
            "model": found.model,
            "workload": found.workload,
            "unit": found.unit,
            "headline": found.headline,
            "options": found.options,
            "rejected": found.rejected,
            "search": found.search,
        },
        inputs=inputs,
        blocks=_fleet_blocks(found, explain=explain),
        records="options",
        warnings=found.warnings,
        notes=notes,
    )


def _fleet_blocks(found: ItemRecommendation, *, explain: bool) -> tuple[Block, ...]:
    header = (
        Column("", "right"), Column("accelerators", fold=True), Column("batch", "right"), Column("p50"), Column("p99"),
        Column("busy", "right"), Column("$/h", "right"), Column(f"$ per 1000 {found.unit}s", fold=True),
        Column("provider", fold=True),
    )  # fmt: skip
    rows = []
    for option in found.options:
        split = f" ({option.num_replicas} x {option.split})" if option.split else ""
        rows.append(
            (
                str(option.rank),
                f"{option.num_accelerators} x {option.accelerator}{split}",
                str(option.max_batch),
                show(option.latency_s["p50"].value, TIME),
                show_quantity(option.latency_s["p99"], TIME),
                percent(option.busy_fraction),
                usd(option.usd_per_hour).removeprefix("$"),
                usd_quantity(option.usd_per_thousand_items),
                option.provider,
            )
        )
    shown = found.rejected if explain else found.rejected[:_REJECTED_SHOWN]
    reasons = "\n".join(f"{item.accelerator}: {item.reason}" for item in shown)
    more = len(found.rejected) - len(shown)
    text = (
        f"Not among them:\n{reasons}" + (f"\n{more} more with --explain." if more else "") if reasons else ""
    )
    blocks: list[Block] = [Paragraph(found.headline, emphasis=True), Table(header, tuple(rows))]
    return (*blocks, *([Paragraph(text)] if text else []), Paragraph(LEGEND))
