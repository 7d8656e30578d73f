"""The commands that can be swept: their options as fields, and one question as one flat row."""

import inspect
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from advisor.ask.inputs import fill_inputs, option_name, parameters_of
from advisor.ask.measures import parse_day
from advisor.ask.options import Effect, SharedOptions
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.cli.command import Studied, commands, effect_of
from advisor.cli.typed import check_shared
from advisor.render.answer import Answer
from advisor.sweep.fields import Field
from advisor.sweep.journal import Row

_SHARED: Final = ("seed", "as_of", "offline", "calibration")
_KINDS: Final = (str, int, float, bool, Path)
"""Types that a TOML value becomes; whatever else an option is, it is typed as text."""
_RUN_TIMES: Final = "wall_s"
"""How long a computation took is no result: it differs from run to run."""


@cache
def targets() -> Mapping[str, Studied]:
    """Return the commands that a study may ask, by name."""
    return {name: found.studied for name, found in sorted(commands().items()) if found.studied is not None}


@cache
def fields_of(command: str) -> Mapping[str, Field]:
    """Return the options of a command that a study may set, shared ones included."""
    target = targets()[command]
    own = [
        p
        for p in parameters_of(commands()[command].inputs)
        if p.name not in target.left_out and effect_of(p.annotation) in (None, Effect.READS)
    ]
    common = [p for p in parameters_of(SharedOptions) if p.name in _SHARED]
    found = [_field(parameter, is_file=parameter.name in target.files) for parameter in own + common]
    return {field.name: field for field in found}


def ask(command: str, options: Mapping[str, Any]) -> Row:
    """Return the row of one question: inputs as given, status, and the answer's numbers; failures are rows too.

    status: ok, infeasible (nothing satisfies it), error (a mistake in the options) or failed (a defect).
    """
    row: dict[str, Any] = {f"in_{name}": value for name, value in options.items()} | {
        "status": "ok",
        "reason": "",
    }
    try:
        answer = _answer(command, options)
        return row | _numbers(answer, targets()[command])
    except AdvisorError as error:
        status = "infeasible" if error.exit_code == InfeasibleError.exit_code else "error"
        return row | {"status": status, "reason": ": ".join(filter(None, (error.what, error.why)))}
    except Exception as error:
        return row | {"status": "failed", "reason": " ".join(f"{type(error).__name__}: {error}".split())}


def installed_versions() -> tuple[str, str, str]:
    """Return program, catalog and refreshed prices of this process."""
    from advisor import __version__
    from advisor.ask.own_data import cache_folder
    from advisor.refresh.price_cache import PriceCache
    from advisor.render.document import catalog_version

    return __version__, catalog_version(), PriceCache(cache_folder()).version


def _answer(command: str, options: Mapping[str, Any]) -> Answer:
    fields = fields_of(command)
    found = commands()[command]
    typed: dict[str, Any] = {
        fields[name].parameter: Path(value)
        if fields[name].kind is Path and not fields[name].or_name
        else value
        for name, value in options.items()
    }
    if "as_of" in typed:
        typed["as_of"] = parse_day(typed["as_of"], "--as-of")
    shared = check_shared(fill_inputs(SharedOptions, typed, SharedOptions(quiet=True, no_input=True)))
    return found.answer(fill_inputs(found.inputs, typed), shared)


def _numbers(answer: Answer, target: Studied) -> dict[str, Any]:
    """Return the answer in one flat row; lists of records have no place in it but for the best of one."""
    from advisor.render.document import flatten, to_json

    row = flatten(to_json(dict(answer.result)))
    if target.best_of:
        records = answer.result[target.best_of]
        best = records[0] if isinstance(records, list | tuple) and records else {}
        row |= flatten(to_json(best), target.best_of)
    return {name: value for name, value in row.items() if not name.endswith(_RUN_TIMES)}


def _field(parameter: inspect.Parameter, *, is_file: bool) -> Field:
    """Return the field of an option, from the annotation that makes it one."""
    annotation = parameter.annotation
    limits = None
    if get_origin(annotation) is Annotated:
        annotation, limits = get_args(annotation)[:2]
    if get_origin(annotation) in (UnionType, Union):
        (annotation,) = (kind for kind in get_args(annotation) if kind is not NoneType)
    literal = get_origin(annotation) is Literal
    return Field(
        option_name(parameter),
        Path if is_file else annotation if annotation in _KINDS else str,
        choices=tuple(get_args(annotation)) if literal else (),
        low=getattr(limits, "min", None),
        high=getattr(limits, "max", None),
        required=parameter.default is inspect.Parameter.empty,
        or_name=is_file,
        parameter=parameter.name,
    )
