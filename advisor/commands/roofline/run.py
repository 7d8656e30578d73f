"""Answers of `advisor roofline`, from its options."""

from dataclasses import fields
from typing import Final

from advisor.ask.acts import option_of
from advisor.ask.deployment import USUAL_ENGINE
from advisor.ask.measures import parse_bytes
from advisor.ask.options import SharedOptions
from advisor.ask.own_data import given_calibration
from advisor.catalog import accelerators, models
from advisor.catalog.dtypes import known_dtype
from advisor.catalog.errors import AdvisorError
from advisor.catalog.schema import Accelerator, Calibration
from advisor.catalog.units import GB
from advisor.commands.roofline.options import RooflineInput
from advisor.commands.roofline.view import Roof, occupancy_answer, roofline_answer
from advisor.render.answer import Answer
from advisor.render.calibration_view import with_calibration
from advisor.render.document import pick_attributes
from advisor.render.numbers import digits
from advisor.simulator.calibrated_device import BANDWIDTH, accelerator_figures, calibrated_deployment
from advisor.simulator.deployment import Deployment, named_deployment
from advisor.simulator.device import device_of
from advisor.simulator.memory import weight_bytes
from advisor.simulator.occupancy import limits_of, occupancy
from advisor.simulator.step_roofline import PassRoofline, roofline_passes

_MODES: Final[dict[str, tuple[str, ...]]] = {
    "--occupancy": ("threads", "registers", "shared_memory"),
    "--op": ("shape", "dtype", "kv_heads", "causal", "tile", "gpus"),
    "--model": ("batch", "context", "weight_dtype"),
}
"""Options that act with another one only."""
_FORMATS = ("bf16", "fp16", "fp8", "int8", "fp6", "fp4")


def roofline(asked: RooflineInput, shared: SharedOptions) -> Answer:
    """Return operators of a model, one operator, or those of a profile on the roofline of one accelerator; the
    occupancy of a kernel; or the ridges of a card.

    Raises: AdvisorError: options of different questions are mixed, or the calibration is implausible.
        UnknownNameError: a name is in no record. InfeasibleError: the accelerator cannot be simulated.
    """
    mode = _mode(asked, shared.given)
    if mode == "--occupancy":
        return _answer_occupancy(asked)
    if mode == "--op":
        from advisor.commands.roofline.operator import answer_operator

        calibration = given_calibration(shared.calibration)
        answer = answer_operator(asked, calibration, shared.given)
        return with_calibration(answer, calibration, (accelerators.get(asked.gpu).record.id,))
    if asked.trace is not None:
        from advisor.commands.roofline.trace_view import answer_trace

        return answer_trace(asked.trace, asked.gpu)
    if asked.model is None:
        from advisor.commands.roofline.card import card_answer

        record, note = accelerators.get(asked.gpu)
        return card_answer(record, (note,) if note else ())
    return _answer_model(asked, asked.model, shared)


def _mode(asked: RooflineInput, given: frozenset[str]) -> str:
    """Return the option that says what is asked; empty for a card alone.

    Raises: AdvisorError: two of them are given, or an option that acts with another one only.
    """
    chosen = [
        name
        for name, value in (
            ("--occupancy", asked.occupancy),
            ("--op", asked.op),
            ("--trace", asked.trace),
            ("--model", asked.model),
        )
        if value
    ]
    if len(chosen) > 1:
        raise AdvisorError(
            f"{chosen[0]} and {chosen[1]} ask two questions",
            why="an answer is about a kernel's block, one operator, a profile or a model",
            fix=f"leave out {chosen[1]}",
        )
    mode = chosen[0] if chosen else ""
    for of, names in _MODES.items():
        for field in fields(RooflineInput):
            if field.name not in names:
                continue
            is_typed = field.name in given or getattr(asked, field.name) != field.default
            option = "SHAPE" if field.name == "shape" else option_of(field.name)
            if is_typed and of != mode:
                what = {
                    "": "a card alone",
                    "--op": "one operator",
                    "--model": "a model",
                    "--trace": "a profile",
                }.get(mode, "a block")
                raise AdvisorError(
                    f"{option} says nothing of {what}",
                    why=f"it acts with {of}",
                    fix=f"add {of}{'' if of == '--occupancy' else ' NAME'}, or leave out {option}",
                )
    return mode


def _answer_model(asked: RooflineInput, model: str, shared: SharedOptions) -> Answer:
    weight_dtype, format_note = known_dtype(asked.weight_dtype, "weight-dtype")
    record, note = accelerators.get(asked.gpu)
    engine = USUAL_ENGINE if USUAL_ENGINE in record.engines or not record.engines else record.engines[0]
    planned = named_deployment(model, record.id, engine, weight_dtype=weight_dtype)
    calibration = given_calibration(shared.calibration)
    deployment = calibrated_deployment(planned, calibration)
    passes = roofline_passes(deployment, asked.batch, asked.context, roof=device_of(record))
    answer = roofline_answer(
        deployment,
        passes,
        _roofs(record, passes, calibration),
        _inputs(deployment, asked),
        tuple(filter(None, (models.get(model).note, note, format_note))),
        _warnings(deployment),
    )
    return with_calibration(answer, calibration, (record.id,))


def _roofs(
    record: Accelerator, passes: tuple[PassRoofline, ...], calibration: Calibration | None
) -> list[Roof]:
    """Return the datasheet's roof, and the one that was measured, for the formats that operators multiply in."""
    device = device_of(record)
    used = {operator.peak_flop_per_s for one in passes for operator in one.operators}
    names: dict[float, str] = {}
    for name in _FORMATS:
        if device.peak_flop_per_s.get(name) in used:
            names.setdefault(device.peak_flop_per_s[name], name)
    peaks = {name: peak for peak, name in names.items()}
    roofs = [Roof("datasheet", device.bandwidth_bytes_per_s, peaks)]
    if calibration is not None:
        figures = {figure.name: figure.measured for figure in accelerator_figures(record, calibration)}
        known = {name: figures[name] for name in peaks if name in figures}
        if known or BANDWIDTH in figures:
            # A roof needs both its sides: what was not measured is as in the datasheet.
            bandwidth = figures.get(BANDWIDTH, device.bandwidth_bytes_per_s)
            roofs.append(Roof("measured", bandwidth, known or peaks))
    return roofs


def _inputs(deployment: Deployment, asked: RooflineInput) -> dict[str, object]:
    ids = {"model": deployment.model.id, "gpu": deployment.accelerator.id, "engine": deployment.engine.id}
    return (
        ids | pick_attributes(deployment, "weight_dtype kv_dtype") | pick_attributes(asked, "batch context")
    )


def _warnings(deployment: Deployment) -> tuple[str, ...]:
    needed = weight_bytes(deployment)
    held = deployment.accelerator.memory_bytes or 0.0
    if needed <= held:
        return ()
    return (
        f"{digits(needed / GB)} GB of weights do not fit the {digits(held / GB)} GB of one "
        f"{deployment.accelerator.id}: this is the roofline of a device that holds them",
    )


def _answer_occupancy(asked: RooflineInput) -> Answer:
    """Return the answer on how a kernel's blocks fill the SMs of a GPU.

    Raises: UnknownNameError: no accelerator is called so. AdvisorError: its limits are not known, or the block
        cannot be launched.
    """
    record, note = accelerators.get(asked.gpu)
    limits = limits_of(record.compute_capability)
    shared_bytes = round(parse_bytes(asked.shared_memory, "--shared-memory")) if asked.shared_memory else 0
    found = occupancy(limits, asked.threads, asked.registers, shared_bytes)
    inputs = {
        "gpu": record.id,
        "compute_capability": record.compute_capability,
        "threads_per_block": asked.threads,
        "registers_per_thread": asked.registers,
        "shared_bytes_per_block": shared_bytes,
    }
    return occupancy_answer(found, limits, inputs, (note,) if note else ())
