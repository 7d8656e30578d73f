"""Conversion of typed options about a workstation into a question for the planner."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from advisor.ask.measures import parse_watts, positive
from advisor.ask.names import names_of, release_notes
from advisor.ask.options import SharedOptions
from advisor.ask.own_data import given_calibration, kept_prices
from advisor.catalog import accelerators, engines, models
from advisor.catalog.architectures import class_support, class_words
from advisor.catalog.dtypes import known_dtype
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.schema import Model
from advisor.commands.build.options import BuildConditions, BuildInput
from advisor.simulator.layout import check_generates
from advisor.workstation.assembly import Circuit, Setting
from advisor.workstation.candidates import SearchLimits
from advisor.workstation.economics import usual_ownership
from advisor.workstation.images import usual_image
from advisor.workstation.performance import ENGINES, IMAGES, MachineLoad
from advisor.workstation.plan import Question

_CIRCUIT: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*V?\s*[/x, ]\s*(\d+(?:\.\d+)?)\s*A?\s*", re.IGNORECASE)
_VOLTS: Final = (90.0, 480.0)


def parse_circuit(text: str) -> Circuit:
    """Return a wall circuit written 120V/15A.

    Raises: AdvisorError: it is written otherwise, or is no circuit of a building.
    """
    match = _CIRCUIT.fullmatch(text)
    if match is None:
        raise AdvisorError(
            f"--circuit {text}: not a circuit",
            why="volts and amperes",
            fix="e.g. --circuit 120V/15A or 230V/16A",
        )
    volts = float(match.group(1))
    amps = float(match.group(2))
    if not (_VOLTS[0] <= volts <= _VOLTS[1] and 5 <= amps <= 125):
        raise AdvisorError(
            f"--circuit {text} is out of range",
            why="a wall has 90 to 480 V and 5 to 125 A",
            fix="e.g. --circuit 120V/15A or 230V/16A",
        )
    return Circuit(volts, amps)


def question_of(
    typed: BuildConditions, wishes: BuildInput, shared: SharedOptions
) -> tuple[Question, tuple[str, ...]]:
    """Return the question, names resolved, and notes on what was understood.

    Raises: AdvisorError and its kinds: something typed is missing, malformed or unknown.
    """
    chosen = [accelerators.get(name, any_memory=True) for name in names_of(wishes.gpu, "--gpu")]
    load, note = _load_of(typed)
    load = replace(load, calibration=given_calibration(shared.calibration))
    question = Question(
        load=load,
        budget_usd=_positive(wishes.budget, "--budget", "8600"),
        target_tokens_per_s=_positive(wishes.target_tokens_per_s, "--target-tokens-per-s", "20"),
        setting=_setting_of(typed),
        limits=SearchLimits(
            max_cards=wishes.max_gpus, accelerators=tuple(choice.record.id for choice in chosen)
        ),
        use=usual_ownership(shared.as_of, typed.hours_per_day, typed.years, typed.electricity, typed.resale),
        as_of=shared.as_of,
        top=wishes.top,
        seed=shared.seed,
        systems=wishes.max_gpus > 0,
        used=typed.used,
        price_cache=kept_prices(),
    )
    return question, tuple(filter(None, (note, *(choice.note for choice in chosen))))


def _load_of(typed: BuildConditions) -> tuple[MachineLoad, str]:
    if typed.model is None:
        raise AdvisorError(
            "--model is missing", why="a machine is planned for a model", fix="e.g. --model 70b --budget 8600"
        )
    found = models.get(typed.model)
    makes_images = found.record.workload == "diffusion"
    if found.record.workload != "decoder" and not makes_images:
        raise AdvisorError(
            f"{found.record.id} writes no text",
            why=f"workstations are planned for language and image models; this one is of kind {found.record.workload}",
            fix="--model with a language model, e.g. 70b, or an image model, e.g. flux.1-dev",
        )
    if makes_images:
        usual_image(found.record)
    else:
        check_generates(found.record)
    precision, format_note = known_dtype(typed.precision)
    engine = None
    if typed.engine is not None:
        engine = engines.get(engines.split_release(typed.engine)[0]).record.id
    classes = () if makes_images else _class_notes(found.record, (engine,) if engine else ENGINES)
    load = MachineLoad(
        found.record,
        typed.concurrency,
        typed.input_tokens,
        typed.output_tokens,
        IMAGES if makes_images else typed.workload,
        precision,
        engine,
    )
    told = (found.note, format_note, _window_note(load), *classes, *release_notes(found.record, typed.engine))
    return load, "; ".join(filter(None, told))


def _window_note(load: MachineLoad) -> str:
    """Return words on requests that are longer than the window of their model; empty if they are not."""
    longest = load.model.max_context_tokens
    if longest is None or load.workload == IMAGES or load.context_tokens <= longest:
        return ""
    return (
        f"a request of {load.context_tokens:,} tokens exceeds the {longest:,} of {load.model.id}: engines refuse it "
        "unless its window is extended, and speeds take it as if it were"
    )


def _class_notes(model: Model, names: Sequence[str]) -> tuple[str, ...]:
    """Return a note for each engine that does not have the class of the model.

    Raises: InfeasibleError: every engine refuses the class.
    """
    found = [(engine, class_support(engine, model)) for engine in map(engines.by_id, names)]
    words = tuple(filter(None, (class_words(one, engine.name) for engine, one in found)))
    if all(one.is_refused for _, one in found):
        raise InfeasibleError(
            f"no engine of a workstation starts {model.id}",
            why="; ".join(words),
            fix="another --model" if len(found) > 1 else "another --engine, or none",
            hint=f"advisor catalog engines --model {model.id} lists all engines",
        )
    return words


def _setting_of(typed: BuildConditions) -> Setting:
    circuit = Setting().circuit if typed.circuit is None else parse_circuit(typed.circuit)
    room_w = max(Setting().room_cooling_w, circuit.continuous_w)
    if typed.room_cooling is not None:
        room_w = parse_watts(typed.room_cooling, "--room-cooling")
    return Setting(
        circuit=circuit,
        min_lanes=typed.min_lanes,
        needs_ecc=typed.ecc,
        room_cooling_w=room_w,
        max_noise_db=Setting().max_noise_db if typed.max_noise is None else typed.max_noise,
        needs_quiet=typed.max_noise is not None,
    )


def _positive(value: float | None, option: str, example: str) -> float | None:
    return None if value is None else positive(value, option, example=example)
