"""Effect of a calibration on an answer: each figure as measured, with the datasheet's and the model's."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from advisor.catalog import accelerators
from advisor.catalog.schema import Calibration
from advisor.render.answer import Answer
from advisor.render.numbers import COMPUTE, RATE, digits, rung, show
from advisor.simulator.calibrated_device import BANDWIDTH, LINK, MeasuredFigure, accelerator_figures
from advisor.simulator.collectives.measured_pairs import PlacedGroup, placed_groups

_MANY: Final = 5
"""Number of names that a warning lists."""
_KEYS: Final = {BANDWIDTH: "bandwidth_bytes_per_s", LINK: "scale_up_link_bytes_per_s"}


def with_calibration(
    answer: Answer, calibration: Calibration | None, considered: Collection[str] = ()
) -> Answer:
    """Return the answer with a note on the figures that the calibration replaced, or a warning that it replaced none.

    `considered` are the ids of the accelerators that the answer is about; none stands for the whole catalog.
    """
    if calibration is None:
        return answer
    name = calibration.accelerator
    if considered and name not in considered:
        others = ", ".join(sorted(considered)[:_MANY]) + (", ..." if len(considered) > _MANY else "")
        text = f"the calibration is not used: it is of {name}, this answer is about {others}"
        return replace(answer, warnings=(*answer.warnings, text))
    figures = accelerator_figures(accelerators.by_id(name), calibration)
    groups = placed_groups(accelerators.by_id(name), calibration).values()
    differ = any(group.fraction < 1.0 for group in groups)
    limits = [point.limit_w for point in calibration.power_points]
    kept = calibration.sustained_flop_per_s
    server = calibration.server
    if not (figures or differ or limits or kept or server):
        text = "the calibration is not used: it holds neither a bandwidth nor a rate that predictions rest on"
        return replace(answer, warnings=(*answer.warnings, text))
    fields = {
        **({"calibration": calibration_fields(figures)} if figures else {}),
        **({"calibration_groups": list(groups)} if differ else {}),
    }
    notes = ((calibration_note(name, figures),) if figures else ()) + (
        (groups_note(groups),) if differ else ()
    )
    if server is not None:
        layout = f"TP{server.tensor_parallel} PP{server.pipeline_parallel} DP{server.data_parallel}"
        notes += (
            f"{server.model} ({server.weight_dtype}) with {server.engine} on {name}, {layout}: step times as its "
            "benchmark has them; other deployments are as predicted",
        )
    if kept:
        rates = ", ".join(f"{form} at {show(rate, COMPUTE)}" for form, rate in kept.items())
        notes += (f"{name} without a pause: products of prompts in {rates}",)
    if limits:
        notes += (
            f"{name} under a power limit: as measured at {len(limits)} from {limits[0]:g} to {limits[-1]:g} W",
        )
    return replace(answer, result={**answer.result, **fields}, notes=(*answer.notes, *notes))


def calibration_note(accelerator: str, figures: Sequence[MeasuredFigure]) -> str:
    """Return one line such as `h200-sxm calibrated: bandwidth 4.26 of 4.80 TB/s (x 0.91 of the model's), bf16 ...; ≈
    ...`."""
    first, *others = (_words(figure) for figure in figures)
    words = ", ".join([f"{first} of the model's)", *(f"{x})" for x in others)])
    return f"{accelerator} calibrated: {words}; ≈ stands for figures that rest on them"


def groups_note(groups: Collection[PlacedGroup]) -> str:
    """Return a line with the placement of groups of usual sizes, and the copy rate between their two most distant
    members."""
    largest = max(len(group.members) for group in groups)
    words = ", ".join(
        f"{','.join(map(str, group.members))} at {show(group.slowest_bytes_per_s, RATE)}"
        for group in groups
        if len(group.members) in (2, 4, 8, largest)
    )
    return f"links differ, so a group counts as on the GPUs that suit it best (set CUDA_VISIBLE_DEVICES): {words}"


def calibration_fields(figures: Sequence[MeasuredFigure]) -> dict[str, dict[str, float]]:
    """Return the figures for the JSON document, SI, by name and unit."""
    return {
        _KEYS.get(figure.name, f"{figure.name}_flop_per_s"): {
            "measured": figure.measured,
            "predicted": figure.predicted,
            "datasheet": figure.datasheet,
            "scale": figure.scale,
        }
        for figure in figures
    }


def _words(figure: MeasuredFigure) -> str:
    ladder = RATE if figure.name in _KEYS else COMPUTE
    factor, unit = rung(figure.datasheet, ladder)
    return (
        f"{figure.name} {digits(figure.measured / factor)} of {digits(figure.datasheet / factor)} {unit} "
        f"(x {figure.ratio:.2f}"
    )
