"""A pipeline schedule as a picture: a row of characters per stage, or an SVG."""

from html import escape
from typing import Final

from advisor.simulator.training.pipeline import PipelineRun, TimedSlot
from advisor.simulator.training.schedule_orders import Kind

WIDTH: Final = 90
LEGEND: Final = (
    "digits: forward, by the last digit of the micro-batch; letters: backward, a for 0; "
    "w: weight gradients; ·: idle"
)
_COLOURS: Final = {
    Kind.FORWARD: "#4e79a7",
    Kind.BACKWARD: "#59a14f",
    Kind.INPUT: "#76b7b2",
    Kind.WEIGHT: "#b6a136",
}
_MEANINGS: Final = {
    Kind.FORWARD: "forward",
    Kind.BACKWARD: "backward",
    Kind.INPUT: "gradients of inputs",
    Kind.WEIGHT: "gradients of weights",
}
_ROW: Final = 24
_LEFT: Final = 64
_SVG_WIDTH: Final = 960


def pipeline_text(run: PipelineRun, width: int = WIDTH) -> str:
    """Return one line per stage; a character shows what the stage does in the middle of its slice of time."""
    slice_s = run.makespan_s / width
    lines = []
    for number, stage in enumerate(run.slots):
        row = ["·"] * width
        for slot in stage:
            first = max(0, round(slot.start_at_s / slice_s - 0.5 + 1e-9))
            last = min(width, max(first, round(slot.end_at_s / slice_s - 0.5 + 1e-9)))
            for column in range(first, last):
                row[column] = _mark(slot, (column + 0.5 - first) / max(1, last - first))
        lines.append(f"{number:>3} {''.join(row)}")
    return "\n".join(lines)


def _mark(slot: TimedSlot, place: float) -> str:
    """Return the character of a slot; of two passes that overlap, the first has the first half."""
    step = slot.passes[min(len(slot.passes) - 1, int(place * len(slot.passes)))]
    digit = step.micro_batch % 10
    if step.kind is Kind.FORWARD:
        return str(digit)
    return "w" if step.kind is Kind.WEIGHT else "abcdefghij"[digit]


def pipeline_svg(run: PipelineRun, title: str) -> str:
    """Return the schedule as a drawing: a row per stage, a box per pass with its micro-batch if there is room."""
    scale = (_SVG_WIDTH - _LEFT - 10) / run.makespan_s
    top = 40
    height = 40 + _ROW * run.num_stages + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SVG_WIDTH} {height}" font-family="sans-serif" '
        f'font-size="11"><title>{escape(title)}</title>',
        f'<rect width="{_SVG_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="8" y="22" font-size="14">{escape(title)}</text>',
    ]
    for number, stage in enumerate(run.slots):
        y = top + number * _ROW
        parts.append(f'<text x="8" y="{y + 15}">stage {number}</text>')
        parts.append(
            f'<rect x="{_LEFT}" y="{y}" width="{run.makespan_s * scale:.2f}" height="{_ROW - 4}" fill="#eeeeee"/>'
        )
        parts += [box for slot in stage for box in _boxes(slot, y, scale)]
    parts += _legend(
        top + run.num_stages * _ROW + 18, {s.kind for st in run.slots for x in st for s in x.passes}
    )
    return "\n".join([*parts, "</svg>\n"])


def _boxes(slot: TimedSlot, y: int, scale: float) -> list[str]:
    share_s = (slot.end_at_s - slot.start_at_s) / len(slot.passes)
    found = []
    for i, step in enumerate(slot.passes):
        x = _LEFT + (slot.start_at_s + i * share_s) * scale
        width = share_s * scale
        found.append(
            f'<rect x="{x:.2f}" y="{y}" width="{max(0.4, width - 0.4):.2f}" height="{_ROW - 4}" '
            f'fill="{_COLOURS[step.kind]}"/>'
        )
        if width > 14:
            found.append(
                f'<text x="{x + width / 2:.2f}" y="{y + 14}" text-anchor="middle" fill="#ffffff">'
                f"{step.micro_batch}</text>"
            )
    return found


def _legend(y: int, kinds: set[Kind]) -> list[str]:
    found = []
    x = _LEFT
    for kind in sorted(kinds):
        found.append(f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{_COLOURS[kind]}"/>')
        found.append(f'<text x="{x + 18}" y="{y}">{_MEANINGS[kind]}</text>')
        x += 170
    return found
