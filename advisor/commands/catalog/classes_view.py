"""Answer on which engines load the class of a model."""

from collections.abc import Mapping, Sequence

from advisor.catalog.architectures import class_of, class_support, needs_repository_code, output_of
from advisor.catalog.launch_options import launch_options
from advisor.catalog.schema import Accelerator, Engine, Model
from advisor.render.answer import Answer, Paragraph, Table, columns
from advisor.render.document import pick_attributes
from advisor.render.numbers import MISSING

_OUTPUTS = {
    "tokens": "",
    "blocks": "It writes blocks of tokens by diffusion, which is not priced.",
    "nothing": "It writes no text, so that no serving engine is planned for it.",
}
_TRUST = (
    "repository code: the engine loads it with --trust-remote-code, which runs Python files of the model's repository; "
    "read them first."
)


def model_classes_answer(
    engines: Sequence[Engine],
    model: Model,
    chip: Accelerator | None,
    filters: Mapping[str, object],
    notes: tuple[str, ...],
) -> Answer:
    """Return a row for each engine with its verdict on the class of a model, on one accelerator if it is named."""
    found = [(engine, class_support(engine, model, chip)) for engine in engines]
    trusted = {
        engine.id
        for engine, _ in found
        if engine.flags.repository_code and needs_repository_code(model, engine.id)
    }
    name = class_of(model)
    rows = tuple(
        (
            engine.id,
            one.verdict,
            one.version or MISSING,
            one.since or MISSING,
            "yes" if engine.id in trusted and not one.is_refused else MISSING,
            one.note or MISSING,
        )
        for engine, one in found
    )
    where = f" on {chip.id}" if chip else ""
    words = [
        f"{model.id} has the class {name}." if name else f"{model.id} has no checkpoint that names a class.",
        _OUTPUTS[output_of(model)],
        "native: the engine has the class; transformers: it runs that library's class, at a speed that is not "
        "modelled; no: it refuses; unknown: no list that was read settles it. Read in released code, not started.",
        _TRUST if any(row[4] == "yes" for row in rows) else "",
    ]
    return Answer(
        result={
            "model": model.id,
            "architecture": name,
            "output": output_of(model),
            "engines": [
                {"engine": engine.id}
                | pick_attributes(one, "verdict version since note source")
                | {"needs_repository_code": engine.id in trusted, "options_of": _release(engine)}
                for engine, one in found
            ],
        },
        inputs=filters,
        blocks=(
            Table(
                columns("engine | class | release | came~ | repository code | remark~"),
                rows,
                title=f"Engines that load {name or model.id}{where}",
            ),
            *(Paragraph(each) for each in words if each),
        ),
        records="engines",
        notes=notes,
    )


def _release(engine: Engine) -> str | None:
    """Return the release whose options are kept, and so printed."""
    known = launch_options().get(engine.id)
    return known.release if known else None
