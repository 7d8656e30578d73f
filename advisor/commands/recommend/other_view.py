"""Batches with a deadline, and images, texts and audio, as answers."""

from collections.abc import Mapping
from typing import Any, Final

from advisor.catalog.units import HOUR_S
from advisor.commands.recommend.tables import rejected_words
from advisor.commands.recommend.view import SHOWN_BESIDE_LADDER
from advisor.decide.batch.result import BatchJob, BatchOption, BatchRecommendation
from advisor.decide.items.result import ItemOption, ItemRecommendation
from advisor.decide.purchase import bill_words, job_words
from advisor.decide.standing import standing_words
from advisor.render.answer import Answer, Block, Paragraph, Table, columns
from advisor.render.numbers import (
    MISSING,
    TIME,
    bought_words,
    digits,
    percent,
    price_words,
    range_words,
    show,
    usd,
    usd_range,
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
            **{name: getattr(found, name) for name in (*_FIELDS, "ladder")},
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


def _deadlines(found: BatchRecommendation) -> list[Block]:
    """What to take for each of several deadlines."""
    if not found.ladder:
        return []
    rows = tuple((f"{rung.deadline_s / HOUR_S:g} h", *_deadline_cells(rung.pick)) for rung in found.ladder)
    header = columns("done within> | take~ | hours> | $/h> | $ for all | term? | price~")
    return [Table(header, rows, title="What to take for which deadline")]


def _deadline_cells(pick: BatchOption | None) -> tuple[str, ...]:
    if pick is None:
        return (MISSING, "nothing is done by then", *(MISSING,) * 4)
    return (
        bought_words(pick, pick),
        digits(pick.duration_s.value / HOUR_S),
        usd(pick.usd_per_hour),
        usd_range(pick.usd),
        pick.term.replace("_", "-"),
        price_words(pick.provider, pick.price_kind, pick.price_tenancy, pick.price_age_days),
    )


def _batch_blocks(found: BatchRecommendation, job: BatchJob, *, explain: bool) -> tuple[Block, ...]:
    rows = tuple(
        (
            str(option.rank),
            bought_words(option, option),
            option.weight_dtype,
            f"{digits(option.duration_s.value / HOUR_S)} "
            f"{range_words(option.duration_s.low / HOUR_S, option.duration_s.high / HOUR_S)}",
            option.meets_deadline,
            usd(option.usd_per_hour),
            usd_range(option.usd),
            digits(option.usd_per_million_tokens.value, 2),
            option.term.replace("_", "-"),
            price_words(option.provider, option.price_kind, option.price_tenancy, option.price_age_days),
            option.usd.basis,
        )
        for option in found.options
    )
    header = columns(
        "#> | take~ | weights? | hours | in time | $/h> | $ for all | $/Mtok>? | term? | price~ | basis?"
    )
    losses = "once" if job.spot_losses_per_day == 1 else f"{job.spot_losses_per_day:g} times"
    text = (
        f"Machines start in two minutes and load weights at 1 GB/s per accelerator; spot machines are lost {losses} a "
        "day. Billed for the time used, a commitment whole."
    )
    return (
        Paragraph(found.headline, emphasis=True),
        *_deadlines(found),
        Table(header, rows, title=f"Best ways within {job.deadline_s / HOUR_S:g} h, one per accelerator"),
        Paragraph(standing_words(found.options, lambda option: option.usd)),
        Paragraph(job_words(found.options[0].bill)),
        *(rejected_words(found.rejected) if explain else ()),
        Paragraph(text if explain else f"{text} --explain shows the rest."),
    )


def item_answer(
    found: ItemRecommendation, inputs: Mapping[str, Any], notes: tuple[str, ...], *, explain: bool
) -> Answer:
    """The ranked fleets of a question about items."""
    return Answer(
        result={name: getattr(found, name) for name in (*_FIELDS, "unit", "search", "ladder")},
        inputs=inputs,
        blocks=_item_blocks(found, inputs["latency_p99_s"], explain=explain),
        records="options",
        warnings=found.warnings,
        notes=notes,
    )


def _taken(option: ItemOption) -> str:
    split = f" ({option.num_replicas} x {option.split})" if option.split else ""
    return f"{option.num_accelerators} x {option.accelerator}{split}"


def _item_ladder(found: ItemRecommendation) -> list[Block]:
    """What to take for each of several loads."""
    if not found.ladder:
        return []
    rows = tuple((f"{rung.rate_per_s:g}/s", *_rung_cells(rung.pick)) for rung in found.ladder)
    header = columns(f"{found.unit}s> | take~ | $/h> | $/month>? | $/1000> | p50> | p99> | price~")
    return [Table(header, rows, title="What to take for which load")]


def _rung_cells(pick: ItemOption | None) -> tuple[str, ...]:
    if pick is None:
        return (MISSING, "nothing carries it", *(MISSING,) * 5)
    return (
        _taken(pick),
        usd(pick.usd_per_hour),
        usd(pick.bill.usd_per_month),
        usd(pick.usd_per_thousand_items.value),
        show(pick.latency_s["p50"].value, TIME),
        show(pick.latency_s["p99"].value, TIME),
        price_words(pick.provider, pick.price_kind, pick.price_tenancy, pick.price_age_days),
    )


def _item_blocks(found: ItemRecommendation, promise_s: float, *, explain: bool) -> tuple[Block, ...]:
    rows = tuple(
        (
            str(option.rank),
            _taken(option),
            str(option.max_batch),
            show(option.latency_s["p50"].value, TIME),
            show(option.latency_s["p99"].value, TIME),
            percent(option.busy_fraction),
            usd(option.usd_per_hour),
            usd_range(option.usd_per_thousand_items),
            price_words(option.provider, option.price_kind, option.price_tenancy, option.price_age_days),
            option.usd_per_thousand_items.basis,
        )
        for option in found.options
    )
    per_thousand = f"$/1000 {found.unit}s"
    header = columns(
        "#> | take~ | batch>? | p50> | p99> | busy> | $/h>", f"{per_thousand}~ | price~ | basis?"
    )
    at = f" at {found.ladder[-1].rate_per_s:g} {found.unit}s/s" if found.ladder else ""
    shown = found.options if explain or not found.ladder else found.options[:SHOWN_BESIDE_LADDER]
    of_each = ", one per accelerator" if len({option.accelerator for option in shown}) == len(shown) else ""
    asked = f"Asked: 99 % of {found.unit}s within {show(promise_s, TIME)}; $/1000 with its 80 % interval."
    return (
        Paragraph(found.headline, emphasis=True),
        *_item_ladder(found),
        Table(header, rows[: len(shown)], title=f"Best options{at}{of_each}"),
        Paragraph(standing_words(shown, lambda option: option.usd_per_thousand_items)),
        *(() if found.ladder else (Paragraph(bill_words(shown[0].bill)),)),
        *(rejected_words(found.rejected) if explain else ()),
        Paragraph(asked if explain else f"{asked} --explain shows the rest."),
    )
