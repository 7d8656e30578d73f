"""Batches with a deadline, and images, texts and audio, as answers."""

from collections.abc import Mapping
from typing import Any, Final

from advisor.catalog.units import HOUR_S
from advisor.commands.recommend.rejected import rejected_words
from advisor.recommend.batch_result import BatchJob, BatchRecommendation
from advisor.recommend.item_result import ItemRecommendation
from advisor.render.answer import Answer, Block, Paragraph, Table, columns
from advisor.render.numbers import (
    LEGEND,
    TIME,
    digits,
    layout_words,
    percent,
    range_words,
    show,
    show_quantity,
    usd,
    usd_quantity,
)  # fmt: skip

_FIELDS: Final = ("kind", "model", "workload", "headline", "options", "rejected")


def batch_answer(
    found: BatchRecommendation,
    job: BatchJob,
    inputs: Mapping[str, Any],
    notes: tuple[str, ...],
    *,
    explain: bool,
) -> Answer:
    """The ranked ways to get a batch done in time."""
    return Answer(
        result={
            **{name: getattr(found, name) for name in _FIELDS},
            "search": {
                "num_candidates": found.num_candidates,
                "num_simulated": found.num_simulated,
                "wall_s": found.wall_s,
            },
        },
        inputs=inputs,
        blocks=_batch_blocks(found, job, explain=explain),
        records="options",
        warnings=found.warnings,
        notes=notes,
    )


def _batch_blocks(found: BatchRecommendation, job: BatchJob, *, explain: bool) -> tuple[Block, ...]:
    rows = tuple(
        (
            str(option.rank),
            layout_words(option, option.accelerator, option.num_replicas),
            option.weight_dtype,
            f"{digits(option.duration_s.value / HOUR_S)} "
            f"({range_words(option.duration_s.low / HOUR_S, option.duration_s.high / HOUR_S)})",
            option.meets_deadline,
            usd(option.usd_per_hour).removeprefix("$"),
            usd_quantity(option.usd),
            digits(option.usd_per_million_tokens.value, 2),
            f"{option.provider}, {option.term.replace('_', '-')}",
        )
        for option in found.options
    )
    header = columns("> | deployment~ | weights | hours | in time | $/h> | $ for all | $/Mtok> | from~")
    text = (
        f"Machines start in two minutes and load weights at 1 GB/s per accelerator; spot machines are lost "
        f"{job.spot_losses_per_day:g} times a day. Billed for the time used.\n{LEGEND}"
    )
    return (
        Paragraph(found.headline, emphasis=True),
        Table(header, rows),
        *rejected_words(found.rejected, everything=explain),
        Paragraph(text),
    )


def item_answer(
    found: ItemRecommendation, inputs: Mapping[str, Any], notes: tuple[str, ...], *, explain: bool
) -> Answer:
    """The ranked fleets of a question about items."""
    return Answer(
        result={name: getattr(found, name) for name in (*_FIELDS, "unit", "search")},
        inputs=inputs,
        blocks=_item_blocks(found, explain=explain),
        records="options",
        warnings=found.warnings,
        notes=notes,
    )


def _item_blocks(found: ItemRecommendation, *, explain: bool) -> tuple[Block, ...]:
    rows = tuple(
        (
            str(option.rank),
            f"{option.num_accelerators} x {option.accelerator}"
            + (f" ({option.num_replicas} x {option.split})" if option.split else ""),
            str(option.max_batch),
            show(option.latency_s["p50"].value, TIME),
            show_quantity(option.latency_s["p99"], TIME),
            percent(option.busy_fraction),
            usd(option.usd_per_hour).removeprefix("$"),
            usd_quantity(option.usd_per_thousand_items),
            option.provider,
        )
        for option in found.options
    )
    per_thousand = f"$ per 1000 {found.unit}s"
    header = columns("> | accelerators~ | batch> | p50 | p99 | busy> | $/h>", f"{per_thousand}~ | provider~")
    return (
        Paragraph(found.headline, emphasis=True),
        Table(header, rows),
        *rejected_words(found.rejected, everything=explain),
        Paragraph(LEGEND),
    )
