"""Operators on the roofline as an answer: tables, a plot in characters, a drawing."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from advisor.catalog.units import KIB, TERA
from advisor.commands.roofline.svg import Mark, RoofLine, roofline_svg
from advisor.render.answer import Answer, Block, Figure, Paragraph, Section, Table, columns
from advisor.render.document import pick_attributes
from advisor.render.numbers import LEGEND, MISSING, RATE, TIME, digits, percent, show, show_quantity, words_of
from advisor.render.plot import PlotAxis, PlotPoint, scatter
from advisor.simulator.deployment import Deployment
from advisor.simulator.occupancy import Occupancy, SmLimits
from advisor.simulator.step_roofline import (
    PassRoofline,
    RooflineOperator,
    crossover_batch,
    longest_compute_bound_context,
)

_LETTERS: Final = {"decode": "abcdefghij", "prefill": "ABCDEFGHIJ"}
_ROOF_MARKS: Final = {False: ".", True: "+"}
_ROOF_POINTS: Final = 200
_MARGIN: Final = 2.0


@dataclass(frozen=True, slots=True)
class Roof:
    """The upper limits of a device, by its datasheet or as measured, in SI units."""

    name: str
    bandwidth_bytes_per_s: float
    peak_flop_per_s: Mapping[str, float]
    """Highest rate by number format that the operators multiply in [FLOP/s]."""

    @property
    def is_measured(self) -> bool:
        return self.name == "measured"


def roofline_answer(
    deployment: Deployment,
    passes: Sequence[PassRoofline],
    roofs: Sequence[Roof],
    inputs: Mapping[str, object],
    notes: tuple[str, ...],
    warnings: tuple[str, ...],
) -> Answer:
    """Return the answer on both passes: the headline, a table each and the plot; for files the drawing."""
    step, prompt = passes
    headline = (
        f"{deployment.model.id} ({deployment.weight_dtype}) on {deployment.accelerator.id}, {deployment.engine.id}: "
        f"a decode step takes {show_quantity(step.predicted_s, TIME)}, its roof allows {show(step.floor_s, TIME)}; "
        f"a prompt {show_quantity(prompt.predicted_s, TIME)}, its roof {show(prompt.floor_s, TIME)}"
    )
    marks = [mark for one in passes for mark in _marks(one)]
    tables = [_table(one) for one in passes]
    legend = Paragraph("\n".join([*(_roof_words(roof) for roof in roofs), LEGEND]))
    plot = Figure(_plot(marks, roofs), title="Operators under the roof")
    turning = _turning_point(deployment, step, roofs[0])
    blocks: list[Block] = [
        Paragraph(headline, emphasis=True),
        *tables,
        Paragraph(turning.words(step.context_tokens)),
        plot,
        legend,
    ]
    sides = ", ".join(f"{roof.name} {show(roof.bandwidth_bytes_per_s, RATE)}" for roof in roofs)
    title = f"{deployment.model.id} ({deployment.weight_dtype}) on {deployment.accelerator.id}: {sides}"
    return Answer(
        result={
            "roofs": [_roof_fields(roof) for roof in roofs],
            "passes": [_pass_fields(one) for one in passes],
            "operators": [_fields(operator) for one in passes for operator in one.operators],
            "decode_turns_compute_bound": turning,
        },
        inputs=inputs,
        blocks=tuple(blocks),
        sections=(Section("Operators", (*tables, legend)),),  # a page has the drawing instead of the plot
        records="operators",
        notes=notes,
        warnings=warnings,
        svg=roofline_svg(title, [line for roof in roofs for line in _lines(roof)], marks),
    )


@dataclass(frozen=True, slots=True)
class TurningPoint:
    """Point at which decode turns compute-bound under one roof."""

    batch: float | None
    """Smallest batch at this context [sequences]; None if there is none."""
    longest_context_tokens: float | None
    """Context beyond which no batch is compute-bound [tokens]; None if every context has one."""

    def words(self, context_tokens: int) -> str:
        """Return the point in one sentence."""
        longest = self.longest_context_tokens
        limit = "" if longest is None or longest < 1.0 else f"; beyond {longest:,.0f} tokens it never does"
        at = "at no batch" if self.batch is None else f"at a batch of {self.batch:,.0f}"
        return f"Decode with {context_tokens:,} tokens of context turns compute-bound {at}{limit}."


def _turning_point(deployment: Deployment, step: PassRoofline, roof: Roof) -> TurningPoint:
    """Return where decode turns compute-bound: the whole step against the fastest unit that it multiplies on."""
    peak = max(operator.peak_flop_per_s for operator in step.operators)
    bandwidth = roof.bandwidth_bytes_per_s
    batch = crossover_batch(
        deployment.model,
        step.context_tokens,
        peak,
        bandwidth,
        weight_dtype=deployment.weight_dtype,
        kv_dtype=deployment.kv_dtype,
    )
    longest = longest_compute_bound_context(deployment.model, peak, bandwidth, kv_dtype=deployment.kv_dtype)
    return TurningPoint(batch, longest if math.isfinite(longest) else None)


def _lines(roof: Roof) -> list[RoofLine]:
    return [
        RoofLine(
            f"{name} {digits(peak / TERA)}" + (" measured" if roof.is_measured else ""),
            roof.bandwidth_bytes_per_s,
            peak,
            roof.is_measured,
        )
        for name, peak in roof.peak_flop_per_s.items()
    ]


def _marks(one: PassRoofline) -> list[Mark]:
    return [
        Mark(
            letter,
            words_of(operator.name),
            one.phase,
            operator.work.intensity_flop_per_byte,
            operator.achieved_flop_per_s,
            operator.share_fraction,
        )
        for letter, operator in _assign_letters(one)
        if operator.work is not None
    ]


def _assign_letters(one: PassRoofline) -> list[tuple[str, RooflineOperator]]:
    """Return letters for operators with work, blanks for others."""
    letters = iter(_LETTERS[one.phase])
    return [(next(letters) if operator.work else "", operator) for operator in one.operators]


def _table(one: PassRoofline) -> Table:
    title = f"{one.num_sequences} x {one.context_tokens} tokens of context"
    title = f"Decode step, {title}" if one.phase == "decode" else f"Prompt, {one.context_tokens} tokens"
    header = columns(" | operator | flop/byte> | bound | roof allows> | predicted | of the roof> | share>")
    return Table(
        header, tuple(_row(letter, operator) for letter, operator in _assign_letters(one)), title=title
    )


def _row(letter: str, operator: RooflineOperator) -> tuple[str, ...]:
    work = operator.work
    return (
        letter,
        words_of(operator.name),
        digits(work.intensity_flop_per_byte) if work else MISSING,
        operator.bound,
        show(operator.floor_s, TIME) if work else MISSING,
        show_quantity(operator.predicted_s, TIME),
        percent(operator.roof_fraction) if work else MISSING,
        percent(operator.share_fraction),
    )


def _plot(marks: Sequence[Mark], roofs: Sequence[Roof]) -> str:
    points = [PlotPoint(mark.intensity_flop_per_byte, mark.flop_per_s, mark.letter) for mark in marks]
    low = min(point.x for point in points) / _MARGIN
    high = max(point.x for point in points) * _MARGIN
    floor = min(point.y for point in points) / _MARGIN
    for line in sorted((line for roof in roofs for line in _lines(roof)), key=lambda x: not x.is_measured):
        for x in np.geomspace(low, high, _ROOF_POINTS).tolist():
            y = min(line.peak_flop_per_s, x * line.bandwidth_bytes_per_s)
            if y >= floor:
                points.append(PlotPoint(x, y, _ROOF_MARKS[line.is_measured]))
    return scatter(points, PlotAxis("flop per byte"), PlotAxis("TFLOP/s", TERA), height=16)


def _roof_words(roof: Roof) -> str:
    peaks = ", ".join(
        f"{name} {digits(peak / TERA)} TFLOP/s (ridge {digits(peak / roof.bandwidth_bytes_per_s)} flop/byte)"
        for name, peak in roof.peak_flop_per_s.items()
    )
    return f"{_ROOF_MARKS[roof.is_measured]} {roof.name}: {show(roof.bandwidth_bytes_per_s, RATE)}, {peaks}"


def _roof_fields(roof: Roof) -> dict[str, object]:
    ridges = {name: peak / roof.bandwidth_bytes_per_s for name, peak in roof.peak_flop_per_s.items()}
    return pick_attributes(roof, "name bandwidth_bytes_per_s peak_flop_per_s") | {
        "ridge_flop_per_byte": ridges
    }


def _pass_fields(one: PassRoofline) -> dict[str, object]:
    return pick_attributes(one, "phase num_sequences context_tokens predicted_s floor_s")


def _fields(operator: RooflineOperator) -> dict[str, object]:
    """Return the figures of an operator; those of work are None if it has no work."""
    of_work = ("flop", "num_bytes", "intensity_flop_per_byte")
    with_work = ("floor_s", "achieved_flop_per_s", "roof_fraction")
    known: dict[str, object] = dict.fromkeys((*of_work, *with_work))
    if operator.work:
        known = pick_attributes(operator.work, *of_work) | pick_attributes(operator, *with_work)
    return {
        "operator": operator.name,
        **pick_attributes(operator, "phase bound predicted_s share_fraction"),
        **known,
    }


def occupancy_answer(
    found: Occupancy, limits: SmLimits, inputs: Mapping[str, object], notes: tuple[str, ...]
) -> Answer:
    """Return blocks per SM, what ends first, and what each resource alone would allow."""
    blocks = "1 block" if found.blocks_per_sm == 1 else f"{found.blocks_per_sm} blocks"
    headline = (
        f"{blocks} per SM, {found.warps_per_sm} of {found.max_warps_per_sm} warps: "
        f"occupancy {percent(found.fraction)}, limited by {' and '.join(found.limits)}"
    )
    rows = tuple((name, str(count)) for name, count in found.blocks_by_limit.items())
    left = (
        f"{digits(found.shared_bytes_left / KIB)} of {digits(limits.shared_bytes / KIB)} KiB of shared memory stay "
        "free on each SM; a block's share includes what the driver reserves."
    )
    return Answer(
        result={
            "occupancy": {
                "blocks_per_sm": found.blocks_per_sm,
                "warps_per_sm": found.warps_per_sm,
                "max_warps_per_sm": found.max_warps_per_sm,
                "occupancy_fraction": found.fraction,
                "limited_by": found.limits,
                "blocks_by_limit": found.blocks_by_limit,
                "shared_bytes_left": found.shared_bytes_left,
            },
            "sm_limits": limits,
        },
        inputs=inputs,
        blocks=(
            Paragraph(headline, emphasis=True),
            Table(columns("resource | blocks it allows>"), rows),
            Paragraph(left),
        ),
        notes=notes,
    )
