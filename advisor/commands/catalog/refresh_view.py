"""A refresh of prices as an answer: what came, what changed, what was refused and why, what stays old."""

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from advisor.refresh.refresh import RefreshOutcome, failures
from advisor.refresh.snapshot import digest_of
from advisor.render.answer import Answer, Block, Paragraph, Table, columns
from advisor.render.document import pick_attributes
from advisor.render.numbers import MISSING

MAX_REFUSED: Final = 12
"""Refused rows that are shown; the file has all."""
MAX_UNKNOWN: Final = 8


def refresh_answer(
    outcomes: Sequence[RefreshOutcome], folder: Path, day: datetime.date, *, is_rehearsal: bool
) -> Answer:
    """Return the table of lists, then what was not taken."""
    refused = [(outcome.name, entry) for outcome in outcomes for entry in outcome.refused]
    failed = [outcome for outcome in outcomes if outcome.status == "failed"]
    unknown = sorted({name for outcome in outcomes for name in outcome.unknown})
    num_prices = sum(outcome.num_prices for outcome in outcomes)
    blocks: list[Block] = [
        Paragraph(
            f"{len(outcomes) - len(failed)} of {len(outcomes)} price lists {'would be ' if is_rehearsal else ''}"
            f"refreshed: {num_prices} prices stand, {sum(o.num_changed for o in outcomes)} changed, "
            f"{sum(o.num_new for o in outcomes)} are new, {len(refused)} were refused",
            emphasis=True,
        ),
        _lists_table(outcomes, day),
    ]
    if refused:
        rows = tuple(
            (name, _product(entry.quote.sku, entry.quote.region), entry.reason) for name, entry in refused
        )
        blocks.append(
            Table(
                columns("list | product~ | refused because~"),
                rows[:MAX_REFUSED],
                title=f"Refused rows ({len(refused)}); old prices stay",
            )
        )
    if unknown:
        more = f" and {len(unknown) - MAX_UNKNOWN} more" if len(unknown) > MAX_UNKNOWN else ""
        blocks.append(
            Paragraph(f"Products that the catalog does not know: {', '.join(unknown[:MAX_UNKNOWN])}{more}.")
        )
    return Answer(
        result={"kind": "refresh", "lists": [_fields(outcome) for outcome in outcomes], "folder": folder},
        inputs={"is_rehearsal": is_rehearsal},
        blocks=tuple(blocks),
        records="lists",
        warnings=tuple(
            f"{name} was not refreshed: {reason}; its old prices stay" for name, reason in failures(failed)
        ),
        notes=() if is_rehearsal else (f"prices are kept in {folder}",),
    )


def cleared_answer(num_lists: int, folder: Path) -> Answer:
    """Return the answer that says how many price lists were deleted."""
    text = f"{num_lists} price lists deleted; the bundled prices count again"
    return Answer(
        result={"kind": "refresh", "num_deleted": num_lists, "folder": folder},
        inputs={},
        blocks=(Paragraph(text, emphasis=True),),
    )


def snapshot_answer(
    place: str, lists: Mapping[str, str], folder: Path, *, is_rehearsal: bool = False
) -> Answer:
    """Return the answer that says which lists a snapshot holds, and its digest."""
    digest = digest_of(lists)
    rows = tuple((name, str(text.count("\n") - 1)) for name, text in sorted(lists.items()))
    head = f"{place}: {sum(int(count) for _, count in rows)} prices of {len(rows)} lists, SHA-256 {digest}"
    return Answer(
        result={
            "kind": "refresh",
            "snapshot": place,
            "digest": digest,
            "lists": [{"name": name, "num_prices": int(count)} for name, count in rows],
            "folder": folder,
        },
        inputs={"is_rehearsal": is_rehearsal},
        blocks=(Paragraph(head, emphasis=True), Table(columns("list | prices>"), rows)),
        records="lists",
    )


def _lists_table(outcomes: Sequence[RefreshOutcome], day: datetime.date) -> Table:
    return Table(
        columns(
            "list | status", *(f"{name}>" for name in ("prices", "new", "changed", "refused", "days old"))
        ),
        tuple(_cells(outcome, day) for outcome in outcomes),
    )


def _cells(outcome: RefreshOutcome, day: datetime.date) -> tuple[str, ...]:
    counts = (outcome.num_prices, outcome.num_new, outcome.num_changed, len(outcome.refused))
    age = MISSING if outcome.newest is None else str((day - outcome.newest).days)
    return (outcome.name, outcome.status, *map(str, counts), age)


def _product(sku: str, region: str) -> str:
    return f"{sku} ({region})" if region else sku


def _fields(outcome: RefreshOutcome) -> dict[str, object]:
    refused = [
        pick_attributes(entry.quote, "sku region term") | {"reason": entry.reason}
        for entry in outcome.refused
    ]
    names = "name source url status reason num_prices num_new num_changed newest unknown"
    return pick_attributes(outcome, names) | {"refused": refused}
