"""Model classes of engines in decisions: which candidates they exclude, and what an answer says about them."""

from collections.abc import Container, Iterable, Sequence
from typing import Final

from advisor.catalog.accelerators import all_accelerators
from advisor.catalog.architectures import (
    ClassSupport,
    class_support,
    class_words,
    files_in_words,
    last_release_with,
    needs_repository_code,
    plugin_of,
)
from advisor.catalog.context_scaling import can_open
from advisor.catalog.engines import all_engines, plans_on
from advisor.catalog.models import all_ids
from advisor.catalog.published import context_limits
from advisor.catalog.schema import Accelerator, Engine, Model
from advisor.decide.reason import (
    ArchitectureNotInEngine,
    FilesNotLoaded,
    NoAnswerError,
    NotSupported,
    UnsureClass,
)
from advisor.simulator.deployment import Deployment

_MOST_NAMED: Final = 3
"""Number of the newest accelerators that a way out names."""


def support_of(deployment: Deployment) -> ClassSupport:
    """Return whether the engine of a deployment loads the class of its model."""
    return class_support(deployment.engine, deployment.model, deployment.accelerator)


def check_classes(model: Model, engines: Iterable[Engine], chips: Iterable[Accelerator] = ()) -> None:
    """Refuse a question whose engines all lack the class of the model, whatever the hardware. The way out is an engine
    of one of `chips`, the accelerators that the question names; without any, of any accelerator.

    Raises: NoAnswerError: they do.
    """
    engines = tuple(engines)
    chips = tuple(chips)
    _check_files(model, engines, chips)
    used = _used_engines(engines)
    found = [(engine, class_support(engine, model)) for engine in engines if engine.id in used]
    if not found or not all(one.is_refused for _, one in found):
        return
    why = "; ".join(class_words(one, engine.name) for engine, one in found)
    able = [
        each.id
        for each in all_engines()
        if class_support(each, model).is_known and _is_planned(each, used, chips)
    ]
    able += [f"{engine.id}@{last}" for engine, _ in found if (last := last_release_with(engine, model))]
    names = " nor ".join(engine.name for engine, _ in found)
    raise NoAnswerError(
        f"neither {names} starts {model.id}" if len(found) > 1 else f"{names} does not start {model.id}",
        why=why,
        fix=f"--engine {' or '.join(able)}" if able else "another --model",
        reasons=(ArchitectureNotInEngine(why),),
    )


def _check_files(model: Model, engines: Sequence[Engine], chips: Sequence[Accelerator]) -> None:
    """Refuse a question none of whose engines loads the checkpoint's files on hardware that it names.

    Raises: NoAnswerError: none does.
    """
    loaders = [engine for engine in engines if model.file_format in engine.file_formats]
    if not model.file_format or any(_is_planned(one, _used_engines(engines), chips) for one in loaders):
        return
    why = files_in_words(model.file_format)
    on = f" on {', '.join(chip.id for chip in chips)}" if chips else ""
    raise NoAnswerError(
        f"no engine that is searched loads {model.checkpoint or model.name}{on}",
        why=why,
        fix=way_out(model),
        reasons=(FilesNotLoaded(why),),
    )


def way_out(model: Model) -> str:
    """Return what helps where no engine on the hardware in question loads a checkpoint's files."""
    loaders = [engine for engine in all_engines() if model.file_format in engine.file_formats]
    chips = sorted(
        (
            chip
            for chip in all_accelerators()
            for engine in loaders
            if plans_on(engine, chip) and chip.released
        ),
        key=lambda chip: chip.released,
        reverse=True,
    )
    other = f"--model {model.id}" if model.id in all_ids() else "a checkpoint of the model in another format"
    newest = ", ".join(chip.id for chip in chips[:_MOST_NAMED])
    if newest:
        return f"{other}, or an accelerator that {loaders[0].name} runs on, as {newest}"
    stated = f"; advisor simulate serve --engine {loaders[0].id} takes it as stated" if loaders else ""
    return f"{other}{stated}"


def _is_planned(engine: Engine, used: Container[str], chips: Sequence[Accelerator]) -> bool:
    """Whether plans are made with an engine on one of the accelerators; without any, whether it is among `used`."""
    return any(plans_on(engine, chip) for chip in chips) if chips else engine.id in used


def _used_engines(engines: Iterable[Engine]) -> set[str]:
    """Return the engines with which plans are made on some accelerator, and those that a question names."""
    ranked = {name for chip in all_accelerators() if chip.is_ranked for name in chip.engines}
    return ranked | {engine.id for engine in engines if engine.is_planned_if_named}


def check_windows(
    model: Model, engines: Iterable[Engine], tokens: float, chips: Iterable[Accelerator] = ()
) -> None:
    """Refuse requests that no allowed engine can serve, as no option is known that opens the window that they need.
    The way out is an engine of one of `chips`, as in `check_classes`.

    Raises: NoAnswerError: there is none.
    """
    engines = tuple(engines)
    used = _used_engines(engines)
    asked = [
        engine for engine in engines if engine.id in used and not class_support(engine, model).is_refused
    ]
    if not asked or any(can_open(engine, model, tokens) for engine in asked):
        return
    native = context_limits(model).native or 0
    names = " nor ".join(engine.name for engine in asked)
    chips = tuple(chips)
    able = [
        each.id
        for each in all_engines()
        if can_open(each, model, tokens)
        and not class_support(each, model).is_refused
        and _is_planned(each, used, chips)
    ]
    why = f"requests have up to {tokens:,.0f} tokens; beyond {native:,} no option of {names} is known"
    raise NoAnswerError(
        f"no option is known that opens a window of {tokens:,.0f} tokens for {model.id}",
        why=why,
        fix=f"--engine {' or '.join(able)}" if able else "shorter requests",
        reasons=(NotSupported(why),),
    )


def refusal(
    model: Model, engines: Iterable[Engine], accelerator: Accelerator
) -> ArchitectureNotInEngine | FilesNotLoaded | None:
    """Return the reason if every engine that runs on an accelerator refuses the class of a model or its files; else
    None."""
    found = [
        (engine, class_support(engine, model, accelerator))
        for engine in engines
        if plans_on(engine, accelerator)
    ]
    if not found or not all(one.is_refused for _, one in found):
        return None
    if all(one.file_format for _, one in found):
        return FilesNotLoaded(files_in_words(model.file_format))
    return ArchitectureNotInEngine("; ".join(class_words(one, engine.name) for engine, one in found))


def doubt_of(deployment: Deployment) -> UnsureClass | None:
    """Return why the engine may not start the model, or not at the predicted speed; None if it has the class."""
    words = class_words(support_of(deployment), deployment.engine.name)
    return UnsureClass(words) if words else None


def class_notes(
    model: Model, engines: Iterable[Engine], accelerators: Iterable[Accelerator]
) -> tuple[str, ...]:
    """Return a note for each engine that runs on one of the accelerators and does not have the class of the model, and
    one on code of the model's repository that engines would run."""
    chips = tuple(accelerators)
    engines = tuple(engines)
    found: dict[str, None] = {}
    for engine in engines:
        able = [chip for chip in chips if plans_on(engine, chip)]
        # The list of a plug-in counts only if no other accelerator runs the engine.
        plain = [chip for chip in able if not plugin_of(chip)]
        for chip in plain or able:
            found[class_words(class_support(engine, model, chip), engine.name)] = None
    trusting = [
        engine.flags.repository_code
        for engine in engines
        if engine.flags.repository_code
        and any(plans_on(engine, chip) for chip in chips)
        and needs_repository_code(model, engine.id)
        and not class_support(engine, model).is_refused
    ]
    code = (
        f"{model.id} loads only with {trusting[0]}: the engine then runs Python files of the model's repository with "
        "your rights; read them and pin their revision"
        if trusting
        else ""
    )
    return tuple(filter(None, (*found, code)))
