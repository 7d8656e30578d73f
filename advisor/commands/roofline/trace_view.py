"""A profile against the roof as an answer."""

from pathlib import Path

from advisor.catalog import accelerators
from advisor.commands.roofline.trace_file import read_trace
from advisor.commands.roofline.trace_summary import KindTime, TraceSummary, summarise
from advisor.render.answer import Answer, Paragraph, Table, columns
from advisor.render.document import fields_of, pick_attributes
from advisor.render.numbers import MISSING, TIME, percent, show
from advisor.simulator.device import device_of

_LONGEST_NAME = 44


def answer_trace(path: Path, gpu: str) -> Answer:
    """Return time by kind of operator, gaps and overlap of a trace, against the roof of an accelerator.

    Raises: InputFileError: the file is no trace. UnknownNameError: no accelerator is called so.
    """
    record, note = accelerators.get(gpu)
    kind, activities = read_trace(path)
    summary = summarise(activities, device_of(record))
    others = {activity.device for activity in activities} - {summary.device}
    notes = [note] if note else []
    if others:
        notes.append(f"the trace has {len(others) + 1} GPUs: shown is GPU {summary.device}, which works most")
    without = not any(row.floor_s for row in summary.kinds)
    if without:
        notes.append(
            "the trace has no shapes, so no kernel is held against its roof"
            + (": profile with record_shapes=True" if kind == "pytorch" else "")
        )
    return Answer(
        result={
            "trace": kind,
            **pick_attributes(
                summary,
                "device span_s busy_s idle_fraction overlapped_s num_gaps longest_gap_s collective_s",
                "exposed_collective_s advice",
            ),
            "kinds": [fields_of(row) | {"roof_fraction": row.roof_fraction} for row in summary.kinds],
        },
        inputs={"gpu": record.id, "trace": path},
        blocks=(
            Paragraph(_headline(summary, record.id), emphasis=True),
            Table(
                columns("operators | calls> | time> | share> | of the roof> | longest kernel~?"),
                tuple(_row(row) for row in summary.kinds),
            ),
            Paragraph(_gaps(summary)),
            Paragraph(summary.advice),
        ),
        records="kinds",
        notes=tuple(notes),
    )


def _headline(summary: TraceSummary, gpu: str) -> str:
    return (
        f"{show(summary.span_s, TIME)} on GPU {summary.device} ({gpu}): busy {percent(1.0 - summary.idle_fraction)} of "
        f"the time, most of it in {summary.kinds[0].kind}"
    )


def _gaps(summary: TraceSummary) -> str:
    gaps = (
        f"Gaps: {summary.num_gaps:,}, {percent(summary.idle_fraction)} of the time, the longest "
        f"{show(summary.longest_gap_s, TIME)}."
        if summary.num_gaps
        else "Gaps: none above 1 µs."
    )
    overlap = (
        f"Overlap: two or more kernels run {percent(summary.overlapped_s / summary.span_s)} of the time."
    )
    if not summary.collective_s:
        return f"{gaps} {overlap}"
    return (
        f"{gaps} {overlap} Collectives take {show(summary.collective_s, TIME)}, of which nothing hides "
        f"{show(summary.exposed_collective_s, TIME)}."
    )


def _row(row: KindTime) -> tuple[str, ...]:
    name = row.longest if len(row.longest) <= _LONGEST_NAME else f"{row.longest[: _LONGEST_NAME - 1]}…"
    return (
        row.kind,
        f"{row.num_calls:,}",
        show(row.time_s, TIME),
        percent(row.share_fraction),
        MISSING if row.roof_fraction is None else percent(row.roof_fraction),
        name,
    )
