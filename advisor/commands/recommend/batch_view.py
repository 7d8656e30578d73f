"""Batch jobs with a deadline as an answer."""

from collections.abc import Mapping
from typing import Any, Final

from advisor.catalog.units import HOUR_S
from advisor.recommend.batch_result import BatchJob, BatchRecommendation
from advisor.render.answer import Answer, Block, Column, Paragraph, Table
from advisor.render.numbers import LEGEND, digits, layout_words, range_words, usd, usd_quantity

_REJECTED_SHOWN: Final = 8


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
            "kind": found.kind,
            "model": found.model,
            "workload": found.workload,
            "headline": found.headline,
            "options": found.options,
            "rejected": found.rejected,
            "search": {
                "num_candidates": found.num_candidates,
                "num_simulated": found.num_simulated,
                "wall_s": found.wall_s,
            },
        },
        inputs=inputs,
        blocks=_blocks(found, job, explain=explain),
        records="options",
        warnings=found.warnings,
        notes=notes,
    )


def _blocks(found: BatchRecommendation, job: BatchJob, *, explain: bool) -> tuple[Block, ...]:
    header = (
        Column("", "right"), Column("deployment", fold=True), Column("weights"), Column("hours"), Column("in time"),
        Column("$/h", "right"), Column("$ for all"), Column("$/Mtok", "right"), Column("from", fold=True),
    )  # fmt: skip
    rows = tuple(
        (
            str(option.rank),
            layout_words(
                option.accelerator, option.num_replicas, tp=option.tensor_parallel, pp=option.pipeline_parallel,
                dp=option.data_parallel, ep=option.expert_parallel,
            ),
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
    )  # fmt: skip
    shown = found.rejected if explain else found.rejected[:_REJECTED_SHOWN]
    reasons = "\n".join(f"{item.accelerator}: {item.reason}" for item in shown)
    more = len(found.rejected) - len(shown)
    text = (
        f"Machines start in two minutes and load weights at 1 GB/s per accelerator; spot machines are lost "
        f"{job.spot_losses_per_day:g} times a day. Billed for the time used.\n{LEGEND}"
    )
    tail = [Paragraph(f"Not among them:\n{reasons}" + (f"\n{more} more with --explain." if more else ""))]
    blocks: tuple[Block, ...] = (Paragraph(found.headline, emphasis=True), Table(header, rows))
    return (*blocks, *(tail if reasons else []), Paragraph(text))
