"""Batches with a deadline, and images, texts and audio, as answers."""

from collections.abc import Mapping
from typing import Any, Final

from advisor.catalog.units import HOUR_S
from advisor.commands.recommend.tables import start_command, start_words
from advisor.commands.recommend.view import ENVELOPE_FIELDS, SHOWN_BESIDE_LADDER
from advisor.decide.batch.result import BatchJob
from advisor.decide.decision import Decision
from advisor.decide.items.result import ItemScenario
from advisor.decide.items.starting import item_start_words
from advisor.decide.option import Launch, Option
from advisor.decide.purchase import bill_words, job_words
from advisor.decide.safe_picks import safe_pick_words
from advisor.render.answer import Answer, Block, Figure, Paragraph
from advisor.render.document import fields_of
from advisor.render.numbers import COUNT, TIME, show, usd
from advisor.render.option_table import (
    DEADLINE_COLUMNS,
    ITEM_RUNG_COLUMNS,
    item_columns,
    job_columns,
    not_among,
    rungs_table,
    table_of,
)

_LEFT_OUT: Final = (*ENVELOPE_FIELDS, "comparisons", "changes", "what_would_change", "contexts", "extra")
"""Fields of a decision that only answers about serving fill."""


def batch_answer(
    found: Decision,
    job: BatchJob,
    inputs: Mapping[str, Any],
    notes: tuple[str, ...],
    *,
    explain: bool,
) -> Answer:
    """Return the ranked ways to get a batch done in time."""
    return _answer(found, inputs, notes, _batch_blocks(found, job, inputs, explain=explain))


def item_answer(
    found: Decision,
    scenario: ItemScenario,
    inputs: Mapping[str, Any],
    notes: tuple[str, ...],
    *,
    explain: bool,
) -> Answer:
    """Return the ranked fleets of a question about items."""
    return _answer(found, inputs, notes, _item_blocks(found, scenario, explain=explain))


def _answer(
    found: Decision, inputs: Mapping[str, Any], notes: tuple[str, ...], blocks: tuple[Block, ...]
) -> Answer:
    return Answer(
        result=fields_of(found, *_LEFT_OUT),
        inputs=inputs,
        blocks=blocks,
        records="options",
        warnings=found.warnings,
        notes=(*notes, *found.notes),
    )


def _batch_blocks(
    found: Decision, job: BatchJob, inputs: Mapping[str, Any], *, explain: bool
) -> tuple[Block, ...]:
    losses = "once" if job.spot_losses_per_day == 1 else f"{job.spot_losses_per_day:g} times"
    text = (
        f"Machines start in two minutes and load weights at 1 GB/s per accelerator; spot machines are lost {losses} a "
        "day. Billed for the time used, a commitment whole."
    )
    deadlines = rungs_table(
        found.ladder,
        "done within>",
        lambda rung: f"{(rung.deadline_s or 0.0) / HOUR_S:g} h",
        DEADLINE_COLUMNS,
        "What to take for which deadline",
    )
    named = inputs["constraints"].accelerators
    traffic = inputs["traffic"]
    tokens = job.num_requests * (traffic.mean_input_tokens + traffic.mean_output_tokens)
    asked = (
        f"Asked: {job.num_requests:,} requests of {traffic.mean_input_tokens:,} tokens in and "
        f"{traffic.mean_output_tokens:,} out on average ({traffic.profile}), {show(tokens, COUNT)} tokens in all, "
        f"within {job.deadline_s / HOUR_S:g} h."
    )
    title = f"Best ways within {job.deadline_s / HOUR_S:g} h, one per accelerator"
    return (
        Paragraph(found.headline, emphasis=True),
        Paragraph(asked),
        *([deadlines] if found.ladder else []),
        table_of(found.options, job_columns(), title),
        Paragraph(safe_pick_words(found.options, lambda option: option.job_usd, found.safe_pick)),
        Paragraph(job_words(found.options[0].bill)),
        Figure(start_command(found.options[0]), title=start_words(found.options[0])),
        *not_among(found.rejected, found.not_taken, None if explain else named),
        Paragraph(text if explain else f"{text} --explain shows the rest."),
    )


def _item_blocks(found: Decision, scenario: ItemScenario, *, explain: bool) -> tuple[Block, ...]:
    at = f" at {found.ladder[-1].rate_per_s:g} {found.unit}s/s" if found.ladder else ""
    named = scenario.constraints.accelerators
    shown = found.options if explain or not found.ladder else found.options[:SHOWN_BESIDE_LADDER]
    of_each = (
        ", one per accelerator" if len({option.machine.accelerator for option in shown}) == len(shown) else ""
    )
    loads = rungs_table(
        found.ladder,
        f"{found.unit}s>",
        lambda rung: f"{rung.rate_per_s:g}/s",
        ITEM_RUNG_COLUMNS,
        "What to take for which load",
    )
    asked = (
        f"Asked: {found.unit}s of {scenario.job.size_words}, 99 % within {show(scenario.latency_p99_s, TIME)}; "
        "$/1000 with its 80 % interval."
    )
    if scenario.num_items is not None:
        hours = scenario.deadline_s / HOUR_S
        total = usd(hours * shown[0].bill.usd_per_hour)
        asked += f" All {scenario.num_items:,.0f} {found.unit}s in {hours:g} h cost {total} with option 1."
    return (
        Paragraph(found.headline, emphasis=True),
        Paragraph(asked),
        *([loads] if found.ladder else []),
        table_of(shown, item_columns(found.unit or "item"), f"Best options{at}{of_each}"),
        Paragraph(
            safe_pick_words(shown, lambda option: option.of_items.usd_per_thousand_items, found.safe_pick)
        ),
        *(() if found.ladder else (Paragraph(bill_words(shown[0].bill)),)),
        _start_block(shown[0]),
        *not_among(found.rejected, found.not_taken, None if explain else named),
        *(() if explain else (Paragraph("--explain shows the rest."),)),
    )


def _start_block(option: Option) -> Block:
    """Return how an option's replicas are started, or why no command is printed."""
    if isinstance(option.launch, Launch):
        return Figure(option.launch.command, title=item_start_words(option))
    return Paragraph(f"No start command: {option.launch}.")
