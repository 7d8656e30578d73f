"""How a frozen dataclass declares the options of a question, and how values become the dataclass again.

A field that is `Annotated[..., Option(...)]` or `Argument(...)` is an option. A field whose type is another dataclass
is a group of options, whole or, as `Annotated[Group, only("name", ...)]`, in part. Any other field is no option.
"""

import inspect
from collections.abc import Collection, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

T = TypeVar("T")


def only(*names: str) -> tuple[str, ...]:
    """Return the options of a group that a command has, in the order of its help; the others keep their defaults."""
    return names


def without(group: type, *names: str) -> tuple[str, ...]:
    """Return all options of a group except `names`."""
    return tuple(field.name for field in fields(group) if field.name not in names)


def parameters_of(inputs: type, default: object = None) -> Iterator[inspect.Parameter]:
    """Yield the options of a dataclass, groups expanded in place; `default` is an instance with other defaults."""
    for field, group, names in options_and_groups(inputs):
        value = _default(field) if default is None else getattr(default, field.name)
        if group is None:
            yield inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=field.type
            )
            continue
        inner = parameters_of(group, None if value is inspect.Parameter.empty else value)
        if names:
            by_name = {parameter.name: parameter for parameter in inner}
            inner = iter([by_name[name] for name in names])
        yield from inner


def fill_inputs(inputs: type[T], values: Mapping[str, Any], default: object = None) -> T:
    """Return the dataclass with what was typed; what is not among the values keeps its default."""
    made: dict[str, Any] = {}
    for field, group, names in options_and_groups(inputs):
        value = _default(field) if default is None else getattr(default, field.name)
        if group is not None:
            own = {name: values[name] for name in names or values if name in values}
            made[field.name] = fill_inputs(group, own, None if value is inspect.Parameter.empty else value)
        elif field.name in values and not (values[field.name] is None and field.default is MISSING):
            made[field.name] = values[field.name]
    return inputs(**made) if default is None else replace(default, **made)  # type: ignore[type-var, return-value]


def options_and_groups(inputs: type) -> Iterator[tuple[Field[Any], type | None, tuple[str, ...]]]:
    """Yield the fields that are options, or groups of them with the names of those that count; none for all."""
    for field in fields(inputs):
        kind: Any = field.type
        if is_dataclass(kind):
            yield field, kind, ()  # type: ignore[misc]
        elif get_origin(kind) is Annotated:
            first, second, *_ = get_args(kind)
            yield (field, first, second) if is_dataclass(first) else (field, None, ())  # type: ignore[misc]


def _default(field: Field[Any]) -> Any:
    """Return the default that Typer takes: None for a value that is made again for each call."""
    if field.default_factory is not MISSING:
        return None
    return inspect.Parameter.empty if field.default is MISSING else field.default


def given_options(inputs: Any, typed: Collection[str] = frozenset(), default: Any = None) -> list[str]:
    """Return the names of the options that were typed or differ from their default, each member of a group by
    itself."""
    plain = type(inputs)() if default is None else default
    names = []
    for field in fields(inputs):
        value = getattr(inputs, field.name)
        usual = getattr(plain, field.name)
        if is_dataclass(usual):
            names += given_options(value, typed, usual)
        elif value != usual or field.name in typed:
            names.append(field.name)
    return names


def given_value(inputs: Any, name: str) -> Any:
    """Return the value of an option by its name, whatever group it is a member of; None if there is no such option."""
    for field in fields(inputs):
        value = getattr(inputs, field.name)
        if field.name == name:
            return value
        if is_dataclass(value) and (inner := given_value(value, name)) is not None:
            return inner
    return None


def choices_of(annotation: Any) -> tuple[str, ...]:
    """Return the words that an option of this type takes, alone or in a list; empty if it takes others."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return next(filter(None, map(choices_of, get_args(annotation))), ())


def option_name(parameter: inspect.Parameter) -> str:
    """Return the long name of an option as a study or Python writes it: `--max-gpus` is max_gpus."""
    declared = next(iter(get_args(parameter.annotation)[1:]), None)
    # In an annotation the first name takes the place of the default.
    names = (getattr(declared, "default", ""), *(getattr(declared, "param_decls", None) or ()))
    long = [str(name) for name in names if str(name).startswith("--")]
    return long[0].split("/")[0].removeprefix("--").replace("-", "_") if long else parameter.name
